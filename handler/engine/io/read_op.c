/* read_op.c - one piece of a read.
 *
 *   CLAIMED --> READING --> (SETTLING) --> DONE
 *      ^           |
 *      `-- again --'   a member was evicted meanwhile, or has a medium error:
 *                      claim as REBUILD_READ and make up for it
 *
 * After a medium error it is done row by row, for in each another member may have one.
 *
 * SETTLING: of copies that may differ since a crash, the one that was read is written to the
 * others, before anybody learns of it: or a later read, of another copy, would take it back.
 *
 * A read that waits too long for one member, or whose member fell silent, is made from the others
 * as well: its commands to that member are diverted (ports/backend.h), so that nothing of it can
 * arrive in the request's memory any more, and it begins again as if the member were missing.
 * Reads avoid a member that is known to be silent or slow from the start.
 *
 * What is on members that are there goes straight into the request's memory, adjacent chunks of a
 * member in one command; of copies, from the member that has least to do.  For a chunk whose member
 * is missing, those it is made from (pure/code.h) are read on the same columns: into the request's
 * memory where the request wants them anyway, else into the arena.
 */
#include "read_op.h"
#include "engine/link/gather.h"
#include "engine/link/link.h"
#include "engine/work/work.h"
#include "pure/code.h"
#include "pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 8

static void read_start(struct op *base);
static void read_fail(struct op *base, int error);

static bool
is_mirror(const struct read_op *op)
{
	const struct geometry *geometry = &op->op.engine->geometry;

	return geometry->redundancy > 0 && geometry->data_chunks == 1;
}

/* Copies that nobody wrote yet may differ, and what was read once must stay: the one that resync
 * will take.
 */
static bool
has_one_copy(const struct read_op *op, uint64_t row)
{
	const struct intent *intent = &op->op.engine->intent;

	return is_mirror(op) && intent_row_suspect(intent, row) && intent_row_fresh(intent, row);
}

/* Roles of the row that are not asked, though they might answer. */
static uint32_t
avoided(const struct read_op *op, uint64_t row)
{
	return has_one_copy(op, row) && !MUTANT(FRESH_READ_AROUND) ? 0 : op->avoid;
}

/* Positions of the row that are not to be read. */
static uint32_t
absent(const struct read_op *op, uint64_t row)
{
	const struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint32_t bad = op->bad[row - op->first_row], avoid = avoided(op, row);
	uint32_t nobody = engine_absent(engine, row);
	uint32_t unread;

	if ((avoid | bad) == 0 || geometry->redundancy == 0)
		return nobody;
	/* Nothing can be made from parity that proves nothing, so such a row is read as it stands:
	 * what could not be read may have been in another.
	 */
	if (engine_has_parity(engine) && intent_row_suspect(&engine->intent, row) &&
	    !MUTANT(REBUILT_FROM_SUSPECT))
		return nobody;
	unread = nobody | geometry_positions(geometry, row, avoid | bad);
	if (!code_bears(geometry, unread))
		unread = nobody | geometry_positions(geometry, row, bad);
	return code_bears(geometry, unread) ? unread : nobody;
}

/* Copies of this row may differ. */
static bool
needs_settling(const struct read_op *op, uint64_t row)
{
	const struct intent *intent = &op->op.engine->intent;

	return is_mirror(op) && intent_row_suspect(intent, row) && !intent_row_fresh(intent, row) &&
	       !MUTANT(COPIES_UNSETTLED);
}

/* --- claims --- */

/* Does the piece want data of a chunk of the row that has to be made? */
static bool
row_is_made(const struct read_op *op, uint64_t row)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct row_claim *claim = &op->claims[row - op->first_row];
	uint32_t missing = absent(op, row);

	if (is_mirror(op))
		return needs_settling(op, row);
	for (int chunk = 0; missing != 0 && chunk < geometry->data_chunks; chunk++)
		if ((missing & ROLE(chunk)) &&
		    claim->begin_bytes < (uint64_t)(chunk + 1) * geometry->chunk_bytes &&
		    claim->end_bytes > (uint64_t)chunk * geometry->chunk_bytes)
			return true;
	return false;
}

