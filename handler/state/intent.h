/* intent.h - the region map in memory: which regions are dirty, and what is known of their parity.
 * No I/O: engine/intent_io.c makes it durable.
 *
 * Of each region three things are kept apart:
 *
 *   flags	what the members' maps should say (REGION_* of layout.h)
 *   durable	what every in-sync member's map says at least now.  Set flags count only when
 *		their write has completed; cleared ones count as soon as their write is sent.
 *   suspect	dirty from an earlier epoch: parity proves nothing, except in rows proven since
 *
 * A fresh region was never written before this assembly.  As long as all members are there its
 * parity is as suspect as any; but when a member goes, whatever parity says becomes the content
 * of that member's never-written bytes, so nothing is lost (intent_member_lost).
 */
#ifndef IRAID_INTENT_H
#define IRAID_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "../pure/layout.h"

struct intent {
	uint32_t regions;
	uint32_t region_rows;
	uint64_t rows;
	uint32_t blocks;		/* of the map, LAYOUT_MAP_BLOCK_BYTES each */
	uint8_t *flags;
	uint8_t *durable;
	uint8_t *traits;		/* INTENT_SUSPECT, INTENT_FRESH */
	uint16_t *active;		/* writes in flight */
	uint32_t *touched;		/* generation of the last write's end */
	uint64_t **proven;		/* of a suspect region: bit per row, NULL if none */
	bool *block_dirty;		/* flags differ from what was last sent */
	uint32_t generation;		/* raised by each cleaning round */
	uint32_t dirty_count;		/* regions, by flags */
	uint32_t suspect_count;
	uint32_t stale_count;
};

/* 0 or -ENOMEM.  All flags 0. */
int intent_init(struct intent *intent, uint64_t rows, uint32_t region_rows);
void intent_destroy(struct intent *intent);

/* Add what one member's map says, before the volume runs: dirty and stale if any says so, unwritten
 * only if all do.  first: the first member's.
 */
void intent_merge(struct intent *intent, const uint8_t *flags, bool first);

/* All maps are merged: dirty regions are suspect from here on. */
void intent_loaded(struct intent *intent);

/* A member is out from now on, durably: what is dirty is stale on it. */
void intent_member_lost(struct intent *intent);

uint32_t intent_region(const struct intent *intent, uint64_t row);
bool intent_row_suspect(const struct intent *intent, uint64_t row);

/* A write to the region begins.  degraded: a member is out. Returns whether it may go on at once, that is
 * whether the flags it needs are durable; else intent_ready() says when.
 */
bool intent_begin(struct intent *intent, uint32_t region, bool degraded);
bool intent_ready(const struct intent *intent, uint32_t region, bool degraded);
void intent_end(struct intent *intent, uint32_t region);

/* The row's parity was just written from all of its data (or found right). */
void intent_prove(struct intent *intent, uint64_t row);

/* A write failed half way: the region's parity is unknown again, proven or not. */
void intent_suspect(struct intent *intent, uint32_t region);

/* Every region that is dirty now is suspect (a cache may have been lost). */
void intent_suspect_dirty(struct intent *intent);

/* First suspect region at or after `from`, or -1. */
int64_t intent_next_suspect(const struct intent *intent, uint32_t from);
/* All rows of a region are proven: it is dirty still, until cleaned, but no longer suspect. */
void intent_region_proven(struct intent *intent, uint32_t region);

/* Cleaning: regions that were quiet for a whole generation lose their dirty flag once all members
 * have flushed.  intent_clean_begin raises the generation and says whether there is anything to clean;
 * after the flush intent_clean_end clears, sparing what was written since.
 */
bool intent_clean_begin(struct intent *intent);
uint32_t intent_clean_end(struct intent *intent);

#endif
