/* write_back.c - small writes that the write log has acknowledged, and that come to their row later.
 *
 *	piece --> its data goes to the log, and is kept here --(durable)--> acknowledged
 *	            |  more pieces of the row join
 *	            v
 *	          HELD --(somebody waits for the row, it is old or full, the log needs room or is closed)
 *	            v
 *	          READING  what lies between, if it is little      claimed, as the next
 *	            v
 *	          WRITING  each run of bytes, flushed              --(failed)--> HELD, tried again
 *	            v
 *	          gone: its records need not be kept any more
 *
 * Of each row there is one at most, and it has the row's claim all the time: whoever wants what is
 * not in the row yet comes behind it, and thereby has it written.  Reads of nothing but what is held
 * are answered from here.  It is written by ordinary writes, which log data and redundancy before
 * they touch the row, and is kept until these are flushed: what a lost cache takes along is written
 * once more (write_op.c).
 *
 * Only while all members are there: else a write may find that its row can't be written, and should
 * say so.  It may find that later, too, when a member has gone and more of the row can't be read than
 * the level bears.  Then those blocks are lost, on record, as any that can't be known (LOSING).
 * Whatever else keeps it from its row, it stays, in the log and here, and is tried again.  A stop that
 * can't wait for it leaves it to the next start.
 */
#include "internal.h"
#include "engine/members/members.h"
#include "engine/record/write_log.h"
#include "pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define HELD_MS_MAX 1000u
#define RETRY_MS 1000u
#define REFUSALS_MAX 4u
#define WRITTEN_MAX 16u /* rows, at a time */
#define PIECE_BYTES_MAX (64u << 10)
#define MEMORY_BYTES_MAX (32u << 20)
#define ROWS_MAX 1024u
/* Reading what lies between is better than several writes, if it is not more than that. */
#define BETWEEN_BYTES_MAX (64u << 10)

enum block {
	BLOCK_NOT_HERE,
	BLOCK_HELD,
	BLOCK_BETWEEN, /* read from the row, to be written with the others */
};

enum back_state {
	BACK_HELD,
	BACK_READING,
	BACK_WRITING,
	BACK_LOSING, /* a block of it can't be written: that goes on record */
};

struct write_back {
	struct op op; /* must be first; for its claim only */
	enum back_state state;
	struct list node; /* of io.backs.rows */
	uint64_t row;
	struct row_claim claim;
	struct list logging;	  /* of back_part.node: their records are not durable yet */
	struct list unlogged;	  /* ... nor will be: answered when the row is written */
	struct back_part *oldest; /* its records, and all behind them, are kept */
	uint64_t since_ms, retry_ms;
	bool failed; /* which was told */
	bool lost;   /* some of it is */
	bool unsure; /* the same has failed, and may be in no record: nobody may see it yet */
	uint32_t refusals;
	enum { ALL_TOGETHER, RUN_BY_RUN, BLOCK_BY_BLOCK } narrow; /* as the others failed */
	uint32_t begin, at; /* blocks: of what is being written, and where the next begins */
	struct lost_waiter recorded;
	struct engine_request inner;
	struct iovec iov;
	uint8_t *bytes; /* the row's data */
	uint8_t *set;	/* by block of it: enum block */
	uint8_t *old;	/* the same as bytes, while it is read */
};

struct back_part { /* of a request, or of what a start has found */
	struct list node;
	struct write_back *back;
	struct piece *piece; /* NULL: it is answered */
	struct iovec iov;
	struct logged logged;
};

static uint32_t
row_bytes_of(const struct engine *engine)
{
	return (uint32_t)geometry_row_bytes(&engine->geometry);
}

static uint32_t
blocks_of(const struct engine *engine)
{
	return row_bytes_of(engine) / engine->geometry.block_bytes;
}

/* --- memory --- */

static void
never_started(struct op *op)
{
	(void)op;
	assert(false);
}

static void
free_back(struct write_back *back)
{
	free(back->bytes);
	free(back->set);
	free(back->old);
	free(back);
}

