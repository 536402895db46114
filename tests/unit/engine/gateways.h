/* gateways.h - a volume whose members know reservations, and a second gateway that takes it over. */
#ifndef IRAID_TEST_GATEWAYS_H
#define IRAID_TEST_GATEWAYS_H

#include "scenario.h"

#include <stdio.h>

#define LOAD_BYTES (2ull << 20)

static inline void
begin(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	set_caches(rig, false);
	snprintf(rig->options.owner, sizeof(rig->options.owner), "one pid 1 (rig) #1");
	for (int m = 0; m < count; m++) {
		rig->members[m].reservations = true;
		rig->members[m].gateway = 1;
	}
}

static inline void
wait_ms(struct rig *rig, uint64_t ms)
{
	for (const uint64_t until = rig->now_ms + ms; rig->now_ms < until;)
		rig_step(rig);
}

static inline void
run(struct rig *rig)
{
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 512, 512);
	rig_drain(rig);
	wait_until(rig, all_clean);
	wait_ms(rig, 50); /* that is on the members */
}

static inline void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	begin(rig, level, count, seed);
	run(rig);
}

/* The first gateway is gone, and the second one is started, with the members that it reaches. */
static inline void
take_over(struct rig *rig, uint32_t reached)
{
	snprintf(rig->options.owner, sizeof(rig->options.owner), "two pid 1 (rig) #2");
	rig->options.take_over_ms = 20000;
	for (int m = 0; m < rig->count; m++) {
		rig->members[m].gateway = 2;
		rig->members[m].may_take = true;
		rig->members[m].reachable = (reached >> m) & 1;
	}
	rig_start(rig);
}

static inline void
crash(struct rig *rig)
{
	rig_crash(rig);
	rig->epoch_recorded = 0; /* the other one knows nothing of it */
}

#endif
