/* iscsi/login.h - a connection to a portal and the login on it, what it brought, and why one
 * failed.  Shared by backend/ and device/.
 */
#ifndef IRAID_ISCSI_LOGIN_H
#define IRAID_ISCSI_LOGIN_H

#include "address.h"
#include "chap.h"
#include "pdu.h"

/* MaxRecvDataSegmentLength of a login (RFC 7143, 7.1); here also of all keys of one answer */
#define LOGIN_TEXT_MAX 8192
#define LOGIN_REQUEST_MAX 2048

/* What was agreed at login. */
struct iscsi_negotiated {
	uint32_t first_burst_bytes, max_burst_bytes, target_segment_bytes;
	bool initial_r2t, immediate_data;
	bool header_digest, data_digest; /* CRC32C, else none */
	bool odd_digest;		 /* the target answered another one, that nobody offers */
	uint32_t portal_group;		 /* TargetPortalGroupTag; 0: the target did not say */
	bool chap;			 /* we proved who we are, ... */
	bool target_proven;		 /* ... and so did the target */
};

/* The first byte of each ISID that a log-in of ours has: a random name (RFC 7143, 11.12.5). */
#define ISCSI_ISID_RANDOM 0x80

/* How to log in.  What it points to lives until the login is over. */
struct iscsi_login_request {
	const char *iqn; /* NULL: a discovery session */
	const struct iscsi_credentials *credentials;
	uint8_t isid[6]; /* the first byte is not used: the name is a random one */
	struct iscsi_digests digests;
};

enum login_failure {
	LOGIN_NO_FAILURE,
	LOGIN_AUTHENTICATION, /* 0201: CHAP */
	LOGIN_AUTHORIZATION,  /* 0202: the target's access list */
	LOGIN_NO_TARGET,      /* 0203, 0204 */
	LOGIN_REFUSED,	      /* 02xx: anything else of ours it does not like */
	LOGIN_TARGET_TROUBLE, /* 03xx: it can't just now */
	LOGIN_CHAP_DECLINED,  /* we have a secret, and the target does not ask for it */
	LOGIN_NOT_PROVEN,     /* mutual CHAP: it did not prove who it is */
	LOGIN_DIGEST,	      /* it has not the digest that is required, or one nobody offered */
};

enum login_outcome { LOGIN_UNDER_WAY, LOGIN_COMPLETE, LOGIN_REDIRECTED, LOGIN_FAILED };

/* What was asked last. */
enum login_step {
	LOGIN_ASK_METHOD,
	LOGIN_ASK_CHALLENGE,
	LOGIN_PROVE,
	LOGIN_LEAVE_SECURITY, /* without CHAP: a discovery */
	LOGIN_NEGOTIATE,
};

struct iscsi_login {
	enum login_outcome outcome;
	struct iscsi_negotiated negotiated;
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn; /* of the last answer */
	enum login_failure failure;		  /* LOGIN_FAILED */
	char text[160];				  /* why; one line, nothing of the target's */
	char redirected[PORTAL_MAX];		  /* LOGIN_REDIRECTED: to this portal */

	/* login.c's */
	struct iscsi_login_request request;
	enum login_step step;
	int answers;
	enum chap_algorithm algorithm;
	struct chap_challenge theirs, ours;
	uint32_t out_bytes, sent_bytes, in_bytes, keys_bytes;
	uint8_t out[ISCSI_HEADER_BYTES + LOGIN_REQUEST_MAX];
	uint8_t in[ISCSI_HEADER_BYTES + LOGIN_TEXT_MAX];
	char keys[LOGIN_TEXT_MAX]; /* of answers that are to be continued */
};

/* Begin to connect to a numeric portal.  The socket (non-blocking), or -errno.  When it is ready
 * for sending, iscsi_connect_result() tells: 0, or -errno.
 */
int iscsi_connect_start(const char *portal);
int iscsi_connect_result(int fd);

/* Then the login.  It wants iscsi_login_events() (of poll) and is served until it has an outcome;
 * the socket stays its owner's.  0, or -errno: -ECONNRESET the target closed the connection,
 * -EPROTO it sent what is no answer to a login.
 */
void iscsi_login_start(struct iscsi_login *login, const struct iscsi_login_request *request);
int iscsi_login_events(const struct iscsi_login *login);
int iscsi_login_service(struct iscsi_login *login, int fd, int events);

/* Pure: what silence of the target means; then keys of its answer, each ended by a zero byte.  What
 * is not known or not a sound value changes nothing.
 */
void iscsi_negotiated_defaults(struct iscsi_negotiated *out);
void iscsi_login_keys(const char *text, size_t length, struct iscsi_negotiated *negotiated);

/* How much of a write goes out with the command itself; 0 if the target takes none. */
uint32_t iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated);

#endif
