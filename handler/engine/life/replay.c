/* replay.c - a start writes to rows what a crash left in the write log.
 *
 *	READS    all logs, and what is to be replayed is decided (state/log_replay.c)
 *	  v
 *	LOADS    those records, from a whole copy each
 *	  v
 *	COPIES   a record with too few whole copies gets more: this may be interrupted, too
 *	  v
 *	WRITES   each chunk once, with what all records make of it
 *	  v
 *	FLUSHES  all members; again from WRITES if a cache was lost meanwhile
 *	  v
 *	DONE     the superblocks name another opening, or none
 *
 * What was acknowledged and is in no row yet is not written here, for its redundancy is not made: the
 * opening stays, and write_back.c goes on with it.
 *
 * The superblocks of this start are durable before: who is out lacks what is written here, for its
 * regions were marked before the records were.  Whatever goes wrong begins again with READS.
 */
#include "replay.h"
#include "internal.h"
#include "log_mode.h"
#include "engine/io/io.h"
#include "engine/link/link.h"
#include "engine/record/write_log.h"
#include "state/log_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u
#define WRITES_MAX 16  /* at a time */
#define LOADS_MAX 8    /* the same */
#define REFUSED_MAX 64 /* rows that a member refused to write; with more, all are suspect */

enum replay_step {
	REPLAY_READS,
	REPLAY_LOADS,
	REPLAY_COPIES,
	REPLAY_WRITES,
	REPLAY_FLUSHES,
	REPLAY_DONE,
	REPLAY_REFUSED, /* a later release wrote it */
};

struct scan { /* of one member's log */
	struct replay *replay;
	uint8_t role;
	uint8_t *bytes; /* a segment */
	uint32_t segment;
	uint32_t block; /* of the segment, if it is read block by block; UINT32_MAX: as a whole */
	bool ended;
	bool hides; /* some of it can't be read */
};

#define IMAGE_BUCKETS 1024u

struct image { /* of a row: what is to be written there, and is not yet */
	struct image *next;
	uint64_t row;
	uint8_t *set; /* by block of its data */
	uint8_t bytes[];
};

struct loaded { /* a record that is replayed */
	uint8_t *bytes;
	uint32_t length_bytes, digest;
	struct log_header header;
	struct log_piece pieces[LOG_PIECES_MAX];
};

struct part { /* of a chunk, as one record has it */
	uint64_t row;
	const uint8_t *bytes; /* NULL: zeros */
	uint32_t column_bytes, length_bytes;
	uint32_t order; /* of its record */
	uint8_t role;
};

struct replay {
	struct engine *engine;
	enum replay_step step;
	int pending;
	int error;
	uint64_t not_before_ms;
	uint32_t segment_bytes, segments;
	struct scan scans[IRAID_MEMBERS_MAX];
	struct log_copy *copies;
	size_t copy_count, copy_capacity;
	struct log_replay decided;
	struct loaded *loaded; /* decided.end - decided.first */
	size_t next;	       /* record, or part, whose turn it is */
	struct part *parts;
	size_t part_count, part_capacity;
	struct image *images[IMAGE_BUCKETS];
	bool resumed;			   /* the opening goes on, for there are images */
	bool doubtful;			   /* ... and not all rows may fit */
	uint32_t place[IRAID_MEMBERS_MAX]; /* by role: where copies go, bytes into its log */
	uint64_t refused[REFUSED_MAX];
	int refused_count;
	uint32_t cache_losses;
	struct flush_waiter flush;
	uint64_t record;  /* generation of superblocks; 0: not yet */
	const char *hole; /* why nothing is replayed; NULL: all was */
};

static bool
is_active(const struct replay *replay)
{
	return replay->engine->phase == PHASE_REPLAY;
}

static uint64_t
records(const struct replay *replay)
{
	return replay->decided.end - replay->decided.first;
}

/* Of one bucket: all, or those that hold nothing any more. */
static void
forget_images(struct image **link, bool all)
{
	while (*link != NULL) {
		struct image *image = *link;

		if (!all && image->set != NULL) {
			link = &image->next;
			continue;
		}
		*link = image->next;
		free(image->set);
		free(image);
	}
}

static void
forget(struct replay *replay)
{
	for (uint64_t i = 0; replay->loaded != NULL && i < records(replay); i++)
		free(replay->loaded[i].bytes);
	free(replay->loaded);
	replay->loaded = NULL;
	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		forget_images(&replay->images[i], true);
	free(replay->parts);
	replay->parts = NULL;
	replay->part_count = replay->part_capacity = 0;
	free(replay->copies);
	replay->copies = NULL;
	replay->copy_count = replay->copy_capacity = 0;
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++) {
		free(replay->scans[role].bytes);
		replay->scans[role].bytes = NULL;
	}
}

