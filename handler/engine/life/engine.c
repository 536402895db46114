/* engine.c - creation, admission of requests, and the run loop.
 *
 *	submit --> admission --> pieces --> operations --(rows granted)--> ready --> start
 *	                                     writes join each other here       |
 *	done() <-- finished <-------------------------------------------------'
 *
 * All requests that wait are admitted before the first of them starts, so that adjacent writes which
 * came together are carried out together.
 */
#include "engine/io/plug.h"
#include "engine/link/row_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* Each turn of a run lets something proceed; so many mean that nothing does.  The driver's other work goes on then. */
#define TURNS_MAX 100000u

void
engine_log(struct engine *engine, int level, const char *format, ...)
{
	char text[512];
	va_list args;

	if (engine->port.log == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	engine->port.log(engine->port.owner, level, text);
}

void
engine_event(struct engine *engine, enum event_kind kind, int severity, struct member *member,
	     const char *format, ...)
{
	struct engine_event event = {
		.kind = kind, .severity = severity, .slot = member != NULL ? member->slot : -1,
	};
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	event.text = text;
	if (engine->port.log != NULL)
		engine->port.log(engine->port.owner, severity, text);
	if (engine->port.event != NULL)
		engine->port.event(engine->port.owner, &event);
}

struct iovec *
scratch_reserve(struct engine *engine, int count)
{
	struct iovec *grown;
	int capacity = engine->scratch_capacity;

	if (capacity >= count)
		return engine->scratch;
	while (capacity < count)
		capacity = capacity ? capacity * 2 : 256;
	grown = realloc(engine->scratch, (size_t)capacity * sizeof(*grown));
	if (grown == NULL)
		return NULL;
	engine->scratch = grown;
	engine->scratch_capacity = capacity;
	return grown;
}

bool
engine_running(const struct engine *engine)
{
	return (engine->phase == PHASE_RUNNING || engine->phase == PHASE_DRAIN) && !engine->fenced;
}

bool
engine_calm(const struct engine *engine)
{
	return engine->phase == PHASE_RUNNING && !engine->fenced && !engine->suspended &&
	       !evict_undecided(engine) && !lost_io_recording(engine) &&
	       !grow_unsettled(engine) && engine->options.resync_rows_max > 0;
}

/* --- who has which chunk --- */

const char *
roles_text(uint32_t roles, char text[ROLES_TEXT_MAX])
{
	size_t length = 0;

	text[0] = '\0';
	for (int role = 0; role < IRAID_MEMBERS_MAX && length + 4 < ROLES_TEXT_MAX; role++)
		if (roles & ROLE(role))
			length += (size_t)snprintf(text + length, ROLES_TEXT_MAX - length, "%s%d",
						   length > 0 ? ", " : "", role);
	return text;
}

uint32_t
engine_absent(const struct engine *engine, uint64_t row)
{
	uint32_t roles = engine->missing;

	if (roles == 0)
		return 0;
	if (engine->target != NULL && intent_row_on_target(&engine->intent, row))
		roles &= ~ROLE(engine->target->role);
	return geometry_positions(&engine->geometry, row, roles);
}

bool
engine_has_parity(const struct engine *engine)
{
	return engine->geometry.level == 5 || engine->geometry.level == 6;
}

bool
engine_may_tear(const struct engine *engine)
{
	return engine->suspended && engine_has_parity(engine) && !engine->fenced && engine->phase < PHASE_RELEASE;
}

/* Nothing will be listed of it, so it need not wait until there is room for what its region loses: what nobody wrote, or a flush covered,
 * is what the others make of it.
 */
static bool
loses_nothing(const struct engine *engine, uint64_t row)
{
	return engine->lost_full && !intent_row_losable(&engine->intent, row) && !MUTANT(FULL_FOR_REGION);
}

enum row_trust
engine_trust(const struct engine *engine, uint64_t row)
{
	if (engine->geometry.redundancy == 0 || !intent_row_suspect(&engine->intent, row))
		return ROW_PROVEN;
	return intent_row_defined(&engine->intent, row) || loses_nothing(engine, row) ? ROW_DEFINED : ROW_SUSPECT;
}

bool
engine_bare(const struct engine *engine)
{
	return engine_has_parity(engine) &&
	       __builtin_popcount(engine->missing) >= engine->geometry.redundancy;
}

bool
engine_bears(const struct engine *engine, int role)
{
	return geometry_bears(&engine->geometry, engine->out | ROLE(role));
}

struct member *
engine_holder(struct engine *engine, uint64_t row, int role)
{
	if (engine->by_role[role] != NULL)
		return engine->by_role[role];
	if (engine->target != NULL && engine->target->role == role &&
	    intent_row_on_target(&engine->intent, row))
		return engine->target;
	return NULL;
}

int
engine_writers(struct engine *engine, uint64_t row, int role, struct member *out[2])
{
	int count = 0;

	if (engine->by_role[role] != NULL)
		out[count++] = engine->by_role[role];
	if (engine->target != NULL && engine->target->role == role &&
	    intent_row_on_target(&engine->intent, row))
		out[count++] = engine->target;
	return count;
}

/* --- requests and their pieces --- */

static void
request_finish(struct engine *engine, struct engine_request *request)
{
	list_remove(&request->alive);
	request->next = NULL;
	request->cache_losses = engine->cache_losses;
	request->finished_ns = engine->stamp_ns;
	*engine->finished_tail = request;
	engine->finished_tail = &request->next;
	engine->activity++;
}

struct piece *
piece_create(struct engine *engine, struct engine_request *request, uint64_t begin_bytes,
	     uint64_t end_bytes)
{
	struct piece *piece = engine->free_pieces;

	if (piece != NULL)
		engine->free_pieces = piece->next;
	else if ((piece = malloc(sizeof(*piece))) == NULL)
		return NULL;
	*piece = (struct piece){
		.request = request,
		.begin_bytes = begin_bytes,
		.end_bytes = end_bytes,
		.since_ms = zero_is_long(request) ? engine->now_ms : request->since_ms,
		/* Ranges of zeros are cut as there is room for them. */
		.since_ns = request->op == REQUEST_ZERO ? engine->stamp_ns : request->since_ns,
	};
	list_init(&piece->alive);
	if (zero_is_long(request))
		list_append(&engine->zeros_alive, &piece->alive);
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
	piece->next = engine->free_pieces;
	engine->free_pieces = piece;
	if (result != 0 && request->first_error == 0)
		request->first_error = result;
	if (request->op == REQUEST_ZERO)
		zero_piece_ended(engine, request);
	request_let_go(engine, request);
}

/* Only its own rows count: beside writes elsewhere that fail one after the other it would never end. */
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
	       intent_regions_doubted_since(&engine->intent, request->offset_bytes / row_bytes, (end - 1) / row_bytes,
					    request->doubts);
}

