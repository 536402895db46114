/* scenario.c - see scenario.h. */
#include "scenario.h"

#define STEPS_MAX 40000 /* whatever is waited for comes earlier */

void
finish(struct rig *rig)
{
	rig_verify(rig);
	rig_stop(rig);
	rig_free(rig);
}

void
finish_proven(struct rig *rig)
{
	rig_drain(rig);
	rig_verify(rig);
	wait_until(rig, all_proven);
	if (rig->level == 5)
		assert_int_equal(rig_parity_faults(rig), 0);
	rig_stop(rig);
	assert_int_equal(rig->failed, 0);
	rig_free(rig);
}

void
set_caches(struct rig *rig, bool present)
{
	for (int m = 0; m < rig->count; m++)
		rig->members[m].disk.write_cache = present;
}

void
set_pace(struct rig *rig, int member, uint64_t us)
{
	rig->members[member].answer_us_min = rig->members[member].answer_us_max = us;
}

void
set_pace_of_all(struct rig *rig, uint64_t us)
{
	for (int m = 0; m < rig->count; m++)
		set_pace(rig, m, us);
}

void
set_deadline_of_all(struct rig *rig, uint64_t us)
{
	for (int m = 0; m < rig->count; m++)
		rig->members[m].deadline_us = us;
}

enum tap_verdict
hold_flushes(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_FLUSH ? TAP_HOLD : TAP_PASS;
}

void
submit_everywhere(struct rig *rig, enum request_op op, uint64_t every, uint64_t sectors)
{
	for (uint64_t sector = 0; sector < rig->sectors; sector += every)
		rig_submit(rig, op, sector,
			   rig->sectors - sector < sectors ? rig->sectors - sector : sectors,
			   false);
}

int
error_of_read(struct rig *rig, uint64_t sector, uint64_t sectors)
{
	const uint64_t failed = rig->failed;
	const bool allowed = rig->errors_allowed;

	rig->errors_allowed = true;
	rig_submit(rig, REQUEST_READ, sector, sectors, false);
	rig_drain(rig);
	rig->errors_allowed = allowed;
	return rig->failed > failed ? rig->last_error : 0;
}

void
wait_until(struct rig *rig, bool (*met)(struct rig *rig))
{
	for (int i = 0; i < STEPS_MAX && !met(rig); i++) {
		rig_step(rig);
		if (rig->active_count == 0)
			rig_jump(rig);
	}
	assert_true(met(rig));
}

void
wait_for_state(struct rig *rig, int slot, enum member_state state)
{
	for (int i = 0; i < STEPS_MAX && rig_status(rig).members[slot].state != state; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).members[slot].state, state);
}

void
wait_for_link(struct rig *rig, int slot, enum link_state link)
{
	for (int i = 0; i < STEPS_MAX && rig_status(rig).members[slot].link != link; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).members[slot].link, link);
}

bool
is_whole(struct rig *rig)
{
	return rig_status(rig).state == VOLUME_ACTIVE;
}

bool
is_degraded(struct rig *rig)
{
	return rig_status(rig).state == VOLUME_DEGRADED;
}

bool
all_in_sync(struct rig *rig)
{
	return is_whole(rig) && rig_status(rig).rebuild_slot < 0;
}

bool
all_proven(struct rig *rig)
{
	return rig_status(rig).regions_suspect == 0;
}

bool
all_clean(struct rig *rig)
{
	return rig_status(rig).regions_dirty == 0;
}

bool
scrub_done(struct rig *rig)
{
	return !rig_status(rig).scrub_active;
}

void
damage_newer_superblock(struct rig *rig, int index)
{
	const struct superblock superblock = rig_superblock(rig, index);
	uint8_t rubbish[LAYOUT_SUPERBLOCK_BYTES];

	memset(rubbish, 0x5A, sizeof(rubbish));
	disk_write(&rig->members[index].disk, superblock_offset(superblock.write_count), rubbish,
		   sizeof(rubbish), true);
}
