/* test_engine_takeover.c - two gateways: which members a take-over needs. */
#include "gateways.h"
#include "scenario.h"
#include "tap.h"

#include "engine/core/core.h"

/* --- the set of a take-over --- */

static void
check_refused(int level, int count, uint32_t reached, const char *says, uint64_t seed)
{
	struct rig rig;

	start(&rig, level, count, seed);
	crash(&rig);
	for (int m = 0; m < count; m++)
		rig.members[m].written = false;
	take_over(&rig, reached);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, says));
	assert_non_null(strstr(rig_status(&rig).reason, "--force"));
	for (int m = 0; m < count; m++)
		assert_false(rig.members[m].written);
	/* The others come, and nobody need do anything. */
	for (int m = 0; m < count; m++)
		rig.members[m].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

static void
test_a_take_over_needs_members_that_meet_every_set_which_could_run(void **state)
{
	(void)state;
	check_refused(1, 2, 1, "from 1 of 2 members", 1);
	check_refused(1, 3, 3, "from 2 of 3 members", 2);
	check_refused(6, 4, 3, "from 2 of 4 members", 3);
	check_refused(10, 4, 5, "from 2 of 4 members", 4);
}

/* Who has the volume goes on with all, as if nothing had been tried. */
static void
test_too_few_for_a_take_over_take_nothing(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 46);
	rig.options.members_needed = rig_status(&rig).members_needed;
	assert_int_equal(rig.options.members_needed, 3);
	crash(&rig);
	take_over(&rig, 3);
	wait_ms(&rig, 10000);
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	assert_non_null(strstr(rig_status(&rig).reason, "2 of 3 members that are needed answer"));
	for (int m = 0; m < 4; m++)
		assert_int_equal(rig.members[m].holder, 1);
	rig.members[2].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig.members[0].holder, 2);
	finish(&rig);
}

/* Whoever waits for the take-over to end or fail is not told that it failed meanwhile: one that is
 * asked just then must not be taken yet, and is asked again.
 */
static void
test_a_take_over_that_may_begin_has_not_failed(void **state)
{
	struct rig rig;

	(void)state;
	for (uint64_t seed = 60; seed < 60 + rig_lives(10); seed++) {
		start(&rig, 5, 4, seed);
		rig.options.members_needed = 3;
		crash(&rig);
		set_deadline_of_all(&rig, 10000000);
		for (int m = 0; m < 4; m++) /* their log-ins end at different times */
			set_pace(&rig, m, 1000 + 40000 * (uint64_t)m);
		take_over(&rig, 15);
		for (int i = 0; i < 20000 && rig_status(&rig).state != VOLUME_ACTIVE; i++) {
			assert_int_not_equal(rig_status(&rig).state, VOLUME_FAILED);
			rig_step(&rig);
		}
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
		finish(&rig);
	}
}

/* Its time is over: it says what any start would. */
static void
test_a_take_over_that_waits_for_others_does_not_wait_for_ever(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 47);
	rig.options.members_needed = 3;
	crash(&rig);
	take_over(&rig, 3);
	wait_ms(&rig, 19000);
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	for (int m = 0; m < 4; m++)
		rig.members[m].may_take = false; /* as the adapter has it then */
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "another gateway"));
	for (int m = 0; m < 4; m++) {
		assert_int_equal(rig.members[m].holder, 1);
		rig.members[m].holder = 2;
		rig.members[m].reachable = true;
	}
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* Of a target that bars writes only nothing is proven. */
static void
test_a_member_on_which_others_may_read_does_not_count(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 5);
	crash(&rig);
	rig.members[1].shares_reads = true;
	take_over(&rig, 14);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "from 2 of 4 members"));
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

static void
check_taken(int level, int count, uint32_t reached, uint64_t seed)
{
	struct rig rig;

	start(&rig, level, count, seed);
	crash(&rig);
	take_over(&rig, reached);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	for (int m = 0; m < count; m++)
		assert_int_equal(rig.engine->members[m].untold, 0);
	finish(&rig);
}

static void
test_a_take_over_does_without_members_with_which_nobody_could_run(void **state)
{
	(void)state;
	check_taken(5, 3, 3, 11);
	check_taken(6, 4, 7, 12);
	check_taken(6, 5, 7, 13);
	check_taken(10, 4, 7, 14);
}

static void
test_a_take_over_goes_by_who_was_in_sync(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 21);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_drain(&rig);
	crash(&rig);
	take_over(&rig, 1);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	finish(&rig);
}

