/* write_op.c - one or more adjacent writes, carried out as one.
 *
 *   WAITING --> PREPARING --> LOGGING --> WRITING --> FLUSHING --> FORGETTING --> done
 *      ^            |       (members out)    |       (FUA only)   (lost bytes only)
 *      `-- again ---'                        `--> failed: the rows' parity is suspect from now on
 *
 * A write of lost bytes (state/lost.h) makes them known again: it is flushed, then the table says
 * so, then it is acknowledged.  In this order no crash leaves bytes that read as something else
 * than what was written.
 *
 * WAITING: for the rows (rows.h), for a turn, for memory.  Adjacent writes join meanwhile, so that
 * partial rows become full ones.  PREPARING: old data and parity are read, and the regions' dirty
 * marks become durable; nothing has been written, so any trouble here only means to begin again.
 * LOGGING: while members are out, all that is about to be written is made durable in the write log
 * (record/write_log.h).  WRITING: data and parity are on their way.  A member lost now is made up for by the others, and
 * its commands complete (-ENOLINK) only after its eviction is durable; so the write is
 * acknowledged.
 */
#include "plug.h"
#include "engine/work/work.h"

#include <errno.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 8

static void write_start(struct op *base);
static void write_again(struct write_op *op);
static void split(struct write_op *op);
static bool create_write(struct engine *engine, struct piece *piece, struct write_op *instead);

static bool
is_redundant(const struct write_op *op)
{
	return op->op.engine->geometry.redundancy > 0;
}

/* Where its steps begin and end. */
#define TRACE_WRITE(probe, op)                                                                     \
	TRACE(probe, (op)->op.engine->record.name, (op)->pieces->request->number,                  \
	      (op)->pieces->request->op, (op)->begin_bytes, (op)->end_bytes - (op)->begin_bytes,   \
	      (op)->commands)

/* --- end --- */

static void
drop_memory(struct write_op *op)
{
	write_rows_give_back(op, false);
	if (op->buffer != NULL)
		arena_release(&op->op.engine->arena, op->buffer, op->buffer_bytes);
	op->buffer = NULL;
}

static void
release_rows(struct write_op *op)
{
	for (uint64_t row = write_first_row(op); row <= write_last_row(op); row++)
		/* else they are those of whom it works for */
		if (write_row(op, row)->claim.entry != NULL)
			row_release(op->op.engine->rows, &write_row(op, row)->claim);
}

static void
write_free(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	release_rows(op);
	op->pieces = NULL;
	list_prepend(&engine->io->free_writes, &op->op.node);
	engine->io->writes--;
	engine->io->wide_writes -= op->wide;
	op_gone(engine);
}

static void
leave_writers(struct write_op *op)
{
	op->op.engine->write_log->writers -= op->counts;
	op->counts = false;
}

/* A record that has been sent is replayed, or may be: with it go the marks of its regions, which are
 * dropped now.
 */
static void
end_logged(struct write_op *op, int result)
{
	if (result != 0 && (op->sent || !MUTANT(FAILED_RECORD_STAYS)))
		write_log_spoil(op->op.engine, &op->logged);
	else
		write_log_release(&op->logged);
}

static void
write_end(struct write_op *op, int result)
{
	struct engine *engine = op->op.engine;
	struct piece *piece = op->pieces;

	end_logged(op, result);
	leave_writers(op);
	marks_drop(op->op.engine, &op->marks);
	drop_memory(op);
	write_free(op);
	while (piece != NULL) {
		struct piece *next = piece->next;

		piece_finish(engine, piece, result);
		piece = next;
	}
}

static bool
is_anyone_in_time(const struct write_op *op)
{
	for (const struct piece *piece = op->pieces; piece != NULL; piece = piece->next)
		if (!overdue_since(op->op.engine, piece->since_ms))
			return true;
	return false;
}

