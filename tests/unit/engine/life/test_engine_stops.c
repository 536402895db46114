/* A stop ends, whoever does not answer. */
#include "scenario.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Its last flush waits for members that are away, and is given up; when that fails, later, the stop
 * has gone on.
 */
static void
test_stop_that_gave_up_its_last_flush_does_not_begin_the_next_step(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	rig_init(&rig, 5, 4, 16384, 8 << 20, 921);
	rig.options.queue_limit_ms = 7000;
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 400, false);
	rig_drain(&rig);
	rig.errors_allowed = true;
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	began_ms = rig.now_ms;
	rig_stop(&rig);
	assert_in_range(rig.now_ms - began_ms, 0, 8000); /* of virtual time */
	rig_free(&rig);
}

/* All members fall silent, so that nothing but its own deadline wakes the engine, and a request
 * waits for them.
 */
static void
begin_suspended(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 5, 4, 16384, 8 << 20, seed);
	set_deadline_of_all(rig, 60000000); /* they look at their sessions seldom */
	rig->options.queue_limit_ms = 7000;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, 400, false);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	/* that is in caches, and nobody's data: there is no loss to be recorded */
	wait_until(rig, all_clean);
	rig->errors_allowed = true;
	for (int m = 0; m < rig->count; m++)
		fake_member_cut(&rig->members[m], false);
	rig_submit(rig, REQUEST_READ, 0, 400, false);
	engine_run(rig->engine, rig->now_ms); /* sessions that end wake it */
}

static void
test_what_waited_too_long_for_members_is_told_at_once(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	begin_suspended(&rig, 922);
	began_ms = rig.now_ms;
	while (rig.active_count > 0)
		assert_true(rig_wake(&rig));
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	assert_in_range(rig.now_ms - began_ms, 7000, 7002);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
note_end(void *owner)
{
	((struct rig *)owner)->stopped = true;
}

/* Requests fail for want of members while it drains, so it goes on, and its last flush fails
 * without being sent.
 */
static void
test_stop_whose_last_flush_can_not_be_sent_ends(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	begin_suspended(&rig, 923);
	began_ms = rig.now_ms;
	while (rig.now_ms < began_ms + 3000)
		assert_true(rig_wake(&rig));
	began_ms = rig.now_ms;
	engine_stop(rig.engine, note_end, &rig);
	engine_run(rig.engine, rig.now_ms);
	while (!rig.stopped)
		assert_true(rig_wake(&rig));
	assert_int_equal(rig.active_count, 0);
	assert_in_range(rig.now_ms - began_ms, 0, engine_stop_ms_max());
	engine_destroy(rig.engine);
	rig_free(&rig);
}

/* The session of the device that is being filled is the first to end; the others take their time.
 */
static void
stop_while_filling(uint64_t seed)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 16384, 8 << 20, seed);
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	fake_member_cut(&rig.members[3], false);
	wait_until(&rig, is_degraded);
	rig_submit(&rig, REQUEST_WRITE, 0, 400, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[3], true);
	wait_for_state(&rig, 3, MEMBER_REBUILDING);
	for (int m = 0; m < 3; m++)
		rig.members[m].close_us_max = 50000;
	rig_stop(&rig);
	for (int m = 0; m < 3; m++) {
		assert_true(rig_superblock(&rig, m).clean);
		assert_int_equal(rig_superblock(&rig, m).event, rig_superblock(&rig, 3).event);
	}
	rig_free(&rig);
}

/* Another gateway may have the members by then. */
static void
test_nothing_is_written_when_sessions_are_given_back(void **state)
{
	for (uint64_t seed = 926; seed < 934; seed++)
		stop_while_filling(seed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_stop_that_gave_up_its_last_flush_does_not_begin_the_next_step),
		cmocka_unit_test(test_what_waited_too_long_for_members_is_told_at_once),
		cmocka_unit_test(test_stop_whose_last_flush_can_not_be_sent_ends),
		cmocka_unit_test(test_nothing_is_written_when_sessions_are_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
