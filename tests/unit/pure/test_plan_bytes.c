/* Every write of small rows, and some of wide ones, done as planned on bytes in memory.  A chunk's
 * columns are few cells; a plan's offsets are whole cells because the write's are.  What was not
 * read is not known, and using it fails the test.  That no set of reads is smaller is tried out by
 * linear algebra.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "pure/code.h"
#include "pure/plan.h"
#include "row_algebra.h"

#define CHUNK 4096u
#define CELLS 4u	     /* of a chunk */
#define CELL (CHUNK / CELLS) /* bytes of a chunk that a cell stands for */
#define WORD 8u		     /* bytes that are kept of a cell */
#define KEPT (CELLS * WORD)
#define WIDTH_MAX IRAID_MEMBERS_MAX

static const struct shape {
	int level, members_min, members_max;
} shapes[] = { { 0, 2, 4 }, { 1, 2, 4 }, { 5, 3, 7 }, { 6, 4, 7 }, { 10, 3, 4 } };

struct bytes {
	uint8_t of[KEPT];
	bool known[CELLS];
};

struct scene {
	struct geometry geometry;
	uint64_t begin, end;
	uint32_t absent;
	enum row_trust trust;
	struct row_plan plan;
	uint8_t before[WIDTH_MAX][KEPT]; /* what the members hold */
	uint8_t after[WIDTH_MAX][KEPT];
	uint8_t meant[WIDTH_MAX][KEPT]; /* data before the write; then what it should be */
	uint8_t fresh[WIDTH_MAX][KEPT]; /* what is written, by data chunk */
};

static struct scene scene;
static uint64_t random_state = 88172645463325252u;

static uint32_t
random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 24);
}

static void
randomize(uint8_t *bytes, size_t count)
{
	while (count > 0)
		bytes[--count] = (uint8_t)random_number();
}

static void
encode(const struct geometry *geometry, uint8_t row[WIDTH_MAX][KEPT])
{
	for (int position = geometry->data_chunks; position < geometry->width; position++) {
		memset(row[position], 0, KEPT);
		for (int k = 0; k < geometry->data_chunks; k++)
			for (size_t at = 0; at < KEPT; at++)
				row[position][at] ^=
					products[factor(geometry, position, k)][row[k][at]];
	}
}

static void
make_absent(const struct geometry *geometry, uint32_t wanted, uint32_t absent,
	    uint8_t row[WIDTH_MAX][KEPT])
{
	void *chunks[WIDTH_MAX];

	for (int i = 0; i < geometry->width; i++)
		chunks[i] = row[i];
	if (wanted != 0)
		code_make(geometry, wanted, absent, chunks, KEPT);
}

static unsigned int
cell_of(uint32_t column)
{
	assert_int_equal(column % CELL, 0);
	assert_true(column <= CHUNK);
	return column / CELL;
}

#define FOR_CELLS(cell, columns)                                                                   \
	for (unsigned int cell = cell_of((columns).begin); cell < cell_of((columns).end); cell++)

static void
take(struct bytes *out, int position, struct columns columns)
{
	FOR_CELLS(cell, columns)
	{
		assert_false(has(scene.absent, position));
		memcpy(out->of + cell * WORD, scene.before[position] + cell * WORD, WORD);
		out->known[cell] = true;
	}
}

/* Read what the plan says; all else is rubbish. */
static void
read_as_planned(struct bytes *old)
{
	const struct geometry *geometry = &scene.geometry;
	const struct row_plan *plan = &scene.plan;

	for (int i = 0; i < geometry->width; i++) {
		randomize(old[i].of, KEPT);
		memset(old[i].known, 0, sizeof(old[i].known));
		if (i < geometry->data_chunks)
			take(&old[i], i, plan->read[i]);
		else if (has(plan->read_redundancy, i))
			take(&old[i], i, plan->hull);
	}
}

static void
make_as_planned(struct bytes *old)
{
	uint8_t row[WIDTH_MAX][KEPT];
	const struct geometry *geometry = &scene.geometry;
	uint32_t sources = code_sources(geometry, scene.plan.make, scene.absent);

	for (int i = 0; i < geometry->width; i++) {
		memcpy(row[i], old[i].of, KEPT);
		if (has(sources, i))
			FOR_CELLS(cell, scene.plan.hull)
		assert_true(old[i].known[cell]);
	}
	make_absent(geometry, scene.plan.make, scene.absent, row);
	for (int i = 0; i < geometry->data_chunks; i++) {
		if (!has(scene.plan.make, i))
			continue;
		assert_true(has(scene.absent, i));
		memcpy(old[i].of, row[i], KEPT);
		FOR_CELLS(cell, scene.plan.hull)
		old[i].known[cell] = true;
	}
}

