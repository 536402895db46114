/* backend/backend.c - a member over iSCSI: the interface, events and the socket.
 *
 *      ops (engine)                    reactor                       driver
 *   open submit divert          on_fd: the login, then           tick: timers, then opened/done/closed
 *   close release               receive()                        send: commands -> connection -> socket
 *            |                            |                                 ^
 *            `--------- notes ------------'                                 |
 *                         `-------------------- delivered by ---------------'
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

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

	if (member->dropping || member->broken.code != 0)
		return; /* the first cause counts */
	va_start(arguments, format);
	fault_vset(&member->broken, error, "", format, arguments);
	va_end(arguments);
	io_doubt_flushes(member);
	member_wake_up(member);
}

void
member_progress(struct iscsi_member *member)
{
	member->progress_ms = member->now_ms;
}

void
member_login_over(struct iscsi_member *member)
{
	secret_memory_free(member->opened, sizeof(*member->opened));
	member->opened = NULL;
}

/* Whatever the session is made of just now. */
void
member_disconnect(struct iscsi_member *member)
{
	member_login_over(member);
	follow_end(member);
	if (member->fd_events != 0)
		reactor_watch(member->reactor, member->fd, 0, NULL, NULL);
	member->dropping = true;
	if (member->connection != NULL)
		iscsi_connection_destroy(member->connection);
	else if (member->fd >= 0)
		close(member->fd);
	member->dropping = false;
	member->connection = NULL;
	member->fd = -1;
	member->fd_events = 0;
	member->step_pending = false;
	member->step_done = false;
	member->step_repeat_ms = 0; /* else a closed one wants to be called at once, for ever */
	member->broken.code = 0;
}

void
member_drop(struct iscsi_member *member, int error, const char *format, ...)
{
	va_list arguments;

	if (member->state == SESSION_CLOSED)
		return;
	if (error != -ECANCELED)
		member->path = (member->path + 1) % member->backend.paths;
	/* First: what is told may be cleared below. */
	va_start(arguments, format);
	fault_vset(&member->closed, error, "", format, arguments);
	va_end(arguments);
	member->closed_pending = true;
	member->opened_pending = false;
	member->state = SESSION_CLOSED;
	if (member->resolution != NULL)
		resolver_abandon(member->resolution);
	member->resolution = NULL;
	member_disconnect(member);
	io_fail_all(member);
	member_wake_up(member);
}

/* The socket */

static void on_fd(void *owner, uint32_t events);

static void
watch_socket(struct iscsi_member *member, uint32_t wanted)
{
	int error;

	if (wanted == member->fd_events)
		return;
	error = reactor_watch(member->reactor, member->fd, wanted, on_fd, member);
	if (error != 0)
		member_break(member, error, "its socket can't be added to epoll: %s",
			     strerror(-error));
	else
		member->fd_events = wanted;
}

static void
update_events(struct iscsi_member *member)
{
	static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "the login speaks poll(2)");
	if (member->connection != NULL) {
		bool more = iscsi_connection_wants_to_send(member->connection);

		watch_socket(member, EPOLLIN | (more ? EPOLLOUT : 0));
	} else if (member->fd >= 0) {
		watch_socket(member, member->state == SESSION_CONNECT
					     ? EPOLLOUT
					     : (uint32_t)iscsi_login_events(&member->login));
	}
}

void
member_flush(struct iscsi_member *member)
{
	int error;

	if (member->connection == NULL || member->broken.code != 0)
		return;
	error = iscsi_connection_flush(member->connection);
	if (error != 0)
		member_break(member, error, "%s",
			     iscsi_connection_fault(member->connection)->message);
}

static void
service_login(struct iscsi_member *member, uint32_t events)
{
	int result = iscsi_login_service(&member->login, member->fd, (int)events);

	if (result == 0)
		session_login_served(member);
	else if (result == -EPROTO)
		member_break(member, -EPROTO,
			     "the target's answers to the login are not understood");
	else
		member_break(member, -ECONNRESET, "the connection ended during %s",
			     session_step_name(member));
}

/* What an open session has to send now waits for backend_iscsi_send(), so that it goes with what
 * the engine makes of the answers.
 */
