/* short_memory.c - see short_memory.h. */
#include "short_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

static uint64_t granted, refusals; /* that are to come */

void *engine_malloc(size_t bytes);
void *engine_calloc(size_t count, size_t bytes);
void *engine_realloc(void *memory, size_t bytes);
void *engine_aligned_alloc(size_t alignment, size_t bytes);
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

void *
engine_malloc(size_t bytes)
{
	return is_refused() ? NULL : malloc(bytes);
}

void *
engine_calloc(size_t count, size_t bytes)
{
	return is_refused() ? NULL : calloc(count, bytes);
}

void *
engine_realloc(void *memory, size_t bytes)
{
	return is_refused() ? NULL : realloc(memory, bytes);
}

void *
engine_aligned_alloc(size_t alignment, size_t bytes)
{
	return is_refused() ? NULL : aligned_alloc(alignment, bytes);
}

void *
engine_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	return is_refused() ? MAP_FAILED : mmap(address, bytes, protection, flags, file, offset);
}
