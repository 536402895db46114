/* iscsi/connection.c - life of a connection and of its tasks.
 *
 * A task's tag is its slot and a number that is never the same twice in a row, so that an answer
 * that comes late or twice finds nobody.  A task whose answer comes while a PDU with its data is
 * still being sent is held until that PDU is gone: the bytes of a PDU that was begun must follow,
 * and they come from its memory.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void
connection_break(struct iscsi_connection *connection, int error, const char *format, ...)
{
	va_list arguments;

	if (connection->fault.code != 0)
		return; /* the first cause counts */
	va_start(arguments, format);
	fault_vset(&connection->fault, error, "", format, arguments);
	va_end(arguments);
}

void
connection_digest_error(struct iscsi_connection *connection)
{
	if (++connection->digest_errors == ISCSI_DIGEST_ERRORS_MAX)
		connection_break(
			connection, -EPROTO,
			"%d wrong digests in one session: the network, or one of its ends, "
			"corrupts data",
			ISCSI_DIGEST_ERRORS_MAX);
}

uint32_t
iscsi_connection_digest_errors(const struct iscsi_connection *connection)
{
	return connection->digest_errors;
}

const struct fault *
iscsi_connection_fault(const struct iscsi_connection *connection)
{
	return &connection->fault;
}

/* Queues */

void
queue_append(struct task_queue *queue, struct iscsi_task *task)
{
	task->next = NULL;
	if (queue->first == NULL)
		queue->first = task;
	else
		queue->last->next = task;
	queue->last = task;
}

struct iscsi_task *
queue_take(struct task_queue *queue)
{
	struct iscsi_task *task = queue->first;

	if (task != NULL)
		queue->first = task->next;
	return task;
}

void
queue_remove(struct task_queue *queue, struct iscsi_task *task)
{
	struct iscsi_task *before = NULL;

	for (struct iscsi_task *at = queue->first; at != NULL; before = at, at = at->next) {
		if (at != task)
			continue;
		if (before == NULL)
			queue->first = task->next;
		else
			before->next = task->next;
		if (queue->last == task)
			queue->last = before;
		return;
	}
}

/* Places */

uint32_t
place_take(struct iscsi_place *place, uint32_t length, struct iovec *out, int *count)
{
	uint32_t taken = 0;
	int used = 0;

	while (taken < length) {
		size_t available = place->iov->iov_len - place->offset;
		size_t part = available < length - taken ? available : length - taken;

		if (part > 0 && used == *count)
			break;
		if (part > 0)
			out[used++] =
				(struct iovec){ (uint8_t *)place->iov->iov_base + place->offset,
						part };
		taken += (uint32_t)part;
		place->offset += part;
		if (place->offset == place->iov->iov_len && taken < length) {
			place->iov++;
			place->offset = 0;
		}
	}
	*count = used;
	return taken;
}

/* Tasks */

struct iscsi_task *
task_of_tag(const struct iscsi_connection *connection, uint32_t tag)
{
	uint32_t slot = tag & 0xff;
	struct iscsi_task *task = slot < ISCSI_TASKS_MAX ? connection->slots[slot] : NULL;

	return task != NULL && task->tag == tag && task->sent && !task->answered ? task : NULL;
}

static uint32_t
next_tag(struct iscsi_connection *connection, uint32_t slot)
{
	connection->tag_sequence =
		connection->tag_sequence + 1 == 1u << 24 ? 1 : connection->tag_sequence + 1;
	return connection->tag_sequence << 8 | slot;
}

void
iscsi_connection_submit(struct iscsi_connection *connection, struct iscsi_task *task)
{
	struct scsi_task *scsi = task->scsi;
	uint8_t slot;

	assert(connection->free_count > 0 && task->connection == NULL);
	slot = connection->free_slots[--connection->free_count];
	*task = (struct iscsi_task){
		.scsi = scsi,
		.lun = task->lun,
		.data = task->data,
		.done = task->done,
		.connection = connection,
		.tag = next_tag(connection, slot),
		.length_bytes = (uint32_t)scsi->expxferlen,
		.read = scsi->xfer_dir == SCSI_XFER_READ,
		.write = scsi->xfer_dir == SCSI_XFER_WRITE,
		.place = task->data,
	};
	connection->slots[slot] = task;
	queue_append(&connection->commands, task);
}

void
iscsi_task_divert(struct iscsi_task *task)
{
	assert(task->read || task->connection == NULL);
	task->diverted = true;
}

void
task_give_back(struct iscsi_connection *connection, struct iscsi_task *task)
{
	uint8_t slot = task->tag & 0xff;

	connection->slots[slot] = NULL;
	connection->free_slots[connection->free_count++] = slot;
	task->connection = NULL;
	task->done(task);
}

void
task_answered(struct iscsi_connection *connection, struct iscsi_task *task)
{
	const struct batch *batch = &connection->batch;

	if (task->bursting)
		queue_remove(&connection->bursts, task);
	task->bursting = false;
	task->answered = true;
	connection->progress += ISCSI_PROGRESS_ANSWER;
	if (task->batch == batch->number && batch->iov_next < batch->iov_count)
		queue_append(&connection->held, task);
	else
		task_give_back(connection, task);
}

/* Immediate commands */

/* Where to encode one, zeroed; NULL: too many wait. */
uint8_t *
urgent_add(struct iscsi_connection *connection)
{
	int at = (connection->urgent_first + connection->urgent_count) % URGENT_MAX;

	if (connection->urgent_count == URGENT_MAX)
		return NULL;
	connection->urgent_count++;
	return connection->urgent[at];
}