static void
describe_claims(struct read_op *op)
{
	const uint64_t row_bytes = geometry_row_bytes(&op->op.engine->geometry);

	for (int i = 0; i < op->row_count; i++) {
		uint64_t start = (op->first_row + (uint64_t)i) * row_bytes;
		struct row_claim *claim = &op->claims[i];

		claim->holder = &op->op.holder;
		claim->begin_bytes =
			op->piece->begin_bytes > start ? op->piece->begin_bytes - start : 0;
		claim->end_bytes = op->piece->end_bytes - start < row_bytes
					   ? op->piece->end_bytes - start
					   : row_bytes;
		/* Who settles writes what was read: two at a time could put back what the other
		 * replaced.
		 */
		claim->kind = !row_is_made(op, op->first_row + (uint64_t)i) ? CLAIM_READ
			      : is_mirror(op)				    ? CLAIM_WRITE
									    : CLAIM_REBUILD_READ;
	}
}

static void
release_claims(struct read_op *op)
{
	for (int i = 0; i < op->row_count; i++)
		if (op->claims[i].entry != NULL)
			row_release(op->op.engine->rows, &op->claims[i]);
}

/* Queue for all rows, unless whom it works for has them.  Started at once when nobody is in the
 * way.
 */
static void
claim_read_rows(struct read_op *op)
{
	const int wanted = op->piece->request->claimed ? 0 : op->row_count;

	describe_claims(op);
	op->op.holder.waiting = 0;
	for (int i = 0; i < wanted; i++)
		row_claim(op->op.engine->rows, op->first_row + (uint64_t)i, &op->claims[i]);
	op->op.changes_nothing = true;
	for (int i = 0; i < op->row_count; i++)
		op->op.changes_nothing &= op->claims[i].kind != CLAIM_WRITE;
	op_claimed(&op->op);
}

static bool
claims_suffice(const struct read_op *op)
{
	if (op->piece->request->claimed)
		return true;
	for (int i = 0; i < op->row_count; i++)
		if (op->claims[i].kind == CLAIM_READ &&
		    row_is_made(op, op->first_row + (uint64_t)i))
			return false;
	return true;
}

/* --- end --- */

void
read_op_end(struct read_op *op, int result)
{
	struct engine *engine = op->op.engine;
	struct piece *piece = op->piece;

	release_claims(op);
	if (op->buffer != NULL)
		arena_release(&engine->arena, op->buffer, op->buffer_bytes);
	list_prepend(&engine->io->free_reads, &op->op.node);
	op_gone(engine);
	piece_finish(engine, piece, result);
}

static void
read_fail(struct op *base, int error)
{
	read_op_end((struct read_op *)base, error);
}

void
read_op_again(struct read_op *op)
{
	struct engine *engine = op->op.engine;

	if (op->buffer != NULL)
		arena_release(&engine->arena, op->buffer, op->buffer_bytes);
	op->buffer = NULL;
	if (++op->attempts > ATTEMPTS_MAX) {
		read_op_end(op, -EIO);
		return;
	}
	op->again_ns = engine->figures.stamp_ns;
	TRACE_PIECE(engine, wait__begin, op->piece);
	release_claims(op);
	claim_read_rows(op);
}

/* --- commands --- */

/* The extent's chunk in the request's memory, at `role`. */
static void
add_request_memory(struct read_op *op, struct gather *gather, struct member *member,
		   const struct extent *extent, int role, size_t piece_offset)
{
	struct engine_request *request = op->piece->request;
	size_t skip = op->piece->begin_bytes - request->offset_bytes + piece_offset;
	struct iovec *slice = scratch_reserve(op->op.engine, request->iov_count);
	int count = iov_slice(request->iov, request->iov_count, skip, extent->length_bytes, slice,
			      request->iov_count);

	assert(count > 0);
	gather_add(gather, member,
		   geometry_offset(&op->op.engine->geometry, extent->row, (uint8_t)role) +
			   extent->column_bytes,
		   slice, count);
}

/* Time until this member would have answered one more command. */
static uint64_t
expected_wait(const struct member *member)
{
	return ((uint64_t)member->in_flight_count + 1) * (member->latency_us + 1);
}

/* One that could not read a row may refuse them all: with each attempt rows would go to it again
 * that did not before.
 */
