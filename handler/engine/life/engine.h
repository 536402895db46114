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

#include "ports/backend.h"
#include "pure/geometry.h"
#include "pure/layout.h"
#include "state/assembly.h"
#include "engine/core/figures.h"
#include "engine/core/list_node.h"

struct engine;

enum request_op {
	REQUEST_READ,
	REQUEST_WRITE,
	REQUEST_FLUSH,
	REQUEST_ZERO,		/* a write of zeros, of any length; no iov */
	REQUEST_COMPARE_WRITE,	/* if the bytes are those of the first half of iov, write the second; atomic */
};

#define COMPARE_WRITE_BYTES_MAX (64u << 10)

/* One command to the volume; memory is the caller's until done(). */
struct engine_request {
	enum request_op op;
	bool fua;
	bool deallocate;	/* ZERO: members may give the space back */
	bool for_read;		/* FLUSH: of a read that wants what is on the media; it asks for no write, so it is told of no loss */
	uint64_t offset_bytes;	/* whole blocks; -EINVAL otherwise */
	uint64_t length_bytes;	/* 0 is allowed and succeeds; COMPARE_WRITE: of each half, -EINVAL above its maximum */
	const struct iovec *iov;	/* array and memory live until done(); never modified */
	int iov_count;
	/* ZERO: what of a long range was not begun so long after it was submitted is left as it is (-ETIME): who
	 * submitted it has given it up, and would not expect zeros over what it writes next.  0: no limit. */
	uint32_t limit_ms;
	uint64_t arrived_ns;	/* when the driver got it, by the clock of port.now_ns; 0: not known.  For figures */
	uint64_t number;	/* of the volume's commands, for tracing; 0: the engine gives it one */
	uint64_t mismatch_bytes;	/* COMPARE_WRITE that ended with -EILSEQ: offset of the first byte that differs */

	/* 0
	 * -ENODATA	medium error: these bytes can't be known (DESIGN rule 9), or more members than
	 *		the level bears could not read them
	 * -EIO		the same, but some of them refused, so it may be read yet; or a write or flush failed on
	 *		more members than the level bears
	 * -ETIMEDOUT	too many members were silent for the whole of queue_limit; or it waited longer than a request may
	 *		(engine_request_ms_max), for whatever it was.  Of a write something may have been done
	 * -ENOMEDIUM	the volume is not assembled (after assembly_limit)
	 * -ERANGE, -EINVAL	outside of the volume, not whole blocks
	 * -ESHUTDOWN	the volume is stopping, or was taken over by another gateway; a ZERO that was under way
	 *		then may be done in part
	 * -ETIME	ZERO: done in part, see limit_ms
	 * -EILSEQ	COMPARE_WRITE: the bytes differ, nothing was written
	 */
	void (*done)(struct engine_request *request, int result);
	void *owner;

	/* The engine's while it has the request. */
	struct engine_request *next;
	struct list alive;	/* of engine->alive: all, in order of since_ms, but long ranges of zeros */
	uint64_t since_ms;	/* it has its time from then on; 0: not looked at yet */
	uint32_t pieces, pieces_left;
	uint32_t doubts, cache_losses;	/* the engine's, when it was begun; cache_losses stays: when it ended */
	bool doubted;		/* what its pieces have written since may be gone; behind.c */
	int first_error;
	bool claimed;		/* of an operation that holds the rows itself: compare_op.c */
	uint64_t submitted_ms;
	uint64_t cut_bytes;	/* ZERO: how much of it was cut into pieces */
	uint64_t zeroed_bytes;	/* the same, when it was carried out before: the most */
	struct overwritten *overwritten;	/* ZERO: of that, what others wrote since; behind.c */
	bool overtaken;		/* ZERO: the same, but it can't be spared */
	struct engine_request *several_next, **several_link;	/* behind.c; NULL: it is not there */
	uint64_t since_ns, finished_ns;	/* since: it is to be carried out, which may be once more */
};

