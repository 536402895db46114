/* sim_rot.c - a member returns something else than was written to it, without an error.
 *
 * Only scrubs see that, so one is started at once, while all is well: blocks of some rows are
 * falsified, one in each row, on any member, data or not.  Until it is over, the data that was
 * falsified may read as anything, and nothing else may.  What must be then:
 *
 *	level 6, three copies or more	the wrong one was found by the others, and mended: everything is as it was
 *	level 5, two copies		nobody can say who is right: parity, or the other copy, follows; other data is as it was
 *
 * Rows that are falsified are not written to meanwhile: a write may take what is wrong into its
 * parity.  A read that goes around a member that has become slow, or that does not answer for long,
 * is made from all others, so it may take what is wrong along.
 *
 * A member that is being replaced takes what was falsified on it along, where its successor had the
 * row before.  So a row counts by what whoever has the place holds when a scrub begins; if the
 * place changes hands during the scrub, nobody can say which of both it read.
 */
#include "sim.h"

#include <string.h>

#define SCRUB_US (60ull * 1000000)

bool
rot_reaches(struct sim *sim, uint64_t sector)
{
	const uint64_t column = sector * PATTERN_SECTOR % sim->chunk_bytes;
	bool around = false;

	for (int i = 0; i < sim->rot_count; i++)
		around |= sim->rots[i].row == sim_sector_row(sim, sector) &&
			  column >= sim->rots[i].column &&
			  column < sim->rots[i].column + sim->block_bytes;
	if (!around)
		return false;
	engine_status(sim->engine, &sim->status);
	around = sim->status.reads_hedged > sim->rot_hedged;
	for (int slot = 0; slot < sim->status.slots; slot++)
		around |= sim->status.members[slot].slow;
	return around;
}

static bool
is_mendable(const struct sim *sim)
{
	return sim->geometry.redundancy >= 2;
}

/* The first sector of the volume that the block holds, whose copy it is; UINT64_MAX: parity. */
static uint64_t
first_sector(const struct sim *sim, const struct rot *rot)
{
	const bool copies = sim->level == 1 || sim->level == 10;
	const uint64_t chunk = copies ? 0 : (uint64_t)rot->position;

	if (!copies && rot->position >= sim->geometry.data_chunks)
		return UINT64_MAX;
	return (rot->row * geometry_row_bytes(&sim->geometry) + chunk * sim->chunk_bytes +
		rot->column) /
	       PATTERN_SECTOR;
}

static void
set_trait(struct sim *sim, const struct rot *rot, bool set)
{
	uint64_t first = first_sector(sim, rot);

	for (uint64_t i = 0; first != UINT64_MAX && i < sim->block_bytes / PATTERN_SECTOR; i++)
		if (set)
			sim->traits[first + i] |= MAY_BE_ANYTHING;
		else
			sim->traits[first + i] &= (uint8_t)~MAY_BE_ANYTHING;
}

static bool
has_trait(const struct sim *sim, const struct rot *rot)
{
	uint64_t first = first_sector(sim, rot);

	for (uint64_t i = 0; first != UINT64_MAX && i < sim->block_bytes / PATTERN_SECTOR; i++)
		if (sim->traits[first + i] != 0)
			return true;
	return false;
}

static int
holder_of(const struct sim *sim, const struct rot *rot)
{
	return sim->holder[geometry_role(&sim->geometry, rot->row, (uint8_t)rot->position)];
}

static uint64_t
offset_of(const struct sim *sim, const struct rot *rot)
{
	const uint8_t role = geometry_role(&sim->geometry, rot->row, (uint8_t)rot->position);

	return sim->data_offset + geometry_offset(&sim->geometry, rot->row, role) + rot->column;
}

static void
falsify(struct sim *sim, struct rot *rot, uint64_t *random)
{
	struct disk *disk;
	uint8_t *block = rot->block;

	rot->device = holder_of(sim, rot);
	disk = &sim->members[rot->device].disk;
	disk_read(disk, offset_of(sim, rot), block, sim->block_bytes);
	for (uint64_t bytes = random_between(random, 1, 20); bytes > 0; bytes--)
		block[fake_random(random) % sim->block_bytes] ^=
			(uint8_t)(1u << fake_random(random) % 8);
	block[0] ^= 0x11; /* two flips of one bit would be none */
	disk_write(disk, offset_of(sim, rot), block, sim->block_bytes, true);
	sim_trace(sim, "ROT device %d, position %d of row %llu, column %llu", rot->device,
		  rot->position, (unsigned long long)rot->row, (unsigned long long)rot->column);
}

