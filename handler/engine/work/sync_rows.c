/* sync_rows.c - see sync_rows.h. */
#include "sync_rows.h"
#include "engine/link/gather.h"
#include "engine/link/link.h"
#include "pure/code.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <syslog.h>

#define BATCH_BYTES_MAX (8u << 20)

/* --- memory --- */

uint8_t *
sync_rows_chunk(const struct sync_rows *rows, int position, int index)
{
	const struct geometry *geometry = &rows->op.engine->geometry;

	return rows->buffer +
	       ((size_t)position * (size_t)rows->row_count + (size_t)index) * geometry->chunk_bytes;
}

uint8_t *
sync_rows_spare(const struct sync_rows *rows, int which)
{
	const struct geometry *geometry = &rows->op.engine->geometry;

	return rows->buffer + ((size_t)geometry->width * (size_t)rows->row_count + (size_t)which) *
				      geometry->chunk_bytes;
}

void
sync_rows_chunks(const struct sync_rows *rows, int index, size_t offset,
		 void *chunks[IRAID_MEMBERS_MAX])
{
	for (int position = 0; position < rows->op.engine->geometry.width; position++)
		chunks[position] = sync_rows_chunk(rows, position, index) + offset;
}

int
sync_rows_max(const struct engine *engine)
{
	uint32_t row_bytes = engine->geometry.width * engine->geometry.chunk_bytes;
	uint32_t rows = BATCH_BYTES_MAX / row_bytes;

	if (rows > engine->options.resync_rows_max)
		rows = engine->options.resync_rows_max;
	if (rows > SYNC_ROWS_MAX)
		rows = SYNC_ROWS_MAX;
	return rows > 0 ? (int)rows : 1;
}

/* --- end --- */

bool
sync_rows_awaited(const struct sync_rows *rows)
{
	for (int i = 0; i < rows->row_count; i++)
		if (row_tail(rows->op.engine->rows, rows->first_row + (uint64_t)i) !=
		    &rows->claims[i])
			return true;
	return false;
}

void
sync_rows_shorten(struct sync_rows *rows, int count)
{
	while (rows->row_count > count)
		row_release(rows->op.engine->rows, &rows->claims[--rows->row_count]);
}

void
sync_rows_keep(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	if (rows->keeps || rows->purpose != SYNC_PARITY || MUTANT(PARITY_UNKEPT))
		return;
	intent_keep(&engine->intent, intent_region(&engine->intent, rows->first_row));
	rows->keeps = true;
}

void
sync_rows_end(struct sync_rows *rows, int result)
{
	struct engine *engine = rows->op.engine;

	mend_unlog(rows, result);
	marks_drop(engine, &rows->mend.marks);
	marks_wrote(&rows->note);
	if (rows->keeps)
		intent_end(&engine->intent, intent_region(&engine->intent, rows->first_row));
	rows->keeps = false;
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

static int may_go_on(const struct sync_rows *rows);

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
	if (--rows->pending > 0)
		return;
	if (rows->error == 0)
		rows->corrected |= rows->differed;
	sync_rows_end(rows, rows->error);
}

/* Level 6, and level 1 with three copies, can tell who is wrong, if redundancy was right before. */
static uint32_t
blame(struct sync_rows *rows, int index, void *const chunks[IRAID_MEMBERS_MAX])
{
	const struct engine *engine = rows->op.engine;
	uint64_t row = rows->first_row + (uint64_t)index;
	int position;

	if ((intent_row_suspect(&engine->intent, row) && !MUTANT(BLAME_UNPROVEN)) ||
	    engine_absent(engine, row) != 0 || MUTANT(BLAME_NEVER))
		return 0;
	position = code_blame(&engine->geometry, chunks, sync_rows_spare(rows, 0),
			      engine->geometry.chunk_bytes);
	if (position < 0)
		return 0;
	rows->blamed[index] = (int8_t)geometry_role(&engine->geometry, row, (uint8_t)position);
	if (position >= engine->geometry.data_chunks)
		return 0; /* what code_check() corrects by itself */
	code_make(&engine->geometry, ROLE(position), ROLE(position), chunks,
		  engine->geometry.chunk_bytes);
	return ROLE(position);
}

