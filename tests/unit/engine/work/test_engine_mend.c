/* test_engine_mend.c - rows in which something can't be read, or does not fit: what is rewritten,
 * with what, and what is given up.
 */
#include "knowable.h"

static char why[256];

static uint64_t
offset_of_row(uint64_t row)
{
	return DATA_OFFSET + row * CHUNK;
}

static void
test_member_that_can_not_keep_what_is_rewritten_loses_its_place(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 840);
	row = row_in(&rig, 1);
	disk_make_stuck(&rig.members[0].disk, offset_of_row(row) + 4096);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	finish(&rig);
}

/* Each sector alone is cured by rewriting it; so many tell that the member is at its end. */
static void
test_member_full_of_medium_errors_loses_its_place(void **state)
{
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 839);
	rig.options.error_limit = 3;
	engine_set_limits(rig.engine, &rig.options);
	for (uint64_t i = 0; i < 3; i++) {
		const uint64_t row = row_in(&rig, 1) + 4 * i;

		assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
		disk_damage(&rig.members[0].disk, offset_of_row(row));
		assert_int_equal(read_first_chunk(&rig, row), 0);
		rig_steps(&rig, 300);
		assert_int_equal(rig_status(&rig).members[0].medium_repaired, i + 1);
	}
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	rig_steps(&rig, 3000); /* it answers, and does not come back by itself */
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	assert_string_equal(
		rig_status(&rig).members[0].reason,
		"3 sectors had to be rewritten, the limit is 3: it waits for an administrator");
	finish(&rig);
}

static void
damage_and_read(struct rig *rig, uint64_t row)
{
	disk_damage(&rig->members[0].disk, offset_of_row(row));
	assert_int_equal(read_first_chunk(rig, row), 0);
	rig_steps(rig, 300);
}

/* A crash left rows that nothing is made from: its chunks of them would be lost with it. */
static void
test_member_at_its_end_stays_while_rows_depend_on_it(void **state)
{
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 838);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row_in(&rig, 4)), 1, false);
	rig_drain(&rig);
	rig_crash(&rig);
	rig.options.error_limit = 3;
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	for (uint64_t i = 0; i < 3; i++)
		damage_and_read(&rig, row_in(&rig, 1) + 4 * i);
	rig_steps(&rig, 1000);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).members[0].medium_repaired, 3);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	rig_wait_for_resync(&rig);
	damage_and_read(&rig, row_in(&rig, 2));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* Member 1 refuses to read a sector that the chunk of member 0 is to be made from: for a while, as
 * it turns out.
 */
static void
test_read_that_is_refused_during_a_rebuild_gives_nothing_up(void **state)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 841);
	row = row_in(&rig, 1);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[1].stuck_error = -EIO;
	disk_make_stuck(&rig.members[1].disk, offset_of_row(row) + 4096);
	rig.members[0].reachable = true;
	rig_steps(&rig, 5000);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig.members[1].disk.stuck_count = rig.members[1].disk.bad_count = 0;
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* P and Q tell which chunk alone is wrong; that one is corrected, and not P and Q made to fit it.
 */
static void
test_repair_of_level_6_rewrites_what_has_rotted(void **state)
{
	static const uint8_t junk[512] = { 9, 9, 9 };
	struct rig rig;

	begin(&rig, 6, 5, 842);
	disk_write(&rig.members[0].disk, offset_of_row(row_in(&rig, 1)) + 1024, junk, sizeof(junk),
		   true);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 1);
	finish(&rig);
}

/* A write was on its way when the gateway died: its data is there, P and Q are those of before.
 * Whoever reads sees the new data, and it must not go back then.
 */
static void
test_resync_of_level_6_takes_data_as_it_stands(void **state)
{
	static uint8_t redundancy[2][CHUNK];
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	uint8_t role[2];

	begin(&rig, 6, 5, 843);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	for (uint8_t i = 0; i < 2; i++) {
		role[i] = geometry_role(&geometry, row, geometry.data_chunks + i);
		disk_read(&rig.members[role[i]].disk, offset_of_row(row), redundancy[i], CHUNK);
	}
	write_in(&rig, 1);
	rig_crash(&rig);
	for (uint8_t i = 0; i < 2; i++)
		disk_write(&rig.members[role[i]].disk, offset_of_row(row), redundancy[i], CHUNK,
			   true);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	finish(&rig);
}

