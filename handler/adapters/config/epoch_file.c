/* config/epoch_file.c - see epoch_file.h.
 *
 *	0	slot 0: one line, then newlines	   iraid-epochs 1 COUNT GIVEN MEANT CRC
 *	4096	slot 1				   the same
 *
 * The CRC is of the line before it.  A change overwrites the slot that has the lower count, or is
 * torn; so the newest that was durable is there whatever happens.  All of the file is written when
 * it is made: what is only reserved might need room when it is written first.
 *
 * Earlier versions kept each number in a file of its own, UUID in epochs/ and epochs-tried/.  These
 * are read where there is no file of ours, and removed when that is made.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "adapters/base/files.h"
#include "config.h"
#include "epoch_file.h"
#include "pure/layout.h"

#define SLOT_BYTES 4096u
#define SLOTS 2
#define LINE_BYTES_MAX 128u
#define OLD_BYTES_MAX 32u
#define NAME_BYTES (UUID_STR_LEN + 8)

struct epoch_file {
	uint8_t uuid[16];
	int fd; /* kept open: none may be left when it is wanted.  -1: not opened yet */
};

struct slots {
	char bytes[SLOTS * SLOT_BYTES];
	struct epochs_kept kept;
	uint64_t count;
	int newest; /* -1: none is good */
};

/* --- text --- */

static void
slot_encode(char *slot, uint64_t count, const struct epochs_kept *kept)
{
	int length =
		snprintf(slot, SLOT_BYTES, "iraid-epochs 1 %" PRIu64 " %" PRIu64 " %" PRIu64 " ",
			 count, kept->given, kept->meant);

	length += snprintf(slot + length, SLOT_BYTES - (size_t)length, "%08" PRIx32 "\n",
			   crc32c(0, slot, (size_t)length));
	memset(slot + length, '\n', SLOT_BYTES - (size_t)length);
}

static bool
slot_decode(const char *slot, uint64_t *count, struct epochs_kept *kept)
{
	char line[LINE_BYTES_MAX + 1], *crc;
	uint32_t wanted;
	int used = 0;

	memcpy(line, slot, LINE_BYTES_MAX);
	line[LINE_BYTES_MAX] = '\0';
	line[strcspn(line, "\n")] = '\0';
	crc = strrchr(line, ' ');
	if (crc == NULL || sscanf(crc + 1, "%8" SCNx32 "%n", &wanted, &used) != 1 || used != 8 ||
	    crc[1 + used] != '\0' || crc32c(0, line, (size_t)(crc + 1 - line)) != wanted)
		return false;
	return sscanf(line, "iraid-epochs 1 %" SCNu64 " %" SCNu64 " %" SCNu64, count, &kept->given,
		      &kept->meant) == 3;
}

/* -EINVAL: neither slot is good. */
static int
slots_read(int fd, struct slots *slots)
{
	ssize_t got = pread(fd, slots->bytes, sizeof(slots->bytes), 0);

	slots->newest = -1;
	if (got < 0)
		return -errno;
	for (int i = 0; i < SLOTS && got >= (ssize_t)((i + 1) * SLOT_BYTES); i++) {
		struct epochs_kept kept;
		uint64_t count;

		if (!slot_decode(slots->bytes + i * SLOT_BYTES, &count, &kept) ||
		    (slots->newest >= 0 && count <= slots->count))
			continue;
		slots->newest = i;
		slots->count = count;
		slots->kept = kept;
	}
	return slots->newest >= 0 ? 0 : -EINVAL;
}

/* --- where --- */

static int
find_folder(const char *kind, char folder[PATH_MAX])
{
	return snprintf(folder, PATH_MAX, "%s/%s", state_dir(), kind) < PATH_MAX ? 0
										 : -ENAMETOOLONG;
}

static void
name_file(const uint8_t uuid[16], char name[NAME_BYTES])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	snprintf(name, NAME_BYTES, "%s.kept", text);
}

static int
open_file(const uint8_t uuid[16], int flags)
{
	char folder[PATH_MAX], path[PATH_MAX], name[NAME_BYTES];
	int fd, error = find_folder("epochs", folder);

	name_file(uuid, name);
	if (error == 0 && snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_MAX)
		error = -ENAMETOOLONG;
	if (error != 0)
		return error;
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd : -errno;
}

/* --- as earlier versions had it --- */

