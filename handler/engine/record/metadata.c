/* metadata.c - superblocks of all in-sync members, one update at a time.
 *
 * Whoever changes engine->record calls metadata_commit() and waits until metadata.durable reaches
 * the generation returned: both copies on each member say so then.  Changes made while an update is
 * under way are gathered in the next.
 */
#include "record.h"
#include "engine/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u
/* each update, so that what it knows of its members is known of both their copies */
#define SAID_AGAIN 2

/* All members have acknowledged one more superblock.  What is done because of it must not go with
 * one bad sector: the next start would find the copy of before, and beside a member that is out,
 * which says the same, nobody who knows better.  So it counts when it is in both.
 */
static void
round_written(struct engine *engine)
{
	if (engine->metadata->once < engine->metadata->writing)
		engine->metadata->again = MUTANT(SAID_ONCE_AGAIN) ? 1 : SAID_AGAIN;
	engine->metadata->durable =
		MUTANT(RECORD_IN_ONE_COPY) ? engine->metadata->writing : engine->metadata->once;
	engine->metadata->once = engine->metadata->writing;
}

uint64_t
metadata_commit(struct engine *engine)
{
	engine->activity++;
	return ++engine->metadata->wanted;
}

static void
superblock_written(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	/* A member that is being evicted needs none (-ENOLINK).  Any other failure leaves the
	 * generation undone: fenced off or stopping, nobody is to be told that it is durable.
	 */
	if (result != 0 && result != -ENOLINK) {
		engine->metadata->writing = 0;
		engine->metadata->retry_ms = engine->now_ms + RETRY_MS;
	}
	/* Counted only now: a repetition after a failure goes to the same copy, so that the other
	 * one, which is good, is not put at risk before this one is.
	 */
	if (result == 0 || MUTANT(SUPERBLOCK_RETRY_OTHER_COPY))
		mio->member->write_count++;
	/* An assembly that begins again looks at what it knows already: others may tell of this
	 * write by then.
	 */
	if (result == 0 && !MUTANT(EXAMINED_ONCE))
		mio->member->superblock.write_count = mio->member->write_count;
	if (result == 0)
		mio->member->copy_lost = false; /* this was the other one */
	/* No spare any more: while it is away, another one with its UUID is not to be taken for it.
	 */
	if (result == 0 && mio->member->presence == PRESENCE_SPARE &&
	    !MUTANT(FILLED_STILL_A_SPARE)) {
		mio->member->presence = PRESENCE_EXAMINED;
		mio->member->verdict = SUPERBLOCK_OK;
	}
	if (result == 0 && mio->member == engine->target && engine->metadata->target_uncounted > 0)
		engine->metadata->target_uncounted--;
	if (--engine->metadata->pending == 0 && engine->metadata->writing != 0)
		round_written(engine);
	engine->activity++;
}

/* --- the member that is being filled --- */

/* Others know of a superblock that it has got since it is back: an image of before is known by
 * that.
 */
bool
metadata_target_heard(const struct engine *engine)
{
	return target_filling(engine) &&
	       engine->metadata->durable >= engine->metadata->target_record;
}

/* An image exchanged for one that is not heard yet holds nothing of what it was sent: when that
 * becomes clean for the others it counts as one that missed it, so it is copied anew.  A new one
 * lacks all regions anyhow.
 */
bool
metadata_target_may_clean(const struct engine *engine)
{
	return engine->target == NULL || engine->metadata->target_is_new ||
	       target_changing(engine) || metadata_target_heard(engine) || MUTANT(CLEANED_UNHEARD);
}

/* One copy is not enough: should it be that which can't be read any more, the other is older by far
 * than what others were told.
 */
bool
metadata_target_counted(const struct engine *engine)
{
	return engine->metadata->target_uncounted == 0 ||
	       (engine->metadata->target_uncounted == 1 && MUTANT(COUNTED_IN_ONE_COPY));
}

/* --- an update --- */

static void
send_superblock(struct member *member, struct superblock superblock, int role,
		enum io_policy policy, void (*done)(struct member_io *mio, int result))
{
	struct engine *engine = member->engine;
	uint8_t *block = member->page + 2 * LAYOUT_SUPERBLOCK_BYTES;
	struct iovec iov = { block, LAYOUT_SUPERBLOCK_BYTES };
	struct member_io *mio;

	superblock.role = (uint8_t)role;
	superblock.member_bytes = member->superblock.member_bytes;
	/* It may have missed that the volume has grown, after it was measured. */
	if (superblock.member_bytes < layout_end_bytes(superblock.areas))
		superblock.member_bytes = layout_end_bytes(superblock.areas);
	superblock.write_count = member->write_count + 1;
	memcpy(superblock.member_uuid, member->uuid, 16);
	superblock_encode(&superblock, block);
	mio = member_io_create(member, BACKEND_WRITE, superblock_offset(superblock.write_count),
			       policy);
	mio->io.fua = true;
	member_io_append(mio, &iov, 1, LAYOUT_SUPERBLOCK_BYTES);
	engine->metadata->pending++;
	member_io_submit(mio, done, member);
}

