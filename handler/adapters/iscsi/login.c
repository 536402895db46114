/* iscsi/login.c - connecting, and the login of RFC 7143 (section 6): one question, one answer.
 *
 *     ASK_METHOD -> ASK_CHALLENGE -> PROVE -> NEGOTIATE -> complete
 *     AuthMethod    CHAP_A           CHAP_N,   the other
 *                                    CHAP_R    keys
 *     `------- with a user and secret -----'
 *
 * Why not libiscsi's.  Whoever answers at the portal chooses what it believes: a target that moves
 * on to the next stage is never asked for the proof of mutual CHAP; 16 zero bytes are a proof if
 * they come before the challenge; its challenges are of rand(), seeded with 32 bits; and the
 * secret is offered, not required ("AuthMethod=CHAP,None").  It also tells neither what was
 * negotiated nor at which numbers the full-feature phase starts.
 *
 * Invariants.  With a secret the security stage comes first, and only PROVE leaves it (and
 * LEAVE_SECURITY, of a discovery).  With a secret of the target's no PDU follows PROVE before the
 * proof was right.  A target leads into a stage only when it was asked to, and only into that one.
 * Memory is this struct's.  Answers are counted; how long they may take is the caller's to say.
 *
 * "None" is offered beside CHAP so that a target without accounts says so, instead of refusing for
 * a reason that nobody can tell from a wrong user.  Only a discovery goes on then: most portals
 * want no CHAP of one, and it opens no LUN.
 *
 * The last answer's ExpCmdSN is what the target expects of our first command, MaxCmdSN its window,
 * and its StatSN the last one used (11.13.4).
 */
#include "login.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapters/base/big_endian.h"

#define LOGIN_REQUEST 0x43 /* immediate */
#define FLAG_TRANSIT 0x80
#define SECURITY_STAGE 0
#define OPERATIONAL_STAGE 1
#define FULL_FEATURE_PHASE 3
#define TAG 1
#define CMD_SN 1
#define ANSWERS_MAX 32
#define KEEP_ALIVE_SECONDS 30
#define KEEP_ALIVE_PROBES 3

/* Connecting */

static void
set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEP_ALIVE_SECONDS },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEP_ALIVE_SECONDS },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEP_ALIVE_PROBES },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

/* "127.0.0.1:3260", "[fe80::1%eth0]:3260", as the resolver makes them. */
static struct addrinfo *
address_of(const char *portal)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	const char *colon = strrchr(portal, ':');
	struct addrinfo *address = NULL;
	char host[PORTAL_MAX];
	size_t length;

	if (colon == NULL)
		return NULL;
	length = (size_t)(colon - portal);
	if (length > 1 && portal[0] == '[' && portal[length - 1] == ']') {
		portal++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return NULL;
	memcpy(host, portal, length);
	host[length] = '\0';
	return getaddrinfo(host, colon + 1, &hints, &address) == 0 ? address : NULL;
}

int
iscsi_connect_start(const char *portal)
{
	struct addrinfo *address = address_of(portal);
	int fd, error = 0;

	if (address == NULL)
		return -EADDRNOTAVAIL;
	fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		error = errno;
	else
		set_options(fd);
	if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) != 0 &&
	    errno != EINPROGRESS) {
		error = errno;
		close(fd);
	}
	freeaddrinfo(address);
	return error == 0 ? fd : -error;
}

int
iscsi_connect_result(int fd)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		error = errno;
	return -error;
}

/* What we say */

static void __attribute__((format(printf, 2, 3)))
say(struct iscsi_login *login, const char *format, ...)
{
	char *text = (char *)login->out + ISCSI_HEADER_BYTES + login->out_bytes;
	size_t room = LOGIN_REQUEST_MAX - 4 - login->out_bytes;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, room, format, arguments);
	va_end(arguments);
	assert(length >= 0 && (size_t)length < room); /* names and secrets have their bounds */
	login->out_bytes += (uint32_t)length + 1;     /* the zero byte ends the key */
}

static bool
has_secret(const struct iscsi_login *login)
{
	return login->request.credentials->user[0] != '\0';
}

static bool
wants_proof(const struct iscsi_login *login)
{
	return login->request.credentials->target_user[0] != '\0';
}

