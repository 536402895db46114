/* arena.c - see arena.h. */
#include "arena.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u

static uint32_t
pages_of(size_t length_bytes)
{
	return (uint32_t)((length_bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

int
arena_init(struct arena *arena, uint64_t bytes_max, uint64_t reserve_bytes)
{
	const uint32_t common = pages_of(bytes_max), pages = common + pages_of(reserve_bytes);
	void *base = mmap(NULL, (size_t)pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t *used = calloc((pages + 63) / 64, sizeof(*used));

	if (base == MAP_FAILED || used == NULL) {
		if (base != MAP_FAILED)
			munmap(base, (size_t)pages * PAGE_BYTES);
		free(used);
		return -ENOMEM;
	}
	*arena = (struct arena){
		.base = base, .used = used, .pages = pages, .pages_common = common
	};
	return 0;
}

void
arena_destroy(struct arena *arena)
{
	if (arena->base != NULL)
		munmap(arena->base, (size_t)arena->pages * PAGE_BYTES);
	free(arena->used);
	*arena = (struct arena){ 0 };
}

static bool
page_used(const struct arena *arena, uint32_t page)
{
	return (arena->used[page / 64] >> (page % 64)) & 1;
}

/* First run of `wanted` free pages, or UINT32_MAX.  Skips 64 pages at a time where all are taken.
 */
static uint32_t
find_run(const struct arena *arena, uint32_t wanted, uint32_t pages)
{
	uint32_t begin = 0;
	uint32_t page = 0;

	while (page < pages) {
		if (page % 64 == 0 && arena->used[page / 64] == UINT64_MAX) {
			page += 64;
			begin = page;
			continue;
		}
		if (page_used(arena, page))
			begin = page + 1;
		page++;
		if (page - begin == wanted && page <= pages)
			return begin;
	}
	return UINT32_MAX;
}

static void
mark_run(struct arena *arena, uint32_t begin, uint32_t count, bool taken)
{
	for (uint32_t page = begin; page < begin + count; page++) {
		assert(page_used(arena, page) != taken);
		arena->used[page / 64] ^= 1ull << (page % 64);
	}
}

void *
arena_take(struct arena *arena, size_t length_bytes, bool from_reserve)
{
	const uint32_t pages = from_reserve ? arena->pages : arena->pages_common;
	uint32_t wanted = pages_of(length_bytes);
	uint32_t begin;

	if (wanted == 0)
		return arena->base;
	if (wanted > arena->pages - arena->pages_used)
		return NULL;
	begin = find_run(arena, wanted, pages);
	if (begin == UINT32_MAX)
		return NULL;
	mark_run(arena, begin, wanted, true);
	arena->pages_used += wanted;
	if (begin + wanted > arena->pages_peak)
		arena->pages_peak = begin + wanted;
	return arena->base + (size_t)begin * PAGE_BYTES;
}

void
arena_release(struct arena *arena, void *run, size_t length_bytes)
{
	uint32_t count = pages_of(length_bytes);

	if (count == 0)
		return;
	mark_run(arena, (uint32_t)(((uint8_t *)run - arena->base) / PAGE_BYTES), count, false);
	arena->pages_used -= count;
}
