/* rpc/spare.c - spare.add and member.replace.
 *
 * A device becomes a spare in this order: it is looked at; the volume's lock is taken, if it does
 * not run here; its mark is written; the configuration lists it; the engine gets it.  Whatever
 * fails undoes what was done before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/base/log.h"
#include "device.h"
#include "member.h"
#include "adapters/config/pool.h"

#define LOGIN_MS_MAX 10000
#define BEGIN_MS_MAX 5000

/* A device on its way into a volume. */
struct joining {
	struct rpc_context *context;
	struct volume_config config;
	struct volume_view view;
	struct iscsi_credentials credentials;
	struct member_work device;
	char text[DEVICE_TEXT_MAX];
	bool force, running;
	bool assembled; /* so it knows which devices it needs */
	json_object *warnings;
};

static bool
takes_members(enum volume_state state)
{
	return state == VOLUME_ACTIVE || state == VOLUME_DEGRADED || state == VOLUME_SUSPENDED;
}

static bool
begin_joining(struct joining *joining, struct rpc_context *context, json_object *params,
	      const char *name, struct fault *fault)
{
	int code;

	joining->context = context;
	if (!rpc_take_text(params, "device", true, joining->text, sizeof(joining->text), fault) ||
	    !rpc_take_bool(params, "force", &joining->force, fault))
		return false;
	code = volume_config_read(name, &joining->config, fault);
	if (code == 0)
		code = volume_view(context->host, name, &joining->view, fault);
	if (code != 0)
		return rpc_fail_volume(fault, code, name);
	joining->running = joining->view.running;
	joining->assembled = joining->running && takes_members(joining->view.status.state);
	return rpc_volume_credentials(&joining->config, &joining->credentials, fault);
}

static void
end_joining(struct joining *joining)
{
	rpc_device_close(&joining->device);
	explicit_bzero(&joining->credentials, sizeof(joining->credentials));
	free(joining);
}

/* --- how large it must be --- */

static bool
read_need(struct joining *joining, const struct device_address *address, uint64_t *need,
	  uint32_t *block_bytes)
{
	struct member_work *member = calloc(1, sizeof(*member));
	const struct superblock *superblock = member ? &member->copies.superblock : NULL;
	struct fault ignored;
	bool found = false;

	if (member &&
	    device_open(address, &joining->credentials, LOGIN_MS_MAX, NULL, &member->session,
			&member->device, &ignored) &&
	    rpc_device_superblock(joining->context->host, address, member->session, &member->device,
				  &member->copies, &ignored) &&
	    member->copies.chosen == SUPERBLOCK_OK &&
	    memcmp(superblock->volume_uuid, joining->config.uuid, sizeof(joining->config.uuid)) ==
		    0) {
		*need = layout_end_bytes(superblock->areas);
		*block_bytes = superblock->block_bytes;
		found = true;
	}
	if (member)
		rpc_device_close(member);
	free(member);
	return found;
}

/* A device that hangs would cost the time of a login: those known to answer come first. */
static bool
is_open(const struct joining *joining, const struct device_address *address)
{
	char label[MEMBER_ADDRESS_MAX];

	member_address_format(&address->address, label);
	for (int i = 0; i < joining->view.status.slots; i++) {
		const struct member_status *member = &joining->view.status.members[i];

		if (member->attached && member->link == LINK_OPEN &&
		    strncmp(member->label, label, 255) == 0)
			return true;
	}
	return false;
}

static bool
large_enough(struct joining *joining, struct fault *fault)
{
	const struct member_work *device = &joining->device;
	uint32_t block_bytes = 0;
	uint64_t need = 0;
	bool found = false;

	for (int pass = 0; pass < 2 && !found; pass++) {
		for (int i = 0; i < joining->config.device_count && !found; i++) {
			const struct device_address *address = &joining->config.devices[i];

			if (is_open(joining, address) == (pass == 0))
				found = read_need(joining, address, &need, &block_bytes);
		}
	}
	if (!found)
		return fault_set(fault, FAULT_UNREACHABLE,
				 "try again when a member of the volume answers",
				 "no member of volume \"%s\" answers, so the size that %s needs is "
				 "not known",
				 joining->config.name, device->label);
	if (device->device.block_bytes != block_bytes)
		return fault_set(fault, FAULT_UNFIT,
				 "set its block size to that of the volume on its target",
				 "%s has blocks of %u bytes, volume \"%s\" has %u", device->label,
				 device->device.block_bytes, joining->config.name, block_bytes);
	if (device->device.capacity_bytes < need)
		return fault_set(fault, FAULT_UNFIT, "choose a larger LUN",
				 "%s has %llu bytes, a member of volume \"%s\" needs %llu",
				 device->label, (unsigned long long)device->device.capacity_bytes,
				 joining->config.name, (unsigned long long)need);
	return true;
}

