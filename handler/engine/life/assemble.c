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
 *	RUNNING
 *
 * A member lost while the map is loaded sends us back to EXAMINE: nothing was written yet.  One
 * that is lost each time is left out then, if the others suffice.  Later losses are evict.c's
 * business, or send us back too if one that came late can make up for them: nothing was
 * acknowledged yet.
 */
#include "life.h"
#include "engine/link/link.h"
#include "engine/link/row_cache.h"
#include "engine/record/record.h"
#include "engine/members/members.h"
#include "engine/work/work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define AGAIN_MS 1000u /* after an assembly that had to be given up */
/* superblocks that were read earlier are read again before the start */
#define OUTDATED_MS 1000u
/* so long after a member was lost during an assembly that is forgotten, and as long as silence is
 * borne twice
 */
#define FORGIVEN_MS 10000u

/* --- phases --- */

static void
enter(struct engine *engine, enum engine_phase phase)
{
	engine->phase = phase;
	engine->phase_since_ms = engine->now_ms;
	engine->activity++;
}

/* Only a log-in registers this gateway anew where another took a member, or finds out who that is.
 */
static void
disown_members(struct engine *engine)
{
	for_each_member(engine, member) {
		member->in_sync = false;
		member->checked = false;
		if (member->disputed && member->link == LINK_OPEN &&
		    !MUTANT(STARTED_IN_ITS_SESSION))
			member_close(member);
		dispute_end(member);
	}
}

/* What was about to be recorded, that some are out say, is void.  Who is away is not there,
 * whatever it said before.
 */
static void
forget_attempt(struct engine *engine)
{
	for_each_member(engine, member) {
		/* none of its superblocks is to be written in the next attempt */
		evict_unawaited(member);
		if (member->evicting)
			engine->evicting--;
		member->evicting = false;
		member->condemned = false;
		if ((member->link == LINK_CLOSED ||
		     (member->link == LINK_OPENING && !MUTANT(OPENING_THERE))) &&
		    member->presence == PRESENCE_EXAMINED) {
			member->presence = PRESENCE_AWAITED;
			member->said = true;
		}
	}
	engine->suspended = false;
	engine->expired = false;
	engine->eviction->kept_record = 0;
	engine->metadata->writing = 0;
	engine->metadata->wanted = engine->metadata->durable;
	engine->metadata->again = 0;
	engine->metadata->retry_ms = 0;
}

static void
begin_again(struct engine *engine, const char *why)
{
	snprintf(engine->reason, sizeof(engine->reason), "%s", why);
	disown_members(engine);
	forget_attempt(engine);
	free(engine->assembly->maps);
	engine->assembly->maps = NULL;
	intent_destroy(&engine->intent);
	engine->target = NULL;
	engine->assembly->not_before_ms = engine->now_ms + AGAIN_MS;
	if (engine->phase < PHASE_DRAIN)
		enter(engine, PHASE_EXAMINE);
}

static void
back_to_examine(struct engine *engine, const char *why)
{
	engine_log(engine, LOG_WARNING, "assembly starts again: %s", why);
	begin_again(engine, why);
}

/* --- members that are lost during an assembly --- */

static bool
is_forgiven(const struct member *member)
{
	const struct engine *engine = member->engine;

	return engine->now_ms - member->lost_ms >= FORGIVEN_MS + 2ull * engine->options.give_up_ms;
}

/* Counted once in each. */
static void
was_lost(struct member *member)
{
	struct engine *engine = member->engine;

	engine->marks->error = -ENOTCONN;
	if (member->losses > 0 && member->lost_ms >= engine->phase_since_ms)
		return;
	if (is_forgiven(member))
		member->losses = 0;
	if (member->losses++ == 0)
		member->unsteady_ms = engine->now_ms;
	member->lost_ms = engine->now_ms;
}

/* It was there each time, and lost each time, for as long as one that is away would have been
 * waited for.
 */
static bool
is_unsteady(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->losses >= 2 && !is_forgiven(member) &&
	       (engine->now_ms - member->unsteady_ms >= engine->options.assembly_wait_ms ||
		MUTANT(UNSTEADY_UNAWAITED));
}

/* --- maps and tables --- */

/* What is loaded from each member: its region map, then its table of lost extents. */
static size_t
map_bytes(const struct engine *engine)
{
	return (size_t)engine->intent.blocks * LAYOUT_MAP_BLOCK_BYTES;
}

static uint8_t *
loaded_map(const struct engine *engine, const struct member *member)
{
	return engine->assembly->maps +
	       (size_t)member->slot * (map_bytes(engine) + LAYOUT_LOST_BYTES);
}

/* A part of a member's metadata is read, or written durably. */
static void
move_part(struct member *member, enum backend_op op, uint64_t offset_bytes, uint8_t *part,
	  uint32_t length_bytes, void (*done)(struct member_io *mio, int result))
{
	struct iovec iov = { part, length_bytes };
	struct member_io *mio = member_io_try(member, op, offset_bytes, IO_PROBE);

	if (mio == NULL) {
		member->engine->marks->error = -ENOMEM;
		return;
	}
	mio->io.fua = op == BACKEND_WRITE;
	member_io_append(mio, &iov, 1, length_bytes);
	member->engine->marks->pending++;
	member_io_submit(mio, done, member->engine);
}

