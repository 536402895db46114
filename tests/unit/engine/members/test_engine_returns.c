/* test_engine_returns.c - members that come back, and are less than what they were: older, used
 * elsewhere, removed meanwhile.
 */
#include "knowable.h"

static char why[256];

static void
take_image(struct rig *rig, int m, struct disk *image)
{
	disk_init(image, rig->members[m].disk.bytes, 512);
	disk_copy(image, &rig->members[m].disk);
}

static bool
something_is_lost(struct rig *rig)
{
	return rig_status(rig).lost_bytes > 0;
}

/* Member 0 takes a row along that was suspect, so that row is lost, and held by it.  What its chunk
 * reads when it is back.
 */
static int
read_what_was_held(bool removed, bool older)
{
	struct rig rig;
	struct disk image;
	uint64_t row;
	int error;

	begin(&rig, 5, 4, 910);
	row = row_in(&rig, 1) + 48;
	rig_stop(&rig);
	rig.members[0].disk.write_cache = false;
	take_image(&rig, 0, &image);
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, true);
	rig_drain(&rig);
	rig_crash(&rig);
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	rig_steps(&rig, 30);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	wait_until(&rig, something_is_lost);
	for (int i = 0; removed && i < 1000 && engine_detach(rig.engine, 0, why) != 0; i++)
		rig_step(&rig);
	rig_steps(&rig, 5000);
	if (older)
		disk_copy(&rig.members[0].disk, &image);
	rig.members[0].disk.write_cache = false;
	rig.members[0].reachable = true;
	if (removed)
		assert_int_equal(engine_attach(rig.engine, &rig.members[0].backend, why), 0);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	wait_until(&rig, all_in_sync);
	rig.errors_allowed = true;
	error = read_first_chunk(&rig, row);
	disk_free(&image);
	rig_stop(&rig);
	rig_free(&rig);
	return error;
}

/* Nobody keeps what one that was removed had acknowledged. */
static void
test_one_that_was_removed_is_not_believed_for_what_is_lost(void **state)
{
	(void)state;
	assert_int_equal(read_what_was_held(false, false), 0);
	assert_int_equal(read_what_was_held(false, true), -ENODATA);
	assert_int_equal(read_what_was_held(true, true), -ENODATA);
}

static bool
is_being_filled(struct rig *rig)
{
	return rig_status(rig).rebuild_slot == 0;
}

/* Member 0 is back, and goes when its marks are durable and before it is sent a superblock. */
static void
come_and_go(struct rig *rig, struct tap *tap,
	    enum tap_verdict (*judge)(struct tap *tap, const struct backend_io *io))
{
	tap->judge = judge;
	rig->members[0].reachable = true;
	for (int i = 0; i < 20000 && !is_being_filled(rig); i++)
		rig_step(rig);
	assert_true(is_being_filled(rig));
	rig_steps(rig, 20);
	fake_member_cut(&rig->members[0], false);
	rig_steps(rig, 20);
	tap->judge = NULL;
	tap_let_go(tap);
	rig_steps(rig, 2000);
}

/* Superblocks, by which an image of before is known. */
static void
write_superblocks(struct rig *rig)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(engine_scrub_start(rig->engine, SCRUB_CHECK, false, why), 0);
		rig_steps(rig, 200);
		engine_scrub_stop(rig->engine, why);
		rig_steps(rig, 200);
	}
}

static void
test_one_that_goes_before_it_is_sent_a_superblock_is_known_by_its_count(void **state)
{
	struct rig rig;
	struct disk image;
	struct tap tap;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 920);
	rig_stop(&rig);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	wait_until(&rig, all_clean);
	rig_steps(&rig, 2000);
	take_image(&rig, 0, &image);
	row = row_in(&rig, 3);
	write_in(&rig, 3);
	wait_until(&rig, all_clean);
	write_superblocks(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	write_in(&rig, 1);
	rig_steps(&rig, 1000);
	tap.judge = tap_hold_superblocks;
	engine_scrub_start(rig.engine, SCRUB_CHECK, false, why);
	rig_steps(&rig, 10);
	engine_set_rates(rig.engine, 1, 1);
	come_and_go(&rig, &tap, tap_hold_superblocks);
	disk_copy(&rig.members[0].disk, &image);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	disk_free(&image);
	finish(&rig);
}

