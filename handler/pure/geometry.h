/* geometry.h - where volume bytes live on the members.  Pure arithmetic: no I/O,
 * no allocation, no clock.
 *
 * A volume is an array of rows (stripes).  A row has `width` positions, one chunk each, on as many
 * members: positions 0 .. data_chunks-1 hold data, those behind it what makes up for lost ones
 * (code.h):
 *
 *	level	members	data_chunks	behind it		bears
 *	0	2..32	n		-			none
 *	1	2..4	1		n-1 copies of it	n-1
 *	5	3..32	n-1		P			1
 *	6	4..32	n-2		P, Q			2
 *	10	3..32	1		1 copy of it		1, and more where no row loses both
 *
 * Which member has a position is its role there.  Levels 5 and 6 are left-symmetric (3+1 and 2+2
 * shown), so sequential chunks visit all members in turn; levels 0 and 1 don't rotate:
 *
 *     member      0    1    2    3          0    1    2    3
 *     row 0       D0   D1   D2   P          Q    D0   D1   P
 *     row 1       D4   D5   P    D3         D2   D3   P    Q
 *     row 2       D8   P    D6   D7         D5   P    Q    D4
 *     row 3       P    D9   D10  D11        P    Q    D6   D7
 *
 * Level 10 is md's near layout with two copies.  Its rows are one chunk of data each, on two
 * members only, and the copies of an odd number of members stand at different offsets; even and odd
 * shown, the number is the row's:
 *
 *     member      0    1    2    3          0    1    2
 *     chunk 0     0    0    1    1          0    0    1
 *     chunk 1     2    2    3    3          1    2    2
 *     chunk 2     4    4    5    5          3    3    4
 */
#ifndef IRAID_GEOMETRY_H
#define IRAID_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#define IRAID_MEMBERS_MAX 32
#define IRAID_CHUNK_BYTES_MIN 4096u
#define IRAID_CHUNK_BYTES_MAX (1024u * 1024u)
#define IRAID_CHUNK_BYTES_DEFAULT (64u * 1024u)

struct geometry {
	uint8_t level; /* 0, 1, 5, 6, 10 */
	uint8_t members;
	uint8_t width;	      /* positions of a row */
	uint8_t data_chunks;  /* of a row */
	uint8_t redundancy;   /* width - data_chunks: chunks a row can lose */
	uint32_t chunk_bytes; /* power of two, 4 KiB .. 1 MiB */
	uint32_t block_bytes; /* logical block of the volume and of every member: 512 or 4096 */
	/* level 10: members * chunks / 2, rounded down; else chunks on each member */
	uint64_t rows;
};

struct extent { /* lies inside one chunk, so on one member */
	uint64_t row;
	uint64_t member_offset_bytes; /* from the start of the data area; of the first copy */
	uint32_t column_bytes;	      /* offset inside the chunk */
	uint32_t length_bytes;
	uint8_t chunk; /* its position, below data_chunks */
	uint8_t role;  /* of the first copy */
};

/* Fill *out for `members` members, each with data_bytes of data area (rounded down to
 * whole chunks).  Returns 0, or -EINVAL (*out untouched) for an unknown level, a member
 * count out of the level's range, a chunk that is no power of two in 4 KiB..1 MiB, a
 * block size other than 512 and 4096, or a data area of less than one chunk or more than
 * 2^58 - 1 bytes (so that no size or offset of a volume passes 2^63).
 */
int geometry_init(struct geometry *out, int level, int members, uint32_t chunk_bytes,
		  uint32_t block_bytes, uint64_t data_bytes);

/* What is wrong with this number of members for this level, or NULL. A static English text: "level
 * 6 needs 4 to 32 members".
 */
const char *geometry_fault(int level, int members);

uint64_t geometry_row_bytes(const struct geometry *geometry); /* of data */
uint64_t geometry_volume_bytes(const struct geometry *geometry);

/* First extent of [offset_bytes, offset_bytes + length_bytes), cut at its chunk's end.
 * Returns 0, or -ERANGE if the range is empty, wraps, or leaves the volume (*out untouched).
 */
int geometry_locate(const struct geometry *geometry, uint64_t offset_bytes, uint64_t length_bytes,
		    struct extent *out);

/* Role at `position` (0 .. width-1) of `row`. */
uint8_t geometry_role(const struct geometry *geometry, uint64_t row, uint8_t position);

/* Its inverse: position of `role` in `row`; -1 if that has no part in it (level 10). */
int geometry_position(const struct geometry *geometry, uint64_t row, uint8_t role);

/* Where the role's chunk of the row stands in the member's data area.  The role must have a part in
 * it.
 */
uint64_t geometry_offset(const struct geometry *geometry, uint64_t row, uint8_t role);

/* The lowest `count` positions, or roles, as bits; count: 0 to 32. */
uint32_t geometry_lowest(int count);
uint32_t geometry_data_positions(const struct geometry *geometry);
uint32_t geometry_redundant_positions(const struct geometry *geometry);

/* Roles (bits) -> positions of this row (bits). */
uint32_t geometry_positions(const struct geometry *geometry, uint64_t row, uint32_t roles);

/* Can the volume do without all of these roles (bits), in every row? */
bool geometry_bears(const struct geometry *geometry, uint32_t roles);

/* Are there two sets of members without one in common, each of which is enough? Then only the
 * gateway's memory of the epoch keeps those that are out from being started without those that are
 * in (DESIGN rule 7).
 */
bool geometry_can_split(const struct geometry *geometry);

/* The same, if one of those that are out had its place taken and all went at one time: a place then
 * has two devices that may both think they have it.
 */
bool geometry_can_split_replaced(const struct geometry *geometry);

/* The fewest members that it can run with, none of these (bits) among them. */
int geometry_least(const struct geometry *geometry, uint32_t out);

/* Of the members that are not out, so many that no set with which the volume could run is without
 * one of them, and that it can run with themselves: a gateway that takes it over must have these.
 */
int geometry_quorum(const struct geometry *geometry, uint32_t out);

/* Members it can do without whichever they are: 0 for level 0, n-1 for 1, 1 for 5 and 10, 2 for 6.
 */
int geometry_tolerated(const struct geometry *geometry);

#endif
