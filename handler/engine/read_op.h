/* read_op.h - shared by read_op.c (one piece of a read) and hedge.c (reads around slow and silent members). */
#ifndef IRAID_READ_OP_H
#define IRAID_READ_OP_H

#include "engine_internal.h"

struct rebuilt {		/* an extent that is made from the others */
	struct extent extent;
	size_t piece_offset;	/* where its bytes belong */
	size_t arena_offset;	/* of its first buffer */
};

struct read_op {
	struct op op;			/* must be first */
	struct piece *piece;
	uint64_t first_row;
	int row_count;
	int pending;
	int attempts;
	int avoid;			/* role whose data can't be read, or -1 */
	bool evades;			/* avoid is set because that member is slow or silent: it may be asked after all */
	bool patient;			/* was made from the others in vain: waits for its member */
	uint64_t issued_ms;
	uint32_t doubts;		/* intent.doubts then: what is suspect since is not made from parity */
	struct list waiting;		/* in engine->reads */
	int failed_role;
	int error;
	int rebuilt_count;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct row_claim claims[OP_ROWS_MAX];
	struct rebuilt rebuilt[OP_ROWS_MAX];
};

/* Give back what it has and begin again, at the tail of its rows' queues. */
void read_op_again(struct read_op *op);

/* The role a new read should not ask, for its member is silent or slow and all others answer; or -1. */
int read_role_to_evade(struct engine *engine);

#endif
