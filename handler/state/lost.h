/* lost.h - extents of the volume whose content can't be known (DESIGN rule 9), as the members'
 * table of lost extents has them.  No I/O: engine/record/lost.c makes it durable.
 *
 * A lost extent is a rectangle: some rows, one role, an interval of columns of that role's chunk.
 * It counts in rows where that role holds data; where it holds parity it means nothing.  What
 * stands on the members there is consistent (parity fits), but is not what was written last: reads
 * fail with a medium error until the bytes are overwritten, or an administrator accepts them as
 * they are.
 *
 * Entries keep their places in the table, so that writing one granule (512 bytes, never torn) can't
 * harm another's entries.  Taking a piece out of an extent leaves up to four smaller ones.  Where
 * they find no room in the granule of the entry they come from, they are durable before that entry
 * is removed, or a torn update would forget some of it.  Hence two phases:
 *
 *	while (lost_take_dirty(...)) write the granule to all members; when durable:
 *	lost_written();  and again until lost_settled().
 *
 * One batch at a time: lost_written() is about everything that was taken.  The table may change
 * between lost_take_dirty() and lost_written(); what changed is dirty again and is settled by the
 * next round.
 *
 * When members disagree because an update was torn, what one of them has counts.  For that to give
 * neither more than what was lost at some time since the last settled state nor less than what has
 * been lost all along, the contents of a slot that can stand on members at the same time are
 * nested: a slot is not used anew, nor shrunk after it grew, before its granule is durable on all.
 */
#ifndef IRAID_LOST_H
#define IRAID_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "../pure/lost_extent.h"

#define LOST_ENTRIES (LAYOUT_LOST_GRANULES * LAYOUT_LOST_ENTRIES)
/* Nothing new is taken in behind this one: the rest is for what remains of entries that are
 * overwritten in part, or else a full table would make such writes fail.
 */
#define LOST_CAPACITY (LOST_ENTRIES - LOST_ENTRIES / 8)

enum lost_entry_state {
	LOST_FREE,
	LOST_VALID,
	/* counts no more, but stays on the members until others stand in for it */
	LOST_REMOVING,
	LOST_FREED, /* free, but maybe not yet on all members */
};

/* of a slot, since its granule was durable on all members */
enum lost_change {
	LOST_STABLE,
	LOST_NEW,   /* and as large as it ever was */
	LOST_GROWN, /* or members may disagree */
	LOST_SHRUNK,
};

struct lost {
	struct lost_extent entries[LOST_ENTRIES];
	uint8_t states[LOST_ENTRIES];  /* enum lost_entry_state */
	uint8_t changes[LOST_ENTRIES]; /* enum lost_change */
	/* of one being removed: granules that must be durable */
	uint8_t heirs[LOST_ENTRIES][4];
	uint8_t heir_counts[LOST_ENTRIES];
	bool dirty[LAYOUT_LOST_GRANULES];    /* differs from what was last sent */
	bool deferred[LAYOUT_LOST_GRANULES]; /* to be sent after all others */
	uint32_t count;			     /* valid entries */
	uint32_t removing;
	uint32_t free_count;
	/* slots from this one on are for pieces only; LOST_CAPACITY but in tests */
	uint32_t capacity;
	uint32_t dirty_count;
	uint32_t taken_count; /* since lost_written() */
	struct lost_index {
		uint64_t reach; /* first row behind this one and all before it */
		uint16_t slot;
		/* valid entries by first row; one array: gcc 12 -O1 loses stores to two */
	} order[LOST_ENTRIES];
};

void lost_init(struct lost *lost);

/* Take in what one member's granule says, but for rows behind the volume's end, which is where it
 * was before a growth that a crash cut short.  in: LAYOUT_GRANULE_BYTES; all zeros is empty.
 * Called for each member in turn; an extent counts if any member has it.  What is taken in is
 * dirty, since members may disagree.  False if its CRC is wrong, an entry is out of bounds (nothing
 * is taken in), or the table has no room for one that contradicts another member's: then the table
 * lacks something.
 */
bool lost_load(struct lost *lost, uint32_t granule, const uint8_t volume_uuid[16],
	       const uint8_t *in, const struct geometry *geometry);

/* The same, of one role's extents only.  What is not taken in stands on that member all the same:
 * it is to be overwritten.
 */
bool lost_load_role(struct lost *lost, uint32_t granule, const uint8_t volume_uuid[16],
		    const uint8_t *in, const struct geometry *geometry, uint8_t role);

void lost_encode(const struct lost *lost, uint32_t granule, uint64_t epoch,
		 const uint8_t volume_uuid[16], uint8_t *out);

/* 0; -ENOSPC when the table is full (some of it may be in).  An extent that continues one of the
 * table enlarges that; what is covered already adds nothing.  Bytes that are lost with and without
 * LOST_HELD are lost without: nobody holds them any more.
 */
int lost_add(struct lost *lost, const struct lost_extent *extent);

/* Any lost byte in these columns of `role` in `row`? */
bool lost_overlaps(const struct lost *lost, uint64_t row, uint8_t role, uint32_t column_begin,
		   uint32_t column_end);

/* First lost interval of (row, role) at or behind column `from`: into *begin, *end, *flags.  False:
 * none.  One with LOST_HELD and one without that touch are two intervals.
 */
bool lost_next(const struct lost *lost, uint64_t row, uint8_t role, uint32_t from, uint32_t *begin,
	       uint32_t *end, uint8_t *flags);

/* First row at or behind `row` in which anything of any role is lost; UINT64_MAX: none. */
uint64_t lost_next_row(const struct lost *lost, uint64_t row);

/* These columns are known again.  0; -ENOSPC when what is left does not fit in the table (nothing
 * changed): there may be room when the table is settled.
 */
int lost_remove(struct lost *lost, uint64_t row, uint32_t rows, uint8_t role, uint32_t column_begin,
		uint32_t column_end);

/* Nobody holds the truth of this role's extents any more: another device gets its place. */
void lost_unhold(struct lost *lost, uint8_t role);

/* The next granule to write in this phase; its mark is taken off.  False: none left. */
bool lost_take_dirty(struct lost *lost, uint32_t *granule);
/* its write failed, or somebody new needs it */
void lost_mark_dirty(struct lost *lost, uint32_t granule);
void lost_written(struct lost *lost); /* all that was taken is durable */
/* Bit b: no entry of any state in block b of the table (LAYOUT_LOST_BLOCK_GRANULES granules). */
uint32_t lost_empty_blocks(const struct lost *lost);
bool lost_settled(const struct lost *lost); /* nothing dirty, under way, or being removed */

#endif
