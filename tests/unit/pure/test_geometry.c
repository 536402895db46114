/* Where bytes live: the pictures of geometry.h, the borders, what is refused, and everything there
 * is on small volumes, against slow models.
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
#define CHUNKS_MAX 80u /* on a member of the small volumes */

enum { P = -1, Q = -2 };

static const int levels[] = { 0, 1, 5, 6, 10 };
#define LEVELS ((int)(sizeof(levels) / sizeof(levels[0])))

static struct geometry
make(int level, int members, uint64_t chunks)
{
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, level, members, 64 * KIB, 512, chunks * 64 * KIB),
			 0);
	return geometry;
}

static bool
is_known(int level, int members)
{
	return geometry_fault(level, members) == NULL;
}

/* What a picture has at (row, role): the volume's chunk, P or Q. */
static int
shown(const struct geometry *geometry, uint64_t row, uint8_t role)
{
	int position = geometry_position(geometry, row, role);

	assert_in_range(position, 0, geometry->width - 1);
	if (position == geometry->data_chunks)
		return P;
	if (position == geometry->data_chunks + 1)
		return Q;
	return (int)row * geometry->data_chunks + position;
}

static void
test_level_5_stands_as_pictured(void **state)
{
	static const int expected[5][4] = {
		{ 0, 1, 2, P }, { 4, 5, P, 3 }, { 8, P, 6, 7 }, { P, 9, 10, 11 }, { 12, 13, 14, P },
	};
	struct geometry geometry = make(5, 4, 5);

	for (uint64_t row = 0; row < 5; row++)
		for (uint8_t role = 0; role < 4; role++)
			assert_int_equal(shown(&geometry, row, role), expected[row][role]);
}

static void
test_level_6_stands_as_pictured(void **state)
{
	static const int expected[5][4] = {
		{ Q, 0, 1, P }, { 2, 3, P, Q }, { 5, P, Q, 4 }, { P, Q, 6, 7 }, { Q, 8, 9, P },
	};
	struct geometry geometry = make(6, 4, 5);

	for (uint64_t row = 0; row < 5; row++)
		for (uint8_t role = 0; role < 4; role++)
			assert_int_equal(shown(&geometry, row, role), expected[row][role]);
}

/* md's definition, with its names: pd_idx, qd_idx and dd_idx of a stripe. */
static void
test_levels_5_and_6_are_left_symmetric_as_md_has_it(void **state)
{
	for (int level = 5; level <= 6; level++)
		for (int disks = level - 2; disks <= 32; disks++) {
			struct geometry geometry = make(level, disks, 100);

			for (uint64_t stripe = 0; stripe < 100; stripe++) {
				int pd = disks - 1 - (int)(stripe % (uint64_t)disks);
				int qd = (pd + 1) % disks;
				int data = disks - level + 4;

				assert_int_equal(geometry_role(&geometry, stripe, (uint8_t)data),
						 pd);
				if (level == 6)
					assert_int_equal(geometry_role(&geometry, stripe,
								       (uint8_t)(data + 1)),
							 qd);
				for (int dd = 0; dd < data; dd++)
					assert_int_equal(geometry_role(&geometry, stripe,
								       (uint8_t)dd),
							 (pd + level - 4 + dd) % disks);
			}
		}
}

