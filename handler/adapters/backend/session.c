/* backend/session.c - from nothing to a session that is fit for use, fenced and reserved.
 *
 *   RESOLVE -> CONNECT -> LOGIN -> INSPECT -> HOLDER
 *      ^______redirection____/                   | (nobody, or we)
 *                                                v
 *   MODE <- SETTLE <- RESET <- RESERVE <- (PREEMPT, to take over) <- REGISTER
 *     |                 ^ ^       `-> OUTCOME (refused: who holds it?)
 *     |                 | `---- no reservation wanted, or unknown to the target
 *     v                 `------- somebody was expelled
 *   CONFIRM -> KEYS -> OPEN              |
 *                `<-> EXPEL -------------'
 *
 *   RELEASE -> UNREGISTER -> LOGOUT -> closed        the way back, bounded by BACKEND_RELEASE_MS
 *
 * session_next() (states.c) says what follows, enter() does what a state does,
 * session_absorb() (answers.c) reads its answer.
 *
 * The order is chosen so that nothing another gateway does is disturbed before we know that it is
 * not there: everything up to RESERVE only looks, and RESERVE is where the target decides between
 * two gateways that start at the same moment.  Only then comes LOGICAL UNIT RESET, which would
 * abort the other one's I/O.  It is the fence (DESIGN, rule 3): a write of an earlier session that
 * the target still holds is gone or finished when the reset is answered.  Of the inspection
 * (iscsi/inspect.h) MODE SENSE waits until then because another one's reservation forbids it, even
 * where it is only ours from before a crash; so does all from the first question on that a
 * reservation forbids (on LIO READ CAPACITY).  CONFIRM reads the reservation once more: a device
 * that lost power since may tell it by the unit attention that our own reset gives.
 *
 * All who are registered may read and write.  So KEYS looks who is, last of all: nobody but us
 * means that who had the member before is gone.  Whoever may preempt the holder may expel others,
 * and fences them off by another reset.
 *
 * Another gateway's reservation is preempted at the start only.  Whoever finds one later lost the
 * member to it, perhaps by standing still, and would else take it back: two gateways that take
 * turns.
 *
 * Some targets (tgt) know a registered initiator by its session, not by its ISID.  After a crash of
 * ours the dead session holds the reservation with our key, RESERVE is refused, and it is
 * preempted like a foreign one.  So one gateway has one session with each member and key.
 */
#include "internal.h"
#include "adapters/base/log.h"
#include "adapters/iscsi/redirect.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Callbacks: they note, session_advance() acts. */

static void
note_step(struct iscsi_member *member, int status)
{
	member->step_pending = false;
	if (member->dropping)
		return;
	member->step_status = status;
	member->step_done = true;
	member_progress(member);
}

/* At once: what arrived with it, and behind it, is judged by it. */
static void
keep_alive_heard(struct iscsi_member *member)
{
	const struct scsi_task *task = &member->request.task;
	const enum scsi_verdict verdict = scsi_judge(task, task->status);

	if (verdict == SCSI_ATTENTION)
		mode_note(member, task);
	if (verdict != SCSI_WAS_RESET && verdict != SCSI_BROKEN_WORD)
		return;
	cache_note(member, task, task->status, false);
	member_break(member, -ECONNRESET,
		     verdict == SCSI_BROKEN_WORD
			     ? "a write that it had acknowledged has failed (deferred error)"
			     : "the device was reset, by another initiator or by a power failure");
}

static void
on_step(struct iscsi_task *step)
{
	struct iscsi_member *member =
		(struct iscsi_member *)((char *)step - offsetof(struct iscsi_member, step));

	note_step(member, member->request.task.status);
	if (member->state == SESSION_OPEN && !member->dropping)
		keep_alive_heard(member);
}

static void
on_management(void *owner, uint8_t response)
{
	struct iscsi_member *member = owner;

	member->step_response = response;
	note_step(member, SCSI_STATUS_GOOD);
}

static void
on_logout(void *owner, uint8_t response)
{
	note_step(owner, SCSI_STATUS_GOOD);
}

void
session_login_served(struct iscsi_member *member)
{
	if (member->login.outcome == LOGIN_UNDER_WAY)
		return;
	note_step(member, SCSI_STATUS_GOOD);
	if (member->login.outcome == LOGIN_FAILED)
		login_refused(member);
}

