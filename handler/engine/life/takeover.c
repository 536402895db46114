/* takeover.c - the volume was another gateway's, or may be: whether this one may start it, and what
 * has to be so before it runs.
 *
 * That gateway goes on, or is started again, with members that this one does not reach.  So there is
 * a quorum: members that meet every set with which it could run (docs/design/engine.md, Two
 * gateways).  It is proven gone from them (backend_identity.taken), and each of them says whose the
 * volume is, durably, before this start has run: what a reservation says is gone with the member's
 * power.
 */
#include "internal.h"
#include "engine/members/members.h"
#include "engine/record/record.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define COPIES 2 /* of a superblock */

static const char *
gateway_of(const char *owner)
{
	const char *mark = strrchr(owner, '#');

	return mark != NULL ? mark : owner;
}

/* A start that did not succeed in time takes nothing any more: another gateway may have been
 * started since.
 */
bool
takeover_allowed(const struct engine *engine)
{
	const uint32_t limit_ms = engine->options.take_over_ms;

	return engine->now_ms - engine->assembly->started_ms < limit_ms ||
	       (limit_ms != 0 && MUTANT(TAKE_OVER_LASTS));
}

static bool
any_reservation(struct engine *engine, const struct assembly_verdict *verdict)
{
	for_each_member(engine, member)
		if (verdict->standing[member->slot] == STANDING_IN_SYNC &&
		    member->identity.reservation)
			return true;
	return false;
}

/* A copy of the superblock that can't be read may have been the newer one.  One member with both
 * copies would know: superblocks are written to all before they are written again.  And this
 * gateway knows what it has run itself.
 */
static bool
owner_unknown(struct engine *engine, const struct assembly_verdict *verdict)
{
	for_each_member(engine, member)
		if (verdict->standing[member->slot] == STANDING_IN_SYNC && !member->copy_lost)
			return false;
	return engine->options.epoch_seen < engine->members[verdict->newest].superblock.epoch &&
	       !MUTANT(LOST_OWNER_IGNORED);
}

/* Targets that know no reservations can't say that another gateway uses them (DESIGN rule 8).  What
 * they can say is who assembled the volume last and did not stop it; whether that one still runs,
 * only a person knows.
 */
static bool
owned_by_another(struct engine *engine, const struct assembly_verdict *verdict)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	const bool stopped = newest->clean || newest->owner[0] == '\0';

	/* that is ours, so it is nobody else's */
	if (takeover_allowed(engine) || any_reservation(engine, verdict))
		return false;
	if (!stopped && strcmp(gateway_of(newest->owner), gateway_of(engine->options.owner)) != 0)
		snprintf(engine->reason, sizeof(engine->reason),
			 "in use by %s, or was when that ended without stopping it; its targets "
			 "know no reservations: if that gateway is gone for certain, start with "
			 "--take-over",
			 newest->owner);
	else if (stopped && owner_unknown(engine, verdict))
		snprintf(engine->reason, sizeof(engine->reason),
			 "who has it is not known: on each member that is here one copy of the "
			 "superblock can't be read, and its targets know no reservations: if no "
			 "gateway has it for certain, start with --take-over");
	else
		return false;
	engine->assembly->refused = true;
	return true;
}

/* --- a take-over --- */

/* A take-over was begun, and did not end: its gateway is dead, or was started again, or this is the
 * next attempt of it.  Who was in sync or undecided before still is.
 */
static bool
is_taken_in_part(const struct superblock *newest)
{
	for (int role = 0; role < newest->member_count; role++)
		if ((newest->undecided_roles & ROLE(role)) &&
		    newest->member_states[role] == MEMBER_IN_SYNC)
			return !MUTANT(TAKEN_IN_PART);
	return false;
}

/* Some member in sync had another gateway's key; or all have lost their reservations, and who wrote
 * the superblocks did not stop, or was taking the volume over.  Without reservations nothing can be proven.
 */
static bool
takes_over(struct engine *engine, const struct assembly_verdict *verdict)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	bool taken = is_taken_in_part(newest) ||
		     (!newest->clean && newest->owner[0] != '\0' &&
		      strcmp(gateway_of(newest->owner), gateway_of(engine->options.owner)) != 0);

	for_each_member(engine, member)
		taken |= member->identity.predecessor_key != 0 &&
			 verdict->standing[member->slot] == STANDING_IN_SYNC;
	return taken && any_reservation(engine, verdict);
}

