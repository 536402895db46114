/* superblock_fault.c - what a superblock may say.  The bounds of every field and what fields mean
 * for each other; the same check stands before encoding and behind decoding.
 */
#include "layout.h"

#include <string.h>

#include "areas.h"
#include "bytes.h"

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

static const char *
areas_fault(const struct superblock *superblock)
{
	const struct area *areas = superblock->areas;
	uint64_t free_from = LAYOUT_ALIGN_BYTES;

	for (int i = 0; i < area_count(superblock); i++) {
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
	if (areas[AREA_CHECKSUMS - 1].length_bytes + areas[AREA_MORE_CHECKSUMS - 1].length_bytes <
	    checksum_bytes_of(superblock->data_bytes))
		return "the checksum areas are too short for the data";
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
		for (int role = 0; role < superblock->member_count; role++)
			if (role != tracked->role &&
			    memcmp(tracked->member_uuid, superblock->member_uuids[role],
				   UUID_BYTES) == 0)
				return "a tracked member has the place of another role";
		for (int other = 0; other < set; other++)
			if (superblock->tracked[other].state != 0 &&
			    memcmp(tracked->member_uuid, superblock->tracked[other].member_uuid,
				   UUID_BYTES) == 0)
				return "a member is tracked twice";
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

static const char *
log_key_fault(const struct superblock *superblock)
{
	const bool flagged = superblock->features_incompat & LAYOUT_INCOMPAT_LOG;

	if (flagged != (superblock->log_key != 0))
		return "whether the write log is in use is neither yes nor no";
	if (!flagged && (superblock->log_roles != 0 || superblock->log_proven))
		return "a write log that is not in use has roles";
	if (flagged && superblock->level != 5 && superblock->level != 6)
		return "a level without parity has a write log";
	if (flagged && superblock->clean)
		return "the write log is in use though the volume was stopped in order";
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
	if (!fault)
		fault = log_key_fault(superblock);
	return fault;
}
