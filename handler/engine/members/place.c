/* place.c - what a device is: its superblock or spare's mark, judged under the volume's record.
 *
 * While the volume assembles, that is noted for assembly_decide().  Under a running volume:
 *
 *	in sync, session restored	goes on, if it is still the one it was
 *	out of date, rebuilding		waits for rebuild.c to fill it, by the regions that are stale on it
 *	obsolete			has to be filled anew, if nobody took its place
 *	spare				waits for a place
 *
 * record.tracked[] remembers who may catch up, docs/design/members.md has the whole table of
 * states.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>

#define EXAMINE_AGAIN_MS 1000u

/* --- who is tracked --- */

static int
free_set(const struct engine *engine)
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (engine->record.tracked[set].state == 0 &&
		    !(engine->places->forgetting & REGION_STALE(set)) &&
		    (engine->target == NULL || engine->target->stale_set != set))
			return set;
	return -1;
}

static int
find_set(const struct engine *engine, const uint8_t uuid[16])
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (engine->record.tracked[set].state != 0 &&
		    memcmp(engine->record.tracked[set].member_uuid, uuid, 16) == 0)
			return set;
	return -1;
}

int
place_set_for(const struct engine *engine, const uint8_t uuid[16])
{
	int set = find_set(engine, uuid);

	return set >= 0 ? set : free_set(engine);
}

bool
place_tracked(const struct engine *engine, const uint8_t uuid[16])
{
	return find_set(engine, uuid) >= 0;
}

int
place_track(struct engine *engine, int role, const uint8_t uuid[16], enum member_state state,
	    uint64_t write_count)
{
	int set = find_set(engine, uuid);

	if (set >= 0 && write_count == 0)
		write_count = engine->record.tracked[set].write_count;
	if (set < 0)
		set = free_set(engine);
	if (set < 0)
		return -1;
	engine->record.tracked[set] = (struct tracked_member){
		.role = (uint8_t)role,
		.state = state,
		/* Who is absent when the volume is assembled left under the last one. */
		.epoch = engine->phase == PHASE_EXAMINE ? engine->places->epoch_found
							: engine->record.epoch,
		.write_count = write_count,
	};
	memcpy(engine->record.tracked[set].member_uuid, uuid, 16);
	return set;
}

void
place_record_target(struct engine *engine)
{
	const struct member *target = engine->target;
	struct tracked_member *tracked = &engine->record.tracked[target->stale_set];

	/* What is known of one that was tracked stays known: it may go before it is sent the next
	 * superblock.
	 */
	if (memcmp(tracked->member_uuid, target->uuid, 16) != 0 || MUTANT(TARGET_COUNT_FORGOTTEN))
		*tracked = (struct tracked_member){ 0 };
	tracked->role = (uint8_t)target->role;
	tracked->state = MEMBER_REBUILDING;
	memcpy(tracked->member_uuid, target->uuid, 16);
}

void
place_untrack(struct engine *engine, int set)
{
	if (set >= 0)
		engine->record.tracked[set] = (struct tracked_member){ 0 };
}

void
place_disbelieve(struct engine *engine, int role)
{
	lost_unhold(engine->lost, (uint8_t)role);
	if (!MUTANT(UNHELD_ON_RECORD_ONLY))
		engine->absence[role].held = engine->absence[role].accepted = false;
}

/* The other way round, a crash in between would leave a member on record that seems to lack
 * nothing.
 */
void
place_forget(struct engine *engine, uint8_t stale)
{
	/* what it lacks is marked until nobody has it on record any more */
	if (MUTANT(REMOVED_UNMARKED))
		engine->intent.absent &= (uint8_t)~stale;
	if (MUTANT(FORGET_AT_ONCE))
		intent_forget(&engine->intent, stale);
	engine->places->forgetting |= stale;
	engine->places->forget_record = metadata_commit(engine);
}

/* It lost what it had acknowledged, and may wait for long to be filled: a gateway that starts anew
 * has not heard it, and goes by these.
 */
static void
record_doubt(struct member *member)
{
	struct engine *engine = member->engine;

	if (MUTANT(COPIED_UNDOUBTED))
		return;
	intent_lacks_all(&engine->intent, REGION_STALE(member->stale_set));
	if (memcmp(member->uuid, engine->record.member_uuids[member->role], 16) == 0)
		place_disbelieve(engine, member->role);
	engine->activity++;
}

/* It said so on its way out, or when it was out.  Perhaps it is not looked at again before a
 * gateway starts anew.
 */
