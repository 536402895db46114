/* test_engine_lease.c - two gateways: what one may still answer that does not know that it was taken
 * over.
 */
#include "gateways.h"
#include "scenario.h"
#include "tap.h"

#include "engine/core/core.h"

#include <stdio.h>

#define CHUNK_SECTORS 32u /* of 16 KiB */
#define READS 8

/* --- what may still be answered --- */

static uint64_t
commands(const struct rig *rig)
{
	uint64_t count = 0;

	for (int m = 0; m < rig->count; m++)
		count += rig->members[m].reads + rig->members[m].writes + rig->members[m].flushes;
	return count;
}

/* A chunk that this member has, and only reads of it ask it. */
static uint64_t
sector_on(const struct rig *rig, int role)
{
	struct geometry geometry;
	struct extent extent;

	assert_int_equal(geometry_init(&geometry, rig->level, rig->count, rig->chunk_bytes, 512,
				       64ull << 20),
			 0);
	for (uint64_t sector = 0;; sector += CHUNK_SECTORS) {
		assert_int_equal(geometry_locate(&geometry, sector * 512, 512, &extent), 0);
		if (extent.role == role)
			return sector;
	}
}

/* Another gateway has these. */
static void
preempt(struct rig *rig, uint32_t members)
{
	for (int m = 0; m < rig->count; m++)
		if ((members >> m) & 1)
			rig->members[m].holder = 2;
}

static void
test_a_read_is_not_answered_by_a_member_that_another_gateway_did_not_reach(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 3, 31);
	wait_ms(&rig, LEASE_MS);
	preempt(&rig, 3);
	assert_int_equal(error_of_read(&rig, sector_on(&rig, 2), 8), -ESHUTDOWN);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	rig_stop(&rig);
	rig_free(&rig);
}

static enum tap_verdict
hold_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ ? TAP_HOLD : TAP_PASS;
}

/* They wait for room in a member's window until the other copy has answered: they were not sent, and
 * that member is another gateway's since, as those are that don't answer.
 */
static void
test_a_read_that_was_not_sent_says_nothing(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t failed;

	(void)state;
	begin(&rig, 10, 4, 33);
	rig.options.hedge_ms = 50;
	tap_init(&tap, &rig.members[2]);
	run(&rig);
	wait_ms(&rig, LEASE_MS);
	tap.judge = hold_reads;
	preempt(&rig, 7);
	fake_member_hang(&rig.members[0]);
	fake_member_hang(&rig.members[1]);
	failed = rig.failed;
	rig.errors_allowed = true;
	for (int i = 0; i < READS; i++)
		rig_submit(&rig, REQUEST_READ, sector_on(&rig, 2), 8, false);
	wait_ms(&rig, 2 * rig.options.hedge_ms);
	assert_int_equal(rig.active_count, READS);
	rig_drain(&rig);
	assert_int_equal(rig.failed - failed, READS);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It hears nothing of it, for it does not reach them either. */
static void
test_a_read_waits_for_members_that_can_say_whose_the_volume_is(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 3, 32);
	wait_ms(&rig, LEASE_MS);
	fake_member_hang(&rig.members[0]);
	fake_member_hang(&rig.members[1]);
	assert_int_equal(error_of_read(&rig, sector_on(&rig, 2), 8), -ETIMEDOUT);
	fake_member_continue(&rig.members[0]);
	fake_member_continue(&rig.members[1]);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_int_equal(error_of_read(&rig, sector_on(&rig, 2), 8), 0);
	finish(&rig);
}

/* A target is started anew while the superblocks are written, and forgets its reservation: the former
 * gateway may have had it in between, and answers by what it heard then.
 */
static void
test_a_member_that_is_back_in_a_take_over_may_have_been_the_former_ones(void **state)
{
	struct rig rig;
	uint64_t restored_ms;

	(void)state;
	start(&rig, 5, 3, 38);
	crash(&rig);
	rig.options.grace_ms = 1000;
	take_over(&rig, 7);
	while (rig.members[0].holder != 2 || rig.members[1].holder != 2 ||
	       rig.members[2].holder != 2 || rig.engine->phase < PHASE_WRITE_SUPERBLOCKS)
		rig_step(&rig);
	wait_ms(&rig, 30);
	rig.members[1].holder = 0;
	fake_member_cut(&rig.members[1], true);
	while (rig.engine->members[1].checked)
		rig_step(&rig);
	while (!rig.engine->members[1].checked)
		rig_step(&rig);
	assert_int_equal(rig.engine->phase, PHASE_WRITE_SUPERBLOCKS);
	restored_ms = rig.now_ms;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(rig.now_ms - restored_ms >= LEASE_AWAITED_MS);
	finish(&rig);
}

