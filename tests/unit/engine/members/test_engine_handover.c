/* test_engine_handover.c - a place changes hands while another member is on its way out.  Neither
 * that one nor the former holder may know of the other's going, and both have superblocks by which
 * all is well.  And what of a place that was given back is on record.
 */
#include "scenario.h"

#include <limits.h>

#define LOAD_BYTES (1ull << 20)
#define FORMER 1
#define FORMERS_SECTOR 128u /* of three members, in its third row: P is the first one's */
#define OTHER 2		    /* the member that is on its way out meanwhile */
#define SPARE 3		    /* of three members */

static char why[256];

struct world {
	struct rig rig;
	struct tap taps[SPARE + 2];
	/* the other member does not get the superblock that gives the place away */
	bool given_held;
	bool going_held; /* the first one not that which says that the other goes */
	/* the last of rig->members[]: the spare, and its slot, if there is one */
	int spare;
	bool given; /* the spare was sent a superblock by which it has the place */
	/* nobody but the former holder gets the superblock that gives the place back */
	bool back_held;
	bool former_refuses; /* it can't be told that its place was taken */
	bool written_held;   /* what is written does not get to the former holder */
	/* so many that say that the other goes arrive before they are held */
	int going_passes;
	int copied; /* data that the spare was sent */
};

static bool
is_written(const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && io->offset_bytes >= 2 * LAYOUT_ALIGN_BYTES;
}

static bool
gives_place(const struct world *world, const struct superblock *superblock)
{
	uint8_t spare[16];

	memset(spare, 0x50 + world->spare, sizeof(spare));
	return memcmp(superblock->member_uuids[FORMER], spare, sizeof(spare)) == 0;
}

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const int index = (int)(tap - world->taps);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	if (is_written(io)) {
		world->copied += index == world->spare;
		return index == FORMER && world->written_held ? TAP_HOLD : TAP_PASS;
	}
	if (!tap_superblock(io, block) ||
	    superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK)
		return TAP_PASS;
	world->given |= gives_place(world, &superblock);
	if (index == FORMER && world->former_refuses && gives_place(world, &superblock))
		return TAP_REFUSE;
	if (index == OTHER && world->given_held && gives_place(world, &superblock))
		return TAP_HOLD;
	if (index != FORMER && world->back_held && world->given && !gives_place(world, &superblock))
		return TAP_HOLD;
	if (index == 0 && world->going_held && superblock.member_states[OTHER] != MEMBER_IN_SYNC)
		return --world->going_passes < 0 ? TAP_HOLD : TAP_PASS;
	return TAP_PASS;
}

static void
tap(struct world *world, int index)
{
	tap_init(&world->taps[index], &world->rig.members[index]);
	world->taps[index].judge = judge;
	world->taps[index].owner = world;
}

/* All is written, and clean. */
static void
begin_plain(struct world *world, int level, int members, uint32_t grace_ms, uint64_t seed)
{
	struct rig *rig = &world->rig;

	*world = (struct world){ .given_held = true, .spare = members - 1 };
	rig_init(rig, level, members, 16384, LOAD_BYTES, seed);
	rig->options.grace_ms = grace_ms;
	set_caches(rig, false);
	rig->step_ms_max = 2;
	for (int i = 0; i < members; i++)
		tap(world, i);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
}

static void
step_until_held(struct rig *rig, const struct tap *tap, int count)
{
	for (int i = 0; i < 100000 && tap->held_count < count; i++)
		rig_step(rig);
	assert_true(tap->held_count >= count);
}

/* Until the superblock that gives the former's place away is on its way to the other member, and
 * everybody else has it.  A write to the former may be under way, in a row that was copied.
 */
