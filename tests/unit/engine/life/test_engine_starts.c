/* test_engine_starts.c - starts that end before their superblocks are on all members, and members
 * that become others meanwhile.
 */
#include <stdlib.h>

#include "scenario.h"

#define LOAD_BYTES (1ull << 20)
#define MEMBERS_MAX 4
#define HELD_MS 1500u

struct world {
	struct rig rig;
	struct tap taps[MEMBERS_MAX];
	uint32_t superblocks, maps; /* of these members: the writes, or the reads, are held */
	bool map_writes;	    /* held, of all members */
	int arrived;		    /* superblocks of member 1 that say that 0 is out */
};

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const uint32_t bit = 1u << (tap - world->taps);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	if (world->map_writes && io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_MAP_OFFSET &&
	    io->offset_bytes < LAYOUT_LOST_OFFSET)
		return TAP_HOLD;
	if (tap_superblock(io, block))
		return world->superblocks & bit ? TAP_HOLD : TAP_PASS;
	return io->op == BACKEND_READ && io->offset_bytes == LAYOUT_MAP_OFFSET &&
			       (world->maps & bit)
		       ? TAP_HOLD
		       : TAP_PASS;
}

static void
begin_level(struct world *world, int level, int count, uint64_t seed)
{
	*world = (struct world){ 0 };
	rig_init(&world->rig, level, count, 16384, LOAD_BYTES, seed);
	world->rig.errors_allowed = true;
	for (int i = 0; i < count; i++) {
		tap_init(&world->taps[i], &world->rig.members[i]);
		world->taps[i].judge = judge;
		world->taps[i].owner = world;
	}
	rig_start_active(&world->rig);
}

static void
begin(struct world *world, int count, uint64_t seed)
{
	begin_level(world, 5, count, seed);
}

/* Every sector has something new. */
static void
write_all(struct rig *rig)
{
	for (uint64_t sector = 0; sector < rig->sectors; sector += 256)
		rig_submit(rig, REQUEST_WRITE, sector, 256, true);
	rig_drain(rig);
}

/* All of it is written, and fits: a start has nothing to make. */
static void
begin_stopped(struct world *world, uint64_t seed)
{
	begin(world, 4, seed);
	write_all(&world->rig);
	rig_wait_for_resync(&world->rig);
	rig_stop(&world->rig);
}

/* The gateway dies when member 0 alone has the new epoch. */
static void
start_in_vain(struct world *world)
{
	struct rig *rig = &world->rig;
	const uint64_t before = rig_superblock(rig, 0).epoch;

	world->superblocks = ~1u;
	rig_start(rig);
	for (int i = 0; i < 4000 && rig_superblock(rig, 0).epoch == before; i++)
		rig_step(rig);
	assert_true(rig_superblock(rig, 0).epoch > before);
	rig_crash(rig);
	world->superblocks = 0;
	for (int i = 0; i < rig->count; i++)
		tap_drop(&world->taps[i]);
	assert_true(rig_superblock(rig, 1).epoch <= before);
}

/* Two starts end so, then the others start without it.  forgetful: another gateway, which knows
 * nothing of those starts.
 */
static void
start_in_vain_twice(int count, bool forgetful, uint64_t seed)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, count, seed);
	write_all(rig);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	start_in_vain(&world);
	start_in_vain(&world);
	if (forgetful)
		rig->epoch_recorded = rig->epoch_tried = 0;
	rig->members[0].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	write_all(rig);
	wait_until(rig, all_clean);
	rig_steps(rig, 200); /* that is on record */
	rig_crash(rig);
	assert_true(rig_superblock(rig, 0).epoch > rig_superblock(rig, 1).epoch);
	rig->members[0].reachable = true;
	rig_start(rig);
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

static void
test_a_start_that_one_member_knows_of_does_not_make_it_the_truth(void **state)
{
	(void)state;
	start_in_vain_twice(4, false, 1900);
	start_in_vain_twice(3, true, 1901);
}

/* Level 6: two starts of 0 and 1 end so, then another gateway starts the others, and 1 dies.  Who
 * is left of those that ran knows how far 1 went, though 0 never relied on them.
 */
