/* sync_rows.c - see sync_rows.h. */
#include "sync_rows.h"

#include "gather.h"

#include "../pure/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES_MAX (8u << 20)

/* --- memory --- */

uint8_t *
sync_rows_chunk(const struct sync_rows *rows, int role, int index)
{
	const struct geometry *geometry = &rows->op.engine->geometry;

	return rows->buffer + ((size_t)role * (size_t)rows->row_count + (size_t)index) *
				      geometry->chunk_bytes;
}

uint8_t *
sync_rows_spare(const struct sync_rows *rows, int which)
{
	const struct geometry *geometry = &rows->op.engine->geometry;

	return rows->buffer + ((size_t)geometry->members * (size_t)rows->row_count + (size_t)which) *
				      geometry->chunk_bytes;
}

int
sync_rows_max(const struct engine *engine)
{
	uint32_t row_bytes = engine->geometry.members * engine->geometry.chunk_bytes;
	uint32_t rows = BATCH_BYTES_MAX / row_bytes;

	if (rows > engine->options.resync_rows_max)
		rows = engine->options.resync_rows_max;
	if (rows > SYNC_ROWS_MAX)
		rows = SYNC_ROWS_MAX;
	return rows > 0 ? (int)rows : 1;
}

/* --- end --- */

void
sync_rows_end(struct sync_rows *rows, int result)
{
	struct engine *engine = rows->op.engine;

	intent_io_drop(engine, &rows->mend.marks);
	if (rows->buffer != NULL)
		arena_release(&engine->arena, rows->buffer, rows->buffer_bytes);
	rows->buffer = NULL;
	for (int i = 0; i < rows->row_count; i++)
		row_release(engine->rows, &rows->claims[i]);
	rows->active = false;
	op_gone(engine);
	if (result == 0 && rows->doubts != engine->intent.doubts && !MUTANT(DOUBT_IGNORED))
		result = -ENOLINK;
	rows->done(rows, result);
}

static void
batch_fail(struct op *op, int error)
{
	sync_rows_end((struct sync_rows *)op, error);
}

/* --- writing --- */

static void
batch_written(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	if (result != 0 && rows->error != -ENOLINK)
		rows->error = result;
	if (--rows->pending == 0)
		sync_rows_end(rows, rows->error);
}

bool
sync_rows_differ(struct sync_rows *rows, int index)
{
	struct engine *engine = rows->op.engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	const int parity = geometry_parity_member(&engine->geometry, rows->first_row + (uint64_t)index);
	uint8_t *computed = sync_rows_spare(rows, 0);
	const void *sources[IRAID_MEMBERS_MAX];
	int count = 0;

	for (int role = 0; role < engine->geometry.members; role++)
		if (role != parity)
			sources[count++] = sync_rows_chunk(rows, role, index);
	parity_xor(computed, sources, count, chunk_bytes);
	if (memcmp(computed, sync_rows_chunk(rows, parity, index), chunk_bytes) == 0)
		return false;
	memcpy(sync_rows_chunk(rows, parity, index), computed, chunk_bytes);
	return true;
}

static void
correct_parity(struct sync_rows *rows, struct gather *gather)
{
	struct engine *engine = rows->op.engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	struct member *writers[2];

	for (int i = 0; i < rows->row_count; i++) {
		uint64_t row = rows->first_row + (uint64_t)i;
		int parity = geometry_parity_member(&engine->geometry, row);
		int count;

		if (!sync_rows_differ(rows, i))
			continue;
		rows->differed |= 1u << i;
		if (rows->purpose != SYNC_PARITY)
			continue;
		count = engine_writers(engine, row, parity, writers);
		for (int w = 0; w < count; w++)
			gather_add_buffer(gather, writers[w], row * chunk_bytes,
					  sync_rows_chunk(rows, parity, i), chunk_bytes);
	}
}

static void
fill_target(struct sync_rows *rows, struct gather *gather)
{
	struct engine *engine = rows->op.engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	const int role = engine->target->role;
	const void *sources[IRAID_MEMBERS_MAX];

	for (int i = 0; i < rows->row_count; i++) {
		int count = 0;

		for (int other = 0; other < engine->geometry.members; other++)
			if (other != role)
				sources[count++] = sync_rows_chunk(rows, other, i);
		if (engine->by_role[role] == NULL)
			parity_xor(sync_rows_chunk(rows, role, i), sources, count, chunk_bytes);
		gather_add_buffer(gather, engine->target,
				  (rows->first_row + (uint64_t)i) * chunk_bytes,
				  sync_rows_chunk(rows, role, i), chunk_bytes);
	}
}

static void
batch_write(struct sync_rows *rows)
{
	struct gather gather = { .engine = rows->op.engine, .op = BACKEND_WRITE,
				 .done = batch_written, .owner = rows, .pending = &rows->pending };

	rows->pending = 1;	/* this function */
	if (rows->purpose == SYNC_FILL)
		fill_target(rows, &gather);
	else
		correct_parity(rows, &gather);
	gather_submit(&gather);
	if (--rows->pending == 0)
		sync_rows_end(rows, rows->error);
}

