/* rpc/create.c - volume.create.
 *
 * Creating goes from what harms nothing to what can't be taken back: check the parameters, log
 * in to every member, look at them, prove them writable and different (their bytes are put back
 * if not), format, write the configuration, start.  Until the configuration is written every
 * failure wipes what was written, so that the members are free for another try.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "adapters/config/epoch_file.h"
#include "adapters/config/search.h"
#include "adapters/base/log.h"
#include "device.h"
#include "inspect.h"

#define START_MS_MAX 15000
#define REGION_BYTES_MAX (1ll << 40) /* of one member */

struct creation {
	struct rpc_context *context;
	struct volume_config config;
	struct iscsi_credentials credentials;
	int level;
	uint32_t chunk_bytes;
	uint64_t region_bytes; /* 0: as usual */
	bool force;
	int member_count, device_count; /* members first, then spares */
	struct member_work devices[SLOTS_MAX];
	struct superblock common;
	struct geometry geometry;
	json_object *warnings;
};

/* --- parameters --- */

/* One list of devices; "members" or "spares". */
static bool
take_list(struct creation *creation, json_object *list, const char *key, struct fault *fault)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *value = json_object_array_get_idx(list, i);
		struct member_work *device = &creation->devices[creation->device_count];

		if (!json_object_is_type(value, json_type_string))
			return fault_set(fault, FAULT_PARAMS, "write each as PORTAL/IQN/LUN",
					 "entry %zu of \"%s\" is not a string", i, key);
		if (!rpc_device_parse(json_object_get_string(value), device, fault))
			return false;
		if (volume_config_find(&creation->config, &device->address) >= 0)
			return fault_set(fault, FAULT_IN_USE, "name each LUN once",
					 "member %s is given twice", device->label);
		creation->config.devices[creation->config.device_count++] = device->address;
		creation->device_count++;
	}
	return true;
}

static bool
take_members(struct creation *creation, json_object *params, struct fault *fault)
{
	json_object *list = NULL, *spares = NULL;
	const char *wrong;
	size_t count;

	if (!params || !json_object_object_get_ex(params, "members", &list) || !list)
		return fault_set(fault, FAULT_PARAMS, "list the members as PORTAL/IQN/LUN",
				 "parameter \"members\" is missing");
	if (!json_object_is_type(list, json_type_array))
		return fault_set(fault, FAULT_PARAMS, "list the members as PORTAL/IQN/LUN",
				 "parameter \"members\" is not a list");
	count = json_object_array_length(list);
	wrong = geometry_fault(creation->level,
			       count > IRAID_MEMBERS_MAX ? IRAID_MEMBERS_MAX + 1 : (int)count);
	if (wrong != NULL)
		return fault_set(fault, FAULT_INVALID,
				 "name more or fewer targets, or choose another level",
				 "%s, but %zu were given", wrong, count);
	creation->member_count = (int)count;
	if (!take_list(creation, list, "members", fault))
		return false;
	if (!json_object_object_get_ex(params, "spares", &spares) || !spares)
		return true;
	if (!json_object_is_type(spares, json_type_array))
		return fault_set(fault, FAULT_PARAMS, "list the spares as PORTAL/IQN/LUN",
				 "parameter \"spares\" is not a list");
	if (json_object_array_length(spares) > 0 && creation->level == 0)
		return fault_set(fault, FAULT_INVALID,
				 "give no spares, or choose a level with redundancy",
				 "level 0 has no redundancy, so a spare can't be filled");
	if (json_object_array_length(spares) + count > SLOTS_MAX)
		return fault_set(fault, FAULT_INVALID, "name fewer spares",
				 "%zu members and %zu spares are more than %d devices", count,
				 json_object_array_length(spares), SLOTS_MAX);
	return take_list(creation, spares, "spares", fault);
}

