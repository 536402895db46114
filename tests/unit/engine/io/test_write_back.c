/* test_write_back.c - small writes that the write log acknowledges: when they are, what is read
 * meanwhile, and what is left of them when something goes wrong before they come to their row.
 */
#include "scenario.h"

#include "engine/record/write_log.h"

#define LOAD_BYTES (1ull << 20)
#define MEMBERS_MAX 5
#define LOG_OFFSET (LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES)
#define LOG_BYTES (1u << 20)
#define DATA_OFFSET (LOG_OFFSET + LOG_BYTES + (1u << 20)) /* behind the checksums */
#define ROW_SECTORS 96u					  /* three chunks of data */

struct world {
	struct rig rig;
	struct tap taps[MEMBERS_MAX];
	uint32_t rows_of;  /* members whose writes of rows are held, bits */
	bool records_held; /* the same of records */
	bool records_refused;
	bool closing_held; /* superblocks are, from the first row that is written */
	bool flushes_held;
	int rows_written; /* commands */
};

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const uint32_t bit = 1u << (tap - world->taps);
	const bool writes = io->op == BACKEND_WRITE || io->op == BACKEND_ZERO;

	if (io->op == BACKEND_FLUSH && world->flushes_held)
		return TAP_HOLD;
	if (world->closing_held && world->rows_written > 0)
		return tap_hold_superblocks(tap, io);
	if (writes && io->offset_bytes >= LOG_OFFSET && io->offset_bytes < LOG_OFFSET + LOG_BYTES)
		return world->records_refused ? TAP_REFUSE
		       : world->records_held  ? TAP_HOLD
					      : TAP_PASS;
	if (!writes || io->offset_bytes < DATA_OFFSET)
		return TAP_PASS;
	world->rows_written++;
	return world->rows_of & bit ? TAP_HOLD : TAP_PASS;
}

static bool
is_open(struct rig *rig)
{
	return rig_status(rig).log.open;
}

static bool
is_closed(struct rig *rig)
{
	return !is_open(rig) && rig_superblock(rig, 0).log_key == 0;
}

static void
begin_sized(struct world *world, int level, int count, uint32_t chunk_bytes, uint64_t load_bytes,
	    uint64_t seed, bool caches)
{
	*world = (struct world){ 0 };
	rig_init(&world->rig, level, count, chunk_bytes, load_bytes, seed);
	world->rig.options.log = LOG_MODE_ALWAYS;
	world->rig.options.buffer_bytes_max = 1; /* as little as a volume can do with */
	for (int i = 0; i < count; i++) {
		tap_init(&world->taps[i], &world->rig.members[i]);
		world->taps[i].judge = judge;
		world->taps[i].owner = world;
	}
	set_caches(&world->rig, caches);
	rig_start_active(&world->rig);
	submit_everywhere(&world->rig, REQUEST_WRITE, 128, 128);
	rig_drain(&world->rig);
	rig_wait_for_resync(&world->rig);
	wait_until(&world->rig, is_open);
	world->rows_written = 0;
}

static void
begin(struct world *world, int level, int count, uint64_t seed, bool caches)
{
	begin_sized(world, level, count, 16384, LOAD_BYTES, seed, caches);
}

static void
let_all_go(struct world *world)
{
	world->rows_of = 0;
	world->records_held = world->flushes_held = world->records_refused = false;
	world->closing_held = false;
	for (int i = 0; i < world->rig.count; i++)
		tap_let_go(&world->taps[i]);
}

static void
crash(struct world *world)
{
	rig_crash(&world->rig);
	for (int i = 0; i < world->rig.count; i++)
		tap_drop(&world->taps[i]);
	world->rows_of = 0;
	world->records_held = world->flushes_held = world->records_refused = false;
	world->closing_held = false;
}

static void
end(struct world *world)
{
	for (int i = 0; i < world->rig.count; i++)
		world->taps[i].judge = NULL;
	rig_verify(&world->rig);
	finish(&world->rig);
}

