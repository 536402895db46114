/* test_engine_grow.c - members become larger, and the volume with them, while it runs: one scenario
 * each, on fake members.  The simulator draws growth at random; these say by name what is promised.
 */
#include "scenario.h"

#define CHUNK 16384u
#define LOAD_BYTES (2ull << 20)

static char why[256];

/* What done() said. */
static struct outcome {
	bool done;
	int error;
	char text[256];
} outcome;

static void
grown(void *owner, int error, const char *text)
{
	outcome.done = true;
	outcome.error = error;
	strncpy(outcome.text, text, sizeof(outcome.text) - 1);
}

static void
begin(struct rig *rig)
{
	outcome = (struct outcome){ .done = false };
	assert_int_equal(engine_grow(rig->engine, grown, NULL, why), 0);
}

static void
await(struct rig *rig)
{
	for (int i = 0; i < 4000 && !outcome.done; i++)
		rig_step(rig);
	assert_true(outcome.done);
}

static void
grow(struct rig *rig, uint64_t member_bytes)
{
	rig_extend_members(rig, member_bytes);
	begin(rig);
	await(rig);
	assert_int_equal(outcome.error, 0);
}

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, CHUNK, LOAD_BYTES, seed);
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 4000));
}

static void
load(struct rig *rig, int requests)
{
	while (requests-- > 0) {
		while (rig->active_count >= 8)
			rig_step(rig);
		rig_submit_random(rig);
		rig_step(rig);
	}
}

static uint64_t
size(struct rig *rig)
{
	return rig_status(rig).size_bytes;
}

/* --- it grows --- */

static const struct {
	int level, count;
} shapes[] = { { 0, 3 }, { 1, 2 }, { 5, 4 }, { 6, 5 }, { 10, 3 }, { 10, 4 } };

/* Twice, the first time to an end in the middle of a region; all of it is used, and is there after
 * a crash.
 */
static void
test_volume_grows_under_load_and_stays_so(void **state)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct rig rig;
		uint64_t before;

		start(&rig, shapes[i].level, shapes[i].count, 800 + i);
		before = size(&rig);
		load(&rig, 50);
		rig_extend_members(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
		begin(&rig);
		load(&rig, 50);
		await(&rig);
		assert_int_equal(outcome.error, 0);
		assert_true(size(&rig) > before);
		before = size(&rig);
		rig_extend_load(&rig, before);
		load(&rig, 200);
		rig_submit(&rig, REQUEST_WRITE, rig.sectors - 8, 8, true); /* the very end */
		rig_drain(&rig);
		grow(&rig, RIG_MEMBER_BYTES + (2 << 20) + 3 * CHUNK);
		assert_true(size(&rig) > before);
		before = size(&rig);
		rig_extend_load(&rig, before);
		load(&rig, 200);
		rig_crash(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
		assert_int_equal(size(&rig), before);
		load(&rig, 100);
		finish_proven(&rig);
	}
}

static bool
log_is_open(struct rig *rig)
{
	return rig_status(rig).log.open;
}

