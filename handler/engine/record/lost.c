/* lost.c - the table of lost extents: makes it durable, and fills it when rows can't be known.
 *
 * Degraded, a suspect row says nothing of the missing member's chunk (DESIGN rule 9).  Such rows
 * are recorded as lost, and then are suspect no longer: parity as it stands defines what the chunk
 * holds, only that reads of it fail until it is overwritten.  Operations that have not begun wait
 * meanwhile, some milliseconds.
 *
 * The table is written in phases (state/lost.h), to all in-sync members and the target, FUA.
 * Superblocks say which of its blocks are empty, for the case that one can't be read: they say so
 * no more before anything is listed there, and again after it is gone.
 */
#include "record.h"
#include "engine/link/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* after a member that can't be spared refused it, or without memory */
#define RETRY_MS 1000u

struct lost_record {
	struct lost_waiter waiter; /* must be first */
	struct engine *engine;
	uint32_t regions; /* how many were suspect */
	uint32_t *region;
	uint32_t losing;  /* regions of which data is listed */
	uint32_t doubts;  /* of the intent then: what came later is recorded next */
	uint32_t missing; /* roles then: another that went since is recorded next */
	bool full;	  /* the table: what did not fit stays suspect */
};

/* --- writing --- */

void
lost_io_tell(struct engine *engine, int error)
{
	struct list waiters;
	struct list *node;

	list_init(&waiters);
	list_splice(&waiters, &engine->lost_io->waiters);
	engine->activity++;
	while ((node = list_take(&waiters)) != NULL) {
		struct lost_waiter *waiter = list_entry(node, struct lost_waiter, node);

		waiter->done(waiter, error);
	}
}

static void
phase_done(struct engine *engine)
{
	if (engine->lost_io->error != 0) {
		if (!MUTANT(REFUSED_UNPACED))
			engine->lost_io->retry_ms = engine->now_ms + RETRY_MS;
		lost_io_all(engine);
		/* nobody refused anything: they wait until it is tried again */
		if (engine->lost_io->error != -ENOMEM)
			lost_io_tell(engine, engine->lost_io->error);
		return;
	}
	lost_written(engine->lost);
	engine->activity++;
	if (lost_settled(engine->lost))
		lost_io_tell(engine, 0);
}

static void
granules_written(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (result != 0 && result != -ENOLINK && engine->lost_io->error == 0)
		engine->lost_io->error = result;
	if (--engine->lost_io->pending == 0)
		phase_done(engine);
}

static void
write_granules(struct engine *engine, uint32_t first, uint32_t count)
{
	struct iovec iov = { engine->lost_io->buffer + (size_t)first * LAYOUT_GRANULE_BYTES,
			     (size_t)count * LAYOUT_GRANULE_BYTES };

	for_each_member(engine, member) {
		struct member_io *mio;

		if (!member->in_sync && !member->evicting && member != engine->target)
			continue;
		mio = member_io_try(member, BACKEND_WRITE,
				    LAYOUT_LOST_OFFSET + (uint64_t)first * LAYOUT_GRANULE_BYTES,
				    IO_MAP);
		if (mio == NULL) {
			engine->lost_io->error = -ENOMEM;
			return;
		}
		mio->io.fua = true;
		member_io_append(mio, &iov, 1, (uint32_t)iov.iov_len);
		engine->lost_io->pending++;
		member_io_submit(mio, granules_written, engine);
	}
}

/* Granules per block of the members: what is written at once. */
static uint32_t
unit(const struct engine *engine)
{
	return engine->geometry.block_bytes / LAYOUT_GRANULE_BYTES;
}

