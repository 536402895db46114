/* How rows are written: the known cases of 3+1 and 4+2 rows and what is refused.  Every write of
 * small rows, done on real bytes, is in test_plan_bytes.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pure/plan.h"

#define CHUNK 4096u

#define P31 8u /* positions of 3+1 and 4+2, as bits */
#define P42 16u
#define Q42 32u

struct expectation {
	const char *what;
	uint64_t begin, end;
	uint32_t absent;
	enum row_trust trust;
	enum plan_way way;
	uint32_t hull_begin, hull_end;
	int reads, writes;
	bool proves;
};

static const struct expectation three_plus_one[] = {
	{ "whole stripe", 0, 3 * CHUNK, 0, ROW_PROVEN, PLAN_FULL, 0, CHUNK, 0, 4, true },
	{ "one block: both ways read two", 512, 1024, 0, ROW_PROVEN, PLAN_RECONSTRUCT, 512, 1024, 2,
	  2, false },
	{ "one whole chunk", 0, CHUNK, 0, ROW_PROVEN, PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "two whole chunks", 0, 2 * CHUNK, 0, ROW_PROVEN, PLAN_RECONSTRUCT, 0, CHUNK, 1, 3, true },
	{ "a little across a border: fewer bytes decide", CHUNK - 512, CHUNK + 512, 0, ROW_PROVEN,
	  PLAN_RMW, 0, CHUNK, 3, 3, false },
	{ "all but the first and last block", 512, 3 * CHUNK - 512, 0, ROW_PROVEN, PLAN_RECONSTRUCT,
	  0, CHUNK, 2, 4, true },

	{ "suspect: whole stripe", 0, 3 * CHUNK, 0, ROW_SUSPECT, PLAN_FULL, 0, CHUNK, 0, 4, true },
	{ "suspect: one block makes the whole chunk right", 512, 1024, 0, ROW_SUSPECT,
	  PLAN_RECONSTRUCT, 0, CHUNK, 3, 2, true },
	{ "suspect: across a border", CHUNK - 512, CHUNK + 512, 0, ROW_SUSPECT, PLAN_RECONSTRUCT, 0,
	  CHUNK, 3, 3, true },

	{ "parity missing", 512, 2 * CHUNK, P31, ROW_PROVEN, PLAN_DATA_ONLY, 0, 0, 0, 2, false },
	{ "parity missing, suspect", 512, 2 * CHUNK, P31, ROW_SUSPECT, PLAN_DATA_ONLY, 0, 0, 0, 2,
	  false },

	{ "another chunk missing", 512, 1024, 4, ROW_PROVEN, PLAN_RMW, 512, 1024, 2, 2, false },
	{ "two other chunks, whole", 0, 2 * CHUNK, 4, ROW_PROVEN, PLAN_RMW, 0, CHUNK, 3, 3, false },
	{ "missing chunk itself: parity only", 512, 1024, 1, ROW_PROVEN, PLAN_RECONSTRUCT, 512,
	  1024, 2, 1, false },
	{ "missing chunk, whole", 0, CHUNK, 1, ROW_PROVEN, PLAN_RECONSTRUCT, 0, CHUNK, 2, 1, true },
	{ "missing chunk in part, a neighbour too", 512, 2 * CHUNK, 1, ROW_PROVEN, PLAN_READ_ALL, 0,
	  CHUNK, 3, 2, true },
	{ "missing chunk whole, a neighbour in part", 0, CHUNK + 512, 1, ROW_PROVEN,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "missing chunk in the middle", 512, 3 * CHUNK - 512, 2, ROW_PROVEN, PLAN_RECONSTRUCT, 0,
	  CHUNK, 2, 3, true },
	{ "whole stripe, one missing", 0, 3 * CHUNK, 2, ROW_PROVEN, PLAN_FULL, 0, CHUNK, 0, 3,
	  true },

	{ "suspect, another chunk missing", 512, 1024, 4, ROW_SUSPECT, PLAN_DATA_ONLY, 0, 0, 0, 1,
	  false },
	{ "suspect, missing chunk whole: it is known again", 0, CHUNK, 1, ROW_SUSPECT,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 1, true },
	{ "suspect, missing chunk whole, a neighbour in part", 0, CHUNK + 512, 1, ROW_SUSPECT,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "suspect, whole stripe, one missing", 0, 3 * CHUNK, 2, ROW_SUSPECT, PLAN_FULL, 0, CHUNK,
	  0, 3, true },

	{ "defined, missing chunk in part", 512, 1024, 1, ROW_DEFINED, PLAN_READ_ALL, 0, CHUNK, 3,
	  1, true },
};

