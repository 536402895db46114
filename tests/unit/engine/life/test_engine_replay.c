/* test_engine_replay.c - a start that replays the write log, and members that refuse it, or go, or say
 * something else the second time: nothing that was acknowledged is lost, and nobody is told something
 * else than that.
 */
#include "scenario.h"

#include <stdlib.h>

#include "pure/log_record.h"

#define LOAD_BYTES (1ull << 20)
#define MEMBERS_MAX 5
#define LOG_OFFSET (LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES)
#define LOG_BYTES (1u << 20)
#define DATA_OFFSET (LOG_OFFSET + LOG_BYTES + (1u << 20)) /* behind the checksums */
#define CHUNK 16384u
#define AT_CRC 8 /* of a record: docs/design/format.md */
#define AT_VERSION 12

struct world {
	struct rig rig;
	struct tap taps[MEMBERS_MAX];
	uint64_t key;
	uint32_t rows_of;   /* members whose writes of rows are held, bits */
	uint32_t log_of;    /* ... and of their logs */
	int tries;	    /* reads of a log's beginning, of the first member's */
	int loads;	    /* reads of single records, so far */
	int rows;	    /* writes of rows, so far */
	bool holds_flushes; /* once rows were written */
	/* What happens at the first load. */
	void (*at_load)(struct world *world, struct tap *tap, const struct backend_io *io);
};

/* --- members --- */

static bool
in_log(const struct backend_io *io)
{
	return io->offset_bytes >= LOG_OFFSET && io->offset_bytes < LOG_OFFSET + LOG_BYTES;
}

static enum tap_verdict
judge(struct tap *tap, const struct backend_io *io)
{
	struct world *world = tap->owner;
	const uint32_t bit = 1u << (tap - world->taps);
	const bool writes = io->op == BACKEND_WRITE || io->op == BACKEND_ZERO;

	if (io->op == BACKEND_READ && in_log(io) &&
	    io->length_bytes != log_segment_bytes(LOG_BYTES))
		if (world->loads++ == 0 && world->at_load != NULL)
			world->at_load(world, tap, io);
	world->tries += io->op == BACKEND_READ && io->offset_bytes == LOG_OFFSET &&
			tap == &world->taps[0] && io->length_bytes == log_segment_bytes(LOG_BYTES);
	if (writes && in_log(io) && (world->log_of & bit))
		return TAP_HOLD;
	if (io->op == BACKEND_FLUSH && world->holds_flushes && world->rows > 0)
		return TAP_HOLD;
	world->rows += writes && io->offset_bytes >= DATA_OFFSET;
	if (writes && io->offset_bytes >= DATA_OFFSET && (world->rows_of & bit))
		return TAP_HOLD;
	return TAP_PASS;
}

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

/* Where the first record stands in the member's log, or 0; the block goes to block[4096]. */
static uint64_t
find_record(struct world *world, int member, uint8_t *block)
{
	struct log_header header;

	for (uint64_t at = LOG_OFFSET; at < LOG_OFFSET + LOG_BYTES; at += LOG_BLOCK_BYTES) {
		disk_read(&world->rig.members[member].disk, at, block, LOG_BLOCK_BYTES);
		if (decode(world, block, &header))
			return at;
	}
	return 0;
}

static int
first_holder(struct world *world)
{
	uint8_t block[LOG_BLOCK_BYTES];
	int member = 0;

	while (find_record(world, member, block) == 0)
		assert_in_range(++member, 0, world->rig.count - 1);
	return member;
}

/* --- scenes --- */

