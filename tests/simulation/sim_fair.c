/* sim_fair.c - for what reason a request may fail, and how long it may wait.
 *
 * An engine that fails what it could have done breaks its promise as one does that loses data.  So each
 * error has a reason that the simulator knows of by itself: what it did to the members, and when.
 */
#include "sim.h"

#include "engine_memory.h"

#include <errno.h>
#include <string.h>

/* Who was kept from a member tries it again, logs in, and reads what it is. */
#define CONTEST_US (6ull * 1000000)

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
		if (sim_is_write(other) && other->submit_us <= sim->excess_until_us &&
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
		if (oracle_damage_is_excessive(sim, row))
			return true;
	if (sim_is_write(request)) {
		end = sim_row_begin(sim, sim_sector_row(sim, end - 1) + 1);
		begin = sim_row_begin(sim, sim_sector_row(sim, begin));
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
			sim_is_write(request)
				? oracle_damaged_at(sim, row, 0, sim->chunk_bytes)
				: oracle_damaged_at(sim, row, at % sim->chunk_bytes, DISK_PAGE);

		if (damaged != 0 && sim_too_many(sim, row, without | damaged))
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
	    !sim_too_many(sim, 0, without))
		return;
	while (engine_lost_list(sim->engine, from, &range, 1) == 1) {
		const uint64_t first = range.offset_bytes / PATTERN_SECTOR;

		for (uint64_t i = 0; i < range.length_bytes / PATTERN_SECTOR; i++)
			if (sim_too_many(sim, sim_sector_row(sim, first + i), without))
				sim->traits[first + i] |= MAY_BE_LOST;
		from = range.offset_bytes + range.length_bytes - 1;
	}
}

void
fair_look(struct sim *sim)
{
	allow_given_up(sim);
	for (struct sim_request *request = sim->active; request != NULL; request = request->next) {
		if (request->count == 0)
			continue;
		request->saw_refusal |=
			refusing_roles(sim, request->submit_us) != 0 && meets_refusal(sim, request);
		if (sim_is_write(request) && !request->saw_loss &&
		    sim_sector_row(sim, request->sector) !=
			    sim_sector_row(sim, request->sector + request->count - 1))
			request->saw_loss = loss_is_fair(sim, request);
	}
}

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

/* Something was refused meanwhile, and its rows have nothing to do without it. */
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
		if (sim_is_unproven(sim, row))
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
	return refused && sim_has_parity(sim);
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
	return sim_is_write(request) && request->count > 0 &&
	       sim->late.at_us >= request->submit_us &&
	       sim_sector_row(sim, request->sector) <= sim->late.last_row &&
	       sim_sector_row(sim, request->sector + request->count - 1) >= sim->late.first_row;
}

static void
note_late(struct sim *sim, const struct sim_request *request)
{
	if (!sim_is_write(request) || request->count == 0)
		return;
	sim->late.at_us = request->done_us;
	sim->late.first_row = sim_sector_row(sim, request->sector);
	sim->late.last_row = sim_sector_row(sim, request->sector + request->count - 1);
}

/* What the log has acknowledged of its row can't be written, for a member refuses it that can't be
 * spared: that is tried each second, and others wait for the row.
 */
static bool
waits_for_refused(const struct sim *sim, const struct sim_request *request, uint64_t lived_ms)
{
	return sim->engine_options.log == LOG_MODE_ALWAYS && sim_is_write(request) &&
	       request->saw_refusal && lived_ms + 1 >= request_time_ms(sim);
}

static bool
is_late_fairly(struct sim *sim, const struct sim_request *request, uint64_t lived_ms)
{
	if (request->submit_us <= sim->excess_until_us || taking_takes_long(sim) ||
	    silence_takes_long(sim, lived_ms) || is_held_up(sim, request, lived_ms) ||
	    waits_for_refused(sim, request, lived_ms)) {
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

void
fair_judge(struct sim *sim, const struct sim_request *request, int result)
{
	if (error_is_fair(sim, request, result))
		return;
	trace_rows(sim, request);
	sim_fail(sim, "%s of %llu sectors at %llu failed without reason: %s",
		 sim_op_name(request->request.op), (unsigned long long)request->count,
		 (unsigned long long)request->sector, strerror(-result));
}
