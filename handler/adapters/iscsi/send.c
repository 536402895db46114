/* iscsi/send.c - queues -> batch -> socket.
 *
 * A batch is a row of whole PDUs, built when the one before is gone.  Order inside: immediate
 * commands (answers to pings wait for nothing but the batch before them), then bursts of Data-Out,
 * then new commands.  Bursts come before commands because unsolicited data must follow in the order
 * of its commands (RFC 7143, 4.2.5.2), and because a target that asked for data has set memory
 * aside for it.  Command numbers are given here, so they leave in their order whatever overtakes
 * whatever in the queues.
 *
 * Not optimised: no MSG_ZEROCOPY (on loopback and with 64 KiB it cost more than it saved in others'
 * measurements, and its completions would hold every write's memory until TCP's acknowledgement).
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* also where a target takes 16 MiB: pings shall get through */
#define DATA_OUT_BYTES_MAX 262144

static uint32_t
least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

bool
iscsi_connection_wants_to_send(const struct iscsi_connection *connection)
{
	return connection->blocked;
}

static bool
batch_empty(const struct batch *batch)
{
	return batch->iov_next == batch->iov_count;
}

static bool
batch_takes_more(const struct batch *batch)
{
	return batch->pdus < BATCH_PDUS_MAX && batch->bytes < BATCH_BYTES_MAX &&
	       batch->iov_count + 3 <= BATCH_IOV_MAX;
}

static void
batch_add(struct batch *batch, void *bytes, size_t length)
{
	batch->iov[batch->iov_count++] = (struct iovec){ bytes, length };
	batch->bytes += (uint32_t)length;
}

/* Refer to the next `wanted` bytes of the task's data, behind the place of a header.  Returns how
 * many it will be: fewer if entries run out, 0 (and nothing was done) if a batch of its own has
 * room for more.
 */
static uint32_t
batch_add_data(struct batch *batch, struct iscsi_task *task, uint32_t wanted)
{
	struct iscsi_place before = task->place;
	struct iovec *out = &batch->iov[batch->iov_count + 1];
	int count = BATCH_IOV_MAX - batch->iov_count - 2;
	uint32_t taken = place_take(&task->place, wanted, out, &count);

	if (taken < wanted) {
		task->place = before;
		if (batch->pdus > 0)
			return 0;
		count = BATCH_IOV_MAX - batch->iov_count - 2;
		taken = place_take(&task->place, taken - taken % 4, out, &count);
	}
	/* The header comes first, but was not known before. */
	batch->iov_count += 1 + count;
	batch->bytes += taken;
	task->batch = batch->number;
	task->moved_bytes += taken;
	return taken;
}

static uint32_t
digest_of_entries(const struct iovec *iov, int count)
{
	uint32_t digest = ISCSI_DIGEST_START;

	for (int i = 0; i < count; i++)
		digest = iscsi_digest_add(digest, iov[i].iov_base, iov[i].iov_len);
	return digest;
}

/* Close the PDU whose header stands in the next header slot and has its iovec entry at `at`. */
static void
batch_end_pdu(struct iscsi_connection *connection, int at, uint32_t data_bytes)
{
	struct batch *batch = &connection->batch;
	uint8_t *header = batch->headers[batch->pdus];
	uint8_t *tail = batch->tails[batch->pdus];
	uint32_t header_bytes = ISCSI_HEADER_BYTES;
	uint32_t padding = iscsi_padding_bytes(data_bytes);
	uint32_t before = batch->bytes;

	if (connection->agreed.header_digest) {
		iscsi_digest_encode(iscsi_digest_add(ISCSI_DIGEST_START, header,
						     ISCSI_HEADER_BYTES),
				    header + ISCSI_HEADER_BYTES);
		header_bytes += ISCSI_DIGEST_BYTES;
	}
	batch->iov[at] = (struct iovec){ header, header_bytes };
	batch->bytes += header_bytes;
	memset(tail, 0, padding);
	if (data_bytes > 0 && connection->agreed.data_digest) {
		uint32_t digest = digest_of_entries(&batch->iov[at + 1], batch->iov_count - at - 1);

		iscsi_digest_encode(iscsi_digest_add(digest, tail, padding), tail + padding);
		padding += ISCSI_DIGEST_BYTES;
	}
	if (padding > 0)
		batch_add(batch, tail, padding);
	batch->pdus++;
	connection->position += data_bytes + batch->bytes - before;
}

static void
add_urgent(struct iscsi_connection *connection)
{
	struct batch *batch = &connection->batch;
	uint8_t *header = batch->headers[batch->pdus];
	struct iscsi_numbers numbers = { connection->cmd_sn, connection->exp_stat_sn };

	memcpy(header, connection->urgent[connection->urgent_first], ISCSI_HEADER_BYTES);
	connection->urgent_first = (connection->urgent_first + 1) % URGENT_MAX;
	connection->urgent_count--;
	iscsi_set_numbers(header, numbers);
	batch->iov_count++;
	batch_end_pdu(connection, batch->iov_count - 1, 0);
}

void
send_next_burst(struct iscsi_connection *connection, struct iscsi_task *task)
{
	if (task->r2ts_count == 0)
		return;
	task->burst = task->r2ts[task->r2ts_first];
	task->r2ts_first = (task->r2ts_first + 1) % ISCSI_R2TS_MAX;
	task->r2ts_count--;
	task->bursting = true;
	queue_append(&connection->bursts, task);
}

