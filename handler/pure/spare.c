/* spare.c - see spare.h; docs/design/format.md has the table of fields. */
#include "spare.h"

#include <string.h>

#include "bytes.h"

/* offsets */
enum {
	AT_MAGIC = 0,
	AT_CRC = 8,
	AT_VERSION = 12,
	AT_MEMBER_UUID = 16,
	AT_VOLUME_UUID = 32,
	AT_MEMBER_BYTES = 48,
	AT_BLOCK_BYTES = 56,
	AT_CREATED = 64,
};

#define MAGIC "IRAID-SP"
#define MAGIC_BYTES 8u
#define VERSION 1u

/* Of the whole block, with its own field taken as zero. */
static uint32_t
mark_crc(const uint8_t *block)
{
	static const uint8_t zero[4];
	uint32_t crc = crc32c(0, block, AT_CRC);

	crc = crc32c(crc, zero, sizeof(zero));
	return crc32c(crc, block + AT_VERSION, LAYOUT_SUPERBLOCK_BYTES - AT_VERSION);
}

void
spare_encode(const struct spare_mark *mark, uint8_t *out)
{
	memset(out, 0, LAYOUT_SUPERBLOCK_BYTES);
	memcpy(out + AT_MAGIC, MAGIC, MAGIC_BYTES);
	put_le(out + AT_VERSION, VERSION, 4);
	memcpy(out + AT_MEMBER_UUID, mark->member_uuid, 16);
	memcpy(out + AT_VOLUME_UUID, mark->volume_uuid, 16);
	put_le(out + AT_MEMBER_BYTES, mark->member_bytes, 8);
	put_le(out + AT_BLOCK_BYTES, mark->block_bytes, 4);
	put_le(out + AT_CREATED, mark->created_s, 8);
	put_le(out + AT_CRC, mark_crc(out), 4);
}

enum superblock_verdict
spare_decode(const uint8_t *in, struct spare_mark *out)
{
	struct spare_mark mark = {
		.member_bytes = get_le(in + AT_MEMBER_BYTES, 8),
		.block_bytes = (uint32_t)get_le(in + AT_BLOCK_BYTES, 4),
		.created_s = get_le(in + AT_CREATED, 8),
	};

	if (memcmp(in + AT_MAGIC, MAGIC, MAGIC_BYTES) != 0)
		return SUPERBLOCK_ABSENT;
	if (get_le(in + AT_CRC, 4) != mark_crc(in) || get_le(in + AT_VERSION, 4) == 0)
		return SUPERBLOCK_CORRUPT;
	if (get_le(in + AT_VERSION, 4) > VERSION)
		return SUPERBLOCK_UNSUPPORTED;
	if ((mark.block_bytes != 512 && mark.block_bytes != 4096) ||
	    mark.member_bytes < LAYOUT_MEMBER_BYTES_MIN || mark.member_bytes > (uint64_t)INT64_MAX)
		return SUPERBLOCK_CORRUPT;
	memcpy(mark.member_uuid, in + AT_MEMBER_UUID, 16);
	memcpy(mark.volume_uuid, in + AT_VOLUME_UUID, 16);
	*out = mark;
	return SUPERBLOCK_OK;
}
