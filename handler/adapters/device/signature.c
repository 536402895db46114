/* device/signature.c - does the LUN hold something that libblkid knows?
 *
 * libblkid wants a file.  It gets a sparse one in memory, as large as the LUN, that holds the LUN's
 * first and last megabytes: all the places where partition tables, file systems, LVM and RAID
 * keep their signatures.  What lies between reads as zeros.
 */
#include "internal.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* "ext4 filesystem", "gpt partition table" */
static void
add_finding(blkid_probe probe, char *out, size_t out_size)
{
	const char *type = NULL, *usage = NULL;
	size_t used = strlen(out);
	const char *separator = used ? ", " : "";

	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL) == 0) {
		blkid_probe_lookup_value(probe, "USAGE", &usage, NULL);
		snprintf(out + used, out_size - used, "%s%s %s", separator, type,
			 usage ? usage : "");
	} else if (blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL) == 0) {
		snprintf(out + used, out_size - used, "%s%s partition table", separator, type);
	}
}

static bool
look(int fd, uint32_t block_bytes, char *out, size_t out_size, struct fault *fault)
{
	blkid_probe probe = blkid_new_probe();
	int found;

	if (probe == NULL || blkid_probe_set_device(probe, fd, 0, 0) != 0) {
		blkid_free_probe(probe);
		return trouble("libblkid", fault);
	}
	blkid_probe_set_sectorsize(probe, block_bytes);
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	blkid_probe_enable_partitions(probe, 1);
	/* One after another, not blkid_do_safeprobe(): two signatures are not less than one. */
	while ((found = blkid_do_probe(probe)) == 0)
		add_finding(probe, out, out_size);
	blkid_free_probe(probe);
	return found >= 0 || trouble("libblkid", fault);
}

bool
admin_signature(struct admin_session *session, char *out, size_t out_size, struct fault *fault)
{
	bool good;
	int fd = memfd_create("iraid-signature", MFD_CLOEXEC);

	out[0] = '\0';
	if (fd < 0)
		return trouble("memory", fault);
	good = copy_ends(session, fd, fault);
	if (good)
		good = look(fd, session->device.block_bytes, out, out_size, fault);
	close(fd);
	return good;
}
