/* test_engine_replaced.c - a place changes hands durably first (docs/design/members.md): whoever a
 * superblock on some member trusts has every write that was acknowledged, at every moment of a
 * replacement.
 */
#include "engine/life/engine.h"
#include "rig.h"
#include "tap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOAD_BYTES (2ull << 20)
#define SPARE 4 /* rig->members[] of the spare, and its slot */
#define ROLE 1	/* whose place it takes */
#define DATA_OFFSET (4u << 20)

static char why[256];

struct world {
	struct rig rig;
	struct tap taps[SPARE + 1];
	/* of these members, superblocks that give the place away are held */
	uint32_t held_for;
	uint32_t refused_for;
	uint32_t all_held_for; /* of these, all superblocks */
	bool given;	       /* somebody was sent such a superblock */
	/* and what the spare is sent for this range of it */
	uint64_t refuse_from, refuse_to;
	int refusals;	 /* of the latter */
	bool asks_held;	 /* writes by which members are asked for another gateway */
	bool reads_held; /* of data, from the former */
	int late_result; /* so they are answered when its session is being given back */
	int late;	 /* how many were */
};

/* Does the superblock say that the spare has the place? */
static bool
gives_place(const struct world *world, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES], spare[16];
	struct superblock superblock;

	(void)world;
	memset(spare, 0x50 + SPARE, sizeof(spare));
	return tap_superblock(io, block) &&
	       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
	       memcmp(superblock.member_uuids[ROLE], spare, sizeof(spare)) == 0;
}

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const int index = (int)(tap - world->taps);

	if (index == SPARE && io->op != BACKEND_READ && io->op != BACKEND_FLUSH &&
	    io->offset_bytes < world->refuse_to && io->offset_bytes >= world->refuse_from) {
		world->refusals++;
		return TAP_REFUSE;
	}
	if (world->asks_held && io->op == BACKEND_WRITE && io->offset_bytes == LAYOUT_ASK_OFFSET)
		return TAP_HOLD;
	if (world->reads_held && index == ROLE && io->op == BACKEND_READ &&
	    io->offset_bytes >= DATA_OFFSET)
		return TAP_HOLD;
	if ((world->all_held_for & (1u << index)) && io->op == BACKEND_WRITE &&
	    io->offset_bytes < LAYOUT_MAP_OFFSET)
		return TAP_HOLD;
	if (!gives_place(world, io))
		return TAP_PASS;
	world->given = true;
	if (world->refused_for & (1u << index))
		return TAP_REFUSE;
	return world->held_for & (1u << index) ? TAP_HOLD : TAP_PASS;
}

static void
tap(struct world *world, int index)
{
	tap_init(&world->taps[index], &world->rig.members[index]);
	world->taps[index].judge = judge;
	world->taps[index].owner = world;
}

static void
load(struct rig *rig, int requests, int depth)
{
	for (int i = 0; i < requests; i++) {
		if (rig->active_count < depth)
			rig_submit_random(rig);
		rig_step(rig);
	}
}

/* A volume of four and a spare that is to replace a member which is in sync.  Level 5, or 1 with 2
 * + 2 copies' worth.
 */
static void
start(struct world *world, int level, int members, uint64_t seed)
{
	struct rig *rig = &world->rig;

	*world = (struct world){ 0 };
	rig_init(rig, level, members, 16384, LOAD_BYTES, seed);
	for (int i = 0; i < members; i++)
		tap(world, i);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_mark_spare(rig, SPARE, RIG_MEMBER_BYTES);
	tap(world, SPARE);
}

static int
attach(struct world *world)
{
	int slot = engine_attach(world->rig.engine, &world->rig.members[SPARE].backend, why);

	assert_int_equal(slot, SPARE);
	for (int i = 0; i < 200 && rig_status(&world->rig).members[slot].state == 0; i++)
		rig_step(&world->rig);
	return slot;
}

