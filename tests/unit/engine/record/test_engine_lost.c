/* test_engine_lost.c - what is recorded as lost when a member is missing: neither more nor less,
 * and who is believed to hold it.
 */
#include "knowable.h"

#include "pure/lost_extent.h"

static void
lose_member_0(struct rig *rig)
{
	fake_member_cut(&rig->members[0], false);
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
}

/* Its chunk is older than what was written without it. */
static void
test_what_was_lost_after_a_member_left_is_not_taken_from_it(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 820);
	row = row_in(&rig, 1);
	rig_stop(&rig);
	rig.members[0].disk.write_cache = false; /* so that what it holds would count */
	rig_start_active(&rig);
	lose_member_0(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), CHUNK_SECTORS, false);
	rig_drain(&rig);
	fail_half_way(&rig, row);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	accept_all(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_failed_write_of_a_degraded_volume_loses_its_own_row_only(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 821);
	row = row_in(&rig, 1) + 8;
	lose_member_0(&rig);
	fail_half_way(&rig, row);
	check_only_this_is_lost(&rig, row);
	/* The rows beside it are written as ever, and the row itself when it is written whole. */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 4) + 3, 1, false);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

/* What it was filled with is what parity made of rows that did not fit.  That it has become a
 * member since, and left, and is back, makes it none the wiser.
 */
static void
test_device_that_takes_a_place_does_not_hold_what_was_lost_before(void **state)
{
	struct rig rig;
	char why[256];
	uint64_t row;

	begin(&rig, 5, 4, 824);
	row = row_in(&rig, 2);
	write_in(&rig, 2);
	rig_crash(&rig);
	tear_row(&rig, row);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	rig.members[4].disk.write_cache = false;
	assert_int_equal(engine_attach(rig.engine, &rig.members[4].backend, why), 4);
	rig_steps(&rig, 50);
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	fake_member_cut(&rig.members[4], false);
	write_in(&rig, 2); /* its region is copied again */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 1), 1, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[4].reachable = true;
	wait_until(&rig, all_in_sync);
	/* was written anew */
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	accept_all(&rig);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* Level 6: what is made of the others with one member out is something else than with two. */
static void
test_member_that_goes_while_a_loss_is_recorded_is_recorded_too(void **state)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	uint8_t other;

	begin(&rig, 6, 5, 825);
	row = row_in(&rig, 2);
	geometry = geometry_of(&rig);
	other = geometry_role(&geometry, row, 1);
	write_in(&rig, 2);
	rig_crash(&rig);
	tear_row(&rig, row);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	fake_member_cut(&rig.members[other], false); /* the table is being written to it */
	rig_steps(&rig, 2000);
	assert_int_equal(rig_status(&rig).members[other].state, MEMBER_FAULTY);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row) + CHUNK_SECTORS,
				       CHUNK_SECTORS),
			 -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Two writes of one region fail at about the same time, and the first is being recorded when the
 * second does.
 */
