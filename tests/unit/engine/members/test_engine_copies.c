/* test_engine_copies.c - who is who of a member and a copy of it, whichever answers first
 * (docs/design/members.md).
 */
#include "identity.h"

/* --- two that are one --- */

static void
copy_to_extra(struct rig *rig, int index)
{
	rig_mark_spare(rig, EXTRA, RIG_MEMBER_BYTES);
	put_back(rig, EXTRA, snapshot(rig, index));
}

/* The copy, refused beside member 1, lacks what was written since, and its superblock does not. */
static void
start_beside_copy(struct rig *rig, uint64_t seed)
{
	start(rig, 5, seed);
	write_all(rig);
	copy_to_extra(rig, 1);
	assert_int_equal(attach(rig, EXTRA), EXTRA);
	write_all(rig);
	rig->members[EXTRA].written = false;
}

/* The same copy, but it comes when member 1 has gone.  back: that one is back, too. */
static void
start_without_either(struct rig *rig, uint64_t seed, bool back)
{
	start(rig, 5, seed);
	write_all(rig);
	copy_to_extra(rig, 1);
	write_all(rig);
	fake_member_cut(&rig->members[1], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig->members[EXTRA].written = false;
	assert_int_equal(attach(rig, EXTRA), EXTRA);
	rig->members[1].reachable = back;
	rig_steps(rig, 20000);
	assert_int_equal(rig_status(rig).state, VOLUME_DEGRADED);
	assert_true(says(rig, EXTRA, "m1") && !rig->members[EXTRA].written);
}

/* lost: the newer copy of the member's superblock can't be read, that of its twin can. */
static void
believe_neither(bool lost)
{
	struct rig rig;

	start(&rig, 5, 18);
	write_all(&rig);
	rig_stop(&rig);
	copy_to_extra(&rig, 1);
	if (lost)
		damage_copy(&rig, 1);
	rig.count = EXTRA + 1;
	rig.members[0].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 300); /* both are known when the last one comes */
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_true(says(&rig, 1, "remove") && says(&rig, EXTRA, "remove"));
	assert_int_equal(engine_detach(rig.engine, 1, why), 0); /* whichever it is */
	wait_for_active(&rig);
	assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
	finish(&rig);
}

static void
test_of_two_equal_devices_neither_is_believed(void **state)
{
	believe_neither(false);
}

static void
test_of_two_devices_the_one_that_lost_a_copy_need_not_be_the_older(void **state)
{
	believe_neither(true);
}

/* An administrator takes out who is on its way out, and it answers again before that is on record,
 * beside a copy of it.
 */
static void
test_who_is_taken_out_on_its_way_out_stays_who_it_is_until_then(void **state)
{
	struct rig rig;
	struct tap tap;

	start(&rig, 5, 21);
	rig_stop(&rig);
	tap_init(&tap, &rig.members[0]);
	rig_start_active(&rig);
	copy_to_extra(&rig, 1);
	assert_int_equal(attach(&rig, EXTRA), EXTRA);
	tap.judge = tap_hold_superblocks;
	fake_member_cut(&rig.members[1], false);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_int_equal(tap.held_count, 1);
	assert_int_equal(engine_fail(rig.engine, 1, why), 0);
	rig.members[1].reachable = true;
	rig_steps(&rig, 500);
	assert_int_equal(rig_status(&rig).members[1].role, 1);
	assert_int_equal(engine_detach(rig.engine, EXTRA, why), 0);
	tap.judge = NULL;
	tap_let_go(&tap);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	write_all(&rig);
	rig_steps(&rig, 5000);
	assert_int_equal(engine_readmit(rig.engine, 1, why), 0);
	wait_for_active(&rig);
	finish(&rig);
}

static void
test_older_of_two_is_a_copy(void **state)
{
	struct rig rig;

	start(&rig, 5, 19);
	write_all(&rig);
	copy_to_extra(&rig, 1);
	change_superblocks(&rig);
	/* Under a running volume: the member is in sync, so this is not it. */
	assert_int_equal(attach(&rig, EXTRA), EXTRA);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	assert_true(says(&rig, EXTRA, "m1"));
	write_all(&rig);
	rig_stop(&rig);
	rig.count = EXTRA + 1;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	assert_true(says(&rig, EXTRA, "m1"));
	finish(&rig);
}

/* --- a copy that answers before the member --- */