/* Level 6 with two members out.  One is back and holds what was lost of a row, so P and Q are made
 * anew, but Q is refused.  What the other one has there is not to be made from the two any more.
 */
static void
test_mend_that_failed_half_way_leaves_the_row_suspect(void **state)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	uint8_t role[5];

	begin(&rig, 6, 5, 846); /* it is P that goes with its cache */
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	for (uint8_t position = 0; position < 5; position++)
		role[position] = geometry_role(&geometry, row, position);
	rig_stop(&rig);
	/* what is suspect stays so */
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig.members[0].disk.write_cache = false;
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	for (uint8_t position = 2; position < 5; position++)
		fake_member_power_loss(&rig.members[role[position]], true);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_bytes, CHUNK);
	/* This proves the row, and leaves on record what is lost of it. */
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + 2 * CHUNK_SECTORS, 1, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[role[1]], false);
	rig_steps(&rig, 3000);
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row) + CHUNK_SECTORS, 8, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	disk_make_unwritable(&rig.members[role[4]].disk, offset_of_row(row) + 4096);
	engine_set_rates(rig.engine, 64u << 20, 1u << 30);
	rig.members[0].reachable = true;
	rig_steps(&rig, 4000);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row) + CHUNK_SECTORS, 8, false);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* After a crash one row can't be proven, for a sector of member 0 can't be read, or is refused.
 * All others are proven all the same, so that is all that another member takes along.
 */
static void
prove_around(uint64_t seed, int stuck_error)
{
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, seed);
	row = row_in(&rig, 1);
	write_in(&rig, 1);
	write_in(&rig, 3);
	rig_crash(&rig);
	rig.members[0].stuck_error = stuck_error;
	disk_make_stuck(&rig.members[0].disk, offset_of_row(row) + 4096);
	rig_start_active(&rig);
	for (int i = 0; i < 5000; i++) {
		rig_step(&rig);
		rig_jump(&rig);
	}
	assert_int_equal(rig_status(&rig).regions_suspect, 1);
	fake_member_cut(&rig.members[2], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 1000);
	assert_in_range(rig_status(&rig).lost_bytes, 0, CHUNK);
	disk_loosen(&rig.members[0].disk);
	rig.members[2].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_rows_behind_one_that_can_not_be_read_are_proven(void **state)
{
	prove_around(850, 0);
}

static void
test_rows_behind_one_that_is_refused_are_proven(void **state)
{
	prove_around(851, -EIO);
}