uint32_t
sync_rows_differ(struct sync_rows *rows, int index)
{
	const struct engine *engine = rows->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint32_t data = geometry_data_positions(geometry);
	uint32_t absent = engine_absent(engine, rows->first_row + (uint64_t)index);
	void *chunks[IRAID_MEMBERS_MAX];
	uint32_t wrong = 0;

	sync_rows_chunks(rows, index, 0, chunks);
	if (absent & data) /* what is missing is what the others make of it */
		code_make(geometry, absent & data, absent, chunks, geometry->chunk_bytes);
	rows->blamed[index] = -1;
	wrong = blame(rows, index, chunks);
	return wrong | code_check(geometry, absent & ~data, chunks, sync_rows_spare(rows, 0),
				  geometry->chunk_bytes);
}

/* Writers of a position are the member that has the place, and the target beside it.  A row is
 * judged by what the member's chunk reads as now; what the target got of it when it was copied may
 * be something else, if the member returns what nobody wrote.  So the target gets the chunk of a
 * row that is corrected, also where the chunk itself is not called wrong.
 */
int
sync_rows_first_writer(bool wrong, int writers)
{
	return wrong ? 0 : MUTANT(TWIN_UNCORRECTED) ? writers : 1;
}

static void
correct_row(struct sync_rows *rows, struct gather *gather, int index)
{
	struct engine *engine = rows->op.engine;
	const uint64_t row = rows->first_row + (uint64_t)index;

	for (int position = 0; position < engine->geometry.width; position++) {
		uint8_t role = geometry_role(&engine->geometry, row, (uint8_t)position);
		struct member *writers[2];
		const int count = engine_writers(engine, row, role, writers);

		for (int w = sync_rows_first_writer(rows->wrong[index] & ROLE(position), count);
		     w < count; w++)
			gather_add_buffer(gather, writers[w],
					  geometry_offset(&engine->geometry, row, role),
					  sync_rows_chunk(rows, position, index),
					  engine->geometry.chunk_bytes);
	}
}

/* Bits of rows that were written once: nobody wrote fresh ones, which are in doubt as a whole when
 * a cache is lost, but hold nothing to lose.
 */
static uint32_t
not_fresh(const struct sync_rows *rows, uint32_t among)
{
	uint32_t found = 0;

	for (int i = 0; i < rows->row_count; i++)
		if (!intent_row_fresh(&rows->op.engine->intent, rows->first_row + (uint64_t)i))
			found |= among & 1u << i;
	return found;
}

static void
correct_rows(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	struct gather gather = { .engine = engine,
				 .op = BACKEND_WRITE,
				 .done = batch_written,
				 .owner = rows,
				 .pending = &rows->pending };
	const uint32_t noted = not_fresh(rows, rows->differed & ~rows->marked);

	rows->pending = 1; /* this function */
	for (int i = 0; i < rows->row_count; i++)
		if (rows->differed & 1u << i)
			correct_row(rows, &gather, i);
	marks_begins(engine, &rows->mend.marks);
	sync_rows_keep(rows);
	if (noted != 0 && !MUTANT(RESYNC_UNNOTED))
		marks_writes(engine, &rows->note, rows->first_row, noted);
	if (gather_submit(&gather) != 0)
		rows->error = -ENOMEM;
	if (--rows->pending == 0)
		sync_rows_end(rows, rows->error);
}

static void
batch_marked(struct region_hold *hold, int error)
{
	struct mend *mend = list_entry(hold, struct mend, marks);
	struct sync_rows *rows = list_entry(mend, struct sync_rows, mend);

	rows->op.engine->activity++;
	if (error == 0)
		error = may_go_on(rows);
	if (error != 0)
		sync_rows_end(rows, error);
	else
		correct_rows(rows);
}

/* Of those that differ: a write for which the batch had to wait may have proven some of a region
 * that is suspect.
 */
