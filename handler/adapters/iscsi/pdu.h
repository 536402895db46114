/* iscsi/pdu.h - the headers of iSCSI's full-feature phase (RFC 7143, section 11).  Pure: bytes in,
 * structs out, and the other way round; no I/O, no allocation, no state.
 *
 * What a target sends is checked here as far as one header can be: its opcode is one that targets
 * send, its lengths are possible.  Whether it fits what was asked is iscsi_connection's business.
 */
#ifndef IRAID_ISCSI_PDU_H
#define IRAID_ISCSI_PDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISCSI_HEADER_BYTES 48
#define ISCSI_AHS_BYTES_MAX 1020
#define ISCSI_DIGEST_BYTES 4
#define ISCSI_CDB_BYTES 16
#define ISCSI_NO_TAG 0xffffffffu

enum iscsi_opcode {
	ISCSI_NOP_OUT = 0x00,
	ISCSI_SCSI_COMMAND = 0x01,
	ISCSI_TASK_MANAGEMENT = 0x02,
	ISCSI_TEXT = 0x04,
	ISCSI_DATA_OUT = 0x05,
	ISCSI_LOGOUT = 0x06,
	ISCSI_NOP_IN = 0x20,
	ISCSI_SCSI_RESPONSE = 0x21,
	ISCSI_TASK_MANAGEMENT_RESPONSE = 0x22,
	ISCSI_LOGIN_RESPONSE = 0x23,
	ISCSI_TEXT_RESPONSE = 0x24,
	ISCSI_DATA_IN = 0x25,
	ISCSI_LOGOUT_RESPONSE = 0x26,
	ISCSI_R2T = 0x31,
	ISCSI_ASYNC_MESSAGE = 0x32,
	ISCSI_REJECT = 0x3f,
};

/* of task management */
enum iscsi_function {
	ISCSI_ABORT_TASK = 1,
	ISCSI_LUN_RESET = 5,
};

#define ISCSI_DATA_DIGEST_ERROR 0x02 /* reason of a Reject (11.17.1) */

/* of an asynchronous message */
enum iscsi_event {
	ISCSI_EVENT_SCSI = 0,
	ISCSI_EVENT_LOGOUT_REQUEST = 1,
	ISCSI_EVENT_CONNECTION_DROP = 2,
	ISCSI_EVENT_SESSION_DROP = 3,
	ISCSI_EVENT_NEGOTIATE = 4,
};

struct iscsi_residual {
	bool underflow, overflow;
	uint32_t bytes;
};

/* A header from the target.  Which of the fields below the line mean something depends on the
 * opcode.
 */
struct iscsi_header {
	enum iscsi_opcode opcode;
	/* follow the 48; then the header digest, the data, padding, its digest */
	uint32_t ahs_bytes;
	uint32_t data_bytes;
	uint32_t tag; /* initiator task tag */
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn;
	bool counts_stat_sn; /* the next PDU of this kind has a higher one */

	uint32_t target_tag;		/* NOP-In, R2T, text response */
	uint8_t lun[8];			/* NOP-In */
	bool final;			/* Data-In, text response */
	bool has_status;		/* Data-In */
	uint8_t response;		/* SCSI, task management, logout response */
	uint8_t status;			/* SCSI response, Data-In with has_status */
	struct iscsi_residual residual; /* the same */
	uint32_t sequence;		/* DataSN, R2TSN */
	uint32_t offset_bytes;		/* Data-In, R2T */
	uint32_t wanted_bytes;		/* R2T */
	uint8_t reason;			/* Reject, asynchronous event */
	bool transit, more;		/* login response: to the next stage; text goes on */
	uint8_t stage, next_stage;	/* login response: 3 is the full-feature phase */
	uint16_t login_status;
};

/* False: no target may send this; *fault says why, a static text. */
bool iscsi_header_decode(const uint8_t bytes[ISCSI_HEADER_BYTES], struct iscsi_header *out,
			 const char **fault);

/* Bytes that follow data to a multiple of four. */
uint32_t iscsi_padding_bytes(uint32_t data_bytes);

/* LUN as eight bytes: peripheral below 256, else flat (SAM-5, 4.7). */
void iscsi_lun_encode(unsigned int lun, uint8_t out[8]);

struct iscsi_numbers { /* in every PDU to the target */
	uint32_t cmd_sn, exp_stat_sn;
};

struct iscsi_command_fields {
	uint8_t lun[8];
	uint32_t tag;
	bool read, write;
	bool final; /* no unsolicited Data-Out follows */
	uint32_t expected_bytes;
	uint32_t immediate_bytes;
	const uint8_t *cdb; /* ISCSI_CDB_BYTES */
};
void iscsi_encode_command(const struct iscsi_command_fields *fields, struct iscsi_numbers numbers,
			  uint8_t out[ISCSI_HEADER_BYTES]);

struct iscsi_data_out_fields {
	uint8_t lun[8];
	uint32_t tag, target_tag; /* target_tag ISCSI_NO_TAG: unsolicited */
	bool final;		  /* of the burst */
	uint32_t data_sn, offset_bytes, data_bytes;
};
void iscsi_encode_data_out(const struct iscsi_data_out_fields *fields, uint32_t exp_stat_sn,
			   uint8_t out[ISCSI_HEADER_BYTES]);

/* These go as immediate commands: they take no command number. */
void iscsi_encode_nop_answer(const struct iscsi_header *nop_in, uint8_t out[ISCSI_HEADER_BYTES]);
void iscsi_encode_management(enum iscsi_function function, const uint8_t lun[8], uint32_t tag,
			     uint32_t referenced_tag, uint32_t referenced_cmd_sn,
			     uint8_t out[ISCSI_HEADER_BYTES]);
void iscsi_encode_logout(uint32_t tag, uint8_t out[ISCSI_HEADER_BYTES]);
void iscsi_encode_text(uint32_t tag, uint32_t target_tag, uint32_t text_bytes,
		       uint8_t out[ISCSI_HEADER_BYTES]);
/* To be called on them when they are sent. */
void iscsi_set_numbers(uint8_t header[ISCSI_HEADER_BYTES], struct iscsi_numbers numbers);

/* CRC32C, in parts: start, add, ..., then encode. */
#define ISCSI_DIGEST_START 0xffffffffu
uint32_t iscsi_digest_add(uint32_t digest, const void *bytes, size_t length);
void iscsi_digest_encode(uint32_t digest, uint8_t out[ISCSI_DIGEST_BYTES]);

/* a before b, as serial numbers (RFC 1982). */
bool iscsi_before(uint32_t a, uint32_t b);

#endif