static void
begin(struct world *world, int level, int members, bool writing, uint64_t seed)
{
	struct rig *rig = &world->rig;

	begin_plain(world, level, members, 0, seed);
	world->spare = members;
	rig_mark_spare(rig, members, RIG_MEMBER_BYTES);
	rig->members[members].disk.write_cache = false;
	tap(world, members);
	assert_int_equal(engine_attach(rig->engine, &rig->members[members].backend, why), members);
	wait_for_state(rig, members, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig->engine, FORMER, members, why), 0);
	if (writing) {
		world->copied = 0;
		for (int i = 0; i < 100000 && world->copied < 100; i++)
			rig_step(rig);
		world->written_held = true;
		rig_submit(rig, REQUEST_WRITE, FORMERS_SECTOR, 8, false);
	}
	step_until_held(rig, &world->taps[OTHER], 1);
	rig_steps(rig, 50);
}

/* Long enough for what is written to be clean, if it is. */
static void
write_all(struct rig *rig)
{
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_steps(rig, 2200);
}

/* The gateway dies, and starts again with these devices. */
static void
start_again(struct world *world, uint32_t reachable)
{
	struct rig *rig = &world->rig;

	rig->count = world->spare + 1;
	rig_crash(rig);
	world->given_held = world->going_held = world->back_held = world->written_held = false;
	for (int i = 0; i <= world->spare; i++) {
		tap_drop(&world->taps[i]);
		rig->members[i].reachable = (reachable >> i) & 1;
	}
	rig_start(rig);
}

/* The other one is back before it was out, and is sent the superblock later. */
static void
stay_untold(uint32_t reachable, uint64_t seed)
{
	struct world world;

	begin(&world, 5, 3, false, seed);
	world.going_held = true;
	fake_member_cut(&world.rig.members[OTHER], false);
	for (int i = 0; i < 4000 && world.taps[0].held_count == 0; i++)
		rig_step(&world.rig);
	assert_int_not_equal(world.taps[0].held_count, 0);
	world.rig.members[OTHER].reachable = true;
	wait_for_state(&world.rig, OTHER, MEMBER_IN_SYNC);
	world.going_held = false;
	tap_let_go(&world.taps[0]);
	rig_steps(&world.rig, 50);
	write_all(&world.rig);
	start_again(&world, reachable);
	assert_true(rig_wait(&world.rig, VOLUME_DEGRADED, 100000));
	finish(&world.rig);
}

/* Whoever is trusted then, has what was acknowledged. */
static void
test_a_member_that_stays_knows_before_a_place_is_taken(void **state)
{
	(void)state;
	stay_untold(1u << FORMER | 1u << OTHER | 1u << SPARE, 1850);
	stay_untold(1u << FORMER | 1u << OTHER, 1852);
}

/* It is out, and neither knows of the other: together they would be enough. */
static void
test_two_who_went_at_once_do_not_start_together(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 3, false, 1851);
	world.former_refuses = true;
	fake_member_cut(&rig->members[OTHER], false);
	for (int i = 0; i < 4000 && !is_degraded(rig); i++)
		rig_step(rig);
	assert_true(is_degraded(rig));
	write_all(rig);
	assert_int_equal(rig->active_count, 0);
	start_again(&world, 1u << FORMER | 1u << OTHER);
	for (int i = 0; i < 60000 && rig_status(rig).state != VOLUME_DEGRADED; i++)
		rig_step(rig);
	assert_int_not_equal(rig_status(rig).state, VOLUME_DEGRADED);
	rig->members[0].reachable = true;
	rig->members[SPARE].reachable = true;
	wait_until(rig, all_in_sync);
	finish(rig);
}

/* --- one goes while a place is taken, and who was to have it goes as well --- */

#define RETURNING 1 /* it was to take its place again, with nothing to copy */
#define FIRST 2	    /* goes, and a write waits for its mark there */
#define LAST 3	    /* hears of that, and not yet of the place that is given back */

struct going {
	struct rig rig;
	struct tap taps[LAST + 1];
	int maps_awaited; /* map writes that the first one gets yet, before it gets none */
	/* superblocks that the last one was sent since the place is given back; -1: it is not yet
	 */
	int told;
};