static void
test_row_that_fails_while_a_loss_is_recorded_is_recorded_too(void **state)
{
	for (uint64_t seed = 0; seed < 12; seed++) {
		struct rig rig;
		uint64_t row;

		begin(&rig, 5, 4, 8250 + seed);
		row = row_in(&rig, 1);
		lose_member_0(&rig);
		write_in(&rig, 1); /* marks the region */
		/* Their second chunks are on member 1, their parity on member 3. */
		disk_make_unwritable(&rig.members[1].disk, DATA_OFFSET + row * CHUNK);
		disk_make_unwritable(&rig.members[1].disk, DATA_OFFSET + (row + 4) * CHUNK);
		rig.errors_allowed = true;
		for (uint64_t i = 0; i <= 4; i += 4)
			rig_submit(&rig, REQUEST_WRITE,
				   sector_of_row(&rig, row + i) + CHUNK_SECTORS, 1, false);
		rig_drain(&rig);
		rig_steps(&rig, 100);
		assert_int_equal(rig.failed, 2);
		assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
		assert_int_equal(read_first_chunk(&rig, row + 4), -ENODATA);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Level 6 without member 0: in region 2, which was new, a row is written and flushed, and in region
 * 1 one is written after that.  Then all but member 4 lose their caches.  room: of the table of
 * lost extents; 0: all there is.
 */
static uint64_t
begin_undecided(struct rig *rig, struct tap *tap, int room, uint64_t seed)
{
	uint64_t row;

	rig_init(rig, 6, 5, CHUNK, LOAD_BYTES, seed);
	tap_init(tap, &rig->members[4]);
	rig->options.resync_rows_max = 0;
	rig->options.lost_entries_max = room;
	rig_start_active(rig);
	row = row_in(rig, 2);
	lose_member_0(rig);
	write_row(rig, row);
	flush(rig);
	write_row(rig, row_in(rig, 1));
	return row;
}

static void
lose_caches_of_1_to_3(struct rig *rig, bool all_return)
{
	for (int m = 1; m < 4; m++)
		fake_member_power_loss(&rig->members[m], m == 1 || all_return);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
}

static enum tap_verdict
hold_table(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_LOST_OFFSET &&
			       io->offset_bytes < LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES
		       ? TAP_HOLD
		       : TAP_PASS;
}

static void
test_what_is_not_lost_is_not_refused_while_losses_are_recorded(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = begin_undecided(&rig, &tap, 0, 835);

	tap.judge = hold_table;
	lose_caches_of_1_to_3(&rig, true);
	wait_for_held(&rig, &tap);
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row), 1, false);
	rig_steps(&rig, 20);
	assert_int_equal(rig.failed, 0);
	assert_int_equal(rig.active_count, 1);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_true(rig_status(&rig).lost_bytes > 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* As before, with a table that has room for one row, and rows of two regions to list. */
static void
test_what_is_not_lost_is_not_refused_when_the_table_is_full(void **state)
{
	for (uint64_t seed = 841; seed < 845; seed++) {
		struct rig rig;
		struct tap tap;
		uint64_t row = begin_undecided(&rig, &tap, 1, seed);

		write_row(&rig, row_in(&rig, 0));
		lose_caches_of_1_to_3(&rig, true);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_steps(&rig, 200);
		assert_int_equal(rig_status(&rig).lost_extents, 1);
		assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row_in(&rig, 1)), 1),
				 -ENODATA);
		assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* As before, but it is a row of the very region that lost another one that loses nothing, flushed
 * or never written: both are what the others make of them, whoever goes next.
 */
static void
test_rows_that_lose_nothing_are_not_refused_beside_one_that_found_no_room(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	(void)state;
	row = begin_undecided(&rig, &tap, 1, 849);
	write_row(&rig, row + 5);
	lose_caches_of_1_to_3(&rig, true);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 200);
	assert_int_equal(rig_status(&rig).lost_extents, 1);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row + 5), 1), -ENODATA);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	write_row(&rig, row);
	write_row(&rig, row + 10);
	fake_member_cut(&rig.members[1], false);
	rig_steps(&rig, 4000);
	assert_int_not_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), row_sectors(&rig)), 0);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row + 10), row_sectors(&rig)), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* A region whose loss is listed beside one that found no room is settled: it becomes clean, and
 * after a crash only what is listed is lost of it.  again: caches are lost once more while the
 * table is written.
 */
