/* rpc/device.c - see device.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "adapters/config/search.h"
#include "adapters/base/log.h"
#include "device.h"
#include "adapters/config/pool.h"
#include "adapters/volume/peek.h"

#define LOGIN_MS_MAX 10000

bool
rpc_device_parse(const char *text, struct member_work *device, struct fault *fault)
{
	if (device_address_parse(text, &device->address, fault) != 0)
		return fault_set(fault, FAULT_INVALID,
				 "write PORTAL/IQN/LUN, for example "
				 "10.0.0.1:3260/iqn.2026-01.org.example:t0/0",
				 "member \"%.300s\": %s", text, fault->message);
	member_address_format(&device->address.address, device->label);
	uuid_generate_random(device->member_uuid);
	return true;
}

/* As who follows the volume's session, for a target that knows initiators by their ISID. */
static bool
open_left(struct member_work *device, const uint8_t *left_by,
	  const struct iscsi_credentials *credentials, struct fault *fault)
{
	uint8_t isid[6];
	const bool follows = left_by && !uuid_is_null(left_by) &&
			     volume_isid(left_by, &device->address.address, isid) == 0;

	return device_open(&device->address, credentials, LOGIN_MS_MAX, follows ? isid : NULL,
			   &device->session, &device->device, fault);
}

/* Whoever has reserved it: what stands on it says whose it is. */
static bool
read_superblock(struct admin_session *session, struct scsi_device *found,
		struct superblock_copies *out, struct fault *fault)
{
	struct fault barred;
	uint64_t key;

	if (member_read_superblock(session, out, fault))
		return true;
	barred = *fault;
	if (fault->code == FAULT_IN_USE && gateway_reservation_key(&key) == 0 &&
	    member_read_reserved(session, key, found, out, fault))
		return true;
	*fault = barred; /* which names who is in the way */
	return false;
}

static bool
usable(const struct member_work *member, struct fault *fault)
{
	const struct scsi_device *device = &member->device;

	if (device->device_type != 0)
		return fault_set(fault, FAULT_UNFIT,
				 "choose a LUN that is a disk; 'iraid discover' lists them",
				 "%s is not a disk (SCSI device type %u)", member->label,
				 device->device_type);
	if (!device->writable)
		return fault_set(fault, FAULT_UNFIT, "allow this initiator to write on the target",
				 "%s is read-only", member->label);
	if (device->capacity_bytes < LAYOUT_MEMBER_BYTES_MIN)
		return fault_set(fault, FAULT_UNFIT, "choose a LUN of 16 MiB or more",
				 "%s has only %llu bytes", member->label,
				 (unsigned long long)device->capacity_bytes);
	return true;
}

static bool
is_a_members(const struct member_work *device, const char *holder, struct fault *fault)
{
	return fault_set(fault, FAULT_IN_USE,
			 "if its data is no longer needed, first delete that volume",
			 "%s is a member of volume \"%s\"", device->label, holder);
}

bool
rpc_device_open(struct member_work *member, const uint8_t *left_by,
		const struct iscsi_credentials *credentials, struct fault *fault)
{
	char holder[LAYOUT_NAME_MAX + 1];

	if (!open_left(member, left_by, credentials, fault) ||
	    (!member->device.taken && !usable(member, fault)))
		return false;
	if (read_superblock(member->session, &member->device, &member->copies, fault))
		return usable(member, fault);
	/* On LIO nobody but its session reads a member that a volume of this gateway uses. */
	if (fault->code == FAULT_IN_USE && config_holder(&member->address, NULL, holder))
		is_a_members(member, holder, fault);
	return false;
}

/* By the session of the volume that has it.  What the session knows of the device is not asked of it
 * again but for the size, which may have changed since.
 */
static bool
peek_device(struct volume_host *host, const struct device_address *address,
	    struct scsi_device *found, struct superblock_copies *out)
{
	static const uint64_t offsets[2] = { LAYOUT_SUPERBLOCK_A_OFFSET,
					     LAYOUT_SUPERBLOCK_B_OFFSET };
	char holder[LAYOUT_NAME_MAX + 1];
	struct fault ignored;

