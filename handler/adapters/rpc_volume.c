/* rpc_volume.c - volume.list, status, start, stop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

#define VOLUMES_MAX 1024
#define WAIT_SECONDS_DEFAULT 20
#define WAIT_SECONDS_MAX 3600

static const char *
link_name(enum link_state state)
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
		break;
	}
	return false;
}

static json_object *
member_json(const struct volume_view *view, int index, bool counters)
{
	const struct member_status *member = &view->status.members[index];
	json_object *object = json_object_new_object();
	char address[MEMBER_ADDRESS_MAX];
	const char *state = "unknown";

	member_address_format(&view->config.members[index], address);
	rpc_put_text(object, "member", address);
	if (view->running && member->role >= 0)
		rpc_put_number(object, "role", (uint64_t)member->role);
	else
		json_object_object_add(object, "role", NULL);
	if (view->running && member->role >= 0 && is_assembled(&view->status))
		state = member_state_name(member->state);
	rpc_put_text(object, "state", state);
	rpc_put_text(object, "link", link_name(view->running ? member->link : LINK_CLOSED));
	rpc_put_text(object, "reason", member->reason);
	rpc_put_number(object, "size_bytes", member->capacity_bytes);
	if (!counters)
		return object;
	rpc_put_number(object, "reads", member->reads);
	rpc_put_number(object, "writes", member->writes);
	rpc_put_number(object, "read_bytes", member->read_bytes);
	rpc_put_number(object, "written_bytes", member->written_bytes);
	rpc_put_number(object, "errors", member->errors);
	rpc_put_number(object, "medium_errors", member->medium_errors);
	return object;
}

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

static void
put_work(json_object *object, const struct engine_status *status)
{
	json_object *regions = json_object_new_object();
	json_object *resync = json_object_new_object();
	json_object *memory = json_object_new_object();
	json_object *rows = json_object_new_object();

	rpc_put_number(regions, "total", status->regions);
	rpc_put_number(regions, "dirty", status->regions_dirty);
	rpc_put_number(regions, "suspect", status->regions_suspect);
	rpc_put_number(regions, "stale", status->regions_stale);
	rpc_put_number(regions, "region_bytes", status->region_bytes);
	json_object_object_add(object, "regions", regions);
	rpc_put_bool(resync, "running", status->resync_running);
	rpc_put_number(resync, "done_rows", status->resync_done_rows);
	rpc_put_number(resync, "total_rows", status->resync_total_rows);
	rpc_put_number(resync, "corrected_rows", status->resync_corrected_rows);
	json_object_object_add(object, "resync", resync);
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
	rpc_put_number(object, "reads_reconstructed", status->reads_reconstructed);
	rpc_put_number(object, "requests_merged", status->requests_merged);
}

static json_object *
status_json(const struct volume_view *view, bool counters)
{
	const struct engine_status *status = &view->status;
	json_object *object = json_object_new_object();
	json_object *users = json_object_new_array();
	json_object *members = json_object_new_array();

	rpc_put_text(object, "name", view->config.name);
	rpc_put_uuid(object, "uuid", view->config.uuid);
	rpc_put_text(object, "state", volume_state_name(status->state));
	rpc_put_text(object, "reason", status->reason);
	put_geometry(object, status);
	rpc_put_number(object, "epoch", status->epoch);
	rpc_put_number(object, "event", status->event);
	/* Writes may sit in caches of the members until a FLUSH or FUA. */
	rpc_put_bool(object, "write_cache", true);
	put_work(object, status);
	for (int i = 0; i < view->user_count; i++)
		json_object_array_add(users, json_object_new_string(view->users[i]));
	json_object_object_add(object, "users", users);
	for (int i = 0; i < view->config.member_count; i++)
		json_object_array_add(members, member_json(view, i, counters));
	json_object_object_add(object, "members", members);
	return object;
}

static json_object *
view_json(struct rpc_context *context, const char *name, bool counters, struct rpc_error *error)
{
	struct volume_view *view = malloc(sizeof(*view));
	char reason[VOLUME_REASON_MAX] = "";
	json_object *result = NULL;
	int code;

	if (!view) {
		rpc_fail(error, RPC_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	code = volume_view(context->host, name, view, reason, sizeof(reason));
	if (code == 0)
		result = status_json(view, counters);
	else
		rpc_fail_volume(error, code, name, reason);
	free(view);
	return result;
}

json_object *
rpc_volume_status(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	char name[LAYOUT_NAME_MAX + 1];

	if (!rpc_take_name(params, name, error))
		return NULL;
	return view_json(context, name, true, error);
}

/* A volume whose file can't be read is shown, not left out: the list is where it is looked for. */
static json_object *
unreadable_json(const char *name, const char *reason)
{
	json_object *object = json_object_new_object();

	rpc_put_text(object, "name", name);
	rpc_put_text(object, "state", volume_state_name(VOLUME_FAILED));
	rpc_put_text(object, "reason", reason);
	json_object_object_add(object, "members", json_object_new_array());
	json_object_object_add(object, "users", json_object_new_array());
	return object;
}

json_object *
rpc_volume_list(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	char (*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	json_object *result, *volumes;
	int count;

	if (!names) {
		rpc_fail(error, RPC_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	count = volume_config_list(names, VOLUMES_MAX);
	if (count < 0) {
		rpc_fail(error, RPC_INTERNAL, "check that folder's permissions", "%s/volumes: %s", config_dir(),
			 strerror(-count));
		free(names);
		return NULL;
	}
	result = json_object_new_object();
	volumes = json_object_new_array();
	for (int i = 0; i < count; i++) {
		json_object *volume = view_json(context, names[i], false, error);

		if (!volume && error->code == RPC_NOT_FOUND)
			continue;	/* deleted since the list was read */
		json_object_array_add(volumes, volume ? volume : unreadable_json(names[i], error->message));
	}
	json_object_object_add(result, "volumes", volumes);
	free(names);
	return result;
}

json_object *
rpc_volume_start(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	struct volume_start_options options = { 0 };
	char name[LAYOUT_NAME_MAX + 1], reason[VOLUME_REASON_MAX] = "";
	int64_t wait_seconds = WAIT_SECONDS_DEFAULT;
	int code;

	if (!rpc_take_name(params, name, error) || !rpc_take_bool(params, "force", &options.force, error) ||
	    !rpc_take_bool(params, "take_over", &options.take_over, error) ||
	    !rpc_take_number(params, "wait_seconds", false, 0, WAIT_SECONDS_MAX, &wait_seconds, error))
		return NULL;
	code = volume_start(context->host, name, &options, reason, sizeof(reason));
	if (code != 0) {
		rpc_fail_volume(error, code, name, reason);
		return NULL;
	}
	/* How it went is in the status: a volume that failed to assemble was started all the same. */
	volume_wait(context->host, name, (uint32_t)wait_seconds * 1000);
	return view_json(context, name, true, error);
}

json_object *
rpc_volume_stop(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	struct volume_config config;
	char name[LAYOUT_NAME_MAX + 1], reason[VOLUME_REASON_MAX] = "";
	int code;

	if (!rpc_take_name(params, name, error))
		return NULL;
	code = volume_stop(context->host, name, reason, sizeof(reason));
	/* Stopping what is not there must not look as if it had worked. */
	if (code == 0)
		code = volume_config_read(name, &config, reason, sizeof(reason));
	if (code != 0) {
		rpc_fail_volume(error, code, name, reason);
		if (code == -EBUSY)
			error->code = RPC_BUSY;	/* its own users, not somebody else's */
		return NULL;
	}
	return json_object_new_object();
}
