/* row_bits.h - what is known of a region's rows, a bit each, also when there is no memory.
 *
 * Where these bits can't be had, a whole region counts as what some of its rows are: suspect, and
 * with a member missing lost, though all of it is known.  So memory for them is set aside when the
 * volume is assembled or grows: for every region, up to ROW_BITS_RESERVE_MAX.  It is taken only
 * where the allocator refuses; what is not touched costs addresses only.
 */
#ifndef IRAID_ROW_BITS_H
#define IRAID_ROW_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_BITS_RESERVE_MAX (8u << 20) /* bytes */

struct row_bits {
	size_t words;	 /* of each */
	size_t reserved; /* of them, in all blocks */
	struct row_bits_block *blocks;
	uint64_t *given_back; /* to the reserve; in each stands where the next one is */
};

void row_bits_init(struct row_bits *bits, size_t words);
/* There have to be so many in reserve.  0 or -ENOMEM. */
int row_bits_reserve(struct row_bits *bits, size_t count);
/* Also what was not given back of the reserve. */
void row_bits_destroy(struct row_bits *bits);

/* All clear; NULL: no memory, and none in reserve. */
uint64_t *row_bits_take(struct row_bits *bits);
void row_bits_give(struct row_bits *bits, uint64_t *rows); /* NULL: nothing */

static inline bool
row_bits_has(const uint64_t *rows, uint64_t index)
{
	return rows != NULL && ((rows[index / 64] >> (index % 64)) & 1);
}

static inline void
row_bits_add(uint64_t *rows, uint64_t index)
{
	if (rows != NULL)
		rows[index / 64] |= 1ull << (index % 64);
}

static inline void
row_bits_drop(uint64_t *rows, uint64_t index)
{
	if (rows != NULL)
		rows[index / 64] &= ~(1ull << (index % 64));
}

#endif
