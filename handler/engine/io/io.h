/* io.h - requests: cut into pieces, carried out by operations, answered.
 *
 *	request.c	pieces, operations, answers	behind.c	requests that overlap one of several pieces
 *	read_op.c	one piece of a read (read_op.h)	hedge.c		reads around slow members
 *	write_op.c	one or more merged writes (write_op.h)	write_rows.c	its row plans, memory and I/O
 *	plug.c		streams of writes (plug.h)	zero_op.c	whole rows of zeros
 *	compare_op.c	a read and a write in one	flush_op.c	a flush that is asked for
 *	late.c		what has waited too long
 */
#ifndef IRAID_ENGINE_IO_H
#define IRAID_ENGINE_IO_H

#include "engine/core/core.h"

#define OPS_MAX 512			/* operations that exist at a time */

/* --- request.c --- */

void request_carry_out(struct engine *engine, struct engine_request *request);
void request_finish(struct engine *engine, struct engine_request *request);
void request_start_ready(struct engine *engine);	/* operations whose rows are granted, and that have memory */
void request_deliver(struct engine *engine);		/* answers */

/* --- behind.c --- */

bool behind_waits(struct engine *engine, struct engine_request *request);	/* true: it is carried out later */
struct engine_request *behind_next(struct engine *engine);	/* one that is to be carried out now, or NULL */
void behind_refuse(struct engine *engine);	/* they go back to admission */

/* --- late.c --- */

void overdue_age(struct engine *engine);	/* the time of those submitted since the last run begins */
void overdue_run(struct engine *engine);
uint64_t overdue_deadline(const struct engine *engine);

/* --- hedge.c --- */

void read_op_hedge(struct engine *engine);	/* reads that wait too long for one member */
uint64_t read_op_deadline(const struct engine *engine);

/* --- plug.c --- */

void plug_run(struct engine *engine);
uint64_t plug_deadline(const struct engine *engine);

/* --- zero_op.c --- */

void zero_run(struct engine *engine);
uint64_t zero_deadline(const struct engine *engine);
void zero_ops_init(struct engine *engine);

/* Recycled pieces and operations. */
void pieces_free(struct engine *engine);
void read_ops_free(struct engine *engine);
void write_ops_free(struct engine *engine);
void zero_ops_free(struct engine *engine);
void compare_ops_free(struct engine *engine);
void flush_ops_free(struct engine *engine);

#endif
