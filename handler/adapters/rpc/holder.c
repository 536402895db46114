/* rpc/holder.c - volume.holder: which gateway has a volume that is on standby here.
 *
 * Only the members know.  READ RESERVATION is allowed to everybody, changes nothing and needs no
 * registration.  One member after the other is asked, each for a second at most: a volume that has
 * silent members must not keep an administrator waiting.
 *
 * Of a volume that runs here nobody is asked.  A LIO target tells a reset or a power-on once to each
 * initiator *name*: a second session of this name would hear it in place of the volume's own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/reactor.h"
#include "adapters/device/member_format.h"
#include "device.h"

#define EACH_MS 1000
#define ALL_MS 5000

/* As the engine names it in its messages. */
static void
put_key(json_object *object, const char *name, uint64_t key)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%" PRIx64, key);
	rpc_put_text(object, name, text);
}

static json_object *
member_json(const struct device_address *device, const struct iscsi_credentials *credentials,
	    uint64_t end_ms)
{
	json_object *object = json_object_new_object();
	char label[MEMBER_ADDRESS_MAX];
	struct fault fault = FAULT_NONE;
	uint64_t key = 0;

	member_address_format(&device->address, label);
	rpc_put_text(object, "member", label);
	json_object_object_add(object, "key", NULL);
	if (monotonic_ms() >= end_ms)
		rpc_put_text(object, "error", "not asked: others took too long");
	else if (!device_holder(device, credentials, EACH_MS, &key, &fault))
		rpc_put_text(object, "error", fault.message);
	else if (key != 0)
		put_key(object, "key", key);
	return object;
}

static bool
is_anothers_turn(const struct volume_view *view)
{
	return !view->running || view->status.state == VOLUME_STANDBY;
}

static bool
ask_members(const struct volume_config *config, json_object *members, struct fault *fault)
{
	const uint64_t end_ms = monotonic_ms() + ALL_MS;
	struct iscsi_credentials credentials;

	if (!rpc_volume_credentials(config, &credentials, fault))
		return false;
	for (int i = 0; i < config->device_count; i++)
		json_object_array_add(members,
				      member_json(&config->devices[i], &credentials, end_ms));
	explicit_bzero(&credentials, sizeof(credentials));
	return true;
}

static json_object *
holder_json(const struct volume_view *view, const char *name, struct fault *fault)
{
	json_object *object, *members;
	uint64_t key = 0;
	int error = gateway_reservation_key(&key);

	if (error != 0) {
		rpc_fail_volume(fault, error, name);
		return NULL;
	}
	object = json_object_new_object();
	members = json_object_new_array();
	rpc_put_text(object, "name", name);
	put_key(object, "own_key", key);
	json_object_object_add(object, "members", members);
	if (is_anothers_turn(view) && !ask_members(&view->config, members, fault)) {
		json_object_put(object);
		return NULL;
	}
	return object;
}

json_object *
rpc_volume_holder(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_view *view = malloc(sizeof(*view));
	char name[LAYOUT_NAME_MAX + 1];
	json_object *result = NULL;
	int code;

	if (view == NULL) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	if (rpc_take_name(params, name, fault)) {
		code = volume_view(context->host, name, view, fault);
		if (code != 0)
			rpc_fail_volume(fault, code, name);
		else
			result = holder_json(view, name, fault);
	}
	free(view);
	return result;
}
