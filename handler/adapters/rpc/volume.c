/* rpc/volume.c - volume.list, status, start, stop, grow, set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/log.h"
#include "adapters/volume/reload.h"
#include "adapters/volume/role.h"
#include "member.h"

#define VOLUMES_MAX 1024
#define LOOK_MS 500 /* so often it is seen whether the client is there */
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

/* Until the volume is assembled or has failed, as long as somebody wants to know. */
static void
wait_started(struct rpc_context *context, const char *name, uint32_t wait_ms)
{
	uint32_t turn_ms;

	do {
		turn_ms = wait_ms < LOOK_MS ? wait_ms : LOOK_MS;
		wait_ms -= turn_ms;
	} while (volume_wait(context->host, name, turn_ms) == -ETIMEDOUT && wait_ms > 0 &&
		 !rpc_client_gone(context));
}

static bool
take_start(json_object *params, char name[LAYOUT_NAME_MAX + 1],
	   struct volume_start_options *options, struct fault *fault)
{
	int64_t wait_seconds = WAIT_SECONDS_DEFAULT;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_take_bool(params, "force", &options->force, fault) ||
	    !rpc_take_bool(params, "take_over", &options->take_over, fault) ||
	    !rpc_take_number(params, "wait_seconds", false, 0, WAIT_SECONDS_MAX, &wait_seconds,
			     fault))
		return false;
	options->wait_ms = (uint32_t)wait_seconds * 1000;
	return true;
}

static void
note_force(struct rpc_context *context, const char *name,
	   const struct volume_start_options *options)
{
	if (options->force)
		volume_note(
			context->host, LOG_WARNING, "started by force", name, "",
			"started by force from the members that are there: newer writes are lost");
}

json_object *
rpc_volume_start(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_start_options options = { 0 };
	char name[LAYOUT_NAME_MAX + 1];
	int code;

	if (!take_start(params, name, &options, fault))
		return NULL;
	code = volume_start(context->host, name, &options, fault);
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		return NULL;
	}
	note_force(context, name, &options);
	/* How it went is in the status: a volume that failed to assemble was started all the same.
	 */
	wait_started(context, name, options.wait_ms);
	return rpc_view(context, name, true, fault);
}

/* --- whose turn it is --- */

static void
fail_activation(struct fault *fault, int code, bool again, const char *name)
{
	/* The members' word for it; the engine's text is the reason. */
	bool held = strstr(fault->message, "another gateway");
	char remedy[sizeof(fault->remedy)];

	snprintf(remedy, sizeof(remedy),
		 held ? "put it on standby there first (iraid standby %s); if that gateway is "
			"dead or cut off: iraid activate %s --take-over"
		      : "iraid status %s shows what it waits for; then run iraid activate %s again",
		 name, name);
	if (code == -ENOSPC || code == -EDQUOT || code == -EROFS) {
		rpc_fail_volume(fault, code, name);
		return;
	}
	fault_set(fault,
		  held		       ? FAULT_IN_USE
		  : code == -ESHUTDOWN ? FAULT_BUSY
				       : FAULT_IO,
		  remedy, "volume \"%s\" %s: %s", name,
		  again ? "was not activated and is on standby as before" : "is not active",
		  fault->message);
}

json_object *
rpc_volume_activate(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_start_options options = { 0 };
	char name[LAYOUT_NAME_MAX + 1];
	bool again = false;
	int code;

	if (!take_start(params, name, &options, fault))
		return NULL;
	code = volume_activate(context->host, name, &options, fault);
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		return NULL;
	}
	note_force(context, name, &options);
	wait_started(context, name, options.wait_ms);
	code = volume_settle(context->host, name, &again, fault);
	if (code == 0)
		return rpc_view(context, name, true, fault);
	fail_activation(fault, code, again, name);
	return NULL;
}

