/* test_engine_log.c - the write log: what stands on members when rows are written, and what a start
 * makes of it.
 */
#include "scenario.h"

#include <stdlib.h>

#include "engine/record/write_log.h"
#include "pure/log_record.h"

#define LOAD_BYTES (1ull << 20)
#define MEMBERS_MAX 5
#define LOG_OFFSET (LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES)
#define LOG_BYTES (1u << 20)
#define DATA_OFFSET (LOG_OFFSET + LOG_BYTES + (1u << 20)) /* behind the checksums */

struct world {
	struct rig rig;
	struct tap taps[MEMBERS_MAX];
	uint64_t key;
	/* Of the log's records: those from this one on are held; 0: none are. */
	uint64_t held_from, held_to; /* 0: to the last */
	bool refused;		     /* records are */
	uint32_t refused_by;	     /* ... by these members, bits */
	uint32_t rows_of;	     /* members whose writes of rows are held, bits */
	bool reads_refused;	     /* of rows */
	bool watches; /* what is overwritten in the log; or what is there when rows are written */
	bool replays;
	int wanted_copies;
	int seen; /* how often that was looked at */
};

/* --- what stands on the members --- */

static bool
decode(struct world *world, const uint8_t *block, struct log_header *header)
{
	struct geometry geometry;
	struct log_piece pieces[LOG_PIECES_MAX];
	const struct superblock superblock = rig_superblock(&world->rig, 0);
	uint32_t digest;

	assert_int_equal(geometry_init(&geometry, world->rig.level, world->rig.count,
				       world->rig.chunk_bytes, 512, superblock.data_bytes),
			 0);
	return log_decode(block, world->rig.options.volume_uuid, world->key, &geometry, header,
			  pieces, &digest) == LOG_RECORD;
}

/* The highest tail that any member has, and how many have the record whole. */
static uint64_t
search(struct world *world, uint64_t sequence, int *copies)
{
	static uint8_t area[LOG_BYTES];
	uint64_t tail = 0;

	*copies = 0;
	for (int i = 0; i < world->rig.count; i++) {
		bool has = false;

		disk_read(&world->rig.members[i].disk, LOG_OFFSET, area, sizeof(area));
		for (uint32_t at = 0; at < LOG_BYTES; at += LOG_BLOCK_BYTES) {
			struct log_header header;

			if (!decode(world, area + at, &header))
				continue;
			if (header.tail > tail)
				tail = header.tail;
			has |= header.sequence == sequence &&
			       log_payload_is_whole(area + at, area + at + LOG_BLOCK_BYTES);
		}
		*copies += has;
	}
	return tail;
}

/* Whatever is overwritten is below a tail that some member has. */
static void
check_overwritten(struct world *world, const struct tap *tap, const struct backend_io *io)
{
	const uint32_t segment = log_segment_bytes(LOG_BYTES);
	const uint64_t begin = (io->offset_bytes - LOG_OFFSET) / segment * segment;
	uint8_t block[LOG_BLOCK_BYTES];
	uint64_t newest = 0;
	int copies;

	if (io->offset_bytes != LOG_OFFSET + begin)
		return; /* the segment is in use already */
	for (uint32_t at = 0; at < segment; at += LOG_BLOCK_BYTES) {
		struct log_header header;

		disk_read(&tap->member->disk, io->offset_bytes + at, block, sizeof(block));
		if (decode(world, block, &header) && header.sequence > newest)
			newest = header.sequence;
	}
	if (newest == 0)
		return;
	world->seen++;
	assert_true(search(world, 0, &copies) > newest);
}

static void
check_copies(struct world *world)
{
	int copies;

	search(world, 1, &copies);
	world->seen++;
	assert_int_equal(copies, world->wanted_copies);
}

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const uint32_t bit = 1u << (tap - world->taps);
	const bool in_log = io->op == BACKEND_WRITE && io->offset_bytes >= LOG_OFFSET &&
			    io->offset_bytes < LOG_OFFSET + LOG_BYTES;
	struct log_header header;

	if (in_log && (world->refused || (world->refused_by & bit)))
		return TAP_REFUSE;
	if (in_log && world->watches)
		check_overwritten(world, tap, io);
	if (in_log && world->held_from > 0 && decode(world, io->iov[0].iov_base, &header) &&
	    header.sequence >= world->held_from &&
	    (world->held_to == 0 || header.sequence <= world->held_to))
		return TAP_HOLD;
	if (io->op == BACKEND_READ && io->offset_bytes >= DATA_OFFSET && world->reads_refused)
		return TAP_REFUSE;
	if ((io->op == BACKEND_WRITE || io->op == BACKEND_ZERO) &&
	    io->offset_bytes >= DATA_OFFSET) {
		if (world->replays)
			check_copies(world);
		if (world->rows_of & bit)
			return TAP_HOLD;
	}
	return TAP_PASS;
}

