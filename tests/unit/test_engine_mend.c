/* test_engine_mend.c - rows in which something can't be read, or does not fit: what is rewritten, with what, and what is given up. */
#include "knowable.h"

static char why[256];

static uint64_t
offset_of_row(uint64_t row)
{
	return DATA_OFFSET + row * CHUNK;
}

static bool
scrub_done(struct rig *rig)
{
	return !rig_status(rig).scrub_active;
}

static void
test_member_that_can_not_keep_what_is_rewritten_loses_its_place(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 840);
	row = row_in(&rig, 1);
	disk_make_stuck(&rig.members[0].disk, offset_of_row(row) + 4096);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	end(&rig);
}

/* Member 1 refuses to read a sector that the chunk of member 0 is to be made from: for a while, as it turns out. */
static void
test_read_that_is_refused_during_a_rebuild_gives_nothing_up(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 841);
	row = row_in(&rig, 1);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[1].stuck_error = -EIO;
	disk_make_stuck(&rig.members[1].disk, offset_of_row(row) + 4096);
	rig.members[0].reachable = true;
	rig_steps(&rig, 5000);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig.members[1].disk.stuck_count = rig.members[1].disk.bad_count = 0;
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	end(&rig);
}

/* P and Q tell which chunk alone is wrong; that one is corrected, and not P and Q made to fit it. */
static void
test_repair_of_level_6_rewrites_what_has_rotted(void **state)
{
	static const uint8_t junk[512] = { 9, 9, 9 };
	struct rig rig;

	begin(&rig, 6, 5, 842);
	disk_write(&rig.members[0].disk, offset_of_row(row_in(&rig, 1)) + 1024, junk, sizeof(junk), true);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	end(&rig);
}

/* A write was on its way when the gateway died: its data is there, P and Q are those of before.  Whoever reads sees the new data, and it must
 * not go back then.
 */
static void
test_resync_of_level_6_takes_data_as_it_stands(void **state)
{
	static uint8_t redundancy[2][CHUNK];
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	uint8_t role[2];

	begin(&rig, 6, 5, 843);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	for (uint8_t i = 0; i < 2; i++) {
		role[i] = geometry_role(&geometry, row, geometry.data_chunks + i);
		disk_read(&rig.members[role[i]].disk, offset_of_row(row), redundancy[i], CHUNK);
	}
	write_in(&rig, 1);
	rig_crash(&rig);
	for (uint8_t i = 0; i < 2; i++)
		disk_write(&rig.members[role[i]].disk, offset_of_row(row), redundancy[i], CHUNK, true);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	end(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_can_not_keep_what_is_rewritten_loses_its_place),
		cmocka_unit_test(test_read_that_is_refused_during_a_rebuild_gives_nothing_up),
		cmocka_unit_test(test_repair_of_level_6_rewrites_what_has_rotted),
		cmocka_unit_test(test_resync_of_level_6_takes_data_as_it_stands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
