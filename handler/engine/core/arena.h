/* arena.h - buffers for old data and parity: runs of pages out of one reserved address range.
 *
 * First fit from the lowest address, so the pages that have been touched stay few and are the
 * ones used again: once the load is steady no allocation faults.  The range never grows beyond
 * its bound (docs/design/memory.md); whoever finds no room waits for a release.
 */
#ifndef IRAID_ARENA_H
#define IRAID_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
	uint8_t *base;
	uint64_t *used; /* one bit per page */
	uint32_t pages;
	uint32_t pages_common; /* the first so many are for everybody, the others a reserve */
	uint32_t pages_used;
	uint32_t pages_peak; /* highest page ever handed out + 1: what is resident */
};

/* Reserve both (rounded up to pages) of address space.  0 or -ENOMEM. */
int arena_init(struct arena *arena, uint64_t bytes_max, uint64_t reserve_bytes);
void arena_destroy(struct arena *arena);

/* A page-aligned run of length_bytes, or NULL when there is no room now.  0 bytes: a non-NULL
 * pointer that need not (but may) be released.  from_reserve: it may reach into the reserve, for those
 * whom others wait for who have all the rest.
 */
void *arena_take(struct arena *arena, size_t length_bytes, bool from_reserve);
void arena_release(struct arena *arena, void *run, size_t length_bytes);

#endif
