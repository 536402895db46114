/* assembly.c - see assembly.h.
 *
 * Two steps: place_device() says what one device is under the record that rules, looking at nothing
 * else; then those that got the same place are told apart, counted, and if need be some are taken
 * by force.
 *
 * Which record rules: the newest, with one exception.  An assembly that crashed before its record
 * was durable everywhere leaves it on some members only.  If the others were then started without
 * those (which know nothing of the attempt), both records have the same epoch, or that of the
 * attempts is higher, for there was more than one; and neither epoch nor event says which of them
 * the acknowledged writes belong to.  But a record that a member it relies on never took was never
 * in force: see never_in_force().
 */
#include "assembly.h"

#include <stdio.h>
#include <string.h>

#include "../pure/bytes.h"
#include "../pure/mutant.h"

#define COPY_OF_ANOTHER                                                                            \
	"is the same member as another device, which is newer, or older than it should be: an "    \
	"old copy, or a "                                                                          \
	"second address; remove this one"
#define SAME_AS_ANOTHER                                                                            \
	"is the same member as another device, a copy of it or a second address, and nobody can "  \
	"tell which is "                                                                           \
	"the real one: remove one of the two, the other is filled from the start"
#define OF_ANOTHER_VOLUME                                                                          \
	"is a member of another volume: correct its address, or wipe it and add "                  \
	"it as a spare"

/* Known by its address, too. */
static const char went_back_text[] =
	"went back in time: its superblock is older than what it had acknowledged (a snapshot, an "
	"image or a copy in its place?): nothing on it is trusted, it is filled from the start";
static const char used_elsewhere_text[] = "was used without the others since it left, nobody knows "
					  "what it holds: it is filled from the start";
static const char newer_text[] = "its superblock is newer than the volume's: another gateway has "
				 "used it; make sure that none does, then wipe it and add it as a "
				 "spare";

static bool
is_newer_record(const struct superblock *a, const struct superblock *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->event > b->event;
}

static bool
is_of_volume(const struct assembly_input *input, int i)
{
	return memcmp(input->superblocks[i]->volume_uuid, input->volume_uuid, UUID_BYTES) == 0;
}

static bool
ours(const struct assembly_input *input, int i)
{
	return input->presence[i] == PRESENCE_EXAMINED && is_of_volume(input, i);
}

/* --- what the record says of a device --- */

/* The role whose place this UUID has, or -1. */
static int
place_of(const struct superblock *record, const uint8_t *uuid)
{
	for (int role = 0; role < record->member_count; role++)
		if (memcmp(record->member_uuids[role], uuid, UUID_BYTES) == 0)
			return role;
	return -1;
}

static int
set_of(const struct superblock *record, const uint8_t *uuid)
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (record->tracked[set].state != 0 &&
		    memcmp(record->tracked[set].member_uuid, uuid, UUID_BYTES) == 0)
			return set;
	return -1;
}

static bool
calls_in_sync(const struct superblock *record, const uint8_t *uuid)
{
	int role = place_of(record, uuid);

	return role >= 0 && record->member_states[role] == MEMBER_IN_SYNC;
}

/* A device's own superblock. */
struct own {
	const struct superblock *superblock;
	bool copy_lost;
};

static struct own
own_of(const struct assembly_input *input, int i)
{
	return (struct own){ input->superblocks[i], input->copy_lost[i] };
}

/* The writes of its superblock that it may have acknowledged: a copy that can't be read any more
 * held the one before or the one after that which can.  Not more: what is older than that is no
 * fault of one sector.
 */
static uint64_t
writes_at_most(struct own own)
{
	return own.superblock->write_count + (own.copy_lost && !MUTANT(LOST_COPY_ACCUSED));
}

/* It was older than what the others know that it acknowledged: put back from a snapshot or an
 * image, or it is a copy that was made then.  What it lacks, nobody knows.
 */
static bool
went_back(struct own own, uint64_t known)
{
	return writes_at_most(own) < known && !MUTANT(RESTART_OLDER_TRUSTED);
}

struct place {
	enum standing standing;
	int role;
	int stale_set;
	const char *fault;
};

/* It was sent a superblock of the epoch on record, perhaps, and has one of before, but more of them
 * than it had when it left.  Or of the same epoch so many that the others went on beyond the record:
 * whoever that was found on went back in time since.  Of what a record does not count an honest one
 * has that record's own write, and the next one.
 */
