/* rpc/delete.c - volume.delete: it is stopped, its superblocks are wiped, its file goes.
 *
 * On a gateway of a pair that has not got the volume its members are the other gateway's, and where
 * a target knows no reservations nothing else would keep them from being wiped.  So what stands on
 * them is read before anything is done, and once more just before each is wiped: a look at members
 * that do not answer takes minutes, in which the other gateway may be given the volume.
 *
 * A log-in may end the session of whoever works with the member here.  So it comes when the volume's
 * lock is held, or when the volume is on standby here, as one who follows nobody.
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
	bool standby;	     /* on this gateway, until it is stopped */
	int lock;	     /* the volume's on this machine; -1: not held */
	bool looked;	     /* what follows is known */
	uint64_t epoch_seen; /* of the newest superblock; 0: none */
	struct member_work devices[SLOTS_MAX];
	bool answered[SLOTS_MAX];
	struct fault faults[SLOTS_MAX]; /* of a device that did not answer */
};

/* --- its members --- */

static bool
is_of_volume(const struct deletion *deletion, const struct member_work *device)
{
	return device->copies.chosen == SUPERBLOCK_OK &&
	       memcmp(device->copies.superblock.volume_uuid, deletion->config.uuid, 16) == 0;
}

/* Of those that answer; NULL: none of them is a member any more.  A clean one was written last. */
static const struct superblock *
newest_superblock(const struct deletion *deletion)
{
	const struct superblock *newest = NULL;

	for (int i = 0; i < deletion->config.device_count; i++) {
		const struct superblock *superblock = &deletion->devices[i].copies.superblock;

		if (!deletion->answered[i] || !is_of_volume(deletion, &deletion->devices[i]))
			continue;
		if (!newest || superblock->epoch > newest->epoch ||
		    (superblock->epoch == newest->epoch && superblock->clean))
			newest = superblock;
	}
	return newest;
}

/* Does another gateway work with the members that have this superblock? */
static bool
is_anothers(const struct deletion *deletion, const struct superblock *superblock,
	    struct fault *fault)
{
	uint64_t gateway;
	int error = gateway_id(&gateway);

	if (error != 0) {
		rpc_fail_volume(fault, error, deletion->config.name);
		return true;
	}
	if (superblock->clean || superblock->owner[0] == '\0' ||
	    volume_owner_is(superblock->owner, gateway))
		return false;
	fault_set(
		fault, FAULT_IN_USE,
		"delete it there, and here with --no-wipe; if that gateway has gone for good, take "
		"the volume over first: iraid activate --take-over",
		"volume \"%s\" is another gateway's: its members say that %s has it",
		deletion->config.name, superblock->owner);
	return true;
}

static bool
reach(struct deletion *deletion, int index, struct fault *fault)
{
	struct member_work *device = &deletion->devices[index];

	device->address = deletion->config.devices[index];
	member_address_format(&device->address.address, device->label);
	return rpc_device_reach(device, deletion->standby ? NULL : deletion->config.uuid,
				&deletion->credentials, fault);
}

/* Log in to each and read what stands there. */
static bool
look_at_members(struct deletion *deletion, struct fault *fault)
{
	const struct superblock *newest;

	if (!rpc_volume_credentials(&deletion->config, &deletion->credentials, fault)) {
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "correct it, or delete with --no-wipe");
		return false;
	}
	for (int i = 0; i < deletion->config.device_count; i++) {
		deletion->answered[i] = reach(deletion, i, &deletion->faults[i]);
		rpc_device_close(&deletion->devices[i]);
	}
	newest = newest_superblock(deletion);
	deletion->epoch_seen = newest ? newest->epoch : 0;
	deletion->looked = true;
	return !newest || !is_anothers(deletion, newest, fault);
}

static bool
wipe_member(struct deletion *deletion, int index, struct fault *fault)
{
	struct member_work *device = &deletion->devices[index];
	bool wiped = reach(deletion, index, fault);

	if (wiped && is_of_volume(deletion, device) &&
	    device->copies.superblock.epoch > deletion->epoch_seen)
		wiped = fault_set(fault, FAULT_IN_USE, "",
				  "the volume was started meanwhile: %s has it",
				  device->copies.superblock.owner);
	wiped = wiped && rpc_device_wipe_reached(device, deletion->config.uuid, NULL, fault);
	rpc_device_close(device);
	return wiped;
}

static void
wipe_members(struct deletion *deletion)
{
	for (int i = 0; i < deletion->config.device_count; i++) {
		struct fault *fault = &deletion->faults[i];

		/* Who did not answer is not waited for again. */
		if (deletion->answered[i] && wipe_member(deletion, i, fault))
			continue;
		rpc_warn(deletion->warnings, "the superblock of %s was not wiped: %s",
			 deletion->devices[i].label, fault->message);
		log_line(LOG_WARNING, "volume %s: the superblock of %s was not wiped: %s",
			 deletion->config.name, deletion->devices[i].label, fault->message);
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

/* Nor may another process of this machine have it, nor start it while it is wiped. */
static bool
take_lock(struct deletion *deletion, struct fault *fault)
{
	if (deletion->lock < 0)
		deletion->lock = volume_lock(deletion->config.uuid, deletion->config.name,
					     volume_host_program(deletion->context->host), fault);
	return deletion->lock >= 0 || rpc_fail_volume(fault, deletion->lock, deletion->config.name);
}

/* What is wiped is what the file says.  It must be this volume's own file, not another's that came
 * over it while the volume runs, nor a copy; and no other gateway may have the members, which is
 * asked of them before it stops unless it works with them here.
 */
static bool
may_delete(struct deletion *deletion, const struct volume_view *view, struct fault *fault)
{
	if (view->running && is_anothers_file(deletion, &view->config, fault))
		return false;
	if (!deletion->wipe)
		return true;
	if (has_copy(deletion, fault))
		return false;
	deletion->standby = view->running && view->status.state == VOLUME_STANDBY;
	if (deletion->standby)
		return look_at_members(deletion, fault);
	return view->running || (take_lock(deletion, fault) && look_at_members(deletion, fault));
}

static bool
check(struct deletion *deletion, struct fault *fault)
{
	struct volume_view *view = malloc(sizeof(*view));
	int code = view ? volume_view(deletion->context->host, deletion->config.name, view, fault)
			: -ENOMEM;
	bool good = code == 0 ? may_delete(deletion, view, fault)
			      : rpc_fail_volume(fault, code, deletion->config.name);

	free(view);
	return good;
}

static bool
stop(struct deletion *deletion, struct fault *fault)
{
	int code = volume_stop(deletion->context->host, deletion->config.name, fault);

	if (code != 0) {
		rpc_fail_volume(fault, code, deletion->config.name);
		if (code == -EBUSY)
			fault->code = FAULT_BUSY; /* its own users, not somebody else's */
		return false;
	}
	deletion->standby = false;
	return true;
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
	if (!check(deletion, fault) || !stop(deletion, fault) || !take_lock(deletion, fault))
		return false;
	if (deletion->wipe && !deletion->looked && !look_at_members(deletion, fault))
		return false;
	if (!forget_volume(deletion, fault))
		return false;
	volume_note(deletion->context->host, LOG_NOTICE, "deleted", deletion->config.name, "",
		    "deleted");
	return true;
}

static void
end_deletion(struct deletion *deletion)
{
	if (deletion->lock >= 0)
		close(deletion->lock);
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
	deletion->lock = -1;
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
