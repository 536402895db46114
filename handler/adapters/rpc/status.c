/* rpc/status.c - a volume's status as JSON. */
#include <stdio.h>
#include <string.h>

#include "adapters/volume/role.h"
#include "rpc.h"

const char *
rpc_link_name(enum link_state state)
{
	switch (state) {
	case LINK_CLOSED:
		return "closed";
	case LINK_OPENING:
		return "opening";
	case LINK_OPEN:
		return "open";
	}
	return "closed";
}

static bool
is_assembled(const struct engine_status *status)
{
	switch (status->state) {
	case VOLUME_ACTIVE:
	case VOLUME_DEGRADED:
	case VOLUME_SUSPENDED:
	case VOLUME_STOPPING:
		return status->size_bytes != 0;
	case VOLUME_ASSEMBLING:
	case VOLUME_FAILED:
	case VOLUME_STOPPED:
	case VOLUME_STANDBY:
		break;
	}
	return false;
}

/* --- members --- */

static void
put_counters(json_object *object, const struct member_status *member)
{
	rpc_put_number(object, "reads", member->reads);
	rpc_put_number(object, "writes", member->writes);
	rpc_put_number(object, "read_bytes", member->read_bytes);
	rpc_put_number(object, "written_bytes", member->written_bytes);
	rpc_put_number(object, "errors", member->errors);
	rpc_put_number(object, "medium_errors", member->medium_errors);
	rpc_put_number(object, "medium_repaired", member->medium_repaired);
	rpc_put_number(object, "digest_errors", member->digest_errors);
	rpc_put_number(object, "latency_ms", member->latency_ms);
}

/* All of its portals, where there are several. */
static void
put_portals(json_object *object, const struct volume_view *view, const char *label)
{
	json_object *portals = json_object_new_array();

	for (int i = 0; i < view->config.device_count; i++) {
		const struct device_address *device = &view->config.devices[i];
		char text[MEMBER_ADDRESS_MAX];

		member_address_format(&device->address, text);
		if (strncmp(text, label, sizeof(((struct member_status *)0)->label) - 1) != 0)
			continue;
		json_object_array_add(portals, json_object_new_string(device->address.portal));
		for (int p = 0; p < device->more; p++)
			json_object_array_add(portals,
					      json_object_new_string(device->more_portals[p]));
	}
	json_object_object_add(object, "portals", portals);
}

const char *
rpc_member_state(const struct engine_status *status, const struct member_status *member)
{
	return is_assembled(status) && member->state != 0 ? member_state_name(member->state)
							  : "unknown";
}

static json_object *
member_json(const struct volume_view *view, const struct member_status *member, bool counters)
{
	json_object *object = json_object_new_object();

	rpc_put_text(object, "member", member->label);
	if (member->role >= 0)
		rpc_put_number(object, "role", (uint64_t)member->role);
	else
		json_object_object_add(object, "role", NULL);
	rpc_put_text(object, "state", rpc_member_state(&view->status, member));
	rpc_put_text(object, "link", rpc_link_name(member->link));
	rpc_put_text(object, "reason", member->reason);
	rpc_put_number(object, "size_bytes", member->capacity_bytes);
	rpc_put_number(object, "stale_rows", member->stale_rows);
	rpc_put_bool(object, "slow", member->slow);
	put_portals(object, view, member->label);
	if (counters)
		put_counters(object, member);
	return object;
}

static json_object *
configured_json(const struct volume_view *view, const struct device_address *device, bool counters)
{
	struct member_status member = { .attached = true, .role = -1 };
	char label[MEMBER_ADDRESS_MAX];

	member_address_format(&device->address, label);
	snprintf(member.label, sizeof(member.label), "%.255s", label);
	return member_json(view, &member, counters);
}

static json_object *
members_json(const struct volume_view *view, bool counters)
{
	json_object *members = json_object_new_array();

	for (int i = 0; view->running && i < view->status.slots; i++) {
		if (view->status.members[i].attached)
			json_object_array_add(members, member_json(view, &view->status.members[i],
								   counters));
	}
	for (int i = 0; !view->running && i < view->config.device_count; i++)
		json_object_array_add(members,
				      configured_json(view, &view->config.devices[i], counters));
	return members;
}

