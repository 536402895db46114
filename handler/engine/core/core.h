/* core.h - what all rooms of the engine share: its members, its phase, its clock; and what is asked
 * of them most.
 *
 *	core.c		log, events, doubts		chunks.c	who has which chunk, and what it is worth
 *	op.c		operations until they start	overdue.c	how long a request can take
 *	rows.c		claims on rows (rows.h)		arena.c		memory for rows (arena.h)
 *	figures.c	what is counted for those who watch (figures.h)
 *
 * Rooms, low to high: core, link, record, members, work, io, life.  Each uses those before it
 * (docs/architecture.md).
 *
 * Everything happens inside engine_run(): backends only append to lists, and requests complete from
 * one place, so no function here is ever re-entered.
 */
#ifndef IRAID_ENGINE_CORE_H
#define IRAID_ENGINE_CORE_H

#include "arena.h"
#include "driver.h"
#include "figures.h"
#include "list.h"
#include "member.h"
#include "pure/geometry.h"
#include "pure/mutant.h"
#include "pure/plan.h"
#include "rows.h"
#include "state/assembly.h"
#include "state/intent.h"

/* So old a member's answer may be, counted from when it was asked, that a read goes by it; and so
 * long a take-over waits, by another clock.
 */
#define LEASE_MS 400u
#define LEASE_AWAITED_MS 450u

#define OP_ROWS_MAX 32		/* rows of one operation */
#define OP_BYTES_MAX (4u << 20) /* of one operation, if it has more than one row */

/* A role nobody is in sync for. */
struct absence {
	uint64_t since_ms;
	/* the member was in sync when it went: it may hold what can't be rebuilt, of what was
	 * suspect by then
	 */
	bool held;
	uint32_t doubts; /* intent.doubts when it went */
	/* no cache can have taken along what it had answered; not known of who left before this
	 * assembly
	 */
	bool sure;
	/* what it holds counts, though that is not so, because an administrator said so */
	bool accepted;
};

enum target_phase {
	TARGET_NONE,
	TARGET_MARKING, /* its stale flags become durable */
	TARGET_FILLING,
	/* the superblocks give it the place; whoever had it keeps it until that is durable */
	TARGET_TAKING,
	TARGET_WITHDRAWING, /* it was lost meanwhile: they give the place back */
};

enum engine_phase {
	PHASE_IDLE,    /* created, not started */
	PHASE_EXAMINE, /* opening members, reading superblocks */
	PHASE_LOAD_MAP,
	PHASE_WRITE_SUPERBLOCKS,
	PHASE_REPLAY, /* of the write log */
	PHASE_RUNNING,
	PHASE_DRAIN, /* stopping: requests finish */
	PHASE_LAST_FLUSH,
	PHASE_LAST_MAP,
	PHASE_LAST_SUPERBLOCKS,
	PHASE_RELEASE, /* sessions close */
	PHASE_STOPPED,
};

enum growth_phase {
	GROWTH_NONE,
	GROWTH_UNLOGGING, /* the write log is closed for its sake */
	GROWTH_MEASURING,
	GROWTH_PADDING,
	GROWTH_MARKING, /* the map is written for its sake */
	GROWTH_RECORDING,
};

/* How requests were carried out, and what was found bad, since assembly.  For status. */
struct counters {
	uint64_t rows_full, rows_rmw, rows_reconstruct, rows_read_all, rows_data_only;
	uint64_t reads_saved; /* of members, by what was known of their rows already */
	uint64_t reads_reconstructed;
	uint64_t requests_merged;	/* writes that joined another's rows */
	uint64_t resync_corrected_rows; /* parity that differed and was rewritten */
	uint64_t medium_repaired;
	uint64_t reads_hedged;
	uint64_t proofs_asked; /* of members, that the volume is ours */
};

struct link;
struct metadata;
struct marks;
struct lost_io;
struct epochs;
struct flush;
struct write_log;
struct eviction;
struct places;
struct target_state;
struct work;
struct io;
struct assembly;
struct life;

/* What is counted of a request that was answered and is not ours any more. */
#define ANSWERS_MAX 32
struct answer {
	enum request_op op;
	int result;
	uint64_t bytes;
	uint64_t arrived_ns, finished_ns;
};

