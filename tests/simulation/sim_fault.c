/* sim_fault.c - what goes wrong, and when it is over.
 *
 * Faults last from a millisecond to half a minute.  Most strike a member that is in trouble
 * already, or the only one: then the level bears them and no request may fail.  Some strike one
 * more, and I/O has to wait.  excess_until_us is when that is over at the latest, the time included
 * that the engine takes to reconnect.
 */
#include "sim.h"

#include "engine_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Back-off before a member is tried again, its log-in, and what the engine then reads. */
#define SLACK_US 6000000ull
#define LOGIN_US 150000ull /* an engine tries the other path after that, and reads who it is */

const char *const fault_names[FAULT_KINDS] = {
	"session cut",	 "link down",	  "hang",	   "power lost",
	"slow",		 "path down",	  "medium error",  "command refused",
	"wrong disk",	 "disk wiped",	  "sectors stuck", "conflict",
	"shape changed", "rolled back",	  "standstill",	   "deferred error",
	"no memory",	 "gateway crash", "blackout",	   "stop and start",
	"fenced off",	 "clone",	  "forced",	   "second gateway",
	"halves",	 "logged",	  "pair",
};

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

/* --- cures --- */

static void
cure(struct sim *sim, int m, enum cure_kind kind)
{
	struct fake_member *member = &sim->members[m];

	switch (kind) {
	case CURE_REACH:
		member->reachable = true;
		break;
	case CURE_LINK:
		fake_member_link(member, true);
		break;
	case CURE_HANG:
		fake_member_continue(member);
		break;
	case CURE_SPEED:
		time_set_answers(sim, m, SIM_ANSWER_US_MIN, SIM_ANSWER_US_MAX);
		break;
	case CURE_PATH:
		member->path_down[0] = false;
		member->path_down[1] = false;
		break;
	case CURE_REFUSE:
		member->refuse_writes = false;
		member->refuse_reads = false;
		break;
	case CURE_FOREIGN:
		/* Pulled out again: a session to it ends. */
		fake_member_cut(member, member->reachable);
		member->foreign = NULL;
		break;
	case CURE_CONFLICT:
		member->conflicts = false;
		break;
	case CURE_SHAPE:
		fake_member_cut(member, member->reachable);
		member->told_block_bytes = 0;
		member->capacity_bytes = sim->member_bytes;
		break;
	case CURE_KINDS:
		break;
	}
}

static void
cure_event(struct event *event)
{
	struct cure *c = (struct cure *)event;

	sim_trace(c->sim, "member %d is cured of %d", c->member, c->kind);
	cure(c->sim, c->member, c->kind);
}

static void
cure_after(struct sim *sim, int m, enum cure_kind kind, uint64_t lasts_us)
{
	struct cure *c = &sim->cures[m][kind];

	schedule_cancel(&sim->schedule, &c->event);
	schedule_add(&sim->schedule, &c->event, now(sim) + lasts_us);
}

void
fault_cure_all(struct sim *sim)
{
	stay_end(sim);
	clone_end(sim);
	engine_memory_refuse(0, 0);
	for (int m = 0; m < sim->slots; m++)
		for (int kind = 0; kind < CURE_KINDS; kind++) {
			struct cure *c = &sim->cures[m][kind];

			if (c->event.place == 0)
				continue;
			schedule_cancel(&sim->schedule, &c->event);
			cure(sim, m, (enum cure_kind)kind);
		}
	sim->no_epoch_until_us = 0;
	sim->still_until_us = 0;
	for (int m = 0; m < sim->slots; m++)
		disk_loosen(&sim->members[m].disk);
	for (int m = 0; m < sim->slots; m++)
		if (sim->trouble_until_us[m] > now(sim) + SLACK_US)
			sim->trouble_until_us[m] = now(sim) + SLACK_US;
	if (sim->excess_until_us > now(sim) + SLACK_US)
		sim->excess_until_us = now(sim) + SLACK_US;
}

void
fault_init(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		for (int kind = 0; kind < CURE_KINDS; kind++)
			sim->cures[m][kind] = (struct cure){
				.event = { .fire = cure_event },
				.sim = sim,
				.member = m,
				.kind = (enum cure_kind)kind,
			};
}

/* --- whom --- */

static bool
in_trouble(const struct sim *sim, int m)
{
	return (sim->roles[m] >= 0 && sim->holder[sim->roles[m]] != m) ||
	       sim->trouble_until_us[m] > now(sim);
}

bool
fault_troubled(const struct sim *sim)
{
	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] < 0 || in_trouble(sim, sim->holder[role]))
			return true;
	return false;
}

