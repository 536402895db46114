/* resync.c - proves suspect parity in the background (DESIGN rule 1).
 *
 * A few rows at a time are claimed as a write claims them, read from all members, and the parity that
 * differs is rewritten.  A region whose rows are all proven is suspect no longer; the cleaner
 * (intent_io.c) clears its dirty mark after a flush.
 *
 * Regions that were just written come first: their data is new, and has no proven parity beyond the
 * rows it touched until then.  Only with all members there: without one there is nothing to prove with.
 */
#include "gather.h"

#include "../pure/parity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define BATCH_ROWS_MAX 16
#define BATCH_BYTES_MAX (8u << 20)
#define GIVE_WAY_MS 10u		/* between batches while requests are active */
#define UNREADABLE_MS 60000u	/* before regions with unreadable rows are tried again */
#define HINTS 64u

struct resync {
	struct op op;
	bool active;
	uint64_t first_row;
	int row_count;
	int pending;
	int error;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct row_claim claims[BATCH_ROWS_MAX];
	uint32_t cursor;	/* region to look at next */
	uint32_t region;	/* of the batch */
	bool unreadable;	/* something in this pass could not be read */
	uint64_t not_before_ms;
	uint32_t hints[HINTS];	/* regions written while suspect, a ring */
	uint32_t hint_head, hint_count;
};

static struct resync *
resync_of(struct op *op)
{
	return (struct resync *)op;
}

/* Buffer of the rows' chunks on `role`. */
static uint8_t *
role_buffer(const struct resync *resync, int role)
{
	const struct geometry *geometry = &resync->op.engine->geometry;

	return resync->buffer + (size_t)role * (size_t)resync->row_count * geometry->chunk_bytes;
}

static void
batch_end(struct resync *resync)
{
	struct engine *engine = resync->op.engine;

	if (resync->buffer != NULL)
		arena_release(&engine->arena, resync->buffer, resync->buffer_bytes);
	resync->buffer = NULL;
	for (int i = 0; i < resync->row_count; i++)
		row_release(engine->rows, &resync->claims[i]);
	resync->active = false;
	if (engine->requests_active > 0)
		resync->not_before_ms = engine->now_ms + GIVE_WAY_MS;
	op_gone(engine);
}

static void
batch_fail(struct op *op, int error)
{
	struct resync *resync = resync_of(op);

	if (error == -ENODATA || error == -EIO) {
		engine_log(op->engine, LOG_ERR, "resync: rows %llu to %llu could not be proven: %s",
			   (unsigned long long)resync->first_row,
			   (unsigned long long)(resync->first_row + (uint64_t)resync->row_count - 1),
			   strerror(-error));
		resync->unreadable = true;
		resync->cursor = resync->region + 1;
	}
	batch_end(resync);
}

static void
parity_written(struct member_io *mio, int result)
{
	struct resync *resync = mio->owner;
	struct engine *engine = resync->op.engine;

	if (result != 0)
		resync->error = result;
	if (--resync->pending > 0)
		return;
	if (resync->error != 0) {
		batch_fail(&resync->op, resync->error);
		return;
	}
	for (int i = 0; i < resync->row_count; i++)
		intent_prove(&engine->intent, resync->first_row + (uint64_t)i);
	batch_end(resync);
}

/* Make the row's parity from its data, behind all buffers; true if it differs from what was read. */
static bool
row_differs(struct resync *resync, int index)
{
	struct engine *engine = resync->op.engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	const uint64_t row = resync->first_row + (uint64_t)index;
	const size_t at = (size_t)index * chunk_bytes;
	const int parity = geometry_parity_member(&engine->geometry, row);
	uint8_t *computed = role_buffer(resync, engine->geometry.members);
	const void *sources[IRAID_MEMBERS_MAX];
	int count = 0;

	for (int role = 0; role < engine->geometry.members; role++)
		if (role != parity)
			sources[count++] = role_buffer(resync, role) + at;
	parity_xor(computed, sources, count, chunk_bytes);
	if (memcmp(computed, role_buffer(resync, parity) + at, chunk_bytes) == 0)
		return false;
	memcpy(role_buffer(resync, parity) + at, computed, chunk_bytes);
	return true;
}

static void
compare(struct resync *resync)
{
	struct engine *engine = resync->op.engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	struct gather gather = { .engine = engine, .op = BACKEND_WRITE, .done = parity_written,
				 .owner = resync, .pending = &resync->pending };

	resync->pending = 1;	/* this function */
	for (int i = 0; i < resync->row_count; i++) {
		uint64_t row = resync->first_row + (uint64_t)i;
		int parity = geometry_parity_member(&engine->geometry, row);

		if (!row_differs(resync, i))
			continue;
		engine->counters.resync_corrected_rows++;
		gather_add_buffer(&gather, parity, row * chunk_bytes,
				  role_buffer(resync, parity) + (size_t)i * chunk_bytes, chunk_bytes);
	}
	gather_submit(&gather);
	if (--resync->pending > 0)
		return;
	for (int i = 0; i < resync->row_count; i++)
		intent_prove(&engine->intent, resync->first_row + (uint64_t)i);
	batch_end(resync);
}

static void
row_read(struct member_io *mio, int result)
{
	struct resync *resync = mio->owner;

	if (result != 0)
		resync->error = result;
	if (--resync->pending > 0)
		return;
	if (resync->error != 0)
		batch_fail(&resync->op, resync->error);
	else
		compare(resync);
}

