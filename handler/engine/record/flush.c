/* flush.c - SYNCHRONIZE CACHE of all members, for flush requests, FUA writes and cleaning.
 *
 * One round is under way at a time; whoever comes meanwhile joins the next, for a flush covers only
 * what was written before it was sent.  A round succeeds when every in-sync member flushed, or the
 * one that did not is durably evicted (DESIGN rule 6).  A member that lost a session with unflushed
 * writes, and returned instead of being evicted, may have lost them: the next flush request fails,
 * as fsync does, and so do all for loss_told_ms from then on: another initiator has lost data, too,
 * and the one that was to hear may have lost its session in that moment.  It is on record, so a
 * gateway that starts anew tells what is not told yet.  Only flush requests tell.  A write with FUA
 * speaks for its own data, which it writes again where a cache may have taken it; if it failed
 * instead, whoever sent it would repeat it, and the flush that others rely on would succeed.  So it
 * is with a flush that only a read needs.
 */
#include "internal.h"
#include "engine/link/link.h"

#include <errno.h>
#include <syslog.h>

void
flush_join(struct engine *engine, struct flush_waiter *waiter)
{
	list_append(&engine->flush->next, &waiter->node);
	engine->activity++;
}

static void
start_flushed(struct flush_waiter *waiter, int result)
{
	(void)waiter, (void)result; /* who needs it asks again */
}

/* A gateway that did not stop in order may have left writes in caches, and members need not admit
 * to have those any more: a cache that was switched off keeps what it has.  So until that was
 * flushed, which is as soon as may be, the end of a session counts as the loss of a cache whatever
 * the member says.  Before the volume runs nothing was proven by what it holds.
 */
void
flush_what_was_left(struct engine *engine)
{
	bool left = false;

	for_each_member(engine, member) {
		if (!member->in_sync || (engine->flush->found_clean && !member->forced) ||
		    MUTANT(LEFT_IN_CACHE_UNFLUSHED))
			continue;
		member->unflushed = member->unflushed_data = true;
		engine->flush->loss_untold |= member->left_lost;
		/* its session has ended already */
		member->data_lost |= member->cache_lost && !MUTANT(LEFT_LOST_UNTOLD);
		left = true;
	}
	if (!left)
		return;
	engine->flush->start_waiter =
		(struct flush_waiter){ .done = start_flushed, .since_ms = engine->now_ms };
	list_init(&engine->flush->start_waiter.node);
	flush_join(engine, &engine->flush->start_waiter);
}

/* --- a cache is lost, and nobody makes up for it --- */

void
flush_cache_lost(struct member *member)
{
	struct engine *engine = member->engine;

	/* Of what a start writes nothing is anybody's data, nor of what is written through. */
	if ((engine->phase < PHASE_RUNNING && !MUTANT(LOST_IN_START_TOLD)) || !member->data_lost)
		return;
	engine->flush->loss_untold = true;
	engine_log(engine, LOG_ERR,
		   "what member %s had not flushed may be lost, and no other has it: the next "
		   "flush fails",
		   member->backend->label);
}

static uint64_t
lasts_at(const struct engine *engine)
{
	return engine->stop_wanted ? engine->suspended_since_ms
				   : engine->suspended_since_ms + engine->options.give_up_ms;
}

/* Too many are silent, not for a moment only, and one of them may come back without what it had not
 * flushed.  If the gateway ends before that, its successor has to know.
 */
static bool
may_be_lost(const struct engine *engine)
{
	bool lost = false;

	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		lost |= member->backend != NULL && member->cache_lost && member->data_lost &&
			member->in_sync && !member_usable(member);
	}
	return lost && engine->suspended && engine->now_ms >= lasts_at(engine) &&
	       !MUTANT(LOST_AWAY_UNRECORDED);
}

static bool
flushes_fail(const struct engine *engine)
{
	return engine->flush->loss_untold || engine->now_ms < engine->flush->told_until_ms;
}

static void
record_loss(struct engine *engine)
{
	const bool fail = flushes_fail(engine) || may_be_lost(engine);

	if (engine->phase < PHASE_RUNNING || engine->phase >= PHASE_RELEASE ||
	    engine->record.flushes_fail == fail)
		return;
	engine->record.flushes_fail = fail;
	metadata_commit(engine);
}

uint64_t
flush_deadline(const struct engine *engine)
{
	uint64_t deadline = engine->now_ms < engine->flush->told_until_ms
				    ? engine->flush->told_until_ms
				    : UINT64_MAX;

	if (engine->suspended && engine->now_ms < lasts_at(engine) && lasts_at(engine) < deadline)
		deadline = lasts_at(engine);
	return deadline;
}

static bool
anyone_is_told(const struct engine *engine)
{
	const struct list *node;

	for (node = engine->flush->now.next; node != &engine->flush->now; node = node->next)
		if (list_entry(node, struct flush_waiter, node)->told)
			return true;
	return false;
}