static bool
take_shape(struct creation *creation, json_object *params, struct fault *fault)
{
	int64_t level, chunk = IRAID_CHUNK_BYTES_DEFAULT,
		       give_up = creation->config.give_up_seconds, region = 0;

	if (!rpc_take_number(params, "level", true, INT32_MIN, INT32_MAX, &level, fault) ||
	    !rpc_take_number(params, "chunk_bytes", false, INT32_MIN, INT32_MAX, &chunk, fault) ||
	    !rpc_take_number(params, "give_up_seconds", false, 1, GIVE_UP_SECONDS_MAX, &give_up,
			     fault) ||
	    !rpc_take_number(params, "region_bytes", false, IRAID_CHUNK_BYTES_MIN, REGION_BYTES_MAX,
			     &region, fault) ||
	    !rpc_take_bool(params, "force", &creation->force, fault))
		return false;
	if (level != 0 && level != 1 && level != 5 && level != 6 && level != 10)
		return fault_set(fault, FAULT_INVALID,
				 "choose 0 (striping), 1 (copies), 5 (parity), 6 (two parities) or "
				 "10 (striped copies)",
				 "level %lld is not known", (long long)level);
	if (chunk < IRAID_CHUNK_BYTES_MIN || chunk > IRAID_CHUNK_BYTES_MAX ||
	    (chunk & (chunk - 1)) != 0)
		return fault_set(
			fault, FAULT_INVALID,
			"choose 4K, 8K, 16K, 32K, 64K, 128K, 256K, 512K or 1M",
			"chunk size %lld is not a power of two between 4096 (4K) and 1048576 (1M)",
			(long long)chunk);
	if (region != 0 && region < chunk)
		return fault_set(fault, FAULT_INVALID, "choose a larger region or a smaller chunk",
				 "region size %lld is less than one chunk of %lld bytes",
				 (long long)region, (long long)chunk);
	creation->region_bytes = (uint64_t)region;
	creation->level = (int)level;
	creation->chunk_bytes = (uint32_t)chunk;
	creation->config.give_up_seconds = (uint32_t)give_up;
	return true;
}

static bool
take_create_params(struct creation *creation, json_object *params, struct fault *fault)
{
	struct volume_config *config = &creation->config;
	char name[LAYOUT_NAME_MAX + 1];
	const char *why;

	if (!rpc_take_name(params, name, fault))
		return false;
	volume_config_defaults(config, name);
	uuid_generate_random(config->uuid);
	if (!take_shape(creation, params, fault) || !take_members(creation, params, fault) ||
	    !rpc_take_text(params, "initiator", false, config->initiator, sizeof(config->initiator),
			   fault) ||
	    !rpc_take_text(params, "chap_file", false, config->chap_file, sizeof(config->chap_file),
			   fault) ||
	    !rpc_take_credentials(params, &creation->credentials, fault))
		return false;
	/* rpc_take_credentials() has its own usual name; the volume logs in by its own. */
	why = initiator_name_fault(config->initiator);
	if (why)
		return fault_set(fault, FAULT_INVALID, "give one with the parameter \"initiator\"",
				 "initiator \"%s\": %s", config->initiator, why);
	memcpy(creation->credentials.initiator, config->initiator, sizeof(config->initiator));
	return true;
}

static bool
name_is_free(const char *name, struct fault *fault)
{
	struct volume_config *existing = malloc(sizeof(*existing));
	int code = existing ? volume_config_read(name, existing, fault) : -ENOMEM;

	free(existing);
	if (code == -ENOENT)
		return true;
	return fault_set(fault, FAULT_EXISTS, "choose another name, or delete that volume first",
			 "there is already a volume \"%s\"%s%s", name, code ? ": " : "",
			 code ? fault->message : "");
}

/* --- looking at the members --- */

static bool
same_name(const struct scsi_device *a, const struct scsi_device *b)
{
	/* Many targets number their identities from 1; serials that differ tell the LUNs apart. */
	if (a->serial[0] != '\0' && b->serial[0] != '\0' && strcmp(a->serial, b->serial) != 0)
		return false;
	if (a->identity[0] != '\0' && b->identity[0] != '\0')
		return strcmp(a->identity, b->identity) == 0;
	return a->serial[0] != '\0' && strcmp(a->serial, b->serial) == 0 &&
	       strcmp(a->vendor, b->vendor) == 0;
}

/* Different LUNs that say they are the same one: members_probe() has shown that they are not. */
static void
warn_same_names(struct creation *creation)
{
	const struct member_work *devices = creation->devices;

	for (int i = 1; i < creation->device_count; i++) {
		for (int j = 0; j < i; j++) {
			if (!same_name(&devices[i].device, &devices[j].device))
				continue;
			rpc_warn(creation->warnings,
				 "%s and %s are different LUNs that report the same identity; set "
				 "different serial numbers on their targets",
				 devices[j].label, devices[i].label);
			return;
		}
	}
}

