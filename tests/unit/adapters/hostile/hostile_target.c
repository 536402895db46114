/* hostile_target.c - see hostile_target.h: the connection, questions and answers.  What it says of
 * its LUN is hostile_lun.c's.
 */
#include "hostile_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapters/base/big_endian.h"
#include "adapters/iscsi/pdu.h"
#include "hostile_lun.h"

#define SANE_BELOW 208 /* of 256: how many answers are not bent */
#define DATA_OUT_FINAL 0x80
#define BURST_BYTES 16384
#define DATA_IN_BYTES 8192

struct hostile_target hostile = { .fd = -1 };

bool
hostile_has_input(void)
{
	return hostile.input < hostile.end;
}

uint8_t
hostile_next(void)
{
	return hostile_has_input() ? *hostile.input++ : 0;
}

static uint32_t
next_32(void)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 8 | hostile_next();
	return value;
}

void
hostile_start(const uint8_t *input, size_t size)
{
	uint8_t options;

	hostile.input = input;
	hostile.end = input + size;
	hostile.now_ms = 1000000;
	options = hostile_next();
	hostile.initial_r2t = options & 1;
	hostile.immediate_data = !(options & 2);
	hostile.header_digest = options & 4;
	hostile.data_digest = options & 8;
	hostile.thin = options & 16;
	hostile.block_bytes = options & 32 ? 4096 : 512;
	hostile.blocks = 64u << 20 >> (options & 32 ? 12 : 9);
	hostile.holder_key = 0;
	hostile.connections = 0;
	hostile.bent = 0;
	hostile.garbled = false;
	hostile.flood_bytes = 0;
}

void
hostile_hang_up(void)
{
	if (hostile.fd >= 0)
		close(hostile.fd);
	hostile.fd = -1;
	hostile.in_bytes = hostile.out_start = hostile.out_end = 0;
	hostile.question_count = 0;
}

void
hostile_end(void)
{
	hostile_hang_up();
}

void
hostile_credentials(struct iscsi_credentials *out, bool secret)
{
	memset(out, 0, sizeof(*out));
	strcpy(out->initiator, "iqn.2026-01.org.example:gateway");
	if (secret) {
		strcpy(out->user, "gateway");
		strcpy(out->secret, "secret of the gateway");
	}
}

/* --- what it is asked --- */

static bool
text_has(const uint8_t *text, size_t length, const char *what)
{
	return memmem(text, length, what, strlen(what)) != NULL;
}

static void
note_question(const uint8_t *header, const uint8_t *data, uint32_t data_bytes)
{
	struct question *question = &hostile.questions[hostile.question_count];

	if (hostile.question_count == HOSTILE_QUESTIONS_MAX)
		return;
	hostile.question_count++;
	*question = (struct question){
		.data_bytes = data_bytes,
		.asks_method = text_has(data, data_bytes, "AuthMethod="),
		.asks_challenge = text_has(data, data_bytes, "CHAP_A="),
		.proves = text_has(data, data_bytes, "CHAP_R="),
		.asks_targets = text_has(data, data_bytes, "SendTargets="),
	};
	memcpy(question->header, header, 48);
	if (header[0] % 64 == ISCSI_SCSI_COMMAND)
		lun_sent(header, 0, data, data_bytes);
}

static void
note_data_out(const uint8_t *header, const uint8_t *data, uint32_t data_bytes)
{
	for (int i = 0; i < hostile.question_count; i++) {
		struct question *question = &hostile.questions[i];

		if (question->header[0] % 64 != ISCSI_SCSI_COMMAND ||
		    memcmp(question->header + 16, header + 16, 4) != 0)
			continue;
		lun_sent(question->header, question->data_bytes, data, data_bytes);
		question->data_bytes += data_bytes;
	}
}

/* One PDU; how long it is, 0 if it is not whole yet. */
static size_t
take_pdu(const uint8_t *bytes, size_t length)
{
	bool digests = hostile.full_feature;
	uint32_t data_bytes = length < 48 ? 0 : get_be24(bytes + 5);
	size_t start = 48 + (digests && hostile.header_digest ? 4u : 0u);
	size_t whole = start + (data_bytes + 3) / 4 * 4;

	if (digests && hostile.data_digest && data_bytes > 0)
		whole += 4;
	if (length < 48 || length < whole)
		return 0;
	if (bytes[0] % 64 == ISCSI_DATA_OUT)
		note_data_out(bytes, bytes + start, data_bytes);
	else
		note_question(bytes, bytes + start, data_bytes);
	return whole;
}

