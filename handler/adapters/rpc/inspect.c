/* rpc/inspect.c - discover and examine: what targets offer, and what is on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "adapters/base/reactor.h"
#include "device.h"
#include "inspect.h"

#define TIMEOUT_MS 10000
#define LUNS_MAX 256
#define DISCOVER_MS 60000

/* --- how a session was negotiated --- */

enum session_fault {
	SESSION_INITIAL_R2T,
	SESSION_NO_IMMEDIATE_DATA,
	SESSION_SHORT_FIRST_BURST,
	SESSION_SHORT_SEGMENT,
	SESSION_FAULTS,
};

static const char *const session_advice[SESSION_FAULTS] = {
	[SESSION_INITIAL_R2T] =
		"InitialR2T=Yes adds a round trip to every write: set InitialR2T=No on the target",
	[SESSION_NO_IMMEDIATE_DATA] =
		"ImmediateData=No adds a PDU to every write: set ImmediateData=Yes on the target",
	[SESSION_SHORT_FIRST_BURST] = "FirstBurstLength is below 262144, so larger writes are "
				      "split: set it to 262144 on the target",
	[SESSION_SHORT_SEGMENT] = "MaxRecvDataSegmentLength is below 65536, which reduces "
				  "throughput: set it to 262144 on the target",
};

static bool
session_has(const struct iscsi_negotiated *agreed, enum session_fault fault)
{
	switch (fault) {
	case SESSION_INITIAL_R2T:
		return agreed->initial_r2t;
	case SESSION_NO_IMMEDIATE_DATA:
		return !agreed->immediate_data;
	case SESSION_SHORT_FIRST_BURST:
		return agreed->first_burst_bytes != 0 && agreed->first_burst_bytes < 262144;
	case SESSION_SHORT_SEGMENT:
		return agreed->target_segment_bytes != 0 && agreed->target_segment_bytes < 65536;
	case SESSION_FAULTS:
		break;
	}
	return false;
}

void
rpc_warn_sessions(json_object *warnings, const struct member_work *members, int count)
{
	for (int fault = 0; fault < SESSION_FAULTS; fault++) {
		int first = -1, number = 0;

		for (int i = 0; i < count; i++) {
			if (!session_has(admin_negotiated(members[i].session),
					 (enum session_fault)fault))
				continue;
			first = first < 0 ? i : first;
			number++;
		}
		if (number == 0)
			continue;
		rpc_warn(warnings, "%d of %d targets, the first %s: %s", number, count,
			 members[first].label, session_advice[fault]);
	}
}

static json_object *
session_json(const struct iscsi_negotiated *agreed)
{
	json_object *object = json_object_new_object();
	json_object *advice = json_object_new_array();

	rpc_put_number(object, "first_burst_bytes", agreed->first_burst_bytes);
	rpc_put_number(object, "max_burst_bytes", agreed->max_burst_bytes);
	rpc_put_number(object, "target_segment_bytes", agreed->target_segment_bytes);
	rpc_put_bool(object, "initial_r2t", agreed->initial_r2t);
	rpc_put_bool(object, "immediate_data", agreed->immediate_data);
	for (int fault = 0; fault < SESSION_FAULTS; fault++) {
		if (session_has(agreed, (enum session_fault)fault))
			json_object_array_add(advice,
					      json_object_new_string(session_advice[fault]));
	}
	json_object_object_add(object, "advice", advice);
	return object;
}

static void
put_device(json_object *object, const struct scsi_device *device)
{
	rpc_put_text(object, "vendor", device->vendor);
	rpc_put_text(object, "product", device->product);
	rpc_put_text(object, "revision", device->revision);
	rpc_put_text(object, "serial", device->serial);
	rpc_put_text(object, "identity", device->identity);
	rpc_put_number(object, "device_type", device->device_type);
	rpc_put_number(object, "size_bytes", device->capacity_bytes);
	rpc_put_number(object, "block_bytes", device->block_bytes);
	rpc_put_bool(object, "writable", device->writable);
	rpc_put_bool(object, "write_cache", device->write_cache);
	rpc_put_bool(object, "fua", device->fua);
	rpc_put_bool(object, "reservations", device->reservations);
}

static void
describe_mark(const struct spare_mark *mark, char *out, size_t size)
{
	static const uint8_t shared[16];
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(mark->volume_uuid, uuid);
	if (memcmp(mark->volume_uuid, shared, sizeof(shared)) == 0)
		snprintf(out, size, "iraid spare of a gateway");
	else
		snprintf(out, size, "iraid spare of volume %s", uuid);
}

