/* geometry.c - where volume bytes live on the members; the pictures are in geometry.h.
 *
 * Levels 5 and 6 follow from one number of a row: the member of its P, which steps down by one
 * with each row.  Q stands on the next one up, the first data chunk on the one after it; this is
 * what md calls left-symmetric.  Level 10 follows from another: copy c of row r takes slot 2r + c,
 * and slots are dealt to the members in turn, which is md's near layout.
 */
#include "geometry.h"
#include "mutant.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#define COPIES_NEAR 2 /* of a chunk on level 10 */

static const struct level {
	int level;
	int members_min;
	int members_max;
	int redundancy; /* -1: all members but one */
	const char *fault;
} levels[] = {
	{ 0, 2, IRAID_MEMBERS_MAX, 0, "level 0 needs 2 to 32 members" },
	{ 1, 2, 4, -1, "level 1 needs 2 to 4 members" },
	{ 5, 3, IRAID_MEMBERS_MAX, 1, "level 5 needs 3 to 32 members" },
	{ 6, 4, IRAID_MEMBERS_MAX, 2, "level 6 needs 4 to 32 members" },
	{ 10, 3, IRAID_MEMBERS_MAX, COPIES_NEAR - 1, "level 10 needs 3 to 32 members" },
};
_Static_assert(IRAID_MEMBERS_MAX == 32, "the texts above and the sets of 32 bits say so");

static const struct level *
find_level(int level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (levels[i].level == level)
			return &levels[i];
	return NULL;
}

const char *
geometry_fault(int level, int members)
{
	const struct level *known = find_level(level);

	if (known == NULL)
		return "the level must be 0, 1, 5, 6 or 10";
	return members < known->members_min || members > known->members_max ? known->fault : NULL;
}

