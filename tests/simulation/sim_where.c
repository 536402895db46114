/* sim_where.c - which states of the engine and which faults have met, and lives that look for rare
 * pairs.
 *
 * engine_where() is a set of bits: what the engine is doing now.  Each fault is counted with all of
 * them at the moment it strikes: `simulate --coverage` prints the sums.  A steered life draws pairs
 * of a state and a fault from a table in which the rare ones weigh more, waits for the state, and
 * lets the fault strike then.  All that comes from the seed and the table, so that a life can be
 * had again.
 */
#include "sim.h"

#include "engine/io/io.h"
#include "engine/life/life.h"
#include "engine/members/internal.h"
#include "engine/record/write_log.h"
#include "engine/work/work.h"

#include <assert.h>
#include <stdio.h>

/* How often each pair is wanted, by state and fault (in the order of enum fault_kind). */
#define KINDS_WANTED (FAULT_STOP + 1)
#define WANTED(state, weights)                                                                     \
	[state] = weights + 0 * sizeof(struct {                                                    \
				    _Static_assert(sizeof(weights) == KINDS_WANTED + 1,            \
						   "a digit for each fault");                      \
				    char unused;                                                   \
			    })
static const char *const wanted[WHERES] = {
#include "sim_wanted.h"
};
#undef WANTED

#define X(name, text) [WHERE_##name] = text,
static const char *const where_names[WHERES] = { WHERE_LIST(X) };
#undef X

/* Writes that are held (plug.c) may be let go by what came after them in the turn; they have a
 * deadline of milliseconds.
 */
bool
engine_is_done(struct engine *engine, uint64_t now_ms)
{
	const uint64_t done = engine->activity;

	if (engine->io->plug.held > 0)
		return true;
	engine_run(engine, now_ms);
	return engine->activity == done;
}

bool
engine_table_is_full(const struct engine *engine)
{
	return engine->lost_full;
}

bool
engine_holds_marks(const struct engine *engine)
{
	for (uint32_t region = 0; region < engine->intent.regions; region++)
		if (engine->intent.active[region] > 0)
			return true;
	return !list_empty(&engine->marks->writing);
}

bool
engine_log_keeps(const struct engine *engine, bool *proven)
{
	const struct write_log *log = engine->write_log;

	*proven = engine->record.log_proven && metadata_idle(engine);
	if (!*proven && engine->record.log_roles != engine->out)
		return false;
	return log->on && !log->failed && !log->spoiled && engine->record.log_key != 0 &&
	       log->cache_losses == engine->cache_losses && !log->moving &&
	       log->step != LOG_RECORDS;
}

uint64_t
engine_where(const struct engine *engine)
{
	const enum engine_phase phase = engine->phase;
	bool silent = false, grace = false, disputed = false;
	uint64_t where = 0;

	for_each_member((struct engine *)engine, member) {
		silent |= member->in_sync && !member_usable(member);
		grace |= evict_in_grace(member);
		disputed |= member->disputed;
	}
#define NOTE(bit, condition) where |= (condition) ? 1ull << (bit) : 0
	NOTE(WHERE_EXAMINES, phase == PHASE_EXAMINE);
	NOTE(WHERE_LOADS_MAP, phase == PHASE_LOAD_MAP);
	NOTE(WHERE_NEW_EPOCH, phase == PHASE_WRITE_SUPERBLOCKS);
	NOTE(WHERE_REPLAYS, phase == PHASE_REPLAY);
	NOTE(WHERE_DRAINS, phase == PHASE_DRAIN);
	NOTE(WHERE_LAST_FLUSH, phase == PHASE_LAST_FLUSH);
	NOTE(WHERE_LAST_MAP, phase == PHASE_LAST_MAP);
	NOTE(WHERE_LAST_SUPERBLOCKS, phase == PHASE_LAST_SUPERBLOCKS);
	NOTE(WHERE_RELEASES, phase == PHASE_RELEASE);
	if (phase < PHASE_RUNNING || phase >= PHASE_RELEASE)
		return where;
	NOTE(WHERE_RUNS, phase == PHASE_RUNNING);
	NOTE(WHERE_DEGRADED, engine->out != 0);
	NOTE(WHERE_SUSPENDED, engine->suspended);
	NOTE(WHERE_EVICTS, engine->evicting > 0);
	NOTE(WHERE_SILENT, silent);
	NOTE(WHERE_GRACE, grace);
	NOTE(WHERE_DISPUTED, disputed);
	NOTE(WHERE_RECORDS, lost_io_recording(engine));
	NOTE(WHERE_TABLE, !lost_io_idle(engine));
	NOTE(WHERE_MAP, !marks_idle(engine));
	NOTE(WHERE_SUPERBLOCKS, !metadata_idle(engine));
	NOTE(WHERE_CLEANS, engine->marks->cleaning);
	NOTE(WHERE_FLUSH, engine->flush->pending > 0);
	NOTE(WHERE_TARGET_MARKS, engine->target_phase == TARGET_MARKING);
	NOTE(WHERE_TARGET_FILLS, engine->target_phase == TARGET_FILLING);
	NOTE(WHERE_TARGET_TAKES, engine->target_phase == TARGET_TAKING);
	NOTE(WHERE_TARGET_WITHDRAWS, engine->target_phase == TARGET_WITHDRAWING);
	NOTE(WHERE_RESYNC, !resync_idle(engine));
	NOTE(WHERE_REBUILD, !rebuild_idle(engine));
	NOTE(WHERE_SCRUB, !scrub_idle(engine));
	NOTE(WHERE_MENDS, !repair_idle(engine));
	NOTE(WHERE_GROWS, engine->life->growth != NULL);
	NOTE(WHERE_SUSPECT, engine->intent.suspect_count > 0);
	NOTE(WHERE_LOST, engine->lost != NULL && engine->lost->count > 0);
	NOTE(WHERE_LOGS, engine->write_log->on);
	NOTE(WHERE_LOG_CHANGES, engine->write_log->step != LOG_STEADY);
	NOTE(WHERE_SHORT, !list_empty((struct list *)&engine->ops.buffer_waiters));
#undef NOTE
	return where;
}

