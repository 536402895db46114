/* mend_row.c - one row at a time where something can't be read, or is known to nobody but the
 * target.
 *
 *	READ_CHUNKS   every position's chunk by itself: which can't be read?
 *	READ_PIECES   of those, 4 KiB at a time: which sectors is it?  One that is refused, not unreadable, is awaited, unless a target is
 *	              filled and it can be made up for
 *	RECORD        a piece that more members lack than can be made up for is lost: recorded, durably, before
 *	              anything is written
 *	MARK          the region is marked as dirty, if more than the target's chunk changes, but where nobody wrote and all is suspect
 *	LOG           ... and all that is about to be written is made durable in the write log, where that is open
 *	WRITE         what was made up for, to where it could not be read; the target's chunk; P, Q and copies where they changed
 *	VERIFY        the rewritten pieces are read again: whose is not as written loses its place, and gets it once more, for it
 *	              may be needed and stay
 *	HEAL_RECORD   the target's own content was taken for what was lost, and is sure: it is lost no longer
 *
 * A piece that is lacking is made from the others (pure/code.h), unless the row is suspect.  Only
 * filling the target makes losses: it can't go on without.  Elsewhere such a row is left as it is:
 * what can't be read today may be read tomorrow, or when a member returns.
 */
#include "sync_rows.h"
#include "engine/link/link.h"
#include "engine/members/members.h"
#include "pure/code.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>

#define REWRITES_MAX 3 /* of what is not read as it was written */

static void mend_row(struct sync_rows *rows);
static void settle_misread(struct sync_rows *rows);
static void make_piece(struct sync_rows *rows, uint32_t positions, int piece);

static uint64_t
row_of(const struct sync_rows *rows)
{
	return rows->first_row + (uint64_t)rows->mend.index;
}

static int
pieces_of(const struct engine *engine)
{
	return (int)(engine->geometry.chunk_bytes / MEND_PIECE_BYTES);
}

static uint8_t
role_at(const struct sync_rows *rows, int position)
{
	return geometry_role(&rows->op.engine->geometry, row_of(rows), (uint8_t)position);
}

/* Of the target, when it is being filled; -1 if it has no part in the row. */
static int
position_of_target(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	return geometry_position(&engine->geometry, row_of(rows), (uint8_t)engine->target->role);
}

/* Whose chunk is read for this position; NULL: nobody has it. */
static struct member *
reader(const struct sync_rows *rows, int position)
{
	struct engine *engine = rows->op.engine;
	const uint8_t role = role_at(rows, position);

	return rows->purpose == SYNC_FILL ? engine->by_role[role]
					  : engine_holder(engine, row_of(rows), role);
}

static void
row_done(struct sync_rows *rows, bool readable)
{
	mend_unlog(rows, 0);
	marks_drop(rows->op.engine, &rows->mend.marks);
	if (!readable)
		rows->unreadable |= 1u << rows->mend.index;
	if (sync_rows_awaited(rows) && !MUTANT(MENDED_HELD))
		sync_rows_shorten(rows, rows->mend.index + 1);
	if (rows->mend.index + 1 < rows->row_count)
		mend_rows(rows, rows->mend.index + 1);
	else
		sync_rows_end(rows, 0);
}

/* --- commands --- */

static void
command(struct sync_rows *rows, struct member *member, enum backend_op op, uint32_t column,
	uint8_t *memory, uint32_t length_bytes, void (*done)(struct member_io *mio, int result))
{
	struct engine *engine = rows->op.engine;
	struct iovec iov = { memory, length_bytes };
	struct member_io *mio = member_io_try(
		member, op,
		engine->data_offset_bytes +
			geometry_offset(&engine->geometry, row_of(rows), (uint8_t)member->role) +
			column,
		IO_REQUEST);

	if (mio == NULL) {
		rows->error = -ENOMEM;
		return;
	}
	member_io_append(mio, &iov, 1, length_bytes);
	rows->pending++;
	member_io_submit(mio, done, rows);
}

static int
position_of(const struct sync_rows *rows, const struct member_io *mio)
{
	return geometry_position(&rows->op.engine->geometry, row_of(rows),
				 (uint8_t)mio->member->role);
}

static int
piece_of(const struct sync_rows *rows, const struct member_io *mio)
{
	const struct engine *engine = rows->op.engine;
	uint64_t column =
		mio->io.offset_bytes - engine->data_offset_bytes -
		geometry_offset(&engine->geometry, row_of(rows), (uint8_t)mio->member->role);

	return (int)(column / MEND_PIECE_BYTES);
}

static bool
is_unreadable(int result)
{
	return result == -ENODATA || result == -EIO;
}

/* The target was a member when rows became lost, and may hold what was written last. */
static bool
holds_truth(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;
	const struct member *target = engine->target;
	uint32_t begin, end;
	uint8_t flags;

	return rows->purpose == SYNC_FILL &&
	       memcmp(target->uuid, engine->record.member_uuids[target->role], 16) == 0 &&
	       position_of_target(rows) >= 0 &&
	       position_of_target(rows) < engine->geometry.data_chunks &&
	       engine_has_parity(engine) &&
	       (lost_next(engine->lost, row_of(rows), (uint8_t)target->role, 0, &begin, &end,
			  &flags) ||
		sync_target_knows(engine, row_of(rows)));
}

