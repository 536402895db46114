/* sim_raw.c - regions that were never clean on record since they were made, as the members' maps
 * have it; and those that were written before.
 *
 * When a resync ends, the gateway knows that all parity fits.  The maps say so only when the marks
 * are cleared, a second or more later, and nobody notes rows of a region that no request has
 * written.  So until then a crash, or a lost cache, takes that knowledge along.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static bool
any_raw(const struct sim *sim)
{
	return memchr(sim->raw, true, sim->rows * sizeof(*sim->raw)) != NULL;
}

/* One member's map.  False: part of it can't be read. */
static bool
read_map(const struct disk *disk, const uint8_t volume_uuid[16], uint32_t regions, uint8_t *flags)
{
	const uint32_t blocks = (regions + LAYOUT_REGIONS_PER_BLOCK - 1) / LAYOUT_REGIONS_PER_BLOCK;
	uint8_t block[LAYOUT_MAP_BLOCK_BYTES];

	if (disk_is_damaged(disk, LAYOUT_MAP_OFFSET, (uint64_t)blocks * sizeof(block)))
		return false;
	for (uint32_t i = 0; i < blocks; i++) {
		disk_read(disk, LAYOUT_MAP_OFFSET + i * sizeof(block), block, sizeof(block));
		map_block_decode(block, regions, i, volume_uuid, flags);
	}
	return true;
}

/* Adds what it says of dirty regions. */
static bool
add_dirty(const struct disk *disk, const uint8_t volume_uuid[16], uint32_t regions, uint8_t *flags,
	  uint8_t *dirty)
{
	if (!read_map(disk, volume_uuid, regions, flags))
		return false;
	for (uint32_t region = 0; region < regions; region++)
		dirty[region] |= flags[region] & REGION_DIRTY;
	return true;
}

/* What all members that are in sync call clean is raw no longer.  A map that can't be read in part
 * is passed by.
 */
void
raw_look(struct sim *sim)
{
	const uint32_t regions = sim_region(sim, sim->rows - 1) + 1;
	uint8_t *flags, *dirty;
	int maps = 0;

	if (!any_raw(sim))
		return;
	flags = calloc(regions, 1);
	dirty = calloc(regions, 1);
	for (int role = 0; role < sim->count; role++)
		maps += sim->holder[role] >= 0 &&
			add_dirty(&sim->members[sim->holder[role]].disk,
				  sim->engine_options.volume_uuid, regions, flags, dirty);
	for (uint64_t row = 0; row < sim->rows && maps > 0; row++)
		sim->raw[row] &= dirty[sim_region(sim, row)] != 0;
	free(flags);
	free(dirty);
}

/* A region is unwritten if all members that are in sync say so.  A map that can't be read in part
 * is passed by.
 */
void
raw_assembled(struct sim *sim)
{
	const uint32_t regions = sim_region(sim, sim->rows - 1) + 1;
	uint8_t *flags = calloc(regions, 1);
	bool *written = calloc(regions, sizeof(*written));

	for (int role = 0; role < sim->count; role++) {
		if (sim->holder[role] < 0 ||
		    !read_map(&sim->members[sim->holder[role]].disk,
			      sim->engine_options.volume_uuid, regions, flags))
			continue;
		for (uint32_t region = 0; region < regions; region++)
			written[region] |= !(flags[region] & REGION_UNWRITTEN);
	}
	for (uint64_t row = 0; row < sim->rows; row++)
		sim->found_written[row] = written[sim_region(sim, row)];
	free(flags);
	free(written);
}
