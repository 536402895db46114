/* test_engine_rebuild.c - what is copied to a member that is being filled is what was read. */
#include "knowable.h"

static char why[256];
static struct tap *last;

static enum tap_verdict
hold_reads_of_data(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_READ && io->offset_bytes >= DATA_OFFSET ? TAP_HOLD : TAP_PASS;
}

/* Rows are being copied to member 0; only member 4 has not answered yet. */
static bool
waits_for_the_last(struct rig *rig)
{
	return rig_status(rig).rebuild_slot == 0 && last->held_count > 0 &&
	       rig->members[1].queued == 0 && rig->members[2].queued == 0 &&
	       rig->members[3].queued == 0;
}

static bool
is_filled(struct rig *rig)
{
	return rig_status(rig).rebuild_slot < 0 &&
	       rig_status(rig).members[0].state == MEMBER_IN_SYNC;
}

/* With two members out a chunk is made from others than with one, and those were not read. */
static void
test_member_that_goes_while_rows_are_copied_does_no_harm(void **state)
{
	struct tap tap = { 0 };
	struct rig rig;

	last = &tap;
	begin(&rig, 6, 5, 930);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[4]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig.members[4].deadline_us = 60000000;
	tap.judge = hold_reads_of_data;
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_the_last);
	assert_int_equal(engine_fail(rig.engine, 1, why), 0);
	rig_steps(&rig, 50);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_FAULTY);
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, is_filled);
	fake_member_cut(&rig.members[2], false); /* so that what member 0 got is needed */
	finish(&rig);
}

/* Somebody else started it with devices of his, and wrote from this row on, which it did not lack.
 */
static void
use_elsewhere(struct rig *rig, int index, uint64_t epochs, uint64_t row)
{
	struct superblock superblock = rig_superblock(rig, index);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES], rubbish[65536];

	superblock.epoch += epochs;
	superblock.write_count++;
	superblock_encode(&superblock, block);
	disk_write(&rig->members[index].disk, superblock_offset(superblock.write_count), block,
		   sizeof(block), true);
	memset(rubbish, 0x5A, sizeof(rubbish));
	disk_write(&rig->members[index].disk, DATA_OFFSET + row * CHUNK, rubbish, sizeof(rubbish),
		   true);
}

static void
test_member_that_was_used_elsewhere_while_it_was_being_filled_is_filled_from_the_start(void **state)
{
	struct tap tap = { 0 };
	struct rig rig;

	last = &tap;
	begin(&rig, 6, 5, 931);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[4]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 64, 64, false);
	rig_drain(&rig);
	tap.judge = hold_reads_of_data;
	rig.members[0].reachable = true;
	wait_until(&rig, waits_for_the_last);
	rig_steps(&rig, 50);
	assert_int_equal(rig_superblock(&rig, 0).tracked[0].state, MEMBER_REBUILDING);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 50);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 500);
	/* the volume goes on to later epochs */
	for (int starts = 0; starts < 2; starts++) {
		rig_stop(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	}
	use_elsewhere(&rig, 0, 1, 0);
	rig.members[0].reachable = true;
	wait_until(&rig, is_filled);
	finish(&rig);
}

/* It was in sync when rows became unknown, and held what was written last; but somebody else wrote
 * to it since.  Rows are on record, or found no room there.
 */