/* rows: a region for each row, and chunks of 4 KiB */
static void
begin_with(struct world *world, int level, int count, uint64_t seed, bool rows)
{
	*world = (struct world){ 0 };
	if (rows)
		rig_init_many_regions(&world->rig, level, count, LOAD_BYTES, seed);
	else
		rig_init(&world->rig, level, count, CHUNK, LOAD_BYTES, seed);
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

static void
begin(struct world *world, int level, int count, uint64_t seed)
{
	begin_with(world, level, count, seed, false);
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
	world->rows_of = world->log_of = 0;
	world->loads = world->rows = 0;
}

static int
held(const struct world *world)
{
	int count = 0;

	for (int i = 0; i < world->rig.count; i++)
		count += world->taps[i].held_count;
	return count;
}

/* Writes of every so many sectors, whose records are durable, and of whose rows some chunks have it
 * when the gateway dies.
 */
static void
tear_long(struct world *world, uint64_t every, uint64_t sectors)
{
	degrade(world);
	world->rows_of = 1;
	for (uint64_t sector = 5; sector + sectors < world->rig.sectors; sector += every)
		rig_submit(&world->rig, REQUEST_WRITE, sector, sectors, false);
	for (int step = 0; step < 20000 && held(world) == 0; step++)
		rig_step(&world->rig);
	assert_true(held(world) > 0);
	rig_steps(&world->rig, 60);
	crash(world);
}

static void
tear(struct world *world, uint64_t every)
{
	tear_long(world, every, 9);
}

static bool
waits_for_log(struct rig *rig)
{
	return strstr(rig_status(rig).reason, "the write log can't be replayed yet") != NULL;
}

/* Nothing is written to rows, and it goes on being tried. */
static void
check_waits(struct world *world, const char *why)
{
	struct rig *rig = &world->rig;
	const uint64_t since_ms = rig->now_ms;

	wait_until(rig, waits_for_log);
	assert_non_null(strstr(rig_status(rig).reason, why));
	world->tries = 0;
	while (rig->now_ms - since_ms < 30000) {
		assert_true(rig_wake(rig)); /* it asks for it by itself */
		assert_int_equal(rig_status(rig).state, VOLUME_ASSEMBLING);
	}
	assert_in_range(world->tries, 15, 30);
}

static void
wait_degraded(struct rig *rig)
{
	wait_until(rig, is_degraded);
	assert_false(waits_for_log(rig));
}

/* All that was acknowledged is there; and the member that was away may come back. */
static void
end(struct world *world)
{
	struct rig *rig = &world->rig;

	for (int i = 0; i < rig->count; i++)
		world->taps[i].judge = NULL;
	rig_verify(rig);
	assert_int_equal(rig_status(rig).lost_bytes, 0);
	rig->members[rig->count - 1].reachable = true;
	wait_until(rig, all_in_sync);
	finish_proven(rig);
}

static void
end_in_pieces(struct world *world)
{
	rig_crash(&world->rig);
	rig_free(&world->rig);
}

/* --- reads of the log --- */

/* A release that knows more than this one wrote a record.  It may say something of rows that this
 * one can't read, so nothing is touched until the other is started.
 */
static void
test_a_log_of_a_later_release_is_left_for_it(void **state)
{
	static uint8_t before[LOG_BYTES], after[LOG_BYTES];
	struct world world;
	struct rig *rig = &world.rig;
	uint8_t block[LOG_BLOCK_BYTES], later[LOG_BLOCK_BYTES];
	static const uint8_t zero[4];
	uint64_t at;
	uint32_t crc;
	int member;

	(void)state;
	begin(&world, 5, 4, 300);
	tear(&world, 100);
	member = first_holder(&world);
	at = find_record(&world, member, block);
	memcpy(later, block, sizeof(later));
	later[AT_VERSION] = 2;
	crc = crc32c(crc32c(crc32c(0, later, AT_CRC), zero, sizeof(zero)), later + AT_VERSION,
		     sizeof(later) - AT_VERSION);
	for (int i = 0; i < 4; i++)
		later[AT_CRC + i] = (uint8_t)(crc >> 8 * i);
	disk_write(&rig->members[member].disk, at, later, sizeof(later), true);
	disk_read(&rig->members[0].disk, LOG_OFFSET, before, LOG_BYTES);
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_FAILED, 20000));
	assert_string_equal(rig_status(rig).reason,
			    "its write log was written by a later release: start it with that one");
	assert_string_equal(rig_status(rig).log.replay, "can't be read");
	rig_steps(rig, 5000); /* nor is it tried again, or anything else */
	assert_int_equal(rig_status(rig).state, VOLUME_FAILED);
	assert_int_equal(world.rows, 0);
	disk_read(&rig->members[0].disk, LOG_OFFSET, after, LOG_BYTES);
	assert_memory_equal(before, after, LOG_BYTES);
	rig_stop(rig);
	/* the other release */
	disk_write(&rig->members[member].disk, at, block, sizeof(block), true);
	rig_start(rig);
	wait_degraded(rig);
	end(&world);
}

