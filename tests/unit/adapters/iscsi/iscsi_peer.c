/* iscsi_peer.c - see iscsi_peer.h. */
#include "iscsi_peer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig rig;
uint8_t memory[DATA_MAX], seen[DATA_MAX];

/* --- the target's side --- */

uint32_t
get_32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void
put_32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* False: nothing is there. */
static bool
peer_exactly(void *out, size_t length)
{
	size_t got = 0;

	while (got < length) {
		ssize_t part = recv(rig.peer, (uint8_t *)out + got, length - got, MSG_DONTWAIT);

		if (part <= 0 && got == 0)
			return false;
		if (part <= 0) { /* the rest is still on our side */
			assert_int_equal(iscsi_connection_flush(rig.connection), 0);
			continue;
		}
		got += (size_t)part;
	}
	return true;
}

static void
check_digest(bool on, const void *bytes, size_t length, const void *padding, size_t padding_bytes)
{
	uint8_t expected[4], sent[4];
	uint32_t digest = iscsi_digest_add(ISCSI_DIGEST_START, bytes, length);

	if (!on)
		return;
	iscsi_digest_encode(iscsi_digest_add(digest, padding, padding_bytes), expected);
	assert_true(peer_exactly(sent, 4));
	assert_memory_equal(sent, expected, 4);
}

bool
peer_receive(struct pdu *pdu)
{
	uint8_t padding[4] = { 0 };

	if (!peer_exactly(pdu->header, 48))
		return false;
	check_digest(rig.login.negotiated.header_digest, pdu->header, 48, "", 0);
	pdu->length = get_32(pdu->header + 4) & 0xffffff;
	assert_true(pdu->length <= sizeof(pdu->data));
	if (pdu->length > 0) {
		assert_true(peer_exactly(pdu->data, pdu->length));
		if (iscsi_padding_bytes(pdu->length) > 0)
			assert_true(peer_exactly(padding, iscsi_padding_bytes(pdu->length)));
		check_digest(rig.login.negotiated.data_digest, pdu->data, pdu->length, padding,
			     iscsi_padding_bytes(pdu->length));
	}
	return true;
}

void
flush_and_receive(struct pdu *pdu)
{
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_true(peer_receive(pdu));
}

void
peer_write(const void *bytes, size_t length)
{
	assert_int_equal(write(rig.peer, bytes, length), length);
}

static void
peer_send_digest(bool on, const void *bytes, size_t length)
{
	uint8_t digest[4];

	iscsi_digest_encode(iscsi_digest_add(ISCSI_DIGEST_START, bytes, length), digest);
	if (on)
		peer_write(digest, 4);
}

void
start_header(uint8_t out[48], uint8_t opcode, uint8_t flags, uint32_t tag)
{
	memset(out, 0, 48);
	out[0] = opcode;
	out[1] = flags;
	put_32(out + 16, tag);
	put_32(out + 24, rig.stat_sn);
	put_32(out + 28, 1);
	put_32(out + 32, rig.login.max_cmd_sn);
}

void
peer_send(uint8_t header[48], const void *data, uint32_t length)
{
	header[5] = (uint8_t)(length >> 16);
	header[6] = (uint8_t)(length >> 8);
	header[7] = (uint8_t)length;
	peer_write(header, 48);
	peer_send_digest(rig.login.negotiated.header_digest, header, 48);
	if (length > 0) {
		peer_write(data, length);
		peer_send_digest(rig.login.negotiated.data_digest, data, length);
	}
}

void
peer_respond(uint32_t tag, uint8_t response, uint8_t status)
{
	uint8_t header[48];

	start_header(header, 0x21, 0x80, tag);
	header[2] = response;
	header[3] = status;
	rig.stat_sn++;
	peer_send(header, NULL, 0);
}