/* 0 and *out untouched if there is no such file. */
static int
old_read(const char *kind, const uint8_t uuid[16], uint64_t *out)
{
	char path[PATH_MAX], name[UUID_STR_LEN], *text, *end;
	unsigned long long number;
	size_t length;
	int error;

	uuid_unparse_lower(uuid, name);
	if (snprintf(path, sizeof(path), "%s/%s/%s", state_dir(), kind, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	error = file_read(path, OLD_BYTES_MAX, &text, &length);
	if (error != 0)
		return error == -ENOENT ? 0 : error;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\n' || (size_t)(end - text) + 1 != length)
		error = -EINVAL;
	else
		*out = number;
	free(text);
	return error;
}

static int
old_read_both(const uint8_t uuid[16], struct epochs_kept *out)
{
	int error = old_read("epochs", uuid, &out->given);

	return error != 0 ? error : old_read("epochs-tried", uuid, &out->meant);
}

static int
remove_one(const char *kind, const char *name)
{
	char folder[PATH_MAX];
	int error = find_folder(kind, folder);

	if (error == 0)
		error = file_remove(folder, name);
	return error == -ENOENT ? 0 : error;
}

static int
old_remove(const uint8_t uuid[16])
{
	char name[UUID_STR_LEN];
	int given, meant;

	uuid_unparse_lower(uuid, name);
	given = remove_one("epochs", name);
	meant = remove_one("epochs-tried", name);
	return given != 0 ? given : meant;
}

/* --- raise --- */

struct epoch_file *
epoch_file_create(const uint8_t uuid[16])
{
	struct epoch_file *file = malloc(sizeof(*file));

	if (file == NULL)
		return NULL;
	memcpy(file->uuid, uuid, sizeof(file->uuid));
	file->fd = -1;
	return file;
}

static void
forget(struct epoch_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

void
epoch_file_free(struct epoch_file *file)
{
	if (file == NULL)
		return;
	forget(file);
	free(file);
}

static bool
was_removed(int fd)
{
	struct stat status;

	return fstat(fd, &status) != 0 || status.st_nlink == 0;
}

/* Both slots hold what was known. */
static int
make_file(struct epoch_file *file)
{
	char folder[PATH_MAX], name[NAME_BYTES], bytes[SLOTS * SLOT_BYTES];
	struct epochs_kept kept = { 0, 0 };
	int error = old_read_both(file->uuid, &kept);

	for (int i = 0; i < SLOTS; i++)
		slot_encode(bytes + i * SLOT_BYTES, (uint64_t)i + 1, &kept);
	name_file(file->uuid, name);
	if (error == 0)
		error = find_folder("epochs", folder);
	if (error == 0)
		error = file_create(folder, name, bytes, sizeof(bytes), 0600);
	/* What stays of them is never looked at again. */
	if (error == 0)
		old_remove(file->uuid);
	return error == -EEXIST ? 0 : error;
}

static int
open_or_make(struct epoch_file *file)
{
	int error;

	if (file->fd >= 0 && was_removed(file->fd))
		forget(file);
	if (file->fd >= 0)
		return 0;
	file->fd = open_file(file->uuid, O_RDWR);
	if (file->fd != -ENOENT)
		return file->fd < 0 ? file->fd : 0;
	error = make_file(file);
	if (error != 0)
		return error;
	file->fd = open_file(file->uuid, O_RDWR);
	return file->fd < 0 ? file->fd : 0;
}

static uint64_t
higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int
raise_locked(int fd, const struct epochs_kept *to)
{
	struct slots slots;
	const int error = slots_read(fd, &slots);
	char *slot;
	off_t at;

	if (error != 0)
		return error;
	slots.kept.given = higher(slots.kept.given, to->given);
	slots.kept.meant = higher(slots.kept.meant, to->meant);
	at = (slots.newest == 0 ? 1 : 0) * (off_t)SLOT_BYTES;
	slot = slots.bytes + at;
	slot_encode(slot, slots.count + 1, &slots.kept);
	for (size_t done = 0; done < SLOT_BYTES;) {
		ssize_t written = pwrite(fd, slot + done, SLOT_BYTES - done, at + (off_t)done);

		if (written < 0 && errno != EINTR)
			return -errno;
		done += written > 0 ? (size_t)written : 0;
	}
	return fdatasync(fd) == 0 ? 0 : -errno;
}

int
epoch_file_raise(struct epoch_file *file, const struct epochs_kept *to)
{
	int error = open_or_make(file);

	if (error != 0) {
		file->fd = -1;
		return error;
	}
	/* Another process may still be at it that had the volume before. */
	if (flock(file->fd, LOCK_EX) != 0)
		return -errno;
	error = raise_locked(file->fd, to);
	flock(file->fd, LOCK_UN);
	return error;
}

/* --- read, remove --- */

int
epoch_file_read(const uint8_t uuid[16], struct epochs_kept *out)
{
	struct slots slots;
	int error, fd = open_file(uuid, O_RDONLY);

	*out = (struct epochs_kept){ 0, 0 };
	if (fd == -ENOENT)
		return old_read_both(uuid, out);
	if (fd < 0)
		return fd;
	error = slots_read(fd, &slots);
	close(fd);
	if (error == 0)
		*out = slots.kept;
	return error;
}

int
epoch_file_remove(const uint8_t uuid[16])
{
	char name[NAME_BYTES];
	int error, old = old_remove(uuid);

	name_file(uuid, name);
	error = remove_one("epochs", name);
	return error != 0 ? error : old;
}