void
hostile_listen(void)
{
	size_t at = 0, taken;
	ssize_t got;

	if (hostile.fd < 0)
		return;
	while ((got = recv(hostile.fd, hostile.in + hostile.in_bytes,
			   sizeof(hostile.in) - hostile.in_bytes, MSG_DONTWAIT)) > 0) {
		hostile.in_bytes += (size_t)got;
		for (at = 0; (taken = take_pdu(hostile.in + at, hostile.in_bytes - at)) > 0;)
			at += taken;
		memmove(hostile.in, hostile.in + at, hostile.in_bytes - at);
		hostile.in_bytes -= at;
		if (hostile.in_bytes == sizeof(hostile.in)) /* a PDU that never ends */
			hostile.in_bytes = 0;
	}
}

/* --- what it says --- */

static void
say(const void *bytes, size_t length)
{
	if (length > sizeof(hostile.out) - hostile.out_end)
		length = sizeof(hostile.out) - hostile.out_end;
	memcpy(hostile.out + hostile.out_end, bytes, length);
	hostile.out_end += length;
}

static void
say_digest(bool on, const uint8_t *bytes, size_t length)
{
	uint8_t digest[4];

	if (!on)
		return;
	iscsi_digest_encode(iscsi_digest_add(ISCSI_DIGEST_START, bytes, length), digest);
	say(digest, 4);
}

/* Its length field is what it is; `length` bytes of data (room for the padding behind them) follow. */
static void
say_pdu(const uint8_t header[48], uint8_t *data, uint32_t length)
{
	static const uint8_t segments[1020];
	size_t ahs_bytes = header[4] * 4u;
	uint32_t padded = (length + 3) / 4 * 4;
	static const uint8_t flood[262144 + 1024];

	if (hostile.flood_bytes > padded) {
		say(header, 48);
		say(flood, hostile.flood_bytes);
		hostile.flood_bytes = 0;
		return;
	}
	memset(data + length, 0, padded - length);
	say(header, 48);
	say(segments, ahs_bytes);
	say_digest(hostile.full_feature && hostile.header_digest && ahs_bytes == 0, header, 48);
	say(data, padded);
	say_digest(hostile.full_feature && hostile.data_digest && length > 0, data, padded);
}

/* --- bending --- */

static void
bend_number(uint8_t header[48])
{
	static const uint8_t at[] = { 16, 20, 24, 28, 32, 36, 40, 44 };
	static const uint32_t limits[] = {
		0,     1,      3,      48,	 511,	     512,	 8192,	     65535,
		65536, 262144, 262145, 0xffffff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
	};
	uint8_t *number = header + at[hostile_next() % sizeof(at)];
	uint8_t how = hostile_next();

	if (how < 96)
		put_be32(number, get_be32(number) + (how & 1 ? 1u : ~0u));
	else if (how < 192)
		put_be32(number, limits[how % 16]);
	else
		put_be32(number, next_32());
}

static void
bend_data(uint8_t *data, uint32_t length)
{
	for (int edits = 1 + hostile_next() % 4; edits > 0 && length > 0; edits--) {
		uint32_t at = (hostile_next() << 8 | hostile_next()) % (length < 64 ? length : 64);
		uint8_t byte = hostile_next();

		data[at] = byte == HOSTILE_POISON ? 0 : byte;
	}
}

/* Shorter or longer than it should be; its header says so, or not; or more than was negotiated, all
 * of which is sent.
 */
static void
bend_length(uint8_t header[48], uint32_t *length)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 4, 7, 8, 17, 31, 64, 255, 511, 4096, 8191 };
	uint8_t how = hostile_next();

	if (how < 200) {
		*length = lengths[how % (sizeof(lengths) / sizeof(lengths[0]))];
		put_be24(header + 5, *length);
		return;
	}
	hostile.garbled = true;
	if (how < 240)
		put_be24(header + 5, *length + 1 + how % 4);
	else if (how < 248)
		put_be24(header + 5, next_32() & 0xffffff);
	else
		put_be24(header + 5, hostile.flood_bytes = 262144 + 4 * hostile_next());
}

