/* test_session_states.c - the order of a session's states, for every outcome and every fact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/backend/internal.h"

static const struct session_facts reserving = { .reservation_wanted = true, .inspected = true };

/* Walks on good outcomes only; *visited has a bit for each state. */
static enum session_state
walk(const struct session_facts *given, uint32_t *visited)
{
	enum session_state state = SESSION_RESOLVE;
	struct session_facts facts = *given;

	*visited = 0;
	for (int steps = 0; steps < 40; steps++) {
		if (state == SESSION_OPEN || state == SESSION_FAILED)
			return state;
		*visited |= 1u << state;
		facts.whole |= state == SESSION_MODE;
		facts.reserved |= state == SESSION_RESERVE || state == SESSION_PREEMPT;
		facts.other_key &= state != SESSION_EXPEL;
		facts.expelled |= state == SESSION_EXPEL;
		facts.expelled &= state != SESSION_RESET;
		state = session_next(state, OUTCOME_GOOD, &facts);
	}
	return state;
}

static bool
was(uint32_t visited, enum session_state state)
{
	return visited >> state & 1;
}

static void
test_no_session_opens_without_fence_and_inspection(void **state)
{
	for (int bits = 0; bits < 64; bits++) {
		struct session_facts facts = {
			.reservation_wanted = bits & 1,
			.foreign_holder = bits & 2,
			.ours = bits & 4,
			.take_over = bits & 8,
			.barred = bits & 16,
			.other_key = bits & 32,
			.inspected = true,
		};
		uint32_t visited;
		enum session_state end = walk(&facts, &visited);

		if (facts.reservation_wanted && facts.foreign_holder && !facts.take_over) {
			assert_int_equal(end, SESSION_FAILED);
			/* would abort the other one's I/O */
			assert_false(was(visited, SESSION_RESET));
			assert_false(was(visited, SESSION_REGISTER));
			continue;
		}
		assert_int_equal(end, SESSION_OPEN);
		assert_true(was(visited, SESSION_RESET) && was(visited, SESSION_SETTLE));
		assert_true(was(visited, SESSION_INSPECT) && was(visited, SESSION_MODE));
		assert_int_equal(was(visited, SESSION_CONFIRM), facts.reservation_wanted);
		assert_int_equal(was(visited, SESSION_KEYS), facts.reservation_wanted);
		assert_int_equal(was(visited, SESSION_EXPEL),
				 facts.reservation_wanted && facts.other_key);
		assert_int_equal(was(visited, SESSION_RESERVE), facts.reservation_wanted);
		assert_int_equal(was(visited, SESSION_PREEMPT),
				 facts.reservation_wanted && facts.foreign_holder);
	}
}

static void
test_nothing_is_reserved_before_the_inspection_has_come_to_its_last_step(void **state)
{
	struct session_facts facts = reserving;

	facts.inspected = false;
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_GOOD, &facts), SESSION_INSPECT);
	facts.inspected = true;
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_GOOD, &facts), SESSION_HOLDER);
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_BAD, &facts), SESSION_FAILED);
}

/* On LIO already READ CAPACITY is forbidden by another's reservation, and by our own of before. */
static void
test_what_a_reservation_forbids_is_asked_when_it_is_ours(void **state)
{
	struct session_facts facts = reserving;

	facts.inspected = false;
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_CONFLICT, &facts), SESSION_HOLDER);
	facts.barred = true;
	assert_int_equal(session_next(SESSION_SETTLE, OUTCOME_GOOD, &facts), SESSION_MODE);
	assert_int_equal(session_next(SESSION_MODE, OUTCOME_GOOD, &facts), SESSION_MODE);
	assert_int_equal(session_next(SESSION_MODE, OUTCOME_CONFLICT, &facts), SESSION_FAILED);
	/* An old RESERVE is in the way, of a target that knows no keys: no reset of others' I/O. */
	assert_int_equal(session_next(SESSION_HOLDER, OUTCOME_UNSUPPORTED, &facts), SESSION_FAILED);
	assert_int_equal(session_next(SESSION_REGISTER, OUTCOME_UNSUPPORTED, &facts),
			 SESSION_FAILED);
	assert_int_equal(session_next(SESSION_RESERVE, OUTCOME_UNSUPPORTED, &facts),
			 SESSION_FAILED);
	facts.reservation_wanted = false;
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_CONFLICT, &facts), SESSION_FAILED);
}

