/* rpc_create.c - volume.create and volume.delete.
 *
 * Creating goes from what harms nothing to what can't be taken back: check the parameters, log
 * in to every member, look at them, prove them writable and different (their bytes are put back
 * if not), format, write the configuration, start.  Until the configuration is written every
 * failure wipes what was written, so that the members are free for another try.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "log.h"
#include "member_format.h"
#include "rpc.h"
#include "rpc_inspect.h"

#define LOGIN_MS_MAX 10000
#define START_MS_MAX 15000
#define VOLUMES_MAX 1024

struct creation {
	struct rpc_context *context;
	struct volume_config config;
	struct iscsi_credentials credentials;
	int level;
	uint32_t chunk_bytes;
	bool force;
	struct member_work members[IRAID_MEMBERS_MAX];
	struct superblock common;
	struct geometry geometry;
	json_object *warnings;
};

static void __attribute__((format(printf, 2, 3)))
warn(struct creation *creation, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	json_object_array_add(creation->warnings, json_object_new_string(text));
}

/* --- parameters --- */

static bool
take_members(struct creation *creation, json_object *params, struct rpc_error *error)
{
	json_object *list = NULL;
	int least = creation->level == 5 ? 3 : 2;
	size_t count;

	if (!params || !json_object_object_get_ex(params, "members", &list) || !list)
		return rpc_fail(error, RPC_PARAMS, "list the members as PORTAL/IQN/LUN",
				"parameter \"members\" is missing");
	if (!json_object_is_type(list, json_type_array))
		return rpc_fail(error, RPC_PARAMS, "list the members as PORTAL/IQN/LUN",
				"parameter \"members\" is not a list");
	count = json_object_array_length(list);
	if (count < (size_t)least || count > IRAID_MEMBERS_MAX)
		return rpc_fail(error, RPC_INVALID, "name more or fewer targets, or choose another level",
				"level %d needs %d to %d members, %zu were given", creation->level, least,
				IRAID_MEMBERS_MAX, count);
	for (size_t i = 0; i < count; i++) {
		json_object *value = json_object_array_get_idx(list, i);
		struct member_work *member = &creation->members[i];
		const char *why = "";

		if (!json_object_is_type(value, json_type_string))
			return rpc_fail(error, RPC_PARAMS, "write each as PORTAL/IQN/LUN",
					"entry %zu of \"members\" is not a string", i);
		if (member_address_parse(json_object_get_string(value), &member->address, &why) != 0)
			return rpc_fail(error, RPC_INVALID,
					"write PORTAL/IQN/LUN, for example 10.0.0.1:3260/iqn.2026-01.org.example:t0/0",
					"member \"%.300s\": %s", json_object_get_string(value), why);
		member_address_format(&member->address, member->label);
		for (size_t j = 0; j < i; j++) {
			if (strcmp(creation->members[j].label, member->label) == 0)
				return rpc_fail(error, RPC_IN_USE, "name each LUN once", "member %s is given twice",
						member->label);
		}
		creation->config.members[i] = member->address;
		uuid_generate_random(member->member_uuid);
	}
	creation->config.member_count = (int)count;
	return true;
}

static bool
take_shape(struct creation *creation, json_object *params, struct rpc_error *error)
{
	int64_t level, chunk = IRAID_CHUNK_BYTES_DEFAULT, give_up = GIVE_UP_SECONDS_DEFAULT;

	if (!rpc_take_number(params, "level", true, INT32_MIN, INT32_MAX, &level, error) ||
	    !rpc_take_number(params, "chunk_bytes", false, INT32_MIN, INT32_MAX, &chunk, error) ||
	    !rpc_take_number(params, "give_up_seconds", false, 1, GIVE_UP_SECONDS_MAX, &give_up, error) ||
	    !rpc_take_bool(params, "force", &creation->force, error))
		return false;
	if (level != 0 && level != 5)
		return rpc_fail(error, RPC_INVALID, "choose 0 (S-iRAID, striping) or 5 (P-iRAID, parity)",
				"level %lld is not known", (long long)level);
	if (chunk < IRAID_CHUNK_BYTES_MIN || chunk > IRAID_CHUNK_BYTES_MAX || (chunk & (chunk - 1)) != 0)
		return rpc_fail(error, RPC_INVALID, "choose a power of two from 4096 to 1048576",
				"chunk_bytes %lld can't be", (long long)chunk);
	creation->level = (int)level;
	creation->chunk_bytes = (uint32_t)chunk;
	creation->config.give_up_seconds = (uint32_t)give_up;
	return true;
}

