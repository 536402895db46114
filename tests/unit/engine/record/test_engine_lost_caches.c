/* test_engine_lost_caches.c - what is lost with a member when caches were lost before: the rows
 * that were written since the last flush, and no others.
 */
#include "knowable.h"

/* Two members lose their caches at once, so that nobody can make up for both.  What was flushed
 * before fits.
 */
static void
test_lost_caches_make_suspect_what_was_written_and_nothing_else(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 822);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0; /* what is suspect stays so */
	rig_start_active(&rig);
	row = row_in(&rig, 2) + 4;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	rig_lose_caches(&rig, 1, 2);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The same of a row whose P, or whose first chunk, goes with member 0. */
static void
lose_what_member_0_has(int position, uint64_t seed)
{
	struct rig rig;
	struct geometry geometry;
	uint64_t row;

	begin(&rig, 5, 4, seed);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 2);
	while (geometry_role(&geometry, row, (uint8_t)position) != 0)
		row++;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	rig_lose_caches(&rig, 1, 2);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_bytes, position == 0 ? CHUNK : 0);
	assert_int_equal(rig.losses_told, position == 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_nothing_is_told_where_no_data_is_lost(void **state)
{
	(void)state;
	lose_what_member_0_has(0, 843);
	lose_what_member_0_has(3, 844);
}

/* A region that nobody had written before the start is as any other, once it was clean. */
static void
test_what_was_clean_stays_known_where_nobody_had_written(void **state)
{
	struct rig rig;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 837);
	row = row_in(&rig, 2);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	disk_damage(&rig.members[0].disk, DATA_OFFSET + (row + 4) * CHUNK);
	rig_lose_caches(&rig, 1, 2);
	assert_int_equal(read_first_chunk(&rig, row + 4), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Who has the row's P loses its cache and comes back, member 0 goes for good. */
static void
lose_cache_and_member_0(struct rig *rig, uint64_t row)
{
	fake_member_power_loss(parity_of(rig, row), true);
	fake_member_cut(&rig->members[0], false);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 100);
}

/* A region that is written again and again is never clean. */
static void
test_what_a_flush_covered_stays_known_when_a_cache_is_lost(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 830);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	row = row_in(&rig, 2);
	write_row(&rig, row);
	flush(&rig);
	write_row(&rig, row + 4);
	assert_int_equal(rig_status(&rig).regions_dirty, 1);
	lose_cache_and_member_0(&rig, row + 4);
	check_only_this_is_lost(&rig, row + 4);
	rig_stop(&rig);
	rig_free(&rig);
}

/* A write with FUA flushes all members when it has been written, and nothing of the row is written
 * meanwhile.
 */
static void
test_a_write_with_fua_stays_known_when_a_cache_is_lost(void **state)
{
	struct rig rig;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 857);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	row = row_in(&rig, 2);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, true);
	rig_drain(&rig);
	write_row(&rig, row + 4);
	lose_cache_and_member_0(&rig, row + 4);
	check_only_this_is_lost(&rig, row + 4);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It said that it has no cache, so no flush was sent to it: what the flush of the others covered it
 * may have lost as well.
 */
static void
test_a_flush_covers_nothing_of_a_device_that_hid_its_cache(void **state)
{
	struct rig rig;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 835);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	row = row_in(&rig, 2);
	parity_of(&rig, row)->hides_cache = true;
	rig_start_active(&rig);
	write_row(&rig, row);
	flush(&rig);
	write_row(&rig, row + 4);
	parity_of(&rig, row)->backend.writes_lost++;
	lose_cache_and_member_0(&rig, row);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static bool
nothing_suspect(struct rig *rig)
{
	return rig_status(rig).regions_suspect == 0;
}

/* But the one that a start sends before it writes anything, and counts nothing by. */
static enum tap_verdict
hold_later_flushes(struct tap *tap, const struct backend_io *io)
{
	bool *sent = tap->owner;

	if (io->op != BACKEND_FLUSH || *sent)
		return hold_flushes(tap, io);
	*sent = true;
	return TAP_PASS;
}

/* Of the flush with which a volume runs after a crash nobody hears. */
static void
after_a_crash(struct rig *rig, struct tap *tap, uint64_t seed)
{
	bool sent = false;

	begin(rig, 5, 4, seed);
	write_row(rig, row_in(rig, 2));
	rig_crash(rig);
	tap_init(tap, &rig->members[1]);
	tap->owner = &sent;
	tap->judge = hold_later_flushes;
	rig_start_active(rig);
	tap->judge = hold_flushes; /* `sent` is gone with this function */
	wait_until(rig, nothing_suspect);
	assert_int_equal(rig_status(rig).regions_dirty, 1);
}

static enum tap_verdict
hold_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ ? TAP_HOLD : TAP_PASS;
}