static bool
was_written_elsewhere(const struct tracked_member *tracked, const struct superblock *own)
{
	if (tracked->write_count == 0 || own->epoch > tracked->epoch)
		return false;
	if (own->epoch < tracked->epoch)
		return own->write_count > tracked->write_count + 1 && !MUTANT(SENT_IS_HEARD);
	return tracked->state == MEMBER_OUT_OF_DATE &&
	       own->write_count > tracked->write_count + 2 && !MUTANT(WENT_ON_UNSEEN);
}

static struct place
tracked_place(const struct superblock *record, int set, struct own own)
{
	struct place place = { STANDING_OUT_OF_DATE, record->tracked[set].role, set, NULL };

	if ((record->tracked[set].state != MEMBER_REBUILDING ||
	     !MUTANT(FILLED_ELSEWHERE_TRUSTED)) &&
	    record->tracked[set].epoch != 0 &&
	    (own.superblock->epoch > record->tracked[set].epoch ||
	     was_written_elsewhere(&record->tracked[set], own.superblock)) &&
	    !MUTANT(TRACKED_EPOCH_IGNORED)) {
		place.standing = STANDING_OBSOLETE;
		place.stale_set = -1;
		place.fault = used_elsewhere_text;
		return place;
	}
	if (went_back(own, record->tracked[set].write_count) && !MUTANT(TRACKED_OLDER_TRUSTED)) {
		place.standing = STANDING_OBSOLETE;
		place.stale_set = -1;
		place.fault = went_back_text;
		return place;
	}

	switch (record->tracked[set].state) {
	case MEMBER_REBUILDING:
		place.standing = STANDING_REBUILDING;
		place.fault =
			"is being rebuilt: what it lacks is copied to it while the volume runs";
		break;
	case MEMBER_OUT_OF_DATE:
		place.fault =
			"is out of date: the volume went on without it; what it lacks is copied to "
			"it while the volume runs";
		break;
	default:
		place.fault = "was taken out of the volume for its errors or by an administrator: "
			      "replace it, or remove it and add it as a spare";
	}
	return place;
}

static struct place
place_device(const struct superblock *record, struct own of_device)
{
	const struct superblock *own = of_device.superblock;
	struct place place = { STANDING_OBSOLETE, -1, -1, NULL };
	int role = place_of(record, own->member_uuid);
	int set = set_of(record, own->member_uuid);

	if (memcmp(own->volume_uuid, record->volume_uuid, UUID_BYTES) != 0) {
		place.standing = STANDING_UNKNOWN;
		place.fault = OF_ANOTHER_VOLUME;
		return place;
	}
	if (role < 0 && set < 0) {
		place.fault =
			"is not a member of this volume any more, its place was taken: remove it, "
			"or wipe it and add it as a spare";
		return place;
	}
	if (own->role != (role >= 0 ? role : record->tracked[set].role)) {
		place.fault = "claims another role than the volume gave it, its content can't be "
			      "trusted: wipe it and add it as a spare";
		return place;
	}
	if (role >= 0 && record->member_states[role] == MEMBER_IN_SYNC)
		return went_back(of_device, record->write_counts[role])
			       ? (struct place){ STANDING_OBSOLETE, role, -1, went_back_text }
			       : (struct place){ STANDING_IN_SYNC, role, -1, NULL };
	if (set >= 0)
		return tracked_place(record, set, of_device);
	place.role = role;
	place.fault =
		"is out of date and what it lacks is not known: it has to be rebuilt as a whole, "
		"wipe it and add it as a spare";
	return place;
}

void
assembly_judge(const struct superblock *record, const struct superblock *own, bool copy_lost,
	       struct assembly_verdict *out)
{
	struct place place = place_device(record, (struct own){ own, copy_lost });

	/* No set and no record of ours can say what somebody else wrote to it. */
	if (place.standing != STANDING_UNKNOWN && is_newer_record(own, record)) {
		place.standing = STANDING_OBSOLETE;
		place.stale_set = -1;
		place.fault = newer_text;
	}
	out->standing[0] = place.standing;
	out->role[0] = place.role;
	out->stale_set[0] = place.stale_set;
	out->forced[0] = false;
	out->went_back[0] = place.fault == went_back_text;
	out->fault[0] = place.fault;
}

/* --- which record rules --- */

