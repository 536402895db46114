/* sim_format.c - shapes of volumes, and their media at the beginning. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* of all members, about: what is read again and again has to be small */
#define VOLUME_ROWS_BYTES (3u << 20)
#define MAP_BLOCKS 2u
/* some have more than LAYOUT_REGIONS_PER_BLOCK rows of 4 KiB */
#define MANY_REGIONS_MEMBER_BYTES (26ull << 20)

static void
draw_many_members(struct sim *sim)
{
	uint64_t random = ability_random(sim, ABILITY_MANY_MEMBERS);

	if (sim->level != 1)
		sim->count = (int)random_between(
			&random, sim_can(sim, ABILITY_SHORT_MEMORY) ? 10 : 6, SIM_MEMBERS_MAX);
}

static void
draw_large_chunks(struct sim *sim)
{
	uint64_t random = ability_random(sim, ABILITY_LARGE_CHUNKS);

	sim->chunk_bytes = 128u << 10 << fake_random(&random) % 4;
	sim->rows = random_between(&random, 6, 10);
}

/* Room for several pieces. */
static void
draw_long_requests(struct sim *sim)
{
	uint64_t random = ability_random(sim, ABILITY_LONG_REQUESTS);
	uint64_t data = sim->level == 0	   ? (uint64_t)sim->count
			: sim->level == 10 ? 1
			: sim->level == 1  ? 1
					   : (uint64_t)sim->count - (sim->level == 6 ? 2 : 1);

	if (sim->chunk_bytes < 16384)
		sim->chunk_bytes = 16384u << fake_random(&random) % 4;
	sim->rows =
		random_between(&random, 9ull << 20, 11ull << 20) / (data * sim->chunk_bytes) + 1;
	if (sim->level == 10)
		sim->rows = sim->rows * 2 / (uint64_t)sim->count + 1;
	if (sim->rows < 8)
		sim->rows = 8;
}

/* A chunk that is made from the others takes a large part of the arena, if there are many others.
 */
static void
draw_short_memory(struct sim *sim)
{
	uint64_t random = ability_random(sim, ABILITY_SHORT_MEMORY);

	sim->chunk_bytes = 128u << 10 << fake_random(&random) % 2;
	sim->rows = random_between(&random, 8, 14);
}

/* Often just below the end of a granule, so that growing makes one more. */
static void
draw_many_regions(struct sim *sim)
{
	uint64_t random = ability_random(sim, ABILITY_MANY_REGIONS);
	uint64_t granules = random_once_in(&random, 6) ? random_between(&random, 8, 10)
						       : random_between(&random, 1, 3);

	sim->chunk_bytes = 4096;
	sim->region_rows = 1;
	sim->member_bytes = MANY_REGIONS_MEMBER_BYTES;
	sim->zeroed = !random_once_in(&random, 4);
	sim->rows = granules * LAYOUT_GRANULE_REGIONS;
	if (random_once_in(&random, 2))
		sim->rows -= random_between(&random, 0, 60);
	else
		sim->rows += random_between(&random, 1, 400);
	if (sim->level == 10)
		sim->rows = sim->rows * 2 / (uint64_t)sim->count;
}

void
format_draw_shape(struct sim *sim)
{
	static const uint32_t chunks[] = { 4096, 4096, 8192, 16384, 65536 };
	uint64_t rows;

	static const struct {
		int level, least, most;
	} levels[] = {
		{ 0, 2, 6 }, { 1, 2, 4 }, { 5, 3, 6 }, { 5, 3, 6 }, { 6, 4, 6 }, { 10, 3, 6 },
	};
	uint64_t draw = fake_random(&sim->random) % 6;

	while (sim->options.level >= 0 && levels[draw].level != sim->options.level)
		draw = (draw + 1) % 6;
	sim->level = levels[draw].level;
	sim->count = (int)random_between(&sim->random, (uint64_t)levels[draw].least,
					 (uint64_t)levels[draw].most);
	if (sim_can(sim, ABILITY_MANY_MEMBERS) || sim_can(sim, ABILITY_SHORT_MEMORY))
		draw_many_members(sim);
	sim->slots = sim->count + (int)random_between(&sim->random, 0, 4);
	sim->chunk_bytes = chunks[fake_random(&sim->random) % 5];
	sim->block_bytes = random_once_in(&sim->random, 4) ? 4096 : 512;
	rows = VOLUME_ROWS_BYTES / (sim->chunk_bytes * (uint32_t)sim->count);
	sim->rows = random_between(&sim->random, rows / 3 + 6, rows + 6);
	sim->member_bytes = SIM_MEMBER_BYTES;
	sim->zeroed = random_once_in(&sim->random, 3);
	if (sim_can(sim, ABILITY_LARGE_CHUNKS))
		draw_large_chunks(sim);
	if (sim_can(sim, ABILITY_SHORT_MEMORY))
		draw_short_memory(sim);
	else if (sim_can(sim, ABILITY_LONG_REQUESTS))
		draw_long_requests(sim);
	else if (sim_can(sim, ABILITY_MANY_REGIONS))
		draw_many_regions(sim);
	sim->member_bytes_max = sim->member_bytes + SIM_MEMBER_GROWTH_BYTES;
}