static void
test_refused_read_does_not_keep_other_regions_from_being_copied(void **state)
{
	static uint8_t before[CHUNK], now[CHUNK];
	struct rig rig;
	uint64_t row;

	begin(&rig, 5, 4, 852);
	row = row_in(&rig, 1);
	fake_member_cut(&rig.members[0], false);
	write_in(&rig, 1);
	write_in(&rig, 3);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[1].stuck_error = -EIO;
	disk_make_stuck(&rig.members[1].disk, offset_of_row(row) + 4096);
	disk_read(&rig.members[0].disk, offset_of_row(row_in(&rig, 3)), before, CHUNK);
	rig.members[0].reachable = true;
	rig_steps(&rig, 5000);
	disk_read(&rig.members[0].disk, offset_of_row(row_in(&rig, 3)), now, CHUNK);
	assert_memory_not_equal(before, now, CHUNK);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	assert_non_null(strstr(rig_status(&rig).rebuild.reason, "refused"));
	rig.members[1].disk.stuck_count = rig.members[1].disk.bad_count = 0;
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* The member that comes back gets it from the others.  The one that refuses keeps its place, and is
 * rewritten nothing.
 */
static void
test_rebuild_makes_what_is_refused_from_the_others(void **state)
{
	static const struct {
		int level, count;
	} volumes[] = { { 1, 3 }, { 6, 5 } };

	(void)state;
	for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
		struct rig rig;

		rig_init(&rig, volumes[i].level, volumes[i].count, CHUNK, 3u << 20, 860 + i);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
		rig_drain(&rig);
		fake_member_cut(&rig.members[0], false);
		submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
		rig_drain(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig.members[1].refuse_reads = true;
		rig.members[0].reachable = true;
		wait_until(&rig, all_in_sync);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(&rig).medium_repaired, 0);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		rig.members[1].refuse_reads = false;
		fake_member_cut(&rig.members[2], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		finish(&rig);
	}
}

/* Nor does the member whose place it takes keep it waiting. */
static void
test_place_of_who_refuses_is_filled_from_the_others(void **state)
{
	struct rig rig;
	int slot;

	begin(&rig, 5, 4, 862);
	rig.members[0].stuck_error = -EIO;
	disk_make_stuck(&rig.members[0].disk, offset_of_row(row_in(&rig, 1)) + 4096);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	assert_int_equal(slot, 4);
	for (int i = 0; i < 200 && rig_status(&rig).members[slot].state == 0; i++)
		rig_step(&rig);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	wait_for_state(&rig, slot, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).medium_repaired, 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

/* The one that was met later has really gone bad, and can be made up for. */
static void
test_refused_row_does_not_keep_others_from_being_mended(void **state)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row, other;

	begin(&rig, 5, 4, 853);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	rig.members[0].stuck_error = -EIO;
	disk_make_stuck(&rig.members[0].disk, offset_of_row(row) + 4096);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	rig_steps(&rig, 100);
	other = row_in(&rig, 3) + 1;
	disk_damage(&rig.members[geometry_role(&geometry, other, 0)].disk,
		    offset_of_row(other) + 4096);
	assert_int_equal(read_first_chunk(&rig, other), 0);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).medium_repaired, 1);
	disk_loosen(&rig.members[0].disk);
	finish(&rig);
}

static enum tap_verdict
hold_whole_chunks(struct tap *tap, const struct backend_io *io)
{
	const uint64_t *offset_bytes = tap->owner;

	return io->op == BACKEND_READ && io->offset_bytes == *offset_bytes &&
			       io->length_bytes == CHUNK
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* It returns with nothing to copy, so the row is on it at once; but its chunk was not read. */
static void
test_who_returns_while_a_row_is_mended_counts_for_the_next_one(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;
	struct geometry geometry;

	(void)state;
	begin(&rig, 6, 5, 852);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	offset_bytes = offset_of_row(row);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 1)]);
	tap.owner = &offset_bytes;
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	disk_damage(&rig.members[geometry_role(&geometry, row, 2)].disk, offset_bytes);
	tap.judge = hold_whole_chunks;
	for (int i = 0; i < 10000 && tap.held_count == 0; i++) {
		if (rig.active_count == 0)
			rig_submit(&rig, REQUEST_READ, sector_of_row(&rig, row) + 2 * CHUNK_SECTORS,
				   1, false);
		rig_step(&rig);
	}
	assert_int_equal(tap.held_count, 1);
	rig.members[0].reachable = true;
	wait_for_state(&rig, 0, MEMBER_IN_SYNC);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 100);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), (uint32_t)row_sectors(&rig)),
			 0);
	finish(&rig);
}

/* A row that is mended while a request waits for it: the request does not wait for the rows behind
 * it as well.
 */
static void
test_request_waits_for_one_row_that_is_mended(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;
	struct geometry geometry;

	(void)state;
	begin(&rig, 5, 4, 854);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 0)]);
	tap.owner = &offset_bytes;
	rig_start_active(&rig);
	disk_damage(&rig.members[geometry_role(&geometry, row, 1)].disk, offset_of_row(row));
	offset_bytes = offset_of_row(row);
	tap.judge = hold_whole_chunks;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	for (int i = 0; i < 10000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	offset_bytes = offset_of_row(row + 1);
	tap_let_go(&tap);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_int_equal(tap.held_count, 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).medium_repaired, 1);
	finish(&rig);
}