/* FULL, RECONSTRUCT, READ_ALL: from all data on the hull, new bytes winning. */
static void
redundancy_from_data(struct bytes *old)
{
	uint8_t row[WIDTH_MAX][KEPT];
	const struct geometry *geometry = &scene.geometry;

	memset(row, 0, sizeof(row));
	for (int k = 0; k < geometry->data_chunks; k++) {
		FOR_CELLS(cell, scene.plan.write[k])
		{
			memcpy(old[k].of + cell * WORD, scene.fresh[k] + cell * WORD, WORD);
			old[k].known[cell] = true;
		}
		FOR_CELLS(cell, scene.plan.hull)
		assert_true(old[k].known[cell]);
		memcpy(row[k], old[k].of, KEPT);
	}
	encode(geometry, row);
	for (int i = geometry->data_chunks; i < geometry->width; i++)
		if (has(scene.plan.write_redundancy, i))
			FOR_CELLS(cell, scene.plan.hull)
	memcpy(scene.after[i] + cell * WORD, row[i] + cell * WORD, WORD);
}

static void
redundancy_from_differences(const struct bytes *old)
{
	const struct geometry *geometry = &scene.geometry;

	for (int i = geometry->data_chunks; i < geometry->width; i++) {
		if (!has(scene.plan.write_redundancy, i))
			continue;
		FOR_CELLS(cell, scene.plan.hull)
		assert_true(old[i].known[cell]);
		for (int k = 0; k < geometry->data_chunks; k++)
			FOR_CELLS(cell, scene.plan.write[k])
			{
				assert_true(old[k].known[cell]);
				for (size_t at = cell * WORD; at < (cell + 1) * WORD; at++)
					scene.after[i][at] ^=
						products[factor(geometry, i, k)]
							[old[k].of[at] ^ scene.fresh[k][at]];
			}
	}
}

static void
do_as_planned(void)
{
	struct bytes old[WIDTH_MAX];

	memcpy(scene.after, scene.before, sizeof(scene.after));
	read_as_planned(old);
	if (scene.plan.way == PLAN_READ_ALL)
		make_as_planned(old);
	else
		assert_int_equal(scene.plan.make, 0);

	switch (scene.plan.way) {
	case PLAN_DATA_ONLY:
		assert_int_equal(scene.plan.write_redundancy, 0);
		break;
	case PLAN_RMW:
		redundancy_from_differences(old);
		break;
	case PLAN_FULL:
		assert_int_equal(scene.plan.reads, 0);
		/* fall through */
	case PLAN_RECONSTRUCT:
	case PLAN_READ_ALL:
		redundancy_from_data(old);
		break;
	}
	for (int k = 0; k < scene.geometry.data_chunks; k++)
		if (!has(scene.absent, k))
			FOR_CELLS(cell, scene.plan.write[k])
	memcpy(scene.after[k] + cell * WORD, scene.fresh[k] + cell * WORD, WORD);
}

/* What is read and written stays inside of hull, chunks and range, and is counted right. */
static void
check_shape(void)
{
	const struct geometry *geometry = &scene.geometry;
	const struct row_plan *plan = &scene.plan;
	const uint32_t data = UINT32_MAX >> (32 - geometry->data_chunks);
	const uint32_t behind = UINT32_MAX >> (32 - geometry->width) & ~data;
	int reads = __builtin_popcount(plan->read_redundancy);
	int writes = __builtin_popcount(plan->write_redundancy);
	uint64_t written = 0;

	assert_int_equal(plan->read_redundancy & (scene.absent | ~behind), 0);
	assert_int_equal(plan->write_redundancy & (scene.absent | ~behind), 0);
	for (int k = 0; k < IRAID_MEMBERS_MAX; k++) {
		struct columns read = plan->read[k], write = plan->write[k];

		assert_true(read.begin <= read.end && write.begin <= write.end);
		if (read.end > read.begin) {
			assert_true(k < geometry->data_chunks && !has(scene.absent, k));
			assert_true(read.begin >= plan->hull.begin && read.end <= plan->hull.end);
			reads++;
		}
		if (write.end > write.begin) {
			assert_true(k < geometry->data_chunks);
			assert_true((uint64_t)k * CHUNK + write.begin >= scene.begin);
			assert_true((uint64_t)k * CHUNK + write.end <= scene.end);
			if (plan->way != PLAN_DATA_ONLY)
				assert_true(write.begin >= plan->hull.begin &&
					    write.end <= plan->hull.end);
			written += write.end - write.begin;
			writes += !has(scene.absent, k);
		}
	}
	assert_int_equal(written, scene.end - scene.begin);
	assert_int_equal(plan->reads, reads);
	assert_int_equal(plan->writes, writes);
	if (plan->way == PLAN_DATA_ONLY)
		assert_true(plan->hull.begin == plan->hull.end);
	if (plan->way == PLAN_FULL)
		for (int k = 0; k < geometry->data_chunks; k++)
			assert_memory_equal(&plan->write[k], &plan->hull, sizeof(plan->hull));
}

