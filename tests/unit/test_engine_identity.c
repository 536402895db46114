/* test_engine_identity.c - who is who: devices that are not what they say, or not any more (docs/design/members.md). */
#include "engine/engine.h"
#include "rig.h"
#include "tap.h"

#include "pure/spare.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOAD_BYTES (2ull << 20)
#define EXTRA 4			/* rig->members[] of a device that comes later */

static char why[256];

static void
start(struct rig *rig, int level, uint64_t seed)
{
	rig_init(rig, level, 4, 16384, LOAD_BYTES, seed);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

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

static void
wait_for_active(struct rig *rig)
{
	for (int i = 0; i < 30000 && rig_status(rig).state != VOLUME_ACTIVE; i++) {
		rig_step(rig);
		rig_jump(rig);
	}
	assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
}

static void
finish(struct rig *rig)
{
	rig_verify(rig);
	rig_stop(rig);
	rig_free(rig);
}

static void
write_both(struct fake_member *member, const uint8_t block[LAYOUT_SUPERBLOCK_BYTES])
{
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_A_OFFSET, block, LAYOUT_SUPERBLOCK_BYTES, true);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_B_OFFSET, block, LAYOUT_SUPERBLOCK_BYTES, true);
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

static int
attach(struct rig *rig, int index)
{
	int slot = engine_attach(rig->engine, &rig->members[index].backend, why);

	assert_true(slot >= 0);
	rig_steps(rig, 200);
	return slot;
}

static void
test_spare_with_a_members_uuid_is_refused(void **state)
{
	struct rig rig;
	uint8_t uuid[16];
	int slot;

	start(&rig, 5, 1);
	memset(uuid, 0x40 + 2, 16);	/* role 2's */
	mark_spare_as(&rig, EXTRA, uuid);
	slot = attach(&rig, EXTRA);
	assert_int_not_equal(engine_replace(rig.engine, 1, slot, why), 0);
	assert_non_null(strstr(rig_status(&rig).members[slot].reason, "m2"));
	fake_member_cut(&rig.members[1], false);
	load(&rig, 500);
	rig_steps(&rig, 2000);		/* a place is empty: it does not get it */
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
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);	/* neither is taken */
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

static void
test_device_marked_as_a_spare_in_a_members_place_is_filled_as_a_whole(void **state)
{
	struct rig rig;
	uint8_t uuid[16];

	start(&rig, 5, 3);
	load(&rig, 500);
	rig_steps(&rig, 3000);		/* marks are cleared: nothing is stale when it goes */
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
	finish(&rig);			/* what is read of it is what was written */
}

/* Whatever a device says of itself, nobody aborts: marks and superblocks with UUIDs, roles and states mixed at random. */
static void
test_no_device_ends_the_process(void **state)
{
	struct rig rig;
	uint64_t random = 77;

	start(&rig, 5, 4);
	rig.errors_allowed = true;
	for (int round = 0; round < 60; round++) {
		struct superblock superblock = rig_superblock(&rig, (int)(fake_random(&random) % 4));
		uint8_t block[LAYOUT_SUPERBLOCK_BYTES], uuid[16];
		int slot;

		memset(uuid, 0x40 + (int)(fake_random(&random) % 6), 16);
		mark_spare_as(&rig, EXTRA, uuid);
		if (round % 3 != 0) {
			superblock.role = (uint8_t)(fake_random(&random) % 4);
			memcpy(superblock.member_uuid, superblock.member_uuids[superblock.role], 16);
			superblock.epoch += fake_random(&random) % 3 - 1;
			superblock.event += fake_random(&random) % 9 - 4;
			superblock.member_states[fake_random(&random) % 4] = MEMBER_FAULTY;
			if (round % 2) {
				superblock.tracked[1] = (struct tracked_member){
					.role = superblock.role, .state = MEMBER_REBUILDING, .epoch = 1 };
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
			break;		/* a true spare got a place */
		rig_steps(&rig, 100);
	}
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spare_with_a_members_uuid_is_refused),
		cmocka_unit_test(test_copied_spare_is_used_once),
		cmocka_unit_test(test_device_marked_as_a_spare_in_a_members_place_is_filled_as_a_whole),
		cmocka_unit_test(test_no_device_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
