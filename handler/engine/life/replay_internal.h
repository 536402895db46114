/* replay_internal.h - what the files of a replay know of each other: replay.c, its steps;
 * replay_records.c, what the logs hold; replay_rows.c, what that makes of rows.
 */
#ifndef IRAID_ENGINE_REPLAY_INTERNAL_H
#define IRAID_ENGINE_REPLAY_INTERNAL_H

#include "internal.h"
#include "replay.h"
#include "engine/link/link.h"
#include "engine/record/write_log.h"
#include "state/log_replay.h"

#define REPLAY_WRITES_MAX 16 /* at a time */
#define REFUSED_MAX 64	     /* rows that a member refused to write; with more, all are suspect */
#define IMAGE_BUCKETS 1024u

enum replay_step {
	REPLAY_READS,
	REPLAY_LOADS,
	REPLAY_COPIES,
	REPLAY_WRITES,
	REPLAY_FLUSHES,
	REPLAY_DONE,
	REPLAY_REFUSED, /* a later release wrote it */
};

struct scan { /* of one member's log */
	struct replay *replay;
	uint8_t role;
	uint8_t *bytes; /* a segment */
	uint32_t segment;
	uint32_t block; /* of the segment, if it is read block by block; UINT32_MAX: as a whole */
	bool ended;
	bool hides; /* some of it can't be read */
};

struct loaded { /* a record that is replayed */
	uint8_t *bytes;
	uint32_t length_bytes, digest;
	struct log_header header;
	struct log_piece pieces[LOG_PIECES_MAX];
};

struct part { /* of a chunk, as one record has it */
	uint64_t row;
	const uint8_t *bytes; /* NULL: zeros */
	uint32_t column_bytes, length_bytes;
	uint32_t order; /* of its record */
	uint8_t role;
};

struct replay {
	struct engine *engine;
	enum replay_step step;
	int pending;
	int error;
	uint64_t not_before_ms;
	uint32_t segment_bytes, segments;
	struct scan scans[IRAID_MEMBERS_MAX];
	struct log_copy *copies;
	size_t copy_count, copy_capacity;
	struct log_replay decided;
	uint64_t known_tail;   /* with as many members as a record has copies */
	struct loaded *loaded; /* decided.end - decided.first */
	size_t next;	       /* record, or part, whose turn it is */
	struct part *parts;
	size_t part_count, part_capacity;
	struct image *images[IMAGE_BUCKETS];
	bool resumed;			   /* the opening goes on, for there are images */
	bool doubtful;			   /* ... and not all rows may fit */
	uint32_t place[IRAID_MEMBERS_MAX]; /* by role: where copies go, bytes into its log */
	uint64_t refused[REFUSED_MAX];
	int refused_count;
	uint32_t cache_losses;
	struct flush_waiter flush;
	uint64_t record;  /* generation of superblocks; 0: not yet */
	const char *hole; /* why nothing is replayed, or rows do not count as right; or NULL */
	bool hidden;	  /* a newer record may stand where nothing can be read, or is gone */
	bool in_part;	  /* not all records are there that there were */
	bool had_pending; /* some record has what was acknowledged and was in no row yet */
};

/* --- replay.c --- */

bool replay_is_active(const struct replay *replay);
uint64_t replay_records(const struct replay *replay); /* how many are replayed */
void replay_forget(struct replay *replay);
void replay_enter(struct replay *replay, enum replay_step step);
uint64_t replay_log_offset(const struct replay *replay);
/* Counts as pending; or replay->error is -ENOMEM. */
void replay_command(struct replay *replay, struct member *member, enum backend_op op,
		    uint64_t offset_bytes, uint8_t *bytes, uint32_t length_bytes,
		    void (*done)(struct member_io *mio, int result), void *owner);

/* --- replay_records.c --- */

void replay_read_logs(struct replay *replay);
void replay_decide(struct replay *replay);
void replay_load_records(struct replay *replay); /* as many as may be under way */
bool replay_is_sound(struct replay *replay);	 /* what was loaded is what was decided on */
void replay_make_copies(struct replay *replay);

/* --- replay_rows.c --- */

void replay_begin_writes(struct replay *replay);
void replay_write_chunks(struct replay *replay); /* as many as may be under way */
/* Something was acknowledged, and is in no row yet. */
bool replay_has_images(const struct replay *replay);
/* Each becomes a write back.  False: there is no memory for it now. */
bool replay_hand_over(struct replay *replay);
void replay_forget_images(struct replay *replay);

#endif
