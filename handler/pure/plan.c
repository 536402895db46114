/* plan.c - the cheapest way to write a part of one row; the ways are described in plan.h.
 *
 * Why the choice is minimal in reads.  Take one column c of the hull (one byte offset of all
 * chunks).  With U the chunks that are not written at c and W those that are, the new parity
 * is XOR(new of W) ^ XOR(old of U).  The old bytes are tied by one equation only, P = XOR of all
 * data, so XOR(old of U) follows from what was read if and only if that contains all of U, or P
 * and all of W.  A plan chooses one of the two for each column and pays one read per member:
 *
 *  - the second everywhere: RMW, touched + 1 reads;
 *  - the first everywhere: RECONSTRUCT, untouched + partial reads, where partial counts the
 *    touched chunks that don't fill the hull: at most 2, the first and the last, because the
 *    written range is contiguous;
 *  - mixed: all untouched chunks (for some column of the first kind), and for a column of the
 *    second kind parity and at least one touched chunk.  That is untouched + 2 or more, never
 *    below RECONSTRUCT.
 *
 * So the better of the first two is the best.  With data chunk m missing:
 *
 *  - m untouched: m is in U on every column, so only RMW is left.
 *  - m fills the hull: m is in W on every column, so only RECONSTRUCT is left (or FULL).
 *  - m is written in part, so other chunks are touched and m is the first or the last of them: on
 *    the columns where m is written all of U is needed, so every untouched chunk; on the others
 *    parity and all of W, and every other touched chunk is written on one of these (the ranges of
 *    first and last reach column 0 or the chunk's end, where m is not written).  So every
 *    surviving chunk and parity are read in any plan: READ_ALL.  It reads them on the whole hull;
 *    reading less bytes would need a second kind of recovery for a case that is rare.
 *
 * A suspect row allows the first kind only, on all columns of the chunk: with m missing, only
 * where m is written whole.
 */
#include "plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct cost {
	int reads;
	uint64_t bytes;
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
		write[chunk] = (struct columns){ 0, chunk_bytes };
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

static bool
reads_parity(enum plan_way way)
{
	return way == PLAN_RMW || way == PLAN_READ_ALL;
}

static struct cost
cost_of(const struct geometry *geometry, const struct row_plan *plan, enum plan_way way)
{
	struct cost cost = { 0, 0 };

	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		struct columns read = read_of(way, plan->write[chunk], plan->hull);

		cost.reads += width(read) > 0;
		cost.bytes += width(read);
	}
	if (reads_parity(way)) {
		cost.reads++;
		cost.bytes += width(plan->hull);
	}
	return cost;
}

static enum plan_way
choose_healthy(const struct geometry *geometry, const struct row_plan *plan, bool suspect)
{
	struct cost reconstruct = cost_of(geometry, plan, PLAN_RECONSTRUCT);
	struct cost rmw = cost_of(geometry, plan, PLAN_RMW);

	if (reconstruct.reads == 0)
		return PLAN_FULL;
	if (suspect || reconstruct.reads < rmw.reads)
		return PLAN_RECONSTRUCT;
	if (rmw.reads < reconstruct.reads || rmw.bytes < reconstruct.bytes)
		return PLAN_RMW;
	return PLAN_RECONSTRUCT;
}

static enum plan_way
choose_degraded(const struct geometry *geometry, const struct row_plan *plan, int missing_chunk)
{
	struct columns write = plan->write[missing_chunk];

	if (width(write) == 0)
		return PLAN_RMW;
	if (!fills(write, plan->hull))
		return PLAN_READ_ALL;
	return cost_of(geometry, plan, PLAN_RECONSTRUCT).reads == 0 ? PLAN_FULL : PLAN_RECONSTRUCT;
}

/* Fill in what follows from the way, the hull and what is written. */
static void
finish(const struct geometry *geometry, enum plan_way way, int missing_chunk,
       struct row_plan *plan)
{
	struct columns chunk_columns = { 0, geometry->chunk_bytes };

	plan->way = way;
	plan->read_parity = reads_parity(way);
	plan->write_parity = way != PLAN_DATA_ONLY;
	plan->reads = plan->read_parity;
	plan->writes = plan->write_parity;
	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		if (chunk == missing_chunk)
			continue;
		plan->read[chunk] = read_of(way, plan->write[chunk], plan->hull);
		plan->reads += width(plan->read[chunk]) > 0;
		plan->writes += width(plan->write[chunk]) > 0;
	}
	if (way == PLAN_DATA_ONLY)
		plan->hull = (struct columns){ 0, 0 };
	plan->proves_row = (way == PLAN_FULL || way == PLAN_RECONSTRUCT) &&
			   fills(plan->hull, chunk_columns);
}

int
plan_row_write(const struct geometry *geometry, uint64_t row, uint64_t begin_bytes,
	       uint64_t end_bytes, int missing_member, bool suspect, struct row_plan *out)
{
	struct row_plan plan;
	enum plan_way way;
	int missing_chunk = -1;

	assert(row < geometry->rows);
	assert(begin_bytes < end_bytes && end_bytes <= geometry_row_bytes(geometry));
	assert(missing_member >= -1 && missing_member < geometry->members);

	memset(&plan, 0, sizeof(plan));
	plan.hull = cut(geometry, begin_bytes, end_bytes, plan.write);
	if (missing_member >= 0)
		missing_chunk = geometry_chunk_on_member(geometry, row, (uint8_t)missing_member);
	bool missing_touched = missing_chunk >= 0 && width(plan.write[missing_chunk]) > 0;

	if (geometry->parities == 0) {
		if (missing_touched)
			return -EIO;
		way = PLAN_DATA_ONLY;
	} else if (missing_member >= 0 && missing_chunk < 0) {
		way = PLAN_DATA_ONLY;
	} else if (missing_touched && suspect) {
		struct columns chunk = { 0, geometry->chunk_bytes };

		if (!fills(plan.write[missing_chunk], chunk))
			return -ENODATA;
		plan.hull = chunk;
		way = choose_degraded(geometry, &plan, missing_chunk);
	} else if (missing_chunk >= 0 && suspect) {
		way = PLAN_DATA_ONLY;
	} else if (missing_chunk >= 0) {
		way = choose_degraded(geometry, &plan, missing_chunk);
	} else {
		if (suspect)
			plan.hull = (struct columns){ 0, geometry->chunk_bytes };
		way = choose_healthy(geometry, &plan, suspect);
	}
	finish(geometry, way, missing_chunk, &plan);
	*out = plan;
	return 0;
}