/* How many writes of a member's superblock were known when this one was written; 0: that was not
 * counted.
 */
static uint64_t
known_writes(const struct superblock *record, const uint8_t *uuid)
{
	return record->write_counts[place_of(record, uuid)];
}

/* Has the member's own record gone on where that of the writer never was? It has if it was written
 * later, which the writes tell that were known, and the epochs don't: starts that ended before more
 * than the writer had their record leave an epoch that the others may not reach when they go on
 * without it.  What was known to be written is no later: an eviction, say, that was taken back, or
 * a place that was given away, and given back.  Of an older epoch one more write need not be,
 * either, whose answer was lost.  But who was missing at a start is in sync again only when all
 * others say so.
 */
static bool
went_on_without(const struct assembly_input *input, int i, const struct superblock *record)
{
	const struct superblock *own = input->superblocks[i];
	const int place = place_of(own, record->member_uuid);
	const uint64_t known = known_writes(record, own->member_uuid);

	/* Nobody counted: of the same epoch it knows nothing of the writer's being in sync, so it
	 * did not take that record.  But a copy that is left where the other can't be read may be
	 * the older one.
	 */
	if (known == 0)
		return own->epoch == record->epoch &&
		       (!input->copy_lost[i] || MUTANT(LOST_COPY_DENIES));
	if (own->epoch > record->epoch ||
	    (own->epoch < record->epoch && MUTANT(OLDER_EPOCH_UNHEARD)))
		return false;
	if (own->epoch == record->epoch && own->write_count >= known && MUTANT(KNOWN_WRITE_DENIES))
		return true;
	if (own->write_count > known && own->epoch == record->epoch && !MUTANT(ONE_WRITE_UNHEARD))
		return true;
	return (own->write_count > known && place >= 0 &&
		own->member_states[place] == MEMBER_MISSING) ||
	       own->write_count > known + 1 ||
	       (own->write_count < known && MUTANT(OLD_COPY_DENIES));
}

/* One whom the record calls out has another one, that does not call the writer in sync, and knows
 * of a later write of a member on which both rely.  So that one went on under this one's record,
 * whether or not it is there to say so.
 */
static bool
was_gone_on_without(const struct superblock *own, const struct superblock *record)
{
	if (own->epoch > record->epoch || !calls_in_sync(own, own->member_uuid) ||
	    MUTANT(DEAD_UNHEARD))
		return false;
	for (int role = 0; role < record->member_count; role++) {
		const uint8_t *uuid = record->member_uuids[role];

		if (record->write_counts[role] != 0 && calls_in_sync(record, uuid) &&
		    calls_in_sync(own, uuid) &&
		    known_writes(own, uuid) > record->write_counts[role])
			return true;
	}
	return false;
}

/* A record is in force when all members it calls in sync have it.  Here one of those has another
 * one, that does not call the writer in sync, or is known to have had it: so it did not take this
 * one, and nothing was acknowledged under it.  A writer that is out was told by who went by this
 * record: those who have it, or a newer one, say nothing against it.
 */
static bool
never_in_force(const struct assembly_input *input, int writer)
{
	const struct superblock *record = input->superblocks[writer];
	const bool out = !calls_in_sync(record, record->member_uuid);

	if (out && MUTANT(OUT_RULES))
		return false;
	for (int i = 0; i < input->count; i++) {
		const struct superblock *own = input->superblocks[i];

		if (i == writer || !ours(input, i) ||
		    (out ? !is_newer_record(record, own) : calls_in_sync(own, record->member_uuid)))
			continue;
		if (calls_in_sync(record, own->member_uuid) ? went_on_without(input, i, record)
							    : was_gone_on_without(own, record))
			return true;
	}
	return false;
}

/* Of two that are as new, who is in sync by its own has what all have. */
static bool
rules_over(const struct superblock *a, const struct superblock *b)
{
	if (is_newer_record(a, b) || is_newer_record(b, a) || MUTANT(LISTED_FOR_ALL))
		return is_newer_record(a, b);
	return calls_in_sync(a, a->member_uuid) && !calls_in_sync(b, b->member_uuid);
}

static int
find_newest(const struct assembly_input *input)
{
	int newest = -1;
	int in_force = -1;

	for (int i = 0; i < input->count; i++) {
		if (!ours(input, i))
			continue;
		if (newest < 0 || rules_over(input->superblocks[i], input->superblocks[newest]))
			newest = i;
		if (!never_in_force(input, i) &&
		    (in_force < 0 ||
		     rules_over(input->superblocks[i], input->superblocks[in_force])))
			in_force = i;
	}
	return in_force >= 0 ? in_force : newest;
}