static void
say_names(struct iscsi_login *login)
{
	say(login, "InitiatorName=%s", login->request.credentials->initiator);
	if (login->request.iqn != NULL)
		say(login, "TargetName=%s", login->request.iqn);
	say(login, "SessionType=%s", login->request.iqn != NULL ? "Normal" : "Discovery");
}

static const char *
offered(enum iscsi_digest digest)
{
	switch (digest) {
	case ISCSI_DIGEST_NONE:
		break;
	case ISCSI_DIGEST_PREFERRED:
		return "CRC32C,None";
	case ISCSI_DIGEST_REQUIRED:
		return "CRC32C";
	}
	return "None";
}

static void
say_operational(struct iscsi_login *login)
{
	say(login, "HeaderDigest=%s", offered(login->request.digests.header));
	say(login, "DataDigest=%s", offered(login->request.digests.data));
	say(login, "InitialR2T=No");
	say(login, "ImmediateData=Yes");
	say(login, "MaxBurstLength=262144");
	say(login, "FirstBurstLength=262144");
	say(login, "DefaultTime2Wait=2");
	say(login, "DefaultTime2Retain=0");
	say(login, "MaxOutstandingR2T=1");
	say(login, "ErrorRecoveryLevel=0");
	say(login, "MaxConnections=1");
	say(login, "MaxRecvDataSegmentLength=262144");
	say(login, "DataPDUInOrder=Yes");
	say(login, "DataSequenceInOrder=Yes");
}

/* Do we ask to go on to the next stage?  Also with the first question: a target that wants no CHAP
 * may tell it by going on (LIO), and else waits for one that it can't do.
 */
static bool
asks_to_go_on(const struct iscsi_login *login)
{
	return login->step != LOGIN_ASK_CHALLENGE;
}

/* The text is there: put the header before it. */
static void
send_request(struct iscsi_login *login)
{
	bool negotiating = login->step == LOGIN_NEGOTIATE;
	uint8_t *header = login->out;
	uint32_t text_bytes = login->out_bytes;
	const uint8_t *isid = login->request.isid;

	memset(header, 0, ISCSI_HEADER_BYTES);
	header[0] = LOGIN_REQUEST;
	header[1] = (uint8_t)((negotiating ? OPERATIONAL_STAGE : SECURITY_STAGE) << 2);
	if (asks_to_go_on(login))
		header[1] |= FLAG_TRANSIT | (negotiating ? FULL_FEATURE_PHASE : OPERATIONAL_STAGE);
	put_be24(header + 5, text_bytes);
	header[8] = ISCSI_ISID_RANDOM;
	memcpy(header + 9, isid + 1, 5);
	put_be32(header + 16, TAG);
	put_be32(header + 24, CMD_SN);
	put_be32(header + 28, login->answers > 0 ? login->stat_sn + 1 : 0);
	memset(header + ISCSI_HEADER_BYTES + text_bytes, 0, iscsi_padding_bytes(text_bytes));
	login->out_bytes = ISCSI_HEADER_BYTES + text_bytes + iscsi_padding_bytes(text_bytes);
	login->sent_bytes = 0;
}

static void
ask(struct iscsi_login *login, enum login_step step)
{
	login->step = step;
	login->out_bytes = 0;
	switch (step) {
	case LOGIN_ASK_METHOD:
		say_names(login);
		say(login, "AuthMethod=CHAP,None");
		break;
	case LOGIN_ASK_CHALLENGE:
		say(login, "CHAP_A=" CHAP_ALGORITHMS);
		break;
	case LOGIN_PROVE: /* its text is prove()'s */
	case LOGIN_LEAVE_SECURITY:
		break;
	case LOGIN_NEGOTIATE:
		if (!has_secret(login))
			say_names(login);
		say_operational(login);
		break;
	}
	send_request(login);
}

/* The target has more to say, or is not ready for the next stage yet. */
static void
ask_on(struct iscsi_login *login, bool more)
{
	login->out_bytes = 0;
	send_request(login);
	if (more) /* RFC 7143, 6.2: no transit while a text is not complete */
		login->out[1] = (uint8_t)(login->out[1] & (3 << 2));
}

void
iscsi_login_start(struct iscsi_login *login, const struct iscsi_login_request *request)
{
	*login = (struct iscsi_login){ .request = *request };
	iscsi_negotiated_defaults(&login->negotiated);
	ask(login, has_secret(login) ? LOGIN_ASK_METHOD : LOGIN_NEGOTIATE);
}

