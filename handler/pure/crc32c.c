/* crc32c.c - the one checksum of the on-disk format, by isa-l. */
#include "layout.h"

#include <isa-l/crc.h>
#include <limits.h>

/* isa-l's crc32_iscsi inverts neither what goes in nor what comes out. */
uint32_t
crc32c(uint32_t seed, const void *data, size_t length_bytes)
{
	const uint8_t *bytes = data;
	uint32_t state = ~seed;

	while (length_bytes > 0) {
		int step = length_bytes < INT_MAX ? (int)length_bytes : INT_MAX;

		state = crc32_iscsi((unsigned char *)(uintptr_t)bytes, step, state);
		bytes += step;
		length_bytes -= (size_t)step;
	}
	return ~state;
}
