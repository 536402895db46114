/* destage.c - brings what the write log has acknowledged to its rows.
 *
 *	HELD --(somebody waits for the row, it is old or full, the log needs room or is closed)
 *	  v
 *	READING  what lies between, if it is little
 *	  v
 *	WRITING  each run of bytes                       --(failed)--> HELD, tried again
 *	  v
 *	FLUSHING                                         --(failed)--> HELD, tried again
 *	  v
 *	gone: its records need not be kept any more
 *
 * It is written by ordinary writes, which log data and redundancy before they touch the row, and is
 * kept until these are flushed: what a lost cache takes along is written once more (write_op.c).
 *
 * Where a member has gone and more of the row can't be read than the level bears, its blocks are lost,
 * on record, as any that can't be known (LOSING).  Whatever else keeps it from its row, it stays, in
 * the log and here, and is tried again.  A stop that can't wait for it leaves it to the next start.
 */
#include "destage.h"
#include "engine/members/members.h"
#include "pure/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define HELD_MS_MAX 1000u
#define RETRY_MS 1000u
#define REFUSALS_MAX 4u
#define WRITTEN_MAX 16u /* rows, at a time */
/* Reading what lies between is better than several writes, if it is no more than this, and than what
 * is held.
 */
#define BETWEEN_BYTES_MAX (64u << 10)

/* --- what is to be written --- */

/* Blocks from the first that is held to the last; false: better as they are. */
static bool
find_between(const struct write_back *back, uint32_t *begin, uint32_t *end)
{
	const uint32_t block = back->op.engine->geometry.block_bytes;
	uint32_t missing = 0, held;

	*begin = 0;
	*end = back_blocks(back->op.engine);
	while (*begin < *end && !back->set[*begin])
		++*begin;
	while (*begin < *end && !back->set[*end - 1])
		--*end;
	for (uint32_t at = *begin; at < *end; at++)
		missing += !back->set[at];
	held = *end - *begin - missing;
	return missing > 0 && missing * block <= BETWEEN_BYTES_MAX && missing <= held;
}

/* Of the row's chunks; all, of one that is in more than one chunk. */
static void
columns_of(const struct write_back *back, const struct back_run *run, uint32_t *begin,
	   uint32_t *end)
{
	const struct geometry *geometry = &back->op.engine->geometry;
	const uint32_t blocks = geometry->chunk_bytes / geometry->block_bytes;

	*begin = run->begin % blocks;
	*end = *begin + run->end - run->begin;
	if (*end <= blocks)
		return;
	*begin = 0;
	*end = blocks;
}

/* In a record of its own: data, and redundancy of all its columns. */
static uint64_t
run_to_log(const struct write_back *back, uint32_t begin, uint32_t end)
{
	const struct geometry *geometry = &back->op.engine->geometry;
	const struct back_run run = { .begin = begin, .end = end };
	uint32_t column_begin, column_end;
	uint64_t blocks;

	columns_of(back, &run, &column_begin, &column_end);
	blocks = end - begin + (uint64_t)geometry->redundancy * (column_end - column_begin);
	return (divide_up(blocks * geometry->block_bytes, LOG_BLOCK_BYTES) + 1) * LOG_BLOCK_BYTES;
}

uint64_t
back_bytes_to_log(const struct write_back *back)
{
	const uint32_t blocks = back_blocks(back->op.engine);
	uint64_t bytes = 0;
	uint32_t begin, end;

	if (find_between(back, &begin, &end))
		return run_to_log(back, begin, end);
	for (uint32_t at = begin; at < end; at++) {
		begin = at;
		while (at < blocks && back->set[at] != BLOCK_NOT_HERE)
			at++;
		if (at > begin)
			bytes += run_to_log(back, begin, at);
	}
	return bytes;
}

/* --- writing --- */

static void write_some_runs(struct write_back *back);

