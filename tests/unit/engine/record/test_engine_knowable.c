/* test_engine_knowable.c - what can't be known is never made up, and nothing that can be known is
 * given up: rows whose parity proves nothing in a volume that lacks a member, the more so when the
 * table of lost extents is full.
 */
#include "knowable.h"

static char why[256];

/* The gateway dies when regions 0, 2 and 4 are dirty, with a torn row in the last of them, and is
 * started again without member 0.  The table of lost extents has room for one.
 */
static void
lose_more_than_fits(struct rig *rig, int level, int count, uint64_t seed)
{
	begin(rig, level, count, seed);
	rig_stop(rig);
	rig->options.lost_entries_max = 1;
	rig_start_active(rig);
	for (uint32_t region = 0; region <= 4; region += 2)
		write_in(rig, region);
	rig_crash(rig);
	tear_row(rig, row_in(rig, 4));
	rig->members[0].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
	rig_steps(rig, 200);
}

/* --- a full table, and who may know what is in it --- */

static void
write_unflushed(struct rig *rig, uint32_t region)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row_in(rig, region)), 1, false);
	rig_drain(rig);
}

static bool
waits_for_a_word(struct rig *rig)
{
	return strstr(rig_status(rig).rebuild.reason, "overwrite or accept") != NULL;
}

/* Member 0 is back.  It holds what nobody else knows, and keeps that; but a cache may have taken
 * the last writes along, so somebody has to say that it counts: of what is on record, and of what
 * found no room there.
 */
static void
return_to_a_full_table(int level, int count, uint64_t seed)
{
	struct rig rig;

	lose_more_than_fits(&rig, level, count, seed);
	for (uint32_t region = 0; region <= 4; region += 2)
		assert_int_equal(read_first_chunk(&rig, row_in(&rig, region)), -ENODATA);
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_a_word);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	accept_all(&rig);
	wait_until(&rig, all_in_sync);
	accept_all(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_status(&rig).lost_extents, 0);
	finish(&rig);
}

static void
test_member_that_returns_to_a_full_table_keeps_what_it_holds(void **state)
{
	return_to_a_full_table(5, 4, 810);
	return_to_a_full_table(6, 5, 815);
}

/* It leaves a running volume, and has no cache: what it holds is certain, and needs no word. */
static void
test_member_that_lost_nothing_is_taken_at_its_word(void **state)
{
	for (int variant = 0; variant < 2; variant++) {
		struct rig rig;

		begin(&rig, 5, 4, 830 + (uint64_t)variant);
		rig_stop(&rig);
		rig.options.lost_entries_max = variant;
		/* what is suspect stays so */
		rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
		rig.members[0].disk.write_cache = false;
		rig_start_active(&rig);
		for (uint32_t region = 0; region <= 4; region += 2)
			write_unflushed(&rig, region);
		rig_lose_caches(&rig, 1, 2);
		fake_member_cut(&rig.members[0], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig_steps(&rig, 100);
		assert_int_equal(rig_status(&rig).lost_bytes, (variant == 0 ? 3 : 1) * CHUNK);
		assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
		engine_set_rates(rig.engine, 64u << 20, 1u << 30);
		rig.members[0].reachable = true;
		wait_until(&rig, all_in_sync);
		assert_int_equal(rig_status(&rig).lost_extents, 0);
		finish(&rig);
	}
}

/* It was away when the gateway started again, and whether it had a cache by then is not known. */
static void
test_what_a_cache_may_have_lost_stays_lost_whatever_its_member_says_later(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 832);
	write_in(&rig, 2);
	rig_crash(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[0].disk.write_cache = false;
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), -ENODATA);
	accept_all(&rig);
	finish(&rig);
}

/* It was taken from a member whose cache may have lost it, and nobody has said that this counts.
 * That the member leaves once more, this time with all that it had answered, makes it no surer.
 */
