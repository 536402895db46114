/* What of the write log is replayed: the records from the highest tail to the first that is whole
 * nowhere; what was durable and is gone is told from what a crash tore.  test_log_properties.py
 * compares decisions on logs drawn at random with those of a second implementation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "state/log_replay.h"

#define COPIES_MAX 64

struct log {
	struct log_copy copies[COPIES_MAX];
	size_t count;
	bool may_hide;
};

static uint32_t
digest_of(uint64_t sequence)
{
	return (uint32_t)(sequence * 2654435761u + 1);
}

static struct log_copy *
put(struct log *log, uint64_t sequence, uint8_t role, uint64_t tail, uint64_t durable)
{
	struct log_copy *copy = &log->copies[log->count++];

	assert_true(log->count <= COPIES_MAX);
	*copy = (struct log_copy){
		.header = { .sequence = sequence,
			    .tail = tail,
			    .durable = durable,
			    .predecessor = sequence > 1 ? digest_of(sequence - 1) : 0 },
		.digest = digest_of(sequence),
		.role = role,
		.whole = true,
	};
	return copy;
}

/* `from` to `to`, each on two of three members in turn, the newest first. */
static struct log
run_of(uint64_t from, uint64_t to, uint64_t tail)
{
	struct log log = { .count = 0 };

	for (uint64_t sequence = to; sequence >= from; sequence--)
		for (unsigned int n = 0; n < 2; n++)
			put(&log, sequence, (uint8_t)((sequence + n) % 3), tail, 0);
	return log;
}

static struct log_replay
decide(struct log *log)
{
	struct log_replay replay;

	log->count = log_replay_drop_stale(log->copies, log->count);
	log_replay_decide(log->copies, log->count, log->may_hide, &replay);
	return replay;
}

static void
assert_replay(struct log *log, uint64_t first, uint64_t end)
{
	struct log_replay replay = decide(log);

	assert_int_equal(replay.first, first);
	assert_int_equal(replay.end, end);
	assert_int_equal(replay.missing_from, 0);
	assert_int_equal(replay.missing_to, 0);
}

static void
assert_hole(struct log *log, uint64_t first, uint64_t from, uint64_t to)
{
	struct log_replay replay = decide(log);

	assert_int_equal(replay.first, first);
	assert_int_equal(replay.end, first);
	assert_int_equal(replay.missing_from, from);
	assert_int_equal(replay.missing_to, to);
}

static void
test_an_empty_log_has_nothing_to_replay(void **state)
{
	struct log log = { .count = 0 };

	assert_replay(&log, 1, 1);
}

static void
test_all_records_from_the_tail_on_are_replayed_in_order(void **state)
{
	struct log log = run_of(5, 9, 5);
	const uint32_t *predecessor = NULL;

	assert_replay(&log, 5, 10);
	for (uint64_t sequence = 5; sequence < 10; sequence++) {
		const struct log_copy *copy =
			log_replay_copy(log.copies, log.count, sequence, predecessor);

		assert_non_null(copy);
		assert_int_equal(copy->header.sequence, sequence);
		predecessor = &copy->digest;
	}
	assert_null(log_replay_copy(log.copies, log.count, 10, predecessor));
}

static void
test_what_is_in_its_row_is_not_replayed(void **state)
{
	struct log log = run_of(1, 6, 1);

	/* one record, on one member, knows it */
	put(&log, 7, 0, 5, 0);
	assert_replay(&log, 5, 8);
	/* and be it torn: what its header says was true */
	log.count = 0;
	log = run_of(1, 6, 1);
	put(&log, 8, 0, 6, 0)->whole = false;
	assert_replay(&log, 6, 7);
}

static void
test_one_whole_copy_of_a_record_is_enough(void **state)
{
	struct log log = run_of(3, 8, 3);

	for (size_t i = 0; i < log.count; i += 2)
		log.copies[i].whole = false;
	assert_replay(&log, 3, 9);
}