/* The members' chunks before the write.  Rows that are not proven hold rubbish behind the data;
 * `fits` says otherwise.  meant: what reads returned, which for an absent chunk is what the others
 * make it.
 */
static void
lay_out(bool fits)
{
	const struct geometry *geometry = &scene.geometry;
	uint8_t row[WIDTH_MAX][KEPT];

	randomize(&scene.before[0][0], sizeof(scene.before));
	randomize(&scene.fresh[0][0], sizeof(scene.fresh));
	if (fits)
		encode(geometry, scene.before);
	memcpy(row, scene.before, sizeof(row));
	make_absent(geometry, scene.absent & (UINT32_MAX >> (32 - geometry->data_chunks)),
		    scene.absent, row);
	memcpy(scene.meant, row, sizeof(scene.meant));
	for (int i = 0; i < geometry->width; i++) /* nobody may look */
		if (has(scene.absent, i))
			randomize(scene.before[i], KEPT);
	for (uint64_t at = scene.begin; at < scene.end; at += CELL) {
		size_t cell = at % CHUNK / CELL * WORD;

		memcpy(scene.meant[at / CHUNK] + cell, scene.fresh[at / CHUNK] + cell, WORD);
	}
	encode(geometry, scene.meant);
}

static void
fail_scene(const char *what, int position)
{
	fail_msg("%s, chunk %d: level %d, width %d, [%u, %u), absent %x, trust %d, way %d", what,
		 position, scene.geometry.level, scene.geometry.width, (unsigned int)scene.begin,
		 (unsigned int)scene.end, scene.absent, scene.trust, scene.plan.way);
}

/* everything: P, Q, copies and absent chunks are right too, not only the data that is there. */
static void
check_outcome(bool everything)
{
	const struct geometry *geometry = &scene.geometry;
	uint8_t row[WIDTH_MAX][KEPT];

	for (int i = 0; i < geometry->width; i++) {
		if (has(scene.absent, i)) {
			if (memcmp(scene.after[i], scene.before[i], KEPT) != 0)
				fail_scene("an absent chunk was written", i);
		} else if (i < geometry->data_chunks || everything) {
			if (memcmp(scene.after[i], scene.meant[i], KEPT) != 0)
				fail_scene("wrong on its member", i);
		}
	}
	if (!everything || geometry->redundancy == 0)
		return;
	memcpy(row, scene.after, sizeof(row));
	make_absent(geometry, scene.absent, scene.absent, row);
	for (int i = 0; i < geometry->width; i++)
		if (memcmp(row[i], scene.meant[i], KEPT) != 0)
			fail_scene("reads wrong", i);
}

/* Do the chunks that are there fit each other, what is absent being what they make it? */
static bool
fits_now(void)
{
	uint8_t row[WIDTH_MAX][KEPT], again[WIDTH_MAX][KEPT];
	const struct geometry *geometry = &scene.geometry;

	memcpy(row, scene.after, sizeof(row));
	make_absent(geometry, scene.absent, scene.absent, row);
	memcpy(again, row, sizeof(row));
	encode(geometry, again);
	return memcmp(row, again, sizeof(row[0]) * geometry->width) == 0;
}

/* The data chunks that are written at a column. */
static uint32_t
written_at(unsigned int cell)
{
	uint32_t written = 0;

	for (uint64_t at = scene.begin; at < scene.end; at += CELL)
		if (at % CHUNK / CELL == cell)
			written |= 1u << at / CHUNK;
	return written;
}

/* One entry for each (level, width, absent, read, written): asked again and again. */
static bool
suffices_at(uint32_t read, uint32_t written)
{
	enum { SETS = 1 << (ALGEBRA_WIDTH_MAX - 1) };
	static uint8_t answers[2][ALGEBRA_WIDTH_MAX][SETS][SETS][SETS / 2];
	const struct geometry *geometry = &scene.geometry;
	uint8_t *answer =
		&answers[geometry->level - 5][geometry->width][scene.absent][read][written];

	if (*answer == 0) {
		*answer = 1;
		for (int i = geometry->data_chunks; i < geometry->width; i++)
			if (!has(scene.absent, i) && !tells(geometry, read, written, i))
				*answer = 2;
	}
	return *answer == 1;
}

