/* test_engine_zero.c - ranges of zeros, and compare and write, on members in memory. */
#include "scenario.h"

#include <stdlib.h>

#define CHUNK 16384u
#define ROW_SECTORS (3 * CHUNK / RIG_SECTOR)
#define LOAD_BYTES (6u << 20)

static void
init(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 5, 4, CHUNK, LOAD_BYTES, seed);
}

static uint64_t
sum(const struct rig *rig, size_t offset)
{
	uint64_t total = 0;

	for (int i = 0; i < rig->count; i++)
		total += *(const uint64_t *)((const char *)&rig->members[i] + offset);
	return total;
}

#define SUM(rig, what) sum(rig, offsetof(struct fake_member, what))

static void
test_whole_rows_need_no_read_and_are_proven(void **state)
{
	const uint64_t row = 4 * CHUNK / RIG_SECTOR;
	struct engine_status before;
	uint64_t reads;
	struct rig rig;

	rig_init(&rig, 5, 5, CHUNK, LOAD_BYTES, 1); /* 4+1: read-modify-write is the cheapest */
	rig.options.resync_rows_max = 0;	    /* nobody else proves anything */
	rig_start_active(&rig);
	assert_true(rig_parity_faults(&rig) > 100);
	before = rig_status(&rig);
	reads = SUM(&rig, reads);
	rig_submit(&rig, REQUEST_ZERO, 10 * row, 60 * row, false);
	rig_drain(&rig);
	assert_int_equal(SUM(&rig, reads), reads);
	assert_int_equal(SUM(&rig, zeros), 5); /* one command of each member */
	assert_int_equal(rig_status(&rig).rows_full - before.rows_full, 60);
	/* On a proven row old parity may be used again. */
	rig_submit(&rig, REQUEST_WRITE, 20 * row, 1, false);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).rows_rmw, 1);
	finish(&rig);
}

static void
test_ends_of_a_range_are_written(void **state)
{
	struct rig rig;

	init(&rig, 2);
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 5 * ROW_SECTORS, false);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_ZERO, 5, 3 * ROW_SECTORS, true);
	rig_submit(&rig, REQUEST_ZERO, 4 * ROW_SECTORS + 7, 1, false);
	rig_submit(&rig, REQUEST_ZERO, 0, 0, false);
	rig_drain(&rig);
	assert_int_equal(SUM(&rig, zeros), 4); /* rows 1 and 2 */
	rig_verify(&rig);
	rig_power_loss(&rig); /* FUA: they are on the media */
	rig_start_active(&rig);
	finish(&rig);
}

static int
zeros_in_flight(const struct rig *rig)
{
	int count = 0;

	for (const struct fake_command *c = rig->members[0].queue; c != NULL; c = c->next)
		count += c->io->op == BACKEND_ZERO;
	return count;
}

static void
test_a_long_range_lets_others_pass_and_is_bounded(void **state)
{
	uint64_t done_before_it = 0;
	struct rig rig;
	int most = 0;

	rig_init(&rig, 5, 4, 4096, 24u << 20, 3); /* 2048 rows: 8 pieces of 256 */
	set_pace_of_all(&rig, 5000);
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	rig_step(&rig);
	for (int i = 0; i < 4; i++)
		rig_submit(&rig, REQUEST_READ, rig.sectors - 8 * (uint64_t)(i + 1), 8, false);
	while (rig.active_count > 0) {
		uint64_t before = rig.completed;

		rig_step(&rig);
		if (zeros_in_flight(&rig) > most)
			most = zeros_in_flight(&rig);
		if (rig.active_count > 0)
			done_before_it += rig.completed - before;
	}
	assert_int_equal(done_before_it, 4);
	assert_in_range(most, 2, 4);
	finish(&rig);
}

static int given_up_result;

static void
given_up_done(struct engine_request *request, int result)
{
	given_up_result = result;
}

