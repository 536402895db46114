/* layout.c - codec of the on-disk format; docs/design/format.md is its reference.
 *
 * Every field is read and written byte by byte at a fixed offset, little-endian, so the bytes
 * don't depend on this machine or its compiler.  What is decoded comes from a disk that anybody
 * may have written: nothing of it is used before superblock_fault() has passed all of it, and the
 * same check stands before encoding, so that nothing is written that could not be read again.
 */
#include "layout.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <string.h>

enum {	/* offsets in a superblock */
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

	AREA_ENTRY_BYTES = 24,	/* type u32, zero u32, offset u64, length u64 */
	TRACKED_ENTRY_BYTES = 24,	/* uuid, role u8, state u8, zero u48 */
	FLAG_CLEAN = 0x01,

	GRANULE_AT_CRC = 0,
	GRANULE_AT_EPOCH = 4,
	GRANULE_AT_FLAGS = 12,
};

#define MAGIC "IRAID-SB"
#define MAGIC_BYTES 8u
#define UUID_BYTES 16u
#define CHECKSUM_BLOCK_BYTES 4096u
#define CHECKSUM_BYTES 4u
#define LOG_BYTES_MIN ((uint64_t)LAYOUT_ALIGN_BYTES)
#define LOG_BYTES_MAX (256u * (uint64_t)LAYOUT_ALIGN_BYTES)
#define LOG_SHARE 256u
#define SHARES (CHECKSUM_BLOCK_BYTES / CHECKSUM_BYTES + 1)	/* 1024 of data, 1 of checksums */
#define GRANULES_PER_BLOCK (LAYOUT_MAP_BLOCK_BYTES / LAYOUT_GRANULE_BYTES)

_Static_assert(GRANULE_AT_FLAGS + LAYOUT_GRANULE_REGIONS == LAYOUT_GRANULE_BYTES,
	       "a granule is full");
_Static_assert(GRANULES_PER_BLOCK * LAYOUT_GRANULE_REGIONS == LAYOUT_REGIONS_PER_BLOCK,
	       "a block is full");
_Static_assert((LAYOUT_REGIONS_MAX + LAYOUT_REGIONS_PER_BLOCK - 1) / LAYOUT_REGIONS_PER_BLOCK *
	       LAYOUT_MAP_BLOCK_BYTES <= LAYOUT_MAP_BYTES, "the largest map fits its area");

/* --- bytes --- */

static void
put_le(uint8_t *out, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t
get_le(const uint8_t *in, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)in[i] << (8 * i);
	return value;
}

static void put_u32(uint8_t *out, uint32_t value) { put_le(out, value, 4); }
static void put_u64(uint8_t *out, uint64_t value) { put_le(out, value, 8); }
static uint32_t get_u32(const uint8_t *in) { return (uint32_t)get_le(in, 4); }
static uint64_t get_u64(const uint8_t *in) { return get_le(in, 8); }

/* isa-l's crc32_iscsi inverts neither what goes in nor what comes out. */
uint32_t
crc32c(uint32_t seed, const void *data, size_t length_bytes)
{
	const uint8_t *bytes = data;
	uint32_t state = ~seed;

	while (length_bytes > 0) {
		int step = length_bytes < INT_MAX ? (int)length_bytes : INT_MAX;

		state = crc32_iscsi((unsigned char *)(uintptr_t)bytes, step, state);
		bytes += step;
		length_bytes -= (size_t)step;
	}
	return ~state;
}

static uint32_t
superblock_crc(const uint8_t *bytes)
{
	static const uint8_t zeros[4];
	uint32_t crc = crc32c(0, bytes, AT_CRC);

	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, bytes + AT_VERSION, LAYOUT_SUPERBLOCK_BYTES - AT_VERSION);
}

/* --- what a superblock may say --- */

static bool
is_power_of_two(uint32_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

/* Printable ASCII with a NUL among the first size bytes. */
static bool
is_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\0')
			return true;
		if (text[i] < 0x20 || text[i] > 0x7e)
			return false;
	}
	return false;
}

static uint64_t
divide_up(uint64_t value, uint64_t by)
{
	return value / by + (value % by != 0);
}

