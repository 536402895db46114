/* test_engine_members.c - members that return, are replaced and repaired: one scenario each, on
 * fake members.  The simulator draws such things at random; these say by name what is promised.
 */
#include "scenario.h"

#include "pure/spare.h"

#define LOAD_BYTES (6ull << 20)

static char why[256];

static void
load(struct rig *rig, int requests, int depth)
{
	for (int i = 0; i < requests; i++) {
		while (rig->active_count >= depth)
			rig_step(rig);
		rig_submit_random(rig);
		rig_step(rig);
	}
}

static void
start(struct rig *rig, uint64_t seed)
{
	rig_init(rig, 5, 4, 16384, LOAD_BYTES, seed);
	rig->options.hedge_ms = 200;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 2000));
}

static int
attach_spare(struct rig *rig, int index)
{
	int slot;

	rig_mark_spare(rig, index, RIG_MEMBER_BYTES);
	slot = engine_attach(rig->engine, &rig->members[index].backend, why);
	assert_true(slot >= 0);
	return slot;
}

/* Parity of rows over the devices that hold the roles now. */
static uint64_t
faults_with(struct rig *rig, int role, int device)
{
	struct fake_member kept = rig->members[role];
	uint64_t faults;

	rig->members[role] = rig->members[device];
	faults = rig_parity_faults(rig);
	rig->members[role] = kept;
	return faults;
}

static void
test_member_that_returns_copies_stale_regions_only(void **state)
{
	struct rig rig;
	struct engine_status status;
	uint64_t before;

	start(&rig, 501);
	wait_until(&rig, all_proven);
	rig_steps(&rig, 4000); /* marks are cleared */
	fake_member_cut(&rig.members[2], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 64, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	rig_submit(&rig, REQUEST_WRITE, 100, 64, false);
	rig_drain(&rig);
	before = rig_status(&rig).members[2].written_bytes;
	rig.members[2].reachable = true;
	wait_until(&rig, all_in_sync);
	status = rig_status(&rig);
	assert_int_equal(status.members[2].state, MEMBER_IN_SYNC);
	/* One region of 64 rows was written: no more than that was copied. */
	assert_in_range(status.members[2].written_bytes - before, 64 * 16384,
			64 * 16384 + (512 << 10));
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static void
test_spare_takes_the_place_of_a_member_that_stays_away(void **state)
{
	struct rig rig;
	int slot;

	start(&rig, 502);
	load(&rig, 200, 16);
	slot = attach_spare(&rig, 4);
	fake_member_cut(&rig.members[1], false);
	load(&rig, 300, 16);
	rig_drain(&rig);
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).members[slot].state, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).members[slot].role, 1);
	wait_until(&rig, all_proven);
	assert_int_equal(faults_with(&rig, 1, 4), 0);
	/* The old one comes back: its place is taken. */
	rig.members[1].reachable = true;
	rig_steps(&rig, 8000);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	assert_true(rig_status(&rig).members[1].state != MEMBER_IN_SYNC);
	finish(&rig);
	fake_member_free(&rig.members[4]);
}

static void
test_replaced_member_works_until_the_end(void **state)
{
	struct rig rig;
	int slot;

	start(&rig, 503);
	load(&rig, 200, 16);
	wait_until(&rig, all_proven);
	slot = attach_spare(&rig, 4);
	rig_steps(&rig, 50);
	assert_int_equal(rig_status(&rig).members[slot].state, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig.engine, 0, slot, why), 0);
	load(&rig, 50, 16);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	load(&rig, 400, 16);
	rig_drain(&rig);
	wait_until(&rig, all_in_sync);
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).members[slot].role, 0);
	assert_false(rig_status(&rig).members[0].attached);
	wait_until(&rig, all_proven);
	assert_int_equal(faults_with(&rig, 0, 4), 0);
	finish(&rig);
	fake_member_free(&rig.members[4]);
}

