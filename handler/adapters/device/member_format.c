/* device/member_format.c - see member_format.h; the layout is pure/layout.h's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters/base/log.h"
#include "internal.h"
#include "member_format.h"

/* Old signatures stand in the first MiB (file systems up to btrfs's at 64 KiB, LVM, GPT) and at
 * the very end (backup GPT, md 0.9 and 1.0).  What stays would be found again by examine.
 */
#define HEAD_BYTES LAYOUT_ALIGN_BYTES
#define TAIL_BYTES (128u * 1024u)

static const char probe_mark[16] = "iraid probe mark";

const char *
superblock_verdict_name(enum superblock_verdict verdict)
{
	switch (verdict) {
	case SUPERBLOCK_OK:
		return "ok";
	case SUPERBLOCK_ABSENT:
		return "absent";
	case SUPERBLOCK_CORRUPT:
		return "corrupt";
	case SUPERBLOCK_UNSUPPORTED:
		return "unsupported";
	}
	return "corrupt";
}

void
member_decode_superblock(struct superblock_copies *copies)
{
	struct superblock ignored;
	const char *reason = NULL;

	for (int i = 0; i < 2; i++)
		copies->verdict[i] =
			superblock_decode(copies->bytes[i], &ignored, &copies->reason[i]);
	copies->chosen =
		superblock_choose(copies->bytes[0], copies->bytes[1], &copies->superblock, &reason);
	copies->spare = spare_decode(copies->bytes[0], &copies->mark);
	if (copies->spare != SUPERBLOCK_OK) {
		enum superblock_verdict other = spare_decode(copies->bytes[1], &copies->mark);

		if (other == SUPERBLOCK_OK || copies->spare == SUPERBLOCK_ABSENT)
			copies->spare = other;
	}
}

bool
member_read_superblock(struct admin_session *session, struct superblock_copies *out,
		       struct fault *fault)
{
	static const uint64_t offsets[2] = { LAYOUT_SUPERBLOCK_A_OFFSET,
					     LAYOUT_SUPERBLOCK_B_OFFSET };

	memset(out, 0, sizeof(*out));
	for (int i = 0; i < 2; i++)
		if (!admin_read(session, offsets[i], out->bytes[i], LAYOUT_SUPERBLOCK_BYTES, fault))
			return false;
	member_decode_superblock(out);
	return true;
}

bool
member_read_reserved(struct admin_session *session, uint64_t key, struct scsi_device *device,
		     struct superblock_copies *out, struct fault *fault)
{
	bool good = admin_join(session, key, fault);

	if (!good)
		return false;
	good = (!device->taken || admin_inspect(session, device, fault)) &&
	       member_read_superblock(session, out, fault);
	/* At once: who is registered could write to what another one uses. */
	admin_part(session, key);
	return good;
}

bool
device_open(const struct device_address *device, const struct iscsi_credentials *credentials,
	    uint32_t timeout_ms, const uint8_t *isid, struct admin_session **out,
	    struct scsi_device *found, struct fault *fault)
{
	const struct admin_bounds bounds = {
		.timeout_ms = timeout_ms,
		.named = device,
		.isid = isid,
	};
	struct member_address address = device->address;
	bool good = admin_open(&address, credentials, &bounds, out, found, fault);

	for (int i = 0; i < device->more && !good && fault->code == FAULT_UNREACHABLE; i++) {
		memcpy(address.portal, device->more_portals[i], sizeof(address.portal));
		good = admin_open(&address, credentials, &bounds, out, found, fault);
	}
	return good;
}

/* --- proving the members apart --- */

void
members_unprobe(struct member_work *members, int count)
{
	/* Backwards: should two be one LUN after all, what stood there first comes back last. */
	for (int i = count - 1; i >= 0; i--) {
		struct fault fault;

		if (!members[i].probed)
			continue;
		members[i].probed = false;
		if (!admin_write(members[i].session, LAYOUT_SUPERBLOCK_B_OFFSET,
				 members[i].copies.bytes[1], LAYOUT_SUPERBLOCK_BYTES, &fault))
			log_line(LOG_ERR,
				 "%s: the old 4096 bytes at offset %u could not be restored: %s",
				 members[i].label, LAYOUT_SUPERBLOCK_B_OFFSET, fault.message);
	}
}

