/* test_engine_recorded.c - what was on record as lost at a stop in order is all that is lost at the
 * next start, though nothing was proven meanwhile.
 */
#include "knowable.h"

#include <stdlib.h>

#define REGION 2u

/* A gateway dies while region 2 is dirty, and nothing is proven from then on. */
static void
begin_unproven(struct rig *rig, int level, int count, uint64_t seed)
{
	begin(rig, level, count, seed);
	rig_stop(rig);
	rig_start_active(rig);
	write_in(rig, REGION);
	rig_crash(rig);
	rig->options.resync_rows_max = 0;
}

static void
start_degraded(struct rig *rig)
{
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
	rig_steps(rig, 200);
}

/* The same, member 0 has been missing since, and its chunks of the region are on record, but for
 * one that was written anew.
 */
static void
begin_recorded(struct rig *rig, uint64_t seed)
{
	begin_unproven(rig, 6, 5, seed);
	rig->members[0].reachable = false;
	start_degraded(rig);
	assert_int_equal(read_first_chunk(rig, row_in(rig, REGION)), -ENODATA);
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row_in(rig, REGION)), CHUNK_SECTORS,
		   false);
	rig_drain(rig);
	assert_int_equal(read_first_chunk(rig, row_in(rig, REGION)), 0);
}

static void
test_what_was_written_since_is_not_lost_at_the_next_start(void **state)
{
	struct rig rig;
	uint64_t lost_bytes;

	begin_recorded(&rig, 940);
	lost_bytes = rig_status(&rig).lost_bytes;
	assert_true(lost_bytes > 0);
	for (int starts = 0; starts < 3; starts++) {
		rig_stop(&rig);
		assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 1);
		start_degraded(&rig);
		assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 0);
		assert_int_equal(rig_status(&rig).lost_bytes, lost_bytes);
		assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), 0);
	}
	accept_all(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_stop(&rig);
	start_degraded(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* It is filled from the others, and what they make of it is proven then: two more may go. */
static void
test_member_that_returns_gets_what_was_known(void **state)
{
	struct rig rig;

	begin_recorded(&rig, 941);
	accept_all(&rig);
	rig_stop(&rig);
	rig.options.resync_rows_max = 32;
	start_degraded(&rig);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_wait_for_resync(&rig);
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	finish(&rig);
}

/* Of a member that goes during the last flush all that was not proven is recorded before the stop
 * has ended, and nothing else.
 */
static void
test_who_goes_during_the_last_flush_takes_along_what_is_on_record_only(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_unproven(&rig, 5, 4, 942);
	rig_start_active(&rig);
	row = row_in(&rig, REGION);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[0], false);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 1).clean, true);
	assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 1);
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(read_first_chunk(&rig, row + 4), -ENODATA);
	accept_all(&rig);
	finish(&rig);
}

/* The next gateway may have written anything. */
static void
test_what_a_stop_knew_counts_for_one_start_only(void **state)
{
	struct rig rig;

	begin_recorded(&rig, 943);
	accept_all(&rig);
	rig_stop(&rig);
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), 0);
	rig_crash(&rig);
	tear_row(&rig, row_in(&rig, REGION));
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, REGION)), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

static void
test_what_found_no_room_is_not_called_recorded(void **state)
{
	struct rig rig;

	begin(&rig, 6, 5, 944);
	rig_stop(&rig);
	rig.options.lost_entries_max = 1;
	rig_start_active(&rig);
	for (uint32_t region = 0; region <= 4; region += 2)
		write_in(&rig, region);
	rig_crash(&rig);
	tear_row(&rig, row_in(&rig, 4));
	rig.options.resync_rows_max = 0;
	rig.members[0].reachable = false;
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 0);
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

/* What the first made up for is worth nothing without the second, where P and Q need not fit. */
static void
test_who_goes_after_the_stop_takes_along_what_was_not_proven(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_recorded(&rig, 945);
	accept_all(&rig);
	row = row_in(&rig, REGION) + 5;
	rig_stop(&rig);
	tear_row(&rig, row);
	rig.members[1].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 200);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

/* All were there, and nobody was asked what it had: as after a crash. */
static void
test_stop_of_a_whole_volume_says_nothing_of_who_goes_later(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_unproven(&rig, 5, 4, 946);
	rig_start_active(&rig);
	row = row_in(&rig, REGION);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 0);
	tear_row(&rig, row);
	rig.members[0].reachable = false;
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

/* Member 0 goes during the last flush: all that was not proven is on record. */
static void
stop_recorded_bare(struct rig *rig)
{
	rig_start_active(rig);
	fake_member_cut(&rig->members[0], false);
	rig_stop(rig);
	assert_int_equal(rig_superblock(rig, 1).recorded_roles, 1);
}

/* Somebody has to look after it, for a member has gone back in time, or newer superblocks are away.
 */
static void
start_by_force(struct rig *rig)
{
	rig_start(rig);
	rig_steps(rig, 3000);
	assert_int_not_equal(rig_status(rig).state, VOLUME_DEGRADED);
	rig_stop(rig);
	rig->options.force_ms = UINT32_MAX;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig->options.force_ms = 0;
	rig_steps(rig, 200);
}

static void
test_what_a_stop_knew_says_nothing_of_a_member_that_is_taken_by_force(void **state)
{
	uint8_t *before = malloc(RIG_MEMBER_BYTES);
	struct rig rig;

	assert_non_null(before);
	begin(&rig, 5, 4, 947);
	disk_read(&rig.members[1].disk, 0, before, RIG_MEMBER_BYTES);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row_in(&rig, 4)), row_sectors(&rig),
		   false);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	write_in(&rig, REGION);
	rig_crash(&rig);
	rig.options.resync_rows_max = 0;
	stop_recorded_bare(&rig);
	disk_write(&rig.members[1].disk, 0, before, RIG_MEMBER_BYTES, true);
	free(before);
	start_by_force(&rig);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

