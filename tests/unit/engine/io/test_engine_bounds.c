/* test_engine_bounds.c - every request ends in time, whatever is refused; and nobody waits for what
 * does not concern it.
 */
#include "scenario.h"

#include "pure/layout.h"

#define LOAD_BYTES (4ull << 20)

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	rig->options.queue_limit_ms = 5000;
	rig->options.assembly_limit_ms = 5000;
	rig->options.give_up_ms = 500;
	for (int i = 0; i < count; i++) {
		rig->members[i].disk.write_cache = false;
		rig->members[i].deadline_us = 500000;
	}
	rig->step_ms_max = 5;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 1024, 1024);
	rig_drain(rig);
}

static void
refuse_superblocks(struct rig *rig, int member, bool refused)
{
	rig->members[member].refuse_from_bytes = LAYOUT_SUPERBLOCK_A_OFFSET;
	rig->members[member].refuse_to_bytes = refused ? LAYOUT_MAP_OFFSET : 0;
}

/* Nothing is active any more after this time. */
static void
drain_within(struct rig *rig, uint64_t limit_ms)
{
	const uint64_t since_ms = rig->now_ms;

	while (rig->active_count > 0 && rig->now_ms - since_ms <= limit_ms)
		rig_step(rig);
	assert_int_equal(rig->active_count, 0);
}

/* A member is gone, and the superblock that would record it is refused by one that can't be spared.
 */
static void
stick(struct rig *rig)
{
	refuse_superblocks(rig, 2, true);
	fake_member_cut(&rig->members[1], false);
	wait_for_state(rig, 1, MEMBER_FAULTY);
}

static void
test_reads_go_on_while_an_eviction_can_not_be_recorded(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1701);
	stick(&rig);
	submit_everywhere(&rig, REQUEST_READ, 512, 300);
	drain_within(&rig, 1000);
	refuse_superblocks(&rig, 2, false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	finish(&rig);
}

/* The member takes superblocks again: the volume works, by itself. */
static void
recover(struct rig *rig)
{
	refuse_superblocks(rig, 2, false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 100);
	rig->errors_allowed = false;
	submit_everywhere(rig, REQUEST_WRITE, 1024, 1024);
	rig_drain(rig);
	finish(rig);
}

static void
submit_all_kinds(struct rig *rig, uint64_t turn)
{
	for (uint64_t i = 0; i < 16; i++) {
		rig_submit(rig, REQUEST_WRITE, i * 300, 100, i % 4 == 0);
		rig_submit(rig, REQUEST_READ, i * 300 + 50, 100, false);
	}
	rig_submit(rig, REQUEST_ZERO, 5000, 100, false);
	rig_submit(rig, REQUEST_ZERO, 5200, 2900, false); /* a long one */
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_submit(rig, REQUEST_COMPARE_WRITE, 4900 + 16 * turn, 8, false);
}

static void
test_every_request_ends_while_an_eviction_can_not_be_recorded(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1702);
	stick(&rig);
	rig.errors_allowed = true;
	for (uint64_t turn = 0; turn < 3; turn++) {
		submit_all_kinds(&rig, turn);
		drain_within(&rig, engine_request_ms_max(&rig.options));
		assert_int_equal(rig.last_error, -ETIMEDOUT);
	}
	recover(&rig);
}

/* The first one's time is used up while the second has half of its own yet; then what both waited
 * for is there.
 */
static void
test_a_write_that_joined_one_that_is_late_has_its_own_time(void **state)
{
	uint64_t merged, since_ms;
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1713);
	stick(&rig);
	rig.errors_allowed = true;
	merged = rig_status(&rig).requests_merged;
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	for (since_ms = rig.now_ms; rig.now_ms - since_ms < 3000;)
		rig_step(&rig);
	rig_submit(&rig, REQUEST_WRITE, 8, 8, false);
	while (rig.active_count > 1)
		rig_step(&rig);
	assert_int_equal(rig_status(&rig).requests_merged, merged + 1);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	assert_int_equal(rig.active_count, 1);
	refuse_superblocks(&rig, 2, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig.errors_allowed = false;
	recover(&rig);
}

/* A long range has its time piece by piece, whether or not anybody else waits as long: alone, and
 * while reads go on.  The member that a piece waits for is silent, and the one that can't be spared
 * refuses to record it.
 */
static void
long_range_beside(bool reads, uint64_t seed)
{
	struct rig rig;
	uint64_t since_ms, bound_ms;

	start(&rig, 5, 4, seed);
	bound_ms = engine_request_ms_max(&rig.options);
	rig.errors_allowed = true;
	refuse_superblocks(&rig, 2, true);
	fake_member_cut(&rig.members[1], false);
	since_ms = rig.now_ms;
	rig_submit(&rig, REQUEST_ZERO, 0, 2900, false);
	rig_step(&rig);
	assert_int_equal(rig.active_count, 1);
	while (rig.failed == 0 && rig.now_ms - since_ms <= bound_ms) {
		assert_true(engine_deadline(rig.engine) <= since_ms + bound_ms);
		if (reads && rig.active_count < 4)
			rig_submit(&rig, REQUEST_READ, 5000, 8, false);
		rig_step(&rig);
	}
	assert_int_equal(rig.failed, 1);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig_drain(&rig);
	recover(&rig);
}

