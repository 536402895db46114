/* device/device.h - blocking iSCSI for commands of an administrator: discover, inspect, and raw I/O
 * for formatting and examining.  Every call is bounded by its timeout; false: with the fault.  Never
 * used on a reactor's thread.
 */
#ifndef IRAID_ISCSI_ADMIN_H
#define IRAID_ISCSI_ADMIN_H

#include <stddef.h>
#include <stdint.h>
#include "adapters/base/fault.h"
#include "adapters/iscsi/inspect.h"
#include "adapters/iscsi/login.h"

struct admin_session;

struct admin_bounds {
	uint32_t timeout_ms; /* of each call */
	uint64_t end_ms;     /* of all calls on the session, as monotonic_ms(); 0: none */
	/* Where a login may be redirected to, beside what the credentials allow: */
	const struct device_address *named; /* a portal of this device; NULL: ... */
	bool one_host;			    /* ... the host that was asked, else any */
	/* 6 bytes, of a session that is to be followed: a target that knows initiators by it takes
	 * this one for the same.  NULL: a random one
	 */
	const uint8_t *isid;
};

/* Log in and inspect.  When true *out is a session to be closed. */
bool admin_open(const struct member_address *address, const struct iscsi_credentials *credentials,
		const struct admin_bounds *bounds, struct admin_session **out,
		struct scsi_device *device, struct fault *fault);
void admin_close(struct admin_session *session);
/* FAULT_IN_USE: by whom the LUN is reserved that a command was refused for.  Always false. */
bool admin_in_use(struct admin_session *session, struct fault *fault);
const struct iscsi_negotiated *admin_negotiated(const struct admin_session *session);
bool admin_read(struct admin_session *session, uint64_t offset_bytes, void *buffer, size_t length,
		struct fault *fault);
/* Write and make durable (FUA, or SYNCHRONIZE CACHE after it). */
bool admin_write(struct admin_session *session, uint64_t offset_bytes, const void *buffer,
		 size_t length, struct fault *fault);

/* Known signature on the LUN (libblkid: partition tables, file systems, RAID superblocks, ...);
 * empty text if none.  Our own superblock is looked at elsewhere.
 */
bool
admin_signature(struct admin_session *session, char *out, size_t out_size, struct fault *fault);

struct admin_target {
	char iqn[224];
	const char *fault; /* it is no name, and was changed or cut to be shown; NULL: it is one */
	char portals[8][PORTAL_MAX];
	int portal_count;
	int near; /* of portals[], on the host that was asked, best the one asked; -1: none is */
};
/* SendTargets.  *out is malloc'ed, *count entries. */
bool admin_discover(const char *portal, const struct iscsi_credentials *credentials,
		    const struct admin_bounds *bounds, struct admin_target **out, int *count,
		    struct fault *fault);
/* REPORT LUNS of one target; luns[0 .. *count), at most max. */
bool admin_luns(const struct member_address *target, const struct iscsi_credentials *credentials,
		const struct admin_bounds *bounds, unsigned int *luns, int max, int *count,
		struct fault *fault);

#endif
