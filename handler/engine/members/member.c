/* member.c - the commands of one member, and its session.
 *
 * A command is sent when the member is connected and its superblock was checked; otherwise it is
 * parked.  Its fate is decided elsewhere: the member returns (member_resume sends it again; that is
 * safe, for a session is offered only after LOGICAL UNIT RESET, so the earlier sending can't land
 * late), or is evicted, or queue_limit ends its waiting.
 */
#include "engine/core/core.h"
#include "engine/link/row_cache.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define BACKOFF_MAX_MS 2000u
#define BACKOFF_OUT_MS 3000u	/* a member that is out is only looked at */
#define GRACE_RETRY_MS 50u	/* who is started anew listens any moment */
#define FIRST_SEGMENTS 32
/* For each member a superblock, a flush, two reads of who it is, a probe, two questions. */
#define RESERVED_COMMANDS (8 * SLOTS_MAX)

bool
member_usable(const struct member *member)
{
	return member->link == LINK_OPEN && member->checked && !member->condemned && !member->disputed;
}

void
member_note(struct member *member, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(member->reason, sizeof(member->reason), format, args);
	va_end(args);
}

/* --- building a command --- */

static bool
grow_segments(struct member_io *mio, int wanted)
{
	int capacity = mio->segment_capacity > 0 ? mio->segment_capacity : 1;
	struct iovec *grown;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity == mio->segment_capacity)
		return true;
	/* One block: the pristine array, then the working copy. */
	grown = realloc(mio->segments, 2 * (size_t)capacity * sizeof(*grown));
	if (grown == NULL)
		return false;
	mio->segments = grown;
	mio->working = grown + capacity;
	mio->segment_capacity = capacity;
	return true;
}

static struct member_io *
make_command(int segments)
{
	struct member_io *mio = calloc(1, sizeof(*mio));

	if (mio == NULL || !grow_segments(mio, segments)) {
		free(mio);
		return NULL;
	}
	list_init(&mio->node);
	return mio;
}

bool
member_reserve_commands(struct engine *engine)
{
	for (int i = 0; i < RESERVED_COMMANDS; i++) {
		struct member_io *mio = make_command(1);

		if (mio == NULL)
			return false;
		mio->reserved = true;
		list_append(&engine->reserved_mios, &mio->node);
	}
	return true;
}

void
member_io_free(struct member_io *mio)
{
	struct engine *engine = mio->member->engine;

	list_prepend(mio->reserved ? &engine->reserved_mios : &engine->free_mios, &mio->node);
}

