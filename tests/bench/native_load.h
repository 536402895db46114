/* native_load.h - commands in flight, and what became of them: shared by the engine and its peer.
 */
#ifndef IRAID_NATIVE_LOAD_H
#define IRAID_NATIVE_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct load {
	bool write, at_random;
	uint32_t block_bytes;
	int depth;
	double warm_seconds, seconds;
	/* of the thread that drives the commands */
	uint64_t random, next;
	uint64_t area_bytes;  /* set by the driver before the first load_draw() */
	uint32_t *latency_us; /* of the first commands that were measured */
	uint64_t latencies;
	/* read by the main thread */
	atomic_uint_fast64_t done;
	atomic_bool measuring, stop;
};

/* Where the next command goes: a multiple of block_bytes. */
uint64_t load_draw(struct load *load);
uint64_t load_now_us(void);
/* A command that began then has ended well. */
void load_done(struct load *load, uint64_t began_us);

/* Both return when all commands have ended after stop; ready() is called once they are under way.
 * They exit with a message when anything fails.
 */
void engine_load(struct load *load, const char *volume, void (*ready)(struct load *load));
void raw_load(struct load *load, char **targets, int count, void (*ready)(struct load *load));

#endif
