/* rows.h - who may work on which row, in order of arrival.
 *
 * Every operation claims all rows it touches at the moment it arrives, each claim at the tail
 * of its row's queue, and proceeds when all are granted.  A claim is granted when no earlier
 * claim of its row conflicts with it.  As all claims of one operation are queued at one
 * moment, the order is the same in every row and no two operations can wait for each other.
 *
 *	                 READ            REBUILD_READ   WRITE
 *	READ             -               -              bytes overlap
 *	REBUILD_READ     -               -              always
 *	WRITE            bytes overlap   always         always (level 0: bytes overlap)
 *
 * REBUILD_READ reads the whole row to make up for a missing member, so a write anywhere in
 * the row would change what it needs.
 */
#ifndef IRAID_ROWS_H
#define IRAID_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"

enum claim_kind {
	CLAIM_READ,
	CLAIM_REBUILD_READ,
	CLAIM_WRITE,
};

struct claim_holder { /* embedded in an operation */
	int waiting;  /* claims not granted yet */
	/* when waiting falls to 0; may be called from row_release */
	void (*granted)(struct claim_holder *holder);
	/* Somebody will have to wait for a row of which this has the first claim; called from
	 * row_claim().  Claims of that row may be queued here, and come before.  Or NULL.
	 */
	void (*awaited)(struct claim_holder *holder);
};

struct row_entry;

struct row_claim { /* memory is the operation's */
	struct list in_row;
	struct row_entry *entry;
	struct claim_holder *holder;
	uint64_t begin_bytes; /* of the row's data */
	uint64_t end_bytes;
	enum claim_kind kind;
	bool granted;
};

struct row_table;

/* rows_exclusive: writes of one row exclude each other (levels with parity). NULL if out of memory.
 */
struct row_table *row_table_create(bool rows_exclusive);
void row_table_destroy(struct row_table *table);

/* So many more claims find the memory that they need.  0 or -ENOMEM.  Background work need not ask.
 */
int row_table_reserve(struct row_table *table, uint32_t claims);

/* Queue a claim, for which there is memory.  holder->granted is not called from here: look at
 * holder->waiting.
 */
void row_claim(struct row_table *table, uint64_t row, struct row_claim *claim);
/* The same, in the place right before another claim of the same row, whose holder gives it up for
 * this one.
 */
void row_claim_before(struct row_table *table, struct row_claim *claim, struct row_claim *before);
void row_release(struct row_table *table, struct row_claim *claim);

/* Last claim of the row's queue, or NULL if nobody claims it: for merging.  And the first. */
struct row_claim *row_tail(struct row_table *table, uint64_t row);
struct row_claim *row_head(struct row_table *table, uint64_t row);

/* Does somebody wait behind this claim? */
bool row_is_awaited(const struct row_claim *claim);

/* Let a claim cover more bytes of its row, if it is the row's last and that makes it wait for
 * nothing it does not wait for already.  Returns false, having changed nothing, otherwise.
 */
bool row_widen(struct row_table *table, struct row_claim *claim, uint64_t begin_bytes,
	       uint64_t end_bytes);

#endif