static void
submit_inner(struct write_back *back, struct engine_request *inner, enum request_op kind,
	     uint32_t begin, uint32_t end, bool beside_others)
{
	struct engine *engine = back->op.engine;
	const struct iovec *iov = inner->iov;
	const int iov_count = inner->iov_count;
	void (*const done)(struct engine_request * request, int result) = inner->done;

	*inner = (struct engine_request){
		.op = kind,
		.offset_bytes = back->row * back_row_bytes(engine) + begin,
		.length_bytes = end - begin,
		.iov = iov,
		.iov_count = iov_count,
		.done = done,
		.owner = back,
		.claimed = true,
		.writes_back = true,
		.beside_others = beside_others,
		.since_ns = engine->figures.stamp_ns,
	};
	list_init(&inner->alive);
	request_carry_out(engine, inner);
}

static void
put_in(struct write_back *back, struct list *list)
{
	list_remove(&back->node);
	list_append(list, &back->node);
}

/* It stays, and is tried again. */
static void
put_off(struct write_back *back, int error)
{
	struct engine *engine = back->op.engine;

	back->state = BACK_HELD;
	put_in(back, &engine->io->backs.urgent);
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
	back->set[back->runs[0].begin] = BLOCK_NOT_HERE;
	back->state = BACK_WRITING;
	write_some_runs(back);
}

/* One block, that can't be written for good. */
static void
lose(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint32_t at = back->runs[0].begin * geometry->block_bytes;
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

/* Nothing of it has been written. */
static void
begin_runs(struct write_back *back)
{
	for (uint32_t at = 0; at < back_blocks(back->op.engine); at++) {
		if (back->set[at] == BLOCK_HELD_SENT)
			back->set[at] = BLOCK_HELD;
		if (back->set[at] == BLOCK_BETWEEN_SENT)
			back->set[at] = BLOCK_BETWEEN;
	}
	back->state = BACK_WRITING;
	back->cache_losses = back->op.engine->cache_losses;
	write_some_runs(back);
}

/* Anew, but less at a time: perhaps only some of it can't be written. */
static void
write_narrower(struct write_back *back)
{
	for (uint32_t at = 0; at < back_blocks(back->op.engine); at++)
		if (back->set[at] == BLOCK_BETWEEN || back->set[at] == BLOCK_BETWEEN_SENT)
			back->set[at] = BLOCK_NOT_HERE;
	back->narrow++;
	begin_runs(back);
}

/* The log needs the room, or is to be closed. */
static bool
is_in_the_way(const struct write_back *back)
{
	return back->op.engine->write_log->blocked ||
	       back->op.engine->write_log->step != LOG_STEADY || MUTANT(HELD_LOST_EARLY);
}

static void
runs_written(struct write_back *back)
{
	int result = back->error;

	/* Refused, not unreadable: perhaps not for long. */
	if (result == -EIO && ++back->refusals >= REFUSALS_MAX && is_in_the_way(back))
		result = -ENODATA;
	if (result == 0) {
		write_some_runs(back);
	} else if (result == -EBUSY) { /* each needs all of the row's parity */
		back->narrow = RUN_BY_RUN;
		begin_runs(back);
	} else if (result != -ENODATA) {
		put_off(back, result);
	} else if (back->narrow < BLOCK_BY_BLOCK) {
		write_narrower(back);
	} else {
		lose(back);
	}
}

static void
run_written(struct engine_request *inner, int result)
{
	struct write_back *back = inner->owner;

	/* What can't be written for good is looked for when nothing else keeps the row from it. */
	if (result != 0 && (back->error == 0 || back->error == -ENODATA))
		back->error = result;
	if (--back->runs_pending == 0)
		runs_written(back);
}

static bool
is_to_be_sent(const struct write_back *back, uint32_t block)
{
	return back->set[block] == BLOCK_HELD || back->set[block] == BLOCK_BETWEEN;
}

/* Writes of the same columns make their redundancy from each other's. */
static bool
shares_columns(const struct write_back *back, const struct back_run *run)
{
	uint32_t begin, end;

	if (MUTANT(RUNS_SHARE_COLUMNS))
		return false;
	columns_of(back, run, &begin, &end);
	for (const struct back_run *other = back->runs; other < run; other++) {
		uint32_t other_begin, other_end;

		columns_of(back, other, &other_begin, &other_end);
		if (begin < other_end && other_begin < end)
			return true;
	}
	return false;
}

static void
note_sent(struct write_back *back, const struct back_run *run)
{
	for (uint32_t at = run->begin; at < run->end; at++)
		back->set[at] = back->set[at] == BLOCK_HELD ? BLOCK_HELD_SENT : BLOCK_BETWEEN_SENT;
}

/* Runs of blocks that can be written at the same time; how many they are. */
static uint32_t
choose_runs(struct write_back *back)
{
	const uint32_t blocks = back_blocks(back->op.engine);
	const uint32_t longest = back->narrow < BLOCK_BY_BLOCK ? blocks : 1;
	const uint32_t most = back->narrow == ALL_TOGETHER ? BACK_RUNS_MAX : 1;
	uint32_t count = 0;

	for (uint32_t at = 0; at < blocks && count < most;) {
		struct back_run *run = &back->runs[count];

		if (!is_to_be_sent(back, at)) {
			at++;
			continue;
		}
		run->begin = at;
		while (at < blocks && at - run->begin < longest && is_to_be_sent(back, at))
			at++;
		run->end = at;
		if (shares_columns(back, run))
			continue;
		note_sent(back, run);
		count++;
	}
	return count;
}

static void
row_flushed(struct flush_waiter *waiter, int result)
{
	struct write_back *back = list_entry(waiter, struct write_back, flush);
	struct engine *engine = back->op.engine;

	if (result != 0) {
		put_off(back, result);
		return;
	}
	/* A member's cache may have taken something of it along. */
	if (back->cache_losses != engine->cache_losses) {
		begin_runs(back);
		return;
	}
	engine->io->backs.under_way--;
	if (back->lost || list_empty(&back->unlogged) || !write_log_is_emptied(engine) ||
	    MUTANT(UNLOGGED_TOLD_EARLY)) {
		back_end(back, back->lost ? -ENODATA : 0);
		return;
	}
	back->state = BACK_WRITTEN;
	put_in(back, &engine->io->backs.written);
	engine->io->backs.written_count++;
	engine->activity++;
	if (back->oldest != NULL)
		back_drop_part(engine, back->oldest);
	back->oldest = NULL;
}

/* No start will read what the log had of these rows. */
void
write_back_log_closed(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->backs.written)) != NULL)
		back_end(list_entry(node, struct write_back, node), 0);
}