static void
bend_status(uint8_t header[48], uint8_t *data, uint32_t *length)
{
	static const uint8_t statuses[] = { 0x02, 0x08, 0x18, 0x28, 0x40, 0x04, 0x30, 0x10 };
	static const uint8_t keys[] = { 0x6, 0x6, 0x5, 0x2, 0x3, 0x7, 0xb, 0x1 };
	static const uint16_t codes[] = {
		0x2900, 0x2a09, 0x2a01, 0x2400, 0x2000, 0x2500, 0x0401, 0x0800,
		0x1100, 0x2700, 0x2a03, 0x2907, 0x3a00, 0x0c02, 0x0b00, 0x5d00,
	};
	uint8_t how = hostile_next();

	if (header[0] == ISCSI_TASK_MANAGEMENT_RESPONSE || header[0] == ISCSI_LOGOUT_RESPONSE) {
		header[2] = how;
		return;
	}
	if (header[0] == ISCSI_LOGIN_RESPONSE) {
		put_be16(header + 36, (uint16_t)(how % 4 << 8 | how / 4 % 8));
		return;
	}
	header[0] = ISCSI_SCSI_RESPONSE;
	header[1] = 0x80;
	header[2] = how == 255; /* "target failure" */
	header[3] = statuses[how & 1 ? 0 : how / 2 % sizeof(statuses)];
	memset(header + 36, 0, 12);
	*length = 0;
	if (header[3] == 0x02) {
		uint8_t code = hostile_next();

		memset(data, 0, 20);
		data[1] = 18;
		data[2] = how & 2 ? 0x70 : how & 4 ? 0x71 : 0x72;
		data[data[2] == 0x72 ? 3 : 4] = keys[how / 8 % 8];
		data[data[2] == 0x72 ? 5 : 9] = 10;
		put_be16(data + (data[2] == 0x72 ? 4 : 14), codes[code % 16]);
		*length = 20;
	}
	put_be24(header + 5, *length);
}

static void
bend(uint8_t header[48], uint8_t *data, uint32_t *length)
{
	static const uint8_t opcodes[] = { 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31,
					   0x32, 0x3f, 0x00, 0x01, 0x3d, 0x27, 0x61, 0xff };
	uint8_t how = hostile_next(), at;

	hostile.bent++;
	switch (how % 8) {
	case 0:
		at = hostile_next() % 48;
		header[at] = hostile_next();
		hostile.garbled = hostile.garbled || (at >= 4 && at < 8);
		return;
	case 1:
		bend_number(header);
		return;
	case 2:
	case 3:
		bend_data(data, *length);
		return;
	case 4:
		bend_length(header, length);
		return;
	case 5:
	case 6:
		bend_status(header, data, length);
		return;
	default:
		if (how < 128)
			header[0] = opcodes[hostile_next() % 16];
		else if (how < 192) /* residuals */
			header[1] = (uint8_t)((header[1] & ~6) | (how & 16 ? 2 : 4));
		else
			header[4] = how < 224 ? 1 : hostile_next();
		if (how >= 128 && how < 192)
			put_be32(header + 44, hostile_next());
		return;
	}
}

/* honest: as it is. */
static void
say_answer(uint8_t header[48], uint8_t *data, uint32_t length, bool honest)
{
	uint8_t lies = honest ? 0 : hostile_next();

	put_be24(header + 5, length);
	if (lies >= SANE_BELOW)
		bend(header, data, &length);
	if (lies >= 252)
		bend(header, data, &length);
	say_pdu(header, data, length);
	if (lies == 250) /* twice */
		say_pdu(header, data, length);
	if (lies == 251) /* where there are digests, a wrong one */
		hostile.out[hostile.out_end - 1] ^= 1;
}

static void
start_answer(uint8_t header[48], uint8_t opcode, const struct question *question)
{
	memset(header, 0, 48);
	header[0] = opcode;
	header[1] = 0x80;
	if (question != NULL)
		memcpy(header + 16, question->header + 16, 4);
	put_be32(header + 24, ++hostile.stat_sn);
	put_be32(header + 28, 1);
	put_be32(header + 32, 64);
	if (question != NULL) {
		put_be32(header + 28, get_be32(question->header + 24) + 1);
		put_be32(header + 32, get_be32(question->header + 24) + 64);
	}
}

/* --- the answers --- */

static uint32_t
key(uint8_t *data, uint32_t at, const char *text)
{
	memcpy(data + at, text, strlen(text) + 1);
	return at + (uint32_t)strlen(text) + 1;
}

static uint32_t
operational_keys(uint8_t *data)
{
	uint32_t length = key(data, 0, "TargetPortalGroupTag=1");

	length = key(data, length,
		     hostile.header_digest ? "HeaderDigest=CRC32C" : "HeaderDigest=None");
	if (hostile.data_digest)
		length = key(data, length, "DataDigest=CRC32C");
	length = key(data, length, hostile.initial_r2t ? "InitialR2T=Yes" : "InitialR2T=No");
	length = key(data, length,
		     hostile.immediate_data ? "ImmediateData=Yes" : "ImmediateData=No");
	length = key(data, length, "FirstBurstLength=8192");
	length = key(data, length, "MaxBurstLength=16384");
	return key(data, length, "MaxRecvDataSegmentLength=4096");
}

