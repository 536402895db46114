/* engine_internal.h - what the parts of the engine share.  Not for its users.
 *
 *	engine.c	admission, the run loop, stop		member.c	sessions, I/O of one member
 *	read_op.c	one piece of a read			evict.c		silence, evidence, eviction
 *	write_op.c	one or more merged writes		assemble.c	from superblocks to a running volume
 *	write_rows.c	its row plans, memory and I/O		metadata.c	superblocks
 *	flush.c		SYNCHRONIZE CACHE of all members	intent_io.c	the region map
 *	resync.c	proving suspect parity			status.c	what an administrator sees
 *	stop.c		an orderly end				gather.c	joins pieces into commands
 *
 * Everything happens inside engine_run(): backends only append to lists, and requests complete from
 * one place, so no function here is ever re-entered.
 */
#ifndef IRAID_ENGINE_INTERNAL_H
#define IRAID_ENGINE_INTERNAL_H

#include "../state/assembly.h"
#include "../state/intent.h"
#include "arena.h"
#include "engine.h"
#include "list.h"
#include "rows.h"

#define OP_ROWS_MAX 32			/* rows of one operation */
#define OP_BYTES_MAX (4u << 20)		/* of one operation, if it has more than one row */
#define OPS_MAX 512			/* operations that exist at a time */
#define SEGMENTS_MAX 1000		/* iovecs of one command; libiscsi takes 1024 */
#define MAP_BATCH 16			/* map blocks written at a time */

struct member;
struct engine;

/* What becomes of a command whose member falls silent. */
enum io_policy {
	IO_REQUEST,	/* waits for the member's return or eviction, at most for queue_limit */
	IO_MAP,		/* waits for its return or eviction */
	IO_SUPERBLOCK,	/* waits for its return, or until its eviction begins */
	IO_PROBE,	/* fails at once with -ENOTCONN */
};

/* One command to one member.  done() gets 0; -ENODATA or -EIO as the backend says; -ENOLINK when the
 * member was evicted, durably; -ETIMEDOUT after queue_limit; -ENOTCONN for IO_PROBE; -ESHUTDOWN when the
 * engine was fenced off or stops.
 */
struct member_io {
	struct backend_io io;
	struct list node;		/* of the member's lists, or engine->answered */
	struct member *member;
	struct iovec *segments;		/* as built: what a repetition starts from */
	struct iovec *working;		/* the backend's to edit */
	int segment_count;
	int segment_capacity;
	enum io_policy policy;
	uint64_t sent_at;		/* engine->moment when it was sent: evidence of life */
	void (*done)(struct member_io *mio, int result);
	void *owner;
};

struct member {
	struct engine *engine;
	struct backend *backend;
	struct backend_identity identity;
	int index;			/* in the configuration */
	int role;			/* -1 until assembled */
	enum link_state link;
	bool checked;			/* this session's superblock was read and fits: I/O may be sent */
	bool in_sync;
	bool evicting;			/* out, but the survivors' superblocks don't say so yet */
	uint64_t evict_record;		/* generation of superblocks that says it is out */
	bool condemned;			/* answers, but wrongly: evict it although it is connected */
	bool unflushed;			/* writes since the last flush */
	bool cache_lost;		/* lost a session with unflushed writes: the next flush must fail */
	enum member_state state;
	enum presence presence;
	enum superblock_verdict verdict;
	struct superblock superblock;	/* as examined */
	uint64_t write_count;		/* of its superblock */
	uint8_t *page;			/* 4 blocks of 4 KiB: copies A and B, superblock to write, probe */
	int examining;			/* reads of A and B under way */
	bool examine_failed;
	bool probing;
	struct list in_flight;
	struct list parked;
	bool opened_event;		/* posted by the backend, handled in engine_run() */
	bool closed_event;
	int close_error;
	uint64_t silent_since_ms;
	uint64_t silent_since;		/* engine->moment */
	uint64_t answered_at;		/* latest sent_at of an answered command */
	uint64_t retry_ms;
	uint32_t backoff_ms;
	char reason[256];
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors;
};