static void
send_phase(struct engine *engine)
{
	bool wanted[LAYOUT_LOST_GRANULES] = { false };
	uint32_t granule;

	while (lost_take_dirty(engine->lost, &granule)) {
		uint32_t first = granule / unit(engine) * unit(engine);

		memset(wanted + first, true, unit(engine));
	}
	engine->lost_io->error = 0;
	engine->lost_io->pending = 1; /* this function */
	for (granule = 0; granule < LAYOUT_LOST_GRANULES; granule++)
		if (wanted[granule])
			lost_encode(engine->lost, granule, engine->record.epoch,
				    engine->options.volume_uuid,
				    engine->lost_io->buffer +
					    (size_t)granule * LAYOUT_GRANULE_BYTES);
	for (granule = 0; granule < LAYOUT_LOST_GRANULES;) {
		uint32_t end = granule;

		while (end < LAYOUT_LOST_GRANULES && wanted[end])
			end++;
		if (end > granule)
			write_granules(engine, granule, end - granule);
		granule = end + 1;
	}
	if (--engine->lost_io->pending == 0)
		phase_done(engine);
}

/* --- what superblocks say of it --- */

/* Who can't read the table later has to know that there was something, also one that is on its way
 * out and stays after all.  Both copies say so, for one may be all that can be read of them: a
 * crash can tear the other.
 */
static bool
said_listed(struct engine *engine)
{
	const uint32_t empty = lost_empty_blocks(engine->lost);

	if (MUTANT(LISTED_UNSAID))
		return true;
	if (engine->record.lost_empty & ~empty) {
		engine->record.lost_empty &= empty;
		engine->lost_io->said = metadata_commit(engine);
	}
	if (engine->lost_io->said != 0 &&
	    (metadata_known(engine, engine->lost_io->said) ||
	     (MUTANT(LISTED_SAID_ONCE) && engine->metadata->once >= engine->lost_io->said)))
		engine->lost_io->said = 0;
	return engine->lost_io->said == 0;
}

void
lost_io_say(struct engine *engine)
{
	const uint32_t empty = lost_empty_blocks(engine->lost);

	engine->record.lost_empty = lost_settled(engine->lost) || MUTANT(EMPTY_UNSETTLED)
					    ? empty
					    : engine->record.lost_empty & empty;
}

/* Not urgent: without it, a start that can't read the table is refused though nothing is lost by
 * it.
 */
static void
say_emptied(struct engine *engine)
{
	const uint32_t said = engine->record.lost_empty;

	engine->lost_io->unsaid = false;
	lost_io_say(engine);
	if (engine->record.lost_empty != said)
		metadata_commit(engine);
}

void
lost_io_wait(struct engine *engine, struct lost_waiter *waiter)
{
	list_append(&engine->lost_io->waiters, &waiter->node);
	engine->activity++;
}

void
lost_io_all(struct engine *engine)
{
	for (uint32_t granule = 0; granule < LAYOUT_LOST_GRANULES; granule++)
		lost_mark_dirty(engine->lost, granule);
	engine->activity++;
}

/* --- what is lost with a missing member --- */

/* In this row, an extent of the role means nothing (state/lost.h): it holds no data there. */
static bool
is_void(const struct geometry *geometry, uint64_t row, uint8_t role)
{
	int position = geometry_position(geometry, row, role);

	return position < 0 || position >= geometry->data_chunks;
}

static bool
holds_data(const struct engine *engine, const struct lost_extent *extent)
{
	for (uint32_t i = 0; i < extent->rows; i++)
		if (!is_void(&engine->geometry, extent->row + i, extent->role))
			return true;
	return MUTANT(NOTHING_TOLD_AS_LOST);
}

/* One run of rows that are lost, from `row` on, inside its region: its length, 0 if `row` is not.
 */
static uint32_t
suspect_run(const struct engine *engine, uint64_t row, uint64_t end)
{
	uint64_t at = row;

	while (at < end && intent_row_losable(&engine->intent, at))
		at++;
	return (uint32_t)(at - row);
}

