/* sync_rows.h - a batch of rows brought in step, for resync, rebuild, scrub and repair.
 *
 *	claim the rows --> read --> compare / rebuild --> write what differs --> done
 *	                     |  something can't be read
 *	                     `--> row by row, piece by piece: mend_row.c.  If somebody waits for one of the rows it ends with
 *	                          the row that it is at: on a slow member each may take seconds
 *
 * The owner says what for, and learns by done() what became of it.  One batch at a time.
 */
#ifndef IRAID_SYNC_ROWS_H
#define IRAID_SYNC_ROWS_H

#include "work.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"

#define SYNC_ROWS_MAX 16
/* redundancy as computed (up to 3 copies, or P and Q); what the target held */
#define SYNC_SPARE_CHUNKS 4
#define SYNC_HELD 3 /* the last of them */
#define MEND_PIECE_BYTES 4096u
#define MEND_PIECES_MAX (IRAID_CHUNK_BYTES_MAX / MEND_PIECE_BYTES)

enum sync_purpose {
	SYNC_PARITY, /* parity is made to fit the data */
	SYNC_CHECK,  /* is only compared; unreadable sectors are rewritten all the same */
	/* the target gets its chunk, from the member in its place or from all others */
	SYNC_FILL,
	SYNC_MEND, /* one row: sectors that can't be read are rewritten and read again */
};

enum mend_step {
	MEND_READ_CHUNKS,
	MEND_READ_PIECES,
	MEND_RECORD,
	MEND_MARK,
	MEND_LOG,
	MEND_WRITE,
	MEND_VERIFY,
	MEND_HEAL_RECORD,
};

struct mend {	   /* of one row */
	int index; /* row in the batch */
	enum mend_step step;
	bool bad[IRAID_MEMBERS_MAX][MEND_PIECES_MAX]; /* by position: can't be read */
	/* by piece: positions whose members refuse to read it, now at least */
	uint32_t refused[MEND_PIECES_MAX];
	/* ... positions that lack it, where it is left as it is on all members */
	uint32_t passed[MEND_PIECES_MAX];
	/* of what bad pieces were rewritten with */
	uint32_t crc[IRAID_MEMBERS_MAX][MEND_PIECES_MAX];
	bool writes; /* and more than that: what becomes of it is not known until all is written */
	uint32_t misread; /* positions of which some piece is not what was written */
	uint32_t flagged; /* whose members were not known for that before */
	uint8_t rewrites; /* that followed on that */
	bool chunk_bad[IRAID_MEMBERS_MAX];
	/* positions whose chunks were; who returns later has none that counts */
	uint32_t read;
	uint32_t missing;		 /* roles, when it was decided what to read */
	bool held_read;			 /* what the target held was asked for: it counted then */
	bool held_bad;			 /* ... and can't be read as a whole */
	bool held_gone[MEND_PIECES_MAX]; /* ... of it, what nobody can read any more */
	bool held_refused[MEND_PIECES_MAX]; /* ... what is refused, now at least */
	/* ... counts, although the row proves nothing and is on no record: it is proven then */
	bool taken;
	bool heals;
	bool lost;	  /* something went on record for that */
	uint32_t changed; /* positions that are written as a whole */
	/* of these pieces were made anew in a row that proves nothing: that is noted as a write,
	 * and no more of them is written
	 */
	uint32_t remade;
	struct lost_waiter waiter;
	struct region_hold marks;
};

struct sync_rows {
	struct op op; /* must be first */
	bool active;
	enum sync_purpose purpose;
	uint64_t first_row;
	int row_count;
	int pending;
	int error;
	uint32_t doubts;		/* intent.doubts when it began */
	uint32_t missing;		/* roles, when it was decided what to read */
	uint32_t absent[SYNC_ROWS_MAX]; /* by row: positions that nobody had then */
	uint8_t *buffer; /* chunks by position and row, then SYNC_SPARE_CHUNKS of room */
	size_t buffer_bytes;
	struct row_claim claims[SYNC_ROWS_MAX];
	struct mend mend;
	struct logged logged;			/* of the row that is mended */
	struct iovec chunks[IRAID_MEMBERS_MAX]; /* what it logs, by position */
	bool counts;				/* of write_log.writers */
	struct row_note note;			/* of those that are corrected */
	uint32_t differed;			/* bit per row: it did not fit */
	uint32_t corrected; /* of those: it was written, whatever became of the batch then */
	uint32_t marked;    /* of those: its region was marked for it */
	bool keeps;	    /* its region, sync_rows_keep() */
	uint32_t wrong[SYNC_ROWS_MAX]; /* of such a row: the positions that are to be written */
	/* of such a row: the role that alone is wrong, -1: not known */
	int8_t blamed[SYNC_ROWS_MAX];
	uint32_t unreadable; /* bit per row: it could not be done */
	/* result: 0; -ENOLINK: who is there changed, try again; -ENOSPC: the table of lost extents
	 * is full; -ENODATA: it is not known what the target must get, and the table is full;
	 * -ETIMEDOUT, -ESHUTDOWN as of member_io.
	 */
	void (*done)(struct sync_rows *rows, int result);
};

void sync_rows_init(struct sync_rows *rows, struct engine *engine,
		    void (*done)(struct sync_rows *rows, int result));
int sync_rows_max(const struct engine *engine); /* rows of a batch */
/* Is it known what the target must get of this row (DESIGN rule 14)? What is missing of a suspect
 * row that did not fit in the table of lost extents is known to nobody, or to the target alone.
 */
bool sync_fill_known(const struct engine *engine, uint64_t row);
/* The row is suspect, and the target's own chunk is the best that there is for it. */
bool sync_target_holds(const struct engine *engine, uint64_t row);
/* Claim and go.  count: 1 .. sync_rows_max(). */
void
sync_rows_begin(struct sync_rows *rows, enum sync_purpose purpose, uint64_t first_row, int count);

/* Shared with mend_row.c. */
/* The row is suspect, and its chunk is what the target holds; for certain, or by an administrator's
 * word.
 */
bool sync_target_knows(const struct engine *engine, uint64_t row);
uint8_t *sync_rows_chunk(const struct sync_rows *rows, int position, int index);
uint8_t *sync_rows_spare(const struct sync_rows *rows, int which); /* a chunk of room */
void sync_rows_chunks(const struct sync_rows *rows, int index, size_t offset,
		      void *chunks[IRAID_MEMBERS_MAX]);
/* Make the row fit; returns the positions that did not, corrected in memory. */
uint32_t sync_rows_differ(struct sync_rows *rows, int index);
/* The first of a position's engine_writers() who gets its whole chunk when its row is corrected;
 * wrong: its own chunk is.
 */
int sync_rows_first_writer(bool wrong, int writers);
/* Somebody waits for one of its rows. */
bool sync_rows_awaited(const struct sync_rows *rows);
/* The first `count` rows are all that it does.  Its chunks are not to be found any more: it ends
 * next.
 */
void sync_rows_shorten(struct sync_rows *rows, int count);
/* Before parity of theirs is written, for most of them without a mark: should a member go with
 * which redundancy goes, their region is suspect no longer, but it must not be cleaned by a flush
 * that passes this write by.  Till the end.
 */
void sync_rows_keep(struct sync_rows *rows);
void sync_rows_end(struct sync_rows *rows, int result);
void sync_rows_free(struct sync_rows *rows);
/* The row is done; result: what it wrote may be torn, if that is not 0. */
void mend_unlog(struct sync_rows *rows, int result);
/* this row and those behind it, then sync_rows_end() */
void mend_rows(struct sync_rows *rows, int index);

#endif