/* Replace under load, until the first superblock that gives the place away is on its way. */
static void
replace_until_given(struct world *world, uint32_t held_for)
{
	struct rig *rig = &world->rig;
	int slot = attach(world);

	world->held_for = held_for;
	assert_int_equal(engine_replace(rig->engine, ROLE, slot, why), 0);
	for (int i = 0; i < 200000 && !world->given; i++)
		load(rig, 1, 16);
	assert_true(world->given);
}

static void
crash(struct world *world)
{
	world->rig.count = SPARE + 1;
	rig_crash(&world->rig);
	for (int i = 0; i <= SPARE; i++)
		if (world->taps[i].member != NULL)
			tap_drop(&world->taps[i]);
	world->held_for = 0;
	world->refused_for = 0;
}

/* The members and the spare, all of them. */
static void
start_with_spare(struct world *world)
{
	struct rig *rig = &world->rig;

	rig->count = SPARE + 1;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 20000));
}

static void
finish(struct world *world)
{
	rig_verify(&world->rig);
	rig_stop(&world->rig);
	rig_free(&world->rig);
}

static void
test_write_acknowledged_before_the_superblocks_know_is_on_both(void **state)
{
	struct world world;

	/* Several, for what is under way at that moment differs. */
	for (uint64_t seed = 1; seed <= rig_lives(12); seed++) {
		start(&world, 5, 4, seed);
		replace_until_given(&world, ~0u);
		rig_steps(&world.rig, 200); /* what is under way ends as far as it can */
		crash(&world);
		/* the superblocks of before: the former is trusted */
		start_with_spare(&world);
		finish(&world);
	}
}

static void
test_whichever_superblock_wins_has_every_write(void **state)
{
	struct world world;

	/* The superblock that gives the place away gets to some members only, in each way. */
	for (uint32_t held = 0; held < 1u << (SPARE + 1); held++) {
		start(&world, 5, 4, 100 + held);
		replace_until_given(&world, held);
		rig_steps(&world.rig, 200);
		crash(&world);
		start_with_spare(&world);
		finish(&world);
	}
}

static void
test_new_member_lost_before_its_place_is_durable_gives_it_back(void **state)
{
	struct world world;

	for (uint64_t seed = 200; seed < 200 + rig_lives(8); seed++) {
		start(&world, 5, 4, seed);
		replace_until_given(&world, 0xE); /* it and member 0 take the superblock */
		rig_steps(&world.rig, 20);
		fake_member_cut(&world.rig.members[SPARE], false);
		rig_steps(&world.rig, 5);
		for (int i = 0; i <= SPARE; i++)
			tap_let_go(&world.taps[i]);
		world.held_for = 0;
		load(&world.rig, 500, 16);
		rig_drain(&world.rig);
		assert_int_equal(rig_status(&world.rig).state, VOLUME_ACTIVE);
		assert_int_equal(rig_status(&world.rig).members[ROLE].state, MEMBER_IN_SYNC);
		if (seed & 1) {
			crash(&world);
			world.rig.members[SPARE].reachable = true;
			start_with_spare(&world);
		}
		world.rig.members[SPARE].reachable = true;
		load(&world.rig, 2000, 16);
		rig_drain(&world.rig);
		finish(&world);
	}
}

static void
test_new_member_that_refuses_its_superblock_does_not_get_the_place(void **state)
{
	struct world world;

	start(&world, 5, 4, 300);
	world.refused_for = 1u << SPARE;
	replace_until_given(&world, 0);
	load(&world.rig, 500, 16);
	rig_drain(&world.rig);
	assert_int_equal(rig_status(&world.rig).members[ROLE].state, MEMBER_IN_SYNC);
	assert_true(rig_status(&world.rig).members[SPARE].state != MEMBER_IN_SYNC);
	world.refused_for = 0;
	/* not before somebody says so */
	assert_int_equal(engine_readmit(world.rig.engine, SPARE, why), 0);
	for (int i = 0; i < 30000 && rig_status(&world.rig).members[SPARE].state != MEMBER_IN_SYNC;
	     i++)
		load(&world.rig, 1, 4);
	assert_int_equal(rig_status(&world.rig).members[SPARE].role, ROLE);
	rig_drain(&world.rig);
	finish(&world);
}