/* Until when are more in trouble than the level bears? The members that are in trouble the longest
 * but for those that it bears.
 */
void
fault_update_excess(struct sim *sim)
{
	uint64_t ends[SIM_MEMBERS_MAX];

	for (int role = 0; role < sim->count; role++) {
		const int m = sim->holder[role];
		uint64_t ends_us = (sim->out_roles >> role) & 1 || m < 0 ? UINT64_MAX
									 : sim->trouble_until_us[m];
		int at = role;

		while (at > 0 && ends[at - 1] < ends_us) {
			ends[at] = ends[at - 1];
			at--;
		}
		ends[at] = ends_us;
	}
	if (ends[geometry_tolerated(&sim->geometry)] > sim->excess_until_us &&
	    ends[geometry_tolerated(&sim->geometry)] > now(sim))
		sim->excess_until_us = ends[geometry_tolerated(&sim->geometry)];
}

void
fault_trouble(struct sim *sim, int m, uint64_t lasts_us)
{
	uint64_t until = now(sim) + lasts_us + SLACK_US;

	/* An assembly that has chosen one waits for it, or begins again without it. */
	sim->struck_assembling |= !sim->running_seen;
	sim->taking_troubled |= sim->taking_us != 0 && sim->roles[m] >= 0;

	if (until > sim->trouble_until_us[m])
		sim->trouble_until_us[m] = until;
	fault_update_excess(sim);
}

/* Nobody is out yet, to the engine or on the others' superblocks. */
static bool
all_are_in(const struct sim *sim, int m)
{
	return sim->holder[sim->roles[m]] == m && record_away(sim, m) == 0;
}

/* By its own superblock it is in sync, and this gateway remembers no later epoch: found alone, it is
 * the volume, though others have begun to say that it is out.
 */
static bool
is_unremembered(const struct sim *sim, int m, const struct superblock *own)
{
	const int holder = sim->holder[sim->roles[m]];

	return (holder == m || holder < 0) && own->epoch >= sim->epoch_recorded &&
	       own->member_states[sim->roles[m]] == MEMBER_IN_SYNC;
}

/* A device went back to its snapshot, and could be started alone: only the others know that it is
 * older, and neither does this gateway remember the epoch of its eviction yet.
 */
bool
fault_only_others_know(const struct sim *sim)
{
	const int m = sim->went_back;
	struct superblock now;

	return m >= 0 && sim->count - geometry_tolerated(&sim->geometry) == 1 &&
	       sim->roles[m] >= 0 && sim_read_superblock(&sim->members[m].disk, &now) &&
	       (all_are_in(sim, m) || is_unremembered(sim, m, &now)) &&
	       record_knows_older(sim, sim->roles[m], &now);
}

/* A member to strike: who went back, while only the others know it; of those in trouble, if that is
 * as much as the level bears, but for one time in six.
 */
static int
draw_member(struct sim *sim, uint64_t *random)
{
	int candidates[SIM_SLOTS_MAX];
	int count = 0;
	int troubled = 0;

	if (fault_only_others_know(sim))
		return sim->went_back;
	for (int role = 0; role < sim->count; role++)
		troubled += sim->holder[role] < 0 || in_trouble(sim, sim->holder[role]);
	if (troubled >= geometry_tolerated(&sim->geometry) && troubled > 0 &&
	    !random_once_in(random, 6)) {
		for (int m = 0; m < sim->slots; m++)
			if (in_trouble(sim, m) && sim->slot_of[m] >= 0)
				candidates[count++] = m;
		if (count > 0)
			return candidates[fake_random(random) % (uint64_t)count];
	}
	for (int m = 0; m < sim->slots; m++)
		if (sim->slot_of[m] >= 0)
			candidates[count++] = m;
	return candidates[fake_random(random) % (uint64_t)count];
}

static uint64_t
draw_time(uint64_t *random)
{
	static const uint64_t longest_us[] = { 1000, 20000, 300000, 2000000, 8000000, 30000000 };

	return random_between(random, 0, longest_us[fake_random(random) % 6]);
}

/* --- faults --- */

/* One copy, the other can be read: what is to be expected of a medium is no more than that.  What
 * was acted upon stands in both.
 */
static void
strike_superblock(struct sim *sim, int m, uint64_t *random)
{
	struct disk *disk = &sim->members[m].disk;
	const uint64_t copy = random_once_in(random, 2), other = superblock_offset(copy + 1);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock left;

	disk_read(disk, other, block, sizeof(block));
	if (sim->roles[m] < 0 || disk_is_damaged(disk, other, sizeof(block)) ||
	    disk->pages[other / DISK_PAGE].unflushed != 0 ||
	    superblock_decode(block, &left, NULL) != SUPERBLOCK_OK)
		return;
	sim_trace(sim, "superblock %c of device %d can't be read any more", copy == 0 ? 'A' : 'B',
		  m);
	disk_damage(disk, superblock_offset(copy));
}

