/* backend_iscsi.c - a member through libiscsi: the interface, events, timers and the socket.
 *
 *      ops (engine)                    reactor                       driver
 *   open submit close release     on_fd: iscsi_service()      tick: timers, then opened/done/closed
 *            |                            |                   send: commands -> libiscsi -> socket
 *            `--------- notes ------------'                                 ^
 *                         `-------------------- delivered by ---------------'
 *
 * Progress.  A session is dropped when commands wait and nothing has happened for deadline_ms.
 * What counts as something: a command that was answered; bytes of an answer (more than pings make
 * up); and bytes that the member's kernel acknowledged, but only while the oldest command is
 * still being sent.  Without that last condition a hung target would live as long as its socket buffer
 * takes new commands.  A single command that the target lost while it answers others is found
 * by its age, a multiple of the deadline.
 */
#include "backend_iscsi_private.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define KEEP_ALIVE_MS 2000
#define CHECKS_PER_DEADLINE 8
#define CHECK_MS_MIN 20
#define CHECK_MS_MAX 500
#define RECEIVED_BYTES_MIN 512	/* ten pings */
#define LOST_COMMAND_DEADLINES 6
#define CORK_BYTES_MAX 16384	/* measured: above, the two calls cost more than they save */

static struct iscsi_member *
member_of(struct backend *backend)
{
	return (struct iscsi_member *)backend;
}

static void
on_wake(struct reactor_message *message)
{
	struct member_wake *wake = (struct member_wake *)message;

	wake->posted = false;
	if (wake->member == NULL)
		free(wake);
}

void
member_wake_up(struct iscsi_member *member)
{
	if (member->wake->posted)
		return;
	member->wake->posted = true;
	reactor_post(member->reactor, &member->wake->message);
}

void
member_break(struct iscsi_member *member, int error, const char *format, ...)
{
	va_list arguments;

	if (member->dropping || member->broken_error != 0)
		return;		/* the first cause counts */
	member->broken_error = error;
	va_start(arguments, format);
	vsnprintf(member->broken_reason, sizeof(member->broken_reason), format, arguments);
	va_end(arguments);
	member_wake_up(member);
}

void
member_progress(struct iscsi_member *member)
{
	member->progress_ms = member->now_ms;
}

void
member_forget_context(struct iscsi_member *member)
{
	if (member->context != NULL) {
		if (member->fd_events != 0)
			reactor_watch(member->reactor, member->fd, 0, NULL, NULL);
		member->dropping = true;
		iscsi_destroy_context(member->context);
		member->dropping = false;
	}
	member->context = NULL;
	member->fd = -1;
	member->fd_events = 0;
	member->step_pending = false;
	member->step_done = false;
	member->broken_error = 0;
	member->queued_commands = 0;
	member->queued_bytes = 0;
}

void
member_drop(struct iscsi_member *member, int error, const char *reason)
{
	if (member->state == SESSION_CLOSED)
		return;
	if (error != -ECANCELED)
		member->path = (member->path + 1) % member->backend.paths;
	/* First: reason may be text that is cleared below. */
	snprintf(member->closed_reason, sizeof(member->closed_reason), "%s", reason);
	member->closed_error = error;
	member->closed_pending = true;
	member->opened_pending = false;
	member->state = SESSION_CLOSED;
	if (member->resolution != NULL)
		resolver_abandon(member->resolution);
	member->resolution = NULL;
	member_forget_context(member);
	io_fail_all(member);
	member_wake_up(member);
}

/* The socket */

static void on_fd(void *owner, uint32_t events);

static void
update_events(struct iscsi_member *member)
{
	uint32_t wanted;
	int fd, error;

	static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "libiscsi speaks poll(2)");
	if (member->context == NULL)
		return;
	fd = iscsi_get_fd(member->context);
	wanted = (uint32_t)iscsi_which_events(member->context);
	if (fd < 0 || wanted == 0) {
		member_break(member, -ECONNRESET, "the connection ended");
		return;
	}
	if (wanted == member->fd_events && fd == member->fd)
		return;
	member->fd = fd;
	error = reactor_watch(member->reactor, fd, wanted, on_fd, member);
	if (error != 0) {
		member_break(member, error, "its socket can't be watched: %s", strerror(-error));
		return;
	}
	member->fd_events = wanted;
}

