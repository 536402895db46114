/* member.c - what comes of a member's answers, and its session. */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define BACKOFF_MAX_MS 2000u
#define BACKOFF_OUT_MS 3000u /* a member that is out is only looked at */
#define GRACE_RETRY_MS 50u   /* who is started anew listens any moment */

/* --- answers --- */

static void
finish_io(struct member_io *mio, int result)
{
	mio->done(mio, result);
	member_io_free(mio);
}

static void
account(struct member_io *mio)
{
	struct member *member = mio->member;
	uint64_t took_us = (member->engine->now_ms - mio->sent_ms) * 1000;

	switch (mio->io.op) {
	case BACKEND_READ:
		member->reads++;
		member->read_bytes += mio->io.length_bytes;
		if (!mio->unjudged)
			member->latency_us = (uint32_t)((member->latency_us * 7ull + took_us) / 8);
		break;
	case BACKEND_WRITE:
	case BACKEND_ZERO:
		member->writes++;
		member->written_bytes += mio->io.length_bytes;
		/* Not when it is sent: a flush that overtakes it would seem to cover it. */
		if (!dispute_is_question(mio) || MUTANT(QUESTION_UNFLUSHED))
			member_io_note_unflushed(mio);
		break;
	case BACKEND_FLUSH:
	case BACKEND_MEASURE:
		break;
	}
}

/* It is on its way out, as soon as the superblocks say so: they don't wait for it, all else does.
 */
static void
await_eviction(struct member_io *mio)
{
	if (mio->policy == IO_SUPERBLOCK)
		finish_io(mio, -ENOLINK);
	else
		member_io_park(mio);
}

/* The member refused a write: it is no longer the same as the others.  Where the level can do
 * without it, it is dropped and the command waits for its eviction.
 */
static void
refused_write(struct member_io *mio, int result)
{
	struct member *member = mio->member;
	struct engine *engine = member->engine;

	member_io_note_unknown_write(mio);
	if (member == engine->target && !member->evicting) {
		member_note(member, "refused a write (%s)", strerror(-result));
		target_lost(engine, MEMBER_FAULTY);
		if (!member->evicting) {
			finish_io(mio, -ENOLINK);
			return;
		}
	}
	/* It is on its way out already, for another command that it refused, say: this one waits
	 * for that, too.
	 */
	if (member->evicting && mio->policy != IO_PROBE) {
		await_eviction(mio);
		return;
	}
	if (!member->in_sync || mio->policy == IO_PROBE || mio->policy == IO_LOG ||
	    (!member->condemned && !evict_bearable(engine, member))) {
		finish_io(mio, !member->in_sync && !member->evicting ? -ENOLINK : -EIO);
		return;
	}
	if (!member->condemned) {
		member_note(member, "refused a write (%s)", strerror(-result));
		engine_log(engine, LOG_ERR, "member %s refused a write at byte %llu: %s",
			   member->backend->label, (unsigned long long)mio->io.offset_bytes,
			   strerror(-result));
		evict_exclude(member);
	}
	member_io_park(mio);
}

void
member_fence_off(struct member *member)
{
	struct engine *engine = member->engine;

	if (engine->fenced)
		return;
	engine->fenced = true;
	snprintf(engine->reason, sizeof(engine->reason),
		 "member %s is reserved by another gateway: this one has stopped writing",
		 member->backend->label);
	engine_event(engine, EVENT_FENCED, LOG_CRIT, member, "%s", engine->reason);
	engine->places->predecessor_key = 0;
	for_each_member(engine, other) {
		other->backend->predecessor_key = 0;
		member_fail_parked(other, -ESHUTDOWN, false);
	}
	marks_tell(engine, -ESHUTDOWN); /* their marks are not written any more */
}

/* Its place was given to another while this was under way: whoever waits for it can't say any more
 * which chunk it is about.
 */
static bool
is_nobodys(const struct member_io *mio)
{
	return mio->member->role < 0 && mio->policy == IO_REQUEST && !MUTANT(FORMER_HEARD);
}

