/* evict.c - members that fall silent: wait, evict, or suspend (DESIGN rule 5).
 *
 *	all members answer
 *	   |  a session ends
 *	   v
 *	silent <= what the level bears ----------> each other member has answered a command that was
 *	   |            ^                          sent after the silence began? then evict; else probe it
 *	   v            |  some return: the rest
 *	silent >  what the level bears             has give_up_ms to follow
 *	SUSPENDED: nobody is evicted, commands are parked, no row with parity is begun; after queue_limit requests fail,
 *	and go on failing at once, until enough members are back
 *
 * A member that is back each time and gets on with nothing does not wait for that: it stays away
 * until the others have answered (evict_stalled).  So does one that gets on with all but one
 * command, session after session (lose_patience).
 *
 * An eviction is: superblocks of the survivors say so (durably), only then the commands that wait
 * for the member complete with -ENOLINK and operations go on without it.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <syslog.h>

static bool
is_silent(const struct member *member)
{
	return member->in_sync && !member_usable(member);
}

/* A session that hung has used up its time; one that we closed has another reason. */
static bool
was_ended(const struct member *member)
{
	return member->close_error != -ETIMEDOUT && member->close_error != -ECANCELED &&
	       member->close_error != -EACCES;
}

/* Its session was ended a moment ago: whoever did that may take the next one. */
static bool
has_grace(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->ended && !member->condemned &&
	       engine->now_ms - member->ended_ms < engine->options.grace_ms &&
	       !MUTANT(GRACE_IGNORED);
}

void
evict_session_ended(struct member *member)
{
	member->ended = was_ended(member);
	member->ended_ms = member->engine->now_ms;
}

/* --- a member that takes sessions, and answers none of what matters --- */

static bool
is_for_data(const struct member_io *mio)
{
	return mio->io.op != BACKEND_FLUSH && mio->io.op != BACKEND_MEASURE &&
	       mio->io.offset_bytes >= mio->member->engine->data_offset_bytes;
}

void
evict_answered(const struct member_io *mio)
{
	struct member *member = mio->member;

	if (!is_for_data(mio))
		return;
	member->mute_since_ms = 0;
	member->mute_sessions = 0;
	member->cut_off_ms = 0;
}

void
evict_cut_off(struct member_io *mio)
{
	struct member *member = mio->member;

	mio->cut_off = true;
	if (mio->first_sent_ms == 0)
		mio->first_sent_ms = mio->sent_ms;
	if (is_for_data(mio) && (member->cut_off_ms == 0 || mio->sent_ms < member->cut_off_ms))
		member->cut_off_ms = mio->sent_ms;
}

/* In two sessions at least, for longer than silence would have been borne; other paths have time as
 * in has_other_path().
 */
static bool
is_enough(const struct member *member, uint32_t sessions, uint64_t since_ms)
{
	const struct engine_options *options = &member->engine->options;
	const uint64_t waited_ms = member->engine->now_ms - since_ms;

	return sessions >= 2 && waited_ms >= (uint64_t)options->give_up_ms + options->grace_ms &&
	       ((int)sessions >= member->backend->paths || waited_ms >= 2ull * options->give_up_ms);
}

/* One command that no session got an answer to, whatever else was answered. */
static bool
has_stuck_command(struct member *member, bool counts)
{
	bool stuck = false;

	for (struct list *node = member->parked.next; node != &member->parked; node = node->next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		if (!mio->cut_off)
			continue;
		mio->cut_off = false;
		mio->cuts += counts && mio->cuts < UINT8_MAX;
		stuck |= is_enough(member, mio->cuts, mio->first_sent_ms);
	}
	return stuck;
}

/* Reads that were diverted are not sent again, so they are counted together. */
static bool
is_mute(struct member *member, bool counts)
{
	if (counts && member->cut_off_ms != 0) {
		if (member->mute_sessions++ == 0)
			member->mute_since_ms = member->cut_off_ms;
	}
	member->cut_off_ms = 0;
	return is_enough(member, member->mute_sessions, member->mute_since_ms);
}

/* Each time it would be back, by a log-in and its superblock, before the others had said that they
 * can do without it: progress is progress of commands.
 */