/* --- who has gone, and may be started again --- */

static bool
is_told_once_more(struct rig *rig)
{
	return rig_superblock(rig, 0).undecided_roles == 0;
}

static void
check_other_waits_for_both(struct rig *rig)
{
	rig->epoch_recorded = 0;
	take_over(rig, 1);
	assert_true(rig_wait(rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(rig).reason, "from 1 of 2 members"));
	rig->members[1].reachable = true;
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 20000));
	finish(rig);
}

/* It goes on with the second copy alone, and what it acknowledges is nowhere else. */
static void
test_who_may_run_on_with_who_went_is_waited_for(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 70);
	die_undecided(&rig);
	rig.members[0].reachable = false;
	rig.members[1].reachable = true;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	rig_crash(&rig);
	check_other_waits_for_both(&rig);
}

static void
test_who_went_is_waited_for_also_by_who_goes_on_without_it(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 71);
	die_undecided(&rig);
	check_other_waits_for_both(&rig);
}

/* Its own memory is as good as that of those who wait for it. */
static void
test_who_died_goes_on_without_who_went(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 72);
	die_undecided(&rig);
	rig.members[1].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	wait_until(&rig, is_told_once_more);
	wait_ms(&rig, 50);
	crash(&rig);
	take_over(&rig, 1);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	finish(&rig);
}

static void
test_who_was_missed_at_a_start_is_waited_for(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 73);
	miss_the_second(&rig);
	check_other_waits_for_both(&rig);
}

/* A gateway that stops then has not stopped in order: another one would need no take-over. */
static void
test_nothing_is_stopped_in_order_while_somebody_goes(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 74);
	rig.epochs_held = true;
	rig.errors_allowed = true;
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	wait_until(&rig, is_said_faulty);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 0).undecided_roles, 2);
	assert_false(rig_superblock(&rig, 0).clean);
	assert_string_equal(rig_superblock(&rig, 0).owner, rig.options.owner);
	rig_free(&rig);
}

/* A spare, an old member or a copy of one says nothing of the volume. */
static void
test_only_of_members_in_sync_counts_who_had_them(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 3, 45);
	rig_crash(&rig);
	rig_mark_spare(&rig, 3, RIG_MEMBER_BYTES);
	rig.members[3].reservations = true;
	rig.members[3].holder = 9;
	rig.count = 4;
	for (int m = 0; m < 4; m++) {
		rig.members[m].gateway = 1;
		rig.members[m].may_take = true;
	}
	rig.members[2].reachable = false;
	rig.options.take_over_ms = 20000;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig.members[3].holder, 1);
	finish(&rig);
}

/* Whoever asks between two log-ins is told the same. */
static void
test_who_is_refused_is_so_while_members_are_asked_again(void **state)
{
	struct rig rig;
	bool asked = false;

	(void)state;
	start(&rig, 5, 3, 44);
	crash(&rig);
	for (int m = 0; m < 3; m++)
		rig.members[m].gateway = 2;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
		assert_non_null(strstr(rig_status(&rig).reason, "another gateway"));
		assert_true(rig_status(&rig).held);
		asked |= rig.engine->members[0].link == LINK_OPENING &&
			 rig.engine->members[1].link == LINK_OPENING &&
			 rig.engine->members[2].link == LINK_OPENING;
		rig_step(&rig);
	}
	assert_true(asked);
	for (int m = 0; m < 3; m++)
		rig.members[m].holder = 2;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_false(rig_status(&rig).held);
	finish(&rig);
}

