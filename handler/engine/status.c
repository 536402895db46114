/* status.c - what an administrator sees of an engine. */
#include "engine_internal.h"

#include <stdio.h>
#include <string.h>

const char *
volume_state_name(enum volume_state state)
{
	switch (state) {
	case VOLUME_ASSEMBLING:
		return "assembling";
	case VOLUME_ACTIVE:
		return "active";
	case VOLUME_DEGRADED:
		return "degraded";
	case VOLUME_SUSPENDED:
		return "suspended";
	case VOLUME_FAILED:
		return "failed";
	case VOLUME_STOPPING:
		return "stopping";
	case VOLUME_STOPPED:
		return "stopped";
	}
	return "?";
}

const char *
member_state_name(enum member_state state)
{
	switch (state) {
	case MEMBER_IN_SYNC:
		return "in sync";
	case MEMBER_FAULTY:
		return "faulty";
	case MEMBER_MISSING:
		return "missing";
	}
	return "unknown";
}

static enum volume_state
state_of(const struct engine *engine)
{
	switch (engine->phase) {
	case PHASE_IDLE:
	case PHASE_EXAMINE:
	case PHASE_LOAD_MAP:
	case PHASE_WRITE_SUPERBLOCKS:
		return engine->refused ? VOLUME_FAILED : VOLUME_ASSEMBLING;
	case PHASE_RUNNING:
		if (engine->fenced)
			return VOLUME_FAILED;
		if (engine->suspended)
			return VOLUME_SUSPENDED;
		return engine->out > 0 ? VOLUME_DEGRADED : VOLUME_ACTIVE;
	case PHASE_DRAIN:
	case PHASE_LAST_FLUSH:
	case PHASE_LAST_MAP:
	case PHASE_LAST_SUPERBLOCKS:
	case PHASE_RELEASE:
		return VOLUME_STOPPING;
	case PHASE_STOPPED:
		return VOLUME_STOPPED;
	}
	return VOLUME_FAILED;
}

static void
describe_reason(const struct engine *engine, struct engine_status *out)
{
	if (engine->reason[0] != '\0')
		snprintf(out->reason, sizeof(out->reason), "%s", engine->reason);
	else if (out->state == VOLUME_SUSPENDED)
		snprintf(out->reason, sizeof(out->reason),
			 engine->expired ? "too many members are silent: I/O fails until they return"
					 : "too many members are silent: I/O waits for them");
	else if (out->state == VOLUME_DEGRADED)
		snprintf(out->reason, sizeof(out->reason), "%d of %d members are out: no redundancy",
			 engine->out, engine->count);
}

static void
describe_member(const struct member *member, struct member_status *out)
{
	snprintf(out->label, sizeof(out->label), "%s", member->backend->label);
	snprintf(out->reason, sizeof(out->reason), "%s", member->reason);
	out->link = member->link;
	out->role = member->role;
	out->state = member->engine->phase >= PHASE_WRITE_SUPERBLOCKS ? member->state : 0;
	out->capacity_bytes = member->identity.capacity_bytes;
	out->reads = member->reads;
	out->writes = member->writes;
	out->read_bytes = member->read_bytes;
	out->written_bytes = member->written_bytes;
	out->errors = member->errors;
	out->medium_errors = member->medium_errors;
}

static void
describe_resync(const struct engine *engine, struct engine_status *out)
{
	uint64_t left = (uint64_t)engine->intent.suspect_count * engine->intent.region_rows;

	if (left > engine->geometry.rows)
		left = engine->geometry.rows;
	out->resync_done_rows = engine->counters.resync_done_rows;
	out->resync_total_rows = out->resync_done_rows + left;
	out->resync_running = left > 0 && engine->missing < 0 && engine->phase == PHASE_RUNNING &&
			      !engine->suspended && engine->options.resync_rows_max > 0;
}

void
engine_status(const struct engine *engine, struct engine_status *out)
{
	*out = engine->counters;
	out->state = state_of(engine);
	describe_reason(engine, out);
	memcpy(out->volume_uuid, engine->options.volume_uuid, sizeof(out->volume_uuid));
	out->member_count = (uint8_t)engine->count;
	out->requests_active = engine->requests_active;
	for (int i = 0; i < engine->count; i++)
		describe_member(&engine->members[i], &out->members[i]);
	if (!engine->has_geometry)
		return;
	snprintf(out->name, sizeof(out->name), "%s", engine->record.name);
	out->level = engine->geometry.level;
	out->chunk_bytes = engine->geometry.chunk_bytes;
	out->block_bytes = engine->geometry.block_bytes;
	out->epoch = engine->record.epoch;
	out->event = engine->record.event;
	out->buffer_bytes = (uint64_t)engine->arena.pages_peak * 4096;
	out->buffer_bytes_max = (uint64_t)engine->arena.pages * 4096;
	if (engine->phase < PHASE_RUNNING)
		return;
	out->size_bytes = geometry_volume_bytes(&engine->geometry);
	out->regions = engine->intent.regions;
	out->regions_dirty = engine->intent.dirty_count;
	out->regions_suspect = engine->intent.suspect_count;
	out->regions_stale = engine->intent.stale_count;
	out->region_bytes = (uint64_t)engine->intent.region_rows * engine->geometry.chunk_bytes;
	describe_resync(engine, out);
}
