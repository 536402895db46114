/* driver.h - what the engine and its driver give each other: requests, options, events.  engine.h
 * says how to drive.
 */
#ifndef IRAID_ENGINE_DRIVER_H
#define IRAID_ENGINE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ports/backend.h"
#include "pure/layout.h"
#include "list_node.h"

enum request_op {
	REQUEST_READ,
	REQUEST_WRITE,
	REQUEST_FLUSH,
	REQUEST_ZERO, /* a write of zeros, of any length; no iov */
	/* if the bytes are those of the first half of iov, write the second; atomic */
	REQUEST_COMPARE_WRITE,
};

#define COMPARE_WRITE_BYTES_MAX (64u << 10)

/* One command to the volume; memory is the caller's until done(). */
struct engine_request {
	enum request_op op;
	bool fua;
	bool deallocate; /* ZERO: members may give the space back */
	/* FLUSH: of a read that wants what is on the media; it asks for no write, so it is told of
	 * no loss
	 */
	bool for_read;
	uint64_t offset_bytes; /* whole blocks; -EINVAL otherwise */
	/* 0 is allowed and succeeds; COMPARE_WRITE: of each half, -EINVAL above its maximum */
	uint64_t length_bytes;
	const struct iovec *iov; /* array and memory live until done(); never modified */
	int iov_count;
	/* ZERO: what of a long range was not begun so long after it was submitted is left as it is
	 * (-ETIME): who submitted it has given it up, and would not expect zeros over what it
	 * writes next.  0: no limit.
	 */
	uint32_t limit_ms;
	/* when the driver got it, by the clock of port.now_ns; 0: not known.  For figures */
	uint64_t arrived_ns;
	/* of the volume's commands, for tracing; 0: the engine gives it one */
	uint64_t number;
	/* COMPARE_WRITE that ended with -EILSEQ: offset of the first byte that differs */
	uint64_t mismatch_bytes;

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
	/* of engine->io->alive: all, in order of since_ms, but long ranges of zeros */
	struct list alive;
	uint64_t since_ms; /* it has its time from then on; 0: not looked at yet */
	uint32_t pieces, pieces_left;
	/* the engine's, when it was begun; cache_losses stays: when it ended */
	uint32_t doubts, cache_losses;
	bool doubted; /* what its pieces have written since may be gone; behind.c */
	int first_error;
	/* of an operation that holds the rows itself: compare_op.c, write_back.c */
	bool claimed;
	bool writes_back;   /* what the write log has acknowledged: write_back.c */
	bool beside_others; /* ... of the same row, in other columns, at the same time */
	uint64_t submitted_ms;
	uint64_t submitted_at; /* engine->moment */
	uint64_t cut_bytes;    /* ZERO: how much of it was cut into pieces */
	uint64_t zeroed_bytes; /* the same, when it was carried out before: the most */
	/* ZERO: of that, what others wrote since; behind.c */
	struct overwritten *overwritten;
	bool overtaken; /* ZERO: the same, but it can't be spared */
	/* behind.c; NULL: it is not there */
	struct engine_request *several_next, **several_link;
	uint64_t since_ns, finished_ns; /* since: it is to be carried out, which may be once more */
};

/* when writes are logged before they touch their rows (record/write_log.h) */
enum log_mode {
	LOG_MODE_OFF,
	LOG_MODE_DEGRADED, /* while members are out; levels 5 and 6 */
	LOG_MODE_ALWAYS,
};

struct engine_options {
	uint8_t volume_uuid[16];
	/* Who we are, written to superblocks: "host pid 123 (tcmu-runner) #0a1b2c3d"; what follows
	 * '#' tells gateways apart.
	 */
	char owner[LAYOUT_OWNER_MAX + 1];
	/* although another gateway is recorded as its owner: within that time of the start */
	uint32_t take_over_ms;
	/* so many must answer before any is taken over: the fewest that it runs with; 0: not known */
	uint8_t members_needed;
	/* highest epoch this gateway knows of the volume; older sets are refused */
	uint64_t epoch_seen;
	/* from whom this gateway took the volume when it ran it last, engine_status.predecessor_key;
	 * 0: nobody
	 */
	uint64_t predecessor_key;
	/* highest that this gateway ever meant to give the volume: an assembly's is above it */
	uint64_t epoch_tried;
	/* within that time of the start: assemble although epoch_seen says the set is older */
	uint32_t force_ms;
	/* once there are enough, wait this long for the others (10 s); 2 give_up more for a half
	 * that is asked
	 */
	uint32_t assembly_wait_ms;
	uint32_t assembly_limit_ms; /* requests wait this long for assembly (20 s) */
	uint32_t queue_limit_ms;    /* requests wait this long for silent members (25 s) */
	/* a member that stays away this long while the others suffice is evicted (5 s) */
	uint32_t give_up_ms;
	/* rows resynchronised, rebuilt or scrubbed at a time; 0 stops all of it */
	uint32_t resync_rows_max;
	/* Background work (resync, rebuild, scrub), bytes of each member a second: at least min
	 * while requests are active, at most max when they are not; 0: 10 MiB and 1 GiB.
	 */
	uint64_t sync_rate_min, sync_rate_max;
	/* A member whose session was ended, by a reset for example, as when a target's daemon is
	 * started anew, has this long to take another before it is evicted (1 s); 0: no time.  One
	 * that fell silent has had its give_up_ms.
	 */
	uint32_t grace_ms;
	/* flushes fail this long after the first that told of a lost cache; 0: only that one (60 s)
	 */
	uint32_t loss_told_ms;
	/* a read that waits this long for one member is made from the others (500); 0: never */
	uint32_t hedge_ms;
	/* a member that fell silent has this long to return before a spare takes its place (60 s)
	 */
	uint32_t spare_wait_ms;
	/* medium errors repaired on a member before it loses its place (64) */
	uint32_t error_limit;
	/* for tests: the table of lost extents is full sooner; 0: when it is full */
	uint32_t lost_entries_max;
	enum log_mode log;
	/* for tests: so much may be live in the log; 0: LOG_LIVE_BYTES_MAX */
	uint32_t log_live_bytes_max;
	uint32_t log_segments_max; /* the same: so many of each member are used; 0: all */
	/* bound of the buffer arena; 0: the default, docs/design/memory.md */
	uint64_t buffer_bytes_max;
};