static void
test_what_a_cache_may_have_lost_stays_lost_when_its_member_goes_again(void **state)
{
	static const uint8_t older[4096] = { 7 };
	struct rig rig;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 833);
	row = row_in(&rig, 2);
	write_in(&rig, 2);
	rig_crash(&rig);
	disk_write(&rig.members[0].disk, DATA_OFFSET + row * CHUNK, older, sizeof(older), true);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[0].disk.write_cache = false;
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_steps(&rig, 3000);
	fake_member_cut(&rig.members[0], false);
	/* its region is copied again */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 1), 1, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	accept_all(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Of a row whose redundancy proves nothing only data is written.  Then its member goes, for good:
 * who wrote it is told.
 */
static void
test_a_write_that_nobody_has_is_not_acknowledged(void **state)
{
	for (int member = 1; member < 5; member++) {
		struct rig rig;
		uint64_t sector;

		lose_more_than_fits(&rig, 6, 5, 840);
		sector = sector_of_row(&rig, row_in(&rig, 4)) + CHUNK_SECTORS;
		fake_member_hang(&rig.members[member]);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_WRITE, sector, 1, false);
		rig_drain(&rig);
		rig.errors_allowed = false;
		if (rig.failed == 0)
			rig_submit(&rig, REQUEST_READ, sector, 1, false);
		rig_drain(&rig);
		rig_crash(&rig);
		rig_free(&rig);
	}
}

static bool
others_copied(struct rig *rig)
{
	return rig_status(rig).rebuild.reason[0] != '\0' &&
	       rig_status(rig).members[4].stale_rows <= 2 * REGION_ROWS;
}

/* A spare holds nothing of them.  It gets all other rows, and the administrator is told what to do
 * about these.
 */
static void
test_spare_waits_for_what_nobody_knows_and_no_longer(void **state)
{
	struct rig rig;
	struct lost_range range[16];
	uint64_t bytes = 0;
	int count;

	lose_more_than_fits(&rig, 5, 4, 811);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	assert_true(engine_attach(rig.engine, &rig.members[4].backend, why) == 4);
	rig_steps(&rig, 50);
	wait_until(&rig, others_copied);
	assert_non_null(strstr(rig_status(&rig).rebuild.reason, "overwrite or accept"));
	assert_non_null(strstr(rig_status(&rig).reason, "overwrite or accept"));
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).rebuild_slot, 4);
	assert_int_equal(rig_status(&rig).members[4].stale_rows, 2 * REGION_ROWS);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	/* All that fails is listed: three regions of which one row in four has parity on the lost
	 * member.
	 */
	for (uint64_t from = 0; (count = engine_lost_list(rig.engine, from, range, 16)) > 0;)
		for (int i = 0; i < count; i++) {
			bytes += range[i].length_bytes;
			from = range[i].offset_bytes + range[i].length_bytes;
		}
	assert_int_equal(bytes, 3 * (REGION_ROWS * 3 / 4) * CHUNK);
	/* One of them is accepted as the others make it, which is right there, the other one is
	 * written anew.
	 */
	engine_lost_accept(rig.engine, 2 * REGION_ROWS * 3 * CHUNK, REGION_ROWS * 3 * CHUNK,
			   accepted, NULL);
	rig_steps(&rig, 100);
	assert_int_equal(*accepted_bytes(), (REGION_ROWS * 3 / 4) * CHUNK);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), 0);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, 4 * REGION_ROWS),
		   REGION_ROWS * 3 * CHUNK_SECTORS, false);
	rig_drain(&rig);
	wait_until(&rig, all_in_sync);
	accept_all(&rig);
	finish(&rig);
	fake_member_free(&rig.members[4]);
}

/* What did not fit is recorded as soon as there is room, and from then on is lost in the usual way:
 * known to survive a crash.
 */
static void
test_recording_goes_on_when_the_table_has_room_again(void **state)
{
	struct rig rig;
	struct lost_range range;

	lose_more_than_fits(&rig, 5, 4, 812);
	assert_int_equal(rig_status(&rig).lost_bytes, (REGION_ROWS * 3 / 4) * CHUNK);
	assert_int_equal(engine_lost_list(rig.engine, 0, &range, 1), 1);
	rig_submit(&rig, REQUEST_WRITE, 0, REGION_ROWS * 3 * CHUNK_SECTORS, false);
	rig_drain(&rig);
	rig_steps(&rig, 200);
	assert_int_equal(rig_status(&rig).lost_bytes, (REGION_ROWS * 3 / 4) * CHUNK);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 0)), 0);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	accept_all(&rig);
	assert_int_equal(*accepted_bytes(), 2 * (REGION_ROWS * 3 / 4) * CHUNK);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	assert_int_equal(engine_lost_list(rig.engine, 0, &range, 1), 0);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2)), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Level 6 of five, one missing, and its chunk there can't be known: neither P nor Q can be made.
 * What is written to another's chunk would be on that member alone, though the level bears the loss
 * of one more.  With what is missing on record, P and Q are made.
 */