static void
enter(struct replay *replay, enum replay_step step)
{
	replay->step = step;
	replay->next = 0;
	replay->engine->activity++;
}

/* --- commands --- */

static uint64_t
log_offset(const struct replay *replay)
{
	return replay->engine->record.areas[AREA_LOG - 1].offset_bytes;
}

static void
command(struct replay *replay, struct member *member, enum backend_op op, uint64_t offset_bytes,
	uint8_t *bytes, uint32_t length_bytes, void (*done)(struct member_io *mio, int result),
	void *owner)
{
	const bool in_log = offset_bytes < replay->engine->data_offset_bytes;
	struct iovec iov = { bytes, length_bytes };
	struct member_io *mio = member_io_try(member, op, offset_bytes, in_log ? IO_LOG : IO_MAP);

	if (mio == NULL) {
		replay->error = -ENOMEM;
		return;
	}
	mio->io.fua = in_log && op == BACKEND_WRITE;
	member_io_append(mio, &iov, 1, length_bytes);
	replay->pending++;
	member_io_submit(mio, done, owner);
}

/* --- READS --- */

static struct log_copy *
new_copy(struct replay *replay)
{
	if (replay->copy_count == replay->copy_capacity) {
		const size_t capacity = replay->copy_capacity > 0 ? 2 * replay->copy_capacity : 256;
		struct log_copy *grown = realloc(replay->copies, capacity * sizeof(*grown));

		if (grown == NULL) {
			replay->error = -ENOMEM;
			return NULL;
		}
		replay->copies = grown;
		replay->copy_capacity = capacity;
	}
	return &replay->copies[replay->copy_count++];
}

/* Records that stand in the segment, wherever they begin. */
static void
parse_segment(struct scan *scan)
{
	struct replay *replay = scan->replay;
	struct engine *engine = replay->engine;
	struct log_piece pieces[LOG_PIECES_MAX];

	for (uint32_t at = 0; at < replay->segment_bytes; at += LOG_BLOCK_BYTES) {
		const uint8_t *block = scan->bytes + at;
		struct log_copy copy = { .role = scan->role };
		uint32_t length;
		struct log_copy *kept;

		switch (log_decode(block, engine->options.volume_uuid, engine->record.log_key,
				   &engine->geometry, &copy.header, pieces, &copy.digest)) {
		case LOG_NOTHING:
		case LOG_BROKEN:
			continue;
		case LOG_UNSUPPORTED:
			replay->error = -ENOTSUP;
			return;
		case LOG_RECORD:
			break;
		}
		length = copy.header.payload_blocks * LOG_BLOCK_BYTES;
		copy.offset_bytes = (uint64_t)scan->segment * replay->segment_bytes + at;
		copy.whole = length <= replay->segment_bytes - at - LOG_BLOCK_BYTES &&
			     log_payload_is_whole(block, block + LOG_BLOCK_BYTES);
		if ((kept = new_copy(replay)) == NULL)
			return;
		*kept = copy;
		if (copy.whole)
			at += length;
	}
}

static void scan_next(struct scan *scan);

static void
segment_read(struct member_io *mio, int result)
{
	struct scan *scan = mio->owner;
	struct replay *replay = scan->replay;
	const bool unreadable =
		result == -ENODATA || (result == -EIO && !load_may_wait(replay->engine));

	replay->pending--;
	replay->engine->activity++;
	if (!is_active(replay))
		return;
	if (result == -ENOLINK) { /* it is out: the others' copies have to do */
		scan->ended = true;
		return;
	}
	if (result != 0 && !unreadable) {
		replay->error = result;
		return;
	}
	if (unreadable && scan->block == UINT32_MAX) {
		scan->block = 0;
	} else if (scan->block != UINT32_MAX) {
		if (unreadable) {
			memset(scan->bytes + scan->block * LOG_BLOCK_BYTES, 0xFF, LOG_BLOCK_BYTES);
			scan->hides = true;
		}
		scan->block++;
	}
	if (scan->block == UINT32_MAX || scan->block * LOG_BLOCK_BYTES >= replay->segment_bytes) {
		parse_segment(scan);
		scan->segment++;
		scan->block = UINT32_MAX;
	}
	scan_next(scan);
}