/* The first columns in [from, before) which the target alone holds, as the record has it. */
static bool
next_held(const struct sync_rows *rows, uint32_t from, uint32_t before, uint32_t *begin,
	  uint32_t *end)
{
	const struct engine *engine = rows->op.engine;
	uint8_t flags;

	while (from < before && lost_next(engine->lost, row_of(rows), (uint8_t)engine->target->role,
					  from, begin, end, &flags)) {
		if (*begin >= before)
			return false;
		from = *end;
		if (!(flags & LOST_HELD))
			continue;
		*end = *end < before ? *end : before;
		return true;
	}
	return false;
}

static bool
holds_piece(const struct sync_rows *rows, int position, int piece)
{
	return rows->mend.held_read && holds_truth(rows) && position == position_of_target(rows) &&
	       !rows->mend.held_gone[piece] && !MUTANT(HELD_LOST_WITH_OTHERS) &&
	       !(rows->mend.rewrites > 0 && MUTANT(HELD_FORGOTTEN_AGAIN));
}

/* Of a piece that nothing makes: zeros, but for what the target alone holds. */
static void
put_lost_piece(struct sync_rows *rows, int position, int piece)
{
	uint8_t *chunk = sync_rows_chunk(rows, position, rows->mend.index);
	uint32_t at = (uint32_t)piece * MEND_PIECE_BYTES, begin, end;
	const uint32_t all = at + MEND_PIECE_BYTES;

	memset(chunk + at, 0, MEND_PIECE_BYTES);
	while (holds_piece(rows, position, piece) && next_held(rows, at, all, &begin, &end)) {
		memcpy(chunk + begin, sync_rows_spare(rows, SYNC_HELD) + begin, end - begin);
		at = end;
	}
}

/* --- VERIFY and after it --- */

static void
healed_on_record(struct lost_waiter *waiter, int error)
{
	struct mend *mend = (struct mend *)((char *)waiter - offsetof(struct mend, waiter));
	struct sync_rows *rows =
		(struct sync_rows *)((char *)mend - offsetof(struct sync_rows, mend));

	if (error != 0)
		sync_rows_end(rows, error);
	else
		row_done(rows, true);
}

/* P and Q that were made anew may be in caches still.  That is known: the region is marked until
 * all members have flushed, so the row is suspect if they are lost, and then what was healed is
 * recorded again if it has to be.
 */
/* What was healed is on record as lost no longer. */
static void
end_row(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	struct mend *mend = &rows->mend;
	/* If a cache was lost since it was made, the row may be lost anew, and be on its way to the
	 * record just now.
	 */
	const bool doubted =
		rows->doubts != engine->intent.doubts && !MUTANT(HEALED_THOUGH_DOUBTED);

	if (!mend->heals || engine->target == NULL || doubted ||
	    lost_forget(engine, row_of(rows), (uint8_t)engine->target->role, 0,
			engine->geometry.chunk_bytes) != 0) {
		row_done(rows, true); /* what stays on record does no harm */
		return;
	}
	mend->step = MEND_HEAL_RECORD;
	mend->waiter.done = healed_on_record;
	list_init(&mend->waiter.node);
	lost_io_wait(engine, &mend->waiter);
}

/* It was read as it was written in the end. */
static void
finish_row(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	struct mend *mend = &rows->mend;

	for (int position = 0; mend->misread == 0 && position < engine->geometry.width; position++)
		if ((mend->flagged & ROLE(position)) && reader(rows, position) != NULL)
			reader(rows, position)->misread = false;
	end_row(rows);
}

/* One that is at its end is still read: it goes when no row depends on that. */
static bool
may_go(const struct member *member)
{
	return member->in_sync && !member->condemned && evict_bearable(member->engine, member) &&
	       (evict_loses_nothing(member->engine) || MUTANT(READABLE_LET_GO));
}

static void
count_repair(struct sync_rows *rows, struct member *member)
{
	struct engine *engine = rows->op.engine;

	member->medium_repaired++;
	engine->counters.medium_repaired++;
	if (member->medium_repaired < engine->options.error_limit ||
	    engine->options.error_limit == 0 || !may_go(member))
		return;
	member_note(member, "%u sectors had to be rewritten, the limit is %u",
		    (unsigned int)member->medium_repaired, engine->options.error_limit);
	evict_exclude(member);
}

static bool
reads_as_written(struct sync_rows *rows, const struct member_io *mio)
{
	return crc32c(0, mio->segments[0].iov_base, MEND_PIECE_BYTES) ==
	       rows->mend.crc[position_of(rows, mio)][piece_of(rows, mio)];
}

static void
verified(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	if (result != 0 && !is_unreadable(result)) {
		rows->error = result; /* whose role it was may be another's by now */
	} else if ((result == 0 && reads_as_written(rows, mio)) || MUTANT(MEND_UNVERIFIED)) {
		rows->mend.bad[position_of(rows, mio)][piece_of(rows, mio)] = false;
		count_repair(rows, mio->member);
	} else {
		rows->mend.misread |= ROLE(position_of(rows, mio));
		if (result == 0 && !mio->member->misread)
			rows->mend.flagged |= ROLE(position_of(rows, mio));
		mio->member->misread |= result == 0;
	}
	if (--rows->pending > 0)
		return;
	rows->op.engine->activity++;
	if (rows->mend.misread != 0)
		settle_misread(rows);
	else if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else
		finish_row(rows);
}

