/* iscsi_login.h - making libiscsi contexts as we want them, and understanding a login that failed.
 * Shared by backend_iscsi and iscsi_admin.
 */
#ifndef IRAID_ISCSI_LOGIN_H
#define IRAID_ISCSI_LOGIN_H

#include <iscsi/iscsi.h>
#include "backend_iscsi.h"

/* What the target answered at login. */
struct iscsi_negotiated {
	uint32_t first_burst_bytes, max_burst_bytes, target_segment_bytes;
	bool initial_r2t, immediate_data;
};

/* A context that never reconnects by itself, never times out by itself, and offers InitialR2T=No,
 * ImmediateData=Yes.  iqn NULL: a discovery session.  NULL: out of memory or no initiator name.
 */
struct iscsi_context *iscsi_login_context(const char *iqn, const struct iscsi_credentials *credentials,
					  const uint8_t isid[6]);

/* iscsi_service() for the time of the login: what the target answers is kept in *negotiated,
 * which starts as iscsi_negotiated_defaults().
 */
int iscsi_login_service(struct iscsi_context *context, int events, struct iscsi_negotiated *negotiated);
struct iscsi_negotiated iscsi_negotiated_defaults(void);

/* How much of a write goes out with the command itself, so that neither an R2T nor a Data-Out
 * follows; 0 if the target takes none.  (docs/design/libiscsi.md, "pings")
 */
uint32_t iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated);

enum login_failure {
	LOGIN_NETWORK,		/* it broke off */
	LOGIN_AUTHENTICATION,	/* 0201: CHAP */
	LOGIN_AUTHORIZATION,	/* 0202: the target's access list */
	LOGIN_NO_TARGET,	/* 0203, 0204 */
	LOGIN_REFUSED,		/* 02xx: anything else of ours it does not like */
	LOGIN_TARGET_TROUBLE,	/* 03xx: it can't just now */
};
/* error: iscsi_get_error() in the login callback.  text gets one line without a secret. */
enum login_failure iscsi_login_judge(const char *error, char *text, size_t text_size);

/* libiscsi's last words as one line: no newline, no secret. */
void iscsi_login_error(struct iscsi_context *context, char *out, size_t out_size);

#endif
