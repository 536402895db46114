/* stop.c - an orderly end.
 *
 *	DRAIN --> LAST_FLUSH --> LAST_MAP --> LAST_SUPERBLOCKS --> RELEASE --> STOPPED
 *	  `------------`-------------`---------------`--(too slow)-->'
 *
 * Only the whole way marks the superblocks clean.  Members that don't answer make it short:
 * whatever is left is as after a crash, which is safe.  Each step has its limit
 * (docs/design/time.md).
 *
 * DRAIN also proves the regions that were written while suspect, as far as RESYNC_STOP_MS reaches:
 * regions of large members have tens of MiB each, and slow background work is no reason for an end
 * without order.
 */
#include "engine.h"
#include "internal.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"
#include "engine/work/work.h"
#include "engine/io/io.h"

#include <errno.h>
#include <syslog.h>

#define STEP_LIMIT_MS 5000u
#define DRAIN_LIMIT_MS 15000u
#define TURN_MS 1000u

static void
release_sessions(struct engine *engine)
{
	life_enter(engine, PHASE_RELEASE);
	for_each_member(engine, member) {
		if (member->link != LINK_CLOSED)
			member->backend->ops->release(member->backend);
	}
}

static void
give_stop_up(struct engine *engine)
{
	engine_log(engine, LOG_WARNING,
		   "members did not answer in time: stopped without marking them clean");
	for_each_member(engine, member)
		member_fail_parked(member, -ESHUTDOWN, false);
	marks_tell(engine, -ESHUTDOWN);
	release_sessions(engine);
}

static bool
drained(const struct engine *engine)
{
	return engine->ops.count == 0 && engine->requests_active == 0 &&
	       engine->io->backs.count == 0 && engine->io->admission_head == NULL &&
	       engine->io->proof.head == NULL && resync_idle(engine) && rebuild_idle(engine) &&
	       scrub_idle(engine) && repair_idle(engine) && lost_io_idle(engine) &&
	       engine->flush->pending == 0 && !engine->marks->cleaning && engine->evicting == 0 &&
	       engine->write_log->step == LOG_STEADY && !write_log_is_broken(engine) &&
	       write_log_idle(engine);
}

/* Who is being filled is about to have a superblock that others know of.  If that takes long, it is
 * left out: what it was sent is not to become clean.
 */
static bool
awaits_target(const struct engine *engine)
{
	return engine->phase == PHASE_DRAIN && !metadata_target_may_clean(engine) &&
	       engine->now_ms - engine->phase_since_ms < TURN_MS;
}

static void
last_flush_done(struct flush_waiter *waiter, int result)
{
	struct engine *engine = list_entry(waiter, struct marks, clean_waiter)->engine;

	engine->marks->cleaning = false;
	if (engine->phase != PHASE_LAST_FLUSH && !MUTANT(STOP_GOES_BACK))
		return; /* it took too long, and was given up */
	engine->life->stop_clean = result == 0;
	engine->flush->loss_untold |= result == -EIO && !MUTANT(LAST_FLUSH_FORGOTTEN);
	if ((result == 0 || MUTANT(STOP_CLEANS_ANYWAY)) && engine->geometry.redundancy > 0) {
		/* Nothing is active: two generations make every region that is not suspect
		 * cleanable.
		 */
		intent_clean_begin(&engine->intent);
		intent_clean_begin(&engine->intent);
		intent_clean_end(&engine->intent);
	}
	life_enter(engine, PHASE_LAST_MAP);
}

static void
begin_last_flush(struct engine *engine)
{
	if (!metadata_target_may_clean(engine))
		target_lost(engine, MEMBER_REBUILDING);
	life_enter(engine, PHASE_LAST_FLUSH);
	engine->marks->cleaning = true;
	engine->marks->clean_waiter.done = last_flush_done;
	engine->marks->clean_waiter.told = false;
	flush_join(engine, &engine->marks->clean_waiter);
}

