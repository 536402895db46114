/* sim.h - one run of the simulator: one seed, one volume, one life in virtual time.
 *
 *	simulate.c	the program: workers, sums		sim_run.c	steps, time, the gateway's life
 *	sim_load.c	requests and their memory		sim_fault.c	what goes wrong, and heals
 *	sim_admin.c	spares, replacement, scrub, ...		sim_format.c	shapes and media at the beginning
 *	sim_oracle.c	what a read may return			sim_check.c	what the media must hold
 *	sim_fair.c	for what reason one may fail		sim_time.c	how long requests take; faults that stay
 *	sim_ability.c	what only some lives have
 *	sim_gateway.c	a gateway that is not alone	sim_clone.c	a member that is there twice
 *	sim_former.c	a gateway that was taken for dead, and lives
 *	sim_where.c	which states and faults have met; lives that look for rare pairs
 *	sim_cascade.c	faults that follow each other while the engine is busy with one
 *	sim_force.c	a start by force, when too few members are left
 *	sim_halves.c	a gateway that dies again and again, and finds other members each time
 *	sim_log.c	a gateway that dies while it logs what it writes
 *	sim_pair.c	two members that fall silent at once
 *	sim_rot.c	members that return something else than was written
 *	sim_raw.c	which regions are raw		sim_record.c	who is out by the superblocks of others
 *
 * A run is a list of steps.  What step i is, and all it draws, depends on the seed and i alone, so
 * that steps can be left out (--steps, --drop) and the others stay what they were; only the
 * members' delays then differ.
 */
#ifndef IRAID_SIM_H
#define IRAID_SIM_H

#include "engine/life/admin.h"
#include "engine/life/status.h"
#include "fake_member.h"
#include "pattern.h"

#define SIM_MESSAGE_MAX 400
#define ROTS_MAX 4
#define SPELLS_MAX 64
/* the engine tries again each second what has to be recorded before anything goes on */
#define MEMORY_RETRY_MS 1100ull
#define SIM_ANSWER_US_MIN 40
#define SIM_ANSWER_US_MAX 1200 /* of a member that is not slow */
#define SIM_STEPS_DEFAULT 300
#define SIM_SLOTS_MAX 16 /* devices: members, spares, and some more for later */
#define SIM_MEMBERS_MAX 12
#define SIM_MEMBER_BYTES (16ull << 20)
#define SIM_MEMBER_GROWTH_BYTES (1ull << 18)

enum ability_name {
	ABILITY_MANY_MEMBERS,
	ABILITY_LARGE_CHUNKS,
	ABILITY_LONG_REQUESTS,
	ABILITY_SHORT_MEMORY,
	ABILITY_SMALL_TABLE,
	ABILITY_MANY_REGIONS,
	ABILITY_CACHE_SWITCHED,
	ABILITY_TWIN_SPARES,
	ABILITY_STUCK_SECTORS,
	ABILITY_CONFLICTS,
	ABILITY_SHAPES,
	ABILITY_ROLLBACKS,
	ABILITY_TIME_JUDGED,
	ABILITY_STAYING_FAULTS,
	ABILITY_ROT,
	ABILITY_POWER_AFTER_STOP,
	ABILITY_STANDSTILLS,
	ABILITY_EPOCHS,
	ABILITY_NO_MEMORY,
	ABILITY_ROWS_JUDGED,
	ABILITY_STEERED,
	ABILITY_LOST_COPIES,
	ABILITY_FENCES,
	ABILITY_CASCADES,
	ABILITY_CLONES,
	ABILITY_FORCES,
	ABILITY_DEFERRED,
	ABILITY_TWO_GATEWAYS,
	ABILITY_HALVES,
	ABILITY_LOG,
	ABILITY_PAIRS,
	ABILITIES,
};

struct ability {
	const char *name;
	unsigned int lives; /* one in so many has it */
	bool on;
	const char *text;
};

extern struct ability abilities[ABILITIES];

