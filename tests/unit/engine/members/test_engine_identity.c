/* test_engine_identity.c - who is who: devices that are not what they say, or not any more
 * (docs/design/members.md).
 */
#include "identity.h"

static void
load(struct rig *rig, int requests)
{
	for (int i = 0; i < requests; i++) {
		if (rig->active_count < 8)
			rig_submit_random(rig);
		rig_step(rig);
	}
	rig_drain(rig);
}

/* As rig_mark_spare(), with somebody's UUID. */
static void
mark_spare_as(struct rig *rig, int index, const uint8_t uuid[16])
{
	struct spare_mark mark = { .member_bytes = RIG_MEMBER_BYTES, .block_bytes = 512 };
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	rig_mark_spare(rig, index, RIG_MEMBER_BYTES);
	memcpy(mark.member_uuid, uuid, 16);
	memcpy(mark.volume_uuid, rig->options.volume_uuid, 16);
	spare_encode(&mark, block);
	write_both(&rig->members[index], block);
}

static void
test_spare_with_a_members_uuid_is_refused(void **state)
{
	struct rig rig;
	uint8_t uuid[16];
	int slot;

	start(&rig, 5, 1);
	memset(uuid, 0x40 + 2, 16); /* role 2's */
	mark_spare_as(&rig, EXTRA, uuid);
	slot = attach(&rig, EXTRA);
	assert_int_not_equal(engine_replace(rig.engine, 1, slot, why), 0);
	assert_non_null(strstr(rig_status(&rig).members[slot].reason, "m2"));
	fake_member_cut(&rig.members[1], false);
	load(&rig, 500);
	rig_steps(&rig, 2000); /* a place is empty: it does not get it */
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	/* Nor when the member is away whose UUID it has. */
	rig.members[1].reachable = true;
	wait_for_active(&rig);
	fake_member_cut(&rig.members[2], false);
	load(&rig, 500);
	rig_steps(&rig, 2000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	/* And not after a restart. */
	rig_stop(&rig);
	rig.count = EXTRA + 1;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_steps(&rig, 2000);
	assert_non_null(strstr(rig_status(&rig).members[slot].reason, "UUID"));
	rig.members[2].reachable = true;
	wait_for_active(&rig);
	finish(&rig);
}

static void
test_copied_spare_is_used_once(void **state)
{
	struct rig rig;
	uint8_t uuid[16];

	start(&rig, 6, 2);
	memset(uuid, 0x66, 16);
	mark_spare_as(&rig, EXTRA, uuid);
	(void)attach(&rig, EXTRA);
	mark_spare_as(&rig, EXTRA + 1, uuid);
	(void)attach(&rig, EXTRA + 1);
	fake_member_cut(&rig.members[1], false);
	load(&rig, 300);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED); /* neither is taken */
	assert_int_equal(engine_detach(rig.engine, EXTRA + 1, why), 0);
	rig_steps(&rig, 100);
	wait_for_active(&rig);
	assert_int_equal(rig_status(&rig).members[EXTRA].state, MEMBER_IN_SYNC);
	/* The copy again: the member is in use now. */
	assert_int_equal(attach(&rig, EXTRA + 1), EXTRA + 1);
	fake_member_cut(&rig.members[2], false);
	load(&rig, 300);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	finish(&rig);
}

/* Its superblocks are written: several times each. */
static void
restart_often(struct rig *rig)
{
	for (int i = 0; i < 6; i++) {
		rig_stop(rig);
		rig_start(rig);
		wait_for_active(rig);
		rig_steps(rig, 100);
	}
}

static void
replace(struct rig *rig, int role, int by)
{
	assert_int_equal(engine_replace(rig->engine, role, by, why), 0);
	for (int i = 0; i < 60000 && rig_status(rig).members[by].state != MEMBER_IN_SYNC; i++) {
		rig_step(rig);
		rig_jump(rig);
	}
	assert_int_equal(rig_status(rig).members[by].state, MEMBER_IN_SYNC);
	rig_steps(rig, 500);
}

