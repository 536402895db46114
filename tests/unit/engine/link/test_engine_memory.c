/* test_engine_memory.c - memory that can't be had (docs/design/memory.md): what waits for it is
 * tried again, and only what was never sent counts as not done.
 */
#include "knowable.h"

#include "engine/link/link.h"

#include <errno.h>

/* --- what the engine calls (CMakeLists.txt) --- */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
struct member_io *__real_member_io_try(struct member *member, enum backend_op op,
				       uint64_t offset_bytes, enum io_policy policy);
struct member_io *__wrap_member_io_try(struct member *member, enum backend_op op,
				       uint64_t offset_bytes, enum io_policy policy);
void __real_member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result),
			     void *owner);
void __wrap_member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result),
			     void *owner);

static bool list_refused; /* memory for the list of the one region that is suspect */
static int list_tried;
static bool writes_refused;   /* commands that write data */
static bool table_refused;    /* commands that write the table of lost extents */
static bool refusals_renamed; /* what members refuse is told as -ENOMEM */
static void (*renamed_done)(struct member_io *mio, int result);

static bool
writes_data(enum backend_op op, enum io_policy policy)
{
	return policy == IO_REQUEST && (op == BACKEND_WRITE || op == BACKEND_ZERO);
}

static bool
writes_table(enum backend_op op, uint64_t offset_bytes)
{
	return op == BACKEND_WRITE && offset_bytes >= LAYOUT_LOST_OFFSET &&
	       offset_bytes < LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES;
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
	if (list_refused && count == 1 && bytes == sizeof(uint32_t)) {
		list_tried++;
		return NULL;
	}
	return __real_calloc(count, bytes);
}

struct member_io *
__wrap_member_io_try(struct member *member, enum backend_op op, uint64_t offset_bytes,
		     enum io_policy policy)
{
	if ((writes_refused && writes_data(op, policy)) ||
	    (table_refused && writes_table(op, offset_bytes)))
		return NULL;
	return __real_member_io_try(member, op, offset_bytes, policy);
}

static void
rename_refusal(struct member_io *mio, int result)
{
	renamed_done(mio, result == -EIO ? -ENOMEM : result);
}

void
__wrap_member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result),
			void *owner)
{
	if (refusals_renamed && writes_data(mio->io.op, mio->policy)) {
		assert_true(renamed_done == NULL || renamed_done == done);
		renamed_done = done;
		done = rename_refusal;
	}
	__real_member_io_submit(mio, done, owner);
}

/* --- what waits for memory --- */

/* A row is suspect, and an administrator takes member 0 out: it is connected, and nothing comes
 * from it that would wake the engine.
 */
static uint64_t
take_out_with_suspects(struct rig *rig)
{
	char why[256];
	uint64_t row;

	begin(rig, 5, 4, 920);
	rig_stop(rig);
	rig->options.resync_rows_max = 0; /* what is suspect stays so */
	rig_start_active(rig);
	row = row_in(rig, 2) + 4;
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row), 1, false);
	rig_drain(rig);
	rig_lose_caches(rig, 1, 2);
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
	/* A write waits, and nothing else happens: the engine wakes by itself, but does not go
	 * round and round.
	 */
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

/* A write over lost bytes waits for the table that says so. */
static void
test_stop_ends_while_the_table_of_lost_extents_can_not_be_written(void **state)
{
	struct rig rig;
	uint64_t row, since_ms;

	row = take_out_with_suspects(&rig);
	list_refused = false;
	rig_jump(&rig);
	rig_steps(&rig, 1500);
	assert_int_equal(rig_status(&rig).lost_bytes, CHUNK);
	rig.options.queue_limit_ms = 60000; /* it has more time than the stop */
	engine_set_limits(rig.engine, &rig.options);
	table_refused = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), CHUNK_SECTORS, false);
	rig_steps(&rig, 500);
	assert_int_equal(rig.active_count, 1);
	rig.errors_allowed = true;
	since_ms = rig.now_ms;
	rig_stop(&rig);
	table_refused = false;
	assert_int_equal(rig.last_error, -ESHUTDOWN);
	assert_in_range(rig.now_ms - since_ms, 0, engine_stop_ms_max());
	rig_free(&rig);
}

/* --- what was sent --- */

static uint64_t
begin_degraded(struct rig *rig)
{
	uint64_t row;

	begin(rig, 5, 4, 921);
	row = row_in(rig, 1) + 4;
	fake_member_cut(&rig->members[0], false);
	/* Marks the region, or that would be refused. */
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row + 4), 1, false);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
	rig_steps(rig, 100);
	return row;
}

/* Members 2 and 3 refuse, member 1 takes its part of the row: nobody knows any more what member 0
 * has of it.
 */
static void
check_torn_row_is_told(enum request_op op)
{
	struct rig rig;
	const uint64_t row = begin_degraded(&rig);

	rig.errors_allowed = true;
	rig.members[2].refuse_writes = rig.members[3].refuse_writes = true;
	renamed_done = NULL;
	refusals_renamed = true;
	rig_submit(&rig, op, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	refusals_renamed = false;
	rig.members[2].refuse_writes = rig.members[3].refuse_writes = false;
	rig.errors_allowed = false;
	assert_int_equal(rig.last_error, -ENOMEM);
	rig_steps(&rig, 100);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	assert_int_equal(rig_status(&rig).lost_bytes, CHUNK);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_write_that_was_sent_is_not_taken_for_one_without_memory(void **state)
{
	check_torn_row_is_told(REQUEST_WRITE);
}

static void
test_zeros_that_were_sent_are_not_taken_for_some_without_memory(void **state)
{
	check_torn_row_is_told(REQUEST_ZERO);
}

static void
test_what_was_never_sent_makes_nothing_suspect(void **state)
{
	struct rig rig;
	const uint64_t row = begin_degraded(&rig);

	rig.errors_allowed = true;
	writes_refused = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ENOMEM);
	rig_submit(&rig, REQUEST_ZERO, sector_of_row(&rig, row + 8), row_sectors(&rig), false);
	rig_drain(&rig);
	writes_refused = false;
	rig.errors_allowed = false;
	assert_int_equal(rig.failed, 2);
	rig_steps(&rig, 100);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(read_first_chunk(&rig, row + 8), 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_lost_is_recorded_as_soon_as_there_is_memory),
		cmocka_unit_test(test_stop_ends_while_the_table_of_lost_extents_can_not_be_written),
		cmocka_unit_test(test_write_that_was_sent_is_not_taken_for_one_without_memory),
		cmocka_unit_test(test_zeros_that_were_sent_are_not_taken_for_some_without_memory),
		cmocka_unit_test(test_what_was_never_sent_makes_nothing_suspect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
