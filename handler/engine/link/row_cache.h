/* row_cache.h - what members hold of rows that were written in part lately, so that the next small
 * write there reads nothing.
 *
 * Levels 5 and 6 only.  A small write needs old data or parity; a journal, a log, or a stream of
 * small writes needs those of the same row again and again.  A row that is written in part twice
 * within a short time, or by a stream, is read chunk by chunk, as its writes need them, and kept.
 *
 * Rule: what is kept is what a read of the member would answer now.
 *	- Writes of a row exclude each other, and one that finds it here works in this memory (`taken`), nobody else.
 *	- Whoever else writes to a member forgets the row first (command.c).
 *	- A write that fails, or may have to be repeated, forgets it; and all rows are forgotten when something
 *	  became doubtful (intent.doubts) or a member may have lost its cache.
 *	- Rows that are not proven, or lack a chunk, are not kept.
 */
#ifndef IRAID_ROW_CACHE_H
#define IRAID_ROW_CACHE_H

#include "engine/core/core.h"

struct cached_row {
	uint64_t row;
	uint64_t used_at;			 /* row_cache.clock then; 0: nothing is kept here */
	bool taken;				 /* by the write that holds the row */
	struct columns known[IRAID_MEMBERS_MAX]; /* by position */
	uint8_t *memory;			 /* chunks by position */
};

/* For levels that have none (or chunks too long to be kept) there is none: NULL, and the others do
 * nothing.  0 or -ENOMEM.
 */
int row_cache_init(struct engine *engine);
void row_cache_free(struct engine *engine);

/* What is known of the row, or NULL. */
const struct columns *row_cache_known(struct engine *engine, uint64_t row);

/* For a write of part of the row that begins: is it worth keeping? Then its memory, taken; else
 * NULL.
 */
struct cached_row *row_cache_take(struct engine *engine, uint64_t row, bool stream);
uint8_t *
row_cache_chunk(const struct engine *engine, const struct cached_row *cached, int position);

/* These columns of a chunk are as the member has them now. */
void row_cache_learn(struct cached_row *cached, int position, struct columns columns);

/* The write ended.  good: what is known of the row is so. */
void row_cache_give_back(struct engine *engine, struct cached_row *cached, bool good);

/* A command that changes the member's data is about to be sent. */
void row_cache_overwritten(struct engine *engine, const struct backend_io *io);

#endif