enum fault_kind {
	FAULT_CUT,     /* a session is reset, the member stays away for a while (or not) */
	FAULT_LINK,    /* the link is down */
	FAULT_HANG,    /* the target stops, and goes on */
	FAULT_POWER,   /* a member loses power and what its cache held */
	FAULT_SLOW,    /* answers take hundreds of milliseconds */
	FAULT_PATH,    /* one of two portals is down */
	FAULT_MEDIUM,  /* sectors can't be read */
	FAULT_REFUSE,  /* writes, or reads, are refused */
	FAULT_FOREIGN, /* another volume's disk answers at its address */
	FAULT_WIPE,    /* the device is replaced by an empty one */
	/* Of lives with the ability only: */
	FAULT_STUCK,	  /* some sectors refuse to be read, or written, whatever is done */
	FAULT_CONFLICT,	  /* one member alone says that another gateway has reserved it */
	FAULT_SHAPE,	  /* another block size or capacity at the next log-in */
	FAULT_ROLLBACK,	  /* the device holds what it held at some earlier time */
	FAULT_STANDSTILL, /* the gateway does nothing for a while, and goes on */
	/* a device says that it has lost writes which it had acknowledged */
	FAULT_DEFERRED,
	FAULT_NO_MEMORY, /* the engine gets no memory for a while */
	FAULT_CRASH,	 /* the gateway dies */
	FAULT_BLACKOUT,	 /* the gateway dies, and some or all members lose power */
	FAULT_STOP,	 /* the gateway is stopped in order, and started again */
	/* Of lives with the ability only, and never steered: */
	/* another gateway takes all members, and this one is started again */
	FAULT_FENCED,
	/* a copy of a member, or what it was once, is added as another device */
	FAULT_CLONE,
	FAULT_FORCED, /* too few members are left, and the volume is started by force */
	/* a second gateway takes the volume over, and the first one lives */
	FAULT_SECOND,
	/* the gateway dies again and again, and finds other members each time */
	FAULT_HALVES,
	/* members are out, and the gateway dies again and again while it logs */
	FAULT_LOGGED,
	FAULT_PAIR, /* two members fall silent at once, and the level bears it */
	FAULT_KINDS,
};

extern const char *const fault_names[FAULT_KINDS];

enum admin_kind {
	ADMIN_ADD_SPARE,
	ADMIN_ADD_OLD,
	ADMIN_DETACH,
	ADMIN_FAIL,
	ADMIN_READMIT,
	ADMIN_REPLACE,
	ADMIN_SCRUB,
	ADMIN_SCRUB_STOP,
	ADMIN_ACCEPT,
	ADMIN_RATES,
	ADMIN_GROW,
	ADMIN_KINDS,
};

extern const char *const admin_names[ADMIN_KINDS];

/* A fault of one member that lasts until the next quiescence. */
enum stay_kind {
	STAY_HANG,
	STAY_LINK,
	STAY_NO_LOGIN,
	STAY_MUTE,
	STAY_DATA_MUTE,
	STAY_SLOW,
	STAY_FLAP,
	STAY_REFUSE_SUPERBLOCKS,
	STAY_REFUSE_MAP,
	STAY_REFUSE_TABLE,
	STAY_REFUSE_METADATA,
	STAY_REFUSE_WRITES,
	STAY_REFUSE_READS,
	STAY_REFUSE_FLUSHES,
	STAY_KINDS,
};

struct sim_longest {
	uint64_t took_ms, bound_ms, seed;
};

/* What the engine is doing: bits of engine_where(). */
#define WHERE_LIST(X)                                                                              \
	X(EXAMINES, "superblocks are read")                                                        \
	X(LOADS_MAP, "maps are read")                                                              \
	X(NEW_EPOCH, "a new epoch is written")                                                     \
	X(REPLAYS, "the write log is replayed")                                                    \
	X(DRAINS, "stop: drains")                                                                  \
	X(LAST_FLUSH, "stop: last flush")                                                          \
	X(LAST_MAP, "stop: last map")                                                              \
	X(LAST_SUPERBLOCKS, "stop: last superblocks")                                              \
	X(RELEASES, "stop: sessions end")                                                          \
	X(RUNS, "runs")                                                                            \
	X(DEGRADED, "degraded")                                                                    \
	X(SUSPENDED, "suspended")                                                                  \
	X(EVICTS, "evicts")                                                                        \
	X(SILENT, "a member is silent")                                                            \
	X(GRACE, "a member has grace")                                                             \
	X(DISPUTED, "a conflict is looked into")                                                   \
	X(RECORDS, "losses are recorded")                                                          \
	X(TABLE, "table is written")                                                               \
	X(MAP, "map is written")                                                                   \
	X(SUPERBLOCKS, "superblocks are written")                                                  \
	X(CLEANS, "marks are cleaned")                                                             \
	X(FLUSH, "flush round")                                                                    \
	X(TARGET_MARKS, "target: marks")                                                           \
	X(TARGET_FILLS, "target: fills")                                                           \
	X(TARGET_TAKES, "target: takes its place")                                                 \
	X(TARGET_WITHDRAWS, "target: withdraws")                                                   \
	X(RESYNC, "resync works")                                                                  \
	X(REBUILD, "rebuild works")                                                                \
	X(SCRUB, "scrub works")                                                                    \
	X(MENDS, "mending")                                                                        \
	X(GROWS, "grows")                                                                          \
	X(SUSPECT, "rows are suspect")                                                             \
	X(LOST, "something is lost")                                                               \
	X(LOGS, "writes are logged")                                                               \
	X(LOG_CHANGES, "the write log is opened or closed")                                        \
	X(SHORT, "short of memory")
#define X(name, text) WHERE_##name,
enum where {
	WHERE_LIST(X) WHERES,
};
#undef X