static void
free_commands(struct list *commands)
{
	struct list *node;

	while ((node = list_take(commands)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		free(mio->segments);
		free(mio);
	}
}

void
member_free_commands(struct engine *engine)
{
	free_commands(&engine->free_mios);
	free_commands(&engine->reserved_mios);
}

static struct member_io *
describe(struct member_io *mio, struct member *member, enum backend_op op, uint64_t offset_bytes,
	 enum io_policy policy)
{
	mio->io = (struct backend_io){ .op = op, .offset_bytes = offset_bytes };
	mio->member = member;
	mio->segment_count = 0;
	mio->policy = policy;
	mio->since_ms = 0;
	mio->first_sent_ms = 0;
	mio->cuts = 0;
	mio->cut_off = false;
	mio->cached = false;
	mio->unjudged = false;
	mio->covers_data = false;
	mio->where = MIO_BUILT;
	return mio;
}

struct member_io *
member_io_try(struct member *member, enum backend_op op, uint64_t offset_bytes, enum io_policy policy)
{
	struct list *node = list_take(&member->engine->free_mios);
	struct member_io *mio = node != NULL ? list_entry(node, struct member_io, node)
					     : make_command(FIRST_SEGMENTS);

	return mio == NULL ? NULL : describe(mio, member, op, offset_bytes, policy);
}

struct member_io *
member_io_create(struct member *member, enum backend_op op, uint64_t offset_bytes,
		 enum io_policy policy)
{
	struct member_io *mio = member_io_try(member, op, offset_bytes, policy);
	struct list *node;

	if (mio != NULL)
		return mio;
	node = list_take(&member->engine->reserved_mios);
	assert(node != NULL);	/* there are more of them than such commands at a time */
	return describe(list_entry(node, struct member_io, node), member, op, offset_bytes, policy);
}

bool
member_io_append(struct member_io *mio, const struct iovec *iov, int count, uint32_t length_bytes)
{
	if (mio->segment_count + count > SEGMENTS_MAX)
		return false;
	if (!grow_segments(mio, mio->segment_count + count))
		return false;
	for (int i = 0; i < count; i++) {
		struct iovec *last = mio->segments + mio->segment_count - 1;

		if (mio->segment_count > 0 &&
		    (char *)last->iov_base + last->iov_len == (char *)iov[i].iov_base)
			last->iov_len += iov[i].iov_len;
		else
			mio->segments[mio->segment_count++] = iov[i];
	}
	mio->io.length_bytes += length_bytes;
	return true;
}

/* --- sending --- */

static void
io_answered(struct backend_io *io)
{
	struct member_io *mio = (struct member_io *)io;

	list_remove(&mio->node);
	mio->where = MIO_DONE;
	mio->member->in_flight_count--;
	list_append(&mio->member->engine->answered, &mio->node);
}

static void
send(struct member_io *mio)
{
	struct member *member = mio->member;

	memcpy(mio->working, mio->segments, (size_t)mio->segment_count * sizeof(*mio->segments));
	mio->io.iov = mio->working;
	mio->io.iov_count = mio->segment_count;
	mio->io.done = io_answered;
	mio->sent_at = ++member->engine->moment;
	mio->sent_ms = member->engine->now_ms;
	mio->sent_ns = member->engine->stamp_ns;
	mio->where = MIO_SENT;
	mio->covers_data = mio->io.op == BACKEND_FLUSH && member->unflushed_data;
	/* Not while it waits: the session may end before, and the cache with it.  Nor by one that no round waits for (grow.c):
	 * a round that began meanwhile would pass this member by. */
	if (mio->io.op == BACKEND_FLUSH && (mio->policy == IO_REQUEST || MUTANT(FLUSH_OF_ANOTHER)))
		member->unflushed = member->unflushed_data = false;
	list_append(&member->in_flight, &mio->node);
	member->in_flight_count++;
	evict_sent_again(mio);
	member->backend->ops->submit(member->backend, &mio->io);
}

/* What the device says of caches in its next session is about other writes. */
static void
note_unflushed(const struct member_io *mio)
{
	struct member *member = mio->member;

	member->unflushed |= member->identity.write_cache;
	member->unflushed_data |= member->identity.write_cache && (!mio->io.fua || MUTANT(LOST_RECORD_TOLD));
	member->cached |= member->identity.write_cache;
}

/* It failed as far as the engine knows, and may have been done, by a device that caches it, or did when its session cut it off. */
static void
note_unknown_write(const struct member_io *mio)
{
	if ((mio->io.op != BACKEND_WRITE && mio->io.op != BACKEND_ZERO) || MUTANT(UNKNOWN_UNFLUSHED))
		return;
	note_unflushed(mio);
	if (!mio->cached || MUTANT(CUT_OFF_BY_NEW_SESSION))
		return;
	mio->member->unflushed = mio->member->unflushed_data = true;
	mio->member->cached = true;
}

/* Writes before it are as unsure as before it was sent.  Its repetition on the next session succeeds, and covers nothing that a
 * lost cache has taken with it.
 */
static void
note_failed_flush(const struct member_io *mio, int result)
{
	if (mio->io.op != BACKEND_FLUSH || result == 0)
		return;
	if (result == -ENOTCONN ? MUTANT(FLUSH_FORGETS_RESEND) : MUTANT(FLUSH_FAILED_FORGOTTEN))
		return;
	mio->member->unflushed = true;
	mio->member->unflushed_data |= mio->covers_data || MUTANT(CUT_OFF_FLUSH_TOLD);
}

/* Later in this turn, or in the next, which has to come: nothing else need ever wake the engine again. */
void
member_io_unsent(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (mio->where == MIO_PARKED)
		note_unknown_write(mio);	/* an earlier session may have carried it out */
	mio->io.result = result;
	mio->where = MIO_DONE;
	list_append(&engine->immediate, &mio->node);
	if (!MUTANT(UNSENT_UNTOLD))
		engine->activity++;
}

/* Fenced off, this gateway opens no session any more, and evicts nobody: there is nothing to wait for. */
static void
park(struct member_io *mio)
{
	if (mio->member->engine->fenced && !MUTANT(PARKED_WHEN_FENCED)) {
		member_io_unsent(mio, -ESHUTDOWN);
		return;
	}
	mio->where = MIO_PARKED;
	list_append(&mio->member->parked, &mio->node);
}

void
member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result), void *owner)
{
	struct member *member = mio->member;

	mio->done = done;
	mio->owner = owner;
	row_cache_overwritten(member->engine, &mio->io);
	if (member->engine->fenced)
		member_io_unsent(mio, -ESHUTDOWN);
	else if (mio->policy == IO_PROBE ? member->link == LINK_OPEN : member_usable(member))
		send(mio);
	else if (mio->policy == IO_PROBE)
		member_io_unsent(mio, -ENOTCONN);
	else if (!member->in_sync && !member->evicting)
		member_io_unsent(mio, -ENOLINK);
	else if (member->evicting && mio->policy == IO_SUPERBLOCK)
		member_io_unsent(mio, -ENOLINK);
	else if (member->engine->expired && mio->policy == IO_REQUEST)
		member_io_unsent(mio, -ETIMEDOUT);
	else
		park(mio);
}