static void
settle_beside_a_full_table(bool again, uint64_t seed)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	begin(&rig, 5, 4, seed);
	rig_stop(&rig);
	rig.options.lost_entries_max = 2;
	tap_init(&tap, &rig.members[3]);
	rig_start_active(&rig);
	row = row_in(&rig, 2);
	lose_member_0(&rig);
	write_row(&rig, row + 4);
	flush(&rig);
	write_row(&rig, row);
	lose_caches_of_1_to_3(&rig, true);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 200);
	assert_int_equal(rig_status(&rig).lost_extents, 1);
	/* Region 0 takes the room that there is, region 1 finds none, and region 2 needs none. */
	write_row(&rig, row_in(&rig, 0) + 8);
	write_row(&rig, row_in(&rig, 1));
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(&rig);
	tap.judge = hold_table;
	lose_caches_of_1_to_3(&rig, true);
	wait_for_held(&rig, &tap);
	if (again) {
		fake_member_power_loss(&rig.members[1], true);
		assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	}
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 200);
	assert_int_equal(rig_status(&rig).lost_extents, 2);
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	rig_steps(&rig, 5000);
	rig_crash(&rig);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 200);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row_in(&rig, 1)), -ENODATA);
	assert_int_equal(read_first_chunk(&rig, row + 4), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_what_is_listed_beside_a_full_table_is_settled(void **state)
{
	(void)state;
	settle_beside_a_full_table(false, 851);
}

static void
test_what_is_listed_beside_a_full_table_is_settled_though_more_is_doubted(void **state)
{
	(void)state;
	settle_beside_a_full_table(true, 852);
}

static bool
has_1_back(struct rig *rig)
{
	return rig->members[1].open_now;
}

static void
test_write_waits_for_members_and_then_for_the_record(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = begin_undecided(&rig, &tap, 0, 836);

	lose_caches_of_1_to_3(&rig, false);
	wait_until(&rig, has_1_back);
	rig_steps(&rig, 20);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_steps(&rig, 20);
	assert_int_equal(rig.active_count, 1);
	rig.members[2].reachable = rig.members[3].reachable = true;
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Behind members that stayed away for too long requests fail at once; so does a read that would
 * wait for the record, which they hold up.  Nothing else may ever wake the engine.
 */
static void
test_read_that_would_wait_for_the_record_fails_with_all_others(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	(void)state;
	row = begin_undecided(&rig, &tap, 0, 847);
	lose_caches_of_1_to_3(&rig, false);
	wait_until(&rig, has_1_back);
	rig_steps(&rig, (int)rig.options.queue_limit_ms);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	/* its row is free when the write has failed */
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row), 1, false);
	engine_run(rig.engine, rig.now_ms);
	assert_int_equal(rig.active_count, 0);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig.members[2].reachable = rig.members[3].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static bool
fills_0(struct rig *rig)
{
	return rig_status(rig).rebuild_slot == 0;
}

/* Level 6 without member 1; member 0 is being filled, and holds all but one region already.  The
 * table of lost extents has room for two.
 */
static void
begin_filling(struct rig *rig, struct tap *tap, uint64_t seed)
{
	begin(rig, 6, 5, seed);
	rig_stop(rig);
	rig->options.lost_entries_max = 2;
	tap_init(tap, &rig->members[0]);
	rig_start_active(rig);
	fake_member_cut(&rig->members[1], false);
	write_in(rig, 0);
	lose_member_0(rig);
	write_in(rig, 5);
	engine_set_rates(rig->engine, 16384, 16384);
	rig->members[0].reachable = true;
	wait_until(rig, fills_0);
	assert_int_equal(rig_status(rig).rebuild_slot, 0);
}

static bool
has_filled_0(struct rig *rig)
{
	return rig_status(rig).members[0].state == MEMBER_IN_SYNC;
}

static void
write_whole_row(struct rig *rig, uint64_t row)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row), row_sectors(rig), false);
}

static enum tap_verdict
hold_writes_of_data(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= DATA_OFFSET ? TAP_HOLD : TAP_PASS;
}

static bool
fills(struct rig *rig)
{
	return rig_status(rig).rebuild.done_rows >= 64;
}

/* Parity that a resync makes of rows that nobody wrote is on its way to member 3 when member 0
 * goes, with which redundancy goes.  From then on it defines what is missing, and nothing is
 * suspect; but no flush has covered it, so its region stays marked.
 */
