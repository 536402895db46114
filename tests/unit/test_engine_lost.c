/* test_engine_lost.c - what is recorded as lost when a member is missing: neither more nor less, and who is believed to hold it. */
#include "knowable.h"

#include "pure/lost_extent.h"

/* Members 1 and up refuse a write of one sector in this row's second chunk, so that nobody knows how much of it was done. */
static void
fail_half_way(struct rig *rig, uint64_t row)
{
	/* Marks the region, or that would be refused and nothing written. */
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(rig);
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
	rig_stop(&rig);
	rig.members[0].disk.write_cache = false;	/* so that what it holds would count */
	rig_start_active(&rig);
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

/* Of this row member 0's chunk is lost, and nothing else of the volume. */
static void
check_only_this_is_lost(struct rig *rig, uint64_t row)
{
	struct lost_range range[2];

	assert_int_equal(rig_status(rig).lost_bytes, CHUNK);
	assert_int_equal(engine_lost_list(rig->engine, 0, range, 2), 1);
	assert_int_equal(range[0].offset_bytes, sector_of_row(rig, row) * RIG_SECTOR);
	assert_int_equal(read_first_chunk(rig, row), -ENODATA);
	for (uint64_t other = 0; other * row_sectors(rig) < rig->sectors; other++)
		if (other != row)
			assert_int_equal(read_first_chunk(rig, other), 0);
}

static void
test_failed_write_of_a_degraded_volume_loses_its_own_row_only(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 821);
	row = row_in(&rig, 1) + 8;
	lose_member_0(&rig);
	fail_half_way(&rig, row);
	check_only_this_is_lost(&rig, row);
	/* The rows beside it are written as ever, and the row itself when it is written whole. */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 4) + 3, 1, false);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	end(&rig);
}

/* Two members lose their caches at once, so that nobody can make up for both.  What was flushed before fits. */
static void
test_lost_caches_make_suspect_what_was_written_and_nothing_else(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 822);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;	/* what is suspect stays so */
	rig_start_active(&rig);
	row = row_in(&rig, 2) + 4;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	fake_member_power_loss(&rig.members[1], true);
	fake_member_power_loss(&rig.members[2], true);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What it was filled with is what parity made of rows that did not fit.  That it has become a member since, and left, and is back, makes
 * it none the wiser.
 */
static void
test_device_that_takes_a_place_does_not_hold_what_was_lost_before(void **state)
{
	struct rig rig;
	char why[256];
	uint64_t row;

	begin(&rig, 5, 4, 824);
	row = row_in(&rig, 2);
	write_in(&rig, 2);
	rig_crash(&rig);
	tear_row(&rig, row);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	rig.members[4].disk.write_cache = false;
	assert_int_equal(engine_attach(rig.engine, &rig.members[4].backend, why), 4);
	rig_steps(&rig, 50);
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	fake_member_cut(&rig.members[4], false);
	write_in(&rig, 2);		/* its region is copied again */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 1), 1, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[4].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row), 1, false);	/* was written anew */
	rig_drain(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	accept_all(&rig);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* A member was lost while the volume grew, and the gateway died before the new size was on record: the table has rows that the
 * volume has not.
 */
static void
test_growth_that_a_crash_cut_short_forgets_no_loss(void **state)
{
	struct lost_extent entries[LAYOUT_LOST_ENTRIES] = { 0 };
	uint8_t granule[LAYOUT_GRANULE_BYTES];
	struct lost_range range[2];
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 823);
	row = row_in(&rig, 1);
	rig_crash(&rig);
	entries[3] = (struct lost_extent){ .row = row, .rows = 1, .column_end = CHUNK };
	entries[5] = (struct lost_extent){ .row = geometry_of(&rig).rows, .rows = 40, .column_end = CHUNK };
	lost_granule_encode(entries, 7, 2, rig.options.volume_uuid, granule);
	for (int m = 0; m < rig.count; m++)
		disk_write(&rig.members[m].disk, LAYOUT_LOST_OFFSET + 7 * LAYOUT_GRANULE_BYTES, granule,
			   sizeof(granule), true);
	rig_start_active(&rig);
	assert_int_equal(engine_lost_list(rig.engine, 0, range, 2), 1);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	/* It grows after all: what was never written there is not lost. */
	rig_steps(&rig, 200);
	rig_crash(&rig);
	disk_read(&rig.members[2].disk, LAYOUT_LOST_OFFSET + 7 * LAYOUT_GRANULE_BYTES, granule, sizeof(granule));
	assert_int_equal(granule[16 + 5 * 24 + 8], 0);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_lost_after_a_member_left_is_not_taken_from_it),
		cmocka_unit_test(test_failed_write_of_a_degraded_volume_loses_its_own_row_only),
		cmocka_unit_test(test_lost_caches_make_suspect_what_was_written_and_nothing_else),
		cmocka_unit_test(test_device_that_takes_a_place_does_not_hold_what_was_lost_before),
		cmocka_unit_test(test_growth_that_a_crash_cut_short_forgets_no_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