static void
test_failed_member_stays_out_until_it_is_taken_back(void **state)
{
	struct rig rig;

	start(&rig, 504);
	load(&rig, 100, 16);
	wait_until(&rig, all_proven);
	assert_int_equal(engine_fail(rig.engine, 3, why), 0);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(engine_fail(rig.engine, 2, why), -EBUSY);
	load(&rig, 200, 16);
	rig_drain(&rig);
	rig_steps(&rig, 9000);
	assert_int_equal(rig_status(&rig).members[3].state, MEMBER_FAULTY);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_int_equal(engine_readmit(rig.engine, 3, why), 0);
	wait_until(&rig, all_in_sync);
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static void
test_scrub_finds_and_repairs_what_changed_behind_our_back(void **state)
{
	static const uint8_t junk[512] = { 1, 2, 3 };
	struct rig rig;
	struct engine_status status;

	start(&rig, 505);
	load(&rig, 200, 16);
	rig_drain(&rig);
	wait_until(&rig, all_proven);
	/* Row 2's parity is on member 1, row 5's on member 2. */
	disk_write(&rig.members[1].disk, (4u << 20) + 2 * 16384 + 512, junk, 512, true);
	disk_write(&rig.members[2].disk, (4u << 20) + 5 * 16384, junk, 512, true);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), -EBUSY);
	load(&rig, 200, 16);
	wait_until(&rig, scrub_done);
	status = rig_status(&rig);
	assert_in_range(status.scrub_mismatches, 0, 2);
	disk_write(&rig.members[1].disk, (4u << 20) + 402 * 16384 + 512, junk, 512, true);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_CHECK, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_true(rig_status(&rig).scrub_mismatches >= 1);
	assert_true(rig_parity_faults(&rig) >= 1);
	assert_int_equal(engine_scrub_start(rig.engine, SCRUB_REPAIR, false, why), 0);
	wait_until(&rig, scrub_done);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static void
test_unreadable_sector_is_rewritten_and_counted(void **state)
{
	struct rig rig;

	start(&rig, 506);
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
	rig_drain(&rig);
	disk_damage(&rig.members[2].disk, (4u << 20) + 16384 * 3 + 1024);
	disk_damage(&rig.members[2].disk, (4u << 20) + 16384 * 3 + 9 * 1024);
	rig_verify(&rig);
	rig_steps(&rig, 200);
	assert_int_equal(rig.members[2].disk.bad_count, 0);
	assert_int_equal(rig_status(&rig).members[2].medium_repaired, 2);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	wait_until(&rig, all_proven);
	assert_int_equal(rig_parity_faults(&rig), 0);
	finish(&rig);
}

static void
test_unreadable_sector_during_a_rebuild_loses_that_piece_only(void **state)
{
	struct rig rig;
	struct engine_status status;
	struct lost_range range[8];
	uint64_t sector;
	int count;

	start(&rig, 507);
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
	rig_drain(&rig);
	rig_steps(&rig, 4000);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 64, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	/* Row 1: parity on member 2; data on 3, 0, 1. */
	disk_damage(&rig.members[1].disk, (4u << 20) + 16384 + 4096);
	attach_spare(&rig, 4);
	wait_until(&rig, all_in_sync);
	status = rig_status(&rig);
	assert_int_equal(status.lost_bytes, 2 * 4096);
	count = engine_lost_list(rig.engine, 0, range, 8);
	assert_int_equal(count, 2);
	rig.errors_allowed = true;
	for (int i = 0; i < count; i++)
		rig_submit(&rig, REQUEST_READ, range[i].offset_bytes / 512,
			   range[i].length_bytes / 512, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 2);
	assert_int_equal(rig.last_error, -ENODATA);
	rig.errors_allowed = false;
	/* Overwritten in part: that part reads again, also after a restart. */
	sector = range[0].offset_bytes / 512;
	rig_submit(&rig, REQUEST_WRITE, sector, 2, false);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_READ, sector, 2, false);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).lost_bytes, 2 * 4096 - 1024);
	rig_submit(&rig, REQUEST_WRITE, sector, 8, false);
	rig_submit(&rig, REQUEST_WRITE, range[1].offset_bytes / 512, 8, false);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).lost_extents, 0);
	wait_until(&rig, all_proven);
	assert_int_equal(faults_with(&rig, 0, 4), 0);
	finish(&rig);
	fake_member_free(&rig.members[4]);
}

