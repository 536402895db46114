/* scenario.h - the steps that tests of the engine have in common: what is waited for, how members
 * behave, how it ends.  Each fails the test of which it is a part.
 */
#ifndef IRAID_TEST_SCENARIO_H
#define IRAID_TEST_SCENARIO_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/life/engine.h"
#include "rig.h"
#include "tap.h"

/* What was written is read once more; the volume is stopped. */
void finish(struct rig *rig);

/* What is under way has ended, and nothing has failed; all parity is proven, and on level 5 it is
 * right.
 */
void finish_proven(struct rig *rig);

/* --- members --- */

void set_caches(struct rig *rig, bool present);

/* A member's answers, or all members', take so long. */
void set_pace(struct rig *rig, int member, uint64_t us);
void set_pace_of_all(struct rig *rig, uint64_t us);

/* How long a member may be silent. */
void set_deadline_of_all(struct rig *rig, uint64_t us);

/* A tap's judge. */
enum tap_verdict hold_flushes(struct tap *tap, const struct backend_io *io);

/* --- requests --- */

/* Of each `every` sectors of the load the first `sectors`.  Nothing is waited for. */
void submit_everywhere(struct rig *rig, enum request_op op, uint64_t every, uint64_t sectors);

/* Reads, and waits.  Returns 0 or the error. */
int error_of_read(struct rig *rig, uint64_t sector, uint64_t sectors);

/* --- what is waited for --- */

/* Time leaps where no request is under way. */
void wait_until(struct rig *rig, bool (*met)(struct rig *rig));
void wait_for_state(struct rig *rig, int slot, enum member_state state);
void wait_for_link(struct rig *rig, int slot, enum link_state link);
void damage_newer_superblock(struct rig *rig, int index); /* it can't be read any more */

bool is_whole(struct rig *rig);
bool is_degraded(struct rig *rig);
bool all_in_sync(struct rig *rig); /* and nothing is being copied */
bool all_proven(struct rig *rig);
bool all_clean(struct rig *rig);
bool scrub_done(struct rig *rig);

#endif
