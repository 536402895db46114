/* test_engine_lost.c - what is recorded as lost when a member is missing: neither more nor less, and who is believed to hold it. */
#include "knowable.h"

/* Members 1 and up refuse a write of one sector in this row's second chunk, so that nobody knows how much of it was done. */
static void
fail_half_way(struct rig *rig, uint64_t row)
{
	rig->errors_allowed = true;
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refuse_writes = true;
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(rig);
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refuse_writes = false;
	rig->errors_allowed = false;
	rig_steps(rig, 100);
}

static void
lose_member_0(struct rig *rig)
{
	fake_member_cut(&rig->members[0], false);
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
}

/* Its chunk is older than what was written without it. */
static void
test_what_was_lost_after_a_member_left_is_not_taken_from_it(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 820);
	row = row_in(&rig, 1);
	rig.members[0].disk.write_cache = false;
	lose_member_0(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), CHUNK_SECTORS, false);
	rig_drain(&rig);
	fail_half_way(&rig, row);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	accept_all(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_lost_after_a_member_left_is_not_taken_from_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
