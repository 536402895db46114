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
 * A member lost while the map is loaded sends us back to EXAMINE: nothing was written yet.  Later
 * losses are evict.c's business.
 */
#include "engine_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define AGAIN_MS 1000u		/* after an assembly that had to be given up */

/* --- a session was opened: who is it? --- */

static bool
same_member(const struct member *member, const struct superblock *superblock)
{
	const struct superblock *record = &member->engine->record;

	return memcmp(superblock->volume_uuid, record->volume_uuid, 16) == 0 &&
	       superblock->role == member->role &&
	       memcmp(superblock->member_uuid, record->member_uuids[member->role], 16) == 0 &&
	       (superblock->epoch < record->epoch ||
		(superblock->epoch == record->epoch && superblock->event <= record->event));
}

/* A member came back to a running volume. */
static void
member_returned(struct member *member)
{
	struct engine *engine = member->engine;

	if (!member->in_sync) {
		member_note(member, "reachable again, but out of date: it was left out and has to be rebuilt");
		return;
	}
	if (member->verdict != SUPERBLOCK_OK || !same_member(member, &member->superblock)) {
		member->condemned = true;
		member_note(member, "came back with another superblock than it had");
		member->backend->ops->close(member->backend);
		return;
	}
	if (member->cache_lost && engine->geometry.parities > 0)
		intent_suspect_dirty(&engine->intent);
	member->checked = true;
	member->reason[0] = '\0';
	engine_log(engine, LOG_NOTICE, "member %s: session restored", member->backend->label);
	member_resume(member);
}

static void
judge_superblock(struct member *member)
{
	const char *reason = "";

	member->verdict = superblock_choose(member->page, member->page + LAYOUT_SUPERBLOCK_BYTES,
					    &member->superblock, &reason);
	member->backoff_ms = 100;
	if (member->engine->phase > PHASE_EXAMINE) {
		member_returned(member);
		return;
	}
	if (member->verdict == SUPERBLOCK_OK) {
		member->presence = PRESENCE_EXAMINED;
		member->write_count = member->superblock.write_count;
		member->reason[0] = '\0';
	} else {
		member->presence = PRESENCE_REJECTED;
		member_note(member, "no usable superblock: %s", reason);
	}
}

