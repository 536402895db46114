/* backend_iscsi_cut.c - an io cut into pieces that are one SCSI command each.
 *
 * Entries of an iovec are not changed.  A command that starts at an entry's first byte uses the
 * io's own array; one that starts inside an entry needs a copy of the entries it covers.
 */
#include "backend_iscsi_private.h"

#include <stdlib.h>
#include <string.h>

bool
cut_possible(const struct iscsi_member *member, const struct backend_io *io)
{
	uint64_t capacity = member->identity.capacity_bytes;
	uint32_t block = member->identity.block_bytes;
	uint64_t described = 0;

	if (io->op == BACKEND_FLUSH)
		return true;
	if (io->length_bytes == 0 || io->offset_bytes % block != 0 || io->length_bytes % block != 0 ||
	    io->offset_bytes > capacity || io->length_bytes > capacity - io->offset_bytes)
		return false;
	for (int i = 0; i < io->iov_count; i++)
		described += io->iov[i].iov_len;
	return described >= io->length_bytes;
}

/* As much of the io from where it stands as fits one command: whole blocks, within the iovec limit.
 * Returns the bytes, *entries the iovec entries they touch; 0 if not even a block fits.
 */
uint32_t
cut_length(const struct iscsi_member *member, const struct transfer *transfer, int *entries)
{
	const struct backend_io *io = transfer->io;
	uint32_t limit = io->op == BACKEND_WRITE ? member->write_bytes_max :
			 member->identity.transfer_bytes_max;
	uint32_t wanted = io->length_bytes - transfer->issued_bytes;
	uint32_t block = member->identity.block_bytes;
	uint32_t length = 0;
	size_t skip = transfer->iov_offset;

	if (wanted > limit)
		wanted = limit;
	*entries = 0;
	for (int i = transfer->iov_index;
	     length < wanted && i < io->iov_count && *entries < COMMAND_IOV_MAX; i++) {
		size_t available = io->iov[i].iov_len - skip;

		length += available < wanted - length ? (uint32_t)available : wanted - length;
		(*entries)++;
		skip = 0;
	}
	return length - length % block;
}

void
cut_advance(struct transfer *transfer, uint32_t length)
{
	const struct backend_io *io = transfer->io;

	transfer->issued_bytes += length;
	while (length > 0) {
		size_t available = io->iov[transfer->iov_index].iov_len - transfer->iov_offset;

		if (length < available) {
			transfer->iov_offset += length;
			return;
		}
		length -= (uint32_t)available;
		transfer->iov_index++;
		transfer->iov_offset = 0;
	}
}

bool
cut_pieces(struct command *command, const struct iovec *from, int entries, size_t skip)
{
	if (command->pieces_max < entries) {
		struct iovec *pieces = realloc(command->pieces, (size_t)entries * sizeof(*pieces));

		if (pieces == NULL)
			return false;
		command->pieces = pieces;
		command->pieces_max = entries;
	}
	memcpy(command->pieces, from, (size_t)entries * sizeof(*from));
	command->pieces[0].iov_base = (uint8_t *)command->pieces[0].iov_base + skip;
	command->pieces[0].iov_len -= skip;
	command->iov = command->pieces;
	return true;
}