/* Those that say that the first place is taken. */
static enum tap_verdict
hold_taking(struct tap *tap, const struct backend_io *io)
{
	static uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	(void)tap;
	return tap_superblock(io, block) &&
			       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
			       superblock.member_states[0] == MEMBER_IN_SYNC
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* Three of four may be all that a gateway knows of, and the fourth is on the superblocks of those
 * that another one reaches.
 */
static void
test_a_read_beside_a_place_that_changes_hands_counts_that_place(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin(&rig, 5, 4, 37);
	set_deadline_of_all(&rig, 60000000);
	tap_init(&tap, &rig.members[1]);
	run(&rig);
	fake_member_cut(&rig.members[0], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_drain(&rig);
	wait_ms(&rig, 3000);
	tap.judge = hold_taking;
	rig.members[0].reachable = true;
	for (int i = 0; i < 20000 && rig.engine->target_phase != TARGET_TAKING; i++)
		rig_step(&rig);
	assert_int_equal(rig.engine->target_phase, TARGET_TAKING);
	wait_ms(&rig, LEASE_MS);
	for (int m = 0; m < 3; m++)
		fake_member_hang(&rig.members[m]);
	rig_submit(&rig, REQUEST_READ, sector_on(&rig, 3), 8, false);
	wait_ms(&rig, 300);
	assert_int_equal(rig.engine->target_phase, TARGET_TAKING);
	assert_int_equal(rig.active_count, 1);
	for (int m = 0; m < 3; m++)
		fake_member_continue(&rig.members[m]);
	tap.judge = NULL;
	tap_let_go(&tap);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	finish(&rig);
}

static void
test_a_flush_waits_for_members_that_can_say_whose_the_volume_is(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 3, 33);
	wait_ms(&rig, 2000); /* nothing is left to be flushed */
	preempt(&rig, 3);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It stands still while another gateway takes the volume over; what it is asked then it could
 * answer at once.
 */
static void
check_after_standstill(bool in_its_turn, uint64_t seed)
{
	struct rig rig;

	start(&rig, 5, 3, seed);
	wait_ms(&rig, 2000);
	submit_everywhere(&rig, REQUEST_READ, 512, 512);
	if (in_its_turn)
		rig_drain(&rig); /* they have just spoken */
	else
		engine_run(rig.engine, rig.now_ms); /* they are about to */
	rig_stand_still(&rig, 1000);
	preempt(&rig, 7);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_go_on(&rig, in_its_turn);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_int_equal(rig.failed, 1);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_time_is_what_it_is_when_an_answer_is_given(void **state)
{
	(void)state;
	check_after_standstill(true, 38);
}

static void
test_what_members_say_counts_from_when_they_were_asked(void **state)
{
	(void)state;
	check_after_standstill(false, 39);
}

/* One that hangs is not waited for where another one can say it. */
static void
test_a_read_does_not_wait_for_a_silent_member(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	(void)state;
	start(&rig, 5, 4, 34);
	for (int m = 0; m < 3; m++) {
		wait_ms(&rig, LEASE_MS);
		fake_member_hang(&rig.members[m]);
		began_ms = rig.now_ms;
		assert_int_equal(error_of_read(&rig, sector_on(&rig, 3), 8), 0);
		assert_true(rig.now_ms - began_ms < rig.options.give_up_ms / 4);
		fake_member_continue(&rig.members[m]);
	}
	finish(&rig);
}

/* Where targets know no reservations nobody can prove anything. */
static void
test_without_reservations_nobody_is_asked(void **state)
{
	struct rig rig;
	uint64_t before;

	(void)state;
	rig_init(&rig, 5, 3, 16384, LOAD_BYTES, 35);
	set_caches(&rig, false);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_ms(&rig, 3000);
	before = commands(&rig);
	assert_int_equal(error_of_read(&rig, sector_on(&rig, 2), 8), 0);
	assert_int_equal(commands(&rig) - before, 1);
	finish(&rig);
}

/* Commands of 1000 reads of 4 KiB, so many at a time. */
static uint64_t
commands_of_reads(struct rig *rig, int depth, uint64_t pause_ms)
{
	const uint64_t before = commands(rig);

	for (int left = 1000; left > 0 || rig->active_count > 0;) {
		for (; left > 0 && rig->active_count < depth; left--)
			rig_submit(rig, REQUEST_READ,
				   fake_random(&rig->random) % (rig->sectors / 8) * 8, 8, false);
		rig_step(rig);
		if (pause_ms > 0 && rig->active_count == 0)
			wait_ms(rig, pause_ms);
	}
	return commands(rig) - before;
}

static void
measure(int level, int count, uint64_t asked)
{
	struct rig rig;
	uint64_t idle, one, many;

	start(&rig, level, count, 36);
	wait_ms(&rig, 3000);
	idle = commands_of_reads(&rig, 1, 1000);
	one = commands_of_reads(&rig, 1, 0);
	many = commands_of_reads(&rig, 16, 0);
	print_message("level %d of %d: commands of 1000 reads: a second apart %llu, depth 1 %llu, "
		      "depth 16 %llu\n",
		      level, count, (unsigned long long)idle, (unsigned long long)one,
		      (unsigned long long)many);
	assert_int_equal(idle, 1000 * (1 + asked));
	assert_true(one <= 1010);
	assert_int_equal(many, 1000);
	finish(&rig);
}

static void
test_under_load_the_proof_costs_no_command(void **state)
{
	(void)state;
	measure(1, 2, 0);
	measure(5, 4, 1);
	measure(6, 6, 2);
	measure(10, 6, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_read_is_not_answered_by_a_member_that_another_gateway_did_not_reach),
		cmocka_unit_test(
			test_a_member_that_is_back_in_a_take_over_may_have_been_the_former_ones),
		cmocka_unit_test(test_a_read_that_was_not_sent_says_nothing),
		cmocka_unit_test(test_a_read_waits_for_members_that_can_say_whose_the_volume_is),
		cmocka_unit_test(test_a_read_beside_a_place_that_changes_hands_counts_that_place),
		cmocka_unit_test(test_a_flush_waits_for_members_that_can_say_whose_the_volume_is),
		cmocka_unit_test(test_time_is_what_it_is_when_an_answer_is_given),
		cmocka_unit_test(test_what_members_say_counts_from_when_they_were_asked),
		cmocka_unit_test(test_a_read_does_not_wait_for_a_silent_member),
		cmocka_unit_test(test_without_reservations_nobody_is_asked),
		cmocka_unit_test(test_under_load_the_proof_costs_no_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