void
peer_r2t(uint32_t tag, uint32_t target_tag, uint32_t number, uint32_t offset, uint32_t wanted)
{
	uint8_t header[48];

	start_header(header, 0x31, 0x80, tag);
	put_32(header + 20, target_tag);
	put_32(header + 36, number);
	put_32(header + 40, offset);
	put_32(header + 44, wanted);
	peer_send(header, NULL, 0);
}

void
peer_data_in(uint32_t tag, uint8_t flags, uint32_t number, uint32_t offset, const void *data,
	     uint32_t length)
{
	uint8_t header[48];

	start_header(header, 0x25, flags, tag);
	put_32(header + 36, number);
	put_32(header + 40, offset);
	peer_send(header, data, length);
}

void
peer_ping(uint32_t target_tag)
{
	uint8_t header[48];

	start_header(header, 0x20, 0x80, ISCSI_NO_TAG);
	put_32(header + 20, target_tag);
	peer_send(header, NULL, 0);
}

/* --- our side --- */

static void
on_done(struct iscsi_task *task)
{
	rig.done++;
}

void
on_managed(void *owner, uint8_t response)
{
	rig.managed++;
	rig.management_response = response;
}

void
set_up_on(const int sockets[2], struct iscsi_negotiated agreed)
{
	int bytes = 1 << 20;

	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	memset(&rig, 0, sizeof(rig));
	rig.peer = sockets[1];
	rig.stat_sn = 100;
	rig.login = (struct iscsi_login){
		.outcome = LOGIN_COMPLETE,
		.stat_sn = 99,
		.exp_cmd_sn = 1,
		.max_cmd_sn = 64,
		.negotiated = agreed,
	};
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	assert_non_null(rig.connection);
	for (uint32_t i = 0; i < DATA_MAX; i++)
		memory[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(seen, 0, sizeof(seen));
}

void
set_up(struct iscsi_negotiated agreed)
{
	int sockets[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	set_up_on(sockets, agreed);
}

void
tear_down(void)
{
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
}

const struct iscsi_negotiated plain = {
	.first_burst_bytes = 65536,
	.max_burst_bytes = 262144,
	.target_segment_bytes = 8192,
	.initial_r2t = true,
	.immediate_data = true,
};

void
submit(struct job *job, bool write, uint32_t length)
{
	static const size_t odd[3] = { 1, 0, 1021 };
	size_t at = 0;

	memset(job, 0, sizeof(*job));
	scsi_data_task(&job->scsi, write, false, false, 0, length / 512, length);
	for (int i = 0; i < 3; i++) {
		job->iov[i] = (struct iovec){ memory + at, odd[i] };
		at += odd[i];
	}
	job->iov[3] = (struct iovec){ memory + at, length - at };
	job->task.scsi = &job->scsi;
	job->task.data.iov = job->iov;
	job->task.done = on_done;
	iscsi_connection_submit(rig.connection, &job->task);
}

uint32_t
receive_command(void)
{
	static struct pdu pdu;

	flush_and_receive(&pdu);
	assert_int_equal(pdu.header[0], 0x01);
	return get_32(pdu.header + 16);
}

int
receive(void)
{
	return iscsi_connection_receive(rig.connection);
}

int
receive_burst(uint32_t target_tag, uint32_t offset, uint32_t length)
{
	static struct pdu pdu;
	uint32_t at = offset;

	for (int count = 0;; count++) {
		flush_and_receive(&pdu);
		assert_int_equal(pdu.header[0], 0x05);
		assert_int_equal(get_32(pdu.header + 20), target_tag);
		assert_int_equal(get_32(pdu.header + 36), count);
		assert_int_equal(get_32(pdu.header + 40), at);
		assert_true(pdu.length <= rig.login.negotiated.target_segment_bytes);
		memcpy(seen + at, pdu.data, pdu.length);
		at += pdu.length;
		if (pdu.header[1] & 0x80) {
			assert_int_equal(at, offset + length);
			return count + 1;
		}
	}
}
