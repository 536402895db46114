/* layout.h - the on-disk format: superblock, region table, region map.  Pure codec: bytes in,
 * structs out, no I/O.  docs/design/format.md is the reference with every field's offset.
 *
 * Member, from its first byte:
 *
 *   0        8 KiB         512 KiB           1 MiB      2 MiB   ...
 *   | zeros  | superblock A | superblock B |  region map | log | checksums | data ... | more checksums |
 *
 * Superblocks are 4 KiB each.  The copy written alternates (write_count even: A, odd: B), so a
 * torn write loses at most the newer one.  All areas are aligned to 1 MiB.
 *
 * The region map has one byte of flags per region (a power-of-two number of rows), packed into
 * granules of 512 bytes, each with its own CRC, so that a granule is whole or absent on any disk.
 */
#ifndef IRAID_LAYOUT_H
#define IRAID_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "geometry.h"

#define LAYOUT_VERSION 1u
#define LAYOUT_SUPERBLOCK_BYTES 4096u
#define LAYOUT_SUPERBLOCK_A_OFFSET (8u * 1024u)
#define LAYOUT_SUPERBLOCK_B_OFFSET (512u * 1024u)
/* zeros, written again to find out whether we may write */
#define LAYOUT_ASK_OFFSET (256u * 1024u)
#define LAYOUT_ASK_BYTES 4096u
#define LAYOUT_ALIGN_BYTES (1024u * 1024u)
#define LAYOUT_MEMBER_BYTES_MIN (16ull * 1024 * 1024)
#define LAYOUT_MAP_OFFSET (1024u * 1024u)
#define LAYOUT_MAP_BYTES (1024u * 1024u)
#define LAYOUT_MAP_BLOCK_BYTES 4096u /* unit of map I/O */
#define LAYOUT_GRANULE_BYTES 512u
#define LAYOUT_GRANULE_REGIONS 500u /* 12 bytes of header: crc32c, epoch (8) */
#define LAYOUT_REGIONS_PER_BLOCK (8u * LAYOUT_GRANULE_REGIONS)
#define LAYOUT_REGIONS_MAX 262144u
/* of a new volume at most: it can grow to twice its size, or more */
#define LAYOUT_REGIONS_NEW 131072u
#define LAYOUT_REGION_ROWS_DEFAULT 64u /* at least, where nobody asked for another size */
/* The table of lost extents stands in the map's area, behind the map. */
#define LAYOUT_LOST_OFFSET (LAYOUT_MAP_OFFSET + 512u * 1024u)
#define LAYOUT_LOST_GRANULES 256u /* of LAYOUT_GRANULE_BYTES */
#define LAYOUT_LOST_BYTES (LAYOUT_LOST_GRANULES * LAYOUT_GRANULE_BYTES)
#define LAYOUT_LOST_BLOCK_GRANULES (LAYOUT_MAP_BLOCK_BYTES / LAYOUT_GRANULE_BYTES)
#define LAYOUT_LOST_EMPTY UINT32_MAX /* all of its blocks, each a bit */
#define LAYOUT_LOST_ENTRIES 20u	     /* per granule: 16 bytes of header, 24 each */
/* Feature flags this release knows.  Unknown ones: compat is carried along; ro_compat and incompat
 * make a superblock SUPERBLOCK_UNSUPPORTED (a volume is always assembled for writing).
 */
#define LAYOUT_COMPAT_KNOWN UINT64_C(0)
#define LAYOUT_RO_COMPAT_KNOWN UINT64_C(0)
/* Records of the write log may be live (superblock.log_key): who does not replay them reads rows that
 * a crash has torn.
 */
#define LAYOUT_INCOMPAT_LOG UINT64_C(1)
#define LAYOUT_INCOMPAT_KNOWN LAYOUT_INCOMPAT_LOG
#define LAYOUT_NAME_MAX 63
#define LAYOUT_OWNER_MAX 63

/* Flags of one region. */
#define REGION_DIRTY                                                                               \
	0x01		      /* parity may differ from data: writes since the last flush on all
				 * members, or left so by an earlier epoch */
#define REGION_UNWRITTEN 0x02 /* no write since the volume was created: content is undefined */
/* Stale on the member that the superblock's tracked[set] names: written while it was out, or not
 * copied to it yet.  A member that returns copies these regions and no others.
 */
#define LAYOUT_STALE_SETS 4
#define REGION_STALE(set) ((uint8_t)(0x04u << (set)))
#define REGION_STALE_ANY 0x3Cu

/* as recorded in superblocks; values are on disk */
enum member_state {
	MEMBER_IN_SYNC = 1,
	MEMBER_FAULTY = 2,	/* evicted while the volume ran: hung, lost or failing */
	MEMBER_MISSING = 3,	/* absent when the volume was assembled */
	MEMBER_REBUILDING = 4,	/* is being filled; only in tracked[] */
	MEMBER_OUT_OF_DATE = 5, /* left the volume in order and may catch up; only in tracked[] */
	MEMBER_SPARE = 6,	/* waits; never on disk as a state, see spare.h */
};

