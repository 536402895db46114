/* listed.h - a volume that has a row on record as lost, for tests of what a start reads of the
 * table of lost extents.
 */
#ifndef IRAID_TEST_LISTED_H
#define IRAID_TEST_LISTED_H

#include "knowable.h"

#define REGION 2u

static inline void
wait_until_degraded(struct rig *rig)
{
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 200);
}

/* A row is on record as lost, and its region is clean: a spare was filled beside it. */
static inline uint64_t
begin_lost_running(struct rig *rig, uint64_t seed)
{
	uint64_t row;
	char why[256];

	begin(rig, 5, 4, seed);
	row = row_in(rig, REGION);
	write_in(rig, REGION);
	rig_crash(rig);
	tear_row(rig, row);
	rig->members[0].reachable = false;
	rig_start(rig);
	wait_until_degraded(rig);
	rig_mark_spare(rig, 4, RIG_MEMBER_BYTES);
	rig->members[4].disk.write_cache = false;
	assert_int_equal(engine_attach(rig->engine, &rig->members[4].backend, why), 4);
	rig_steps(rig, 50);
	wait_until(rig, all_in_sync);
	rig_steps(rig, 5000);
	assert_int_equal(rig_status(rig).regions_dirty, 0);
	assert_int_equal(read_first_chunk(rig, row), -ENODATA);
	return row;
}

static inline uint64_t
begin_lost(struct rig *rig, uint64_t seed)
{
	const uint64_t row = begin_lost_running(rig, seed);

	rig_stop(rig);
	return row;
}

#endif
