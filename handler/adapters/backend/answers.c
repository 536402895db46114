/* backend/answers.c - what the answer of each state's command means for the session.
 * Nothing is sent from here.
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REFUSALS_MAX 3
#define EXPELLED_MAX 64 /* keys, of one opening */

/* The reason of OUTCOME_BAD goes to member->final.  On the way back it is there already: why we
 * leave.
 */
static enum session_outcome bad(struct iscsi_member *member, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static enum session_outcome
bad(struct iscsi_member *member, int error, const char *format, ...)
{
	va_list arguments;

	if (session_on_the_way_back(member->state))
		return OUTCOME_BAD;
	va_start(arguments, format);
	fault_vset(&member->final, error, "", format, arguments);
	va_end(arguments);
	return OUTCOME_BAD;
}

static enum session_outcome
inspected(struct iscsi_member *member)
{
	const struct scsi_device *device = &member->inspection.device;

	if (device->device_type != 0)
		return bad(member, -EINVAL, "LUN %u is not a disk but a %s",
			   member->options.address.lun, scsi_device_type_name(device->device_type));
	if (!device->writable)
		return bad(member, -EINVAL, "the LUN is read-only");
	member->facts.whole = true;
	member->identity = (struct backend_identity){
		.capacity_bytes = device->capacity_bytes,
		.block_bytes = device->block_bytes,
		.write_cache = device->write_cache,
		.fua = device->fua,
		.transfer_bytes_max = scsi_transfer_bytes_max(device, COMMAND_BYTES_MAX),
	};
	zero_note_limits(member);
	return OUTCOME_GOOD;
}

static enum session_outcome
absorb_inspection(struct iscsi_member *member)
{
	struct inspection *inspection = &member->inspection;
	int error = inspect_answered(inspection, &member->request, member->step_status);

	if (error != 0)
		bad(member, error, "%s", inspection->why);
	if (error == -EBUSY && member->state == SESSION_INSPECT) {
		member->facts.barred = true;
		return OUTCOME_CONFLICT;
	}
	if (error != 0)
		return OUTCOME_BAD;
	member->step_repeats = 0;
	member->facts.inspected = inspection->step == INSPECT_MODE;
	return inspection->step == INSPECT_DONE ? inspected(member) : OUTCOME_GOOD;
}

static enum session_outcome
held_by_another(struct iscsi_member *member, uint64_t key)
{
	return bad(member, -EBUSY, "in use by another gateway, reservation key 0x%016llx",
		   (unsigned long long)key);
}

/* Beside the permission of the start: whom this gateway has taken the volume from, and whom an
 * opening has preempted that was interrupted.  Not for ever: who has the member after us took it
 * from us.
 */
static bool
may_preempt(const struct iscsi_member *member, uint64_t key)
{
	const struct backend_events *events = member->backend.events;

	if (member->taking_over)
		return true;
	return !member->was_taken &&
	       (key == member->predecessor_key ||
		(key == member->backend.predecessor_key &&
		 (events->is_ours == NULL || events->is_ours(member->backend.events_owner))));
}

static enum session_outcome
absorb_holder(struct iscsi_member *member)
{
	struct scsi_reservation held;

	if (!scsi_parse_reservation(&member->request, &held))
		return bad(member, -EINVAL, "the answer to READ RESERVATION is invalid");
	member->holder_key = held.key;
	member->facts.ours = held.key == member->options.reservation_key;
	member->facts.foreign_holder = held.key != 0 && !member->facts.ours;
	/* A reservation made without APTPL does not survive a loss of power (SPC-4 5.13.5): where
	 * the last session's is still there, so is what the cache held.
	 */
	if (member->state == SESSION_HOLDER && !member->facts.ours)
		member->cache_kept = false;
	if (member->state == SESSION_HOLDER) {
		member->facts.closes_late =
			strncmp(member->inspection.device.vendor, "LIO-ORG", 7) == 0;
		member->taking_over = member->now_ms < member->take_over_until_ms &&
				      !member->backend.waits_to_take;
		member->facts.take_over = may_preempt(member, held.key);
	}
	if (member->state == SESSION_OUTCOME && held.key == 0 && ++member->refusals > REFUSALS_MAX)
		return bad(member, -EBUSY,
			   "in use by another initiator, which has reserved it without a key");
	if (member->facts.foreign_holder &&
	    (!member->facts.take_over || member->state == SESSION_OUTCOME))
		held_by_another(member, held.key);
	return OUTCOME_GOOD; /* session_next() judges it by the facts */
}

/* What the cache held went with it. */
static enum session_outcome
absorb_confirmation(struct iscsi_member *member)
{
	struct scsi_reservation held;

	if (!scsi_parse_reservation(&member->request, &held))
		return bad(member, -EINVAL, "the answer to READ RESERVATION is invalid");
	member->exclusive = held.type == SCSI_EXCLUSIVE_ACCESS;
	if (held.key == member->options.reservation_key)
		return OUTCOME_GOOD;
	member->cache_kept = false;
	if (held.key != 0)
		return held_by_another(member, held.key);
	return bad(member, -ECONNRESET,
		   "its reservation was lost at once: the device was reset, for example by a power "
		   "failure");
}

/* The keep-alive asks whose the device is: a LUN that is unmapped and mapped again under a session has
 * forgotten it (LIO), and says so by nothing.
 */
static enum session_outcome
absorb_keep_alive(struct iscsi_member *member)
{
	struct scsi_reservation held;

	if (!member->facts.reserved)
		return OUTCOME_GOOD;
	if (!scsi_parse_reservation(&member->request, &held))
		return bad(member, -EINVAL, "the answer to READ RESERVATION is invalid");
	if (held.key == member->options.reservation_key)
		return OUTCOME_GOOD;
	if (held.key != 0)
		return bad(member, -EACCES, "another gateway took the reservation");
	return bad(member, -ECONNRESET,
		   "its reservation is gone: the device was reset, or the LUN unmapped meanwhile");
}

static void
tell_other_key(struct iscsi_member *member, uint64_t key)
{
	if (key == 0 || key == member->told_key)
		return;
	member->told_key = key;
	log_line(LOG_WARNING,
		 "member %s: beside this gateway reservation key 0x%016llx is registered on it, so "
		 "who has that key could write to it",
		 member->label, (unsigned long long)key);
}

/* A list that makes no sense proves nothing; for all else the reservation is enough. */
static enum session_outcome
absorb_keys(struct iscsi_member *member)
{
	struct scsi_keys keys = { .other = 0 };
	const bool read = scsi_parse_keys(&member->request, member->options.reservation_key, &keys);

	member->facts.other_key = keys.other != 0 && may_preempt(member, keys.other) &&
				  member->expelled < EXPELLED_MAX;
	member->identity.taken = read && keys.own && keys.whole && keys.other == 0 &&
				 member->exclusive && !member->unfollowed;
	if (member->facts.other_key)
		member->holder_key = keys.other;
	else
		tell_other_key(member, keys.other);
	return OUTCOME_GOOD;
}

/* Whom to follow, should LIO still be closing its session when it is preempted. */
static enum session_outcome
absorb_nexus(struct iscsi_member *member)
{
	struct scsi_nexus *nexus = &member->follower.nexus, ours;

	/* Not of another portal group: it would not wait.  Not our own, which it would end.  Nor of
	 * an initiator of another make, whose kind of ISID our log-in does not have.
	 */
	member->nexus_known =
		scsi_parse_nexus(&member->request, member->holder_key, nexus) &&
		nexus->isid[0] == ISCSI_ISID_RANDOM &&
		scsi_parse_nexus(&member->request, member->options.reservation_key, &ours) &&
		ours.port == nexus->port &&
		(memcmp(ours.isid, nexus->isid, sizeof(ours.isid)) != 0 ||
		 strcmp(ours.initiator, nexus->initiator) != 0);
	member->follower.portal_group = member->login.negotiated.portal_group;
	return OUTCOME_GOOD;
}

static enum session_outcome
absorb_follow(struct iscsi_member *member)
{
	const int error = member->follower.error;

	if (error != 0 && error != -EACCES && error != -EXDEV)
		return bad(member, error,
			   "whether the target has ended the session that was preempted is not "
			   "known: %s",
			   strerror(-error));
	if (error != 0)
		log_line(LOG_WARNING,
			 "member %s: the target does not let this gateway log in as %s%s, whose "
			 "session it may be closing, so a write of it that is under way may land "
			 "later",
			 member->label, member->follower.nexus.initiator,
			 error == -EXDEV ? " by the portal group of before" : "");
	member->facts.unfenced = member->unfenced = false;
	member->unfollowed |= error != 0;
	preempted_note(member);
	return OUTCOME_GOOD;
}

static bool
is_same(const struct scsi_preempted *left, const struct scsi_preempted *right)
{
	return left->key == right->key && left->followable == right->followable &&
	       left->portal_group == right->portal_group &&
	       memcmp(left->nexus.isid, right->nexus.isid, sizeof(left->nexus.isid)) == 0 &&
	       strcmp(left->nexus.initiator, right->nexus.initiator) == 0;
}

void
preempted_note(struct iscsi_member *member)
{
	struct scsi_preempted now = { .key = 0 };

	if (member->unfenced || member->unfollowed)
		now.key = member->unfenced_key;
	if (member->unfenced && !member->unfollowed) {
		now.followable = true;
		now.nexus = member->follower.nexus;
		now.portal_group = member->follower.portal_group;
	}
	if (member->options.note_preempted == NULL || is_same(&now, &member->noted))
		return;
	member->noted = now;
	member->options.note_preempted(member->options.owner, &member->options.address, &now);
}

/* Its commands may be under way in the target.  Noted before it is sent: the answer may be lost, and
 * this gateway with it, and nobody can tell then whose key there was.
 */
void
preempt_begins(struct iscsi_member *member)
{
	if (!member->facts.closes_late || member->holder_key == member->options.reservation_key)
		return;
	member->unfenced_key = member->holder_key;
	member->facts.unfenced = member->unfenced = member->nexus_known;
	member->unfollowed |= !member->nexus_known;
	preempted_note(member);
}

/* It had no effect. */
static void
preempt_failed(struct iscsi_member *member)
{
	if (!member->facts.closes_late || member->holder_key == member->options.reservation_key)
		return;
	member->facts.unfenced = member->unfenced = false;
	member->unfollowed = member->was_unfollowed;
	preempted_note(member);
}

static void
tell_unfollowed(const struct iscsi_member *member)
{
	if (member->facts.closes_late && !member->nexus_known)
		log_line(LOG_WARNING,
			 "member %s: LIO does not tell whose session by this portal group had "
			 "reservation key 0x%016llx, so a write of it that is under way may land "
			 "later",
			 member->label, (unsigned long long)member->holder_key);
}

static void
note_preempted(struct iscsi_member *member)
{
	if (member->holder_key == member->options.reservation_key)
		return;
	member->predecessor_key = member->holder_key;
	tell_unfollowed(member);
}

static enum session_outcome
absorb_reset(struct iscsi_member *member)
{
	switch (member->step_response) {
	case ISCSI_TMR_FUNC_COMPLETE:
		return OUTCOME_GOOD;
	case ISCSI_TMR_LUN_DOES_NOT_EXIST:
		return bad(member, -EINVAL, "the target has no LUN %u",
			   member->options.address.lun);
	case ISCSI_TMR_TMF_NOT_SUPPORTED:
		return bad(member, -EINVAL,
			   "the target does not support LOGICAL UNIT RESET, so writes of an "
			   "earlier session can't be fenced off");
	case ISCSI_TMR_FUNC_AUTH_FAILED:
		return bad(member, -EACCES, "the target does not permit LOGICAL UNIT RESET");
	default:
		return bad(member, -EINVAL, "LOGICAL UNIT RESET was answered with 0x%02x",
			   member->step_response);
	}
}

static enum session_outcome
absorb_answer(struct iscsi_member *member)
{
	if (!scsi_request_taken(&member->request))
		return bad(member, -EINVAL,
			   "the target answered %s with GOOD, but ignored its parameters",
			   session_state_name(member->state));
	scsi_request_completed(&member->request);
	switch ((int)member->state) {
	case SESSION_HOLDER:
	case SESSION_OUTCOME:
		return absorb_holder(member);
	case SESSION_CONFIRM:
		return absorb_confirmation(member);
	case SESSION_OPEN:
		return absorb_keep_alive(member);
	case SESSION_NEXUS:
		return absorb_nexus(member);
	case SESSION_KEYS:
		return absorb_keys(member);
	case SESSION_REGISTER:
		member->registered = true;
		return OUTCOME_GOOD;
	case SESSION_EXPEL:
		note_preempted(member);
		member->facts.expelled = true;
		return OUTCOME_GOOD;
	case SESSION_PREEMPT:
		note_preempted(member);
		member->facts.foreign_holder = false;
		member->take_over_until_ms = 0; /* who has it after us took it from us */
		member->reserved = true;
		member->facts.reserved = true;
		return OUTCOME_GOOD;
	case SESSION_RESERVE:
		member->take_over_until_ms = 0;
		member->reserved = true;
		member->facts.reserved = true;
		return OUTCOME_GOOD;
	case SESSION_RELEASE:
		member->reserved = false;
		return OUTCOME_GOOD;
	default:
		return OUTCOME_GOOD;
	}
}

static enum session_outcome
taken(struct iscsi_member *member)
{
	switch ((int)member->state) {
	case SESSION_PREEMPT:
	case SESSION_EXPEL:
		/* The first one may have had its effect, however it was answered. */
		if (member->step_repeats == 0)
			preempt_failed(member);
		return OUTCOME_CONFLICT;
	case SESSION_REGISTER:
	case SESSION_RESERVE:
		return OUTCOME_CONFLICT;
	default:
		return bad(member, -EBUSY,
			   "in use by another initiator: %s ended with a reservation conflict",
			   session_state_name(member->state));
	}
}

/* LIO takes a key (or its removal) and then says 2/0800 if it can't write its file of reservations,
 * because the directory is not there (run: 6.1, on Debian nothing makes it).  The key is in force
 * all the same; where it is not, RESERVE says so.
 */
static bool
key_is_in_force_but_not_filed(const struct iscsi_member *member)
{
	const struct scsi_sense *sense = &member->request.task.sense;

	return (member->state == SESSION_REGISTER || member->state == SESSION_UNREGISTER) &&
	       member->step_status == SCSI_STATUS_CHECK_CONDITION &&
	       sense->key == SCSI_SENSE_NOT_READY && sense->ascq == 0x0800;
}

/* The target refused a form of the command: is there another one?  LOGICAL UNIT RESET follows, and
 * aborts where PREEMPT does not.
 */
static bool
another_way(struct iscsi_member *member)
{
	const bool preempting = member->state == SESSION_PREEMPT || member->state == SESSION_EXPEL;

	if (preempting && !member->preempt_only)
		return member->preempt_only = true;
	if ((!preempting && member->state != SESSION_RESERVE) ||
	    member->reservation_type == SCSI_WRITE_EXCLUSIVE)
		return false;
	member->reservation_type = SCSI_WRITE_EXCLUSIVE; /* which bars writers at least */
	return true;
}

/* The verdict counts: the command is not sent again. */
static enum session_outcome
judge_answer(struct iscsi_member *member, enum scsi_verdict verdict)
{
	const char *name = session_state_name(member->state);
	char text[128];

	scsi_describe(&member->request.task, member->step_status, text, sizeof(text));
	switch (verdict) {
	case SCSI_OK:
		return absorb_answer(member);
	case SCSI_TAKEN:
		return taken(member);
	case SCSI_ATTENTION:
	case SCSI_WAS_RESET:
	case SCSI_ABORTED:
		return bad(member, -EINVAL, "%s ends with one unit attention after another", name);
	case SCSI_UNSUPPORTED:
		if (another_way(member))
			return OUTCOME_REPEAT;
		if (!member->facts.barred) /* else who is in the way is noted */
			bad(member, -EINVAL, "the target refuses %s: %s", name, text);
		return OUTCOME_UNSUPPORTED;
	case SCSI_NO_LUN:
		return bad(member, -EINVAL, "the target has no LUN %u",
			   member->options.address.lun);
	case SCSI_LATER:
	case SCSI_BROKEN_WORD:
	case SCSI_MEDIUM_ERROR:
	case SCSI_PROTECTED:
	case SCSI_REFUSED:
	case SCSI_LOST:
		break;
	}
	return bad(member, -EINVAL, "%s failed: %s", name, text);
}

static enum session_outcome
judge_step(struct iscsi_member *member)
{
	const struct scsi_task *task = &member->request.task;
	enum scsi_verdict verdict = key_is_in_force_but_not_filed(member)
					    ? SCSI_OK
					    : scsi_judge(task, member->step_status);
	const bool back = session_on_the_way_back(member->state);

	cache_note(member, task, member->step_status, false);
	/* A reset or a deferred error has ended an open session as it arrived: keep_alive_heard().
	 */
	if (member->state == SESSION_OPEN && verdict == SCSI_TAKEN)
		return bad(member, -EACCES, "another gateway took the reservation");
	if (verdict == SCSI_ATTENTION && member->state == SESSION_OPEN)
		attention_note(member, task);
	else if (verdict == SCSI_ATTENTION && !back)
		mode_note(member, task);
	/* A deferred error is about an earlier session's write, and cache_note() has noted it. */
	switch (scsi_again(verdict == SCSI_BROKEN_WORD ? SCSI_ATTENTION : verdict,
			   member->step_status, &member->step_repeats)) {
	case SCSI_REPEAT:
		return OUTCOME_REPEAT;
	case SCSI_PAUSE:
		if (!back) /* why it goes is known */
			scsi_describe(task, member->step_status, member->final.message,
				      sizeof(member->final.message));
		return OUTCOME_LATER;
	case SCSI_ANSWERED:
		break;
	}
	if (member->state == SESSION_INSPECT || member->state == SESSION_MODE)
		return absorb_inspection(member);
	return judge_answer(member, verdict);
}

enum session_outcome
session_absorb(struct iscsi_member *member)
{
	switch ((int)member->state) {
	case SESSION_CONNECT:
	case SESSION_LOGIN:
	case SESSION_LOGOUT:
		return OUTCOME_GOOD; /* what fails here breaks the session before */
	case SESSION_RESET:
		return absorb_reset(member);
	case SESSION_FOLLOW:
		return absorb_follow(member);
	default:
		return judge_step(member);
	}
}
