/* test_engine_twins.c - a member is copied to the one that is to take its place.  Until then both
 * get every write, and what one of them lacks after a fault must not be taken for what the other
 * has.
 */
#include "scenario.h"

#define LOAD_BYTES (4ull << 20)
#define FORMER 1
#define OTHER 2 /* is away when the former is, so that neither can be spared */
#define SPARE 4 /* rig->members[] of the spare, and its slot */
#define DATA_OFFSET (4ull << 20)
#define CHUNK 16384u
#define ELSEWHERE 6144 /* where rows begin, in another region than those that differ */

static char why[256];

static struct rig *
start_with(struct rig *rig, int level, int members, uint64_t seed, bool former_caches)
{
	rig_init(rig, level, members, CHUNK, LOAD_BYTES, seed);
	set_caches(rig, false);
	rig->members[FORMER].disk.write_cache = former_caches;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
	return rig;
}

static struct rig *
start(struct rig *rig, int level, int members, uint64_t seed)
{
	return start_with(rig, level, members, seed, true);
}

static void
attach_spare(struct rig *rig)
{
	rig_mark_spare(rig, SPARE, RIG_MEMBER_BYTES);
	rig->members[SPARE].disk.write_cache = false;
	assert_int_equal(engine_attach(rig->engine, &rig->members[SPARE].backend, why), SPARE);
	wait_for_state(rig, SPARE, MEMBER_SPARE);
}

/* Rows of the load are on the spare, not all of the others. */
static void
fill_in_part(struct rig *rig)
{
	attach_spare(rig);
	assert_int_equal(engine_replace(rig->engine, FORMER, SPARE, why), 0);
	for (int i = 0; i < 20000 && rig_status(rig).rebuild.done_rows < 200; i++)
		rig_step(rig);
	assert_true(rig_status(rig).rebuild.done_rows >= 200);
	engine_set_rates(rig->engine, 1, 1);
	rig_steps(rig, 50);
}

/* Chunks of the load's rows in which the spare has something else than its former. */
static int
differences(struct rig *rig)
{
	uint8_t one[CHUNK], two[CHUNK];
	int count = 0;

	for (uint64_t row = 0; row < LOAD_BYTES / CHUNK / (uint64_t)(rig->count - 1); row++) {
		disk_read(&rig->members[FORMER].disk, DATA_OFFSET + row * CHUNK, one, CHUNK);
		disk_read(&rig->members[SPARE].disk, DATA_OFFSET + row * CHUNK, two, CHUNK);
		count += memcmp(one, two, CHUNK) != 0;
	}
	return count;
}

/* Rows that don't fit, with the spare in its place. */
static int
faults(struct rig *rig)
{
	int count = 0;

	for (uint64_t row = 0; row < LOAD_BYTES / CHUNK / (uint64_t)(rig->count - 1); row++) {
		uint8_t sum[CHUNK] = { 0 }, chunk[CHUNK];

		for (int m = 0; m < rig->count; m++) {
			disk_read(&rig->members[m == FORMER ? SPARE : m].disk,
				  DATA_OFFSET + row * CHUNK, chunk, CHUNK);
			for (uint32_t i = 0; i < CHUNK; i++)
				sum[i] ^= chunk[i];
		}
		for (uint32_t i = 0; i < CHUNK; i++)
			if (sum[i] != 0) {
				count++;
				break;
			}
	}
	return count;
}

/* Whole rows, so that nothing has to be read before. */
static void
write_rows(struct rig *rig)
{
	const uint64_t row = CHUNK / 512 * (uint64_t)(rig->count - 1);

	for (uint64_t i = 0; i < 16; i++)
		rig_submit(rig, REQUEST_WRITE, i * row, row, false);
}

static void
go_on(struct rig *rig)
{
	rig->members[FORMER].reachable = true;
	rig->members[OTHER].reachable = true;
	wait_until(rig, is_whole);
	rig_drain(rig);
	engine_set_rates(rig->engine, 0, 1ull << 40);
	wait_for_state(rig, SPARE, MEMBER_IN_SYNC);
	wait_until(rig, all_proven);
}

static void
test_a_write_that_failed_on_the_former_alone_is_made_up_for(void **state)
{
	struct rig rig_, *rig = start_with(&rig_, 5, 4, 2000, false);

	(void)state;
	fill_in_part(rig);
	assert_int_equal(differences(rig), 0);
	write_rows(rig); /* so that their regions are marked */
	rig_drain(rig);
	rig->errors_allowed = true;
	write_rows(rig);
	engine_run(rig->engine, rig->now_ms);
	fake_member_cut(&rig->members[FORMER], false);
	fake_member_cut(&rig->members[OTHER], false);
	rig_drain(rig);
	rig->errors_allowed = false;
	assert_int_not_equal(differences(rig), 0);
	go_on(rig);
	assert_int_equal(faults(rig), 0);
	rig_verify(rig);
	rig_stop(rig);
	rig_free(rig);
}