/* What it refuses: its marks, its superblock, rows, and rows when others are on it already. */
static const struct {
	uint64_t from, to;
} refused[] = {
	{ LAYOUT_MAP_OFFSET, UINT64_MAX },
	{ 0, LAYOUT_MAP_OFFSET },
	{ 4u << 20, UINT64_MAX },
	{ 6u << 20, UINT64_MAX },
};

static void
refuse(struct world *world, size_t what)
{
	world->refuse_from = refused[what].from;
	world->refuse_to = refused[what].to;
}

static void
test_chosen_spare_that_refuses_writes_is_given_up(void **state)
{
	for (size_t what = 0; what < sizeof(refused) / sizeof(refused[0]); what++) {
		struct world world;
		struct rig *rig = &world.rig;
		int slot, refusals;

		start(&world, 5, 4, 1100 + what);
		slot = attach(&world);
		refuse(&world, what);
		assert_int_equal(engine_replace(rig->engine, ROLE, slot, why), 0);
		load(rig, 500, 8);
		rig_steps(rig, 5000);
		refusals = world.refusals;
		assert_true(refusals > 0);
		load(rig, 500, 8);
		rig_steps(rig, 60000);
		assert_int_equal(world.refusals, refusals);
		assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
		assert_int_equal(rig_status(rig).members[ROLE].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(rig).members[slot].state, MEMBER_FAULTY);
		assert_non_null(strstr(rig_status(rig).members[slot].reason, "administrator"));
		/* Mended, and taken back: one whose place was on record goes on, another is a spare
		 * again.
		 */
		world.refuse_to = 0;
		assert_int_equal(engine_readmit(rig->engine, slot, why), 0);
		rig_steps(rig, 100);
		assert_true(what != 3 || rig_status(rig).members[slot].state != MEMBER_SPARE);
		if (rig_status(rig).members[slot].state == MEMBER_SPARE)
			assert_int_equal(engine_replace(rig->engine, ROLE, slot, why), 0);
		for (int i = 0; i < 30000 && rig_status(rig).members[slot].state != MEMBER_IN_SYNC;
		     i++)
			load(rig, 1, 4);
		assert_int_equal(rig_status(rig).members[slot].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(rig).members[slot].role, ROLE);
		rig_drain(rig);
		finish(&world);
	}
}

static void
test_chosen_spare_that_is_taken_out_stays_out(void **state)
{
	for (int away = 0; away < 2; away++) {
		struct world world;
		struct rig *rig = &world.rig;
		int slot;

		start(&world, 5, 4, 1120);
		slot = attach(&world);
		assert_int_equal(engine_replace(rig->engine, ROLE, slot, why), 0);
		for (int i = 0; i < 20000 && rig_status(rig).rebuild.done_rows < 20; i++)
			rig_step(rig);
		if (away) {
			fake_member_cut(&rig->members[SPARE], false);
			rig_steps(rig, 500);
		}
		assert_int_equal(engine_fail(rig->engine, slot, why), 0);
		rig->members[SPARE].reachable = true;
		rig_steps(rig, 30000);
		assert_int_equal(rig_status(rig).members[slot].state, MEMBER_FAULTY);
		assert_int_equal(rig_status(rig).members[ROLE].state, MEMBER_IN_SYNC);
		finish(&world);
	}
}

