/* overdue.c - how long a request can take (docs/design/time.md).
 *
 * A request has its time from when it was first looked at, a piece of a long range of zeros from
 * when it was cut, whether or not anything else is late.  Whatever waits for its sake bears that
 * moment: operations, commands that wait for their member, those who wait for marks, flushes, the
 * table of lost extents.  Once it is used up, all of that fails, wherever it is, but for commands
 * that a member has: reads are diverted, writes end by the end of their session at the latest,
 * which the adapter brings about.
 *
 * What is not for a request, such as the record of an eviction, goes on for as long as it takes.
 */
#include "core.h"

#define TURN_MS 1000u

/* Until it waits for nobody any more: that members are found silent, are waited for, are back, and
 * others are given up then.
 */
static uint64_t
wait_ms_max(const struct engine_options *options)
{
	uint64_t limit = options->queue_limit_ms > options->assembly_limit_ms
				 ? options->queue_limit_ms
				 : options->assembly_limit_ms;

	return limit + 3ull * options->give_up_ms + options->grace_ms;
}

uint64_t
overdue_ms_max(const struct engine_options *options)
{
	return wait_ms_max(options) + (uint64_t)BACKEND_IO_DEADLINES * options->give_up_ms +
	       TURN_MS;
}

bool
overdue_since(const struct engine *engine, uint64_t since_ms)
{
	return since_ms != 0 && engine->now_ms >= since_ms + wait_ms_max(&engine->options) &&
	       !MUTANT(WAITS_FOR_EVER);
}

uint64_t
overdue_at(const struct engine *engine, uint64_t since_ms)
{
	uint64_t at = since_ms + wait_ms_max(&engine->options);

	return since_ms == 0 || at <= engine->now_ms ? UINT64_MAX : at;
}
