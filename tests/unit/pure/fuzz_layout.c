/* Feeds arbitrary bytes to everything that decodes what a member holds.
 *
 * Input: one byte that says how, then the bytes.  Bits 1 and 2: superblock, region map, spare's
 * mark, or granules of lost extents.  With bit 0 the CRC is made right first, or nothing behind it
 * would ever be reached.
 */
#include "../fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "pure/layout.h"
#include "pure/spare.h"
#include "state/lost.h"

#define BLOCK_BYTES 4096u

static void
put_crc(uint8_t *at, uint32_t crc)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(crc >> (8 * i));
}

/* Whatever is accepted can be used, written, and read again. */
static void
check_accepted(const struct superblock *superblock)
{
	uint8_t again[BLOCK_BYTES];
	struct superblock read;
	struct geometry geometry;

	fuzz_require(!superblock_fault(superblock), "accepted with a fault");
	fuzz_require(geometry_init(&geometry, superblock->level, superblock->member_count,
				   superblock->chunk_bytes, superblock->block_bytes,
				   superblock->data_bytes) == 0,
		     "accepted without a geometry");
	fuzz_require((geometry.rows + superblock->region_rows - 1) / superblock->region_rows <=
			     LAYOUT_REGIONS_MAX,
		     "accepted with too many regions");
	superblock_encode(superblock, again);
	fuzz_require(superblock_decode(again, &read, NULL) == SUPERBLOCK_OK, "does not read back");
	fuzz_require(read.data_bytes == superblock->data_bytes && read.epoch == superblock->epoch &&
			     read.scrub_mismatches == superblock->scrub_mismatches &&
			     memcmp(read.tracked, superblock->tracked, sizeof(read.tracked)) == 0,
		     "reads back changed");
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		fuzz_require(read.tracked[set].state == 0 ||
				     read.tracked[set].role < read.member_count,
			     "tracks a role that isn't there");
}