static void
service(struct iscsi_member *member, int events)
{
	int result;

	if (member->state == SESSION_LOGIN)
		result = iscsi_login_service(member->context, events, &member->negotiated);
	else
		result = iscsi_service(member->context, events);
	if (result != 0)
		member_break(member, -ECONNRESET, "the connection ended during %s",
			     member->state == SESSION_OPEN ? "operation" : session_state_name(member->state));
	session_advance(member);
	update_events(member);
}

static void
socket_failed(struct iscsi_member *member, uint32_t events)
{
	const struct iscsi_context *context = member->context;
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(member->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		error = errno;
	if (error == 0)
		error = ECONNRESET;
	if (member->state == SESSION_CONNECT) {
		session_connect_failed(member, -error);
		update_events(member);
		return;
	}
	if (events & EPOLLIN)	/* its last words, perhaps why it refuses the login */
		service(member, POLLIN);
	if (member->context != context)
		return;
	member_break(member, -error, "the connection ended: %s", strerror(error));
	session_advance(member);
}

static void
on_fd(void *owner, uint32_t events)
{
	struct iscsi_member *member = owner;

	member->now_ms = monotonic_ms();
	if (events & (EPOLLERR | EPOLLHUP))
		socket_failed(member, events);
	else
		service(member, (int)(events & (EPOLLIN | EPOLLOUT)));
}

static void
set_cork(struct iscsi_member *member, int on)
{
	setsockopt(member->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

void
backend_iscsi_send(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);
	bool cork;

	if (member->context == NULL)
		return;
	if (member->state == SESSION_OPEN && !member->opened_pending && !io_idle(member)) {
		member->now_ms = monotonic_ms();
		io_pump(member);
	}
	if (member->queued_commands == 0)
		return;
	cork = member->queued_commands > 1 &&
	       member->queued_bytes / (uint32_t)member->queued_commands < CORK_BYTES_MAX;
	member->queued_commands = 0;
	member->queued_bytes = 0;
	if (member->broken_error == 0 && (iscsi_which_events(member->context) & POLLOUT) != 0) {
		if (cork)
			set_cork(member, 1);
		service(member, POLLOUT);
		if (cork && member->context != NULL)
			set_cork(member, 0);
	} else {
		session_advance(member);
		update_events(member);
	}
}

/* Timers */

bool
member_stream_counters(struct iscsi_member *member, uint64_t *acked, uint64_t *received)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (member->fd < 0 || getsockopt(member->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
		return false;
	*acked = info.tcpi_bytes_acked;
	*received = info.tcpi_bytes_received;
	return true;
}

static uint64_t
check_interval_ms(const struct iscsi_member *member)
{
	uint64_t interval = member->options.deadline_ms / CHECKS_PER_DEADLINE;

	if (interval < CHECK_MS_MIN)
		return CHECK_MS_MIN;
	return interval > CHECK_MS_MAX ? CHECK_MS_MAX : interval;
}

static void
note_stream_progress(struct iscsi_member *member)
{
	const struct command *oldest = member->wire_oldest;
	uint64_t acked, received;

	if (!member_stream_counters(member, &acked, &received))
		return;
	if (acked != member->acked_seen && oldest != NULL &&
	    member->acked_seen - member->acked_base < oldest->end_position)
		member_progress(member);
	member->acked_seen = acked;
	if (received - member->received_mark >= RECEIVED_BYTES_MIN) {
		member->received_mark = received;
		member_progress(member);
	}
}

static void
check_progress(struct iscsi_member *member)
{
	uint32_t deadline_ms = member->options.deadline_ms;
	const struct command *oldest = member->wire_oldest;
	char reason[128];

	if (member->now_ms < member->check_ms)
		return;
	member->check_ms = member->now_ms + check_interval_ms(member);
	note_stream_progress(member);
	if (member->now_ms - member->progress_ms >= deadline_ms) {
		snprintf(reason, sizeof(reason), "no progress for %u ms, %d commands unanswered", deadline_ms,
			 member->wire_count + member->step_pending);
		member_drop(member, -ETIMEDOUT, reason);
	} else if (oldest != NULL &&
		   member->now_ms - oldest->sent_ms >= (uint64_t)deadline_ms * LOST_COMMAND_DEADLINES) {
		snprintf(reason, sizeof(reason), "a command got no answer in %llu ms, though others did",
			 (unsigned long long)(member->now_ms - oldest->sent_ms));
		member_drop(member, -ETIMEDOUT, reason);
	}
}

static void
watch_session(struct iscsi_member *member)
{
	if (member->wire_count > 0 || member->step_pending)
		check_progress(member);
	else if (io_idle(member) && member->now_ms - member->idle_since_ms >= KEEP_ALIVE_MS) {
		member->idle_since_ms = member->now_ms;
		session_keep_alive(member);
	}
}

static void
deliver_done(struct iscsi_member *member)
{
	struct backend_io *io = member->done.head;

	member->done.head = NULL;	/* what is submitted meanwhile waits for the next turn */
	while (io != NULL) {
		struct backend_io *next = io->next;

		io->done(io);
		io = next;
	}
}

static void
deliver(struct iscsi_member *member)
{
	const struct backend *backend = &member->backend;

	if (member->opened_pending) {
		member->opened_pending = false;
		backend->events->opened(backend->events_owner, &member->identity);
	}
	deliver_done(member);
	if (member->closed_pending && member->done.head == NULL) {
		char reason[REASON_MAX];

		/* The callback may open again. */
		member->closed_pending = false;
		memcpy(reason, member->closed_reason, sizeof(reason));
		backend->events->closed(backend->events_owner, member->closed_error, reason);
	}
}

static uint64_t
wake_ms(const struct iscsi_member *member)
{
	uint64_t wake = session_wake_ms(member);
	uint64_t repeat = io_repeat_ms(member);

	if (member->opened_pending || member->closed_pending || member->done.head != NULL ||
	    member->broken_error != 0)
		return member->now_ms;
	/* Also without commands: this answer is given before the engine submits more. */
	if (member->state == SESSION_OPEN && member->now_ms + check_interval_ms(member) < wake)
		wake = member->now_ms + check_interval_ms(member);
	return repeat < wake ? repeat : wake;
}

uint64_t
backend_iscsi_tick(struct backend *backend, uint64_t now_ms)
{
	struct iscsi_member *member = member_of(backend);

	member->now_ms = now_ms;
	if (member->broken_error != 0)
		session_advance(member);
	session_tick(member);
	if (member->state == SESSION_OPEN && !member->opened_pending)
		watch_session(member);
	update_events(member);
	deliver(member);
	return wake_ms(member);
}

/* The engine's calls */

static void
op_open(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	assert(member->state == SESSION_CLOSED && !member->closed_pending);
	member->now_ms = monotonic_ms();
	session_start(member);
	update_events(member);
	member_wake_up(member);
}

static void
op_submit(struct backend *backend, struct backend_io *io)
{
	io_submit(member_of(backend), io);
}

static void
op_divert(struct backend *backend, struct backend_io *io)
{
	io_divert(member_of(backend), io);
}

static void
op_close(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	member->now_ms = monotonic_ms();
	member_drop(member, -ECANCELED, "closed");
}

static void
op_release(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	member->now_ms = monotonic_ms();
	if (member->state == SESSION_OPEN && io_idle(member)) {
		member->opened_pending = false;
		session_release(member);
		member_wake_up(member);
	} else if (!session_on_the_way_back(member->state)) {
		member_drop(member, -ECANCELED, "closed");
	}
}

static const struct backend_ops ops = {
	.open = op_open,
	.submit = op_submit,
	.divert = op_divert,
	.close = op_close,
	.release = op_release,
};

struct backend *
backend_iscsi_create(struct reactor *reactor, const struct backend_iscsi_options *options)
{
	struct iscsi_member *member = calloc(1, sizeof(*member));

	if (member == NULL)
		return NULL;
	member->wake = calloc(1, sizeof(*member->wake));
	if (member->wake == NULL) {
		free(member);
		return NULL;
	}
	member->wake->message.fn = on_wake;
	member->wake->member = member;
	member->reactor = reactor;
	member->options = *options;
	member->fd = -1;
	member->now_ms = monotonic_ms();
	member_address_format(&options->address, member->label);
	member->backend.ops = &ops;
	member->backend.label = member->label;
	member->backend.paths = 1 + options->more_portals_count;
	if (io_create(member) != 0) {
		free(member->wake);
		free(member);
		return NULL;
	}
	return &member->backend;
}

void
backend_iscsi_destroy(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	if (member == NULL)
		return;
	assert(member->state == SESSION_CLOSED && member->done.head == NULL);
	if (member->wake->posted)
		member->wake->member = NULL;
	else
		free(member->wake);
	io_destroy(member);
	explicit_bzero(&member->options.credentials, sizeof(member->options.credentials));
	free(member);
}
