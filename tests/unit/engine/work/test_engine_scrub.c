/* What a scrub says that it corrected. */
#include "scenario.h"

static bool
has_mismatch(struct rig *rig)
{
	return rig_status(rig).scrub_mismatches == 1;
}

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
	/* not until it is done: regions are flushed to be clean again */
	wait_until(&rig, has_mismatch);
	rig_power_loss(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_start_active(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Of what a cache holds some is kept, by chance. */
static void
test_what_a_scrub_corrected_stays_so_without_the_caches(void **state)
{
	for (uint64_t seed = 901; seed < 909; seed++)
		correct_and_lose_the_caches(seed);
}

/* --- a member that goes before it has flushed what was corrected --- */

static void
correct_and_lose_one_cache(uint64_t seed)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	struct tap tap;
	char why[256];

	rig_init(&rig, 5, 4, 16384, 8 << 20, seed);
	set_caches(&rig, true);
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	tap.judge = hold_flushes;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	assert_int_equal(rig_parity_faults(&rig), 0);
	tap.judge = NULL;
	fake_member_power_loss(&rig.members[1], true);
	wait_until(&rig, scrub_done);
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

/* The others can spare it, so it is evicted, and catches up: with what was dirty. */
static void
test_what_a_scrub_corrected_is_not_lost_with_a_member(void **state)
{
	(void)state;
	for (uint64_t seed = 910; seed < 918; seed++)
		correct_and_lose_one_cache(seed);
}

static enum tap_verdict
hold_row_2(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && io->offset_bytes / 16384 == (4u << 20) / 16384 + 2
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* A write fails elsewhere while it is written: the batch begins again, and the row fits then. */
static void
test_what_a_scrub_corrected_is_told_whatever_happens_elsewhere_then(void **state)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	struct tap tap;
	char why[256];

	(void)state;
	rig_init(&rig, 5, 4, 16384, 8 << 20, 918);
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	tap.judge = hold_row_2;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_true(tap.held_count > 0);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 8, 1, false);
	rig_drain(&rig);
	for (int m = 0; m < rig.count; m++)
		rig.members[m].refuse_writes = true;
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 8, 1, false);
	rig_drain(&rig);
	for (int m = 0; m < rig.count; m++)
		rig.members[m].refuse_writes = false;
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_scrub_goes_on_where_it_was_stopped(void **state)
{
	struct rig rig;
	char why[256];
	uint64_t done;

	(void)state;
	rig_init(&rig, 5, 4, 16384, 8 << 20, 920);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	for (int i = 0; i < 20000 && rig_status(&rig).scrub.done_rows < 100; i++)
		rig_step(&rig);
	done = rig_status(&rig).scrub.done_rows;
	assert_true(done >= 100);
	assert_int_equal(engine_scrub_stop(rig.engine, why), 0);
	rig_steps(&rig, 100); /* what was under way ends */
	assert_true(rig_status(&rig).scrub.done_rows >= done);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, true, why), 0);
	assert_true(rig_status(&rig).scrub.done_rows >= done);
	wait_until(&rig, scrub_done);
	finish(&rig);
}

/* A batch of the one before is under way. */
static void
test_a_scrub_that_is_begun_anew_skips_nothing(void **state)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	char why[256];

	(void)state;
	rig_init(&rig, 5, 4, 16384, 8 << 20, 921);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	for (int i = 0; i < 20000 && rig_status(&rig).scrub.done_rows < 100; i++)
		rig_step(&rig);
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	assert_int_equal(engine_scrub_stop(rig.engine, why), 0);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Row 2's parity is on member 1, as row 6's, and each row is a region. */
static void
test_a_scrub_marks_what_it_corrects_and_no_more(void **state)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct area areas[LAYOUT_AREAS];
	uint64_t data_bytes;
	uint32_t region_rows, most = 0;
	struct rig rig;
	char why[256];

	(void)state;
	rig_init_many_regions(&rig, 5, 4, 8 << 20, 922);
	rig.options.resync_rows_max = 64;
	assert_int_equal(
		layout_compute(RIG_MEMBER_BYTES_MAX, 4096, areas, &data_bytes, &region_rows), 0);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	for (uint64_t row = 2; row < 8; row += 4)
		disk_write(&rig.members[1].disk, areas[3].offset_bytes + row * 4096, junk, 512,
			   true);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	for (int i = 0; i < 50000 && !scrub_done(&rig); i++) {
		rig_step(&rig);
		if (rig_status(&rig).regions_dirty > most)
			most = rig_status(&rig).regions_dirty;
	}
	assert_int_equal(rig_status(&rig).scrub_mismatches, 2);
	assert_true(most > 0 && most <= 2);
	finish(&rig);
}