int
iscsi_login_events(const struct iscsi_login *login)
{
	return login->sent_bytes < login->out_bytes ? POLLIN | POLLOUT : POLLIN;
}

/* What the target says */

static int __attribute__((format(printf, 3, 4)))
fail(struct iscsi_login *login, enum login_failure failure, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(login->text, sizeof(login->text), format, arguments);
	va_end(arguments);
	login->failure = failure;
	login->outcome = LOGIN_FAILED;
	return 0;
}

/* What follows "key=", or NULL. */
static const char *
value_of(const struct iscsi_login *login, const char *key)
{
	const char *text = login->keys, *end = login->keys + login->keys_bytes;
	size_t length = strlen(key);

	while (text < end) {
		const char *zero = memchr(text, '\0', (size_t)(end - text));

		if (zero == NULL)
			return NULL;
		if (strncmp(text, key, length) == 0 && text[length] == '=')
			return text + length + 1;
		text = zero + 1;
	}
	return NULL;
}

static int
take_refusal(struct iscsi_login *login, uint16_t status)
{
	switch (status) {
	case 0x0201:
		return fail(login, LOGIN_AUTHENTICATION,
			    "login refused: authentication failed (CHAP)");
	case 0x0202:
		return fail(login, LOGIN_AUTHORIZATION,
			    "login refused: the target does not admit this initiator");
	case 0x0203:
	case 0x0204:
		return fail(login, LOGIN_NO_TARGET, "login refused: the portal has no such target");
	default:
		break;
	}
	if (status >> 8 == 3)
		return fail(login, LOGIN_TARGET_TROUBLE,
			    "login refused: the target reports an error of its own (status %04x)",
			    status);
	return fail(login, LOGIN_REFUSED, "login refused (status %04x)", status);
}

static int
take_redirection(struct iscsi_login *login)
{
	const char *address = value_of(login, "TargetAddress");

	/* behind a comma: the portal group's tag */
	if (address == NULL || portal_parse(address, strcspn(address, ","), login->redirected,
					    sizeof(login->redirected)) != NULL)
		return -EPROTO;
	login->outcome = LOGIN_REDIRECTED;
	return 0;
}

static int
take_method(struct iscsi_login *login, const struct iscsi_header *header)
{
	const char *method = value_of(login, "AuthMethod");
	bool none = header->transit || (method != NULL && strcmp(method, "None") == 0);

	if (none && login->request.iqn == NULL) { /* of what it lists each is asked again */
		ask(login, header->transit ? LOGIN_NEGOTIATE : LOGIN_LEAVE_SECURITY);
		return 0;
	}
	if (none || method == NULL || strcmp(method, "CHAP") != 0)
		return fail(login, LOGIN_CHAP_DECLINED,
			    "the target asks for no CHAP, although a user and secret are "
			    "configured for it");
	ask(login, LOGIN_ASK_CHALLENGE);
	return 0;
}

/* The target's challenge: answer it, and challenge the target if it is to prove itself. */
static int
prove(struct iscsi_login *login)
{
	const struct iscsi_credentials *credentials = login->request.credentials;
	uint8_t answer[CHAP_ANSWER_BYTES_MAX];
	char text[3 + 2 * CHAP_ANSWER_BYTES_MAX];
	size_t length;

	static_assert(CHAP_OFFERED_BYTES <= CHAP_ANSWER_BYTES_MAX, "text has room for both");
	length = chap_answer(login->algorithm, credentials->secret, &login->theirs, answer);
	if (length == 0)
		return fail(login, LOGIN_AUTHENTICATION,
			    "this machine does not compute the digest that the target wants "
			    "(CHAP_A=%d)",
			    login->algorithm);
	login->step = LOGIN_PROVE;
	login->out_bytes = 0;
	say(login, "CHAP_N=%s", credentials->user);
	chap_binary_encode(answer, length, text);
	say(login, "CHAP_R=%s", text);
	if (wants_proof(login)) {
		if (!chap_challenge_make(&login->ours))
			return fail(login, LOGIN_NOT_PROVEN,
				    "this machine has no random numbers for a challenge");
		chap_binary_encode(login->ours.bytes, login->ours.length, text);
		say(login, "CHAP_I=%u", login->ours.number);
		say(login, "CHAP_C=%s", text);
	}
	send_request(login);
	return 0;
}