static struct write_back *
new_back(struct engine *engine)
{
	struct list *node = list_take(&engine->io->backs.free_rows);
	struct write_back *back =
		node != NULL ? list_entry(node, struct write_back, node) : calloc(1, sizeof(*back));

	if (back == NULL)
		return NULL;
	if (back->bytes == NULL)
		back->bytes = malloc(row_bytes_of(engine));
	if (back->set == NULL)
		back->set = malloc(blocks_of(engine));
	if (back->bytes == NULL || back->set == NULL) {
		free_back(back);
		return NULL;
	}
	memset(back->set, 0, blocks_of(engine));
	back->op = (struct op){ .engine = engine, .start = never_started };
	back->state = BACK_HELD;
	list_init(&back->node);
	list_init(&back->op.node);
	list_init(&back->logging);
	list_init(&back->unlogged);
	back->oldest = NULL;
	back->retry_ms = 0;
	back->failed = back->lost = back->unsure = false;
	back->refusals = 0;
	back->narrow = ALL_TOGETHER;
	return back;
}

static struct back_part *
new_part(struct engine *engine, struct write_back *back, struct piece *piece)
{
	struct list *node = list_take(&engine->io->backs.free_parts);
	struct back_part *part =
		node != NULL ? list_entry(node, struct back_part, node) : calloc(1, sizeof(*part));

	if (part == NULL)
		return NULL;
	list_init(&part->node);
	list_init(&part->logged.node);
	list_init(&part->logged.live);
	part->logged.first = part->logged.last = 0;
	part->logged.is_held = true;
	part->back = back;
	part->piece = piece;
	logged_begin(&part->logged);
	return part;
}

static void
drop_part(struct engine *engine, struct back_part *part)
{
	list_remove(&part->node);
	write_log_release(&part->logged);
	list_prepend(&engine->io->backs.free_parts, &part->node);
}

static void
answer(struct engine *engine, struct back_part *part, int result)
{
	struct piece *piece = part->piece;

	part->piece = NULL;
	if (piece != NULL)
		piece_finish(engine, piece, result);
}

/* What its writes log: data and redundancy, and headers. */
static uint64_t
bytes_to_log(const struct write_back *back)
{
	const struct geometry *geometry = &back->op.engine->geometry;
	const uint64_t data = back->claim.end_bytes - back->claim.begin_bytes;
	const uint64_t columns = data < geometry->chunk_bytes ? data : geometry->chunk_bytes;

	return data + geometry->redundancy * columns + 2ull * LOG_BLOCK_BYTES;
}

static void
begin_row(struct engine *engine, struct write_back *back, uint64_t row, uint64_t begin_bytes,
	  uint64_t end_bytes)
{
	back->row = row;
	back->since_ms = engine->now_ms;
	back->claim = (struct row_claim){
		.holder = &back->op.holder,
		.kind = CLAIM_WRITE,
		.begin_bytes = begin_bytes,
		.end_bytes = end_bytes,
	};
	list_init(&back->claim.in_row);
	row_claim(engine->rows, row, &back->claim);
	assert(back->claim.granted);
	list_append(&engine->io->backs.rows, &back->node);
	engine->io->backs.count++;
	engine->write_log->held_bytes += bytes_to_log(back);
}

static void
end_row(struct write_back *back, int result)
{
	struct engine *engine = back->op.engine;
	struct list *node;

	while ((node = list_take(&back->unlogged)) != NULL) {
		struct back_part *part = list_entry(node, struct back_part, node);

		answer(engine, part, result);
		drop_part(engine, part);
	}
	if (back->oldest != NULL)
		drop_part(engine, back->oldest);
	list_remove(&back->node);
	engine->io->backs.count--;
	engine->write_log->held_bytes -= bytes_to_log(back);
	engine->activity++;
	row_release(engine->rows, &back->claim);
	list_prepend(&engine->io->backs.free_rows, &back->node);
}

/* --- the log --- */

