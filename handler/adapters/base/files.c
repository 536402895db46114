/* base/files.c - see files.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static int
make_folders(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	size_t length = strlen(path);

	if (length == 0 || length >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, length + 1);
	for (size_t i = 1; i <= length; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, mode) != 0 && errno != EEXIST)
			return -errno;
		part[i] = path[i];
	}
	return 0;
}

int
folder_make(const char *path)
{
	return make_folders(path, 0755);
}

static int
write_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, data, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		data += written;
		length -= (size_t)written;
	}
	return 0;
}

/* Whose it is first: nobody who could not read the file that was there may read this one. */
static int
take_after(int fd, const struct stat *as)
{
	mode_t mode = as->st_mode & 0777;

	if (fchown(fd, as->st_uid, as->st_gid) != 0) {
		if (errno != EPERM)
			return -errno;
		mode &= 0700;
	}
	return fchmod(fd, mode) == 0 ? 0 : -errno;
}

/* A new durable file beside the wanted one; its name goes to temporary[].  `as`: whose owner, group
 * and mode it has; NULL: ours, with `mode`.
 */
static int
write_temporary(int folder_fd, const char *name, const void *data, size_t length, mode_t mode,
		const struct stat *as, char *temporary, size_t temporary_size)
{
	/* The process's id keeps two processes apart, callers in one process are serialised. */
	int count = snprintf(temporary, temporary_size, ".%s.%ld.new", name, (long)getpid());
	int fd, error;

	if (count < 0 || (size_t)count >= temporary_size)
		return -ENAMETOOLONG;
	unlinkat(folder_fd, temporary, 0);
	fd = openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		    as ? 0600 : mode);
	if (fd < 0)
		return -errno;
	error = as ? take_after(fd, as) : 0;
	if (error == 0)
		error = write_all(fd, data, length);
	if (error == 0 && fsync(fd) != 0)
		error = -errno;
	if (close(fd) != 0 && error == 0)
		error = -errno;
	if (error != 0)
		unlinkat(folder_fd, temporary, 0);
	return error;
}

static int
file_put(const char *folder, const char *name, const void *data, size_t length, mode_t mode,
	 const struct stat *as, bool replace)
{
	char temporary[NAME_MAX + 1];
	int folder_fd, error;

	error = make_folders(folder, 0700); /* what is in it is nobody else's */
	if (error != 0)
		return error;
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return -errno;
	error = write_temporary(folder_fd, name, data, length, mode, as, temporary,
				sizeof(temporary));
	if (error == 0) {
		if (replace && renameat(folder_fd, temporary, folder_fd, name) != 0)
			error = -errno;
		if (!replace && linkat(folder_fd, temporary, folder_fd, name, 0) != 0)
			error = -errno;
		if (!replace || error != 0)
			unlinkat(folder_fd, temporary, 0);
	}
	if (error == 0 && fsync(folder_fd) != 0)
		error = -errno;
	close(folder_fd);
	return error;
}

int
file_replace(const char *folder, const char *name, const void *data, size_t length, mode_t mode)
{
	return file_put(folder, name, data, length, mode, NULL, true);
}

int
file_rewrite(const char *folder, const char *name, const void *data, size_t length, mode_t mode)
{
	char path[PATH_MAX], real[PATH_MAX], *slash;
	struct stat status;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (!realpath(path, real))
		return errno == ENOENT ? file_replace(folder, name, data, length, mode) : -errno;
	if (stat(real, &status) != 0)
		return -errno;
	slash = strrchr(real, '/');
	*slash = '\0';
	return file_put(slash == real ? "/" : real, slash + 1, data, length, mode, &status, true);
}

int
file_create(const char *folder, const char *name, const void *data, size_t length, mode_t mode)
{
	return file_put(folder, name, data, length, mode, NULL, false);
}

int
file_remove(const char *folder, const char *name)
{
	int error = 0;
	int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder_fd < 0)
		return -errno;
	if (unlinkat(folder_fd, name, 0) != 0 || fsync(folder_fd) != 0)
		error = -errno;
	close(folder_fd);
	return error;
}

int
file_read(const char *path, size_t length_max, char **out, size_t *length)
{
	char *buffer;
	size_t used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	buffer = malloc(length_max + 2);
	if (!buffer) {
		close(fd);
		return -ENOMEM;
	}
	for (;;) {
		/* One byte more than allowed, so that too long is noticed. */
		ssize_t got = read(fd, buffer + used, length_max + 1 - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || used + (size_t)got > length_max) {
			int error = got < 0 ? -errno : -EFBIG;

			free(buffer);
			close(fd);
			return error;
		}
		if (got == 0)
			break;
		used += (size_t)got;
	}
	close(fd);
	buffer[used] = '\0';
	*out = buffer;
	*length = used;
	return 0;
}
