/* assemble.c - from superblocks to a running volume.
 *
 *	EXAMINE            sessions open, both superblock copies of each member are read,
 *	   |               assembly_decide() says when there are enough
 *	   v
 *	LOAD_MAP           region maps of the trusted members, merged; the new epoch is recorded here
 *	   |               on the gateway first
 *	   v
 *	WRITE_SUPERBLOCKS  the new epoch, absent members marked missing, durable on all we start with
 *	   v
 *	REPLAY             what a crash left in the write log is written to its rows (replay.c)
 *	   v
 *	RUNNING
 *
 * A member lost while the map is loaded sends us back to EXAMINE: nothing was written yet.  One
 * that is lost each time is left out then, if the others suffice.  Later losses are evict.c's
 * business, or send us back too if one that came late can make up for them: nothing was
 * acknowledged yet.
 *
 * Here: EXAMINE, and what follows what.  takeover.c: whether another gateway has it.  load.c:
 * LOAD_MAP.  attempt.c: how an attempt ends.
 */
#include "internal.h"
#include "replay.h"
#include "engine/link/link.h"
#include "engine/link/row_cache.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"
#include "engine/work/work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* superblocks that were read earlier are read again before the start */
#define OUTDATED_MS 1000u

/* Roles of which a stop in order said that all is on record.  Not if this gateway has seen a later
 * assembly, nor of one that is in sync.
 */
static uint32_t
roles_found_recorded(const struct engine *engine, const struct superblock *newest)
{
	if ((!newest->clean && !MUTANT(RECORDED_AFTER_CRASH)) ||
	    (newest->epoch < engine->options.epoch_seen && !MUTANT(RECORDED_BEFORE)))
		return 0;
	for (int role = 0; role < newest->member_count; role++)
		if ((newest->recorded_roles & ROLE(role)) &&
		    newest->member_states[role] == MEMBER_IN_SYNC)
			return 0;
	return newest->recorded_roles;
}

/* Lost caches may have been told since by one that is newer; who is older does not know what one
 * that has gone again had said.
 */
static void
hear_of_loss(struct engine *engine, const struct superblock *newest)
{
	const struct assembly *assembly = engine->assembly;
	const bool older = newest->epoch != assembly->loss_epoch
				   ? newest->epoch < assembly->loss_epoch
				   : newest->event < assembly->loss_event;
	const bool said = newest->flushes_fail && !MUTANT(LOSS_UNRECORDED);

	if ((older && !MUTANT(LOSS_FORGOTTEN_AGAIN)) || MUTANT(ATTEMPT_TOLD)) {
		engine->flush->loss_untold |= said;
		return;
	}
	engine->flush->loss_untold = said;
	engine->assembly->loss_epoch = newest->epoch;
	engine->assembly->loss_event = newest->event;
}