/* What it says of rows is of the size before: it is closed, and opens again. */
static void
test_volume_with_an_open_write_log_grows(void **state)
{
	for (int level = 5; level <= 6; level++) {
		struct rig rig;
		uint64_t before;

		rig_init(&rig, level, level, CHUNK, LOAD_BYTES, 818);
		rig.options.log = LOG_MODE_ALWAYS;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		load(&rig, 100);
		wait_until(&rig, log_is_open);
		before = size(&rig);
		rig_extend_members(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
		begin(&rig);
		load(&rig, 50);
		await(&rig);
		assert_string_equal(outcome.text, "");
		assert_int_equal(outcome.error, 0);
		assert_true(size(&rig) > before);
		rig_extend_load(&rig, size(&rig));
		load(&rig, 100);
		wait_until(&rig, log_is_open);
		rig_submit(&rig, REQUEST_WRITE, rig.sectors - 8, 8, true);
		load(&rig, 100);
		rig_crash(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
		load(&rig, 100);
		finish_proven(&rig);
	}
}

static enum tap_verdict
hold_long_flushes(struct tap *tap, const struct backend_io *io)
{
	return io->op == BACKEND_FLUSH ? TAP_HOLD : TAP_PASS;
}

static bool
has_ended(struct rig *rig)
{
	return outcome.done;
}

/* A member takes its time to flush: nothing has changed, and the volume goes on with its log. */
static void
test_a_write_log_that_does_not_close_keeps_the_volume_from_growing(void **state)
{
	struct rig rig;
	struct tap tap;
	uint64_t before;

	(void)state;
	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 819);
	rig.options.log = LOG_MODE_ALWAYS;
	rig.options.give_up_ms = 120000;
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	wait_until(&rig, log_is_open);
	before = size(&rig);
	rig_extend_members(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	tap.judge = hold_long_flushes;
	begin(&rig);
	wait_until(&rig, has_ended);
	assert_int_equal(outcome.error, -EBUSY);
	assert_non_null(strstr(outcome.text, "write log can't be closed"));
	assert_int_equal(size(&rig), before);
	tap.judge = NULL;
	tap_let_go(&tap);
	load(&rig, 50);
	wait_until(&rig, log_is_open);
	finish_proven(&rig);
}

static void
test_volume_uses_all_that_members_have(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 810);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	assert_int_equal(size(&rig), 3 * ((12u << 20) + 11 * CHUNK));
	assert_int_equal(rig_superblock(&rig, 2).member_bytes, RIG_MEMBER_BYTES + 11 * CHUNK);
	finish_proven(&rig);
}

/* Members had rubbish where the volume ends now, and nobody has written there. */
static void
test_new_rows_fit_when_a_member_is_lost(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 811);

	wait_until(&rig, all_proven);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	grow(&rig, RIG_MEMBER_BYTES + 70 * CHUNK);
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_extend_load(&rig, size(&rig));
	load(&rig, 200);
	rig_drain(&rig);
	fake_member_cut(&rig.members[1], false);
	load(&rig, 200);
	rig_drain(&rig);
	rig_verify(&rig);
	rig.members[1].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
	finish_proven(&rig);
}

/* Spares are measured too: what one was when it was marked does not count. */
static void
test_a_spare_that_grew_with_the_members_will_do(void **state)
{
	for (int enlarged = 0; enlarged < 2; enlarged++) {
		struct rig rig;
		int slot;

		start(&rig, 5, 4, 812);
		rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
		slot = engine_attach(rig.engine, &rig.members[4].backend, why);
		assert_true(slot >= 0);
		for (int i = 0; i < 2000 && rig_status(&rig).members[slot].state != MEMBER_SPARE;
		     i++)
			rig_step(&rig);
		wait_until(&rig, all_proven);
		rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
		if (enlarged)
			rig.members[4].capacity_bytes = RIG_MEMBER_BYTES_MAX;
		begin(&rig);
		await(&rig);
		assert_int_equal(outcome.error, 0);
		assert_int_equal(engine_replace(rig.engine, 0, slot, why), enlarged ? 0 : -EINVAL);
		for (int i = 0; i < 20000 && enlarged &&
				rig_status(&rig).members[slot].state != MEMBER_IN_SYNC;
		     i++)
			rig_step(&rig);
		if (enlarged)
			assert_int_equal(rig_status(&rig).members[slot].state, MEMBER_IN_SYNC);
		rig_extend_load(&rig, size(&rig));
		load(&rig, 100);
		rig_drain(&rig);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
		fake_member_free(&rig.members[4]);
	}
}

/* It was being filled when the gateway stopped, and was away when the volume grew beyond it. */
static void
test_a_replacement_that_has_become_too_small_is_not_filled(void **state)
{
	struct rig rig;
	int slot;

	(void)state;
	start(&rig, 5, 4, 813);
	wait_until(&rig, all_proven);
	rig_mark_spare(&rig, 4, RIG_MEMBER_BYTES);
	slot = engine_attach(rig.engine, &rig.members[4].backend, why);
	for (int i = 0; i < 2000 && rig_status(&rig).members[slot].state != MEMBER_SPARE; i++)
		rig_step(&rig);
	engine_set_rates(rig.engine, 1, 1);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	rig_steps(&rig, 500);
	assert_int_equal(rig_status(&rig).rebuild_slot, slot);
	rig_stop(&rig);
	rig.count = 5;
	rig.members[4].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	rig.members[4].capacity_bytes = RIG_MEMBER_BYTES;
	begin(&rig);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	rig.members[4].reachable = true;
	for (int i = 0; i < 20000; i++) {
		rig_step(&rig);
		assert_int_equal(rig_status(&rig).rebuild_slot, -1);
	}
	assert_int_equal(rig_status(&rig).members[4].link, LINK_OPEN);
	rig_stop(&rig);
	rig_free(&rig);
}