static void
test_who_is_dead_went_on_without_a_start_that_never_ran(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_level(&world, 6, 4, 1905);
	write_all(rig);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	rig->members[2].reachable = rig->members[3].reachable = false;
	start_in_vain(&world);
	start_in_vain(&world);
	rig->epoch_recorded = rig->epoch_tried = 0;
	rig->members[2].reachable = rig->members[3].reachable = true;
	rig->members[0].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	write_all(rig);
	rig_wait_for_resync(rig);
	wait_until(rig, all_clean);
	rig_steps(rig, 200); /* that is on record */
	rig_stop(rig);
	assert_true(rig_superblock(rig, 0).epoch > rig_superblock(rig, 2).epoch);
	rig->members[0].reachable = true;
	rig->members[1].reachable = false;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* --- a start begins again --- */

/* Member 1 refuses its superblock, again and again, while the others write theirs; when 3 is back
 * the start begins again, and 0 has gone.  What it wrote in the first attempt is older than what
 * the others wrote in the second, though there was more of it.
 */
static void
test_an_attempt_is_newer_than_those_before_it(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_stopped(&world, 1904);
	rig->members[3].reachable = false;
	rig->members[1].refuse_writes = true;
	rig_start(rig);
	rig_steps(rig, 20000);
	rig->members[3].reachable = true;
	for (int i = 0; i < 20000 && strstr(rig_status(rig).reason, "another is back") == NULL; i++)
		rig_step(rig);
	assert_non_null(strstr(rig_status(rig).reason, "another is back"));
	fake_member_cut(&rig->members[0], false);
	rig->members[1].refuse_writes = false;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	write_all(rig);
	wait_until(rig, all_clean);
	rig_steps(rig, 200); /* that is on record */
	rig_crash(rig);
	assert_int_equal(rig_superblock(rig, 1).member_states[0], MEMBER_MISSING);
	assert_int_equal(rig_superblock(rig, 0).member_states[3], MEMBER_MISSING);
	assert_true(rig_superblock(rig, 0).event > rig_superblock(rig, 1).event);
	assert_true(rig_superblock(rig, 0).epoch < rig_superblock(rig, 1).epoch);
	rig->members[0].reachable = true;
	rig_start(rig);
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* Level 6: 3 is late, 0 and 1 refuse their superblocks. */
static void
test_two_who_refuse_their_superblocks_make_room_for_one_that_is_late(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_level(&world, 6, 4, 1914);
	write_all(rig);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	rig->members[3].reachable = false;
	rig->members[0].refuse_writes = rig->members[1].refuse_writes = true;
	rig_start(rig);
	rig_steps(rig, 20000);
	rig->members[3].reachable = true;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* Level 1: 1 refused the superblock that says that 0 is out, so 2 says that 1 is, too.  It is late, and
 * 1 does not take the superblock of a start without it.
 */
static void
test_who_refuses_its_superblock_makes_room_for_one_that_went_on_without_it(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_level(&world, 1, 3, 1916);
	write_all(rig);
	rig_wait_for_resync(rig);
	fake_member_cut(&rig->members[0], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
	rig->members[1].refuse_writes = true;
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	rig_drain(rig);
	for (int i = 0; i < 2000 && rig_status(rig).members[1].state == MEMBER_IN_SYNC; i++)
		rig_step(rig);
	assert_int_not_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
	rig_crash(rig);
	assert_true(rig_superblock(rig, 2).epoch > rig_superblock(rig, 1).epoch);
	/* as if it had died before it remembered that */
	rig->epoch_recorded = rig_superblock(rig, 1).epoch;
	rig->members[2].reachable = false;
	rig_start(rig);
	rig_steps(rig, 20000);
	rig->members[2].reachable = true;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig->errors_allowed = false; /* nothing is lost */
	rig_verify(rig);
	rig_stop(rig);
	rig_free(rig);
}

/* 0 goes while the superblocks are written, 3 is late. */
static void
test_who_goes_while_superblocks_are_written_makes_room_for_one_that_is_late(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_stopped(&world, 1915);
	rig->members[3].reachable = false;
	world.superblocks = 1u << 0;
	rig_start(rig);
	for (int i = 0; i < 20000 && world.taps[0].held_count == 0; i++)
		rig_step(rig);
	assert_true(world.taps[0].held_count > 0);
	world.superblocks = 0;
	fake_member_cut(&rig->members[0], false);
	rig->members[3].reachable = true;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* It hangs, so that its log-in takes long. */
static void
test_who_is_logged_in_to_again_is_not_there_yet(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t since_ms;

	(void)state;
	begin_stopped(&world, 1916);
	rig->members[3].reachable = false;
	world.superblocks = 1u << 0;
	rig_start(rig);
	for (int i = 0; i < 20000 && world.taps[0].held_count == 0; i++)
		rig_step(rig);
	assert_true(world.taps[0].held_count > 0);
	world.superblocks = 0;
	set_deadline_of_all(rig, 8000000);
	fake_member_cut(&rig->members[0], true);
	fake_member_hang(&rig->members[0]);
	rig->members[3].reachable = true;
	since_ms = rig->now_ms;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 40000));
	assert_true(rig->now_ms - since_ms < rig->options.give_up_ms + 1500);
	fake_member_continue(&rig->members[0]);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* 0 has taken its superblock, which goes with its cache, and 3 is late, so that the start begins
 * again, with both.  What that session may have taken along says nothing of later ones: when all is
 * flushed, nothing goes with the next.
 */
static void
test_what_a_cache_may_have_lost_in_an_attempt_is_not_doubted_later(void **state)
{
	(void)state;
	for (uint64_t seed = 1920; seed < 1924; seed++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 4, seed);
		set_caches(rig, true);
		write_all(rig);
		rig_wait_for_resync(rig);
		rig_stop(rig);
		rig->options.grace_ms = 1000;
		rig->members[3].reachable = false;
		world.superblocks = 1u << 1;
		rig_start(rig);
		for (int i = 0; i < 20000 && rig->members[0].disk.dirty_count == 0; i++)
			rig_step(rig);
		rig_steps(rig, 20);
		assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
		world.superblocks = 0;
		fake_member_cut(&rig->members[1], false);
		fake_member_power_loss(&rig->members[0], false);
		rig->members[3].reachable = true;
		for (int i = 0;
		     i < 20000 && strstr(rig_status(rig).reason, "another is back") == NULL; i++)
			rig_step(rig);
		assert_non_null(strstr(rig_status(rig).reason, "another is back"));
		rig->members[0].reachable = rig->members[1].reachable = true;
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
		rig->errors_allowed = false;
		wait_until(rig, all_in_sync);
		wait_until(rig, all_clean);
		rig_steps(rig, 500); /* that is on record */
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(rig);
		assert_int_equal(rig->members[0].disk.dirty_count, 0);
		fake_member_power_loss(&rig->members[0], true);
		for (int i = 0; i < 2000; i++) {
			rig_step(rig);
			assert_int_equal(rig_status(rig).members[0].state, MEMBER_IN_SYNC);
		}
		assert_int_equal(rig_status(rig).members[0].link, LINK_OPEN);
		finish(rig);
	}
}

/* --- one is lost each time --- */

/* The sessions of these members end when their maps are read.  Returns whether the volume runs
 * before limit_ms.
 */
static bool
runs_within(struct world *world, uint32_t lost, uint32_t limit_ms)
{
	struct rig *rig = &world->rig;
	const uint64_t since_ms = rig->now_ms;

	world->maps = lost;
	rig_start(rig);
	while (rig->now_ms - since_ms < limit_ms && rig_status(rig).state == VOLUME_ASSEMBLING) {
		rig_step(rig);
		for (int i = 0; i < rig->count; i++)
			if (world->taps[i].held_count > 0)
				fake_member_cut(&rig->members[i], true);
	}
	return rig_status(rig).state != VOLUME_ASSEMBLING;
}

static void
test_who_is_lost_each_time_its_map_is_read_is_not_waited_for_longer_than_who_is_away(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_stopped(&world, 1906);
	assert_true(runs_within(&world, 1u << 3, 8000));
	assert_int_equal(rig_status(rig).state, VOLUME_DEGRADED);
	write_all(rig);
	world.maps = 0;
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* It was slow to come, or a switch was: all are taken. */
static void
test_who_is_lost_once_while_its_map_is_read_is_taken(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 4, 1907);
	write_all(rig);
	rig_stop(rig);
	world.maps = 1u << 3;
	rig_start(rig);
	for (int i = 0; i < 4000 && world.taps[3].held_count == 0; i++)
		rig_step(rig);
	world.maps = 0;
	fake_member_cut(&rig->members[3], true);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 8000));
	finish(rig);
}

/* It stays when it is there for the third time. */
static void
test_who_is_lost_twice_at_once_has_as_much_time_as_who_is_away(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 4, 1909);
	write_all(rig);
	rig_stop(rig);
	rig->options.assembly_wait_ms = 10000;
	assert_false(runs_within(&world, 1u << 3, 3000));
	world.maps = 0;
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 8000));
	finish(rig);
}