/* Part of a request that is one operation, or joins one. */
struct piece {
	struct piece *next;
	struct engine_request *request;
	uint64_t begin_bytes;		/* of the volume */
	uint64_t end_bytes;
};

struct flush_waiter {
	struct list node;
	void (*done)(struct flush_waiter *waiter, int result);
	bool for_request;		/* a lost cache must be told to it */
};

enum engine_phase {
	PHASE_IDLE,		/* created, not started */
	PHASE_EXAMINE,		/* opening members, reading superblocks */
	PHASE_LOAD_MAP,
	PHASE_WRITE_SUPERBLOCKS,
	PHASE_RUNNING,
	PHASE_DRAIN,		/* stopping: requests finish */
	PHASE_LAST_FLUSH,
	PHASE_LAST_MAP,
	PHASE_LAST_SUPERBLOCKS,
	PHASE_RELEASE,		/* sessions close */
	PHASE_STOPPED,
};

struct engine {
	struct engine_options options;
	struct engine_port port;
	enum engine_phase phase;
	bool refused;			/* assembly needs an administrator, see reason */
	bool fenced;			/* another gateway took the members: nothing is written any more */
	char reason[256];
	struct geometry geometry;	/* valid from PHASE_LOAD_MAP on */
	bool has_geometry;
	struct area areas[LAYOUT_AREAS];
	uint64_t data_offset_bytes;	/* on every member */
	int count;
	struct member members[IRAID_MEMBERS_MAX];
	struct member *by_role[IRAID_MEMBERS_MAX];
	uint64_t now_ms;
	uint64_t moment;		/* counts events, orders them */
	uint64_t started_ms;
	uint64_t phase_since_ms;
	uint64_t examine_not_before_ms;
	uint64_t startable_ms;		/* since when there are enough members, though not all; 0: not so */

	/* members that are out, and silence */
	int tolerated;			/* members the level can lose */
	int out;			/* not in sync, durably or evicting */
	int missing;			/* role of the one durably out, or -1 */
	int evicting;
	bool suspended;
	bool expired;			/* suspended for longer than queue_limit */
	uint64_t suspended_since_ms;
	uint64_t evict_not_before_ms;

	/* superblocks */
	struct superblock record;	/* what all members' superblocks share */
	uint64_t record_wanted, record_writing, record_durable;	/* generations */
	int record_pending;
	uint64_t record_retry_ms;	/* after a failure */

	/* region map */
	struct intent intent;
	struct list intent_waiters;	/* of write_op.node */
	uint8_t *map_buffer;		/* MAP_BATCH blocks being written */
	uint32_t map_blocks[MAP_BATCH];
	int map_batch, map_pending;
	int map_error;
	uint8_t *map_load;		/* while assembling: the map of each member */
	bool map_urgent;		/* somebody waits for it */
	bool cleaning;
	struct flush_waiter clean_waiter;
	uint64_t clean_ms;

	/* flush */
	struct list flush_next;		/* waiters for the next round */
	struct list flush_now;		/* waiters of the round under way */
	int flush_pending;
	int flush_result;

	/* requests and operations */
	struct engine_request *admission_head, **admission_tail;
	struct list ready;		/* operations whose claims are granted */
	struct list buffer_waiters;	/* operations that wait for room in the arena, in order */
	struct engine_request *finished_head, **finished_tail;
	uint64_t requests_active;
	unsigned int ops;
	struct row_table *rows;
	struct arena arena;

	/* resync */
	struct resync *resync;

	struct list answered;		/* of member_io.node: backends append here */
	struct list immediate;		/* member_ios that complete without being sent */

	/* recycled memory */
	struct list free_mios, free_reads, free_writes;
	struct piece *free_pieces;
	struct list free_flushes;
	struct iovec *scratch;		/* of the function that runs; see scratch_reserve */
	int scratch_capacity;

