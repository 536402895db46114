/* engine.c - creation, admission of requests, and the run loop.
 *
 *	submit --> admission --> pieces --> operations --(rows granted)--> ready --> start
 *	                                     writes join each other here       |
 *	done() <-- finished <-------------------------------------------------'
 *
 * All requests that wait are admitted before the first of them starts, so that adjacent writes
 * which came together are carried out together.
 */
#include "engine.h"
#include "internal.h"
#include "log_mode.h"
#include "replay.h"
#include "engine/link/link.h"
#include "engine/link/row_cache.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"
#include "engine/work/work.h"
#include "engine/io/io.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <syslog.h>

/* Each turn of a run lets something proceed; so many mean that nothing does.  The driver's other
 * work goes on then.
 */
#define TURNS_MAX 100000u

static int
request_fault(const struct engine *engine, const struct engine_request *request)
{
	const struct geometry *geometry = &engine->geometry;
	if (request->op == REQUEST_FLUSH)
		return 0;
	if (request->offset_bytes % geometry->block_bytes != 0 ||
	    request->length_bytes % geometry->block_bytes != 0 ||
	    (request->op == REQUEST_COMPARE_WRITE &&
	     request->length_bytes > COMPARE_WRITE_BYTES_MAX))
		return -EINVAL;
	if (request->offset_bytes > engine->volume_bytes ||
	    request->length_bytes > engine->volume_bytes - request->offset_bytes)
		return -ERANGE;
	return 0;
}

static void
refuse_all(struct engine *engine, int error)
{
	while (engine->io->admission_head != NULL) {
		struct engine_request *request = engine->io->admission_head;

		engine->io->admission_head = request->next;
		request->first_error = error;
		request_finish(engine, request);
	}
	engine->io->admission_tail = &engine->io->admission_head;
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
		if (engine->now_ms - engine->assembly->started_ms >=
		    engine->options.assembly_limit_ms)
			refuse_all(engine, -ENOMEDIUM);
		return;
	}
	if (engine->io->admission_head != NULL || engine->requests_active > 0)
		engine->last_request_ms = engine->now_ms;
	while (engine->ops.count < OPS_MAX && (request = behind_next(engine)) != NULL)
		request_carry_out(engine, request);
	while ((request = engine->io->admission_head) != NULL &&
	       (engine->ops.count < OPS_MAX || overdue_since(engine, request->since_ms))) {
		int fault = overdue_since(engine, request->since_ms)
				    ? -ETIMEDOUT
				    : request_fault(engine, request);

		engine->io->admission_head = request->next;
		if (engine->io->admission_head == NULL)
			engine->io->admission_tail = &engine->io->admission_head;
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
engine_epoch_recorded(struct engine *engine, enum epoch_kind kind, uint64_t epoch, int error)
{
	epochs_recorded(engine, kind, epoch, error);
}

void
engine_submit(struct engine *engine, struct engine_request *request)
{
	request->next = NULL;
	request->first_error = 0;
	request->pieces_left = 0;
	request->claimed = request->writes_back = false;
	request->zeroed_bytes = 0;
	request->overwritten = NULL;
	request->overtaken = false;
	request->several_link = NULL;
	request->since_ms = 0;
	list_init(&request->alive);
	if (engine->io->unaged == NULL)
		engine->io->unaged = request;
	request->submitted_ms = engine->now_ms; /* of the last turn, so rather too early */
	request->submitted_at = engine->moment;
	*engine->io->admission_tail = request;
	engine->io->admission_tail = &request->next;
	figures_submitted(engine, request);
}

/* --- the run loop --- */

static void
handle_answers(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->link->answered)) != NULL) {
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

	while ((node = list_take(&engine->link->immediate)) != NULL) {
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
		epochs_run(engine);
		evict_run(engine);
		overdue_run(engine);
		assemble_run(engine);
		replay_run(engine);
		metadata_run(engine);
		place_run(engine);
		target_run(engine);
		grow_run(engine);
		probe_run(engine);
		admit(engine);
		zero_run(engine);
		read_op_hedge(engine);
		plug_run(engine);
		request_start_ready(engine);
		write_log_run(engine);
		repair_run(engine);
		rebuild_run(engine);
		resync_run(engine);
		scrub_run(engine);
		write_back_run(engine); /* all who claim rows have had their turn */
		flush_run(engine);
		marks_run(engine);
		lost_io_run(engine);
		log_mode_run(engine);
		admin_let_go(engine);
		proof_run(engine);
		request_deliver(engine);
		stop_run(engine);
		if (++turns == TURNS_MAX)
			engine_log(engine, LOG_ALERT,
				   "the engine goes round in a circle: please report this");
	} while (engine->activity != before && engine->phase != PHASE_STOPPED && turns < TURNS_MAX);
	if (engine->phase == PHASE_STOPPED && engine->life->stopped != NULL)
		engine->life->stopped(engine->life->stopped_owner);
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

	deadline = earlier(deadline, epochs_deadline(engine));
	deadline = earlier(deadline, dispute_deadline(engine));
	deadline = earlier(deadline, assemble_deadline(engine));
	deadline = earlier(deadline, replay_deadline(engine));
	deadline = earlier(deadline, log_mode_deadline(engine));
	deadline = earlier(deadline, write_log_deadline(engine));
	deadline = earlier(deadline, marks_deadline(engine));
	deadline = earlier(deadline, lost_io_deadline(engine));
	deadline = earlier(deadline, zero_deadline(engine));
	deadline = earlier(deadline, overdue_deadline(engine));
	deadline = earlier(deadline, flush_deadline(engine));
	deadline = earlier(deadline, read_op_deadline(engine));
	deadline = earlier(deadline, proof_deadline(engine));
	deadline = earlier(deadline, plug_deadline(engine));
	deadline = earlier(deadline, write_back_deadline(engine));
	deadline = earlier(deadline, resync_deadline(engine));
	deadline = earlier(deadline, rebuild_deadline(engine));
	deadline = earlier(deadline, scrub_deadline(engine));
	deadline = earlier(deadline, probe_deadline(engine));
	deadline = earlier(deadline, stop_deadline(engine));
	if (engine->metadata->durable < engine->metadata->wanted &&
	    engine->metadata->retry_ms > engine->now_ms)
		deadline = earlier(deadline, engine->metadata->retry_ms);
	return deadline;
}