/* Another gateway, which remembers nothing, and level 1: what is lost each time alone knows that
 * the other is out.
 */
static void
test_who_is_lost_each_time_is_heard(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_level(&world, 1, 2, 1912);
	write_all(rig);
	fake_member_cut(&rig->members[1], false);
	wait_until(rig, is_degraded);
	write_all(rig);
	rig_stop(rig);
	rig->epoch_recorded = rig->epoch_tried = 0;
	rig->members[1].reachable = true;
	assert_false(runs_within(&world, 1u << 0, 12000));
	world.maps = 0;
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* The same, and it stays away: what it said still counts. */
static void
test_who_has_said_that_the_other_is_out_is_heard_when_it_has_gone(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_level(&world, 1, 2, 1913);
	write_all(rig);
	fake_member_cut(&rig->members[1], false);
	wait_until(rig, is_degraded);
	write_all(rig);
	rig_stop(rig);
	rig->epoch_recorded = rig->epoch_tried = 0;
	rig->members[1].reachable = true;
	world.maps = 1u << 0;
	rig_start(rig);
	for (int i = 0; i < 4000 && world.taps[0].held_count == 0; i++)
		rig_step(rig);
	assert_true(world.taps[0].held_count > 0);
	world.maps = 0;
	fake_member_cut(&rig->members[0], false);
	assert_false(rig_wait(rig, VOLUME_DEGRADED, 40000));
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	rig->members[0].reachable = true;
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* Who would be left is too few: they are tried as long as it takes. */
static void
test_who_is_needed_is_tried_again_however_often_it_is_lost(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 4, 1908);
	write_all(rig);
	rig_stop(rig);
	assert_false(runs_within(&world, 1u << 2 | 1u << 3, 12000));
	world.maps = 0;
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 8000));
	finish(rig);
}

