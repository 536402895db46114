/* sim_check.c - what must hold whatever requests return: of the media, read behind the engine's back
 * when nothing is under way, and of who goes.
 *
 * Row by row: with all members there, P, Q and copies fit the data (computed here, slowly, and not
 * with what the engine uses), so each chunk is what the others make of it: no read under any
 * missing members can differ.  Every data chunk holds what the oracle allows; one whose member is
 * out, or a sector that can't be read, is made from the others first.
 */
#include "sim.h"

#include "engine/core/core.h"
#include "pure/code.h"

#include <string.h>

/* What is looked at together: the same bytes of each chunk of a row. */
struct column {
	uint64_t row, begin;
	uint32_t length;
	uint32_t absent;		     /* positions that can't be read there */
	const uint8_t *bytes[SIM_SLOTS_MAX]; /* by position */
};

/* sum = sum * factor ^ bytes, factor 1 or 2 in GF(2^8). */
static void
add(uint8_t *restrict sum, const uint8_t *restrict bytes, uint32_t length, bool twice)
{
	for (uint32_t i = 0; twice && i < length; i++)
		sum[i] = (uint8_t)(sum[i] << 1 ^ (sum[i] & 0x80 ? 0x1d : 0));
	for (uint32_t i = 0; i < length; i++)
		sum[i] ^= bytes[i];
}

/* What should stand at a position behind the data. */
static void
expect_redundant(const struct sim *sim, const struct column *column, int position, uint8_t *out)
{
	const struct geometry *geometry = &sim->geometry;
	bool is_q = sim->level == 6 && position == geometry->data_chunks + 1;

	memset(out, 0, column->length);
	for (int chunk = geometry->data_chunks - 1; chunk >= 0; chunk--)
		add(out, column->bytes[chunk], column->length, is_q);
}

static void
check_redundancy(struct sim *sim, const struct column *column)
{
	const struct geometry *geometry = &sim->geometry;
	uint8_t expected[DISK_PAGE];

	for (int position = geometry->data_chunks; position < geometry->width; position++) {
		expect_redundant(sim, column, position, expected);
		for (uint32_t at = 0; at < column->length; at += PATTERN_SECTOR)
			if (memcmp(expected + at, column->bytes[position] + at, PATTERN_SECTOR) !=
			    0)
				sim_fail(sim,
					 "media: position %d of row %llu is wrong at column %llu",
					 position, (unsigned long long)column->row,
					 (unsigned long long)column->begin + at);
	}
}

static void
check_column(struct sim *sim, struct column *column)
{
	const struct geometry *geometry = &sim->geometry;
	const uint32_t data = (1u << geometry->data_chunks) - 1;
	const uint64_t row_sector = column->row * geometry_row_bytes(geometry) / PATTERN_SECTOR;

	if (!code_bears(geometry, column->absent))
		return;
	if (column->absent == 0)
		check_redundancy(sim, column);
	if (column->absent & data)
		code_make(geometry, column->absent & data, column->absent,
			  (void *const *)column->bytes, column->length);
	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		uint64_t sector =
			row_sector +
			((uint64_t)chunk * sim->chunk_bytes + column->begin) / PATTERN_SECTOR;
		bool gone = (column->absent >> chunk) & 1;

		for (uint32_t at = 0; at < column->length; at += PATTERN_SECTOR, sector++)
			if (!(sim->traits[sector] & MAY_BE_LOST))
				oracle_sector(sim, sector, column->bytes[chunk] + at,
					      sim->floor[sector], UINT64_MAX,
					      gone ? "media, made from the others" : "media");
	}
}

static void
read_column(struct sim *sim, struct column *column)
{
	static uint8_t scratch[SIM_SLOTS_MAX][DISK_PAGE];

	column->absent = 0;
	for (int position = 0; position < sim->geometry.width; position++) {
		uint8_t role = geometry_role(&sim->geometry, column->row, (uint8_t)position);
		const struct disk *disk =
			sim->holder[role] >= 0 ? &sim->members[sim->holder[role]].disk : NULL;
		uint64_t at = sim->data_offset +
			      geometry_offset(&sim->geometry, column->row, role) + column->begin;

		column->bytes[position] = scratch[position];
		if (disk == NULL || disk_is_damaged(disk, at, column->length))
			column->absent |= 1u << position; /* made there, perhaps */
		else
			column->bytes[position] =
				disk_view(disk, at, column->length, scratch[position]);
	}
}

/* By pages; by sectors where some of them can't be read. */
static void
check_row(struct sim *sim, uint64_t row, bool damaged)
{
	struct column column = { .row = row, .length = damaged ? PATTERN_SECTOR : DISK_PAGE };

	for (; column.begin < sim->chunk_bytes; column.begin += column.length) {
		read_column(sim, &column);
		check_column(sim, &column);
	}
}

static bool
row_is_damaged(const struct sim *sim, uint64_t row)
{
	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] >= 0 &&
		    geometry_position(&sim->geometry, row, (uint8_t)role) >= 0 &&
		    disk_is_damaged(&sim->members[sim->holder[role]].disk,
				    sim->data_offset +
					    geometry_offset(&sim->geometry, row, (uint8_t)role),
				    sim->chunk_bytes))
			return true;
	return false;
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
				sim_fail(sim,
					 "sector %llu (row %llu) is listed as lost without reason",
					 (unsigned long long)(at / PATTERN_SECTOR),
					 (unsigned long long)sim_sector_row(sim,
									    at / PATTERN_SECTOR));
		from = range.offset_bytes + range.length_bytes - 1;
	}
}

void
check_media(struct sim *sim)
{
	sim->options.totals->checks++;
	check_lost(sim);
	for (uint64_t row = 0; row < sim->rows; row++)
		check_row(sim, row, row_is_damaged(sim, row));
}

/* Who goes because its cache may be lost goes for the sake of what the others have.  Parity makes
 * nothing of rows that a crash or a cache has left unproven: its chunks there would be lost, with all
 * that flushes covered.  Who was sent no flushes may lack what is proven, too.
 */
void
check_eviction(struct sim *sim, const struct engine_event *event)
{
	const struct engine *engine = sim->engine;

	if (engine_has_parity(engine) && intent_is_unknowable(&engine->intent) &&
	    engine->members[event->slot].condemned && !engine->members[event->slot].flushes_void &&
	    strstr(event->text, "may have lost what its cache held") != NULL)
		sim_fail(sim, "%s, though rows are not proven", event->text);
}