static void
test_a_start_waits_for_a_log_that_is_refused_and_loses_nothing(void **state)
{
	(void)state;
	for (int member = 0; member < 3; member++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, 310 + (uint64_t)member);
		tear(&world, 100);
		rig->members[member].refused_offset_bytes = LOG_OFFSET;
		rig_start(rig);
		check_waits(&world,
			    "a member refuses to read or write it; --force goes on without");
		assert_int_equal(world.rows, 0);
		rig->members[member].refused_offset_bytes = 0;
		wait_degraded(rig);
		end(&world);
	}
}

/* Something of one log is unreadable: as damaged, or refused when somebody had forced the start.  On
 * level 6 the other copy is read, and nobody waits.
 */
static void
check_other_copy(int error, uint64_t seed)
{
	int checked = 0;

	for (int member = 0; member < 4; member++) {
		struct world world;
		struct rig *rig = &world.rig;
		uint8_t block[LOG_BLOCK_BYTES];
		uint64_t at;

		begin(&world, 6, 5, seed + (uint64_t)member);
		tear(&world, 100);
		at = find_record(&world, member, block);
		if (at == 0) {
			rig_free(rig);
			continue;
		}
		checked++;
		rig->members[member].stuck_error = error;
		disk_make_stuck(&rig->members[member].disk, at);
		rig->options.force_ms = error == -EIO ? UINT32_MAX : 0;
		rig_start(rig);
		wait_degraded(rig);
		assert_true(world.rows > 0); /* it was replayed */
		disk_loosen(&rig->members[member].disk);
		rig->members[member].stuck_error = 0;
		end(&world);
	}
	assert_true(checked > 1);
}

static void
test_a_record_that_cant_be_read_is_replayed_from_its_other_copy(void **state)
{
	(void)state;
	check_other_copy(0, 320);
}

static void
test_a_start_by_force_replays_from_the_other_copy_of_what_is_refused(void **state)
{
	(void)state;
	check_other_copy(-EIO, 330);
}

static bool
is_degraded_with_loss(struct rig *rig)
{
	return is_degraded(rig) && rig_status(rig).lost_bytes > 0;
}

/* On level 5 without a member there is one copy: what can't be read may be newer than all that can.
 * Nothing is replayed, and what the missing member had in rows that were being written is lost and
 * says so; what was not being written is there.
 */
static void
test_what_may_be_hidden_in_an_unreadable_log_is_not_taken_for_nothing(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	uint8_t block[LOG_BLOCK_BYTES];
	int member;

	(void)state;
	begin_with(&world, 5, 4, 340, true);
	tear(&world, 2000);
	member = first_holder(&world);
	disk_damage(&rig->members[member].disk, find_record(&world, member, block));
	rig_start(rig);
	wait_until(rig, is_degraded_with_loss);
	rig->errors_allowed = true;
	rig_verify(rig); /* nothing is wrong */
	assert_int_equal(rig->last_error, -ENODATA);
	end_in_pieces(&world);
}

/* Where the newest record stands in the member's log, and its number; 0: none. */
static uint64_t
find_newest(struct world *world, int member, uint64_t *sequence)
{
	uint8_t block[LOG_BLOCK_BYTES];
	struct log_header header;
	uint64_t found = 0;

	*sequence = 0;
	for (uint64_t at = LOG_OFFSET; at < LOG_OFFSET + LOG_BYTES; at += LOG_BLOCK_BYTES) {
		disk_read(&world->rig.members[member].disk, at, block, LOG_BLOCK_BYTES);
		if (!decode(world, block, &header) || header.sequence <= *sequence)
			continue;
		*sequence = header.sequence;
		found = at;
	}
	return found;
}

