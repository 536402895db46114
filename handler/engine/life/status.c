/* status.c - what an administrator sees of an engine. */
#include "status.h"
#include "life.h"
#include "replay.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"
#include "engine/work/work.h"
#include "state/lost.h"

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
	case VOLUME_STANDBY:
		return "standby";
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
	case MEMBER_REBUILDING:
		return "rebuilding";
	case MEMBER_OUT_OF_DATE:
		return "out of date";
	case MEMBER_SPARE:
		return "spare";
	}
	return "unknown";
}

const char *
event_kind_name(enum event_kind kind)
{
	static const char *const names[] = {
		[EVENT_ASSEMBLED] = "assembled",
		[EVENT_STOPPED] = "stopped",
		[EVENT_SUSPENDED] = "suspended",
		[EVENT_RESUMED] = "resumed",
		[EVENT_FENCED] = "fenced",
		[EVENT_MEMBER_SILENT] = "member silent",
		[EVENT_MEMBER_BACK] = "member back",
		[EVENT_MEMBER_EVICTED] = "member evicted",
		[EVENT_MEMBER_SLOW] = "member slow",
		[EVENT_REBUILD_STARTED] = "rebuild started",
		[EVENT_REBUILD_FINISHED] = "rebuild finished",
		[EVENT_REBUILD_STOPPED] = "rebuild stopped",
		[EVENT_RESYNC_FINISHED] = "resync finished",
		[EVENT_SCRUB_STARTED] = "scrub started",
		[EVENT_SCRUB_FINISHED] = "scrub finished",
		[EVENT_SCRUB_STOPPED] = "scrub stopped",
		[EVENT_SCRUB_MISMATCH] = "scrub mismatch",
		[EVENT_MEDIUM_ERROR] = "medium error",
		[EVENT_DATA_LOST] = "data lost",
		[EVENT_LOST_ACCEPTED] = "lost accepted",
		[EVENT_SPARE_WANTED] = "spare wanted",
		[EVENT_ATTACHED] = "attached",
		[EVENT_DETACHED] = "detached",
		[EVENT_GROWN] = "grown",
		[EVENT_LOG_OPENED] = "log opened",
		[EVENT_LOG_CLOSED] = "log closed",
		[EVENT_STATE_FOLDER] = "state folder",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

static enum volume_state
state_of(const struct engine *engine)
{
	switch (engine->phase) {
	case PHASE_IDLE:
	case PHASE_EXAMINE:
	case PHASE_LOAD_MAP:
	case PHASE_WRITE_SUPERBLOCKS:
	case PHASE_REPLAY:
		return engine->assembly->refused || (engine->fenced && !MUTANT(FENCED_STARTING))
			       ? VOLUME_FAILED
			       : VOLUME_ASSEMBLING;
	case PHASE_RUNNING:
		if (engine->fenced)
			return VOLUME_FAILED;
		if (engine->suspended)
			return VOLUME_SUSPENDED;
		return engine->out != 0 ? VOLUME_DEGRADED : VOLUME_ACTIVE;
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

/* Whoever goes next, the volume goes on. */
static bool
bears_any(const struct engine *engine)
{
	for (int role = 0; role < engine->geometry.members; role++)
		if (!engine_bears(engine, role))
			return false;
	return true;
}

static void
describe_reason(const struct engine *engine, struct engine_status *out)
{
	if (epochs_refusal(engine) != NULL && engine->phase < PHASE_DRAIN)
		snprintf(out->reason, sizeof(out->reason), "%.255s", epochs_refusal(engine));
	else if (engine->reason[0] != '\0')
		snprintf(out->reason, sizeof(out->reason), "%s", engine->reason);
	else if (out->state == VOLUME_SUSPENDED)
		snprintf(out->reason, sizeof(out->reason),
			 engine->expired
				 ? "too many members are silent: I/O fails until they return"
				 : "too many members are silent: I/O waits for them");
	else if (out->state == VOLUME_DEGRADED)
		snprintf(out->reason, sizeof(out->reason), "%d of %d members are out: %s%s",
			 __builtin_popcount(engine->out), engine->geometry.members,
			 bears_any(engine) ? "less redundancy" : "no redundancy",
			 engine->lost_full
				 ? "; the table of lost extents is full: overwrite or accept some"
				 : "");
}

static void
describe_member(const struct member *member, struct member_status *out)
{
	const struct engine *engine = member->engine;

	out->attached = true;
	snprintf(out->label, sizeof(out->label), "%s", member->backend->label);
	snprintf(out->reason, sizeof(out->reason), "%s", member->reason);
	memcpy(out->uuid, member->uuid, sizeof(out->uuid));
	out->link = member->link;
	out->role = member->role;
	out->state = engine->phase >= PHASE_WRITE_SUPERBLOCKS ? place_state(member) : 0;
	if (!member->in_sync && member->stale_set >= 0 && engine->phase >= PHASE_RUNNING)
		out->stale_rows =
			(uint64_t)intent_stale(&engine->intent, REGION_STALE(member->stale_set)) *
			engine->intent.region_rows;
	if (out->stale_rows > engine->geometry.rows)
		out->stale_rows = engine->geometry.rows;
	out->capacity_bytes = member->identity.capacity_bytes;
	out->reads = member->reads;
	out->writes = member->writes;
	out->read_bytes = member->read_bytes;
	out->written_bytes = member->written_bytes;
	out->errors = member->errors;
	out->medium_errors = member->medium_errors;
	out->medium_repaired = member->medium_repaired;
	out->digest_errors = member->backend->digest_errors;
	out->latency_ms = member->latency_us / 1000;
	out->slow = member->slow;
}

/* Lost bytes of one chunk.  Entries of the table may overlap, intervals do not. */
static uint64_t
lost_of(const struct engine *engine, uint64_t row, int chunk)
{
	const uint8_t role = geometry_role(&engine->geometry, row, (uint8_t)chunk);
	uint32_t begin, end, from = 0;
	uint64_t bytes = 0;
	uint8_t flags;

	while (lost_next(engine->lost, row, role, from, &begin, &end, &flags)) {
		bytes += end - begin;
		from = end;
	}
	return bytes;
}

static void
describe_lost(const struct engine *engine, struct engine_status *out)
{
	out->lost_extents = engine->lost->count;
	for (uint64_t row = lost_next_row(engine->lost, 0); row < engine->geometry.rows;
	     row = lost_next_row(engine->lost, row + 1))
		for (int chunk = 0; chunk < engine->geometry.data_chunks; chunk++)
			out->lost_bytes += lost_of(engine, row, chunk);
}

static void
describe_scrub(const struct engine *engine, struct engine_status *out)
{
	struct scrub_found found;

	scrub_status(engine, &out->scrub, &found);
	out->scrub_active = found.active;
	out->scrub_mode = found.mode;
	out->scrub_mismatches = found.mismatches;
	memcpy(out->mismatch_rows, found.mismatch_rows, sizeof(out->mismatch_rows));
}

static void
describe_counters(const struct counters *counters, struct engine_status *out)
{
	out->rows_full = counters->rows_full;
	out->rows_rmw = counters->rows_rmw;
	out->rows_reconstruct = counters->rows_reconstruct;
	out->rows_read_all = counters->rows_read_all;
	out->rows_data_only = counters->rows_data_only;
	out->reads_saved = counters->reads_saved;
	out->reads_reconstructed = counters->reads_reconstructed;
	out->requests_merged = counters->requests_merged;
	out->resync_corrected_rows = counters->resync_corrected_rows;
	out->medium_repaired = counters->medium_repaired;
	out->reads_hedged = counters->reads_hedged;
}

static void
describe_log(const struct engine *engine, struct log_status *out)
{
	const struct write_log *log = engine->write_log;
	struct replay_progress progress;

	replay_progress(engine, &progress);
	out->replay = progress.step;
	out->replay_done = progress.done;
	out->replay_total = progress.total;
	if (!engine_has_parity(engine))
		return;
	out->open = log->on;
	out->given_up = log->given_up;
	out->too_small = !write_log_fits(engine);
	out->records = log->on ? log->next - 1 : 0;
	out->bytes = log->on ? log->sizes.sum : 0;
}

void
engine_status(const struct engine *engine, struct engine_status *out)
{
	memset(out, 0, sizeof(*out));
	describe_counters(&engine->counters, out);
	out->state = state_of(engine);
	out->fenced = engine->fenced;
	out->predecessor_key = engine->places->predecessor_key;
	out->held = engine->phase == PHASE_EXAMINE && engine->assembly->held;
	describe_reason(engine, out);
	memcpy(out->volume_uuid, engine->options.volume_uuid, sizeof(out->volume_uuid));
	out->rebuild_slot = -1;
	out->sync_rate_min = engine->work->throttle.rate_min;
	out->sync_rate_max = engine->work->throttle.rate_max;
	out->requests_active = engine->requests_active;
	out->slots = engine->slots;
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL)
			describe_member(&engine->members[i], &out->members[i]);
	out->log.mode = engine->options.log;
	if (!engine->assembly->has_geometry)
		return;
	describe_log(engine, &out->log);
	snprintf(out->name, sizeof(out->name), "%s", engine->record.name);
	out->level = engine->geometry.level;
	out->member_count = engine->geometry.members;
	out->members_needed = (uint8_t)geometry_least(&engine->geometry, 0);
	out->chunk_bytes = engine->geometry.chunk_bytes;
	out->row_bytes = geometry_row_bytes(&engine->geometry);
	out->stripe_bytes = engine->geometry.level == 10
				    ? engine->geometry.members / 2 * engine->geometry.chunk_bytes
				    : (uint32_t)out->row_bytes;
	out->block_bytes = engine->geometry.block_bytes;
	out->epoch = engine->record.epoch;
	out->event = engine->record.event;
	out->buffer_bytes = (uint64_t)engine->arena.pages_peak * 4096;
	out->buffer_bytes_max = (uint64_t)engine->arena.pages_common * 4096;
	/* One that was never assembled has no table of lost extents, in whatever phase it stops. */
	if (engine->phase < PHASE_RUNNING || engine->lost == NULL)
		return;
	out->size_bytes = engine->volume_bytes;
	out->regions = engine->intent.regions;
	out->regions_dirty = engine->intent.dirty_count;
	out->regions_suspect = engine->intent.suspect_count;
	out->regions_stale = engine->intent.stale_count;
	out->region_bytes = (uint64_t)engine->intent.region_rows * engine->geometry.chunk_bytes;
	if (engine->geometry.redundancy == 0)
		return;
	describe_lost(engine, out);
	resync_status(engine, &out->resync);
	out->rebuild_slot = engine->target != NULL ? engine->target->slot : -1;
	rebuild_status(engine, &out->rebuild);
	describe_scrub(engine, out);
}

uint64_t
engine_code_ns(const struct engine *engine)
{
	return engine->figures.code_ns;
}

void
engine_figures(const struct engine *engine, struct engine_figures *out)
{
	memset(out, 0, sizeof(*out));
	out->queue = engine->figures.queue;
	memcpy(out->commands, engine->figures.commands, sizeof(out->commands));
	memcpy(out->steps, engine->figures.steps, sizeof(out->steps));
	for (int slot = 0; slot < engine->slots; slot++) {
		const struct member *member = &engine->members[slot];

		if (member->backend == NULL)
			continue;
		out->members[slot] = member->figures;
		out->members[slot].in_flight = member->in_flight_count;
	}
}
