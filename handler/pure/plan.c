/* plan.c - the cheapest way to write a part of one row; the ways are described in plan.h.
 *
 * Why the choice is minimal in reads, on levels 5 and 6.  Take one column c of the hull (one byte
 * offset of all chunks).  With U the chunks that are not written at c and W those that are, the
 * new P needs the sum of the old of U, and the new Q the same sum with factors: two numbers that
 * must follow from what was read.  Old bytes are tied by P and by Q only, and any n-2 chunks of
 * level 6's n are independent (n-1 of level 5's), so the numbers follow
 *
 * - from all of U;
 * - or from W, and P for the first number, Q for the second (RMW; only those that are there are
 *   needed);
 * - or from as many chunks as the row has of data, which tell everything (READ_ALL);
 * - or from a set that lacks a single chunk of U and replaces it by P, Q and W in part: the
 *   equations show that it has as many chunks as the row has of data, so it is no cheaper than the
 *   third.
 *
 * A plan pays one read per member, whatever the columns.  With all data there:
 *
 * - the first everywhere: RECONSTRUCT, untouched + partial reads, where partial counts the touched
 *   chunks that don't fill the hull: at most 2, the first and the last, because the written range
 *   is contiguous;
 * - the second everywhere: touched + 1, or + 2 if both P and Q are there;
 * - mixed: all untouched chunks (for some column of the first kind), and for a column of the
 *   second kind P or Q and at least one touched chunk.  That is untouched + 2 or more, never below
 *   RECONSTRUCT;
 * - the third is never below RECONSTRUCT either: it is untouched + touched.
 *
 * With data chunks absent:
 *
 * - none of them touched: each is in U on every column, so RMW, or READ_ALL, which reads one less
 *   when one data chunk is absent, all the others are touched, and both P and Q are there;
 * - all of them fill the hull: they are in W on every column, so RECONSTRUCT (or FULL);
 * - else some column has an absent chunk in W, and some column (another or, with two absent,
 *   perhaps the same) has one in U.  The former needs all that is there of U, or the third kind;
 *   the latter W and P and Q, or the third kind.  With one absent, m, other chunks are touched and
 *   m is the first or the last of them; the ranges of first and last reach column 0 or the chunk's
 *   end, where m is not written, so every other touched chunk is in W there.  Either way no fewer
 *   chunks are read than the row has of data: READ_ALL.  With two absent there are no more chunks
 *   than that.
 *
 * READ_ALL reads on the whole hull; reading less bytes would need a second kind of recovery for a
 * case that is rare.  test_plan_bytes.c tries all sets of reads on small rows.
 *
 * A suspect row allows the first kind only, on all columns of the chunk: with chunks absent, only
 * where all of them are written whole.  A defined row allows the third too, because it is the
 * definition.
 *
 * A row that has lost more than it bears is not written at all on levels with redundancy: what
 * can't be made from the rest now comes back with the members, if P and Q are left alone until
 * then.
 */
#include "plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "code.h"

struct cost {
	int reads;
	uint64_t bytes;
};

/* What there is to decide upon. */
struct row_case {
	const struct geometry *geometry;
	uint32_t absent_data;
	uint32_t redundancy; /* positions behind the data that are there */
	enum row_trust trust;
	const struct columns *known; /* by position, or NULL */
};

static uint32_t
width(struct columns columns)
{
	return columns.end - columns.begin;
}

static bool
fills(struct columns columns, struct columns hull)
{
	return columns.begin == hull.begin && columns.end == hull.end;
}

static struct columns
whole_chunk(const struct geometry *geometry)
{
	return (struct columns){ 0, geometry->chunk_bytes };
}

/* Cut the range at chunk borders; returns the hull of the pieces. */
static struct columns
cut(const struct geometry *geometry, uint64_t begin_bytes, uint64_t end_bytes,
    struct columns *write)
{
	uint32_t chunk_bytes = geometry->chunk_bytes;
	struct columns hull = { chunk_bytes, 0 };

	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		uint64_t chunk_begin = (uint64_t)chunk * chunk_bytes;
		uint64_t chunk_end = chunk_begin + chunk_bytes;

