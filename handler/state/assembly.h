/* assembly.h - may these members be started together, and which of them are trusted?  A pure
 * decision on the superblocks that could be read.
 *
 * The newest superblock, by (epoch, event), tells the truth about all members: it was durable on
 * every in-sync member before anything was acknowledged under it.  A member is trusted when the
 * newest says it is in sync, whatever its own says; one that the newest calls faulty or missing is
 * out of date, even if its own superblock claims otherwise.
 *
 * Devices come in any order and number: roles are in the superblocks.  A role nobody holds is
 * missing.
 *
 * What starts, N members, level bears f of them:
 *
 *	N trusted				at once (the engine waits a little for devices it has not heard of)
 *	N-f or more trusted			when the others had time to come (ASSEMBLY_DEGRADED meanwhile)
 *	fewer trusted, some out of date		refused; with force the newest of those out of date are taken as
 *						they stand until there are N-f.  Costs what was written since they
 *						left: the regions stale on them count as dirty
 *	older than epoch_seen			refused; with force what only newer members hold is lost
 *	fewer than N-f devices			never
 *
 * Two disjoint sets can't both start unforced while f < N/2 (level 5: N-1 of N twice is more than
 * N); on levels where they could (1, 10, 6) the newest epoch wins, and the gateway's epoch_seen
 * refuses the other.
 */
#ifndef IRAID_ASSEMBLY_H
#define IRAID_ASSEMBLY_H

#include <stdbool.h>
#include <stdint.h>

#include "../pure/layout.h"

/* devices of a volume: members, replacements, spares */
#define SLOTS_MAX (IRAID_MEMBERS_MAX + 8)

enum presence {
	PRESENCE_ABSENT,   /* no device in this slot */
	PRESENCE_AWAITED,  /* no answer yet, or not reachable: may still come */
	PRESENCE_EXAMINED, /* its superblock is known */
	/* the same, but it has changed (smaller, other blocks): no member, but it knows who is out
	 */
	PRESENCE_MISFIT,
	PRESENCE_SPARE, /* has a spare's mark that this volume may use */
	/* reachable, but has no superblock of ours: will not become a member by waiting */
	PRESENCE_REJECTED,
};

enum standing {			  /* what a device is under the newest superblock */
		STANDING_UNKNOWN, /* not examined, or nothing of ours: see fault */
		STANDING_IN_SYNC,
		STANDING_OUT_OF_DATE, /* tracked: its set says what it lacks */
		STANDING_REBUILDING,  /* tracked: was being filled */
		/* was a member; all of it would have to be written anew, or its place was taken */
		STANDING_OBSOLETE,
		STANDING_SPARE,
};

/* What the superblock of a member said when an assembly took it, before it was written to. */
struct taken_as {
	/* false: it was not taken, or it was filled from the start since */
	bool known;
	uint8_t uuid[16];
	uint64_t epoch, event;
	uint64_t write_count;
	bool copy_lost;
};

struct assembly_input {
	int count; /* slots looked at: 0 .. SLOTS_MAX */
	enum presence presence[SLOTS_MAX];
	/* of the examined, and of those that have changed */
	const struct superblock *superblocks[SLOTS_MAX];
	/* awaited, but it had been examined before it went: who is it? */
	bool said[SLOTS_MAX];
	/* examined, but its part in each attempt failed: its word counts */
	bool unsteady[SLOTS_MAX];
	/* only one copy of it could be read: the other may have been one write newer */
	bool copy_lost[SLOTS_MAX];
	/* known: an assembly that began again may have written to it since */
	struct taken_as found[SLOTS_MAX];
	uint64_t epoch_before; /* newest before that */
	const uint8_t *volume_uuid;
	uint64_t epoch_seen;
	bool force;
};

enum assembly_answer {
	ASSEMBLY_WAIT,	   /* too few members so far */
	ASSEMBLY_DEGRADED, /* could start, without some that may still come */
	ASSEMBLY_READY,	   /* start: nobody else is to be waited for */
	ASSEMBLY_REFUSED,  /* not without an administrator */
};

struct assembly_verdict {
	enum assembly_answer answer;
	/* slot of the member whose superblock rules; -1 if none */
	int newest;
	int role[SLOTS_MAX]; /* by slot; -1 */
	enum standing standing[SLOTS_MAX];
	int stale_set[SLOTS_MAX]; /* of tracked[]; -1 */
	/* IN_SYNC only because of force: stale_set (-1: everything) is dirty */
	bool forced[SLOTS_MAX];
	const char *fault[SLOTS_MAX]; /* why it is not in sync; NULL if it is */
	/* OBSOLETE: it is older than what it had acknowledged, or somebody else wrote to it since:
	 * it holds nothing that it held
	 */
	bool went_back[SLOTS_MAX];
	/* roles of those that are older, and of those that are there twice: a set of bits */
	uint32_t distrusted;
	/* Those that are missing could have gone on without all that are there
	 * (docs/design/levels.md, Two halves).
	 */
	bool other_half;
	char reason[256]; /* for WAIT and REFUSED */
};

void assembly_decide(const struct assembly_input *input, struct assembly_verdict *out);

/* The same for one device that comes later, under the record of a running volume: fills standing,
 * role, stale_set and fault of slot 0 of *out.  Never IN_SYNC for a member the record calls out.
 * copy_lost: as above.
 */
void assembly_judge(const struct superblock *record, const struct superblock *own, bool copy_lost,
		    struct assembly_verdict *out);

#endif
