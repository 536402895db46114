/* sim_oracle.c - what a request may return.
 *
 * Each sector is a register: a read returns the newest write that was acknowledged (or seen by a
 * read) before it was submitted, or a later one that was submitted before it ended.  Writes that
 * were in flight together come in the order in which they were submitted.  That is kept through
 * every crash.  What may differ:
 *
 *  - A cache that was lost takes acknowledged writes with it that no flush covered, if nobody could know
 *    (the gateway was dead), or if more members lost theirs (or are out) than the level bears.
 *  - A medium error is a fair answer where a member's content can't be known: MAY_BE_LOST.  It is an upper
 *    bound, set when
 *	. a row is unsure (its region was written when the gateway died, or a write of it failed) while a member is
 *	  out, for that member's chunks;
 *	. sectors of a row were made unreadable on more members than the level bears, or on one while another
 *	  is out or the row is unsure, or unproven.
 *    It ends when the sector is written (and the write acknowledged), or everything was found right.
 */
#include "sim.h"

#include "engine_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A small write comes to its row within a second, and what that takes. */
#define HELD_US (3ull * 1000000)

/* Who was kept from a member tries it again, logs in, and reads what it is. */
#define CONTEST_US (6ull * 1000000)

/* Of all members, after a start: answers until what was in their caches is on their media. */
#define START_FLUSHES 4

/* --- arithmetic --- */

uint32_t
sim_region(const struct sim *sim, uint64_t row)
{
	return (uint32_t)(row / sim->region_rows);
}

static uint32_t
regions(const struct sim *sim)
{
	return sim_region(sim, sim->rows - 1) + 1;
}

uint64_t
sim_sector_row(const struct sim *sim, uint64_t sector)
{
	return sector * PATTERN_SECTOR / geometry_row_bytes(&sim->geometry);
}

static bool
has_parity(const struct sim *sim)
{
	return sim->level == 5 || sim->level == 6;
}

/* The row's share of these roles is more than it can do without. */
static bool
too_many(const struct sim *sim, uint64_t row, uint32_t roles)
{
	return __builtin_popcount(geometry_positions(&sim->geometry, row, roles)) >
	       sim->geometry.redundancy;
}

/* The data chunk, or the copy of one, that the role has in the row; -1 if none. */
static int
data_chunk(const struct sim *sim, uint64_t row, int role)
{
	int position = geometry_position(&sim->geometry, row, (uint8_t)role);

	if (position < sim->geometry.data_chunks)
		return position;
	return has_parity(sim) ? -1 : 0;
}

uint64_t
sim_row_at(const struct sim *sim, int role, uint64_t offset_bytes)
{
	uint64_t chunk = offset_bytes / sim->chunk_bytes;

	return sim->level == 10 ? (chunk * (uint64_t)sim->count + (uint64_t)role) / 2 : chunk;
}

static uint64_t
row_begin(const struct sim *sim, uint64_t row)
{
	return row * geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;
}

const char *
sim_op_name(enum request_op op)
{
	static const char *const names[] = { "read", "write", "flush", "zero",
					     "compare and write" };

	return names[op];
}

static bool
is_write(const struct sim_request *request)
{
	return request->request.op != REQUEST_READ && request->request.op != REQUEST_FLUSH;
}

/* Its P and Q may be worth nothing. */
static bool
is_unproven(const struct sim *sim, uint64_t row)
{
	return has_parity(sim) && (sim->unsure[row] || sim->open[row] || sim->unproven[row]);
}

/* --- permissions --- */

static void
allow_loss(struct sim *sim, uint64_t row, int role)
{
	const uint32_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;
	int chunk = data_chunk(sim, row, role);
	uint64_t first = row_begin(sim, row) + (uint64_t)chunk * chunk_sectors;

	for (uint64_t i = 0; chunk >= 0 && i < chunk_sectors; i++)
		sim->traits[first + i] |= MAY_BE_LOST;
}

static void
allow_row_loss(struct sim *sim, uint64_t row)
{
	for (int role = 0; role < sim->count; role++)
		allow_loss(sim, row, role);
}

/* What a running gateway's members lose has to be told by a flush that fails: one that succeeds
 * says that it is there.
 */
static void
note_untold(struct sim *sim, uint64_t sector)
{
	if (sim->engine == NULL || sim->stranger || !sim->running_seen ||
	    sim->dropped_us[sim_sector_row(sim, sector)] <= sim->flush_failed_us ||
	    sim->floor[sector] <= sim->untold[sector])
		return;
	sim->untold[sector] = sim->floor[sector];
	sim->any_untold = true;
}

/* A flush failed, or there is no gateway any more who could tell. */
void
oracle_told(struct sim *sim)
{
	sim->flush_failed_us = sim->schedule.now_us;
	if (sim->any_untold)
		memset(sim->untold, 0, sim->sectors_max * sizeof(*sim->untold));
	sim->any_untold = false;
}

static void
revert(struct sim *sim, uint64_t sector)
{
	if (sim->flushed[sector] < sim->floor[sector]) {
		note_untold(sim, sector);
		sim->floor[sector] = sim->flushed[sector];
		if (sim->traits[sector] & WAS_ANYTHING)
			sim->traits[sector] |= MAY_BE_ANYTHING;
	}
	sim->traits[sector] |= CACHE_REVERTED;
	sim->reverted_us = sim->schedule.now_us;
}

/* The row's unflushed writes on members whose cache was lost are beyond help. */
static void
revert_dropped(struct sim *sim, uint64_t row)
{
	for (uint64_t i = row_begin(sim, row); i < row_begin(sim, row + 1); i++) {
		if (!(sim->traits[i] & CACHE_DROPPED))
			continue;
		revert(sim, i);
		sim->traits[i] |= MAY_BE_LOST;
	}
}

/* Look at a row again after something changed for the worse. */
static void
judge_row(struct sim *sim, uint64_t row)
{
	const bool unsure = sim->unsure[row];
	const bool unproven = is_unproven(sim, row);
	const uint32_t out = sim->out_roles | sim->wiped_roles;

	if (sim->dropped_roles[row] != 0 &&
	    (unsure || too_many(sim, row, sim->dropped_roles[row] | out))) {
		revert_dropped(sim, row);
		if (__builtin_popcount(out) > 0 && has_parity(sim))
			allow_row_loss(sim, row);
	}
	if (sim->damaged_roles[row] != 0 &&
	    (unproven ||
	     too_many(sim, row, sim->damaged_roles[row] | sim->dropped_roles[row] | out)))
		allow_row_loss(sim, row);
	if (unsure && has_parity(sim))
		for (int role = 0; role < sim->count; role++)
			if ((out >> role) & 1)
				allow_loss(sim, row, role);
}

static void
judge_region(struct sim *sim, uint32_t region)
{
	uint64_t end = ((uint64_t)region + 1) * sim->region_rows;

	for (uint64_t row = (uint64_t)region * sim->region_rows; row < end && row < sim->rows;
	     row++)
		judge_row(sim, row);
}

static uint64_t
region_end(const struct sim *sim, uint32_t region)
{
	uint64_t end = ((uint64_t)region + 1) * sim->region_rows;

	return end < sim->rows ? end : sim->rows;
}

/* A gateway that starts knows regions. */
static void
make_region_unsure(struct sim *sim, uint32_t region)
{
	for (uint64_t row = (uint64_t)region * sim->region_rows; row < region_end(sim, region);
	     row++) {
		sim->unsure[row] = true;
		sim->open[row] = false;
	}
	judge_region(sim, region);
}

/* One more role is out: what others made up for was not proven. */
static void
make_open_unsure(struct sim *sim)
{
	for (uint32_t region = 0; region < regions(sim); region++)
		if (sim->open[(uint64_t)region * sim->region_rows])
			make_region_unsure(sim, region);
}

static void
open_region(struct sim *sim, uint32_t region)
{
	for (uint64_t row = (uint64_t)region * sim->region_rows; row < region_end(sim, region);
	     row++)
		sim->open[row] = true;
}