/* By another name it may be a LUN that the volume works with: its superblock or mark says which. */
static bool
not_attached(struct joining *joining, struct fault *fault)
{
	static const char stopped[] =
		"first start the volume: then it is known which devices it needs";
	static const char moved[] = "if its address has changed, stop the volume, correct the "
				    "address in its file and start it again";
	const struct superblock_copies *copies = &joining->device.copies;
	const uint8_t *uuid = rpc_device_uuid(&joining->device);

	for (int i = 0; uuid && i < joining->view.status.slots; i++) {
		const struct member_status *member = &joining->view.status.members[i];

		if (member->attached && memcmp(member->uuid, uuid, sizeof(member->uuid)) == 0)
			return fault_set(fault, FAULT_IN_USE,
					 "name another LUN, or wipe the copy first",
					 "%s and %s, a device of volume \"%s\", are the same LUN, "
					 "or one is a copy of the other",
					 joining->device.label, member->label,
					 joining->config.name);
	}
	if (uuid && !joining->assembled && copies->chosen == SUPERBLOCK_OK &&
	    memcmp(copies->superblock.volume_uuid, joining->config.uuid,
		   sizeof(joining->config.uuid)) == 0)
		return fault_set(fault, FAULT_IN_USE, joining->running ? moved : stopped,
				 "%s holds a member of volume \"%s\", which may need it to start",
				 joining->device.label, joining->config.name);
	return true;
}

/* Where nobody but its own session may read it, as on LIO. */
static bool
says_it_is(struct joining *joining, const struct device_address *address)
{
	const struct scsi_device *wanted = &joining->device.device;
	struct member_work *member = calloc(1, sizeof(*member));
	struct fault ignored;
	const bool same = member != NULL &&
			  device_open(address, &joining->credentials, LOGIN_MS_MAX, NULL,
				      &member->session, &member->device, &ignored) &&
			  strcmp(member->device.identity, wanted->identity) == 0 &&
			  strcmp(member->device.serial, wanted->serial) == 0;

	if (member != NULL)
		rpc_device_close(member);
	free(member);
	return same;
}

/* By another portal it may be a LUN that the volume works with.  Who logs in by the name that the
 * volume's own session has there would end that one: so the first look is by another name.
 */
static bool
not_attached_by_another_portal(struct joining *joining, struct fault *fault)
{
	struct member_work *device = &joining->device;
	const struct member_address *address = &device->address.address;
	bool looked = false, readable = false, good = true;

	for (int i = 0; good && !readable && i < joining->config.device_count; i++) {
		const struct device_address *other = &joining->config.devices[i];

		if (strcmp(other->address.iqn, address->iqn) != 0 ||
		    other->address.lun != address->lun || !is_open(joining, other))
			continue;
		if (!looked) {
			readable = rpc_device_open(device, NULL, &joining->credentials, fault);
			good = readable || fault->code == FAULT_IN_USE;
		}
		looked = true;
		if (readable)
			good = not_attached(joining, fault);
		else
			good = good && !says_it_is(joining, other);
	}
	rpc_device_close(device);
	return good;
}

static bool
look_at(struct joining *joining, struct fault *fault)
{
	struct member_work *device = &joining->device;

	if (!rpc_device_parse(joining->text, device, fault))
		return false;
	if (volume_config_find(&joining->config, &device->address) >= 0)
		return fault_set(fault, FAULT_EXISTS, "iraid status shows its devices",
				 "%s is already a device of volume \"%s\"", device->label,
				 joining->config.name);
	if (joining->config.device_count == SLOTS_MAX)
		return fault_set(fault, FAULT_UNFIT, "remove one first: iraid remove",
				 "volume \"%s\" already has %d devices, which is the maximum",
				 joining->config.name, SLOTS_MAX);
	if (!not_attached_by_another_portal(joining, fault) ||
	    !rpc_device_open(device, joining->config.uuid, &joining->credentials, fault) ||
	    !rpc_device_free(device, &joining->config, fault) || !not_attached(joining, fault) ||
	    (!joining->force && !rpc_device_unused(device, fault)) || !large_enough(joining, fault))
		return false;
	/* It is none of those the volume has attached; of a volume that does not work, who knows.
	 */
	if (joining->assembled)
		rpc_device_reclaim(device, joining->config.uuid);
	return members_probe(device, 1, fault);
}

