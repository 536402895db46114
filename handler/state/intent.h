/* intent.h - the region map in memory: which regions are dirty, and what is known of their parity.
 * No I/O: engine/record/marks.c makes it durable.
 *
 * Of each region these are kept apart:
 *
 *   flags	what the members' maps should say (REGION_* of layout.h)
 *   durable	what every in-sync member's map says at least now.  Set flags count only when
 *		their write has completed; cleared ones count as soon as their write is sent.
 *   suspect	dirty from an earlier epoch, or with rows whose write failed or may be lost: parity proves nothing, except in
 *		rows proven since, or before
 *   doubted	by `doubts`, when it last became suspect: who was a member until then holds the truth of its own chunks
 *   defined	suspect, but what a missing member held there is what code_make() says, for what was lost is on record;
 *		some redundancy is left that need not fit (level 6 with one member out)
 *   undecided	rows of a region that was defined, which became suspect since: what is lost of them is to be put on record, and
 *		all of it is defined again.  The region's other rows are defined meanwhile
 *   leaning	defined as long as there is the target, whose chunks need not fit P and Q, and count in what code_make() says
 *   copied	stale on the target still, by its flag, but all rows are on it: the flag is cleared
 *		once the target has flushed
 *
 * A fresh region was never written before this assembly.  As long as all members are there its
 * parity is as suspect as any; but when a member goes, whatever parity says becomes the content of
 * that member's never-written bytes, so nothing is lost (intent_member_lost).  Until it was clean
 * once, a resync may just have made all of its parity (raw), and a lost cache may take along any of
 * it; then, what was written since the last flush, as elsewhere.
 *
 * While the engine lives it knows which rows it wrote since all members were flushed (written.h):
 * only those become suspect when a write fails or a cache may be lost, and in a fresh region only
 * those are not fresh any more (unsure).  Of which regions that is not known, those count as a
 * whole, as after a crash.
 *
 * Stale flags: `absent` is the sets of members that get no writes; every write sets them.  `target`
 * is the set of the member that is being filled: rows it lacks are in regions with that flag, and
 * writes to the other rows go to it too.  A stale flag need not be durable before its write: after
 * a crash what is dirty counts as stale on everybody who is tracked, and dirty is cleared in the
 * same 512 bytes that set stale.
 */
#ifndef IRAID_INTENT_H
#define IRAID_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "../pure/layout.h"
#include "row_bits.h"
#include "written.h"

struct intent {
	uint32_t regions;
	uint32_t region_rows;
	uint64_t rows;
	uint32_t blocks; /* of the map, LAYOUT_MAP_BLOCK_BYTES each */
	uint8_t *flags;
	uint8_t *durable;
	uint8_t *traits;   /* INTENT_SUSPECT and others, which intent.c has */
	uint16_t *active;  /* writes in flight */
	uint32_t *touched; /* generation of the last write's end */
	uint32_t *doubted; /* `doubts` when it last became suspect; 0: at assembly */
	/* `doubts` when what the target had of it last ceased to count */
	uint32_t *uncopied;
	struct row_bits bits; /* where the next three get theirs from */
	uint64_t **proven;    /* of a suspect region: bit per row, NULL if none */
	/* of a suspect fresh region: rows that are not fresh, NULL if none */
	uint64_t **unsure;
	/* of a suspect region that was defined: rows that are so no longer; NULL: all */
	uint64_t **undecided;
	struct written written;
	bool *block_dirty;    /* flags differ from what was last sent */
	uint32_t generation;  /* raised by each cleaning round */
	uint32_t dirty_count; /* regions, by flags */
	uint32_t suspect_count;
	uint32_t defined_count; /* of the suspect */
	/* of the suspect: written to, and suspect since a cache was lost, or before; no others */
	uint32_t taken_count;
	uint32_t stale_count;		      /* with any stale flag */
	uint32_t stale_in[LAYOUT_STALE_SETS]; /* with the flag of this set */
	uint32_t doubts;		      /* raised whenever something becomes suspect */
	/* `doubts` when it was last not known to be certain rows, or regions, only */
	uint32_t doubted_all;
	/* `doubts` when one of the regions last became suspect as a whole */
	uint32_t doubted_whole;
	uint8_t absent; /* REGION_STALE() of members that get no writes */
	/* REGION_STALE() of the member that is being filled, or 0 */
	uint8_t target;
	/* somebody else has its place yet, and what is on both must be the same */
	bool target_doubles;
	int64_t copying;       /* region that is being copied to the target, or -1 */
	uint64_t copied_until; /* rows of it below this one are on the target */
	uint32_t copied_count; /* regions that are copied and not flushed */
};