/* What somebody left on it: our own superblock first, then what libblkid knows; "" if nothing. */
static bool
find_signature(struct admin_session *session, const struct superblock_copies *copies, char *out,
	       size_t size, struct fault *fault)
{
	out[0] = '\0';
	if (copies->spare == SUPERBLOCK_OK)
		describe_mark(&copies->mark, out, size);
	else if (copies->chosen == SUPERBLOCK_ABSENT)
		return admin_signature(session, out, size, fault);
	else if (copies->chosen == SUPERBLOCK_OK)
		snprintf(out, size, "iraid volume %s, member %u", copies->superblock.name,
			 copies->superblock.role);
	else
		snprintf(out, size, "iraid superblock, %s",
			 superblock_verdict_name(copies->chosen));
	return true;
}

static void
put_signature(json_object *object, const char *signature)
{
	if (signature[0] != '\0')
		rpc_put_text(object, "signature", signature);
	else
		json_object_object_add(object, "signature", NULL);
}

/* --- discover --- */

static bool
holds_superblock_areas(const struct scsi_device *device)
{
	return device->device_type == 0 &&
	       (device->taken || device->capacity_bytes >= LAYOUT_ALIGN_BYTES);
}

/* A portal may name thousands of targets on as many hosts, and none of these may answer.  So a
 * discovery has an end, and nobody is asked who was not named by the administrator: no connection
 * to another host, no login there that tells a hash of the secret, no look at its name.
 */
struct looking {
	const char *asked;
	const struct iscsi_credentials *credentials;
	bool all_portals;
	uint64_t end_ms;
	struct volume_host *host;
};

static bool
time_left(const struct looking *looking)
{
	return monotonic_ms() < looking->end_ms;
}

static struct admin_bounds
bounds_of(const struct looking *looking)
{
	return (struct admin_bounds){
		.timeout_ms = TIMEOUT_MS,
		.end_ms = looking->end_ms,
		.one_host = !looking->all_portals,
	};
}

static json_object *
lun_json(const struct member_address *address, const struct looking *looking)
{
	const struct admin_bounds bounds = bounds_of(looking);
	const struct device_address whole = { .address = *address };
	json_object *object = json_object_new_object();
	struct superblock_copies *copies = malloc(sizeof(*copies));
	struct admin_session *session = NULL;
	struct scsi_device device;
	char signature[128] = "";
	struct fault fault;
	bool good = admin_open(address, looking->credentials, &bounds, &session, &device, &fault);

	rpc_put_number(object, "lun", address->lun);
	if (good) {
		if (copies && holds_superblock_areas(&device))
			good = rpc_device_superblock(looking->host, &whole, session, &device,
						     copies, &fault) &&
			       find_signature(session, copies, signature, sizeof(signature),
					      &fault);
		put_device(object, &device);
		put_signature(object, signature);
		admin_close(session);
	}
	if (!good)
		rpc_put_text(object, "error", fault.message);
	free(copies);
	return object;
}

/* NULL: none that is asked. */
static const char *
choose_portal(const struct admin_target *target, const struct looking *looking)
{
	if (target->portal_count == 0)
		return looking->asked;
	if (target->near >= 0)
		return target->portals[target->near];
	return looking->all_portals ? target->portals[0] : NULL;
}

/* *skipped becomes why not all was looked at, or stays. */
static json_object *
luns_json(const struct admin_target *target, const struct looking *looking, const char **skipped,
	  struct fault *fault)
{
	const struct admin_bounds bounds = bounds_of(looking);
	const char *portal = choose_portal(target, looking);
	json_object *list = json_object_new_array();
	struct member_address address = { 0 };
	unsigned int luns[LUNS_MAX];
	int count = 0;

	if (portal == NULL || !time_left(looking)) {
		*skipped = portal == NULL ? "other hosts" : "time";
		return list;
	}
	snprintf(address.portal, sizeof(address.portal), "%s", portal);
	snprintf(address.iqn, sizeof(address.iqn), "%s", target->iqn);
	admin_luns(&address, looking->credentials, &bounds, luns, LUNS_MAX, &count, fault);
	for (int i = 0; i < count && *skipped == NULL; i++) {
		address.lun = luns[i];
		if (time_left(looking))
			json_object_array_add(list, lun_json(&address, looking));
		else
			*skipped = "time";
	}
	return list;
}

static json_object *
target_json(const struct admin_target *target, const struct looking *looking)
{
	json_object *object = json_object_new_object(), *portals = json_object_new_array();
	json_object *luns = NULL;
	struct fault fault = FAULT_NONE;
	const char *skipped = NULL;

	rpc_put_text(object, "iqn", target->iqn);
	for (int i = 0; i < target->portal_count; i++)
		json_object_array_add(portals, rpc_text(target->portals[i]));
	json_object_object_add(object, "portals", portals);
	if (target->fault == NULL)
		luns = luns_json(target, looking, &skipped, &fault);
	else
		fault_set(&fault, FAULT_INVALID, "", "%s: it can't be a member", target->fault);
	json_object_object_add(object, "luns", luns ? luns : json_object_new_array());
	if (fault.code != 0)
		rpc_put_text(object, "error", fault.message);
	if (skipped != NULL)
		rpc_put_text(object, "skipped", skipped);
	return object;
}

