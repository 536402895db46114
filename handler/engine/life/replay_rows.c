/* replay_rows.c - WRITES of a replay: each chunk once, with what all records make of it; and what was
 * acknowledged and is in no row yet, an image of each such row, which becomes a write back.
 */
#include "replay_internal.h"
#include "engine/io/io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image { /* of a row: what is to be written there, and is not yet */
	struct image *next;
	uint64_t row;
	uint8_t *set; /* by block of its data */
	uint8_t bytes[];
};

/* --- what is written --- */

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
	for (uint64_t i = 0; i < replay_records(replay); i++) {
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

void
replay_forget_images(struct replay *replay)
{
	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		forget_images(&replay->images[i], true);
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
	for (uint64_t i = 0; i < replay_records(replay); i++) {
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
		replay_forget_images(replay);
	return true;
}

bool
replay_has_images(const struct replay *replay)
{
	for (uint32_t i = 0; i < IMAGE_BUCKETS; i++)
		if (replay->images[i] != NULL)
			return true;
	return false;
}

/* --- each chunk once --- */

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
	replay_command(replay, engine->by_role[chunk->role], BACKEND_WRITE,
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

void
replay_write_chunks(struct replay *replay)
{
	while (replay->next < replay->part_count && replay->pending < REPLAY_WRITES_MAX &&
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

void
replay_begin_writes(struct replay *replay)
{
	if (replay->parts == NULL && (!list_parts(replay) || !gather_images(replay))) {
		replay->error = -ENOMEM;
		return;
	}
	if (replay->part_count > 0)
		qsort(replay->parts, replay->part_count, sizeof(*replay->parts), by_chunk);
	replay->cache_losses = replay->engine->cache_losses;
	replay->refused_count = 0;
	replay_enter(replay, REPLAY_WRITES);
}

/* --- the rows that are not written --- */

/* The opening goes on where it ended. */
static void
resume(struct replay *replay)
{
	struct engine *engine = replay->engine;
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < replay_records(replay); i++)
		bytes += replay->loaded[i].length_bytes;
	write_log_resume(engine, replay->decided.first, replay->decided.end, bytes,
			 replay->loaded[replay_records(replay) - 1].digest);
	for (size_t i = 0; i < replay->copy_count; i++)
		write_log_stands(engine, replay->copies[i].role,
				 (uint32_t)(replay->copies[i].offset_bytes / replay->segment_bytes),
				 replay->copies[i].header.sequence);
	/* segments are used again below a tail that members know of */
	engine->write_log->tail_durable = replay->known_tail;
	engine->write_log->spoiled = replay->doubtful;
}

bool
replay_hand_over(struct replay *replay)
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