/* Who submitted it waits no longer, and writes on.  Zeros must not follow over that. */
static void
test_a_range_that_was_given_up_begins_nothing_more(void **state)
{
	struct engine_request zeros = { .op = REQUEST_ZERO,
					.limit_ms = 500,
					.done = given_up_done };
	struct rig rig;

	rig_init(&rig, 5, 4, 4096, 24u << 20, 6); /* 2048 rows: 8 pieces of 256 */
	rig_start_active(&rig);
	for (int i = 0; i < rig.count; i++) {
		set_pace(&rig, i, 200000);
		rig.members[i].deadline_us = 2000000;
	}
	given_up_result = 1;
	zeros.length_bytes = rig.sectors * RIG_SECTOR;
	engine_submit(rig.engine, &zeros);
	rig_steps(&rig, 550);
	assert_int_equal(given_up_result, 1);
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 64, 64, false);
	for (int i = 0; i < 10000 && given_up_result == 1; i++)
		rig_step(&rig);
	assert_int_equal(given_up_result, -ETIME);
	rig_drain(&rig);
	rig_steps(&rig, 2000);
	rig_verify(&rig); /* it does not know of the zeros: they would be wrong */
	finish(&rig);
}

/* It waited for the volume to start.  Found by the simulator, seed 44010992. */
static void
test_a_range_that_is_late_before_it_begins_waits_for_no_other(void **state)
{
	struct engine_request zeros = { .op = REQUEST_ZERO, .limit_ms = 1, .done = given_up_done };
	struct rig rig;

	rig_init(&rig, 5, 4, 4096, 24u << 20, 7);
	rig_start(&rig);
	given_up_result = 1;
	zeros.length_bytes = rig.sectors * RIG_SECTOR;
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	engine_submit(rig.engine, &zeros);
	while (rig.active_count > 0 && given_up_result == 1)
		rig_step(&rig);
	assert_int_equal(given_up_result, -ETIME);
	assert_int_equal(SUM(&rig, zeros), 0);
	rig_drain(&rig);
	finish(&rig);
}

static uint32_t
longest_zero_in_flight(const struct rig *rig)
{
	uint32_t longest = 0;

	for (const struct fake_command *c = rig->members[0].queue; c != NULL; c = c->next)
		if (c->io->op == BACKEND_ZERO && c->io->length_bytes > longest)
			longest = c->io->length_bytes;
	return longest;
}

/* Zeroes all; how many were under way at once, and how long, once the first are through. */
static void
zero_all(struct rig *rig, uint32_t answer_us, int *most, uint32_t *longest)
{
	uint64_t zeros = SUM(rig, zeros);

	set_pace_of_all(rig, answer_us);
	*most = 0;
	*longest = 0;
	rig_submit(rig, REQUEST_ZERO, 0, rig->sectors, false);
	while (rig->active_count > 0) {
		rig_step(rig);
		if (SUM(rig, zeros) < zeros + 6 * (uint64_t)rig->count)
			continue; /* they learn */
		if (zeros_in_flight(rig) > *most)
			*most = zeros_in_flight(rig);
		if (longest_zero_in_flight(rig) > *longest)
			*longest = longest_zero_in_flight(rig);
	}
}

static void
test_pieces_are_as_long_as_members_are_quick(void **state)
{
	uint32_t quick, slow;
	struct rig rig;
	int most;

	rig_init(&rig, 5, 4, 65536, 30u << 20, 4);
	rig.options.resync_rows_max = 0;
	set_deadline_of_all(&rig, 500000);
	rig_start_active(&rig);
	zero_all(&rig, 80000, &most, &slow); /* of 500 ms to give up */
	assert_int_equal(slow, 65536);
	assert_int_equal(most, 1);
	zero_all(&rig, 2000, &most, &quick);
	assert_true(quick > 1u << 20);
	assert_in_range(most, 2, 4);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	finish(&rig);
}

/* A chunk may be longer than what is sent of zeros at once. */
static void
test_zeros_are_sent_to_members_with_large_chunks(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 1u << 20, 12u << 20, 5);
	for (int i = 0; i < rig.count; i++)
		rig.members[i].zeros_sent = true;
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	rig_drain(&rig);
	finish(&rig);
}

static void
test_a_member_may_go_while_zeros_are_written(void **state)
{
	for (int lost = 0; lost < 4; lost++) {
		struct rig rig;

		init(&rig, 10 + (uint64_t)lost);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		for (int i = 0; i < 40; i++) {
			rig_submit(&rig, REQUEST_WRITE, (uint64_t)i * 300, 250, false);
			rig_submit(&rig, REQUEST_ZERO, (uint64_t)i * 280, 400, i % 5 == 0);
			rig_step(&rig);
			if (i == 12)
				fake_member_cut(&rig.members[lost], false);
		}
		rig_drain(&rig);
		assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
		rig_submit(&rig, REQUEST_ZERO, 100, 4000, false);
		rig_drain(&rig);
		rig_verify(&rig);
		rig.members[lost].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 100000));
		rig_wait_for_resync(&rig);
		assert_int_equal(rig_parity_faults(&rig), 0);
		finish(&rig);
	}
}

