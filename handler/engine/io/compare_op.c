/* compare_op.c - COMPARE AND WRITE: a read, a comparison and a write that nothing comes between.
 *
 *   CLAIMED --> reading --> compared --> writing --> done
 *                              `--> -EILSEQ, and where they differ
 *
 * It claims its rows as a write does, and keeps them until the end.  The read and the write are
 * requests of its own, marked `claimed`: they are carried out as any other, with all that goes with
 * it (made from the others where a member is missing, begun again after an eviction, marks,
 * flushes), except that they take no claims.
 */
#include "internal.h"
#include "pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct compare_op {
	struct op op;	     /* must be first */
	struct piece *piece; /* all of the request */
	uint8_t *buffer;     /* what stands there; kept for the next one */
	size_t buffer_bytes;
	struct iovec buffer_iov;
	struct iovec *new_data; /* the second half of the request's */
	int new_data_capacity;
	struct engine_request inner;
	uint64_t first_row;
	int row_count;
	struct row_claim claims[OP_ROWS_MAX];
};

static void
release_compared_rows(struct compare_op *op)
{
	for (int i = 0; i < op->row_count; i++)
		if (op->claims[i].entry != NULL)
			row_release(op->op.engine->rows, &op->claims[i]);
}

static void
compare_end(struct compare_op *op, int result)
{
	struct engine *engine = op->op.engine;

	release_compared_rows(op);
	list_prepend(&engine->io->free_compares, &op->op.node);
	op_gone(engine);
	piece_finish(engine, op->piece, result);
}

static void
compare_fail(struct op *base, int error)
{
	compare_end((struct compare_op *)base, error);
}

static void
submit_inner(struct compare_op *op, enum request_op kind, const struct iovec *iov, int count,
	     void (*done)(struct engine_request *request, int result))
{
	const struct engine_request *request = op->piece->request;

	op->inner = (struct engine_request){
		.op = kind,
		.fua = kind == REQUEST_WRITE && request->fua,
		.offset_bytes = request->offset_bytes,
		.length_bytes = request->length_bytes,
		.iov = iov,
		.iov_count = count,
		.done = done,
		.owner = op,
		.claimed = true,
		.number = request->number,
		.since_ns = op->op.engine->figures.stamp_ns,
		.since_ms = request->since_ms,
	};
	list_init(&op->inner.alive);
	request_carry_out(op->op.engine, &op->inner);
}

/* --- writing --- */

static void
comparison_written(struct engine_request *inner, int result)
{
	compare_end(inner->owner, result);
}

static void
write_new_data(struct compare_op *op)
{
	const struct engine_request *request = op->piece->request;
	struct iovec *grown;
	int count;

	if (op->new_data_capacity < request->iov_count) {
		grown = realloc(op->new_data, (size_t)request->iov_count * sizeof(*grown));
		if (grown == NULL) {
			compare_end(op, -ENOMEM);
			return;
		}
		op->new_data = grown;
		op->new_data_capacity = request->iov_count;
	}
	count = iov_slice(request->iov, request->iov_count, (size_t)request->length_bytes,
			  (size_t)request->length_bytes, op->new_data, op->new_data_capacity);
	assert(count > 0);
	submit_inner(op, REQUEST_WRITE, op->new_data, count, comparison_written);
}

/* --- comparing --- */

/* Offset of the first byte that is not as the initiator thinks; the length if there is none. */
static uint64_t
first_mismatch(const struct compare_op *op)
{
	const struct engine_request *request = op->piece->request;
	uint64_t at = 0;

	for (int i = 0; i < request->iov_count && at < request->length_bytes; i++) {
		const uint8_t *expected = request->iov[i].iov_base;
		uint64_t left = request->length_bytes - at;
		size_t part =
			request->iov[i].iov_len < left ? request->iov[i].iov_len : (size_t)left;

		if (part > 0 && memcmp(expected, op->buffer + at, part) != 0) {
			for (size_t k = 0; expected[k] == op->buffer[at]; k++)
				at++;
			return at;
		}
		at += part;
	}
	return request->length_bytes;
}