	void (*stopped)(void *owner);
	void *stopped_owner;
	bool stop_wanted;
	uint64_t activity;		/* raised by whatever may let something else proceed */
	bool stop_clean;		/* everything went well: superblocks may say so */

	struct engine_status counters;	/* only its counters are used */
};

/* An operation as the ready and buffer lists see it. */
struct op {
	struct claim_holder holder;	/* must be first */
	struct list node;
	struct engine *engine;
	void (*start)(struct op *op);	/* claims are granted: go on */
	void (*fail)(struct op *op, int error);	/* before it was started */
};

/* engine.c */
void engine_log(struct engine *engine, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void piece_finish(struct engine *engine, struct piece *piece, int result);
void op_ready(struct op *op);		/* put on the ready list */
void op_granted(struct claim_holder *holder);	/* claim_holder.granted of every operation */
void op_wait_for_buffer(struct op *op);
void op_gone(struct engine *engine);	/* an operation ended, there may be room for others */
struct iovec *scratch_reserve(struct engine *engine, int count);
bool engine_running(const struct engine *engine);	/* requests may be carried out */

/* member.c */
struct member_io *member_io_create(struct member *member, enum backend_op op, uint64_t offset_bytes,
				   enum io_policy policy);
/* Append iovecs; returns false when the command has no room for them (nothing appended). */
bool member_io_append(struct member_io *mio, const struct iovec *iov, int count, uint32_t length_bytes);
void member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result), void *owner);
void member_open(struct member *member);
void member_handle_events(struct member *member);
void member_handle_answer(struct member_io *mio);
void member_fail_parked(struct member *member, int result, bool requests_only);
void member_resume(struct member *member);	/* checked: send what is parked */
void member_note(struct member *member, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool member_usable(const struct member *member);	/* connected and checked */

/* evict.c */
void evict_member_silent(struct member *member);	/* its session ended */
void evict_run(struct engine *engine);
uint64_t evict_deadline(const struct engine *engine);

/* assemble.c */
void assemble_examine(struct member *member);	/* a session was opened */
void assemble_run(struct engine *engine);
uint64_t assemble_deadline(const struct engine *engine);

/* metadata.c: superblocks of all in-sync members.  Returns the generation to wait for in record_durable. */
uint64_t metadata_commit(struct engine *engine);
void metadata_run(struct engine *engine);

/* intent_io.c */
void intent_io_run(struct engine *engine);
uint64_t intent_io_deadline(const struct engine *engine);
void intent_io_expire(struct engine *engine);	/* fail those who wait for silent members */
bool intent_io_idle(const struct engine *engine);	/* nothing unwritten, nothing under way */

/* flush.c */
void flush_join(struct engine *engine, struct flush_waiter *waiter);
void flush_run(struct engine *engine);
bool flush_op_create(struct engine *engine, struct piece *piece);	/* false: no memory */
void flush_ops_free(struct engine *engine);

/* read_op.c, write_op.c */
bool read_op_create(struct engine *engine, struct piece *piece);	/* false: no memory */
bool write_op_create(struct engine *engine, struct piece *piece);
bool write_op_merge(struct engine *engine, struct piece *piece);	/* true: it joined a waiting write */
void write_op_intent_changed(struct engine *engine, int error);
void read_ops_free(struct engine *engine);
void write_ops_free(struct engine *engine);

/* resync.c */
int resync_init(struct engine *engine);
void resync_free(struct engine *engine);
void resync_run(struct engine *engine);
uint64_t resync_deadline(const struct engine *engine);
void resync_hint(struct engine *engine, uint64_t row);	/* a suspect row was written: look at its region soon */
bool resync_idle(const struct engine *engine);

/* stop.c */
void stop_run(struct engine *engine);
uint64_t stop_deadline(const struct engine *engine);

#endif
