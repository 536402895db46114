/* row_bits.c - see row_bits.h. */
#include "row_bits.h"

#include "../pure/mutant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct row_bits_block {
	struct row_bits_block *next;
	size_t count;
	size_t taken; /* those behind were never touched */
	uint64_t words[];
};

_Static_assert(sizeof(uint64_t *) <= sizeof(uint64_t), "a pointer has room in the smallest");

void
row_bits_init(struct row_bits *bits, size_t words)
{
	*bits = (struct row_bits){ .words = words };
}

int
row_bits_reserve(struct row_bits *bits, size_t count)
{
	const size_t bytes = bits->words * sizeof(uint64_t);
	struct row_bits_block *block;

	if (count > ROW_BITS_RESERVE_MAX / bytes)
		count = ROW_BITS_RESERVE_MAX / bytes;
	if (count <= bits->reserved)
		return 0;
	count -= bits->reserved;
	block = calloc(1, sizeof(*block) + count * bytes);
	if (block == NULL)
		return -ENOMEM;
	block->next = bits->blocks;
	block->count = count;
	bits->blocks = block;
	bits->reserved += count;
	return 0;
}

void
row_bits_destroy(struct row_bits *bits)
{
	struct row_bits_block *block;

	while ((block = bits->blocks) != NULL) {
		bits->blocks = block->next;
		free(block);
	}
	*bits = (struct row_bits){ 0 };
}

static uint64_t *
take_reserve(struct row_bits *bits)
{
	uint64_t *rows = bits->given_back;

	if (rows != NULL) {
		memcpy(&bits->given_back, rows, sizeof(rows));
		return memset(rows, 0, bits->words * sizeof(uint64_t));
	}
	for (struct row_bits_block *block = bits->blocks; block != NULL; block = block->next)
		if (block->taken < block->count)
			return block->words + block->taken++ * bits->words;
	return NULL;
}

uint64_t *
row_bits_take(struct row_bits *bits)
{
	uint64_t *rows = calloc(bits->words, sizeof(uint64_t));

	return rows != NULL || MUTANT(ROWS_UNRESERVED) ? rows : take_reserve(bits);
}

static bool
is_reserve(const struct row_bits *bits, const uint64_t *rows)
{
	for (const struct row_bits_block *block = bits->blocks; block != NULL; block = block->next)
		if ((uintptr_t)rows >= (uintptr_t)block->words &&
		    (uintptr_t)rows < (uintptr_t)(block->words + block->count * bits->words))
			return true;
	return false;
}

void
row_bits_give(struct row_bits *bits, uint64_t *rows)
{
	if (rows == NULL || !is_reserve(bits, rows)) {
		free(rows);
		return;
	}
	memcpy(rows, &bits->given_back, sizeof(rows));
	bits->given_back = rows;
}