static void
flush_row(struct write_back *back)
{
	back->state = BACK_FLUSHING;
	back->flush =
		(struct flush_waiter){ .done = row_flushed, .since_ms = back->op.engine->now_ms };
	list_init(&back->flush.node);
	if (MUTANT(HELD_UNFLUSHED))
		row_flushed(&back->flush, 0);
	else
		flush_join(back->op.engine, &back->flush);
}

static void
write_some_runs(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	const uint32_t count = choose_runs(back);
	struct iovec *iov = back->iov;

	if (count == 0) {
		flush_row(back);
		return;
	}
	back->error = 0;
	back->runs_pending = count;
	for (uint32_t i = 0; i < count; i++) {
		struct back_run *run = &back->runs[i];
		const uint32_t begin = run->begin * block, end = run->end * block;

		run->inner.iov = iov;
		run->inner.iov_count = back_describe(back, begin, end, iov);
		run->inner.done = run_written;
		iov += run->inner.iov_count;
		submit_inner(back, &run->inner, REQUEST_WRITE, begin, end, count > 1);
	}
}

/* What is held is newer. */
static void
take_between(struct write_back *back, uint32_t block)
{
	const uint32_t block_bytes = back->op.engine->geometry.block_bytes;
	const uint32_t at = block * block_bytes;
	struct iovec iov;

	if (back->set[block] != BLOCK_NOT_HERE || !back_make_pages(back, at, at + block_bytes))
		return;
	back_describe(back, at, at + block_bytes, &iov);
	memcpy(iov.iov_base, back->old + at, block_bytes);
	back->set[block] = BLOCK_BETWEEN;
}

