/* test_iscsi_reads.c - the full-feature phase: what is done with Data-In, and what a connection
 * makes of its socket's window.
 */
#include "iscsi_peer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
		peer_data_in(tag, last ? status_inside ? 0x81 : 0x80 : 0, number++, at, source + at,
			     part);
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
test_reads_arrive_whole_in_pieces_of_any_size(void **state)
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
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
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
test_the_window_of_a_near_target_is_bounded(void **state)
{
	int sockets[2], bytes = 0;
	socklen_t length = sizeof(bytes);
	uint8_t bit = 0;

	set_up(plain);
	iscsi_connection_destroy(rig.connection);
	close(rig.peer);
	connect_over_tcp(sockets);
	/* there and back, as a login does: so the kernel knows how far it is */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(write(sockets[0], &bit, 1), 1);
		assert_int_equal(read(sockets[1], &bit, 1), 1);
		assert_int_equal(write(sockets[1], &bit, 1), 1);
		wait_until_there(sockets[0], 1);
		assert_int_equal(read(sockets[0], &bit, 1), 1);
	}
	rig.peer = sockets[1];
	rig.connection = iscsi_connection_create(sockets[0], &rig.login);
	assert_int_equal(getsockopt(sockets[0], SOL_SOCKET, SO_RCVBUF, &bytes, &length), 0);
	/* 128 KiB otherwise, and growing */
	assert_in_range(bytes, 2 * 200000, 2 * ((256 << 10) + 3000 * 1000));
	tear_down();
}

/* Packet by packet, as a target sends that hands its pages to the network one by one. */
static void
test_long_data_wakes_once(void **state)
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
	assert_int_equal(poll(&woken, 1, 10000), 1); /* a header alone does */
	tear_down();
}

/* As above, but what comes is of no command: a long ping, or the sense data of one that never ends.
 */
static void
test_what_belongs_to_no_command_is_no_progress(void **state)
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
test_a_task_is_leaving_until_all_of_it_has_left(void **state)
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
	for (int i = 1; i < 64; i++) { /* the window is used up */
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
		if (damage == DATA_DIGEST) { /* the command's affair, not the session's */
			while (rig.done == 0)
				assert_int_equal(receive(), 0);
			assert_true(scsi_damaged(&job.scsi, job.scsi.status));
			assert_int_equal(iscsi_connection_digest_errors(rig.connection), 1);
			tear_down();
			return;
		}
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
		peer_data_in(tag, 0x81, 0, 0, source, 512); /* good, and no residual */
		assert_int_equal(receive(), 0);
		assert_int_equal(job.scsi.residual_status, SCSI_RESIDUAL_UNDERFLOW);
		assert_int_equal(job.scsi.residual, 4096 - 512);
		tear_down();
		return;
	}
	assert_true(receive() < 0);
	assert_true(strlen(iscsi_connection_fault(rig.connection)->message) > 10);
	assert_int_equal(rig.done, 0);
	tear_down();
	assert_int_equal(job.scsi.status, SCSI_STATUS_CANCELLED);
}

/* GOOD, with flags that say this and that of a part of a read that came. */
static void
test_what_came_counts_and_not_what_is_said_of_it(void **state)
{
	static const struct {
		uint8_t flags;
		uint32_t said, came;
		enum scsi_residual status;
		uint32_t residual;
	} kinds[] = {
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
		start_header(header, apart ? 0x21 : 0x25,
			     (uint8_t)(0x80 | !apart | kinds[i / 2].flags), tag);
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
test_damaged_data_is_never_taken_for_good(void **state)
{
	for (int damage = HEADER_DIGEST; damage <= STATUS_EARLY; damage++)
		damaged_read((enum damage)damage);
}

/* Cut at every place: before, inside and behind the data that has come so far. */
static void
test_a_diverted_read_is_received_and_not_stored(void **state)
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_arrive_whole_in_pieces_of_any_size),
		cmocka_unit_test(test_the_window_of_a_near_target_is_bounded),
		cmocka_unit_test(test_long_data_wakes_once),
		cmocka_unit_test(test_what_belongs_to_no_command_is_no_progress),
		cmocka_unit_test(test_a_task_is_leaving_until_all_of_it_has_left),
		cmocka_unit_test(test_what_came_counts_and_not_what_is_said_of_it),
		cmocka_unit_test(test_damaged_data_is_never_taken_for_good),
		cmocka_unit_test(test_a_diverted_read_is_received_and_not_stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
