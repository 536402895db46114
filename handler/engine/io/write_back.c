/* write_back.c - small writes that the write log acknowledges; destage.c brings them to their rows.
 *
 *	piece --> its data goes to the log, and is kept here --(durable)--> acknowledged
 *	            |  more pieces of the row join
 *	            v
 *	          HELD --> destage.c --> gone: its records need not be kept any more
 *
 * Of each row there is one at most, and it has the row's claim all the time: whoever wants what is
 * not in the row yet comes behind it, and thereby has it written.  Reads of nothing but what is held
 * are answered from here.  A piece whose bytes are just being logged, or whose row is being written,
 * waits for that and joins then, if nobody else wants the row.
 *
 * Only while all members are there: else a write may find that its row can't be written, and should
 * say so.
 */
#include "write_back.h"
#include "destage.h"
#include "engine/members/members.h"
#include "pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES_MIN 512u

struct page { /* one that is free */
	struct list node;
};

uint32_t
back_row_bytes(const struct engine *engine)
{
	return (uint32_t)geometry_row_bytes(&engine->geometry);
}

uint32_t
back_blocks(const struct engine *engine)
{
	return back_row_bytes(engine) / engine->geometry.block_bytes;
}

static uint32_t
row_pages(const struct engine *engine)
{
	return back_row_bytes(engine) / BACK_PAGE_BYTES;
}

/* --- memory --- */

uint64_t
back_memory_bytes(const struct engine *engine)
{
	const uint64_t row = sizeof(struct write_back) + back_blocks(engine) +
			     row_pages(engine) * (sizeof(uint8_t *) + sizeof(struct iovec));

	return engine->io->backs.pages * BACK_PAGE_BYTES + engine->io->backs.count * row;
}

static bool
is_memory_left(const struct engine *engine)
{
	return back_memory_bytes(engine) < BACK_MEMORY_BYTES_MAX;
}

static void
never_started(struct op *op)
{
	(void)op;
	assert(false);
}

static void
free_back(struct write_back *back)
{
	free(back->pages);
	free(back->iov);
	free(back->set);
	free(back);
}

static bool
has_memory(const struct write_back *back)
{
	return back->pages != NULL && back->iov != NULL && back->set != NULL;
}

/* A row that is recycled has it all. */
static struct write_back *
create_back(const struct engine *engine)
{
	struct write_back *back = calloc(1, sizeof(*back));

	if (back == NULL)
		return NULL;
	back->pages = calloc(row_pages(engine), sizeof(*back->pages));
	back->iov = calloc(row_pages(engine) + BACK_RUNS_MAX, sizeof(*back->iov));
	back->set = malloc(back_blocks(engine));
	if (has_memory(back))
		return back;
	free_back(back);
	return NULL;
}

static struct piece *
take_all_later(struct write_back *back)
{
	struct piece *piece = back->later;

	back->later = NULL;
	back->later_end = &back->later;
	return piece;
}

/* Those that came before have the row before. */
static void
is_awaited(struct claim_holder *holder)
{
	struct write_back *back = (struct write_back *)holder;
	struct engine *engine = back->op.engine;
	struct piece *piece = MUTANT(HELD_OVERTAKEN) ? NULL : take_all_later(back);

	while (piece != NULL) {
		struct piece *next = piece->next;

		if (!write_op_create(engine, piece))
			piece_finish(engine, piece, -ENOMEM);
		piece = next;
	}
	back_hurry(back);
}

static struct write_back *
new_back(struct engine *engine)
{
	struct list *node = list_take(&engine->io->backs.free_rows);
	struct write_back *back =
		node != NULL ? list_entry(node, struct write_back, node) : create_back(engine);

	if (back == NULL)
		return NULL;
	memset(back->set, BLOCK_NOT_HERE, back_blocks(engine));
	back->to_log = 0;
	back->op = (struct op){ .engine = engine, .start = never_started };
	back->op.holder.awaited = is_awaited;
	back->state = BACK_HELD;
	list_init(&back->node);
	list_init(&back->op.node);
	list_init(&back->logging);
	list_init(&back->unlogged);
	back->oldest = back->newer = NULL;
	back->taken_bytes = 0;
	back->again_pending = 0;
	back->again_failed = false;
	take_all_later(back);
	back->retry_ms = 0;
	back->failed = back->lost = back->unsure = false;
	back->refusals = 0;
	back->narrow = ALL_TOGETHER;
	return back;
}