/* Reads: RMW takes touched + 2, RECONSTRUCT untouched + partial. */
static const struct expectation four_plus_two[] = {
	{ "whole stripe", 0, 4 * CHUNK, 0, ROW_PROVEN, PLAN_FULL, 0, CHUNK, 0, 6, true },
	{ "one block: as many reads", 512, 1024, 0, ROW_PROVEN, PLAN_RECONSTRUCT, 512, 1024, 3, 3,
	  false },
	{ "a little across a border: both ways read four", CHUNK - 512, CHUNK + 512, 0, ROW_PROVEN,
	  PLAN_RMW, 0, CHUNK, 4, 4, false },
	{ "two chunks", 0, 2 * CHUNK, 0, ROW_PROVEN, PLAN_RECONSTRUCT, 0, CHUNK, 2, 4, true },
	{ "Q missing, one block", 512, 1024, Q42, ROW_PROVEN, PLAN_RMW, 512, 1024, 2, 2, false },
	{ "P missing, one block", 512, 1024, P42, ROW_PROVEN, PLAN_RMW, 512, 1024, 2, 2, false },
	{ "both missing", 512, 1024, P42 | Q42, ROW_PROVEN, PLAN_DATA_ONLY, 0, 0, 0, 1, false },
	{ "whole stripe, P and a chunk missing", 0, 4 * CHUNK, P42 | 1, ROW_PROVEN, PLAN_FULL, 0,
	  CHUNK, 0, 4, true },

	{ "another chunk missing", 0, 512, 2, ROW_PROVEN, PLAN_RMW, 0, 512, 3, 3, false },
	{ "all others written: cheaper to make the missing one", 0, 3 * CHUNK, 8, ROW_PROVEN,
	  PLAN_READ_ALL, 0, CHUNK, 4, 5, true },
	{ "... but not with P alone", 0, 3 * CHUNK, 8 | Q42, ROW_PROVEN, PLAN_RMW, 0, CHUNK, 4, 4,
	  false },
	{ "two others missing", 0, 2 * CHUNK, 12, ROW_PROVEN, PLAN_RMW, 0, CHUNK, 4, 4, false },
	{ "missing chunk itself: P and Q only", 512, 1024, 1, ROW_PROVEN, PLAN_RECONSTRUCT, 512,
	  1024, 3, 2, false },
	{ "one of two missing ones", 512, 1024, 3, ROW_PROVEN, PLAN_READ_ALL, 512, 1024, 4, 2,
	  false },
	{ "both missing ones, whole", 0, 2 * CHUNK, 3, ROW_PROVEN, PLAN_RECONSTRUCT, 0, CHUNK, 2, 2,
	  true },
	{ "both missing ones, in part", 512, 2 * CHUNK, 3, ROW_PROVEN, PLAN_READ_ALL, 0, CHUNK, 4,
	  2, true },

	{ "suspect: one block", 512, 1024, 0, ROW_SUSPECT, PLAN_RECONSTRUCT, 0, CHUNK, 4, 3, true },
	{ "suspect, P missing", 0, CHUNK, P42, ROW_SUSPECT, PLAN_RECONSTRUCT, 0, CHUNK, 3, 2,
	  true },
	{ "suspect, P and Q missing", 0, CHUNK, P42 | Q42, ROW_SUSPECT, PLAN_DATA_ONLY, 0, 0, 0, 1,
	  false },
	{ "suspect, two others missing", 0, CHUNK, 12, ROW_SUSPECT, PLAN_DATA_ONLY, 0, 0, 0, 1,
	  false },
	{ "suspect, both missing ones whole", 0, 2 * CHUNK, 3, ROW_SUSPECT, PLAN_RECONSTRUCT, 0,
	  CHUNK, 2, 2, true },

	{ "defined, nothing missing: as suspect", 512, 1024, 0, ROW_DEFINED, PLAN_RECONSTRUCT, 0,
	  CHUNK, 4, 3, true },
	{ "defined, another missing: P tells", 512, 1024, 2, ROW_DEFINED, PLAN_READ_ALL, 0, CHUNK,
	  4, 3, true },
	{ "defined, missing chunk in part", 512, 1024, 1, ROW_DEFINED, PLAN_READ_ALL, 0, CHUNK, 4,
	  2, true },
	{ "defined, missing chunk whole", 0, CHUNK, 1, ROW_DEFINED, PLAN_RECONSTRUCT, 0, CHUNK, 3,
	  2, true },
	{ "defined, whole stripe", 0, 4 * CHUNK, 1, ROW_DEFINED, PLAN_FULL, 0, CHUNK, 0, 5, true },
	{ "defined, P missing: as suspect", 0, CHUNK, P42, ROW_DEFINED, PLAN_RECONSTRUCT, 0, CHUNK,
	  3, 2, true },
};