/* Roles for which no device is there at all: nothing of theirs is among the members. */
static json_object *
empty_roles_json(const struct volume_view *view)
{
	const struct engine_status *status = &view->status;
	json_object *roles = json_object_new_array();

	for (int role = 0; view->running && is_assembled(status) && role < status->member_count;
	     role++) {
		bool held = false;

		for (int i = 0; i < status->slots && !held; i++)
			held = status->members[i].attached && status->members[i].role == role;
		if (!held)
			json_object_array_add(roles, json_object_new_int(role));
	}
	return roles;
}

/* --- the volume --- */

static void
put_geometry(json_object *object, const struct engine_status *status)
{
	/* Known from the superblocks only; a guess would be worse than null. */
	if (status->size_bytes != 0) {
		rpc_put_number(object, "level", status->level);
		rpc_put_number(object, "chunk_bytes", status->chunk_bytes);
		rpc_put_number(object, "block_bytes", status->block_bytes);
		rpc_put_number(object, "size_bytes", status->size_bytes);
		return;
	}
	json_object_object_add(object, "level", NULL);
	json_object_object_add(object, "chunk_bytes", NULL);
	json_object_object_add(object, "block_bytes", NULL);
	json_object_object_add(object, "size_bytes", NULL);
}

static json_object *
work_json(const struct work_status *work)
{
	json_object *object = json_object_new_object();

	rpc_put_bool(object, "running", work->running);
	rpc_put_number(object, "done_rows", work->done_rows);
	rpc_put_number(object, "total_rows", work->total_rows);
	rpc_put_number(object, "bytes_per_second", work->rate);
	if (work->running && work->seconds_left != UINT64_MAX)
		rpc_put_number(object, "seconds_left", work->seconds_left);
	else
		json_object_object_add(object, "seconds_left", NULL);
	rpc_put_text(object, "reason", work->reason);
	return object;
}

static const char *
scrub_mode_name(enum scrub_mode mode)
{
	switch (mode) {
	case SCRUB_NONE:
		return "none";
	case SCRUB_CHECK:
		return "check";
	case SCRUB_REPAIR:
		return "repair";
	}
	return "none";
}

static json_object *
scrub_json(const struct engine_status *status)
{
	json_object *scrub = work_json(&status->scrub);
	json_object *positions = json_object_new_array();
	rpc_put_bool(scrub, "active", status->scrub_active);
	rpc_put_text(scrub, "mode", scrub_mode_name(status->scrub_mode));
	rpc_put_number(scrub, "mismatches", status->scrub_mismatches);
	for (uint64_t i = 0; i < status->scrub_mismatches && i < MISMATCH_POSITIONS; i++)
		json_object_array_add(positions, json_object_new_uint64(status->mismatch_rows[i] *
									status->row_bytes));
	json_object_object_add(scrub, "mismatch_offsets", positions);
	return scrub;
}

static void
put_work(json_object *object, const struct engine_status *status)
{
	json_object *regions = json_object_new_object(), *resync = work_json(&status->resync);
	json_object *rebuild = work_json(&status->rebuild), *lost = json_object_new_object();
	int slot = status->rebuild_slot;

	rpc_put_number(regions, "total", status->regions);
	rpc_put_number(regions, "dirty", status->regions_dirty);
	rpc_put_number(regions, "suspect", status->regions_suspect);
	rpc_put_number(regions, "stale", status->regions_stale);
	rpc_put_number(regions, "region_bytes", status->region_bytes);
	json_object_object_add(object, "regions", regions);
	rpc_put_number(resync, "corrected_rows", status->resync_corrected_rows);
	json_object_object_add(object, "resync", resync);
	if (slot >= 0 && slot < status->slots && status->members[slot].attached)
		rpc_put_text(rebuild, "member", status->members[slot].label);
	else
		json_object_object_add(rebuild, "member", NULL);
	json_object_object_add(object, "rebuild", rebuild);
	json_object_object_add(object, "scrub", scrub_json(status));
	rpc_put_number(lost, "extents", status->lost_extents);
	rpc_put_number(lost, "bytes", status->lost_bytes);
	json_object_object_add(object, "lost", lost);
}

bool
rpc_log_is_used(int level)
{
	return level == 5 || level == 6 || level == -1;
}