/* A member that is not in sync, and what is known of what it lacks: the regions with
 * REGION_STALE(set).
 */
struct tracked_member {
	uint8_t member_uuid[16];
	uint8_t role;
	/* 0: the set is free; MEMBER_REBUILDING, MEMBER_OUT_OF_DATE, or MEMBER_FAULTY: not taken
	 * back without an administrator
	 */
	uint8_t state;
	/* The volume's when it left.  Its own superblock says a later one: it lived on without us,
	 * and nobody knows what it holds.  48 bits; 0: not known.
	 */
	uint64_t epoch;
	/* what its own superblock has at least, if it is honest; 0: not known */
	uint64_t write_count;
};

/* values are on disk */
enum scrub_mode {
	SCRUB_NONE = 0,
	SCRUB_CHECK = 1,
	SCRUB_REPAIR = 2,
};

/* values are on disk */
enum area_type {
	AREA_MAP = 1,
	AREA_LOG = 2,
	AREA_CHECKSUMS = 3,
	AREA_DATA = 4,
	/* of a volume that has grown, behind the data; else of type 0, absent */
	AREA_MORE_CHECKSUMS = 5,
};
#define LAYOUT_AREAS 5

struct area {
	uint32_t type;
	uint64_t offset_bytes;
	uint64_t length_bytes;
};

struct superblock {
	uint64_t features_compat; /* all three 0 for a new volume */
	uint64_t features_ro_compat;
	uint64_t features_incompat;
	uint64_t write_count; /* of this member's superblock; chooses copy A or B */
	uint8_t volume_uuid[16];
	uint8_t member_uuid[16];
	char name[LAYOUT_NAME_MAX + 1]; /* printable ASCII, not empty */
	uint8_t level;
	uint8_t member_count;
	uint8_t role; /* index of this member */
	bool clean;   /* the volume was stopped in order; false again from assembly on */
	uint32_t chunk_bytes;
	uint32_t block_bytes;
	uint32_t region_rows;  /* rows per region, power of two */
	uint64_t member_bytes; /* size of this member when it was formatted */
	uint64_t data_bytes;   /* of data area used on every member: rows * chunk */
	uint64_t epoch;	       /* assemblies */
	uint64_t event;	       /* superblock updates of the volume */
	uint64_t created_s;    /* Unix time */
	uint64_t updated_s;
	uint64_t resync_row;	   /* rows below it need no resync; informative, the map decides */
	uint64_t rebuild_row;	   /* reserved, 0: the region map says what is to be copied */
	uint64_t scrub_row;	   /* a scrub under way goes on from here */
	uint8_t scrub_mode;	   /* enum scrub_mode, of the scrub under way or of the last one */
	bool scrub_running;	   /* it goes on by itself after an assembly */
	uint64_t scrub_mismatches; /* of the scrub under way, or of the last one */
	char owner[LAYOUT_OWNER_MAX + 1]; /* gateway that has it; empty when clean */
	uint8_t member_uuids[IRAID_MEMBERS_MAX][16];
	uint8_t member_states[IRAID_MEMBERS_MAX]; /* enum member_state */
	struct area areas[LAYOUT_AREAS];	  /* areas[type - 1], ascending on the member */
	struct tracked_member tracked[LAYOUT_STALE_SETS];
	/* By role, of those in sync: what its own superblock has at least, for so much it
	 * acknowledged.  0: not known (0.1)
	 */
	uint64_t write_counts[IRAID_MEMBERS_MAX];
	/* Of a clean stop: roles that were missing, if what they held is known in every row, but
	 * for the table of lost extents: it is what the others make of it.  0: nothing of that kind
	 * is known (0.1, and whenever it is not clean)
	 */
	uint32_t recorded_roles;
	/* Bit b: block b of the table of lost extents (LAYOUT_MAP_BLOCK_BYTES) lists nothing, on
	 * any member.  0: may list something (0.1)
	 */
	uint32_t lost_empty;
	/* A cache was lost that no other member makes up for, and not everybody may have heard:
	 * flushes fail.  false: nothing of that kind is known (0.1)
	 */
	bool flushes_fail;
	/* Of the opening of the write log: every row fits, but for what a replay of its records
	 * writes.  0: no record counts.  With LAYOUT_INCOMPAT_LOG, and only so.
	 */
	uint64_t log_key;
	/* Roles that were missing when it was opened, and whose chunks are known: what the others
	 * make of them, but for the table of lost extents.
	 */
	uint32_t log_roles;
	/* ... and so it is if others are missing: no row was suspect */
	bool log_proven;
	/* Roles that are out, but its gateway may not remember that when it is started anew: it may
	 * run on with them.  Another gateway that takes the volume over needs their answer, too.
	 * 0: none (0.1)
	 */
	uint32_t undecided_roles;
	/* UUID of the device that is about to take a place, that has just lost it, or whose taking was
	 * called off: it may be trusted after a crash.  So is it to be asked.  Zeros: none (0.1)
	 */
	uint8_t other_holder[16];
};

