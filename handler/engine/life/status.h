/* status.h - what is seen of an engine: its state, its members, how far work is, and what it has
 * counted.
 */
#ifndef IRAID_ENGINE_STATUS_H
#define IRAID_ENGINE_STATUS_H

#include "engine.h"
#include "engine/core/figures.h"
#include "engine/work/work_status.h"
#include "state/assembly.h"

enum volume_state {
	VOLUME_ASSEMBLING, /* waiting for members */
	VOLUME_ACTIVE,	   /* all members in sync */
	VOLUME_DEGRADED,   /* works, without redundancy (or with less) */
	VOLUME_SUSPENDED,  /* more members silent than the level bears: I/O waits for them */
	VOLUME_FAILED,	   /* can't work: reason says why; nothing is written */
	VOLUME_STOPPING,
	VOLUME_STOPPED,
	VOLUME_STANDBY, /* its driver has made no engine: another gateway's turn */
};

struct member_status {
	bool attached; /* there is a device in this slot */
	char label[256];
	enum link_state link;
	int role;		 /* -1: not known (yet), or a spare */
	enum member_state state; /* 0: not known */
	uint8_t uuid[16];
	uint64_t stale_rows; /* to be copied to it before it is in sync */
	/* why it is not in sync or not connected; empty if all is well */
	char reason[256];
	uint64_t capacity_bytes;
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors;
	uint64_t medium_repaired; /* read errors cured by rewriting */
	uint64_t digest_errors;	  /* see ports/backend.h */
	uint32_t latency_ms;	  /* of its commands, a moving mean */
	bool slow;		  /* reads are made from the others where that is possible */
};

/* The write log (record/write_log.h). */
struct log_status {
	enum log_mode mode; /* when it is to be open */
	bool open;	    /* what is written is logged */
	bool given_up;	    /* it can't be written: until engine_set_log(), or the next start */
	bool too_small;	    /* the members' log areas can't hold what is to be logged */
	uint64_t records;   /* of this opening */
	uint64_t bytes;	    /* that a start would replay now */
	const char *replay; /* static text: what a start does with it now; NULL: nothing */
	uint64_t replay_done, replay_total; /* chunks */
};

struct engine_status {
	enum volume_state state;
	char reason[256];
	bool fenced; /* another gateway has the volume: nothing is written any more */
	/* from whom it was taken, and whose key members that are away have yet; 0: nobody */
	uint64_t predecessor_key;
	bool held; /* another gateway has it, so that this start is refused */
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t volume_uuid[16];
	uint8_t level;
	uint8_t member_count;
	uint8_t members_needed; /* the fewest that it runs with; 0 until assembled */
	uint32_t chunk_bytes;
	uint32_t block_bytes;
	uint64_t row_bytes; /* of data */
	/* what best is written at once: a row, or as much as visits all members once */
	uint32_t stripe_bytes;
	uint64_t size_bytes; /* 0 until assembled */
	uint64_t epoch, event;
	uint32_t regions, regions_dirty, regions_suspect, regions_stale;
	uint64_t region_bytes; /* of one member's data */
	struct work_status resync, rebuild, scrub;
	uint64_t resync_corrected_rows; /* parity that differed and was rewritten */
	int rebuild_slot;		/* the device that is filled, or -1 */
	/* started and neither finished nor stopped; it may wait, see scrub.reason */
	bool scrub_active;
	enum scrub_mode scrub_mode; /* of the scrub under way, or of the last one */
	uint64_t scrub_mismatches;  /* rows whose parity did not fit, of that scrub */
	uint64_t mismatch_rows[MISMATCH_POSITIONS]; /* the first of them */
	uint32_t lost_extents;
	uint64_t lost_bytes;
	uint64_t medium_repaired;
	uint64_t reads_hedged;
	uint64_t sync_rate_min, sync_rate_max;
	struct log_status log;
	uint64_t requests_active;
	uint64_t buffer_bytes, buffer_bytes_max;
	/* How requests were carried out, since assembly. */
	uint64_t rows_full, rows_rmw, rows_reconstruct, rows_read_all, rows_data_only;
	uint64_t reads_saved; /* of members, by what was known of their rows already */
	uint64_t reads_reconstructed;
	uint64_t requests_merged; /* writes that joined another's rows */
	int slots;		  /* members[0 .. slots) */
	struct member_status members[SLOTS_MAX];
};

void engine_status(const struct engine *engine, struct engine_status *out);

/* Counted since engine_create(). */
struct engine_figures {
	uint32_t queue;				/* commands submitted and not answered yet */
	struct histogram commands[FIGURES_OPS]; /* by enum request_op; since the driver got them */
	struct step_figures steps[STEPS];
	struct member_figures members[SLOTS_MAX]; /* by slot, as engine_status.members */
};

void engine_figures(const struct engine *engine, struct engine_figures *out);
/* How long this thread has computed P, Q and what is missing, for initiators. */
uint64_t engine_code_ns(const struct engine *engine);

const char *volume_state_name(enum volume_state state); /* "active", ... */
/* "in sync", "faulty", "missing", "rebuilding", "out of date", "spare" */
const char *member_state_name(enum member_state state);

const char *event_kind_name(enum event_kind kind); /* "member evicted", ... */

#endif
