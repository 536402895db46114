/* evict.c - members that fall silent: wait, evict, or suspend (DESIGN rule 5).
 *
 *	all members answer
 *	   |  a session ends
 *	   v
 *	silent <= what the level bears ----------> each other member has answered a command that was
 *	   |            ^                          sent after the silence began? then evict; else probe it
 *	   v            |  some return: the rest
 *	silent >  what the level bears             has give_up_ms to follow
 *	SUSPENDED: nobody is evicted, commands are parked; after queue_limit requests fail,
 *	and go on failing at once, until enough members are back
 *
 * An eviction is: superblocks of the survivors say so (durably), only then the commands that wait
 * for the member complete with -ENOLINK and operations go on without it.
 */
#include "engine_internal.h"

#include <errno.h>
#include <syslog.h>

static bool
is_silent(const struct member *member)
{
	return member->in_sync && !member_usable(member);
}

void
evict_member_silent(struct member *member)
{
	struct engine *engine = member->engine;

	member->silent_since_ms = engine->now_ms;
	member->silent_since = ++engine->moment;
	if (member->unflushed && member->identity.write_cache && !member->cache_lost) {
		member->cache_lost = true;
		member->cache_in_doubt = true;
	}
	engine->hedge_silent = true;	/* reads that wait for it need not */
	engine_event(engine, EVENT_MEMBER_SILENT, LOG_WARNING, member, "member %s: session lost: %s",
		     member->backend->label, member->reason);
}

bool
evict_bearable(const struct engine *engine)
{
	return engine->out + 1 <= engine->tolerated && !engine->suspended;
}

bool
evict_spares(const struct engine *engine, const struct member *member)
{
	for (int i = 0; i < engine->slots; i++) {
		const struct member *other = &engine->members[i];

		if (other != member && other->backend != NULL && other->in_sync &&
		    (!member_usable(other) || other->cache_lost))
			return false;
	}
	return engine->out + 1 <= engine->tolerated;
}

/* Its place in the volume is lost for good, not only until it answers again. */
void
evict_exclude(struct member *member)
{
	member->condemned = true;
	member->excluded = true;
	member->engine->activity++;
	if (member->link == LINK_OPEN)
		member->backend->ops->close(member->backend);
}

/* It may still be reached another way: not evicted before that was tried, for give_up_ms at most. */
static bool
has_other_path(const struct member *member)
{
	const struct engine *engine = member->engine;

	if (member->condemned || member->backend->paths < 2 ||
	    engine->now_ms - member->silent_since_ms >= engine->options.give_up_ms)
		return false;
	return member->opens_left > 0 || member->link != LINK_CLOSED;
}

static int
count_silent(const struct engine *engine)
{
	int silent = 0;

	for (int i = 0; i < engine->slots; i++)
		silent += engine->members[i].backend != NULL && is_silent(&engine->members[i]);
	return silent;
}

static void
probe_answered(struct member_io *mio, int result)
{
	mio->member->probing = false;
}

/* Ask a member for a sign of life: any command will do, and a read changes nothing. */
static void
probe(struct member *member)
{
	struct iovec page = { member->page + 3 * LAYOUT_SUPERBLOCK_BYTES, LAYOUT_SUPERBLOCK_BYTES };
	struct member_io *mio;

	if (member->probing)
		return;
	member->probing = true;
	mio = member_io_create(member, BACKEND_READ, LAYOUT_SUPERBLOCK_A_OFFSET, IO_PROBE);
	member_io_append(mio, &page, 1, LAYOUT_SUPERBLOCK_BYTES);
	member_io_submit(mio, probe_answered, member);
}

/* Has every other member answered something that was sent after this one fell silent? */
static bool
others_answered(struct engine *engine, const struct member *silent)
{
	bool all = true;

	for_each_member(engine, other) {
		if (other == silent || !other->in_sync || other->answered_at > silent->silent_since)
			continue;
		all = false;
		if (member_usable(other))
			probe(other);
	}
	return all;
}

static void
begin_eviction(struct member *member)
{
	struct engine *engine = member->engine;

	member->in_sync = false;
	member->evicting = true;
	engine->record.member_states[member->role] = MEMBER_FAULTY;
	member->stale_set = place_track(engine, member->role, member->uuid,
					member->excluded ? MEMBER_FAULTY : MEMBER_OUT_OF_DATE);
	member->standing = member->stale_set >= 0 ? STANDING_OUT_OF_DATE : STANDING_OBSOLETE;
	engine->out++;
	engine->evicting++;
	member->evict_record = metadata_commit(engine);
	/* The superblocks that record its eviction must not wait for it. */
	for (struct list *node = member->parked.next, *next; node != &member->parked; node = next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		next = node->next;
		if (mio->policy != IO_SUPERBLOCK)
			continue;
		list_remove(node);
		mio->io.result = -ENOLINK;
		mio->where = MIO_DONE;
		list_append(&engine->immediate, node);
	}
	engine_event(engine, EVENT_MEMBER_EVICTED, LOG_ERR, member,
		     "member %s (role %d) is evicted: %s", member->backend->label, member->role,
		     member->reason);
}