static int
draw_rot(struct sim *sim, struct rot *rots, uint64_t *random)
{
	int count = 0;

	for (uint64_t left = random_between(random, 1, ROTS_MAX); left > 0; left--) {
		struct rot rot = {
			.row = random_once_in(random, 2)
				       ? fake_random(random) % sim->rows
				       : sim->hot_row + fake_random(random) % sim->hot_rows,
			.position = (int)(fake_random(random) % sim->geometry.width),
			.column = fake_random(random) % (sim->chunk_bytes / sim->block_bytes) *
				  sim->block_bytes,
		};
		bool again = has_trait(sim, &rot);

		for (int i = 0; i < count; i++)
			again |= rots[i].row == rot.row;
		if (!again)
			rots[count++] = rot;
	}
	return count;
}

static bool
is_scrubbed(struct sim *sim)
{
	sim_look(sim);
	return !sim->status.scrub_active;
}

static void
look_at_rots(struct sim *sim)
{
	uint8_t block[DISK_PAGE];

	for (struct rot *rot = sim->rots; rot < sim->rots + sim->rot_count; rot++) {
		rot->holder = holder_of(sim, rot);
		rot->right = false;
		if (rot->holder < 0 || rot->holder == rot->device)
			continue;
		disk_read(&sim->members[rot->holder].disk, offset_of(sim, rot), block,
			  sim->block_bytes);
		rot->right = memcmp(block, rot->block, sim->block_bytes) != 0;
	}
}

static void
judge(struct sim *sim)
{
	const uint64_t found = sim->status.scrub_mismatches;
	uint64_t least = 0, most = 0;

	for (const struct rot *rot = sim->rots; rot < sim->rots + sim->rot_count; rot++) {
		const bool stayed = rot->holder >= 0 && rot->holder == holder_of(sim, rot);

		least += stayed && !rot->right;
		most += !stayed || !rot->right;
	}
	if (found < least || found > most)
		sim_fail(sim,
			 "a scrub found %llu rows that do not fit, of %d that were falsified at "
			 "least %llu and at most %llu are left",
			 (unsigned long long)found, sim->rot_count, (unsigned long long)least,
			 (unsigned long long)most);
}

static void
scrub(struct sim *sim, enum scrub_mode mode)
{
	char why[256] = "";

	sim_look(sim);
	look_at_rots(sim);
	if (engine_scrub_start(sim->engine, mode, false, why) != 0)
		sim_fail(sim, "a scrub of a volume that is well was refused: %s", why);
	sim_turn(sim);
	if (!sim_wait(sim, is_scrubbed, SCRUB_US))
		sim_fail(sim, "a scrub of a volume that is well does not end: %s",
			 sim->status.scrub.reason);
	judge(sim);
}

static bool
has_no_load(struct sim *sim)
{
	return sim->active_count == 0;
}

static bool
is_calm(struct sim *sim)
{
	char why[256] = "";

	sim_look(sim);
	if (sim->geometry.redundancy == 0 || sim->status.state != VOLUME_ACTIVE ||
	    sim->status.regions_suspect > 0 || sim->engine_options.resync_rows_max == 0 ||
	    sim->active_count > 0)
		return false;
	if (sim->status.scrub_active) {
		engine_scrub_stop(sim->engine, why);
		sim_turn(sim);
		sim_advance(sim, sim->schedule.now_us + 1000000); /* rows that it had begun */
		sim_look(sim); /* a member may have become slow meanwhile */
	}
	for (int m = 0; m < sim->slots; m++)
		/* reads go around it, and take what is wrong along: */
		if (sim->members[m].disk.bad_count > 0 ||
		    (sim->slot_of[m] >= 0 && sim->status.members[sim->slot_of[m]].slow))
			return false;
	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] < 0) /* its place changes hands just now */
			return false;
	return true;
}

void
rot_step(struct sim *sim, uint64_t *random)
{
	struct rot *rots = sim->rots;
	int count;

	if (!sim_can(sim, ABILITY_ROT) || !is_calm(sim))
		return;
	engine_set_rates(sim->engine, 64ull << 20, 1ull << 30);
	count = draw_rot(sim, rots, random);
	sim->rot_count = count;
	sim->rot_hedged = sim->status.reads_hedged;
	for (int i = 0; i < count; i++) {
		falsify(sim, &rots[i], random);
		set_trait(sim, &rots[i], true);
		sim->options.totals->rotten++;
	}
	load_read_all(sim);
	if (!sim_wait(sim, has_no_load, SCRUB_US))
		sim_fail(sim, "reads of a volume that is well do not end");
	if (random_once_in(random, 2))
		scrub(sim, SCRUB_CHECK);
	scrub(sim, SCRUB_REPAIR);
	look_at_rots(sim);
	for (int i = 0; i < count; i++)
		if (is_mendable(sim) || rots[i].right)
			set_trait(sim, &rots[i], false);
	sim->rot_count = 0;
	sim_advance(sim, sim->schedule.now_us + 100000);
	check_media(sim);
	engine_set_rates(sim->engine, sim->engine_options.sync_rate_min,
			 sim->engine_options.sync_rate_max);
}
