/* write_log.h - what is about to be written to rows stands on members before any of it is written,
 * so that a crash while members are out costs nothing (docs/design/write-log.md; the records:
 * pure/log_record.h).
 *
 *	operation --> waiting --> record, on f + 1 - m members, durable --> rows --> flushed --> the tail
 *
 * Small writes may be acknowledged when their data is durable there (io/write_back.c).
 *
 * An opening of the log has a key, which is in the superblocks, and records from 1 on.  Who opens and
 * closes it: life/log_mode.c.  While that is under way, from LOG_DRAINS on, no write of a row begins;
 * but in LOG_EMPTIES those of what is held.
 */
#ifndef IRAID_ENGINE_WRITE_LOG_H
#define IRAID_ENGINE_WRITE_LOG_H

#include "record.h"
#include "pure/log_record.h"
#include "pure/parity.h"

#define LOG_UNDER_WAY 8 /* records at a time */
#define LOG_LIVE_MAX 16384u
#define LOG_LIVE_BYTES_MAX (64u << 20) /* a start replays no more */

struct logged_piece {
	struct log_piece piece;
	struct iov_run bytes; /* what it holds; not of rows of zeros */
	/* Those up to the next that begins a part are in one record: P and data of the same columns.
	 */
	bool begins_part;
};

/* What an operation logs before it touches its rows; a part of its memory. */
struct logged {
	struct list node; /* of write_log.waiting */
	struct list live; /* of write_log.live: in some record, and not in its rows yet */
	struct logged_piece *pieces;
	int count, capacity;
	int next;	      /* the first that is in no record yet */
	uint64_t first, last; /* of its records; 0: there is none */
	uint64_t since_ms;
	bool is_held;	  /* another writes what it has logged to its row, and logs that first: */
	bool writes_back; /* this one.  So it makes room, and goes before others */
	/* Its records, and all before them, are durable: 0.  -EAGAIN: the log is given up, begin
	 * again; -ETIMEDOUT, -ESHUTDOWN.
	 */
	void (*ready)(struct logged *logged, int error);
};

struct log_place {	/* a member's log area, by role */
	uint64_t *last; /* by segment: the last record there, of this opening; 0: none */
	uint32_t segment, used_bytes;
	bool refuses;
};

struct record_io {
	struct engine *engine;
	uint8_t *bytes; /* header and payload */
	uint32_t length_bytes;
	uint64_t sequence, tail;
	uint32_t asked; /* roles */
	int pending;
	bool busy, failed, durable;
};

/* How the opening changes (life/log_mode.c). */
enum log_step {
	LOG_STEADY,
	LOG_WARMS,   /* not open: what is in caches is flushed, beside writes */
	LOG_SETTLES, /* open: what is held comes to its rows, beside writes */
	LOG_DOUBTS,  /* it is broken, and holds something: superblocks say that rows may not fit */
	LOG_EMPTIES, /* ... and that comes to its rows, without records */
	LOG_DRAINS,  /* writes end */
	LOG_FLUSHES, /* and are flushed */
	LOG_EMPTY,   /* a place may change hands now */
	LOG_RECORDS, /* superblocks say so */
};

struct write_log {
	bool on;
	uint64_t next, durable;	     /* sequences: of the next record; up to this one all are */
	uint64_t tail, tail_durable; /* before it all are in their rows; and members know it */
	uint32_t digest;	     /* of the last record */
	uint64_t epoch, run_first;   /* when this run opened it, or resumed; and its first record */
	uint32_t segment_bytes, segments;
	struct log_place places[IRAID_MEMBERS_MAX];
	int turn; /* the role that is asked first */
	struct record_io records[LOG_UNDER_WAY];
	struct list waiting, live;
	struct {
		uint32_t bytes[LOG_LIVE_MAX]; /* of record s: [s % LOG_LIVE_MAX] */
		uint64_t sum;
		uint64_t ever; /* of all records, also of older openings */
	} sizes;
	struct { /* rows of zeros in records from tail_durable on, which a start writes */
		uint32_t rows[LOG_LIVE_MAX]; /* of record s: [s % LOG_LIVE_MAX] */
		uint64_t sum;
	} zeros;
	uint64_t held_bytes; /* that are logged when all that is held is written to its rows, at most */
	bool blocked;	     /* there is no room for what waits */
	bool pressed;	     /* ... for what would be held; until members know of a higher tail */
	bool had_pending; /* this opening has a piece of that kind */
	/* It can't be written; or rows may be torn whose records must stay. */
	bool failed, spoiled;
	bool gap;      /* a record failed: those behind it will never count */
	bool full;     /* ... for nothing but that: all that is live waits for room */
	bool cautious; /* it was full, and began anew: operations begin with half of the room */
	uint32_t cache_losses; /* engine->cache_losses when it was opened */
	struct flush_waiter flush;
	bool flushing;
	uint64_t flushing_to;
	uint64_t flush_again_ms; /* after a failure */

