/* test_engine_refused.c - members that refuse, at a start, to read what they have of the region map
 * or of the table of lost extents.  That may pass, and says nothing of what stands there.
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

/* What is damaged for good on all who are here is waited for by nobody: what it says of is unknown.
 */
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

static uint64_t row_offset;
static int rewritten;

static enum tap_verdict
count_writes(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	if (io->op == BACKEND_WRITE && io->offset_bytes <= row_offset &&
	    io->offset_bytes + io->length_bytes > row_offset)
		rewritten++;
	return TAP_PASS;
}

/* Level 1 of three after a crash: the row is suspect.  Member 0 comes back and is filled; member 1
 * refuses to read a block (for a while), member 2 has it.
 */
static void
fill_beside_one_that_refuses(bool unwritable)
{
	struct rig rig;
	struct tap tap;

	rig_init(&rig, 1, 3, CHUNK, 3u << 20, 860);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[1]);
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_submit(&rig, REQUEST_WRITE, 0, 1, true);
	rig_drain(&rig);
	rig_crash(&rig);
	tap_drop(&tap);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_true(rig_status(&rig).regions_suspect > 0);
	row_offset = DATA_OFFSET + 4096; /* of row 0 */
	rig.members[1].stuck_error = -EIO;
	disk_make_stuck(&rig.members[1].disk, row_offset);
	if (unwritable)
		disk_make_unwritable(&rig.members[1].disk, row_offset);
	rewritten = 0;
	tap.judge = count_writes;
	rig.members[0].reachable = true;
	for (int i = 0; i < 30000 && rig_status(&rig).members[0].state != MEMBER_IN_SYNC; i++) {
		rig_step(&rig);
		if (i == 5000)
			engine_set_rates(rig.engine, 1u << 20, 1u << 20);
	}
	assert_int_equal(rewritten, 0);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_one_that_refuses_a_read_is_rewritten_nothing(void **state)
{
	(void)state;
	fill_beside_one_that_refuses(false);
	fill_beside_one_that_refuses(true);
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
		cmocka_unit_test(test_one_that_refuses_a_read_is_rewritten_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
