/* volume/role.c - see role.h.
 *
 * hosted->role says what is wanted, hosted->made what the volume's thread has made of it: where
 * they differ, the thread ends what it has and makes the other (thread.c).
 *
 * The record is written before a turn ends, and removed after the next one has begun: whoever
 * crashes in between is on standby.
 */
#include "role.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapters/base/log.h"
#include "internal.h"

#define HOUR_MS 3600000u
/* An orderly stop has its own limits; this one is for a thread that does not come round. */
#define STAND_DOWN_MS (2 * (uint32_t)engine_stop_ms_max())

const char *
volume_role_name(enum volume_role role)
{
	switch (role) {
	case ROLE_ACTIVE:
		return "active";
	case ROLE_STANDBY:
		return "standby";
	case ROLE_FENCED:
		return "fenced";
	}
	return "?";
}

/* Turns are what is counted: one that is fenced off, and then on standby, lost its turn once. */
static void
count_change(struct hosted *hosted, enum volume_role role)
{
	if (hosted->role == 0 || (hosted->role == ROLE_ACTIVE) == (role == ROLE_ACTIVE))
		return;
	hosted->role_changed_ms[hosted->role_changes++ % ROLE_CHANGES_KEPT] = monotonic_ms();
}

int
volume_role_changes_hour(const struct hosted *hosted)
{
	const uint64_t now_ms = monotonic_ms();
	int count = 0;

	for (uint64_t i = 0; i < hosted->role_changes && i < ROLE_CHANGES_KEPT; i++)
		count += now_ms - hosted->role_changed_ms[i] < HOUR_MS;
	return count;
}

void
volume_role_set(struct hosted *hosted, enum volume_role role, const char *reason)
{
	count_change(hosted, role);
	hosted->role = role;
	hosted->role_since_ms = realtime_ms();
	snprintf(hosted->role_reason, sizeof(hosted->role_reason), "%s", reason);
	atomic_store(&hosted->brief_role, (int)role);
	volume_note_access(hosted);
	pthread_cond_broadcast(&hosted->changed);
}

void
volume_role_begin(struct hosted *hosted, enum volume_role role)
{
	uint64_t since_ms;
	int error = standby_recall(hosted->uuid, &since_ms);

	if (role == ROLE_ACTIVE && error != -ENOENT)
		role = ROLE_STANDBY;
	volume_role_set(hosted, role, "");
	hosted->made = role;
	if (role == ROLE_STANDBY && error == 0)
		hosted->role_since_ms = since_ms;
	if (role == ROLE_STANDBY && error != 0 && error != -ENOENT)
		snprintf(hosted->role_reason, sizeof(hosted->role_reason),
			 "whether it was on standby can't be read (%s)", strerror(-error));
}

/* --- whose paths initiators take --- */

/* With hosted->lock. */
static enum volume_access
access_of(const struct hosted *hosted)
{
	if (hosted->role != ROLE_ACTIVE)
		return ACCESS_ELSEWHERE;
	/* What the status says may be the last turn's. */
	if (hosted->made != ROLE_ACTIVE || hosted->want_restart)
		return ACCESS_UNDECIDED;
	switch (hosted->status.state) {
	case VOLUME_ACTIVE:
	case VOLUME_DEGRADED:
	case VOLUME_SUSPENDED: /* it goes on when its members are back; else somebody takes it over */
		return ACCESS_HERE;
	case VOLUME_FAILED:
		/* A gateway that died, and is back while the other one has it. */
		return hosted->status.held ? ACCESS_ELSEWHERE : ACCESS_UNDECIDED;
	case VOLUME_ASSEMBLING:
	case VOLUME_STOPPING:
	case VOLUME_STOPPED:
	case VOLUME_STANDBY:
		break;
	}
	return ACCESS_UNDECIDED;
}

enum volume_access
volume_access(struct volume_host *host, const char *name)
{
	struct hosted *hosted = volume_pin(host, name);
	enum volume_access access = ACCESS_UNDECIDED;

	if (!hosted)
		return access;
	pthread_mutex_lock(&hosted->lock);
	access = access_of(hosted);
	pthread_mutex_unlock(&hosted->lock);
	volume_unpin(hosted);
	return access;
}

void
volume_note_access(struct hosted *hosted)
{
	struct volume_host *host = hosted->host;
	enum volume_access access = access_of(hosted);

	if (access == hosted->access)
		return;
	hosted->access = access;
	pthread_mutex_lock(&host->watching);
	if (host->watch.changed)
		host->watch.changed(host->watch.owner);
	pthread_mutex_unlock(&host->watching);
}

