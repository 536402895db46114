/* device/session.c - a blocking session with a time limit: what follows the login is
 * iscsi_connection's, and text.c's where it is a discovery.  Callbacks only note.
 */
#include "internal.h"
#include "adapters/iscsi/redirect.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *
admin_label(const struct admin_session *session, char out[MEMBER_ADDRESS_MAX])
{
	if (session->address.iqn[0] == '\0')
		snprintf(out, MEMBER_ADDRESS_MAX, "portal %s", session->address.portal);
	else
		member_address_format(&session->address, out);
	return out;
}

static bool
timed_out(const struct admin_session *session, const char *name, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];

	return fault_set(fault, FAULT_UNREACHABLE,
			 "check the address, the target, and firewalls that drop packets",
			 "%s: no answer within %u ms, in %s", admin_label(session, label),
			 session->limit_ms, name);
}

static bool
disconnected(const struct admin_session *session, const char *name, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];

	return fault_set(fault, FAULT_UNREACHABLE, "see the target's log; it may be shutting down",
			 "%s: the connection ended during %s", admin_label(session, label), name);
}

static bool
no_connection(const struct admin_session *session, int error, struct fault *fault)
{
	const char *remedy = "check the network and the route to the target";

	if (error == ECONNREFUSED)
		remedy = "check that the target runs and listens on this port (ss -ltn on the "
			 "target)";
	else if (error == ETIMEDOUT)
		remedy = "check the address, the target, and firewalls that drop packets";
	return fault_set(fault, FAULT_UNREACHABLE, remedy, "portal %s: %s", session->address.portal,
			 error == ECONNREFUSED ? "connection refused" : strerror(error));
}

bool
admin_ended(const struct admin_session *session, int error, const char *name, struct fault *fault)
{
	return error == -ETIMEDOUT ? timed_out(session, name, fault)
				   : disconnected(session, name, fault);
}

void
admin_start_clock(struct admin_session *session)
{
	const uint64_t now = monotonic_ms(), end_ms = session->bounds.end_ms;

	session->limit_ms = session->bounds.timeout_ms;
	if (end_ms != 0 && now + session->limit_ms > end_ms)
		session->limit_ms = end_ms > now ? (uint32_t)(end_ms - now) : 0;
	session->deadline_ms = now + session->limit_ms;
}

static int
handle_events(struct admin_session *session, int events)
{
	int error;

	if (session->connection != NULL)
		return iscsi_connection_receive(session->connection);
	error = iscsi_login_service(&session->login, session->fd, events);
	session->done = session->login.outcome != LOGIN_UNDER_WAY;
	return error;
}

static int
watched(struct admin_session *session, struct pollfd *pollfd)
{
	int error;

	pollfd->fd = session->fd;
	if (session->connection == NULL) {
		pollfd->events = (short)iscsi_login_events(&session->login);
		return 0;
	}
	error = iscsi_connection_flush(session->connection);
	pollfd->events =
		POLLIN | (iscsi_connection_wants_to_send(session->connection) ? POLLOUT : 0);
	return error;
}

/* One wait and one service.  0; -ETIMEDOUT; -errno of the socket, -EPROTO of the login. */
static int
turn(struct admin_session *session)
{
	struct pollfd pollfd = { 0 };
	uint64_t now = monotonic_ms();
	int error, result;
	socklen_t size = sizeof(error);

	if (now >= session->deadline_ms)
		return -ETIMEDOUT;
	error = watched(session, &pollfd);
	if (error != 0 || session->done) /* its answer may have come before all was sent */
		return error;
	result = poll(&pollfd, 1, (int)(session->deadline_ms - now));
	if (result < 0)
		return errno == EINTR ? 0 : -errno;
	if (result == 0)
		return -ETIMEDOUT;
	if (pollfd.revents & (POLLERR | POLLHUP)) {
		getsockopt(pollfd.fd, SOL_SOCKET, SO_ERROR, &error, &size);
		/* What it said before it went away may be the reason. */
		if (!(pollfd.revents & POLLIN))
			return error != 0 ? -error : -ECONNRESET;
		pollfd.revents = POLLIN;
	}
	return handle_events(session, pollfd.revents);
}

bool
admin_wait(struct admin_session *session, const char *name, struct fault *fault)
{
	while (!session->done) {
		int error = turn(session);

		if (error == 0)
			continue;
		session->broken = true;
		return admin_ended(session, error, name, fault);
	}
	return true;
}

