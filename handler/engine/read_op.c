/* read_op.c - one piece of a read.
 *
 *   CLAIMED --> READING --> DONE
 *      ^           |
 *      `-- again --'   a member was evicted meanwhile, or has a medium error:
 *                      claim as REBUILD_READ and make up for it
 *
 * A read that waits too long for one member, or whose member fell silent, is made from the others as well: its commands
 * to that member are diverted (ports/backend.h), so that nothing of it can arrive in the request's memory any more, and it
 * begins again as if the member were missing.  Reads avoid a member that is known to be silent or slow from the start.
 *
 * What is on members that are there goes straight into the request's memory, adjacent chunks of a
 * member in one command.  For a chunk whose member is missing, the other chunks of the row and
 * its parity are read on the same columns: into the request's memory where the request wants them
 * anyway, else into the arena.  Then the chunk is their XOR.
 */
#include "read_op.h"

#include "gather.h"

#include "../pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 8

static void read_start(struct op *base);
static void read_fail(struct op *base, int error);

static int
missing_role(const struct read_op *op, uint64_t row)
{
	const struct engine *engine = op->op.engine;
	int missing = engine_missing(engine, row);

	if (missing >= 0)
		return missing;
	/* Nothing can be made from parity that proves nothing, so such a row is read as it stands: what could not be
	 * read may have been in another. */
	if (op->avoid >= 0 && engine->geometry.parities > 0 && intent_row_suspect(&engine->intent, row) &&
	    !MUTANT(REBUILT_FROM_SUSPECT))
		return -1;
	return op->avoid;
}

/* --- claims --- */

/* Does the piece want data of the row's chunk that is on `role`? */
static bool
row_wants_role(const struct read_op *op, uint64_t row, int role)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct row_claim *claim = &op->claims[row - op->first_row];
	int chunk;

	if (role < 0)
		return false;
	chunk = geometry_chunk_on_member(geometry, row, (uint8_t)role);
	return chunk >= 0 &&
	       claim->begin_bytes < (uint64_t)(chunk + 1) * geometry->chunk_bytes &&
	       claim->end_bytes > (uint64_t)chunk * geometry->chunk_bytes;
}

static void
describe_claims(struct read_op *op)
{
	const uint64_t row_bytes = geometry_row_bytes(&op->op.engine->geometry);

	for (int i = 0; i < op->row_count; i++) {
		uint64_t start = (op->first_row + (uint64_t)i) * row_bytes;
		struct row_claim *claim = &op->claims[i];

		claim->holder = &op->op.holder;
		claim->begin_bytes = op->piece->begin_bytes > start ? op->piece->begin_bytes - start : 0;
		claim->end_bytes = op->piece->end_bytes - start < row_bytes
					   ? op->piece->end_bytes - start : row_bytes;
		claim->kind = row_wants_role(op, op->first_row + (uint64_t)i,
					     missing_role(op, op->first_row + (uint64_t)i))
				      ? CLAIM_REBUILD_READ : CLAIM_READ;
	}
}

static void
release_claims(struct read_op *op)
{
	for (int i = 0; i < op->row_count; i++)
		if (op->claims[i].entry != NULL)
			row_release(op->op.engine->rows, &op->claims[i]);
}

/* Queue for all rows, unless whom it works for has them.  Started at once when nobody is in the way. */
static void
claim_rows(struct read_op *op)
{
	const int wanted = op->piece->request->claimed ? 0 : op->row_count;

	describe_claims(op);
	op->op.holder.waiting = 0;
	for (int i = 0; i < wanted; i++)
		if (row_claim(op->op.engine->rows, op->first_row + (uint64_t)i, &op->claims[i]) != 0)
			abort();
	if (op->op.holder.waiting == 0)
		op_ready(&op->op);
}

