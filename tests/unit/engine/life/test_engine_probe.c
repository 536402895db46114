/* test_engine_probe.c - members are probed beside a load that verifies, on fake members in virtual
 * time: figures that follow from the members' answer times, and an end in time whatever becomes of
 * member or volume meanwhile.
 */
#include "scenario.h"

#define CHUNK 16384u
#define BLOCK 65536u
#define LOAD_BYTES (2ull << 20)

static char why[256];

static struct outcome {
	bool done;
	int error;
	struct probe_result results[SLOTS_MAX];
} outcome;

static void
probed(void *owner, int error, const struct probe_result results[SLOTS_MAX])
{
	outcome.done = true;
	outcome.error = error;
	memcpy(outcome.results, results, sizeof(outcome.results));
}

static int
probe(struct rig *rig, struct probe_order order)
{
	outcome = (struct outcome){ .done = false };
	return engine_probe(rig->engine, &order, probed, NULL, why);
}

/* Returns how long it took, virtual. */
static uint64_t
await(struct rig *rig)
{
	uint64_t begun_ms = rig->now_ms;

	for (int i = 0; i < 100000 && !outcome.done; i++)
		rig_step(rig);
	assert_true(outcome.done);
	return rig->now_ms - begun_ms;
}

static void
start(struct rig *rig, int count, uint64_t seed)
{
	rig_init(rig, 5, count, CHUNK, LOAD_BYTES, seed);
	for (int i = 0; i < count; i++)
		/* members are to be slow here, not silent */
		rig->members[i].deadline_us = 60000000;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 4000));
	rig->step_ms_max = 1;
}

static struct probe_order
of(int slot, uint32_t depth, uint32_t duration_ms)
{
	return (struct probe_order){
		.slot = slot, .block_bytes = BLOCK, .depth = depth, .duration_ms = duration_ms
	};
}

/* --- figures --- */

/* A driver runs the engine when a member has said something, and when the engine wanted to be run. */
static void
test_a_probe_asks_for_each_turn_that_it_needs(void **state)
{
	struct rig rig;

	(void)state;
	for (int limited = 0; limited < 2; limited++) {
		struct probe_order order = of(1, 2, 2000);
		uint64_t begun_ms;

		order.rate_max = limited ? 4 * BLOCK : 0;
		start(&rig, 3, 912);
		assert_int_equal(probe(&rig, order), 0);
		for (begun_ms = rig.now_ms; !outcome.done && rig.now_ms - begun_ms < 10000;)
			assert_true(rig_wake(&rig));
		assert_in_range(rig.now_ms - begun_ms, 2000, 3100);
		assert_int_equal(outcome.error, 0);
		assert_int_equal(outcome.results[1].error, 0);
		assert_true(outcome.results[1].reads > (limited ? 4 : 100));
		if (limited)
			assert_in_range(outcome.results[1].reads, 5, 10);
		finish(&rig);
	}
}

static void
test_reads_one_after_the_other_take_what_the_member_takes(void **state)
{
	struct rig rig;
	const struct probe_result *one = &outcome.results[1];
	uint64_t before[3], each_ms;

	start(&rig, 3, 900);
	wait_until(&rig, all_proven);
	set_pace(&rig, 1, 10000);
	for (int i = 0; i < 3; i++)
		before[i] = rig.members[i].reads;
	assert_int_equal(probe(&rig, of(1, 1, 1000)), 0);
	assert_in_range(await(&rig), 1000, 1030);
	assert_int_equal(outcome.error, 0);
	assert_true(one->probed && one->error == 0);
	assert_false(outcome.results[0].probed || outcome.results[2].probed);
	each_ms = one->elapsed_ms / one->reads;
	assert_in_range(each_ms, 10, 12);	     /* the rig's steps are of a millisecond */
	assert_in_range(one->elapsed_ms, 700, 1000); /* the first quarter does not count */
	assert_int_equal(one->bytes, one->reads * BLOCK);
	assert_in_range(rig.members[1].reads - before[1], one->reads + 10, 101);
	assert_int_equal(rig.members[0].reads, before[0]);
	assert_int_equal(rig.members[2].reads, before[2]);
	finish_proven(&rig);
}

static void
test_depth_multiplies_the_rate(void **state)
{
	struct rig rig;
	uint64_t alone;

	start(&rig, 3, 901);
	set_pace(&rig, 0, 20000);
	assert_int_equal(probe(&rig, of(0, 1, 2000)), 0);
	await(&rig);
	alone = outcome.results[0].reads;
	assert_int_equal(probe(&rig, of(0, 8, 2000)), 0);
	await(&rig);
	assert_in_range(outcome.results[0].reads, 7 * alone, 9 * alone);
	finish_proven(&rig);
}

