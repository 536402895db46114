/* sim_pair.c - two members fall silent at once, under load, where the level bears that.
 *
 * Faults that follow each other on their own seldom meet the same instant.  Both are noticed then,
 * and both are on their way out, while writes wait for either; and both come back while what was
 * missed is made up for.  Nothing excuses a request that gets no answer: the others suffice.
 */
#include "sim.h"

#define WELL_US 60000000
#define LASTS_US_MAX 8000000
#define AFTER_US 2000000

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

static bool
are_well(struct sim *sim)
{
	sim_look(sim);
	return sim->holder[0] >= 0 && sim->holder[1] >= 0 &&
	       fault_others_are_well(sim, sim->holder[0]) &&
	       fault_others_are_well(sim, sim->holder[1]);
}

static bool
draw_pair(const struct sim *sim, uint64_t *random, int roles[2])
{
	const uint64_t count = (uint64_t)sim->count;

	roles[0] = (int)(fake_random(random) % count);
	roles[1] = (int)((uint64_t)roles[0] + 1 + fake_random(random) % (count - 1)) % sim->count;
	return geometry_bears(&sim->geometry, 1u << roles[0] | 1u << roles[1]);
}

/* heavy: more than a small log has room for, all the time. */
static void
write_until(struct sim *sim, uint64_t until_us, bool heavy, uint64_t *random)
{
	while (now(sim) < until_us && !sim->crash_due) {
		for (uint64_t left = random_between(random, 1, 16);
		     left > 0 && sim->active_count < 16; left--)
			if (heavy && random_once_in(random, 2))
				load_wide_write(sim, random);
			else
				load_submit(sim, random);
		sim_turn(sim);
		sim_advance(sim, now(sim) + random_between(random, 100, heavy ? 1000 : 400000));
	}
}

void
pair_strike(struct sim *sim, uint64_t *random)
{
	const enum fault_kind kind = random_once_in(random, 3) ? FAULT_CUT : FAULT_HANG;
	const bool heavy = random_once_in(random, 2);
	int roles[2];

	if (sim->geometry.redundancy < 2 || !draw_pair(sim, random, roles) ||
	    !sim_wait(sim, are_well, WELL_US))
		return;
	sim_trace(sim, "FAULT %s", fault_names[FAULT_PAIR]);
	sim->steer.on = false;
	write_until(sim, now(sim) + random_between(random, 1, 1000000), heavy, random);
	for (int i = 0; i < 2; i++)
		if (sim->holder[roles[i]] >= 0) /* it may have been let go meanwhile */
			fault_strike_briefly(sim, kind, sim->holder[roles[i]],
					     random_between(random, 1000, LASTS_US_MAX));
	write_until(sim, now(sim) + LASTS_US_MAX, heavy, random);
	write_until(sim, now(sim) + AFTER_US, heavy, random);
	sim->steer.on = true;
}