struct engine_options {
	uint8_t volume_uuid[16];
	/* Who we are, written to superblocks: "host pid 123 (tcmu-runner) #0a1b2c3d"; what follows '#'
	 * tells gateways apart. */
	char owner[LAYOUT_OWNER_MAX + 1];
	uint32_t take_over_ms;		/* although another gateway is recorded as its owner: within that time of the start */
	uint64_t epoch_seen;		/* highest epoch this gateway knows of the volume; older sets are refused */
	uint64_t epoch_tried;		/* highest that this gateway ever meant to give the volume: an assembly's is above it */
	uint32_t force_ms;		/* within that time of the start: assemble although epoch_seen says the set is older */
	uint32_t assembly_wait_ms;	/* once there are enough, wait this long for the others (10 s); 2 give_up more for a half that is asked */
	uint32_t assembly_limit_ms;	/* requests wait this long for assembly (20 s) */
	uint32_t queue_limit_ms;	/* requests wait this long for silent members (25 s) */
	uint32_t give_up_ms;		/* a member that stays away this long while the others suffice is evicted (5 s) */
	uint32_t resync_rows_max;	/* rows resynchronised, rebuilt or scrubbed at a time; 0 stops all of it */
	/* Background work (resync, rebuild, scrub), bytes of each member a second: at least min while requests are
	 * active, at most max when they are not; 0: 10 MiB and 1 GiB. */
	uint64_t sync_rate_min, sync_rate_max;
	/* A member whose session was ended, by a reset for example, as when a target's daemon is started anew, has this long to take
	 * another before it is evicted (1 s); 0: no time.  One that fell silent has had its give_up_ms. */
	uint32_t grace_ms;
	uint32_t loss_told_ms;		/* flushes fail this long after the first that told of a lost cache; 0: only that one (60 s) */
	uint32_t hedge_ms;		/* a read that waits this long for one member is made from the others (500); 0: never */
	uint32_t spare_wait_ms;		/* a member that fell silent has this long to return before a spare takes its place (60 s) */
	uint32_t error_limit;		/* medium errors repaired on a member before it loses its place (64) */
	uint32_t lost_entries_max;	/* for tests: the table of lost extents is full sooner; 0: when it is full */
	uint64_t buffer_bytes_max;	/* bound of the buffer arena; 0: the default, docs/design/memory.md */
};

enum event_kind {
	EVENT_ASSEMBLED, EVENT_STOPPED, EVENT_SUSPENDED, EVENT_RESUMED, EVENT_FENCED,
	EVENT_MEMBER_SILENT, EVENT_MEMBER_BACK, EVENT_MEMBER_EVICTED, EVENT_MEMBER_SLOW,
	EVENT_REBUILD_STARTED, EVENT_REBUILD_FINISHED, EVENT_REBUILD_STOPPED,
	EVENT_RESYNC_FINISHED,
	EVENT_SCRUB_STARTED, EVENT_SCRUB_FINISHED, EVENT_SCRUB_STOPPED, EVENT_SCRUB_MISMATCH,
	EVENT_MEDIUM_ERROR, EVENT_DATA_LOST, EVENT_LOST_ACCEPTED,
	EVENT_SPARE_WANTED, EVENT_ATTACHED, EVENT_DETACHED,
	EVENT_GROWN,
};

struct engine_event {
	enum event_kind kind;
	int severity;			/* a syslog priority */
	int slot;			/* the device it is about, or -1 */
	const char *text;		/* one line for a person; valid during the call */
};

const char *event_kind_name(enum event_kind kind);	/* "member evicted", ... */

/* What the engine asks of its driver. */
struct engine_port {
	/* The members have this epoch, durably: record it before the first I/O.  0 or -errno. */
	int (*record_epoch)(void *owner, uint64_t epoch);
	/* They are about to get it: record that it was meant.  0 or -errno.  NULL: a start does not know of those that never were. */
	int (*try_epoch)(void *owner, uint64_t epoch);
	/* Something an administrator would want in the log; level is a syslog priority. */
	void (*log)(void *owner, int level, const char *text);
	/* Something happened that is worth keeping; NULL: not wanted.  Called from engine_run(). */
	void (*event)(void *owner, const struct engine_event *event);
	/* A member's place is empty and the volume has no spare of its own.  Asked again every minute while that is so;
	 * the driver may engine_attach() one of the gateway's, or do nothing. NULL: there are none. */
	void (*want_spare)(void *owner, uint64_t member_bytes, uint32_t block_bytes);
	/* The device in this slot was let go: its backend is closed and no longer used. */
	void (*detached)(void *owner, int slot, struct backend *backend);
	/* A clock that never goes back, for figures alone; NULL: they have no times.  Asked once at the beginning of a run,
	 * and behind what takes long. */
	uint64_t (*now_ns)(void *owner);
	void *owner;
};