static enum tap_verdict
hold_map(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_MAP_OFFSET &&
			       io->offset_bytes < LAYOUT_LOST_OFFSET
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* What another gateway leaves on member 0, that starts it alone: a later epoch, as an assembly
 * takes, and one write.
 */
static void
use_elsewhere(struct rig *rig, uint64_t sector)
{
	static uint8_t block[LAYOUT_SUPERBLOCK_BYTES], foreign[RIG_SECTOR];
	struct superblock superblock = rig_superblock(rig, 0);

	superblock.epoch += 64;
	superblock.event += 10;
	superblock.member_states[1] = MEMBER_MISSING;
	for (int copy = 0; copy < 2; copy++) {
		superblock.write_count++;
		superblock_encode(&superblock, block);
		disk_write(&rig->members[0].disk, superblock_offset(superblock.write_count), block,
			   sizeof(block), true);
	}
	memset(foreign, 0xF0, sizeof(foreign));
	disk_write(&rig->members[0].disk, DATA_OFFSET + sector * RIG_SECTOR, foreign,
		   sizeof(foreign), true);
}

static void
test_one_that_goes_before_it_is_sent_a_superblock_is_known_by_its_epoch(void **state)
{
	static uint8_t one[RIG_SECTOR], other[RIG_SECTOR];
	const uint64_t sector = 3000;
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 1, 2, CHUNK, 2u << 20, 930);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector, 8, true);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_submit(&rig, REQUEST_WRITE, 0, 8, true);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_start(&rig); /* a later epoch than member 0 ever heard of */
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 3000);
	come_and_go(&rig, &tap, hold_map);
	use_elsewhere(&rig, sector);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	disk_read(&rig.members[0].disk, DATA_OFFSET + sector * RIG_SECTOR, one, sizeof(one));
	disk_read(&rig.members[1].disk, DATA_OFFSET + sector * RIG_SECTOR, other, sizeof(other));
	assert_memory_equal(one, other, sizeof(one));
	finish(&rig);
}

/* The others' superblocks say that it is being filled in this epoch; its own does not arrive. */
static void
test_one_whose_superblock_never_came_is_known_by_its_epoch(void **state)
{
	static uint8_t one[RIG_SECTOR], other[RIG_SECTOR];
	const uint64_t sector = 3000;
	uint64_t before;
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 1, 2, CHUNK, 2u << 20, 930);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[0]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector, 8, true);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_submit(&rig, REQUEST_WRITE, 0, 8, true);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_start(&rig); /* a later epoch than member 0 ever heard of */
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 3000);
	before = rig_superblock(&rig, 0).write_count;
	engine_set_rates(rig.engine, 1, 1);
	tap.judge = tap_hold_superblocks;
	rig.members[0].reachable = true;
	wait_until(&rig, is_being_filled);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	rig_steps(&rig, 20);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 20);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 2000);
	assert_int_equal(before, rig_superblock(&rig, 0).write_count); /* it heard nothing */
	use_elsewhere(&rig, sector);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	disk_read(&rig.members[0].disk, DATA_OFFSET + sector * RIG_SECTOR, one, sizeof(one));
	disk_read(&rig.members[1].disk, DATA_OFFSET + sector * RIG_SECTOR, other, sizeof(other));
	assert_memory_equal(one, other, sizeof(one));
	finish(&rig);
}

/* A superblock takes long, so that the record without it waits; then the gateway dies. */
static void
test_one_that_is_removed_lacks_what_is_written_before_that_is_on_record(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin(&rig, 5, 4, 940);
	rig_stop(&rig);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	wait_until(&rig, all_clean);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 3000);
	wait_until(&rig, all_clean);
	tap.judge = tap_hold_superblocks;
	engine_set_rates(rig.engine, 1, 1);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	for (int i = 0; i < 1000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	assert_int_equal(engine_detach(rig.engine, 0, why), 0);
	write_in(&rig, 3);
	for (int i = 0; i < 5000 && rig_status(&rig).regions_dirty > 0; i++)
		rig_step(&rig);
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 200);
	rig_crash(&rig);
	tap.judge = NULL;
	tap_drop(&tap);
	rig.members[0].reachable = true;
	rig_start(&rig);
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* Member 0 was taken out, and holds rows on record as lost.  What its chunk reads when it is taken
 * back.
 */
static int
read_after_an_image(bool shown)
{
	struct rig rig;
	struct disk image, real;
	uint64_t row;
	int error;

	begin(&rig, 5, 4, 950);
	row = row_in(&rig, 1) + 48;
	rig_stop(&rig);
	set_caches(&rig, false);
	take_image(&rig, 0, &image);
	disk_init(&real, rig.members[0].disk.bytes, 512);
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, true);
	rig_drain(&rig);
	rig_crash(&rig);
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	rig_steps(&rig, 30);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	wait_until(&rig, something_is_lost);
	rig_steps(&rig, 5000);
	assert_int_equal(engine_fail(rig.engine, 0, why), 0); /* not to be taken back by itself */
	rig_steps(&rig, 500);
	disk_copy(&real, &rig.members[0].disk);
	if (shown)
		disk_copy(&rig.members[0].disk, &image);
	rig.members[0].disk.write_cache = false;
	rig.members[0].reachable = true;
	wait_for_link(&rig, 0, LINK_OPEN);
	rig_steps(&rig, 500);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 500);
	disk_copy(&rig.members[0].disk, &real);
	rig.members[0].disk.write_cache = false;
	rig.members[0].reachable = true;
	wait_for_link(&rig, 0, LINK_OPEN);
	rig_steps(&rig, 500);
	assert_int_equal(engine_readmit(rig.engine, 0, why), 0);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	wait_until(&rig, all_in_sync);
	rig.errors_allowed = true;
	error = read_first_chunk(&rig, row);
	disk_free(&image);
	disk_free(&real);
	rig_stop(&rig);
	rig_free(&rig);
	return error;
}