static void
format_member(struct sim *sim, int m, struct superblock shared, const uint8_t *map)
{
	struct disk *disk = &sim->members[m].disk;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	shared.role = (uint8_t)sim->roles[m];
	memcpy(shared.member_uuid, shared.member_uuids[shared.role], 16);
	for (shared.write_count = 1; shared.write_count <= 2; shared.write_count++) {
		superblock_encode(&shared, block);
		disk_write(disk, superblock_offset(shared.write_count), block, sizeof(block), true);
	}
	disk_write(disk, LAYOUT_MAP_OFFSET, map, MAP_BLOCKS * LAYOUT_MAP_BLOCK_BYTES, true);
	if (!sim->zeroed)
		disk->rubbish_from = sim->data_offset;
	disk->rubbish_seed = random_stream(sim->options.seed, (uint64_t)m + 1000);
}

/* Another volume's superblock, on a disk that must never be written to. */
static void
format_foreign(struct sim *sim, struct superblock shared)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	disk_init(&sim->foreign, sim->member_bytes_max, sim->block_bytes);
	memset(shared.volume_uuid, 0x99, 16);
	memcpy(shared.member_uuid, shared.member_uuids[shared.role], 16);
	superblock_encode(&shared, block);
	disk_write(&sim->foreign, LAYOUT_SUPERBLOCK_A_OFFSET, block, sizeof(block), true);
	disk_write(&sim->foreign, LAYOUT_SUPERBLOCK_B_OFFSET, block, sizeof(block), true);
}

/* Members in any order, some devices between them as spares, some not given to the volume yet. */
static void
place_devices(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++) {
		sim->roles[m] = m < sim->count ? m : -1;
		sim->slot_of[m] = 0;
	}
	for (int m = sim->slots - 1; m > 0; m--) {
		int other = (int)(fake_random(&sim->random) % (uint64_t)(m + 1));
		int role = sim->roles[m];

		sim->roles[m] = sim->roles[other];
		sim->roles[other] = role;
	}
	for (int m = 0; m < sim->slots; m++) {
		if (sim->roles[m] >= 0)
			sim->holder[sim->roles[m]] = m;
		else if (sim->level == 0 || random_once_in(&sim->random, 2))
			sim->slot_of[m] = -1;
	}
}

/* What it is when all its devices are as large as they can become. */
static void
draw_most(struct sim *sim)
{
	struct geometry geometry;

	if (geometry_init(&geometry, sim->level, sim->count, sim->chunk_bytes, sim->block_bytes,
			  sim->member_bytes_max - sim->data_offset) != 0)
		abort();
	sim->rows_max = geometry.rows;
	sim->sectors_max = geometry_volume_bytes(&geometry) / PATTERN_SECTOR;
}

void
format_media(struct sim *sim)
{
	struct superblock shared = {
		.level = (uint8_t)sim->level,
		.member_count = (uint8_t)sim->count,
		.chunk_bytes = sim->chunk_bytes,
		.block_bytes = sim->block_bytes,
		.member_bytes = sim->member_bytes,
		.epoch = 1,
		.lost_empty = LAYOUT_LOST_EMPTY,
		.name = "sim",
	};
	uint8_t map[MAP_BLOCKS * LAYOUT_MAP_BLOCK_BYTES];
	uint8_t flags[MAP_BLOCKS * LAYOUT_REGIONS_PER_BLOCK];
	uint64_t room;

	if (layout_compute(sim->member_bytes, sim->chunk_bytes, shared.areas, &room,
			   &shared.region_rows) != 0)
		abort();
	/* Chunks of a member, until the geometry makes rows of them.  They stand at its end, so
	 * that it is full, almost.
	 */
	if (sim->rows * sim->chunk_bytes > room)
		sim->rows = room / sim->chunk_bytes;
	shared.data_bytes = sim->rows * sim->chunk_bytes;
	shared.areas[AREA_DATA - 1].offset_bytes =
		(sim->member_bytes - shared.data_bytes) / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES;
	shared.areas[AREA_DATA - 1].length_bytes = shared.data_bytes;
	sim->data_offset = shared.areas[AREA_DATA - 1].offset_bytes;
	if (geometry_init(&sim->geometry, sim->level, sim->count, sim->chunk_bytes,
			  sim->block_bytes, shared.data_bytes) != 0)
		abort();
	sim->rows = sim->geometry.rows;
	shared.region_rows =
		layout_region_rows(sim->rows, (uint32_t)1 << random_between(&sim->random, 2, 6));
	if (sim->region_rows == 1)
		shared.region_rows = 1;
	sim->region_rows = shared.region_rows;
	sim->sectors = geometry_volume_bytes(&sim->geometry) / PATTERN_SECTOR;
	sim->sectors_formatted = sim->sectors;
	sim->epoch_recorded = shared.epoch; /* as who creates a volume does */
	draw_most(sim);
	memcpy(shared.volume_uuid, sim->engine_options.volume_uuid, 16);
	for (int i = 0; i < sim->count; i++) {
		memset(shared.member_uuids[i], 0x40 + i, 16);
		shared.member_states[i] = MEMBER_IN_SYNC;
	}
	place_devices(sim);
	memset(flags,
	       sim->level == 0 ? 0
	       : sim->zeroed   ? REGION_UNWRITTEN
			       : REGION_DIRTY | REGION_UNWRITTEN,
	       sizeof(flags));
	for (uint32_t block = 0; block < MAP_BLOCKS; block++)
		map_block_encode(flags, sim_region(sim, sim->rows - 1) + 1, block, 1,
				 shared.volume_uuid, map + block * LAYOUT_MAP_BLOCK_BYTES);
	for (int m = 0; m < sim->slots; m++) {
		if (sim->roles[m] >= 0)
			format_member(sim, m, shared, map);
		else if (sim->slot_of[m] >= 0)
			admin_format_spare(sim, m);
	}
	format_foreign(sim, shared);
}
