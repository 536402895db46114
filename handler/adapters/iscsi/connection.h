/* iscsi/connection.h - the full-feature phase of an iSCSI session with one connection, on a socket
 * that is logged in already (RFC 7143; ErrorRecoveryLevel 0).  docs/design/iscsi.md has the
 * reasons.
 *
 * Nobody is called from inside submit, manage, logout or close.  iscsi_connection_receive() and
 * iscsi_connection_flush() call the done() of what ended; those may submit, but not close.
 *
 * No memory is allocated after creation.  Write data goes from the task's iovecs to the socket,
 * read data from the socket to the task's iovecs; only what came along with a header is copied.
 */
#ifndef IRAID_ISCSI_CONNECTION_H
#define IRAID_ISCSI_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "login.h"
#include "pdu.h"
#include "scsi.h"

#define ISCSI_TASKS_MAX 72 /* under way at once */
#define ISCSI_R2TS_MAX 8   /* of one task, not yet answered */

/* A place in the memory that an array of iovecs describes. */
struct iscsi_place {
	const struct iovec *iov;
	size_t offset; /* in its first entry */
};

struct iscsi_burst { /* of Data-Out */
	uint32_t target_tag, offset_bytes, end_bytes, data_sn;
};

struct iscsi_task {
	/* Set by the submitter.  The iovecs and their memory live until done(), of a read's until
	 * iscsi_task_divert(); the command's outcome is in scsi->status, ->residual* and ->sense.
	 */
	struct scsi_task *scsi;
	unsigned int lun;
	struct iscsi_place data;
	void (*done)(struct iscsi_task *task);

	/* The connection's. */
	struct iscsi_connection *connection; /* NULL: not under way */
	uint32_t tag, cmd_sn, length_bytes;
	bool read, write;
	bool sent; /* the command itself */
	bool diverted;
	/* has its place in the queue of those that have data to send */
	bool bursting;
	bool answered; /* but a PDU with its data is not sent yet */
	/* Of its data something had a wrong digest: the answer can't be GOOD any more. */
	bool damaged;
	uint32_t moved_bytes; /* received, or put into PDUs */
	/* write: up to here the target has, or has asked for, the data */
	uint32_t solicited_bytes;
	uint32_t sequence;	  /* next DataSN or R2TSN from the target */
	struct iscsi_place place; /* of moved_bytes */
	struct iscsi_burst burst;
	struct iscsi_burst r2ts[ISCSI_R2TS_MAX];
	int r2ts_first, r2ts_count;
	uint64_t batch;	       /* the last one that has data of it */
	uint64_t end_position; /* in the stream of bytes sent, of its last PDU so far */
	struct iscsi_task *next;
};

struct iscsi_connection;

/* Takes fd over (also when it fails).  login: a complete one.  NULL: out of memory. */
struct iscsi_connection *iscsi_connection_create(int fd, const struct iscsi_login *login);
/* Closes the socket.  Tasks under way are given back with SCSI_STATUS_CANCELLED first. */
void iscsi_connection_destroy(struct iscsi_connection *connection);

/* At most ISCSI_TASKS_MAX at once.  Nothing is sent before the next flush. */
void iscsi_connection_submit(struct iscsi_connection *connection, struct iscsi_task *task);
/* From now on the memory of this read is left alone. */
void iscsi_task_divert(struct iscsi_task *task);
/* One at a time; task: of ABORT TASK, else NULL.  done: with the response code. */
void iscsi_connection_manage(struct iscsi_connection *connection, enum iscsi_function function,
			     unsigned int lun, const struct iscsi_task *task,
			     void (*done)(void *owner, uint8_t response), void *owner);
/* done: with the response code.  Then the target closes the connection. */
void iscsi_connection_logout(struct iscsi_connection *connection,
			     void (*done)(void *owner, uint8_t response), void *owner);

/* Send what can be sent, receive what is there.  0, or -errno: the connection is of no use any
 * more, and iscsi_connection_fault() says why.
 */
int iscsi_connection_flush(struct iscsi_connection *connection);
int iscsi_connection_receive(struct iscsi_connection *connection);
/* What came with a wrong digest, and what the target said of ours.  A command whose data was damaged
 * ends as scsi_damaged() has it, which asks for a repeat.  The session ends with a damaged header,
 * with anything else than data, or the ISCSI_DIGEST_ERRORS_MAX-th time.
 */
#define ISCSI_DIGEST_ERRORS_MAX 16
uint32_t iscsi_connection_digest_errors(const struct iscsi_connection *connection);
const struct fault *iscsi_connection_fault(const struct iscsi_connection *connection);
/* The socket is full, and there is more: wait for EPOLLOUT. */
bool iscsi_connection_wants_to_send(const struct iscsi_connection *connection);

/* For watching its progress.  Positions count the bytes of our own PDUs: was the task, or data that
 * was asked for, still on its way when those up to there had arrived? What the target's window
 * holds back is not.
 */
bool iscsi_task_leaving(const struct iscsi_task *task, uint64_t position);
/* Goes up with each byte of data that came for a task or, of `oldest`, was asked for (R2T), and by
 * ISCSI_PROGRESS_ANSWER with each answer.  Whatever else comes (pings, messages, headers) is no
 * progress.
 */
#define ISCSI_PROGRESS_ANSWER 4096
uint64_t iscsi_connection_progress(const struct iscsi_connection *connection);
/* The most commands that the target ever let be under way at a time, as far as it could be seen
 * (MaxCmdSN).
 */
uint32_t iscsi_connection_window(const struct iscsi_connection *connection);
/* The most data that the target ever sent in one PDU; its own limit for that is not negotiated. */
uint32_t iscsi_connection_data_in_bytes(const struct iscsi_connection *connection);
void
iscsi_connection_watch_r2ts(struct iscsi_connection *connection, const struct iscsi_task *oldest);

#endif
