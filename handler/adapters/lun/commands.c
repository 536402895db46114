/* lun/commands.c - see commands.h.  REPORT SUPPORTED OPERATION CODES shows the table. */
#include "commands.h"

#include "adapters/base/big_endian.h"

#include <string.h>

/* clang-format off */
/* Usage of a CDB whose block address and number of blocks stand where its length says. */
#define ALL_4 0xff, 0xff, 0xff, 0xff
#define RANGE_6(flags) { flags | 0x1f, 0xff, 0xff, 0xff }
#define RANGE_10(flags) { flags, ALL_4, 0, 0xff, 0xff }
#define RANGE_12(flags) { flags, ALL_4, ALL_4 }
#define RANGE_16(flags) { flags, ALL_4, ALL_4, ALL_4 }

#define TRANSFER 0xf8	/* RDPROTECT or WRPROTECT, DPO, FUA; WRITE SAME: ANCHOR, UNMAP */
#define VERIFY 0xf6	/* the same protection, DPO, BYTCHK */
#define IMMED 0x02
#define STANDBY .on_standby = true

#define ALLOCATION_16(flags) { flags, 0, 0, 0, 0, 0, 0, 0, 0, ALL_4 }
/* clang-format on */

#define OPCODE_REQUEST_SENSE 0x03
#define OPCODE_INQUIRY 0x12
#define OPCODE_REPORT_LUNS 0xa0
#define OPCODE_MAINTENANCE_IN 0xa3

static uint16_t
kernel_answers(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes)
{
	return ASC_INVALID_OPCODE; /* it does so before they come here */
}

/* clang-format off */
#define RESERVE_IN(action, name) \
	{ 0x5e, action, "PERSISTENT RESERVE IN, " name, { action, 0, 0, 0, 0, 0, 0xff, 0xff }, \
	  .check = kernel_answers, STANDBY }
#define RESERVE_OUT(action, name) \
	{ 0x5f, action, "PERSISTENT RESERVE OUT, " name, { action, 0xff, 0, 0, ALL_4 }, \
	  .check = kernel_answers, STANDBY }
/* clang-format on */

static lun_answer_function report_opcodes;

