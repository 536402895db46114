/* request.c - requests become pieces, pieces become operations, and what has ended is answered.
 *
 *	request_carry_out --> pieces --> operations --(rows granted)--> ready --> request_start_ready
 *	                                  writes join each other here       |
 *	request_deliver <-- finished <--------------------------------------'
 */
#include "plug.h"
#include "engine/members/members.h"
#include "engine/record/write_log.h"

#include <errno.h>
#include <stdlib.h>

void
request_finish(struct engine *engine, struct engine_request *request)
{
	list_remove(&request->alive);
	request->next = NULL;
	request->cache_losses = engine->cache_losses;
	request->finished_ns = engine->figures.stamp_ns;
	*engine->io->finished_tail = request;
	engine->io->finished_tail = &request->next;
	engine->activity++;
}

struct piece *
piece_create(struct engine *engine, struct engine_request *request, uint64_t begin_bytes,
	     uint64_t end_bytes)
{
	struct piece *piece = engine->io->free_pieces;

	if (piece != NULL)
		engine->io->free_pieces = piece->next;
	else if ((piece = malloc(sizeof(*piece))) == NULL)
		return NULL;
	*piece = (struct piece){
		.request = request,
		.begin_bytes = begin_bytes,
		.end_bytes = end_bytes,
		.since_ms = zero_is_long(request) ? engine->now_ms : request->since_ms,
		/* Ranges of zeros are cut as there is room for them. */
		.since_ns =
			request->op == REQUEST_ZERO ? engine->figures.stamp_ns : request->since_ns,
	};
	list_init(&piece->alive);
	if (zero_is_long(request))
		list_append(&engine->io->zeros_alive, &piece->alive);
	TRACE_PIECE(engine, wait__begin, piece);
	return piece;
}

bool
piece_reserve_rows(struct engine *engine, const struct piece *piece)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	uint64_t rows = (piece->end_bytes - 1) / row_bytes - piece->begin_bytes / row_bytes + 1;

	return row_table_reserve(engine->rows, (uint32_t)rows) == 0;
}

void
piece_finish(struct engine *engine, struct piece *piece, int result)
{
	struct engine_request *request = piece->request;

	list_remove(&piece->alive);
	piece->next = engine->io->free_pieces;
	engine->io->free_pieces = piece;
	if (result != 0 && request->first_error == 0)
		request->first_error = result;
	if (request->op == REQUEST_ZERO)
		zero_piece_ended(engine, request);
	request_let_go(engine, request);
}

void
piece_waited(struct engine *engine, const struct piece *piece, uint64_t again_ns)
{
	TRACE_PIECE(engine, wait__end, piece);
	if (!piece->request->claimed) /* else whom it works for has waited */
		figures_step(engine, STEP_WAIT,
			     piece->since_ns > again_ns ? piece->since_ns : again_ns, 1);
}

/* Only its own rows count: beside writes elsewhere that fail one after the other it would never
 * end.
 */
static bool
is_doubted(const struct engine *engine, const struct engine_request *request)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	const uint64_t end = request->offset_bytes + request->length_bytes;

	if (engine->geometry.redundancy == 0)
		return false;
	if (MUTANT(PIECES_DOUBTED_ANYWHERE))
		return request->doubts != engine->intent.doubts;
	return (request->doubted && !MUTANT(PIECE_UNDOUBTED)) ||
	       intent_regions_doubted_since(&engine->intent, request->offset_bytes / row_bytes,
					    (end - 1) / row_bytes, request->doubts);
}

/* What holds for an operation under way (write_op.c, must_repeat_write()) holds for pieces of the
 * request that are done, too: a cache that was lost may have taken them along, and a missing
 * member's chunk that became doubtful is not what was written, even if it has been filled again
 * since, for their rows are free.  Nothing was acknowledged yet.
 */
static bool
must_repeat_request(const struct engine *engine, const struct engine_request *request)
{
	return (request->op == REQUEST_WRITE || request->op == REQUEST_ZERO) &&
	       request->pieces > 1 && request->first_error == 0 && !MUTANT(PIECE_FORGOTTEN) &&
	       (request->cache_losses != engine->cache_losses || is_doubted(engine, request));
}