/* Those who joined one that is late have time yet. */
static void
write_fail(struct op *base, int error)
{
	struct write_op *op = (struct write_op *)base;

	if (error == -ETIMEDOUT && overdue_since(op->op.engine, op->op.since_ms) &&
	    is_anyone_in_time(op) && !MUTANT(JOINED_LATE))
		split(op);
	else
		write_end(op, error);
}

/* An eviction outranks other errors: after it, everything is tried again. */
static void
note_error(struct write_op *op, int role, int result)
{
	if (result == 0 || op->error == -ENOLINK)
		return;
	if (op->error == 0 || result == -ENOLINK) {
		op->error = result;
		op->failed_role = role;
	}
}

/* Something became suspect since it was planned: what was read may not be what stands there any
 * more (a member came back without its cache), so nothing is made from it, and nothing proven.
 */
static bool
is_doubtful(const struct write_op *op)
{
	return is_redundant(op) && !MUTANT(DOUBT_IGNORED) &&
	       intent_rows_doubted_since(&op->op.engine->intent, write_first_row(op),
					 write_last_row(op), op->doubts);
}

/* What a member had taken of it may be gone with its cache.  Nothing else makes rows doubtful that
 * it holds.
 */
static bool
must_repeat_write(const struct write_op *op)
{
	return op->cache_losses != op->op.engine->cache_losses && !MUTANT(WRITE_NOT_REPEATED_CACHE);
}

/* --- FLUSHING --- */

/* It is written, but the table can't say so.  What is written back waits for that as long as it takes
 * (-ENOSPC); a member that refuses the row is something else.
 */
static void
end_unrecorded(struct write_op *op, int error)
{
	const bool refused = error == -EIO || error == -ENOSPC;

	write_end(op, refused ? (op->op.writes_back ? -ENOSPC : -EIO) : error);
}

static void
lost_forgotten(struct lost_waiter *waiter, int error)
{
	struct write_op *op = list_entry(waiter, struct write_op, forget);

	if (error == 0 && must_repeat_write(op))
		write_again(op);
	else
		end_unrecorded(op, error);
}

static void
write_flushed(struct flush_waiter *waiter, int result)
{
	struct write_op *op = list_entry(waiter, struct write_op, flush);
	struct engine *engine = op->op.engine;

	TRACE_WRITE(flush__end, op);
	figures_step(engine, STEP_FLUSH, op->written_ns, op->commands);
	if (result == 0 && must_repeat_write(op)) {
		write_again(op);
		return;
	}
	if (result == 0 && op->finds_lost)
		result = lost_overwrite(engine, op->begin_bytes, op->end_bytes);
	if (result != 0 || !op->finds_lost) {
		end_unrecorded(op, result);
		return;
	}
	op->state = WRITE_FORGETTING;
	op->forget.done = lost_forgotten;
	op->forget.since_ms = op->op.since_ms;
	list_init(&op->forget.node);
	lost_io_wait(engine, &op->forget);
}

/* --- WRITING --- */

/* Also if something became suspect under way: that was other rows, or a cache was lost, and then
 * the write is repeated.
 */
static void
prove_rows(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		if (!intent_row_suspect(&engine->intent, number))
			continue;
		if (write_row(op, number)->plan.proves_row)
			intent_prove(&engine->intent, number);
		resync_hint(engine, number);
	}
}

