/* xorshift.h - random numbers that follow from a seed, the same everywhere. */
#ifndef IRAID_TEST_XORSHIFT_H
#define IRAID_TEST_XORSHIFT_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252ull; /* not 0, ever */

static inline uint32_t
below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % bound);
}

#endif
