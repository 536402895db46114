/* zero_op.c - ranges of zeros: how they are cut, and whole rows of them.
 *
 *	REQUEST_ZERO --> zero_run() --+--> parts of rows: an ordinary write, of zeros that stand in static memory
 *	  waits in `zeros`            `--> whole rows:  WAITING --> MARKING --> LOGGING --> WRITING --> FLUSHING --> FORGETTING
 *
 * A row of zeros has zeros for parity, Q and copies.  So whole rows need no read and no arithmetic:
 * every chunk of every member that gets writes is zeroed, as one command to each member for many
 * rows, and that proves the rows whatever they held before, also those that have lost a chunk.
 * Marks, lost bytes, evictions and flushes are as in write_op.c, only simpler: to begin again is
 * always right, so whatever is doubtful does.
 *
 * A range may have terabytes.  At most PIECES_MAX pieces of all ranges that are not short are under
 * way, each bounded in rows and in bytes, and more are made as those end; what others submit
 * meanwhile passes between them, but for other such ranges: one after the other, or all of them
 * would be late.  The order of two commands that are under way together is nobody's promise; but a
 * command that was given up by who submitted it must not go on over what comes next (limit_ms).
 *
 * One target notes zeros in a table, the next makes them block by block and says nothing meanwhile:
 * what is gone in a millisecond here lasts beyond the deadline there, on all members at once.  So
 * pieces become more, then longer, as members are quick with them, and shorter and one at a time as
 * they are not (learn_pace).
 */
#include "internal.h"
#include "engine/link/gather.h"
#include "engine/link/link.h"
#include "engine/record/write_log.h"
#include "engine/work/work.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 8
#define ROWS_MAX 256
#define PIECES_MAX 4
/* a range that is like any write: cut at once, in two or three pieces */
#define SHORT_BYTES (1u << 20)
/* Of a member, in one piece. */
#define BYTES_FIRST (1u << 20)
#define BYTES_MAX (16u << 20)
#define BYTES_SENT_MAX (1u << 19) /* where they have to be sent */
#define BEARABLE_MS 250u	  /* others wait behind it */
#define GIVE_UP_SHARE 8u	  /* of the time after which a silent member is given up */

enum zero_state {
	ZERO_WAITING,
	ZERO_MARKING,
	ZERO_LOGGING,
	ZERO_WRITING,
	ZERO_FLUSHING,
	ZERO_FORGETTING,
};

struct zero_op {
	struct op op; /* must be first */
	enum zero_state state;
	struct piece *piece; /* whole rows */
	uint64_t first_row;
	int row_count;
	bool finds_lost; /* overwrites what could not be known */
	bool sent;	 /* commands, now or before it was repeated */
	bool counts;	 /* of write_log.writers */
	struct region_hold marks;
	int pending;
	int attempts;
	int error;
	uint64_t sent_ms;
	uint64_t again_ns, begun_ns; /* for figures: begun, what it is at now */
	uint32_t cache_losses;	     /* engine->cache_losses when it began */
	uint32_t doubts;	     /* intent.doubts then */
	struct logged logged;
	struct flush_waiter flush;
	struct lost_waiter forget;
	struct row_claim claims[ROWS_MAX];
};

static void zero_again(struct zero_op *op);

static bool
has_redundancy(const struct engine *engine)
{
	return engine->geometry.redundancy > 0;
}

/* --- end --- */

static void
leave_writers(struct zero_op *op)
{
	op->op.engine->write_log->writers -= op->counts;
	op->counts = false;
}

static void
zero_end(struct zero_op *op, int result)
{
	struct engine *engine = op->op.engine;

	/* A record that was sent may be replayed, without the marks that are dropped now. */
	if (result != 0 && (op->sent || !MUTANT(FAILED_RECORD_STAYS)))
		write_log_spoil(engine, &op->logged);
	else
		write_log_release(&op->logged);
	leave_writers(op);
	marks_drop(engine, &op->marks);
	for (int i = 0; i < op->row_count; i++)
		row_release(engine->rows, &op->claims[i]);
	list_prepend(&engine->io->free_zeros, &op->op.node);
	op_gone(engine);
	piece_finish(engine, op->piece, result);
}

static void
zero_fail(struct op *base, int error)
{
	zero_end((struct zero_op *)base, error);
}

static uint64_t
last_row(const struct zero_op *op)
{
	return op->first_row + (uint64_t)op->row_count - 1;
}

/* Some of it may have gone with a cache, or its rows became suspect with all of their region.
 * Nobody else writes rows that it holds, and its zeros are on all who get writes: no other doubt
 * concerns them.
 */