struct sim_totals {
	uint64_t seeds, operations, errors, bytes;
	uint64_t faults[FAULT_KINDS];
	uint64_t admin[ADMIN_KINDS];   /* that were not refused */
	uint64_t abilities[ABILITIES]; /* lives that had it */
	uint64_t rotten;	       /* blocks falsified */
	uint64_t memory_waits;	       /* turns after which operations waited for the arena */
	uint64_t rebuilds, scrubs;     /* that ended well */
	struct fake_counts fake;
	uint64_t virtual_ms;
	uint64_t events;
	uint64_t checks; /* of all media */
	uint64_t stays[STAY_KINDS];
	uint64_t clean_stops;
	uint64_t met[WHERES][FAULT_KINDS]; /* faults that struck while the engine did that */
	/* request; [0]: while no more members were in trouble than the level bears */
	struct sim_longest longest[2];
	struct sim_longest longest_stop;
};

struct sim_options {
	uint64_t seed;
	uint32_t steps;
	int level;		/* -1: any */
	const uint8_t *dropped; /* by step: left out; NULL: none */
	/* 1: steps, requests, faults, the engine's log; 2: members' commands too */
	int trace;
	struct sim_totals *totals;
	char *message; /* SIM_MESSAGE_MAX: what failed */
};

#define SIM_EXIT_FAILED 3

struct sim_request {
	struct engine_request request;
	struct sim_request *next;
	struct sim *sim;
	bool former;   /* it went to the gateway that was taken for dead */
	bool too_late; /* and the other one ran already */
	uint64_t sector, count;
	uint32_t number; /* of a write */
	/* COMPARE_WRITE: first byte that the initiator has wrong; -1: none */
	int64_t differs_at;
	uint64_t submit_us, done_us;
	uint64_t memory_refused; /* engine_memory_refused() when it was submitted */
	uint64_t cache_losses;	 /* until it was submitted */
	bool assembled;		 /* the volume was, then */
	uint32_t most_active;	 /* requests that were under way at one time of its life */
	/* It has its time from then on, by the clock of its gateway (time_awake_us): submitted; of
	 * a long range of zeros, the last piece was cut, and what was seen of it last.
	 */
	uint64_t from_us;
	uint64_t slow_us; /* time_slow_us() then */
	bool waits;	  /* a part of it has to be cut yet */
	uint32_t doubts, losses;
	int pieces, pieces_ended;
	/* Of a read: the floor when it was submitted; of a flush: of all sectors; of a write: its
	 * number, or the oldest that was under way then and may come behind it.
	 */
	uint32_t *floor;
	uint64_t sectors; /* of the volume, when it was submitted */
	bool saw_refusal; /* once, a member refused what others could not read */
	/* once while it was under way, some sector may have been lost: a piece of it may have
	 * failed then
	 */
	bool saw_loss;
	uint8_t *memory;
	size_t memory_bytes;
	struct iovec iov[8];
};

enum cure_kind {
	CURE_REACH,
	CURE_LINK,
	CURE_HANG,
	CURE_SPEED,
	CURE_PATH,
	CURE_REFUSE,
	CURE_FOREIGN,
	CURE_CONFLICT,
	CURE_SHAPE,
	CURE_KINDS
};

struct cure {
	struct event event;
	struct sim *sim;
	int member;
	enum cure_kind kind;
};

struct stay {
	struct event event; /* must be first: of one that comes again and again */
	struct sim *sim;
	int member;
	enum stay_kind kind;
	bool lasts;
};

/* What a steered life waits for: each of these pairs, until it has met. */
#define STEER_TARGETS_MAX 12
struct steer {
	uint64_t random;
	struct steer_target {
		int state;
		enum fault_kind kind;
	} targets[STEER_TARGETS_MAX];
	int left; /* of them */
	bool on;
};

/* Faults that follow each other. */
struct cascade {
	uint64_t random;
	uint32_t left; /* yet to come */
	int state;     /* that the next one waits for: a bit of engine_where() */
	/* it makes that itself: a member is copied to one that is to replace it */
	bool doubles;
	uint32_t moves; /* left of the one that is under way */
	int subject;	/* device that it is about; -1: none yet */
	uint64_t next_us;
};

/* What was known before members left that are taken as they stand later. */
struct forced_start {
	uint32_t *floor; /* by sector */
	uint8_t *traits; /* by sector: lost, or given up */
	bool *open;	 /* by region: it may be dirty on their record */
	bool *raw;	 /* by row, as in struct sim */
	uint64_t left_us;
};