void
evict_stalled(struct member *member)
{
	const bool counts = member->close_error != -ECANCELED && member->close_error != -EACCES;
	const bool stuck = has_stuck_command(member, counts), mute = is_mute(member, counts);

	member->patience_ms = 0;
	if ((!stuck && !mute) || !member->in_sync || member->condemned ||
	    !evict_bearable(member->engine, member) || MUTANT(LOGINS_ARE_PROGRESS))
		return;
	member_note(member, "takes sessions, but does not answer what it is asked in them");
	evict_condemn(member);
}

static void
lose_patience(struct member *member)
{
	struct engine *engine = member->engine;
	const uint64_t due_ms = member->patience_ms;

	if (due_ms == 0 || engine->now_ms < due_ms)
		return;
	member->patience_ms = 0;
	if (!member->in_sync || !member_usable(member))
		return;
	for (const struct list *node = member->in_flight.next; node != &member->in_flight;
	     node = node->next)
		member_io_be_patient(list_entry(node, struct member_io, node));
	if (member->patience_ms == 0 || member->patience_ms > engine->now_ms)
		return;
	/* It is needed; or it was us who stood still, and its answer may be on its way. */
	if (!evict_bearable(engine, member) ||
	    engine->now_ms - due_ms >= engine->options.give_up_ms) {
		member->patience_ms = engine->now_ms + engine->options.give_up_ms;
		return;
	}
	member_note(member, "does not answer what it was asked in several sessions");
	evict_condemn(member);
}

bool
evict_in_grace(const struct member *member)
{
	return member->in_sync && has_grace(member);
}

/* As long as its session has not ended: a write may be answered yet, and a flush may be cut off,
 * which covers nothing then.
 */
static bool
may_cache_more(const struct member *member, bool data)
{
	for (const struct list *node = member->in_flight.next; node != &member->in_flight;
	     node = node->next) {
		const struct member_io *mio = list_entry(node, struct member_io, node);

		switch (mio->io.op) {
		case BACKEND_WRITE:
		case BACKEND_ZERO:
			if (member->identity.write_cache && !dispute_is_question(mio) &&
			    !(data && mio->io.fua))
				return true;
			break;
		case BACKEND_FLUSH:
			if (mio->policy == IO_REQUEST && (!data || mio->covers_data))
				return true;
			break;
		case BACKEND_READ:
		case BACKEND_MEASURE:
			break;
		}
	}
	return false;
}

/* Its session ends, or will: only the next can tell whether its cache lived on. */
static void
doubt_cache(struct member *member)
{
	if ((!member->unflushed &&
	     (!may_cache_more(member, false) || MUTANT(CLOSING_ANSWERS_TRUSTED))) ||
	    member->cache_lost)
		return;
	member->cache_lost = true;
	member->data_lost = member->unflushed_data || may_cache_more(member, true);
	member->cache_in_doubt = true;
}

void
evict_member_silent(struct member *member)
{
	struct engine *engine = member->engine;

	member->silent_since_ms = engine->now_ms;
	member->silent_since = ++engine->moment;
	doubt_cache(member);
	engine->hedge_silent = true; /* reads that wait for it need not */
	if (!member->held_known)
		engine_event(engine, EVENT_MEMBER_SILENT, LOG_WARNING, member,
			     "member %s: session lost: %s", member->backend->label, member->reason);
}

bool
evict_bearable(const struct engine *engine, const struct member *member)
{
	return engine_bears(engine, member->role) && !engine->suspended;
}

bool
evict_loses_nothing(const struct engine *engine)
{
	return !engine_has_parity(engine) || !intent_is_unknowable(&engine->intent);
}

static bool
may_be_lacking(const struct engine *engine)
{
	return engine->intent.taken_count > 0 ||
	       (engine->intent.suspect_count > 0 && MUTANT(LOSS_DOUBTED_FOR_OTHERS)) ||
	       MUTANT(LOSS_DOUBTED_UNTIL_TOLD);
}

/* It lacks something that nobody else has made up for.  What its cache took along is proven, or
 * lost, once nothing that was suspect then is so any more.  What became suspect later is nothing
 * that it lacks, nor what nobody has written to, as most of a new volume, and what one has gained
 * that has grown.
 */