static bool
login_refused(const struct admin_session *session, struct fault *fault)
{
	const char *initiator = session->credentials->initiator;
	const char *user = session->credentials->user;
	char label[MEMBER_ADDRESS_MAX], remedy[512] = "";

	switch (session->login.failure) {
	case LOGIN_AUTHENTICATION:
		snprintf(remedy, sizeof(remedy),
			 user[0] != '\0' ? "compare user and secret in the CHAP file with the "
					   "account on the target (user \"%s\")"
					 : "the target requires CHAP: give a file with user and "
					   "secret (--chap-file)%.0s",
			 user);
		break;
	case LOGIN_CHAP_DECLINED:
		snprintf(remedy, sizeof(remedy),
			 "bind an account with the user \"%s\" to the target, or set chap_file = "
			 "none",
			 user);
		break;
	case LOGIN_NOT_PROVEN:
		snprintf(remedy, sizeof(remedy),
			 "compare lines 3 and 4 of the CHAP file with the target's own account "
			 "(user \"%s\"; outgoing, or mutual)",
			 session->credentials->target_user);
		break;
	case LOGIN_AUTHORIZATION:
		snprintf(remedy, sizeof(remedy),
			 "admit the initiator %s in the target's access list", initiator);
		break;
	case LOGIN_NO_TARGET:
		/* Some targets (tgt) hide from initiators that they don't admit. */
		snprintf(remedy, sizeof(remedy),
			 "'iraid discover %.150s' lists the targets of this portal; if it is one "
			 "of them, admit the initiator %s in its access list",
			 session->address.portal, initiator);
		break;
	case LOGIN_NO_FAILURE:
	case LOGIN_DIGEST:
	case LOGIN_REFUSED:
	case LOGIN_TARGET_TROUBLE:
		snprintf(remedy, sizeof(remedy), "see the target's log");
		break;
	}
	return fault_set(fault, FAULT_LOGIN, remedy, "%s: %s", admin_label(session, label),
			 session->login.text);
}

static void
random_isid(uint8_t isid[6])
{
	/* Never the name of a volume's session: a login under the same name would end that one. */
	if (getrandom(isid, 6, 0) != 6)
		memset(isid, (int)(monotonic_ms() & 0xff), 6);
}

static void
disconnect(struct admin_session *session)
{
	if (session->connection != NULL)
		iscsi_connection_destroy(session->connection);
	else if (session->fd >= 0)
		close(session->fd);
	session->connection = NULL;
	session->fd = -1;
}

/* 0, or -errno */
static int
connect_to(struct admin_session *session, const char *portal)
{
	struct pollfd pollfd = { .events = POLLOUT };
	int result;

	disconnect(session);
	session->fd = iscsi_connect_start(portal);
	if (session->fd < 0)
		return session->fd;
	pollfd.fd = session->fd;
	do {
		uint64_t now = monotonic_ms();

		if (now >= session->deadline_ms)
			return -ETIMEDOUT;
		result = poll(&pollfd, 1, (int)(session->deadline_ms - now));
	} while (result < 0 && errno == EINTR);
	if (result <= 0)
		return result == 0 ? -ETIMEDOUT : -errno;
	return iscsi_connect_result(session->fd);
}

/* All addresses of the portal's name in turn, sharing the time. */
static bool
connect_portal(struct admin_session *session, const char *portal, struct fault *fault)
{
	uint64_t end_ms = session->deadline_ms, now = monotonic_ms();
	struct resolved resolved;
	int error = -EHOSTUNREACH;

	resolver_wait(portal, end_ms > now ? (uint32_t)(end_ms - now) : 0, &resolved);
	if (resolved.fault.code != 0)
		return fault_set(fault, FAULT_UNREACHABLE,
				 "check the host name, or give an address", "portal %s: %s", portal,
				 resolved.fault.message);
	if (session->asked.count == 0)
		session->asked = resolved;
	for (int i = 0; i < resolved.count; i++) {
		now = monotonic_ms();
		session->deadline_ms =
			now + (end_ms > now ? end_ms - now : 0) / (uint64_t)(resolved.count - i);
		error = connect_to(session, resolved.portals[i]);
		session->deadline_ms = end_ms;
		if (error == 0)
			return true;
	}
	return no_connection(session, -error, fault);
}

