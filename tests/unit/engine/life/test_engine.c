/* test_engine.c - the engine on members in memory: load against an oracle, and each way to lose
 * one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"
#include "tap.h"

struct shape {
	int level;
	int members;
	uint32_t chunk;
};

static const struct shape shapes[] = {
	{ 5, 3, 4096 },	 { 5, 4, 65536 }, { 5, 5, 8192 },
	{ 5, 7, 16384 }, { 0, 2, 4096 },  { 0, 3, 65536 },
};

#define LOAD_BYTES (2u << 20)

static void
load(struct rig *rig, int requests, int depth)
{
	while (requests > 0) {
		while (rig->active_count < depth && requests-- > 0)
			rig_submit_random(rig);
		rig_step(rig);
	}
}

static void
test_random_load_reads_what_was_written(void **state)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct rig rig;

		rig_init(&rig, shapes[i].level, shapes[i].members, shapes[i].chunk, LOAD_BYTES,
			 11 + i);
		rig_start_active(&rig);
		load(&rig, 1500, 32);
		rig_drain(&rig);
		rig_verify(&rig);
		if (shapes[i].level == 5) {
			rig_wait_for_resync(&rig);
			assert_int_equal(rig_parity_faults(&rig), 0);
			assert_true(rig_status(&rig).resync_corrected_rows > 0);
		}
		rig_stop(&rig);
		rig_start_active(&rig);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_clean_stop_leaves_nothing_dirty(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 65536, LOAD_BYTES, 5);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	load(&rig, 300, 16);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

/* What was written into regions that are still suspect would take longer to prove than a stop may
 * last.
 */
static void
test_a_slow_resync_does_not_keep_a_stop_from_being_clean(void **state)
{
	struct rig rig;
	uint64_t before_ms;

	rig_init(&rig, 5, 4, 65536, LOAD_BYTES, 6);
	rig_start_active(&rig);
	engine_set_rates(rig.engine, 65536, 65536);
	load(&rig, 50, 16);
	rig_drain(&rig);
	before_ms = rig.now_ms;
	rig_stop(&rig);
	assert_in_range(rig.now_ms - before_ms, 1, 8000);
	for (int i = 0; i < rig.count; i++)
		assert_true(rig_superblock(&rig, i).clean);
	rig_start_active(&rig);
	assert_true(rig_status(&rig).regions_suspect > 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* On a volume of which most was never written, the rest is safe from the loss of a member soon
 * after it was started.
 */
static void
test_what_was_written_is_proven_first_after_a_start(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 4096, 24u << 20, 7);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, rig.sectors - 600, 8, false);
	rig_submit(&rig, REQUEST_WRITE, rig.sectors / 2, 100, false);
	rig_drain(&rig);
	rig_stop(&rig);
	rig.options.resync_rows_max = 4;
	rig_start_active(&rig);
	/* 100 sectors may be in two */
	while (rig_status(&rig).resync.done_rows < 3 * LAYOUT_REGION_ROWS_DEFAULT)
		rig_step(&rig);
	assert_true(rig_status(&rig).regions_suspect > 0);
	for (int lost = 0; lost < rig.count; lost++) {
		fake_member_cut(&rig.members[lost], true);
		rig_verify(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 100000));
		rig_steps(&rig, 100);
	}
	rig_stop(&rig);
	rig_free(&rig);
}

static void
check_survivors_say_faulty(struct rig *rig, int lost)
{
	for (int i = 0; i < rig->count; i++) {
		if (i == lost)
			continue;
		assert_int_equal(rig_superblock(rig, i).member_states[lost], MEMBER_FAULTY);
	}
}

