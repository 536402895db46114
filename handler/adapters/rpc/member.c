/* rpc/member.c - member.fail, remove, rebuild: what is done to a device that the volume has
 * already.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "adapters/base/log.h"
#include "device.h"
#include "member.h"

#define RECOGNISE_MS_MAX 15000
#define BEGIN_MS_MAX 5000

/* --- which one is meant --- */

static bool
is_number(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= 3 && strspn(text, "0123456789") == length;
}

/* As a whole: 10.0.0.1 is no part of 10.0.0.10, nor disk1 of disk10. */
static bool
is_part(const char *label, const char *wanted)
{
	const size_t length = strlen(wanted);

	for (const char *at = strstr(label, wanted); at != NULL && length > 0;
	     at = strstr(at + 1, wanted))
		if ((at == label || !isalnum((unsigned char)at[-1]) ||
		     !isalnum((unsigned char)at[0])) &&
		    (!isalnum((unsigned char)at[length]) ||
		     !isalnum((unsigned char)at[length - 1])))
			return true;
	return false;
}

static bool
fits(const struct member_status *member, const char *wanted, int role, const char *address)
{
	if (!member->attached)
		return false;
	if (role >= 0)
		return member->role == role;
	return address[0] != '\0' ? strcmp(member->label, address) == 0
				  : is_part(member->label, wanted);
}

/* Says which ones, as many as fit. */
static int
ambiguous(const struct engine_status *status, const struct pick *pick, int role,
	  const char *address, struct fault *fault)
{
	fault_errno(fault, -EINVAL, "\"%.300s\" is ambiguous:", pick->wanted);
	for (int i = 0; i < status->slots && strlen(fault->message) < sizeof(fault->message) - 320;
	     i++) {
		const struct member_status *member = &status->members[i];

		if (fits(member, pick->wanted, role, address))
			fault_errno(fault, -EINVAL, "%s %.255s (%s)", fault->message, member->label,
				    member->state ? member_state_name(member->state) : "unknown");
	}
	return -EINVAL;
}

static void
find_twin(const struct engine_status *status, struct pick *pick)
{
	for (int i = 0; i < status->slots; i++) {
		const struct member_status *member = &status->members[i];

		if (i != pick->slot && member->attached && !uuid_is_null(member->uuid) &&
		    memcmp(member->uuid, pick->uuid, sizeof(pick->uuid)) == 0)
			memcpy(pick->twin, member->label, sizeof(pick->twin));
	}
}

static int
pick_from(const struct engine_status *status, struct pick *pick, struct fault *fault)
{
	int role = is_number(pick->wanted) ? atoi(pick->wanted) : -1, count = 0;
	char address[MEMBER_ADDRESS_MAX] = "";
	struct device_address device;

	if (role < 0 && device_address_parse(pick->wanted, &device, fault) == 0)
		member_address_format(&device.address, address);
	address[sizeof(status->members[0].label) - 1] = '\0';
	pick->slot = pick->role = -1;
	for (int i = 0; i < status->slots; i++) {
		const struct member_status *member = &status->members[i];

		if (!fits(member, pick->wanted, role, address))
			continue;
		count++;
		pick->slot = i;
		pick->role = member->role;
		pick->state = member->state;
		memcpy(pick->uuid, member->uuid, sizeof(pick->uuid));
		memcpy(pick->label, member->label, sizeof(pick->label));
	}
	if (count == 1) {
		find_twin(status, pick);
		return 0;
	}
	if (count > 1)
		return ambiguous(status, pick, role, address, fault);
	if (role >= 0 && role < status->member_count) {
		pick->role = role;
		snprintf(pick->label, sizeof(pick->label), "role %d", role);
		return 0;
	}
	return fault_errno(fault, -ENOENT,
			   "the volume has no member \"%.300s\"; iraid status lists them",
			   pick->wanted);
}