void
member_handle_answer(struct member_io *mio)
{
	struct member *member = mio->member;
	int result = mio->io.result;

	list_init(&mio->node);
	if (result == -ECANCELED && !MUTANT(UNANSWERED_HEARD)) {
		finish_io(mio, result);
		return;
	}
	if (result == -ECANCELED)
		result = 0;
	if (result != -ENOTCONN) {
		figures_answered(member, &mio->io, mio->sent_ns);
		evict_answered(mio);
		lease_answered(mio, result);
	} else {
		evict_cut_off(mio);
	}
	member_io_note_failed_flush(mio, result);
	if (result != -ENOTCONN && is_nobodys(mio)) {
		finish_io(mio, -ENOLINK); /* tried again, without it */
		return;
	}
	if (result == -EACCES && mio->policy == IO_REQUEST && MUTANT(CONFLICT_DENIED))
		result = 0;
	if (result == 0) {
		if (mio->sent_at > member->answered_at)
			member->answered_at = mio->sent_at;
		account(mio);
		finish_io(mio, 0);
		return;
	}
	if (result == -ENOTCONN) {
		mio->cached |= member->identity.write_cache;
		/* Now, not when the session's end is reported: what it missed counts from here. */
		if (member == member->engine->target)
			target_lost(member->engine, MEMBER_REBUILDING);
		if (mio->policy == IO_PROBE || member_io_abandoned(mio))
			finish_io(mio, -ENOTCONN);
		else if (member->engine->fenced)
			finish_io(mio, -ESHUTDOWN);
		else if (!member->in_sync && !member->evicting)
			finish_io(mio, -ENOLINK);
		else if (member->evicting)
			await_eviction(mio);
		else
			member_io_park(mio);
		return;
	}
	if (result == -EACCES &&
	    (member == member->engine->target || (!member->in_sync && !member->evicting))) {
		/* A spare, or one that is out: somebody else has it, which does not concern the
		 * volume.
		 */
		if (member == member->engine->target && !member->evicting) {
			member_note(member, "is reserved by another gateway");
			target_lost(member->engine, MEMBER_FAULTY);
		}
		if (member->evicting && mio->policy != IO_PROBE)
			await_eviction(mio);
		else
			finish_io(mio, mio->policy == IO_PROBE ? -ENOTCONN : -ENOLINK);
		return;
	}
	if (result == -EACCES) {
		/* One on its way out says nothing that its eviction would not: those that record it
		 * are asked by that.
		 */
		if (member->in_sync)
			dispute_begin(member);
		else if (member->leaving)
			target_contested(member);
		if (mio->policy == IO_PROBE)
			finish_io(mio, -ENOTCONN);
		else if (member->engine->fenced)
			finish_io(mio, -ESHUTDOWN);
		else if (member->evicting && mio->policy == IO_SUPERBLOCK)
			finish_io(mio, -ENOLINK);
		else
			member_io_park(mio);
		return;
	}
	member->errors++;
	member->answered_at =
		mio->sent_at > member->answered_at ? mio->sent_at : member->answered_at;
	if (mio->io.op == BACKEND_READ) {
		member->medium_errors += result == -ENODATA;
		member->latency_us = (uint32_t)(member->latency_us * 7ull / 8);
		finish_io(mio, result == -ENODATA ? -ENODATA : -EIO);
		return;
	}
	refused_write(mio, result);
}

/* --- the session --- */

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

/* What was written since its last flush may be gone; without flushes, because it said that it has
 * no cache, anything.  By the session that ended: the next one may say something else of caches.
 */
static void
note_lost_writes(struct member *member)
{
	if (member->lost_seen == member->backend->writes_lost || MUTANT(BROKEN_WORD_IGNORED))
		return;
	member->lost_seen = member->backend->writes_lost;
	member->lost_event = true;
	if (member->identity.write_cache || MUTANT(BROKEN_WORD_BOUNDED))
		return;
	member->doubted = true;
	member->flushes_void = true;
}

void
member_close(struct member *member)
{
	member->reserved |=
		member->link == LINK_OPEN && !(MUTANT(CLOSED_RESERVED) && !member->condemned);
	if (member->link != LINK_CLOSED)
		member->backend->ops->close(member->backend);
}