/* --- into the volume --- */

static void
wipe_mark(struct joining *joining)
{
	struct fault fault;

	if (!rpc_device_wipe(&joining->device, joining->config.uuid, joining->device.member_uuid,
			     &joining->credentials, &fault))
		log_line(LOG_ERR, "%s: the mark of a spare could not be wiped: %s",
			 joining->device.label, fault.message);
}

static bool
list_it(struct joining *joining, struct fault *fault)
{
	struct volume_host *host = joining->context->host;
	const char *name = joining->config.name;
	const struct device_address *device = &joining->device.address;
	int code = joining->running ? volume_edit_add(host, name, device, fault)
				    : volume_edit_add_locked(host, name, device, fault);

	return code == 0 || rpc_fail_call(fault, code, name, joining->device.label,
					  "remove this cause, then try again");
}

/* The configuration lists it.  Its slot, or -1. */
static int
attach_spare(struct joining *joining, struct fault *fault)
{
	struct fault ignored;
	const char *name = joining->config.name;
	int slot = volume_attach(joining->context->host, name, &joining->device.address, fault);

	if (slot >= 0)
		return slot;
	volume_edit_drop(joining->context->host, name, &joining->device.address, &ignored);
	rpc_fail_call(fault, slot, name, joining->device.label, "see iraid status");
	return -1;
}

/* Mark, list, attach.  Its slot; 0 for a volume that does not run; -1. */
static int
mark_and_list(struct joining *joining, struct fault *fault)
{
	bool marked = member_mark_spare(&joining->device, joining->config.uuid, fault);
	int slot = 0;

	/* Before the volume logs in itself. */
	rpc_device_close(&joining->device);
	if (!marked)
		return -1;
	if (!list_it(joining, fault)) {
		wipe_mark(joining);
		return -1;
	}
	if (joining->running)
		slot = attach_spare(joining, fault);
	if (slot < 0)
		wipe_mark(joining);
	else
		volume_note(joining->context->host, LOG_NOTICE, "spare added", joining->config.name,
			    joining->device.label, "%s was added as a spare",
			    joining->device.label);
	return slot;
}

/* As mark_and_list().  Nobody runs or starts meanwhile what did not run before: its file could not
 * be changed then.
 */
static int
join(struct joining *joining, struct fault *fault)
{
	int lock, slot;

	if (joining->running)
		return mark_and_list(joining, fault);
	lock = volume_lock(joining->config.uuid, joining->config.name,
			   volume_host_program(joining->context->host), fault);
	if (lock < 0) {
		members_unprobe(&joining->device, 1);
		rpc_fail_call(fault, lock, joining->config.name, joining->device.label,
			      "try again; if another program serves the volume, give its socket "
			      "with --socket");
		return -1;
	}
	slot = mark_and_list(joining, fault);
	close(lock);
	return slot;
}

static json_object *
joined_json(struct joining *joining)
{
	json_object *result = json_object_new_object();
	char why[256] = "";

	rpc_put_text(result, "name", joining->config.name);
	rpc_put_text(result, "device", joining->device.label);
	rpc_put_number(result, "size_bytes", joining->device.device.capacity_bytes);
	if (joining->running)
		rpc_put_state(result,
			      rpc_wait_recognised(joining->context, joining->config.name,
						  joining->device.label, why, sizeof(why)),
			      why);
	else
		rpc_put_state(result, MEMBER_SPARE, "");
	return result;
}

json_object *
rpc_spare_add(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct joining *joining = calloc(1, sizeof(*joining));
	char name[LAYOUT_NAME_MAX + 1];
	json_object *result = NULL;

	if (!joining || !rpc_take_name(params, name, fault) || !rpc_begin_change(context, fault)) {
		free(joining);
		return NULL;
	}
	if (begin_joining(joining, context, params, name, fault)) {
		bool striped =
			joining->view.status.size_bytes != 0 && joining->view.status.level == 0;

		if (striped)
			fault_set(fault, FAULT_INVALID, "copy its data to a volume of level 5",
				  "volume \"%s\" has level 0 and no redundancy, so a spare can't "
				  "be filled",
				  name);
		else if (look_at(joining, fault) && join(joining, fault) >= 0)
			result = joined_json(joining);
	}
	rpc_end_change(context);
	end_joining(joining);
	return result;
}

