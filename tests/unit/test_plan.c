/* How rows are written: the known cases of a 3+1 row, what is refused, and invariants over all
 * writes of small rows.  That the plans work on real bytes and that no other set of reads would be
 * smaller is shown in test_pure_properties.py.
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

/* Row 0 of 3+1: data chunks 0, 1, 2 on members 0, 1, 2; parity on member 3. */
static const struct expectation {
	const char *what;
	uint64_t begin, end;
	int missing;
	bool suspect;
	enum plan_way way;
	uint32_t hull_begin, hull_end;
	int reads, writes;
	bool proves;
} expectations[] = {
	{ "whole stripe", 0, 3 * CHUNK, -1, false, PLAN_FULL, 0, CHUNK, 0, 4, true },
	{ "one block: both ways read two", 512, 1024, -1, false,
	  PLAN_RECONSTRUCT, 512, 1024, 2, 2, false },
	{ "one whole chunk", 0, CHUNK, -1, false, PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "two whole chunks", 0, 2 * CHUNK, -1, false, PLAN_RECONSTRUCT, 0, CHUNK, 1, 3, true },
	{ "a little across a border: fewer bytes decide", CHUNK - 512, CHUNK + 512, -1, false,
	  PLAN_RMW, 0, CHUNK, 3, 3, false },
	{ "all but the first and last block", 512, 3 * CHUNK - 512, -1, false,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 4, true },

	{ "suspect: whole stripe", 0, 3 * CHUNK, -1, true, PLAN_FULL, 0, CHUNK, 0, 4, true },
	{ "suspect: one block makes the whole chunk right", 512, 1024, -1, true,
	  PLAN_RECONSTRUCT, 0, CHUNK, 3, 2, true },
	{ "suspect: across a border", CHUNK - 512, CHUNK + 512, -1, true,
	  PLAN_RECONSTRUCT, 0, CHUNK, 3, 3, true },

	{ "parity missing", 512, 2 * CHUNK, 3, false, PLAN_DATA_ONLY, 0, 0, 0, 2, false },
	{ "parity missing, suspect", 512, 2 * CHUNK, 3, true, PLAN_DATA_ONLY, 0, 0, 0, 2, false },

	{ "another chunk missing", 512, 1024, 2, false, PLAN_RMW, 512, 1024, 2, 2, false },
	{ "two other chunks, whole", 0, 2 * CHUNK, 2, false, PLAN_RMW, 0, CHUNK, 3, 3, false },
	{ "missing chunk itself: parity only", 512, 1024, 0, false,
	  PLAN_RECONSTRUCT, 512, 1024, 2, 1, false },
	{ "missing chunk, whole", 0, CHUNK, 0, false, PLAN_RECONSTRUCT, 0, CHUNK, 2, 1, true },
	{ "missing chunk in part, a neighbour too", 512, 2 * CHUNK, 0, false,
	  PLAN_READ_ALL, 0, CHUNK, 3, 2, false },
	{ "missing chunk whole, a neighbour in part", 0, CHUNK + 512, 0, false,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "missing chunk in the middle", 512, 3 * CHUNK - 512, 1, false,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 3, true },
	{ "whole stripe, one missing", 0, 3 * CHUNK, 1, false, PLAN_FULL, 0, CHUNK, 0, 3, true },

	{ "suspect, another chunk missing", 512, 1024, 2, true, PLAN_DATA_ONLY, 0, 0, 0, 1, false },
	{ "suspect, missing chunk whole: it is known again", 0, CHUNK, 0, true,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 1, true },
	{ "suspect, missing chunk whole, a neighbour in part", 0, CHUNK + 512, 0, true,
	  PLAN_RECONSTRUCT, 0, CHUNK, 2, 2, true },
	{ "suspect, whole stripe, one missing", 0, 3 * CHUNK, 1, true,
	  PLAN_FULL, 0, CHUNK, 0, 3, true },
};

