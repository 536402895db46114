/* sim_cascade.c - faults that follow each other within milliseconds, on whom the engine is busy
 * with.
 *
 * One fault at a time finds what one fault breaks.  What breaks only while the engine is about
 * something, by two more that come before it is done (a member is sent away, loses its power with a
 * flush under way, and is needed after all), has to be looked for: a life with cascades waits for
 * such a state, and then makes up to nine moves, most of them within a few turns, on the member
 * that the state is about, the one whose place it takes, others, or all of them but for it.
 */
#include "sim.h"

#include "engine/members/members.h"

#define CASCADES_MAX 12
#define MOVES_MAX 9

enum move {
	MOVE_CUT,
	MOVE_POWER,
	MOVE_REFUSE,
	MOVE_FAIL,
	MOVE_CUT_OTHER,
	MOVE_POWER_OTHER,
	MOVE_CUT_OTHERS,
	MOVE_REFUSE_PARTNER,
	MOVE_SLOW,
	MOVE_SLOW_OTHER,
	MOVE_FLUSH,
	MOVE_WRITES,
	MOVE_REPLACE,
	MOVES,
};

static const char *const move_names[MOVES] = {
	"cut",
	"power lost",
	"writes refused",
	"failed by hand",
	"another cut",
	"another loses power",
	"all others cut",
	"partner refuses writes",
	"superblocks take long",
	"another's superblocks take long",
	"flush",
	"writes",
	"replaced by hand",
};

/* What begins one, and how many in all. */
static const uint8_t states[] = {
	WHERE_EVICTS,	    WHERE_EVICTS,	WHERE_TARGET_TAKES,
	WHERE_TARGET_TAKES, WHERE_TARGET_TAKES, WHERE_TARGET_WITHDRAWS,
	WHERE_GRACE,	    WHERE_RUNS,		WHERE_RUNS,
	WHERE_FLUSH,	    WHERE_RESYNC,	WHERE_SUSPENDED,
	WHERE_SUSPECT,
};

static int
device_of(const struct sim *sim, const struct member *member)
{
	return member != NULL ? sim->member_in[member - sim->engine->members] : -1;
}

/* Whom is the engine busy with?  -1: nobody more than others. */
static int
subject_of(const struct sim *sim)
{
	struct engine *engine = sim->engine;

	if (engine->target != NULL && target_changing(engine))
		return device_of(sim, engine->target);
	for_each_member(engine, member)
		if (member->evicting ||
		    (member->in_sync && (member->condemned || !member_usable(member))))
			return device_of(sim, member);
	/* What it alone lacks, who is copied from it has. */
	if (target_filling(engine))
		return device_of(sim, engine->by_role[engine->target->role]);
	return -1;
}

static int
partner_of(const struct sim *sim)
{
	const struct engine *engine = sim->engine;

	if (engine->target == NULL || engine->target->role < 0)
		return -1;
	return device_of(sim, engine->by_role[engine->target->role]);
}

static int
draw_holder(const struct sim *sim, uint64_t *random, int but)
{
	int found[SIM_MEMBERS_MAX];
	uint64_t count = 0;

	for (int role = 0; role < sim->count; role++)
		if (sim->holder[role] >= 0 && sim->holder[role] != but)
			found[count++] = sim->holder[role];
	return count > 0 ? found[fake_random(random) % count] : -1;
}

static uint64_t
draw_absence(uint64_t *random)
{
	static const uint64_t longest_us[] = { 0, 1000, 30000, 400000, 3000000 };

	return random_between(random, 0, longest_us[fake_random(random) % 5]);
}

static void
cut_others(struct sim *sim, uint64_t *random, int but)
{
	for (int m = 0; m < sim->slots; m++)
		if (m != but && sim->slot_of[m] >= 0)
			fault_strike_briefly(sim, FAULT_CUT, m, draw_absence(random));
}

static void
write_some(struct sim *sim, uint64_t *random)
{
	for (uint64_t left = random_between(random, 1, 12); left > 0; left--)
		load_small_write(sim, random);
}

/* The others have theirs, and go on; until quiescence. */
static void
slow_superblocks(struct sim *sim, int m, uint64_t *random)
{
	if (m < 0)
		return;
	sim->members[m].superblock_us_max = random_between(random, 5000, 1000000);
	fault_trouble(sim, m, 10000000);
}

static void
move(struct sim *sim, enum move what, int subject, uint64_t *random)
{
	const int other = draw_holder(sim, random, subject);

	switch (what) {
	case MOVE_CUT:
	case MOVE_POWER:
	case MOVE_REFUSE:
		fault_strike_briefly(sim,
				     what == MOVE_CUT	  ? FAULT_CUT
				     : what == MOVE_POWER ? FAULT_POWER
							  : FAULT_REFUSE,
				     subject, draw_absence(random));
		break;
	case MOVE_FAIL:
	case MOVE_REPLACE:
		admin_cascade(sim, subject, what == MOVE_REPLACE);
		break;
	case MOVE_CUT_OTHER:
	case MOVE_POWER_OTHER:
		if (other >= 0)
			fault_strike_briefly(sim, what == MOVE_CUT_OTHER ? FAULT_CUT : FAULT_POWER,
					     other, draw_absence(random));
		break;
	case MOVE_CUT_OTHERS:
		cut_others(sim, random, subject);
		break;
	case MOVE_REFUSE_PARTNER:
		if (partner_of(sim) >= 0)
			fault_strike_briefly(sim, FAULT_REFUSE, partner_of(sim),
					     draw_absence(random));
		break;
	case MOVE_SLOW:
		slow_superblocks(sim, subject, random);
		break;
	case MOVE_SLOW_OTHER:
		slow_superblocks(sim, other, random);
		break;
	case MOVE_FLUSH:
		load_flush(sim);
		break;
	case MOVE_WRITES:
		write_some(sim, random);
		break;
	case MOVES:
		break;
	}
}