static bool
is_better_copy(const struct read_op *op, const struct member *member, const struct member *best)
{
	const bool shunned = (op->shunned & ROLE(member->role)) && !MUTANT(REFUSER_ASKED_AGAIN);
	const bool best_shunned = (op->shunned & ROLE(best->role)) && !MUTANT(REFUSER_ASKED_AGAIN);

	return shunned != best_shunned ? best_shunned : expected_wait(member) < expected_wait(best);
}

/* The copy to read: of those that are there, the one that will answer first. */
static int
choose_copy(const struct read_op *op, const struct extent *extent)
{
	struct engine *engine = op->op.engine;
	const uint32_t missing = absent(op, extent->row);
	const bool any = !has_one_copy(op, extent->row) || MUTANT(COPY_ANY_FRESH);
	struct member *best = NULL;
	int best_role = -1;

	if (!is_mirror(op))
		return extent->role;
	for (int position = 0; position < engine->geometry.width; position++) {
		int role = geometry_role(&engine->geometry, extent->row, (uint8_t)position);
		struct member *member = engine_holder(engine, extent->row, role);

		if ((missing & ROLE(position)) || member == NULL)
			continue;
		if (best == NULL || (any && is_better_copy(op, member, best))) {
			best = member;
			best_role = role;
		}
	}
	assert(best != NULL);
	return best_role;
}

static void
read_into_request(struct read_op *op, struct gather *gather, const struct extent *extent,
		  size_t piece_offset)
{
	int role = choose_copy(op, extent);

	if (needs_settling(op, extent->row)) {
		op->settle |= 1u << (extent->row - op->first_row);
		op->settle_from[extent->row - op->first_row] = (uint8_t)role;
	}
	add_request_memory(op, gather, engine_holder(op->op.engine, extent->row, role), extent,
			   role, piece_offset);
}

/* --- making up for a missing chunk --- */

/* Is chunk `chunk` of the extent's row read into the request's memory on all of the extent's
 * columns?
 */
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

/* Is the source in the request's memory, or does it need room in the arena? */
static bool
needs_buffer(const struct read_op *op, const struct rebuilt *rebuilt, int position)
{
	const struct geometry *geometry = &op->op.engine->geometry;

	return (rebuilt->sources & ROLE(position)) &&
	       (position >= geometry->data_chunks ||
		!chunk_is_wanted(op, &rebuilt->extent, position));
}

static size_t
rebuild_buffer_bytes(const struct read_op *op, const struct rebuilt *rebuilt)
{
	size_t buffers = 0;

	for (int position = 0; position < op->op.engine->geometry.width; position++)
		buffers += needs_buffer(op, rebuilt, position);
	return buffers * rebuilt->extent.length_bytes;
}