static void
verify(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	rows->mend.step = MEND_VERIFY;
	rows->mend.misread = 0;
	rows->pending = 1; /* this function */
	for (int position = 0; position < engine->geometry.width; position++)
		for (int piece = 0; piece < pieces_of(engine); piece++) {
			uint8_t *memory = sync_rows_chunk(rows, position, rows->mend.index) +
					  (size_t)piece * MEND_PIECE_BYTES;

			if (!rows->mend.bad[position][piece] || reader(rows, position) == NULL)
				continue;
			rows->mend.crc[position][piece] = crc32c(0, memory, MEND_PIECE_BYTES);
			command(rows, reader(rows, position), BACKEND_READ,
				(uint32_t)piece * MEND_PIECE_BYTES, memory, MEND_PIECE_BYTES,
				verified);
		}
	if (--rows->pending > 0)
		return;
	if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else
		finish_row(rows);
}

/* --- WRITE --- */

static void
mend_written(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	engine->activity++;
	if (rows->error == 0) {
		rows->mend.writes = false; /* what follows is written for the second time */
		rows->corrected |= rows->differed & 1u << rows->mend.index;
		if (rows->mend.taken && rows->doubts == engine->intent.doubts)
			intent_prove(&engine->intent, row_of(rows));
		verify(rows);
		return;
	}
	/* Who is evicted meanwhile does not matter; else it is not known how much of it was done.
	 */
	if (rows->error != -ENOLINK && rows->mend.writes && !MUTANT(MEND_SUSPECT_FORGOTTEN))
		marks_failed(engine, row_of(rows), row_of(rows));
	sync_rows_end(rows, rows->error);
}

static void
mended_written(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	if (result != 0 && (rows->error == 0 || rows->error == -ENOLINK))
		rows->error = result;
	if (--rows->pending == 0)
		mend_written(rows);
}

static void
write_mended_chunk(struct sync_rows *rows, int position, struct member *member, bool whole)
{
	uint8_t *chunk = sync_rows_chunk(rows, position, rows->mend.index);
	struct engine *engine = rows->op.engine;

	if (whole) {
		command(rows, member, BACKEND_WRITE, 0, chunk, engine->geometry.chunk_bytes,
			mended_written);
		return;
	}
	for (int piece = 0; piece < pieces_of(engine); piece++)
		if (rows->mend.bad[position][piece])
			command(rows, member, BACKEND_WRITE, (uint32_t)piece * MEND_PIECE_BYTES,
				chunk + (size_t)piece * MEND_PIECE_BYTES, MEND_PIECE_BYTES,
				mended_written);
}

/* What was read to verify it is in its place: it is made of the others, or put there, as before. */
static void
make_again(struct sync_rows *rows, int piece)
{
	const struct geometry *geometry = &rows->op.engine->geometry;
	uint32_t positions = 0;

	for (int position = 0; position < geometry->width; position++)
		if (rows->mend.bad[position][piece])
			positions |= ROLE(position);
	if (positions == 0)
		return;
	if (!code_bears(geometry, positions)) {
		for (int position = 0; position < geometry->data_chunks; position++)
			if (positions & ROLE(position))
				put_lost_piece(rows, position, piece);
		positions = geometry_redundant_positions(geometry);
	}
	make_piece(rows, positions, piece);
}

static void
rewrite(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	rows->mend.step = MEND_WRITE;
	rows->mend.rewrites++;
	rows->pending = 1; /* this function */
	for (int piece = 0; piece < pieces_of(engine); piece++)
		make_again(rows, piece);
	for (int position = 0; position < engine->geometry.width; position++)
		if (reader(rows, position) != NULL)
			write_mended_chunk(rows, position, reader(rows, position), false);
	if (--rows->pending == 0)
		mend_written(rows);
}

static void
exclude_misread(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	for (int position = 0; position < engine->geometry.width; position++) {
		struct member *member = reader(rows, position);

		if (!(rows->mend.misread & ROLE(position)) || member == NULL || !member->in_sync ||
		    !evict_bearable(engine, member) || (!member->misread && !may_go(member)))
			continue; /* whose sectors are others than were written goes at once */
		member_note(
			member,
			"a sector can't be read, or not as written, even after it was rewritten");
		evict_exclude(member);
	}
}

/* Whose it is loses its place.  If it is needed, it is to have what was written, and gets it again. */
static void
settle_misread(struct sync_rows *rows)
{
	exclude_misread(rows);
	if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else if (rows->mend.rewrites < REWRITES_MAX && !MUTANT(MISREAD_LEFT))
		rewrite(rows);
	else
		finish_row(rows);
}