		if (begin_bytes >= chunk_end || end_bytes <= chunk_begin)
			continue;
		write[chunk] = whole_chunk(geometry);
		if (begin_bytes > chunk_begin)
			write[chunk].begin = (uint32_t)(begin_bytes - chunk_begin);
		if (end_bytes < chunk_end)
			write[chunk].end = (uint32_t)(end_bytes - chunk_begin);
		if (write[chunk].begin < hull.begin)
			hull.begin = write[chunk].begin;
		if (write[chunk].end > hull.end)
			hull.end = write[chunk].end;
	}
	return hull;
}

/* Part of the hull that is not written.  Where that is two pieces (the middle of a suspect
 * row's chunk is written) one read of the whole hull is cheaper than two.
 */
static struct columns
unwritten(struct columns write, struct columns hull)
{
	if (width(write) == 0)
		return hull;
	if (fills(write, hull))
		return (struct columns){ 0, 0 };
	if (write.begin == hull.begin)
		return (struct columns){ write.end, hull.end };
	if (write.end == hull.end)
		return (struct columns){ hull.begin, write.begin };
	return hull;
}

static struct columns
read_of(enum plan_way way, struct columns write, struct columns hull)
{
	switch (way) {
	case PLAN_FULL:
	case PLAN_DATA_ONLY:
		break;
	case PLAN_RMW:
		return write;
	case PLAN_RECONSTRUCT:
		return unwritten(write, hull);
	case PLAN_READ_ALL:
		return hull;
	}
	return (struct columns){ 0, 0 };
}

/* The absent data chunks of which READ_ALL needs old bytes. */
static uint32_t
to_make(const struct row_case *row, const struct row_plan *plan)
{
	uint32_t make = 0;

	for (int chunk = 0; chunk < row->geometry->data_chunks; chunk++)
		if ((row->absent_data >> chunk & 1) && !fills(plan->write[chunk], plan->hull))
			make |= 1u << chunk;
	return make;
}

static uint32_t
redundancy_read(const struct row_case *row, const struct row_plan *plan, enum plan_way way)
{
	const uint32_t behind_data = ~(UINT32_MAX >> (32 - row->geometry->data_chunks));
	const uint32_t missing =
		~row->redundancy & behind_data & UINT32_MAX >> (32 - row->geometry->width);

	if (way == PLAN_RMW)
		return row->redundancy;
	if (way == PLAN_READ_ALL)
		return code_sources(row->geometry, to_make(row, plan), row->absent_data | missing) &
		       behind_data;
	return 0;
}

static bool
is_known(const struct row_case *row, int position, struct columns columns)
{
	return row->known != NULL && row->known[position].begin <= columns.begin &&
	       row->known[position].end >= columns.end;
}

static struct cost
cost_of(const struct row_case *row, const struct row_plan *plan, enum plan_way way)
{
	struct cost cost = { 0, 0 };

	for (int chunk = 0; chunk < row->geometry->data_chunks; chunk++) {
		struct columns read = read_of(way, plan->write[chunk], plan->hull);

		if ((row->absent_data >> chunk & 1) || is_known(row, chunk, read))
			continue;
		cost.reads += width(read) > 0;
		cost.bytes += width(read);
	}
	for (int position = row->geometry->data_chunks; position < row->geometry->width;
	     position++) {
		if (!(redundancy_read(row, plan, way) >> position & 1) ||
		    is_known(row, position, plan->hull))
			continue;
		cost.reads++;
		cost.bytes += width(plan->hull);
	}
	return cost;
}

static bool
is_cheaper(struct cost one, struct cost other)
{
	return one.reads < other.reads || (one.reads == other.reads && one.bytes < other.bytes);
}

static enum plan_way
full_or_reconstruct(const struct row_case *row, const struct row_plan *plan)
{
	for (int chunk = 0; chunk < row->geometry->data_chunks; chunk++)
		if (!(row->absent_data >> chunk & 1) && !fills(plan->write[chunk], plan->hull))
			return PLAN_RECONSTRUCT;
	return PLAN_FULL;
}

static bool
touches_absent(const struct row_case *row, const struct row_plan *plan)
{
	for (int chunk = 0; chunk < row->geometry->data_chunks; chunk++)
		if ((row->absent_data >> chunk & 1) && width(plan->write[chunk]) > 0)
			return true;
	return false;
}