void
where_note(struct sim *sim, enum fault_kind kind)
{
	uint64_t where = sim->engine != NULL && !sim->stranger ? engine_where(sim->engine) : 0;

	for (; where != 0; where &= where - 1)
		sim->options.totals->met[__builtin_ctzll(where)][kind]++;
}

/* --- steering --- */

static uint64_t
weight_of(const struct sim *sim, int state, int kind)
{
	return fault_is_possible(sim, (enum fault_kind)kind) ? (uint64_t)(wanted[state][kind] - '0')
							     : 0;
}

static struct steer_target
draw_target(struct sim *sim)
{
	uint64_t total = 0, drawn;

	for (int state = 0; state < WHERES; state++)
		for (int kind = 0; kind < KINDS_WANTED; kind++)
			total += weight_of(sim, state, kind);
	drawn = fake_random(&sim->steer.random) % total;
	for (int state = 0; state < WHERES; state++)
		for (int kind = 0; kind < KINDS_WANTED; kind++) {
			uint64_t weight = weight_of(sim, state, kind);

			if (drawn < weight)
				return (struct steer_target){ state, (enum fault_kind)kind };
			drawn -= weight;
		}
	assert(!"a pair was drawn");
	return (struct steer_target){ 0, FAULT_CUT };
}

void
steer_init(struct sim *sim)
{
	struct steer *steer = &sim->steer;

	steer->random = ability_random(sim, ABILITY_STEERED);
	steer->left = sim_can(sim, ABILITY_STEERED) ? STEER_TARGETS_MAX : 0;
	for (int i = 0; i < steer->left; i++)
		steer->targets[i] = draw_target(sim);
}

/* The pair whose state the engine is in, or -1. */
static int
met_target(struct sim *sim)
{
	const uint64_t where = engine_where(sim->engine);

	for (int i = 0; i < sim->steer.left; i++)
		if (((where >> sim->steer.targets[i].state) & 1) &&
		    random_once_in(&sim->steer.random, 2))
			return i;
	return -1;
}

void
steer(struct sim *sim)
{
	struct steer *steer = &sim->steer;
	struct steer_target target;
	int met;

	if (steer->left == 0 || !steer->on || sim->engine == NULL || sim->stranger ||
	    sim->crash_due || (met = met_target(sim)) < 0)
		return;
	target = steer->targets[met];
	steer->targets[met] = steer->targets[--steer->left];
	sim_trace(sim, "steered: %s while %s", fault_names[target.kind], where_names[target.state]);
	if (target.kind < FAULT_CRASH) {
		fault_strike(sim, target.kind, &steer->random);
		/* an engine that waits for nothing else has to hear that a session has ended */
		sim_turn(sim);
	} else {
		sim->crash_due = true;
		sim->crash_kind =
			target.kind == FAULT_STOP && sim->stopping ? FAULT_CRASH : target.kind;
	}
}

void
where_print(const uint64_t met[WHERES][FAULT_KINDS])
{
	uint64_t pairs = 0, never = 0;

	printf("%-24s", "faults that struck while");
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		printf(" %7.7s", fault_names[kind]);
	printf("\n");
	for (int state = 0; state < WHERES; state++) {
		printf("%-24.24s", where_names[state]);
		for (int kind = 0; kind < FAULT_KINDS; kind++) {
			printf(" %7llu", (unsigned long long)met[state][kind]);
			pairs++;
			never += met[state][kind] == 0;
		}
		printf("\n");
	}
	printf("%llu of %llu pairs met, %llu never\n", (unsigned long long)(pairs - never),
	       (unsigned long long)pairs, (unsigned long long)never);
}

/* A pair is wanted the more the rarer it is: never met 8, up to 10 times 4, up to 100 times 2, up
 * to 1000 times 1.
 */
static char
weight(uint64_t met, int state, int kind)
{
	const bool stops = state >= WHERE_DRAINS && state <= WHERE_RELEASES;

	/* A volume is not stopped twice, and time can't stand still in the midst of a turn. */
	if (kind == FAULT_STANDSTILL || (kind == FAULT_STOP && stops))
		return '0';
	return met == 0 ? '8' : met <= 10 ? '4' : met <= 100 ? '2' : met <= 1000 ? '1' : '0';
}

void
where_print_wanted(const uint64_t met[WHERES][FAULT_KINDS])
{
#define X(name, text) "WHERE_" #name,
	static const char *const names[WHERES] = { WHERE_LIST(X) };
#undef X

	for (int state = 0; state < WHERES; state++) {
		printf("WANTED(%s, \"", names[state]);
		for (int kind = 0; kind < KINDS_WANTED; kind++)
			putchar(weight(met[state][kind], state, kind));
		printf("\"),\n");
	}
}