static void
between_read(struct engine_request *inner, int result)
{
	struct write_back *back = inner->owner;
	const struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	const uint32_t first = (uint32_t)(inner->offset_bytes % back_row_bytes(engine)) / block;

	for (uint32_t at = first; result == 0 && at < first + inner->length_bytes / block; at++)
		take_between(back, at);
	free(back->old);
	back->old = NULL;
	begin_runs(back); /* one, or as they are */
}

static void
write_row_back(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	struct engine_request *inner = &back->runs[0].inner;
	uint32_t begin, end;

	put_in(back, &engine->io->backs.busy);
	engine->io->backs.under_way++;
	engine->activity++;
	if (back->narrow != ALL_TOGETHER || !find_between(back, &begin, &end) ||
	    (back->old = malloc(back_row_bytes(engine))) == NULL) {
		begin_runs(back);
		return;
	}
	back->state = BACK_READING;
	back->old_iov = (struct iovec){ back->old + begin * block, (end - begin) * block };
	inner->iov = &back->old_iov;
	inner->iov_count = 1;
	inner->done = between_read;
	submit_inner(back, inner, REQUEST_READ, begin * block, end * block, false);
}

/* --- when --- */

void
back_hurry(struct write_back *back)
{
	if (back->state != BACK_HELD)
		return;
	put_in(back, &back->op.engine->io->backs.urgent);
	back->op.engine->activity++;
}

/* What is reserved in the log for rows that are not being written yet. */
static uint64_t
waiting_bytes(const struct engine *engine)
{
	uint64_t bytes = engine->write_log->held_bytes;

	for (const struct list *node = engine->io->backs.busy.next; node != &engine->io->backs.busy;
	     node = node->next)
		bytes -= list_entry(node, struct write_back, node)->to_log;
	return bytes;
}

/* So the oldest go. */
static bool
is_much(const struct engine *engine)
{
	const unsigned int waiting = engine->io->backs.count - engine->io->backs.under_way;
	const uint64_t window = write_log_window_bytes(engine), sure = write_log_sure_bytes(engine);

	return back_memory_bytes(engine) > BACK_MEMORY_BYTES_MAX / 2 ||
	       waiting > BACK_ROWS_MAX / 2 ||
	       waiting_bytes(engine) > (window < sure ? window : sure) / 5 * 4;
}

/* In batches, which share records and flushes: with one that is as old as may be go those that are
 * nearly.
 */
static bool
is_old(const struct write_back *back, bool batch)
{
	const struct engine *engine = back->op.engine;
	const uint64_t window = write_log_window_bytes(engine);
	const uint64_t logged = engine->write_log->sizes.ever - back->since_logged;
	const uint64_t passed_ms = engine->now_ms - back->since_ms;

	return passed_ms >= HELD_MS_MAX / (1 + batch) || logged > window / (1 + batch);
}

bool
back_is_overdue(const struct write_back *back)
{
	const struct engine *engine = back->op.engine;

	return engine->write_log->sizes.ever - back->since_logged >
	       write_log_window_bytes(engine) / 4 * 5;
}

static bool
may_go(const struct write_back *back)
{
	return back->state == BACK_HELD && list_empty(&back->logging) &&
	       back->op.engine->now_ms >= back->retry_ms &&
	       back->op.engine->io->backs.under_way < WRITTEN_MAX;
}

static bool
is_overdue(const struct engine *engine, uint64_t since_ms)
{
	return engine->expired || overdue_since(engine, since_ms);
}