static bool
is_map(const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && io->offset_bytes >= LAYOUT_MAP_OFFSET &&
	       io->offset_bytes < LAYOUT_LOST_OFFSET;
}

static bool
calls_in_sync(const struct backend_io *io, int role)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	return tap_superblock(io, block) &&
	       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
	       superblock.member_states[role] == MEMBER_IN_SYNC;
}

static bool
calls_out(const struct backend_io *io, int role)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	return tap_superblock(io, block) && !calls_in_sync(io, role);
}

static enum tap_verdict
judge_going(struct tap *tap, const struct backend_io *io)
{
	struct going *going = tap->owner;

	if (tap == &going->taps[FIRST] && is_map(io) && --going->maps_awaited < 0)
		return TAP_HOLD;
	if (tap == &going->taps[FIRST] && calls_in_sync(io, RETURNING))
		return TAP_HOLD;
	if (tap != &going->taps[LAST])
		return TAP_PASS;
	/* One of its copies says so, and not the other. */
	if (going->told >= 0)
		return calls_out(io, RETURNING) && ++going->told > 1 ? TAP_HOLD : TAP_PASS;
	return calls_out(io, FIRST) ? TAP_HOLD : TAP_PASS;
}

/* All is clean when it goes and when it returns. */
static void
return_with_nothing_to_copy(struct going *going)
{
	struct rig *rig = &going->rig;

	fake_member_cut(&rig->members[RETURNING], false);
	wait_until(rig, is_degraded);
	rig_steps(rig, 20); /* that is on record */
	for (int i = 0; i <= LAST; i++)
		going->taps[i].judge = judge_going;
	going->maps_awaited = 1; /* with the marks of who returns */
	rig->members[RETURNING].reachable = true;
	wait_for_state(rig, RETURNING, MEMBER_REBUILDING);
}

/* Some superblocks trust who was about to have the place, until all say that it has not. */
static void
test_a_write_waits_until_a_place_is_given_back_while_another_goes(void **state)
{
	struct going going = { .maps_awaited = INT_MAX, .told = -1 };
	struct rig *rig = &going.rig;

	(void)state;
	rig_init(rig, 1, LAST + 1, 16384, LOAD_BYTES, 1853);
	set_caches(rig, false);
	rig->step_ms_max = 2;
	for (int i = 0; i <= LAST; i++) {
		tap_init(&going.taps[i], &rig->members[i]);
		going.taps[i].owner = &going;
	}
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
	return_with_nothing_to_copy(&going);
	rig_submit(rig, REQUEST_WRITE, 0, 1, false);
	step_until_held(rig, &going.taps[FIRST], 2); /* the mark, and who has the place */
	fake_member_cut(&rig->members[FIRST], false);
	step_until_held(rig, &going.taps[LAST], 1);
	fake_member_cut(&rig->members[RETURNING], false);
	rig_steps(rig, 20);
	going.told = 0;
	tap_let_go(&going.taps[LAST]);
	step_until_held(rig, &going.taps[LAST], 1);
	rig_steps(rig, 200);
	assert_int_equal(rig->active_count, 1);
	for (int i = 0; i <= LAST; i++)
		going.taps[i].judge = NULL;
	tap_let_go(&going.taps[LAST]);
	rig_drain(rig);
	finish(rig);
}

/* --- a member that stays after all --- */

/* It is back before it was out: one of the others has the superblock by which it is out, and one
 * has not.  A write was to go to it.
 */
static void
stay(struct world *world, uint32_t grace_ms, uint64_t seed)
{
	struct rig *rig = &world->rig;

	begin_plain(world, 5, 3, grace_ms, seed);
	world->going_held = true;
	fake_member_cut(&rig->members[OTHER], false);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors / 2, false);
	for (int i = 0; i < 4000 && world->taps[0].held_count == 0; i++)
		rig_step(rig);
	assert_int_not_equal(world->taps[0].held_count, 0);
	rig->members[OTHER].reachable = true;
	wait_for_state(rig, OTHER, MEMBER_IN_SYNC);
	assert_int_not_equal(rig_superblock(rig, FORMER).member_states[OTHER], MEMBER_IN_SYNC);
}

