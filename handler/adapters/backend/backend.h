/* backend/backend.h - a member over iSCSI, behind ports/backend.h.  How it speaks to
 * targets: docs/design/iscsi.md.
 */
#ifndef IRAID_BACKEND_ISCSI_H
#define IRAID_BACKEND_ISCSI_H

#include "ports/backend.h"
#include "adapters/base/reactor.h"
#include "adapters/iscsi/address.h"
#include "adapters/iscsi/scsi.h"

struct backend_iscsi_options {
	struct member_address address; /* its portal is the first path, and names the member */
	/* the other paths: same target and LUN */
	char more_portals[DEVICE_PORTALS_MAX - 1][PORTAL_MAX];
	int more_portals_count;
	struct iscsi_credentials credentials;
	/* fixed per volume, member and session: random-format ISID bytes */
	uint8_t isid_qualifier[6];
	uint32_t deadline_ms; /* no progress for this long: the session is dropped */
	uint32_t connect_ms;  /* whole login, fence and reservation */
	/* of this gateway for this volume; 0: take no reservation */
	uint64_t reservation_key;
	/* Preempt another gateway's reservation: a permission of the start.  It ends that long
	 * after the creation, with the first reservation taken, with the first session opened, and
	 * by backend_iscsi_end_take_over().
	 */
	uint32_t take_over_ms; /* 0: none */
	/* Whose commands may still be under way in the target, as it was told last; and who is told
	 * when that changes, before the key is preempted.  It may wait for a disk.
	 */
	struct scsi_preempted preempted;
	void (*note_preempted)(void *owner, const struct member_address *member,
			       const struct scsi_preempted *preempted);
	void *owner;
	struct iscsi_digests digests;
};

struct backend *
backend_iscsi_create(struct reactor *reactor, const struct backend_iscsi_options *options);
/* Take over deadlines, further portals, credentials and digests of *options, and nothing else
 * of it.  The session that is there stays: deadlines hold at once, the others from the next login
 * on; the former credentials for the time in former.h.  On the reactor's thread.
 */
void backend_iscsi_adjust(struct backend *backend, const struct backend_iscsi_options *options);
void backend_iscsi_end_take_over(struct backend *backend); /* the volume is up */
void backend_iscsi_destroy(struct backend *backend);	   /* closed, and its events delivered */

/* Deliver results posted since the last turn, check deadlines.  Called by the driver each turn
 * before engine_run().  Returns when it wants to be called again (monotonic ms).
 */
uint64_t backend_iscsi_tick(struct backend *backend, uint64_t now_ms);

/* Between engine_run() and the next wait: push what was submitted to the sockets in as few
 * system calls as can be.
 */
void backend_iscsi_send(struct backend *backend);

#endif
