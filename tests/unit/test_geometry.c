/* Where bytes live.  The exhaustive comparison with a slow model is in test_pure_properties.py;
 * here are the picture of geometry.h, the borders and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pure/geometry.h"

#define KIB 1024u

static struct geometry
make(int level, int members, uint64_t rows)
{
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, level, members, 64 * KIB, 512,
				       rows * 64 * KIB), 0);
	return geometry;
}

static void
level_5_stands_as_pictured(void **state)
{
	static const int expected[5][4] = {	/* chunk number, or -1 for parity */
		{ 0, 1, 2, -1 },
		{ 4, 5, -1, 3 },
		{ 8, -1, 6, 7 },
		{ -1, 9, 10, 11 },
		{ 12, 13, 14, -1 },
	};
	struct geometry geometry = make(5, 4, 5);

	for (uint64_t row = 0; row < 5; row++) {
		for (uint8_t member = 0; member < 4; member++) {
			int chunk = geometry_chunk_on_member(&geometry, row, member);

			if (expected[row][member] == -1) {
				assert_int_equal(chunk, -1);
				assert_int_equal(geometry_parity_member(&geometry, row), member);
			} else {
				uint8_t k = (uint8_t)chunk;

				assert_int_equal(chunk, expected[row][member] - 3 * (int)row);
				assert_int_equal(geometry_data_member(&geometry, row, k), member);
			}
		}
	}
}

static void
level_0_does_not_rotate(void **state)
{
	struct geometry geometry = make(0, 3, 7);

	for (uint64_t row = 0; row < 7; row++) {
		assert_int_equal(geometry_parity_member(&geometry, row), -1);
		for (uint8_t chunk = 0; chunk < 3; chunk++) {
			assert_int_equal(geometry_data_member(&geometry, row, chunk), chunk);
			assert_int_equal(geometry_chunk_on_member(&geometry, row, chunk), chunk);
		}
	}
}

static void
init_fills_in_the_derived_fields(void **state)
{
	struct geometry geometry;

	/* 10 chunks and a half of data area */
	assert_int_equal(geometry_init(&geometry, 5, 4, 64 * KIB, 4096, 672 * KIB), 0);
	assert_int_equal(geometry.parities, 1);
	assert_int_equal(geometry.data_chunks, 3);
	assert_int_equal(geometry.rows, 10);
	assert_int_equal(geometry_row_bytes(&geometry), 192 * KIB);
	assert_int_equal(geometry_volume_bytes(&geometry), 1920 * KIB);
}