static void
scan_next(struct scan *scan)
{
	struct replay *replay = scan->replay;
	struct member *member = replay->engine->by_role[scan->role];
	const bool blocks = scan->block != UINT32_MAX;
	const uint32_t at = blocks ? scan->block * LOG_BLOCK_BYTES : 0;

	if (replay->error != 0)
		return;
	if (member == NULL || scan->segment == replay->segments) {
		scan->ended = true;
		return;
	}
	command(replay, member, BACKEND_READ,
		log_offset(replay) + (uint64_t)scan->segment * replay->segment_bytes + at,
		scan->bytes + at, blocks ? LOG_BLOCK_BYTES : replay->segment_bytes, segment_read,
		scan);
}

static void
read_logs(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const uint64_t bytes = engine->record.areas[AREA_LOG - 1].length_bytes;

	forget(replay);
	replay->error = 0;
	replay->hole = NULL;
	replay->refused_count = 0;
	replay->decided = (struct log_replay){ 0 };
	replay->segment_bytes = log_segment_bytes(bytes);
	replay->segments = (uint32_t)(bytes / replay->segment_bytes);
	enter(replay, REPLAY_READS);
	for (int role = 0; role < engine->geometry.members; role++) {
		struct scan *scan = &replay->scans[role];

		*scan = (struct scan){
			.replay = replay,
			.role = (uint8_t)role,
			.block = UINT32_MAX,
			.ended = engine->by_role[role] == NULL,
		};
		if (scan->ended)
			continue;
		scan->bytes = malloc(replay->segment_bytes);
		if (scan->bytes == NULL)
			replay->error = -ENOMEM;
		else
			scan_next(scan);
	}
}

/* --- what is to be done --- */

/* As many logs have blocks that can't be read as the newest record had copies. */
static bool
may_hide(const struct replay *replay)
{
	const struct log_copy *newest =
		replay->copy_count > 0 ? &replay->copies[replay->copy_count - 1] : NULL;
	int hiding = 0, copies;

	for (size_t i = 0; i < replay->copy_count; i++)
		if (replay->copies[i].header.sequence > newest->header.sequence)
			newest = &replay->copies[i];
	copies = newest != NULL ? __builtin_popcount(newest->header.copies)
				: replay->engine->geometry.redundancy + 1 -
					  __builtin_popcount(replay->engine->missing);
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++)
		hiding += replay->scans[role].hides;
	return hiding >= copies;
}

static bool
is_any_forced(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].in_sync &&
		    engine->members[i].forced)
			return true;
	return false;
}

static bool
take_records(struct replay *replay)
{
	const uint32_t *predecessor = NULL;
	uint64_t bytes = 0;

	replay->loaded = calloc(records(replay) + 1, sizeof(*replay->loaded));
	for (uint64_t i = 0; replay->loaded != NULL && i < records(replay); i++) {
		const struct log_copy *copy = log_replay_copy(
			replay->copies, replay->copy_count, replay->decided.first + i, predecessor);
		struct loaded *loaded = &replay->loaded[i];

		predecessor = &copy->digest;
		loaded->length_bytes = (1u + copy->header.payload_blocks) * LOG_BLOCK_BYTES;
		bytes += loaded->length_bytes;
		loaded->bytes =
			bytes <= 2 * LOG_LIVE_BYTES_MAX ? malloc(loaded->length_bytes) : NULL;
		if (loaded->bytes == NULL)
			return false;
	}
	return replay->loaded != NULL;
}

static void
decide(struct replay *replay)
{
	struct engine *engine = replay->engine;

	replay->copy_count = log_replay_drop_stale(replay->copies, replay->copy_count);
	log_replay_decide(replay->copies, replay->copy_count, may_hide(replay), &replay->decided);
	if (replay->decided.missing_from != 0)
		replay->hole = "records of it are gone that were there";
	else if (is_any_forced(engine) && !MUTANT(REPLAYED_BY_FORCE))
		replay->hole = "a member was taken by force, so newer records may be gone";
	if (replay->hole != NULL) {
		replay->decided.end = replay->decided.first;
		engine_log(engine, LOG_ERR,
			   "the write log is not replayed, for %s: rows that were being written "
			   "count as after any crash",
			   replay->hole);
		enter(replay, REPLAY_FLUSHES);
		return;
	}
	if (!take_records(replay)) {
		replay->error = -ENOMEM;
		return;
	}
	engine_log(engine, LOG_NOTICE, "the write log has %llu records to replay",
		   (unsigned long long)records(replay));
	enter(replay, REPLAY_LOADS);
}

/* --- LOADS --- */

static void
record_read(struct member_io *mio, int result)
{
	struct replay *replay = mio->owner;

	replay->pending--;
	replay->engine->activity++;
	if (result != 0)
		replay->error = result; /* begins again: another copy, or none, is whole then */
}

