/* plug.h - writes in sequence wait for what comes next: so that a row needs no reads, and that rows
 * go together.
 */
#ifndef IRAID_PLUG_H
#define IRAID_PLUG_H

#include "write_op.h"

/* A write arrives: is it part of a stream? */
void plug_note(struct engine *engine, const struct engine_request *request);

/* Its rows are granted: should it wait before it starts, or its last row?  Not a second time. */
bool plug_wants(const struct write_op *op);
bool plug_wants_all(const struct write_op *op); /* if it does: all of it, or the last row alone */
void plug_hold(struct write_op *op);

/* A write was done, so long after it was started. */
void plug_took(struct engine *engine, uint64_t milliseconds);

/* Is it part of a stream? */
bool plug_in_stream(const struct write_op *op);

/* End of the row up to which the request's piece from begin_bytes on goes, so that what follows can
 * wait alone.
 */
uint64_t plug_piece_end(const struct engine *engine, const struct engine_request *request,
			uint64_t begin_bytes, uint64_t end_bytes);

#endif
