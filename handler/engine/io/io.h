/* io.h - requests: cut into pieces, carried out by operations, answered.
 *
 *	request.c	pieces, operations, answers	behind.c	requests that overlap one of several pieces
 *	read_op.c	one piece of a read		hedge.c		reads around slow members
 *	write_op.c	one or more merged writes	write_rows.c	its row plans, memory and I/O
 *	plug.c		streams of writes		zero_op.c	whole rows of zeros
 *	compare_op.c	a read and a write in one	flush_op.c	a flush that is asked for
 *	write_back.c	small writes that the write log acknowledges	destage.c	and that come to their rows
 *	late.c		what has waited too long		proof.c		reads that wait for the proof that they are not old
 */
#ifndef IRAID_ENGINE_IO_H
#define IRAID_ENGINE_IO_H

#include "engine/core/core.h"

#define OPS_MAX 512 /* operations that exist at a time */

/* Writes in sequence that wait for the rest of their row (plug.c). */
#define PLUG_STREAMS 64

struct stream {
	uint64_t end_bytes; /* where the next write of it begins */
	uint64_t run_bytes; /* how long it is */
	/* its last write came before the one before had ended: so more may come, whatever becomes
	 * of it
	 */
	bool deep;
	uint64_t used_at; /* plug.clock then; 0: none */
};

struct plug {
	struct stream streams[PLUG_STREAMS];
	uint64_t clock;	 /* of writes that arrived */
	struct list ops; /* write_op that are held */
	unsigned int held;
	uint32_t write_us; /* how long writes take from their start: a moving mean */
	uint32_t gap_ms;   /* how long to wait for what comes next when nothing is under way */
};

struct io {
	struct engine_request *admission_head, **admission_tail;
	struct list alive; /* of engine_request.alive: the oldest first */
	/* of piece.alive, which have their time each for itself: the oldest first */
	struct list zeros_alive;
	/* the first of those submitted since the last run, or NULL */
	struct engine_request *unaged;
	struct engine_request *finished_head, **finished_tail;

	struct { /* what may be old if another gateway has the volume: */
		struct engine_request *head, **tail; /* done, and not proven yet */
		unsigned int under_way;
		uint64_t newest;  /* of those: engine->moment when it was submitted */
		uint64_t look_ms; /* others are asked then */
	} proof;

	struct { /* requests that wait for one of several pieces, in order */
		struct engine_request *head, **tail;
		bool look; /* one of those has ended since they were looked at */
	} behind;

	struct { /* ranges of zeros that are not yet cut to their end */
		struct engine_request *head, **tail;
		unsigned int pieces;	 /* of such, that are under way */
		unsigned int pieces_max; /* this many at once, and */
		/* each this long on a member: as members are quick with them */
		uint64_t bytes_max;
		uint64_t progress_ms; /* when a piece of such was last done */
	} zeros;

	struct { /* rows of which something is in the write log, and not in them yet */
		/* of write_back.node: held, the oldest first; those that are written before others;
		 * those that are being written; and those that were, and wait for the log's end
		 */
		struct list rows, urgent, busy, written;
		unsigned int count; /* of all four */
		unsigned int written_count;
		unsigned int under_way; /* of busy */
		bool batch;		/* the oldest rows are being written */
		uint64_t pages;		/* that hold something */
		struct list free_rows, free_parts, free_pages;
	} backs;

	struct list reads;   /* of read_op, those whose commands are under way */
	uint64_t judge_ms;   /* when members' speeds are compared next */
	unsigned int writes; /* write_op that exist */
	/* of them, those that have more rows than the write log has room for */
	unsigned int wide_writes;
	struct plug plug;

	/* recycled memory */
	struct list free_reads, free_writes, free_zeros, free_compares, free_flushes;
	struct piece *free_pieces;
};

void io_init(struct engine *engine);
void io_free(struct engine *engine); /* what is recycled */

/* --- request.c --- */

void request_carry_out(struct engine *engine, struct engine_request *request);
void request_finish(struct engine *engine, struct engine_request *request);
/* operations whose rows are granted, and that have memory */
void request_start_ready(struct engine *engine);
void request_deliver(struct engine *engine); /* answers */

/* --- behind.c --- */

/* true: it is carried out later */
bool behind_waits(struct engine *engine, struct engine_request *request);
/* one that is to be carried out now, or NULL */
struct engine_request *behind_next(struct engine *engine);
void behind_refuse(struct engine *engine); /* they go back to admission */

/* --- proof.c --- */

void proof_run(struct engine *engine);
uint64_t proof_deadline(const struct engine *engine);

/* --- late.c --- */

/* the time of those submitted since the last run begins */
void overdue_age(struct engine *engine);
void overdue_run(struct engine *engine);
uint64_t overdue_deadline(const struct engine *engine);

/* --- hedge.c --- */

void read_op_hedge(struct engine *engine); /* reads that wait too long for one member */
uint64_t read_op_deadline(const struct engine *engine);

/* --- plug.c --- */

void plug_run(struct engine *engine);
uint64_t plug_deadline(const struct engine *engine);

/* --- destage.c --- */

void write_back_run(struct engine *engine);
void write_back_log_closed(struct engine *engine); /* superblocks do not name its key any more */
uint64_t write_back_deadline(const struct engine *engine);

/* --- write_back.c --- */

/* A start found it in the log, in records from `sequence` on.  bytes: the row's data; set: by block,
 * whether that is of the log.  0 or -ENOMEM.
 */
int write_back_restore(struct engine *engine, uint64_t row, const uint8_t *bytes,
		       const uint8_t *set, uint64_t sequence);

/* --- zero_op.c --- */

void zero_run(struct engine *engine);
uint64_t zero_deadline(const struct engine *engine);

#endif