static void
load(struct replay *replay)
{
	const uint32_t *predecessor = NULL;

	for (uint64_t i = 0; i < records(replay); i++) {
		const struct log_copy *copy = log_replay_copy(
			replay->copies, replay->copy_count, replay->decided.first + i, predecessor);

		predecessor = &copy->digest;
		if (i < replay->next || replay->pending >= LOADS_MAX || replay->error != 0)
			continue;
		replay->next++;
		if (replay->engine->by_role[copy->role] == NULL)
			replay->error = -ENOLINK;
		else
			command(replay, replay->engine->by_role[copy->role], BACKEND_READ,
				log_offset(replay) + copy->offset_bytes, replay->loaded[i].bytes,
				replay->loaded[i].length_bytes, record_read, replay);
	}
}

static bool
is_sound(struct replay *replay)
{
	struct engine *engine = replay->engine;

	for (uint64_t i = 0; i < records(replay); i++) {
		struct loaded *loaded = &replay->loaded[i];

		if (log_decode(loaded->bytes, engine->options.volume_uuid, engine->record.log_key,
			       &engine->geometry, &loaded->header, loaded->pieces,
			       &loaded->digest) != LOG_RECORD ||
		    !log_payload_is_whole(loaded->bytes, loaded->bytes + LOG_BLOCK_BYTES))
			return false;
	}
	return true;
}

/* --- COPIES --- */

static uint32_t
holders(const struct replay *replay, uint64_t sequence)
{
	uint32_t roles = 0;

	for (size_t i = 0; i < replay->copy_count; i++)
		if (replay->copies[i].header.sequence == sequence && replay->copies[i].whole &&
		    replay->engine->by_role[replay->copies[i].role] != NULL)
			roles |= ROLE(replay->copies[i].role);
	return roles;
}

/* A record that is to be replayed stands in this segment of the member. */
static bool
is_used(const struct replay *replay, int role, uint32_t segment)
{
	for (size_t i = 0; i < replay->copy_count; i++) {
		const struct log_copy *copy = &replay->copies[i];

		if (copy->role == role && copy->offset_bytes / replay->segment_bytes == segment &&
		    copy->header.sequence >= replay->decided.first &&
		    copy->header.sequence < replay->decided.end)
			return true;
	}
	return false;
}

static bool
find_place(struct replay *replay, int role, uint32_t length_bytes)
{
	uint32_t *at = &replay->place[role];

	if (*at % replay->segment_bytes != 0 &&
	    replay->segment_bytes - *at % replay->segment_bytes >= length_bytes)
		return true;
	for (uint32_t segment = (*at + replay->segment_bytes - 1) / replay->segment_bytes;
	     segment < replay->segments; segment++)
		if (!is_used(replay, role, segment)) {
			*at = segment * replay->segment_bytes;
			return true;
		}
	return false;
}

static void
copy_made(struct member_io *mio, int result)
{
	struct replay *replay = mio->owner;

	replay->pending--;
	replay->engine->activity++;
	/* one that refuses has no copy: the promise is less, not the data */
	if (result != 0 && result != -ENOLINK && result != -EIO)
		replay->error = result;
}

/* Where it stands from now on. */
static void
note_copy(struct replay *replay, const struct loaded *loaded, int role)
{
	struct log_copy *copy = new_copy(replay);

	if (copy != NULL)
		*copy = (struct log_copy){ .header = loaded->header,
					   .digest = loaded->digest,
					   .offset_bytes = replay->place[role],
					   .role = (uint8_t)role,
					   .whole = true };
}

static void
make_copies(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const int wanted = engine->geometry.redundancy + 1 - __builtin_popcount(engine->missing);

	for (; replay->next < records(replay) && replay->pending < WRITES_MAX; replay->next++) {
		const struct loaded *loaded = &replay->loaded[replay->next];
		const uint32_t has = holders(replay, loaded->header.sequence);
		int lacking = MUTANT(REPLAY_COPIES_NONE) ? 0 : wanted - __builtin_popcount(has);

		for (int role = 0; role < engine->geometry.members && lacking > 0; role++) {
			if (engine->by_role[role] == NULL || (has & ROLE(role)) ||
			    !find_place(replay, role, loaded->length_bytes))
				continue;
			command(replay, engine->by_role[role], BACKEND_WRITE,
				log_offset(replay) + replay->place[role], loaded->bytes,
				loaded->length_bytes, copy_made, replay);
			note_copy(replay, loaded, role);
			replay->place[role] += loaded->length_bytes;
			lacking--;
		}
	}
}

/* --- WRITES --- */