static void
write_row(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	const bool fill = rows->purpose == SYNC_FILL;

	rows->mend.step = MEND_WRITE;
	/* What the target held, or zeros for what is lost, change what P and Q have to be, and some
	 * of those who get them may not come back.
	 */
	if (fill && (!target_filling(engine) ||
		     (engine_may_tear(engine) && !MUTANT(MENDED_WHILE_SUSPENDED)))) {
		sync_rows_end(rows, -ENOLINK);
		return;
	}
	marks_begins(engine, &rows->mend.marks);
	sync_rows_keep(rows);
	rows->pending = 1; /* this function */
	for (int position = 0; position < engine->geometry.width; position++) {
		const uint8_t role = role_at(rows, position);
		struct member *writers[2];
		int count = fill ? 0 : engine_writers(engine, row_of(rows), role, writers);

		if (fill && engine->by_role[role] != NULL)
			writers[count++] = engine->by_role[role];
		for (int i = 0; i < count; i++)
			write_mended_chunk(rows, position, writers[i],
					   rows->mend.changed != 0 &&
						   i >= sync_rows_first_writer(
								rows->mend.changed & ROLE(position),
								count));
	}
	if (fill)
		command(rows, engine->target, BACKEND_WRITE, 0,
			sync_rows_chunk(rows, position_of_target(rows), rows->mend.index),
			engine->geometry.chunk_bytes, mended_written);
	if (--rows->pending == 0)
		mend_written(rows);
}

/* --- LOG --- */

void
mend_unlog(struct sync_rows *rows, int result)
{
	if (result != 0)
		write_log_spoil(rows->op.engine, &rows->logged);
	else
		write_log_release(&rows->logged);
	rows->op.engine->write_log->writers -= rows->counts;
	rows->counts = false;
}

static void
mend_logged(struct logged *logged, int error)
{
	struct sync_rows *rows = list_entry(logged, struct sync_rows, logged);

	if (error != 0)
		sync_rows_end(rows, error == -EAGAIN ? -ENOLINK : error);
	else
		write_row(rows);
}

/* Pieces that were passed over, of these columns: nobody knows what stands there. */
static uint32_t
unknown_of(const struct sync_rows *rows, uint32_t begin, uint32_t end)
{
	uint32_t positions = 0;

	for (uint32_t at = begin; at < end; at += MEND_PIECE_BYTES)
		positions |= rows->mend.passed[at / MEND_PIECE_BYTES];
	return MUTANT(UNREAD_LOGGED) ? 0 : positions;
}

/* All of it in these columns, also what is not written: an older record may have something else of that
 * than what P was made from, if it has rotted since.  0 or -ENOMEM.
 */
static int
log_columns(struct sync_rows *rows, uint32_t begin, uint32_t end)
{
	const struct engine *engine = rows->op.engine;
	const uint32_t unknown = unknown_of(rows, begin, end);
	bool begins = true;

	for (int position = 0; position < engine->geometry.width; position++) {
		const struct iov_run run = { &rows->chunks[position], 1, begin };
		const struct log_piece piece = {
			.row = row_of(rows),
			.role = role_at(rows, position),
			.kind = LOG_PIECE_WRITTEN,
			.column_bytes = begin,
			.length_bytes = end - begin,
		};

		if ((engine->missing & ROLE(piece.role)) || (unknown & ROLE(position)) ||
		    (MUTANT(MENDED_LOGGED_IN_PART) && !(rows->mend.changed & ROLE(position))))
			continue;
		if (logged_add(&rows->logged, &piece, run, begins) != 0)
			return -ENOMEM;
		begins = false;
	}
	return 0;
}

/* So much of each chunk that all of it is in one record; a piece, if not all pieces are known. */
static uint32_t
columns_of_record(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;
	const uint32_t width = engine->geometry.width;
	const uint32_t by_bytes = write_log_part_bytes(engine) / width / MEND_PIECE_BYTES;
	const uint32_t by_count = LOG_PIECES_MAX / width;

	if (unknown_of(rows, 0, engine->geometry.chunk_bytes) != 0)
		return MEND_PIECE_BYTES;
	return (by_bytes < by_count ? by_bytes : by_count) * MEND_PIECE_BYTES;
}

static void
log_row(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	const uint32_t all = engine->geometry.chunk_bytes;
	const uint32_t most = write_log_on(engine) ? columns_of_record(rows) : 0;

	if (!write_log_on(engine) || MUTANT(MENDED_UNLOGGED)) {
		write_row(rows);
		return;
	}
	rows->mend.step = MEND_LOG;
	rows->logged.ready = mend_logged;
	rows->logged.since_ms = 0;
	logged_begin(&rows->logged);
	for (int position = 0; position < engine->geometry.width; position++)
		rows->chunks[position] =
			(struct iovec){ sync_rows_chunk(rows, position, rows->mend.index), all };
	for (uint32_t at = 0; at < all; at += most)
		if (log_columns(rows, at, all - at < most ? all : at + most) != 0) {
			sync_rows_end(rows, -ENOMEM);
			return;
		}
	if (rows->logged.count == 0)
		write_row(rows);
	else
		write_log_append(engine, &rows->logged);
}

/* --- MARK --- */

static void
marked(struct region_hold *hold, int error)
{
	struct mend *mend = list_entry(hold, struct mend, marks);
	struct sync_rows *rows = list_entry(mend, struct sync_rows, mend);

	if (error != 0)
		sync_rows_end(rows, error);
	else
		log_row(rows);
}