static struct geometry
make(int level, int members)
{
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, level, members, CHUNK, 512, 64 * CHUNK), 0);
	return geometry;
}

static void
known_cases_of_three_plus_one(void **state)
{
	struct geometry geometry = make(5, 4);

	for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		const struct expectation *e = &expectations[i];
		struct row_plan plan;
		int result = plan_row_write(&geometry, 0, e->begin, e->end, e->missing,
					    e->suspect, &plan);

		if (result != 0 || plan.way != e->way || plan.reads != e->reads ||
		    plan.writes != e->writes || plan.proves_row != e->proves ||
		    plan.hull.begin != e->hull_begin || plan.hull.end != e->hull_end)
			fail_msg("%s: result %d, way %d, hull %u..%u, %d reads, %d writes, %d",
				 e->what, result, plan.way, plan.hull.begin, plan.hull.end,
				 plan.reads, plan.writes, plan.proves_row);
	}
}

static void
the_middle_of_a_suspect_chunk_is_read_with_its_surroundings(void **state)
{
	struct geometry geometry = make(5, 4);
	struct row_plan plan;

	assert_int_equal(plan_row_write(&geometry, 0, 512, 1024, -1, true, &plan), 0);
	for (int chunk = 0; chunk < 3; chunk++) {
		assert_int_equal(plan.read[chunk].begin, 0);
		assert_int_equal(plan.read[chunk].end, CHUNK);
	}
	/* at the edges only the rest of it is */
	assert_int_equal(plan_row_write(&geometry, 0, 0, 1024, -1, true, &plan), 0);
	assert_int_equal(plan.read[0].begin, 1024);
	assert_int_equal(plan_row_write(&geometry, 0, 1024, CHUNK, -1, true, &plan), 0);
	assert_int_equal(plan.read[0].end, 1024);
}

static void
wide_rows_prefer_read_modify_write(void **state)
{
	static const struct {
		int members, touched;
		enum plan_way way;
		int reads;
	} cases[] = {
		{ 5, 1, PLAN_RMW, 2 },		/* against 3 */
		{ 5, 2, PLAN_RECONSTRUCT, 2 },	/* against 3 */
		{ 6, 2, PLAN_RECONSTRUCT, 3 },	/* against 3, as many bytes */
		{ 7, 2, PLAN_RMW, 3 },		/* against 4 */
		{ 32, 15, PLAN_RECONSTRUCT, 16 },	/* against 16 */
		{ 32, 14, PLAN_RMW, 15 },	/* against 17 */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct geometry geometry = make(5, cases[i].members);
		struct row_plan plan;

		assert_int_equal(plan_row_write(&geometry, 0, 0, (uint64_t)cases[i].touched * CHUNK,
						-1, false, &plan), 0);
		assert_int_equal(plan.way, cases[i].way);
		assert_int_equal(plan.reads, cases[i].reads);
	}
}

static void
fewer_reads_count_more_than_fewer_bytes(void **state)
{
	struct geometry geometry = make(5, 5);
	struct row_plan plan;

	/* 3 reads of 11 KiB against 4 of 9 KiB */
	assert_int_equal(plan_row_write(&geometry, 0, 512, 2 * CHUNK - 512, -1, false, &plan), 0);
	assert_int_equal(plan.way, PLAN_RMW);
	assert_int_equal(plan.reads, 3);
}

static void
rows_rotate(void **state)
{
	struct geometry geometry = make(5, 4);
	struct row_plan plan;

	/* Row 1 has its parity on member 2 and chunk 0 on member 3. */
	assert_int_equal(plan_row_write(&geometry, 1, 0, 512, 2, false, &plan), 0);
	assert_int_equal(plan.way, PLAN_DATA_ONLY);
	assert_int_equal(plan_row_write(&geometry, 1, 0, 512, 3, true, &plan), -ENODATA);
}