static bool
must_repeat_zeros(const struct zero_op *op)
{
	const struct engine *engine = op->op.engine;

	if (op->cache_losses != engine->cache_losses)
		return true;
	if (!has_redundancy(engine))
		return false;
	return MUTANT(ZEROS_DOUBTED_ANYWHERE)
		       ? op->doubts != engine->intent.doubts
		       : intent_regions_doubted_since(&engine->intent, op->first_row, last_row(op),
						      op->doubts);
}

/* --- FLUSHING, FORGETTING --- */

static void
zero_forgotten(struct lost_waiter *waiter, int error)
{
	struct zero_op *op = list_entry(waiter, struct zero_op, forget);

	if (error == 0 && must_repeat_zeros(op))
		zero_again(op);
	else
		zero_end(op, error);
}

static void
zero_flushed(struct flush_waiter *waiter, int result)
{
	struct zero_op *op = list_entry(waiter, struct zero_op, flush);
	struct engine *engine = op->op.engine;

	TRACE_PIECE(engine, flush__end, op->piece);
	figures_step(engine, STEP_FLUSH, op->begun_ns, 1);
	if (result == 0 && must_repeat_zeros(op)) {
		zero_again(op);
		return;
	}
	if (result == 0 && op->finds_lost)
		result = lost_overwrite(engine, op->piece->begin_bytes, op->piece->end_bytes);
	if (result != 0 || !op->finds_lost) {
		zero_end(op, result == -ENOSPC ? -EIO : result);
		return;
	}
	op->state = ZERO_FORGETTING;
	op->forget.done = zero_forgotten;
	op->forget.since_ms = op->op.since_ms;
	list_init(&op->forget.node);
	lost_io_wait(engine, &op->forget);
}

/* --- WRITING --- */

static void
prove_zeroed_rows(struct zero_op *op)
{
	struct intent *intent = &op->op.engine->intent;

	for (int i = 0; i < op->row_count; i++) {
		uint64_t row = op->first_row + (uint64_t)i;

		if (!intent_row_suspect(intent, row))
			continue;
		intent_prove(intent, row);
		resync_hint(op->op.engine, row);
	}
}

/* How long may the next pieces be, and how many? Each judges from its own length, so that those
 * under way together say the same.
 */
static void
learn_pace(struct zero_op *op)
{
	struct engine *engine = op->op.engine;
	const uint64_t took_ms = engine->now_ms - op->sent_ms;
	const uint64_t bytes = (uint64_t)op->row_count * engine->geometry.chunk_bytes;
	uint64_t bearable_ms = engine->options.give_up_ms / GIVE_UP_SHARE;

	if (bearable_ms > BEARABLE_MS)
		bearable_ms = BEARABLE_MS;
	if (took_ms > bearable_ms) {
		engine->io->zeros.pieces_max = 1;
		if (bytes / 2 < engine->io->zeros.bytes_max)
			engine->io->zeros.bytes_max = bytes / 2;
	} else if (took_ms > bearable_ms / 4) {
		return;
	} else if (engine->io->zeros.pieces_max < PIECES_MAX) {
		engine->io->zeros.pieces_max++;
	} else if (bytes * 2 > engine->io->zeros.bytes_max && bytes < BYTES_MAX) {
		engine->io->zeros.bytes_max = bytes * 2;
	}
}

static void
zero_written(struct zero_op *op)
{
	struct engine *engine = op->op.engine;

	TRACE_PIECE(engine, write__end, op->piece);
	figures_step(engine, STEP_WRITE, op->begun_ns, 1);
	learn_pace(op);
	if (op->error != 0) {
		const bool sent = MUTANT(ZEROS_SENT_BY_ERROR) ? op->error != -ENOMEM : op->sent;

		if (has_redundancy(engine) && sent && !MUTANT(ZEROS_FAILURE_FORGOTTEN))
			marks_failed(engine, op->first_row, last_row(op));
		zero_end(op, op->error);
		return;
	}
	if (must_repeat_zeros(op) && !MUTANT(ZEROS_NOT_REPEATED)) {
		zero_again(op);
		return;
	}
	if (has_redundancy(engine)) {
		prove_zeroed_rows(op);
		op->finds_lost =
			lost_concerns_write(engine, op->piece->begin_bytes, op->piece->end_bytes) &&
			!MUTANT(ZERO_FORGETS_LOST);
	}
	engine->counters.rows_full += (uint64_t)op->row_count;
	if (!op->piece->request->fua && !op->finds_lost) {
		zero_end(op, 0);
		return;
	}
	op->state = ZERO_FLUSHING;
	op->flush.done = zero_flushed;
	op->flush.told = op->piece->request->fua && MUTANT(LOSS_TOLD_TO_FUA);
	op->flush.since_ms = op->op.since_ms;
	op->begun_ns = engine->figures.stamp_ns;
	TRACE_PIECE(engine, flush__begin, op->piece);
	list_init(&op->flush.node);
	marks_written(&op->marks);
	flush_join(engine, &op->flush);
}

