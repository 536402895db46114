/* iscsi/receive.c - socket -> headers and data.
 *
 *   HEADER (+ additional header segments, digest) -> DATA -> TAIL (padding, digest) -> HEADER
 *
 * One buffer takes headers and what comes along with them.  Data of a read that did not come along
 * goes straight to its memory; behind it in the same readv stands the buffer, for the next header.
 * How much is read ahead follows the size of the Data-In PDUs: where they are small, many are
 * fetched by one call and copied; where they are large, a little more than a header is fetched, so
 * that little is copied.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define DIRECT_BYTES_MIN 16384 /* of a Data-In */
#define AHEAD_BYTES 512
#define ROOM_BYTES_MIN 2048 /* the longest header and tail */
#define READ_IOV_MAX 64
#define LOW_WATER_BYTES_MIN 16384 /* less does not pay for the calls */
#define LOW_WATER_BYTES_MAX 65536
#define TURN_BYTES_MAX (1u << 20) /* then it's another connection's turn */

static uint32_t
available(const struct receiver *receiver)
{
	return receiver->end - receiver->start;
}

static uint32_t
ahead_bytes(const struct receiver *receiver)
{
	uint32_t room = RECEIVE_BYTES - receiver->end;

	return receiver->data_in_bytes >= DIRECT_BYTES_MIN && room > AHEAD_BYTES ? AHEAD_BYTES
										 : room;
}

/* Into the task's memory */

static void
copy_data(struct iscsi_task *task, const uint8_t *bytes, uint32_t length)
{
	while (length > 0) {
		struct iovec entries[READ_IOV_MAX];
		int count = READ_IOV_MAX;
		uint32_t taken = place_take(&task->place, length, entries, &count);

		for (int i = 0; i < count; i++) {
			memcpy(entries[i].iov_base, bytes, entries[i].iov_len);
			bytes += entries[i].iov_len;
		}
		length -= taken;
	}
}

static void
took_data(struct iscsi_connection *connection, uint32_t length)
{
	struct receiver *receiver = &connection->receiver;

	receiver->data_left -= length;
	if (receiver->task != NULL)
		connection->progress += length;
	if (receiver->data_left == 0)
		receiver->phase = RECEIVE_TAIL;
}

static void
receive_digest(struct iscsi_connection *connection, const void *bytes, size_t length)
{
	struct receiver *receiver = &connection->receiver;

	if (connection->agreed.data_digest)
		receiver->digest = iscsi_digest_add(receiver->digest, bytes, length);
}

/* What stands in the buffer belongs to the data under way. */
static void
take_data(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;
	const uint8_t *bytes = receiver->bytes + receiver->start;
	uint32_t length = available(receiver);

	if (length > receiver->data_left)
		length = receiver->data_left;
	receive_digest(connection, bytes, length);
	if (receiver->task != NULL && !receiver->task->diverted) {
		copy_data(receiver->task, bytes, length);
	} else if (receiver->task == NULL) {
		uint32_t kept = SIDE_BYTES - receiver->side_bytes;

		kept = kept < length ? kept : length;
		memcpy(receiver->side + receiver->side_bytes, bytes, kept);
		receiver->side_bytes += kept;
	}
	receiver->start += length;
	took_data(connection, length);
}

/* Headers and tails.  False: more bytes are needed. */

static bool
digest_differs(uint32_t digest, const uint8_t *bytes)
{
	uint8_t expected[ISCSI_DIGEST_BYTES];

	iscsi_digest_encode(digest, expected);
	return memcmp(expected, bytes, sizeof(expected)) != 0;
}

static bool
take_header(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;
	const uint8_t *bytes = receiver->bytes + receiver->start;
	uint32_t digest_bytes = connection->agreed.header_digest ? ISCSI_DIGEST_BYTES : 0;
	uint32_t header_bytes;
	const char *fault;

	if (available(receiver) < ISCSI_HEADER_BYTES)
		return false;
	header_bytes = ISCSI_HEADER_BYTES + bytes[4] * 4u;
	if (available(receiver) < header_bytes + digest_bytes)
		return false;
	if (digest_bytes > 0 &&
	    digest_differs(iscsi_digest_add(ISCSI_DIGEST_START, bytes, header_bytes),
			   bytes + header_bytes)) {
		/* Whose it was, and where the next one begins, can't be known. */
		connection_digest_error(connection);
		connection_break(connection, -EPROTO,
				 "a PDU of the target has a wrong header digest");
		return false;
	}
	if (!iscsi_header_decode(bytes, &receiver->header, &fault)) {
		connection_break(connection, -EPROTO, "protocol error of the target: %s", fault);
		return false;
	}
	receiver->start += header_bytes + digest_bytes;
	receiver->task = NULL;
	receiver->side_bytes = 0;
	receiver->digest = ISCSI_DIGEST_START;
	receiver->data_left = receiver->header.data_bytes;
	if (!answer_header(connection))
		return false;
	if (receiver->data_left > 0)
		receiver->phase = RECEIVE_DATA;
	else
		answer_whole(connection);
	return true;
}

/* Data of a read is known to be that task's, and is read again.  What was lost with anything else
 * (sense data, a message) is told once only.
 */
static bool
data_is_damaged(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;

	connection_digest_error(connection);
	if (receiver->task == NULL)
		connection_break(connection, -EPROTO, "data of the target has a wrong digest");
	else
		receiver->task->damaged = true;
	return connection->fault.code == 0;
}