static uint32_t
proven_rows(const struct sync_rows *rows)
{
	const struct intent *intent = &rows->op.engine->intent;
	uint32_t proven = 0;

	if (MUTANT(MARKED_BY_FIRST))
		return intent_row_suspect(intent, rows->first_row) ? 0 : rows->differed;
	for (int i = 0; i < rows->row_count; i++)
		if (!intent_row_suspect(intent, rows->first_row + (uint64_t)i))
			proven |= rows->differed & 1u << i;
	return proven;
}

/* Regions of suspect rows are dirty since they became so.  Those of other rows may be clean: a
 * member that goes now, or who is being filled, would not get again what only its cache took; so
 * they are marked, as for any write.
 */
static bool
is_marked(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	struct region_hold *marks = &rows->mend.marks;

	rows->marked = MUTANT(CORRECTION_UNMARKED) ? 0 : proven_rows(rows);
	if (rows->marked == 0)
		return true;
	for (int i = 0; i < rows->row_count; i++)
		if (rows->marked & 1u << i)
			engine_log(engine, LOG_DEBUG, "row %llu is mended: it did not fit",
				   (unsigned long long)rows->first_row + (unsigned)i);
	engine->write_log->writers++; /* the log is not opened beside it */
	rows->counts = true;
	marks->ready = batch_marked;
	marks->since_ms = 0;
	list_init(&marks->node);
	if (marks_hold_some(engine, marks, rows->first_row, rows->marked))
		return true;
	marks_wait(engine, marks);
	return false;
}

static void
compare_rows(struct sync_rows *rows)
{
	for (int i = 0; i < rows->row_count; i++) {
		rows->wrong[i] = sync_rows_differ(rows, i);
		rows->differed |= (uint32_t)(rows->wrong[i] != 0) << i;
	}
	if (rows->differed == 0 || rows->purpose != SYNC_PARITY)
		sync_rows_end(rows, 0);
	else if (proven_rows(rows) != 0 && write_log_holds(rows->op.engine))
		sync_rows_end(rows, -ENOLINK);
	else if (proven_rows(rows) != 0 && write_log_on(rows->op.engine) &&
		 !MUTANT(CORRECTION_UNLOGGED))
		mend_rows(rows, 0); /* which logs what it writes */
	else if (is_marked(rows))
		correct_rows(rows);
}

/* The target's position in the row, or -1. */
static int
target_position(const struct sync_rows *rows, int index)
{
	const struct engine *engine = rows->op.engine;

	return geometry_position(&engine->geometry, rows->first_row + (uint64_t)index,
				 (uint8_t)engine->target->role);
}

static void
fill_target(struct sync_rows *rows, struct gather *gather)
{
	struct engine *engine = rows->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint8_t role = (uint8_t)engine->target->role;

	for (int i = 0; i < rows->row_count; i++) {
		const uint64_t row = rows->first_row + (uint64_t)i;
		int position = target_position(rows, i);
		void *chunks[IRAID_MEMBERS_MAX];

		if (position < 0)
			continue;
		sync_rows_chunks(rows, i, 0, chunks);
		if (engine->by_role[role] == NULL)
			code_make(geometry, ROLE(position), engine_absent(engine, row), chunks,
				  geometry->chunk_bytes);
		gather_add_buffer(gather, engine->target, geometry_offset(geometry, row, role),
				  chunks[position], geometry->chunk_bytes);
	}
}

static void
fill_rows(struct sync_rows *rows)
{
	struct gather gather = { .engine = rows->op.engine,
				 .op = BACKEND_WRITE,
				 .done = batch_written,
				 .owner = rows,
				 .pending = &rows->pending };

	rows->pending = 1; /* this function */
	fill_target(rows, &gather);
	if (gather_submit(&gather) != 0)
		rows->error = -ENOMEM;
	if (--rows->pending == 0)
		sync_rows_end(rows, rows->error);
}

/* --- reading --- */