void
iscsi_connection_manage(struct iscsi_connection *connection, enum iscsi_function function,
			unsigned int lun, const struct iscsi_task *task,
			void (*done)(void *owner, uint8_t response), void *owner)
{
	uint8_t *header = urgent_add(connection);
	uint8_t encoded[8];

	assert(connection->management_tag == ISCSI_NO_TAG);
	if (header == NULL) {
		connection_break(connection, -EPROTO, "it sends pings but accepts no answers");
		return;
	}
	connection->management_tag = next_tag(connection, MANAGEMENT_SLOT);
	connection->management_done = done;
	connection->management_owner = owner;
	iscsi_lun_encode(lun, encoded);
	iscsi_encode_management(function, encoded, connection->management_tag,
				task ? task->tag : ISCSI_NO_TAG, task ? task->cmd_sn : 0, header);
}

void
iscsi_connection_logout(struct iscsi_connection *connection,
			void (*done)(void *owner, uint8_t response), void *owner)
{
	uint8_t *header = urgent_add(connection);

	assert(connection->logout_tag == ISCSI_NO_TAG);
	if (header == NULL) {
		connection_break(connection, -EPROTO, "it sends pings but accepts no answers");
		return;
	}
	connection->logout_tag = next_tag(connection, LOGOUT_SLOT);
	connection->logout_done = done;
	connection->logout_owner = owner;
	iscsi_encode_logout(connection->logout_tag, header);
}

/* Progress */

bool
iscsi_task_leaving(const struct iscsi_task *task, uint64_t position)
{
	const struct iscsi_connection *connection = task->connection;

	if (!task->sent)
		return !iscsi_before(connection->max_cmd_sn, connection->cmd_sn);
	return task->bursting || task->end_position > position;
}

uint64_t
iscsi_connection_progress(const struct iscsi_connection *connection)
{
	return connection->progress + receive_waiting_bytes(connection);
}

void
iscsi_connection_watch_r2ts(struct iscsi_connection *connection, const struct iscsi_task *oldest)
{
	connection->oldest = oldest;
}

/* Life */

#define NEAR_US 1000u
#define RECEIVE_WINDOW_BYTES (256u << 10)
#define RECEIVE_BYTES_PER_US 3000u /* 3 GB/s: more than a session moves */

/* Left alone the kernel lets a receive buffer grow to 6 MiB, and a near target fills it: with a
 * packet for each page, if it hands them to the network one by one (LIO), which drop and come
 * again.  Where the window is what such a path can hold, pages wait at the sender and leave
 * together.  Targets that are further away need what the kernel gives.
 */
static void
bound_receive_buffer(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);
	int bytes;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_min_rtt == 0 ||
	    info.tcpi_min_rtt >= NEAR_US)
		return;
	bytes = (int)(RECEIVE_WINDOW_BYTES + info.tcpi_min_rtt * RECEIVE_BYTES_PER_US);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		/* as net.core.rmem_max allows */
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* Else the kernel goes on sending what it holds of commands for minutes after a close(), or after
 * this process was killed, as soon as the path lets it: to a session that its successor does not
 * end if it is in another portal group (RFC 7143, 6.3.5), and perhaps after the reset that is to
 * fence them off.
 */
static void
abort_on_close(int fd, bool on)
{
	const struct linger nothing_more = { .l_onoff = on, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &nothing_more, sizeof(nothing_more));
}

struct iscsi_connection *
iscsi_connection_create(int fd, const struct iscsi_login *login)
{
	struct iscsi_connection *connection = calloc(1, sizeof(*connection));
	int on = 1;

	assert(login->outcome == LOGIN_COMPLETE);
	if (connection == NULL) {
		close(fd);
		return NULL;
	}
	/* PDUs leave as they are batched */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	bound_receive_buffer(fd);
	abort_on_close(fd, true);
	connection->fd = fd;
	connection->low_water_bytes = 1;
	connection->agreed = login->negotiated;
	connection->cmd_sn = login->exp_cmd_sn;
	connection->max_cmd_sn = login->max_cmd_sn;
	if (!iscsi_before(login->max_cmd_sn, login->exp_cmd_sn))
		connection->widest_window = login->max_cmd_sn - login->exp_cmd_sn + 1;
	connection->exp_stat_sn = login->stat_sn + 1;
	connection->management_tag = ISCSI_NO_TAG;
	connection->logout_tag = ISCSI_NO_TAG;
	for (int i = 0; i < ISCSI_TASKS_MAX; i++)
		connection->free_slots[connection->free_count++] =
			(uint8_t)(ISCSI_TASKS_MAX - 1 - i);
	return connection;
}

void
iscsi_connection_destroy(struct iscsi_connection *connection)
{
	if (connection == NULL)
		return;
	if (connection->free_count == ISCSI_TASKS_MAX && connection->management_tag == ISCSI_NO_TAG)
		abort_on_close(connection->fd, false);
	close(connection->fd);
	for (int i = 0; i < ISCSI_TASKS_MAX; i++) {
		struct iscsi_task *task = connection->slots[i];

		if (task == NULL)
			continue;
		/* One that was answered and held keeps its answer. */
		if (!task->answered)
			task->scsi->status = SCSI_STATUS_CANCELLED;
		task_give_back(connection, task);
	}
	free(connection);
}

uint32_t
iscsi_connection_window(const struct iscsi_connection *connection)
{
	return connection->widest_window;
}

uint32_t
iscsi_connection_data_in_bytes(const struct iscsi_connection *connection)
{
	return connection->longest_data_in;
}
