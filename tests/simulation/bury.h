/* bury.h - what is left of an engine whose process died. */
#ifndef IRAID_BURY_H
#define IRAID_BURY_H

#include "engine/life/engine.h"

/* A killed process runs none of the engine's code.  This only gives back its large memory; the rest
 * stays reachable from here, so that leak checks still find real leaks.
 */
void engine_bury(struct engine *engine);

/* For the simulator's sums: is the arena short? */
bool engine_waits_for_memory(const struct engine *engine);

#endif
