/* rpc/socket.c - see socket.h.  One thread accepts, one serves each connection: the calls of an
 * administrator block (logins, formatting), and few are made.  The monitor socket is a second
 * struct control with a thread and bounds of its own: whatever its clients do, root gets through.
 * A call that waits ends when its client goes, and a client that stalls loses its connection.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "adapters/base/log.h"
#include "adapters/base/reactor.h"
#include "listen.h"
#include "meter.h"
#include "rpc.h"

#define READ_BYTES 4096u
#define SEND_SECONDS_MAX 30  /* a client that reads no answer must not hold up the end */
#define REQUEST_MS_MAX 30000 /* from a request's first byte to its last */
#define NO_ROOM_MS 1000	     /* until it is tried again to accept */

struct rules {
	const char *name;
	bool only_reads; /* and is of the group MONITOR_GROUP; else root's alone */
	int connections_max, of_one_user_max;
	size_t line_bytes_max;
	int idle_ms_max; /* between requests; -1: any */
};

static const struct rules for_root = {
	.name = "control socket",
	.connections_max = CONTROL_CONNECTIONS_MAX,
	.of_one_user_max = CONTROL_CONNECTIONS_MAX,
	.line_bytes_max = CONTROL_LINE_BYTES_MAX,
	.idle_ms_max = -1,
};

static const struct rules for_monitors = {
	.name = "monitor socket",
	.only_reads = true,
	.connections_max = CONTROL_CONNECTIONS_MAX,
	.of_one_user_max = MONITOR_CONNECTIONS_OF_USER_MAX,
	.line_bytes_max = MONITOR_LINE_BYTES_MAX,
	.idle_ms_max = 30000,
};

struct connection {
	struct connection *next;
	struct control *control;
	uid_t uid;
	int fd;
};

struct control {
	struct volume_host *host;
	const struct rules *rules;
	struct control *monitor; /* of root's; NULL: there is none */
	char path[SOCKET_PATH_MAX];
	int fd, lock_fd, stop_fd;
	int kept_fd; /* given up to refuse a connection that there is no descriptor for; -1: none */
	bool short_of_fds;
	pthread_t thread;
	pthread_mutex_t changes; /* one create or delete at a time */
	atomic_int working;

	pthread_mutex_t lock;
	pthread_cond_t gone;
	struct connection *connections;
	int count;
	struct meter meter;
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
	const uint64_t end_ms = monotonic_ms() + SEND_SECONDS_MAX * 1000;

