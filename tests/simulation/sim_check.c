/* sim_check.c - reads the media behind the engine's back, when nothing is under way.
 *
 * Row by row: with all members there, the chunks sum up to zero, so each of them is what the others
 * make of it: no read under any one missing member can differ.  Every data chunk holds what the oracle
 * allows; one whose member is out, or a sector that can't be read, is made from the others first.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static bool
bad_here(const struct sim *sim, int member, uint64_t row, uint64_t column)
{
	return disk_is_damaged(&sim->members[member].disk,
			       sim->data_offset + row * sim->chunk_bytes + column, PATTERN_SECTOR);
}

static void
add(uint8_t *sum, const uint8_t *bytes)
{
	uint64_t a[PATTERN_WORDS], b[PATTERN_WORDS];

	memcpy(a, sum, sizeof(a));
	memcpy(b, bytes, sizeof(b));
	for (unsigned int i = 0; i < PATTERN_WORDS; i++)
		a[i] ^= b[i];
	memcpy(sum, a, sizeof(a));
}

/* One sector of each chunk of the row.  chunks[role] is the chunk's content; absent: roles that can't be read there. */
static void
check_column(struct sim *sim, uint64_t row, uint64_t column, uint8_t *const *chunks, uint32_t absent)
{
	static const uint8_t zeros[PATTERN_SECTOR];
	uint8_t sum[PATTERN_SECTOR] = { 0 };
	const uint64_t row_sector = row * geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;

	if (__builtin_popcount(absent) > sim->geometry.parities)
		return;
	for (int role = 0; role < sim->count; role++)
		if (!((absent >> role) & 1))
			add(sum, chunks[role] + column);
	if (absent == 0 && sim->geometry.parities > 0 && memcmp(sum, zeros, sizeof(sum)) != 0)
		sim_fail(sim, "media: parity of row %llu is wrong at column %llu",
			 (unsigned long long)row, (unsigned long long)column);
	for (int role = 0; role < sim->count; role++) {
		int chunk = geometry_chunk_on_member(&sim->geometry, row, (uint8_t)role);
		uint64_t sector = row_sector + ((uint64_t)chunk * sim->chunk_bytes + column) / PATTERN_SECTOR;
		bool gone = (absent >> role) & 1;

		if (chunk < 0 || (sim->traits[sector] & MAY_BE_LOST))
			continue;
		oracle_sector(sim, sector, gone ? sum : chunks[role] + column, sim->floor[sector],
			      UINT64_MAX, gone ? "media, made from the others" : "media");
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
	int members[SIM_SLOTS_MAX];
	bool damaged = false;

	sim->options.totals->checks++;
	check_lost(sim);
	for (int role = 0; role < sim->count; role++) {
		chunks[role] = malloc(sim->chunk_bytes);
		members[role] = sim->holder[role];
		damaged |= members[role] < 0 || sim->members[members[role]].disk.bad_count > 0;
	}
	for (uint64_t row = 0; row < sim->rows; row++) {
		for (int role = 0; role < sim->count; role++)
			if (members[role] >= 0)
				disk_read(&sim->members[members[role]].disk,
					  sim->data_offset + row * sim->chunk_bytes, chunks[role],
					  sim->chunk_bytes);
		for (uint64_t column = 0; column < sim->chunk_bytes; column += PATTERN_SECTOR) {
			uint32_t absent = 0;

			for (int role = 0; damaged && role < sim->count; role++)
				if (members[role] < 0 || bad_here(sim, members[role], row, column))
					absent |= 1u << role;
			check_column(sim, row, column, chunks, absent);
		}
	}
	for (int role = 0; role < sim->count; role++)
		free(chunks[role]);
}