/* Behind its first block, in which all that is listed finds room: superblocks say that the others
 * are empty, so it matters to no start.
 */
static void
strike_table(struct fake_member *member, uint64_t *random)
{
	disk_damage(&member->disk,
		    LAYOUT_LOST_OFFSET + random_between(random, LAYOUT_LOST_BLOCK_GRANULES,
							LAYOUT_LOST_GRANULES - 1) *
						 LAYOUT_GRANULE_BYTES);
}

static void
strike_medium(struct sim *sim, int m, uint64_t *random)
{
	struct fake_member *member = &sim->members[m];
	const uint64_t chunk_sectors = sim->chunk_bytes / DISK_SECTOR;
	uint64_t count = random_between(random, 1, 3);
	int role = sim->roles[m] >= 0 ? sim->roles[m] : 0;
	uint64_t row = random_once_in(random, 2)
			       ? fake_random(random) % sim->rows
			       : sim->hot_row + fake_random(random) % sim->hot_rows;
	uint64_t column = fake_random(random) % chunk_sectors * DISK_SECTOR;

	if (random_once_in(random, 18)) {
		strike_table(member, random);
		return;
	}
	if (random_once_in(random, 6)) { /* where the region map stands */
		disk_damage(&member->disk,
			    LAYOUT_MAP_OFFSET + fake_random(random) %
							(sim_region(sim, sim->rows - 1) /
								 LAYOUT_GRANULE_REGIONS +
							 1) *
							LAYOUT_GRANULE_BYTES);
		oracle_map_damaged(sim);
		return;
	}
	while (geometry_position(&sim->geometry, row, (uint8_t)role) < 0)
		row = (row + 1) % sim->rows;
	while (count-- > 0 && column < sim->chunk_bytes) {
		uint64_t at = sim->data_offset +
			      geometry_offset(&sim->geometry, row, (uint8_t)role) + column;

		at -= at % sim->block_bytes;
		for (uint32_t i = 0; i < sim->block_bytes; i += DISK_SECTOR)
			disk_destroy(&member->disk, at + i);
		if (sim->roles[m] >= 0)
			oracle_damaged(sim, sim->roles[m], row);
		column += sim->block_bytes;
	}
}

static void
strike_foreign(struct sim *sim, int m, uint64_t lasts)
{
	for (int i = 0; i < sim->slots; i++)
		if (sim->members[i].foreign != NULL)
			return; /* there is one such disk */
	fake_member_cut(&sim->members[m], sim->members[m].reachable);
	sim->members[m].foreign = &sim->foreign;
	cure_after(sim, m, CURE_FOREIGN, lasts);
}

/* Where one member is left to deny it, one word is believed, and an administrator would have to
 * start the volume again: that is not drawn.  Who is mistaken is so no longer when another of three
 * goes.
 */
void
fault_end_conflicts(struct sim *sim)
{
	for (int m = 0; m < sim->slots && sim->count == 3; m++) {
		bool alone = false;

		for (int role = 0; role < sim->count; role++)
			alone |= sim->holder[role] != m &&
				 (sim->holder[role] < 0 ||
				  !sim_session(sim, sim->holder[role])->open_now);
		if (!sim->members[m].conflicts || !alone)
			continue;
		schedule_cancel(&sim->schedule, &sim->cures[m][CURE_CONFLICT].event);
		cure(sim, m, CURE_CONFLICT);
	}
}

/* Is everything well but for this member, and is it on record who is in sync? */
bool
fault_others_are_well(const struct sim *sim, int m)
{
	if (sim->geometry.redundancy == 0 || sim->members[m].foreign != NULL ||
	    now(sim) <= sim->excess_until_us || sim->status.state != VOLUME_ACTIVE ||
	    !sim->running_seen || now(sim) < sim->changed_us + 2000000 || record_away(sim, m) != 0)
		return false;
	for (int other = 0; other < sim->slots; other++)
		if (other != m && sim->roles[other] >= 0 && in_trouble(sim, other))
			return false;
	return true;
}

/* The device is another one, and empty.  Only where nobody else is in trouble: the others hold all
 * there is.
 */