static bool
is_newer(const struct superblock *one, const struct superblock *other)
{
	return one->epoch != other->epoch ? one->epoch > other->epoch : one->event > other->event;
}

/* Every in-sync member knows what is dirty, what others lack and what is lost.  One that is taken
 * by force is of an older time, and the others marked what it lacks.  If there are none but forced
 * members, the newest of them is believed: it was there when the others left.
 */
static bool
is_believed(const struct engine *engine, const struct member *member)
{
	if (!member->in_sync)
		return false;
	for (int i = 0; i < engine->slots && member->forced; i++) {
		const struct member *other = &engine->members[i];

		if (other->backend != NULL && other->in_sync &&
		    (!other->forced || is_newer(&other->superblock, &member->superblock)))
			return false;
	}
	return true;
}

/* A granule that is damaged on one is taken from another that is believed. */
static void
mend_granules(struct engine *engine, struct member *member, bool *unread)
{
	uint8_t *map = loaded_map(engine, member);
	uint32_t damaged = 0;

	for (uint32_t i = 0; i < map_bytes(engine) / LAYOUT_GRANULE_BYTES; i++) {
		uint8_t *granule = map + (size_t)i * LAYOUT_GRANULE_BYTES;

		if (i * LAYOUT_GRANULE_REGIONS >= engine->intent.regions)
			break;
		if (map_granule_valid(granule, i, engine->options.volume_uuid))
			continue;
		damaged++;
		unread[i] = true;
		for_each_member(engine, other) {
			const uint8_t *good =
				loaded_map(engine, other) + (size_t)i * LAYOUT_GRANULE_BYTES;

			if ((is_believed(engine, other) ||
			     (other->in_sync && MUTANT(FORCED_MENDS)) ||
			     (other->in_sync && member->forced && MUTANT(FORCED_MEND_EACH_OTHER))) &&
			    map_granule_valid(good, i, engine->options.volume_uuid)) {
				memcpy(granule, good, LAYOUT_GRANULE_BYTES);
				break;
			}
		}
	}
	if (damaged > 0)
		engine_log(engine, LOG_WARNING,
			   "member %s: %u damaged granules of its region map; "
			   "the others' count",
			   member->backend->label, damaged);
}

static void
merge_map(struct engine *engine, struct member *member, uint8_t *flags, bool first)
{
	const uint8_t *map = loaded_map(engine, member);
	bool unread[LAYOUT_MAP_BYTES / LAYOUT_GRANULE_BYTES] = { false };
	int damaged = 0;

	mend_granules(engine, member, unread);
	for (uint32_t block = 0; block < engine->intent.blocks; block++)
		damaged += map_block_decode(map + (size_t)block * LAYOUT_MAP_BLOCK_BYTES,
					    engine->intent.regions, block,
					    engine->options.volume_uuid, flags);
	if (damaged > 0)
		engine_log(engine, LOG_ERR,
			   "%d granules of the region map are damaged on all members: "
			   "their regions count as dirty",
			   damaged);
	intent_merge(&engine->intent, flags, first);
	/* What stands there is not known to say so, and may be read the next time. */
	for (uint32_t i = 0; i * LAYOUT_GRANULE_REGIONS < engine->intent.regions; i++)
		if (unread[i] && !MUTANT(UNREAD_DURABLE))
			intent_unread(&engine->intent, i * LAYOUT_GRANULE_REGIONS,
				      LAYOUT_GRANULE_REGIONS);
}

/* One that is not believed has a table of an older time: what that calls lost of others may have
 * been written since.  Of its own chunks it is right, for those are as old.
 */
static bool
is_other(const struct engine *engine, const struct member *member)
{
	return MUTANT(FORCED_TABLES_IN_TURN) ? member->forced : !is_believed(engine, member);
}

/* Is nothing listed there, say the superblocks? */
static bool
is_said_empty(const struct engine *engine, uint32_t granule)
{
	return engine->record.lost_empty & UINT32_C(1) << granule / LAYOUT_LOST_BLOCK_GRANULES;
}

/* False: some of the table could be read on no member, and may list something.  Without redundancy
 * nothing is ever listed, so it does not matter what stands there, and nobody waits for it to be
 * written anew.
 */
static bool
merge_lost_tables(struct engine *engine)
{
	bool known[LAYOUT_LOST_GRANULES] = { false };
	bool whole = true;

	if (engine->geometry.redundancy == 0 && !MUTANT(NOTHING_LOST_WRITTEN))
		return true;
	for (int others = 0; others <= 1; others++)
		for_each_member(engine, member)
			if (member->in_sync && is_other(engine, member) == others &&
			    !lost_io_load(engine, member,
					  loaded_map(engine, member) + map_bytes(engine), others,
					  known))
				engine_log(engine, LOG_ERR,
					   "member %s: its table of lost extents is damaged; the "
					   "others' count",
					   member->backend->label);
	for (uint32_t granule = 0; granule < LAYOUT_LOST_GRANULES; granule++)
		whole &= known[granule] || is_said_empty(engine, granule);
	return whole;
}