static void
hold_parity_while_a_member_goes(struct rig *rig, struct tap *tap, bool row_by_row)
{
	char why[256];

	rig_init(rig, 5, 5, CHUNK, LOAD_BYTES, 871);
	set_caches(rig, true);
	tap_init(tap, &rig->members[3]);
	rig->options.resync_rows_max = 8;
	rig->step_ms_max = 1;
	rig_start_active(rig);
	engine_set_rates(rig->engine, 1, 1);
	rig_submit(rig, REQUEST_WRITE, 640, 1, false);
	rig_drain(rig);
	flush(rig);
	if (row_by_row)
		disk_damage(&rig->members[4].disk, DATA_OFFSET);
	tap->judge = hold_writes_of_data;
	engine_set_rates(rig->engine, 1u << 30, 1u << 30);
	for (int i = 0; i < 1000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_true(tap->held_count > 0);
	assert_int_equal(engine_fail(rig->engine, 0, why), 0);
	wait_for_state(rig, 0, MEMBER_FAULTY);
	rig_steps(rig, 3000);
	assert_int_equal(rig_status(rig).regions_suspect, 0);
	assert_int_equal(rig_status(rig).regions_dirty, 1);
	tap->judge = NULL;
	tap_let_go(tap);
	rig_steps(rig, 10);
}

static void
test_parity_on_its_way_when_a_member_goes_counts_as_new(void **state)
{
	struct rig rig;
	struct tap tap;
	char why[256];

	(void)state;
	hold_parity_while_a_member_goes(&rig, &tap, false);
	assert_int_equal(engine_readmit(rig.engine, 0, why), 0);
	for (int i = 0; i < 2000 && !fills(&rig); i++)
		rig_step(&rig);
	assert_true(fills(&rig));
	rig.errors_allowed = true;
	fake_member_power_loss(&rig.members[3], true);
	rig_steps(&rig, 5);
	assert_true(rig.members[3].counts.sectors_lost > 0);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	flush(&rig);
	rig.errors_allowed = false;
	wait_until(&rig, all_in_sync);
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_parity_of_a_row_that_is_mended_is_on_its_way_when_a_member_goes(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	hold_parity_while_a_member_goes(&rig, &tap, true);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Three rows prove nothing, two of which find no room in the table.  Of the last the device that is
 * being filled has a chunk that P and Q don't fit.
 */
static uint64_t
leave_rows_unknown(struct rig *rig, struct tap *tap, uint64_t seed)
{
	uint64_t row;

	begin_filling(rig, tap, seed);
	engine_set_rates(rig->engine, 1, 1);
	row = row_in(rig, 3);
	for (uint32_t region = 1; region <= 3; region++)
		fail_half_way(rig, row_in(rig, region));
	tear_row(rig, row);
	rig->failed = 0;
	return row;
}

/* Of such a row only data is written.  A device that is being filled has no place yet, and what
 * nobody else takes would go with it.
 */
static void
test_what_only_a_device_that_is_filled_would_take_is_refused(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = leave_rows_unknown(&rig, &tap, 837);

	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + 2 * CHUNK_SECTORS, 1, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	rig.errors_allowed = false;
	if (rig.failed == 0) { /* then it must be there without the device */
		fake_member_cut(&rig.members[0], false);
		rig_steps(&rig, 100);
		assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	}
	assert_int_equal(rig.failed, 1);
	assert_int_equal(rig.last_error, -ENODATA);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	/* With what else is missing it proves the row. */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 2 * CHUNK_SECTORS, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 100);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 2 * CHUNK_SECTORS + 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* There is room for one of the other two. */
static void
test_what_a_device_that_is_filled_has_stays_when_it_finds_no_room(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = leave_rows_unknown(&rig, &tap, 842);

	write_whole_row(&rig, row_in(&rig, 1));
	rig_drain(&rig);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_extents, 2);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row_in(&rig, 2)), 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Somebody accepts what is lost.  That is the other missing chunk, which P and Q have to fit then,
 * with what the device has.
 */
static void
test_what_is_accepted_fits_what_a_device_that_is_filled_has(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = leave_rows_unknown(&rig, &tap, 839);

	accept_all(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	engine_set_rates(rig.engine, 64u << 20, 1u << 30);
	wait_until(&rig, has_filled_0);
	wait_until(&rig, all_proven);
	lose_member_0(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	write_whole_row(&rig, row);
	rig_drain(&rig);
	finish(&rig);
}

/* It is gone before that is so. */
static void
test_what_was_accepted_with_a_device_is_unknown_without_it(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row = leave_rows_unknown(&rig, &tap, 840);

	accept_all(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).rebuild_slot, -1);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), -ENODATA);
	write_whole_row(&rig, row);
	rig_drain(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The volume is stopped before that is so.  Who holds such rows is known in memory only. */
static void
test_what_was_accepted_with_a_device_is_unknown_after_a_stop(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row;

	leave_rows_unknown(&rig, &tap, 844);
	row = row_in(&rig, 2); /* of region 3, written last, the stop proves all */
	accept_all(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), 0);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 2).clean, true);
	assert_int_equal(rig_superblock(&rig, 2).recorded_roles, 0);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), -ENODATA);
	rig_crash(&rig);
	rig_free(&rig);
}