static void
write_written(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	TRACE_WRITE(write__end, op);
	figures_step(engine, STEP_WRITE, op->written_ns, op->commands);
	if (op->error != 0) {
		const bool sent = MUTANT(SENT_BY_ERROR) ? op->error != -ENOMEM : op->sent;

		if (is_redundant(op) && sent && !MUTANT(FAILURE_FORGOTTEN))
			marks_failed(engine, write_first_row(op), write_last_row(op));
		write_end(op, op->error);
		return;
	}
	if (must_repeat_write(op)) {
		write_again(op);
		return;
	}
	plug_took(op->op.engine, op->op.engine->now_ms - op->begun_ms);
	write_rows_give_back(op, true);
	if (is_redundant(op)) {
		prove_rows(op);
		op->finds_lost = lost_concerns_write(engine, op->begin_bytes, op->end_bytes);
	}
	if ((!op->fua || MUTANT(FUA_SKIPPED)) && !op->finds_lost) {
		write_end(op, 0);
		return;
	}
	op->state = WRITE_FLUSHING;
	op->flush.done = write_flushed;
	op->flush.told = op->fua && MUTANT(LOSS_TOLD_TO_FUA);
	op->flush.since_ms = op->op.since_ms;
	op->written_ns = engine->figures.stamp_ns;
	TRACE_WRITE(flush__begin, op);
	list_init(&op->flush.node);
	marks_written(&op->marks);
	flush_join(engine, &op->flush);
}

static void
write_answered(struct member_io *mio, int result)
{
	struct write_op *op = mio->owner;

	/* Evicted, durably: parity (or data) on the others makes up for this member. */
	if (result != -ENOLINK)
		note_error(op, mio->member->role, result);
	if (--op->pending == 0)
		write_written(op);
}

/* Long enough to be told from what comes before and behind it in the same turn. */
static void
compute(struct write_op *op)
{
	struct engine *engine = op->op.engine;
	uint64_t begun_ns;

	if (!engine_has_parity(engine))
		return;
	TRACE_WRITE(code__begin, op);
	begun_ns = figures_look(engine);
	write_rows_compute(op);
	figures_computed(engine, begun_ns, op->commands);
	TRACE_WRITE(code__end, op);
}

static void
write_issue(struct write_op *op)
{
	op->state = WRITE_WRITING;
	marks_begins(op->op.engine, &op->marks);
	write_rows_count(op);
	op->written_ns = op->op.engine->figures.stamp_ns;
	TRACE_WRITE(write__begin, op);
	op->pending = 1; /* this function */
	write_rows_write(op, write_answered);
	if (--op->pending == 0)
		write_written(op);
}

/* --- LOGGING --- */

static void
write_logged(struct logged *logged, int error)
{
	struct write_op *op = list_entry(logged, struct write_op, logged);

	if (error == 0 && overdue_since(op->op.engine, op->op.since_ms))
		error = -ETIMEDOUT;
	if (error == -EAGAIN || (error == 0 && (is_doubtful(op) || engine_may_tear(op->op.engine))))
		write_again(op);
	else if (error != 0)
		write_fail(&op->op, error);
	else
		write_issue(op);
}

static void
write_log_or_issue(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	compute(op);
	if (!write_log_on(engine) || MUTANT(ROW_BEFORE_LOG) ||
	    (op->op.writes_back && write_log_is_emptied(engine))) {
		write_issue(op);
		return;
	}
	op->state = WRITE_LOGGING;
	op->logged.ready = write_logged;
	op->logged.since_ms = op->op.since_ms;
	if (write_rows_log(op) != 0)
		write_end(op, -ENOMEM);
	else
		write_log_append(engine, &op->logged);
}

/* One of several joined writes can't be done: let each have its own fate, and all of them the place
 * in the rows' queues that they had together.
 */
static void
split(struct write_op *op)
{
	struct engine *engine = op->op.engine;
	struct piece *piece = op->pieces;
	const bool waited = op->state != WRITE_WAITING;

	end_logged(op, -EAGAIN);
	leave_writers(op);
	/* which also one that waits has, if it begins again behind its record */
	if (waited || !MUTANT(SPLIT_LEAVES_MARKS))
		marks_drop(engine, &op->marks);
	drop_memory(op);
	if (MUTANT(SPLIT_BEHIND))
		release_rows(op);
	while (piece != NULL) {
		struct piece *next = piece->next;

		if (waited) {
			piece->since_ns = engine->figures.stamp_ns;
			TRACE_PIECE(engine, wait__begin, piece);
		}
		if (!create_write(engine, piece, op))
			piece_finish(engine, piece, -ENOMEM);
		piece = next;
	}
	write_free(op);
}

