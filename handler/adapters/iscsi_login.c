/* iscsi_login.c - what both users of libiscsi have in common about sessions.
 *
 * libiscsi 1.19 has no way to ask what was negotiated, but says each key of the login's answers
 * to its log function at level 6.  Its log function gets no context and its log buffers are
 * static, so logging is on only during the login's calls, and those take turns: `log_lock`.
 */
#include "iscsi_login.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_LEVEL_LOGIN_KEYS 6
#define LOGIN_KEY_PREFIX "TargetLoginReply: "
#define OFFERED_BURST_BYTES 262144	/* what libiscsi offers; it has no setter */
#define DEFAULT_SEGMENT_BYTES 8192	/* RFC 7143, 13.12 */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iscsi_negotiated *log_destination;	/* under log_lock */

static bool
key_number(const char *text, const char *key, uint32_t *out)
{
	size_t length = strlen(key);

	if (strncmp(text, key, length) != 0)
		return false;
	*out = (uint32_t)strtoul(text + length, NULL, 10);
	return true;
}

static bool
key_yes(const char *text, const char *key, bool *out)
{
	size_t length = strlen(key);

	if (strncmp(text, key, length) != 0)
		return false;
	*out = strncmp(text + length, "Yes", 3) == 0;
	return true;
}

static void
on_log(int level, const char *message)
{
	struct iscsi_negotiated *negotiated = log_destination;
	const char *text = message + strlen(LOGIN_KEY_PREFIX);

	if (level != LOG_LEVEL_LOGIN_KEYS || negotiated == NULL ||
	    strncmp(message, LOGIN_KEY_PREFIX, strlen(LOGIN_KEY_PREFIX)) != 0)
		return;
	(void)(key_number(text, "FirstBurstLength=", &negotiated->first_burst_bytes) ||
	       key_number(text, "MaxBurstLength=", &negotiated->max_burst_bytes) ||
	       key_number(text, "MaxRecvDataSegmentLength=", &negotiated->target_segment_bytes) ||
	       key_yes(text, "InitialR2T=", &negotiated->initial_r2t) ||
	       key_yes(text, "ImmediateData=", &negotiated->immediate_data));
}

struct iscsi_negotiated
iscsi_negotiated_defaults(void)
{
	/* libiscsi's own start values, which it goes on with where the target names no other. */
	return (struct iscsi_negotiated){
		.first_burst_bytes = OFFERED_BURST_BYTES,
		.max_burst_bytes = OFFERED_BURST_BYTES,
		.target_segment_bytes = DEFAULT_SEGMENT_BYTES,
		.initial_r2t = true,
		.immediate_data = true,
	};
}

uint32_t
iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated)
{
	if (!negotiated->immediate_data)
		return 0;
	return negotiated->first_burst_bytes < negotiated->target_segment_bytes ?
	       negotiated->first_burst_bytes : negotiated->target_segment_bytes;
}

int
iscsi_login_service(struct iscsi_context *context, int events, struct iscsi_negotiated *negotiated)
{
	int result;

	pthread_mutex_lock(&log_lock);
	log_destination = negotiated;
	iscsi_set_log_level(context, LOG_LEVEL_LOGIN_KEYS);
	result = iscsi_service(context, events);
	iscsi_set_log_level(context, 0);
	log_destination = NULL;
	pthread_mutex_unlock(&log_lock);
	return result;
}

static void
set_isid(struct iscsi_context *context, const uint8_t isid[6])
{
	uint32_t random = (uint32_t)isid[1] << 16 | (uint32_t)isid[2] << 8 | isid[3];

	iscsi_set_isid_random(context, random, (uint32_t)isid[4] << 8 | isid[5]);
}

struct iscsi_context *
iscsi_login_context(const char *iqn, const struct iscsi_credentials *credentials, const uint8_t isid[6])
{
	struct iscsi_context *context = iscsi_create_context(credentials->initiator);

	if (context == NULL)
		return NULL;
	iscsi_set_log_level(context, 0);
	iscsi_set_log_fn(context, on_log);
	iscsi_set_noautoreconnect(context, 1);
	iscsi_set_timeout(context, 0);
	set_isid(context, isid);
	iscsi_set_initial_r2t(context, ISCSI_INITIAL_R2T_NO);
	iscsi_set_immediate_data(context, ISCSI_IMMEDIATE_DATA_YES);
	if (iqn == NULL) {
		iscsi_set_session_type(context, ISCSI_SESSION_DISCOVERY);
	} else {
		iscsi_set_session_type(context, ISCSI_SESSION_NORMAL);
		iscsi_set_targetname(context, iqn);
	}
	if (credentials->user[0] != '\0')
		iscsi_set_initiator_username_pwd(context, credentials->user, credentials->secret);
	return context;
}

/* "... Status: Authentication failure(513)": the number in the last brackets, or 0. */
static unsigned int
status_in(const char *error)
{
	const char *status = strstr(error, "Status: ");
	const char *bracket = status ? strrchr(status, '(') : NULL;

	return bracket ? (unsigned int)strtoul(bracket + 1, NULL, 10) : 0;
}

enum login_failure
iscsi_login_judge(const char *error, char *text, size_t text_size)
{
	unsigned int status = status_in(error);

	switch (status) {
	case 0x0201:
		snprintf(text, text_size, "login refused: authentication failed (CHAP)");
		return LOGIN_AUTHENTICATION;
	case 0x0202:
		snprintf(text, text_size, "login refused: the target does not admit this initiator");
		return LOGIN_AUTHORIZATION;
	case 0x0203:
	case 0x0204:
		snprintf(text, text_size, "login refused: the portal has no such target");
		return LOGIN_NO_TARGET;
	default:
		break;
	}
	if (status >> 8 == 3) {
		snprintf(text, text_size, "login refused: the target is in trouble (status %04x)", status);
		return LOGIN_TARGET_TROUBLE;
	}
	if (status != 0) {
		snprintf(text, text_size, "login refused (status %04x)", status);
		return LOGIN_REFUSED;
	}
	snprintf(text, text_size, "the connection ended during the login");
	return LOGIN_NETWORK;
}

void
iscsi_login_error(struct iscsi_context *context, char *out, size_t out_size)
{
	const char *error = iscsi_get_error(context);

	snprintf(out, out_size, "%s", error ? error : "");
	for (char *c = out; *c != '\0'; c++) {
		if (*c < ' ' || *c == 0x7f)
			*c = ' ';
	}
}