/* Take over what the newest superblock says.  0, or -EINVAL if this engine can't run it. */
static int
adopt(struct engine *engine, const struct assembly_verdict *verdict)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;
	int error;

	error = geometry_init(&engine->geometry, newest->level, newest->member_count,
			      newest->chunk_bytes, newest->block_bytes, newest->data_bytes);
	if (error != 0)
		return error;
	engine->assembly->has_geometry = true;
	engine->volume_bytes = geometry_volume_bytes(&engine->geometry);
	engine->record = *newest;
	engine->assembly->found = *newest;
	if (engine->places->epoch_before == 0 || newest->epoch > engine->metadata->epoch_written ||
	    MUTANT(NEWER_BY_OUR_WRITES))
		engine->places->epoch_before = newest->epoch;
	engine->places->epoch_found = newest->epoch;
	engine->flush->found_clean = newest->clean;
	hear_of_loss(engine, newest);
	if (!MUTANT(LOSS_NOT_PASSED_ON))
		/* who hears of this start goes on telling */
		engine->record.flushes_fail = engine->flush->loss_untold;
	engine->record.epoch = newest->epoch > engine->options.epoch_seen
				       ? newest->epoch
				       : engine->options.epoch_seen;
	if (engine->record.epoch < engine->options.epoch_tried && !MUTANT(TRIES_FORGOTTEN))
		engine->record.epoch = engine->options.epoch_tried;
	/* Some may have superblocks of an attempt that had to be given up, with more events than
	 * this one will have.
	 */
	if (engine->record.epoch < engine->metadata->epoch_written && !MUTANT(ATTEMPTS_ALIKE))
		engine->record.epoch = engine->metadata->epoch_written;
	if (!MUTANT(EPOCH_FOUND) || engine->options.take_over_ms == 0)
		engine->record.epoch +=
			geometry_can_split_replaced(&engine->geometry) ? EPOCH_STEP : 1;
	engine->assembly->recorded_found = roles_found_recorded(engine, newest);
	engine->record.clean = false;
	snprintf(engine->record.owner, sizeof(engine->record.owner), "%s", engine->options.owner);
	engine->metadata->left_at_start =
		newest->undecided_roles & geometry_lowest(engine->geometry.members);
	memcpy(engine->metadata->other_at_start, newest->other_holder, 16);
	engine->out = 0;
	engine->missing = 0;
	for (int i = 0; i < IRAID_MEMBERS_MAX; i++)
		engine->by_role[i] = NULL;
	return 0;
}

/* Nobody is in sync in this place.  If the last superblocks still counted on somebody, what is
 * dirty now is all that one lacks.
 */
static void
leave_vacant(struct engine *engine, int role, uint32_t distrusted)
{
	engine->out |= ROLE(role);
	engine->missing |= ROLE(role);
	engine->absence[role] = (struct absence){
		.since_ms = engine->now_ms,
		.held = engine->record.member_states[role] == MEMBER_IN_SYNC &&
			!(distrusted & ROLE(role)),
		.doubts = 0, /* those of the map are the first */
	};
	if (engine->record.member_states[role] != MEMBER_IN_SYNC)
		return;
	engine->metadata->left_at_start |= ROLE(role);
	engine->record.member_states[role] = MEMBER_MISSING;
	if (!(distrusted & ROLE(role)))
		place_track(engine, role, engine->record.member_uuids[role], MEMBER_OUT_OF_DATE,
			    engine->record.write_counts[role]);
}

/* A device that was never reached is shown in the vacant place nobody else claims; it may be
 * another.
 */
static void
show_absent(struct engine *engine, int role)
{
	for_each_member(engine, member)
		if (!member->in_sync && member->role == role)
			return;
	for_each_member(engine, member)
		if (member->role < 0 && member->presence == PRESENCE_AWAITED) {
			member->role = role;
			return;
		}
}

/* A member that took its place is tracked until the superblocks after those that gave it say
 * otherwise, and with it others that had the place (target.c).  They have it no more.
 */
void
assemble_forget_taken(struct engine *engine)
{
	const struct superblock *record = &engine->record;

	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		const int role = record->tracked[set].role;

		if (record->tracked[set].state != 0 && engine->by_role[role] != NULL &&
		    memcmp(record->tracked[set].member_uuid, record->member_uuids[role], 16) == 0)
			place_untrack(engine, set);
	}
}

/* Is what was found on it, when an earlier assembly of this start took it, what counts? Not what
 * that one wrote.
 */
static bool
is_our_writing(const struct member *member)
{
	const struct superblock *own = &member->superblock;
	const struct taken_as *taken = &member->taken_as;

	return taken->known && memcmp(taken->uuid, own->member_uuid, 16) == 0 &&
	       own->write_count >= taken->write_count &&
	       own->epoch <= member->engine->metadata->epoch_written;
}

static void
note_taken(struct member *member)
{
	member->taken_as = (struct taken_as){
		.known = member->in_sync && !member->forced,
		.epoch = member->superblock.epoch,
		.event = member->superblock.event,
		.write_count = member->superblock.write_count,
		.copy_lost = member->copy_lost,
	};
	memcpy(member->taken_as.uuid, member->superblock.member_uuid, 16);
}