/* --- PREPARING --- */

/* What could not be read can be made up for. */
static bool
may_avoid(const struct write_op *op)
{
	const struct engine *engine = op->op.engine;

	return op->failed_role >= 0 && !(op->avoid & ROLE(op->failed_role)) &&
	       geometry_bears(&engine->geometry,
			      engine->missing | op->avoid | ROLE(op->failed_role));
}

/* Of rows that are kept whole chunks are read, more than the write needs. */
static bool
has_cached(struct write_op *op)
{
	for (uint64_t row = write_first_row(op); row <= write_last_row(op); row++)
		if (write_row(op, row)->cached != NULL)
			return true;
	return false;
}

/* Both since it began, together. */
static void
count_prepared(struct write_op *op)
{
	if (op->marked_ns != 0)
		figures_took(op->op.engine, STEP_MARK, op->marked_ns - op->begun_ns, op->commands);
	if (op->read_ns != 0)
		figures_took(op->op.engine, STEP_READ, op->read_ns - op->begun_ns, op->commands);
}

static void
write_prepared(struct write_op *op)
{
	int error = op->error;

	count_prepared(op);
	/* What it writes now would have all the time of a member again. */
	if (error == 0 && overdue_since(op->op.engine, op->op.since_ms))
		error = -ETIMEDOUT;
	if (error == 0 && !is_doubtful(op) &&
	    (!engine_may_tear(op->op.engine) || MUTANT(WRITTEN_WHEN_PREPARED))) {
		write_log_or_issue(op);
	} else if (error == 0 || error == -ENOLINK) {
		write_again(op);
	} else if ((error == -ENODATA || error == -EIO) && has_cached(op)) {
		op->uncached = true;
		write_again(op);
	} else if ((error == -ENODATA || error == -EIO) && may_avoid(op)) {
		for (uint64_t row = write_first_row(op); row <= write_last_row(op); row++)
			repair_note(op->op.engine, row);
		op->avoid |= ROLE(op->failed_role);
		write_again(op);
	} else if (op->pieces->next != NULL) {
		split(op);
	} else {
		/* What a member refuses to read may be read yet. */
		write_end(op, error == -ENODATA && op->refused && !MUTANT(REFUSAL_IS_LOSS) ? -EIO
											   : error);
	}
}

static void
prepare_done_one(struct write_op *op)
{
	if (--op->pending == 0)
		write_prepared(op);
}

static void
old_data_read(struct member_io *mio, int result)
{
	struct write_op *op = mio->owner;

	note_error(op, mio->member->role, MUTANT(STALE_PARITY) ? 0 : result);
	op->refused |= result == -EIO;
	if (--op->reads == 0) {
		op->read_ns = op->op.engine->figures.stamp_ns;
		TRACE_WRITE(read__end, op);
	}
	prepare_done_one(op);
}

static void
marks_durable(struct region_hold *hold, int error)
{
	struct write_op *op = list_entry(hold, struct write_op, marks);

	note_error(op, -1, error);
	op->marked_ns = op->op.engine->figures.stamp_ns;
	TRACE_WRITE(mark__end, op);
	prepare_done_one(op);
}

static void
mark_regions(struct write_op *op)
{
	struct engine *engine = op->op.engine;
	bool durable;

	marks_drop(engine, &op->marks); /* it begins again, and may have become longer */
	durable = marks_hold(engine, &op->marks, write_first_row(op), write_last_row(op));
	if (op->sent)
		marks_begins(engine, &op->marks);
	if (durable || MUTANT(MARK_UNAWAITED))
		return;
	op->pending++;
	op->marks.since_ms = op->op.since_ms;
	TRACE_WRITE(mark__begin, op);
	marks_wait(engine, &op->marks);
}