/* Each costs a repeat or the session, so an administrator needs to know; a bad cable doesn't fill
 * the log.
 */
static void
note_digest_errors(struct iscsi_member *member)
{
	uint32_t now = iscsi_connection_digest_errors(member->connection);

	if (now == member->digest_errors_seen)
		return;
	member->backend.digest_errors += now - member->digest_errors_seen;
	member->digest_errors_seen = now;
	if (member->digest_logged_ms != 0 &&
	    member->now_ms - member->digest_logged_ms < ATTENTION_LOG_MS)
		return;
	member->digest_logged_ms = member->now_ms;
	log_line(LOG_WARNING,
		 "member %s: wrong digest, %llu so far; what was damaged is repeated. Check the "
		 "network, and memory at both ends",
		 member->label, (unsigned long long)member->backend.digest_errors);
}

static void
service_connection(struct iscsi_member *member, uint32_t events)
{
	int error = 0;

	if (events & EPOLLIN)
		error = iscsi_connection_receive(member->connection);
	note_digest_errors(member);
	if (error != 0)
		member_break(member, error, "%s",
			     iscsi_connection_fault(member->connection)->message);
	else if (events & EPOLLOUT)
		member_flush(member);
}

static void
service(struct iscsi_member *member, uint32_t events)
{
	if (member->connection != NULL)
		service_connection(member, events);
	else if (member->state == SESSION_CONNECT)
		session_connected(member);
	else
		service_login(member, events);
	session_advance(member);
	if (member->state != SESSION_OPEN)
		member_flush(member);
	update_events(member);
}

static void
socket_failed(struct iscsi_member *member, uint32_t events)
{
	enum session_state state = member->state;
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
	if (events & EPOLLIN) /* its last words, perhaps why it refuses the login */
		service(member, EPOLLIN);
	if (member->state != state)
		return;
	member_break(member, -error, "the connection ended: %s", strerror(error));
	session_advance(member);
}

static void
on_fd(void *owner, uint32_t events)
{
	struct iscsi_member *member = owner;

	member->now_ms = reactor_now_ms(member->reactor);
	if (member->state == SESSION_OPEN)
		watch_pause(member);
	if (events & (EPOLLERR | EPOLLHUP))
		socket_failed(member, events);
	else
		service(member, events & (EPOLLIN | EPOLLOUT));
}

void
backend_iscsi_send(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	if (member->connection == NULL)
		return;
	if (member->state == SESSION_OPEN && !member->opened_pending && !io_idle(member)) {
		member->now_ms = reactor_now_ms(member->reactor);
		io_pump(member);
	}
	member_flush(member);
	if (member->broken.code != 0)
		session_advance(member);
	update_events(member);
}

/* Timers */

static void
deliver_done(struct iscsi_member *member)
{
	struct backend_io *io = member->done.head;

	member->done.head = NULL; /* what is submitted meanwhile waits for the next turn */
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
		member->cache_kept = true; /* from here on, for the next */
		member->was_taken |= member->identity.reservation;
		backend->events->opened(backend->events_owner, &member->identity);
	}
	deliver_done(member);
	if (member->closed_pending && member->done.head == NULL) {
		const struct fault closed = member->closed;

		/* The callback may open again. */
		member->closed_pending = false;
		backend->events->closed(backend->events_owner, closed.code, closed.message);
	}
}

static uint64_t
wake_ms(const struct iscsi_member *member)
{
	uint64_t wake = session_wake_ms(member);
	uint64_t repeat = io_repeat_ms(member);

	if (member->opened_pending || member->closed_pending || member->done.head != NULL ||
	    member->broken.code != 0)
		return member->now_ms;
	/* Also without commands: this answer is given before the engine submits more. */
	if (member->state == SESSION_OPEN && member->now_ms + watch_interval_ms(member) < wake)
		wake = member->now_ms + watch_interval_ms(member);
	return repeat < wake ? repeat : wake;
}