/* Where halves can start, each epoch is on record here before members get it, but for those of
 * evictions that did not end.  So this gateway's record is lost, or its disk was set back, and
 * nobody can say what it did since, or another that took the volume over.
 */
static bool
has_lost_record(const struct engine *engine, const struct superblock *newest)
{
	const struct engine_options *options = &engine->options;
	const uint64_t known = options->epoch_seen > options->epoch_tried ? options->epoch_seen
									  : options->epoch_tried;
	struct geometry geometry;

	return strcmp(gateway_of(newest->owner), gateway_of(options->owner)) == 0 &&
	       newest->epoch >= known + EPOCH_STEP &&
	       geometry_init(&geometry, newest->level, newest->member_count, newest->chunk_bytes,
			     newest->block_bytes, newest->data_bytes) == 0 &&
	       geometry_can_split_replaced(&geometry) && !MUTANT(OWN_RECORD_ASSUMED);
}

/* Who stopped it in order may have started it again since, with members that this gateway does not
 * reach, and has it in its memory.  This one has not.
 */
static bool
may_run_elsewhere(const struct engine *engine, const struct superblock *newest)
{
	return is_taken_in_part(newest) ||
	       (newest->owner[0] == '\0' && newest->epoch > engine->options.epoch_seen &&
		!MUTANT(GIVEN_BACK_IN_PART));
}

static void
refuse_start(struct engine *engine, const struct geometry *geometry, bool taken, int proven,
	     int there)
{
	const int quorum = engine->assembly->quorum;

	engine->assembly->refused = true;
	if (!taken) {
		snprintf(engine->reason, sizeof(engine->reason),
			 "this gateway did not run this volume last, or lost its record of that; "
			 "another may run it with members that do not answer: %d of %d in sync do, "
			 "%d are needed; bring them back, or --force if no other gateway has it",
			 proven, there, quorum);
		return;
	}
	snprintf(engine->reason, sizeof(engine->reason),
		 "the gateway before is gone for certain from %d of %d members in sync, and may go "
		 "on with the rest: %d are needed%s; bring them back, or --force if it is dead",
		 proven, there, quorum,
		 geometry->level == 5 && geometry->members == 3 && there == 2
			 ? " (of three members on level 5 one may be away)"
			 : "");
}

static bool
has_other_holder(const struct superblock *record)
{
	static const uint8_t none[16];

	return memcmp(record->other_holder, none, sizeof(none)) != 0;
}

static bool
is_other_holder(const struct superblock *newest, const struct superblock *own)
{
	return has_other_holder(newest) && memcmp(own->member_uuid, newest->other_holder, 16) == 0;
}

/* The gateway before may count on it: it is in sync, or its role was undecided, or it is the other
 * holder of a place.  Not a copy of it, nor what it was once: the device itself may be elsewhere.
 */
static bool
is_counted_on(const struct engine *engine, const struct assembly_verdict *verdict,
	      const struct member *member)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	const struct superblock *own = &member->superblock;

	if (verdict->standing[member->slot] == STANDING_IN_SYNC)
		return true;
	if (member->presence != PRESENCE_EXAMINED ||
	    memcmp(own->volume_uuid, newest->volume_uuid, 16) != 0)
		return false;
	if ((verdict->standing[member->slot] == STANDING_UNKNOWN ||
	     verdict->went_back[member->slot]) &&
	    !MUTANT(COPY_COUNTED))
		return false;
	if (is_other_holder(newest, own))
		return true;
	return own->role < newest->member_count && (newest->undecided_roles & ROLE(own->role)) &&
	       memcmp(own->member_uuid, newest->member_uuids[own->role], 16) == 0;
}

/* The members from which the gateway before is proven gone, if this is a take-over, or else those
 * that answer, meet every set with which it could run, write and answer reads
 * (docs/design/engine.md, Two gateways).
 */