static void
strike_wipe(struct sim *sim, int m)
{
	int role = sim->roles[m];

	if (!fault_others_are_well(sim, m))
		return;
	fake_member_power_loss(&sim->members[m], true);
	disk_wipe(&sim->members[m].disk);
	if (role >= 0 && sim->holder[role] == m)
		oracle_wiped(sim, role);
	fault_trouble(sim, m, 60000000);
}

static uint64_t
data_sector_of(struct sim *sim, int role, uint64_t *random, uint64_t *row)
{
	*row = random_once_in(random, 2) ? fake_random(random) % sim->rows
					 : sim->hot_row + fake_random(random) % sim->hot_rows;
	while (geometry_position(&sim->geometry, *row, (uint8_t)role) < 0)
		*row = (*row + 1) % sim->rows;
	return sim->data_offset + geometry_offset(&sim->geometry, *row, (uint8_t)role) +
	       fake_random(random) % (sim->chunk_bytes / sim->block_bytes) * sim->block_bytes;
}

/* For good: until the next quiescence.  Writes are refused where the volume can do without the
 * member.
 */
static void
strike_stuck(struct sim *sim, int m, uint64_t *random)
{
	static const uint64_t metadata[] = { LAYOUT_SUPERBLOCK_A_OFFSET, LAYOUT_SUPERBLOCK_B_OFFSET,
					     LAYOUT_MAP_OFFSET, LAYOUT_LOST_OFFSET };
	struct fake_member *member = &sim->members[m];
	bool unwritable = random_once_in(random, 2);
	uint64_t row = 0, at;

	if (unwritable && !fault_others_are_well(sim, m))
		return;
	if (unwritable && random_once_in(random, 2)) {
		at = metadata[fake_random(random) % 4];
	} else {
		at = data_sector_of(sim, sim->roles[m] >= 0 ? sim->roles[m] : 0, random, &row);
		if (!unwritable && sim->roles[m] >= 0)
			oracle_damaged(sim, sim->roles[m], row);
	}
	member->stuck_error = random_once_in(random, 3) ? -EIO : 0;
	for (uint32_t i = 0; i < sim->block_bytes; i += DISK_SECTOR)
		if (unwritable)
			disk_make_unwritable(&member->disk, at + i);
		else
			disk_make_stuck(&member->disk, at + i);
	if (unwritable) {
		fault_trouble(sim, m, 3600ull * 1000000);
	}
}

static void
strike_conflict(struct sim *sim, int m, uint64_t lasts, uint64_t *random)
{
	/* Else another gateway might live on what it has taken: then it is believed. */
	if (!fault_others_are_well(sim, m) || geometry_can_split(&sim->geometry))
		return;
	fault_trouble(sim, m, 600ull * 1000000);
	sim->members[m].conflicts = true;
	sim->members[m].conflicts_at_login = random_once_in(random, 2);
	cure_after(sim, m, CURE_CONFLICT, random_once_in(random, 4) ? 600ull * 1000000 : lasts);
}

static void
strike_shape(struct sim *sim, int m, uint64_t lasts, uint64_t *random)
{
	struct fake_member *member = &sim->members[m];

	fake_member_cut(member, member->reachable);
	if (random_once_in(random, 2))
		member->told_block_bytes = sim->block_bytes == 512 ? 4096 : 512;
	else
		member->capacity_bytes =
			random_between(random, LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES,
				       sim->member_bytes - 4096) /
			4096 * 4096;
	cure_after(sim, m, CURE_SHAPE, lasts);
}

static void
read_copy(const struct disk *disk, uint64_t copy, uint8_t *block)
{
	if (disk_is_damaged(disk, superblock_offset(copy), LAYOUT_SUPERBLOCK_BYTES))
		memset(block, 0, LAYOUT_SUPERBLOCK_BYTES);
	else
		disk_read(disk, superblock_offset(copy), block, LAYOUT_SUPERBLOCK_BYTES);
}

bool
sim_read_superblock(const struct disk *disk, struct superblock *superblock)
{
	uint8_t copies[2][LAYOUT_SUPERBLOCK_BYTES];

	read_copy(disk, 0, copies[0]);
	read_copy(disk, 1, copies[1]);
	return superblock_choose(copies[0], copies[1], superblock, NULL) == SUPERBLOCK_OK;
}

static void
take_snapshot(struct sim *sim, int m)
{
	if (sim->snapshot_of >= 0)
		disk_free(&sim->snapshot);
	disk_init(&sim->snapshot, sim->members[m].disk.bytes, sim->block_bytes);
	disk_copy(&sim->snapshot, &sim->members[m].disk);
	sim->snapshot_of = m;
}

/* It may say yet that another one is out. */
static bool
any_late_write(const struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].late != NULL)
			return true;
	return false;
}

