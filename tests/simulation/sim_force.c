/* sim_force.c - a volume that too few members are left of, and an administrator who starts it by
 * force.
 *
 *	forced		some members go, as many as the level bears; the others are written to; the gateway ends; of the others so many die
 *			that those which are left can't start.  The first ones come back, and are taken as they stand
 *
 * Unforced the volume must not start.  Forced it must, and costs what was written since those left:
 * on them, and what parity would make of it for the dead.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define GONE_US (120ull * 1000000) /* time enough to send a member away, or to assemble */

struct scene {
	struct sim *sim;
	uint32_t left, dead;		  /* roles */
	int left_device[SIM_MEMBERS_MAX]; /* by role */
	struct forced_start start;
};

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

/* They are out, and that is on record. */
static bool
have_left(struct sim *sim)
{
	const uint64_t recording =
		1ull << WHERE_EVICTS | 1ull << WHERE_RECORDS | 1ull << WHERE_SUPERBLOCKS;

	sim_look(sim);
	if (engine_where(sim->engine) & recording)
		return false;
	for (int role = 0; role < sim->count; role++)
		if ((sim->leaving >> role) & 1 && sim->holder[role] >= 0)
			return false;
	return true;
}

static bool
has_begun(struct sim *sim)
{
	sim_look(sim);
	return sim->running_seen;
}

/* Some row has lost more with these members than the others make up for. */
static bool
are_too_many(const struct sim *sim, uint32_t roles)
{
	for (uint64_t row = 0; row < sim->rows; row++)
		if (__builtin_popcount(geometry_positions(&sim->geometry, row, roles)) >
		    sim->geometry.redundancy)
			return true;
	return false;
}

static uint32_t
draw_roles(const struct sim *sim, uint64_t *random, int count, uint32_t but_for)
{
	uint32_t roles = 0;

	while (__builtin_popcount(roles) < count) {
		const uint32_t role = 1u << fake_random(random) % (uint64_t)sim->count;

		roles |= role & but_for ? 0 : role;
	}
	return roles;
}

/* Nothing else is the matter, and no device waits to take a place. */
static bool
is_calm(struct sim *sim)
{
	if (!sim->running_seen || sim->geometry.redundancy == 0 || fault_troubled(sim) ||
	    sim->wiped_roles != 0 || sim->status.state != VOLUME_ACTIVE ||
	    now(sim) <= sim->excess_until_us || (engine_where(sim->engine) >> WHERE_GROWS) & 1)
		return false;
	for (int m = 0; m < sim->slots; m++)
		if (sim->clone_of[m] >= 0 ||
		    (sim->slot_of[m] >= 0 &&
		     (sim->roles[m] < 0 || sim->holder[sim->roles[m]] != m)))
			return false;
	return true;
}

static void
submit_some(struct sim *sim, uint64_t *random)
{
	for (uint64_t rounds = random_between(random, 1, 4); rounds > 0; rounds--) {
		fault_resume_load(sim, random);
		sim_advance(sim,
			    now(sim) + random_between(random, 0,
						      random_once_in(random, 3) ? 5000000 : 20000));
	}
}

/* They are away until the volume does without them; false: it did not come to that. */
static bool
members_leave(struct scene *scene, uint64_t *random)
{
	struct sim *sim = scene->sim;

	sim->leaving = scene->left;
	for (int role = 0; role < sim->count; role++) {
		if (!((scene->left >> role) & 1))
			continue;
		scene->left_device[role] = sim->holder[role];
		fault_trouble(sim, sim->holder[role], GONE_US);
		fake_member_cut(&sim->members[sim->holder[role]], false);
	}
	load_submit(sim, random);
	load_small_write(sim, random);
	load_flush(sim);
	return sim_wait(sim, have_left, GONE_US) && !sim->crash_due;
}

static void
members_return(struct scene *scene)
{
	for (int role = 0; role < scene->sim->count; role++)
		if ((scene->left >> role) & 1)
			scene->sim->members[scene->left_device[role]].reachable = true;
}

/* The gateway is gone, and these members with it. */
static void
members_die(struct scene *scene, uint64_t *random, int devices[])
{
	struct sim *sim = scene->sim;

	for (int role = 0; role < sim->count; role++) {
		devices[role] = -1;
		if (!((scene->dead >> role) & 1))
			continue;
		devices[role] = sim->holder[role];
		sim->members[sim->holder[role]].reachable = false;
	}
	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] >= 0 && devices[role] < 0 && random_once_in(random, 3))
			fake_member_power_loss(&sim->members[sim->holder[role]], true);
}

/* Later they are there again, with what they held, or as empty devices. */
static void
members_are_found(struct scene *scene, uint64_t *random, const int devices[])
{
	struct sim *sim = scene->sim;

	for (int role = 0; role < sim->count; role++) {
		if (devices[role] < 0)
			continue;
		if (random_once_in(random, 2))
			disk_wipe(&sim->members[devices[role]].disk);
		else
			sim->left_by_force |= 1u << devices[role];
		sim->members[devices[role]].reachable = true;
	}
}

static void
trouble_all(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, 500);
}

/* It waits for the dead, and then says that it can't. */
static bool
starts_unforced(struct scene *scene)
{
	struct sim *sim = scene->sim;

	sim_start(sim);
	if (!sim_wait(sim, has_begun, sim->engine_options.assembly_limit_ms * 1000ull + 2000000))
		return false;
	if (are_too_many(sim, scene->left | scene->dead))
		sim_fail(sim, "started without %#x, and %#x are out of date", scene->dead,
			 scene->left);
	return true;
}

static void
start_forced(struct scene *scene)
{
	struct sim *sim = scene->sim;

	oracle_forced(sim, &scene->start, scene->left, scene->dead);
	sim->engine_options.force_ms = UINT32_MAX;
	sim_start(sim);
	sim->engine_options.force_ms = 0;
	if (!sim_wait(sim, has_begun, GONE_US))
		sim_fail(sim, "does not start by force: %s", sim->status.reason);
}

static void
end_gateway(struct sim *sim, bool in_order)
{
	if (in_order && !sim->crash_due)
		sim_stop(sim);
	else
		sim_crash(sim);
}

void
force_strike(struct sim *sim, uint64_t *random)
{
	struct scene scene = { .sim = sim };
	const int tolerated = geometry_tolerated(&sim->geometry);
	int dead_devices[SIM_MEMBERS_MAX], left = 1;

	sim_look(sim);
	if (!is_calm(sim))
		return;
	former_kill(sim);
	sim_trace(sim, "FAULT %s", fault_names[FAULT_FORCED]);
	sim->steer.on = false;
	left += (int)(fake_random(random) % (uint64_t)tolerated);
	scene.left = draw_roles(sim, random, left, 0);
	scene.dead = draw_roles(sim, random, tolerated + 1 - left, scene.left);
	oracle_before_force(sim, &scene.start);
	sim->log_void = true;
	if (members_leave(&scene, random)) {
		submit_some(sim, random);
		end_gateway(sim, random_once_in(random, 2));
		members_die(&scene, random, dead_devices);
		members_return(&scene);
		trouble_all(sim);
		if (!starts_unforced(&scene)) {
			end_gateway(sim, random_once_in(random, 2));
			trouble_all(sim);
			start_forced(&scene);
			submit_some(sim, random);
		}
		members_are_found(&scene, random, dead_devices);
	} else {
		members_return(&scene);
	}
	oracle_after_force(&scene.start);
	sim->log_void = false;
	trouble_all(sim);
}