static bool
take_params(struct creation *creation, json_object *params, struct rpc_error *error)
{
	struct volume_config *config = &creation->config;
	char name[LAYOUT_NAME_MAX + 1];
	const char *why;

	if (!rpc_take_name(params, name, error))
		return false;
	volume_config_defaults(config, name);
	uuid_generate_random(config->uuid);
	if (!take_shape(creation, params, error) || !take_members(creation, params, error) ||
	    !rpc_take_text(params, "initiator", false, config->initiator, sizeof(config->initiator), error) ||
	    !rpc_take_text(params, "chap_file", false, config->chap_file, sizeof(config->chap_file), error) ||
	    !rpc_take_credentials(params, &creation->credentials, error))
		return false;
	/* rpc_take_credentials() has its own usual name; the volume logs in by its own. */
	why = initiator_name_fault(config->initiator);
	if (why)
		return rpc_fail(error, RPC_INVALID, "give one with the parameter \"initiator\"",
				"initiator \"%s\": %s", config->initiator, why);
	memcpy(creation->credentials.initiator, config->initiator, sizeof(config->initiator));
	return true;
}

static bool
name_is_free(const char *name, struct rpc_error *error)
{
	struct volume_config *existing = malloc(sizeof(*existing));
	char reason[VOLUME_REASON_MAX] = "";
	int code = existing ? volume_config_read(name, existing, reason, sizeof(reason)) : -ENOMEM;

	free(existing);
	if (code == -ENOENT)
		return true;
	return rpc_fail(error, RPC_EXISTS, "choose another name, or delete that volume first",
			"there is already a volume \"%s\"%s%s", name, code ? ": " : "", code ? reason : "");
}

/* --- looking at the members --- */

static bool
open_member(struct creation *creation, struct member_work *member, struct rpc_error *error)
{
	const struct admin_device *device = &member->device;
	struct admin_result result = admin_open(&member->address, &creation->credentials, LOGIN_MS_MAX,
						&member->session, &member->device);

	if (result.error != ADMIN_OK)
		return rpc_fail_admin(error, &result);
	if (device->device_type != 0)
		return rpc_fail(error, RPC_UNFIT, "choose a LUN that is a disk; 'iraid discover' lists them",
				"%s is not a disk (SCSI device type %u)", member->label, device->device_type);
	if (!device->writable)
		return rpc_fail(error, RPC_UNFIT, "allow this initiator to write on the target",
				"%s is read-only", member->label);
	if (device->block_bytes != 512 && device->block_bytes != 4096)
		return rpc_fail(error, RPC_UNFIT, "set it to 512 or 4096 on the target",
				"%s has blocks of %u bytes", member->label, device->block_bytes);
	if (device->capacity_bytes < LAYOUT_MEMBER_BYTES_MIN)
		return rpc_fail(error, RPC_UNFIT, "choose a LUN of 16 MiB or more", "%s has only %llu bytes",
				member->label, (unsigned long long)device->capacity_bytes);
	if (device->block_bytes != creation->members[0].device.block_bytes)
		return rpc_fail(error, RPC_UNFIT, "give all members the same block size on their targets",
				"%s has blocks of %u bytes and %s of %u", member->label, device->block_bytes,
				creation->members[0].label, creation->members[0].device.block_bytes);
	result = member_read_superblock(member->session, &member->copies);
	return result.error == ADMIN_OK || rpc_fail_admin(error, &result);
}

/* A member of a volume that this gateway has: refused even by force. */
static bool
not_ours(const struct member_work *member, const struct volume_config *other, struct rpc_error *error)
{
	bool ours = member->copies.chosen == SUPERBLOCK_OK &&
		    memcmp(member->copies.superblock.volume_uuid, other->uuid, sizeof(other->uuid)) == 0;

	for (int i = 0; i < other->member_count && !ours; i++) {
		char label[MEMBER_ADDRESS_MAX];

		member_address_format(&other->members[i], label);
		ours = strcmp(label, member->label) == 0;
	}
	if (!ours)
		return true;
	return rpc_fail(error, RPC_IN_USE, "delete that volume first, if its data is no longer needed",
			"%s is a member of volume \"%s\"", member->label, other->name);
}