/* A gateway that was taken for dead, and lives: what is its own. */
struct former {
	struct engine *engine; /* NULL: there is none */
	unsigned int gateway;  /* its number */
	struct sim_request *active;
	uint32_t active_count;
	bool asked;	       /* requests go to it */
	uint64_t restarted_us; /* a target was, and it may have been there first; 0: none was */
	bool reads_only;       /* and change nothing: it meets no conflict */
	bool has_turn;	       /* what is called back is its own */
	bool stopped;
	bool look; /* it said something: who is out may have changed */
	/* the other one runs: nothing that is submitted now may be acknowledged as a write */
	bool lost;
	uint64_t epoch; /* that it recorded */
	uint64_t still_until_us, stood_from_us, stood_us;
	uint64_t zeros_ended_us; /* as sim->zeros_ended_us */
	uint64_t heals_us;	 /* its links do */
	uint64_t others_heal_us; /* those of the one that took the volume over do */
	uint32_t unreached;	 /* devices that one does not reach until then: bits */
	uint64_t turn_us;	 /* when its turn began */
	uint32_t ends_step;
	/* by device, as it knew them when the other one was started */
	int roles[SIM_SLOTS_MAX];
	uint8_t *void_writes; /* bits, by number: submitted when the other one ran */
	uint32_t void_bytes;
};

/* Traits of a sector. */
#define MAY_BE_LOST 0x01     /* a medium error is a fair answer */
#define MAY_BE_ANYTHING 0x02 /* its content was given up */
#define CACHE_DROPPED 0x04   /* a member's cache lost it since the last quiescence */
#define CACHE_REVERTED 0x08  /* and nobody can make up for it */
#define WAS_ANYTHING 0x10    /* MAY_BE_ANYTHING was overwritten, but that is in caches only */

/* The floor of a read's sector whose given-up content was overwritten while the read was under way.
 */
#define FLOOR_ANYTHING UINT32_MAX

struct sim {
	struct sim_options options;
	uint64_t abilities; /* bits */
	uint64_t random;    /* of delays and fates */
	struct schedule schedule;
	int level, count; /* count: members of the volume */
	uint32_t chunk_bytes, block_bytes, region_rows;
	uint64_t rows, sectors;		/* as the engine last said */
	uint64_t rows_max, sectors_max; /* that it can grow to */
	uint64_t sectors_formatted;
	uint64_t member_bytes; /* that devices have now */
	uint64_t member_bytes_max;
	uint64_t marked_bytes[SIM_SLOTS_MAX]; /* by device: had when it was made a spare */
	uint64_t data_offset;
	struct geometry geometry; /* of `rows` */
	bool growing;		  /* it was asked to, once: its size may change */
	bool zeroed;		  /* formatted with zeros, parity right from the start */
	struct fake_member members[SIM_SLOTS_MAX];
	/* the same devices' sessions with a second gateway */
	struct fake_member seconds[SIM_SLOTS_MAX];
	/* whose sessions the gateway has that runs: 0: members, 1: seconds */
	int side;
	struct former former;
	/* a long range ended with a piece of it in this turn; of the former gateway: [1] */
	bool zeros_done[2];
	uint64_t epoch_elsewhere; /* recorded by the gateway that does not run */
	struct disk foreign;	  /* of FAULT_FOREIGN */
	struct disk snapshot;	  /* of FAULT_ROLLBACK */
	int snapshot_of;	  /* device; -1: none */
	int went_back;		  /* the device that did so last; -1: none */
	/* the last write whose time was over: when, and which rows */
	struct {
		uint64_t at_us, first_row, last_row;
	} late;
	/* Devices, until all are well: they could be started alone, and know nothing of what was
	 * started by force without them.
	 */
	uint32_t left_by_force;
	struct rot { /* a falsified block: a scrub finds it */
		uint64_t row;
		int position;
		uint64_t column;	  /* in bytes */
		uint8_t block[DISK_PAGE]; /* as it was falsified */
		int device;		  /* where */
		int holder;		  /* who had the place at the last look, or -1 */
		bool right;		  /* ... another one, who has what was written */
	} rots[ROTS_MAX];
	int rot_count;
	uint64_t rot_hedged;	 /* status.reads_hedged before */
	uint64_t still_until_us; /* the engine gets no turns */
	uint64_t stood_from_us;	 /* since then; 0: it has its turns */
	uint64_t stood_us;	 /* before */
	/* a piece of a long range of zeros, the last one; by the gateway's clock */
	uint64_t zeros_ended_us;
	bool turn_missed;		  /* by that */
	uint64_t no_epoch_until_us;	  /* it can't be recorded */
	uint64_t memory_refused;	  /* engine_memory_refused() when that was last looked at */
	bool twin[SIM_SLOTS_MAX];	  /* by device: a spare whose mark has a member's UUID */
	int clone_of[SIM_SLOTS_MAX];	  /* by device: it holds what this one held; -1: no copy */
	bool clone_is_old[SIM_SLOTS_MAX]; /* so old that it is known by itself */
	int clone_stays;		  /* at the next start: this device; -1: none */
	int slots;			  /* devices there are; slot_of says which the engine has */
	int slot_of[SIM_SLOTS_MAX];	  /* by device: the engine's slot, -1: not given to it */
	int member_in[SLOTS_MAX];	  /* by slot: device; -1 */
	uint32_t uuids_made;
	bool spare_wanted;
	bool accepting; /* lost extents, of these sectors: */
	uint64_t accepted_from, accepted_to;
	uint64_t admin_rate; /* percent of the steps */
	struct cure cures[SIM_SLOTS_MAX][CURE_KINDS];
	struct stay stay;
	struct steer steer;
	struct cascade cascade;
	/* a member's answers took up to so long; until the last of them came */
	struct spell {
		uint64_t from_us, until_us, answer_us;
		int member;   /* or -1: the engine had no memory, each time it tried */
	} spells[SPELLS_MAX]; /* the latest, a ring */
	uint32_t spell_count;
	/* for how long slow members have had something to answer, in all, when that was last looked
	 * at; and until when they have, as they are slow
	 */
	uint64_t slow_us, slow_seen_us, slow_until_us;
	uint64_t trouble_until_us[SIM_SLOTS_MAX];
	/* until then more members may be silent than the level bears */
	uint64_t excess_until_us;
	/* from whom a gateway, by its number, took the volume when it ran it last; 0: nobody, or the
	 * other one has started since
	 */
	uint64_t predecessors[10];
	/* when a start was last kept from members by another gateway; 0: never */
	uint64_t contested_us;

