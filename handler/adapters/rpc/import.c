/* rpc/import.c - volume.import: a volume that its members hold and this gateway has no
 * configuration of.
 *
 * What a volume is stands in its superblocks; the configuration only says where they are.  So it
 * can be written again from nothing but a list of addresses.  Nothing is written to members, and
 * nothing is started: who has the volume, and whether it may be taken over, is decided by the
 * start.
 *
 * A member that does not answer is listed all the same, as long as one does: it is out, as it would
 * be with the configuration that was lost, and comes back by the same way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "adapters/base/log.h"
#include "device.h"

struct import {
	struct volume_config config;
	struct iscsi_credentials credentials;
	bool named; /* by the caller, not by the superblocks */
	int count;
	struct member_work devices[SLOTS_MAX];
	bool silent[SLOTS_MAX];
	const struct superblock *newest; /* of those that were read; NULL: none yet */
	json_object *warnings;
};

/* --- parameters --- */

static bool
take_devices(struct import *import, json_object *params, struct fault *fault)
{
	json_object *list = NULL;

	if (!params || !json_object_object_get_ex(params, "members", &list) ||
	    !json_object_is_type(list, json_type_array))
		return fault_set(fault, FAULT_PARAMS, "list the members as PORTAL/IQN/LUN",
				 "parameter \"members\" is missing, or is not a list");
	if (json_object_array_length(list) < 2 || json_object_array_length(list) > SLOTS_MAX)
		return fault_set(fault, FAULT_INVALID,
				 "name all devices of the volume, also dead ones",
				 "a volume has 2 to %d devices, %zu were given", SLOTS_MAX,
				 json_object_array_length(list));
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *value = json_object_array_get_idx(list, i);
		struct member_work *device = &import->devices[i];

		if (!json_object_is_type(value, json_type_string))
			return fault_set(fault, FAULT_PARAMS, "write each as PORTAL/IQN/LUN",
					 "entry %zu of \"members\" is not a string", i);
		if (!rpc_device_parse(json_object_get_string(value), device, fault))
			return false;
		if (volume_config_find(&import->config, &device->address) >= 0)
			return fault_set(fault, FAULT_IN_USE, "name each LUN once",
					 "member %s is given twice", device->label);
		import->config.devices[import->config.device_count++] = device->address;
		import->count++;
	}
	return true;
}

static bool
take_import_params(struct import *import, json_object *params, struct fault *fault)
{
	struct volume_config *config = &import->config;
	char name[LAYOUT_NAME_MAX + 1] = "";
	const char *why;

	if (!rpc_take_text(params, "name", false, name, sizeof(name), fault))
		return false;
	import->named = name[0] != '\0';
	why = import->named ? volume_name_fault(name) : NULL;
	if (why)
		return fault_set(fault, FAULT_INVALID, "choose another name", "name \"%s\": %s",
				 name, why);
	volume_config_defaults(config, name);
	if (!take_devices(import, params, fault) ||
	    !rpc_take_text(params, "initiator", false, config->initiator, sizeof(config->initiator),
			   fault) ||
	    !rpc_take_text(params, "chap_file", false, config->chap_file, sizeof(config->chap_file),
			   fault))
		return false;
	return rpc_take_credentials(params, &import->credentials, fault);
}

/* --- what the members say --- */

static bool
newer(const struct superblock *a, const struct superblock *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->event > b->event;
}