/* One that runs knows rows. */
static void
make_unsure(struct sim *sim, uint64_t row)
{
	if (!sim_can(sim, ABILITY_ROWS_JUDGED)) {
		make_region_unsure(sim, sim_region(sim, row));
		return;
	}
	sim->unsure[row] = true;
	judge_row(sim, row);
}

static bool
region_is_open(const struct sim *sim, uint32_t region)
{
	for (uint64_t row = (uint64_t)region * sim->region_rows; row < region_end(sim, region);
	     row++)
		if (sim->touched[row] || sim->unsure[row] || sim->open[row])
			return true;
	return false;
}

/* Copies of the region map that can't be read: with one left, all is known. */
static bool
map_is_gone(const struct sim *sim)
{
	int good = 0;

	for (int role = 0; role < sim->count; role++)
		good += sim->holder[role] >= 0 &&
			!disk_is_damaged(&sim->members[sim->holder[role]].disk, LAYOUT_MAP_OFFSET,
					 LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET);
	return good < 2; /* that one may be away at the next assembly */
}

/* Nobody noted when parity of these was made: a gateway that starts finds them as they were before
 * it was, and lost caches may have taken it along.  No data stands there; but what can't be read
 * there, nothing else tells.
 */
static void
forget_raw(struct sim *sim)
{
	for (uint64_t row = 0; row < sim->rows; row++) {
		if (!sim->raw[row] || sim->unproven[row])
			continue;
		sim->unproven[row] = true;
		judge_row(sim, row);
	}
}

/* Which rows of it were written, and are in caches, the next gateway does not know. */
static void
forget_region(struct sim *sim, uint32_t region)
{
	const uint64_t first = (uint64_t)region * sim->region_rows;

	memset(sim->unflushed + first, true, region_end(sim, region) - first);
	make_region_unsure(sim, region);
}

/* The map can't be read any more, and no gateway has read it yet. */
static void
forget_map(struct sim *sim)
{
	for (uint32_t region = 0; map_is_gone(sim) && region < regions(sim); region++)
		forget_region(sim, region);
}

void
oracle_map_damaged(struct sim *sim)
{
	if (sim->engine == NULL || !sim->running_seen)
		forget_map(sim);
}

/* A sector costs its block, on each of those that are in sync now. */
static bool
map_is_unread(const struct sim *sim, uint32_t block)
{
	const uint64_t at = LAYOUT_MAP_OFFSET + (uint64_t)block * LAYOUT_MAP_BLOCK_BYTES;

	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] >= 0 &&
		    !disk_is_damaged(&sim->members[sim->holder[role]].disk, at,
				     LAYOUT_MAP_BLOCK_BYTES))
			return false;
	return true;
}

/* Others, who were away, may have had what it could read on none of its members. */
void
oracle_assembled(struct sim *sim)
{
	const uint32_t block_regions =
		LAYOUT_MAP_BLOCK_BYTES / LAYOUT_GRANULE_BYTES * LAYOUT_GRANULE_REGIONS;

	for (uint32_t region = 0; region < regions(sim); region++)
		if (map_is_unread(sim, region / block_regions))
			forget_region(sim, region);
}

static bool
is_refusing_writes(const struct fake_member *member)
{
	return member->refuse_writes || member->disk.unwritable_count > 0;
}

/* Of what the gateway before does, its successor knows the region only.  Where somebody is out, a
 * member that refuses its part can't be spared, and nobody knows how much of it was written: as of
 * a write that failed.
 */
void
oracle_mended(struct sim *sim, uint64_t row, bool by_former)
{
	sim->touched[row] = true;
	if (by_former)
		forget_region(sim, sim_region(sim, row));
	for (int m = 0; m < sim->slots && sim->out_roles != 0; m++)
		if (sim->roles[m] >= 0 && sim->holder[sim->roles[m]] == m &&
		    is_refusing_writes(&sim->members[m]))
			make_unsure(sim, row);
}

void
oracle_crashed(struct sim *sim)
{
	raw_look(sim);
	forget_raw(sim);
	forget_map(sim);
	for (uint32_t region = 0; region < regions(sim); region++)
		if (!region_is_open(sim, region))
			continue;
		else if (!sim->logged)
			forget_region(sim, region);
		else if (!sim->log_proven)
			open_region(sim, region);
}

/* Does the newest record say that the volume was stopped in order? recorded: of which roles it says
 * that all is on record, if all say so.
 */
static bool
is_clean_on_record(const struct sim *sim, uint32_t *recorded)
{
	struct superblock superblock;
	uint64_t newest = 0;
	bool clean = false;

	*recorded = UINT32_MAX;

	for (int role = 0; role < sim->count; role++) {
		if (sim->holder[role] < 0 ||
		    !sim_read_superblock(&sim->members[sim->holder[role]].disk, &superblock) ||
		    superblock.epoch < newest)
			continue;
		clean = superblock.clean || (clean && superblock.epoch == newest);
		newest = superblock.epoch;
		*recorded &= superblock.recorded_roles;
	}
	return clean;
}

/* What an orderly end has flushed and put on record stays, whatever happens to caches then.  But
 * the map does not tell regions that were suspect already from those that a crash leaves, unless
 * all that is lost of them is on record.
 */
void
oracle_stopped(struct sim *sim)
{
	uint32_t recorded;

	if (sim->geometry.redundancy == 0 || !sim->running_seen ||
	    !is_clean_on_record(sim, &recorded)) {
		oracle_crashed(sim);
		return;
	}
	sim->options.totals->clean_stops++;
	memcpy(sim->flushed, sim->floor, sim->sectors * sizeof(*sim->flushed));
	for (uint64_t i = 0; i < sim->sectors; i++)
		sim->traits[i] &= (uint8_t)~WAS_ANYTHING;
	memset(sim->unflushed, 0, sim->rows * sizeof(*sim->unflushed));
	for (uint64_t row = 0; row < sim->rows; row++)
		sim->touched[row] &= sim->unproven[row];
	for (uint32_t region = 0; region < regions(sim); region++)
		if (region_is_open(sim, region) && has_parity(sim) && recorded != 0 &&
		    recorded == sim->out_roles)
			open_region(sim, region);
		else if (region_is_open(sim, region))
			make_region_unsure(sim, region);
	raw_look(sim);
	forget_raw(sim);
	forget_map(sim);
}

/* New regions are as those of a new volume.  Of the last one before, the new rows are made beside
 * what is there: suspect if that is.
 */
void
oracle_grown(struct sim *sim, uint64_t rows_before)
{
	for (uint64_t row = rows_before; row < sim->rows; row++) {
		if (sim_region(sim, row) == sim_region(sim, rows_before - 1)) {
			make_unsure(sim, row);
			continue;
		}
		sim->raw[row] = has_parity(sim);
		sim->unproven[row] = has_parity(sim);
		judge_row(sim, row);
	}
}

/* Those that another gateway has, and have said so, are silent as well: with them, who is away or
 * in trouble when this one returns may be more than the level bears.  They change while members are
 * taken, so it is asked then.
 */
static bool
taking_leaves_too_few(const struct sim *sim, int m)
{
	uint32_t away = sim->out_roles | (sim->roles[m] >= 0 ? 1u << sim->roles[m] : 0);

	for (int role = 0; role < sim->count; role++) {
		const int holder = sim->holder[role];

		if (holder < 0 || sim->trouble_until_us[holder] > sim->schedule.now_us ||
		    (sim->members[holder].taken && sim->members[holder].taken_told))
			away |= 1u << role;
	}
	return sim->taking_us != 0 && !geometry_bears(&sim->geometry, away);
}

/* Of rows that a crash or caches have left unproven, or that were written before a first resync has
 * been there, no other makes up for what a cache loses.  A volume that has just been assembled was
 * not looked at yet.
 */
static bool
is_anything_unproven(const struct sim *sim)
{
	struct engine_status now;

	engine_status(sim->engine, &now);
	for (uint64_t row = 0; row < sim->rows && now.regions_suspect > 0; row++)
		if ((sim->unsure[row] || sim->unproven[row]) && sim->touched[row])
			return true;
	return false;
}

/* One that has no cache any more may have had one under the gateway before, until it was flushed for
 * the first time.
 */