/* clang-format off */
const struct scsi_command scsi_commands[] = {
	{ 0x00, NO_ACTION, "TEST UNIT READY", { 0 }, .answer = lun_test_unit_ready, STANDBY },
	{ 0x03, NO_ACTION, "REQUEST SENSE", { 0x01, 0, 0, 0xff }, .answer = lun_request_sense, STANDBY },
	{ 0x08, NO_ACTION, "READ(6)", RANGE_6(0), .begin = lun_begin_read },
	{ 0x0a, NO_ACTION, "WRITE(6)", RANGE_6(0), .begin = lun_begin_write },
	{ 0x12, NO_ACTION, "INQUIRY", { 0x01, 0xff, 0xff, 0xff }, .answer = lun_inquiry, STANDBY },
	{ 0x15, NO_ACTION, "MODE SELECT(6)",
	  { 0x11, 0, 0, 0xff }, .begin = lun_begin_mode_select, STANDBY },
	{ 0x16, NO_ACTION, "RESERVE(6)", { 0 }, .check = kernel_answers, STANDBY },
	{ 0x17, NO_ACTION, "RELEASE(6)", { 0 }, .check = kernel_answers, STANDBY },
	{ 0x1a, NO_ACTION, "MODE SENSE(6)", { 0x08, 0xff, 0xff, 0xff }, .answer = lun_mode_sense, STANDBY },
	{ 0x1b, NO_ACTION, "START STOP UNIT", { 0x01, 0, 0x0f, 0xf3 }, .answer = lun_start_stop },
	{ 0x25, NO_ACTION, "READ CAPACITY(10)", { 0 }, .answer = lun_read_capacity_10, STANDBY },
	{ 0x28, NO_ACTION, "READ(10)", RANGE_10(TRANSFER), .check = lun_check_transfer },
	{ 0x2a, NO_ACTION, "WRITE(10)", RANGE_10(TRANSFER), .check = lun_check_transfer },
	{ 0x2e, NO_ACTION, "WRITE AND VERIFY(10)",
	  RANGE_10(VERIFY), .begin = lun_begin_write_verify },
	{ 0x2f, NO_ACTION, "VERIFY(10)", RANGE_10(VERIFY), .begin = lun_begin_verify },
	{ 0x34, NO_ACTION, "PRE-FETCH(10)", RANGE_10(IMMED), .answer = lun_prefetch },
	{ 0x35, NO_ACTION, "SYNCHRONIZE CACHE(10)", RANGE_10(IMMED), .check = lun_check_range },
	{ 0x41, NO_ACTION, "WRITE SAME(10)", RANGE_10(TRANSFER), .begin = lun_begin_write_same },
	{ 0x42, NO_ACTION, "UNMAP", { 0x01, 0, 0, 0, 0, 0, 0xff, 0xff }, .begin = lun_begin_unmap },
	{ 0x55, NO_ACTION, "MODE SELECT(10)",
	  { 0x11, 0, 0, 0, 0, 0, 0xff, 0xff }, .begin = lun_begin_mode_select, STANDBY },
	{ 0x5a, NO_ACTION, "MODE SENSE(10)",
	  { 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff }, .answer = lun_mode_sense, STANDBY },
	RESERVE_IN(0x00, "READ KEYS"),
	RESERVE_IN(0x01, "READ RESERVATION"),
	RESERVE_IN(0x02, "REPORT CAPABILITIES"),
	RESERVE_IN(0x03, "READ FULL STATUS"),
	RESERVE_OUT(0x00, "REGISTER"),
	RESERVE_OUT(0x01, "RESERVE"),
	RESERVE_OUT(0x02, "RELEASE"),
	RESERVE_OUT(0x03, "CLEAR"),
	RESERVE_OUT(0x04, "PREEMPT"),
	RESERVE_OUT(0x05, "PREEMPT AND ABORT"),
	RESERVE_OUT(0x06, "REGISTER AND IGNORE EXISTING KEY"),
	RESERVE_OUT(0x07, "REGISTER AND MOVE"),
	{ 0x83, 0x00, "EXTENDED COPY(LID1)",
	  ALLOCATION_16(0x1f), .begin = lun_begin_copy, .judges_action = true },
	{ 0x84, 0x03, "RECEIVE COPY RESULTS, OPERATING PARAMETERS",
	  ALLOCATION_16(0x1f), .answer = lun_receive_copy_results, .judges_action = true },
	{ 0x88, NO_ACTION, "READ(16)", RANGE_16(TRANSFER), .check = lun_check_transfer },
	{ 0x89, NO_ACTION, "COMPARE AND WRITE",
	  { TRANSFER, ALL_4, ALL_4, 0, 0, 0, 0xff }, .begin = lun_begin_compare_and_write },
	{ 0x8e, NO_ACTION, "WRITE AND VERIFY(16)",
	  RANGE_16(VERIFY), .begin = lun_begin_write_verify },
	{ 0x8f, NO_ACTION, "VERIFY(16)", RANGE_16(VERIFY), .begin = lun_begin_verify },
	{ 0x90, NO_ACTION, "PRE-FETCH(16)", RANGE_16(IMMED), .answer = lun_prefetch },
	{ 0x93, NO_ACTION, "WRITE SAME(16)",
	  RANGE_16(TRANSFER), .begin = lun_begin_write_same },
	{ 0x8a, NO_ACTION, "WRITE(16)", RANGE_16(TRANSFER), .check = lun_check_transfer },
	{ 0x91, NO_ACTION, "SYNCHRONIZE CACHE(16)", RANGE_16(IMMED), .check = lun_check_range },
	{ 0x9e, 0x10, "READ CAPACITY(16)", ALLOCATION_16(0x10), .answer = lun_read_capacity_16, STANDBY },
	{ 0x9e, 0x12, "GET LBA STATUS", RANGE_16(0x12), .answer = lun_get_lba_status },
	{ 0xa0, NO_ACTION, "REPORT LUNS", { 0, 0xff, 0, 0, 0, ALL_4 }, .check = kernel_answers, STANDBY },
	{ 0xa3, 0x0a, "REPORT TARGET PORT GROUPS",
	  { 0xea, 0, 0, 0, 0, ALL_4 }, .answer = lun_report_groups, STANDBY, .in_pair = true },
	{ 0xa3, 0x0c, "REPORT SUPPORTED OPERATION CODES",
	  { 0x0c, 0x87, 0xff, ALL_4, 0xff, 0xff }, .answer = report_opcodes, STANDBY },
	{ 0xa8, NO_ACTION, "READ(12)", RANGE_12(TRANSFER), .check = lun_check_transfer },
	{ 0xae, NO_ACTION, "WRITE AND VERIFY(12)",
	  RANGE_12(VERIFY), .begin = lun_begin_write_verify },
	{ 0xaf, NO_ACTION, "VERIFY(12)", RANGE_12(VERIFY), .begin = lun_begin_verify },
	{ 0xaa, NO_ACTION, "WRITE(12)", RANGE_12(TRANSFER), .check = lun_check_transfer },
	{ .name = NULL },
};
/* clang-format on */

