/* gather.h - builds commands for the members out of pieces, joining those that touch.
 *
 * Pieces of one member that come in ascending order, each starting where the last ended, become one
 * command; anything else begins another.  Each submitted command raises *pending.
 */
#ifndef IRAID_GATHER_H
#define IRAID_GATHER_H

#include "engine_internal.h"

struct gather {
	struct engine *engine;
	enum backend_op op;
	void (*done)(struct member_io *mio, int result);
	void *owner;
	int *pending;
	uint64_t since_ms;	/* of the request they are for */
	bool deallocate;	/* of zeros */
	struct member_io *current[SLOTS_MAX];
};

/* offset_bytes: in the member's data area. */
void gather_add(struct gather *gather, struct member *member, uint64_t offset_bytes, const struct iovec *iov,
		int count);
void gather_add_buffer(struct gather *gather, struct member *member, uint64_t offset_bytes, void *buffer,
		       uint32_t length_bytes);
void gather_add_zeros(struct gather *gather, struct member *member, uint64_t offset_bytes, uint32_t length_bytes);
void gather_submit(struct gather *gather);

#endif