/* --- scenes --- */

static void
begin(struct world *world, int level, int count, uint32_t chunk_bytes, uint64_t seed)
{
	*world = (struct world){ 0 };
	rig_init(&world->rig, level, count, chunk_bytes, LOAD_BYTES, seed);
	world->rig.options.log = LOG_MODE_DEGRADED;
	for (int i = 0; i < count; i++) {
		tap_init(&world->taps[i], &world->rig.members[i]);
		world->taps[i].judge = judge;
		world->taps[i].owner = world;
	}
}

static bool
is_open(struct rig *rig)
{
	return rig_status(rig).log.open;
}

static bool
is_given_up(struct rig *rig)
{
	return rig_status(rig).log.given_up && !rig_status(rig).log.open;
}

static bool
is_proven(struct rig *rig)
{
	return rig_superblock(rig, 0).log_proven;
}

/* All is written and fits; then the last member goes. */
static void
degrade(struct world *world)
{
	struct rig *rig = &world->rig;

	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	fake_member_cut(&rig->members[rig->count - 1], false);
	wait_until(rig, is_open);
	world->key = rig_superblock(rig, 0).log_key;
	assert_true(world->key != 0);
}

static void
crash(struct world *world)
{
	rig_crash(&world->rig);
	for (int i = 0; i < world->rig.count; i++)
		tap_drop(&world->taps[i]);
	world->rows_of = 0;
	world->held_from = 0;
}

/* Without the one that is out. */
static void
start_again(struct world *world)
{
	rig_start(&world->rig);
	assert_true(rig_wait(&world->rig, VOLUME_DEGRADED, 20000));
}

static void
end(struct world *world)
{
	struct rig *rig = &world->rig;

	for (int i = 0; i < rig->count; i++)
		world->taps[i].judge = NULL;
	rig_verify(rig);
	rig->members[rig->count - 1].reachable = true;
	wait_until(rig, all_in_sync);
	finish(rig);
}

static void
wait_for_held(struct world *world, int count)
{
	int held = 0;

	for (int step = 0; step < 20000 && held < count; step++) {
		rig_step(&world->rig);
		held = 0;
		for (int i = 0; i < world->rig.count; i++)
			held += world->taps[i].held_count;
	}
	assert_true(held >= count);
}

/* --- tests --- */

/* Of each row that is written some chunks have it and others don't; nothing of the missing member's
 * is lost, nor of what was there before.
 */
static void
test_rows_that_a_crash_tore_while_a_member_is_out_are_whole_afterwards(void **state)
{
	(void)state;
	for (int level = 5; level <= 6; level++)
		for (uint32_t torn = 1; torn < 4; torn++) {
			struct world world;

			begin(&world, level, 4, 16384, 100 + torn);
			degrade(&world);
			world.rows_of = torn;
			for (uint64_t sector = 5; sector < world.rig.sectors; sector += 100)
				rig_submit(&world.rig, REQUEST_WRITE, sector, 9, false);
			wait_for_held(&world, 1);
			rig_steps(&world.rig, 30);
			crash(&world);
			start_again(&world);
			end(&world);
		}
}

/* The same of zeros, which need no payload. */
static void
test_rows_of_zeros_that_a_crash_tore_are_whole_afterwards(void **state)
{
	struct world world;

	(void)state;
	begin(&world, 5, 4, 16384, 110);
	degrade(&world);
	world.rows_of = 1;
	rig_submit(&world.rig, REQUEST_ZERO, 96, 192, false);
	wait_for_held(&world, 1);
	rig_steps(&world.rig, 30);
	crash(&world);
	start_again(&world);
	end(&world);
}

/* Two writes come together; the longer one does not fit beside the other, and the gateway dies when
 * only the first record is there.
 */
static void
test_parity_is_in_the_record_of_its_data(void **state)
{
	struct world world;

	(void)state;
	begin(&world, 5, 3, 131072, 120);
	degrade(&world);
	world.held_from = 2;
	rig_submit(&world.rig, REQUEST_WRITE, 0, 8, false);
	rig_submit(&world.rig, REQUEST_WRITE, 512, 512, false);
	wait_for_held(&world, 1);
	rig_steps(&world.rig, 30);
	crash(&world);
	start_again(&world);
	end(&world);
}

static void
test_a_log_that_members_refuse_is_given_up_and_the_volume_goes_on(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 130);
	degrade(&world);
	world.refused = true;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	wait_until(rig, is_given_up);
	assert_int_equal(rig_superblock(rig, 0).log_key, 0);
	assert_int_equal(rig_status(rig).state, VOLUME_DEGRADED);
	rig_submit(rig, REQUEST_WRITE, 500, 9, false);
	rig_drain(rig);
	/* an administrator tries it again */
	world.refused = false;
	engine_set_log(rig->engine, LOG_MODE_DEGRADED);
	wait_until(rig, is_open);
	end(&world);
}