static void
record_doubts(struct engine *engine)
{
	for_each_member(engine, member) {
		const int set = member->stale_set;

		if (!member->doubted || member->in_sync || member->evicting ||
		    member == engine->target || set < 0 || MUTANT(DOUBT_UNRECORDED) ||
		    MUTANT(DOUBT_RECORDED_LATE))
			continue;
		if (find_set(engine, member->uuid) == set &&
		    intent_stale(&engine->intent, REGION_STALE(set)) < engine->intent.regions)
			record_doubt(member);
	}
}

void
place_run(struct engine *engine)
{
	if (engine->phase == PHASE_RUNNING)
		record_doubts(engine);
	if (engine->places->forgetting == 0 ||
	    !metadata_known(engine, engine->places->forget_record))
		return;
	intent_forget(&engine->intent, engine->places->forgetting);
	engine->places->forgetting = 0;
	engine->activity++;
}

/* --- all sets are taken --- */

static bool
is_holder(const struct engine *engine, int set)
{
	const struct tracked_member *tracked = &engine->record.tracked[set];

	return memcmp(tracked->member_uuid, engine->record.member_uuids[tracked->role], 16) == 0;
}

static bool
is_at_hand(struct engine *engine, int set)
{
	for_each_member(engine, member)
		if (member->stale_set == set && member->link == LINK_OPEN)
			return true;
	return false;
}

/* What is lost with the set; the least is given up.  One that was being filled and is away has
 * begun only; whose place is to be taken loses it anyway; and one that was taken out must not come
 * back by itself.
 */
static int
worth(struct engine *engine, int set, int role)
{
	const struct tracked_member *tracked = &engine->record.tracked[set];

	if (!is_holder(engine, set) && !is_at_hand(engine, set))
		return 0;
	if (tracked->role == role)
		return 1;
	return 2 + is_at_hand(engine, set) + 2 * (tracked->state == MEMBER_FAULTY);
}

/* Should it come back, or is it there, it is filled from the start. */
static void
forget_set(struct engine *engine, int set)
{
	for_each_member(engine, member) {
		if (member->stale_set != set)
			continue;
		member->stale_set = -1;
		if (member->standing == STANDING_OUT_OF_DATE ||
		    member->standing == STANDING_REBUILDING)
			member->standing = STANDING_OBSOLETE;
	}
	place_untrack(engine, set);
	place_forget(engine, REGION_STALE(set));
}

static void
give_tracking_up(struct engine *engine, int set)
{
	engine_log(engine, LOG_NOTICE,
		   "what a device lacks that was role %u is not kept any more, for another is to "
		   "be filled",
		   engine->record.tracked[set].role);
	forget_set(engine, set);
}

/* What the record says a device of this UUID lacks is not all that it lacks, and it may be attached
 * anew, or found by the next start, which know nothing of that: so the record says it no more, nor
 * that it holds what is lost.  Who was taken out waits for an administrator as long as it is
 * there.  A replacement whose place is another's would be nobody without its set; it keeps it.
 */
static void
forget_doubtful(struct engine *engine, const uint8_t uuid[16])
{
	const int set = find_set(engine, uuid);

	if (set < 0 || !is_holder(engine, set) || MUTANT(DOUBTFUL_TRACKED))
		return;
	for_each_member(engine, member)
		if (member->stale_set == set && (member->evicting || member == engine->target))
			return; /* a third one, which it speaks of */
	for_each_member(engine, member)
		if (memcmp(member->uuid, uuid, 16) == 0)
			member->excluded |= engine->record.tracked[set].state == MEMBER_FAULTY;
	if (engine->lost != NULL)
		place_disbelieve(engine, engine->record.tracked[set].role);
	forget_set(engine, set);
}

/* Perhaps by devices that are gone for good, and nobody is to wait for those. */
bool
place_make_room(struct engine *engine, const struct member *member, int role)
{
	int least = 0;

	if (MUTANT(SETS_ALL_TAKEN))
		return free_set(engine) >= 0;
	if (place_set_for(engine, member->uuid) >= 0)
		return true;
	for (int set = 1; set < LAYOUT_STALE_SETS; set++)
		if (worth(engine, set, role) < worth(engine, least, role))
			least = set;
	if (engine->places->forgetting == 0) /* else one is free soon */
		give_tracking_up(engine, least);
	return false;
}

/* --- a device under a running volume --- */

static uint64_t
place_needed_bytes(const struct engine *engine, const struct member *member)
{
	uint64_t used = layout_end_bytes(engine->record.areas);

	return used > member->superblock.member_bytes ? used : member->superblock.member_bytes;
}

bool
place_unchanged(const struct engine *engine, const struct member *member)
{
	return member->identity.block_bytes == engine->geometry.block_bytes &&
	       member->identity.capacity_bytes >= place_needed_bytes(engine, member);
}