static bool
may_have_had_cache(const struct sim *sim, int m)
{
	const uint64_t flushing_us = START_FLUSHES * time_slowest_us(sim, sim->assembled_us);

	return sim->members[m].had_cache || !sim->running_seen ||
	       sim->schedule.now_us - sim->assembled_us <= flushing_us;
}

/* A member returned that may have lost its cache, and nobody can make up for it: others were silent,
 * too, or rows are unproven.
 */
void
oracle_session_restored(struct sim *sim, int m)
{
	const bool excess = sim->schedule.now_us <= sim->excess_until_us;

	if (!may_have_had_cache(sim, m) ||
	    (!excess && !taking_leaves_too_few(sim, m) && !is_anything_unproven(sim)))
		return;
	sim->cache_losses += !excess; /* a flush has to say so */
	sim->caches_gone_us = sim->schedule.now_us;
	if (!sim_can(sim, ABILITY_ROWS_JUDGED)) {
		sim->logged = false;
		oracle_crashed(sim);
		return;
	}
	raw_look(sim);
	forget_raw(sim);
	for (uint64_t row = 0; row < sim->rows; row++)
		if (sim->unflushed[row])
			make_unsure(sim, row);
}

void
oracle_out_changed(struct sim *sim, uint32_t out_roles)
{
	uint32_t before = sim->out_roles;

	if (out_roles != before)
		sim->changed_us = sim->schedule.now_us;
	sim->out_roles = out_roles;
	sim->wiped_roles &= ~(before & ~out_roles); /* filled since */
	if ((out_roles & ~before) == 0)
		return;
	make_open_unsure(sim);
	for (uint32_t region = 0; region < regions(sim); region++)
		judge_region(sim, region);
}

void
oracle_wiped(struct sim *sim, int role)
{
	sim->wiped_roles |= 1u << role;
	if (!((sim->out_roles >> role) & 1))
		make_open_unsure(sim);
	for (uint32_t region = 0; region < regions(sim); region++)
		judge_region(sim, region);
}

/* What was acknowledged lately may be in the log only, and with more members than the level bears that
 * may go.
 */
static void
forget_held(const struct sim *sim, struct forced_start *start)
{
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;

	if (sim->engine_options.log != LOG_MODE_ALWAYS)
		return;
	for (uint64_t row = 0; row < sim->rows; row++)
		if (sim->written_us[row] + HELD_US >= sim->schedule.now_us)
			memset(start->floor + row_begin(sim, row), 0,
			       row_sectors * sizeof(*start->floor));
}

void
oracle_before_force(struct sim *sim, struct forced_start *start)
{
	start->floor = malloc(sim->sectors * sizeof(*start->floor));
	start->traits = malloc(sim->sectors);
	memcpy(start->traits, sim->traits, sim->sectors);
	start->open = malloc(regions(sim) * sizeof(*start->open));
	raw_look(sim);
	start->raw = malloc(sim->rows * sizeof(*start->raw));
	memcpy(start->raw, sim->raw, sim->rows * sizeof(*start->raw));
	start->left_us = sim->schedule.now_us;
	memcpy(start->floor, sim->floor, sim->sectors * sizeof(*start->floor));
	forget_held(sim, start);
	for (uint32_t region = 0; region < regions(sim); region++)
		start->open[region] = region_is_open(sim, region);
}

static bool
region_was_written(const struct sim *sim, uint32_t region, uint64_t since_us)
{
	for (uint64_t row = (uint64_t)region * sim->region_rows; row < region_end(sim, region);
	     row++)
		if (sim->written_us[row] >= since_us)
			return true;
	return false;
}

/* The chunks of these roles are what they were then, lost or given up too, or newer. */
static void
go_back(struct sim *sim, const struct forced_start *start, uint64_t row, uint32_t roles)
{
	const uint64_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;

	for (int role = 0; role < sim->count; role++) {
		const int chunk = (roles >> role) & 1 ? data_chunk(sim, row, role) : -1;
		const uint64_t first = row_begin(sim, row) + (uint64_t)chunk * chunk_sectors;

		for (uint64_t i = first; chunk >= 0 && i < first + chunk_sectors; i++) {
			sim->traits[i] |= start->traits[i] & (MAY_BE_LOST | MAY_BE_ANYTHING);
			if (start->floor[i] < sim->floor[i])
				sim->floor[i] = start->floor[i];
			if (sim->flushed[i] > sim->floor[i])
				sim->flushed[i] = sim->floor[i];
		}
	}
}

/* If nobody else is left, their record rules, and what they make of the dead is of that time too.
 * Nothing is lost of what nobody ever wrote, whether it was proven or not.
 */
void
oracle_forced(struct sim *sim, const struct forced_start *start, uint32_t left, uint32_t dead)
{
	const uint32_t all = (1u << sim->count) - 1;

	for (uint64_t row = 0; row < sim->rows; row++) {
		const bool held = sim->engine_options.log == LOG_MODE_ALWAYS &&
				  sim->written_us[row] + HELD_US >= start->left_us;

		go_back(sim, start, row, (left | dead) == all || held ? all : left);
		sim->raw[row] |= start->raw[row];
	}
	forget_raw(sim);
	oracle_out_changed(sim, dead);
	for (uint32_t region = 0; region < regions(sim); region++)
		if (start->open[region] || region_was_written(sim, region, start->left_us))
			make_region_unsure(sim, region);
}

void
oracle_after_force(struct forced_start *start)
{
	free(start->floor);
	free(start->traits);
	free(start->open);
	free(start->raw);
}

void
oracle_damaged(struct sim *sim, int role, uint64_t row)
{
	sim->damaged_roles[row] |= 1u << role;
	sim->damaged_us[row] = sim->schedule.now_us;
	judge_row(sim, row);
}

void
oracle_sector_dropped(void *owner, struct fake_member *member, uint64_t offset_bytes)
{
	struct sim *sim = owner;
	int role = sim->roles[member - sim->members];
	uint64_t column = (offset_bytes - sim->data_offset) % sim->chunk_bytes;
	uint64_t row, sector;
	int chunk;

	if (offset_bytes < sim->data_offset || role < 0)
		return;
	row = sim_row_at(sim, role, offset_bytes - sim->data_offset);
	if (row >= sim->rows)
		return;
	if (sim->logged && sim->engine == NULL)
		return; /* it is written once more by the next start */
	sim->dropped_roles[row] |= 1u << role;
	sim->dropped_us[row] = sim->schedule.now_us;
	chunk = data_chunk(sim, row, role);
	sector = row_begin(sim, row) +
		 ((uint64_t)chunk * sim->chunk_bytes + column) / PATTERN_SECTOR;
	if (chunk >= 0)
		sim->traits[sector] |= CACHE_DROPPED;
	/* Without a gateway nobody saw the session end. */
	if (chunk >= 0 && (sim->engine == NULL || sim->geometry.redundancy == 0))
		revert(sim, sector);
	if (sim->engine == NULL)
		make_unsure(sim, row);
	judge_row(sim, row);
}

/* Also what was unreadable once, was cured by a write, and is so again because that was lost with a
 * cache.
 */
void
oracle_look_at_damage(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++) {
		const struct disk *disk = &sim->members[m].disk;

		for (int i = 0; i < disk->bad_count; i++)
			if (disk->bad[i] >= sim->data_offset && sim->roles[m] >= 0 &&
			    sim_row_at(sim, sim->roles[m], disk->bad[i] - sim->data_offset) <
				    sim->rows)
				oracle_damaged(sim, sim->roles[m],
					       sim_row_at(sim, sim->roles[m],
							  disk->bad[i] - sim->data_offset));
	}
}

/* On the members too: marks that are being cleared are there yet when the gateway dies. */
static bool
map_is_clean(const struct sim *sim)
{
	const uint64_t clearing = 1ull << WHERE_CLEANS | 1ull << WHERE_MAP;

	return sim->status.regions_dirty == 0 && (engine_where(sim->engine) & clearing) == 0;
}