static json_object *
targets_json(const struct looking *looking, struct fault *fault)
{
	const struct admin_bounds bounds = bounds_of(looking);
	json_object *object = json_object_new_object(), *list = json_object_new_array();
	struct admin_target *targets = NULL;
	int count = 0;

	json_object_object_add(object, "targets", list);
	if (!admin_discover(looking->asked, looking->credentials, &bounds, &targets, &count,
			    fault)) {
		json_object_put(object);
		return NULL;
	}
	for (int i = 0; i < count; i++)
		json_object_array_add(list, target_json(&targets[i], looking));
	free(targets);
	return object;
}

json_object *
rpc_discover(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct iscsi_credentials credentials;
	struct looking looking = { .credentials = &credentials, .host = context->host };
	struct member_address address;
	char portal[PORTAL_MAX], whole[320];
	json_object *object;

	if (!rpc_take_text(params, "portal", true, portal, sizeof(portal), fault) ||
	    !rpc_take_bool(params, "all_portals", &looking.all_portals, fault) ||
	    !rpc_take_credentials(params, &credentials, fault))
		return NULL;
	/* The member parser knows what a portal is; it wants a target behind it. */
	snprintf(whole, sizeof(whole), "%s/iqn.2026-01.org.iraid:any/0", portal);
	if (member_address_parse(whole, &address, fault) != 0) {
		fault_set(fault, FAULT_INVALID, "write HOST, HOST:PORT or [IPV6]:PORT",
			  "portal \"%s\": %s", portal, fault->message);
		explicit_bzero(&credentials, sizeof(credentials));
		return NULL;
	}
	looking.asked = address.portal;
	looking.end_ms = monotonic_ms() + DISCOVER_MS;
	object = targets_json(&looking, fault);
	explicit_bzero(&credentials, sizeof(credentials));
	return object;
}

/* --- examine --- */

static json_object *
areas_json(const struct superblock *superblock)
{
	static const char *const names[] = {
		[AREA_MAP] = "map",
		[AREA_LOG] = "log",
		[AREA_CHECKSUMS] = "checksums",
		[AREA_DATA] = "data",
		[AREA_MORE_CHECKSUMS] = "more checksums",
	};
	json_object *list = json_object_new_array();

	/* It was decoded, so types are known; the last may be absent. */
	for (int i = 0; i < LAYOUT_AREAS && superblock->areas[i].type != 0; i++) {
		const struct area *area = &superblock->areas[i];
		json_object *object = json_object_new_object();

		rpc_put_text(object, "type", names[area->type]);
		rpc_put_number(object, "offset_bytes", area->offset_bytes);
		rpc_put_number(object, "length_bytes", area->length_bytes);
		json_object_array_add(list, object);
	}
	return list;
}

/* Members that are not in sync, and of which it is known what they lack. */
static json_object *
tracked_json(const struct superblock *superblock)
{
	json_object *list = json_object_new_array();

	for (int i = 0; i < LAYOUT_STALE_SETS; i++) {
		const struct tracked_member *tracked = &superblock->tracked[i];
		json_object *object;

		if (tracked->state == 0)
			continue;
		object = json_object_new_object();
		rpc_put_number(object, "set", (uint64_t)i);
		rpc_put_uuid(object, "member_uuid", tracked->member_uuid);
		rpc_put_number(object, "role", tracked->role);
		rpc_put_text(object, "state", member_state_name((enum member_state)tracked->state));
		rpc_put_number(object, "epoch", tracked->epoch);
		rpc_put_number(object, "write_count", tracked->write_count);
		json_object_array_add(list, object);
	}
	return list;
}

