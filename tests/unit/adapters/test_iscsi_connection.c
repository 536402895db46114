/* test_iscsi_connection.c - the full-feature phase against a target that is this test: the other end of a
 * socketpair, PDU by PDU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "iscsi_connection.h"

#define DATA_MAX (1u << 20)
#define POISON 0xa5

static struct {
	struct iscsi_connection *connection;
	int peer;
	struct iscsi_login login;
	uint32_t stat_sn;
	int done, managed;
	uint8_t management_response;
} rig;

static uint8_t memory[DATA_MAX], seen[DATA_MAX];

/* --- the target's side --- */

static uint32_t
get_32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void
put_32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

struct pdu {
	uint8_t header[48];
	uint8_t data[262144];
	uint32_t length;
};

/* False: nothing is there. */
static bool
peer_exactly(void *out, size_t length)
{
	size_t got = 0;

	while (got < length) {
		ssize_t part = recv(rig.peer, (uint8_t *)out + got, length - got, MSG_DONTWAIT);

		if (part <= 0 && got == 0)
			return false;
		if (part <= 0) {	/* the rest is still on our side */
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

static bool
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

static void
flush_and_receive(struct pdu *pdu)
{
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_true(peer_receive(pdu));
}

static void
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

static void
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

/* data: whole words */
static void
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

static void
peer_respond(uint32_t tag, uint8_t response, uint8_t status)
{
	uint8_t header[48];

	start_header(header, 0x21, 0x80, tag);
	header[2] = response;
	header[3] = status;
	rig.stat_sn++;
	peer_send(header, NULL, 0);
}

static void
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

static void
peer_data_in(uint32_t tag, uint8_t flags, uint32_t number, uint32_t offset, const void *data, uint32_t length)
{
	uint8_t header[48];

	start_header(header, 0x25, flags, tag);
	put_32(header + 36, number);
	put_32(header + 40, offset);
	peer_send(header, data, length);
}

static void
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

static void
on_managed(void *owner, uint8_t response)
{
	rig.managed++;
	rig.management_response = response;
}

static void
set_up(struct iscsi_negotiated agreed)
{
	int sockets[2], bytes = 1 << 20;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	memset(&rig, 0, sizeof(rig));
	rig.peer = sockets[1];
	rig.stat_sn = 100;
	rig.login = (struct iscsi_login){
		.complete = true, .stat_sn = 99, .exp_cmd_sn = 1, .max_cmd_sn = 64, .negotiated = agreed,
	};
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	assert_non_null(rig.connection);
	for (uint32_t i = 0; i < DATA_MAX; i++)
		memory[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(seen, 0, sizeof(seen));
}

static void
tear_down(void)
{
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
}

static const struct iscsi_negotiated plain = {
	.first_burst_bytes = 65536, .max_burst_bytes = 262144, .target_segment_bytes = 8192,
	.initial_r2t = true, .immediate_data = true,
};

struct job {
	struct iscsi_task task;
	struct scsi_task scsi;
	struct iovec iov[4];
};

/* In four entries of odd lengths. */
static void
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

static uint32_t
receive_command(void)
{
	static struct pdu pdu;

	flush_and_receive(&pdu);
	assert_int_equal(pdu.header[0], 0x01);
	return get_32(pdu.header + 16);
}

static int
receive(void)
{
	return iscsi_connection_receive(rig.connection);
}

/* Takes Data-Out until one is final; returns how many. */
static int
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

/* --- writes --- */

static void
write_with(struct iscsi_negotiated agreed)
{
	static struct pdu pdu;
	static struct job job;
	uint32_t length = 200 * 512, at, tag, number = 0;
	bool unsolicited;

	set_up(agreed);
	submit(&job, true, length);
	flush_and_receive(&pdu);
	tag = get_32(pdu.header + 16);
	at = pdu.length;
	assert_int_equal(at, iscsi_immediate_bytes(&agreed));
	memcpy(seen, pdu.data, at);
	unsolicited = !(pdu.header[1] & 0x80);
	assert_int_equal(unsolicited, !agreed.initial_r2t && at < agreed.first_burst_bytes);
	if (unsolicited) {
		receive_burst(ISCSI_NO_TAG, at, agreed.first_burst_bytes - at);
		at = agreed.first_burst_bytes;
	}
	for (uint32_t wanted = 4099; at < length; wanted += 2 * 4099) {	/* odd sizes */
		wanted = wanted < length - at ? wanted : length - at;
		peer_r2t(tag, 70 + number, number, at, wanted);
		assert_int_equal(receive(), 0);
		receive_burst(70 + number, at, wanted);
		at += wanted;
		number++;
	}
	peer_respond(tag, 0, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.done, 1);
	assert_int_equal(job.scsi.status, 0);
	assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_NO_RESIDUAL);
	assert_memory_equal(seen, memory, length);
	tear_down();
}

static void
writes_go_out_as_the_target_wants_them(void **state)
{
	for (int kind = 0; kind < 16; kind++) {
		struct iscsi_negotiated agreed = plain;

		agreed.initial_r2t = kind & 1;
		agreed.immediate_data = kind & 2;
		agreed.header_digest = kind & 4;
		agreed.data_digest = kind & 8;
		agreed.target_segment_bytes = 8190;	/* so that there is padding */
		write_with(agreed);
	}
}

static void
several_r2ts_at_once_are_answered_in_their_order(void **state)
{
	static struct job job;
	uint32_t tag;

	set_up(plain);
	submit(&job, true, 65536);
	tag = receive_command();
	for (uint32_t i = 0; i < 7; i++)
		peer_r2t(tag, i, i, 8192 + i * 8192, 8192);
	assert_int_equal(receive(), 0);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(receive_burst(i, 8192 + i * 8192, 8192), 1);
	assert_memory_equal(seen + 8192, memory + 8192, 65536 - 8192);
	tear_down();
}

static void
bad_r2t(uint32_t length, uint32_t number, uint32_t offset, uint32_t wanted)
{
	static struct job job;

	set_up(plain);
	submit(&job, true, length);
	peer_r2t(receive_command(), 1, number, offset, wanted);
	assert_true(receive() < 0);
	assert_int_equal(rig.done, 0);
	tear_down();
	assert_int_equal(rig.done, 1);
	assert_int_equal(job.scsi.status, SCSI_STATUS_CANCELLED);
}

static void
r2ts_that_do_not_fit_end_the_connection(void **state)
{
	bad_r2t(65536, 1, 8192, 8192);		/* not the first */
	bad_r2t(65536, 0, 4096, 8192);		/* asks again */
	bad_r2t(65536, 0, 8192, 65536 - 8191);	/* beyond the end */
	bad_r2t(524288, 0, 8192, 262145);	/* beyond MaxBurstLength */
	bad_r2t(524288, 0, 8192, UINT32_MAX);
}

static void
good_is_not_believed_before_the_data_was_asked_for(void **state)
{
	static struct job job;

	set_up(plain);
	submit(&job, true, 16384);
	peer_respond(receive_command(), 0, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.done, 1);
	assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_UNDERFLOW);
	assert_int_equal(job.scsi.residual, 8192);
	tear_down();
}

static void
a_response_code_is_no_success(void **state)
{
	static struct job job;

	set_up(plain);
	submit(&job, true, 4096);
	peer_respond(receive_command(), 1, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.done, 1);
	assert_int_equal(job.scsi.status, SCSI_STATUS_ERROR);
	tear_down();
}

/* The answer comes while our side of the socket is full: the write's memory is still referred to. */
static void
early_answer(uint32_t length)
{
	static struct job job;
	static struct pdu pdu;
	struct iscsi_negotiated agreed = plain;
	uint32_t tag;

	agreed.target_segment_bytes = agreed.first_burst_bytes = 262144;
	set_up(agreed);
	submit(&job, true, length);
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_true(iscsi_connection_wants_to_send(rig.connection));
	tag = job.task.tag;
	peer_respond(tag, 0, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.done, 0);
	assert_true(peer_receive(&pdu));
	assert_int_equal(pdu.length, 262144);
	assert_memory_equal(pdu.data, memory, 262144);
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_int_equal(rig.done, 1);
	assert_true(job.scsi.residual_status != SCSI_RESIDUAL_NO_RESIDUAL);
	assert_false(peer_receive(&pdu));
	tear_down();
}

static void
an_early_answer_is_held_until_the_memory_is_free(void **state)
{
	early_answer(524288);	/* half of it was never asked for */
	early_answer(262144);	/* all of it is in the PDU that is being sent */
}

static void
a_ping_is_answered_in_the_midst_of_a_burst(void **state)
{
	static struct job job;
	static struct pdu pdu;
	uint32_t tag, data = 8192;
	int answered_after = 0, bursts = 0;

	set_up(plain);
	submit(&job, true, 8192 + 262144);
	tag = receive_command();
	peer_r2t(tag, 9, 0, 8192, 262144);
	peer_ping(0x77);
	assert_int_equal(receive(), 0);
	for (int i = 0; i < 33; i++) {
		flush_and_receive(&pdu);
		if (pdu.header[0] == 0x40) {
			assert_int_equal(get_32(pdu.header + 16), ISCSI_NO_TAG);
			assert_int_equal(get_32(pdu.header + 20), 0x77);
			assert_int_equal(get_32(pdu.header + 24), 2);	/* takes no number */
			answered_after = bursts;
		} else {
			assert_int_equal(pdu.header[0], 0x05);
			data += pdu.length;
			bursts++;
		}
	}
	assert_int_equal(data, 8192 + 262144);
	assert_true(answered_after < 32);
	peer_respond(tag, 0, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_NO_RESIDUAL);
	tear_down();
}

static void
more_pings_than_answers_taken_end_the_connection(void **state)
{
	int error = 0;

	set_up(plain);
	for (int i = 0; i < 100 && error == 0; i++) {
		peer_ping(1);
		error = receive();
	}
	assert_true(error < 0);
	tear_down();
}

/* --- the window --- */

static void
no_more_commands_leave_than_the_target_takes(void **state)
{
	static struct job jobs[8];
	static struct pdu pdu;

	set_up(plain);
	rig.login.max_cmd_sn = 3;
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
	int sockets[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	rig.peer = sockets[1];
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	for (int i = 0; i < 8; i++)
		submit(&jobs[i], true, 4096);
	for (uint32_t number = 1; number <= 3; number++) {
		flush_and_receive(&pdu);
		assert_int_equal(get_32(pdu.header + 24), number);
	}
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_false(peer_receive(&pdu));
	assert_int_equal(iscsi_connection_window(rig.connection), 3);
	rig.login.max_cmd_sn = 5;
	peer_ping(ISCSI_NO_TAG);	/* only says so, wants no answer */
	assert_int_equal(receive(), 0);
	for (uint32_t number = 4; number <= 5; number++) {
		flush_and_receive(&pdu);
		assert_int_equal(get_32(pdu.header + 24), number);
	}
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_false(peer_receive(&pdu));
	assert_int_equal(iscsi_connection_window(rig.connection), 3);	/* the widest: two were left of more */
	rig.login.max_cmd_sn = 15;
	peer_ping(ISCSI_NO_TAG);
	assert_int_equal(receive(), 0);
	assert_int_equal(iscsi_connection_window(rig.connection), 10);
	tear_down();
	assert_int_equal(rig.done, 8);
}

/* --- reads --- */

static void
read_in_pieces(struct iscsi_negotiated agreed, uint32_t piece, bool status_inside, bool at_once)
{
	static struct job job;
	static uint8_t source[131072];
	uint32_t tag, number = 0, length = sizeof(source);

	set_up(agreed);
	for (uint32_t i = 0; i < length; i++)
		source[i] = (uint8_t)(i * 13 + (i >> 9));
	submit(&job, false, length);
	tag = receive_command();
	for (uint32_t at = 0; at < length; at += piece) {
		bool last = at + piece >= length;
		uint32_t part = last ? length - at : piece;

		if (last && status_inside)
			rig.stat_sn++;
		peer_data_in(tag, last ? status_inside ? 0x81 : 0x80 : 0, number++, at, source + at, part);
		if (!at_once)
			assert_int_equal(receive(), 0);
	}
	if (!status_inside) {
		assert_int_equal(rig.done, 0);
		peer_respond(tag, 0, 0);
	}
	while (rig.done == 0)
		assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.status, 0);
	assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_NO_RESIDUAL);
	assert_memory_equal(memory, source, length);
	assert_int_equal(iscsi_connection_data_in_bytes(rig.connection), piece);
	tear_down();
}

static void
reads_arrive_whole_in_pieces_of_any_size(void **state)
{
	/* 9308: a header ends beyond the end of the receive buffer. */
	static const uint32_t pieces[] = { 512, 8192, 9308, 65536, 131072 };

	for (int kind = 0; kind < 16; kind++) {
		struct iscsi_negotiated agreed = plain;

		agreed.header_digest = kind & 1;
		agreed.data_digest = kind & 2;
		for (int i = 0; i < 5; i++)
			read_in_pieces(agreed, pieces[i], kind & 4, kind & 8);
	}
}

/* Both ends of a TCP connection: only there a socket knows how much is worth waking us for. */
static void
connect_over_tcp(int sockets[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(sockets[0], (struct sockaddr *)&address, length), 0);
	sockets[1] = accept(listener, NULL, NULL);
	assert_true(sockets[1] >= 0);
	close(listener);
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
}

static void
wait_until_there(int fd, int bytes)
{
	for (int there = 0; there < bytes; assert_int_equal(ioctl(fd, FIONREAD, &there), 0))
		;
}

static void
the_window_of_a_near_target_is_bounded(void **state)
{
	int sockets[2], bytes = 0;
	socklen_t length = sizeof(bytes);
	uint8_t bit = 0;

	set_up(plain);
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
	connect_over_tcp(sockets);
	for (int i = 0; i < 3; i++) {	/* there and back, as a login does: so the kernel knows how far it is */
		assert_int_equal(write(sockets[0], &bit, 1), 1);
		assert_int_equal(read(sockets[1], &bit, 1), 1);
		assert_int_equal(write(sockets[1], &bit, 1), 1);
		wait_until_there(sockets[0], 1);
		assert_int_equal(read(sockets[0], &bit, 1), 1);
	}
	rig.peer = sockets[1];
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	assert_int_equal(getsockopt(sockets[0], SOL_SOCKET, SO_RCVBUF, &bytes, &length), 0);
	assert_in_range(bytes, 2 * 200000, 2 * ((256 << 10) + 3000 * 1000));	/* 128 KiB otherwise, and growing */
	tear_down();
}

/* Packet by packet, as a target sends that hands its pages to the network one by one. */
static void
long_data_wakes_once(void **state)
{
	static struct job job;
	static uint8_t source[65536];
	struct pollfd woken = { .events = POLLIN };
	uint64_t progress;
	uint8_t header[48];
	int sockets[2];
	uint32_t tag;

	set_up(plain);
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
	connect_over_tcp(sockets);
	rig.peer = sockets[1];
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	woken.fd = sockets[0];
	submit(&job, false, sizeof(source));
	tag = receive_command();
	rig.stat_sn++;
	start_header(header, 0x25, 0x81, tag);
	header[5] = 1;
	peer_write(header, 48);
	assert_int_equal(poll(&woken, 1, 10000), 1);
	assert_int_equal(receive(), 0);
	progress = iscsi_connection_progress(rig.connection);
	for (uint32_t at = 0; at + 4096 < sizeof(source); at += 4096) {
		peer_write(source + at, 4096);
		wait_until_there(sockets[0], (int)at + 4096);
		assert_int_equal(poll(&woken, 1, 0), 0);
		assert_int_equal(iscsi_connection_progress(rig.connection), progress + at + 4096);
	}
	peer_write(source, 4096);
	assert_int_equal(poll(&woken, 1, 10000), 1);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.done, 1);
	peer_ping(ISCSI_NO_TAG);
	assert_int_equal(poll(&woken, 1, 10000), 1);	/* a header alone does */
	tear_down();
}