/* --- it does not --- */

static void
test_the_smallest_member_counts(void **state)
{
	struct rig rig;
	uint64_t before;

	start(&rig, 5, 4, 820);
	wait_until(&rig, all_proven);
	before = size(&rig);
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	rig.members[2].capacity_bytes = RIG_MEMBER_BYTES;
	begin(&rig);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	assert_non_null(strstr(outcome.text, "m2"));
	assert_int_equal(size(&rig), before);
	rig.members[2].capacity_bytes = 3 << 20; /* less than where its data begins */
	begin(&rig);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(size(&rig), before);
	rig.members[2].capacity_bytes = RIG_MEMBER_BYTES;
	finish_proven(&rig);
}

static void
assert_refused(struct rig *rig, int error)
{
	assert_int_equal(engine_grow(rig->engine, grown, NULL, why), error);
	assert_true(why[0] != '\0');
}

static void
test_growing_is_refused_unless_all_members_are_there(void **state)
{
	struct rig rig;
	uint64_t before;

	rig_init(&rig, 5, 4, CHUNK, LOAD_BYTES, 821);
	rig_start(&rig);
	assert_refused(&rig, -EAGAIN);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
	before = size(&rig);
	wait_until(&rig, all_proven);
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	begin(&rig);
	assert_refused(&rig, -EBUSY);
	await(&rig);
	assert_true(size(&rig) > before);
	before = size(&rig);
	fake_member_cut(&rig.members[0], false);
	rig_steps(&rig, 20);
	assert_refused(&rig, -EBUSY); /* silent */
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	assert_refused(&rig, -EBUSY);
	load(&rig, 100);
	rig.members[0].reachable = true;
	engine_set_rates(rig.engine, 1 << 16, 1 << 16);
	for (int i = 0; i < 8000 && rig_status(&rig).rebuild_slot < 0; i++)
		rig_step(&rig);
	assert_int_equal(rig_status(&rig).rebuild_slot, 0);
	assert_refused(&rig, -EBUSY); /* being filled */
	engine_set_rates(rig.engine, 1 << 26, 1 << 30);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
	assert_int_equal(size(&rig), before);
	finish_proven(&rig);
}

/* --- members and gateways that fail meanwhile --- */

/* At any moment: it ends in one of the two ways, and the volume is what that says. */
static void
test_member_may_be_lost_at_any_step_of_growing(void **state)
{
	int failed = 0, carried_through = 0;

	for (int steps = 0; steps < 24; steps++) {
		struct rig rig;
		uint64_t before;

		start(&rig, 5, 4, 830);
		grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
		wait_until(&rig, all_proven);
		before = size(&rig);
		load(&rig, 20);
		rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
		begin(&rig);
		rig_steps(&rig, steps);
		if (steps % 2 == 0)
			fake_member_hang(&rig.members[3]);
		else
			fake_member_cut(&rig.members[3], false);
		await(&rig);
		if (outcome.error != 0) {
			assert_true(outcome.text[0] != '\0');
			assert_int_equal(size(&rig), before);
			failed++;
		} else {
			assert_true(size(&rig) > before);
			carried_through++;
		}
		rig_extend_load(&rig, size(&rig));
		load(&rig, 60);
		fake_member_continue(&rig.members[3]);
		rig.members[3].reachable = true;
		rig_drain(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
		if (outcome.error != 0) {
			begin(&rig);
			await(&rig);
			assert_int_equal(outcome.error, 0);
			assert_true(size(&rig) > before);
		}
		finish_proven(&rig);
	}
	assert_true(failed > 0 && carried_through > 0);
}

static void
crash_at(int level, int count, int steps, bool without_one, int *old, int *new)
{
	struct rig rig;
	uint64_t before;

	start(&rig, level, count, 840 + (uint64_t)level);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	wait_until(&rig, all_proven);
	before = size(&rig);
	load(&rig, 20);
	rig_drain(&rig);
	/* What is dirty when a gateway dies and a member stays away can't be known; but that is not
	 * growth's doing.
	 */
	for (int i = 0; i < 10000 && rig_status(&rig).regions_dirty > 0; i++)
		rig_step(&rig);
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	rig_steps(&rig, 50); /* the map is written */
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	begin(&rig);
	rig_steps(&rig, steps);
	rig_crash(&rig);
	rig.members[count - 1].reachable = !without_one;
	rig_start(&rig);
	assert_true(rig_wait(&rig, without_one ? VOLUME_DEGRADED : VOLUME_ACTIVE, 4000));
	assert_true(!outcome.done || outcome.error != 0 || size(&rig) > before);
	++*(size(&rig) > before ? new : old);
	rig_extend_load(&rig, size(&rig));
	load(&rig, 60);
	rig_drain(&rig);
	rig.members[count - 1].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
	finish_proven(&rig);
}

static void
test_crash_at_any_step_leaves_the_old_size_or_the_new_one(void **state)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		int old = 0, new = 0;

		for (int steps = 0; steps < 24; steps++)
			crash_at(shapes[i].level, shapes[i].count, steps,
				 shapes[i].level != 0 && steps % 3 == 0, &old, &new);
		assert_true(old > 0 && new > 0);
	}
}