/* Many times around a log of three segments. */
static void
test_nothing_is_overwritten_that_a_start_might_need(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 140);
	rig->options.log_segments_max = 3;
	degrade(&world);
	world.watches = true;
	for (int turn = 0; turn < 60; turn++) {
		for (uint64_t sector = 0; sector < rig->sectors; sector += 200)
			rig_submit(rig, REQUEST_WRITE, sector, 40, false);
		rig_drain(rig);
	}
	assert_true(world.seen > 3);
	end(&world);
}

/* As long as they have an answer: none waits for room that nothing will make. */
static void
write_at_random(struct rig *rig, uint64_t seed)
{
	for (int turn = 0; turn < 100; turn++) {
		for (int i = 0; i < 16; i++) {
			const uint64_t count = 1 + fake_random(&seed) % 500;

			rig_submit(rig, REQUEST_WRITE, fake_random(&seed) % (rig->sectors - count),
				   count, false);
		}
		rig_drain(rig);
	}
}

/* A record that says nothing but the tail begins the segment that is kept for such, and one with
 * data would fit behind it: then nobody could tell the next tail.
 */
static void
test_the_tail_can_be_told_however_full_the_log_is(void **state)
{
	struct world world;

	(void)state;
	for (uint64_t seed = 0; seed < 12; seed++) {
		begin(&world, 6, 4, 4096, 170 + seed);
		world.rig.options.log_segments_max = 3 + seed % 2;
		degrade(&world);
		write_at_random(&world.rig, 1700 + seed);
		end(&world);
	}
}

/* Those who take its records instead keep what they need to tell the tail. */
static void
test_a_member_that_refuses_the_log_leaves_no_other_without_room(void **state)
{
	struct world world;

	(void)state;
	for (uint64_t seed = 0; seed < 12; seed++) {
		begin(&world, 5, 3, seed % 2 ? 4096 : 16384, 190 + seed);
		world.rig.options.log = LOG_MODE_ALWAYS;
		world.rig.options.log_segments_max = 3 + seed % 2;
		rig_start_active(&world.rig);
		rig_wait_for_resync(&world.rig);
		wait_until(&world.rig, is_open);
		world.refused_by = 1u << seed % 3;
		write_at_random(&world.rig, 1900 + seed);
		assert_false(rig_status(&world.rig).log.given_up);
		end(&world);
	}
}

/* A write is acknowledged, and with the cache it goes; the next waits for room in the log. */
static void
test_a_record_is_needed_as_long_as_a_cache_may_have_taken_its_rows_along(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	for (uint64_t seed = 150; seed < 158; seed++) {
		begin(&world, 5, 4, 16384, seed);
		rig->options.log_live_bytes_max = 8192;
		set_caches(rig, true);
		degrade(&world);
		for (int i = 0; i < 3; i++)
			world.taps[i].judge = hold_flushes;
		/* its row has parity, and data of the member that is out */
		rig_submit(rig, REQUEST_WRITE, 133, 9, false);
		rig_drain(rig);
		rig_submit(rig, REQUEST_WRITE, 500, 9, false);
		wait_for_held(&world, 1);
		rig_steps(rig, 30);
		for (int i = 0; i < 3; i++)
			world.taps[i].judge = tap_hold_superblocks;
		rig->errors_allowed = true;
		for (int i = 0; i < 3; i++)
			fake_member_power_loss(&rig->members[i], true);
		for (int i = 0; i < 3; i++)
			tap_let_go(&world.taps[i]);
		rig_steps(rig, 300);
		for (int i = 0; i < 3; i++)
			world.taps[i].judge = judge;
		crash(&world);
		memcpy(rig->acknowledged, rig->flushed, rig->sectors * sizeof(*rig->flushed));
		start_again(&world);
		rig->errors_allowed = false; /* nothing is lost */
		rig_verify(rig);
		rig_crash(rig);
		rig_free(rig);
	}
}

static enum tap_verdict
judge_slow_flushes(struct tap *tap, const struct backend_io *io)
{
	const struct world *world = tap->owner;

	return io->op == BACKEND_FLUSH && tap == &world->taps[2] ? TAP_HOLD : judge(tap, io);
}