static void
place_members(struct engine *engine, const struct assembly_verdict *verdict)
{
	for_each_member(engine, member) {
		const int slot = member->slot;

		member->role = verdict->role[slot];
		member->standing = verdict->standing[slot];
		member->stale_set = verdict->stale_set[slot];
		member->in_sync =
			member->standing == STANDING_IN_SYNC ||
			(MUTANT(STALE_TRUSTED) && member->standing == STANDING_OUT_OF_DATE);
		member->checked = member->in_sync;
		/* What sessions of earlier attempts may have taken along was nobody's data. */
		member->cache_lost &= MUTANT(ATTEMPT_DOUBTED);
		member->cache_in_doubt &= MUTANT(ATTEMPT_DOUBTED);
		member->cache_kept |= member->in_sync && !MUTANT(FIRST_SESSION_COUNTS);
		member->went_back = verdict->went_back[slot] && !member->in_sync;
		member->forced = verdict->forced[slot];
		if (!is_our_writing(member))
			note_taken(member);
		member->excluded = !member->in_sync && member->stale_set >= 0 &&
				   engine->record.tracked[member->stale_set].state == MEMBER_FAULTY;
		if (!member->in_sync) {
			if (member->reason[0] == '\0' && verdict->fault[slot] != NULL)
				member_note(member, "%s", verdict->fault[slot]);
			continue;
		}
		engine->by_role[member->role] = member;
		engine->record.member_states[member->role] = MEMBER_IN_SYNC;
		engine->metadata->left_at_start &= ~ROLE(member->role);
	}
	assemble_forget_taken(engine);
	for (int role = 0; role < engine->geometry.members; role++)
		if (engine->by_role[role] == NULL) {
			leave_vacant(engine, role, verdict->distrusted);
			show_absent(engine, role);
		}
}

/* It fits what its own superblock says, and not the volume: that has grown since, or the device has
 * shrunk.  The others may do without.
 */
static bool
all_fit(struct engine *engine)
{
	bool fit = true;

	for_each_member(engine, member) {
		if (!member->in_sync || place_unchanged(engine, member))
			continue;
		place_misfits(engine, member);
		fit = false;
	}
	return fit;
}

/* The largest operation has two partial rows that read every chunk, and parity for OP_BYTES_MAX of full
 * ones (docs/design/memory.md).  So much is kept for those who make room in the write log: who waits for
 * that room may have all the rest.
 */
static int
make_arena(struct engine *engine)
{
	const uint64_t largest =
		2ull * (engine->geometry.members + 4) * engine->geometry.chunk_bytes +
		3ull * OP_BYTES_MAX;
	const uint64_t wanted =
		engine->options.buffer_bytes_max ? engine->options.buffer_bytes_max : 64ull << 20;

	return arena_init(&engine->arena, wanted > largest ? wanted : largest, largest);
}

static int
prepare_memory(struct engine *engine, uint64_t region_rows)
{
	row_table_destroy(engine->rows);
	engine->rows = row_table_create(engine->geometry.redundancy > 0 && !MUTANT(ROWS_SHARED));
	arena_destroy(&engine->arena);
	if (engine->rows == NULL || make_arena(engine) != 0)
		return -ENOMEM;
	if (resync_init(engine) != 0 || rebuild_init(engine) != 0 || scrub_init(engine) != 0 ||
	    repair_init(engine) != 0 || lost_io_init(engine) != 0 || row_cache_init(engine) != 0)
		return -ENOMEM;
	return intent_init(&engine->intent, engine->geometry.rows, (uint32_t)region_rows);
}