/* A crash; the one of these two goes, the other, which had been the member before, is back.  It
 * lacks what was written without it.
 */
static void
return_instead(struct rig *rig, int gone, int back)
{
	write_all(rig);
	rig_crash(rig);
	rig->members[gone].reachable = false;
	rig->members[back].reachable = true;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	wait_for_active(rig); /* filled from the start */
	rig_verify(rig);
}

/* Two copies of a spare: one was a member, and had its place taken; the other is a member now. */
static void
test_former_member_is_not_taken_for_one_that_has_its_uuid(void **state)
{
	struct rig rig;
	uint8_t uuid[16];

	start(&rig, 5, 6);
	restart_often(&rig);
	rig_mark_spare(&rig, EXTRA, RIG_MEMBER_BYTES);
	replace(&rig, 1, attach(&rig, EXTRA));
	rig.members[1].reachable = false;
	rig_steps(&rig, 2000);
	memset(uuid, 0x40 + 1, 16); /* that of the one that went */
	mark_spare_as(&rig, EXTRA + 1, uuid);
	replace(&rig, 1, attach(&rig, EXTRA + 1));
	rig.count = EXTRA + 2;
	return_instead(&rig, EXTRA + 1, 1);
	/* That one was filled from the start meanwhile: it is the member, and the other one no
	 * longer.
	 */
	return_instead(&rig, 1, EXTRA + 1);
	finish(&rig);
}

/* The copy of the spare that is the member now is evicted, and away; the other one, which was the
 * member before, is back.  Which of the two is to be the member an administrator says, as of any
 * two.
 */
static void
test_spare_that_was_filled_is_known_by_its_uuid_while_it_is_away(void **state)
{
	struct rig rig;
	uint8_t uuid[16];
	int slot, former;

	start(&rig, 5, 7);
	rig_mark_spare(&rig, EXTRA, RIG_MEMBER_BYTES);
	replace(&rig, 1, attach(&rig, EXTRA));
	rig.members[1].reachable = false;
	rig_steps(&rig, 2000);
	memset(uuid, 0x40 + 1, 16); /* that of the one that went */
	mark_spare_as(&rig, EXTRA + 1, uuid);
	slot = attach(&rig, EXTRA + 1);
	replace(&rig, 1, slot);
	former = attach(&rig, 1);
	fake_member_cut(&rig.members[EXTRA + 1], false);
	load(&rig, 300);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	rig.members[1].reachable = true;
	for (int i = 0; i < 30000 && rig_status(&rig).members[former].link != LINK_OPEN; i++) {
		rig_step(&rig);
		rig_jump(&rig);
	}
	rig_steps(&rig, 2000);
	assert_non_null(strstr(rig_status(&rig).members[former].reason, "has the UUID of"));
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	/* Without that one, the one that was away catches up. */
	assert_int_equal(engine_detach(rig.engine, former, why), 0);
	rig.members[EXTRA + 1].reachable = true;
	wait_for_active(&rig);
	assert_int_equal(rig_status(&rig).members[slot].state, MEMBER_IN_SYNC);
	finish(&rig);
}

static void
test_device_marked_as_a_spare_in_a_members_place_is_filled_as_a_whole(void **state)
{
	struct rig rig;
	uint8_t uuid[16];

	start(&rig, 5, 3);
	load(&rig, 500);
	rig_steps(&rig, 3000); /* marks are cleared: nothing is stale when it goes */
	disk_wipe(&rig.members[1].disk);
	memset(uuid, 0x66, 16);
	{
		struct spare_mark mark = { .member_bytes = RIG_MEMBER_BYTES, .block_bytes = 512 };
		uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

		memcpy(mark.member_uuid, uuid, 16);
		memcpy(mark.volume_uuid, rig.options.volume_uuid, 16);
		spare_encode(&mark, block);
		write_both(&rig.members[1], block);
	}
	fake_member_cut(&rig.members[1], true);
	rig_steps(&rig, 1000);
	load(&rig, 300);
	wait_for_active(&rig);
	finish(&rig); /* what is read of it is what was written */
}