static bool
take_tail(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;
	const uint8_t *bytes = receiver->bytes + receiver->start;
	uint32_t padding = iscsi_padding_bytes(receiver->header.data_bytes);
	uint32_t digest_bytes = connection->agreed.data_digest ? ISCSI_DIGEST_BYTES : 0;

	if (available(receiver) < padding + digest_bytes)
		return false;
	receive_digest(connection, bytes, padding);
	if (digest_bytes > 0 && digest_differs(receiver->digest, bytes + padding) &&
	    !data_is_damaged(connection))
		return false;
	receiver->start += padding + digest_bytes;
	receiver->phase = RECEIVE_HEADER;
	answer_whole(connection);
	return true;
}

static void
take_all(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;
	bool more = true;

	while (more && connection->fault.code == 0) {
		switch (receiver->phase) {
		case RECEIVE_HEADER:
			more = take_header(connection);
			break;
		case RECEIVE_DATA:
			more = available(receiver) > 0;
			if (more)
				take_data(connection);
			break;
		case RECEIVE_TAIL:
			more = take_tail(connection);
			break;
		}
	}
	if (receiver->start == receiver->end) {
		receiver->start = receiver->end = 0;
	} else if (RECEIVE_BYTES - receiver->end < ROOM_BYTES_MIN) {
		memmove(receiver->bytes, receiver->bytes + receiver->start, available(receiver));
		receiver->end -= receiver->start;
		receiver->start = 0;
	}
}

/* The socket */

/* Straight to the memory of the task.  As read(2); *wanted: how much could have come. */
static ssize_t
receive_direct(struct iscsi_connection *connection, size_t *wanted)
{
	struct receiver *receiver = &connection->receiver;
	struct iscsi_place place = receiver->task->place;
	struct iovec entries[READ_IOV_MAX + 1];
	int count = READ_IOV_MAX;
	uint32_t direct = place_take(&place, receiver->data_left, entries, &count);
	uint32_t ahead = direct == receiver->data_left ? ahead_bytes(receiver) : 0;
	ssize_t got;
	uint32_t left;

	*wanted = direct + ahead;
	if (ahead > 0)
		entries[count++] = (struct iovec){ receiver->bytes, ahead };
	got = readv(connection->fd, entries, count);
	if (got <= 0)
		return got;
	left = got < (ssize_t)direct ? (uint32_t)got : direct;
	receiver->end = (uint32_t)got - left;
	count = READ_IOV_MAX;
	place_take(&receiver->task->place, left, entries, &count);
	for (int i = 0; i < count; i++)
		receive_digest(connection, entries[i].iov_base, entries[i].iov_len);
	took_data(connection, left);
	return got;
}

static ssize_t
receive_some(struct iscsi_connection *connection, size_t *wanted)
{
	struct receiver *receiver = &connection->receiver;
	bool data = receiver->phase == RECEIVE_DATA;
	ssize_t got;

	/* Data is taken from the buffer at once, so here it is empty while data is under way. */
	if (data && receiver->task != NULL && !receiver->task->diverted)
		return receive_direct(connection, wanted);
	*wanted = data ? RECEIVE_BYTES - receiver->end : ahead_bytes(receiver);
	got = recv(connection->fd, receiver->bytes + receiver->end, *wanted, 0);
	if (got > 0)
		receiver->end += (uint32_t)got;
	return got;
}

/* Where packets are small (a target that sends page by page) a long Data-In would wake us for
 * each.  So the socket is told how much is worth it: no more than what is left of this PDU, for
 * nobody knows what comes then.
 */
static void
set_low_water(struct iscsi_connection *connection)
{
	const struct receiver *receiver = &connection->receiver;
	uint32_t wanted =
		receiver->phase == RECEIVE_DATA && receiver->data_left >= LOW_WATER_BYTES_MIN
			? receiver->data_left
			: 1;
	int value;

	if (wanted > LOW_WATER_BYTES_MAX)
		wanted = LOW_WATER_BYTES_MAX;
	if (wanted == connection->low_water_bytes || connection->fault.code != 0)
		return;
	value = (int)wanted;
	if (setsockopt(connection->fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value)) == 0)
		connection->low_water_bytes = wanted;
	else if (connection->low_water_bytes > wanted)
		connection_break(connection, -errno, "SO_RCVLOWAT of %u: %s", wanted,
				 strerror(errno));
}

uint32_t
receive_waiting_bytes(const struct iscsi_connection *connection)
{
	int waiting = 0;

	if (connection->receiver.task == NULL)
		return 0; /* a long ping */
	if (connection->low_water_bytes == 1 || ioctl(connection->fd, FIONREAD, &waiting) != 0 ||
	    waiting < 0)
		return 0;
	return (uint32_t)waiting < connection->receiver.data_left ? (uint32_t)waiting
								  : connection->receiver.data_left;
}

int
iscsi_connection_receive(struct iscsi_connection *connection)
{
	size_t total = 0;

	while (connection->fault.code == 0 && total < TURN_BYTES_MAX) {
		size_t wanted;
		ssize_t got = receive_some(connection, &wanted);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			break;
		if (got < 0)
			connection_break(connection, -errno, "the connection ended: %s",
					 strerror(errno));
		else if (got == 0)
			connection_break(connection, -ECONNRESET,
					 "the target closed the connection");
		if (got <= 0)
			break;
		take_all(connection);
		if ((size_t)got < wanted)
			break; /* the socket is empty: no call more to be told so */
		total += (size_t)got;
	}
	set_low_water(connection);
	return connection->fault.code;
}
