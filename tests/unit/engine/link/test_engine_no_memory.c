/* test_engine_no_memory.c - the n-th allocation of the engine fails, for all n in turn: what waits for
 * memory goes on once there is some, what fails says so, and what was acknowledged is there
 * (docs/design/memory.md).
 */
#include "scenario.h"

#include "engine/core/core.h"
#include "short_memory.h"

#define LOAD_BYTES (256ull << 10)
#define MEMBERS 4
#define ROW_SECTORS 96u
#define LOG_OFFSET (LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES)
#define LOG_BYTES (1u << 20)
#define DATA_OFFSET (LOG_OFFSET + LOG_BYTES + (1u << 20)) /* behind the checksums */

struct world {
	struct rig rig;
	struct tap taps[MEMBERS];
	bool rows_held; /* writes of rows, on the first member */
};

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	const struct world *world = tap->owner;

	return (io->op == BACKEND_WRITE || io->op == BACKEND_ZERO) &&
			       io->offset_bytes >= DATA_OFFSET && world->rows_held &&
			       tap == &world->taps[0]
		       ? TAP_HOLD
		       : TAP_PASS;
}

static bool
is_open(struct rig *rig)
{
	return rig_status(rig).log.open;
}

/* All is written and fits, and the log is open. */
static void
begin(struct world *world, enum log_mode mode, bool caches)
{
	struct rig *rig = &world->rig;

	*world = (struct world){ 0 };
	rig_init(rig, 5, MEMBERS, 16384, LOAD_BYTES, 900);
	rig->options.log = mode;
	for (int i = 0; i < MEMBERS; i++) {
		tap_init(&world->taps[i], &rig->members[i]);
		world->taps[i].judge = judge;
		world->taps[i].owner = world;
	}
	set_caches(rig, caches);
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	if (mode == LOG_MODE_DEGRADED)
		fake_member_cut(&rig->members[MEMBERS - 1], false);
	if (mode != LOG_MODE_OFF)
		wait_until(rig, is_open);
}

static void
crash(struct world *world)
{
	rig_crash(&world->rig);
	for (int i = 0; i < MEMBERS; i++)
		tap_drop(&world->taps[i]);
	world->rows_held = false;
}

static bool
is_assembled(struct rig *rig)
{
	return is_whole(rig) || is_degraded(rig);
}

/* Nothing is left undone without a deadline: a gateway that starts may have no event any more that
 * wakes it.  Two are refused, for a turn of the engine with an answer asks twice.
 */
static void
start_without_memory(struct rig *rig, uint64_t behind)
{
	rig_start(rig);
	short_memory_refuse(behind, 2);
	while (!is_assembled(rig)) {
		uint64_t done;

		assert_true(rig_wake(rig));
		done = rig->engine->activity;
		engine_run(rig->engine, rig->now_ms);
		assert_int_equal(rig->engine->activity, done);
	}
}

/* Nothing is lost; and once more, as the next start finds it. */
static void
end(struct world *world)
{
	struct rig *rig = &world->rig;

	for (int i = 0; i < MEMBERS; i++)
		tap_let_go(&world->taps[i]);
	world->rows_held = rig->errors_allowed = false;
	rig_drain(rig);
	rig_verify(rig);
	assert_int_equal(rig_status(rig).lost_bytes, 0);
	crash(world);
	rig_start(rig);
	wait_until(rig, is_assembled);
	rig_verify(rig);
	assert_int_equal(rig_status(rig).lost_bytes, 0);
	finish(rig);
}

/* Scene by scene, until one ends before the refusal that was meant for it. */
static void
for_each_allocation(bool (*scene)(uint64_t behind))
{
	const uint64_t step = 16 / rig_lives(16); /* fewer where each takes longer */
	uint64_t behind;

	for (behind = 0; scene(behind); behind += step)
		short_memory_free();
	short_memory_free();
	assert_true(behind > 0); /* it does ask for memory by these names */
}

/* --- a start that replays --- */

/* Rows that are torn, and, where the log is always open, writes that are in no row yet. */
static bool
replay_scene(enum log_mode mode, uint64_t behind)
{
	struct world world;
	struct rig *rig = &world.rig;
	bool refused;

	begin(&world, mode, false);
	if (mode == LOG_MODE_ALWAYS) {
		for (uint64_t sector = 5; sector + 9 < rig->sectors; sector += ROW_SECTORS)
			rig_submit(rig, REQUEST_WRITE, sector, 9, false);
		rig_drain(rig);
	}
	world.rows_held = true;
	rig_submit(rig, REQUEST_WRITE, 0, 40, false);
	rig_submit(rig, REQUEST_ZERO, ROW_SECTORS, 2 * ROW_SECTORS, false);
	rig_steps(rig, 60);
	crash(&world);
	start_without_memory(rig, behind);
	refused = short_memory_end();
	end(&world);
	return refused;
}

