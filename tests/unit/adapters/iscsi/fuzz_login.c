/* Feeds whole logins what targets may and may not send.
 *
 * Input: a byte of options (which secrets, a discovery), then steps.  A step is an answer whose
 * header and keys are what the login expects just now, or a value near it, or anything; or raw
 * bytes.  Checked: with a secret nothing is complete before we answered a challenge, with one of
 * the target's nothing before its right proof was there; a login ends after few answers; the reason of
 * a failure is a line without a byte of the target's.
 */
#include "../../fuzz.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapters/base/big_endian.h"
#include "adapters/iscsi/login.h"

#define INPUT_BYTES 256u
#define ANSWERS_MAX 33

static const char *const texts[] = {
	"AuthMethod=CHAP",
	"AuthMethod=None",
	"AuthMethod=",
	"CHAP_A=5",
	"CHAP_A=7",
	"CHAP_A=9",
	"CHAP_I=5",
	"CHAP_I=0xff",
	"CHAP_I=256",
	"CHAP_C=0x00112233445566778899aabbccddeeff",
	"CHAP_C=0bAAAA",
	"CHAP_C=0x0",
	"CHAP_N=target",
	"CHAP_N=gateway",
	"CHAP_R=0x00000000000000000000000000000000",
	"TargetPortalGroupTag=1",
	"MaxRecvDataSegmentLength=65536",
	"FirstBurstLength=0",
	"HeaderDigest=CRC32C",
	"TargetAddress=10.0.0.1:3260,1",
	"TargetAddress=[::1],1",
	"TargetAddress=\x1b[2J:99999999999",
	"=",
	"X",
};
#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static struct {
	struct iscsi_login login;
	struct iscsi_credentials credentials;
	int own, peer;
	const uint8_t *input, *end;
	bool proof_sent; /* the right one, when it was asked for */
	bool answered;	 /* we did, a challenge */
	uint8_t pdu[48 + LOGIN_TEXT_MAX + 4];
	uint32_t text_bytes;
} fuzz;

static uint8_t
next(void)
{
	return fuzz.input < fuzz.end ? *fuzz.input++ : 0;
}

static void
put_text(const char *text)
{
	size_t length = strlen(text) + 1;

	if (fuzz.text_bytes + length > LOGIN_TEXT_MAX)
		return;
	memcpy(fuzz.pdu + 48 + fuzz.text_bytes, text, length);
	fuzz.text_bytes += (uint32_t)length;
}

static void
put_proof(void)
{
	uint8_t answer[CHAP_ANSWER_BYTES_MAX];
	char hex[3 + 2 * CHAP_ANSWER_BYTES_MAX], text[80];
	size_t length =
		chap_answer(fuzz.login.algorithm, "secret of the target", &fuzz.login.ours, answer);

	chap_binary_encode(answer, length, hex);
	snprintf(text, sizeof(text), "CHAP_R=%s", hex);
	put_text("CHAP_N=target");
	put_text(text);
	fuzz.proof_sent = fuzz.proof_sent || (fuzz.login.step == LOGIN_PROVE && length > 0);
}

/* What a good target would say. */
static void
put_expected(void)
{
	switch (fuzz.login.step) {
	case LOGIN_ASK_METHOD:
		put_text("AuthMethod=CHAP");
		break;
	case LOGIN_ASK_CHALLENGE:
		put_text("CHAP_A=8");
		put_text("CHAP_I=77");
		put_text("CHAP_C=0x00112233445566778899aabbccddeeff");
		break;
	case LOGIN_PROVE:
		if (next() % 4 == 0)
			put_proof();
		break;
	case LOGIN_LEAVE_SECURITY:
	case LOGIN_NEGOTIATE:
		break;
	}
}

static void
put_header(void)
{
	bool negotiating = fuzz.login.step == LOGIN_NEGOTIATE;
	bool leaving = negotiating || fuzz.login.step == LOGIN_PROVE ||
		       fuzz.login.step == LOGIN_LEAVE_SECURITY;
	uint8_t how = next();

	memset(fuzz.pdu, 0, 48);
	fuzz.pdu[0] = ISCSI_LOGIN_RESPONSE;
	fuzz.pdu[1] = (uint8_t)(negotiating << 2);
	if (leaving)
		fuzz.pdu[1] |= (uint8_t)(0x80 | (negotiating ? 3 : 1));
	put_be24(fuzz.pdu + 5, fuzz.text_bytes);
	put_be32(fuzz.pdu + 16, 1);
	if (how < 32)
		fuzz.pdu[1] = next();
	else if (how < 40)
		put_be16(fuzz.pdu + 36, (uint16_t)(next() % 4 << 8 | next() % 8));
	else if (how < 48)
		fuzz.pdu[next() % 48] = next();
}