/* --- reading --- */

static bool
may_go_on(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	if (rows->doubts != engine->intent.doubts && !MUTANT(DOUBT_IGNORED))
		return false;	/* what was read may not stand there any more */
	if (rows->purpose == SYNC_FILL)
		return target_filling(engine) &&
		       (engine->missing < 0 || engine->missing == engine->target->role ||
			engine->by_role[engine->target->role] != NULL);
	if (rows->purpose == SYNC_MEND)
		return true;
	return engine->missing < 0;
}

static void
batch_read_done(struct sync_rows *rows)
{
	rows->op.engine->activity++;
	if (rows->error == -ENODATA || rows->error == -EIO) {
		rows->error = 0;
		mend_rows(rows, 0);
	} else if (rows->error == 0 && !may_go_on(rows)) {
		sync_rows_end(rows, -ENOLINK);
	} else if (rows->error != 0) {
		sync_rows_end(rows, rows->error);
	} else {
		batch_write(rows);
	}
}

static void
batch_read(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	/* Who is there outranks what can't be read. */
	if (result != 0 && (rows->error == 0 || rows->error == -ENODATA || rows->error == -EIO))
		rows->error = result;
	if (--rows->pending == 0)
		batch_read_done(rows);
}

/* Does the target hold what nobody else does, in one of the rows?  Then they are mended one by one. */
static bool
target_holds_truth(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	if (rows->purpose != SYNC_FILL || engine->lost->count == 0)
		return false;
	for (int i = 0; i < rows->row_count; i++)
		if (lost_overlaps(engine->lost, rows->first_row + (uint64_t)i,
				  (uint8_t)engine->target->role, 0, engine->geometry.chunk_bytes))
			return true;
	return false;
}

static void
batch_start(struct op *op)
{
	struct sync_rows *rows = (struct sync_rows *)op;
	struct engine *engine = op->engine;
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	struct gather gather = { .engine = engine, .op = BACKEND_READ, .done = batch_read,
				 .owner = rows, .pending = &rows->pending };

	if (!may_go_on(rows)) {
		batch_fail(op, -ENOLINK);
		return;
	}
	rows->buffer_bytes = ((size_t)engine->geometry.members * (size_t)rows->row_count + 2) *
			     chunk_bytes;
	rows->buffer = arena_take(&engine->arena, rows->buffer_bytes);
	if (rows->buffer == NULL) {
		op_wait_for_buffer(op);
		return;
	}
	rows->error = 0;
	rows->differed = 0;
	rows->unreadable = 0;
	if (rows->purpose == SYNC_MEND || target_holds_truth(rows)) {
		mend_rows(rows, 0);
		return;
	}
	rows->pending = 1;	/* this function */
	for (int role = 0; role < engine->geometry.members; role++) {
		struct member *holder = engine->by_role[role];

		if (rows->purpose == SYNC_FILL && role != engine->target->role &&
		    engine->by_role[engine->target->role] != NULL)
			continue;	/* copied from the member it replaces */
		if (holder != NULL)
			gather_add_buffer(&gather, holder, rows->first_row * chunk_bytes,
					  sync_rows_chunk(rows, role, 0),
					  (uint32_t)rows->row_count * chunk_bytes);
	}
	gather_submit(&gather);
	if (--rows->pending == 0)
		batch_read_done(rows);
}

/* --- beginning --- */

void
sync_rows_begin(struct sync_rows *rows, enum sync_purpose purpose, uint64_t first_row, int count)
{
	struct engine *engine = rows->op.engine;

	assert(!rows->active && count > 0 && count <= SYNC_ROWS_MAX);
	rows->active = true;
	rows->doubts = engine->intent.doubts;
	rows->purpose = purpose;
	rows->first_row = first_row;
	rows->row_count = count;
	rows->op.holder.waiting = 0;
	engine->ops++;
	for (int i = 0; i < count; i++) {
		rows->claims[i] = (struct row_claim){
			.holder = &rows->op.holder,
			.kind = CLAIM_WRITE,
			.end_bytes = geometry_row_bytes(&engine->geometry),
		};
		list_init(&rows->claims[i].in_row);
		if (row_claim(engine->rows, first_row + (uint64_t)i, &rows->claims[i]) != 0)
			abort();
	}
	if (rows->op.holder.waiting == 0)
		op_ready(&rows->op);
}

void
sync_rows_init(struct sync_rows *rows, struct engine *engine,
	       void (*done)(struct sync_rows *rows, int result))
{
	rows->op = (struct op){
		.holder = { .granted = op_granted },
		.engine = engine,
		.start = batch_start,
		.fail = batch_fail,
	};
	list_init(&rows->op.node);
	rows->done = done;
}
