/* test_engine_memory.c - memory that can't be had (docs/design/memory.md): what waits for it is tried again.
 */
#include "knowable.h"

#include <errno.h>

/* --- what the engine calls (CMakeLists.txt) --- */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool list_refused;	/* memory for the list of the one region that is suspect */
static int list_tried;

void *
__wrap_calloc(size_t count, size_t bytes)
{
	if (list_refused && count == 1 && bytes == sizeof(uint32_t)) {
		list_tried++;
		return NULL;
	}
	return __real_calloc(count, bytes);
}

/* --- what waits for memory --- */

/* A row is suspect, and an administrator takes member 0 out: it is connected, and nothing comes from it that would wake the engine. */
static uint64_t
take_out_with_suspects(struct rig *rig)
{
	char why[256];
	uint64_t row;

	begin(rig, 5, 4, 920);
	rig_stop(rig);
	rig->options.resync_rows_max = 0;	/* what is suspect stays so */
	rig_start_active(rig);
	row = row_in(rig, 2) + 4;
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row), 1, false);
	rig_drain(rig);
	fake_member_power_loss(&rig->members[1], true);
	fake_member_power_loss(&rig->members[2], true);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
	assert_int_equal(rig_status(rig).regions_suspect, 1);
	wait_until(rig, all_in_sync);
	rig_steps(rig, 100);
	list_refused = true;
	assert_int_equal(engine_fail(rig->engine, 0, why), 0);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
	wait_for_link(rig, 0, LINK_OPEN);
	rig_steps(rig, 500);
	return row;
}

static void
test_what_is_lost_is_recorded_as_soon_as_there_is_memory(void **state)
{
	struct rig rig;
	uint64_t row, since_ms;
	int tried;

	list_tried = 0;
	row = take_out_with_suspects(&rig);
	assert_true(list_tried > 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	/* A write waits, and nothing else happens: the engine wakes by itself, but does not go round and round. */
	since_ms = rig.now_ms;
	tried = list_tried;
	rig_submit(&rig, REQUEST_WRITE, 0, 1, false);
	for (int i = 0; i < 100; i++) {
		rig_step(&rig);
		assert_in_range(engine_deadline(rig.engine), rig.now_ms, rig.now_ms + 1000);
	}
	assert_in_range(list_tried - tried, 0, (int)((rig.now_ms - since_ms) / 1000 + 1));
	assert_int_equal(rig.active_count, 1);
	list_refused = false;
	since_ms = rig.now_ms;
	rig_jump(&rig);
	rig_drain(&rig);
	assert_in_range(rig.now_ms - since_ms, 0, 1500);
	assert_int_equal(rig_status(&rig).lost_bytes, CHUNK);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_lost_is_recorded_as_soon_as_there_is_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
