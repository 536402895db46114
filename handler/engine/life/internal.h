/* internal.h - what the files of life/ know of each other, beside life.h. */
#ifndef IRAID_ENGINE_LIFE_INTERNAL_H
#define IRAID_ENGINE_LIFE_INTERNAL_H

#include "life.h"

/* --- engine.c --- */

void life_enter(struct engine *engine, enum engine_phase phase);

/* --- attempt.c --- */

/* nothing that was decided or about to be recorded counts; why: engine->reason from then on */
void attempt_begin_again(struct engine *engine, const char *why);
void attempt_again(struct engine *engine, const char *why); /* the same, and it is logged */
void attempt_disown_members(struct engine *engine);
/* its part in this attempt failed; who fails each time is unsteady */
void attempt_lost(struct member *member);
void attempt_look_for_lost(struct engine *engine);
bool attempt_is_unsteady(const struct member *member);
/* false: this gateway does not remember it yet */
bool attempt_mean_epoch(struct engine *engine);
void attempt_write_epoch(struct engine *engine);
bool attempt_remember_epoch(struct engine *engine);

/* --- load.c --- */

void load_begin(struct engine *engine);
void load_run(struct engine *engine);
bool load_may_force(const struct engine *engine);
/* for what a member refuses to read: that may pass */
bool load_may_wait(const struct engine *engine);

/* --- takeover.c --- */

/* May members be taken from another gateway now? */
bool takeover_allowed(const struct engine *engine);
/* May this start begin, or is the volume another gateway's?  false: engine->reason says why not, or
 * a member has to flush first. */
bool takeover_may_begin(struct engine *engine, const struct assembly_verdict *verdict);
/* Members have their roles: who is to hear of this start is on record. */
void takeover_begin(struct engine *engine);
/* Before superblocks are written: have those heard who have to, and are out?  Ask in each turn; it
 * may begin the attempt again.
 */
bool takeover_tells(struct engine *engine);
/* Somebody goes before enough have heard. */
bool takeover_loses(const struct engine *engine);
/* Then, when nothing is under way: the attempt begins again. */
void takeover_goes_back(struct engine *engine);
/* Superblocks are durable: the same of all. */
bool takeover_is_heard(struct engine *engine);
bool takeover_lease_is_over(struct engine *engine);
uint64_t takeover_deadline(const struct engine *engine);
void takeover_name_predecessor(struct engine *engine);

/* --- assemble.c --- */

void assemble_forget_taken(struct engine *engine);

#endif