/* What holds for an operation under way (write_op.c, must_repeat) holds for pieces of the request that are done, too: a
 * cache that was lost may have taken them along, and a missing member's chunk that became doubtful is not what
 * was written, even if it has been filled again since, for their rows are free.  Nothing was acknowledged yet.
 */
static bool
must_repeat(const struct engine *engine, const struct engine_request *request)
{
	return (request->op == REQUEST_WRITE || request->op == REQUEST_ZERO) && request->pieces > 1 &&
	       request->first_error == 0 && !MUTANT(PIECE_FORGOTTEN) &&
	       (request->cache_losses != engine->cache_losses || is_doubted(engine, request));
}

void
request_let_go(struct engine *engine, struct engine_request *request)
{
	if (--request->pieces_left > 0)
		return;
	engine->requests_active--;
	if (must_repeat(engine, request) && !zero_is_long(request) &&
	    overdue_since(engine, request->since_ms))
		request->first_error = -ETIMEDOUT;
	if (must_repeat(engine, request)) {
		behind_again(engine, request);
		request->since_ns = engine->stamp_ns;
		request_carry_out(engine, request);
		return;
	}
	if (request->first_error != 0)
		behind_failed(engine, request);
	behind_ended(engine, request);
	request_finish(engine, request);
}

/* End of the piece that begins at begin_bytes: at most OP_ROWS_MAX rows, and OP_BYTES_MAX unless it is
 * within one row.
 */
static uint64_t
piece_end(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	uint64_t first = begin_bytes / row_bytes;
	uint64_t rows = OP_BYTES_MAX / row_bytes;
	uint64_t limit;

	rows = rows > OP_ROWS_MAX ? OP_ROWS_MAX : rows < 1 ? 1 : rows;
	limit = (first + rows) * row_bytes;
	return end_bytes < limit ? end_bytes : limit;
}