static uint64_t
checksum_bytes_of(uint64_t data_bytes)
{
	return divide_up(data_bytes, CHECKSUM_BLOCK_BYTES) * CHECKSUM_BYTES;
}

static uint64_t
align_up(uint64_t value)
{
	return divide_up(value, LAYOUT_ALIGN_BYTES) * LAYOUT_ALIGN_BYTES;
}

static const char *
areas_fault(const struct superblock *superblock)
{
	const struct area *areas = superblock->areas;
	uint64_t free_from = LAYOUT_ALIGN_BYTES;

	for (int i = 0; i < LAYOUT_AREAS; i++) {
		if (areas[i].type != (uint32_t)i + 1)
			return "the areas are not map, log, checksums and data in this order";
		if (areas[i].offset_bytes % LAYOUT_ALIGN_BYTES != 0)
			return "an area does not start on a whole MiB";
		if (areas[i].offset_bytes < free_from)
			return "areas overlap each other or the superblocks";
		if (areas[i].length_bytes == 0 ||
		    areas[i].offset_bytes > superblock->member_bytes ||
		    areas[i].length_bytes > superblock->member_bytes - areas[i].offset_bytes)
			return "an area is empty or ends beyond the member";
		free_from = areas[i].offset_bytes + areas[i].length_bytes;
	}
	if (areas[AREA_MAP - 1].offset_bytes != LAYOUT_MAP_OFFSET ||
	    areas[AREA_MAP - 1].length_bytes != LAYOUT_MAP_BYTES)
		return "the region map is not at its fixed place";
	if (areas[AREA_LOG - 1].length_bytes % LAYOUT_ALIGN_BYTES != 0)
		return "the log area is not whole MiB long";
	if (areas[AREA_CHECKSUMS - 1].length_bytes < checksum_bytes_of(superblock->data_bytes))
		return "the checksum area is too short for the data";
	if (areas[AREA_DATA - 1].length_bytes < superblock->data_bytes)
		return "the data area is shorter than the data";
	return NULL;
}

/* Listed for its role, or on its way there. */
static bool
knows_member(const struct superblock *superblock)
{
	const uint8_t *uuid = superblock->member_uuid;

	if (memcmp(uuid, superblock->member_uuids[superblock->role], UUID_BYTES) == 0)
		return true;
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (superblock->tracked[set].state != 0 &&
		    superblock->tracked[set].role == superblock->role &&
		    memcmp(uuid, superblock->tracked[set].member_uuid, UUID_BYTES) == 0)
			return true;
	return false;
}

static const char *
members_fault(const struct superblock *superblock)
{
	if (superblock->role >= superblock->member_count)
		return "the member's role is not below the number of members";
	for (int i = 0; i < superblock->member_count; i++) {
		uint8_t state = superblock->member_states[i];

		if (state != MEMBER_IN_SYNC && state != MEMBER_FAULTY && state != MEMBER_MISSING)
			return "a member's state is unknown";
		for (int k = 0; k < i; k++)
			if (memcmp(superblock->member_uuids[i], superblock->member_uuids[k],
				   UUID_BYTES) == 0)
				return "two members have the same UUID";
	}
	if (!knows_member(superblock))
		return "the member's UUID is not one listed for its role";
	return NULL;
}

static const char *
tracked_fault(const struct superblock *superblock)
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		const struct tracked_member *tracked = &superblock->tracked[set];

		if (tracked->state == 0)
			continue;
		if (tracked->state != MEMBER_REBUILDING && tracked->state != MEMBER_OUT_OF_DATE &&
		    tracked->state != MEMBER_FAULTY)
			return "a tracked member's state is unknown";
		if (tracked->role >= superblock->member_count)
			return "a tracked member's role is not below the number of members";
	}
	return NULL;
}