	struct engine *engine; /* NULL: no gateway runs */
	struct engine_options engine_options;
	uint64_t epoch_recorded;
	uint64_t epoch_tried[2];    /* by side */
	struct event epoch_landing; /* scheduled while the gateway writes one */
	enum epoch_kind epoch_kind;
	uint64_t epoch_asked;
	int epoch_error;    /* what that ends with */
	uint64_t epochs_us; /* what writing them takes, of all since it was started */
	uint64_t started_us;
	uint64_t assembled_us;			/* the engine was seen to run since */
	uint64_t flushes_before[SIM_SLOTS_MAX]; /* answered by each device */
	uint64_t turn_us;			/* when its turn began */
	bool key_met; /* it failed, for a member had a dead gateway's reservation */
	/* The gateway that died had all it was writing in the write log, and none has run since. */
	bool logged;
	bool log_void;		/* so many members die that it may go with them */
	bool log_proven;	/* also for who is out then and was not before */
	uint32_t log_keys;	/* drawn so far */
	bool running_seen;	/* since it was started, it has been assembled */
	bool struck_assembling; /* a fault struck since it was started, and before that */
	bool stopping, stopped;
	bool fenced_fairly; /* it has met an earlier gateway's reservation */
	bool stranger;	    /* the engine that runs is another gateway's */
	uint64_t taking_us; /* since then another gateway takes members; 0: none does */
	/* some member was in trouble when that began: it can't be asked */
	bool taking_troubled;
	uint64_t taken_us; /* since then it has all of them */
	/* The gateway is to die a few turns after the engine next says that it does something of
	 * weight.
	 */
	bool armed;
	int crash_in; /* turns; 0: not yet known */
	bool crash_due;
	enum fault_kind crash_kind; /* FAULT_CRASH, _BLACKOUT or _STOP */
	/* the engine logged something: its status may have changed */
	bool look;
	struct engine_status status;
	/* by device: its place, in sync or being filled; -1: none */
	int roles[SIM_SLOTS_MAX];
	int holder[SIM_MEMBERS_MAX]; /* by role: device that is in sync there; -1: none */
	/* sessions that ended while nobody could make up for what a cache held */
	uint64_t cache_losses;
	/* when that ended: what overlaps it may have been told instead */
	uint64_t told_us;
	uint64_t cache_losses_told; /* of them, before the last flush that succeeded began */

	/* oracle, by sector */
	uint32_t *floor;   /* newest write that a read must at least return */
	uint32_t *flushed; /* the same after a loss of all caches */
	uint32_t *submitted;
	/* what a cache took along, and no flush that failed has told of since; 0: nothing */
	uint32_t *untold;
	bool any_untold;
	uint64_t flush_failed_us; /* when one last did */
	/* number of the newest write of zeros, and of the one before */
	uint32_t *zero_latest, *zero_before;
	uint64_t *zero_ended_us; /* when one last ended */
	uint8_t *traits;
	uint32_t writes;
	/* by row: parity may be wrong, by a crash or a write that failed */
	bool *unsure;
	/* by row: its region was dirty at a stop that said that all was on record; unsure when that
	 * no longer counts
	 */
	bool *open;
	/* by row: for all the gateway that runs knows, its parity was never made */
	bool *unproven;
	/* by row: its region was never clean on record since it was made, or forced */
	bool *raw;
	/* by row: written since its region was last known to be clean */
	bool *touched;
	/* by row: its region was written, for all the gateway that runs found in the maps: it can't
	 * tell which rows were not
	 */
	bool *found_written;
	bool *unflushed; /* by row: written since the last flush that covers it */
	/* by row: when a write of it was last submitted, or ended */
	uint64_t *written_us;
	uint32_t *dropped_roles; /* by row: members whose cache lost something of it */
	uint64_t *dropped_us;	 /* by row: when one last did */
	uint64_t *damaged_us;	 /* by row: when something of it last could not be read any more */
	/* by row: members on which sectors of it were made unreadable */
	uint32_t *damaged_roles;
	uint32_t out_roles;   /* not in sync now */
	uint64_t changed_us;  /* when somebody last came or went */
	uint32_t leaving;     /* roles that are to go: of a start by force */
	uint32_t wiped_roles; /* in sync as far as the engine knows, and empty */
	uint64_t reverted_us; /* when that last happened to some sector */
	/* when rows last became unsure because members had been silent together */
	uint64_t caches_gone_us;