/* Nobody chose it: its place is empty. */
static void
test_spare_that_refuses_writes_makes_way_for_the_next(void **state)
{
	for (size_t what = 0; what < sizeof(refused) / sizeof(refused[0]); what++) {
		struct world world;
		struct rig *rig = &world.rig;
		int refusals;

		start(&world, 5, 4, 1130 + what);
		refuse(&world, what);
		(void)attach(&world);
		fake_member_cut(&rig->members[ROLE], false);
		load(rig, 500, 8);
		rig_drain(rig);
		rig_steps(rig, 10000);
		refusals = world.refusals;
		assert_true(refusals > 0);
		rig_steps(rig, 60000);
		assert_int_equal(world.refusals, refusals);
		assert_int_equal(rig_status(rig).members[SPARE].state, MEMBER_FAULTY);
		rig_mark_spare(rig, SPARE + 1, RIG_MEMBER_BYTES);
		assert_int_equal(engine_attach(rig->engine, &rig->members[SPARE + 1].backend, why),
				 SPARE + 1);
		for (int i = 0; i < 60000 && rig_status(rig).state != VOLUME_ACTIVE; i++)
			rig_step(rig);
		assert_int_equal(rig_status(rig).members[SPARE + 1].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(rig).members[SPARE + 1].role, ROLE);
		finish(&world);
	}
}

static void
test_former_may_fall_silent_while_the_place_changes_hands(void **state)
{
	struct world world;

	for (uint64_t seed = 400; seed < 400 + rig_lives(8); seed++) {
		start(&world, 5, 4, seed);
		replace_until_given(&world, 0x5);
		fake_member_cut(&world.rig.members[ROLE], true);
		rig_steps(&world.rig, 100);
		if (seed & 1) { /* and the new one too: it gives the place back */
			fake_member_cut(&world.rig.members[SPARE], true);
			rig_steps(&world.rig, 5);
		}
		if (seed & 2) {
			crash(&world);
			start_with_spare(&world);
			load(&world.rig, 300, 16);
			rig_drain(&world.rig);
			finish(&world);
			continue;
		}
		world.held_for = 0;
		for (int i = 0; i <= SPARE; i++)
			tap_let_go(&world.taps[i]);
		load(&world.rig, 3000, 16);
		rig_drain(&world.rig);
		assert_int_equal(rig_status(&world.rig).state, VOLUME_ACTIVE);
		finish(&world);
	}
}

static void
test_other_member_may_be_evicted_while_the_place_changes_hands(void **state)
{
	struct world world;

	for (uint64_t seed = 500; seed < 500 + rig_lives(8); seed++) {
		start(&world, 6, 4, seed);
		replace_until_given(&world, 0x8);
		fake_member_cut(&world.rig.members[3], false);
		load(&world.rig, 600, 16);
		if (seed & 1)
			crash(&world);
		else
			rig_drain(&world.rig);
		if (seed & 1) {
			world.rig.members[3].reachable = true;
			/* what was under way while it was out */
			world.rig.errors_allowed = true;
			start_with_spare(&world);
		}
		finish(&world);
	}
}

static void
test_empty_place_is_taken_durably_too(void **state)
{
	struct world world;

	for (uint64_t seed = 600; seed < 600 + rig_lives(8); seed++) {
		struct rig *rig = &world.rig;

		start(&world, 5, 4, seed);
		fake_member_cut(&rig->members[ROLE], false);
		load(rig, 300, 8);
		rig_drain(rig);
		world.held_for = (uint32_t)seed & 0x1F;
		(void)attach(&world); /* it is wanted at once */
		for (int i = 0; i < 200000 && !world.given; i++)
			load(rig, 1, 16);
		rig_steps(rig, 20);
		rig_submit(rig, REQUEST_WRITE, 0, rig->sectors / 4, false);
		rig_steps(rig, 200);
		if (seed & 1) {
			fake_member_cut(&rig->members[SPARE], true);
			rig_steps(rig, 10);
		}
		world.held_for = 0;
		for (int i = 0; i <= SPARE; i++)
			tap_let_go(&world.taps[i]);
		load(rig, 1000, 16);
		rig_drain(rig);
		for (int i = 0; i < 20000 && rig_status(rig).state != VOLUME_ACTIVE; i++)
			rig_step(rig);
		assert_int_equal(rig_status(rig).members[SPARE].state, MEMBER_IN_SYNC);
		finish(&world);
	}
}