/* It is back before its eviction was durable, so nothing was acknowledged without it: it never left.  That matters when
 * others fell silent meanwhile, for then it may be needed.
 */
void
evict_cancel(struct member *member)
{
	struct engine *engine = member->engine;

	member->in_sync = true;
	member->evicting = false;
	member->standing = STANDING_IN_SYNC;
	engine->record.member_states[member->role] = MEMBER_IN_SYNC;
	place_untrack(engine, member->stale_set);
	member->stale_set = -1;
	engine->out--;
	engine->evicting--;
	metadata_commit(engine);
}

static void
finish_eviction(struct member *member)
{
	struct engine *engine = member->engine;

	engine->activity++;
	member->evicting = false;
	member->condemned = false;
	member->cache_lost = false;
	member->retry_ms = engine->now_ms + member->backoff_ms;
	engine->evicting--;
	engine->missing = member->role;
	engine->missing_since_ms = engine->now_ms;
	engine->missing_held = true;
	engine->missing_doubts = engine->intent.doubts;
	engine->spare_wanted_ms = 0;
	engine->by_role[member->role] = NULL;
	if (member->stale_set >= 0)
		engine->intent.absent |= REGION_STALE(member->stale_set);
	if (engine->target != NULL && engine->target->role == member->role)
		intent_target_doubted(&engine->intent);
	if (engine->geometry.parities > 0)
		intent_member_lost(&engine->intent);
	member_fail_parked(member, -ENOLINK, false);
}

static void
expire(struct engine *engine)
{
	engine->expired = true;
	engine_log(engine, LOG_ERR, "members stayed silent for %u ms: requests fail until they return",
		   engine->options.queue_limit_ms);
	for_each_member(engine, member)
		member_fail_parked(member, -ETIMEDOUT, true);
	intent_io_expire(engine);
}

static void
suspend(struct engine *engine, int silent)
{
	if (!engine->suspended) {
		engine->suspended = true;
		engine->activity++;
		engine->suspended_since_ms = engine->now_ms;
		engine_event(engine, EVENT_SUSPENDED, LOG_ERR, NULL,
			     "%d of %d members are silent, level %u bears %d: I/O waits",
			     silent + engine->out, engine->geometry.members, engine->geometry.level,
			     engine->tolerated);
	}
	engine->evict_not_before_ms = engine->now_ms + engine->options.give_up_ms;
	/* Who was sent away although it answers, for what its cache may have lost, is needed now. */
	for_each_member(engine, member)
		if (member->in_sync && member->condemned && !member->excluded)
			member->condemned = false;
	if (!engine->expired && engine->now_ms - engine->suspended_since_ms >=
				    engine->options.queue_limit_ms)
		expire(engine);
}

static void
resume(struct engine *engine)
{
	if (!engine->suspended)
		return;
	engine->activity++;
	engine->suspended = false;
	engine->expired = false;
	engine_event(engine, EVENT_RESUMED, LOG_NOTICE, NULL, "enough members are back: I/O goes on");
}

void
evict_run(struct engine *engine)
{
	int silent;

	/* Fenced off, no eviction could be recorded, and nobody may be probed. */
	if (engine->phase < PHASE_WRITE_SUPERBLOCKS || engine->phase > PHASE_LAST_SUPERBLOCKS ||
	    engine->fenced)
		return;
	for_each_member(engine, member) {
		if (!member->evicting || (engine->record_durable < member->evict_record &&
					  !MUTANT(EVICT_UNRECORDED)))
			continue;
		if (member->leaving)
			target_dismissed(member);
		else
			finish_eviction(member);
	}
	silent = count_silent(engine);
	if (engine->out + silent > engine->tolerated && silent > 0 && !MUTANT(EVICT_TOO_MANY)) {
		suspend(engine, silent);
		return;
	}
	resume(engine);
	if (silent == 0 || engine->now_ms < engine->evict_not_before_ms)
		return;
	for_each_member(engine, member) {
		if (is_silent(member) && !has_other_path(member) && others_answered(engine, member))
			begin_eviction(member);
	}
}

uint64_t
evict_deadline(const struct engine *engine)
{
	uint64_t deadline = UINT64_MAX;

	if (engine->fenced)
		return deadline;
	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend == NULL)
			continue;
		if (is_silent(member) && has_other_path(member) &&
		    member->silent_since_ms + engine->options.give_up_ms < deadline)
			deadline = member->silent_since_ms + engine->options.give_up_ms;
		if (member->link == LINK_CLOSED && !member->condemned && !member->leaving &&
		    engine->phase >= PHASE_EXAMINE && engine->phase <= PHASE_RUNNING &&
		    member->retry_ms < deadline)
			deadline = member->retry_ms;
	}
	if (engine->suspended && !engine->expired &&
	    engine->suspended_since_ms + engine->options.queue_limit_ms < deadline)
		deadline = engine->suspended_since_ms + engine->options.queue_limit_ms;
	if (!engine->suspended && engine->evict_not_before_ms > engine->now_ms &&
	    engine->evict_not_before_ms < deadline)
		deadline = engine->evict_not_before_ms;
	return deadline;
}