uint64_t
backend_iscsi_tick(struct backend *backend, uint64_t now_ms)
{
	struct iscsi_member *member = member_of(backend);

	member->now_ms = now_ms;
	if (member->broken.code != 0)
		session_advance(member);
	session_tick(member);
	if (member->state == SESSION_OPEN && !member->opened_pending)
		watch_session(member);
	if (member->state != SESSION_OPEN || member->step_pending)
		/* what the timers sent; the rest is backend_iscsi_send()'s */
		member_flush(member);
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
	member->now_ms = reactor_now_ms(member->reactor);
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

	member->now_ms = reactor_now_ms(member->reactor);
	member_drop(member, -ECANCELED, "closed");
}

static void
op_release(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	member->now_ms = reactor_now_ms(member->reactor);
	if (member->state == SESSION_OPEN || session_may_reserve(member->state)) {
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

/* Logins need them for as long as there is a member. */
static bool
keep_credentials(struct iscsi_member *member)
{
	struct iscsi_credentials *given = &member->options.credentials;
	const enum redirects redirects = given->redirects; /* no secret */
	bool kept = sealed_put(&member->credentials, given, sizeof(*given));

	explicit_bzero(given, sizeof(*given));
	given->redirects = redirects;
	return kept;
}

void
member_forget_former(struct iscsi_member *member)
{
	secret_memory_free(member->former, sizeof(*member->former));
	member->former = NULL;
}

/* Without memory there is none, as if the file had not changed. */
static void
keep_former(struct iscsi_member *member, const struct iscsi_credentials *now)
{
	struct iscsi_credentials *before = secret_memory(sizeof(*before));

	if (member->former == NULL)
		member->former = secret_memory(sizeof(*member->former));
	if (before != NULL && member->former != NULL && sealed_open(&member->credentials, before)) {
		former_keep(member->former, before, now, reactor_now_ms(member->reactor));
		member->former->credentials.redirects = now->redirects;
	}
	secret_memory_free(before, sizeof(*before));
	if (member->former != NULL && member->former->until_ms == 0)
		member_forget_former(member);
}

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
	if (!keep_credentials(member)) {
		free(member->wake);
		free(member);
		return NULL;
	}
	member->fd = member->follower.fd = -1;
	member->now_ms = reactor_now_ms(member->reactor);
	if (options->take_over_ms > 0)
		member->take_over_until_ms = member->now_ms + options->take_over_ms;
	member->noted = options->preempted;
	member->unfenced_key = options->preempted.key;
	member->unfenced = options->preempted.key != 0 && options->preempted.followable;
	member->unfollowed = options->preempted.key != 0 && !options->preempted.followable;
	member->follower.nexus = options->preempted.nexus;
	member->follower.portal_group = options->preempted.portal_group;
	member_address_format(&options->address, member->label);
	member->backend.ops = &ops;
	member->backend.label = member->label;
	member->backend.paths = 1 + options->more_portals_count;
	io_create(member);
	return &member->backend;
}

void
backend_iscsi_end_take_over(struct backend *backend)
{
	struct iscsi_member *member = member_of(backend);

	member->take_over_until_ms = 0;
	/* others proved enough, or an administrator did */
	if (member->unfollowed && member->options.note_preempted != NULL) {
		member->noted = (struct scsi_preempted){ .key = 0 };
		member->options.note_preempted(member->options.owner, &member->options.address,
					       &member->noted);
	}
}

void
backend_iscsi_adjust(struct backend *backend, const struct backend_iscsi_options *options)
{
	struct iscsi_member *member = member_of(backend);

	member->options.deadline_ms = options->deadline_ms;
	member->options.connect_ms = options->connect_ms;
	member->options.digests = options->digests;
	keep_former(member, &options->credentials);
	member->options.credentials = options->credentials;
	if (!keep_credentials(member)) /* the next login is that of before */
		log_line(LOG_WARNING, "%s: no memory for its new CHAP file: reload it again",
			 member->label);
	memcpy(member->options.more_portals, options->more_portals, sizeof(options->more_portals));
	member->options.more_portals_count = options->more_portals_count;
	member->backend.paths = 1 + options->more_portals_count;
	if (member->path >= member->backend.paths)
		member->path = 0;
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
	member_forget_former(member);
	sealed_free(&member->credentials);
	free(member);
}
