/* written.h - which rows hold writes that no flush of all members has covered yet.
 *
 * A cache that is lost can have taken those along, and no others.  Each region that is known has a
 * bit for each row, twice:
 *
 *   fresh	written since the last round of flushes began
 *   covered	written before, which that round makes safe if it succeeds
 *
 * A region that is not known has no bits: it was dirty at assembly, and what caches hold of it
 * nobody can say; or there was no room (WRITTEN_BYTES_MAX).  The next round that succeeds makes it
 * known.  Who writes notes the row before, and again when a round begins while the write is under
 * way, for the round may have passed it by.
 */
#ifndef IRAID_WRITTEN_H
#define IRAID_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "row_bits.h"

/* so there is room whatever the allocator refuses */
#define WRITTEN_BYTES_MAX ROW_BITS_RESERVE_MAX

struct written {
	uint32_t regions;
	uint32_t region_rows;
	struct row_bits bits;
	/* by region: the words of fresh, then those of covered.  NULL: not known */
	uint64_t **rows;
	uint8_t *traits;  /* by region */
	uint32_t *recent; /* regions that may have a bit; once each */
	uint32_t recent_count;
	uint64_t bytes;	 /* of all bits */
	bool incomplete; /* a dirty region may be not known */
};

/* 0 or -ENOMEM. */
int written_init(struct written *written, uint32_t regions, uint32_t region_rows);
int written_grow(struct written *written, uint32_t regions);
void written_destroy(struct written *written);

/* All that was written to the region is safe, and it is known from here on, if there is room. */
void written_begin(struct written *written, uint32_t region);
/* It is clean. */
void written_clean(struct written *written, uint32_t region);
/* Nobody knows any more. */
void written_forget(struct written *written, uint32_t region);

void written_note(struct written *written, uint64_t row);
bool written_known(const struct written *written, uint32_t region);
/* 64 rows of a known region, a bit each. */
uint64_t written_word(const struct written *written, uint32_t region, size_t word);

/* A round begins; those that write now note their rows again after this.  Was there anything to be
 * learned, then tell written_learn() of each dirty region that is not known.
 */
bool written_flush_begins(struct written *written);
void written_learn(struct written *written, uint32_t region);
void written_flush_ends(struct written *written, bool good);

#endif
