/* hostile_lun.h - the LUN of a hostile_target: what a sane one answers. */
#ifndef IRAID_TEST_HOSTILE_LUN_H
#define IRAID_TEST_HOSTILE_LUN_H

#include <stdint.h>

/* The data of a command that reads, from its header; how long all of it is, room at most.  out NULL:
 * only that.
 */
uint32_t lun_answer(const uint8_t header[48], uint8_t *out, uint32_t room);
/* Data of a command that writes, from `offset` of it on. */
void lun_sent(const uint8_t header[48], uint32_t offset, const uint8_t *data, uint32_t length);

/* All that it remembers of what is written: where copies of a superblock are.  All else reads as it
 * did before.
 */
#define LUN_PLACES 2
#define LUN_PLACE_BYTES 4096u
extern uint8_t lun_places[LUN_PLACES][LUN_PLACE_BYTES];

#endif