static int
fewest_reads(void)
{
	const struct geometry *geometry = &scene.geometry;
	int fewest = geometry->width;

	for (uint32_t read = 0; read < 1u << geometry->width; read++) {
		bool enough = (read & scene.absent) == 0 && __builtin_popcount(read) < fewest;

		/* on a suspect row P and Q say nothing, and all columns are made right */
		if (scene.trust != ROW_PROVEN && read >> geometry->data_chunks != 0)
			continue;
		for (unsigned int cell = 0; enough && cell < CELLS; cell++) {
			uint32_t written = written_at(cell);

			if (scene.trust != ROW_PROVEN || written != 0)
				enough = suffices_at(read, written);
		}
		if (enough)
			fewest = __builtin_popcount(read);
	}
	return fewest;
}

static bool
writes_all_absent_data_whole(void)
{
	for (int k = 0; k < scene.geometry.data_chunks; k++)
		if (has(scene.absent, k) &&
		    (scene.begin > (uint64_t)k * CHUNK || scene.end < (uint64_t)(k + 1) * CHUNK))
			return false;
	return true;
}

static bool
touches_absent_data(void)
{
	uint32_t written = 0;

	for (unsigned int cell = 0; cell < CELLS; cell++)
		written |= written_at(cell);
	return (written & scene.absent) != 0;
}

static int
expected_result(void)
{
	if (scene.geometry.level == 0)
		return touches_absent_data() ? -EIO : 0;
	if (__builtin_popcount(scene.absent) > scene.geometry.redundancy)
		return -EIO;
	if (scene.geometry.level != 1 && scene.geometry.level != 10 && scene.trust == ROW_SUSPECT &&
	    touches_absent_data() && !writes_all_absent_data_whole())
		return -ENODATA;
	return 0;
}

/* A proven row with all its data: of the two ways with as many reads the one with fewer bytes, then
 * RECONSTRUCT; and no byte more than that.
 */
static void
check_fewest_bytes(int redundant)
{
	unsigned int cells[WIDTH_MAX] = { 0 }, hull = 0, bytes = 0, sum = 0, gaps = 0;
	int touched = 0, unfilled = 0;

	for (unsigned int cell = 0; cell < CELLS; cell++) {
		uint32_t written = written_at(cell);

		hull += written != 0 ||
			(scene.plan.hull.begin < cell * CELL && cell * CELL < scene.plan.hull.end);
		for (int k = 0; k < scene.geometry.data_chunks; k++)
			cells[k] += has(written, k);
	}
	for (int k = 0; k < scene.geometry.data_chunks; k++) {
		touched += cells[k] > 0;
		unfilled += cells[k] < hull;
		sum += cells[k];
		gaps += hull - cells[k];
		bytes += scene.plan.read[k].end - scene.plan.read[k].begin;
	}
	const int rmw_reads = touched + redundant;
	const unsigned int rmw_cells = sum + (unsigned int)redundant * hull;
	const bool rmw = rmw_reads < unfilled || (rmw_reads == unfilled && rmw_cells < gaps);

	bytes += (unsigned int)__builtin_popcount(scene.plan.read_redundancy) *
		 (scene.plan.hull.end - scene.plan.hull.begin);
	assert_int_equal(scene.plan.way, unfilled == 0 ? PLAN_FULL
					 : rmw	       ? PLAN_RMW
						       : PLAN_RECONSTRUCT);
	assert_int_equal(bytes, (rmw ? rmw_cells : gaps) * CELL);
}