void
volume_host_watch(struct volume_host *host, const struct volume_watch *watch)
{
	pthread_mutex_lock(&host->watching);
	host->watch = watch ? *watch : (struct volume_watch){ .owner = NULL };
	pthread_mutex_unlock(&host->watching);
}

static void
settle_access(struct volume_host *host)
{
	struct volume_watch watch;

	pthread_mutex_lock(&host->watching);
	watch = host->watch;
	pthread_mutex_unlock(&host->watching);
	if (watch.settle)
		watch.settle(watch.owner);
}

/* --- turns --- */

/* Its role is what is wanted, and its thread has made it so. */
static bool
is_settled(const struct hosted *hosted)
{
	return hosted->made == hosted->role && hosted->role != ROLE_FENCED && !hosted->want_restart;
}

/* Until it is, or has ended.  0, -ESHUTDOWN or -ETIMEDOUT. */
static int
await_settled(struct hosted *hosted, uint32_t timeout_ms)
{
	struct timespec until = volume_deadline_in(timeout_ms);
	int result = 0;

	pthread_mutex_lock(&hosted->lock);
	while (!is_settled(hosted) && !hosted->ended && !hosted->want_stop && result == 0)
		if (pthread_cond_timedwait(&hosted->changed, &hosted->lock, &until) == ETIMEDOUT)
			result = -ETIMEDOUT;
	if (hosted->ended || hosted->want_stop)
		result = -ESHUTDOWN;
	pthread_mutex_unlock(&hosted->lock);
	return result;
}

static bool
is_active(struct hosted *hosted)
{
	bool active;

	pthread_mutex_lock(&hosted->lock);
	active = hosted->role == ROLE_ACTIVE;
	pthread_mutex_unlock(&hosted->lock);
	return active;
}

static int
say_unrecorded(struct fault *fault, const char *name, int error)
{
	return fault_disk(fault, error, state_dir(),
			  "volume \"%s\": its role can't be recorded in %s/standby: %s", name,
			  state_dir(), strerror(-error));
}

/* --- standby --- */

/* With host->edits, so that no turn begins meanwhile. */
static int
stand_down(struct hosted *hosted, const char *reason, struct fault *fault)
{
	uint64_t since_ms = realtime_ms();
	int error;

	pthread_mutex_lock(&hosted->lock);
	if (hosted->role != ROLE_ACTIVE)
		since_ms = hosted->role_since_ms;
	pthread_mutex_unlock(&hosted->lock);
	error = standby_recall(hosted->uuid, &since_ms);
	if (error != 0)
		error = standby_record(hosted->uuid, since_ms);
	if (error != 0)
		return say_unrecorded(fault, hosted->name, error);
	pthread_mutex_lock(&hosted->lock);
	if (hosted->role == ROLE_ACTIVE) {
		volume_role_set(hosted, ROLE_STANDBY, reason);
		hosted->role_since_ms = since_ms;
	}
	pthread_mutex_unlock(&hosted->lock);
	volume_thread_wake(hosted);
	return 0;
}

static int
await_standby(struct hosted *hosted, struct fault *fault)
{
	int error = await_settled(hosted, STAND_DOWN_MS);

	if (error == -ESHUTDOWN)
		fault_errno(fault, error, "it is being stopped");
	else if (error == -ETIMEDOUT)
		fault_errno(fault, error, "it did not become quiet within %u s",
			    STAND_DOWN_MS / 1000);
	else if (is_active(hosted))
		error = fault_errno(fault, -EAGAIN,
				    "it was activated meanwhile, and is not on standby");
	return error;
}

int
volume_standby(struct volume_host *host, const char *name, struct fault *fault)
{
	const struct volume_start_options options = { .standby = true };
	struct hosted *hosted;
	int error;

	/* What does not run is begun on standby; what runs stays as it is. */
	error = volume_start(host, name, &options, fault);
	if (error != 0)
		return error;
	hosted = volume_pin(host, name);
	if (!hosted)
		return fault_errno(fault, -ESHUTDOWN, "it was stopped meanwhile");
	pthread_mutex_lock(&host->edits);
	error = stand_down(hosted, "", fault);
	pthread_mutex_unlock(&host->edits);
	if (error == 0)
		error = await_standby(hosted, fault);
	volume_unpin(hosted);
	settle_access(host);
	return error;
}