static void
count_waited(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	op->commands = 0;
	for (const struct piece *piece = op->pieces; piece != NULL; piece = piece->next) {
		piece_waited(engine, piece, op->again_ns);
		op->commands++;
	}
	op->begun_ns = engine->figures.stamp_ns;
	op->marked_ns = 0;
	op->read_ns = 0;
}

static void
write_prepare(struct write_op *op)
{
	op->state = WRITE_PREPARING;
	op->op.engine->write_log->writers += !op->counts;
	op->counts = true;
	op->error = 0;
	op->failed_role = -1;
	op->pending = 1; /* this function */
	count_waited(op);
	if (is_redundant(op))
		mark_regions(op);
	op->reads = -op->pending;
	write_rows_read(op, old_data_read);
	op->reads += op->pending;
	if (op->reads > 0)
		TRACE_WRITE(read__begin, op);
	prepare_done_one(op);
}

/* --- WAITING --- */

static void
write_again(struct write_op *op)
{
	leave_writers(op);
	/* What was logged keeps its marks, and those behind it their records: rows may be torn. */
	if (op->logged.first == 0)
		marks_drop(op->op.engine, &op->marks);
	op->op.makes_room |= op->logged.first != 0;
	drop_memory(op);
	op->state = WRITE_WAITING;
	op->again_ns = op->op.engine->figures.stamp_ns;
	if (++op->attempts > ATTEMPTS_MAX) {
		write_end(op, -EIO);
		return;
	}
	for (const struct piece *piece = op->pieces; piece != NULL; piece = piece->next)
		TRACE_PIECE(op->op.engine, wait__begin, piece);
	op_ready(&op->op);
}

/* What is in the last row becomes an operation of its own, for the others need not wait.  Nobody
 * may wait for that row.  Does nothing where no piece begins with the row.
 */
static void
detach_last_row(struct write_op *op)
{
	struct engine *engine = op->op.engine;
	const uint64_t border = write_last_row(op) * geometry_row_bytes(&engine->geometry);
	struct piece **link = &op->pieces;
	struct piece *piece;

	while (*link != NULL && (*link)->begin_bytes < border)
		link = &(*link)->next;
	piece = *link;
	if (piece == NULL || piece->begin_bytes != border)
		return;
	*link = NULL;
	row_release(engine->rows, &write_row(op, write_last_row(op))->claim);
	op->end_bytes = border;
	/* The first of them would join this operation again. */
	for (bool first = true; piece != NULL; first = false) {
		struct piece *next = piece->next;

		if ((first || !write_op_merge(engine, piece)) && !write_op_create(engine, piece))
			piece_finish(engine, piece, -ENOMEM);
		piece = next;
	}
}

static void
write_start(struct op *base)
{
	struct write_op *op = (struct write_op *)base;
	int error;

	if (plug_wants(op)) {
		if (plug_wants_all(op)) {
			plug_hold(op);
			return;
		}
		detach_last_row(op);
	}
	op->begun_ms = op->op.engine->now_ms;
	error = write_rows_plan(op);
	op->doubts = op->op.engine->intent.doubts;
	op->cache_losses = op->op.engine->cache_losses;
	if (error != 0 && op->pieces->next != NULL) {
		split(op);
		return;
	}
	if (error == 0)
		error = write_rows_describe_data(op);
	if (error != 0) {
		write_end(op, error);
		return;
	}
	if (op->buffer_bytes > 0) {
		op->buffer = op_take_memory(&op->op, op->buffer_bytes);
		if (op->buffer == NULL) {
			write_rows_give_back(op, false);
			op_wait_for_buffer(&op->op);
			return;
		}
	}
	write_prepare(op);
}

/* --- creation and merging --- */