static bool
something_is_lost(struct rig *rig)
{
	return rig_status(rig).lost_bytes > 0;
}

/* Member 0 was in sync when the gateway died in the midst of a write, and is away.  What is
 * overwritten of the row and flushed is safe.
 */
static void
lose_member_0(struct rig *rig)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row_in(rig, 1) + 1), 1, false);
	rig_drain(rig);
	rig_crash(rig);
	rig->members[0].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	wait_until(rig, something_is_lost);
	write_in(rig, 1);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
}

static void
begin_with_member_0_away(struct rig *rig, uint64_t seed)
{
	begin(rig, 5, 4, seed);
	lose_member_0(rig);
}

/* Member 0 is back, and of its rows a few have been mended.  Then another one returns that may have
 * lost its cache, and can't be spared.
 */
static void
lose_a_cache_during_the_fill(struct rig *rig)
{
	struct fake_member *other = parity_of(rig, row_in(rig, 1) + 1);

	engine_set_rates(rig->engine, 1, 1);
	rig->members[0].reachable = true;
	/* no leap, or marks are cleared, and caches flushed */
	while (rig_status(rig).rebuild.done_rows == 0)
		rig_step(rig);
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row_in(rig, 3)), row_sectors(rig), false);
	rig_drain(rig);
	fake_member_power_loss(other, true);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 100);
}

/* It held what the others make of the row: P is not written, so no cache can have lost it. */
static void
test_row_that_fits_as_it_is_can_not_go_with_a_cache(void **state)
{
	struct rig rig;

	begin_with_member_0_away(&rig, 854);
	lose_a_cache_during_the_fill(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row_in(&rig, 1)), 1), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It held what had not come to P yet, so P is another one now, in a cache. */
static void
test_row_whose_parity_was_mended_can_go_with_a_cache(void **state)
{
	static const uint8_t newer[4096] = { 7, 7, 7 };
	struct rig rig;
	uint64_t row;

	begin_with_member_0_away(&rig, 855);
	row = row_in(&rig, 1);
	disk_write(&rig.members[0].disk, offset_of_row(row) + 8192, newer, sizeof(newer), true);
	lose_a_cache_during_the_fill(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Member 0 has no cache, and left a running volume: what it alone holds of the row, whose P was torn
 * and is suspect, is certain.
 */
static uint64_t
begin_with_something_held(struct rig *rig, uint64_t seed)
{
	uint64_t row;

	begin(rig, 5, 4, seed);
	rig_stop(rig);
	rig->options.sync_rate_min = rig->options.sync_rate_max = 1; /* it stays suspect */
	rig->members[0].disk.write_cache = false;
	rig_start_active(rig);
	row = row_in(rig, 1);
	write_row(rig, row);
	rig_lose_caches(rig, 1, 2);
	fake_member_cut(&rig->members[0], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	wait_until(rig, something_is_lost);
	assert_int_equal(rig_status(rig).lost_bytes, CHUNK);
	tear_row(rig, row);
	return row;
}

static void
fill_member_0(struct rig *rig)
{
	engine_set_rates(rig->engine, 1u << 30, 1u << 30);
	rig->members[0].reachable = true;
	wait_until(rig, all_in_sync);
}

static void
end_what_was_held(struct rig *rig)
{
	assert_int_equal(rig->mismatches, 0);
	rig_stop(rig);
	rig_free(rig);
}

static enum tap_verdict
refuse_once(struct tap *tap, const struct backend_io *io)
{
	uint64_t *offset_bytes = tap->owner;

	if (io->op != BACKEND_READ || io->offset_bytes / CHUNK != *offset_bytes / CHUNK)
		return TAP_PASS;
	*offset_bytes += io->length_bytes == CHUNK ? 0 : 1u << 30;
	return TAP_REFUSE;
}

/* Refused, it is asked for again; a bad sector costs what stood there, and the rest is taken. */
static void
test_what_a_target_held_and_can_not_be_read_is_not_made_of_the_others(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;

	(void)state;
	row = begin_with_something_held(&rig, 856);
	tap_init(&tap, &rig.members[0]);
	offset_bytes = offset_of_row(row);
	tap.owner = &offset_bytes;
	tap.judge = refuse_once;
	fill_member_0(&rig);
	assert_true(offset_bytes > offset_of_row(row));
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	end_what_was_held(&rig);

	row = begin_with_something_held(&rig, 857);
	disk_damage(&rig.members[0].disk, offset_of_row(row) + 4096);
	fill_member_0(&rig);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	/* The rest of the chunk is what it held, when somebody accepts it. */
	accept_all(&rig);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 4096 / RIG_SECTOR), 0);
	end_what_was_held(&rig);
}

/* Of P nothing is lost then, and of another chunk of data that sector alone. */
static void
test_what_a_target_holds_is_not_lost_with_another_member_s_sector(void **state)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;

	(void)state;
	for (uint8_t position = 1; position < 4; position++) {
		row = begin_with_something_held(&rig, 858);
		geometry = geometry_of(&rig);
		disk_damage(&rig.members[geometry_role(&geometry, row, position)].disk,
			    offset_of_row(row));
		fill_member_0(&rig);
		assert_int_equal(read_first_chunk(&rig, row), 0);
		assert_int_equal(rig_status(&rig).lost_bytes,
				 position < geometry.data_chunks ? 4096 : 0);
		end_what_was_held(&rig);
	}
}

