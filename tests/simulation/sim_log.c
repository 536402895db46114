/* sim_log.c - members are out, or go with it, and the gateway dies while it logs what it writes.
 *
 *	logged		members go, and stay away; rows are written, and the log is full now and then; the gateway dies, some
 *			lose their caches, on level 6 perhaps another one goes; it is started, may die while it
 *			replays, and so on.  In the end all are there again
 *
 * An ordinary crash seldom meets a log that is open, and hardly ever a replay.
 */
#include "sim.h"

#define ROUNDS_MAX 4
#define AWAY_US (600ull * 1000000)
#define OPENS_US (30ull * 1000000)

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

static bool
is_logging(struct sim *sim)
{
	sim_look(sim);
	return sim->running_seen && sim->status.state != VOLUME_SUSPENDED &&
	       ((engine_where(sim->engine) >> WHERE_LOGS) & 1);
}

static bool
is_always(const struct sim *sim)
{
	return sim->engine_options.log == LOG_MODE_ALWAYS;
}

static int
away(const struct sim *sim)
{
	int count = 0;

	for (int role = 0; role < sim->count; role++)
		count += sim->holder[role] < 0 || ((sim->out_roles >> role) & 1) ||
			 !sim->members[sim->holder[role]].reachable;
	return count;
}

/* One that is well, if the level bears it. */
static void
send_away(struct sim *sim, uint64_t *random)
{
	const int role = (int)(fake_random(random) % (uint64_t)sim->count);
	const int m = sim->holder[role];

	if (m < 0 || !sim->members[m].reachable || ((sim->out_roles >> role) & 1) ||
	    away(sim) >= geometry_tolerated(&sim->geometry))
		return;
	sim_trace(sim, "logged: device %d is away", m);
	fault_trouble(sim, m, AWAY_US);
	fake_member_cut(&sim->members[m], false);
}

static void
some_events(struct sim *sim, uint64_t *random)
{
	uint64_t events = random_between(random, 1, random_once_in(random, 3) ? 300 : 30);

	while (events-- > 0 && schedule_next_us(&sim->schedule) != UINT64_MAX && !sim->crash_due)
		sim_advance(sim, schedule_next_us(&sim->schedule));
}

/* To a few rows, again and again, so that records of the same row follow each other. */
static void
write_some(struct sim *sim, uint64_t *random)
{
	for (uint64_t bursts = random_between(random, 1, 6); bursts > 0 && !sim->crash_due;
	     bursts--) {
		for (uint64_t left = random_between(random, 1, 8); left > 0; left--)
			if (random_once_in(random, 3))
				load_submit(sim, random);
			else
				load_small_write(sim, random);
		if (random_once_in(random, 4))
			load_flush(sim);
		sim_turn(sim);
		some_events(sim, random);
	}
}

static void
die(struct sim *sim, uint64_t *random)
{
	const bool powerless = random_once_in(random, 2);

	where_note(sim, FAULT_LOGGED);
	sim_crash(sim);
	for (int m = 0; m < sim->slots; m++) {
		fault_trouble(sim, m, 500);
		if (powerless && random_once_in(random, 2))
			fake_member_power_loss(&sim->members[m], sim->members[m].reachable);
	}
}

static bool
has_begun(struct sim *sim)
{
	sim_look(sim);
	return sim->running_seen;
}

void
log_strike(struct sim *sim, uint64_t *random)
{
	if (sim->geometry.redundancy == 0 || !sim->running_seen || fault_troubled(sim) ||
	    sim->wiped_roles != 0 || (sim->level != 5 && sim->level != 6))
		return;
	former_kill(sim);
	sim_trace(sim, "FAULT %s", fault_names[FAULT_LOGGED]);
	sim->steer.on = false;
	for (uint64_t count = random_between(random, is_always(sim) ? 0 : 1, 2); count > 0; count--)
		send_away(sim, random);
	load_small_write(sim, random);
	if (sim_wait(sim, is_logging, OPENS_US))
		write_some(sim, random);
	for (uint64_t rounds = random_between(random, 1, ROUNDS_MAX); rounds > 0; rounds--) {
		die(sim, random);
		if (random_once_in(random, is_always(sim) ? 2 : 3))
			send_away(sim, random);
		sim_start(sim);
		if (random_once_in(random, 3)) {
			/* while it replays, or before */
			sim->crash_in = (int)random_between(random, 1, 150);
			sim_advance(sim, now(sim) + 4000000);
			continue;
		}
		sim_wait(sim, has_begun, OPENS_US);
		if (sim->running_seen && random_once_in(random, 2) &&
		    sim_wait(sim, is_logging, OPENS_US))
			write_some(sim, random);
	}
	sim->crash_in = 0;
	if (sim->crash_due) {
		die(sim, random);
		sim_start(sim);
	}
	for (int m = 0; m < sim->slots; m++)
		if (!sim->members[m].reachable)
			sim->members[m].reachable = true;
	sim->steer.on = true;
}