static bool
add_part(struct replay *replay, const struct part *part)
{
	if (replay->part_count == replay->part_capacity) {
		const size_t capacity =
			replay->part_capacity > 0 ? 2 * replay->part_capacity : 1024;
		struct part *grown = realloc(replay->parts, capacity * sizeof(*grown));

		if (grown == NULL)
			return false;
		replay->parts = grown;
		replay->part_capacity = capacity;
	}
	replay->parts[replay->part_count++] = *part;
	return true;
}

static bool
add_zero_rows(struct replay *replay, const struct log_piece *piece, uint32_t order)
{
	const struct geometry *geometry = &replay->engine->geometry;

	for (uint64_t row = piece->row; row < piece->row + piece->column_bytes; row++)
		for (int role = 0; role < geometry->members; role++) {
			const struct part part = {
				.row = row,
				.length_bytes = geometry->chunk_bytes,
				.order = order,
				.role = (uint8_t)role,
			};

			if (!add_part(replay, &part))
				return false;
		}
	return true;
}

static bool
list_parts(struct replay *replay)
{
	for (uint64_t i = 0; i < records(replay); i++) {
		const struct loaded *loaded = &replay->loaded[i];
		const uint8_t *bytes = loaded->bytes + LOG_BLOCK_BYTES;

		for (int j = 0; j < loaded->header.piece_count; j++) {
			const struct log_piece *piece = &loaded->pieces[j];
			const struct part part = {
				.row = piece->row,
				.bytes = bytes,
				.column_bytes = piece->column_bytes,
				.length_bytes = piece->length_bytes,
				.order = (uint32_t)i,
				.role = piece->role,
			};

			if (piece->kind == LOG_PIECE_PENDING) {
				bytes += piece->length_bytes;
				continue;
			}
			if (piece->kind == LOG_PIECE_ZERO_ROWS
				    ? !add_zero_rows(replay, piece, (uint32_t)i)
				    : !add_part(replay, &part))
				return false;
			bytes += piece->length_bytes;
		}
	}
	return true;
}

/* --- what is in no row yet --- */

static struct image **
bucket_of(struct replay *replay, uint64_t row)
{
	return &replay->images[row % IMAGE_BUCKETS];
}

static struct image *
image_of(struct replay *replay, uint64_t row)
{
	struct image *image = *bucket_of(replay, row);

	while (image != NULL && image->row != row)
		image = image->next;
	return image;
}

static struct image *
new_image(struct replay *replay, uint64_t row)
{
	const struct geometry *geometry = &replay->engine->geometry;
	const uint64_t row_bytes = geometry_row_bytes(geometry);
	struct image *image = malloc(sizeof(*image) + row_bytes);
	struct image **bucket = bucket_of(replay, row);

	if (image == NULL)
		return NULL;
	image->set = calloc(row_bytes / geometry->block_bytes, 1);
	image->row = row;
	image->next = *bucket;
	*bucket = image;
	return image->set != NULL ? image : NULL;
}

static bool
add_pending(struct replay *replay, const struct log_piece *piece, const uint8_t *bytes)
{
	const struct geometry *geometry = &replay->engine->geometry;
	const int chunk = geometry_position(geometry, piece->row, piece->role);
	const size_t at = (size_t)chunk * geometry->chunk_bytes + piece->column_bytes;
	struct image *image = image_of(replay, piece->row);

	if (image == NULL && (image = new_image(replay, piece->row)) == NULL)
		return false;
	memcpy(image->bytes + at, bytes, piece->length_bytes);
	memset(image->set + at / geometry->block_bytes, 1,
	       piece->length_bytes / geometry->block_bytes);
	return true;
}

/* A later record writes it. */
static void
cancel_pending(struct replay *replay, const struct log_piece *piece)
{
	const struct geometry *geometry = &replay->engine->geometry;
	const int chunk = geometry_position(geometry, piece->row, piece->role);
	struct image *image = image_of(replay, piece->row);

	if (image != NULL && chunk < geometry->data_chunks)
		memset(image->set + ((size_t)chunk * geometry->chunk_bytes + piece->column_bytes) /
					    geometry->block_bytes,
		       0, piece->length_bytes / geometry->block_bytes);
}

static void
cancel_rows(struct replay *replay, uint64_t row, uint64_t count)
{
	const struct geometry *geometry = &replay->engine->geometry;

	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		for (struct image *image = replay->images[i]; image != NULL; image = image->next)
			if (image->row >= row && image->row - row < count)
				memset(image->set, 0,
				       geometry_row_bytes(geometry) / geometry->block_bytes);
}