static void
read_for_rebuild(struct read_op *op, struct gather *gather, const struct rebuilt *rebuilt)
{
	const struct geometry *geometry = &op->op.engine->geometry;
	const struct extent *extent = &rebuilt->extent;
	uint8_t *into = op->buffer + rebuilt->arena_offset;

	for (int position = 0; position < geometry->width; position++) {
		uint8_t role = geometry_role(geometry, extent->row, (uint8_t)position);

		if (!needs_buffer(op, rebuilt, position))
			continue;
		gather_add_buffer(gather, engine_holder(op->op.engine, extent->row, role),
				  geometry_offset(geometry, extent->row, role) +
					  extent->column_bytes,
				  into, extent->length_bytes);
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
	struct iov_run runs[IRAID_MEMBERS_MAX];
	struct iovec buffers[IRAID_MEMBERS_MAX];
	uint8_t *from = op->buffer + rebuilt->arena_offset;

	for (int position = 0; position < geometry->width; position++) {
		if (!(rebuilt->sources & ROLE(position)))
			continue;
		if (!needs_buffer(op, rebuilt, position)) {
			runs[position] = request_run(op, chunk_piece_offset(op, extent, position));
			continue;
		}
		buffers[position] = (struct iovec){ from, extent->length_bytes };
		runs[position] = (struct iov_run){ .iov = &buffers[position], .count = 1 };
		from += extent->length_bytes;
	}
	runs[extent->chunk] = request_run(op, rebuilt->piece_offset);
	code_make_runs(geometry, ROLE(extent->chunk), rebuilt->absent, runs, extent->length_bytes);
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
	op->avoid = 0;
	read_op_again(op);
	return true;
}

static void
note_unreadable(struct read_op *op)
{
	for (int i = 0; i < op->row_count; i++)
		repair_note(op->op.engine, op->first_row + (uint64_t)i);
}

/* --- SETTLING --- */

static void
settled(struct read_op *op)
{
	TRACE_PIECE(op->op.engine, write__end, op->piece);
	figures_step(op->op.engine, STEP_WRITE, op->issued_ns, 1);
	marks_wrote(&op->note);
	if (op->error == -ENOLINK)
		read_op_again(op);
	else
		read_op_end(op, op->error);
}

static void
copy_written(struct member_io *mio, int result)
{
	struct read_op *op = mio->owner;

	/* Evicted, durably: it is no copy any more. */
	if (result != 0 && result != -ENOLINK && op->error == 0)
		op->error = result;
	if (--op->pending == 0)
		settled(op);
}

static void
settle_extent(struct read_op *op, struct gather *gather, const struct extent *extent,
	      size_t piece_offset)
{
	struct engine *engine = op->op.engine;
	const uint8_t from = op->settle_from[extent->row - op->first_row];

	for (int position = 0; position < engine->geometry.width; position++) {
		uint8_t role = geometry_role(&engine->geometry, extent->row, (uint8_t)position);
		struct member *writers[2];
		int count = engine_writers(engine, extent->row, role, writers);

		for (int i = role == from ? 1 : 0; i < count; i++)
			if (!MUTANT(SETTLE_SKIPS_TARGET) || writers[i] != engine->target)
				add_request_memory(op, gather, writers[i], extent, role,
						   piece_offset);
	}
}

static void
settle_copies(struct read_op *op)
{
	struct engine *engine = op->op.engine;
	struct gather gather = { .engine = engine,
				 .op = BACKEND_WRITE,
				 .done = copy_written,
				 .owner = op,
				 .pending = &op->pending,
				 .since_ms = op->op.since_ms };
	struct extent extent;

	op->pending = 1; /* this function */
	op->issued_ns = engine->figures.stamp_ns;
	TRACE_PIECE(engine, write__begin, op->piece);
	/* A flush has covered what differed, perhaps, but not this. */
	if (!MUTANT(SETTLED_UNNOTED))
		marks_writes(engine, &op->note, op->first_row, op->settle);
	for (uint64_t at = op->piece->begin_bytes; at < op->piece->end_bytes;
	     at += extent.length_bytes) {
		geometry_locate(&engine->geometry, at, op->piece->end_bytes - at, &extent);
		if (op->settle & 1u << (extent.row - op->first_row))
			settle_extent(op, &gather, &extent, (size_t)(at - op->piece->begin_bytes));
	}
	if (gather_submit(&gather) != 0)
		op->error = -ENOMEM;
	if (--op->pending == 0)
		settled(op);
}

/* Something could not be read.  Find out in which rows, then do without it there.  False: nothing
 * makes up for it.
 */
static bool
do_without(struct read_op *op)
{
	const struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;

	if (geometry->redundancy == 0)
		return false;
	if (!op->row_by_row) {
		op->row_by_row = true;
		return true;
	}
	for (int i = 0; i < op->row_count; i++) {
		uint64_t row = op->first_row + (uint64_t)i;
		uint32_t bad = geometry_positions(geometry, row, op->bad[i]);

		if (bad == 0 || (absent(op, row) & bad) == bad)
			continue;
		/* Nothing is lost while a member that has it only refuses, or another that it could
		 * be made from.
		 */
		op->error = (op->refused & 1u << i) && !MUTANT(REFUSAL_IS_LOSS) ? -EIO : -ENODATA;
		return false;
	}
	return true;
}

static void
rebuild_all(struct read_op *op)
{
	struct engine *engine = op->op.engine;
	uint64_t begun_ns;

	TRACE_PIECE(engine, code__begin, op->piece);
	begun_ns = figures_look(engine);
	for (int i = 0; i < op->rebuilt_count; i++)
		rebuild(op, &op->rebuilt[i]);
	figures_computed(engine, begun_ns, 1);
	TRACE_PIECE(engine, code__end, op->piece);
}

static void
read_finish(struct read_op *op)
{
	struct engine *engine = op->op.engine;

	list_remove(&op->waiting);
	TRACE_PIECE(engine, read__end, op->piece);
	figures_step(engine, STEP_READ, op->issued_ns, 1);
	if (op->error == 0 && (op->rebuilt_count > 0 || is_mirror(op)) &&
	    intent_rows_doubted_since(&engine->intent, op->first_row,
				      op->first_row + (uint64_t)op->row_count - 1, op->doubts) &&
	    !MUTANT(DOUBT_IGNORED)) {
		read_op_again(op);
	} else if (op->error == 0 && op->settle != 0) {
		settle_copies(op);
	} else if (op->error == 0) {
		if (op->rebuilt_count > 0)
			rebuild_all(op);
		engine->counters.reads_reconstructed += (uint64_t)op->rebuilt_count;
		read_op_end(op, 0);
	} else if (op->error == -ENOLINK) {
		read_op_again(op);
	} else if ((op->error == -ENODATA || op->error == -EIO) &&
		   engine->geometry.redundancy > 0 && read_patiently(op)) {
		return;
	} else if (op->error == -ENODATA || op->error == -EIO) {
		note_unreadable(op);
		if (do_without(op))
			read_op_again(op);
		else
			read_op_end(op, op->error);
	} else {
		read_op_end(op, op->error);
	}
}

/* An eviction outranks other errors, for after it everything is tried again. */
static void
note_read_error(struct read_op *op, int result)
{
	if (result != 0 && (op->error == 0 || result == -ENOLINK))
		op->error = result;
}

/* The command was of one row only; which one? */
static void
note_bad(struct read_op *op, const struct member_io *mio, int result)
{
	const struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint8_t role = (uint8_t)mio->member->role;
	const uint64_t at = mio->io.offset_bytes - engine->data_offset_bytes;

	for (int i = 0; i < op->row_count; i++) {
		uint64_t row = op->first_row + (uint64_t)i;

		if (geometry_position(geometry, row, role) < 0 ||
		    at / geometry->chunk_bytes !=
			    geometry_offset(geometry, row, role) / geometry->chunk_bytes)
			continue;
		op->bad[i] |= ROLE(role);
		op->shunned |= ROLE(role);
		if (result == -EIO)
			op->refused |= 1u << i;
	}
}

static void
read_answered(struct member_io *mio, int result)
{
	struct read_op *op = mio->owner;

	note_read_error(op, result);
	if ((result == -ENODATA || result == -EIO) && op->row_by_row)
		note_bad(op, mio, result);
	if (--op->pending == 0)
		read_finish(op);
}

/* Nothing is made from parity that proves nothing.  But of a row that loses nothing the record will
 * say that it holds what the others make of it.
 */
static bool
will_be_defined(const struct engine *engine, uint64_t row)
{
	return !intent_row_losable(&engine->intent, row) && lost_io_undecided(engine) &&
	       !MUTANT(UNDECIDED_REFUSED);
}

/* Until that is on record: request_start_ready() holds it, with its claims, as it holds writes.  It
 * has to look once more: requests may be failing already, and nothing need ever wake the engine
 * again.
 */
static void
wait_for_record(struct read_op *op)
{
	op->op.changes_nothing = false;
	if (!MUTANT(RECORD_AWAITED_UNSEEN))
		op_ready(&op->op);
	else
		list_append(&op->op.engine->ops.ready, &op->op.node);
}

/* List what is to be rebuilt and how much memory that takes.  -ENODATA if a missing chunk's row has
 * redundancy that proves nothing.
 */
static int
list_rebuilt(struct read_op *op, size_t *bytes)
{
	struct engine *engine = op->op.engine;
	uint64_t at = op->piece->begin_bytes;
	struct extent extent;

	op->rebuilt_count = 0;
	*bytes = 0;
	for (; at < op->piece->end_bytes; at += extent.length_bytes) {
		struct rebuilt rebuilt = { .piece_offset = (size_t)(at - op->piece->begin_bytes),
					   .arena_offset = *bytes };

		geometry_locate(&engine->geometry, at, op->piece->end_bytes - at, &extent);
		rebuilt.absent = absent(op, extent.row);
		rebuilt.sources =
			code_sources(&engine->geometry, ROLE(extent.chunk), rebuilt.absent);
		if (!(rebuilt.absent & ROLE(extent.chunk)) ||
		    (is_mirror(op) && rebuilt.sources != 0))
			continue;
		if (rebuilt.sources == 0)
			return -EIO;
		if (engine_trust(engine, extent.row) == ROW_SUSPECT &&
		    !MUTANT(REBUILT_FROM_SUSPECT))
			return will_be_defined(engine, extent.row) ? -EAGAIN : -ENODATA;
		assert(op->rebuilt_count < REBUILT_MAX);
		rebuilt.extent = extent;
		op->rebuilt[op->rebuilt_count++] = rebuilt;
		*bytes += rebuild_buffer_bytes(op, &rebuilt);
	}
	return 0;
}

static void
read_issue(struct read_op *op)
{
	struct engine *engine = op->op.engine;
	struct gather gather = { .engine = engine,
				 .op = BACKEND_READ,
				 .done = read_answered,
				 .owner = op,
				 .pending = &op->pending,
				 .since_ms = op->op.since_ms };
	uint64_t at = op->piece->begin_bytes;
	int next_rebuilt = 0;
	struct extent extent;

	piece_waited(engine, op->piece, op->again_ns);
	TRACE_PIECE(engine, read__begin, op->piece);
	op->error = 0;
	op->settle = 0;
	op->issued_ms = engine->now_ms;
	op->issued_ns = engine->figures.stamp_ns;
	op->look_ms = engine->now_ms + engine->options.hedge_ms;
	op->doubts = engine->intent.doubts;
	list_append(&engine->io->reads, &op->waiting);
	op->pending = 1; /* this function */
	while (at < op->piece->end_bytes) {
		geometry_locate(&engine->geometry, at, op->piece->end_bytes - at, &extent);
		if (next_rebuilt < op->rebuilt_count &&
		    op->rebuilt[next_rebuilt].piece_offset == at - op->piece->begin_bytes)
			read_for_rebuild(op, &gather, &op->rebuilt[next_rebuilt++]);
		else
			read_into_request(op, &gather, &extent,
					  (size_t)(at - op->piece->begin_bytes));
		at += extent.length_bytes;
		if (op->row_by_row && at % geometry_row_bytes(&engine->geometry) == 0)
			note_read_error(op, gather_submit(&gather));
	}
	note_read_error(op, gather_submit(&gather));
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
	if (scratch_reserve(op->op.engine, op->piece->request->iov_count) == NULL) {
		read_op_end(op, -ENOMEM);
		return;
	}
	error = lost_in_range(op->op.engine, op->piece->begin_bytes, op->piece->end_bytes)
			? -ENODATA
			: list_rebuilt(op, &bytes);
	if ((error == -ENODATA || error == -EAGAIN) && read_patiently(op))
		return;
	if (error == -EAGAIN) {
		wait_for_record(op);
		return;
	}
	if (error != 0) {
		read_op_end(op, error);
		return;
	}
	if (bytes > 0) {
		op->buffer = op_take_memory(&op->op, bytes);
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
	struct list *node = list_take(&engine->io->free_reads);
	struct read_op *op = node != NULL ? (struct read_op *)list_entry(node, struct op, node)
					  : calloc(1, sizeof(*op));

	if (op == NULL)
		return false;
	if (!piece_reserve_rows(engine, piece)) {
		list_prepend(&engine->io->free_reads, &op->op.node);
		return false;
	}
	list_init(&op->op.node);
	op->op.engine = engine;
	op->op.holder.granted = op_granted;
	op->op.start = read_start;
	op->op.fail = read_fail;
	op->op.since_ms = piece->since_ms;
	op->op.makes_room = piece->request->writes_back;
	op->piece = piece;
	op->first_row = piece->begin_bytes / row_bytes;
	op->row_count = (int)((piece->end_bytes - 1) / row_bytes - op->first_row) + 1;
	op->attempts = 0;
	op->again_ns = 0;
	op->avoid = engine->geometry.redundancy > 0 ? read_roles_to_evade(engine) : 0;
	op->evades = op->avoid != 0;
	op->row_by_row = op->row_count == 1;
	memset(op->bad, 0, sizeof(op->bad));
	op->shunned = 0;
	op->refused = 0;
	op->patient = false;
	op->buffer = NULL;
	list_init(&op->waiting);
	list_init(&op->note.node);
	assert(op->row_count <= OP_ROWS_MAX);
	engine->ops.count++;
	claim_read_rows(op);
	return true;
}

void
read_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->free_reads)) != NULL)
		free(list_entry(node, struct op, node));
}