/* What was acknowledged is there, before a crash and after it. */
static void
crash_and_end(struct world *world)
{
	rig_verify(&world->rig);
	crash(world);
	rig_start_active(&world->rig);
	rig_verify(&world->rig);
	end(world);
}

static int
held(const struct world *world)
{
	int count = 0;

	for (int i = 0; i < world->rig.count; i++)
		count += world->taps[i].held_count;
	return count;
}

static void
wait_for_held(struct world *world, int count)
{
	for (int step = 0; step < 20000 && held(world) < count; step++)
		rig_step(&world->rig);
	assert_true(held(world) >= count);
}

/* --- tests --- */

static void
test_a_small_write_is_acknowledged_before_its_row_is_touched(void **state)
{
	(void)state;
	for (int level = 5; level <= 6; level++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, level, 4, 300, false);
		for (uint64_t sector = 5; sector < rig->sectors; sector += 4 * ROW_SECTORS)
			rig_submit(rig, REQUEST_WRITE, sector, 9, false);
		rig_drain(rig);
		assert_int_equal(world.rows_written, 0);
		crash_and_end(&world);
	}
}

/* The same bytes again and again: one write of the row has the newest. */
static void
test_what_is_overwritten_never_comes_to_its_row(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 310, false);
	for (int turn = 0; turn < 10; turn++) {
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_drain(rig);
	}
	assert_int_equal(world.rows_written, 0);
	for (int step = 0; step < 20000 && world.rows_written == 0; step++)
		rig_step(rig);
	rig_steps(rig, 100);
	assert_int_equal(world.rows_written, 2); /* data and parity, once */
	end(&world);
}

/* The others come while the first is being logged: in records of their own. */
static void
test_what_is_being_logged_is_overwritten_by_the_log_alone(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 312, false);
	world.records_held = true;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 2);
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 4);
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	wait_for_held(&world, 6);
	let_all_go(&world);
	rig_drain(rig);
	assert_int_equal(world.rows_written, 0);
	crash_and_end(&world);
}

static void
log_as_many_as_may_be_under_way(struct world *world)
{
	world->records_held = true;
	for (int i = 0; i < LOG_UNDER_WAY; i++) {
		rig_submit(&world->rig, REQUEST_WRITE, (uint64_t)(4 + i) * ROW_SECTORS, 1, false);
		wait_for_held(world, 2 * (i + 1));
	}
}

/* What is overwritten before it has a record never gets one; what sticks out waits. */
static void
test_what_waits_for_a_record_is_overwritten_in_place(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t records;

	(void)state;
	begin(&world, 5, 4, 313, false);
	log_as_many_as_may_be_under_way(&world);
	records = rig_status(rig).log.records;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_submit(rig, REQUEST_WRITE, 6, 3, false);
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_submit(rig, REQUEST_WRITE, 5, 2, false);
	rig_steps(rig, 30);
	let_all_go(&world);
	rig_drain(rig);
	assert_int_equal(rig_status(rig).log.records, records + 2);
	crash_and_end(&world);
}

/* So often that the log would be full: its old records go, and nothing of what they had. */
static void
test_a_row_that_is_often_written_to_is_logged_once_more(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 318, false);
	rig_submit(rig, REQUEST_WRITE, 60, 2, false);
	for (int turn = 0; turn < 400; turn++) {
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_drain(rig);
	}
	assert_int_equal(world.rows_written, 0);
	crash(&world);
	rig_start_active(rig);
	rig_verify(rig);
	end(&world);
}

/* So some record of it is always under way. */
static void
test_a_row_that_never_rests_lets_the_log_go_on(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t most = 0;

	(void)state;
	begin(&world, 5, 4, 319, false);
	for (int turn = 0; turn < 3000; turn++) {
		const uint64_t live = rig_status(rig).log.bytes;

		if (rig->active_count < 8)
			rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_step(rig);
		most = live > most ? live : most;
		assert_true(is_open(rig));
	}
	rig_drain(rig);
	assert_true(most < LOG_BYTES);
	end(&world);
}