static void
test_the_rate_is_bounded(void **state)
{
	struct rig rig;
	struct probe_order order = of(-1, 4, 2000);

	start(&rig, 3, 902);
	order.rate_max = 20 * BLOCK;
	for (int i = 0; i < 3; i++)
		set_pace(&rig, i, 100);
	assert_int_equal(probe(&rig, order), 0);
	await(&rig);
	for (int i = 0; i < 3; i++) {
		const struct probe_result *one = &outcome.results[i];

		assert_in_range(one->reads * 1000 / one->elapsed_ms, 17, 22);
	}
	finish_proven(&rig);
}

/* Nothing made the engine look at the clock since long. */
static void
test_its_time_begins_when_it_does(void **state)
{
	struct rig rig;

	start(&rig, 3, 912);
	wait_until(&rig, all_proven);
	set_pace(&rig, 0, 1000);
	assert_int_equal(probe(&rig, of(0, 1, 500)), 0);
	rig.now_ms += 5000;
	rig.schedule.now_us = rig.now_ms * 1000;
	await(&rig);
	assert_int_equal(outcome.results[0].error, 0);
	assert_in_range(outcome.results[0].reads, 150, 400);
	finish_proven(&rig);
}

/* So many reads at once that each takes seconds would hold up what initiators ask for. */
static void
test_a_slow_member_gets_fewer_at_once(void **state)
{
	struct rig rig;
	uint64_t before;

	start(&rig, 3, 903);
	wait_until(&rig, all_proven);
	set_pace(&rig, 2, 1000);
	assert_int_equal(probe(&rig, of(2, 32, 10000)), 0);
	before = rig.members[2].reads;
	rig_steps(&rig, 1000);
	assert_true(rig.members[2].reads - before > 1000); /* it began with full depth */
	set_pace(&rig, 2, 700000);
	before = rig.members[2].reads;
	await(&rig);
	assert_in_range(rig.members[2].reads - before, 32 + 10, 2 * 32 + 14);
	set_pace(&rig, 2, 1000);
	finish_proven(&rig);
}

/* That it answers many at once later than one says nothing about it: reads don't avoid it, and what
 * the others move is counted apart.
 */
static void
test_probe_and_load_do_not_count_as_each_other(void **state)
{
	struct rig rig;

	start(&rig, 4, 904);
	for (int i = 0; i < 4; i++)
		set_pace(&rig, i, 1000);
	assert_int_equal(probe(&rig, of(-1, 16, 3000)), 0);
	assert_int_equal(probe(&rig, of(-1, 16, 3000)), 0 - EBUSY);
	assert_non_null(strstr(why, "already"));
	outcome.done = false;
	while (!outcome.done) {
		if (rig.active_count < 8)
			rig_submit_random(&rig);
		rig_step(&rig);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(outcome.results[i].error, 0);
		assert_true(outcome.results[i].other_bytes > 0);
		assert_true(outcome.results[i].reads > 1000);
	}
	finish_proven(&rig);
}

static void
test_probes_do_not_make_a_member_slow(void **state)
{
	struct rig rig;

	start(&rig, 3, 905);
	wait_until(&rig, all_proven);
	set_pace(&rig, 1, 400000);
	assert_int_equal(probe(&rig, of(1, 8, 5000)), 0);
	await(&rig);
	assert_true(outcome.results[1].reads > 50);
	assert_false(rig_status(&rig).members[1].slow);
	assert_in_range(rig_status(&rig).members[1].latency_ms, 0, 40);
	set_pace(&rig, 1, 1000);
	finish_proven(&rig);
}

/* --- its end --- */

static void
test_a_hung_member_ends_it_in_time(void **state)
{
	struct rig rig;

	start(&rig, 4, 906);
	wait_until(&rig, all_proven);
	fake_member_hang(&rig.members[2]);
	assert_int_equal(probe(&rig, of(-1, 4, 500)), 0);
	assert_in_range(await(&rig), 500, 1510);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.results[2].error, -ETIMEDOUT);
	assert_true(outcome.results[2].unanswered > 0);
	assert_int_equal(outcome.results[2].reads, 0);
	for (int i = 0; i < 4; i++)
		assert_true(i == 2 ||
			    (outcome.results[i].error == 0 && outcome.results[i].reads > 0));
	fake_member_continue(&rig.members[2]);
	finish_proven(&rig);
}

static void
test_a_member_that_goes_ends_its_part(void **state)
{
	struct rig rig;

	start(&rig, 4, 907);
	set_pace(&rig, 0, 5000);
	assert_int_equal(probe(&rig, of(-1, 4, 2000)), 0);
	rig_steps(&rig, 300);
	fake_member_cut(&rig.members[0], true);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.results[0].error, -ENOTCONN);
	assert_true(outcome.results[0].reads > 0);
	assert_int_equal(outcome.results[1].error, 0);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
	finish_proven(&rig);
}

