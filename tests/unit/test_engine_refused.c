/* test_engine_refused.c - members that refuse, at a start, to read what they have of the region map or of the table of lost extents.
 * That may pass, and says nothing of what stands there.
 */
#include "listed.h"

#include <stdlib.h>

/* Member 0 is away, and what the others have there is refused. */
static void
start_refused(struct rig *rig, uint64_t offset_bytes)
{
	rig->members[0].reachable = false;
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refused_offset_bytes = offset_bytes;
	rig_start(rig);
}

static void
let_them_read(struct rig *rig)
{
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refused_offset_bytes = 0;
}

static void
test_region_map_that_is_refused_is_not_damaged(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 961);
	rig_stop(&rig);
	start_refused(&rig, LAYOUT_MAP_OFFSET);
	rig_steps(&rig, 5000);
	assert_int_not_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	let_them_read(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* One who knows is enough. */
static void
test_region_map_that_one_member_can_read_is_waited_for_by_nobody(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 962);
	rig_stop(&rig);
	rig.members[3].refused_offset_bytes = LAYOUT_MAP_OFFSET;
	disk_damage(&rig.members[1].disk, LAYOUT_MAP_OFFSET);
	rig.members[0].reachable = false;
	rig_start(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What is damaged for good on all who are here is waited for by nobody: what it says of is unknown. */
static void
test_region_map_that_is_damaged_on_all_is_waited_for_by_nobody(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 963);
	rig_stop(&rig);
	for (int m = 1; m < rig.count; m++)
		disk_damage(&rig.members[m].disk, LAYOUT_MAP_OFFSET);
	rig.members[0].reachable = false;
	rig_start(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_region_map_that_is_refused_for_good_is_given_up_by_force(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 964);
	rig_stop(&rig);
	rig.options.force_ms = UINT32_MAX;
	start_refused(&rig, LAYOUT_MAP_OFFSET);
	wait_until_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_table_of_lost_extents_that_is_refused_is_not_empty(void **state)
{
	struct rig rig;
	uint64_t row = begin_lost(&rig, 965);

	start_refused(&rig, LAYOUT_LOST_OFFSET);
	rig_steps(&rig, 5000);
	let_them_read(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_region_map_that_is_refused_is_not_damaged),
		cmocka_unit_test(test_region_map_that_one_member_can_read_is_waited_for_by_nobody),
		cmocka_unit_test(test_region_map_that_is_damaged_on_all_is_waited_for_by_nobody),
		cmocka_unit_test(test_region_map_that_is_refused_for_good_is_given_up_by_force),
		cmocka_unit_test(test_table_of_lost_extents_that_is_refused_is_not_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