/* Nothing in the rows is unknowable: all of it is there, or what is missing is what the others make
 * of it.
 */
static bool
sync_rows_knowable(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	for (int i = 0; engine_has_parity(engine) && i < rows->row_count; i++)
		if (engine_trust(engine, rows->first_row + (uint64_t)i) == ROW_SUSPECT)
			return false;
	return true;
}

/* It was in sync when the row became suspect, so its own chunk is as good as any other's.  With all
 * other data there, too, the row can be made whole with it.
 */
bool
sync_target_holds(const struct engine *engine, uint64_t row)
{
	const struct geometry *geometry = &engine->geometry;
	const struct member *target = engine->target;
	const struct absence *absence = &engine->absence[target->role];
	const uint32_t data = geometry_data_positions(geometry);

	return engine_has_parity(engine) && engine->by_role[target->role] == NULL &&
	       engine_trust(engine, row) == ROW_SUSPECT && absence->held &&
	       !MUTANT(UNKNOWN_FILLED) &&
	       intent_row_undoubted_since(&engine->intent, row, absence->doubts) &&
	       memcmp(target->uuid, engine->record.member_uuids[target->role], 16) == 0 &&
	       !target->went_back && !target->misread &&
	       (geometry_positions(geometry, row, engine->missing) & data) ==
		       (geometry_positions(geometry, row, ROLE(target->role)) & data);
}

/* A cache that it had may have taken the last writes along.  Whether it had one can't be told from
 * what it says now.
 */
bool
sync_target_knows(const struct engine *engine, uint64_t row)
{
	const struct absence *absence = &engine->absence[engine->target->role];

	return (absence->sure || absence->accepted) && sync_target_holds(engine, row);
}

bool
sync_fill_known(const struct engine *engine, uint64_t row)
{
	const struct geometry *geometry = &engine->geometry;
	const int role = engine->target->role;

	if (!engine_has_parity(engine) || engine->by_role[role] != NULL ||
	    engine_trust(engine, row) != ROW_SUSPECT || MUTANT(UNKNOWN_FILLED))
		return true;
	/* P and Q are made from data. */
	if ((geometry_positions(geometry, row, engine->missing) &
	     geometry_data_positions(geometry)) == 0)
		return true;
	return sync_target_knows(engine, row);
}

static bool
all_known(const struct sync_rows *rows)
{
	for (int i = 0; i < rows->row_count; i++)
		if (!sync_fill_known(rows->op.engine, rows->first_row + (uint64_t)i))
			return false;
	return true;
}

/* 0, or why not. */
static int
may_go_on(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	if (rows->doubts != engine->intent.doubts && !MUTANT(DOUBT_IGNORED))
		return -ENOLINK; /* what was read may not stand there any more */
	/* Who goes meanwhile would have to be made up for by what was not read. */
	if (rows->missing != engine->missing && !MUTANT(MADE_FROM_UNREAD))
		return -ENOLINK;
	if (rows->purpose == SYNC_FILL)
		return !target_filling(engine) ? -ENOLINK : all_known(rows) ? 0 : -ENODATA;
	if (rows->purpose == SYNC_MEND || engine->missing == 0)
		return 0;
	return rows->purpose == SYNC_PARITY && sync_rows_knowable(rows) ? 0 : -ENOLINK;
}

/* Who is back has the rows that it did not miss, and was not read. */
static bool
was_read(const struct sync_rows *rows)
{
	if (rows->purpose == SYNC_FILL || MUTANT(RETURNED_COMPARED))
		return true;
	for (int i = 0; i < rows->row_count; i++)
		if (engine_absent(rows->op.engine, rows->first_row + (uint64_t)i) !=
		    rows->absent[i])
			return false;
	return true;
}