static void
unknowable_writes_are_refused_and_leave_the_plan_alone(void **state)
{
	struct geometry parity = make(5, 4), none = make(0, 3);
	struct row_plan plan, before;

	memset(&plan, 0x5a, sizeof(plan));
	before = plan;
	assert_int_equal(plan_row_write(&parity, 0, 0, 512, 0, true, &plan), -ENODATA);
	assert_int_equal(plan_row_write(&parity, 0, CHUNK - 512, CHUNK + 512, 1, true, &plan),
			 -ENODATA);
	assert_int_equal(plan_row_write(&none, 0, CHUNK - 512, CHUNK + 512, 1, false, &plan),
			 -EIO);
	assert_memory_equal(&plan, &before, sizeof(plan));

	assert_int_equal(plan_row_write(&none, 0, 0, CHUNK, 1, false, &plan), 0);
	assert_int_equal(plan.way, PLAN_DATA_ONLY);
	assert_int_equal(plan.writes, 1);
}

static void
check_shape(const struct geometry *geometry, const struct row_plan *plan, int missing_chunk,
	    uint64_t begin, uint64_t end)
{
	uint64_t written = 0;
	int reads = plan->read_parity, writes = plan->write_parity;

	for (int k = 0; k < IRAID_MEMBERS_MAX; k++) {
		struct columns read = plan->read[k], write = plan->write[k];

		assert_true(read.begin <= read.end && read.end <= geometry->chunk_bytes);
		assert_true(write.begin <= write.end && write.end <= geometry->chunk_bytes);
		if (read.end > read.begin) {
			assert_true(k < geometry->data_chunks && k != missing_chunk);
			assert_true(read.begin >= plan->hull.begin && read.end <= plan->hull.end);
			reads++;
		}
		if (write.end > write.begin) {
			assert_true(k < geometry->data_chunks);
			assert_true((uint64_t)k * geometry->chunk_bytes + write.begin >= begin);
			assert_true((uint64_t)k * geometry->chunk_bytes + write.end <= end);
			if (plan->write_parity) {
				assert_true(write.begin >= plan->hull.begin);
				assert_true(write.end <= plan->hull.end);
			}
			written += write.end - write.begin;
			writes += k != missing_chunk;
		}
	}
	assert_int_equal(written, end - begin);
	assert_int_equal(plan->reads, reads);
	assert_int_equal(plan->writes, writes);
	assert_true(!plan->read_parity || plan->write_parity);
}

/* Every range of blocks of every row of small volumes, every missing member, suspect or not. */
static void
every_plan_of_small_rows_has_a_sound_shape(void **state)
{
	for (int members = 3; members <= 6; members++) {
		struct geometry geometry = make(5, members);
		uint64_t row_bytes = geometry_row_bytes(&geometry);

		for (uint64_t row = 0; row < (uint64_t)members; row++)
		for (int missing = -1; missing < members; missing++)
		for (int suspect = 0; suspect <= 1; suspect++)
		for (uint64_t begin = 0; begin < row_bytes; begin += 1024)
		for (uint64_t end = begin + 1024; end <= row_bytes; end += 1024) {
			struct row_plan plan;
			int chunk = missing < 0 ? -1 :
				geometry_chunk_on_member(&geometry, row, (uint8_t)missing);
			int result = plan_row_write(&geometry, row, begin, end, missing, suspect,
						    &plan);

			if (result == 0) {
				check_shape(&geometry, &plan, chunk, begin, end);
			} else {
				assert_int_equal(result, -ENODATA);
				assert_true(suspect && chunk >= 0);
			}
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_cases_of_three_plus_one),
		cmocka_unit_test(the_middle_of_a_suspect_chunk_is_read_with_its_surroundings),
		cmocka_unit_test(wide_rows_prefer_read_modify_write),
		cmocka_unit_test(fewer_reads_count_more_than_fewer_bytes),
		cmocka_unit_test(rows_rotate),
		cmocka_unit_test(unknowable_writes_are_refused_and_leave_the_plan_alone),
		cmocka_unit_test(every_plan_of_small_rows_has_a_sound_shape),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