static uint32_t
other_keys(uint8_t *data, uint32_t length)
{
	static const char *const texts[] = {
		"TargetAddress=10.0.0.2:3260,1",
		"TargetAddress=[::1],1",
		"TargetAddress=name:1",
		"AuthMethod=None",
		"CHAP_A=9",
		"CHAP_C=0x0",
		"MaxRecvDataSegmentLength=512",
		"FirstBurstLength=512",
		"MaxBurstLength=512",
		"MaxBurstLength=16777215",
		"DataDigest=CRC32C",
		"HeaderDigest=CRC32C",
		"=",
		"X",
		"ImmediateData=No",
		"InitialR2T=Yes",
	};

	hostile.garbled = true; /* its digests are not what was agreed */
	return key(data, length, texts[hostile_next() % 16]);
}

static void
answer_login(const struct question *question, bool honest)
{
	static uint8_t data[8192];
	uint8_t header[48], stage = question->header[1] >> 2 & 3;
	uint32_t length = 0;
	bool transit = true;

	start_answer(header, ISCSI_LOGIN_RESPONSE, question);
	if (question->asks_method) {
		length = key(data, key(data, 0, "AuthMethod=CHAP"), "TargetPortalGroupTag=1");
		transit = false;
	} else if (question->asks_challenge) {
		length = key(data, key(data, 0, "CHAP_A=5"), "CHAP_I=77");
		length = key(data, length, "CHAP_C=0x00112233445566778899aabbccddeeff");
		transit = false;
	} else if (stage == 1) {
		length = operational_keys(data);
	}
	if (!honest && hostile_next() >= 240)
		length = other_keys(data, length);
	header[1] = (uint8_t)(stage << 2);
	if (transit)
		header[1] |= (uint8_t)(0x80 | (stage == 1 ? 3 : 1));
	say_answer(header, data, length, honest);
	hostile.full_feature = header[1] == 0x87;
}

static void
answer_text(const struct question *question, bool honest)
{
	static uint8_t data[8192];
	uint8_t header[48];
	uint32_t length = 0;

	start_answer(header, ISCSI_TEXT_RESPONSE, question);
	put_be32(header + 20, ISCSI_NO_TAG);
	for (int targets = question->asks_targets ? 1 + hostile_next() % 4 : 0; targets > 0;
	     targets--) {
		length = key(data, length, "TargetName=iqn.2026-01.org.example:t");
		length = key(data, length, "TargetAddress=127.0.0.1:3260,1");
		if (!honest && hostile_next() >= 200)
			length = other_keys(data, length);
	}
	if (!honest && hostile_next() >= 220) { /* it has more to say */
		header[1] = 0x40;
		put_be32(header + 20, 7);
	}
	say_answer(header, data, length, honest);
}

static void
answer_read(struct question *question, bool honest)
{
	static uint8_t data[65536 + 4];
	uint32_t expected = get_be32(question->header + 20);
	uint32_t whole = lun_answer(question->header, data, sizeof(data) - 4);
	uint32_t part = whole - question->moved_bytes;
	uint8_t header[48];

	if (part > DATA_IN_BYTES)
		part = DATA_IN_BYTES;
	start_answer(header, ISCSI_DATA_IN, question);
	header[1] = 0;
	put_be32(header + 20, ISCSI_NO_TAG);
	put_be32(header + 36, question->sequence++);
	put_be32(header + 40, question->moved_bytes);
	question->moved_bytes += part;
	if (question->moved_bytes == whole) {
		header[1] = 0x81; /* the last one brings the status */
		if (whole < expected) {
			header[1] |= 0x02;
			put_be32(header + 44, expected - whole);
		}
	} else {
		put_be32(header + 24, 0);
		hostile.stat_sn--;
	}
	say_answer(header, data + question->moved_bytes - part, part, honest);
}

/* An R2T for what has not come, as far as it is not asked for yet. */
static void
answer_write(struct question *question, bool honest)
{
	uint32_t expected = get_be32(question->header + 20);
	bool wants = question->data_bytes < expected;
	static uint8_t data[8192];
	uint8_t header[48];
	uint32_t part;

	start_answer(header, wants ? ISCSI_R2T : ISCSI_SCSI_RESPONSE, question);
	if (wants) {
		hostile.stat_sn--;
		part = expected - question->data_bytes;
		memcpy(header + 8, question->header + 8, 8);
		put_be32(header + 20, 0x70 + question->sequence);
		put_be32(header + 36, question->sequence++);
		put_be32(header + 40, question->data_bytes);
		put_be32(header + 44, part < BURST_BYTES ? part : BURST_BYTES);
	}
	say_answer(header, data, 0, honest);
}