/* Is somebody there who is in sync on record? */
static bool
is_any_trusted(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].in_sync &&
		    !engine->members[i].forced)
			return true;
	return false;
}

/* Sets of tracked members are marked; what else is marked belongs to nobody. */
static uint8_t
tracked_sets(const struct engine *engine)
{
	uint8_t sets = 0;

	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (engine->record.tracked[set].state != 0)
			sets |= REGION_STALE(set);
	return sets;
}

static void
apply_force(struct engine *engine)
{
	const bool unwritten_known = is_any_trusted(engine);

	for_each_member(engine, member) {
		if (!member->forced)
			continue;
		if (!MUTANT(FORCE_TRUSTS))
			intent_forced(&engine->intent,
				      member->stale_set >= 0 ? REGION_STALE(member->stale_set) : 0,
				      unwritten_known);
		if (MUTANT(FORCE_UNTRACKS))
			place_untrack(engine, member->stale_set);
		/* its set is free (forget_taken), or another's by now */
		member->stale_set = -1;
	}
}

/* The last stop said that nothing but what the table has is lost with these roles.  It spoke of the
 * members that were in sync then: one that is missing besides takes along what was not proven, and
 * one that is taken by force may lack anything.
 */
static bool
is_all_recorded(const struct engine *engine)
{
	const uint32_t roles = engine->assembly->recorded_found;

	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].in_sync &&
		    engine->members[i].forced && !MUTANT(RECORDED_FORCED))
			return false;
	return engine_has_parity(engine) && roles != 0 &&
	       (roles == engine->missing || MUTANT(RECORDED_FOR_OTHERS));
}

/* What a device lost before, and told at a log-in, no flush of this engine covered: what is dirty
 * is suspect anyway.  Returns whether one did, for then a stop before need not have flushed it.
 */
static bool
forget_void_flushes(struct engine *engine)
{
	bool any = false;

	for_each_member(engine, member) {
		any |= member->flushes_void;
		member->flushes_void &= MUTANT(VOID_BEFORE_START);
	}
	return any;
}

static bool
map_counts(const struct engine *engine, const struct member *member)
{
	if (member->forced && MUTANT(FORCED_MAPS_IGNORED))
		return false;
	return is_believed(engine, member) || (member->in_sync && MUTANT(FORCED_MAP_COUNTS));
}

static void
merge_maps(struct engine *engine)
{
	uint8_t *flags = malloc(engine->intent.regions);
	bool first = true;
	bool tables_known, flushes_void;

	if (flags == NULL) {
		back_to_examine(engine, "out of memory");
		return;
	}
	for_each_member(engine, member) {
		if (!map_counts(engine, member))
			continue;
		merge_map(engine, member, flags, first);
		first = false;
	}
	free(flags);
	tables_known = merge_lost_tables(engine);
	intent_loaded(&engine->intent);
	flushes_void = forget_void_flushes(engine);
	apply_force(engine);
	intent_forget(&engine->intent, (uint8_t)(REGION_STALE_ANY & ~tracked_sets(engine)));
	engine->intent.absent = tracked_sets(engine);
	if (engine->missing != 0)
		intent_member_lost(&engine->intent, engine_bare(engine));
	else if (engine->intent.absent != 0)
		intent_mark_absent(&engine->intent);
	if ((tables_known || MUTANT(RECORDED_UNREAD)) && is_all_recorded(engine))
		intent_all_recorded(&engine->intent, engine_bare(engine));
	if (flushes_void && !MUTANT(STOP_FLUSHED_ANYWAY))
		intent_flushes_void(&engine->intent);
}

static void
write_new_epoch(struct engine *engine)
{
	free(engine->assembly->maps);
	engine->assembly->maps = NULL;
	enter(engine, PHASE_WRITE_SUPERBLOCKS);
	engine->metadata->once = 0;
	engine->metadata->durable = 0;
	engine->metadata->wanted = 0;
	engine->eviction->kept_record = 0;
	engine->lost_io->said = 0;
	engine->lost_io->unsaid = true;
	lost_io_say(engine);
	metadata_commit(engine);
	if (MUTANT(EPOCH_UNWRITTEN))
		engine->metadata->durable = engine->metadata->wanted;
}

/* The members know the new epoch; this gateway remembers it before the first I/O, and not sooner: a
 * crash in between must not leave it waiting for members of an epoch that never was.
 */