/* Members 0 and 1 have flushed, and are written to, while member 2 flushes yet. */
static void
test_the_tail_passes_nothing_that_was_written_while_a_flush_was_under_way(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	for (uint64_t seed = 180; seed < 190; seed++) {
		begin(&world, 5, 4, 16384, seed);
		rig->options.log_live_bytes_max = 36000;
		set_caches(rig, true);
		degrade(&world);
		for (int i = 0; i < 3; i++)
			world.taps[i].judge = judge_slow_flushes;
		rig_submit(rig, REQUEST_WRITE, 133, 9, false);
		rig_drain(rig);
		rig_submit(rig, REQUEST_WRITE, 261, 9, false);
		rig_drain(rig);
		assert_int_equal(world.taps[2].held_count, 1);
		for (int i = 0; i < 3; i++)
			world.taps[i].judge = judge;
		tap_let_go(&world.taps[2]);
		rig_steps(rig, 30);
		rig_submit(rig, REQUEST_WRITE, 900, 9, false);
		rig_drain(rig);
		crash(&world);
		for (int i = 0; i < 3; i++)
			fake_member_power_loss(&rig->members[i], true);
		start_again(&world);
		rig_verify(rig); /* all that was acknowledged */
		rig_crash(rig);
		rig_free(rig);
	}
}

/* A cache that flushes slowly does not hold writes while the log is to be opened. */
static void
test_writes_go_on_while_caches_are_flushed_for_the_log(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 190);
	set_caches(rig, true);
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	world.taps[2].judge = judge_slow_flushes;
	fake_member_cut(&rig->members[3], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	wait_for_held(&world, 1);
	rig_submit(rig, REQUEST_WRITE, 133, 9, false);
	rig_drain(rig);
	assert_int_equal(world.taps[2].held_count, 1);
	assert_false(is_open(rig));
	world.taps[2].judge = judge;
	tap_let_go(&world.taps[2]);
	wait_until(rig, is_open);
	end(&world);
}

/* Superblocks that name a log's key don't get there. */
static enum tap_verdict
judge_opening(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const bool writes = io->op == BACKEND_WRITE || io->op == BACKEND_ZERO;
	struct superblock superblock;

	if (writes && io->offset_bytes >= DATA_OFFSET)
		world->seen++;
	if (io->op != BACKEND_WRITE || io->offset_bytes >= LAYOUT_MAP_OFFSET)
		return TAP_PASS;
	return superblock_decode(io->iov[0].iov_base, &superblock, NULL) == SUPERBLOCK_OK &&
			       superblock.log_key != 0
		       ? TAP_HOLD
		       : TAP_PASS;
}

static void
test_no_row_is_written_while_superblocks_are_to_name_the_log(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 195);
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	for (int i = 0; i < 3; i++)
		world.taps[i].judge = judge_opening;
	fake_member_cut(&rig->members[3], false);
	wait_for_held(&world, 1);
	world.seen = 0;
	rig_submit(rig, REQUEST_WRITE, 133, 9, false);
	rig_steps(rig, 300);
	assert_int_equal(world.seen, 0);
	assert_false(is_open(rig));
	for (int i = 0; i < 3; i++) {
		world.taps[i].judge = judge;
		tap_let_go(&world.taps[i]);
	}
	rig_drain(rig);
	wait_until(rig, is_open);
	end(&world);
}

/* What a resync proves after the log was opened is known of whoever goes next. */
static void
test_superblocks_say_when_all_rows_are_proven(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 16384, 160);
	rig->options.sync_rate_min = rig->options.sync_rate_max = 1;
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 8);
	rig_drain(rig);
	fake_member_cut(&rig->members[4], false);
	wait_until(rig, is_open);
	assert_false(is_proven(rig));
	engine_set_rates(rig->engine, 1u << 30, 1u << 30);
	wait_until(rig, is_proven);
	end(&world);
}

/* On level 6 two may go; of the record only one copy got there before the gateway died. */
static void
test_a_record_is_on_enough_members_before_it_is_replayed(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 16384, 170);
	degrade(&world);
	world.held_from = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 2);
	for (int i = 0; i < rig->count; i++)
		if (world.taps[i].held_count > 0) {
			world.held_from = 0;
			tap_let_go(&world.taps[i]);
			break;
		}
	rig_steps(rig, 30);
	crash(&world);
	world.replays = true;
	world.wanted_copies = 2;
	rig_start(rig);
	for (int i = 0; i < 20000 && world.seen == 0; i++)
		rig_step(rig);
	assert_true(world.seen > 0);
	world.replays = false;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	end(&world);
}

/* The record of the second one is durable first. */
static void
test_a_row_is_touched_when_all_records_before_its_own_are_durable(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 195);
	degrade(&world);
	world.held_from = world.held_to = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 1);
	rig_submit(rig, REQUEST_WRITE, 500, 9, false);
	rig_steps(rig, 60);
	assert_int_equal(rig->active_count, 2);
	world.held_from = 0;
	for (int i = 0; i < rig->count; i++)
		tap_let_go(&world.taps[i]);
	rig_drain(rig);
	end(&world);
}

