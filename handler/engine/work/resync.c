/* resync.c - proves suspect parity in the background (DESIGN rule 1).
 *
 * A few rows at a time are claimed as a write claims them, read from all members, and the parity
 * that differs is rewritten.  A region whose rows are all proven is suspect no longer; the cleaner
 * (marks.c) clears its dirty mark after a flush.
 *
 * Regions that were just written come first: their data is new, and has no proven parity beyond the
 * rows it touched until then.  Then those that were written before this assembly: which of their
 * rows were proven is forgotten, and until they are again, a lost member takes its part of them
 * along.  What nobody has ever written has nothing to lose, and is last: of a large new volume that
 * is nearly all, and takes days.  Only with all members there: without one there is nothing to
 * prove with.
 */
#include "progress.h"
#include "sync_rows.h"
#include "engine/members/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>

#define UNREADABLE_MS 60000u /* before regions with unreadable rows are tried again */
#define RETRY_MS 1000u
#define HINTS 64u

struct resync {
	struct sync_rows rows; /* must be first */
	struct progress progress;
	uint32_t cursor; /* region to look at next */
	uint32_t region; /* of the batch */
	/* rows of that region below it can't be proven now, if they are suspect; 0: all can */
	uint64_t tried_until;
	bool unreadable; /* something in this pass could not be read */
	uint64_t not_before_ms;
	uint64_t done_rows;    /* of this run */
	uint32_t hints[HINTS]; /* regions written while suspect, a ring */
	/* there may be written regions from written_cursor on that are suspect */
	bool written_left;
	uint32_t written_cursor;
	uint32_t doubts; /* intent.doubts when that was begun */
	uint32_t hint_head, hint_count;
};

static void
rows_synced(struct sync_rows *rows, int result)
{
	struct resync *resync = (struct resync *)rows;
	struct engine *engine = rows->op.engine;

	if (result != 0) {
		resync->not_before_ms = engine->now_ms + RETRY_MS;
		return;
	}
	for (int i = 0; i < rows->row_count; i++) {
		if (rows->unreadable & 1u << i) {
			engine_log(engine, LOG_ERR,
				   "resync: row %llu could not be proven: sectors of it can't be "
				   "read",
				   (unsigned long long)rows->first_row + (unsigned)i);
			resync->unreadable = true;
			resync->tried_until = rows->first_row + (uint64_t)i + 1;
			continue;
		}
		engine->counters.resync_corrected_rows += (rows->differed >> i) & 1;
		intent_prove(&engine->intent, rows->first_row + (uint64_t)i);
	}
	progress_add(&resync->progress, engine->now_ms, (uint64_t)rows->row_count);
}

/* --- what comes next --- */

static uint64_t
region_end(const struct engine *engine, uint32_t region)
{
	uint64_t end = ((uint64_t)region + 1) * engine->intent.region_rows;

	return end < engine->geometry.rows ? end : engine->geometry.rows;
}

/* First suspect row of the region that was not tried yet, or the region's end. */
static uint64_t
first_suspect_row(const struct resync *resync)
{
	const struct engine *engine = resync->rows.op.engine;
	const uint64_t end = region_end(engine, resync->region);
	uint64_t row = (uint64_t)resync->region * engine->intent.region_rows;

	if (row < resync->tried_until)
		row = resync->tried_until;
	while (row < end && !intent_row_suspect(&engine->intent, row))
		row++;
	return row;
}

/* Rows of the region can't be proven now, and all others are: the other regions first. */
static void
put_region_off(struct resync *resync)
{
	resync->tried_until = 0;
	resync->cursor = resync->written_cursor = resync->region + 1;
	if (resync->hint_count > 0 && resync->hints[resync->hint_head] == resync->region) {
		resync->hint_head = (resync->hint_head + 1) % HINTS;
		resync->hint_count--;
	}
}

static void
sync_next(struct resync *resync, uint64_t row)
{
	struct engine *engine = resync->rows.op.engine;
	const uint64_t end = region_end(engine, resync->region);
	const int most = sync_rows_max(engine);
	int count = 0;

	while (count < most && row + (uint64_t)count < end &&
	       intent_row_suspect(&engine->intent, row + (uint64_t)count))
		count++;
	throttle_spend(engine, (uint64_t)count * engine->geometry.chunk_bytes);
	sync_rows_begin(&resync->rows, SYNC_PARITY, row, count);
}

/* Next region: hinted ones first, then on from the cursor.  -1 if there is none now. */
static int64_t
next_region(struct resync *resync)
{
	struct engine *engine = resync->rows.op.engine;
	int64_t region;

	while (resync->hint_count > 0) {
		region = resync->hints[resync->hint_head];
		if (intent_next_suspect(&engine->intent, (uint32_t)region) == region)
			return region;
		resync->hint_head = (resync->hint_head + 1) % HINTS;
		resync->hint_count--;
	}
	if (engine->phase != PHASE_RUNNING)
		return -1;
	if (resync->doubts != engine->intent.doubts) {
		resync->doubts = engine->intent.doubts;
		resync->tried_until = 0;
		resync->written_left = true;
		resync->written_cursor = 0;
	}
	if (resync->written_left) {
		region = intent_next_written_suspect(&engine->intent, resync->written_cursor);
		if (region >= 0) {
			resync->written_cursor = (uint32_t)region;
			return region;
		}
		resync->written_left = false;
	}
	region = intent_next_suspect(&engine->intent, resync->cursor);
	if (region >= 0)
		return region;
	resync->cursor = 0;
	if (resync->unreadable) {
		resync->unreadable = false;
		resync->not_before_ms = engine->now_ms + UNREADABLE_MS;
		return -1;
	}
	return intent_next_suspect(&engine->intent, 0);
}