/* Whoever waits for it is told, whenever the volume is stopped. */
static void
test_stop_at_any_step_is_told_to_who_waits(void **state)
{
	for (int steps = 0; steps < 16; steps++) {
		struct rig rig;

		start(&rig, 5, 4, 850);
		rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX - CHUNK);
		begin(&rig);
		rig_steps(&rig, steps);
		rig_stop(&rig);
		assert_true(outcome.done);
		assert_true(outcome.error == 0 || outcome.error == -ESHUTDOWN);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
		finish_proven(&rig);
	}
}

static uint32_t regions_before;

static bool
is_marking(struct rig *rig)
{
	return rig_status(rig).regions > regions_before;
}

static bool
scrub_is_at_the_last_rows(struct rig *rig)
{
	return rig_status(rig).scrub.done_rows + 8 >= rig_status(rig).scrub.total_rows;
}

/* It waits while the volume grows, and has the last region before it, whose new rows are padded
 * already.
 */
static void
test_a_scrub_keeps_to_the_rows_on_record_when_growing_is_given_up(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 851);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	wait_until(&rig, all_proven);
	set_pace_of_all(&rig, 5000);
	rig.step_ms_max = 1;
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	wait_until(&rig, scrub_is_at_the_last_rows);
	assert_true(rig_status(&rig).scrub_active);
	regions_before = rig_status(&rig).regions;
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	begin(&rig);
	wait_until(&rig, is_marking);
	assert_false(outcome.done);
	rig_stop(&rig);
	assert_int_equal(outcome.error, -ESHUTDOWN);
	/* the next four are not all old */
	assert_int_equal(rig_superblock(&rig, 0).scrub_row, 776);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_status(&rig).scrub_mismatches, 0);
	finish_proven(&rig);
}

/* A device that was put back as it was before does not take the volume down with it. */
static void
test_member_that_shrinks_again_stays_out(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 860);
	wait_until(&rig, all_proven);
	grow(&rig, RIG_MEMBER_BYTES_MAX);
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	rig.members[1].capacity_bytes = RIG_MEMBER_BYTES;
	rig.members[1].reachable = true;
	rig_steps(&rig, 8000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	rig.members[1].capacity_bytes = RIG_MEMBER_BYTES_MAX;
	fake_member_cut(&rig.members[1], true);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 40000));
	finish_proven(&rig);
}

static uint64_t old_bytes;

/* The first member is not told of the new size; the other one does not record that the first goes.
 */
static enum tap_verdict
hold_new_size(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;
	const bool first = tap->owner != NULL;

	if (!tap_superblock(io, block) ||
	    superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK)
		return TAP_PASS;
	return (first ? superblock.data_bytes > old_bytes
		      : superblock.member_states[0] != MEMBER_IN_SYNC)
		       ? TAP_HOLD
		       : TAP_PASS;
}

static void
hold(struct tap *tap, struct fake_member *member, void *owner)
{
	tap_init(tap, member);
	tap->judge = hold_new_size;
	tap->owner = owner;
}

static void
release(struct tap *tap)
{
	tap->judge = NULL;
	tap_let_go(tap);
}

/* While it was on its way out the others' superblocks were enough.  It stays, and alone it would
 * not know of the new rows.
 */