static void
drop_empty_images(struct replay *replay)
{
	const struct geometry *geometry = &replay->engine->geometry;
	const size_t blocks = geometry_row_bytes(geometry) / geometry->block_bytes;

	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++) {
		for (struct image *image = replay->images[i]; image != NULL; image = image->next)
			if (memchr(image->set, 1, blocks) == NULL) {
				free(image->set);
				image->set = NULL;
			}
		forget_images(&replay->images[i], false);
	}
}

/* All records in order.  False: no memory. */
static bool
gather_images(struct replay *replay)
{
	for (uint64_t i = 0; i < records(replay); i++) {
		const struct loaded *loaded = &replay->loaded[i];
		const uint8_t *bytes = loaded->bytes + LOG_BLOCK_BYTES;

		for (int j = 0; j < loaded->header.piece_count; j++) {
			const struct log_piece *piece = &loaded->pieces[j];

			if (piece->kind == LOG_PIECE_ZERO_ROWS)
				cancel_rows(replay, piece->row, piece->column_bytes);
			else if (piece->kind == LOG_PIECE_WRITTEN && !MUTANT(PENDING_OVER_WRITTEN))
				cancel_pending(replay, piece);
			else if (piece->kind == LOG_PIECE_PENDING &&
				 !add_pending(replay, piece, bytes))
				return false;
			bytes += piece->length_bytes;
		}
	}
	if (!MUTANT(PENDING_FORGOTTEN))
		drop_empty_images(replay);
	else
		for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
			forget_images(&replay->images[i], true);
	return true;
}

static bool
has_images(const struct replay *replay)
{
	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		if (replay->images[i] != NULL)
			return true;
	return false;
}

/* Of one chunk together, the oldest first. */
static int
by_chunk(const void *a, const void *b)
{
	const struct part *left = a, *right = b;

	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	if (left->role != right->role)
		return left->role < right->role ? -1 : 1;
	return (left->order > right->order) - (left->order < right->order);
}

struct chunk_write {
	struct replay *replay;
	uint64_t row;
	uint8_t bytes[];
};

static void
chunk_written(struct member_io *mio, int result)
{
	struct chunk_write *write = mio->owner;
	struct replay *replay = write->replay;

	replay->pending--;
	replay->engine->activity++;
	if (result == -EIO && !load_may_wait(replay->engine)) {
		if (replay->refused_count < REFUSED_MAX)
			replay->refused[replay->refused_count] = write->row;
		replay->refused_count++;
	} else if (result != 0 && result != -ENOLINK) {
		replay->error = result;
	}
	free(write);
}

static void
write_run(struct replay *replay, const struct part *chunk, const uint8_t *bytes, uint32_t begin,
	  uint32_t end)
{
	struct engine *engine = replay->engine;
	struct chunk_write *write = malloc(sizeof(*write) + end - begin);
	const int before = replay->pending;

	if (write == NULL) {
		replay->error = -ENOMEM;
		return;
	}
	write->replay = replay;
	write->row = chunk->row;
	memcpy(write->bytes, bytes + begin, end - begin);
	command(replay, engine->by_role[chunk->role], BACKEND_WRITE,
		engine->data_offset_bytes +
			geometry_offset(&engine->geometry, chunk->row, chunk->role) + begin,
		write->bytes, end - begin, chunk_written, write);
	if (replay->pending == before)
		free(write);
}

/* What all records make of one chunk. */
static void
write_chunk(struct replay *replay, size_t first, size_t end)
{
	struct engine *engine = replay->engine;
	const struct part *chunk = &replay->parts[first];
	const uint32_t block = engine->geometry.block_bytes,
		       blocks = engine->geometry.chunk_bytes / block;
	uint8_t *bytes, *set;

	if (engine->by_role[chunk->role] == NULL)
		return; /* it follows from P and Q */
	bytes = malloc(engine->geometry.chunk_bytes);
	set = calloc(blocks + 1, 1);
	for (size_t i = first; i < end && bytes != NULL && set != NULL; i++) {
		const struct part *part = &replay->parts[i];

		if (MUTANT(REPLAY_OLDEST_WINS) && i > first)
			break;
		if (part->bytes != NULL)
			memcpy(bytes + part->column_bytes, part->bytes, part->length_bytes);
		else
			memset(bytes, 0, part->length_bytes);
		memset(set + part->column_bytes / block, 1, part->length_bytes / block);
	}
	if (bytes == NULL || set == NULL)
		replay->error = -ENOMEM;
	for (uint32_t at = 0; replay->error == 0 && at < blocks; at++) {
		uint32_t begin = at;

		while (set[at])
			at++;
		if (at > begin)
			write_run(replay, chunk, bytes, begin * block, at * block);
	}
	free(bytes);
	free(set);
}