static void
describe_claim(struct write_op *op, uint64_t number, uint64_t begin_bytes, uint64_t end_bytes)
{
	const uint64_t row_bytes = geometry_row_bytes(&op->op.engine->geometry);
	const uint64_t start = number * row_bytes;
	struct row_claim *claim = &write_row(op, number)->claim;

	*claim = (struct row_claim){
		.holder = &op->op.holder,
		.kind = CLAIM_WRITE,
		.begin_bytes = begin_bytes > start ? begin_bytes - start : 0,
		.end_bytes = end_bytes - start < row_bytes ? end_bytes - start : row_bytes,
	};
	list_init(&claim->in_row);
}

/* The log is not opened while there is one that it might have no room for. */
static void
note_width(struct write_op *op)
{
	struct engine *engine = op->op.engine;

	if (op->wide || !engine_has_parity(engine) ||
	    write_last_row(op) - write_first_row(op) < write_log_rows_max(engine))
		return;
	op->wide = true;
	engine->io->wide_writes++;
}

static void
claim_row(struct write_op *op, uint64_t number, struct write_op *instead)
{
	describe_claim(op, number, op->begin_bytes, op->end_bytes);
	write_row(op, number)->cached = NULL;
	if (op->pieces->request->claimed)
		return;
	if (instead != NULL && write_row(instead, number)->claim.entry != NULL)
		row_claim_before(op->op.engine->rows, &write_row(op, number)->claim,
				 &write_row(instead, number)->claim);
	else
		row_claim(op->op.engine->rows, number, &write_row(op, number)->claim);
}

/* instead: of one that has the piece's rows and gives them up, or NULL. */
static bool
create_write(struct engine *engine, struct piece *piece, struct write_op *instead)
{
	struct list *node = list_take(&engine->io->free_writes);
	struct write_op *op = node != NULL ? (struct write_op *)list_entry(node, struct op, node)
					   : calloc(1, sizeof(*op));

	if (op == NULL)
		return false;
	if (!piece->request->claimed && !piece_reserve_rows(engine, piece)) {
		list_prepend(&engine->io->free_writes, &op->op.node);
		return false;
	}
	list_init(&op->op.node);
	op->op.engine = engine;
	op->op.holder = (struct claim_holder){ .granted = op_granted };
	op->op.start = write_start;
	op->op.fail = write_fail;
	op->state = WRITE_WAITING;
	op->op.since_ms = piece->since_ms;
	op->pieces = piece;
	piece->next = NULL;
	op->begin_bytes = piece->begin_bytes;
	op->end_bytes = piece->end_bytes;
	op->fua = piece->request->fua;
	op->marks = (struct region_hold){ .ready = marks_durable };
	list_init(&op->marks.node);
	op->finds_lost = false;
	op->was_held = false;
	op->was_batched = false;
	op->uncached = false;
	op->attempts = 0;
	op->again_ns = 0;
	op->avoid = 0;
	op->refused = false;
	op->sent = false;
	op->counts = false;
	list_init(&op->logged.node);
	list_init(&op->logged.live);
	op->logged.first = op->logged.last = 0;
	op->logged.writes_back = op->op.writes_back = piece->request->writes_back;
	op->op.makes_room = op->op.writes_back;
	op->buffer = NULL;
	engine->ops.count++;
	engine->io->writes++;
	op->wide = false;
	note_width(op);
	for (uint64_t row = write_first_row(op); row <= write_last_row(op); row++)
		claim_row(op, row, instead);
	op_claimed(&op->op);
	return true;
}

bool
write_op_create(struct engine *engine, struct piece *piece)
{
	return create_write(engine, piece, NULL);
}

struct write_op *
write_of_claim(struct row_claim *claim)
{
	struct write_op *op = (struct write_op *)claim->holder;

	return claim->kind == CLAIM_WRITE && op->op.start == write_start ? op : NULL;
}

/* The write that is last in the row and has not begun, or NULL. */
static struct write_op *
waiting_write(struct engine *engine, uint64_t row)
{
	struct row_claim *claim = row_tail(engine->rows, row);
	struct write_op *op = claim != NULL ? write_of_claim(claim) : NULL;

	return op != NULL && op->state == WRITE_WAITING ? op : NULL;
}

