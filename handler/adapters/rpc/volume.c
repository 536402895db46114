/* rpc/volume.c - volume.list, status, start, stop, grow, set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/log.h"
#include "member.h"

#define VOLUMES_MAX 1024
#define WAIT_SECONDS_DEFAULT 20
#define WAIT_SECONDS_MAX 3600

json_object *
rpc_view(struct rpc_context *context, const char *name, bool counters, struct fault *fault)
{
	struct volume_view *view = malloc(sizeof(*view));
	json_object *result = NULL;
	int code;

	if (!view) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	code = volume_view(context->host, name, view, fault);
	if (code == 0)
		result = rpc_status_json(view, counters);
	else
		rpc_fail_volume(fault, code, name);
	free(view);
	return result;
}

json_object *
rpc_volume_status(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];

	if (!rpc_take_name(params, name, fault))
		return NULL;
	return rpc_view(context, name, true, fault);
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
rpc_volume_list(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char(*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	json_object *result, *volumes;
	int count;

	if (!names) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	count = volume_config_list(names, VOLUMES_MAX);
	if (count < 0) {
		fault_set(fault, FAULT_INTERNAL, "check the permissions of that folder",
			  "%s/volumes: %s", config_dir(), strerror(-count));
		free(names);
		return NULL;
	}
	result = json_object_new_object();
	volumes = json_object_new_array();
	for (int i = 0; i < count; i++) {
		json_object *volume = rpc_view(context, names[i], false, fault);

		if (!volume && fault->code == FAULT_NOT_FOUND)
			continue; /* deleted since the list was read */
		json_object_array_add(volumes,
				      volume ? volume : unreadable_json(names[i], fault->message));
	}
	json_object_object_add(result, "volumes", volumes);
	free(names);
	return result;
}

json_object *
rpc_volume_start(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_start_options options = { 0 };
	char name[LAYOUT_NAME_MAX + 1];
	int64_t wait_seconds = WAIT_SECONDS_DEFAULT;
	int code;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_take_bool(params, "force", &options.force, fault) ||
	    !rpc_take_bool(params, "take_over", &options.take_over, fault) ||
	    !rpc_take_number(params, "wait_seconds", false, 0, WAIT_SECONDS_MAX, &wait_seconds,
			     fault))
		return NULL;
	options.wait_ms = (uint32_t)wait_seconds * 1000;
	code = volume_start(context->host, name, &options, fault);
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		return NULL;
	}
	if (options.force)
		volume_note(
			context->host, LOG_WARNING, "started by force", name, "",
			"started by force from the members that are there: newer writes are lost");
	/* How it went is in the status: a volume that failed to assemble was started all the same.
	 */
	volume_wait(context->host, name, options.wait_ms);
	return rpc_view(context, name, true, fault);
}

json_object *
rpc_volume_stop(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_config config;
	char name[LAYOUT_NAME_MAX + 1];
	int code;

	if (!rpc_take_name(params, name, fault))
		return NULL;
	code = volume_stop(context->host, name, fault);
	/* Stopping what is not there must not look as if it had worked. */
	if (code == 0)
		code = volume_config_read(name, &config, fault);
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		if (code == -EBUSY)
			fault->code = FAULT_BUSY; /* its own users, not somebody else's */
		return NULL;
	}
	return json_object_new_object();
}

/* --- volume.grow --- */

static const char *
grow_remedy(int code)
{
	switch (code) {
	case -EBUSY:
		return "all members must be in sync, and no other iraid grow may run: iraid status "
		       "shows which member is out; iraid wait waits until all are in sync";
	case -EIO:
		return "iraid status shows the member; run this again when all are in sync";
	default:
		return "iraid status and iraid events show the cause; then run this again";
	}
}

json_object *
rpc_volume_grow(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct volume_growth growth = { 0 };
	struct volume_config config;
	json_object *result;
	int code;

	if (!rpc_take_name(params, name, fault))
		return NULL;
	/* A volume that is not there is another error than one that doesn't run. */
	code = volume_config_read(name, &config, fault);
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		return NULL;
	}
	code = volume_grow(context->host, name, &growth, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, name, "", grow_remedy(code));
		return NULL;
	}
	result = json_object_new_object();
	rpc_put_text(result, "name", name);
	rpc_put_number(result, "before_bytes", growth.before_bytes);
	rpc_put_number(result, "size_bytes", growth.size_bytes);
	rpc_put_text(result, "note", growth.note);
	return result;
}

/* --- volume.set --- */

struct rates {
	int64_t min, max; /* -1: as it is */
};

static int
change_rates(struct volume_config *config, void *argument, struct fault *fault)
{
	const struct rates *rates = argument;
	uint64_t min = rates->min < 0 ? config->sync_rate_min : (uint64_t)rates->min;
	uint64_t max = rates->max < 0 ? config->sync_rate_max : (uint64_t)rates->max;

	if (min > max)
		return fault_errno(
			fault, -EINVAL,
			"the lower limit, %llu bytes a second, is above the upper limit, %llu",
			(unsigned long long)min, (unsigned long long)max);
	config->sync_rate_min = min;
	config->sync_rate_max = max;
	return 0;
}

static int
apply_rates(struct engine *engine, void *argument, struct fault *fault)
{
	const struct volume_config *config = argument;

	engine_set_rates(engine, config->sync_rate_min, config->sync_rate_max);
	return 0;
}

json_object *
rpc_volume_set(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	char name[LAYOUT_NAME_MAX + 1];
	struct rates rates = { -1, -1 };
	json_object *result = NULL;
	int code = -ENOMEM;

	if (!config || !rpc_take_name(params, name, fault) ||
	    !rpc_take_number(params, "sync_rate_min_bytes", false, SYNC_RATE_LEAST, SYNC_RATE_MOST,
			     &rates.min, fault) ||
	    !rpc_take_number(params, "sync_rate_max_bytes", false, SYNC_RATE_LEAST, SYNC_RATE_MOST,
			     &rates.max, fault)) {
		free(config);
		return NULL;
	}
	code = rates.min < 0 && rates.max < 0
		       ? 0
		       : volume_edit(context->host, name, change_rates, &rates, fault);
	if (code == 0)
		code = volume_config_read(name, config, fault);
	if (code == 0) {
		/* Not running: then it starts with them. */
		volume_call(context->host, name, apply_rates, config, fault);
		result = json_object_new_object();
		rpc_put_text(result, "name", name);
		rpc_put_number(result, "sync_rate_min_bytes", config->sync_rate_min);
		rpc_put_number(result, "sync_rate_max_bytes", config->sync_rate_max);
	} else {
		rpc_fail_volume(fault, code, name);
		if (code == -EINVAL)
			snprintf(fault->remedy, sizeof(fault->remedy),
				 "choose a lower limit that is not above the upper limit");
	}
	free(config);
	return result;
}