/* A member lost its session, and unflushed writes with it, and nobody knows yet whether it returns
 * or is evicted: only then do they count as lost.
 */
static bool
fate_open(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend != NULL && member->cache_lost && member->in_sync &&
		    !member_usable(member))
			return true;
	}
	return false;
}

static void
round_done(struct engine *engine)
{
	struct list waiters;
	struct list *node;
	int result = engine->flush->result;
	/* Who hears that it could not be carried out may ask again, on another path. */
	const bool tells = result == 0 || result == -EIO || MUTANT(TOLD_IN_VAIN);
	const bool told = tells && anyone_is_told(engine), lost = flushes_fail(engine);

	if (result == 0 && fate_open(engine)) {
		/* The next round sends it a flush, which waits for that, or for queue_limit. */
		list_splice(&engine->flush->next, &engine->flush->now);
		engine->activity++;
		return;
	}
	if (engine->geometry.redundancy > 0)
		intent_flush_ends(&engine->intent, result == 0);
	/* That it was told makes up for nothing: who lacks something does so until it is proven, or
	 * on record.
	 */
	if (told && MUTANT(TOLD_IS_MADE_UP))
		for_each_member(engine, member)
			member->lacking = false;
	if (engine->flush->loss_untold && told) {
		engine->flush->loss_untold = false;
		engine->flush->told_until_ms = engine->now_ms;
		engine->flush->told_until_ms +=
			MUTANT(LOSS_TOLD_ONCE) ? 0 : engine->options.loss_told_ms;
		engine_log(engine, LOG_ERR,
			   "flushes fail for %u s, so that everybody hears that what members had "
			   "not flushed may be lost",
			   engine->options.loss_told_ms / 1000);
	}
	engine->activity++;
	list_init(&waiters);
	list_splice(&waiters, &engine->flush->now);
	while ((node = list_take(&waiters)) != NULL) {
		struct flush_waiter *waiter = list_entry(node, struct flush_waiter, node);

		/* Cleaning is not kept up by it: what may have been lost is suspect since. */
		waiter->done(waiter, result == 0 && lost && waiter->told ? -EIO : result);
	}
}

static void
member_flushed(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result != 0 && result != -ENOLINK && engine->flush->result == 0)
		engine->flush->result = result;
	if (--engine->flush->pending == 0)
		round_done(engine);
}

/* Has it something that a flush would make safe? One whose cache may be lost gets its flush
 * whatever it says of caches in the session that is being opened: it waits for what becomes of the
 * member.  So does one whose cache took something and was switched off since.
 */
static bool
needs_flush(const struct engine *engine, const struct member *member)
{
	if (!member->in_sync && (!member->evicting || MUTANT(FLUSH_NOT_EVICTING)) &&
	    member != engine->target)
		return false;
	if (MUTANT(CACHE_BY_NEW_SESSION))
		return member->identity.write_cache && (member->unflushed || member->cache_lost);
	return member->cache_lost || (member->unflushed && (member->identity.write_cache ||
							    !MUTANT(CACHE_OFF_FORGOTTEN)));
}

static void
begin_round(struct engine *engine)
{
	list_splice(&engine->flush->now, &engine->flush->next);
	engine->flush->result = 0;
	/* this function, so that the round can't end before it is sent */
	engine->flush->pending = 1;
	if (engine->geometry.redundancy > 0)
		marks_flush_begins(engine);
	for_each_member(engine, member) {
		struct member_io *mio;

		if (!needs_flush(engine, member) || MUTANT(FLUSH_SKIPPED))
			continue;
		if (MUTANT(FLUSH_COUNTED_UNSENT))
			member->unflushed = false;
		mio = member_io_create(member, BACKEND_FLUSH, 0, IO_REQUEST);
		engine->flush->pending++;
		member_io_submit(mio, member_flushed, engine);
	}
	if (--engine->flush->pending == 0)
		round_done(engine);
}

void
flush_run(struct engine *engine)
{
	record_loss(engine);
	if (engine->flush->pending == 0 && !list_empty(&engine->flush->next))
		begin_round(engine);
}

static void
take_overdue(struct engine *engine, struct list *waiters, struct list *into)
{
	for (struct list *node = waiters->next, *next; node != waiters; node = next) {
		next = node->next;
		if (!overdue_since(engine, list_entry(node, struct flush_waiter, node)->since_ms))
			continue;
		list_remove(node);
		list_append(into, node);
	}
}

/* The round goes on without them. */
void
flush_overdue(struct engine *engine)
{
	struct list late;
	struct list *node;

	list_init(&late);
	take_overdue(engine, &engine->flush->now, &late);
	take_overdue(engine, &engine->flush->next, &late);
	while ((node = list_take(&late)) != NULL) {
		struct flush_waiter *waiter = list_entry(node, struct flush_waiter, node);

		waiter->done(waiter, -ETIMEDOUT);
	}
}

void
flush_init(struct engine *engine)
{
	list_init(&engine->flush->next);
	list_init(&engine->flush->now);
}