static void
note_shape(struct member *member, uint64_t needed_bytes, uint32_t block_bytes)
{
	member_note(member,
		    "has changed: %llu bytes in blocks of %u, the volume needs %llu in blocks of "
		    "%u: make it as it was, or replace it",
		    (unsigned long long)member->identity.capacity_bytes,
		    member->identity.block_bytes, (unsigned long long)needed_bytes, block_bytes);
}

void
place_misfits(const struct engine *engine, struct member *member)
{
	note_shape(member, place_needed_bytes(engine, member), engine->geometry.block_bytes);
	member->verdict = SUPERBLOCK_UNSUPPORTED;
	member->presence = MUTANT(MISFIT_NEEDED) ? PRESENCE_EXAMINED : PRESENCE_MISFIT;
}

/* Its superblock is older than what it acknowledged to us.  By one write it may be, if the newest
 * copy can't be read.
 */
static bool
is_older(const struct member *member)
{
	const uint64_t at_most = member->superblock.write_count +
				 (member->copy_lost || MUTANT(RETURNED_BY_ONE_TRUSTED));

	return at_most < member->write_count && !MUTANT(RETURNED_OLDER_TRUSTED);
}

/* What it holds of itself does not fit into what it says to be: it can't be used, and the others
 * can.
 */
static bool
fits_itself(struct member *member)
{
	uint64_t needed = layout_end_bytes(member->superblock.areas);

	if (member->identity.block_bytes == member->superblock.block_bytes &&
	    member->identity.capacity_bytes >= needed)
		return true;
	note_shape(member, needed, member->superblock.block_bytes);
	return false;
}

/* It says that it is out, or that its place is another's: a take-over told it, in this gateway's own words
 * (takeover.c).  This gateway tells the first nobody whom it has in sync, or has not sent away yet; the
 * second it tells who gives a place away, and one such write may not have been answered.
 */
static bool
was_told_out(const struct member *member, const struct superblock *superblock)
{
	const int role = member->role;
	const bool replaced = memcmp(superblock->member_uuids[role], member->uuid, 16) != 0 &&
			      !MUTANT(REPLACED_TAKEN_BACK);

	return superblock->write_count > member->write_count + replaced &&
	       (superblock->member_states[role] != MEMBER_IN_SYNC || replaced) &&
	       !MUTANT(OWN_WORDS_TRUSTED);
}

/* This gateway has written it, or nobody has since this start found it.  An epoch says nothing: that of
 * another start may be lower, if this gateway has tried more often.
 */
static bool
is_as_left(const struct member *member, const struct superblock *superblock)
{
	const struct engine *engine = member->engine;
	const struct taken_as *found = &member->taken_as;
	const bool before = superblock->epoch != found->epoch ? superblock->epoch < found->epoch
							      : superblock->event <= found->event;

	return (superblock->write_count <= found->write_count && before) ||
	       (strcmp(superblock->owner, engine->options.owner) == 0 &&
		!was_told_out(member, superblock)) ||
	       (superblock->owner[0] == '\0' && engine->phase >= PHASE_LAST_SUPERBLOCKS) ||
	       MUTANT(LEFT_TO_ANOTHER);
}

static bool
same_member(const struct member *member, const struct superblock *superblock)
{
	const struct superblock *record = &member->engine->record;

	return is_as_left(member, superblock) &&
	       memcmp(superblock->volume_uuid, record->volume_uuid, 16) == 0 &&
	       superblock->role == member->role &&
	       memcmp(superblock->member_uuid, member->uuid, 16) == 0 &&
	       (superblock->epoch < record->epoch ||
		(superblock->epoch == record->epoch && superblock->event <= record->event) ||
		MUTANT(RESTORED_NEWER_SUPERBLOCK));
}

/* Its reservation outlived the lost session, so its cache did. */
static void
settle_cache(struct member *member)
{
	if (member->cache_in_doubt && member->cache_kept)
		member->cache_lost = false;
	member->cache_in_doubt = false;
	member->cache_kept = true;
}

/* A cache may be lost: nobody knows which of the rows that were not flushed still fit; nor, if this
 * member was sent no flushes, of those that the others flushed.
 */