static size_t
host_bytes(const char *portal)
{
	const char *colon = strchr(portal, ':');
	size_t bracket = strcspn(portal, "]");

	if (portal[0] == '[' && portal[bracket] == ']' &&
	    (portal[bracket + 1] == '\0' || portal[bracket + 1] == ':'))
		return bracket + 1;
	return colon != NULL && strchr(colon + 1, ':') == NULL ? (size_t)(colon - portal)
							       : strlen(portal);
}

static bool
same_host(const char *a, const char *b)
{
	return host_bytes(a) == host_bytes(b) && strncasecmp(a, b, host_bytes(a)) == 0;
}

enum nearness
admin_nearness(const struct admin_session *session, const char *portal)
{
	enum nearness best = ANOTHER_HOST;
	struct resolved numeric;

	if (strcasecmp(portal, session->address.portal) == 0)
		return SAME_PORTAL;
	if (same_host(portal, session->address.portal))
		best = SAME_HOST;
	if (!resolver_numeric(portal, &numeric))
		return best;
	for (int i = 0; i < session->asked.count && best != SAME_PORTAL; i++) {
		if (strcmp(numeric.portals[0], session->asked.portals[i]) == 0)
			best = SAME_PORTAL;
		else if (same_host(numeric.portals[0], session->asked.portals[i]))
			best = SAME_HOST;
	}
	return best;
}

static bool
login_broken(const struct admin_session *session, int error, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];

	if (error == -EPROTO)
		return fault_set(fault, FAULT_LOGIN, "see the target's log",
				 "%s: its answers to the login are not understood",
				 admin_label(session, label));
	return admin_ended(session, error, "the login", fault);
}

/* Complete, redirected, or *fault. */
static bool
log_in(struct admin_session *session, struct fault *fault)
{
	/* Whatever the volume's settings are: a session that only looks, or writes superblocks, costs
	 * nothing with digests, and gets in where a target insists on them.  A discovery moves no
	 * data of use.
	 */
	const enum iscsi_digest digest =
		session->address.iqn[0] != '\0' ? ISCSI_DIGEST_PREFERRED : ISCSI_DIGEST_NONE;
	struct iscsi_login_request request = {
		.digests = { digest, digest },
		.iqn = session->address.iqn[0] != '\0' ? session->address.iqn : NULL,
		.credentials = session->credentials,
	};

	if (session->bounds.isid != NULL)
		memcpy(request.isid, session->bounds.isid, sizeof(request.isid));
	else
		random_isid(request.isid);
	iscsi_login_start(&session->login, &request);
	session->done = false;
	while (!session->done) {
		int error = turn(session);

		if (error != 0)
			return login_broken(session, error, fault);
	}
	return session->login.outcome != LOGIN_FAILED || login_refused(session, fault);
}

static bool
start_connection(struct admin_session *session, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];

	if (session->address.iqn[0] == '\0') /* text.c's */
		return true;
	session->connection = iscsi_connection_create(session->fd, &session->login);
	if (session->connection != NULL)
		return true;
	session->fd = -1;
	return fault_set(fault, FAULT_INTERNAL, "free some memory", "%s: no memory for a session",
			 admin_label(session, label));
}

static bool
may_go_to(const struct admin_session *session, const char *portal, struct fault *fault)
{
	const struct device_address *device = session->bounds.named;
	const enum redirects redirects = session->credentials->redirects;
	char label[MEMBER_ADDRESS_MAX];

	if (device != NULL) {
		const struct redirect_named named = { device->address.portal, device->more_portals,
						      device->more, &session->asked };

		if (redirect_allowed(redirects, &named, portal))
			return true;
	} else if (redirects != REDIRECTS_NO) {
		return !session->bounds.one_host ||
		       admin_nearness(session, portal) != ANOTHER_HOST ||
		       fault_set(fault, FAULT_LOGIN, "give --all-portals to follow it there",
				 "portal %s redirects the login to another host, %s",
				 session->address.portal, portal);
	}
	return fault_set(fault, FAULT_LOGIN, REDIRECT_REMEDY,
			 "%s: the target redirects the login to %s, which redirects = %s forbids",
			 admin_label(session, label), portal, redirects_name(redirects));
}

static bool
connect_and_log_in(struct admin_session *session, struct fault *fault)
{
	char portal[sizeof(session->address.portal)];

	if (session->credentials->initiator[0] == '\0')
		return fault_set(
			fault, FAULT_INVALID,
			"give an initiator name, for example iqn.2026-01.org.example:gateway",
			"no iSCSI session could be made: the initiator name is empty");
	memcpy(portal, session->address.portal, sizeof(portal));
	for (int redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
		if (!connect_portal(session, portal, fault) || !log_in(session, fault))
			return false;
		if (session->login.outcome == LOGIN_COMPLETE)
			return start_connection(session, fault);
		memcpy(portal, session->login.redirected, sizeof(portal));
		if (!may_go_to(session, portal, fault))
			return false;
	}
	return fault_set(fault, FAULT_LOGIN, "check the target's configuration of redirections",
			 "portal %s redirects logins from portal to portal without end",
			 session->address.portal);
}