static void
test_what_one_member_alone_would_hold_is_refused_while_one_more_may_go(void **state)
{
	(void)state;
	for (uint32_t entries = 0; entries < 2; entries++) {
		struct rig rig;
		uint64_t sector;
		int role;

		begin(&rig, 6, 5, 4713);
		rig_stop(&rig);
		rig.options.lost_entries_max = entries;
		rig_start_active(&rig);
		for (uint32_t region = 0; region <= 4; region += 2)
			write_in(&rig, region);
		rig_crash(&rig);
		rig.members[0].reachable = false;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig_steps(&rig, 200);
		const struct geometry geometry = geometry_of(&rig);
		const uint64_t row = row_in(&rig, 4);

		role = geometry_role(&geometry, row, 1);
		sector = sector_of_row(&rig, row) + CHUNK_SECTORS;
		rig.errors_allowed = entries > 0;
		rig_submit(&rig, REQUEST_WRITE, sector, 8, true);
		rig_drain(&rig);
		assert_int_equal(rig.failed, entries);
		assert_int_equal(rig.failed > 0 ? rig.last_error : -ENODATA, -ENODATA);
		rig.errors_allowed = false;
		rig_steps(&rig, 5000);
		fake_member_cut(&rig.members[role], false);
		rig_steps(&rig, 6000);
		assert_int_not_equal(rig_status(&rig).members[role].state, MEMBER_IN_SYNC);
		if (entries == 0)
			assert_int_equal(error_of_read(&rig, sector, 8), 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* The table has room for one of three rows that are lost with member 0, which has no cache; what
 * answers in its place is an image of before.  A fill waits for what nobody knows; its session
 * breaks, or the table has room again.
 */
static void
return_as_an_image(bool breaks)
{
	struct rig rig;
	struct disk image;

	begin(&rig, 5, 4, 833);
	rig_stop(&rig);
	disk_init(&image, rig.members[0].disk.bytes, 512);
	disk_copy(&image, &rig.members[0].disk);
	rig.options.lost_entries_max = 1;
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig.members[0].disk.write_cache = false;
	rig_start_active(&rig);
	for (uint32_t region = 0; region <= 4; region += 2)
		write_unflushed(&rig, region);
	rig_lose_caches(&rig, 1, 2);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	disk_copy(&rig.members[0].disk, &image);
	rig.members[0].disk.write_cache = false;
	engine_set_rates(rig.engine, 64u << 20, 1u << 30);
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_a_word);
	rig_steps(&rig, 3000);
	rig.errors_allowed = true;
	if (breaks)
		fake_member_cut(&rig.members[0], true);
	else
		accept_all(&rig);
	rig_steps(&rig, 20000);
	if (breaks)
		assert_int_equal(read_first_chunk(&rig, row_in(&rig, 4)), -ENODATA);
	assert_int_equal(rig.mismatches, 0);
	disk_free(&image);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_an_image_is_not_believed_for_what_found_no_room(void **state)
{
	(void)state;
	return_as_an_image(true);
	return_as_an_image(false);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_what_one_member_alone_would_hold_is_refused_while_one_more_may_go),
		cmocka_unit_test(test_member_that_returns_to_a_full_table_keeps_what_it_holds),
		cmocka_unit_test(test_member_that_lost_nothing_is_taken_at_its_word),
		cmocka_unit_test(
			test_what_a_cache_may_have_lost_stays_lost_whatever_its_member_says_later),
		cmocka_unit_test(
			test_what_a_cache_may_have_lost_stays_lost_when_its_member_goes_again),
		cmocka_unit_test(test_a_write_that_nobody_has_is_not_acknowledged),
		cmocka_unit_test(test_spare_waits_for_what_nobody_knows_and_no_longer),
		cmocka_unit_test(test_recording_goes_on_when_the_table_has_room_again),
		cmocka_unit_test(test_an_image_is_not_believed_for_what_found_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
