/* test_engine_halves.c - where two disjoint sets of members are enough each, what one of them has
 * done without the other is not forgotten (docs/design/levels.md, Two halves).
 */
#include "scenario.h"

#include <stdio.h>

#define LOAD_BYTES (1ull << 20)
#define GIVE_UP_MS 500u

static void
become(struct rig *rig, const char *owner)
{
	snprintf(rig->options.owner, sizeof(rig->options.owner), "%s", owner);
}

/* Another gateway, or this one without its state folder. */
static void
become_stranger(struct rig *rig)
{
	become(rig, "two pid 1 (rig) #2");
	rig->epoch_recorded = rig->epoch_tried = 0;
}

/* Member 0 went on alone, and its gateway died.  Member 1 knows of nothing, not even of that
 * gateway.
 */
static void
run_one_half(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 1, 2, 16384, LOAD_BYTES, seed);
	set_deadline_of_all(rig, GIVE_UP_MS * 1000);
	become(rig, "one pid 1 (rig) #1");
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 64, 64);
	rig_drain(rig);
	rig_stop(rig);
	rig->members[1].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	submit_everywhere(rig, REQUEST_WRITE, 64, 64);
	rig_drain(rig);
	rig_crash(rig);
	rig->members[1].reachable = true;
	rig->members[0].written = rig->members[1].written = false;
}

/* In a session, or while it is being opened: it answers. */
static void
test_half_that_answers_slowly_is_awaited(void **state)
{
	static const uint64_t paces_us[] = { 150000, 250000, 390000 };

	for (size_t i = 0; i < sizeof(paces_us) / sizeof(paces_us[0]); i++) {
		struct rig rig;

		run_one_half(&rig, 2200 + i);
		become_stranger(&rig);
		set_pace(&rig, 0, paces_us[i]);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_FAILED, 3000));
		assert_non_null(strstr(rig_status(&rig).reason, "in use by one pid 1"));
		rig_steps(&rig, 3000);
		assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
		rig_stop(&rig);
		assert_false(rig.members[0].written || rig.members[1].written);
		become(&rig, "one pid 2 (rig) #1");
		rig_start(&rig);
		wait_until(&rig, all_in_sync);
		finish(&rig);
	}
}

/* How long the start of a volume took that has enough members. */
static uint64_t
start_ms(struct rig *rig)
{
	const uint64_t began_ms = rig->now_ms;

	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	return rig->now_ms - began_ms;
}

/* Member 0 answers log-ins, and nothing else. */
static void
begin_with_mute(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	set_deadline_of_all(rig, GIVE_UP_MS * 1000);
	rig_start_active(rig);
	rig_stop(rig);
	rig->members[0].reachable = false;
	assert_true(start_ms(rig) < rig->options.assembly_wait_ms + 50);
	rig_stop(rig);
	rig->members[0].reachable = true;
	rig->members[0].mute_from_bytes = 0;
}

static void
end_with_mute(struct rig *rig)
{
	rig->members[0].mute_from_bytes = UINT64_MAX;
	wait_until(rig, all_in_sync);
	finish(rig);
}

/* Also where the missing are enough with one whose place may have been taken. */
static void
test_half_that_says_nothing_is_awaited_no_longer(void **state)
{
	static const int shapes[][2] = { { 1, 2 }, { 1, 3 }, { 10, 4 }, { 6, 4 }, { 5, 3 } };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct rig rig;
		uint64_t took_ms;

		/* Until its session has ended for that. */
		begin_with_mute(&rig, shapes[i][0], shapes[i][1], 2210 + i);
		took_ms = start_ms(&rig);
		assert_true(took_ms >= GIVE_UP_MS && took_ms < GIVE_UP_MS + 100);
		end_with_mute(&rig);
	}
}

/* Whoever started without some of those that are there started with others of them: one that is
 * missing knows nothing that they don't.
 */
static void
test_device_that_answers_nothing_costs_no_request(void **state)
{
	static const int shapes[][2] = { { 5, 4 }, { 5, 6 }, { 6, 5 }, { 10, 6 } };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct rig rig;

		begin_with_mute(&rig, shapes[i][0], shapes[i][1], 2220 + i);
		set_deadline_of_all(&rig, 4 * GIVE_UP_MS * 1000);
		rig.options.assembly_limit_ms = rig.options.assembly_wait_ms + 2 * GIVE_UP_MS;
		rig_start(&rig);
		submit_everywhere(&rig, REQUEST_WRITE, 64, 64);
		rig_drain(&rig);
		assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
		assert_int_equal(rig.failed, 0);
		rig_stop(&rig);
		assert_true(start_ms(&rig) < rig.options.assembly_wait_ms + 50);
		end_with_mute(&rig);
	}
}

static enum tap_verdict
hold_map_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes >= LAYOUT_MAP_OFFSET ? TAP_HOLD
									       : TAP_PASS;
}

static enum tap_verdict
hold_superblock_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_READ && io->offset_bytes < LAYOUT_MAP_OFFSET ? TAP_HOLD : TAP_PASS;
}

/* Member 0 was written and flushed alone.  Another gateway is started, which finds member 1, and is
 * about to read its maps.
 */
static void
start_with_the_older_half(struct rig *rig, struct tap taps[2])
{
	rig_init(rig, 1, 2, 16384, LOAD_BYTES, 2300);
	for (int m = 0; m < 2; m++)
		tap_init(&taps[m], &rig->members[m]);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 64, 64);
	rig_drain(rig);
	rig_stop(rig);
	rig->members[1].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	submit_everywhere(rig, REQUEST_WRITE, 64, 64);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	rig_stop(rig);
	become_stranger(rig);
	rig->epoch_recorded = rig_superblock(rig, 1).epoch; /* the last that it ran itself */
	rig->members[1].reachable = true;
	rig->members[0].reachable = false;
	rig->step_ms_max = 1;
	taps[1].judge = hold_map_reads;
	rig_start(rig);
	for (int i = 0; i < 100000 && taps[1].held_count == 0; i++)
		rig_step(rig);
	rig->members[0].reachable = true;
}

static void
let_go(struct tap *tap)
{
	tap->judge = NULL;
	tap_let_go(tap);
}

/* It comes when the start has been decided without it: nothing was written yet. */
static void
test_a_newer_half_that_comes_while_maps_are_read_rules(void **state)
{
	struct rig rig;
	struct tap taps[2];

	(void)state;
	start_with_the_older_half(&rig, taps);
	wait_for_link(&rig, 0, LINK_OPEN);
	rig_steps(&rig, 50);
	let_go(&taps[1]);
	wait_until(&rig, all_in_sync);
	finish(&rig);
}

/* It has logged in, and has not answered yet when the maps have been read. */
static void
test_a_newer_half_that_is_about_to_say_so_rules(void **state)
{
	struct rig rig;
	struct tap taps[2];

	(void)state;
	start_with_the_older_half(&rig, taps);
	taps[0].judge = hold_superblock_reads;
	for (int i = 0; i < 100000 && taps[0].held_count < 2; i++)
		rig_step(&rig);
	assert_int_equal(taps[0].held_count, 2);
	let_go(&taps[1]);
	rig_steps(&rig, 20);
	let_go(&taps[0]);
	wait_until(&rig, all_in_sync);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half_that_answers_slowly_is_awaited),
		cmocka_unit_test(test_half_that_says_nothing_is_awaited_no_longer),
		cmocka_unit_test(test_device_that_answers_nothing_costs_no_request),
		cmocka_unit_test(test_a_newer_half_that_comes_while_maps_are_read_rules),
		cmocka_unit_test(test_a_newer_half_that_is_about_to_say_so_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