static bool
lacks_what_was_lost(const struct engine *engine, const struct member *member)
{
	return member->lacking && may_be_lacking(engine);
}

bool
evict_spares(const struct engine *engine, const struct member *member)
{
	uint32_t troubled = engine->out | ROLE(member->role);

	for (int i = 0; i < engine->slots; i++) {
		const struct member *other = &engine->members[i];

		if (other != member && other->backend != NULL && other->in_sync &&
		    (!member_usable(other) || lacks_what_was_lost(engine, other)))
			troubled |= ROLE(other->role);
	}
	return geometry_bears(&engine->geometry, troubled);
}

/* Of rows that a crash or a cache has left unproven, parity makes nothing, be it for one chunk or
 * two: those of a member that goes would be lost, with all that flushes had covered.  Of copies, any
 * other will do.  A member that was sent no flushes goes all the same: what it lacks of proven rows
 * nobody would know.
 */
bool
evict_makes_up_for_cache(const struct engine *engine, const struct member *member)
{
	const bool flushed = !member->flushes_void || MUTANT(UNFLUSHED_KEPT);

	if (flushed && !evict_loses_nothing(engine) && !MUTANT(UNPROVEN_MADE_UP_FOR))
		return false;
	return evict_spares(engine, member);
}

/* It answers, but can't stay.  What the others answered before says nothing of whether they can do
 * without it now.
 */
static void
condemn(struct member *member)
{
	if (!MUTANT(EVIDENCE_OLD))
		member->silent_since = ++member->engine->moment;
	member->condemned = true;
	member->engine->activity++;
}

void
evict_condemn(struct member *member)
{
	condemn(member);
	member_close(member);
}

void
evict_give_back(struct member *member)
{
	condemn(member);
	member->backend->ops->release(member->backend);
}

void
member_exclude(struct member *member)
{
	member->excluded = true;
	snprintf(member->excluded_for, sizeof(member->excluded_for), "%.199s", member->reason);
}

/* Its place in the volume is lost for good, not only until it answers again. */
void
evict_exclude(struct member *member)
{
	member_exclude(member);
	evict_condemn(member);
}

/* It may still be reached another way: not evicted before that was tried, for give_up_ms at most.
 */
static bool
has_other_path(const struct member *member)
{
	const struct engine *engine = member->engine;

	if (member->condemned || member->backend->paths < 2 ||
	    engine->now_ms - member->silent_since_ms >= engine->options.give_up_ms)
		return false;
	return member->opens_left > 0 || member->link != LINK_CLOSED;
}

/* Others are back since too many were away.  Who was back, too, and can't stay, is not waited for. */
static bool
may_follow(const struct member *member)
{
	const struct engine *engine = member->engine;

	return engine->now_ms < engine->eviction->not_before_ms &&
	       (!member->condemned || MUTANT(CONDEMNED_AWAITED));
}

static uint32_t
silent_roles(const struct engine *engine)
{
	uint32_t silent = 0;

	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && is_silent(&engine->members[i]))
			silent |= ROLE(engine->members[i].role);
	return silent;
}

static void
probe_answered(struct member_io *mio, int result)
{
	mio->member->probing = false;
}

void
evict_probe(struct member *member)
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

/* Has every other member answered something that was sent after this one fell silent? Of those that
 * are silent themselves, no more than the level bears, no answer is asked.
 */
static bool
others_answered(struct engine *engine, const struct member *silent)
{
	bool all = true;

	for_each_member(engine, other) {
		if (other == silent || !other->in_sync || is_silent(other) ||
		    other->answered_at > silent->silent_since)
			continue;
		all = false;
		evict_probe(other);
	}
	return all;
}

/* --- who is out stays out --- */

/* While a place changes hands, one that goes and the former holder hear nothing of each other, and
 * may be enough together.
 */
static bool
may_start_elsewhere(const struct engine *engine)
{
	return geometry_can_split(&engine->geometry) ||
	       (target_changing(engine) && geometry_can_split_replaced(&engine->geometry) &&
		!MUTANT(TWO_WHO_GO_UNTOLD));
}