void
session_connected(struct iscsi_member *member)
{
	int error = iscsi_connect_result(member->fd);

	if (error != 0)
		session_connect_failed(member, error);
	else
		note_step(member, SCSI_STATUS_GOOD);
}

/* Entering states */

static void enter(struct iscsi_member *member, enum session_state state);

static void
on_resolved(void *owner, const struct resolved *resolved)
{
	struct iscsi_member *member = owner;

	member->now_ms = reactor_now_ms(member->reactor);
	member->resolution = NULL;
	if (resolved->fault.code != 0) {
		session_leave(member, resolved->fault.code, "%s: %s", member->portal,
			      resolved->fault.message);
		return;
	}
	member->addresses = *resolved;
	enter(member, SESSION_CONNECT);
}

static void
enter_resolve(struct iscsi_member *member)
{
	member->address_index = 0;
	if (resolver_numeric(member->portal, &member->addresses)) {
		enter(member, SESSION_CONNECT);
		return;
	}
	member->resolution = resolver_start(member->reactor, member->portal, on_resolved, member);
	if (member->resolution == NULL)
		session_leave(member, -EAGAIN,
			      "%s: no thread is free to look up the name; see whether the name "
			      "servers answer",
			      member->portal);
}

static void
enter_connect(struct iscsi_member *member)
{
	int left = member->addresses.count - member->address_index;
	uint64_t time_left = member->connect_deadline_ms > member->now_ms
				     ? member->connect_deadline_ms - member->now_ms
				     : 0;
	int fd;

	member_disconnect(member);
	/* One address that swallows everything leaves time for the others. */
	member->address_deadline_ms = member->now_ms + time_left / (uint64_t)left;
	fd = iscsi_connect_start(member->addresses.portals[member->address_index]);
	if (fd < 0) {
		session_connect_failed(member, fd);
		return;
	}
	member->fd = fd;
	member->step_pending = true;
}

void
session_connect_failed(struct iscsi_member *member, int error)
{
	if (member->address_index + 1 < member->addresses.count &&
	    member->now_ms < member->connect_deadline_ms) {
		member->address_index++;
		enter(member, SESSION_CONNECT);
		return;
	}
	session_leave(member, error, "portal %s: %s%s", member->portal, strerror(-error),
		      error == -EMFILE ? " in this process; raise LimitNOFILE of its service" : "");
}

static void
enter_login(struct iscsi_member *member)
{
	const struct backend_iscsi_options *options = &member->options;
	struct iscsi_login_request request = {
		.iqn = options->address.iqn,
		.digests = options->digests,
	};

	member_login_over(member);
	member->opened = secret_memory(sizeof(*member->opened));
	if (member->opened == NULL || !sealed_open(&member->credentials, member->opened)) {
		session_leave(member, -ENOMEM, "no memory for a login");
		return;
	}
	if (member->former != NULL && member->former->trying)
		*member->opened = member->former->credentials;
	request.credentials = member->opened;
	memcpy(request.isid, options->isid_qualifier, sizeof(request.isid));
	iscsi_login_start(&member->login, &request);
	member->step_pending = true;
}

/* The login is over: the socket goes to what speaks the full-feature phase. */
static bool
take_over(struct iscsi_member *member)
{
	int fd = member->fd;

	member_login_over(member);
	if (member->fd_events != 0)
		reactor_watch(member->reactor, fd, 0, NULL, NULL);
	member->fd_events = 0;
	member->fd = -1; /* whatever becomes of it */
	member->connection = iscsi_connection_create(fd, &member->login);
	if (member->connection == NULL) {
		session_leave(member, -ENOMEM, "no memory for a session");
		return false;
	}
	member->fd = fd;
	login_accepted(member);
	member->digest_errors_seen = 0;
	watch_start(member);
	return true;
}

static void
send_request(struct iscsi_member *member)
{
	member->step.scsi = &member->request.task;
	member->step.lun = member->options.address.lun;
	member->step.data =
		(struct iscsi_place){ .iov = (const struct iovec *)&member->request.iov };
	member->step.done = on_step;
	member->step_pending = true;
	iscsi_connection_submit(member->connection, &member->step);
}

static void
enter_reset(struct iscsi_member *member)
{
	member->step_pending = true;
	iscsi_connection_manage(member->connection, ISCSI_LUN_RESET, member->options.address.lun,
				NULL, on_management, member);
}

static void
enter_logout(struct iscsi_member *member)
{
	member->step_pending = true;
	iscsi_connection_logout(member->connection, on_logout, member);
}