static void
begin_start(struct engine *engine, const struct assembly_verdict *verdict)
{
	if (!takeover_may_begin(engine, verdict))
		return;
	engine->assembly->resumed =
		(engine->members[verdict->newest].superblock.epoch == engine->options.epoch_seen &&
		 !engine->assembly->record_lost) ||
		MUTANT(PREDECESSOR_KEPT);
	if (adopt(engine, verdict) != 0) {
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason),
			 "level %u with %u members is not supported by this version",
			 engine->record.level, engine->record.member_count);
		return;
	}
	place_members(engine, verdict);
	takeover_begin(engine);
	if (!all_fit(engine)) {
		attempt_disown_members(engine);
		engine->activity++; /* so that who is left is looked at */
		return;
	}
	engine->data_offset_bytes = engine->record.areas[AREA_DATA - 1].offset_bytes;
	if (prepare_memory(engine, engine->record.region_rows) != 0) {
		if (!MUTANT(ASSEMBLY_UNRETRIED))
			/* members have said all: nothing else would wake us */
			attempt_again(engine, "out of memory");
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason), "out of memory");
		return;
	}
	engine->assembly->refused = false;
	engine->reason[0] = '\0';
	load_begin(engine);
}

/* A copy that was refused may be the newer one: where the others don't suffice, it is asked for
 * again.  Not while both are being read: each answer would ask for two more, for ever.
 */
static void
examine_refused_again(struct engine *engine)
{
	for_each_member(engine, member)
		if (member->examine_again_ms != 0 && engine->now_ms >= member->examine_again_ms &&
		    (member->examining == 0 || MUTANT(LOOKED_AT_MEANWHILE)))
			place_examine(member);
}

static bool
is_looking_again(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].examining > 0 &&
		    engine->members[i].presence == PRESENCE_EXAMINED)
			return true;
	return false;
}

/* Where targets know no reservations, another gateway may have had the volume since a member's
 * superblocks were read, or has it: they are read again, once, before anything is made of them.  Where
 * they know them, who is accused may have been taken back meanwhile by the gateway that is taken over.
 * Not when this start has written some: those name this gateway.
 */
static bool
read_again(struct engine *engine, uint64_t since_ms, uint32_t age_ms,
	   const struct assembly_verdict *accused)
{
	bool any = false;

	for_each_member(engine, member)
		if (member->presence == PRESENCE_EXAMINED && member->link == LINK_OPEN &&
		    !member->leaving && (accused != NULL || !member->identity.reservation) &&
		    engine->metadata->epoch_written == 0 &&
		    member->examined_ms + age_ms < since_ms &&
		    (accused == NULL || accused->went_back[member->slot])) {
			place_examine(member);
			any = true;
		}
	return any;
}

/* Who is there since tells of writes that another one had not had, when that was read. */
static bool
hears_accused(struct engine *engine, const struct assembly_verdict *verdict)
{
	return !MUTANT(ACCUSED_UNHEARD) && read_again(engine, engine->places->heard_ms, 0, verdict);
}

/* However long that takes, it is done once for each start that is tried. */
static bool
brought_up_to_date(struct engine *engine)
{
	if (!engine->assembly->read_again && !MUTANT(OUTDATED_TAKEN))
		engine->assembly->read_again =
			read_again(engine, engine->now_ms, OUTDATED_MS, NULL);
	else
		engine->assembly->read_again = false;
	return !engine->assembly->read_again;
}

/* Nobody heard yet what it is, and its first log-in (by each of its paths) may still be answered.
 */
static bool
is_unheard(const struct member *member)
{
	const int paths = member->backend->paths > 1 ? member->backend->paths : 1;

	return member->presence == PRESENCE_AWAITED && !member->leaving &&
	       member->looks_failed < paths;
}

/* It may be about to say who it is: nobody knows yet whether it answers, or it does, slowly. */
static bool
is_about_to_say(const struct member *member)
{
	return is_unheard(member) || (member->presence == PRESENCE_AWAITED && !member->leaving &&
				      member->link == LINK_OPEN && member->examining > 0);
}

/* From when there are enough.  Where another half may be missing, a device of it may know that
 * those that are there are out, and who has the volume: to start without it would lose what only it
 * holds, unless this gateway remembers.  Each of the two reads that say who a device is has its
 * session's deadline.  Where all places are taken no half is missing.
 */