/* What a member's cache takes of it may be lost; then the row must be known as one that may not
 * fit.  A row that nobody wrote is that already while it is suspect, and its region is dirty since
 * it became so: a resync that makes its parity makes nobody's data of it.
 */
static bool
is_write(const struct sync_rows *rows)
{
	const struct intent *intent = &rows->op.engine->intent;
	const bool nobodys = rows->purpose == SYNC_PARITY &&
			     intent_row_suspect(intent, row_of(rows)) &&
			     intent_row_fresh(intent, row_of(rows)) && !MUTANT(MENDED_WRITTEN);

	return (rows->mend.changed | rows->mend.remade) != 0 && !nobodys;
}

static void
mark_row(struct sync_rows *rows)
{
	struct mend *mend = &rows->mend;

	mend->step = MEND_MARK;
	mend->marks.ready = marked;
	list_init(&mend->marks.node);
	if (!is_write(rows)) {
		write_row(rows);
		return;
	}
	engine_log(rows->op.engine, LOG_DEBUG, "row %llu is mended, more than one chunk of it",
		   (unsigned long long)row_of(rows));
	if (write_log_holds(rows->op.engine) && !MUTANT(MENDED_UNLOGGED)) {
		sync_rows_end(rows, -ENOLINK);
		return;
	}
	rows->op.engine->write_log->writers++;
	rows->counts = true;
	rows->mend.writes = true;
	if (marks_hold(rows->op.engine, &mend->marks, row_of(rows), row_of(rows)))
		log_row(rows);
	else
		marks_wait(rows->op.engine, &mend->marks);
}

/* --- RECORD --- */

static void
loss_on_record(struct lost_waiter *waiter, int error)
{
	struct mend *mend = (struct mend *)((char *)waiter - offsetof(struct mend, waiter));
	struct sync_rows *rows =
		(struct sync_rows *)((char *)mend - offsetof(struct sync_rows, mend));

	if (error != 0)
		sync_rows_end(rows, error);
	else
		mark_row(rows);
}

/* --- what each piece is --- */

/* Positions that lack the piece.  One that is refused is there, perhaps, so it is neither rewritten
 * nor lost.
 */
static uint32_t
lacking(const struct sync_rows *rows, int piece)
{
	uint32_t positions = rows->mend.refused[piece];

	for (int position = 0; position < rows->op.engine->geometry.width; position++)
		if (rows->mend.bad[position][piece])
			positions |= ROLE(position);
	return positions;
}

/* What is missing is what these make of it, by definition. */
static uint32_t
defining(const struct engine *engine, uint32_t absent)
{
	const uint32_t data = geometry_data_positions(&engine->geometry);

	return MUTANT(DEFINITION_NEEDS_ALL)
		       ? ~absent
		       : (data | code_sources(&engine->geometry, absent & data, absent)) & ~absent;
}

/* Can they be made up for? Of a row that proves nothing only what is not data; or what is missing
 * by definition.
 */
static bool
can_be_made(const struct sync_rows *rows, uint32_t positions)
{
	const struct engine *engine = rows->op.engine;
	uint32_t data = positions & geometry_data_positions(&engine->geometry);

	if (!code_bears(&engine->geometry, positions))
		return false;
	if (data == 0 || !engine_has_parity(engine))
		return true;
	switch (engine_trust(engine, row_of(rows))) {
	case ROW_PROVEN:
		return true;
	case ROW_DEFINED:
		return (positions & defining(engine, engine_absent(engine, row_of(rows)))) == 0;
	case ROW_SUSPECT:
		break;
	}
	return false;
}

static void
make_piece(struct sync_rows *rows, uint32_t positions, int piece)
{
	void *chunks[IRAID_MEMBERS_MAX];

	sync_rows_chunks(rows, rows->mend.index, (size_t)piece * MEND_PIECE_BYTES, chunks);
	code_make(&rows->op.engine->geometry, positions, positions, chunks, MEND_PIECE_BYTES);
}

static int
record_columns(struct sync_rows *rows, int position, uint32_t begin, uint32_t end)
{
	struct lost_extent extent = {
		.row = row_of(rows),
		.rows = 1,
		.column_begin = begin,
		.column_end = end,
		.role = role_at(rows, position),
	};

	rows->mend.lost = true;
	return lost_add(rows->op.engine->lost, &extent);
}

/* All of it but what the target alone holds. */
static int
record_lost_piece(struct sync_rows *rows, int position, int piece)
{
	uint32_t at = (uint32_t)piece * MEND_PIECE_BYTES, begin, end;
	const uint32_t all = at + MEND_PIECE_BYTES;
	int error = 0;

	while (error == 0 && holds_piece(rows, position, piece) &&
	       next_held(rows, at, all, &begin, &end)) {
		error = begin > at ? record_columns(rows, position, at, begin) : 0;
		at = end;
	}
	return error == 0 && at < all ? record_columns(rows, position, at, all) : error;
}

