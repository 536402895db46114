/* internal.h - what the files of io/ know of each other, beside io.h: pieces, and who carries them
 * out.
 */
#ifndef IRAID_ENGINE_IO_INTERNAL_H
#define IRAID_ENGINE_IO_INTERNAL_H

#include "io.h"
#include "ports/trace.h"

/* --- request.c --- */

/* Part of a request that is one operation, or joins one. */
struct piece {
	struct piece *next;
	struct engine_request *request;
	uint64_t begin_bytes; /* of the volume */
	uint64_t end_bytes;
	uint64_t since_ms;
	uint64_t since_ns; /* for figures: it waits for its rows */
	/* of engine->io->zeros_alive, if it is of a long range of zeros */
	struct list alive;
};

/* Rows of one write: no more than the write log has room for. */
uint64_t write_rows_max(const struct engine *engine);
struct piece *piece_create(struct engine *engine, struct engine_request *request,
			   uint64_t begin_bytes, uint64_t end_bytes);
/* they can be claimed now; false: no memory */
bool piece_reserve_rows(struct engine *engine, const struct piece *piece);
void piece_finish(struct engine *engine, struct piece *piece, int result);
/* By an operation, or one that is there already. */
void piece_dispatch(struct engine *engine, struct piece *piece);
/* For figures: it goes on, which waited since it was made, or since it began again (0: it did not).
 */
void piece_waited(struct engine *engine, const struct piece *piece, uint64_t again_ns);
/* no more pieces will be made of it */
void request_let_go(struct engine *engine, struct engine_request *request);

/* Where steps begin and end, for tracers. */
#define TRACE_PIECE(engine, probe, piece)                                                          \
	TRACE(probe, (engine)->record.name, (piece)->request->number, (piece)->request->op,        \
	      (piece)->begin_bytes, (piece)->end_bytes - (piece)->begin_bytes, 1)

/* --- proof.c --- */

void proof_begun(struct engine *engine, const struct engine_request *request);
/* it is answered once it is known not to be old */
void proof_finish(struct engine *engine, struct engine_request *request);

/* --- operations; false: no memory --- */

/* Those that are recycled. */
void read_ops_free(struct engine *engine);
void write_ops_free(struct engine *engine);
void zero_ops_free(struct engine *engine);
void compare_ops_free(struct engine *engine);
void flush_ops_free(struct engine *engine);

bool read_op_create(struct engine *engine, struct piece *piece);
bool write_op_create(struct engine *engine, struct piece *piece);
/* true: it joined a waiting write */
bool write_op_merge(struct engine *engine, struct piece *piece);
bool compare_op_create(struct engine *engine, struct piece *piece);
bool flush_op_create(struct engine *engine, struct piece *piece);

void read_op_overdue(struct engine *engine); /* reads that wait too long for anybody */

void zero_ops_init(struct engine *engine);
/* A short range is cut at once, a long one as zero_run() finds room. */
void zero_begin(struct engine *engine, struct engine_request *request);
bool zero_is_long(const struct engine_request *request); /* it ends by progress */
void zero_piece_ended(struct engine *engine, const struct engine_request *request);

/* --- write_back.c --- */

/* true: the write log acknowledges it, or has it */
bool write_back_take(struct engine *engine, struct piece *piece);
/* true: it was read from what is held, and has ended */
bool write_back_read(struct engine *engine, struct piece *piece);
void write_backs_free(struct engine *engine);

/* --- behind.c --- */

/* it has several pieces */
void behind_begun(struct engine *engine, struct engine_request *request);
void behind_ended(struct engine *engine, struct engine_request *request);
/* nobody knows what it wrote */
void behind_failed(struct engine *engine, const struct engine_request *request);
/* it is carried out once more */
void behind_again(const struct engine *engine, struct engine_request *request);
uint64_t
behind_spare(const struct engine_request *request, uint64_t begin_bytes, uint64_t *end_bytes);
/* those whose time is used up go back to admission */
void behind_overdue(struct engine *engine);

#endif
