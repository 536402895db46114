/* destage.h - brings what the write log has acknowledged to its rows (destage.c). */
#ifndef IRAID_ENGINE_DESTAGE_H
#define IRAID_ENGINE_DESTAGE_H

#include "write_back.h"

/* What the row's writes log, if all goes well: data, what lies between, redundancy and headers. */
uint64_t back_bytes_to_log(const struct write_back *back);
/* Its row is written before others: somebody waits for it, or it has become full. */
void back_hurry(struct write_back *back);

#endif