/* --- a scrub that is begun anew --- */

static enum tap_verdict
hold_reads_of_data(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= 4u << 20 ? TAP_HOLD : TAP_PASS;
}

/* Rows are just being compared when a scrub that corrects takes the place of the one that compares.
 */
static void
test_what_was_only_compared_is_not_taken_for_corrected(void **state)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	struct tap tap;
	char why[256];

	(void)state;
	rig_init(&rig, 5, 4, 16384, 8 << 20, 931);
	tap_init(&tap, &rig.members[0]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, all_clean);
	/* Row 2's parity is on member 1. */
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	tap.judge = hold_reads_of_data;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	for (int i = 0; i < 2000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_not_equal(tap.held_count, 0);
	assert_int_equal(engine_scrub_stop(rig.engine, why), 0);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* --- a member that returns while rows are read --- */

static enum tap_verdict
hold_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= (4u << 20) ? TAP_HOLD : TAP_PASS;
}

static void
wait_for_held(struct rig *rig, const struct tap *tap)
{
	for (int step = 0; step < 20000 && tap->held_count == 0; step++)
		rig_step(rig);
	assert_true(tap->held_count > 0);
}

/* A scrub waits for rows that somebody reads, and a member is evicted meanwhile; when the other copy was
 * read, that member is back and being filled, and rows which it did not miss count on it at once.  It
 * was not read.
 */
static void
scrub_while_one_returns(int level, int count, uint64_t seed)
{
	struct rig rig;
	struct tap tap;
	char why[256];

	rig_init(&rig, level, count, 16384, 8 << 20, seed);
	rig.options.log = LOG_MODE_OFF;
	set_caches(&rig, false);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	wait_until(&rig, all_clean);
	tap_init(&tap, &rig.members[1]);
	tap.judge = hold_reads;
	for (uint64_t sector = 0; sector < 512; sector += 32)
		rig_submit(&rig, REQUEST_READ, sector, 8, false);
	wait_for_held(&rig, &tap);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	rig_steps(&rig, 100);
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	wait_for_state(&rig, 0, MEMBER_FAULTY);
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 8, 8, false); /* so that it lacks something */
	rig_steps(&rig, 300);
	tap_let_go(&tap);
	wait_for_held(&rig, &tap);
	rig_steps(&rig, 300);
	rig.members[0].reachable = true;
	wait_for_state(&rig, 0, MEMBER_REBUILDING);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_drain(&rig);
	wait_until(&rig, all_in_sync);
	wait_until(&rig, scrub_done);
	rig_verify(&rig);
	for (int i = 0; i < 2; i++) { /* each copy */
		rig.members[i].reachable = false;
		fake_member_cut(&rig.members[i], false);
		wait_for_state(&rig, i, MEMBER_FAULTY);
		rig_verify(&rig);
		rig.members[i].reachable = true;
		wait_until(&rig, all_in_sync);
	}
	finish(&rig);
}

static void
test_a_copy_that_was_not_read_is_compared_with_nothing(void **state)
{
	(void)state;
	scrub_while_one_returns(1, 2, 920);
	scrub_while_one_returns(5, 4, 921);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_scrub_corrected_stays_so_without_the_caches),
		cmocka_unit_test(test_what_a_scrub_corrected_is_not_lost_with_a_member),
		cmocka_unit_test(
			test_what_a_scrub_corrected_is_told_whatever_happens_elsewhere_then),
		cmocka_unit_test(test_a_scrub_goes_on_where_it_was_stopped),
		cmocka_unit_test(test_a_scrub_that_is_begun_anew_skips_nothing),
		cmocka_unit_test(test_a_scrub_marks_what_it_corrects_and_no_more),
		cmocka_unit_test(test_what_was_only_compared_is_not_taken_for_corrected),
		cmocka_unit_test(test_a_copy_that_was_not_read_is_compared_with_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