/* It is on two members.  One of them goes with the gateway, and the other one's block can't be read. */
static void
hide_newest(struct world *world)
{
	uint64_t sequences[MEMBERS_MAX], newest = 0, at;
	int gone = -1;

	for (int i = 0; i < world->rig.count; i++) {
		find_newest(world, i, &sequences[i]);
		newest = sequences[i] > newest ? sequences[i] : newest;
	}
	/* of which the row is written, so that it is another's chunk that does not fit */
	for (int i = world->rig.count - 1; i > 0 && gone < 0; i--)
		if (sequences[i] == newest)
			gone = i;
	assert_true(gone > 0);
	for (int i = 0; i < world->rig.count; i++) {
		at = find_newest(world, i, &sequences[i]);
		if (i != gone && sequences[i] == newest)
			disk_damage(&world->rig.members[i].disk, at);
	}
	fake_member_cut(&world->rig.members[gone], false);
}

static bool
is_proven(struct rig *rig)
{
	return rig_superblock(rig, 0).log_proven;
}

/* With all members there are two copies.  Who has gone since may have had one: what can't be read in the
 * only log that is left may be newer than all that can.
 */
static void
test_who_has_gone_may_have_had_the_other_copy(void **state)
{
	(void)state;
	for (uint64_t row = 4; row < 8; row++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin_with(&world, 5, 4, 342, true);
		rig->options.log = LOG_MODE_ALWAYS;
		rig_start_active(rig);
		submit_everywhere(rig, REQUEST_WRITE, 128, 128);
		rig_drain(rig);
		rig_wait_for_resync(rig);
		wait_until(rig, is_open);
		wait_until(rig, is_proven);
		world.key = rig_superblock(rig, 0).log_key;
		rig_submit(rig, REQUEST_WRITE, 0, 24, false);
		rig_drain(rig);
		world.rows_of = 1;
		rig_submit(rig, REQUEST_WRITE, row * 24 + 8, 32, false);
		for (int step = 0; step < 20000 && held(&world) == 0; step++)
			rig_step(rig);
		rig_steps(rig, 60);
		crash(&world);
		hide_newest(&world);
		rig_start(rig);
		wait_until(rig, is_degraded_with_loss);
		rig->errors_allowed = true;
		rig_verify(rig); /* nothing is wrong */
		end_in_pieces(&world);
	}
}

static int
error_of_flush(struct rig *rig)
{
	rig->errors_allowed = true;
	rig->failed = 0;
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
	return rig->failed > 0 ? rig->last_error : 0;
}

/* A small write is acknowledged and flushed when it is in the log.  Whoever relies on it is told if that
 * is gone, also if nobody asked before the gateway died once more.
 */
