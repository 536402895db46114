/* areas.h - of areas.c, what the codec needs beside layout.h. */
#ifndef IRAID_AREAS_H
#define IRAID_AREAS_H

#include <stdint.h>

/* Of data_bytes of data, whatever area holds them. */
uint64_t checksum_bytes_of(uint64_t data_bytes);

#endif