static void
compared_data_read(struct engine_request *inner, int result)
{
	struct compare_op *op = inner->owner;
	struct engine_request *request = op->piece->request;
	uint64_t differs;

	if (result != 0) {
		compare_end(op, result);
		return;
	}
	if (MUTANT(COMPARE_UNCLAIMED))
		release_compared_rows(op);
	differs = first_mismatch(op);
	if (differs < request->length_bytes) {
		request->mismatch_bytes = differs;
		compare_end(op, -EILSEQ);
		return;
	}
	write_new_data(op);
}

/* --- claiming, reading --- */

/* Not of the arena: the read and the write may have to wait for memory there, and who waits must
 * hold none.
 */
static bool
reserve_buffer(struct compare_op *op, size_t wanted)
{
	uint8_t *grown;

	if (wanted <= op->buffer_bytes)
		return true;
	grown = realloc(op->buffer, wanted);
	if (grown == NULL)
		return false;
	op->buffer = grown;
	op->buffer_bytes = wanted;
	return true;
}

static void
compare_start(struct op *base)
{
	struct compare_op *op = (struct compare_op *)base;
	const size_t length_bytes = (size_t)op->piece->request->length_bytes;

	if (!reserve_buffer(op, length_bytes)) {
		compare_end(op, -ENOMEM);
		return;
	}
	op->buffer_iov = (struct iovec){ op->buffer, length_bytes };
	piece_waited(op->op.engine, op->piece, 0);
	submit_inner(op, REQUEST_READ, &op->buffer_iov, 1, compared_data_read);
}

static void
claim_compared_rows(struct compare_op *op)
{
	struct engine *engine = op->op.engine;
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);

	for (int i = 0; i < op->row_count; i++) {
		uint64_t start = (op->first_row + (uint64_t)i) * row_bytes;
		uint64_t begin = op->piece->begin_bytes, end = op->piece->end_bytes;
		struct row_claim *claim = &op->claims[i];

		*claim = (struct row_claim){
			.holder = &op->op.holder,
			.kind = CLAIM_WRITE,
			.begin_bytes = begin > start ? begin - start : 0,
			.end_bytes = end - start < row_bytes ? end - start : row_bytes,
		};
		list_init(&claim->in_row);
		row_claim(engine->rows, op->first_row + (uint64_t)i, claim);
	}
}

bool
compare_op_create(struct engine *engine, struct piece *piece)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	struct list *node = list_take(&engine->io->free_compares);
	struct compare_op *op = node != NULL
					? (struct compare_op *)list_entry(node, struct op, node)
					: calloc(1, sizeof(*op));

	static_assert(COMPARE_WRITE_BYTES_MAX / IRAID_CHUNK_BYTES_MIN + 1 <= OP_ROWS_MAX,
		      "the smallest rows must go in");
	if (op == NULL)
		return false;
	if (!piece_reserve_rows(engine, piece)) {
		list_prepend(&engine->io->free_compares, &op->op.node);
		return false;
	}
	op->op = (struct op){
		.holder.granted = op_granted,
		.engine = engine,
		.start = compare_start,
		.fail = compare_fail,
	};
	list_init(&op->op.node);
	op->op.since_ms = piece->since_ms;
	op->piece = piece;
	op->first_row = piece->begin_bytes / row_bytes;
	op->row_count = (int)((piece->end_bytes - 1) / row_bytes - op->first_row) + 1;
	assert(op->row_count <= OP_ROWS_MAX);
	engine->ops.count++;
	claim_compared_rows(op);
	op_claimed(&op->op);
	return true;
}

void
compare_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->free_compares)) != NULL) {
		struct compare_op *op = (struct compare_op *)list_entry(node, struct op, node);

		free(op->new_data);
		free(op->buffer);
		free(op);
	}
}
