/* marks.c - makes the region map durable: group commit of dirty bits, lazy cleaning.
 *
 * One batch of map blocks is under way at a time, written with FUA to every in-sync member.  Bits
 * that are set in it count when all have answered; bits that are cleared stop counting when it is
 * sent, so that a write which comes meanwhile waits for the next batch instead of trusting a bit
 * that is about to vanish.
 *
 * Cleaning: every CLEAN_PERIOD_MS, if regions have been quiet for a whole period, all members are
 * flushed, and those regions lose their dirty bit.  The cleared map goes out with the next batch; a
 * bit that survives a crash only costs a little resync.
 */
#include "internal.h"
#include "write_log.h"
#include "engine/link/link.h"

#include <errno.h>
#include <stdlib.h>

#define CLEAN_PERIOD_MS 1000u
#define RETRY_MS 1000u /* after a member that can't be spared refused a block */

/* What is about to be sent, taken as already cleared; and then as set once it is answered. */
static void
narrow_durable(struct engine *engine, uint32_t block)
{
	struct intent *intent = &engine->intent;
	uint32_t first = block * LAYOUT_REGIONS_PER_BLOCK;

	if (MUTANT(NARROW_FIRST_BLOCK) && block > 0)
		return;
	for (uint32_t i = first; i < first + LAYOUT_REGIONS_PER_BLOCK && i < intent->regions; i++) {
		uint8_t set =
			intent->durable[i] & intent->flags[i] & (REGION_DIRTY | REGION_STALE_ANY);
		uint8_t unwritten = (intent->durable[i] | intent->flags[i]) & REGION_UNWRITTEN;

		intent->durable[i] = set | unwritten;
	}
}

/* The first block at or behind `from` that differs from what was last sent; intent.blocks: none. */
static uint32_t
next_dirty(const struct engine *engine, uint32_t from)
{
	while (from < engine->intent.blocks && !engine->intent.block_dirty[from])
		from++;
	return from;
}

static bool
any_block_dirty(const struct engine *engine)
{
	return next_dirty(engine, 0) < engine->intent.blocks;
}

/* --- those who write --- */

static void
note_rows(struct engine *engine, const struct row_note *note)
{
	if (note->among == 0)
		intent_note_rows(&engine->intent, note->first, note->last);
	for (uint32_t left = note->among; left != 0; left &= left - 1) {
		const uint64_t row = note->first + (uint32_t)__builtin_ctz(left);

		intent_note_rows(&engine->intent, row, row);
	}
}

static void
begin_note(struct engine *engine, struct row_note *note)
{
	list_append(&engine->marks->writing, &note->node);
	note_rows(engine, note);
}

static uint64_t
last_among(uint64_t first_row, uint32_t among)
{
	return first_row + 31u - (uint32_t)__builtin_clz(among);
}

void
marks_writes(struct engine *engine, struct row_note *note, uint64_t first_row, uint32_t among)
{
	note->first = first_row;
	note->last = last_among(first_row, among);
	note->among = MUTANT(ROWS_BETWEEN_NOTED) ? 0 : among;
	begin_note(engine, note);
}

void
marks_wrote(struct row_note *note)
{
	list_remove(&note->node);
}

/* All of it has been answered, so a flush that begins from now on covers it, though its rows and
 * regions are held yet.
 */
void
marks_written(struct region_hold *hold)
{
	if (hold->active && !MUTANT(FUA_UNCOVERED))
		marks_wrote(&hold->note);
}

void
marks_failed(struct engine *engine, uint64_t first_row, uint64_t last_row)
{
	intent_suspect_rows(&engine->intent, first_row, last_row);
	requests_doubted(engine, first_row, last_row);
}

/* It may pass by what is written just now. */
void
marks_flush_begins(struct engine *engine)
{
	intent_flush_begins(&engine->intent);
	for (struct list *node = engine->marks->writing.next;
	     node != &engine->marks->writing && !MUTANT(FLUSH_COVERS_ALL); node = node->next)
		note_rows(engine, list_entry(node, struct row_note, node));
}

void
marks_begins(struct engine *engine, struct region_hold *hold)
{
	if (hold->active && list_empty(&hold->note.node))
		begin_note(engine, &hold->note);
}

/* The regions of hold->note.  Nothing was sent yet, so a cache that is lost takes nothing of it
 * along.
 */
static bool
begin_hold(struct engine *engine, struct region_hold *hold)
{
	bool durable = true;

	if (engine->geometry.redundancy == 0)
		return true; /* nothing to mark */
	hold->active = true;
	hold->first = intent_region(&engine->intent, hold->note.first);
	hold->last = intent_region(&engine->intent, hold->note.last);
	for (uint32_t region = hold->first; region <= hold->last; region++)
		if (!intent_begin(&engine->intent, region))
			durable = false;
	list_init(&hold->note.node);
	if (MUTANT(NOTED_UNSENT))
		marks_begins(engine, hold);
	return durable;
}

bool
marks_hold(struct engine *engine, struct region_hold *hold, uint64_t first_row, uint64_t last_row)
{
	hold->note.first = first_row;
	hold->note.last = last_row;
	hold->note.among = 0;
	return begin_hold(engine, hold);
}

