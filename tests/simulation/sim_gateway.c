/* sim_gateway.c - a gateway that is not alone.
 *
 *	fenced off	another gateway takes one member after the other, and does no more.  From when it has all of them this
 *			one acknowledges no write, and fails for good.  An administrator starts it again, or the other
 */
#include "sim.h"

#include "engine_memory.h"

#define FENCED_US (120ull * 1000000) /* time enough for every request to end */

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

static void
submit_some(struct sim *sim, uint64_t *random)
{
	for (uint64_t requests = random_between(random, 0, 8); requests > 0; requests--)
		load_submit(sim, random);
	load_sequential(sim, random); /* writes: reads meet no conflict */
	sim_turn(sim);
}

/* In any order, within some milliseconds, or a second. */
static void
take_members(struct sim *sim, uint64_t *random)
{
	const uint64_t first = fake_random(random) % (uint64_t)sim->slots;
	const uint64_t pause_us = random_once_in(random, 2) ? 5000 : 300000;

	sim->taking_us = now(sim);
	sim->taking_troubled = fault_troubled(sim);
	for (uint64_t i = 0; i < (uint64_t)sim->slots; i++) {
		fake_member_take(&sim->members[(first + i) % (uint64_t)sim->slots]);
		if (random_once_in(random, 2))
			load_submit(sim, random);
		sim_advance(sim, now(sim) + random_between(random, 0, pause_us));
	}
	sim->taken_us = now(sim);
}

static bool
has_failed(struct sim *sim)
{
	sim_look(sim);
	return sim->status.state == VOLUME_FAILED;
}

/* Where all writes are refused, for rows that can't be known, no member is asked. */
static bool
was_told(const struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].taken_told)
			return true;
	return false;
}

/* The other one has a memory of its own. */
static void
take_back(struct sim *sim, bool another)
{
	if (another && sim_can(sim, ABILITY_TWO_GATEWAYS) && sim->left_by_force == 0)
		former_succeeded(sim);
	else
		sim_take_over(sim, another && !sim_can(sim, ABILITY_TWO_GATEWAYS));
}

static void
strike_fence(struct sim *sim, uint64_t *random)
{
	fault_resume_load(sim, random);
	take_members(sim, random);
	submit_some(sim, random);
	sim->still_until_us = 0;
	if (!sim_wait(sim, sim_is_drained, FENCED_US) && !sim->crash_due)
		sim_fail(sim, "requests do not end although another gateway has all members");
	engine_memory_refuse(0, 0); /* only who writes meets the other one */
	submit_some(sim, random);
	if (!sim_wait(sim, has_failed, FENCED_US) && !sim->crash_due && was_told(sim))
		sim_fail(sim, "the volume goes on although another gateway has all members");
	where_note(sim, FAULT_FENCED);
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, 500);
	if (random_once_in(random, 2) && !sim->crash_due)
		sim_stop(sim);
	else
		sim_crash(sim);
	for (int m = 0; m < sim->slots; m++)
		sim->members[m].taken = false;
	sim->taking_us = sim->taken_us = 0;
	sim_advance(sim, now(sim) + random_between(random, 0, 500));
	take_back(sim, random_once_in(random, 2));
}

void
gateway_strike(struct sim *sim, enum fault_kind kind, uint64_t *random)
{
	sim_trace(sim, "FAULT %s", fault_names[kind]);
	former_kill(sim);
	if (!sim->running_seen)
		return;
	strike_fence(sim, random);
}
