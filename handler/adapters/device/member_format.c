/* device/member_format.c - see member_format.h; the layout is pure/layout.h's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters/base/log.h"
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

struct admin_result
member_read_superblock(struct admin_session *session, struct superblock_copies *out)
{
	static const uint64_t offsets[2] = { LAYOUT_SUPERBLOCK_A_OFFSET, LAYOUT_SUPERBLOCK_B_OFFSET };
	struct superblock ignored;
	const char *reason = NULL;
	struct admin_result result;

	memset(out, 0, sizeof(*out));
	for (int i = 0; i < 2; i++) {
		result = admin_read(session, offsets[i], out->bytes[i], LAYOUT_SUPERBLOCK_BYTES);
		if (result.error != ADMIN_OK)
			return result;
		out->verdict[i] = superblock_decode(out->bytes[i], &ignored, &out->reason[i]);
	}
	out->chosen = superblock_choose(out->bytes[0], out->bytes[1], &out->superblock, &reason);
	out->spare = spare_decode(out->bytes[0], &out->mark);
	if (out->spare != SUPERBLOCK_OK) {
		enum superblock_verdict other = spare_decode(out->bytes[1], &out->mark);

		if (other == SUPERBLOCK_OK || out->spare == SUPERBLOCK_ABSENT)
			out->spare = other;
	}
	return result;
}

struct admin_result
device_open(const struct device_address *device, const struct iscsi_credentials *credentials,
	    uint32_t timeout_ms, struct admin_session **out, struct scsi_device *found)
{
	struct member_address address = device->address;
	struct admin_result result = admin_open(&address, credentials, timeout_ms, out, found);

	for (int i = 0; i < device->more && result.error == ADMIN_UNREACHABLE; i++) {
		memcpy(address.portal, device->more_portals[i], sizeof(address.portal));
		result = admin_open(&address, credentials, timeout_ms, out, found);
	}
	return result;
}

/* --- proving the members apart --- */

void
members_unprobe(struct member_work *members, int count)
{
	/* Backwards: should two be one LUN after all, what stood there first comes back last. */
	for (int i = count - 1; i >= 0; i--) {
		struct admin_result result;

		if (!members[i].probed)
			continue;
		members[i].probed = false;
		result = admin_write(members[i].session, LAYOUT_SUPERBLOCK_B_OFFSET, members[i].copies.bytes[1],
				     LAYOUT_SUPERBLOCK_BYTES);
		if (result.error != ADMIN_OK)
			log_line(LOG_ERR, "%s: 4096 bytes at %u could not be put back: %s", members[i].label,
				 LAYOUT_SUPERBLOCK_B_OFFSET, result.message);
	}
}

static void
make_mark(const struct member_work *member, uint8_t out[LAYOUT_SUPERBLOCK_BYTES])
{
	memset(out, 0, LAYOUT_SUPERBLOCK_BYTES);
	memcpy(out, probe_mark, sizeof(probe_mark));
	memcpy(out + sizeof(probe_mark), member->member_uuid, sizeof(member->member_uuid));
}

static struct admin_result
check_mark(struct member_work *members, int count, int index)
{
	uint8_t found[LAYOUT_SUPERBLOCK_BYTES], mark[LAYOUT_SUPERBLOCK_BYTES];
	struct admin_result result = admin_read(members[index].session, LAYOUT_SUPERBLOCK_B_OFFSET, found,
						sizeof(found));

	if (result.error != ADMIN_OK)
		return result;
	for (int i = 0; i < count; i++) {
		make_mark(&members[i], mark);
		if (memcmp(found, mark, sizeof(mark)) != 0)
			continue;
		if (i == index)
			return result;
		return admin_failed(ADMIN_IN_USE, "name each LUN once; a second portal to it adds no redundancy",
			      "%s and %s are the same LUN", members[index].label, members[i].label);
	}
	return admin_failed(ADMIN_IO, "check the target's storage, and that nobody else writes to it",
		      "%s does not return what was just written to it", members[index].label);
}

struct admin_result
members_probe(struct member_work *members, int count)
{
	uint8_t mark[LAYOUT_SUPERBLOCK_BYTES];
	struct admin_result result = { .error = ADMIN_OK };

	for (int i = 0; i < count && result.error == ADMIN_OK; i++) {
		make_mark(&members[i], mark);
		/* Set before: a write whose answer is lost may have happened. */
		members[i].probed = true;
		result = admin_write(members[i].session, LAYOUT_SUPERBLOCK_B_OFFSET, mark, sizeof(mark));
		if (result.error == ADMIN_UNFIT || result.error == ADMIN_IN_USE)
			members[i].probed = false;	/* refused, so nothing was written */
	}
	for (int i = 0; i < count && result.error == ADMIN_OK; i++)
		result = check_mark(members, count, i);
	if (result.error != ADMIN_OK)
		members_unprobe(members, count);
	return result;
}

/* --- formatting --- */

#define MAP_BLOCKS ((LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET) / LAYOUT_MAP_BLOCK_BYTES)