static void
lose_member_under_load(int lost, bool hang, bool resynced)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, 100 + (uint64_t)lost);
	if (!resynced)
		rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	if (resynced)
		rig_wait_for_resync(&rig);
	load(&rig, 400, 32);
	if (hang)
		fake_member_hang(&rig.members[lost]);
	else
		fake_member_cut(&rig.members[lost], false);
	load(&rig, 600, 32);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_int_equal(rig_status(&rig).members[lost].state, MEMBER_FAULTY);
	check_survivors_say_faulty(&rig, lost);
	rig_verify(&rig);

	/* It returns, and is not trusted until it has caught up. */
	rig_stop(&rig);
	fake_member_continue(&rig.members[lost]);
	rig.members[lost].reachable = true;
	rig.options.resync_rows_max = 0;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).members[lost].state, MEMBER_OUT_OF_DATE);
	assert_true(rig_status(&rig).members[lost].stale_rows > 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig.options.resync_rows_max = 4;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	load(&rig, 200, 16);
	rig_drain(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_any_member_may_be_lost_under_load(void **state)
{
	for (int lost = 0; lost < 4; lost++) {
		lose_member_under_load(lost, false, lost % 2);
		lose_member_under_load(lost, true, lost % 2 == 0);
	}
}

/* At any moment of flushes and FUA writes too: no request fails. */
static void
test_member_may_be_lost_while_flushes_are_under_way(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(150); seed++) {
		struct rig rig;
		int lost = (int)(seed % 4);

		rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 3000 + seed);
		rig.options.resync_rows_max = 0;
		rig_start_active(&rig);
		for (int i = 0; i < 60 + (int)(seed % 40); i++) {
			uint64_t sector = fake_random(&rig.random) % (rig.sectors - 8);

			rig_submit(&rig, REQUEST_WRITE, sector, 1 + i % 8, i % 3 == 0);
			if (i % 5 == 0)
				rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
			rig_step(&rig);
		}
		fake_member_cut(&rig.members[lost], false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_volume_starts_without_any_one_member(void **state)
{
	for (int lost = 0; lost < 5; lost++) {
		struct rig rig;

		rig_init(&rig, 5, 5, 8192, LOAD_BYTES, 50 + (uint64_t)lost);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		load(&rig, 300, 16);
		rig_drain(&rig);
		rig_stop(&rig);
		rig.members[lost].reachable = false;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig_verify(&rig);
		load(&rig, 400, 32);
		rig_drain(&rig);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_crash_keeps_what_was_acknowledged(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(20); seed++) {
		struct rig rig;

		rig_init(&rig, 5, 3 + (int)(seed % 3), 8192, LOAD_BYTES, seed);
		rig_start_active(&rig);
		for (int round = 0; round < 4; round++) {
			if (seed % 2)
				rig_wait_for_resync(&rig);
			load(&rig, 200, 24);
			rig_crash(&rig);
			rig_start_active(&rig);
			rig_verify(&rig);
		}
		rig_wait_for_resync(&rig);
		assert_int_equal(rig_parity_faults(&rig), 0);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_crash_at_any_step_of_an_eviction_loses_no_acknowledged_write(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(60); seed++) {
		struct rig rig;
		int lost = (int)(seed % 4);

		rig_init(&rig, 5, 4, 8192, 256 << 10, 3000 + seed);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		load(&rig, 60, 16);
		fake_member_cut(&rig.members[lost], false);
		for (uint64_t step = 0; step < seed % 15; step++) {
			for (int i = 0; i < 4; i++)
				rig_submit_random(&rig);
			rig_step(&rig);
		}
		rig_crash(&rig);
		/* All are back, and the one that was lost is believed only if nothing was
		 * acknowledged without it.
		 */
		rig.members[lost].reachable = true;
		/* dirty and degraded: medium errors, see rig_verify's data */
		rig.errors_allowed = true;
		rig_start(&rig);
		for (int i = 0; i < 2000 && rig_status(&rig).state == VOLUME_ASSEMBLING; i++)
			rig_step(&rig);
		rig_verify(&rig);
		if (rig_status(&rig).state == VOLUME_ACTIVE) {
			assert_int_equal(rig.failed, 0);
			rig_wait_for_resync(&rig);
			assert_int_equal(rig_parity_faults(&rig), 0);
			rig_verify(&rig);
		}
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_power_loss_keeps_what_was_flushed(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(25); seed++) {
		struct rig rig;

		rig_init(&rig, 5, 3 + (int)(seed % 3), 4096, 1 << 20, 7000 + seed);
		rig.step_ms_max = 300; /* cleaning comes between writes */
		rig.options.assembly_wait_ms = 60000;
		rig.options.assembly_limit_ms = 60000;
		rig_start_active(&rig);
		for (int round = 0; round < 8; round++) {
			rig_wait_for_resync(&rig);
			for (int burst = 0; burst < 6; burst++) {
				load(&rig, 8, 6);
				rig_steps(&rig, (int)(fake_random(&rig.random) % 40));
			}
			rig_power_loss(&rig);
			rig_start_active(&rig);
			rig_verify(&rig);
			rig_wait_for_resync(&rig);
			assert_int_equal(rig_parity_faults(&rig), 0);
			rig_verify(&rig);
		}
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_dirty_and_degraded_is_never_wrong_data(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(20); seed++) {
		struct rig rig;
		int lost = (int)(seed % 4);

		rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 900 + seed);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		load(&rig, 200, 24);
		rig_crash(&rig);
		rig.members[lost].reachable = false;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		rig.errors_allowed = true;
		for (uint64_t sector = 0; sector < rig.sectors; sector += 16)
			rig_submit(&rig, REQUEST_READ, sector, 16, false);
		load(&rig, 200, 24);
		rig_drain(&rig);
		assert_true(rig.failed > 0);
		assert_int_equal(rig.last_error, -ENODATA);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_too_many_silent_members_suspend_and_resume(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, 7);
	rig_start_active(&rig);
	load(&rig, 300, 16);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, rig.sectors, false);
	rig_drain(&rig);
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	rig.members[1].cache_kept = rig.members[2].cache_kept = false; /* as far as can be told */
	/* No flush among them: that would be the one that has to fail. */
	for (uint64_t i = 0; i < 8; i++)
		rig_submit(&rig, i % 2 ? REQUEST_WRITE : REQUEST_READ, i * 311, 40, false);
	rig_steps(&rig, 300);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	assert_int_equal(rig.failed, 0);
	rig.members[1].reachable = true;
	rig.members[2].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	rig_drain(&rig);
	/* A cache may have been lost with the sessions: one flush must say so. */
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig.errors_allowed = false;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	rig_verify(&rig);
	rig_wait_for_resync(&rig);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_silence_beyond_the_limit_fails_requests_and_comes_back(void **state)
{
	for (int variant = 0; variant < 8; variant++) {
		int level = variant % 2 * 5;
		struct rig rig;

		/* Seeds with which both are back before anybody has to catch up: that would take
		 * rows whose writes failed along.
		 */
		rig_init(&rig, level, 4, 16384, LOAD_BYTES, 16 + (uint64_t)variant);
		for (int m = 0; m < 4; m++)
			rig.members[m].disk.write_cache = variant / 6;
		rig_start_active(&rig);
		if (level == 5)
			rig_wait_for_resync(&rig);
		load(&rig, 200, 16);
		fake_member_cut(&rig.members[0], false);
		fake_member_cut(&rig.members[3], false);
		rig.errors_allowed = true;
		for (int i = 0; i < 12; i++)
			rig_submit_random(&rig);
		for (int i = 0; i < 4000 && rig.active_count > 0; i++)
			rig_step(&rig);
		assert_int_equal(rig.active_count, 0);
		assert_true(rig.failed > 0);
		rig_submit(&rig, REQUEST_WRITE, 0, 1000, false);
		rig_steps(&rig, 50);
		assert_int_equal(rig.active_count, 0);
		rig.members[0].reachable = true;
		rig.members[3].reachable = true;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig.errors_allowed = false;
		load(&rig, 200, 16);
		rig_drain(&rig);
		rig_verify(&rig);
		if (level == 5) {
			rig_wait_for_resync(&rig);
			assert_int_equal(rig_parity_faults(&rig), 0);
		}
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static void
test_medium_error_is_reconstructed(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 21);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	load(&rig, 300, 16);
	rig_drain(&rig);
	for (int m = 0; m < 4; m++) {
		disk_damage(&rig.members[m].disk, (4u << 20) + 8192 * 3 + 512);
		rig_verify(&rig);
		load(&rig, 200, 16);
		rig_drain(&rig);
		rig.members[m].disk.bad_count = 0;
	}
	assert_true(rig_status(&rig).reads_reconstructed > 0);
	assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
	assert_int_equal(rig_parity_faults(&rig), 0);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_refused_write_costs_the_member_its_place(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 22);
	rig_start_active(&rig);
	load(&rig, 200, 16);
	rig.members[2].refuse_writes = true;
	load(&rig, 300, 16);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Is a write of the region map in flight, or one of anything else? */
static bool
queued(const struct rig *rig, bool map)
{
	for (int m = 0; m < rig->count; m++) {
		const struct fake_member *member = &rig->members[m];
		const uint64_t map_end = LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES;

		if (map ? fake_member_writing(member, LAYOUT_MAP_OFFSET, LAYOUT_MAP_BYTES)
			: fake_member_writing(member, 0, LAYOUT_MAP_OFFSET) ||
				    fake_member_writing(member, map_end,
							member->disk.bytes - map_end))
			return true;
	}
	return false;
}

/* A region's mark is being cleared when the next write comes: it may not trust the mark. */
static void
test_write_waits_while_its_mark_is_being_cleared(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 65536, LOAD_BYTES, 28);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	for (int i = 0; i < 20000 && (rig_status(&rig).regions_dirty > 0 || !queued(&rig, true));
	     i++)
		rig_step(&rig);
	assert_true(queued(&rig, true));
	assert_int_equal(rig_status(&rig).regions_dirty, 0);
	/* a full stripe: nothing to read first */
	rig_submit(&rig, REQUEST_WRITE, 0, 3 * 128, false);
	engine_run(rig.engine, rig.now_ms);
	assert_false(queued(&rig, false));
	rig_drain(&rig);
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_older_set_is_refused(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 3, 8192, LOAD_BYTES, 25);
	rig.epoch_recorded = 9;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 1000));
	rig_stop(&rig);
	rig.options.force_ms = UINT32_MAX;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 1000));
	assert_true(rig.epoch_recorded > 9);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Of the superblocks that know of an eviction the first arrives. */
static enum tap_verdict
one_that_knows(struct tap *tap, const struct backend_io *io)
{
	int *passed = tap->owner;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	if (!tap_superblock(io, block) ||
	    superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK ||
	    superblock.member_states[1] == MEMBER_IN_SYNC)
		return TAP_PASS;
	return (*passed)++ == 0 ? TAP_PASS : TAP_HOLD;
}

/* The only member that knows of the last eviction won't show the copy that says so: it is asked
 * again.  (One copy was enough for the gateway before: it has recorded the epoch.)
 */
static void
test_refused_superblock_copy_is_read_again(void **state)
{
	struct rig rig;
	struct tap tap;
	int passed = 0;

	rig_init(&rig, 1, 2, 65536, LOAD_BYTES, 26);
	tap_init(&tap, &rig.members[0]);
	tap.judge = one_that_knows;
	tap.owner = &passed;
	rig_start_active(&rig);
	fake_member_cut(&rig.members[1], false);
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	for (int i = 0; i < 5000 && passed < 2; i++)
		rig_step(&rig);
	assert_int_equal(passed, 2);
	tap_drop(&tap);
	tap.judge = NULL;
	rig_crash(&rig);
	rig.epoch_recorded = rig_superblock(&rig, 0).epoch;
	rig.members[0].refused_offset_bytes =
		superblock_offset(rig_superblock(&rig, 0).write_count);
	rig_start(&rig);
	rig_steps(&rig, 2000);
	assert_non_null(strstr(rig_status(&rig).reason, "newer ones are missing"));
	rig.members[0].refused_offset_bytes = 0;
	for (int i = 0; i < 50 && rig_status(&rig).state == VOLUME_ASSEMBLING; i++) {
		rig_steps(&rig, 20);
		rig_jump(&rig);
	}
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 1000));
	rig_verify(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Members without reservations: the superblock's owner stands for one. */
static void
test_volume_of_another_gateway_is_refused(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 3, 8192, LOAD_BYTES, 29);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "one pid 1 (rig) #1");
	rig_start_active(&rig);
	load(&rig, 50, 8);
	rig_crash(&rig);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "one pid 2 (rig) #1");
	rig_start_active(&rig); /* the same gateway, restarted */
	rig_crash(&rig);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "two pid 1 (rig) #2");
	for (int m = 0; m < 3; m++)
		rig.members[m].written = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 1000));
	assert_non_null(strstr(rig_status(&rig).reason, "in use by one pid 2 (rig)"));
	rig_stop(&rig);
	for (int m = 0; m < 3; m++)
		assert_false(rig.members[m].written);
	rig.options.take_over_ms = 20000;
	rig_start_active(&rig);
	rig_verify(&rig);
	rig_stop(&rig);
	/* Stopped in order: anybody may have it. */
	rig.options.take_over_ms = 0;
	snprintf(rig.options.owner, sizeof(rig.options.owner), "one pid 3 (rig) #1");
	rig_start_active(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Its start did not succeed in time; another gateway was started since, and the members are back.
 */
static void
test_a_take_over_ends_with_the_time_of_its_start(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 3, 8192, LOAD_BYTES, 30);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "one pid 1 (rig) #1");
	rig_start_active(&rig);
	rig_crash(&rig);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "two pid 1 (rig) #2");
	rig.options.take_over_ms = 1000;
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 1500);
	for (int m = 0; m < 3; m++) {
		rig.members[m].reachable = true;
		rig.members[m].written = false;
	}
	rig_steps(&rig, 5000);
	assert_non_null(strstr(rig_status(&rig).reason, "in use by one pid 1 (rig)"));
	rig_stop(&rig);
	for (int m = 0; m < 3; m++)
		assert_false(rig.members[m].written);
	rig_free(&rig);
}