static int
take_challenge(struct iscsi_login *login)
{
	const char *algorithm = value_of(login, "CHAP_A");
	const char *number = value_of(login, "CHAP_I"), *bytes = value_of(login, "CHAP_C");

	login->algorithm = algorithm != NULL ? chap_algorithm_parse(algorithm) : CHAP_NONE;
	if (login->algorithm == CHAP_NONE)
		return fail(login, LOGIN_AUTHENTICATION,
			    "the target offers none of CHAP's digests that are known here "
			    "(SHA3-256, SHA-256, SHA-1, MD5)");
	if (number == NULL || bytes == NULL || !chap_challenge_parse(number, bytes, &login->theirs))
		return -EPROTO;
	return prove(login);
}

static int
leave_security(struct iscsi_login *login, const struct iscsi_header *header)
{
	if (header->transit)
		ask(login, LOGIN_NEGOTIATE);
	else
		ask_on(login, false);
	return 0;
}

/* A target that sends our own challenge, or what it heard somebody else say, has no proof: each
 * challenge is new, and a secret is never that of both directions (iscsi_credentials_read).
 */
static int
take_proof(struct iscsi_login *login, const struct iscsi_header *header)
{
	const struct iscsi_credentials *credentials = login->request.credentials;
	const char *name = value_of(login, "CHAP_N"), *answer = value_of(login, "CHAP_R");

	if (wants_proof(login) && !login->negotiated.target_proven) {
		if (name == NULL || answer == NULL)
			return fail(login, LOGIN_NOT_PROVEN,
				    "the target did not prove who it is: it knows no mutual CHAP");
		if (strcmp(name, credentials->target_user) != 0)
			return fail(login, LOGIN_NOT_PROVEN,
				    "the target did not prove who it is: it names another user "
				    "than the CHAP file");
		if (!chap_proves(login->algorithm, credentials->target_secret, &login->ours,
				 answer))
			return fail(login, LOGIN_NOT_PROVEN,
				    "the target did not prove who it is: it has another secret "
				    "than the CHAP file");
		login->negotiated.target_proven = true;
	}
	login->negotiated.chap = true;
	return leave_security(login, header);
}

/* Both sides must take the same bytes for digests, so what the target says has to be one of the
 * offered.
 */
static bool
digest_fits(struct iscsi_login *login, const char *key, const char *setting,
	    enum iscsi_digest wanted, bool agreed)
{
	if (agreed && wanted == ISCSI_DIGEST_NONE)
		fail(login, LOGIN_DIGEST,
		     "the target insists on %s=CRC32C, which was not offered: set %s = preferred",
		     key, setting);
	else if (!agreed && wanted == ISCSI_DIGEST_REQUIRED)
		fail(login, LOGIN_DIGEST,
		     "%s is required, but the target has no %s=CRC32C: enable it there, or set %s "
		     "= preferred",
		     setting, key, setting);
	return login->outcome != LOGIN_FAILED;
}

static bool
digests_fit(struct iscsi_login *login)
{
	const struct iscsi_digests *wanted = &login->request.digests;
	const struct iscsi_negotiated *agreed = &login->negotiated;

	if (agreed->odd_digest)
		fail(login, LOGIN_DIGEST,
		     "the target answers HeaderDigest or DataDigest with a digest that was not "
		     "offered: set CRC32C or None on the target");
	return login->outcome != LOGIN_FAILED &&
	       digest_fits(login, "HeaderDigest", "header_digest", wanted->header,
			   agreed->header_digest) &&
	       digest_fits(login, "DataDigest", "data_digest", wanted->data, agreed->data_digest);
}

static int
take_keys(struct iscsi_login *login, const struct iscsi_header *header)
{
	iscsi_login_keys(login->keys, login->keys_bytes, &login->negotiated);
	if (header->transit && !digests_fit(login))
		return 0;
	if (header->transit)
		login->outcome = LOGIN_COMPLETE;
	else
		ask_on(login, false);
	return 0;
}

/* In the stage where we are, and on to the next only as we asked to. */
static bool
stage_is_right(const struct iscsi_login *login, const struct iscsi_header *header)
{
	bool negotiating = login->step == LOGIN_NEGOTIATE;

	if (header->stage != (negotiating ? OPERATIONAL_STAGE : SECURITY_STAGE))
		return false;
	if (!header->transit)
		return true;
	return asks_to_go_on(login) &&
	       header->next_stage == (negotiating ? FULL_FEATURE_PHASE : OPERATIONAL_STAGE);
}