/* --- one copy of a superblock goes --- */

/* Of member 1's superblocks that say that 0 is out the first arrives. */
static enum tap_verdict
hold_second(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	if (!tap_superblock(io, block) ||
	    superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK ||
	    superblock.member_states[0] == MEMBER_IN_SYNC)
		return TAP_PASS;
	return world->arrived++ == 0 ? TAP_PASS : TAP_HOLD;
}

/* What is held is let go if nothing is acknowledged before. */
static void
write_all_without_second(struct world *world)
{
	struct rig *rig = &world->rig;
	const uint64_t since_ms = rig->now_ms;

	for (uint64_t sector = 0; sector < rig->sectors; sector += 256)
		rig_submit(rig, REQUEST_WRITE, sector, 256, true);
	while (rig->active_count > 0 && rig->now_ms - since_ms < HELD_MS)
		rig_step(rig);
	if (rig->active_count > 0) {
		world->taps[1].judge = judge;
		tap_let_go(&world->taps[1]);
	}
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	wait_until(rig, all_clean);
	rig_steps(rig, 200); /* that is on record */
}

/* The gateway dies when it has acknowledged what member 0 has not.  Member 1 is left with one copy,
 * and the third of them is away, or has changed, and calls member 1 in sync: another gateway must
 * not start with 0, or what it lacks would be read from it.
 */
static void
lose_newer_copy(bool at_start, bool changed, uint64_t seed)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, 3, seed);
	write_all(rig);
	rig_wait_for_resync(rig);
	if (at_start) {
		rig_crash(rig);
		rig->members[0].reachable = false;
		rig_start(rig);
	} else {
		fake_member_cut(&rig->members[0], false);
	}
	world.taps[1].judge = hold_second;
	write_all_without_second(&world);
	rig_crash(rig);
	world.taps[1].judge = judge;
	tap_drop(&world.taps[1]);
	damage_newer_superblock(rig, 1);
	rig->epoch_recorded = rig->epoch_tried = 0;
	rig->members[0].reachable = true;
	rig->members[2].reachable = changed;
	rig->members[2].told_block_bytes = changed ? 4096 : 0;
	rig_start(rig);
	rig_steps(rig, 10000);
	assert_int_equal(rig_status(rig).state, changed ? VOLUME_FAILED : VOLUME_ASSEMBLING);
	rig->members[2].told_block_bytes = 0;
	rig->members[2].reachable = true;
	fake_member_cut(&rig->members[2], true);
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