static void
spoil_table(struct rig *rig)
{
	static const uint8_t junk[LAYOUT_GRANULE_BYTES] = { 1, 2, 3 };

	for (int m = 1; m < rig->count; m++)
		disk_write(&rig->members[m].disk, LAYOUT_LOST_OFFSET, junk, sizeof(junk), true);
}

/* Whether these are lost stood there. */
static void
test_what_a_stop_knew_is_worth_nothing_without_all_of_the_table(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_recorded(&rig, 948);
	row = row_in(&rig, REGION) + 5;
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	spoil_table(&rig);
	start_by_force(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

/* What could not be read is known all the same. */
static void
test_what_a_stop_knew_counts_if_what_is_unread_of_the_table_is_empty(void **state)
{
	struct rig rig;

	begin_recorded(&rig, 951);
	accept_all(&rig);
	rig_stop(&rig);
	spoil_table(&rig);
	start_degraded(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* Its superblocks are away: what it wrote may stand half way on these members. */
static void
test_what_a_stop_knew_is_void_when_a_later_assembly_was_seen(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_recorded(&rig, 949);
	accept_all(&rig);
	row = row_in(&rig, REGION);
	rig_stop(&rig);
	tear_row(&rig, row);
	rig.epoch_recorded = rig_superblock(&rig, 1).epoch + 1;
	start_by_force(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

/* It comes back, what is being copied to it counts for nothing when it goes again, and nor does
 * what the stop knew of it.
 */
static void
test_member_that_returns_and_goes_again_takes_nothing_along(void **state)
{
	struct rig rig;
	uint64_t row;

	begin_recorded(&rig, 950);
	accept_all(&rig);
	row = row_in(&rig, REGION);
	rig_stop(&rig);
	start_degraded(&rig);
	engine_set_rates(rig.engine, 1, 1);
	rig.members[0].reachable = true;
	rig_steps(&rig, 500);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), CHUNK_SECTORS, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 200);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 1).recorded_roles, 1);
	start_degraded(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_crash(&rig);
	rig_free(&rig);
}

/* Members 1 to 3 lose their caches at once and come back. */
static void
lose_caches(struct rig *rig)
{
	for (int m = 1; m < 4; m++)
		fake_member_power_loss(&rig->members[m], true);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 100);
}

/* The region whose rows are all on record, or were accepted, and another row in which member 0 has
 * its chunk.
 */
static uint64_t
begin_accepted(struct rig *rig, uint64_t seed)
{
	begin_recorded(rig, seed);
	accept_all(rig);
	assert_int_equal(rig_status(rig).lost_bytes, 0);
	return row_in(rig, REGION) + (uint64_t)rig->count;
}

/* What was accepted, or overwritten, was flushed.  Caches hold nothing of it, but only of the row
 * that was written since.
 */
static void
test_what_was_on_record_stays_known_when_caches_are_lost(void **state)
{
	struct rig rig;
	uint64_t row;

	row = begin_accepted(&rig, 951);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	lose_caches(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(&rig);
	lose_caches(&rig);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The same of a row whose write failed half way. */
static void
test_what_was_on_record_stays_known_beside_a_write_that_failed(void **state)
{
	struct rig rig;
	uint64_t row;

	row = begin_accepted(&rig, 952);
	fail_half_way(&rig, row);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

/* A stop that calls the members clean has flushed them, so no cache holds anything when the next
 * gateway starts.
 */
static void
test_what_a_stop_flushed_is_known_at_the_next_start(void **state)
{
	struct rig rig;
	uint64_t row;

	row = begin_accepted(&rig, 953);
	rig_stop(&rig);
	start_degraded(&rig);
	lose_caches(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(&rig);
	lose_caches(&rig);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_stop_flushed_nothing_of_a_device_that_says_so_later(void **state)
{
	struct rig rig;

	(void)begin_accepted(&rig, 954);
	rig_stop(&rig);
	rig_start(&rig);
	rig.members[2].backend.writes_lost++;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 200);
	lose_caches(&rig);
	assert_true(rig_status(&rig).lost_bytes > CHUNK);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_written_since_is_not_lost_at_the_next_start),
		cmocka_unit_test(test_member_that_returns_gets_what_was_known),
		cmocka_unit_test(
			test_who_goes_during_the_last_flush_takes_along_what_is_on_record_only),
		cmocka_unit_test(test_what_a_stop_knew_counts_for_one_start_only),
		cmocka_unit_test(test_what_found_no_room_is_not_called_recorded),
		cmocka_unit_test(test_who_goes_after_the_stop_takes_along_what_was_not_proven),
		cmocka_unit_test(test_stop_of_a_whole_volume_says_nothing_of_who_goes_later),
		cmocka_unit_test(
			test_what_a_stop_knew_says_nothing_of_a_member_that_is_taken_by_force),
		cmocka_unit_test(test_what_a_stop_knew_is_worth_nothing_without_all_of_the_table),
		cmocka_unit_test(
			test_what_a_stop_knew_counts_if_what_is_unread_of_the_table_is_empty),
		cmocka_unit_test(test_what_a_stop_knew_is_void_when_a_later_assembly_was_seen),
		cmocka_unit_test(test_member_that_returns_and_goes_again_takes_nothing_along),
		cmocka_unit_test(test_what_was_on_record_stays_known_when_caches_are_lost),
		cmocka_unit_test(test_what_was_on_record_stays_known_beside_a_write_that_failed),
		cmocka_unit_test(test_what_a_stop_flushed_is_known_at_the_next_start),
		cmocka_unit_test(test_a_stop_flushed_nothing_of_a_device_that_says_so_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