/* Whatever a device says of itself, nobody aborts: marks and superblocks with UUIDs, roles and
 * states mixed at random.
 */
static void
test_no_device_ends_the_process(void **state)
{
	struct rig rig;
	uint64_t random = 77;

	start(&rig, 5, 4);
	rig.errors_allowed = true;
	for (int round = 0; round < 60; round++) {
		struct superblock superblock =
			rig_superblock(&rig, (int)(fake_random(&random) % 4));
		uint8_t block[LAYOUT_SUPERBLOCK_BYTES], uuid[16];
		int slot;

		memset(uuid, 0x40 + (int)(fake_random(&random) % 6), 16);
		mark_spare_as(&rig, EXTRA, uuid);
		if (round % 3 != 0) {
			superblock.role = (uint8_t)(fake_random(&random) % 4);
			memcpy(superblock.member_uuid, superblock.member_uuids[superblock.role],
			       16);
			superblock.epoch += fake_random(&random) % 3 - 1;
			superblock.event += fake_random(&random) % 9 - 4;
			superblock.member_states[fake_random(&random) % 4] = MEMBER_FAULTY;
			if (round % 2) {
				superblock.tracked[1] =
					(struct tracked_member){ .role = superblock.role,
								 .state = MEMBER_REBUILDING,
								 .epoch = 1 };
				memcpy(superblock.tracked[1].member_uuid, uuid, 16);
				memcpy(superblock.member_uuid, uuid, 16);
			}
			if (superblock_fault(&superblock) == NULL) {
				superblock_encode(&superblock, block);
				write_both(&rig.members[EXTRA], block);
			}
		}
		slot = attach(&rig, EXTRA);
		(void)engine_replace(rig.engine, (int)(fake_random(&random) % 4), slot, why);
		if (round % 2)
			fake_member_cut(&rig.members[fake_random(&random) % 4], round % 4 == 1);
		load(&rig, 100);
		(void)engine_readmit(rig.engine, slot, why);
		(void)engine_fail(rig.engine, slot, why);
		rig_steps(&rig, 500);
		for (int i = 0; i < 4; i++)
			rig.members[i].reachable = true;
		for (int i = 0; i < 20000 && rig_status(&rig).state != VOLUME_ACTIVE; i++)
			rig_step(&rig);
		if (engine_detach(rig.engine, slot, why) != 0)
			break; /* a true spare got a place */
		rig_steps(&rig, 100);
	}
	finish(&rig);
}

/* --- members that go back in time --- */

/* More are silent than the level bears, so nobody is evicted; then both are back. */
static void
silence_two(struct rig *rig)
{
	fake_member_cut(&rig->members[1], false);
	fake_member_cut(&rig->members[2], false);
	rig_steps(rig, 300);
	assert_int_equal(rig_status(rig).state, VOLUME_SUSPENDED);
}