/* As above, but what comes is of no command: a long ping, or the sense data of one that never ends. */
static void
what_belongs_to_no_command_is_no_progress(void **state)
{
	static const uint8_t opcodes[] = { 0x20, 0x21, 0x22, 0x26, 0x32, 0x3f };
	static const uint8_t source[65536];

	for (size_t i = 0; i < sizeof(opcodes); i++) {
		static struct job job;
		uint8_t header[48];
		int sockets[2];
		uint32_t tag;

		set_up(plain);
		iscsi_connection_destroy(rig.connection);
		close(rig.peer);
		connect_over_tcp(sockets);
		rig.peer = sockets[1];
		rig.connection = iscsi_connection_create(sockets[0], &rig.login);
		submit(&job, false, sizeof(source));
		tag = receive_command();
		start_header(header, opcodes[i], 0x80, opcodes[i] == 0x21 ? tag : ISCSI_NO_TAG);
		header[5] = 1;
		peer_write(header, 48);
		wait_until_there(sockets[0], 48);
		assert_int_equal(receive(), 0);
		peer_write(source, 60000);
		wait_until_there(sockets[0], 60000);
		assert_int_equal(iscsi_connection_progress(rig.connection), 0);
		assert_int_equal(receive(), 0);
		assert_int_equal(iscsi_connection_progress(rig.connection), 0);
		tear_down();
	}
}

