/* Feeds arbitrary bytes to everything that decodes what a member holds.
 *
 * Input: one byte that says how, then the bytes.  With bit 0 the CRC is made right first, or
 * nothing behind it would ever be reached.  Without libFuzzer: fuzz_layout RUNS SEED mutates valid
 * superblocks and maps; fuzz_layout FILE... replays inputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pure/layout.h"

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
	require(read.data_bytes == superblock->data_bytes && read.epoch == superblock->epoch,
		"reads back changed");
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 2)
		fuzz_map(data + 1, size - 1);
	else
		fuzz_superblock(data + 1, size - 1, data[0] & 1);
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
valid_input(uint8_t *input)
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
	superblock_encode(&superblock, input + 1);
}

/* Most edits go where fields are: the rest of a superblock is reserved. */
static void
mutate(uint8_t *bytes)
{
	static const uint8_t edges[] = { 0, 1, 2, 0x7f, 0x80, 0xfe, 0xff };

	for (uint32_t edits = 1 + random_below(4); edits > 0; edits--) {
		uint32_t at = random_below(random_below(8) ? 1312 : BLOCK_BYTES);
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
		valid_input(input);
		mutate(input + 1);
		input[0] = (uint8_t)(random_below(16) ? 1 : random_below(4));
		LLVMFuzzerTestOneInput(input, 1 + (random_below(8) ? BLOCK_BYTES
								   : random_below(BLOCK_BYTES)));
	}
	return 0;
}
#endif
