/* backend/follow.c - waits until the target has done with a session of another initiator.
 *
 * LIO aborts, but does not wait for, the commands of a session that it is closing: neither PREEMPT
 * AND ABORT nor LOGICAL UNIT RESET fences these off (run, 6.1: a write lands long after both).  What
 * waits is a log-in by the same initiator name and ISID, which has to end the session before it.
 * So who takes a member over logs in as the one it has preempted, by a connection of its own, and
 * leaves at once.  It sends no command.
 *
 *	READ FULL STATUS (name, ISID, port) -> PREEMPT -> RESET -> follow_start() ... over()
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static void on_follower(void *owner, uint32_t events);

static void
watch(struct iscsi_member *member, uint32_t wanted)
{
	struct follower *follower = &member->follower;

	if (follower->fd >= 0 && follower->events != wanted &&
	    reactor_watch(member->reactor, follower->fd, wanted, on_follower, member) == 0)
		follower->events = wanted;
}

void
follow_end(struct iscsi_member *member)
{
	struct follower *follower = &member->follower;

	watch(member, 0);
	if (follower->fd >= 0)
		close(follower->fd);
	follower->fd = -1;
	free(follower->login);
	follower->login = NULL;
	secret_memory_free(follower->credentials, sizeof(*follower->credentials));
	follower->credentials = NULL;
}

/* error: 0, or why it is not known whether the session has ended. */
static void
over(struct iscsi_member *member, int error)
{
	member->follower.error = error;
	follow_end(member);
	member->step_pending = false;
	member->step_done = true;
	member_progress(member);
	member_wake_up(member);
}

static void
log_in(struct iscsi_member *member)
{
	struct follower *follower = &member->follower;
	struct iscsi_login_request request = {
		.iqn = member->options.address.iqn,
		.digests = member->options.digests,
		.credentials = follower->credentials,
	};

	memcpy(request.isid, follower->nexus.isid, sizeof(request.isid));
	iscsi_login_start(follower->login, &request);
	follower->connected = true;
}

/* In by another portal group, where the target has nothing to end. */
static bool
is_elsewhere(const struct follower *follower)
{
	const uint32_t group = follower->login->negotiated.portal_group;

	return group != 0 && follower->portal_group != 0 && group != follower->portal_group;
}

/* -EINPROGRESS: nothing yet. */
static int
serve(struct iscsi_member *member, uint32_t events)
{
	struct follower *follower = &member->follower;
	int error = 0;

	if (!follower->connected) {
		error = iscsi_connect_result(follower->fd);
		if (error == 0)
			log_in(member);
		return error == 0 ? -EINPROGRESS : error;
	}
	error = iscsi_login_service(follower->login, follower->fd, (int)events);
	if (error != 0)
		return error;
	switch (follower->login->outcome) {
	case LOGIN_UNDER_WAY:
		return -EINPROGRESS;
	case LOGIN_COMPLETE:
		return is_elsewhere(follower) ? -EXDEV : 0;
	case LOGIN_REDIRECTED:
	case LOGIN_FAILED:
		break;
	}
	return follower->login->failure == LOGIN_TARGET_TROUBLE ? -ECONNREFUSED : -EACCES;
}

static void
on_follower(void *owner, uint32_t events)
{
	struct iscsi_member *member = owner;
	int error;

	member->now_ms = reactor_now_ms(member->reactor);
	error = serve(member, events & (EPOLLIN | EPOLLOUT));
	if (error == -EINPROGRESS && (events & (EPOLLERR | EPOLLHUP)) != 0)
		error = -ECONNRESET;
	if (error == -EINPROGRESS)
		watch(member, (uint32_t)iscsi_login_events(member->follower.login));
	else
		over(member, error);
	session_advance(member);
}

void
follow_start(struct iscsi_member *member)
{
	struct follower *follower = &member->follower;

	follow_end(member);
	member->step_pending = true;
	follower->connected = false;
	follower->events = 0;
	follower->login = calloc(1, sizeof(*follower->login));
	follower->credentials = secret_memory(sizeof(*follower->credentials));
	if (follower->login == NULL || follower->credentials == NULL ||
	    !sealed_open(&member->credentials, follower->credentials)) {
		over(member, -ENOMEM);
		return;
	}
	memcpy(follower->credentials->initiator, follower->nexus.initiator,
	       sizeof(follower->credentials->initiator));
	follower->fd = iscsi_connect_start(member->addresses.portals[member->address_index]);
	if (follower->fd < 0)
		over(member, follower->fd);
	else
		watch(member, EPOLLOUT);
}