static void
zero_answered(struct member_io *mio, int result)
{
	struct zero_op *op = mio->owner;

	/* Evicted, durably: the others make up for this member. */
	if (result != 0 && result != -ENOLINK && op->error == 0)
		op->error = result;
	if (--op->pending == 0)
		zero_written(op);
}

/* Every chunk of the row, on whoever gets writes of it. */
static void
add_row(struct zero_op *op, struct gather *gather, uint64_t row)
{
	struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;
	struct member *writers[2];

	for (int position = 0; position < geometry->width; position++) {
		uint8_t role = geometry_role(geometry, row, (uint8_t)position);
		int count = engine_writers(engine, row, role, writers);

		for (int i = 0; i < count; i++)
			gather_add_zeros(gather, writers[i], geometry_offset(geometry, row, role),
					 geometry->chunk_bytes);
		if (count == 0 && !has_redundancy(engine))
			op->error = -EIO;
	}
}

static void
zero_write(struct zero_op *op)
{
	struct gather gather = {
		.engine = op->op.engine,
		.op = BACKEND_ZERO,
		.done = zero_answered,
		.owner = op,
		.pending = &op->pending,
		.deallocate = op->piece->request->deallocate,
		.since_ms = op->op.since_ms,
	};

	op->state = ZERO_WRITING;
	marks_begins(op->op.engine, &op->marks);
	op->sent_ms = op->op.engine->now_ms;
	op->begun_ns = op->op.engine->figures.stamp_ns;
	TRACE_PIECE(op->op.engine, write__begin, op->piece);
	op->pending = 1; /* this function */
	for (int i = 0; i < op->row_count; i++)
		add_row(op, &gather, op->first_row + (uint64_t)i);
	if (gather_submit(&gather) != 0)
		op->error = -ENOMEM;
	else
		op->sent = true;
	if (--op->pending == 0)
		zero_written(op);
}

/* --- LOGGING --- */

static void
zero_logged(struct logged *logged, int error)
{
	struct zero_op *op = list_entry(logged, struct zero_op, logged);

	if (error == -EAGAIN || (error == 0 && engine_may_tear(op->op.engine)))
		zero_again(op);
	else if (error != 0)
		zero_end(op, error);
	else
		zero_write(op);
}

static void
zero_log_or_write(struct zero_op *op)
{
	struct engine *engine = op->op.engine;
	const struct log_piece piece = {
		.row = op->first_row,
		.column_bytes = (uint32_t)op->row_count,
		.kind = LOG_PIECE_ZERO_ROWS,
	};

	if (!write_log_on(engine) || MUTANT(ZEROS_BEFORE_LOG)) {
		zero_write(op);
		return;
	}
	op->state = ZERO_LOGGING;
	op->logged.ready = zero_logged;
	op->logged.since_ms = op->op.since_ms;
	logged_begin(&op->logged);
	if (logged_add(&op->logged, &piece, (struct iov_run){ 0 }, true) != 0)
		zero_end(op, -ENOMEM);
	else
		write_log_append(engine, &op->logged);
}

/* --- MARKING --- */

static void
zero_marked(struct region_hold *hold, int error)
{
	struct zero_op *op = list_entry(hold, struct zero_op, marks);

	TRACE_PIECE(op->op.engine, mark__end, op->piece);
	figures_step(op->op.engine, STEP_MARK, op->begun_ns, 1);
	/* What became doubtful meanwhile is asked for when they are written: they are made from
	 * nothing.
	 */
	if (error != 0)
		zero_end(op, error);
	else if (engine_may_tear(op->op.engine) && !MUTANT(ZEROS_WHEN_MARKED))
		zero_again(op);
	else
		zero_log_or_write(op);
}

static void
zero_start(struct op *base)
{
	struct zero_op *op = (struct zero_op *)base;
	struct engine *engine = op->op.engine;
	bool durable;

	piece_waited(engine, op->piece, op->again_ns);
	engine->write_log->writers += !op->counts;
	op->counts = true;
	op->error = 0;
	op->finds_lost = false;
	op->cache_losses = engine->cache_losses;
	op->doubts = engine->intent.doubts;
	marks_drop(engine, &op->marks);
	durable = marks_hold(engine, &op->marks, op->first_row, last_row(op));
	if (op->sent)
		marks_begins(engine, &op->marks);
	if (durable || MUTANT(MARK_UNAWAITED)) {
		zero_log_or_write(op);
		return;
	}
	op->state = ZERO_MARKING;
	op->marks.since_ms = op->op.since_ms;
	op->begun_ns = engine->figures.stamp_ns;
	TRACE_PIECE(engine, mark__begin, op->piece);
	marks_wait(engine, &op->marks);
}