/* 0 or -ENOMEM.  All flags 0. */
int intent_init(struct intent *intent, uint64_t rows, uint32_t region_rows);
/* There are more rows now.  Those of new regions were never written; those of what was the last
 * region fit.  redundant: as parity and copies have still to be made there, they are dirty.  The
 * map is to be written.  0 or -ENOMEM, then nothing has changed.
 */
int intent_grow(struct intent *intent, uint64_t rows, bool redundant);
void intent_destroy(struct intent *intent);

/* Add what one member's map says, before the volume runs: dirty and stale if any says so, unwritten
 * only if all do.  first: the first member's.
 */
void intent_merge(struct intent *intent, const uint8_t *flags, bool first);

/* Of these regions the last member's map could not be read: no mark counts as durable until it is
 * written anew.
 */
void intent_unread(struct intent *intent, uint32_t first, uint32_t count);

/* All maps are merged: dirty regions are suspect from here on. */
void intent_loaded(struct intent *intent);

/* A member is out from now on, durably: what is dirty is stale on everybody in absent and target.
 * Fresh regions stop being suspect if no redundancy is left (bare), else they are defined; what was
 * defined is so no longer.
 */
void intent_member_lost(struct intent *intent, bool bare);
/* What is dirty is stale on everybody in absent and target. */
void intent_mark_absent(struct intent *intent);

/* --- the member that is being filled --- */

/* It lacks all regions that have its flag already; all: every region.  doubles: it is copied from a
 * member that has the place.  Then what becomes suspect is copied once more: a write may have
 * failed, or a cache have been lost, on one of the two alone, and rows are proven by what the
 * member holds.
 */
void intent_target_begin(struct intent *intent, uint8_t stale, bool all, bool doubles);
/* From now on it alone counts, or is about to: that member is out, or is told to go. */
void intent_target_single(struct intent *intent);
/* It is gone: what was not flushed on it, or is dirty, is stale, and it is absent.  What leant on
 * it is undefined.
 */
void intent_target_lost(struct intent *intent);
/* In this suspect region parity is about to define what the missing member held, whose place it
 * takes: what was copied to it there is not that, and is copied again.
 */
void intent_target_doubted_in(struct intent *intent, uint32_t region);
/* In all of them. */
void intent_target_doubted(struct intent *intent);
/* It is a full member.  Its set is to be forgotten when nobody is tracked by it any more. */
void intent_target_done(struct intent *intent);
/* Is this row on the target?  False if there is none. */
bool intent_row_on_target(const struct intent *intent, uint64_t row);
/* First region at or after `from` that is to be copied to it, or -1. */
int64_t intent_next_stale(const struct intent *intent, uint32_t from);
/* rows of a region in ascending order */
void intent_row_copied(struct intent *intent, uint64_t row);
/* The region that is being copied can't be finished now: it will be copied from its first row,
 * later.
 */
void intent_copy_given_up(struct intent *intent);
uint32_t intent_to_copy(const struct intent *intent); /* regions not copied yet */
/* regions with this one flag */
uint32_t intent_stale(const struct intent *intent, uint8_t stale);

/* Nothing on whom this set tracks is believed. */
void intent_lacks_all(struct intent *intent, uint8_t stale);

/* These sets belong to nobody (any more). */
void intent_forget(struct intent *intent, uint8_t stale);

/* A member was taken as it stands although it is out of date: where it is stale (0: everywhere),
 * parity is suspect.  unwritten_known: one of the maps is not of an older time, so what it calls
 * unwritten nobody wrote since the member left; it stays fresh.
 */
void intent_forced(struct intent *intent, uint8_t stale, bool unwritten_known);

uint32_t intent_region(const struct intent *intent, uint64_t row);
bool intent_row_suspect(const struct intent *intent, uint64_t row);
/* never written before this assembly */
bool intent_row_fresh(const struct intent *intent, uint64_t row);
/* Its region is, or was until other rows of it became suspect. */
bool intent_row_defined(const struct intent *intent, uint64_t row);
/* Nothing in the row's region became suspect since `doubts` was this. */
bool intent_row_undoubted_since(const struct intent *intent, uint64_t row, uint32_t doubts);
/* One of these rows, which somebody has claimed since `doubts` was this, may be something else than
 * it was then.
 */