/* The map's whole area as it stands on the member, the empty table of lost extents (zeros) included; malloc'ed. */
static uint8_t *
make_map(const struct superblock *common)
{
	struct geometry geometry;
	bool known = geometry_init(&geometry, common->level, common->member_count, common->chunk_bytes,
				   common->block_bytes, common->data_bytes) == 0;
	uint64_t rows = known ? geometry.rows : 0;
	uint32_t regions = (uint32_t)((rows + common->region_rows - 1) / common->region_rows);
	/* Parity and copies are not made yet, so they are suspect; without them there is nothing to suspect. */
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

static struct admin_result
wipe_ends(struct member_work *member, const uint8_t *zeros)
{
	uint64_t tail = (member->device.capacity_bytes - TAIL_BYTES) / TAIL_BYTES * TAIL_BYTES;
	size_t tail_length = (size_t)(member->device.capacity_bytes - tail);
	struct admin_result result = admin_write(member->session, 0, zeros, HEAD_BYTES);

	if (result.error == ADMIN_OK) {
		member->probed = false;	/* what stood there goes with the rest */
		result = admin_write(member->session, tail, zeros, tail_length);
	}
	return result;
}

static struct admin_result
format_areas(struct member_work *member, const uint8_t *map, const uint8_t *zeros)
{
	struct admin_result result = wipe_ends(member, zeros);

	if (result.error == ADMIN_OK)
		result = admin_write(member->session, LAYOUT_MAP_OFFSET, map, LAYOUT_MAP_BYTES);
	return result;
}

/* Both copies, so that a later torn write has an older one beside it from the start. */
static struct admin_result
write_superblocks(struct member_work *member, int role, const struct superblock *common)
{
	struct superblock superblock = *common;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];
	struct admin_result result = { .error = ADMIN_OK };

	superblock.role = (uint8_t)role;
	superblock.member_bytes = member->device.capacity_bytes;
	memcpy(superblock.member_uuid, member->member_uuid, sizeof(superblock.member_uuid));
	member->formatted = true;
	for (superblock.write_count = 1; superblock.write_count <= 2 && result.error == ADMIN_OK;
	     superblock.write_count++) {
		superblock_encode(&superblock, bytes);
		result = admin_write(member->session, superblock_offset(superblock.write_count), bytes,
				     sizeof(bytes));
	}
	return result;
}

struct admin_result
member_wipe(struct admin_session *session)
{
	static const uint8_t zeros[LAYOUT_SUPERBLOCK_BYTES];
	struct admin_result a = admin_write(session, LAYOUT_SUPERBLOCK_A_OFFSET, zeros, sizeof(zeros));
	struct admin_result b = admin_write(session, LAYOUT_SUPERBLOCK_B_OFFSET, zeros, sizeof(zeros));

	return a.error != ADMIN_OK ? a : b;
}

void
members_wipe(struct member_work *members, int count)
{
	for (int i = 0; i < count; i++) {
		struct admin_result result;

		if (!members[i].formatted)
			continue;
		result = member_wipe(members[i].session);
		if (result.error != ADMIN_OK)
			log_line(LOG_ERR, "%s: its new superblock could not be wiped: %s", members[i].label,
				 result.message);
		members[i].formatted = false;
	}
}

struct admin_result
members_format(struct member_work *members, int count, const struct superblock *common)
{
	uint8_t *map = make_map(common);
	uint8_t *zeros = calloc(1, HEAD_BYTES);
	struct admin_result result = { .error = ADMIN_OK };

	if (!map || !zeros)
		result = admin_failed(ADMIN_INTERNAL, "free some memory", "out of memory");
	for (int i = 0; i < count && result.error == ADMIN_OK; i++)
		result = format_areas(&members[i], map, zeros);
	/* No member is one of the volume's before the maps of all are there. */
	for (int i = 0; i < count && result.error == ADMIN_OK; i++)
		result = write_superblocks(&members[i], i, common);
	if (result.error != ADMIN_OK) {
		members_unprobe(members, count);
		members_wipe(members, count);
	}
	free(map);
	free(zeros);
	return result;
}

struct admin_result
member_mark_spare(struct member_work *member, const uint8_t volume_uuid[16])
{
	struct spare_mark mark = {
		.member_bytes = member->device.capacity_bytes, .block_bytes = member->device.block_bytes,
		.created_s = (uint64_t)time(NULL),
	};
	uint8_t *zeros = calloc(1, HEAD_BYTES), bytes[LAYOUT_SUPERBLOCK_BYTES];
	struct admin_result result = { .error = ADMIN_OK };

	memcpy(mark.member_uuid, member->member_uuid, sizeof(mark.member_uuid));
	memcpy(mark.volume_uuid, volume_uuid, sizeof(mark.volume_uuid));
	spare_encode(&mark, bytes);
	result = zeros ? wipe_ends(member, zeros) : admin_failed(ADMIN_INTERNAL, "free some memory", "out of memory");
	if (result.error == ADMIN_OK) {
		member->formatted = true;
		result = admin_write(member->session, LAYOUT_SUPERBLOCK_A_OFFSET, bytes, sizeof(bytes));
	}
	/* In both places, so that no half of an older superblock can come back. */
	if (result.error == ADMIN_OK)
		result = admin_write(member->session, LAYOUT_SUPERBLOCK_B_OFFSET, bytes, sizeof(bytes));
	if (result.error != ADMIN_OK) {
		members_unprobe(member, 1);
		members_wipe(member, 1);
	}
	free(zeros);
	return result;
}