/* --- life --- */

/* The engine, and what each room has of it: one piece of memory. */
struct whole {
	struct engine engine; /* must be first */
	struct link link;
	struct metadata metadata;
	struct marks marks;
	struct lost_io lost_io;
	struct epochs epochs;
	struct flush flush;
	struct write_log write_log;
	struct eviction eviction;
	struct places places;
	struct target_state target_state;
	struct work work;
	struct io io;
	struct assembly assembly;
	struct life life;
};

static struct engine *
furnish(struct whole *whole)
{
	struct engine *engine = &whole->engine;

	engine->link = &whole->link;
	engine->metadata = &whole->metadata;
	engine->marks = &whole->marks;
	engine->lost_io = &whole->lost_io;
	engine->epochs = &whole->epochs;
	engine->flush = &whole->flush;
	engine->write_log = &whole->write_log;
	engine->eviction = &whole->eviction;
	engine->places = &whole->places;
	engine->target_state = &whole->target_state;
	engine->work = &whole->work;
	engine->io = &whole->io;
	engine->assembly = &whole->assembly;
	engine->life = &whole->life;
	return engine;
}

struct engine *
engine_create(const struct engine_options *options, const struct engine_port *port,
	      struct backend *const *backends, int count, uint64_t now_ms)
{
	struct whole *whole;
	struct engine *engine;
	bool good;

	if (count < 1 || count > SLOTS_MAX || (whole = calloc(1, sizeof(*whole))) == NULL)
		return NULL;
	engine = furnish(whole);
	engine->options = *options;
	engine->port = *port;
	engine->now_ms = now_ms;
	engine->figures.stamp_ns = 1;
	engine->target_state->replace_role = -1;
	throttle_set_rates(engine, options->sync_rate_min, options->sync_rate_max);
	io_init(engine);
	list_init(&engine->lost_io->waiters);
	flush_init(engine);
	write_log_init(engine);
	list_init(&engine->ops.claimants);
	list_init(&engine->ops.ready);
	list_init(&engine->ops.buffer_waiters);
	good = marks_init(engine) == 0;
	good &= link_init(engine);
	for (int i = 0; i < count; i++)
		good &= member_create(engine, backends[i], i);
	if (!good) {
		engine_destroy(engine);
		return NULL;
	}
	return engine;
}

void
life_enter(struct engine *engine, enum engine_phase phase)
{
	engine->phase = phase;
	engine->phase_since_ms = engine->now_ms;
	engine->activity++;
}

void
engine_start(struct engine *engine)
{
	assert(engine->phase == PHASE_IDLE);
	engine->assembly->started_ms = engine->now_ms;
	engine->places->waits_to_take =
		engine->options.take_over_ms != 0 && engine->options.force_ms == 0 &&
		engine->options.members_needed > 1 && !MUTANT(TAKEN_TOO_EARLY);
	life_enter(engine, PHASE_EXAMINE);
}

void
engine_stop(struct engine *engine, void (*stopped)(void *owner), void *owner)
{
	engine->stop_wanted = true;
	engine->life->stopped = stopped;
	engine->life->stopped_owner = owner;
}

void
engine_destroy(struct engine *engine)
{
	assert(engine->phase == PHASE_IDLE || engine->phase == PHASE_STOPPED);
	link_free(engine);
	io_free(engine);
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
	free(engine->assembly->maps);
	replay_free(engine);
	write_log_free(engine);
	marks_free(engine);
	free(engine->scratch.iov);
	free(engine);
}

uint64_t
engine_request_ms_max(const struct engine_options *options)
{
	return overdue_ms_max(options);
}