/* Since when it is.  With host->edits. */
static int
record_standby(struct hosted *hosted)
{
	uint64_t since_ms;

	pthread_mutex_lock(&hosted->lock);
	since_ms = hosted->role_since_ms;
	pthread_mutex_unlock(&hosted->lock);
	return standby_record(hosted->uuid, since_ms);
}

void
volume_role_record_fenced(struct hosted *hosted)
{
	struct fault fault = FAULT_NONE;
	int error;

	pthread_mutex_lock(&hosted->host->edits);
	/* not if somebody wanted it back */
	error = is_active(hosted) ? 0 : record_standby(hosted);
	pthread_mutex_unlock(&hosted->host->edits);
	if (error == 0)
		return;
	say_unrecorded(&fault, hosted->name, error);
	volume_note(hosted->host, LOG_ERR, "state folder", hosted->name, "",
		    "%.150s: a restart would try to start it again", fault.message);
}

/* --- active --- */

/* Until it runs it is on record as on standby: it may have been fenced just now, and that not be written
 * yet.  Where it can't be, a crash of this process begins what it was asked for once more.
 */
static void
begin_activation(struct hosted *hosted)
{
	uint64_t since_ms;

	pthread_mutex_lock(&hosted->host->edits);
	if (!is_active(hosted) && standby_recall(hosted->uuid, &since_ms) == -ENOENT)
		record_standby(hosted);
	pthread_mutex_unlock(&hosted->host->edits);
}

int
volume_activate(struct volume_host *host, const char *name,
		const struct volume_start_options *options, struct fault *fault)
{
	struct volume_start_options wanted = *options;
	struct hosted *hosted = volume_pin(host, name);
	int error = 0;

	wanted.activate = true;
	if (hosted) {
		/* The old engine's sessions must have ended: they would speak for the new one. */
		error = await_settled(hosted, STAND_DOWN_MS);
		if (error == 0)
			begin_activation(hosted);
		volume_unpin(hosted);
	}
	if (error == -ETIMEDOUT)
		return fault_errno(
			fault, -EAGAIN,
			"volume \"%s\" is still ending what it was asked for before its role "
			"changed",
			name);
	return volume_start(host, name, &wanted, fault);
}

static int
say_why_not(const struct hosted *hosted, struct fault *fault)
{
	const char *reason =
		hosted->status.reason[0] ? hosted->status.reason : "the reason is not known";

	if (hosted->ended || hosted->want_stop)
		return fault_errno(fault, -ESHUTDOWN, "it was stopped meanwhile");
	if (hosted->role != ROLE_ACTIVE)
		return fault_errno(fault, -ESHUTDOWN, "%s",
				   hosted->role_reason[0] ? hosted->role_reason
							  : "it was put on standby meanwhile");
	switch (hosted->status.state) {
	case VOLUME_ACTIVE:
	case VOLUME_DEGRADED:
	case VOLUME_SUSPENDED:
		return 0;
	case VOLUME_ASSEMBLING:
		return fault_errno(fault, -ETIMEDOUT, "it was not assembled in time: %s", reason);
	case VOLUME_FAILED:
	case VOLUME_STOPPING:
	case VOLUME_STOPPED:
	case VOLUME_STANDBY:
		break;
	}
	return fault_errno(fault, -EIO, "%s", reason);
}

/* With host->edits. */
static int
draw_outcome(struct hosted *hosted, bool *again, struct fault *fault)
{
	struct fault ignored;
	uint64_t since_ms;
	int error, outcome;

	pthread_mutex_lock(&hosted->lock);
	outcome = say_why_not(hosted, fault);
	pthread_mutex_unlock(&hosted->lock);
	error = standby_recall(hosted->uuid, &since_ms);
	if (outcome == 0) {
		error = error == -ENOENT ? 0 : standby_forget(hosted->uuid);
		return error == 0 ? 0 : say_unrecorded(fault, hosted->name, error);
	}
	*again = error != -ENOENT && outcome != -ESHUTDOWN;
	if (*again)
		stand_down(hosted, fault->message, &ignored);
	return outcome;
}

int
volume_settle(struct volume_host *host, const char *name, bool *again, struct fault *fault)
{
	struct hosted *hosted = volume_pin(host, name);
	struct fault ignored;
	int error;

	*again = false;
	if (!hosted)
		return fault_errno(fault, -ESHUTDOWN, "it was stopped meanwhile");
	pthread_mutex_lock(&host->edits);
	error = draw_outcome(hosted, again, fault);
	pthread_mutex_unlock(&host->edits);
	if (*again)
		await_standby(hosted, &ignored);
	volume_unpin(hosted);
	settle_access(host);
	return error;
}