enum event_kind {
	EVENT_ASSEMBLED,
	EVENT_STOPPED,
	EVENT_SUSPENDED,
	EVENT_RESUMED,
	EVENT_FENCED,
	EVENT_MEMBER_SILENT,
	EVENT_MEMBER_BACK,
	EVENT_MEMBER_EVICTED,
	EVENT_MEMBER_SLOW,
	EVENT_REBUILD_STARTED,
	EVENT_REBUILD_FINISHED,
	EVENT_REBUILD_STOPPED,
	EVENT_RESYNC_FINISHED,
	EVENT_SCRUB_STARTED,
	EVENT_SCRUB_FINISHED,
	EVENT_SCRUB_STOPPED,
	EVENT_SCRUB_MISMATCH,
	EVENT_MEDIUM_ERROR,
	EVENT_DATA_LOST,
	EVENT_LOST_ACCEPTED,
	EVENT_SPARE_WANTED,
	EVENT_ATTACHED,
	EVENT_DETACHED,
	EVENT_GROWN,
	EVENT_LOG_OPENED,
	EVENT_LOG_CLOSED,
	EVENT_STATE_FOLDER,
};

struct engine_event {
	enum event_kind kind;
	int severity;	  /* a syslog priority */
	int slot;	  /* the device it is about, or -1 */
	const char *text; /* one line for a person; valid during the call */
};

/* What a gateway remembers of a volume's epochs (docs/design/levels.md, Two halves). */
enum epoch_kind {
	EPOCH_GIVEN, /* the members have it, durably */
	EPOCH_MEANT, /* they are about to get it */
};
#define EPOCH_KINDS 2

/* What the engine asks of its driver. */
struct engine_port {
	/* Record this epoch on the gateway, durably, without waiting for it: how that ended is told
	 * by engine_epoch_recorded(), also from within this call.  One at a time is asked for.
	 * NULL: this gateway remembers nothing.
	 */
	void (*record_epoch)(void *owner, enum epoch_kind kind, uint64_t epoch);
	const char *epochs_kept_in; /* a folder, for messages; never NULL with record_epoch */
	/* Something an administrator would want in the log; level is a syslog priority. */
	void (*log)(void *owner, int level, const char *text);
	/* Something happened that is worth keeping; NULL: not wanted.  Called from engine_run(). */
	void (*event)(void *owner, const struct engine_event *event);
	/* A member's place is empty and the volume has no spare of its own.  Asked again every
	 * minute while that is so; the driver may engine_attach() one of the gateway's, or do
	 * nothing. NULL: there are none.
	 */
	void (*want_spare)(void *owner, uint64_t member_bytes, uint32_t block_bytes);
	/* The device in this slot was let go: its backend is closed and no longer used. */
	void (*detached)(void *owner, int slot, struct backend *backend);
	/* A clock that never goes back, for figures alone; NULL: they have no times.  Asked once at
	 * the beginning of a run, and behind what takes long.
	 */
	uint64_t (*now_ns)(void *owner);
	/* The same clock, looked at now and not when the turn began: what is proven by time goes by
	 * it.  It goes on while the machine sleeps.  NULL: nothing is proven by time.
	 */
	uint64_t (*clock_ns)(void *owner);
	/* A number nobody can guess; NULL: the engine makes one of its own. */
	uint64_t (*random)(void *owner);
	void *owner;
};

enum link_state {
	LINK_CLOSED,
	LINK_OPENING,
	LINK_OPEN,
};

#endif