static void
test_a_lost_copy_does_not_take_along_who_is_out(void **state)
{
	(void)state;
	lose_newer_copy(false, false, 1910);
	lose_newer_copy(true, false, 1911);
}

static void
test_a_lost_copy_beside_one_that_has_changed_does_not_take_along_who_is_out(void **state)
{
	(void)state;
	lose_newer_copy(false, true, 1912);
	lose_newer_copy(true, true, 1913);
}

/* --- a copy that is in a cache only --- */

/* The gateway died while this member was writing its newest superblock through. */
static void
leave_superblock_in_cache(struct rig *rig, int index)
{
	struct superblock superblock = rig_superblock(rig, index);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	superblock.write_count++;
	superblock.event++;
	superblock_encode(&superblock, block);
	disk_write(&rig->members[index].disk, superblock_offset(superblock.write_count), block,
		   sizeof(block), false);
}

/* The power goes while the next gateway's first superblock is being written. */
static void
tear_first_superblock(struct world *world, int index)
{
	static const uint8_t rubbish[RIG_SECTOR];
	struct rig *rig = &world->rig;

	world->superblocks = 1u << index;
	rig_start(rig);
	for (int i = 0; i < 20000 && world->taps[index].held_count == 0; i++)
		rig_step(rig);
	assert_true(world->taps[index].held_count > 0);
	disk_write(&rig->members[index].disk, world->taps[index].held[0]->offset_bytes, rubbish,
		   sizeof(rubbish), true);
	rig_crash(rig);
	tap_drop(&world->taps[index]);
	world->superblocks = 0;
	fake_member_power_loss(&rig->members[index], true);
}

static void
test_a_superblock_that_is_in_a_cache_only_is_flushed_before_the_other_copy_is_overwritten(
	void **state)
{
	(void)state;
	for (uint64_t seed = 1930; seed < 1938; seed++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin_stopped(&world, seed);
		set_caches(rig, true);
		leave_superblock_in_cache(rig, 2);
		tear_first_superblock(&world, 2);
		rig_start_active(rig);
		rig->errors_allowed = false; /* nothing is lost */
		finish(rig);
	}
}

/* A member that is back had taken a superblock that nobody was told of, in its cache.  It is filled,
 * and loses its power: that it is older than what others say of it would cost all it holds.
 */
static void
test_others_are_told_of_no_superblock_that_is_in_a_cache_only(void **state)
{
	(void)state;
	for (uint64_t seed = 1940; seed < 1948; seed++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin_stopped(&world, seed);
		set_caches(rig, true);
		rig_start_active(rig);
		rig->errors_allowed = false;
		fake_member_cut(&rig->members[3], false);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
		write_all(rig);
		leave_superblock_in_cache(rig, 3);
		world.superblocks = 1u << 3;
		rig->members[3].reachable = true;
		wait_for_state(rig, 3, MEMBER_REBUILDING);
		rig_steps(rig, 60); /* the others know */
		fake_member_cut(&rig->members[3], false);
		disk_power_loss(&rig->members[3].disk, &rig->random, 0, NULL, NULL);
		world.superblocks = 0;
		rig->members[3].reachable = true;
		wait_until(rig, all_in_sync);
		/* one that is filled from the start is counted from far above (target.c) */
		assert_true(rig_superblock(rig, 3).write_count < UINT32_MAX);
		finish(rig);
	}
}

/* --- another gateway has had the volume meanwhile, and its targets know no reservations --- */

#define LONG_WAIT_MS 8000u /* for members that are absent */

struct meanwhile {
	struct world world;
	uint8_t *before[MEMBERS_MAX], *after[MEMBERS_MAX];
};

static uint8_t *content(struct rig *rig, int index);

static void
become(struct rig *rig, uint8_t *bytes[MEMBERS_MAX])
{
	for (int i = 0; i < rig->count; i++) {
		disk_write(&rig->members[i].disk, 0, bytes[i], RIG_MEMBER_BYTES, true);
		free(bytes[i]);
	}
}

/* What the other one is going to do is known, and not done yet.  Then this one starts, and hears of
 * those that it reaches.
 */