	memset(out, 0, sizeof(*out));
	if (!config_holder(address, NULL, holder))
		return false;
	for (int i = 0; i < 2; i++)
		if (volume_peek(host, holder, address, offsets[i], out->bytes[i],
				LAYOUT_SUPERBLOCK_BYTES, &ignored) != 0)
			return false;
	member_decode_superblock(out);
	if (found->taken && out->chosen == SUPERBLOCK_OK) {
		if (volume_measure(host, holder, address, &found->capacity_bytes, &ignored) != 0)
			found->capacity_bytes = out->superblock.member_bytes;
		found->block_bytes = out->superblock.block_bytes;
		found->writable = found->write_cache = true;
	}
	return true;
}

bool
rpc_device_superblock(struct volume_host *host, const struct device_address *address,
		      struct admin_session *session, struct scsi_device *found,
		      struct superblock_copies *out, struct fault *fault)
{
	if (member_read_superblock(session, out, fault))
		return true;
	if (fault->code != FAULT_IN_USE)
		return false;
	return peek_device(host, address, found, out) ||
	       read_superblock(session, found, out, fault);
}

void
rpc_device_close(struct member_work *device)
{
	if (device->session)
		admin_close(device->session);
	device->session = NULL;
}

static bool
pooled(const struct member_work *device, struct fault *fault)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	bool good = pool && spare_pool_read(pool, fault) == 0;

	if (!good)
		fault_set(fault, FAULT_INTERNAL, "correct that file", "%s",
			  pool ? fault->message : "out of memory");
	for (int i = 0; good && i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, &device->address))
			good = fault_set(fault, FAULT_IN_USE,
					 "first remove it: iraid remove --gateway DEVICE",
					 "%s is a spare of this gateway", device->label);
	}
	free(pool);
	return good;
}

bool
rpc_device_free(const struct member_work *device, const struct volume_config *own,
		struct fault *fault)
{
	const struct superblock_copies *copies = &device->copies;
	const uint8_t *uuid =
		copies->chosen == SUPERBLOCK_OK ? copies->superblock.volume_uuid : NULL;
	char holder[LAYOUT_NAME_MAX + 1];

	if (uuid && own && memcmp(uuid, own->uuid, sizeof(own->uuid)) == 0)
		uuid = NULL;
	/* The pool first: a spare that a volume takes is in its file before it leaves the pool. */
	if (!pooled(device, fault))
		return false;
	if (config_holder(&device->address, uuid, holder))
		return is_a_members(device, holder, fault);
	if (uuid && config_unread(holder))
		return fault_set(
			fault, FAULT_IN_USE,
			"correct the file (iraid config check), or remove it if that volume has "
			"gone for good",
			"%s holds member %u of volume \"%s\", and of volume \"%s\" the file can't "
			"be read: it may be its own",
			device->label, copies->superblock.role, copies->superblock.name, holder);
	return true;
}

bool
rpc_device_unused(const struct member_work *member, struct fault *fault)
{
	static const char remedy[] = "if the data on it is no longer needed, give --force";
	const struct superblock_copies *copies = &member->copies;
	char signature[128] = "", uuid[UUID_STR_LEN];

	if (copies->chosen == SUPERBLOCK_OK) {
		uuid_unparse_lower(copies->superblock.volume_uuid, uuid);
		return fault_set(fault, FAULT_IN_USE, remedy,
				 "%s holds member %u of the iraid volume \"%s\" (%s)",
				 member->label, copies->superblock.role, copies->superblock.name,
				 uuid);
	}
	if (copies->spare != SUPERBLOCK_ABSENT)
		return fault_set(fault, FAULT_IN_USE, remedy, "%s holds the mark of an iraid spare",
				 member->label);
	if (copies->chosen != SUPERBLOCK_ABSENT)
		return fault_set(fault, FAULT_IN_USE, remedy,
				 "%s holds an iraid superblock that is %s", member->label,
				 superblock_verdict_name(copies->chosen));
	if (!admin_signature(member->session, signature, sizeof(signature), fault))
		return false;
	if (signature[0] != '\0')
		return fault_set(fault, FAULT_IN_USE, remedy, "%s holds a signature: %s",
				 member->label, signature);
	return true;
}

