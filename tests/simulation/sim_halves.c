/* sim_halves.c - a gateway that dies again and again, and finds other members each time.
 *
 *	halves		some members go, or come, while it runs or assembles; it dies at a step of that, and is started with whom it
 *			finds then.  After some rounds all are there again
 *
 * Of two gateways the other one may be started: it knows nothing but what members say.  Nor does one
 * that has lost its record.
 *
 * What one assembly left on record with some members, the next must weigh without having seen it:
 * who was sent away while whom it meets was away, which half was written to.  An ordinary crash has
 * one member away at most.
 */
#include "sim.h"

#define ROUNDS_MAX 6
#define ROUND_US (40ull * 1000000)
#define LONG_US (60ull * 1000000)

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

static uint64_t
draw_pause(uint64_t *random)
{
	static const uint64_t longest_us[] = { 2000, 20000, 300000, 3000000, 20000000 };

	return random_between(random, 0, longest_us[fake_random(random) % 5]);
}

static void
trouble_all(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, ROUND_US);
}

static void
reach(struct sim *sim, int m, bool reachable)
{
	if (sim->members[m].reachable == reachable)
		return;
	sim_trace(sim, "halves: device %d is %s", m, reachable ? "back" : "away");
	if (reachable)
		sim->members[m].reachable = true;
	else
		fake_member_cut(&sim->members[m], false);
}

/* As many are away as the level bears, or one fewer, or half of all, the others are there; or all
 * change places.
 */
static void
draw_reach(struct sim *sim, uint64_t *random)
{
	const uint64_t kind = fake_random(random) % 5,
		       borne = (uint64_t)geometry_tolerated(&sim->geometry);
	uint64_t away = kind <= 1   ? 0
			: kind == 2 ? (uint64_t)sim->count / 2
				    : random_between(random, 1, borne);

	for (int m = 0; m < sim->slots; m++)
		reach(sim, m, kind <= 1 ? !sim->members[m].reachable : true);
	while (away-- > 0)
		reach(sim, (int)(fake_random(random) % (uint64_t)sim->slots), false);
}

static void
write_some(struct sim *sim, uint64_t *random)
{
	for (uint64_t left = random_between(random, 1, 5); left > 0; left--)
		load_small_write(sim, random);
	if (random_once_in(random, 2))
		load_flush(sim);
	sim_turn(sim);
}

/* Some take long to write a superblock: the others have it, and go on, or go. */
static void
draw_slowness(struct sim *sim, uint64_t *random)
{
	for (int m = 0; m < sim->slots; m++)
		sim->members[m].superblock_us_max =
			random_once_in(random, 3) ? random_between(random, 5000, 2000000) : 0;
}

static int
draw_device(const struct sim *sim, uint64_t *random)
{
	const int role = (int)(fake_random(random) % (uint64_t)sim->count);

	return sim->holder[role] >= 0 && !random_once_in(random, 6)
		       ? sim->holder[role]
		       : (int)(fake_random(random) % (uint64_t)sim->slots);
}

static void
some_steps(struct sim *sim, uint64_t *random)
{
	uint64_t events = random_between(random, 1, random_once_in(random, 3) ? 200 : 20);

	if (random_once_in(random, 3))
		sim_advance(sim, now(sim) + draw_pause(random));
	else
		while (events-- > 0 && schedule_next_us(&sim->schedule) != UINT64_MAX &&
		       !sim->crash_due)
			sim_advance(sim, schedule_next_us(&sim->schedule));
}

static void
move(struct sim *sim, uint64_t *random)
{
	const int m = draw_device(sim, random);

	switch (fake_random(random) % 8) {
	case 0:
	case 1:
		reach(sim, m, !sim->members[m].reachable);
		break;
	case 2:
		reach(sim, m, false);
		break;
	case 3:
		if (sim->slot_of[m] >= 0)
			admin_cascade(sim, m, random_once_in(random, 3) ? false : true);
		break;
	case 4:
		admin_step(sim, random);
		break;
	case 5:
		draw_slowness(sim, random);
		break;
	case 6:
		sim->no_epoch_until_us = now(sim) + draw_pause(random);
		break;
	default:
		write_some(sim, random);
		break;
	}
	sim_turn(sim);
}

