/* short_memory.c - see short_memory.h.  Each block has a header in front, which is on a list. */
#include "short_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct header {
	struct header *next, **link; /* of all that are in use */
	void *memory;		     /* that was allocated */
	size_t bytes;
};

static struct header *blocks;
static uint64_t granted, refusals; /* that are to come */

void *engine_malloc(size_t bytes);
void *engine_calloc(size_t count, size_t bytes);
void *engine_realloc(void *block, size_t bytes);
void *engine_aligned_alloc(size_t alignment, size_t bytes);
void engine_free(void *block);
void *engine_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

void
short_memory_refuse(uint64_t behind, uint64_t count)
{
	granted = behind;
	refusals = count;
}

bool
short_memory_end(void)
{
	const bool all = refusals == 0;

	granted = refusals = 0;
	return all;
}

void
short_memory_free(void)
{
	while (blocks != NULL)
		engine_free(blocks + 1);
}

static bool
is_refused(void)
{
	if (granted > 0) {
		granted--;
		return false;
	}
	if (refusals == 0)
		return false;
	refusals--;
	return true;
}

static void *
take(size_t alignment, size_t bytes)
{
	uint8_t *memory;
	struct header *header;

	if (is_refused())
		return NULL;
	memory = aligned_alloc(alignment,
			       (alignment + bytes + alignment - 1) / alignment * alignment);
	if (memory == NULL)
		abort();
	header = (struct header *)(memory + alignment) - 1;
	*header = (struct header){
		.next = blocks, .link = &blocks, .memory = memory, .bytes = bytes
	};
	if (blocks != NULL)
		blocks->link = &header->next;
	blocks = header;
	return header + 1;
}

void *
engine_malloc(size_t bytes)
{
	return take(sizeof(struct header), bytes);
}

void *
engine_calloc(size_t count, size_t bytes)
{
	void *block = engine_malloc(count * bytes);

	return block != NULL ? memset(block, 0, count * bytes) : NULL;
}

void *
engine_realloc(void *block, size_t bytes)
{
	const size_t before = block != NULL ? ((struct header *)block - 1)->bytes : 0;
	void *moved = engine_malloc(bytes);

	if (moved == NULL || block == NULL)
		return moved;
	memcpy(moved, block, before < bytes ? before : bytes);
	engine_free(block);
	return moved;
}

void *
engine_aligned_alloc(size_t alignment, size_t bytes)
{
	return take(alignment > sizeof(struct header) ? alignment : sizeof(struct header), bytes);
}

void
engine_free(void *block)
{
	struct header *header;

	if (block == NULL)
		return;
	header = (struct header *)block - 1;
	*header->link = header->next;
	if (header->next != NULL)
		header->next->link = header->link;
	free(header->memory);
}

void *
engine_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	return is_refused() ? MAP_FAILED : mmap(address, bytes, protection, flags, file, offset);
}
