/* scrub.c - reads all rows and compares parity with data; corrects it when asked to.
 *
 * What was corrected is flushed before anything says so: its region is clean, so nobody would look
 * at it after a crash that takes a cache along, and a scrub that goes on would be behind it.
 *
 * Rows are claimed as a write claims them, so a row that is being written is never looked at.
 * Suspect rows are resync's business and are passed over.  Only with all members there.  Where it
 * stands is in the superblocks every CHECKPOINT_MS; the volume goes on with it after a restart.
 */
#include "progress.h"
#include "sync_rows.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define CHECKPOINT_MS 10000u
#define RETRY_MS 1000u

struct scrub {
	struct sync_rows rows; /* must be first */
	struct progress progress;
	struct flush_waiter flush;
	bool flushing;	       /* what the rows' repair wrote */
	uint32_t cache_losses; /* the engine's, when the rows were begun */
	bool running;
	uint64_t row; /* next */
	uint64_t checkpoint_ms;
	uint64_t not_before_ms;
	uint64_t unreadable_rows;
	uint64_t mismatch_rows[MISMATCH_POSITIONS];
};

/* blamed: the role that alone is wrong, or -1. */
static void
note_mismatch(struct scrub *scrub, uint64_t row, int blamed)
{
	struct engine *engine = scrub->rows.op.engine;
	const struct member *culprit = blamed >= 0 ? engine->by_role[blamed] : NULL;
	uint64_t count = engine->record.scrub_mismatches++;

	if (count >= MISMATCH_POSITIONS)
		return;
	scrub->mismatch_rows[count] = row;
	engine_event(engine, EVENT_SCRUB_MISMATCH, LOG_ERR, NULL,
		     "scrub: parity or copies of row %llu (volume bytes from %llu on) do not "
		     "match its data%s%s%s",
		     (unsigned long long)row,
		     (unsigned long long)(row * geometry_row_bytes(&engine->geometry)),
		     culprit != NULL ? ", the others agree against " : "",
		     culprit != NULL ? culprit->backend->label : "",
		     engine->record.scrub_mode == SCRUB_REPAIR ? "; corrected" : "");
}

static void
finish_scrub(struct scrub *scrub)
{
	struct engine *engine = scrub->rows.op.engine;

	scrub->running = false;
	scrub->row = 0;
	engine->record.scrub_row = 0;
	engine->record.scrub_running = false;
	metadata_commit(engine);
	engine_event(
		engine, EVENT_SCRUB_FINISHED,
		engine->record.scrub_mismatches > 0 ? LOG_ERR : LOG_NOTICE, NULL,
		"scrub finished: parity or copies of %llu rows did not match%s, %llu could not be "
		"read",
		(unsigned long long)engine->record.scrub_mismatches,
		engine->record.scrub_mode == SCRUB_REPAIR ? " and were corrected" : "",
		(unsigned long long)scrub->unreadable_rows);
}

static void
note_mismatches(struct scrub *scrub, uint32_t which)
{
	const struct sync_rows *rows = &scrub->rows;

	for (int i = 0; i < rows->row_count; i++)
		if (which & 1u << i)
			note_mismatch(scrub, rows->first_row + (uint64_t)i, rows->blamed[i]);
}

static void
advance(struct scrub *scrub)
{
	const struct sync_rows *rows = &scrub->rows;
	struct engine *engine = rows->op.engine;

	for (int i = 0; i < rows->row_count; i++)
		scrub->unreadable_rows += (rows->unreadable >> i) & 1;
	if (scrub->row != rows->first_row && !MUTANT(SCRUB_SKIPS))
		return; /* it was stopped, and begun anew */
	scrub->row = rows->first_row + (uint64_t)rows->row_count;
	engine->record.scrub_row = scrub->row;
	progress_add(&scrub->progress, engine->now_ms, (uint64_t)rows->row_count);
	if (engine->now_ms >= scrub->checkpoint_ms) {
		scrub->checkpoint_ms = engine->now_ms + CHECKPOINT_MS;
		metadata_commit(engine);
	}
}