int
pick_device(struct engine *engine, struct pick *pick, struct fault *fault)
{
	struct engine_status *status = malloc(sizeof(*status));
	int error = -ENOMEM;

	if (status) {
		engine_status(engine, status);
		error = pick_from(status, pick, fault);
	}
	free(status);
	return error;
}

static int
pick_call(struct engine *engine, void *argument, struct fault *fault)
{
	return pick_device(engine, argument, fault);
}

bool
rpc_pick(struct rpc_context *context, json_object *params, const char *name, const char *key,
	 struct pick *out, struct fault *fault)
{
	struct volume_config *config;
	int code;

	memset(out, 0, sizeof(*out));
	if (!rpc_take_text(params, key, true, out->wanted, sizeof(out->wanted), fault))
		return false;
	if (out->wanted[0] == '\0')
		return fault_set(fault, FAULT_INVALID,
				 "give a role number, or an address as in iraid status",
				 "parameter \"%s\" is empty", key);
	code = volume_call(context->host, name, pick_call, out, fault);
	if (code == 0)
		return true;
	if (code == -ENOENT || code == -EINVAL)
		return fault_set(fault, FAULT_NOT_FOUND,
				 "give a role number, or an address as in iraid status",
				 "volume \"%s\": %s", name, fault->message);
	/* Not running, or not even there? */
	config = malloc(sizeof(*config));
	if (code == -ENOTCONN && config) {
		int known = volume_config_read(name, config, fault);

		code = known != 0 ? known : code;
	}
	free(config);
	return rpc_fail_volume(fault, code, name);
}

bool
rpc_is_configured(const char *name, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	int code = config ? volume_config_read(name, config, fault) : -ENOMEM;

	free(config);
	return code == 0 || rpc_fail_volume(fault, code, name);
}

bool
rpc_fail_call(struct fault *fault, int error, const char *name, const char *thing,
	      const char *remedy)
{
	const char *reason = fault->message[0] ? fault->message : strerror(-error);
	enum fault_code code = FAULT_IO;

	/* The engine's reasons name the device as a rule. */
	if (strstr(reason, thing))
		thing = "";
	switch (error) {
	case -ENOTCONN:
	case -ENOMEDIUM:
		return rpc_fail_volume(fault, error, name);
	case -EAGAIN:
	case -ESHUTDOWN:
		remedy = "iraid status shows what the volume waits for; try again when it runs";
		code = FAULT_BUSY;
		break;
	case -EBUSY:
		code = FAULT_BUSY;
		break;
	case -EDQUOT:
		remedy = fault->remedy;
		code = FAULT_INTERNAL;
		break;
	case -EALREADY:
	case -EOPNOTSUPP:
		code = FAULT_INVALID;
		break;
	case -EINVAL:
	case -ENOSPC:
		code = FAULT_UNFIT;
		break;
	case -ENOENT:
	case -ENODEV:
		code = FAULT_NOT_FOUND;
		break;
	case -EEXIST:
		code = FAULT_EXISTS;
		break;
	default:
		break;
	}
	return fault_set(fault, code, remedy, "volume \"%s\"%s%s: %s", name, thing[0] ? ", " : "",
			 thing, reason);
}

/* --- what it is --- */

struct recognising {
	const char *label;
	enum member_state state;
	char why[256];
};

static bool
recognised(const struct engine_status *status, void *argument)
{
	struct recognising *recognising = argument;

	for (int i = 0; i < status->slots; i++) {
		const struct member_status *member = &status->members[i];

		if (!member->attached || strcmp(member->label, recognising->label) != 0)
			continue;
		recognising->state = member->state;
		memcpy(recognising->why, member->reason, sizeof(recognising->why));
		return member->state != 0;
	}
	return false;
}

enum member_state
rpc_wait_recognised(struct rpc_context *context, const char *name, const char *label, char *why,
		    size_t why_size)
{
	struct recognising recognising = { .label = label };

	if (volume_wait_until(context->host, name, recognised, &recognising, RECOGNISE_MS_MAX) != 0)
		recognising.state = 0;
	snprintf(why, why_size, "%s", recognising.why);
	return recognising.state;
}

