/* engine_internal.h - what the parts of the engine share.  Not for its users.
 *
 *	engine.c	admission, the run loop		member.c	sessions, I/O of one member
 *	read_op.c	one piece of a read		evict.c		silence, evidence, eviction
 *	hedge.c		reads around slow members	row_cache.c	of rows that are written in part again and again
 *	write_op.c	one or more merged writes	assemble.c	from superblocks to a running volume
 *	write_rows.c	its row plans, memory and I/O	place.c		a device under a running volume: what it is now
 *	zero_op.c	whole rows of zeros		compare_op.c	a read and a write in one
 *	flush.c		SYNCHRONIZE CACHE of all	target.c	the member that is being filled: begin, lost, done
 *	gather.c	joins pieces into commands	admin.c		what an administrator asks for
 *	metadata.c	superblocks			intent_io.c	the region map
 *	lost_io.c	the table of lost extents	stop.c		an orderly end
 *	status.c	what an administrator sees	throttle.c	how fast background work goes
 *	grow.c		members have become larger	probe.c		how fast members answer
 *	overdue.c	how long a request can take	dispute.c	is there another gateway?
 *	sync_rows.c	a batch of rows: read all, compare or rebuild, write what differs
 *	mend_row.c	the same for one row with unreadable sectors, piece by piece
 *	resync.c	proves suspect parity		rebuild.c	fills the target
 *	scrub.c		checks all rows			repair.c	rewrites sectors that could not be read
 *	figures.c	what is counted for those who watch	behind.c	requests that overlap one of several pieces
 *	rows.c		claims on rows			arena.c		memory for rows
 *	plug.c		writes that wait for their row's rest	progress.c	how far background work is
 *
 * Everything happens inside engine_run(): backends only append to lists, and requests complete from
 * one place, so no function here is ever re-entered.
 */
#ifndef IRAID_ENGINE_INTERNAL_H
#define IRAID_ENGINE_INTERNAL_H

#include "../state/assembly.h"
#include "../state/intent.h"
#include "../pure/code.h"
#include "../pure/spare.h"
#include "../state/lost.h"
#include "../ports/trace.h"
#include "arena.h"
#include "../pure/plan.h"
#include "engine.h"
#include "list.h"
#include "../pure/mutant.h"
#include "rows.h"

#define OP_ROWS_MAX 32			/* rows of one operation */
#define OP_BYTES_MAX (4u << 20)		/* of one operation, if it has more than one row */
#define EPOCH_STEP 64u			/* of an assembly, where evictions raise it too: more than can be under way */
#define OPS_MAX 512			/* operations that exist at a time */
#define SEGMENTS_MAX 1000		/* iovecs of one command; libiscsi takes 1024 */
#define MAP_BATCH 16			/* map blocks written at a time */
#define BACKOFF_FIRST_MS 100u		/* between attempts to open a session; doubled each time */

struct member;
struct engine;
struct row_cache;
struct cached_row;

/* Writes in sequence that wait for the rest of their row (plug.c). */
#define PLUG_STREAMS 64

struct stream {
	uint64_t end_bytes;	/* where the next write of it begins */
	uint64_t run_bytes;	/* how long it is */
	bool deep;		/* its last write came before the one before had ended: so more may come, whatever becomes of it */
	uint64_t used_at;	/* plug.clock then; 0: none */
};

struct plug {
	struct stream streams[PLUG_STREAMS];
	uint64_t clock;		/* of writes that arrived */
	struct list ops;	/* write_op that are held */
	unsigned int held;
	uint32_t write_us;	/* how long writes take from their start: a moving mean */
	uint32_t gap_ms;	/* how long to wait for what comes next when nothing is under way */
};

/* What becomes of a command whose member falls silent. */
enum io_policy {
	IO_REQUEST,	/* waits for the member's return or eviction, at most for queue_limit */
	IO_MAP,		/* waits for its return or eviction */
	IO_SUPERBLOCK,	/* waits for its return, or until its eviction begins */
	IO_PROBE,	/* fails at once with -ENOTCONN; needs no checked superblock */
};

/* One command to one member.  done() gets 0; -ENODATA or -EIO as the backend says; -ENOLINK when the
 * member was evicted or replaced, durably; -ETIMEDOUT after queue_limit; -ENOTCONN for IO_PROBE; -ESHUTDOWN when the
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
	bool reserved;			/* of the engine's reserve: goes back there */
	bool covers_data;		/* a flush: of what was in the cache when it was sent, something was not written through */
	bool unjudged;			/* how long it takes says nothing about the member */
	uint64_t since_ms;		/* of the request it is for, whose time it has; 0: no limit */
	uint64_t sent_at;		/* engine->moment when it was sent: evidence of life */
	uint64_t sent_ms;
	uint64_t sent_ns;		/* for figures */
	uint64_t first_sent_ms;		/* on the first of the sessions that ended under it; 0: none did */
	uint8_t cuts;			/* how many did, one after the other */
	bool cut_off;			/* the latest of them: nobody looked yet at how it ended */
	bool cached;			/* in one of them the device had a cache */
	enum { MIO_BUILT, MIO_SENT, MIO_PARKED, MIO_DONE } where;
	void (*done)(struct member_io *mio, int result);
	void *owner;
};

