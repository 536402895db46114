/* base/big_endian.h - numbers as SCSI has them: big-endian, of any length up to 8 bytes. */
#ifndef IRAID_SCSI_BYTES_H
#define IRAID_SCSI_BYTES_H

#include <stdint.h>

static inline uint64_t
scsi_get(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	for (int i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static inline void
scsi_put(uint8_t *bytes, int count, uint64_t value)
{
	for (int i = count - 1; i >= 0; i--) {
		bytes[i] = (uint8_t)value;
		value >>= 8;
	}
}

#endif