/* It still reads what it is to change. */
static void
test_a_write_that_was_not_sent_went_into_no_cache(void **state)
{
	struct rig rig;
	struct tap taps[4];
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 858);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	for (int m = 0; m < rig.count; m++)
		tap_init(&taps[m], &rig.members[m]);
	rig_start_active(&rig);
	row = row_in(&rig, 2);
	write_row(&rig, row);
	for (int m = 0; m < rig.count; m++)
		taps[m].judge = hold_reads;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 4), 1, false);
	rig_steps(&rig, 20);
	assert_true(taps[0].held_count + taps[1].held_count + taps[2].held_count +
			    taps[3].held_count >
		    0);
	assert_int_equal(rig_status(&rig).regions_dirty, 1);
	for (int m = 0; m < rig.count; m++)
		taps[m].judge = NULL;
	lose_cache_and_member_0(&rig, row);
	for (int m = 0; m < rig.count; m++)
		tap_let_go(&taps[m]);
	rig_drain(&rig);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What caches held when the gateway died, nobody knows; so until all members were flushed, a region
 * that was dirty then counts as a whole.
 */
static void
test_after_a_crash_a_flush_tells_which_rows_a_cache_can_take_along(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	after_a_crash(&rig, &tap, 831);
	row = row_in(&rig, 2);
	tap.judge = NULL;
	tap_let_go(&tap);
	flush(&rig);
	write_row(&rig, row + 4);
	assert_int_equal(rig_status(&rig).regions_dirty, 1);
	lose_cache_and_member_0(&rig, row + 4);
	check_only_this_is_lost(&rig, row + 4);
	rig_stop(&rig);
	rig_free(&rig);

	after_a_crash(&rig, &tap, 832);
	lose_cache_and_member_0(&rig, row);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 2) + 4), -ENODATA);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What the gateway before left in a cache goes with it.  What was written since went into none:
 * this is of a member that has said so all the time.
 */
static void
test_a_cache_that_was_left_takes_along_nothing_that_was_written_since(void **state)
{
	struct rig rig;
	struct tap tap;
	bool sent = false;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 838);
	row = row_in(&rig, 2);
	rig_crash(&rig);
	set_caches(&rig, false);
	tap_init(&tap, parity_of(&rig, row));
	tap.owner = &sent;
	tap.judge = hold_later_flushes;
	rig_start_active(&rig);
	write_row(&rig, row);
	assert_true(tap.held_count > 0);
	tap.judge = NULL;
	lose_cache_and_member_0(&rig, row);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What a device tells at its first log-in was lost before the volume started: it says nothing of
 * what is flushed later.
 */
static void
test_writes_lost_before_the_start_void_no_flush_after_it(void **state)
{
	struct rig rig;
	uint64_t row;

	(void)state;
	begin(&rig, 5, 4, 836);
	row = row_in(&rig, 2);
	write_row(&rig, row);
	rig_crash(&rig);
	rig_start(&rig);
	parity_of(&rig, row)->backend.writes_lost++;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	wait_until(&rig, nothing_suspect);
	flush(&rig);
	write_row(&rig, row + 4);
	lose_cache_and_member_0(&rig, row + 4);
	check_only_this_is_lost(&rig, row + 4);
	rig_stop(&rig);
	rig_free(&rig);
}

/* --- orders of events --- */

static bool
is_in_row(const struct tap *tap, const struct backend_io *io)
{
	const uint64_t at = DATA_OFFSET + *(const uint64_t *)tap->owner * CHUNK;

	return io->offset_bytes + io->length_bytes > at && io->offset_bytes < at + CHUNK;
}

static enum tap_verdict
hold_writes_of_row(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && is_in_row(tap, io) ? TAP_HOLD : TAP_PASS;
}

static enum tap_verdict
hold_reads_of_row(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_READ && is_in_row(tap, io) ? TAP_HOLD : TAP_PASS;
}

static void
tap_parity(struct rig *rig, struct tap *tap, uint64_t *row)
{
	*row = row_in(rig, 2);
	tap_init(tap, parity_of(rig, *row));
	tap->owner = row;
}