/* Nobody was there in time; hours later an old set is the first that is back. */
static void
test_force_ends_with_the_time_of_its_start(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 3, 8192, LOAD_BYTES, 31);
	rig.epoch_recorded = 9;
	rig.options.force_ms = 1000;
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = false;
	rig_start(&rig);
	rig_steps(&rig, 1500);
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_FAILED, 5000));
	assert_non_null(strstr(rig_status(&rig).reason, "newer ones are missing"));
	rig_steps(&rig, 5000);
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	assert_int_equal(rig.epoch_recorded, 9);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_requests_wait_for_assembly_then_fail(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 26);
	for (int m = 0; m < 4; m++)
		rig.members[m].reachable = false;
	rig_start(&rig);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_steps(&rig, 1000);
	assert_int_equal(rig.active_count, 1);
	rig_steps(&rig, 1500);
	assert_int_equal(rig.active_count, 0);
	assert_int_equal(rig.last_error, -ENOMEDIUM);
	for (int m = 0; m < 4; m++)
		rig.members[m].reachable = true;
	rig.errors_allowed = false;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	load(&rig, 100, 8);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Another gateway takes the members one after the other: sessions of some end, commands on others
 * meet a conflict, while the load goes on.  Every request ends, nothing more is written to a taken
 * member.
 */