/* The other gateway knows nothing of that, and reaches the device that had the place. */
static void
take_over_by_the_former(struct rig *rig)
{
	crash(rig);
	rig->count = 2;
	take_over(rig, 1);
	assert_false(rig_wait(rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	/* It was told of it; who has the place has all, and starts. */
	rig->count = 3;
	rig_crash(rig);
	take_over(rig, 5);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	finish(rig);
}

static void
test_who_was_replaced_says_so(void **state)
{
	struct rig rig;

	(void)state;
	replace_the_last(&rig, 40);
	wait_for_state(&rig, 2, MEMBER_IN_SYNC);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	take_over_by_the_former(&rig);
}

/* Also when one copy of what it was told can't be read any more. */
static void
test_who_was_replaced_says_so_twice(void **state)
{
	struct rig rig;

	(void)state;
	replace_the_last(&rig, 41);
	wait_for_state(&rig, 2, MEMBER_IN_SYNC);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	damage_newer_superblock(&rig, 0);
	take_over_by_the_former(&rig);
}

/* It needed nobody else. */
static void
test_who_takes_the_last_copy_while_it_is_replaced_has_the_volume(void **state)
{
	struct rig rig;

	(void)state;
	replace_the_last(&rig, 42);
	for (int i = 0; i < 20000 && rig.engine->target_phase != TARGET_TAKING; i++)
		rig_step(&rig);
	assert_int_equal(rig.engine->target_phase, TARGET_TAKING);
	rig.members[0].holder = 2;
	for (int i = 0;
	     i < 20000 && rig.engine->target_phase == TARGET_TAKING && !rig.engine->fenced; i++)
		rig_step(&rig);
	assert_true(rig.engine->fenced);
	rig.members[0].holder = 1;
	crash(&rig);
	rig_free(&rig);
}

/* What says that member 1 is in sync again does not arrive. */
static enum tap_verdict
hold_what_says_so(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	(void)tap;
	return tap_superblock(io, block) &&
			       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
			       superblock.member_states[1] == MEMBER_IN_SYNC
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* The last copy goes before it hears that another one is in sync, too, and knows that one can be. */
static void
test_who_does_not_hear_who_is_in_sync_is_not_all_that_there_is(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin(&rig, 1, 2, 77);
	tap_init(&tap, &rig.members[0]);
	run(&rig);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_drain(&rig);
	tap.judge = hold_what_says_so;
	rig.members[1].reachable = true;
	wait_until_taking(&rig);
	wait_ms(&rig, 50);
	assert_int_equal(rig_superblock(&rig, 0).member_states[1], MEMBER_FAULTY);
	assert_int_equal(rig_superblock(&rig, 1).member_states[1], MEMBER_IN_SYNC);
	tap.judge = NULL;
	tap_drop(&tap);
	rig_crash(&rig);
	check_other_waits_for_both(&rig);
}

/* The last copy goes just when its place is taken: it can't be told, but it was warned. */
static void
test_who_was_replaced_and_is_silent_is_not_all_that_there_is(void **state)
{
	struct rig rig;

	(void)state;
	replace_the_last(&rig, 78);
	wait_until_taking(&rig);
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	wait_for_state(&rig, 2, MEMBER_IN_SYNC);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	crash(&rig);
	rig.count = 2;
	take_over(&rig, 1);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "from 1 of 2 members"));
	rig.count = 3;
	rig_crash(&rig);
	take_over(&rig, 4);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	finish(&rig);
}

static void
test_force_is_the_last_resort_of_a_take_over(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 22);
	crash(&rig);
	rig.options.force_ms = 20000;
	take_over(&rig, 2);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	finish(&rig);
}

static void
test_a_volume_given_back_needs_no_proof(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 23);
	rig_stop(&rig);
	rig.epoch_recorded = 0;
	take_over(&rig, 7);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	finish(&rig);
}

/* Who stopped it starts it again, with the second copy, and the other gateway meets the first. */
static void
test_who_did_not_stop_it_starts_no_half(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 75);
	rig_stop(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	crash(&rig);
	take_over(&rig, 1);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "1 of 2 in sync do, 2 are needed"));
	rig.members[1].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* It ran the volume last with both, as the half says that it meets; the other one says that it went,
 * and another gateway had it since.  What it knew of that is lost, or its disk was set back.
 */
static void
test_who_has_lost_its_record_starts_no_half(void **state)
{
	(void)state;
	for (int set_back = 0; set_back < 2; set_back++) {
		struct rig rig;
		uint64_t before;

		start(&rig, 1, 2, 77);
		before = rig.epoch_recorded;
		rig_stop(&rig);
		rig_start_active(&rig);
		rig.members[0].reachable = false;
		fake_member_cut(&rig.members[0], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
		rig_drain(&rig);
		rig_crash(&rig);
		rig.epoch_recorded = rig.epoch_tried = set_back ? before : 0;
		rig.members[0].reachable = true;
		rig.members[1].reachable = false;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
		assert_non_null(strstr(rig_status(&rig).reason, "lost its record of that"));
		assert_non_null(strstr(rig_status(&rig).reason, "1 of 2 in sync do, 2 are needed"));
		rig.members[1].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		finish(&rig);
	}
}

/* It has lost its record, meets both, and dies before that start has ended: the half that lacks what
 * was written is no more than it was.
 */
static void
test_who_has_lost_its_record_keeps_what_it_found(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 78);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	rig_crash(&rig);
	rig.epoch_recorded = rig.epoch_tried = 0;
	rig_start(&rig);
	while (rig.epoch_tried == 0)
		rig_step(&rig);
	rig_crash(&rig);
	rig.members[0].reachable = true;
	rig.members[1].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 3000);
	assert_int_not_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	rig.members[1].reachable = true;
	wait_until(&rig, all_in_sync);
	finish(&rig);
}