static int
take_text(struct iscsi_login *login, const struct iscsi_header *header)
{
	struct iscsi_negotiated heard = { 0 };

	if (header->login_status >> 8 == 1)
		return take_redirection(login);
	if (header->login_status != 0)
		return take_refusal(login, header->login_status);
	if (!stage_is_right(login, header))
		return -EPROTO;
	iscsi_login_keys(login->keys, login->keys_bytes, &heard);
	if (heard.portal_group != 0) /* it comes in whatever stage is the first */
		login->negotiated.portal_group = heard.portal_group;
	switch (login->step) {
	case LOGIN_ASK_METHOD:
		return take_method(login, header);
	case LOGIN_ASK_CHALLENGE:
		return take_challenge(login);
	case LOGIN_PROVE:
		return take_proof(login, header);
	case LOGIN_LEAVE_SECURITY:
		return leave_security(login, header);
	case LOGIN_NEGOTIATE:
		return take_keys(login, header);
	}
	return -EPROTO;
}

static int
take_answer(struct iscsi_login *login, const struct iscsi_header *header)
{
	int error = 0;

	if (login->sent_bytes < login->out_bytes || header->tag != TAG ||
	    ++login->answers > ANSWERS_MAX ||
	    header->data_bytes > sizeof(login->keys) - login->keys_bytes ||
	    (header->more && header->transit))
		return -EPROTO;
	memcpy(login->keys + login->keys_bytes, login->in + ISCSI_HEADER_BYTES, header->data_bytes);
	login->keys_bytes += header->data_bytes;
	login->stat_sn = header->stat_sn;
	login->exp_cmd_sn = header->exp_cmd_sn;
	login->max_cmd_sn = header->max_cmd_sn;
	if (header->more && header->login_status == 0) {
		ask_on(login, true);
		return 0;
	}
	error = take_text(login, header);
	login->keys_bytes = 0;
	return error;
}

/* The socket */

static int
send_rest(struct iscsi_login *login, int fd)
{
	while (login->sent_bytes < login->out_bytes) {
		ssize_t sent =
			send(fd, login->out + login->sent_bytes,
			     login->out_bytes - login->sent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		login->sent_bytes += (uint32_t)sent;
	}
	return 0;
}

/* 1: `bytes` of the answer are there, not one more was taken.  0: not yet.  Or -errno. */
static int
receive_up_to(struct iscsi_login *login, int fd, uint32_t bytes)
{
	while (login->in_bytes < bytes) {
		ssize_t got = recv(fd, login->in + login->in_bytes, bytes - login->in_bytes,
				   MSG_DONTWAIT);

		if (got == 0)
			return -ECONNRESET;
		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		login->in_bytes += (uint32_t)got;
	}
	return 1;
}

static int
receive(struct iscsi_login *login, int fd)
{
	struct iscsi_header header;
	const char *fault;
	int there = receive_up_to(login, fd, ISCSI_HEADER_BYTES);

	if (there <= 0)
		return there;
	if (!iscsi_header_decode(login->in, &header, &fault) ||
	    header.opcode != ISCSI_LOGIN_RESPONSE || header.data_bytes > LOGIN_TEXT_MAX ||
	    header.ahs_bytes != 0)
		return -EPROTO;
	there = receive_up_to(login, fd,
			      ISCSI_HEADER_BYTES + header.data_bytes +
				      iscsi_padding_bytes(header.data_bytes));
	if (there <= 0)
		return there;
	login->in_bytes = 0;
	return take_answer(login, &header);
}

int
iscsi_login_service(struct iscsi_login *login, int fd, int events)
{
	int error = send_rest(login, fd);

	if (error == 0 && (events & POLLIN) != 0)
		error = receive(login, fd);
	if (error == 0 && login->outcome == LOGIN_UNDER_WAY)
		return send_rest(login, fd);
	explicit_bzero(&login->ours, sizeof(login->ours));
	explicit_bzero(&login->theirs, sizeof(login->theirs));
	explicit_bzero(login->out, sizeof(login->out));
	login->request.credentials = NULL;
	return error;
}