/* The copy has what the member had before the latest writes, and the same superblocks. */
static void
crash_with_copy(struct holding *holding, uint64_t seed)
{
	struct rig *rig = &holding->rig;

	begin_written(holding, seed);
	copy_to_extra(rig, 1);
	write_all(rig);
	crash(holding);
	assert_int_equal(rig_superblock(rig, 1).write_count,
			 rig_superblock(rig, EXTRA).write_count);
	holding->looks = 1u << 1;
	rig->count = EXTRA + 1;
}

static void
answer_looks(struct holding *holding, int m)
{
	holding->looks = 0;
	tap_let_go(&holding->taps[m]);
}

static void
neither_until_one_is_removed(struct rig *rig)
{
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 3000);
	assert_int_equal(rig_status(rig).state, VOLUME_DEGRADED);
	assert_true(says(rig, 1, "remove") && says(rig, EXTRA, "remove"));
	assert_int_equal(engine_detach(rig->engine, EXTRA, why), 0);
	wait_for_active(rig);
	assert_int_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
	finish(rig);
}

/* The member goes before the start has heard of all. */
static void
test_copy_is_known_though_its_member_has_gone_again(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	crash_with_copy(&holding, 47);
	holding.looks = 1u << 0;
	rig_start(rig);
	rig_steps(rig, 150);
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	fake_member_cut(&rig->members[1], false);
	rig_steps(rig, 20);
	answer_looks(&holding, 0);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 8000));
	assert_false(rig->members[EXTRA].written);
	rig->members[1].reachable = true;
	neither_until_one_is_removed(rig);
}

static void
test_copy_that_answers_first_is_not_taken_for_the_member(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	crash_with_copy(&holding, 41);
	rig_start(rig);
	rig_steps(rig, 150);
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	answer_looks(&holding, 1);
	neither_until_one_is_removed(rig);
}

/* Not even then, if it comes while nothing was written yet. */
static void
test_copy_is_known_while_the_maps_are_read(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	crash_with_copy(&holding, 42);
	holding.map_reads = 1u << 0;
	rig_start(rig);
	rig_steps(rig, 400); /* longer than it is waited for */
	assert_int_equal(holding.taps[0].held_count, 1);
	answer_looks(&holding, 1);
	rig_steps(rig, 50);
	let_go(&holding);
	neither_until_one_is_removed(rig);
}

static void
test_device_that_says_nothing_holds_up_a_start_no_longer_than_a_member(void **state)
{
	for (int refuses = 0; refuses < 2; refuses++) {
		struct holding holding;
		struct rig *rig = &holding.rig;

		begin_written(&holding, 43);
		rig_stop(rig);
		rig_mark_spare(rig, EXTRA, RIG_MEMBER_BYTES);
		tap_init(&holding.taps[EXTRA], &rig->members[EXTRA]);
		holding.taps[EXTRA].judge = hold;
		holding.taps[EXTRA].owner = &holding;
		holding.looks = 1u << EXTRA;
		rig->members[EXTRA].reachable = !refuses;
		rig->count = EXTRA + 1;
		rig_start(rig);
		rig_steps(rig, 100);
		assert_int_equal(rig_status(rig).state,
				 refuses ? VOLUME_ACTIVE : VOLUME_ASSEMBLING);
		assert_true(rig_wait(rig, VOLUME_ACTIVE, 200));
		answer_looks(&holding, EXTRA);
		rig_steps(rig, 100);
		finish(rig);
	}
}

static void
test_copy_in_use_goes_when_the_member_shows_more(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;
	struct superblock superblock;

	begin_written(&holding, 44);
	copy_to_extra(rig, 1);
	crash(&holding);
	superblock = rig_superblock(rig, 1); /* an update that reached nobody else */
	advance_superblock(rig, 1, superblock.epoch, superblock.event + 1);
	holding.looks = 1u << 1;
	rig->count = EXTRA + 1;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 1000));
	rig_steps(rig, 500);
	answer_looks(&holding, 1);
	neither_until_one_is_removed(rig);
}

/* The copy is taken, with member 3 away, and its superblock is written while member 2 refuses its
 * own; then member 3 is back, and the assembly begins again.  reread: in new sessions, so the
 * superblocks of before are forgotten.
 */
static void
begin_again_with_copy(struct holding *holding, bool reread)
{
	struct rig *rig = &holding->rig;
	const uint64_t found = rig_superblock(rig, EXTRA).write_count;

	rig->members[3].reachable = false;
	rig->members[2].refuse_writes = true;
	rig_start(rig);
	for (int i = 0; i < 8000 && rig_superblock(rig, EXTRA).write_count <= found + 1; i++)
		rig_step(rig);
	assert_true(rig_superblock(rig, EXTRA).write_count > found + 1);
	if (reread) {
		fake_member_cut(&rig->members[0], true);
		fake_member_cut(&rig->members[EXTRA], true);
		rig_steps(rig, 500);
	}
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
}