static void
test_stop_while_the_place_changes_hands_ends(void **state)
{
	struct world world;

	start(&world, 5, 4, 700);
	replace_until_given(&world, 0x2D); /* never let go */
	rig_steps(&world.rig, 50);
	world.rig.errors_allowed = true; /* what is cut off */
	rig_stop(&world.rig);
	for (int i = 0; i <= SPARE; i++)
		tap_drop(&world.taps[i]);
	world.held_for = 0;
	start_with_spare(&world);
	finish(&world);
}

static void
test_copies_change_hands_durably_too(void **state)
{
	struct world world;

	for (uint64_t seed = 800; seed < 800 + rig_lives(8); seed++) {
		start(&world, 1, 4, seed);
		replace_until_given(&world, seed & 1 ? ~0u : 0x9);
		rig_steps(&world.rig, 200);
		crash(&world);
		start_with_spare(&world);
		finish(&world);
	}
}

/* Level 6, never written rows whose P and Q don't fit each other.  What is copied to the target
 * while one is out is made from one of them; when a second goes, both are needed, and say something
 * else.
 */
static void
test_what_was_copied_before_parity_defined_it_is_copied_again(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	for (uint64_t seed = 900; seed < 900 + rig_lives(8); seed++) {
		world = (struct world){ 0 };
		rig_init(rig, 6, 6, 16384, LOAD_BYTES, seed);
		rig->options.resync_rows_max = 1;
		rig_start_active(rig);
		fake_member_cut(&rig->members[ROLE], false);
		rig_submit(rig, REQUEST_WRITE, 0, 8, false);
		rig_drain(rig);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
		rig_mark_spare(rig, 6, RIG_MEMBER_BYTES);
		assert_int_equal(engine_attach(rig->engine, &rig->members[6].backend, why), 6);
		for (int i = 0; i < 20000 && rig_status(rig).rebuild.done_rows < 40; i++)
			rig_step(rig);
		assert_in_range(rig_status(rig).rebuild.done_rows, 40, 900);
		fake_member_cut(&rig->members[2], false);
		rig_submit(rig, REQUEST_WRITE, 8, 8, false);
		rig_drain(rig);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
		for (uint64_t sector = 3; sector < rig->sectors; sector += 32)
			rig_submit(rig, REQUEST_WRITE, sector, 1 + sector % 5, false);
		rig_drain(rig);
		fake_member_cut(&rig->members[6], false);
		rig_steps(rig, 500);
		rig_steps(rig, 500);
		rig_verify(rig);
		rig_stop(rig);
		rig_free(rig);
	}
}

/* The link of the gateway breaks and comes back, to the new member first: nobody is evicted
 * meanwhile, and those that were sent away although they answer are taken back.  The new member is
 * none of them: its place is another's again.
 */
static void
test_new_member_that_gives_its_place_back_is_not_kept(void **state)
{
	struct world world;

	for (uint64_t seed = 1000; seed < 1000 + rig_lives(8); seed++) {
		struct rig *rig = &world.rig;

		start(&world, 5, 4, seed);
		replace_until_given(&world, 0x5);
		for (int i = 0; i <= SPARE; i++)
			fake_member_cut(&rig->members[i], false);
		rig_steps(rig, 300);
		rig->members[SPARE].reachable = true;
		rig_steps(rig, 500);
		assert_int_not_equal(rig_status(rig).members[SPARE].state, MEMBER_IN_SYNC);
		world.held_for = 0;
		for (int i = 0; i < SPARE; i++)
			rig->members[i].reachable = true;
		rig->errors_allowed = true; /* a flush, for the caches of all are in doubt */
		load(rig, 2000, 16);
		rig_drain(rig);
		rig->errors_allowed = false;
		for (int i = 0; i < 30000 && rig_status(rig).members[SPARE].state != MEMBER_IN_SYNC;
		     i++)
			load(rig, 1, 4); /* it is still wanted */
		rig_drain(rig);
		assert_int_equal(rig_status(rig).members[SPARE].role, ROLE);
		/* who was back last may have had to catch up */
		assert_true(rig_wait(rig, VOLUME_ACTIVE, 5000));
		crash(&world);
		start_with_spare(&world);
		finish(&world);
	}
}

