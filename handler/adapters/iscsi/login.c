/* iscsi/login.c - the login, which is libiscsi's work, and what it brought.
 *
 * libiscsi has no way to ask what was negotiated, nor at which numbers the full-feature phase
 * starts.  Both stand in the target's answers.  So each answer is looked at (MSG_PEEK) before
 * libiscsi reads it, and libiscsi may read only when the answer is there as a whole: SO_RCVLOWAT
 * keeps the socket silent until then.  That is sound because a login is strictly one question, one
 * answer: the target sends nothing more before it is asked again, and after the last answer
 * libiscsi is not asked again.
 *
 * The last answer's ExpCmdSN is what the target expects of our first command, MaxCmdSN its window,
 * and its StatSN the last one used (RFC 7143, 11.13.4).  libiscsi's own numbers would not do: it
 * keeps the StatSN of the first answer only.
 */
#include "login.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pdu.h"

#define OFFERED_BURST_BYTES 262144	/* by libiscsi; it has no setter */
#define DEFAULT_SEGMENT_BYTES 8192	/* RFC 7143, 13.12 */
#define DEFAULT_FIRST_BURST_BYTES 65536 /* 13.14 */
#define BURST_BYTES_MIN 512		/* 13.13, 13.14 */
#define LENGTH_BYTES_MAX 0xffffff
#define PORTAL_GROUP_MAX 0xffff /* 13.9 */
#define FULL_FEATURE_PHASE 3

/* The lower of the two sides' limits counts. */
static bool
key_number(const char *text, const char *key, uint32_t least, uint32_t most, uint32_t *out)
{
	size_t length = strlen(key);
	unsigned long value;
	char *end;

	if (strncmp(text, key, length) != 0)
		return false;
	value = strtoul(text + length, &end, 0);
	if (end != text + length && *end == '\0' && value >= least && value <= LENGTH_BYTES_MAX)
		*out = value < most ? (uint32_t)value : most;
	return true;
}

/* *out becomes `meaning` where the value is `word`, else its opposite. */
static bool
key_flag(const char *text, const char *key, const char *word, bool meaning, bool *out)
{
	size_t length = strlen(key);

	if (strncmp(text, key, length) != 0)
		return false;
	*out = (strcmp(text + length, word) == 0) == meaning;
	return true;
}

void
iscsi_login_keys(const char *text, size_t length, struct iscsi_negotiated *negotiated)
{
	struct iscsi_negotiated *out = negotiated;

	while (length > 0) {
		const char *end = memchr(text, '\0', length);

		if (end == NULL)
			return;
		(void)(key_number(text, "FirstBurstLength=", BURST_BYTES_MIN, OFFERED_BURST_BYTES,
				  &out->first_burst_bytes) ||
		       key_number(text, "MaxBurstLength=", BURST_BYTES_MIN, OFFERED_BURST_BYTES,
				  &out->max_burst_bytes) ||
		       key_number(text, "MaxRecvDataSegmentLength=", BURST_BYTES_MIN,
				  LENGTH_BYTES_MAX, &out->target_segment_bytes) ||
		       key_number(text, "TargetPortalGroupTag=", 0, PORTAL_GROUP_MAX,
				  &out->portal_group) ||
		       key_flag(text, "InitialR2T=", "No", false, &out->initial_r2t) ||
		       key_flag(text, "ImmediateData=", "Yes", true, &out->immediate_data) ||
		       key_flag(text, "HeaderDigest=", "CRC32C", true, &out->header_digest) ||
		       key_flag(text, "DataDigest=", "CRC32C", true, &out->data_digest));
		length -= (size_t)(end + 1 - text);
		text = end + 1;
	}
}

void
iscsi_login_start(struct iscsi_login *login)
{
	/* What silence of the target means: the protocol's defaults (RFC 7143, 13). */
	*login = (struct iscsi_login){
		.negotiated = {
			.first_burst_bytes = DEFAULT_FIRST_BURST_BYTES,
			.max_burst_bytes = OFFERED_BURST_BYTES,
			.target_segment_bytes = DEFAULT_SEGMENT_BYTES,
			.initial_r2t = true,
			.immediate_data = true,
		},
		.wanted_bytes = 1,
	};
}

uint32_t
iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated)
{
	if (!negotiated->immediate_data)
		return 0;
	return negotiated->first_burst_bytes < negotiated->target_segment_bytes
		       ? negotiated->first_burst_bytes
		       : negotiated->target_segment_bytes;
}