/* A crash makes it one that was out, and its chunks of all that is dirty unknown. */
static void
test_a_member_that_stays_is_on_record_before_anything_is_written(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	stay(&world, 0, 1856);
	rig_submit(rig, REQUEST_WRITE, rig->sectors / 2, 64, false);
	rig_steps(rig, 500);
	assert_int_equal(rig->active_count, 2); /* nothing was acknowledged */
	world.going_held = false;
	tap_let_go(&world.taps[0]);
	rig_drain(rig);
	finish(rig);

	/* Its session ends once more, and the superblocks that say that it stays wait for the next.
	 */
	stay(&world, 1000, 1858);
	fake_member_cut(&rig->members[OTHER], true);
	world.going_held = false;
	tap_let_go(&world.taps[0]);
	rig_drain(rig);
	finish(rig);

	stay(&world, 0, 1857);
	rig_submit(rig, REQUEST_WRITE, rig->sectors / 2, 64, false);
	rig_steps(rig, 500);
	start_again(&world, 7);
	wait_until(rig, all_in_sync);
	assert_int_equal(error_of_read(rig, rig->sectors / 2, rig->sectors / 2), 0);
	rig_stop(rig);
	rig_free(rig);
}

/* --- a member stays after all while another goes --- */

#define GOING 1	  /* of three copies; a write is under way to it */
#define STAYING 2 /* has carried that out */

struct staying {
	struct rig rig;
	struct tap taps[STAYING + 1];
	/* so many superblocks that call GOING out arrive there yet */
	int passes[STAYING + 1];
};

static enum tap_verdict
judge_staying(struct tap *tap, const struct backend_io *io)
{
	struct staying *staying = tap->owner;

	if (tap == &staying->taps[GOING])
		return is_written(io) ? TAP_HOLD : TAP_PASS;
	return calls_out(io, GOING) && --staying->passes[tap - staying->taps] < 0 ? TAP_HOLD
										  : TAP_PASS;
}

static void
let_pass(struct staying *staying, int member, int passes)
{
	staying->passes[member] = passes - staying->taps[member].held_count;
	tap_let_go(&staying->taps[member]);
}

static void
begin_staying(struct staying *staying, uint64_t seed)
{
	struct rig *rig = &staying->rig;

	*staying = (struct staying){ .passes = { 0 } };
	rig_init(rig, 1, STAYING + 1, 16384, LOAD_BYTES, seed);
	rig->options.grace_ms = 0;
	set_caches(rig, false);
	rig->step_ms_max = 2;
	for (int i = 0; i <= STAYING; i++)
		tap_init(&staying->taps[i], &rig->members[i]);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
	for (int i = 0; i <= STAYING; i++) {
		staying->taps[i].judge = judge_staying;
		staying->taps[i].owner = staying;
	}
	rig_submit(rig, REQUEST_WRITE, 0, 8, false);
	step_until_held(&staying->rig, &staying->taps[GOING], 1);
	rig_steps(rig, 50);
}

static void
send_away(struct staying *staying, int member)
{
	fake_member_cut(&staying->rig.members[member], false);
	for (int i = 0;
	     i < 10000 && rig_status(&staying->rig).members[member].state == MEMBER_IN_SYNC; i++)
		rig_step(&staying->rig);
	assert_int_not_equal(rig_status(&staying->rig).members[member].state, MEMBER_IN_SYNC);
}

/* It is back before it is out, and gets so many superblocks that say what becomes of the other. */
static void
stay_after_all(struct staying *staying, int passes)
{
	staying->rig.members[STAYING].reachable = true;
	wait_for_state(&staying->rig, STAYING, MEMBER_IN_SYNC);
	staying->passes[STAYING] = passes;
	let_pass(staying, 0, INT_MAX);
	step_until_held(&staying->rig, &staying->taps[STAYING], 1);
}