static uint32_t
start_wait_ms(const struct engine *engine, const struct assembly_verdict *verdict)
{
	const uint32_t limit_ms = engine->options.assembly_wait_ms;
	const bool half_missing = verdict->answer == ASSEMBLY_DEGRADED && verdict->other_half;

	for (int i = 0; i < engine->slots && half_missing; i++)
		if (engine->members[i].backend != NULL && is_about_to_say(&engine->members[i]) &&
		    !MUTANT(SLOW_NOT_AWAITED))
			return limit_ms + 2 * engine->options.give_up_ms;
	return limit_ms;
}

/* Another gateway has it, as far as it has said. */
static bool
says_held(const struct member *member)
{
	return member->presence == PRESENCE_AWAITED && member->close_error == -EBUSY;
}

/* Its last word stands while it is asked again. */
static bool
any_held(struct engine *engine)
{
	for_each_member(engine, member)
		if (says_held(member) && member->link != LINK_OPEN)
			return true;
	return false;
}

/* Also when all places are taken: of a member and its copy, the copy may only have been the first
 * to answer.
 */
static bool
may_begin(struct engine *engine, const struct assembly_verdict *verdict)
{
	const enum assembly_answer answer = verdict->answer;
	bool unheard = false;

	for_each_member(engine, member)
		unheard |= answer == ASSEMBLY_READY && is_unheard(member) &&
			   !MUTANT(FIRST_TO_ANSWER_TAKEN);
	if (answer != ASSEMBLY_DEGRADED && !unheard) {
		engine->assembly->startable_ms = 0;
		return answer == ASSEMBLY_READY;
	}
	if (engine->assembly->startable_ms == 0)
		engine->assembly->startable_ms = engine->now_ms;
	engine->assembly->startable_wait_ms = start_wait_ms(engine, verdict);
	if (engine->now_ms - engine->assembly->startable_ms >= engine->assembly->startable_wait_ms)
		return true;
	if (engine->assembly->held)
		return false;
	snprintf(engine->reason, sizeof(engine->reason), "%s",
		 unheard ? "waiting for devices that have not said yet what "
			   "they are"
			 : "waiting for absent members");
	return false;
}

/* It was asked when it was not to be taken yet, and says nothing about that. */
static bool
was_only_asked(const struct member *member)
{
	return member->backend->waits_to_take;
}

static void
take_soon(struct member *member)
{
	if (member->retry_ms <= member->engine->now_ms)
		return;
	member->retry_ms = member->engine->now_ms;
	member->engine->activity++;
}

/* A take-over that can't succeed must not take anything: whoever has the volume could not tell a
 * member that was taken from one that lost power, and what it cached there would be in doubt.
 */
static void
end_waiting_to_take(struct engine *engine)
{
	int there = 0;

	for_each_member(engine, member)
		there += member->presence == PRESENCE_EXAMINED ||
			 (says_held(member) && member->link != LINK_OPEN);
	if (there < engine->options.members_needed && takeover_allowed(engine)) {
		snprintf(engine->reason, sizeof(engine->reason),
			 "%d of %d members that are needed answer: none is taken from another "
			 "gateway before they do",
			 there, engine->options.members_needed);
		return;
	}
	engine->places->waits_to_take = false;
	for_each_member(engine, member)
		if (says_held(member) && member->link == LINK_CLOSED)
			take_soon(member);
}

static void
say_why(struct engine *engine, const struct assembly_verdict *verdict)
{
	engine->assembly->refused = verdict->answer == ASSEMBLY_REFUSED;
	if (verdict->reason[0] != '\0') /* else may_begin() has said it */
		snprintf(engine->reason, sizeof(engine->reason), "%s", verdict->reason);
}

