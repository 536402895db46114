/* device/signature.c - does the LUN hold something that libblkid knows?
 *
 * libblkid wants a file.  It gets a sparse one in memory, as large as the LUN, that holds the LUN's
 * first and last megabytes: all the places where partition tables, file systems, LVM and RAID
 * keep their signatures.  What lies between reads as zeros.  The look itself is another
 * program's: look.c.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "look.h"

#define HEAD_BYTES (2ull << 20)
#define TAIL_BYTES (2ull << 20)

static bool
trouble(const char *what, struct fault *fault)
{
	return fault_set(fault, FAULT_INTERNAL, "free some memory",
			 "looking for signatures: %s: %s", what, strerror(errno));
}

static bool
copy_range(struct admin_session *session, int fd, uint64_t offset, uint64_t length,
	   struct fault *fault)
{
	uint8_t *buffer = malloc(length);
	bool good;

	if (buffer == NULL)
		return trouble("memory", fault);
	good = admin_read(session, offset, buffer, length, fault);
	if (good && pwrite(fd, buffer, length, (off_t)offset) != (ssize_t)length)
		good = trouble("writing the copy", fault);
	free(buffer);
	return good;
}

static bool
copy_ends(struct admin_session *session, int fd, struct fault *fault)
{
	uint64_t capacity = session->device.capacity_bytes;
	uint64_t head = capacity < HEAD_BYTES ? capacity : HEAD_BYTES;
	uint64_t tail = capacity - head < TAIL_BYTES ? capacity - head : TAIL_BYTES;
	bool good;

	if (ftruncate(fd, (off_t)capacity) != 0)
		return trouble("sizing the copy", fault);
	good = copy_range(session, fd, 0, head, fault);
	if (good && tail != 0)
		good = copy_range(session, fd, capacity - tail, tail, fault);
	return good;
}

/* From here on nobody begins to write it, nor takes memory by it.  F_SEAL_WRITE would be stricter,
 * and is refused (EBUSY) while the kernel holds a page of it for a moment: we have no mapping of it
 * that could still be written to.
 */
static bool
seal(int fd, struct fault *fault)
{
	return fcntl(fd, F_ADD_SEALS,
		     F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0 ||
	       trouble("sealing the copy", fault);
}

bool
admin_signature(struct admin_session *session, char *out, size_t out_size, struct fault *fault)
{
	bool good;
	int fd = memfd_create("iraid-signature", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	out[0] = '\0';
	if (fd < 0)
		return trouble("memory", fault);
	good = copy_ends(session, fd, fault) && seal(fd, fault) &&
	       look_at_copy(fd, session->device.block_bytes, out, out_size, fault);
	close(fd);
	return good;
}