static bool
has_quorum(struct engine *engine, const struct assembly_verdict *verdict, bool taken)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	struct geometry geometry;
	uint32_t out = 0;
	int proven = 0;

	if (load_may_force(engine) ||
	    geometry_init(&geometry, newest->level, newest->member_count, newest->chunk_bytes,
			  newest->block_bytes, newest->data_bytes) != 0)
		return true;
	for (int role = 0; role < newest->member_count; role++)
		if (newest->member_states[role] != MEMBER_IN_SYNC &&
		    !(newest->undecided_roles & ROLE(role)))
			out |= ROLE(role);
	for_each_member(engine, member) {
		member->counted = is_counted_on(engine, verdict, member) &&
				  member->link == LINK_OPEN &&
				  (!taken || member->identity.taken || MUTANT(UNPROVEN_COUNTED));
		proven += member->counted;
	}
	engine->assembly->quorum = geometry_quorum(&geometry, out) + has_other_holder(newest);
	if (proven >= engine->assembly->quorum)
		return true;
	refuse_start(engine, &geometry, taken, proven,
		     geometry.members - __builtin_popcount(out) + has_other_holder(newest));
	return false;
}

/* A read that the gateway before began before it lost these members may be answered so long after;
 * nothing newer than what it knows may be acknowledged, nor read, before that.
 */
static void
await_lease(struct engine *engine, bool taken)
{
	engine->assembly->taken = taken;
	engine->assembly->lease_ends_ms =
		taken && !MUTANT(LEASE_UNAWAITED) ? engine_clock_ms(engine) + LEASE_AWAITED_MS : 0;
}

/* A target that is started anew has forgotten its reservation.  While this gateway was away from it,
 * the one before may have had it again, and heard that it is its own, for nothing was written to it.
 */
static uint64_t
lease_ends_ms(const struct engine *engine)
{
	const uint64_t taken_ms = engine->assembly->lease_ends_ms,
		       again_ms = engine->places->restored_ms + LEASE_AWAITED_MS;

	return taken_ms != 0 && again_ms > taken_ms && !MUTANT(RESTORED_UNAWAITED) ? again_ms
										   : taken_ms;
}

bool
takeover_lease_is_over(struct engine *engine)
{
	const uint64_t ends_ms = lease_ends_ms(engine);

	return ends_ms == 0 || engine_clock_ms(engine) >= ends_ms;
}

uint64_t
takeover_deadline(const struct engine *engine)
{
	const uint64_t ends_ms = lease_ends_ms(engine);

	return ends_ms > engine->now_ms && (engine->phase == PHASE_WRITE_SUPERBLOCKS ||
					    engine->phase == PHASE_REPLAY)
		       ? ends_ms
		       : UINT64_MAX;
}

/* What is read may be in a cache yet, which is lost with the power.  The record is to say of those
 * that are out how many superblocks they have.
 */
static bool
are_durable(struct engine *engine, const struct assembly_verdict *verdict)
{
	bool durable = true;

	for_each_member(engine, member)
		if (member->counted && verdict->standing[member->slot] != STANDING_IN_SYNC)
			durable &= place_is_durable(member);
	return durable;
}

/* Nobody is to hear of this start. */
static void
forget_counted(struct engine *engine)
{
	engine->assembly->quorum = 0;
	engine->metadata->unheard = false;
	engine->metadata->roles_to_hear = 0;
	for_each_member(engine, member) {
		member->counted = false;
		member->untold = 0;
	}
}

/* What was found is on record again before anything newer is meant: else a half that is older would
 * be taken for what an attempt that did not end had found.
 */
static bool
has_record(struct engine *engine, uint64_t epoch)
{
	if (MUTANT(RECORD_LOST_TWICE))
		return true;
	if (!epochs_keep(engine, EPOCH_GIVEN, epoch))
		return false;
	engine->options.epoch_seen = epoch;
	return true;
}

bool
takeover_may_begin(struct engine *engine, const struct assembly_verdict *verdict)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	const bool taken = takes_over(engine, verdict), lost = has_lost_record(engine, newest);

	forget_counted(engine);
	if (owned_by_another(engine, verdict) && !MUTANT(OWNER_IGNORED))
		return false;
	if ((taken || lost || may_run_elsewhere(engine, newest)) &&
	    (!has_quorum(engine, verdict, taken) || !are_durable(engine, verdict)))
		return false;
	engine->assembly->record_lost |= lost;
	if (lost && !has_record(engine, newest->epoch))
		return false;
	await_lease(engine, taken);
	return true;
}

/* --- everybody who counts is told --- */

/* Until all have heard nobody starts with less, this gateway neither.  Who is out is named as it was
 * found.
 */