	/* load */
	struct sim_request *active, *spare_requests;
	struct sim_request *quarantine_head, **quarantine_tail;
	uint32_t quarantined, active_count, depth;
	uint64_t next_sector; /* a sequential writer's */
	uint64_t hot_row, hot_rows;

	uint32_t step; /* under way */
	uint64_t events;
};

/* Runs the seed; does not return if it fails (exit status SIM_EXIT_FAILED, message filled in). */
void sim_run(const struct sim_options *options);

void
sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sim_run.c */
void sim_advance(struct sim *sim, uint64_t until_us);
/* Until the condition holds; false: it does not within limit_us. */
bool sim_wait(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t limit_us);
void sim_turn(struct sim *sim); /* the engine runs once */
void sim_start(struct sim *sim);
void sim_crash(struct sim *sim);
void sim_stop(struct sim *sim);
void sim_stranger(struct sim *sim);
/* What it is recording lands at once. */
void sim_epoch_land_now(struct sim *sim);
void sim_look(struct sim *sim); /* refresh status, and what follows from it */

/* The same as another gateway, if that is wanted, which takes the volume over. */
void sim_take_over(struct sim *sim, bool another);
bool sim_is_drained(struct sim *sim); /* no request is under way */

/* sim_gateway.c */
void gateway_strike(struct sim *sim, enum fault_kind kind, uint64_t *random);

/* sim_former.c */
struct fake_member *sim_session(struct sim *sim, int m); /* of the gateway that runs */
unsigned int sim_gateway_number(const struct engine_options *options);
void former_init(struct sim *sim);
void former_free(struct sim *sim);
void former_strike(struct sim *sim, uint64_t *random);
void former_step(struct sim *sim);
void former_turn(struct sim *sim);
uint64_t former_due_us(const struct sim *sim);
uint64_t former_stood_us(const struct sim *sim);
void former_end(struct sim *sim);	   /* it is fenced, or dies, or is stopped */
void former_succeeded(struct sim *sim);	   /* it has died, the other one is started */
void former_kill(struct sim *sim);	   /* it dies */
void former_sees_running(struct sim *sim); /* the other one runs */
void former_submits(struct sim *sim, struct sim_request *request); /* a write */
void former_judge(struct sim *sim, struct sim_request *request, int result);
void former_records(struct sim *sim, enum epoch_kind kind, uint64_t epoch);
bool former_is_void(const struct sim *sim, uint32_t number);
uint64_t former_sectors(const struct sim *sim);	     /* of the volume, as it knows it */
bool former_unreached(const struct sim *sim, int m); /* by the gateway that runs */
bool former_holds(const struct sim *sim);	     /* the reservation of some device */
void former_lets_go(struct sim *sim, int m);	     /* a device that is added */
bool former_uses(struct sim *sim, int m);	     /* by an open session */
/* what is called back is not of the gateway that runs */
bool former_speaks(const struct sim *sim);

/* sim_clone.c */
void clone_strike(struct sim *sim, uint64_t *random);
void clone_look(struct sim *sim); /* nobody may have written to one */
/* those that can't be known are taken away before */
void clone_starts(struct sim *sim);
void clone_end(struct sim *sim); /* an administrator removes them */
/* this device is none, or there are none of it, any more */
void clone_forget(struct sim *sim, int m);

/* sim_force.c */
void force_strike(struct sim *sim, uint64_t *random);

/* sim_halves.c */
void halves_strike(struct sim *sim, uint64_t *random);
/* sim_log.c */
void log_strike(struct sim *sim, uint64_t *random);

/* sim_pair.c */
void pair_strike(struct sim *sim, uint64_t *random);
void halves_crash(struct sim *sim, uint64_t *random); /* the same, from the crash that is due */

/* sim_ability.c */
void ability_draw(struct sim *sim);
bool sim_can(const struct sim *sim, enum ability_name ability); /* this life */
/* a sequence of its own, for the beginning */
uint64_t ability_random(const struct sim *sim, enum ability_name ability);
/* for all lives; false: there is none of that name */
bool ability_switch(const char *name, bool on);
void ability_list(void);

/* sim_rot.c */
void rot_step(struct sim *sim, uint64_t *random); /* at a quiescence */
/* a read there may have been made from a falsified block */
bool rot_reaches(struct sim *sim, uint64_t sector);