static int writes_seen;

/* It takes what is written there the second time. */
static enum tap_verdict
loosen_at_the_second_write(struct tap *tap, const struct backend_io *io)
{
	const uint64_t *offset_bytes = tap->owner;

	if (io->op == BACKEND_WRITE && io->offset_bytes == *offset_bytes && ++writes_seen == 2)
		disk_loosen(&tap->member->disk);
	return TAP_PASS;
}

/* A sector of P stays bad when the row is written, so it is made again: of what was taken. */
static void
test_parity_that_is_written_again_fits_what_the_target_held(void **state)
{
	struct fake_member *parity;
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;

	(void)state;
	row = begin_with_something_held(&rig, 859);
	offset_bytes = offset_of_row(row);
	writes_seen = 0;
	parity = parity_of(&rig, row);
	disk_make_stuck(&parity->disk, offset_of_row(row));
	tap_init(&tap, parity);
	tap.owner = &offset_bytes;
	tap.judge = loosen_at_the_second_write;
	rig.step_ms_max = 1;
	fill_member_0(&rig);
	assert_true(writes_seen >= 2);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(rig_parity_faults(&rig), 0);
	end_what_was_held(&rig);
}

static enum tap_verdict
hold_writes_of_chunk(struct tap *tap, const struct backend_io *io)
{
	const uint64_t *offset_bytes = tap->owner;

	return io->op == BACKEND_WRITE && io->offset_bytes == *offset_bytes ? TAP_HOLD : TAP_PASS;
}

/* Member 0 is back and has no cache, so what it held of a row that is on record as lost heals it.
 * While that is being written another one, which can't be spared, loses a write of that row with
 * its cache: what the others make of it is lost once more, and stays so.
 */
