/* test_engine_handover.c - a place changes hands while another member is on its way out.  Neither that one nor the former holder may
 * know of the other's going, and both have superblocks by which all is well.
 */
#include "scenario.h"
#include "tap.h"

#define LOAD_BYTES (1ull << 20)
#define FORMER 1
#define OTHER 2			/* the member that is on its way out meanwhile */
#define SPARE 3			/* rig->members[] of the spare, and its slot */

static char why[256];

struct world {
	struct rig rig;
	struct tap taps[SPARE + 1];
	bool given_held;	/* the other member does not get the superblock that gives the place away */
	bool going_held;	/* the first one not that which says that the other goes */
};

static bool
gives_place(const struct superblock *superblock)
{
	uint8_t spare[16];

	memset(spare, 0x50 + SPARE, sizeof(spare));
	return memcmp(superblock->member_uuids[FORMER], spare, sizeof(spare)) == 0;
}

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	const struct world *world = tap->owner;
	const int index = (int)(tap - world->taps);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	if (!tap_superblock(io, block) || superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK)
		return TAP_PASS;
	if (index == OTHER && world->given_held && gives_place(&superblock))
		return TAP_HOLD;
	if (index == 0 && world->going_held && superblock.member_states[OTHER] != MEMBER_IN_SYNC)
		return TAP_HOLD;
	return TAP_PASS;
}

static void
tap(struct world *world, int index)
{
	tap_init(&world->taps[index], &world->rig.members[index]);
	world->taps[index].judge = judge;
	world->taps[index].owner = world;
}

/* Until the superblock that gives the former's place away is on its way to the other member, and everybody else has it. */
static void
begin(struct world *world, int level, int members, uint64_t seed)
{
	struct rig *rig = &world->rig;

	*world = (struct world){ .given_held = true };
	rig_init(rig, level, members, 16384, LOAD_BYTES, seed);
	set_caches(rig, false);
	rig->step_ms_max = 2;
	for (int i = 0; i < members; i++)
		tap(world, i);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, false);
	rig_drain(rig);
	wait_until(rig, all_clean);
	rig_mark_spare(rig, SPARE, RIG_MEMBER_BYTES);
	rig->members[SPARE].disk.write_cache = false;
	tap(world, SPARE);
	assert_int_equal(engine_attach(rig->engine, &rig->members[SPARE].backend, why), SPARE);
	wait_for_state(rig, SPARE, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig->engine, FORMER, SPARE, why), 0);
	for (int i = 0; i < 100000 && world->taps[OTHER].held_count == 0; i++)
		rig_step(rig);
	assert_int_not_equal(world->taps[OTHER].held_count, 0);
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

	rig->count = SPARE + 1;
	rig_crash(rig);
	world->given_held = world->going_held = false;
	for (int i = 0; i <= SPARE; i++) {
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

	begin(&world, 5, 3, seed);
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
	begin(&world, 5, 3, 1851);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_member_that_stays_knows_before_a_place_is_taken),
		cmocka_unit_test(test_two_who_went_at_once_do_not_start_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
