/* config/preempted.h - whose session a target may still be closing, by member, on record in the state
 * folder: what that had sent may land for as long, also if the gateway that preempted it ends
 * (backend/follow.c).
 */
#ifndef IRAID_PREEMPTED_H
#define IRAID_PREEMPTED_H

#include <stdint.h>

#include "adapters/iscsi/address.h"
#include "adapters/iscsi/scsi.h"

/* key 0: there is nobody any more.  0 or -errno.  Waits for the disk. */
int preempted_record(const uint8_t uuid[16], const struct member_address *member,
		     const struct scsi_preempted *preempted);
/* 0, also with key 0: nobody; or -errno: what is on record can't be read. */
int preempted_recall(const uint8_t uuid[16], const struct member_address *member,
		     struct scsi_preempted *out);
int preempted_forget(const uint8_t uuid[16]); /* of all members */

#endif