/* Is it in sync, with all others well, and will they know that the snapshot is older? If not, only
 * checksums could.
 */
static bool
would_be_known(const struct sim *sim, int m)
{
	struct superblock old;

	return m >= 0 && sim->roles[m] >= 0 && sim->holder[sim->roles[m]] == m &&
	       record_away(sim, m) == 0 && !any_late_write(sim) &&
	       sim_read_superblock(&sim->snapshot, &old) &&
	       record_knows_older(sim, sim->roles[m], &old);
}

static bool
may_go_back(const struct sim *sim, int m)
{
	return would_be_known(sim, m) && fault_others_are_well(sim, m);
}

static void
go_back(struct sim *sim, int m)
{
	struct superblock old = { 0 }, new = { 0 };

	(void)sim_read_superblock(&sim->snapshot, &old);
	(void)sim_read_superblock(&sim->members[m].disk, &new);
	sim_trace(sim,
		  "device %d goes back from epoch %llu, event %llu, write %llu to %llu, %llu, %llu",
		  m, (unsigned long long)new.epoch, (unsigned long long)new.event,
		  (unsigned long long)new.write_count, (unsigned long long)old.epoch,
		  (unsigned long long)old.event, (unsigned long long)old.write_count);
	fake_member_power_loss(&sim->members[m], true);
	disk_copy(&sim->members[m].disk, &sim->snapshot);
	sim->members[m].capacity_bytes = sim->member_bytes;
	oracle_wiped(sim, sim->roles[m]);
	fault_trouble(sim, m, 60000000);
	sim->went_back = m;
}

/* The first time the snapshot is taken; later the device goes back to it, here or while no gateway
 * runs.
 */
static void
strike_rollback(struct sim *sim, int m, uint64_t *random)
{
	const int of = sim->snapshot_of;

	if (of < 0 || random_once_in(random, 6)) {
		take_snapshot(sim, m);
		return;
	}
	if (!may_go_back(sim, of))
		return;
	go_back(sim, of);
	if (random_once_in(random, 2)) {
		sim->members[of].reachable = false;
		cure_after(sim, of, CURE_REACH, draw_time(random));
	}
}

/* Some devices have a switch for it; what the cache holds is written out then. */
static void
switch_cache(struct sim *sim, int m, uint64_t *random)
{
	struct disk *disk = &sim->members[m].disk;

	if (!sim_can(sim, ABILITY_CACHE_SWITCHED) || !random_once_in(random, 2))
		return;
	disk_flush(disk);
	disk->write_cache = !disk->write_cache;
	sim_trace(sim, "device %d has its write cache %s now", m, disk->write_cache ? "on" : "off");
}

/* Nobody runs the engine: the machine swaps, or is a guest that was stopped.  Sessions that had
 * something under way end meanwhile; when it goes on, all have to be opened anew.
 */
static void
strike_standstill(struct sim *sim, uint64_t *random)
{
	uint64_t lasts =
		random_between(random, 0, random_once_in(random, 3) ? 300000000 : 15000000);

	fault_resume_load(sim, random);
	sim->still_until_us = now(sim) + lasts;
	if (sim->stood_from_us == 0)
		sim->stood_from_us = now(sim);
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, lasts);
}

/* With the power goes the reservation, and whoever logs in first has it. */
static bool
takes_reservation(enum fault_kind kind)
{
	return kind == FAULT_POWER || kind == FAULT_WIPE || kind == FAULT_ROLLBACK ||
	       kind == FAULT_BLACKOUT || kind == FAULT_DEFERRED;
}