static const char *
shape_fault(const struct superblock *superblock)
{
	struct geometry geometry;

	if (geometry_init(&geometry, superblock->level, superblock->member_count,
			  superblock->chunk_bytes, superblock->block_bytes,
			  superblock->data_bytes) != 0)
		return "level, member count, chunk, block or data size is out of bounds";
	if (superblock->data_bytes % superblock->chunk_bytes != 0)
		return "the data size is not a multiple of the chunk";
	if (!is_power_of_two(superblock->region_rows))
		return "the rows per region are not a power of two";
	if (divide_up(geometry.rows, superblock->region_rows) > LAYOUT_REGIONS_MAX)
		return "there are more regions than the map can hold";
	if (superblock->member_bytes < LAYOUT_MEMBER_BYTES_MIN ||
	    superblock->member_bytes > (uint64_t)INT64_MAX)
		return "the member's size is out of bounds";
	if (superblock->resync_row > geometry.rows || superblock->rebuild_row > geometry.rows ||
	    superblock->scrub_row > geometry.rows)
		return "a checkpoint lies beyond the last row";
	if (superblock->scrub_mode > SCRUB_REPAIR)
		return "the kind of scrub is unknown";
	return NULL;
}

const char *
superblock_fault(const struct superblock *superblock)
{
	const char *fault;

	if (superblock->features_incompat & ~LAYOUT_INCOMPAT_KNOWN ||
	    superblock->features_ro_compat & ~LAYOUT_RO_COMPAT_KNOWN)
		return "an unknown feature flag is set";
	if (!is_text(superblock->name, sizeof(superblock->name)) || superblock->name[0] == '\0')
		return "the name is empty, not printable ASCII, or not terminated";
	if (!is_text(superblock->owner, sizeof(superblock->owner)))
		return "the owner is not printable ASCII, or not terminated";
	fault = shape_fault(superblock);
	if (!fault)
		fault = members_fault(superblock);
	if (!fault)
		fault = tracked_fault(superblock);
	if (!fault)
		fault = areas_fault(superblock);
	return fault;
}

/* --- superblock --- */

static void
encode_lists(const struct superblock *superblock, uint8_t *out)
{
	put_u32(out + AT_AREA_COUNT, LAYOUT_AREAS);
	for (int i = 0; i < LAYOUT_AREAS; i++) {
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
	}
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

	for (int i = 0; i < LAYOUT_AREAS; i++) {
		const uint8_t *entry = in + AT_AREAS + i * AREA_ENTRY_BYTES;

		out->areas[i].type = get_u32(entry);
		out->areas[i].offset_bytes = get_u64(entry + 8);
		out->areas[i].length_bytes = get_u64(entry + 16);
	}
	memcpy(out->member_uuids, in + AT_MEMBER_UUIDS, members * UUID_BYTES);
	memcpy(out->member_states, in + AT_MEMBER_STATES, members);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		const uint8_t *entry = in + AT_TRACKED + set * TRACKED_ENTRY_BYTES;

		memcpy(out->tracked[set].member_uuid, entry, UUID_BYTES);
		out->tracked[set].role = entry[16];
		out->tracked[set].state = entry[17];
	}
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
	if (!fault && get_u32(in + AT_AREA_COUNT) != LAYOUT_AREAS)
		fault = "the number of areas is not four";
	if (!fault && in[AT_FLAGS] & ~FLAG_CLEAN)
		fault = "an unknown volume flag is set";
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

/* --- areas --- */

uint32_t
layout_region_rows(uint64_t rows, uint32_t wanted)
{
	uint32_t region_rows = 1;

	if (wanted == 0)
		wanted = LAYOUT_REGION_ROWS_DEFAULT;
	while (region_rows < wanted && region_rows < 1u << 31)
		region_rows *= 2;
	while (divide_up(rows, region_rows) > LAYOUT_REGIONS_MAX)
		region_rows *= 2;
	return region_rows;
}

