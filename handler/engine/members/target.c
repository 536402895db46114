/* target.c - the member that is being filled: a returning one that catches up, or a spare.
 *
 *	          target_begin
 *	              v
 *	MARKING     all regions it lacks have its stale flag, durably (a returning member's have it already)
 *	              v
 *	FILLING     the superblocks, its own too, are to say that it is being filled; rebuild.c copies rows; a row that is on it gets every write from then on --> target_lost: out of
 *	              v target_complete: all copied and flushed                                  date again, or faulty
 *	TAKING      the superblocks give it the place.  Whoever had it keeps it, and both get --------.
 *	              |         every write, for some superblocks trust the one and some the other      | target_lost
 *	              v         those are durable                                                     v
 *	in sync: whoever had the place before may go                        WITHDRAWING   the superblocks give it back; until
 *	                                                                    that is durable, no write is acknowledged without it
 *
 * Before it takes its place the others say that it is about to (target_announced).
 *
 * Whoever had it is told at last that it has no place any more, before anything is acknowledged
 * without it: another gateway may know that device alone, and in a mirror whose other copies are out
 * it would be enough.
 *
 * In this order a crash never finds a member on record whose missing rows are not marked, nor one
 * that is trusted and lacks what was acknowledged.  Nor one that others trust, and that does not
 * know of it: one whose superblocks are counted anew is sent rows when both copies are of that
 * count, so it has them before any that gives it the place.
 *
 * While the place changes hands, engine->evicting is raised, as for a member that goes: no
 * operation starts, nothing is cleaned or copied; only what is under way goes on.  The former is
 * `evicting` and `leaving` already: its commands wait, should its session end, and complete when
 * the superblocks don't trust it any more.  Another member's eviction that is recorded meanwhile
 * holds this one in its record, so the place is taken when that is durable.
 *
 * One that refuses a write, or that an administrator takes out, is given up: nobody chooses it
 * again, nor is it chosen any more if an administrator had asked for it, until one takes it back
 * (engine_readmit).  The device would refuse again, and each attempt costs all members their maps.
 * One whose session ended goes on where it was.
 *
 * A target that is lost while it is being filled needs no durable record before writes it missed
 * are acknowledged: their regions are dirty, durably, and what is dirty counts as stale on every
 * tracked member at the next assembly; in a running volume its stale flag is set in the same map
 * block that clears the dirty one.
 *
 * Elsewhere: who is chosen, and the copying, in work/rebuild.c; what its superblocks say, in
 * record/metadata.c (metadata_target_*); whether there is one, in core/chunks.c (target_filling()).
 */
#include "internal.h"
#include "engine/record/write_log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <syslog.h>

static void
enter_target_phase(struct engine *engine, enum target_phase phase)
{
	engine->target_phase = phase;
	engine->activity++;
}

/* A device that is filled from the start is a new one, whatever its UUID.  Others may have that,
 * too, and may have been the member before: one whose LUN was copied, or one of several copies of a
 * spare.  So its superblocks are counted from above all that any of them can have been sent: the
 * one that answers in its place went back in time.  Epochs leave room for what starts that never
 * ran wrote.  Even or odd as before, so that the next write spares the newer copy.
 */
static uint64_t
counted_anew(const struct member *member)
{
	const struct superblock *record = &member->engine->record;
	const uint64_t count = (record->epoch << 32) + 4 * record->event + member->write_count % 2;

	return count < member->write_count || MUTANT(COUNTED_ON) ? member->write_count : count;
}

static void
adopt_spare(struct member *member, int role)
{
	struct engine *engine = member->engine;

	member->superblock = engine->record;
	member->superblock.role = (uint8_t)role;
	member->superblock.member_bytes = member->identity.capacity_bytes > INT64_MAX
						  ? INT64_MAX
						  : member->identity.capacity_bytes;
	memcpy(member->superblock.member_uuid, member->uuid, 16);
	member->write_count = 0;
}

/* It is who has the place on record, and was a member until it left. */
static bool
has_own_place(const struct engine *engine)
{
	return memcmp(engine->target->uuid, engine->record.member_uuids[engine->target->role],
		      16) == 0;
}