/* data: set if data is listed, and not only P, Q or nothing. */
static int
record_region_of(struct engine *engine, uint32_t region, int role, bool *data)
{
	const struct absence *absence = &engine->absence[role];
	uint64_t row = (uint64_t)region * engine->intent.region_rows;
	uint64_t end = row + engine->intent.region_rows;
	/* It holds nothing of what became suspect after it went. */
	const bool held = absence->held &&
			  (intent_row_undoubted_since(&engine->intent, row, absence->doubts) ||
			   MUTANT(HELD_STAYS));

	if (end > engine->geometry.rows)
		end = engine->geometry.rows;
	while (row < end) {
		struct lost_extent extent = {
			.row = row,
			.rows = suspect_run(engine, row, end),
			.column_end = engine->geometry.chunk_bytes,
			.role = (uint8_t)role,
			.flags = held ? LOST_HELD : 0,
		};
		int error = extent.rows > 0 ? lost_add(engine->lost, &extent) : 0;

		if (error != 0)
			return error;
		*data |= holds_data(engine, &extent);
		row += extent.rows > 0 ? extent.rows : 1;
	}
	return 0;
}

static int
record_region(struct engine *engine, uint32_t region, bool *data)
{
	int error = 0;

	for (int role = 0; role < engine->geometry.members && error == 0; role++)
		if (engine->missing & ROLE(role))
			error = record_region_of(engine, region, role, data);
	return error;
}

/* What the region's missing chunks hold is known again: what the others make of them. */
static void
region_recorded(struct engine *engine, uint32_t region)
{
	if (engine_bare(engine))
		intent_region_proven(&engine->intent, region);
	else
		intent_region_defined(&engine->intent, region);
}

static void
recorded(struct lost_waiter *waiter, int error)
{
	struct lost_record *record = (struct lost_record *)waiter;
	struct engine *engine = record->engine;
	char roles[ROLES_TEXT_MAX];

	/* Else it is recorded once more: more rows of these regions are suspect by now, or more
	 * members missing.
	 */
	const bool settled = error == 0 &&
			     (record->doubts == engine->intent.doubts || MUTANT(RECORDED_DOUBTS)) &&
			     (record->missing == engine->missing || MUTANT(RECORDED_OTHER_MISSING));

	assert(engine->lost_io->record == waiter);
	engine->lost_io->recording = false;
	engine->lost_io->record = NULL;
	for (uint32_t i = 0; settled && i < record->regions; i++)
		region_recorded(engine, record->region[i]);
	if (settled || MUTANT(FULL_UNSETTLED)) {
		engine->lost_full = record->full;
		engine->lost_io->free_then = engine->lost->free_count;
	}
	/* What becomes suspect from now on, it does not hold.  What did not fit was suspect before.
	 */
	for (int role = 0; role < engine->geometry.members; role++)
		if (settled && (record->missing & ROLE(role)) && !record->full &&
		    !MUTANT(HELD_STAYS))
			engine->absence[role].held = false;
	/* Nothing is lost of rows that nobody wrote, nor of P and Q. */
	if (error == 0 && record->losing > 0)
		engine_event(engine, EVENT_DATA_LOST, LOG_ERR, NULL,
			     "%u regions were being written when %s %s went: their chunks there "
			     "can't be known, and read as medium errors until overwritten or "
			     "accepted",
			     record->losing,
			     __builtin_popcount(record->missing) > 1 ? "roles" : "role",
			     roles_text(record->missing, roles));
	free(record->region);
	free(record);
	engine->activity++;
}

/* What does not fit keeps nobody else out: other regions may need no room, for they lose nothing,
 * or less.
 */
static void
list_regions(struct engine *engine, struct lost_record *record)
{
	int64_t region = intent_next_undefined(&engine->intent, 0);

	for (; region >= 0; region = intent_next_undefined(&engine->intent, (uint32_t)region + 1)) {
		bool data = false;

		if (record_region(engine, (uint32_t)region, &data) != 0) {
			record->full = true;
			if (MUTANT(FULL_FOR_ALL))
				break;
			if (!MUTANT(LOST_FULL_DEFINED))
				continue;
		}
		if (engine->target != NULL && (engine->missing & ROLE(engine->target->role)))
			intent_target_doubted_in(&engine->intent, (uint32_t)region);
		record->region[record->regions++] = (uint32_t)region;
		record->losing += data;
	}
	if (record->full)
		engine_log(engine, LOG_ERR,
			   "the table of lost extents is full: what it has no room for reads as "
			   "medium errors too; overwrite or accept some");
}

