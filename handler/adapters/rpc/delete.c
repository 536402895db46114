/* rpc/delete.c - volume.delete: it is stopped, its superblocks are wiped, its file goes.
 *
 * On a gateway of a pair that has not got the volume its members are the other gateway's, and where
 * a target knows no reservations nothing else would keep them from being wiped: so what stands on
 * them is read before anything is done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "adapters/base/log.h"
#include "adapters/config/epoch_file.h"
#include "adapters/config/search.h"
#include "device.h"

struct deletion {
	struct rpc_context *context;
	struct volume_config config;
	struct iscsi_credentials credentials;
	json_object *warnings;
	bool wipe;
	bool looked; /* devices and faults are those of config */
	struct member_work devices[SLOTS_MAX];
	struct fault faults[SLOTS_MAX]; /* of a device without a session */
};

/* --- its members --- */

/* Of those that answer; NULL: none of them is a member any more.  A clean one was written last. */
static const struct superblock *
newest_superblock(const struct deletion *deletion)
{
	const struct superblock *newest = NULL;

	for (int i = 0; i < deletion->config.device_count; i++) {
		const struct member_work *device = &deletion->devices[i];
		const struct superblock *superblock = &device->copies.superblock;

		if (!device->session || device->copies.chosen != SUPERBLOCK_OK ||
		    memcmp(superblock->volume_uuid, deletion->config.uuid, 16) != 0)
			continue;
		if (!newest || superblock->epoch > newest->epoch ||
		    (superblock->epoch == newest->epoch && superblock->clean))
			newest = superblock;
	}
	return newest;
}

/* Does no other gateway work with them, as far as they say? */
static bool
are_nobodys(const struct deletion *deletion, struct fault *fault)
{
	const struct superblock *newest = newest_superblock(deletion);
	uint64_t gateway;
	int error = gateway_id(&gateway);

	if (error != 0)
		return rpc_fail_volume(fault, error, deletion->config.name);
	if (!newest || newest->clean || newest->owner[0] == '\0' ||
	    volume_owner_is(newest->owner, gateway))
		return true;
	return fault_set(
		fault, FAULT_IN_USE,
		"delete it there, and here with --no-wipe; if that gateway has gone for good, "
		"take the volume over first: iraid activate --take-over",
		"volume \"%s\" is another gateway's: its members say that %s has it",
		deletion->config.name, newest->owner);
}

/* Log in to each and read what stands there. */
static bool
look_at_members(struct deletion *deletion, struct fault *fault)
{
	if (!rpc_volume_credentials(&deletion->config, &deletion->credentials, fault)) {
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "correct it, or delete with --no-wipe");
		return false;
	}
	deletion->looked = true;
	for (int i = 0; i < deletion->config.device_count; i++) {
		struct member_work *device = &deletion->devices[i];

		device->address = deletion->config.devices[i];
		member_address_format(&device->address.address, device->label);
		if (!rpc_device_reach(device, deletion->config.uuid, &deletion->credentials,
				      &deletion->faults[i]))
			rpc_device_close(device);
	}
	return are_nobodys(deletion, fault);
}

static void
wipe_members(struct deletion *deletion)
{
	for (int i = 0; i < deletion->config.device_count; i++) {
		struct member_work *device = &deletion->devices[i];
		struct fault *fault = &deletion->faults[i];

		if (device->session &&
		    rpc_device_wipe_reached(device, deletion->config.uuid, NULL, fault))
			continue;
		rpc_warn(deletion->warnings, "the superblock of %s was not wiped: %s",
			 device->label, fault->message);
		log_line(LOG_WARNING, "volume %s: the superblock of %s was not wiped: %s",
			 deletion->config.name, device->label, fault->message);
	}
}

/* --- the volume --- */

static bool
is_anothers_file(const struct deletion *deletion, const struct volume_config *running,
		 struct fault *fault)
{
	char file_uuid[UUID_STR_LEN], uuid[UUID_STR_LEN];

	if (memcmp(running->uuid, deletion->config.uuid, sizeof(running->uuid)) == 0)
		return false;
	uuid_unparse_lower(deletion->config.uuid, file_uuid);
	uuid_unparse_lower(running->uuid, uuid);
	fault_set(fault, FAULT_IN_USE,
		  "first restore the volume's own file; when the volume is stopped, iraid import "
		  "makes one from its members",
		  "volume \"%s\" runs with UUID %s, but its file has %s: it is the file of another "
		  "volume",
		  deletion->config.name, uuid, file_uuid);
	return true;
}