static void
make_mark(const struct member_work *member, uint8_t out[LAYOUT_SUPERBLOCK_BYTES])
{
	memset(out, 0, LAYOUT_SUPERBLOCK_BYTES);
	memcpy(out, probe_mark, sizeof(probe_mark));
	memcpy(out + sizeof(probe_mark), member->member_uuid, sizeof(member->member_uuid));
}

static bool
check_mark(struct member_work *members, int count, int index, struct fault *fault)
{
	uint8_t found[LAYOUT_SUPERBLOCK_BYTES], mark[LAYOUT_SUPERBLOCK_BYTES];

	if (!admin_read(members[index].session, LAYOUT_SUPERBLOCK_B_OFFSET, found, sizeof(found),
			fault))
		return false;
	for (int i = 0; i < count; i++) {
		make_mark(&members[i], mark);
		if (memcmp(found, mark, sizeof(mark)) != 0)
			continue;
		if (i == index)
			return true;
		return fault_set(fault, FAULT_IN_USE,
				 "name each LUN once; a second portal to it adds no redundancy",
				 "%s and %s are the same LUN", members[index].label,
				 members[i].label);
	}
	return fault_set(fault, FAULT_IO,
			 "check the target's storage, and that no other initiator writes to it",
			 "%s returns other data than was just written", members[index].label);
}

bool
members_probe(struct member_work *members, int count, struct fault *fault)
{
	uint8_t mark[LAYOUT_SUPERBLOCK_BYTES];
	bool good = true;

	for (int i = 0; i < count && good; i++) {
		make_mark(&members[i], mark);
		/* Set before: a write whose answer is lost may have happened. */
		members[i].probed = true;
		good = admin_write(members[i].session, LAYOUT_SUPERBLOCK_B_OFFSET, mark,
				   sizeof(mark), fault);
		if (!good && (fault->code == FAULT_UNFIT || fault->code == FAULT_IN_USE))
			members[i].probed = false; /* refused, so nothing was written */
	}
	for (int i = 0; i < count && good; i++)
		good = check_mark(members, count, i, fault);
	if (!good)
		members_unprobe(members, count);
	return good;
}

/* --- formatting --- */

#define MAP_BLOCKS ((LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET) / LAYOUT_MAP_BLOCK_BYTES)

/* The map's whole area as it stands on the member, the empty table of lost extents (zeros)
 * included; malloc'ed.
 */
static uint8_t *
make_map(const struct superblock *common)
{
	struct geometry geometry;
	bool known =
		geometry_init(&geometry, common->level, common->member_count, common->chunk_bytes,
			      common->block_bytes, common->data_bytes) == 0;
	uint64_t rows = known ? geometry.rows : 0;
	uint32_t regions = (uint32_t)((rows + common->region_rows - 1) / common->region_rows);
	/* Parity and copies are not made yet, so they are suspect; without them there is nothing to
	 * suspect.
	 */
	uint8_t flag = known && geometry.redundancy > 0 ? REGION_DIRTY | REGION_UNWRITTEN : 0;
	uint8_t *flags = calloc(regions ? regions : 1, 1);
	uint8_t *map = calloc(1, LAYOUT_MAP_BYTES);

	if (flags && map) {
		memset(flags, flag, regions);
		for (uint32_t block = 0; block < MAP_BLOCKS; block++)
			map_block_encode(flags, regions, block, common->epoch, common->volume_uuid,
					 map + (size_t)block * LAYOUT_MAP_BLOCK_BYTES);
		free(flags);
		return map;
	}
	free(flags);
	free(map);
	return NULL;
}

static bool
wipe_ends(struct member_work *member, const uint8_t *zeros, struct fault *fault)
{
	uint64_t tail = (member->device.capacity_bytes - TAIL_BYTES) / TAIL_BYTES * TAIL_BYTES;
	size_t tail_length = (size_t)(member->device.capacity_bytes - tail);

	if (!admin_write(member->session, 0, zeros, HEAD_BYTES, fault))
		return false;
	member->probed = false; /* what stood there goes with the rest */
	return admin_write(member->session, tail, zeros, tail_length, fault);
}