static void
begin_last_superblocks(struct engine *engine)
{
	engine->record.clean = engine->life->stop_clean;
	if (engine->life->stop_clean) /* else the next start replays it */
		write_log_say(engine, false, 0, false);
	engine->record.owner[0] = '\0';
	if (!target_changing(engine))
		engine->metadata->target_announced = 0; /* it does not take its place now */
	metadata_commit(engine);
	life_enter(engine, PHASE_LAST_SUPERBLOCKS);
}

static bool
sessions_closed(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].link != LINK_CLOSED)
			return false;
	return list_empty(&engine->link->answered) && list_empty(&engine->link->immediate);
}

static void
finish_release(struct engine *engine)
{
	bool parked = false;

	for_each_member(engine, member) {
		parked |= !list_empty(&member->parked);
		member_fail_parked(member, -ESHUTDOWN, false);
	}
	if (parked) {
		engine->activity++;
		return;
	}
	marks_tell(engine, -ESHUTDOWN);
	/* No command is under way any more, and none will be: nobody else tells them. */
	if (!list_empty(&engine->lost_io->waiters) && !MUTANT(TABLE_AWAITED_FOR_EVER))
		lost_io_tell(engine, -ESHUTDOWN);
	if (engine->ops.count > 0 || engine->requests_active > 0 || engine->io->backs.count > 0 ||
	    engine->io->admission_head != NULL)
		return;
	if (engine->io->finished_head != NULL && !MUTANT(LAST_UNDELIVERED)) {
		/* those that were told just now: deliver() has its turn first */
		engine->activity++;
		return;
	}
	life_enter(engine, PHASE_STOPPED);
}

/* Each step has its limit; whatever takes longer is given up, and then only sessions have to end.
 */
uint64_t
engine_stop_ms_max(void)
{
	return DRAIN_LIMIT_MS + 3ull * STEP_LIMIT_MS + BACKEND_RELEASE_MS + TURN_MS;
}

static bool
too_slow(const struct engine *engine)
{
	uint64_t limit = engine->phase == PHASE_DRAIN ? DRAIN_LIMIT_MS : STEP_LIMIT_MS;

	if (engine->phase == PHASE_DRAIN && (engine->suspended || engine->fenced))
		limit = engine->fenced ? 0 : STEP_LIMIT_MS;
	return engine->now_ms - engine->phase_since_ms >= limit;
}

/* Of a member that goes during the last flush it is being recorded what is lost with it.  Later
 * that is not done any more.
 */
static bool
awaits_table(const struct engine *engine)
{
	return engine->phase == PHASE_LAST_MAP && engine->now_ms - engine->phase_since_ms < TURN_MS;
}

void
stop_run(struct engine *engine)
{
	if (!engine->stop_wanted)
		return;
	if (engine->phase < PHASE_RUNNING) {
		release_sessions(engine);
	} else if (engine->phase == PHASE_RUNNING) {
		life_enter(engine, PHASE_DRAIN);
	} else if (engine->phase < PHASE_RELEASE && too_slow(engine)) {
		give_stop_up(engine);
	} else if (engine->phase == PHASE_DRAIN && drained(engine) && !awaits_target(engine)) {
		begin_last_flush(engine);
	} else if (engine->phase == PHASE_LAST_MAP && marks_idle(engine) &&
		   (lost_io_idle(engine) || !awaits_table(engine))) {
		begin_last_superblocks(engine);
	} else if (engine->phase == PHASE_LAST_SUPERBLOCKS && metadata_idle(engine) &&
		   metadata_is_decided(engine)) {
		release_sessions(engine);
	} else if (engine->phase == PHASE_RELEASE && sessions_closed(engine)) {
		finish_release(engine);
	}
}

uint64_t
stop_deadline(const struct engine *engine)
{
	if (!engine->stop_wanted || engine->phase < PHASE_DRAIN || engine->phase >= PHASE_RELEASE)
		return UINT64_MAX;
	if (awaits_table(engine) || awaits_target(engine))
		return engine->phase_since_ms + TURN_MS;
	if (resync_has_time(engine))
		return engine->phase_since_ms + RESYNC_STOP_MS;
	return engine->phase_since_ms + (engine->phase == PHASE_DRAIN && !engine->suspended
						 ? DRAIN_LIMIT_MS
						 : STEP_LIMIT_MS);
}
