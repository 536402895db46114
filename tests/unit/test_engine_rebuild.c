/* test_engine_rebuild.c - what is copied to a member that is being filled is what was read. */
#include "knowable.h"

#include "../simulation/tap.h"

static char why[256];
static struct tap *last;

static enum tap_verdict
hold_reads_of_data(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_READ && io->offset_bytes >= DATA_OFFSET ? TAP_HOLD : TAP_PASS;
}

/* Rows are being copied to member 0; only member 4 has not answered yet. */
static bool
waits_for_the_last(struct rig *rig)
{
	return rig_status(rig).rebuild_slot == 0 && last->held_count > 0 && rig->members[1].queued == 0 &&
	       rig->members[2].queued == 0 && rig->members[3].queued == 0;
}

static bool
is_filled(struct rig *rig)
{
	return rig_status(rig).rebuild_slot < 0 && rig_status(rig).members[0].state == MEMBER_IN_SYNC;
}

/* With two members out a chunk is made from others than with one, and those were not read. */
static void
test_member_that_goes_while_rows_are_copied_does_no_harm(void **state)
{
	struct tap tap = { 0 };
	struct rig rig;

	last = &tap;
	begin(&rig, 6, 5, 930);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[4]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig.members[4].deadline_us = 60000000;
	tap.judge = hold_reads_of_data;
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_the_last);
	assert_int_equal(engine_fail(rig.engine, 1, why), 0);
	rig_steps(&rig, 50);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_FAULTY);
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, is_filled);
	fake_member_cut(&rig.members[2], false);	/* so that what member 0 got is needed */
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_goes_while_rows_are_copied_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