	enum log_step step;
	bool renews;	 /* it goes on with another key, as a place changes hands */
	bool offered;	 /* EMPTY has been seen by whoever wants it */
	bool moving;	 /* a place changes hands now */
	uint64_t record; /* generation of superblocks that says so */
	uint64_t retry_ms;
	bool given_up; /* until an administrator, or the next start, tries it again */
	struct flush_waiter step_flush;
	uint32_t step_doubts; /* intent.doubts when that began */
	bool step_proven;     /* nothing was suspect then */
	bool proving;	      /* the same flush, while it stays open */
	int writers;	      /* operations that are past their waiting */
	struct engine *engine;
};

void write_log_init(struct engine *engine);
void write_log_free(struct engine *engine);
void write_log_run(struct engine *engine);
uint64_t write_log_deadline(const struct engine *engine);

/* What is written to rows that have redundancy is to be logged. */
bool write_log_on(const struct engine *engine);
/* It is open and can't go on, and superblocks name it yet: what it has will be replayed, also where
 * nobody waits for that any more.
 */
bool write_log_is_broken(const struct engine *engine);
/* No write of a row may begin. */
bool write_log_holds(const struct engine *engine);
/* But those of what it holds may, and without a record. */
bool write_log_is_emptied(const struct engine *engine);
/* A place may change hands: nothing in the log is needed any more, and nothing is added. */
bool write_log_is_empty(const struct engine *engine);
/* ... is wanted */
void write_log_renew(struct engine *engine);
/* No row has been suspect since the last flush of log_mode.c began. */
bool write_log_stayed_proven(const struct engine *engine);
/* It does: missing, from then on.  Before metadata_commit(). */
void write_log_moves(struct engine *engine, uint32_t missing);

/* The members' logs are large enough. */
bool write_log_fits(const struct engine *engine);
/* Rows of one operation that they have room for; all, where they have none for one. */
uint64_t write_log_rows_max(const struct engine *engine);
int write_log_prepare(struct engine *engine); /* memory: 0 or -ENOMEM */
/* after both: it is empty */
void write_log_open(struct engine *engine);
/* An opening that a start has replayed goes on, for it holds something.  Records from `tail` to
 * `end` - 1 are kept, so many bytes in all; digest: of the last.  Then write_log_stands() for each
 * segment that has something.
 */
void write_log_resume(struct engine *engine, uint64_t tail, uint64_t end, uint64_t bytes,
		      uint32_t digest);
void write_log_stands(struct engine *engine, int role, uint32_t segment, uint64_t sequence);
void write_log_close(struct engine *engine);
bool write_log_idle(const struct engine *engine); /* no record is under way */
/* A new opening, or none, is in the superblocks that are written from now on.  missing: roles that
 * are; proven: no row is suspect, and that is flushed.
 */
void write_log_say(struct engine *engine, bool open, uint32_t missing, bool proven);
/* The same of an opening that goes on: rows may not fit, even when all is replayed. */
void write_log_say_doubtful(struct engine *engine);
/* So many members are missing: the volume is to have a log. */
bool write_log_wanted(const struct engine *engine, uint32_t missing);

/* --- operations --- */

void logged_begin(struct logged *logged); /* no pieces */
int logged_add(struct logged *logged, const struct log_piece *piece, struct iov_run bytes,
	       bool begins_part); /* 0 or -ENOMEM */
void logged_free(struct logged *logged);
/* The bytes that one part may have. */
uint32_t write_log_part_bytes(const struct engine *engine);
void write_log_append(struct engine *engine, struct logged *logged);
/* Something was acknowledged before it was written to its row, in this opening. */
bool write_log_had_pending(const struct engine *engine);
/* Records from this one on are kept for it, from now on. */
void write_log_keep(struct engine *engine, struct logged *logged, uint64_t sequence);
/* What will fit, whatever becomes of the tail. */
uint64_t write_log_sure_bytes(const struct engine *engine);
/* What is promised, and so many bytes more, will. */
bool write_log_bears(struct engine *engine, uint64_t more_bytes);
/* Something more may be held. */
bool write_log_may_hold(const struct engine *engine);
/* When so much has been logged since, what is held comes to its row: in time before there is no room.
 */
uint64_t write_log_window_bytes(const struct engine *engine);
/* It has ended: its rows are written, or were not touched. */
void write_log_release(struct logged *logged);
/* It has failed, and its rows may be torn. */
void write_log_spoil(struct engine *engine, struct logged *logged);
void write_log_overdue(struct engine *engine);

#endif
