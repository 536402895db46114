/* log_replay.h - the decision of a start about the write log: which records are written to their
 * rows once more.  No I/O: it is told what was found on the members.
 *
 *	sequence     tail            durable          end
 *	   |-- in rows --|==== to be replayed ====|..torn..|
 *
 * Records are replayed in order from the highest tail that any of them names up to the first that is
 * whole nowhere.  That one was torn by the crash, and nobody was told of it, unless some record says
 * that it had all of its copies: then it is a hole.  Then nothing is replayed: what the missing
 * records wrote to rows may be newer than what the others hold.
 */
#ifndef IRAID_LOG_REPLAY_H
#define IRAID_LOG_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pure/log_record.h"

struct log_copy { /* of a record, as it was found */
	struct log_header header;
	uint32_t digest;
	uint64_t offset_bytes; /* in the member's log */
	uint8_t role;	       /* of the member */
	bool whole;	       /* its payload is what it was written with */
};

struct log_replay {
	uint64_t first, end; /* sequences `first` to `end` - 1; equal: nothing is to be replayed */
	/* The hole: these are missing, or some of them, and were durable; 0: there is none.  They may
	 * be on members whose logs could not be read.
	 */
	uint64_t missing_from, missing_to;
};

/* A run that resumed the opening found a gap, and gave the sequences behind it to other records: what
 * older runs have of these is stale.  How many copies are left, in the same memory.
 */
size_t log_replay_drop_stale(struct log_copy *copies, size_t count);

/* Of the records of one opening, none stale.  Sorts copies: by sequence, those of one record together.
 * The copy to replay a sequence from is log_replay_copy()'s.  may_hide: as many logs have blocks that
 * can't be read as the newest record had copies.
 */
void
log_replay_decide(struct log_copy *copies, size_t count, bool may_hide, struct log_replay *out);

/* The highest tail that is on record with so many members at least; 1: none is.  What is before a higher
 * one is needed by a start that finds those who know of that gone.
 */
uint64_t log_replay_known_tail(const struct log_copy *copies, size_t count, int members);

/* After log_replay_decide(): a whole copy of the record, which follows on the one before.
 * predecessor: that one's digest, or NULL for the first.  NULL: there is none.
 */
const struct log_copy *log_replay_copy(const struct log_copy *copies, size_t count,
				       uint64_t sequence, const uint32_t *predecessor);

#endif
