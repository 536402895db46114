/* gather.c - see gather.h. */
#include "gather.h"

#include <stdlib.h>

static void
submit_one(struct gather *gather, int role)
{
	struct member_io *mio = gather->current[role];

	if (mio == NULL)
		return;
	gather->current[role] = NULL;
	++*gather->pending;
	member_io_submit(mio, gather->done, gather->owner);
}

static void
add_part(struct gather *gather, int role, uint64_t offset_bytes, const struct iovec *iov, int count,
	 uint32_t length_bytes)
{
	struct engine *engine = gather->engine;
	uint64_t offset = engine->data_offset_bytes + offset_bytes;
	struct member_io *mio = gather->current[role];

	if (mio != NULL && mio->io.offset_bytes + mio->io.length_bytes == offset &&
	    mio->io.length_bytes + length_bytes <= OP_BYTES_MAX &&
	    member_io_append(mio, iov, count, length_bytes))
		return;
	submit_one(gather, role);
	mio = member_io_create(engine->by_role[role], gather->op, offset, IO_REQUEST);
	if (!member_io_append(mio, iov, count, length_bytes))
		abort();	/* a new command has room for SEGMENTS_MAX; so no memory at all */
	gather->current[role] = mio;
}

void
gather_add(struct gather *gather, int role, uint64_t offset_bytes, const struct iovec *iov, int count)
{
	for (int first = 0; first < count; first += SEGMENTS_MAX) {
		int part = count - first < SEGMENTS_MAX ? count - first : SEGMENTS_MAX;
		uint32_t bytes = 0;

		for (int i = first; i < first + part; i++)
			bytes += (uint32_t)iov[i].iov_len;
		add_part(gather, role, offset_bytes, iov + first, part, bytes);
		offset_bytes += bytes;
	}
}

void
gather_add_buffer(struct gather *gather, int role, uint64_t offset_bytes, void *buffer,
		  uint32_t length_bytes)
{
	struct iovec iov = { buffer, length_bytes };

	gather_add(gather, role, offset_bytes, &iov, 1);
}

void
gather_submit(struct gather *gather)
{
	for (int role = 0; role < gather->engine->geometry.members; role++)
		submit_one(gather, role);
}