static void
test_copy_that_an_assembly_wrote_to_is_no_newer_for_that(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	crash_with_copy(&holding, 48);
	begin_again_with_copy(&holding, false);
	answer_looks(&holding, 1);
	rig->members[3].reachable = true;
	rig_steps(rig, 1000);
	rig->members[2].refuse_writes = false;
	neither_until_one_is_removed(rig);
}

/* Those that were written say already that member 3 is out, so the others do not suffice: better
 * than what the copy lacks.
 */
static void
test_copy_that_an_assembly_wrote_to_and_read_again_is_no_newer(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	crash_with_copy(&holding, 50);
	begin_again_with_copy(&holding, true);
	answer_looks(&holding, 1);
	rig->members[3].reachable = true;
	rig_steps(rig, 1000);
	rig->members[2].refuse_writes = false;
	rig_steps(rig, 3000);
	assert_int_equal(rig_status(rig).state, VOLUME_FAILED);
	rig_stop(rig);
	rig_free(rig);
}

static void
test_copy_that_two_assemblies_took_goes_when_the_member_shows_more(void **state)
{
	for (int reread = 0; reread < 2; reread++) {
		struct holding holding;
		struct rig *rig = &holding.rig;
		struct superblock superblock;

		begin_written(&holding, 49);
		copy_to_extra(rig, 1);
		crash(&holding);
		superblock = rig_superblock(rig, 1); /* an update that reached nobody else */
		advance_superblock(rig, 1, superblock.epoch, superblock.event + 1);
		holding.looks = 1u << 1;
		rig->count = EXTRA + 1;
		begin_again_with_copy(&holding, reread);
		rig->members[3].reachable = true;
		rig_steps(rig, 1000);
		rig->members[2].refuse_writes = false;
		assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
		rig_steps(rig, 500);
		answer_looks(&holding, 1);
		neither_until_one_is_removed(rig);
	}
}

/* Another one is away when that is found out, and needs the copy to be there: not a moment longer,
 * and nothing is read of it.
 */
static void
test_copy_in_use_goes_as_soon_as_the_others_can_do_without_it(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;
	struct superblock superblock;

	begin_written(&holding, 47);
	copy_to_extra(rig, 1);
	crash(&holding);
	superblock = rig_superblock(rig, 1);
	advance_superblock(rig, 1, superblock.epoch, superblock.event + 1);
	holding.looks = 1u << 1;
	rig->count = EXTRA + 1;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 1000));
	rig_steps(rig, 500);
	fake_member_cut(&rig->members[2], false);
	answer_looks(&holding, 1);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 1000));
	rig_steps(rig, 200);
	assert_int_equal(rig_status(rig).state, VOLUME_SUSPENDED);
	rig->members[2].reachable = true;
	neither_until_one_is_removed(rig);
}

/* As it was at the start, or as it is now. */
static void
test_copy_that_comes_while_the_volume_runs_does_no_harm(void **state)
{
	for (int later = 0; later < 2; later++) {
		struct rig rig;
		uint8_t *before;

		start(&rig, 5, 45);
		write_all(&rig);
		rig_stop(&rig);
		before = snapshot(&rig, 1);
		rig_start_active(&rig);
		write_all(&rig);
		if (later)
			change_superblocks(&rig);
		rig_mark_spare(&rig, EXTRA, RIG_MEMBER_BYTES);
		put_back(&rig, EXTRA, later ? snapshot(&rig, 1) : before);
		if (later)
			free(before);
		rig.members[EXTRA].written = false;
		assert_int_equal(attach(&rig, EXTRA), EXTRA);
		write_all(&rig);
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
		assert_true(says(&rig, EXTRA, "m1") && !rig.members[EXTRA].written);
		finish(&rig);
	}
}