/* If a cache may have taken the correction along, the rows are looked at again. */
static void
corrected_flushed(struct flush_waiter *waiter, int result)
{
	struct scrub *scrub = (struct scrub *)((char *)waiter - offsetof(struct scrub, flush));
	struct engine *engine = scrub->rows.op.engine;

	scrub->flushing = false;
	note_mismatches(scrub, scrub->rows.differed);
	if (result == 0 && engine->cache_losses == scrub->cache_losses)
		advance(scrub);
	else
		scrub->not_before_ms = engine->now_ms + RETRY_MS;
}

/* They were only compared, for a scrub that was stopped, and the one that was begun since corrects:
 * it looks at them itself.
 */
static bool
is_superseded(const struct scrub *scrub)
{
	return scrub->running && scrub->rows.purpose == SYNC_CHECK &&
	       scrub->rows.op.engine->record.scrub_mode == SCRUB_REPAIR &&
	       !MUTANT(COMPARED_AS_CORRECTED);
}

static void
rows_scrubbed(struct sync_rows *rows, int result)
{
	struct scrub *scrub = (struct scrub *)rows;
	struct engine *engine = rows->op.engine;

	if (result != 0) {
		/* They will be looked at again, and fit then. */
		if (rows->purpose == SYNC_PARITY && !MUTANT(CORRECTED_UNTOLD))
			note_mismatches(scrub, rows->corrected);
		scrub->not_before_ms = engine->now_ms + RETRY_MS;
		return;
	}
	if (is_superseded(scrub))
		return;
	if (rows->differed == 0 || rows->purpose != SYNC_PARITY || MUTANT(CORRECTION_UNFLUSHED)) {
		note_mismatches(scrub, rows->differed);
		advance(scrub);
		return;
	}
	scrub->flushing = true;
	scrub->flush.done = corrected_flushed;
	scrub->flush.told = false;
	list_init(&scrub->flush.node);
	flush_join(engine, &scrub->flush);
}

static bool
may_scrub(const struct engine *engine)
{
	return engine->work->scrub != NULL && engine->work->scrub->running && engine_calm(engine) &&
	       engine->missing == 0;
}

/* Of one region, which is marked before some of them are corrected: whether that is needed is asked
 * once for all of them (sync_rows.c), and a region in between that needed nothing would be taken
 * for written, should the gateway die.
 */
static int
batch_rows(const struct engine *engine, uint64_t row)
{
	const uint32_t region = intent_region(&engine->intent, row);
	const int most = sync_rows_max(engine);
	int count = 1;

	while (count < most && row + (uint64_t)count < engine->geometry.rows &&
	       (intent_region(&engine->intent, row + (uint64_t)count) == region ||
		MUTANT(SCRUB_ACROSS_REGIONS)) &&
	       !intent_row_suspect(&engine->intent, row + (uint64_t)count))
		count++;
	return count;
}

void
scrub_run(struct engine *engine)
{
	struct scrub *scrub = engine->work->scrub;
	int count;

	if (!may_scrub(engine) || scrub->rows.active || scrub->flushing ||
	    engine->now_ms < scrub->not_before_ms || throttle_wait(engine) > 0)
		return;
	while (scrub->row < engine->geometry.rows &&
	       intent_row_suspect(&engine->intent, scrub->row))
		scrub->row++;
	if (scrub->row >= engine->geometry.rows) {
		finish_scrub(scrub);
		return;
	}
	count = batch_rows(engine, scrub->row);
	throttle_spend(engine, (uint64_t)count * engine->geometry.chunk_bytes);
	scrub->cache_losses = engine->cache_losses;
	sync_rows_begin(&scrub->rows,
			engine->record.scrub_mode == SCRUB_REPAIR ? SYNC_PARITY : SYNC_CHECK,
			scrub->row, count);
}

uint64_t
scrub_deadline(const struct engine *engine)
{
	uint64_t wait;

	if (!may_scrub(engine) || engine->work->scrub->rows.active || engine->work->scrub->flushing)
		return UINT64_MAX;
	if (engine->work->scrub->not_before_ms > engine->now_ms)
		return engine->work->scrub->not_before_ms;
	wait = throttle_wait(engine);
	return wait > 0 ? engine->now_ms + wait : UINT64_MAX;
}

bool
scrub_idle(const struct engine *engine)
{
	return engine->work->scrub == NULL ||
	       (!engine->work->scrub->rows.active && !engine->work->scrub->flushing);
}

