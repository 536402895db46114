/* backend/zero.c - how a member comes to hold zeros.
 *
 *	WRITE SAME(16) with UNMAP	the space may be given back, and the member says that it reads as zeros then
 *	   | refused			(LBPME and LBPRZ of READ CAPACITY(16), LBPWS of VPD B2)
 *	   v
 *	WRITE SAME(16)			one block of zeros goes over the network
 *	   | refused
 *	   v
 *	WRITE				all of them do
 *
 * WRITE SAME and not UNMAP, for UNMAP may leave out what it likes, while WRITE SAME writes zeros
 * where it can't unmap (SBC-3 5.45).  The block of zeros is sent although NDOB would spare it: few
 * targets know that.  What was refused once is not tried again while the gateway runs.  Nothing is
 * known of it before: a device that doesn't report it supports WRITE SAME may do so.
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <assert.h>

#define ZEROS_BYTES 65536u
#define SAME_BYTES_MAX (16u << 20)
/* what other initiators send, too, where no limit is told */
#define SAME_BLOCKS_UNTOLD 0xffffu

static const uint8_t zeros[ZEROS_BYTES];

void
zero_note_limits(struct iscsi_member *member)
{
	const struct scsi_device *device = &member->inspection.device;
	uint64_t blocks =
		device->same_blocks_max != 0 ? device->same_blocks_max : SAME_BLOCKS_UNTOLD;
	const uint32_t block = device->block_bytes;

	if (blocks > SAME_BYTES_MAX / block)
		blocks = SAME_BYTES_MAX / block;
	member->same_bytes_max = (uint32_t)blocks * block;
}

static bool
knows_write_same(const struct iscsi_member *member)
{
	return !member->same_refused && !member->inspection.device.ten_byte_commands;
}

uint32_t
zero_bytes_max(const struct iscsi_member *member)
{
	return knows_write_same(member) ? member->same_bytes_max : 0;
}

bool
zero_by_write_same(const struct iscsi_member *member, const struct backend_io *io)
{
	return io->op == BACKEND_ZERO && knows_write_same(member);
}

bool
zero_unmaps(const struct iscsi_member *member, const struct backend_io *io)
{
	return zero_by_write_same(member, io) && io->deallocate &&
	       member->inspection.device.unmaps && !member->unmap_refused;
}

#define FOUR(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
/* clang-format off */
#define ENTRY { (void *)zeros, ZEROS_BYTES }
/* clang-format on */

struct iscsi_place
zero_place(void)
{
	static const struct iovec entries[] = { FOUR(FOUR(FOUR(ENTRY))) };

	static_assert(sizeof(entries) / sizeof(entries[0]) * ZEROS_BYTES >= COMMAND_BYTES_MAX,
		      "for any command");
	return (struct iscsi_place){ .iov = entries };
}

void
zero_refused(struct iscsi_member *member, const struct command *command)
{
	bool *refused = command->unmaps ? &member->unmap_refused : &member->same_refused;

	if (!*refused)
		log_line(LOG_INFO, "member %s refuses WRITE SAME%s of %u bytes: %s", member->label,
			 command->unmaps ? " with UNMAP" : "", command->length_bytes,
			 command->unmaps ? "zeros are written instead, and no space is released"
					 : "zeros are sent to it with ordinary writes");
	*refused = true;
}
