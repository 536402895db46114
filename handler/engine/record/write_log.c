/* write_log.c - records of the write log: group commit, copies, the tail.
 *
 * What waits while records are under way goes into the next one.  A record's bytes are copied, so
 * that they are the same on all of its members whatever becomes of the operation.
 *
 * The tail rises with a flush, which is asked for when half of the room is used, or there is none.
 * Room: log_room.c.  Its beginning and end: log_opening.c.
 */
#include "internal.h"
#include "engine/link/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u /* after a flush that failed */

/* --- what an operation logs --- */

void
logged_begin(struct logged *logged)
{
	logged->count = 0;
	logged->next = 0;
}

int
logged_add(struct logged *logged, const struct log_piece *piece, struct iov_run bytes,
	   bool begins_part)
{
	if (logged->count == logged->capacity) {
		const int capacity = logged->capacity > 0 ? 2 * logged->capacity : 16;
		struct logged_piece *grown =
			realloc(logged->pieces, (size_t)capacity * sizeof(*grown));

		if (grown == NULL)
			return -ENOMEM;
		logged->pieces = grown;
		logged->capacity = capacity;
	}
	logged->pieces[logged->count++] = (struct logged_piece){
		.piece = *piece,
		.bytes = bytes,
		.begins_part = begins_part,
	};
	return 0;
}

void
logged_free(struct logged *logged)
{
	free(logged->pieces);
	logged->pieces = NULL;
	logged->capacity = 0;
}

void
write_log_append(struct engine *engine, struct logged *logged)
{
	struct write_log *log = engine->write_log;

	engine->activity++;
	if (log->failed || log->spoiled) {
		logged->ready(logged, -EAGAIN);
		return;
	}
	log->had_pending |= logged->is_held;
	/* One that begins again keeps others' records alive until it has ended. */
	if (logged->first != 0 || logged->writes_back)
		list_prepend(&log->waiting, &logged->node);
	else
		list_append(&log->waiting, &logged->node);
}

void
write_log_keep(struct engine *engine, struct logged *logged, uint64_t sequence)
{
	logged->first = logged->last = sequence;
	list_append(&engine->write_log->live, &logged->live);
	engine->write_log->had_pending |= logged->is_held;
}

bool
write_log_had_pending(const struct engine *engine)
{
	return engine->write_log->had_pending;
}

void
write_log_release(struct logged *logged)
{
	list_remove(&logged->node);
	list_remove(&logged->live);
	logged->first = logged->last = 0;
}

/* The opening ends, and what is live stays until then. */
static void
spoil(struct engine *engine)
{
	engine->write_log->spoiled = true;
	engine->write_log->full = false;
	engine->activity++;
}

void
write_log_spoil(struct engine *engine, struct logged *logged)
{
	if (logged->first != 0 && engine->write_log->on)
		spoil(engine);
	write_log_release(logged);
	engine->activity++;
}

static void
tell(struct engine *engine, struct logged *logged, int error)
{
	list_remove(&logged->node);
	engine->activity++;
	logged->ready(logged, error);
}

static void
tell_durable(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	struct list durable;
	struct list *node;

	list_init(&durable);
	for (node = log->waiting.next; node != &log->waiting;) {
		struct logged *logged = list_entry(node, struct logged, node);

		node = node->next;
		if (logged->next < logged->count ||
		    (logged->last > log->durable && !MUTANT(LOGGED_UNAWAITED)))
			continue;
		list_remove(&logged->node);
		list_append(&durable, &logged->node);
	}
	while ((node = list_take(&durable)) != NULL)
		tell(engine, list_entry(node, struct logged, node), 0);
}

static void
tell_all(struct engine *engine, int error)
{
	struct list *node;

	while ((node = list_take(&engine->write_log->waiting)) != NULL)
		tell(engine, list_entry(node, struct logged, node), error);
}