static void
test_volume_taken_over_under_load_writes_to_no_taken_member(void **state)
{
	for (uint64_t seed = 1; seed <= rig_lives(40); seed++) {
		struct rig rig;
		int level = seed % 4 == 0 ? 0 : 5;

		rig_init(&rig, level, 4, 8192, LOAD_BYTES, 700 + seed);
		rig_start_active(&rig);
		if (seed & 1)
			rig_wait_for_resync(&rig);
		load(&rig, 100, 24);
		rig.errors_allowed = true;
		for (int i = 0; i < 4; i++) {
			int m = (int)((seed + (uint64_t)i) % 4);

			rig.members[m].taken = true;
			rig.members[m].written = false;
			if (i < 2 && (seed >> i) & 1)
				fake_member_cut(&rig.members[m], true);
			load(&rig, (int)(seed % 7), 24);
		}
		load(&rig, 100, 24);
		rig_drain(&rig);
		/* Where the first can't be spared, requests may run out of time before the others
		 * are asked again.
		 */
		assert_true(rig_wait(&rig, VOLUME_FAILED, 1000));
		load(&rig, 1, 24);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -ESHUTDOWN);
		rig_stop(&rig);
		for (int m = 0; m < 4; m++)
			assert_false(rig.members[m].written);
		rig_free(&rig);
	}
}