static void
test_a_cache_that_the_former_alone_lost_is_made_up_for(void **state)
{
	struct rig rig_, *rig = start(&rig_, 5, 4, 2001);

	(void)state;
	fill_in_part(rig);
	for (uint64_t sector = 0; sector < rig->sectors / 4; sector += 8)
		rig_submit(rig, REQUEST_WRITE, sector, 8, false);
	rig_drain(rig);
	assert_int_equal(differences(rig), 0);
	fake_member_cut(&rig->members[OTHER], false);
	fake_member_power_loss(&rig->members[FORMER], true);
	rig_steps(rig, 200);
	assert_int_not_equal(differences(rig), 0);
	go_on(rig);
	assert_int_equal(faults(rig), 0);
	rig_stop(rig);
	rig_free(rig);
}

/* --- rows that nobody wrote --- */

static bool
spare_is_full(struct rig *rig)
{
	const struct work_status rebuild = rig_status(rig).rebuild;

	return rig_status(rig).rebuild_slot >= 0 && rebuild.total_rows > 0 &&
	       rebuild.done_rows == rebuild.total_rows;
}

/* A resync makes the others fit one member's chunks of rows that nobody wrote.  That one goes, and
 * all others lose their caches at once: what is left fits again, as long as it is away.  The spare
 * has what the former had before.  As something was written elsewhere, the last to be back is not
 * spared: the others may lack that as well.
 */
static void
lose_what_a_resync_made(int level, int count)
{
	static const uint8_t zeros[CHUNK], junk[CHUNK] = { 1, 2, 3 };
	struct rig rig;
	struct tap taps[6], late;
	/* who has the data of level 1 is its first member */
	const int spare = count, away = level == 1 ? 0 : count - 1;

	rig_init(&rig, level, count, CHUNK, LOAD_BYTES, 2031);
	set_caches(&rig, true);
	rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
	rig.options.resync_rows_max = 1;
	rig.options.spare_wait_ms = 1u << 30; /* the spare is not for the one that is away */
	for (uint64_t row = 4; row < 64; row++)
		for (int m = 0; m < count; m++)
			disk_write(&rig.members[m].disk, DATA_OFFSET + row * CHUNK,
				   m == away ? junk : zeros, CHUNK, true);
	for (int m = 0; m < count; m++)
		tap_init(&taps[m], &rig.members[m]);
	rig_start_active(&rig);
	for (int m = 0; m < count; m++)
		taps[m].judge = hold_flushes;
	engine_set_rates(rig.engine, 1 << 20, 1 << 30);
	wait_until(&rig, all_proven);
	rig_mark_spare(&rig, spare, RIG_MEMBER_BYTES);
	tap_init(&late, &rig.members[spare]);
	assert_int_equal(engine_attach(rig.engine, &rig.members[spare].backend, why), spare);
	wait_for_state(&rig, spare, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig.engine, FORMER, spare, why), 0);
	wait_for_state(&rig, spare, MEMBER_REBUILDING); /* it was flushed before */
	/* so that it is not in its place before the resync has seen the rows */
	late.judge = hold_flushes;
	wait_until(&rig, spare_is_full);
	fake_member_cut(&rig.members[away], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_submit(&rig, REQUEST_WRITE, ELSEWHERE, 96, false);
	rig_drain(&rig);
	rig_steps(&rig, 100);
	for (int m = 0; m < count; m++) {
		taps[m].judge = NULL;
		if (m != away)
			fake_member_power_loss(&rig.members[m], true);
	}
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	wait_until(&rig, all_proven);
	late.judge = NULL;
	tap_let_go(&late);
	wait_for_state(&rig, spare, MEMBER_IN_SYNC);
	rig.members[away].reachable = true;
	wait_until(&rig, is_whole);
	wait_until(&rig, all_proven);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 0);
	rig_submit(&rig, REQUEST_WRITE, ELSEWHERE, 96, false); /* it may be gone */
	rig_drain(&rig);
	finish(&rig);
	fake_member_free(&rig.members[spare]);
}

static void
test_a_cache_lost_in_rows_that_nobody_wrote_is_made_up_for(void **state)
{
	(void)state;
	lose_what_a_resync_made(1, 3);
	lose_what_a_resync_made(6, 5);
}

/* --- a scrub meanwhile --- */

static bool flushes_held;