static void
dispatch(struct engine *engine, struct piece *piece)
{
	bool created = false;

	switch (piece->request->op) {
	case REQUEST_READ:
		created = read_op_create(engine, piece);
		break;
	case REQUEST_WRITE:
		created = (!piece->request->claimed && write_op_merge(engine, piece)) ||
			  write_op_create(engine, piece);
		break;
	case REQUEST_FLUSH:
		created = flush_op_create(engine, piece);
		break;
	case REQUEST_COMPARE_WRITE:
		created = compare_op_create(engine, piece);
		break;
	case REQUEST_ZERO:	/* zero_op.c cuts it */
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
	request->pieces_left = 1;	/* this function */
	request->pieces = 0;
	request->cut_bytes = 0;
	request->doubts = engine->intent.doubts;
	request->doubted = false;
	request->cache_losses = engine->cache_losses;
	plug_note(engine, request);
	if (request->op == REQUEST_ZERO) {
		zero_begin(engine, request);
		return;
	}
	do {
		bool whole = at == end || request->op == REQUEST_COMPARE_WRITE;
		uint64_t stop = whole ? end : plug_piece_end(engine, request, at, piece_end(engine, at, end));
		struct piece *piece = piece_create(engine, request, at, stop);

		if (piece == NULL) {
			request->first_error = -ENOMEM;
			break;
		}
		request->pieces++;
		request->pieces_left++;
		if (stop < end && request->op == REQUEST_WRITE)
			behind_begun(engine, request);
		dispatch(engine, piece);
		at = stop;
	} while (at < end);
	request_let_go(engine, request);
}

static int
request_fault(const struct engine *engine, const struct engine_request *request)
{
	const struct geometry *geometry = &engine->geometry;
	if (request->op == REQUEST_FLUSH)
		return 0;
	if (request->offset_bytes % geometry->block_bytes != 0 ||
	    request->length_bytes % geometry->block_bytes != 0 ||
	    (request->op == REQUEST_COMPARE_WRITE && request->length_bytes > COMPARE_WRITE_BYTES_MAX))
		return -EINVAL;
	if (request->offset_bytes > engine->volume_bytes ||
	    request->length_bytes > engine->volume_bytes - request->offset_bytes)
		return -ERANGE;
	return 0;
}

static void
refuse_all(struct engine *engine, int error)
{
	while (engine->admission_head != NULL) {
		struct engine_request *request = engine->admission_head;

		engine->admission_head = request->next;
		request->first_error = error;
		request_finish(engine, request);
	}
	engine->admission_tail = &engine->admission_head;
}

static void
admit(struct engine *engine)
{
	struct engine_request *request;

	figures_taken(engine);
	overdue_age(engine);
	if (engine->fenced || engine->stop_wanted) {
		behind_refuse(engine);
		refuse_all(engine, -ESHUTDOWN);
		return;
	}
	if (!engine_running(engine)) {
		if (engine->now_ms - engine->started_ms >= engine->options.assembly_limit_ms)
			refuse_all(engine, -ENOMEDIUM);
		return;
	}
	if (engine->admission_head != NULL || engine->requests_active > 0)
		engine->last_request_ms = engine->now_ms;
	while (engine->ops < OPS_MAX && (request = behind_next(engine)) != NULL)
		request_carry_out(engine, request);
	while ((request = engine->admission_head) != NULL &&
	       (engine->ops < OPS_MAX || overdue_since(engine, request->since_ms))) {
		int fault = overdue_since(engine, request->since_ms) ? -ETIMEDOUT : request_fault(engine, request);

		engine->admission_head = request->next;
		if (engine->admission_head == NULL)
			engine->admission_tail = &engine->admission_head;
		if (fault != 0 || (request->op != REQUEST_FLUSH && request->length_bytes == 0)) {
			request->first_error = fault;
			request_finish(engine, request);
			continue;
		}
		if (!behind_waits(engine, request))
			request_carry_out(engine, request);
	}
}

void
engine_submit(struct engine *engine, struct engine_request *request)
{
	request->next = NULL;
	request->first_error = 0;
	request->pieces_left = 0;
	request->claimed = false;
	request->zeroed_bytes = 0;
	request->overwritten = NULL;
	request->overtaken = false;
	request->several_link = NULL;
	request->since_ms = 0;
	list_init(&request->alive);
	if (engine->unaged == NULL)
		engine->unaged = request;
	request->submitted_ms = engine->now_ms;	/* of the last turn, so rather too early */
	*engine->admission_tail = request;
	engine->admission_tail = &request->next;
	figures_submitted(engine, request);
}

static void
deliver(struct engine *engine)
{
	while (engine->finished_head != NULL) {
		struct engine_request *request = engine->finished_head;

		engine->finished_head = request->next;
		if (engine->finished_head == NULL)
			engine->finished_tail = &engine->finished_head;
		engine->activity++;
		figures_deliver(engine, request);
	}
	figures_delivered(engine);
}

/* --- operations --- */

void
op_ready(struct op *op)
{
	list_remove(&op->node);
	list_append(&op->engine->ready, &op->node);
	op->engine->activity++;
}

void
op_claimed(struct op *op)
{
	if (op->holder.waiting == 0)
		op_ready(op);
	else
		list_append(&op->engine->claimants, &op->node);
}

void
op_granted(struct claim_holder *holder)
{
	op_ready((struct op *)holder);
}

void
op_wait_for_buffer(struct op *op)
{
	list_append(&op->engine->buffer_waiters, &op->node);
}

void
op_gone(struct engine *engine)
{
	assert(engine->ops > 0);
	engine->ops--;
	engine->activity++;
}

static void
start_ready(struct engine *engine)
{
	/* Who is missing, or what is lost with it, is being recorded, or will be: nothing is changed before that is durable.
	 * Reads go on, around who is missing where that is possible. */
	const bool undecided = lost_io_undecided(engine);
	const bool torn = engine_may_tear(engine) && !MUTANT(WRITTEN_WHILE_SUSPENDED);
	const bool recording = (evict_undecided(engine) || undecided || torn) && !engine->fenced && engine->phase < PHASE_RELEASE;
	struct list batch, held;
	struct list *node;

	/* Those who waited for memory go first, and in order: the first that finds none ends it. */
	list_init(&held);
	list_init(&batch);
	list_splice(&batch, &engine->buffer_waiters);
	list_splice(&batch, &engine->ready);
	while ((node = list_take(&batch)) != NULL) {
		struct op *op = list_entry(node, struct op, node);

		const bool waits = recording && (!op->changes_nothing || MUTANT(READS_HELD));

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
		if (!list_empty(&engine->buffer_waiters)) {
			list_splice(&engine->buffer_waiters, &batch);
			break;
		}
	}
	list_splice(&held, &engine->ready);
	list_splice(&engine->ready, &held);
}

/* --- the run loop --- */

static void
handle_answers(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->answered)) != NULL) {
		engine->activity++;
		member_handle_answer(list_entry(node, struct member_io, node));
	}
	for_each_member(engine, member)
		member_handle_events(member);
}