/* The first one's superblocks say that both are out.  What is durable next, STAYING has at most in
 * one copy.
 */
static void
both_go(struct staying *staying)
{
	staying->passes[0] = 1;
	fake_member_cut(&staying->rig.members[GOING], false);
	send_away(staying, STAYING);
	step_until_held(&staying->rig, &staying->taps[0], 1);
}

/* That GOING is out is said.  That STAYING is, which goes later and has not heard of that, is not.
 */
static void
one_goes_after_the_other(struct staying *staying)
{
	fake_member_cut(&staying->rig.members[GOING], false);
	step_until_held(&staying->rig, &staying->taps[0], 1);
	step_until_held(&staying->rig, &staying->taps[STAYING], 1);
	send_away(staying, STAYING);
	let_pass(staying, 0, 2);
	step_until_held(&staying->rig, &staying->taps[0], 1);
	rig_steps(&staying->rig, 100);
}

/* It starts again without the first one, and without its memory of what was given. */
static void
die_now(struct staying *staying, bool copy_lost)
{
	struct rig *rig = &staying->rig;

	rig_steps(rig, 500);
	rig_crash(rig);
	rig->epoch_recorded = 0; /* else that would keep it from starting */
	for (int i = 0; i <= STAYING; i++) {
		tap_drop(&staying->taps[i]);
		staying->taps[i].judge = NULL;
		rig->members[i].reachable = i != 0;
	}
	if (copy_lost)
		damage_newer_superblock(rig, STAYING);
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	finish(rig);
}

/* What it starts with knows nothing of GOING's absence, so nothing was acknowledged that GOING
 * lacks.
 */
static void
test_nobody_is_out_before_those_who_stay_have_heard_of_it(void **state)
{
	struct staying staying;

	(void)state;
	begin_staying(&staying, 1859);
	both_go(&staying);
	stay_after_all(&staying, 0);
	die_now(&staying, false);

	begin_staying(&staying, 1860);
	both_go(&staying);
	stay_after_all(&staying, 1);
	die_now(&staying, true);

	begin_staying(&staying, 1861);
	one_goes_after_the_other(&staying);
	stay_after_all(&staying, 0);
	die_now(&staying, false);
}

/* The one that stayed is to be sent that it does. */
static void
begin_kept(struct staying *staying, uint64_t seed)
{
	begin_staying(staying, seed);
	both_go(staying);
	stay_after_all(staying, 0);
	rig_steps(&staying->rig, 200);
	assert_int_equal(staying->rig.active_count, 1);
}

/* Nobody waits for it longer than for anybody. */
static void
end_kept(struct staying *staying)
{
	struct rig *rig = &staying->rig;
	const uint64_t since_ms = rig->now_ms;

	rig_drain(rig);
	assert_true(rig->now_ms - since_ms <= 2 * rig->options.give_up_ms);
	assert_int_equal(rig->failed, 0);
	for (int i = 0; i <= STAYING; i++)
		staying->taps[i].judge = NULL;
	rig->members[GOING].reachable = rig->members[STAYING].reachable = true;
	wait_until(rig, all_in_sync);
	finish(rig);
}

static enum tap_verdict
refuse_superblocks(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	(void)tap;
	return tap_superblock(io, block) ? TAP_REFUSE : TAP_PASS;
}

static void
test_one_that_stayed_and_goes_again_keeps_nobody_from_going(void **state)
{
	struct staying staying;
	struct rig *rig = &staying.rig;

	(void)state;
	begin_kept(&staying, 1862);
	fake_member_cut(&rig->members[STAYING], false);
	end_kept(&staying);

	begin_kept(&staying, 1863);
	staying.taps[STAYING].judge = refuse_superblocks;
	fake_member_cut(&rig->members[STAYING], true);
	end_kept(&staying);

	/* It comes and goes. */
	begin_kept(&staying, 1864);
	for (int i = 0; i < 20; i++) {
		fake_member_cut(&rig->members[STAYING], true);
		wait_for_link(rig, STAYING, LINK_OPEN);
		rig_steps(rig, 20);
	}
	let_pass(&staying, STAYING, INT_MAX);
	end_kept(&staying);
}