void
write_log_overdue(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	for (struct list *node = log->waiting.next, *next; node != &log->waiting; node = next) {
		struct logged *logged = list_entry(node, struct logged, node);

		next = node->next;
		if (overdue_since(engine, logged->since_ms))
			tell(engine, logged, -ETIMEDOUT);
	}
}

/* --- a record --- */

static void copy_written(struct member_io *mio, int result);

static void
send_copy(struct record_io *record, int role, bool tail_only)
{
	struct engine *engine = record->engine;
	struct write_log *log = engine->write_log;
	struct log_place *place = &log->places[role];
	struct iovec iov = { record->bytes, record->length_bytes };
	struct member_io *mio;
	uint32_t segment, at;

	if (!log_find_room(log, role, record->length_bytes, tail_only, &segment, &at))
		assert(false); /* may_take() */
	place->segment = segment;
	place->used_bytes = at + record->length_bytes;
	place->last[segment] = record->sequence;
	record->asked |= ROLE(role);
	mio = member_io_create(engine->by_role[role], BACKEND_WRITE,
			       engine->record.areas[AREA_LOG - 1].offset_bytes +
				       (uint64_t)segment * log->segment_bytes + at,
			       IO_LOG);
	mio->io.fua = !MUTANT(LOGGED_IN_CACHE);
	member_io_append(mio, &iov, 1, record->length_bytes);
	record->pending++;
	member_io_submit(mio, copy_written, record);
}

static void
fail(struct engine *engine, int error)
{
	struct write_log *log = engine->write_log;

	if (!log->failed && error != -ESHUTDOWN)
		engine_log(engine, LOG_ERR, "the write log can't be written: it is given up");
	log->failed = true;
	tell_all(engine, error == -ESHUTDOWN ? error : -EAGAIN);
}

/* All up to some record are durable. */
static void
advance(struct write_log *log)
{
	bool again = true;

	while (again) {
		again = false;
		for (int i = 0; i < LOG_UNDER_WAY; i++) {
			struct record_io *record = &log->records[i];

			if (!record->busy || !record->durable ||
			    (record->sequence != log->durable + 1 && !MUTANT(LOGGED_OUT_OF_ORDER)))
				continue;
			if (record->sequence > log->durable)
				log->durable = record->sequence;
			if (record->tail > log->tail_durable) {
				while (log->tail_durable < record->tail)
					log_zeros_pass(log, log->tail_durable++);
				log->pressed = false;
			}
			record->busy = false;
			again = true;
		}
	}
}

/* Those that have an answer from all of their members. */
static void
end_records(struct write_log *log)
{
	if (MUTANT(GAP_AWAITED))
		return;
	for (int i = 0; i < LOG_UNDER_WAY; i++)
		log->records[i].busy &= log->records[i].pending > 0;
}

static void
record_written(struct record_io *record)
{
	struct engine *engine = record->engine;
	struct write_log *log = engine->write_log;

	engine->activity++;
	log->gap |= record->failed;
	if (log->gap || log->failed) {
		record->busy = false;
		end_records(log);
		return;
	}
	record->durable = true;
	advance(log);
	log->blocked = false; /* is looked at anew */
	tell_durable(engine);
}

/* The copy goes to another member.  Where those have no room now it is not theirs to give up what is
 * kept for the tail: the log begins anew.  Where there is nobody else it is given up.
 */
static void
copy_refused(struct record_io *record, int role)
{
	struct engine *engine = record->engine;
	struct write_log *log = engine->write_log;
	const bool tail_only = record->length_bytes == LOG_BLOCK_BYTES || MUTANT(REFUSED_TAKES_ALL);
	bool anyone = false;

	log->places[role].refuses = true;
	for (int other = 0; other < engine->geometry.members; other++) {
		const struct member *member = engine->by_role[other];

		if ((record->asked & ROLE(other)) || member == NULL || !member->in_sync ||
		    log->places[other].refuses)
			continue;
		if (log_may_take(engine, other, record->length_bytes, tail_only)) {
			send_copy(record, other, tail_only);
			return;
		}
		anyone = true;
	}
	record->failed = true;
	if (!anyone) {
		fail(engine, -EIO);
		return;
	}
	engine_log(engine, LOG_WARNING,
		   "no other member has room for that record: the write log begins anew");
	spoil(engine);
}