/* Then it is held anew; and those that were in it are not forgotten. */
static void
test_a_write_that_comes_while_its_row_is_written_waits_for_that(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	int written;

	(void)state;
	begin(&world, 5, 4, 314, false);
	world.rows_of = 0xF;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	wait_for_held(&world, 2); /* a second later */
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_submit(rig, REQUEST_WRITE, 60, 2, false);
	rig_steps(rig, 30);
	written = world.rows_written;
	let_all_go(&world);
	rig_drain(rig);
	assert_int_equal(world.rows_written, written);
	rig_verify(rig);
	for (int step = 0; step < 20000 && world.rows_written == written; step++)
		rig_step(rig);
	rig_steps(rig, 100);
	end(&world);
}

/* In the order in which they came, also where nobody can be held any more. */
static void
test_who_wants_the_row_comes_behind_those_that_wait_to_join(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 316, false);
	world.rows_of = 0xF;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	wait_for_held(&world, 2); /* its row is being written */
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_submit(rig, REQUEST_WRITE, 0, ROW_SECTORS, false);
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_steps(rig, 30);
	let_all_go(&world);
	rig_drain(rig);
	end(&world);
}

/* Its row has been written, and is being flushed. */
static void
test_a_write_that_comes_when_its_row_was_written_is_not_forgotten_with_it(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 317, true);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	world.flushes_held = true;
	rig_submit(rig, REQUEST_WRITE, 5, 9, true);
	rig_drain(rig);
	for (int step = 0; step < 20000 && world.rows_written < 2; step++)
		rig_step(rig);
	rig_steps(rig, 100);
	rig_submit(rig, REQUEST_WRITE, 7, 20, true);
	rig_steps(rig, 100);
	let_all_go(&world);
	rig_drain(rig);
	end(&world);
}

/* And a row that has become full needs no reads. */
static void
test_small_writes_that_fill_a_row_are_written_as_one(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t full;

	(void)state;
	begin(&world, 5, 4, 320, false);
	full = rig_status(rig).rows_full;
	for (uint64_t sector = 0; sector < ROW_SECTORS; sector += 8) {
		rig_submit(rig, REQUEST_WRITE, (sector * 5) % ROW_SECTORS, 8, false);
		rig_drain(rig);
	}
	for (int step = 0; step < 20000 && rig_status(rig).rows_full == full; step++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).rows_full, full + 1);
	end(&world);
}

/* It is on no member yet; the gateway dies, and then it was never there. */
static void
test_nobody_reads_what_is_in_no_durable_record(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 330, false);
	world.records_held = true;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 2);
	rig_submit(rig, REQUEST_READ, 5, 9, false);
	rig_steps(rig, 300);
	crash(&world);
	rig_start_active(rig);
	rig_verify(rig);
	end(&world);
}

static void
test_what_the_log_has_acknowledged_outlives_caches(void **state)
{
	(void)state;
	for (uint64_t seed = 340; seed < 344; seed++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, seed, true);
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(rig);
		world.flushes_held = true;
		rig_submit(rig, REQUEST_WRITE, 5, 9, true);
		rig_drain(rig);
		for (int step = 0; step < 20000 && world.rows_written < 2; step++)
			rig_step(rig);
		rig_steps(rig, 100); /* its row is in caches */
		rig->errors_allowed = true;
		rig_lose_caches(rig, 0, 1);
		rig_lose_caches(rig, 2, 3);
		let_all_go(&world);
		rig_steps(rig, 3000);
		memcpy(rig->acknowledged, rig->flushed, rig->sectors * sizeof(*rig->flushed));
		rig->errors_allowed = false;
		rig_verify(rig);
		end(&world);
	}
}

static bool
fits(const struct rig *rig, uint64_t row)
{
	static uint64_t words[16384 / sizeof(uint64_t)], sum[16384 / sizeof(uint64_t)];

	memset(sum, 0, sizeof(sum));
	for (int i = 0; i < rig->count; i++) {
		disk_read(&rig->members[i].disk, DATA_OFFSET + row * 16384, words, sizeof(words));
		for (size_t at = 0; at < sizeof(sum) / sizeof(*sum); at++)
			sum[at] ^= words[at];
	}
	return sum[0] == 0 && memcmp(sum, sum + 1, sizeof(sum) - sizeof(*sum)) == 0;
}

