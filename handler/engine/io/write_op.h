/* write_op.h - shared by write_op.c (states, merging) and write_rows.c (plans, memory, commands).
 */
#ifndef IRAID_WRITE_OP_H
#define IRAID_WRITE_OP_H

#include "internal.h"
#include "engine/link/link.h"
#include "engine/link/row_cache.h"
#include "engine/record/write_log.h"
#include "pure/code.h"

enum write_state {
	WRITE_WAITING,	  /* for its rows, its turn, or memory: others may still join */
	WRITE_PREPARING,  /* old data is read, dirty marks become durable */
	WRITE_LOGGING,	  /* what is about to be written goes to the write log */
	WRITE_WRITING,	  /* data and parity go to the members */
	WRITE_FLUSHING,	  /* FUA, or what was lost is overwritten */
	WRITE_FORGETTING, /* ... and is on record as known again */
};

struct write_row {
	struct row_claim claim; /* begin_bytes..end_bytes: what of the row is written */
	struct row_plan plan;
	uint32_t absent;	   /* positions that are not read */
	size_t buffer_offset;	   /* P and Q on the hull, then what is read, then what is made */
	struct cached_row *cached; /* the memory for it, instead; or NULL */
};

struct write_op {
	struct op op; /* must be first */
	enum write_state state;
	struct piece *pieces; /* in order of their place on the volume, without gaps */
	uint64_t begin_bytes; /* of the volume */
	uint64_t end_bytes;
	bool fua;
	bool finds_lost;    /* overwrites what could not be known */
	bool was_held;	    /* plug.c */
	bool held_complete; /* its row was complete then */
	bool was_batched;   /* and waited for more rows */
	bool uncached;	    /* more than it needs could not be read: it reads only that */
	uint64_t begun_ms;
	uint32_t commands; /* as many pieces; for figures, like the next */
	int reads;	   /* under way */
	uint64_t again_ns, begun_ns, read_ns, marked_ns, written_ns; /* 0: not so */
	/* since when it is held, and since when no other write is under way; 0: one is */
	uint64_t held_ms;
	uint64_t alone_ms;
	struct region_hold marks;
	int pending;
	int attempts;
	uint32_t cache_losses; /* engine->cache_losses then */
	uint32_t doubts;       /* intent.doubts when it was planned */
	uint32_t avoid;	       /* roles whose old data can't be read */
	bool counts;	       /* of write_log.writers */
	bool wide;	       /* of io.wide_writes */
	bool sent;	       /* commands that write, now or before it was repeated */
	bool refused;	       /* by some of them not for the medium's sake */
	int failed_role;
	int error;
	struct iovec *data; /* all pieces' memory, as one range */
	int data_count, data_capacity;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct logged logged;
	struct iovec redundancy[OP_ROWS_MAX][2]; /* P and Q on the hull, for it */
	struct flush_waiter flush;
	struct lost_waiter forget;
	struct write_row rows[OP_ROWS_MAX]; /* of row r: rows[r % OP_ROWS_MAX] */
};

static inline uint64_t
write_first_row(const struct write_op *op)
{
	return op->begin_bytes / geometry_row_bytes(&op->op.engine->geometry);
}

static inline uint64_t
write_last_row(const struct write_op *op)
{
	return (op->end_bytes - 1) / geometry_row_bytes(&op->op.engine->geometry);
}

static inline struct write_row *
write_row(struct write_op *op, uint64_t row)
{
	return &op->rows[row % OP_ROWS_MAX];
}

/* Whose claim it is; NULL: no write_op's. */
struct write_op *write_of_claim(struct row_claim *claim);

/* Describe the pieces' memory in op->data.  0 or -ENOMEM. */
int write_rows_describe_data(struct write_op *op);

/* Plan all rows and sum up the memory they need.  0; -ENODATA or -EIO if a row can't be written. */
int write_rows_plan(struct write_op *op);

/* The rows' memory in the cache: what it holds now is what members hold (good), or is forgotten. */
void write_rows_give_back(struct write_op *op, bool good);

/* Commands for what the plans read, and later for what they write. */
void write_rows_read(struct write_op *op, void (*done)(struct member_io *mio, int result));
void write_rows_compute(struct write_op *op);
void write_rows_write(struct write_op *op, void (*done)(struct member_io *mio, int result));
void write_rows_count(struct write_op *op); /* for status */

/* Into op->logged, after write_rows_compute(): 0 or -ENOMEM. */
int write_rows_log(struct write_op *op);

#endif
