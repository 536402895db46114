/* test_engine_figures.c - what an engine counts: a known load on fake members in virtual time,
 * whose figures are exact.
 *
 * Members answer after ANSWER_MS.  A request that is submitted between two steps has come when the
 * next one begins.
 */
#include "scenario.h"

#define CHUNK 16384u
#define CHUNK_SECTORS (CHUNK / RIG_SECTOR)
#define LOAD_BYTES (2ull << 20)
#define ANSWER_MS 10u
#define MS 1000000ull /* nanoseconds */

static struct engine_figures figures;

static void
look(struct rig *rig)
{
	engine_figures(rig->engine, &figures);
}

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, CHUNK, LOAD_BYTES, seed);
	set_deadline_of_all(rig, 60000000);
}

/* Commands at members. */
static uint32_t
under_way(struct rig *rig)
{
	uint32_t count = 0;

	look(rig);
	for (int i = 0; i < rig->count; i++)
		count += figures.members[i].in_flight;
	return count;
}

static void
settle(struct rig *rig)
{
	struct engine_status status;

	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 4000));
	rig->step_ms_max = 1;
	do {
		rig_step(rig);
		rig_jump(rig);
		status = rig_status(rig);
	} while (status.regions_suspect > 0 || status.regions_dirty > 0);
	do { /* what it writes of that to the members */
		rig_step(rig);
	} while (under_way(rig) > 0);
	for (int i = 0; i < rig->count; i++) {
		rig->members[i].answer_us_min = ANSWER_MS * 1000;
		rig->members[i].answer_us_max = ANSWER_MS * 1000;
	}
	look(rig);
}

static void
assert_sums_up(const struct histogram *histogram)
{
	uint64_t sum = 0;

	for (int i = 0; i <= FIGURES_BOUNDS; i++)
		sum += histogram->buckets[i];
	assert_int_equal(sum, histogram->count);
}

static void
assert_all_sum_up(void)
{
	for (int op = 0; op < FIGURES_OPS; op++)
		assert_sums_up(&figures.commands[op]);
	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		assert_sums_up(&figures.members[slot].reads);
		assert_sums_up(&figures.members[slot].writes);
		assert_sums_up(&figures.members[slot].flushes);
	}
}

static uint64_t
sum_of_reads(void)
{
	uint64_t sum = 0;

	for (int slot = 0; slot < SLOTS_MAX; slot++)
		sum += figures.members[slot].reads.bytes;
	return sum;
}

/* --- histograms --- */

