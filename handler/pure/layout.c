/* layout.c - codec of the on-disk format; docs/design/format.md is its reference.
 *
 * Every field is read and written byte by byte at a fixed offset, little-endian, so the bytes
 * don't depend on this machine or its compiler.  What is decoded comes from a disk that anybody
 * may have written: nothing of it is used before superblock_fault() has passed all of it, and the
 * same check stands before encoding, so that nothing is written that could not be read again.
 */
#include "layout.h"

#include <assert.h>
#include <string.h>

#include "areas.h"
#include "bytes.h"

/* offsets in a superblock */
enum {
	AT_MAGIC = 0,
	AT_CRC = 8,
	AT_VERSION = 12,
	AT_COMPAT = 16,
	AT_RO_COMPAT = 24,
	AT_INCOMPAT = 32,
	AT_WRITE_COUNT = 40,
	AT_VOLUME_UUID = 48,
	AT_MEMBER_UUID = 64,
	AT_NAME = 80,
	AT_LEVEL = 144,
	AT_MEMBER_COUNT = 145,
	AT_ROLE = 146,
	AT_FLAGS = 147,
	AT_CHUNK_BYTES = 148,
	AT_BLOCK_BYTES = 152,
	AT_REGION_ROWS = 156,
	AT_MEMBER_BYTES = 160,
	AT_DATA_BYTES = 168,
	AT_EPOCH = 176,
	AT_EVENT = 184,
	AT_CREATED = 192,
	AT_UPDATED = 200,
	AT_RESYNC_ROW = 208,
	AT_REBUILD_ROW = 216,
	AT_SCRUB_ROW = 224,
	AT_SCRUB_MODE = 232,
	AT_SCRUB_RUNNING = 233,
	AT_SCRUB_MISMATCHES = 240,
	AT_OWNER = 256,
	AT_AREA_COUNT = 320,
	AT_AREAS = 384,
	AT_MEMBER_UUIDS = 768,
	AT_MEMBER_STATES = 1280,
	AT_TRACKED = 1312,
	AT_WRITE_COUNTS = 1408,
	AT_TRACKED_WRITE_COUNTS = 1664,
	AT_RECORDED_ROLES = 1696,
	AT_LOST_EMPTY = 1700,
	AT_FLUSHES_FAIL = 1704,
	AT_LOG_KEY = 1712,
	AT_LOG_ROLES = 1720,
	AT_LOG_PROVEN = 1724,
	AT_UNDECIDED_ROLES = 1728,
	AT_OTHER_HOLDER = 1736,

	AREA_ENTRY_BYTES = 24,	  /* type u32, zero u32, offset u64, length u64 */
	TRACKED_ENTRY_BYTES = 24, /* uuid, role u8, state u8, epoch u48 */
	FLAG_CLEAN = 0x01,
};

#define MAGIC "IRAID-SB"
#define MAGIC_BYTES 8u

static uint32_t
superblock_crc(const uint8_t *bytes)
{
	static const uint8_t zeros[4];
	uint32_t crc = crc32c(0, bytes, AT_CRC);

	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, bytes + AT_VERSION, LAYOUT_SUPERBLOCK_BYTES - AT_VERSION);
}

