/* The table of lost extents, case by case; against a model: test_lost_model.c. */
#include "lost_table.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static struct lost table;

static void
write_all(struct lost *lost)
{
	uint32_t granule;

	do {
		while (lost_take_dirty(lost, &granule))
			;
		assert_false(lost_settled(lost)); /* sent is not durable */
		lost_written(lost);
	} while (!lost_settled(lost));
}

static void
test_neighbours_become_one_entry(void **state)
{
	struct lost_extent extent = { 5, 1, 1024, 2048, 1, 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	/* a resync meets them in this order */
	for (extent.row = 6; extent.row < 3000; extent.row++)
		assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 4;
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_int_equal(table.count, 1);
	extent = (struct lost_extent){ 4, 2996, 2048, 4096, 1, 0 };
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.column_begin = 512;
	extent.rows = 10;
	assert_int_equal(table.count, 1);
	assert_int_equal(table.entries[0].column_end, 4096);
	/* what is in adds nothing, what is otherwise held is kept apart */
	extent.column_begin = 1024;
	write_all(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_true(lost_settled(&table));
	extent.column_begin = 512;
	extent.column_end = 1024;
	extent.flags = LOST_HELD;
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_int_equal(table.count, 2);
}

static void
test_a_granule_is_as_the_reference_says(void **state)
{
	struct lost_extent extent = {
		0x0102030405060708ull, 0x090a0b0c, 0x200, 0x1000, 3, LOST_HELD
	};
	uint8_t bytes[512], zeros[512] = { 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	lost_encode(&table, 0, 0x1122334455667788ull, volume_uuid, bytes);
	assert_memory_equal(bytes + 4, "\x88\x77\x66\x55\x44\x33\x22\x11\0\0\0\0", 12);
	assert_memory_equal(bytes + 16, "\x08\x07\x06\x05\x04\x03\x02\x01\x0c\x0b\x0a\x09", 12);
	assert_memory_equal(bytes + 28, "\0\x02\0\0\0\x10\0\0\x03\x01\0\0", 12);
	assert_memory_equal(bytes + 40, zeros, 512 - 40);
	uint32_t crc = crc32c(crc32c(crc32c(0, volume_uuid, 16), "\0\0\0\0", 4), bytes + 4, 508);
	assert_memory_equal(bytes, &crc, 4);
}

static void
test_damaged_and_absurd_granules_are_refused(void **state)
{
	static const struct lost_extent absurd[] = {
		{ UINT64_MAX, 1, 0, 512, 0, 0 }, { (1ull << 48) + 1, 1, 0, 512, 0, 0 },
		{ 0, 1, 512, 512, 0, 0 },	 { 0, 1, 1024, 512, 0, 0 },
		{ 0, 1, 0, 4608, 0, 0 },	 { 0, 1, 1, 512, 0, 0 },
		{ 0, 1, 0, 513, 0, 0 },		 { 0, 1, 0, 512, ROLES, 0 },
		{ 0, 1, 0, 512, 0, 2 },
	};
	static struct lost read;
	struct lost_extent good = { 1, 2, 0, 512, 2, 0 };
	uint8_t bytes[512], other_uuid[16] = { 1 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &good), 0);
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 1);
	lost_init(&read);
	assert_false(lost_load(&read, 1, volume_uuid, bytes, &geometry));
	assert_false(lost_load(&read, 0, other_uuid, bytes, &geometry));
	for (int bit = 0; bit < 8 * 512; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(lost_load(&read, 0, volume_uuid, bytes, &geometry));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		/* beside a good one, which is not taken in either */
		lost_init(&table);
		assert_int_equal(lost_add(&table, &good), 0);
		table.entries[7] = absurd[i];
		table.states[7] = LOST_VALID;
		lost_encode(&table, 0, 1, volume_uuid, bytes);
		if (lost_load(&read, 0, volume_uuid, bytes, &geometry))
			fail_msg("entry %zu was accepted", i);
	}
	assert_int_equal(read.count, 0);
	assert_true(read.dirty[0] && read.dirty[1]); /* to be repaired */
	memset(bytes, 0, sizeof(bytes));
	assert_true(lost_load(&read, 3, volume_uuid, bytes, &geometry));
	assert_false(read.dirty[3]);
}

/* A crash while a volume grows leaves the old size, and extents that reach into the new rows. */
static void
test_what_reaches_behind_the_end_is_cut_there_and_nothing_else_is_lost(void **state)
{
	const uint32_t rows = FAR_ROW * 100;
	const struct lost_extent beyond[] = {
		{ rows, 1, 0, 512, 0, 0 },
		{ rows - 2, 3, 0, 512, 0, LOST_HELD },
		{ 5, UINT32_MAX, 0, 512, 1, 0 },
		{ rows + 77, UINT32_MAX, 0, 4096, 2, 0 },
	};
	static struct lost read;
	struct lost_extent good = { 1, 2, 0, 512, 2, 0 };
	uint8_t bytes[512];

	lost_init(&table);
	assert_int_equal(lost_add(&table, &good), 0);
	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		table.entries[3 + i] = beyond[i];
		table.states[3 + i] = LOST_VALID;
	}
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 3);
	assert_true(lost_overlaps(&read, 2, 2, 0, 512));
	assert_true(lost_overlaps(&read, rows - 1, 0, 0, 512));
	assert_true(lost_overlaps(&read, rows - 1, 1, 0, 512));
	assert_true(lost_overlaps(&read, 5, 1, 0, 512));
	assert_int_equal(lost_next_row(&read, rows), UINT64_MAX);
	/* Also where nothing remains it is taken off the members. */
	lost_init(&table);
	table.entries[0] = beyond[0];
	table.states[0] = LOST_VALID;
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 0);
	assert_true(read.dirty[0]);
}