bool
marks_hold_some(struct engine *engine, struct region_hold *hold, uint64_t first_row, uint32_t among)
{
	hold->note.first = first_row;
	hold->note.last = last_among(first_row, among);
	hold->note.among = MUTANT(ROWS_BETWEEN_NOTED) ? 0 : among;
	return begin_hold(engine, hold);
}

void
marks_drop(struct engine *engine, struct region_hold *hold)
{
	if (!hold->active)
		return;
	hold->active = false;
	marks_wrote(&hold->note);
	for (uint32_t region = hold->first; region <= hold->last; region++)
		intent_end(&engine->intent, region);
}

void
marks_wait(struct engine *engine, struct region_hold *hold)
{
	if (engine->expired || engine->fenced) {
		hold->ready(hold, engine->fenced ? -ESHUTDOWN : -ETIMEDOUT);
		return;
	}
	list_append(&engine->marks->waiters, &hold->node);
	engine->activity++;
}

static bool
is_durable(const struct engine *engine, const struct region_hold *hold)
{
	for (uint32_t region = hold->first; region <= hold->last; region++)
		if (!intent_ready(&engine->intent, region))
			return false;
	return true;
}

void
marks_tell(struct engine *engine, int error)
{
	struct list waiters;
	struct list *node;

	list_init(&waiters);
	list_splice(&waiters, &engine->marks->waiters);
	while ((node = list_take(&waiters)) != NULL) {
		struct region_hold *hold = list_entry(node, struct region_hold, node);

		if (error == 0 && !is_durable(engine, hold))
			list_append(&engine->marks->waiters, node);
		else
			hold->ready(hold, error);
	}
}

void
marks_overdue(struct engine *engine)
{
	for (struct list *node = engine->marks->waiters.next, *next;
	     node != &engine->marks->waiters; node = next) {
		struct region_hold *hold = list_entry(node, struct region_hold, node);

		next = node->next;
		if (!overdue_since(engine, hold->since_ms))
			continue;
		list_remove(node);
		hold->ready(hold, -ETIMEDOUT);
	}
}

/* --- the map --- */

static void
batch_done(struct engine *engine)
{
	struct intent *intent = &engine->intent;

	for (int i = 0; i < engine->marks->batch; i++) {
		if (engine->marks->error == 0)
			map_block_decode(engine->marks->buffer +
						 (MUTANT(MAP_BATCH_ONE) ? 0 : (size_t)i) *
							 LAYOUT_MAP_BLOCK_BYTES,
					 intent->regions, engine->marks->blocks[i],
					 engine->options.volume_uuid, intent->durable);
		else
			intent->block_dirty[engine->marks->blocks[i]] = true;
	}
	engine->marks->batch = 0;
	if (engine->marks->error == 0)
		engine->marks->durable = engine->marks->sent;
	else
		engine->marks->sent = engine->marks->durable;
	if (engine->marks->error != 0)
		engine->marks->turn = 0;
	if (engine->marks->error != 0 && !MUTANT(REFUSED_UNPACED))
		engine->marks->retry_ms = engine->now_ms + RETRY_MS;
	engine->activity++;
	/* nobody refused anything: they wait until it is tried again */
	if (engine->marks->error != -ENOMEM)
		marks_tell(engine, engine->marks->error);
}

static void
block_written(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result != 0 && result != -ENOLINK && engine->marks->error == 0)
		engine->marks->error = result;
	if (--engine->marks->pending == 0)
		batch_done(engine);
}

static void
write_block(struct member *member, const uint8_t *image, uint32_t block)
{
	struct engine *engine = member->engine;
	struct iovec iov = { (void *)image, LAYOUT_MAP_BLOCK_BYTES };
	struct member_io *mio = member_io_try(
		member, BACKEND_WRITE,
		LAYOUT_MAP_OFFSET + (MUTANT(MAP_BLOCK_MISPLACED) ? 0 : (uint64_t)block) *
					    LAYOUT_MAP_BLOCK_BYTES,
		IO_MAP);

	if (mio == NULL) {
		engine->marks->error = -ENOMEM;
		return;
	}
	mio->io.fua = true;
	if (MUTANT(MARK_SKIPPED))
		/* nobody reads it there */
		mio->io.offset_bytes +=
			LAYOUT_LOST_OFFSET - LAYOUT_MAP_OFFSET - LAYOUT_MAP_BLOCK_BYTES;
	member_io_append(mio, &iov, 1, LAYOUT_MAP_BLOCK_BYTES);
	engine->marks->pending++;
	member_io_submit(mio, block_written, member);
}

/* Blocks have their turn one after the other: those that are written to all the time would else
 * keep all others waiting.  What was asked for when a turn began is sent when it has come to the
 * last block.
 */