/* --- whom other gateways have to ask, too --- */

/* It is out on record, but if this gateway is started anew before it has the epoch in its memory it
 * may run on with that one alone.  Another gateway, which has no such memory, is told so.
 */
static uint32_t
undecided_roles(const struct engine *engine)
{
	uint32_t roles = engine->metadata->roles_to_hear;

	if (!geometry_can_split_replaced(&engine->geometry) || MUTANT(UNDECIDED_UNSAID))
		return roles;
	roles |= engine->metadata->left_at_start;
	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->evicting && !member->leaving && member != engine->target)
			roles |= ROLE(member->role);
	}
	return roles;
}

/* Of a place that is about to change hands, or does, the holder that is not on record: superblocks
 * trust the one or the other.  Zeros: there is none.
 */
static const uint8_t *
other_holder(const struct engine *engine)
{
	static const uint8_t none[16];
	const struct member *target = engine->target, *former;

	if (target == NULL)
		return engine->metadata->other_at_start;
	if (engine->metadata->target_announced == 0)
		return none;
	if (engine->target_phase != TARGET_TAKING)
		return target->uuid;
	former = engine->by_role[target->role];
	return former != NULL ? former->uuid : none;
}

void
metadata_decided(struct engine *engine)
{
	if ((engine->record.undecided_roles & ~undecided_roles(engine)) ||
	    memcmp(engine->record.other_holder, other_holder(engine), 16) != 0)
		metadata_commit(engine);
}

bool
metadata_is_decided(const struct engine *engine)
{
	static const uint8_t none[16];

	return engine->record.undecided_roles == 0 &&
	       memcmp(engine->record.other_holder, none, sizeof(none)) == 0;
}

/* Until then nothing was stopped in order. */
static struct superblock
record_to_say(const struct engine *engine)
{
	struct superblock record = engine->record;

	if (metadata_is_decided(engine))
		return record;
	record.clean = false;
	snprintf(record.owner, sizeof(record.owner), "%s", engine->options.owner);
	return record;
}

static void
write_superblock(struct member *member)
{
	struct engine *engine = member->engine;

	engine->metadata->epoch_written = engine->record.epoch;
	send_superblock(member, record_to_say(engine), member->role, IO_SUPERBLOCK,
			superblock_written);
}

/* Its own superblock comes with those of the others that say so, not before its marks are durable.
 */
static bool
knows_target(const struct engine *engine)
{
	return engine->target_phase == TARGET_FILLING || engine->target_phase == TARGET_TAKING;
}

/* It is out, and has been told so: it is none that was used elsewhere, nor one that went back. */
static void
note_told(struct engine *engine, const struct member *member)
{
	struct tracked_member *tracked = &engine->record.tracked[member->stale_set];

	if (MUTANT(TOLD_UNNOTED))
		return;
	tracked->write_count = member->write_count;
	tracked->epoch = member->superblock.epoch;
}

/* How many writes of its superblock each has acknowledged, and which epoch who is being filled may
 * have: what the others know of it at the next assembly.
 */
static void
note_write_counts(struct engine *engine)
{
	struct superblock *record = &engine->record;
	const struct member *target = engine->target;

	memset(record->write_counts, 0, sizeof(record->write_counts));
	for_each_member(engine, member) {
		if (member->in_sync)
			record->write_counts[member->role] = member->write_count;
		else if (member->counted && member->untold == 0 && member->stale_set >= 0)
			note_told(engine, member);
	}
	if (target == NULL || !knows_target(engine))
		return;
	record->tracked[target->stale_set].write_count =
		metadata_target_counted(engine) || MUTANT(COUNTED_UNACKNOWLEDGED)
			? target->write_count
			: 0;
	/* of what it is sent now, at most */
	record->tracked[target->stale_set].epoch = record->epoch;
	if (engine->target_phase == TARGET_TAKING)
		record->write_counts[target->role] = target->write_count;
}

/* --- who is out, and its own superblock says otherwise --- */

static void
out_told(struct member_io *mio, int result)
{
	struct member *member = mio->member;

	member->engine->metadata->pending--;
	member->engine->activity++;
	if (result != 0) {
		member->untold = -1;
		return;
	}
	member->write_count++;
	superblock_decode(mio->segments[0].iov_base, &member->superblock, NULL);
	member->copy_lost = false;
	if (member->untold > 0)
		member->untold--;
}

/* A superblock says who it is itself.  Where the record lists it no more, it is listed in its own as
 * one that was taken out: in a set that is free, or of one that is in sync again.  Nobody goes by that
 * where there is a record like it (assembly.c).
 */
