/* areas.h - of areas.c, what the codec needs beside layout.h. */
#ifndef IRAID_AREAS_H
#define IRAID_AREAS_H

#include <stdint.h>

struct superblock;

/* Of data_bytes of data, whatever area holds them. */
uint64_t checksum_bytes_of(uint64_t data_bytes);

/* 4, or 5 if it has grown. */
int area_count(const struct superblock *superblock);

#endif