static void
test_whoever_was_expelled_is_fenced_off_before_the_session_opens(void **state)
{
	struct session_facts facts = reserving;

	facts.whole = facts.reserved = facts.other_key = true;
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_GOOD, &facts), SESSION_EXPEL);
	assert_int_equal(session_next(SESSION_EXPEL, OUTCOME_GOOD, &facts), SESSION_KEYS);
	assert_int_equal(session_next(SESSION_EXPEL, OUTCOME_CONFLICT, &facts), SESSION_KEYS);
	facts.other_key = false;
	facts.expelled = true;
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_GOOD, &facts), SESSION_RESET);
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_UNSUPPORTED, &facts), SESSION_RESET);
	assert_int_equal(session_next(SESSION_SETTLE, OUTCOME_GOOD, &facts), SESSION_CONFIRM);
	facts.expelled = false;
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_GOOD, &facts), SESSION_OPEN);
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_UNSUPPORTED, &facts), SESSION_OPEN);
}

/* LIO: also behind the reset a write of a session that it is closing may land. */
static void
test_whom_the_reset_does_not_fence_off_is_waited_for(void **state)
{
	struct session_facts facts = reserving;

	facts.closes_late = facts.foreign_holder = facts.take_over = true;
	assert_int_equal(session_next(SESSION_REGISTER, OUTCOME_GOOD, &facts), SESSION_NEXUS);
	assert_int_equal(session_next(SESSION_NEXUS, OUTCOME_GOOD, &facts), SESSION_PREEMPT);
	assert_int_equal(session_next(SESSION_NEXUS, OUTCOME_UNSUPPORTED, &facts), SESSION_PREEMPT);
	facts.foreign_holder = false;
	facts.unfenced = facts.reserved = true;
	assert_int_equal(session_next(SESSION_SETTLE, OUTCOME_GOOD, &facts), SESSION_FOLLOW);
	assert_int_equal(session_next(SESSION_FOLLOW, OUTCOME_BAD, &facts), SESSION_FAILED);
	facts.unfenced = false;
	assert_int_equal(session_next(SESSION_FOLLOW, OUTCOME_GOOD, &facts), SESSION_MODE);
	facts.whole = true;
	assert_int_equal(session_next(SESSION_FOLLOW, OUTCOME_GOOD, &facts), SESSION_CONFIRM);
	facts.other_key = true;
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_GOOD, &facts), SESSION_NEXUS);
	assert_int_equal(session_next(SESSION_NEXUS, OUTCOME_GOOD, &facts), SESSION_EXPEL);
	facts.expelled = true; /* and another one is left: one after the other */
	assert_int_equal(session_next(SESSION_KEYS, OUTCOME_GOOD, &facts), SESSION_RESET);
}

static void
test_the_reservation_is_decided_before_the_reset(void **state)
{
	assert_int_equal(session_next(SESSION_RESERVE, OUTCOME_GOOD, &reserving), SESSION_RESET);
	assert_int_equal(session_next(SESSION_RESERVE, OUTCOME_CONFLICT, &reserving),
			 SESSION_OUTCOME);
}