void
rpc_put_state(json_object *result, enum member_state state, const char *why)
{
	rpc_put_text(result, "state", state ? member_state_name(state) : "unknown");
	rpc_put_text(result, "reason", why);
}

/* --- member.fail --- */

static json_object *
about(const char *name, const char *label)
{
	json_object *result = json_object_new_object();

	rpc_put_text(result, "name", name);
	rpc_put_text(result, "member", label);
	return result;
}

static bool
holds_a_device(struct fault *fault, const char *name, const struct pick *pick)
{
	return pick->slot >= 0 ||
	       fault_set(fault, FAULT_NOT_FOUND, "iraid status lists the devices",
			 "volume \"%s\": %s has no device", name, pick->label);
}

static bool
is_out(const struct engine_status *status, void *argument)
{
	const struct pick *pick = argument;
	const struct member_status *member = &status->members[pick->slot];

	return pick->slot >= status->slots || !member->attached ||
	       member->state != MEMBER_IN_SYNC || strcmp(member->label, pick->label) != 0;
}

/* What is done to a member.  It is noted on the volume's thread, where it comes before what follows
 * from it.
 */
struct act {
	struct volume_host *host;
	const char *name;
	const struct pick *pick;
};

/* The slot may have been given to another device since it was picked. */
static int
has_its_slot(struct engine *engine, const struct pick *pick, struct fault *fault)
{
	struct pick now = *pick;
	int code = pick_device(engine, &now, fault);

	if (code == 0 && (now.slot != pick->slot || strcmp(now.label, pick->label) != 0))
		code = fault_errno(fault, -ENOENT, "%s has just left the volume", pick->label);
	return code;
}

static int
fail_member(struct engine *engine, void *argument, struct fault *fault)
{
	const struct act *act = argument;
	const char *label = act->pick->label;
	int code = has_its_slot(engine, act->pick, fault);

	if (code == 0)
		code = engine_fail(engine, act->pick->slot, fault->message);
	if (code == 0)
		volume_note(act->host, LOG_WARNING, "failed by hand", act->name, label,
			    "%s was failed by command", label);
	return code;
}

json_object *
rpc_member_fail(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct pick pick;
	struct act act = { context->host, name, &pick };
	int code;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_pick(context, params, name, "member", &pick, fault) ||
	    !holds_a_device(fault, name, &pick))
		return NULL;
	code = volume_call(context->host, name, fail_member, &act, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, name, pick.label,
			      "the volume must work without it, see iraid status; a spare is "
			      "removed with iraid remove");
		return NULL;
	}
	/* Who asks next sees it out, and what takes its place. */
	volume_wait_until(context->host, name, is_out, &pick, BEGIN_MS_MAX);
	return about(name, pick.label);
}

/* --- member.remove --- */

static bool
can_leave(struct fault *fault, const char *name, const struct pick *pick,
	  const struct volume_config *config)
{
	if (config->device_count > 2)
		return true;
	return fault_set(fault, FAULT_INVALID, "add its replacement first: iraid add-spare",
			 "volume \"%s\", %s: the volume would be left with one device", name,
			 pick->label);
}

/* Its superblock says that it belongs to the volume; nobody is to believe that later.  It and no
 * other: the address may lead to a member by now, or be a second name of one.
 */
static bool
wipe_removed(const struct volume_config *config, const struct pick *pick, struct fault *fault)
{
	struct iscsi_credentials credentials;
	struct member_work *device;
	bool wiped;

	if (pick->twin[0] != '\0')
		return fault_set(fault, FAULT_IN_USE, "",
				 "%s, also a device of the volume, is the same LUN or a copy of "
				 "it: see iraid examine",
				 pick->twin);
	device = calloc(1, sizeof(*device));
	if (!device)
		return fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	wiped = rpc_device_parse(pick->label, device, fault) &&
		rpc_volume_credentials(config, &credentials, fault);
	if (wiped) {
		int index = volume_config_find(config, &device->address);

		if (index >= 0)
			/* with all of its portals */
			device->address = config->devices[index];
		wiped = rpc_device_wipe(device, config->uuid, pick->uuid, &credentials, fault);
		explicit_bzero(&credentials, sizeof(credentials));
	}
	free(device);
	return wiped;
}