static bool
is_running(struct sim *sim)
{
	sim_look(sim);
	return sim->running_seen;
}

/* It dies while it assembles, or while something changes. */
static void
run_a_while(struct sim *sim, uint64_t *random)
{
	draw_slowness(sim, random);
	if (random_once_in(random, 4)) {
		sim->crash_in = (int)random_between(random, 1, 120);
		sim_advance(sim, now(sim) + 4000000);
		return;
	}
	sim_wait(sim, is_running, sim->engine_options.assembly_limit_ms * 1000ull + 2000000);
	if (sim->running_seen && random_once_in(random, 2))
		write_some(sim, random);
	for (uint64_t moves = random_between(random, 0, 7); moves > 0 && !sim->crash_due; moves--) {
		trouble_all(sim);
		if (sim->running_seen)
			move(sim, random);
		sim->armed |= random_once_in(random, 8);
		some_steps(sim, random);
	}
}

static void
die(struct sim *sim, uint64_t *random)
{
	where_note(sim, FAULT_HALVES);
	sim_crash(sim);
	for (int m = 0; m < sim->slots; m++)
		if (random_once_in(random, 8))
			fake_member_power_loss(&sim->members[m], sim->members[m].reachable);
}

/* Its disk was exchanged, or an old image of the gateway was started. */
static void
lose_record(struct sim *sim)
{
	sim_trace(sim, "halves: the gateway has lost its record of epochs");
	sim->epoch_recorded = sim->epoch_tried[sim->side] = 0;
}

static void
end_all(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++) {
		reach(sim, m, true);
		sim->members[m].superblock_us_max = 0;
	}
	sim->no_epoch_until_us = 0;
}

/* Longer than an assembly takes, or not. */
static uint64_t
draw_epoch_pause(uint64_t *random)
{
	return random_once_in(random, 2) ? draw_pause(random) : LONG_US;
}

static void
start(struct sim *sim, uint64_t *random)
{
	if (sim_can(sim, ABILITY_TWO_GATEWAYS) && sim->left_by_force == 0 &&
	    random_once_in(random, 3))
		former_succeeded(sim);
	else
		sim_start(sim);
}

/* It dies, finds others, and so on. */
static void
live_on(struct sim *sim, uint64_t *random, uint64_t rounds)
{
	while (rounds-- > 0) {
		die(sim, random);
		if (random_once_in(random, 6))
			lose_record(sim);
		if (rounds > 0)
			draw_reach(sim, random);
		else
			end_all(sim);
		trouble_all(sim);
		if (rounds > 0)
			sim->no_epoch_until_us =
				now(sim) +
				(random_once_in(random, 3) ? draw_epoch_pause(random) : 0);
		start(sim, random);
		if (rounds > 0)
			run_a_while(sim, random);
	}
	sim->steer.on = true;
}

static bool
begin(struct sim *sim)
{
	if (sim->geometry.redundancy == 0 || fault_only_others_know(sim))
		return false;
	former_kill(sim);
	sim_trace(sim, "FAULT %s", fault_names[FAULT_HALVES]);
	sim->steer.on = false;
	return true;
}

void
halves_strike(struct sim *sim, uint64_t *random)
{
	if (!begin(sim))
		return;
	trouble_all(sim);
	if (random_once_in(random, 2))
		run_a_while(sim, random);
	live_on(sim, random, random_between(random, 2, ROUNDS_MAX));
}

void
halves_crash(struct sim *sim, uint64_t *random)
{
	const uint64_t rounds = random_between(random, 2, 3);

	live_on(sim, random, begin(sim) ? rounds : 1); /* all are there after the last one */
}