static void
test_whoever_loses_the_race_for_the_reservation_fails(void **state)
{
	struct session_facts facts = reserving;

	facts.foreign_holder = true;
	facts.take_over = true; /* what took it between our two looks is not preempted */
	assert_int_equal(session_next(SESSION_OUTCOME, OUTCOME_GOOD, &facts), SESSION_FAILED);
	facts.foreign_holder = false;
	facts.ours = true;
	assert_int_equal(session_next(SESSION_OUTCOME, OUTCOME_GOOD, &facts), SESSION_PREEMPT);
	facts.ours = false;
	assert_int_equal(session_next(SESSION_OUTCOME, OUTCOME_GOOD, &facts), SESSION_RESERVE);
}

static void
test_targets_without_optional_commands_are_used_without(void **state)
{
	assert_int_equal(session_next(SESSION_HOLDER, OUTCOME_UNSUPPORTED, &reserving),
			 SESSION_RESET);
	/* but never without the fence, nor uninspected */
	assert_int_equal(session_next(SESSION_RESET, OUTCOME_UNSUPPORTED, &reserving),
			 SESSION_FAILED);
	assert_int_equal(session_next(SESSION_INSPECT, OUTCOME_UNSUPPORTED, &reserving),
			 SESSION_FAILED);
}

static void
test_attentions_and_pauses_repeat_the_state(void **state)
{
	for (int s = SESSION_INSPECT; s <= SESSION_LOGOUT; s++) {
		assert_int_equal(session_next((enum session_state)s, OUTCOME_REPEAT, &reserving),
				 s);
		assert_int_equal(session_next((enum session_state)s, OUTCOME_LATER, &reserving), s);
	}
}

static void
test_a_bad_outcome_fails_everything_but_the_way_back(void **state)
{
	for (int s = SESSION_RESOLVE; s <= SESSION_OPEN; s++)
		assert_int_equal(session_next((enum session_state)s, OUTCOME_BAD, &reserving),
				 SESSION_FAILED);
	assert_int_equal(session_next(SESSION_RELEASE, OUTCOME_BAD, &reserving),
			 SESSION_UNREGISTER);
	assert_int_equal(session_next(SESSION_UNREGISTER, OUTCOME_CONFLICT, &reserving),
			 SESSION_LOGOUT);
	assert_int_equal(session_next(SESSION_LOGOUT, OUTCOME_UNSUPPORTED, &reserving),
			 SESSION_CLOSED);
}

static void
test_every_state_has_a_name(void **state)
{
	for (int s = SESSION_CLOSED; s <= SESSION_FAILED; s++)
		assert_non_null(session_state_name((enum session_state)s));
}

/* --- cutting --- */

#define IO_BYTES 20480u

static void
cut_all(uint32_t block, uint32_t limit, const size_t *lengths, int count, int expected_commands)
{
	static uint8_t memory[IO_BYTES];
	static struct iscsi_member member;
	struct iovec iov[64];
	struct backend_io io = {
		.op = BACKEND_WRITE, .length_bytes = IO_BYTES, .iov = iov, .iov_count = count
	};
	struct transfer transfer = { .io = &io, .place.iov = iov };
	size_t at = 0;
	int commands = 0;

	member.identity.block_bytes = block;
	member.identity.capacity_bytes = 1 << 20;
	member.identity.transfer_bytes_max = 1 << 20;
	member.write_bytes_max = limit;
	for (int i = 0; i < count; i++) {
		iov[i] = (struct iovec){ memory + at, lengths[i] };
		at += lengths[i];
	}
	assert_true(cut_possible(&member, &io));
	for (at = 0; at < IO_BYTES; commands++) {
		uint32_t length = cut_length(&member, &transfer);
		struct iscsi_place place = transfer.place;

		assert_true(length > 0 && length % block == 0 && length <= limit);
		while (place.offset == place.iov->iov_len)
			place = (struct iscsi_place){ .iov = place.iov + 1 };
		assert_ptr_equal((uint8_t *)place.iov->iov_base + place.offset, memory + at);
		cut_advance(&transfer, length);
		at += length;
	}
	assert_int_equal(at, IO_BYTES);
	assert_int_equal(commands, expected_commands);
}