static bool
epoch_remembered(struct engine *engine)
{
	if (engine->eviction->epoch_kept >= engine->record.epoch)
		return true; /* somebody was evicted meanwhile */
	if (engine->port.record_epoch == NULL ||
	    engine->port.record_epoch(engine->port.owner, engine->record.epoch) == 0) {
		engine->eviction->epoch_kept = engine->record.epoch;
		return true;
	}
	snprintf(engine->reason, sizeof(engine->reason),
		 "the epoch could not be recorded on this gateway");
	engine_log(engine, LOG_ERR, "%s", engine->reason);
	engine->assembly->not_before_ms = engine->now_ms + AGAIN_MS;
	return false;
}

/* Also one that has done its part already, and who may be back: nobody takes it in before this is
 * over.
 */
static void
look_for_lost(struct engine *engine)
{
	for_each_member(engine, member)
		if (member->in_sync && !member->checked)
			was_lost(member);
}

/* --- a forced member: what it lacks is dirty, and what is lost is known, durably, before the superblocks trust it --- */

static void
forced_written(struct engine *engine)
{
	if (--engine->marks->pending > 0)
		return;
	if (engine->phase != PHASE_LOAD_MAP && !MUTANT(CALLED_OFF_GOES_ON))
		/* stopped meanwhile: members are being given back, and others may have them next */
		return;
	if (!MUTANT(WRITTEN_MEMBER_UNSEEN))
		look_for_lost(engine);
	if (engine->marks->error != 0)
		back_to_examine(engine, "a member was lost while its region map was written");
	else
		write_new_epoch(engine);
}

static void
forced_part_written(struct member_io *mio, int result)
{
	if (result != 0)
		mio->member->engine->marks->error = result;
	if (result == -ENOTCONN)
		was_lost(mio->member);
	forced_written(mio->member->engine);
}

static void
write_part(struct member *member, uint64_t offset_bytes, uint8_t *from, uint32_t length_bytes)
{
	move_part(member, BACKEND_WRITE, offset_bytes, from, length_bytes, forced_part_written);
}

/* All that is loaded is merged: the table is made in what was loaded from this member. */
static void
write_forced_table(struct engine *engine, struct member *member)
{
	uint8_t *table = loaded_map(engine, member) + map_bytes(engine);

	for (uint32_t granule = 0; granule < LAYOUT_LOST_GRANULES; granule++)
		lost_encode(engine->lost, granule, engine->record.epoch,
			    engine->options.volume_uuid,
			    table + (size_t)granule * LAYOUT_GRANULE_BYTES);
	write_part(member, LAYOUT_LOST_OFFSET, table, LAYOUT_LOST_BYTES);
}

static void
write_forced_parts(struct engine *engine)
{
	uint8_t *map = engine->assembly->maps;

	engine->marks->error = 0;
	engine->marks->pending = 1; /* this function */
	for_each_member(engine, member)
		if (member->in_sync && member->forced && !MUTANT(FORCED_TABLE_UNWRITTEN))
			write_forced_table(engine, member);
	for (uint32_t block = 0; block < engine->intent.blocks;
	     block++, map += LAYOUT_MAP_BLOCK_BYTES) {
		map_block_encode(engine->intent.flags, engine->intent.regions, block,
				 engine->record.epoch, engine->options.volume_uuid, map);
		for_each_member(engine, member)
			if (member->in_sync)
				write_part(member,
					   LAYOUT_MAP_OFFSET +
						   (uint64_t)block * LAYOUT_MAP_BLOCK_BYTES,
					   map, LAYOUT_MAP_BLOCK_BYTES);
	}
	forced_written(engine);
}

/* --- what is refused, and may be known --- */

/* What an administrator gave up was what was away then.  Who comes later is not who was meant. */
static bool
may_force(const struct engine *engine)
{
	const uint32_t limit_ms = engine->options.force_ms;

	return engine->now_ms - engine->assembly->started_ms < limit_ms ||
	       (limit_ms != 0 && MUTANT(FORCE_LASTS));
}

/* A start that is forced waits no longer than for members that are absent. */
static bool
may_wait_for_refused(const struct engine *engine)
{
	return !may_force(engine) ||
	       engine->now_ms - engine->assembly->started_ms < engine->options.assembly_wait_ms;
}

/* Into *bit: that of the block in which it stands. */
static uint64_t *
refused_bit(struct member *member, uint64_t offset_bytes, uint64_t *bit)
{
	const uint64_t block = (offset_bytes - LAYOUT_MAP_OFFSET) / LAYOUT_MAP_BLOCK_BYTES;

	*bit = 1ull << block % 64;
	return &member->refused_blocks[block / 64];
}

static void
note_refused(struct member *member, uint64_t offset_bytes)
{
	uint64_t bit, *bits = refused_bit(member, offset_bytes, &bit);

	*bits |= bit;
}

static bool
has_refused(struct member *member, uint64_t offset_bytes)
{
	uint64_t bit, *bits = refused_bit(member, offset_bytes, &bit);

	return (*bits & bit) != 0;
}

