/* throttle.c - how fast resync, rebuild and scrub go: one bucket for all of them.
 *
 * Filled at rate_min while requests are active (or were, within QUIET_MS), else at rate_max.  It
 * may go into debt by one batch, and holds no more than BURST_MS worth, so that a pause buys no
 * flood.
 */
#include "work.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"

#define QUIET_MS 100u
#define BURST_MS 100u
#define RATE_MIN_DEFAULT (10ull << 20)
#define RATE_MAX_DEFAULT (1ull << 30)

static uint64_t
rate_now(const struct engine *engine)
{
	bool busy = engine->requests_active > 0 ||
		    (engine->last_request_ms != 0 &&
		     engine->now_ms - engine->last_request_ms < QUIET_MS);

	return busy ? engine->work->throttle.rate_min : engine->work->throttle.rate_max;
}

static int64_t
budget_now(const struct engine *engine)
{
	const struct throttle *throttle = &engine->work->throttle;
	const int64_t by_ms = (int64_t)(rate_now(engine) / 1000);
	const int64_t most = by_ms * BURST_MS;
	const uint64_t passed_ms = engine->now_ms - throttle->filled_ms;
	/* a debt of minutes, at a low rate, is paid in minutes */
	const uint64_t full_ms = throttle->budget_bytes < most && !MUTANT(DEBT_FOR_EVER)
					 ? (uint64_t)((most - throttle->budget_bytes) / by_ms) + 1
					 : 60000;
	const int64_t earned_ms = (int64_t)(passed_ms < full_ms ? passed_ms : full_ms);
	const int64_t budget = throttle->budget_bytes + by_ms * earned_ms;

	return budget < most ? budget : most;
}

uint64_t
throttle_wait(const struct engine *engine)
{
	int64_t budget = budget_now(engine);

	return budget >= 0 ? 0 : (uint64_t)-budget * 1000 / rate_now(engine) + 1;
}

void
throttle_spend(struct engine *engine, uint64_t bytes)
{
	engine->work->throttle.budget_bytes = budget_now(engine) - (int64_t)bytes;
	engine->work->throttle.filled_ms = engine->now_ms;
}

void
throttle_set_rates(struct engine *engine, uint64_t min, uint64_t max)
{
	engine->work->throttle.rate_min = min > 0 ? min : RATE_MIN_DEFAULT;
	engine->work->throttle.rate_max = max > 0 ? max : RATE_MAX_DEFAULT;
	if (engine->work->throttle.rate_min < 65536)
		engine->work->throttle.rate_min = 65536;
	if (engine->work->throttle.rate_max < engine->work->throttle.rate_min)
		engine->work->throttle.rate_max = engine->work->throttle.rate_min;
	engine->activity++;
}

/* The record does not know of the new size yet.  Also when it was given up with the marks on their
 * way, as a stop does: nothing will ever say that there are such rows.
 */
static bool
is_growth_unsettled(const struct engine *engine)
{
	if (engine->growth_phase != GROWTH_NONE)
		return engine->growth_phase < GROWTH_RECORDING;
	return engine->volume_bytes < geometry_volume_bytes(&engine->geometry) &&
	       !MUTANT(HALF_GROWN_FORGOTTEN);
}

bool
engine_calm(const struct engine *engine)
{
	return engine->phase == PHASE_RUNNING && !engine->fenced && !engine->suspended &&
	       !evict_undecided(engine) && !lost_io_recording(engine) &&
	       !is_growth_unsettled(engine) && engine->options.resync_rows_max > 0 &&
	       (!write_log_holds(engine) || write_log_is_empty(engine));
}
