/* pattern.c - see pattern.h.  Words after the first are sums, which XOR does not keep. */
#include "pattern.h"

#include <string.h>

#define STRIDE 0x9E3779B97F4A7C15ull

static uint64_t
start_of(uint64_t first)
{
	first = (first ^ (first >> 31)) * 0xBF58476D1CE4E5B9ull;
	return first ^ (first >> 29);
}

void
pattern_fill(uint8_t *memory, uint32_t sector, uint32_t number)
{
	uint64_t words[PATTERN_WORDS];
	uint64_t start;

	words[0] = (uint64_t)number << 32 | sector;
	start = start_of(words[0]);
	for (unsigned int i = 1; i < PATTERN_WORDS; i++)
		words[i] = start + i * STRIDE;
	memcpy(memory, words, sizeof(words));
}

enum pattern_verdict
pattern_read(const uint8_t *memory, uint32_t sector, uint32_t *number)
{
	uint64_t words[PATTERN_WORDS];
	uint64_t start, wrong = 0, any = 0;

	memcpy(words, memory, sizeof(words));
	start = start_of(words[0]);
	for (unsigned int i = 1; i < PATTERN_WORDS; i++) {
		wrong |= words[i] ^ (start + i * STRIDE);
		any |= words[i];
	}
	if (wrong == 0 && (uint32_t)words[0] == sector) {
		*number = (uint32_t)(words[0] >> 32);
		return PATTERN_WRITE;
	}
	*number = 0;
	return (any | words[0]) == 0 ? PATTERN_ZEROS : PATTERN_RUBBISH;
}