static void
copy_read(struct member_io *mio, int result)
{
	struct member *member = mio->member;

	if (result == -ENODATA || result == -EIO)
		memset(mio->segments[0].iov_base, 0, LAYOUT_SUPERBLOCK_BYTES);
	else if (result != 0)
		member->examine_failed = true;
	if (--member->examining == 0 && !member->examine_failed)
		judge_superblock(member);
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
assemble_examine(struct member *member)
{
	member->examine_failed = false;
	read_copy(member, LAYOUT_SUPERBLOCK_A_OFFSET, member->page);
	read_copy(member, LAYOUT_SUPERBLOCK_B_OFFSET, member->page + LAYOUT_SUPERBLOCK_BYTES);
}

/* --- phases --- */

static void
enter(struct engine *engine, enum engine_phase phase)
{
	engine->phase = phase;
	engine->phase_since_ms = engine->now_ms;
	engine->activity++;
}

static void
disown_members(struct engine *engine)
{
	for (int i = 0; i < engine->count; i++) {
		engine->members[i].in_sync = false;
		engine->members[i].checked = false;
	}
}

static void
back_to_examine(struct engine *engine, const char *why)
{
	engine_log(engine, LOG_WARNING, "assembly starts again: %s", why);
	disown_members(engine);
	free(engine->map_load);
	engine->map_load = NULL;
	intent_destroy(&engine->intent);
	engine->examine_not_before_ms = engine->now_ms + AGAIN_MS;
	if (engine->phase < PHASE_DRAIN)
		enter(engine, PHASE_EXAMINE);
}

static size_t
map_load_bytes(const struct engine *engine)
{
	return (size_t)engine->intent.blocks * LAYOUT_MAP_BLOCK_BYTES;
}

static void
merge_maps(struct engine *engine)
{
	uint8_t *flags = malloc(engine->intent.regions);
	bool first = true;

	if (flags == NULL) {
		back_to_examine(engine, "out of memory");
		return;
	}
	for (int i = 0; i < engine->count; i++) {
		const uint8_t *map = engine->map_load + (size_t)i * map_load_bytes(engine);
		int damaged = 0;

		if (!engine->members[i].in_sync)
			continue;
		for (uint32_t block = 0; block < engine->intent.blocks; block++)
			damaged += map_block_decode(map + (size_t)block * LAYOUT_MAP_BLOCK_BYTES,
						    engine->intent.regions, block,
						    engine->options.volume_uuid, flags);
		if (damaged > 0)
			engine_log(engine, LOG_WARNING, "member %s: %d damaged granules of its region "
				   "map count as dirty", engine->members[i].backend->label, damaged);
		intent_merge(&engine->intent, flags, first);
		first = false;
	}
	free(flags);
	free(engine->map_load);
	engine->map_load = NULL;
	intent_loaded(&engine->intent);
	if (engine->missing >= 0)
		intent_member_lost(&engine->intent);
}

static void
write_new_epoch(struct engine *engine)
{
	if (engine->port.record_epoch != NULL &&
	    engine->port.record_epoch(engine->port.owner, engine->record.epoch) != 0) {
		back_to_examine(engine, "the epoch could not be recorded on this gateway");
		return;
	}
	enter(engine, PHASE_WRITE_SUPERBLOCKS);
	engine->record_durable = 0;
	engine->record_wanted = 0;
	metadata_commit(engine);
}

static void
map_read(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result != 0 && result != -ENODATA && result != -EIO)
		engine->map_error = result;
	else if (result != 0)	/* unreadable: its CRCs will be wrong, so all of it counts as dirty */
		memset(mio->segments[0].iov_base, 0xFF, mio->segments[0].iov_len);
	if (--engine->map_pending > 0)
		return;
	if (engine->map_error != 0) {
		back_to_examine(engine, "a member was lost while its region map was read");
		return;
	}
	merge_maps(engine);
	if (engine->phase == PHASE_LOAD_MAP)
		write_new_epoch(engine);
}

static void
load_maps(struct engine *engine)
{
	enter(engine, PHASE_LOAD_MAP);
	engine->map_error = 0;
	engine->map_load = calloc((size_t)engine->count, map_load_bytes(engine));
	if (engine->map_load == NULL) {
		back_to_examine(engine, "out of memory");
		return;
	}
	for (int i = 0; i < engine->count; i++) {
		struct iovec iov = { engine->map_load + (size_t)i * map_load_bytes(engine),
				     map_load_bytes(engine) };
		struct member_io *mio;

		if (!engine->members[i].in_sync)
			continue;
		mio = member_io_create(&engine->members[i], BACKEND_READ, LAYOUT_MAP_OFFSET, IO_PROBE);
		member_io_append(mio, &iov, 1, (uint32_t)iov.iov_len);
		engine->map_pending++;
		member_io_submit(mio, map_read, engine);
	}
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
	engine->has_geometry = true;
	engine->record = *newest;
	engine->record.epoch = newest->epoch + 1 > engine->options.epoch_seen + 1
				       ? newest->epoch + 1 : engine->options.epoch_seen + 1;
	engine->record.clean = false;
	snprintf(engine->record.owner, sizeof(engine->record.owner), "%s", engine->options.owner);
	engine->tolerated = engine->geometry.parities;
	engine->out = 0;
	engine->missing = -1;
	for (int role = 0; role < engine->count; role++)
		if (engine->record.member_states[role] == MEMBER_IN_SYNC)
			engine->record.member_states[role] = MEMBER_MISSING;
	for (int i = 0; i < IRAID_MEMBERS_MAX; i++)
		engine->by_role[i] = NULL;
	return 0;
}