/* Of the device whose record this is, made before that. */
static bool
is_old_copy(const struct superblock *own, const struct superblock *record)
{
	return memcmp(own->member_uuid, record->member_uuid, UUID_BYTES) == 0 &&
	       is_newer_record(record, own) && !MUTANT(WITNESS_BY_COPY);
}

/* Whom the record calls in sync has it too, so it says who is out: one copy that is left does so as
 * well (metadata.c).  Not if it is older than the record knows.
 */
static bool
has_record(struct own own, const struct superblock *record)
{
	const uint8_t *uuid = own.superblock->member_uuid;

	return calls_in_sync(record, uuid) && !is_old_copy(own.superblock, record) &&
	       (!went_back(own, known_writes(record, uuid)) || MUTANT(WITNESS_BY_OLDER));
}

/* Is one of those here?  Then nobody needs to be told by another. */
static bool
knows_itself(const struct assembly_input *input, const struct superblock *record)
{
	for (int i = 0; i < input->count; i++)
		if (ours(input, i) && has_record(own_of(input, i), record))
			return true;
	return false;
}

/* It has been examined in this start, and can't be a member now: it has changed, or has gone. */
static bool
is_heard(const struct assembly_input *input, int i)
{
	return input->presence[i] == PRESENCE_MISFIT ||
	       (input->presence[i] == PRESENCE_AWAITED && input->said[i] && !MUTANT(GONE_UNHEARD));
}

/* Who is not as it was can't be a member, nor one that is not there any more.  But it may be the
 * last that knows that all others are out: they don't start as if the volume had not gone on
 * without them.  -1: no such device.
 */
static int
find_witness(const struct assembly_input *input, int newest)
{
	int witness = -1;

	for (int i = 0; newest >= 0 && i < input->count; i++)
		if (is_heard(input, i) && is_of_volume(input, i) &&
		    is_newer_record(input->superblocks[i],
				    input->superblocks[witness >= 0 ? witness : newest]) &&
		    !knows_itself(input, input->superblocks[i]) && !never_in_force(input, i) &&
		    !MUTANT(MISFIT_UNHEARD))
			witness = i;
	return witness;
}

/* --- the decision --- */

static struct geometry
geometry_on_record(const struct superblock *record)
{
	struct geometry geometry = { 0 };

	/* A superblock of another shape is not decoded. */
	geometry_init(&geometry, record->level, record->member_count, record->chunk_bytes,
		      record->block_bytes, record->data_bytes);
	return geometry;
}

/* Is that enough to start with? */
static bool
suffice(const struct superblock *record, uint32_t roles)
{
	const struct geometry geometry = geometry_on_record(record);

	return geometry_bears(&geometry, geometry_lowest(record->member_count) & ~roles);
}

static void
stand_slot(const struct assembly_input *input, const struct superblock *record, int i,
	   struct assembly_verdict *out)
{
	struct place place = { STANDING_UNKNOWN, -1, -1, NULL };

	switch (input->presence[i]) {
	case PRESENCE_ABSENT:
		return;
	case PRESENCE_AWAITED:
		place.fault = "not reachable";
		break;
	case PRESENCE_MISFIT:
		place.fault = "has changed: make it as it was, or replace it";
		break;
	case PRESENCE_REJECTED:
		place.fault = "has no valid superblock of this volume: correct its address, or add "
			      "it as a spare";
		break;
	case PRESENCE_SPARE:
		place.standing = STANDING_SPARE;
		place.fault = "is a spare";
		break;
	case PRESENCE_EXAMINED:
		place.fault = OF_ANOTHER_VOLUME; /* where no record rules, none is ours */
		if (record != NULL)
			place = place_device(record, own_of(input, i));
		break;
	}
	out->standing[i] = place.standing;
	out->role[i] = place.role;
	out->stale_set[i] = place.stale_set;
	out->fault[i] = place.fault;
}

static bool
has_place(const struct assembly_verdict *out, int i)
{
	return out->standing[i] != STANDING_UNKNOWN && out->standing[i] != STANDING_SPARE &&
	       out->role[i] >= 0;
}