static void
suspect_unflushed(struct engine *engine, const struct member *member)
{
	/* A cache that was switched off since has what the gateway before left there, and nothing
	 * of what was written since the start.
	 */
	const bool left = !member->cached && !member->doubted && !MUTANT(LEFT_TAKES_WRITTEN);
	const bool missing = engine->missing != 0, bare = engine_bare(engine);
	uint32_t whole;

	if (member->flushes_void && !MUTANT(FLUSH_COVERS_UNSENT))
		intent_flushes_void(&engine->intent);
	whole = left || MUTANT(CACHE_TAKES_LEFT_ONLY)
			? intent_suspect_left(&engine->intent, missing, bare)
			: intent_suspect_dirty(&engine->intent, missing, bare);
	if (whole > 0)
		engine_log(
			engine, LOG_WARNING,
			"which rows of %u regions were written is not known: all of them count as "
			"unproven",
			whole);
}

/* It is who it was, and another gateway has had it since. */
static bool
was_used_elsewhere(const struct member *member)
{
	const struct superblock *own = &member->superblock, *record = &member->engine->record;

	return member->verdict == SUPERBLOCK_OK &&
	       memcmp(own->volume_uuid, record->volume_uuid, 16) == 0 &&
	       memcmp(own->member_uuid, member->uuid, 16) == 0 &&
	       (was_told_out(member, own) ||
		(own->epoch != record->epoch ? own->epoch > record->epoch
					     : own->event > record->event));
}

/* If nothing goes on without it, this gateway has lost the volume.  The log-in may have reserved
 * it, while the other one was being started anew: that would be refused as long as the reservation
 * stays, even if this one was stopped long ago.
 */
static void
came_back_as_another(struct member *member)
{
	member_note(member, "came back with another superblock than it had");
	if (member->engine->phase == PHASE_WRITE_SUPERBLOCKS &&
	    !is_as_left(member, &member->superblock)) {
		member->engine->places->another_met = true;
		member_close(member);
		return;
	}
	member->anothers = was_used_elsewhere(member) && !evict_spares(member->engine, member);
	if (member->anothers && !MUTANT(LOST_VOLUME_RESERVED))
		evict_give_back(member);
	else
		evict_condemn(member);
}

static void
session_restored(struct member *member)
{
	struct engine *engine = member->engine;

	if (!place_unchanged(engine, member) && !MUTANT(SHAPE_IGNORED)) {
		note_shape(member, place_needed_bytes(engine, member),
			   engine->geometry.block_bytes);
		evict_condemn(member);
		return;
	}
	if (member->verdict != SUPERBLOCK_OK || !same_member(member, &member->superblock)) {
		came_back_as_another(member);
		return;
	}
	if (member->disbelieved && !MUTANT(COPY_KEPT)) {
		member->went_back = true;
		member_note(member,
			    "is a copy, and older than the member: nothing on it is trusted");
		evict_condemn(member);
		return;
	}
	if (is_older(member)) {
		member->went_back = true;
		member_note(member,
			    "went back in time: write %llu of its superblock, it had acknowledged "
			    "%llu (a snapshot, an image or a copy in its place?): nothing on it is "
			    "trusted, it is filled from the start",
			    (unsigned long long)member->superblock.write_count,
			    (unsigned long long)member->write_count);
		evict_condemn(member);
		return;
	}
	member->went_back = false;
	member->anothers = false;
	engine->places->restored_ms = engine_clock_ms(engine);
	settle_cache(member);
	if (member->cache_lost && engine->geometry.redundancy > 0 && !MUTANT(CACHE_FORGOTTEN)) {
		if (evict_makes_up_for_cache(engine, member)) {
			/* What it had not flushed may be gone, and the others have it. */
			member_note(member,
				    "may have lost what its cache held: it has to catch up");
			evict_condemn(member);
			return;
		}
		suspect_unflushed(engine, member);
	}
	member->flushes_void = false;
	if (member->evicting)
		evict_cancel(member);
	engine->cache_losses += member->cache_lost;
	if (member->cache_lost)
		flush_cache_lost(member);
	/* It is doubted once: that no flush has told of it yet says nothing of what the next
	 * session takes along.
	 */
	member->lacking |= member->cache_lost;
	member->cache_lost &= MUTANT(LOSS_DOUBTED_AGAIN);
	member->checked = true;
	member->opens_left = 0;
	if (!member->disputed)
		member->reason[0] = '\0';
	if (!member->held_known)
		engine_event(engine, EVENT_MEMBER_BACK, LOG_NOTICE, member,
			     "member %s: session restored", member->backend->label);
	member->held_known = member->held;
	evict_resume(member);
}

/* It was refused beside another device of its UUID, whoever answers there by now: perhaps it is a
 * copy, and lacks what was written before the member went.
 */
bool
place_was_one_of_two(const struct member *member)
{
	return memcmp(member->twin_uuid, member->uuid, 16) == 0 && !MUTANT(TWIN_UNREMEMBERED);
}

