/* volume_host.h - the volumes of this process: one thread, reactor and engine for each.
 * Thread-safe: tcmu's command threads, nbdkit's threads and the control socket call it.
 */
#ifndef IRAID_VOLUME_HOST_H
#define IRAID_VOLUME_HOST_H

#include "../engine/engine.h"
#include "config.h"

struct volume_host;	/* all volumes of this process */
struct volume;		/* one of them, counted by its users */

struct volume_host *volume_host_create(const char *program);	/* "tcmu-runner", "nbdkit", "iraid-engine" */
void volume_host_destroy(struct volume_host *host);		/* stops all, in order */

/* Find or start the volume NAME and take a reference.  Fast: reads its configuration, starts its
 * thread, never waits for members.  user: shown in status, "tcmu: v0".
 * Returns 0; -ENOENT no such configuration; -EINVAL it doesn't parse; -EBUSY another process has it locked.
 * reason gets a line naming the thing, the value and the remedy.
 */
int volume_acquire(struct volume_host *host, const char *name, const char *user,
		   struct volume **out, char *reason, size_t reason_size);
void volume_release(struct volume *volume);	/* the volume goes on until volume_stop or the end of the process */

/* Queue a request to the volume's engine, from any thread; request->done is called on the
 * volume's thread.  Never blocks.
 */
void volume_submit(struct volume *volume, struct engine_request *request);

/* A snapshot of its state, taken on the volume's thread (waits a few ms at most). */
int volume_status(struct volume *volume, struct engine_status *out);

/* Wait until it is assembled (0), failed (-EIO), or timeout_ms is over (-ETIMEDOUT). */
int volume_wait_assembled(struct volume *volume, uint32_t timeout_ms);

/* Stop in order and unlock; fails with -EBUSY while referenced by a user. */
int volume_stop(struct volume_host *host, const char *name);

#endif