static bool
check_configured(struct creation *creation, struct rpc_error *error)
{
	char (*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	struct volume_config *other = malloc(sizeof(*other));
	char reason[VOLUME_REASON_MAX];
	bool good = names && other;
	int count = good ? volume_config_list(names, VOLUMES_MAX) : 0;

	if (!good)
		rpc_fail(error, RPC_INTERNAL, "free some memory", "out of memory");
	for (int i = 0; i < count && good; i++) {
		if (volume_config_read(names[i], other, reason, sizeof(reason)) != 0)
			continue;
		for (int m = 0; m < creation->config.member_count && good; m++)
			good = not_ours(&creation->members[m], other, error);
	}
	free(other);
	free(names);
	return good;
}

static bool
check_unused(const struct member_work *member, struct rpc_error *error)
{
	static const char remedy[] = "give --force if what is on it is no longer needed";
	const struct superblock_copies *copies = &member->copies;
	char signature[128] = "", uuid[UUID_STR_LEN];
	struct admin_result result;

	if (copies->chosen == SUPERBLOCK_OK) {
		uuid_unparse_lower(copies->superblock.volume_uuid, uuid);
		return rpc_fail(error, RPC_IN_USE, remedy, "%s holds member %u of the iraid volume \"%s\" (%s)",
				member->label, copies->superblock.role, copies->superblock.name, uuid);
	}
	if (copies->chosen != SUPERBLOCK_ABSENT)
		return rpc_fail(error, RPC_IN_USE, remedy, "%s holds an iraid superblock that is %s",
				member->label, superblock_verdict_name(copies->chosen));
	result = admin_signature(member->session, signature, sizeof(signature));
	if (result.error != ADMIN_OK)
		return rpc_fail_admin(error, &result);
	if (signature[0] != '\0')
		return rpc_fail(error, RPC_IN_USE, remedy, "%s holds a signature: %s", member->label, signature);
	return true;
}

static bool
same_name(const struct admin_device *a, const struct admin_device *b)
{
	/* Many targets number their identities from 1; serials that differ tell the LUNs apart. */
	if (a->serial[0] != '\0' && b->serial[0] != '\0' && strcmp(a->serial, b->serial) != 0)
		return false;
	if (a->identity[0] != '\0' && b->identity[0] != '\0')
		return strcmp(a->identity, b->identity) == 0;
	return a->serial[0] != '\0' && strcmp(a->serial, b->serial) == 0 && strcmp(a->vendor, b->vendor) == 0;
}

/* Different LUNs that say they are the same one: members_probe() has shown that they are not. */
static void
warn_same_names(struct creation *creation)
{
	for (int i = 1; i < creation->config.member_count; i++) {
		for (int j = 0; j < i; j++) {
			if (!same_name(&creation->members[i].device, &creation->members[j].device))
				continue;
			warn(creation, "%s and %s are different LUNs that report the same identity; give each a "
			     "serial number of its own on its target", creation->members[j].label,
			     creation->members[i].label);
			return;
		}
	}
}

static bool
look_at_members(struct creation *creation, struct rpc_error *error)
{
	struct admin_result result;
	int count = creation->config.member_count;

	for (int i = 0; i < count; i++) {
		if (!open_member(creation, &creation->members[i], error))
			return false;
	}
	if (!check_configured(creation, error))
		return false;
	for (int i = 0; i < count && !creation->force; i++) {
		if (!check_unused(&creation->members[i], error))
			return false;
	}
	result = members_probe(creation->members, count);
	if (result.error != ADMIN_OK)
		return rpc_fail_admin(error, &result);
	warn_same_names(creation);
	rpc_warn_sessions(creation->warnings, creation->members, count);
	return true;
}

/* --- making it --- */

static bool
lay_out(struct creation *creation, struct rpc_error *error)
{
	struct superblock *common = &creation->common;
	struct member_work *smallest = &creation->members[0], *largest = smallest;

	for (int i = 1; i < creation->config.member_count; i++) {
		struct member_work *member = &creation->members[i];

		if (member->device.capacity_bytes < smallest->device.capacity_bytes)
			smallest = member;
		if (member->device.capacity_bytes > largest->device.capacity_bytes)
			largest = member;
	}
	if (smallest->device.capacity_bytes != largest->device.capacity_bytes)
		warn(creation, "the members' sizes differ: the smallest counts, %s with %llu bytes, so %llu bytes of "
		     "%s (%llu bytes) are not used", smallest->label,
		     (unsigned long long)smallest->device.capacity_bytes,
		     (unsigned long long)(largest->device.capacity_bytes - smallest->device.capacity_bytes),
		     largest->label, (unsigned long long)largest->device.capacity_bytes);
	if (layout_compute(smallest->device.capacity_bytes, creation->chunk_bytes, common->areas,
			   &common->data_bytes, &common->region_rows) != 0 ||
	    geometry_init(&creation->geometry, creation->level, creation->config.member_count,
			  creation->chunk_bytes, smallest->device.block_bytes, common->data_bytes) != 0)
		return rpc_fail(error, RPC_UNFIT, "choose larger LUNs or a smaller chunk",
				"%s, of %llu bytes, is too small for chunks of %u bytes", smallest->label,
				(unsigned long long)smallest->device.capacity_bytes, creation->chunk_bytes);
	return true;
}

static void
fill_superblock(struct creation *creation)
{
	struct superblock *common = &creation->common;

	memcpy(common->volume_uuid, creation->config.uuid, sizeof(common->volume_uuid));
	memcpy(common->name, creation->config.name, sizeof(common->name));
	common->level = (uint8_t)creation->level;
	common->member_count = (uint8_t)creation->config.member_count;
	common->clean = true;
	common->chunk_bytes = creation->chunk_bytes;
	common->block_bytes = creation->members[0].device.block_bytes;
	common->epoch = 1;
	common->event = 1;
	common->created_s = common->updated_s = (uint64_t)time(NULL);
	for (int i = 0; i < creation->config.member_count; i++) {
		memcpy(common->member_uuids[i], creation->members[i].member_uuid, 16);
		common->member_states[i] = MEMBER_IN_SYNC;
	}
}

static bool
make_volume(struct creation *creation, struct rpc_error *error)
{
	char reason[VOLUME_REASON_MAX] = "";
	int count = creation->config.member_count;
	struct admin_result result;

	if (!lay_out(creation, error)) {
		members_unprobe(creation->members, count);
		return false;
	}
	fill_superblock(creation);
	result = members_format(creation->members, count, &creation->common);
	if (result.error != ADMIN_OK)
		return rpc_fail_admin(error, &result);
	if (volume_config_write(&creation->config, reason, sizeof(reason)) != 0) {
		members_wipe(creation->members, count);
		return rpc_fail(error, RPC_INTERNAL, "check that folder's permissions and free space", "%s", reason);
	}
	return true;
}

static void
close_members(struct creation *creation)
{
	for (int i = 0; i < creation->config.member_count; i++) {
		if (creation->members[i].session)
			admin_close(creation->members[i].session);
		creation->members[i].session = NULL;
	}
}

static json_object *
started(struct creation *creation)
{
	static const struct volume_start_options usual;
	char reason[VOLUME_REASON_MAX] = "";
	json_object *result = json_object_new_object();

	if (volume_start(creation->context->host, creation->config.name, &usual, reason, sizeof(reason)) != 0)
		warn(creation, "it was created but could not be started: %s", reason);
	else
		/* All members have just answered, so this is short; then it can be used, or stopped
		 * without a member being caught in the middle of its login. */
		volume_wait(creation->context->host, creation->config.name, START_MS_MAX);
	log_line(LOG_NOTICE, "volume %s: created, level %d, %d members", creation->config.name, creation->level,
		 creation->config.member_count);
	rpc_put_text(result, "name", creation->config.name);
	rpc_put_uuid(result, "uuid", creation->config.uuid);
	rpc_put_number(result, "size_bytes", geometry_volume_bytes(&creation->geometry));
	json_object_object_add(result, "warnings", json_object_get(creation->warnings));
	return result;
}

json_object *
rpc_volume_create(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	struct creation *creation = calloc(1, sizeof(*creation));
	json_object *result = NULL;
	bool made = false;

	if (!creation) {
		rpc_fail(error, RPC_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	creation->context = context;
	creation->warnings = json_object_new_array();
	if (take_params(creation, params, error)) {
		pthread_mutex_lock(context->changes);
		made = name_is_free(creation->config.name, error) && look_at_members(creation, error) &&
		       make_volume(creation, error);
		/* Before the volume logs in itself: a session of the same initiator may be refused. */
		close_members(creation);
		if (made)
			result = started(creation);
		pthread_mutex_unlock(context->changes);
	}
	json_object_put(creation->warnings);
	explicit_bzero(&creation->credentials, sizeof(creation->credentials));
	free(creation);
	return result;
}

/* --- volume.delete --- */

static void
forget_member(const struct volume_config *config, int index, const struct iscsi_credentials *credentials,
	      json_object *warnings)
{
	struct superblock_copies *copies = malloc(sizeof(*copies));
	struct admin_session *session = NULL;
	struct admin_device device;
	struct admin_result result;
	char label[MEMBER_ADDRESS_MAX], text[MEMBER_ADDRESS_MAX + 600];

	member_address_format(&config->members[index], label);
	if (!copies)
		return;
	result = admin_open(&config->members[index], credentials, LOGIN_MS_MAX, &session, &device);
	if (result.error == ADMIN_OK)
		result = member_read_superblock(session, copies);
	/* Only what is this volume's: the LUN may have been given to another since. */
	if (result.error == ADMIN_OK && copies->chosen == SUPERBLOCK_OK &&
	    memcmp(copies->superblock.volume_uuid, config->uuid, sizeof(config->uuid)) == 0)
		result = member_wipe(session);
	if (result.error != ADMIN_OK) {
		snprintf(text, sizeof(text), "the superblock of %s was not wiped: %s", label, result.message);
		json_object_array_add(warnings, json_object_new_string(text));
		log_line(LOG_WARNING, "volume %s: %s", config->name, text);
	}
	if (session)
		admin_close(session);
	free(copies);
}

static bool
wipe_members(const struct volume_config *config, json_object *warnings, struct rpc_error *error)
{
	struct iscsi_credentials credentials = { 0 };
	const char *why = "";

	if (config->chap_file[0] != '\0' && iscsi_credentials_read(config->chap_file, &credentials, &why) != 0)
		return rpc_fail(error, RPC_INVALID, "correct it, or delete with wipe=false", "chap_file \"%s\": %s",
				config->chap_file, why);
	memcpy(credentials.initiator, config->initiator, sizeof(credentials.initiator));
	for (int i = 0; i < config->member_count; i++)
		forget_member(config, i, &credentials, warnings);
	explicit_bzero(&credentials, sizeof(credentials));
	return true;
}

static bool
delete_volume(struct rpc_context *context, const struct volume_config *config, bool wipe,
	      json_object *warnings, struct rpc_error *error)
{
	char reason[VOLUME_REASON_MAX] = "";
	int lock, code = volume_stop(context->host, config->name, reason, sizeof(reason));

	if (code != 0) {
		rpc_fail_volume(error, code, config->name, reason);
		if (code == -EBUSY)
			error->code = RPC_BUSY;	/* its own users, not somebody else's */
		return false;
	}
	/* Nor may another process have it, nor start it while it is wiped. */
	lock = volume_lock(config->uuid, config->name, volume_host_program(context->host), reason,
			   sizeof(reason));
	if (lock < 0)
		return rpc_fail_volume(error, lock, config->name, reason);
	if (wipe && !wipe_members(config, warnings, error)) {
		close(lock);
		return false;
	}
	code = volume_config_delete(config->name);
	if (code == 0 && wipe)
		volume_forget(config->uuid);
	close(lock);
	if (code != 0)
		return rpc_fail(error, RPC_INTERNAL, "check that folder's permissions", "%s/volumes/%s.json: %s",
				config_dir(), config->name, strerror(-code));
	log_line(LOG_NOTICE, "volume %s: deleted", config->name);
	return true;
}

json_object *
rpc_volume_delete(struct rpc_context *context, json_object *params, struct rpc_error *error)
{
	struct volume_config *config = malloc(sizeof(*config));
	char name[LAYOUT_NAME_MAX + 1], reason[VOLUME_REASON_MAX] = "";
	json_object *warnings = json_object_new_array(), *result = NULL;
	bool wipe = true;
	int code;

	if (config && rpc_take_name(params, name, error) && rpc_take_bool(params, "wipe", &wipe, error)) {
		pthread_mutex_lock(context->changes);
		code = volume_config_read(name, config, reason, sizeof(reason));
		if (code != 0)
			rpc_fail_volume(error, code, name, reason);
		else if (delete_volume(context, config, wipe, warnings, error))
			result = json_object_new_object();
		pthread_mutex_unlock(context->changes);
	}
	if (result)
		json_object_object_add(result, "warnings", json_object_get(warnings));
	json_object_put(warnings);
	free(config);
	return result;
}