/* Too many lack it: their data is lost, and all else fits that. 0, -ENOSPC. */
static int
lose_piece(struct sync_rows *rows, uint32_t positions, int piece)
{
	struct engine *engine = rows->op.engine;

	for (int position = 0; position < engine->geometry.data_chunks; position++) {
		int error = 0;

		if (positions & ROLE(position)) {
			put_lost_piece(rows, position, piece);
			error = record_lost_piece(rows, position, piece);
		}
		if (error != 0)
			return error;
	}
	make_piece(rows, geometry_redundant_positions(&engine->geometry), piece);
	rows->mend.changed |= geometry_redundant_positions(&engine->geometry);
	return 0;
}

/* What the target alone holds is needed, and refused for now. */
static bool
held_is_refused(const struct sync_rows *rows)
{
	uint32_t begin, end;

	if (!rows->mend.held_read || !holds_truth(rows) || MUTANT(HELD_UNREAD_MADE))
		return false;
	for (int piece = 0; piece < pieces_of(rows->op.engine); piece++)
		if (rows->mend.held_refused[piece] &&
		    (rows->mend.taken ||
		     next_held(rows, (uint32_t)piece * MEND_PIECE_BYTES,
			       (uint32_t)(piece + 1) * MEND_PIECE_BYTES, &begin, &end)))
			return true;
	return false;
}

/* What it alone held and can't be read on it any more is lost like anything else: else what is
 * written there next would count as what it held.  0, -ENOSPC.
 */
static int
unhold_gone(struct sync_rows *rows)
{
	uint32_t at, begin, end;
	int error = 0;

	if (!rows->mend.held_read || !holds_truth(rows) || MUTANT(HELD_UNREAD_MADE))
		return 0;
	for (int piece = 0; piece < pieces_of(rows->op.engine); piece++) {
		const uint32_t all = (uint32_t)(piece + 1) * MEND_PIECE_BYTES;

		at = (uint32_t)piece * MEND_PIECE_BYTES;
		while (rows->mend.held_gone[piece] && error == 0 &&
		       next_held(rows, at, all, &begin, &end)) {
			error = record_columns(rows, position_of_target(rows), begin, end);
			at = end;
		}
	}
	return error;
}

/* What was taken from the target may be what the others make of its chunk: then they stay as they
 * are, and no cache has to be flushed before the row is safe.
 */
static void
fit_to_taken(struct sync_rows *rows)
{
	const struct geometry *geometry = &rows->op.engine->geometry;
	const uint32_t absent =
		engine_absent(rows->op.engine, row_of(rows)) & ~geometry_data_positions(geometry);
	void *chunks[IRAID_MEMBERS_MAX];

	sync_rows_chunks(rows, rows->mend.index, 0, chunks);
	rows->mend.changed |= code_check(geometry, absent, chunks, sync_rows_spare(rows, 0),
					 geometry->chunk_bytes);
	if (MUTANT(FITTING_REWRITTEN))
		rows->mend.changed |= geometry_redundant_positions(geometry);
}

/* What it alone holds is taken.  That heals the row if nothing else of the chunk is lost. */
static void
take_held(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	const uint8_t role = (uint8_t)engine->target->role;
	const uint8_t *held = sync_rows_spare(rows, SYNC_HELD);
	uint8_t *chunk = sync_rows_chunk(rows, position_of_target(rows), rows->mend.index);
	uint32_t begin, end, from = 0;
	bool taken = rows->mend.taken;
	uint8_t flags;

	rows->mend.heals =
		(engine->absence[role].sure || MUTANT(HEALED_BY_WORD)) &&
		!engine->target->identity.write_cache &&
		lost_overlaps(engine->lost, row_of(rows), role, 0, engine->geometry.chunk_bytes);
	while (lost_next(engine->lost, row_of(rows), role, from, &begin, &end, &flags)) {
		from = end;
		if (!(flags & LOST_HELD)) {
			rows->mend.heals = false;
			continue;
		}
		memcpy(chunk + begin, held + begin, end - begin);
		taken = true;
	}
	if (taken)
		fit_to_taken(rows);
}

/* The row proves nothing, and what is missing of it is not on record: is there another way to know
 * what the target must get? 0, -ENODATA.
 */
static int
take_unrecorded(struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;
	struct mend *mend = &rows->mend;
	const int position = rows->purpose == SYNC_FILL ? position_of_target(rows) : -1;

	if (position < 0)
		return 0;
	if (!sync_fill_known(engine, row_of(rows)))
		return -ENODATA;
	mend->taken = holds_truth(rows) && sync_target_knows(engine, row_of(rows));
	if (!mend->taken)
		return 0;
	if (MUTANT(HELD_UNREAD_MADE) && mend->held_bad)
		return -ENODATA;
	for (int piece = 0; piece < pieces_of(engine); piece++)
		if (mend->held_gone[piece])
			return -ENODATA;
	memcpy(sync_rows_chunk(rows, position, mend->index), sync_rows_spare(rows, SYNC_HELD),
	       engine->geometry.chunk_bytes);
	memset(mend->bad[position], 0, sizeof(mend->bad[position]));
	return 0;
}

/* The target's chunk is copied from the member in its place, which has each piece that can't be
 * made: what others lack of the row is not asked for, and may be read tomorrow.
 */
