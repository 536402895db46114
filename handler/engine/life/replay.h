/* replay.h - a start writes to rows what a crash left in the write log. */
#ifndef IRAID_ENGINE_REPLAY_H
#define IRAID_ENGINE_REPLAY_H

#include "engine/core/core.h"

struct replay_progress {
	const char *step; /* NULL: there is none */
	uint64_t done, total;
};

/* In PHASE_REPLAY.  Superblocks name the opening, and who is out now. */
void replay_begin(struct engine *engine);
void replay_run(struct engine *engine);
/* ... and on record.  What is acknowledged and in no row yet is in write_back.c's hands then, and the
 * log goes on.
 */
bool replay_done(const struct engine *engine);
uint64_t replay_deadline(const struct engine *engine);
void replay_free(struct engine *engine);
void replay_progress(const struct engine *engine, struct replay_progress *out);

#endif
