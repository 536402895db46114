/* record.h - what is on record on all members: superblocks, the region map, the table of lost
 * extents; and flushes.
 *
 *	metadata.c	superblocks			marks.c		the region map
 *	lost.c		the table of lost extents	flush.c		SYNCHRONIZE CACHE of all, in rounds
 *	epochs.c	the epochs that this gateway has on record
 *
 * Each is written to all members in sync at once, and tells those who wait when it is durable on
 * all that stay.
 */
#ifndef IRAID_ENGINE_RECORD_H
#define IRAID_ENGINE_RECORD_H

#include "engine/core/core.h"
#include "state/lost.h"

/* --- metadata.c: superblocks of all in-sync members and the target --- */

struct metadata {
	uint64_t wanted, writing; /* generations */
	uint64_t once, durable;	  /* one copy on each member has it; both have */
	int pending;
	/* written once: still to be written so often, to make it durable and say so */
	int again;
	uint64_t retry_ms;	/* after a failure */
	uint64_t epoch_written; /* of the last superblock that was sent; 0: none was */
	/* Of the member that is being filled, as target.c has it. */
	uint64_t target_record; /* generation that knows of it */
	bool target_is_new;	/* it lacks everything, and no superblock says so yet */
	/* copies of its superblock that may be of another count than the one others are to be told
	 * of
	 */
	int target_uncounted;
	/* generation in which those in sync say that it is about to be; 0: not yet */
	uint64_t target_announced;
	/* Roles that were on record as in sync, or as undecided, and are out since this start: its
	 * epoch is not remembered yet.
	 */
	uint32_t left_at_start;
	uint8_t other_at_start[16]; /* other_holder of that record, so long */
	/* Roles in sync that have to hear of a take-over: it is on record that they may not have. */
	uint32_t roles_to_hear;
	/* Until enough have nobody's eviction is on record: it would rule over what the gateway before
	 * does with that one.
	 */
	bool unheard;
};

/* returns the generation to wait for in metadata.durable */
uint64_t metadata_commit(struct engine *engine);
void metadata_run(struct engine *engine);
/* ... by all members that may stay */
bool metadata_known(const struct engine *engine, uint64_t generation);
/* This gateway has on record that somebody is out: other gateways are told so. */
void metadata_decided(struct engine *engine);
/* Nobody is named any more who is to be asked by other gateways. */
bool metadata_is_decided(const struct engine *engine);
bool metadata_idle(const struct engine *engine); /* nothing unwritten, nothing under way */
/* Of the member that is being filled. */
bool metadata_target_heard(const struct engine *engine);
/* what it was sent counts as held by it */
bool metadata_target_may_clean(const struct engine *engine);
/* may others be told how many superblocks it has? */
bool metadata_target_counted(const struct engine *engine);
/* Has it heard, in both copies, that it is out, as member.untold asks for?  record: of others, which
 * says so.  Then it is no member to whoever meets it alone.  Ask in each turn; also true when it can't
 * be told.
 */
bool metadata_out_told(struct member *member, const struct superblock *record);

/* --- epochs.c --- */

struct epochs {
	uint64_t kept[EPOCH_KINDS]; /* on record */
	/* one is asked for at a time */
	bool under_way;
	enum epoch_kind kind;
	uint64_t asked;
	uint64_t asked_ms;
	uint64_t retry_ms; /* after a refusal */
	int error;	   /* of the last that was answered, or is late; 0: none */
	char refusal[448]; /* what an administrator is told of that */
};

/* as engine_epoch_recorded() */
void epochs_recorded(struct engine *engine, enum epoch_kind kind, uint64_t epoch, int error);
/* Is this epoch, or a later one, on record?  If not it is asked for: ask again in the next turn. */
bool epochs_keep(struct engine *engine, enum epoch_kind kind, uint64_t epoch);
void epochs_run(struct engine *engine);
/* Why what was asked for last is not on record, or NULL: it is, or an answer is awaited. */
const char *epochs_refusal(const struct engine *engine);
uint64_t epochs_deadline(const struct engine *engine);

/* --- flush.c --- */

struct flush_waiter {
	struct list node;
	uint64_t since_ms;
	void (*done)(struct flush_waiter *waiter, int result);
	/* of what a cache took along: a flush that a request asks for, see flush.c */
	bool told;
};

struct flush {
	struct list next; /* waiters for the next round */
	struct list now;  /* waiters of the round under way */
	int pending;
	int result;
	struct flush_waiter start_waiter;
	/* the record that was found says that the last gateway stopped in order */
	bool found_clean;
	/* a member is back without its cache, which others can't make up for: the next flush must
	 * fail, whatever becomes of the member
	 */
	bool loss_untold;
	/* one has failed for it: so do those of others until then */
	uint64_t told_until_ms;
};

void flush_init(struct engine *engine);
void flush_join(struct engine *engine, struct flush_waiter *waiter);
void flush_what_was_left(struct engine *engine);
/* and nobody makes up for it: flushes have to tell */
void flush_cache_lost(struct member *member);
void flush_run(struct engine *engine);
void flush_overdue(struct engine *engine);
uint64_t flush_deadline(const struct engine *engine);

/* --- marks.c --- */

#define MAP_BATCH 16 /* map blocks written at a time */