static bool
size_allows(const struct write_op *op, uint64_t begin_bytes, uint64_t end_bytes)
{
	const uint64_t row_bytes = geometry_row_bytes(&op->op.engine->geometry);
	uint64_t rows = (end_bytes - 1) / row_bytes - begin_bytes / row_bytes + 1;

	return rows == 1 ||
	       (rows <= write_rows_max(op->op.engine) && end_bytes - begin_bytes <= OP_BYTES_MAX);
}

/* Claim what the piece adds.  The rows it adds must be unclaimed (else the order of arrival could
 * differ from row to row, and operations wait for each other); the row it shares must have this
 * operation as its last.
 */
static bool
extend_claims(struct write_op *op, const struct piece *piece)
{
	struct row_table *rows = op->op.engine->rows;
	const uint64_t row_bytes = geometry_row_bytes(&op->op.engine->geometry);
	const uint64_t old_first = write_first_row(op);
	const uint64_t old_last = write_last_row(op);
	const uint64_t begin =
		piece->begin_bytes < op->begin_bytes ? piece->begin_bytes : op->begin_bytes;
	const uint64_t end = piece->end_bytes > op->end_bytes ? piece->end_bytes : op->end_bytes;
	const uint64_t piece_last = (piece->end_bytes - 1) / row_bytes;

	for (uint64_t row = piece->begin_bytes / row_bytes; row <= piece_last; row++)
		if ((row < old_first || row > old_last) && row_tail(rows, row) != NULL)
			return false;
	for (uint64_t row = piece->begin_bytes / row_bytes; row <= piece_last; row++) {
		struct row_claim *claim = &write_row(op, row)->claim;
		uint64_t start = row * row_bytes;

		if (row < old_first || row > old_last)
			continue;
		if (!row_widen(rows, claim, begin > start ? begin - start : 0,
			       end - start < row_bytes ? end - start : row_bytes))
			return false;
	}
	op->begin_bytes = begin;
	op->end_bytes = end;
	for (uint64_t row = begin / row_bytes; row <= (end - 1) / row_bytes; row++)
		if (row < old_first || row > old_last)
			claim_row(op, row, NULL);
	return true;
}

static bool
join_write(struct write_op *op, struct piece *piece, bool behind)
{
	uint64_t begin = behind ? op->begin_bytes : piece->begin_bytes;
	uint64_t end = behind ? piece->end_bytes : op->end_bytes;
	struct piece **link = &op->pieces;

	if (!size_allows(op, begin, end) || !extend_claims(op, piece))
		return false;
	while (behind && *link != NULL)
		link = &(*link)->next;
	piece->next = *link;
	*link = piece;
	if (piece->since_ms < op->op.since_ms)
		op->op.since_ms = piece->since_ms;
	op->fua |= piece->request->fua;
	op->op.engine->counters.requests_merged++;
	note_width(op);
	return true;
}

bool
write_op_merge(struct engine *engine, struct piece *piece)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	struct write_op *op;

	if (!piece_reserve_rows(engine, piece))
		return false;
	if (piece->begin_bytes > 0) {
		op = waiting_write(engine, (piece->begin_bytes - 1) / row_bytes);
		if (op != NULL && op->end_bytes == piece->begin_bytes &&
		    join_write(op, piece, true))
			return true;
	}
	if (piece->end_bytes < geometry_volume_bytes(&engine->geometry)) {
		op = waiting_write(engine, piece->end_bytes / row_bytes);
		if (op != NULL && op->begin_bytes == piece->end_bytes &&
		    join_write(op, piece, false))
			return true;
	}
	return false;
}

void
write_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->free_writes)) != NULL) {
		struct write_op *op = (struct write_op *)list_entry(node, struct op, node);

		logged_free(&op->logged);
		free(op->data);
		free(op);
	}
}