static bool has_grown, growth_ended;

static void
grown(void *owner, int error, const char *text)
{
	(void)owner;
	(void)text;
	has_grown = error == 0;
	growth_ended = true;
}

static void
grow(struct rig *rig, uint64_t member_bytes)
{
	char why[256];

	has_grown = false;
	rig_extend_members(rig, member_bytes);
	assert_int_equal(engine_grow(rig->engine, grown, NULL, why), 0);
	for (int i = 0; i < 4000 && !has_grown; i++)
		rig_step(rig);
	assert_true(has_grown);
}

/* The first growth begins a region, which the second fills. */
static void
test_padded_rows_of_a_grown_volume_survive_a_loss_of_power(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 826);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	rig_wait_for_resync(&rig);
	rig_steps(&rig, 5000);
	grow(&rig, RIG_MEMBER_BYTES + 31 * CHUNK);
	rig_power_loss(&rig);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static enum tap_verdict
refuse_flushes(struct tap *tap, const struct backend_io *io)
{
	*(bool *)tap->owner |= io->op == BACKEND_FLUSH;
	return io->op == BACKEND_FLUSH ? TAP_REFUSE : TAP_PASS;
}

/* A second growth is about to fill a region with zeros, and a row was written. */
static void
begin_to_pad(struct rig *rig, struct tap *tap, uint64_t seed)
{
	char why[256];

	begin(rig, 5, 4, seed);
	grow(rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	rig_stop(rig);
	for (int m = 0; m < rig->count; m++)
		rig->members[m].disk.write_cache = true;
	tap_init(tap, parity_of(rig, row_in(rig, 2)));
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_steps(rig, 5000);
	write_row(rig, row_in(rig, 2));
	growth_ended = false;
	rig_extend_members(rig, RIG_MEMBER_BYTES + 31 * CHUNK);
	assert_int_equal(engine_grow(rig->engine, grown, NULL, why), 0);
}

/* Growth flushes what it pads.  Until that has succeeded it covers nothing of what others wrote. */
static void
test_a_flush_of_a_growth_covers_nothing_until_it_has_succeeded(void **state)
{
	bool asked = false;
	uint64_t flushes;
	struct rig rig;
	struct tap tap;

	(void)state;
	begin_to_pad(&rig, &tap, 836);
	tap.judge = hold_flushes;
	wait_for_held(&rig, &tap);
	tap.judge = NULL;
	flushes = tap.member->flushes;
	flush(&rig);
	assert_int_equal(tap.member->flushes, flushes + 1);
	tap_let_go(&tap);
	for (int i = 0; i < 4000 && !growth_ended; i++)
		rig_step(&rig);
	assert_true(has_grown);
	finish(&rig);

	begin_to_pad(&rig, &tap, 837);
	tap.owner = &asked;
	tap.judge = refuse_flushes;
	for (int i = 0; i < 4000 && !growth_ended; i++)
		rig_step(&rig);
	assert_true(asked);
	assert_false(has_grown);
	tap.judge = NULL;
	flushes = tap.member->flushes;
	flush(&rig);
	assert_int_equal(tap.member->flushes, flushes + 1);
	finish(&rig);
}

/* A member was lost while the volume grew, and the gateway died before the new size was on record:
 * the table has rows that the volume has not.
 */
static void
test_growth_that_a_crash_cut_short_forgets_no_loss(void **state)
{
	struct lost_extent entries[LAYOUT_LOST_ENTRIES] = { 0 };
	uint8_t granule[LAYOUT_GRANULE_BYTES];
	struct lost_range range[2];
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 823);
	row = row_in(&rig, 1);
	rig_crash(&rig);
	entries[3] = (struct lost_extent){ .row = row, .rows = 1, .column_end = CHUNK };
	entries[5] = (struct lost_extent){ .row = geometry_of(&rig).rows,
					   .rows = 40,
					   .column_end = CHUNK };
	lost_granule_encode(entries, 7, 2, rig.options.volume_uuid, granule);
	for (int m = 0; m < rig.count; m++)
		disk_write(&rig.members[m].disk, LAYOUT_LOST_OFFSET + 7 * LAYOUT_GRANULE_BYTES,
			   granule, sizeof(granule), true);
	rig_start_active(&rig);
	assert_int_equal(engine_lost_list(rig.engine, 0, range, 2), 1);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	/* It grows after all: what was never written there is not lost. */
	rig_steps(&rig, 200);
	rig_crash(&rig);
	disk_read(&rig.members[2].disk, LAYOUT_LOST_OFFSET + 7 * LAYOUT_GRANULE_BYTES, granule,
		  sizeof(granule));
	assert_int_equal(granule[16 + 5 * 24 + 8], 0);
	rig_free(&rig);
}