static void
not_believed(struct assembly_verdict *out, int i, const char *fault)
{
	out->standing[i] = STANDING_UNKNOWN;
	out->role[i] = -1;
	out->stale_set[i] = -1;
	out->fault[i] = fault;
}

static bool
was_written(const struct assembly_input *input, int i)
{
	return input->found[i].known && !MUTANT(NEWER_BY_OUR_WRITES);
}

/* A device before this start wrote to it: an assembly that began again makes nobody newer than his
 * twin.
 */
static struct taken_as
as_found(const struct assembly_input *input, int i)
{
	const struct superblock *own = input->superblocks[i];

	return was_written(input, i) ? input->found[i]
				     : (struct taken_as){ .epoch = own->epoch,
							  .event = own->event,
							  .write_count = own->write_count,
							  .copy_lost = input->copy_lost[i] };
}

/* Has the first more to show?  Not if the other may be as new, and lost a copy. */
static bool
has_more_to_show(const struct taken_as *first, const struct taken_as *second)
{
	if (second->copy_lost && second->write_count + 1 >= first->write_count &&
	    !MUTANT(LOST_COPY_TWIN))
		return false;
	if (first->epoch != second->epoch)
		return first->epoch > second->epoch;
	return first->event != second->event ? first->event > second->event
					     : first->write_count > second->write_count;
}

/* Which of two devices that say they are the same member is it? The one that is not known to be too
 * old, then the newer.  -1: nobody can tell.
 */
static int
real_one(const struct assembly_input *input, const struct assembly_verdict *out, int i, int k)
{
	const struct taken_as first = as_found(input, i), second = as_found(input, k);
	const bool back[2] = { out->fault[i] == went_back_text, out->fault[k] == went_back_text };

	/* What others know of this start's writes to the one says nothing of the other. */
	if (back[0] != back[1] &&
	    (!was_written(input, back[0] ? k : i) || was_written(input, back[0] ? i : k)))
		return back[0] ? k : i;
	/* The one that was not taken is younger than this start: a copy of the other, or of what
	 * another gateway made.
	 */
	if (first.known != second.known &&
	    (first.known ? second : first).epoch > input->epoch_before)
		return -1;
	if (has_more_to_show(&first, &second))
		return i;
	if (has_more_to_show(&second, &first))
		return k;
	return MUTANT(TWIN_GUESSED) ? i : -1;
}

/* It has a place, or would have one if it had not gone when it was examined, or were as it was. */
static bool
is_shown(const struct assembly_input *input, const struct assembly_verdict *out, int i)
{
	const bool gone =
		input->presence[i] == PRESENCE_AWAITED && input->said[i] && !MUTANT(SAID_FORGOTTEN);
	const bool changed =
		input->presence[i] == PRESENCE_MISFIT && !MUTANT(CHANGED_MEMBER_UNSHOWN);

	return has_place(out, i) || ((gone || changed) && is_of_volume(input, i));
}

static bool
are_twins(const struct assembly_input *input, const struct assembly_verdict *out, int i, int k)
{
	return is_shown(input, out, i) && is_shown(input, out, k) &&
	       (has_place(out, i) || has_place(out, k)) &&
	       memcmp(input->superblocks[i]->member_uuid, input->superblocks[k]->member_uuid,
		      UUID_BYTES) == 0;
}

/* real: which of the two it is, or -1. */
/* A device that was to replace a member tells nothing of that one. */
static void
distrust(const struct assembly_input *input, const struct superblock *record,
	 struct assembly_verdict *out, int i)
{
	if (memcmp(input->superblocks[i]->member_uuid, record->member_uuids[out->role[i]],
		   UUID_BYTES) == 0 ||
	    MUTANT(REPLACED_DISTRUSTED))
		out->distrusted |= 1u << out->role[i];
}

static void
judge_twin(const struct assembly_input *input, const struct superblock *record,
	   struct assembly_verdict *out, int i, int real)
{
	if (!has_place(out, i) || real == i)
		return;
	if (real < 0)
		distrust(input, record, out, i);
	not_believed(out, i, real < 0 ? SAME_AS_ANOTHER : COPY_OF_ANOTHER);
}

/* One member that shows up twice: a copy of the device, or the device by two addresses.  Where
 * nobody can tell which is the real one, neither is believed.  The place is empty then, and
 * nobody's flags say what it lacks: whichever of the two is left when the other is removed is
 * filled from the start, so a wrong choice loses nothing.
 */