struct member {
	struct engine *engine;
	struct backend *backend;
	struct backend_identity identity;
	int slot;
	bool leaving;			/* let go: its session closes, then the slot is free */
	int role;			/* -1 until assembled, and of spares */
	uint8_t uuid[16];		/* from its superblock or spare's mark */
	enum standing standing;		/* under the record, when it was last looked at */
	int stale_set;			/* of record.tracked, or -1 */
	struct spare_mark spare;	/* when presence is PRESENCE_SPARE */
	enum link_state link;
	bool checked;			/* this session's superblock was read and fits: I/O may be sent */
	bool in_sync;
	bool evicting;			/* out, but the survivors' superblocks don't say so yet */
	uint64_t evict_record;		/* generation of superblocks that says it is out */
	uint64_t evict_epoch;		/* and their epoch */
	bool condemned;			/* answers, but wrongly, or an administrator wants it out: evict it although it is connected */
	bool disputed;			/* says that another gateway has reserved it, and the others are asked: dispute.c */
	bool held;			/* the others deny it, and can't do without it: it is asked until it does so too */
	bool held_known;		/* which was told; its sessions come and go quietly */
	bool asking;
	/* engine->moment: since then; of its latest word that it is ours; of its latest that says neither */
	uint64_t disputed_at, granted_at, evaded_at;
	uint64_t disputed_ms, ask_again_ms;
	bool forced;			/* in sync only because an administrator said so */
	uint64_t refused_blocks[LAYOUT_MAP_BYTES / LAYOUT_MAP_BLOCK_BYTES / 64];	/* of the map's area, bits: it refused to
											 * read them for this assembly */
	struct taken_as taken_as;
	bool went_back;			/* older than what it had acknowledged, or used elsewhere since: nothing on it is trusted */
	bool disbelieved;		/* a copy, older than the member: until it is filled from the start */
	uint8_t twin_uuid[16];		/* when it had this one, another device had it too; zeros: none since it was filled from the start */
	bool excluded;			/* out until an administrator takes it back */
	int opens_left;			/* other paths to try before it is evicted */
	bool ended;			/* its last session of use was ended, it did not fall silent: it has grace_ms */
	uint64_t ended_ms;		/* then */
	uint64_t mute_since_ms;		/* it has not answered any command for data since, whatever sessions it took; 0: no */
	uint32_t mute_sessions;		/* that ended so, one after the other */
	uint64_t cut_off_ms;		/* when the oldest command for data was sent that this session's end cut off; 0: none */
	uint64_t patience_ms;		/* when to look for commands of this session that others ended under; 0: there is none */
	bool unflushed;			/* a cache took writes since the last flush that was sent */
	bool cached;			/* in some session, that was of writes since the start */
	bool lost_event;		/* backend->writes_lost has grown: to be looked at with the session's event */
	bool cache_in_doubt;		/* cache_lost only says so because a session was lost: cache_kept may take it back */
	bool cache_kept;		/* by all sessions opened since the last in which it was of use */
	uint32_t lost_seen;		/* of backend->writes_lost */
	bool doubted;			/* said so, and was sent no flushes: no write to it is known to have lasted */
	bool flushes_void;		/* the same, and no row was made suspect for it yet: no flush of all members covered it */
	bool cache_lost;		/* lost a session with unflushed writes, and is not back yet */
	bool unflushed_data;		/* not only superblocks and maps, which are written through */
	bool data_lost;			/* so it was when cache_lost was set */
	bool lacking;			/* is back from that, and what it had not flushed is suspect: others may have no more than it */
	enum presence presence;
	enum superblock_verdict verdict;
	struct superblock superblock;	/* as examined */
	bool copy_lost;			/* and the other copy could not be read: it may have been one write newer */
	uint64_t write_count;		/* of its superblock */
	uint8_t *page;			/* 4 blocks of 4 KiB: copies A and B, superblock to write, probe */
	int examining;			/* reads of A and B under way */
	uint64_t examined_ms;		/* when they began */
	bool examine_failed;
	bool examine_refused;		/* some copy could not be read, but not for the medium's sake */
	int looks_failed;		/* openings that ended before its superblocks were read */
	bool recognised;		/* in this session: its superblocks were read */
	bool awaited_once;		/* a start was begun again for what it was about to say */
	bool said;			/* PRESENCE_AWAITED again: it was examined, and its superblock is known */
	uint32_t losses;		/* of assemblies that began again, one after the other, for its session ended */
	uint64_t unsteady_ms, lost_ms;	/* when the first of them did, and the last */
	uint64_t examine_again_ms;	/* while assembling: what was refused may be newer; 0: all was read */
	bool probing;
	struct list in_flight;
	uint32_t in_flight_count;
	struct list parked;
	bool opened_event;		/* posted by the backend, handled in engine_run() */
	bool closed_event;
	int close_error;
	bool reserved;			/* we ended its last session, and the reservation stays until the next one */
	uint64_t silent_since_ms;
	uint64_t silent_since;		/* engine->moment */
	uint64_t answered_at;		/* latest sent_at of an answered command */
	uint64_t retry_ms;
	uint32_t backoff_ms;
	char reason[256];
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors, medium_repaired;
	struct member_figures figures;	/* but in_flight */
	uint32_t latency_us;		/* of reads, a moving mean */
	bool slow;			/* reads avoid it, but for one in SLOW_PROBE */
	uint32_t avoided;
};

