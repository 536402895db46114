/* flushed.h - a volume with caches, and writes that no flush has covered yet. */
#ifndef IRAID_TEST_FLUSHED_H
#define IRAID_TEST_FLUSHED_H

#include "scenario.h"

#define LOAD_BYTES (4ull << 20)

static inline void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	set_caches(rig, true);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

/* What no flush has covered yet, on all members. */
static inline void
write_everywhere(struct rig *rig)
{
	submit_everywhere(rig, REQUEST_WRITE, 1024, 512);
	rig_drain(rig);
}

static inline void
speed_up(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++) {
		rig->members[i].answer_us_min = 50;
		rig->members[i].answer_us_max = 2500;
	}
}

#endif
