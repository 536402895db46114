/* XOR of memory: every count of sources, lengths around the vector sizes, all alignments, the
 * destination among the sources, memory in pieces.  The reference is one byte at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pure/parity.h"
#include "../xorshift.h"

#define SLOT_BYTES 8192u /* per buffer: content, misalignment and a guard */
#define GUARD 0xa5

static uint8_t *slots;
static uint8_t expected[SLOT_BYTES];

static void
fill(uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)below(256);
}

static void
expect_xor(const void *const *sources, int count, size_t length)
{
	memset(expected, 0, sizeof(expected));
	for (int i = 0; i < count; i++)
		for (size_t b = 0; b < length; b++)
			expected[b] ^= ((const uint8_t *)sources[i])[b];
}

/* Buffer `index`, misaligned by `shift`, with random content. */
static uint8_t *
buffer(int index, size_t shift, size_t length)
{
	uint8_t *base = slots + (size_t)index * SLOT_BYTES;

	memset(base, GUARD, SLOT_BYTES);
	fill(base + 64 + shift, length);
	return base + 64 + shift;
}

static void
check(int count, size_t length, size_t shift, int aliased)
{
	const void *sources[PARITY_SOURCES_MAX];
	uint8_t *destination;

	for (int i = 0; i < count; i++)
		sources[i] = buffer(i, shift * (size_t)i % 64, length);
	expect_xor(sources, count, length);
	destination = aliased >= 0 ? (uint8_t *)(uintptr_t)sources[aliased]
				   : buffer(PARITY_SOURCES_MAX, shift, length);
	parity_xor(destination, sources, count, length);
	if (memcmp(destination, expected, length) != 0)
		fail_msg("count %d, length %zu, shift %zu, aliased %d", count, length, shift,
			 aliased);
	assert_int_equal(destination[-1], GUARD);
	assert_int_equal(destination[length], GUARD);
}

static void
test_xor_is_right_for_every_count_length_and_alignment(void **state)
{
	static const size_t lengths[] = {
		0, 1, 15, 31, 32, 64, 127, 128, 255, 256, 257, 512, 1000, 4096,
	};
	static const size_t shifts[] = { 0, 1, 7, 16, 32 };

	for (int count = 0; count <= PARITY_SOURCES_MAX; count++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
			for (size_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); s++)
				check(count, lengths[l], shifts[s], -1);
}

static void
test_destination_may_be_any_source(void **state)
{
	for (int count = 1; count <= PARITY_SOURCES_MAX; count += 5) {
		for (int aliased = 0; aliased < count; aliased++) {
			check(count, 4096, 0, aliased);
			check(count, 1000, 0, aliased);
			check(count, 777, 3, aliased);
		}
	}
}

enum { PIECES = 64 };

struct scattered {
	struct iovec iov[PIECES];
	struct iov_run run;
	alignas(64) uint8_t memory[SLOT_BYTES];
};

/* length bytes in pieces with gaps between them, empty ones among them, behind `skip` others. */
static void
scatter(struct scattered *s, size_t length, size_t skip, size_t unit, size_t shift)
{
	uint8_t *at = s->memory + shift;
	size_t left = skip + length;
	int count = 0;

	memset(s->memory, GUARD, sizeof(s->memory));
	while (left > 0) {
		size_t step = unit * (1 + below(5));

		if (step > left || count >= PIECES - 2)
			step = left;
		if (below(4) == 0)
			s->iov[count++] = (struct iovec){ NULL, 0 };
		s->iov[count++] = (struct iovec){ at, step };
		fill(at, step);
		at += step + 64;
		left -= step;
	}
	s->run = (struct iov_run){ .iov = s->iov, .count = count, .skip_bytes = skip };
}

