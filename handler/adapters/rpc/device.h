/* rpc/device.h - what create, add-spare, replace, remove and delete have in common: a device is
 * looked at before anything is written to it, through a blocking session.
 */
#ifndef IRAID_RPC_DEVICE_H
#define IRAID_RPC_DEVICE_H

#include "adapters/device/member_format.h"
#include "rpc.h"

/* Fill address, label and a new member UUID. */
bool rpc_device_parse(const char *text, struct member_work *device, struct fault *fault);

/* Log in: it is a disk that takes writes, of a size and block size that can be; its superblock is
 * read.  left_by: the volume that it may be reserved for still, by a session that could not give it
 * back; NULL: none.
 */
bool rpc_device_open(struct member_work *device, const uint8_t *left_by,
		     const struct iscsi_credentials *credentials, struct fault *fault);
void rpc_device_close(struct member_work *device);

/* No volume of this gateway has it, and it is not one of the gateway's spares: refused even by
 * force.  own: a volume whose former members are free to be used again (its devices are not), or
 * NULL.
 */
bool rpc_device_free(const struct member_work *device, const struct volume_config *own,
		     struct fault *fault);

/* It was a device of this volume (its superblock or mark says so) and is none any more: what the
 * volume left reserved on it is taken away.  Of other devices nothing is touched.
 */
void rpc_device_reclaim(struct member_work *device, const uint8_t volume_uuid[16]);

/* Both copies, by this session; or, where a volume that runs here has reserved the LUN, by that's.
 * Then *found gets the size that the LUN has now in the same way, should it not tell this session.
 */
bool rpc_device_superblock(struct volume_host *host, const struct device_address *address,
			   struct admin_session *session, struct scsi_device *found,
			   struct superblock_copies *out, struct fault *fault);

/* The UUID in its superblock or mark, as read; NULL: it has neither. */
const uint8_t *rpc_device_uuid(const struct member_work *device);

/* Nothing known stands on it.  Not asked with force. */
bool rpc_device_unused(const struct member_work *device, struct fault *fault);

/* Take this volume's superblock or mark (all zeros: the mark of a shared spare) from it; what
 * belongs to others stays.  member_uuid: FAULT_IN_USE, and nothing is touched, if another device of
 * that volume answers; NULL: any is meant.
 */
bool rpc_device_wipe(struct member_work *device, const uint8_t volume_uuid[16],
		     const uint8_t *member_uuid, const struct iscsi_credentials *credentials,
		     struct fault *fault);

/* The two halves of it: log in and read what stands there; wipe it.  left_by: as for
 * rpc_device_open().  The session is the caller's to close.
 */
bool rpc_device_reach(struct member_work *device, const uint8_t *left_by,
		      const struct iscsi_credentials *credentials, struct fault *fault);
bool rpc_device_wipe_reached(struct member_work *device, const uint8_t volume_uuid[16],
			     const uint8_t *member_uuid, struct fault *fault);

/* How the volume logs in to its devices. */
bool rpc_volume_credentials(const struct volume_config *config, struct iscsi_credentials *out,
			    struct fault *fault);

#endif
