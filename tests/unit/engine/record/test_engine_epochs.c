/* test_engine_epochs.c - this gateway has to record an epoch, and its disk refuses, or hangs.  The
 * volume's thread never waits for it; an administrator is told; nobody is out sooner.
 */
#include "scenario.h"

#define LOAD_BYTES (1ull << 20)
#define GOING 1

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	rig->options.queue_limit_ms = 30000;
	set_caches(rig, false);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static void
pass_time(struct rig *rig, uint64_t ms)
{
	const uint64_t until_ms = rig->now_ms + ms;

	while (rig->now_ms < until_ms)
		rig_step(rig);
}

/* Writes while a member goes, for so long. */
static void
lose_one(struct rig *rig, uint64_t ms)
{
	fake_member_cut(&rig->members[GOING], false);
	rig_submit(rig, REQUEST_WRITE, 0, 8, false);
	pass_time(rig, ms);
}

static void
assert_told(struct rig *rig, const char *why)
{
	const struct engine_status status = rig_status(rig);

	assert_non_null(strstr(status.reason, why));
	assert_non_null(strstr(status.reason, "/var/lib/iraid"));
	assert_non_null(strstr(status.reason, "df /var/lib/iraid"));
	assert_int_equal(rig->epochs_refused_told, 1);
	assert_int_equal(rig->epochs_well_told, 0);
}

static void
assert_well_again(struct rig *rig)
{
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	assert_int_equal(rig->epochs_well_told, 1);
	assert_null(strstr(rig_status(rig).reason, "recorded"));
	assert_int_equal(rig_status(rig).state, VOLUME_DEGRADED);
	assert_true(rig->epoch_recorded == rig_superblock(rig, 0).epoch);
	finish(rig);
}

static void
test_a_full_disk_is_told_and_what_waits_goes_on_when_there_is_room(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 3101);
	rig.epoch_error = -ENOSPC;
	lose_one(&rig, 9000);
	assert_int_equal(rig.active_count, 1);
	assert_told(&rig, "No space left on device");
	rig.epoch_error = 0;
	assert_well_again(&rig);
}

/* Also where no member goes: an administrator is to see that the disk is well. */
static void
test_what_nobody_waits_for_any_more_is_recorded_all_the_same(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 3102);
	rig.epoch_error = -EIO;
	lose_one(&rig, 9000);
	assert_told(&rig, "Input/output error");
	rig.members[GOING].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	rig_drain(&rig);
	assert_told(&rig, "Input/output error");
	rig.epoch_error = 0;
	pass_time(&rig, 2000);
	assert_int_equal(rig.epochs_well_told, 1);
	assert_string_equal(rig_status(&rig).reason, "");
	finish(&rig);
}

static void
answer(struct rig *rig, uint64_t epoch)
{
	rig->epochs_held = false;
	rig->epoch_recorded = epoch;
	engine_epoch_recorded(rig->engine, EPOCH_GIVEN, epoch, 0);
}

static void
test_nobody_is_out_before_a_disk_that_hangs_has_answered(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 3103);
	rig.epochs_held = true;
	rig.epochs_asked = 0;
	lose_one(&rig, 3000);
	assert_int_equal(rig.active_count, 1);
	assert_int_equal(rig.epochs_asked, 1);
	assert_int_equal(rig.epochs_refused_told, 0);
	pass_time(&rig, 6000);
	assert_told(&rig, "does not answer");
	assert_int_equal(rig.epochs_asked, 1);
	/* of an engine before this one, perhaps */
	engine_epoch_recorded(rig.engine, EPOCH_GIVEN, rig_superblock(&rig, 0).epoch - 1, 0);
	engine_epoch_recorded(rig.engine, EPOCH_MEANT, rig_superblock(&rig, 0).epoch, 0);
	pass_time(&rig, 20);
	assert_int_equal(rig.active_count, 1);
	answer(&rig, rig_superblock(&rig, 0).epoch);
	assert_well_again(&rig);
}

/* Three of level 5: who is out could not start. */
static void
test_where_nobody_else_could_start_no_epoch_is_needed_for_one_that_goes(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 3104);
	rig.epoch_error = -ENOSPC;
	lose_one(&rig, 9000);
	assert_int_equal(rig.active_count, 0);
	assert_int_equal(rig.failed, 0);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_int_equal(rig.epochs_refused_told, 0);
	finish(&rig);
}

static void
test_a_start_waits_for_room_and_says_so(void **state)
{
	static const int levels[] = { 1, 5 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct rig rig;

		start(&rig, levels[i], levels[i] == 1 ? 2 : 4, 3105 + (uint64_t)i);
		rig_stop(&rig);
		rig.epoch_error = -ENOSPC;
		rig_start(&rig);
		pass_time(&rig, 5000);
		assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
		assert_told(&rig, "No space left on device");
		rig.epoch_error = 0;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		assert_int_equal(rig.epochs_well_told, 1);
		finish(&rig);
	}
}

/* The epoch is meant before a superblock has it; members that come meanwhile are taken. */
static void
test_a_start_writes_nothing_before_the_epoch_is_meant(void **state)
{
	struct rig rig;
	uint64_t epoch;

	(void)state;
	start(&rig, 1, 2, 3107);
	rig_stop(&rig);
	epoch = rig_superblock(&rig, 0).epoch;
	rig.epochs_held = true;
	rig_start(&rig);
	pass_time(&rig, 2000);
	assert_true(rig_superblock(&rig, 0).epoch == epoch);
	assert_true(rig_superblock(&rig, 1).epoch == epoch);
	pass_time(&rig, 6000);
	assert_told(&rig, "does not answer");
	assert_true(rig_superblock(&rig, 0).epoch == epoch);
	rig.epochs_held = false;
	engine_epoch_recorded(rig.engine, EPOCH_MEANT, epoch + 64, 0);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(rig.epoch_recorded > epoch);
	finish(&rig);
}

static void
test_a_stop_does_not_wait_for_the_disk(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 3108);
	rig.epochs_held = true;
	rig.errors_allowed = true;
	lose_one(&rig, 9000);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_full_disk_is_told_and_what_waits_goes_on_when_there_is_room),
		cmocka_unit_test(test_what_nobody_waits_for_any_more_is_recorded_all_the_same),
		cmocka_unit_test(test_nobody_is_out_before_a_disk_that_hangs_has_answered),
		cmocka_unit_test(
			test_where_nobody_else_could_start_no_epoch_is_needed_for_one_that_goes),
		cmocka_unit_test(test_a_start_waits_for_room_and_says_so),
		cmocka_unit_test(test_a_start_writes_nothing_before_the_epoch_is_meant),
		cmocka_unit_test(test_a_stop_does_not_wait_for_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