static void
zero_again(struct zero_op *op)
{
	leave_writers(op);
	if (op->logged.first == 0)
		marks_drop(op->op.engine, &op->marks);
	op->op.makes_room |= op->logged.first != 0;
	op->state = ZERO_WAITING;
	op->again_ns = op->op.engine->figures.stamp_ns;
	if (++op->attempts > ATTEMPTS_MAX) {
		zero_end(op, -EIO);
		return;
	}
	TRACE_PIECE(op->op.engine, wait__begin, op->piece);
	op_ready(&op->op);
}

/* --- creation --- */

static void
claim_zeroed_rows(struct zero_op *op)
{
	struct engine *engine = op->op.engine;

	for (int i = 0; i < op->row_count; i++) {
		struct row_claim *claim = &op->claims[i];

		*claim = (struct row_claim){
			.holder = &op->op.holder,
			.kind = CLAIM_WRITE,
			.end_bytes = geometry_row_bytes(&engine->geometry),
		};
		list_init(&claim->in_row);
		row_claim(engine->rows, op->first_row + (uint64_t)i, claim);
	}
}

static bool
zero_op_create(struct engine *engine, struct piece *piece)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	struct list *node = list_take(&engine->io->free_zeros);
	struct zero_op *op = node != NULL ? (struct zero_op *)list_entry(node, struct op, node)
					  : malloc(sizeof(*op));

	if (op == NULL)
		return false;
	if (node == NULL)
		op->logged = (struct logged){ 0 };
	if (!piece_reserve_rows(engine, piece)) {
		list_prepend(&engine->io->free_zeros, &op->op.node);
		return false;
	}
	assert(piece->begin_bytes % row_bytes == 0 && piece->end_bytes % row_bytes == 0);
	op->op = (struct op){
		.holder.granted = op_granted,
		.engine = engine,
		.start = zero_start,
		.fail = zero_fail,
		.since_ms = piece->since_ms,
	};
	list_init(&op->op.node);
	op->state = ZERO_WAITING;
	op->piece = piece;
	op->first_row = piece->begin_bytes / row_bytes;
	op->row_count = (int)((piece->end_bytes - piece->begin_bytes) / row_bytes);
	op->attempts = 0;
	op->sent = false;
	op->counts = false;
	list_init(&op->logged.node);
	list_init(&op->logged.live);
	op->logged.first = op->logged.last = 0;
	op->again_ns = 0;
	op->marks = (struct region_hold){ .ready = zero_marked };
	list_init(&op->marks.node);
	assert(op->row_count > 0 && op->row_count <= ROWS_MAX);
	engine->ops.count++;
	claim_zeroed_rows(op);
	op_claimed(&op->op);
	return true;
}

/* --- long ranges --- */

bool
zero_is_long(const struct engine_request *request)
{
	return request->op == REQUEST_ZERO && request->length_bytes > SHORT_BYTES;
}

void
zero_piece_ended(struct engine *engine, const struct engine_request *request)
{
	if (!zero_is_long(request))
		return;
	engine->io->zeros.pieces--;
	engine->io->zeros.progress_ms = engine->now_ms;
}

/* None of them gets on: all that wait to be cut wait since then. */
static uint64_t
waiting_since(const struct engine *engine, const struct engine_request *request)
{
	return request->since_ms > engine->io->zeros.progress_ms ? request->since_ms
								 : engine->io->zeros.progress_ms;
}

static uint64_t
rows_of_a_piece(const struct engine *engine)
{
	uint64_t bytes = engine->io->zeros.bytes_max;
	uint64_t rows;

	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend != NULL && (member->in_sync || member == engine->target) &&
		    member->identity.zero_bytes_max == 0 && bytes > BYTES_SENT_MAX)
			bytes = BYTES_SENT_MAX;
	}
	rows = bytes / engine->geometry.chunk_bytes;
	if (rows > ROWS_MAX)
		rows = ROWS_MAX;
	return rows > 0 ? rows : 1;
}