/* What the former refused while it was to go waits for its end.  It stays, so that is sent again.
 */
static void
test_former_that_refused_a_write_and_stays_is_sent_it_again(void **state)
{
	struct world world;

	for (uint64_t seed = 1100; seed < 1100 + rig_lives(8); seed++) {
		struct rig *rig = &world.rig;

		start(&world, 5, 4, seed);
		replace_until_given(&world, 0x5);
		rig->members[ROLE].refuse_writes = true;
		rig_steps(rig, 20);
		rig->members[ROLE].refuse_writes = false;
		fake_member_cut(&rig->members[SPARE], false);
		rig_steps(rig, 5);
		world.held_for = 0;
		for (int i = 0; i <= SPARE; i++)
			tap_let_go(&world.taps[i]);
		load(rig, 500, 16);
		rig_drain(rig);
		assert_int_equal(rig_status(rig).members[ROLE].state, MEMBER_IN_SYNC);
		finish(&world);
	}
}

static bool
is_copied(struct rig *rig)
{
	const struct engine_status status = rig_status(rig);

	return status.rebuild_slot == SPARE && status.rebuild.total_rows > 0 &&
	       status.rebuild.done_rows == status.rebuild.total_rows;
}

/* The others are asked first: on levels whose halves can live that member may be all that the other
 * gateway needs.
 */
static void
test_place_does_not_change_hands_while_its_holder_speaks_of_another_gateway(void **state)
{
	struct world world = { 0 };
	struct rig *rig = &world.rig;
	int slot;

	rig_init(rig, 5, 4, 16384, LOAD_BYTES, 1200);
	rig->members[ROLE].disk.write_cache = false;
	for (int i = 0; i < 4; i++)
		tap(&world, i);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_mark_spare(rig, SPARE, RIG_MEMBER_BYTES);
	tap(&world, SPARE);
	slot = attach(&world);
	assert_int_equal(engine_replace(rig->engine, ROLE, slot, why), 0);
	for (int i = 0; i < 20000 && !is_copied(rig); i++)
		rig_step(rig);
	assert_true(is_copied(rig));
	world.asks_held = true;
	rig->members[ROLE].conflicts = true;
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors / 4, false);
	rig_steps(rig, 1500);
	assert_int_not_equal(world.taps[0].held_count, 0);
	assert_false(world.given);
	world.asks_held = false;
	for (int i = 0; i <= SPARE; i++)
		tap_let_go(&world.taps[i]);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_ACTIVE, 20000));
	assert_int_equal(rig_status(rig).members[SPARE].state, MEMBER_IN_SYNC);
	finish(&world);
}

static struct world *late_world;

static void
answer_and_release(struct backend *backend)
{
	struct tap *former = &late_world->taps[ROLE];
	const int count = former->held_count;

	former->held_count = 0;
	for (int i = 0; i < count; i++) {
		former->held[i]->result = late_world->late_result;
		former->held[i]->done(former->held[i]);
	}
	late_world->late += count;
	backend->ops->close(backend);
}

/* It has no place any more, so nobody can say which chunk its answer is about, nor is it taken for
 * one.
 */
