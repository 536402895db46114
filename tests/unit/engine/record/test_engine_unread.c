/* test_engine_unread.c - starts that find a bad sector in the table of lost extents on all members
 * that are here: what superblocks say of the table then.
 */
#include "listed.h"

static void
damage_tables(struct rig *rig, int first)
{
	for (int m = first; m < rig->count; m++)
		disk_damage(&rig->members[m].disk, LAYOUT_LOST_OFFSET);
}

static bool
is_table_damaged(struct rig *rig, int member)
{
	return disk_is_damaged(&rig->members[member].disk, LAYOUT_LOST_OFFSET, LAYOUT_LOST_BYTES);
}

/* What older software, or no software yet, says of the table: nothing. */
static void
say_nothing(struct rig *rig)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	for (int m = 0; m < rig->count; m++)
		for (int copy = 0; copy < 2; copy++) {
			disk_read(&rig->members[m].disk, superblock_offset((uint64_t)copy), block,
				  sizeof(block));
			assert_int_equal(superblock_decode(block, &superblock, NULL),
					 SUPERBLOCK_OK);
			superblock.lost_empty = 0;
			superblock_encode(&superblock, block);
			disk_write(&rig->members[m].disk, superblock_offset((uint64_t)copy), block,
				   sizeof(block), true);
		}
}

static void
start_is_refused(struct rig *rig)
{
	rig_start(rig);
	rig_steps(rig, 5000);
	assert_int_equal(rig_status(rig).state, VOLUME_FAILED);
	assert_non_null(strstr(rig_status(rig).reason, "table of lost extents"));
	assert_non_null(strstr(rig_status(rig).reason, "--force"));
	assert_non_null(strstr(rig_status(rig).reason, rig->members[1].backend.label));
}