static void
abandoned(struct member_io *mio, int result)
{
	(void)mio;
	(void)result;
}

void
member_io_abandon(struct member_io *mio)
{
	struct member *member = mio->member;

	if (mio->where == MIO_PARKED) {
		list_remove(&mio->node);
		member_io_free(mio);
		return;
	}
	assert(mio->where == MIO_SENT && mio->io.op == BACKEND_READ);
	mio->done = abandoned;
	mio->owner = NULL;
	mio->policy = IO_PROBE;		/* its memory is another's: it must not be sent again */
	if (!MUTANT(DIVERT_SKIPPED))
		member->backend->ops->divert(member->backend, &mio->io);
}

static void
finish(struct member_io *mio, int result)
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
			note_unflushed(mio);
		break;
	case BACKEND_FLUSH:
	case BACKEND_MEASURE:
		break;
	}
}

/* It is on its way out, as soon as the superblocks say so: they don't wait for it, all else does. */
static void
await_eviction(struct member_io *mio)
{
	if (mio->policy == IO_SUPERBLOCK)
		finish(mio, -ENOLINK);
	else
		park(mio);
}

/* The member refused a write: it is no longer the same as the others.  Where the level can do without
 * it, it is dropped and the command waits for its eviction.
 */
static void
refused_write(struct member_io *mio, int result)
{
	struct member *member = mio->member;
	struct engine *engine = member->engine;

	note_unknown_write(mio);
	if (member == engine->target && !member->evicting) {
		member_note(member, "refused a write (%s)", strerror(-result));
		target_lost(engine, MEMBER_FAULTY);
		if (!member->evicting) {
			finish(mio, -ENOLINK);
			return;
		}
	}
	/* It is on its way out already, for another command that it refused, say: this one waits for that, too. */
	if (member->evicting && mio->policy != IO_PROBE) {
		await_eviction(mio);
		return;
	}
	if (!member->in_sync || mio->policy == IO_PROBE ||
	    (!member->condemned && !evict_bearable(engine, member))) {
		finish(mio, !member->in_sync && !member->evicting ? -ENOLINK : -EIO);
		return;
	}
	if (!member->condemned) {
		member_note(member, "refused a write (%s)", strerror(-result));
		engine_log(engine, LOG_ERR, "member %s refused a write at byte %llu: %s",
			   member->backend->label, (unsigned long long)mio->io.offset_bytes,
			   strerror(-result));
		evict_exclude(member);
	}
	park(mio);
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
	for_each_member(engine, other)
		member_fail_parked(other, -ESHUTDOWN, false);
	intent_io_tell(engine, -ESHUTDOWN);	/* their marks are not written any more */
}

