/* base/big_endian.h - numbers as SCSI and iSCSI have them: big-endian, at any address, of up to 8
 * bytes.
 */
#ifndef IRAID_BIG_ENDIAN_H
#define IRAID_BIG_ENDIAN_H

#include <stdint.h>

static inline uint64_t
get_be(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	for (int i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static inline void
put_be(uint8_t *bytes, int count, uint64_t value)
{
	for (int i = count - 1; i >= 0; i--) {
		bytes[i] = (uint8_t)value;
		value >>= 8;
	}
}

static inline uint16_t
get_be16(const uint8_t *at)
{
	return (uint16_t)get_be(at, 2);
}
static inline uint32_t
get_be24(const uint8_t *at)
{
	return (uint32_t)get_be(at, 3);
}
static inline uint32_t
get_be32(const uint8_t *at)
{
	return (uint32_t)get_be(at, 4);
}
static inline uint64_t
get_be64(const uint8_t *at)
{
	return get_be(at, 8);
}
static inline void
put_be16(uint8_t *at, uint16_t value)
{
	put_be(at, 2, value);
}
static inline void
put_be24(uint8_t *at, uint32_t value)
{
	put_be(at, 3, value);
}
static inline void
put_be32(uint8_t *at, uint32_t value)
{
	put_be(at, 4, value);
}
static inline void
put_be64(uint8_t *at, uint64_t value)
{
	put_be(at, 8, value);
}

#endif
