/* intent.c - see intent.h. */
#include "intent.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTENT_SUSPECT 0x01
#define INTENT_FRESH 0x02

int
intent_init(struct intent *intent, uint64_t rows, uint32_t region_rows)
{
	uint32_t regions = (uint32_t)((rows + region_rows - 1) / region_rows);

	*intent = (struct intent){
		.regions = regions,
		.region_rows = region_rows,
		.rows = rows,
		.blocks = (regions + LAYOUT_REGIONS_PER_BLOCK - 1) / LAYOUT_REGIONS_PER_BLOCK,
		.flags = calloc(regions, 1),
		.durable = calloc(regions, 1),
		.traits = calloc(regions, 1),
		.active = calloc(regions, sizeof(*intent->active)),
		.touched = calloc(regions, sizeof(*intent->touched)),
		.proven = calloc(regions, sizeof(*intent->proven)),
		.generation = 2,
	};
	intent->block_dirty = calloc(intent->blocks, sizeof(*intent->block_dirty));
	if (intent->flags == NULL || intent->durable == NULL || intent->traits == NULL ||
	    intent->active == NULL || intent->touched == NULL || intent->proven == NULL ||
	    intent->block_dirty == NULL) {
		intent_destroy(intent);
		return -ENOMEM;
	}
	return 0;
}

void
intent_destroy(struct intent *intent)
{
	for (uint32_t i = 0; intent->proven != NULL && i < intent->regions; i++)
		free(intent->proven[i]);
	free(intent->flags);
	free(intent->durable);
	free(intent->traits);
	free(intent->active);
	free(intent->touched);
	free(intent->proven);
	free(intent->block_dirty);
	*intent = (struct intent){ 0 };
}

void
intent_merge(struct intent *intent, const uint8_t *flags, bool first)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		uint8_t either = (intent->flags[i] | flags[i]) & (REGION_DIRTY | REGION_STALE);
		uint8_t both = (first ? flags[i] : intent->flags[i] & flags[i]) & REGION_UNWRITTEN;

		intent->flags[i] = either | both;
	}
}

static void
set_flags(struct intent *intent, uint32_t region, uint8_t flags)
{
	uint8_t before = intent->flags[region];

	if (flags == before)
		return;
	intent->dirty_count += !!(flags & REGION_DIRTY) - !!(before & REGION_DIRTY);
	intent->stale_count += !!(flags & REGION_STALE) - !!(before & REGION_STALE);
	intent->flags[region] = flags;
	intent->block_dirty[region / LAYOUT_REGIONS_PER_BLOCK] = true;
}

static void
set_suspect(struct intent *intent, uint32_t region, bool suspect)
{
	bool before = intent->traits[region] & INTENT_SUSPECT;

	free(intent->proven[region]);
	intent->proven[region] = NULL;
	if (suspect == before)
		return;
	intent->traits[region] ^= INTENT_SUSPECT;
	if (suspect)
		intent->suspect_count++;
	else
		intent->suspect_count--;
}

void
intent_loaded(struct intent *intent)
{
	intent->dirty_count = 0;
	intent->stale_count = 0;
	for (uint32_t i = 0; i < intent->regions; i++) {
		intent->durable[i] = intent->flags[i];
		intent->dirty_count += !!(intent->flags[i] & REGION_DIRTY);
		intent->stale_count += !!(intent->flags[i] & REGION_STALE);
		if (intent->flags[i] & REGION_UNWRITTEN)
			intent->traits[i] |= INTENT_FRESH;
		set_suspect(intent, i, intent->flags[i] & REGION_DIRTY);
	}
	/* The members' maps may differ from their union: write all of it once. */
	for (uint32_t i = 0; i < intent->blocks; i++)
		intent->block_dirty[i] = true;
}

void
intent_member_lost(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		if (!(intent->flags[i] & REGION_DIRTY))
			continue;
		set_flags(intent, i, intent->flags[i] | REGION_STALE);
		if (intent->traits[i] & INTENT_FRESH)
			set_suspect(intent, i, false);
	}
}

uint32_t
intent_region(const struct intent *intent, uint64_t row)
{
	return (uint32_t)(row / intent->region_rows);
}

bool
intent_row_suspect(const struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);
	uint64_t index = row % intent->region_rows;

	if (!(intent->traits[region] & INTENT_SUSPECT))
		return false;
	if (intent->proven[region] == NULL)
		return true;
	return !((intent->proven[region][index / 64] >> (index % 64)) & 1);
}

bool
intent_ready(const struct intent *intent, uint32_t region, bool degraded)
{
	uint8_t needed = REGION_DIRTY | (degraded ? REGION_STALE : 0);

	return (intent->durable[region] & (needed | REGION_UNWRITTEN)) == needed;
}

bool
intent_begin(struct intent *intent, uint32_t region, bool degraded)
{
	uint8_t flags = intent->flags[region] | REGION_DIRTY | (degraded ? REGION_STALE : 0);

	assert(intent->active[region] < UINT16_MAX);
	intent->active[region]++;
	set_flags(intent, region, flags & (uint8_t)~REGION_UNWRITTEN);
	return intent_ready(intent, region, degraded);
}

void
intent_end(struct intent *intent, uint32_t region)
{
	assert(intent->active[region] > 0);
	intent->active[region]--;
	intent->touched[region] = intent->generation;
}

void
intent_prove(struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);
	uint64_t index = row % intent->region_rows;

	if (!(intent->traits[region] & INTENT_SUSPECT))
		return;
	if (intent->proven[region] == NULL)
		intent->proven[region] = calloc((intent->region_rows + 63) / 64, sizeof(uint64_t));
	/* Out of memory only means that the row is looked at once more. */
	if (intent->proven[region] != NULL)
		intent->proven[region][index / 64] |= 1ull << (index % 64);
}

void
intent_suspect(struct intent *intent, uint32_t region)
{
	intent->traits[region] &= (uint8_t)~INTENT_FRESH;
	set_suspect(intent, region, true);
}

void
intent_suspect_dirty(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		if (intent->flags[i] & REGION_DIRTY)
			intent_suspect(intent, i);
}

int64_t
intent_next_suspect(const struct intent *intent, uint32_t from)
{
	if (intent->suspect_count == 0)
		return -1;
	for (uint32_t i = from; i < intent->regions; i++)
		if (intent->traits[i] & INTENT_SUSPECT)
			return i;
	return -1;
}

void
intent_region_proven(struct intent *intent, uint32_t region)
{
	set_suspect(intent, region, false);
	intent->touched[region] = intent->generation;
}

static bool
cleanable(const struct intent *intent, uint32_t region)
{
	return (intent->flags[region] & REGION_DIRTY) && intent->active[region] == 0 &&
	       !(intent->traits[region] & INTENT_SUSPECT) &&
	       intent->generation - intent->touched[region] >= 2;
}

bool
intent_clean_begin(struct intent *intent)
{
	intent->generation++;
	if (intent->dirty_count == 0)
		return false;
	for (uint32_t i = 0; i < intent->regions; i++)
		if (cleanable(intent, i))
			return true;
	return false;
}

uint32_t
intent_clean_end(struct intent *intent)
{
	uint32_t cleaned = 0;

	for (uint32_t i = 0; i < intent->regions; i++) {
		if (!cleanable(intent, i))
			continue;
		set_flags(intent, i, intent->flags[i] & (uint8_t)~REGION_DIRTY);
		cleaned++;
	}
	return cleaned;
}
