/* A stop ends, whoever does not answer. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Its last flush waits for members that are away, and is given up; when that fails, later, the stop has gone on. */
static void
test_stop_that_gave_up_its_last_flush_does_not_begin_the_next_step(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	rig_init(&rig, 5, 4, 16384, 8 << 20, 921);
	rig.options.queue_limit_ms = 7000;
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 400, false);
	rig_drain(&rig);
	rig.errors_allowed = true;
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	began_ms = rig.now_ms;
	rig_stop(&rig);
	assert_in_range(rig.now_ms - began_ms, 0, 8000);	/* of virtual time */
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stop_that_gave_up_its_last_flush_does_not_begin_the_next_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
