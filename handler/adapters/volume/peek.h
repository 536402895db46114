/* volume/peek.h - what stands on a device of a running volume, and how large it is now, asked through
 * the volume's own session: its reservation lets nobody else ask.  From any thread but the volume's own.
 */
#ifndef IRAID_VOLUME_PEEK_H
#define IRAID_VOLUME_PEEK_H

#include "host.h"

/* Whole blocks.  0, or as volume_call(); -ENOENT: it is no device of that volume; or as
 * backend_io.result (ports/backend.h).
 */
int volume_peek(struct volume_host *host, const char *name, const struct device_address *device,
		uint64_t offset_bytes, void *buffer, uint32_t length, struct fault *fault);
/* The same; a device that shrank is an error. */
int volume_measure(struct volume_host *host, const char *name, const struct device_address *device,
		   uint64_t *capacity_bytes, struct fault *fault);

/* Of the session that this gateway has with a device for this volume.  0, or -errno. */
int volume_isid(const uint8_t uuid[16], const struct member_address *address, uint8_t isid[6]);

#endif
