/* iscsi/login.h - making libiscsi contexts as we want them, what a login brought, and why one
 * failed.  Shared by backend/ and device/.
 */
#ifndef IRAID_ISCSI_LOGIN_H
#define IRAID_ISCSI_LOGIN_H

#include <iscsi/iscsi.h>
#include "address.h"

/* of all keys of one stage; RFC 7143 lets a login PDU have no more */
#define LOGIN_TEXT_MAX 8192

/* What was agreed at login. */
struct iscsi_negotiated {
	uint32_t first_burst_bytes, max_burst_bytes, target_segment_bytes;
	bool initial_r2t, immediate_data;
	bool header_digest, data_digest; /* CRC32C, else none */
	uint32_t portal_group;		 /* TargetPortalGroupTag; 0: the target did not say */
};

/* A login under way: what the target's answers said. */
struct iscsi_login {
	struct iscsi_negotiated negotiated;
	bool complete; /* the full-feature phase was reached, and these are valid: */
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn; /* of the last answer */
	bool lost_track;			  /* it will not become complete */
	int wanted_bytes;			  /* SO_RCVLOWAT of the socket */
	uint32_t text_bytes;
	char text[LOGIN_TEXT_MAX]; /* keys of answers that are to be continued */
};

/* A context that never reconnects by itself, never times out by itself, and offers InitialR2T=No,
 * ImmediateData=Yes.  header_digest: CRC32C is offered first, else none at all.  iqn NULL: a
 * discovery session.  NULL: out of memory or no initiator name.
 */
struct iscsi_context *
iscsi_login_context(const char *iqn, const struct iscsi_credentials *credentials,
		    const uint8_t isid[6], bool header_digest);

/* iscsi_service() for the time of the login, which starts with iscsi_login_start(): answers are
 * looked at before libiscsi takes them from the socket.  What is no answer to a login never gets to
 * it: -EPROTO.
 */
void iscsi_login_start(struct iscsi_login *login);
int iscsi_login_service(struct iscsi_context *context, int events, struct iscsi_login *login);

/* When it is complete: the socket, which lives on when the context is destroyed.  Or -errno. */
int iscsi_login_take_socket(struct iscsi_context *context);

/* Pure: keys of a target's answer, each ended by a zero byte; what is not known or not a sound
 * value changes nothing.
 */
void iscsi_login_keys(const char *text, size_t length, struct iscsi_negotiated *negotiated);

/* How much of a write goes out with the command itself; 0 if the target takes none. */
uint32_t iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated);

enum login_failure {
	LOGIN_NETWORK,	      /* it broke off */
	LOGIN_AUTHENTICATION, /* 0201: CHAP */
	LOGIN_AUTHORIZATION,  /* 0202: the target's access list */
	LOGIN_NO_TARGET,      /* 0203, 0204 */
	LOGIN_REFUSED,	      /* 02xx: anything else of ours it does not like */
	LOGIN_TARGET_TROUBLE, /* 03xx: it can't just now */
};
/* error: iscsi_get_error() in the login callback.  text gets one line without a secret. */
enum login_failure iscsi_login_judge(const char *error, char *text, size_t text_size);

/* libiscsi's last words as one line: no newline, no secret. */
void iscsi_login_error(struct iscsi_context *context, char *out, size_t out_size);

#endif