static void
copy_written(struct member_io *mio, int result)
{
	struct record_io *record = mio->owner;
	struct engine *engine = record->engine;

	if (result == -ESHUTDOWN) {
		record->failed = true;
		fail(engine, -ESHUTDOWN);
	} else if (result != 0 && result != -ENOLINK && !MUTANT(LOG_REFUSAL_IGNORED)) {
		engine_log(engine, LOG_ERR, "member %s refused a record of the write log: %s",
			   mio->member->backend->label, strerror(-result));
		copy_refused(record, mio->member->role);
	}
	if (--record->pending == 0)
		record_written(record);
}

static struct record_io *
free_record(struct write_log *log)
{
	for (int i = 0; i < LOG_UNDER_WAY; i++)
		if (!log->records[i].busy)
			return &log->records[i];
	return NULL;
}

static void
send_record(struct engine *engine, struct record_io *record, const struct log_piece *pieces,
	    int count, uint32_t payload_bytes, uint32_t copies)
{
	struct write_log *log = engine->write_log;
	struct iovec payload = { record->bytes + LOG_BLOCK_BYTES, payload_bytes };
	struct log_header header = {
		.key = engine->record.log_key,
		.sequence = log->next,
		.tail = log->tail,
		.durable = log->durable,
		.predecessor = log->next == 1 ? 0 : log->digest,
		.copies = copies,
		.piece_count = (uint16_t)count,
		.payload_blocks = (uint16_t)log_payload_blocks(payload_bytes),
		.epoch = log->epoch,
		.run_first = log->run_first,
	};

	memcpy(header.volume_uuid, engine->options.volume_uuid, 16);
	memset(record->bytes + LOG_BLOCK_BYTES + payload_bytes, 0,
	       header.payload_blocks * LOG_BLOCK_BYTES - payload_bytes);
	log->digest = log_encode(&header, pieces, &engine->geometry, &payload,
				 payload_bytes > 0 ? 1 : 0, record->bytes);
	record->length_bytes = (1u + header.payload_blocks) * LOG_BLOCK_BYTES;
	record->sequence = log->next++;
	record->tail = log->tail;
	record->asked = 0;
	record->busy = true;
	record->failed = record->durable = false;
	log->sizes.bytes[record->sequence % LOG_LIVE_MAX] = record->length_bytes;
	log->sizes.sum += record->length_bytes;
	log->sizes.ever += record->length_bytes;
	log_zeros_note(log, record->sequence, pieces, count);
	log->turn = (log->turn + 1) % engine->geometry.members;
	record->pending = 1; /* this function */
	for (int role = 0; role < engine->geometry.members; role++)
		if (copies & ROLE(role))
			send_copy(record, role, count == 0);
	if (--record->pending == 0)
		record_written(record);
	engine->activity++;
}

/* --- what waits becomes a record --- */

static int
part_end(const struct logged *logged, int begin)
{
	int end = begin + 1;

	while (end < logged->count && !logged->pieces[end].begins_part)
		end++;
	return end;
}

/* Whole parts that fit into one record, in the order in which they came.  take: they are copied
 * into it, and belong to it; else only their bytes are counted.  Of one that may not begin yet
 * nothing is taken, and the log is blocked.
 */