/* backends[0 .. count): the devices of the configuration, members and spares in any order, in slots 0 .. count-1; what
 * each one is, its superblock says.  Returns NULL if out of memory or count is out of 1..SLOTS_MAX.  Nothing is
 * opened yet.
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

/* --- administration: all at once return 0 or -errno and put what to tell a person into why[256] --- */

/* Take one more device; it is opened and looked at.  A spare (spare.h) waits, or goes to work if a place is empty.
 * Returns its slot; -ENOSPC: no free slot. */
int engine_attach(struct engine *engine, struct backend *backend, char *why);

/* Let a device go that is no part of the volume's redundancy: a spare, a faulty or replaced member, a target of a
 * rebuild (which ends).  port.detached() follows.  -EBUSY: in sync, fail it first. */
int engine_detach(struct engine *engine, int slot, char *why);

/* Evict a member now, and don't take it back by itself.  -EBUSY: the level can't bear it; of a target: ends its rebuild. */
int engine_fail(struct engine *engine, int slot, char *why);

/* A member that was failed, by an administrator or for its errors, may come back and catch up. -EINVAL: it is something else. */
int engine_readmit(struct engine *engine, int slot, char *why);

/* Fill the spare in slot `spare` with the contents of `role` and give it its place; the member that has it now works
 * until then, and is let go afterwards.  -EBUSY: another rebuild is under way; -EINVAL: not a spare, too small. */
int engine_replace(struct engine *engine, int role, int spare, char *why);

/* From row 0, or on from where a stopped one was if `resume`.  -EBUSY: one is running.  Level 0: -EOPNOTSUPP. */
int engine_scrub_start(struct engine *engine, enum scrub_mode mode, bool resume, char *why);
int engine_scrub_stop(struct engine *engine, char *why);

/* Use what the members have grown by: ask each for its size, lay the new rows out, put it on record; requests go on meanwhile.
 * done(owner, 0 or -errno, text): 0 with the volume as large as its smallest member allows, perhaps as it was; the text
 * is a note for a person then, or empty; else why not, and nothing has changed (-EIO: a member failed or left meanwhile;
 * -ESHUTDOWN: the volume stops, or was taken over: its next assembly says which size it has).
 * -EAGAIN: not running.  -EBUSY: a member is missing or being filled, or a growth is under way. */
int engine_grow(struct engine *engine, void (*done)(void *owner, int error, const char *text), void *owner, char *why);

#define PROBE_BLOCK_BYTES_MAX (1u << 20)
#define PROBE_DEPTH_MAX 32u
#define PROBE_MS_MAX 60000u

struct probe_order {
	int slot;			/* of one device, whatever it is; -1: all members in sync, at the same time */
	uint32_t block_bytes;		/* of each read; a multiple of 4096 */
	uint32_t depth;			/* reads under way on each member */
	uint32_t duration_ms;
	uint64_t rate_max;		/* bytes of each member a second; 0: no limit */
};

struct probe_result {			/* of one device */
	bool probed;
	int error;			/* 0; its session ended (-ENOTCONN), a read failed, or none was answered (-ETIMEDOUT) */
	uint32_t unanswered;		/* let go at the end */
	uint64_t reads, bytes;		/* answered while it was counted, which is most of the time: */
	uint64_t elapsed_ms;
	uint64_t other_bytes;		/* that the device read and wrote meanwhile for somebody else */
};

/* Read from members for a while, beside whatever else they do, and see how fast that is.  done(owner, 0, a result for each slot),
 * a second after duration_ms at the latest; -ESHUTDOWN: the volume stops, or was taken over.  -EAGAIN: not running.
 * -EBUSY: a probe is under way.  -ENODEV: no session to read by.  -EINVAL. */
int engine_probe(struct engine *engine, const struct probe_order *order,
		 void (*done)(void *owner, int error, const struct probe_result results[SLOTS_MAX]), void *owner, char *why);

/* No request is with the engine for longer than this, whatever members, links or other requests do (docs/design/time.md).
 * Ranges of zeros of more than a MiB: since a piece of such a range was last done. */
uint64_t engine_request_ms_max(const struct engine_options *options);
/* stopped() of engine_stop() is called within this time, whoever refuses or stays silent. */
uint64_t engine_stop_ms_max(void);

void engine_set_rates(struct engine *engine, uint64_t min, uint64_t max);
/* Take over the times, rates and the error limit of *options, and nothing else of it.  They hold from now on, also for
 * what is being waited for already. */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct lost_range { uint64_t offset_bytes, length_bytes; };	/* of the volume */