enum superblock_verdict {
	SUPERBLOCK_OK,
	SUPERBLOCK_ABSENT,	/* no magic: not ours */
	SUPERBLOCK_CORRUPT,	/* magic but CRC or a field out of bounds */
	SUPERBLOCK_UNSUPPORTED, /* unknown incompat or ro_compat feature, or newer version */
};

/* What in it is out of bounds or contradicts itself, a static English text; NULL if nothing. */
const char *superblock_fault(const struct superblock *superblock);

/* Encode into out[LAYOUT_SUPERBLOCK_BYTES], CRC32C included.  Asserts that superblock_fault()
 * finds nothing, so that nothing is written that would be refused when read.
 */
void superblock_encode(const struct superblock *superblock, uint8_t *out);

/* Decode and check every field's bounds; never reads past LAYOUT_SUPERBLOCK_BYTES.
 * *out is written only for SUPERBLOCK_OK.  *reason, if not NULL, gets a static English text.
 */
enum superblock_verdict
superblock_decode(const uint8_t *in, struct superblock *out, const char **reason);

/* The newer valid one of two copies: by write_count (equal: A).  One good copy is enough, unless
 * the other is SUPERBLOCK_UNSUPPORTED (a newer release went on from there).  Two good copies
 * of different volumes or members are SUPERBLOCK_CORRUPT: whoever formats writes both.
 */
enum superblock_verdict superblock_choose(const uint8_t *copy_a, const uint8_t *copy_b,
					  struct superblock *out, const char **reason);

/* Where the next superblock write of write_count goes. */
uint64_t superblock_offset(uint64_t write_count);

/* Areas and usable data bytes (whole chunks) for members of at least member_bytes.  region_rows:
 * layout_region_rows() of the default.  chunk_bytes must be valid (asserted).  What a member has
 * beyond 2^55 bytes stays unused.  Returns 0, or -ENOSPC if the member is below
 * LAYOUT_MEMBER_BYTES_MIN.
 */
int layout_compute(uint64_t member_bytes, uint32_t chunk_bytes, struct area areas[LAYOUT_AREAS],
		   uint64_t *data_bytes, uint32_t *region_rows);

/* The same for a volume that exists, of whose members the smallest has member_bytes now: data
 * begins where it did, and so the map, the log and the first checksums stay.  chunks_max: of data
 * at most.  member_bytes that end before the data begins give 0 data bytes.
 */
void
layout_grow(const struct area before[LAYOUT_AREAS], uint64_t member_bytes, uint32_t chunk_bytes,
	    uint64_t chunks_max, struct area after[LAYOUT_AREAS], uint64_t *data_bytes);

/* Bytes that a member must have for them. */
uint64_t layout_end_bytes(const struct area areas[LAYOUT_AREAS]);

/* Rows per region: `wanted` (0: LAYOUT_REGION_ROWS_DEFAULT) made the next power of two, and doubled
 * until a volume of `rows` has at most LAYOUT_REGIONS_NEW regions.
 */
uint32_t layout_region_rows(uint64_t rows, uint32_t wanted);

/* Map I/O block `block` holds regions [block * LAYOUT_REGIONS_PER_BLOCK, ...).  Encode its
 * 4096 bytes from flags[0 .. regions) (the whole map's array); missing regions are 0.  All
 * eight granules get a valid CRC.
 */
void map_block_encode(const uint8_t *flags, uint32_t regions, uint32_t block, uint64_t epoch,
		      const uint8_t volume_uuid[16], uint8_t *out);

/* Decode one map block into its part of flags[0 .. regions).  A granule whose CRC (over the
 * volume's UUID, the granule's number and its content) is wrong makes its regions
 * REGION_DIRTY | REGION_STALE_ANY: nothing is assumed.  Returns the number of such granules.
 */
int map_block_decode(const uint8_t *in, uint32_t regions, uint32_t block,
		     const uint8_t volume_uuid[16], uint8_t *flags);

/* Is this granule of the map (512 bytes) whole and in its place? */
bool map_granule_valid(const uint8_t *in, uint32_t index, const uint8_t volume_uuid[16]);

/* CRC-32C as RFC 7143 and zlib-like tools have it: seed 0 starts, and
 * crc32c(crc32c(0, a), b) is the CRC of a followed by b.  crc32c(0, "123456789") is 0xe3069283.
 */
uint32_t crc32c(uint32_t seed, const void *data, size_t length_bytes);

#endif
