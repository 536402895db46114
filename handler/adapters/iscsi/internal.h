/* iscsi/internal.h - what the files of iscsi_connection share.
 *
 *   connection.c                life of a connection and of its tasks
 *   send.c                      queues -> batch of PDUs -> socket
 *   receive.c                   socket -> headers and data
 *   answer.c                    what each PDU of the target means
 *
 *     submit -> commands -+
 *         R2T -> bursts --+-> batch (headers here, data by reference) -> sendmsg
 *  pings, task mgmt ------+
 */
#ifndef IRAID_ISCSI_INTERNAL_H
#define IRAID_ISCSI_INTERNAL_H

#include "connection.h"

#define BATCH_IOV_MAX 1024 /* IOV_MAX */
#define BATCH_PDUS_MAX 128
#define BATCH_BYTES_MAX (512u << 10) /* a ping's answer waits for no more than this */
#define URGENT_MAX 32
#define RECEIVE_BYTES 65536
#define SIDE_BYTES 512		 /* of sense data and the like; more is thrown away */
#define DATA_IN_BYTES_MAX 262144 /* MaxRecvDataSegmentLength, as login.c declares it */
#define MANAGEMENT_SLOT 0xf0	 /* tags: sequence << 8 | slot */
#define LOGOUT_SLOT 0xf1

struct task_queue {
	struct iscsi_task *first, *last;
};

struct batch { /* PDUs that are on their way, wholly or in part */
	uint64_t number;
	struct iovec iov[BATCH_IOV_MAX];
	int iov_next, iov_count;
	int pdus;
	uint32_t bytes;
	uint8_t headers[BATCH_PDUS_MAX][ISCSI_HEADER_BYTES + ISCSI_DIGEST_BYTES];
	uint8_t tails[BATCH_PDUS_MAX][4 + ISCSI_DIGEST_BYTES]; /* padding and data digest */
};

enum receive_phase { RECEIVE_HEADER, RECEIVE_DATA, RECEIVE_TAIL };

struct receiver {
	enum receive_phase phase;
	uint8_t bytes[RECEIVE_BYTES];
	uint32_t start, end;	    /* of what is not looked at yet */
	struct iscsi_header header; /* of the PDU under way */
	struct iscsi_task *task;    /* whose data it is; NULL: to side */
	uint32_t data_left;
	uint32_t digest;
	uint8_t side[SIDE_BYTES];
	uint32_t side_bytes;
	uint32_t data_in_bytes; /* of the last Data-In: how much to read ahead */
};

struct iscsi_connection {
	int fd;
	struct iscsi_negotiated agreed;
	uint32_t cmd_sn, max_cmd_sn, exp_stat_sn;
	uint32_t widest_window;	  /* seen so far */
	uint32_t longest_data_in; /* the same, bytes of one PDU */
	uint32_t digest_errors;
	struct fault fault; /* its code not 0: broken */

	struct iscsi_task *slots[ISCSI_TASKS_MAX];
	uint8_t free_slots[ISCSI_TASKS_MAX];
	int free_count;
	uint32_t tag_sequence;

	struct task_queue commands;			/* not sent */
	struct task_queue bursts;			/* with data to send */
	struct task_queue held;				/* answered, but see iscsi_task.answered */
	uint8_t urgent[URGENT_MAX][ISCSI_HEADER_BYTES]; /* a ring of immediate commands */
	int urgent_first, urgent_count;

	uint32_t management_tag, logout_tag; /* ISCSI_NO_TAG: none under way */
	void (*management_done)(void *owner, uint8_t response);
	void *management_owner;
	void (*logout_done)(void *owner, uint8_t response);
	void *logout_owner;

	struct batch batch;
	bool blocked;	   /* the socket took no more */
	uint64_t position; /* of the end of the batch in the stream */
	struct receiver receiver;
	uint32_t low_water_bytes; /* with fewer there to read the socket does not wake us */
	uint64_t progress;
	const struct iscsi_task *oldest;
};

/* connection.c */
void connection_break(struct iscsi_connection *connection, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Counts a wrong digest, and breaks the connection if it was one too many. */
void connection_digest_error(struct iscsi_connection *connection);
void queue_append(struct task_queue *queue, struct iscsi_task *task);
struct iscsi_task *queue_take(struct task_queue *queue);
void queue_remove(struct task_queue *queue, struct iscsi_task *task);
/* The answer is in task->scsi: give it back, now or when its memory is not referred to any more. */
void task_answered(struct iscsi_connection *connection, struct iscsi_task *task);
void task_give_back(struct iscsi_connection *connection, struct iscsi_task *task);
struct iscsi_task *task_of_tag(const struct iscsi_connection *connection, uint32_t tag);
uint8_t *urgent_add(struct iscsi_connection *connection);
/* At most *count entries for length bytes from *place, which moves on.  Returns the bytes
 * described.
 */
uint32_t place_take(struct iscsi_place *place, uint32_t length, struct iovec *out, int *count);

/* send.c */
void send_next_burst(struct iscsi_connection *connection, struct iscsi_task *task);

/* receive.c: data of a task that has come, but is not fetched before there is more of it */
uint32_t receive_waiting_bytes(const struct iscsi_connection *connection);

/* answer.c.  False: it makes no sense, and the connection is broken. */
bool answer_header(struct iscsi_connection *connection); /* before its data is received */
void answer_whole(struct iscsi_connection *connection);

#endif