static void
test_ios_are_cut_into_whole_blocks_within_the_limit(void **state)
{
	static const size_t whole[] = { IO_BYTES };
	static const size_t odd[] = { 1, 0, 4095, 511, 513, 8191, 1, 7168 };

	cut_all(512, 65536, whole, 1, 1);
	cut_all(512, 8192, whole, 1, 3);
	cut_all(4096, 4096, whole, 1, 5);
	cut_all(512, 65536, odd, 8, 1);
	cut_all(512, 512, odd, 8, 40);
	cut_all(4096, 8192, odd, 8, 3);
}

static void
test_writes_are_cut_where_they_would_wait_for_the_target(void **state)
{
	struct iscsi_negotiated agreed = {
		.first_burst_bytes = 262144,
		.max_burst_bytes = 131072,
		.target_segment_bytes = 100000,
		.initial_r2t = true,
		.immediate_data = true,
	};

	assert_int_equal(cut_write_bytes_max(&agreed, 512), 99840);
	agreed.initial_r2t = false;
	assert_int_equal(cut_write_bytes_max(&agreed, 512), 262144);
	agreed.first_burst_bytes = 8192; /* too little: one burst */
	assert_int_equal(cut_write_bytes_max(&agreed, 512), 131072);
	agreed.initial_r2t = true;
	agreed.immediate_data = false;
	assert_int_equal(cut_write_bytes_max(&agreed, 4096), 131072);
	agreed.max_burst_bytes = 512;
	assert_int_equal(cut_write_bytes_max(&agreed, 4096), 4096);
}

static void
test_ios_outside_the_lun_or_of_parts_of_blocks_are_refused(void **state)
{
	static struct iscsi_member member;
	static uint8_t memory[8192];
	struct iovec iov = { memory, sizeof(memory) };
	struct backend_io io = {
		.op = BACKEND_READ, .length_bytes = 4096, .iov = &iov, .iov_count = 1
	};

	member.identity.block_bytes = 4096;
	member.identity.capacity_bytes = 1 << 20;
	assert_true(cut_possible(&member, &io));
	io.offset_bytes = 512;
	assert_false(cut_possible(&member, &io));
	io.offset_bytes = 1 << 20;
	assert_false(cut_possible(&member, &io));
	io.offset_bytes = UINT64_MAX - 4095;
	assert_false(cut_possible(&member, &io));
	io.offset_bytes = 0;
	io.length_bytes = 0;
	assert_false(cut_possible(&member, &io));
	io.length_bytes = 12288; /* more than the iovec describes */
	assert_false(cut_possible(&member, &io));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_session_opens_without_fence_and_inspection),
		cmocka_unit_test(
			test_nothing_is_reserved_before_the_inspection_has_come_to_its_last_step),
		cmocka_unit_test(test_what_a_reservation_forbids_is_asked_when_it_is_ours),
		cmocka_unit_test(test_whoever_was_expelled_is_fenced_off_before_the_session_opens),
		cmocka_unit_test(test_whom_the_reset_does_not_fence_off_is_waited_for),
		cmocka_unit_test(test_the_reservation_is_decided_before_the_reset),
		cmocka_unit_test(test_whoever_loses_the_race_for_the_reservation_fails),
		cmocka_unit_test(test_targets_without_optional_commands_are_used_without),
		cmocka_unit_test(test_attentions_and_pauses_repeat_the_state),
		cmocka_unit_test(test_a_bad_outcome_fails_everything_but_the_way_back),
		cmocka_unit_test(test_every_state_has_a_name),
		cmocka_unit_test(test_ios_are_cut_into_whole_blocks_within_the_limit),
		cmocka_unit_test(test_writes_are_cut_where_they_would_wait_for_the_target),
		cmocka_unit_test(test_ios_outside_the_lun_or_of_parts_of_blocks_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