static void
record_suspects(struct engine *engine)
{
	struct lost_record *record = calloc(1, sizeof(*record));

	if (record == NULL ||
	    (record->region = calloc(engine->intent.suspect_count, sizeof(uint32_t))) == NULL) {
		free(record);
		/* They stay suspect: medium errors, as when they are recorded.  Operations wait for
		 * this.
		 */
		if (!MUTANT(RECORD_UNRETRIED))
			engine->lost_io->record_retry_ms = engine->now_ms + RETRY_MS;
		return;
	}
	record->engine = engine;
	record->missing = engine->missing;
	record->waiter.done = recorded;
	list_init(&record->waiter.node);
	list_regions(engine, record);
	if (MUTANT(UNLISTED_DOUBTED) && engine->target != NULL &&
	    (engine->missing & ROLE(engine->target->role)))
		intent_target_doubted(&engine->intent);
	record->doubts = engine->intent.doubts;
	engine->lost_io->recording = true;
	engine->lost_io->record = &record->waiter;
	lost_io_wait(engine, &record->waiter);
}

bool
lost_io_undecided(const struct engine *engine)
{
	return engine_has_parity(engine) && engine->missing != 0 &&
	       (engine->lost_io->recording ||
		(engine->intent.suspect_count > engine->intent.defined_count &&
		 !engine->lost_full));
}

bool
lost_io_recording(const struct engine *engine)
{
	return lost_io_undecided(engine) && !engine->suspended;
}

/* --- the run --- */

void
lost_io_run(struct engine *engine)
{
	if (engine->phase < PHASE_RUNNING || engine->phase > PHASE_LAST_MAP ||
	    engine->lost == NULL ||
	    (engine->geometry.redundancy == 0 && MUTANT(NOTHING_LOST_UNTOLD)))
		return;
	if (engine->fenced) {
		if (engine->lost_io->pending == 0 && !list_empty(&engine->lost_io->waiters))
			lost_io_tell(engine, -ESHUTDOWN);
		return;
	}
	/* Nothing is missing, or there is room again. */
	if (engine->missing == 0 ||
	    (lost_settled(engine->lost) && engine->lost->free_count > engine->lost_io->free_then))
		engine->lost_full = false;
	if (!engine->lost_io->recording && lost_io_recording(engine) && engine->evicting == 0 &&
	    engine->now_ms >= engine->lost_io->record_retry_ms)
		record_suspects(engine);
	if (engine->lost_io->pending > 0 || engine->now_ms < engine->lost_io->retry_ms)
		return;
	if (!lost_settled(engine->lost)) {
		engine->lost_io->unsaid = true;
		if (said_listed(engine))
			send_phase(engine);
		return;
	}
	if (engine->lost_io->unsaid && engine->evicting == 0)
		say_emptied(engine);
	if (!list_empty(&engine->lost_io->waiters))
		lost_io_tell(engine, 0);
}

uint64_t
lost_io_deadline(const struct engine *engine)
{
	uint64_t deadline = UINT64_MAX;

	if (engine->lost_io->retry_ms > engine->now_ms)
		deadline = engine->lost_io->retry_ms;
	if (engine->lost_io->record_retry_ms > engine->now_ms &&
	    engine->lost_io->record_retry_ms < deadline)
		deadline = engine->lost_io->record_retry_ms;
	return deadline;
}

/* Who made bytes known again must not be told so.  A record of what was lost waits as long as it
 * takes.
 */
void
lost_io_overdue(struct engine *engine)
{
	for (struct list *node = engine->lost_io->waiters.next, *next;
	     node != &engine->lost_io->waiters; node = next) {
		struct lost_waiter *waiter = list_entry(node, struct lost_waiter, node);

		next = node->next;
		if (!overdue_since(engine, waiter->since_ms))
			continue;
		list_remove(node);
		waiter->done(waiter, -ETIMEDOUT);
	}
}

