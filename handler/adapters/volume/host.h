/* volume/host.h - the volumes of this process: one thread, reactor and engine for each.
 * Thread-safe: tcmu's command threads, nbdkit's threads and the control socket call it.
 */
#ifndef IRAID_VOLUME_HOST_H
#define IRAID_VOLUME_HOST_H

#include "engine/life/admin.h"
#include "engine/life/status.h"
#include "adapters/config/config.h"

#define VOLUME_USER_MAX 95
#define VOLUME_USERS_MAX 16

enum volume_role {
	ROLE_ACTIVE = 1, /* this gateway's turn, however it goes */
	ROLE_STANDBY,	 /* nothing is assembled */
	ROLE_FENCED, /* another gateway has it; what is held here ends, and then it is standby */
};

#define ROLE_CHANGES_KEPT 64

struct volume_host; /* all volumes of this process */
struct volume;	    /* one user's hold on one of them */

/* "tcmu-runner", "nbdkit", "iraid-engine" */
struct volume_host *volume_host_create(const char *program);
/* Ask all volumes to stop and let no more begin, without waiting: whoever waits for one is told at
 * once, so that a call of the control socket does not hold up the end.
 */
void volume_host_end(struct volume_host *host);
/* for calls that go from device to device */
bool volume_host_is_ending(struct volume_host *host);
void volume_host_destroy(struct volume_host *host); /* stops all, in order */
const char *volume_host_program(const struct volume_host *host);
/* lives as long as the host */
struct event_ring *volume_host_events(struct volume_host *host);

/* By whose paths initiators should come to a volume. */
enum volume_access {
	ACCESS_UNDECIDED, /* as they do: it is being assembled, has failed, ends, or is not run */
	ACCESS_HERE,	  /* this gateway serves it */
	ACCESS_ELSEWHERE,
};
enum volume_access volume_access(struct volume_host *host, const char *name);

/* Somebody who tells initiators. */
struct volume_watch {
	/* volume_access() of some volume is another now: called with locks, it may only wake */
	void (*changed)(void *owner);
	/* Return when they have been told, or it takes too long: a turn has begun or ended, and who
	 * asked for that relies on it.  Called without locks.
	 */
	void (*settle)(void *owner);
	void *owner;
};
/* NULL: no more.  Not while settle() may be called. */
void volume_host_watch(struct volume_host *host, const struct volume_watch *watch);

/* --- users: tcmu devices, nbdkit --- */

/* Find or start the volume NAME and take a reference.  Fast: reads its configuration, starts its
 * thread, never waits for members.  user: shown in status, "tcmu: v0".
 * Returns 0; -ENOENT no such configuration; -EINVAL it doesn't parse; -EBUSY another process has
 * it locked; -EAGAIN it is being stopped; other -errno.
 * The fault names the thing, the value and the remedy.
 */
int volume_acquire(struct volume_host *host, const char *name, const char *user,
		   struct volume **out, struct fault *fault);
const uint8_t *volume_uuid(const struct volume *volume); /* 16 bytes */
/* the volume goes on until volume_stop or the end of the process */
void volume_release(struct volume *volume);

/* Queue a request to the volume's engine, from any thread; request->done is called on the
 * volume's thread.  Never blocks.
 */
void volume_submit(struct volume *volume, struct engine_request *request);

/* Return when the volume's thread has come round once: no done() that was under way before is. */
void volume_quiesce(struct volume *volume);

/* What is cheap to know, from any thread, for every command: no lock is taken.  The geometry
 * is 0 until the volume was assembled once.  At most 100 ms old.
 */
struct volume_brief {
	enum volume_state state;
	enum volume_role role;
	int level; /* as it is, or as it was when last assembled here; -1 unknown */
	uint64_t size_bytes;
	uint32_t block_bytes, chunk_bytes, row_bytes;
};
void volume_brief(const struct volume *volume, struct volume_brief *out);

/* Wait until it is assembled (0), failed (-EIO), stopping (-ESHUTDOWN) or timeout_ms is over
 * (-ETIMEDOUT).  The fault gets the engine's reason, also with 0.
 */
int volume_wait_assembled(struct volume *volume, uint32_t timeout_ms, struct fault *fault);

/* What a volume's thread did with its time, in some of its turns that were chosen at random: to
 * look at the clock so often in every one would cost more than it tells.
 */
struct volume_time {
	uint64_t turns, turns_timed;
	uint64_t idle_ns;    /* it waited */
	uint64_t receive_ns; /* took what came, from sockets and other threads */
	uint64_t engine_ns;  /* decided what to do, */
	uint64_t code_ns;    /* computed P, Q and what is missing, */
	uint64_t send_ns;    /* and sent */
};

/* --- administration, by name --- */

struct volume_view {
	/* false: only config, status.state (stopped) and role are meaningful */
	bool running;
	enum volume_role role;	     /* 0: it does not run, and would be active */
	uint64_t role_since_ms;	     /* since 1970-01-01 UTC; 0 with role 0 */
	uint64_t role_changes;	     /* to active and from it, since the volume was loaded */
	int role_changes_hour;	     /* of these in the last hour, ROLE_CHANGES_KEPT at most */
	struct volume_config config; /* as it was started; of the file if not running */
	struct engine_status status; /* of devices that are attached, where it runs */
	int user_count;
	char users[VOLUME_USERS_MAX][VOLUME_USER_MAX + 1];
};

/* A snapshot taken on the volume's thread (waits a few ms at most).  0, or as volume_config_read
 * for a volume that doesn't run.
 */
int volume_view(struct volume_host *host, const char *name, struct volume_view *out,
		struct fault *fault);

struct volume_start_options {
	/* assemble a set that is older than what this gateway knows, while this start lasts */
	bool force;
	bool take_over;	  /* preempt another gateway's reservation, while this start lasts */
	bool activate;	  /* also if it is on standby; role.h */
	bool standby;	  /* begin it on standby; changes nothing of what runs */
	uint32_t wait_ms; /* for so long an administrator waits for it */
};

/* Start it if it doesn't run; if it failed, or if options are given while it is not assembled,
 * assemble again with its configuration read anew: its users keep their hold.  As volume_acquire.
 */
int volume_start(struct volume_host *host, const char *name,
		 const struct volume_start_options *options, struct fault *fault);

/* As volume_wait_assembled. */
int volume_wait(struct volume_host *host, const char *name, uint32_t timeout_ms);

/* Stop in order and unlock.  0, also if it didn't run; -EBUSY while it has users (the fault
 * names them); -EAGAIN if somebody else is stopping it.
 */
int volume_stop(struct volume_host *host, const char *name, struct fault *fault);

/* Does a superblock's owner name the gateway with this gateway_id(), whatever process of it? */
bool volume_owner_is(const char *owner, uint64_t gateway);

/* --- the lock of a volume on this machine --- */

/* Lock run_dir()/UUID.lock.  Returns a descriptor to close; -EBUSY: the fault names the holder. */
int volume_lock(const uint8_t uuid[16], const char *name, const char *program, struct fault *fault);

#endif