static void
examine_run(struct engine *engine)
{
	struct assembly_input input = {
		.count = engine->slots,
		.volume_uuid = engine->options.volume_uuid,
		.epoch_seen = engine->options.epoch_seen,
		.epoch_before = engine->places->epoch_before,
		.force = load_may_force(engine),
	};
	struct assembly_verdict verdict;

	if (is_looking_again(engine))
		return;
	engine->assembly->held = any_held(engine);
	if (engine->places->waits_to_take)
		end_waiting_to_take(engine);
	for_each_member(engine, member) {
		input.presence[member->slot] = member->presence;
		input.superblocks[member->slot] = &member->superblock;
		input.copy_lost[member->slot] = member->copy_lost;
		input.said[member->slot] = member->said;
		input.unsteady[member->slot] = attempt_is_unsteady(member);
		if ((member->presence == PRESENCE_EXAMINED ||
		     member->presence == PRESENCE_MISFIT) &&
		    is_our_writing(member))
			input.found[member->slot] = member->taken_as;
		if (says_held(member) && member->link == LINK_CLOSED) {
			if (was_only_asked(member)) {
				if (!engine->places->waits_to_take)
					take_soon(member);
				return;
			}
			engine->assembly->refused = true;
			snprintf(engine->reason, sizeof(engine->reason),
				 "member %.100s: %.70s; stop it there, or start with --take-over "
				 "if that gateway is dead",
				 member->backend->label, member->reason);
			return;
		}
	}
	assembly_decide(&input, &verdict);
	if (hears_accused(engine, &verdict))
		return;
	if (may_begin(engine, &verdict)) {
		if (!brought_up_to_date(engine))
			return; /* who was refused stays so meanwhile */
		engine->assembly->refused = false;
		engine->reason[0] = '\0';
		begin_start(engine, &verdict);
	} else {
		engine->assembly->read_again = false;
		if (!engine->assembly->held)
			say_why(engine, &verdict);
	}
	if (engine->phase == PHASE_EXAMINE)
		examine_refused_again(engine);
}

/* Behind this start, or beyond what it knows: then it went on without those that were chosen. */
static bool
has_another_past(const struct member *member)
{
	return member->standing == STANDING_OUT_OF_DATE ||
	       (member->standing == STANDING_OBSOLETE && member->role >= 0 && !member->went_back &&
		!MUTANT(GONE_ON_UNHEARD));
}

/* It came too late, and would be in sync if this start had not chosen without it. */
static bool
is_late(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->backend != NULL && !member->in_sync && !member->evicting &&
	       member->link == LINK_OPEN && member->examining == 0 && has_another_past(member) &&
	       (engine->missing & ROLE(member->role)) && engine->absence[member->role].held &&
	       memcmp(member->uuid, engine->record.member_uuids[member->role], 16) == 0;
}

/* What is under way on some session may be in its next superblock as well. */
static bool
is_any_sent(const struct engine *engine)
{
	int waiting = 0;

	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend == NULL)
			continue;
		for (const struct list *node = member->parked.next; node != &member->parked;
		     node = node->next)
			waiting +=
				list_entry(node, struct member_io, node)->policy == IO_SUPERBLOCK;
	}
	return waiting < engine->metadata->pending;
}

/* Some refuse their superblocks, or have gone, and can't all be spared, while one that came too
 * late could make up for them: nothing was acknowledged yet, so all may be looked at again.  Who
 * has gone may be back at once.
 */
static bool
had_better_wait(const struct engine *engine)
{
	const bool refused = engine->metadata->pending == 0 && engine->evicting == 0 &&
			     engine->now_ms < engine->metadata->retry_ms;
	const bool stalled =
		engine->now_ms - engine->phase_since_ms >= engine->options.give_up_ms &&
		!MUTANT(CHOSEN_AWAITED);

	if (engine->phase != PHASE_WRITE_SUPERBLOCKS ||
	    engine->metadata->durable >= engine->metadata->wanted || engine->fenced ||
	    (!refused && !stalled) || is_any_sent(engine))
		return false;
	for (int i = 0; i < engine->slots; i++)
		if (is_late(&engine->members[i]))
			return true;
	return false;
}

/* Nothing that was decided counts: another gateway has begun something, or has done it.  What is under
 * way on some session ends first.
 */
static bool
another_was_met(const struct engine *engine)
{
	return engine->places->another_met && engine->phase == PHASE_WRITE_SUPERBLOCKS &&
	       !engine->fenced && !is_any_sent(engine);
}