static struct geometry
make(int level, int members)
{
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, level, members, CHUNK, 512, 64 * CHUNK), 0);
	return geometry;
}

static void
compare(const struct geometry *geometry, const struct expectation *cases, size_t count)
{
	for (const struct expectation *e = cases; e < cases + count; e++) {
		struct row_plan plan;
		int result = plan_row_write(geometry, e->begin, e->end, e->absent, e->trust, NULL,
					    &plan);

		if (result != 0 || plan.way != e->way || plan.reads != e->reads ||
		    plan.writes != e->writes || plan.proves_row != e->proves ||
		    plan.hull.begin != e->hull_begin || plan.hull.end != e->hull_end)
			fail_msg("%s: result %d, way %d, hull %u..%u, %d reads, %d writes, %d",
				 e->what, result, plan.way, plan.hull.begin, plan.hull.end,
				 plan.reads, plan.writes, plan.proves_row);
	}
}

static void
test_plans_of_three_plus_one_are_those_worked_out_by_hand(void **state)
{
	struct geometry geometry = make(5, 4);

	compare(&geometry, three_plus_one, sizeof(three_plus_one) / sizeof(three_plus_one[0]));
}

static void
test_plans_of_four_plus_two_are_those_worked_out_by_hand(void **state)
{
	struct geometry geometry = make(6, 6);

	compare(&geometry, four_plus_two, sizeof(four_plus_two) / sizeof(four_plus_two[0]));
}