/* A device that is not in sync: what may become of it? */
static void
judge_outsider(struct member *member)
{
	struct engine *engine = member->engine;
	const bool twin = place_was_one_of_two(member);
	struct assembly_verdict verdict;

	if (member->verdict != SUPERBLOCK_OK) {
		member->standing = STANDING_UNKNOWN;
		return;
	}
	assembly_judge(&engine->record, &member->superblock, member->copy_lost, &verdict);
	member->standing = verdict.standing[0];
	member->stale_set = verdict.stale_set[0];
	member->role = verdict.role[0];
	/* what answers now, not what did before */
	member->went_back = verdict.went_back[0] || (member->went_back && MUTANT(IMAGE_REMEMBERED));
	if (member->standing == STANDING_UNKNOWN || member->standing == STANDING_IN_SYNC) {
		member->standing = STANDING_UNKNOWN;
		member_note(member, "%s",
			    verdict.fault[0] != NULL ? verdict.fault[0]
						     : "its superblock is newer than the volume's");
	} else if (member->stale_set >= 0 &&
		   engine->record.tracked[member->stale_set].state == MEMBER_FAULTY) {
		member->excluded = true;
		/* Nobody but this engine knows what for: no superblock says it. */
		member_note(member, "%s: it waits for an administrator",
			    member->excluded_for[0] != '\0'
				    ? member->excluded_for
				    : "faulty: it was taken out, by hand or for its errors");
	} else if (member->standing == STANDING_OBSOLETE && !twin) {
		member_note(member, "%s", verdict.fault[0]);
	} else if (twin) {
		member_note(member, "was there beside another device with its UUID: nothing on it "
				    "is trusted, it is filled from the start");
	} else {
		member_note(member, "reachable again, but out of date: it has to catch up");
	}
	if (member->doubted && member->stale_set >= 0 && !MUTANT(DOUBT_UNRECORDED))
		record_doubt(member);
	/* What it holds is not believed, nor do flags say what it lacks: regions were filled that
	 * it lost.  One that was being filled keeps its set, for the place may be another's, and
	 * gets all of it (target.c).
	 */
	member->went_back |=
		(member->doubted || twin) &&
		(member->standing == STANDING_REBUILDING || member->standing == STANDING_OBSOLETE);
	if ((member->doubted || twin) && member->standing == STANDING_OUT_OF_DATE) {
		member->went_back = true;
		if (twin)
			forget_doubtful(engine, member->uuid);
		member->stale_set = -1;
		member->standing = STANDING_OBSOLETE;
	}
}

/* It went during the assembly, after it had been examined. */
static bool
has_said(const struct member *member)
{
	return member->presence == PRESENCE_AWAITED && member->said;
}

/* It can't be used as it is now, but it was a member, or says so, and may be one again. */
static bool
is_unusable(const struct member *member)
{
	return (member->presence == PRESENCE_MISFIT || member->presence == PRESENCE_REJECTED) &&
	       !MUTANT(CHANGED_TWIN_FORGOTTEN);
}

/* Another device here has its UUID: a copy of the device, or the device by a second address.  NULL:
 * none.  A spare, which holds nothing, is no rival of a member.  One that was examined counts while
 * it is away, too, and when it has changed, or has lost its superblock: else of both, after a fault
 * that took both along, the first to be back were taken, and a copy that was made since the last
 * superblocks lacks more than the flags say.
 */
static struct member *
find_twin_of(const struct member *member)
{
	for_each_member(member->engine, other) {
		bool counts = other->in_sync || other->evicting ||
			      other == member->engine->target ||
			      (is_unusable(other) && member->presence != PRESENCE_SPARE) ||
			      ((other->presence == PRESENCE_EXAMINED || has_said(other)) &&
			       !MUTANT(ABSENT_TWIN_FORGOTTEN)) ||
			      (other->link == LINK_OPEN && other->examining == 0 &&
			       (other->presence == PRESENCE_EXAMINED ||
				(other->presence == PRESENCE_SPARE &&
				 member->presence == PRESENCE_SPARE)));

		if (other != member && counts && memcmp(other->uuid, member->uuid, 16) == 0)
			return other;
	}
	return NULL;
}

/* A spare's mark that names somebody who has a place, by mistake or because the LUN was copied. */
static int
place_named_by_mark(const struct member *member)
{
	const struct superblock *record = &member->engine->record;

	for (int role = 0; role < record->member_count; role++)
		if (memcmp(record->member_uuids[role], member->uuid, 16) == 0)
			return role;
	return -1;
}

static void
note_one_of_two(struct member *member)
{
	memcpy(member->twin_uuid, member->uuid, 16);
}

