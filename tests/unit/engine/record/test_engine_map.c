/* test_engine_map.c - region maps of more than one block. */
#include "scenario.h"

#define DATA_OFFSET (4u << 20)
#define ROW_SECTORS 8u /* level 1 */
#define LATE_ROW 4050u /* its region's flags are in the second block */
#define LAST_BLOCK 16u /* of the map, in begin_many_blocks() */
#define BLOCK_BYTES (LAYOUT_REGIONS_PER_BLOCK * ROW_SECTORS * 512u)

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
	/* marks in both blocks, at once */
	rig_submit(&rig, REQUEST_WRITE, LATE_ROW * ROW_SECTORS, 1, false);
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
	for (int i = 0;
	     i < 10000 && !anyone_writes(&rig, LAYOUT_MAP_OFFSET, 2 * LAYOUT_MAP_BLOCK_BYTES); i++)
		rig_step(&rig);
	assert_true(anyone_writes(&rig, LAYOUT_MAP_OFFSET + LAYOUT_MAP_BLOCK_BYTES,
				  LAYOUT_MAP_BLOCK_BYTES));
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

/* Two rows share a member's place, and each has its own region: 17 blocks, one more than are
 * written at a time.
 */
static void
begin_many_blocks(struct rig *rig, uint64_t seed)
{
	rig_init_many_regions(rig, 10, IRAID_MEMBERS_MAX,
			      LAST_BLOCK * BLOCK_BYTES + BLOCK_BYTES / 4, seed);
	rig->options.resync_rows_max = 0;
	rig_start_active(rig);
	rig_steps(rig, 200); /* all of the map is written once */
}

/* In each of the other blocks the next region is written to for the first time. */
static void
write_in_all_but_the_last(struct rig *rig, uint64_t round)
{
	for (uint64_t block = 0; block < LAST_BLOCK; block++)
		rig_submit(rig, REQUEST_WRITE,
			   (block * LAYOUT_REGIONS_PER_BLOCK + round) * ROW_SECTORS, 1, false);
	rig_step(rig);
}

static void
test_marks_in_the_last_block_wait_for_no_others(void **state)
{
	const uint64_t sector = (uint64_t)LAST_BLOCK * LAYOUT_REGIONS_PER_BLOCK * ROW_SECTORS;
	struct rig rig;

	begin_many_blocks(&rig, 64);
	write_in_all_but_the_last(&rig, 0);
	rig_submit(&rig, REQUEST_WRITE, sector, 1, false);
	for (uint64_t round = 1; round < 200; round++)
		write_in_all_but_the_last(&rig, round);
	assert_int_not_equal(rig.acknowledged[sector], 0);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks_in_every_block_survive_a_crash),
		cmocka_unit_test(test_no_row_is_written_before_its_own_mark),
		cmocka_unit_test(
			test_a_mark_that_is_being_cleared_counts_as_cleared_in_every_block),
		cmocka_unit_test(test_sectors_that_can_not_be_read_cost_their_own_blocks_of_a_map),
		cmocka_unit_test(test_marks_in_the_last_block_wait_for_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
