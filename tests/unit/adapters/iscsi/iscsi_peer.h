/* iscsi_peer.h - for tests of a connection in its full-feature phase: a target that is the test, at
 * the other end of a socketpair, PDU by PDU.
 */
#ifndef IRAID_TEST_ISCSI_PEER_H
#define IRAID_TEST_ISCSI_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapters/iscsi/connection.h"

#define DATA_MAX (1u << 20)
#define POISON 0xa5

extern struct rig {
	struct iscsi_connection *connection;
	int peer;
	struct iscsi_login login;
	uint32_t stat_sn;
	int done, managed;
	uint8_t management_response;
} rig;

extern uint8_t memory[DATA_MAX]; /* of what is submitted */
extern uint8_t seen[DATA_MAX];	 /* what the target was sent by writes */
extern const struct iscsi_negotiated plain;

struct pdu {
	uint8_t header[48];
	uint8_t data[262144];
	uint32_t length;
};

struct job {
	struct iscsi_task task;
	struct scsi_task scsi;
	struct iovec iov[4];
};

/* --- the target's side --- */

uint32_t get_32(const uint8_t *at);
void put_32(uint8_t *at, uint32_t value);
/* False: nothing is there. */
bool peer_receive(struct pdu *pdu);
void flush_and_receive(struct pdu *pdu);
void peer_write(const void *bytes, size_t length);
void start_header(uint8_t out[48], uint8_t opcode, uint8_t flags, uint32_t tag);
/* data: whole words */
void peer_send(uint8_t header[48], const void *data, uint32_t length);
void peer_respond(uint32_t tag, uint8_t response, uint8_t status);
void peer_r2t(uint32_t tag, uint32_t target_tag, uint32_t number, uint32_t offset, uint32_t wanted);
void peer_data_in(uint32_t tag, uint8_t flags, uint32_t number, uint32_t offset, const void *data,
		  uint32_t length);
void peer_ping(uint32_t target_tag);

/* --- our side --- */

void on_managed(void *owner, uint8_t response);
void set_up(struct iscsi_negotiated agreed);
/* On sockets of the caller's: the connection's, the target's. */
void set_up_on(const int sockets[2], struct iscsi_negotiated agreed);
void tear_down(void);
/* In four entries of odd lengths. */
void submit(struct job *job, bool write, uint32_t length);
uint32_t receive_command(void);
int receive(void);
/* Takes Data-Out until one is final; returns how many. */
int receive_burst(uint32_t target_tag, uint32_t offset, uint32_t length);

#endif