static void
put_log(json_object *object, const struct volume_view *view)
{
	const struct log_status *log = &view->status.log;
	int level = view->status.size_bytes != 0 ? view->status.level : -1;
	json_object *status = json_object_new_object(), *replay = json_object_new_object();

	rpc_put_text(status, "mode",
		     log_mode_name(rpc_log_is_used(level) ? view->config.log : LOG_MODE_OFF));
	rpc_put_bool(status, "open", log->open);
	rpc_put_bool(status, "given_up", log->given_up);
	rpc_put_bool(status, "too_small", log->too_small);
	rpc_put_number(status, "records", log->records);
	rpc_put_number(status, "bytes", log->bytes);
	if (log->replay)
		rpc_put_text(replay, "step", log->replay);
	else
		json_object_object_add(replay, "step", NULL);
	rpc_put_number(replay, "done_chunks", log->replay_done);
	rpc_put_number(replay, "total_chunks", log->replay_total);
	json_object_object_add(status, "replay", replay);
	json_object_object_add(object, "log", status);
}

static void
put_figures(json_object *object, const struct volume_view *view)
{
	const struct engine_status *status = &view->status;
	json_object *memory = json_object_new_object(), *rows = json_object_new_object();

	rpc_put_number(object, "requests_active", status->requests_active);
	rpc_put_number(memory, "buffer_bytes", status->buffer_bytes);
	rpc_put_number(memory, "buffer_bytes_max", status->buffer_bytes_max);
	json_object_object_add(object, "memory", memory);
	rpc_put_number(rows, "full", status->rows_full);
	rpc_put_number(rows, "read_modify_write", status->rows_rmw);
	rpc_put_number(rows, "reconstruct", status->rows_reconstruct);
	rpc_put_number(rows, "read_all", status->rows_read_all);
	rpc_put_number(rows, "data_only", status->rows_data_only);
	json_object_object_add(object, "rows", rows);
	rpc_put_number(object, "reads_saved", status->reads_saved);
	rpc_put_number(object, "reads_reconstructed", status->reads_reconstructed);
	rpc_put_number(object, "reads_hedged", status->reads_hedged);
	rpc_put_number(object, "medium_repaired", status->medium_repaired);
	rpc_put_number(object, "requests_merged", status->requests_merged);
	rpc_put_number(object, "sync_rate_min_bytes", view->config.sync_rate_min);
	rpc_put_number(object, "sync_rate_max_bytes", view->config.sync_rate_max);
}

/* null: it does not run, so it is nobody's turn here. */
static void
put_role(json_object *object, const struct volume_view *view)
{
	if (view->role != 0)
		rpc_put_text(object, "role", volume_role_name(view->role));
	else
		json_object_object_add(object, "role", NULL);
	if (view->role_since_ms != 0)
		rpc_put_number(object, "role_since_ms", view->role_since_ms);
	else
		json_object_object_add(object, "role_since_ms", NULL);
	rpc_put_number(object, "role_changes", view->role_changes);
	rpc_put_number(object, "role_changes_hour", (uint64_t)view->role_changes_hour);
}

json_object *
rpc_status_json(const struct volume_view *view, bool counters)
{
	const struct engine_status *status = &view->status;
	json_object *object = json_object_new_object();
	json_object *users = json_object_new_array();

	rpc_put_text(object, "name", view->config.name);
	rpc_put_uuid(object, "uuid", view->config.uuid);
	rpc_put_text(object, "state", volume_state_name(status->state));
	rpc_put_text(object, "reason", status->reason);
	put_role(object, view);
	put_geometry(object, status);
	rpc_put_number(object, "epoch", status->epoch);
	rpc_put_number(object, "event", status->event);
	/* Writes may sit in caches of the members until a FLUSH or FUA. */
	rpc_put_bool(object, "write_cache", true);
	put_work(object, status);
	put_figures(object, view);
	put_log(object, view);
	for (int i = 0; i < view->user_count; i++)
		json_object_array_add(users, json_object_new_string(view->users[i]));
	json_object_object_add(object, "users", users);
	json_object_object_add(object, "members", members_json(view, counters));
	json_object_object_add(object, "empty_roles", empty_roles_json(view));
	return object;
}