void
target_begin(struct member *member, int role)
{
	struct engine *engine = member->engine;
	const bool untracked = member->stale_set < 0;
	/* It was sent no flushes, and lost what it had acknowledged: also of regions whose flags
	 * are clear.
	 */
	const bool all = untracked || place_was_one_of_two(member) ||
			 (member->doubted && !MUTANT(COPIED_UNDOUBTED));

	assert(engine->target == NULL);
	member->taken_as.known &= !all; /* what it held before means nothing any more */
	member->doubted &= !all;
	if (all)
		memset(member->twin_uuid, 0, sizeof(member->twin_uuid));
	if (member->standing == STANDING_SPARE)
		adopt_spare(member, role);
	/* Who was to be filled from the start, and never heard of it, is counted anew again. */
	engine->metadata->target_uncounted =
		!untracked && engine->record.tracked[member->stale_set].write_count != 0 ? 0 : 2;
	if (engine->metadata->target_uncounted > 0)
		member->write_count = counted_anew(member);
	if (untracked) {
		/* on record only when its marks are durable */
		member->stale_set = place_set_for(engine, member->uuid);
	} else {
		/* All else stands as it was when it left, until it is sent something. */
		engine->record.tracked[member->stale_set].role = (uint8_t)role;
		engine->record.tracked[member->stale_set].state = MEMBER_REBUILDING;
	}
	assert(member->stale_set >= 0);
	member->role = role;
	member->checked = true;
	/* what its sessions said until now is about other writes */
	member->cache_kept |= !MUTANT(FIRST_SESSION_COUNTS);
	member->excluded = false;
	member->cache_lost = false;
	member->lacking = false;
	/* a cache that was switched off since it left may hold something yet */
	member->unflushed = member->unflushed_data = true;
	member->standing = STANDING_REBUILDING;
	member->reason[0] = '\0';
	engine->target = member;
	engine->metadata->target_is_new = untracked;
	engine->metadata->target_announced = 0;
	if (engine->missing & ROLE(role))
		engine->absence[role].since_ms = engine->now_ms;
	intent_target_begin(&engine->intent, REGION_STALE(member->stale_set), all,
			    engine->by_role[role] != NULL);
	/* Nobody kept what it had acknowledged, so nothing tells whether it went back in time, or
	 * was used elsewhere.
	 */
	member->went_back |= untracked && has_own_place(engine) && !MUTANT(READDED_BELIEVED);
	if (has_own_place(engine) ? member->went_back && !MUTANT(UNHOLD_OMITTED)
				  : MUTANT(UNHELD_EARLY))
		place_disbelieve(engine, role); /* durable before it is on record */
	marks_all(engine);
	lost_io_all(engine);
	engine->target_state->map = marks_commit(engine);
	enter_target_phase(engine, TARGET_MARKING);
	engine_event(engine, EVENT_REBUILD_STARTED, LOG_NOTICE, member,
		     "member %s is being filled as role %d: %u of %u regions to copy",
		     member->backend->label, role, intent_to_copy(&engine->intent),
		     engine->intent.regions);
}

/* --- it is lost --- */

/* What is dirty now is stale on it, before its commands complete without it. */
static void
leave(struct engine *engine)
{
	struct member *member = engine->target;

	intent_target_lost(&engine->intent);
	engine->target = NULL;
	metadata_decided(engine);
	member->standing = STANDING_OUT_OF_DATE;
	enter_target_phase(engine, TARGET_NONE);
	member_close(member);
}

/* It was about to lose its place, and keeps it.  If its session ended meanwhile, nobody looked at
 * that yet.
 */
static void
keep_former(struct member *former)
{
	former->in_sync = true;
	former->evicting = false;
	former->leaving = false;
	former->untold = 0;
	former->standing = STANDING_IN_SYNC;
	former->reason[0] = '\0';
	former->engine->evicting--;
	if (member_usable(former)) {
		/* What it refused waited for its end. */
		if (!MUTANT(FORMER_LEFT_WAITING))
			evict_resume(former);
		return;
	}
	member_note(former, "its session ended while it was being replaced");
	if (former->link == LINK_OPEN)
		member_close(former);
	else
		evict_member_silent(former);
}

/* Some superblocks may trust it already: it is as one that is being evicted until others are
 * durable that don't.
 */
static void
withdraw(struct engine *engine)
{
	struct member *member = engine->target;
	struct member *former = engine->by_role[member->role];

	memcpy(engine->record.member_uuids[member->role], engine->target_state->former, 16);
	engine->record.member_states[member->role] = engine->target_state->former_state;
	if (former != NULL)
		keep_former(former);
	member->evicting = true;
	member->condemned = true; /* it stays away until then */
	write_log_moves(engine, engine->missing);
	engine->target_state->epoch = evict_raise_epoch(engine);
	enter_target_phase(engine, TARGET_WITHDRAWING);
	member_close(member);
}

static void
withdrawn(struct engine *engine)
{
	struct member *member = engine->target;

	engine->evicting--;
	member->evicting = false;
	member->condemned = false;
	member->retry_ms = engine->now_ms + member->backoff_ms;
	leave(engine);
	member_fail_parked(member, -ENOLINK, false);
}