static bool
is_over(const struct question *question)
{
	uint8_t flags = question->header[1];
	uint32_t expected = get_be32(question->header + 20);

	if (question->header[0] % 64 != ISCSI_SCSI_COMMAND)
		return true;
	if (flags & 0x40)
		return question->moved_bytes == lun_answer(question->header, NULL, 65536);
	return !(flags & 0x20) || question->data_bytes >= expected;
}

static void
answer_question(struct question *question, bool honest)
{
	static uint8_t data[8192];
	uint8_t header[48];

	switch (question->header[0] % 64) {
	case ISCSI_SCSI_COMMAND:
		if (question->header[1] & 0x40)
			answer_read(question, honest);
		else
			answer_write(question, honest);
		return;
	case 0x03:
		answer_login(question, honest);
		return;
	case ISCSI_TEXT:
		answer_text(question, honest);
		return;
	case ISCSI_TASK_MANAGEMENT:
		start_answer(header, ISCSI_TASK_MANAGEMENT_RESPONSE, question);
		say_answer(header, data, 0, honest);
		return;
	case ISCSI_LOGOUT:
		start_answer(header, ISCSI_LOGOUT_RESPONSE, question);
		say_answer(header, data, 0, honest);
		return;
	default: /* a NOP-Out is our answer to a ping */
		return;
	}
}

static bool
answer(int at, bool honest)
{
	bool over;

	if (hostile.question_count == 0 || hostile.fd < 0)
		return false;
	/* With its last word nothing of it is left, whether that was heard or not. */
	over = is_over(&hostile.questions[at]);
	answer_question(&hostile.questions[at], honest);
	over = over || (hostile.questions[at].header[1] & 0x40 && is_over(&hostile.questions[at]));
	if (over)
		memmove(&hostile.questions[at], &hostile.questions[at + 1],
			(size_t)(--hostile.question_count - at) * sizeof(hostile.questions[0]));
	return true;
}

bool
hostile_answer(bool honest)
{
	uint8_t which = honest ? 0 : hostile_next();

	return answer(which < 192 || hostile.question_count == 0 ? 0
								 : which % hostile.question_count,
		      honest);
}

bool
hostile_answer_newest(void)
{
	return answer(hostile.question_count - 1, true);
}

void
hostile_speak(void)
{
	static const uint8_t opcodes[] = { 0x20, 0x20, 0x32, 0x3f, 0x21, 0x25, 0x31, 0x22 };
	static uint8_t data[8192];
	uint8_t header[48], what = hostile_next();

	if (hostile.fd < 0)
		return;
	if (what >= 240) {
		uint32_t length = hostile_next() % 64;

		for (uint32_t i = 0; i < length; i++) {
			data[i] = hostile_next();
			data[i] = data[i] == HOSTILE_POISON ? 0 : data[i];
		}
		say(data, length);
		hostile.garbled = true;
		return;
	}
	start_answer(header, opcodes[what % 8],
		     hostile.question_count > 0 ? &hostile.questions[0] : NULL);
	if (header[0] == ISCSI_NOP_IN) {
		put_be32(header + 16, ISCSI_NO_TAG);
		put_be32(header + 20, what & 16 ? ISCSI_NO_TAG : what);
	}
	if (header[0] == ISCSI_ASYNC_MESSAGE)
		header[36] = hostile_next() % 6;
	say_answer(header, data, 0, false);
}

void
hostile_send(bool all)
{
	size_t length = hostile.out_end - hostile.out_start;
	ssize_t written;

	if (hostile.fd < 0)
		return;
	if (!all)
		length = length * hostile_next() / 255;
	if (length == 0)
		return;
	written = send(hostile.fd, hostile.out + hostile.out_start, length,
		       MSG_DONTWAIT | MSG_NOSIGNAL);
	if (written > 0)
		hostile.out_start += (size_t)written;
	if (hostile.out_start == hostile.out_end)
		hostile.out_start = hostile.out_end = 0;
}

/* --- instead of the network --- */

int __wrap_iscsi_connect_start(const char *portal);

int
__wrap_iscsi_connect_start(const char *portal)
{
	int sockets[2];

	hostile_hang_up();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) != 0)
		return -errno;
	hostile.fd = sockets[1];
	hostile.full_feature = false;
	hostile.connections++;
	return sockets[0];
}