static void
list_itself(struct superblock *superblock, const uint8_t uuid[16], int role)
{
	int set = 0;

	for (int i = 0; i < LAYOUT_STALE_SETS; i++) {
		const struct tracked_member *tracked = &superblock->tracked[i];

		if (tracked->state != 0 && memcmp(tracked->member_uuid, uuid, 16) == 0)
			return;
		if (tracked->state == 0 ||
		    (superblock->member_states[tracked->role] == MEMBER_IN_SYNC &&
		     memcmp(tracked->member_uuid, superblock->member_uuids[tracked->role], 16) ==
			     0))
			set = i;
	}
	superblock->tracked[set] =
		(struct tracked_member){ .role = (uint8_t)role, .state = MEMBER_FAULTY };
	memcpy(superblock->tracked[set].member_uuid, uuid, 16);
}

static bool
has_place_on_record(const struct superblock *record, const uint8_t uuid[16])
{
	for (int role = 0; role < record->member_count; role++)
		if (memcmp(record->member_uuids[role], uuid, 16) == 0)
			return true;
	return false;
}

static void
tell_out(struct member *member, const struct superblock *record)
{
	const int role = member->role >= 0 ? member->role : member->superblock.role;
	struct superblock superblock = *record;

	if (!has_place_on_record(&superblock, member->uuid))
		list_itself(&superblock, member->uuid, role);
	send_superblock(member, superblock, role, member->checked ? IO_SUPERBLOCK : IO_PROBE,
			out_told);
}

bool
metadata_out_told(struct member *member, const struct superblock *record)
{
	if (member->untold <= 0)
		return true;
	if (member->engine->metadata->pending > 0)
		return false;
	if (member->link == LINK_OPEN && !member->condemned && !member->disputed) {
		tell_out(member, record);
		return false;
	}
	member->untold = -1;
	return true;
}

bool
metadata_idle(const struct engine *engine)
{
	return engine->metadata->pending == 0 &&
	       engine->metadata->durable >= engine->metadata->wanted &&
	       engine->metadata->again == 0;
}

/* While a member is on its way out the others' superblocks are enough to be durable, but it may
 * stay after all, and be all that the next start finds.  So what it may not miss is known when
 * nobody is on the way out and everything is said.
 */
bool
metadata_known(const struct engine *engine, uint64_t generation)
{
	if (MUTANT(KEPT_UNTOLD))
		return engine->metadata->durable >= generation;
	return engine->evicting == 0 && engine->metadata->durable >= engine->metadata->wanted;
}

/* Nothing is written any more, so what is known of the missing roles' chunks now is so at the next
 * start, too: all that is suspect is on record as lost, and the rest is what the others make of
 * it.  A device that is being filled is missing at the next start, so what was accepted with its
 * chunks is not known then.  Asked before each update, for members may go while the last ones are
 * written.
 */
static uint32_t
recorded_roles(const struct engine *engine)
{
	const bool full = (engine->lost_full ||
			   engine->intent.suspect_count > engine->intent.defined_count) &&
			  !MUTANT(RECORDED_THOUGH_FULL);
	const bool leans = intent_leans(&engine->intent) && !MUTANT(RECORDED_LEANING);

	if (engine->phase != PHASE_LAST_SUPERBLOCKS || !engine->record.clean ||
	    !engine_has_parity(engine) || engine->missing != engine->out || engine->evicting > 0 ||
	    engine->suspended || engine->fenced || engine->lost_io->recording ||
	    !lost_settled(engine->lost) || full || leans)
		return 0;
	return engine->missing;
}

/* Each update is written three times.  The second makes it durable (round_written), and says that
 * the first was acknowledged, so a member that is put back to before it is known by that; the
 * third, lazily, says so of the second, so it is known even if one of its copies can't be read and
 * is given the benefit of the doubt (assembly.c).
 */
void
metadata_run(struct engine *engine)
{
	/* The last stop's superblocks are the last: sessions that close say nothing of members, and
	 * others may have them next.
	 */
	if (engine->phase >= PHASE_RELEASE && !MUTANT(WRITTEN_AT_RELEASE))
		return;
	if (engine->metadata->pending > 0 || engine->fenced ||
	    engine->now_ms < engine->metadata->retry_ms ||
	    (engine->metadata->durable >= engine->metadata->wanted && engine->metadata->again == 0))
		return;
	if (engine->metadata->unheard && engine->evicting > 0 && !MUTANT(EVICTED_UNHEARD))
		return; /* the attempt begins again: assemble.c */
	if (engine->metadata->again > 0)
		engine->metadata->again--;
	note_write_counts(engine);
	engine->record.undecided_roles = undecided_roles(engine);
	memcpy(engine->record.other_holder, other_holder(engine), 16);
	if (recorded_roles(engine) != 0 || !MUTANT(RECORDED_AFTER_CRASH))
		engine->record.recorded_roles = recorded_roles(engine);
	engine->metadata->writing = engine->metadata->wanted;
	engine->record.event++;
	for_each_member(engine, member)
		if (member->in_sync || (member == engine->target && knows_target(engine)))
			write_superblock(member);
}
