/* lost_extent.h - an extent of the volume that nobody knows any more: a rectangle of rows and of
 * columns of one role's chunks; and the granules that hold such on the members
 * (docs/design/format.md, "Table of lost extents").
 */
#ifndef IRAID_LOST_EXTENT_H
#define IRAID_LOST_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

/* the member that was out may hold the truth: see engine/work/sync_rows.c */
#define LOST_HELD 0x01
#define LOST_COLUMN_BYTES 512u /* what columns are multiples of */

struct lost_extent {
	uint64_t row;
	uint32_t rows;	       /* 0: there is none */
	uint32_t column_begin; /* bytes inside the chunk, multiples of 512 */
	uint32_t column_end;
	uint8_t role;
	uint8_t flags; /* LOST_HELD */
};

uint64_t lost_end_row(const struct lost_extent *extent); /* the one behind its last */
bool lost_touches(const struct lost_extent *a, const struct lost_extent *b);
bool lost_inside(const struct lost_extent *inner, const struct lost_extent *outer);
/* Who has `outer` in the table needs no `inner`. */
bool lost_implied(const struct lost_extent *inner, const struct lost_extent *outer);
/* What of `extent` is not in `cut` (they touch): above, below, left, right.  Returns how many. */
int lost_subtract(const struct lost_extent *extent, const struct lost_extent *cut,
		  struct lost_extent out[4]);
/* Can both be said by one rectangle, no byte more?  Then into *out. */
bool lost_join(const struct lost_extent *a, const struct lost_extent *b, struct lost_extent *out);

/* out: LAYOUT_GRANULE_BYTES. */
void lost_granule_encode(const struct lost_extent entries[LAYOUT_LOST_ENTRIES], uint32_t granule,
			 uint64_t epoch, const uint8_t volume_uuid[16], uint8_t *out);
/* All zeros is empty.  False if its CRC is wrong or an entry makes no sense: then nothing of it
 * counts.  Rows behind the volume's end are left out: into *clipped whether there were any.
 */
bool lost_granule_decode(const uint8_t *in, uint32_t granule, const uint8_t volume_uuid[16],
			 const struct geometry *geometry,
			 struct lost_extent out[LAYOUT_LOST_ENTRIES], bool *clipped);

#endif
