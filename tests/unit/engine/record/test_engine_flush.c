/* test_engine_flush.c - what a flush covers, and what it waits for. */
#include "flushed.h"

#include "pure/layout.h"

#include <errno.h>

/* The engine sees what was submitted; no member answers anything. */
static void
turn(struct rig *rig)
{
	engine_run(rig->engine, rig->now_ms);
}

/* All but the first take their time, so that one is not evicted yet when it is back. */
static void
slow_down(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++) {
		rig->members[i].answer_us_min = rig->members[i].answer_us_max =
			i == 0 ? 20000 : 300000;
		rig->members[i].deadline_us = 2000000;
	}
	rig->step_ms_max = 2;
}

/* engine_run() went round for ever: the flush was repeated until the member's fate was known, and
 * never sent to it.
 */
static void
test_a_flush_ends_although_the_member_returns_without_a_cache(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1501);
	write_everywhere(&rig);
	slow_down(&rig);
	rig.members[0].disk.write_cache = false;
	/* so that it can't say that it kept what it had */
	fake_member_power_loss(&rig.members[0], true);
	turn(&rig);
	wait_for_link(&rig, 0, LINK_OPEN);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	turn(&rig);
	rig_drain(&rig);
	finish(&rig);
}

static void
test_a_flush_waits_for_an_eviction_under_way(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1502);
	write_everywhere(&rig);
	/* One that can't be recorded: until it is, the member counts, and so does what its cache
	 * lost.
	 */
	rig.members[2].refuse_from_bytes = LAYOUT_SUPERBLOCK_A_OFFSET;
	rig.members[2].refuse_to_bytes = LAYOUT_MAP_OFFSET;
	fake_member_power_loss(&rig.members[1], false);
	wait_for_state(&rig, 1, MEMBER_FAULTY);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_steps(&rig, 500);
	assert_int_equal(rig.active_count, 1);
	rig.members[2].refuse_to_bytes = 0;
	rig_drain(&rig);
	finish(&rig);
}

static void
test_a_flush_that_its_session_cut_off_covers_nothing(void **state)
{
	uint64_t lost = 0;
	struct rig rig;

	(void)state;
	/* Now and then the device had done it when it lost power. */
	for (uint64_t seed = 1530; seed < 1538; seed++) {
		start(&rig, 5, 4, seed);
		write_everywhere(&rig);
		slow_down(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		turn(&rig);
		fake_member_power_loss(&rig.members[0], true);
		lost += rig.members[0].counts.sectors_lost;
		rig_drain(&rig);
		speed_up(&rig);
		rig_verify(&rig);
		wait_for_state(&rig, 0, MEMBER_IN_SYNC);
		finish(&rig);
	}
	assert_true(lost > 0);
}

static void
test_a_flush_that_failed_covers_nothing(void **state)
{
	uint64_t flushes;
	struct rig rig;

	(void)state;
	start(&rig, 0, 2, 1504);
	write_everywhere(&rig);
	rig.errors_allowed = true;
	rig.members[0].refuse_flushes = true;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -EIO);
	rig.errors_allowed = false;
	rig.members[0].refuse_flushes = false;
	flushes = rig.members[0].flushes;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	assert_int_equal(rig.members[0].flushes, flushes + 1);
	rig_power_loss(&rig);
	rig_start_active(&rig);
	finish(&rig);
}

/* The survivors may have lost what was written last, and parity then fits nothing: without marks
 * nobody would know.
 */
