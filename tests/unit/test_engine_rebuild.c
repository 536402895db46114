/* test_engine_rebuild.c - what is copied to a member that is being filled is what was read. */
#include "knowable.h"

static char why[256];

static bool
reads_data(const struct fake_member *member)
{
	for (const struct fake_command *command = member->queue; command != NULL; command = command->next)
		if (command->io != NULL && command->io->op == BACKEND_READ && command->offset_bytes >= DATA_OFFSET)
			return true;
	return false;
}

/* Rows are being copied to member 0; only member 4 has not answered yet. */
static bool
waits_for_the_last(struct rig *rig)
{
	return rig_status(rig).rebuild_slot == 0 && reads_data(&rig->members[4]) && rig->members[1].queued == 0 &&
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
	struct rig rig;
	uint64_t least, most;

	begin(&rig, 6, 5, 930);
	least = rig.members[4].answer_us_min;
	most = rig.members[4].answer_us_max;
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	for (uint64_t sector = 0; sector < rig.sectors; sector += 512)
		rig_submit(&rig, REQUEST_WRITE, sector, rig.sectors - sector < 512 ? rig.sectors - sector : 512,
			   false);
	rig_drain(&rig);
	rig.members[4].deadline_us = 5000000;
	rig.members[4].answer_us_min = rig.members[4].answer_us_max = 300000;
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_the_last);
	rig.members[4].answer_us_min = least;
	rig.members[4].answer_us_max = most;
	assert_int_equal(engine_fail(rig.engine, 1, why), 0);
	wait_until(&rig, is_filled);
	fake_member_cut(&rig.members[2], false);	/* so that what member 0 got is needed */
	end(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_goes_while_rows_are_copied_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