/* Its epoch is remembered, and what the gateway before might answer is over: nobody else is to be
 * asked any more, and a next start has nothing to wait for.
 */
static bool
is_said_to_be_decided(struct engine *engine)
{
	engine->metadata->left_at_start = 0;
	engine->metadata->roles_to_hear = 0;
	memset(engine->metadata->other_at_start, 0, 16);
	metadata_decided(engine);
	return engine->metadata->durable >= engine->metadata->wanted;
}

static void
begin_running(struct engine *engine)
{
	takeover_name_predecessor(engine);
	replay_free(engine);
	engine->reason[0] = '\0';
	life_enter(engine, PHASE_RUNNING);
	if (engine->record.log_key != 0 && !write_log_on(engine))
		write_log_open(engine);
	flush_what_was_left(engine);
	engine_event(engine, EVENT_ASSEMBLED, LOG_NOTICE, NULL,
		     "assembled: epoch %llu, %d of %d members in sync",
		     (unsigned long long)engine->record.epoch,
		     engine->geometry.members - __builtin_popcount(engine->out),
		     engine->geometry.members);
	place_all(engine);
	scrub_assembled(engine);
}

void
assemble_run(struct engine *engine)
{
	if (had_better_wait(engine))
		attempt_again(engine,
			      "a member refuses its superblock, or is silent, and another is back");
	else if (takeover_loses(engine) && !is_any_sent(engine))
		takeover_goes_back(engine);
	else if (another_was_met(engine))
		attempt_again(engine, "a member was written by another gateway meanwhile");
	if (engine->phase == PHASE_EXAMINE && engine->now_ms >= engine->assembly->not_before_ms)
		examine_run(engine);
	load_run(engine);
	if (engine->phase == PHASE_WRITE_SUPERBLOCKS && engine->metadata->wanted > 0 &&
	    engine->metadata->durable >= engine->metadata->wanted &&
	    engine->now_ms >= engine->assembly->not_before_ms && takeover_is_heard(engine) &&
	    attempt_remember_epoch(engine) &&
	    (takeover_lease_is_over(engine) || MUTANT(DECIDED_IN_THE_LEASE)) &&
	    is_said_to_be_decided(engine) && takeover_lease_is_over(engine)) {
		if (engine->record.log_key != 0 && !MUTANT(LOG_UNREPLAYED))
			replay_begin(engine);
		else
			begin_running(engine);
	}
	if (engine->phase == PHASE_REPLAY && replay_done(engine))
		begin_running(engine);
}

uint64_t
assemble_deadline(const struct engine *engine)
{
	uint64_t limit = engine->assembly->started_ms + engine->options.assembly_limit_ms;
	uint64_t deadline = engine->now_ms < limit ? limit : UINT64_MAX;

	if (engine->phase != PHASE_EXAMINE && engine->phase != PHASE_WRITE_SUPERBLOCKS)
		return takeover_deadline(engine);
	if (engine->now_ms < engine->assembly->not_before_ms)
		return engine->assembly->not_before_ms;
	if (engine->phase != PHASE_EXAMINE &&
	    engine->now_ms < engine->phase_since_ms + engine->options.give_up_ms &&
	    engine->phase_since_ms + engine->options.give_up_ms < takeover_deadline(engine))
		return engine->phase_since_ms + engine->options.give_up_ms;
	if (engine->phase != PHASE_EXAMINE)
		return takeover_deadline(engine);
	/* Once that has passed, it is something else that keeps it from starting. */
	if (engine->assembly->startable_ms != 0 &&
	    engine->assembly->startable_ms + engine->assembly->startable_wait_ms > engine->now_ms &&
	    engine->assembly->startable_ms + engine->assembly->startable_wait_ms < deadline)
		deadline = engine->assembly->startable_ms + engine->assembly->startable_wait_ms;
	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend != NULL && member->examine_again_ms > engine->now_ms &&
		    member->examine_again_ms < deadline)
			deadline = member->examine_again_ms;
	}
	return deadline;
}