/* Where those that are out could start without those that are in, only this gateway's memory of the
 * epoch keeps them from it.  So the epoch is raised when one goes: first on the members, then here,
 * then it is out.  What it is raised to by evictions that never got so far is below the next
 * assembly's (EPOCH_STEP).
 */
uint64_t
evict_raise_epoch(struct engine *engine)
{
	engine->record.epoch += may_start_elsewhere(engine);
	return engine->record.epoch;
}

/* epoch: is durable on the members.  Sooner a crash would leave this gateway waiting for what never
 * was.
 */
static bool
keep_epoch(struct engine *engine, uint64_t epoch)
{
	return !geometry_can_split_replaced(&engine->geometry) || MUTANT(EVICTION_UNREMEMBERED) ||
	       epochs_keep(engine, EPOCH_GIVEN, epoch);
}

/* The superblocks that say that it goes must not wait for it, nor for those of before. */
void
evict_unawaited(struct member *member)
{
	for (struct list *node = member->parked.next, *next; node != &member->parked; node = next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		next = node->next;
		if (mio->policy != IO_SUPERBLOCK)
			continue;
		list_remove(node);
		member_io_unsent(mio, -ENOLINK);
	}
}

static void
begin_eviction(struct member *member)
{
	struct engine *engine = member->engine;

	member->in_sync = false;
	member->evicting = true;
	/* nobody looks at its end any more */
	if (member->link != LINK_CLOSED && !MUTANT(CLOSING_CACHE_TRUSTED))
		doubt_cache(member);
	member->went_back |= member->doubted;
	engine->record.member_states[member->role] = MEMBER_FAULTY;
	/* No flags say what one lacks that went back: it is not tracked. */
	member->stale_set = member->went_back ? -1
					      : place_track(engine, member->role, member->uuid,
							    member->excluded ? MEMBER_FAULTY
									     : MEMBER_OUT_OF_DATE,
							    member->write_count);
	member->standing = member->stale_set >= 0 ? STANDING_OUT_OF_DATE : STANDING_OBSOLETE;
	engine->out |= ROLE(member->role);
	engine->evicting++;
	member->evict_epoch = evict_raise_epoch(engine);
	member->evict_record = metadata_commit(engine);
	engine->hedge_silent = true; /* that may take long; reads need not wait for it */
	evict_unawaited(member);
	engine_event(engine, EVENT_MEMBER_EVICTED, LOG_ERR, member,
		     "member %s (role %d) is evicted: %s", member->backend->label, member->role,
		     member->reason);
}

/* It is back before its eviction was durable, so nothing was acknowledged without it: it never
 * left.  That matters when others fell silent meanwhile, for then it may be needed.
 */
void
evict_cancel(struct member *member)
{
	struct engine *engine = member->engine;

	member->in_sync = true;
	member->evicting = false;
	member->standing = STANDING_IN_SYNC;
	if (!MUTANT(EVICT_CANCEL_STAYS_OUT))
		engine->record.member_states[member->role] = MEMBER_IN_SYNC;
	place_untrack(engine, member->stale_set);
	member->stale_set = -1;
	engine->out &= ~ROLE(member->role);
	engine->evicting--;
	engine->eviction->kept_record = metadata_commit(engine);
	member->kept_record = engine->eviction->kept_record;
}

/* Some superblocks may say that it is out.  A crash makes it that, and its chunks of all that is
 * dirty unknown, until they say what the others do.
 */
static bool
is_kept_untold(const struct engine *engine)
{
	return engine->metadata->durable < engine->eviction->kept_record && !MUTANT(KEPT_AT_ONCE);
}

bool
evict_undecided(const struct engine *engine)
{
	return engine->evicting > 0 || is_kept_untold(engine);
}

void
evict_resume(struct member *member)
{
	if (!member->disputed)
		member_resume(member, is_kept_untold(member->engine));
}

static void
resume_kept(struct engine *engine)
{
	if (engine->eviction->kept_record == 0 || is_kept_untold(engine))
		return;
	engine->eviction->kept_record = 0;
	engine->activity++;
	for_each_member(engine, member)
		if (member_usable(member))
			evict_resume(member);
}

/* Who is on the way out is told nothing, and may stay after all.  So nobody is out, and no place
 * has changed hands, before it is on record who of them goes, or who stays has heard of the others.
 */