static void
strike_member(struct sim *sim, enum fault_kind kind, int m, uint64_t *random)
{
	struct fake_member *member = &sim->members[m];
	const uint64_t drawn = draw_time(random), lasts = kind == FAULT_DEFERRED ? 0 : drawn;

	if (takes_reservation(kind))
		former_kill(sim);
	where_note(sim, kind);
	sim_trace(sim, "FAULT %s member %d for %llu us", fault_names[kind], m,
		  (unsigned long long)lasts);
	if (kind != FAULT_MEDIUM && kind != FAULT_STUCK && kind != FAULT_ROLLBACK &&
	    kind != FAULT_CONFLICT)
		fault_trouble(sim, m, lasts);
	switch (kind) {
	case FAULT_CUT:
		fake_member_cut(member, false);
		cure_after(sim, m, CURE_REACH, lasts);
		break;
	case FAULT_LINK:
		fake_member_link(member, false);
		cure_after(sim, m, CURE_LINK, lasts);
		break;
	case FAULT_HANG:
		fake_member_hang(member);
		cure_after(sim, m, CURE_HANG, lasts);
		break;
	case FAULT_POWER:
		fake_member_power_loss(member, false);
		cure_after(sim, m, CURE_REACH, lasts);
		break;
	case FAULT_SLOW:
		time_set_answers(sim, m, 1000, random_once_in(random, 2) ? 30000 : 700000);
		cure_after(sim, m, CURE_SPEED, lasts);
		break;
	case FAULT_PATH:
		member->path_down[fake_random(random) % 2] = true;
		fake_member_cut(member, member->reachable);
		cure_after(sim, m, CURE_PATH, lasts);
		break;
	case FAULT_MEDIUM:
		strike_medium(sim, m, random);
		break;
	case FAULT_REFUSE:
		member->refuse_writes = random_once_in(random, 2);
		member->refuse_reads = !member->refuse_writes;
		cure_after(sim, m, CURE_REFUSE, lasts);
		break;
	case FAULT_FOREIGN:
		strike_foreign(sim, m, lasts);
		break;
	case FAULT_WIPE:
		strike_wipe(sim, m);
		break;
	case FAULT_STUCK:
		strike_stuck(sim, m, random);
		break;
	case FAULT_CONFLICT:
		strike_conflict(sim, m, lasts, random);
		break;
	case FAULT_SHAPE:
		strike_shape(sim, m, lasts, random);
		break;
	case FAULT_ROLLBACK:
		strike_rollback(sim, m, random);
		break;
	case FAULT_STANDSTILL:
		strike_standstill(sim, random);
		break;
	case FAULT_DEFERRED:
		/* One that said that it had none when it took the writes lies: nothing that was
		 * flushed counts then.
		 */
		if (member->disk.write_cache && sim_session(sim, m)->told_cache)
			fake_member_break_word(member);
		sim->cache_losses += !sim->running_seen; /* a flush has to say so */
		break;
	case FAULT_NO_MEMORY:
		engine_memory_refuse(random_between(random, 1, 30), random_between(random, 1, 40));
		break;
	case FAULT_CRASH:
	case FAULT_BLACKOUT:
	case FAULT_STOP:
	case FAULT_FENCED:
	case FAULT_CLONE:
	case FAULT_FORCED:
	case FAULT_SECOND:
	case FAULT_HALVES:
	case FAULT_LOGGED:
	case FAULT_PAIR:
	case FAULT_KINDS:
		break;
	}
	if (kind == FAULT_CUT || kind == FAULT_POWER)
		switch_cache(sim, m, random);
}

/* The load begins again after silence, in which regions were cleaned: what is in flight now is
 * marked anew.
 */
void
fault_resume_load(struct sim *sim, uint64_t *random)
{
	if (random_once_in(random, 2))
		sim_advance(sim, now(sim) + 2500000);
	for (uint64_t requests = random_between(random, 1, 8); requests > 0; requests--)
		load_submit(sim, random);
	sim_turn(sim);
}

static void
some_events(struct sim *sim, uint64_t events)
{
	while (events-- > 0 && schedule_next_us(&sim->schedule) != UINT64_MAX && !sim->crash_due)
		sim_advance(sim, schedule_next_us(&sim->schedule));
}

static bool
has_path(const struct fake_member *member)
{
	for (int path = 0; path < member->backend.paths; path++)
		if (!member->path_down[path])
			return true;
	return false;
}

/* Does it say who it is while an assembly that could begin without it waits? It does so after a
 * log-in, by its second path at worst, and that takes as long as two answers.
 */
static bool
is_heard_in_time(const struct sim *sim, const struct fake_member *member)
{
	const uint64_t wait_us = 1000 * ((uint64_t)sim->engine_options.assembly_wait_ms +
					 2 * sim->engine_options.give_up_ms);

	return member->reachable && has_path(member) && member->foreign == NULL && !member->hung &&
	       !member->cut_off && !member->refuse_reads &&
	       member->answer_us_max < member->deadline_us &&
	       5 * member->answer_us_max + LOGIN_US < wait_us;
}

/* Can a gateway that sees the volume for the first time read whose it is? Who is out may have an
 * older owner on record, or none.
 */
static bool
owner_is_known(const struct sim *sim)
{
	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] >= 0 &&
		    is_heard_in_time(sim, &sim->members[sim->holder[role]]) &&
		    !((sim->wiped_roles >> role) & 1))
			return true;
	return false;
}

/* Of a device that nobody holds a stranger becomes the holder, which tells it that nobody else has
 * the volume.
 */
