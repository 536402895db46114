/* plan.h - how one row of one write is done: which chunks are read first, what makes up for lost
 * chunks is made of, and what is written.  A pure function, so that tests can enumerate it.
 *
 * A write touches one contiguous range of a row's data, so each data chunk is touched in at
 * most one interval of columns.  The `hull` is the smallest interval of columns that holds all
 * of them; P and Q are read and written on the hull only, copies where the data is written.
 *
 * Ways, counted in reads (the writes are the same for all of them but PLAN_DATA_ONLY):
 *
 *   FULL        every data chunk is written over the whole hull: no read.  Always so on levels 1 and 10
 *   RMW         read old data where it will be written, and P and Q (those that are there) on the hull:
 *               P' = P ^ old ^ new, and Q alike; no change outside of the written columns
 *   RECONSTRUCT read, for each data chunk, the part of the hull that is not written: P' and Q' from all data on the hull
 *   READ_ALL    read what is needed to make the absent data chunks on the hull (code_sources) and all other data there, make
 *               them, then as RECONSTRUCT
 *   DATA_ONLY   nothing but data is written: level 0, or P and Q are all absent, or the row is
 *               unknowable (trust below)
 *
 * The cheaper of RMW and RECONSTRUCT in reads is taken; equal: fewer bytes read; equal again:
 * RECONSTRUCT.  With an absent chunk that is not touched, the cheaper of RMW and READ_ALL; equal:
 * RMW.  plan.c says why no other way needs fewer reads.
 *
 * An absent chunk is never read; its part of the write goes into P and Q only, or to the other
 * copies.
 *
 * What is trusted:
 *   ROW_PROVEN	P, Q and copies fit.
 *   ROW_SUSPECT	nobody knows (DESIGN rule 1).  With all data there, the hull becomes the whole chunk and the way
 *		RECONSTRUCT (or FULL), so that the row is proven afterwards.  With a data chunk absent (levels 5 and 6) its
 *		content is unknown: writes to the other chunks are DATA_ONLY; a write to a part of an absent chunk is
 *		refused; one to the whole of all absent chunks makes P and Q anew, by RECONSTRUCT or FULL, and so proves the row.
 *   ROW_DEFINED	nobody knows whether P and Q fit each other, but what is absent is what code_make() says,
 *		by definition (level 6, one member out): READ_ALL (FULL, RECONSTRUCT where those do) on the whole
 *		chunk, which proves the row.  Without an absent data chunk the same as ROW_SUSPECT.
 */
#ifndef IRAID_PLAN_H
#define IRAID_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "geometry.h"

struct columns { /* [begin, end) inside a chunk, bytes; empty if begin == end */
	uint32_t begin;
	uint32_t end;
};

enum plan_way {
	PLAN_FULL,
	PLAN_RMW,
	PLAN_RECONSTRUCT,
	PLAN_READ_ALL,
	PLAN_DATA_ONLY,
};

enum row_trust { ROW_PROVEN, ROW_SUSPECT, ROW_DEFINED };

struct row_plan {
	enum plan_way way;
	struct columns hull; /* empty for DATA_ONLY */
	/* by data chunk; also for an absent one (goes into P and Q, or the other copies) */
	struct columns write[IRAID_MEMBERS_MAX];
	struct columns read[IRAID_MEMBERS_MAX]; /* by data chunk: old bytes to read; may
							 * overlap write[] */
	/* positions behind the data that are read on the hull */
	uint32_t read_redundancy;
	/* ... and written: P and Q on the hull; copies where data is */
	uint32_t write_redundancy;
	/* data chunks made with code_make() before, on the hull; READ_ALL only */
	uint32_t make;
	/* positions that are to be read from members: those of the above that are not known already
	 */
	uint32_t fetch;
	bool proves_row; /* the row fits once this is done, whatever
							 * it was; never with DATA_ONLY */
	/* I/Os to the members: as many as fetch has positions */
	int reads;
	int writes;
};

/* Plan the write of [begin_bytes, end_bytes) of a row's data (offsets inside the row, begin < end
 * <= row bytes: asserted).  absent: positions.  known: by position, the columns of which it is
 * known what stands there (an interval each, maybe empty), so that they need no read; NULL: none.
 * Returns 0; -ENODATA if the write touches an absent chunk whose row is suspect, and not the whole
 * of all that are (*out untouched, as with -EIO); -EIO if more is absent than the level bears:
 * level 0 where the write touches it, the others always, because what is absent may come back and
 * needs P and Q as they are.
 */
int plan_row_write(const struct geometry *geometry, uint64_t begin_bytes, uint64_t end_bytes,
		   uint32_t absent, enum row_trust trust, const struct columns *known,
		   struct row_plan *out);

#endif
