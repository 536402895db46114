/* bytes.h - what the codecs share: little-endian numbers at any address, and two bits of
 * arithmetic.
 */
#ifndef IRAID_BYTES_H
#define IRAID_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#define UUID_BYTES 16u

static inline void
put_le(uint8_t *out, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t
get_le(const uint8_t *in, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)in[i] << (8 * i);
	return value;
}

static inline void
put_u32(uint8_t *out, uint32_t value)
{
	put_le(out, value, 4);
}
static inline void
put_u64(uint8_t *out, uint64_t value)
{
	put_le(out, value, 8);
}
static inline uint32_t
get_u32(const uint8_t *in)
{
	return (uint32_t)get_le(in, 4);
}
static inline uint64_t
get_u64(const uint8_t *in)
{
	return get_le(in, 8);
}

static inline bool
is_power_of_two(uint32_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

static inline uint64_t
divide_up(uint64_t value, uint64_t by)
{
	return value / by + (value % by != 0);
}

#endif
