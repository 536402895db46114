/* rpc/listen.c - see listen.h.
 *
 * The file PATH.lock is locked while the socket is served, so that of two programs that start at
 * the same time and both find a dead socket, one takes it over.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapters/base/files.h"
#include "adapters/base/log.h"
#include "listen.h"

#define BACKLOG 128
#define GROUP_FILE "/etc/group"
#define SERVED_ALREADY                                                                             \
	"%s is served by another program; stop it, or choose another path with IRAID_SOCKET"

/* A descriptor, or -errno, as listen_on(). */
static int
lock_path(const char *path, struct fault *fault)
{
	char lock[128];
	int fd, error;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	error = -errno;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && error == -EWOULDBLOCK)
		return fault_errno(fault, error, SERVED_ALREADY, path);
	return fault_errno(fault, error, "%s can't be locked: %s", lock, strerror(-error));
}

/* 0 if path is free to bind to: nothing is there, or a socket that nobody answers on. */
static int
clear_path(const struct sockaddr_un *address, struct fault *fault)
{
	struct stat status;
	bool answered;
	int fd;

	if (lstat(address->sun_path, &status) != 0)
		return errno == ENOENT ? 0
				       : fault_errno(fault, -errno, "%s: %m", address->sun_path);
	if (!S_ISSOCK(status.st_mode))
		return fault_errno(fault, -EEXIST, "%s exists but is not a socket; remove it",
				   address->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	answered =
		fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
			    errno != ECONNREFUSED);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !answered && unlink(address->sun_path) == 0)
		return 0;
	return fault_errno(fault, -EADDRINUSE, SERVED_ALREADY, address->sun_path);
}

/* Of GROUP_FILE alone: a name server that is silent must not hold up the start.  False: it has no
 * such group.
 */
static bool
find_group(const char *name, gid_t *out)
{
	struct group entry, *found = NULL;
	char text[16384];
	FILE *file = fopen(GROUP_FILE, "re");
	bool there = false;

	if (!file)
		return false;
	while (!there && fgetgrent_r(file, &entry, text, sizeof(text), &found) == 0) {
		there = strcmp(entry.gr_name, name) == 0;
		*out = entry.gr_gid;
	}
	fclose(file);
	return there;
}

/* 0, or -1 with errno. */
static int
admit(const char *path, const char *name)
{
	gid_t group;

	if (!name)
		return chmod(path, 0600);
	if (find_group(name, &group) && lchown(path, geteuid(), group) == 0)
		return chmod(path, 0660);
	log_line(LOG_NOTICE,
		 "monitor socket %s: " GROUP_FILE " has no group %s, so root alone can use it",
		 path, name);
	return chmod(path, 0600);
}

static int
listen_on(const char *path, const char *group, struct fault *fault)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, error;

	memcpy(address.sun_path, path, strlen(path) + 1);
	error = clear_path(&address, fault);
	if (error != 0)
		return error;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The mode before listen(): until then nobody gets through. */
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	    admit(path, group) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = fault_errno(fault, -errno, "%s: %m", path);
	if (fd >= 0)
		close(fd);
	return error;
}

int
control_listen(const char *path, const char *group, int *lock_fd, struct fault *fault)
{
	char folder[SOCKET_PATH_MAX];
	int error;

	*lock_fd = -1;
	memcpy(folder, path, strlen(path) + 1);
	error = folder_make(dirname(folder));
	if (error != 0)
		return fault_errno(fault, error, "%s: its folder can't be made: %s", path,
				   strerror(-error));
	*lock_fd = lock_path(path, fault);
	return *lock_fd < 0 ? *lock_fd : listen_on(path, group, fault);
}