static void
step(void)
{
	uint8_t kind = next();
	uint32_t length;

	fuzz.text_bytes = 0;
	if (kind < 8) {
		length = next();
		for (uint32_t i = 0; i < length; i++)
			fuzz.pdu[i] = next();
		send(fuzz.peer, fuzz.pdu, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	if (kind < 64)
		for (int count = next() % 4; count > 0; count--)
			put_text(texts[next() % TEXTS]);
	if (kind % 8 != 0)
		put_expected();
	put_header();
	length = 48 + fuzz.text_bytes + iscsi_padding_bytes(fuzz.text_bytes);
	send(fuzz.peer, fuzz.pdu, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
drain(void)
{
	uint8_t bytes[4096];
	ssize_t got;

	while ((got = recv(fuzz.peer, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		fuzz.answered = fuzz.answered || memmem(bytes, (size_t)got, "CHAP_R=0x", 9) != NULL;
}

static void
check_end(int error)
{
	const struct iscsi_login *login = &fuzz.login;

	if (error == 0 && login->outcome == LOGIN_COMPLETE) {
		bool discovery = fuzz.credentials.initiator[0] == 'd';

		fuzz_require(fuzz.credentials.user[0] == '\0' || discovery || fuzz.answered,
			     "complete without CHAP");
		fuzz_require(fuzz.credentials.target_user[0] == '\0' || fuzz.proof_sent ||
				     (discovery && !fuzz.answered),
			     "complete without a proof");
	}
	if (error == 0 && login->outcome == LOGIN_FAILED) {
		fuzz_require(login->failure != LOGIN_NO_FAILURE && login->text[0] != '\0',
			     "failed without a reason");
		for (const char *c = login->text; *c != '\0'; c++)
			fuzz_require(isprint((unsigned char)*c), "a reason that is no text");
	}
	if (error == 0 && login->outcome == LOGIN_REDIRECTED)
		for (const char *c = login->redirected; *c != '\0'; c++)
			fuzz_require(isalnum((unsigned char)*c) || strchr(".:[]%-_", *c) != NULL,
				     "a portal that is none");
	fuzz_require(login->answers <= ANSWERS_MAX, "a login without end");
}

static void
start(uint8_t options)
{
	struct iscsi_login_request request = { .credentials = &fuzz.credentials };
	int sockets[2];

	fuzz_require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no sockets");
	fuzz.own = sockets[0];
	fuzz.peer = sockets[1];
	fuzz.proof_sent = fuzz.answered = false;
	memset(&fuzz.credentials, 0, sizeof(fuzz.credentials));
	strcpy(fuzz.credentials.initiator, options & 4 ? "discovery" : "normal");
	if (options & 3) {
		strcpy(fuzz.credentials.user, "gateway");
		strcpy(fuzz.credentials.secret, "secret of the gateway");
	}
	if (options & 2) {
		strcpy(fuzz.credentials.target_user, "target");
		strcpy(fuzz.credentials.target_secret, "secret of the target");
	}
	request.iqn = options & 4 ? NULL : "iqn.2026-01.org.example:t";
	iscsi_login_start(&fuzz.login, &request);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int error = 0;

	fuzz.input = data;
	fuzz.end = data + size;
	start(next());
	error = iscsi_login_service(&fuzz.login, fuzz.own, POLLOUT);
	while (error == 0 && fuzz.login.outcome == LOGIN_UNDER_WAY && fuzz.input < fuzz.end) {
		step();
		error = iscsi_login_service(&fuzz.login, fuzz.own, POLLIN | POLLOUT);
		drain();
		fuzz_steps++;
	}
	check_end(error);
	close(fuzz.own);
	close(fuzz.peer);
	return 0;
}

size_t
fuzz_make(uint8_t *input)
{
	for (size_t i = 0; i < INPUT_BYTES; i += 8) {
		uint64_t random = fuzz_random();

		memcpy(input + i, &random, sizeof(random));
	}
	return INPUT_BYTES;
}
