/* life.h - from the first session to the last: a volume is assembled, runs, grows and stops; and
 * what is asked of it.
 *
 *	engine.c	creation, admission, the run loop	assemble.c	from superblocks to a running volume
 *	takeover.c	the volume was another gateway's
 *	attempt.c	how an attempt to do so ends		load.c		maps and tables of all that start
 *	stop.c		an orderly end				grow.c		members have become larger
 *	admin.c		what an administrator asks for		probe.c		how fast members answer
 *	log_mode.c	when the write log is open		replay.c	what a crash left in it
 *	status.c	what an administrator sees
 *
 * Drivers include engine.h, admin.h and status.h.
 */
#ifndef IRAID_ENGINE_LIFE_H
#define IRAID_ENGINE_LIFE_H

#include "engine/core/core.h"

/* --- assemble.c --- */

struct assembly {
	uint64_t started_ms;
	uint64_t not_before_ms;
	bool refused;	  /* it needs an administrator, see engine->reason */
	bool held;	  /* by another gateway, as far as members have said */
	char unread[256]; /* why a start is refused: of the table of lost extents */
	bool has_geometry;
	/* superblocks of those without reservations, as a start is about to begin */
	bool read_again;
	/* since when there are enough members, though not all; 0: not so */
	uint64_t startable_ms;
	uint32_t startable_wait_ms; /* from then on */
	bool taken;		    /* from another gateway, by this start */
	/* members that have to hear of this start before it runs; 0: none */
	int quorum;
	int deaf_logged;	 /* slot of one that does not, and it is logged, plus 1; 0: none */
	struct superblock found; /* the newest, by which this start goes */
	bool resumed;		 /* nobody has had it since this gateway did */
	bool record_lost;	 /* this gateway's record of epochs was, when it was started */
	/* a take-over is up then, by engine_clock_ms(); 0: it is none */
	uint64_t lease_ends_ms;
	uint8_t *maps;	    /* the map of each member, while they are loaded */
	bool epoch_awaited; /* they are, and this gateway records the epoch that it means */
	/* roles of which they said that all is on record (superblock.recorded_roles) */
	uint32_t recorded_found;
	/* of the newest superblocks that were asked for lost caches */
	uint64_t loss_epoch, loss_event;
};

void assemble_run(struct engine *engine);
uint64_t assemble_deadline(const struct engine *engine);

/* --- engine.c, stop.c, grow.c, probe.c, admin.c --- */

struct life {
	struct growth *growth; /* NULL: none under way */
	struct probe *probe;   /* the same */
	struct replay *replay; /* the same */
	void (*stopped)(void *owner);
	void *stopped_owner;
	bool stop_clean; /* everything went well: superblocks may say so */
};

void stop_run(struct engine *engine);
uint64_t stop_deadline(const struct engine *engine);

void grow_run(struct engine *engine);

void probe_run(struct engine *engine);
uint64_t probe_deadline(const struct engine *engine);

/* let devices go whose sessions are closed */
void admin_let_go(struct engine *engine);

#endif
