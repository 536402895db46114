/* test_engine_evidence.c - on what evidence members are evicted, and when that is taken back. */
#include "scenario.h"

#include "pure/layout.h"

#define LOAD_BYTES (4ull << 20)
#define GIVE_UP_MS 500u
#define DATA_OFFSET (4u << 20)

static void
start_with_grace(struct rig *rig, uint64_t seed, uint32_t grace_ms)
{
	rig_init(rig, 5, 4, 16384, LOAD_BYTES, seed);
	rig->step_ms_max = 2;
	rig->options.give_up_ms = GIVE_UP_MS;
	rig->options.hedge_ms = 20;
	rig->options.grace_ms = grace_ms;
	set_caches(rig, false);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static void
start(struct rig *rig, uint64_t seed)
{
	start_with_grace(rig, seed, 0);
}

/* One member hangs, and nobody knows yet; the other, which refuses writes for a moment, would be
 * missed.
 */
static void
test_a_member_that_refuses_is_evicted_on_new_evidence_only(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1601);
	rig_verify(&rig);
	rig.members[1].deadline_us = 1000000;
	rig_steps(&rig, 100);
	fake_member_hang(&rig.members[1]);
	rig.members[0].refuse_writes = true;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig.members[0].refuse_writes = false;
	wait_for_state(&rig, 1, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	finish(&rig);
}

/* The others did answer when it was condemned, but one hangs before all superblocks say so. */
static void
test_a_member_that_is_needed_is_kept_until_its_eviction_is_durable(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1602);
	rig.members[1].deadline_us = 1000000;
	rig.members[0].refuse_writes = true;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	wait_for_state(&rig, 0, MEMBER_FAULTY);
	fake_member_hang(&rig.members[1]);
	rig.members[0].refuse_writes = false;
	wait_for_state(&rig, 0, MEMBER_IN_SYNC);
	wait_for_state(&rig, 1, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	finish(&rig);
}

/* A member that takes sessions at once, shows its superblocks, and answers nothing else.  The
 * others take so long for any answer that it is back before one of them has said that they can do
 * without it.
 */
static void
start_mute(struct rig *rig, uint64_t seed, uint64_t mute_from_bytes)
{
	start(rig, seed);
	rig_verify(rig);
	rig_steps(rig, 3000); /* the regions are clean again */
	set_deadline_of_all(rig, GIVE_UP_MS * 1000);
	/* that is what they are known to take: nobody is avoided as slow */
	set_pace_of_all(rig, 60000);
	for (int i = 0; i < 16; i++) {
		rig_submit(rig, REQUEST_READ, 0, rig->sectors, false);
		rig_drain(rig);
	}
	set_pace_of_all(rig, 140000);
	set_pace(rig, 1, 1000);
	rig->members[1].mute_from_bytes = mute_from_bytes;
}

/* Reads of all members go on meanwhile. */
static void
wait_until_out(struct rig *rig, uint64_t limit_ms)
{
	const uint64_t since_ms = rig->now_ms;

	while (rig_status(rig).members[1].state == MEMBER_IN_SYNC &&
	       rig->now_ms - since_ms < limit_ms) {
		for (uint64_t sector = 0; sector < rig->sectors && rig->active_count < 32;
		     sector += 256)
			rig_submit(rig, REQUEST_READ, sector, 64, false);
		rig_steps(rig, 20);
	}
	assert_int_not_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
}

static void
speak(struct rig *rig)
{
	set_pace_of_all(rig, 1000);
	rig->members[1].mute_from_bytes = UINT64_MAX;
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 60000));
	finish(rig);
}

static void
test_a_member_that_answers_nothing_but_log_ins_goes(void **state)
{
	struct rig rig;

	(void)state;
	start_mute(&rig, 1603, LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES);
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	wait_until_out(&rig, 4000);
	speak(&rig);
}

/* Its reads are made from the others, so nothing of them waits for it, and no command is sent to it
 * twice.
 */
static void
test_a_member_that_answers_no_read_goes(void **state)
{
	struct rig rig;

	(void)state;
	start_mute(&rig, 1604, LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES);
	wait_until_out(&rig, 4000);
	speak(&rig);
}

/* All but the region map is answered. */
static void
test_a_member_that_does_not_answer_one_command_goes(void **state)
{
	struct rig rig;

	(void)state;
	start_mute(&rig, 1605, UINT64_MAX);
	rig.members[1].mute_from_bytes = LAYOUT_MAP_OFFSET;
	rig.members[1].mute_to_bytes = LAYOUT_LOST_OFFSET;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	wait_until_out(&rig, 4000);
	speak(&rig);
}

/* A member with two paths, so that it is back before anybody may do without it, answers all but
 * what concerns its chunk of the first row.  Whoever waits for that row may wait for less than two
 * sessions can last.
 */