static bool
claims_suffice(const struct read_op *op)
{
	if (op->piece->request->claimed)
		return true;
	for (int i = 0; i < op->row_count; i++)
		if (op->claims[i].kind == CLAIM_READ &&
		    row_wants_role(op, op->first_row + (uint64_t)i,
				   missing_role(op, op->first_row + (uint64_t)i)))
			return false;
	return true;
}

/* --- end --- */

static void
read_end(struct read_op *op, int result)
{
	struct engine *engine = op->op.engine;
	struct piece *piece = op->piece;

	release_claims(op);
	if (op->buffer != NULL)
		arena_release(&engine->arena, op->buffer, op->buffer_bytes);
	list_prepend(&engine->free_reads, &op->op.node);
	op_gone(engine);
	piece_finish(engine, piece, result);
}

static void
read_fail(struct op *base, int error)
{
	read_end((struct read_op *)base, error);
}

void
read_op_again(struct read_op *op)
{
	struct engine *engine = op->op.engine;

	if (op->buffer != NULL)
		arena_release(&engine->arena, op->buffer, op->buffer_bytes);
	op->buffer = NULL;
	if (++op->attempts > ATTEMPTS_MAX) {
		read_end(op, -EIO);
		return;
	}
	release_claims(op);
	claim_rows(op);
}

/* --- commands --- */

static void
read_into_request(struct read_op *op, struct gather *gather, const struct extent *extent,
		  size_t piece_offset)
{
	struct engine_request *request = op->piece->request;
	size_t skip = op->piece->begin_bytes - request->offset_bytes + piece_offset;
	struct iovec *slice = scratch_reserve(op->op.engine, request->iov_count);
	int count = iov_slice(request->iov, request->iov_count, skip, extent->length_bytes, slice,
			      request->iov_count);

	assert(count > 0);
	gather_add(gather, engine_holder(op->op.engine, extent->row, extent->member),
		   extent->member_offset_bytes, slice, count);
}

/* --- making up for a missing chunk --- */

/* Is chunk `chunk` of the extent's row read into the request's memory on all of the extent's columns? */
static bool
chunk_is_wanted(const struct read_op *op, const struct extent *extent, int chunk)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct row_claim *claim = &op->claims[extent->row - op->first_row];
	uint64_t begin = (uint64_t)chunk * geometry->chunk_bytes + extent->column_bytes;

	return claim->begin_bytes <= begin && begin + extent->length_bytes <= claim->end_bytes;
}

static size_t
chunk_piece_offset(const struct read_op *op, const struct extent *extent, int chunk)
{
	const struct geometry *geometry = &op->op.engine->geometry;

	return (size_t)(extent->row * geometry_row_bytes(geometry) +
			(uint64_t)chunk * geometry->chunk_bytes + extent->column_bytes -
			op->piece->begin_bytes);
}

static size_t
rebuild_buffer_bytes(const struct read_op *op, const struct extent *extent)
{
	size_t buffers = 1;	/* parity */

	for (int chunk = 0; chunk < op->op.engine->geometry.data_chunks; chunk++)
		buffers += chunk != extent->chunk && !chunk_is_wanted(op, extent, chunk);
	return buffers * extent->length_bytes;
}

static void
read_for_rebuild(struct read_op *op, struct gather *gather, const struct rebuilt *rebuilt)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct extent *extent = &rebuilt->extent;
	uint8_t *into = op->buffer + rebuilt->arena_offset;

	for (int chunk = -1; chunk < geometry->data_chunks; chunk++) {
		int role;

		if (chunk == extent->chunk || (chunk >= 0 && chunk_is_wanted(op, extent, chunk)))
			continue;
		role = chunk < 0 ? geometry_parity_member(geometry, extent->row)
				 : geometry_data_member(geometry, extent->row, (uint8_t)chunk);
		gather_add_buffer(gather, engine_holder(op->op.engine, extent->row, role),
				  extent->member_offset_bytes, into, extent->length_bytes);
		into += extent->length_bytes;
	}
}