static void
session_opened(void *owner, const struct backend_identity *identity)
{
	struct member *member = owner;

	note_lost_writes(member);
	member->identity = *identity;
	member->cache_kept &= identity->cache_kept;
	member->opened_event = true;
}

static void
session_closed(void *owner, int error, const char *reason)
{
	struct member *member = owner;

	note_lost_writes(member);
	member->closed_event = true;
	member->opened_event = false;
	member->close_error = error;
	if (!member->condemned && error != -ECANCELED)
		snprintf(member->reason, sizeof(member->reason), "%s", reason);
}

/* From whom this gateway has taken the volume, that may have taken it back, while this one stood
 * still, say, and has whom this one did not reach.  So the others are asked first.
 */
static bool
is_ours(void *owner)
{
	const struct member *member = owner;
	struct engine *engine = member->engine;
	const uint64_t now_ns = engine_clock_ns(engine);

	return !engine->fenced &&
	       (engine->phase < PHASE_RUNNING || now_ns == 0 || MUTANT(PREDECESSOR_UNASKED) ||
		lease_holds(engine, UINT64_MAX, now_ns, lease_needed(engine)));
}

static bool
may_be_predecessors(const struct member *member)
{
	const struct engine *engine = member->engine;

	return engine->phase == PHASE_RUNNING && !member->in_sync &&
	       engine->places->predecessor_key != 0;
}

static const struct backend_events member_events = {
	.opened = session_opened,
	.closed = session_closed,
	.is_ours = is_ours,
};

void
member_open(struct member *member)
{
	assert(member->link == LINK_CLOSED);
	member->link = LINK_OPENING;
	member->backend->predecessor_key = member->engine->places->predecessor_key;
	member->backend->waits_to_take = member->engine->places->waits_to_take;
	member->backend->events = &member_events;
	member->backend->events_owner = member;
	member->backend->ops->open(member->backend);
}

/* session_ended: else no session came of an opening. */
static void
plan_retry(struct member *member, bool session_ended)
{
	struct engine *engine = member->engine;

	if (engine->phase == PHASE_RUNNING && !member->in_sync && !member->evicting) {
		member->retry_ms = engine->now_ms + BACKOFF_OUT_MS;
		return;
	}
	if (member->anothers && !MUTANT(TAKEN_EACH_MOMENT)) {
		member->retry_ms = engine->now_ms + BACKOFF_MAX_MS;
		return;
	}
	if (member->opens_left > 0) {
		member->opens_left--;
		member->retry_ms = engine->now_ms; /* the other path, at once */
		return;
	}
	if (evict_in_grace(member)) {
		member->retry_ms = engine->now_ms + (session_ended ? 0 : GRACE_RETRY_MS);
		return;
	}
	member->retry_ms = engine->now_ms + member->backoff_ms;
	member->backoff_ms =
		member->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : member->backoff_ms * 2;
}

/* Met by the session's keep-alive, or by a log-in: somebody took it while we had none, or stood
 * still.
 */
static bool
another_has_it(const struct member *member, bool was_usable)
{
	return (was_usable && member->close_error == -EACCES) ||
	       (member->close_error == -EBUSY && !MUTANT(LOGIN_CONFLICT_UNHEARD));
}

/* Could a gateway that has this one start without those we have?  They would not tell. */
static bool
may_live_elsewhere(const struct member *member)
{
	const struct engine *engine = member->engine;

	return engine->phase == PHASE_RUNNING && member->role >= 0 &&
	       (engine->missing & ROLE(member->role)) && !member->excluded &&
	       geometry_can_split(&engine->geometry) &&
	       geometry_bears(&engine->geometry,
			      geometry_lowest(engine->geometry.members) & ~engine->out);
}

/* Nothing was done yet without one that is on its way out: if halves can live, the others are asked
 * first.
 */