void
oracle_quiescent(struct sim *sim)
{
	memset(sim->dropped_roles, 0, sim->rows * sizeof(*sim->dropped_roles));
	for (uint64_t i = 0; i < sim->sectors; i++)
		sim->traits[i] &= (uint8_t) ~(CACHE_DROPPED | CACHE_REVERTED);
	/* What was proven is dirty on record until its marks are cleared. */
	for (uint64_t row = 0; row < sim->rows; row++)
		sim->touched[row] = (sim->touched[row] || sim->unsure[row] || sim->open[row]) &&
				    !map_is_clean(sim);
	memset(sim->unsure, 0, sim->rows * sizeof(*sim->unsure));
	memset(sim->open, 0, sim->rows * sizeof(*sim->open));
	memset(sim->damaged_roles, 0, sim->rows * sizeof(*sim->damaged_roles));
	memset(sim->unproven, 0, sim->rows * sizeof(*sim->unproven));
	oracle_look_at_damage(sim);
}

/* Members on which something of these columns of the row can't be read now. */
static uint32_t
damaged_at(const struct sim *sim, uint64_t row, uint64_t column, uint64_t length_bytes)
{
	uint32_t roles = 0;

	for (int m = 0; m < sim->slots; m++)
		if (sim->roles[m] >= 0 &&
		    geometry_position(&sim->geometry, row, (uint8_t)sim->roles[m]) >= 0 &&
		    disk_is_damaged(&sim->members[m].disk,
				    sim->data_offset + column +
					    geometry_offset(&sim->geometry, row,
							    (uint8_t)sim->roles[m]),
				    length_bytes))
			roles |= 1u << sim->roles[m];
	return roles;
}

static uint32_t
row_damage(const struct sim *sim, uint64_t row)
{
	return damaged_at(sim, row, 0, sim->chunk_bytes);
}

static bool
damage_is_excessive(const struct sim *sim, uint64_t row)
{
	uint32_t damaged = row_damage(sim, row);

	return damaged != 0 && (is_unproven(sim, row) ||
				too_many(sim, row, damaged | sim->out_roles | sim->wiped_roles));
}

/* --- results --- */

/* A range of zeros begins nothing any more when its limit is over: it can't come behind what is
 * submitted then.
 */
static bool
is_given_up(const struct sim_request *zeros, uint64_t submit_us)
{
	return zeros->request.limit_ms != 0 &&
	       submit_us >= zeros->submit_us + zeros->request.limit_ms * 1000ull;
}

/* What overlaps is carried out in the order in which it was submitted.  Only long ranges of zeros,
 * which are cut as they go, may come behind what was submitted while they were in flight: the
 * oldest of them.
 */
#define ZEROS_LONG_BYTES (1u << 20)

static uint32_t
oldest_rival(const struct sim *sim, uint64_t sector, uint32_t number, uint64_t submit_us)
{
	/* What went to a gateway that lost the volume does not come behind what its successor
	 * takes.
	 */
	const struct sim_request *under_way = former_speaks(sim) ? sim->former.active : sim->active;

	for (const struct sim_request *other = under_way; other != NULL; other = other->next)
		if (other->request.op == REQUEST_ZERO &&
		    other->count * PATTERN_SECTOR > ZEROS_LONG_BYTES && other->number < number &&
		    !is_given_up(other, submit_us) && sector >= other->sector &&
		    sector < other->sector + other->count)
			number = other->number;
	return number;
}

static void
raise_acknowledged(struct sim *sim, uint64_t sector, uint32_t number, uint64_t submit_us)
{
	if (number <= sim->floor[sector])
		return;
	/* What was there when the request passed by may have gone with a cache before it ended. */
	if ((sim->traits[sector] & CACHE_REVERTED) && submit_us <= sim->reverted_us)
		return;
	number = oldest_rival(sim, sector, number, submit_us);
	if (number > sim->floor[sector])
		sim->floor[sector] = number;
}

static void
raise_floor(struct sim *sim, uint64_t sector, uint32_t number, uint64_t submit_us)
{
	/* A long range of zeros may have come to it behind what is known of, and have ended since.
	 */
	if (submit_us <= sim->zero_ended_us[sector])
		return;
	raise_acknowledged(sim, sector, number, submit_us);
}

bool
oracle_settled(const struct sim *sim, uint64_t sector, uint64_t count)
{
	for (uint64_t i = sector; i < sector + count; i++)
		if (sim->floor[i] == 0 || sim->floor[i] != sim->submitted[i] || sim->traits[i] != 0)
			return false;
	return true;
}

void
oracle_submitted(struct sim *sim, struct sim_request *request)
{
	const uint64_t end = request->sector + request->count;

	if (request->request.op != REQUEST_COMPARE_WRITE)
		request->differs_at = -1;
	for (uint64_t row = sim_sector_row(sim, request->sector);
	     row <= sim_sector_row(sim, end - 1); row++) {
		sim->touched[row] = true;
		sim->unflushed[row] = true;
		sim->written_us[row] = sim->schedule.now_us;
		/* A gateway that was taken for dead does not know what its successor has logged. */
	}
	for (uint64_t i = request->sector; i < end && request->differs_at < 0; i++) {
		request->floor[i - request->sector] =
			oldest_rival(sim, i, request->number, request->submit_us);
		sim->submitted[i] = request->number;
		if (request->request.op == REQUEST_ZERO) {
			sim->zero_before[i] = sim->zero_latest[i];
			sim->zero_latest[i] = request->number;
		}
	}
}

void
oracle_sector(struct sim *sim, uint64_t sector, const uint8_t *bytes, uint32_t floor,
	      uint64_t submit_us, const char *where)
{
	uint32_t number;
	enum pattern_verdict verdict = pattern_read(bytes, (uint32_t)sector, &number);

	if ((sim->traits[sector] & MAY_BE_ANYTHING) ||
	    (sim->rot_count > 0 && rot_reaches(sim, sector)))
		return;
	if (floor == 0 &&
	    (verdict == PATTERN_ZEROS ||
	     ((!sim->zeroed || sector >= sim->sectors_formatted) && verdict == PATTERN_RUBBISH)))
		return; /* as it was before the first write */
	if (verdict == PATTERN_ZEROS && sim->zero_latest[sector] >= floor) {
		/* Which of several it was can't be told. */
		if (sim->zero_before[sector] < floor)
			raise_floor(sim, sector, sim->zero_latest[sector], submit_us);
		return;
	}
	if (verdict != PATTERN_WRITE)
		sim_fail(sim, "%s: sector %llu (row %llu) holds %s, expected write %u to %u", where,
			 (unsigned long long)sector,
			 (unsigned long long)sim_sector_row(sim, sector),
			 verdict == PATTERN_ZEROS ? "zeros" : "rubbish", floor,
			 sim->submitted[sector]);
	if (number < floor || number > sim->submitted[sector])
		sim_fail(sim, "%s: sector %llu (row %llu) holds write %u, expected %u to %u", where,
			 (unsigned long long)sector,
			 (unsigned long long)sim_sector_row(sim, sector), number, floor,
			 sim->submitted[sector]);
	if (former_is_void(sim, number))
		sim_fail(sim,
			 "%s: sector %llu (row %llu) holds write %u, of a gateway that had lost "
			 "the volume",
			 where, (unsigned long long)sector,
			 (unsigned long long)sim_sector_row(sim, sector), number);
	/* What was once seen does not revert. */
	raise_floor(sim, sector, number, submit_us);
}

static void
check_read(struct sim *sim, const struct sim_request *request)
{
	for (uint64_t i = 0; i < request->count; i++) {
		uint64_t sector = request->sector + i;
		uint32_t floor = request->floor[i];

		if (floor == FLOOR_ANYTHING)
			continue;
		/* A cache that was lost meanwhile may have taken it back. */
		if (sim->floor[sector] < floor)
			floor = sim->floor[sector];
		oracle_sector(sim, sector, request->memory + i * PATTERN_SECTOR, floor,
			      request->submit_us, "read");
	}
}

/* A flush that succeeded covers what was lost before it began. */
static void
told_of_losses(struct sim *sim, const struct sim_request *request)
{
	if (request->cache_losses <= sim->cache_losses_told)
		return;
	sim->cache_losses_told = request->cache_losses;
	sim->told_us = sim->schedule.now_us;
}