int
layout_compute(uint64_t member_bytes, uint32_t chunk_bytes, struct area areas[LAYOUT_AREAS],
	       uint64_t *data_bytes, uint32_t *region_rows)
{
	const uint64_t log_offset = LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES;

	assert(is_power_of_two(chunk_bytes) && chunk_bytes >= IRAID_CHUNK_BYTES_MIN &&
	       chunk_bytes <= IRAID_CHUNK_BYTES_MAX);
	if (member_bytes < LAYOUT_MEMBER_BYTES_MIN)
		return -ENOSPC;
	if (member_bytes > INT64_MAX / IRAID_MEMBERS_MAX)
		member_bytes = INT64_MAX / IRAID_MEMBERS_MAX;

	uint64_t log = member_bytes / LOG_SHARE / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES;
	if (log < LOG_BYTES_MIN)
		log = LOG_BYTES_MIN;
	if (log > LOG_BYTES_MAX)
		log = LOG_BYTES_MAX;

	/* One part of 1025 for the checksums, rounded up; the others for data. */
	uint64_t rest = member_bytes - log_offset - log;
	uint64_t checksums = align_up(divide_up(rest, SHARES));
	uint64_t rows = (rest - checksums) / chunk_bytes;
	uint64_t data = rows * chunk_bytes;

	areas[0] = (struct area){ AREA_MAP, LAYOUT_MAP_OFFSET, LAYOUT_MAP_BYTES };
	areas[1] = (struct area){ AREA_LOG, log_offset, log };
	areas[2] = (struct area){ AREA_CHECKSUMS, log_offset + log, checksums };
	areas[3] = (struct area){ AREA_DATA, log_offset + log + checksums, data };
	*data_bytes = data;
	*region_rows = layout_region_rows(rows, 0);
	return 0;
}

/* --- region map --- */

/* Of granule `index` of the map.  Volume and place are part of the sum, so a granule of
 * another volume or one that was written to a wrong place is not taken for this one.
 */
static uint32_t
granule_crc(const uint8_t *granule, uint32_t index, const uint8_t volume_uuid[16])
{
	uint8_t place[4];

	put_u32(place, index);
	uint32_t crc = crc32c(0, volume_uuid, UUID_BYTES);
	crc = crc32c(crc, place, sizeof(place));
	return crc32c(crc, granule + GRANULE_AT_EPOCH, LAYOUT_GRANULE_BYTES - GRANULE_AT_EPOCH);
}

/* How many regions granule `index` holds of a map of `regions`. */
static uint32_t
granule_regions(uint32_t index, uint32_t regions)
{
	uint64_t first = (uint64_t)index * LAYOUT_GRANULE_REGIONS;

	if (first >= regions)
		return 0;
	return regions - first < LAYOUT_GRANULE_REGIONS ? (uint32_t)(regions - first)
							: LAYOUT_GRANULE_REGIONS;
}

void
map_block_encode(const uint8_t *flags, uint32_t regions, uint32_t block, uint64_t epoch,
		 const uint8_t volume_uuid[16], uint8_t *out)
{
	assert(regions <= LAYOUT_REGIONS_MAX && block < LAYOUT_MAP_BYTES / LAYOUT_MAP_BLOCK_BYTES);

	memset(out, 0, LAYOUT_MAP_BLOCK_BYTES);
	for (uint32_t i = 0; i < GRANULES_PER_BLOCK; i++) {
		uint8_t *granule = out + i * LAYOUT_GRANULE_BYTES;
		uint32_t index = block * GRANULES_PER_BLOCK + i;
		uint32_t held = granule_regions(index, regions);

		put_u64(granule + GRANULE_AT_EPOCH, epoch);
		if (held > 0)
			memcpy(granule + GRANULE_AT_FLAGS,
			       flags + index * LAYOUT_GRANULE_REGIONS, held);
		put_u32(granule + GRANULE_AT_CRC, granule_crc(granule, index, volume_uuid));
	}
}

int
map_block_decode(const uint8_t *in, uint32_t regions, uint32_t block,
		 const uint8_t volume_uuid[16], uint8_t *flags)
{
	int bad = 0;

	assert(regions <= LAYOUT_REGIONS_MAX && block < LAYOUT_MAP_BYTES / LAYOUT_MAP_BLOCK_BYTES);

	for (uint32_t i = 0; i < GRANULES_PER_BLOCK; i++) {
		const uint8_t *granule = in + i * LAYOUT_GRANULE_BYTES;
		uint32_t index = block * GRANULES_PER_BLOCK + i;
		uint32_t held = granule_regions(index, regions);

		if (held == 0)
			break;
		uint8_t *to = flags + index * LAYOUT_GRANULE_REGIONS;
		if (get_u32(granule + GRANULE_AT_CRC) == granule_crc(granule, index, volume_uuid)) {
			memcpy(to, granule + GRANULE_AT_FLAGS, held);
		} else {
			memset(to, REGION_DIRTY | REGION_STALE_ANY, held);
			bad++;
		}
	}
	return bad;
}