static void
test_a_member_is_believed_though_an_image_of_it_was_there_before(void **state)
{
	(void)state;
	assert_int_equal(read_after_an_image(false), 0);
	assert_int_equal(read_after_an_image(true), 0);
}

/* Its superblock takes long, with a write to this region meanwhile, if any; then what was there
 * before answers in its place.
 */
static void
is_put_back(int seed, int region_written, bool stops)
{
	struct rig rig;
	struct disk image;
	struct tap tap;

	begin(&rig, 5, 4, seed);
	rig_stop(&rig);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[0]);
	rig_start_active(&rig);
	wait_until(&rig, all_clean);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	write_in(&rig, 3);
	write_in(&rig, 1);
	rig_steps(&rig, 3000);
	take_image(&rig, 0, &image);
	tap.judge = tap_hold_superblocks;
	rig.members[0].reachable = true;
	wait_until(&rig, is_being_filled);
	if (region_written >= 0)
		write_in(&rig, region_written);
	if (stops) {
		rig_stop(&rig);
		tap.judge = NULL;
		tap_drop(&tap);
	} else {
		rig_steps(&rig, 4000);
		fake_member_cut(&rig.members[0], false);
		rig_steps(&rig, 500);
		tap.judge = NULL;
		tap_let_go(&tap);
		rig_steps(&rig, 500);
	}
	disk_copy(&rig.members[0].disk, &image);
	if (stops)
		rig_start(&rig);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	disk_free(&image);
	finish(&rig);
}

static void
test_one_that_is_put_back_before_it_has_its_superblock_is_known(void **state)
{
	(void)state;
	is_put_back(970, -1, false);
}

/* It did not lack that region, so it is sent what is written there. */
static void
test_what_one_is_sent_before_its_superblock_is_copied_again(void **state)
{
	(void)state;
	is_put_back(971, 2, false);
	is_put_back(973, 2, true);
}

static enum tap_verdict
refuse_superblocks(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	(void)tap;
	return tap_superblock(io, block) ? TAP_REFUSE : TAP_PASS;
}

/* Member 0 is back, and is not heard for long: its own superblock takes long, or a survivor refuses
 * one.  What is written and flushed meanwhile is not lost when the gateway dies.
 */
static void
flushed_beside_one_that_is_not_heard(int tapped, bool back)
{
	struct rig rig;
	struct tap tap;

	begin(&rig, 5, 4, 975);
	rig_stop(&rig);
	rig.step_ms_max = 1;
	tap_init(&tap, &rig.members[tapped]);
	rig_start_active(&rig);
	wait_until(&rig, all_clean);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	write_in(&rig, 3);
	rig_steps(&rig, 5000);
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	tap.judge = tapped == 0 ? tap_hold_superblocks : refuse_superblocks;
	if (back)
		rig.members[0].reachable = true;
	if (back)
		wait_until(&rig, is_being_filled);
	write_in(&rig, 2);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	rig_steps(&rig, tapped == 0 ? 10000 : 60000);
	rig_crash(&rig);
	tap.judge = NULL;
	tap_drop(&tap);
	rig.members[0].reachable = true;
	rig_start(&rig);
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

static void
test_what_was_flushed_beside_one_that_is_not_heard_is_not_lost(void **state)
{
	(void)state;
	flushed_beside_one_that_is_not_heard(1, false);
	flushed_beside_one_that_is_not_heard(0, true);
}

static void
test_what_was_flushed_beside_one_that_refuses_superblocks_is_not_lost(void **state)
{
	(void)state;
	flushed_beside_one_that_is_not_heard(1, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_that_was_removed_is_not_believed_for_what_is_lost),
		cmocka_unit_test(
			test_one_that_goes_before_it_is_sent_a_superblock_is_known_by_its_count),
		cmocka_unit_test(
			test_one_that_goes_before_it_is_sent_a_superblock_is_known_by_its_epoch),
		cmocka_unit_test(test_one_whose_superblock_never_came_is_known_by_its_epoch),
		cmocka_unit_test(
			test_one_that_is_removed_lacks_what_is_written_before_that_is_on_record),
		cmocka_unit_test(test_a_member_is_believed_though_an_image_of_it_was_there_before),
		cmocka_unit_test(test_one_that_is_put_back_before_it_has_its_superblock_is_known),
		cmocka_unit_test(test_what_was_flushed_beside_one_that_is_not_heard_is_not_lost),
		cmocka_unit_test(
			test_what_was_flushed_beside_one_that_refuses_superblocks_is_not_lost),
		cmocka_unit_test(test_what_one_is_sent_before_its_superblock_is_copied_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