static bool
has_granule(struct engine *engine, struct member *member, bool table, uint32_t granule)
{
	const uint8_t *in = loaded_map(engine, member) + (table ? map_bytes(engine) : 0) +
			    (size_t)granule * LAYOUT_GRANULE_BYTES;
	struct lost_extent entries[LAYOUT_LOST_ENTRIES];
	bool clipped;

	return table ? lost_granule_decode(in, granule, engine->options.volume_uuid,
					   &engine->geometry, entries, &clipped)
		     : map_granule_valid(in, granule, engine->options.volume_uuid);
}

/* Nobody who is believed has said what stands there, and one of them has refused to.  What a member
 * that is taken by force has lost of its own chunks nobody else may know.
 */
static bool
is_granule_withheld(struct engine *engine, bool table, uint32_t granule)
{
	const uint64_t at = (table ? LAYOUT_LOST_OFFSET : LAYOUT_MAP_OFFSET) +
			    (uint64_t)granule * LAYOUT_GRANULE_BYTES;
	bool known = table && is_said_empty(engine, granule);
	bool refused = false;

	for_each_member(engine, member) {
		const bool believed = is_believed(engine, member);
		const bool has = member->in_sync && (believed || table) &&
				 has_granule(engine, member, table, granule);

		if (member->in_sync && !has && has_refused(member, at)) {
			if (table && !believed)
				return true;
			refused |= believed;
		}
		known |= believed && has;
	}
	return refused && !known;
}

static bool
any_withheld(struct engine *engine, bool table, uint32_t granules)
{
	for (uint32_t granule = 0; granule < granules; granule++)
		if (is_granule_withheld(engine, table, granule))
			return true;
	return false;
}

/* Taken for damaged, a map would make all chunks of missing members unknown, and a table would let
 * what is lost pass for data: for good, though a refusal may pass.  Copies need no map: what is
 * dirty is no loss to them.
 */
static bool
is_withheld(struct engine *engine)
{
	const uint32_t granules =
		(engine->intent.regions + LAYOUT_GRANULE_REGIONS - 1) / LAYOUT_GRANULE_REGIONS;

	if (engine->geometry.redundancy == 0 || !may_wait_for_refused(engine))
		return false;
	return (engine_has_parity(engine) && !MUTANT(MAP_REFUSAL_IS_LOSS) &&
		any_withheld(engine, false, granules)) ||
	       (!MUTANT(TABLE_REFUSAL_IS_LOSS) && any_withheld(engine, true, LAYOUT_LOST_GRANULES));
}

/* No member that is believed can read it, and the superblocks don't say that it is empty. */
static bool
is_granule_unread(struct engine *engine, uint32_t granule)
{
	const uint64_t at = LAYOUT_LOST_OFFSET + (uint64_t)granule * LAYOUT_GRANULE_BYTES;

	if (is_said_empty(engine, granule))
		return false;
	for_each_member(engine, member)
		if (is_believed(engine, member) &&
		    (has_granule(engine, member, true, granule) ||
		     (has_refused(member, at) && MUTANT(TABLE_REFUSAL_IS_LOSS))))
			return false;
	return true;
}

/* Whatever it listed would be read as data, for good. */
static bool
is_table_unread(struct engine *engine, uint32_t *granule)
{
	if (engine->geometry.redundancy == 0 || !may_wait_for_refused(engine) ||
	    MUTANT(TABLE_UNREAD_EMPTY))
		return false;
	for (*granule = 0; *granule < LAYOUT_LOST_GRANULES; ++*granule)
		if (is_granule_unread(engine, *granule))
			return true;
	return false;
}

/* It is looked at again each second, with whoever is back by then, and said once. */
static void
refuse_unread(struct engine *engine, uint32_t granule)
{
	char why[sizeof(engine->assembly->unread)];
	size_t length;

	snprintf(why, sizeof(why),
		 "the table of lost extents is unreadable at byte %u and may list rows: bring back "
		 "a member that can read it, "
		 "or --force: what it lists reads as what is there then; unreadable on",
		 LAYOUT_LOST_OFFSET + granule * LAYOUT_GRANULE_BYTES);
	for_each_member(engine, member)
		if (member->in_sync) {
			length = strlen(why);
			snprintf(why + length, sizeof(why) - length, " %s", member->backend->label);
		}
	if (strcmp(why, engine->assembly->unread) != 0)
		engine_log(engine, LOG_ERR, "%s", why);
	memcpy(engine->assembly->unread, why, sizeof(why));
	begin_again(engine, why);
	engine->assembly->refused = true;
}

/* One half may get the new epoch, and the gateway die before it knows: nothing was done in that, so
 * the other half may start, but not in the same epoch, or below it.  Else who was never written to
 * would seem to be the newer.
 */
static bool
epoch_meant(struct engine *engine)
{
	if (!geometry_can_split_replaced(&engine->geometry) || engine->port.try_epoch == NULL)
		return true;
	if (engine->port.try_epoch(engine->port.owner, engine->record.epoch) != 0)
		return false;
	engine->options.epoch_tried = engine->record.epoch;
	return true;
}