/* --- member.replace --- */

struct replacing {
	struct volume_host *host;
	const char *name;
	struct pick old, replacement;
};

/* Once the engine has it as a spare; it may have gone to work for that role by itself, if the place
 * was empty.
 */
static int
replace_member(struct engine *engine, void *argument, struct fault *fault)
{
	struct replacing *replacing = argument;
	const struct pick *old = &replacing->old, *replacement = &replacing->replacement;
	int code = pick_device(engine, &replacing->replacement, fault);

	if (code != 0)
		return code;
	if (replacement->state != MEMBER_REBUILDING)
		code = engine_replace(engine, old->role, replacement->slot, fault->message);
	else if (replacement->role != old->role)
		code = fault_errno(fault, -EBUSY, "it is already being filled as role %d",
				   replacement->role);
	/* Here, on the volume's thread, it comes before what follows from it. */
	if (code == 0)
		volume_note(replacing->host, LOG_NOTICE, "replace", replacing->name, old->label,
			    "%s is being replaced by %s", old->label, replacement->label);
	return code;
}

/* The replacement is being filled, or that is over already. */
static bool
has_begun(const struct engine_status *status, void *argument)
{
	const char *label = argument;

	for (int i = 0; i < status->slots; i++) {
		const struct member_status *member = &status->members[i];

		if (member->attached && strcmp(member->label, label) == 0)
			return member->state != MEMBER_SPARE;
	}
	return true;
}

/* A member that works is let go by the engine when the new one is in sync.  One that is out already
 * adds nothing.
 */
static void
drop_old(struct joining *joining, const struct pick *old)
{
	struct fault fault = FAULT_NONE;
	int code;

	if (old->slot < 0 || old->state == MEMBER_IN_SYNC)
		return;
	code = volume_detach(joining->context->host, joining->config.name, old->slot, old->label,
			     &fault);
	if (code != 0 && code != -ENOENT)
		volume_note(joining->context->host, LOG_WARNING, "replace", joining->config.name,
			    old->label, "%s is replaced, but could not be removed: %s", old->label,
			    fault.message);
}

static json_object *
replace_by(struct joining *joining, const struct pick *old, const char *label, struct fault *fault)
{
	const char *name = joining->config.name;
	struct replacing replacing = { .host = joining->context->host, .name = name, .old = *old };
	char why[256] = "";
	json_object *result;
	int code;

	if (rpc_wait_recognised(joining->context, name, label, why, sizeof(why)) == 0) {
		fault_set(fault, FAULT_UNREACHABLE,
			  "it is now a device of the volume: when it answers, run iraid replace "
			  "again, or remove it",
			  "volume \"%s\": %s was not recognised as a spare%s%s", name, label,
			  why[0] ? ": " : "", why);
		return NULL;
	}
	snprintf(replacing.replacement.wanted, sizeof(replacing.replacement.wanted), "%s", label);
	code = volume_call(joining->context->host, name, replace_member, &replacing, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, name, label,
			      "it stays a spare of the volume; iraid status shows what is in "
			      "progress; iraid remove removes it");
		return NULL;
	}
	drop_old(joining, old);
	/* Who waits for the rebuild's end next must not find that none is under way yet. */
	volume_wait_until(joining->context->host, name, has_begun, (void *)label, BEGIN_MS_MAX);
	result = json_object_new_object();
	rpc_put_text(result, "name", name);
	rpc_put_text(result, "member", old->label);
	rpc_put_number(result, "role", (uint64_t)old->role);
	rpc_put_text(result, "device", label);
	return result;
}

/* Its configuration entry is made under the pool's lock. */
static int
list_pooled(void *owner, struct fault *fault)
{
	struct joining *joining = owner;

	return volume_edit_add(joining->context->host, joining->config.name,
			       &joining->device.address, fault);
}

static void
unlist_pooled(void *owner)
{
	struct joining *joining = owner;
	struct fault ignored;

	volume_edit_drop(joining->context->host, joining->config.name, &joining->device.address,
			 &ignored);
}