static void
test_bad_requests_are_refused(void **state)
{
	struct rig rig;

	rig_init(&rig, 5, 4, 8192, LOAD_BYTES, 27);
	rig_start_active(&rig);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_READ, rig.volume_bytes / 512, 1, false);
	rig_drain(&rig);
	assert_int_equal(rig.last_error, -ERANGE);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_load_reads_what_was_written),
		cmocka_unit_test(test_clean_stop_leaves_nothing_dirty),
		cmocka_unit_test(test_what_was_written_is_proven_first_after_a_start),
		cmocka_unit_test(test_a_slow_resync_does_not_keep_a_stop_from_being_clean),
		cmocka_unit_test(test_any_member_may_be_lost_under_load),
		cmocka_unit_test(test_member_may_be_lost_while_flushes_are_under_way),
		cmocka_unit_test(test_volume_starts_without_any_one_member),
		cmocka_unit_test(test_crash_keeps_what_was_acknowledged),
		cmocka_unit_test(test_crash_at_any_step_of_an_eviction_loses_no_acknowledged_write),
		cmocka_unit_test(test_power_loss_keeps_what_was_flushed),
		cmocka_unit_test(test_dirty_and_degraded_is_never_wrong_data),
		cmocka_unit_test(test_too_many_silent_members_suspend_and_resume),
		cmocka_unit_test(test_silence_beyond_the_limit_fails_requests_and_comes_back),
		cmocka_unit_test(test_medium_error_is_reconstructed),
		cmocka_unit_test(test_refused_write_costs_the_member_its_place),
		cmocka_unit_test(test_write_waits_while_its_mark_is_being_cleared),
		cmocka_unit_test(test_older_set_is_refused),
		cmocka_unit_test(test_refused_superblock_copy_is_read_again),
		cmocka_unit_test(test_volume_of_another_gateway_is_refused),
		cmocka_unit_test(test_a_take_over_ends_with_the_time_of_its_start),
		cmocka_unit_test(test_force_ends_with_the_time_of_its_start),
		cmocka_unit_test(test_requests_wait_for_assembly_then_fail),
		cmocka_unit_test(test_volume_taken_over_under_load_writes_to_no_taken_member),
		cmocka_unit_test(test_bad_requests_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