json_object *
rpc_volume_standby(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	int code;

	if (!rpc_take_name(params, name, fault))
		return NULL;
	code = volume_standby(context->host, name, fault);
	if (code == 0)
		return rpc_view(context, name, true, fault);
	rpc_fail_volume(fault, code, name);
	return NULL;
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
	/* Stopping what is not there must not look as if it had worked.  What is wrong in its file
	 * does not matter.
	 */
	if (code == 0 && volume_config_read(name, &config, fault) == -ENOENT)
		code = -ENOENT;
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

struct settings {
	int64_t min, max; /* -1: as it is */
	bool has_log;
	enum log_mode log;
	bool has_header, has_data; /* digests */
	struct iscsi_digests digests;
};

static bool
is_given(const struct settings *settings)
{
	return settings->min >= 0 || settings->max >= 0 || settings->has_log ||
	       settings->has_header || settings->has_data;
}

static int
change_settings(struct volume_config *config, void *argument, struct fault *fault)
{
	const struct settings *settings = argument;
	uint64_t min = settings->min < 0 ? config->sync_rate_min : (uint64_t)settings->min;
	uint64_t max = settings->max < 0 ? config->sync_rate_max : (uint64_t)settings->max;

	if (min > max)
		return fault_errno(
			fault, -EINVAL,
			"the lower limit, %llu bytes a second, is above the upper limit, %llu",
			(unsigned long long)min, (unsigned long long)max);
	config->sync_rate_min = min;
	config->sync_rate_max = max;
	if (settings->has_log)
		config->log = settings->log;
	if (settings->has_header)
		config->header_digest = settings->digests.header;
	if (settings->has_data)
		config->data_digest = settings->digests.data;
	return 0;
}

static int
apply_rates(struct engine *engine, void *argument, struct fault *fault)
{
	const struct volume_config *config = argument;

	engine_set_rates(engine, config->sync_rate_min, config->sync_rate_max);
	return 0;
}

/* Also if it is so already: a log that was given up is tried again. */
static int
apply_log(struct engine *engine, void *argument, struct fault *fault)
{
	const struct volume_config *config = argument;

	engine_set_log(engine, config->log);
	return 0;
}

static bool
take_log(json_object *params, struct settings *settings, struct fault *fault)
{
	json_object *given = NULL;
	char text[32] = "";

	if (!rpc_take_text(params, "log", false, text, sizeof(text), fault))
		return false;
	settings->has_log = json_object_object_get_ex(params, "log", &given) && given;
	return !settings->has_log || log_mode_parse(text, &settings->log) ||
	       fault_set(fault, FAULT_INVALID, "give off, degraded or always",
			 "\"log\" is \"%s\", none of off, degraded and always", text);
}

static bool
take_digest(json_object *params, const char *key, bool *given, enum iscsi_digest *out,
	    struct fault *fault)
{
	json_object *value = NULL;
	char text[32] = "";

	if (!rpc_take_text(params, key, false, text, sizeof(text), fault))
		return false;
	*given = json_object_object_get_ex(params, key, &value) && value;
	return !*given || iscsi_digest_parse(text, out) ||
	       fault_set(fault, FAULT_INVALID, "give none, preferred or required",
			 "\"%s\" is \"%s\", none of none, preferred and required", key, text);
}

/* Its level; -1: it is not known, for the volume is not assembled here. */
static int
level_of(struct rpc_context *context, const char *name)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct fault ignored;
	int level = -1;

	if (view && volume_view(context->host, name, view, &ignored) == 0 &&
	    view->status.size_bytes != 0)
		level = view->status.level;
	free(view);
	return level;
}

static bool
take_settings(json_object *params, struct settings *settings, struct fault *fault)
{
	return rpc_take_number(params, "sync_rate_min_bytes", false, SYNC_RATE_LEAST,
			       SYNC_RATE_MOST, &settings->min, fault) &&
	       rpc_take_number(params, "sync_rate_max_bytes", false, SYNC_RATE_LEAST,
			       SYNC_RATE_MOST, &settings->max, fault) &&
	       take_log(params, settings, fault) &&
	       take_digest(params, "header_digest", &settings->has_header,
			   &settings->digests.header, fault) &&
	       take_digest(params, "data_digest", &settings->has_data, &settings->digests.data,
			   fault);
}

/* Of a volume whose level is not known it is taken: on other levels it has no effect. */
static bool
check_log(const struct settings *settings, const char *name, int level, struct fault *fault)
{
	if (!settings->has_log || settings->log == LOG_MODE_OFF || rpc_log_is_used(level))
		return true;
	return fault_set(fault, FAULT_INVALID, "give off, or leave log out",
			 "\"log\" is \"%s\", but volume \"%s\" has level %d, and only levels 5 "
			 "and 6 have a write log",
			 log_mode_name(settings->log), name, level);
}

json_object *
rpc_volume_set(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	char name[LAYOUT_NAME_MAX + 1];
	struct settings settings = { .min = -1, .max = -1 };
	json_object *result = NULL;
	int code, level;

	if (!config || !rpc_take_name(params, name, fault) ||
	    !take_settings(params, &settings, fault) ||
	    !check_log(&settings, name, level = level_of(context, name), fault)) {
		free(config);
		return NULL;
	}
	code = is_given(&settings)
		       ? volume_edit(context->host, name, change_settings, &settings, fault)
		       : 0;
	if (code == 0)
		code = volume_config_read(name, config, fault);
	if (code == 0) {
		/* Not running: then it starts with them. */
		volume_call(context->host, name, apply_rates, config, fault);
		if (settings.has_log)
			volume_call(context->host, name, apply_log, config, fault);
		if (settings.has_header || settings.has_data)
			volume_adjust(context->host, name, fault);
		result = json_object_new_object();
		rpc_put_text(result, "name", name);
		rpc_put_number(result, "sync_rate_min_bytes", config->sync_rate_min);
		rpc_put_number(result, "sync_rate_max_bytes", config->sync_rate_max);
		rpc_put_text(result, "log",
			     log_mode_name(rpc_log_is_used(level) ? config->log : LOG_MODE_OFF));
		rpc_put_text(result, "header_digest", iscsi_digest_name(config->header_digest));
		rpc_put_text(result, "data_digest", iscsi_digest_name(config->data_digest));
	} else {
		rpc_fail_volume(fault, code, name);
		if (code == -EINVAL)
			snprintf(fault->remedy, sizeof(fault->remedy),
				 "choose a lower limit that is not above the upper limit");
	}
	free(config);
	return result;
}