struct figures {
	uint64_t stamp_ns; /* when the clock was looked at last; never 0 */
	uint64_t numbers;  /* given to commands */
	uint32_t queue;
	/* the first of those submitted since the last run, or NULL */
	struct engine_request *unstamped;
	struct answer answers[ANSWERS_MAX]; /* given, and not counted yet */
	int answers_count;
	struct histogram commands[FIGURES_OPS];
	struct step_figures steps[STEPS];
	uint64_t code_ns;
};

struct ops {
	unsigned int count;
	struct list claimants;		/* operations of requests that wait for their rows */
	struct list ready;		/* operations whose claims are granted */
	struct list buffer_waiters;	/* operations that wait for room in the arena, in order */
	struct engine_request *several; /* writes and zeros of several pieces that have not ended */
};

struct engine {
	struct engine_options options;
	struct engine_port port;
	uint64_t now_ms;
	uint64_t moment;   /* counts events, orders them */
	uint64_t activity; /* raised by whatever may let something else proceed */

	enum engine_phase phase;
	uint64_t phase_since_ms;
	bool stop_wanted;
	/* another gateway took the members: nothing is written any more */
	bool fenced;
	char reason[256];

	struct geometry geometry; /* valid from PHASE_LOAD_MAP on */
	/* that requests may use: less than the geometry's while it grows */
	uint64_t volume_bytes;
	uint64_t data_offset_bytes; /* on every member */
	enum growth_phase growth_phase;

	/* members, those that are out, and silence */
	int slots; /* members[0 .. slots); those without a backend are free */
	struct member members[SLOTS_MAX];
	struct member *by_role[IRAID_MEMBERS_MAX]; /* in sync, or being evicted; else NULL */
	struct member *target;			   /* is being filled, or NULL */
	enum target_phase target_phase;
	/* roles not in sync, durably or evicting; a set of bits, as the next */
	uint32_t out;
	/* of them, those durably out: nobody has their chunks but perhaps the target */
	uint32_t missing;
	struct absence absence[IRAID_MEMBERS_MAX]; /* by role, of the missing */
	int evicting;
	bool suspended;
	bool expired; /* suspended for longer than queue_limit */
	uint64_t suspended_since_ms;
	bool hedge_silent; /* a member fell silent: look at all reads that wait */

	/* what is on record, and what is known of rows */
	struct superblock record; /* what all members' superblocks share */
	struct intent intent;
	/* the table of lost extents; NULL before the volume is assembled */
	struct lost *lost;
	/* some of them did not fit: those that lose something stay suspect */
	bool lost_full;
	uint32_t cache_losses; /* sessions restored that may have lost unflushed writes */

	/* requests and operations */
	uint64_t requests_active;
	uint64_t last_request_ms; /* when one was last active */
	struct ops ops;
	struct row_table *rows;
	struct arena arena;
	struct {
		struct iovec *iov; /* of the function that runs; see scratch_reserve() */
		int capacity;
	} scratch;

	struct counters counters;
	struct figures figures;

	/* What each room keeps for itself. */
	struct link *link;
	struct metadata *metadata; /* record.h, as the next */
	struct marks *marks;
	struct lost_io *lost_io;
	struct epochs *epochs;
	struct flush *flush;
	struct write_log *write_log; /* write_log.h */
	struct eviction *eviction;   /* members.h, as the next */
	struct places *places;
	struct target_state *target_state;
	struct work *work;
	struct io *io;
	struct assembly *assembly; /* life.h, as the next */
	struct life *life;
};

/* An operation as the ready and buffer lists see it. */
struct op {
	struct claim_holder holder; /* must be first */
	struct list node;
	struct engine *engine;
	uint64_t since_ms;
	bool changes_nothing; /* it may start although it is not on record who is out */
	bool writes_back;     /* ... although no other write may, for the write log's sake */
	bool makes_room;      /* in the write log, by its end: it goes first for memory */
	void (*start)(struct op *op);		/* claims are granted: go on */
	void (*fail)(struct op *op, int error); /* before it was started */
};

/* --- core.c --- */