static bool
format_areas(struct member_work *member, const uint8_t *map, const uint8_t *zeros,
	     struct fault *fault)
{
	return wipe_ends(member, zeros, fault) &&
	       admin_write(member->session, LAYOUT_MAP_OFFSET, map, LAYOUT_MAP_BYTES, fault);
}

/* Both copies, so that a later torn write has an older one beside it from the start. */
static bool
write_superblocks(struct member_work *member, int role, const struct superblock *common,
		  struct fault *fault)
{
	struct superblock superblock = *common;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];
	bool good = true;

	superblock.role = (uint8_t)role;
	superblock.member_bytes = member->device.capacity_bytes;
	memcpy(superblock.member_uuid, member->member_uuid, sizeof(superblock.member_uuid));
	member->formatted = true;
	for (superblock.write_count = 1; superblock.write_count <= 2 && good;
	     superblock.write_count++) {
		superblock_encode(&superblock, bytes);
		good = admin_write(member->session, superblock_offset(superblock.write_count),
				   bytes, sizeof(bytes), fault);
	}
	return good;
}

bool
member_wipe(struct admin_session *session, struct fault *fault)
{
	static const uint8_t zeros[LAYOUT_SUPERBLOCK_BYTES];
	struct fault second;
	bool a = admin_write(session, LAYOUT_SUPERBLOCK_A_OFFSET, zeros, sizeof(zeros), fault);
	bool b = admin_write(session, LAYOUT_SUPERBLOCK_B_OFFSET, zeros, sizeof(zeros),
			     a ? fault : &second);

	return a && b;
}

void
members_wipe(struct member_work *members, int count)
{
	for (int i = 0; i < count; i++) {
		struct fault fault;

		if (!members[i].formatted)
			continue;
		if (!member_wipe(members[i].session, &fault))
			log_line(LOG_ERR, "%s: its new superblock could not be wiped: %s",
				 members[i].label, fault.message);
		members[i].formatted = false;
	}
}

bool
members_format(struct member_work *members, int count, const struct superblock *common,
	       struct fault *fault)
{
	uint8_t *map = make_map(common);
	uint8_t *zeros = calloc(1, HEAD_BYTES);
	bool good = true;

	if (!map || !zeros)
		good = fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	for (int i = 0; i < count && good; i++)
		good = format_areas(&members[i], map, zeros, fault);
	/* No member is one of the volume's before the maps of all are there. */
	for (int i = 0; i < count && good; i++)
		good = write_superblocks(&members[i], i, common, fault);
	if (!good) {
		members_unprobe(members, count);
		members_wipe(members, count);
	}
	free(map);
	free(zeros);
	return good;
}

bool
member_mark_spare(struct member_work *member, const uint8_t volume_uuid[16], struct fault *fault)
{
	struct spare_mark mark = {
		.member_bytes = member->device.capacity_bytes,
		.block_bytes = member->device.block_bytes,
		.created_s = (uint64_t)time(NULL),
	};
	uint8_t *zeros = calloc(1, HEAD_BYTES), bytes[LAYOUT_SUPERBLOCK_BYTES];
	bool good;

	memcpy(mark.member_uuid, member->member_uuid, sizeof(mark.member_uuid));
	memcpy(mark.volume_uuid, volume_uuid, sizeof(mark.volume_uuid));
	spare_encode(&mark, bytes);
	good = zeros ? wipe_ends(member, zeros, fault)
		     : fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	if (good) {
		member->formatted = true;
		good = admin_write(member->session, LAYOUT_SUPERBLOCK_A_OFFSET, bytes,
				   sizeof(bytes), fault);
	}
	/* In both places, so that no half of an older superblock can come back. */
	if (good)
		good = admin_write(member->session, LAYOUT_SUPERBLOCK_B_OFFSET, bytes,
				   sizeof(bytes), fault);
	if (!good) {
		members_unprobe(member, 1);
		members_wipe(member, 1);
	}
	free(zeros);
	return good;
}