static void
test_member_put_back_under_a_running_volume_is_filled_from_the_start(void **state)
{
	struct rig rig;
	uint8_t *before;

	start(&rig, 5, 11);
	write_all(&rig);
	before = snapshot(&rig, 1);
	change_superblocks(&rig);
	write_all(&rig);
	silence_two(&rig);
	put_back(&rig, 1, before);
	rig.members[1].reachable = rig.members[2].reachable = true;
	for (int i = 0; i < 20000 && !says(&rig, 1, "went back in time"); i++)
		rig_step(&rig);
	assert_true(says(&rig, 1, "went back in time"));
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	wait_for_active(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static void
test_member_put_back_while_no_gateway_ran_is_filled_from_the_start(void **state)
{
	struct rig rig;
	uint8_t *before;

	for (int crashes = 0; crashes < 2; crashes++) {
		start(&rig, 5, 12);
		write_all(&rig);
		before = snapshot(&rig, 1);
		if (crashes)
			change_superblocks(&rig);
		write_all(&rig);
		if (crashes)
			rig_crash(&rig);
		else
			rig_stop(&rig);
		put_back(&rig, 1, before);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		assert_int_not_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		wait_for_active(&rig);
		assert_int_equal(rig_parity_faults(&rig), 0);
		finish(&rig);
	}
}

static void
test_member_put_back_while_it_was_out_is_filled_from_the_start(void **state)
{
	struct rig rig;
	uint8_t *before;

	for (int restarts = 0; restarts < 2; restarts++) {
		start(&rig, 5, 13);
		write_all(&rig);
		before = snapshot(&rig, 1);
		change_superblocks(&rig);
		write_all(&rig);
		if (restarts) {
			rig_stop(&rig);
			rig.members[1].reachable = false;
			rig_start(&rig);
		} else {
			fake_member_cut(&rig.members[1], false);
			rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
		}
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		rig_drain(&rig);
		put_back(&rig, 1, before);
		rig.members[1].reachable = true;
		wait_for_active(&rig);
		assert_int_equal(rig_parity_faults(&rig), 0);
		finish(&rig);
	}
}

static void
test_honest_member_is_caught_up_by_what_it_lacks(void **state)
{
	struct rig rig;
	uint64_t before;

	start(&rig, 5, 14);
	write_all(&rig);
	fake_member_cut(&rig.members[1], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	before = rig.members[1].writes;
	/* The newest copy of its superblock can't be read: the other one is as good. */
	disk_damage(&rig.members[1].disk, superblock_offset(rig_superblock(&rig, 1).write_count));
	rig.members[1].reachable = true;
	wait_for_active(&rig);
	assert_in_range(rig.members[1].writes - before, 1, 120);
	finish(&rig);
}

static void
test_forced_member_that_went_back_is_suspect_everywhere(void **state)
{
	struct rig rig;
	uint8_t *before;

	start(&rig, 5, 15);
	write_all(&rig);
	before = snapshot(&rig, 1);
	write_all(&rig);
	rig_stop(&rig);
	put_back(&rig, 1, before);
	rig.members[2].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 3000);
	assert_int_not_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	assert_int_not_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	rig_stop(&rig);
	rig.options.force_ms = UINT32_MAX;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig.errors_allowed = true;
	rig_steps(&rig, 1000);
	assert_true(rig_status(&rig).lost_bytes > 0 || rig_status(&rig).regions_suspect > 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* --- members that somebody else used --- */

/* And what it wrote. */
static void
spoil(struct rig *rig, int index)
{
	const uint64_t data = rig_superblock(rig, index).areas[AREA_DATA - 1].offset_bytes;
	uint8_t rubbish[65536];

	memset(rubbish, 0x5A, sizeof(rubbish));
	disk_write(&rig->members[index].disk, data, rubbish, sizeof(rubbish), true);
}

static void
test_member_that_another_gateway_wrote_to_is_not_taken_back(void **state)
{
	struct rig rig;

	start(&rig, 5, 16);
	write_all(&rig);
	silence_two(&rig);
	advance_superblock(&rig, 1, rig_superblock(&rig, 1).epoch + 5000, 9);
	spoil(&rig, 1);
	rig.members[1].reachable = rig.members[2].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	wait_for_active(&rig); /* filled from the start */
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

/* It was given back, as another gateway was to be started anew. */
static void
give_back_to_another(struct rig *rig)
{
	rig_init(rig, 0, 4, 16384, 4 << 20, 4117);
	for (int m = 0; m < rig->count; m++) {
		rig->members[m].reservations = true;
		rig->members[m].gateway = 1;
	}
	rig_start_active(rig);
	rig->members[1].reachable = false;
	fake_member_cut(&rig->members[1], false);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 5000));
	advance_superblock(rig, 1, rig_superblock(rig, 1).epoch + 1, 9);
	rig->members[1].holder = 0;
	rig->members[1].reachable = true;
	for (int i = 0; i < 20000 && !says(rig, 1, "another superblock"); i++)
		rig_step(rig);
	assert_true(says(rig, 1, "another superblock"));
}

static void
test_member_that_another_gateway_has_had_is_left_to_it(void **state)
{
	struct rig rig;

	give_back_to_another(&rig);
	rig_steps(&rig, 20);
	assert_int_equal(rig.members[1].holder, 0);
	rig_stop(&rig);
	for (int m = 0; m < rig.count; m++)
		assert_int_equal(rig.members[m].holder, 0);
	rig_free(&rig);
}

/* Each log-in reserves it: whose it is would meet that again and again. */
static void
test_member_that_another_gateway_has_had_is_rarely_looked_at(void **state)
{
	struct rig rig;
	int reserved = 0;
	bool was = false;

	give_back_to_another(&rig);
	rig.step_ms_max = 1;
	for (int i = 0; i < 10000; i++) {
		reserved += rig.members[1].holder != 0 && !was;
		was = rig.members[1].holder != 0;
		rig_step(&rig);
	}
	assert_in_range(reserved, 1, 6);
	rig_stop(&rig);
	rig_free(&rig);
}

/* It has no session at that moment, and gets one more. */
static void
test_member_that_is_taken_out_and_removed_keeps_no_reservation(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 16384, 4 << 20, 4118);
	for (int m = 0; m < rig.count; m++) {
		rig.members[m].reservations = true;
		rig.members[m].gateway = 1;
	}
	rig_start_active(&rig);
	assert_int_equal(rig.members[1].holder, 1);
	assert_int_equal(engine_fail(rig.engine, 1, why), 0);
	rig.step_ms_max = 1;
	for (int i = 0; i < 1000 && engine_detach(rig.engine, 1, why) == -EBUSY; i++)
		rig_step(&rig);
	rig_steps(&rig, 500);
	assert_int_equal(rig.members[1].holder, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Giving it up ends its session, in which the reservation could be given back. */
static void
test_device_that_is_removed_while_it_is_filled_keeps_no_reservation(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 16384, 4 << 20, 4119);
	rig_mark_spare(&rig, EXTRA, RIG_MEMBER_BYTES);
	for (int m = 0; m <= EXTRA; m++) {
		rig.members[m].reservations = true;
		rig.members[m].gateway = 1;
	}
	rig_start_active(&rig);
	assert_int_equal(attach(&rig, EXTRA), EXTRA);
	assert_int_equal(rig.members[EXTRA].holder, 1);
	assert_int_equal(engine_replace(rig.engine, 1, EXTRA, why), 0);
	for (int i = 0; i < 1000 && rig_status(&rig).members[EXTRA].state != MEMBER_REBUILDING; i++)
		rig_step(&rig);
	assert_int_equal(engine_detach(rig.engine, EXTRA, why), 0);
	rig_steps(&rig, 2000);
	assert_int_equal(rig.members[EXTRA].holder, 0);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_member_that_was_used_without_the_others_is_filled_from_the_start(void **state)
{
	struct rig rig;
	struct superblock superblock;

	start(&rig, 5, 17);
	write_all(&rig);
	rig_stop(&rig);
	rig.members[1].reachable = false;
	for (int i = 0; i < 2; i++) { /* the volume goes on to later epochs */
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		if (i == 0)
			rig_stop(&rig);
	}
	/* So does the member, elsewhere. */
	superblock = rig_superblock(&rig, 1);
	advance_superblock(&rig, 1, superblock.epoch + 1, 1);
	spoil(&rig, 1);
	rig.members[1].reachable = true;
	wait_for_active(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

/* --- what is durable before what --- */

/* The gateway dies when it has told the others which write of its superblock member 1 acknowledged
 * last, and not yet itself.
 */
static void
crash_before_it_is_told(struct holding *holding)
{
	struct rig *rig = &holding->rig;

	rig_stop(rig);
	holding->superblocks = 1u << 1;
	holding->passes = 2; /* so many are needed */
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
	rig_steps(rig, 500);
	assert_int_equal(rig_superblock(rig, 0).write_counts[1],
			 rig_superblock(rig, 1).write_count);
	crash(holding);
	assert_int_equal(rig_superblock(rig, 0).write_counts[1],
			 rig_superblock(rig, 1).write_count);
}

static void
test_unreadable_copy_is_not_held_against_its_member(void **state)
{
	struct holding holding;

	for (int needed = 0; needed < 2; needed++) {
		struct rig *rig = &holding.rig;

		begin_written(&holding, 31);
		crash_before_it_is_told(&holding);
		damage_copy(rig, 1);
		rig->members[2].reachable = !needed;
		rig_start(rig);
		assert_true(rig_wait(rig, needed ? VOLUME_DEGRADED : VOLUME_ACTIVE, 5000));
		assert_int_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
		rig->members[2].reachable = true;
		wait_for_active(rig);
		finish(rig);
	}
}

/* Not even one update before. */
static void
test_member_put_back_with_an_unreadable_copy_is_known(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;
	uint64_t before;
	uint8_t *bytes;

	begin_written(&holding, 32);
	rig_stop(rig);
	bytes = snapshot(rig, 1);
	before = rig_superblock(rig, 1).write_count;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
	rig_steps(rig, 500);
	assert_int_equal(rig_superblock(rig, 1).write_count, before + 3); /* one update */
	write_all(rig);
	crash(&holding);
	put_back(rig, 1, bytes);
	disk_damage(&rig->members[1].disk, superblock_offset(before - 1));
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	assert_int_not_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
	wait_for_active(rig);
	assert_int_equal(rig_parity_faults(rig), 0);
	finish(rig);
}

/* One write of its superblock only, but both copies are there to be read. */
static void
test_member_that_returns_one_write_older_is_known(void **state)
{
	for (int lost = 0; lost < 2; lost++) {
		struct holding holding;
		struct rig *rig = &holding.rig;
		uint64_t newest;
		uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

		begin_written(&holding, 33);
		rig_steps(rig, 500); /* what was written of superblocks was answered */
		silence_two(rig);
		/* As the copy was before its last write. */
		newest = rig_superblock(rig, 1).write_count;
		if (lost) {
			disk_damage(&rig->members[1].disk, superblock_offset(newest));
		} else {
			struct superblock superblock = rig_superblock(rig, 1);

			superblock.write_count -= 2;
			superblock.event -= 2;
			superblock_encode(&superblock, block);
			disk_write(&rig->members[1].disk, superblock_offset(newest), block,
				   sizeof(block), true);
		}
		rig->members[1].reachable = rig->members[2].reachable = true;
		for (int i = 0; i < 20000 && rig_status(rig).state != VOLUME_ACTIVE &&
				!says(rig, 1, "went back");
		     i++)
			rig_step(rig);
		assert_int_equal(says(rig, 1, "went back in time"), !lost);
		wait_for_active(rig);
		finish(rig);
	}
}

static void
test_refused_superblock_is_repeated_on_the_same_copy(void **state)
{
	struct holding holding;

	begin(&holding, 0, 30); /* nobody can be spared, so it is tried again */
	holding.refused = 1u << 1;
	rig_start(&holding.rig);
	for (int i = 0; i < 3000 && rig_status(&holding.rig).state != VOLUME_ACTIVE; i++)
		rig_step(&holding.rig);
	assert_int_not_equal(holding.offset_bytes[0], 0);
	assert_int_equal(holding.offset_bytes[1], holding.offset_bytes[0]);
	finish(&holding.rig);
}

/* Role 1 is out, and lacks what was written to the first rows. */
static void
lose_member(struct rig *rig)
{
	fake_member_cut(&rig->members[1], false);
	rig_submit(rig, REQUEST_WRITE, 0, 256, true);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_steps(rig, 4000); /* the dirty marks are cleared, what is stale is marked */
}

static void
test_removed_member_is_forgotten_by_the_superblocks_first(void **state)
{
	struct holding holding;

	begin_written(&holding, 31);
	lose_member(&holding.rig);
	holding.superblocks = ~0u;
	assert_int_equal(engine_detach(holding.rig.engine, 1, why), 0);
	rig_steps(&holding.rig, 3000);
	crash(&holding);
	holding.rig.members[1].reachable = true;
	rig_start(&holding.rig);
	wait_for_active(&holding.rig);
	finish(&holding.rig);
}

static bool
names_a_target(const struct rig *rig, int index)
{
	const struct superblock record = rig_superblock(rig, index);

	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (record.tracked[set].state == MEMBER_REBUILDING)
			return true;
	return false;
}

static void
test_target_is_on_record_only_when_its_marks_are_durable(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	begin_written(&holding, 32);
	rig_mark_spare(rig, EXTRA, RIG_MEMBER_BYTES);
	(void)attach(rig, EXTRA);
	holding.map_writes = ~0u;
	assert_int_equal(engine_replace(rig->engine, 1, EXTRA, why), 0);
	rig_steps(rig, 400);
	rig->count = EXTRA + 1;
	for (int i = 0; i < 4; i++)
		assert_false(names_a_target(rig, i));
	crash(&holding);
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 2000));
	rig_steps(rig, 6000); /* whoever is being filled is done */
	assert_int_equal(rig_status(rig).rebuild_slot, -1);
	finish(rig);
}

static void
test_cancelled_eviction_is_taken_off_record(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	begin_written(&holding, 33);
	/* its cache holds nothing that could be lost */
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	holding.superblocks = ~0u;
	fake_member_cut(&rig->members[1], false);
	for (int i = 0; i < 5000 && holding.taps[0].held_count == 0; i++)
		rig_step(rig);
	assert_int_not_equal(holding.taps[0].held_count, 0); /* its eviction is on its way */
	rig->members[1].reachable = true;
	for (int i = 0; i < 5000 && rig_status(rig).members[1].state != MEMBER_IN_SYNC; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
	let_go(&holding);
	rig_steps(rig, 500);
	assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
	for (int i = 0; i < 4; i++)
		assert_int_equal(rig_superblock(rig, i).member_states[1], MEMBER_IN_SYNC);
	finish(rig);
}

static void
test_forced_member_is_trusted_only_when_the_map_says_what_it_lacks(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	begin_written(&holding, 34);
	lose_member(rig);
	rig_stop(rig);
	rig->members[1].reachable = true;
	rig->members[2].reachable = false;
	rig->options.force_ms = UINT32_MAX;
	holding.map_writes = ~0u;
	rig_start(rig);
	rig_steps(rig, 1500);
	crash(&holding);
	rig->options.force_ms = 0;
	rig_start(rig);
	rig_steps(rig, 1500);
	assert_int_not_equal(rig_status(rig).state, VOLUME_DEGRADED);
	rig_stop(rig);
	rig_free(rig);
}

/* Superblocks are written again and again, for a member refuses its own.  When the one that was
 * away is back the assembly begins again: who was read since tells of more writes than were known
 * when the others were.
 */
static void
test_an_assembly_that_begins_again_accuses_nobody(void **state)
{
	struct rig rig;

	start(&rig, 5, 42);
	write_all(&rig);
	rig_stop(&rig);
	rig.members[3].reachable = false;
	rig.members[2].refuse_writes = true;
	rig_start(&rig);
	rig_steps(&rig, 6000);
	fake_member_cut(&rig.members[1], true);
	rig_steps(&rig, 2000);
	rig.members[3].reachable = true;
	rig_steps(&rig, 2000);
	rig.members[2].refuse_writes = false;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	for (int m = 0; m < rig.count; m++)
		assert_null(strstr(rig_status(&rig).members[m].reason, "went back"));
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_member_lost_while_maps_are_read_begins_the_assembly_anew(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	begin(&holding, 0, 35); /* nobody can be spared, so it has to be taken in */
	rig_start_active(rig);
	rig_stop(rig);
	holding.map_reads = 1u << 3;
	rig_start(rig);
	for (int i = 0; i < 2000 && holding.taps[3].held_count == 0; i++)
		rig_step(rig);
	rig_steps(rig, 100); /* member 0's map is read */
	fake_member_cut(&rig->members[0], true);
	rig_steps(rig, 500); /* and it is back, before the others are read */
	let_go(&holding);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 8000));
	finish(rig);
}

static void
test_mark_that_one_member_has_counts(void **state)
{
	struct holding holding;
	struct rig *rig = &holding.rig;

	holding = (struct holding){ 0 };
	rig_init(rig, 5, 4, 16384, 6ull << 20, 36); /* two regions */
	tap_all(&holding, 4);
	rig_start_active(rig);
	write_all(rig);
	rig_submit(rig, REQUEST_WRITE, 0, 64, true); /* its region is marked */
	rig_drain(rig);
	rig->errors_allowed = true;
	holding.map_writes = ~0u;
	rig_submit(rig, REQUEST_WRITE, rig->sectors - 64, 64, false); /* a batch of marks hangs */
	rig_steps(rig, 20);
	fake_member_cut(&rig->members[1], false);
	rig_submit(rig, REQUEST_WRITE, 0, 256, true); /* what it misses */
	for (int i = 0; i < 4000; i++)
		/* meanwhile the mark is to be cleared, and the region to be stale on it */
		rig_step(rig);
	holding.map_writes = 0x5; /* the next batch gets to one of the three only */
	for (int i = 0; i < 4; i++)
		tap_let_go(&holding.taps[i]);
	rig_steps(rig, 50);
	crash(&holding);
	rig->members[1].reachable = true;
	rig_start(rig);
	wait_for_active(rig);
	finish(rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spare_with_a_members_uuid_is_refused),
		cmocka_unit_test(test_copied_spare_is_used_once),
		cmocka_unit_test(test_former_member_is_not_taken_for_one_that_has_its_uuid),
		cmocka_unit_test(test_spare_that_was_filled_is_known_by_its_uuid_while_it_is_away),
		cmocka_unit_test(
			test_device_marked_as_a_spare_in_a_members_place_is_filled_as_a_whole),
		cmocka_unit_test(test_no_device_ends_the_process),
		cmocka_unit_test(
			test_member_put_back_under_a_running_volume_is_filled_from_the_start),
		cmocka_unit_test(
			test_member_put_back_while_no_gateway_ran_is_filled_from_the_start),
		cmocka_unit_test(test_member_put_back_while_it_was_out_is_filled_from_the_start),
		cmocka_unit_test(test_honest_member_is_caught_up_by_what_it_lacks),
		cmocka_unit_test(test_unreadable_copy_is_not_held_against_its_member),
		cmocka_unit_test(test_member_put_back_with_an_unreadable_copy_is_known),
		cmocka_unit_test(test_member_that_returns_one_write_older_is_known),
		cmocka_unit_test(test_forced_member_that_went_back_is_suspect_everywhere),
		cmocka_unit_test(test_member_that_another_gateway_wrote_to_is_not_taken_back),
		cmocka_unit_test(test_member_that_another_gateway_has_had_is_left_to_it),
		cmocka_unit_test(test_member_that_another_gateway_has_had_is_rarely_looked_at),
		cmocka_unit_test(test_member_that_is_taken_out_and_removed_keeps_no_reservation),
		cmocka_unit_test(
			test_device_that_is_removed_while_it_is_filled_keeps_no_reservation),
		cmocka_unit_test(
			test_member_that_was_used_without_the_others_is_filled_from_the_start),
		cmocka_unit_test(test_refused_superblock_is_repeated_on_the_same_copy),
		cmocka_unit_test(test_removed_member_is_forgotten_by_the_superblocks_first),
		cmocka_unit_test(test_target_is_on_record_only_when_its_marks_are_durable),
		cmocka_unit_test(test_cancelled_eviction_is_taken_off_record),
		cmocka_unit_test(
			test_forced_member_is_trusted_only_when_the_map_says_what_it_lacks),
		cmocka_unit_test(test_an_assembly_that_begins_again_accuses_nobody),
		cmocka_unit_test(test_member_lost_while_maps_are_read_begins_the_assembly_anew),
		cmocka_unit_test(test_mark_that_one_member_has_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
