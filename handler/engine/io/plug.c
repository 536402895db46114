/* plug.c - see plug.h.
 *
 * A stream is writes of which each begins where one before it ended.  Its last write mostly ends
 * within a row, whose rest is on its way: to start it at once costs reading what is overwritten in
 * a moment, and the rest the same again.
 *
 *	granted --> held --(the row is complete)-----------------------------> ready
 *	              |---(somebody else wants the row; trouble; HELD_MS_MAX)--> ready
 *	              `---(no other write is under way, for gap_ms)------------> ready
 *
 * While other writes are under way, initiators will send more when these end.  When none is, what
 * comes next was sent already or nothing comes: how long that may take is learnt.  It is doubled
 * when a row became complete, or when what was missing comes while what did not wait for it is
 * still under way, and halved when nothing came.
 *
 * A stream of depth 1, a journal say, whose next write comes only when the last has ended, is never
 * held: waiting would bring nothing, and there is always somebody else who writes.
 *
 * A write whose rows are complete is held too, for more rows, while BATCH_WRITES others are under
 * way and for batch_ms_max() at most: members get few long commands instead of many.
 */
#include "plug.h"
#include "engine/members/members.h"

#define HELD_MS_MAX 20u
#define GAP_MS_MAX 8u
/* of one member: what one command has at least, if it can */
#define BATCH_BYTES (256u << 10)
/* so many are under way meanwhile, that members have something to do */
#define BATCH_WRITES 2u

static uint64_t
row_bytes_of(const struct engine *engine)
{
	return geometry_row_bytes(&engine->geometry);
}

static void
learn(struct plug *plug, bool came)
{
	if (!came)
		plug->gap_ms /= 2;
	else if (plug->gap_ms < GAP_MS_MAX)
		plug->gap_ms = plug->gap_ms > 0 ? 2 * plug->gap_ms : 1;
}

/* Under way, and ends within a row, where nothing came in time. */
static bool
is_hasty(const struct write_op *op)
{
	return op->was_held && op->state != WRITE_WAITING &&
	       op->end_bytes % row_bytes_of(op->op.engine) != 0;
}

/* A write under way that ends where this one begins. */
static const struct write_op *
predecessor(struct engine *engine, uint64_t begin_bytes)
{
	struct row_claim *claim =
		begin_bytes == 0 ? NULL
				 : row_tail(engine->rows, (begin_bytes - 1) / row_bytes_of(engine));
	const struct write_op *op = claim != NULL ? write_of_claim(claim) : NULL;

	return op != NULL && op->end_bytes == begin_bytes ? op : NULL;
}

void
plug_note(struct engine *engine, const struct engine_request *request)
{
	struct plug *plug = &engine->io->plug;
	struct stream *oldest = &plug->streams[0];
	const struct write_op *before;

	if (request->op != REQUEST_WRITE || !engine_has_parity(engine))
		return;
	plug->clock++;
	before = predecessor(engine, request->offset_bytes);
	if (before != NULL && is_hasty(before))
		learn(plug, true);
	for (int i = 0; i < PLUG_STREAMS; i++) {
		struct stream *stream = &plug->streams[i];

		if (stream->used_at != 0 && stream->end_bytes == request->offset_bytes) {
			stream->end_bytes += request->length_bytes;
			stream->run_bytes += request->length_bytes;
			stream->deep = before != NULL;
			stream->used_at = plug->clock;
			return;
		}
		if (stream->used_at < oldest->used_at)
			oldest = stream;
	}
	*oldest = (struct stream){
		.end_bytes = request->offset_bytes + request->length_bytes,
		.run_bytes = request->length_bytes,
		.used_at = plug->clock,
	};
}

static bool
has_part(const struct stream *stream, const struct write_op *op)
{
	return stream->used_at != 0 && stream->run_bytes >= row_bytes_of(op->op.engine) &&
	       stream->end_bytes >= op->end_bytes &&
	       stream->end_bytes - stream->run_bytes <= op->begin_bytes;
}

bool
plug_in_stream(const struct write_op *op)
{
	for (int i = 0; i < PLUG_STREAMS; i++)
		if (has_part(&op->op.engine->io->plug.streams[i], op))
			return true;
	return false;
}

static bool
is_end_of_stream(const struct write_op *op)
{
	for (int i = 0; i < PLUG_STREAMS; i++) {
		const struct stream *stream = &op->op.engine->io->plug.streams[i];

		if (stream->end_bytes == op->end_bytes && has_part(stream, op))
			return stream->deep;
	}
	return false;
}

/* Its rows are, up to the one it was held for.  Of several the last may be begun only: it is
 * detached when the others go.
 */
static bool
is_complete(const struct write_op *op)
{
	return op->end_bytes % row_bytes_of(op->op.engine) == 0 ||
	       write_first_row(op) < write_last_row(op);
}

static bool
others_write(const struct engine *engine)
{
	return engine->io->writes > engine->io->plug.held;
}