bool
resync_has_time(const struct engine *engine)
{
	return engine->phase == PHASE_DRAIN &&
	       engine->now_ms - engine->phase_since_ms < RESYNC_STOP_MS;
}

/* All that is suspect can be proven: nothing is missing, or it is what the others make of it. */
static bool
is_knowable(const struct engine *engine)
{
	return engine->missing == 0 || !engine_has_parity(engine) ||
	       engine->intent.suspect_count == engine->intent.defined_count;
}

static bool
may_resync(const struct engine *engine)
{
	return (engine->phase == PHASE_RUNNING || resync_has_time(engine)) &&
	       engine->geometry.redundancy > 0 && is_knowable(engine) && !evict_undecided(engine) &&
	       !engine->suspended && !engine->fenced && engine->options.resync_rows_max > 0 &&
	       engine->intent.suspect_count > 0;
}

void
resync_run(struct engine *engine)
{
	struct resync *resync = engine->work->resync;
	int64_t region;

	while (resync != NULL && !resync->rows.active && may_resync(engine) &&
	       engine->now_ms >= resync->not_before_ms && throttle_wait(engine) == 0 &&
	       (region = next_region(resync)) >= 0) {
		uint64_t row;

		if (region != resync->region)
			resync->tried_until = 0;
		resync->region = (uint32_t)region;
		row = first_suspect_row(resync);
		if (row < region_end(engine, resync->region) &&
		    (resync->tried_until == 0 || !MUTANT(REST_UNPROVEN))) {
			sync_next(resync, row);
			return;
		}
		if (resync->tried_until > 0) {
			put_region_off(resync);
			continue;
		}
		resync->done_rows += region_end(engine, resync->region) -
				     (uint64_t)resync->region * engine->intent.region_rows;
		intent_region_proven(&engine->intent, resync->region);
		engine->activity++;
		if (engine->intent.suspect_count == 0)
			engine_event(
				engine, EVENT_RESYNC_FINISHED, LOG_NOTICE, NULL,
				"resync finished: all parity is proven, %llu rows were corrected",
				(unsigned long long)engine->counters.resync_corrected_rows);
	}
}

void
resync_hint(struct engine *engine, uint64_t row)
{
	struct resync *resync = engine->work->resync;
	uint32_t region = intent_region(&engine->intent, row);

	for (uint32_t i = 0; i < resync->hint_count; i++)
		if (resync->hints[(resync->hint_head + i) % HINTS] == region)
			return;
	if (resync->hint_count == HINTS) { /* it is found with those written before */
		if (!resync->written_left || region < resync->written_cursor)
			resync->written_cursor = region;
		resync->written_left = true;
		return;
	}
	resync->hints[(resync->hint_head + resync->hint_count++) % HINTS] = region;
}

bool
resync_idle(const struct engine *engine)
{
	const struct resync *resync = engine->work->resync;

	return resync == NULL ||
	       (!resync->rows.active && (resync->hint_count == 0 || !may_resync(engine)));
}

uint64_t
resync_deadline(const struct engine *engine)
{
	const struct resync *resync = engine->work->resync;
	uint64_t wait;

	if (resync == NULL || resync->rows.active || !may_resync(engine))
		return UINT64_MAX;
	if (resync->not_before_ms > engine->now_ms)
		return resync->not_before_ms;
	wait = throttle_wait(engine);
	return wait > 0 ? engine->now_ms + wait : UINT64_MAX;
}

void
resync_status(const struct engine *engine, struct work_status *out)
{
	const struct resync *resync = engine->work->resync;
	uint64_t left = (uint64_t)engine->intent.suspect_count * engine->intent.region_rows;

	if (left > engine->geometry.rows)
		left = engine->geometry.rows;
	out->done_rows = resync->done_rows;
	out->total_rows = resync->done_rows + left;
	out->running = left > 0 && may_resync(engine);
	progress_status(&resync->progress, engine, out);
	if (left > 0 && !out->running)
		snprintf(out->reason, sizeof(out->reason), "waits until all members are in sync");
}

int
resync_init(struct engine *engine)
{
	if (engine->work->resync == NULL)
		engine->work->resync = calloc(1, sizeof(*engine->work->resync));
	if (engine->work->resync == NULL)
		return -ENOMEM;
	engine->work->resync->written_left = true;
	engine->work->resync->written_cursor = 0;
	sync_rows_init(&engine->work->resync->rows, engine, rows_synced);
	return 0;
}

void
resync_free(struct engine *engine)
{
	if (engine->work->resync != NULL)
		sync_rows_free(&engine->work->resync->rows);
	free(engine->work->resync);
	engine->work->resync = NULL;
}