void
request_let_go(struct engine *engine, struct engine_request *request)
{
	if (--request->pieces_left > 0)
		return;
	engine->requests_active--;
	if (must_repeat_request(engine, request) && !zero_is_long(request) &&
	    overdue_since(engine, request->since_ms))
		request->first_error = -ETIMEDOUT;
	if (must_repeat_request(engine, request)) {
		behind_again(engine, request);
		request->since_ns = engine->figures.stamp_ns;
		request_carry_out(engine, request);
		return;
	}
	if (request->first_error != 0)
		behind_failed(engine, request);
	behind_ended(engine, request);
	proof_finish(engine, request);
}

uint64_t
write_rows_max(const struct engine *engine)
{
	return engine->options.log != LOG_MODE_OFF && engine_has_parity(engine)
		       ? write_log_rows_max(engine)
		       : OP_ROWS_MAX;
}

/* End of the piece that begins at begin_bytes: at most OP_ROWS_MAX rows, or as many as are written
 * at a time, and OP_BYTES_MAX unless it is within one row.
 */
static uint64_t
piece_end(const struct engine *engine, const struct engine_request *request, uint64_t begin_bytes,
	  uint64_t end_bytes)
{
	const uint64_t most = request->op == REQUEST_WRITE ? write_rows_max(engine) : OP_ROWS_MAX;
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	uint64_t first = begin_bytes / row_bytes;
	uint64_t rows = OP_BYTES_MAX / row_bytes;
	uint64_t limit;

	rows = rows > most ? most : rows < 1 ? 1 : rows;
	limit = (first + rows) * row_bytes;
	return end_bytes < limit ? end_bytes : limit;
}

void
piece_dispatch(struct engine *engine, struct piece *piece)
{
	bool created = false;

	switch (piece->request->op) {
	case REQUEST_READ:
		created = write_back_read(engine, piece) || read_op_create(engine, piece);
		break;
	case REQUEST_WRITE:
		created = write_back_take(engine, piece) ||
			  (!piece->request->claimed && write_op_merge(engine, piece)) ||
			  write_op_create(engine, piece);
		break;
	case REQUEST_FLUSH:
		created = flush_op_create(engine, piece);
		break;
	case REQUEST_COMPARE_WRITE:
		created = compare_op_create(engine, piece);
		break;
	case REQUEST_ZERO: /* zero_op.c cuts it */
		break;
	}
	if (!created)
		piece_finish(engine, piece, -ENOMEM);
}

void
request_carry_out(struct engine *engine, struct engine_request *request)
{
	uint64_t at = request->offset_bytes;
	uint64_t end = request->op == REQUEST_FLUSH ? at : at + request->length_bytes;

	engine->requests_active++;
	request->pieces_left = 1; /* this function */
	request->pieces = 0;
	request->cut_bytes = 0;
	request->doubts = engine->intent.doubts;
	request->doubted = false;
	request->cache_losses = engine->cache_losses;
	plug_note(engine, request);
	proof_begun(engine, request);
	if (request->op == REQUEST_ZERO) {
		zero_begin(engine, request);
		return;
	}
	do {
		bool whole = at == end || request->op == REQUEST_COMPARE_WRITE;
		uint64_t stop = whole ? end
				      : plug_piece_end(engine, request, at,
						       piece_end(engine, request, at, end));
		struct piece *piece = piece_create(engine, request, at, stop);

		if (piece == NULL) {
			request->first_error = -ENOMEM;
			break;
		}
		request->pieces++;
		request->pieces_left++;
		if (stop < end && request->op == REQUEST_WRITE)
			behind_begun(engine, request);
		piece_dispatch(engine, piece);
		at = stop;
	} while (at < end);
	request_let_go(engine, request);
}

static void
take_those_who_make_room(struct list *batch, struct list *from)
{
	for (struct list *node = from->next, *next; node != from; node = next) {
		next = node->next;
		if (!list_entry(node, struct op, node)->makes_room)
			continue;
		list_remove(node);
		list_append(batch, node);
	}
}