static bool
is_power_of_two(uint32_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

int
geometry_init(struct geometry *out, int level, int members, uint32_t chunk_bytes,
	      uint32_t block_bytes, uint64_t data_bytes)
{
	if (geometry_fault(level, members) != NULL)
		return -EINVAL;
	if (!is_power_of_two(chunk_bytes) || chunk_bytes < IRAID_CHUNK_BYTES_MIN ||
	    chunk_bytes > IRAID_CHUNK_BYTES_MAX)
		return -EINVAL;
	if (block_bytes != 512 && block_bytes != 4096)
		return -EINVAL;
	if (data_bytes < chunk_bytes || data_bytes > (uint64_t)INT64_MAX / IRAID_MEMBERS_MAX)
		return -EINVAL;

	int redundancy = find_level(level)->redundancy;
	int width = level == 10 ? COPIES_NEAR : members;
	uint64_t chunks = data_bytes / chunk_bytes;

	if (redundancy < 0)
		redundancy = members - 1;
	*out = (struct geometry){
		.level = (uint8_t)level,
		.members = (uint8_t)members,
		.width = (uint8_t)width,
		.data_chunks = (uint8_t)(width - redundancy),
		.redundancy = (uint8_t)redundancy,
		.chunk_bytes = chunk_bytes,
		.block_bytes = block_bytes,
		.rows = level == 10 ? chunks * (uint64_t)members / COPIES_NEAR : chunks,
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

/* A row takes `width` members in turn from this one on. */
static unsigned int
origin(const struct geometry *geometry, uint64_t row)
{
	switch (geometry->level) {
	case 5:
	case 6:
		return geometry->members - 1u - (unsigned int)(row % geometry->members);
	case 10:
		return (unsigned int)(row * COPIES_NEAR % geometry->members);
	default:
		return 0;
	}
}

/* Positions that come before the data in that order: P and Q. */
static unsigned int
leading(const struct geometry *geometry)
{
	return geometry->level == 5 || geometry->level == 6 ? geometry->redundancy : 0;
}

uint8_t
geometry_role(const struct geometry *geometry, uint64_t row, uint8_t position)
{
	assert(position < geometry->width);
	unsigned int steps = (position + leading(geometry)) % geometry->width;

	return (uint8_t)((origin(geometry, row) + steps) % geometry->members);
}

int
geometry_position(const struct geometry *geometry, uint64_t row, uint8_t role)
{
	assert(role < geometry->members);
	unsigned int steps = (role + geometry->members - origin(geometry, row)) % geometry->members;

	if (steps >= geometry->width)
		return -1;
	return (int)((steps + geometry->width - leading(geometry)) % geometry->width);
}

uint64_t
geometry_offset(const struct geometry *geometry, uint64_t row, uint8_t role)
{
	int position = geometry_position(geometry, row, role);

	assert(position >= 0 && "the role has no part in the row");
	if (geometry->level != 10)
		return row * geometry->chunk_bytes;
	return (row * COPIES_NEAR + (uint64_t)position) / geometry->members * geometry->chunk_bytes;
}

uint32_t
geometry_lowest(int count)
{
	return count > 0 ? UINT32_MAX >> (32 - count) : 0;
}

uint32_t
geometry_data_positions(const struct geometry *geometry)
{
	return geometry_lowest(geometry->data_chunks);
}

uint32_t
geometry_redundant_positions(const struct geometry *geometry)
{
	return geometry_lowest(geometry->width) & ~geometry_data_positions(geometry);
}

uint32_t
geometry_positions(const struct geometry *geometry, uint64_t row, uint32_t roles)
{
	uint32_t positions = 0;

	for (uint8_t position = 0; roles != 0 && position < geometry->width; position++)
		positions |= (roles >> geometry_role(geometry, row, position) & 1u) << position;
	return positions;
}

static bool
row_bears(const struct geometry *geometry, uint64_t row, uint32_t roles)
{
	return __builtin_popcount(geometry_positions(geometry, row, roles)) <= geometry->redundancy;
}

bool
geometry_bears(const struct geometry *geometry, uint32_t roles)
{
	/* Level 10's rows repeat their members after `members` rows; all others' are on all. */
	uint64_t rows = geometry->level == 10 ? geometry->members : 1;

	for (uint64_t row = 0; row < rows && row < geometry->rows; row++)
		if (!row_bears(geometry, row, roles))
			return false;
	return true;
}

/* Of a ring in which no two neighbours can go (level 10, an odd number), most can go if each goes
 * that can, in turn, beginning behind one that has gone.
 */
int
geometry_least(const struct geometry *geometry, uint32_t out)
{
	const int first = out != 0 ? __builtin_ctz(out) : 0;
	int left = geometry->members - __builtin_popcount(out);

	for (int i = 0; i < geometry->members; i++) {
		const uint32_t role = 1u << (first + i) % geometry->members;

		if ((out & role) || !geometry_bears(geometry, out | role))
			continue;
		out |= role;
		left--;
	}
	return left;
}

int
geometry_quorum(const struct geometry *geometry, uint32_t out)
{
	const int there = geometry->members - __builtin_popcount(out);
	const int least = geometry_least(geometry, out);

	return there - least + 1 > least && !MUTANT(MAJORITY_IGNORED) ? there - least + 1 : least;
}

int
geometry_tolerated(const struct geometry *geometry)
{
	return geometry->redundancy;
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
	uint8_t role = geometry_role(geometry, row, chunk);

	*out = (struct extent){
		.row = row,
		.member_offset_bytes = geometry_offset(geometry, row, role) + column_bytes,
		.column_bytes = column_bytes,
		.length_bytes = length_bytes < left_bytes ? (uint32_t)length_bytes : left_bytes,
		.chunk = chunk,
		.role = role,
	};
	return 0;
}

bool
geometry_can_split(const struct geometry *geometry)
{
	switch (geometry->level) {
	case 1:
		return true;
	case 6:
		return geometry->members == 4;
	case 10:
		return geometry->members % 2 == 0;
	default:
		return false;
	}
}

bool
geometry_can_split_replaced(const struct geometry *geometry)
{
	switch (geometry->level) {
	case 1:
	case 10:
		return true;
	case 5:
		return geometry->members == 3;
	case 6:
		return geometry->members <= 5;
	default:
		return false;
	}
}
