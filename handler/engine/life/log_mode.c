/* log_mode.c - opens and closes the write log (docs/design/write-log.md).
 *
 *	STEADY [--> WARMS] ---> DRAINS --> FLUSHES --> RECORDS --> STEADY, with the log or without it
 *	  |-->  SETTLES -->'                  `--> EMPTY: a place changes hands, superblocks stay
 *	  `--> DOUBTS --> EMPTIES --> DRAINS
 *
 * A key in the superblocks says that every row fits, but for what a replay writes.  So it comes
 * there when nothing is being written and everything is flushed, and nothing is written until that
 * is durable.  It goes from there in the same way; and where the log can't go on, without a flush
 * that fails.
 *
 * What caches hold may take long to flush: before the log is opened that is done first, beside
 * writes.  With the log open they hold little; and why it closes may be that rows don't fit.
 *
 * What the log has acknowledged comes to its rows before the log is closed: SETTLES, by the log.  One
 * that is broken takes no records: first the superblocks say that rows may not fit (DOUBTS), for a
 * crash in the midst of such a row would leave one that does not.
 */
#include "internal.h"
#include "log_mode.h"
#include "engine/members/members.h"
#include "engine/record/write_log.h"
#include "engine/work/work.h"
#include "engine/io/io.h"

#include <errno.h>
#include <syslog.h>

#define RETRY_MS 1000u

/* All that is suspect is on record as lost, or is what the others make of it by definition; and
 * that stays so if nothing goes wrong.
 */
static bool
is_all_known(const struct engine *engine)
{
	return engine->intent.suspect_count == engine->intent.defined_count && !engine->lost_full &&
	       !engine->lost_io->recording && !intent_leans(&engine->intent);
}

bool
log_mode_wanted(const struct engine *engine)
{
	return write_log_wanted(engine, engine->missing) && is_all_known(engine) &&
	       !engine->write_log->given_up && write_log_fits(engine) &&
	       engine->growth_phase == GROWTH_NONE;
}

static bool
may_stay(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log_mode_wanted(engine) && !write_log_is_broken(engine) &&
	       log->cache_losses == engine->cache_losses;
}

/* Nobody is on the way out, or silent beyond what the level bears. */
static bool
is_calm(const struct engine *engine)
{
	return engine->evicting == 0 && !engine->suspended && engine->missing == engine->out &&
	       !target_changing(engine);
}

static void
enter(struct engine *engine, enum log_step step)
{
	engine->write_log->step = step;
	engine->activity++;
}

/* It stays as it is, and is tried again. */
static void
call_off(struct engine *engine)
{
	engine->write_log->renews = false;
	engine->write_log->retry_ms = engine->now_ms + RETRY_MS;
	enter(engine, LOG_STEADY);
}

/* --- STEADY --- */

static bool
has_reason(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	if (log->on)
		return !may_stay(engine) || log->renews;
	return log_mode_wanted(engine) && is_calm(engine) && engine->phase == PHASE_RUNNING &&
	       !engine->stop_wanted && engine->io->wide_writes == 0;
}

static void
begin_flush(struct engine *engine, void (*done)(struct flush_waiter *waiter, int result))
{
	struct write_log *log = engine->write_log;

	log->step_flush = (struct flush_waiter){ .done = done, .since_ms = engine->now_ms };
	list_init(&log->step_flush.node);
	log->step_proven = engine->intent.suspect_count == 0;
	log->step_doubts = engine->intent.doubts;
	if (MUTANT(LOG_OPENED_UNFLUSHED))
		done(&log->step_flush, 0);
	else
		flush_join(engine, &log->step_flush);
}

static void
warmed(struct flush_waiter *waiter, int result)
{
	struct write_log *log = list_entry(waiter, struct write_log, step_flush);

	if (log->step != LOG_WARMS)
		return;
	if (result != 0)
		call_off(log->engine);
	else
		enter(log->engine, LOG_DRAINS);
}

/* So that a crash is taken for what it is. */
static void
begin_doubts(struct engine *engine)
{
	write_log_say_doubtful(engine);
	engine->write_log->record = metadata_commit(engine);
	enter(engine, LOG_DOUBTS);
}

static void
begin_change(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	if (log->failed)
		log->given_up = true;
	if (log->on && engine->io->backs.count > 0 && !MUTANT(HELD_DROPPED)) {
		if (write_log_is_broken(engine))
			begin_doubts(engine);
		else
			enter(engine, LOG_SETTLES);
		return;
	}
	if (log->on) {
		enter(engine, LOG_DRAINS);
		return;
	}
	enter(engine, LOG_WARMS);
	begin_flush(engine, warmed);
}

/* --- DRAINS, FLUSHES --- */

/* All that is live waits for room, and has touched no row: it is logged anew, by the next key. */
static bool
may_begin_anew(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log->on && log->full && !log->failed && log_mode_wanted(engine) && is_calm(engine) &&
	       log->cache_losses == engine->cache_losses;
}

