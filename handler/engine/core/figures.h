/* figures.h - what an engine counts for those who watch it: commands, members, and where the time
 * goes.
 *
 * Nothing in the engine depends on it.  For its sake it looks at a clock (engine_port.now_ns),
 * which may be a system call: once a run, and again behind what takes long within one: computing,
 * and giving answers back.  So a command costs a fixed number of additions, and memory does not
 * grow.
 *
 * Steps of a command, in the order of its life:
 *
 *	ring --> wait --+--> mark --+--> code --> write --> flush --> complete
 *	                `--> read --'
 *
 * A command may have several pieces, which go through them at the same time, and commands that were
 * joined go through them together: each counts for itself, with the whole time it took.
 */
#ifndef IRAID_FIGURES_H
#define IRAID_FIGURES_H

#include <stdint.h>

/* Bucket i holds what took at most FIGURES_BOUND_US(i), the last one the rest. */
#define FIGURES_BOUNDS 22
#define FIGURES_BOUND_US(i) ((uint64_t)16 << (i))

struct histogram {
	uint64_t count;	 /* ended; buckets add up to it */
	uint64_t errors; /* of them */
	uint64_t bytes;	 /* of the others */
	uint64_t sum_ns;
	uint64_t buckets[FIGURES_BOUNDS + 1];
};

enum figures_step {
	STEP_RING,     /* since the driver got it, until the volume's thread has it */
	STEP_WAIT,     /* for its rows, for others to join it, for memory */
	STEP_MARK,     /* until its dirty marks are durable, if they are not yet */
	STEP_READ,     /* members read for it */
	STEP_CODE,     /* P and Q, or what is missing, are computed */
	STEP_WRITE,    /* members write */
	STEP_FLUSH,    /* members' caches are flushed */
	STEP_COMPLETE, /* until whoever sent it has the answer */
	STEPS,
};

const char *figures_step_name(enum figures_step step); /* "ring", ... */

struct step_figures {
	uint64_t count, sum_ns, max_ns;
};

#define FIGURES_OPS 5 /* by enum request_op */

struct member_figures {
	/* all of its commands, whatever for; zeros are writes */
	struct histogram reads, writes, flushes;
	uint32_t in_flight;
};

/* Add one that took so long. */
void histogram_add(struct histogram *histogram, uint64_t took_ns, uint64_t bytes, int result);

#endif