static void
encode_lists(const struct superblock *superblock, uint8_t *out)
{
	put_u32(out + AT_AREA_COUNT, (uint32_t)area_count(superblock));
	for (int i = 0; i < area_count(superblock); i++) {
		uint8_t *entry = out + AT_AREAS + i * AREA_ENTRY_BYTES;

		put_u32(entry, superblock->areas[i].type);
		put_u64(entry + 8, superblock->areas[i].offset_bytes);
		put_u64(entry + 16, superblock->areas[i].length_bytes);
	}
	memcpy(out + AT_MEMBER_UUIDS, superblock->member_uuids,
	       superblock->member_count * UUID_BYTES);
	memcpy(out + AT_MEMBER_STATES, superblock->member_states, superblock->member_count);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		const struct tracked_member *tracked = &superblock->tracked[set];
		uint8_t *entry = out + AT_TRACKED + set * TRACKED_ENTRY_BYTES;

		if (tracked->state == 0)
			continue;
		memcpy(entry, tracked->member_uuid, UUID_BYTES);
		entry[16] = tracked->role;
		entry[17] = tracked->state;
		put_le(entry + 18, tracked->epoch, 6);
		put_u64(out + AT_TRACKED_WRITE_COUNTS + set * 8, tracked->write_count);
	}
	for (int role = 0; role < superblock->member_count; role++)
		put_u64(out + AT_WRITE_COUNTS + role * 8, superblock->write_counts[role]);
	put_u32(out + AT_RECORDED_ROLES, superblock->recorded_roles);
	put_u32(out + AT_LOST_EMPTY, superblock->lost_empty);
	out[AT_FLUSHES_FAIL] = superblock->flushes_fail;
	put_u64(out + AT_LOG_KEY, superblock->log_key);
	put_u32(out + AT_LOG_ROLES, superblock->log_roles);
	out[AT_LOG_PROVEN] = superblock->log_proven;
	put_u32(out + AT_UNDECIDED_ROLES, superblock->undecided_roles);
	memcpy(out + AT_OTHER_HOLDER, superblock->other_holder, UUID_BYTES);
}

void
superblock_encode(const struct superblock *superblock, uint8_t *out)
{
	assert(superblock_fault(superblock) == NULL);

	memset(out, 0, LAYOUT_SUPERBLOCK_BYTES);
	memcpy(out + AT_MAGIC, MAGIC, MAGIC_BYTES);
	put_u32(out + AT_VERSION, LAYOUT_VERSION);
	put_u64(out + AT_COMPAT, superblock->features_compat);
	put_u64(out + AT_RO_COMPAT, superblock->features_ro_compat);
	put_u64(out + AT_INCOMPAT, superblock->features_incompat);
	put_u64(out + AT_WRITE_COUNT, superblock->write_count);
	memcpy(out + AT_VOLUME_UUID, superblock->volume_uuid, UUID_BYTES);
	memcpy(out + AT_MEMBER_UUID, superblock->member_uuid, UUID_BYTES);
	memcpy(out + AT_NAME, superblock->name, strlen(superblock->name));
	out[AT_LEVEL] = superblock->level;
	out[AT_MEMBER_COUNT] = superblock->member_count;
	out[AT_ROLE] = superblock->role;
	out[AT_FLAGS] = superblock->clean ? FLAG_CLEAN : 0;
	put_u32(out + AT_CHUNK_BYTES, superblock->chunk_bytes);
	put_u32(out + AT_BLOCK_BYTES, superblock->block_bytes);
	put_u32(out + AT_REGION_ROWS, superblock->region_rows);
	put_u64(out + AT_MEMBER_BYTES, superblock->member_bytes);
	put_u64(out + AT_DATA_BYTES, superblock->data_bytes);
	put_u64(out + AT_EPOCH, superblock->epoch);
	put_u64(out + AT_EVENT, superblock->event);
	put_u64(out + AT_CREATED, superblock->created_s);
	put_u64(out + AT_UPDATED, superblock->updated_s);
	put_u64(out + AT_RESYNC_ROW, superblock->resync_row);
	put_u64(out + AT_REBUILD_ROW, superblock->rebuild_row);
	put_u64(out + AT_SCRUB_ROW, superblock->scrub_row);
	out[AT_SCRUB_MODE] = superblock->scrub_mode;
	out[AT_SCRUB_RUNNING] = superblock->scrub_running;
	put_u64(out + AT_SCRUB_MISMATCHES, superblock->scrub_mismatches);
	memcpy(out + AT_OWNER, superblock->owner, strlen(superblock->owner));
	encode_lists(superblock, out);
	put_u32(out + AT_CRC, superblock_crc(out));
}