static void
not_to_be_taken(struct member *member)
{
	member->standing = STANDING_UNKNOWN;
	member->role = -1;
	member->stale_set = -1;
}

/* It has a superblock from before this assembly that the one in use had not got then: that one is
 * the copy, made before it.  One that is younger than the assembly may as well be a copy of the one
 * in use, or of one that another gateway went on with.
 */
static bool
is_original_of(const struct member *member, const struct member *used)
{
	const struct superblock *own = &member->superblock;
	const struct taken_as *taken = &used->taken_as;

	if (!used->in_sync || !taken->known || member->presence != PRESENCE_EXAMINED ||
	    member->verdict != SUPERBLOCK_OK || own->epoch > member->engine->places->epoch_before ||
	    MUTANT(LATE_TWIN_IGNORED))
		return false;
	if (own->epoch != taken->epoch || own->event != taken->event)
		return own->epoch != taken->epoch ? own->epoch > taken->epoch
						  : own->event > taken->event;
	return own->write_count > taken->write_count + taken->copy_lost;
}

/* What was written to the member since the copy was made, the copy lacks, and no flags say what it
 * is.
 */
static void
disbelieve(struct member *used, const struct member *member)
{
	used->went_back = true;
	/* also when it is back because too many others are away to evict it (evict.c,
	 * keep_needed())
	 */
	used->disbelieved = true;
	member_note(used,
		    "is a copy, and older than %.100s, which is the same member: nothing on it is "
		    "trusted; remove one of the two, the other is filled from the start",
		    member->backend->label);
	engine_log(used->engine, LOG_ERR, "member %s %s", used->backend->label, used->reason);
	evict_condemn(used);
}

bool
place_is_another(struct member *member)
{
	struct member *twin = find_twin_of(member);
	int role = member->presence == PRESENCE_SPARE ? place_named_by_mark(member) : -1;

	if (member->presence != PRESENCE_SPARE && member->verdict != SUPERBLOCK_OK)
		return false;
	if ((twin == NULL && role < 0) || MUTANT(CLONE_TAKEN))
		return false;
	not_to_be_taken(member);
	if (twin != NULL) {
		note_one_of_two(member);
		member_note(member,
			    "has the UUID of %.100s, a copy of it or a second address: remove this "
			    "one, or wipe it and add it as a spare",
			    twin->backend->label);
	} else {
		member_note(member,
			    "its mark as a spare has the UUID of the member of role %d: wipe it "
			    "and add it as a spare anew",
			    role);
	}
	if (twin != NULL && is_original_of(member, twin))
		disbelieve(twin, member);
	/* Which of two is the real one, nobody can tell, unless one is in use. */
	if (twin != NULL && twin->presence == member->presence && !twin->in_sync &&
	    !twin->evicting && twin != member->engine->target) {
		not_to_be_taken(twin);
		note_one_of_two(twin);
		forget_doubtful(member->engine, member->uuid);
		member_note(twin,
			    "has the UUID of %.100s, a copy of it or a second address: remove one "
			    "of the two",
			    member->backend->label);
	}
	return true;
}

static void
take_in(struct member *member)
{
	struct engine *engine = member->engine;

	if (member->evicting && member->leaving)
		return; /* replaced, or not: the superblocks decide */
	if (member->in_sync || (member->evicting && !member->excluded)) {
		session_restored(member);
		return;
	}
	engine->activity++;
	if (place_is_another(member))
		return;
	if (member->presence == PRESENCE_SPARE) {
		member->standing = STANDING_SPARE;
		member->role = -1;
		if (!MUTANT(SPARE_CAUGHT_UP))
			/* it holds nothing, whatever stood there before */
			member->stale_set = -1;
		member->reason[0] = '\0';
		if (member->excluded)
			member_note(member, "refused to be filled, and waits for an administrator: "
					    "iraid rebuild tries it again, or remove it");
	} else {
		judge_outsider(member);
	}
}

/* Two that came while the volume was assembled, and may have gone: what the record says that they
 * lack it says no more.  Of an attempt that began anew after it had said so, nothing is on record.
 */
static void
forget_twins(struct engine *engine)
{
	for_each_member(engine, member) {
		const bool shown = member->presence == PRESENCE_EXAMINED || has_said(member);

		if (shown && !member->in_sync && !member->evicting &&
		    find_twin_of(member) != NULL && !MUTANT(GONE_TWIN_TRACKED))
			forget_doubtful(engine, member->uuid);
	}
}