	while (parts[0].iov_len + parts[1].iov_len > 0) {
		ssize_t sent;

		if (monotonic_ms() >= end_ms)
			return false;
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
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

/* Who has the other end; the mode of the monitor socket says who may. */
static bool
peer_may_speak(const struct control *control, int fd, uid_t *uid)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;

	*uid = peer.uid;
	if (known && (control->rules->only_reads || peer.uid == 0 || peer.uid == geteuid()))
		return true;
	send_refusal(fd, FAULT_REQUEST, "only root may use this socket",
		     "run the command as root, for example with sudo");
	return false;
}

/* Monitors ask at a pace; who is faster waits.  False: the program ends, or nobody waits. */
static bool
wait_for_turn(struct connection *connection)
{
	struct control *control = connection->control;
	struct pollfd stop = { .fd = control->stop_fd, .events = POLLIN };
	uint64_t wait_us;

	if (!control->rules->only_reads)
		return true;
	pthread_mutex_lock(&control->lock);
	wait_us = meter_take(&control->meter, connection->uid, monotonic_ns() / 1000);
	pthread_mutex_unlock(&control->lock);
	return poll(&stop, 1, (int)((wait_us + 999) / 1000)) == 0;
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
			if (!wait_for_turn(connection))
				return false;
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

/* Until there are bytes.  begun_ms: when the request began that is incomplete; 0: none did. */
static bool
wait_for_bytes(const struct connection *connection, uint64_t begun_ms)
{
	const struct rules *rules = connection->control->rules;
	struct pollfd bytes = { .fd = connection->fd, .events = POLLIN };
	int patience = rules->idle_ms_max, ready;

	do {
		if (begun_ms != 0) {
			uint64_t spent_ms = monotonic_ms() - begun_ms;

			patience = spent_ms < REQUEST_MS_MAX ? (int)(REQUEST_MS_MAX - spent_ms) : 0;
		}
		ready = poll(&bytes, 1, patience);
	} while (ready < 0 && errno == EINTR);
	if (ready == 0 && begun_ms != 0)
		send_refusal(connection->fd, FAULT_REQUEST,
			     "the request was not complete within 30 s",
			     "send it at once, with a newline behind it");
	return ready > 0;
}

static void
refuse_length(const struct connection *connection)
{
	char text[96];

	snprintf(text, sizeof(text), "the request is longer than %zu KiB",
		 connection->control->rules->line_bytes_max / 1024);
	send_refusal(connection->fd, FAULT_REQUEST, text, "send a shorter one");
}

static void
serve_connection(struct connection *connection)
{
	struct rpc_context context = {
		.host = connection->control->host,
		.changes = &connection->control->changes,
		.working = &connection->control->working,
		.only_reads = connection->control->rules->only_reads,
		.has_gone = has_gone,
		.client = connection,
	};
	char *buffer = NULL;
	size_t size = 0, used = 0, before;
	uint64_t begun_ms = 0;

	for (;;) {
		ssize_t got;

		if (used > connection->control->rules->line_bytes_max) {
			refuse_length(connection);
			break;
		}
		if (size - used < READ_BYTES) {
			char *larger = realloc(buffer, size * 2 + READ_BYTES);

			if (!larger)
				break;
			buffer = larger;
			size = size * 2 + READ_BYTES;
		}
		if (!wait_for_bytes(connection, begun_ms))
			break;
		got = recv(connection->fd, buffer + used, size - used, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		before = used;
		if (!serve_lines(connection, &context, buffer, &used))
			break;
		if (used == 0)
			begun_ms = 0;
		else if (begun_ms == 0 || used < before)
			begun_ms = monotonic_ms();
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

/* Is there room for one more of this user? */
static bool
has_room(struct control *control, uid_t uid)
{
	int of_user = 0;
	bool room;

	pthread_mutex_lock(&control->lock);
	for (const struct connection *one = control->connections; one; one = one->next)
		of_user += one->uid == uid;
	room = control->count < control->rules->connections_max &&
	       of_user < control->rules->of_one_user_max;
	pthread_mutex_unlock(&control->lock);
	return room;
}

static void
refuse_connection(const struct control *control, int fd)
{
	char text[128];

	snprintf(text, sizeof(text), "the %s has %d connections, or %d of this user, open as it is",
		 control->rules->name, control->rules->connections_max,
		 control->rules->of_one_user_max);
	send_refusal(fd, FAULT_BUSY, text, "close one");
	close(fd);
}

static void
begin_connection(struct control *control, int fd, uid_t uid)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	pthread_attr_t attributes;
	pthread_t thread;
	int error = ENOMEM;

	if (connection) {
		connection->control = control;
		connection->fd = fd;
		connection->uid = uid;
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
		log_line(LOG_ERR, "%s: a connection was refused: %s", control->rules->name,
			 strerror(error));
		close(fd);
		free(connection);
	}
}

static int
accept_now(const struct control *control)
{
	return accept4(control->fd, NULL, NULL, SOCK_CLOEXEC);
}

static int
keep_one(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool
is_short_of_fds(int error)
{
	return error == EMFILE || error == ENFILE;
}

/* The caller is told, by the descriptor that is kept for it.  False: another thread took that. */
static bool
refuse_for_fds(struct control *control, int error)
{
	static const char *const remedy =
		"raise LimitNOFILE of the service, and see in /proc/PID/fd what it has open";
	char text[128];
	int fd = -1;

	snprintf(text, sizeof(text), "process %ld has no file descriptor left: %s", (long)getpid(),
		 strerror(error));
	if (!control->short_of_fds)
		log_line(LOG_ERR, "%s: connections are refused: %s; %s", control->rules->name, text,
			 remedy);
	control->short_of_fds = true;
	if (control->kept_fd >= 0) {
		close(control->kept_fd);
		fd = accept_now(control);
	}
	if (fd >= 0) {
		send_refusal(fd, FAULT_BUSY, text, remedy);
		close(fd);
	}
	control->kept_fd = keep_one();
	return fd >= 0;
}

/* One that wants in; -1: nobody does, or there is no room for it. */
static int
accept_next(struct control *control)
{
	struct pollfd stop = { .fd = control->stop_fd, .events = POLLIN };
	int fd = accept_now(control), error = errno;

	if (fd >= 0) {
		control->short_of_fds = false;
		if (control->kept_fd < 0)
			control->kept_fd = keep_one();
	} else if (is_short_of_fds(error) ? !refuse_for_fds(control, error)
					  : error == ENOMEM || error == ENOBUFS) {
		poll(&stop, 1, NO_ROOM_MS); /* else it would spin */
	}
	return fd;
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
		uid_t uid;
		int fd;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			break;
		fd = accept_next(control);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (!peer_may_speak(control, fd, &uid))
			close(fd);
		else if (!has_room(control, uid))
			refuse_connection(control, fd);
		else
			begin_connection(control, fd, uid);
	}
	return NULL;
}

/* --- beginning and end --- */

static int
open_socket(struct control *control, struct fault *fault)
{
	control->fd =
		control_listen(control->path, control->rules->only_reads ? monitor_group() : NULL,
			       &control->lock_fd, fault);
	if (control->fd < 0)
		return control->fd;
	control->kept_fd = keep_one();
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
	if (control->kept_fd >= 0)
		close(control->kept_fd);
	if (control->lock_fd >= 0)
		close(control->lock_fd);
}

static struct control *
serve(struct volume_host *host, const char *path, const struct rules *rules, struct fault *fault)
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
	control->rules = rules;
	control->fd = control->lock_fd = control->stop_fd = control->kept_fd = -1;
	memcpy(control->path, path, strlen(path) + 1);
	pthread_mutex_init(&control->changes, NULL);
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->gone, NULL);
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

/* Beside .../control.sock; a socket of another name is somebody's own, and has none.  Nothing else
 * depends on it.
 */
static struct control *
serve_monitors(struct volume_host *host, const char *path)
{
	char beside[sizeof(((struct control *)0)->path)];
	size_t length = strlen(path) - strlen(strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	struct control *monitor;
	struct fault fault;

	if (strcmp(path + length, CONTROL_SOCKET_NAME) != 0)
		return NULL;
	snprintf(beside, sizeof(beside), "%.*s" MONITOR_SOCKET_NAME, (int)length, path);
	monitor = serve(host, beside, &for_monitors, &fault);
	if (!monitor)
		log_line(LOG_WARNING, "monitor socket %s", fault.message);
	return monitor;
}

struct control *
control_start(struct volume_host *host, const char *path, struct fault *fault)
{
	struct control *control;

	event_ring_close(volume_host_events(host), false);
	control = serve(host, path, &for_root, fault);
	if (control)
		control->monitor = serve_monitors(host, path);
	return control;
}

static void
end_accepting(struct control *control)
{
	uint64_t one = 1;

	if (write(control->stop_fd, &one, sizeof(one)) < 0)
		log_line(LOG_ERR, "%s: %s", control->rules->name, strerror(errno));
	pthread_join(control->thread, NULL);
}

static void
end_connections(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	/* Reading ends; a call of root's that is under way still gets its answer out. */
	for (struct connection *connection = control->connections; connection;
	     connection = connection->next)
		shutdown(connection->fd, control->rules->only_reads ? SHUT_RDWR : SHUT_RD);
	while (control->count > 0)
		pthread_cond_wait(&control->gone, &control->lock);
	pthread_mutex_unlock(&control->lock);
	close_socket(control);
	pthread_mutex_destroy(&control->lock);
	pthread_mutex_destroy(&control->changes);
	pthread_cond_destroy(&control->gone);
	free(control);
}

void
control_stop(struct control *control)
{
	struct control *monitor = control->monitor;

	end_accepting(control);
	if (monitor)
		end_accepting(monitor);
	event_ring_close(volume_host_events(control->host), true);
	end_connections(control);
	if (monitor)
		end_connections(monitor);
}