static void
place_members(struct engine *engine, const struct assembly_verdict *verdict)
{
	for (int i = 0; i < engine->count; i++) {
		struct member *member = &engine->members[i];

		member->role = verdict->role[i];
		member->in_sync = verdict->in_sync[i];
		member->checked = member->in_sync;
		if (!member->in_sync) {
			if (member->reason[0] == '\0')
				member_note(member, "%s", verdict->fault[i]);
			continue;
		}
		engine->by_role[member->role] = member;
		engine->record.member_states[member->role] = MEMBER_IN_SYNC;
	}
	for (int role = 0; role < engine->count; role++) {
		if (engine->by_role[role] != NULL)
			continue;
		engine->out++;
		engine->missing = role;
		/* A member without a role of its own stands in the vacant place. */
		for (int i = 0; i < engine->count; i++)
			if (!engine->members[i].in_sync && engine->members[i].role < 0 &&
			    engine->by_role[role] == NULL) {
				engine->members[i].role = role;
				engine->by_role[role] = &engine->members[i];
			} else if (!engine->members[i].in_sync && engine->members[i].role == role) {
				engine->by_role[role] = &engine->members[i];
			}
	}
	for (int i = 0; i < engine->count; i++)
		if (engine->members[i].role >= 0)
			engine->members[i].state =
				engine->record.member_states[engine->members[i].role];
}

static bool
device_fits(struct engine *engine, struct member *member)
{
	if (member->identity.block_bytes == engine->geometry.block_bytes &&
	    member->identity.capacity_bytes >= member->superblock.member_bytes)
		return true;
	snprintf(engine->reason, sizeof(engine->reason),
		 "member %s has changed: %llu bytes in blocks of %u, formatted as %llu in blocks of %u",
		 member->backend->label, (unsigned long long)member->identity.capacity_bytes,
		 member->identity.block_bytes, (unsigned long long)member->superblock.member_bytes,
		 engine->geometry.block_bytes);
	engine->refused = true;
	return false;
}

static uint64_t
arena_bound(const struct engine *engine)
{
	/* The largest operation has two partial rows that read every chunk, and parity for OP_BYTES_MAX
	 * of full ones (docs/design/memory.md).
	 */
	uint64_t largest = 2ull * (engine->geometry.members + 2) * engine->geometry.chunk_bytes +
			   2ull * OP_BYTES_MAX;
	uint64_t wanted = engine->options.buffer_bytes_max ? engine->options.buffer_bytes_max
							   : 64ull << 20;

	return wanted > largest ? wanted : largest;
}

static int
prepare_memory(struct engine *engine, uint64_t region_rows)
{
	row_table_destroy(engine->rows);
	engine->rows = row_table_create(engine->geometry.parities > 0);
	arena_destroy(&engine->arena);
	if (engine->rows == NULL || arena_init(&engine->arena, arena_bound(engine)) != 0)
		return -ENOMEM;
	if (resync_init(engine) != 0)
		return -ENOMEM;
	return intent_init(&engine->intent, engine->geometry.rows, (uint32_t)region_rows);
}

static const char *
gateway_of(const char *owner)
{
	const char *mark = strrchr(owner, '#');

	return mark != NULL ? mark : owner;
}

/* Targets that know no reservations can't say that another gateway uses them (DESIGN rule 8).  What they
 * can say is who assembled the volume last and did not stop it; whether that one still runs, only a
 * person knows.
 */
static bool
owned_by_another(struct engine *engine, const struct assembly_verdict *verdict)
{
	const struct superblock *newest = &engine->members[verdict->newest].superblock;

	if (newest->clean || newest->owner[0] == '\0' || engine->options.take_over ||
	    strcmp(gateway_of(newest->owner), gateway_of(engine->options.owner)) == 0)
		return false;
	for (int i = 0; i < engine->count; i++)
		if (verdict->in_sync[i] && engine->members[i].identity.reservation)
			return false;	/* it is ours, so it is nobody else's */
	engine->refused = true;
	snprintf(engine->reason, sizeof(engine->reason),
		 "in use by %s, or was when that ended without stopping it; its targets know no "
		 "reservations: if that gateway is gone for certain, start with --take-over",
		 newest->owner);
	return true;
}

