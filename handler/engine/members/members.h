/* members.h - who is a member: what its answers and the ends of its sessions mean, who is out, who
 * takes a place.
 *
 *	member.c	answers, sessions		evict.c		silence, evidence, eviction
 *	place.c		what a device is		target.c	the member that is being filled: begin, lost, done
 *	dispute.c	is there another gateway?		lease.c		is the volume still ours?
 */
#ifndef IRAID_ENGINE_MEMBERS_H
#define IRAID_ENGINE_MEMBERS_H

#include "engine/core/core.h"
#include "engine/link/link.h"

/* --- member.c --- */

/* false: no memory */
bool member_create(struct engine *engine, struct backend *backend, int slot);
void member_open(struct member *member);
/* its session, or the opening of one; its reservation stays */
void member_close(struct member *member);
void member_handle_events(struct member *member);
void member_handle_answer(struct member_io *mio);

/* --- evict.c --- */

struct eviction {
	/* of the last eviction that was taken back; 0: that is on record */
	uint64_t kept_record;
	uint64_t not_before_ms;
	/* geometry_quorum() with these out; 0: not looked at */
	int quorum;
	uint32_t quorum_out;
};

/* of an assembly's epoch, where evictions raise it too: more than can be under way */
#define EPOCH_STEP 64u

void evict_member_silent(struct member *member); /* its session ended */
/* it may go, beside those that went */
bool evict_bearable(const struct engine *engine, const struct member *member);
/* Its data can be made of the others, row by row: else what it alone can still be read of, in rows that
 * a crash or a cache has left unproven, is lost when it goes.
 */
bool evict_loses_nothing(const struct engine *engine);
void evict_condemn(struct member *member); /* answers or not: it must go */
void evict_exclude(struct member *member); /* ... and stay out */
/* it is on its way out: superblocks don't wait for it any more */
void evict_unawaited(struct member *member);
/* who is out, or is not after all: it is not on record yet */
bool evict_undecided(const struct engine *engine);
void evict_run(struct engine *engine);
uint64_t evict_deadline(const struct engine *engine);

/* --- place.c --- */

struct places {
	/* REGION_STALE() of sets that belong to nobody once forget_record is durable */
	uint8_t forgetting;
	uint64_t forget_record;
	/* when a superblock was read last that was not known so before */
	uint64_t heard_ms;
	uint64_t epoch_found;  /* that the members had when they were assembled */
	uint64_t epoch_before; /* and before this start wrote to any */
	/* of the gateway that the volume was taken from; 0: none.  Who was away then has it yet */
	uint64_t predecessor_key;
	/* a member that this start chose was written by another gateway since */
	bool another_met;
	uint64_t restored_ms; /* when a session was last restored, by engine_clock_ms() */
	/* too few answer for a take-over to succeed: none is taken from another gateway */
	bool waits_to_take;
};

void place_examine(struct member *member); /* a session was opened: who is it? */
/* What was found there is flushed. */
void place_make_durable(struct member *member, void (*done)(struct member_io *mio, int result),
			void *owner);
/* It is, of one that is to be filled: others are told how many superblocks it has.  False: soon. */
bool place_is_durable(struct member *member);
void place_all(struct engine *engine); /* the volume runs: judge those who answered meanwhile */
/* Is there a set for who is to be filled as `role`?  If not, one is given up; ask again. */
bool place_make_room(struct engine *engine, const struct member *member, int role);
/* write_count: what its superblock has at least; 0: as known.  Returns the set, or -1. */
int place_track(struct engine *engine, int role, const uint8_t uuid[16], enum member_state state,
		uint64_t write_count);
void place_untrack(struct engine *engine, int set);
/* These sets' flags are cleared when the superblocks know that nobody is tracked by them; commits
 * the record.
 */
void place_forget(struct engine *engine, uint8_t stale);
void place_run(struct engine *engine);
/* Its UUID is another's: it is not to be taken, and says why. */
bool place_is_another(struct member *member);
/* the volume does without it */
void place_misfits(const struct engine *engine, struct member *member);
/* Its device has at least what it had when it was formatted, or the volume has since, in the right
 * blocks.
 */
bool place_unchanged(const struct engine *engine, const struct member *member);
enum member_state place_state(const struct member *member); /* for status; 0: not known */

/* --- target.c: from begin to done it is engine->target --- */

struct target_state {
	/* generation of the map in which its stale flags are durable */
	uint64_t map;
	uint64_t epoch; /* of superblocks that give it the place, or take it back */
	/* whose place it takes: what is to be on record if it comes to nothing */
	uint8_t former[16];
	uint8_t former_state;
	/* an administrator wants it filled anew on replace_slot; -1: no */
	int replace_role;
	int replace_slot;
	uint64_t spare_wanted_ms; /* when the driver was last asked for a spare; 0: not yet */
};

void target_begin(struct member *member, int role);
/* nobody chooses it, until an administrator takes it back */
void target_give_up(struct member *member);
/* its session ended, or it failed: what it is then */
void target_lost(struct engine *engine, enum member_state state);
/* Do those in sync know, durably, that it is about to take its place? Ask in each turn. */
bool target_announced(struct engine *engine);
/* every row is on it, flushed: it takes its place, once that is durable */
void target_complete(struct engine *engine);
void target_run(struct engine *engine);
/* it may be sent rows, and others may be copied to it */
bool target_may_copy(const struct engine *engine);

/* --- dispute.c --- */

void dispute_end(struct member *member);
void
dispute_ask(struct member *member, void (*done)(struct member_io *mio, int result), void *owner);
uint64_t dispute_deadline(const struct engine *engine);

/* --- lease.c --- */

#define LEASE_SOON_MS 20u /* so long a member that was sent something may be about to answer */

/* so many members have to say it; 0: nobody needs to */
int lease_needed(struct engine *engine);
/* They do: of what they answered, each was sent something after that moment, or in time.  now_ns:
 * engine_clock_ns(), later than the moment; 0: not by time.
 */
bool lease_holds(struct engine *engine, uint64_t since, uint64_t now_ns, int needed);
/* those that are missing */
void lease_ask(struct engine *engine, uint64_t since, int needed);

#endif
