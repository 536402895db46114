/* bury.c - see bury.h. */
#include "bury.h"

#include "engine/core/core.h"

#include <stdlib.h>

static struct engine **graveyard;
static size_t buried;

void
engine_bury(struct engine *engine)
{
	struct engine **grown = realloc(graveyard, (buried + 1) * sizeof(*graveyard));

	if (grown == NULL)
		abort();
	graveyard = grown;
	graveyard[buried++] = engine;
	arena_destroy(&engine->arena);
}

bool
engine_waits_for_memory(const struct engine *engine)
{
	return !list_empty(&engine->ops.buffer_waiters);
}