static bool
is_copied(const struct sync_rows *rows)
{
	const struct engine *engine = rows->op.engine;

	if (rows->purpose != SYNC_FILL || engine->by_role[engine->target->role] == NULL ||
	    MUTANT(COPY_NEEDS_ALL))
		return false;
	for (int piece = 0; piece < pieces_of(engine); piece++) {
		const uint32_t positions = lacking(rows, piece);

		if ((positions & ROLE(position_of_target(rows))) && !can_be_made(rows, positions))
			return false;
	}
	return true;
}

/* So it is with each piece for itself, but that P and Q are written as a whole where another piece
 * of the row is lost.
 */
static bool
may_pass_over(const struct sync_rows *rows, int piece, bool copied)
{
	const struct engine *engine = rows->op.engine;
	const uint32_t positions = lacking(rows, piece);

	if (rows->purpose != SYNC_FILL || engine->by_role[engine->target->role] == NULL)
		return false;
	return copied || (!MUTANT(PASSED_BY_ROW) &&
			  !(positions & (ROLE(position_of_target(rows)) |
					 geometry_redundant_positions(&engine->geometry))));
}

static void
pass_piece_over(struct sync_rows *rows, int piece)
{
	rows->mend.passed[piece] = lacking(rows, piece);
	for (int position = 0; position < rows->op.engine->geometry.width; position++)
		rows->mend.bad[position][piece] = false;
}

/* What is refused is needed: some piece can't be made without it. */
static bool
needs_refused(const struct sync_rows *rows)
{
	const bool copied = is_copied(rows);

	for (int piece = 0; piece < pieces_of(rows->op.engine); piece++)
		if (rows->mend.refused[piece] != 0 && !can_be_made(rows, lacking(rows, piece)) &&
		    !may_pass_over(rows, piece, copied))
			return true;
	return false;
}

static void
compare_row(struct sync_rows *rows)
{
	uint32_t wrong = sync_rows_differ(rows, rows->mend.index);

	if (wrong == 0)
		return;
	rows->differed |= 1u << rows->mend.index;
	if (rows->purpose == SYNC_PARITY)
		rows->mend.changed |= wrong;
}

/* Some chunk is there, and nobody's: its loss may be on record, and what is left counts as right then,
 * or not be yet, and then it would be taken for what P makes of it.
 */
static bool
has_lost_reader(const struct sync_rows *rows)
{
	return (rows->op.engine->missing & ~rows->mend.missing) != 0 &&
	       !MUTANT(MENDED_WITHOUT_READER);
}

static void
settle(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;
	bool copied;

	if (rows->doubts != engine->intent.doubts || has_lost_reader(rows) ||
	    (rows->purpose == SYNC_FILL && !target_filling(engine)) ||
	    /* it counts only since the others were read, and was not read itself */
	    (holds_truth(rows) && !rows->mend.held_read)) {
		sync_rows_end(rows, -ENOLINK);
		return;
	}
	if (take_unrecorded(rows) != 0) {
		sync_rows_end(rows, -ENODATA);
		return;
	}
	if (needs_refused(rows) || held_is_refused(rows)) {
		sync_rows_end(rows, -EIO);
		return;
	}
	copied = is_copied(rows);
	for (int piece = 0; piece < pieces_of(engine); piece++) {
		const uint32_t positions = lacking(rows, piece);

		if (can_be_made(rows, positions)) {
			if (positions != 0)
				make_piece(rows, positions, piece);
			/* What can't be read today may be read tomorrow, as it was: a cache that
			 * takes the new piece along leaves a row that does not fit.
			 */
			if (intent_row_suspect(&engine->intent, row_of(rows)) &&
			    !MUTANT(MENDED_UNNOTED))
				rows->mend.remade |= positions & ~rows->mend.refused[piece] &
						     ~engine_absent(engine, row_of(rows));
			if (MUTANT(REMADE_WHOLE))
				rows->mend.changed |=
					positions & ~engine_absent(engine, row_of(rows));
			continue;
		}
		if (may_pass_over(rows, piece, copied)) {
			pass_piece_over(rows, piece);
			continue;
		}
		if (rows->purpose != SYNC_FILL) {
			row_done(rows, false);
			return;
		}
		if (lose_piece(rows, positions, piece) != 0) {
			sync_rows_end(rows, -ENOSPC);
			return;
		}
	}
	if (unhold_gone(rows) != 0) {
		sync_rows_end(rows, -ENOSPC);
		return;
	}
	if (rows->purpose == SYNC_PARITY || rows->purpose == SYNC_CHECK)
		compare_row(rows);
	if (rows->mend.held_read && holds_truth(rows) &&
	    !(rows->mend.held_bad && MUTANT(HELD_UNREAD_MADE)))
		take_held(rows);
	if (!rows->mend.lost) {
		mark_row(rows);
		return;
	}
	rows->mend.step = MEND_RECORD;
	rows->mend.waiter.done = loss_on_record;
	list_init(&rows->mend.waiter.node);
	engine_event(engine, EVENT_DATA_LOST, LOG_ERR, engine->target,
		     "row %llu: sectors that can't be read on another member either are lost",
		     (unsigned long long)row_of(rows));
	lost_io_wait(engine, &rows->mend.waiter);
}

/* --- READ_PIECES --- */

