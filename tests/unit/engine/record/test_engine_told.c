/* test_engine_told.c - when flushes tell that caches took along what was acknowledged, and when
 * not.
 */
#include "flushed.h"

#include <stdio.h>

#define LOSS_TOLD_MS 3000u

static bool
flush_fails(struct rig *rig)
{
	const uint64_t failed = rig->failed;

	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	assert_true(rig->failed == failed || rig->last_error == -EIO);
	return rig->failed > failed;
}

static void
begin(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	set_caches(rig, true);
	rig->options.loss_told_ms = LOSS_TOLD_MS;
	rig_start_active(rig);
	if (level != 0)
		rig_wait_for_resync(rig);
}

/* A volume on which nobody makes up for a cache, of which one took something along. */
static void
lose_a_cache(struct rig *rig, uint64_t seed)
{
	begin(rig, 0, 2, seed);
	write_everywhere(rig);
	rig->errors_allowed = true;
	fake_member_power_loss(&rig->members[0], true);
	assert_true(rig->members[0].counts.sectors_lost > 0);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 1000));
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
}

/* Two initiators have written.  And the one that flushes first may lose its session in that moment,
 * and ask again in another.
 */
static void
test_a_loss_is_told_to_all_who_flush_in_time(void **state)
{
	struct rig rig;

	(void)state;
	lose_a_cache(&rig, 1700);
	assert_true(flush_fails(&rig));
	rig_steps(&rig, 1000);
	assert_true(flush_fails(&rig));
	assert_true(rig_superblock(&rig, 1).flushes_fail);
	rig_steps(&rig, LOSS_TOLD_MS);
	assert_false(rig_superblock(&rig, 1).flushes_fail);
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

enum restart { CRASHED, STOPPED, CRASHED_ONCE_TOLD, STOPPED_ONCE_TOLD, RESTARTS };

/* Initiators need not notice that their gateway was started anew. */
static void
test_a_loss_that_was_not_told_is_told_by_the_next_start(void **state)
{
	(void)state;
	for (enum restart how = 0; how < RESTARTS; how++) {
		struct rig rig;

		lose_a_cache(&rig, 1710 + how);
		if (how == CRASHED_ONCE_TOLD || how == STOPPED_ONCE_TOLD)
			assert_true(flush_fails(&rig));
		rig_steps(&rig, 100); /* superblocks are written */
		if (how == CRASHED || how == CRASHED_ONCE_TOLD)
			rig_crash(&rig);
		else
			rig_stop(&rig);
		rig_start_active(&rig);
		assert_true(flush_fails(&rig));
		rig_steps(&rig, LOSS_TOLD_MS + 1000);
		assert_false(flush_fails(&rig));
		rig_stop(&rig);
		rig_start_active(&rig);
		assert_false(flush_fails(&rig));
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Of level 0 one member loses its power, of level 5 two do. */
static void
end_while_members_are_away(int level, bool crash, uint64_t seed)
{
	const int lost = level == 0 ? 1 : 2;
	struct rig rig;

	begin(&rig, level, level == 0 ? 2 : 4, seed);
	write_everywhere(&rig);
	rig.errors_allowed = true;
	for (int m = 0; m < lost; m++)
		fake_member_power_loss(&rig.members[m], false);
	assert_true(rig.members[0].counts.sectors_lost > 0);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	rig_steps(&rig, crash ? 1000 : 300);
	if (crash)
		rig_crash(&rig);
	else
		rig_stop(&rig);
	for (int m = 0; m < lost; m++)
		rig.members[m].reachable = true;
	rig_start_active(&rig);
	assert_true(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* Whoever sees I/O stand still starts the runner anew, and initiators need not notice. */
static void
test_a_loss_is_told_though_the_gateway_ends_before_the_member_is_back(void **state)
{
	(void)state;
	end_while_members_are_away(0, false, 9000);
	end_while_members_are_away(0, true, 9001);
	end_while_members_are_away(5, false, 9002);
	end_while_members_are_away(5, true, 9003);
}

static void
note_ended(void *owner)
{
	*(bool *)owner = true;
}

/* The stop's own flush is refused, or hears that what was acknowledged is lost; as many are out as
 * the level bears.  How many sectors were lost.
 */
static uint64_t
stop_with_a_failed_flush(int level, bool refused, uint64_t seed)
{
	const int count = level == 0 ? 2 : 4;
	struct rig rig;
	uint64_t sectors;
	bool ended = false;

	begin(&rig, level, count, seed);
	if (level != 0) {
		fake_member_cut(&rig.members[count - 1], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_steps(&rig, 100);
	}
	write_everywhere(&rig);
	rig.errors_allowed = true;
	rig.members[0].refuse_flushes = refused;
	engine_stop(rig.engine, note_ended, &ended);
	engine_run(rig.engine, rig.now_ms);
	if (!refused)
		fake_member_break_word(&rig.members[0]);
	sectors = rig.members[0].counts.sectors_lost;
	for (int i = 0; i < 100000 && !ended; i++)
		rig_step(&rig);
	assert_true(ended);
	engine_destroy(rig.engine);
	rig.engine = NULL;
	rig.members[0].refuse_flushes = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, level == 0 ? VOLUME_ACTIVE : VOLUME_DEGRADED, 20000));
	if (refused || sectors > 0) /* else the device had done the flush */
		assert_true(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
	return sectors;
}

static void
test_a_stop_whose_flush_fails_is_told_by_the_next_start(void **state)
{
	(void)state;
	for (int level = 0; level <= 5; level += 5) {
		uint64_t lost = 0;

		stop_with_a_failed_flush(level, true, 9020);
		for (uint64_t seed = 9030; seed < 9046; seed++)
			lost += stop_with_a_failed_flush(level, false, seed);
		assert_true(lost > 0);
	}
}

/* Superblocks and maps are written through, and those that clean came after the last flush. */
static void
test_nothing_is_told_of_a_cache_in_which_was_nothing(void **state)
{
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 9010);
	write_everywhere(&rig);
	assert_false(flush_fails(&rig));
	wait_until(&rig, all_clean);
	rig_steps(&rig, 3000);
	rig_lose_caches(&rig, 0, 1);
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
	begin(&rig, 0, 2, 9011);
	rig_steps(&rig, 200);
	fake_member_power_loss(&rig.members[0], true);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 1000));
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* One has its superblock, and loses its power while the other is slow with its own. */
static void
test_nothing_is_told_of_what_went_in_a_start(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig, 0, 2, 16384, LOAD_BYTES, 9013);
	set_caches(&rig, true);
	rig.options.loss_told_ms = LOSS_TOLD_MS;
	rig.options.assembly_limit_ms = 20000;
	rig_start(&rig);
	rig.members[1].superblock_us_max = 100000;
	set_deadline_of_all(&rig, 2000000);
	for (int i = 0; i < 5000 && rig_superblock(&rig, 0).epoch < 2; i++)
		rig_step(&rig);
	rig_steps(&rig, 5);
	assert_int_not_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	fake_member_break_word(&rig.members[0]);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* A gateway dies, and what it had acknowledged is in caches.  A member of its successor loses its
 * power in the very turn in which so many superblocks of the other one are written.  Whether that
 * was the last that the start waited for, so that the volume runs without the member.
 */
static bool
lose_what_was_left(int superblocks)
{
	struct rig rig;
	struct tap tap;
	bool runs;

	rig_init(&rig, 0, 2, 16384, LOAD_BYTES, 9014);
	set_caches(&rig, true);
	tap_init(&tap, &rig.members[1]);
	rig.options.loss_told_ms = LOSS_TOLD_MS;
	rig_start_active(&rig);
	write_everywhere(&rig);
	rig_crash(&rig);
	tap_drop(&tap);
	rig.errors_allowed = true;
	rig.members[0].refuse_flushes = true; /* that of the start, too */
	rig_start(&rig);
	tap.judge = tap_hold_superblocks;
	for (int i = 0; i < superblocks; i++) {
		tap_let_go(&tap);
		for (int k = 0; k < 1000 && tap.held_count == 0; k++)
			rig_step(&rig);
	}
	tap.judge = NULL;
	tap_let_go(&tap);
	/* it is answered, and the engine does not run yet */
	while (schedule_fire(&rig.schedule, rig.schedule.now_us + 5000))
		;
	fake_member_power_loss(&rig.members[0], false);
	rig.members[0].refuse_flushes = false;
	rig_steps(&rig, 2);
	runs = rig_status(&rig).state == VOLUME_SUSPENDED && rig.members[0].counts.sectors_lost > 0;
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(!runs || flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
	return runs;
}

/* A gateway dies, and its successor's flush finds that a device could not write what it had taken. */
static void
test_what_the_flush_of_a_start_finds_lost_is_told(void **state)
{
	(void)state;
	for (int level = 0; level <= 5; level += 5) {
		const int count = level == 0 ? 2 : 4;
		struct rig rig;
		struct tap tap;

		rig_init(&rig, level, count, 16384, LOAD_BYTES, 9060);
		set_caches(&rig, true);
		tap_init(&tap, &rig.members[0]);
		rig.options.loss_told_ms = LOSS_TOLD_MS;
		rig_start_active(&rig);
		if (level != 0) {
			fake_member_cut(&rig.members[count - 1], false);
			assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
			rig_steps(&rig, 100);
		}
		write_everywhere(&rig);
		rig_crash(&rig);
		tap_drop(&tap);
		rig.errors_allowed = true;
		tap.judge = hold_flushes;
		rig_start(&rig);
		for (int i = 0; i < 20000 && tap.held_count == 0; i++)
			rig_step(&rig);
		assert_int_equal(tap.held_count, 1);
		tap.judge = NULL;
		fake_member_break_word(&rig.members[0]);
		assert_true(rig_wait(&rig, level == 0 ? VOLUME_ACTIVE : VOLUME_DEGRADED, 20000));
		assert_true(flush_fails(&rig));
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Found by the simulator, seed 47009428. */
static void
test_a_loss_of_what_was_left_is_told_though_the_session_ended_in_the_start(void **state)
{
	int seen = 0;

	(void)state;
	for (int superblocks = 1; superblocks <= 4; superblocks++)
		seen += lose_what_was_left(superblocks);
	assert_true(seen > 0);
}

static enum tap_verdict
hold_map_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= LAYOUT_MAP_OFFSET ? TAP_HOLD
									       : TAP_PASS;
}

/* Both lost their caches; member 1 went on alone, and told it.  Member 0, which says it is untold,
 * is heard first.
 */
static void
test_nothing_is_told_by_an_attempt_that_was_given_up(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 1, 2, 16384, LOAD_BYTES, 2300);
	tap_init(&tap, &rig.members[0]);
	set_caches(&rig, true);
	rig.options.loss_told_ms = 3000;
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 64, 64);
	rig_drain(&rig);
	rig.errors_allowed = true;
	rig_lose_caches(&rig, 0, 1);
	rig_steps(&rig, 500);
	assert_true(rig_superblock(&rig, 0).flushes_fail);
	rig_stop(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	assert_true(flush_fails(&rig));
	rig_steps(&rig, 10000);
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	assert_false(rig_superblock(&rig, 1).flushes_fail);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "two pid 1 (rig) #2");
	/* it ran the volume last, as far as it knows */
	rig.epoch_recorded = rig_superblock(&rig, 0).epoch;
	rig.epoch_tried = 0;
	rig.members[0].reachable = true;
	rig.members[1].reachable = false;
	rig.step_ms_max = 1;
	tap.judge = hold_map_reads;
	rig_start(&rig);
	for (int i = 0; i < 100000 && tap.held_count == 0; i++)
		rig_step(&rig);
	rig.members[1].reachable = true;
	wait_for_link(&rig, 1, LINK_OPEN);
	rig_steps(&rig, 50);
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, all_in_sync);
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* Nothing but superblocks and maps is in caches when a flush is sent, and two members lose their
 * power under it.
 */
static void
test_nothing_is_told_of_a_flush_that_was_cut_off(void **state)
{
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 9010);
	write_everywhere(&rig);
	assert_false(flush_fails(&rig));
	wait_until(&rig, all_clean);
	rig_steps(&rig, 3000);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	engine_run(rig.engine, rig.now_ms);
	rig_lose_caches(&rig, 0, 1);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_false(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* Two of three lose their caches and stay away, so the third alone has that on record; the gateway
 * dies.  At the next start all are there, and the third goes while its maps are read.
 */
/* Member 0 alone has it on record that caches were lost, when the gateway dies; at the next start
 * it goes while maps are read, and the start begins again without it.  slow: its superblocks are
 * held from then on; NULL: none.
 */
static void
lose_who_tells(struct rig *rig, struct tap *tap, struct tap *slow)
{
	rig_init(rig, 5, 3, 16384, LOAD_BYTES, 9015);
	tap_init(tap, &rig->members[0]);
	if (slow != NULL)
		tap_init(slow, &rig->members[2]);
	set_caches(rig, true);
	rig->options.loss_told_ms = LOSS_TOLD_MS;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	write_everywhere(rig);
	rig->errors_allowed = true;
	fake_member_power_loss(&rig->members[1], false);
	fake_member_power_loss(&rig->members[2], false);
	for (int i = 0; i < 5000 && !rig_superblock(rig, 0).flushes_fail; i++)
		rig_step(rig);
	assert_true(rig_superblock(rig, 0).flushes_fail);
	rig_crash(rig);
	tap_drop(tap);
	if (slow != NULL)
		tap_drop(slow);
	rig->members[1].reachable = rig->members[2].reachable = true;
	tap->judge = hold_map_reads;
	rig_start(rig);
	for (int i = 0; i < 100000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_true(tap->held_count > 0);
	fake_member_cut(&rig->members[0], false);
	if (slow != NULL)
		slow->judge = tap_hold_superblocks;
	rig_steps(rig, 20);
	tap->judge = NULL;
	tap_let_go(tap);
}

static void
test_what_one_said_of_lost_caches_counts_after_it_has_gone(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	lose_who_tells(&rig, &tap, NULL);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_true(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

/* The same, but the gateway dies, too, when some have heard of its start. */
static void
test_what_one_said_of_lost_caches_counts_though_a_start_without_it_was_not_finished(void **state)
{
	struct rig rig;
	struct tap tap, slow;

	(void)state;
	lose_who_tells(&rig, &tap, &slow);
	for (int i = 0; i < 100000 && slow.held_count == 0; i++)
		rig_step(&rig);
	assert_true(slow.held_count > 0);
	rig_steps(&rig, 20);
	rig_crash(&rig);
	slow.judge = NULL;
	tap_drop(&slow);
	rig.members[0].reachable = true;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000) || rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(flush_fails(&rig));
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_loss_is_told_to_all_who_flush_in_time),
		cmocka_unit_test(test_a_loss_that_was_not_told_is_told_by_the_next_start),
		cmocka_unit_test(
			test_a_loss_is_told_though_the_gateway_ends_before_the_member_is_back),
		cmocka_unit_test(test_a_stop_whose_flush_fails_is_told_by_the_next_start),
		cmocka_unit_test(test_nothing_is_told_of_a_cache_in_which_was_nothing),
		cmocka_unit_test(test_nothing_is_told_of_what_went_in_a_start),
		cmocka_unit_test(test_what_the_flush_of_a_start_finds_lost_is_told),
		cmocka_unit_test(
			test_a_loss_of_what_was_left_is_told_though_the_session_ended_in_the_start),
		cmocka_unit_test(test_nothing_is_told_by_an_attempt_that_was_given_up),
		cmocka_unit_test(test_nothing_is_told_of_a_flush_that_was_cut_off),
		cmocka_unit_test(test_what_one_said_of_lost_caches_counts_after_it_has_gone),
		cmocka_unit_test(
			test_what_one_said_of_lost_caches_counts_though_a_start_without_it_was_not_finished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
