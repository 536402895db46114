/* fake_member.h - a member in memory, in virtual time, that can fail in the ways real ones do.
 *
 * Commands take a random time and so complete in any order; each takes effect when it is answered.
 * When a session ends, what becomes of its unanswered writes is drawn for each: done with the
 * answer lost, done in part (by block), not done, or done LATE: at any time until the next session
 * is opened, which is as far as ports/backend.h lets an adapter go.  With a volatile cache, what
 * was written since the last flush can be lost, block by block, when the power goes.
 *
 *	          session            unanswered writes               cache
 *	cut       ends               drawn as above                  kept
 *	cut off   ends after the     done or not, none is            kept
 *	          deadline           answered
 *	hang      ends after the     late, once it goes on           kept
 *	          deadline
 *	power     ends               done, in part, or not           lost by block
 */
#ifndef IRAID_FAKE_MEMBER_H
#define IRAID_FAKE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "ports/backend.h"
#include "schedule.h"

struct fake_member;

struct fake_command {
	struct event event; /* its answer, or the landing of a late write */
	struct fake_command *next;
	struct fake_member *member;
	struct backend_io *io; /* NULL: a late write */
	uint8_t *copy;	       /* of a late write */
	uint64_t offset_bytes;
	uint32_t length_bytes;
	bool checked;	   /* of some writes: */
	uint32_t checksum; /* its data when it was submitted */
	bool fua;
	bool diverted;
	bool unsent; /* it was diverted before the device had it */
	uint64_t submit_us;
	/* submitted after the session's end: fails, and nothing else */
	bool orphan;
	bool undelivered; /* the link was down: the device never got it */
	bool done;	  /* took effect, the answer is not out yet */
	int result;
};

struct fake_counts {
	uint64_t answers_lost, torn, late, late_landed, late_fenced, sectors_lost, medium_errors;
	uint64_t diverted;
};

/* A device and a gateway's session with it.  A second gateway's session has a struct of its own, of
 * which only what is marked as the session's counts: everything else is the device's, and stands in
 * the first one.
 */
struct fake_member {
	struct backend backend; /* must be first; the session's, as all of the part below */

	/* The session's. */
	struct fake_member *device; /* itself, but in a second session */
	struct schedule *schedule;
	uint64_t *random;
	uint64_t deadline_us; /* without progress the session ends */
	/* it ends when one is unanswered for so long, though others are; 0: never */
	uint64_t command_us_max;
	/* an adapter that sends again at the deadline, without dropping the session */
	bool reissues;
	bool away;		  /* this gateway has no way to it, others may */
	unsigned int gateway;	  /* whose it is: number, not 0 */
	bool may_take;		  /* another's reservation, at the next log-in */
	bool was_taken;		  /* a session was opened with its reservation */
	unsigned int predecessor; /* of whom the reservation was last preempted; 0: nobody */
	bool told_cache;	  /* its last log-in said that the device has a cache */
	/* A write arrived in the device's cache by this session, or may have: the session ended
	 * before it was answered.
	 */
	void (*wrote)(void *owner, struct fake_member *device, uint64_t offset_bytes,
		      uint32_t length_bytes);

