/* work.h - what goes on in the background: rows are proven, copied, checked and mended, as fast as
 * requests leave room.
 *
 *	resync.c	proves suspect parity		rebuild.c	fills the target
 *	scrub.c		checks all rows			repair.c	rewrites sectors that could not be read
 *	sync_rows.c	a batch of rows: read all, compare or rebuild, write what differs (sync_rows.h)
 *	mend_row.c	the same for one row with unreadable sectors, piece by piece
 *	throttle.c	whether and how fast all of it goes	progress.c	how long it still takes (progress.h)
 */
#ifndef IRAID_ENGINE_WORK_H
#define IRAID_ENGINE_WORK_H

#include "engine/core/core.h"
#include "work_status.h"

struct throttle {
	uint64_t rate_min, rate_max; /* bytes of each member a second */
	int64_t budget_bytes;
	uint64_t filled_ms;
};

struct work {
	/* each its file's own; NULL before the volume is assembled, as the next */
	struct resync *resync;
	struct rebuild *rebuild;
	struct scrub *scrub;
	struct repair *repair;
	struct throttle throttle;
};

/* --- throttle.c --- */

/* Background work may go on: running, nobody silent or being evicted, nothing being recorded as
 * lost.
 */
bool engine_calm(const struct engine *engine);
/* as engine_set_rates() */
void throttle_set_rates(struct engine *engine, uint64_t min, uint64_t max);
/* milliseconds until the next batch may begin; 0: now */
uint64_t throttle_wait(const struct engine *engine);
void throttle_spend(struct engine *engine, uint64_t bytes);

/* --- resync.c --- */

#define RESYNC_STOP_MS 5000u /* a stop waits so long until what was written is proven */

int resync_init(struct engine *engine);
void resync_free(struct engine *engine);
void resync_run(struct engine *engine);
uint64_t resync_deadline(const struct engine *engine);
bool resync_has_time(const struct engine *engine); /* while a stop waits */
/* a suspect row was written: look at its region soon */
void resync_hint(struct engine *engine, uint64_t row);
bool resync_idle(const struct engine *engine);
void resync_status(const struct engine *engine, struct work_status *out);

/* --- rebuild.c --- */

int rebuild_init(struct engine *engine);
void rebuild_free(struct engine *engine);
void rebuild_run(struct engine *engine);
uint64_t rebuild_deadline(const struct engine *engine);
bool rebuild_idle(const struct engine *engine);
void rebuild_status(const struct engine *engine, struct work_status *out);

/* --- scrub.c --- */

int scrub_init(struct engine *engine);
void scrub_free(struct engine *engine);
/* As engine_scrub_start() and engine_scrub_stop(). */
int scrub_start(struct engine *engine, enum scrub_mode mode, bool resume, char *why);
int scrub_stop(struct engine *engine, char *why);
void scrub_run(struct engine *engine);
uint64_t scrub_deadline(const struct engine *engine);
bool scrub_idle(const struct engine *engine);
void scrub_assembled(struct engine *engine); /* go on with the one that was under way */
void scrub_status(const struct engine *engine, struct work_status *out, struct scrub_found *found);

/* --- repair.c --- */

int repair_init(struct engine *engine);
void repair_free(struct engine *engine);
void repair_run(struct engine *engine);
bool repair_idle(const struct engine *engine);
void repair_note(struct engine *engine, uint64_t row); /* something in it could not be read */

#endif