static void
test_a_flush_covers_no_row_that_is_written_meanwhile(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	begin(&rig, 5, 4, 833);
	rig_stop(&rig);
	rig.options.resync_rows_max = 0;
	tap_parity(&rig, &tap, &row);
	rig_start_active(&rig);
	tap.judge = hold_writes_of_row;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	wait_for_held(&rig, &tap);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	for (int i = 0; i < 1000 && rig.active_count > 1; i++)
		rig_step(&rig);
	assert_int_equal(rig.active_count, 1);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_drain(&rig);
	lose_cache_and_member_0(&rig, row);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_parity_that_a_resync_corrected_can_go_with_a_cache(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	begin(&rig, 5, 4, 834);
	rig_stop(&rig);
	tap_parity(&rig, &tap, &row);
	rig_start_active(&rig);
	engine_set_rates(rig.engine, 1, 1);
	fail_half_way(&rig, row);
	tear_row(&rig, row);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	tap.judge = hold_reads_of_row;
	engine_set_rates(rig.engine, 1 << 20, 1 << 30);
	wait_for_held(&rig, &tap);
	rig.errors_allowed = true; /* it tells of the sessions that were closed */
	flush(&rig);		   /* covers all but what the resync is about to write */
	rig.errors_allowed = false;
	tap.judge = NULL;
	tap_let_go(&tap);
	wait_until(&rig, nothing_suspect);
	lose_cache_and_member_0(&rig, row);
	check_only_this_is_lost(&rig, row);
	rig_stop(&rig);
	rig_free(&rig);
}

static bool
is_resynced(struct rig *rig)
{
	return rig_status(rig).resync.done_rows >= 8;
}

/* A resync of rows that nobody ever wrote, and that don't fit, finds the first one proven: by a
 * write for which it had to wait.  It makes the others fit, which a cache may take along.  Nobody
 * has data there.
 */
static void
test_what_a_resync_made_beside_a_write_is_nobodys_data(void **state)
{
	struct rig rig;
	struct geometry geometry;

	(void)state;
	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 839);
	set_caches(&rig, true);
	rig.options.resync_rows_max = 8;
	for (uint64_t row = 0; row < 8; row++)
		tear_row(&rig, row);
	rig_start(&rig);
	write_row(&rig, 0);
	wait_until(&rig, is_resynced);
	geometry = geometry_of(&rig);
	fake_member_power_loss(&rig.members[1], true);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 100);
	for (uint64_t row = 1; row < 8; row++)
		if (geometry_role(&geometry, row, 0) == 0)
			assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_true(rig_status(&rig).lost_bytes <= CHUNK);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The same, one by one: a sector of another row among them can't be read, so their region stays
 * suspect.
 */
static void
resync_beside_a_bad_row(struct rig *rig)
{
	struct geometry geometry;

	rig_init(rig, 5, 4, CHUNK, LOAD_BYTES, 841);
	set_caches(rig, true);
	rig->options.resync_rows_max = 8;
	geometry = geometry_of(rig);
	for (uint64_t row = 0; row < 8; row++)
		tear_row(rig, row);
	disk_damage(&rig->members[geometry_role(&geometry, 3, 1)].disk, DATA_OFFSET + 3 * CHUNK);
	rig_start(rig);
	/* no leap, or caches are flushed */
	for (int i = 0; i < 1000 && rig_status(rig).resync_corrected_rows < 7; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).resync_corrected_rows, 7);
}

static void
test_what_a_resync_mended_beside_a_bad_row_is_nobodys_data(void **state)
{
	struct rig rig;

	(void)state;
	resync_beside_a_bad_row(&rig);
	fake_member_power_loss(&rig.members[1], true);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_what_a_resync_mended_before_a_crash_is_nobodys_data(void **state)
{
	struct rig rig;

	(void)state;
	resync_beside_a_bad_row(&rig);
	rig_steps(&rig, 100);
	rig_crash(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_scrub_writes_no_row_between_two_that_it_corrects(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, corrected;
	char why[256];

	(void)state;
	begin(&rig, 5, 4, 840);
	row = row_in(&rig, 2) + 4;
	corrected = parity_of(&rig, row + 1) != &rig.members[0] ? row + 1 : row - 1;
	rig_stop(&rig);
	rig.options.resync_rows_max = 16;
	tap_init(&tap, parity_of(&rig, corrected));
	tear_row(&rig, row - 1);
	tear_row(&rig, row + 1);
	rig_start_active(&rig);
	tap.judge = hold_flushes;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	wait_for_held(&rig, &tap);
	assert_int_equal(rig_parity_faults(&rig), 0);
	tap.judge = NULL;
	lose_cache_and_member_0(&rig, corrected);
	assert_true(rig_status(&rig).lost_bytes > 0);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_caches_make_suspect_what_was_written_and_nothing_else),
		cmocka_unit_test(test_nothing_is_told_where_no_data_is_lost),
		cmocka_unit_test(test_what_was_clean_stays_known_where_nobody_had_written),
		cmocka_unit_test(test_what_a_flush_covered_stays_known_when_a_cache_is_lost),
		cmocka_unit_test(
			test_after_a_crash_a_flush_tells_which_rows_a_cache_can_take_along),
		cmocka_unit_test(
			test_a_cache_that_was_left_takes_along_nothing_that_was_written_since),
		cmocka_unit_test(test_writes_lost_before_the_start_void_no_flush_after_it),
		cmocka_unit_test(test_a_flush_covers_no_row_that_is_written_meanwhile),
		cmocka_unit_test(test_parity_that_a_resync_corrected_can_go_with_a_cache),
		cmocka_unit_test(test_what_a_resync_made_beside_a_write_is_nobodys_data),
		cmocka_unit_test(test_what_a_resync_mended_beside_a_bad_row_is_nobodys_data),
		cmocka_unit_test(test_what_a_resync_mended_before_a_crash_is_nobodys_data),
		cmocka_unit_test(test_a_scrub_writes_no_row_between_two_that_it_corrects),
		cmocka_unit_test(test_a_write_with_fua_stays_known_when_a_cache_is_lost),
		cmocka_unit_test(test_a_flush_covers_nothing_of_a_device_that_hid_its_cache),
		cmocka_unit_test(test_a_write_that_was_not_sent_went_into_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