static void
test_level_10_stands_as_pictured(void **state)
{
	static const int even[3][4] = { { 0, 0, 1, 1 }, { 2, 2, 3, 3 }, { 4, 4, 5, 5 } };
	static const int odd[3][3] = { { 0, 0, 1 }, { 1, 2, 2 }, { 3, 3, 4 } };
	struct geometry four = make(10, 4, 3), three = make(10, 3, 3);
	uint64_t chunk_bytes = 64 * KIB;

	assert_int_equal(four.rows, 6);
	assert_int_equal(three.rows, 4); /* the half chunk is not used */
	for (uint64_t chunk = 0; chunk < 3; chunk++) {
		for (uint8_t role = 0; role < 4; role++) {
			uint64_t row = (uint64_t)even[chunk][role];

			assert_true(geometry_position(&four, row, role) >= 0);
			assert_int_equal(geometry_offset(&four, row, role), chunk * chunk_bytes);
		}
		for (uint8_t role = 0; role < 3; role++) {
			uint64_t row = (uint64_t)odd[chunk][role];

			if (row == three.rows)
				continue;
			assert_true(geometry_position(&three, row, role) >= 0);
			assert_int_equal(geometry_offset(&three, row, role), chunk * chunk_bytes);
		}
	}
	assert_int_equal(geometry_position(&four, 0, 2), -1);
	assert_int_equal(geometry_position(&four, 3, 1), -1);
	assert_int_equal(geometry_position(&three, 1, 1), -1);
	/* the first copy of row 1 is before the second in the order of slots, not of roles */
	assert_int_equal(geometry_position(&three, 1, 2), 0);
	assert_int_equal(geometry_position(&three, 1, 0), 1);
}

static void
test_levels_0_and_1_do_not_rotate(void **state)
{
	for (int level = 0; level <= 1; level++) {
		struct geometry geometry = make(level, 3, 7);

		for (uint64_t row = 0; row < 7; row++)
			for (uint8_t i = 0; i < 3; i++) {
				assert_int_equal(geometry_role(&geometry, row, i), i);
				assert_int_equal(geometry_position(&geometry, row, i), i);
			}
	}
}

static void
test_init_fills_in_the_derived_fields(void **state)
{
	static const struct {
		int level, members, width, data_chunks, redundancy, tolerated, rows;
	} expected[] = {
		/* 10 chunks and a half of data area */
		{ 0, 2, 2, 2, 0, 0, 10 },  { 0, 32, 32, 32, 0, 0, 10 }, { 1, 2, 2, 1, 1, 1, 10 },
		{ 1, 4, 4, 1, 3, 3, 10 },  { 5, 3, 3, 2, 1, 1, 10 },	{ 5, 32, 32, 31, 1, 1, 10 },
		{ 6, 4, 4, 2, 2, 2, 10 },  { 6, 32, 32, 30, 2, 2, 10 }, { 10, 3, 2, 1, 1, 1, 15 },
		{ 10, 4, 2, 1, 1, 1, 20 }, { 10, 32, 2, 1, 1, 1, 160 },
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct geometry geometry;

		assert_int_equal(geometry_init(&geometry, expected[i].level, expected[i].members,
					       64 * KIB, 4096, 672 * KIB),
				 0);
		assert_int_equal(geometry.level, expected[i].level);
		assert_int_equal(geometry.members, expected[i].members);
		assert_int_equal(geometry.width, expected[i].width);
		assert_int_equal(geometry.data_chunks, expected[i].data_chunks);
		assert_int_equal(geometry.redundancy, expected[i].redundancy);
		assert_int_equal(geometry.rows, expected[i].rows);
		assert_int_equal(geometry.chunk_bytes, 64 * KIB);
		assert_int_equal(geometry.block_bytes, 4096);
		assert_int_equal(geometry_tolerated(&geometry), expected[i].tolerated);
		assert_int_equal(geometry_row_bytes(&geometry),
				 (uint64_t)expected[i].data_chunks * 64 * KIB);
		assert_int_equal(geometry_volume_bytes(&geometry),
				 (uint64_t)expected[i].rows * (uint64_t)expected[i].data_chunks *
					 64 * KIB);
	}
}