static void
refuse_writes(struct rig *rig, bool refuse)
{
	for (int i = 0; i < rig->count; i++)
		rig->members[i].refuse_writes = refuse;
}

/* The second record is durable when nobody takes the first: it will never count, and nobody waits
 * for it.
 */
static void
test_records_behind_one_that_failed_hold_nobody_up(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 196);
	degrade(&world);
	world.held_from = world.held_to = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 1);
	rig_submit(rig, REQUEST_WRITE, 500, 9, false);
	rig_steps(rig, 60);
	world.held_from = 0;
	refuse_writes(rig, true);
	for (int i = 0; i < rig->count; i++)
		tap_let_go(&world.taps[i]);
	for (int step = 0; step < 1000 && !rig_status(rig).log.given_up; step++)
		rig_step(rig);
	refuse_writes(rig, false);
	rig_drain(rig);
	wait_until(rig, is_given_up);
	end(&world);
}

static bool
has_failed(struct rig *rig)
{
	return rig->failed > 0 && rig->active_count == 0;
}

/* Its record is under way yet, and lands later.  Marks of its regions are dropped, so the log has to
 * go: a start that replayed it would leave it out where somebody is being filled.
 */
static void
test_what_failed_is_not_replayed_on_those_who_have_no_mark_of_it(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 200);
	degrade(&world);
	rig->errors_allowed = true;
	world.held_from = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 1);
	fake_member_cut(&rig->members[0], false); /* I/O waits, and is given up */
	wait_until(rig, has_failed);
	assert_true(write_log_is_broken(rig->engine)); /* nothing is cleaned before it is closed */
	world.held_from = 0;
	for (int i = 0; i < 3; i++)
		tap_let_go(&world.taps[i]);
	rig->members[0].reachable = true;
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig_steps(rig, 2000);
	assert_true(rig_superblock(rig, 1).log_key != world.key);
	rig->errors_allowed = false;
	end(&world);
}

static bool
is_suspended(struct rig *rig)
{
	return rig_status(rig).state == VOLUME_SUSPENDED;
}

/* The first has its record, but too many members are silent, so it begins again; and the log is closed
 * meanwhile, so it may not.  The second waits for its room.
 */
static void
test_a_log_drains_though_a_write_waits_for_room(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 16384, 250);
	rig->options.log_live_bytes_max = 8192;
	set_caches(rig, false);
	degrade(&world);
	world.held_from = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(&world, 2);
	rig_submit(rig, REQUEST_WRITE, 900, 9, false);
	rig_steps(rig, 30);
	engine_set_log(rig->engine, LOG_MODE_OFF);
	rig_steps(rig, 30);
	for (int i = 0; i < 4; i++)
		if (world.taps[i].held_count == 0)
			fake_member_cut(&rig->members[i], false);
	wait_until(rig, is_suspended);
	world.held_from = 0;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	rig_steps(rig, 30);
	for (int i = 0; i < 4; i++)
		rig->members[i].reachable = true;
	rig_drain(rig);
	end(&world);
}

static bool
has_failed_one(struct rig *rig)
{
	return rig->failed > 0;
}

/* Two writes have joined behind a third one whose record is held: the first of them has used up most of
 * its time.
 */
static void
start_joined(struct world *world)
{
	struct rig *rig = &world->rig;
	uint64_t merged, since_ms;

	rig->options.queue_limit_ms = 5000;
	rig->step_ms_max = 5;
	set_caches(rig, false);
	degrade(world);
	rig->errors_allowed = true;
	merged = rig_status(rig).requests_merged;
	world->held_from = 1;
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	wait_for_held(world, 2);
	rig_submit(rig, REQUEST_WRITE, 20, 9, false);
	for (since_ms = rig->now_ms; rig->now_ms - since_ms < 4000;)
		rig_step(rig);
	rig_submit(rig, REQUEST_WRITE, 29, 9, false);
	rig_steps(rig, 10);
	assert_int_equal(rig_status(rig).requests_merged, merged + 1);
}

/* They have their record too; too many members are silent, so they begin again, and keep the marks of
 * their regions.  The time of the first is used up: they part, and what they had together goes.
 */
static void
test_writes_that_part_behind_their_record_leave_no_marks(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 16384, 251);
	start_joined(&world);
	world.held_from = 2;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	wait_for_held(&world, 2);
	for (int i = 0; i < 4; i++)
		if (world.taps[i].held_count == 0)
			fake_member_cut(&rig->members[i], false);
	wait_until(rig, is_suspended);
	world.held_from = 0;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	wait_until(rig, has_failed_one);
	assert_int_equal(rig->last_error, -ETIMEDOUT);
	for (int i = 0; i < 4; i++)
		rig->members[i].reachable = true;
	rig_drain(rig);
	assert_int_equal(rig->failed, 1);
	rig->errors_allowed = false;
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	rig->members[rig->count - 1].reachable = true;
	wait_until(rig, all_in_sync);
	wait_until(rig, all_clean);
	end(&world);
}

