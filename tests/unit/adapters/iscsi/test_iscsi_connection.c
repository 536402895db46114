/* test_iscsi_connection.c - the full-feature phase: writes, the window of commands, and all that is
 * neither read nor write; reads: test_iscsi_reads.c.
 */
#include "iscsi_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
	for (uint32_t wanted = 4099; at < length; wanted += 2 * 4099) { /* odd sizes */
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
test_writes_go_out_as_the_target_wants_them(void **state)
{
	for (int kind = 0; kind < 16; kind++) {
		struct iscsi_negotiated agreed = plain;

		agreed.initial_r2t = kind & 1;
		agreed.immediate_data = kind & 2;
		agreed.header_digest = kind & 4;
		agreed.data_digest = kind & 8;
		agreed.target_segment_bytes = 8190; /* so that there is padding */
		write_with(agreed);
	}
}

static void
test_several_r2ts_at_once_are_answered_in_their_order(void **state)
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
bad_r2t_with_tag(uint32_t target_tag, uint32_t length, uint32_t number, uint32_t offset,
		 uint32_t wanted)
{
	static struct job job;

	set_up(plain);
	submit(&job, true, length);
	peer_r2t(receive_command(), target_tag, number, offset, wanted);
	assert_true(receive() < 0);
	assert_int_equal(rig.done, 0);
	tear_down();
	assert_int_equal(rig.done, 1);
	assert_int_equal(job.scsi.status, SCSI_STATUS_CANCELLED);
}

static void
bad_r2t(uint32_t length, uint32_t number, uint32_t offset, uint32_t wanted)
{
	bad_r2t_with_tag(1, length, number, offset, wanted);
}

static void
test_r2ts_that_do_not_fit_end_the_connection(void **state)
{
	bad_r2t(65536, 1, 8192, 8192);	       /* not the first */
	bad_r2t(65536, 0, 4096, 8192);	       /* asks again */
	bad_r2t(65536, 0, 8192, 65536 - 8191); /* beyond the end */
	bad_r2t(524288, 0, 8192, 262145);      /* beyond MaxBurstLength */
	bad_r2t(524288, 0, 8192, UINT32_MAX);
	/* its data would pass for unasked */
	bad_r2t_with_tag(ISCSI_NO_TAG, 65536, 0, 8192, 8192);
}

static void
test_good_is_not_believed_before_the_data_was_asked_for(void **state)
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
test_a_response_code_is_no_success(void **state)
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

/* The answer comes while our side of the socket is full: the write's memory is still referred to.
 */
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
test_an_early_answer_is_held_until_the_memory_is_free(void **state)
{
	early_answer(524288); /* half of it was never asked for */
	early_answer(262144); /* all of it is in the PDU that is being sent */
}

static void
test_a_ping_is_answered_in_the_midst_of_a_burst(void **state)
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
			assert_int_equal(get_32(pdu.header + 24), 2); /* takes no number */
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
test_more_pings_than_answers_taken_end_the_connection(void **state)
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
test_no_more_commands_leave_than_the_target_takes(void **state)
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
	peer_ping(ISCSI_NO_TAG); /* only says so, wants no answer */
	assert_int_equal(receive(), 0);
	for (uint32_t number = 4; number <= 5; number++) {
		flush_and_receive(&pdu);
		assert_int_equal(get_32(pdu.header + 24), number);
	}
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	assert_false(peer_receive(&pdu));
	/* the widest: two were left of more */
	assert_int_equal(iscsi_connection_window(rig.connection), 3);
	rig.login.max_cmd_sn = 15;
	peer_ping(ISCSI_NO_TAG);
	assert_int_equal(receive(), 0);
	assert_int_equal(iscsi_connection_window(rig.connection), 10);
	tear_down();
	assert_int_equal(rig.done, 8);
}

/* --- the rest --- */

static void
test_sense_data_is_taken_as_far_as_it_goes(void **state)
{
	static struct job job;
	uint8_t header[48], data[600] = { 0, 18, 0x70, 0, 3, [14] = 0x11, [15] = 0x04 };

	set_up(plain);
	submit(&job, false, 4096);
	start_header(header, 0x21, 0x80, receive_command());
	header[3] = 2;
	rig.stat_sn++;
	peer_send(header, data, sizeof(data)); /* longer than anybody keeps */
	assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.status, 2);
	assert_int_equal(job.scsi.sense.key, 3);
	assert_int_equal(job.scsi.sense.ascq, 0x1104);
	/* the stream is still in step; no sense data at all */
	submit(&job, false, 4096);
	peer_respond(receive_command(), 0, 2);
	assert_int_equal(receive(), 0);
	assert_int_equal(job.scsi.sense.error_type, 0);
	assert_int_equal(rig.done, 2);
	tear_down();
}

