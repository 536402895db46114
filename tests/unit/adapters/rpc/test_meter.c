/* How fast a user may ask: a burst, then a pace; each user for himself, and whoever they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "adapters/rpc/meter.h"

#define REQUEST_US (1000000u / METER_PER_SECOND)
#define NOON_US 43200000000ull

static void
test_a_burst_goes_at_once_and_then_each_waits_its_time(void **state)
{
	struct meter meter = { .count = 0 };

	for (unsigned int i = 0; i < METER_BURST; i++)
		assert_int_equal(meter_take(&meter, 7, NOON_US), 0);
	for (unsigned int i = 1; i <= 10; i++)
		assert_int_equal(meter_take(&meter, 7, NOON_US), i * REQUEST_US);
	assert_int_equal(meter_take(&meter, 7, NOON_US + 1000000), 0);
}

static void
test_a_pause_gives_the_burst_back_and_no_more(void **state)
{
	struct meter meter = { .count = 0 };
	const uint64_t later_us = NOON_US + 3600000000ull;
	unsigned int at_once = 0;

	for (unsigned int i = 0; i < 2 * METER_BURST; i++)
		meter_take(&meter, 7, NOON_US);
	while (meter_take(&meter, 7, later_us) == 0)
		at_once++;
	assert_int_equal(at_once, METER_BURST);
}

static void
test_one_user_does_not_slow_another_down(void **state)
{
	struct meter meter = { .count = 0 };

	for (unsigned int i = 0; i < 2 * METER_BURST; i++)
		meter_take(&meter, 7, NOON_US);
	assert_int_equal(meter_take(&meter, 8, NOON_US), 0);
	assert_true(meter_take(&meter, 7, NOON_US) > 0);
}

static void
test_of_more_users_than_it_remembers_the_busiest_is_remembered(void **state)
{
	struct meter meter = { .count = 0 };

	for (unsigned int i = 0; i < 2 * METER_BURST; i++)
		meter_take(&meter, 7, NOON_US);
	for (uid_t uid = 100; uid < 100 + 4 * METER_USERS_MAX; uid++)
		assert_int_equal(meter_take(&meter, uid, NOON_US), 0);
	assert_int_equal(meter.count, METER_USERS_MAX);
	assert_true(meter_take(&meter, 7, NOON_US) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_burst_goes_at_once_and_then_each_waits_its_time),
		cmocka_unit_test(test_a_pause_gives_the_burst_back_and_no_more),
		cmocka_unit_test(test_one_user_does_not_slow_another_down),
		cmocka_unit_test(test_of_more_users_than_it_remembers_the_busiest_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