/* The bytes a run describes, one by one. */
static void
gather(const struct scattered *s, uint8_t *out, size_t length)
{
	size_t skip = s->run.skip_bytes;

	for (int i = 0; i < s->run.count && length > 0; i++) {
		for (size_t b = 0; b < s->run.iov[i].iov_len && length > 0; b++) {
			if (skip > 0) {
				skip--;
				continue;
			}
			*out++ = ((const uint8_t *)s->run.iov[i].iov_base)[b];
			length--;
		}
	}
	assert_int_equal(length, 0);
}

static void
test_scattered_runs_give_the_same_as_plain_memory(void **state)
{
	enum { RUNS = 9 };
	static struct scattered scattered[RUNS + 1];
	static uint8_t plain[RUNS][4096], result[4096];
	struct iov_run runs[RUNS];
	const void *sources[RUNS];

	for (int turn = 0; turn < 1000; turn++) {
		bool aligned = turn % 2;
		int count = (int)below(RUNS + 1);
		size_t unit = aligned ? 64 : 1 + below(100);
		size_t length = unit * below(21);
		bool aliased = count > 0 && turn % 5 == 0;
		struct scattered *destination = &scattered[aliased ? 0 : RUNS];

		scatter(&scattered[RUNS], length, unit * below(3), unit, aligned ? 0 : 5);
		for (int i = 0; i < count; i++) {
			scatter(&scattered[i], length, unit * below(3), unit,
				aligned ? 0 : (size_t)i);
			gather(&scattered[i], plain[i], length);
			sources[i] = plain[i];
			runs[i] = scattered[i].run;
		}
		expect_xor(sources, count, length);
		parity_xor_runs(destination->run, runs, count, length);
		gather(destination, result, length);
		assert_memory_equal(result, expected, length);
	}
}

static void
test_slice_cuts_and_merges_neighbours(void **state)
{
	static uint8_t memory[100];
	struct iovec iov[] = {
		{ memory, 10 },
		{ memory + 10, 0 },
		{ memory + 10, 10 }, /* touches the first */
		{ memory + 50, 10 },
	};
	struct iovec out[4];

	assert_int_equal(iov_slice(iov, 4, 5, 20, out, 4), 2);
	assert_ptr_equal(out[0].iov_base, memory + 5);
	assert_int_equal(out[0].iov_len, 15);
	assert_ptr_equal(out[1].iov_base, memory + 50);
	assert_int_equal(out[1].iov_len, 5);

	assert_int_equal(iov_slice(iov, 4, 0, 30, out, 2), 2);
	assert_int_equal(iov_slice(iov, 4, 20, 10, out, 1), 1);
	assert_ptr_equal(out[0].iov_base, memory + 50);
	assert_int_equal(iov_slice(iov, 4, 30, 0, out, 0), 0);
}

static void
test_slice_refuses_short_sources_and_small_results(void **state)
{
	static uint8_t memory[100];
	struct iovec iov[] = { { memory, 10 }, { memory + 50, 10 } };
	struct iovec out[2];

	assert_int_equal(iov_slice(iov, 2, 0, 21, out, 2), -EINVAL);
	assert_int_equal(iov_slice(iov, 2, 20, 1, out, 2), -EINVAL);
	assert_int_equal(iov_slice(iov, 2, 1000, 1, out, 2), -EINVAL);
	assert_int_equal(iov_slice(iov, 0, 0, 1, out, 2), -EINVAL);
	assert_int_equal(iov_slice(iov, 2, 0, 11, out, 1), -ENOSPC);
	assert_int_equal(iov_slice(iov, 2, 0, 1, out, 0), -ENOSPC);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xor_is_right_for_every_count_length_and_alignment),
		cmocka_unit_test(test_destination_may_be_any_source),
		cmocka_unit_test(test_scattered_runs_give_the_same_as_plain_memory),
		cmocka_unit_test(test_slice_cuts_and_merges_neighbours),
		cmocka_unit_test(test_slice_refuses_short_sources_and_small_results),
	};

	slots = aligned_alloc(4096, (size_t)(PARITY_SOURCES_MAX + 1) * SLOT_BYTES);
	if (!slots)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(slots);
	return failed;
}