/* LIO's file backstore with write_back says GOOD to a write with FUA whatever became of it, and
 * tells nobody else of the error then; a flush tells.  Its INQUIRY does not say which backstore it
 * is.
 */
static bool
fua_is_void(const struct iscsi_member *member)
{
	return member->identity.write_cache &&
	       strncmp(member->inspection.device.vendor, "LIO-ORG", 7) == 0;
}

static void
enter_open(struct iscsi_member *member)
{
	member->identity.reservation = member->reserved;
	member->identity.zero_bytes_max = zero_bytes_max(member);
	/* It had one: flushes have to be sent. */
	if (member->backend.writes_lost > 0)
		member->identity.write_cache = true;
	if (fua_is_void(member))
		member->identity.fua = false;
	member->identity.cache_kept = member->reserved && member->cache_kept;
	member->identity.predecessor_key = member->predecessor_key;
	member->write_bytes_max =
		cut_write_bytes_max(&member->login.negotiated, member->identity.block_bytes);
	member->idle_since_ms = member->look_ms = member->now_ms;
	member->take_over_until_ms = 0;
	if (member->backend.paths > 1)
		log_line(LOG_INFO, "member %s: session through portal %s", member->label,
			 member->portal);
	member->opened_pending = true;
	member_wake_up(member);
}

static void
reserve_out(struct iscsi_member *member, int action, uint64_t key, uint64_t action_key)
{
	scsi_reserve_out(&member->request, action, member->reservation_type, key, action_key);
}

/* Everything that is one SCSI command. */
static void
enter_command(struct iscsi_member *member, enum session_state state)
{
	struct scsi_request *request = &member->request;
	uint64_t key = member->options.reservation_key;

	switch ((int)state) {
	case SESSION_INSPECT:
	case SESSION_MODE:
		inspect_build(&member->inspection, request);
		break;
	case SESSION_HOLDER:
	case SESSION_OUTCOME:
	case SESSION_CONFIRM:
		scsi_read_reservation(request);
		break;
	case SESSION_KEYS:
		scsi_read_keys(request);
		break;
	case SESSION_NEXUS:
		scsi_read_full_status(request);
		break;
	case SESSION_REGISTER:
		reserve_out(member, SCSI_PERSISTENT_RESERVE_REGISTER_AND_IGNORE_EXISTING_KEY, 0,
			    key);
		break;
	case SESSION_PREEMPT:
	case SESSION_EXPEL:
		reserve_out(member,
			    member->preempt_only ? SCSI_PERSISTENT_RESERVE_PREEMPT
						 : SCSI_PERSISTENT_RESERVE_PREEMPT_AND_ABORT,
			    key, member->holder_key);
		break;
	case SESSION_RESERVE:
		reserve_out(member, SCSI_PERSISTENT_RESERVE_RESERVE, key, 0);
		break;
	case SESSION_RELEASE:
		reserve_out(member, SCSI_PERSISTENT_RESERVE_RELEASE, key, 0);
		break;
	case SESSION_UNREGISTER:
		reserve_out(member, SCSI_PERSISTENT_RESERVE_REGISTER, key, 0);
		break;
	case SESSION_OPEN: /* the keep-alive */
		if (member->facts.reserved)
			scsi_read_reservation(request);
		else
			scsi_test_unit_ready(request);
		break;
	default: /* SETTLE */
		scsi_test_unit_ready(request);
		break;
	}
	send_request(member);
}

const char *
session_step_name(const struct iscsi_member *member)
{
	return member->state == SESSION_INSPECT ? inspect_step_name(member->inspection.step)
						: session_state_name(member->state);
}

/* A key is to be preempted, and only one session is followed.  Whose key is there again has logged in
 * since, and the target had to end its former session for that; not one by another portal group, but
 * such a one is not followed.
 */
static void
forget_preempted(struct iscsi_member *member)
{
	member->unfollowed |= member->unfenced && member->unfenced_key != member->holder_key;
	member->unfenced = false;
	member->was_unfollowed = member->unfollowed;
}