static void
lose_what_was_acknowledged(bool dies_again)
{
	struct world world;
	struct rig *rig = &world.rig;

	begin_with(&world, 5, 4, 343, true);
	rig->options.log = LOG_MODE_ALWAYS;
	rig_start_active(rig);
	submit_everywhere(rig, REQUEST_WRITE, 128, 128);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	wait_until(rig, is_open);
	wait_until(rig, is_proven);
	world.key = rig_superblock(rig, 0).log_key;
	world.rows_of = 0xF;
	rig_submit(rig, REQUEST_WRITE, 8, 5, false);
	rig_drain(rig);
	assert_int_equal(error_of_flush(rig), 0);
	crash(&world);
	hide_newest(&world);
	rig_start(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	if (dies_again) {
		crash(&world);
		rig_start(rig);
		assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	}
	assert_int_equal(error_of_flush(rig), -EIO);
	end_in_pieces(&world);
}

static void
test_what_a_log_had_acknowledged_and_lost_is_told(void **state)
{
	(void)state;
	lose_what_was_acknowledged(false);
	lose_what_was_acknowledged(true);
}

/* --- between the reads and the loads --- */

static void
falsify(struct world *world, struct tap *tap, const struct backend_io *io)
{
	const uint8_t rot[DISK_SECTOR] = { 1 };

	(void)world;
	disk_write(&tap->member->disk, io->offset_bytes + LOG_BLOCK_BYTES, rot, sizeof(rot), true);
}

static bool
has_loaded(const struct world *world)
{
	return world->loads > 0;
}

/* A record was whole, and is not when it is read once more. */
static void
test_a_record_that_changes_while_it_is_read_is_not_replayed(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin(&world, 6, 5, 350);
	tear(&world, 100);
	world.at_load = falsify;
	rig_start(rig);
	wait_until(rig, waits_for_log); /* begins again */
	assert_true(has_loaded(&world));
	assert_int_equal(world.rows, 0);
	wait_degraded(rig); /* from the other copy */
	assert_true(world.rows > 0);
	end(&world);
}

static void
depart(struct world *world, struct tap *tap, const struct backend_io *io)
{
	(void)world;
	(void)io;
	tap->member->reachable = false;
	fake_member_hang(tap->member);
}

/* ... or the member goes with it, and comes back much later.  Level 6 can do without. */
static void
test_a_member_that_goes_while_its_records_are_read_is_done_without(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	int gone = -1;

	(void)state;
	begin(&world, 6, 5, 360);
	tear(&world, 100);
	world.at_load = depart;
	rig_start(rig);
	wait_until(rig, is_degraded);
	for (int i = 0; i < 4; i++)
		if (!rig->members[i].reachable)
			gone = i;
	assert_true(gone >= 0);
	assert_int_not_equal(rig_status(rig).members[gone].state, MEMBER_IN_SYNC);
	rig_verify(rig);
	assert_true(world.rows > 0);
	rig->members[gone].reachable = true;
	fake_member_continue(&rig->members[gone]);
	end(&world);
}

/* Of some records one copy was durable: they get another before rows are written, where nothing stands
 * that is to be replayed.  So when that start dies in the midst of the rows, and one more member with
 * it, the next one still has all records.
 */
static void
test_copies_of_records_take_the_place_of_none_that_is_needed(void **state)
{
	(void)state;
	for (int slow = 0; slow < 4; slow++)
		for (int gone = 0; gone < 4; gone++) {
			struct world world;
			struct rig *rig = &world.rig;

			begin(&world, 6, 5, 378 + (uint64_t)slow);
			degrade(&world);
			world.log_of = 1u << slow;
			world.rows_of = 0xf;
			for (uint64_t sector = 5; sector + 9 < rig->sectors; sector += 200)
				rig_submit(rig, REQUEST_WRITE, sector, 9, false);
			rig_steps(rig, 100);
			crash(&world);
			world.rows_of = 1;
			rig_start(rig);
			for (int step = 0; step < 20000 && held(&world) == 0; step++)
				rig_step(rig);
			rig_steps(rig, 60);
			crash(&world);
			fake_member_cut(&rig->members[gone], false);
			rig_start(rig);
			wait_degraded(rig);
			rig_verify(rig);
			assert_int_equal(rig_status(rig).lost_bytes, 0);
			rig->members[gone].reachable = true;
			end(&world);
		}
}

/* A record of the row of its number, which has what stands there anyway; digest: of the one before, and
 * then of this one.
 */
static void
put_record(struct world *world, const struct log_header *like, uint64_t sequence, uint64_t tail,
	   uint32_t *digest, uint32_t members)
{
	static uint8_t block[2 * LOG_BLOCK_BYTES];
	struct iovec payload = { block + LOG_BLOCK_BYTES, LOG_BLOCK_BYTES };
	const struct superblock superblock = rig_superblock(&world->rig, 0);
	struct log_header header = *like;
	struct log_piece piece = { .row = sequence,
				   .length_bytes = LOG_BLOCK_BYTES,
				   .kind = LOG_PIECE_WRITTEN };
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, world->rig.level, world->rig.count,
				       world->rig.chunk_bytes, 512, superblock.data_bytes),
			 0);
	piece.role = geometry_role(&geometry, sequence, 0);
	if (piece.role == world->rig.count - 1)
		piece.role = geometry_role(&geometry, sequence, 1);
	disk_read(&world->rig.members[piece.role].disk,
		  DATA_OFFSET + sequence * world->rig.chunk_bytes, payload.iov_base,
		  LOG_BLOCK_BYTES);
	header.sequence = sequence;
	header.tail = tail;
	header.durable = sequence < 10 ? sequence - 1 : 9;
	header.predecessor = *digest;
	header.copies = members;
	header.piece_count = 1;
	header.payload_blocks = 1;
	*digest = log_encode(&header, &piece, &geometry, &payload, 1, block);
	for (int i = 0; i < world->rig.count; i++)
		if (members & (1u << i))
			disk_write(&world->rig.members[i].disk,
				   LOG_OFFSET + (sequence - 1) * sizeof(block), block,
				   sizeof(block), true);
}

