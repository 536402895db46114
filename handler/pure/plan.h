/* plan.h - how one row of one write is done: which chunks are read first, what parity is made
 * of, and what is written.  A pure function, so that tests can enumerate it.
 *
 * A write touches one contiguous range of a row's data, so each data chunk is touched in at
 * most one interval of columns.  The `hull` is the smallest interval of columns that holds all
 * of them; parity is read and written on the hull only.
 *
 * Ways, counted in reads (the writes are the same for all of them but PLAN_DATA_ONLY):
 *
 *   FULL        every data chunk is written over the whole hull: no read
 *   RMW         read old data where it will be written, and old parity on the hull:
 *               P' = P ^ old ^ new
 *   RECONSTRUCT read, for each data chunk, the part of the hull that is not written:
 *               P' = XOR of all data on the hull
 *   READ_ALL    read every surviving chunk and parity on the hull, rebuild the missing
 *               chunk's old data, then as RECONSTRUCT (missing chunk is written in part)
 *   DATA_ONLY   no parity is written: level 0, or the parity's member is missing, or the row's
 *               parity is unknowable (suspect, a data member missing; see below)
 *
 * The cheaper of RMW and RECONSTRUCT in reads is taken; equal: fewer bytes read; equal again:
 * RECONSTRUCT.  plan.c says why no other way needs fewer reads.
 *
 * One rule makes parity for FULL, RECONSTRUCT and READ_ALL alike: on the hull, XOR over all data
 * chunks, each taken from the new bytes where they are written and from what was read (or
 * rebuilt) elsewhere.  What is read may overlap what is written: on a suspect row, where the
 * middle of a chunk is written and the whole of it read in one I/O, and with READ_ALL.  New bytes
 * win.  With RMW, P' = P outside of the written columns.
 *
 * FULL is always a whole stripe: all data chunks, whole.  A missing member's chunk is never
 * read; its part of the write goes into parity only.
 *
 * suspect: the row's parity has not been proven (DESIGN rule 1).  With all members there, the
 * hull becomes the whole chunk and the way RECONSTRUCT (or FULL), so that the row is proven
 * afterwards.  With a data member missing the missing chunk's content is unknown: writes to the
 * other chunks are DATA_ONLY, a write to a part of the missing chunk is refused; one to the whole
 * of it makes new parity from it and the others, by RECONSTRUCT or FULL, and so proves the row.
 */
#ifndef IRAID_PLAN_H
#define IRAID_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "geometry.h"

struct columns {		/* [begin, end) inside a chunk, bytes; empty if begin == end */
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

struct row_plan {
	enum plan_way way;
	struct columns hull;				/* empty for DATA_ONLY */
	struct columns write[IRAID_MEMBERS_MAX];	/* by data chunk; also for a missing member
							 * (goes into parity, not to a member) */
	struct columns read[IRAID_MEMBERS_MAX];		/* by data chunk: old bytes to read; may
							 * overlap write[] */
	bool read_parity;				/* on the hull */
	bool write_parity;				/* on the hull */
	bool proves_row;				/* row parity is right once this is done, whatever
							 * it was; never with DATA_ONLY */
	int reads;					/* I/Os to the members, parity's included */
	int writes;
};

/* Plan the write of [begin_bytes, end_bytes) of `row`'s data (offsets inside the row, begin <
 * end <= row bytes, row < rows: asserted).  missing_member: a member index, or -1.
 * Returns 0; -ENODATA if the write touches a part of a missing chunk whose row is suspect (*out
 * untouched);
 * -EIO if a data member is missing on a level without parity and is touched.
 */
int plan_row_write(const struct geometry *geometry, uint64_t row, uint64_t begin_bytes,
		   uint64_t end_bytes, int missing_member, bool suspect, struct row_plan *out);

#endif