/* Told when what was changed in the table of lost extents before is durable. */
struct lost_waiter {
	struct list node;
	uint64_t since_ms;	/* as member_io.since_ms, and so below */
	void (*done)(struct lost_waiter *waiter, int error);
};

/* Rows that are being written. */
struct row_note {
	struct list node;	/* of engine->writing */
	uint64_t first, last;
	uint32_t among;		/* of these, bits from the first on; 0: all */
};

/* Somebody who writes rows, and whose regions must be marked as dirty meanwhile. */
struct region_hold {
	struct list node;	/* of engine->intent_waiters */
	struct row_note note;
	uint64_t since_ms;
	uint32_t first, last;	/* regions */
	bool active;
	void (*ready)(struct region_hold *hold, int error);
};

struct throttle {
	uint64_t rate_min, rate_max;	/* bytes of each member a second */
	int64_t budget_bytes;
	uint64_t filled_ms;
};

/* A role nobody is in sync for. */
struct absence {
	uint64_t since_ms;
	bool held;			/* the member was in sync when it went: it may hold what can't be rebuilt,
					 * of what was suspect by then */
	uint32_t doubts;		/* intent.doubts when it went */
	bool sure;			/* no cache can have taken along what it had answered; not known of who left before this assembly */
	bool accepted;			/* what it holds counts, though that is not so, because an administrator said so */
};

enum target_phase {
	TARGET_NONE,
	TARGET_MARKING,		/* its stale flags become durable */
	TARGET_FILLING,
	TARGET_TAKING,		/* the superblocks give it the place; whoever had it keeps it until that is durable */
	TARGET_WITHDRAWING,	/* it was lost meanwhile: they give the place back */
};

/* Part of a request that is one operation, or joins one. */
struct piece {
	struct piece *next;
	struct engine_request *request;
	uint64_t begin_bytes;		/* of the volume */
	uint64_t end_bytes;
	uint64_t since_ms;
	uint64_t since_ns;		/* for figures: it waits for its rows */
	struct list alive;		/* of engine->zeros_alive, if it is of a long range of zeros */
};

struct flush_waiter {
	struct list node;
	uint64_t since_ms;
	void (*done)(struct flush_waiter *waiter, int result);
	bool told;			/* of what a cache took along: a flush that a request asks for, see flush.c */
};

/* What is counted of a request that was answered and is not ours any more. */
#define ANSWERS_MAX 32
struct answer {
	enum request_op op;
	int result;
	uint64_t bytes;
	uint64_t arrived_ns, finished_ns;
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
	char unread[256];		/* why a start is refused: of the table of lost extents */
	struct geometry geometry;	/* valid from PHASE_LOAD_MAP on */
	bool has_geometry;
	uint64_t volume_bytes;		/* that requests may use: less than the geometry's while it grows */
	uint64_t data_offset_bytes;	/* on every member */
	struct growth *growth;		/* NULL: none under way */
	struct probe *probe;		/* the same */
	int slots;			/* members[0 .. slots); those without a backend are free */
	struct member members[SLOTS_MAX];
	struct member *by_role[IRAID_MEMBERS_MAX];	/* in sync, or being evicted; else NULL */
	struct member *target;		/* is being filled, or NULL */
	uint64_t now_ms;
	uint64_t moment;		/* counts events, orders them */
	uint64_t started_ms;
	uint64_t phase_since_ms;
	uint64_t examine_not_before_ms;
	uint64_t heard_ms;		/* when a superblock was read last that was not known so before */
	bool read_again;		/* those of members without reservations, for a start that is about to begin */
	uint64_t startable_ms;		/* since when there are enough members, though not all; 0: not so */
	uint32_t startable_wait_ms;	/* from then on */

	/* members that are out, and silence */
	uint32_t out;			/* roles not in sync, durably or evicting; a set of bits, as the next */
	uint32_t missing;		/* of them, those durably out: nobody has their chunks but perhaps the target */
	struct absence absence[IRAID_MEMBERS_MAX];	/* by role, of the missing */
	int evicting;
	uint64_t kept_record;		/* of the last eviction that was taken back; 0: that is on record */
	bool suspended;
	bool expired;			/* suspended for longer than queue_limit */
	uint64_t suspended_since_ms;
	uint64_t evict_not_before_ms;
	bool hedge_silent;		/* a member fell silent: look at all reads that wait */
	uint64_t spare_wanted_ms;	/* when the driver was last asked for one; 0: not yet */
	int replace_role;		/* an administrator wants it filled anew on replace_slot; -1: no */
	int replace_slot;
	uint64_t target_map;		/* generation of the map in which the target's stale flags are durable */
	uint64_t target_record;		/* generation of superblocks that know of it */
	enum target_phase target_phase;
	uint64_t target_epoch;		/* of superblocks that give it the place, or take it back */
	uint8_t target_former[16];	/* whose place it takes: what is to be on record if it comes to nothing */
	uint8_t target_former_state;
	uint8_t forgetting;		/* REGION_STALE() of sets that belong to nobody once forget_record is durable */
	uint64_t forget_record;
	bool target_is_new;		/* it lacks everything, and no superblock says so yet */
	int target_uncounted;		/* copies of its superblock that may be of another count than the one others are to be told of */

