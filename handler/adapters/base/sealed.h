/* base/sealed.h - secrets that a process needs rarely, and keeps for as long as it lives.
 *
 *     sealed_put ------> [ciphertext, on the heap] ------> sealed_open into secret_memory()
 *                         key: once for the process, in secret_memory()
 *
 * What stands in ordinary memory, and so in a core or a swapped page, tells nothing.  Who can read
 * the memory of the live process finds key and ciphertext: against him there is no help.
 */
#ifndef IRAID_SEALED_H
#define IRAID_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed pages that are in no core and, where the limit of locked memory lets them, not swapped.
 * NULL if there are none.
 */
void *secret_memory(size_t length_bytes);
/* Wiped and given back.  NULL does no harm. */
void secret_memory_free(void *memory, size_t length_bytes);

struct sealed { /* zeroed: holds nothing */
	uint8_t nonce[16];
	uint8_t *bytes;
	size_t length_bytes;
};

/* Keeps a copy of the bytes, in the place of what was there.  False, and what was there stays: no
 * memory, or no random numbers.
 */
bool sealed_put(struct sealed *sealed, const void *bytes, size_t length_bytes);
/* Writes sealed->length_bytes to out.  False: no memory, or it holds nothing. */
bool sealed_open(const struct sealed *sealed, void *out);
void sealed_free(struct sealed *sealed);

#endif