/* What the target's window holds back is not on its way, whatever else its kernel takes. */
static void
a_task_is_leaving_until_all_of_it_has_left(void **state)
{
	static struct job first, second;
	static struct pdu pdu;
	uint64_t position;
	uint32_t tag;

	set_up(plain);
	submit(&first, true, 16384);
	assert_true(iscsi_task_leaving(&first.task, 0));
	flush_and_receive(&pdu);
	tag = get_32(pdu.header + 16);
	position = 48 + pdu.length;
	assert_true(iscsi_task_leaving(&first.task, position - 1));
	assert_false(iscsi_task_leaving(&first.task, position));
	peer_r2t(tag, 1, 0, 8192, 8192);
	assert_int_equal(receive(), 0);
	assert_true(iscsi_task_leaving(&first.task, position));
	receive_burst(1, 8192, 8192);
	assert_false(iscsi_task_leaving(&first.task, position + 48 + 8192));
	for (int i = 1; i < 64; i++) {	/* the window is used up */
		peer_respond(tag, 0, 0);
		assert_int_equal(receive(), 0);
		submit(&first, false, 512);
		tag = receive_command();
	}
	submit(&second, false, 512);
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_false(iscsi_task_leaving(&second.task, 0));
	rig.login.max_cmd_sn++;
	peer_ping(ISCSI_NO_TAG);
	assert_int_equal(receive(), 0);
	assert_true(iscsi_task_leaving(&second.task, 0));
	tear_down();
}