/* The tail has risen to 8, and a crash leaves that with one member, behind a record that is nowhere.  Of
 * record 10 one copy was made.  The start that makes the other one dies, too, and that member goes.
 */
static void
test_copies_of_records_leave_those_before_a_tail_that_one_member_knows(void **state)
{
	static const uint8_t nothing[LOG_BYTES];
	struct world world;
	struct rig *rig = &world.rig;
	uint8_t block[LOG_BLOCK_BYTES];
	struct log_header like;
	uint32_t digest = 0;

	(void)state;
	begin(&world, 6, 5, 420);
	degrade(&world);
	rig_submit(rig, REQUEST_WRITE, 5, 9, false);
	rig_drain(rig);
	disk_read(&rig->members[first_holder(&world)].disk,
		  find_record(&world, first_holder(&world), block), block, sizeof(block));
	assert_true(decode(&world, block, &like));
	crash(&world);
	for (int i = 0; i < 4; i++)
		disk_write(&rig->members[i].disk, LOG_OFFSET, nothing, sizeof(nothing), true);
	for (uint64_t sequence = 1; sequence < 8; sequence++)
		put_record(&world, &like, sequence, 1, &digest, 0x9);
	put_record(&world, &like, 8, 1, &digest, 0x6);
	put_record(&world, &like, 9, 1, &digest, 0x6);
	put_record(&world, &like, 10, 1, &digest, 0x2);
	put_record(&world, &like, 12, 8, &digest, 0x8);
	world.rows_of = 0xf;
	rig_start(rig);
	for (int step = 0; step < 20000 && held(&world) == 0; step++)
		rig_step(rig);
	assert_true(held(&world) > 0);
	crash(&world);
	fake_member_cut(&rig->members[3], false);
	rig_start(rig);
	wait_degraded(rig);
	rig_verify(rig);
	assert_int_equal(rig_status(rig).lost_bytes, 0);
	rig->members[3].reachable = true;
	end(&world);
}

/* Of a record that was taken from a log: one with another number, at a segment's beginning. */
struct taken {
	struct log_header header;
	struct log_piece pieces[LOG_PIECES_MAX];
	uint8_t payload[LOG_BLOCK_BYTES];
	uint32_t payload_bytes;
	struct geometry geometry;
};

static void
take_newest(struct world *world, struct taken *taken)
{
	const struct superblock superblock = rig_superblock(&world->rig, 0);
	uint8_t block[LOG_BLOCK_BYTES];
	uint64_t at, sequence;
	uint32_t digest;
	int member = first_holder(world);

	at = find_newest(world, member, &sequence);
	for (int other = 0; other < world->rig.count; other++) {
		uint64_t newest;
		const uint64_t found = find_newest(world, other, &newest);

		if (newest > sequence) {
			member = other;
			at = found;
			sequence = newest;
		}
	}
	assert_int_equal(geometry_init(&taken->geometry, world->rig.level, world->rig.count,
				       world->rig.chunk_bytes, 512, superblock.data_bytes),
			 0);
	disk_read(&world->rig.members[member].disk, at, block, sizeof(block));
	assert_int_equal(log_decode(block, world->rig.options.volume_uuid, world->key,
				    &taken->geometry, &taken->header, taken->pieces, &digest),
			 LOG_RECORD);
	assert_int_equal(taken->header.payload_blocks, 1);
	disk_read(&world->rig.members[member].disk, at + LOG_BLOCK_BYTES, taken->payload,
		  LOG_BLOCK_BYTES);
	taken->payload_bytes = 0;
	for (int i = 0; i < taken->header.piece_count; i++)
		taken->payload_bytes += taken->pieces[i].length_bytes;
}

