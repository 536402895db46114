/* pattern.h - what a sector that was written holds: its number and the number of the write, spread
 * over all of its words so that neither a torn sector nor an XOR of several passes for a good one.
 */
#ifndef IRAID_PATTERN_H
#define IRAID_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#define PATTERN_SECTOR 512u
#define PATTERN_WORDS (PATTERN_SECTOR / 8)

void pattern_fill(uint8_t *memory, uint32_t sector, uint32_t number);

enum pattern_verdict {
	PATTERN_WRITE, /* the whole sector is of write *number */
	PATTERN_ZEROS,
	PATTERN_RUBBISH,
};

enum pattern_verdict pattern_read(const uint8_t *memory, uint32_t sector, uint32_t *number);

#endif