void
target_give_up(struct member *member)
{
	struct engine *engine = member->engine;

	member_exclude(member);
	if (engine->target_state->replace_role >= 0 &&
	    engine->target_state->replace_slot == member->slot && !MUTANT(CHOSEN_FOR_EVER))
		engine->target_state->replace_role = -1;
}

static void
tell_lost(struct member *member)
{
	if (member->excluded)
		engine_event(member->engine, EVENT_REBUILD_STOPPED, LOG_WARNING, member,
			     "filling member %s was given up: %s; iraid rebuild tries it again, "
			     "else remove it and replace by another",
			     member->backend->label, member->reason);
	else
		engine_event(member->engine, EVENT_REBUILD_STOPPED, LOG_WARNING, member,
			     "filling member %s was interrupted: %s", member->backend->label,
			     member->reason);
}

void
target_lost(struct engine *engine, enum member_state state)
{
	struct member *member = engine->target;

	if (state == MEMBER_FAULTY)
		target_give_up(member);
	if (engine->target_phase == TARGET_WITHDRAWING)
		return;
	member->checked = false;
	member->cache_lost = false; /* the former's (dismiss_former()), which keeps its place */
	member->lacking = false;
	if (engine->phase < PHASE_RELEASE)
		tell_lost(member);
	if (engine->target_phase == TARGET_TAKING)
		withdraw(engine);
	if (engine->target_phase == TARGET_MARKING && engine->metadata->target_is_new) {
		/* Nobody knows of it yet, and its own marks may not be durable. */
		int set = member->stale_set;

		leave(engine);
		/* Of one that was tracked before, all flags stay: it lacks no less. */
		if (!place_tracked(engine, member->uuid))
			intent_forget(&engine->intent, REGION_STALE(set));
		member->stale_set = -1;
		member->standing = STANDING_OBSOLETE;
	} else {
		/* its epoch is that of what it was sent (metadata.c) */
		engine->record.tracked[member->stale_set].state = state;
		if (engine->target_phase != TARGET_WITHDRAWING)
			leave(engine);
	}
	engine->metadata->target_record = metadata_commit(engine);
}

/* --- it takes its place --- */

/* Sets of this place's holders, of the target too, are free again. */
static uint8_t
untrack_place(struct engine *engine, int role)
{
	uint8_t sets = 0;

	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (engine->record.tracked[set].state != 0 &&
		    engine->record.tracked[set].role == role) {
			sets |= REGION_STALE(set);
			place_untrack(engine, set);
		}
	return sets;
}

static void
disown_others(struct engine *engine, const struct member *member)
{
	for_each_member(engine, other)
		if (other != member && !other->leaving && other->role == member->role) {
			other->standing = STANDING_OBSOLETE;
			other->stale_set = -1;
			other->role = -1;
			member_note(other, "its place was taken by %s", member->backend->label);
		}
}

/* The superblocks that give it the place are durable. */
static void
take_place(struct engine *engine)
{
	struct member *member = engine->target;
	const int role = member->role;
	struct member *former = engine->by_role[role];

	/* Until now the former holder might have come back with what it held of lost rows. */
	if (memcmp(engine->target_state->former, member->uuid, 16) != 0)
		lost_unhold(engine->lost, (uint8_t)role);
	intent_target_done(&engine->intent);
	engine->target = NULL;
	engine->by_role[role] = member;
	engine->evicting--;
	member->in_sync = true;
	member->went_back = member->misread = false;
	member->disbelieved = false;
	member->doubted = false;
	member->flushes_void = false;
	member->standing = STANDING_IN_SYNC;
	member->stale_set = -1;
	if (MUTANT(FORMER_LOSS_KEPT))
		member->cache_lost = member->data_lost = former != NULL && former->cache_lost;
	if (member->cache_lost)
		flush_cache_lost(member);
	member->lacking |= member->cache_lost;
	member->cache_lost = false;
	member->cached |= former != NULL && (former->cached || former->doubted);
	engine->missing &= ~ROLE(role);
	engine->out &= ~ROLE(role);
	if (engine->target_state->replace_role == role)
		engine->target_state->replace_role = -1;
	disown_others(engine, member);
	place_forget(engine, untrack_place(engine, role));
	enter_target_phase(engine, TARGET_NONE);
	engine_event(engine, EVENT_REBUILD_FINISHED, LOG_NOTICE, member,
		     "member %s is in sync as role %d", member->backend->label, role);
}