static void
init_refuses_what_is_out_of_bounds(void **state)
{
	static const struct {
		int level, members;
		uint32_t chunk_bytes, block_bytes;
		uint64_t data_bytes;
	} bad[] = {
		{ 1, 4, 65536, 512, 1 << 20 },
		{ 4, 4, 65536, 512, 1 << 20 },
		{ 6, 4, 65536, 512, 1 << 20 },
		{ -1, 4, 65536, 512, 1 << 20 },
		{ 0, 1, 65536, 512, 1 << 20 },
		{ 0, 33, 65536, 512, 1 << 20 },
		{ 5, 2, 65536, 512, 1 << 20 },
		{ 5, 33, 65536, 512, 1 << 20 },
		{ 5, -4, 65536, 512, 1 << 20 },
		{ 5, 260, 65536, 512, 1 << 20 },
		{ 5, 4, 0, 512, 1 << 20 },
		{ 5, 4, 2048, 512, 1 << 20 },
		{ 5, 4, 65537, 512, 1 << 20 },
		{ 5, 4, 96 * 1024, 512, 1 << 20 },
		{ 5, 4, 2 << 20, 512, 4 << 20 },
		{ 5, 4, 65536, 0, 1 << 20 },
		{ 5, 4, 65536, 1024, 1 << 20 },
		{ 5, 4, 65536, 520, 1 << 20 },
		{ 5, 4, 65536, 512, 65535 },
		{ 5, 4, 65536, 512, 0 },
		{ 5, 4, 65536, 512, (uint64_t)1 << 58 },
		{ 5, 4, 65536, 512, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct geometry geometry, before;

		memset(&geometry, 0x5a, sizeof(geometry));
		before = geometry;
		if (geometry_init(&geometry, bad[i].level, bad[i].members, bad[i].chunk_bytes,
				  bad[i].block_bytes, bad[i].data_bytes) != -EINVAL)
			fail_msg("case %zu was not refused", i);
		assert_memory_equal(&geometry, &before, sizeof(geometry));
	}
}

static void
locate_cuts_at_the_end_of_the_chunk(void **state)
{
	struct geometry geometry = make(5, 4, 5);
	struct extent extent;

	/* 1 KiB before the end of D4, which is chunk 1 of row 1, on member 0 */
	assert_int_equal(geometry_locate(&geometry, 5 * 64 * KIB - KIB, 8 * KIB, &extent), 0);
	assert_int_equal(extent.row, 1);
	assert_int_equal(extent.chunk, 1);
	assert_int_equal(extent.member, 0);
	assert_int_equal(extent.column_bytes, 63 * KIB);
	assert_int_equal(extent.member_offset_bytes, 127 * KIB);
	assert_int_equal(extent.length_bytes, KIB);

	assert_int_equal(geometry_locate(&geometry, 5 * 64 * KIB, 8 * KIB, &extent), 0);
	assert_int_equal(extent.chunk, 2);
	assert_int_equal(extent.member, 1);
	assert_int_equal(extent.length_bytes, 8 * KIB);
}

static void
locate_refuses_what_leaves_the_volume(void **state)
{
	struct geometry geometry = make(0, 2, 3);
	uint64_t volume_bytes = geometry_volume_bytes(&geometry);
	struct extent extent, before;

	memset(&extent, 0x5a, sizeof(extent));
	before = extent;
	assert_int_equal(geometry_locate(&geometry, 0, 0, &extent), -ERANGE);
	assert_int_equal(geometry_locate(&geometry, volume_bytes, 1, &extent), -ERANGE);
	assert_int_equal(geometry_locate(&geometry, volume_bytes - 1, 2, &extent), -ERANGE);
	assert_int_equal(geometry_locate(&geometry, 512, UINT64_MAX, &extent), -ERANGE);
	assert_int_equal(geometry_locate(&geometry, UINT64_MAX, 1, &extent), -ERANGE);
	assert_int_equal(geometry_locate(&geometry, UINT64_MAX, UINT64_MAX, &extent), -ERANGE);
	assert_memory_equal(&extent, &before, sizeof(extent));

	assert_int_equal(geometry_locate(&geometry, volume_bytes - 1, 1, &extent), 0);
	assert_int_equal(extent.length_bytes, 1);
	assert_int_equal(geometry_locate(&geometry, 0, volume_bytes, &extent), 0);
}

static void
largest_volume_does_not_overflow(void **state)
{
	uint64_t data_bytes = ((uint64_t)1 << 58) - 1024 * KIB;
	struct geometry geometry;
	struct extent extent;

	assert_int_equal(geometry_init(&geometry, 0, 32, 1024 * KIB, 512, data_bytes), 0);
	uint64_t volume_bytes = geometry_volume_bytes(&geometry);
	assert_true(volume_bytes == data_bytes * 32);
	assert_int_equal(geometry_locate(&geometry, volume_bytes - 512, 512, &extent), 0);
	assert_int_equal(extent.member, 31);
	assert_true(extent.member_offset_bytes == data_bytes - 512);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(level_5_stands_as_pictured),
		cmocka_unit_test(level_0_does_not_rotate),
		cmocka_unit_test(init_fills_in_the_derived_fields),
		cmocka_unit_test(init_refuses_what_is_out_of_bounds),
		cmocka_unit_test(locate_cuts_at_the_end_of_the_chunk),
		cmocka_unit_test(locate_refuses_what_leaves_the_volume),
		cmocka_unit_test(largest_volume_does_not_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