static void
test_copies_are_written_where_the_data_is(void **state)
{
	static const struct {
		int level, members;
		uint32_t absent, copies;
		int writes;
	} cases[] = {
		{ 1, 4, 0, 14, 4 }, { 1, 4, 1, 14, 3 }, { 1, 4, 5, 10, 2 }, { 1, 4, 14, 0, 1 },
		{ 10, 5, 0, 2, 2 }, { 10, 5, 1, 2, 1 }, { 10, 5, 2, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int trust = ROW_PROVEN; trust <= ROW_DEFINED; trust++) {
			struct geometry geometry = make(cases[i].level, cases[i].members);
			struct row_plan plan;

			assert_int_equal(plan_row_write(&geometry, 512, 1024, cases[i].absent,
							(enum row_trust)trust, NULL, &plan),
					 0);
			assert_int_equal(plan.way, PLAN_FULL);
			assert_int_equal(plan.reads, 0);
			assert_int_equal(plan.writes, cases[i].writes);
			assert_int_equal(plan.write_redundancy, cases[i].copies);
			assert_int_equal(plan.write[0].begin, 512);
			assert_int_equal(plan.hull.end, 1024);
			assert_false(plan.proves_row);
			assert_int_equal(plan_row_write(&geometry, 0, CHUNK, cases[i].absent,
							(enum row_trust)trust, NULL, &plan),
					 0);
			assert_true(plan.proves_row);
		}
}

static void
test_the_middle_of_a_suspect_chunk_is_read_with_its_surroundings(void **state)
{
	struct geometry geometry = make(5, 4);
	struct row_plan plan;

	assert_int_equal(plan_row_write(&geometry, 512, 1024, 0, ROW_SUSPECT, NULL, &plan), 0);
	for (int chunk = 0; chunk < 3; chunk++) {
		assert_int_equal(plan.read[chunk].begin, 0);
		assert_int_equal(plan.read[chunk].end, CHUNK);
	}
	/* at the edges only the rest of it is */
	assert_int_equal(plan_row_write(&geometry, 0, 1024, 0, ROW_SUSPECT, NULL, &plan), 0);
	assert_int_equal(plan.read[0].begin, 1024);
	assert_int_equal(plan_row_write(&geometry, 1024, CHUNK, 0, ROW_SUSPECT, NULL, &plan), 0);
	assert_int_equal(plan.read[0].end, 1024);
}

static void
test_wide_rows_prefer_read_modify_write(void **state)
{
	static const struct {
		int level, members, touched;
		enum plan_way way;
		int reads;
	} cases[] = {
		{ 5, 5, 1, PLAN_RMW, 2 },	     /* against 3 */
		{ 5, 5, 2, PLAN_RECONSTRUCT, 2 },    /* against 3 */
		{ 5, 6, 2, PLAN_RECONSTRUCT, 3 },    /* against 3, as many bytes */
		{ 5, 7, 2, PLAN_RMW, 3 },	     /* against 4 */
		{ 5, 32, 15, PLAN_RECONSTRUCT, 16 }, /* against 16 */
		{ 5, 32, 14, PLAN_RMW, 15 },	     /* against 17 */
		{ 6, 7, 1, PLAN_RMW, 3 },	     /* against 4 */
		{ 6, 7, 2, PLAN_RECONSTRUCT, 3 },    /* against 4 */
		{ 6, 32, 14, PLAN_RECONSTRUCT, 16 }, /* against 16 */
		{ 6, 32, 13, PLAN_RMW, 15 },	     /* against 17 */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct geometry geometry = make(cases[i].level, cases[i].members);
		struct row_plan plan;

		assert_int_equal(plan_row_write(&geometry, 0, (uint64_t)cases[i].touched * CHUNK, 0,
						ROW_PROVEN, NULL, &plan),
				 0);
		assert_int_equal(plan.way, cases[i].way);
		assert_int_equal(plan.reads, cases[i].reads);
	}
}

static void
test_fewer_reads_count_more_than_fewer_bytes(void **state)
{
	struct geometry geometry = make(5, 5);
	struct row_plan plan;

	/* 3 reads of 11 KiB against 4 of 9 KiB */
	assert_int_equal(
		plan_row_write(&geometry, 512, 2 * CHUNK - 512, 0, ROW_PROVEN, NULL, &plan), 0);
	assert_int_equal(plan.way, PLAN_RMW);
	assert_int_equal(plan.reads, 3);
}

/* Four members, level 5: data at 0, 1, 2, and P. */
static void
test_what_is_known_is_not_read(void **state)
{
	static const struct columns all = { 0, CHUNK }, first = { 0, 512 }, rest = { 512, CHUNK };
	const struct {
		uint64_t begin, end;
		struct columns known[4];
		enum plan_way way;
		uint32_t fetch;
	} cases[] = {
		{ 0, 512, { { 0, 0 } }, PLAN_RECONSTRUCT, 6 },
		{ 0, 512, { [0] = first }, PLAN_RMW, 8 },
		{ 0, 512, { [0] = first, [3] = all }, PLAN_RMW, 0 },
		{ 0, 512, { [0] = rest, [3] = rest }, PLAN_RECONSTRUCT, 6 },
		/* what is known in part must be read */
		{ 0, 1024, { [0] = first, [3] = first }, PLAN_RECONSTRUCT, 6 },
		{ 0, 512, { [1] = all }, PLAN_RECONSTRUCT, 4 },
		{ 0, 512, { [0] = all, [1] = all, [2] = first, [3] = all }, PLAN_RECONSTRUCT, 0 },
		{ CHUNK, 2 * CHUNK, { [0] = all }, PLAN_RECONSTRUCT, 4 },
		{ CHUNK, 2 * CHUNK, { [3] = all }, PLAN_RMW, 2 },
		{ 0, 3 * CHUNK, { [3] = all }, PLAN_FULL, 0 },
	};
	struct geometry geometry = make(5, 4);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct row_plan plan;

		assert_int_equal(plan_row_write(&geometry, cases[i].begin, cases[i].end, 0,
						ROW_PROVEN, cases[i].known, &plan),
				 0);
		if (plan.way != cases[i].way || plan.fetch != cases[i].fetch ||
		    plan.reads != __builtin_popcount(cases[i].fetch))
			fail_msg("case %zu: way %d, fetch %x, reads %d", i, plan.way, plan.fetch,
				 plan.reads);
	}
}