/* Ranges that read as medium errors, from the one behind offset_bytes on, in ascending order; returns how many were put into out[max]. */
int engine_lost_list(const struct engine *engine, uint64_t offset_bytes, struct lost_range *out, int max);

/* Let what stands there count as the data.  Whole volume: 0, UINT64_MAX.  done(owner, bytes or -errno) when it is durable. */
void engine_lost_accept(struct engine *engine, uint64_t offset_bytes, uint64_t length_bytes,
			void (*done)(void *owner, int64_t result), void *owner);

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
	bool attached;			/* there is a device in this slot */
	char label[256];
	enum link_state link;
	int role;			/* -1: not known (yet), or a spare */
	enum member_state state;	/* 0: not known */
	uint8_t uuid[16];
	uint64_t stale_rows;		/* to be copied to it before it is in sync */
	char reason[256];		/* why it is not in sync or not connected; empty if all is well */
	uint64_t capacity_bytes;
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors;
	uint64_t medium_repaired;	/* read errors cured by rewriting */
	uint32_t latency_ms;		/* of its commands, a moving mean */
	bool slow;			/* reads are made from the others where that is possible */
};

struct work_status {			/* a resync, rebuild or scrub */
	bool running;			/* false: none, or it waits; see reason */
	uint64_t done_rows, total_rows;
	uint64_t rate;			/* bytes of each member a second, lately */
	uint64_t seconds_left;		/* at that rate; UINT64_MAX: can't be told */
	char reason[96];		/* why it is not running, though there is something to do */
};

#define MISMATCH_POSITIONS 16

struct engine_status {
	enum volume_state state;
	char reason[256];
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t volume_uuid[16];
	uint8_t level;
	uint8_t member_count;
	uint32_t chunk_bytes;
	uint32_t block_bytes;
	uint64_t row_bytes;		/* of data */
	uint32_t stripe_bytes;		/* what best is written at once: a row, or as much as visits all members once */
	uint64_t size_bytes;		/* 0 until assembled */
	uint64_t epoch, event;
	uint32_t regions, regions_dirty, regions_suspect, regions_stale;
	uint64_t region_bytes;		/* of one member's data */
	struct work_status resync, rebuild, scrub;
	uint64_t resync_corrected_rows;	/* parity that differed and was rewritten */
	int rebuild_slot;		/* the device that is filled, or -1 */
	bool scrub_active;		/* started and neither finished nor stopped; it may wait, see scrub.reason */
	enum scrub_mode scrub_mode;	/* of the scrub under way, or of the last one */
	uint64_t scrub_mismatches;	/* rows whose parity did not fit, of that scrub */
	uint64_t mismatch_rows[MISMATCH_POSITIONS];	/* the first of them */
	uint32_t lost_extents;
	uint64_t lost_bytes;
	uint64_t medium_repaired;
	uint64_t reads_hedged;
	uint64_t sync_rate_min, sync_rate_max;
	uint64_t requests_active;
	uint64_t buffer_bytes, buffer_bytes_max;
	/* How requests were carried out, since assembly. */
	uint64_t rows_full, rows_rmw, rows_reconstruct, rows_read_all, rows_data_only;
	uint64_t reads_saved;		/* of members, by what was known of their rows already */
	uint64_t reads_reconstructed;
	uint64_t requests_merged;	/* writes that joined another's rows */
	int slots;			/* members[0 .. slots) */
	struct member_status members[SLOTS_MAX];
};

void engine_status(const struct engine *engine, struct engine_status *out);

/* Counted since engine_create(). */
struct engine_figures {
	uint32_t queue;				/* commands submitted and not answered yet */
	struct histogram commands[FIGURES_OPS];	/* by enum request_op; since the driver got them */
	struct step_figures steps[STEPS];
	struct member_figures members[SLOTS_MAX];	/* by slot, as engine_status.members */
};

void engine_figures(const struct engine *engine, struct engine_figures *out);
/* How long this thread has computed P, Q and what is missing, for initiators. */
uint64_t engine_code_ns(const struct engine *engine);

const char *volume_state_name(enum volume_state state);	/* "active", ... */
const char *member_state_name(enum member_state state);	/* "in sync", "faulty", "missing", "rebuilding", "out of date", "spare" */

#endif