static void
begin_meanwhile(struct meanwhile *meanwhile, int evicted, bool stopped, uint32_t unreachable,
		uint64_t seed)
{
	struct rig *rig = &meanwhile->world.rig;
	uint64_t epoch;

	begin(&meanwhile->world, 4, seed);
	write_all(rig);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	epoch = rig->epoch_recorded;
	for (int i = 0; i < rig->count; i++)
		meanwhile->before[i] = content(rig, i);
	strcpy(rig->options.owner, "other#2");
	rig_start_active(rig);
	if (evicted >= 0) {
		fake_member_cut(&rig->members[evicted], false);
		wait_until(rig, is_degraded);
	}
	write_all(rig);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
	rig_steps(rig, 500);
	if (stopped)
		rig_stop(rig);
	else
		rig_crash(rig);
	for (int i = 0; i < rig->count; i++)
		meanwhile->after[i] = content(rig, i);
	become(rig, meanwhile->before);
	strcpy(rig->options.owner, "rig#1");
	rig->epoch_recorded = epoch;
	rig->options.assembly_wait_ms = LONG_WAIT_MS;
	for (int i = 0; i < rig->count; i++)
		rig->members[i].reachable = !(unreachable & 1u << i);
	rig_start(rig);
	rig_steps(rig, 2000);
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	become(rig, meanwhile->after);
}

static void
come_all(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++)
		rig->members[i].reachable = true;
}

/* One is out since, whose session stayed, as did those of the others.  It lacks all that was
 * written.
 */
static void
test_who_was_taken_out_while_this_gateway_waited_is_not_trusted(void **state)
{
	struct meanwhile meanwhile;
	struct rig *rig = &meanwhile.world.rig;

	(void)state;
	begin_meanwhile(&meanwhile, 3, true, 1u << 2, 1940);
	rig_steps(rig, 2 * LONG_WAIT_MS);
	assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	come_all(rig);
	wait_until(rig, all_in_sync);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

static void
test_volume_that_another_gateway_took_while_this_one_waited_is_left_to_it(void **state)
{
	struct meanwhile meanwhile;
	struct rig *rig = &meanwhile.world.rig;

	(void)state;
	begin_meanwhile(&meanwhile, -1, false, 1u << 2, 1941);
	rig_steps(rig, 2 * LONG_WAIT_MS);
	assert_int_equal(rig_status(rig).state, VOLUME_FAILED);
	assert_non_null(strstr(rig_status(rig).reason, "in use by other#2"));
	rig_stop(rig);
	rig_free(rig);
}

/* Who is new to this one tells of more writes than the others have shown. */
static void
test_nobody_went_back_because_another_gateway_has_written_meanwhile(void **state)
{
	struct meanwhile meanwhile;
	struct rig *rig = &meanwhile.world.rig;

	(void)state;
	begin_meanwhile(&meanwhile, -1, true, 1u << 2 | 1u << 3, 1942);
	come_all(rig);
	rig_steps(rig, 2 * LONG_WAIT_MS);
	assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
	rig->errors_allowed = false; /* nothing is lost */
	finish(rig);
}

/* --- two change their addresses --- */

static uint8_t *
content(struct rig *rig, int index)
{
	uint8_t *bytes = malloc(RIG_MEMBER_BYTES);

	assert_non_null(bytes);
	disk_read(&rig->members[index].disk, 0, bytes, RIG_MEMBER_BYTES);
	return bytes;
}

static void
exchange(struct rig *rig, int one, int other)
{
	uint8_t *first = content(rig, one), *second = content(rig, other);

	disk_write(&rig->members[one].disk, 0, second, RIG_MEMBER_BYTES, true);
	disk_write(&rig->members[other].disk, 0, first, RIG_MEMBER_BYTES, true);
	free(first);
	free(second);
}

/* While the maps are read, so nothing was written yet: each is who it says to be when it is back.
 */
static void
members_change_addresses(bool reservations, uint64_t seed)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin(&world, 4, seed);
	write_all(rig);
	rig_wait_for_resync(rig);
	rig_stop(rig);
	for (int i = 0; i < 4; i++)
		rig->members[i].reservations = reservations;
	world.maps = 1u << 3;
	rig_start(rig);
	for (int i = 0; i < 2000 && world.taps[3].held_count == 0; i++)
		rig_step(rig);
	assert_int_equal(world.taps[3].held_count, 1);
	rig_steps(rig, 100);
	fake_member_cut(&rig->members[0], true);
	fake_member_cut(&rig->members[1], true);
	exchange(rig, 0, 1);
	rig_steps(rig, 500); /* both are back */
	world.maps = 0;
	tap_let_go(&world.taps[3]);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 20000));
	assert_int_equal(rig_status(rig).members[0].role, 1);
	assert_int_equal(rig_status(rig).members[1].role, 0);
	write_all(rig);
	finish(rig);
}

