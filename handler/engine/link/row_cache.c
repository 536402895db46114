/* row_cache.c - see row_cache.h. */
#include "row_cache.h"
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES (8u << 20)
#define CACHE_ROWS_MAX 64
#define CHUNK_BYTES_MAX (128u << 10) /* longer ones would be read whole for 4 KiB */
#define SEEN_ROWS 32

struct row_cache {
	struct cached_row rows[CACHE_ROWS_MAX];
	unsigned int count;
	unsigned int kept; /* of them, how many hold something */
	uint64_t clock;
	uint64_t seen[SEEN_ROWS]; /* rows written in part lately, + 1 */
	unsigned int seen_next;
	uint32_t doubts, cache_losses; /* as when the cache was empty last */
	uint8_t *memory;
};

static size_t
row_memory_bytes(const struct geometry *geometry)
{
	return (size_t)geometry->width * geometry->chunk_bytes;
}

int
row_cache_init(struct engine *engine)
{
	const struct geometry *geometry = &engine->geometry;
	struct row_cache *cache;

	row_cache_free(engine);
	if (!engine_has_parity(engine) || geometry->chunk_bytes > CHUNK_BYTES_MAX)
		return 0;
	cache = calloc(1, sizeof(*cache));
	if (cache == NULL)
		return -ENOMEM;
	cache->count = (unsigned int)(CACHE_BYTES / row_memory_bytes(geometry));
	if (cache->count > CACHE_ROWS_MAX)
		cache->count = CACHE_ROWS_MAX;
	/* Pages of it are there when they are touched first. */
	cache->memory = aligned_alloc(4096, cache->count * row_memory_bytes(geometry));
	if (cache->memory == NULL) {
		free(cache);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < cache->count; i++)
		cache->rows[i].memory = cache->memory + i * row_memory_bytes(geometry);
	engine->link->row_cache = cache;
	return 0;
}

void
row_cache_free(struct engine *engine)
{
	if (engine->link->row_cache == NULL)
		return;
	free(engine->link->row_cache->memory);
	free(engine->link->row_cache);
	engine->link->row_cache = NULL;
}

static void
forget_row(struct row_cache *cache, struct cached_row *cached)
{
	cached->used_at = 0;
	cache->kept--;
}

/* Forgets everything if that is not what members hold any more. */
static struct row_cache *
current(struct engine *engine)
{
	struct row_cache *cache = engine->link->row_cache;

	if (cache == NULL)
		return NULL;
	if ((cache->doubts != engine->intent.doubts ||
	     cache->cache_losses != engine->cache_losses) &&
	    !MUTANT(ROWS_REMEMBERED)) {
		for (unsigned int i = 0; i < cache->count; i++)
			if (cache->rows[i].used_at != 0 && !cache->rows[i].taken)
				forget_row(cache, &cache->rows[i]);
		cache->doubts = engine->intent.doubts;
		cache->cache_losses = engine->cache_losses;
	}
	return cache;
}

static struct cached_row *
find_row(struct row_cache *cache, uint64_t row)
{
	for (unsigned int i = 0; cache->kept > 0 && i < cache->count; i++)
		if (cache->rows[i].used_at != 0 && cache->rows[i].row == row)
			return &cache->rows[i];
	return NULL;
}

const struct columns *
row_cache_known(struct engine *engine, uint64_t row)
{
	struct row_cache *cache = current(engine);
	struct cached_row *cached = cache != NULL ? find_row(cache, row) : NULL;

	return cached != NULL ? cached->known : NULL;
}

/* Was it written in part lately?  It has been now. */
static bool
seen_before(struct row_cache *cache, uint64_t row)
{
	for (unsigned int i = 0; i < SEEN_ROWS; i++)
		if (cache->seen[i] == row + 1)
			return true;
	cache->seen[cache->seen_next++ % SEEN_ROWS] = row + 1;
	return false;
}

/* The one that was not used for longest, or NULL: all are taken. */
static struct cached_row *
make_room(struct row_cache *cache)
{
	struct cached_row *oldest = NULL;

	for (unsigned int i = 0; i < cache->count; i++) {
		struct cached_row *cached = &cache->rows[i];

		if (!cached->taken && (oldest == NULL || cached->used_at < oldest->used_at))
			oldest = cached;
	}
	if (oldest != NULL && oldest->used_at != 0)
		forget_row(cache, oldest);
	return oldest;
}

struct cached_row *
row_cache_take(struct engine *engine, uint64_t row, bool stream)
{
	struct row_cache *cache = current(engine);
	struct cached_row *cached;

	if (cache == NULL)
		return NULL;
	cached = find_row(cache, row);
	if (cached == NULL) {
		if (!seen_before(cache, row) && !stream)
			return NULL;
		cached = make_room(cache);
		if (cached == NULL)
			return NULL;
		memset(cached->known, 0, sizeof(cached->known));
		cached->row = row;
		cache->kept++;
	}
	cached->used_at = ++cache->clock;
	cached->taken = true;
	return cached;
}

uint8_t *
row_cache_chunk(const struct engine *engine, const struct cached_row *cached, int position)
{
	return cached->memory + (size_t)position * engine->geometry.chunk_bytes;
}

void
row_cache_learn(struct cached_row *cached, int position, struct columns columns)
{
	struct columns *known = &cached->known[position];

	if (columns.begin > known->end || columns.end < known->begin) {
		/* Not together with what is known: the longer of the two. */
		if (columns.end - columns.begin > known->end - known->begin)
			*known = columns;
		return;
	}
	if (columns.begin < known->begin)
		known->begin = columns.begin;
	if (columns.end > known->end)
		known->end = columns.end;
}

void
row_cache_give_back(struct engine *engine, struct cached_row *cached, bool good)
{
	cached->taken = false;
	if (!good)
		forget_row(engine->link->row_cache, cached);
}

void
row_cache_overwritten(struct engine *engine, const struct backend_io *io)
{
	struct row_cache *cache = engine->link->row_cache;
	uint64_t first, last;

	if (cache == NULL || cache->kept == 0 ||
	    (io->op != BACKEND_WRITE && io->op != BACKEND_ZERO) ||
	    io->offset_bytes < engine->data_offset_bytes || MUTANT(ROWS_REMEMBERED))
		return;
	first = (io->offset_bytes - engine->data_offset_bytes) / engine->geometry.chunk_bytes;
	last = (io->offset_bytes - engine->data_offset_bytes + io->length_bytes - 1) /
	       engine->geometry.chunk_bytes;
	for (unsigned int i = 0; i < cache->count; i++) {
		struct cached_row *cached = &cache->rows[i];

		if (cached->used_at != 0 && !cached->taken && cached->row >= first &&
		    cached->row <= last)
			forget_row(cache, cached);
	}
}