static enum plan_way
choose_proven(const struct row_case *row, const struct row_plan *plan)
{
	struct cost rmw = cost_of(row, plan, PLAN_RMW);

	if (row->absent_data == 0 && is_cheaper(rmw, cost_of(row, plan, PLAN_RECONSTRUCT)))
		return PLAN_RMW;
	if (to_make(row, plan) == 0)
		return full_or_reconstruct(row, plan);
	if (touches_absent(row, plan) || is_cheaper(cost_of(row, plan, PLAN_READ_ALL), rmw))
		return PLAN_READ_ALL;
	return PLAN_RMW;
}

/* Levels 5 and 6 with P or Q there.  May widen the hull.  Returns a way, or -ENODATA. */
static int
choose_way(const struct row_case *row, struct row_plan *plan)
{
	if (row->trust == ROW_PROVEN)
		return (int)choose_proven(row, plan);

	plan->hull = whole_chunk(row->geometry);
	if (to_make(row, plan) == 0)
		return (int)full_or_reconstruct(row, plan);
	if (row->trust == ROW_DEFINED)
		return PLAN_READ_ALL;
	return touches_absent(row, plan) ? -ENODATA : PLAN_DATA_ONLY;
}

static bool
has_copies(const struct geometry *geometry)
{
	return geometry->level == 1 || geometry->level == 10;
}

/* Fill in what follows from the way, the hull and what is written. */
static void
complete_plan(const struct row_case *row, enum plan_way way, struct row_plan *plan)
{
	plan->way = way;
	plan->read_redundancy = redundancy_read(row, plan, way);
	plan->write_redundancy = way == PLAN_DATA_ONLY ? 0 : row->redundancy;
	plan->make = way == PLAN_READ_ALL ? to_make(row, plan) : 0;
	plan->writes = __builtin_popcount(plan->write_redundancy);
	for (int chunk = 0; chunk < row->geometry->data_chunks; chunk++) {
		if (row->absent_data >> chunk & 1)
			continue;
		plan->read[chunk] = read_of(way, plan->write[chunk], plan->hull);
		if (width(plan->read[chunk]) > 0 && !is_known(row, chunk, plan->read[chunk]))
			plan->fetch |= 1u << chunk;
		plan->writes += width(plan->write[chunk]) > 0;
	}
	for (int position = row->geometry->data_chunks; position < row->geometry->width; position++)
		if ((plan->read_redundancy >> position & 1) && !is_known(row, position, plan->hull))
			plan->fetch |= 1u << position;
	plan->reads = __builtin_popcount(plan->fetch);
	if (way == PLAN_DATA_ONLY)
		plan->hull = (struct columns){ 0, 0 };
	plan->proves_row = way != PLAN_DATA_ONLY && way != PLAN_RMW &&
			   fills(plan->hull, whole_chunk(row->geometry));
}

int
plan_row_write(const struct geometry *geometry, uint64_t begin_bytes, uint64_t end_bytes,
	       uint32_t absent, enum row_trust trust, const struct columns *known,
	       struct row_plan *out)
{
	const struct row_case row = {
		.geometry = geometry,
		.absent_data = absent & geometry_data_positions(geometry),
		.redundancy = geometry_redundant_positions(geometry) & ~absent,
		.trust = trust,
		.known = known,
	};
	struct row_plan plan;
	int way;

	assert(begin_bytes < end_bytes && end_bytes <= geometry_row_bytes(geometry));
	assert((absent & ~geometry_lowest(geometry->width)) == 0);

	memset(&plan, 0, sizeof(plan));
	plan.hull = cut(geometry, begin_bytes, end_bytes, plan.write);
	if (geometry->level == 0 && !touches_absent(&row, &plan))
		way = PLAN_DATA_ONLY;
	else if (!code_bears(geometry, absent))
		return -EIO;
	else if (has_copies(geometry))
		way = PLAN_FULL;
	else if (row.redundancy == 0)
		way = PLAN_DATA_ONLY;
	else
		way = choose_way(&row, &plan);
	if (way < 0)
		return way;
	complete_plan(&row, (enum plan_way)way, &plan);
	*out = plan;
	return 0;
}