/* sim_load.c */
void load_init(struct sim *sim);
void load_free(struct sim *sim);
void load_submit(struct sim *sim, uint64_t *random);
void load_wide_write(struct sim *sim, uint64_t *random);
void load_small_write(struct sim *sim, uint64_t *random); /* anywhere */
void load_read(struct sim *sim, uint64_t *random);
void load_read_of(struct sim *sim, int role, uint64_t *random); /* of its member's chunks */
void load_flush(struct sim *sim);
void load_sequential(struct sim *sim, uint64_t *random);
void load_read_all(struct sim *sim);
void load_overwrite_damage(struct sim *sim); /* whole rows with unreadable sectors */
void load_abandon(struct sim *sim);	     /* the gateway died: nobody answers */
void load_abandon_former(struct sim *sim);
void load_check_quarantine(struct sim *sim, bool everything);

/* sim_admin.c */
void admin_step(struct sim *sim, uint64_t *random);
void admin_cascade(struct sim *sim, int m, bool replace); /* it is failed, or replaced */
void admin_size_seen(struct sim *sim);			  /* the engine says how large it is */
/* impatient: whoever is not in sync is replaced */
void admin_repair(struct sim *sim, bool patient);
/* what a rebuild waits for, because nobody can know it */
void admin_accept_wanted(struct sim *sim);
void admin_format_spare(struct sim *sim, int m);
bool admin_attach_old(struct sim *sim, int m);
void admin_detach(struct sim *sim, int m);
void admin_detached(void *owner, int slot, struct backend *backend);
void admin_wants_spare(void *owner, uint64_t member_bytes, uint32_t block_bytes);

/* sim_format.c */
void format_draw_shape(struct sim *sim);
void format_media(struct sim *sim);

/* sim_fault.c */
void fault_init(struct sim *sim);
void fault_inject(struct sim *sim, uint64_t *random);
void fault_strike(struct sim *sim, enum fault_kind kind, uint64_t *random); /* some member */
/* this member */
void fault_strike_briefly(struct sim *sim, enum fault_kind kind, int m, uint64_t lasts_us);
void fault_crash(struct sim *sim, uint64_t *random);	   /* the one that was armed */
void fault_resume_load(struct sim *sim, uint64_t *random); /* after silence, perhaps */
bool fault_troubled(const struct sim *sim);		   /* somebody is in trouble */
/* a device went back in time, and alone it would be taken for the volume */
bool fault_only_others_know(const struct sim *sim);
void fault_trouble(struct sim *sim, int m, uint64_t lasts_us);
void fault_update_excess(struct sim *sim);
void fault_end_conflicts(struct sim *sim);
bool fault_is_possible(const struct sim *sim, enum fault_kind kind); /* in this life */
bool fault_others_are_well(const struct sim *sim, int m);
bool sim_read_superblock(const struct disk *disk, struct superblock *superblock);
void fault_cure_all(struct sim *sim); /* and the engine gets the time to notice */

/* sim_raw.c, sim_record.c */
/* which regions are raw still, by the members' maps */
void raw_look(struct sim *sim);
/* which regions the gateway that was just assembled takes for written, by the members' maps */
void raw_assembled(struct sim *sim);
/* roles that are out, or changing hands, to some superblock of others */
uint32_t record_away(const struct sim *sim, int but);
bool record_knows_older(const struct sim *sim, int role, const struct superblock *old);

/* sim_oracle.c */
void oracle_init(struct sim *sim);
void oracle_free(struct sim *sim);
void oracle_crashed(struct sim *sim);
void oracle_map_damaged(struct sim *sim); /* of some member */
/* as after a crash */
void oracle_open_rows(struct sim *sim, const struct sim_request *request);
/* a write, by another gateway */
void oracle_acknowledged(struct sim *sim, const struct sim_request *request);
void oracle_flushed(struct sim *sim, const struct sim_request *request); /* the same */
void oracle_stopped(struct sim *sim);
/* a flush failed, or there is no gateway any more */
void oracle_told(struct sim *sim);
void oracle_assembled(struct sim *sim); /* it is known who started */
void oracle_grown(struct sim *sim, uint64_t rows_before);
void oracle_session_restored(struct sim *sim, int m);
void oracle_out_changed(struct sim *sim, uint32_t out_roles);
void oracle_sector_dropped(void *owner, struct fake_member *member, uint64_t offset_bytes);
void oracle_member_wrote(void *owner, struct fake_member *member, uint64_t offset_bytes,
			 uint32_t length_bytes);