static void
write_chunks(struct replay *replay)
{
	while (replay->next < replay->part_count && replay->pending < WRITES_MAX &&
	       replay->error == 0) {
		const struct part *chunk = &replay->parts[replay->next];
		size_t end = replay->next + 1;

		while (end < replay->part_count && replay->parts[end].row == chunk->row &&
		       replay->parts[end].role == chunk->role)
			end++;
		write_chunk(replay, replay->next, end);
		replay->next = end;
	}
}

static void
begin_writes(struct replay *replay)
{
	if (replay->parts == NULL && (!list_parts(replay) || !gather_images(replay))) {
		replay->error = -ENOMEM;
		return;
	}
	if (replay->part_count > 0)
		qsort(replay->parts, replay->part_count, sizeof(*replay->parts), by_chunk);
	replay->cache_losses = replay->engine->cache_losses;
	replay->refused_count = 0;
	enter(replay, REPLAY_WRITES);
}

/* --- FLUSHES, DONE --- */

/* Every row fits, but those that a member refused, unless one was taken by force that lacks
 * something.
 */
static void
rows_fit(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const struct superblock *record = &engine->record;

	if (record->log_proven || record->log_roles == engine->missing)
		intent_all_recorded(&engine->intent, engine_bare(engine) || record->log_proven);
	else
		replay->hole = "another member is missing since, and not all rows were proven";
	for (int i = 0; i < replay->refused_count; i++)
		if (i < REFUSED_MAX)
			intent_suspect_rows(&engine->intent, replay->refused[i],
					    replay->refused[i]);
}

static void
finish(struct replay *replay)
{
	struct engine *engine = replay->engine;

	replay->resumed = has_images(replay);
	if (replay->resumed && write_log_prepare(engine) != 0) {
		replay->error = -ENOMEM;
		return;
	}
	if (replay->hole == NULL && replay->refused_count <= REFUSED_MAX)
		rows_fit(replay);
	replay->doubtful = replay->hole != NULL || replay->refused_count > 0;
	if (!replay->resumed)
		write_log_say(engine, log_mode_wanted(engine) && write_log_prepare(engine) == 0,
			      engine->missing, engine->intent.suspect_count == 0);
	else if (replay->doubtful)
		write_log_say_doubtful(engine);
	replay->record = metadata_commit(engine);
	enter(replay, REPLAY_DONE);
	if (replay->hole == NULL)
		engine_log(engine, LOG_NOTICE, "the write log is replayed");
	if (!replay->resumed)
		forget(replay);
}

/* The opening goes on where it ended. */
static void
resume(struct replay *replay)
{
	struct engine *engine = replay->engine;
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < records(replay); i++)
		bytes += replay->loaded[i].length_bytes;
	write_log_resume(engine, replay->decided.first, replay->decided.end, bytes,
			 replay->loaded[records(replay) - 1].digest);
	for (size_t i = 0; i < replay->copy_count; i++)
		write_log_stands(engine, replay->copies[i].role,
				 (uint32_t)(replay->copies[i].offset_bytes / replay->segment_bytes),
				 replay->copies[i].header.sequence);
	engine->write_log->spoiled = replay->doubtful;
}

/* Each becomes a write back.  False: there is no memory for it now. */
static bool
hand_over(struct replay *replay)
{
	struct engine *engine = replay->engine;

	if (!write_log_on(engine))
		resume(replay);
	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		while (replay->images[i] != NULL) {
			struct image *image = replay->images[i];

			if (write_back_restore(engine, image->row, image->bytes, image->set,
					       replay->decided.first) != 0)
				return false;
			free(image->set);
			image->set = NULL;
			forget_images(&replay->images[i], false);
		}
	engine->activity++;
	return true;
}

static void
replay_flushed(struct flush_waiter *waiter, int result)
{
	struct replay *replay = list_entry(waiter, struct replay, flush);

	replay->pending--;
	replay->engine->activity++;
	if (!is_active(replay))
		return;
	if (result != 0)
		replay->error = result;
	else if (replay->cache_losses != replay->engine->cache_losses && replay->hole == NULL)
		begin_writes(replay);
	else
		finish(replay);
}

static void
flush_all(struct replay *replay)
{
	replay->flush = (struct flush_waiter){
		.done = replay_flushed,
		.since_ms = replay->engine->now_ms,
	};
	list_init(&replay->flush.node);
	replay->pending++;
	replay->next = 1; /* it is under way */
	flush_join(replay->engine, &replay->flush);
}

/* --- the run --- */