static void
finish_immediate(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->immediate)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		engine->activity++;
		mio->done(mio, mio->io.result);
		member_io_free(mio);
	}
}

void
engine_run(struct engine *engine, uint64_t now_ms)
{
	uint64_t before;
	unsigned int turns = 0;

	if (now_ms > engine->now_ms)
		engine->now_ms = now_ms;
	if (engine->phase == PHASE_STOPPED)
		return;
	figures_look(engine);
	do {
		before = engine->activity;
		handle_answers(engine);
		finish_immediate(engine);
		evict_run(engine);
		overdue_run(engine);
		assemble_run(engine);
		metadata_run(engine);
		place_run(engine);
		target_run(engine);
		grow_run(engine);
		probe_run(engine);
		admit(engine);
		zero_run(engine);
		read_op_hedge(engine);
		plug_run(engine);
		start_ready(engine);
		repair_run(engine);
		rebuild_run(engine);
		resync_run(engine);
		scrub_run(engine);
		flush_run(engine);
		intent_io_run(engine);
		lost_io_run(engine);
		admin_let_go(engine);
		deliver(engine);
		stop_run(engine);
		if (++turns == TURNS_MAX)
			engine_log(engine, LOG_ALERT, "the engine goes round in a circle: please report this");
	} while (engine->activity != before && engine->phase != PHASE_STOPPED && turns < TURNS_MAX);
	if (engine->phase == PHASE_STOPPED && engine->stopped != NULL)
		engine->stopped(engine->stopped_owner);
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t
engine_deadline(const struct engine *engine)
{
	uint64_t deadline = evict_deadline(engine);

	deadline = earlier(deadline, dispute_deadline(engine));
	deadline = earlier(deadline, assemble_deadline(engine));
	deadline = earlier(deadline, intent_io_deadline(engine));
	deadline = earlier(deadline, lost_io_deadline(engine));
	deadline = earlier(deadline, zero_deadline(engine));
	deadline = earlier(deadline, overdue_deadline(engine));
	deadline = earlier(deadline, flush_deadline(engine));
	deadline = earlier(deadline, read_op_deadline(engine));
	deadline = earlier(deadline, plug_deadline(engine));
	deadline = earlier(deadline, resync_deadline(engine));
	deadline = earlier(deadline, rebuild_deadline(engine));
	deadline = earlier(deadline, scrub_deadline(engine));
	deadline = earlier(deadline, probe_deadline(engine));
	deadline = earlier(deadline, stop_deadline(engine));
	if (engine->record_durable < engine->record_wanted &&
	    engine->record_retry_ms > engine->now_ms)
		deadline = earlier(deadline, engine->record_retry_ms);
	return deadline;
}

/* --- life --- */

bool
member_create(struct engine *engine, struct backend *backend, int slot)
{
	struct member *member = &engine->members[slot];
	uint8_t *page = aligned_alloc(LAYOUT_SUPERBLOCK_BYTES, 4 * LAYOUT_SUPERBLOCK_BYTES);

	if (page == NULL)
		return false;
	*member = (struct member){
		.engine = engine,
		.backend = backend,
		.slot = slot,
		.role = -1,
		.stale_set = -1,
		.backoff_ms = BACKOFF_FIRST_MS,
		.cache_kept = true,
		.lost_seen = backend->writes_lost,
		.presence = PRESENCE_AWAITED,
		.page = page,
	};
	list_init(&member->in_flight);
	list_init(&member->parked);
	if (slot >= engine->slots)
		engine->slots = slot + 1;
	return true;
}

struct engine *
engine_create(const struct engine_options *options, const struct engine_port *port,
	      struct backend *const *backends, int count, uint64_t now_ms)
{
	struct engine *engine;
	bool good;

	if (count < 1 || count > SLOTS_MAX || (engine = calloc(1, sizeof(*engine))) == NULL)
		return NULL;
	engine->options = *options;
	engine->port = *port;
	engine->now_ms = now_ms;
	engine->stamp_ns = 1;
	engine->replace_role = -1;
	engine_set_rates(engine, options->sync_rate_min, options->sync_rate_max);
	engine->admission_tail = &engine->admission_head;
	engine->behind_tail = &engine->behind_head;
	engine->finished_tail = &engine->finished_head;
	zero_ops_init(engine);
	list_init(&engine->intent_waiters);
	list_init(&engine->writing);
	list_init(&engine->lost_waiters);
	list_init(&engine->reads);
	list_init(&engine->flush_next);
	list_init(&engine->flush_now);
	list_init(&engine->alive);
	list_init(&engine->zeros_alive);
	list_init(&engine->claimants);
	list_init(&engine->ready);
	list_init(&engine->buffer_waiters);
	list_init(&engine->plug.ops);
	list_init(&engine->answered);
	list_init(&engine->immediate);
	list_init(&engine->free_mios);
	list_init(&engine->reserved_mios);
	list_init(&engine->free_reads);
	list_init(&engine->free_writes);
	list_init(&engine->free_zeros);
	list_init(&engine->free_compares);
	list_init(&engine->free_flushes);
	engine->map_buffer = aligned_alloc(LAYOUT_MAP_BLOCK_BYTES,
					   (size_t)MAP_BATCH * LAYOUT_MAP_BLOCK_BYTES);
	good = member_reserve_commands(engine);
	for (int i = 0; i < count; i++)
		good &= member_create(engine, backends[i], i);
	if (!good || engine->map_buffer == NULL) {
		engine_destroy(engine);
		return NULL;
	}
	return engine;
}

void
engine_start(struct engine *engine)
{
	assert(engine->phase == PHASE_IDLE);
	engine->phase = PHASE_EXAMINE;
	engine->started_ms = engine->now_ms;
	engine->phase_since_ms = engine->now_ms;
}

void
engine_stop(struct engine *engine, void (*stopped)(void *owner), void *owner)
{
	engine->stop_wanted = true;
	engine->stopped = stopped;
	engine->stopped_owner = owner;
}

void
engine_destroy(struct engine *engine)
{
	assert(engine->phase == PHASE_IDLE || engine->phase == PHASE_STOPPED);
	member_free_commands(engine);
	while (engine->free_pieces != NULL) {
		struct piece *piece = engine->free_pieces;

		engine->free_pieces = piece->next;
		free(piece);
	}
	read_ops_free(engine);
	write_ops_free(engine);
	zero_ops_free(engine);
	compare_ops_free(engine);
	flush_ops_free(engine);
	resync_free(engine);
	rebuild_free(engine);
	scrub_free(engine);
	repair_free(engine);
	lost_io_free(engine);
	row_cache_free(engine);
	row_table_destroy(engine->rows);
	arena_destroy(&engine->arena);
	intent_destroy(&engine->intent);
	for_each_member(engine, member)
		free(member->page);
	free(engine->map_load);
	free(engine->map_buffer);
	free(engine->scratch);
	free(engine);
}
