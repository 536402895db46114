/* test_engine_grace.c - a member whose session was ended has a moment to take another. */
#include "scenario.h"

#define LOAD_BYTES (4ull << 20)
#define GRACE_MS 1000u
#define SPARE 4 /* rig->members[] of a spare, and its slot */

static void
start(struct rig *rig, uint32_t grace_ms, uint64_t seed)
{
	rig_init(rig, 5, 4, 16384, LOAD_BYTES, seed);
	rig->options.grace_ms = grace_ms;
	set_caches(rig, false);
	rig->step_ms_max = 2;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

/* Under load for so long; how many turns a member was not in sync. */
static int
turns_out(struct rig *rig, int slot, uint64_t ms)
{
	const uint64_t until_ms = rig->now_ms + ms;
	int out = 0;

	while (rig->now_ms < until_ms) {
		if (rig->active_count < 8)
			rig_submit_random(rig);
		rig_step(rig);
		out += rig_status(rig).members[slot].state != MEMBER_IN_SYNC;
	}
	return out;
}

static void
test_a_target_that_is_started_anew_costs_nothing(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, GRACE_MS, 1801);
	for (int i = 0; i < 4; i++) {
		fake_member_cut(&rig.members[i], false);
		assert_int_equal(turns_out(&rig, i, 300), 0);
		rig.members[i].reachable = true;
		assert_int_equal(turns_out(&rig, i, 200), 0);
		assert_int_equal(rig_status(&rig).members[i].link, LINK_OPEN);
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	}
	finish(&rig);
}

static void
test_one_that_stays_away_is_evicted_when_its_time_is_over(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, GRACE_MS, 1802);
	fake_member_cut(&rig.members[1], false);
	assert_int_equal(turns_out(&rig, 1, GRACE_MS - 50), 0);
	rig_steps(&rig, 200);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	rig_drain(&rig);
	finish(&rig);
}

static void
test_without_grace_it_is_evicted_at_once(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 0, 1803);
	fake_member_cut(&rig.members[1], false);
	assert_true(turns_out(&rig, 1, 100) > 20);
	finish(&rig);
}

/* Reads need not wait for it. */
static void
test_reads_go_around_a_member_that_has_grace(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, GRACE_MS, 1804);
	submit_everywhere(&rig, REQUEST_WRITE, 1024, 1024);
	rig_drain(&rig);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_READ, 512, 512);
	rig_steps(&rig, 200);
	assert_int_equal(rig.active_count, 0);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	rig.members[1].reachable = true;
	rig_steps(&rig, 200);
	finish(&rig);
}

static void
test_a_target_that_ends_every_session_has_no_more_time(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, GRACE_MS, 1805);
	fake_member_cut(&rig.members[1], true);
	for (int i = 0; i < 3000 && rig_status(&rig).state != VOLUME_DEGRADED; i++) {
		if (rig_status(&rig).members[1].link == LINK_OPEN)
			fake_member_cut(&rig.members[1], true);
		rig_step(&rig);
	}
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	finish(&rig);
}

static bool
is_copied(struct rig *rig)
{
	const struct engine_status status = rig_status(rig);

	return status.rebuild_slot == SPARE && status.rebuild.total_rows > 0 &&
	       status.rebuild.done_rows == status.rebuild.total_rows;
}

/* Who is to be replaced has not got the superblocks of before yet.  It needs none any more, and
 * those that give its place away must not wait for it.
 */
static void
test_a_place_is_taken_while_its_holder_has_grace(void **state)
{
	struct rig rig;
	char why[256];

	(void)state;
	start(&rig, 10 * GRACE_MS, 1806);
	rig_mark_spare(&rig, SPARE, RIG_MEMBER_BYTES);
	assert_int_equal(engine_attach(rig.engine, &rig.members[SPARE].backend, why), SPARE);
	wait_for_state(&rig, SPARE, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig.engine, 1, SPARE, why), 0);
	wait_until(&rig, is_copied);
	fake_member_cut(&rig.members[1], false);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	turns_out(&rig, 1, 5 * GRACE_MS);
	assert_int_equal(rig_status(&rig).members[SPARE].state, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).members[SPARE].role, 1);
	rig_drain(&rig);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_target_that_is_started_anew_costs_nothing),
		cmocka_unit_test(test_one_that_stays_away_is_evicted_when_its_time_is_over),
		cmocka_unit_test(test_without_grace_it_is_evicted_at_once),
		cmocka_unit_test(test_reads_go_around_a_member_that_has_grace),
		cmocka_unit_test(test_a_target_that_ends_every_session_has_no_more_time),
		cmocka_unit_test(test_a_place_is_taken_while_its_holder_has_grace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