static void
batch_read_done(struct sync_rows *rows)
{
	rows->op.engine->activity++;
	if (rows->error == -ENODATA || rows->error == -EIO) {
		rows->error = 0;
		mend_rows(rows, 0);
		return;
	}
	if (rows->error == 0)
		rows->error = was_read(rows) ? may_go_on(rows) : -ENOLINK;
	if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else if (rows->purpose == SYNC_FILL)
		fill_rows(rows);
	else
		compare_rows(rows);
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

/* Does the target hold what nobody else does, in one of the rows? Then they are mended one by one.
 */
static bool
target_holds_truth(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	if (rows->purpose != SYNC_FILL)
		return false;
	for (int i = 0; i < rows->row_count; i++) {
		const uint64_t row = rows->first_row + (uint64_t)i;

		if (target_position(rows, i) >= 0 &&
		    (lost_overlaps(engine->lost, row, (uint8_t)engine->target->role, 0,
				   engine->geometry.chunk_bytes) ||
		     sync_target_knows(engine, row)))
			return true;
	}
	return false;
}

/* Positions that are to be read. */
static uint32_t
wanted_positions(const struct sync_rows *rows, int index)
{
	const struct engine *engine = rows->op.engine;
	const uint32_t absent = engine_absent(engine, rows->first_row + (uint64_t)index);
	int position;

	if (rows->purpose != SYNC_FILL)
		return ~absent;
	position = target_position(rows, index);
	if (position < 0)
		return 0;
	if (engine->by_role[engine->target->role] != NULL)
		return ROLE(position); /* copied from the member it replaces */
	return code_sources(&engine->geometry, ROLE(position), absent);
}

static void
read_row(struct sync_rows *rows, struct gather *gather, int index)
{
	struct engine *engine = rows->op.engine;
	const uint64_t row = rows->first_row + (uint64_t)index;
	const uint32_t wanted = wanted_positions(rows, index);

	rows->absent[index] = engine_absent(engine, row);
	for (int position = 0; position < engine->geometry.width; position++) {
		uint8_t role = geometry_role(&engine->geometry, row, (uint8_t)position);

		if (wanted & ROLE(position))
			gather_add_buffer(gather, engine_holder(engine, row, role),
					  geometry_offset(&engine->geometry, row, role),
					  sync_rows_chunk(rows, position, index),
					  engine->geometry.chunk_bytes);
	}
}

static void
batch_start(struct op *op)
{
	struct sync_rows *rows = (struct sync_rows *)op;
	struct engine *engine = op->engine;
	struct gather gather = { .engine = engine,
				 .op = BACKEND_READ,
				 .done = batch_read,
				 .owner = rows,
				 .pending = &rows->pending };

	rows->missing = engine->missing;
	rows->error = may_go_on(rows);
	if (rows->error != 0) {
		batch_fail(op, rows->error);
		return;
	}
	rows->buffer_bytes =
		((size_t)engine->geometry.width * (size_t)rows->row_count + SYNC_SPARE_CHUNKS) *
		engine->geometry.chunk_bytes;
	rows->buffer = arena_take(&engine->arena, rows->buffer_bytes, false);
	if (rows->buffer == NULL) {
		op_wait_for_buffer(op);
		return;
	}
	rows->differed = rows->corrected = 0;
	rows->unreadable = 0;
	if (rows->purpose == SYNC_MEND || target_holds_truth(rows)) {
		mend_rows(rows, 0);
		return;
	}
	rows->pending = 1; /* this function */
	for (int i = 0; i < rows->row_count; i++)
		read_row(rows, &gather, i);
	if (gather_submit(&gather) != 0)
		rows->error = -ENOMEM;
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
	engine->ops.count++;
	for (int i = 0; i < count; i++) {
		rows->claims[i] = (struct row_claim){
			.holder = &rows->op.holder,
			.kind = CLAIM_WRITE,
			.end_bytes = geometry_row_bytes(&engine->geometry),
		};
		list_init(&rows->claims[i].in_row);
		row_claim(engine->rows, first_row + (uint64_t)i, &rows->claims[i]);
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
	list_init(&rows->note.node);
	list_init(&rows->logged.node);
	list_init(&rows->logged.live);
	rows->done = done;
}

void
sync_rows_free(struct sync_rows *rows)
{
	logged_free(&rows->logged);
}
