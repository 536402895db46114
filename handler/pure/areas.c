/* areas.c - where the areas of a member are, and how large its regions. */
#include "areas.h"

#include <assert.h>
#include <errno.h>

#include "bytes.h"
#include "layout.h"

#define CHECKSUM_BLOCK_BYTES 4096u
#define CHECKSUM_BYTES 4u
#define LOG_BYTES_MIN ((uint64_t)LAYOUT_ALIGN_BYTES)
#define LOG_BYTES_MAX (256u * (uint64_t)LAYOUT_ALIGN_BYTES)
#define LOG_SHARE 256u
/* so that the region map can hold any volume of such members */
#define MEMBER_BYTES_USED_MAX ((uint64_t)1 << 55)
#define SHARES (CHECKSUM_BLOCK_BYTES / CHECKSUM_BYTES + 1) /* 1024 of data, 1 of checksums */

uint64_t
checksum_bytes_of(uint64_t data_bytes)
{
	return divide_up(data_bytes, CHECKSUM_BLOCK_BYTES) * CHECKSUM_BYTES;
}

int
area_count(const struct superblock *superblock)
{
	return superblock->areas[AREA_MORE_CHECKSUMS - 1].type == 0 ? AREA_DATA
								    : AREA_MORE_CHECKSUMS;
}

static uint64_t
align_up(uint64_t value)
{
	return divide_up(value, LAYOUT_ALIGN_BYTES) * LAYOUT_ALIGN_BYTES;
}

uint32_t
layout_region_rows(uint64_t rows, uint32_t wanted)
{
	uint32_t region_rows = 1;

	if (wanted == 0)
		wanted = LAYOUT_REGION_ROWS_DEFAULT;
	while (region_rows < wanted && region_rows < 1u << 31)
		region_rows *= 2;
	while (divide_up(rows, region_rows) > LAYOUT_REGIONS_NEW)
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
	if (member_bytes > MEMBER_BYTES_USED_MAX)
		member_bytes = MEMBER_BYTES_USED_MAX;

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
	areas[4] = (struct area){ 0 };
	*data_bytes = data;
	*region_rows = layout_region_rows(rows, 0);
	return 0;
}

/* Where data has to end, so that behind it there is room for those of its checksums that the first
 * area can't hold.
 */
static uint64_t
data_end(uint64_t begin_bytes, uint64_t covered_bytes, uint64_t member_bytes)
{
	uint64_t room = member_bytes - begin_bytes;
	uint64_t end;

	if (room <= covered_bytes)
		return member_bytes;
	end = member_bytes / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES -
	      align_up(divide_up(room - covered_bytes, SHARES));
	return end > begin_bytes + covered_bytes ? end : begin_bytes + covered_bytes;
}

void
layout_grow(const struct area before[LAYOUT_AREAS], uint64_t member_bytes, uint32_t chunk_bytes,
	    uint64_t chunks_max, struct area after[LAYOUT_AREAS], uint64_t *data_bytes)
{
	const uint64_t begin = before[AREA_DATA - 1].offset_bytes;
	const uint64_t checksums = before[AREA_CHECKSUMS - 1].length_bytes;
	const uint64_t covered = checksums / CHECKSUM_BYTES * CHECKSUM_BLOCK_BYTES;
	uint64_t chunks;

	for (int i = 0; i < AREA_DATA; i++)
		after[i] = before[i];
	after[AREA_MORE_CHECKSUMS - 1] = (struct area){ 0 };
	*data_bytes = 0;
	if (member_bytes > MEMBER_BYTES_USED_MAX)
		member_bytes = MEMBER_BYTES_USED_MAX;
	if (member_bytes <= begin)
		return;
	chunks = (data_end(begin, covered, member_bytes) - begin) / chunk_bytes;
	if (chunks > chunks_max)
		chunks = chunks_max;
	*data_bytes = chunks * chunk_bytes;
	after[AREA_DATA - 1].length_bytes = *data_bytes;
	if (*data_bytes > covered)
		after[AREA_MORE_CHECKSUMS - 1] = (struct area){
			AREA_MORE_CHECKSUMS,
			align_up(begin + *data_bytes),
			align_up(checksum_bytes_of(*data_bytes) - checksums),
		};
}

uint64_t
layout_end_bytes(const struct area areas[LAYOUT_AREAS])
{
	const struct area *last = &areas[AREA_MORE_CHECKSUMS - 1];

	if (last->type == 0)
		last = &areas[AREA_DATA - 1];
	return last->offset_bytes + last->length_bytes;
}