void
place_all(struct engine *engine)
{
	forget_twins(engine);
	for_each_member(engine, member)
		if (!member->in_sync && member->link == LINK_OPEN && member->examining == 0 &&
		    (member->presence == PRESENCE_EXAMINED || member->presence == PRESENCE_SPARE))
			take_in(member);
}

/* --- reading who it is --- */

/* A member in use, and one that is being evicted, which may stay yet, stay who they are, whatever
 * answers at their addresses.  While an assembly has written nothing, nobody is in use: it begins
 * again if one went meanwhile, with whoever is there then.
 */
static bool
is_in_use(const struct member *member)
{
	return (member->in_sync || member->evicting) &&
	       (member->engine->phase >= PHASE_WRITE_SUPERBLOCKS || MUTANT(TAKEN_BY_ITS_OLD_NAME));
}

static bool
is_our_spare(struct member *member)
{
	static const uint8_t anybody[16];
	const struct engine *engine = member->engine;
	struct spare_mark mark;

	if (spare_decode(member->page, &mark) != SUPERBLOCK_OK &&
	    spare_decode(member->page + LAYOUT_SUPERBLOCK_BYTES, &mark) != SUPERBLOCK_OK)
		return false;
	if (memcmp(mark.volume_uuid, anybody, 16) != 0 &&
	    memcmp(mark.volume_uuid, engine->options.volume_uuid, 16) != 0) {
		member_note(member, "is a spare of another volume");
		return false;
	}
	if (member->identity.block_bytes != mark.block_bytes ||
	    member->identity.capacity_bytes < mark.member_bytes) {
		note_shape(member, mark.member_bytes, mark.block_bytes);
		return false;
	}
	member->spare = mark;
	/* What a member that is in sync has lost is its own UUID's, whatever answers at its address
	 * now.
	 */
	if (!is_in_use(member) || MUTANT(SPARE_CAUGHT_UP)) {
		/* Who was taken out at this address was another one. */
		if (memcmp(member->uuid, mark.member_uuid, 16) != 0)
			member->excluded = false;
		memcpy(member->uuid, mark.member_uuid, 16);
	}
	return true;
}

/* One copy is good, and the other can't be read, or is damaged.  A spare's mark is neither: no
 * superblock was written there yet.
 */
static bool
lost_a_copy(const struct member *member)
{
	struct superblock superblock;
	struct spare_mark mark;

	for (int copy = 0; copy < 2; copy++) {
		const uint8_t *block = member->page + copy * LAYOUT_SUPERBLOCK_BYTES;

		if (superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK &&
		    spare_decode(block, &mark) != SUPERBLOCK_OK)
			return true;
	}
	return false;
}

/* The start was decided without it, and it knows what those do not that were chosen. */
static bool
is_newer_than_found(const struct member *member)
{
	const struct engine *engine = member->engine;
	const struct superblock *own = &member->superblock;

	if ((member->presence != PRESENCE_EXAMINED && member->presence != PRESENCE_MISFIT) ||
	    memcmp(own->volume_uuid, engine->options.volume_uuid, 16) != 0)
		return false;
	return own->epoch != engine->places->epoch_found ? own->epoch > engine->places->epoch_found
							 : own->event > engine->record.event;
}

static void
judge_superblock(struct member *member)
{
	const bool heard = member->presence == PRESENCE_EXAMINED;
	const uint64_t known = member->superblock.write_count;
	const char *reason = "";

	member->verdict = superblock_choose(member->page, member->page + LAYOUT_SUPERBLOCK_BYTES,
					    &member->superblock, &reason);
	member->copy_lost = lost_a_copy(member);
	if (!heard || member->superblock.write_count != known)
		member->engine->places->heard_ms = member->engine->now_ms;
	if (member->verdict != SUPERBLOCK_OK && member->examine_refused) {
		/* That may pass, and says nothing of what stands there. */
		member_note(member, "its superblocks can't be read");
		member_close(member);
		return;
	}
	member->backoff_ms = BACKOFF_FIRST_MS;
	member->recognised = true;
	member->examine_again_ms =
		member->examine_refused ? member->engine->now_ms + EXAMINE_AGAIN_MS : 0;
	if (member->verdict == SUPERBLOCK_OK && !is_in_use(member) && !fits_itself(member)) {
		member->verdict = SUPERBLOCK_UNSUPPORTED;
		member->presence = PRESENCE_MISFIT;
		memcpy(member->uuid, member->superblock.member_uuid, 16);
	} else if (member->verdict == SUPERBLOCK_OK) {
		member->presence = PRESENCE_EXAMINED;
		if (!is_in_use(member)) {
			member->write_count = member->superblock.write_count;
			memcpy(member->uuid, member->superblock.member_uuid, 16);
		}
		if (member->engine->phase <= PHASE_EXAMINE)
			member->reason[0] = '\0';
	} else {
		member_note(member, "no usable superblock: %s", reason);
		member->presence = member->verdict == SUPERBLOCK_ABSENT && is_our_spare(member)
					   ? PRESENCE_SPARE
					   : PRESENCE_REJECTED;
	}
	if (member->engine->phase >= PHASE_WRITE_SUPERBLOCKS)
		take_in(member);
	else if (member->engine->phase == PHASE_LOAD_MAP && member->presence == PRESENCE_EXAMINED &&
		 find_twin_of(member) != NULL && !MUTANT(TWIN_WHILE_LOADING_LATE))
		/* nothing was written yet: both are looked at */
		member->engine->marks->error = -EAGAIN;
	else if (member->engine->phase == PHASE_LOAD_MAP && !member->said &&
		 is_newer_than_found(member) && !MUTANT(NEWER_TOO_LATE))
		/* once for each: one that comes and goes holds up no start for ever */
		member->engine->marks->error = -ESTALE;
}