void
scrub_assembled(struct engine *engine)
{
	struct scrub *scrub = engine->work->scrub;

	if (engine->geometry.redundancy == 0 || !engine->record.scrub_running)
		return;
	scrub->running = true;
	scrub->row = engine->record.scrub_row;
	engine_event(engine, EVENT_SCRUB_STARTED, LOG_NOTICE, NULL, "scrub goes on from row %llu",
		     (unsigned long long)scrub->row);
}

/* --- for an administrator --- */

static int
refuse_scrub(char *why, int error, const char *text)
{
	snprintf(why, 256, "%s", text);
	return error;
}

int
scrub_start(struct engine *engine, enum scrub_mode mode, bool resume, char *why)
{
	struct scrub *scrub = engine->work->scrub;

	if (engine->phase != PHASE_RUNNING || engine->fenced)
		return refuse_scrub(why, -EAGAIN, "the volume is not running");
	if (engine->geometry.redundancy == 0)
		return refuse_scrub(why, -EOPNOTSUPP, "level 0 has no redundancy to check");
	if (scrub->running)
		return refuse_scrub(why, -EBUSY, "a scrub is running already; stop it first");
	if (mode != SCRUB_CHECK && mode != SCRUB_REPAIR)
		return refuse_scrub(why, -EINVAL, "a scrub checks or repairs");
	scrub->running = true;
	if (!resume) {
		scrub->row = 0;
		scrub->unreadable_rows = 0;
		engine->record.scrub_mismatches = 0;
		memset(scrub->mismatch_rows, 0, sizeof(scrub->mismatch_rows));
	} else {
		scrub->row = engine->record.scrub_row;
	}
	scrub->progress = (struct progress){ 0 };
	scrub->checkpoint_ms = engine->now_ms + CHECKPOINT_MS;
	engine->record.scrub_mode = mode;
	engine->record.scrub_row = scrub->row;
	engine->record.scrub_running = true;
	metadata_commit(engine);
	engine_event(engine, EVENT_SCRUB_STARTED, LOG_NOTICE, NULL,
		     "scrub started (%s), from row %llu", mode == SCRUB_REPAIR ? "repair" : "check",
		     (unsigned long long)scrub->row);
	return 0;
}

int
scrub_stop(struct engine *engine, char *why)
{
	struct scrub *scrub = engine->work->scrub;

	if (scrub == NULL || !scrub->running)
		return refuse_scrub(why, -EALREADY, "no scrub is running");
	scrub->running = false;
	engine->record.scrub_row = scrub->row;
	engine->record.scrub_running = false;
	metadata_commit(engine);
	engine_event(engine, EVENT_SCRUB_STOPPED, LOG_NOTICE, NULL, "scrub stopped at row %llu",
		     (unsigned long long)scrub->row);
	return 0;
}

void
scrub_status(const struct engine *engine, struct work_status *out, struct scrub_found *found)
{
	const struct scrub *scrub = engine->work->scrub;

	found->mode = engine->record.scrub_mode;
	found->mismatches = engine->record.scrub_mismatches;
	found->active = scrub->running;
	memcpy(found->mismatch_rows, scrub->mismatch_rows, sizeof(found->mismatch_rows));
	out->running = may_scrub(engine);
	out->total_rows = engine->geometry.rows;
	out->done_rows = scrub->running ? scrub->row : engine->record.scrub_row;
	progress_status(&scrub->progress, engine, out);
	if (scrub->running && !out->running)
		snprintf(out->reason, sizeof(out->reason), "waits until all members are in sync");
}

int
scrub_init(struct engine *engine)
{
	if (engine->work->scrub == NULL)
		engine->work->scrub = calloc(1, sizeof(*engine->work->scrub));
	if (engine->work->scrub == NULL)
		return -ENOMEM;
	sync_rows_init(&engine->work->scrub->rows, engine, rows_scrubbed);
	return 0;
}

void
scrub_free(struct engine *engine)
{
	if (engine->work->scrub != NULL)
		sync_rows_free(&engine->work->scrub->rows);
	free(engine->work->scrub);
	engine->work->scrub = NULL;
}