static int
collect(struct engine *engine, struct record_io *record, struct log_piece *pieces, uint32_t *bytes,
	bool take)
{
	struct write_log *log = engine->write_log;
	const uint32_t room = write_log_part_bytes(engine);
	const uint64_t promised =
		log_promised_bytes(log); /* the same, whether it takes or counts */
	int count = 0;

	*bytes = 0;
	for (struct list *node = log->waiting.next; node != &log->waiting; node = node->next) {
		struct logged *logged = list_entry(node, struct logged, node);
		int begin = logged->next;

		if (begin == 0 && logged->count > 0 &&
		    !log_may_begin(engine, logged, *bytes, promised)) {
			log->blocked |= count == 0;
			return count;
		}
		while (begin < logged->count) {
			const int end = part_end(logged, begin);
			const uint32_t more = log_pieces_bytes(logged, begin, end);

			if (count + end - begin > (int)LOG_PIECES_MAX || more > room - *bytes)
				return count;
			for (; begin < end; begin++) {
				const struct logged_piece *piece = &logged->pieces[begin];
				struct iovec into = { record->bytes + LOG_BLOCK_BYTES + *bytes,
						      piece->piece.length_bytes };

				pieces[count++] = piece->piece;
				*bytes += piece->piece.length_bytes;
				if (take && piece->piece.length_bytes > 0)
					/* one source: a copy */
					parity_xor_runs((struct iov_run){ &into, 1, 0 },
							&piece->bytes, 1, into.iov_len);
			}
			if (!take)
				continue;
			logged->next = begin;
			logged->last = log->next;
			if (logged->first == 0) {
				logged->first = log->next;
				list_append(&log->live, &logged->live);
			}
		}
	}
	return count;
}

/* False: nothing waits, or it has to. */
static bool
send_next(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	struct record_io *record = free_record(log);
	struct log_piece pieces[LOG_PIECES_MAX];
	uint32_t bytes, copies;
	int count;

	if (record == NULL || (count = collect(engine, record, pieces, &bytes, false)) == 0)
		return false;
	copies =
		log_choose_copies(engine, (1 + log_payload_blocks(bytes)) * LOG_BLOCK_BYTES, false);
	if (copies == 0 || !log_has_room_for(engine, bytes)) {
		log->blocked = true;
		return false;
	}
	collect(engine, record, pieces, &bytes, true);
	send_record(engine, record, pieces, count, bytes, copies);
	return true;
}

/* --- the tail --- */

/* All before it are in their rows, though perhaps in caches yet. */
static uint64_t
written_to(const struct write_log *log)
{
	return list_empty(&log->live) ? log->next
				      : list_entry(log->live.next, struct logged, live)->first;
}

static bool
may_raise_tail(const struct engine *engine)
{
	return !engine->write_log->failed && !engine->write_log->spoiled;
}

/* What a cache took along stands in live records only. */
static void
look_for_lost_caches(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	if (log->cache_losses == engine->cache_losses || log->spoiled ||
	    MUTANT(TAIL_OVER_LOST_CACHE))
		return;
	spoil(engine);
}

static void
flushed(struct flush_waiter *waiter, int result)
{
	struct write_log *log = list_entry(waiter, struct write_log, flush);
	struct engine *engine = log->engine;

	log->flushing = false;
	engine->activity++;
	if (result != 0)
		log->flush_again_ms = engine->now_ms + RETRY_MS;
	look_for_lost_caches(engine);
	if (result != 0 || !log->on || !may_raise_tail(engine))
		return;
	for (; log->tail < log->flushing_to; log->tail++)
		log->sizes.sum -= log->sizes.bytes[log->tail % LOG_LIVE_MAX];
}

static void
flush(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	uint64_t to = MUTANT(TAIL_UNWRITTEN) ? log->durable + 1 : written_to(log);

	if (to > log->durable + 1)
		to = log->durable + 1;
	if (log->flushing && MUTANT(TAIL_FLUSHED_LATER))
		log->flushing_to = to;
	/* One that ends after the next opening has begun would speak of other records. */
	if (log->flushing || to <= log->tail || !may_raise_tail(engine) ||
	    engine->now_ms < log->flush_again_ms || log->step > LOG_DRAINS)
		return;
	/* a start may have no memory yet for what it has found in the log: nothing speaks for that */
	if (engine->phase < PHASE_RUNNING && !MUTANT(TAIL_BEFORE_HANDED_OVER))
		return;
	log->flushing = true;
	log->flushing_to = to;
	log->flush = (struct flush_waiter){ .done = flushed, .since_ms = engine->now_ms };
	list_init(&log->flush.node);
	if (MUTANT(TAIL_UNFLUSHED))
		flushed(&log->flush, 0);
	else
		flush_join(engine, &log->flush);
}