/* Their record takes long: the first one's time is used up, and the second, which joined it, has its own.
 */
static void
test_a_write_that_joined_one_whose_record_is_late_has_its_own_time(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 16384, 253);
	start_joined(&world);
	world.held_from = 2;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	wait_for_held(&world, 2);
	wait_until(rig, has_failed_one);
	assert_int_equal(rig->last_error, -ETIMEDOUT);
	world.held_from = 0;
	for (int i = 0; i < 4; i++)
		tap_let_go(&world.taps[i]);
	rig_drain(rig);
	assert_int_equal(rig->failed, 1);
	rig->errors_allowed = false;
	end(&world);
}

/* Of a stream that ends within a row the last write is kept back for its rest.  Not when it begins
 * again behind its record: the other rows would end well, the record stay, and be replayed over what
 * this row has become.
 */
static void
test_a_row_that_is_in_a_record_is_not_kept_back(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 252);
	set_caches(rig, false);
	degrade(&world);
	rig->errors_allowed = true;
	world.held_from = 1;
	rig_submit(rig, REQUEST_WRITE, 0, 96, false);
	rig_submit(rig, REQUEST_WRITE, 96, 96, false);
	rig_submit(rig, REQUEST_WRITE, 192, 20, false);
	rig_submit(rig, REQUEST_READ, 280, 8, false);
	wait_for_held(&world, 1);
	for (int i = 0; i < 3; i++)
		if (world.taps[i].held_count == 0)
			fake_member_cut(&rig->members[i], false);
	wait_until(rig, is_suspended);
	world.held_from = 0;
	world.reads_refused = true;
	for (int i = 0; i < 3; i++)
		tap_let_go(&world.taps[i]);
	rig_steps(rig, 30);
	for (int i = 0; i < 3; i++)
		rig->members[i].reachable = true;
	rig_drain(rig);
	world.reads_refused = false;
	rig_submit(rig, REQUEST_WRITE, 256, 20, false); /* the same columns, of another chunk */
	rig_drain(rig);
	crash(&world);
	start_again(&world);
	end(&world);
}

static enum tap_verdict
count_records(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;

	world->seen += io->op == BACKEND_WRITE && io->offset_bytes >= LOG_OFFSET &&
		       io->offset_bytes < LOG_OFFSET + LOG_BYTES;
	return TAP_PASS;
}

static bool
has_mismatch(struct rig *rig)
{
	return rig_status(rig).scrub_mismatches > 0 && scrub_done(rig);
}

/* Else it is undone by a loss of power, and the row is believed all the same. */
static void
test_what_a_scrub_corrects_is_logged(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint8_t rot[512] = { 1 };
	char why[256];

	(void)state;
	begin(&world, 5, 4, 16384, 230);
	rig->options.log = LOG_MODE_ALWAYS;
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	wait_until(rig, is_open);
	for (int i = 0; i < 4; i++)
		world.taps[i].judge = count_records;
	/* row 0's parity, wherever that is: of one chunk something else stands there */
	disk_write(&rig->members[0].disk, DATA_OFFSET, rot, sizeof(rot), true);
	rig->errors_allowed = true;
	assert_int_equal(engine_scrub_start(rig->engine, SCRUB_REPAIR, false, why), 0);
	wait_until(rig, has_mismatch);
	assert_true(world.seen > 0);
	rig_crash(rig);
	rig_free(rig);
}

/* Of the first row; 3: parity. */
static uint32_t
chunk_on(const struct rig *rig, int member)
{
	struct geometry geometry;
	uint32_t chunk = 0;

	assert_int_equal(geometry_init(&geometry, rig->level, rig->count, rig->chunk_bytes, 512,
				       LOAD_BYTES),
			 0);
	while (geometry_role(&geometry, 0, (uint8_t)chunk) != member)
		chunk++;
	return chunk;
}

/* The row was just written, whole, and its record is replayed as well: that has what the member has
 * no more.  Of a member that is missing then, nothing may be falsified.
 */