/* Its slot is free, and perhaps another's, before the probe of the others ends. */
static void
test_a_member_that_is_let_go_ends_its_part(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct probe_order order = of(-1, 4, 3000);
		struct rig rig;

		start(&rig, 4, 920);
		wait_until(&rig, all_proven);
		order.rate_max = i == 0 ? 0 : 1 << 20;
		assert_int_equal(probe(&rig, order), 0);
		rig_steps(&rig, 200);
		assert_int_equal(engine_fail(rig.engine, 1, why), 0);
		for (int step = 0; step < 1000 && engine_detach(rig.engine, 1, why) != 0; step++)
			rig_step(&rig);
		for (int step = 0; step < 1000 && rig_status(&rig).members[1].attached; step++)
			rig_step(&rig);
		assert_false(rig_status(&rig).members[1].attached);
		assert_false(outcome.done);
		await(&rig);
		assert_int_equal(outcome.error, 0);
		assert_int_equal(outcome.results[1].error, -ENOTCONN);
		assert_int_equal(outcome.results[2].error, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_a_member_that_refuses_to_read_says_so(void **state)
{
	struct rig rig;

	start(&rig, 3, 908);
	wait_until(&rig, all_proven);
	rig.members[0].refuse_reads = true;
	assert_int_equal(probe(&rig, of(0, 4, 1000)), 0);
	assert_in_range(await(&rig), 0, 100);
	assert_int_equal(outcome.results[0].error, -EIO);
	rig.members[0].refuse_reads = false;
	finish_proven(&rig);
}

static void
test_who_is_out_takes_no_part(void **state)
{
	struct rig rig;

	start(&rig, 4, 909);
	wait_until(&rig, all_proven);
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	assert_int_equal(probe(&rig, of(1, 1, 500)), -ENODEV);
	assert_int_equal(probe(&rig, of(-1, 2, 500)), 0);
	await(&rig);
	assert_false(outcome.results[1].probed);
	assert_true(outcome.results[0].reads > 0 && outcome.results[3].reads > 0);
	finish_proven(&rig);
}

static void
noted(void *owner)
{
	*(bool *)owner = true;
}

static void
test_a_stop_does_not_wait_for_it(void **state)
{
	struct rig rig;

	start(&rig, 3, 910);
	wait_until(&rig, all_proven);
	assert_int_equal(probe(&rig, of(-1, 4, 60000)), 0);
	rig_steps(&rig, 100);
	engine_stop(rig.engine, noted, &rig.stopped);
	for (int i = 0; i < 4000 && !rig.stopped; i++)
		rig_step(&rig);
	assert_true(rig.stopped);
	assert_true(outcome.done);
	assert_int_equal(outcome.error, -ESHUTDOWN);
	engine_destroy(rig.engine);
	rig.engine = NULL;
	for (int i = 0; i < 3; i++)
		assert_true(rig_superblock(&rig, i).clean);
	rig_free(&rig);
}

static void
test_what_is_out_of_range_is_refused(void **state)
{
	static const struct probe_order wrong[] = {
		{ .slot = -1, .block_bytes = 0, .depth = 1, .duration_ms = 100 },
		{ .slot = -1, .block_bytes = 4097, .depth = 1, .duration_ms = 100 },
		{ .slot = -1, .block_bytes = 2u << 20, .depth = 1, .duration_ms = 100 },
		{ .slot = -1, .block_bytes = 4096, .depth = 0, .duration_ms = 100 },
		{ .slot = -1,
		  .block_bytes = 4096,
		  .depth = PROBE_DEPTH_MAX + 1,
		  .duration_ms = 100 },
		{ .slot = -1, .block_bytes = 4096, .depth = 1, .duration_ms = 0 },
		{ .slot = -1, .block_bytes = 4096, .depth = 1, .duration_ms = PROBE_MS_MAX + 1 },
		{ .slot = SLOTS_MAX, .block_bytes = 4096, .depth = 1, .duration_ms = 100 },
	};
	struct rig rig;

	start(&rig, 3, 911);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(probe(&rig, wrong[i]), -EINVAL);
	rig_steps(&rig, 10);
	assert_false(outcome.done);
	finish_proven(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_probe_asks_for_each_turn_that_it_needs),
		cmocka_unit_test(test_reads_one_after_the_other_take_what_the_member_takes),
		cmocka_unit_test(test_depth_multiplies_the_rate),
		cmocka_unit_test(test_the_rate_is_bounded),
		cmocka_unit_test(test_its_time_begins_when_it_does),
		cmocka_unit_test(test_a_slow_member_gets_fewer_at_once),
		cmocka_unit_test(test_probe_and_load_do_not_count_as_each_other),
		cmocka_unit_test(test_probes_do_not_make_a_member_slow),
		cmocka_unit_test(test_a_hung_member_ends_it_in_time),
		cmocka_unit_test(test_a_member_that_goes_ends_its_part),
		cmocka_unit_test(test_a_member_that_is_let_go_ends_its_part),
		cmocka_unit_test(test_a_member_that_refuses_to_read_says_so),
		cmocka_unit_test(test_who_is_out_takes_no_part),
		cmocka_unit_test(test_a_stop_does_not_wait_for_it),
		cmocka_unit_test(test_what_is_out_of_range_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
