/* written.c - see written.h. */
#include "written.h"

#include "../pure/mutant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRITTEN_RECENT 0x01   /* stands in `recent` */
#define WRITTEN_LEARNING 0x02 /* known as soon as the round under way has succeeded */

static size_t
words(const struct written *written)
{
	return (written->region_rows + 63) / 64;
}

static size_t
bytes_each(const struct written *written)
{
	return 2 * words(written) * sizeof(uint64_t);
}

int
written_init(struct written *written, uint32_t regions, uint32_t region_rows)
{
	*written = (struct written){
		.regions = regions,
		.region_rows = region_rows,
		.rows = calloc(regions, sizeof(*written->rows)),
		.traits = calloc(regions, 1),
		.recent = calloc(regions, sizeof(*written->recent)),
	};
	row_bits_init(&written->bits, 2 * words(written));
	return written->rows != NULL && written->traits != NULL && written->recent != NULL
		       ? row_bits_reserve(&written->bits, regions)
		       : -ENOMEM;
}

int
written_grow(struct written *written, uint32_t regions)
{
	uint64_t **rows = realloc(written->rows, regions * sizeof(*rows));
	uint8_t *traits = realloc(written->traits, regions);
	uint32_t *recent = realloc(written->recent, regions * sizeof(*recent));

	written->rows = rows != NULL ? rows : written->rows;
	written->traits = traits != NULL ? traits : written->traits;
	written->recent = recent != NULL ? recent : written->recent;
	if (rows == NULL || traits == NULL || recent == NULL ||
	    row_bits_reserve(&written->bits, regions) != 0)
		return -ENOMEM;
	for (; written->regions < regions; written->regions++) {
		rows[written->regions] = NULL;
		traits[written->regions] = 0;
	}
	return 0;
}

void
written_destroy(struct written *written)
{
	for (uint32_t i = 0; written->rows != NULL && i < written->regions; i++)
		row_bits_give(&written->bits, written->rows[i]);
	row_bits_destroy(&written->bits);
	free(written->rows);
	free(written->traits);
	free(written->recent);
	*written = (struct written){ 0 };
}

static void
drop_rows_of(struct written *written, uint32_t region)
{
	if (written->rows[region] != NULL)
		written->bytes -= bytes_each(written);
	row_bits_give(&written->bits, written->rows[region]);
	written->rows[region] = NULL;
	written->traits[region] &= (uint8_t)~WRITTEN_LEARNING;
}

static bool
has_room(const struct written *written)
{
	return written->bytes + bytes_each(written) <= WRITTEN_BYTES_MAX;
}

void
written_begin(struct written *written, uint32_t region)
{
	drop_rows_of(written, region);
	if (has_room(written))
		written->rows[region] = row_bits_take(&written->bits);
	if (written->rows[region] != NULL)
		written->bytes += bytes_each(written);
	else
		written->incomplete = true;
}

void
written_clean(struct written *written, uint32_t region)
{
	drop_rows_of(written, region);
}

void
written_forget(struct written *written, uint32_t region)
{
	drop_rows_of(written, region);
	written->incomplete = true;
}

static void
note_recent(struct written *written, uint32_t region)
{
	if (written->traits[region] & WRITTEN_RECENT)
		return;
	written->traits[region] |= WRITTEN_RECENT;
	written->recent[written->recent_count++] = region;
}

void
written_note(struct written *written, uint64_t row)
{
	uint32_t region = (uint32_t)(row / written->region_rows);
	uint64_t index = row % written->region_rows;

	if (written->rows[region] == NULL)
		return;
	written->rows[region][index / 64] |= 1ull << (index % 64);
	note_recent(written, region);
}

bool
written_known(const struct written *written, uint32_t region)
{
	return written->rows[region] != NULL && !(written->traits[region] & WRITTEN_LEARNING);
}

uint64_t
written_word(const struct written *written, uint32_t region, size_t word)
{
	return written->rows[region][word] | written->rows[region][words(written) + word];
}

/* --- rounds --- */

bool
written_flush_begins(struct written *written)
{
	const size_t count = words(written);
	const bool learn = written->incomplete && has_room(written) && !MUTANT(NEVER_LEARNED);

	for (uint32_t i = 0; i < written->recent_count; i++) {
		uint64_t *rows = written->rows[written->recent[i]];

		for (size_t word = 0; rows != NULL && word < count; word++) {
			rows[count + word] |= rows[word];
			rows[word] = 0;
		}
	}
	if (learn)
		written->incomplete = false;
	return learn;
}

void
written_learn(struct written *written, uint32_t region)
{
	if (written->rows[region] != NULL)
		return;
	written_begin(written, region);
	if (written->rows[region] == NULL)
		return;
	written->traits[region] |= WRITTEN_LEARNING;
	note_recent(written, region);
}

/* Returns whether some row of the region is not safe yet. */
static bool
region_flushed(struct written *written, uint32_t region, bool good)
{
	const size_t count = words(written);
	uint64_t *rows;
	uint64_t any = 0;

	if (!good && (written->traits[region] & WRITTEN_LEARNING))
		written_forget(written, region);
	written->traits[region] &= (uint8_t)~WRITTEN_LEARNING;
	rows = written->rows[region];
	for (size_t word = 0; rows != NULL && word < count; word++) {
		if (!good || MUTANT(FLUSHED_UNKNOWN))
			rows[word] |= rows[count + word];
		rows[count + word] = 0;
		any |= rows[word];
	}
	return any != 0;
}

void
written_flush_ends(struct written *written, bool good)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < written->recent_count; i++) {
		uint32_t region = written->recent[i];

		if (region_flushed(written, region, good))
			written->recent[left++] = region;
		else
			written->traits[region] &= (uint8_t)~WRITTEN_RECENT;
	}
	written->recent_count = left;
}