static void
check_late_answer(int result)
{
	struct world world;
	struct rig *rig = &world.rig;
	struct backend_ops below;

	start(&world, 5, 4, 1300);
	world.late_result = result;
	late_world = &world;
	below = *world.taps[ROLE].below;
	below.release = answer_and_release;
	world.taps[ROLE].below = &below;
	rig_submit(rig, REQUEST_WRITE, 0, 96, false);
	rig_drain(rig);
	assert_int_equal(engine_replace(rig->engine, ROLE, attach(&world), why), 0);
	for (int i = 0; i < 20000 && !is_copied(rig); i++)
		rig_step(rig);
	world.reads_held = true;
	rig_submit(rig, REQUEST_READ, 40, 8, false); /* of its chunk of the first row */
	for (int i = 0; i < 20000 && world.late == 0; i++)
		rig_step(rig);
	assert_int_equal(world.late, 1);
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	assert_int_equal(rig_status(rig).members[SPARE].role, ROLE);
	finish(&world);
}

static void
test_answer_of_a_former_that_comes_late_is_nobodys(void **state)
{
	check_late_answer(-EIO);
	check_late_answer(-ENODATA);
	check_late_answer(0);
}

/* A superblock of before takes its time, so the first that the spare would be sent is the one that
 * gives it the place.  Others have that, and it does not: the place would be nobody's, and one that
 * the level bears beside that is out.
 */
static void
test_who_is_to_have_a_place_knows_that_it_is_filled_before_it_is(void **state)
{
	struct world world;

	(void)state;
	start(&world, 5, 4, 930);
	attach(&world);
	world.all_held_for = 1u << 2;
	assert_int_equal(engine_scrub_start(world.rig.engine, SCRUB_CHECK, false, why), 0);
	rig_steps(&world.rig, 20);
	assert_int_equal(engine_replace(world.rig.engine, ROLE, SPARE, why), 0);
	rig_steps(&world.rig, 3000);
	world.all_held_for = 0;
	world.held_for = 1u << SPARE;
	tap_let_go(&world.taps[2]);
	for (int i = 0; i < 20000 && !world.given; i++)
		rig_step(&world.rig);
	assert_true(world.given);
	rig_steps(&world.rig, 200);
	crash(&world);
	world.rig.members[0].reachable = false;
	rig_start(&world.rig);
	assert_true(rig_wait(&world.rig, VOLUME_DEGRADED, 20000));
	finish(&world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_acknowledged_before_the_superblocks_know_is_on_both),
		cmocka_unit_test(test_whichever_superblock_wins_has_every_write),
		cmocka_unit_test(test_new_member_lost_before_its_place_is_durable_gives_it_back),
		cmocka_unit_test(test_new_member_that_gives_its_place_back_is_not_kept),
		cmocka_unit_test(test_former_that_refused_a_write_and_stays_is_sent_it_again),
		cmocka_unit_test(
			test_new_member_that_refuses_its_superblock_does_not_get_the_place),
		cmocka_unit_test(test_chosen_spare_that_refuses_writes_is_given_up),
		cmocka_unit_test(test_chosen_spare_that_is_taken_out_stays_out),
		cmocka_unit_test(test_spare_that_refuses_writes_makes_way_for_the_next),
		cmocka_unit_test(test_former_may_fall_silent_while_the_place_changes_hands),
		cmocka_unit_test(test_other_member_may_be_evicted_while_the_place_changes_hands),
		cmocka_unit_test(test_empty_place_is_taken_durably_too),
		cmocka_unit_test(test_stop_while_the_place_changes_hands_ends),
		cmocka_unit_test(test_copies_change_hands_durably_too),
		cmocka_unit_test(test_what_was_copied_before_parity_defined_it_is_copied_again),
		cmocka_unit_test(
			test_place_does_not_change_hands_while_its_holder_speaks_of_another_gateway),
		cmocka_unit_test(test_answer_of_a_former_that_comes_late_is_nobodys),
		cmocka_unit_test(test_who_is_to_have_a_place_knows_that_it_is_filled_before_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
