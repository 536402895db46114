/* test_engine_suspended.c - while more members are silent than the level bears. */
#include "knowable.h"

static void
write_second_chunk(struct rig *rig, uint64_t row, uint64_t sectors)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row) + (sectors == 1 ? CHUNK_SECTORS : 0),
		   sectors, false);
	for (int i = 0; i < 100000 && rig->active_count > 0; i++) {
		rig_step(rig);
		rig_jump(rig);
	}
	assert_int_equal(rig->active_count, 0);
}

/* The members with P and with the first chunk fall silent, and the second of them is dead.  Then
 * comes a write of so many sectors, of which the others could have their parts at once: the row's
 * old data and parity are known, or it is written as a whole.
 */
static void
write_while_suspended(uint64_t sectors)
{
	struct geometry geometry;
	struct rig rig;
	uint64_t row;
	int parity;

	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 940);
	rig.options.queue_limit_ms = 3000;
	set_caches(&rig, false);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	parity = geometry_role(&geometry, row, 3);
	for (int i = 0; i < 3; i++)
		write_second_chunk(&rig, row, 1);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[parity], false);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	rig.errors_allowed = true;
	write_second_chunk(&rig, row, sectors);
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig.members[parity].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 1000);
	rig.errors_allowed = false;
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

static void
test_a_write_that_comes_while_too_many_are_silent_leaves_its_row_alone(void **state)
{
	(void)state;
	write_while_suspended(1);
	write_while_suspended(3 * CHUNK_SECTORS);
}

static uint64_t held_offset;

static enum tap_verdict
hold_read(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= held_offset &&
			       io->offset_bytes < held_offset + CHUNK
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* P is known of the row; the write needs old data of the third chunk only, and that is read when
 * the members with P and with the first chunk fall silent.  The second of them is dead.
 */
static void
test_a_write_that_prepares_while_members_fall_silent_waits(void **state)
{
	struct geometry geometry;
	struct rig rig;
	struct tap tap;
	uint64_t row;
	int parity;

	(void)state;
	rig_init(&rig, 5, 5, CHUNK, LOAD_BYTES, 940);
	rig.options.queue_limit_ms = 3000;
	set_caches(&rig, false);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	rig_stop(&rig);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	parity = geometry_role(&geometry, row, 4);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 2)]);
	rig_start_active(&rig);
	for (int i = 0; i < 3; i++)
		write_second_chunk(&rig, row, 1);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	held_offset = DATA_OFFSET + row * CHUNK;
	tap.judge = hold_read;
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row) + 2 * CHUNK_SECTORS, 1, false);
	for (int i = 0; i < 100 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	fake_member_cut(&rig.members[parity], false);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	rig_steps(&rig, 20);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	tap.judge = NULL;
	tap_let_go(&tap); /* the read is answered: only now is anything written */
	for (int i = 0; i < 100000 && rig.active_count > 0; i++) {
		rig_step(&rig);
		rig_jump(&rig);
	}
	assert_int_equal(rig.last_error, -ETIMEDOUT);
	rig.members[parity].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 1000);
	rig.errors_allowed = false;
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	finish(&rig);
}

static enum tap_verdict
hold_maps(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_MAP_OFFSET &&
			       io->offset_bytes < DATA_OFFSET
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* A whole row waits for its mark when the members with P and with the first chunk fall silent; the
 * second is dead.
 */
static void
suspend_before_the_mark(enum request_op op)
{
	struct geometry geometry;
	struct rig rig;
	struct tap tap;
	uint64_t row;
	int parity;

	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 940);
	rig.options.queue_limit_ms = 3000;
	set_caches(&rig, false);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	rig_stop(&rig);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	parity = geometry_role(&geometry, row, 3);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 2)]);
	rig_start_active(&rig);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	tap.judge = hold_maps;
	rig.errors_allowed = true;
	rig_submit(&rig, op, sector_of_row(&rig, row), 3 * CHUNK_SECTORS, false);
	for (int i = 0; i < 100 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 5);
	fake_member_cut(&rig.members[parity], false);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	tap.judge = NULL;
	tap_let_go(&tap);
	for (int i = 0; i < 100000 && rig.active_count > 0; i++) {
		rig_step(&rig);
		rig_jump(&rig);
	}
	rig.members[parity].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 1000);
	rig.errors_allowed = false;
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	finish(&rig);
}

static void
test_what_waits_for_its_mark_while_members_fall_silent_waits_on(void **state)
{
	(void)state;
	suspend_before_the_mark(REQUEST_WRITE);
	suspend_before_the_mark(REQUEST_ZERO);
}

/* --- what a returning member holds of a lost row --- */

static void
set_rate(struct rig *rig, bool fast)
{
	engine_set_rates(rig->engine, fast ? 64u << 20 : 1, fast ? 1u << 30 : 1);
}

/* A row proves nothing when member 0 goes, which has no cache and holds its first chunk: that is
 * lost, but held.  It is back, and its chunk and the parity that fits it are about to be written,
 * when so many of the members at these positions fall silent that I/O is suspended.  All but the
 * last of them return, later than requests wait.
 */