/* What is written for a lost piece, zeros and parity that fits, may be lost in part with a cache:
 * that has to be noticed.
 */
static void
test_cache_that_is_lost_after_a_piece_leaves_no_wrong_parity(void **state)
{
	for (int steps = 1; steps <= 24; steps++) {
		struct rig rig;

		start(&rig, 600 + (uint64_t)steps);
		wait_until(&rig, all_proven);
		rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
		rig_drain(&rig);
		rig_steps(&rig, 4000);
		fake_member_cut(&rig.members[0], false);
		rig_submit(&rig, REQUEST_WRITE, 0, 64, false);
		rig_drain(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig_steps(&rig, 4000);
		/* Row 1: parity on member 2; data on 3, 0, 1. */
		disk_damage(&rig.members[1].disk, (4u << 20) + 16384 + 4096);
		attach_spare(&rig, 4);
		for (int i = 0; i < 40000 && rig_status(&rig).lost_bytes == 0; i++)
			rig_step(&rig);
		assert_int_equal(rig_status(&rig).lost_bytes, 2 * 4096);
		rig_steps(&rig, steps);
		fake_member_power_loss(&rig.members[2], true);
		/* what may be lost then is not what is tested here */
		rig.errors_allowed = true;
		wait_until(&rig, all_in_sync);
		wait_until(&rig, all_proven);
		assert_int_equal(faults_with(&rig, 0, 4), 0);
		rig_stop(&rig);
		rig_free(&rig);
		fake_member_free(&rig.members[4]);
	}
}

/* As many members as there can be: sets of positions fill their word. */
static void
test_a_piece_lost_of_32_members_is_recorded(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 32, 16384, LOAD_BYTES, 700);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 4000));
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 4000, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 4000, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 4000);
	/* Row 1: parity on member 30; both of these hold data. */
	disk_damage(&rig.members[1].disk, (4u << 20) + 16384 + 4096);
	rig.members[0].reachable = true;
	wait_until(&rig, all_in_sync);
	assert_int_equal(rig_status(&rig).lost_bytes, 2 * 4096);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* The first refusal sends it away; what it refuses after that is no more an error to anybody than
 * the first.
 */