static void
test_a_bound_belongs_to_the_bucket_below(void **state)
{
	static const struct {
		uint64_t ns;
		int bucket;
	} cases[] = {
		{ 0, 0 },
		{ 1, 0 },
		{ 16000, 0 },
		{ 16001, 1 },
		{ 32000, 1 },
		{ 32001, 2 },
		{ 64000, 2 },
		{ 1000000, 6 },
		{ 33554432000ull, FIGURES_BOUNDS - 1 },
		{ 33554432001ull, FIGURES_BOUNDS },
		{ UINT64_MAX, FIGURES_BOUNDS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct histogram histogram = { 0 };

		histogram_add(&histogram, cases[i].ns, 512, 0);
		assert_int_equal(histogram.buckets[cases[i].bucket], 1);
		assert_int_equal(histogram.sum_ns, cases[i].ns);
	}
}

static void
test_what_failed_has_no_bytes(void **state)
{
	struct histogram histogram = { 0 };

	histogram_add(&histogram, 5, 512, 0);
	histogram_add(&histogram, 5, 512, -EIO);
	assert_int_equal(histogram.count, 2);
	assert_int_equal(histogram.errors, 1);
	assert_int_equal(histogram.bytes, 512);
}

/* --- commands and members --- */

static void
test_a_known_load_is_counted(void **state)
{
	const struct histogram *reads = &figures.commands[REQUEST_READ];
	uint64_t before;
	struct rig rig;

	start(&rig, 5, 3, 1000);
	settle(&rig);
	assert_int_equal(reads->count, 0);
	before = sum_of_reads();
	for (uint64_t i = 0; i < 20; i++)
		rig_submit(&rig, REQUEST_READ, i * CHUNK_SECTORS + i, 8, false);
	look(&rig);
	assert_int_equal(figures.queue, 20);
	rig_step(&rig);
	assert_int_equal(under_way(&rig), 20);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(figures.queue, 0);
	assert_int_equal(reads->count, 20);
	assert_int_equal(reads->errors, 0);
	assert_int_equal(reads->bytes, 20 * 8 * RIG_SECTOR);
	assert_int_equal(reads->sum_ns, 20 * ANSWER_MS * MS);
	assert_int_equal(reads->buckets[10], 20); /* 8.2 to 16.4 ms */
	assert_int_equal(sum_of_reads() - before, 20 * 8 * RIG_SECTOR);
	assert_int_equal(under_way(&rig), 0);
	assert_int_equal(figures.steps[STEP_READ].count, 20);
	assert_int_equal(figures.steps[STEP_READ].sum_ns, 20 * ANSWER_MS * MS);
	assert_int_equal(figures.steps[STEP_READ].max_ns, ANSWER_MS * MS);
	assert_int_equal(figures.steps[STEP_WAIT].count, 20);
	assert_int_equal(figures.steps[STEP_WAIT].sum_ns, 0);
	assert_int_equal(figures.steps[STEP_COMPLETE].count, 20);
	/* the rig does not say when it got them */
	assert_int_equal(figures.steps[STEP_RING].count, 0);
	assert_all_sum_up();
	finish(&rig);
}

static void
test_each_kind_is_counted_as_what_was_asked(void **state)
{
	struct rig rig;

	start(&rig, 5, 3, 1001);
	settle(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 64, false);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	/* may differ or not: neither is an error */
	rig_submit(&rig, REQUEST_COMPARE_WRITE, 0, 8, false);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_ZERO, 0, 2048 + 5, false); /* long: cut into pieces */
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(figures.commands[REQUEST_READ].count, 0);
	assert_int_equal(figures.commands[REQUEST_WRITE].count, 1);
	assert_int_equal(figures.commands[REQUEST_WRITE].bytes, 64 * RIG_SECTOR);
	assert_int_equal(figures.commands[REQUEST_FLUSH].count, 1);
	assert_int_equal(figures.commands[REQUEST_FLUSH].bytes, 0);
	assert_int_equal(figures.steps[STEP_FLUSH].count, 1);
	assert_int_equal(figures.steps[STEP_FLUSH].sum_ns, ANSWER_MS * MS);
	assert_int_equal(figures.commands[REQUEST_COMPARE_WRITE].count, 1);
	assert_int_equal(figures.commands[REQUEST_COMPARE_WRITE].errors, 0);
	assert_int_equal(figures.commands[REQUEST_ZERO].count, 1);
	assert_int_equal(figures.commands[REQUEST_ZERO].bytes, (2048 + 5) * RIG_SECTOR);
	assert_int_equal(figures.steps[STEP_COMPLETE].count, 4);
	assert_int_equal(figures.queue, 0);
	assert_all_sum_up();
	finish(&rig);
}

static void
test_what_is_refused_is_an_error(void **state)
{
	struct rig rig;

	start(&rig, 5, 3, 1002);
	settle(&rig);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_READ, rig.volume_bytes / RIG_SECTOR, 8, false);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(figures.commands[REQUEST_READ].count, 1);
	assert_int_equal(figures.commands[REQUEST_READ].errors, 1);
	assert_int_equal(figures.commands[REQUEST_READ].bytes, 0);
	finish(&rig);
}

static void
test_a_members_errors_are_its_own(void **state)
{
	struct rig rig;

	start(&rig, 5, 3, 1003);
	settle(&rig);
	rig.members[1].refuse_reads = true;
	for (uint64_t i = 0; i < 6; i++)
		rig_submit(&rig, REQUEST_READ, i * CHUNK_SECTORS, CHUNK_SECTORS, false);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(figures.commands[REQUEST_READ].count, 6);
	assert_int_equal(figures.commands[REQUEST_READ].errors, 0);
	assert_true(figures.members[1].reads.errors > 0);
	assert_int_equal(figures.members[0].reads.errors + figures.members[2].reads.errors, 0);
	/* Two of each member's are made from the others. */
	assert_int_equal(figures.steps[STEP_CODE].count, 2);
	assert_all_sum_up();
	rig.members[1].refuse_reads = false;
	finish(&rig);
}

/* --- steps --- */