static void
test_a_torn_record_ends_the_replay(void **state)
{
	struct log log = run_of(3, 8, 3);

	for (size_t i = 0; i < log.count; i++)
		if (log.copies[i].header.sequence == 6)
			log.copies[i].whole = false;
	assert_replay(&log, 3, 6); /* 7 and 8 came before 6 to the media: nobody was told */
}

static void
test_a_record_that_is_nowhere_ends_the_replay(void **state)
{
	struct log log = run_of(1, 4, 1), later = run_of(6, 8, 1);

	memcpy(&log.copies[log.count], later.copies, later.count * sizeof(*later.copies));
	log.count += later.count;
	assert_replay(&log, 1, 5);
}

static void
test_a_record_that_does_not_follow_on_the_one_before_is_not_replayed(void **state)
{
	struct log log = run_of(1, 6, 1);

	for (size_t i = 0; i < log.count; i++)
		if (log.copies[i].header.sequence == 4)
			log.copies[i].header.predecessor ^= 1;
	assert_replay(&log, 1, 4);
	/* of two copies the one that does is taken */
	put(&log, 4, 2, 1, 0);
	assert_replay(&log, 1, 7);
}

static void
test_a_durable_record_that_is_gone_is_told_from_a_torn_one(void **state)
{
	struct log log = run_of(1, 8, 1);

	put(&log, 9, 0, 1, 7); /* 1 to 7 had all of their copies */
	for (size_t i = 0; i < log.count; i++)
		if (log.copies[i].header.sequence == 5)
			log.copies[i].whole = false;
	assert_hole(&log, 1, 5, 7);
	/* 8 is none of them */
	log = run_of(1, 7, 1);
	put(&log, 9, 0, 1, 7);
	assert_replay(&log, 1, 8);
}

static void
test_a_hole_before_the_tail_costs_nothing(void **state)
{
	struct log log = run_of(6, 8, 1);

	put(&log, 9, 1, 7, 8);
	assert_replay(&log, 7, 10);
}

static void
test_what_could_not_be_read_may_be_the_newest_record(void **state)
{
	struct log log = run_of(1, 8, 3);

	log.may_hide = true;
	assert_hole(&log, 3, 9, 9);
}

/* A run wrote 3 and 5, but 4 was torn; the next one wrote a 4 and a 5 of its own, and a 6 that makes
 * 5 the tail.  Of the 5 that is stale nothing tells but when its run began.
 */
static void
test_what_an_older_run_left_behind_a_gap_is_stale(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		struct log log = { .count = 0 };
		struct log_copy *stale, *other;

		for (int n = 0; n < 2; n++)
			if (n == first) {
				stale = put(&log, 5, 0, 1, 3);
				stale->header.epoch = 7;
				stale->header.run_first = 1;
				stale->digest++;
			} else {
				other = put(&log, 5, 1, 1, 3);
				other->header.epoch = 8;
				other->header.run_first = 4;
			}
		other = put(&log, 6, 2, 5, 5);
		other->header.epoch = 8;
		other->header.run_first = 4;
		assert_replay(&log, 5, 7);
		assert_int_equal(log.count, 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_an_older_run_left_behind_a_gap_is_stale),
		cmocka_unit_test(test_an_empty_log_has_nothing_to_replay),
		cmocka_unit_test(test_all_records_from_the_tail_on_are_replayed_in_order),
		cmocka_unit_test(test_what_is_in_its_row_is_not_replayed),
		cmocka_unit_test(test_one_whole_copy_of_a_record_is_enough),
		cmocka_unit_test(test_a_torn_record_ends_the_replay),
		cmocka_unit_test(test_a_record_that_is_nowhere_ends_the_replay),
		cmocka_unit_test(
			test_a_record_that_does_not_follow_on_the_one_before_is_not_replayed),
		cmocka_unit_test(test_a_durable_record_that_is_gone_is_told_from_a_torn_one),
		cmocka_unit_test(test_a_hole_before_the_tail_costs_nothing),
		cmocka_unit_test(test_what_could_not_be_read_may_be_the_newest_record),
	};

	return cmocka_run_group_tests_name("log_replay", tests, NULL, NULL);
}
