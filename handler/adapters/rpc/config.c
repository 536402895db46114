/* rpc/config.c - config.reload. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/config/check.h"
#include "adapters/base/log.h"
#include "rpc.h"
#include "adapters/volume/reload.h"

#define VOLUMES_MAX 1024

/* Before anything is applied: a file with a fault changes nothing, neither its own volume nor
 * another.
 */
static bool
files_are_good(const char *name, struct fault *fault)
{
	json_object *checked = config_check(name), *faults = NULL, *first;
	size_t count;

	if (!checked)
		return fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	json_object_object_get_ex(checked, "faults", &faults);
	count = json_object_array_length(faults);
	if (count > 0) {
		const char *line, *key;
		char more[64] = "";

		first = json_object_array_get_idx(faults, 0);
		line = config_fault_text(first, "line");
		key = config_fault_text(first, "key");
		if (count > 1)
			snprintf(more, sizeof(more), " (and %zu more: iraid config check)",
				 count - 1);
		fault_set(fault, FAULT_INVALID, config_fault_text(first, "remedy"),
			  "%s%s%s: %s%s%s%s; nothing was changed", config_fault_text(first, "file"),
			  line[0] ? ":" : "", line, key, key[0] ? ": " : "",
			  config_fault_text(first, "what"), more);
	}
	json_object_put(checked);
	return count == 0;
}

static json_object *
change_json(const struct reload_change *change)
{
	json_object *object = json_object_new_object();

	rpc_put_text(object, "key", change->key);
	rpc_put_text(object, "before", change->from);
	rpc_put_text(object, "after", change->to);
	rpc_put_text(object, change->applied ? "when" : "remedy", change->note);
	return object;
}

static json_object *
reload_json(const char *name, const struct reload *reload)
{
	json_object *object = json_object_new_object();
	json_object *applied = json_object_new_array(), *pending = json_object_new_array();

	for (int i = 0; i < reload->count; i++)
		json_object_array_add(reload->changes[i].applied ? applied : pending,
				      change_json(&reload->changes[i]));
	rpc_put_text(object, "name", name);
	rpc_put_bool(object, "running", reload->running);
	rpc_put_text(object, "note", reload->note);
	json_object_object_add(object, "applied", applied);
	json_object_object_add(object, "pending", pending);
	return object;
}

/* A volume that is not there is another error than a file with faults. */
static bool
is_there(const char *name, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	int code = config ? volume_config_read(name, config, fault) : -ENOMEM;

	free(config);
	return code == -ENOENT || code == -ENOMEM ? rpc_fail_volume(fault, code, name) : true;
}

static void
log_change(struct volume_host *host, const char *name, const struct reload_change *change)
{
	if (change->applied)
		volume_note(host, LOG_NOTICE, "configuration changed", name, "",
			    "%s: \"%.200s\" is now \"%.200s\"%s%s", change->key, change->from,
			    change->to, change->note[0] ? ", " : "", change->note);
	else
		volume_note(host, LOG_WARNING, "configuration differs", name, "",
			    "%s: \"%.200s\" in use, \"%.200s\" in the file; %s", change->key,
			    change->from, change->to, change->note);
}

static bool
reload_one(struct rpc_context *context, const char *name, json_object *list, struct fault *fault)
{
	struct reload *reload = calloc(1, sizeof(*reload));
	int code = reload ? volume_reload(context->host, name, reload, fault) : -ENOMEM;

	for (int i = 0; i < (code == 0 ? reload->count : 0); i++)
		log_change(context->host, name, &reload->changes[i]);
	if (code == 0)
		json_object_array_add(list, reload_json(name, reload));
	else
		rpc_fail_volume(fault, code, name);
	if (code == 0)
		reload_free(reload);
	free(reload);
	return code == 0;
}

json_object *
rpc_config_reload(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char(*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	json_object *given = NULL, *list = json_object_new_array(), *result = NULL;
	bool one = params && json_object_object_get_ex(params, "name", &given) && given;
	int count = 1;
	bool good = names || fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");

	if (good && one)
		good = rpc_take_name(params, names[0], fault) && is_there(names[0], fault);
	else if (good)
		count = volume_config_list(names, VOLUMES_MAX);
	if (good && count < 0)
		good = fault_set(fault, FAULT_INTERNAL, "check the permissions of that folder",
				 "%s/volumes: %s", config_dir(), strerror(-count));
	good = good && rpc_begin_change(context, fault);
	if (good) {
		good = files_are_good(one ? names[0] : NULL, fault);
		for (int i = 0; i < count && good; i++)
			good = reload_one(context, names[i], list, fault);
		rpc_end_change(context);
	}
	if (good) {
		result = json_object_new_object();
		json_object_object_add(result, "volumes", json_object_get(list));
	}
	json_object_put(list);
	free(names);
	return result;
}
