/* XOR of memory: every count of sources, lengths around the vector sizes, all alignments, the
 * destination among the sources, memory in pieces.  The reference is one byte at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pure/parity.h"

#define SLOT_BYTES 8192u	/* per buffer: content, misalignment and a guard */
#define GUARD 0xa5

static uint8_t *slots;
static uint8_t expected[SLOT_BYTES];
static uint64_t random_state = 88172645463325252ull;

static uint32_t
random_below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % bound);
}

static void
fill(uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_below(256);
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
		fail_msg("count %d, length %zu, shift %zu, aliased %d",
			 count, length, shift, aliased);
	assert_int_equal(destination[-1], GUARD);
	assert_int_equal(destination[length], GUARD);
}

static void
xor_is_right_for_every_count_length_and_alignment(void **state)
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
destination_may_be_any_source(void **state)
{
	for (int count = 1; count <= PARITY_SOURCES_MAX; count += 5) {
		for (int aliased = 0; aliased < count; aliased++) {
			check(count, 4096, 0, aliased);
			check(count, 1000, 0, aliased);
			check(count, 777, 3, aliased);
		}
	}
}

/* Cut [memory, memory + length) in pieces, empty ones among them, after `skip` foreign bytes. */
static int
cut(uint8_t *memory, size_t length, size_t skip, size_t unit, struct iovec *out, int out_max)
{
	static uint8_t foreign[4096];
	int count = 0;

	if (skip > 0)
		out[count++] = (struct iovec){ foreign, skip };
	while (length > 0) {
		size_t step = unit * (1 + random_below(5));

		if (step > length || count >= out_max - 2)
			step = length;
		if (random_below(4) == 0)
			out[count++] = (struct iovec){ NULL, 0 };
		out[count++] = (struct iovec){ memory, step };
		memory += step;
		length -= step;
	}
	return count;
}

static void
runs_in_pieces_give_the_same_as_whole_ones(void **state)
{
	enum { PIECES = 64 };
	static struct iovec iov[PARITY_SOURCES_MAX + 1][PIECES];
	struct iov_run runs[PARITY_SOURCES_MAX];
	const void *sources[PARITY_SOURCES_MAX];

	for (int turn = 0; turn < 500; turn++) {
		int count = (int)random_below(9);
		size_t unit = turn % 2 ? 512 : 1 + random_below(300);
		size_t length = unit * (1 + random_below(8)) % 4000;
		uint8_t *destination = buffer(PARITY_SOURCES_MAX, turn % 2 ? 0 : 5, length);

		for (int i = 0; i < count; i++) {
			uint8_t *memory = buffer(i, turn % 2 ? 0 : (size_t)i, length);
			size_t skip = random_below(3) * 100;

			sources[i] = memory;
			runs[i].iov = iov[i];
			runs[i].skip_bytes = skip;
			runs[i].count = cut(memory, length, skip, unit, iov[i], PIECES);
		}
		expect_xor(sources, count, length);
		struct iov_run to = { .iov = iov[PARITY_SOURCES_MAX], .skip_bytes = 0 };
		to.count = cut(destination, length, 0, unit, iov[PARITY_SOURCES_MAX], PIECES);
		parity_xor_runs(to, runs, count, length);
		assert_memory_equal(destination, expected, length);
		assert_int_equal(destination[-1], GUARD);
		assert_int_equal(destination[length], GUARD);
	}
}

static void
slice_cuts_and_merges_neighbours(void **state)
{
	static uint8_t memory[100];
	struct iovec iov[] = {
		{ memory, 10 },
		{ memory + 10, 0 },
		{ memory + 10, 10 },	/* touches the first */
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
slice_refuses_short_sources_and_small_results(void **state)
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
		cmocka_unit_test(xor_is_right_for_every_count_length_and_alignment),
		cmocka_unit_test(destination_may_be_any_source),
		cmocka_unit_test(runs_in_pieces_give_the_same_as_whole_ones),
		cmocka_unit_test(slice_cuts_and_merges_neighbours),
		cmocka_unit_test(slice_refuses_short_sources_and_small_results),
	};

	slots = aligned_alloc(4096, (size_t)(PARITY_SOURCES_MAX + 1) * SLOT_BYTES);
	if (!slots)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(slots);
	return failed;
}