static void
part_logged(struct logged *logged, int error)
{
	struct back_part *part = list_entry(logged, struct back_part, logged);
	struct write_back *back = part->back;
	struct engine *engine = back->op.engine;

	list_remove(&part->node);
	if (error == -EAGAIN) {
		write_log_release(&part->logged);
		list_append(&back->unlogged, &part->node);
		return;
	}
	back->unsure |= error != 0;
	answer(engine, part, error);
	if (error == 0 && back->oldest == NULL && !MUTANT(HELD_KEPT_BRIEFLY))
		back->oldest = part;
	else
		drop_part(engine, part);
}

/* As pieces of chunks.  0 or -ENOMEM. */
static int
describe(struct back_part *part, uint32_t begin, uint32_t end)
{
	const struct write_back *back = part->back;
	const struct geometry *geometry = &back->op.engine->geometry;

	part->iov = (struct iovec){ back->bytes + begin, end - begin };
	for (uint32_t at = begin, stop; at < end; at = stop) {
		const uint32_t chunk = at / geometry->chunk_bytes;
		struct log_piece piece = {
			.row = back->row,
			.column_bytes = at % geometry->chunk_bytes,
			.role = geometry_role(geometry, back->row, (uint8_t)chunk),
			.kind = LOG_PIECE_PENDING,
		};

		stop = (chunk + 1) * geometry->chunk_bytes < end
			       ? (chunk + 1) * geometry->chunk_bytes
			       : end;
		piece.length_bytes = stop - at;
		if (logged_add(&part->logged, &piece, (struct iov_run){ &part->iov, 1, at - begin },
			       true) != 0)
			return -ENOMEM;
	}
	return 0;
}

static void
keep(struct back_part *part, uint32_t begin, uint32_t end)
{
	const struct engine_request *request = part->piece->request;
	struct write_back *back = part->back;
	const uint32_t block = back->op.engine->geometry.block_bytes;
	struct iov_run from = { request->iov, request->iov_count, 0 };

	/* one source: a copy */
	parity_xor_runs((struct iov_run){ &part->iov, 1, 0 }, &from, 1, end - begin);
	memset(back->set + begin / block, BLOCK_HELD, (end - begin) / block);
}

/* --- a piece that arrives --- */

/* Nothing is on the way that a write would have to wait for. */
static bool
is_calm(const struct engine *engine)
{
	return engine->phase == PHASE_RUNNING && !engine->stop_wanted && !engine->fenced &&
	       !engine->suspended && engine->out == 0 && !evict_undecided(engine) &&
	       !lost_io_undecided(engine) && !engine_may_tear(engine);
}

static bool
is_log_steady(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return engine->options.log == LOG_MODE_ALWAYS && log->on && log->step == LOG_STEADY &&
	       !log->failed && !log->spoiled && !log->renews && !log->blocked;
}

static uint64_t
memory_bytes(const struct engine *engine)
{
	return (uint64_t)engine->io->backs.count * row_bytes_of(engine);
}

/* All of a request, in part of one row whose redundancy can be made. */
static bool
may_be_taken(const struct engine *engine, const struct piece *piece)
{
	const struct engine_request *request = piece->request;
	const uint64_t row_bytes = row_bytes_of(engine), row = piece->begin_bytes / row_bytes;
	const uint64_t length = piece->end_bytes - piece->begin_bytes;

	return request->op == REQUEST_WRITE && !request->claimed &&
	       length == request->length_bytes && length < row_bytes && length <= PIECE_BYTES_MAX &&
	       length <= write_log_part_bytes(engine) &&
	       (piece->end_bytes - 1) / row_bytes == row &&
	       engine_trust(engine, row) == ROW_PROVEN &&
	       !lost_concerns_write(engine, row * row_bytes, (row + 1) * row_bytes);
}

static struct write_back *
of_row(struct engine *engine, uint64_t row)
{
	struct row_claim *claim = row_head(engine->rows, row);
	struct op *op = claim != NULL ? (struct op *)claim->holder : NULL;

	return op != NULL && claim->kind == CLAIM_WRITE && op->start == never_started
		       ? (struct write_back *)op
		       : NULL;
}