json_object *
rpc_member_remove(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	char name[LAYOUT_NAME_MAX + 1];
	json_object *result = NULL, *warnings;
	bool wipe = false, picked;
	struct pick pick;
	int code;

	if (!config || !rpc_take_name(params, name, fault) ||
	    !rpc_take_bool(params, "wipe", &wipe, fault) || !rpc_begin_change(context, fault)) {
		free(config);
		return NULL;
	}
	/* Not before: while this waits for another command, the slot may be given to another
	 * device.
	 */
	picked = rpc_pick(context, params, name, "member", &pick, fault) &&
		 holds_a_device(fault, name, &pick);
	code = picked ? volume_config_read(name, config, fault) : 0;
	if (code != 0) {
		rpc_fail_volume(fault, code, name);
	} else if (picked && can_leave(fault, name, &pick, config)) {
		code = volume_detach(context->host, name, pick.slot, pick.label, fault);
		if (code != 0) {
			rpc_fail_call(fault, code, name, pick.label,
				      "only a spare, a faulty or an out-of-date member can be "
				      "removed: first run iraid fail, or use iraid replace");
		} else {
			warnings = json_object_new_array();
			if ((wipe || pick.state == MEMBER_SPARE) &&
			    !wipe_removed(config, &pick, fault))
				rpc_warn(warnings, "the superblock of %s was not wiped: %s",
					 pick.label, fault->message);
			volume_note(context->host, LOG_NOTICE, "removed", name, pick.label,
				    "%s was removed from the volume", pick.label);
			result = about(name, pick.label);
			json_object_object_add(result, "warnings", warnings);
		}
	}
	rpc_end_change(context);
	free(config);
	return result;
}

/* --- member.rebuild --- */

static bool
may_be_rebuilt(struct fault *fault, const char *name, const struct pick *pick)
{
	switch (pick->state) {
	case MEMBER_IN_SYNC:
		return fault_set(fault, FAULT_BUSY, "nothing has to be done",
				 "volume \"%s\", %s is in sync", name, pick->label);
	case MEMBER_REBUILDING:
		return fault_set(fault, FAULT_BUSY, "iraid wait --for rebuild",
				 "volume \"%s\", %s is being rebuilt", name, pick->label);
	case MEMBER_SPARE:
		return fault_set(
			fault, FAULT_BUSY,
			"it takes the place of a member that fails; to use it now: iraid replace",
			"volume \"%s\", %s is a spare", name, pick->label);
	case MEMBER_FAULTY:
	case MEMBER_MISSING:
	case MEMBER_OUT_OF_DATE:
		break;
	}
	return true;
}

static int
readmit(struct engine *engine, void *argument, struct fault *fault)
{
	const struct act *act = argument;
	const char *label = act->pick->label;
	int code = has_its_slot(engine, act->pick, fault);

	if (code == 0)
		code = engine_readmit(engine, act->pick->slot, fault->message);
	if (code == 0)
		volume_note(act->host, LOG_NOTICE, "readmitted", act->name, label,
			    "%s may return, by command", label);
	return code;
}

json_object *
rpc_member_rebuild(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct pick pick;
	struct act act = { context->host, name, &pick };
	int code;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_pick(context, params, name, "member", &pick, fault) ||
	    !holds_a_device(fault, name, &pick) || !may_be_rebuilt(fault, name, &pick))
		return NULL;
	code = volume_call(context->host, name, readmit, &act, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, name, pick.label,
			      "put a new device in its place: iraid replace");
		return NULL;
	}
	return about(name, pick.label);
}
