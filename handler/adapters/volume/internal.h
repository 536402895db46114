/* volume/internal.h - what these share: host.c (who may have a volume), thread.c (the
 * thread that drives it), driver.c (its engine and sessions), admin.c (calls of an
 * administrator into that thread), keeper.c (what a volume needs done that may block), recorder.c
 * (what it wants on record in the state folder).
 */
#ifndef IRAID_VOLUME_INTERNAL_H
#define IRAID_VOLUME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "adapters/backend/backend.h"
#include "adapters/base/event_ring.h"
#include "adapters/base/journal.h"
#include "adapters/base/reactor.h"
#include "admin.h"
#include "host.h"
#include "recorder.h"

struct keeper;

struct volume_host {
	/* the list, `ending`, and each volume's users, pins and stopping */
	pthread_mutex_t lock;
	pthread_cond_t unpinned;
	struct hosted *volumes;
	bool ending;
	pthread_mutex_t edits; /* one change of configuration files at a time */
	struct event_ring *events;
	struct journal *journal;	/* NULL: none */
	struct keeper *keeper, *seeker; /* files; spares, which takes logins */
	struct recorder *recorder;
	pthread_mutex_t watching; /* innermost; for `watch` */
	struct volume_watch watch;
	char program[32];
};

/* Something to be done on a volume's thread; its memory is the waiting caller's. */
struct volume_call {
	struct volume_call *next;
	int (*fn)(struct hosted *hosted, void *argument, struct fault *fault);
	void *argument;
	struct fault *fault;
	int result;
	bool done;
};

/* One user's hold. */
struct volume {
	struct hosted *hosted;
	struct volume *next;
	char user[VOLUME_USER_MAX + 1];
};

/* A volume that runs in this process. */
struct hosted {
	struct hosted *next;
	struct volume_host *host;
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t uuid[16];
	int lock_fd;
	pthread_t thread;
	struct reactor *reactor;
	struct recorder_seat *seat;
	/* on record, or about to be: */
	uint64_t predecessor_key;
	int members_needed;

	/* Under host->lock. */
	struct volume *users;
	/* administrators looking at it; it is not freed before they are done */
	int pins;
	bool stopping;

	/* From any thread without a lock. */
	_Atomic(struct engine_request *) submitted; /* newest first */
	_Atomic uint64_t numbers;		    /* given to requests */
	/* in the mailbox while submitted is not NULL */
	struct reactor_message submit_message;
	struct reactor_message command_message;
	atomic_flag command_posted;
	atomic_int brief_state, brief_level; /* level: -1 if never known */
	atomic_int brief_role;
	_Atomic uint64_t brief_size_bytes;
	_Atomic uint32_t brief_block_bytes, brief_chunk_bytes, brief_row_bytes;

	/* Under lock; `changed` is signalled when state, role, answered, want_restart or ended
	 * change.
	 */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct volume_config config;
	struct volume_start_options start_options;
	bool want_stop, want_restart, ended;
	enum volume_role role, made; /* wanted; as the thread has it, which alone changes it */
	uint64_t role_since_ms;
	uint64_t role_changes;			     /* to active and from it */
	uint64_t role_changed_ms[ROLE_CHANGES_KEPT]; /* the last of these; a ring */
	char role_reason[256];			     /* of standby and fenced; may be empty */
	enum volume_access access;		     /* told to host->watch last */
	uint64_t asked, answered;		     /* snapshots of status */
	struct engine_status status;
	struct volume_call *calls, **calls_last;
	struct lost_accepting *accepting; /* the engine has it */
	struct growing *growing;	  /* the same */
	struct probing *probing;	  /* the same; path.c */
	int drops;			  /* devices that were let go and are in the file still */

	atomic_bool spare_sought; /* the keeper is looking for one */