static void
test_a_write_goes_through_its_steps(void **state)
{
	const struct step_figures *steps = figures.steps;
	struct rig rig;

	start(&rig, 5, 4, 1004);
	settle(&rig);
	rig_submit(&rig, REQUEST_WRITE, 3, 8, false);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(steps[STEP_WAIT].count, 1);
	assert_int_equal(steps[STEP_WAIT].sum_ns, 0);
	assert_int_equal(steps[STEP_MARK].count, 1);
	assert_true(steps[STEP_MARK].sum_ns >= ANSWER_MS * MS);
	assert_int_equal(steps[STEP_READ].count, 1);
	assert_int_equal(steps[STEP_READ].sum_ns, ANSWER_MS * MS);
	assert_int_equal(steps[STEP_CODE].count, 1);
	assert_int_equal(steps[STEP_WRITE].count, 1);
	assert_int_equal(steps[STEP_WRITE].sum_ns, ANSWER_MS * MS);
	assert_int_equal(steps[STEP_FLUSH].count, 0);
	assert_int_equal(figures.commands[REQUEST_WRITE].sum_ns, steps[STEP_WAIT].sum_ns +
									 steps[STEP_MARK].sum_ns +
									 steps[STEP_WRITE].sum_ns);

	/* Its region is marked now, and nothing of a full row is read. */
	rig_submit(&rig, REQUEST_WRITE, 3 * CHUNK_SECTORS, 3 * CHUNK_SECTORS, true);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(steps[STEP_MARK].count, 1);
	assert_int_equal(steps[STEP_READ].count, 1);
	assert_int_equal(steps[STEP_CODE].count, 2);
	assert_int_equal(steps[STEP_WRITE].count, 2);
	assert_int_equal(steps[STEP_FLUSH].count, 1);
	assert_int_equal(steps[STEP_FLUSH].sum_ns, ANSWER_MS * MS);
	finish(&rig);
}

static void
test_who_waits_for_a_row_waits(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 1005);
	settle(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 3 * CHUNK_SECTORS, false);
	rig_step(&rig); /* has begun: nobody joins it */
	rig_submit(&rig, REQUEST_WRITE, 0, 3 * CHUNK_SECTORS, false);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(figures.steps[STEP_WAIT].count, 2);
	/* mark and write of the other */
	assert_true(figures.steps[STEP_WAIT].max_ns >= (2 * ANSWER_MS - 1) * MS);
	assert_true(figures.steps[STEP_WAIT].sum_ns < figures.steps[STEP_WAIT].max_ns + 3 * MS);
	finish(&rig);
}

static void
test_joined_writes_count_each(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 1006);
	settle(&rig);
	for (uint64_t i = 0; i < 3; i++)
		rig_submit(&rig, REQUEST_WRITE, i * CHUNK_SECTORS, CHUNK_SECTORS, false);
	rig_drain(&rig);
	look(&rig);
	assert_int_equal(rig_status(&rig).requests_merged, 2);
	assert_int_equal(figures.commands[REQUEST_WRITE].count, 3);
	assert_int_equal(figures.steps[STEP_WAIT].count, 3);
	assert_int_equal(figures.steps[STEP_WRITE].count, 3);
	assert_int_equal(figures.steps[STEP_WRITE].sum_ns, 3 * ANSWER_MS * MS);
	assert_int_equal(figures.steps[STEP_WRITE].max_ns, ANSWER_MS * MS);
	assert_int_equal(figures.steps[STEP_CODE].count, 3);
	finish(&rig);
}

static void
test_without_a_clock_there_are_counts(void **state)
{
	struct rig rig;

	start(&rig, 6, 5, 1007);
	rig.clockless = true;
	settle(&rig);
	rig_submit(&rig, REQUEST_WRITE, 3, 8, true);
	rig_drain(&rig);
	look(&rig);
	for (int step = 0; step < STEPS; step++) {
		assert_int_equal(figures.steps[step].sum_ns, 0);
		assert_int_equal(figures.steps[step].count, step == STEP_RING ? 0 : 1);
	}
	assert_int_equal(figures.commands[REQUEST_WRITE].buckets[0], 1);
	assert_int_equal(figures.commands[REQUEST_WRITE].sum_ns, 0);
	assert_all_sum_up();
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_bound_belongs_to_the_bucket_below),
		cmocka_unit_test(test_what_failed_has_no_bytes),
		cmocka_unit_test(test_a_known_load_is_counted),
		cmocka_unit_test(test_each_kind_is_counted_as_what_was_asked),
		cmocka_unit_test(test_what_is_refused_is_an_error),
		cmocka_unit_test(test_a_members_errors_are_its_own),
		cmocka_unit_test(test_a_write_goes_through_its_steps),
		cmocka_unit_test(test_who_waits_for_a_row_waits),
		cmocka_unit_test(test_joined_writes_count_each),
		cmocka_unit_test(test_without_a_clock_there_are_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
