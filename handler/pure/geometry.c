/* geometry.c - where volume bytes live on the members; the picture is in geometry.h.
 *
 * Everything follows from two numbers of a row: the member of its parity, which steps down
 * by one with each row, and the member of its first data chunk, which is the next one up.
 */
#include "geometry.h"

#include <errno.h>

static bool
is_power_of_two(uint32_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

int
geometry_init(struct geometry *out, int level, int members, uint32_t chunk_bytes,
	      uint32_t block_bytes, uint64_t data_bytes)
{
	int parities;

	if (level == 0)
		parities = 0;
	else if (level == 5)
		parities = 1;
	else
		return -EINVAL;
	if (members < 2 + parities || members > IRAID_MEMBERS_MAX)
		return -EINVAL;
	if (!is_power_of_two(chunk_bytes) || chunk_bytes < IRAID_CHUNK_BYTES_MIN ||
	    chunk_bytes > IRAID_CHUNK_BYTES_MAX)
		return -EINVAL;
	if (block_bytes != 512 && block_bytes != 4096)
		return -EINVAL;
	if (data_bytes < chunk_bytes || data_bytes > (uint64_t)INT64_MAX / IRAID_MEMBERS_MAX)
		return -EINVAL;

	*out = (struct geometry){
		.level = (uint8_t)level,
		.members = (uint8_t)members,
		.parities = (uint8_t)parities,
		.data_chunks = (uint8_t)(members - parities),
		.chunk_bytes = chunk_bytes,
		.block_bytes = block_bytes,
		.rows = data_bytes / chunk_bytes,
	};
	return 0;
}

uint64_t
geometry_row_bytes(const struct geometry *geometry)
{
	return (uint64_t)geometry->data_chunks * geometry->chunk_bytes;
}

uint64_t
geometry_volume_bytes(const struct geometry *geometry)
{
	return geometry->rows * geometry_row_bytes(geometry);
}

int
geometry_parity_member(const struct geometry *geometry, uint64_t row)
{
	if (geometry->parities == 0)
		return -1;
	return geometry->members - 1 - (int)(row % geometry->members);
}

uint8_t
geometry_data_member(const struct geometry *geometry, uint64_t row, uint8_t chunk)
{
	/* Without parity this is -1 + 1 + chunk: no rotation. */
	return (uint8_t)((geometry_parity_member(geometry, row) + 1 + chunk) % geometry->members);
}

int
geometry_chunk_on_member(const struct geometry *geometry, uint64_t row, uint8_t member)
{
	int parity_member = geometry_parity_member(geometry, row);

	if (member == parity_member)
		return -1;
	return (member - (parity_member + 1) + geometry->members) % geometry->members;
}

int
geometry_locate(const struct geometry *geometry, uint64_t offset_bytes, uint64_t length_bytes,
		struct extent *out)
{
	uint64_t volume_bytes = geometry_volume_bytes(geometry);
	uint64_t row_bytes = geometry_row_bytes(geometry);

	if (length_bytes == 0 || offset_bytes >= volume_bytes ||
	    length_bytes > volume_bytes - offset_bytes)
		return -ERANGE;

	uint64_t row = offset_bytes / row_bytes;
	uint64_t in_row = offset_bytes % row_bytes;
	uint8_t chunk = (uint8_t)(in_row / geometry->chunk_bytes);
	uint32_t column_bytes = (uint32_t)(in_row % geometry->chunk_bytes);
	uint32_t left_bytes = geometry->chunk_bytes - column_bytes;

	*out = (struct extent){
		.row = row,
		.member_offset_bytes = row * geometry->chunk_bytes + column_bytes,
		.column_bytes = column_bytes,
		.length_bytes = length_bytes < left_bytes ? (uint32_t)length_bytes : left_bytes,
		.chunk = chunk,
		.member = geometry_data_member(geometry, row, chunk),
	};
	return 0;
}
