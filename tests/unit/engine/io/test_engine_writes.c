/* test_engine_writes.c - what writes cost, on members in memory: rows that become full, streams,
 * rows that are known.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define LOAD_BYTES (2u << 20)

static void
test_adjacent_writes_become_full_stripes(void **state)
{
	struct rig rig;
	struct engine_status before, after;

	rig_init(&rig, 5, 4, 65536, LOAD_BYTES, 23);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	before = rig_status(&rig);
	/* two rows in 4 KiB writes */
	for (uint64_t sector = 0; sector < 2 * 384; sector += 8)
		rig_submit(&rig, REQUEST_WRITE, sector, 8, false);
	rig_drain(&rig);
	after = rig_status(&rig);
	assert_int_equal(after.rows_full - before.rows_full, 2);
	assert_int_equal(after.rows_rmw - before.rows_rmw, 0);
	assert_int_equal(after.rows_reconstruct - before.rows_reconstruct, 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

#define STREAM_BYTES (40 * 3 * 65536u)

/* Writes one behind the other, `depth` under way.  Returns how many rows of them needed reads. */
static uint64_t
rows_read_by_stream(struct rig *rig, uint64_t sectors, int depth, int writes)
{
	struct engine_status before = rig_status(rig), after;
	uint64_t at = 0;

	for (int i = 0; i < writes; rig_step(rig))
		for (; i < writes && rig->active_count < depth; i++) {
			rig_submit(rig, REQUEST_WRITE, at, sectors, false);
			at = at + 2 * sectors <= rig->sectors ? at + sectors : 0;
		}
	rig_drain(rig);
	after = rig_status(rig);
	return after.rows_rmw + after.rows_reconstruct - before.rows_rmw - before.rows_reconstruct;
}

static void
test_stream_of_writes_needs_no_reads(void **state)
{
	static const struct {
		uint64_t sectors;
		int depth, writes, rows_read_max;
	} streams[] = {
		/* a chunk each: what is read is the stream's beginning, and where it starts again
		 */
		{ 128, 16, 240, 6 },
		{ 2048, 4, 28, 12 }, /* 5 1/3 rows each */
		{ 384, 4, 80, 0 },   /* rows, exactly */
	};

	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		struct rig rig;

		rig_init(&rig, 5, 4, 65536, STREAM_BYTES, 31 + i);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		assert_true(rows_read_by_stream(&rig, streams[i].sectors, streams[i].depth,
						streams[i].writes) <=
			    (uint64_t)streams[i].rows_read_max);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static uint64_t
reads_of_members(struct rig *rig)
{
	struct engine_status status = rig_status(rig);
	uint64_t reads = 0;

	for (int m = 0; m < status.slots; m++)
		reads += status.members[m].reads;
	return reads;
}

/* Writes of 4 KiB one after the other, `count` of them from `sector` on.  Returns how often members
 * were read for them.
 */
static uint64_t
reads_of_journal(struct rig *rig, uint64_t sector, int count)
{
	uint64_t before = reads_of_members(rig);

	for (int i = 0; i < count; i++) {
		rig_submit(rig, REQUEST_WRITE, sector + (uint64_t)i * 8, 8, false);
		rig_drain(rig);
	}
	return reads_of_members(rig) - before;
}

/* What small writes of a row read serves those that follow; what others write there is not
 * overlooked.
 */
static void
test_small_writes_of_a_row_read_it_once(void **state)
{
	static const uint8_t levels[] = { 5, 6 };

	for (size_t i = 0; i < sizeof(levels); i++) {
		struct rig rig;

		rig_init(&rig, levels[i], levels[i] == 5 ? 4 : 5, 65536, STREAM_BYTES, 41 + i);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		/* Two or three for the first write, what the rest of the row needs, once: each
		 * chunk at most.
		 */
		assert_true(reads_of_journal(&rig, 0, 48) <= 3 + 5);
		assert_true(reads_of_journal(&rig, 0, 48) == 0);
		rig_verify(&rig);

		rig_submit(&rig, REQUEST_ZERO, 0, 384, false);
		rig_drain(&rig);
		assert_true(reads_of_journal(&rig, 8, 2) >= 2);
		rig_verify(&rig);

		rig_submit(&rig, REQUEST_WRITE, 0, 384, false);
		rig_drain(&rig);
		assert_true(reads_of_journal(&rig, 200, 20) >= 2);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Members that lose power take what was not flushed along.  If that is parity with its data, what
 * they hold fits, and nothing but the sessions that ended tells that it is not what was written
 * last.
 */
static void
test_what_was_known_of_a_row_goes_with_the_caches(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct rig rig;

		rig_init(&rig, 5, 4, 65536, STREAM_BYTES, 440 + seed);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		reads_of_journal(&rig, 0, 4);
		reads_of_journal(&rig, 128, 4);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_WRITE, 128, 1, false);
		rig_drain(&rig);
		for (int m = 0; m < rig.count; m++)
			fake_member_power_loss(&rig.members[m], true);
		rig_steps(&rig, 300);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_wait_for_resync(&rig);
		rig.errors_allowed = true; /* a flush tells of the caches */
		/* the same columns of another chunk */
		rig_submit(&rig, REQUEST_WRITE, 0, 8, true);
		rig_drain(&rig);
		rig_steps(&rig, 2000);
		assert_int_equal(rig_parity_faults(&rig), 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Rows that are kept are read by whole chunks: what a write does not need may be unreadable. */
static void
test_what_a_small_write_does_not_need_costs_it_nothing(void **state)
{
	const uint64_t row_0 = 4u << 20; /* data on members 0 to 3, parity on 4 */
	struct rig rig;

	rig_init(&rig, 5, 5, 65536, STREAM_BYTES, 45);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	disk_damage(&rig.members[4].disk, row_0 + 61440);
	disk_damage(&rig.members[1].disk, row_0 + 40960);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static int
commands_under_way(const struct rig *rig)
{
	int commands = 0;

	for (int m = 0; m < rig->count; m++)
		commands += rig->members[m].queued;
	return commands;
}

static uint64_t
writes_of_members(struct rig *rig)
{
	struct engine_status status = rig_status(rig);
	uint64_t writes = 0;

	for (int m = 0; m < status.slots; m++)
		writes += status.members[m].writes;
	return writes;
}

/* While members are busy with some rows of a stream, those that come become few commands, and long
 * ones.
 */
static void
test_rows_of_a_stream_go_together(void **state)
{
	struct rig rig;
	uint64_t before;

	rig_init(&rig, 5, 4, 65536, STREAM_BYTES, 37);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	before = writes_of_members(&rig);
	rig.step_ms_max = 1;
	for (uint64_t i = 0; i < 117; rig_step(&rig)) /* a row in a millisecond */
		for (int more = 0; more < 3 && rig.active_count < 32; more++)
			rig_submit(&rig, REQUEST_WRITE, i++ * 128, 128, false);
	rig_drain(&rig);
	assert_true(writes_of_members(&rig) - before <= 130); /* one by one 156, and marks */
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* One that is alone does not wait for what may come, after some lessons: a stream of depth 1. */
static void
test_lonely_writes_are_not_held(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 65536, STREAM_BYTES, 35);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rows_read_by_stream(&rig, 128, 16, 240); /* it learns to wait */
	rows_read_by_stream(&rig, 128, 1, 20);	 /* and not to */
	for (int i = 0; i < 10; i++) {
		rig_submit(&rig, REQUEST_WRITE, (uint64_t)i * 128, 128, false);
		engine_run(rig.engine, rig.now_ms);
		/* reads of what it needs, if not its marks */
		assert_true(commands_under_way(&rig) >= 2);
		rig_drain(&rig);
	}
	rig_stop(&rig);
	rig_free(&rig);
}

/* Nor does one whose next write comes only when it has ended, while others write: a journal. */
static void
test_journal_beside_other_writes_is_not_held(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 65536, STREAM_BYTES, 36);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rows_read_by_stream(&rig, 128, 16, 240);
	for (uint64_t i = 0; i < 20; i++) {
		int others;

		rig_drain(&rig);
		/* somebody's, elsewhere */
		rig_submit(&rig, REQUEST_WRITE, 12000 + 384 * (i % 8), 8, false);
		engine_run(rig.engine, rig.now_ms);
		others = commands_under_way(&rig);
		rig_submit(&rig, REQUEST_WRITE, i * 128, 128, false);
		engine_run(rig.engine, rig.now_ms);
		assert_true(commands_under_way(&rig) > others);
	}
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_full_stripe_is_one_command_per_member(void **state)
{
	struct rig rig;
	uint64_t before = 0, after = 0, reads = 0;

	rig_init(&rig, 5, 4, 65536, LOAD_BYTES, 24);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false); /* the region is dirty from here */
	rig_drain(&rig);
	for (int m = 0; m < 4; m++) {
		before += rig.members[m].writes;
		reads += rig.members[m].reads;
	}
	rig_submit(&rig, REQUEST_WRITE, 0, 4 * 384, false);
	rig_drain(&rig);
	for (int m = 0; m < 4; m++) {
		after += rig.members[m].writes;
		reads -= rig.members[m].reads;
	}
	assert_int_equal(after - before, 4);
	assert_int_equal(reads, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adjacent_writes_become_full_stripes),
		cmocka_unit_test(test_stream_of_writes_needs_no_reads),
		cmocka_unit_test(test_small_writes_of_a_row_read_it_once),
		cmocka_unit_test(test_what_was_known_of_a_row_goes_with_the_caches),
		cmocka_unit_test(test_what_a_small_write_does_not_need_costs_it_nothing),
		cmocka_unit_test(test_rows_of_a_stream_go_together),
		cmocka_unit_test(test_lonely_writes_are_not_held),
		cmocka_unit_test(test_journal_beside_other_writes_is_not_held),
		cmocka_unit_test(test_full_stripe_is_one_command_per_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