/* What no record has is answered when its row is written, but not later than any request. */
static void
fail_unlogged(struct write_back *back)
{
	struct engine *engine = back->op.engine;

	for (struct list *node = back->unlogged.next, *next; node != &back->unlogged; node = next) {
		struct back_part *part = list_entry(node, struct back_part, node);

		next = node->next;
		if (!is_overdue(engine, part->logged.since_ms))
			continue;
		back->unsure = true;
		back_answer(engine, part, -ETIMEDOUT);
		back_drop_part(engine, part);
	}
}

/* The oldest is the first. */
static void
fail_later(struct write_back *back)
{
	struct engine *engine = back->op.engine;

	while (back->later != NULL && is_overdue(engine, back->later->since_ms)) {
		struct piece *piece = back->later;

		back->later = piece->next;
		if (back->later == NULL)
			back->later_end = &back->later;
		piece_finish(engine, piece, -ETIMEDOUT);
	}
}

static void
fail_overdue(struct list *backs)
{
	for (struct list *node = backs->next, *next; node != backs; node = next) {
		struct write_back *back = list_entry(node, struct write_back, node);

		next = node->next;
		fail_unlogged(back);
		fail_later(back);
	}
}

/* The engine ends: what is held stands in the log. */
static void
leave(struct list *backs)
{
	for (struct list *node = backs->next, *next; node != backs; node = next) {
		struct write_back *back = list_entry(node, struct write_back, node);

		next = node->next;
		if (list_empty(&back->logging))
			back_end(back, -ESHUTDOWN);
	}
}

static bool
should_go(const struct write_back *back)
{
	struct engine *engine = back->op.engine;
	const bool goes = is_old(back, engine->io->backs.batch) || is_much(engine);

	engine->io->backs.batch = goes;
	return goes;
}

/* Somebody waits for room.  Or with a member less there are fewer copies of what is logged from now on:
 * one that is gone would hide what stands before it.
 */
static bool
must_all_go(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log->blocked || !back_log_is_steady(engine) || engine->stop_wanted ||
	       engine->out != 0;
}

static void
write_or_log_again(struct write_back *back)
{
	if (must_all_go(back->op.engine) || !back_log_again(back))
		write_row_back(back);
}

/* all: else those that are old enough. */
static void
write_back_some(struct list *backs, bool all)
{
	for (struct list *node = backs->next, *next; node != backs; node = next) {
		struct write_back *back = list_entry(node, struct write_back, node);

		next = node->next;
		if (back->op.engine->io->backs.under_way >= WRITTEN_MAX ||
		    (!all && !should_go(back)))
			return;
		if (may_go(back))
			write_or_log_again(back);
	}
}

void
write_back_run(struct engine *engine)
{
	if (engine->io->backs.count == 0)
		return;
	if (engine->fenced || engine->phase >= PHASE_RELEASE) {
		leave(&engine->io->backs.rows);
		leave(&engine->io->backs.urgent);
		leave(&engine->io->backs.written);
		return;
	}
	fail_overdue(&engine->io->backs.urgent);
	fail_overdue(&engine->io->backs.busy);
	fail_overdue(&engine->io->backs.written);
	write_back_some(&engine->io->backs.urgent, true);
	write_back_some(&engine->io->backs.rows, must_all_go(engine));
}

static void
lower(uint64_t *deadline, uint64_t at, uint64_t now_ms)
{
	if (at > now_ms && at < *deadline)
		*deadline = at;
}

uint64_t
write_back_deadline(const struct engine *engine)
{
	const struct list *rows = &engine->io->backs.rows, *urgent = &engine->io->backs.urgent;
	uint64_t deadline = UINT64_MAX;

	if (!list_empty(rows))
		lower(&deadline,
		      list_entry(rows->next, struct write_back, node)->since_ms + HELD_MS_MAX,
		      engine->now_ms);
	for (const struct list *node = urgent->next; node != urgent; node = node->next)
		lower(&deadline, list_entry(node, struct write_back, node)->retry_ms,
		      engine->now_ms);
	return deadline;
}
