/* region_map.c - codec of the map's granules. */
#include "layout.h"

#include <assert.h>
#include <string.h>

#include "bytes.h"

/* offsets in a granule */
enum {
	GRANULE_AT_CRC = 0,
	GRANULE_AT_EPOCH = 4,
	GRANULE_AT_FLAGS = 12,
};

#define GRANULES_PER_BLOCK (LAYOUT_MAP_BLOCK_BYTES / LAYOUT_GRANULE_BYTES)

_Static_assert(GRANULE_AT_FLAGS + LAYOUT_GRANULE_REGIONS == LAYOUT_GRANULE_BYTES,
	       "a granule is full");
_Static_assert(GRANULES_PER_BLOCK *LAYOUT_GRANULE_REGIONS == LAYOUT_REGIONS_PER_BLOCK,
	       "a block is full");
_Static_assert(LAYOUT_MAP_OFFSET + (LAYOUT_REGIONS_MAX + LAYOUT_REGIONS_PER_BLOCK - 1) /
					   LAYOUT_REGIONS_PER_BLOCK * LAYOUT_MAP_BLOCK_BYTES <=
		       LAYOUT_LOST_OFFSET,
	       "the largest map ends before the table of lost extents");
_Static_assert(LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES <= LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES,
	       "the table of lost extents is inside the map's area");
_Static_assert((REGION_DIRTY | REGION_UNWRITTEN) < REGION_STALE(0) &&
		       REGION_STALE(LAYOUT_STALE_SETS - 1) <= REGION_STALE_ANY,
	       "flags are apart");

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
			memcpy(granule + GRANULE_AT_FLAGS, flags + index * LAYOUT_GRANULE_REGIONS,
			       held);
		put_u32(granule + GRANULE_AT_CRC, granule_crc(granule, index, volume_uuid));
	}
}

bool
map_granule_valid(const uint8_t *in, uint32_t index, const uint8_t volume_uuid[16])
{
	return get_u32(in + GRANULE_AT_CRC) == granule_crc(in, index, volume_uuid);
}

int
map_block_decode(const uint8_t *in, uint32_t regions, uint32_t block, const uint8_t volume_uuid[16],
		 uint8_t *flags)
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
		if (map_granule_valid(granule, index, volume_uuid)) {
			memcpy(to, granule + GRANULE_AT_FLAGS, held);
		} else {
			memset(to, REGION_DIRTY | REGION_STALE_ANY, held);
			bad++;
		}
	}
	return bad;
}