static void
test_a_stop_whose_flush_failed_clears_no_marks(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1505);
	fake_member_power_loss(&rig.members[3], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	write_everywhere(&rig);
	rig.members[1].refuse_flushes = true;
	rig_stop(&rig);
	rig.members[1].refuse_flushes = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 100);
	assert_true(rig_status(&rig).lost_extents > 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* A member that is sent away has a flush waiting for it when its session ends, and with that its
 * power.  Then it is needed, and stays: the flush it is sent now covers nothing of what it lost.
 */
static void
test_a_flush_that_waits_for_its_member_has_not_covered_anything_yet(void **state)
{
	uint64_t lost = 0;

	for (uint64_t seed = 1510; seed < 1518; seed++) {
		struct rig rig;
		char why[256];

		start(&rig, 5, 4, seed);
		write_everywhere(&rig);
		assert_int_equal(engine_fail(rig.engine, 1, why), 0);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		turn(&rig);
		fake_member_power_loss(&rig.members[1], true);
		fake_member_cut(&rig.members[2], false);
		rig_steps(&rig, 300);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		lost += rig.members[1].counts.sectors_lost;
		rig.errors_allowed = true;
		rig.members[2].reachable = true;
		rig_drain(&rig);
		/* the flush, and not read: what it lost was not flushed */
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* The session ends before its answer, and for longer than the request waits.  Who reads it later
 * may believe a flush.
 */
static void
test_a_write_that_failed_and_was_done_is_flushed(void **state)
{
	uint64_t done = 0;

	for (uint64_t seed = 1590; seed < 1606; seed++) {
		struct rig rig;

		rig_init(&rig, 0, 2, 16384, LOAD_BYTES, seed);
		set_caches(&rig, true);
		rig.options.queue_limit_ms = 2000;
		rig_start_active(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false); /* of what came before */
		rig_drain(&rig);
		slow_down(&rig);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
		turn(&rig);
		fake_member_cut(&rig.members[0], false);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -ETIMEDOUT);
		done += rig.members[0].disk.dirty_count;
		rig.members[0].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.members[0].disk.dirty_count, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(done > 0);
}

/* What the cache of one session took and kept stays there when the device says in the next that it
 * has none any more: that is of what it will be sent.
 */
static void
test_what_a_cache_took_is_flushed_after_it_was_switched_off(void **state)
{
	unsigned int kept = 0;

	(void)state;
	for (uint64_t seed = 1640; seed < 1648; seed++) {
		struct rig rig;

		start(&rig, 0, 2, seed);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		fake_member_cut(&rig.members[0], true);
		rig_steps(&rig, 400);
		write_everywhere(&rig);
		rig.members[0].hides_cache = true;
		fake_member_cut(&rig.members[0], true);
		rig_steps(&rig, 400);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		kept += rig.failed == 0;
		assert_int_equal(rig.members[0].disk.dirty_count, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(kept > 0);
}

/* Nor does it matter that the gateway which wrote it has died since. */
static void
test_what_a_gateway_left_in_a_cache_is_flushed_after_it_was_switched_off(void **state)
{
	(void)state;
	for (int level = 0; level <= 5; level += 5) {
		struct rig rig;

		start(&rig, level, level == 0 ? 2 : 4, 1650);
		write_everywhere(&rig);
		assert_true(rig.members[0].disk.dirty_count > 0);
		rig_crash(&rig);
		for (int m = 0; m < rig.count; m++)
			rig.members[m].hides_cache = true;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		for (int m = 0; m < rig.count; m++)
			assert_int_equal(rig.members[m].disk.dirty_count, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* A member refuses a flush, and is sent away for that.  It loses its power, is needed, and stays:
 * the flush it is sent now covers nothing of what it lost.
 */
static void
test_a_flush_that_was_refused_covers_nothing(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1670; seed < 1674; seed++) {
		struct rig rig;

		start(&rig, 5, 4, seed);
		write_everywhere(&rig);
		slow_down(&rig);
		set_pace(&rig, 1, 100);
		rig.members[1].refuse_flushes = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		for (int i = 0; i < 50 && rig_status(&rig).members[1].link == LINK_OPEN; i++)
			rig_step(&rig);
		assert_int_not_equal(rig_status(&rig).members[1].link, LINK_OPEN);
		rig.members[1].refuse_flushes = false;
		fake_member_power_loss(&rig.members[1], true);
		fake_member_cut(&rig.members[2], false);
		rig_steps(&rig, 300);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		lost += rig.members[1].counts.sectors_lost;
		speed_up(&rig);
		rig.errors_allowed = true;
		rig.members[2].reachable = true;
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* It says that another gateway has it, and loses its power before it takes the flush. */
static void
test_a_flush_that_met_a_conflict_covers_nothing(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1680; seed < 1684; seed++) {
		struct rig rig;

		start(&rig, 0, 3, seed);
		write_everywhere(&rig);
		rig.errors_allowed = true;
		rig.members[1].conflicts = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		wait_for_link(&rig, 1, LINK_CLOSED);
		fake_member_power_loss(&rig.members[1], true);
		rig.members[1].conflicts = false;
		rig_drain(&rig);
		if (rig.members[1].counts.sectors_lost > 0) {
			assert_int_equal(rig.failed, 1);
			assert_int_equal(rig.last_error, -EIO);
		}
		lost += rig.members[1].counts.sectors_lost;
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* A write that a session with a cache cut off is given up while one without a cache is being
 * opened: it may be in that cache yet.
 */
static void
test_a_write_given_up_in_another_session_is_flushed(void **state)
{
	uint64_t done = 0;

	(void)state;
	for (uint64_t seed = 1690; seed < 1706; seed++) {
		struct rig rig;

		rig_init(&rig, 0, 2, 16384, LOAD_BYTES, seed);
		set_caches(&rig, true);
		rig.options.queue_limit_ms = 2000;
		rig_start_active(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false); /* of what came before */
		rig_drain(&rig);
		slow_down(&rig);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
		turn(&rig);
		rig.members[0].hides_cache = true;
		rig.members[0].deadline_us = 20000000;
		rig.members[0].mute_from_bytes = 0;
		rig.members[0].mute_to_bytes = LAYOUT_MAP_OFFSET;
		fake_member_cut(&rig.members[0], true);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -ETIMEDOUT);
		done += rig.members[0].disk.dirty_count;
		rig.members[0].mute_from_bytes = UINT64_MAX;
		fake_member_cut(&rig.members[0], true);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.members[0].disk.dirty_count, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(done > 0);
}

/* Waits for two members that are silent too long: its initiator hears of that, and may ask again on
 * another path.
 */
static void
flush_in_vain(struct rig *rig)
{
	fake_member_cut(&rig->members[1], false);
	fake_member_cut(&rig->members[2], false);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	assert_int_equal(rig->failed, 1);
	assert_int_equal(rig->last_error, -ETIMEDOUT);
	rig->members[1].reachable = true;
	rig->members[2].reachable = true;
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
}

static void
test_a_flush_that_was_not_carried_out_tells_of_no_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1680; seed < 1692; seed++) {
		struct rig rig;

		start(&rig, 5, 4, seed);
		rig.options.grace_ms = 1000;
		rig.options.queue_limit_ms = 3000;
		engine_set_limits(rig.engine, &rig.options);
		write_everywhere(&rig);
		rig_lose_caches(&rig, 1, 2);
		rig.errors_allowed = true;
		flush_in_vain(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 2);
		assert_int_equal(rig.last_error, -EIO);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 2); /* once */
		rig_stop(&rig);
		rig_free(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flush_ends_although_the_member_returns_without_a_cache),
		cmocka_unit_test(test_a_flush_waits_for_an_eviction_under_way),
		cmocka_unit_test(test_a_flush_that_its_session_cut_off_covers_nothing),
		cmocka_unit_test(test_a_flush_that_failed_covers_nothing),
		cmocka_unit_test(test_a_stop_whose_flush_failed_clears_no_marks),
		cmocka_unit_test(
			test_a_flush_that_waits_for_its_member_has_not_covered_anything_yet),
		cmocka_unit_test(test_a_write_that_failed_and_was_done_is_flushed),
		cmocka_unit_test(test_what_a_cache_took_is_flushed_after_it_was_switched_off),
		cmocka_unit_test(
			test_what_a_gateway_left_in_a_cache_is_flushed_after_it_was_switched_off),
		cmocka_unit_test(test_a_flush_that_was_refused_covers_nothing),
		cmocka_unit_test(test_a_flush_that_met_a_conflict_covers_nothing),
		cmocka_unit_test(test_a_write_given_up_in_another_session_is_flushed),
		cmocka_unit_test(test_a_flush_that_was_not_carried_out_tells_of_no_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
