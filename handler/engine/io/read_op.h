/* read_op.h - shared by read_op.c (one piece of a read) and hedge.c (reads around slow and silent
 * members).
 */
#ifndef IRAID_READ_OP_H
#define IRAID_READ_OP_H

#include "internal.h"
#include "engine/record/record.h"

/* no level bears more than two missing data chunks in a row */
#define REBUILT_MAX (2 * OP_ROWS_MAX)

struct rebuilt { /* an extent that is made from the others */
	struct extent extent;
	size_t piece_offset; /* where its bytes belong */
	size_t arena_offset; /* of its first buffer */
	uint32_t absent;     /* positions of its row that were not read */
	uint32_t sources;    /* positions it is made from */
};

struct read_op {
	struct op op; /* must be first */
	struct piece *piece;
	uint64_t first_row;
	int row_count;
	int pending;
	int attempts;
	uint32_t avoid;		   /* roles that are not asked */
	uint32_t bad[OP_ROWS_MAX]; /* by row: roles whose chunk can't be read */
	uint32_t shunned;	   /* roles that are bad in any row: another copy is better */
	/* rows (bits, the first is first_row) that some member refused to read: not for good,
	 * perhaps
	 */
	uint32_t refused;
	bool row_by_row; /* no command is of more than one row */
	/* some of them because they are slow or silent: they may be asked after all */
	bool evades;
	bool patient; /* was made from the others in vain: waits for its member */
	uint64_t issued_ms;
	uint64_t again_ns, issued_ns; /* for figures */
	uint64_t look_ms;	      /* whether it waits too long is looked at then */
	/* intent.doubts then: what is suspect since is not made from parity */
	uint32_t doubts;
	struct list waiting; /* in engine->io->reads */
	int error;
	int rebuilt_count;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct row_claim claims[OP_ROWS_MAX];
	struct rebuilt rebuilt[REBUILT_MAX];
	/* rows (bits, the first is first_row) whose copies may differ */
	uint32_t settle;
	uint8_t settle_from[OP_ROWS_MAX]; /* and by row, the role that was read */
	struct row_note note;		  /* of those, while they are written */
};

/* Give back what it has and begin again, at the tail of its rows' queues. */
void read_op_again(struct read_op *op);

/* It is over. */
void read_op_end(struct read_op *op, int result);

/* The roles a new read should not ask, for their members are silent or slow and all others answer.
 */
uint32_t read_roles_to_evade(struct engine *engine);

#endif