static void
test_refused_writes_leave_the_plan_alone(void **state)
{
	static const struct {
		int level, members;
		uint64_t begin, end;
		uint32_t absent;
		enum row_trust trust;
		int result;
	} cases[] = {
		{ 5, 4, 0, 512, 1, ROW_SUSPECT, -ENODATA },
		{ 5, 4, CHUNK - 512, CHUNK + 512, 2, ROW_SUSPECT, -ENODATA },
		{ 6, 6, 0, 512, 1, ROW_SUSPECT, -ENODATA },
		{ 6, 6, 0, CHUNK, 3, ROW_SUSPECT, -ENODATA }, /* the other one stays unknown */
		{ 6, 6, 0, CHUNK + 512, 3, ROW_SUSPECT, -ENODATA },
		{ 0, 3, CHUNK - 512, CHUNK + 512, 2, ROW_PROVEN, -EIO },
		{ 1, 3, 0, 512, 7, ROW_PROVEN, -EIO },
		{ 10, 4, 0, 512, 3, ROW_SUSPECT, -EIO },
		{ 5, 4, 0, 512, 6, ROW_PROVEN, -EIO },
		{ 5, 4, 0, 3 * CHUNK, 3, ROW_PROVEN, -EIO },
		{ 5, 4, 0, 512, 2 | P31, ROW_SUSPECT, -EIO },
		{ 6, 6, 0, 512, 2 | P42 | Q42, ROW_DEFINED, -EIO },
		{ 6, 6, 0, 4 * CHUNK, 7, ROW_PROVEN, -EIO },
	};
	struct geometry none = make(0, 3);
	struct row_plan plan, before;

	memset(&plan, 0x5a, sizeof(plan));
	before = plan;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct geometry geometry = make(cases[i].level, cases[i].members);
		int result = plan_row_write(&geometry, cases[i].begin, cases[i].end,
					    cases[i].absent, cases[i].trust, NULL, &plan);

		if (result != cases[i].result)
			fail_msg("case %zu: %d", i, result);
		assert_memory_equal(&plan, &before, sizeof(plan));
	}

	assert_int_equal(plan_row_write(&none, 0, CHUNK, 2, ROW_PROVEN, NULL, &plan), 0);
	assert_int_equal(plan.way, PLAN_DATA_ONLY);
	assert_int_equal(plan.writes, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans_of_three_plus_one_are_those_worked_out_by_hand),
		cmocka_unit_test(test_plans_of_four_plus_two_are_those_worked_out_by_hand),
		cmocka_unit_test(test_copies_are_written_where_the_data_is),
		cmocka_unit_test(test_the_middle_of_a_suspect_chunk_is_read_with_its_surroundings),
		cmocka_unit_test(test_wide_rows_prefer_read_modify_write),
		cmocka_unit_test(test_fewer_reads_count_more_than_fewer_bytes),
		cmocka_unit_test(test_what_is_known_is_not_read),
		cmocka_unit_test(test_refused_writes_leave_the_plan_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