/* In two records under way together they would have no order, and in one they would contradict. */
static bool
is_being_logged(const struct write_back *back, const uint8_t *begin, const uint8_t *end)
{
	for (const struct list *node = back->logging.next; node != &back->logging;
	     node = node->next) {
		const struct iovec *iov = &list_entry(node, struct back_part, node)->iov;
		const uint8_t *at = iov->iov_base;

		if (at < end && begin < at + iov->iov_len)
			return true;
	}
	return false;
}

static bool
widen(struct write_back *back, uint32_t begin, uint32_t end)
{
	struct engine *engine = back->op.engine;
	const uint64_t first = begin < back->claim.begin_bytes ? begin : back->claim.begin_bytes;
	const uint64_t last = end > back->claim.end_bytes ? end : back->claim.end_bytes;
	const uint64_t before = bytes_to_log(back);

	if (!row_widen(engine->rows, &back->claim, first, last))
		return false;
	engine->write_log->held_bytes += bytes_to_log(back) - before;
	return true;
}

static bool
add(struct write_back *back, struct piece *piece, uint32_t begin, uint32_t end)
{
	struct engine *engine = back->op.engine;
	struct back_part *part = new_part(engine, back, piece);

	if (part == NULL)
		return false;
	if (describe(part, begin, end) != 0) {
		drop_part(engine, part);
		return false;
	}
	piece_waited(engine, piece, 0);
	keep(part, begin, end);
	part->logged.ready = part_logged;
	part->logged.since_ms = piece->since_ms;
	list_append(&back->logging, &part->node);
	if (MUTANT(HELD_ACKED_EARLY))
		answer(engine, part, 0);
	write_log_append(engine, &part->logged);
	return true;
}

static bool
begin(struct engine *engine, struct piece *piece, uint64_t row, uint32_t begin_bytes,
      uint32_t end_bytes)
{
	struct write_back *back;

	if (row_tail(engine->rows, row) != NULL || memory_bytes(engine) >= MEMORY_BYTES_MAX ||
	    engine->io->backs.count >= ROWS_MAX || !write_log_has_ample_room(engine) ||
	    !piece_reserve_rows(engine, piece) || (back = new_back(engine)) == NULL)
		return false;
	begin_row(engine, back, row, begin_bytes, end_bytes);
	if (add(back, piece, begin_bytes, end_bytes))
		return true;
	end_row(back, 0);
	return false;
}

bool
write_back_take(struct engine *engine, struct piece *piece)
{
	const uint64_t row = piece->begin_bytes / row_bytes_of(engine);
	const uint32_t begin_bytes = (uint32_t)(piece->begin_bytes % row_bytes_of(engine));
	const uint32_t end_bytes = begin_bytes + (uint32_t)(piece->end_bytes - piece->begin_bytes);
	struct write_back *back;

	if (!is_log_steady(engine) || !is_calm(engine) || !may_be_taken(engine, piece))
		return false;
	back = of_row(engine, row);
	if (back == NULL)
		return begin(engine, piece, row, begin_bytes, end_bytes);
	return back->state == BACK_HELD &&
	       !is_being_logged(back, back->bytes + begin_bytes, back->bytes + end_bytes) &&
	       widen(back, begin_bytes, end_bytes) && add(back, piece, begin_bytes, end_bytes);
}

