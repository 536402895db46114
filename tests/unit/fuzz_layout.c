/* Feeds arbitrary bytes to everything that decodes what a member holds.
 *
 * Input: one byte that says how, then the bytes.  Bits 1 and 2: superblock, region map, spare's mark, or
 * granules of lost extents.  With bit 0 the CRC is made right first, or nothing behind it would ever be
 * reached.  Without libFuzzer: fuzz_layout RUNS SEED mutates valid ones; fuzz_layout FILE... replays inputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pure/layout.h"
#include "pure/spare.h"
#include "state/lost.h"

#define BLOCK_BYTES 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "fuzz_layout: %s\n", what);
		abort();
	}
}

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

	require(!superblock_fault(superblock), "accepted with a fault");
	require(geometry_init(&geometry, superblock->level, superblock->member_count,
			      superblock->chunk_bytes, superblock->block_bytes,
			      superblock->data_bytes) == 0, "accepted without a geometry");
	require((geometry.rows + superblock->region_rows - 1) / superblock->region_rows <=
		LAYOUT_REGIONS_MAX, "accepted with too many regions");
	superblock_encode(superblock, again);
	require(superblock_decode(again, &read, NULL) == SUPERBLOCK_OK, "does not read back");
	require(read.data_bytes == superblock->data_bytes && read.epoch == superblock->epoch &&
		read.scrub_mismatches == superblock->scrub_mismatches &&
		memcmp(read.tracked, superblock->tracked, sizeof(read.tracked)) == 0,
		"reads back changed");
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		require(read.tracked[set].state == 0 || read.tracked[set].role < read.member_count,
			"tracks a role that isn't there");
}

static void
fuzz_superblock(const uint8_t *data, size_t size, bool seal)
{
	uint8_t *block = calloc(1, BLOCK_BYTES);	/* on the heap: ASan sees its end */
	struct superblock superblock;
	const char *reason;

	require(block, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	if (seal) {
		memcpy(block, "IRAID-SB", 8);
		memset(block + 8, 0, 4);
		put_crc(block + 8, crc32c(0, block, BLOCK_BYTES));
	}
	if (superblock_decode(block, &superblock, &reason) == SUPERBLOCK_OK)
		check_accepted(&superblock);
	else
		require(reason && reason[0], "refused without a reason");
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

	require(block && flags, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	int bad = map_block_decode(block, regions, number, uuid, flags);
	require(bad >= 0 && bad <= 8, "impossible number of bad granules");
	free(block);
	free(flags);
}

static void
fuzz_spare(const uint8_t *data, size_t size, bool seal)
{
	uint8_t *block = calloc(1, BLOCK_BYTES);
	uint8_t again[BLOCK_BYTES];
	struct spare_mark mark, read;

	require(block, "no memory");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	if (seal) {
		memcpy(block, "IRAID-SP", 8);
		memset(block + 8, 0, 4);
		put_crc(block + 8, crc32c(0, block, BLOCK_BYTES));
	}
	if (spare_decode(block, &mark) == SUPERBLOCK_OK) {
		spare_encode(&mark, again);
		require(spare_decode(again, &read) == SUPERBLOCK_OK &&
			memcmp(mark.member_uuid, read.member_uuid, 16) == 0 &&
			mark.member_bytes == read.member_bytes, "a spare does not read back");
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

	require(block, "no memory");
	require(geometry_init(&geometry, 5, 3, 8192, 512, 1000 * 8192) == 0, "geometry");
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	lost_init(&lost);
	for (uint32_t i = 0; i < 8; i++) {
		uint8_t *granule = block + i * LAYOUT_GRANULE_BYTES;

		if (seal)
			seal_granule(granule, i % 4);
		lost_load(&lost, i % 4, lost_uuid, granule, &geometry);
	}
	for (uint32_t i = 0; i < LOST_ENTRIES; i++)
		require(lost.states[i] != LOST_VALID ||
			(lost.entries[i].row + lost.entries[i].rows <= geometry.rows &&
			 lost.entries[i].column_begin < lost.entries[i].column_end &&
			 lost.entries[i].column_end <= geometry.chunk_bytes && lost.entries[i].role < 3),
			"an entry out of bounds was taken in");
	for (uint64_t row = lost_next_row(&lost, 0); row < geometry.rows; row = lost_next_row(&lost, row + 50))
		for (uint8_t role = 0; role < 3; role++)
			for (uint32_t from = 0; lost_next(&lost, row, role, from, &begin, &end, &flags); from = end)
				require(begin >= from && begin < end && end <= geometry.chunk_bytes &&
					lost_overlaps(&lost, row, role, begin, end), "no interval");
	require(lost_remove(&lost, 10, 900, 1, 512, 7680) == 0, "no room");
	require(!lost_overlaps(&lost, 500, 1, 512, 7680), "removed and still there");
	for (int rounds = 0; !lost_settled(&lost); rounds++) {
		require(rounds < 6, "never settles");
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
	case 0: fuzz_superblock(data + 1, size - 1, seal); break;
	case 1: fuzz_map(data + 1, size - 1); break;
	case 2: fuzz_spare(data + 1, size - 1, seal); break;
	case 3: fuzz_lost(data + 1, size - 1, seal); break;
	}
	return 0;
}

#ifndef IRAID_LIBFUZZER
static uint64_t random_state;

static uint32_t
random_below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % bound);
}