/* A read that is under way when a write is acknowledged may come before it: what could not be known
 * then, or was given up, some piece of it may have met.
 */
static void
tell_readers(const struct sim *sim, struct sim_request *requests, const struct sim_request *write)
{
	for (struct sim_request *read = requests; read != NULL; read = read->next) {
		const uint64_t begin = read->sector > write->sector ? read->sector : write->sector;
		const uint64_t read_end = read->sector + read->count;
		const uint64_t write_end = write->sector + write->count;

		for (uint64_t i = begin;
		     read->request.op == REQUEST_READ && i < read_end && i < write_end; i++) {
			read->saw_loss |= (sim->traits[i] & MAY_BE_LOST) != 0;
			if (sim->traits[i] & MAY_BE_ANYTHING)
				read->floor[i - read->sector] = FLOOR_ANYTHING;
		}
	}
}

/* What was given up stands beneath it, until that is flushed. */
static void
overwritten(struct sim *sim, uint64_t sector, bool fua)
{
	if (fua)
		sim->traits[sector] &= (uint8_t)~WAS_ANYTHING;
	else if (sim->traits[sector] & MAY_BE_ANYTHING)
		sim->traits[sector] |= WAS_ANYTHING;
	sim->traits[sector] &= (uint8_t)~MAY_BE_ANYTHING;
}

/* The engine tells at the end of a turn what ended in it.  All members had answered a write that
 * ends in the very turn in which its row becomes unsure: it came before that, as if it had been
 * told a turn earlier.  One with FUA was flushed, and is not in doubt.
 */
static bool
ended_before_doubt(const struct sim *sim, const struct sim_request *write, uint64_t row)
{
	return sim->unsure[row] && !write->request.fua &&
	       sim->caches_gone_us == sim->schedule.now_us;
}

static void
acknowledge(struct sim *sim, const struct sim_request *request)
{
	uint64_t row = UINT64_MAX;
	uint64_t row_ends = 0;
	bool losable = false;

	tell_readers(sim, sim->active, request);
	tell_readers(sim, sim->former.active, request);
	for (uint64_t i = request->sector; i < request->sector + request->count; i++) {
		uint32_t number = request->floor[i - request->sector];

		if (row == UINT64_MAX || i == row_ends) {
			row = sim_sector_row(sim, i);
			row_ends = row_begin(sim, row + 1);
			/* Before the damage a long one may have been through with this row. */
			losable = damage_is_excessive(sim, row) ||
				  request->submit_us <= sim->damaged_us[row] ||
				  ended_before_doubt(sim, request, row);
		}
		raise_acknowledged(sim, i, number, request->submit_us);
		if (request->request.fua && sim->floor[i] > sim->flushed[i])
			sim->flushed[i] = number < sim->floor[i] ? number : sim->floor[i];
		/* Where it could be read only by luck, a rebuild may lose it yet. */
		if (!losable)
			sim->traits[i] &= (uint8_t)~MAY_BE_LOST;
		overwritten(sim, i, request->request.fua);
	}
}

/* By a gateway that another took for dead.  It stands there, for nobody wrote to its members
 * without it; the rest is as after a crash.
 */
void
oracle_acknowledged(struct sim *sim, const struct sim_request *request)
{
	for (uint64_t i = request->sector; i < request->sector + request->count; i++) {
		const uint32_t number = request->floor[i - request->sector];

		raise_acknowledged(sim, i, number, request->submit_us);
		if (request->request.fua && number > sim->flushed[i] && number <= sim->floor[i])
			sim->flushed[i] = number;
	}
}

void
oracle_flushed(struct sim *sim, const struct sim_request *request)
{
	for (uint64_t i = 0; i < request->sectors; i++) {
		const uint32_t safe =
			request->floor[i] < sim->floor[i] ? request->floor[i] : sim->floor[i];

		if (safe > sim->flushed[i])
			sim->flushed[i] = safe;
		if (safe == sim->floor[i])
			sim->traits[i] &= (uint8_t)~WAS_ANYTHING;
	}
}

void
oracle_open_rows(struct sim *sim, const struct sim_request *request)
{
	const uint64_t last = sim_sector_row(sim, request->sector + request->count - 1);

	for (uint64_t row = sim_sector_row(sim, request->sector); row <= last; row++)
		if (!sim->unsure[row])
			make_region_unsure(sim, sim_region(sim, row));
}

static bool
row_is_written(const struct sim *sim, uint64_t row)
{
	for (const struct sim_request *other = sim->active; other != NULL; other = other->next)
		if (is_write(other) && row >= sim_sector_row(sim, other->sector) &&
		    row <= sim_sector_row(sim, other->sector + other->count - 1))
			return true;
	return false;
}

/* What the engine writes by itself, where no request is about the row, mends it: that is in caches
 * as any write is.  What is copied to a device that is being filled is not, for that counts for
 * nothing yet; nor are rows that nobody ever wrote.
 */
void
oracle_member_wrote(void *owner, struct fake_member *member, uint64_t offset_bytes,
		    uint32_t length_bytes)
{
	struct sim *sim = owner;
	const int m = (int)(member - sim->members);
	const int role = sim->roles[m];

	if (offset_bytes < sim->data_offset || role < 0 || sim->holder[role] != m)
		return;
	for (uint64_t at = offset_bytes - (offset_bytes - sim->data_offset) % sim->chunk_bytes;
	     at < offset_bytes + length_bytes; at += sim->chunk_bytes) {
		const uint64_t row = sim_row_at(sim, role, at - sim->data_offset);

		if (row >= sim->rows || sim->written_us[row] == 0 || row_is_written(sim, row))
			continue;
		sim->unflushed[row] = true;
		sim->written_us[row] = sim->schedule.now_us;
	}
}

/* It was acknowledged before the flush began, and was in a cache then, or had been lost with one:
 * it has to be there.
 */
static void
judge_untold(struct sim *sim, const struct sim_request *request)
{
	for (uint64_t i = 0; sim->any_untold && i < request->sectors; i++) {
		if (sim->untold[i] == 0 ||
		    (request->floor[i] < sim->untold[i] && request->submit_us <= sim->reverted_us))
			continue;
		if (sim->floor[i] < sim->untold[i])
			sim->floor[i] = sim->untold[i];
		if (sim->flushed[i] < sim->untold[i])
			sim->flushed[i] = sim->untold[i];
		sim->untold[i] = 0;
	}
}

static void
flushed(struct sim *sim, const struct sim_request *request)
{
	judge_untold(sim, request);
	for (uint64_t row = 0; row < sim->rows && request->sectors == sim->sectors; row++)
		if (sim->written_us[row] < request->submit_us && !row_is_written(sim, row))
			sim->unflushed[row] = false;
	for (uint64_t i = 0; i < request->sectors; i++) {
		uint32_t safe =
			request->floor[i] < sim->floor[i] ? request->floor[i] : sim->floor[i];

		if (safe > sim->flushed[i])
			sim->flushed[i] = safe;
	}
	told_of_losses(sim, request);
}

/* Of a write under way some piece, or some member's part, may have failed already, and left its
 * rows unsure.
 */
static bool
write_may_have_failed(const struct sim *sim, uint64_t begin, uint64_t end)
{
	const bool rows = sim_can(sim, ABILITY_ROWS_JUDGED);
	uint64_t first = sim_sector_row(sim, begin);
	uint64_t last = sim_sector_row(sim, end - 1);

	if (!rows) {
		first -= first % sim->region_rows;
		last += sim->region_rows - 1 - last % sim->region_rows;
	}
	for (const struct sim_request *other = sim->active; other != NULL; other = other->next)
		if (is_write(other) && other->submit_us <= sim->excess_until_us &&
		    sim_sector_row(sim, other->sector) <= last &&
		    sim_sector_row(sim, other->sector + other->count - 1) >= first)
			return true;
	return false;
}

/* May some sector of the request be lost? A write is refused for its rows' sake too: what it needs
 * to read of them.
 */