static bool
replay_degraded(uint64_t behind)
{
	return replay_scene(LOG_MODE_DEGRADED, behind);
}

static bool
replay_pending(uint64_t behind)
{
	return replay_scene(LOG_MODE_ALWAYS, behind);
}

/* The start has read what is pending and has no memory to hold it; its log is so full that the tail
 * is to rise as soon as may be, and the next record says how far that is.
 */
static bool
resumed_scene(uint64_t behind)
{
	struct world world;
	struct rig *rig = &world.rig;
	bool refused;

	begin(&world, LOG_MODE_ALWAYS, false);
	for (int turn = 0; turn < 6; turn++) {
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_drain(rig);
	}
	crash(&world);
	rig->options.log_live_bytes_max = 200000; /* half of which is used */
	start_without_memory(rig, behind);
	refused = short_memory_end();
	rig_submit(rig, REQUEST_WRITE, 4 * ROW_SECTORS + 5, 3, false);
	rig_drain(rig);
	crash(&world);
	rig_start(rig);
	wait_until(rig, is_assembled);
	end(&world);
	return refused;
}

static void
test_a_start_without_memory_for_something_replays_all_the_same(void **state)
{
	(void)state;
	for_each_allocation(replay_degraded);
	for_each_allocation(replay_pending);
	for_each_allocation(resumed_scene);
}

/* --- writes that the log acknowledges --- */

/* What failed failed for that alone, and then all is as ever. */
static bool
end_writes(struct world *world)
{
	struct rig *rig = &world->rig;
	const bool refused = short_memory_end();

	assert_true(rig->failed == 0 || rig->last_error == -ENOMEM);
	assert_in_range(rig->failed, 0, 2);
	rig->errors_allowed = false;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_submit(rig, REQUEST_WRITE, 3 * ROW_SECTORS, 9, false);
	rig_drain(rig);
	end(world);
	return refused;
}

static bool
write_back_scene(uint64_t behind)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, LOG_MODE_ALWAYS, true);
	rig->errors_allowed = true;
	short_memory_refuse(behind, 1);
	for (int turn = 0; turn < 3; turn++) {
		for (uint64_t sector = 5; sector + 9 < rig->sectors; sector += 60)
			rig_submit(rig, REQUEST_WRITE, sector, 9, false);
		rig_submit(rig, REQUEST_READ, 5, 9, false);
		rig_submit(rig, REQUEST_WRITE, 0, 20, false);
		rig_submit(rig, REQUEST_ZERO, ROW_SECTORS + 3, 12, false);
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(rig);
	}
	rig_steps(rig, 400);
	return end_writes(&world);
}

/* One row again and again, until its records are written once more, for the older ones to go. */
static bool
again_scene(uint64_t behind)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, LOG_MODE_ALWAYS, false);
	for (uint64_t sector = 20; sector < ROW_SECTORS; sector += 20) {
		rig_submit(rig, REQUEST_WRITE, sector, 2, false); /* runs of its own */
		rig_drain(rig);
	}
	rig->errors_allowed = true;
	short_memory_refuse(behind, 1);
	for (int turn = 0; turn < 400; turn++) {
		rig_submit(rig, REQUEST_WRITE, 5, 9, false);
		rig_drain(rig);
	}
	return end_writes(&world);
}

/* They come while their row is being written, and then one who wants all of it. */
static bool
later_scene(uint64_t behind)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, LOG_MODE_ALWAYS, false);
	world.rows_held = true;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	for (int step = 0; step < 20000 && world.taps[0].held_count == 0; step++)
		rig_step(rig);
	assert_int_equal(world.taps[0].held_count, 1);
	rig->errors_allowed = true;
	short_memory_refuse(behind, 1);
	rig_submit(rig, REQUEST_WRITE, 7, 20, false);
	rig_submit(rig, REQUEST_WRITE, 60, 2, false);
	rig_submit(rig, REQUEST_WRITE, 0, ROW_SECTORS, false);
	rig_steps(rig, 30);
	world.rows_held = false;
	tap_let_go(&world.taps[0]);
	rig_drain(rig);
	rig_steps(rig, 400);
	return end_writes(&world);
}

static void
test_a_write_without_memory_for_something_is_told_or_done(void **state)
{
	(void)state;
	for_each_allocation(write_back_scene);
	for_each_allocation(again_scene);
	for_each_allocation(later_scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_start_without_memory_for_something_replays_all_the_same),
		cmocka_unit_test(test_a_write_without_memory_for_something_is_told_or_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