static void
test_member_that_was_used_elsewhere_holds_nothing_that_was_lost(void **state)
{
	(void)state;
	for (int room = 1; room >= 0; room--) {
		struct rig rig;
		uint64_t row;

		begin(&rig, 5, 4, 932 + (uint64_t)room);
		rig_stop(&rig);
		rig.options.lost_entries_max = room ? 0 : 1;
		/* what is suspect stays so */
		rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
		rig.members[0].disk.write_cache = false;
		rig_start_active(&rig);
		row = row_in(&rig, room ? 0 : 5);
		for (uint32_t region = 0; region <= 5; region += 5)
			rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row_in(&rig, region)),
				   1, false);
		rig_drain(&rig);
		rig_lose_caches(&rig, 1, 2);
		fake_member_cut(&rig.members[0], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig_steps(&rig, 100);
		assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
		use_elsewhere(&rig, 0, 1, row);
		engine_set_rates(rig.engine, 64u << 20, 1u << 30);
		rig.members[0].reachable = true;
		rig_steps(&rig, 20000);
		assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
		accept_all(&rig);
		wait_until(&rig, is_filled);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* --- more are out than are tracked --- */

static int spare;

static bool
has_taken_one(struct rig *rig)
{
	return rig_status(rig).members[spare].state == MEMBER_IN_SYNC;
}

static bool
has_the_last(struct rig *rig)
{
	return rig_status(rig).members[7].state == MEMBER_IN_SYNC;
}

static void
attach_spare(struct rig *rig, int index)
{
	rig_mark_spare(rig, index, RIG_MEMBER_BYTES);
	spare = engine_attach(rig->engine, &rig->members[index].backend, why);
	assert_true(spare >= 0);
}

static void
lose_one_of_each_pair(struct rig *rig)
{
	begin(rig, 10, 8, 931);
	rig->options.spare_wait_ms = 1000;
	rig_stop(rig);
	rig_start_active(rig);
	for (int m = 1; m < 8; m += 2) {
		fake_member_cut(&rig->members[m], false);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
		wait_for_state(rig, m, MEMBER_FAULTY);
	}
	rig_drain(rig);
}

/* Four are gone for good, and may never be removed: those that are left are not to stay alone for
 * that.
 */
static void
test_a_spare_is_taken_though_all_sets_are_taken(void **state)
{
	struct rig rig;

	(void)state;
	lose_one_of_each_pair(&rig);
	attach_spare(&rig, 8);
	wait_until(&rig, has_taken_one);
	submit_everywhere(&rig, REQUEST_WRITE, 64, 8);
	rig_drain(&rig);
	rig.members[7].reachable = true; /* still tracked, or not */
	wait_until(&rig, has_the_last);
	finish(&rig);
}

/* Its set stays taken, for it says what it lacks only if nobody else has used it.  With that it can
 * be filled from the start.
 */
static void
test_who_is_tracked_in_vain_is_filled_from_the_start(void **state)
{
	struct rig rig;

	(void)state;
	lose_one_of_each_pair(&rig);
	for (int starts = 0; starts < 2; starts++) {
		rig_stop(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	}
	use_elsewhere(&rig, 7, 70, 0); /* an eviction takes 64 here */
	rig.members[7].reachable = true;
	wait_until(&rig, has_the_last);
	finish(&rig);
}

/* --- a device that says it has no cache, and had one --- */

static uint32_t regions_passed;

static enum tap_verdict
hold_reads_behind(struct tap *tap, const struct backend_io *io)
{
	const uint64_t from = DATA_OFFSET + (uint64_t)regions_passed * REGION_ROWS * CHUNK;

	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= from ? TAP_HOLD : TAP_PASS;
}

static void
copy_up_to(struct rig *rig, uint32_t region)
{
	regions_passed = region;
	tap_let_go(last);
	rig_steps(rig, 4000);
	assert_int_equal(rig_status(rig).rebuild_slot, 0);
}

/* It is sent no flushes, so the flags of regions that were copied are clear, and it had lost them.
 */
static void
lose_what_was_copied(uint64_t seed)
{
	struct tap tap = { 0 };
	struct rig rig;

	last = &tap;
	begin(&rig, 5, 4, seed);
	rig_stop(&rig);
	set_caches(&rig, true);
	rig.members[0].hides_cache = true;
	tap_init(&tap, &rig.members[3]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig.members[3].deadline_us = 60000000;
	regions_passed = 1;
	tap.judge = hold_reads_behind;
	rig.members[0].reachable = true;
	rig_steps(&rig, 8000);
	copy_up_to(&rig, 1);
	copy_up_to(&rig, 4);
	fake_member_break_word(&rig.members[0]);
	assert_true(rig.members[0].counts.sectors_lost > 0);
	rig_steps(&rig, 50);
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, is_filled);
	fake_member_cut(&rig.members[1], false); /* so that what member 0 got is needed */
	finish(&rig);
}

static void
test_device_that_lost_what_was_copied_to_it_is_filled_anew(void **state)
{
	(void)state;
	for (uint64_t seed = 940; seed < 944; seed++)
		lose_what_was_copied(seed);
}

static bool
is_superblock(const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && io->offset_bytes < LAYOUT_MAP_OFFSET;
}

static int superblocks_passed;

static enum tap_verdict
hold_superblocks(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	if (!is_superblock(io))
		return TAP_PASS;
	return superblocks_passed-- > 0 ? TAP_PASS : TAP_HOLD;
}

/* The others have the one that member 0 has not got. */
static bool
is_on_record(struct rig *rig)
{
	return last->held_count > 0 &&
	       rig_superblock(rig, 1).tracked[0].state == MEMBER_REBUILDING &&
	       rig_superblock(rig, 1).event > rig_superblock(rig, 0).event;
}

/* Its session ends, or the gateway dies and is started again. */
static void
die(struct rig *rig, struct tap *tap, bool gateway)
{
	if (gateway) {
		rig_crash(rig);
		tap_drop(tap);
		tap->judge = NULL;
		rig_start(rig);
	} else {
		fake_member_cut(&rig->members[0], false);
		rig_steps(rig, 50);
		tap->judge = NULL;
		rig->members[0].reachable = true;
	}
}

/* A start and a filling in which it is told of no going back in time. */
static void
wait_unaccused(struct rig *rig)
{
	for (int i = 0; i < 20000 && !is_filled(rig); i++) {
		assert_null(strstr(rig_status(rig).members[0].reason, "went back in time"));
		rig_step(rig);
	}
	wait_until(rig, is_filled);
	fake_member_cut(&rig->members[1], false);
}

/* The others have it on record that it is being filled from the start, and it was never sent what
 * it counts from: it dies with the gateway, or its session ends.  It is as it was.
 */
static void
test_who_was_not_told_that_it_is_filled_has_not_gone_back_in_time(void **state)
{
	(void)state;
	for (int crashes = 0; crashes < 2; crashes++) {
		struct tap tap = { 0 };
		struct rig rig;

		last = &tap;
		begin(&rig, 5, 4, 950 + (uint64_t)crashes);
		rig_stop(&rig);
		rig.members[0].hides_cache = true;
		tap_init(&tap, &rig.members[0]);
		rig_start_active(&rig);
		superblocks_passed = 0;
		tap.judge = hold_superblocks;
		/* nobody keeps track of what it lacks */
		fake_member_break_word(&rig.members[0]);
		wait_until(&rig, is_on_record);
		assert_true(rig_superblock(&rig, 1).tracked[0].write_count <=
			    rig_superblock(&rig, 0).write_count);
		die(&rig, &tap, crashes);
		wait_unaccused(&rig);
		finish(&rig);
	}
}

/* It missed the first start, so nobody knows its superblocks.  It has the first of those that it is
 * filled with, and the others the second, when it dies with the gateway, or its session ends; and
 * that first one can't be read any more.  The copy that is left is of before.
 */
static void
test_who_loses_the_first_copy_that_says_it_is_filled_has_not_gone_back_in_time(void **state)
{
	(void)state;
	for (int crashes = 0; crashes < 2; crashes++) {
		struct tap tap = { 0 };
		struct rig rig;

		last = &tap;
		rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 952 + (uint64_t)crashes);
		tap_init(&tap, &rig.members[0]);
		rig.members[0].reachable = false;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
		rig_drain(&rig);
		superblocks_passed = 1;
		tap.judge = hold_superblocks;
		rig.members[0].reachable = true;
		wait_until(&rig, is_on_record);
		disk_damage(&rig.members[0].disk,
			    superblock_offset(rig_superblock(&rig, 0).write_count));
		die(&rig, &tap, crashes);
		wait_unaccused(&rig);
		finish(&rig);
	}
}

/* Level 10 of four: what member 0 lacks can't be copied from member 1, and is tried once a second. 
 * The other pair takes longer to answer.
 */
static void
test_reads_elsewhere_end_beside_a_region_that_can_not_be_copied(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig, 10, 4, CHUNK, 4u << 20, 4712);
	rig.options.queue_limit_ms = 25000;
	rig.options.give_up_ms = 5000;
	rig.options.hedge_ms = 500;
	set_deadline_of_all(&rig, 5000000);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 8192, 8192);
	rig_drain(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	submit_everywhere(&rig, REQUEST_WRITE, 64, 64);
	rig_drain(&rig);
	rig.members[1].stuck_error = -EIO;
	/* behind the first batch */
	disk_make_stuck(&rig.members[1].disk, DATA_OFFSET + 4 * CHUNK + 4096);
	rig.members[0].reachable = true;
	rig_steps(&rig, 8000);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	set_pace(&rig, 2, 1500000);
	set_pace(&rig, 3, 1500000);
	for (int i = 0; i < 4; i++)
		/* members 2 and 3 */
		assert_int_equal(error_of_read(&rig, (REGION_ROWS + 1) * CHUNK_SECTORS, 8), 0);
	set_pace(&rig, 2, 1000);
	set_pace(&rig, 3, 1000);
	rig.members[1].disk.stuck_count = rig.members[1].disk.bad_count = 0;
	wait_until(&rig, is_filled);
	finish(&rig);
}