static bool
loss_is_fair(const struct sim *sim, const struct sim_request *request)
{
	uint64_t begin = request->sector;
	uint64_t end = begin + request->count;

	if (request->request.op == REQUEST_FLUSH)
		return false;
	if (write_may_have_failed(sim, begin, end))
		return true;
	for (uint64_t row = sim_sector_row(sim, begin); row <= sim_sector_row(sim, end - 1); row++)
		if (damage_is_excessive(sim, row))
			return true;
	if (is_write(request)) {
		end = row_begin(sim, sim_sector_row(sim, end - 1) + 1);
		begin = row_begin(sim, sim_sector_row(sim, begin));
	}
	for (uint64_t i = begin; i < end; i++)
		if (sim->traits[i] & MAY_BE_LOST)
			return true;
	return false;
}

/* Members that refused something since then. */
static uint32_t
refusing_roles(const struct sim *sim, uint64_t since_us)
{
	uint32_t roles = 0;

	for (int m = 0; m < sim->slots; m++)
		if (sim->roles[m] >= 0 && sim->members[m].refused_us >= since_us)
			roles |= 1u << sim->roles[m];
	return roles;
}

/* One member refuses what another can't read: together more than the level bears.  A read needs its
 * own columns only, in pieces of 4 KiB.  A write may be carried out with others of its row, and P
 * and Q are made for all columns from the first to the last.
 */
static bool
meets_refusal(const struct sim *sim, const struct sim_request *request)
{
	const uint32_t without =
		refusing_roles(sim, request->submit_us) | sim->out_roles | sim->wiped_roles;
	const uint64_t end = (request->sector + request->count) * PATTERN_SECTOR;

	for (uint64_t at = request->sector * PATTERN_SECTOR / DISK_PAGE * DISK_PAGE;
	     at < end && without != 0; at += DISK_PAGE) {
		const uint64_t row = sim_sector_row(sim, at / PATTERN_SECTOR);
		const uint32_t damaged =
			is_write(request) ? damaged_at(sim, row, 0, sim->chunk_bytes)
					  : damaged_at(sim, row, at % sim->chunk_bytes, DISK_PAGE);

		if (damaged != 0 && too_many(sim, row, without | damaged))
			return true;
	}
	return false;
}

/* What the write log has acknowledged is given up where a member refuses its row, which is asked each
 * second, while others are out, and the log has no room left: the engine says when.
 */
static void
allow_given_up(struct sim *sim)
{
	const uint64_t now_us = sim->schedule.now_us,
		       lately_us = now_us < 2000000 ? 1 : now_us - 2000000;
	const uint32_t without = refusing_roles(sim, lately_us) | sim->out_roles | sim->wiped_roles;
	struct lost_range range;
	uint64_t from = 0;

	if (sim->engine_options.log != LOG_MODE_ALWAYS || !sim->running_seen ||
	    !too_many(sim, 0, without))
		return;
	while (engine_lost_list(sim->engine, from, &range, 1) == 1) {
		const uint64_t first = range.offset_bytes / PATTERN_SECTOR;

		for (uint64_t i = 0; i < range.length_bytes / PATTERN_SECTOR; i++)
			if (too_many(sim, sim_sector_row(sim, first + i), without))
				sim->traits[first + i] |= MAY_BE_LOST;
		from = range.offset_bytes + range.length_bytes - 1;
	}
}

void
oracle_look_at_losses(struct sim *sim)
{
	allow_given_up(sim);
	for (struct sim_request *request = sim->active; request != NULL; request = request->next) {
		if (request->count == 0)
			continue;
		request->saw_refusal |=
			refusing_roles(sim, request->submit_us) != 0 && meets_refusal(sim, request);
		if (is_write(request) && !request->saw_loss &&
		    sim_sector_row(sim, request->sector) !=
			    sim_sector_row(sim, request->sector + request->count - 1))
			request->saw_loss = loss_is_fair(sim, request);
	}
}

void
oracle_accepting(struct sim *sim)
{
	struct lost_range range;
	uint64_t from = 0;

	while (engine_lost_list(sim->engine, from, &range, 1) == 1) {
		uint64_t end = (range.offset_bytes + range.length_bytes) / PATTERN_SECTOR;

		for (uint64_t i = range.offset_bytes / PATTERN_SECTOR; i < end; i++)
			if (i >= sim->accepted_from && i < sim->accepted_to)
				sim->traits[i] |= MAY_BE_ANYTHING;
		from = range.offset_bytes + range.length_bytes - 1;
	}
}

/* Something was refused meanwhile, and its rows have nothing to do without it. */
/* Another gateway has so many members that one which refuses a command can't be spared. */
static bool
refuser_is_needed(const struct sim *sim, const struct sim_request *request)
{
	uint32_t away = sim->out_roles;

	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] < 0 || sim->members[sim->holder[role]].taken)
			away |= 1u << role;
	for (int role = 0; sim->taking_us != 0 && role < sim->count; role++)
		if (sim->holder[role] >= 0 &&
		    sim->members[sim->holder[role]].refused_us >= request->submit_us &&
		    !geometry_bears(&sim->geometry, away | 1u << role))
			return true;
	return false;
}

static bool
refusal_is_fair(const struct sim *sim, const struct sim_request *request)
{
	bool refused = false;

	for (int m = 0; m < sim->slots; m++)
		refused |= sim->members[m].refused_us >= request->submit_us;
	if (!refused || sim->geometry.redundancy == 0 || request->count == 0)
		return refused && sim->geometry.redundancy == 0;
	if (request->saw_refusal || meets_refusal(sim, request) || refuser_is_needed(sim, request))
		return true;
	for (uint64_t row = sim_sector_row(sim, request->sector);
	     row <= sim_sector_row(sim, request->sector + request->count - 1); row++)
		if (is_unproven(sim, row))
			return true;
	return false;
}

/* The first that another gateway has can't be spared, or the second can't, and the others, which it
 * has not come to yet, deny it.  They are asked again within half a second.
 */
static bool
taking_takes_long(const struct sim *sim)
{
	return sim->taking_us != 0 && (sim->taking_troubled || sim->taken_us == 0 ||
				       sim->schedule.now_us <= sim->taken_us + 1000000);
}

/* How long a request waits before it is ended, as engine/core/overdue.c has it. */
static uint64_t
request_time_ms(const struct sim *sim)
{
	const struct engine_options *options = &sim->engine_options;

	return engine_request_ms_max(options) -
	       (uint64_t)BACKEND_IO_DEADLINES * options->give_up_ms - 1000;
}

/* Is any member in trouble, or was it since then? */
static bool
was_troubled(const struct sim *sim, uint64_t since_us)
{
	for (int m = 0; m < sim->slots; m++)
		if (sim->slot_of[m] >= 0 && sim->trouble_until_us[m] >= since_us)
			return true;
	return false;
}

/* How long a hang takes to be noticed: give_up, or the fake's deadline, which is drawn apart from
 * it.
 */
static uint64_t
noticed_ms(const struct sim *sim)
{
	uint64_t longest_ms = sim->engine_options.give_up_ms;

	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].deadline_us / 1000 > longest_ms)
			longest_ms = sim->members[m].deadline_us / 1000;
	return longest_ms;
}

/* A slow member that others can't do without, and requests that wait for each other's rows: each of
 * them reads, writes, flushes, and has losses forgotten.  Or no memory for what has to be recorded
 * before anything goes on, which is tried again each second.  What counts is its life, not its end:
 * the member may be quick again by then, and those it waited for be done.  For the rest of its time
 * it was held up by neither, and that is no longer than it takes to find out who is silent, and to
 * do without; or, where nobody was in trouble, until it asked for memory.
 */
static bool
is_held_up(struct sim *sim, const struct sim_request *request, uint64_t lived_ms)
{
	const struct engine_options *options = &sim->engine_options;
	const uint64_t time_ms = request_time_ms(sim),
		       steps = options->log != LOG_MODE_OFF ? 10 : 8,
		       others_ms = 3 * noticed_ms(sim) + options->grace_ms;
	const uint64_t slowest_us = time_slowest_us(sim, request->submit_us);
	const bool slow = (uint64_t)request->most_active * steps * slowest_us / 1000 >= time_ms;
	const uint64_t rest_ms =
		slow || was_troubled(sim, request->submit_us) ? others_ms : MEMORY_RETRY_MS;

	return lived_ms + 1 >= time_ms &&
	       lived_ms <= time_held_up_us(sim, request->submit_us, slow) / 1000 + rest_ms;
}

