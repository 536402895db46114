/* iscsi/answer.c - what each PDU of the target means.
 *
 * What does not fit what was asked is a protocol error and ends the connection: at
 * ErrorRecoveryLevel 0 there is nothing to repair, and a target that lost count may have lost
 * data.  "Good" is believed only where the iSCSI layer says that the command was completed, where
 * all data that was asked for has come, or all that was to be written had been asked for and sent,
 * and none of it with a wrong digest.
 */
#include "internal.h"
#include "adapters/base/big_endian.h"

#include <errno.h>
#include <string.h>

static bool
protocol_error(struct iscsi_connection *connection, const char *what)
{
	connection_break(connection, -EPROTO, "protocol error of the target: %s", what);
	return false;
}

static bool
answer_data_header(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;
	const struct iscsi_header *header = &receiver->header;
	struct iscsi_task *task = task_of_tag(connection, header->tag);

	if (task == NULL || !task->read)
		return protocol_error(connection, "data that was not requested");
	if (header->sequence != task->sequence)
		return protocol_error(connection, "a part of a read's data is missing (DataSN)");
	if (header->offset_bytes != task->moved_bytes)
		return protocol_error(connection, "a read's data is out of order");
	if (header->data_bytes > task->length_bytes - task->moved_bytes)
		return protocol_error(connection, "more data than was requested");
	task->sequence++;
	task->moved_bytes += header->data_bytes;
	receiver->task = task;
	receiver->data_in_bytes = header->data_bytes;
	if (header->data_bytes > connection->longest_data_in)
		connection->longest_data_in = header->data_bytes;
	return true;
}

bool
answer_header(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;

	if (header->data_bytes > DATA_IN_BYTES_MAX)
		return protocol_error(connection, "a PDU longer than was negotiated");
	return header->opcode != ISCSI_DATA_IN || answer_data_header(connection);
}

/* How much of the data has certainly not been moved. */
static uint32_t
missing_bytes(const struct iscsi_connection *connection, const struct iscsi_task *task)
{
	uint64_t sent = connection->position - connection->batch.bytes;
	uint32_t missing = task->read || task->write ? task->length_bytes - task->moved_bytes : 0;

	if (task->write && missing == 0 && task->end_position > sent)
		return 1; /* at least */
	return missing;
}

/* What came counts; what the target says of it only where that is less.  "Too much" of what did not
 * come is too little.
 */
static void
set_residual(const struct iscsi_connection *connection, const struct iscsi_task *task)
{
	const struct iscsi_residual *claimed = &connection->receiver.header.residual;
	uint32_t missing = missing_bytes(connection, task);
	struct scsi_task *scsi = task->scsi;

	scsi->residual_status = SCSI_RESIDUAL_NO_RESIDUAL;
	scsi->residual = 0;
	if (claimed->underflow || missing > 0) {
		scsi->residual_status = SCSI_RESIDUAL_UNDERFLOW;
		scsi->residual =
			claimed->underflow && claimed->bytes > missing ? claimed->bytes : missing;
	} else if (claimed->overflow) {
		scsi->residual_status = SCSI_RESIDUAL_OVERFLOW;
		scsi->residual = claimed->bytes;
	}
}

static void
set_sense(const struct receiver *receiver, struct scsi_task *scsi)
{
	uint32_t length = 0;

	if (receiver->side_bytes >= 2) {
		length = (uint32_t)(receiver->side[0] << 8 | receiver->side[1]);
		if (length > receiver->side_bytes - 2)
			length = receiver->side_bytes - 2;
	}
	scsi_parse_sense(receiver->side + 2, length, &scsi->sense);
}

/* As a target tells it of Data-Out.  Whatever else than success the target said counts more: it may
 * say it only once.
 */
