/* device/text.c - what is asked in a discovery session: a text, answered in one or several parts
 * (RFC 7143, 11.10).
 *
 * Not libiscsi's: it follows a NULL pointer if a target answers the question with an R2T, and
 * allocates PDUs for as much data as that asks for.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "adapters/base/reactor.h"

#define TAG 1
#define PDU_BYTES_MAX 262144 /* MaxRecvDataSegmentLength, as login.c declares it */
#define TEXT_BYTES_MAX (4u << 20)

struct part { /* a PDU of the target */
	struct iscsi_header header;
	uint8_t *data; /* PDU_BYTES_MAX and padding */
};

/* 0, or -errno. */
static int
wait_for(const struct admin_session *session, short events)
{
	struct pollfd pollfd = { .fd = session->fd, .events = events };
	uint64_t now = monotonic_ms();
	int result;

	if (now >= session->deadline_ms)
		return -ETIMEDOUT;
	result = poll(&pollfd, 1, (int)(session->deadline_ms - now));
	if (result < 0 && errno != EINTR)
		return -errno;
	return result == 0 ? -ETIMEDOUT : 0;
}

static int
move(const struct admin_session *session, bool out, uint8_t *bytes, size_t length)
{
	while (length > 0) {
		int error = wait_for(session, out ? POLLOUT : POLLIN);
		ssize_t moved;

		if (error != 0)
			return error;
		moved = out ? send(session->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL)
			    : recv(session->fd, bytes, length, MSG_DONTWAIT);
		if (moved == 0)
			return -ECONNRESET;
		if (moved < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (moved > 0) {
			bytes += moved;
			length -= (size_t)moved;
		}
	}
	return 0;
}

static int
send_pdu(struct admin_session *session, uint8_t header[ISCSI_HEADER_BYTES], const char *text,
	 size_t length)
{
	struct iscsi_numbers numbers = { session->login.exp_cmd_sn, session->login.stat_sn + 1 };
	uint8_t padded[64] = { 0 };
	int error;

	iscsi_set_numbers(header, numbers); /* immediate: it takes no command number */
	error = move(session, true, header, ISCSI_HEADER_BYTES);
	if (error != 0 || length == 0)
		return error;
	assert(length + 3 <= sizeof(padded));
	memcpy(padded, text, length);
	return move(session, true, padded, length + iscsi_padding_bytes((uint32_t)length));
}

static int
receive_pdu(struct admin_session *session, struct part *part)
{
	uint8_t bytes[ISCSI_HEADER_BYTES];
	const char *fault;
	int error = move(session, false, bytes, sizeof(bytes));

	if (error != 0)
		return error;
	if (!iscsi_header_decode(bytes, &part->header, &fault) || part->header.ahs_bytes != 0 ||
	    part->header.data_bytes > PDU_BYTES_MAX)
		return -EPROTO;
	if (part->header.counts_stat_sn)
		session->login.stat_sn = part->header.stat_sn;
	return move(session, false, part->data,
		    part->header.data_bytes + iscsi_padding_bytes(part->header.data_bytes));
}

/* The next PDU that is no ping. */
static int
receive_answer(struct admin_session *session, struct part *part)
{
	uint8_t header[ISCSI_HEADER_BYTES];

	for (;;) {
		int error = receive_pdu(session, part);

		if (error != 0 || part->header.opcode != ISCSI_NOP_IN ||
		    part->header.tag != ISCSI_NO_TAG)
			return error;
		if (part->header.target_tag == ISCSI_NO_TAG)
			continue;
		iscsi_encode_nop_answer(&part->header, header);
		error = send_pdu(session, header, NULL, 0);
		if (error != 0)
			return error;
	}
}

static int
add(const struct part *part, char **text, size_t *length)
{
	char *longer;

	if (part->header.data_bytes > TEXT_BYTES_MAX - *length)
		return -EMSGSIZE;
	longer = realloc(*text, *length + part->header.data_bytes + 1);
	if (longer == NULL)
		return -ENOMEM;
	memcpy(longer + *length, part->data, part->header.data_bytes);
	*length += part->header.data_bytes;
	longer[*length] = '\0';
	*text = longer;
	return 0;
}

static int
exchange_text(struct admin_session *session, const char *question, struct part *part, char **text,
	      size_t *length)
{
	uint32_t target_tag = ISCSI_NO_TAG;
	size_t question_bytes = strlen(question) + 1;

	for (;;) {
		uint8_t header[ISCSI_HEADER_BYTES];
		int error;

		iscsi_encode_text(TAG, target_tag, (uint32_t)question_bytes, header);
		error = send_pdu(session, header, question, question_bytes);
		if (error == 0)
			error = receive_answer(session, part);
		if (error == 0 &&
		    (part->header.opcode != ISCSI_TEXT_RESPONSE || part->header.tag != TAG))
			error = -EPROTO;
		if (error == 0)
			error = add(part, text, length);
		if (error != 0 || part->header.final)
			return error;
		target_tag = part->header.target_tag; /* the rest is asked for with nothing */
		question_bytes = 0;
		if (target_tag == ISCSI_NO_TAG)
			return -EPROTO;
	}
}

int
admin_text_ask(struct admin_session *session, const char *question, char **text, size_t *length)
{
	struct part part = { .data = malloc(PDU_BYTES_MAX + 4) };
	const struct iscsi_negotiated *agreed = &session->login.negotiated;
	int error = part.data == NULL ? -ENOMEM : 0;

	*text = NULL;
	*length = 0;
	if (error == 0 && (agreed->header_digest || agreed->data_digest))
		error = -EPROTO; /* nobody offered it one */
	if (error == 0)
		error = exchange_text(session, question, &part, text, length);
	free(part.data);
	if (error != 0) {
		session->broken = true;
		free(*text);
		*text = NULL;
	}
	return error;
}

void
admin_text_logout(struct admin_session *session)
{
	struct part part = { .data = malloc(PDU_BYTES_MAX + 4) };
	uint8_t header[ISCSI_HEADER_BYTES];

	iscsi_encode_logout(TAG, header);
	if (part.data != NULL && send_pdu(session, header, NULL, 0) == 0)
		receive_answer(session, &part); /* whatever it says, the session is over */
	free(part.data);
}