static void
valid_lost(uint8_t *input)
{
	static struct lost lost;

	for (uint32_t i = 0; i < 8; i++) {
		uint32_t left = random_below(30);

		lost_init(&lost);
		while (left-- > 0) {
			uint32_t begin = 512 * random_below(15);
			struct lost_extent extent = {
				random_below(900), 1 + random_below(100), begin,
				begin + 512 * (1 + random_below(16 - begin / 512)),
				(uint8_t)random_below(3), (uint8_t)random_below(2),
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
		.member_bytes = LAYOUT_MEMBER_BYTES_MIN << random_below(30),
		.block_bytes = random_below(2) ? 512 : 4096,
	};

	spare_encode(&mark, input + 1);
}

static void
valid_superblock(uint8_t *input)
{
	struct superblock superblock;

	memset(&superblock, 0, sizeof(superblock));
	strcpy(superblock.name, "fuzz");
	superblock.level = random_below(2) ? 5 : 0;
	superblock.member_count = (uint8_t)(3 + random_below(30));
	superblock.chunk_bytes = 4096u << random_below(9);
	superblock.block_bytes = random_below(2) ? 512 : 4096;
	superblock.member_bytes = LAYOUT_MEMBER_BYTES_MIN << random_below(30);
	for (int i = 0; i < superblock.member_count; i++) {
		superblock.member_uuids[i][0] = (uint8_t)(i + 1);
		superblock.member_states[i] = (uint8_t)(1 + random_below(3));
	}
	superblock.member_uuid[0] = 1;
	layout_compute(superblock.member_bytes, superblock.chunk_bytes, superblock.areas,
		       &superblock.data_bytes, &superblock.region_rows);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		static const uint8_t states[] = { MEMBER_REBUILDING, MEMBER_OUT_OF_DATE, MEMBER_FAULTY };

		if (random_below(2))
			continue;
		superblock.tracked[set].role = (uint8_t)random_below(superblock.member_count);
		superblock.tracked[set].state = states[random_below(3)];
		superblock.tracked[set].member_uuid[1] = (uint8_t)(set + 1);
	}
	superblock_encode(&superblock, input + 1);
}

/* Most edits go where fields are: the rest of a superblock is reserved. */
static void
mutate(uint8_t *bytes)
{
	static const uint8_t edges[] = { 0, 1, 2, 0x7f, 0x80, 0xfe, 0xff };

	for (uint32_t edits = 1 + random_below(4); edits > 0; edits--) {
		uint32_t at = random_below(random_below(8) ? 1408 : BLOCK_BYTES);
		uint32_t length = 1 + random_below(8);

		for (uint32_t i = at; i < at + length && i < BLOCK_BYTES; i++)
			bytes[i] = random_below(2) ? edges[random_below(sizeof(edges))]
						   : (uint8_t)random_below(256);
	}
}

static int
replay(const char *path)
{
	static uint8_t input[1 << 16];
	FILE *file = fopen(path, "rb");

	if (!file) {
		perror(path);
		return 1;
	}
	size_t size = fread(input, 1, sizeof(input), file);
	fclose(file);
	LLVMFuzzerTestOneInput(input, size);
	return 0;
}

int
main(int argc, char **argv)
{
	uint8_t input[1 + BLOCK_BYTES];
	char *end;
	unsigned long runs = argc > 1 ? strtoul(argv[1], &end, 10) : 0;

	if (argc < 2) {
		fprintf(stderr, "usage: %s RUNS SEED | FILE...\n", argv[0]);
		return 2;
	}
	if (*end != '\0') {
		int failed = 0;

		for (int i = 1; i < argc; i++)
			failed |= replay(argv[i]);
		return failed;
	}
	random_state = 0x9e3779b97f4a7c15ull ^ (argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	for (unsigned long i = 0; i < runs; i++) {
		static void (*const valid[])(uint8_t *) = {
			valid_superblock, valid_superblock, valid_spare, valid_lost
		};
		uint32_t kind = random_below(8) ? 0 : random_below(4);

		valid[kind](input);
		mutate(input + 1);
		input[0] = (uint8_t)(kind << 1 | (random_below(16) ? 1 : 0));
		LLVMFuzzerTestOneInput(input, 1 + (random_below(8) ? BLOCK_BYTES
								   : random_below(BLOCK_BYTES)));
	}
	return 0;
}
#endif