static void
test_table_that_can_not_be_read_is_not_empty(void **state)
{
	struct rig rig;
	const uint64_t row = begin_lost(&rig, 971);
	char why[256];

	rig.members[0].reachable = false;
	damage_tables(&rig, 1);
	start_is_refused(&rig);
	assert_int_equal(engine_attach(rig.engine, &rig.members[4].backend, why), 4);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	rig_steps(&rig, 200);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	assert_false(is_table_damaged(&rig, 1));
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

static void
test_table_that_can_not_be_read_is_given_up_by_force(void **state)
{
	struct rig rig;

	begin_lost(&rig, 972);
	rig.members[0].reachable = false;
	damage_tables(&rig, 1);
	rig.options.force_ms = UINT32_MAX;
	rig_start(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(rig_status(&rig).lost_extents, 0);
	rig_stop(&rig);
	assert_false(is_table_damaged(&rig, 1));
	rig.options.force_ms = 0;
	rig_start(&rig);
	wait_until_degraded(&rig);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* The ordinary case: nothing was ever lost. */
static void
test_table_that_superblocks_call_empty_is_written_anew(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 973);
	rig_crash(&rig);
	damage_tables(&rig, 0);
	rig_start_active(&rig);
	rig_steps(&rig, 200);
	for (int m = 0; m < rig.count; m++)
		assert_false(is_table_damaged(&rig, m));
	assert_int_equal(rig_superblock(&rig, 0).lost_empty, LAYOUT_LOST_EMPTY);
	rig_stop(&rig);
	rig_free(&rig);
}

/* A mirror of which one copy is left needs one bad sector only. */
static void
test_single_copy_starts_if_its_superblock_calls_the_table_empty(void **state)
{
	struct rig rig;

	rig_init(&rig, 1, 2, CHUNK, 4u << 20, 974);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_stop(&rig);
	rig.members[0].reachable = false;
	damage_tables(&rig, 1);
	rig_start(&rig);
	wait_until_degraded(&rig);
	assert_false(is_table_damaged(&rig, 1));
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_older_software_says_nothing_of_the_table(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 975);
	rig_stop(&rig);
	say_nothing(&rig);
	damage_tables(&rig, 0);
	start_is_refused(&rig);
	rig_crash(&rig);
	rig_free(&rig);
}

static void
test_table_of_older_software_that_can_be_read_is_called_empty(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 976);
	rig_stop(&rig);
	say_nothing(&rig);
	rig_start_active(&rig);
	for (int m = 0; m < rig.count; m++)
		assert_int_equal(rig_superblock(&rig, m).lost_empty, LAYOUT_LOST_EMPTY);
	rig_stop(&rig);
	rig_free(&rig);
}

static bool
lists_something(struct rig *rig, int member)
{
	static const uint8_t zeros[LAYOUT_GRANULE_BYTES - 16];
	uint8_t granule[LAYOUT_GRANULE_BYTES];

	disk_read(&rig->members[member].disk, LAYOUT_LOST_OFFSET, granule, sizeof(granule));
	return memcmp(granule + 16, zeros, sizeof(zeros)) != 0;
}

static bool
is_listed(struct rig *rig)
{
	for (int m = 1; m < rig->count; m++)
		if (lists_something(rig, m))
			return true;
	return false;
}

/* A row of which the first member, which is away, has a chunk. */
static void
lose_a_row(struct rig *rig, uint64_t seed)
{
	begin(rig, 5, 4, seed);
	write_in(rig, REGION);
	rig_crash(rig);
	rig->members[0].reachable = false;
}

/* From before that on, a crash and a bad sector leave nobody who knows what it was. */
static void
test_superblocks_know_first_that_something_is_listed(void **state)
{
	struct rig rig;

	lose_a_row(&rig, 977);
	rig_start(&rig);
	wait_until(&rig, is_listed);
	for (int m = 1; m < rig.count; m++)
		assert_int_equal(rig_superblock(&rig, m).lost_empty, LAYOUT_LOST_EMPTY - 1);
	rig_crash(&rig);
	rig_free(&rig);
}

/* The first one passes, and the next is held. */
static enum tap_verdict
hold_second_that_says_so(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;
	int *said = tap->owner;

	if (tap_superblock(io, block) &&
	    superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
	    superblock.lost_empty == LAYOUT_LOST_EMPTY - 1 && ++*said == 2)
		return TAP_HOLD;
	return TAP_PASS;
}

/* A crash may tear the newer copy, and the older one is all there is. */
static void
test_both_copies_of_a_superblock_know_first_that_something_is_listed(void **state)
{
	struct rig rig;
	struct tap tap;
	int said = 0;

	lose_a_row(&rig, 980);
	tap_init(&tap, &rig.members[1]);
	tap.judge = hold_second_that_says_so;
	tap.owner = &said;
	rig_start(&rig);
	for (int step = 0; step < 20000 && tap.held_count == 0; step++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 100);
	assert_false(is_listed(&rig));
	tap_let_go(&tap);
	wait_until(&rig, is_listed);
	rig_crash(&rig);
	rig_free(&rig);
}

/* Not only at the next stop: after a crash, a bad sector would keep it from starting for nothing.
 */
static void
test_block_of_which_all_was_accepted_is_called_empty(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 978);
	write_in(&rig, REGION);
	rig_crash(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	wait_until_degraded(&rig);
	rig_steps(&rig, 2000);
	assert_int_equal(rig_superblock(&rig, 1).lost_empty, LAYOUT_LOST_EMPTY - 1);
	accept_all(&rig);
	rig_steps(&rig, 2000);
	for (int m = 1; m < rig.count; m++)
		assert_int_equal(rig_superblock(&rig, m).lost_empty, LAYOUT_LOST_EMPTY);
	rig_crash(&rig);
	rig_free(&rig);
}

static enum tap_verdict
hold_table(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_LOST_OFFSET &&
			       io->offset_bytes < LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* Before, a crash finds the sectors as bad as they were, and who returns may still know. */
static void
test_block_that_was_given_up_is_called_empty_when_it_is_written(void **state)
{
	struct rig rig;
	struct tap tap;

	begin_lost(&rig, 979);
	rig.members[0].reachable = false;
	damage_tables(&rig, 1);
	rig.options.force_ms = UINT32_MAX;
	tap_init(&tap, &rig.members[1]);
	tap.judge = hold_table;
	rig_start(&rig);
	wait_until_degraded(&rig);
	assert_int_equal(rig_superblock(&rig, 1).lost_empty, LAYOUT_LOST_EMPTY - 1);
	rig_crash(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* Both copies of a superblock know it before something is listed. */
static void
test_one_copy_of_a_superblock_is_enough_to_know_that_the_table_is_empty(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 981);
	rig_stop(&rig);
	for (int m = 0; m < rig.count; m++)
		disk_damage(&rig.members[m].disk,
			    superblock_offset(rig_superblock(&rig, m).write_count));
	damage_tables(&rig, 0);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	rig_stop(&rig);
	rig_free(&rig);
}

static void
begin_without_redundancy(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 0, 4, CHUNK, 4 << 20, seed);
	rig_start_active(rig);
	rig_submit(rig, REQUEST_WRITE, 0, 400, false);
	rig_drain(rig);
}

/* Nobody lists anything there, and who asks is told so. */
static void
test_nothing_is_lost_where_there_is_no_redundancy(void **state)
{
	struct rig rig;

	(void)state;
	begin_without_redundancy(&rig, 982);
	*accepted_bytes() = -1;
	accept_all(&rig);
	assert_int_equal(*accepted_bytes(), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Nobody can mend it either. */
static void
test_table_that_nobody_needs_holds_up_no_stop(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	(void)state;
	begin_without_redundancy(&rig, 983);
	rig_crash(&rig);
	disk_damage(&rig.members[1].disk, LAYOUT_LOST_OFFSET + 2 * LAYOUT_MAP_BLOCK_BYTES);
	rig.members[1].refuse_from_bytes = LAYOUT_LOST_OFFSET;
	rig.members[1].refuse_to_bytes = LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES;
	rig_start_active(&rig);
	began_ms = rig.now_ms;
	rig_stop(&rig);
	assert_in_range(rig.now_ms - began_ms, 0, 1000);
	assert_true(rig_superblock(&rig, 1).clean);
	rig_free(&rig);
}

static enum tap_verdict
keep_from_the_map(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	if (io->offset_bytes < LAYOUT_MAP_OFFSET || io->offset_bytes >= LAYOUT_LOST_OFFSET)
		return TAP_PASS;
	return io->op == BACKEND_READ ? TAP_REFUSE : TAP_HOLD;
}

/* It can't be read just now, so all of it is dirty; what it says may be read the next time.  A
 * write waits until it says so.
 */
static void
test_a_map_that_was_not_read_counts_as_no_mark(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 1, 2, 16384, 4 << 20, 981);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_stop(&rig);
	tap_init(&tap, &rig.members[1]);
	tap.judge = keep_from_the_map;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_submit(&rig, REQUEST_WRITE, 64, 1, false);
	rig_steps(&rig, 100);
	assert_int_equal(rig.active_count, 1);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_drain(&rig);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_that_can_not_be_read_is_not_empty),
		cmocka_unit_test(test_table_that_can_not_be_read_is_given_up_by_force),
		cmocka_unit_test(test_table_that_superblocks_call_empty_is_written_anew),
		cmocka_unit_test(test_single_copy_starts_if_its_superblock_calls_the_table_empty),
		cmocka_unit_test(test_older_software_says_nothing_of_the_table),
		cmocka_unit_test(test_table_of_older_software_that_can_be_read_is_called_empty),
		cmocka_unit_test(test_superblocks_know_first_that_something_is_listed),
		cmocka_unit_test(test_block_of_which_all_was_accepted_is_called_empty),
		cmocka_unit_test(test_block_that_was_given_up_is_called_empty_when_it_is_written),
		cmocka_unit_test(
			test_both_copies_of_a_superblock_know_first_that_something_is_listed),
		cmocka_unit_test(
			test_one_copy_of_a_superblock_is_enough_to_know_that_the_table_is_empty),
		cmocka_unit_test(test_nothing_is_lost_where_there_is_no_redundancy),
		cmocka_unit_test(test_table_that_nobody_needs_holds_up_no_stop),
		cmocka_unit_test(test_a_map_that_was_not_read_counts_as_no_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