static void
fuzz_superblock(const uint8_t *data, size_t size, bool seal)
{
	uint8_t *block = calloc(1, BLOCK_BYTES); /* on the heap: ASan sees its end */
	struct superblock superblock;
	const char *reason;

	fuzz_require(block, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	if (seal) {
		memcpy(block, "IRAID-SB", 8);
		memset(block + 8, 0, 4);
		put_crc(block + 8, crc32c(0, block, BLOCK_BYTES));
	}
	if (superblock_decode(block, &superblock, &reason) == SUPERBLOCK_OK)
		check_accepted(&superblock);
	else
		fuzz_require(reason && reason[0], "refused without a reason");
	superblock_choose(block, block, &superblock, &reason);
	free(block);
}

static void
fuzz_map(const uint8_t *data, size_t size)
{
	static const uint8_t uuid[16] = { 0x42 };
	uint8_t *block = calloc(1, BLOCK_BYTES);
	uint32_t regions = 1, number = 0;

	if (size >= 4) {
		regions = (data[0] | data[1] << 8 | data[2] << 16) % LAYOUT_REGIONS_MAX;
		number = data[3];
	}
	uint8_t *flags = malloc(regions + 1);

	fuzz_require(block && flags, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	int bad = map_block_decode(block, regions, number, uuid, flags);
	fuzz_require(bad >= 0 && bad <= 8, "impossible number of bad granules");
	free(block);
	free(flags);
}

static void
fuzz_spare(const uint8_t *data, size_t size, bool seal)
{
	uint8_t *block = calloc(1, BLOCK_BYTES);
	uint8_t again[BLOCK_BYTES];
	struct spare_mark mark, read;

	fuzz_require(block, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	if (seal) {
		memcpy(block, "IRAID-SP", 8);
		memset(block + 8, 0, 4);
		put_crc(block + 8, crc32c(0, block, BLOCK_BYTES));
	}
	if (spare_decode(block, &mark) == SUPERBLOCK_OK) {
		spare_encode(&mark, again);
		fuzz_require(spare_decode(again, &read) == SUPERBLOCK_OK &&
				     memcmp(mark.member_uuid, read.member_uuid, 16) == 0 &&
				     mark.member_bytes == read.member_bytes,
			     "a spare does not read back");
	}
	free(block);
}

static const uint8_t lost_uuid[16] = { 0x17 };

static void
seal_granule(uint8_t *granule, uint32_t number)
{
	uint8_t place[4];
	uint32_t crc = crc32c(0, lost_uuid, 16);

	put_crc(place, number);
	crc = crc32c(crc, place, 4);
	put_crc(granule, crc32c(crc, granule + 4, LAYOUT_GRANULE_BYTES - 4));
}

/* Eight granules: two members' tables of the same four, which may contradict each other. */
static void
fuzz_lost(const uint8_t *data, size_t size, bool seal)
{
	static struct lost lost;
	struct geometry geometry;
	uint8_t *block = calloc(1, BLOCK_BYTES);
	uint32_t number, begin, end;
	uint8_t flags;

	fuzz_require(block, "no memory");
	fuzz_require(geometry_init(&geometry, 5, 3, 8192, 512, 1000 * 8192) == 0, "geometry");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	lost_init(&lost);
	for (uint32_t i = 0; i < 8; i++) {
		uint8_t *granule = block + i * LAYOUT_GRANULE_BYTES;

		if (seal)
			seal_granule(granule, i % 4);
		lost_load(&lost, i % 4, lost_uuid, granule, &geometry);
	}
	for (uint32_t i = 0; i < LOST_ENTRIES; i++)
		fuzz_require(lost.states[i] != LOST_VALID ||
				     (lost.entries[i].row + lost.entries[i].rows <= geometry.rows &&
				      lost.entries[i].column_begin < lost.entries[i].column_end &&
				      lost.entries[i].column_end <= geometry.chunk_bytes &&
				      lost.entries[i].role < 3),
			     "an entry out of bounds was taken in");
	for (uint64_t row = lost_next_row(&lost, 0); row < geometry.rows;
	     row = lost_next_row(&lost, row + 50))
		for (uint8_t role = 0; role < 3; role++)
			for (uint32_t from = 0;
			     lost_next(&lost, row, role, from, &begin, &end, &flags); from = end)
				fuzz_require(begin >= from && begin < end &&
						     end <= geometry.chunk_bytes &&
						     lost_overlaps(&lost, row, role, begin, end),
					     "no interval");
	fuzz_require(lost_remove(&lost, 10, 900, 1, 512, 7680) == 0, "no room");
	fuzz_require(!lost_overlaps(&lost, 500, 1, 512, 7680), "removed and still there");
	for (int rounds = 0; !lost_settled(&lost); rounds++) {
		fuzz_require(rounds < 6, "never settles");
		while (lost_take_dirty(&lost, &number))
			lost_encode(&lost, number, 1, lost_uuid, block);
		lost_written(&lost);
	}
	free(block);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool seal = size > 0 && data[0] & 1;

	if (size == 0)
		return 0;
	switch (data[0] >> 1 & 3) {
	case 0:
		fuzz_superblock(data + 1, size - 1, seal);
		break;
	case 1:
		fuzz_map(data + 1, size - 1);
		break;
	case 2:
		fuzz_spare(data + 1, size - 1, seal);
		break;
	case 3:
		fuzz_lost(data + 1, size - 1, seal);
		break;
	}
	return 0;
}

/* --- inputs: valid ones, mutated --- */

static void
valid_lost(uint8_t *input)
{
	static struct lost lost;

	for (uint32_t i = 0; i < 8; i++) {
		uint32_t left = fuzz_below(30);

		lost_init(&lost);
		while (left-- > 0) {
			uint32_t begin = 512 * fuzz_below(15);
			struct lost_extent extent = {
				fuzz_below(900),
				1 + fuzz_below(100),
				begin,
				begin + 512 * (1 + fuzz_below(16 - begin / 512)),
				(uint8_t)fuzz_below(3),
				(uint8_t)fuzz_below(2),
			};

			lost_add(&lost, &extent);
		}
		lost_encode(&lost, 0, 1, lost_uuid, input + 1 + i * LAYOUT_GRANULE_BYTES);
	}
}

static void
valid_spare(uint8_t *input)
{
	struct spare_mark mark = {
		.member_bytes = LAYOUT_MEMBER_BYTES_MIN << fuzz_below(30),
		.block_bytes = fuzz_below(2) ? 512 : 4096,
	};

	spare_encode(&mark, input + 1);
}

static void
valid_superblock(uint8_t *input)
{
	struct superblock superblock;

	memset(&superblock, 0, sizeof(superblock));
	strcpy(superblock.name, "fuzz");
	superblock.level = fuzz_below(2) ? 5 : 0;
	superblock.member_count = (uint8_t)(3 + fuzz_below(30));
	superblock.chunk_bytes = 4096u << fuzz_below(9);
	superblock.block_bytes = fuzz_below(2) ? 512 : 4096;
	superblock.member_bytes = LAYOUT_MEMBER_BYTES_MIN << fuzz_below(30);
	for (int i = 0; i < superblock.member_count; i++) {
		superblock.member_uuids[i][0] = (uint8_t)(i + 1);
		superblock.member_states[i] = (uint8_t)(1 + fuzz_below(3));
	}
	superblock.member_uuid[0] = 1;
	layout_compute(superblock.member_bytes, superblock.chunk_bytes, superblock.areas,
		       &superblock.data_bytes, &superblock.region_rows);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		static const uint8_t states[] = { MEMBER_REBUILDING, MEMBER_OUT_OF_DATE,
						  MEMBER_FAULTY };

		if (fuzz_below(2))
			continue;
		superblock.tracked[set].role = (uint8_t)fuzz_below(superblock.member_count);
		superblock.tracked[set].state = states[fuzz_below(3)];
		superblock.tracked[set].member_uuid[1] = (uint8_t)(set + 1);
	}
	superblock_encode(&superblock, input + 1);
}

/* Most edits go where fields are: the rest of a superblock is reserved. */
static void
mutate(uint8_t *bytes)
{
	static const uint8_t edges[] = { 0, 1, 2, 0x7f, 0x80, 0xfe, 0xff };

	for (uint32_t edits = 1 + fuzz_below(4); edits > 0; edits--) {
		uint32_t at = fuzz_below(fuzz_below(8) ? 1408 : BLOCK_BYTES);
		uint32_t length = 1 + fuzz_below(8);

		for (uint32_t i = at; i < at + length && i < BLOCK_BYTES; i++)
			bytes[i] = fuzz_below(2) ? edges[fuzz_below(sizeof(edges))]
						 : (uint8_t)fuzz_below(256);
	}
}

size_t
fuzz_make(uint8_t *input)
{
	static void (*const valid[])(uint8_t *) = { valid_superblock, valid_superblock, valid_spare,
						    valid_lost };
	uint32_t kind = fuzz_below(8) ? 0 : fuzz_below(4);

	valid[kind](input);
	mutate(input + 1);
	input[0] = (uint8_t)(kind << 1 | (fuzz_below(16) ? 1 : 0));
	return 1 + (fuzz_below(8) ? BLOCK_BYTES : fuzz_below(BLOCK_BYTES));
}
