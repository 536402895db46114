/* test_engine_losses.c - what a device's lost cache is taken for: who makes up for it, who is told,
 * who is filled anew.
 */
#include "flushed.h"

#include "pure/layout.h"

#include <errno.h>

#define FAR_SECTOR 6400
#define FIRST_ON_2 64 /* a sector whose row has its parity on member 3 */
#define DATA_OFFSET (4u << 20)

/* Two lose their caches together, and what is left is proven.  Then they make up for a third,
 * whether or not a flush was told.
 */
static void
test_a_cache_is_made_up_for_by_those_who_were_proven_since(void **state)
{
	uint64_t lost = 0;

	for (uint64_t seed = 1580; seed < 1588; seed++) {
		struct rig rig;

		start(&rig, 5, 4, seed);
		rig.options.grace_ms = 1000;
		engine_set_limits(rig.engine, &rig.options);
		write_everywhere(&rig);
		rig_lose_caches(&rig, 1, 2);
		wait_until(&rig, all_proven);
		lost -= rig.members[3].counts.sectors_lost;
		write_everywhere(&rig);
		fake_member_power_loss(&rig.members[3], true);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		wait_until(&rig, all_in_sync);
		lost += rig.members[3].counts.sectors_lost;
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* Its next session ends with nothing in its cache: it has all that it has acknowledged, and needs
 * not be filled, told or not.
 */
static void
test_a_loss_that_was_made_up_for_is_not_doubted_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1620; seed < 1624; seed++) {
		struct rig rig;

		start(&rig, 5, 4, seed);
		rig.options.grace_ms = 1000;
		engine_set_limits(rig.engine, &rig.options);
		write_everywhere(&rig);
		rig_lose_caches(&rig, 1, 2);
		wait_until(&rig, all_proven);
		wait_until(&rig, all_clean); /* which takes a flush, that nobody is told of */
		fake_member_cut(&rig.members[1], true);
		for (int i = 0; i < 2000; i++) {
			rig_step(&rig);
			assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		}
		assert_int_equal(rig_status(&rig).members[1].link, LINK_OPEN);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1); /* once */
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static uint32_t suspect_limit;

static bool
few_are_suspect(struct rig *rig)
{
	return rig_status(rig).regions_suspect <= suspect_limit;
}

/* Two lose theirs together, and what was written is proven, but most of the volume was never
 * written, nor proven.
 */
static void
test_a_cache_is_made_up_for_while_a_first_resync_goes_on(void **state)
{
	uint64_t lost = 0;

	for (uint64_t seed = 1610; seed < 1614; seed++) {
		struct rig rig;

		rig_init_many_regions(&rig, 5, 4, 96u << 10, seed); /* 8 rows */
		rig.options.grace_ms = 1000;
		set_caches(&rig, true);
		rig_start_active(&rig);
		engine_set_rates(rig.engine, 1, 1);
		write_everywhere(&rig);
		rig_lose_caches(&rig, 1, 2);
		/* written ones come first */
		suspect_limit = rig_status(&rig).regions_suspect - 64;
		engine_set_rates(rig.engine, 1 << 20, 1 << 20);
		wait_until(&rig, few_are_suspect);
		engine_set_rates(rig.engine, 1, 1);
		assert_false(all_proven(&rig));
		lost -= rig.members[3].counts.sectors_lost;
		write_everywhere(&rig);
		fake_member_power_loss(&rig.members[3], true);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
		engine_set_rates(rig.engine, 1 << 26, 1 << 30);
		wait_until(&rig, all_in_sync);
		lost += rig.members[3].counts.sectors_lost;
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* Level 6 with one member out: what a resync has just made of rows that were never written is lost
 * with a cache, in P only.  P and Q don't fit each other then, so what is written there must not be
 * made from both as they stand.
 */
static void
test_parity_that_a_cache_took_along_is_not_believed(void **state)
{
	char why[256];

	for (uint64_t seed = 1540; seed < 1548; seed++) {
		struct rig rig;

		rig_init(&rig, 6, 6, 16384, 2u << 20, seed);
		set_caches(&rig, true);
		rig.members[2].disk.write_cache = false;
		rig.options.resync_rows_max = 8;
		rig.step_ms_max = 1;
		rig_start_active(&rig);
		/* row 5: it keeps the region from being clean */
		rig_submit(&rig, REQUEST_WRITE, 640, 1, false);
		for (int i = 0; i < 20000 && rig_status(&rig).resync.done_rows < 64; i++)
			rig_step(&rig);
		engine_set_rates(rig.engine, 1, 1);
		rig_submit(&rig, REQUEST_WRITE, 640, 1, false);
		assert_int_equal(engine_fail(rig.engine, 0, why), 0);
		wait_for_state(&rig, 0, MEMBER_FAULTY);
		rig_drain(&rig);
		/* It is needed, for the other is away for a moment. */
		rig.errors_allowed = true;
		fake_member_power_loss(&rig.members[3], true);
		fake_member_cut(&rig.members[2], false);
		rig_steps(&rig, 5);
		wait_for_link(&rig, 3, LINK_OPEN);
		rig_steps(&rig, 200);
		rig.members[2].reachable = true;
		rig_steps(&rig, 300);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig.errors_allowed = false;
		assert_int_equal(rig_status(&rig).members[3].state, MEMBER_IN_SYNC);
		rig_submit(&rig, REQUEST_WRITE, 640, 128, false);
		/* Rows with P on member 3, data on member 0, and the last data on member 2. */
		for (uint64_t row = 2; row < 32; row += 6)
			rig_submit(&rig, REQUEST_WRITE, row * 128 + 101, 1, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(engine_fail(rig.engine, 2, why), 0);
		wait_for_state(&rig, 2, MEMBER_FAULTY);
		finish(&rig);
	}
}

static bool
has_proven(struct rig *rig)
{
	return rig_status(rig).resync.done_rows >= 64;
}

static bool
has_filled(struct rig *rig)
{
	return rig_status(rig).rebuild.done_rows >= 64;
}

/* Time doesn't leap to where a mark is cleared, which takes a flush. */
static void
step_until(struct rig *rig, bool (*met)(struct rig *rig))
{
	for (int i = 0; i < 2000 && !met(rig); i++)
		rig_step(rig);
	assert_true(met(rig));
}

/* In each column of a row one chunk is written, so that of the others what is made of them has to
 * stay what it is.
 */
static void
write_in_turns(struct rig *rig)
{
	const uint64_t chunk_sectors = rig->chunk_bytes / 512;

	for (uint64_t chunk = 0; chunk * chunk_sectors < rig->sectors; chunk++) {
		rig_submit(rig, REQUEST_WRITE, chunk * chunk_sectors + chunk % 4, 1, false);
		rig_drain(rig);
	}
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
}

/* As many are out as the level bears, and one of them has been filled again when another that is
 * needed loses the parity that a resync has just made of rows that nobody wrote.  What parity makes
 * of them then is not what the target has.
 */
static uint64_t
lose_parity_beside_target(int level, uint64_t seed)
{
	struct rig rig;
	uint64_t lost;
	char why[256];

	rig_init(&rig, level, level, 16384, 2u << 20, seed);
	set_caches(&rig, true);
	rig.options.resync_rows_max = 8;
	rig.step_ms_max = 1;
	rig_start_active(&rig);
	engine_set_rates(rig.engine, 1, 1);
	/* so that its region is not called unwritten any more */
	rig_submit(&rig, REQUEST_WRITE, 640, 1, false);
	rig_drain(&rig);
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	engine_set_rates(rig.engine, 1u << 30, 1u << 30);
	step_until(&rig, has_proven);
	for (int i = 0; i < level - 4; i++) {
		assert_int_equal(engine_fail(rig.engine, i, why), 0);
		wait_for_state(&rig, i, MEMBER_FAULTY);
	}
	assert_int_equal(engine_readmit(rig.engine, 0, why), 0);
	step_until(&rig, has_filled);
	rig.errors_allowed = true;
	fake_member_power_loss(&rig.members[3], true);
	rig_steps(&rig, 5);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	lost = rig.members[3].counts.sectors_lost;
	rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(&rig);
	rig.errors_allowed = false;
	wait_for_state(&rig, 0, MEMBER_IN_SYNC);
	wait_until(&rig, all_proven);
	if (level == 5)
		assert_int_equal(rig_parity_faults(&rig), 0);
	write_in_turns(&rig);
	assert_int_equal(engine_fail(rig.engine, 2, why), 0);
	wait_for_state(&rig, 2, MEMBER_FAULTY);
	finish(&rig);
	return lost;
}

static void
test_who_was_filled_before_a_cache_took_parity_along_fits_it(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1600; seed < 1606; seed++)
		for (int level = 5; level <= 6; level++)
			lost += lose_parity_beside_target(level, seed);
	assert_true(lost > 0);
}

/* Level 0: nobody else has what it lost. */
static void
test_a_write_that_fails_after_its_answer_fails_a_flush(void **state)
{
	(void)state;
	for (int hides = 0; hides < 2; hides++) {
		struct rig rig;

		rig_init(&rig, 0, 2, 16384, LOAD_BYTES, 1560);
		set_caches(&rig, true);
		rig.members[0].hides_cache = hides;
		rig_start_active(&rig);
		write_everywhere(&rig);
		rig.errors_allowed = true;
		fake_member_break_word(&rig.members[0]);
		wait_for_link(&rig, 0, LINK_OPEN);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

enum not_told { FUA_WRITE, FUA_ZEROS, FLUSH_OF_READ, NOT_TOLD };

static void
submit_not_told(struct rig *rig, enum not_told what)
{
	if (what == FLUSH_OF_READ)
		rig_submit(rig, REQUEST_FLUSH, 0, 0, true);
	else
		rig_submit(rig, what == FUA_ZEROS ? REQUEST_ZERO : REQUEST_WRITE, 64, 64, true);
}

/* It failed, was told in place of the flush, and the flush that came behind it said that all was
 * there.
 */
static void
test_a_loss_is_told_to_a_flush_and_to_nobody_else(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (enum not_told what = 0; what < NOT_TOLD; what++) {
		struct rig rig;

		rig_init(&rig, 0, 2, 16384, LOAD_BYTES, 1580);
		set_caches(&rig, true);
		rig_start_active(&rig);
		write_everywhere(&rig);
		fake_member_power_loss(&rig.members[0], true);
		lost += rig.members[0].counts.sectors_lost;
		wait_for_link(&rig, 0, LINK_OPEN);
		submit_not_told(&rig, what);
		rig_drain(&rig);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1); /* once */
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* It was sent no flush, so regions are clean in which it lost what it had acknowledged. */
static void
test_a_device_that_lost_writes_without_a_cache_is_filled_anew(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1570; seed < 1574; seed++) {
		struct rig rig;

		rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
		set_caches(&rig, true);
		rig.members[0].hides_cache = true;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		rig_drain(&rig);
		wait_until(&rig, all_clean);
		fake_member_break_word(&rig.members[0]);
		lost += rig.members[0].counts.sectors_lost;
		wait_for_state(&rig, 0, MEMBER_FAULTY);
		wait_for_state(&rig, 0, MEMBER_IN_SYNC);
		finish(&rig);
	}
	assert_true(lost > 0);
}

/* It was taken out before it said so, and waits for an administrator.  A gateway that starts anew
 * has not heard it.
 */
static void
test_a_device_that_lost_writes_while_it_was_out_is_filled_anew(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1574; seed < 1578; seed++) {
		struct rig rig;
		char why[256];

		rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
		set_caches(&rig, true);
		rig.members[0].hides_cache = true;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		wait_until(&rig, all_clean);
		assert_int_equal(engine_fail(rig.engine, 0, why), 0);
		wait_for_state(&rig, 0, MEMBER_FAULTY);
		wait_for_link(&rig, 0, LINK_OPEN);
		fake_member_break_word(&rig.members[0]);
		lost += rig.members[0].counts.sectors_lost;
		wait_for_link(&rig, 0, LINK_CLOSED);
		wait_for_link(&rig, 0, LINK_OPEN);
		rig_steps(&rig, 100);
		rig_stop(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		wait_for_link(&rig, 0, LINK_OPEN);
		rig_steps(&rig, 100);
		assert_int_equal(engine_readmit(rig.engine, 0, why), 0);
		wait_for_state(&rig, 0, MEMBER_IN_SYNC);
		finish(&rig);
	}
	assert_true(lost > 0);
}

/* It answered once more while it was on its way out, and that it was is on record only when it has
 * gone for good.
 */
static void
say_it_on_the_way_out(struct rig *rig, struct tap *tap)
{
	tap->judge = tap_hold_superblocks;
	fake_member_cut(&rig->members[0], false);
	for (int i = 0; i < 20000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_int_equal(tap->held_count, 1);
	fake_member_break_word(&rig->members[0]);
	rig_steps(rig, 500);
	rig->members[0].reachable = false;
	assert_int_equal(rig_status(rig).members[0].state, MEMBER_FAULTY);
	tap->judge = NULL;
	tap_let_go(tap);
}

/* Nobody looks at it any more before the gateway starts anew. */
static void
test_what_a_device_said_before_it_was_gone_is_on_record(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (int out = 0; out < 2; out++)
		for (uint64_t seed = 1580; seed < 1583; seed++) {
			struct rig rig;
			struct tap tap;
			char why[256];

			rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
			set_caches(&rig, true);
			rig.members[0].hides_cache = true;
			tap_init(&tap, &rig.members[1]);
			rig_start_active(&rig);
			rig_wait_for_resync(&rig);
			write_everywhere(&rig);
			wait_until(&rig, all_clean);
			if (out) {
				assert_int_equal(engine_fail(rig.engine, 0, why), 0);
				wait_for_state(&rig, 0, MEMBER_FAULTY);
				wait_for_link(&rig, 0, LINK_OPEN);
				fake_member_break_word(&rig.members[0]);
			} else {
				say_it_on_the_way_out(&rig, &tap);
			}
			rig.members[0].reachable = false;
			lost += rig.members[0].counts.sectors_lost;
			assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
			rig_steps(&rig, 2000);
			rig_stop(&rig);
			rig.members[0].reachable = true;
			rig_start(&rig);
			assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
			wait_for_link(&rig, 0, LINK_OPEN);
			rig_steps(&rig, 100);
			if (out)
				assert_int_equal(engine_readmit(rig.engine, 0, why), 0);
			wait_for_state(&rig, 0, MEMBER_IN_SYNC);
			finish(&rig);
		}
	assert_true(lost > 0);
}

/* What its cache held is gone, and nobody could make up for it.  It goes before anybody flushed:
 * the next flush says so all the same.
 */
static void
test_a_loss_is_told_although_its_member_went(void **state)
{
	(void)state;
	for (uint64_t seed = 1550; seed < 1558; seed++) {
		struct rig rig;
		char why[256];

		rig_init(&rig, 5, 4, 16384, 2u << 20, seed);
		set_caches(&rig, true);
		rig.members[2].disk.write_cache = false; /* it loses nothing */
		rig_start_active(&rig);
		write_everywhere(&rig);
		fake_member_power_loss(&rig.members[1], true);
		fake_member_cut(&rig.members[2], false);
		rig_steps(&rig, 300);
		rig.members[2].reachable = true;
		rig_steps(&rig, 500);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(&rig).members[2].state, MEMBER_IN_SYNC);
		assert_int_equal(engine_fail(rig.engine, 1, why), 0);
		wait_for_state(&rig, 1, MEMBER_FAULTY);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1); /* once */
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* A start asks its members by a write of zeros that nobody reads, and that no flush need cover: a
 * session that ends then takes nothing along.
 */
static void
test_what_a_start_asks_members_with_is_no_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1610; seed < 1618; seed++) {
		struct rig rig;
		struct tap tap;

		rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
		set_caches(&rig, true);
		set_pace_of_all(&rig, 2000);
		set_pace(&rig, 3, 9000); /* the others have answered long before */
		tap_init(&tap, &rig.members[1]);
		tap.judge = hold_flushes; /* a start sends one, too */
		rig_start(&rig);
		for (int step = 0; step < 2000 && rig.members[1].disk.dirty_count == 0; step++)
			rig_step(&rig);
		assert_int_equal(rig.members[1].disk.dirty_count, 1);
		rig_step(&rig);
		assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
		fake_member_cut(&rig.members[1], true);
		tap.judge = NULL;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		finish(&rig);
	}
}

/* Nor what members are asked with beside one that says it is another's: they have all data, though
 * one of them loses power meanwhile.
 */
static void
test_what_members_are_asked_with_beside_a_conflict_is_no_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1680; seed < 1688; seed++) {
		struct rig rig;

		start(&rig, 5, 4, seed);
		rig.options.grace_ms = 1000;
		engine_set_limits(rig.engine, &rig.options);
		write_everywhere(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.members[1].disk.dirty_count, 0);
		set_deadline_of_all(&rig, 2000000);
		set_pace(&rig, 3, 300000); /* the last to answer */
		rig.members[2].conflicts = true;
		/* in a region that is dirty */
		rig_submit(&rig, REQUEST_WRITE, FIRST_ON_2, 8, false);
		for (int step = 0; step < 2000 && rig.members[1].disk.dirty_count == 0; step++)
			rig_step(&rig);
		assert_int_equal(rig.members[1].disk.dirty_count, 1);
		rig_steps(&rig, 5);
		fake_member_power_loss(&rig.members[1], true);
		while (rig_status(&rig).members[2].state == MEMBER_IN_SYNC ||
		       rig_status(&rig).members[1].link != LINK_OPEN) {
			rig_step(&rig);
			assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		}
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false); /* which tells of no loss */
		rig_drain(&rig);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* A gateway's crash left copies that differ, and a flush covered both.  Whoever reads has one of
 * them written over the other: that is no safer than any write, and with a cache it goes.
 */
static void
test_a_copy_that_a_read_settled_can_go_with_a_cache(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1620; seed < 1628; seed++) {
		struct rig rig;
		int late;

		start(&rig, 1, 2, seed);
		wait_until(&rig, all_clean);
		rig_submit(&rig, REQUEST_WRITE, FAR_SECTOR, 64, true);
		rig_drain(&rig);
		set_pace(&rig, 1, 1000000);
		rig_submit(&rig, REQUEST_WRITE, FAR_SECTOR, 8, false);
		rig_steps(&rig, 20);
		rig_crash(&rig);
		speed_up(&rig);
		rig.options.grace_ms = 1000;
		/* it comes there late */
		rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_READ, FAR_SECTOR, 8, false);
		rig_drain(&rig);
		late = rig.members[1].disk.dirty_count > 0;
		/* By a resync, which finds that they are the same now. */
		engine_set_rates(rig.engine, 0, 1u << 30);
		for (int i = 0; i < 400 && !all_proven(&rig); i++)
			rig_step(&rig);
		fake_member_power_loss(&rig.members[late], true);
		lost += rig.members[late].counts.sectors_lost;
		fake_member_cut(&rig.members[!late], false);
		rig_steps(&rig, 400);
		rig.members[!late].reachable = true;
		rig_steps(&rig, 400);
		wait_until(&rig, all_proven);
		assert_int_equal(rig_parity_faults(&rig), 0);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* A member that is sent away, and loses its power before its session has ended, is needed after
 * all.  Its eviction had begun by then.
 */
static void
test_a_cache_can_go_while_its_session_is_being_closed(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1660; seed < 1668; seed++) {
		struct rig rig;
		char why[256];

		start(&rig, 5, 4, seed);
		write_everywhere(&rig);
		rig.members[1].close_us_max = 3000000;
		rig.members[3].refuse_from_bytes = LAYOUT_SUPERBLOCK_A_OFFSET;
		rig.members[3].refuse_to_bytes = LAYOUT_MAP_OFFSET;
		assert_int_equal(engine_fail(rig.engine, 1, why), 0);
		for (int i = 0; i < 200 && rig_status(&rig).members[1].state != MEMBER_FAULTY; i++)
			rig_step(&rig);
		assert_int_equal(rig_status(&rig).members[1].link, LINK_OPEN);
		fake_member_power_loss(&rig.members[1], true);
		fake_member_cut(&rig.members[2], false);
		rig.members[1].close_us_max = 200;
		rig_steps(&rig, 300);
		rig.members[3].refuse_to_bytes = 0;
		rig_steps(&rig, 300);
		lost += rig.members[1].counts.sectors_lost;
		rig.errors_allowed = true;
		rig.members[2].reachable = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

static enum tap_verdict
hold_by_op(struct tap *tap, const struct backend_io *io)
{
	const bool of_data = io->op == BACKEND_FLUSH || io->offset_bytes >= DATA_OFFSET;

	return io->op == *(enum backend_op *)tap->owner && of_data ? TAP_HOLD : TAP_PASS;
}

/* It is sent away while it has this to answer, and does so before its session ends, or not. 
 * Returns what it lost with its power.
 */
static uint64_t
lose_cache_with(struct rig *rig, struct tap *tap, enum backend_op op, bool answers, uint64_t seed)
{
	char why[256];
	uint64_t lost;

	rig_init(rig, 5, 4, 16384, LOAD_BYTES, seed);
	set_caches(rig, true);
	tap_init(tap, &rig->members[1]);
	tap->owner = &op;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	write_everywhere(rig);
	if (op == BACKEND_WRITE) {
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(rig);
	}
	tap->judge = hold_by_op;
	rig_submit(rig, op == BACKEND_WRITE ? REQUEST_WRITE : REQUEST_FLUSH, 0,
		   op == BACKEND_WRITE ? 96 : 0, false);
	for (int i = 0; i < 50 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_int_equal(tap->held_count, 1);
	tap->judge = NULL;
	rig->members[1].close_us_max = 3000000;
	rig->members[3].refuse_from_bytes = LAYOUT_SUPERBLOCK_A_OFFSET;
	rig->members[3].refuse_to_bytes = LAYOUT_MAP_OFFSET;
	assert_int_equal(engine_fail(rig->engine, 1, why), 0);
	for (int i = 0; i < 200 && rig_status(rig).members[1].state != MEMBER_FAULTY; i++)
		rig_step(rig);
	assert_int_equal(rig_status(rig).members[1].link, LINK_OPEN);
	if (answers) {
		tap_let_go(tap);
		rig_steps(rig, 10);
	}
	lost = rig->members[1].counts.sectors_lost;
	fake_member_power_loss(&rig->members[1], true);
	fake_member_cut(&rig->members[2], false);
	rig->members[1].close_us_max = 200;
	rig_steps(rig, 300);
	rig->members[3].refuse_to_bytes = 0;
	rig_steps(rig, 300);
	rig->errors_allowed = true;
	rig->members[2].reachable = true;
	if (answers)
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	assert_int_equal(rig_status(rig).members[1].state, MEMBER_IN_SYNC);
	return rig->members[1].counts.sectors_lost - lost;
}

/* The same while it has a flush to answer, which covers nothing, or a write, which may be in its
 * cache by then.
 */
static void
test_a_cache_can_go_with_what_its_member_has_not_answered(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1668; seed < 1684; seed++) {
		struct rig rig;
		struct tap tap; /* until the rig has stopped */
		const bool writes = seed % 2;
		const uint64_t gone = lose_cache_with(
			&rig, &tap, writes ? BACKEND_WRITE : BACKEND_FLUSH, writes, seed);

		lost += gone;
		if (gone > 0 || !writes) {
			assert_int_equal(rig.failed, 1);
			assert_int_equal(rig.last_error, -EIO);
		}
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* What a member's first log-in says of its cache is about the time before: nobody had its
 * reservation then.
 */
static void
hide_what_was(struct fake_member *member)
{
	member->cache_kept = false;
}

/* With something in its cache, which lives on.  Whether it stays in sync: a fake member can tell
 * that, two times of three.
 */
static bool
stays_in_sync_without_a_session(struct rig *rig, int slot, struct fake_member *member)
{
	write_everywhere(rig);
	fake_member_cut(member, true);
	for (int i = 0; i < 500; i++) {
		rig_step(rig);
		if (rig_status(rig).members[slot].state != MEMBER_IN_SYNC)
			return false;
	}
	return rig_status(rig).members[slot].link == LINK_OPEN;
}

static void
test_a_cache_is_believed_to_live_on_from_the_first_session(void **state)
{
	int kept = 0;

	(void)state;
	for (uint64_t seed = 1630; seed < 1638; seed++) {
		struct rig rig;

		rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
		rig.options.grace_ms = 1000;
		set_caches(&rig, true);
		for (int m = 0; m < 4; m++)
			hide_what_was(&rig.members[m]);
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		kept += stays_in_sync_without_a_session(&rig, 1, &rig.members[1]);
		wait_until(&rig, all_in_sync);
		finish(&rig);
	}
	assert_true(kept > 0);
}

static void
test_a_cache_of_a_new_member_is_believed_to_live_on(void **state)
{
	char why[256];
	int kept = 0;

	(void)state;
	for (uint64_t seed = 1640; seed < 1648; seed++) {
		struct rig rig;
		int slot;

		start(&rig, 5, 4, seed);
		rig.options.grace_ms = 1000;
		engine_set_limits(rig.engine, &rig.options);
		rig_mark_spare(&rig, 4, rig.members[0].capacity_bytes);
		rig.members[4].disk.write_cache = true;
		hide_what_was(&rig.members[4]);
		slot = engine_attach(rig.engine, &rig.members[4].backend, why);
		assert_true(slot >= 0);
		rig_steps(&rig, 50);
		assert_int_equal(engine_replace(rig.engine, 1, slot, why), 0);
		wait_for_state(&rig, slot, MEMBER_IN_SYNC);
		kept += stays_in_sync_without_a_session(&rig, slot, &rig.members[4]);
		wait_until(&rig, all_in_sync);
		finish(&rig);
		fake_member_free(&rig.members[4]);
	}
	assert_true(kept > 0);
}

/* Two lose their caches together, and a flush has told of it, but what they lost is not proven yet:
 * nothing of it can be made without one that loses its own next, so that one stays.
 */
static void
test_a_cache_is_not_made_up_for_because_its_loss_was_told(void **state)
{
	static const struct shape {
		uint8_t level, members;
		int one, other, again;
	} shapes[] = { { 5, 4, 1, 2, 3 }, { 1, 2, 0, 1, 1 } };

	(void)state;
	for (uint64_t seed = 1660; seed < 1664; seed++) {
		const struct shape *shape = &shapes[seed % 2];
		struct rig rig;

		start(&rig, shape->level, shape->members, seed);
		rig.options.grace_ms = 1000;
		engine_set_limits(rig.engine, &rig.options);
		write_everywhere(&rig);
		engine_set_rates(rig.engine, 1, 1);
		rig_lose_caches(&rig, shape->one, shape->other);
		rig.errors_allowed = true;
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_false(all_proven(&rig));
		/* another row, as a whole */
		rig_submit(&rig, REQUEST_WRITE, 6720, 96, false);
		rig_drain(&rig);
		fake_member_power_loss(&rig.members[shape->again], true);
		rig_steps(&rig, 2000);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		assert_int_equal(rig_status(&rig).members[shape->again].state, MEMBER_IN_SYNC);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Level 6, and three are away, so the first that is back is needed, though its cache is lost.  What
 * that took along is proven by nothing, however many are back since: nothing of it can be made
 * without another that loses its own, so that one stays, and what flushes covered is there.
 */
static void
test_a_cache_is_not_made_up_for_by_rows_that_are_not_proven(void **state)
{
	uint64_t dropped = 0;

	(void)state;
	for (uint64_t seed = 1670; seed < 1674; seed++) {
		struct rig rig;

		rig_init(&rig, 6, 4, 16384, LOAD_BYTES, seed);
		rig.options.grace_ms = 1000;
		set_caches(&rig, true);
		rig.members[1].disk.write_cache = false;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		write_everywhere(&rig);
		engine_set_rates(rig.engine, 1, 1);
		rig.errors_allowed = true;
		dropped -= rig.members[0].counts.sectors_lost;
		fake_member_power_loss(&rig.members[0], true);
		fake_member_power_loss(&rig.members[3], false);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
		wait_for_link(&rig, 0, LINK_OPEN);
		rig_steps(&rig, 200);
		rig.members[1].reachable = true;
		wait_for_link(&rig, 1, LINK_OPEN);
		rig_steps(&rig, 200);
		rig.members[3].reachable = true;
		rig_steps(&rig, 4000);
		dropped += rig.members[0].counts.sectors_lost;
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		assert_int_equal(rig_status(&rig).members[3].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -EIO);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(dropped > 0);
}

/* It was needed when its cache was lost, so it stayed, and what that took along is not proven yet.
 * The others make nothing of those rows when its cache is lost once more: it stays again.
 */
static void
test_a_cache_is_not_made_up_for_while_its_own_loss_is_not_proven(void **state)
{
	static const struct {
		uint8_t level, members;
	} shapes[] = { { 5, 4 }, { 6, 4 }, { 6, 5 } };

	(void)state;
	for (uint64_t seed = 1690; seed < 1696; seed++) {
		const uint8_t tolerated = shapes[seed % 3].level - 4;
		struct rig rig;

		rig_init(&rig, shapes[seed % 3].level, shapes[seed % 3].members, 16384, LOAD_BYTES,
			 seed);
		rig.options.grace_ms = 1000;
		set_caches(&rig, true);
		for (int m = 1; m <= tolerated; m++)
			rig.members[m].disk.write_cache = false;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		write_everywhere(&rig);
		engine_set_rates(rig.engine, 1, 1);
		rig.errors_allowed = true;
		fake_member_power_loss(&rig.members[0], true);
		for (int m = 1; m <= tolerated; m++)
			fake_member_cut(&rig.members[m], false);
		assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
		wait_for_link(&rig, 0, LINK_OPEN);
		rig_steps(&rig, 200);
		for (int m = 1; m <= tolerated; m++)
			rig.members[m].reachable = true;
		wait_until(&rig, all_in_sync);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -EIO);
		assert_false(all_proven(&rig));
		/* another row, as a whole */
		rig_submit(&rig, REQUEST_WRITE, 6720, 96, false);
		rig_drain(&rig);
		fake_member_power_loss(&rig.members[0], true);
		rig_steps(&rig, 4000);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* The gateway died, and what was being written is not proven yet when a member loses its cache.  The
 * others make nothing of those rows, so it stays: what flushes had covered is there.
 */
static void
test_a_cache_is_not_made_up_for_while_a_crash_is_not_proven(void **state)
{
	static const struct {
		uint8_t level, members;
	} shapes[] = { { 5, 4 }, { 6, 4 }, { 6, 5 } };

	(void)state;
	for (uint64_t seed = 1700; seed < 1706; seed++) {
		struct rig rig;

		start(&rig, shapes[seed % 3].level, shapes[seed % 3].members, seed);
		write_everywhere(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		submit_everywhere(&rig, REQUEST_WRITE, 96, 8);
		rig_steps(&rig, 10);
		rig_crash(&rig);
		rig.options.grace_ms = 1000;
		rig_start_active(&rig);
		engine_set_rates(rig.engine, 1, 1);
		assert_false(all_proven(&rig));
		rig_submit(&rig, REQUEST_WRITE, 6720, 96, false);
		rig_drain(&rig);
		rig.errors_allowed = true;
		fake_member_power_loss(&rig.members[1], true);
		rig_steps(&rig, 4000);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		assert_int_equal(rig_status(&rig).members[1].state, MEMBER_IN_SYNC);
		assert_int_equal(rig_status(&rig).state, VOLUME_ACTIVE);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		assert_int_equal(rig.last_error, -EIO);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Two are away, which is too many.  The first that is back lost nothing, so the other, whose cache
 * is lost, can go: it has been heard, and nothing waits for it any longer.
 */
static void
test_who_is_back_without_its_cache_is_not_waited_for(void **state)
{
	(void)state;
	for (uint64_t seed = 1680; seed < 1684; seed++) {
		struct rig rig;
		uint64_t begun_ms;

		rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
		rig.options.grace_ms = 1000;
		rig.options.give_up_ms = 60000;
		set_caches(&rig, true);
		rig.members[1].disk.write_cache = false;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		fake_member_power_loss(&rig.members[3], false);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
		rig.members[1].reachable = true;
		wait_for_link(&rig, 1, LINK_OPEN);
		rig_steps(&rig, 200);
		begun_ms = rig.now_ms;
		rig.members[3].reachable = true;
		submit_everywhere(&rig, REQUEST_WRITE, 1024, 512);
		rig_drain(&rig);
		assert_true(rig.now_ms - begun_ms < 10000);
		wait_until(&rig, all_in_sync);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* A device that said that it has no cache, and was sent no flushes, lost what it had acknowledged, also
 * in regions that are clean.  Though elsewhere rows of a crash are not proven yet, it must not stay:
 * what it has there is wrong, and nothing would say so.
 */
static void
test_a_device_that_was_sent_no_flushes_goes_though_rows_are_not_proven(void **state)
{
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 1710; seed < 1716; seed++) {
		struct rig rig;

		rig_init_many_regions(&rig, 5 + seed % 2, 4, 4u << 20, seed);
		set_caches(&rig, true);
		rig.members[0].hides_cache = true;
		rig_start_active(&rig);
		rig_wait_for_resync(&rig);
		write_everywhere(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		wait_until(&rig, all_clean);
		for (uint64_t sector = 0; sector < 6000; sector += 16)
			rig_submit(&rig, REQUEST_WRITE, sector, 4, false);
		rig_steps(&rig, 10);
		rig_crash(&rig);
		rig.options.grace_ms = 1000;
		rig.options.sync_rate_min = rig.options.sync_rate_max = 1;
		rig_start_active(&rig);
		assert_false(all_proven(&rig));
		/* What is far from there, and flushed, and clean. */
		for (uint64_t sector = 6400; sector + 16 <= rig.sectors; sector += 64)
			rig_submit(&rig, REQUEST_WRITE, sector, 16, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig_steps(&rig, 4000); /* it is clean by now */
		assert_false(all_proven(&rig));
		lost -= rig.members[0].counts.sectors_lost;
		rig.errors_allowed = true;
		fake_member_break_word(&rig.members[0]);
		rig_steps(&rig, 2000);
		lost += rig.members[0].counts.sectors_lost;
		engine_set_rates(rig.engine, 1 << 26, 1 << 30);
		wait_until(&rig, all_in_sync);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
	assert_true(lost > 0);
}

/* Members fell silent while a row of a first resync's region was written, and it failed.  It was
 * written again since, which proves it.  Then nothing is unproven but what nobody wrote: a cache is
 * made up for, and no flush fails.
 */
static void
test_a_cache_is_made_up_for_when_failed_rows_were_written_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1720; seed < 1726; seed++) {
		const int level = 5 + (int)(seed % 2), silent = level - 3;
		struct rig rig;

		rig_init(&rig, level, level, 16384, LOAD_BYTES, seed);
		rig.options.grace_ms = 1000;
		rig.options.queue_limit_ms = 2000;
		rig.options.give_up_ms = 60000; /* nobody goes meanwhile */
		set_caches(&rig, true);
		for (int m = 0; m < silent; m++)
			rig.members[m].disk.write_cache = false;
		rig_start_active(&rig);
		engine_set_rates(rig.engine, 1, 1);
		rig_submit(&rig, REQUEST_WRITE, 0, 128, false); /* its region is marked */
		rig_drain(&rig);
		rig.errors_allowed = true;
		for (int m = 0; m < silent; m++)
			set_pace(&rig, m, 1000000);
		rig_submit(&rig, REQUEST_WRITE, 0, 128, false);
		rig_steps(&rig, 10);
		for (int m = 0; m < silent; m++)
			fake_member_cut(&rig.members[m], false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		speed_up(&rig);
		for (int m = 0; m < silent; m++)
			rig.members[m].reachable = true;
		for (int m = 0; m < silent; m++)
			wait_for_link(&rig, m, LINK_OPEN);
		rig.errors_allowed = false;
		rig_submit(&rig, REQUEST_WRITE, 0, 128, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_WRITE, 6720, 96, false);
		rig_drain(&rig);
		assert_false(all_proven(&rig));
		fake_member_power_loss(&rig.members[3], true);
		rig_steps(&rig, 300);
		rig_submit(&rig, REQUEST_FLUSH, 0, 0, false);
		rig_drain(&rig);
		engine_set_rates(rig.engine, 1 << 26, 1 << 30);
		wait_until(&rig, all_in_sync);
		assert_int_equal(rig_status(&rig).lost_bytes, 0);
		rig_verify(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_cache_is_made_up_for_by_those_who_were_proven_since),
		cmocka_unit_test(test_a_cache_is_made_up_for_while_a_first_resync_goes_on),
		cmocka_unit_test(test_a_loss_that_was_made_up_for_is_not_doubted_again),
		cmocka_unit_test(test_parity_that_a_cache_took_along_is_not_believed),
		cmocka_unit_test(test_who_was_filled_before_a_cache_took_parity_along_fits_it),
		cmocka_unit_test(test_a_loss_is_told_although_its_member_went),
		cmocka_unit_test(test_a_write_that_fails_after_its_answer_fails_a_flush),
		cmocka_unit_test(test_a_loss_is_told_to_a_flush_and_to_nobody_else),
		cmocka_unit_test(test_a_device_that_lost_writes_without_a_cache_is_filled_anew),
		cmocka_unit_test(test_a_device_that_lost_writes_while_it_was_out_is_filled_anew),
		cmocka_unit_test(test_what_a_device_said_before_it_was_gone_is_on_record),
		cmocka_unit_test(test_what_a_start_asks_members_with_is_no_loss),
		cmocka_unit_test(test_what_members_are_asked_with_beside_a_conflict_is_no_loss),
		cmocka_unit_test(test_a_copy_that_a_read_settled_can_go_with_a_cache),
		cmocka_unit_test(test_a_cache_can_go_while_its_session_is_being_closed),
		cmocka_unit_test(test_a_cache_can_go_with_what_its_member_has_not_answered),
		cmocka_unit_test(test_a_cache_is_believed_to_live_on_from_the_first_session),
		cmocka_unit_test(test_a_cache_of_a_new_member_is_believed_to_live_on),
		cmocka_unit_test(test_a_cache_is_not_made_up_for_because_its_loss_was_told),
		cmocka_unit_test(test_a_cache_is_not_made_up_for_by_rows_that_are_not_proven),
		cmocka_unit_test(test_a_cache_is_not_made_up_for_while_its_own_loss_is_not_proven),
		cmocka_unit_test(test_a_cache_is_not_made_up_for_while_a_crash_is_not_proven),
		cmocka_unit_test(test_who_is_back_without_its_cache_is_not_waited_for),
		cmocka_unit_test(test_a_cache_is_made_up_for_when_failed_rows_were_written_again),
		cmocka_unit_test(
			test_a_device_that_was_sent_no_flushes_goes_though_rows_are_not_proven),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