void engine_log(struct engine *engine, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Log it and tell the driver.  member: whom it is about, or NULL. */
void engine_event(struct engine *engine, enum event_kind kind, int severity, struct member *member,
		  const char *format, ...) __attribute__((format(printf, 5, 6)));
/* NULL: no memory; never so for what was had before */
struct iovec *scratch_reserve(struct engine *engine, int count);
bool engine_running(const struct engine *engine); /* requests may be carried out */
/* Now, and not when the turn began: a gateway may stand still in the midst of one.  0: there is no
 * such clock.
 */
uint64_t engine_clock_ns(const struct engine *engine);
uint64_t engine_clock_ms(const struct engine *engine); /* the same; else that of the turn */
/* What stands in these rows may not be what was written there. */
void requests_doubted(struct engine *engine, uint64_t first_row, uint64_t last_row);

#define for_each_member(engine, m)                                                                 \
	for (struct member *m = (engine)->members; m < (engine)->members + (engine)->slots; m++)   \
		if (m->backend != NULL)

/* --- op.c --- */

void op_ready(struct op *op);		      /* put on the ready list */
void op_claimed(struct op *op);		      /* all its rows are: it is ready, or waits for them */
void op_granted(struct claim_holder *holder); /* claim_holder.granted of every operation */
/* NULL: there is none now.  A makes_room finds some if none like it has it. */
void *op_take_memory(struct op *op, size_t bytes);
void op_wait_for_buffer(struct op *op);
void op_gone(struct engine *engine); /* an operation ended, there may be room for others */

/* --- chunks.c --- */

#define ROLE(role) (1u << (role))
#define ROLES_TEXT_MAX 96
const char *roles_text(uint32_t roles, char text[ROLES_TEXT_MAX]); /* "3, 5" */
/* Positions of this row whose chunk nobody holds. */
uint32_t engine_absent(const struct engine *engine, uint64_t row);
/* What its redundancy is worth. */
enum row_trust engine_trust(const struct engine *engine, uint64_t row);
/* The level has P, or P and Q: what is missing of an unproven row can't be known.  Copies are worth
 * something each.
 */
bool engine_has_parity(const struct engine *engine);
/* A write would reach some members now, and others perhaps never: with one that is dead its row
 * could not be known.
 */
bool engine_may_tear(const struct engine *engine);
/* No redundancy is left: what the others make of a missing chunk of an unproven row is what it is
 * from now on.
 */
bool engine_bare(const struct engine *engine);
/* Could the volume do without this role too, beside those that are out? */
bool engine_bears(const struct engine *engine, int role);
/* Who has this role's chunk of the row to read: the member in its place, or the target where the
 * row is on it; or NULL.
 */
struct member *engine_holder(struct engine *engine, uint64_t row, int role);
/* Who must get writes of it: 0 to 2 members. */
int engine_writers(struct engine *engine, uint64_t row, int role, struct member *out[2]);
bool target_filling(const struct engine *engine);  /* rows may be on it */
bool target_changing(const struct engine *engine); /* a place is changing hands */

/* --- overdue.c --- */

uint64_t overdue_ms_max(const struct engine_options *options); /* as engine_request_ms_max() */
/* what has waited since then for a request has waited too long */
bool overdue_since(const struct engine *engine, uint64_t since_ms);
/* when that will be; UINT64_MAX: it is so, or never */
uint64_t overdue_at(const struct engine *engine, uint64_t since_ms);

/* --- figures.c --- */

uint64_t figures_look(struct engine *engine); /* at the clock, anew */
void figures_submitted(struct engine *engine, struct engine_request *request);
void figures_taken(struct engine *engine); /* all that were submitted will be looked at now */
void
figures_took(struct engine *engine, enum figures_step step, uint64_t took_ns, uint32_t commands);
/* The step that began at begun_ns ends, for so many commands. */
void
figures_step(struct engine *engine, enum figures_step step, uint64_t begun_ns, uint32_t commands);
/* As figures_step(), of what was computed since then. */
void figures_computed(struct engine *engine, uint64_t begun_ns, uint32_t commands);
void figures_answered(struct member *member, const struct backend_io *io, uint64_t sent_ns);
void figures_deliver(struct engine *engine, struct engine_request *request); /* done() */
void figures_delivered(struct engine *engine); /* no more of them just now: count them */

#endif