/* --- a real growth, cut where the table has rows that no superblock knows of --- */

static bool map_held;

static enum tap_verdict
hold_the_map(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return map_held && io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_MAP_OFFSET &&
			       io->offset_bytes < LAYOUT_LOST_OFFSET
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* Has this member's table entries that reach behind the end of which its superblock speaks? */
static bool
has_rows_behind_its_end(struct rig *rig, int member)
{
	const struct geometry geometry = geometry_of(rig);
	struct lost_extent entries[LAYOUT_LOST_ENTRIES];
	uint8_t granule[LAYOUT_GRANULE_BYTES];
	bool clipped = false, valid = true;

	for (uint32_t g = 0; g < LAYOUT_LOST_GRANULES && valid && !clipped; g++) {
		disk_read(&rig->members[member].disk, LAYOUT_LOST_OFFSET + g * LAYOUT_GRANULE_BYTES,
			  granule, sizeof(granule));
		valid = lost_granule_decode(granule, g, rig->options.volume_uuid, &geometry,
					    entries, &clipped);
	}
	return clipped || !valid;
}

/* The volume ends in the middle of a region, in which a crash has left rows suspect; one row
 * elsewhere is lost, and says nothing of its region any more.
 */
static uint64_t
prepare_growth(struct rig *rig, struct tap *tap)
{
	uint64_t row;

	begin(rig, 5, 4, 827);
	grow(rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	rig_extend_load(rig, rig_status(rig).size_bytes);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	tap_init(tap, &rig->members[1]);
	tap->judge = hold_the_map;
	rig_start_active(rig);
	row = row_in(rig, 1);
	lose_member_0(rig);
	fail_half_way(rig, row);
	rig->members[0].reachable = true;
	wait_until(rig, all_in_sync);
	rig_wait_for_resync(rig);
	rig_steps(rig, 5000);
	assert_int_equal(rig_status(rig).regions_dirty, 0);
	rig_submit(rig, REQUEST_WRITE, rig->sectors - row_sectors(rig), 1, true);
	rig_drain(rig);
	rig_crash(rig);
	tap_drop(tap);
	rig->options.resync_rows_max = 0; /* what is suspect stays so */
	rig_start_active(rig);
	assert_int_equal(read_first_chunk(rig, row), -ENODATA);
	return row;
}

/* grow.c has made the region map larger, and waits for it; the superblocks come after.  A member
 * that goes meanwhile is evicted with the old size on record, and all suspect rows of the last
 * region are recorded as lost, those that it has gained as well.
 */
static void
lose_a_member_while_it_marks(struct rig *rig, struct tap *tap, uint64_t member_bytes)
{
	const uint64_t lost_bytes = rig_status(rig).lost_bytes;
	char why[256];

	map_held = true;
	has_grown = false;
	rig_extend_members(rig, member_bytes);
	assert_int_equal(engine_grow(rig->engine, grown, NULL, why), 0);
	for (int i = 0; i < 1000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_true(tap->held_count > 0);
	fake_member_cut(&rig->members[0], false);
	for (int i = 0; i < 4000 && rig_status(rig).lost_bytes == lost_bytes; i++)
		rig_step(rig);
	rig_steps(rig, 50);
	assert_true(rig_status(rig).lost_bytes > lost_bytes);
	assert_false(has_grown);
	rig_crash(rig);
	tap_drop(tap);
	map_held = false;
}

static void
test_growth_cut_short_after_losses_in_its_rows_forgets_no_other(void **state)
{
	struct rig rig;
	struct tap tap;
	const uint64_t row = prepare_growth(&rig, &tap);
	const uint64_t size = rig_status(&rig).size_bytes;

	lose_a_member_while_it_marks(&rig, &tap, RIG_MEMBER_BYTES + 100 * CHUNK);
	for (int m = 1; m < rig.count; m++)
		assert_true(has_rows_behind_its_end(&rig, m));
	rig.options.resync_rows_max = 4;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	assert_int_equal(rig_status(&rig).size_bytes, size);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	/* It grows after all: what was never written there is not lost, and nothing of it is in the
	 * table.
	 */
	accept_all(&rig);
	grow(&rig, RIG_MEMBER_BYTES + 100 * CHUNK);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The row behind the one whose chunk stays on record: in the same batch, and member 0 has data
 * there.
 */
static uint64_t
other_row(const struct rig *rig, uint64_t row)
{
	const struct geometry geometry = geometry_of(rig);
	uint64_t other = row + 1;

	while (geometry_position(&geometry, other, 0) >= geometry.data_chunks)
		other++;
	return other;
}

static uint64_t
chunk_sector(const struct rig *rig, uint64_t row)
{
	const struct geometry geometry = geometry_of(rig);

	return sector_of_row(rig, row) +
	       (uint64_t)geometry_position(&geometry, row, 0) * CHUNK_SECTORS;
}

static void
fill_beside_unreadable_q(bool unreadable, bool spare)
{
	char why[256];
	struct geometry geometry;
	struct rig rig;
	uint64_t row, other;
	int q;

	begin(&rig, 6, 5, 846);
	rig_stop(&rig);
	/* what is suspect stays so */
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	row = row_in(&rig, 1);
	other = other_row(&rig, row);
	geometry = geometry_of(&rig);
	write_in(&rig, 1);
	rig_crash(&rig);
	q = geometry_role(&geometry, other, geometry.data_chunks + 1);
	if (unreadable)
		disk_destroy(&rig.members[q].disk, DATA_OFFSET + other * CHUNK + 4096);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 200);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	assert_int_equal(error_of_read(&rig, chunk_sector(&rig, other), CHUNK_SECTORS), -ENODATA);
	/* All but the first row is accepted, and reads as it was. */
	engine_lost_accept(rig.engine, sector_of_row(&rig, row + 1) * RIG_SECTOR, UINT64_MAX,
			   accepted, NULL);
	rig_steps(&rig, 100);
	assert_int_equal(error_of_read(&rig, chunk_sector(&rig, other), CHUNK_SECTORS), 0);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	if (spare) {
		rig_mark_spare(&rig, 5, RIG_MEMBER_BYTES);
		assert_true(engine_attach(rig.engine, &rig.members[5].backend, why) >= 0);
	} else {
		rig.members[0].reachable = true;
	}
	wait_until(&rig, all_in_sync);
	assert_int_equal(error_of_read(&rig, chunk_sector(&rig, other), CHUNK_SECTORS), 0);
	assert_int_equal(rig.mismatches, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The resync of the degraded volume does not prove such a row either, so a second member takes
 * along what one sector of Q has nothing to do with.
 */
static void
lose_a_second_beside_unreadable_q(void)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t other;
	int q, second;

	begin(&rig, 6, 5, 846);
	other = other_row(&rig, row_in(&rig, 1));
	geometry = geometry_of(&rig);
	q = geometry_role(&geometry, other, geometry.data_chunks + 1);
	second = geometry_role(&geometry, other,
			       geometry_position(&geometry, other, 0) == 0 ? 1 : 0);
	write_in(&rig, 1);
	rig_crash(&rig);
	disk_destroy(&rig.members[q].disk, DATA_OFFSET + other * CHUNK + 4096);
	rig.members[0].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 200);
	accept_all(&rig);
	rig_steps(&rig, 5000);
	assert_int_equal(error_of_read(&rig, chunk_sector(&rig, other), CHUNK_SECTORS), 0);
	fake_member_cut(&rig.members[second], false);
	rig_steps(&rig, 3000);
	assert_int_equal(error_of_read(&rig, chunk_sector(&rig, other), 8), 0);
	assert_int_equal(rig.mismatches, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_sector_of_q_is_not_needed_for_what_p_defines(void **state)
{
	(void)state;
	for (int spare = 0; spare < 2; spare++) {
		fill_beside_unreadable_q(false, spare);
		fill_beside_unreadable_q(true, spare);
	}
	lose_a_second_beside_unreadable_q();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_lost_after_a_member_left_is_not_taken_from_it),
		cmocka_unit_test(test_failed_write_of_a_degraded_volume_loses_its_own_row_only),
		cmocka_unit_test(test_device_that_takes_a_place_does_not_hold_what_was_lost_before),
		cmocka_unit_test(test_member_that_goes_while_a_loss_is_recorded_is_recorded_too),
		cmocka_unit_test(test_row_that_fails_while_a_loss_is_recorded_is_recorded_too),
		cmocka_unit_test(test_what_is_not_lost_is_not_refused_while_losses_are_recorded),
		cmocka_unit_test(test_what_is_not_lost_is_not_refused_when_the_table_is_full),
		cmocka_unit_test(
			test_rows_that_lose_nothing_are_not_refused_beside_one_that_found_no_room),
		cmocka_unit_test(test_what_is_listed_beside_a_full_table_is_settled),
		cmocka_unit_test(
			test_what_is_listed_beside_a_full_table_is_settled_though_more_is_doubted),
		cmocka_unit_test(test_write_waits_for_members_and_then_for_the_record),
		cmocka_unit_test(test_read_that_would_wait_for_the_record_fails_with_all_others),
		cmocka_unit_test(test_parity_on_its_way_when_a_member_goes_counts_as_new),
		cmocka_unit_test(
			test_parity_of_a_row_that_is_mended_is_on_its_way_when_a_member_goes),
		cmocka_unit_test(test_what_only_a_device_that_is_filled_would_take_is_refused),
		cmocka_unit_test(test_what_a_device_that_is_filled_has_stays_when_it_finds_no_room),
		cmocka_unit_test(test_what_is_accepted_fits_what_a_device_that_is_filled_has),
		cmocka_unit_test(test_what_was_accepted_with_a_device_is_unknown_without_it),
		cmocka_unit_test(test_what_was_accepted_with_a_device_is_unknown_after_a_stop),
		cmocka_unit_test(test_padded_rows_of_a_grown_volume_survive_a_loss_of_power),
		cmocka_unit_test(test_a_flush_of_a_growth_covers_nothing_until_it_has_succeeded),
		cmocka_unit_test(test_growth_that_a_crash_cut_short_forgets_no_loss),
		cmocka_unit_test(test_growth_cut_short_after_losses_in_its_rows_forgets_no_other),
		cmocka_unit_test(test_a_sector_of_q_is_not_needed_for_what_p_defines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