/* Its place was given to another while this was under way: whoever waits for it can't say any more which chunk it is about. */
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
	if (result != -ENOTCONN) {
		figures_answered(mio);
		evict_answered(mio);
	} else {
		evict_cut_off(mio);
	}
	note_failed_flush(mio, result);
	if (result != -ENOTCONN && is_nobodys(mio)) {
		finish(mio, -ENOLINK);	/* tried again, without it */
		return;
	}
	if (result == -EACCES && mio->policy == IO_REQUEST && MUTANT(CONFLICT_DENIED))
		result = 0;
	if (result == 0) {
		if (mio->sent_at > member->answered_at)
			member->answered_at = mio->sent_at;
		account(mio);
		finish(mio, 0);
		return;
	}
	if (result == -ENOTCONN) {
		mio->cached |= member->identity.write_cache;
		/* Now, not when the session's end is reported: what it missed counts from here. */
		if (member == member->engine->target)
			target_lost(member->engine, MEMBER_REBUILDING);
		if (mio->policy == IO_PROBE || mio->done == abandoned)
			finish(mio, -ENOTCONN);
		else if (member->engine->fenced)
			finish(mio, -ESHUTDOWN);
		else if (!member->in_sync && !member->evicting)
			finish(mio, -ENOLINK);
		else if (member->evicting)
			await_eviction(mio);
		else
			park(mio);
		return;
	}
	if (result == -EACCES && (member == member->engine->target || (!member->in_sync && !member->evicting))) {
		/* A spare, or one that is out: somebody else has it, which does not concern the volume. */
		if (member == member->engine->target && !member->evicting) {
			member_note(member, "is reserved by another gateway");
			target_lost(member->engine, MEMBER_FAULTY);
		}
		if (member->evicting && mio->policy != IO_PROBE)
			await_eviction(mio);
		else
			finish(mio, mio->policy == IO_PROBE ? -ENOTCONN : -ENOLINK);
		return;
	}
	if (result == -EACCES) {
		/* One on its way out says nothing that its eviction would not: those that record it are asked by that. */
		if (member->in_sync)
			dispute_begin(member);
		if (mio->policy == IO_PROBE)
			finish(mio, -ENOTCONN);
		else if (member->engine->fenced)
			finish(mio, -ESHUTDOWN);
		else if (member->evicting && mio->policy == IO_SUPERBLOCK)
			finish(mio, -ENOLINK);
		else
			park(mio);
		return;
	}
	member->errors++;
	member->answered_at = mio->sent_at > member->answered_at ? mio->sent_at : member->answered_at;
	if (mio->io.op == BACKEND_READ) {
		member->medium_errors += result == -ENODATA;
		member->latency_us = (uint32_t)(member->latency_us * 7ull / 8);
		finish(mio, result == -ENODATA ? -ENODATA : -EIO);
		return;
	}
	refused_write(mio, result);
}

void
member_fail_parked(struct member *member, int result, bool requests_only)
{
	struct list kept;
	struct list *node;

	list_init(&kept);
	while ((node = list_take(&member->parked)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		if (requests_only && mio->policy != IO_REQUEST)
			list_append(&kept, node);
		else
			member_io_unsent(mio, result);
	}
	list_splice(&member->parked, &kept);
}

void
member_fail_overdue(struct member *member)
{
	for (struct list *node = member->parked.next, *next; node != &member->parked; node = next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		next = node->next;
		if (!overdue_since(member->engine, mio->since_ms))
			continue;
		list_remove(node);
		member_io_unsent(mio, -ETIMEDOUT);
	}
}

void
member_resume(struct member *member, bool superblocks_only)
{
	struct list waiting;
	struct list *node;

	list_init(&waiting);
	list_splice(&waiting, &member->parked);
	while ((node = list_take(&waiting)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		if (superblocks_only && mio->policy != IO_SUPERBLOCK)
			list_append(&member->parked, node);
		else
			send(mio);
	}
}

/* --- the session --- */

/* What was written since its last flush may be gone; without flushes, because it said that it has no cache, anything.  By
 * the session that ended: the next one may say something else of caches.
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
	member->reserved |= member->link == LINK_OPEN && !(MUTANT(CLOSED_RESERVED) && !member->condemned);
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

static const struct backend_events member_events = {
	.opened = session_opened,
	.closed = session_closed,
};

void
member_open(struct member *member)
{
	assert(member->link == LINK_CLOSED);
	member->link = LINK_OPENING;
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
	if (member->opens_left > 0) {
		member->opens_left--;
		member->retry_ms = engine->now_ms;	/* the other path, at once */
		return;
	}
	if (evict_in_grace(member)) {
		member->retry_ms = engine->now_ms + (session_ended ? 0 : GRACE_RETRY_MS);
		return;
	}
	member->retry_ms = engine->now_ms + member->backoff_ms;
	member->backoff_ms = member->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
								     : member->backoff_ms * 2;
}

/* Met by the session's keep-alive, or by a log-in: somebody took it while we had none, or stood still. */
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

	return engine->phase == PHASE_RUNNING && member->role >= 0 && (engine->missing & ROLE(member->role)) &&
	       !member->excluded && geometry_can_split(&engine->geometry) &&
	       geometry_bears(&engine->geometry, geometry_lowest(engine->geometry.members) & ~engine->out);
}

/* Nothing was done yet without one that is on its way out: if halves can live, the others are asked first. */
static void
heard_of_another(struct member *member)
{
	if (member->evicting && !member->leaving && geometry_can_split(&member->engine->geometry))
		evict_cancel(member);
	if (member->in_sync)
		dispute_begin(member);
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
	if ((member->presence == PRESENCE_EXAMINED && member->engine->phase < PHASE_WRITE_SUPERBLOCKS) ||
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
	if (member_may_open(member) && engine->now_ms >= member->retry_ms)
		member_open(member);
}