/* Nothing is on record of this start yet, so who is away may still come instead. */
static bool
can_spare_disputed(struct engine *engine)
{
	uint32_t disputed = 0;

	for_each_member(engine, member)
		if (member->in_sync && member->disputed)
			disputed |= ROLE(member->role);
	return disputed == 0 || geometry_bears(&engine->geometry, engine->out | disputed);
}

/* It has logged in since the start was decided, and may be the newer half.  Once for each: who logs
 * in and says nothing holds up no start.
 */
static bool
is_half_about_to_say(struct engine *engine)
{
	bool any = false;

	for_each_member(engine, member) {
		const bool begun = member->link == LINK_OPEN && member->examining > 0 &&
				   member->examined_ms >= engine->phase_since_ms;

		if (begun && member->presence == PRESENCE_AWAITED && !member->awaited_once &&
		    !member->leaving && !member->said &&
		    geometry_can_split_replaced(&engine->geometry) && !MUTANT(HALF_UNAWAITED))
			any = member->awaited_once = true;
	}
	return any;
}

static void
maps_read(struct engine *engine)
{
	bool forced = false;
	uint32_t granule;

	if (--engine->marks->pending > 0)
		return;
	if (!MUTANT(MAP_LOST_MEMBER_OK))
		look_for_lost(engine);
	if (engine->marks->error != 0) {
		back_to_examine(engine,
				engine->marks->error == -EAGAIN ? "a member is there twice"
				: engine->marks->error == -ESTALE
					? "a device has come that is newer"
					: "a member was lost while its region map was read");
		return;
	}
	if (is_half_about_to_say(engine)) {
		back_to_examine(engine, "a device is about to say what it is");
		return;
	}
	if (!can_spare_disputed(engine)) {
		back_to_examine(
			engine,
			"a member that can't be spared says that another gateway has reserved it");
		return;
	}
	if (is_withheld(engine)) {
		back_to_examine(engine, "members refuse to read the region map, or the table of "
					"lost extents, and no other has it");
		return;
	}
	if (is_table_unread(engine, &granule)) {
		refuse_unread(engine, granule);
		return;
	}
	if (!epoch_meant(engine)) {
		back_to_examine(engine, "the epoch could not be recorded on this gateway");
		return;
	}
	for_each_member(engine, member)
		forced |= member->forced;
	merge_maps(engine);
	if (engine->phase == PHASE_LOAD_MAP && forced && !MUTANT(FORCE_MAP_UNWRITTEN))
		write_forced_parts(engine);
	else if (engine->phase == PHASE_LOAD_MAP)
		write_new_epoch(engine);
}

static void map_read(struct member_io *mio, int result);

static void
load_part(struct member *member, uint64_t offset_bytes, uint8_t *into, size_t length_bytes)
{
	move_part(member, BACKEND_READ, offset_bytes, into, (uint32_t)length_bytes, map_read);
}

/* A sector that can't be read costs its own block: others may lack another one, and together they
 * know all.
 */
static void
load_by_block(const struct member_io *mio)
{
	uint8_t *into = mio->segments[0].iov_base;

	for (size_t at = 0; at < mio->segments[0].iov_len; at += LAYOUT_MAP_BLOCK_BYTES)
		load_part(mio->member, mio->io.offset_bytes + at, into + at,
			  LAYOUT_MAP_BLOCK_BYTES);
}

static void
map_read(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result == -ENOTCONN)
		was_lost(mio->member);
	else if (result != 0 && result != -ENODATA && result != -EIO)
		engine->marks->error = result;
	else if (result != 0 && mio->segments[0].iov_len > LAYOUT_MAP_BLOCK_BYTES &&
		 !MUTANT(MAP_UNREAD_WHOLE))
		load_by_block(mio);
	/* unreadable: its CRCs will be wrong, so all of it counts as dirty */
	else if (result != 0)
		memset(mio->segments[0].iov_base, 0xFF, mio->segments[0].iov_len);
	if (result == -EIO)
		note_refused(mio->member, mio->io.offset_bytes);
	maps_read(engine);
}

/* A conflict is noted where it is met; another refusal says nothing. */
static void
was_asked(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result == -ENOTCONN && !mio->member->disputed)
		was_lost(mio->member);
	maps_read(engine);
}

/* Reads meet no conflict.  The superblocks would, and then some would say already who is out. */
static void
ask_whose(struct member *member)
{
	if (MUTANT(STARTED_UNASKED))
		return;
	member->engine->marks->pending++;
	dispute_ask(member, was_asked, member->engine);
}