static void
test_parity_that_follows_rotten_data_is_replayed_with_it(void **state)
{
	(void)state;
	for (int rotten = 0; rotten < 4; rotten++)
		for (int missing = 0; missing < 4; missing++) {
			struct world world;
			struct rig *rig = &world.rig;
			uint8_t rot[512] = { 1 };
			uint32_t chunk;
			char why[256];

			begin(&world, 5, 4, 16384, 240);
			chunk = chunk_on(rig, rotten);
			if (chunk == 3 || missing == rotten) {
				rig_free(rig);
				continue;
			}
			rig->options.log = LOG_MODE_ALWAYS;
			rig_start_active(rig);
			rig_wait_for_resync(rig);
			wait_until(rig, is_open);
			rig_submit(rig, REQUEST_WRITE, 0, 96, false);
			rig_drain(rig);
			disk_write(&rig->members[rotten].disk, DATA_OFFSET, rot, sizeof(rot), true);
			assert_int_equal(engine_scrub_start(rig->engine, SCRUB_REPAIR, false, why),
					 0);
			wait_until(rig, has_mismatch);
			crash(&world);
			fake_member_cut(&rig->members[missing], false);
			start_again(&world);
			for (uint32_t other = 0; other < 3; other++)
				rig_submit(rig, REQUEST_READ, other * 32 + (other == chunk),
					   32 - (other == chunk), false);
			rig_drain(rig);
			rig_crash(rig);
			rig_free(rig);
		}
}

/* --- zeros --- */

static uint64_t replayed_bytes; /* of the first member */

static enum tap_verdict
count_replayed(struct tap *tap, const struct backend_io *io)
{
	const struct world *world = tap->owner;

	if (tap == &world->taps[0] && io->op == BACKEND_WRITE && io->offset_bytes >= DATA_OFFSET)
		replayed_bytes += io->length_bytes;
	return TAP_PASS;
}

/* Some records of zeros take a few blocks of the log, and a whole volume of rows. */
static void
test_a_start_has_not_much_to_write_after_many_zeros(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 260);
	rig->options.log_live_bytes_max = 65536;
	degrade(&world);
	for (uint64_t row = 0; row < 18; row += 6) {
		rig_submit(rig, REQUEST_ZERO, row * 96, 576, false);
		rig_drain(rig);
	}
	rig_steps(rig, 100);
	crash(&world);
	replayed_bytes = 0;
	world.taps[0].judge = count_replayed;
	start_again(&world);
	assert_true(replayed_bytes <= 131072);
	end(&world);
}

/* --- of a row that is mended, with pieces that nobody could read --- */

#define PIECE_BYTES 4096u
#define PIECE_SECTORS (PIECE_BYTES / 512)
#define SPARE 4

/* A piece of the first row: of one member it can't be read, another one refuses it. */
static enum tap_verdict
refuse_second_piece(struct tap *tap, const struct backend_io *io)
{
	const uint64_t begin = DATA_OFFSET + PIECE_BYTES;

	if (io->op == BACKEND_WRITE && io->offset_bytes >= DATA_OFFSET)
		return TAP_HOLD;
	return io->op == BACKEND_READ && tap->owner == NULL &&
			       io->offset_bytes < begin + PIECE_BYTES &&
			       io->offset_bytes + io->length_bytes > begin
		       ? TAP_REFUSE
		       : TAP_PASS;
}

static void
replace_by_spare(struct rig *rig, int index)
{
	char why[256];
	int slot;

	rig_mark_spare(rig, SPARE, RIG_MEMBER_BYTES);
	slot = engine_attach(rig->engine, &rig->members[SPARE].backend, why);
	wait_for_state(rig, slot, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig->engine, index, slot, why), 0);
}

/* Member r refuses what s lost of the second piece, so that piece is passed over; of the first one
 * s and who is replaced lost theirs, so P is made anew.  The gateway dies when that is in the log.
 */
static void
test_nothing_is_logged_of_a_row_that_was_not_read(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	int data[3], count = 0;

	(void)state;
	begin(&world, 5, 4, 16384, 250);
	rig->options.log = LOG_MODE_ALWAYS;
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	wait_until(rig, is_open);
	wait_until(rig, all_clean);
	for (int i = 0; i < 4; i++)
		if (chunk_on(rig, i) < 3)
			data[count++] = i;
	disk_damage(&rig->members[data[0]].disk, DATA_OFFSET);
	disk_damage(&rig->members[data[2]].disk, DATA_OFFSET);
	disk_damage(&rig->members[data[2]].disk, DATA_OFFSET + PIECE_BYTES);
	world.taps[data[1]].owner = NULL;
	for (int i = 0; i < 4; i++)
		world.taps[i].judge = refuse_second_piece;
	rig->errors_allowed = true;
	replace_by_spare(rig, data[0]);
	wait_for_held(&world, 1);
	fake_member_abandon(&rig->members[SPARE]);
	crash(&world);
	for (int i = 0; i < 4; i++)
		world.taps[i].judge = NULL;
	rig_start(rig);
	wait_until(rig, is_open);
	for (int i = 0; i < 3; i++)
		assert_int_equal(error_of_read(rig, chunk_on(rig, data[i]) * 32 + PIECE_SECTORS,
					       PIECE_SECTORS),
				 0);
	assert_int_equal(rig->mismatches, 0);
	rig_crash(rig);
	rig_free(rig);
}