static bool
has_copy(const struct deletion *deletion, struct fault *fault)
{
	char uuid[UUID_STR_LEN], copy[LAYOUT_NAME_MAX + 1];

	if (!config_copy(deletion->config.name, deletion->config.uuid, copy))
		return false;
	uuid_unparse_lower(deletion->config.uuid, uuid);
	fault_set(fault, FAULT_IN_USE,
		  "find out which of the two files is the copy, and remove only that file: iraid "
		  "delete --no-wipe",
		  "volumes \"%s\" and \"%s\" have the same UUID, %s: they use the same members, so "
		  "to delete one deletes both",
		  deletion->config.name, copy, uuid);
	return true;
}

/* What is wiped is what the file says.  It must be this volume's own file, not another's that came
 * over it while the volume runs, nor a copy; and the members this gateway's, which is asked of them
 * before it stops unless it works with them here.
 */
static bool
may_delete(struct deletion *deletion, struct fault *fault)
{
	struct volume_view *view = malloc(sizeof(*view));
	int code = view ? volume_view(deletion->context->host, deletion->config.name, view, fault)
			: -ENOMEM;
	bool may;

	if (code != 0)
		may = rpc_fail_volume(fault, code, deletion->config.name);
	else if (view->running && is_anothers_file(deletion, &view->config, fault))
		may = false;
	else if (!deletion->wipe)
		may = true;
	else if (has_copy(deletion, fault))
		may = false;
	else
		may = (view->running && view->status.state != VOLUME_STANDBY) ||
		      look_at_members(deletion, fault);
	free(view);
	return may;
}

/* Its lock, which is the caller's to close; < 0: with the fault. */
static int
stop_and_lock(const struct deletion *deletion, struct fault *fault)
{
	struct volume_host *host = deletion->context->host;
	const char *name = deletion->config.name;
	int code = volume_stop(host, name, fault), lock;

	if (code != 0) {
		rpc_fail_volume(fault, code, name);
		if (code == -EBUSY)
			fault->code = FAULT_BUSY; /* its own users, not somebody else's */
		return -1;
	}
	/* Nor may another process have it, nor start it while it is wiped. */
	lock = volume_lock(deletion->config.uuid, name, volume_host_program(host), fault);
	if (lock < 0)
		rpc_fail_volume(fault, lock, name);
	return lock;
}

static bool
forget_volume(struct deletion *deletion, struct fault *fault)
{
	int code;

	if (deletion->wipe)
		wipe_members(deletion);
	code = volume_config_delete(deletion->config.name, fault);
	if (code != 0)
		return rpc_fail_file(fault, code);
	if (deletion->wipe)
		volume_forget(deletion->config.uuid);
	return true;
}

static bool
delete_volume(struct deletion *deletion, struct fault *fault)
{
	bool deleted;
	int lock;

	if (!may_delete(deletion, fault))
		return false;
	lock = stop_and_lock(deletion, fault);
	if (lock < 0)
		return false;
	deleted = (!deletion->wipe || deletion->looked || look_at_members(deletion, fault)) &&
		  forget_volume(deletion, fault);
	close(lock);
	if (deleted)
		volume_note(deletion->context->host, LOG_NOTICE, "deleted", deletion->config.name,
			    "", "deleted");
	return deleted;
}

static void
end_deletion(struct deletion *deletion)
{
	for (int i = 0; i < SLOTS_MAX; i++)
		rpc_device_close(&deletion->devices[i]);
	explicit_bzero(&deletion->credentials, sizeof(deletion->credentials));
	json_object_put(deletion->warnings);
	free(deletion);
}

json_object *
rpc_volume_delete(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct deletion *deletion = calloc(1, sizeof(*deletion));
	char name[LAYOUT_NAME_MAX + 1];
	json_object *result = NULL;
	int code;

	if (!deletion) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	deletion->context = context;
	deletion->warnings = json_object_new_array();
	deletion->wipe = true;
	if (rpc_take_name(params, name, fault) &&
	    rpc_take_bool(params, "wipe", &deletion->wipe, fault) &&
	    rpc_begin_change(context, fault)) {
		code = volume_config_read(name, &deletion->config, fault);
		if (code != 0) {
			rpc_fail_volume(fault, code, name);
		} else if (delete_volume(deletion, fault)) {
			result = json_object_new_object();
			json_object_object_add(result, "warnings",
					       json_object_get(deletion->warnings));
		}
		rpc_end_change(context);
	}
	end_deletion(deletion);
	return result;
}