void oracle_wiped(struct sim *sim, int role);
/* members are about to leave */
void oracle_before_force(struct sim *sim, struct forced_start *start);
/* Members that left then are taken as they stand, for others are dead: these roles. */
void oracle_forced(struct sim *sim, const struct forced_start *start, uint32_t left, uint32_t dead);
void oracle_after_force(struct forced_start *start);
void oracle_damaged(struct sim *sim, int role, uint64_t row);
void oracle_look_at_damage(struct sim *sim);
void oracle_quiescent(struct sim *sim); /* the media were checked, everything is in sync */
/* what a read returns is certain */
bool oracle_settled(const struct sim *sim, uint64_t sector, uint64_t count);
void oracle_submitted(struct sim *sim, struct sim_request *request); /* a write */
const char *sim_op_name(enum request_op op);
void oracle_judge(struct sim *sim, struct sim_request *request, int result);
/* before the engine goes on, which may let what it lists now count as data */
void oracle_accepting(struct sim *sim);
void oracle_mended(struct sim *sim, uint64_t row, bool by_former);
/* submit_us: since when the bytes may have been read. */
void oracle_sector(struct sim *sim, uint64_t sector, const uint8_t *bytes, uint32_t floor,
		   uint64_t submit_us, const char *where);
uint32_t sim_region(const struct sim *sim, uint64_t row);
uint64_t sim_sector_row(const struct sim *sim, uint64_t sector);
/* The row of a role's chunk at this offset of its data area. */
uint64_t sim_row_at(const struct sim *sim, int role, uint64_t offset_bytes);
/* its first sector */
uint64_t sim_row_begin(const struct sim *sim, uint64_t row);
bool sim_has_parity(const struct sim *sim);
bool sim_is_write(const struct sim_request *request);
/* The row's share of these roles is more than it can do without. */
bool sim_too_many(const struct sim *sim, uint64_t row, uint32_t roles);
/* Its P and Q may be worth nothing. */
bool sim_is_unproven(const struct sim *sim, uint64_t row);
/* Members on which something of these columns of the row can't be read now. */
uint32_t
oracle_damaged_at(const struct sim *sim, uint64_t row, uint64_t column, uint64_t length_bytes);
/* What can't be read is more than the row can do without. */
bool oracle_damage_is_excessive(const struct sim *sim, uint64_t row);

/* sim_fair.c */
/* Before the engine goes on: remember what requests under way may fail for. */
void fair_look(struct sim *sim);
/* It failed with this error: the life ends if there was no reason. */
void fair_judge(struct sim *sim, const struct sim_request *request, int result);

/* sim_time.c */
/* for how long the gateway has stood still, in all */
uint64_t time_stood_us(const struct sim *sim);
/* a gateway's clock that stands still with it */
uint64_t time_awake_us(const struct sim *sim, bool former);
/* at pieces of long ranges of zeros: a gateway had its turn */
void time_look(struct sim *sim, bool former);
/* it ended now, or its gateway did */
void time_judge(struct sim *sim, const struct sim_request *request);
void time_judge_stop(struct sim *sim, uint64_t began_us, uint64_t stood_us); /* it ended now */
/* a member's, from now on */
void time_set_answers(struct sim *sim, int m, uint64_t least_us, uint64_t most_us);
void time_look_at_memory(struct sim *sim); /* the engine may have been refused some */
/* For how long since then the engine had no memory, or, with "slow", some member was slow. */
uint64_t time_held_up_us(struct sim *sim, uint64_t since_us, bool slow);
void time_count_slow(struct sim *sim);	 /* what was asked in the last turn, up to now */
void time_look_at_slow(struct sim *sim); /* a turn has ended */
/* for how long, in all, the gateway's slow members had something to answer */
uint64_t time_slow_us(const struct sim *sim);
/* an answer of any member, at any time since then */
uint64_t time_slowest_us(const struct sim *sim, uint64_t since_us);
/* and watch it for as long as a request may take */
void stay_begin(struct sim *sim, uint64_t *random);
void stay_end(struct sim *sim);
const char *stay_name(enum stay_kind kind);

/* sim_where.c */
bool engine_table_is_full(const struct engine *engine); /* of lost extents: rows stay suspect */
uint64_t engine_where(const struct engine *engine);
bool engine_holds_marks(const struct engine *engine); /* of regions that are being written */
/* a start after a crash now has all that is being written in the log */
bool engine_log_keeps(const struct engine *engine, bool *proven);
/* a turn after the last one finds nothing to do */
bool engine_is_done(struct engine *engine, uint64_t now_ms);
void where_note(struct sim *sim, enum fault_kind kind);
void where_print(const uint64_t met[WHERES][FAULT_KINDS]);
/* sim_wanted.h, as these lives would have it */
void where_print_wanted(const uint64_t met[WHERES][FAULT_KINDS]);
void steer_init(struct sim *sim);
void steer(struct sim *sim); /* the engine has had its turn */

/* sim_cascade.c */
void cascade_init(struct sim *sim);
void cascade(struct sim *sim); /* the engine has had its turn */

/* sim_check.c */
void check_media(struct sim *sim);
void check_eviction(struct sim *sim, const struct engine_event *event);

#endif