static void
load_maps(struct engine *engine)
{
	enter(engine, PHASE_LOAD_MAP);
	engine->marks->error = 0;
	engine->assembly->maps =
		calloc((size_t)engine->slots, map_bytes(engine) + LAYOUT_LOST_BYTES);
	if (engine->assembly->maps == NULL) {
		back_to_examine(engine, "out of memory");
		return;
	}
	engine->marks->pending = 1; /* this function */
	for_each_member(engine, member) {
		uint8_t *into = loaded_map(engine, member);

		if (!member->in_sync)
			continue;
		memset(member->refused_blocks, 0, sizeof(member->refused_blocks));
		load_part(member, LAYOUT_MAP_OFFSET, into, map_bytes(engine));
		load_part(member, LAYOUT_LOST_OFFSET, into + map_bytes(engine), LAYOUT_LOST_BYTES);
		ask_whose(member);
	}
	maps_read(engine);
}

/* Roles of which a stop in order said that all is on record.  Not if this gateway has seen a later
 * assembly, nor of one that is in sync.
 */
static uint32_t
recorded_roles(const struct engine *engine, const struct superblock *newest)
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
	engine->assembly->recorded_found = recorded_roles(engine, newest);
	engine->record.clean = false;
	snprintf(engine->record.owner, sizeof(engine->record.owner), "%s", engine->options.owner);
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
static void
forget_taken(struct engine *engine)
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
	}
	forget_taken(engine);
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

static uint64_t
arena_bound(const struct engine *engine)
{
	/* The largest operation has two partial rows that read every chunk, and parity for
	 * OP_BYTES_MAX of full ones (docs/design/memory.md).
	 */
	uint64_t largest = 2ull * (engine->geometry.members + 4) * engine->geometry.chunk_bytes +
			   3ull * OP_BYTES_MAX;
	uint64_t wanted =
		engine->options.buffer_bytes_max ? engine->options.buffer_bytes_max : 64ull << 20;

	return wanted > largest ? wanted : largest;
}

static int
prepare_memory(struct engine *engine, uint64_t region_rows)
{
	row_table_destroy(engine->rows);
	engine->rows = row_table_create(engine->geometry.redundancy > 0 && !MUTANT(ROWS_SHARED));
	arena_destroy(&engine->arena);
	if (engine->rows == NULL || arena_init(&engine->arena, arena_bound(engine)) != 0)
		return -ENOMEM;
	if (resync_init(engine) != 0 || rebuild_init(engine) != 0 || scrub_init(engine) != 0 ||
	    repair_init(engine) != 0 || lost_io_init(engine) != 0 || row_cache_init(engine) != 0)
		return -ENOMEM;
	return intent_init(&engine->intent, engine->geometry.rows, (uint32_t)region_rows);
}

static const char *
gateway_of(const char *owner)
{
	const char *mark = strrchr(owner, '#');

	return mark != NULL ? mark : owner;
}

/* A start that did not succeed in time takes nothing any more: another gateway may have been
 * started since.
 */
static bool
may_take_over(const struct engine *engine)
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
	if (may_take_over(engine) || any_reservation(engine, verdict))
		return false;
	if (!stopped && strcmp(gateway_of(newest->owner), gateway_of(engine->options.owner)) != 0)
		snprintf(
			engine->reason, sizeof(engine->reason),
			"in use by %s, or was when that ended without stopping it; its targets "
			"know no "
			"reservations: if that gateway is gone for certain, start with --take-over",
			newest->owner);
	else if (stopped && owner_unknown(engine, verdict))
		snprintf(engine->reason, sizeof(engine->reason),
			 "who has it is not known: on each member that is here one copy of the "
			 "superblock can't be read, "
			 "and its targets know no reservations: if no gateway has it for certain, "
			 "start with --take-over");
	else
		return false;
	engine->assembly->refused = true;
	return true;
}

static void
begin(struct engine *engine, const struct assembly_verdict *verdict)
{
	if (owned_by_another(engine, verdict) && !MUTANT(OWNER_IGNORED))
		return;
	if (adopt(engine, verdict) != 0) {
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason),
			 "level %u with %u members is not supported by this version",
			 engine->record.level, engine->record.member_count);
		return;
	}
	place_members(engine, verdict);
	if (!all_fit(engine)) {
		disown_members(engine);
		engine->activity++; /* so that who is left is looked at */
		return;
	}
	engine->data_offset_bytes = engine->record.areas[AREA_DATA - 1].offset_bytes;
	if (prepare_memory(engine, engine->record.region_rows) != 0) {
		if (!MUTANT(ASSEMBLY_UNRETRIED))
			/* members have said all: nothing else would wake us */
			back_to_examine(engine, "out of memory");
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason), "out of memory");
		return;
	}
	engine->assembly->refused = false;
	engine->reason[0] = '\0';
	load_maps(engine);
}

/* A copy that was refused may be the newer one: where the others don't suffice, it is asked for
 * again.  Not while both are being read: each answer would ask for two more, for ever.
 */
static void
look_again(struct engine *engine)
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
 * superblocks were read, or has it: they are read again, once, before anything is made of them.
 * Not when this start has written some: those name this gateway.
 */