static bool
all_decided(struct engine *engine, uint64_t epoch)
{
	if (is_kept_untold(engine))
		return false;
	for_each_member(engine, member) {
		if (!member->evicting || member->leaving || member == engine->target)
			continue;
		if (engine->metadata->durable < member->evict_record)
			return false;
		if (epoch < member->evict_epoch)
			epoch = member->evict_epoch;
	}
	return keep_epoch(engine, epoch);
}

/* Everybody who stays says that somebody is out, and this gateway does. */
bool
evict_on_record(struct engine *engine, uint64_t record, uint64_t epoch)
{
	if (MUTANT(EVICT_UNRECORDED))
		return true;
	return engine->metadata->durable >= record &&
	       (MUTANT(OUT_UNTOLD) ? keep_epoch(engine, epoch) : all_decided(engine, epoch));
}

/* While a place changes hands nobody else is out yet: rows that were dirty would not be on who
 * takes the place, or is to be told that it has none, though some superblocks trust it.
 */
static bool
may_finish_eviction(struct engine *engine, const struct member *member)
{
	return !member->leaving && (!target_changing(engine) || MUTANT(GONE_WHILE_TAKEN)) &&
	       evict_on_record(engine, member->evict_record, member->evict_epoch);
}

static bool
target_is_missing(const struct engine *engine)
{
	return engine->target != NULL && (engine->missing & ROLE(engine->target->role));
}

/* In rows that were never written, what is missing is whatever the others make of it. */
static void
member_lost(struct engine *engine)
{
	if (engine->geometry.redundancy > 0)
		intent_member_lost(&engine->intent, engine_bare(engine));
}

static void
finish_eviction(struct member *member)
{
	struct engine *engine = member->engine;
	const bool sure = !member->cache_lost && !member->lacking;

	engine->activity++;
	member->evicting = false;
	member->condemned = false;
	member->cache_lost = false;
	member->lacking = false;
	engine->flush->loss_untold &= !MUTANT(LOSS_GONE_WITH_MEMBER);
	member->mute_sessions = 0;
	member->retry_ms = engine->now_ms + member->backoff_ms;
	engine->evicting--;
	metadata_decided(engine);
	engine->missing |= ROLE(member->role);
	if (target_is_missing(engine) && !MUTANT(TARGET_DOUBT_ON_EVICTION))
		intent_target_doubted(&engine->intent);
	if (engine->target != NULL && engine->target->role == member->role)
		intent_target_single(&engine->intent);
	engine->absence[member->role] = (struct absence){
		.since_ms = engine->now_ms,
		.held = !member->went_back && !member->misread,
		.doubts = engine->intent.doubts,
		.sure = sure,
	};
	engine->target_state->spare_wanted_ms = 0;
	engine->by_role[member->role] = NULL;
	/* What it held of losses on record was taken when it was filled.  That it goes as one that
	 * lost nothing says nothing of those.
	 */
	if (engine->lost != NULL && !MUTANT(HELD_ONCE_MORE))
		lost_unhold(engine->lost, (uint8_t)member->role);
	if (member->stale_set >= 0)
		engine->intent.absent |= REGION_STALE(member->stale_set);
	if (member->stale_set >= 0 && member->misread && !MUTANT(MISREAD_TRACKED))
		intent_lacks_all(&engine->intent, REGION_STALE(member->stale_set));
	member_lost(engine);
	member_fail_parked(member, -ENOLINK, false);
}

static void
expire(struct engine *engine)
{
	engine->expired = true;
	engine_log(engine, LOG_ERR,
		   "members stayed silent for %u ms: requests fail until they return",
		   engine->options.queue_limit_ms);
	for_each_member(engine, member)
		member_fail_parked(member, -ETIMEDOUT, true);
	marks_expire(engine);
}

/* Who was sent away although it answers, by an administrator, for its errors or for what its cache
 * may have lost, is needed now; and nothing was done without it yet.  If its eviction has begun,
 * that is cancelled when it is back.
 */
