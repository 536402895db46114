/* target.c - the member that is being filled: a returning one that catches up, or a spare.
 *
 *	          target_begin
 *	              v
 *	MARKING     all regions it lacks have its stale flag, durably (a returning member's have it already)
 *	              v
 *	RECORDING   the superblocks, its own too, say that it is being filled
 *	              v
 *	FILLING     rebuild.c copies rows; a row that is on it gets every write from then on
 *	              |                                       |
 *	              v target_complete                       v target_lost
 *	in sync: all copied, flushed, flags cleared         out of date again, or faulty
 *
 * In this order a crash never finds a member on record whose missing rows are not marked.
 *
 * A target that is lost needs no durable record before writes it missed are acknowledged: their regions are dirty,
 * durably, and what is dirty counts as stale on every tracked member at the next assembly; in a running
 * volume its stale flag is set in the same map block that clears the dirty one.
 */
#include "engine_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static void
enter(struct engine *engine, enum target_phase phase)
{
	engine->target_phase = phase;
	engine->activity++;
}

static void
adopt_spare(struct member *member, int role)
{
	struct engine *engine = member->engine;

	member->superblock = engine->record;
	member->superblock.role = (uint8_t)role;
	member->superblock.member_bytes = member->identity.capacity_bytes;
	memcpy(member->superblock.member_uuid, member->uuid, 16);
	member->write_count = 0;
}

void
target_begin(struct member *member, int role)
{
	struct engine *engine = member->engine;
	bool all = member->stale_set < 0;

	assert(engine->target == NULL);
	if (member->standing == STANDING_SPARE)
		adopt_spare(member, role);
	if (all && !place_tracked(engine, member->uuid))
		member->stale_set = place_free_set(engine);	/* on record only when its marks are durable */
	else
		member->stale_set = place_track(engine, role, member->uuid, MEMBER_REBUILDING);
	assert(member->stale_set >= 0);
	member->role = role;
	member->checked = true;
	member->excluded = false;
	member->cache_lost = false;
	member->unflushed = true;
	member->standing = STANDING_REBUILDING;
	member->reason[0] = '\0';
	engine->target = member;
	engine->target_is_new = !place_tracked(engine, member->uuid);
	if (engine->missing & ROLE(role))
		engine->absence[role].since_ms = engine->now_ms;
	intent_target_begin(&engine->intent, REGION_STALE(member->stale_set), all);
	if (memcmp(member->uuid, engine->record.member_uuids[role], 16) != 0)
		lost_unhold(engine->lost, (uint8_t)role);	/* durable before it is on record */
	intent_io_all(engine);
	lost_io_all(engine);
	engine->target_map = intent_io_commit(engine);
	enter(engine, TARGET_MARKING);
	engine_event(engine, EVENT_REBUILD_STARTED, LOG_NOTICE, member,
		     "member %s is being filled as role %d: %u of %u regions to copy",
		     member->backend->label, role, intent_to_copy(&engine->intent),
		     engine->intent.regions);
}

void
target_lost(struct engine *engine, enum member_state state)
{
	struct member *member = engine->target;

	engine->target = NULL;
	member->checked = false;
	intent_target_lost(&engine->intent);
	engine_event(engine, EVENT_REBUILD_STOPPED, LOG_WARNING, member,
		     "filling member %s was interrupted: %s", member->backend->label, member->reason);
	if (engine->target_phase == TARGET_MARKING && engine->target_is_new) {
		/* Nobody knows of it yet, and its own marks may not be durable. */
		intent_forget(&engine->intent, REGION_STALE(member->stale_set));
		member->stale_set = -1;
		member->standing = STANDING_OBSOLETE;
	} else {
		engine->record.tracked[member->stale_set].state = state;
		engine->record.tracked[member->stale_set].epoch = engine->record.epoch;
		member->standing = STANDING_OUT_OF_DATE;
	}
	if (state == MEMBER_FAULTY)
		member->excluded = true;
	metadata_commit(engine);
	enter(engine, TARGET_NONE);
	if (member->link == LINK_OPEN)
		member->backend->ops->close(member->backend);
}

/* Whoever had the place before is no member any more, once the superblocks say so.  Until then it is as one that is
 * being evicted: no operation starts, and those under way wait for it, for the superblocks of before still trust it.
 */
static void
dismiss(struct engine *engine, struct member *former, uint64_t record)
{
	former->in_sync = false;
	former->evicting = true;
	former->leaving = true;
	former->evict_record = record;
	former->evict_epoch = evict_raise_epoch(engine);
	former->standing = STANDING_OBSOLETE;
	member_note(former, "replaced");
	engine->evicting++;
}

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
target_complete(struct engine *engine)
{
	struct member *member = engine->target;
	const int role = member->role;
	struct member *former = engine->by_role[role];
	uint64_t record;
	uint8_t others = 0;

	/* Sets of this place's former holders are free again. */
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (engine->record.tracked[set].state != 0 && engine->record.tracked[set].role == role) {
			others |= REGION_STALE(set);
			place_untrack(engine, set);
		}
	for_each_member(engine, other)
		if (other != member && other != former && other->role == role) {
			other->standing = STANDING_OBSOLETE;
			other->stale_set = -1;
			other->role = -1;
			member_note(other, "its place was taken by %s", member->backend->label);
		}
	intent_target_done(&engine->intent, 0);
	engine->target = NULL;
	engine->by_role[role] = member;
	member->in_sync = true;
	member->standing = STANDING_IN_SYNC;
	member->stale_set = -1;
	memcpy(engine->record.member_uuids[role], member->uuid, 16);
	engine->record.member_states[role] = MEMBER_IN_SYNC;
	engine->missing &= ~ROLE(role);
	engine->out &= ~ROLE(role);
	if (engine->replace_role == role)
		engine->replace_role = -1;
	place_forget(engine, others);
	record = engine->forget_record;
	if (former != NULL)
		dismiss(engine, former, record);
	enter(engine, TARGET_NONE);
	engine_event(engine, EVENT_REBUILD_FINISHED, LOG_NOTICE, member,
		     "member %s is in sync as role %d", member->backend->label, role);
}

void
target_run(struct engine *engine)
{
	if (engine->target == NULL)
		return;
	if (engine->target_phase == TARGET_MARKING && engine->map_durable >= engine->target_map &&
	    lost_io_idle(engine)) {
		place_record_target(engine);
		engine->target_record = metadata_commit(engine);
		enter(engine, TARGET_RECORDING);
	}
	if (engine->target_phase == TARGET_RECORDING &&
	    engine->record_durable >= engine->target_record)
		enter(engine, TARGET_FILLING);
}

bool
target_filling(const struct engine *engine)
{
	return engine->target != NULL && engine->target_phase == TARGET_FILLING;
}