static bool
belongs(struct import *import, const struct member_work *device, struct fault *fault)
{
	const struct superblock_copies *copies = &device->copies;
	char uuid[UUID_STR_LEN], other[UUID_STR_LEN];

	if (copies->chosen != SUPERBLOCK_OK && copies->spare != SUPERBLOCK_OK)
		return fault_set(fault, FAULT_UNFIT,
				 "leave it out; iraid examine shows what is on it",
				 "%s has no superblock of a volume (%s)", device->label,
				 superblock_verdict_name(copies->chosen));
	if (copies->chosen != SUPERBLOCK_OK)
		return true; /* a spare: whose, is looked at when the volume is known */
	if (import->newest && memcmp(copies->superblock.volume_uuid, import->newest->volume_uuid,
				     sizeof(import->newest->volume_uuid))) {
		uuid_unparse_lower(copies->superblock.volume_uuid, uuid);
		uuid_unparse_lower(import->newest->volume_uuid, other);
		return fault_set(fault, FAULT_UNFIT, "import one volume at a time",
				 "%s belongs to volume \"%s\" (%s), but the devices before it to "
				 "\"%s\" (%s)",
				 device->label, copies->superblock.name, uuid, import->newest->name,
				 other);
	}
	if (!import->newest || newer(&copies->superblock, import->newest))
		import->newest = &copies->superblock;
	return true;
}

static bool
look_at_device(struct import *import, int index, struct fault *fault)
{
	struct member_work *device = &import->devices[index];

	if (rpc_device_open(device, NULL, &import->credentials, fault))
		return belongs(import, device, fault);
	if (fault->code != FAULT_UNREACHABLE)
		return false;
	import->silent[index] = true;
	rpc_warn(import->warnings, "%s does not answer (%s); it is listed as a member anyway",
		 device->label, fault->message);
	return true;
}

static bool
spares_belong(const struct import *import, struct fault *fault)
{
	for (int i = 0; i < import->count; i++) {
		const struct superblock_copies *copies = &import->devices[i].copies;

		if (import->silent[i] || copies->chosen == SUPERBLOCK_OK ||
		    memcmp(copies->mark.volume_uuid, import->config.uuid,
			   sizeof(import->config.uuid)) == 0)
			continue;
		return fault_set(fault, FAULT_UNFIT, "leave it out",
				 "%s is a spare, and not one of volume \"%s\"",
				 import->devices[i].label, import->newest->name);
	}
	return true;
}

static const uint8_t *
uuid_of(const struct member_work *device)
{
	return device->copies.chosen == SUPERBLOCK_OK ? device->copies.superblock.member_uuid
						      : device->copies.mark.member_uuid;
}

/* A start refuses both, and only an editor would get rid of one. */
static bool
all_differ(const struct import *import, struct fault *fault)
{
	for (int i = 0; i < import->count; i++)
		for (int j = 0; j < i; j++)
			if (!import->silent[i] && !import->silent[j] &&
			    memcmp(uuid_of(&import->devices[i]), uuid_of(&import->devices[j]),
				   16) == 0)
				return fault_set(
					fault, FAULT_IN_USE,
					"name only one of them; of two portals of one LUN write "
					"PORTAL,PORTAL/IQN/LUN",
					"%s and %s are the same LUN, or one is a copy of the other",
					import->devices[j].label, import->devices[i].label);
	return true;
}

static bool
look_at_all(struct import *import, struct volume_host *host, struct fault *fault)
{
	struct volume_config *config = &import->config;
	const char *why;

	for (int i = 0; i < import->count; i++) {
		/* A silent one takes its time, and the end of the process waits for this call. */
		if (volume_host_is_ending(host))
			return fault_set(fault, FAULT_BUSY, "try again when it answers",
					 "%s is ending", volume_host_program(host));
		if (!look_at_device(import, i, fault))
			return false;
	}
	if (!import->newest)
		return fault_set(
			fault, FAULT_UNREACHABLE,
			"bring at least one member back; iraid examine shows what is on it",
			"none of the %d devices has a superblock that can be read", import->count);
	memcpy(config->uuid, import->newest->volume_uuid, sizeof(config->uuid));
	if (!spares_belong(import, fault) || !all_differ(import, fault))
		return false;
	if (import->named)
		return true;
	why = volume_name_fault(import->newest->name);
	if (why)
		return fault_set(fault, FAULT_INVALID, "give another name with --name",
				 "the volume's name \"%s\": %s", import->newest->name, why);
	memcpy(config->name, import->newest->name, sizeof(config->name));
	return true;
}

/* --- making it known --- */