static uint8_t *
new_page(struct engine *engine)
{
	struct list *node = list_take(&engine->io->backs.free_pages);
	uint8_t *page = node != NULL ? (uint8_t *)list_entry(node, struct page, node)
				     : aligned_alloc(BACK_PAGE_BYTES, BACK_PAGE_BYTES);

	engine->io->backs.pages += page != NULL;
	return page;
}

static void
drop_pages(struct write_back *back)
{
	struct engine *engine = back->op.engine;

	for (uint32_t i = 0; i < row_pages(engine); i++) {
		struct page *page = (struct page *)back->pages[i];

		if (page == NULL)
			continue;
		list_prepend(&engine->io->backs.free_pages, &page->node);
		back->pages[i] = NULL;
		engine->io->backs.pages--;
	}
}

bool
back_make_pages(struct write_back *back, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin / BACK_PAGE_BYTES; i <= (end - 1) / BACK_PAGE_BYTES; i++) {
		if (back->pages[i] != NULL)
			continue;
		back->pages[i] = new_page(back->op.engine);
		if (back->pages[i] == NULL)
			return false;
	}
	return true;
}

int
back_describe(const struct write_back *back, uint32_t begin, uint32_t end, struct iovec *iov)
{
	int count = 0;

	for (uint32_t at = begin, stop; at < end; at = stop) {
		stop = (at / BACK_PAGE_BYTES + 1) * BACK_PAGE_BYTES;
		stop = stop < end ? stop : end;
		iov[count++] = (struct iovec){
			back->pages[at / BACK_PAGE_BYTES] + at % BACK_PAGE_BYTES,
			stop - at,
		};
	}
	return count;
}

static struct back_part *
new_part(struct engine *engine, struct write_back *back)
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
	part->pieces = NULL;
	logged_begin(&part->logged);
	return part;
}

void
back_drop_part(struct engine *engine, struct back_part *part)
{
	list_remove(&part->node);
	write_log_release(&part->logged);
	list_prepend(&engine->io->backs.free_parts, &part->node);
}

void
back_answer(struct engine *engine, struct back_part *part, int result)
{
	struct piece *piece = part->pieces;

	part->pieces = NULL;
	while (piece != NULL) {
		struct piece *next = piece->next;

		piece_finish(engine, piece, result);
		piece = next;
	}
}

/* --- a row --- */

/* What its writes will log, so that there is room for that. */
static void
account(struct write_back *back, uint64_t to_log)
{
	back->op.engine->write_log->held_bytes += to_log - back->to_log;
	back->to_log = to_log;
}

static void
begin_row(struct engine *engine, struct write_back *back, uint64_t row, uint64_t begin_bytes,
	  uint64_t end_bytes)
{
	back->row = row;
	back->since_ms = engine->now_ms;
	back->since_logged = engine->write_log->sizes.ever;
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
	account(back, back_bytes_to_log(back));
}

/* They had to wait for it, and do what they would have done. */
static void
dispatch_later(struct engine *engine, struct piece *piece, int result)
{
	while (piece != NULL) {
		struct piece *next = piece->next;

		if (result == -ESHUTDOWN)
			piece_finish(engine, piece, result);
		else
			piece_dispatch(engine, piece);
		piece = next;
	}
}

void
back_end(struct write_back *back, int result)
{
	struct engine *engine = back->op.engine;
	struct piece *later = take_all_later(back);
	struct list *node;

	while ((node = list_take(&back->unlogged)) != NULL) {
		struct back_part *part = list_entry(node, struct back_part, node);

		back_answer(engine, part, result);
		back_drop_part(engine, part);
	}
	if (back->oldest != NULL)
		back_drop_part(engine, back->oldest);
	list_remove(&back->node);
	engine->io->backs.count--;
	engine->io->backs.written_count -= back->state == BACK_WRITTEN;
	account(back, 0);
	engine->activity++;
	drop_pages(back);
	row_release(engine->rows, &back->claim);
	list_prepend(&engine->io->backs.free_rows, &back->node);
	dispatch_later(engine, later, result);
}