bool
write_back_read(struct engine *engine, struct piece *piece)
{
	const struct engine_request *request = piece->request;
	const uint32_t row_bytes = row_bytes_of(engine), block = engine->geometry.block_bytes;
	const uint32_t begin_bytes = (uint32_t)(piece->begin_bytes % row_bytes);
	const uint32_t length = (uint32_t)(piece->end_bytes - piece->begin_bytes);
	const struct write_back *back;
	struct iov_run from;
	struct iovec held;

	if (engine->io->backs.count == 0 || request->claimed || length > row_bytes - begin_bytes)
		return false;
	back = of_row(engine, piece->begin_bytes / row_bytes);
	/* What is not durable yet may be gone after a crash, and nobody may have seen it. */
	if (back == NULL || (!list_empty(&back->logging) && !MUTANT(HELD_READ_EARLY)) ||
	    !list_empty(&back->unlogged) || back->unsure || row_is_awaited(&back->claim) ||
	    !engine_running(engine) || engine->fenced)
		return false;
	for (uint32_t at = begin_bytes / block; at < (begin_bytes + length) / block; at++)
		if (back->set[at] == BLOCK_NOT_HERE)
			return false;
	held = (struct iovec){ back->bytes + begin_bytes, length };
	from = (struct iov_run){ &held, 1, 0 };
	parity_xor_runs((struct iov_run){ request->iov, request->iov_count,
					  piece->begin_bytes - request->offset_bytes },
			&from, 1, length);
	piece_waited(engine, piece, 0);
	piece_finish(engine, piece, 0);
	return true;
}

/* --- to its row --- */

static void write_next_run(struct write_back *back);

static void
submit_inner(struct write_back *back, enum request_op kind, uint8_t *bytes, uint32_t begin,
	     uint32_t end, void (*done)(struct engine_request *request, int result))
{
	struct engine *engine = back->op.engine;

	back->iov = (struct iovec){ bytes + begin, end - begin };
	back->inner = (struct engine_request){
		.op = kind,
		.fua = kind == REQUEST_WRITE && !MUTANT(HELD_UNFLUSHED),
		.offset_bytes = back->row * row_bytes_of(engine) + begin,
		.length_bytes = end - begin,
		.iov = &back->iov,
		.iov_count = 1,
		.done = done,
		.owner = back,
		.claimed = true,
		.writes_back = true,
		.since_ns = engine->figures.stamp_ns,
	};
	list_init(&back->inner.alive);
	request_carry_out(engine, &back->inner);
}

/* It stays, and is tried again. */
static void
put_off(struct write_back *back, int error)
{
	struct engine *engine = back->op.engine;

	back->state = BACK_HELD;
	back->retry_ms = engine->now_ms + RETRY_MS;
	engine->io->backs.under_way--;
	engine->activity++;
	if (!back->failed && error != -ESHUTDOWN)
		engine_log(
			engine, LOG_WARNING,
			"row %llu can't take what the write log has acknowledged (%s): it stays in "
			"the log, and is tried again",
			(unsigned long long)back->row, strerror(-error));
	back->failed = true;
}

static void
loss_recorded(struct lost_waiter *waiter, int error)
{
	struct write_back *back = list_entry(waiter, struct write_back, recorded);
	struct engine *engine = back->op.engine;

	if (error != 0) {
		put_off(back, error);
		return;
	}
	if (!back->lost)
		engine_event(
			engine, EVENT_DATA_LOST, LOG_ERR, NULL,
			"of row %llu more can't be read than the level bears, so what the write "
			"log has acknowledged there has no place: it reads as medium errors until "
			"it is overwritten or accepted",
			(unsigned long long)back->row);
	back->lost = true;
	memset(back->set + back->begin, BLOCK_NOT_HERE, back->at - back->begin);
	back->state = BACK_WRITING;
	write_next_run(back);
}

/* One block, that can't be written for good. */
static void
lose(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint32_t at = back->begin * geometry->block_bytes;
	const struct lost_extent extent = {
		.row = back->row,
		.rows = 1,
		.column_begin = at % geometry->chunk_bytes,
		.column_end = at % geometry->chunk_bytes + geometry->block_bytes,
		.role = geometry_role(geometry, back->row, (uint8_t)(at / geometry->chunk_bytes)),
	};

	if (lost_add(engine->lost, &extent) != 0) {
		put_off(back, -ENOSPC);
		return;
	}
	back->state = BACK_LOSING;
	back->recorded = (struct lost_waiter){ .done = loss_recorded };
	list_init(&back->recorded.node);
	lost_io_wait(engine, &back->recorded);
}

