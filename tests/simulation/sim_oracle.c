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

bool
sim_has_parity(const struct sim *sim)
{
	return sim->level == 5 || sim->level == 6;
}

/* The row's share of these roles is more than it can do without. */
bool
sim_too_many(const struct sim *sim, uint64_t row, uint32_t roles)
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
	return sim_has_parity(sim) ? -1 : 0;
}

uint64_t
sim_row_at(const struct sim *sim, int role, uint64_t offset_bytes)
{
	uint64_t chunk = offset_bytes / sim->chunk_bytes;

	return sim->level == 10 ? (chunk * (uint64_t)sim->count + (uint64_t)role) / 2 : chunk;
}

uint64_t
sim_row_begin(const struct sim *sim, uint64_t row)
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

bool
sim_is_write(const struct sim_request *request)
{
	return request->request.op != REQUEST_READ && request->request.op != REQUEST_FLUSH;
}

/* Its P and Q may be worth nothing. */
bool
sim_is_unproven(const struct sim *sim, uint64_t row)
{
	return sim_has_parity(sim) && (sim->unsure[row] || sim->open[row] || sim->unproven[row]);
}

/* --- permissions --- */

static void
allow_loss(struct sim *sim, uint64_t row, int role)
{
	const uint32_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;
	int chunk = data_chunk(sim, row, role);
	uint64_t first = sim_row_begin(sim, row) + (uint64_t)chunk * chunk_sectors;

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
	for (uint64_t i = sim_row_begin(sim, row); i < sim_row_begin(sim, row + 1); i++) {
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
	const bool unproven = sim_is_unproven(sim, row);
	const uint32_t out = sim->out_roles | sim->wiped_roles;

	if (sim->dropped_roles[row] != 0 &&
	    (unsure || sim_too_many(sim, row, sim->dropped_roles[row] | out))) {
		revert_dropped(sim, row);
		if (__builtin_popcount(out) > 0 && sim_has_parity(sim))
			allow_row_loss(sim, row);
	}
	if (sim->damaged_roles[row] != 0 &&
	    (unproven ||
	     sim_too_many(sim, row, sim->damaged_roles[row] | sim->dropped_roles[row] | out)))
		allow_row_loss(sim, row);
	if (unsure && sim_has_parity(sim))
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
	raw_assembled(sim);
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
		if (region_is_open(sim, region) && sim_has_parity(sim) && recorded != 0 &&
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
		sim->raw[row] = sim_has_parity(sim);
		sim->unproven[row] = sim_has_parity(sim);
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
	       sim->members[m].flushes_answered == sim->flushes_before[m] ||
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
			memset(start->floor + sim_row_begin(sim, row), 0,
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
		const uint64_t first = sim_row_begin(sim, row) + (uint64_t)chunk * chunk_sectors;

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
	/* what the log had acknowledged: a flush has to say so */
	sim->cache_losses += sim->engine_options.log == LOG_MODE_ALWAYS;
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
	sector = sim_row_begin(sim, row) +
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
uint32_t
oracle_damaged_at(const struct sim *sim, uint64_t row, uint64_t column, uint64_t length_bytes)
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
	return oracle_damaged_at(sim, row, 0, sim->chunk_bytes);
}

bool
oracle_damage_is_excessive(const struct sim *sim, uint64_t row)
{
	uint32_t damaged = row_damage(sim, row);

	return damaged != 0 &&
	       (sim_is_unproven(sim, row) ||
		sim_too_many(sim, row, damaged | sim->out_roles | sim->wiped_roles));
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
			row_ends = sim_row_begin(sim, row + 1);
			/* Before the damage a long one may have been through with this row. */
			losable = oracle_damage_is_excessive(sim, row) ||
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
		if (sim_is_write(other) && row >= sim_sector_row(sim, other->sector) &&
		    row <= sim_sector_row(sim, other->sector + other->count - 1))
			return true;
	return false;
}

/* What the engine writes by itself, where no request is about the row, mends it: that is in caches
 * as any write is.  What is copied to a device that is being filled is not, for that counts for
 * nothing yet; nor are rows that nobody ever wrote, unless others of their region were written
 * before this gateway was assembled: maps tell of regions only.
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

		if (row >= sim->rows || (sim->written_us[row] == 0 && !sim->found_written[row]) ||
		    row_is_written(sim, row))
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
	if (sim_is_write(request))
		write_ended(sim, request);
	if (request->request.op == REQUEST_COMPARE_WRITE && (result == 0 || result == -EILSEQ))
		judge_comparison(sim, request, result);
	if (result == -EILSEQ)
		return;
	if (result != 0) {
		fair_judge(sim, request, result);
		if (sim_is_write(request))
			write_failed(sim, request);
		if (request->request.op == REQUEST_FLUSH)
			oracle_told(sim);
		return;
	}
	if (sim->taken_us != 0 && sim_is_write(request) && request->submit_us >= sim->taken_us)
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
	if (sim_has_parity(sim) && !sim->zeroed) {
		memset(sim->unproven, true, sim->rows * sizeof(*sim->unproven));
		memset(sim->raw, true, sim->rows * sizeof(*sim->raw));
	}
	sim->found_written = calloc(sim->rows_max, sizeof(*sim->found_written));
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
	free(sim->found_written);
	free(sim->unflushed);
	free(sim->written_us);
	free(sim->dropped_roles);
	free(sim->untold);
	free(sim->dropped_us);
	free(sim->damaged_us);
	free(sim->damaged_roles);
}