static int last_record_on; /* member */

static enum tap_verdict
note_records(struct tap *tap, const struct backend_io *io)
{
	const struct world *world = tap->owner;

	if (io->op == BACKEND_WRITE && io->offset_bytes >= LOG_OFFSET &&
	    io->offset_bytes < LOG_OFFSET + LOG_BYTES)
		last_record_on = (int)(tap - world->taps);
	return TAP_PASS;
}

/* Two write the same, one after the other, and the second one's record goes with its only member. */
static void
test_a_start_by_force_replays_nothing(void **state)
{
	(void)state;
	for (uint64_t sector = 5; sector < 400; sector += 96) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, 16384, 220);
		degrade(&world);
		for (int i = 0; i < 4; i++)
			world.taps[i].judge = note_records;
		for (int turn = 0; turn < 2; turn++) {
			rig_submit(rig, REQUEST_WRITE, sector, 9, false);
			rig_drain(rig);
		}
		crash(&world);
		rig->errors_allowed = true;
		fake_member_cut(&rig->members[last_record_on], false);
		rig->members[3].reachable = true;
		rig->options.force_ms = UINT32_MAX;
		rig_start(rig);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 60000));
		/* On the one taken by force it may be of the time when that left. */
		rig_verify(rig);
		rig_crash(rig);
		rig_free(rig);
	}
}

static bool
has_loss(struct rig *rig)
{
	return rig_status(rig).lost_bytes > 0;
}

/* Something can't be read on another member while one is filled: what is lost of it changes parity,
 * and a crash in the midst of that must not leave a row that does not fit.
 */
static void
test_a_row_that_is_mended_is_logged(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 5, 4, 16384, 210);
	degrade(&world);
	rig->errors_allowed = true;
	for (int i = 0; i < 4; i++)
		world.taps[i].judge = count_records;
	for (uint64_t row = 0; row < 4; row++)
		disk_damage(&rig->members[0].disk, DATA_OFFSET + row * 16384);
	rig->members[3].reachable = true;
	wait_until(rig, has_loss);
	rig_steps(rig, 100);
	assert_true(world.seen > 0);
	rig_crash(rig);
	rig_free(rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_rows_that_a_crash_tore_while_a_member_is_out_are_whole_afterwards),
		cmocka_unit_test(test_rows_of_zeros_that_a_crash_tore_are_whole_afterwards),
		cmocka_unit_test(test_parity_is_in_the_record_of_its_data),
		cmocka_unit_test(test_a_log_that_members_refuse_is_given_up_and_the_volume_goes_on),
		cmocka_unit_test(test_nothing_is_overwritten_that_a_start_might_need),
		cmocka_unit_test(test_the_tail_can_be_told_however_full_the_log_is),
		cmocka_unit_test(test_a_member_that_refuses_the_log_leaves_no_other_without_room),
		cmocka_unit_test(
			test_a_record_is_needed_as_long_as_a_cache_may_have_taken_its_rows_along),
		cmocka_unit_test(
			test_the_tail_passes_nothing_that_was_written_while_a_flush_was_under_way),
		cmocka_unit_test(test_writes_go_on_while_caches_are_flushed_for_the_log),
		cmocka_unit_test(test_no_row_is_written_while_superblocks_are_to_name_the_log),
		cmocka_unit_test(test_superblocks_say_when_all_rows_are_proven),
		cmocka_unit_test(test_a_record_is_on_enough_members_before_it_is_replayed),
		cmocka_unit_test(test_a_row_is_touched_when_all_records_before_its_own_are_durable),
		cmocka_unit_test(test_records_behind_one_that_failed_hold_nobody_up),
		cmocka_unit_test(test_what_failed_is_not_replayed_on_those_who_have_no_mark_of_it),
		cmocka_unit_test(test_a_row_that_is_mended_is_logged),
		cmocka_unit_test(test_parity_that_follows_rotten_data_is_replayed_with_it),
		cmocka_unit_test(test_nothing_is_logged_of_a_row_that_was_not_read),
		cmocka_unit_test(test_a_start_has_not_much_to_write_after_many_zeros),
		cmocka_unit_test(test_a_log_drains_though_a_write_waits_for_room),
		cmocka_unit_test(test_writes_that_part_behind_their_record_leave_no_marks),
		cmocka_unit_test(test_a_row_that_is_in_a_record_is_not_kept_back),
		cmocka_unit_test(
			test_a_write_that_joined_one_whose_record_is_late_has_its_own_time),
		cmocka_unit_test(test_a_start_by_force_replays_nothing),
		cmocka_unit_test(test_what_a_scrub_corrects_is_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