/* A cache was lost, so each makes the parity of the whole row anew. */
static void
test_runs_of_a_row_that_is_suspect_are_written_one_by_one(void **state)
{
	(void)state;
	for (uint64_t seed = 345; seed < 349; seed++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, seed, true);
		rig_submit(rig, REQUEST_WRITE, 0, ROW_SECTORS, false);
		rig_drain(rig); /* in caches */
		for (uint64_t sector = 0; sector < 32; sector += 12)
			rig_submit(rig, REQUEST_WRITE, sector, 2, true);
		rig_drain(rig);
		rig->errors_allowed = true;
		fake_member_power_loss(&rig->members[3], true);
		fake_member_cut(&rig->members[1], true);
		assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
		assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
		for (int step = 0; step < 20000 && is_open(rig); step++)
			rig_step(rig); /* until all that it had is in its rows */
		assert_true(fits(rig, 0));
		rig_steps(rig, 3000);
		memcpy(rig->acknowledged, rig->flushed, rig->sectors * sizeof(*rig->flushed));
		rig->errors_allowed = false;
		rig_wait_for_resync(rig);
		end(&world);
	}
}

/* Its row can't be written yet, and an administrator wants no log any more. */
static void
test_a_log_is_closed_when_all_that_it_has_acknowledged_is_in_its_row(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 350, false);
	world.rows_of = 0xF;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	engine_set_log(rig->engine, LOG_MODE_OFF);
	wait_for_held(&world, 2);
	rig_steps(rig, 300);
	assert_true(is_open(rig));
	crash(&world);
	rig->options.log = LOG_MODE_OFF;
	rig_start_active(rig);
	rig_verify(rig);
	wait_until(rig, is_closed);
	end(&world);
}

/* Members refuse records, so what the log holds is written without: half of that is done when the
 * gateway dies, and then a member is missing.
 */
static void
test_rows_that_a_broken_log_was_written_to_are_not_believed(void **state)
{
	(void)state;
	for (uint32_t torn = 0; torn < 4; torn++)
		for (int missing = 0; missing < 4; missing++) {
			struct world world;
			struct rig *rig = &world.rig;

			begin(&world, 5, 4, 360, false);
			rig_submit(rig, REQUEST_WRITE, 5, 9, false);
			rig_drain(rig);
			world.records_refused = true;
			world.rows_of = 1u << torn;
			rig->errors_allowed = true;
			rig_submit(rig, REQUEST_WRITE, 3 * ROW_SECTORS, ROW_SECTORS, false);
			rig_steps(rig, 3000);
			crash(&world);
			fake_member_cut(&rig->members[missing], false);
			rig_start(rig);
			assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
			rig_verify(rig); /* errors, but nothing wrong */
			for (int i = 0; i < rig->count; i++)
				world.taps[i].judge = NULL;
			rig_crash(rig);
			rig_free(rig);
		}
}

/* It has no record, and its row is written without one; an older one has records, and superblocks name
 * their key yet: a start would bring the older one back.  Nobody is told of the newer one before that is
 * over, nor reads it.
 */
static void
test_what_a_broken_log_has_no_record_of_is_not_acknowledged_before_it_is_closed(void **state)
{
	(void)state;
	for (int crashes = 0; crashes < 2; crashes++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, 365, false);
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_drain(rig);
		world.records_refused = world.closing_held = true;
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_steps(rig, 300);
		rig_submit(rig, REQUEST_READ, 5, 9, false);
		rig_steps(rig, 300);
		if (crashes == 1) {
			crash(&world);
			rig_start_active(rig);
		} else {
			assert_true(world.rows_written > 0);
			assert_int_equal(rig->active_count, 2);
			let_all_go(&world);
			rig_drain(rig);
			crash(&world);
			rig_start_active(rig);
		}
		end(&world);
	}
}

