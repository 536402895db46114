/* iscsi/pdu.c - headers of the full-feature phase, and digests.  Offsets are those of RFC 7143,
 * section 11.
 */
#include "pdu.h"
#include "adapters/base/big_endian.h"

#include <limits.h>
#include <string.h>

#include <isa-l/crc.h>

#define FLAG_IMMEDIATE 0x40 /* in the opcode's byte */
#define FLAG_FINAL 0x80
#define FLAG_READ 0x40
#define FLAG_WRITE 0x20
#define ATTRIBUTE_SIMPLE 1
#define FLAG_OVERFLOW 0x04
#define FLAG_UNDERFLOW 0x02
#define FLAG_STATUS 0x01
#define FLAG_MORE_TEXT 0x40

static void
decode_residual(const uint8_t *bytes, struct iscsi_header *out)
{
	out->residual.overflow = bytes[1] & FLAG_OVERFLOW;
	out->residual.underflow = bytes[1] & FLAG_UNDERFLOW;
	out->residual.bytes = get_be32(bytes + 44);
}

static void
decode_data_in(const uint8_t *bytes, struct iscsi_header *out)
{
	out->final = bytes[1] & FLAG_FINAL;
	out->has_status = bytes[1] & FLAG_STATUS;
	out->counts_stat_sn = out->has_status;
	out->sequence = get_be32(bytes + 36);
	out->offset_bytes = get_be32(bytes + 40);
	if (out->has_status) {
		out->status = bytes[3];
		decode_residual(bytes, out);
	}
}

static void
decode_r2t(const uint8_t *bytes, struct iscsi_header *out)
{
	out->target_tag = get_be32(bytes + 20);
	out->counts_stat_sn = false;
	out->sequence = get_be32(bytes + 36);
	out->offset_bytes = get_be32(bytes + 40);
	out->wanted_bytes = get_be32(bytes + 44);
}

static void
decode_login(const uint8_t *bytes, struct iscsi_header *out)
{
	out->transit = bytes[1] & FLAG_FINAL;
	out->more = bytes[1] & FLAG_MORE_TEXT;
	out->stage = bytes[1] >> 2 & 3;
	out->next_stage = bytes[1] & 3;
	out->login_status = get_be16(bytes + 36);
}

static bool
decode_kind(const uint8_t *bytes, struct iscsi_header *out)
{
	switch ((int)out->opcode) {
	case ISCSI_NOP_IN:
		out->target_tag = get_be32(bytes + 20);
		out->counts_stat_sn = out->tag != ISCSI_NO_TAG;
		memcpy(out->lun, bytes + 8, sizeof(out->lun));
		return true;
	case ISCSI_SCSI_RESPONSE:
		out->response = bytes[2];
		out->status = bytes[3];
		decode_residual(bytes, out);
		return true;
	case ISCSI_TASK_MANAGEMENT_RESPONSE:
	case ISCSI_LOGOUT_RESPONSE:
		out->response = bytes[2];
		return true;
	case ISCSI_LOGIN_RESPONSE:
		decode_login(bytes, out);
		return true;
	case ISCSI_TEXT_RESPONSE:
		out->final = bytes[1] & FLAG_FINAL;
		out->target_tag = get_be32(bytes + 20);
		return true;
	case ISCSI_DATA_IN:
		decode_data_in(bytes, out);
		return true;
	case ISCSI_R2T:
		decode_r2t(bytes, out);
		return true;
	case ISCSI_ASYNC_MESSAGE:
		out->reason = bytes[36];
		return true;
	case ISCSI_REJECT:
		out->reason = bytes[2];
		return true;
	default:
		return false;
	}
}

bool
iscsi_header_decode(const uint8_t bytes[ISCSI_HEADER_BYTES], struct iscsi_header *out,
		    const char **fault)
{
	*out = (struct iscsi_header){
		.opcode = bytes[0] & 0x3f,
		.ahs_bytes = bytes[4] * 4u,
		.data_bytes = get_be24(bytes + 5),
		.tag = get_be32(bytes + 16),
		.stat_sn = get_be32(bytes + 24),
		.exp_cmd_sn = get_be32(bytes + 28),
		.max_cmd_sn = get_be32(bytes + 32),
		.counts_stat_sn = true,
	};
	if (!decode_kind(bytes, out)) {
		*fault = "it sent a PDU that targets may not send";
		return false;
	}
	if (out->opcode == ISCSI_R2T && (out->data_bytes != 0 || out->wanted_bytes == 0)) {
		*fault = "it sent an invalid R2T";
		return false;
	}
	return true;
}

uint32_t
iscsi_padding_bytes(uint32_t data_bytes)
{
	return -data_bytes & 3;
}

