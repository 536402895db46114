/* sim_check.c - reads the media behind the engine's back, when nothing is under way.
 *
 * Row by row: with all members there, P, Q and copies fit the data (computed here, slowly, and not with what the engine
 * uses), so each chunk is what the others make of it: no read under any missing members can differ.  Every data chunk
 * holds what the oracle allows; one whose member is out, or a sector that can't be read, is made from the others first.
 */
#include "sim.h"

#include "pure/code.h"

#include <stdlib.h>
#include <string.h>

static bool
bad_here(const struct sim *sim, int role, uint64_t row, uint64_t column)
{
	int member = sim->holder[role];

	return member < 0 ||
	       disk_is_damaged(&sim->members[member].disk,
			       sim->data_offset + geometry_offset(&sim->geometry, row, (uint8_t)role) + column,
			       PATTERN_SECTOR);
}

/* sum = sum * factor ^ bytes, factor 1 or 2 in GF(2^8). */
static void
add(uint8_t *sum, const uint8_t *bytes, bool twice)
{
	for (unsigned int i = 0; i < PATTERN_SECTOR; i++) {
		if (twice)
			sum[i] = (uint8_t)(sum[i] << 1 ^ (sum[i] & 0x80 ? 0x1d : 0));
		sum[i] ^= bytes[i];
	}
}

/* What should stand at a position behind the data. */
static void
expect_redundant(const struct sim *sim, uint8_t *const *sectors, int position, uint8_t *out)
{
	const struct geometry *geometry = &sim->geometry;
	bool is_q = sim->level == 6 && position == geometry->data_chunks + 1;

	memset(out, 0, PATTERN_SECTOR);
	for (int chunk = geometry->data_chunks - 1; chunk >= 0; chunk--)
		add(out, sectors[chunk], is_q);
}

static void
check_redundancy(struct sim *sim, uint64_t row, uint64_t column, uint8_t *const *sectors)
{
	const struct geometry *geometry = &sim->geometry;
	uint8_t expected[PATTERN_SECTOR];

	for (int position = geometry->data_chunks; position < geometry->width; position++) {
		expect_redundant(sim, sectors, position, expected);
		if (memcmp(expected, sectors[position], PATTERN_SECTOR) != 0)
			sim_fail(sim, "media: position %d of row %llu is wrong at column %llu", position,
				 (unsigned long long)row, (unsigned long long)column);
	}
}

/* One sector of each chunk of the row.  sectors: by position; absent: positions that can't be read there. */
static void
check_column(struct sim *sim, uint64_t row, uint64_t column, uint8_t *const *sectors, uint32_t absent)
{
	const struct geometry *geometry = &sim->geometry;
	const uint32_t data = (1u << geometry->data_chunks) - 1;
	const uint64_t row_sector = row * geometry_row_bytes(geometry) / PATTERN_SECTOR;

	if (!code_bears(geometry, absent))
		return;
	if (absent == 0)
		check_redundancy(sim, row, column, sectors);
	if (absent & data)
		code_make(geometry, absent & data, absent, (void *const *)sectors, PATTERN_SECTOR);
	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		uint64_t sector = row_sector + ((uint64_t)chunk * sim->chunk_bytes + column) / PATTERN_SECTOR;
		bool gone = (absent >> chunk) & 1;

		if (!(sim->traits[sector] & MAY_BE_LOST))
			oracle_sector(sim, sector, sectors[chunk], sim->floor[sector], UINT64_MAX,
				      gone ? "media, made from the others" : "media");
	}
}

static void
check_row(struct sim *sim, uint64_t row, uint8_t *const *chunks, bool damaged)
{
	const int width = sim->geometry.width;

	for (int position = 0; position < width; position++) {
		uint8_t role = geometry_role(&sim->geometry, row, (uint8_t)position);

		if (sim->holder[role] >= 0)
			disk_read(&sim->members[sim->holder[role]].disk,
				  sim->data_offset + geometry_offset(&sim->geometry, row, role),
				  chunks[position], sim->chunk_bytes);
	}
	for (uint64_t column = 0; column < sim->chunk_bytes; column += PATTERN_SECTOR) {
		uint8_t *sectors[SIM_SLOTS_MAX];
		uint32_t absent = 0;

		for (int position = 0; position < width; position++) {
			sectors[position] = chunks[position] + column;
			if (damaged && bad_here(sim, geometry_role(&sim->geometry, row, (uint8_t)position), row,
						column))
				absent |= 1u << position;
		}
		check_column(sim, row, column, sectors, absent);
	}
}

/* What the engine calls lost must be what may be. */
static void
check_lost(struct sim *sim)
{
	struct lost_range range;
	uint64_t from = 0;

	while (engine_lost_list(sim->engine, from, &range, 1) == 1) {
		for (uint64_t at = range.offset_bytes; at < range.offset_bytes + range.length_bytes;
		     at += PATTERN_SECTOR)
			if (!(sim->traits[at / PATTERN_SECTOR] & MAY_BE_LOST))
				sim_fail(sim, "sector %llu (row %llu) is listed as lost without reason",
					 (unsigned long long)(at / PATTERN_SECTOR),
					 (unsigned long long)sim_sector_row(sim, at / PATTERN_SECTOR));
		from = range.offset_bytes + range.length_bytes - 1;
	}
}

void
check_media(struct sim *sim)
{
	uint8_t *chunks[SIM_SLOTS_MAX];
	bool damaged = false;

	sim->options.totals->checks++;
	check_lost(sim);
	for (int role = 0; role < sim->count; role++) {
		chunks[role] = malloc(sim->chunk_bytes);
		damaged |= sim->holder[role] < 0 || sim->members[sim->holder[role]].disk.bad_count > 0;
	}
	for (uint64_t row = 0; row < sim->rows; row++)
		check_row(sim, row, chunks, damaged);
	for (int role = 0; role < sim->count; role++)
		free(chunks[role]);
}