	/* The device's. */
	struct fake_member *second; /* another session with it; NULL: none */
	char label[32];
	struct disk disk;
	struct disk *foreign;	 /* another device that answers at its address, or NULL */
	uint64_t capacity_bytes; /* as it tells: not more than the disk's */
	bool reservations;	 /* it knows them: */
	unsigned int holder;	 /* a gateway's number; 0: nobody */
	uint64_t answer_us_min, answer_us_max;
	uint64_t superblock_us_max; /* a write of a superblock takes up to so much longer */
	uint64_t close_us_max;	    /* a session takes so long to end */
	bool reachable;		    /* open() succeeds, through a path that is up */
	bool path_down[2];
	bool refuse_writes;
	bool refuse_reads;
	bool refuse_flushes;
	uint64_t refuse_from_bytes, refuse_to_bytes; /* writes of this part only; 0, 0: none */
	uint64_t refused_offset_bytes;		     /* reads of this block only; 0: none */
	int stuck_error; /* of reads where the disk is stuck; 0: a medium error */
	/* a reservation conflict for every write; late ones land all the same */
	bool conflicts;
	bool conflicts_on_reads;   /* one for every read */
	bool conflicts_at_login;   /* and then no session is offered */
	uint32_t told_block_bytes; /* at the next log-in; 0: the disk's */
	bool hides_cache;	   /* says that it has none */
	bool had_cache;		   /* in some session */
	/* commands from here on are not answered, though log-ins are; UINT64_MAX: none */
	uint64_t mute_from_bytes;
	uint64_t mute_to_bytes; /* ... up to here */
	/* by another gateway: what was in flight is aborted, writes conflict */
	bool taken;
	bool taken_told; /* a session has been told so */
	/* a take-over leaves the other gateway's sessions as they are */
	bool preempts_nothing;
	/* its reservations bar only writes: no take-over proves anything of it */
	bool shares_reads;
	/* LOGICAL UNIT RESET does not keep late writes from landing */
	bool fence_broken;
	bool no_fua;
	bool zeros_sent; /* it has no command for zeros */
	bool cache_kept; /* since the last session; a loss of power clears it */
	bool trace;	 /* tell of every command, on stderr */
	bool written;	 /* set by every write; for "nothing is written" */
	uint64_t reads, writes, zeros, flushes; /* zeros: of the writes */
	uint64_t flushes_answered;
	struct fake_counts counts;
	/* Tells of each sector that a loss of power took from the cache. */
	void (*sector_lost)(void *owner, struct fake_member *member, uint64_t offset_bytes);
	/* An engine hears, with an event of a session, of a deferred error; NULL: not wanted. */
	void (*word_broken)(void *owner, struct fake_member *session);
	uint32_t words_told; /* of the session's backend.writes_lost */
	/* A write of a session took effect, perhaps in part; NULL: not wanted. */
	void (*landed)(void *owner, struct fake_member *session, uint64_t offset_bytes,
		       uint32_t length_bytes);
	void *owner;

	/* The fake's own, of the device: */
	bool hung, cut_off;
	uint64_t refused_us; /* when a command was last answered with -EIO; 0: never */
	struct fake_command *late;
	/* Of the session: */
	bool open_now, opening, closing, releasing;
	/* another gateway took the reservation from it: its writes conflict */
	bool preempted;
	int path;
	struct event session; /* an opening or closing that is under way */
	struct event watch;   /* its deadline */
	uint64_t progress_us;
	struct fake_command *queue; /* in flight, newest first */
	int queued;
	struct fake_command *free_commands;
};

void fake_member_init(struct fake_member *member, const char *label, uint64_t bytes,
		      uint32_t block_bytes, struct schedule *schedule, uint64_t *random);
void fake_member_free(struct fake_member *member); /* and its second session */

/* Another gateway's session with this device. */
void
fake_member_init_second(struct fake_member *member, struct fake_member *device, uint64_t *random);

/* Somebody else opens a session, as who formats it does: nothing lands late any more. */
void fake_member_fence(struct fake_member *member);

/* Another gateway preempts and aborts: nothing of this session's takes effect any more, and no
 * other session is offered.
 */
void fake_member_take(struct fake_member *member);

/* Another gateway has the device, and has fenced this one's session off. */
bool fake_member_is_fenced(const struct fake_member *session);

/* What follows is about the device, and so about all sessions with it.
 *
 * They end at once (connection reset). */
void fake_member_cut(struct fake_member *member, bool reachable_again);

/* The same of one gateway's, first or second; away: it can't be had again until
 * fake_member_cut_session(member, false).
 */
void fake_member_cut_session(struct fake_member *member, bool away);

/* Nothing is answered any more; commands pile up until the deadline ends the session. */
void fake_member_hang(struct fake_member *member);
void fake_member_continue(struct fake_member *member);

/* The link is down, the device lives: as a hang, but what had arrived is carried out. */
void fake_member_link(struct fake_member *member, bool up);

/* The gateway died: its session, first or second, is gone without a word. */
void fake_member_abandon(struct fake_member *member);

/* The target is started anew: sessions and reservation are gone, and its cache is not. */
void fake_member_restart(struct fake_member *member);

/* The session ends, and each unflushed block is kept or lost. */
void fake_member_power_loss(struct fake_member *member, bool reachable_again);

/* The same is lost, and told: a deferred error.  Power and reservation stayed. */
void fake_member_break_word(struct fake_member *member);

/* Is a write in flight that touches [offset_bytes, offset_bytes + length_bytes)? */
bool
fake_member_writing(const struct fake_member *member, uint64_t offset_bytes, uint64_t length_bytes);

#endif