bool
lost_io_idle(const struct engine *engine)
{
	return engine->lost == NULL ||
	       (engine->lost_io->pending == 0 && lost_settled(engine->lost) &&
		list_empty(&engine->lost_io->waiters));
}

bool
lost_io_load(struct engine *engine, const struct member *member, const uint8_t *table, bool own,
	     bool *known)
{
	bool good = true;

	for (uint32_t granule = 0; granule < LAYOUT_LOST_GRANULES;
	     granule++, table += LAYOUT_GRANULE_BYTES) {
		bool loaded;

		if (own && known[granule] && !MUTANT(FORCED_TABLE_COUNTS))
			loaded = MUTANT(FORCED_TABLE_IGNORED) ||
				 lost_load_role(engine->lost, granule, engine->options.volume_uuid,
						table, &engine->geometry, (uint8_t)member->role);
		else
			loaded = lost_load(engine->lost, granule, engine->options.volume_uuid,
					   table, &engine->geometry);
		known[granule] |= loaded;
		good &= loaded;
	}
	return good;
}

int
lost_io_init(struct engine *engine)
{
	if (engine->lost == NULL)
		engine->lost = malloc(sizeof(*engine->lost));
	if (engine->lost_io->buffer == NULL)
		engine->lost_io->buffer = aligned_alloc(LAYOUT_MAP_BLOCK_BYTES, LAYOUT_LOST_BYTES);
	if (engine->lost == NULL || engine->lost_io->buffer == NULL)
		return -ENOMEM;
	lost_init(engine->lost);
	if (engine->options.lost_entries_max > 0 &&
	    engine->options.lost_entries_max < LOST_CAPACITY)
		engine->lost->capacity = engine->options.lost_entries_max;
	return 0;
}

void
lost_io_free(struct engine *engine)
{
	if (engine->lost_io->record != NULL) {
		free(((struct lost_record *)engine->lost_io->record)->region);
		free(engine->lost_io->record);
	}
	free(engine->lost);
	free(engine->lost_io->buffer);
}

/* --- ranges of the volume --- */

bool
lost_in_range(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
	struct extent extent;

	if (engine->lost == NULL || engine->lost->count == 0 || MUTANT(LOSS_FORGOTTEN))
		return false;
	for (uint64_t at = begin_bytes; at < end_bytes; at += extent.length_bytes) {
		geometry_locate(&engine->geometry, at, end_bytes - at, &extent);
		if (lost_overlaps(engine->lost, extent.row, extent.role, extent.column_bytes,
				  extent.column_bytes + extent.length_bytes))
			return true;
	}
	return false;
}

bool
lost_concerns_write(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
	return (engine->lost != NULL && !lost_settled(engine->lost)) ||
	       lost_in_range(engine, begin_bytes, end_bytes);
}

/* Void rows next to it go with it, so that they don't stay behind when all that means something is
 * gone.
 */
int
lost_forget(struct engine *engine, uint64_t row, uint8_t role, uint32_t column_begin,
	    uint32_t column_end)
{
	const struct geometry *geometry = &engine->geometry;
	uint64_t first = row;
	uint64_t last = row;

	while (first > 0 && is_void(geometry, first - 1, role))
		first--;
	while (last + 1 < geometry->rows && is_void(geometry, last + 1, role))
		last++;
	return lost_remove(engine->lost, first, (uint32_t)(last - first + 1), role, column_begin,
			   column_end);
}

int
lost_overwrite(struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
	struct extent extent;
	int error = 0;

	for (uint64_t at = begin_bytes; at < end_bytes && error == 0; at += extent.length_bytes) {
		geometry_locate(&engine->geometry, at, end_bytes - at, &extent);
		if (lost_overlaps(engine->lost, extent.row, extent.role, extent.column_bytes,
				  extent.column_bytes + extent.length_bytes))
			error = lost_forget(engine, extent.row, extent.role, extent.column_bytes,
					    extent.column_bytes + extent.length_bytes);
	}
	engine->activity++;
	return error;
}
