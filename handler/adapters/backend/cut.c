/* backend/cut.c - an io cut into pieces that are one SCSI command each: whole blocks, no longer
 * than the device takes.  The iovec is neither changed nor copied; a command has its place in it.
 */
#include "internal.h"

#define UNASKED_BYTES_MIN 65536 /* commands of less are too many */

bool
cut_possible(const struct iscsi_member *member, const struct backend_io *io)
{
	uint64_t capacity = member->identity.capacity_bytes;
	uint32_t block = member->identity.block_bytes;
	uint64_t described = 0;

	if (io->op == BACKEND_FLUSH || io->op == BACKEND_MEASURE)
		return true;
	if (io->length_bytes == 0 || io->offset_bytes % block != 0 ||
	    io->length_bytes % block != 0 || io->offset_bytes > capacity ||
	    io->length_bytes > capacity - io->offset_bytes)
		return false;
	if (io->op == BACKEND_ZERO)
		return true;
	for (int i = 0; i < io->iov_count; i++)
		described += io->iov[i].iov_len;
	return described >= io->length_bytes;
}

/* Data that waits for an R2T costs a round trip more, and each burst of it one again, where several
 * commands would have theirs at the same time.  So a write is no longer than what the target takes
 * unasked, and where that is little, than one burst.
 */
uint32_t
cut_write_bytes_max(const struct iscsi_negotiated *agreed, uint32_t block_bytes)
{
	uint32_t unasked =
		agreed->initial_r2t ? iscsi_immediate_bytes(agreed) : agreed->first_burst_bytes;
	uint32_t most = unasked >= UNASKED_BYTES_MIN ? unasked : agreed->max_burst_bytes;

	return most < block_bytes ? block_bytes : most - most % block_bytes;
}

uint32_t
cut_length(const struct iscsi_member *member, const struct transfer *transfer)
{
	uint32_t left = transfer->io->length_bytes - transfer->issued_bytes;
	uint32_t most = member->identity.transfer_bytes_max;

	if (transfer->io->op == BACKEND_ZERO && zero_by_write_same(member, transfer->io))
		most = member->same_bytes_max;
	else if (transfer->io->op != BACKEND_READ && member->write_bytes_max < most)
		most = member->write_bytes_max;
	return left < most ? left : most - most % member->identity.block_bytes;
}

void
cut_advance(struct transfer *transfer, uint32_t length)
{
	struct iscsi_place *place = &transfer->place;

	transfer->issued_bytes += length;
	if (transfer->io->op == BACKEND_ZERO)
		return; /* each command has all its zeros from the same place */
	while (length > 0) {
		size_t available = place->iov->iov_len - place->offset;

		if (length <= available) {
			place->offset += length;
			return;
		}
		length -= (uint32_t)available;
		place->iov++;
		place->offset = 0;
	}
}