/* Whole rows, or what is left of one row. */
static uint64_t
zeroed_piece_end(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	uint64_t rows = (end_bytes - begin_bytes) / row_bytes;
	uint64_t row_end = (begin_bytes / row_bytes + 1) * row_bytes;
	uint64_t rows_max;

	if (begin_bytes % row_bytes != 0 || rows == 0)
		return row_end < end_bytes ? row_end : end_bytes;
	rows_max = rows_of_a_piece(engine);
	return begin_bytes + (rows < rows_max ? rows : rows_max) * row_bytes;
}

static void
cut_piece(struct engine *engine, struct engine_request *request)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	uint64_t border = request->offset_bytes + request->length_bytes;
	uint64_t begin = behind_spare(request, request->offset_bytes + request->cut_bytes, &border);
	uint64_t end = begin < border ? zeroed_piece_end(engine, begin, border) : begin;
	bool whole = begin % row_bytes == 0 && end % row_bytes == 0;
	struct piece *piece;

	if (begin == end) { /* all the rest is newer */
		request->cut_bytes = request->length_bytes;
		return;
	}
	piece = piece_create(engine, request, begin, end);
	if (piece == NULL) {
		request->first_error = -ENOMEM;
		return;
	}
	request->pieces++;
	request->pieces_left++;
	engine->io->zeros.pieces += zero_is_long(request);
	request->cut_bytes = end - request->offset_bytes;
	if (request->cut_bytes > request->zeroed_bytes)
		request->zeroed_bytes = request->cut_bytes;
	if (request->pieces > 1 || zero_is_long(request))
		behind_begun(engine, request);
	if (!(whole ? zero_op_create(engine, piece)
		    : write_op_merge(engine, piece) || write_op_create(engine, piece)))
		piece_finish(engine, piece, -ENOMEM);
}

static bool
needs_cutting(const struct engine_request *request)
{
	return request->first_error == 0 && request->cut_bytes < request->length_bytes;
}

/* Pieces that are under way have their rows: what is submitted now comes behind them.  The others
 * would come behind it.
 */
static bool
is_given_up(const struct engine *engine, const struct engine_request *request)
{
	return request->limit_ms != 0 &&
	       engine->now_ms - request->submitted_ms >= request->limit_ms && !MUTANT(ZEROS_LATE);
}

void
zero_begin(struct engine *engine, struct engine_request *request)
{
	if (is_given_up(engine, request)) /* it is carried out again, or was late already */
		request->first_error = -ETIME;
	if (zero_is_long(request) && (request->first_error == 0 || MUTANT(LATE_ZEROS_QUEUE))) {
		request->next = NULL;
		*engine->io->zeros.tail = request;
		engine->io->zeros.tail = &request->next;
		return;
	}
	while (needs_cutting(request))
		cut_piece(engine, request);
	request_let_go(engine, request);
}

void
zero_run(struct engine *engine)
{
	while (engine->io->zeros.head != NULL) {
		struct engine_request *request = engine->io->zeros.head;
		bool ends = engine->stop_wanted || !engine_running(engine);

		/* A stop does not wait for terabytes. */
		if (ends && needs_cutting(request))
			request->first_error = -ESHUTDOWN;
		if (needs_cutting(request) && is_given_up(engine, request))
			request->first_error = -ETIME;
		/* It is repeated, and would come over what is newer (behind.c). */
		if (request->overtaken && request->cut_bytes < request->zeroed_bytes &&
		    request->first_error == 0)
			request->first_error = -EIO;
		if (needs_cutting(request) && overdue_since(engine, waiting_since(engine, request)))
			request->first_error = -ETIMEDOUT;
		if (needs_cutting(request)) {
			if (engine->io->zeros.pieces >= engine->io->zeros.pieces_max ||
			    engine->ops.count >= OPS_MAX)
				return;
			cut_piece(engine, request);
			continue;
		}
		engine->io->zeros.head = request->next;
		if (engine->io->zeros.head == NULL)
			engine->io->zeros.tail = &engine->io->zeros.head;
		request_let_go(engine, request);
	}
}

uint64_t
zero_deadline(const struct engine *engine)
{
	const struct engine_request *first = engine->io->zeros.head;

	return first != NULL && needs_cutting(first)
		       ? overdue_at(engine, waiting_since(engine, first))
		       : UINT64_MAX;
}

void
zero_ops_init(struct engine *engine)
{
	engine->io->zeros.tail = &engine->io->zeros.head;
	engine->io->zeros.pieces_max = 1;
	engine->io->zeros.bytes_max = BYTES_FIRST;
}

void
zero_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->free_zeros)) != NULL) {
		struct zero_op *op = (struct zero_op *)list_entry(node, struct op, node);

		logged_free(&op->logged);
		free(op);
	}
}