/* Those who waited for memory go first, and in order: the first that finds none ends it.  Before them
 * go those who make room in the write log: others wait for that room, with memory of theirs.
 */
static void
collect_ready(struct engine *engine, struct list *batch)
{
	if (!list_empty(&engine->ops.buffer_waiters) && !MUTANT(ROOM_BEHIND)) {
		take_those_who_make_room(batch, &engine->ops.buffer_waiters);
		take_those_who_make_room(batch, &engine->ops.ready);
	}
	list_splice(batch, &engine->ops.buffer_waiters);
	list_splice(batch, &engine->ops.ready);
}

void
request_start_ready(struct engine *engine)
{
	/* Who is missing, or what is lost with it, is being recorded, or will be: nothing is
	 * changed before that is durable.  Reads go on, around who is missing where that is
	 * possible.
	 */
	const bool undecided = lost_io_undecided(engine);
	const bool torn = engine_may_tear(engine) && !MUTANT(WRITTEN_WHILE_SUSPENDED);
	const bool recording = (evict_undecided(engine) || undecided || torn) && !engine->fenced &&
			       engine->phase < PHASE_RELEASE;
	const bool logging =
		write_log_holds(engine) && !engine->fenced && engine->phase < PHASE_RELEASE;
	const bool emptied = write_log_is_emptied(engine);
	struct list batch, held;
	struct list *node;

	list_init(&held);
	list_init(&batch);
	collect_ready(engine, &batch);
	while ((node = list_take(&batch)) != NULL) {
		struct op *op = list_entry(node, struct op, node);

		const bool held_back = recording || (logging && !(emptied && op->writes_back));
		const bool waits = held_back && (!op->changes_nothing || MUTANT(READS_HELD));

		if ((waits && engine->expired) || overdue_since(engine, op->since_ms)) {
			op->fail(op, -ETIMEDOUT);
			continue;
		}
		if (waits) {
			list_append(&held, node);
			continue;
		}
		if (!engine_running(engine)) {
			op->fail(op, -ESHUTDOWN);
			continue;
		}
		op->start(op);
		if (!list_empty(&engine->ops.buffer_waiters)) {
			list_splice(&engine->ops.buffer_waiters, &batch);
			break;
		}
	}
	list_splice(&held, &engine->ops.ready);
	list_splice(&engine->ops.ready, &held);
}

void
request_deliver(struct engine *engine)
{
	while (engine->io->finished_head != NULL) {
		struct engine_request *request = engine->io->finished_head;

		engine->io->finished_head = request->next;
		if (engine->io->finished_head == NULL)
			engine->io->finished_tail = &engine->io->finished_head;
		engine->activity++;
		figures_deliver(engine, request);
	}
	figures_delivered(engine);
}

/* --- the room's memory --- */

void
io_init(struct engine *engine)
{
	struct io *io = engine->io;

	io->admission_tail = &io->admission_head;
	io->proof.tail = &io->proof.head;
	io->behind.tail = &io->behind.head;
	io->finished_tail = &io->finished_head;
	list_init(&io->alive);
	list_init(&io->zeros_alive);
	list_init(&io->reads);
	list_init(&io->plug.ops);
	list_init(&io->free_reads);
	list_init(&io->free_writes);
	list_init(&io->free_zeros);
	list_init(&io->free_compares);
	list_init(&io->free_flushes);
	list_init(&io->backs.rows);
	list_init(&io->backs.urgent);
	list_init(&io->backs.busy);
	list_init(&io->backs.written);
	list_init(&io->backs.free_rows);
	list_init(&io->backs.free_parts);
	list_init(&io->backs.free_pages);
	zero_ops_init(engine);
}

void
io_free(struct engine *engine)
{
	while (engine->io->free_pieces != NULL) {
		struct piece *piece = engine->io->free_pieces;

		engine->io->free_pieces = piece->next;
		free(piece);
	}
	read_ops_free(engine);
	write_ops_free(engine);
	zero_ops_free(engine);
	compare_ops_free(engine);
	flush_ops_free(engine);
	write_backs_free(engine);
}
