/* code.h - what the chunks of a row make of each other: nothing (level 0), copies (1, 10), P (5), P
 * and Q (6).  Memory only; isa-l does the arithmetic.
 *
 *	P = D0 ^ D1 ^ ...			Q = D0 ^ g D1 ^ g^2 D2 ^ ...	in GF(2^8) with 11Dh, g = 2
 *
 * Chunks are known by their position in the row (geometry.h): data first, then copies, or P, or P
 * and Q.  Sets of positions are bits.  `absent` is what can't be read; nothing here looks at it.
 */
#ifndef IRAID_CODE_H
#define IRAID_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "geometry.h"
#include "parity.h"

/* Can every absent chunk be made from the others? */
bool code_bears(const struct geometry *geometry, uint32_t absent);

/* What code_make() reads for `wanted`, which counts as absent: the positions that are needed, no
 * more.  0 if it can't be made.  Of a copy the lowest position that is not absent; of level 6, one
 * data chunk: P if it is there and not Q, whichever else.
 */
uint32_t code_sources(const struct geometry *geometry, uint32_t wanted, uint32_t absent);

/* Make the chunks `wanted` (of those absent; data, copies, P or Q), each length_bytes, from
 * code_sources().  chunks: by position; only wanted and sources are touched.  code_sources() must
 * not be 0 (asserted).
 */
void code_make(const struct geometry *geometry, uint32_t wanted, uint32_t absent,
	       void *const *chunks, size_t length_bytes);

/* The same with memory in pieces; runs: by position.  Nothing is copied on the way. */
void code_make_runs(const struct geometry *geometry, uint32_t wanted, uint32_t absent,
		    const struct iov_run *runs, size_t length_bytes);

/* Compare copies, P or Q with the data, all of which is there.  Returns the positions behind the
 * data that don't fit, corrected in place; those in `absent` are neither looked at nor reported.
 * scratch: (width - data_chunks) * length_bytes.
 */
uint32_t code_check(const struct geometry *geometry, uint32_t absent, void *const *chunks,
		    void *scratch, size_t length_bytes);

/* Level 6, and level 1 with three copies or more: the one position that alone is wrong, when the
 * row does not fit and changing that one would make it fit; -1: it fits, or more than one is wrong,
 * or the level can't tell.  Nothing is changed.  scratch as above.
 */
int code_blame(const struct geometry *geometry, void *const *chunks, void *scratch,
	       size_t length_bytes);

/* P and Q after a write of part of one data chunk: out[i] ^= factor * delta, where delta = old ^
 * new.  delta is overwritten.  redundancy[0]: P's bytes or NULL, redundancy[1]: Q's or NULL.
 * Levels 5 and 6.
 */
void code_update(const struct geometry *geometry, uint8_t chunk, void *old_then_delta,
		 struct iov_run new_data, void *const redundancy[2], size_t length_bytes);

#endif
