/* test_engine_force.c - what a start by force believes of a member that is out of date: its data
 * where nobody wrote since it left, and nothing else.
 */
#include "knowable.h"

#include "pure/lost_extent.h"

#include <string.h>

#define LEFT 3 /* is out of date, and taken as it stands */
#define DEAD 2

/* Stopped in order without the one, and then the other dies. */
static void
leave_one_to_force(struct rig *rig)
{
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	rig_stop(rig);
	rig->members[LEFT].reachable = true;
	rig->members[DEAD].reachable = false;
}

static void
lose(struct rig *rig, int member)
{
	fake_member_cut(&rig->members[member], false);
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
}

static void
start_forced(struct rig *rig)
{
	rig->options.force_ms = UINT32_MAX;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig->options.force_ms = 0;
}

/* This member's table says that the role's chunk of the row is lost. */
static void
call_lost_on(struct rig *rig, int member, uint64_t row, uint8_t role)
{
	struct lost_extent entries[LAYOUT_LOST_ENTRIES] = {
		{ .row = row, .rows = 1, .column_end = CHUNK, .role = role },
	};
	uint8_t granule[LAYOUT_GRANULE_BYTES];

	lost_granule_encode(entries, 0, rig_superblock(rig, 1).epoch, rig->options.volume_uuid,
			    granule);
	disk_write(&rig->members[member].disk, LAYOUT_LOST_OFFSET, granule, sizeof(granule), true);
}

static void
call_lost(struct rig *rig, uint64_t row, uint8_t role)
{
	for (int m = 0; m < rig->count; m++)
		call_lost_on(rig, m, row, role);
}

/* The first row in region 1 whose first chunk is on this member. */
static uint64_t
row_on(const struct rig *rig, int member)
{
	const struct geometry geometry = geometry_of(rig);
	uint64_t row = REGION_ROWS;

	while (geometry_role(&geometry, row, 0) != member)
		row++;
	return row;
}

/* The chunk of this member was lost, and was written after one had left, which does not know. */
static uint64_t
begin_with_old_table(struct rig *rig, uint8_t member, uint64_t seed)
{
	uint64_t row;

	begin(rig, 5, 4, seed);
	row = row_on(rig, member);
	rig_stop(rig);
	call_lost(rig, row, member);
	rig_start_active(rig);
	assert_int_equal(read_first_chunk(rig, row), -ENODATA);
	lose(rig, LEFT);
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row), CHUNK_SECTORS, false);
	rig_drain(rig);
	assert_int_equal(read_first_chunk(rig, row), 0);
	leave_one_to_force(rig);
	return row;
}

