/* parity.c - XOR over plain and scattered memory.
 *
 * isa-l's xor_gen asks for aligned pointers and at least two sources.  Pages of the ring and the
 * engine's buffers are aligned to a block at least, so it is the rule; the plain loop is for the
 * rest.  Both take a small piece of all sources before they store it, in one pass over the
 * sources, which is what allows the destination to be one of them.
 *
 * xor_gen stores past the cache.  That is right for parity that goes out to a socket next, and
 * costs little for the short reconstructions that are read at once.
 */
#include "parity.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/raid.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

/* isa-l documents 32; its widest vectors are 64 bytes. */
#define ALIGN_BYTES 64u
#define PIECE_BYTES 256u

static bool
are_all_aligned(const void *destination, const void *const *sources, int count)
{
	uintptr_t bits = (uintptr_t)destination;

	for (int i = 0; i < count; i++)
		bits |= (uintptr_t)sources[i];
	return bits % ALIGN_BYTES == 0;
}

static void
xor_isal(uint8_t *destination, const void *const *sources, int count, size_t length_bytes)
{
	const size_t step_bytes_max = (size_t)INT_MAX + 1 - ALIGN_BYTES;
	void *vectors[PARITY_SOURCES_MAX + 1];

	for (size_t done = 0; done < length_bytes;) {
		size_t left = length_bytes - done;
		int step = (int)(left < step_bytes_max ? left : step_bytes_max);

		for (int i = 0; i < count; i++)
			vectors[i] = (uint8_t *)(uintptr_t)sources[i] + done;
		vectors[count] = destination + done;
		int failed = xor_gen(count + 1, step, vectors);
		assert(failed == 0);
		(void)failed;
		done += (size_t)step;
	}
}

static void
xor_plain(uint8_t *destination, const void *const *sources, int count, size_t length_bytes)
{
	uint8_t sum[PIECE_BYTES];
	size_t done = 0;

	for (; length_bytes - done >= PIECE_BYTES; done += PIECE_BYTES) {
		memcpy(sum, (const uint8_t *)sources[0] + done, PIECE_BYTES);
		for (int i = 1; i < count; i++) {
			const uint8_t *source = (const uint8_t *)sources[i] + done;

			for (unsigned int b = 0; b < PIECE_BYTES; b++)
				sum[b] ^= source[b];
		}
		memcpy(destination + done, sum, PIECE_BYTES);
	}
	for (; done < length_bytes; done++) {
		uint8_t byte = 0;

		for (int i = 0; i < count; i++)
			byte ^= ((const uint8_t *)sources[i])[done];
		destination[done] = byte;
	}
}

void
parity_xor(void *destination, const void *const *sources, int count, size_t length_bytes)
{
	assert(count >= 0 && count <= PARITY_SOURCES_MAX);
	if (length_bytes == 0)
		return;
	if (count == 0)
		memset(destination, 0, length_bytes);
	else if (count == 1 && destination == sources[0])
		return;
	else if (count == 1)
		memcpy(destination, sources[0], length_bytes);
	else if (are_all_aligned(destination, sources, count))
		xor_isal(destination, sources, count, length_bytes);
	else
		xor_plain(destination, sources, count, length_bytes);
}

size_t
iov_run_settle(struct iov_run *run)
{
	while (run->count > 0 && run->skip_bytes >= run->iov->iov_len) {
		run->skip_bytes -= run->iov->iov_len;
		run->iov++;
		run->count--;
	}
	return run->count > 0 ? run->iov->iov_len - run->skip_bytes : 0;
}

static void *
run_pointer(const struct iov_run *run)
{
	return (uint8_t *)run->iov->iov_base + run->skip_bytes;
}

void
parity_xor_runs(struct iov_run destination, const struct iov_run *sources, int count,
		size_t length_bytes)
{
	struct iov_run runs[PARITY_SOURCES_MAX];
	const void *pointers[PARITY_SOURCES_MAX];

	assert(count >= 0 && count <= PARITY_SOURCES_MAX);
	for (int i = 0; i < count; i++)
		runs[i] = sources[i];

	/* Each turn takes what is contiguous in all runs: everything, if each is one segment. */
	while (length_bytes > 0) {
		size_t held = iov_run_settle(&destination);
		size_t step = held < length_bytes ? held : length_bytes;

		for (int i = 0; i < count; i++) {
			held = iov_run_settle(&runs[i]);
			if (held < step)
				step = held;
			if (step == 0)
				break;
			pointers[i] = run_pointer(&runs[i]);
		}
		assert(step > 0 && "a run is shorter than length_bytes");
		parity_xor(run_pointer(&destination), pointers, count, step);

		destination.skip_bytes += step;
		for (int i = 0; i < count; i++)
			runs[i].skip_bytes += step;
		length_bytes -= step;
	}
}

int
iov_slice(const struct iovec *iov, int count, size_t skip_bytes, size_t length_bytes,
	  struct iovec *out, int out_max)
{
	struct iov_run run = { .iov = iov, .count = count, .skip_bytes = skip_bytes };
	int used = 0;

	while (length_bytes > 0) {
		size_t held = iov_run_settle(&run);
		size_t step = held < length_bytes ? held : length_bytes;

		if (step == 0)
			return -EINVAL;
		uint8_t *base = run_pointer(&run);
		if (used > 0 && (uint8_t *)out[used - 1].iov_base + out[used - 1].iov_len == base) {
			out[used - 1].iov_len += step;
		} else {
			if (used == out_max)
				return -ENOSPC;
			out[used++] = (struct iovec){ .iov_base = base, .iov_len = step };
		}
		run.skip_bytes += step;
		length_bytes -= step;
	}
	return used;
}