enum damage { HEADER_DIGEST, DATA_DIGEST, GAP, OVERLAP, BEYOND, WRONG_TAG, STATUS_EARLY };

static void
damaged_read(enum damage damage)
{
	static struct job job;
	static uint8_t source[8192];
	struct iscsi_negotiated agreed = plain;
	uint8_t header[48], wrong[4] = { 1, 2, 3, 4 };
	uint32_t tag;

	agreed.header_digest = damage == HEADER_DIGEST;
	agreed.data_digest = damage == DATA_DIGEST;
	set_up(agreed);
	submit(&job, false, 4096);
	tag = receive_command();
	if (damage == HEADER_DIGEST || damage == DATA_DIGEST) {
		start_header(header, 0x25, 0x81, tag);
		header[6] = 0x10;
		peer_write(header, 48);
		peer_write(damage == HEADER_DIGEST ? wrong : source, 4);
		peer_write(source, 4096 - 4);
		peer_write(wrong, 4);
	} else if (damage == GAP) {
		peer_data_in(tag, 0, 1, 0, source, 512);
	} else if (damage == OVERLAP) {
		peer_data_in(tag, 0, 0, 0, source, 512);
		peer_data_in(tag, 0, 1, 0, source, 512);
	} else if (damage == BEYOND) {
		peer_data_in(tag, 0x81, 0, 0, source, 4608);
	} else if (damage == WRONG_TAG) {
		peer_data_in(tag ^ 0x100, 0x81, 0, 0, source, 4096);
	} else {
		peer_data_in(tag, 0x81, 0, 0, source, 512);	/* good, and no residual */
		assert_int_equal(receive(), 0);
		assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_UNDERFLOW);
		assert_int_equal(job.scsi.residual, 4096 - 512);
		tear_down();
		return;
	}
	assert_true(receive() < 0);
	assert_true(strlen(iscsi_connection_fault(rig.connection)) > 10);
	assert_int_equal(rig.done, 0);
	tear_down();
	assert_int_equal(job.scsi.status, SCSI_STATUS_CANCELLED);
}