static void
return_while_suspended(int level, int count, const int *silent, int silent_count, bool last_dead)
{
	struct geometry geometry;
	struct rig rig;
	struct tap tap;
	uint64_t row;

	rig_init(&rig, level, count, CHUNK, LOAD_BYTES, 940);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	rig_steps(&rig, 5000);
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	rig_stop(&rig);
	row = row_in(&rig, 4);
	geometry = geometry_of(&rig);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 1)]);
	rig.members[0].disk.write_cache = false;
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig_start_active(&rig);
	for (uint32_t region = 0; region <= 4; region += 2) {
		rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row_in(&rig, region)), 1,
			   false);
		rig_drain(&rig);
	}
	for (int m = 1; m <= level - 3; m++)
		fake_member_power_loss(&rig.members[m], true);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	assert_int_equal(rig_status(&rig).regions_suspect, 3);
	tear_row(&rig, row);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	assert_int_equal(read_first_chunk(&rig, row), -ENODATA);
	set_rate(&rig, true);
	rig_steps(&rig, 5000); /* what is left is proven, and clean */
	assert_int_equal(rig_status(&rig).regions_suspect, 0);
	held_offset = DATA_OFFSET + row * CHUNK;
	tap.judge = hold_read;
	rig.members[0].reachable = true;
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_true(tap.held_count > 0);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 24), 1, true);
	rig_drain(&rig); /* so its region is marked */
	for (int i = 0; i < silent_count; i++)
		fake_member_cut(&rig.members[geometry_role(&geometry, row, (uint8_t)silent[i])],
				false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	tap.judge = NULL;
	tap_let_go(&tap);
	rig.errors_allowed = true;
	rig_steps(&rig, 8000);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	for (int i = 0; i < silent_count - last_dead; i++)
		rig.members[geometry_role(&geometry, row, (uint8_t)silent[i])].reachable = true;
	rig_steps(&rig, 30000);
	rig.errors_allowed = false;
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	assert_int_equal(read_first_chunk(&rig, row), 0);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row) + 2 * CHUNK_SECTORS,
				       CHUNK_SECTORS),
			 0);
	finish(&rig);
}

static void
test_what_a_returning_member_holds_is_not_taken_while_too_many_are_silent(void **state)
{
	(void)state;
	/* P, and all come back */
	return_while_suspended(5, 4, (const int[]){ 3 }, 1, false);
	/* Q, and a chunk whose member is dead */
	return_while_suspended(6, 6, (const int[]){ 5, 2 }, 2, true);
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

/* Member 0 is being filled, and a sector of another can't be read: both lose that piece.  When it
 * is on record, zeros and the P that fits them are about to be written, and the member with P is
 * silent by then for longer than requests wait.
 */
static void
test_a_piece_is_not_given_up_while_too_many_are_silent(void **state)
{
	struct geometry geometry;
	struct rig rig;
	struct tap tap;
	uint64_t row;
	int parity;

	(void)state;
	begin(&rig, 5, 4, 941);
	rig_stop(&rig);
	row = row_in(&rig, 1);
	geometry = geometry_of(&rig);
	parity = geometry_role(&geometry, row, 3);
	tap_init(&tap, &rig.members[geometry_role(&geometry, row, 2)]);
	rig_start_active(&rig);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row), row_sectors(&rig), false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 5000);
	disk_damage(&rig.members[geometry_role(&geometry, row, 1)].disk,
		    DATA_OFFSET + row * CHUNK + 8192);
	held_offset = DATA_OFFSET + row * CHUNK;
	tap.judge = hold_read;
	rig.members[0].reachable = true;
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_submit(&rig, REQUEST_WRITE, sector_of_row(&rig, row + 24), 1, true);
	rig_drain(&rig); /* so its region is marked */
	tap.judge = hold_table;
	tap_let_go(&tap);
	for (int i = 0; i < 1000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	rig_steps(&rig, 10);
	rig.errors_allowed = true;
	fake_member_cut(&rig.members[parity], false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	tap.judge = NULL;
	tap_let_go(&tap);
	rig_steps(&rig, 8000);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	rig.members[parity].reachable = true;
	rig_steps(&rig, 30000);
	assert_int_equal(rig_status(&rig).lost_bytes, 2 * 4096);
	assert_int_equal(error_of_read(&rig, sector_of_row(&rig, row), 8192 / RIG_SECTOR), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_write_that_comes_while_too_many_are_silent_leaves_its_row_alone),
		cmocka_unit_test(test_a_write_that_prepares_while_members_fall_silent_waits),
		cmocka_unit_test(test_what_waits_for_its_mark_while_members_fall_silent_waits_on),
		cmocka_unit_test(
			test_what_a_returning_member_holds_is_not_taken_while_too_many_are_silent),
		cmocka_unit_test(test_a_piece_is_not_given_up_while_too_many_are_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