static void
begin_again(struct replay *replay)
{
	struct engine *engine = replay->engine;

	if (replay->error == -ENOTSUP) {
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason),
			 "its write log was written by a later release: start it with that one");
		engine_log(engine, LOG_ERR, "%s", engine->reason);
		enter(replay, REPLAY_REFUSED);
		return;
	}
	snprintf(engine->reason, sizeof(engine->reason),
		 "the write log can't be replayed yet, it is tried again: %s",
		 replay->error == -EIO ? "a member refuses to read or write it; --force goes on "
					 "without"
				       : strerror(-replay->error));
	engine_log(engine, LOG_WARNING, "%s", engine->reason);
	replay->not_before_ms = engine->now_ms + RETRY_MS;
	replay->error = 0;
	forget(replay);
	replay->decided = (struct log_replay){ 0 };
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++)
		replay->scans[role].ended = false;
	enter(replay, REPLAY_READS);
}

static bool
all_read(const struct replay *replay)
{
	for (int role = 0; role < replay->engine->geometry.members; role++)
		if (!replay->scans[role].ended)
			return false;
	return true;
}

/* All of a step's commands that may be under way at a time are; or none is, and it has ended. */
static void
go_on(struct replay *replay)
{
	switch (replay->step) {
	case REPLAY_READS:
		if (replay->not_before_ms != 0) {
			replay->not_before_ms = 0;
			read_logs(replay);
		} else if (replay->pending == 0 && all_read(replay)) {
			decide(replay);
		}
		return;
	case REPLAY_LOADS:
		load(replay);
		if (replay->pending == 0 && replay->error == 0) {
			if (is_sound(replay))
				enter(replay, REPLAY_COPIES);
			else
				replay->error = -EIO;
		}
		return;
	case REPLAY_COPIES:
		make_copies(replay);
		if (replay->pending == 0 && replay->error == 0)
			begin_writes(replay);
		return;
	case REPLAY_WRITES:
		write_chunks(replay);
		if (replay->pending == 0 && replay->error == 0)
			enter(replay, REPLAY_FLUSHES);
		return;
	case REPLAY_FLUSHES:
		if (replay->next == 0)
			flush_all(replay);
		return;
	case REPLAY_DONE:
		if (has_images(replay) && metadata_known(replay->engine, replay->record) &&
		    !hand_over(replay))
			replay->not_before_ms = replay->engine->now_ms + RETRY_MS;
		return;
	case REPLAY_REFUSED:
		return;
	}
}

void
replay_run(struct engine *engine)
{
	struct replay *replay = engine->life->replay;

	if (engine->phase != PHASE_REPLAY || replay == NULL || engine->fenced)
		return;
	if (replay->error == 0 && engine->now_ms >= replay->not_before_ms)
		go_on(replay);
	if (replay->error != 0 && replay->pending == 0)
		begin_again(replay);
}

void
replay_begin(struct engine *engine)
{
	struct replay *replay = engine->life->replay;

	if (replay == NULL && (replay = calloc(1, sizeof(*replay))) == NULL)
		return; /* asked again */
	engine->life->replay = replay;
	replay->engine = engine;
	life_enter(engine, PHASE_REPLAY);
	engine->reason[0] = '\0';
	replay->record = 0;
	read_logs(replay);
}

bool
replay_done(const struct engine *engine)
{
	const struct replay *replay = engine->life->replay;

	return replay != NULL && replay->step == REPLAY_DONE &&
	       metadata_known(engine, replay->record) && !has_images(replay);
}

uint64_t
replay_deadline(const struct engine *engine)
{
	const struct replay *replay = engine->life->replay;

	return engine->phase == PHASE_REPLAY && replay != NULL &&
			       replay->not_before_ms > engine->now_ms
		       ? replay->not_before_ms
		       : UINT64_MAX;
}

void
replay_free(struct engine *engine)
{
	if (engine->life->replay == NULL)
		return;
	forget(engine->life->replay);
	free(engine->life->replay);
	engine->life->replay = NULL;
}

void
replay_progress(const struct engine *engine, struct replay_progress *out)
{
	static const char *const names[] = {
		[REPLAY_READS] = "is read",	    [REPLAY_LOADS] = "is read",
		[REPLAY_COPIES] = "is copied",	    [REPLAY_WRITES] = "is replayed",
		[REPLAY_FLUSHES] = "is flushed",    [REPLAY_DONE] = "is replayed",
		[REPLAY_REFUSED] = "can't be read",
	};
	const struct replay *replay = engine->life->replay;

	*out = (struct replay_progress){ 0 };
	if (engine->phase != PHASE_REPLAY || replay == NULL)
		return;
	out->step = names[replay->step];
	if (replay->step == REPLAY_WRITES) {
		out->done = replay->next;
		out->total = replay->part_count;
	}
}