static void
test_who_stopped_it_starts_a_half(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 76);
	rig_stop(&rig);
	rig.members[1].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	finish(&rig);
}

/* What the gateway before heard last it may answer by, for as long as that. */
static void
test_a_take_over_waits_for_what_the_gateway_before_may_still_answer(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	(void)state;
	start(&rig, 5, 3, 24);
	crash(&rig);
	began_ms = rig.now_ms;
	take_over(&rig, 7);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_true(rig.now_ms - began_ms >= LEASE_AWAITED_MS);
	rig_stop(&rig);
	/* It is its own gateway's. */
	began_ms = rig.now_ms;
	rig_start_active(&rig);
	assert_true(rig.now_ms - began_ms < LEASE_AWAITED_MS);
	finish(&rig);
}

static void
take_over_without_the_last(struct rig *rig, uint64_t seed)
{
	const int last = 2;

	start(rig, 5, 3, seed);
	crash(rig);
	take_over(rig, 3);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	for (int m = 0; m < rig->count; m++)
		rig->members[m].may_take = false; /* the start is over */
	assert_int_equal(rig->members[last].holder, 1);
	submit_everywhere(rig, REQUEST_WRITE, 512, 300);
	rig_drain(rig);
}

/* With the key of the gateway before, which may live. */
static void
test_a_member_that_was_away_at_a_take_over_is_taken_when_it_is_back(void **state)
{
	struct rig rig;

	(void)state;
	take_over_without_the_last(&rig, 25);
	rig.members[2].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_int_equal(rig.members[2].holder, 2);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

/* While this one stands still. */
static void
test_who_took_it_back_keeps_whom_this_one_did_not_reach(void **state)
{
	struct rig rig;

	(void)state;
	take_over_without_the_last(&rig, 79);
	rig_stand_still(&rig, 3000);
	for (int m = 0; m < 3; m++)
		rig.members[m].holder = 1;
	rig.members[2].reachable = true;
	rig_go_on(&rig, false);
	for (int i = 0; i < 20000 && !rig.engine->fenced; i++)
		rig_step(&rig);
	assert_true(rig.engine->fenced);
	assert_int_equal(rig.members[2].holder, 1);
	crash(&rig);
	rig_free(&rig);
}

/* The gateway dies, or is stopped for an upgrade, while that one is still away. */
static void
restart_without_the_last(struct rig *rig, bool stopped, uint64_t seed)
{
	take_over_without_the_last(rig, seed);
	rig->options.predecessor_key = rig_status(rig).predecessor_key;
	assert_true(rig->options.predecessor_key == 1);
	wait_until(rig, all_clean);
	wait_ms(rig, 50); /* that is on the members */
	if (stopped)
		rig_stop(rig);
	else
		rig_crash(rig);
	rig->options.take_over_ms = 0;
	rig->options.epoch_seen = rig->epoch_recorded;
}

static void
test_whom_it_was_taken_from_outlives_a_restart(void **state)
{
	struct rig rig;

	(void)state;
	for (int stopped = 0; stopped < 2; stopped++) {
		restart_without_the_last(&rig, stopped, 27);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		assert_true(rig_status(&rig).predecessor_key == 1);
		assert_int_equal(rig.members[2].holder, 1);
		rig.members[2].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		assert_int_equal(rig.members[2].holder, 2);
		finish(&rig);
	}
}

/* Who had it before may have it again. */
static void
test_whom_it_was_taken_from_is_forgotten_when_another_had_it(void **state)
{
	struct rig rig;
	uint64_t key, epoch;

	(void)state;
	restart_without_the_last(&rig, true, 28);
	key = rig.options.predecessor_key;
	epoch = rig.epoch_recorded;
	rig.options.predecessor_key = 0;
	for (int turn = 3; turn >= 2; turn--) {
		for (int m = 0; m < rig.count; m++)
			rig.members[m].gateway = (unsigned int)turn;
		if (turn == 2) {
			rig.options.predecessor_key = key;
			rig.epoch_recorded = epoch; /* it knows nothing of the other's */
		}
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		if (turn == 3)
			rig_stop(&rig);
	}
	assert_true(rig_status(&rig).predecessor_key == 0);
	rig.members[2].reachable = true;
	wait_ms(&rig, 20000);
	assert_int_equal(rig.members[2].holder, 1);
	finish(&rig);
}

static void
test_a_member_that_a_third_gateway_has_is_left_to_it(void **state)
{
	struct rig rig;

	(void)state;
	take_over_without_the_last(&rig, 26);
	rig.members[2].holder = 3;
	rig.members[2].reachable = true;
	rig.members[2].written = false;
	wait_ms(&rig, 20000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_int_equal(rig.members[2].holder, 3);
	assert_false(rig.members[2].written);
	finish(&rig);
}

/* Also where nothing can be proven of it: who has that key on it later took it from us. */
static void
test_whom_it_was_taken_from_may_take_a_member_back(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 29);
	crash(&rig);
	rig.members[0].shares_reads = true;
	take_over(&rig, 15);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	for (int m = 0; m < rig.count; m++)
		rig.members[m].may_take = false; /* the start is over */
	wait_ms(&rig, 1000);
	rig.members[0].holder = 1;
	rig.members[0].written = false;
	fake_member_cut(&rig.members[0], true);
	wait_ms(&rig, 10000);
	assert_int_equal(rig.members[0].holder, 1);
	assert_false(rig.members[0].written);
	rig.members[0].holder = 2;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_take_over_needs_members_that_meet_every_set_which_could_run),
		cmocka_unit_test(test_a_member_on_which_others_may_read_does_not_count),
		cmocka_unit_test(test_a_take_over_does_without_members_with_which_nobody_could_run),
		cmocka_unit_test(test_a_take_over_goes_by_who_was_in_sync),
		cmocka_unit_test(test_who_did_not_stop_it_starts_no_half),
		cmocka_unit_test(test_who_has_lost_its_record_starts_no_half),
		cmocka_unit_test(test_who_has_lost_its_record_keeps_what_it_found),
		cmocka_unit_test(test_who_stopped_it_starts_a_half),
		cmocka_unit_test(test_who_may_run_on_with_who_went_is_waited_for),
		cmocka_unit_test(test_who_went_is_waited_for_also_by_who_goes_on_without_it),
		cmocka_unit_test(test_who_died_goes_on_without_who_went),
		cmocka_unit_test(test_who_was_missed_at_a_start_is_waited_for),
		cmocka_unit_test(test_nothing_is_stopped_in_order_while_somebody_goes),
		cmocka_unit_test(test_who_does_not_hear_who_is_in_sync_is_not_all_that_there_is),
		cmocka_unit_test(test_who_was_replaced_and_is_silent_is_not_all_that_there_is),
		cmocka_unit_test(test_who_was_replaced_says_so),
		cmocka_unit_test(test_who_was_replaced_says_so_twice),
		cmocka_unit_test(test_too_few_for_a_take_over_take_nothing),
		cmocka_unit_test(test_a_take_over_that_waits_for_others_does_not_wait_for_ever),
		cmocka_unit_test(test_a_take_over_that_may_begin_has_not_failed),
		cmocka_unit_test(test_only_of_members_in_sync_counts_who_had_them),
		cmocka_unit_test(test_who_is_refused_is_so_while_members_are_asked_again),
		cmocka_unit_test(test_who_takes_the_last_copy_while_it_is_replaced_has_the_volume),
		cmocka_unit_test(test_force_is_the_last_resort_of_a_take_over),
		cmocka_unit_test(test_a_volume_given_back_needs_no_proof),
		cmocka_unit_test(
			test_a_take_over_waits_for_what_the_gateway_before_may_still_answer),
		cmocka_unit_test(
			test_a_member_that_was_away_at_a_take_over_is_taken_when_it_is_back),
		cmocka_unit_test(test_who_took_it_back_keeps_whom_this_one_did_not_reach),
		cmocka_unit_test(test_whom_it_was_taken_from_outlives_a_restart),
		cmocka_unit_test(test_whom_it_was_taken_from_may_take_a_member_back),
		cmocka_unit_test(test_whom_it_was_taken_from_is_forgotten_when_another_had_it),
		cmocka_unit_test(test_a_member_that_a_third_gateway_has_is_left_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