static void
settle_duplicates(const struct assembly_input *input, const struct superblock *record,
		  struct assembly_verdict *out)
{
	/* Of three, two that nobody can tell apart are both still compared with the third. */
	const struct assembly_verdict shown = *out;
	const struct assembly_verdict *compared = MUTANT(THIRD_TWIN_TAKEN) ? out : &shown;

	for (int i = 0; i < input->count; i++)
		for (int k = i + 1; k < input->count; k++) {
			int real;

			if (!are_twins(input, compared, i, k))
				continue;
			real = real_one(input, compared, i, k);
			judge_twin(input, record, out, i, real);
			judge_twin(input, record, out, k, real);
		}
}

/* What a device lacks that went back is in no flags, though the record knew it as in sync. */
static void
note_went_back(const struct assembly_input *input, const struct superblock *record,
	       struct assembly_verdict *out)
{
	for (int i = 0; i < input->count; i++) {
		out->went_back[i] = out->fault[i] == went_back_text;
		if (out->fault[i] == went_back_text)
			distrust(input, record, out, i);
	}
}

/* Out of sync, but the place is still its own, so it held the data once.  A target of a rebuild
 * that was not finished never did.
 */
static bool
may_be_forced(const struct assembly_input *input, const struct superblock *record, int i,
	      const struct assembly_verdict *out)
{
	return has_place(out, i) && out->standing[i] != STANDING_IN_SYNC &&
	       place_of(record, input->superblocks[i]->member_uuid) == out->role[i];
}

/* The newest first; of equals the one whose gaps are known. */
static int
next_to_force(const struct assembly_input *input, const struct superblock *record,
	      const struct assembly_verdict *out)
{
	int best = -1;

	for (int i = 0; i < input->count; i++) {
		const struct superblock *own = input->superblocks[i];

		if (!may_be_forced(input, record, i, out))
			continue;
		if (best < 0 || is_newer_record(own, input->superblocks[best]) ||
		    (!is_newer_record(input->superblocks[best], own) && out->stale_set[best] < 0 &&
		     out->stale_set[i] >= 0))
			best = i;
	}
	return best;
}

/* Roles of those who could be taken by force. */
static uint32_t
forcible_roles(const struct assembly_input *input, const struct superblock *record,
	       const struct assembly_verdict *out)
{
	uint32_t roles = 0;

	for (int i = 0; i < input->count; i++)
		if (may_be_forced(input, record, i, out))
			roles |= 1u << out->role[i];
	return roles;
}

/* No more than are needed.  Of level 10 one may be taken in vain, whose rows another has as well.
 */
static uint32_t
take_by_force(const struct assembly_input *input, const struct superblock *record, uint32_t trusted,
	      struct assembly_verdict *out)
{
	while (!suffice(record, trusted)) {
		int slot = next_to_force(input, record, out);

		out->standing[slot] = STANDING_IN_SYNC;
		out->forced[slot] = true;
		/* Flags of what it lacks are in the map of a witness, which nobody reads. */
		if (input->presence[out->newest] != PRESENCE_EXAMINED && !MUTANT(WITNESS_FLAGS))
			out->stale_set[slot] = -1;
		out->fault[slot] = NULL;
		trusted |= 1u << out->role[slot];
	}
	return trusted;
}

static void
too_few(const struct superblock *record, uint32_t trusted, uint32_t forcible, int awaited,
	struct assembly_verdict *out)
{
	const struct geometry geometry = geometry_on_record(record);
	int needed = record->member_count - geometry_tolerated(&geometry);
	const char *remedy = "bring back those that are missing";

	if (suffice(record, trusted | forcible))
		remedy = awaited > 0 ? "waiting for the others; if they are gone for good start "
				       "with --force to take those out of date as they stand: what "
				       "was written since they left is lost"
				     : "start with --force to take those out of date as they "
				       "stand: what was written since they left is lost";
	else if (awaited > 0)
		remedy = "waiting for the others";
	if (out->distrusted & ~trusted)
		remedy = "some went back in time, or are there twice (their reasons say which): "
			 "remove the copies, bring back the real ones, or start with --force to "
			 "take an old one as it stands";
	out->answer = awaited > 0 ? ASSEMBLY_WAIT : ASSEMBLY_REFUSED;
	snprintf(out->reason, sizeof(out->reason),
		 "%d of %d members can be trusted, %d are needed: %s", __builtin_popcount(trusted),
		 record->member_count, needed, remedy);
}