static void
want_bytes(int fd, struct iscsi_login *login, int bytes)
{
	if (bytes == login->wanted_bytes)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
	login->wanted_bytes = bytes;
}

static void
take_login_answer(struct iscsi_login *login, const struct iscsi_header *header, const char *text)
{
	if (header->data_bytes > LOGIN_TEXT_MAX - login->text_bytes) {
		login->lost_track = true;
		return;
	}
	memcpy(login->text + login->text_bytes, text, header->data_bytes);
	login->text_bytes += header->data_bytes;
	if (!header->more) {
		iscsi_login_keys(login->text, login->text_bytes, &login->negotiated);
		login->text_bytes = 0;
	}
	login->stat_sn = header->stat_sn;
	login->exp_cmd_sn = header->exp_cmd_sn;
	login->max_cmd_sn = header->max_cmd_sn;
	login->complete = header->transit && header->next_stage == FULL_FEATURE_PHASE &&
			  header->login_status == 0 && !login->lost_track;
}

/* Look at the answer in the socket.  False: it is not there as a whole yet. */
static bool
look_at_answer(int fd, struct iscsi_login *login)
{
	uint8_t bytes[ISCSI_HEADER_BYTES + LOGIN_TEXT_MAX];
	ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	struct iscsi_header header;
	const char *fault;
	int wanted = ISCSI_HEADER_BYTES;

	if (got <= 0)
		return got >= 0 || errno != EAGAIN; /* its end or error is libiscsi's to find */
	if (got >= ISCSI_HEADER_BYTES) {
		if (!iscsi_header_decode(bytes, &header, &fault) ||
		    header.opcode != ISCSI_LOGIN_RESPONSE || header.data_bytes > LOGIN_TEXT_MAX ||
		    header.ahs_bytes != 0) {
			login->lost_track = true;
			return false;
		}
		wanted += (int)(header.data_bytes + iscsi_padding_bytes(header.data_bytes));
		if (got >= wanted) {
			take_login_answer(login, &header, (const char *)bytes + ISCSI_HEADER_BYTES);
			want_bytes(fd, login, 1);
			return true;
		}
	}
	if (login->wanted_bytes == wanted) { /* woken all the same: more will not come */
		login->lost_track = true;
		return false;
	}
	want_bytes(fd, login, wanted);
	return false;
}

int
iscsi_login_service(struct iscsi_context *context, int events, struct iscsi_login *login)
{
	if ((events & POLLIN) != 0 && !look_at_answer(iscsi_get_fd(context), login))
		events &= ~POLLIN;
	if (login->lost_track)
		return -EPROTO;
	return events == 0 ? 0 : iscsi_service(context, events);
}

int
iscsi_login_take_socket(struct iscsi_context *context)
{
	int fd = fcntl(iscsi_get_fd(context), F_DUPFD_CLOEXEC, 0);

	return fd >= 0 ? fd : -errno; /* libiscsi closes its own descriptor of it */
}

static void
set_isid(struct iscsi_context *context, const uint8_t isid[6])
{
	uint32_t random = (uint32_t)isid[1] << 16 | (uint32_t)isid[2] << 8 | isid[3];

	iscsi_set_isid_random(context, random, (uint32_t)isid[4] << 8 | isid[5]);
}

struct iscsi_context *
iscsi_login_context(const char *iqn, const struct iscsi_credentials *credentials,
		    const uint8_t isid[6], bool header_digest)
{
	struct iscsi_context *context = iscsi_create_context(credentials->initiator);

	if (context == NULL)
		return NULL;
	iscsi_set_log_level(context, 0);
	iscsi_set_noautoreconnect(context, 1);
	iscsi_set_timeout(context, 0);
	set_isid(context, isid);
	iscsi_set_header_digest(context, header_digest ? ISCSI_HEADER_DIGEST_CRC32C_NONE
						       : ISCSI_HEADER_DIGEST_NONE);
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
		snprintf(text, text_size,
			 "login refused: the target does not admit this initiator");
		return LOGIN_AUTHORIZATION;
	case 0x0203:
	case 0x0204:
		snprintf(text, text_size, "login refused: the portal has no such target");
		return LOGIN_NO_TARGET;
	default:
		break;
	}
	if (status >> 8 == 3) {
		snprintf(text, text_size,
			 "login refused: the target reports an error of its own (status %04x)",
			 status);
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
