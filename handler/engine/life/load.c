/* load.c - LOAD_MAP: the region maps and tables of lost extents of all that start, merged.
 *
 * Here it is decided who is believed, what takes the place of a part that is damaged or refused,
 * and what a member that is taken by force gets before the superblocks trust it.  An attempt that
 * can't go on begins again (attempt.c).
 */
#include "internal.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/members/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

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
			   "member %s: %u damaged granules of its region map; the others' count",
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
			   "%d granules of the region map are damaged on all members: their "
			   "regions count as dirty",
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
		/* its set is free (assemble_forget_taken()), or another's by now */
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
		attempt_again(engine, "out of memory");
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

/* --- a forced member: it gets what it lacks as dirty, and what is lost, before it is trusted --- */

static void
forced_written(struct engine *engine)
{
	if (--engine->marks->pending > 0)
		return;
	if (engine->phase != PHASE_LOAD_MAP && !MUTANT(CALLED_OFF_GOES_ON))
		/* stopped meanwhile: members are being given back, and others may have them next */
		return;
	if (!MUTANT(WRITTEN_MEMBER_UNSEEN))
		attempt_look_for_lost(engine);
	if (engine->marks->error != 0)
		attempt_again(engine, "a member was lost while its region map was written");
	else
		attempt_write_epoch(engine);
}

static void
forced_part_written(struct member_io *mio, int result)
{
	if (result != 0)
		mio->member->engine->marks->error = result;
	if (result == -ENOTCONN)
		attempt_lost(mio->member);
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
bool
load_may_force(const struct engine *engine)
{
	const uint32_t limit_ms = engine->options.force_ms;

	return engine->now_ms - engine->assembly->started_ms < limit_ms ||
	       (limit_ms != 0 && MUTANT(FORCE_LASTS));
}

/* A start that is forced waits no longer than for members that are absent. */
bool
load_may_wait(const struct engine *engine)
{
	return !load_may_force(engine) ||
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

	if (engine->geometry.redundancy == 0 || !load_may_wait(engine))
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
	if (engine->geometry.redundancy == 0 || !load_may_wait(engine) ||
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
		 "a member that can read it, or --force: what it lists reads as what is there "
		 "then; unreadable on",
		 LAYOUT_LOST_OFFSET + granule * LAYOUT_GRANULE_BYTES);
	for_each_member(engine, member)
		if (member->in_sync) {
			length = strlen(why);
			snprintf(why + length, sizeof(why) - length, " %s", member->backend->label);
		}
	if (strcmp(why, engine->assembly->unread) != 0)
		engine_log(engine, LOG_ERR, "%s", why);
	memcpy(engine->assembly->unread, why, sizeof(why));
	attempt_begin_again(engine, why);
	engine->assembly->refused = true;
}

/* --- the reads --- */

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

/* All that was to be read is; what has come meanwhile is looked at each time. */
static void
judge_what_was_read(struct engine *engine)
{
	bool forced = false;
	uint32_t granule;

	if (!MUTANT(MAP_LOST_MEMBER_OK))
		attempt_look_for_lost(engine);
	if (engine->marks->error != 0) {
		attempt_again(engine, engine->marks->error == -EAGAIN ? "a member is there twice"
				      : engine->marks->error == -ESTALE
					      ? "a device has come that is newer"
					      : "a member was lost while its region map was read");
		return;
	}
	if (is_half_about_to_say(engine)) {
		attempt_again(engine, "a device is about to say what it is");
		return;
	}
	if (!can_spare_disputed(engine)) {
		attempt_again(
			engine,
			"a member that can't be spared says that another gateway has reserved it");
		return;
	}
	if (is_withheld(engine)) {
		attempt_again(engine, "members refuse to read the region map, or the table of "
				      "lost extents, and no other has it");
		return;
	}
	if (is_table_unread(engine, &granule)) {
		refuse_unread(engine, granule);
		return;
	}
	engine->assembly->epoch_awaited = !attempt_mean_epoch(engine);
	if (engine->assembly->epoch_awaited) {
		/* Members may come meanwhile. */
		if (epochs_refusal(engine) != NULL)
			attempt_begin_again(engine, epochs_refusal(engine));
		return;
	}
	engine->assembly->epoch_awaited = !takeover_tells(engine);
	if (engine->assembly->epoch_awaited)
		return;
	for_each_member(engine, member)
		forced |= member->forced;
	merge_maps(engine);
	if (engine->phase == PHASE_LOAD_MAP && forced && !MUTANT(FORCE_MAP_UNWRITTEN))
		write_forced_parts(engine);
	else if (engine->phase == PHASE_LOAD_MAP)
		attempt_write_epoch(engine);
}

static void
maps_read(struct engine *engine)
{
	if (--engine->marks->pending == 0)
		judge_what_was_read(engine);
}

void
load_run(struct engine *engine)
{
	if (engine->phase == PHASE_LOAD_MAP && engine->assembly->epoch_awaited)
		judge_what_was_read(engine);
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
		attempt_lost(mio->member);
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

/* A conflict is noted where it is met; another refusal, of a question or of a flush, says nothing.
 */
static void
was_asked(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result == -ENOTCONN && !mio->member->disputed)
		attempt_lost(mio->member);
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

void
load_begin(struct engine *engine)
{
	life_enter(engine, PHASE_LOAD_MAP);
	engine->assembly->epoch_awaited = false;
	engine->marks->error = 0;
	engine->assembly->maps =
		calloc((size_t)engine->slots, map_bytes(engine) + LAYOUT_LOST_BYTES);
	if (engine->assembly->maps == NULL) {
		attempt_again(engine, "out of memory");
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
		/* What the gateway before was writing through when it died may be in a cache only,
		 * the newer copy of a superblock as well.  The first one of ours goes to the other
		 * copy: a loss of power would tear both then.
		 */
		if (!MUTANT(FOUND_IN_CACHE_ONLY)) {
			engine->marks->pending++;
			place_make_durable(member, was_asked, engine);
		}
	}
	maps_read(engine);
}
