/* device/device.h - blocking iSCSI for commands of an administrator: discover, inspect, and raw I/O for
 * formatting and examining.  Every call is bounded by timeout_ms.  Never used on a reactor's thread.
 */
#ifndef IRAID_ISCSI_ADMIN_H
#define IRAID_ISCSI_ADMIN_H

#include <stddef.h>
#include <stdint.h>
#include "adapters/iscsi/inspect.h"
#include "adapters/iscsi/login.h"

enum admin_error {	/* become the typed errors of docs/design/control.md */
	ADMIN_OK,
	ADMIN_INVALID,
	ADMIN_UNREACHABLE,
	ADMIN_LOGIN,
	ADMIN_UNFIT,
	ADMIN_IN_USE,
	ADMIN_IO,
	ADMIN_INTERNAL,
};

struct admin_result {
	enum admin_error error;
	char message[512];	/* names the thing and the value */
	char remedy[512];
};

struct admin_result admin_good(void);
struct admin_result admin_failed(enum admin_error error, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct admin_session;

/* Log in and inspect.  On ADMIN_OK *out is a session to be closed. */
struct admin_result admin_open(const struct member_address *address,
			       const struct iscsi_credentials *credentials, uint32_t timeout_ms,
			       struct admin_session **out, struct scsi_device *device);
void admin_close(struct admin_session *session);
const struct iscsi_negotiated *admin_negotiated(const struct admin_session *session);
struct admin_result admin_read(struct admin_session *session, uint64_t offset_bytes, void *buffer, size_t length);
/* Write and make durable (FUA, or SYNCHRONIZE CACHE after it). */
struct admin_result admin_write(struct admin_session *session, uint64_t offset_bytes, const void *buffer, size_t length);

/* Known signature on the LUN (libblkid: partition tables, file systems, RAID superblocks, ...);
 * empty text if none.  Our own superblock is looked at elsewhere.
 */
struct admin_result admin_signature(struct admin_session *session, char *out, size_t out_size);

struct admin_target {
	char iqn[224];
	char portals[8][280];
	int portal_count;
};
/* SendTargets.  *out is malloc'ed, *count entries. */
struct admin_result admin_discover(const char *portal, const struct iscsi_credentials *credentials,
				   uint32_t timeout_ms, struct admin_target **out, int *count);
/* REPORT LUNS of one target; luns[0 .. *count), at most max. */
struct admin_result admin_luns(const struct member_address *target, const struct iscsi_credentials *credentials,
			       uint32_t timeout_ms, unsigned int *luns, int max, int *count);

#endif
