/* test_engine_order.c - writes that overlap are carried out in the order in which they were
 * submitted, also those that are carried out again.
 */
#include "scenario.h"

#define CHUNK 16384u
#define CHUNK_SECTORS (CHUNK / RIG_SECTOR)
#define ROW_SECTORS (3 * CHUNK_SECTORS)
#define SMALL_CHUNK 4096u
#define SMALL_ROW_SECTORS (3 * SMALL_CHUNK / RIG_SECTOR)
#define DATA_OFFSET (4u << 20)
#define LOAD_BYTES (2u << 20)

static void
init(struct rig *rig, uint32_t chunk_bytes, uint64_t load_bytes, uint64_t seed)
{
	rig_init(rig, 5, 4, chunk_bytes, load_bytes, seed);
	set_deadline_of_all(rig, 2000000); /* so that slow ones keep their sessions */
}

/* Level 5 of 4 members.  The whole load is written and safe, all parity is proven, nothing is under
 * way.
 */
static void
begin(struct rig *rig, uint64_t seed)
{
	init(rig, CHUNK, LOAD_BYTES, seed);
	rig_start_active(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, true);
	rig_drain(rig);
	rig_wait_for_resync(rig);
}

/* A write of one sector whose commands take 200 ms, so that others of its row wait.  The regions
 * are marked already.
 */
static void
block_row(struct rig *rig, uint64_t row)
{
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	rig_submit(rig, REQUEST_WRITE, (row + 1) * ROW_SECTORS - 1, 1, false);
	rig_drain(rig);
	set_pace_of_all(rig, 100000);
	rig_submit(rig, REQUEST_WRITE, (row + 1) * ROW_SECTORS - 1, 1, false);
	engine_run(rig->engine, rig->now_ms);
	set_pace_of_all(rig, 200);
}

/* Two sessions break, more than the level bears, and nobody can tell whether the caches survived. 
 * They did.
 */
static void
doubt_caches(struct rig *rig)
{
	for (int m = 0; m < 2; m++) {
		fake_member_cut(&rig->members[m], true);
		rig->members[m].cache_kept = false;
	}
}

static void
test_a_write_carried_out_again_does_not_come_behind_a_newer_one(void **state)
{
	static const enum request_op newer[] = { REQUEST_WRITE, REQUEST_ZERO };

	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
		struct rig rig;

		begin(&rig, 80 + i);
		block_row(&rig, 1);
		/* row 0, and a part of row 1, which waits */
		rig_submit(&rig, REQUEST_WRITE, 0, ROW_SECTORS + 10, false);
		rig_steps(&rig, 20);
		assert_int_equal(rig.active_count, 2);
		rig_submit(&rig, newer[i], 3, 7, false); /* in row 0, which is done */
		rig_steps(&rig, 20);
		doubt_caches(&rig);
		rig_drain(&rig);
		finish(&rig);
	}
}

static bool
holds_zeros(const struct rig *rig, uint64_t sector)
{
	uint8_t bytes[RIG_SECTOR];

	disk_read(&rig->members[0].disk, DATA_OFFSET + sector * RIG_SECTOR, bytes, sizeof(bytes));
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, sizeof(bytes) - 1) == 0;
}

/* Nobody waits for a long range of zeros, so if it can't be repeated without harm it fails. */
static void
test_zeros_carried_out_again_spare_what_is_newer(void **state)
{
	struct rig rig;

	init(&rig, 4096, 24u << 20, 83);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	set_pace_of_all(&rig, 20000);
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	while (rig.members[0].zeros < 2)
		rig_step(&rig);
	set_pace_of_all(&rig, 200);
	rig_submit(&rig, REQUEST_WRITE, 3, 1, false);
	rig_steps(&rig, 5);
	assert_int_equal(rig.active_count, 1);
	assert_false(holds_zeros(&rig, 3));
	rig.errors_allowed = true;
	doubt_caches(&rig);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	assert_int_equal(rig.last_error, -EIO);
	assert_false(holds_zeros(&rig, 3));
	rig.errors_allowed = false;
	finish(&rig);
}