/* Anew, but less at a time: perhaps only some of it can't be written. */
static void
write_narrower(struct write_back *back)
{
	for (uint32_t at = 0; at < blocks_of(back->op.engine); at++)
		if (back->set[at] == BLOCK_BETWEEN)
			back->set[at] = BLOCK_NOT_HERE;
	back->narrow++;
	back->at = 0;
	write_next_run(back);
}

static void
run_written(struct engine_request *inner, int result)
{
	struct write_back *back = inner->owner;

	/* Refused, not unreadable: perhaps not for long, but others wait for the row. */
	if (result == -EIO && ++back->refusals >= REFUSALS_MAX)
		result = -ENODATA;
	if (result == 0)
		write_next_run(back);
	else if (result != -ENODATA)
		put_off(back, result);
	else if (back->narrow < BLOCK_BY_BLOCK)
		write_narrower(back);
	else
		lose(back);
}

static void
write_next_run(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes, blocks = blocks_of(engine);
	const uint32_t most = back->narrow < BLOCK_BY_BLOCK ? blocks : 1;

	while (back->at < blocks && back->set[back->at] == BLOCK_NOT_HERE)
		back->at++;
	back->begin = back->at;
	while (back->at < blocks && back->at - back->begin < most &&
	       back->set[back->at] != BLOCK_NOT_HERE)
		back->at++;
	if (back->begin == back->at) {
		engine->io->backs.under_way--;
		end_row(back, back->lost ? -ENODATA : 0);
		return;
	}
	submit_inner(back, REQUEST_WRITE, back->bytes, back->begin * block, back->at * block,
		     run_written);
}

static void
write_runs(struct write_back *back)
{
	back->state = BACK_WRITING;
	back->at = 0;
	write_next_run(back);
}

static void
between_read(struct engine_request *inner, int result)
{
	struct write_back *back = inner->owner;
	const struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	const uint32_t first = (uint32_t)(inner->offset_bytes % row_bytes_of(engine)) / block;

	for (uint32_t at = first; result == 0 && at < first + inner->length_bytes / block; at++) {
		if (back->set[at] != BLOCK_NOT_HERE)
			continue;
		memcpy(back->bytes + (size_t)at * block, back->old + (size_t)at * block, block);
		back->set[at] = BLOCK_BETWEEN;
	}
	free(back->old);
	back->old = NULL;
	write_runs(back); /* one, or as they are */
}

/* Blocks from the first that is held to the last; false: all between them are held. */
static bool
find_between(const struct write_back *back, uint32_t *begin, uint32_t *end)
{
	const uint32_t blocks = blocks_of(back->op.engine);
	uint32_t missing = 0;

	*begin = 0;
	*end = blocks;
	while (*begin < *end && !back->set[*begin])
		++*begin;
	while (*begin < *end && !back->set[*end - 1])
		--*end;
	for (uint32_t at = *begin; at < *end; at++)
		missing += !back->set[at];
	return missing > 0 && missing * back->op.engine->geometry.block_bytes <= BETWEEN_BYTES_MAX;
}

static void
write_row_back(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	uint32_t begin_block, end_block;

	engine->io->backs.under_way++;
	engine->activity++;
	if (back->narrow != ALL_TOGETHER || !find_between(back, &begin_block, &end_block) ||
	    (back->old = malloc(row_bytes_of(engine))) == NULL) {
		write_runs(back);
		return;
	}
	back->state = BACK_READING;
	submit_inner(back, REQUEST_READ, back->old, begin_block * block, end_block * block,
		     between_read);
}

/* --- when --- */

static bool
is_full(const struct write_back *back)
{
	return memchr(back->set, BLOCK_NOT_HERE, blocks_of(back->op.engine)) == NULL;
}

/* Those that came first go, while there is much. */
static bool
is_much(const struct engine *engine)
{
	return memory_bytes(engine) > MEMORY_BYTES_MAX / 2 ||
	       engine->io->backs.count > ROWS_MAX / 2 || !write_log_has_ample_room(engine);
}