static bool
read_again(struct engine *engine, uint64_t since_ms, uint32_t age_ms,
	   const struct assembly_verdict *accused)
{
	bool any = false;

	for_each_member(engine, member)
		if (member->presence == PRESENCE_EXAMINED && member->link == LINK_OPEN &&
		    !member->leaving && !member->identity.reservation &&
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
wait_ms(const struct engine *engine, const struct assembly_verdict *verdict)
{
	const uint32_t limit_ms = engine->options.assembly_wait_ms;
	const bool half_missing = verdict->answer == ASSEMBLY_DEGRADED && verdict->other_half;

	for (int i = 0; i < engine->slots && half_missing; i++)
		if (engine->members[i].backend != NULL && is_about_to_say(&engine->members[i]) &&
		    !MUTANT(SLOW_NOT_AWAITED))
			return limit_ms + 2 * engine->options.give_up_ms;
	return limit_ms;
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
	engine->assembly->startable_wait_ms = wait_ms(engine, verdict);
	if (engine->now_ms - engine->assembly->startable_ms >= engine->assembly->startable_wait_ms)
		return true;
	snprintf(engine->reason, sizeof(engine->reason), "%s",
		 unheard ? "waiting for devices that have not said yet what "
			   "they are"
			 : "waiting for absent members");
	return false;
}

static void
examine_run(struct engine *engine)
{
	struct assembly_input input = {
		.count = engine->slots,
		.volume_uuid = engine->options.volume_uuid,
		.epoch_seen = engine->options.epoch_seen,
		.epoch_before = engine->places->epoch_before,
		.force = may_force(engine),
	};
	struct assembly_verdict verdict;

	if (is_looking_again(engine))
		return;
	for_each_member(engine, member) {
		input.presence[member->slot] = member->presence;
		input.superblocks[member->slot] = &member->superblock;
		input.copy_lost[member->slot] = member->copy_lost;
		input.said[member->slot] = member->said;
		input.unsteady[member->slot] = is_unsteady(member);
		if ((member->presence == PRESENCE_EXAMINED ||
		     member->presence == PRESENCE_MISFIT) &&
		    is_our_writing(member))
			input.found[member->slot] = member->taken_as;
		if (member->presence == PRESENCE_AWAITED && member->link == LINK_CLOSED &&
		    member->close_error == -EBUSY) {
			engine->assembly->refused = true;
			snprintf(engine->reason, sizeof(engine->reason),
				 "member %.100s: %.70s; stop it "
				 "there, or start with --take-over if that gateway is dead",
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
		begin(engine, &verdict);
	} else {
		engine->assembly->read_again = false;
		engine->assembly->refused = verdict.answer == ASSEMBLY_REFUSED;
		if (verdict.reason[0] != '\0') /* else may_begin() has said why */
			snprintf(engine->reason, sizeof(engine->reason), "%s", verdict.reason);
	}
	if (engine->phase == PHASE_EXAMINE)
		look_again(engine);
}

/* It came too late, and would be in sync if this start had not chosen without it. */
static bool
is_late(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->backend != NULL && !member->in_sync && !member->evicting &&
	       member->link == LINK_OPEN && member->examining == 0 &&
	       member->standing == STANDING_OUT_OF_DATE && (engine->missing & ROLE(member->role)) &&
	       engine->absence[member->role].held &&
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

void
assemble_run(struct engine *engine)
{
	if (had_better_wait(engine))
		back_to_examine(
			engine,
			"a member refuses its superblock, or is silent, and another is back");
	if (engine->phase == PHASE_EXAMINE && engine->now_ms >= engine->assembly->not_before_ms)
		examine_run(engine);
	if (engine->phase == PHASE_WRITE_SUPERBLOCKS && engine->metadata->wanted > 0 &&
	    engine->metadata->durable >= engine->metadata->wanted &&
	    engine->now_ms >= engine->assembly->not_before_ms && epoch_remembered(engine)) {
		engine->reason[0] = '\0';
		enter(engine, PHASE_RUNNING);
		flush_what_was_left(engine);
		engine_event(engine, EVENT_ASSEMBLED, LOG_NOTICE, NULL,
			     "assembled: epoch %llu, %d of %d members in sync",
			     (unsigned long long)engine->record.epoch,
			     engine->geometry.members - __builtin_popcount(engine->out),
			     engine->geometry.members);
		place_all(engine);
		scrub_assembled(engine);
	}
}

uint64_t
assemble_deadline(const struct engine *engine)
{
	uint64_t limit = engine->assembly->started_ms + engine->options.assembly_limit_ms;
	uint64_t deadline = engine->now_ms < limit ? limit : UINT64_MAX;

	if (engine->phase != PHASE_EXAMINE && engine->phase != PHASE_WRITE_SUPERBLOCKS)
		return UINT64_MAX;
	if (engine->now_ms < engine->assembly->not_before_ms)
		return engine->assembly->not_before_ms;
	if (engine->phase != PHASE_EXAMINE &&
	    engine->now_ms < engine->phase_since_ms + engine->options.give_up_ms)
		return engine->phase_since_ms + engine->options.give_up_ms;
	if (engine->phase != PHASE_EXAMINE)
		return UINT64_MAX;
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