static void
begin(struct engine *engine, const struct assembly_verdict *verdict)
{
	if (owned_by_another(engine, verdict))
		return;
	if (adopt(engine, verdict) != 0) {
		engine->refused = true;
		snprintf(engine->reason, sizeof(engine->reason),
			 "level %u with %u members is not supported by this version",
			 engine->record.level, engine->record.member_count);
		return;
	}
	place_members(engine, verdict);
	for (int i = 0; i < engine->count; i++)
		if (engine->members[i].in_sync && !device_fits(engine, &engine->members[i])) {
			disown_members(engine);
			return;
		}
	for (int i = 0; i < LAYOUT_AREAS; i++)
		if (engine->record.areas[i].type == AREA_DATA)
			engine->data_offset_bytes = engine->record.areas[i].offset_bytes;
	if (prepare_memory(engine, engine->record.region_rows) != 0) {
		engine->refused = true;
		snprintf(engine->reason, sizeof(engine->reason), "out of memory");
		return;
	}
	engine->refused = false;
	engine->reason[0] = '\0';
	load_maps(engine);
}

static void
examine_run(struct engine *engine)
{
	struct assembly_input input = {
		.count = engine->count,
		.volume_uuid = engine->options.volume_uuid,
		.epoch_seen = engine->options.epoch_seen,
		.force = engine->options.force,
	};
	struct assembly_verdict verdict;

	for (int i = 0; i < engine->count; i++) {
		struct member *member = &engine->members[i];

		input.presence[i] = member->presence;
		input.superblocks[i] = &member->superblock;
		if (member->presence == PRESENCE_AWAITED && member->link == LINK_CLOSED &&
		    member->close_error == -EBUSY) {
			engine->refused = true;
			snprintf(engine->reason, sizeof(engine->reason), "member %.100s: %.70s; stop it "
				 "there, or start with --take-over if that gateway is dead",
				 member->backend->label, member->reason);
			return;
		}
	}
	assembly_decide(&input, &verdict);
	engine->refused = verdict.answer == ASSEMBLY_REFUSED;
	snprintf(engine->reason, sizeof(engine->reason), "%s", verdict.reason);
	if (verdict.answer != ASSEMBLY_DEGRADED)
		engine->startable_ms = 0;
	else if (engine->startable_ms == 0)
		engine->startable_ms = engine->now_ms;
	if (verdict.answer == ASSEMBLY_READY ||
	    (verdict.answer == ASSEMBLY_DEGRADED &&
	     engine->now_ms - engine->startable_ms >= engine->options.assembly_wait_ms))
		begin(engine, &verdict);
	else if (verdict.answer == ASSEMBLY_DEGRADED)
		snprintf(engine->reason, sizeof(engine->reason), "waiting for absent members");
}

void
assemble_run(struct engine *engine)
{
	if (engine->phase == PHASE_EXAMINE && engine->now_ms >= engine->examine_not_before_ms)
		examine_run(engine);
	if (engine->phase == PHASE_WRITE_SUPERBLOCKS && engine->record_wanted > 0 &&
	    engine->record_durable >= engine->record_wanted) {
		enter(engine, PHASE_RUNNING);
		engine_log(engine, LOG_NOTICE, "assembled: epoch %llu, %d of %d members in sync",
			   (unsigned long long)engine->record.epoch, engine->count - engine->out,
			   engine->count);
	}
}

uint64_t
assemble_deadline(const struct engine *engine)
{
	uint64_t limit = engine->started_ms + engine->options.assembly_limit_ms;
	uint64_t deadline = engine->now_ms < limit ? limit : UINT64_MAX;

	if (engine->phase != PHASE_EXAMINE)
		return UINT64_MAX;
	if (engine->now_ms < engine->examine_not_before_ms)
		return engine->examine_not_before_ms;
	if (engine->startable_ms != 0 &&
	    engine->startable_ms + engine->options.assembly_wait_ms < deadline)
		deadline = engine->startable_ms + engine->options.assembly_wait_ms;
	return deadline;
}