/* Members beyond member_count are left zero, whatever the bytes say. */
static void
decode_lists(const uint8_t *in, struct superblock *out)
{
	size_t members = out->member_count <= IRAID_MEMBERS_MAX ? out->member_count : 0;

	for (uint32_t i = 0; i < LAYOUT_AREAS && i < get_u32(in + AT_AREA_COUNT); i++) {
		const uint8_t *entry = in + AT_AREAS + i * AREA_ENTRY_BYTES;

		out->areas[i].type = get_u32(entry);
		out->areas[i].offset_bytes = get_u64(entry + 8);
		out->areas[i].length_bytes = get_u64(entry + 16);
	}
	memcpy(out->member_uuids, in + AT_MEMBER_UUIDS, members * UUID_BYTES);
	memcpy(out->member_states, in + AT_MEMBER_STATES, members);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		const uint8_t *entry = in + AT_TRACKED + set * TRACKED_ENTRY_BYTES;

		if (entry[17] == 0)
			continue;
		memcpy(out->tracked[set].member_uuid, entry, UUID_BYTES);
		out->tracked[set].role = entry[16];
		out->tracked[set].state = entry[17];
		out->tracked[set].epoch = get_le(entry + 18, 6);
		out->tracked[set].write_count = get_u64(in + AT_TRACKED_WRITE_COUNTS + set * 8);
	}
	for (size_t role = 0; role < members; role++)
		out->write_counts[role] = get_u64(in + AT_WRITE_COUNTS + role * 8);
	out->recorded_roles = get_u32(in + AT_RECORDED_ROLES);
	out->lost_empty = get_u32(in + AT_LOST_EMPTY);
	out->flushes_fail = in[AT_FLUSHES_FAIL] != 0;
	out->log_key = get_u64(in + AT_LOG_KEY);
	out->log_roles = get_u32(in + AT_LOG_ROLES);
	out->log_proven = in[AT_LOG_PROVEN] != 0;
	out->undecided_roles = get_u32(in + AT_UNDECIDED_ROLES);
	memcpy(out->other_holder, in + AT_OTHER_HOLDER, UUID_BYTES);
}

static void
decode_fields(const uint8_t *in, struct superblock *out)
{
	memset(out, 0, sizeof(*out));
	out->features_compat = get_u64(in + AT_COMPAT);
	out->features_ro_compat = get_u64(in + AT_RO_COMPAT);
	out->features_incompat = get_u64(in + AT_INCOMPAT);
	out->write_count = get_u64(in + AT_WRITE_COUNT);
	memcpy(out->volume_uuid, in + AT_VOLUME_UUID, UUID_BYTES);
	memcpy(out->member_uuid, in + AT_MEMBER_UUID, UUID_BYTES);
	memcpy(out->name, in + AT_NAME, sizeof(out->name));
	out->level = in[AT_LEVEL];
	out->member_count = in[AT_MEMBER_COUNT];
	out->role = in[AT_ROLE];
	out->clean = in[AT_FLAGS] & FLAG_CLEAN;
	out->chunk_bytes = get_u32(in + AT_CHUNK_BYTES);
	out->block_bytes = get_u32(in + AT_BLOCK_BYTES);
	out->region_rows = get_u32(in + AT_REGION_ROWS);
	out->member_bytes = get_u64(in + AT_MEMBER_BYTES);
	out->data_bytes = get_u64(in + AT_DATA_BYTES);
	out->epoch = get_u64(in + AT_EPOCH);
	out->event = get_u64(in + AT_EVENT);
	out->created_s = get_u64(in + AT_CREATED);
	out->updated_s = get_u64(in + AT_UPDATED);
	out->resync_row = get_u64(in + AT_RESYNC_ROW);
	out->rebuild_row = get_u64(in + AT_REBUILD_ROW);
	out->scrub_row = get_u64(in + AT_SCRUB_ROW);
	out->scrub_mode = in[AT_SCRUB_MODE];
	out->scrub_running = in[AT_SCRUB_RUNNING] != 0;
	out->scrub_mismatches = get_u64(in + AT_SCRUB_MISMATCHES);
	memcpy(out->owner, in + AT_OWNER, sizeof(out->owner));
	decode_lists(in, out);
}