/* A member is replaced after a crash, and its chunks are copied from itself.  Member 2 can't read
 * something of a row that proves nothing: it is not needed, and may be read tomorrow.
 */
static void
copy_beside_one_that_can_not_be_read(bool former_bad)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row, other;
	int position, slot;

	begin(&rig, 5, 4, 846);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	other = row % 4 == 3 ? row - 1 : row + 1;
	while (geometry_position(&geometry, other, 0) >= 3 ||
	       geometry_position(&geometry, other, 2) >= 3)
		other = other % 4 == 3 ? other - 3 : other + 1;
	assert_true(other != row && other / 4 == row / 4);
	position = geometry_position(&geometry, other, 2);
	write_in(&rig, 1);
	rig_crash(&rig);
	if (former_bad)
		disk_destroy(&rig.members[0].disk, DATA_OFFSET + row * CHUNK + 4096);
	disk_damage(&rig.members[2].disk, DATA_OFFSET + other * CHUNK + 8192);
	rig_start_active(&rig);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	for (int i = 0; i < 200 && rig_status(&rig).members[slot].state == 0; i++)
		rig_step(&rig);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	wait_for_state(&rig, slot, MEMBER_IN_SYNC);
	rig.members[2].disk.bad_count = 0; /* tomorrow */
	assert_int_equal(
		error_of_read(&rig, sector_of_row(&rig, other) + (uint64_t)position * CHUNK_SECTORS,
			      CHUNK_SECTORS),
		0);
	assert_int_equal(rig.mismatches, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The same, but both sectors are of one row: what the former lacks is lost, the other is not
 * needed.
 */
static void
copy_beside_one_of_the_same_row(bool former_bad)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	int position, slot;

	begin(&rig, 5, 4, 846);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	while (geometry_position(&geometry, row, 0) >= 3 ||
	       geometry_position(&geometry, row, 2) >= 3)
		row++;
	position = geometry_position(&geometry, row, 2);
	write_in(&rig, 1);
	rig_crash(&rig);
	if (former_bad)
		disk_destroy(&rig.members[0].disk, DATA_OFFSET + row * CHUNK + 4096);
	disk_damage(&rig.members[2].disk, DATA_OFFSET + row * CHUNK + 8192);
	rig_start_active(&rig);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	for (int i = 0; i < 200 && rig_status(&rig).members[slot].state == 0; i++)
		rig_step(&rig);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	wait_for_state(&rig, slot, MEMBER_IN_SYNC);
	rig.members[2].disk.bad_count = 0; /* tomorrow */
	assert_int_equal(
		error_of_read(&rig, sector_of_row(&rig, row) + (uint64_t)position * CHUNK_SECTORS,
			      CHUNK_SECTORS),
		0);
	assert_int_equal(rig.mismatches, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_copy_of_a_member_asks_nothing_of_others(void **state)
{
	(void)state;
	copy_beside_one_that_can_not_be_read(false);
	copy_beside_one_that_can_not_be_read(true);
	copy_beside_one_of_the_same_row(false);
	copy_beside_one_of_the_same_row(true);
}

/* Level 5, member 0 is replaced after a crash and copied from itself; its own P of row z can't be
 * read.  Of row y member 2 has P.
 */
static uint64_t refused_at;

static enum tap_verdict
refuse_piece(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return (io->op == BACKEND_READ || io->op == BACKEND_WRITE) &&
			       io->offset_bytes < refused_at + 4096 &&
			       io->offset_bytes + io->length_bytes > refused_at
		       ? TAP_REFUSE
		       : TAP_PASS;
}

static void
copy_beside_parity(bool refused)
{
	struct tap tap;
	struct geometry geometry;
	struct rig rig;
	uint64_t y = REGION_ROWS, z = REGION_ROWS, at;
	int slot;

	begin(&rig, 5, 4, 846);
	geometry = geometry_of(&rig);
	while (geometry_role(&geometry, y, 3) != 2)
		y++;
	while (geometry_role(&geometry, z, 3) != 0)
		z++;
	at = DATA_OFFSET + y * CHUNK;
	write_in(&rig, 1);
	rig_crash(&rig);
	disk_damage(&rig.members[2].disk, at);
	if (refused) {
		refused_at = at + 4096;
		tap_init(&tap, &rig.members[2]);
		tap.judge = refuse_piece;
	} else {
		disk_damage(&rig.members[2].disk, at + 4096);
		disk_damage(&rig.members[1].disk, at + 4096);
	}
	rig_start_active(&rig);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	assert_true(disk_is_damaged(&rig.members[2].disk, at, 4096));
	disk_damage(&rig.members[0].disk, DATA_OFFSET + z * CHUNK);
	rig.errors_allowed = true;
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	for (int i = 0; i < 200 && rig_status(&rig).members[slot].state == 0; i++)
		rig_step(&rig);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	for (int i = 0; i < 200 && rig_status(&rig).rebuild_slot != slot; i++)
		rig_step(&rig);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	for (int i = 0; i < 20000 && rig_status(&rig).members[slot].state != MEMBER_IN_SYNC &&
			rig_status(&rig).members[2].state == MEMBER_IN_SYNC;
	     i++)
		rig_step(&rig);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).members[slot].state, MEMBER_IN_SYNC);
	if (!refused)
		assert_true(disk_is_damaged(&rig.members[2].disk, at + 4096, 4096));
	rig.members[1].disk.bad_count = 0;
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_copy_leaves_parity_of_others_as_it_is(void **state)
{
	(void)state;
	copy_beside_parity(true);
	copy_beside_parity(false);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_elsewhere_end_beside_a_region_that_can_not_be_copied),
		cmocka_unit_test(test_member_that_goes_while_rows_are_copied_does_no_harm),
		cmocka_unit_test(
			test_member_that_was_used_elsewhere_while_it_was_being_filled_is_filled_from_the_start),
		cmocka_unit_test(test_member_that_was_used_elsewhere_holds_nothing_that_was_lost),
		cmocka_unit_test(test_device_that_lost_what_was_copied_to_it_is_filled_anew),
		cmocka_unit_test(test_who_was_not_told_that_it_is_filled_has_not_gone_back_in_time),
		cmocka_unit_test(
			test_who_loses_the_first_copy_that_says_it_is_filled_has_not_gone_back_in_time),
		cmocka_unit_test(test_a_spare_is_taken_though_all_sets_are_taken),
		cmocka_unit_test(test_who_is_tracked_in_vain_is_filled_from_the_start),
		cmocka_unit_test(test_a_copy_of_a_member_asks_nothing_of_others),
		cmocka_unit_test(test_a_copy_leaves_parity_of_others_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