static void
step_flushed(struct flush_waiter *waiter, int result)
{
	struct write_log *log = list_entry(waiter, struct write_log, step_flush);
	struct engine *engine = log->engine;
	const bool anew = result == 0 && may_begin_anew(engine);
	const bool opens = anew || (!log->on && log_mode_wanted(engine) && is_calm(engine));
	const bool closes = log->on && !anew && !may_stay(engine);

	if (log->step != LOG_FLUSHES)
		return;
	if (log->on && !closes && log->renews && result == 0) {
		log->offered = false;
		enter(engine, LOG_EMPTY);
		return;
	}
	/* What can't go on is closed though nothing can be flushed; else the reason has gone. */
	if (closes ? false : !opens || result != 0 || write_log_prepare(engine) != 0) {
		call_off(engine);
		return;
	}
	write_log_say(engine, !closes, engine->missing, write_log_stayed_proven(engine));
	log->record = metadata_commit(engine);
	enter(engine, LOG_RECORDS);
}

static void
flush_all(struct engine *engine)
{
	enter(engine, LOG_FLUSHES);
	begin_flush(engine, step_flushed);
}

/* What goes on in the background changes nothing that a missing chunk is made of (write-log.md). */
static bool
is_drained(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return (log->writers == 0 || MUTANT(LOG_OPENED_BESIDE_WRITES)) && write_log_idle(engine);
}

/* --- RECORDS --- */

static void
opened(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	const bool was_on = log->on;

	log->renews = log->moving = false;
	enter(engine, LOG_STEADY);
	if (engine->record.log_key == 0) {
		write_log_close(engine);
		if (was_on)
			engine_event(
				engine, EVENT_LOG_CLOSED, log->given_up ? LOG_ERR : LOG_NOTICE,
				NULL, "%s",
				log->given_up
					? "the write log can't be written: a crash while "
					  "members are out may cost rows that are being written"
					: "the write log is closed");
		return;
	}
	write_log_open(engine);
	if (!was_on)
		engine_event(engine, EVENT_LOG_OPENED, LOG_NOTICE, NULL,
			     engine->options.log == LOG_MODE_ALWAYS
				     ? "the write log is open"
				     : "the write log is open: writes are logged while members are "
				       "out");
}

static bool
is_settled(struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	if (log->moving)
		return !target_changing(engine);
	return metadata_known(engine, log->record) || MUTANT(LOG_OPENED_UNRECORDED);
}

static void
proven_flushed(struct flush_waiter *waiter, int result)
{
	struct write_log *log = list_entry(waiter, struct write_log, step_flush);
	struct engine *engine = log->engine;

	log->proving = false;
	engine->activity++;
	if (result != 0)
		log->retry_ms = engine->now_ms + RETRY_MS;
	if (result != 0 || !log->on || log->step != LOG_STEADY || !may_stay(engine) ||
	    !write_log_stayed_proven(engine))
		return;
	engine->record.log_proven = true;
	metadata_commit(engine);
}

static bool
may_prove(const struct engine *engine)
{
	return engine->write_log->on && !engine->record.log_proven &&
	       engine->intent.suspect_count == 0 && !engine->write_log->proving &&
	       !MUTANT(LOG_NEVER_PROVEN);
}

/* A resync has proven what was suspect when it was opened: others may go, once that is flushed. */
static void
prove(struct engine *engine)
{
	engine->write_log->proving = true;
	begin_flush(engine, proven_flushed);
}

void
log_mode_run(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	if (!engine_running(engine))
		return;
	switch (log->step) {
	case LOG_SETTLES:
		log->given_up |= log->failed;
		if (write_log_is_broken(engine) && engine->io->backs.count > 0)
			begin_doubts(engine);
		else if (engine->io->backs.count == 0)
			enter(engine, LOG_DRAINS);
		return;
	case LOG_DOUBTS:
		if (metadata_known(engine, log->record))
			enter(engine, LOG_EMPTIES);
		return;
	case LOG_EMPTIES:
		if (engine->io->backs.count == engine->io->backs.written_count)
			enter(engine, LOG_DRAINS);
		return;
	case LOG_STEADY:
		if (engine->now_ms < log->retry_ms && !write_log_is_broken(engine))
			return;
		if (has_reason(engine) && !log->proving)
			begin_change(engine);
		else if (may_prove(engine))
			prove(engine);
		return;
	case LOG_DRAINS:
		if (is_drained(engine))
			flush_all(engine);
		return;
	case LOG_WARMS:
	case LOG_FLUSHES:
		return;
	case LOG_EMPTY:
		if (log->offered)
			call_off(engine); /* nobody took the occasion */
		log->offered = true;
		engine->activity++;
		return;
	case LOG_RECORDS:
		if (is_settled(engine)) {
			opened(engine);
			/* behind it: those who waited for these rows go on, and log by the new key */
			write_back_log_closed(engine);
		}
		return;
	}
}

uint64_t
log_mode_deadline(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return engine_running(engine) && log->step == LOG_STEADY &&
			       (has_reason(engine) || may_prove(engine)) &&
			       log->retry_ms > engine->now_ms
		       ? log->retry_ms
		       : UINT64_MAX;
}
