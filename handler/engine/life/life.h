/* life.h - from the first session to the last: a volume is assembled, runs, grows and stops; and what is asked of it.
 *
 *	engine.c	creation, admission, the run loop (engine.h)	assemble.c	from superblocks to a running volume
 *	stop.c		an orderly end			grow.c		members have become larger
 *	probe.c		how fast members answer		admin.c		what an administrator asks for (admin.h)
 *	status.c	what an administrator sees (status.h)
 */
#ifndef IRAID_ENGINE_LIFE_H
#define IRAID_ENGINE_LIFE_H

#include "engine/core/core.h"

void assemble_run(struct engine *engine);
uint64_t assemble_deadline(const struct engine *engine);

void stop_run(struct engine *engine);
uint64_t stop_deadline(const struct engine *engine);

void grow_run(struct engine *engine);

void probe_run(struct engine *engine);
uint64_t probe_deadline(const struct engine *engine);

void admin_let_go(struct engine *engine);		/* let devices go whose sessions are closed */

#endif