static void
start_deaf_to_one_row(struct rig *rig, uint64_t seed)
{
	struct fake_member *member = &rig->members[1];

	start(rig, seed);
	rig_verify(rig);
	member->backend.paths = 2;
	member->deadline_us = GIVE_UP_MS * 1000;
	member->command_us_max = 6ull * GIVE_UP_MS * 1000;
	member->mute_from_bytes = LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES;
	member->mute_to_bytes = DATA_OFFSET + 16384;
	rig_submit(rig, REQUEST_WRITE, 0, 96, false);
	rig_submit(rig, REQUEST_WRITE, 8, 8, false);
}

/* Reads of other rows go on, for so long or until it is out. */
static uint64_t
read_other_rows(struct rig *rig, uint64_t most_ms)
{
	const uint64_t since_ms = rig->now_ms;

	while (rig_status(rig).members[1].state == MEMBER_IN_SYNC &&
	       rig->now_ms - since_ms < most_ms) {
		for (uint64_t sector = 960; sector < rig->sectors && rig->active_count < 32;
		     sector += 96)
			rig_submit(rig, REQUEST_READ, sector, 96, false);
		rig_steps(rig, 5);
	}
	return rig->now_ms - since_ms;
}

static void
test_one_command_has_no_whole_session_more(void **state)
{
	struct rig rig;

	(void)state;
	start_deaf_to_one_row(&rig, 1613);
	assert_in_range(read_other_rows(&rig, 12 * GIVE_UP_MS), 6 * GIVE_UP_MS,
			7 * GIVE_UP_MS + 100);
	assert_int_not_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	speak(&rig);
}

static void
test_one_command_has_its_time_in_another_session(void **state)
{
	struct rig rig;

	(void)state;
	start_deaf_to_one_row(&rig, 1614);
	read_other_rows(&rig, 6 * GIVE_UP_MS - 100);
	rig.members[1].mute_from_bytes = UINT64_MAX;
	set_pace(&rig, 1, GIVE_UP_MS * 200);
	read_other_rows(&rig, 2 * GIVE_UP_MS);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	finish(&rig);
}

/* One command that met two short interruptions has not waited longer than silence is borne. */
static void
test_a_member_whose_sessions_end_twice_in_short_stays(void **state)
{
	struct rig rig;

	(void)state;
	start_with_grace(&rig, 1606, 300);
	rig_verify(&rig);
	rig.members[1].deadline_us = GIVE_UP_MS * 1000;
	rig.members[1].mute_from_bytes = LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	for (int i = 0; i < 2; i++) {
		rig_steps(&rig, 30);
		if (i == 1)
			rig.members[1].mute_from_bytes = UINT64_MAX;
		fake_member_cut(&rig.members[1], true);
	}
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	finish(&rig);
}

/* One half was to be assembled, and each time the gateway died before it knew of the epoch that
 * this had got: nothing was done.
 */
static void
assemble_in_vain(struct rig *rig, int tries)
{
	const uint64_t epoch = rig->epoch_recorded;

	rig->members[1].reachable = false;
	while (tries-- > 0) {
		rig_start(rig);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
		rig_crash(rig);
		rig->epoch_recorded = epoch;
	}
	rig->members[0].reachable = false;
	rig->members[1].reachable = true;
}

/* The other half is written to then, and is the one that counts when both are there. */
static void
test_assembly_that_never_was_counts_for_nothing(void **state)
{
	struct rig rig;

	for (int tries = 1; tries <= 2; tries++) {
		rig_init(&rig, 1, 2, 16384, LOAD_BYTES, 1300 + (uint64_t)tries);
		rig_start_active(&rig);
		submit_everywhere(&rig, REQUEST_WRITE, 64, 64);
		rig_drain(&rig);
		rig_stop(&rig);
		assemble_in_vain(&rig, tries);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		submit_everywhere(&rig, REQUEST_WRITE, 64, 64);
		rig_drain(&rig);
		rig_stop(&rig);
		rig.members[0].reachable = true;
		rig_start(&rig);
		wait_until(&rig, all_in_sync);
		finish(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_member_that_refuses_is_evicted_on_new_evidence_only),
		cmocka_unit_test(
			test_a_member_that_is_needed_is_kept_until_its_eviction_is_durable),
		cmocka_unit_test(test_a_member_that_answers_nothing_but_log_ins_goes),
		cmocka_unit_test(test_a_member_that_answers_no_read_goes),
		cmocka_unit_test(test_a_member_that_does_not_answer_one_command_goes),
		cmocka_unit_test(test_one_command_has_no_whole_session_more),
		cmocka_unit_test(test_one_command_has_its_time_in_another_session),
		cmocka_unit_test(test_a_member_whose_sessions_end_twice_in_short_stays),
		cmocka_unit_test(test_assembly_that_never_was_counts_for_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
