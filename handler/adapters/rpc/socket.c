/* rpc/socket.c - see socket.h.  One thread accepts, one serves each connection: the calls of an
 * administrator block (logins, formatting), and few are made.  Bounded by
 * CONTROL_CONNECTIONS_MAX connections and CONTROL_LINE_BYTES_MAX bytes for each.  A call that waits
 * ends when its client goes.
 *
 * The file PATH.lock is locked while the socket is served, so that of two programs that start at
 * the same time and both find a dead socket, one takes it over.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "socket.h"
#include "adapters/base/event_ring.h"
#include "adapters/base/files.h"
#include "adapters/base/log.h"
#include "rpc.h"

#define READ_BYTES 4096u
#define BACKLOG 128
#define SEND_SECONDS_MAX 30 /* a client that reads no answer must not hold up the end */

struct connection {
	struct connection *next;
	struct control *control;
	int fd;
};

struct control {
	struct volume_host *host;
	char path[108];
	int fd, lock_fd, stop_fd;
	pthread_t thread;
	pthread_mutex_t changes; /* one create or delete at a time */
	atomic_int working;

	pthread_mutex_t lock;
	pthread_cond_t gone;
	struct connection *connections;
	int count;
};

/* --- one connection --- */

static bool
send_line(int fd, const char *text)
{
	struct iovec parts[2] = {
		{ (void *)text, strlen(text) },
		{ (void *)"\n", 1 },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	while (parts[0].iov_len + parts[1].iov_len > 0) {
		ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return false;
		for (int i = 0; i < 2; i++) {
			size_t part =
				(size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;

			parts[i].iov_base = (char *)parts[i].iov_base + part;
			parts[i].iov_len -= part;
			sent -= (ssize_t)part;
		}
	}
	return true;
}

static void
send_refusal(int fd, enum fault_code code, const char *message, const char *remedy)
{
	char *text = rpc_answer_error(code, message, remedy);

	if (text)
		send_line(fd, text);
	free(text);
}

static bool
peer_is_root(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == 0)
		return true;
	send_refusal(fd, FAULT_REQUEST, "only root may use this socket",
		     "run the command as root, for example with sudo");
	return false;
}

/* Serve all whole lines of buffer[used]; what is left moves to its front.  False: hang up. */
static bool
serve_lines(struct connection *connection, struct rpc_context *context, char *buffer, size_t *used)
{
	char *line = buffer, *end;
	size_t left = *used;

	while ((end = memchr(line, '\n', left))) {
		size_t length = (size_t)(end - line);
		char *answer;
		bool sent;

		*end = '\0';
		if (length > 0 && line[length - 1] == '\r')
			line[--length] = '\0';
		if (length > 0) { /* an empty line asks nothing */
			answer = rpc_answer(context, line, length);
			sent = !answer || send_line(connection->fd, answer);
			free(answer);
			if (!sent)
				return false;
		}
		left -= (size_t)(end + 1 - line);
		line = end + 1;
	}
	memmove(buffer, line, left);
	*used = left;
	return true;
}

/* It closed its end, or was killed: one that has only sent all it had to say still listens. */
static bool
has_gone(void *client)
{
	const struct connection *connection = client;
	struct pollfd end = { .fd = connection->fd };

	return poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

static void
serve_connection(struct connection *connection)
{
	struct rpc_context context = {
		.host = connection->control->host,
		.changes = &connection->control->changes,
		.working = &connection->control->working,
		.has_gone = has_gone,
		.client = connection,
	};
	char *buffer = NULL;
	size_t size = 0, used = 0;

	if (!peer_is_root(connection->fd))
		return;
	for (;;) {
		ssize_t got;

		if (used > CONTROL_LINE_BYTES_MAX) {
			send_refusal(connection->fd, FAULT_REQUEST,
				     "the request is longer than 1 MiB", "send a shorter one");
			break;
		}
		if (size - used < READ_BYTES) {
			char *larger = realloc(buffer, size * 2 + READ_BYTES);

			if (!larger)
				break;
			buffer = larger;
			size = size * 2 + READ_BYTES;
		}
		got = recv(connection->fd, buffer + used, size - used, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		if (!serve_lines(connection, &context, buffer, &used))
			break;
	}
	free(buffer);
}

static void *
run_connection(void *argument)
{
	struct connection *connection = argument;
	struct control *control = connection->control;
	struct connection **link;

	serve_connection(connection);
	pthread_mutex_lock(&control->lock);
	for (link = &control->connections; *link != connection; link = &(*link)->next)
		;
	*link = connection->next;
	/* Under the lock: control_stop() shuts descriptors down by this list. */
	close(connection->fd);
	control->count--;
	pthread_cond_broadcast(&control->gone);
	pthread_mutex_unlock(&control->lock);
	free(connection);
	return NULL;
}

/* --- accepting --- */

static void
begin_connection(struct control *control, int fd)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	pthread_attr_t attributes;
	pthread_t thread;
	int error = ENOMEM;

	if (connection) {
		connection->control = control;
		connection->fd = fd;
		pthread_mutex_lock(&control->lock);
		connection->next = control->connections;
		control->connections = connection;
		control->count++;
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		error = pthread_create(&thread, &attributes, run_connection, connection);
		pthread_attr_destroy(&attributes);
		if (error != 0) {
			control->connections = connection->next;
			control->count--;
		}
		pthread_mutex_unlock(&control->lock);
	}
	if (error != 0) {
		log_line(LOG_ERR, "control socket: a connection was refused: %s", strerror(error));
		close(fd);
		free(connection);
	}
}

static void *
run_accept(void *argument)
{
	struct control *control = argument;
	struct pollfd fds[2] = {
		{ .fd = control->fd, .events = POLLIN },
		{ .fd = control->stop_fd, .events = POLLIN },
	};

	for (;;) {
		static const struct timeval patience = { .tv_sec = SEND_SECONDS_MAX };
		bool full;
		int fd;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			break;
		fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				poll(&fds[1], 1, 1000); /* else it would spin until one is closed */
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		pthread_mutex_lock(&control->lock);
		full = control->count >= CONTROL_CONNECTIONS_MAX;
		pthread_mutex_unlock(&control->lock);
		if (full) {
			send_refusal(fd, FAULT_BUSY,
				     "the control socket has 32 connections already", "close one");
			close(fd);
		} else {
			begin_connection(control, fd);
		}
	}
	return NULL;
}

/* --- beginning and end --- */

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

static int
listen_on(const char *path, struct fault *fault)
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
	    chmod(path, 0600) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = fault_errno(fault, -errno, "%s: %m", path);
	if (fd >= 0)
		close(fd);
	return error;
}

static int
open_socket(struct control *control, struct fault *fault)
{
	char folder[sizeof(control->path)];
	int error;

	memcpy(folder, control->path, sizeof(folder));
	error = folder_make(dirname(folder));
	if (error != 0)
		return fault_errno(fault, error, "%s: its folder can't be made: %s", control->path,
				   strerror(-error));
	control->lock_fd = lock_path(control->path, fault);
	if (control->lock_fd < 0)
		return control->lock_fd;
	control->fd = listen_on(control->path, fault);
	if (control->fd < 0)
		return control->fd;
	control->stop_fd = eventfd(0, EFD_CLOEXEC);
	return control->stop_fd >= 0 ? 0 : fault_errno(fault, -errno, "%s: %m", control->path);
}

static void
close_socket(struct control *control)
{
	if (control->fd >= 0) {
		unlink(control->path);
		close(control->fd);
	}
	if (control->stop_fd >= 0)
		close(control->stop_fd);
	if (control->lock_fd >= 0)
		close(control->lock_fd);
}

struct control *
control_start(struct volume_host *host, const char *path, struct fault *fault)
{
	struct control *control = calloc(1, sizeof(*control));
	sigset_t all, before;
	int error;

	if (!control || strlen(path) >= sizeof(control->path)) {
		fault_errno(fault, control ? -ENAMETOOLONG : -ENOMEM, "%s: %s", path,
			    control ? "longer than the 107 characters a socket's path can have"
				    : "out of memory");
		free(control);
		return NULL;
	}
	control->host = host;
	control->fd = control->lock_fd = control->stop_fd = -1;
	memcpy(control->path, path, strlen(path) + 1);
	pthread_mutex_init(&control->changes, NULL);
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->gone, NULL);
	event_ring_close(volume_host_events(host), false);
	if (open_socket(control, fault) == 0) {
		/* Signals are the program's; its connections' threads inherit the mask. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&control->thread, NULL, run_accept, control);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (error == 0)
			return control;
		fault_errno(fault, -error, "%s: its thread can't be started: %s", path,
			    strerror(error));
	}
	close_socket(control);
	free(control);
	return NULL;
}

void
control_stop(struct control *control)
{
	uint64_t one = 1;

	if (write(control->stop_fd, &one, sizeof(one)) < 0)
		log_line(LOG_ERR, "control socket: %s", strerror(errno));
	pthread_join(control->thread, NULL);
	event_ring_close(volume_host_events(control->host), true);
	pthread_mutex_lock(&control->lock);
	/* Reading ends; a call that is under way still gets its answer out. */
	for (struct connection *connection = control->connections; connection;
	     connection = connection->next)
		shutdown(connection->fd, SHUT_RD);
	while (control->count > 0)
		pthread_cond_wait(&control->gone, &control->lock);
	pthread_mutex_unlock(&control->lock);
	close_socket(control);
	pthread_mutex_destroy(&control->lock);
	pthread_mutex_destroy(&control->changes);
	pthread_cond_destroy(&control->gone);
	free(control);
}