/* The usual initiator name is made of the volume's name, which the superblocks gave. */
static bool
choose_initiator(struct import *import, json_object *params, struct fault *fault)
{
	struct volume_config *config = &import->config;
	struct volume_config *usual;
	const char *why;

	if (!json_object_object_get_ex(params, "initiator", NULL)) {
		usual = malloc(sizeof(*usual));
		if (!usual)
			return fault_set(fault, FAULT_INTERNAL, "free some memory",
					 "out of memory");
		volume_config_defaults(usual, config->name);
		memcpy(config->initiator, usual->initiator, sizeof(config->initiator));
		free(usual);
	}
	why = initiator_name_fault(config->initiator);
	return !why || fault_set(fault, FAULT_INVALID, "give one with the parameter \"initiator\"",
				 "initiator \"%s\": %s", config->initiator, why);
}

static bool
is_free(const struct import *import, struct fault *fault)
{
	struct volume_config *existing = malloc(sizeof(*existing));
	int code = existing ? volume_config_read(import->config.name, existing, fault) : -ENOMEM;

	free(existing);
	if (code != -ENOENT)
		return fault_set(fault, FAULT_EXISTS,
				 "choose another name with --name, or delete that volume first",
				 "there is already a volume \"%s\"%s%s", import->config.name,
				 code ? ": " : "", code ? fault->message : "");
	for (int i = 0; i < import->count; i++) {
		if (!rpc_device_free(&import->devices[i], NULL, fault))
			return false;
	}
	return true;
}

static bool
write_configuration(struct import *import, struct fault *fault)
{
	int code = volume_config_create(&import->config, fault);

	return code == 0 || rpc_fail_file(fault, code);
}

static json_object *
device_json(const struct import *import, int index)
{
	const struct member_work *device = &import->devices[index];
	const struct superblock *superblock = &device->copies.superblock;
	json_object *object = json_object_new_object();
	const char *state = "unknown";

	rpc_put_text(object, "member", device->label);
	if (!import->silent[index] && device->copies.chosen != SUPERBLOCK_OK) {
		state = member_state_name(MEMBER_SPARE);
	} else if (!import->silent[index]) {
		bool placed = memcmp(import->newest->member_uuids[superblock->role],
				     superblock->member_uuid, 16) == 0;

		if (placed)
			rpc_put_number(object, "role", superblock->role);
		state = placed ? member_state_name((enum member_state)import->newest
							   ->member_states[superblock->role])
			       : member_state_name(MEMBER_OUT_OF_DATE);
	}
	rpc_put_text(object, "state", state);
	return object;
}

static json_object *
imported(const struct import *import)
{
	json_object *object = json_object_new_object(), *members = json_object_new_array();

	rpc_put_text(object, "name", import->config.name);
	rpc_put_uuid(object, "uuid", import->config.uuid);
	rpc_put_number(object, "level", import->newest->level);
	rpc_put_number(object, "member_count", import->newest->member_count);
	rpc_put_text(object, "owner", import->newest->owner);
	for (int i = 0; i < import->count; i++)
		json_object_array_add(members, device_json(import, i));
	json_object_object_add(object, "members", members);
	json_object_object_add(object, "warnings", json_object_get(import->warnings));
	return object;
}

json_object *
rpc_volume_import(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct import *import = calloc(1, sizeof(*import));
	json_object *result = NULL;

	if (!import) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	import->warnings = json_object_new_array();
	if (take_import_params(import, params, fault) && rpc_begin_change(context, fault)) {
		if (look_at_all(import, context->host, fault) &&
		    choose_initiator(import, params, fault) && is_free(import, fault) &&
		    write_configuration(import, fault)) {
			volume_note(context->host, LOG_NOTICE, "imported", import->config.name, "",
				    "imported, level %d, %d devices", import->newest->level,
				    import->count);
			result = imported(import);
		}
		rpc_end_change(context);
	}
	for (int i = 0; i < import->count; i++)
		rpc_device_close(&import->devices[i]);
	json_object_put(import->warnings);
	explicit_bzero(&import->credentials, sizeof(import->credentials));
	free(import);
	return result;
}