/* Is it a superblock at all, whole, and of a kind this code may write? */
static enum superblock_verdict
decode_header(const uint8_t *in, const char **reason)
{
	if (memcmp(in + AT_MAGIC, MAGIC, MAGIC_BYTES) != 0) {
		*reason = "no superblock of this product";
		return SUPERBLOCK_ABSENT;
	}
	if (get_u32(in + AT_CRC) != superblock_crc(in)) {
		*reason = "the checksum is wrong";
		return SUPERBLOCK_CORRUPT;
	}
	if (get_u32(in + AT_VERSION) == 0) {
		*reason = "format version 0 does not exist";
		return SUPERBLOCK_CORRUPT;
	}
	if (get_u32(in + AT_VERSION) > LAYOUT_VERSION) {
		*reason = "written by a newer release: the format version is unknown here";
		return SUPERBLOCK_UNSUPPORTED;
	}
	if (get_u64(in + AT_INCOMPAT) & ~LAYOUT_INCOMPAT_KNOWN) {
		*reason = "written by a newer release: an incompatible feature is in use";
		return SUPERBLOCK_UNSUPPORTED;
	}
	if (get_u64(in + AT_RO_COMPAT) & ~LAYOUT_RO_COMPAT_KNOWN) {
		*reason = "written by a newer release: a feature in use forbids writing here";
		return SUPERBLOCK_UNSUPPORTED;
	}
	return SUPERBLOCK_OK;
}

enum superblock_verdict
superblock_decode(const uint8_t *in, struct superblock *out, const char **reason)
{
	struct superblock decoded;
	const char *unused;

	if (!reason)
		reason = &unused;
	*reason = "";
	enum superblock_verdict verdict = decode_header(in, reason);
	if (verdict != SUPERBLOCK_OK)
		return verdict;

	decode_fields(in, &decoded);
	const char *fault = superblock_fault(&decoded);
	if (!fault && get_u32(in + AT_AREA_COUNT) != (uint32_t)area_count(&decoded))
		fault = "the number of areas is neither four nor five";
	if (!fault && in[AT_FLAGS] & ~FLAG_CLEAN)
		fault = "an unknown volume flag is set";
	if (!fault && in[AT_SCRUB_RUNNING] > 1)
		fault = "whether a scrub is under way is neither yes nor no";
	if (!fault && in[AT_FLUSHES_FAIL] > 1)
		fault = "whether flushes fail is neither yes nor no";
	if (!fault && in[AT_LOG_PROVEN] > 1)
		fault = "whether all rows were proven is neither yes nor no";
	if (fault) {
		*reason = fault;
		return SUPERBLOCK_CORRUPT;
	}
	*out = decoded;
	return SUPERBLOCK_OK;
}

enum superblock_verdict
superblock_choose(const uint8_t *copy_a, const uint8_t *copy_b, struct superblock *out,
		  const char **reason)
{
	struct superblock a, b;
	const char *reason_a, *reason_b, *unused;
	enum superblock_verdict verdict_a = superblock_decode(copy_a, &a, &reason_a);
	enum superblock_verdict verdict_b = superblock_decode(copy_b, &b, &reason_b);

	if (!reason)
		reason = &unused;
	*reason = "";
	if (verdict_a == SUPERBLOCK_OK && verdict_b == SUPERBLOCK_OK) {
		if (memcmp(a.volume_uuid, b.volume_uuid, UUID_BYTES) != 0 ||
		    memcmp(a.member_uuid, b.member_uuid, UUID_BYTES) != 0) {
			*reason = "the two copies belong to different volumes or members";
			return SUPERBLOCK_CORRUPT;
		}
		*out = b.write_count > a.write_count ? b : a;
		return SUPERBLOCK_OK;
	}
	/* A newer release wrote one of them: the other is not the truth any more. */
	if (verdict_a == SUPERBLOCK_UNSUPPORTED || verdict_b == SUPERBLOCK_UNSUPPORTED) {
		*reason = verdict_a == SUPERBLOCK_UNSUPPORTED ? reason_a : reason_b;
		return SUPERBLOCK_UNSUPPORTED;
	}
	if (verdict_a == SUPERBLOCK_OK || verdict_b == SUPERBLOCK_OK) {
		*out = verdict_a == SUPERBLOCK_OK ? a : b;
		return SUPERBLOCK_OK;
	}
	*reason = verdict_a == SUPERBLOCK_CORRUPT ? reason_a : reason_b;
	return verdict_a == SUPERBLOCK_CORRUPT ? verdict_a : verdict_b;
}

uint64_t
superblock_offset(uint64_t write_count)
{
	return write_count % 2 == 0 ? LAYOUT_SUPERBLOCK_A_OFFSET : LAYOUT_SUPERBLOCK_B_OFFSET;
}