bool intent_rows_doubted_since(const struct intent *intent, uint64_t first, uint64_t last,
			       uint32_t doubts);
/* A region of these rows became suspect as a whole, whoever had claimed or proven its rows, and
 * whatever became of it since.
 */
bool intent_regions_doubted_since(const struct intent *intent, uint64_t first, uint64_t last,
				  uint32_t doubts);

/* A write to the region begins.  Returns whether it may go on at once, that is whether the flags it
 * needs are durable; else intent_ready() says when.
 */
bool intent_begin(struct intent *intent, uint32_t region);
bool intent_ready(const struct intent *intent, uint32_t region);
void intent_end(struct intent *intent, uint32_t region);
/* Rows of this region, which is suspect, are written without a mark: it is not cleaned before
 * intent_end(), though it may be suspect no longer by then, because a member went.
 */
void intent_keep(struct intent *intent, uint32_t region);
/* These rows will be written, between intent_begin() and intent_end() of their regions. */
void intent_note_rows(struct intent *intent, uint64_t first, uint64_t last);

/* All members are asked to flush: who writes now notes its rows again after this.  good: all did,
 * or are out.
 */
void intent_flush_begins(struct intent *intent);
void intent_flush_ends(struct intent *intent, bool good);

/* The row's parity was just written from all of its data (or found right). */
void intent_prove(struct intent *intent, uint64_t row);

/* A write failed half way: the parity of these rows is unknown again, proven or not; of other rows
 * nothing changes.
 */
void intent_suspect_rows(struct intent *intent, uint64_t first, uint64_t last);
/* The same of a whole region. */
void intent_suspect(struct intent *intent, uint32_t region);

/* All that was written since the last flush of all members is suspect: a cache may have been lost.
 * Returns how many regions count as a whole, because it is not known which of their rows were
 * written.  missing: some place has nobody in sync, though somebody may be filled for it; bare: as
 * for intent_member_lost().
 */
uint32_t intent_suspect_dirty(struct intent *intent, bool missing, bool bare);
/* The same of what the gateway before had written: a cache may have been lost that took nothing
 * since the start.
 */
uint32_t intent_suspect_left(struct intent *intent, bool missing, bool bare);
/* Before it, or after loading: a member was passed over by flushes that count as ones of all
 * members.  No row is known to be safe.
 */
void intent_flushes_void(struct intent *intent);
/* Is something lost of this row, if a member goes that has data in it? Not where a fresh row is
 * what parity makes of it.
 */
bool intent_row_losable(const struct intent *intent, uint64_t row);

/* First suspect region at or after `from`, or -1. */
int64_t intent_next_suspect(const struct intent *intent, uint32_t from);
/* that holds what somebody wrote */
int64_t intent_next_written_suspect(const struct intent *intent, uint32_t from);
/* First region at or after `from` that is suspect and not defined, or -1. */
int64_t intent_next_undefined(const struct intent *intent, uint32_t from);
bool intent_region_undefined(const struct intent *intent, uint32_t region); /* is this one? */
void intent_region_defined(struct intent *intent, uint32_t region);
/* is defined with what the target holds of it */
void intent_region_leans(struct intent *intent, uint32_t region);
bool intent_leans(const struct intent *intent); /* does any? */
/* Of some row, a chunk that is missing could not be known: it was written to, and is not proven. */
bool intent_is_unknowable(const struct intent *intent);
/* All rows of a region are proven (or what can't be is recorded as lost): it is dirty still, until
 * cleaned, but no longer suspect.
 */
void intent_region_proven(struct intent *intent, uint32_t region);

/* After loading, when the last gateway stopped in order: all that is suspect is on record as lost,
 * or is what the others make of it, and was flushed.  bare: as for intent_member_lost().
 */
void intent_all_recorded(struct intent *intent, bool bare);

/* Cleaning: regions that were quiet for a whole generation lose their dirty flag, and copied ones
 * the target's stale flag, once all members have flushed.  intent_clean_begin raises the generation
 * and says whether there is anything to clean; after the flush intent_clean_end clears, sparing
 * what was written (or copied) since.
 */
bool intent_clean_begin(struct intent *intent);
uint32_t intent_clean_end(struct intent *intent);
/* The same; whoever has this flag counts as one that missed what was written there. */
uint32_t intent_clean_end_without(struct intent *intent, uint8_t stale);
void intent_clean_failed(struct intent *intent);

#endif