static uint64_t
lose_again_what_is_being_healed(uint64_t seed)
{
	struct rig rig;
	struct tap tap;
	struct geometry geometry;
	struct fake_member *other;
	uint64_t row, offset_bytes, lost;

	begin(&rig, 5, 4, seed);
	rig_stop(&rig);
	geometry = geometry_of(&rig);
	row = row_in(&rig, 1);
	offset_bytes = offset_of_row(row);
	other = &rig.members[geometry_role(&geometry, row, 1)];
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig.step_ms_max = 1;
	rig.members[0].disk.write_cache = false;
	tap_init(&tap, &rig.members[0]);
	tap.owner = &offset_bytes;
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), 1, false);
	rig_drain(&rig);
	rig_lose_caches(&rig, 1, 2);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	wait_until(&rig, something_is_lost);
	tap.judge = hold_writes_of_chunk;
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	rig.members[0].reachable = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + CHUNK_SECTORS, CHUNK_SECTORS,
		   false);
	for (int i = 0; i < 10000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	lost = other->counts.sectors_lost;
	rig.errors_allowed = true;
	fake_member_power_loss(other, true);
	lost = other->counts.sectors_lost - lost;
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 500);
	if (lost > 0) /* else a flush had covered it, and it is healed in the end */
		assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	wait_until(&rig, all_in_sync);
	assert_int_equal(read_first_chunk(&rig, row), lost > 0 ? -ENODATA : 0);
	rig_stop(&rig);
	rig_free(&rig);
	return lost;
}

static void
test_what_is_lost_again_while_it_is_healed_stays_lost(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 872; seed < 876; seed++)
		lost += lose_again_what_is_being_healed(seed);
	assert_true(lost > 0);
}

/* A crash left P torn, and a sector of it can't be read when resync comes: it is made from the
 * data, and the row is proven by that.  A cache takes it along, and the sector is read as it was.
 */
static void
lose_what_was_made(uint64_t seed, bool unreadable)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	int p;

	begin(&rig, 5, 4, seed);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	p = geometry_role(&geometry, row, 3);
	write_in(&rig, 1);
	rig_crash(&rig);
	tear_row(&rig, row);
	if (unreadable)
		disk_damage(&rig.members[p].disk, offset_of_row(row));
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	assert_false(disk_is_damaged(&rig.members[p].disk, offset_of_row(row), CHUNK));
	rig.errors_allowed = true;
	rig_lose_caches(&rig, p, p == 1 ? 2 : 1);
	rig.members[p].disk.bad_count = 0;
	engine_set_rates(rig.engine, 1, 1);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 100);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_piece_made_anew_in_a_row_that_was_torn_can_go_with_a_cache(void **state)
{
	(void)state;
	for (uint64_t seed = 900; seed < 904; seed++) {
		lose_what_was_made(seed, false);
		lose_what_was_made(seed, true);
	}
}

static enum tap_verdict
hold_reads_of_piece(struct tap *tap, const struct backend_io *io)
{
	const uint64_t *offset_bytes = tap->owner;

	return io->op == BACKEND_READ && io->offset_bytes == *offset_bytes &&
			       io->length_bytes == 4096
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* A crash left P torn, and of the second chunk a sector can't be read.  While that is asked for once
 * more member 0, whose chunk was read, is taken out, and its chunk is on record as lost: then the row
 * counts as right, though P is what it was.
 */
static void
test_nothing_is_made_of_a_row_whose_member_went_after_it_was_read(void **state)
{
	(void)state;
	for (uint64_t seed = 910; seed < 914; seed++) {
		struct geometry geometry;
		struct rig rig;
		struct tap tap;
		uint64_t row, offset_bytes;
		int second;

		begin(&rig, 5, 4, seed);
		row = row_in(&rig, 1);
		offset_bytes = offset_of_row(row);
		geometry = geometry_of(&rig);
		second = geometry_role(&geometry, row, 1);
		write_in(&rig, 1);
		rig_crash(&rig);
		tear_row(&rig, row);
		disk_damage(&rig.members[second].disk, offset_bytes);
		rig.members[second].deadline_us = 60000000;
		tap_init(&tap, &rig.members[second]);
		tap.owner = &offset_bytes;
		tap.judge = hold_reads_of_piece;
		rig_start_active(&rig);
		for (int i = 0; i < 20000 && tap.held_count == 0; i++)
			rig_step(&rig);
		assert_true(tap.held_count > 0);
		assert_int_equal(engine_fail(rig.engine, 0, why), 0);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		wait_until(&rig, something_is_lost);
		rig_steps(&rig, 100);
		tap.judge = NULL;
		tap_let_go(&tap);
		rig_steps(&rig, 300);
		assert_true(disk_is_damaged(&rig.members[second].disk, offset_bytes, 4096));
		rig.errors_allowed = true;
		assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row) + CHUNK_SECTORS, 1),
				 -ENODATA);
		rig_crash(&rig);
		rig_free(&rig);
	}
}