static void
pieces_read(struct sync_rows *rows)
{
	const bool passed = (rows->purpose == SYNC_PARITY || rows->purpose == SYNC_CHECK) &&
			    !MUTANT(REFUSAL_STOPS_ALL);

	rows->op.engine->activity++;
	if (rows->error == -EIO && passed)
		/* it may be refused for good, and the others must not wait for it */
		row_done(rows, false);
	else if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else
		settle(rows);
}

static void
piece_read(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	/* Only a medium error says that it is gone.  Any other refusal may pass, and is no reason
	 * to give data up.
	 */
	if (result == -ENODATA ||
	    (result == -EIO && (MUTANT(MEND_EIO_IS_LOSS) || MUTANT(REFUSED_REWRITTEN))))
		rows->mend.bad[position_of(rows, mio)][piece_of(rows, mio)] = true;
	else if (result == -EIO && rows->purpose == SYNC_FILL && !MUTANT(REFUSAL_AWAITED))
		rows->mend.refused[piece_of(rows, mio)] |= ROLE(position_of(rows, mio));
	else if (result != 0 && (rows->error == 0 || rows->error == -EIO))
		rows->error = result; /* who is there outranks what is refused */
	if (--rows->pending == 0)
		pieces_read(rows);
}

static void
held_piece_read(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	rows->mend.held_gone[piece_of(rows, mio)] = result == -ENODATA;
	rows->mend.held_refused[piece_of(rows, mio)] = result == -EIO;
	if (result != 0 && !is_unreadable(result))
		rows->error = result;
	if (--rows->pending == 0)
		pieces_read(rows);
}

static void
read_held_pieces(struct sync_rows *rows)
{
	for (int piece = 0; piece < pieces_of(rows->op.engine); piece++)
		command(rows, rows->op.engine->target, BACKEND_READ,
			(uint32_t)piece * MEND_PIECE_BYTES,
			sync_rows_spare(rows, SYNC_HELD) + (size_t)piece * MEND_PIECE_BYTES,
			MEND_PIECE_BYTES, held_piece_read);
}

static void
read_pieces(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	rows->mend.step = MEND_READ_PIECES;
	rows->pending = 1; /* this function */
	for (int position = 0; position < engine->geometry.width; position++) {
		struct member *member = reader(rows, position);

		for (int piece = 0; piece < pieces_of(engine); piece++)
			if (member == NULL ||
			    (!(rows->mend.read & ROLE(position)) && !MUTANT(UNREAD_COUNTS)))
				rows->mend.bad[position][piece] = true;
			else if (rows->mend.chunk_bad[position])
				command(rows, member, BACKEND_READ,
					(uint32_t)piece * MEND_PIECE_BYTES,
					sync_rows_chunk(rows, position, rows->mend.index) +
						(size_t)piece * MEND_PIECE_BYTES,
					MEND_PIECE_BYTES, piece_read);
	}
	if (rows->mend.held_bad && target_filling(engine) && !MUTANT(HELD_UNREAD_MADE))
		read_held_pieces(rows);
	if (--rows->pending == 0)
		pieces_read(rows);
}

/* --- READ_CHUNKS --- */

static void
chunks_read(struct sync_rows *rows)
{
	rows->op.engine->activity++;
	if (rows->error != 0)
		sync_rows_end(rows, rows->error);
	else
		read_pieces(rows);
}

/* What the target held, not what a member in its place holds. */
static bool
is_held(const struct sync_rows *rows, const struct member_io *mio)
{
	return rows->purpose == SYNC_FILL && mio->member == rows->op.engine->target;
}

static void
chunk_read(struct member_io *mio, int result)
{
	struct sync_rows *rows = mio->owner;

	if (is_unreadable(result))
		*(is_held(rows, mio) ? &rows->mend.held_bad
				     : &rows->mend.chunk_bad[position_of(rows, mio)]) = true;
	else if (result != 0)
		rows->error = result;
	if (--rows->pending == 0)
		chunks_read(rows);
}

static void
mend_row(struct sync_rows *rows)
{
	struct engine *engine = rows->op.engine;

	rows->mend.missing = engine->missing;
	rows->pending = 1; /* this function */
	for (int position = 0; position < engine->geometry.width; position++) {
		struct member *member = reader(rows, position);

		if (member == NULL)
			continue;
		rows->mend.read |= ROLE(position);
		command(rows, member, BACKEND_READ, 0,
			sync_rows_chunk(rows, position, rows->mend.index),
			engine->geometry.chunk_bytes, chunk_read);
	}
	rows->mend.held_read = holds_truth(rows);
	if (rows->mend.held_read)
		command(rows, engine->target, BACKEND_READ, 0, sync_rows_spare(rows, SYNC_HELD),
			engine->geometry.chunk_bytes, chunk_read);
	if (--rows->pending == 0)
		chunks_read(rows);
}

void
mend_rows(struct sync_rows *rows, int index)
{
	rows->error = 0;
	memset(&rows->mend, 0, sizeof(rows->mend));
	rows->mend.index = index;
	if (rows->purpose == SYNC_FILL && !target_filling(rows->op.engine))
		sync_rows_end(rows, -ENOLINK);
	else if (rows->purpose == SYNC_FILL && position_of_target(rows) < 0)
		row_done(rows, true);
	else
		mend_row(rows);
}