void
takeover_begin(struct engine *engine)
{
	engine->metadata->unheard = engine->assembly->quorum > 0;
	for_each_member(engine, member) {
		if (engine->assembly->quorum == 0 || !member->counted)
			continue;
		/* one that goes from now on does not hear of it */
		member->untold = member->in_sync ? -1 : COPIES;
		if (member->in_sync && !MUTANT(ATTEMPT_DECIDED))
			engine->metadata->roles_to_hear |= ROLE(member->role);
	}
}

static bool
has_heard(const struct member *member)
{
	return member->counted &&
	       (member->in_sync || member->untold == 0 || MUTANT(COUNTED_UNTOLD));
}

static const struct member *
first_deaf(struct engine *engine)
{
	for_each_member(engine, member)
		if (member->counted && (member->evicting || !has_heard(member)))
			return member;
	return NULL;
}

/* It is said once: this start is tried each second. */
static void
begin_again(struct engine *engine)
{
	char why[sizeof(engine->reason)];
	const struct member *deaf = first_deaf(engine);

	if (deaf == NULL) { /* it was removed */
		attempt_again(engine, "a device went before it heard of this start");
		return;
	}
	snprintf(why, sizeof(why),
		 "another gateway may go on with device %.100s, which has not heard of this "
		 "start: bring it back, mend it, or --force if that gateway is dead",
		 deaf->backend->label);
	if (engine->assembly->deaf_logged != deaf->slot + 1)
		engine_log(engine, LOG_WARNING, "%s", why);
	engine->assembly->deaf_logged = deaf->slot + 1;
	attempt_begin_again(engine, why);
}

static bool
have_enough_heard(struct engine *engine)
{
	int heard = 0;

	for_each_member(engine, member)
		heard += has_heard(member);
	if (heard >= engine->assembly->quorum || MUTANT(UNHEARD_COUNTED))
		return true;
	begin_again(engine);
	return false;
}

/* What the others had on record when this start began: who is out bars itself by that, and it says
 * nothing new.  Those in sync hear of this start itself, and later: if this can't
 * be done, whoever has the volume can go on with them.
 */
bool
takeover_tells(struct engine *engine)
{
	if (engine->assembly->quorum == 0)
		return true;
	for_each_member(engine, member)
		if (member->counted && !member->in_sync && !MUTANT(COUNTED_UNTOLD) &&
		    !metadata_out_told(member, &engine->assembly->found))
			return false;
	return have_enough_heard(engine);
}

bool
takeover_loses(const struct engine *engine)
{
	return engine->assembly->quorum > 0 && engine->evicting > 0 && !engine->fenced &&
	       engine->phase == PHASE_WRITE_SUPERBLOCKS && !MUTANT(EVICTED_UNHEARD);
}

/* Who goes each time is left out, if the others are enough. */
void
takeover_goes_back(struct engine *engine)
{
	int left = 0;

	for_each_member(engine, member)
		left += member->counted && !member->evicting;
	if (left < engine->assembly->quorum && !MUTANT(NEEDED_LEFT_OUT)) {
		begin_again(engine);
		return;
	}
	for_each_member(engine, member)
		if (member->evicting && !MUTANT(REFUSER_TAKEN))
			attempt_lost(member);
	attempt_again(engine, "a member went before it heard of this take-over");
}

bool
takeover_is_heard(struct engine *engine)
{
	if (engine->assembly->quorum == 0)
		return true;
	if (engine->fenced || !have_enough_heard(engine))
		return false;
	for_each_member(engine, member) {
		member->counted = false;
		member->untold = MUTANT(STILL_UNTOLD) ? member->untold : 0;
	}
	engine->assembly->quorum = 0;
	engine->metadata->unheard = false;
	return true;
}

/* Members that are away have its key yet, and it is proven gone: who comes back is preempted too.
 * Those that are there have had the last one's, for they were in sync.  That outlives a restart, for
 * members may be away longer.
 */
void
takeover_name_predecessor(struct engine *engine)
{
	if (engine->assembly->resumed && !engine->assembly->taken)
		engine->places->predecessor_key = engine->options.predecessor_key;
	for_each_member(engine, member)
		if (member->in_sync && member->identity.predecessor_key != 0 &&
		    engine->assembly->taken)
			engine->places->predecessor_key = member->identity.predecessor_key;
}