/* More rows may join it, and members are busy until then. */
static bool
wants_more_rows(const struct write_op *op)
{
	const struct engine *engine = op->op.engine;
	const uint64_t rows = write_last_row(op) - write_first_row(op) + 1;
	const unsigned int others = engine->io->writes - engine->io->plug.held - !op->was_held;

	return !op->was_batched && others >= BATCH_WRITES &&
	       rows * engine->geometry.chunk_bytes < BATCH_BYTES;
}

/* Somebody waits behind it. */
static bool
is_in_the_way(struct write_op *op)
{
	for (uint64_t row = write_first_row(op); row <= write_last_row(op); row++)
		if (row_tail(op->op.engine->rows, row) != &write_row(op, row)->claim)
			return true;
	return false;
}

static bool
is_calm(const struct engine *engine)
{
	return engine->phase == PHASE_RUNNING && !engine->stop_wanted && !engine->fenced &&
	       !engine->suspended && !evict_undecided(engine);
}

bool
plug_wants(const struct write_op *op)
{
	struct engine *engine = op->op.engine;

	/* what begins again behind its record has all of its rows in there */
	if (op->logged.first != 0 && !MUTANT(RECORDED_KEPT_BACK))
		return false;
	return !op->was_held && engine_has_parity(engine) && !op->fua &&
	       !op->pieces->request->claimed &&
	       (op->end_bytes % row_bytes_of(engine) != 0 || wants_more_rows(op)) &&
	       is_calm(engine) && is_end_of_stream(op) &&
	       row_tail(engine->rows, write_last_row(op)) ==
		       &op->rows[write_last_row(op) % OP_ROWS_MAX].claim;
}

bool
plug_wants_all(const struct write_op *op)
{
	return write_first_row(op) == write_last_row(op) || wants_more_rows(op);
}

void
plug_hold(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	op->was_held = true;
	op->held_complete = is_complete(op);
	op->held_ms = engine->now_ms;
	op->alone_ms = 0;
	engine->io->plug.held++;
	engine->activity++; /* plug_run() has to see it */
	list_append(&engine->io->plug.ops, &op->op.node);
}

/* A part of what a write takes: where members are far away, waiting for more rows must not cost
 * what it saves.
 */
static uint32_t
batch_ms_max(const struct engine *engine)
{
	const uint32_t part = engine->io->plug.write_us / 8000;

	return part < 1 ? 1 : part > HELD_MS_MAX ? HELD_MS_MAX : part;
}

void
plug_took(struct engine *engine, uint64_t milliseconds)
{
	struct plug *plug = &engine->io->plug;

	plug->write_us = (uint32_t)((7 * (uint64_t)plug->write_us +
				     1000 * (milliseconds < 10000 ? milliseconds : 10000)) /
				    8);
}

static bool
must_go(struct write_op *op)
{
	struct engine *engine = op->op.engine;
	const bool in_trouble = !is_calm(engine) || op->fua || is_in_the_way(op);

	if (is_complete(op)) {
		if (!in_trouble && wants_more_rows(op) &&
		    engine->now_ms - op->held_ms < batch_ms_max(engine))
			return false;
		if (!op->held_complete)
			learn(&engine->io->plug, true);
		op->was_held = false; /* what came beyond the row may have to wait in its turn */
		op->was_batched = true;
		return true;
	}
	if (in_trouble || engine->now_ms - op->held_ms >= HELD_MS_MAX)
		return true;
	if (others_write(engine)) {
		op->alone_ms = 0;
		return false;
	}
	if (op->alone_ms == 0)
		op->alone_ms = engine->now_ms;
	if (engine->now_ms - op->alone_ms < engine->io->plug.gap_ms)
		return false;
	learn(&engine->io->plug, false);
	return true;
}

void
plug_run(struct engine *engine)
{
	struct list *next;

	for (struct list *node = engine->io->plug.ops.next; node != &engine->io->plug.ops;
	     node = next) {
		struct write_op *op = (struct write_op *)list_entry(node, struct op, node);

		next = node->next;
		if (!must_go(op))
			continue;
		list_remove(node);
		engine->io->plug.held--;
		op_ready(&op->op);
	}
}

uint64_t
plug_deadline(const struct engine *engine)
{
	uint64_t deadline = UINT64_MAX;

	for (struct list *node = engine->io->plug.ops.next; node != &engine->io->plug.ops;
	     node = node->next) {
		const struct write_op *op =
			(const struct write_op *)list_entry(node, struct op, node);
		uint64_t end = op->held_ms + (is_complete(op) ? batch_ms_max(engine) : HELD_MS_MAX);

		if (!is_complete(op) && op->alone_ms != 0 &&
		    op->alone_ms + engine->io->plug.gap_ms < end)
			end = op->alone_ms + engine->io->plug.gap_ms;
		deadline = end < deadline ? end : deadline;
	}
	return deadline;
}

uint64_t
plug_piece_end(const struct engine *engine, const struct engine_request *request,
	       uint64_t begin_bytes, uint64_t end_bytes)
{
	uint64_t boundary = end_bytes - end_bytes % row_bytes_of(engine);

	if (request->op != REQUEST_WRITE || !engine_has_parity(engine) || boundary <= begin_bytes)
		return end_bytes;
	return boundary;
}