/* GOOD, with flags that say this and that of a part of a read that came. */
static void
what_came_counts_and_not_what_is_said_of_it(void **state)
{
	static const struct { uint8_t flags; uint32_t said, came; enum scsi_residual status; uint32_t residual; } kinds[] = {
		{ 0, 0, 4096, SCSI_RESIDUAL_NO_RESIDUAL, 0 },
		{ 0, 77, 4096, SCSI_RESIDUAL_NO_RESIDUAL, 0 },
		{ 0, 0, 512, SCSI_RESIDUAL_UNDERFLOW, 3584 },
		{ 0, 0, 0, SCSI_RESIDUAL_UNDERFLOW, 4096 },
		{ 4, 100, 4096, SCSI_RESIDUAL_OVERFLOW, 100 },
		{ 4, 100, 512, SCSI_RESIDUAL_UNDERFLOW, 3584 },
		{ 4, UINT32_MAX, 0, SCSI_RESIDUAL_UNDERFLOW, 4096 },
		{ 2, 0, 4096, SCSI_RESIDUAL_UNDERFLOW, 0 },
		{ 2, 512, 4096, SCSI_RESIDUAL_UNDERFLOW, 512 },
		{ 2, 512, 0, SCSI_RESIDUAL_UNDERFLOW, 4096 },
		{ 2, UINT32_MAX, 512, SCSI_RESIDUAL_UNDERFLOW, UINT32_MAX },
		{ 6, 0, 0, SCSI_RESIDUAL_UNDERFLOW, 4096 },
	};
	static const uint8_t source[4096];

	for (size_t i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
		static struct job job;
		bool apart = i % 2;
		uint8_t header[48];
		uint32_t tag;

		set_up(plain);
		submit(&job, false, 4096);
		tag = receive_command();
		if (apart && kinds[i / 2].came > 0)
			peer_data_in(tag, 0x80, 0, 0, source, kinds[i / 2].came);
		start_header(header, apart ? 0x21 : 0x25, (uint8_t)(0x80 | !apart | kinds[i / 2].flags), tag);
		put_32(header + 44, kinds[i / 2].said);
		rig.stat_sn++;
		peer_send(header, source, apart ? 0 : kinds[i / 2].came);
		while (rig.done == 0)
			assert_int_equal(receive(), 0);
		assert_int_equal(job.scsi.status, 0);
		assert_int_equal(job.scsi.residual_status, kinds[i / 2].status);
		assert_int_equal(job.scsi.residual, kinds[i / 2].residual);
		tear_down();
	}
}