static void
set_damaged(const struct iscsi_task *task)
{
	struct scsi_task *scsi = task->scsi;

	if (!task->damaged || scsi_judge(scsi, scsi->status) != SCSI_OK)
		return;
	scsi->status = SCSI_STATUS_CHECK_CONDITION;
	scsi->sense = (struct scsi_sense){
		.error_type = 0x70,
		.key = SCSI_SENSE_COMMAND_ABORTED,
		.ascq = SCSI_PROTOCOL_CRC_ERROR,
	};
}

static void
answer_task(struct iscsi_connection *connection, struct iscsi_task *task)
{
	const struct receiver *receiver = &connection->receiver;
	const struct iscsi_header *header = &receiver->header;

	/* "Target failure" and unknown codes come without a SCSI status: the field is zero, and is
	 * no "good".
	 */
	task->scsi->status = header->response == 0 ? header->status : SCSI_STATUS_ERROR;
	set_residual(connection, task);
	if (task->scsi->status == SCSI_STATUS_CHECK_CONDITION)
		set_sense(receiver, task->scsi);
	if (!task->damaged && scsi_damaged(task->scsi, task->scsi->status))
		connection_digest_error(connection);
	set_damaged(task);
	task_answered(connection, task);
}

static void
answer_response(struct iscsi_connection *connection)
{
	struct iscsi_task *task = task_of_tag(connection, connection->receiver.header.tag);

	if (task == NULL)
		protocol_error(connection, "an answer to a command that is not in flight");
	else
		answer_task(connection, task);
}

static void
answer_r2t(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;
	struct iscsi_task *task = task_of_tag(connection, header->tag);
	int at;

	if (task == NULL || !task->write) {
		protocol_error(connection, "an R2T for a command that writes nothing");
	} else if (header->target_tag == ISCSI_NO_TAG) {
		/* its data would pass for unasked */
		protocol_error(connection, "an R2T without a tag");
	} else if (header->sequence != task->sequence) {
		protocol_error(connection, "an R2T is missing (R2TSN)");
	} else if (header->offset_bytes != task->solicited_bytes) {
		protocol_error(connection, "an R2T is out of order");
	} else if (header->wanted_bytes > task->length_bytes - task->solicited_bytes) {
		protocol_error(connection, "an R2T for more than the command writes");
	} else if (header->wanted_bytes > connection->agreed.max_burst_bytes) {
		protocol_error(connection, "an R2T beyond MaxBurstLength");
	} else if (task->r2ts_count == ISCSI_R2TS_MAX) {
		protocol_error(connection, "more R2Ts at a time than was negotiated");
	} else {
		at = (task->r2ts_first + task->r2ts_count++) % ISCSI_R2TS_MAX;
		task->r2ts[at] = (struct iscsi_burst){
			.target_tag = header->target_tag,
			.offset_bytes = header->offset_bytes,
			.end_bytes = header->offset_bytes + header->wanted_bytes,
		};
		task->sequence++;
		task->solicited_bytes += header->wanted_bytes;
		if (task == connection->oldest)
			connection->progress += header->wanted_bytes;
		if (!task->bursting)
			send_next_burst(connection, task);
	}
}

static void
answer_ping(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;
	uint8_t *answer;

	if (header->tag != ISCSI_NO_TAG) {
		protocol_error(connection, "an answer to a ping that was not sent");
		return;
	}
	if (header->target_tag == ISCSI_NO_TAG)
		return; /* it only tells its numbers */
	answer = urgent_add(connection);
	if (answer == NULL)
		protocol_error(connection, "more pings than it accepts answers");
	else
		iscsi_encode_nop_answer(header, answer);
}

static void
answer_management(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;

	if (header->tag != connection->management_tag || header->tag == ISCSI_NO_TAG) {
		protocol_error(connection,
			       "an answer to a task management request that is not in flight");
		return;
	}
	connection->management_tag = ISCSI_NO_TAG;
	connection->progress += ISCSI_PROGRESS_ANSWER;
	connection->management_done(connection->management_owner, header->response);
}

