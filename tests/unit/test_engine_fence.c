/* test_engine_fence.c - who is believed that another gateway has the members. */
#include "engine/engine.h"
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LOAD_BYTES (4ull << 20)

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	for (int i = 0; i < count; i++)
		rig->members[i].disk.write_cache = false;
	rig->step_ms_max = 2;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static void
write_everywhere(struct rig *rig)
{
	for (uint64_t sector = 0; sector < rig->sectors; sector += 512)
		rig_submit(rig, REQUEST_WRITE, sector, 300, false);
}

static void
stop(struct rig *rig)
{
	rig_stop(rig);
	rig_free(rig);
}

static void
test_a_member_that_alone_speaks_of_another_gateway_is_evicted(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1901);
	rig.members[2].taken = true;
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	rig_verify(&rig);
	stop(&rig);
}

static void
test_a_gateway_that_has_taken_all_members_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1902);
	rig.errors_allowed = true;
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = true;
	/* One answers long before the others. */
	rig.members[0].answer_us_min = rig.members[0].answer_us_max = 50;
	for (int i = 1; i < 4; i++)
		rig.members[i].answer_us_min = rig.members[i].answer_us_max = 15000;
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rig_status(&rig).members[i].state, MEMBER_IN_SYNC);
		assert_null(strstr(rig_status(&rig).members[i].reason, "deny"));
	}
	stop(&rig);
}

/* With one of two copies it can. */
static void
test_a_gateway_that_could_start_with_what_it_has_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 3, 1903);
	rig.errors_allowed = true;
	rig.members[1].taken = true;
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	stop(&rig);
}

static void
test_a_member_that_can_not_be_spared_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 0, 3, 1904);
	rig.errors_allowed = true;
	rig.members[1].taken = true;
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	stop(&rig);
}

/* While the others are asked nothing is acknowledged that it has a part in. */
static void
test_writes_wait_while_the_others_are_asked(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1905);
	for (uint64_t sector = 0; sector < rig.sectors; sector += 1024)
		rig_submit(&rig, REQUEST_WRITE, sector, 1024, false);
	rig_drain(&rig);
	rig.members[2].taken = true;
	for (int i = 0; i < 4; i++)
		rig.members[i].deadline_us = 10000000;
	rig.members[0].answer_us_min = rig.members[0].answer_us_max = 400000;
	rig_submit(&rig, REQUEST_WRITE, 0, 960, false);	/* whole rows */
	rig_steps(&rig, 200);
	assert_int_equal(rig.active_count, 1);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	rig_verify(&rig);
	stop(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_member_that_alone_speaks_of_another_gateway_is_evicted),
		cmocka_unit_test(test_a_gateway_that_has_taken_all_members_is_believed),
		cmocka_unit_test(test_a_gateway_that_could_start_with_what_it_has_is_believed),
		cmocka_unit_test(test_a_member_that_can_not_be_spared_is_believed),
		cmocka_unit_test(test_writes_wait_while_the_others_are_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