	/* The thread's own. */
	struct engine *engine;		     /* NULL: could not be made, status says why */
	struct backend *backends[SLOTS_MAX]; /* by slot; NULL: none there */
	struct device_address devices[SLOTS_MAX];
	/* Whose sessions members may be closing, as far as it could not be put on record. */
	struct unrecorded {
		struct member_address member;
		struct scsi_preempted preempted; /* key 0: a free place */
	} unrecorded[SLOTS_MAX];
	int slot_count;
	uint64_t started_ms; /* since 1970-01-01 UTC: the engine was made */
	bool engine_stopping, engine_stopped;
	struct engine_request *held_first, **held_last; /* wait for the next engine */
	struct fault setup_fault;
	uint64_t remake_ms; /* it is tried again then; 0: not by itself */
	bool looked;	    /* the engine has asked for the time in this turn */
	bool fence_to_record; /* when hosted->lock is free again */
	struct volume_time time;
	bool timed; /* this turn is counted in `time` */
	uint64_t timed_ns, code_before_ns, random;
	uint64_t refreshed_ms;
	bool refresh_due;
};

/* host.c */
struct hosted *volume_pin(struct volume_host *host, const char *name); /* NULL: it does not run */
void volume_pin_again(struct hosted *hosted);
void volume_unpin(struct hosted *hosted);
/* Record an event where readers and the journal find it.  member: its label, or empty. */
void volume_host_event(struct volume_host *host, int severity, const char *kind, const char *name,
		       const char *member, const char *text);
struct timespec volume_deadline_in(uint32_t timeout_ms); /* for `changed` */

/* driver.c; on the volume's thread */
void volume_take_recorded(struct hosted *hosted);
void volume_engine_make(struct hosted *hosted);
void volume_engine_destroy(struct hosted *hosted);
/* As engine_attach(). */
int volume_engine_attach(struct hosted *hosted, const struct device_address *device,
			 struct fault *fault);

/* What hosted->config says now of times, rates, credentials and portals goes to the engine and the
 * sessions.
 */
int volume_engine_adjust(struct hosted *hosted, struct fault *fault);

/* admin.c; on the volume's thread */
void volume_calls_run(struct hosted *hosted);
/* No more of them will be run: those waiting fail.  With hosted->lock. */
void volume_calls_fail(struct hosted *hosted, int error, const char *text);
/* Call fn on the thread of a volume that runs, with its engine, as volume_call(). */
int volume_call_hosted(struct volume_host *host, const char *name,
		       int (*fn)(struct hosted *hosted, void *argument, struct fault *fault),
		       void *argument, struct fault *fault);
/* The engine is gone and with it what it was asked for. */
void volume_accepting_fail(struct hosted *hosted);
void volume_growing_fail(struct hosted *hosted);

/* role.c; with hosted->lock */
void volume_role_set(struct hosted *hosted, enum volume_role role, const char *reason);
int volume_role_changes_hour(const struct hosted *hosted);
/* Whoever tells initiators is woken if that is another now. */
void volume_note_access(struct hosted *hosted);
/* of one that nobody else sees yet: what is asked for, or on record */
void volume_role_begin(struct hosted *hosted, enum volume_role role);
/* without it, and not on the volume's thread: that it was fenced off, if that still holds */
void volume_role_record_fenced(struct hosted *hosted);

/* path.c; as those above */
void volume_probing_fail(struct hosted *hosted);

/* keeper.c */
struct keeper *keeper_create(struct volume_host *host); /* NULL: no thread or memory */
void keeper_destroy(struct keeper *keeper);
/* These may be called on the volume's thread, but not with hosted->lock: they take host->lock, which comes
 * before it.
 */
void keeper_seek_spare(struct hosted *hosted, uint64_t member_bytes, uint32_t block_bytes);
void keeper_drop_device(struct hosted *hosted, const struct device_address *device);
void keeper_record_fenced(struct hosted *hosted);

/* thread.c */
int volume_thread_start(struct hosted *hosted); /* 0 or -errno */
void volume_thread_wake(struct hosted *hosted); /* there are commands under lock */
void volume_thread_submit(struct hosted *hosted, struct engine_request *request);

#endif