static bool
is_ours(const struct sim *sim)
{
	const unsigned int number = sim_gateway_number(&sim->engine_options);

	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].reservations && sim->slot_of[m] >= 0 &&
		    sim->members[m].holder != number)
			return false;
	return sim->former.engine == NULL;
}

/* The gateway ends, and starts again, perhaps with a member missing, or with one that makes reads
 * go around it.
 */
static void
strike_gateway(struct sim *sim, enum fault_kind kind, uint64_t *random)
{
	uint64_t events = random_once_in(random, 3) ? 0 : fake_random(random) % 60;
	uint64_t away = random_once_in(random, 3) ? draw_time(random) : 500;
	const bool at_once = sim->crash_due;
	const bool goes_back = sim_can(sim, ABILITY_ROLLBACKS) && random_once_in(random, 3) &&
			       may_go_back(sim, sim->snapshot_of);
	bool stranger = kind == FAULT_CRASH && sim->running_seen && random_once_in(random, 6);

	sim_trace(sim, "FAULT %s", fault_names[kind]);
	if (takes_reservation(kind) ||
	    (kind == FAULT_STOP && sim_can(sim, ABILITY_POWER_AFTER_STOP)))
		former_kill(sim);
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, away);
	if (kind == FAULT_STOP) {
		sim->crash_due = false;
		where_note(sim, kind);
		sim_stop(sim);
	} else {
		if (!at_once && random_once_in(random, 2))
			fault_resume_load(sim, random);
		if (!at_once)
			some_events(sim, events);
		where_note(sim, kind);
		sim_crash(sim);
	}
	if (kind == FAULT_BLACKOUT ||
	    (kind == FAULT_STOP && sim_can(sim, ABILITY_POWER_AFTER_STOP)))
		for (int m = 0; m < sim->slots; m++)
			if (!random_once_in(random, 3))
				fake_member_power_loss(&sim->members[m], sim->members[m].reachable);
	if (goes_back && would_be_known(sim, sim->snapshot_of)) /* nobody went meanwhile */
		go_back(sim, sim->snapshot_of);
	if (sim_can(sim, ABILITY_LOST_COPIES) && random_once_in(random, 2))
		strike_superblock(sim, draw_member(sim, random), random);
	if (random_once_in(random, 4))
		strike_member(sim, random_once_in(random, 2) ? FAULT_SLOW : FAULT_MEDIUM,
			      draw_member(sim, random), random);
	if (random_once_in(random, 3)) {
		int m = draw_member(sim, random);
		uint64_t lasts = away + draw_time(random);

		sim->members[m].reachable = false;
		cure_after(sim, m, CURE_REACH, lasts);
		fault_trouble(sim, m, lasts);
		sim_trace(sim, "member %d is away for %llu us", m, (unsigned long long)lasts);
	}
	if (sim_can(sim, ABILITY_CACHE_SWITCHED))
		switch_cache(sim, draw_member(sim, random), random);
	sim_advance(sim, now(sim) + away);
	if (sim_can(sim, ABILITY_EPOCHS) && random_once_in(random, 2)) {
		uint64_t lasts = draw_time(random);

		sim->no_epoch_until_us = now(sim) + lasts;
		for (int m = 0; m < sim->slots; m++)
			fault_trouble(sim, m, lasts);
	}
	if (stranger && owner_is_known(sim) && is_ours(sim))
		sim_stranger(sim);
	sim_start(sim);
}

void
fault_strike(struct sim *sim, enum fault_kind kind, uint64_t *random)
{
	sim->options.totals->faults[kind]++;
	strike_member(sim, kind, draw_member(sim, random), random);
}

void
fault_strike_briefly(struct sim *sim, enum fault_kind kind, int m, uint64_t lasts_us)
{
	struct fake_member *member = &sim->members[m];

	if (m != sim->went_back && fault_only_others_know(sim))
		return;
	sim->options.totals->faults[kind]++;
	if (takes_reservation(kind))
		former_kill(sim);
	where_note(sim, kind);
	sim_trace(sim, "FAULT %s member %d for %llu us", fault_names[kind], m,
		  (unsigned long long)lasts_us);
	fault_trouble(sim, m, lasts_us);
	if (kind == FAULT_CUT)
		fake_member_cut(member, false);
	else if (kind == FAULT_POWER)
		fake_member_power_loss(member, false);
	else if (kind == FAULT_HANG)
		fake_member_hang(member);
	else
		member->refuse_writes = true;
	cure_after(sim, m,
		   kind == FAULT_REFUSE ? CURE_REFUSE
		   : kind == FAULT_HANG ? CURE_HANG
					: CURE_REACH,
		   lasts_us);
}