	/* superblocks */
	struct superblock record;	/* what all members' superblocks share */
	uint64_t record_wanted, record_writing;	/* generations */
	uint64_t record_once, record_durable;	/* one copy on each member has it; both have */
	int record_pending;
	int record_again;		/* written once: still to be written so often, to make it durable and say so */
	uint64_t record_retry_ms;	/* after a failure */
	uint64_t epoch_found;		/* that the members had when they were assembled */
	bool found_clean;		/* the record that was found says that the last gateway stopped in order */
	uint64_t epoch_before;		/* and before this start wrote to any */
	uint64_t epoch_written;		/* of the last superblock that was sent; 0: none was */
	uint32_t recorded_found;	/* roles of which they said that all is on record (superblock.recorded_roles) */
	uint64_t epoch_kept;		/* the epoch this gateway has on record */
	uint64_t epoch_retry_ms;	/* after a failure */

	/* region map */
	struct intent intent;
	struct list intent_waiters;	/* of region_hold.node */
	struct list writing;		/* of row_note.node */
	uint8_t *map_buffer;		/* MAP_BATCH blocks being written */
	uint32_t map_blocks[MAP_BATCH];
	int map_batch, map_pending;
	int map_error;
	uint8_t *map_load;		/* while assembling: the map of each member */
	bool map_urgent;		/* somebody waits for it */
	uint64_t map_retry_ms;		/* after a failure */
	bool cleaning;
	struct flush_waiter clean_waiter, start_waiter;
	uint64_t clean_ms;

	uint64_t map_changes, map_sent, map_durable;	/* generations: asked for, under way, durable */

	/* table of lost extents */
	struct lost *lost;
	struct list lost_waiters;	/* of lost_waiter.node */
	uint8_t *lost_buffer;		/* the whole table, as it is sent */
	int lost_pending;
	int lost_error;
	uint64_t lost_retry_ms;		/* after a failure */
	uint64_t lost_record_retry_ms;	/* what is suspect could not be listed */
	bool lost_full;			/* some of them did not fit: those that lose something stay suspect */
	uint64_t lost_said;		/* record generation that has to be known before something is listed in an empty block; or 0 */
	bool lost_unsaid;		/* the superblocks may not know yet which blocks are empty */
	uint32_t lost_free;		/* lost->free_count then: with more there is room again */
	bool lost_recording;		/* suspect rows of a degraded volume are being recorded */
	struct lost_waiter *lost_record;

	/* flush */
	struct list flush_next;		/* waiters for the next round */
	struct list flush_now;		/* waiters of the round under way */
	int flush_pending;
	int flush_result;
	uint32_t cache_losses;		/* sessions restored that may have lost unflushed writes */
	bool loss_untold;		/* a member is back without its cache, which others can't make up for: the next flush must fail,
					 * whatever becomes of the member */
	uint64_t loss_told_until_ms;	/* one has failed for it: so do those of others until then */
	uint64_t loss_epoch, loss_event;	/* of the newest superblocks that this start has asked for it */

	/* requests and operations */
	struct engine_request *admission_head, **admission_tail;
	struct engine_request *several;	/* writes and zeros of several pieces that have not ended */
	struct engine_request *behind_head, **behind_tail;	/* those that wait for one of them, in order */
	bool behind_look;		/* one of them has ended since they were looked at */
	struct list alive;		/* of engine_request.alive: the oldest first */
	struct list zeros_alive;	/* of piece.alive, which have their time each for itself: the oldest first */
	struct engine_request *unaged;	/* the first of those submitted since the last run, or NULL */
	struct list claimants;		/* operations of requests that wait for their rows */
	struct list ready;		/* operations whose claims are granted */
	uint64_t judge_ms;		/* when members' speeds are compared next */
	struct list reads;		/* of read_op, those whose commands are under way */
	struct list buffer_waiters;	/* operations that wait for room in the arena, in order */
	struct engine_request *finished_head, **finished_tail;
	struct engine_request *zeros_head, **zeros_tail;	/* ranges of zeros that are not yet cut to their end */
	unsigned int zero_pieces;	/* of such, that are under way */
	unsigned int zero_pieces_max;	/* this many at once, and each this long on a member: as members are quick with them */
	uint64_t zero_bytes_max;
	uint64_t zero_progress_ms;	/* when a piece of such was last done */
	uint64_t requests_active;
	unsigned int ops;
	unsigned int writes;		/* of them, write_op */
	struct plug plug;
	struct row_cache *row_cache;	/* NULL: the level has none */
	struct row_table *rows;
	struct arena arena;

	/* background work */
	struct resync *resync;
	struct rebuild *rebuild;
	struct scrub *scrub;
	struct repair *repair;
	struct throttle throttle;
	uint64_t last_request_ms;	/* when a request was last active */

	struct list answered;		/* of member_io.node: backends append here */
	struct list immediate;		/* member_ios that complete without being sent */

	/* recycled memory */
	struct list reserved_mios;	/* for commands that must not fail for want of memory: member_io_create */
	struct list free_mios, free_reads, free_writes, free_zeros, free_compares;
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

	/* figures */
	uint64_t stamp_ns;		/* when the clock was looked at last; never 0 */
	uint64_t numbers;		/* given to commands */
	uint32_t queue;
	struct engine_request *unstamped;	/* the first of those submitted since the last run, or NULL */
	struct answer answers[ANSWERS_MAX];	/* given, and not counted yet */
	int answers_count;
	struct histogram commands[FIGURES_OPS];
	struct step_figures steps[STEPS];
	uint64_t code_ns;
};

