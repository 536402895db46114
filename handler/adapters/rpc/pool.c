/* rpc/pool.c - the gateway's shared spares: pool.list, pool.add, pool.remove. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/log.h"
#include "device.h"
#include "adapters/config/pool.h"

static json_object *
pool_spare_json(const struct pool_spare *spare)
{
	json_object *object = json_object_new_object();
	char text[DEVICE_TEXT_MAX];

	device_address_format(&spare->device, text);
	rpc_put_text(object, "device", text);
	rpc_put_number(object, "size_bytes", spare->size_bytes);
	rpc_put_number(object, "block_bytes", spare->block_bytes);
	return object;
}

json_object *
rpc_pool_list(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	json_object *result = NULL, *spares;

	if (!pool || spare_pool_read(pool, fault) != 0) {
		fault_set(fault, FAULT_INTERNAL, "correct that file", "%s",
			  pool ? fault->message : "out of memory");
	} else {
		result = json_object_new_object();
		spares = json_object_new_array();
		for (int i = 0; i < pool->count; i++)
			json_object_array_add(spares, pool_spare_json(&pool->spares[i]));
		json_object_object_add(result, "spares", spares);
	}
	free(pool);
	return result;
}

static bool
into_pool(struct rpc_context *context, struct member_work *device,
	  const struct iscsi_credentials *credentials, bool force, struct fault *fault)
{
	static const uint8_t shared[16];
	struct pool_spare spare;
	int code;

	if (!rpc_device_open(device, NULL, credentials, fault) ||
	    !rpc_device_free(device, NULL, fault) || (!force && !rpc_device_unused(device, fault)))
		return false;
	if (!members_probe(device, 1, fault) || !member_mark_spare(device, shared, fault))
		return false;
	spare.device = device->address;
	spare.size_bytes = device->device.capacity_bytes;
	spare.block_bytes = device->device.block_bytes;
	code = spare_pool_add(&spare, fault);
	if (code == 0) {
		volume_note(context->host, LOG_NOTICE, "spare added", "", device->label,
			    "%s is now a spare of all volumes of this gateway", device->label);
		return true;
	}
	members_wipe(device, 1);
	if (code == -EDQUOT)
		return fault_set(fault, FAULT_INTERNAL, fault->remedy, "%s", fault->message);
	return fault_set(fault, code == -ENOSPC || code == -EEXIST ? FAULT_EXISTS : FAULT_INTERNAL,
			 "check the permissions and free space of that folder, and 'iraid status'",
			 "%s", fault->message);
}

json_object *
rpc_pool_add(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct member_work *device = calloc(1, sizeof(*device));
	struct iscsi_credentials credentials = { 0 };
	char text[DEVICE_TEXT_MAX];
	json_object *result = NULL;
	bool force = false;

	if (device && rpc_take_text(params, "device", true, text, sizeof(text), fault) &&
	    rpc_take_bool(params, "force", &force, fault) &&
	    rpc_device_parse(text, device, fault) &&
	    rpc_take_credentials(params, &credentials, fault) && rpc_begin_change(context, fault)) {
		if (into_pool(context, device, &credentials, force, fault)) {
			result = json_object_new_object();
			rpc_put_text(result, "device", device->label);
			rpc_put_number(result, "size_bytes", device->device.capacity_bytes);
		}
		rpc_device_close(device);
		rpc_end_change(context);
	}
	explicit_bzero(&credentials, sizeof(credentials));
	free(device);
	return result;
}

static json_object *
out_of_pool(struct rpc_context *context, struct member_work *device,
	    const struct iscsi_credentials *credentials, struct fault *fault)
{
	static const uint8_t shared[16];
	int code = spare_pool_take(&device->address, NULL, NULL, NULL, fault);
	json_object *result, *warnings;

	if (code == -ENOENT)
		fault_set(fault, FAULT_NOT_FOUND, "iraid status shows the gateway's spares",
			  "%s is not a spare of this gateway", device->label);
	else if (code != 0)
		rpc_fail_file(fault, code);
	if (code != 0)
		return NULL;
	result = json_object_new_object();
	warnings = json_object_new_array();
	if (!rpc_device_wipe(device, shared, NULL, credentials, fault))
		rpc_warn(warnings, "the mark of %s was not wiped: %s", device->label,
			 fault->message);
	volume_note(context->host, LOG_NOTICE, "removed", "", device->label,
		    "%s is no longer a spare of this gateway", device->label);
	rpc_put_text(result, "device", device->label);
	json_object_object_add(result, "warnings", warnings);
	return result;
}

json_object *
rpc_pool_remove(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct member_work *device = calloc(1, sizeof(*device));
	struct iscsi_credentials credentials = { 0 };
	char text[DEVICE_TEXT_MAX];
	json_object *result = NULL;

	if (device && rpc_take_text(params, "device", true, text, sizeof(text), fault) &&
	    rpc_device_parse(text, device, fault) &&
	    rpc_take_credentials(params, &credentials, fault) && rpc_begin_change(context, fault)) {
		result = out_of_pool(context, device, &credentials, fault);
		rpc_end_change(context);
	}
	explicit_bzero(&credentials, sizeof(credentials));
	free(device);
	return result;
}
