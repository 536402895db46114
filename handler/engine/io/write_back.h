/* write_back.h - what write_back.c (small writes that arrive) and destage.c (which bring them to their
 * rows) share.
 */
#ifndef IRAID_ENGINE_WRITE_BACK_H
#define IRAID_ENGINE_WRITE_BACK_H

#include "internal.h"
#include "engine/record/write_log.h"

#define BACK_PAGE_BYTES 4096u /* no chunk is smaller */
#define BACK_PIECE_BYTES_MAX (64u << 10)
#define BACK_PIECE_PAGES (BACK_PIECE_BYTES_MAX / BACK_PAGE_BYTES + 1)
#define BACK_RUNS_MAX 8u /* that are written at a time */
#define BACK_ROWS_MAX 4096u
#define BACK_MEMORY_BYTES_MAX (32u << 20)

enum block {
	BLOCK_NOT_HERE,
	BLOCK_HELD,
	BLOCK_BETWEEN,	 /* read from the row, to be written with the others */
	BLOCK_HELD_SENT, /* being written, or in the row already */
	BLOCK_BETWEEN_SENT,
};

enum back_state {
	BACK_HELD,
	BACK_READING,
	BACK_WRITING,
	BACK_FLUSHING,
	BACK_LOSING,  /* a block of it can't be written: that goes on record */
	BACK_WRITTEN, /* until the log is closed: a start would bring back what it has of the row */
};

struct back_run { /* that is being written */
	struct engine_request inner;
	uint32_t begin, end; /* blocks of the row */
};

struct write_back {
	struct op op; /* must be first; for its claim only */
	enum back_state state;
	struct list node; /* of io.backs.rows, .urgent, .busy or .written */
	uint64_t row;
	struct row_claim claim;
	struct list logging;	  /* of back_part.node: their records are not durable yet */
	struct list unlogged;	  /* ... nor will be: answered when the row is written */
	struct back_part *oldest; /* its records, and all behind them, are kept */
	struct back_part *newer;  /* ... these instead, when all that is held is logged again */
	uint32_t again_pending;
	bool again_failed;
	/* Those that come when they can't join: they do later, or go on when the row is written. */
	struct piece *later, **later_end;
	uint64_t since_ms, retry_ms;
	uint64_t since_logged; /* write_log.sizes.ever then */
	uint64_t taken_bytes;  /* of pieces, since then */
	bool failed;	       /* which was told */
	bool lost;	       /* some of it is */
	bool unsure; /* the same has failed, and may be in no record: nobody may see it yet */
	uint32_t refusals;
	enum { ALL_TOGETHER, RUN_BY_RUN, BLOCK_BY_BLOCK } narrow; /* as the others failed */
	struct back_run runs[BACK_RUNS_MAX];
	uint32_t runs_pending;
	int error;	       /* of those */
	uint32_t cache_losses; /* when they began */
	struct flush_waiter flush;
	struct lost_waiter recorded;
	struct iovec *iov; /* of the runs' requests, a page each */
	uint8_t **pages;   /* the row's data; NULL: nothing of it is here */
	uint64_t to_log;   /* what is reserved in the log for it */
	uint8_t *set;	   /* by block of it: enum block */
	uint8_t *old;	   /* the row as it is read; and what that request is told */
	struct iovec old_iov;
};

struct back_part { /* of a request, or of what a start has found */
	struct list node;
	struct write_back *back;
	struct piece *pieces; /* to be answered, by .next: the first, and who joined it */
	uint32_t begin, end;  /* of the row's data */
	struct iovec iov[BACK_PIECE_PAGES];
	int iov_count;
	struct logged logged;
};

/* --- write_back.c --- */

uint32_t back_row_bytes(const struct engine *engine);
uint32_t back_blocks(const struct engine *engine);
uint64_t back_memory_bytes(const struct engine *engine);
/* [begin, end) of the row's data, whose pages are here; how many entries that are. */
int back_describe(const struct write_back *back, uint32_t begin, uint32_t end, struct iovec *iov);
/* false: there is no memory; some of them may be here then. */
bool back_make_pages(struct write_back *back, uint32_t begin, uint32_t end);
/* Nothing keeps small writes from the log. */
bool back_log_is_steady(const struct engine *engine);
/* It is written to so often that it is logged once more, not written to its row; false: it isn't. */
bool back_log_again(struct write_back *back);
void back_answer(struct engine *engine, struct back_part *part, int result);
void back_drop_part(struct engine *engine, struct back_part *part);
/* It is in its row, or left to the log: others may have that. */
void back_end(struct write_back *back, int result);

/* --- destage.c --- */

/* It should have gone long ago, and nobody may join before it has: else it might never. */
bool back_is_overdue(const struct write_back *back);

#endif