/* --- a place is taken while another member stays after all --- */

/* A write is under way to the former, and the other one is not needed for it.  Superblocks say who
 * has the place.  The other is back before it is out, and has none of them.  The gateway dies, and
 * another one starts with those two.
 */
static void
test_a_place_is_not_taken_before_those_who_stay_have_heard_of_it(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 3, true, 1865);
	assert_int_equal(rig->active_count, 1);
	world.going_held = true;
	world.going_passes = 1;
	fake_member_cut(&rig->members[OTHER], false);
	step_until_held(rig, &world.taps[0], 1);
	rig_steps(rig, 100);
	rig->members[OTHER].reachable = true;
	wait_for_state(rig, OTHER, MEMBER_IN_SYNC);
	world.going_held = false;
	tap_let_go(&world.taps[0]);
	rig_steps(rig, 500);
	rig->epoch_recorded = 0; /* else that would keep it from starting */
	start_again(&world, 1u << FORMER | 1u << OTHER);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(error_of_read(rig, FORMERS_SECTOR, 8), 0);
	rig_stop(rig);
	rig_free(rig);
}

/* Who takes the place has all that was written by then, safe in it, and gets what is written since.
 */
static void
test_what_the_former_holder_loses_while_it_leaves_fails_no_flush(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 1, 3, false, 1866);
	fake_member_break_word(&rig->members[FORMER]);
	rig_steps(rig, 50);
	world.given_held = false;
	tap_let_go(&world.taps[OTHER]);
	wait_for_state(rig, SPARE, MEMBER_IN_SYNC);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	finish(rig);
}

/* --- a place is given back --- */

/* The device that was to have the place is lost, and the gateway dies when the former holder alone
 * knows that it keeps it.  Another member is dead besides: those who are left have all that was
 * acknowledged.
 */
static void
give_back(int level, int members, uint64_t seed)
{
	struct world world;
	struct rig *rig = &world.rig;
	const int spare = members;

	begin(&world, level, members, false, seed);
	world.back_held = true;
	fake_member_cut(&rig->members[spare], false);
	rig_steps(rig, 100);
	world.given_held = false;
	tap_let_go(&world.taps[OTHER]);
	for (int i = 0; i < 4000 && world.taps[OTHER].held_count == 0; i++)
		rig_step(rig);
	assert_int_not_equal(world.taps[OTHER].held_count, 0);
	rig_steps(rig, 100);
	start_again(&world, ((1u << members) - 1) & ~(1u << (members - 1)));
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig_status(rig).members[FORMER].state, MEMBER_IN_SYNC);
	finish(rig);
}

static void
test_place_that_is_given_back_is_the_former_holders(void **state)
{
	(void)state;
	give_back(5, 4, 1855);
}

/* Role 2 is being replaced when the gateway dies.  Row 0 is as a write to another chunk left it
 * that was in flight: its P does not fit.  At the next start the member of role 2 is away, so its
 * chunk of that row can't be known; but it has what was acknowledged.  The spare begins to be
 * filled, or is not what it was, and goes before it has the place.
 */
enum { REPLACED = 2, OF_P = 3, NEW = 4 };

