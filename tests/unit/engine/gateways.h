/* gateways.h - a volume whose members know reservations, and a second gateway that takes it over. */
#ifndef IRAID_TEST_GATEWAYS_H
#define IRAID_TEST_GATEWAYS_H

#include "scenario.h"

#include "engine/core/core.h"

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

static inline bool
is_said_faulty(struct rig *rig)
{
	return rig_superblock(rig, 0).member_states[1] == MEMBER_FAULTY;
}

/* The second copy goes; the first one says so, and the gateway dies before it has that on record. */
static inline void
die_undecided(struct rig *rig)
{
	rig->epochs_held = true;
	fake_member_cut(&rig->members[1], false);
	submit_everywhere(rig, REQUEST_WRITE, 512, 300);
	wait_until(rig, is_said_faulty);
	wait_ms(rig, 50);
	rig_crash(rig);
	rig->epochs_held = false;
}

/* It is away at a start, and the gateway dies before it has that on record. */
static inline void
miss_the_second(struct rig *rig)
{
	uint64_t meant;

	rig_crash(rig);
	meant = rig->epoch_tried;
	rig->members[1].reachable = false;
	rig_start(rig);
	while (rig->epoch_tried == meant)
		rig_step(rig);
	rig->epochs_held = true;
	while (rig_superblock(rig, 0).epoch < rig->epoch_tried)
		rig_step(rig);
	wait_ms(rig, 50);
	rig_crash(rig);
	rig->epochs_held = false;
}

/* A copy of two is replaced, and the other one goes before that is done. */
static inline void
replace_the_last(struct rig *rig, uint64_t seed)
{
	char why[256];

	begin(rig, 1, 2, seed);
	run(rig);
	rig_mark_spare(rig, 2, RIG_MEMBER_BYTES);
	rig->members[2].disk.write_cache = false;
	rig->members[2].reservations = true;
	rig->members[2].gateway = 1;
	assert_int_equal(engine_attach(rig->engine, &rig->members[2].backend, why), 2);
	wait_for_state(rig, 2, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig->engine, 0, 2, why), 0);
	wait_for_state(rig, 2, MEMBER_REBUILDING);
	rig->members[1].reachable = false;
	fake_member_cut(&rig->members[1], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig_status(rig).members[2].state, MEMBER_REBUILDING);
}

static inline void
wait_until_taking(struct rig *rig)
{
	for (int i = 0; i < 20000 && rig->engine->target_phase != TARGET_TAKING; i++)
		rig_step(rig);
	assert_int_equal(rig->engine->target_phase, TARGET_TAKING);
}

#endif