void
fault_crash(struct sim *sim, uint64_t *random)
{
	enum fault_kind kind = sim->crash_kind != 0 ? sim->crash_kind : FAULT_CRASH;

	sim->crash_kind = (enum fault_kind)0;
	sim->options.totals->faults[kind]++;
	if (kind == FAULT_HALVES)
		halves_crash(sim, random);
	else
		strike_gateway(sim, kind, random);
}

/* Faults of lives with an ability only. */
static const struct {
	enum ability_name ability;
	enum fault_kind kind;
} able[] = {
	{ ABILITY_STUCK_SECTORS, FAULT_STUCK },
	{ ABILITY_CONFLICTS, FAULT_CONFLICT },
	{ ABILITY_SHAPES, FAULT_SHAPE },
	{ ABILITY_ROLLBACKS, FAULT_ROLLBACK },
	{ ABILITY_STANDSTILLS, FAULT_STANDSTILL },
	{ ABILITY_DEFERRED, FAULT_DEFERRED },
	{ ABILITY_NO_MEMORY, FAULT_NO_MEMORY },
	{ ABILITY_FENCES, FAULT_FENCED },
	{ ABILITY_CLONES, FAULT_CLONE },
	{ ABILITY_FORCES, FAULT_FORCED },
	{ ABILITY_TWO_GATEWAYS, FAULT_SECOND },
	{ ABILITY_HALVES, FAULT_HALVES },
	{ ABILITY_LOG, FAULT_LOGGED },
	{ ABILITY_PAIRS, FAULT_PAIR },
};
#define ABLE (sizeof(able) / sizeof(able[0]))

bool
fault_is_possible(const struct sim *sim, enum fault_kind kind)
{
	for (size_t i = 0; i < ABLE; i++)
		if (able[i].kind == kind)
			return sim_can(sim, able[i].ability);
	return true;
}

/* One of them in three faults, if the life has any. */
static bool
draw_able(const struct sim *sim, uint64_t *random, enum fault_kind *kind)
{
	enum fault_kind kinds[ABLE];
	uint64_t count = 0;

	for (size_t i = 0; i < ABLE; i++)
		if (sim_can(sim, able[i].ability))
			kinds[count++] = able[i].kind;
	if (count == 0 || !random_once_in(random, 3))
		return false;
	*kind = kinds[fake_random(random) % count];
	return true;
}

static enum fault_kind
draw_fault(const struct sim *sim, uint64_t *random)
{
	static const uint8_t weights[FAULT_KINDS] = {
		[FAULT_CUT] = 8,     [FAULT_LINK] = 5, [FAULT_HANG] = 6,   [FAULT_POWER] = 7,
		[FAULT_SLOW] = 4,    [FAULT_PATH] = 3, [FAULT_MEDIUM] = 7, [FAULT_REFUSE] = 1,
		[FAULT_FOREIGN] = 1, [FAULT_WIPE] = 2, [FAULT_CRASH] = 10, [FAULT_BLACKOUT] = 4,
		[FAULT_STOP] = 3,
	};
	enum fault_kind of_ability;
	uint64_t total = 0, drawn;
	int kind = 0;

	if (draw_able(sim, random, &of_ability))
		return of_ability;
	for (int i = 0; i < FAULT_KINDS; i++)
		total += weights[i];
	for (drawn = fake_random(random) % total; drawn >= weights[kind]; kind++)
		drawn -= weights[kind];
	return (enum fault_kind)kind;
}

void
fault_inject(struct sim *sim, uint64_t *random)
{
	enum fault_kind kind = draw_fault(sim, random);

	sim->options.totals->faults[kind]++;
	if (kind == FAULT_CLONE)
		clone_strike(sim, random);
	else if (kind == FAULT_FORCED)
		force_strike(sim, random);
	else if (kind == FAULT_SECOND)
		former_strike(sim, random);
	else if (kind == FAULT_HALVES)
		halves_strike(sim, random);
	else if (kind == FAULT_LOGGED)
		log_strike(sim, random);
	else if (kind == FAULT_PAIR)
		pair_strike(sim, random);
	else if (kind > FAULT_STOP)
		gateway_strike(sim, kind, random);
	else if (kind >= FAULT_CRASH)
		strike_gateway(sim, kind, random);
	else
		strike_member(sim, kind, draw_member(sim, random), random);
	/* While the engine does something about it, it dies. */
	if (kind < FAULT_CRASH && random_once_in(random, 4)) {
		sim->armed = true;
		fault_resume_load(sim, random);
	}
	sim_look(sim);
}
