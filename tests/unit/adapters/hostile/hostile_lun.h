/* hostile_lun.h - the LUN of a hostile_target: what a sane one answers. */
#ifndef IRAID_TEST_HOSTILE_LUN_H
#define IRAID_TEST_HOSTILE_LUN_H

#include <stdint.h>

/* The data of a command that reads, from its header; how long all of it is, room at most.  out NULL:
 * only that.
 */
uint32_t lun_answer(const uint8_t header[48], uint8_t *out, uint32_t room);
/* The first data of a command that writes. */
void lun_sent(const uint8_t header[48], const uint8_t *data, uint32_t length);

#endif