static bool
open_devices(struct creation *creation, struct fault *fault)
{
	const struct member_work *first = &creation->devices[0];

	for (int i = 0; i < creation->device_count; i++) {
		struct member_work *device = &creation->devices[i];

		if (!rpc_device_open(device, NULL, &creation->credentials, fault))
			return false;
		if (device->device.block_bytes != first->device.block_bytes)
			return fault_set(fault, FAULT_UNFIT,
					 "give all members the same block size on their targets",
					 "%s has blocks of %u bytes, but %s has blocks of %u",
					 device->label, device->device.block_bytes, first->label,
					 first->device.block_bytes);
	}
	return true;
}

static bool
look_at_members(struct creation *creation, struct fault *fault)
{
	if (!open_devices(creation, fault))
		return false;
	for (int i = 0; i < creation->device_count; i++) {
		if (!rpc_device_free(&creation->devices[i], NULL, fault))
			return false;
	}
	for (int i = 0; i < creation->device_count && !creation->force; i++) {
		if (!rpc_device_unused(&creation->devices[i], fault))
			return false;
	}
	if (!members_probe(creation->devices, creation->device_count, fault))
		return false;
	warn_same_names(creation);
	rpc_warn_sessions(creation->warnings, creation->devices, creation->device_count);
	return true;
}

/* --- making it --- */

static bool
spares_fit(const struct creation *creation, struct fault *fault)
{
	uint64_t need = layout_end_bytes(creation->common.areas);

	for (int i = creation->member_count; i < creation->device_count; i++) {
		const struct member_work *spare = &creation->devices[i];

		if (spare->device.capacity_bytes < need)
			return fault_set(fault, FAULT_UNFIT,
					 "choose a LUN at least as large as the smallest member",
					 "%s has %llu bytes, but a spare of this volume needs %llu",
					 spare->label,
					 (unsigned long long)spare->device.capacity_bytes,
					 (unsigned long long)need);
	}
	return true;
}

static bool
lay_out(struct creation *creation, struct fault *fault)
{
	uint32_t wanted = 0;
	struct superblock *common = &creation->common;
	struct member_work *smallest = &creation->devices[0], *largest = smallest;

	for (int i = 1; i < creation->member_count; i++) {
		struct member_work *member = &creation->devices[i];

		if (member->device.capacity_bytes < smallest->device.capacity_bytes)
			smallest = member;
		if (member->device.capacity_bytes > largest->device.capacity_bytes)
			largest = member;
	}
	if (smallest->device.capacity_bytes != largest->device.capacity_bytes)
		rpc_warn(creation->warnings,
			 "the sizes of the members differ. The smallest counts: %s has %llu bytes, "
			 "so %llu bytes of %s (%llu bytes) are not used",
			 smallest->label, (unsigned long long)smallest->device.capacity_bytes,
			 (unsigned long long)(largest->device.capacity_bytes -
					      smallest->device.capacity_bytes),
			 largest->label, (unsigned long long)largest->device.capacity_bytes);
	if (layout_compute(smallest->device.capacity_bytes, creation->chunk_bytes, common->areas,
			   &common->data_bytes, &common->region_rows) != 0 ||
	    geometry_init(&creation->geometry, creation->level, creation->member_count,
			  creation->chunk_bytes, smallest->device.block_bytes,
			  common->data_bytes) != 0)
		return fault_set(fault, FAULT_UNFIT, "choose larger LUNs or a smaller chunk",
				 "%s, of %llu bytes, is too small for chunks of %u bytes",
				 smallest->label,
				 (unsigned long long)smallest->device.capacity_bytes,
				 creation->chunk_bytes);
	if (creation->region_bytes != 0)
		wanted = (uint32_t)(creation->region_bytes / creation->chunk_bytes);
	common->region_rows = layout_region_rows(creation->geometry.rows, wanted);
	return spares_fit(creation, fault);
}

