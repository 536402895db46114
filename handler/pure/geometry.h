/* geometry.h - where volume bytes live on the members.  Pure arithmetic: no I/O,
 * no allocation, no clock.
 *
 * A volume is an array of rows (stripes).  A row holds `data_chunks` chunks of data
 * and `parities` of parity, one chunk per member, all at the same offset of the
 * members' data areas.  Level 5 is left-symmetric; 3+1 shown, P is parity:
 *
 *     member      0    1    2    3
 *     row 0       D0   D1   D2   P
 *     row 1       D4   D5   P    D3
 *     row 2       D8   P    D6   D7
 *     row 3       P    D9   D10  D11
 *
 * so the first data chunk of a row stands on the member after the parity's, and
 * sequential chunks visit all members in turn.  Level 0 has no parity and no
 * rotation: chunk k of every row is on member k.
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
	uint8_t level;		/* 0 or 5 */
	uint8_t members;	/* 0: 2..32, 5: 3..32 */
	uint8_t parities;	/* members a row can lose: 0, or 1 for level 5 */
	uint8_t data_chunks;	/* members - parities */
	uint32_t chunk_bytes;	/* power of two, 4 KiB .. 1 MiB */
	uint32_t block_bytes;	/* logical block of the volume and of every member: 512 or 4096 */
	uint64_t rows;		/* chunks on each member */
};

struct extent {			/* lies inside one chunk, so on one member */
	uint64_t row;
	uint64_t member_offset_bytes;	/* from the start of the data area */
	uint32_t column_bytes;		/* offset inside the chunk */
	uint32_t length_bytes;
	uint8_t chunk;			/* index of the data chunk in its row */
	uint8_t member;
};

/* Fill *out for `members` members, each with data_bytes of data area (rounded down to
 * whole chunks).  Returns 0, or -EINVAL (*out untouched) for an unknown level, a member
 * count out of the level's range, a chunk that is no power of two in 4 KiB..1 MiB, a
 * block size other than 512 and 4096, or a data area of less than one chunk or more than
 * 2^58 - 1 bytes (so that no size or offset of a volume passes 2^63).
 */
int geometry_init(struct geometry *out, int level, int members, uint32_t chunk_bytes,
		  uint32_t block_bytes, uint64_t data_bytes);

uint64_t geometry_row_bytes(const struct geometry *geometry);	/* of data */
uint64_t geometry_volume_bytes(const struct geometry *geometry);

/* First extent of [offset_bytes, offset_bytes + length_bytes), cut at its chunk's end.
 * Returns 0, or -ERANGE if the range is empty, wraps, or leaves the volume (*out untouched).
 */
int geometry_locate(const struct geometry *geometry, uint64_t offset_bytes,
		    uint64_t length_bytes, struct extent *out);

/* Member that holds data chunk `chunk` (0 .. data_chunks-1) of `row`. */
uint8_t geometry_data_member(const struct geometry *geometry, uint64_t row, uint8_t chunk);

/* Member that holds the parity of `row`; -1 on a level without parity. */
int geometry_parity_member(const struct geometry *geometry, uint64_t row);

/* Inverse of geometry_data_member: data chunk of `row` on `member`; -1 if it holds parity. */
int geometry_chunk_on_member(const struct geometry *geometry, uint64_t row, uint8_t member);

#endif