uint64_t
write_log_deadline(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log->on && log->flush_again_ms > engine->now_ms ? log->flush_again_ms : UINT64_MAX;
}

/* A record that says nothing but the tail, where that gives room. */
static void
tell_tail(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	struct record_io *record = free_record(log);
	uint32_t copies;

	for (int i = 0; i < LOG_UNDER_WAY; i++)
		if (log->records[i].busy && log->records[i].tail == log->tail)
			return; /* one is on its way */
	if (record == NULL || log->tail == log->tail_durable ||
	    (copies = log_choose_copies(engine, LOG_BLOCK_BYTES, true)) == 0)
		return;
	send_record(engine, record, NULL, 0, 0, copies);
}

/* It waits itself, or for another that waits. */
static bool
is_waiting(const struct logged *logged, bool any_writes_back)
{
	return !list_empty(&logged->node) || (logged->is_held && any_writes_back);
}

/* All that is live belongs to operations that wait for room: none of them will make any.  Nor will what
 * is done with, if too few members have room to be told: behind a crash that is so.
 */
static bool
is_stuck(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;
	const bool untold = log->tail != log->tail_durable;
	/* else there is room for that always: a segment of each is kept for it */
	const bool may_have_no_room = log->run_first > 1 && engine->evicting == 0;

	for (int i = 0; i < LOG_UNDER_WAY; i++)
		if (log->records[i].busy)
			return false; /* one that tells the tail, if there was room for that */
	if (!log->blocked || list_empty(&log->waiting) || log->flushing ||
	    written_to(log) > log->tail ||
	    (untold ? !may_have_no_room || MUTANT(TAIL_UNTOLD) : list_empty(&log->live)))
		return false;
	for (const struct list *node = log->live.next; node != &log->live; node = node->next)
		if (!is_waiting(list_entry(node, struct logged, live), log_makes_room(log)))
			return false;
	return true;
}

/* Small writes that there is no room for are written to their rows: that makes room.  And while the
 * log drains nobody waits for room of one that may not go on before it has.
 */
static void
turn_away(struct engine *engine)
{
	const bool drains = engine->write_log->step >= LOG_DRAINS && !MUTANT(DRAIN_AWAITS_ROOM);
	struct list *next;

	for (struct list *node = engine->write_log->waiting.next;
	     node != &engine->write_log->waiting; node = next) {
		struct logged *logged = list_entry(node, struct logged, node);

		next = node->next;
		if ((logged->is_held && logged->next < logged->count) ||
		    (drains && logged->next == 0 && logged->first == 0))
			tell(engine, logged, -EAGAIN);
	}
}

void
write_log_run(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	bool many_zeros;

	if (engine->fenced || engine->phase >= PHASE_RELEASE) {
		if (!list_empty(&log->waiting))
			tell_all(engine, -ESHUTDOWN);
		return;
	}
	if (!log->on)
		return;
	look_for_lost_caches(engine);
	if (log->spoiled || log->failed) {
		if (!list_empty(&log->waiting))
			tell_all(engine, -EAGAIN);
		return;
	}
	while (send_next(engine))
		;
	many_zeros = log_zeros_are_many(engine);
	if (log->blocked || log->pressed || many_zeros ||
	    log->sizes.sum > log_live_bytes_max(engine) / 2 ||
	    (engine->options.log == LOG_MODE_ALWAYS &&
	     log->sizes.sum > write_log_window_bytes(engine)))
		flush(engine);
	if (log->blocked || log->pressed || many_zeros)
		tell_tail(engine);
	if (log->blocked)
		turn_away(engine);
	if (is_stuck(engine)) {
		engine_log(engine, LOG_WARNING, "the write log has no room left: it begins anew");
		spoil(engine);
		log->full = !log->cautious; /* else it is closed: that helps always */
	}
}