static void
fill_superblock(struct creation *creation)
{
	struct superblock *common = &creation->common;

	memcpy(common->volume_uuid, creation->config.uuid, sizeof(common->volume_uuid));
	memcpy(common->name, creation->config.name, sizeof(common->name));
	common->level = (uint8_t)creation->level;
	common->member_count = (uint8_t)creation->member_count;
	common->clean = true;
	common->chunk_bytes = creation->chunk_bytes;
	common->block_bytes = creation->devices[0].device.block_bytes;
	common->epoch = 1;
	common->event = 1;
	common->lost_empty = LAYOUT_LOST_EMPTY;
	common->created_s = common->updated_s = (uint64_t)time(NULL);
	for (int i = 0; i < creation->member_count; i++) {
		memcpy(common->member_uuids[i], creation->devices[i].member_uuid, 16);
		common->member_states[i] = MEMBER_IN_SYNC;
	}
}

static bool
write_devices(struct creation *creation, struct fault *fault)
{
	struct member_work *devices = creation->devices;
	bool good = members_format(devices, creation->member_count, &creation->common, fault);

	for (int i = creation->member_count; i < creation->device_count && good; i++)
		good = member_mark_spare(&devices[i], creation->config.uuid, fault);
	if (good)
		return true;
	members_unprobe(devices, creation->device_count);
	members_wipe(devices, creation->device_count);
	return false;
}

/* Who makes a volume knows of it, and may start it with fewer members than another gateway needs.
 * Where that can't be recorded it needs as many.
 */
static void
remember(const struct creation *creation)
{
	struct epoch_file *file = epoch_file_create(creation->config.uuid);

	if (file == NULL)
		return;
	(void)epoch_file_raise(file, &(struct epochs_kept){ .given = creation->common.epoch });
	epoch_file_free(file);
}

static bool
make_volume(struct creation *creation, struct fault *fault)
{
	int code;

	if (!lay_out(creation, fault)) {
		members_unprobe(creation->devices, creation->device_count);
		return false;
	}
	fill_superblock(creation);
	if (!write_devices(creation, fault))
		return false;
	code = volume_config_create(&creation->config, fault);
	if (code != 0) {
		members_wipe(creation->devices, creation->device_count);
		return rpc_fail_file(fault, code);
	}
	remember(creation);
	return true;
}

static void
close_members(struct creation *creation)
{
	for (int i = 0; i < creation->device_count; i++)
		rpc_device_close(&creation->devices[i]);
}

static json_object *
started(struct creation *creation)
{
	static const struct volume_start_options usual;
	struct fault fault = FAULT_NONE;
	json_object *result = json_object_new_object();

	if (volume_start(creation->context->host, creation->config.name, &usual, &fault) != 0)
		rpc_warn(creation->warnings, "it was created but could not be started: %s",
			 fault.message);
	else
		/* All members have just answered, so this is short; then it can be used, or stopped
		 * without a member being caught in the middle of its login. */
		volume_wait(creation->context->host, creation->config.name, START_MS_MAX);
	volume_note(creation->context->host, LOG_NOTICE, "created", creation->config.name, "",
		    "created, level %d, %d members, spares: %d", creation->level,
		    creation->member_count, creation->device_count - creation->member_count);
	rpc_put_text(result, "name", creation->config.name);
	rpc_put_uuid(result, "uuid", creation->config.uuid);
	rpc_put_number(result, "size_bytes", geometry_volume_bytes(&creation->geometry));
	rpc_put_number(result, "region_bytes",
		       (uint64_t)creation->common.region_rows * creation->chunk_bytes);
	json_object_object_add(result, "warnings", json_object_get(creation->warnings));
	return result;
}

json_object *
rpc_volume_create(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct creation *creation = calloc(1, sizeof(*creation));
	json_object *result = NULL;
	bool made = false;

	if (!creation) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	creation->context = context;
	creation->warnings = json_object_new_array();
	if (take_create_params(creation, params, fault) && rpc_begin_change(context, fault)) {
		made = name_is_free(creation->config.name, fault) &&
		       look_at_members(creation, fault) && make_volume(creation, fault);
		/* Before the volume logs in itself: a session of the same initiator may be refused.
		 */
		close_members(creation);
		if (made)
			result = started(creation);
		rpc_end_change(context);
	}
	json_object_put(creation->warnings);
	explicit_bzero(&creation->credentials, sizeof(creation->credentials));
	free(creation);
	return result;
}