/* Who is silent in its sessions is given up when the second has ended: here one may last for two of
 * the member's deadlines, which are not give_up as in the product.  Who answers something all the
 * time has a session for as long as a command may take in it, and give_up of another.
 */
static bool
silence_takes_long(const struct sim *sim, uint64_t lived_ms)
{
	const struct engine_options *options = &sim->engine_options;
	const uint64_t time_ms = request_time_ms(sim),
		       silent_ms = 4 * sim->members[sim->stay.member].deadline_us / 1000 +
				   options->grace_ms;
	const uint64_t deaf_ms =
		(BACKEND_IO_DEADLINES + 1ull) * options->give_up_ms + options->grace_ms + 1000;
	const bool answers = sim->stay.kind == STAY_DATA_MUTE;

	return sim->stay.lasts && lived_ms + 1 >= time_ms &&
	       (answers || silent_ms > deaf_ms ? deaf_ms : silent_ms) >= time_ms;
}

/* Roles that a start may have to do without. */
static uint32_t
roles_away(const struct sim *sim)
{
	uint32_t away = sim->out_roles | record_away(sim, -1);

	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] < 0 ||
		    sim->trouble_until_us[sim->holder[role]] > sim->schedule.now_us)
			away |= 1u << role;
	return away;
}

static bool
start_lacks_members(const struct sim *sim)
{
	return !geometry_bears(&sim->geometry, roles_away(sim));
}

/* Those that are well can't read it, and of the others one refuses to: that may pass, and it is
 * asked again.
 */
static bool
map_is_withheld(const struct sim *sim)
{
	const uint32_t away = roles_away(sim);
	bool refused = false;

	for (int role = 0; role < sim->count; role++) {
		const int m = sim->holder[role];

		if (!((away >> role) & 1) &&
		    !disk_is_damaged(&sim->members[m].disk, LAYOUT_MAP_OFFSET,
				     LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET))
			return false;
		refused |= m >= 0 && sim->members[m].refused_us >= sim->started_us;
	}
	return refused && has_parity(sim);
}

/* of each member, one after the other, before and after who is missing is waited for */
#define START_ANSWERS 20
/* the writes among them, of a start that begins again because one is back */
#define START_SUPERBLOCKS 8

static uint64_t
slowest_superblock_us(const struct sim *sim)
{
	uint64_t slowest_us = 0;

	for (int m = 0; m < sim->slots; m++)
		if (sim->slot_of[m] >= 0 && sim->members[m].superblock_us_max > slowest_us)
			slowest_us = sim->members[m].superblock_us_max;
	return slowest_us;
}

/* What a start has to do takes so long by itself: its members' answers, and the epochs that it
 * records on the gateway before and after the members have them.  None of that is done while it
 * waits for who is missing.
 */
static uint64_t
start_steps_us(const struct sim *sim)
{
	return START_ANSWERS * time_slowest_us(sim, sim->started_us) +
	       START_SUPERBLOCKS * slowest_superblock_us(sim) + sim->epochs_us;
}

/* Those that are missing could have gone on without all others (but one, whose place may have
 * changed hands): to be asked about that, a device that says nothing yet may cost a start more than
 * its requests have.
 */
static bool
half_is_awaited(const struct sim *sim)
{
	const struct engine_options *options = &sim->engine_options;
	const uint32_t missing = roles_away(sim);
	/* it is asked about when there are enough */
	const uint64_t lacking_us =
		sim->excess_until_us > sim->started_us ? sim->excess_until_us - sim->started_us : 0;
	bool silent = false, half = false;

	for (int m = 0; m < sim->slots; m++)
		silent |= sim->slot_of[m] >= 0 && sim->trouble_until_us[m] > sim->schedule.now_us;
	for (int role = 0; role < sim->count; role++)
		half |= geometry_bears(&sim->geometry,
				       geometry_lowest(sim->count) & ~(missing | 1u << role));
	return silent && missing != 0 && half &&
	       options->assembly_wait_ms + 2ull * options->give_up_ms +
			       (lacking_us + start_steps_us(sim)) / 1000 >=
		       options->assembly_limit_ms;
}

/* That alone. */
static bool
start_is_slow(const struct sim *sim)
{
	return start_steps_us(sim) / 1000 >= sim->engine_options.assembly_limit_ms;
}

/* Another gateway kept this start from members, or did until a moment ago. */
static bool
is_contested(const struct sim *sim)
{
	return sim->contested_us >= sim->started_us && sim->contested_us != 0 &&
	       sim->schedule.now_us - sim->contested_us <= CONTEST_US;
}

/* What joined a write of its row ends with it, once it has been written; and what waits for one that
 * was ended in its time may wait for what that does yet.
 */
static bool
joined_late(const struct sim *sim, const struct sim_request *request)
{
	return is_write(request) && request->count > 0 && sim->late.at_us >= request->submit_us &&
	       sim_sector_row(sim, request->sector) <= sim->late.last_row &&
	       sim_sector_row(sim, request->sector + request->count - 1) >= sim->late.first_row;
}

static void
note_late(struct sim *sim, const struct sim_request *request)
{
	if (!is_write(request) || request->count == 0)
		return;
	sim->late.at_us = request->done_us;
	sim->late.first_row = sim_sector_row(sim, request->sector);
	sim->late.last_row = sim_sector_row(sim, request->sector + request->count - 1);
}

static bool
is_late_fairly(struct sim *sim, const struct sim_request *request, uint64_t lived_ms)
{
	if (request->submit_us <= sim->excess_until_us || taking_takes_long(sim) ||
	    silence_takes_long(sim, lived_ms) || is_held_up(sim, request, lived_ms)) {
		note_late(sim, request);
		return true;
	}
	return joined_late(sim, request);
}

static bool
error_is_fair(struct sim *sim, const struct sim_request *request, int result)
{
	const uint64_t lived_ms = (request->done_us - request->submit_us) / 1000;
	const bool excess = request->submit_us <= sim->excess_until_us;
	/* A write with FUA is not told what a cache took along: it writes its own data again. */
	const bool told = request->request.op == REQUEST_FLUSH;
	/* It would come over writes that passed it, and may be lost themselves. */
	const bool overtaken = request->request.op == REQUEST_ZERO && sim->caches_gone_us != 0 &&
			       sim->caches_gone_us >= request->submit_us;

	sim_look(sim);
	switch (-result) {
	case ENODATA:
		return request->saw_loss || loss_is_fair(sim, request);
	case ETIMEDOUT:
		return is_late_fairly(sim, request, lived_ms);
	case ETIME:
		return request->request.limit_ms != 0;
	case ENOMEM:
		return engine_memory_refused() > request->memory_refused;
	case EIO:
		return (told && (sim->cache_losses > sim->cache_losses_told ||
				 request->submit_us <= sim->told_us)) ||
		       excess || overtaken || refusal_is_fair(sim, request) || request->saw_loss ||
		       loss_is_fair(sim, request);
	case ENOMEDIUM:
		return !sim->running_seen &&
		       (excess || is_contested(sim) || sim->struck_assembling ||
			start_lacks_members(sim) || map_is_withheld(sim) || half_is_awaited(sim) ||
			start_is_slow(sim)) &&
		       sim->schedule.now_us - sim->started_us + 1000 >=
			       sim->engine_options.assembly_limit_ms * 1000ull;
	case ESHUTDOWN:
		return sim->stopping || sim->taking_us != 0 || sim->fenced_fairly;
	default:
		sim_trace(sim, "unknown error after %llu ms", (unsigned long long)lived_ms);
		return false;
	}
}