/* One of those that are there may have had its place taken by another device, while all others that
 * are there went: they know nothing of it.  Any other set that is enough has somebody in it who is
 * there, and knows what that set did.
 */
static bool
may_be_a_half(const struct superblock *record, uint32_t trusted)
{
	const uint32_t missing = geometry_lowest(record->member_count) & ~trusted;

	for (int role = 0; role < record->member_count; role++)
		if (suffice(record, MUTANT(TAKEN_PLACE_NO_HALF) ? missing : missing | 1u << role))
			return true;
	return MUTANT(ANYBODY_A_HALF);
}

/* Those that fail in each attempt are no members, as if they were away, if the others suffice. */
static uint32_t
without_unsteady(const struct assembly_input *input, const struct superblock *record,
		 uint32_t trusted, struct assembly_verdict *out)
{
	uint32_t steady = trusted;

	for (int i = 0; i < input->count; i++)
		if (input->unsteady[i] && out->standing[i] == STANDING_IN_SYNC)
			steady &= ~(1u << out->role[i]);
	if (steady == trusted || !suffice(record, steady) || MUTANT(UNSTEADY_TAKEN))
		return trusted;
	for (int i = 0; i < input->count; i++)
		if (input->unsteady[i] && out->standing[i] == STANDING_IN_SYNC)
			not_believed(out, i,
				     "it failed in each attempt to start the volume: it has to "
				     "catch up when that runs");
	return steady;
}

static void
decide_on_record(const struct assembly_input *input, const struct superblock *record, int awaited,
		 struct assembly_verdict *out)
{
	uint32_t trusted = 0;
	uint32_t forcible;

	for (int i = 0; i < input->count; i++)
		if (out->standing[i] == STANDING_IN_SYNC)
			trusted |= 1u << out->role[i];
	trusted = without_unsteady(input, record, trusted, out);
	if (record->epoch < input->epoch_seen && !input->force) {
		/* Newer members may be among those still awaited. */
		out->answer = awaited > 0 ? ASSEMBLY_WAIT : ASSEMBLY_REFUSED;
		snprintf(out->reason, sizeof(out->reason),
			 "these members are of epoch %llu, this gateway has run epoch %llu: newer "
			 "ones are missing; %sstart with --force to lose what only they hold",
			 (unsigned long long)record->epoch, (unsigned long long)input->epoch_seen,
			 awaited > 0 ? "waiting for them; if they are gone for good " : "");
		return;
	}
	forcible = forcible_roles(input, record, out);
	if (!suffice(record, trusted) && input->force && suffice(record, trusted | forcible))
		trusted = take_by_force(input, record, trusted, out);
	if (!suffice(record, trusted))
		too_few(record, trusted, forcible, awaited, out);
	else if (trusted == geometry_lowest(record->member_count) || awaited == 0)
		out->answer = ASSEMBLY_READY;
	else
		out->answer = ASSEMBLY_DEGRADED;
	out->other_half = may_be_a_half(record, trusted);
}

void
assembly_decide(const struct assembly_input *input, struct assembly_verdict *out)
{
	const struct superblock *record = NULL;
	int awaited = 0;
	int witness;

	*out = (struct assembly_verdict){ .answer = ASSEMBLY_WAIT, .newest = find_newest(input) };
	witness = find_witness(input, out->newest);
	if (witness >= 0)
		out->newest = witness;
	if (out->newest >= 0)
		record = input->superblocks[out->newest];
	for (int i = 0; i < SLOTS_MAX; i++) {
		out->role[i] = -1;
		out->stale_set[i] = -1;
	}
	for (int i = 0; i < input->count; i++) {
		stand_slot(input, record, i, out);
		awaited += input->presence[i] == PRESENCE_AWAITED;
	}
	if (record != NULL) {
		settle_duplicates(input, record, out);
		note_went_back(input, record, out);
		decide_on_record(input, record, awaited, out);
	} else if (awaited > 0) {
		snprintf(out->reason, sizeof(out->reason), "no member has answered yet");
	} else {
		out->answer = ASSEMBLY_REFUSED;
		snprintf(out->reason, sizeof(out->reason),
			 "no device has a superblock of this volume: correct the addresses");
	}
}