/* One Data-Out of the first burst.  False: there is no room for it in this batch. */
static bool
add_data_out(struct iscsi_connection *connection)
{
	struct iscsi_task *task = connection->bursts.first;
	struct iscsi_burst *burst = &task->burst;
	struct batch *batch = &connection->batch;
	int at = batch->iov_count;
	uint32_t segment = least(connection->agreed.target_segment_bytes, DATA_OUT_BYTES_MAX);
	uint32_t length =
		batch_add_data(batch, task, least(burst->end_bytes - burst->offset_bytes, segment));
	struct iscsi_data_out_fields fields = {
		.tag = task->tag,
		.target_tag = burst->target_tag,
		.final = burst->offset_bytes + length == burst->end_bytes,
		.data_sn = burst->data_sn,
		.offset_bytes = burst->offset_bytes,
		.data_bytes = length,
	};

	if (length == 0)
		return false;
	iscsi_lun_encode(task->lun, fields.lun);
	iscsi_encode_data_out(&fields, connection->exp_stat_sn, batch->headers[batch->pdus]);
	batch_end_pdu(connection, at, length);
	task->end_position = connection->position;
	burst->data_sn++;
	burst->offset_bytes += length;
	if (fields.final) {
		queue_take(&connection->bursts);
		task->bursting = false;
		send_next_burst(connection, task);
	}
	return true;
}

/* How much of a write needs no R2T. */
static uint32_t
unsolicited_bytes(const struct iscsi_connection *connection, const struct iscsi_task *task,
		  uint32_t immediate)
{
	if (!task->write || connection->agreed.initial_r2t)
		return immediate;
	return least(task->length_bytes, connection->agreed.first_burst_bytes);
}

static bool
add_command(struct iscsi_connection *connection)
{
	struct iscsi_task *task = connection->commands.first;
	struct batch *batch = &connection->batch;
	int at = batch->iov_count;
	uint32_t wanted =
		task->write ? least(task->length_bytes, iscsi_immediate_bytes(&connection->agreed))
			    : 0;
	uint32_t immediate = wanted > 0 ? batch_add_data(batch, task, wanted) : 0;
	struct iscsi_command_fields fields = {
		.tag = task->tag,
		.read = task->read,
		.write = task->write,
		.expected_bytes = task->length_bytes,
		.immediate_bytes = immediate,
		.cdb = task->scsi->cdb,
	};

	if (wanted > 0 && immediate == 0)
		return false;
	if (immediate == 0)
		batch->iov_count++;
	queue_take(&connection->commands);
	task->sent = true;
	task->cmd_sn = connection->cmd_sn++;
	task->solicited_bytes = unsolicited_bytes(connection, task, immediate);
	fields.final = task->solicited_bytes == immediate;
	iscsi_lun_encode(task->lun, fields.lun);
	iscsi_encode_command(&fields,
			     (struct iscsi_numbers){ task->cmd_sn, connection->exp_stat_sn },
			     batch->headers[batch->pdus]);
	batch_end_pdu(connection, at, immediate);
	task->end_position = connection->position;
	if (!fields.final) {
		task->burst = (struct iscsi_burst){
			.target_tag = ISCSI_NO_TAG,
			.offset_bytes = immediate,
			.end_bytes = task->solicited_bytes,
		};
		task->bursting = true;
		queue_append(&connection->bursts, task);
	}
	return true;
}

static void
build_batch(struct iscsi_connection *connection)
{
	struct batch *batch = &connection->batch;

	batch->number++;
	batch->iov_next = batch->iov_count = batch->pdus = 0;
	batch->bytes = 0;
	while (batch_takes_more(batch)) {
		if (connection->urgent_count > 0) {
			add_urgent(connection);
		} else if (connection->bursts.first != NULL) {
			if (!add_data_out(connection))
				return;
		} else if (connection->commands.first != NULL &&
			   !iscsi_before(connection->max_cmd_sn, connection->cmd_sn)) {
			if (!add_command(connection))
				return;
		} else {
			return;
		}
	}
}

static void
batch_sent(struct batch *batch, size_t length)
{
	batch->bytes -= (uint32_t)length;
	while (length > 0) {
		struct iovec *entry = &batch->iov[batch->iov_next];

		if (length < entry->iov_len) {
			entry->iov_base = (uint8_t *)entry->iov_base + length;
			entry->iov_len -= length;
			return;
		}
		length -= entry->iov_len;
		batch->iov_next++;
	}
}

static void
give_back_held(struct iscsi_connection *connection)
{
	struct iscsi_task *task;

	while ((task = queue_take(&connection->held)) != NULL)
		task_give_back(connection, task);
}

int
iscsi_connection_flush(struct iscsi_connection *connection)
{
	struct batch *batch = &connection->batch;

	connection->blocked = false;
	while (connection->fault.code == 0) {
		struct msghdr message = { 0 };
		ssize_t sent;

		if (batch_empty(batch))
			build_batch(connection);
		if (batch_empty(batch))
			break;
		message.msg_iov = &batch->iov[batch->iov_next];
		message.msg_iovlen = (size_t)(batch->iov_count - batch->iov_next);
		sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN) {
			connection->blocked = true;
			break;
		}
		if (sent < 0) {
			connection_break(connection, -errno, "the connection ended: %s",
					 strerror(errno));
			break;
		}
		batch_sent(batch, (size_t)sent);
		if (batch_empty(batch))
			give_back_held(connection);
	}
	return connection->fault.code;
}