/* Returns where row 0 begins on each. */
static uint64_t
die_while_replacing(struct rig *rig, bool spare_is_old)
{
	static uint8_t image[RIG_MEMBER_BYTES];
	uint8_t parity[512];
	uint64_t data;

	rig_init(rig, 5, 4, 16384, 2ull << 20, 12);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 256, 256);
	rig_drain(rig);
	rig_steps(rig, 4000);
	engine_set_rates(rig->engine, 1 << 16, 1 << 16);
	rig_mark_spare(rig, NEW, RIG_MEMBER_BYTES);
	assert_int_equal(engine_attach(rig->engine, &rig->members[NEW].backend, why), NEW);
	rig_steps(rig, 400);
	assert_int_equal(engine_replace(rig->engine, REPLACED, NEW, why), 0);
	for (int i = 0; i < 20000 && rig_status(rig).rebuild.done_rows < 4; i++)
		rig_step(rig);
	disk_read(&rig->members[NEW].disk, 0, image, RIG_MEMBER_BYTES);
	/* some more superblocks */
	assert_int_equal(engine_scrub_start(rig->engine, SCRUB_CHECK, false, why), 0);
	rig_steps(rig, 400);
	rig_submit(rig, REQUEST_WRITE, 0, 256, true);
	rig_drain(rig);
	rig->count = NEW + 1;
	rig_crash(rig);
	data = rig_superblock(rig, 0).areas[3].offset_bytes;
	disk_read(&rig->members[OF_P].disk, data, parity, sizeof(parity));
	parity[0] ^= 1;
	disk_write(&rig->members[OF_P].disk, data, parity, sizeof(parity), true);
	if (spare_is_old)
		disk_write(&rig->members[NEW].disk, 0, image, RIG_MEMBER_BYTES, true);
	return data;
}

static void
start_without_the_replaced(struct rig *rig)
{
	fake_member_cut(&rig->members[REPLACED], false);
	rig->options.sync_rate_min = rig->options.sync_rate_max = 100 << 20;
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig_steps(rig, 50);
	assert_int_not_equal(rig_status(rig).lost_bytes, 0);
}

static void
return_beside_spare(bool spare_is_there, bool spare_is_old)
{
	uint8_t chunk[512], now[512];
	struct rig rig;
	const uint64_t data = die_while_replacing(&rig, spare_is_old);

	disk_read(&rig.members[REPLACED].disk, data, chunk, sizeof(chunk));
	if (!spare_is_there)
		fake_member_cut(&rig.members[NEW], false);
	start_without_the_replaced(&rig);
	fake_member_cut(&rig.members[NEW], false);
	rig.members[REPLACED].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 60000));
	rig_steps(&rig, 500);
	disk_read(&rig.members[REPLACED].disk, data, now, sizeof(now));
	assert_memory_equal(now, chunk, sizeof(chunk));
	rig_crash(&rig);
	rig_free(&rig);
}

static void
test_what_the_holder_of_a_place_has_outlives_a_spare_that_does_not_get_it(void **state)
{
	(void)state;
	return_beside_spare(false, false);
	return_beside_spare(true, false);
}

static void
test_a_spare_that_went_back_tells_nothing_of_whom_it_replaces(void **state)
{
	(void)state;
	return_beside_spare(true, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_what_the_holder_of_a_place_has_outlives_a_spare_that_does_not_get_it),
		cmocka_unit_test(test_a_spare_that_went_back_tells_nothing_of_whom_it_replaces),
		cmocka_unit_test(test_a_member_that_stays_knows_before_a_place_is_taken),
		cmocka_unit_test(test_two_who_went_at_once_do_not_start_together),
		cmocka_unit_test(test_a_write_waits_until_a_place_is_given_back_while_another_goes),
		cmocka_unit_test(test_a_member_that_stays_is_on_record_before_anything_is_written),
		cmocka_unit_test(test_nobody_is_out_before_those_who_stay_have_heard_of_it),
		cmocka_unit_test(test_one_that_stayed_and_goes_again_keeps_nobody_from_going),
		cmocka_unit_test(test_a_place_is_not_taken_before_those_who_stay_have_heard_of_it),
		cmocka_unit_test(test_what_the_former_holder_loses_while_it_leaves_fails_no_flush),
		cmocka_unit_test(test_place_that_is_given_back_is_the_former_holders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
