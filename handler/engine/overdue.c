/* overdue.c - how long a request can take (docs/design/time.md). */
#include "engine_internal.h"

/* The adapter ends the session of a member that leaves a command unanswered for so many give_up_ms. */
#define COMMAND_GIVE_UPS 6u
#define TURN_MS 1000u

static uint64_t
wait_ms_max(const struct engine_options *options)
{
	uint64_t limit = options->queue_limit_ms > options->assembly_limit_ms ? options->queue_limit_ms
									      : options->assembly_limit_ms;

	return limit + 3ull * options->give_up_ms;
}

uint64_t
engine_request_ms_max(const struct engine_options *options)
{
	return wait_ms_max(options) + (uint64_t)COMMAND_GIVE_UPS * options->give_up_ms + TURN_MS;
}