/* The row's other members go before it is written, or can't be read: what has no place is lost, and
 * says so.
 */
static void
test_what_has_no_place_any_more_is_lost_on_record(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint32_t before;

	(void)state;
	begin(&world, 5, 4, 370, false);
	rig->errors_allowed = true;
	for (uint64_t row = 0; row < 4; row++)
		rig_submit(rig, REQUEST_WRITE, row * ROW_SECTORS + 5, 1, false);
	rig_drain(rig);
	before = rig_status(rig).lost_extents;
	/* one of these chunks is on the member that goes, and nothing makes up for it */
	for (int i = 0; i < 4; i++)
		for (uint64_t row = 0; row < 4; row++)
			disk_damage(&rig->members[i].disk, DATA_OFFSET + row * 16384 + 5 * 512);
	fake_member_cut(&rig->members[3], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	for (int step = 0; step < 20000 && rig_status(rig).lost_extents == before; step++)
		rig_step(rig);
	assert_true(rig_status(rig).lost_extents > before);
	rig_verify(rig); /* errors, but nothing old */
	/* and the volume goes on */
	rig_submit(rig, REQUEST_WRITE, 9 * ROW_SECTORS + 5, 9, false);
	rig_drain(rig);
	rig_crash(rig);
	rig_free(rig);
}

/* A member refuses to be read for long, and another one goes before the row is written: the log has
 * it, and nobody asks for the row.
 */
static void
test_what_a_member_refuses_for_a_while_is_not_given_up(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 380, false);
	for (uint64_t row = 0; row < 4; row++)
		rig_submit(rig, REQUEST_WRITE, row * ROW_SECTORS + 5, 1, false);
	rig_drain(rig);
	rig->members[2].refuse_reads = true;
	fake_member_cut(&rig->members[3], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig_steps(rig, 20000);
	assert_int_equal(rig_status(rig).lost_extents, 0);
	rig->members[2].refuse_reads = false;
	end(&world);
}

/* Until nothing is under way; it took as long as a request may wait, and not longer. */
static void
wait_until_late(struct rig *rig)
{
	const uint64_t since_ms = rig->now_ms;

	while (rig->active_count > 0 && rig->now_ms - since_ms <= 20000)
		rig_step(rig);
	assert_int_equal(rig->active_count, 0);
	assert_int_equal(rig->last_error, -ETIMEDOUT);
	assert_in_range(rig->now_ms - since_ms, rig->options.queue_limit_ms,
			engine_request_ms_max(&rig->options));
}

/* The row of what was acknowledged is being written, and its members are silent about that. */
static void
test_who_waits_for_a_row_waits_no_longer_than_any_request(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 390, false);
	world.rows_of = 0xF;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	wait_for_held(&world, 2);
	rig->errors_allowed = true;
	for (int i = 0; i < 3; i++)
		rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	wait_until_late(rig);
	assert_int_equal(rig->failed, 3);
	let_all_go(&world);
	rig->errors_allowed = false;
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_drain(rig);
	crash_and_end(&world);
}

/* Records are refused, so rows are to be written; and as many as may be are being written, of which
 * their members say nothing.
 */
static void
test_what_no_record_has_waits_no_longer_than_any_request(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 395, false);
	for (uint64_t row = 0; row < 20; row++)
		rig_submit(rig, REQUEST_WRITE, row * ROW_SECTORS + 5, 1, false);
	rig_drain(rig);
	world.rows_of = 0xF;
	world.records_refused = true;
	rig->errors_allowed = true;
	for (uint64_t row = 0; row < 20; row++)
		rig_submit(rig, REQUEST_WRITE, row * ROW_SECTORS + 7, 1, false);
	wait_until_late(rig);
	let_all_go(&world);
	rig->errors_allowed = false;
	rig_steps(rig, 2000);
	assert_int_equal(rig_status(rig).lost_extents, 0);
	end(&world); /* what was acknowledged is there, or what was to be written over it */
}

/* A small log, and many writes at once, of all lengths: what is held always has room to be written, so
 * the log is never given up or begun anew.
 */