/* Levels 5 and 6.  Unknowable: absent data, no longer told by P and Q, stays so. */
static void
check_parity_level(void)
{
	const struct geometry *geometry = &scene.geometry;
	const uint32_t data = UINT32_MAX >> (32 - geometry->data_chunks);
	const bool redundant = (scene.absent | data) != UINT32_MAX >> (32 - geometry->width);
	const bool unknowable = scene.trust == ROW_SUSPECT && (scene.absent & data) != 0 &&
				!writes_all_absent_data_whole();
	const bool definition = scene.trust == ROW_DEFINED && (scene.absent & data) != 0;

	if (scene.plan.way != PLAN_DATA_ONLY && !(definition && !writes_all_absent_data_whole()))
		if (geometry->width < ALGEBRA_WIDTH_MAX && scene.plan.reads != fewest_reads())
			fail_scene("more is read than needed", -1);
	if ((scene.plan.way == PLAN_DATA_ONLY) != (unknowable || !redundant))
		fail_scene("P and Q", -1);
	if (scene.trust != ROW_PROVEN && redundant && !unknowable && !scene.plan.proves_row)
		fail_scene("the row should be proven now", -1);
	if (scene.trust == ROW_PROVEN && (scene.absent & data) == 0 && redundant)
		check_fewest_bytes(geometry->redundancy - __builtin_popcount(scene.absent));
	lay_out(scene.trust == ROW_PROVEN);
	do_as_planned();
	check_outcome(redundant && !unknowable);

	/* proves_row holds whatever stood there, whatever it was trusted for */
	lay_out(false);
	do_as_planned();
	if (scene.plan.proves_row && !fits_now())
		fail_scene("the row is not proven", -1);
	if (scene.absent == 0 && !scene.plan.proves_row && fits_now())
		fail_scene("the row is proven", -1);
}

static void
check_scene(void)
{
	struct row_plan before;

	memset(&scene.plan, 0x5a, sizeof(scene.plan));
	before = scene.plan;
	int result = plan_row_write(&scene.geometry, scene.begin, scene.end, scene.absent,
				    scene.trust, NULL, &scene.plan);

	if (result != expected_result())
		fail_scene("wrong result", result);
	if (result != 0) {
		assert_memory_equal(&scene.plan, &before, sizeof(before));
		return;
	}
	check_shape();
	switch (scene.geometry.level) {
	case 5:
	case 6:
		check_parity_level();
		break;
	default:
		assert_int_equal(scene.plan.way,
				 scene.geometry.level == 0 ? PLAN_DATA_ONLY : PLAN_FULL);
		assert_int_equal(scene.plan.reads, 0);
		if (scene.geometry.level == 0 && scene.absent != 0)
			break;
		lay_out(true);
		do_as_planned();
		check_outcome(true);
		lay_out(false);
		do_as_planned();
		assert_int_equal(scene.plan.proves_row,
				 scene.geometry.level != 0 && scene.end - scene.begin == CHUNK);
		assert_true(!scene.plan.proves_row || fits_now());
	}
}

static void
test_every_write_of_small_rows_does_what_it_should(void **state)
{
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
		for (int members = shapes[s].members_min; members <= shapes[s].members_max;
		     members++) {
			assert_int_equal(geometry_init(&scene.geometry, shapes[s].level, members,
						       CHUNK, 512, 64 * CHUNK),
					 0);
			const uint64_t row_bytes = geometry_row_bytes(&scene.geometry);

			for (scene.absent = 0; scene.absent < 1u << scene.geometry.width;
			     scene.absent++)
				for (int trust = ROW_PROVEN; trust <= ROW_DEFINED; trust++)
					for (scene.begin = 0; scene.begin < row_bytes;
					     scene.begin += CELL)
						for (scene.end = scene.begin + CELL;
						     scene.end <= row_bytes; scene.end += CELL) {
							scene.trust = (enum row_trust)trust;
							check_scene();
						}
		}
}

/* Ends often fall on a border of chunks, and what is absent is sometimes touched, sometimes not. */
static void
test_random_writes_of_wide_rows_do_what_they_should(void **state)
{
	for (int i = 0; i < 10000; i++) {
		int level = 5 + i % 2, members = 8 + (int)(random_number() % 25);

		assert_int_equal(
			geometry_init(&scene.geometry, level, members, CHUNK, 512, 64 * CHUNK), 0);
		const uint32_t cells = scene.geometry.data_chunks * CELLS;

		scene.begin = random_number() % cells;
		scene.end = scene.begin + 1 + random_number() % (cells - scene.begin);
		if (random_number() % 2 == 0)
			scene.begin -= scene.begin % CELLS;
		if (random_number() % 2 == 0)
			scene.end += (CELLS - scene.end % CELLS) % CELLS;
		scene.absent = 0;
		for (uint32_t lost = random_number() % 4; lost > 0; lost--)
			scene.absent |= 1u << random_number() % (uint32_t)members;
		if (random_number() % 2 == 0)
			scene.absent |= 1u << scene.begin / CELLS;
		scene.begin *= CELL;
		scene.end *= CELL;
		scene.trust = (enum row_trust)(random_number() % 3);
		check_scene();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_write_of_small_rows_does_what_it_should),
		cmocka_unit_test(test_random_writes_of_wide_rows_do_what_they_should),
	};
	return cmocka_run_group_tests(tests, make_products, NULL);
}
