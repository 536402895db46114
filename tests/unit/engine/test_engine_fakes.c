/* test_engine_fakes.c - the members that the engine's tests run on fail as they say: else those
 * tests prove nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake_member.h"
#include "pattern.h"

#define BYTES (1u << 20)

/* --- disk --- */

static void
write_byte(struct disk *disk, uint64_t offset, int byte, bool through)
{
	uint8_t sector[DISK_SECTOR];

	memset(sector, byte, sizeof(sector));
	disk_write(disk, offset, sector, sizeof(sector), through);
}

static int
read_byte(const struct disk *disk, uint64_t offset)
{
	uint8_t byte;

	disk_read(disk, offset, &byte, 1);
	return byte;
}

static void
count_lost(void *owner, uint64_t offset_bytes)
{
	(void)offset_bytes;
	++*(int *)owner;
}

static void
test_power_loss_takes_what_was_not_flushed(void **state)
{
	struct disk disk;
	uint64_t random = 1;
	int lost = 0;

	disk_init(&disk, BYTES, 512);
	write_byte(&disk, 0, 1, false);
	disk_flush(&disk);
	write_byte(&disk, 0, 2, false);
	write_byte(&disk, 512, 3, true); /* FUA */
	write_byte(&disk, 8192, 4, false);
	assert_int_equal(read_byte(&disk, 0), 2);
	disk_power_loss(&disk, &random, 0, count_lost, &lost);
	assert_int_equal(read_byte(&disk, 0), 1);
	assert_int_equal(read_byte(&disk, 512), 3);
	assert_int_equal(read_byte(&disk, 8192), 0);
	assert_int_equal(lost, 2);
	disk_free(&disk);
}

static void
test_a_disk_without_cache_loses_nothing(void **state)
{
	struct disk disk;
	uint64_t random = 1;

	disk_init(&disk, BYTES, 512);
	disk.write_cache = false;
	write_byte(&disk, 512, 7, false);
	disk_power_loss(&disk, &random, 0, NULL, NULL);
	assert_int_equal(read_byte(&disk, 512), 7);
	disk_free(&disk);
}

static void
test_a_block_is_kept_or_lost_as_a_whole(void **state)
{
	struct disk disk;
	uint64_t random = 5;

	disk_init(&disk, BYTES, 4096);
	for (uint64_t at = 0; at < BYTES; at += 512)
		write_byte(&disk, at, 9, false);
	disk_power_loss(&disk, &random, 8, NULL, NULL);
	for (uint64_t block = 0; block < BYTES; block += 4096)
		for (uint64_t at = 512; at < 4096; at += 512)
			assert_int_equal(read_byte(&disk, block + at), read_byte(&disk, block));
	disk_free(&disk);
}

static void
test_what_cures_a_sector_can_be_lost_with_the_cache(void **state)
{
	struct disk disk;
	uint64_t random = 1;

	disk_init(&disk, BYTES, 512);
	disk_destroy(&disk, 1024);
	assert_true(disk_is_damaged(&disk, 512, 1024));
	write_byte(&disk, 1024, 1, false);
	assert_false(disk_is_damaged(&disk, 0, BYTES));
	disk_power_loss(&disk, &random, 0, NULL, NULL);
	assert_true(disk_is_damaged(&disk, 1024, 512));
	write_byte(&disk, 1024, 1, false);
	disk_flush(&disk);
	disk_power_loss(&disk, &random, 0, NULL, NULL);
	assert_false(disk_is_damaged(&disk, 0, BYTES));
	disk_free(&disk);
}

/* --- a member and its session --- */

struct bench {
	struct schedule schedule;
	struct fake_member member;
	uint64_t random;
	int opened, closed, error;
	int done, result;
	uint8_t memory[4096];
	struct iovec iov;
	struct backend_io io;
};

static void
note_opened(void *owner, const struct backend_identity *identity)
{
	((struct bench *)owner)->opened++;
	assert_int_equal(identity->capacity_bytes, BYTES);
}

static void
note_closed(void *owner, int error, const char *reason)
{
	struct bench *bench = owner;

	bench->closed++;
	bench->error = error;
	assert_true(reason[0] != '\0');
}

static void
note_done(struct backend_io *io)
{
	struct bench *bench = io->owner;

	bench->done++;
	bench->result = io->result;
}