static void
test_a_full_table_says_so_and_is_not_changed(void **state)
{
	static struct lost before;
	struct lost_extent extent = { 0, 3, 0, 4096, 0, 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	crowd(&table, 0);
	assert_int_equal(table.free_count, 0);
	before = table;
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), -ENOSPC);
	assert_memory_equal(&before, &table, sizeof(table));
	extent.row = 5;
	assert_int_equal(lost_add(&table, &extent), -ENOSPC);
	/* what needs no slot works, and makes room when it is durable */
	assert_int_equal(lost_remove(&table, 2, 1, 0, 0, 4096), 0);
	assert_int_equal(lost_remove(&table, FAR_ROW, 10, 0, 0, 512), 0);
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), -ENOSPC);
	write_all(&table);
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), 0);
	assert_false(lost_overlaps(&table, 1, 0, 1024, 2048));
	assert_true(lost_overlaps(&table, 1, 0, 1023, 1025));
}

/* As tests want it.  What members have already is taken in all the same. */
static void
test_a_table_of_small_capacity_is_full_sooner(void **state)
{
	static struct lost read;
	struct lost_extent extent = { 0, 3, 0, 4096, 0, 0 };
	uint8_t bytes[512];

	lost_init(&table);
	table.capacity = 2;
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 5;
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 10;
	assert_int_equal(lost_add(&table, &extent), -ENOSPC);
	/* overwritten in part: for the pieces there is room */
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), 0);
	assert_int_equal(lost_remove(&table, 5, 3, 0, 0, 4096), 0);
	write_all(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	table.capacity = LOST_ENTRIES;
	extent.row = 15;
	assert_int_equal(lost_add(&table, &extent), 0);
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	read.capacity = 1;
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, table.count);
}

/* Members whose tables are of different times: all of what they say counts, and none of it goes
 * before it stands elsewhere.
 */