static void
test_a_long_range_ends_though_no_other_request_is_late(void **state)
{
	(void)state;
	long_range_beside(false, 1706);
	long_range_beside(true, 1707);
}

/* Where the level bears one more, the one that refuses goes as well, and nobody waits. */
static void
test_a_survivor_that_refuses_and_can_be_spared_is_evicted_too(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 6, 5, 1703);
	refuse_superblocks(&rig, 2, true);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 1024, 600);
	drain_within(&rig, 2000);
	wait_for_state(&rig, 2, MEMBER_FAULTY);
	finish(&rig);
}

static uint64_t
writes_within_ms(struct rig *rig, int member, uint64_t ms)
{
	const uint64_t since_ms = rig->now_ms, before = rig->members[member].writes;

	while (rig->now_ms - since_ms < ms)
		rig_step(rig);
	return rig->members[member].writes - before;
}

static void
test_what_is_refused_is_repeated_once_a_second(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1704);
	rig_steps(&rig, 2000); /* the regions are clean again */
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 1000);
	rig.members[2].refuse_from_bytes = LAYOUT_MAP_OFFSET;
	rig.members[2].refuse_to_bytes = LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES;
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	drain_within(&rig, engine_request_ms_max(&rig.options));
	assert_true(rig.failed > 0);
	assert_true(writes_within_ms(&rig, 2, 5000) <= 12);
	rig.members[2].refuse_to_bytes = 0;
	rig_steps(&rig, 1000);
	rig.errors_allowed = false;
	rig_submit(&rig, REQUEST_WRITE, 0, 1024, false);
	rig_drain(&rig);
	finish(&rig);
}

/* Of what a member has no answer comes: its session ends by its own deadline, and what waits behind
 * it is not forgotten.
 */
static void
test_a_member_that_hangs_while_another_is_out_costs_its_time_only(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1705);
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig.errors_allowed = true;
	submit_all_kinds(&rig, 0);
	fake_member_hang(&rig.members[2]);
	drain_within(&rig, engine_request_ms_max(&rig.options));
	fake_member_continue(&rig.members[2]);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 200);
	rig.errors_allowed = false;
	submit_everywhere(&rig, REQUEST_WRITE, 1024, 1024);
	rig_drain(&rig);
	finish(&rig);
}

static enum tap_verdict
hold_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ ? TAP_HOLD : TAP_PASS;
}

/* The session goes on, and nobody else can say what stands there.  What comes late is thrown away. */
static void
test_a_read_that_is_never_answered_ends_in_time(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	start(&rig, 5, 4, 1714);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[2]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 200);
	tap.judge = hold_reads;
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_READ, 0, 96, false);
	drain_within(&rig, engine_request_ms_max(&rig.options));
	assert_int_equal(rig.failed, 1);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig.errors_allowed = false;
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	finish(&rig);
}

static enum tap_verdict
hold_rows(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= (4u << 20) ? TAP_HOLD : TAP_PASS;
}

/* The first has commands under way that no member answers, so it can't end; the others can. */
static void
test_who_comes_behind_a_write_that_can_not_end_does_not_wait_for_it(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	start(&rig, 5, 4, 1715);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[2]);
	rig_start_active(&rig);
	tap.judge = hold_rows;
	rig_submit(&rig, REQUEST_WRITE, 0, 500, false);
	rig_steps(&rig, 100);
	assert_true(tap.held_count > 0);
	rig.errors_allowed = true;
	for (int i = 0; i < 3; i++)
		rig_submit(&rig, REQUEST_WRITE, 400, 8, false);
	for (const uint64_t since_ms = rig.now_ms;
	     rig.active_count > 1 && rig.now_ms - since_ms <= engine_request_ms_max(&rig.options);)
		rig_step(&rig);
	assert_int_equal(rig.active_count, 1);
	assert_int_equal(rig.failed, 3);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_drain(&rig);
	rig.errors_allowed = false;
	rig_submit(&rig, REQUEST_WRITE, 400, 8, false);
	rig_drain(&rig);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_go_on_while_an_eviction_can_not_be_recorded),
		cmocka_unit_test(test_every_request_ends_while_an_eviction_can_not_be_recorded),
		cmocka_unit_test(test_a_write_that_joined_one_that_is_late_has_its_own_time),
		cmocka_unit_test(test_a_long_range_ends_though_no_other_request_is_late),
		cmocka_unit_test(test_a_survivor_that_refuses_and_can_be_spared_is_evicted_too),
		cmocka_unit_test(test_what_is_refused_is_repeated_once_a_second),
		cmocka_unit_test(
			test_who_comes_behind_a_write_that_can_not_end_does_not_wait_for_it),
		cmocka_unit_test(test_a_read_that_is_never_answered_ends_in_time),
		cmocka_unit_test(test_a_member_that_hangs_while_another_is_out_costs_its_time_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
