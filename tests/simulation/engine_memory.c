/* engine_memory.c - see engine_memory.h.  A heap as simple as can be: blocks of a few sizes, each
 * with its size in front; what is given back waits on its size's list.
 *
 * What nobody wrote must not be what an earlier life left: a seed alone has to show a fault again.
 * So all memory holds JUNK at first.  Small blocks are filled with it.  Large ones (arenas, caches)
 * are private mappings of one file that is full of it: who writes gets a page of his own, and
 * MADV_DONTNEED takes these pages back.  Most of a large block is never touched, and costs nothing.
 */
#include "engine_memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define HEAP_BYTES (2ull << 30) /* of addresses */
#define HEADER_BYTES 16u
/* up to here sizes are multiples of 16, above powers of two */
#define FINE_BYTES 1024u
#define FINE_SIZES (FINE_BYTES / 16 + 1)
#define SIZES (FINE_SIZES + 32)
#define HUGE_BYTES (2u << 20)
#define MAPPINGS_MAX 4
#define MAPPING_BYTES (256u << 20)	/* of addresses; larger arenas are not kept */
#define LARGE_BYTES (64u << 10)		/* from here on a block is cut from junk that is mapped */
#define LARGE_BLOCKS_BYTES (512u << 20) /* of addresses, for all of them */
#define JUNK 0xA5
#define JUNK_FILE_BYTES HUGE_BYTES

struct header {
	uint32_t size; /* its number */
	uint32_t bytes;
};

union block {
	union block *next;
	uint8_t bytes[16];
};

static uint8_t *heap;
static size_t taken;
static union block *given_back[SIZES];

/* Addresses that read as JUNK, as far as they were asked for yet. */
struct junk {
	uint8_t *memory;
	size_t mapped;
};

/* The arena of each engine is a mapping, of some size: kept for the next one. */
static struct mapping {
	struct junk junk;
	bool used;
} mappings[MAPPINGS_MAX];
static struct junk large;
static size_t large_taken;
static int engines;

static uint32_t
size_number(size_t bytes)
{
	uint32_t number = FINE_SIZES;

	if (bytes <= FINE_BYTES)
		return (uint32_t)((bytes + 15) / 16);
	while (((size_t)2 * FINE_BYTES << (number - FINE_SIZES)) < bytes)
		number++;
	assert(number < SIZES);
	return number;
}

static size_t
size_bytes(uint32_t number)
{
	return number < FINE_SIZES ? (size_t)number * 16
				   : (size_t)2 * FINE_BYTES << (number - FINE_SIZES);
}

static struct header *
header_of(void *memory)
{
	return (struct header *)((uint8_t *)memory - HEADER_BYTES);
}