static void
test_what_a_forced_member_calls_lost_and_was_written_since_is_there(void **state)
{
	struct rig rig;
	uint64_t row = begin_with_old_table(&rig, 0, 1201);

	start_forced(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It has what stood there before, which was nothing that anybody knew. */
static void
test_what_was_lost_on_a_forced_member_is_lost_again(void **state)
{
	struct rig rig;
	uint64_t row = begin_with_old_table(&rig, LEFT, 1204);

	start_forced(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Parts of the table: what a volume that runs writes. */
static enum tap_verdict
hold_granules(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_LOST_OFFSET &&
			       io->offset_bytes < LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES &&
			       io->length_bytes < LAYOUT_LOST_BYTES
		       ? TAP_HOLD
		       : TAP_PASS;
}

static void
test_forced_member_keeps_no_old_table(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = begin_with_old_table(&rig, 0, 1202);

	tap_init(&tap, &rig.members[LEFT]);
	tap.judge = hold_granules;
	start_forced(&rig);
	tap.judge = NULL;
	tap_drop(&tap);
	rig_crash(&rig);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Who was there can't read what was written without the other: then it may be anything. */
static void
test_old_map_of_a_forced_member_mends_no_other(void **state)
{
	struct rig rig;
	uint64_t sector;

	begin(&rig, 5, 4, 1203);
	sector = sector_of_row(&rig, row_on(&rig, DEAD));
	lose(&rig, LEFT);
	rig_submit(&rig, REQUEST_WRITE, sector, row_sectors(&rig), false);
	rig_drain(&rig);
	leave_one_to_force(&rig);
	for (int m = 0; m < 2; m++)
		disk_damage(&rig.members[m].disk, LAYOUT_MAP_OFFSET);
	start_forced(&rig);
	assert_int_equal(error_of_read(&rig, sector, 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
fill_again(struct rig *rig)
{
	fake_member_cut(&rig->members[LEFT], true);
	wait_until(rig, all_in_sync);
}

/* It was filled, and left before it wrote that down: the last word of its own map is that it lacks
 * the row.  The set of flags that says so is used again when it leaves for the third time.
 */
static void
test_what_a_forced_member_called_stale_and_was_copied_since_is_there(void **state)
{
	static uint8_t map[LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET];
	struct rig rig;
	uint64_t sector;

	begin(&rig, 5, 4, 1205);
	sector = sector_of_row(&rig, row_on(&rig, DEAD));
	lose(&rig, LEFT);
	rig_submit(&rig, REQUEST_WRITE, sector, row_sectors(&rig), false);
	rig_drain(&rig);
	disk_read(&rig.members[0].disk, LAYOUT_MAP_OFFSET, map, sizeof(map));
	fill_again(&rig);
	lose(&rig, LEFT);
	fill_again(&rig);
	lose(&rig, LEFT);
	disk_write(&rig.members[LEFT].disk, LAYOUT_MAP_OFFSET, map, sizeof(map), true);
	leave_one_to_force(&rig);
	start_forced(&rig);
	assert_int_equal(error_of_read(&rig, sector, 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Two are out, one of them is being filled, and those who have all die. */
static uint64_t
leave_all_to_force(struct rig *rig, uint64_t seed)
{
	uint64_t sector;

	begin(rig, 6, 4, seed);
	sector = sector_of_row(rig, row_on(rig, 0));
	fake_member_cut(&rig->members[DEAD], false);
	lose(rig, LEFT);
	rig_submit(rig, REQUEST_WRITE, sector, row_sectors(rig), false);
	rig_drain(rig);
	engine_set_rates(rig->engine, 1, 1);
	fake_member_cut(&rig->members[LEFT], true);
	wait_for_state(rig, LEFT, MEMBER_REBUILDING);
	rig_stop(rig);
	rig->members[0].reachable = false;
	rig->members[1].reachable = false;
	rig->members[DEAD].reachable = true;
	return sector;
}

/* What is left goes by the map of the one. */
static void
test_where_all_are_forced_their_own_maps_count(void **state)
{
	struct rig rig;
	uint64_t sector = leave_all_to_force(&rig, 1206);

	start_forced(&rig);
	assert_int_equal(error_of_read(&rig, sector, 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The other left before, and its map says nothing of what either lacks since. */
static void
test_forced_members_do_not_mend_each_others_maps(void **state)
{
	struct rig rig;
	uint64_t sector = leave_all_to_force(&rig, 1207);

	disk_damage(&rig.members[LEFT].disk, LAYOUT_MAP_OFFSET);
	start_forced(&rig);
	assert_int_equal(error_of_read(&rig, sector, 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Nothing can be lost of what nobody ever wrote, though its parity was never made, and the map
 * calls it stale on who had left.
 */
static void
test_what_nobody_ever_wrote_is_not_lost_by_force(void **state)
{
	struct rig rig;
	uint64_t row;

	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 1207);
	rig_start_active(&rig);
	lose(&rig, LEFT);
	row = row_on(&rig, DEAD);
	assert_true(rig_status(&rig).regions_suspect == 0);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + REGION_ROWS), CHUNK_SECTORS,
		   false);
	rig_drain(&rig);
	leave_one_to_force(&rig);
	start_forced(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(read_first_chunk(&rig, row + REGION_ROWS), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Its table is the newest, too: the other left before these bytes were lost. */
static void
test_of_forced_members_the_newest_table_counts(void **state)
{
	struct rig rig;
	uint64_t row;

	leave_all_to_force(&rig, 1208);
	row = row_in(&rig, 3);
	call_lost_on(&rig, LEFT, row, 0);
	start_forced(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row + rig.count), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static enum tap_verdict
hold_map(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes == LAYOUT_MAP_OFFSET ? TAP_HOLD
										: TAP_PASS;
}

/* Nothing is to be written to it any more when its session ends, and it is back before all is
 * written to the one that is taken.
 */
static void
test_member_that_comes_and_goes_while_maps_are_written_is_used(void **state)
{
	struct rig rig;
	struct tap tap;

	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 1209);
	rig_start_active(&rig);
	lose(&rig, LEFT);
	leave_one_to_force(&rig);
	tap_init(&tap, &rig.members[LEFT]);
	tap.judge = hold_map;
	rig.options.force_ms = UINT32_MAX;
	rig_start(&rig);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 100);
	fake_member_cut(&rig.members[1], true);
	rig_steps(&rig, 500);
	assert_int_equal(rig_status(&rig).members[1].link, LINK_OPEN);
	tap.judge = NULL;
	tap_let_go(&tap);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_stop(&rig);
	rig_free(&rig);
}

static bool
is_tracked(const struct superblock *superblock, int m)
{
	uint8_t uuid[16];

	memcpy(uuid, superblock->member_uuids[m], 16);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (superblock->tracked[set].state != 0 &&
		    memcmp(superblock->tracked[set].member_uuid, uuid, 16) == 0)
			return true;
	return false;
}

static void
test_who_is_away_at_a_start_by_force_is_tracked(void **state)
{
	struct superblock superblock;
	struct rig rig;

	(void)state;
	begin(&rig, 6, 4, 960);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 1000);
	rig_stop(&rig);
	rig.members[0].reachable = true;
	rig.members[2].reachable = rig.members[3].reachable = false;
	rig.options.force_ms = 100000;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 200);
	superblock = rig_superblock(&rig, 1);
	assert_int_equal(superblock.member_states[0], MEMBER_IN_SYNC);
	assert_int_equal(superblock.member_states[2], MEMBER_MISSING);
	assert_int_equal(superblock.member_states[3], MEMBER_MISSING);
	assert_true(is_tracked(&superblock, 3));
	assert_true(is_tracked(&superblock, 2));
	rig.members[2].reachable = rig.members[3].reachable = true;
	wait_until(&rig, all_in_sync);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_what_a_forced_member_calls_lost_and_was_written_since_is_there),
		cmocka_unit_test(test_what_was_lost_on_a_forced_member_is_lost_again),
		cmocka_unit_test(test_forced_member_keeps_no_old_table),
		cmocka_unit_test(test_old_map_of_a_forced_member_mends_no_other),
		cmocka_unit_test(
			test_what_a_forced_member_called_stale_and_was_copied_since_is_there),
		cmocka_unit_test(test_where_all_are_forced_their_own_maps_count),
		cmocka_unit_test(test_what_nobody_ever_wrote_is_not_lost_by_force),
		cmocka_unit_test(test_forced_members_do_not_mend_each_others_maps),
		cmocka_unit_test(test_of_forced_members_the_newest_table_counts),
		cmocka_unit_test(test_member_that_comes_and_goes_while_maps_are_written_is_used),
		cmocka_unit_test(test_who_is_away_at_a_start_by_force_is_tracked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