static bool was_rewritten;

/* What is read to verify what was written there. */
static enum tap_verdict
hold_verification(struct tap *tap, const struct backend_io *io)
{
	const uint64_t *offset_bytes = tap->owner;

	if (io->offset_bytes != *offset_bytes || io->length_bytes != 4096)
		return TAP_PASS;
	was_rewritten |= io->op == BACKEND_WRITE;
	return io->op == BACKEND_READ && was_rewritten ? TAP_HOLD : TAP_PASS;
}

/* A sector was rewritten, and is read as something else: whose it is loses its place.  But another one
 * has just fallen silent, so it is needed, and stays; or goes a moment later, for what its cache may
 * have lost.
 */
static void
misread_who_is_needed(bool cache)
{
	static const uint8_t junk[4096] = { 1, 2, 3 };
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;

	begin(&rig, 5, 4, 920);
	rig_stop(&rig);
	rig.members[0].disk.write_cache = cache;
	row = row_in(&rig, 1);
	offset_bytes = offset_of_row(row);
	disk_damage(&rig.members[0].disk, offset_bytes);
	rig.members[0].deadline_us = 60000000;
	tap_init(&tap, &rig.members[0]);
	tap.owner = &offset_bytes;
	tap.judge = hold_verification;
	was_rewritten = false;
	rig_start_active(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	disk_write(&rig.members[0].disk, offset_bytes, junk, sizeof(junk), true);
	fake_member_cut(&rig.members[1], false);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 20);
	rig.members[1].reachable = true;
	wait_until(&rig, all_in_sync);
	rig_steps(&rig, 300);
	finish(&rig);
}

static void
test_who_is_needed_is_rewritten_until_it_reads_as_written(void **state)
{
	(void)state;
	misread_who_is_needed(true);
	misread_who_is_needed(false);
}

/* The first piece reads as something else once it was rewritten, and the second one is not answered. */
static enum tap_verdict
falsify_and_hold(struct tap *tap, const struct backend_io *io)
{
	static const uint8_t junk[4096] = { 1, 2, 3 };
	const uint64_t *offset_bytes = tap->owner;

	if (io->length_bytes != 4096)
		return TAP_PASS;
	was_rewritten |= io->op == BACKEND_WRITE && io->offset_bytes == *offset_bytes;
	if (io->op != BACKEND_READ || !was_rewritten)
		return TAP_PASS;
	if (io->offset_bytes == *offset_bytes)
		disk_write(&tap->member->disk, *offset_bytes, junk, sizeof(junk), true);
	return io->offset_bytes == *offset_bytes + 8192 ? TAP_HOLD : TAP_PASS;
}

/* The member goes for the answer that is missing, and returns. */
static void
test_what_reads_as_something_else_is_not_kept_for_another_error(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;

	(void)state;
	begin(&rig, 5, 4, 921);
	rig_stop(&rig);
	row = row_in(&rig, 1);
	offset_bytes = offset_of_row(row);
	disk_damage(&rig.members[0].disk, offset_bytes);
	disk_damage(&rig.members[0].disk, offset_bytes + 8192);
	rig.members[0].deadline_us = 60000000;
	tap_init(&tap, &rig.members[0]);
	tap.owner = &offset_bytes;
	tap.judge = falsify_and_hold;
	was_rewritten = false;
	rig_start_active(&rig);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 20);
	fake_member_cut(&rig.members[0], false);
	tap.judge = NULL;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 100);
	rig.members[0].reachable = true;
	for (int i = 0; i < 20000 && !all_in_sync(&rig); i++) {
		if (rig_status(&rig).members[0].state == MEMBER_FAULTY)
			engine_readmit(rig.engine, 0, why);
		rig_step(&rig);
	}
	assert_true(all_in_sync(&rig));
	finish(&rig);
}