static bool
must_go(const struct write_back *back, bool all)
{
	const struct engine *engine = back->op.engine;

	return all || back->failed || engine->now_ms - back->since_ms >= HELD_MS_MAX ||
	       row_is_awaited(&back->claim) || !list_empty(&back->unlogged) || is_full(back);
}

static bool
may_go(const struct write_back *back)
{
	return back->state == BACK_HELD && list_empty(&back->logging) &&
	       back->op.engine->now_ms >= back->retry_ms &&
	       back->op.engine->io->backs.under_way < WRITTEN_MAX;
}

/* What no record has is answered when its row is written, but not later than any request. */
static void
fail_overdue(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	struct list *next;

	for (struct list *node = back->unlogged.next; node != &back->unlogged; node = next) {
		struct back_part *part = list_entry(node, struct back_part, node);

		next = node->next;
		if (!engine->expired && !overdue_since(engine, part->logged.since_ms))
			continue;
		back->unsure = true;
		answer(engine, part, -ETIMEDOUT);
		drop_part(engine, part);
	}
}

/* The engine ends: what is held stands in the log. */
static void
leave_all(struct engine *engine)
{
	struct list *next;

	for (struct list *node = engine->io->backs.rows.next; node != &engine->io->backs.rows;
	     node = next) {
		struct write_back *back = list_entry(node, struct write_back, node);

		next = node->next;
		if (back->state == BACK_HELD && list_empty(&back->logging))
			end_row(back, -ESHUTDOWN);
	}
}

void
write_back_run(struct engine *engine)
{
	struct list *next;
	bool all;

	if (engine->io->backs.count == 0)
		return;
	if (engine->fenced || engine->phase >= PHASE_RELEASE) {
		leave_all(engine);
		return;
	}
	/* With a member less there are fewer copies of what is logged from now on: one that is gone
	 * would hide what stands before it.
	 */
	all = !is_log_steady(engine) || engine->stop_wanted || engine->out != 0;
	for (struct list *node = engine->io->backs.rows.next; node != &engine->io->backs.rows;
	     node = next) {
		struct write_back *back = list_entry(node, struct write_back, node);

		next = node->next;
		fail_overdue(back);
		if (may_go(back) && must_go(back, all || is_much(engine)))
			write_row_back(back);
	}
}

uint64_t
write_back_deadline(const struct engine *engine)
{
	uint64_t deadline = UINT64_MAX;

	for (const struct list *node = engine->io->backs.rows.next; node != &engine->io->backs.rows;
	     node = node->next) {
		const struct write_back *back = list_entry(node, struct write_back, node);
		const uint64_t at = back->failed ? back->retry_ms : back->since_ms + HELD_MS_MAX;

		if (back->state == BACK_HELD && at > engine->now_ms && at < deadline)
			deadline = at;
	}
	return deadline;
}

/* --- what a start has found in the log --- */

int
write_back_restore(struct engine *engine, uint64_t row, const uint8_t *bytes, const uint8_t *set,
		   uint64_t sequence)
{
	struct write_back *back = row_table_reserve(engine->rows, 1) == 0 ? new_back(engine) : NULL;
	struct back_part *part = back != NULL ? new_part(engine, back, NULL) : NULL;

	if (part == NULL) {
		if (back != NULL)
			list_prepend(&engine->io->backs.free_rows, &back->node);
		return -ENOMEM;
	}
	memcpy(back->bytes, bytes, row_bytes_of(engine));
	memcpy(back->set, set, blocks_of(engine));
	begin_row(engine, back, row, 0, row_bytes_of(engine));
	write_log_keep(engine, &part->logged, sequence);
	back->oldest = part;
	return 0;
}

void
write_backs_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->backs.free_rows)) != NULL)
		free_back(list_entry(node, struct write_back, node));
	while ((node = list_take(&engine->io->backs.free_parts)) != NULL) {
		struct back_part *part = list_entry(node, struct back_part, node);

		logged_free(&part->logged);
		free(part);
	}
}