/* One member is out that has data in row 0, and the load is being made zeros, but for two sectors
 * and its end; the first piece is.
 */
static void
begin_zeros(struct rig *rig, uint64_t seed)
{
	init(rig, SMALL_CHUNK, 24u << 20, seed);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	fake_member_cut(&rig->members[1], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	set_pace_of_all(rig, 20000);
	rig_submit(rig, REQUEST_ZERO, 2, rig->sectors - 10 * SMALL_ROW_SECTORS, false);
	while (rig->members[0].zeros < 2)
		rig_step(rig);
	set_pace_of_all(rig, 200);
	rig->errors_allowed = true;
}

/* The row's first sectors, which one more member does not take: so it fails, and makes the row
 * doubtful.
 */
static void
fail_row(struct rig *rig, uint64_t row, uint64_t sectors)
{
	disk_make_unwritable(&rig->members[0].disk, DATA_OFFSET + row * SMALL_CHUNK);
	rig_submit(rig, REQUEST_WRITE, row * SMALL_ROW_SECTORS, sectors, false);
	while (rig->failed == 0)
		rig_step(rig);
	rig->members[0].disk.unwritable_count = 0;
}

/* No cache was lost, so it is known what stands where others wrote: the range is repeated around
 * that.
 */
static void
test_zeros_carried_out_again_pass_over_what_is_newer(void **state)
{
	static const uint64_t writes[][2] = {
		{ 3, 2 }, { 30, 1 }, { 5, 1 }, { 26, 9 }, { 100, 200 }
	};
	struct rig rig;

	begin_zeros(&rig, 88);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		rig_submit(&rig, REQUEST_WRITE, writes[i][0], writes[i][1], false);
	rig_steps(&rig, 5);
	assert_int_equal(rig.active_count, 1);
	fail_row(&rig, 0, 2);
	assert_int_equal(rig.active_count, 1);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig_submit(&rig, REQUEST_READ, 2, 2 * SMALL_ROW_SECTORS, false);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		rig_submit(&rig, REQUEST_READ, writes[i][0], writes[i][1], false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	assert_false(holds_zeros(&rig, 3));
	assert_false(holds_zeros(&rig, 5));
	assert_true(holds_zeros(&rig, 2));
	assert_true(holds_zeros(&rig, 6));
	rig_stop(&rig);
	rig_free(&rig);
}

/* What such a write left nobody knows. */
static void
test_zeros_carried_out_again_don_t_spare_a_write_that_failed(void **state)
{
	struct rig rig;

	begin_zeros(&rig, 89);
	fail_row(&rig, 1, SMALL_ROW_SECTORS);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 2);
	assert_int_equal(rig.last_error, -EIO);
	rig_stop(&rig);
	rig_free(&rig);
}

/* And where it harms nobody it is repeated. */
static void
test_zeros_are_carried_out_again(void **state)
{
	struct rig rig;

	init(&rig, 4096, 24u << 20, 84);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	set_pace_of_all(&rig, 5000);
	rig_submit(&rig, REQUEST_ZERO, 0, rig.sectors, false);
	while (rig.members[0].zeros < 4)
		rig_step(&rig);
	doubt_caches(&rig);
	rig_drain(&rig);
	assert_true(rig.members[0].zeros >= 4 + 8);
	finish(&rig);
}

static void
test_writes_that_wait_are_done_in_order(void **state)
{
	struct rig rig;

	begin(&rig, 85);
	block_row(&rig, 1);
	rig_submit(&rig, REQUEST_WRITE, 0, ROW_SECTORS + 10, false);
	rig_steps(&rig, 20);
	rig_submit(&rig, REQUEST_WRITE, 3, 4, false);
	/* of several pieces itself */
	rig_submit(&rig, REQUEST_WRITE, 6, ROW_SECTORS, false);
	rig_submit(&rig, REQUEST_ZERO, ROW_SECTORS + 2, 1, false); /* overlaps both */
	rig_submit(&rig, REQUEST_WRITE, 5, 2, false);
	rig_submit(&rig, REQUEST_WRITE, 20, 1, false);
	rig_submit(&rig, REQUEST_READ, 3, 1, false); /* nobody's business */
	rig_steps(&rig, 20);
	assert_int_equal(rig.active_count, 7);
	rig_drain(&rig);
	finish(&rig);
}

static void
test_a_stop_refuses_those_that_wait(void **state)
{
	struct rig rig;

	begin(&rig, 86);
	block_row(&rig, 1);
	rig_submit(&rig, REQUEST_WRITE, 0, ROW_SECTORS + 10, false);
	rig_submit(&rig, REQUEST_WRITE, 3, 4, false);
	rig_submit(&rig, REQUEST_WRITE, 4, 4, false);
	rig_steps(&rig, 20);
	rig.errors_allowed = true;
	rig_stop(&rig);
	assert_int_equal(rig.failed, 2);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	rig.errors_allowed = false;
	rig_start_active(&rig);
	finish(&rig);
}

/* Two writes were joined, one of them can't be done, so each is done by itself: before a third that
 * overlaps the other.
 */
static void
test_joined_writes_that_part_keep_their_place(void **state)
{
	struct rig rig;

	begin(&rig, 87);
	for (int m = 0; m < 3; m++)
		disk_damage(&rig.members[m].disk, DATA_OFFSET + RIG_SECTOR);
	rig.errors_allowed = true;
	block_row(&rig, 0);
	rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS - 1, 2, false);
	/* column 1 of the second chunk is unreadable */
	rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS + 1, 2, false);
	rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS - 1, 1, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig_submit(&rig, REQUEST_READ, CHUNK_SECTORS - 1, 2, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Two members lose power, more than the level bears, while a request is under way a piece of which
 * is done.  Nothing of it was acknowledged yet, so all of it has to be there in the end.
 */
static void
test_a_piece_that_went_with_a_cache_is_written_again(void **state)
{
	for (uint64_t seed = 90; seed < 96; seed++) {
		struct rig rig;

		begin(&rig, seed);
		block_row(&rig, 1);
		rig_submit(&rig, REQUEST_WRITE, 0, ROW_SECTORS + 10, false);
		rig_steps(&rig, 20);
		for (int m = 0; m < 2; m++)
			fake_member_power_loss(&rig.members[m], true);
		rig_drain(&rig);
		finish(&rig);
	}
}

/* A member is out, and a write of the rest of a row fails where a piece is done: what that wrote of
 * the missing chunk can't be made any more.  Nothing of it was acknowledged yet.
 */
static void
test_a_piece_whose_row_failed_since_is_written_again(void **state)
{
	for (uint64_t seed = 100; seed < 106; seed++) {
		struct rig rig;

		begin(&rig, seed);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		rig_steps(&rig, 3000);
		block_row(&rig, 1);
		rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS, ROW_SECTORS, false);
		rig_steps(&rig, 20);
		assert_int_equal(rig.active_count, 2);
		rig.errors_allowed = true;
		disk_make_unwritable(&rig.members[0].disk, DATA_OFFSET);
		rig_submit(&rig, REQUEST_WRITE, 0, 2, false);
		while (rig.failed == 0)
			rig_step(&rig);
		rig.members[0].disk.unwritable_count = 0;
		assert_int_equal(rig.active_count, 2);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_READ, CHUNK_SECTORS, ROW_SECTORS, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		rig.errors_allowed = false;
		finish(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_write_carried_out_again_does_not_come_behind_a_newer_one),
		cmocka_unit_test(test_zeros_carried_out_again_spare_what_is_newer),
		cmocka_unit_test(test_zeros_carried_out_again_pass_over_what_is_newer),
		cmocka_unit_test(test_zeros_carried_out_again_don_t_spare_a_write_that_failed),
		cmocka_unit_test(test_zeros_are_carried_out_again),
		cmocka_unit_test(test_writes_that_wait_are_done_in_order),
		cmocka_unit_test(test_a_stop_refuses_those_that_wait),
		cmocka_unit_test(test_joined_writes_that_part_keep_their_place),
		cmocka_unit_test(test_a_piece_that_went_with_a_cache_is_written_again),
		cmocka_unit_test(test_a_piece_whose_row_failed_since_is_written_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