/* It is never full, and so has no place. */
static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	if (io->op == BACKEND_FLUSH)
		return flushes_held ? TAP_HOLD : TAP_PASS;
	return io->op == BACKEND_WRITE && io->offset_bytes >= DATA_OFFSET + 600 * CHUNK ? TAP_HOLD
											: TAP_PASS;
}

static bool
is_held(const struct tap *tap, enum backend_op op)
{
	for (int i = 0; i < tap->held_count; i++)
		if (tap->held[i]->op == op)
			return true;
	return false;
}

static void
wait_for_held(struct rig *rig, const struct tap *tap, enum backend_op op)
{
	for (int i = 0; i < 40000 && !is_held(tap, op); i++)
		rig_step(rig);
	assert_true(is_held(tap, op));
}

/* Row 2's parity is on the former, row 3's on member 0. */
static void
falsify(struct rig *rig, int member, uint64_t row)
{
	static const uint8_t junk[512] = { 1, 2, 3 };

	disk_write(&rig->members[member].disk, DATA_OFFSET + row * CHUNK + 512, junk, sizeof(junk),
		   true);
}

/* The spare has all rows that hold data, and waits. */
static void
fill_and_hold(struct rig *rig, struct tap *tap)
{
	flushes_held = false;
	attach_spare(rig);
	rig->members[SPARE].disk.write_cache = true;
	fake_member_cut(&rig->members[SPARE], true); /* so that it says so */
	tap_init(tap, &rig->members[SPARE]);
	tap->judge = judge;
	wait_for_state(rig, SPARE, MEMBER_SPARE);
	rig_steps(rig, 5000);
	assert_int_equal(engine_replace(rig->engine, FORMER, SPARE, why), 0);
	wait_for_held(rig, tap, BACKEND_WRITE);
	rig_steps(rig, 5000); /* until what it has is flushed */
}

static void
test_what_a_scrub_corrected_is_not_lost_with_the_spare(void **state)
{
	(void)state;
	for (uint64_t seed = 2010; seed < 2018; seed++) {
		struct rig rig_, *rig = start(&rig_, 5, 4, seed);
		struct tap tap;

		fill_and_hold(rig, &tap);
		falsify(rig, FORMER, 2);
		falsify(rig, SPARE, 2);
		flushes_held = true;
		assert_int_equal(engine_scrub_start(rig->engine, SCRUB_REPAIR, false, why), 0);
		wait_for_held(rig, &tap, BACKEND_FLUSH);
		tap.judge = NULL;
		fake_member_power_loss(&rig->members[SPARE], true);
		go_on(rig);
		wait_until(rig, scrub_done);
		assert_int_equal(rig_status(rig).scrub_mismatches, 1);
		assert_int_equal(faults(rig), 0);
		finish(rig);
	}
}

static bool
has_mismatch(struct rig *rig)
{
	return rig_status(rig).scrub_mismatches > 0;
}

/* The former returns what nobody wrote, of data that the spare has as it was.  Parity follows the
 * former.
 */
static void
correct_what_differs(uint64_t seed, bool bad_sector)
{
	struct rig rig_, *rig = start(&rig_, 5, 4, seed);
	struct tap tap;

	fill_and_hold(rig, &tap);
	falsify(rig, FORMER, 3);
	if (bad_sector) /* so that the row is mended by itself */
		disk_damage(&rig->members[OTHER].disk, DATA_OFFSET + 3 * CHUNK + 8192);
	assert_int_equal(differences(rig), 1);
	assert_int_equal(engine_scrub_start(rig->engine, SCRUB_REPAIR, false, why), 0);
	wait_until(rig, has_mismatch);
	assert_int_equal(differences(rig), 0);
	tap.judge = NULL;
	tap_let_go(&tap);
	go_on(rig);
	wait_until(rig, scrub_done);
	assert_int_equal(rig_status(rig).scrub_mismatches, 1);
	assert_int_equal(faults(rig), 0);
	rig_stop(rig);
	rig_free(rig);
}

static void
test_what_a_scrub_went_by_is_on_the_spare_too(void **state)
{
	(void)state;
	for (uint64_t seed = 2020; seed < 2028; seed++)
		correct_what_differs(seed, seed % 2 != 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_write_that_failed_on_the_former_alone_is_made_up_for),
		cmocka_unit_test(test_a_cache_that_the_former_alone_lost_is_made_up_for),
		cmocka_unit_test(test_a_cache_lost_in_rows_that_nobody_wrote_is_made_up_for),
		cmocka_unit_test(test_what_a_scrub_corrected_is_not_lost_with_the_spare),
		cmocka_unit_test(test_what_a_scrub_went_by_is_on_the_spare_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