static void
test_init_refuses_what_is_out_of_bounds(void **state)
{
	static const struct {
		int level, members;
		uint32_t chunk_bytes, block_bytes;
		uint64_t data_bytes;
	} bad[] = {
		{ 2, 4, 65536, 512, 1 << 20 },
		{ 4, 4, 65536, 512, 1 << 20 },
		{ 7, 4, 65536, 512, 1 << 20 },
		{ 256, 4, 65536, 512, 1 << 20 },
		{ -1, 4, 65536, 512, 1 << 20 },
		{ 0, 1, 65536, 512, 1 << 20 },
		{ 0, 33, 65536, 512, 1 << 20 },
		{ 1, 1, 65536, 512, 1 << 20 },
		{ 1, 5, 65536, 512, 1 << 20 },
		{ 5, 2, 65536, 512, 1 << 20 },
		{ 5, 33, 65536, 512, 1 << 20 },
		{ 5, -4, 65536, 512, 1 << 20 },
		{ 5, 260, 65536, 512, 1 << 20 },
		{ 6, 3, 65536, 512, 1 << 20 },
		{ 6, 33, 65536, 512, 1 << 20 },
		{ 10, 2, 65536, 512, 1 << 20 },
		{ 10, 33, 65536, 512, 1 << 20 },
		{ 5, 4, 0, 512, 1 << 20 },
		{ 5, 4, 2048, 512, 1 << 20 },
		{ 5, 4, 65537, 512, 1 << 20 },
		{ 5, 4, 96 * 1024, 512, 1 << 20 },
		{ 5, 4, 2 << 20, 512, 4 << 20 },
		{ 5, 4, 65536, 0, 1 << 20 },
		{ 5, 4, 65536, 1024, 1 << 20 },
		{ 5, 4, 65536, 520, 1 << 20 },
		{ 5, 4, 65536, 512, 65535 },
		{ 10, 4, 65536, 512, 65535 },
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
test_faults_name_the_level_and_its_range(void **state)
{
	assert_string_equal(geometry_fault(0, 1), "level 0 needs 2 to 32 members");
	assert_string_equal(geometry_fault(1, 5), "level 1 needs 2 to 4 members");
	assert_string_equal(geometry_fault(5, 2), "level 5 needs 3 to 32 members");
	assert_string_equal(geometry_fault(6, 33), "level 6 needs 4 to 32 members");
	assert_string_equal(geometry_fault(10, 2), "level 10 needs 3 to 32 members");
	assert_string_equal(geometry_fault(3, 4), "the level must be 0, 1, 5, 6 or 10");
	assert_null(geometry_fault(0, 2));
	assert_null(geometry_fault(1, 4));
	assert_null(geometry_fault(5, 3));
	assert_null(geometry_fault(6, 4));
	assert_null(geometry_fault(10, 3));
	assert_null(geometry_fault(10, 32));
}

static void
test_role_and_position_are_inverse(void **state)
{
	for (int i = 0; i < LEVELS; i++)
		for (int members = 2; members <= 32; members++) {
			if (!is_known(levels[i], members))
				continue;
			struct geometry geometry = make(levels[i], members, CHUNKS_MAX);

			for (uint64_t row = 0; row < geometry.rows && row < 100; row++) {
				int there = 0;

				for (uint8_t position = 0; position < geometry.width; position++) {
					uint8_t role = geometry_role(&geometry, row, position);

					assert_true(role < members);
					assert_int_equal(geometry_position(&geometry, row, role),
							 position);
				}
				for (uint8_t role = 0; role < members; role++) {
					int position = geometry_position(&geometry, row, role);
					uint32_t positions =
						geometry_positions(&geometry, row, 1u << role);

					assert_true(position >= -1 && position < geometry.width);
					assert_true(positions ==
						    (position < 0 ? 0 : 1u << position));
					there += position >= 0;
				}
				/* so copies and redundancy are on distinct members */
				assert_int_equal(there, geometry.width);
				assert_true(geometry_positions(&geometry, row, UINT32_MAX) ==
					    UINT32_MAX >> (32 - geometry.width));
				assert_true(geometry_positions(&geometry, row, 0) == 0);
			}
		}
}

static void
test_every_chunk_of_every_member_is_used_once(void **state)
{
	static uint8_t used[IRAID_MEMBERS_MAX][CHUNKS_MAX];

	for (int i = 0; i < LEVELS; i++)
		for (int members = 2; members <= 32; members++)
			for (uint64_t chunks = 1; chunks <= CHUNKS_MAX;
			     chunks += chunks < 9 ? 1 : 71) {
				if (!is_known(levels[i], members))
					continue;
				struct geometry geometry = make(levels[i], members, chunks);
				int unused = 0;

				memset(used, 0, sizeof(used));
				for (uint64_t row = 0; row < geometry.rows; row++)
					for (uint8_t position = 0; position < geometry.width;
					     position++) {
						uint8_t role =
							geometry_role(&geometry, row, position);
						uint64_t offset =
							geometry_offset(&geometry, row, role);

						assert_int_equal(offset % (64 * KIB), 0);
						assert_true(offset / (64 * KIB) < chunks);
						assert_int_equal(used[role][offset / (64 * KIB)]++,
								 0);
					}
				for (int role = 0; role < members; role++)
					for (uint64_t chunk = 0; chunk < chunks; chunk++)
						unused += used[role][chunk] == 0;
				assert_int_equal(unused,
						 levels[i] == 10 && members * (int)chunks % 2 == 1);
			}
}

static void
test_extents_cover_the_volume(void **state)
{
	static const uint32_t wanted[] = { 512, 3 * 512, 64 * KIB, 65 * KIB, 7 * 64 * KIB };

	for (int i = 0; i < LEVELS; i++)
		for (int members = 2; members <= 9; members++)
			for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
				if (!is_known(levels[i], members))
					continue;
				struct geometry geometry = make(levels[i], members, 11);
				uint64_t size = geometry_volume_bytes(&geometry), at = 0;

				while (at < size) {
					uint64_t length =
						size - at < wanted[w] ? size - at : wanted[w];
					uint64_t number = at / (64 * KIB);
					struct extent extent;

					assert_int_equal(
						geometry_locate(&geometry, at, length, &extent), 0);
					assert_int_equal(extent.row, number / geometry.data_chunks);
					assert_int_equal(extent.chunk,
							 number % geometry.data_chunks);
					assert_int_equal(extent.column_bytes, at % (64 * KIB));
					assert_int_equal(extent.role,
							 geometry_role(&geometry, extent.row,
								       extent.chunk));
					assert_int_equal(extent.member_offset_bytes,
							 geometry_offset(&geometry, extent.row,
									 extent.role) +
								 extent.column_bytes);
					uint64_t left = 64 * KIB - extent.column_bytes;
					assert_int_equal(extent.length_bytes,
							 length < left ? length : left);
					at += extent.length_bytes;
				}
				assert_int_equal(at, size);
			}
}

/* A loss is borne if in every row as many chunks as it has data are left. */
static bool
bears_by_rows(const struct geometry *geometry, uint32_t roles)
{
	for (uint64_t row = 0; row < geometry->rows; row++) {
		int there = 0;

		for (uint8_t role = 0; role < geometry->members; role++)
			there += geometry_position(geometry, row, role) >= 0 &&
				 (roles >> role & 1) == 0;
		if (there < geometry->data_chunks)
			return false;
	}
	return true;
}

static void
test_what_is_borne_is_what_every_row_bears(void **state)
{
	for (int i = 0; i < LEVELS; i++)
		for (int members = 2; members <= 8; members++)
			for (uint64_t chunks = 1; chunks <= 20; chunks += chunks < 4 ? 1 : 8) {
				if (!is_known(levels[i], members))
					continue;
				struct geometry geometry = make(levels[i], members, chunks);

				for (uint32_t roles = 0; roles < 1u << members; roles++) {
					bool borne = bears_by_rows(&geometry, roles);

					if (geometry_bears(&geometry, roles) != borne)
						fail_msg("level %d, %d members, %x", levels[i],
							 members, roles);
					if (__builtin_popcount(roles) <=
					    geometry_tolerated(&geometry))
						assert_true(borne);
				}
			}
}

static void
test_level_10_bears_one_of_each_pair(void **state)
{
	struct geometry even = make(10, 32, 40), odd = make(10, 31, 40);

	assert_true(geometry_bears(&even, 0x55555555u));
	assert_true(geometry_bears(&even, 0xaaaaaaaau));
	assert_true(geometry_bears(&even, 0x66666666u)); /* 1 and 2 are of two pairs */
	assert_false(geometry_bears(&even, 0xc0000000u));
	/* with an odd number neighbours share rows all round */
	assert_false(geometry_bears(&odd, 6u));
	assert_false(geometry_bears(&odd, 1u | 1u << 30));
	assert_true(geometry_bears(&odd, 0x15555555u));
	/* ... but not in a volume so small that its one row is on 0 and 1 */
	struct geometry tiny = make(10, 3, 1);
	assert_true(geometry_bears(&tiny, 6u));
	assert_false(geometry_bears(&tiny, 3u));
}

static void
test_locate_cuts_at_the_end_of_the_chunk(void **state)
{
	struct geometry geometry = make(5, 4, 5);
	struct extent extent;

	/* 1 KiB before the end of D4, which is chunk 1 of row 1, on member 0 */
	assert_int_equal(geometry_locate(&geometry, 5 * 64 * KIB - KIB, 8 * KIB, &extent), 0);
	assert_int_equal(extent.row, 1);
	assert_int_equal(extent.chunk, 1);
	assert_int_equal(extent.role, 0);
	assert_int_equal(extent.column_bytes, 63 * KIB);
	assert_int_equal(extent.member_offset_bytes, 127 * KIB);
	assert_int_equal(extent.length_bytes, KIB);

	assert_int_equal(geometry_locate(&geometry, 5 * 64 * KIB, 8 * KIB, &extent), 0);
	assert_int_equal(extent.chunk, 2);
	assert_int_equal(extent.role, 1);
	assert_int_equal(extent.length_bytes, 8 * KIB);
}

static void
test_locate_refuses_what_leaves_the_volume(void **state)
{
	for (int i = 0; i < LEVELS; i++) {
		struct geometry geometry = make(levels[i], levels[i] == 6 ? 4 : 3, 3);
		uint64_t size = geometry_volume_bytes(&geometry);
		struct extent extent, before;

		memset(&extent, 0x5a, sizeof(extent));
		before = extent;
		assert_int_equal(geometry_locate(&geometry, 0, 0, &extent), -ERANGE);
		assert_int_equal(geometry_locate(&geometry, size, 1, &extent), -ERANGE);
		assert_int_equal(geometry_locate(&geometry, size - 1, 2, &extent), -ERANGE);
		assert_int_equal(geometry_locate(&geometry, 512, UINT64_MAX, &extent), -ERANGE);
		assert_int_equal(geometry_locate(&geometry, UINT64_MAX, 1, &extent), -ERANGE);
		assert_int_equal(geometry_locate(&geometry, UINT64_MAX, UINT64_MAX, &extent),
				 -ERANGE);
		assert_memory_equal(&extent, &before, sizeof(extent));

		assert_int_equal(geometry_locate(&geometry, size - 1, 1, &extent), 0);
		assert_int_equal(extent.length_bytes, 1);
		assert_int_equal(geometry_locate(&geometry, 0, size, &extent), 0);
	}
}

static void
test_largest_volumes_do_not_overflow(void **state)
{
	uint64_t data_bytes = ((uint64_t)1 << 58) - 1024 * KIB;
	static const uint64_t data_members[] = { 32, 1, 31, 30, 16 };

	for (int i = 0; i < LEVELS; i++) {
		struct geometry geometry;
		struct extent extent;
		int members = levels[i] == 1 ? 4 : 32;

		assert_int_equal(
			geometry_init(&geometry, levels[i], members, 4 * KIB, 512, data_bytes), 0);
		uint64_t volume_bytes = geometry_volume_bytes(&geometry);
		assert_true(volume_bytes == data_bytes * data_members[i]);
		assert_int_equal(geometry_locate(&geometry, volume_bytes - 512, 512, &extent), 0);
		assert_true(extent.member_offset_bytes == data_bytes - 512);
		assert_int_equal(geometry_position(&geometry, extent.row, extent.role),
				 geometry.data_chunks - 1);
	}
}

/* The fewest that run, none of these among them, by trying all. */
static int
fewest_of_all(const struct geometry *geometry, uint32_t out)
{
	const uint32_t all = geometry_lowest(geometry->members);
	int fewest = geometry->members;

	for (uint32_t set = 0; set <= all; set++)
		if ((set & out) == 0 && geometry_bears(geometry, all & ~set) &&
		    __builtin_popcount(set) < fewest)
			fewest = __builtin_popcount(set);
	return fewest;
}

/* Of any set with which the volume could run. */
static void
check_quorum(const struct geometry *geometry, uint32_t out)
{
	const uint32_t all = geometry_lowest(geometry->members);
	const int quorum = geometry_quorum(geometry, out),
		  there = geometry->members - __builtin_popcount(out);

	assert_int_equal(geometry_least(geometry, out), fewest_of_all(geometry, out));
	assert_true(quorum >= geometry_least(geometry, out) && quorum <= there);
	assert_true(2 * quorum > there);
	/* who goes makes no more members necessary to meet every quorum */
	for (int role = 0; role < geometry->members; role++)
		if (!(out >> role & 1) && geometry_bears(geometry, out | 1u << role))
			assert_true(there - 1 - geometry_quorum(geometry, out | 1u << role) <=
				    there - quorum);
	/* what is left of a quorum's members does not run */
	for (uint32_t set = 0; set <= all; set++)
		if ((set & out) == 0 && __builtin_popcount(set) == quorum)
			assert_false(geometry_bears(geometry, set | out));
}

static void
test_a_quorum_meets_every_set_that_could_run(void **state)
{
	static const struct {
		int level, from, to;
	} shapes[] = { { 0, 2, 5 }, { 1, 2, 4 }, { 5, 3, 7 }, { 6, 4, 8 }, { 10, 3, 8 } };
	struct geometry geometry;

	(void)state;
	for (int i = 0; i < 5; i++)
		for (int members = shapes[i].from; members <= shapes[i].to; members++) {
			assert_int_equal(geometry_init(&geometry, shapes[i].level, members, 65536,
						       512, 64ull << 20),
					 0);
			for (uint32_t out = 0; out < 1u << members; out++)
				if (geometry_bears(&geometry, out))
					check_quorum(&geometry, out);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_level_5_stands_as_pictured),
		cmocka_unit_test(test_level_6_stands_as_pictured),
		cmocka_unit_test(test_levels_5_and_6_are_left_symmetric_as_md_has_it),
		cmocka_unit_test(test_level_10_stands_as_pictured),
		cmocka_unit_test(test_levels_0_and_1_do_not_rotate),
		cmocka_unit_test(test_init_fills_in_the_derived_fields),
		cmocka_unit_test(test_init_refuses_what_is_out_of_bounds),
		cmocka_unit_test(test_faults_name_the_level_and_its_range),
		cmocka_unit_test(test_role_and_position_are_inverse),
		cmocka_unit_test(test_every_chunk_of_every_member_is_used_once),
		cmocka_unit_test(test_extents_cover_the_volume),
		cmocka_unit_test(test_what_is_borne_is_what_every_row_bears),
		cmocka_unit_test(test_level_10_bears_one_of_each_pair),
		cmocka_unit_test(test_locate_cuts_at_the_end_of_the_chunk),
		cmocka_unit_test(test_locate_refuses_what_leaves_the_volume),
		cmocka_unit_test(test_largest_volumes_do_not_overflow),
		cmocka_unit_test(test_a_quorum_meets_every_set_that_could_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