static void
damaged_data_is_never_taken_for_good(void **state)
{
	for (int damage = HEADER_DIGEST; damage <= STATUS_EARLY; damage++)
		damaged_read((enum damage)damage);
}

/* Cut at every place: before, inside and behind the data that has come so far. */
static void
a_diverted_read_is_received_and_not_stored(void **state)
{
	static struct job job;
	static uint8_t source[65536];
	uint32_t tag;

	for (uint32_t cut = 0; cut <= 65536; cut += 4096) {
		set_up(plain);
		memset(source, 0x11, sizeof(source));
		submit(&job, false, 65536);
		tag = receive_command();
		if (cut > 0) {
			uint8_t header[48];

			start_header(header, 0x25, 0x81, tag);
			header[5] = 1;
			peer_write(header, 48);
			peer_write(source, cut - 1);
			assert_int_equal(receive(), 0);
			while (memory[cut - 2] != 0x11)
				assert_int_equal(receive(), 0);
		}
		iscsi_task_divert(&job.task);
		memset(memory, POISON, 65536);
		if (cut > 0)
			peer_write(source, 65536 - cut + 1);
		else
			peer_data_in(tag, 0x81, 0, 0, source, 65536);
		while (rig.done == 0)
			assert_int_equal(receive(), 0);
		for (int i = 0; i < 65536; i++)
			assert_int_equal(memory[i], POISON);
		tear_down();
	}
}

/* --- the rest --- */

static void
sense_data_is_taken_as_far_as_it_goes(void **state)
{
	static struct job job;
	uint8_t header[48], data[600] = { 0, 18, 0x70, 0, 3, [14] = 0x11, [15] = 0x04 };

	set_up(plain);
	submit(&job, false, 4096);
	start_header(header, 0x21, 0x80, receive_command());
	header[3] = 2;
	rig.stat_sn++;
	peer_send(header, data, sizeof(data));	/* longer than anybody keeps */
	assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.status, 2);
	assert_int_equal(job.scsi.sense.key, 3);
	assert_int_equal(job.scsi.sense.ascq, 0x1104);
	submit(&job, false, 4096);		/* the stream is still in step; no sense data at all */
	peer_respond(receive_command(), 0, 2);
	assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.sense.error_type, 0);
	assert_int_equal(rig.done, 2);
	tear_down();
}

