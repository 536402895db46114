/* crash_replay_case.h - one crash: what it leaves, and what must be true afterwards. */
#ifndef CRASH_REPLAY_CASE_H
#define CRASH_REPLAY_CASE_H

#include "crash_replay.h"

/* of the writes that may be there or not */
enum keep {
	KEEP_NONE,
	KEEP_ALL,
	KEEP_ONE, /* `which` counts from the newest */
	LOSE_ONE,
	TEAR_FIRST_HALF, /* of the newest; the others are there */
	TEAR_RANDOM,
	KEEP_RANDOM, /* each there, not there, or in part */
};

struct crash {
	size_t cut; /* the last entry that happened */
	bool power; /* the members' caches are gone too */
	enum keep keep;
	unsigned int which;
	int absent; /* member that does not come back; -1 */
};

struct tally { /* all uint64_t: they are summed over the workers */
	uint64_t cases, crashes, powers, absents, again, refused, unknown_sectors, lost_later,
		corrected_rows;
};

struct replay {
	struct record record;
	struct members members;
	struct pendings pendings;
	struct oracle oracle;
	struct geometry geometry;
	struct superblock shape; /* of a member, as it was at first */
	/* of the gateway that died, which is started again: no other one takes its members */
	char owner[LAYOUT_OWNER_MAX + 1];
	uint64_t epoch_seen;  /* by the gateway that crashed, at least */
	uint64_t epoch_tried; /* by it: members get none before */
	/* of the members, in this record nobody takes another's place */
	uint8_t roles[IRAID_MEMBERS_MAX];
	uint64_t seed;
	bool verbose;
	enum log_mode log;
	struct tally tally;

	/* the engine that runs, and what it was asked */
	struct engine *engine;
	uint64_t now_ms;
	bool stopped;
	bool dying; /* results don't count any more */
	unsigned int active;
	uint32_t *saw; /* by sector: stamp read in this case; 0: none yet */
	bool *written; /* by row: the record writes there at some time */
	uint8_t *memory;
	bool power;
	bool lose; /* a member, after writes and without resync */
	bool lost_after_writes;
	/* region map as the crash left it, of all present members */
	uint8_t *flags;
	uint32_t regions;
	uint32_t untrusted; /* mask of roles that are absent or out of date */
	/* those, and whom another record of the newest epoch calls so */
	uint32_t doubtful;
	/* those that ever were in this case: their chunks may be lost */
	uint32_t unknown;
};

void replay_load(struct replay *replay, char *const *images, int count);
void replay_prepare(struct replay *replay, uint64_t seed, bool verbose);
void replay_case(struct replay *replay, const struct crash *crash, uint64_t number);
void replay_make_images(struct replay *replay, const struct crash *crash);
/* What the newest superblock says, as assembly must see it too; and what the maps of those present
 * say.
 */
void replay_look_at_images(struct replay *replay);
/* After all entries: are the images what the targets' files are? If not, the record is not
 * complete.
 */
void replay_check_end(struct replay *replay, char *const *images);

#endif