static struct iov_run
request_run(const struct read_op *op, size_t piece_offset)
{
	const struct engine_request *request = op->piece->request;

	return (struct iov_run){
		.iov = request->iov,
		.count = request->iov_count,
		.skip_bytes = op->piece->begin_bytes - request->offset_bytes + piece_offset,
	};
}

static void
rebuild(struct read_op *op, const struct rebuilt *rebuilt)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct extent *extent = &rebuilt->extent;
	struct iov_run sources[IRAID_MEMBERS_MAX];
	struct iovec buffers[IRAID_MEMBERS_MAX];
	uint8_t *from = op->buffer + rebuilt->arena_offset;
	int count = 0;

	for (int chunk = -1; chunk < geometry->data_chunks; chunk++) {
		if (chunk == extent->chunk)
			continue;
		if (chunk >= 0 && chunk_is_wanted(op, extent, chunk)) {
			sources[count++] = request_run(op, chunk_piece_offset(op, extent, chunk));
			continue;
		}
		buffers[count] = (struct iovec){ from, extent->length_bytes };
		sources[count] = (struct iov_run){ .iov = &buffers[count], .count = 1 };
		count++;
		from += extent->length_bytes;
	}
	parity_xor_runs(request_run(op, rebuilt->piece_offset), sources, count, extent->length_bytes);
}

/* --- the states --- */

/* What made it can't be made; ask the member that was avoided after all. */
static bool
read_patiently(struct read_op *op)
{
	if (!op->evades)
		return false;
	op->evades = false;
	op->patient = true;
	op->avoid = -1;
	read_op_again(op);
	return true;
}

static void
note_unreadable(struct read_op *op)
{
	for (int i = 0; i < op->row_count; i++)
		repair_note(op->op.engine, op->first_row + (uint64_t)i);
}

static void
read_finish(struct read_op *op)
{
	struct engine *engine = op->op.engine;

	list_remove(&op->waiting);
	if (op->error == 0 && op->rebuilt_count > 0 && op->doubts != engine->intent.doubts &&
	    !MUTANT(DOUBT_IGNORED)) {
		read_op_again(op);
	} else if (op->error == 0) {
		for (int i = 0; i < op->rebuilt_count; i++)
			rebuild(op, &op->rebuilt[i]);
		engine->counters.reads_reconstructed += (uint64_t)op->rebuilt_count;
		read_end(op, 0);
	} else if (op->error == -ENOLINK) {
		read_op_again(op);
	} else if ((op->error == -ENODATA || op->error == -EIO) && engine->geometry.parities > 0 &&
		   read_patiently(op)) {
		return;
	} else if ((op->error == -ENODATA || op->error == -EIO) && op->avoid < 0 &&
		   (engine->missing < 0 || engine->missing == op->failed_role) &&
		   engine->geometry.parities > 0) {
		note_unreadable(op);
		op->avoid = op->failed_role;
		read_op_again(op);
	} else {
		if (op->error == -ENODATA || op->error == -EIO)
			note_unreadable(op);
		read_end(op, op->error);
	}
}

/* An eviction outranks other errors, for after it everything is tried again. */
static void
note_error(struct read_op *op, int role, int result)
{
	if (result == 0 || op->error == -ENOLINK)
		return;
	if (op->error == 0 || result == -ENOLINK) {
		op->error = result;
		op->failed_role = role;
	}
}

static void
read_answered(struct member_io *mio, int result)
{
	struct read_op *op = mio->owner;

	note_error(op, mio->member->role, result);
	if (--op->pending == 0)
		read_finish(op);
}

/* List what is to be rebuilt and how much memory that takes.  -ENODATA if a missing chunk's row has
 * parity that proves nothing.
 */