/* An operation as the ready and buffer lists see it. */
struct op {
	struct claim_holder holder;	/* must be first */
	struct list node;
	struct engine *engine;
	uint64_t since_ms;
	bool changes_nothing;		/* it may start although it is not on record who is out */
	void (*start)(struct op *op);	/* claims are granted: go on */
	void (*fail)(struct op *op, int error);	/* before it was started */
};

/* engine.c */
void engine_log(struct engine *engine, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool piece_reserve_rows(struct engine *engine, const struct piece *piece);	/* they can be claimed now; false: no memory */
void piece_finish(struct engine *engine, struct piece *piece, int result);
struct piece *piece_create(struct engine *engine, struct engine_request *request, uint64_t begin_bytes,
			   uint64_t end_bytes);
void request_carry_out(struct engine *engine, struct engine_request *request);
void request_let_go(struct engine *engine, struct engine_request *request);	/* no more pieces will be made of it */
void op_ready(struct op *op);		/* put on the ready list */
void op_claimed(struct op *op);		/* all its rows are: it is ready, or waits for them */
void op_granted(struct claim_holder *holder);	/* claim_holder.granted of every operation */
void op_wait_for_buffer(struct op *op);
void op_gone(struct engine *engine);	/* an operation ended, there may be room for others */
struct iovec *scratch_reserve(struct engine *engine, int count);	/* NULL: no memory; never so for what was had before */
bool engine_running(const struct engine *engine);	/* requests may be carried out */
/* Log it and tell the driver.  member: whom it is about, or NULL. */
void engine_event(struct engine *engine, enum event_kind kind, int severity, struct member *member,
		  const char *format, ...) __attribute__((format(printf, 5, 6)));
#define ROLE(role) (1u << (role))
#define ROLES_TEXT_MAX 96
const char *roles_text(uint32_t roles, char text[ROLES_TEXT_MAX]);	/* "3, 5" */
/* Positions of this row whose chunk nobody holds. */
uint32_t engine_absent(const struct engine *engine, uint64_t row);
/* What its redundancy is worth. */
enum row_trust engine_trust(const struct engine *engine, uint64_t row);
/* The level has P, or P and Q: what is missing of an unproven row can't be known.  Copies are worth something each. */
bool engine_has_parity(const struct engine *engine);
/* A write would reach some members now, and others perhaps never: with one that is dead its row could not be known. */
bool engine_may_tear(const struct engine *engine);
/* No redundancy is left: what the others make of a missing chunk of an unproven row is what it is from now on. */
bool engine_bare(const struct engine *engine);
/* Could the volume do without this role too, beside those that are out? */
bool engine_bears(const struct engine *engine, int role);
/* Who has this role's chunk of the row to read: the member in its place, or the target where the row is on it; or NULL. */
struct member *engine_holder(struct engine *engine, uint64_t row, int role);
/* Who must get writes of it: 0 to 2 members. */
int engine_writers(struct engine *engine, uint64_t row, int role, struct member *out[2]);
/* Background work may go on: running, nobody silent or being evicted, nothing being recorded as lost. */
bool engine_calm(const struct engine *engine);

#define for_each_member(engine, m)                                                             \
	for (struct member *m = (engine)->members; m < (engine)->members + (engine)->slots; m++) \
		if (m->backend != NULL)

/* member.c */
bool member_create(struct engine *engine, struct backend *backend, int slot);	/* false: no memory */
bool member_reserve_commands(struct engine *engine);	/* false: no memory */
void member_free_commands(struct engine *engine);
/* NULL: no memory.  For all that can fail with -ENOMEM, or be tried again. */
struct member_io *member_io_try(struct member *member, enum backend_op op, uint64_t offset_bytes,
				enum io_policy policy);
/* Never NULL, for there is a reserve: of commands with one iovec at most, few of each member at a time. */
struct member_io *member_io_create(struct member *member, enum backend_op op, uint64_t offset_bytes,
				   enum io_policy policy);
void member_io_free(struct member_io *mio);	/* it is not under way */
/* Append iovecs; returns false when the command has no room for them (nothing appended). */
bool member_io_append(struct member_io *mio, const struct iovec *iov, int count, uint32_t length_bytes);
void member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result), void *owner);
void member_io_unsent(struct member_io *mio, int result);	/* ends without being sent; done() is called soon */
/* Nobody wants the answer any more, and its memory is needed: a read that is sent or parked.  done() is not called. */
void member_io_abandon(struct member_io *mio);
void member_open(struct member *member);
void member_close(struct member *member);	/* its session, or the opening of one; its reservation stays */
bool member_may_open(const struct member *member);	/* when retry_ms is there */
void member_fence_off(struct member *member);	/* another gateway has the volume */
void member_handle_events(struct member *member);
void member_handle_answer(struct member_io *mio);
void member_fail_parked(struct member *member, int result, bool requests_only);
void member_fail_overdue(struct member *member);	/* those that wait for it too long */
void member_resume(struct member *member, bool superblocks_only);	/* checked: send what is parked */
void member_note(struct member *member, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool member_usable(const struct member *member);	/* connected and checked */

/* dispute.c */
void dispute_begin(struct member *member);
void dispute_run(struct engine *engine);
void dispute_end(struct member *member);
void dispute_ask(struct member *member, void (*done)(struct member_io *mio, int result), void *owner);
bool dispute_is_question(const struct member_io *mio);
uint64_t dispute_deadline(const struct engine *engine);

/* overdue.c */
bool overdue_since(const struct engine *engine, uint64_t since_ms);	/* what has waited since then for a request has waited too long */
uint64_t overdue_at(const struct engine *engine, uint64_t since_ms);	/* when that will be; UINT64_MAX: it is so, or never */
void overdue_age(struct engine *engine);	/* the time of those submitted since the last run begins */
void overdue_run(struct engine *engine);
uint64_t overdue_deadline(const struct engine *engine);

/* plug.c */
void plug_run(struct engine *engine);
uint64_t plug_deadline(const struct engine *engine);

/* evict.c */
void evict_member_silent(struct member *member);	/* its session ended */
void evict_session_ended(struct member *member);	/* ... which was of use */
void evict_stalled(struct member *member);		/* ... the same: did it get on at all? */
void evict_answered(const struct member_io *mio);	/* it did */
void evict_sent_again(const struct member_io *mio);	/* in another session */
void evict_cut_off(struct member_io *mio);		/* it did not */
bool evict_in_grace(const struct member *member);	/* its session was ended a moment ago: it may take another */
bool evict_bearable(const struct engine *engine, const struct member *member);	/* it may go, beside those that went */
/* The others suffice, answer, and lost nothing themselves: the volume can do without this one. */
bool evict_spares(const struct engine *engine, const struct member *member);
void evict_condemn(struct member *member);		/* answers or not: it must go */
void evict_give_back(struct member *member);		/* ... it answers, and its reservation goes, too */
void evict_exclude(struct member *member);		/* ... and stay out */
void evict_unawaited(struct member *member);		/* it is on its way out: superblocks don't wait for it any more */
void evict_cancel(struct member *member);		/* it is back before it was out */
void evict_resume(struct member *member);		/* what waits for it is sent, once that is on record */
bool evict_undecided(const struct engine *engine);	/* who is out, or is not after all: it is not on record yet */
bool evict_on_record(struct engine *engine, uint64_t record, uint64_t epoch);	/* superblocks, and this gateway, say so */
uint64_t evict_raise_epoch(struct engine *engine);	/* somebody is about to go: the epoch it must not outlive */
void evict_run(struct engine *engine);
uint64_t evict_deadline(const struct engine *engine);

/* assemble.c */
void assemble_run(struct engine *engine);
uint64_t assemble_deadline(const struct engine *engine);

/* place.c */
void place_examine(struct member *member);	/* a session was opened: who is it? */
void place_all(struct engine *engine);	/* the volume runs: judge those who answered meanwhile */
int place_free_set(const struct engine *engine);	/* of record.tracked, or -1 */
bool place_tracked(const struct engine *engine, const uint8_t uuid[16]);
int place_set_for(const struct engine *engine, const uint8_t uuid[16]);	/* that it has, or a free one, or -1 */
/* Is there a set for who is to be filled as `role`?  If not, one is given up; ask again. */
bool place_make_room(struct engine *engine, const struct member *member, int role);
/* write_count: what its superblock has at least; 0: as known.  Returns the set, or -1. */
int place_track(struct engine *engine, int role, const uint8_t uuid[16], enum member_state state, uint64_t write_count);
void place_record_target(struct engine *engine);	/* by the set it has */
void place_untrack(struct engine *engine, int set);
void place_disbelieve(struct engine *engine, int role);	/* whoever had it counts for nothing that is lost, listed or not */
/* These sets' flags are cleared when the superblocks know that nobody is tracked by them; commits the record. */
void place_forget(struct engine *engine, uint8_t stale);
void place_run(struct engine *engine);
/* Of a member's device: at least what it had when it was formatted, or the volume has since. */
/* Its UUID is another's: it is not to be taken, and says why. */
bool place_is_another(struct member *member);
bool place_was_one_of_two(const struct member *member);	/* that was said of it, and it was not filled from the start since */
void place_misfits(const struct engine *engine, struct member *member);	/* the volume does without it */
bool place_unchanged(const struct engine *engine, const struct member *member);	/* it has that, in the right blocks */
enum member_state place_state(const struct member *member);	/* for status; 0: not known */

/* target.c: from begin to done it is engine->target */
void target_begin(struct member *member, int role);
void target_give_up(struct member *member);	/* nobody chooses it, until an administrator takes it back */
void target_lost(struct engine *engine, enum member_state state);	/* its session ended, or it failed: what it is then */
void target_complete(struct engine *engine);	/* every row is on it, flushed: it takes its place, once that is durable */
void target_settle(struct engine *engine);	/* is that durable, or that it does not? */
bool target_changing(const struct engine *engine);	/* a place is changing hands */
void target_dismissed(struct member *former);	/* superblocks know: whom it replaced may go */
void target_run(struct engine *engine);
bool target_filling(const struct engine *engine);	/* rows may be on it */
bool target_may_copy(const struct engine *engine);	/* ... and others may be copied to it */
bool target_may_clean(const struct engine *engine);	/* what it was sent counts as held by it */
bool target_counted(const struct engine *engine);	/* may others be told how many superblocks it has? */

/* metadata.c: superblocks of all in-sync members and the target.  Returns the generation to wait for in record_durable. */
uint64_t metadata_commit(struct engine *engine);
void metadata_run(struct engine *engine);
bool metadata_known(const struct engine *engine, uint64_t generation);	/* ... by all members that may stay */
bool metadata_idle(const struct engine *engine);	/* nothing unwritten, nothing under way */

/* intent_io.c */
void intent_io_run(struct engine *engine);
uint64_t intent_io_deadline(const struct engine *engine);
void intent_io_expire(struct engine *engine);	/* fail those who wait for silent members */
bool intent_io_idle(const struct engine *engine);	/* nothing unwritten, nothing under way */
uint64_t intent_io_commit(struct engine *engine);	/* generation to wait for in map_durable */
void intent_io_all(struct engine *engine);	/* somebody new needs the whole map */
/* Rows are about to be written.  True: their regions' marks are durable.  Else intent_io_wait() has hold->ready called
 * when they are, with 0, or when they can't be, with -ETIMEDOUT or -ESHUTDOWN; perhaps at once.
 */
bool intent_io_hold(struct engine *engine, struct region_hold *hold, uint64_t first_row, uint64_t last_row);
/* The same of some rows: bits from the first on. */
bool intent_io_hold_some(struct engine *engine, struct region_hold *hold, uint64_t first_row, uint32_t among);
void intent_io_begins(struct engine *engine, struct region_hold *hold);	/* its rows are written from here on, if it is held */
/* Rows of marked regions are written from here on; until then.  intent_io_drop() does the latter by itself. */
void intent_io_writes(struct engine *engine, struct row_note *note, uint64_t first_row, uint32_t among);
void intent_io_wrote(struct row_note *note);
void intent_io_written(struct region_hold *hold);	/* the same, before intent_io_drop(): a flush comes first */
/* Something was written to these rows, and nobody knows what stands there: they are suspect. */
void intent_io_failed(struct engine *engine, uint64_t first_row, uint64_t last_row);
void intent_io_flush_begins(struct engine *engine);
void intent_io_wait(struct engine *engine, struct region_hold *hold);
void intent_io_drop(struct engine *engine, struct region_hold *hold);	/* written, or given up; also if not held */
void intent_io_tell(struct engine *engine, int error);	/* those who wait: marks became durable, or can't */
void intent_io_overdue(struct engine *engine);	/* those who wait too long can't have them */

/* lost_io.c */
int lost_io_init(struct engine *engine);
void lost_io_run(struct engine *engine);
void lost_io_wait(struct engine *engine, struct lost_waiter *waiter);
void lost_io_tell(struct engine *engine, int error);	/* those who wait: it is durable, or can't be */
void lost_io_overdue(struct engine *engine);
uint64_t lost_io_deadline(const struct engine *engine);
bool lost_io_idle(const struct engine *engine);
bool lost_io_recording(const struct engine *engine);	/* what is missing is being recorded: operations wait */
bool lost_io_undecided(const struct engine *engine);	/* it is, or will be as soon as enough members are back */
/* Takes in a member's table.  known: by granule, some table of it could be read.  Of a known one, only what is lost of the member's own
 * chunks is taken in, if `own`.  False: some of it is damaged.
 */
bool lost_io_load(struct engine *engine, const struct member *member, const uint8_t *table, bool own, bool *known);
void lost_io_say(struct engine *engine);	/* in the record: which blocks of the table are empty */
void lost_io_all(struct engine *engine);	/* somebody new needs the whole table */
void lost_io_free(struct engine *engine);
/* Does the volume's range have a byte that can't be known? */
bool lost_in_range(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);
/* Must the table forget, durably, what a write of the range made known, before that is acknowledged?  Also while the table
 * is not settled: members may list what was accepted or overwritten, and after a crash theirs counts.
 */
bool lost_concerns_write(const struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);
/* These columns are known again.  0, -ENOSPC. */
int lost_forget(struct engine *engine, uint64_t row, uint8_t role, uint32_t column_begin, uint32_t column_end);
/* The range was overwritten (or accepted).  0, -ENOSPC. */
int lost_overwrite(struct engine *engine, uint64_t begin_bytes, uint64_t end_bytes);

/* behind.c */
void behind_begun(struct engine *engine, struct engine_request *request);	/* it has several pieces */
void behind_ended(struct engine *engine, struct engine_request *request);
void behind_failed(struct engine *engine, const struct engine_request *request);	/* nobody knows what it wrote */
/* What stands in these rows may not be what was written there. */
void behind_doubted(struct engine *engine, uint64_t first_row, uint64_t last_row);
void behind_again(const struct engine *engine, struct engine_request *request);	/* it is carried out once more */
uint64_t behind_spare(const struct engine_request *request, uint64_t begin_bytes, uint64_t *end_bytes);
bool behind_waits(struct engine *engine, struct engine_request *request);	/* true: it is carried out later */
struct engine_request *behind_next(struct engine *engine);	/* one that is to be carried out now, or NULL */
void behind_refuse(struct engine *engine);	/* they go back to admission */
void behind_overdue(struct engine *engine);	/* ... those whose time is used up */

/* flush.c */
void flush_join(struct engine *engine, struct flush_waiter *waiter);
void flush_what_was_left(struct engine *engine);
void flush_cache_lost(struct member *member);	/* and nobody makes up for it: flushes have to tell */
void flush_run(struct engine *engine);
void flush_overdue(struct engine *engine);
uint64_t flush_deadline(const struct engine *engine);
bool flush_op_create(struct engine *engine, struct piece *piece);	/* false: no memory */
void flush_ops_free(struct engine *engine);

/* read_op.c, hedge.c, write_op.c */
bool read_op_create(struct engine *engine, struct piece *piece);	/* false: no memory */
bool write_op_create(struct engine *engine, struct piece *piece);
bool write_op_merge(struct engine *engine, struct piece *piece);	/* true: it joined a waiting write */
void read_ops_free(struct engine *engine);
void write_ops_free(struct engine *engine);
void read_op_hedge(struct engine *engine);	/* reads that wait too long for one member */
void read_op_overdue(struct engine *engine);	/* ... or for anybody */
uint64_t read_op_deadline(const struct engine *engine);

/* zero_op.c */
bool zero_op_create(struct engine *engine, struct piece *piece);	/* whole rows; false: no memory */
/* A short range is cut at once, a long one as zero_run() finds room. */
void zero_begin(struct engine *engine, struct engine_request *request);
bool zero_is_long(const struct engine_request *request);	/* it ends by progress */
void zero_piece_ended(struct engine *engine, const struct engine_request *request);
void zero_run(struct engine *engine);
uint64_t zero_deadline(const struct engine *engine);
void zero_ops_init(struct engine *engine);
void zero_ops_free(struct engine *engine);

/* compare_op.c */
bool compare_op_create(struct engine *engine, struct piece *piece);
void compare_ops_free(struct engine *engine);

/* throttle.c */
uint64_t throttle_wait(const struct engine *engine);	/* milliseconds until the next batch may begin; 0: now */
void throttle_spend(struct engine *engine, uint64_t bytes);

/* resync.c */
int resync_init(struct engine *engine);
void resync_free(struct engine *engine);
void resync_run(struct engine *engine);
uint64_t resync_deadline(const struct engine *engine);
void resync_hint(struct engine *engine, uint64_t row);	/* a suspect row was written: look at its region soon */
bool resync_idle(const struct engine *engine);
void resync_status(const struct engine *engine, struct engine_status *out);

/* rebuild.c */
int rebuild_init(struct engine *engine);
void rebuild_free(struct engine *engine);
void rebuild_run(struct engine *engine);
uint64_t rebuild_deadline(const struct engine *engine);
bool rebuild_idle(const struct engine *engine);
void rebuild_status(const struct engine *engine, struct engine_status *out);

/* scrub.c */
int scrub_init(struct engine *engine);
void scrub_free(struct engine *engine);
void scrub_run(struct engine *engine);
uint64_t scrub_deadline(const struct engine *engine);
bool scrub_idle(const struct engine *engine);
void scrub_assembled(struct engine *engine);	/* go on with the one that was under way */
void scrub_status(const struct engine *engine, struct engine_status *out);

/* repair.c */
int repair_init(struct engine *engine);
void repair_free(struct engine *engine);
void repair_run(struct engine *engine);
bool repair_idle(const struct engine *engine);
void repair_note(struct engine *engine, uint64_t row);	/* something in it could not be read */

/* grow.c */
void grow_run(struct engine *engine);
bool grow_unsettled(const struct engine *engine);	/* the record does not know of the new size yet: background work waits */
bool grow_marks(const struct engine *engine);		/* the map is written for its sake */

/* probe.c */
void probe_run(struct engine *engine);
uint64_t probe_deadline(const struct engine *engine);

/* figures.c */
uint64_t figures_look(struct engine *engine);	/* at the clock, anew */
void figures_submitted(struct engine *engine, struct engine_request *request);
void figures_taken(struct engine *engine);	/* all that were submitted will be looked at now */
void figures_took(struct engine *engine, enum figures_step step, uint64_t took_ns, uint32_t commands);
/* The step that began at begun_ns ends, for so many commands. */
void figures_step(struct engine *engine, enum figures_step step, uint64_t begun_ns, uint32_t commands);
/* As figures_step(), of what was computed since then. */
void figures_computed(struct engine *engine, uint64_t begun_ns, uint32_t commands);
/* The piece goes on, which waited since it was made, or since it began again (0: it did not). */
void figures_waited(struct engine *engine, const struct piece *piece, uint64_t again_ns);
void figures_answered(const struct member_io *mio);
void figures_deliver(struct engine *engine, struct engine_request *request);	/* done() */
void figures_delivered(struct engine *engine);	/* no more of them just now: count them */
/* Where steps begin and end, for tracers. */
#define TRACE_PIECE(engine, probe, piece)                                                        \
	TRACE(probe, (engine)->record.name, (piece)->request->number, (piece)->request->op,       \
	      (piece)->begin_bytes, (piece)->end_bytes - (piece)->begin_bytes, 1)

/* admin.c */
void admin_let_go(struct engine *engine);		/* let devices go whose sessions are closed */

/* stop.c */
void stop_run(struct engine *engine);
uint64_t stop_deadline(const struct engine *engine);
bool stop_proves(const struct engine *engine);	/* it is time yet to prove what was written */
uint32_t stop_recorded_roles(const struct engine *engine);	/* for the superblocks */

#endif
