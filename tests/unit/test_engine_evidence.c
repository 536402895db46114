/* test_engine_evidence.c - on what evidence members are evicted, and when that is taken back. */
#include "scenario.h"

#define LOAD_BYTES (4ull << 20)

static void
start(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 5, 4, 16384, LOAD_BYTES, seed);
	rig->step_ms_max = 2;
	set_caches(rig, false);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

/* One member hangs, and nobody knows yet; the other, which refuses writes for a moment, would be missed. */
static void
test_a_member_that_refuses_is_evicted_on_new_evidence_only(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1601);
	rig_verify(&rig);
	rig.members[1].deadline_us = 1000000;
	rig_steps(&rig, 100);
	fake_member_hang(&rig.members[1]);
	rig.members[0].refuse_writes = true;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig.members[0].refuse_writes = false;
	wait_for_state(&rig, 1, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	finish(&rig);
}

/* The others did answer when it was condemned, but one hangs before all superblocks say so. */
static void
test_a_member_that_is_needed_is_kept_until_its_eviction_is_durable(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1602);
	rig.members[1].deadline_us = 1000000;
	rig.members[0].refuse_writes = true;
	submit_everywhere(&rig, REQUEST_WRITE, 256, 64);
	wait_for_state(&rig, 0, MEMBER_FAULTY);
	fake_member_hang(&rig.members[1]);
	rig.members[0].refuse_writes = false;
	wait_for_state(&rig, 0, MEMBER_IN_SYNC);
	wait_for_state(&rig, 1, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_member_that_refuses_is_evicted_on_new_evidence_only),
		cmocka_unit_test(test_a_member_that_is_needed_is_kept_until_its_eviction_is_durable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