static void
test_a_full_log_holds_no_more_than_it_can_write_to_rows(void **state)
{
	(void)state;
	for (int level = 5; level <= 6; level++) {
		struct world world;
		struct rig *rig = &world.rig;
		uint64_t key;

		begin(&world, level, 5, 390 + (uint64_t)level, true);
		key = rig_superblock(rig, 0).log_key;
		for (int i = 0; i < 3000; i++) {
			const uint64_t row = random_between(&rig->random, 0, 19);
			const uint64_t most = i % 4 == 0 ? 64 : 8;
			const uint32_t count = (uint32_t)random_between(&rig->random, 1, most);

			rig_submit(rig, REQUEST_WRITE,
				   row * ROW_SECTORS + random_between(&rig->random, 0, 63), count,
				   false);
			rig_steps(rig, (int)random_between(&rig->random, 0, 3));
		}
		rig_drain(rig);
		assert_true(is_open(rig));
		assert_int_equal(rig_superblock(rig, 0).log_key, key);
		crash_and_end(&world);
	}
}

/* A row that is held makes room in the log when it is written, and that takes memory: not behind those who
 * have all of it, and wait for that room.
 */
static void
test_what_makes_room_in_the_log_finds_memory(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t since_ms;

	(void)state;
	begin_sized(&world, 5, 5, 131072, 48ull << 20, 730, false);
	rig_submit(rig, REQUEST_WRITE, 5, 120, false);
	rig_drain(rig);
	assert_int_equal(world.rows_written, 0);
	/* the last of them smaller, so that they leave nothing */
	for (uint64_t i = 1; i <= 92; i++)
		rig_submit(rig, REQUEST_WRITE, i * 1024 + 100, i <= 40 ? 400 : 140, false);
	rig_submit(rig, REQUEST_READ, 500, 8, false);
	since_ms = rig->now_ms;
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	assert_true(rig->now_ms - since_ms < 5000);
	end(&world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_small_write_is_acknowledged_before_its_row_is_touched),
		cmocka_unit_test(test_what_is_overwritten_never_comes_to_its_row),
		cmocka_unit_test(test_what_is_being_logged_is_overwritten_by_the_log_alone),
		cmocka_unit_test(test_what_waits_for_a_record_is_overwritten_in_place),
		cmocka_unit_test(test_a_row_that_is_often_written_to_is_logged_once_more),
		cmocka_unit_test(test_a_row_that_never_rests_lets_the_log_go_on),
		cmocka_unit_test(test_a_write_that_comes_while_its_row_is_written_waits_for_that),
		cmocka_unit_test(test_who_wants_the_row_comes_behind_those_that_wait_to_join),
		cmocka_unit_test(
			test_a_write_that_comes_when_its_row_was_written_is_not_forgotten_with_it),
		cmocka_unit_test(test_small_writes_that_fill_a_row_are_written_as_one),
		cmocka_unit_test(test_nobody_reads_what_is_in_no_durable_record),
		cmocka_unit_test(test_what_the_log_has_acknowledged_outlives_caches),
		cmocka_unit_test(test_runs_of_a_row_that_is_suspect_are_written_one_by_one),
		cmocka_unit_test(
			test_a_log_is_closed_when_all_that_it_has_acknowledged_is_in_its_row),
		cmocka_unit_test(test_rows_that_a_broken_log_was_written_to_are_not_believed),
		cmocka_unit_test(
			test_what_a_broken_log_has_no_record_of_is_not_acknowledged_before_it_is_closed),
		cmocka_unit_test(test_what_has_no_place_any_more_is_lost_on_record),
		cmocka_unit_test(test_what_a_member_refuses_for_a_while_is_not_given_up),
		cmocka_unit_test(test_who_waits_for_a_row_waits_no_longer_than_any_request),
		cmocka_unit_test(test_what_no_record_has_waits_no_longer_than_any_request),
		cmocka_unit_test(test_a_full_log_holds_no_more_than_it_can_write_to_rows),
		cmocka_unit_test(test_what_makes_room_in_the_log_finds_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