struct marks {
	struct engine *engine;
	struct list waiters; /* of region_hold.node */
	struct list writing; /* of row_note.node */
	uint8_t *buffer;     /* MAP_BATCH blocks being written */
	uint32_t blocks[MAP_BATCH];
	int batch, pending;
	/* of the batch; before the volume runs, why its maps could not be loaded */
	int error;
	uint64_t retry_ms; /* after a failure */
	bool cleaning;
	struct flush_waiter clean_waiter;
	uint64_t clean_ms;
	uint64_t changes, sent, durable; /* generations: asked for, under way, durable */
	uint32_t turn;	       /* the next block whose turn it is; 0: a new turn of all begins */
	uint64_t turn_changes; /* `changes` when this one began */
};

/* Rows that are being written. */
struct row_note {
	struct list node; /* of engine->marks->writing */
	uint64_t first, last;
	uint32_t among; /* of these, bits from the first on; 0: all */
};

/* Somebody who writes rows, and whose regions must be marked as dirty meanwhile. */
struct region_hold {
	struct list node; /* of engine->marks->waiters */
	struct row_note note;
	uint64_t since_ms;
	uint32_t first, last; /* regions */
	bool active;
	void (*ready)(struct region_hold *hold, int error);
};

int marks_init(struct engine *engine); /* 0 or -ENOMEM */
void marks_free(struct engine *engine);
void marks_run(struct engine *engine);
uint64_t marks_deadline(const struct engine *engine);
void marks_expire(struct engine *engine);     /* fail those who wait for silent members */
bool marks_idle(const struct engine *engine); /* nothing unwritten, nothing under way */
uint64_t marks_commit(struct engine *engine); /* generation to wait for in marks.durable */
void marks_all(struct engine *engine);	      /* somebody new needs the whole map */
/* Rows are about to be written.  True: their regions' marks are durable.  Else marks_wait() has
 * hold->ready called when they are, with 0, or when they can't be, with -ETIMEDOUT or -ESHUTDOWN;
 * perhaps at once.
 */
bool
marks_hold(struct engine *engine, struct region_hold *hold, uint64_t first_row, uint64_t last_row);
/* The same of some rows: bits from the first on. */
bool marks_hold_some(struct engine *engine, struct region_hold *hold, uint64_t first_row,
		     uint32_t among);
/* its rows are written now, if it is held */
void marks_begins(struct engine *engine, struct region_hold *hold);
/* Rows of marked regions are written from here on; until then.  marks_drop() does the latter by
 * itself.
 */
void marks_writes(struct engine *engine, struct row_note *note, uint64_t first_row, uint32_t among);
void marks_wrote(struct row_note *note);
/* the same, before marks_drop(): a flush comes first */
void marks_written(struct region_hold *hold);
/* Something was written to these rows, and nobody knows what stands there: they are suspect. */
void marks_failed(struct engine *engine, uint64_t first_row, uint64_t last_row);
void marks_wait(struct engine *engine, struct region_hold *hold);
/* written, or given up; also if not held */
void marks_drop(struct engine *engine, struct region_hold *hold);
/* those who wait: marks became durable, or can't */
void marks_tell(struct engine *engine, int error);
void marks_overdue(struct engine *engine); /* those who wait too long can't have them */

/* --- lost.c --- */

/* Told when what was changed in the table of lost extents before is durable. */
struct lost_waiter {
	struct list node;
	uint64_t since_ms; /* as member_io.since_ms */
	void (*done)(struct lost_waiter *waiter, int error);
};

struct lost_io {
	struct list waiters; /* of lost_waiter.node */
	uint8_t *buffer;     /* the whole table, as it is sent */
	int pending;
	int error;
	uint64_t retry_ms;	  /* after a failure */
	uint64_t record_retry_ms; /* what is suspect could not be listed */
	/* record generation that has to be known before an empty block has entries; or 0 */
	uint64_t said;
	/* the superblocks may not know yet which blocks are empty */
	bool unsaid;
	/* lost->free_count when it was full: with more there is room again */
	uint32_t free_then;
	bool recording; /* suspect rows of a degraded volume are being recorded */
	struct lost_waiter *record;
};

int lost_io_init(struct engine *engine);
void lost_io_run(struct engine *engine);
void lost_io_wait(struct engine *engine, struct lost_waiter *waiter);
/* those who wait: it is durable, or can't be */
void lost_io_tell(struct engine *engine, int error);
void lost_io_overdue(struct engine *engine);
uint64_t lost_io_deadline(const struct engine *engine);
bool lost_io_idle(const struct engine *engine);
/* what is missing is being recorded: operations wait */
bool lost_io_recording(const struct engine *engine);
/* it is, or will be as soon as enough members are back */
bool lost_io_undecided(const struct engine *engine);
/* Takes in a member's table.  known: by granule, some table of it could be read.  Of a known one,
 * only what is lost of the member's own chunks is taken in, if `own`.  False: some of it is
 * damaged.
 */
bool lost_io_load(struct engine *engine, const struct member *member, const uint8_t *table,
		  bool own, bool *known);
/* in the record: which blocks of the table are empty */
void lost_io_say(struct engine *engine);
void lost_io_all(struct engine *engine); /* somebody new needs the whole table */
void lost_io_free(struct engine *engine);
/* Does the volume's range have a byte that can't be known? */
bool lost_in_range(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);
/* Must the table forget, durably, what a write of the range made known, before that is
 * acknowledged? Also while the table is not settled: members may list what was accepted or
 * overwritten, and after a crash theirs counts.
 */
bool lost_concerns_write(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);
/* These columns are known again.  0, -ENOSPC. */
int lost_forget(struct engine *engine, uint64_t row, uint8_t role, uint32_t column_begin,
		uint32_t column_end);
/* The range was overwritten (or accepted).  0, -ENOSPC. */
int lost_overwrite(struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);

#endif