/* Addresses only, until they are touched: then in huge pages, for thousands of lives. */
static void *
reserve(size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert(memory != MAP_FAILED);
	memory += HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static int
junk_file(void)
{
	static int file = -1;
	uint8_t *bytes;

	if (file >= 0)
		return file;
	file = memfd_create("junk", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, JUNK_FILE_BYTES) != 0)
		abort();
	bytes = mmap(NULL, JUNK_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert(bytes != MAP_FAILED);
	memset(bytes, JUNK, JUNK_FILE_BYTES);
	munmap(bytes, JUNK_FILE_BYTES);
	return file;
}

/* The first bytes of junk, of at most limit. */
static uint8_t *
junk_of(struct junk *junk, size_t bytes, size_t limit)
{
	assert(bytes <= limit);
	if (junk->memory == NULL)
		junk->memory = reserve(limit);
	for (; junk->mapped < bytes; junk->mapped += JUNK_FILE_BYTES)
		if (mmap(junk->memory + junk->mapped, JUNK_FILE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_FIXED, junk_file(), 0) == MAP_FAILED)
			abort();
	return junk->memory;
}

static void
junk_again(struct junk *junk)
{
	if (junk->mapped > 0 && madvise(junk->memory, junk->mapped, MADV_DONTNEED) != 0)
		abort();
}

static void *
cut(size_t alignment, uint32_t number, size_t bytes)
{
	size_t at = taken + HEADER_BYTES;

	if (heap == NULL)
		heap = reserve(HEAP_BYTES);
	at = (at + alignment - 1) / alignment * alignment;
	taken = at + bytes;
	assert(taken <= HEAP_BYTES);
	*header_of(heap + at) = (struct header){ number, (uint32_t)bytes };
	return heap + at;
}

void
engine_memory_begin(void)
{
	engines++;
}

void
engine_memory_end(void)
{
	if (--engines > 0)
		return;
	taken = 0;
	memset(given_back, 0, sizeof(given_back));
	large_taken = 0;
	junk_again(&large);
	for (int i = 0; i < MAPPINGS_MAX; i++)
		junk_again(&mappings[i].junk);
}

static uint64_t refuse_behind, refuse_count, refused;

uint64_t
engine_memory_refused(void)
{
	return refused;
}

void
engine_memory_refuse(uint64_t behind, uint64_t count)
{
	refuse_behind = behind;
	refuse_count = count;
}

static bool
is_refused(void)
{
	if (refuse_behind > 0) {
		refuse_behind--;
		return false;
	}
	if (refuse_count == 0)
		return false;
	refuse_count--;
	refused++;
	return true;
}

/* --- what the engine calls instead of stdlib's --- */

void *engine_malloc(size_t bytes);
void *engine_calloc(size_t count, size_t bytes);
void *engine_realloc(void *memory, size_t bytes);
void *engine_aligned_alloc(size_t alignment, size_t bytes);
void engine_free(void *memory);
void *engine_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
int engine_munmap(void *memory, size_t bytes);

static void *
take(size_t bytes)
{
	uint32_t number = size_number(bytes > 0 ? bytes : 1);
	union block *block = given_back[number];

	if (is_refused())
		return NULL;
	if (block == NULL)
		return cut(16, number, size_bytes(number));
	given_back[number] = block->next;
	return block;
}

/* Whoever relies on what was there before is to be seen, and the same with each run of a seed. */
static void *
fill(void *memory, int byte, size_t bytes)
{
	return memory != NULL ? memset(memory, byte, bytes) : NULL;
}

void *
engine_malloc(size_t bytes)
{
	return fill(take(bytes), JUNK, bytes);
}

void *
engine_calloc(size_t count, size_t bytes)
{
	return fill(take(count * bytes), 0, count * bytes);
}

static void *
cut_large(size_t alignment, size_t bytes)
{
	const size_t at = (large_taken + alignment - 1) / alignment * alignment;

	large_taken = at + bytes;
	return junk_of(&large, large_taken, LARGE_BLOCKS_BYTES) + at;
}

/* Rare: never on a list. */
void *
engine_aligned_alloc(size_t alignment, size_t bytes)
{
	if (is_refused())
		return NULL;
	if (bytes >= LARGE_BYTES)
		return cut_large(alignment, bytes);
	return fill(cut(alignment > 16 ? alignment : 16, SIZES, bytes), JUNK, bytes);
}

static bool
is_large(const void *memory)
{
	const uint8_t *byte = memory;

	return large.memory != NULL && byte >= large.memory &&
	       byte < large.memory + LARGE_BLOCKS_BYTES;
}

void
engine_free(void *memory)
{
	union block *block = memory;

	if (memory == NULL || is_large(memory) || header_of(memory)->size == SIZES)
		return;
	block->next = given_back[header_of(memory)->size];
	given_back[header_of(memory)->size] = block;
}

void *
engine_realloc(void *memory, size_t bytes)
{
	void *moved;

	if (memory == NULL)
		return engine_malloc(bytes);
	if (bytes <= header_of(memory)->bytes)
		return memory;
	moved = engine_malloc(bytes);
	if (moved == NULL)
		return NULL;
	memcpy(moved, memory, header_of(memory)->bytes);
	engine_free(memory);
	return moved;
}

void *
engine_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	if (is_refused())
		return MAP_FAILED;
	for (int i = 0; i < MAPPINGS_MAX && bytes <= MAPPING_BYTES; i++) {
		struct mapping *mapping = &mappings[i];

		if (mapping->used)
			continue;
		mapping->used = true;
		return junk_of(&mapping->junk, bytes, MAPPING_BYTES);
	}
	return mmap(address, bytes, protection, flags, file, offset);
}

int
engine_munmap(void *memory, size_t bytes)
{
	for (int i = 0; i < MAPPINGS_MAX; i++)
		if (mappings[i].junk.memory == memory) {
			mappings[i].used = false;
			return 0;
		}
	return munmap(memory, bytes);
}