/* --- the log --- */

static void take_later(struct write_back *back);

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
		back_hurry(back);
		return;
	}
	back->unsure |= error != 0;
	back_answer(engine, part, error);
	if (error == 0 && back->oldest == NULL && !MUTANT(HELD_KEPT_BRIEFLY))
		back->oldest = part;
	else
		back_drop_part(engine, part);
	take_later(back);
}

/* As pieces of chunks.  0 or -ENOMEM. */
static int
describe(struct back_part *part)
{
	const struct write_back *back = part->back;
	const struct geometry *geometry = &back->op.engine->geometry;

	part->iov_count = back_describe(back, part->begin, part->end, part->iov);
	for (uint32_t at = part->begin, stop; at < part->end; at = stop) {
		const uint32_t chunk = at / geometry->chunk_bytes;
		const struct iov_run bytes = { part->iov, part->iov_count, at - part->begin };
		struct log_piece piece = {
			.row = back->row,
			.column_bytes = at % geometry->chunk_bytes,
			.role = geometry_role(geometry, back->row, (uint8_t)chunk),
			.kind = LOG_PIECE_PENDING,
		};

		stop = (chunk + 1) * geometry->chunk_bytes;
		stop = stop < part->end ? stop : part->end;
		piece.length_bytes = stop - at;
		if (logged_add(&part->logged, &piece, bytes, true) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* Its row can be written: there will be room in the log, for its own record as well. */
static bool
reserve(struct write_back *back, uint32_t begin, uint32_t end)
{
	struct engine *engine = back->op.engine;
	const uint32_t block = engine->geometry.block_bytes;
	const uint32_t first = begin / block, count = (end - begin) / block;
	uint8_t before[BACK_PIECE_BYTES_MAX / BLOCK_BYTES_MIN];

	memcpy(before, back->set + first, count);
	memset(back->set + first, BLOCK_HELD, count);
	account(back, back_bytes_to_log(back));
	if (write_log_bears(engine, end - begin + 2 * LOG_BLOCK_BYTES))
		return true;
	memcpy(back->set + first, before, count);
	account(back, back_bytes_to_log(back));
	return false;
}

/* What it overwrites is in no record of the part's yet, and never will be. */
static void
keep(struct back_part *part, struct piece *piece, uint32_t begin, uint32_t end)
{
	const struct engine_request *request = piece->request;
	struct write_back *back = part->back;
	const uint32_t length = end - begin;
	struct iov_run from = { request->iov, request->iov_count, 0 };

	/* one source: a copy */
	parity_xor_runs((struct iov_run){ part->iov, part->iov_count, begin - part->begin }, &from,
			1, length);
	back->taken_bytes += length;
	if (memchr(back->set, BLOCK_NOT_HERE, back_blocks(back->op.engine)) == NULL)
		back_hurry(back);
	piece_waited(back->op.engine, piece, 0);
	piece->next = part->pieces;
	part->pieces = piece;
}

static void
append(struct back_part *part, void (*ready)(struct logged *logged, int error), uint64_t since_ms)
{
	struct write_back *back = part->back;

	part->logged.ready = ready;
	part->logged.since_ms = since_ms;
	list_append(&back->logging, &part->node);
	write_log_append(back->op.engine, &part->logged);
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

bool
back_log_is_steady(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return engine->options.log == LOG_MODE_ALWAYS && log->on && log->step == LOG_STEADY &&
	       !log->failed && !log->spoiled && !log->renews && !log->blocked;
}

/* All of a request, in part of one row whose redundancy can be made. */
static bool
may_be_taken(const struct engine *engine, const struct piece *piece)
{
	const struct engine_request *request = piece->request;
	const uint64_t row_bytes = back_row_bytes(engine), row = piece->begin_bytes / row_bytes;
	const uint64_t length = piece->end_bytes - piece->begin_bytes;

	return request->op == REQUEST_WRITE && !request->claimed &&
	       length == request->length_bytes && length < row_bytes &&
	       length <= BACK_PIECE_BYTES_MAX && length <= write_log_part_bytes(engine) &&
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

enum meeting {
	MEETS_NOBODY, /* who is in no record yet */
	MEETS_ONE,    /* who waits for an answer as well, and has all of its bytes */
	MEETS_MORE,
};

static bool
may_replace_in(const struct back_part *part, uint32_t begin, uint32_t end)
{
	return part->pieces != NULL && (part->logged.next == 0 || MUTANT(HELD_REPLACED_LATE)) &&
	       part->begin <= begin && end <= part->end;
}

/* Records have an order, but two pieces of the same bytes in one would contradict. */
static enum meeting
meet(const struct write_back *back, uint32_t begin, uint32_t end, struct back_part **met)
{
	enum meeting meeting = MEETS_NOBODY;

	for (const struct list *node = back->logging.next; node != &back->logging;
	     node = node->next) {
		struct back_part *part = list_entry(node, struct back_part, node);

		if (end <= part->begin || part->end <= begin ||
		    (part->logged.next == part->logged.count && !MUTANT(HELD_REPLACED_LATE)))
			continue;
		if (meeting != MEETS_NOBODY || !may_replace_in(part, begin, end))
			return MEETS_MORE;
		meeting = MEETS_ONE;
		*met = part;
	}
	return meeting;
}

/* As far as the piece goes, with memory for it. */
static bool
widen(struct write_back *back, uint32_t begin, uint32_t end)
{
	struct engine *engine = back->op.engine;
	const uint64_t first = begin < back->claim.begin_bytes ? begin : back->claim.begin_bytes;
	const uint64_t last = end > back->claim.end_bytes ? end : back->claim.end_bytes;

	return is_memory_left(engine) && row_widen(engine->rows, &back->claim, first, last) &&
	       back_make_pages(back, begin, end);
}

static bool
add(struct write_back *back, struct piece *piece, uint32_t begin, uint32_t end)
{
	struct engine *engine = back->op.engine;
	struct back_part *part;

	if (!widen(back, begin, end) || (part = new_part(engine, back)) == NULL)
		return false;
	part->begin = begin;
	part->end = end;
	if (describe(part) != 0 || !reserve(back, begin, end)) {
		back_drop_part(engine, part);
		return false;
	}
	keep(part, piece, begin, end);
	if (MUTANT(HELD_ACKED_EARLY))
		back_answer(engine, part, 0);
	append(part, part_logged, piece->since_ms);
	return true;
}

static void
place_in_row(const struct engine *engine, const struct piece *piece, uint32_t *begin, uint32_t *end)
{
	*begin = (uint32_t)(piece->begin_bytes % back_row_bytes(engine));
	*end = *begin + (uint32_t)(piece->end_bytes - piece->begin_bytes);
}

static bool
has_room(const struct engine *engine)
{
	return is_memory_left(engine) && engine->io->backs.count < BACK_ROWS_MAX &&
	       write_log_may_hold(engine);
}

static bool
begin(struct engine *engine, struct piece *piece, uint64_t row)
{
	struct write_back *back;
	uint32_t begin_bytes, end_bytes;

	if (row_tail(engine->rows, row) != NULL || !has_room(engine) ||
	    !piece_reserve_rows(engine, piece) || (back = new_back(engine)) == NULL)
		return false;
	place_in_row(engine, piece, &begin_bytes, &end_bytes);
	begin_row(engine, back, row, begin_bytes, end_bytes);
	if (add(back, piece, begin_bytes, end_bytes))
		return true;
	back_end(back, 0);
	return false;
}

static bool
join(struct write_back *back, struct piece *piece)
{
	uint32_t begin_bytes, end_bytes;
	enum meeting meeting;
	struct back_part *met;

	place_in_row(back->op.engine, piece, &begin_bytes, &end_bytes);
	if ((back->state != BACK_HELD && !MUTANT(HELD_JOINED_LATE)) || back_is_overdue(back))
		return false;
	meeting = meet(back, begin_bytes, end_bytes, &met);
	if (meeting == MEETS_NOBODY || MUTANT(HELD_LOGGED_TWICE))
		return add(back, piece, begin_bytes, end_bytes);
	if (meeting == MEETS_ONE)
		keep(met, piece, begin_bytes, end_bytes);
	return meeting == MEETS_ONE;
}

static void
wait_for(struct write_back *back, struct piece *piece)
{
	piece->next = NULL;
	*back->later_end = piece;
	back->later_end = &piece->next;
}

bool
write_back_take(struct engine *engine, struct piece *piece)
{
	const uint64_t row = piece->begin_bytes / back_row_bytes(engine);
	struct write_back *back;

	if (!back_log_is_steady(engine) || !is_calm(engine) || !may_be_taken(engine, piece))
		return false;
	back = of_row(engine, row);
	if (back == NULL)
		return begin(engine, piece, row);
	if (row_is_awaited(&back->claim))
		return false;
	if (back->later == NULL && join(back, piece))
		return true;
	if (back->failed || back->unsure)
		return false;
	wait_for(back, piece);
	if (list_empty(&back->logging))
		back_hurry(back);
	return true;
}

/* Those that can't join yet have it written, and go on then. */
static void
take_later(struct write_back *back)
{
	struct engine *engine = back->op.engine;

	while (back->later != NULL && back->state == BACK_HELD && back_log_is_steady(engine) &&
	       is_calm(engine) && may_be_taken(engine, back->later) &&
	       !row_is_awaited(&back->claim)) {
		struct piece *piece = back->later, *next = piece->next;

		if (!join(back, piece))
			break;
		back->later = next;
		if (next == NULL)
			back->later_end = &back->later;
	}
	if (back->later != NULL && list_empty(&back->logging))
		back_hurry(back);
}

bool
write_back_read(struct engine *engine, struct piece *piece)
{
	const struct engine_request *request = piece->request;
	const uint32_t row_bytes = back_row_bytes(engine), block = engine->geometry.block_bytes;
	const uint32_t begin_bytes = (uint32_t)(piece->begin_bytes % row_bytes);
	const uint32_t length = (uint32_t)(piece->end_bytes - piece->begin_bytes);
	struct iov_run into = { request->iov, request->iov_count,
				piece->begin_bytes - request->offset_bytes };
	const struct write_back *back;

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
	for (uint32_t at = 0, part; at < length; at += part) {
		struct iovec held;
		uint32_t stop =
			(begin_bytes + at) / BACK_PAGE_BYTES * BACK_PAGE_BYTES + BACK_PAGE_BYTES;

		stop = stop < begin_bytes + length ? stop : begin_bytes + length;
		part = stop - begin_bytes - at;
		back_describe(back, begin_bytes + at, stop, &held);
		parity_xor_runs(into, &(struct iov_run){ &held, 1, 0 }, 1, part);
		into.skip_bytes += part;
	}
	piece_waited(engine, piece, 0);
	piece_finish(engine, piece, 0);
	return true;
}

/* --- once more: as if the same were written again, so what is older need not be kept --- */

/* The next run of what is held, from `at` on; false: there is none. */
static bool
next_held(const struct write_back *back, uint32_t at, struct back_run *run)
{
	const uint32_t blocks = back_blocks(back->op.engine);

	while (at < blocks && back->set[at] == BLOCK_NOT_HERE)
		at++;
	run->begin = at;
	while (at < blocks && back->set[at] != BLOCK_NOT_HERE)
		at++;
	run->end = at;
	return run->begin < run->end;
}

/* Most of what was taken has been overwritten since, and what is left are few records. */
static bool
is_worth_keeping(const struct write_back *back)
{
	uint32_t runs = 0, blocks = 0;
	uint64_t bytes;

	for (struct back_run run = { .end = 0 }; next_held(back, run.end, &run); runs++)
		blocks += run.end - run.begin;
	bytes = (uint64_t)blocks * back->op.engine->geometry.block_bytes;
	return runs <= BACK_RUNS_MAX && bytes <= BACK_PIECE_BYTES_MAX &&
	       bytes <= write_log_part_bytes(back->op.engine) && back->taken_bytes >= 2 * bytes;
}

static void
again_ended(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	struct back_part *gone = back->again_failed ? back->newer : back->oldest;

	if (!back->again_failed)
		back->oldest = back->newer;
	else
		back_hurry(back);
	back->newer = NULL;
	back->again_failed = false;
	if (gone != NULL)
		back_drop_part(engine, gone);
	engine->io->backs.under_way--;
	engine->activity++;
}

static void
part_logged_again(struct logged *logged, int error)
{
	struct back_part *part = list_entry(logged, struct back_part, logged);
	struct write_back *back = part->back;

	list_remove(&part->node);
	back->again_failed |= error != 0;
	if (error == 0 && back->newer == NULL)
		back->newer = part;
	else
		back_drop_part(back->op.engine, part);
	if (--back->again_pending == 0)
		again_ended(back);
	take_later(back);
}

/* 0 or -ENOMEM: some of them may have been made. */
static int
make_parts(struct write_back *back, struct list *parts)
{
	const uint32_t block = back->op.engine->geometry.block_bytes;

	for (struct back_run run = { .end = 0 }; next_held(back, run.end, &run);) {
		struct back_part *part = new_part(back->op.engine, back);

		if (part == NULL)
			return -ENOMEM;
		list_append(parts, &part->node);
		part->begin = run.begin * block;
		part->end = run.end * block;
		if (describe(part) != 0)
			return -ENOMEM;
		back->again_pending++;
		if (MUTANT(AGAIN_IN_PART))
			break;
	}
	return 0;
}

bool
back_log_again(struct write_back *back)
{
	struct engine *engine = back->op.engine;
	struct list parts, *node;
	int result;

	if (!back_log_is_steady(engine) || !is_calm(engine) || !write_log_may_hold(engine) ||
	    back->failed || back->unsure || !list_empty(&back->unlogged) ||
	    row_is_awaited(&back->claim) || !is_worth_keeping(back))
		return false;
	list_init(&parts);
	result = make_parts(back, &parts);
	if (result != 0) {
		while ((node = list_take(&parts)) != NULL)
			back_drop_part(engine, list_entry(node, struct back_part, node));
		back->again_pending = 0;
		return false;
	}
	list_remove(&back->node);
	list_append(&engine->io->backs.rows, &back->node);
	back->since_ms = engine->now_ms;
	back->since_logged = engine->write_log->sizes.ever;
	back->taken_bytes = 0;
	engine->io->backs.under_way++;
	while ((node = list_take(&parts)) != NULL)
		append(list_entry(node, struct back_part, node), part_logged_again, engine->now_ms);
	take_later(back);
	return true;
}

/* --- what a start has found in the log --- */

/* Pages of which something is set. */
static bool
copy_pages(struct write_back *back, const uint8_t *bytes)
{
	const struct engine *engine = back->op.engine;
	const uint32_t blocks = BACK_PAGE_BYTES / engine->geometry.block_bytes;

	for (uint32_t i = 0; i < row_pages(engine); i++) {
		const uint32_t at = i * BACK_PAGE_BYTES;

		if (memchr(back->set + i * blocks, BLOCK_HELD, blocks) == NULL)
			continue;
		if (!back_make_pages(back, at, at + BACK_PAGE_BYTES))
			return false;
		memcpy(back->pages[i], bytes + at, BACK_PAGE_BYTES);
	}
	return true;
}

int
write_back_restore(struct engine *engine, uint64_t row, const uint8_t *bytes, const uint8_t *set,
		   uint64_t sequence)
{
	struct write_back *back = row_table_reserve(engine->rows, 1) == 0 ? new_back(engine) : NULL;
	struct back_part *part = back != NULL ? new_part(engine, back) : NULL;

	if (part == NULL) {
		if (back != NULL)
			list_prepend(&engine->io->backs.free_rows, &back->node);
		return -ENOMEM;
	}
	memcpy(back->set, set, back_blocks(engine));
	if (!copy_pages(back, bytes)) {
		drop_pages(back);
		list_prepend(&engine->io->backs.free_rows, &back->node);
		back_drop_part(engine, part);
		return -ENOMEM;
	}
	begin_row(engine, back, row, 0, back_row_bytes(engine));
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
	while ((node = list_take(&engine->io->backs.free_pages)) != NULL)
		free(list_entry(node, struct page, node));
	while ((node = list_take(&engine->io->backs.free_parts)) != NULL) {
		struct back_part *part = list_entry(node, struct back_part, node);

		logged_free(&part->logged);
		free(part);
	}
}