static void
test_member_that_was_to_go_and_stays_knows_before_new_rows_are_used(void **state)
{
	struct tap taps[2];
	struct rig rig;

	rig_init(&rig, 1, 2, CHUNK, LOAD_BYTES, 870);
	set_caches(&rig, false);
	rig.step_ms_max = 2;
	hold(&taps[0], &rig.members[0], &rig);
	hold(&taps[1], &rig.members[1], NULL);
	old_bytes = UINT64_MAX;
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	old_bytes = rig_superblock(&rig, 0).data_bytes;
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	begin(&rig);
	for (int i = 0; i < 4000 && taps[0].held_count == 0; i++)
		rig_step(&rig);
	fake_member_cut(&rig.members[0], false);
	for (int i = 0; i < 4000 && taps[1].held_count == 0; i++)
		rig_step(&rig);
	assert_int_not_equal(taps[1].held_count, 0);
	rig.members[0].reachable = true;
	wait_for_state(&rig, 0, MEMBER_IN_SYNC);
	rig_steps(&rig, 100);
	assert_false(outcome.done);
	release(&taps[1]);
	for (int i = 0; i < 4000 && taps[0].held_count == 0; i++)
		rig_step(&rig);
	rig_steps(&rig, 100);
	assert_false(outcome.done);
	release(&taps[0]);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	assert_true(rig_superblock(&rig, 0).data_bytes > old_bytes);
	finish_proven(&rig);
}

/* Its superblock is the one that the growth did not reach, and fits it; the device has lost what it
 * had gained.
 */
static void
test_volume_starts_without_a_member_that_is_too_small_for_what_it_has_grown_to(void **state)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock before, now;
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 62);
	before = rig_superblock(&rig, 3);
	grow(&rig, RIG_MEMBER_BYTES + 11 * CHUNK);
	rig_steps(&rig, 4000);
	rig_stop(&rig);
	now = rig_superblock(&rig, 3);
	memcpy(now.areas, before.areas, sizeof(now.areas));
	now.data_bytes = before.data_bytes;
	now.member_bytes = before.member_bytes;
	for (int copy = 0; copy < 2; copy++, now.write_count++) {
		superblock_encode(&now, block);
		disk_write(&rig.members[3].disk, superblock_offset(now.write_count), block,
			   sizeof(block), true);
	}
	rig.members[3].capacity_bytes = now.member_bytes;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	load(&rig, 50);
	rig_crash(&rig);
	rig_free(&rig);
}

/* More bytes than a superblock can name: they are of no use, and nobody's end. */
static void
test_a_member_of_any_size_is_put_on_record(void **state)
{
	struct rig rig;

	start(&rig, 5, 4, 90);
	rig_extend_members(&rig, RIG_MEMBER_BYTES_MAX);
	rig.members[1].capacity_bytes = UINT64_MAX / 512 * 512;
	begin(&rig);
	await(&rig);
	assert_int_equal(outcome.error, 0);
	assert_true(rig_superblock(&rig, 1).member_bytes == INT64_MAX);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_volume_starts_without_a_member_that_is_too_small_for_what_it_has_grown_to),
		cmocka_unit_test(test_volume_grows_under_load_and_stays_so),
		cmocka_unit_test(test_volume_with_an_open_write_log_grows),
		cmocka_unit_test(
			test_a_write_log_that_does_not_close_keeps_the_volume_from_growing),
		cmocka_unit_test(test_volume_uses_all_that_members_have),
		cmocka_unit_test(test_new_rows_fit_when_a_member_is_lost),
		cmocka_unit_test(test_a_spare_that_grew_with_the_members_will_do),
		cmocka_unit_test(test_a_replacement_that_has_become_too_small_is_not_filled),
		cmocka_unit_test(test_the_smallest_member_counts),
		cmocka_unit_test(test_growing_is_refused_unless_all_members_are_there),
		cmocka_unit_test(test_member_may_be_lost_at_any_step_of_growing),
		cmocka_unit_test(test_crash_at_any_step_leaves_the_old_size_or_the_new_one),
		cmocka_unit_test(test_stop_at_any_step_is_told_to_who_waits),
		cmocka_unit_test(test_a_scrub_keeps_to_the_rows_on_record_when_growing_is_given_up),
		cmocka_unit_test(test_member_that_shrinks_again_stays_out),
		cmocka_unit_test(test_a_member_of_any_size_is_put_on_record),
		cmocka_unit_test(
			test_member_that_was_to_go_and_stays_knows_before_new_rows_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