static void
answer_logout(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;

	if (header->tag != connection->logout_tag || header->tag == ISCSI_NO_TAG) {
		protocol_error(connection, "an answer to a logout that is not in flight");
		return;
	}
	connection->logout_tag = ISCSI_NO_TAG;
	connection->progress += ISCSI_PROGRESS_ANSWER;
	connection->logout_done(connection->logout_owner, header->response);
}

static void
answer_message(struct iscsi_connection *connection)
{
	switch (connection->receiver.header.reason) {
	case ISCSI_EVENT_LOGOUT_REQUEST:
		connection_break(connection, -ECONNRESET, "the target asks for a logout");
		return;
	case ISCSI_EVENT_CONNECTION_DROP:
	case ISCSI_EVENT_SESSION_DROP:
		connection_break(connection, -ECONNRESET, "the target drops the session");
		return;
	default: /* SCSI events are seen as unit attentions; we negotiate nothing again */
		return;
	}
}

/* Data-Out that arrived damaged: the command ends with an answer of its own.  A rejected command may
 * have used up its number or not, and may never be answered.
 */
static void
answer_reject(struct iscsi_connection *connection)
{
	const struct receiver *receiver = &connection->receiver;
	struct iscsi_task *task = NULL;

	if (receiver->header.reason == ISCSI_DATA_DIGEST_ERROR) {
		connection_digest_error(connection);
		if (receiver->side_bytes >= ISCSI_HEADER_BYTES &&
		    (receiver->side[0] & 0x3f) == ISCSI_DATA_OUT)
			task = task_of_tag(connection, get_be32(receiver->side + 16));
	}
	if (task != NULL && task->write)
		task->damaged = true;
	else
		connection_break(connection, -EPROTO, "the target rejected a PDU, reason 0x%02x%s",
				 receiver->header.reason,
				 receiver->header.reason == ISCSI_DATA_DIGEST_ERROR
					 ? " (wrong data digest)"
					 : "");
}

static uint32_t
window_now(const struct iscsi_connection *connection)
{
	bool closed = iscsi_before(connection->max_cmd_sn, connection->cmd_sn);

	return closed ? 0 : connection->max_cmd_sn - connection->cmd_sn + 1;
}

/* Command and status numbers (RFC 7143, 4.2.2).  A gap in StatSN is not looked for: what it would
 * mean, a lost answer, is found by the command that never gets it.
 */
static void
note_numbers(struct iscsi_connection *connection)
{
	const struct iscsi_header *header = &connection->receiver.header;

	if (header->counts_stat_sn && !iscsi_before(header->stat_sn, connection->exp_stat_sn))
		connection->exp_stat_sn = header->stat_sn + 1;
	if (iscsi_before(header->max_cmd_sn, header->exp_cmd_sn - 1))
		return;
	if (iscsi_before(connection->max_cmd_sn, header->max_cmd_sn))
		connection->max_cmd_sn = header->max_cmd_sn;
	if (window_now(connection) > connection->widest_window)
		connection->widest_window = window_now(connection);
}

void
answer_whole(struct iscsi_connection *connection)
{
	struct receiver *receiver = &connection->receiver;

	note_numbers(connection);
	switch ((int)receiver->header.opcode) {
	case ISCSI_DATA_IN:
		if (receiver->header.has_status)
			answer_task(connection, receiver->task);
		return;
	case ISCSI_SCSI_RESPONSE:
		answer_response(connection);
		return;
	case ISCSI_R2T:
		answer_r2t(connection);
		return;
	case ISCSI_NOP_IN:
		answer_ping(connection);
		return;
	case ISCSI_TASK_MANAGEMENT_RESPONSE:
		answer_management(connection);
		return;
	case ISCSI_LOGOUT_RESPONSE:
		answer_logout(connection);
		return;
	case ISCSI_ASYNC_MESSAGE:
		answer_message(connection);
		return;
	case ISCSI_REJECT:
		answer_reject(connection);
		return;
	default:
		protocol_error(connection, "a PDU that is not allowed after the login");
		return;
	}
}
