/* A device that has another size, or other blocks, at its next session. */
#include "scenario.h"

static bool
is_told(struct rig *rig)
{
	return strstr(rig_status(rig).members[2].reason, "has changed: 5242880 bytes") != NULL;
}

static void
start(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 5, 4, 16384, 8 << 20, seed);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static void
load(struct rig *rig, int requests)
{
	for (int i = 0; i < requests; i++) {
		rig_submit_random(rig);
		rig_step(rig);
	}
	rig_drain(rig);
}

/* fake_member asserts that nothing is sent behind its end. */
static void
test_member_that_comes_back_smaller_is_not_written_to(void **state)
{
	struct rig rig;
	uint64_t bytes;

	start(&rig, 911);
	bytes = rig.members[2].capacity_bytes;
	rig.members[2].capacity_bytes = 5u << 20;
	fake_member_cut(&rig.members[2], true);
	rig_steps(&rig, 300); /* nobody misses it meanwhile, so it is not evicted before */
	load(&rig, 100);
	wait_until(&rig, is_degraded);
	wait_until(&rig, is_told);
	rig.members[2].capacity_bytes = bytes;
	fake_member_cut(&rig.members[2], true);
	wait_until(&rig, is_whole);
	finish(&rig);
}

static void
test_member_that_comes_back_with_other_blocks_waits_outside(void **state)
{
	struct rig rig;

	start(&rig, 912);
	rig.members[1].told_block_bytes = 4096;
	fake_member_cut(&rig.members[1], true);
	load(&rig, 100);
	wait_until(&rig, is_degraded);
	rig.members[1].told_block_bytes = 0;
	fake_member_cut(&rig.members[1], true);
	wait_until(&rig, is_whole);
	finish(&rig);
}

static void
test_volume_starts_without_a_member_that_has_changed(void **state)
{
	struct rig rig;

	start(&rig, 913);
	load(&rig, 50);
	rig_stop(&rig);
	rig.members[3].told_block_bytes = 4096;
	rig_start(&rig);
	wait_until(&rig, is_degraded);
	load(&rig, 50);
	finish(&rig);
}

/* One copy is refused, so both are read again: but not while they are being read. */
static void
test_a_device_that_has_changed_is_asked_once_at_a_time(void **state)
{
	struct rig rig;
	uint64_t reads, until_us;

	start(&rig, 914);
	rig_stop(&rig);
	fake_member_cut(&rig.members[0], false);
	fake_member_cut(&rig.members[1], false);
	rig.members[3].told_block_bytes = 4096;
	rig.members[3].refused_offset_bytes =
		superblock_offset(rig_superblock(&rig, 3).write_count);
	rig_start(&rig);
	reads = rig.members[3].reads;
	until_us = rig.schedule.now_us + 10 * 1000000;
	for (int i = 0; i < 20000 && rig.schedule.now_us < until_us; i++)
		rig_step(&rig);
	assert_true(rig.schedule.now_us >= until_us);
	assert_in_range(rig.members[3].reads - reads, 2 * 2, 2 * 12); /* one look a second */
	rig.members[3].told_block_bytes = 0;
	rig.members[3].refused_offset_bytes = 0;
	fake_member_cut(&rig.members[0], true);
	fake_member_cut(&rig.members[1], true);
	fake_member_cut(&rig.members[3], true);
	wait_until(&rig, is_whole);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_comes_back_smaller_is_not_written_to),
		cmocka_unit_test(test_member_that_comes_back_with_other_blocks_waits_outside),
		cmocka_unit_test(test_volume_starts_without_a_member_that_has_changed),
		cmocka_unit_test(test_a_device_that_has_changed_is_asked_once_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