/* Who takes its place is copied from a member that has it yet. */
static bool
doubles(const struct engine *engine)
{
	return target_filling(engine) && engine->by_role[engine->target->role] != NULL;
}

static enum move
draw_move(const struct sim *sim, uint64_t *random)
{
	/* Its former is needed while it returns, for another is away, and lacks what was written to
	 * both.
	 */
	static const uint8_t beside[MOVES] = { 5, 6, 1, 1, 6, 1, 0, 0, 0, 0, 1, 8, 0 };
	static const uint8_t usual[MOVES] = { 3, 4, 1, 2, 4, 2, 1, 0, 1, 2, 5, 4, 1 };
	static const uint8_t changing[MOVES] = { 5, 2, 1, 0, 3, 1, 3, 4, 1, 3, 1, 1, 0 };
	const uint8_t *weights = target_changing(sim->engine) ? changing
				 : doubles(sim->engine)	      ? beside
							      : usual;
	uint64_t total = 0, drawn;
	int what = 0;

	for (int i = 0; i < MOVES; i++)
		total += weights[i];
	for (drawn = fake_random(random) % total; drawn >= weights[what]; what++)
		drawn -= weights[what];
	return (enum move)what;
}

static void
draw_cascade(struct sim *sim)
{
	struct cascade *cascade = &sim->cascade;

	cascade->doubles = random_once_in(&cascade->random, 5);
	cascade->state = cascade->doubles ? WHERE_TARGET_FILLS
					  : states[fake_random(&cascade->random) % sizeof(states)];
	/* What is there nearly always is waited for all the same. */
	cascade->next_us = sim->schedule.now_us + random_between(&cascade->random, 0, 2000000);
}

void
cascade_init(struct sim *sim)
{
	sim->cascade.random = ability_random(sim, ABILITY_CASCADES);
	sim->cascade.left = sim_can(sim, ABILITY_CASCADES) ? CASCADES_MAX : 0;
	if (sim->cascade.left == 0)
		return;
	if (sim->admin_rate == 0)
		sim->admin_rate = 5;
	draw_cascade(sim);
}

static bool
may_strike(const struct sim *sim)
{
	return sim->cascade.left > 0 && sim->steer.on && sim->engine != NULL && !sim->stranger &&
	       !sim->crash_due && sim->running_seen && !sim->stopping && !sim->turn_missed;
}

static bool
is_time(const struct sim *sim)
{
	const struct cascade *cascade = &sim->cascade;

	if (!may_strike(sim))
		return false;
	if (cascade->moves == 0 && cascade->state >= WHERE_TARGET_TAKES &&
	    cascade->state <= WHERE_TARGET_WITHDRAWS)
		return (engine_where(sim->engine) >> cascade->state) & 1;
	if (cascade->moves == 0 && cascade->doubles && !doubles(sim->engine))
		return false;
	return sim->schedule.now_us >= cascade->next_us &&
	       (cascade->moves > 0 || ((engine_where(sim->engine) >> cascade->state) & 1));
}

static uint64_t
draw_pause(uint64_t *random)
{
	static const uint64_t longest_us[] = { 0, 0, 0, 500, 500, 5000, 100000, 1500000 };

	return random_between(random, 0, longest_us[fake_random(random) % 8]);
}

/* Has a member replaced whose copying the next one waits for; if that can't be, another comes. */
static void
replace_some(struct sim *sim)
{
	struct cascade *cascade = &sim->cascade;
	const struct engine *engine = sim->engine;
	int m;

	if (!may_strike(sim) || cascade->moves > 0 || !cascade->doubles ||
	    sim->schedule.now_us < cascade->next_us || engine->target != NULL ||
	    engine->target_state->replace_role >= 0 || engine->out != 0)
		return;
	m = draw_holder(sim, &cascade->random, -1);
	if (m >= 0)
		admin_cascade(sim, m, true);
	cascade->next_us =
		sim->schedule.now_us + (engine->target_state->replace_role >= 0 ? 0 : 30000);
	if (engine->target_state->replace_role < 0 && random_once_in(&cascade->random, 4))
		draw_cascade(sim);
}

void
cascade(struct sim *sim)
{
	struct cascade *cascade = &sim->cascade;
	uint64_t *random = &cascade->random;

	replace_some(sim);
	while (is_time(sim)) {
		int subject = subject_of(sim);
		enum move what = draw_move(sim, random);

		if (cascade->moves == 0) {
			cascade->moves = (uint32_t)random_between(random, 2, MOVES_MAX);
			cascade->subject = -1;
		}
		if (cascade->subject < 0 || sim->slot_of[cascade->subject] < 0 ||
		    (subject >= 0 && random_once_in(random, 2)))
			cascade->subject = subject >= 0 ? subject : draw_holder(sim, random, -1);
		if (cascade->subject < 0)
			return;
		sim_trace(sim, "cascade: %s, about member %d", move_names[what], cascade->subject);
		move(sim, what, cascade->subject, random);
		cascade->next_us = sim->schedule.now_us + draw_pause(random);
		if (--cascade->moves == 0) {
			cascade->left--;
			draw_cascade(sim);
			sim->crash_due = sim->geometry.redundancy > 0 && random_once_in(random, 4);
			if (sim->crash_due)
				sim->crash_kind = FAULT_HALVES;
			for (int m = 0; m < sim->slots; m++)
				sim->members[m].superblock_us_max =
					sim->crash_due ? sim->members[m].superblock_us_max : 0;
		}
		sim_turn(sim);
	}
}