/* Where targets know no reservations, superblocks are read again before the start, when nobody
 * counts as in use any more.
 */
static void
test_members_that_change_addresses_during_a_start_are_known(void **state)
{
	(void)state;
	members_change_addresses(false, 1902);
	members_change_addresses(true, 1917);
}

/* --- a start by force is called off --- */

static void
note_end(void *owner)
{
	((struct rig *)owner)->stopped = true;
}

/* The maps of those that are taken are just being written.  What was begun ends, and nothing is
 * begun any more.
 */
static void
test_a_start_by_force_that_is_called_off_writes_no_superblocks(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint64_t before[MEMBERS_MAX];

	(void)state;
	begin(&world, 4, 1903);
	write_all(rig);
	fake_member_cut(&rig->members[1], false);
	wait_until(rig, is_degraded);
	rig_stop(rig);
	rig->members[1].reachable = true;
	rig->members[2].reachable = false;
	rig->options.force_ms = UINT32_MAX;
	for (int i = 0; i < 4; i++)
		before[i] = rig_superblock(rig, i).write_count;
	world.map_writes = true;
	rig_start(rig);
	for (int i = 0; i < 5000 && world.taps[1].held_count == 0; i++)
		rig_step(rig);
	assert_int_not_equal(world.taps[1].held_count, 0);
	/* Sessions take a while to end, and what is under way ends before that. */
	for (int i = 0; i < 4; i++)
		rig->members[i].close_us_max = 2000000;
	engine_stop(rig->engine, note_end, rig);
	rig_step(rig);
	world.map_writes = false;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	rig_stop(rig);
	for (int i = 0; i < 4; i++)
		assert_int_equal(rig_superblock(rig, i).write_count, before[i]);
	rig_start(rig);
	rig->members[2].reachable = true;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig_crash(rig);
	rig_free(rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_start_that_one_member_knows_of_does_not_make_it_the_truth),
		cmocka_unit_test(test_who_is_dead_went_on_without_a_start_that_never_ran),
		cmocka_unit_test(test_an_attempt_is_newer_than_those_before_it),
		cmocka_unit_test(
			test_two_who_refuse_their_superblocks_make_room_for_one_that_is_late),
		cmocka_unit_test(
			test_who_refuses_its_superblock_makes_room_for_one_that_went_on_without_it),
		cmocka_unit_test(
			test_who_goes_while_superblocks_are_written_makes_room_for_one_that_is_late),
		cmocka_unit_test(test_who_is_logged_in_to_again_is_not_there_yet),
		cmocka_unit_test(
			test_what_a_cache_may_have_lost_in_an_attempt_is_not_doubted_later),
		cmocka_unit_test(
			test_who_is_lost_each_time_its_map_is_read_is_not_waited_for_longer_than_who_is_away),
		cmocka_unit_test(test_who_is_lost_once_while_its_map_is_read_is_taken),
		cmocka_unit_test(test_who_is_lost_twice_at_once_has_as_much_time_as_who_is_away),
		cmocka_unit_test(test_who_is_lost_each_time_is_heard),
		cmocka_unit_test(test_who_has_said_that_the_other_is_out_is_heard_when_it_has_gone),
		cmocka_unit_test(test_who_is_needed_is_tried_again_however_often_it_is_lost),
		cmocka_unit_test(test_a_lost_copy_does_not_take_along_who_is_out),
		cmocka_unit_test(test_others_are_told_of_no_superblock_that_is_in_a_cache_only),
		cmocka_unit_test(
			test_a_superblock_that_is_in_a_cache_only_is_flushed_before_the_other_copy_is_overwritten),
		cmocka_unit_test(
			test_a_lost_copy_beside_one_that_has_changed_does_not_take_along_who_is_out),
		cmocka_unit_test(test_members_that_change_addresses_during_a_start_are_known),
		cmocka_unit_test(test_a_start_by_force_that_is_called_off_writes_no_superblocks),
		cmocka_unit_test(test_who_was_taken_out_while_this_gateway_waited_is_not_trusted),
		cmocka_unit_test(
			test_volume_that_another_gateway_took_while_this_one_waited_is_left_to_it),
		cmocka_unit_test(
			test_nobody_went_back_because_another_gateway_has_written_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