static void
test_tables_that_contradict_are_united(void **state)
{
	static struct lost other, read;
	uint8_t ours[512], theirs[512];
	uint32_t granule;

	lost_init(&table);
	lost_init(&other);
	for (uint32_t i = 0; i < LAYOUT_LOST_ENTRIES; i++) {
		struct lost_extent extent = { 10 * i, 1, 0, 512, 0, 0 };

		assert_int_equal(lost_add(&table, &extent), 0);
		extent.role = 1;
		assert_int_equal(lost_add(&other, &extent), 0);
	}
	lost_encode(&table, 0, 1, volume_uuid, ours);
	lost_encode(&other, 0, 1, volume_uuid, theirs);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, ours, &geometry));
	assert_true(lost_load(&read, 0, volume_uuid, theirs, &geometry));
	assert_true(lost_load(&read, 0, volume_uuid, theirs, &geometry));
	assert_int_equal(read.count, 2 * LAYOUT_LOST_ENTRIES);
	assert_true(lost_take_dirty(&read, &granule));
	assert_int_equal(granule, 1); /* granule 0 would take `theirs` away */
	assert_false(lost_take_dirty(&read, &granule));
	lost_written(&read);
	assert_true(lost_take_dirty(&read, &granule));
	assert_int_equal(granule, 0);
	lost_written(&read);
	assert_true(lost_settled(&read));
	check_index(&read);
}

/* One member has an extent, the other a larger one in another granule: until all have the larger
 * one, the first is not taken from who has it.
 */
static void
test_what_another_entry_covers_stays_until_that_is_durable(void **state)
{
	static struct lost read;
	struct lost_extent small = { 4, 1, 0, 512, 0, 0 }, large = { 3, 5, 0, 1024, 0, 0 };
	uint8_t ours[512], theirs[512], bytes[512];
	uint32_t granule;

	for (int larger_first = 0; larger_first < 2; larger_first++) {
		lost_init(&table);
		assert_int_equal(lost_add(&table, &small), 0);
		lost_encode(&table, 0, 1, volume_uuid, ours);
		lost_init(&table);
		table.entries[LAYOUT_LOST_ENTRIES] = large;
		table.states[LAYOUT_LOST_ENTRIES] = LOST_VALID;
		lost_encode(&table, 1, 1, volume_uuid, theirs);
		lost_init(&read);
		assert_true(lost_load(&read, (uint32_t)larger_first, volume_uuid,
				      larger_first ? theirs : ours, &geometry));
		assert_true(lost_load(&read, !larger_first, volume_uuid,
				      larger_first ? ours : theirs, &geometry));
		assert_int_equal(read.count, 1);
		assert_int_equal(read.removing, 1);
		lost_encode(&read, 0, 1, volume_uuid, bytes);
		assert_memory_equal(bytes + 16, ours + 16, 24);
		while (lost_take_dirty(&read, &granule))
			;
		lost_written(&read);
		lost_encode(&read, 0, 1, volume_uuid, bytes);
		assert_int_equal(bytes[24], 0);
		assert_true(read.dirty[0]);
		write_all(&read);
		check_index(&read);
	}
}

static void
test_thousands_of_entries_are_looked_up_quickly(void **state)
{
	struct timespec begin, end;
	uint32_t found = 0;

	lost_init(&table);
	crowd(&table, 100);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (uint32_t i = 0; i < 1000000; i++)
		found += lost_overlaps(&table, below(4 * LOST_ENTRIES), 0, 0, 4096);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	double seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	print_message("%.0f ns a look-up in a table of %u\n", seconds * 1000, table.count);
	assert_in_range(found, 200000, 600000);
	/* a walk through all of them takes twice that, sanitized or not */
	assert_true(seconds < 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_neighbours_become_one_entry),
		cmocka_unit_test(test_a_granule_is_as_the_reference_says),
		cmocka_unit_test(test_damaged_and_absurd_granules_are_refused),
		cmocka_unit_test(
			test_what_reaches_behind_the_end_is_cut_there_and_nothing_else_is_lost),
		cmocka_unit_test(test_a_full_table_says_so_and_is_not_changed),
		cmocka_unit_test(test_a_table_of_small_capacity_is_full_sooner),
		cmocka_unit_test(test_tables_that_contradict_are_united),
		cmocka_unit_test(test_what_another_entry_covers_stays_until_that_is_durable),
		cmocka_unit_test(test_thousands_of_entries_are_looked_up_quickly),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}