static void
test_copy_that_is_back_before_its_member_is_not_taken(void **state)
{
	struct rig rig;

	start_beside_copy(&rig, 46);
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[EXTRA], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig.members[EXTRA].reachable = true;
	rig_steps(&rig, 20000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_true(says(&rig, EXTRA, "m1") && !rig.members[EXTRA].written);
	rig.members[1].reachable = true;
	rig_steps(&rig, 20000);
	assert_int_equal(engine_detach(rig.engine, EXTRA, why), 0);
	wait_for_active(&rig);
	finish(&rig);
}

/* It was evicted for what it is now: smaller, or without a superblock.  The copy lacks what was
 * written while it was one of two.
 */
static void
test_copy_is_not_taken_while_its_member_can_not_be_used(void **state)
{
	for (int smaller = 0; smaller < 2; smaller++) {
		struct rig rig;

		start_beside_copy(&rig, 48);
		if (smaller) {
			rig.members[1].capacity_bytes = 5u << 20;
		} else {
			disk_damage(&rig.members[1].disk, LAYOUT_SUPERBLOCK_A_OFFSET);
			disk_damage(&rig.members[1].disk, LAYOUT_SUPERBLOCK_B_OFFSET);
		}
		fake_member_cut(&rig.members[1], true);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_steps(&rig, 3000);
		fake_member_cut(&rig.members[EXTRA], true);
		rig_steps(&rig, 20000);
		assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
		assert_true(says(&rig, EXTRA, "m1") && !rig.members[EXTRA].written);
		/* It is filled from the start when the other one is removed. */
		assert_int_equal(engine_detach(rig.engine, 1, why), 0);
		wait_for_active(&rig);
		assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
		finish(&rig);
	}
}

/* What answers at its address is a member of another volume. */
static void
become_anothers(struct rig *rig, int index)
{
	struct superblock superblock = rig_superblock(rig, index);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	memset(superblock.volume_uuid, 0x99, 16);
	for (int role = 0; role < superblock.member_count; role++)
		memset(superblock.member_uuids[role], 0x70 + role, 16);
	memcpy(superblock.member_uuid, superblock.member_uuids[superblock.role], 16);
	superblock_encode(&superblock, block);
	write_both(&rig->members[index], block);
}

static void
wait_until_it_says(struct rig *rig, int slot, const char *text)
{
	for (int i = 0; i < 30000 && !says(rig, slot, text); i++) {
		rig_step(rig);
		rig_jump(rig);
	}
	assert_true(says(rig, slot, text));
}

/* The copy was refused beside the member, which was evicted since; then nobody is there who has its
 * UUID.
 */
static void
test_copy_that_was_refused_is_filled_from_the_start_whoever_answers_for_its_member(void **state)
{
	for (int removed = 0; removed < 2; removed++) {
		struct rig rig;

		start_beside_copy(&rig, 49);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		become_anothers(&rig, 1);
		rig.members[1].reachable = true;
		wait_until_it_says(&rig, 1, "another volume");
		if (removed)
			assert_int_equal(engine_detach(rig.engine, 1, why), 0);
		fake_member_cut(&rig.members[EXTRA], true);
		wait_for_active(&rig);
		assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_parity_faults(&rig), 0);
		finish(&rig);
	}
}

/* The copy is older than the eviction, and came after it.  Which of the two is left, an
 * administrator says.
 */
static void
test_of_two_that_come_while_neither_is_in_use_the_one_that_is_left_is_filled_from_the_start(
	void **state)
{
	for (int back = 0; back < 2; back++) {
		struct rig rig;

		start_without_either(&rig, 50, back);
		assert_int_equal(engine_detach(rig.engine, 1, why), 0);
		wait_for_active(&rig);
		assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_parity_faults(&rig), 0);
		finish(&rig);
	}
}

/* Both are removed, and the copy is added again; or the volume is stopped, and starts with the copy
 * alone.
 */
static void
test_copy_that_was_refused_is_filled_from_the_start_when_all_is_begun_anew(void **state)
{
	for (int stopped = 0; stopped < 2; stopped++) {
		struct rig rig;

		start_without_either(&rig, 51, true);
		if (stopped) {
			rig_stop(&rig);
			rig.count = EXTRA + 1;
			rig.members[1].reachable = false;
			rig_start(&rig);
		} else {
			assert_int_equal(engine_detach(rig.engine, 1, why), 0);
			assert_int_equal(engine_detach(rig.engine, EXTRA, why), 0);
			rig_steps(&rig, 3000);
			assert_int_equal(attach(&rig, EXTRA), 1); /* the slot that is free */
		}
		wait_for_active(&rig);
		finish(&rig);
	}
}

/* The copy is older than the eviction.  Both are there while a start waits for 0.  The member has
 * gone when it begins, and perhaps the copy has.
 */