static int
list_rebuilt(struct read_op *op, size_t *bytes)
{
	struct engine *engine = op->op.engine;
	uint64_t at = op->piece->begin_bytes;
	struct extent extent;

	op->rebuilt_count = 0;
	*bytes = 0;
	while (at < op->piece->end_bytes) {
		geometry_locate(&engine->geometry, at, op->piece->end_bytes - at, &extent);
		if (extent.member == missing_role(op, extent.row)) {
			if (engine->geometry.parities == 0)
				return -EIO;
			if (intent_row_suspect(&engine->intent, extent.row) && !MUTANT(REBUILT_FROM_SUSPECT))
				return -ENODATA;	/* nothing is made from parity that proves nothing */
			assert(op->rebuilt_count < OP_ROWS_MAX);
			op->rebuilt[op->rebuilt_count++] = (struct rebuilt){
				.extent = extent,
				.piece_offset = (size_t)(at - op->piece->begin_bytes),
				.arena_offset = *bytes,
			};
			*bytes += rebuild_buffer_bytes(op, &extent);
		}
		at += extent.length_bytes;
	}
	return 0;
}

static void
read_issue(struct read_op *op)
{
	struct engine *engine = op->op.engine;
	struct gather gather = { .engine = engine, .op = BACKEND_READ, .done = read_answered,
				 .owner = op, .pending = &op->pending };
	uint64_t at = op->piece->begin_bytes;
	int next_rebuilt = 0;
	struct extent extent;

	op->error = 0;
	op->issued_ms = engine->now_ms;
	op->doubts = engine->intent.doubts;
	list_append(&engine->reads, &op->waiting);
	op->pending = 1;	/* this function */
	while (at < op->piece->end_bytes) {
		geometry_locate(&engine->geometry, at, op->piece->end_bytes - at, &extent);
		if (next_rebuilt < op->rebuilt_count &&
		    op->rebuilt[next_rebuilt].piece_offset == at - op->piece->begin_bytes)
			read_for_rebuild(op, &gather, &op->rebuilt[next_rebuilt++]);
		else
			read_into_request(op, &gather, &extent, (size_t)(at - op->piece->begin_bytes));
		at += extent.length_bytes;
	}
	gather_submit(&gather);
	if (--op->pending == 0)
		read_finish(op);
}

static void
read_start(struct op *base)
{
	struct read_op *op = (struct read_op *)base;
	size_t bytes;
	int error;

	if (!claims_suffice(op)) {
		read_op_again(op);
		return;
	}
	error = lost_in_range(op->op.engine, op->piece->begin_bytes, op->piece->end_bytes)
			? -ENODATA : list_rebuilt(op, &bytes);
	if (error == -ENODATA && read_patiently(op))
		return;
	if (error != 0) {
		read_end(op, error);
		return;
	}
	if (bytes > 0) {
		op->buffer = arena_take(&op->op.engine->arena, bytes);
		if (op->buffer == NULL) {
			op_wait_for_buffer(&op->op);
			return;
		}
		op->buffer_bytes = bytes;
	}
	read_issue(op);
}

bool
read_op_create(struct engine *engine, struct piece *piece)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	struct list *node = list_take(&engine->free_reads);
	struct read_op *op = node != NULL ? (struct read_op *)list_entry(node, struct op, node)
					  : calloc(1, sizeof(*op));

	if (op == NULL)
		return false;
	list_init(&op->op.node);
	op->op.engine = engine;
	op->op.holder.granted = op_granted;
	op->op.start = read_start;
	op->op.fail = read_fail;
	op->piece = piece;
	op->first_row = piece->begin_bytes / row_bytes;
	op->row_count = (int)((piece->end_bytes - 1) / row_bytes - op->first_row) + 1;
	op->attempts = 0;
	op->avoid = engine->geometry.parities > 0 ? read_role_to_evade(engine) : -1;
	op->evades = op->avoid >= 0;
	op->patient = false;
	op->buffer = NULL;
	list_init(&op->waiting);
	assert(op->row_count <= OP_ROWS_MAX);
	engine->ops++;
	claim_rows(op);
	return true;
}

void
read_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->free_reads)) != NULL)
		free(list_entry(node, struct op, node));
}