/* The former's superblock is written only once more, when it is told: it has no place in the
 * others.  It may be silent, with one that waits for its return: those that give its place away come behind that.
 */
static void
dismiss_former(struct engine *engine, struct member *former)
{
	/* What it may have lost with its cache was copied from it: the next flush still has to say
	 * so.  What it loses from now on the other has.
	 */
	engine->target->cache_lost = former->cache_lost;
	engine->target->data_lost = former->data_lost;
	engine->target->lacking = former->lacking;
	former->in_sync = false;
	former->evicting = true;
	former->leaving = true;
	former->standing = STANDING_OBSOLETE;
	member_note(former, "replaced");
	former->untold = MUTANT(FORMER_TOLD_ONCE) ? 1 : 2; /* copies */
	engine->evicting++;
	if (!MUTANT(FORMER_AWAITED))
		evict_unawaited(former);
}

/* One who is in sync and falls silent before it hears that the target is, too, would say that it is
 * all that there is, or all but the target: another gateway could go on with that one, and this one
 * with the target.
 */
bool
target_announced(struct engine *engine)
{
	struct metadata *metadata = engine->metadata;

	if (!geometry_can_split_replaced(&engine->geometry) || MUTANT(TARGET_UNANNOUNCED))
		return true;
	if (metadata->target_announced == 0)
		metadata->target_announced = metadata_commit(engine);
	return metadata->durable >= metadata->target_announced;
}

void
target_complete(struct engine *engine)
{
	struct member *member = engine->target;
	const int role = member->role;

	memcpy(engine->target_state->former, engine->record.member_uuids[role], 16);
	engine->target_state->former_state = engine->record.member_states[role];
	memcpy(engine->record.member_uuids[role], member->uuid, 16);
	engine->record.member_states[role] = MEMBER_IN_SYNC;
	write_log_moves(engine, engine->missing & ~ROLE(role));
	engine->target_state->epoch = evict_raise_epoch(engine);
	engine->metadata->target_record = metadata_commit(engine);
	engine->evicting++;
	intent_target_single(&engine->intent); /* it must not lose rows again on its way in */
	enter_target_phase(engine, TARGET_TAKING);
	if (engine->by_role[role] != NULL)
		dismiss_former(engine, engine->by_role[role]);
	if (MUTANT(PLACE_TAKEN_AT_ONCE))
		take_place(engine);
}

/* What it still answers before its session ends counts as not answered (member.c): nobody knows its
 * role any more.
 */
void
target_dismissed(struct member *former)
{
	struct engine *engine = former->engine;

	former->evicting = false;
	former->checked = false;
	former->role = -1;
	engine->evicting--;
	engine->activity++;
	member_fail_parked(former, -ENOLINK, false);
	if (former->link != LINK_CLOSED)
		former->backend->ops->release(former->backend);
}

void
target_contested(struct member *former)
{
	struct engine *engine = former->engine;

	if (!former->evicting || MUTANT(FORMER_CONFLICT_UNHEARD))
		return;
	for_each_member(engine, other)
		if (other->in_sync)
			return;
	member_fence_off(former);
}

static bool
former_told(struct member *former)
{
	if (MUTANT(FORMER_UNTOLD))
		return true;
	if (!metadata_out_told(former, &former->engine->record))
		return false;
	if (former->untold < 0)
		engine_log(former->engine, LOG_WARNING,
			   "device %s could not be told that its place was taken: wipe it before "
			   "another gateway reaches it",
			   former->backend->label);
	return true;
}

void
target_settle(struct engine *engine)
{
	struct member *former;

	if (!target_changing(engine) ||
	    !evict_on_record(engine, engine->metadata->target_record, engine->target_state->epoch))
		return;
	if (engine->target_phase == TARGET_WITHDRAWING) {
		withdrawn(engine);
		return;
	}
	former = engine->by_role[engine->target->role];
	if (former == NULL || former_told(former))
		take_place(engine);
}

/* --- the run --- */

void
target_run(struct engine *engine)
{
	if (engine->target == NULL)
		return;
	if (engine->target_phase == TARGET_MARKING &&
	    ((engine->marks->durable >= engine->target_state->map && lost_io_idle(engine)) ||
	     MUTANT(TARGET_MARKS_UNAWAITED))) {
		place_record_target(engine);
		engine->metadata->target_record = metadata_commit(engine);
		enter_target_phase(engine, TARGET_FILLING);
	}
}

bool
target_may_copy(const struct engine *engine)
{
	return (metadata_target_heard(engine) ||
		(target_filling(engine) && MUTANT(COPIED_UNHEARD))) &&
	       metadata_target_counted(engine);
}