const struct scsi_command *
scsi_find_command(const uint8_t *cdb)
{
	const uint8_t action = cdb[1] & 0x1f;

	for (const struct scsi_command *command = scsi_commands; command->name; command++)
		if (command->opcode == cdb[0] &&
		    (command->action == action || command->action == NO_ACTION ||
		     command->judges_action))
			return command;
	return NULL;
}

static bool
is_there(const struct scsi_unit *unit, const struct scsi_command *command)
{
	return !command->in_pair || unit->gateway != 0;
}

bool
scsi_works_on_standby(const uint8_t *cdb)
{
	const struct scsi_command *command = scsi_find_command(cdb);

	return command && command->on_standby;
}

bool
scsi_asks_of_pair(const uint8_t *cdb)
{
	return cdb[0] == OPCODE_INQUIRY || cdb[0] == OPCODE_MAINTENANCE_IN;
}

bool
scsi_tells_attention(const uint8_t *cdb)
{
	return cdb[0] != OPCODE_INQUIRY && cdb[0] != OPCODE_REPORT_LUNS;
}

void
scsi_emulate(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes,
	     struct lun_answer *out)
{
	const struct scsi_command *command = scsi_find_command(cdb);
	uint16_t asc = ASC_INVALID_OPCODE;

	if (command && !is_there(unit, command))
		command = NULL;
	out->length = 0;
	if (unit->attention && scsi_tells_attention(cdb) && cdb[0] != OPCODE_REQUEST_SENSE) {
		scsi_refuse(out, SENSE_UNIT_ATTENTION, unit->attention);
		return;
	}
	if (command && unit->not_ready == ASC_STANDBY && !command->on_standby) {
		scsi_refuse(out, SENSE_NOT_READY, ASC_STANDBY);
		return;
	}
	if (command && command->begin) {
		out->verdict = LUN_JOB;
		return;
	}
	if (command && command->answer) {
		memset(out->data, 0, sizeof(out->data));
		command->answer(unit, cdb, out);
		return;
	}
	if (command)
		asc = command->check(unit, cdb, data_bytes);
	out->verdict = LUN_PASS;
	if (asc != 0)
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, asc);
}

/* --- REPORT SUPPORTED OPERATION CODES --- */

/* Command timeouts descriptor: none is indicated. */
static uint32_t
put_timeouts(uint8_t *data)
{
	put_be(data, 2, 10);
	return 12;
}

static uint32_t
report_all(const struct scsi_unit *unit, bool timeouts, uint8_t *data)
{
	uint32_t length = 4;

	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		uint8_t *entry = data + length;

		if (!is_there(unit, command))
			continue;
		entry[0] = command->opcode;
		if (command->action != NO_ACTION) {
			put_be(entry + 2, 2, command->action);
			entry[5] |= 0x01; /* SERVACTV */
		}
		put_be(entry + 6, 2, lun_cdb_length(command->opcode));
		length += 8;
		if (timeouts) {
			entry[5] |= 0x02; /* CTDP */
			length += put_timeouts(data + length);
		}
	}
	put_be(data, 4, length - 4);
	return length;
}

static uint32_t
report_one(const struct scsi_command *command, bool timeouts, uint8_t *data)
{
	uint32_t length;

	if (!command) {
		data[1] = 0x01; /* not supported */
		return 4;
	}
	data[1] = 0x03; /* as the standard has it */
	length = lun_cdb_length(command->opcode);
	put_be(data + 2, 2, length);
	data[4] = command->opcode;
	memcpy(data + 5, command->usage, length - 1);
	length += 4;
	if (timeouts) {
		data[1] |= 0x80;
		length += put_timeouts(data + length);
	}
	return length;
}

static void
report_opcodes(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	uint8_t options = cdb[2] & 0x07, opcode = cdb[3];
	uint64_t action = get_be(cdb + 4, 2), allocation = get_be(cdb + 6, 4);
	bool timeouts = cdb[2] & 0x80, has_actions = false, known = false;
	const struct scsi_command *found = NULL;

	if (options == 0) {
		scsi_answer_cut(out, report_all(unit, timeouts, out->data), allocation);
		return;
	}
	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		if (command->opcode != opcode || !is_there(unit, command))
			continue;
		known = true;
		has_actions = command->action != NO_ACTION;
		if (!has_actions || command->action == action)
			found = command;
	}
	/* 1: by operation code alone, 2: with a service action, 3: either (SPC-4 6.35.1). */
	if (options > 3 ||
	    (known && ((options == 1 && has_actions) || (options == 2 && !has_actions)))) {
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	scsi_answer_cut(out, report_one(found, timeouts, out->data), allocation);
}