static void
keep_needed(struct member *member)
{
	struct engine *engine = member->engine;

	if (member->excluded)
		engine_event(engine, EVENT_MEMBER_BACK, LOG_WARNING, member,
			     "member %s was to be taken out (%s), but is needed: it stays",
			     member->backend->label, member->reason);
	member->condemned = false;
	member->excluded = false;
	if (member->retry_ms > engine->now_ms + member->backoff_ms)
		member->retry_ms = engine->now_ms + member->backoff_ms;
}

/* The place that a target gives back is another's: it is `evicting` for what it was sent, and was
 * never in sync.
 */
static bool
is_wanted(const struct member *member)
{
	const bool may_stay =
		!member->leaving && (member != member->engine->target || MUTANT(TARGET_KEPT));

	return member->in_sync || (member->evicting && may_stay && !MUTANT(KEPT_OUT));
}

static void
suspend(struct engine *engine, uint32_t silent)
{
	if (!engine->suspended) {
		engine->suspended = true;
		engine->activity++;
		engine->suspended_since_ms = engine->now_ms;
		engine_event(engine, EVENT_SUSPENDED, LOG_ERR, NULL,
			     "%d of %d members are silent, level %u bears %d: I/O waits",
			     __builtin_popcount(silent | engine->out), engine->geometry.members,
			     engine->geometry.level, geometry_tolerated(&engine->geometry));
	}
	engine->eviction->not_before_ms = engine->now_ms + engine->options.give_up_ms;
	for_each_member(engine, member)
		if (member->condemned && is_wanted(member))
			keep_needed(member);
	if (!engine->expired &&
	    engine->now_ms - engine->suspended_since_ms >= engine->options.queue_limit_ms)
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
	engine_event(engine, EVENT_RESUMED, LOG_NOTICE, NULL,
		     "enough members are back: I/O goes on");
}

/* What is suspect later is so for another reason. */
static void
forget_lacking(struct engine *engine)
{
	if (may_be_lacking(engine))
		return;
	for_each_member(engine, member)
		member->lacking = false;
}

void
evict_run(struct engine *engine)
{
	uint32_t silent;

	/* Fenced off, no eviction could be recorded, and nobody may be probed. */
	if (engine->phase < PHASE_WRITE_SUPERBLOCKS || engine->phase > PHASE_LAST_SUPERBLOCKS ||
	    engine->fenced)
		return;
	forget_lacking(engine);
	resume_kept(engine);
	target_settle(engine); /* before anybody goes: its record is in theirs */
	for_each_member(engine, member) {
		if (!member->evicting || member == engine->target)
			continue;
		if (member->leaving && !target_changing(engine))
			target_dismissed(member);
		else if (may_finish_eviction(engine, member))
			finish_eviction(member);
	}
	dispute_run(engine);
	if (engine->fenced)
		return;
	for_each_member(engine, member)
		lose_patience(member);
	silent = silent_roles(engine);
	if (silent != 0 && !geometry_bears(&engine->geometry, engine->out | silent) &&
	    !MUTANT(EVICT_TOO_MANY)) {
		suspend(engine, silent);
		return;
	}
	resume(engine);
	if (silent == 0)
		return;
	for_each_member(engine, member) {
		if (is_silent(member) && !member->disputed && !may_follow(member) &&
		    !has_other_path(member) && !has_grace(member) &&
		    others_answered(engine, member))
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
		if (member->patience_ms > engine->now_ms && member->patience_ms < deadline)
			deadline = member->patience_ms;
		if (is_silent(member) && has_other_path(member) &&
		    member->silent_since_ms + engine->options.give_up_ms < deadline)
			deadline = member->silent_since_ms + engine->options.give_up_ms;
		if (is_silent(member) && has_grace(member) &&
		    member->ended_ms + engine->options.grace_ms < deadline)
			deadline = member->ended_ms + engine->options.grace_ms;
		if ((member_may_open(member) || member_wants_proof(member)) &&
		    member->retry_ms < deadline)
			deadline = member->retry_ms;
	}
	if (engine->suspended && !engine->expired &&
	    engine->suspended_since_ms + engine->options.queue_limit_ms < deadline)
		deadline = engine->suspended_since_ms + engine->options.queue_limit_ms;
	if (!engine->suspended && engine->eviction->not_before_ms > engine->now_ms &&
	    engine->eviction->not_before_ms < deadline)
		deadline = engine->eviction->not_before_ms;
	return deadline;
}