static void
enter(struct iscsi_member *member, enum session_state state)
{
	if (state == SESSION_CLOSED) { /* logged out */
		member_drop(member, member->final.code, "%s", member->final.message);
		return;
	}
	if (state != member->state)
		member->step_repeats = 0;
	member->state = state;
	member->step_done = false;
	switch (state) {
	case SESSION_RESOLVE:
		enter_resolve(member);
		return;
	case SESSION_CONNECT:
		enter_connect(member);
		return;
	case SESSION_LOGIN:
		enter_login(member);
		return;
	case SESSION_RESET:
		member->facts.expelled = false;
		enter_reset(member);
		return;
	case SESSION_FOLLOW:
		follow_start(member);
		return;
	case SESSION_OPEN:
		enter_open(member);
		return;
	case SESSION_LOGOUT:
		enter_logout(member);
		return;
	case SESSION_NEXUS:
		forget_preempted(member);
		member->nexus_known = false;
		enter_command(member, state);
		return;
	case SESSION_INSPECT:
	case SESSION_HOLDER:
	case SESSION_REGISTER:
	case SESSION_RESERVE:
	case SESSION_OUTCOME:
	case SESSION_SETTLE:
	case SESSION_MODE:
	case SESSION_CONFIRM:
	case SESSION_KEYS:
	case SESSION_RELEASE:
	case SESSION_UNREGISTER:
		enter_command(member, state);
		return;
	case SESSION_PREEMPT:
		preempt_begins(member);
		enter_command(member, state);
		return;
	case SESSION_EXPEL:
		member->expelled++;
		preempt_begins(member);
		enter_command(member, state);
		return;
	case SESSION_CLOSED:
	case SESSION_FAILED:
		return;
	}
}

static void
redirect(struct iscsi_member *member)
{
	const struct backend_iscsi_options *options = &member->options;
	const struct redirect_named named = {
		.first = options->address.portal,
		.more = options->more_portals,
		.more_count = options->more_portals_count,
		.here = &member->addresses,
	};

	if (!redirect_allowed(options->credentials.redirects, &named, member->login.redirected)) {
		session_leave(member, -EACCES,
			      "portal %s: the target redirects the login to %s, which redirects = "
			      "%s forbids: " REDIRECT_REMEDY,
			      member->portal, member->login.redirected,
			      redirects_name(options->credentials.redirects));
		return;
	}
	if (++member->redirects > REDIRECTS_MAX) {
		session_leave(member, -ECONNREFUSED,
			      "the target redirects logins from portal to portal without end");
		return;
	}
	memcpy(member->portal, member->login.redirected, sizeof(member->portal));
	member_disconnect(member);
	enter(member, SESSION_RESOLVE);
}

/* What is under way ends first, and what the engine has handed over is sent yet: dropped, the
 * reservation would stay.
 */
static void
leave_when_idle(struct iscsi_member *member)
{
	if (member->leaving &&
	    (member->state == SESSION_OPEN || session_may_reserve(member->state)) &&
	    !member->step_pending && io_idle(member))
		session_leave(member, -ECANCELED, "closed");
}

static void
step(struct iscsi_member *member)
{
	enum session_outcome outcome;
	enum session_state next;

	member->step_done = false;
	if (member->state == SESSION_LOGIN && member->login.outcome == LOGIN_REDIRECTED) {
		redirect(member);
		return;
	}
	if (member->state == SESSION_LOGIN && member->login.outcome == LOGIN_FAILED) {
		enter(member, SESSION_CONNECT); /* again, by the former secret */
		return;
	}
	if (member->state == SESSION_LOGIN && !take_over(member))
		return;
	outcome = session_absorb(member);
	next = session_next(member->state, outcome, &member->facts);
	if (member->state == SESSION_OPEN && next == SESSION_OPEN) { /* the keep-alive */
		leave_when_idle(member);
		return;
	}
	if (member->leaving && session_may_reserve(member->state)) {
		session_leave(member, -ECANCELED, "closed");
	} else if (next == SESSION_FAILED) {
		session_leave(member, member->final.code, "%s", member->final.message);
	} else if (outcome == OUTCOME_LATER) {
		member->step_repeat_ms = member->now_ms + SCSI_PAUSE_MS;
	} else {
		enter(member, next);
	}
}

void
session_advance(struct iscsi_member *member)
{
	while (member->fd >= 0 && member->broken.code == 0 && member->step_done)
		step(member);
	if (member->broken.code != 0)
		member_drop(member, member->broken.code, "%s", member->broken.message);
}