void
admin_free(struct admin_session *session)
{
	session->done = true;
	disconnect(session);
	free(session);
}

bool
admin_connect(const char *portal, const char *iqn, unsigned int lun,
	      const struct iscsi_credentials *credentials, const struct admin_bounds *bounds,
	      struct admin_session **out, struct fault *fault)
{
	struct admin_session *session = calloc(1, sizeof(*session));

	*out = NULL;
	if (session == NULL)
		return fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	snprintf(session->address.portal, sizeof(session->address.portal), "%s", portal);
	snprintf(session->address.iqn, sizeof(session->address.iqn), "%s", iqn ? iqn : "");
	session->address.lun = lun;
	session->fd = -1;
	session->credentials = credentials;
	session->bounds = *bounds;
	admin_start_clock(session);
	if (!connect_and_log_in(session, fault)) {
		admin_free(session);
		return false;
	}
	session->credentials = NULL;
	*out = session;
	return true;
}

static void
on_task(struct iscsi_task *task)
{
	struct admin_session *session =
		(struct admin_session *)((char *)task - offsetof(struct admin_session, task));

	session->status = task->scsi->status;
	session->done = true;
}

static bool
run_once(struct admin_session *session, struct scsi_task *task, unsigned int lun, const char *name,
	 enum scsi_verdict *verdict, struct fault *fault)
{
	const struct scsi_iovec *iov =
		task->xfer_dir == SCSI_XFER_WRITE ? task->iovector_out.iov : task->iovector_in.iov;

	session->done = false;
	if (session->broken)
		return disconnected(session, name, fault);
	session->task.scsi = task;
	session->task.lun = lun;
	session->task.data = (struct iscsi_place){ .iov = (const struct iovec *)iov };
	session->task.done = on_task;
	iscsi_connection_submit(session->connection, &session->task);
	if (!admin_wait(session, name, fault)) {
		/* Nothing may touch the caller's task and memory any more. */
		iscsi_connection_destroy(session->connection);
		session->connection = NULL;
		session->fd = -1;
		return false;
	}
	*verdict = scsi_judge(task, session->status);
	if (*verdict == SCSI_LOST) {
		session->broken = true;
		return disconnected(session, name, fault);
	}
	return true;
}

static bool
pause_before_repeat(const struct admin_session *session)
{
	struct timespec pause = { .tv_nsec = SCSI_PAUSE_MS * 1000000l };

	if (monotonic_ms() + SCSI_PAUSE_MS >= session->deadline_ms)
		return false;
	nanosleep(&pause, NULL); /* the device asked for time */
	return true;
}

/* What was written before it is gone, or may be: repeated it would be GOOD. */
static bool
flush_has_failed(const struct scsi_task *task, int status, enum scsi_verdict verdict)
{
	return (task->cdb[0] == SCSI_OPCODE_SYNCHRONIZECACHE10 ||
		task->cdb[0] == SCSI_OPCODE_SYNCHRONIZECACHE16) &&
	       (verdict == SCSI_WAS_RESET || scsi_flush_failed(task, status));
}

bool
admin_run_task(struct admin_session *session, struct scsi_task *task, unsigned int lun,
	       const char *name, enum scsi_verdict *verdict, struct fault *fault)
{
	int repeats = 0;

	for (;;) {
		enum scsi_again again;

		if (!run_once(session, task, lun, name, verdict, fault))
			return false;
		if (flush_has_failed(task, session->status, *verdict))
			return true;
		again = scsi_again(*verdict, session->status, &repeats);
		if (again == SCSI_ANSWERED ||
		    (again == SCSI_PAUSE && !pause_before_repeat(session)))
			return true;
	}
}

bool
admin_run(struct admin_session *session, unsigned int lun, const char *name,
	  enum scsi_verdict *verdict, struct fault *fault)
{
	if (!admin_run_task(session, &session->request.task, lun, name, verdict, fault))
		return false;
	if (*verdict == SCSI_OK)
		scsi_request_completed(&session->request);
	return true;
}