static void
test_a_member_that_refuses_many_writes_at_once_costs_no_request(void **state)
{
	struct rig rig;

	start(&rig, 513);
	wait_until(&rig, all_proven);
	rig.members[1].refuse_writes = true;
	for (uint64_t i = 0; i < 60; i++)
		rig_submit(&rig, i % 3 == 0 ? REQUEST_WRITE : REQUEST_ZERO, i * 200, 200, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig.members[1].refuse_writes = false;
	finish(&rig);
}

static int64_t accepted_bytes;

static void
accepted(void *owner, int64_t result)
{
	accepted_bytes = result;
}

static void
test_lost_extents_survive_a_restart_and_can_be_accepted(void **state)
{
	struct rig rig;
	uint64_t bytes;

	start(&rig, 508);
	wait_until(&rig, all_proven);
	load(&rig, 200, 24);
	rig_crash(&rig);
	rig.members[1].reachable = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	bytes = rig_status(&rig).lost_bytes;
	assert_true(bytes > 0);
	rig_crash(&rig);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_steps(&rig, 100);
	assert_int_equal(rig_status(&rig).lost_bytes, bytes);
	engine_lost_accept(rig.engine, 0, UINT64_MAX, accepted, NULL);
	rig_steps(&rig, 100);
	assert_int_equal(accepted_bytes, bytes);
	assert_int_equal(rig_status(&rig).lost_extents, 0);
	rig_stop(&rig);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).lost_extents, 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Accepted, but a member that hangs has it on record yet, and counts after a crash: what is written
 * there is not acknowledged before it has not.
 */
static void
test_write_waits_for_what_is_being_accepted(void **state)
{
	struct rig rig;
	struct lost_range range[8];
	uint64_t sector, completed;

	rig_init(&rig, 5, 5, 16384, LOAD_BYTES, 511);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	wait_until(&rig, all_proven);
	fake_member_cut(&rig.members[0], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 512, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	/* Row 1: parity on member 3; data on 4, 0, 1, 2. */
	disk_damage(&rig.members[1].disk, (4u << 20) + 16384 + 4096);
	attach_spare(&rig, 5);
	wait_until(&rig, all_in_sync);
	assert_int_equal(engine_lost_list(rig.engine, 0, range, 8), 2);
	sector = range[0].offset_bytes / 512;
	rig_submit(&rig, REQUEST_WRITE, sector + 8, 1, false); /* marks the region */
	rig_drain(&rig);
	fake_member_hang(&rig.members[4]);
	accepted_bytes = -1;
	engine_lost_accept(rig.engine, 0, UINT64_MAX, accepted, NULL);
	completed = rig.completed;
	rig_submit(&rig, REQUEST_WRITE, sector, 1, false);
	for (int i = 0; i < 400 && accepted_bytes < 0 && rig.completed == completed; i++)
		rig_step(&rig);
	assert_true(accepted_bytes >= 0);
	assert_int_equal(accepted_bytes, 2 * 4096);
	fake_member_continue(&rig.members[4]);
	for (int i = 0; i < 2; i++) /* accepted means: whatever stands there */
		rig_submit(&rig, REQUEST_WRITE, range[i].offset_bytes / 512, 8, false);
	rig_drain(&rig);
	finish(&rig);
	fake_member_free(&rig.members[5]);
}

static void
test_slow_member_is_read_around(void **state)
{
	struct rig rig;

	start(&rig, 509);
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
	rig_drain(&rig);
	rig.members[1].answer_us_min = 400000;
	rig.members[1].answer_us_max = 500000;
	rig.members[1].deadline_us = 60000000;
	for (int i = 0; i < 40; i++) {
		rig_submit(&rig, REQUEST_READ, (uint64_t)i * 40, 40, false);
		rig_drain(&rig);
	}
	assert_true(rig_status(&rig).reads_hedged > 0);
	assert_true(rig_status(&rig).members[1].slow);
	finish(&rig);
}

/* When it is looked at first, several members owe it something; later one does, who hangs. */
static void
test_read_of_several_members_is_looked_at_again(void **state)
{
	struct rig rig;
	uint64_t began_ms, completed;

	start(&rig, 513);
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
	rig_drain(&rig);
	for (int m = 0; m < rig.count; m++) {
		set_pace(&rig, m, 300000);
		rig.members[m].deadline_us = 60000000;
	}
	began_ms = rig.now_ms;
	completed = rig.completed;
	rig_submit(&rig, REQUEST_READ, 0, 96, false);
	engine_run(rig.engine, rig.now_ms);
	for (int m = 0; m < rig.count; m++)
		if (rig.members[m].queued > 0) {
			fake_member_hang(&rig.members[m]);
			break;
		}
	while (rig.completed == completed && rig.now_ms < began_ms + 3000)
		rig_step(&rig);
	assert_int_equal(rig.completed, completed + 1);
	assert_int_equal(rig_status(&rig).reads_hedged, 1);
	for (int m = 0; m < rig.count; m++)
		fake_member_continue(&rig.members[m]);
	finish(&rig);
}

/* Where all are slow, reading from three instead of one helps nobody. */
static void
test_reads_are_not_hedged_where_all_are_slow(void **state)
{
	struct rig rig;
	uint64_t hedged;

	start(&rig, 512);
	wait_until(&rig, all_proven);
	rig_submit(&rig, REQUEST_WRITE, 0, 2000, false);
	rig_drain(&rig);
	for (int m = 0; m < rig.count; m++) {
		rig.members[m].answer_us_min = 400000;
		rig.members[m].answer_us_max = 500000;
		rig.members[m].deadline_us = 60000000;
	}
	for (int i = 0; i < 80; i++) {
		if (i == 40)
			/* until then it has to learn how slow they are */
			hedged = rig_status(&rig).reads_hedged;
		rig_submit(&rig, REQUEST_READ, (uint64_t)(i % 40) * 8, 8, false);
		rig_drain(&rig);
	}
	assert_int_equal(rig_status(&rig).reads_hedged, hedged);
	finish(&rig);
}

static void
test_forced_start_takes_a_member_as_it_stands(void **state)
{
	struct rig rig;

	start(&rig, 510);
	wait_until(&rig, all_proven);
	fake_member_cut(&rig.members[3], false);
	load(&rig, 100, 16);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_crash(&rig);
	rig.members[3].reachable = true;
	/* Member 2 has another life now: no superblock of ours. */
	disk_wipe(&rig.members[2].disk);
	rig_start(&rig);
	rig_steps(&rig, 2000);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	rig_stop(&rig);
	rig.options.force_ms = UINT32_MAX;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	rig.options.force_ms = 0;
	rig_stop(&rig);
	rig_free(&rig);
}

/* A limit that is set while it is being waited for is the one that counts. */
static void
test_a_limit_that_is_set_holds_for_what_waits_already(void **state)
{
	struct rig rig;
	struct engine_options options;
	uint64_t since_ms;

	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, 517);
	rig.options.queue_limit_ms = 3600000;
	rig.errors_allowed = true;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	wait_until(&rig, all_proven);
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	since_ms = rig.now_ms;
	for (uint64_t i = 0; i < 8; i++)
		rig_submit(&rig, i % 2 ? REQUEST_WRITE : REQUEST_READ, i * 311, 40, false);
	rig_steps(&rig, 3000);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	assert_int_equal(rig.failed, 0);
	assert_true(rig.active_count > 0);
	options = rig.options;
	options.queue_limit_ms = (uint32_t)(rig.now_ms - since_ms) + 500;
	engine_set_limits(rig.engine, &options);
	rig_steps(&rig, 1000);
	assert_int_equal(rig.active_count, 0);
	assert_true(rig.failed > 0);
	rig.members[1].reachable = rig.members[2].reachable = true;
	wait_until(&rig, all_in_sync);
	finish(&rig);
}

/* Who has no set is filled from the start, whoever returns first. */
static void
test_member_without_a_set_is_filled_from_the_start(void **state)
{
	struct rig rig;

	rig_init(&rig, 10, 12, 16384, 4u << 20, 777);
	rig_start_active(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 512);
	rig_drain(&rig);
	for (int m = 0; m < rig.count; m += 2) {
		fake_member_cut(&rig.members[m], false);
		submit_everywhere(&rig, REQUEST_WRITE, 700 + (uint64_t)m, 40);
		rig_drain(&rig);
	}
	rig_crash(&rig);
	for (int m = 0; m < rig.count; m += 2)
		rig.members[m].reachable = true;
	rig_start(&rig);
	wait_until(&rig, all_in_sync);
	for (int m = 1; m < rig.count; m += 2)
		fake_member_cut(&rig.members[m], false);
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_that_returns_copies_stale_regions_only),
		cmocka_unit_test(test_spare_takes_the_place_of_a_member_that_stays_away),
		cmocka_unit_test(test_replaced_member_works_until_the_end),
		cmocka_unit_test(test_failed_member_stays_out_until_it_is_taken_back),
		cmocka_unit_test(test_scrub_finds_and_repairs_what_changed_behind_our_back),
		cmocka_unit_test(test_unreadable_sector_is_rewritten_and_counted),
		cmocka_unit_test(test_unreadable_sector_during_a_rebuild_loses_that_piece_only),
		cmocka_unit_test(test_cache_that_is_lost_after_a_piece_leaves_no_wrong_parity),
		cmocka_unit_test(test_a_piece_lost_of_32_members_is_recorded),
		cmocka_unit_test(test_a_member_that_refuses_many_writes_at_once_costs_no_request),
		cmocka_unit_test(test_lost_extents_survive_a_restart_and_can_be_accepted),
		cmocka_unit_test(test_write_waits_for_what_is_being_accepted),
		cmocka_unit_test(test_slow_member_is_read_around),
		cmocka_unit_test(test_read_of_several_members_is_looked_at_again),
		cmocka_unit_test(test_reads_are_not_hedged_where_all_are_slow),
		cmocka_unit_test(test_a_limit_that_is_set_holds_for_what_waits_already),
		cmocka_unit_test(test_forced_start_takes_a_member_as_it_stands),
		cmocka_unit_test(test_member_without_a_set_is_filled_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