static const struct backend_events events = { .opened = note_opened, .closed = note_closed };

static void
run_until(struct bench *bench, uint64_t ms)
{
	while (schedule_fire(&bench->schedule, ms * 1000))
		;
	bench->schedule.now_us = ms * 1000;
}

static void
bench_init(struct bench *bench, uint64_t seed)
{
	*bench = (struct bench){ .random = seed };
	schedule_init(&bench->schedule);
	fake_member_init(&bench->member, "m", BYTES, 512, &bench->schedule, &bench->random);
	bench->member.backend.events = &events;
	bench->member.backend.events_owner = bench;
	bench->member.deadline_us = 1000000;
	bench->member.backend.ops->open(&bench->member.backend);
	assert_int_equal(bench->opened, 0); /* not from inside the call */
	run_until(bench, 100);
	assert_int_equal(bench->opened, 1);
}

static void
bench_free(struct bench *bench)
{
	fake_member_free(&bench->member);
	schedule_free(&bench->schedule);
}

static void
submit(struct bench *bench, enum backend_op op, int byte)
{
	memset(bench->memory, byte, sizeof(bench->memory));
	bench->iov = (struct iovec){ bench->memory, sizeof(bench->memory) };
	bench->io = (struct backend_io){ .op = op,
					 .length_bytes = sizeof(bench->memory),
					 .iov = &bench->iov,
					 .iov_count = 1,
					 .done = note_done,
					 .owner = bench };
	bench->done = 0;
	bench->member.backend.ops->submit(&bench->member.backend, &bench->io);
	assert_int_equal(bench->done, 0);
}

/* A rebuild tries again each second. */
static void
test_a_stuck_sector_may_be_written_any_number_of_times(void **state)
{
	const uint64_t offset = 7 * DISK_SECTOR;
	struct disk disk;

	disk_init(&disk, BYTES, 512);
	disk_make_stuck(&disk, offset);
	for (int i = 0; i < 2 * DISK_BAD_MAX; i++)
		write_byte(&disk, offset, 1, false);
	assert_int_equal(disk.cured_count, 1);
	assert_true(disk_is_damaged(&disk, offset, DISK_SECTOR));
	disk_free(&disk);
}

static void
test_a_read_that_was_diverted_touches_nothing(void **state)
{
	struct bench bench;

	bench_init(&bench, 3);
	submit(&bench, BACKEND_READ, 0x55);
	bench.member.backend.ops->divert(&bench.member.backend, &bench.io);
	run_until(&bench, 200);
	assert_int_equal(bench.done, 1);
	assert_int_equal(bench.memory[0], 0x55);
	submit(&bench, BACKEND_READ, 0x55);
	run_until(&bench, 300);
	assert_int_equal(bench.memory[0], 0);
	bench_free(&bench);
}

static void
test_a_hang_ends_the_session_at_its_deadline(void **state)
{
	struct bench bench;

	bench_init(&bench, 4);
	fake_member_hang(&bench.member);
	submit(&bench, BACKEND_WRITE, 1);
	run_until(&bench, 1000);
	assert_int_equal(bench.closed, 0);
	run_until(&bench, 2500);
	assert_int_equal(bench.done, 1);
	assert_int_equal(bench.result, -ENOTCONN);
	assert_int_equal(bench.closed, 1);
	assert_int_equal(bench.error, -ETIMEDOUT);
	bench_free(&bench);
}

/* However long the deadline is for which the session may be without progress, and whenever the
 * watch looked last.
 */
static void
test_a_command_has_its_time_and_no_more(void **state)
{
	struct bench bench;

	bench_init(&bench, 5);
	bench.member.command_us_max = 300000;
	fake_member_link(&bench.member, false);
	submit(&bench, BACKEND_WRITE, 1); /* at 100 ms */
	run_until(&bench, 399);
	assert_int_equal(bench.closed, 0);
	run_until(&bench, 401);
	assert_int_equal(bench.done, 1);
	assert_int_equal(bench.result, -ENOTCONN);
	assert_int_equal(bench.closed, 1);
	assert_int_equal(bench.error, -ETIMEDOUT);
	bench_free(&bench);
}

/* A write of a session that is gone lands some time, but not after the next session was reported as
 * open.
 */