static void
take_batch(struct engine *engine)
{
	struct marks *marks = engine->marks;
	struct intent *intent = &engine->intent;
	uint32_t block = next_dirty(engine, marks->turn);

	if (marks->turn == 0)
		marks->turn_changes = marks->changes;
	for (; block < intent->blocks && marks->batch < MAP_BATCH;
	     block = next_dirty(engine, block + 1)) {
		intent->block_dirty[block] = false;
		narrow_durable(engine, block);
		map_block_encode(intent->flags, intent->regions, block, engine->record.epoch,
				 engine->options.volume_uuid,
				 marks->buffer + (size_t)marks->batch * LAYOUT_MAP_BLOCK_BYTES);
		marks->blocks[marks->batch++] = block;
	}
	marks->turn = MUTANT(FIRST_BLOCKS_FIRST) ? 0 : block;
	if (block < intent->blocks)
		return;
	marks->turn = 0;
	marks->sent = marks->turn_changes;
}

static void
send_batch(struct engine *engine)
{
	take_batch(engine);
	engine->marks->error = 0;
	engine->marks->pending = 1; /* this function */
	for (int i = 0; i < engine->marks->batch; i++)
		for_each_member(engine, member)
			if (member->in_sync || member->evicting || member == engine->target)
				write_block(member,
					    engine->marks->buffer +
						    (size_t)i * LAYOUT_MAP_BLOCK_BYTES,
					    engine->marks->blocks[i]);
	if (--engine->marks->pending == 0)
		batch_done(engine);
}

/* Records that may be replayed need the marks of their regions, also where the write has failed. */
static bool
may_clean(const struct engine *engine)
{
	return !write_log_is_broken(engine) || MUTANT(FAILED_RECORD_STAYS);
}

static void
clean_flushed(struct flush_waiter *waiter, int result)
{
	struct engine *engine = list_entry(waiter, struct marks, clean_waiter)->engine;

	engine->marks->cleaning = false;
	if (result == 0 && may_clean(engine))
		intent_clean_end_without(&engine->intent, metadata_target_may_clean(engine)
								  ? 0
								  : engine->intent.target);
	else
		intent_clean_failed(&engine->intent);
	engine->activity++;
}

static void
clean(struct engine *engine)
{
	/* Who may lack something of them is asked to flush, and that waits for what becomes of the
	 * member.
	 */
	if (engine->marks->cleaning || engine->now_ms < engine->marks->clean_ms)
		return;
	engine->marks->clean_ms = engine->now_ms + CLEAN_PERIOD_MS;
	if (!may_clean(engine) ||
	    (MUTANT(DIRTY_WHILE_UNHEARD) && !metadata_target_may_clean(engine)) ||
	    !intent_clean_begin(&engine->intent))
		return;
	engine->marks->cleaning = true;
	if (MUTANT(CLEANED_UNFLUSHED) ||
	    (MUTANT(CHECKPOINT_AHEAD) && engine->intent.copied_count > 0)) {
		clean_flushed(&engine->marks->clean_waiter, 0);
		return;
	}
	engine->marks->clean_waiter.done = clean_flushed;
	engine->marks->clean_waiter.told = false;
	flush_join(engine, &engine->marks->clean_waiter);
}

void
marks_run(struct engine *engine)
{
	if ((engine->geometry.redundancy == 0 && engine->growth_phase != GROWTH_MARKING) ||
	    engine->phase < PHASE_RUNNING || engine->phase > PHASE_LAST_MAP || engine->fenced)
		return;
	clean(engine);
	if (engine->now_ms < engine->marks->retry_ms)
		return;
	if (engine->marks->pending == 0 && any_block_dirty(engine))
		send_batch(engine);
	else if (engine->marks->pending == 0)
		engine->marks->sent = engine->marks->durable = engine->marks->changes;
}

void
marks_expire(struct engine *engine)
{
	if (engine->marks->pending > 0)
		marks_tell(engine, -ETIMEDOUT);
}

uint64_t
marks_commit(struct engine *engine)
{
	engine->activity++;
	return ++engine->marks->changes;
}

void
marks_all(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->intent.blocks; i++)
		engine->intent.block_dirty[i] = true;
}

bool
marks_idle(const struct engine *engine)
{
	return engine->marks->pending == 0 && !engine->marks->cleaning &&
	       (engine->geometry.redundancy == 0 || !any_block_dirty(engine));
}

uint64_t
marks_deadline(const struct engine *engine)
{
	if (engine->marks->retry_ms > engine->now_ms)
		return engine->marks->retry_ms;
	if (engine->phase != PHASE_RUNNING && engine->phase != PHASE_DRAIN)
		return UINT64_MAX;
	if (engine->geometry.redundancy == 0 || engine->marks->cleaning || engine->fenced ||
	    (engine->intent.copied_count == 0 &&
	     engine->intent.dirty_count == engine->intent.suspect_count))
		return UINT64_MAX;
	return engine->marks->clean_ms;
}

int
marks_init(struct engine *engine)
{
	struct marks *marks = engine->marks;

	marks->engine = engine;
	list_init(&marks->waiters);
	list_init(&marks->writing);
	marks->buffer =
		aligned_alloc(LAYOUT_MAP_BLOCK_BYTES, (size_t)MAP_BATCH * LAYOUT_MAP_BLOCK_BYTES);
	return marks->buffer != NULL ? 0 : -ENOMEM;
}

void
marks_free(struct engine *engine)
{
	free(engine->marks->buffer);
}