static void
put_taken(struct world *world, struct taken *taken, uint64_t sequence, uint64_t tail, int member,
	  uint64_t segment)
{
	uint8_t block[2 * LOG_BLOCK_BYTES];
	struct iovec payload = { taken->payload, taken->payload_bytes };

	taken->header.sequence = sequence;
	taken->header.tail = tail;
	taken->header.durable = sequence - 1;
	taken->header.run_first = 1;
	taken->header.predecessor = sequence == 1 ? 0 : 1;
	log_encode(&taken->header, taken->pieces, &taken->geometry, &payload, 1, block);
	memcpy(block + LOG_BLOCK_BYTES, taken->payload, LOG_BLOCK_BYTES);
	disk_write(&world->rig.members[member].disk,
		   LOG_OFFSET + segment * log_segment_bytes(LOG_BYTES), block, sizeof(block), true);
}

/* When a gateway dies each segment has a record, and one member alone knows what is done with.  The next
 * gateway goes on with what was acknowledged, and there is no room to tell others of that.
 */
static void
test_a_log_that_has_no_room_to_tell_its_tail_begins_anew(void **state)
{
	static const uint8_t nothing[LOG_BYTES];
	struct taken taken;
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_with(&world, 5, 3, 347, true);
	rig->options.log = LOG_MODE_ALWAYS;
	rig->options.log_segments_max = 3;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	wait_until(rig, is_open);
	wait_until(rig, is_proven);
	world.key = rig_superblock(rig, 0).log_key;
	world.rows_of = 0x7;
	rig_submit(rig, REQUEST_WRITE, 8, 5, false);
	rig_drain(rig);
	crash(&world);
	take_newest(&world, &taken);
	assert_int_equal(taken.pieces[0].kind, LOG_PIECE_PENDING);
	for (int i = 0; i < 3; i++) {
		disk_write(&rig->members[i].disk, LOG_OFFSET, nothing, sizeof(nothing), true);
		put_taken(&world, &taken, 1, 1, i, 0);
		put_taken(&world, &taken, 2, 1, i, 1);
		put_taken(&world, &taken, i == 0 ? 4 : 3, i == 0 ? 4 : 1, i, 2);
	}
	rig_start_active(rig);
	assert_int_equal(rig_superblock(rig, 0).log_key, world.key);
	rig_submit(rig, REQUEST_WRITE, 500, 40, false);
	rig_drain(rig);
	wait_until(rig, is_open);
	assert_int_not_equal(rig_superblock(rig, 0).log_key, world.key);
	end(&world);
}

/* --- rows --- */

static void
refuse_rows(struct rig *rig, int member, bool refused)
{
	rig->members[member].refuse_from_bytes = refused ? DATA_OFFSET : 0;
	rig->members[member].refuse_to_bytes = refused ? UINT64_MAX : 0;
}

static void
test_a_start_waits_for_a_member_that_refuses_rows_it_can_not_spare(void **state)
{
	(void)state;
	for (int member = 0; member < 3; member++) {
		struct world world;
		struct rig *rig = &world.rig;

		begin(&world, 5, 4, 380 + (uint64_t)member);
		tear(&world, 100);
		refuse_rows(rig, member, true);
		rig_start(rig);
		check_waits(&world,
			    "a member refuses to read or write it; --force goes on without");
		refuse_rows(rig, member, false);
		wait_degraded(rig);
		end(&world);
	}
}

/* By force the start goes on: of the rows that were refused, and of no others, the chunk of the member
 * that is out can't be known.
 */
static void
test_by_force_only_the_rows_that_were_refused_are_lost(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;
	const uint64_t row_sectors = 3 * 4096 / RIG_SECTOR;

	(void)state;
	begin_with(&world, 5, 4, 390, true);
	tear(&world, row_sectors);		     /* every row */
	for (int member = 0; member < 3; member++) { /* row 1: member 3 has data of it */
		rig->members[member].refuse_from_bytes = DATA_OFFSET + 4096;
		rig->members[member].refuse_to_bytes = DATA_OFFSET + 2 * 4096;
	}
	rig->options.force_ms = UINT32_MAX;
	rig_start(rig);
	wait_until(rig, is_degraded);
	for (int member = 0; member < 3; member++)
		rig->members[member].refuse_from_bytes = rig->members[member].refuse_to_bytes = 0;
	rig_steps(rig, 200);
	assert_int_equal(rig_status(rig).lost_bytes, 4096);
	for (uint64_t row = 0; row * row_sectors < rig->sectors; row++) {
		const uint64_t sector = row * row_sectors,
			       count = rig->sectors - sector < row_sectors ? rig->sectors - sector
									   : row_sectors;

		assert_int_equal(error_of_read(rig, sector, count), row == 1 ? -ENODATA : 0);
	}
	end_in_pieces(&world);
}