static void
late_write(uint64_t seed, bool fence_broken, int *landed_before, int *landed_after)
{
	struct bench bench;
	int before;

	bench_init(&bench, seed);
	bench.member.fence_broken = fence_broken;
	fake_member_hang(&bench.member);
	submit(&bench, BACKEND_WRITE, 1);
	run_until(&bench, 2500);
	assert_int_equal(bench.closed, 1);
	assert_int_equal(read_byte(&bench.member.disk, 0), 0);
	fake_member_continue(&bench.member);
	bench.member.backend.ops->open(&bench.member.backend);
	while (bench.opened < 2)
		assert_true(schedule_fire(&bench.schedule, UINT64_MAX));
	before = read_byte(&bench.member.disk, 0);
	run_until(&bench, 60000);
	*landed_before += before == 1;
	*landed_after += before == 0 && read_byte(&bench.member.disk, 0) == 1;
	bench_free(&bench);
}

static void
test_late_writes_land_until_the_fence(void **state)
{
	int before = 0, after = 0;

	for (uint64_t seed = 1; seed <= 200; seed++)
		late_write(seed * 7919, false, &before, &after);
	assert_true(before > 20 && before < 190);
	assert_int_equal(after, 0);
	before = after = 0;
	for (uint64_t seed = 1; seed <= 200; seed++)
		late_write(seed * 7919, true, &before, &after);
	assert_true(after > 10);
}

static void
test_a_cut_draws_what_becomes_of_writes(void **state)
{
	int done = 0, torn = 0, nothing = 0;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct bench bench;
		int sectors = 0;

		bench_init(&bench, seed * 104729);
		submit(&bench, BACKEND_WRITE, 1);
		fake_member_cut(&bench.member, true);
		assert_int_equal(bench.result, -ENOTCONN);
		assert_int_equal(bench.error, -ECONNRESET);
		for (uint64_t at = 0; at < 4096; at += 512)
			sectors += read_byte(&bench.member.disk, at) == 1;
		done += sectors == 8;
		nothing += sectors == 0;
		torn += sectors > 0 && sectors < 8;
		bench_free(&bench);
	}
	assert_true(done > 20);
	assert_true(torn > 20);
	assert_true(nothing > 20);
}

/* --- patterns --- */

static void
test_neither_torn_nor_summed_sectors_pass_for_written_ones(void **state)
{
	uint8_t a[PATTERN_SECTOR], b[PATTERN_SECTOR], c[PATTERN_SECTOR], sum[PATTERN_SECTOR];
	uint32_t number;

	pattern_fill(a, 10, 1);
	pattern_fill(b, 11, 2);
	pattern_fill(c, 9, 3);
	assert_int_equal(pattern_read(a, 10, &number), PATTERN_WRITE);
	assert_int_equal(number, 1);
	assert_int_equal(pattern_read(a, 11, &number), PATTERN_RUBBISH); /* misplaced */
	for (unsigned int i = 0; i < PATTERN_SECTOR; i++)
		sum[i] = a[i] ^ b[i] ^ c[i];
	for (uint32_t sector = 0; sector < 32; sector++)
		assert_int_equal(pattern_read(sum, sector, &number), PATTERN_RUBBISH);
	pattern_fill(sum, 10, 2);
	memcpy(sum, a, PATTERN_SECTOR / 2);
	assert_int_equal(pattern_read(sum, 10, &number), PATTERN_RUBBISH);
	memset(sum, 0, sizeof(sum));
	assert_int_equal(pattern_read(sum, 10, &number), PATTERN_ZEROS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_power_loss_takes_what_was_not_flushed),
		cmocka_unit_test(test_a_disk_without_cache_loses_nothing),
		cmocka_unit_test(test_a_block_is_kept_or_lost_as_a_whole),
		cmocka_unit_test(test_what_cures_a_sector_can_be_lost_with_the_cache),
		cmocka_unit_test(test_a_stuck_sector_may_be_written_any_number_of_times),
		cmocka_unit_test(test_a_read_that_was_diverted_touches_nothing),
		cmocka_unit_test(test_a_hang_ends_the_session_at_its_deadline),
		cmocka_unit_test(test_a_command_has_its_time_and_no_more),
		cmocka_unit_test(test_late_writes_land_until_the_fence),
		cmocka_unit_test(test_a_cut_draws_what_becomes_of_writes),
		cmocka_unit_test(test_neither_torn_nor_summed_sectors_pass_for_written_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