/* It met a conflict, say, and its session goes on: nothing else would have it examined, and what it
 * was before is not what it is now.
 */
static void
not_examined(struct member *member)
{
	const struct engine *engine = member->engine;

	if (member->link == LINK_OPEN && !member->closed_event && !member->leaving &&
	    !engine->fenced && engine->phase < PHASE_RELEASE && !MUTANT(LEFT_UNEXAMINED))
		member_close(member);
}

static void
examined(struct member *member)
{
	if (--member->examining > 0)
		return;
	if (member->examine_failed)
		not_examined(member);
	else
		judge_superblock(member);
}

static void
found_flushed(struct member_io *mio, int result)
{
	struct member *member = mio->member;

	member->examine_failed |= result == -ENOTCONN && member->link != LINK_OPEN;
	member->found_flushing = false;
	member->found_durable = true; /* as far as it can be: a refusal says nothing */
	member->engine->activity++;
	member->examining--;
}

void
place_make_durable(struct member *member, void (*done)(struct member_io *mio, int result),
		   void *owner)
{
	member_io_submit(member_io_create(member, BACKEND_FLUSH, 0, IO_PROBE), done, owner);
}

bool
place_is_durable(struct member *member)
{
	if (member->found_durable || MUTANT(TARGET_FOUND_IN_CACHE))
		return true;
	member->examining++;
	member->found_flushing = true;
	place_make_durable(member, found_flushed, member);
	return false;
}

static void
copy_read(struct member_io *mio, int result)
{
	struct member *member = mio->member;

	if (result == -ENODATA || result == -EIO)
		memset(mio->segments[0].iov_base, 0, LAYOUT_SUPERBLOCK_BYTES);
	else if (result != 0)
		member->examine_failed = true;
	member->examine_refused |= result == -EIO;
	examined(member);
}

static void
read_copy(struct member *member, uint64_t offset_bytes, uint8_t *into)
{
	struct iovec iov = { into, LAYOUT_SUPERBLOCK_BYTES };
	struct member_io *mio = member_io_create(member, BACKEND_READ, offset_bytes, IO_PROBE);

	member_io_append(mio, &iov, 1, LAYOUT_SUPERBLOCK_BYTES);
	member->examining++;
	member_io_submit(mio, copy_read, member);
}

void
place_examine(struct member *member)
{
	member->examined_ms = member->engine->now_ms;
	member->examine_failed = false;
	member->examine_refused = false;
	member->found_durable = false;
	read_copy(member, LAYOUT_SUPERBLOCK_A_OFFSET, member->page);
	read_copy(member, LAYOUT_SUPERBLOCK_B_OFFSET, member->page + LAYOUT_SUPERBLOCK_BYTES);
}

/* --- for status --- */

enum member_state
place_state(const struct member *member)
{
	if (member->in_sync)
		return MEMBER_IN_SYNC;
	if (member->evicting || member->excluded)
		return MEMBER_FAULTY;
	if (member == member->engine->target)
		return MEMBER_REBUILDING;
	switch (member->standing) {
	case STANDING_SPARE:
		return MEMBER_SPARE;
	case STANDING_OUT_OF_DATE:
	case STANDING_REBUILDING:
		return member->link == LINK_OPEN ? MEMBER_OUT_OF_DATE : MEMBER_FAULTY;
	case STANDING_OBSOLETE:
		return MEMBER_OUT_OF_DATE;
	case STANDING_IN_SYNC:
	case STANDING_UNKNOWN:
		break;
	}
	return member->role >= 0 ? MEMBER_MISSING : 0;
}
