/* spare.h - the mark of a device that waits to become a member: 4 KiB where a member has its
 * superblocks.
 *
 * A spare belongs to one volume, or (volume_uuid all zeros) to all volumes of the gateway.  The
 * mark says that an administrator gave the device away, so that nothing else is ever overwritten by
 * a rebuild.
 */
#ifndef IRAID_SPARE_H
#define IRAID_SPARE_H

#include <stdint.h>

#include "layout.h"

struct spare_mark {
	uint8_t member_uuid[16]; /* becomes the member's */
	uint8_t volume_uuid[16];
	uint64_t member_bytes; /* size of the device when it was marked */
	uint32_t block_bytes;
	uint64_t created_s;
};

/* Into out[LAYOUT_SUPERBLOCK_BYTES]: magic "IRAID-SP", CRC32C, version 1. */
void spare_encode(const struct spare_mark *mark, uint8_t *out);

/* SUPERBLOCK_ABSENT without the magic, _CORRUPT with a wrong CRC or a field out of bounds,
 * _UNSUPPORTED with a newer version.  *out is written only for SUPERBLOCK_OK.
 */
enum superblock_verdict spare_decode(const uint8_t *in, struct spare_mark *out);

#endif