static void
test_of_two_that_came_while_a_start_waited_the_one_that_is_left_is_filled_from_the_start(
	void **state)
{
	for (int both = 0; both < 2; both++) {
		struct rig rig;

		start(&rig, 5, 52);
		write_all(&rig);
		copy_to_extra(&rig, 1);
		write_all(&rig);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_stop(&rig);
		rig.count = EXTRA + 1;
		rig.members[1].reachable = true;
		rig.members[0].reachable = false;
		rig_start(&rig);
		rig_steps(&rig, 300); /* both are known when the last one comes */
		fake_member_cut(&rig.members[1], false);
		if (both)
			fake_member_cut(&rig.members[EXTRA], false);
		rig_steps(&rig, 100);
		rig.members[0].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_steps(&rig, 3000);
		rig_stop(&rig);
		rig.members[EXTRA].reachable = true;
		rig_start(&rig); /* this one has never heard of the member */
		wait_for_active(&rig);
		assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
		finish(&rig);
	}
}

/* Both come while a start writes its superblocks; that ends in vain, for member 1 refuses its own
 * and 3 is late.  They have gone when the next one succeeds.
 */
static void
test_of_two_that_came_in_a_start_that_ended_in_vain_the_one_that_is_left_is_filled_from_the_start(
	void **state)
{
	struct rig rig;

	start(&rig, 6, 53);
	write_all(&rig);
	copy_to_extra(&rig, 0);
	write_all(&rig);
	fake_member_cut(&rig.members[0], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_stop(&rig);
	rig.members[0].reachable = true;
	rig.members[1].refuse_writes = true;
	rig.members[3].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 12000);
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	assert_int_equal(attach(&rig, EXTRA), EXTRA);
	assert_true(says(&rig, 0, "remove one of the two") && says(&rig, EXTRA, "remove this one"));
	fake_member_cut(&rig.members[0], false);
	fake_member_cut(&rig.members[EXTRA], false);
	rig.members[3].reachable = true;
	for (int i = 0; i < 20000 && strstr(rig_status(&rig).reason, "another is back") == NULL;
	     i++)
		rig_step(&rig);
	assert_non_null(strstr(rig_status(&rig).reason, "another is back"));
	rig.members[1].refuse_writes = false;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 5000);
	rig_stop(&rig);
	rig.count = EXTRA + 1;
	rig.members[EXTRA].reachable = true;
	rig_start(&rig); /* this one has never heard of the member */
	wait_for_active(&rig);
	assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_two_equal_devices_neither_is_believed),
		cmocka_unit_test(test_copy_is_known_though_its_member_has_gone_again),
		cmocka_unit_test(
			test_of_two_devices_the_one_that_lost_a_copy_need_not_be_the_older),
		cmocka_unit_test(test_who_is_taken_out_on_its_way_out_stays_who_it_is_until_then),
		cmocka_unit_test(test_older_of_two_is_a_copy),
		cmocka_unit_test(test_copy_that_answers_first_is_not_taken_for_the_member),
		cmocka_unit_test(test_copy_is_known_while_the_maps_are_read),
		cmocka_unit_test(
			test_device_that_says_nothing_holds_up_a_start_no_longer_than_a_member),
		cmocka_unit_test(test_copy_in_use_goes_when_the_member_shows_more),
		cmocka_unit_test(test_copy_that_an_assembly_wrote_to_is_no_newer_for_that),
		cmocka_unit_test(test_copy_that_an_assembly_wrote_to_and_read_again_is_no_newer),
		cmocka_unit_test(
			test_copy_that_two_assemblies_took_goes_when_the_member_shows_more),
		cmocka_unit_test(test_copy_in_use_goes_as_soon_as_the_others_can_do_without_it),
		cmocka_unit_test(test_copy_that_comes_while_the_volume_runs_does_no_harm),
		cmocka_unit_test(test_copy_that_is_back_before_its_member_is_not_taken),
		cmocka_unit_test(test_copy_is_not_taken_while_its_member_can_not_be_used),
		cmocka_unit_test(
			test_copy_that_was_refused_is_filled_from_the_start_whoever_answers_for_its_member),
		cmocka_unit_test(
			test_of_two_that_come_while_neither_is_in_use_the_one_that_is_left_is_filled_from_the_start),
		cmocka_unit_test(
			test_copy_that_was_refused_is_filled_from_the_start_when_all_is_begun_anew),
		cmocka_unit_test(
			test_of_two_that_came_while_a_start_waited_the_one_that_is_left_is_filled_from_the_start),
		cmocka_unit_test(
			test_of_two_that_came_in_a_start_that_ended_in_vain_the_one_that_is_left_is_filled_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
