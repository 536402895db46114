/* test_engine_map.c - region maps of more than one block. */
#include "scenario.h"

#define DATA_OFFSET (4u << 20)
#define ROW_SECTORS 8u			/* level 1 */
#define LATE_ROW 4050u			/* its region's flags are in the second block */

static bool
anyone_writes(const struct rig *rig, uint64_t offset_bytes, uint64_t length_bytes)
{
	bool any = false;

	for (int m = 0; m < rig->count; m++)
		any |= fake_member_writing(&rig->members[m], offset_bytes, length_bytes);
	return any;
}

/* All parity is proven, no region is marked. */
static void
begin(struct rig *rig, uint64_t seed)
{
	rig_init_many_regions(rig, 1, 2, 16u << 20, seed);
	rig->options.resync_rows_max = 64;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	for (int i = 0; i < 50000 && rig_status(rig).regions_dirty > 0; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).regions_dirty, 0);
}

static void
test_marks_in_every_block_survive_a_crash(void **state)
{
	struct rig rig;

	begin(&rig, 61);
	rig_submit(&rig, REQUEST_WRITE, 7 * ROW_SECTORS, 1, false);
	rig_submit(&rig, REQUEST_WRITE, LATE_ROW * ROW_SECTORS, 1, false);
	rig_drain(&rig);
	rig_crash(&rig);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	assert_int_equal(rig_status(&rig).regions_suspect, 2);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* That one region of a block is marked says nothing of the next. */
static void
test_no_row_is_written_before_its_own_mark(void **state)
{
	struct rig rig;

	begin(&rig, 62);
	rig_submit(&rig, REQUEST_WRITE, 7 * ROW_SECTORS, 1, false);
	rig_submit(&rig, REQUEST_WRITE, LATE_ROW * ROW_SECTORS, 1, false);	/* marks in both blocks, at once */
	rig_drain(&rig);
	for (uint64_t row = 7; row <= LATE_ROW; row += LATE_ROW - 7) {
		rig_submit(&rig, REQUEST_WRITE, (row + 1) * ROW_SECTORS, 1, false);
		engine_run(rig.engine, rig.now_ms);
		assert_true(anyone_writes(&rig, LAYOUT_MAP_OFFSET, 2 * LAYOUT_MAP_BLOCK_BYTES));
		assert_false(anyone_writes(&rig, DATA_OFFSET, 16u << 20));
		rig_drain(&rig);
	}
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* When the cleared mark has arrived, and the gateway dies, the row must not be half written. */
static void
test_a_mark_that_is_being_cleared_counts_as_cleared_in_every_block(void **state)
{
	struct rig rig;

	begin(&rig, 60);
	set_deadline_of_all(&rig, 3000000);
	rig_submit(&rig, REQUEST_WRITE, LATE_ROW * ROW_SECTORS, 1, false);
	rig_drain(&rig);
	set_pace_of_all(&rig, 100000);
	for (int i = 0; i < 10000 && !anyone_writes(&rig, LAYOUT_MAP_OFFSET, 2 * LAYOUT_MAP_BLOCK_BYTES); i++)
		rig_step(&rig);
	assert_true(anyone_writes(&rig, LAYOUT_MAP_OFFSET + LAYOUT_MAP_BLOCK_BYTES, LAYOUT_MAP_BLOCK_BYTES));
	rig_submit(&rig, REQUEST_WRITE, LATE_ROW * ROW_SECTORS, 1, false);
	engine_run(rig.engine, rig.now_ms);
	assert_false(anyone_writes(&rig, DATA_OFFSET, 16u << 20));
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* One has the first block, the other the second. */
static void
test_sectors_that_can_not_be_read_cost_their_own_blocks_of_a_map(void **state)
{
	struct rig rig;

	begin(&rig, 63);
	rig_stop(&rig);
	disk_damage(&rig.members[0].disk, LAYOUT_MAP_OFFSET);
	disk_damage(&rig.members[1].disk, LAYOUT_MAP_OFFSET + LAYOUT_MAP_BLOCK_BYTES);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	assert_int_equal(rig_status(&rig).regions_suspect, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks_in_every_block_survive_a_crash),
		cmocka_unit_test(test_no_row_is_written_before_its_own_mark),
		cmocka_unit_test(test_a_mark_that_is_being_cleared_counts_as_cleared_in_every_block),
		cmocka_unit_test(test_sectors_that_can_not_be_read_cost_their_own_blocks_of_a_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
