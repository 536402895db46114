/* volume_host_internal.h - what volume_host.c (who may have a volume) and volume_thread.c (the
 * thread that drives it) share.
 */
#ifndef IRAID_VOLUME_HOST_INTERNAL_H
#define IRAID_VOLUME_HOST_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "reactor.h"
#include "volume_host.h"

struct volume_host {
	pthread_mutex_t lock;		/* the list, and each volume's users, pins and stopping */
	pthread_cond_t unpinned;
	struct hosted *volumes;
	char program[32];
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

	/* Under host->lock. */
	struct volume *users;
	int pins;		/* administrators looking at it; it is not freed before they are done */
	bool stopping;

	/* From any thread without a lock. */
	_Atomic(struct engine_request *) submitted;	/* newest first */
	struct reactor_message submit_message;		/* in the mailbox while submitted is not NULL */
	struct reactor_message command_message;
	atomic_flag command_posted;
	atomic_int brief_state, brief_level;	/* level: -1 if never known */
	_Atomic uint64_t brief_size_bytes;
	_Atomic uint32_t brief_block_bytes, brief_chunk_bytes, brief_row_bytes;

	/* Under lock; `changed` is signalled when state, answered, want_restart or ended change. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct volume_config config;
	struct volume_start_options start_options;
	bool want_stop, want_restart, ended;
	uint64_t asked, answered;	/* snapshots of status */
	struct engine_status status;

	/* The thread's own. */
	struct engine *engine;		/* NULL: could not be made, status says why */
	struct backend *backends[IRAID_MEMBERS_MAX];
	int backend_count;
	bool engine_stopping, engine_stopped;
	struct engine_request *held_first, **held_last;	/* wait for the next engine */
	char setup_fault[256];
	uint64_t refreshed_ms;
	bool refresh_due;
};

int volume_thread_start(struct hosted *hosted);	/* 0 or -errno */
void volume_thread_wake(struct hosted *hosted);		/* there are commands under lock */
void volume_thread_submit(struct hosted *hosted, struct engine_request *request);

#endif
