/* parity.h - XOR of memory that is described by iovecs.  isa-l does the work where the
 * pieces are aligned for it (64 bytes); elsewhere a plain loop the compiler vectorises.  No
 * allocation.
 */
#ifndef IRAID_PARITY_H
#define IRAID_PARITY_H

#include <stddef.h>
#include <sys/uio.h>

#include "geometry.h"

#define PARITY_SOURCES_MAX (2 * IRAID_MEMBERS_MAX + 2)

/* A run of bytes inside an iovec array: `skip_bytes` into it, as long as the caller says. */
struct iov_run {
	const struct iovec *iov;
	int count;
	size_t skip_bytes;
};

/* Step over what is used up, so that the run's first entry holds at least one byte beyond
 * skip_bytes; returns how many, 0 at the end.
 */
size_t iov_run_settle(struct iov_run *run);

/* destination = sources[0] ^ ... ^ sources[count-1], each length_bytes long.  One source is
 * a copy, none is zeros; at most PARITY_SOURCES_MAX.  destination may equal a source exactly,
 * and may not overlap one otherwise.
 */
void parity_xor(void *destination, const void *const *sources, int count, size_t length_bytes);

/* The same on scattered memory.  Every run must hold length_bytes beyond its skip (asserted).
 * Entries may be empty, and are never modified.
 */
void parity_xor_runs(struct iov_run destination, const struct iov_run *sources, int count,
		     size_t length_bytes);

/* Describe [skip_bytes, skip_bytes + length_bytes) of iov[count] by out[0..out_max).
 * Returns the number of entries (0 for no bytes), merging neighbours that touch; -ENOSPC if out
 * is too small, -EINVAL if the source is too short (then out may be filled in part).
 */
int iov_slice(const struct iovec *iov, int count, size_t skip_bytes, size_t length_bytes,
	      struct iovec *out, int out_max);

#endif
