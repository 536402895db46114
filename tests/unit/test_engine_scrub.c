/* What a scrub says that it corrected. */
#include "scenario.h"

static void
correct_and_lose_the_caches(uint64_t seed)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	char why[256];

	rig_init(&rig, 5, 4, 16384, 8 << 20, seed);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	/* Row 2's parity is on member 1. */
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	assert_int_equal(rig_parity_faults(&rig), 1);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	rig_power_loss(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_start_active(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The region is clean, so nobody looks at the row after the crash.  Of what a cache holds some is kept, by chance. */
static void
test_what_a_scrub_corrected_stays_so_without_the_caches(void **state)
{
	for (uint64_t seed = 901; seed < 909; seed++)
		correct_and_lose_the_caches(seed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_scrub_corrected_stays_so_without_the_caches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