/* 1: it was one of the gateway's spares and is attached now; 0: it is none; -1: failed. */
static int
join_from_pool(struct joining *joining, struct fault *fault)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	struct member_work *device = &joining->device;
	struct pool_spare spare;
	struct fault other;
	int code, found = -1;

	if (!pool || spare_pool_read(pool, fault) != 0) {
		fault_set(fault, FAULT_INTERNAL, "correct that file", "%s",
			  pool ? fault->message : "out of memory");
		free(pool);
		return -1;
	}
	for (int i = 0; i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, &device->address))
			found = i;
	}
	if (found >= 0)
		spare = pool->spares[found];
	free(pool);
	if (found < 0)
		return 0;
	device->address = spare.device;
	device->device.capacity_bytes = spare.size_bytes;
	device->device.block_bytes = spare.block_bytes;
	if (!large_enough(joining, fault))
		return -1;
	code = spare_pool_take(&spare.device, list_pooled, unlist_pooled, joining, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, joining->config.name, device->label, "try again");
		return -1;
	}
	if (attach_spare(joining, fault) >= 0)
		return 1;
	if (spare_pool_add(&spare, &other) != 0)
		log_line(LOG_ERR, "%s could not be returned to the gateway's spares: %s",
			 device->label, other.message);
	return -1;
}

/* NEW is an existing spare, one of the gateway's, or a device that becomes one. */
static json_object *
replace(struct joining *joining, const struct pick *old, struct fault *fault)
{
	int pooled;

	if (!rpc_device_parse(joining->text, &joining->device, fault))
		return NULL;
	for (int i = 0; i < joining->view.status.slots; i++) {
		const struct member_status *member = &joining->view.status.members[i];

		if (!member->attached || strncmp(member->label, joining->device.label, 255) != 0)
			continue;
		if (member->state != MEMBER_SPARE && member->state != MEMBER_REBUILDING) {
			fault_set(fault, FAULT_IN_USE,
				  "name a spare, or a device that the volume does not have",
				  "%s is already a member of volume \"%s\"", joining->device.label,
				  joining->config.name);
			return NULL;
		}
		return replace_by(joining, old, member->label, fault);
	}
	pooled = join_from_pool(joining, fault);
	if (pooled < 0 || (pooled == 0 && (!look_at(joining, fault) || join(joining, fault) < 0)))
		return NULL;
	return replace_by(joining, old, joining->device.label, fault);
}

/* A place that is empty is filled first, and a new spare would go there. */
static bool
may_replace(const struct joining *joining, const struct pick *old, struct fault *fault)
{
	const struct engine_status *status = &joining->view.status;

	if (status->size_bytes != 0 && status->level == 0)
		return fault_set(fault, FAULT_INVALID, "copy its data to a new volume",
				 "volume \"%s\" has level 0: its members can't be replaced",
				 joining->config.name);
	for (int role = 0; role < status->member_count; role++) {
		bool held = role == old->role;

		for (int i = 0; i < status->slots && !held; i++)
			held = status->members[i].attached && status->members[i].role == role &&
			       status->members[i].state == MEMBER_IN_SYNC;
		if (!held)
			return fault_set(fault, FAULT_BUSY, "first replace or rebuild that member",
					 "volume \"%s\", %s can't be replaced yet: role %d has no "
					 "member in sync",
					 joining->config.name, old->label, role);
	}
	return true;
}

json_object *
rpc_member_replace(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct joining *joining = calloc(1, sizeof(*joining));
	char name[LAYOUT_NAME_MAX + 1];
	json_object *result = NULL;
	struct pick old;
	bool picked;

	if (!joining || !rpc_take_name(params, name, fault) || !rpc_begin_change(context, fault)) {
		free(joining);
		return NULL;
	}
	/* Not before: while this waits for another command, the slot may be given to another
	 * device.
	 */
	picked = rpc_pick(context, params, name, "member", &old, fault);
	if (picked && old.role < 0)
		fault_set(fault, FAULT_INVALID,
			  "name a member; for a spare use iraid remove and iraid add-spare",
			  "volume \"%s\": %s has no role in the volume", name, old.label);
	else if (picked && begin_joining(joining, context, params, name, fault) &&
		 may_replace(joining, &old, fault))
		result = replace(joining, &old, fault);
	rpc_end_change(context);
	end_joining(joining);
	return result;
}