/* What a member refuses is an error to the initiator where the level can't make up for it. */
static void
test_zeros_that_fail_are_told(void **state)
{
	struct rig rig;

	rig_init(&rig, 0, 3, CHUNK, LOAD_BYTES, 20);
	rig_start_active(&rig);
	rig.errors_allowed = true;
	rig.members[1].refuse_writes = true;
	rig_submit(&rig, REQUEST_ZERO, 0, 10 * ROW_SECTORS, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	assert_int_equal(rig.last_error, -EIO);
	rig.members[1].refuse_writes = false;
	rig_stop(&rig);
	rig_free(&rig);

	init(&rig, 21);
	rig_start_active(&rig);
	rig.errors_allowed = true;
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	rig_submit(&rig, REQUEST_ZERO, 0, 10 * ROW_SECTORS, false);
	rig_submit(&rig, REQUEST_ZERO, 3, 5, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 2);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_stop_does_not_wait_for_a_long_range(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 4096, 24u << 20, 22);
	set_pace_of_all(&rig, 5000);
	rig_start_active(&rig);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	rig_steps(&rig, 3);
	rig_stop(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_true(SUM(&rig, zeros) < 4 * 8);
	rig_start_active(&rig);
	finish(&rig);
}

/* --- compare and write --- */

#define LENGTH_MAX (COMPARE_WRITE_BYTES_MAX + 4096)

struct compare {
	struct engine_request request;
	uint8_t memory[2 * LENGTH_MAX];
	struct iovec iov[3];
	int result;
	bool done;
};

static void
compare_done(struct engine_request *request, int result)
{
	struct compare *compare = request->owner;

	compare->result = result;
	compare->done = true;
}

static void
compare_submit(struct rig *rig, struct compare *compare, uint64_t sector, uint32_t length_bytes)
{
	/* An odd cut: in the midst of the halves, and of a sector. */
	compare->iov[0] = (struct iovec){ compare->memory, length_bytes / 3 };
	compare->iov[1] = (struct iovec){ compare->memory + length_bytes / 3, length_bytes };
	compare->iov[2] = (struct iovec){ compare->memory + length_bytes / 3 + length_bytes,
					  length_bytes - length_bytes / 3 };
	compare->done = false;
	compare->request = (struct engine_request){
		.op = REQUEST_COMPARE_WRITE,
		.offset_bytes = sector * RIG_SECTOR,
		.length_bytes = length_bytes,
		.iov = compare->iov,
		.iov_count = 3,
		.done = compare_done,
		.owner = compare,
	};
	engine_submit(rig->engine, &compare->request);
}

static int
compare_wait(struct rig *rig, struct compare *compare)
{
	for (int i = 0; i < 20000 && !compare->done; i++)
		rig_step(rig);
	assert_true(compare->done);
	return compare->result;
}

static void
test_compare_and_write_says_where_it_differs(void **state)
{
	struct compare *compare = calloc(1, sizeof(*compare));
	const uint64_t sector = 2 * ROW_SECTORS - 5; /* over the end of a row */
	struct rig rig;

	init(&rig, 30);
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_ZERO, 0, 4 * ROW_SECTORS, false);
	rig_drain(&rig);
	for (int lost = -1; lost < 1; lost++) {
		if (lost >= 0) {
			fake_member_cut(&rig.members[1], false);
			assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		}
		memset(compare->memory, 0, sizeof(compare->memory));
		for (uint32_t at = 0; at < 10 * RIG_SECTOR; at += 997) {
			compare->memory[at] = 1;
			compare_submit(&rig, compare, sector, 10 * RIG_SECTOR);
			assert_int_equal(compare_wait(&rig, compare), -EILSEQ);
			assert_int_equal(compare->request.mismatch_bytes, at);
			compare->memory[at] = 0;
		}
		memset(compare->memory + 10 * RIG_SECTOR, 0x5a, 10 * RIG_SECTOR);
		compare_submit(&rig, compare, sector, 10 * RIG_SECTOR);
		assert_int_equal(compare_wait(&rig, compare), 0);
		compare_submit(&rig, compare, sector, 10 * RIG_SECTOR);
		assert_int_equal(compare_wait(&rig, compare), -EILSEQ); /* it was written */
		assert_int_equal(compare->request.mismatch_bytes, 0);
		rig_submit(&rig, REQUEST_ZERO, 0, 4 * ROW_SECTORS, false);
		rig_drain(&rig);
	}
	compare_submit(&rig, compare, 0, COMPARE_WRITE_BYTES_MAX + RIG_SECTOR);
	assert_int_equal(compare_wait(&rig, compare), -EINVAL);
	compare_submit(&rig, compare, rig.volume_bytes / RIG_SECTOR - 1, 2 * RIG_SECTOR);
	assert_int_equal(compare_wait(&rig, compare), -ERANGE);
	memset(compare->memory, 0, sizeof(compare->memory));
	compare_submit(&rig, compare, 3, COMPARE_WRITE_BYTES_MAX);
	assert_int_equal(compare_wait(&rig, compare), 0);
	finish(&rig);
	free(compare);
}

/* A counter on one sector, raised by many at once: no two may succeed on the same value. */
static void
count_up(struct rig *rig, int depth, int rounds)
{
	struct compare *all = calloc((size_t)depth, sizeof(*all));
	uint32_t counter = 0, successes = 0, failures = 0;

	for (int i = 0; i < depth; i++)
		all[i].done = true;
	while (rounds > 0) {
		for (int i = 0; i < depth; i++) {
			uint32_t value = counter + 1;

			if (!all[i].done)
				continue;
			memset(all[i].memory, 0, 2 * RIG_SECTOR);
			memcpy(all[i].memory, &counter, sizeof(counter));
			memcpy(all[i].memory + RIG_SECTOR, &value, sizeof(value));
			compare_submit(rig, &all[i], 77, RIG_SECTOR);
			rounds--;
		}
		if (rounds < 200 && rig->members[0].reachable)
			fake_member_cut(&rig->members[0], false);
		rig_step(rig);
		for (int i = 0; i < depth; i++) {
			uint32_t value;

			if (!all[i].done || all[i].request.owner == NULL)
				continue;
			all[i].request.owner = NULL;
			memcpy(&value, all[i].memory, sizeof(value));
			if (all[i].result == 0) {
				/* nobody else took it from there */
				assert_int_equal(value, counter);
				counter++;
				successes++;
			} else {
				assert_int_equal(all[i].result, -EILSEQ);
				failures++;
			}
		}
	}
	for (int i = 0; i < depth; i++) {
		compare_wait(rig, &all[i]);
		if (all[i].request.owner != NULL)
			successes += all[i].result == 0;
	}
	memset(all[0].memory, 0, RIG_SECTOR);
	memcpy(all[0].memory, &successes, sizeof(successes));
	compare_submit(rig, &all[0], 77, RIG_SECTOR);
	assert_int_equal(compare_wait(rig, &all[0]), 0);
	assert_true(successes > 20 && failures > 20);
	free(all);
}

static void
test_a_counter_kept_with_it_loses_no_increment(void **state)
{
	for (uint64_t seed = 40; seed < 44; seed++) {
		struct rig rig;

		init(&rig, seed);
		rig_start_active(&rig);
		rig_submit(&rig, REQUEST_ZERO, 0, ROW_SECTORS, false);
		rig_drain(&rig);
		count_up(&rig, 16, 2000);
		assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
		rig_submit(&rig, REQUEST_ZERO, 0, ROW_SECTORS, false);
		rig_drain(&rig);
		finish(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_rows_need_no_read_and_are_proven),
		cmocka_unit_test(test_ends_of_a_range_are_written),
		cmocka_unit_test(test_a_long_range_lets_others_pass_and_is_bounded),
		cmocka_unit_test(test_a_range_that_was_given_up_begins_nothing_more),
		cmocka_unit_test(test_a_range_that_is_late_before_it_begins_waits_for_no_other),
		cmocka_unit_test(test_pieces_are_as_long_as_members_are_quick),
		cmocka_unit_test(test_zeros_are_sent_to_members_with_large_chunks),
		cmocka_unit_test(test_a_member_may_go_while_zeros_are_written),
		cmocka_unit_test(test_zeros_that_fail_are_told),
		cmocka_unit_test(test_a_stop_does_not_wait_for_a_long_range),
		cmocka_unit_test(test_compare_and_write_says_where_it_differs),
		cmocka_unit_test(test_a_counter_kept_with_it_loses_no_increment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