static void
abort_task_names_the_task(void **state)
{
	static struct job job;
	static struct pdu pdu;
	uint8_t header[48];
	uint32_t tag;

	set_up(plain);
	submit(&job, true, 4096);
	tag = receive_command();
	iscsi_connection_manage(rig.connection, ISCSI_ABORT_TASK, 0, &job.task, on_managed, NULL);
	flush_and_receive(&pdu);
	assert_int_equal(pdu.header[0], 0x42);
	assert_int_equal(pdu.header[1], 0x81);
	assert_int_equal(get_32(pdu.header + 20), tag);
	assert_int_equal(get_32(pdu.header + 32), 1);	/* the task's CmdSN */
	start_header(header, 0x22, 0x80, get_32(pdu.header + 16));
	header[2] = 1;
	peer_send(header, NULL, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.managed, 1);
	assert_int_equal(rig.management_response, 1);
	peer_send(header, NULL, 0);	/* twice is once too often */
	assert_true(receive() < 0);
	tear_down();
}

static void
an_answer_that_comes_twice_ends_the_connection(void **state)
{
	static struct job job;
	uint32_t tag;

	set_up(plain);
	submit(&job, true, 4096);
	tag = receive_command();
	peer_respond(tag, 0, 0);
	assert_int_equal(receive(), 0);
	submit(&job, true, 4096);	/* takes the same slot */
	assert_int_not_equal(receive_command(), tag);
	peer_respond(tag, 0, 0);
	assert_true(receive() < 0);
	assert_int_equal(rig.done, 1);
	tear_down();
}

static void
status_numbers_are_acknowledged(void **state)
{
	static struct job job;
	static struct pdu pdu;

	set_up(plain);
	submit(&job, true, 4096);
	flush_and_receive(&pdu);
	assert_int_equal(get_32(pdu.header + 28), 100);	/* the login's and one */
	peer_respond(get_32(pdu.header + 16), 0, 0);
	assert_int_equal(receive(), 0);
	submit(&job, false, 4096);
	flush_and_receive(&pdu);
	assert_int_equal(get_32(pdu.header + 28), 101);
	tear_down();
}

static void
message(uint8_t opcode, uint8_t event, bool ends)
{
	uint8_t header[48], data[48] = { 0 };

	set_up(plain);
	start_header(header, opcode, 0x80, ISCSI_NO_TAG);
	header[2] = 4;
	header[36] = event;
	rig.stat_sn++;
	peer_send(header, data, 48);
	assert_int_equal(receive() != 0, ends);
	tear_down();
}

static void
messages_and_rejections(void **state)
{
	message(0x32, 0, false);
	message(0x32, 1, true);
	message(0x32, 2, true);
	message(0x32, 3, true);
	message(0x32, 4, false);
	message(0x32, 255, false);
	message(0x3f, 0, true);
	message(0x23, 0, true);		/* a login's answer */
	message(0x26, 0, true);		/* of a logout that was not asked for */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_go_out_as_the_target_wants_them),
		cmocka_unit_test(several_r2ts_at_once_are_answered_in_their_order),
		cmocka_unit_test(r2ts_that_do_not_fit_end_the_connection),
		cmocka_unit_test(good_is_not_believed_before_the_data_was_asked_for),
		cmocka_unit_test(a_response_code_is_no_success),
		cmocka_unit_test(an_early_answer_is_held_until_the_memory_is_free),
		cmocka_unit_test(a_ping_is_answered_in_the_midst_of_a_burst),
		cmocka_unit_test(more_pings_than_answers_taken_end_the_connection),
		cmocka_unit_test(no_more_commands_leave_than_the_target_takes),
		cmocka_unit_test(reads_arrive_whole_in_pieces_of_any_size),
		cmocka_unit_test(the_window_of_a_near_target_is_bounded),
		cmocka_unit_test(long_data_wakes_once),
		cmocka_unit_test(what_belongs_to_no_command_is_no_progress),
		cmocka_unit_test(a_task_is_leaving_until_all_of_it_has_left),
		cmocka_unit_test(what_came_counts_and_not_what_is_said_of_it),
		cmocka_unit_test(damaged_data_is_never_taken_for_good),
		cmocka_unit_test(a_diverted_read_is_received_and_not_stored),
		cmocka_unit_test(sense_data_is_taken_as_far_as_it_goes),
		cmocka_unit_test(abort_task_names_the_task),
		cmocka_unit_test(an_answer_that_comes_twice_ends_the_connection),
		cmocka_unit_test(status_numbers_are_acknowledged),
		cmocka_unit_test(messages_and_rejections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