const uint8_t *
rpc_device_uuid(const struct member_work *device)
{
	const struct superblock_copies *copies = &device->copies;

	if (copies->chosen == SUPERBLOCK_OK)
		return copies->superblock.member_uuid;
	return copies->spare == SUPERBLOCK_OK ? copies->mark.member_uuid : NULL;
}

static bool
belongs_to(const struct superblock_copies *copies, const uint8_t volume_uuid[16])
{
	static const uint8_t shared[16];

	if (copies->chosen == SUPERBLOCK_OK)
		return memcmp(copies->superblock.volume_uuid, volume_uuid, 16) == 0;
	/* A spare that came from the gateway's pool still has the mark of that. */
	return copies->spare == SUPERBLOCK_OK &&
	       (memcmp(copies->mark.volume_uuid, volume_uuid, 16) == 0 ||
		memcmp(copies->mark.volume_uuid, shared, 16) == 0);
}

void
rpc_device_reclaim(struct member_work *device, const uint8_t volume_uuid[16])
{
	static const uint8_t shared[16];
	struct fault fault;
	uint64_t key;

	/* Spares of the pool could be in use by another name still. */
	if (!belongs_to(&device->copies, volume_uuid) ||
	    memcmp(volume_uuid, shared, sizeof(shared)) == 0)
		return;
	if (gateway_reservation_key(&key) == 0 && !admin_clear_own(device->session, key, &fault))
		log_line(LOG_WARNING, "%s: an old reservation on it could not be removed: %s",
			 device->label, fault.message);
}

static bool
another_device(const struct member_work *device, const uint8_t expected[16], struct fault *fault)
{
	char found[UUID_STR_LEN], wanted[UUID_STR_LEN];

	uuid_unparse_lower(rpc_device_uuid(device), found);
	if (uuid_is_null(expected))
		return fault_set(fault, FAULT_IN_USE, "",
				 "it holds device %s of the volume, which the volume had not "
				 "examined yet: see iraid examine",
				 found);
	uuid_unparse_lower(expected, wanted);
	return fault_set(fault, FAULT_IN_USE, "",
			 "device %s of the volume now answers at this address instead of %s: see "
			 "iraid examine",
			 found, wanted);
}

bool
rpc_device_reach(struct member_work *device, const uint8_t *left_by,
		 const struct iscsi_credentials *credentials, struct fault *fault)
{
	return open_left(device, left_by, credentials, fault) &&
	       read_superblock(device->session, &device->device, &device->copies, fault);
}

bool
rpc_device_wipe_reached(struct member_work *device, const uint8_t volume_uuid[16],
			const uint8_t *member_uuid, struct fault *fault)
{
	/* The LUN may have been given to another since, and another of the volume's may have come
	 * to its address.
	 */
	if (!belongs_to(&device->copies, volume_uuid))
		return true;
	if (member_uuid && memcmp(rpc_device_uuid(device), member_uuid, 16) != 0)
		return another_device(device, member_uuid, fault);
	rpc_device_reclaim(device, volume_uuid);
	return member_wipe(device->session, fault);
}

bool
rpc_device_wipe(struct member_work *device, const uint8_t volume_uuid[16],
		const uint8_t *member_uuid, const struct iscsi_credentials *credentials,
		struct fault *fault)
{
	bool good = rpc_device_reach(device, volume_uuid, credentials, fault) &&
		    rpc_device_wipe_reached(device, volume_uuid, member_uuid, fault);

	rpc_device_close(device);
	return good;
}

bool
rpc_volume_credentials(const struct volume_config *config, struct iscsi_credentials *out,
		       struct fault *fault)
{
	memset(out, 0, sizeof(*out));
	if (config->chap_file[0] != '\0' &&
	    iscsi_credentials_read(config->chap_file, out, fault) != 0)
		return fault_set(fault, FAULT_INVALID, "correct it", "chap_file \"%s\": %s",
				 config->chap_file, fault->message);
	memcpy(out->initiator, config->initiator, sizeof(out->initiator));
	out->redirects = config->redirects;
	return true;
}