static void
batch_start(struct op *op)
{
	struct resync *resync = resync_of(op);
	struct engine *engine = op->engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	struct gather gather = { .engine = engine, .op = BACKEND_READ, .done = row_read,
				 .owner = resync, .pending = &resync->pending };

	if (engine->missing >= 0) {
		batch_fail(op, -ENOLINK);
		return;
	}
	resync->buffer_bytes = ((size_t)engine->geometry.members * (size_t)resync->row_count + 1) *
			       chunk_bytes;
	resync->buffer = arena_take(&engine->arena, resync->buffer_bytes);
	if (resync->buffer == NULL) {
		op_wait_for_buffer(op);
		return;
	}
	resync->error = 0;
	resync->pending = 0;
	for (int role = 0; role < engine->geometry.members; role++)
		gather_add_buffer(&gather, role, resync->first_row * chunk_bytes,
				  role_buffer(resync, role), (uint32_t)resync->row_count * chunk_bytes);
	gather_submit(&gather);
}

/* --- what comes next --- */

/* First suspect row of the region, or the region's end. */
static uint64_t
first_suspect_row(const struct engine *engine, uint32_t region)
{
	uint64_t row = (uint64_t)region * engine->intent.region_rows;
	uint64_t end = row + engine->intent.region_rows;

	if (end > engine->geometry.rows)
		end = engine->geometry.rows;
	while (row < end && !intent_row_suspect(&engine->intent, row))
		row++;
	return row;
}

static uint64_t
region_end(const struct engine *engine, uint32_t region)
{
	uint64_t end = ((uint64_t)region + 1) * engine->intent.region_rows;

	return end < engine->geometry.rows ? end : engine->geometry.rows;
}

static int
batch_rows_max(const struct engine *engine)
{
	uint32_t row_bytes = engine->geometry.members * engine->geometry.chunk_bytes;
	uint32_t rows = BATCH_BYTES_MAX / row_bytes;

	if (rows > engine->options.resync_rows_max)
		rows = engine->options.resync_rows_max;
	if (rows > BATCH_ROWS_MAX)
		rows = BATCH_ROWS_MAX;
	return rows > 0 ? (int)rows : 1;
}

static void
claim_batch(struct resync *resync, uint64_t row)
{
	struct engine *engine = resync->op.engine;
	const uint64_t end = region_end(engine, resync->region);
	const int rows_max = batch_rows_max(engine);

	resync->active = true;
	resync->first_row = row;
	resync->row_count = 0;
	resync->op.holder.waiting = 0;
	engine->ops++;
	while (resync->row_count < rows_max && row < end && intent_row_suspect(&engine->intent, row)) {
		struct row_claim *claim = &resync->claims[resync->row_count++];

		*claim = (struct row_claim){
			.holder = &resync->op.holder,
			.kind = CLAIM_WRITE,
			.end_bytes = geometry_row_bytes(&engine->geometry),
		};
		list_init(&claim->in_row);
		if (row_claim(engine->rows, row++, claim) != 0)
			abort();
	}
	if (resync->op.holder.waiting == 0)
		op_ready(&resync->op);
}

/* Next region: hinted ones first, then on from the cursor.  -1 if there is none now. */
static int64_t
next_region(struct resync *resync)
{
	struct engine *engine = resync->op.engine;
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

static bool
may_run(const struct engine *engine)
{
	return (engine->phase == PHASE_RUNNING || engine->phase == PHASE_DRAIN) &&
	       engine->geometry.parities > 0 && engine->missing < 0 && engine->evicting == 0 &&
	       !engine->suspended && !engine->fenced && engine->options.resync_rows_max > 0 &&
	       engine->intent.suspect_count > 0;
}

void
resync_run(struct engine *engine)
{
	struct resync *resync = engine->resync;
	int64_t region;

	while (resync != NULL && !resync->active && may_run(engine) &&
	       engine->now_ms >= resync->not_before_ms && (region = next_region(resync)) >= 0) {
		uint64_t row = first_suspect_row(engine, (uint32_t)region);

		resync->region = (uint32_t)region;
		if (row < region_end(engine, resync->region)) {
			claim_batch(resync, row);
			return;
		}
		engine->counters.resync_done_rows +=
			region_end(engine, resync->region) -
			(uint64_t)resync->region * engine->intent.region_rows;
		intent_region_proven(&engine->intent, resync->region);
	}
}

void
resync_hint(struct engine *engine, uint64_t row)
{
	struct resync *resync = engine->resync;
	uint32_t region = intent_region(&engine->intent, row);

	for (uint32_t i = 0; i < resync->hint_count; i++)
		if (resync->hints[(resync->hint_head + i) % HINTS] == region)
			return;
	if (resync->hint_count == HINTS)
		return;	/* it is found in its turn */
	resync->hints[(resync->hint_head + resync->hint_count++) % HINTS] = region;
}

bool
resync_idle(const struct engine *engine)
{
	const struct resync *resync = engine->resync;

	return resync == NULL ||
	       (!resync->active && (resync->hint_count == 0 || !may_run(engine)));
}

uint64_t
resync_deadline(const struct engine *engine)
{
	const struct resync *resync = engine->resync;

	if (resync == NULL || resync->active || !may_run(engine) ||
	    resync->not_before_ms <= engine->now_ms)
		return UINT64_MAX;
	return resync->not_before_ms;
}

int
resync_init(struct engine *engine)
{
	if (engine->resync == NULL)
		engine->resync = calloc(1, sizeof(*engine->resync));
	if (engine->resync == NULL)
		return -ENOMEM;
	engine->resync->op = (struct op){
		.holder = { .granted = op_granted },
		.engine = engine,
		.start = batch_start,
		.fail = batch_fail,
	};
	list_init(&engine->resync->op.node);
	return 0;
}

void
resync_free(struct engine *engine)
{
	free(engine->resync);
	engine->resync = NULL;
}