static void
trace_lost(struct sim *sim)
{
	struct lost_range range;

	for (uint64_t from = 0; engine_lost_list(sim->engine, from, &range, 1) == 1;
	     from = range.offset_bytes + range.length_bytes)
		sim_trace(sim, "on record as lost: %llu sectors at %llu",
			  (unsigned long long)(range.length_bytes / PATTERN_SECTOR),
			  (unsigned long long)(range.offset_bytes / PATTERN_SECTOR));
}

static void
trace_rows(struct sim *sim, const struct sim_request *request)
{
	uint64_t last = sim_sector_row(sim, request->sector +
						    (request->count > 0 ? request->count - 1 : 0));

	sim_trace(sim, "submitted at %.3f, more members in trouble than the level bears until %.3f",
		  (double)request->submit_us / 1000, (double)sim->excess_until_us / 1000);
	if (!sim->running_seen)
		sim_trace(sim, "not assembled yet: %s", sim->status.reason);
	else
		trace_lost(sim);
	sim_trace(sim, "out %#x, away %#x, of these on some record %#x", sim->out_roles,
		  roles_away(sim), record_away(sim, -1));
	for (uint64_t row = sim_sector_row(sim, request->sector); row <= last; row++) {
		sim_trace(sim,
			  "row %llu (region %u%s%s): cache lost on %#x, damaged on %#x, out %#x",
			  (unsigned long long)row, sim_region(sim, row),
			  sim->unsure[row] ? " unsure" : "", sim->touched[row] ? " touched" : "",
			  sim->dropped_roles[row], sim->damaged_roles[row], sim->out_roles);
		for (int m = 0; m < sim->slots; m++)
			for (int i = 0; i < sim->members[m].disk.bad_count; i++)
				if (sim->roles[m] >= 0 &&
				    sim_row_at(sim, sim->roles[m],
					       sim->members[m].disk.bad[i] - sim->data_offset) ==
					    row)
					sim_trace(
						sim, "  unreadable: member %d column %llu", m,
						(unsigned long long)((sim->members[m].disk.bad[i] -
								      sim->data_offset) %
								     sim->chunk_bytes));
	}
}

/* What stands there was certain when it was submitted.  A cache that was lost since may have
 * changed that.
 */
static void
judge_comparison(struct sim *sim, const struct sim_request *request, int result)
{
	uint8_t traits = 0;

	for (uint64_t i = request->sector; i < request->sector + request->count; i++)
		traits |= sim->traits[i];
	if (result == 0 && request->differs_at >= 0)
		sim_fail(sim, "compare and write %u at sector %llu did not see the difference",
			 request->number, (unsigned long long)request->sector);
	if (result == 0 || (traits & (MAY_BE_ANYTHING | CACHE_REVERTED)))
		return;
	if (request->request.mismatch_bytes != (uint64_t)request->differs_at)
		sim_fail(sim,
			 "compare and write %u at sector %llu: differs at byte %llu, not at %lld",
			 request->number, (unsigned long long)request->sector,
			 (unsigned long long)request->request.mismatch_bytes,
			 (long long)request->differs_at);
}

static void
write_failed(struct sim *sim, const struct sim_request *request)
{
	uint64_t last = sim_sector_row(sim, request->sector + request->count - 1);

	for (uint64_t row = sim_sector_row(sim, request->sector); row <= last; row++)
		make_unsure(sim, row);
}

/* A flush that was submitted before may have passed it by. */
static void
write_ended(struct sim *sim, const struct sim_request *request)
{
	uint64_t last = sim_sector_row(sim, request->sector + request->count - 1);

	for (uint64_t row = sim_sector_row(sim, request->sector); row <= last; row++)
		sim->written_us[row] = sim->schedule.now_us;
}

void
oracle_judge(struct sim *sim, struct sim_request *request, int result)
{
	sim_trace(sim, "done   %s sector %llu count %llu number %u: %s",
		  sim_op_name(request->request.op), (unsigned long long)request->sector,
		  (unsigned long long)request->count, request->number,
		  result == 0 ? "ok" : strerror(-result));
	time_judge(sim, request);
	for (uint64_t i = 0; request->request.op == REQUEST_ZERO && i < request->count; i++)
		sim->zero_ended_us[request->sector + i] = sim->schedule.now_us;
	if (is_write(request))
		write_ended(sim, request);
	if (request->request.op == REQUEST_COMPARE_WRITE && (result == 0 || result == -EILSEQ))
		judge_comparison(sim, request, result);
	if (result == -EILSEQ)
		return;
	if (result != 0) {
		if (!error_is_fair(sim, request, result)) {
			trace_rows(sim, request);
			sim_fail(sim, "%s of %llu sectors at %llu failed without reason: %s",
				 sim_op_name(request->request.op),
				 (unsigned long long)request->count,
				 (unsigned long long)request->sector, strerror(-result));
		}
		if (is_write(request))
			write_failed(sim, request);
		if (request->request.op == REQUEST_FLUSH)
			oracle_told(sim);
		return;
	}
	if (sim->taken_us != 0 && is_write(request) && request->submit_us >= sim->taken_us)
		sim_fail(sim,
			 "%s of %llu sectors at %llu was acknowledged, and another gateway had all "
			 "members",
			 sim_op_name(request->request.op), (unsigned long long)request->count,
			 (unsigned long long)request->sector);
	switch (request->request.op) {
	case REQUEST_READ:
		check_read(sim, request);
		break;
	case REQUEST_WRITE:
	case REQUEST_ZERO:
	case REQUEST_COMPARE_WRITE:
		acknowledge(sim, request);
		break;
	case REQUEST_FLUSH:
		flushed(sim, request);
		break;
	}
}

/* --- life --- */

void
oracle_init(struct sim *sim)
{
	sim->memory_refused = engine_memory_refused();
	sim->floor = calloc(sim->sectors_max, sizeof(*sim->floor));
	sim->flushed = calloc(sim->sectors_max, sizeof(*sim->flushed));
	sim->submitted = calloc(sim->sectors_max, sizeof(*sim->submitted));
	sim->zero_latest = calloc(sim->sectors_max, sizeof(*sim->zero_latest));
	sim->zero_before = calloc(sim->sectors_max, sizeof(*sim->zero_before));
	sim->zero_ended_us = calloc(sim->sectors_max, sizeof(*sim->zero_ended_us));
	sim->traits = calloc(sim->sectors_max, 1);
	sim->unsure = calloc(sim->rows_max, sizeof(*sim->unsure));
	sim->open = calloc(sim->rows_max, sizeof(*sim->open));
	sim->touched = calloc(sim->rows_max, sizeof(*sim->touched));
	sim->unproven = calloc(sim->rows_max, sizeof(*sim->unproven));
	sim->raw = calloc(sim->rows_max, sizeof(*sim->raw));
	if (has_parity(sim) && !sim->zeroed) {
		memset(sim->unproven, true, sim->rows * sizeof(*sim->unproven));
		memset(sim->raw, true, sim->rows * sizeof(*sim->raw));
	}
	sim->unflushed = calloc(sim->rows_max, sizeof(*sim->unflushed));
	sim->written_us = calloc(sim->rows_max, sizeof(*sim->written_us));
	sim->untold = calloc(sim->sectors_max, sizeof(*sim->untold));
	sim->dropped_us = calloc(sim->rows_max, sizeof(*sim->dropped_us));
	sim->damaged_us = calloc(sim->rows_max, sizeof(*sim->damaged_us));
	sim->dropped_roles = calloc(sim->rows_max, sizeof(*sim->dropped_roles));
	sim->damaged_roles = calloc(sim->rows_max, sizeof(*sim->damaged_roles));
}

void
oracle_free(struct sim *sim)
{
	free(sim->floor);
	free(sim->flushed);
	free(sim->submitted);
	free(sim->zero_latest);
	free(sim->zero_before);
	free(sim->zero_ended_us);
	free(sim->traits);
	free(sim->unsure);
	free(sim->open);
	free(sim->touched);
	free(sim->unproven);
	free(sim->raw);
	free(sim->unflushed);
	free(sim->written_us);
	free(sim->dropped_roles);
	free(sim->untold);
	free(sim->dropped_us);
	free(sim->damaged_us);
	free(sim->damaged_roles);
}
