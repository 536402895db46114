/* engine.h - one volume: takes requests, drives the members, keeps promise 1.
 *
 * Single-threaded and driven from outside.  It never blocks, sleeps, makes a thread or looks at
 * a clock; it has no file descriptors.  The driver (adapters/volume_host.c, a unit test, the
 * simulator) does, on one thread:
 *
 *	engine_submit(...)	as often as there are requests waiting
 *	backend callbacks	as members answer
 *	engine_run(now)		after each batch of the above, and at engine_deadline()
 *
 * Requests complete through request->done, from inside engine_run() only.
 */
#ifndef IRAID_ENGINE_H
#define IRAID_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../ports/backend.h"
#include "../pure/geometry.h"
#include "../pure/layout.h"

struct engine;

enum request_op {
	REQUEST_READ,
	REQUEST_WRITE,
	REQUEST_FLUSH,
};

/* One command to the volume; memory is the caller's until done(). */
struct engine_request {
	enum request_op op;
	bool fua;
	uint64_t offset_bytes;	/* whole blocks; -EINVAL otherwise */
	uint64_t length_bytes;	/* 0 is allowed and succeeds */
	const struct iovec *iov;	/* array and memory live until done(); never modified */
	int iov_count;

	/* 0
	 * -ENODATA	medium error: these bytes can't be known (DESIGN rule 9), or more members than
	 *		the level bears could not read them
	 * -EIO		write or flush failed on more members than the level bears
	 * -ETIMEDOUT	too many members were silent for the whole of queue_limit
	 * -ENOMEDIUM	the volume is not assembled (after assembly_limit)
	 * -ERANGE, -EINVAL	outside of the volume, not whole blocks
	 * -ESHUTDOWN	the volume is stopping, or was taken over by another gateway
	 */
	void (*done)(struct engine_request *request, int result);
	void *owner;

	/* The engine's while it has the request. */
	struct engine_request *next;
	uint32_t pieces_left;
	int first_error;
};

struct engine_options {
	uint8_t volume_uuid[16];
	/* Who we are, written to superblocks: "host pid 123 (tcmu-runner) #0a1b2c3d"; what follows '#'
	 * tells gateways apart. */
	char owner[LAYOUT_OWNER_MAX + 1];
	bool take_over;			/* although another gateway is recorded as its owner */
	uint64_t epoch_seen;		/* highest epoch this gateway knows of the volume; older sets are refused */
	bool force;			/* assemble although epoch_seen says the set is older */
	uint32_t assembly_wait_ms;	/* once there are enough members, wait this long for the others (10 s) */
	uint32_t assembly_limit_ms;	/* requests wait this long for assembly (20 s) */
	uint32_t queue_limit_ms;	/* requests wait this long for silent members (25 s) */
	uint32_t give_up_ms;		/* a member that stays away this long while the others suffice is evicted (5 s) */
	uint32_t resync_rows_max;	/* rows resynchronised at a time; 0 stops resync */
	uint64_t buffer_bytes_max;	/* bound of the buffer arena; 0: the default, docs/design/memory.md */
};

/* What the engine asks of its driver. */
struct engine_port {
	/* An assembly is about to be made durable on the members: record the epoch first. 0 or -errno. */
	int (*record_epoch)(void *owner, uint64_t epoch);
	/* Something an administrator would want in the log; level is a syslog priority. */
	void (*log)(void *owner, int level, const char *text);
	void *owner;
};

/* backends[0 .. count): in the order of the configuration, roles come from superblocks.
 * Returns NULL if out of memory or count is out of 2..32.  Nothing is opened yet.
 */
struct engine *engine_create(const struct engine_options *options, const struct engine_port *port,
			     struct backend *const *backends, int count, uint64_t now_ms);

/* Open the members and assemble, as engine_run() goes on. */
void engine_start(struct engine *engine);

/* Queue one request.  Its done() comes later, from engine_run(). */
void engine_submit(struct engine *engine, struct engine_request *request);

/* Let everything that can proceed do so.  now_ms: monotonic milliseconds, never going back. */
void engine_run(struct engine *engine, uint64_t now_ms);

/* When engine_run() must be called again although nothing happened; UINT64_MAX for never. */
uint64_t engine_deadline(const struct engine *engine);

/* Stop in order: new requests fail (-ESHUTDOWN), those queued finish, members are flushed, the
 * superblocks marked clean, sessions closed.  stopped(owner) is called from engine_run(); then
 * engine_destroy() may be called.  Takes at most a few seconds when members don't answer.
 */
void engine_stop(struct engine *engine, void (*stopped)(void *owner), void *owner);

/* Only when stopped, or never started. */
void engine_destroy(struct engine *engine);

/* --- what status shows --- */

enum volume_state {
	VOLUME_ASSEMBLING,	/* waiting for members */
	VOLUME_ACTIVE,		/* all members in sync */
	VOLUME_DEGRADED,	/* works, without redundancy (or with less) */
	VOLUME_SUSPENDED,	/* more members silent than the level bears: I/O waits for them */
	VOLUME_FAILED,		/* can't work: reason says why; nothing is written */
	VOLUME_STOPPING,
	VOLUME_STOPPED,
};

enum link_state {
	LINK_CLOSED,
	LINK_OPENING,
	LINK_OPEN,
};

struct member_status {
	char label[256];
	enum link_state link;
	int role;			/* -1: not known (yet) */
	enum member_state state;	/* meaningful when assembled and role >= 0 */
	char reason[256];		/* why it is not in sync or not connected; empty if all is well */
	uint64_t capacity_bytes;
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors;
	uint64_t latency_us_max;	/* reserved, 0 */
};

struct engine_status {
	enum volume_state state;
	char reason[256];
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t volume_uuid[16];
	uint8_t level;
	uint8_t member_count;
	uint32_t chunk_bytes;
	uint32_t block_bytes;
	uint64_t size_bytes;		/* 0 until assembled */
	uint64_t epoch, event;
	uint32_t regions, regions_dirty, regions_suspect, regions_stale;
	uint64_t region_bytes;		/* of one member's data */
	bool resync_running;
	uint64_t resync_done_rows, resync_total_rows;	/* of this run */
	uint64_t resync_corrected_rows;	/* parity that differed and was rewritten */
	uint64_t requests_active;
	uint64_t buffer_bytes, buffer_bytes_max;
	/* How requests were carried out, since assembly. */
	uint64_t rows_full, rows_rmw, rows_reconstruct, rows_read_all, rows_data_only;
	uint64_t reads_reconstructed;
	uint64_t requests_merged;	/* writes that joined another's rows */
	struct member_status members[IRAID_MEMBERS_MAX];
};

void engine_status(const struct engine *engine, struct engine_status *out);

const char *volume_state_name(enum volume_state state);	/* "active", ... */
const char *member_state_name(enum member_state state);	/* "in sync", "faulty", "missing" */

#endif
