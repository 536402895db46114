/* device/internal.h - what the files of device/ share.
 *
 *   session.c              a blocking session: connect, log in, run a command, within a time limit
 *   device.c               inspect, read, write
 *   discover.c             SendTargets, REPORT LUNS
 *   text.c                 text requests of a discovery, bounded
 *   signature.c            what libblkid finds on the LUN: its ends, copied
 *   look.c                 iraid-look, which looks at them
 *   reservation.c          what this gateway left reserved
 *   member_format.c        a member's metadata: written, read, wiped
 */
#ifndef IRAID_DEVICE_INTERNAL_H
#define IRAID_DEVICE_INTERNAL_H

#include "device.h"
#include "adapters/base/reactor.h"
#include "adapters/base/resolver.h"
#include "adapters/iscsi/connection.h"
#include "adapters/iscsi/login.h"
#include "adapters/iscsi/scsi.h"

struct admin_session {
	struct iscsi_connection *connection; /* of a normal session that is logged in */
	int fd;				     /* the connection's, or still our own; -1: none */
	struct iscsi_task task;		     /* the one under way */
	struct member_address address;	     /* iqn empty: a discovery session */
	const struct iscsi_credentials *credentials; /* of the caller, while it logs in */
	struct admin_bounds bounds;
	struct resolved asked; /* addresses of the portal that was asked for */
	uint32_t limit_ms;     /* of the call under way */
	uint64_t deadline_ms;
	struct iscsi_login login;
	struct scsi_device device;
	uint32_t transfer_bytes_max, write_bytes_max;
	/* the command under way */
	bool done, broken;
	int status;
	struct scsi_request request;
};

/* Connected and logged in, nothing else.  iqn NULL: discovery.  *out is set when true only. */
bool admin_connect(const char *portal, const char *iqn, unsigned int lun,
		   const struct iscsi_credentials *credentials, const struct admin_bounds *bounds,
		   struct admin_session **out, struct fault *fault);
/* Of an address that the target tells: names that were not asked for are not looked up. */
enum nearness { ANOTHER_HOST, SAME_HOST, SAME_PORTAL };
enum nearness admin_nearness(const struct admin_session *session, const char *portal);
/* Start the time limit of a public call on a session. */
void admin_start_clock(struct admin_session *session);
/* Run session->request.  Unit attentions are repeated, and NOT READY and BUSY until the time is
 * over.  True: the target answered, *verdict says what; else the session is of no use any more. */
bool admin_run(struct admin_session *session, unsigned int lun, const char *name,
	       enum scsi_verdict *verdict, struct fault *fault);
/* The same for a task of the caller's, with iovecs set. */
bool admin_run_task(struct admin_session *session, struct scsi_task *task, unsigned int lun,
		    const char *name, enum scsi_verdict *verdict, struct fault *fault);
/* Frees the session with whatever it is made of. */
void admin_free(struct admin_session *session);
/* Waits until session->done. */
bool admin_wait(struct admin_session *session, const char *name, struct fault *fault);
/* Of a discovery session.  -errno: it is of no use any more.  *text is malloc'ed, and has a zero
 * behind its length.
 */
int
admin_text_ask(struct admin_session *session, const char *question, char **text, size_t *length);
void admin_text_logout(struct admin_session *session);
/* Again, on a session that is open. */
bool admin_inspect(struct admin_session *session, struct scsi_device *device, struct fault *fault);
/* reservation.c: registered with this key, beside whoever holds the LUN; and no more. */
bool admin_join(struct admin_session *session, uint64_t key, struct fault *fault);
void admin_part(struct admin_session *session, uint64_t key);
/* What became of the session: error as of a socket. */
bool
admin_ended(const struct admin_session *session, int error, const char *name, struct fault *fault);
/* "127.0.0.1:3260/iqn.../0", without LUN for discovery */
const char *admin_label(const struct admin_session *session, char out[MEMBER_ADDRESS_MAX]);

#endif