static void
heard_of_another(struct member *member)
{
	if (member->evicting && !member->leaving && geometry_can_split(&member->engine->geometry))
		evict_cancel(member);
	if (member->in_sync)
		dispute_begin(member);
	else if (member->leaving)
		target_contested(member);
	else if (may_live_elsewhere(member) && !MUTANT(OUT_CONFLICT_UNHEARD))
		member_fence_off(member);
}

static void
handle_closed(struct member *member)
{
	bool was_usable = member->link == LINK_OPEN;
	bool was_checked = member->checked;
	bool is_target = member == member->engine->target;

	member->closed_event = false;
	member->link = LINK_CLOSED;
	member->checked = false;
	member->examine_again_ms = 0;
	if (member->untold > 0) /* another may answer there next */
		member->untold = MUTANT(TOLD_WHOEVER_ANSWERS) ? member->untold : -1;
	if ((member->presence == PRESENCE_EXAMINED &&
	     member->engine->phase < PHASE_WRITE_SUPERBLOCKS) ||
	    member->presence == PRESENCE_SPARE) {
		member->said = member->presence == PRESENCE_EXAMINED;
		member->presence = PRESENCE_AWAITED;
	}
	/* One that is held may take no write in the next session either. */
	if (was_usable && member->recognised && !member->held_known) {
		member->backoff_ms = BACKOFF_FIRST_MS;
		member->opens_left = member->backend->paths > 1 ? member->backend->paths - 1 : 0;
	}
	member->looks_failed += !member->recognised && member->looks_failed < INT_MAX;
	member->recognised = false;
	if (is_target)
		target_lost(member->engine, MEMBER_REBUILDING);
	/* One that takes sessions and ends them at once has no more time for that. */
	if (was_checked || MUTANT(GRACE_RENEWED))
		evict_session_ended(member);
	if (was_usable && member->in_sync && member->engine->phase < PHASE_RELEASE)
		evict_member_silent(member);
	if (was_checked && member->engine->phase < PHASE_RELEASE)
		evict_stalled(member);
	plan_retry(member, was_usable);
	if (!is_target && another_has_it(member, was_usable))
		heard_of_another(member);
}

/* A reservation that is still there does not speak against it.  For one that is out see place.c. */
static void
handle_lost_writes(struct member *member)
{
	member->lost_event = false;
	/* by the flush of a start, also one that began again */
	member->left_lost |= member->engine->phase <= PHASE_LOAD_MAP &&
			     member->engine->geometry.members > 0 && !MUTANT(LEFT_LOST_IN_START);
	if (!member->in_sync && !member->evicting)
		return;
	member->cache_lost = member->data_lost = true;
	member->cache_in_doubt = false;
}

bool
member_may_open(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->link == LINK_CLOSED && !engine->fenced && engine->phase >= PHASE_EXAMINE &&
	       engine->phase <= PHASE_RUNNING && !member->condemned && !member->leaving &&
	       (!member->disputed || member->held);
}

bool
member_wants_proof(const struct member *member)
{
	return may_be_predecessors(member) &&
	       (member->link == LINK_OPENING || member_may_open(member));
}

/* A log-in may last longer than what others have said holds. */
static bool
is_proof_wanted(struct member *member)
{
	return member_wants_proof(member) && (member->link == LINK_OPENING || !is_ours(member));
}

static void
ask_for_proof(struct member *member)
{
	struct engine *engine = member->engine;

	lease_ask(engine, UINT64_MAX, lease_needed(engine));
	member->retry_ms = engine->now_ms + LEASE_MS / 4;
}

void
member_handle_events(struct member *member)
{
	struct engine *engine = member->engine;

	if (member->lost_event)
		handle_lost_writes(member);
	if (member->opened_event) {
		member->opened_event = false;
		member->link = LINK_OPEN;
		member->reserved = false;
		if (member->leaving && !member->evicting)
			member->backend->ops->release(member->backend);
		else
			place_examine(member);
	}
	if (member->closed_event)
		handle_closed(member);
	/* A condemned member stays closed until its eviction is durable. */
	if (engine->now_ms < member->retry_ms)
		return;
	if (is_proof_wanted(member))
		ask_for_proof(member);
	else if (member_may_open(member))
		member_open(member);
}