static void
test_abort_task_names_the_task(void **state)
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
	assert_int_equal(get_32(pdu.header + 32), 1); /* the task's CmdSN */
	start_header(header, 0x22, 0x80, get_32(pdu.header + 16));
	header[2] = 1;
	peer_send(header, NULL, 0);
	assert_int_equal(receive(), 0);
	assert_int_equal(rig.managed, 1);
	assert_int_equal(rig.management_response, 1);
	peer_send(header, NULL, 0); /* twice is once too often */
	assert_true(receive() < 0);
	tear_down();
}

static void
test_an_answer_that_comes_twice_ends_the_connection(void **state)
{
	static struct job job;
	uint32_t tag;

	set_up(plain);
	submit(&job, true, 4096);
	tag = receive_command();
	peer_respond(tag, 0, 0);
	assert_int_equal(receive(), 0);
	submit(&job, true, 4096); /* takes the same slot */
	assert_int_not_equal(receive_command(), tag);
	peer_respond(tag, 0, 0);
	assert_true(receive() < 0);
	assert_int_equal(rig.done, 1);
	tear_down();
}

static void
test_status_numbers_are_acknowledged(void **state)
{
	static struct job job;
	static struct pdu pdu;

	set_up(plain);
	submit(&job, true, 4096);
	flush_and_receive(&pdu);
	assert_int_equal(get_32(pdu.header + 28), 100); /* the login's and one */
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
test_messages_that_end_a_session_end_it_and_others_do_not(void **state)
{
	message(0x32, 0, false);
	message(0x32, 1, true);
	message(0x32, 2, true);
	message(0x32, 3, true);
	message(0x32, 4, false);
	message(0x32, 255, false);
	message(0x3f, 0, true);
	message(0x23, 0, true); /* a login's answer */
	message(0x26, 0, true); /* of a logout that was not asked for */
}

/* --- the end --- */

/* A connection over TCP, which a socketpair can't stand for here. */
static void
set_up_tcp(void)
{
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int sockets[2];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(sockets[0], (struct sockaddr *)&address, sizeof(address)), 0);
	sockets[1] = accept(listener, NULL, NULL);
	assert_true(sockets[1] >= 0);
	close(listener);
	set_up_on(sockets, plain);
}

/* What the target reads last: 0, or the errno that ends it. */
static int
last_read(void)
{
	char bytes[4096];
	ssize_t got;

	do
		got = read(rig.peer, bytes, sizeof(bytes));
	while (got > 0);
	return got == 0 ? 0 : errno;
}

/* Else the kernel would go on sending it, perhaps behind the reset that fences it off. */
static void
test_a_command_that_was_not_answered_does_not_outlive_its_connection(void **state)
{
	static struct job job;

	set_up_tcp();
	iscsi_connection_destroy(rig.connection);
	assert_int_equal(last_read(), 0);
	close(rig.peer);
	set_up_tcp();
	submit(&job, true, 65536);
	assert_int_equal(iscsi_connection_flush(rig.connection), 0);
	iscsi_connection_destroy(rig.connection);
	assert_int_equal(job.scsi.status, SCSI_STATUS_CANCELLED);
	assert_int_equal(last_read(), ECONNRESET);
	close(rig.peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes_go_out_as_the_target_wants_them),
		cmocka_unit_test(test_several_r2ts_at_once_are_answered_in_their_order),
		cmocka_unit_test(test_r2ts_that_do_not_fit_end_the_connection),
		cmocka_unit_test(test_good_is_not_believed_before_the_data_was_asked_for),
		cmocka_unit_test(test_a_response_code_is_no_success),
		cmocka_unit_test(test_an_early_answer_is_held_until_the_memory_is_free),
		cmocka_unit_test(test_a_ping_is_answered_in_the_midst_of_a_burst),
		cmocka_unit_test(test_more_pings_than_answers_taken_end_the_connection),
		cmocka_unit_test(test_no_more_commands_leave_than_the_target_takes),
		cmocka_unit_test(test_sense_data_is_taken_as_far_as_it_goes),
		cmocka_unit_test(test_abort_task_names_the_task),
		cmocka_unit_test(test_an_answer_that_comes_twice_ends_the_connection),
		cmocka_unit_test(test_status_numbers_are_acknowledged),
		cmocka_unit_test(test_messages_that_end_a_session_end_it_and_others_do_not),
		cmocka_unit_test(
			test_a_command_that_was_not_answered_does_not_outlive_its_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
