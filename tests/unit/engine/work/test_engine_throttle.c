/* How fast work in the background goes. */
#include "scenario.h"

#define CHUNK (1u << 20)
#define LEAST 65536u /* bytes a second: no rate is lower */

/* The first batch takes what the rate gives in more than a minute. */
static void
test_a_large_batch_at_a_low_rate_is_paid_for_in_the_end(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig, 1, 2, CHUNK, 8 * CHUNK, 951);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, CHUNK / RIG_SECTOR, 8);
	rig_drain(&rig);
	rig_crash(&rig);
	rig_start(&rig);
	engine_set_rates(rig.engine, LEAST, LEAST);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	wait_until(&rig, all_proven);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_large_batch_at_a_low_rate_is_paid_for_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