/* More rows than are kept count: then all that were being written are unsure. */
static void
test_by_force_no_row_is_believed_when_too_many_were_refused(void **state)
{
	struct world world;
	struct rig *rig = &world.rig;

	(void)state;
	begin_with(&world, 5, 4, 400, true);
	tear_long(&world, 960, 959); /* 40 rows each */
	for (int member = 0; member < 3; member++)
		refuse_rows(rig, member, true);
	rig->options.force_ms = UINT32_MAX;
	rig_start(rig);
	wait_until(rig, is_degraded);
	for (int member = 0; member < 3; member++)
		refuse_rows(rig, member, false);
	rig_steps(rig, 200);
	assert_true(rig_status(rig).lost_bytes > 22 * 4096);
	rig->errors_allowed = true;
	rig_verify(rig); /* nothing is wrong */
	assert_int_equal(rig->last_error, -ENODATA);
	end_in_pieces(&world);
}

/* --- the flush --- */

/* What a cache took along is written once more, before superblocks say that all rows fit. */
static void
test_rows_are_written_again_when_a_cache_loses_them_before_the_flush(void **state)
{
	(void)state;
	for (int member = 0; member < 3; member++) {
		struct world world;
		struct rig *rig = &world.rig;
		int rows;

		begin(&world, 5, 4, 410 + (uint64_t)member);
		set_caches(rig, true);
		tear(&world, 100);
		world.holds_flushes = true;
		rig_start(rig);
		for (int i = 0; i < 20000 && held(&world) < 3; i++)
			rig_step(rig);
		assert_int_equal(held(&world), 3);
		assert_string_equal(rig_status(rig).log.replay, "is flushed");
		rows = world.rows;
		world.holds_flushes = false;
		fake_member_power_loss(&rig->members[member], true);
		for (int i = 0; i < 3; i++)
			tap_let_go(&world.taps[i]);
		wait_degraded(rig);
		assert_true(world.rows > rows);
		end(&world);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_log_of_a_later_release_is_left_for_it),
		cmocka_unit_test(test_a_start_waits_for_a_log_that_is_refused_and_loses_nothing),
		cmocka_unit_test(test_a_record_that_cant_be_read_is_replayed_from_its_other_copy),
		cmocka_unit_test(
			test_a_start_by_force_replays_from_the_other_copy_of_what_is_refused),
		cmocka_unit_test(
			test_what_may_be_hidden_in_an_unreadable_log_is_not_taken_for_nothing),
		cmocka_unit_test(test_who_has_gone_may_have_had_the_other_copy),
		cmocka_unit_test(test_what_a_log_had_acknowledged_and_lost_is_told),
		cmocka_unit_test(test_a_record_that_changes_while_it_is_read_is_not_replayed),
		cmocka_unit_test(
			test_a_member_that_goes_while_its_records_are_read_is_done_without),
		cmocka_unit_test(test_copies_of_records_take_the_place_of_none_that_is_needed),
		cmocka_unit_test(
			test_copies_of_records_leave_those_before_a_tail_that_one_member_knows),
		cmocka_unit_test(test_a_log_that_has_no_room_to_tell_its_tail_begins_anew),
		cmocka_unit_test(
			test_a_start_waits_for_a_member_that_refuses_rows_it_can_not_spare),
		cmocka_unit_test(test_by_force_only_the_rows_that_were_refused_are_lost),
		cmocka_unit_test(test_by_force_no_row_is_believed_when_too_many_were_refused),
		cmocka_unit_test(
			test_rows_are_written_again_when_a_cache_loses_them_before_the_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