void
iscsi_lun_encode(unsigned int lun, uint8_t out[8])
{
	memset(out, 0, 8);
	out[0] = (uint8_t)(lun < 256 ? 0 : 0x40 | (lun >> 8 & 0x3f));
	out[1] = (uint8_t)lun;
}

static void
put_header(uint8_t *out, uint8_t opcode, uint8_t flags, uint32_t data_bytes, uint32_t tag)
{
	memset(out, 0, ISCSI_HEADER_BYTES);
	out[0] = opcode;
	out[1] = flags;
	put_be24(out + 5, data_bytes);
	put_be32(out + 16, tag);
}

void
iscsi_set_numbers(uint8_t header[ISCSI_HEADER_BYTES], struct iscsi_numbers numbers)
{
	put_be32(header + 24, numbers.cmd_sn);
	put_be32(header + 28, numbers.exp_stat_sn);
}

void
iscsi_encode_command(const struct iscsi_command_fields *fields, struct iscsi_numbers numbers,
		     uint8_t out[ISCSI_HEADER_BYTES])
{
	uint8_t flags = ATTRIBUTE_SIMPLE;

	flags |= fields->final ? FLAG_FINAL : 0;
	flags |= fields->read ? FLAG_READ : 0;
	flags |= fields->write ? FLAG_WRITE : 0;
	put_header(out, ISCSI_SCSI_COMMAND, flags, fields->immediate_bytes, fields->tag);
	memcpy(out + 8, fields->lun, 8);
	put_be32(out + 20, fields->expected_bytes);
	iscsi_set_numbers(out, numbers);
	memcpy(out + 32, fields->cdb, ISCSI_CDB_BYTES);
}

void
iscsi_encode_data_out(const struct iscsi_data_out_fields *fields, uint32_t exp_stat_sn,
		      uint8_t out[ISCSI_HEADER_BYTES])
{
	put_header(out, ISCSI_DATA_OUT, fields->final ? FLAG_FINAL : 0, fields->data_bytes,
		   fields->tag);
	memcpy(out + 8, fields->lun, 8);
	put_be32(out + 20, fields->target_tag);
	put_be32(out + 28, exp_stat_sn);
	put_be32(out + 36, fields->data_sn);
	put_be32(out + 40, fields->offset_bytes);
}

void
iscsi_encode_nop_answer(const struct iscsi_header *nop_in, uint8_t out[ISCSI_HEADER_BYTES])
{
	put_header(out, ISCSI_NOP_OUT | FLAG_IMMEDIATE, FLAG_FINAL, 0, ISCSI_NO_TAG);
	memcpy(out + 8, nop_in->lun, 8);
	put_be32(out + 20, nop_in->target_tag);
}

void
iscsi_encode_management(enum iscsi_function function, const uint8_t lun[8], uint32_t tag,
			uint32_t referenced_tag, uint32_t referenced_cmd_sn,
			uint8_t out[ISCSI_HEADER_BYTES])
{
	put_header(out, ISCSI_TASK_MANAGEMENT | FLAG_IMMEDIATE, (uint8_t)(FLAG_FINAL | function), 0,
		   tag);
	memcpy(out + 8, lun, 8);
	put_be32(out + 20, referenced_tag);
	put_be32(out + 32, referenced_cmd_sn);
}

void
iscsi_encode_logout(uint32_t tag, uint8_t out[ISCSI_HEADER_BYTES])
{
	/* Reason 0: the whole session. */
	put_header(out, ISCSI_LOGOUT | FLAG_IMMEDIATE, FLAG_FINAL, 0, tag);
}

void
iscsi_encode_text(uint32_t tag, uint32_t target_tag, uint32_t text_bytes,
		  uint8_t out[ISCSI_HEADER_BYTES])
{
	put_header(out, ISCSI_TEXT | FLAG_IMMEDIATE, FLAG_FINAL, text_bytes, tag);
	put_be32(out + 20, target_tag);
}

uint32_t
iscsi_digest_add(uint32_t digest, const void *bytes, size_t length)
{
	unsigned char *at = (unsigned char *)(uintptr_t)bytes; /* isa-l only reads it */

	for (; length > INT_MAX; length -= INT_MAX, at += INT_MAX)
		digest = crc32_iscsi(at, INT_MAX, digest);
	return crc32_iscsi(at, (int)length, digest);
}

void
iscsi_digest_encode(uint32_t digest, uint8_t out[ISCSI_DIGEST_BYTES])
{
	digest = ~digest;
	for (int i = 0; i < ISCSI_DIGEST_BYTES; i++)
		out[i] = (uint8_t)(digest >> (8 * i));
}

bool
iscsi_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}
