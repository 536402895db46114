/* gather.h - builds commands for the members out of pieces, joining those that touch.
 *
 * Pieces of one member that come in ascending order, each starting where the last ended, become one
 * command; anything else begins another.  Nothing is sent before gather_submit(): it sends all, or,
 * where there is no memory for one of them, none.  Each submitted command raises *pending.
 */
#ifndef IRAID_GATHER_H
#define IRAID_GATHER_H

#include "link.h"

struct gather {
	struct engine *engine;
	enum backend_op op;
	void (*done)(struct member_io *mio, int result);
	void *owner;
	int *pending;
	uint64_t since_ms; /* of the request they are for */
	bool deallocate;   /* of zeros */
	/* The gather's own. */
	struct member_io *current[SLOTS_MAX]; /* what the next piece may join */
	struct list built;		      /* all commands, in order; of zeros: not begun */
	bool failed;
};

/* offset_bytes: in the member's data area. */
void gather_add(struct gather *gather, struct member *member, uint64_t offset_bytes,
		const struct iovec *iov, int count);
void gather_add_buffer(struct gather *gather, struct member *member, uint64_t offset_bytes,
		       void *buffer, uint32_t length_bytes);
void gather_add_zeros(struct gather *gather, struct member *member, uint64_t offset_bytes,
		      uint32_t length_bytes);
int gather_submit(struct gather *gather); /* 0; -ENOMEM: nothing was sent */

#endif