static json_object *
superblock_json(const struct superblock *superblock)
{
	json_object *object = json_object_new_object();
	json_object *members = json_object_new_array();

	rpc_put_uuid(object, "volume_uuid", superblock->volume_uuid);
	rpc_put_uuid(object, "member_uuid", superblock->member_uuid);
	rpc_put_text(object, "name", superblock->name);
	rpc_put_number(object, "level", superblock->level);
	rpc_put_number(object, "member_count", superblock->member_count);
	rpc_put_number(object, "role", superblock->role);
	rpc_put_bool(object, "clean", superblock->clean);
	rpc_put_text(object, "owner", superblock->owner);
	rpc_put_number(object, "chunk_bytes", superblock->chunk_bytes);
	rpc_put_number(object, "block_bytes", superblock->block_bytes);
	rpc_put_number(object, "region_rows", superblock->region_rows);
	rpc_put_number(object, "member_bytes", superblock->member_bytes);
	rpc_put_number(object, "data_bytes", superblock->data_bytes);
	rpc_put_number(object, "write_count", superblock->write_count);
	rpc_put_number(object, "epoch", superblock->epoch);
	rpc_put_number(object, "event", superblock->event);
	rpc_put_number(object, "created_s", superblock->created_s);
	rpc_put_number(object, "updated_s", superblock->updated_s);
	rpc_put_number(object, "resync_row", superblock->resync_row);
	rpc_put_number(object, "rebuild_row", superblock->rebuild_row);
	rpc_put_number(object, "scrub_row", superblock->scrub_row);
	rpc_put_number(object, "scrub_mode", superblock->scrub_mode);
	rpc_put_number(object, "scrub_mismatches", superblock->scrub_mismatches);
	for (int i = 0; i < superblock->member_count && i < IRAID_MEMBERS_MAX; i++) {
		json_object *member = json_object_new_object();

		rpc_put_uuid(member, "member_uuid", superblock->member_uuids[i]);
		rpc_put_text(member, "state",
			     member_state_name((enum member_state)superblock->member_states[i]));
		rpc_put_number(member, "write_count", superblock->write_counts[i]);
		json_object_array_add(members, member);
	}
	json_object_object_add(object, "members", members);
	json_object_object_add(object, "tracked", tracked_json(superblock));
	json_object_object_add(object, "areas", areas_json(superblock));
	return object;
}

static void
put_copy(json_object *object, const char *key, const struct superblock_copies *copies, int index)
{
	char text[256];

	snprintf(text, sizeof(text), "%s%s%s", superblock_verdict_name(copies->verdict[index]),
		 copies->verdict[index] != SUPERBLOCK_OK && copies->reason[index] ? ": " : "",
		 copies->verdict[index] != SUPERBLOCK_OK && copies->reason[index]
			 ? copies->reason[index]
			 : "");
	rpc_put_text(object, key, text);
}

static json_object *
examine_session(struct volume_host *host, const struct device_address *address,
		struct admin_session *session, struct scsi_device *device, struct fault *fault)
{
	struct superblock_copies *copies = calloc(1, sizeof(*copies));
	json_object *object, *part;
	char signature[128] = "", label[MEMBER_ADDRESS_MAX];

	if (!copies) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	copies->verdict[0] = copies->verdict[1] = copies->chosen = copies->spare =
		SUPERBLOCK_ABSENT;
	if (holds_superblock_areas(device) &&
	    (!rpc_device_superblock(host, address, session, device, copies, fault) ||
	     !find_signature(session, copies, signature, sizeof(signature), fault))) {
		free(copies);
		return NULL;
	}
	object = json_object_new_object();
	member_address_format(&address->address, label);
	rpc_put_text(object, "member", label);
	part = json_object_new_object();
	put_device(part, device);
	json_object_object_add(object, "device", part);
	json_object_object_add(object, "session", session_json(admin_negotiated(session)));
	put_signature(object, signature);
	json_object_object_add(
		object, "superblock",
		copies->chosen == SUPERBLOCK_OK ? superblock_json(&copies->superblock) : NULL);
	part = json_object_new_object();
	put_copy(part, "a", copies, 0);
	put_copy(part, "b", copies, 1);
	json_object_object_add(object, "copies", part);
	free(copies);
	return object;
}

json_object *
rpc_examine(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char text[DEVICE_TEXT_MAX];
	struct iscsi_credentials credentials;
	struct admin_session *session = NULL;
	struct device_address address;
	struct scsi_device device;
	json_object *object = NULL;
	bool open;

	if (!rpc_take_text(params, "member", true, text, sizeof(text), fault))
		return NULL;
	if (device_address_parse(text, &address, fault) != 0) {
		fault_set(fault, FAULT_INVALID,
			  "write PORTAL/IQN/LUN, for example "
			  "10.0.0.1:3260/iqn.2026-01.org.example:t0/0",
			  "member \"%s\": %s", text, fault->message);
		return NULL;
	}
	if (!rpc_take_credentials(params, &credentials, fault))
		return NULL;
	open = device_open(&address, &credentials, TIMEOUT_MS, NULL, &session, &device, fault);
	explicit_bzero(&credentials, sizeof(credentials));
	if (!open)
		return NULL;
	object = examine_session(context->host, &address, session, &device, fault);
	admin_close(session);
	return object;
}