void
session_start(struct iscsi_member *member)
{
	member->facts = (struct session_facts){
		.reservation_wanted = member->options.reservation_key != 0,
		.unfenced = member->unfenced,
	};
	member->identity = (struct backend_identity){ .write_cache = true };
	inspect_start(&member->inspection, member->options.address.lun, false);
	member->connect_deadline_ms = member->now_ms + member->options.connect_ms;
	member->redirects = 0;
	if (member->former != NULL)
		member->former->trying = false;
	member->reserved = false;
	member->registered = false;
	member->reservation_type = SCSI_EXCLUSIVE_ACCESS;
	member->taking_over = false;
	member->exclusive = false;
	member->leaving = false;
	member->refusals = 0;
	member->expelled = 0;
	member->preempt_only = false;
	member->flush_sixteen = false;
	member->step_repeat_ms = 0;
	member->final = (struct fault)FAULT_NONE;
	snprintf(member->portal, sizeof(member->portal), "%s",
		 member->path == 0 ? member->options.address.portal
				   : member->options.more_portals[member->path - 1]);
	enter(member, SESSION_RESOLVE);
}

static enum session_state
way_back(const struct iscsi_member *member)
{
	/* A session before this one may have left a reservation of ours.  Where there is none the
	 * target refuses, and nobody minds.
	 */
	if (member->reserved || (member->leaving && member->facts.reservation_wanted))
		return SESSION_RELEASE;
	/* Who came too late stays no registrant, for those may write.  Without our key the target
	 * would drop a reservation of ours that is there, too.
	 */
	return member->registered && !member->facts.ours ? SESSION_UNREGISTER : SESSION_LOGOUT;
}

void
session_leave(struct iscsi_member *member, int error, const char *format, ...)
{
	bool usable = member->connection != NULL && member->broken.code == 0 &&
		      !member->step_pending &&
		      io_idle(member); /* else its ios would wait for the way back */
	struct fault fault;
	va_list arguments;

	va_start(arguments, format);
	fault_vset(&fault, error, "", format, arguments);
	va_end(arguments);
	if (!usable || member->state <= SESSION_LOGIN || session_on_the_way_back(member->state)) {
		member_drop(member, error, "%s", fault.message);
		return;
	}
	member->final = fault;
	member->step_repeat_ms = 0;
	if (!member->leaving) /* else it runs already */
		member->connect_deadline_ms = member->now_ms + BACKEND_RELEASE_MS;
	enter(member, way_back(member));
}

void
session_release(struct iscsi_member *member)
{
	member->leaving = true;
	fault_errno(&member->final, -ECANCELED, "closed");
	member->connect_deadline_ms = member->now_ms + BACKEND_RELEASE_MS;
	leave_when_idle(member);
}

void
session_keep_alive(struct iscsi_member *member)
{
	member->step_repeats = 0;
	member->progress_ms = member->now_ms;
	enter_command(member, SESSION_OPEN);
}

/* Under the time limit of connect_deadline_ms. */
static bool
in_between(const struct iscsi_member *member)
{
	return member->state != SESSION_CLOSED &&
	       (member->state != SESSION_OPEN || member->leaving);
}

uint64_t
session_wake_ms(const struct iscsi_member *member)
{
	uint64_t wake = UINT64_MAX;

	if (in_between(member))
		wake = member->connect_deadline_ms;
	if (member->state == SESSION_CONNECT && member->address_deadline_ms < wake)
		wake = member->address_deadline_ms;
	if (member->step_repeat_ms != 0 && member->step_repeat_ms < wake)
		wake = member->step_repeat_ms;
	return wake;
}

void
session_tick(struct iscsi_member *member)
{
	leave_when_idle(member);
	if (!in_between(member))
		return;
	if (member->now_ms >= member->connect_deadline_ms) {
		if (member->leaving || session_on_the_way_back(member->state))
			member_drop(member, member->final.code, "%s", member->final.message);
		else if (member->step_repeat_ms != 0)
			session_leave(member, -ETIMEDOUT, "not ready within %u ms: %s",
				      member->options.connect_ms, member->final.message);
		else
			session_leave(member, -ETIMEDOUT,
				      "portal %s: no answer within %u ms, in %s", member->portal,
				      member->options.connect_ms, session_step_name(member));
	} else if (member->state == SESSION_CONNECT &&
		   member->now_ms >= member->address_deadline_ms) {
		session_connect_failed(member, -ETIMEDOUT);
	} else if (member->step_repeat_ms != 0 && member->now_ms >= member->step_repeat_ms) {
		member->step_repeat_ms = 0;
		enter_command(member, member->state);
	}
}
