/* internal.h - what the files of members/ know of each other, beside members.h. */
#ifndef IRAID_ENGINE_MEMBERS_INTERNAL_H
#define IRAID_ENGINE_MEMBERS_INTERNAL_H

#include "members.h"
#include "engine/record/record.h"

#define BACKOFF_FIRST_MS 100u /* between attempts to open a session; doubled each time */

/* --- member.c --- */

bool member_may_open(const struct member *member);    /* when retry_ms is there */
bool member_wants_proof(const struct member *member); /* ... or it is to be asked whose it is */
void member_fence_off(struct member *member);	      /* another gateway has the volume */

/* --- evict.c --- */

void evict_session_ended(struct member *member);  /* ... which was of use */
void evict_stalled(struct member *member);	  /* ... the same: did it get on at all? */
void evict_answered(const struct member_io *mio); /* it did */
void evict_cut_off(struct member_io *mio);	  /* it did not */
/* its session was ended a moment ago: it may take another */
bool evict_in_grace(const struct member *member);
/* The others suffice, answer, and lost nothing themselves: the volume can do without this one. */
bool evict_spares(const struct engine *engine, const struct member *member);
/* ... and the others have what its cache may have lost */
bool evict_makes_up_for_cache(const struct engine *engine, const struct member *member);
/* out until an administrator takes it back: member->reason says what for */
void member_exclude(struct member *member);
/* as evict_condemn(), and its reservation goes, too */
void evict_give_back(struct member *member);
void evict_cancel(struct member *member); /* it is back before it was out */
/* what waits for it is sent, once that is on record */
void evict_resume(struct member *member);
/* superblocks, and this gateway, say so */
bool evict_on_record(struct engine *engine, uint64_t record, uint64_t epoch);
/* somebody is about to go: the epoch it must not outlive */
uint64_t evict_raise_epoch(struct engine *engine);

/* a sign of life: any command will do, and a read changes nothing */
void evict_probe(struct member *member);

/* --- place.c --- */

bool place_tracked(const struct engine *engine, const uint8_t uuid[16]);
/* that it has, or a free one, or -1 */
int place_set_for(const struct engine *engine, const uint8_t uuid[16]);
void place_record_target(struct engine *engine); /* by the set it has */
/* whoever had it counts for nothing that is lost, listed or not */
void place_disbelieve(struct engine *engine, int role);
/* that was said of it, and it was not filled from the start since */
bool place_was_one_of_two(const struct member *member);

/* --- target.c --- */

/* is it durable that it takes its place, or that it does not? */
void target_settle(struct engine *engine);
void target_dismissed(struct member *former); /* superblocks know: whom it replaced may go */
/* Whoever is being replaced says that another gateway has it.  If it is the last copy that gateway
 * needs no other, and has the volume.
 */
void target_contested(struct member *former);

/* --- dispute.c --- */

void dispute_begin(struct member *member);
void dispute_run(struct engine *engine);
bool dispute_is_question(const struct member_io *mio);

/* --- lease.c --- */

void lease_answered(const struct member_io *mio, int result);

#endif