static bool
is_copied(struct rig *rig, uint64_t offset_bytes)
{
	uint8_t former[4096], copy[4096];

	disk_read(&rig->members[0].disk, offset_bytes, former, sizeof(former));
	disk_read(&rig->members[4].disk, offset_bytes, copy, sizeof(copy));
	return memcmp(former, copy, sizeof(former)) == 0;
}

/* Member 0 is replaced, and a sector of it is rewritten of a row that is copied already.  When that is
 * verified it has given its place to the spare.
 */
static void
test_who_has_given_its_place_away_may_answer_a_verification(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t row, offset_bytes;
	int slot;

	(void)state;
	begin(&rig, 5, 4, 922);
	rig_stop(&rig);
	row = row_in(&rig, 1);
	offset_bytes = offset_of_row(row);
	rig.members[0].deadline_us = 60000000;
	rig.options.sync_rate_min = rig.options.sync_rate_max = 4 << 20;
	tap_init(&tap, &rig.members[0]);
	tap.owner = &offset_bytes;
	was_rewritten = false;
	rig_start_active(&rig);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	wait_for_state(&rig, slot, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	for (int i = 0; i < 20000 && !is_copied(&rig, offset_bytes); i++)
		rig_step(&rig);
	assert_true(is_copied(&rig, offset_bytes));
	assert_int_not_equal(rig_status(&rig).members[slot].state, MEMBER_IN_SYNC);
	tap.judge = hold_verification;
	disk_damage(&rig.members[0].disk, offset_bytes);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	wait_for_state(&rig, slot, MEMBER_IN_SYNC);
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 300);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_can_not_keep_what_is_rewritten_loses_its_place),
		cmocka_unit_test(test_member_full_of_medium_errors_loses_its_place),
		cmocka_unit_test(test_member_at_its_end_stays_while_rows_depend_on_it),
		cmocka_unit_test(test_read_that_is_refused_during_a_rebuild_gives_nothing_up),
		cmocka_unit_test(test_repair_of_level_6_rewrites_what_has_rotted),
		cmocka_unit_test(test_resync_of_level_6_takes_data_as_it_stands),
		cmocka_unit_test(test_mend_that_failed_half_way_leaves_the_row_suspect),
		cmocka_unit_test(test_rows_behind_one_that_can_not_be_read_are_proven),
		cmocka_unit_test(test_rows_behind_one_that_is_refused_are_proven),
		cmocka_unit_test(test_refused_read_does_not_keep_other_regions_from_being_copied),
		cmocka_unit_test(test_rebuild_makes_what_is_refused_from_the_others),
		cmocka_unit_test(test_place_of_who_refuses_is_filled_from_the_others),
		cmocka_unit_test(test_refused_row_does_not_keep_others_from_being_mended),
		cmocka_unit_test(test_who_returns_while_a_row_is_mended_counts_for_the_next_one),
		cmocka_unit_test(test_request_waits_for_one_row_that_is_mended),
		cmocka_unit_test(test_row_that_fits_as_it_is_can_not_go_with_a_cache),
		cmocka_unit_test(test_what_is_lost_again_while_it_is_healed_stays_lost),
		cmocka_unit_test(
			test_what_a_target_held_and_can_not_be_read_is_not_made_of_the_others),
		cmocka_unit_test(test_what_a_target_holds_is_not_lost_with_another_member_s_sector),
		cmocka_unit_test(test_parity_that_is_written_again_fits_what_the_target_held),
		cmocka_unit_test(test_row_whose_parity_was_mended_can_go_with_a_cache),
		cmocka_unit_test(test_a_piece_made_anew_in_a_row_that_was_torn_can_go_with_a_cache),
		cmocka_unit_test(test_nothing_is_made_of_a_row_whose_member_went_after_it_was_read),
		cmocka_unit_test(test_who_is_needed_is_rewritten_until_it_reads_as_written),
		cmocka_unit_test(test_what_reads_as_something_else_is_not_kept_for_another_error),
		cmocka_unit_test(test_who_has_given_its_place_away_may_answer_a_verification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
