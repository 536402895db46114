/* gather.c - see gather.h. */
#include "gather.h"

#include <errno.h>

/* A command of its own, or NULL. */
static struct member_io *
begin_command(struct gather *gather, struct member *member, uint64_t offset_bytes)
{
	struct member_io *mio = member_io_try(member, gather->op, offset_bytes, IO_REQUEST);

	if (mio == NULL)
		return NULL;
	mio->since_ms = gather->since_ms;
	if (gather->built.next == NULL)
		list_init(&gather->built);
	list_append(&gather->built, &mio->node);
	gather->current[member->slot] = mio;
	return mio;
}

static bool
add_part(struct gather *gather, struct member *member, uint64_t offset_bytes,
	 const struct iovec *iov, int count, uint32_t length_bytes)
{
	uint64_t offset = gather->engine->data_offset_bytes + offset_bytes;
	struct member_io *mio = gather->current[member->slot];

	if (mio != NULL && mio->io.offset_bytes + mio->io.length_bytes == offset &&
	    mio->io.length_bytes + length_bytes <= OP_BYTES_MAX &&
	    member_io_append(mio, iov, count, length_bytes))
		return true;
	mio = begin_command(gather, member, offset);
	return mio != NULL && member_io_append(mio, iov, count, length_bytes);
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
		if (!add_part(gather, member, offset_bytes, iov + first, part, bytes))
			gather->failed = true;
		offset_bytes += bytes;
	}
}

void
gather_add_buffer(struct gather *gather, struct member *member, uint64_t offset_bytes, void *buffer,
		  uint32_t length_bytes)
{
	struct iovec iov = { buffer, length_bytes };

	gather_add(gather, member, offset_bytes, &iov, 1);
}

void
gather_add_zeros(struct gather *gather, struct member *member, uint64_t offset_bytes,
		 uint32_t length_bytes)
{
	uint64_t offset = gather->engine->data_offset_bytes + offset_bytes;
	struct member_io *mio = gather->current[member->slot];

	if (mio == NULL || mio->io.offset_bytes + mio->io.length_bytes != offset) {
		mio = begin_command(gather, member, offset);
		if (mio == NULL) {
			gather->failed = true;
			return;
		}
		mio->io.deallocate = gather->deallocate;
	}
	mio->io.length_bytes += length_bytes;
}

int
gather_submit(struct gather *gather)
{
	const int error = gather->failed ? -ENOMEM : 0;
	struct list *node;

	while (gather->built.next != NULL && (node = list_take(&gather->built)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		gather->current[mio->member->slot] = NULL;
		if (error != 0) {
			member_io_free(mio);
			continue;
		}
		++*gather->pending;
		member_io_submit(mio, gather->done, gather->owner);
	}
	gather->failed = false;
	return error;
}
