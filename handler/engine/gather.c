/* gather.c - see gather.h. */
#include "gather.h"

#include <stdlib.h>

static void
submit_one(struct gather *gather, int slot)
{
	struct member_io *mio = gather->current[slot];

	if (mio == NULL)
		return;
	gather->current[slot] = NULL;
	++*gather->pending;
	member_io_submit(mio, gather->done, gather->owner);
}

static void
add_part(struct gather *gather, struct member *member, uint64_t offset_bytes,
	 const struct iovec *iov, int count, uint32_t length_bytes)
{
	const int slot = member->slot;
	struct engine *engine = gather->engine;
	uint64_t offset = engine->data_offset_bytes + offset_bytes;
	struct member_io *mio = gather->current[slot];

	if (mio != NULL && mio->io.offset_bytes + mio->io.length_bytes == offset &&
	    mio->io.length_bytes + length_bytes <= OP_BYTES_MAX &&
	    member_io_append(mio, iov, count, length_bytes))
		return;
	submit_one(gather, slot);
	mio = member_io_create(member, gather->op, offset, IO_REQUEST);
	mio->since_ms = gather->since_ms;
	if (!member_io_append(mio, iov, count, length_bytes))
		abort();	/* a new command has room for SEGMENTS_MAX; so no memory at all */
	gather->current[slot] = mio;
}

void
gather_add(struct gather *gather, struct member *member, uint64_t offset_bytes,
	   const struct iovec *iov, int count)
{
	for (int first = 0; first < count; first += SEGMENTS_MAX) {
		int part = count - first < SEGMENTS_MAX ? count - first : SEGMENTS_MAX;
		uint32_t bytes = 0;

		for (int i = first; i < first + part; i++)
			bytes += (uint32_t)iov[i].iov_len;
		add_part(gather, member, offset_bytes, iov + first, part, bytes);
		offset_bytes += bytes;
	}
}

void
gather_add_buffer(struct gather *gather, struct member *member, uint64_t offset_bytes,
		  void *buffer, uint32_t length_bytes)
{
	struct iovec iov = { buffer, length_bytes };

	gather_add(gather, member, offset_bytes, &iov, 1);
}

void
gather_add_zeros(struct gather *gather, struct member *member, uint64_t offset_bytes, uint32_t length_bytes)
{
	const int slot = member->slot;
	uint64_t offset = gather->engine->data_offset_bytes + offset_bytes;
	struct member_io *mio = gather->current[slot];

	if (mio == NULL || mio->io.offset_bytes + mio->io.length_bytes != offset) {
		submit_one(gather, slot);
		mio = member_io_create(member, BACKEND_ZERO, offset, IO_REQUEST);
		mio->since_ms = gather->since_ms;
		mio->io.deallocate = gather->deallocate;
		gather->current[slot] = mio;
	}
	mio->io.length_bytes += length_bytes;
}

void
gather_submit(struct gather *gather)
{
	for (int slot = 0; slot < gather->engine->slots; slot++)
		submit_one(gather, slot);
}
