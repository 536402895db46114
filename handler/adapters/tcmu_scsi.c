/* tcmu_scsi.c - see tcmu_scsi.h.  SPC-4 and SBC-3; one table says which commands there are, and
 * REPORT SUPPORTED OPERATION CODES shows that very table.
 *
 * The LUN's name is made of the volume's UUID alone:
 *   - serial number (VPD 80h): its 32 hexadecimal digits
 *   - NAA locally assigned (VPD 83h, SPC-4 7.8.6.6.4): 3h and 60 bits of it.  NAA 5h and 6h begin
 *     with an IEEE company id, and we have none; to use another's, as LIO does with that of
 *     OpenFabrics, risks names that somebody else gives too.
 *   - T10 vendor identification: vendor and the whole UUID
 * The configuration string is not shown to initiators.
 */
#include <stdio.h>
#include <string.h>

#include "tcmu_copy.h"
#include "tcmu_scsi.h"

#define VENDOR "IRAID   "
#define ANY_ACTION 0xff			/* no service action */
#define PHYSICAL_BLOCK_BYTES 4096u
#define OPTIMAL_BYTES_MIN (1u << 20)	/* optimal transfer length, rounded up to whole rows */

#define OP_TEST_UNIT_READY 0x00
#define OP_REQUEST_SENSE 0x03
#define OP_INQUIRY 0x12
#define OP_MODE_SENSE_6 0x1a
#define OP_START_STOP 0x1b
#define OP_READ_CAPACITY_10 0x25
#define OP_READ_10 0x28
#define OP_WRITE_10 0x2a
#define OP_SYNC_10 0x35
#define OP_MODE_SENSE_10 0x5a
#define OP_PREFETCH_10 0x34
#define OP_PREFETCH_16 0x90
#define OP_READ_16 0x88
#define OP_WRITE_16 0x8a
#define OP_SYNC_16 0x91
#define OP_SERVICE_IN_16 0x9e
#define OP_MAINTENANCE_IN 0xa3
#define OP_READ_12 0xa8
#define OP_WRITE_12 0xaa
#define ACTION_READ_CAPACITY_16 0x10
#define ACTION_REPORT_OPCODES 0x0c
#define OP_RECEIVE_COPY_RESULTS 0x84
#define ACTION_OPERATING_PARAMETERS 0x03

struct command {
	uint8_t opcode;
	uint8_t action;		/* ANY_ACTION if it has none */
	uint8_t length;		/* of the CDB */
	uint8_t usage[16];	/* bits that are looked at (SPC-4 6.35.3) */
};

/* Those without a case in scsi_emulate() are answered by the kernel before they come here. */
static const struct command commands[] = {
	{ OP_TEST_UNIT_READY, ANY_ACTION, 6, { 0x00 } },
	{ OP_REQUEST_SENSE, ANY_ACTION, 6, { 0x03, 0x01, 0, 0, 0xff } },
	{ OP_READ_6, ANY_ACTION, 6, { 0x08, 0x1f, 0xff, 0xff, 0xff } },
	{ OP_WRITE_6, ANY_ACTION, 6, { 0x0a, 0x1f, 0xff, 0xff, 0xff } },
	{ OP_INQUIRY, ANY_ACTION, 6, { 0x12, 0x01, 0xff, 0xff, 0xff } },
	{ 0x16, ANY_ACTION, 6, { 0x16 } },	/* RESERVE(6), kernel */
	{ 0x17, ANY_ACTION, 6, { 0x17 } },	/* RELEASE(6), kernel */
	{ OP_MODE_SENSE_6, ANY_ACTION, 6, { 0x1a, 0x08, 0xff, 0xff, 0xff } },
	{ OP_START_STOP, ANY_ACTION, 6, { 0x1b, 0x01, 0, 0x0f, 0xf3 } },
	{ OP_READ_CAPACITY_10, ANY_ACTION, 10, { 0x25 } },
	{ OP_READ_10, ANY_ACTION, 10, { 0x28, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_WRITE_10, ANY_ACTION, 10, { 0x2a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_WRITE_VERIFY_10, ANY_ACTION, 10, { 0x2e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_VERIFY_10, ANY_ACTION, 10, { 0x2f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_PREFETCH_10, ANY_ACTION, 10, { 0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_SYNC_10, ANY_ACTION, 10, { 0x35, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_WRITE_SAME_10, ANY_ACTION, 10, { 0x41, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff } },
	{ OP_UNMAP, ANY_ACTION, 10, { 0x42, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff } },
	{ OP_MODE_SENSE_10, ANY_ACTION, 10, { 0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff } },
	/* PERSISTENT RESERVE IN and OUT, kernel */
	{ 0x5e, 0x00, 10, { 0x5e, 0x00, 0, 0, 0, 0, 0, 0xff, 0xff } },
	{ 0x5e, 0x01, 10, { 0x5e, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff } },
	{ 0x5e, 0x02, 10, { 0x5e, 0x02, 0, 0, 0, 0, 0, 0xff, 0xff } },
	{ 0x5e, 0x03, 10, { 0x5e, 0x03, 0, 0, 0, 0, 0, 0xff, 0xff } },
	{ 0x5f, 0x00, 10, { 0x5f, 0x00, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x01, 10, { 0x5f, 0x01, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x02, 10, { 0x5f, 0x02, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x03, 10, { 0x5f, 0x03, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x04, 10, { 0x5f, 0x04, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x05, 10, { 0x5f, 0x05, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x06, 10, { 0x5f, 0x06, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0x5f, 0x07, 10, { 0x5f, 0x07, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ OP_EXTENDED_COPY, 0x00, 16, { 0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ OP_RECEIVE_COPY_RESULTS, ACTION_OPERATING_PARAMETERS, 16,
	  { 0x84, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ OP_READ_16, ANY_ACTION, 16, { 0x88, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff, 0xff, 0xff, 0xff } },
	{ OP_COMPARE_AND_WRITE, ANY_ACTION, 16, { 0x89, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff } },
	{ OP_WRITE_VERIFY_16, ANY_ACTION, 16, { 0x8e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_VERIFY_16, ANY_ACTION, 16, { 0x8f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_PREFETCH_16, ANY_ACTION, 16, { 0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_WRITE_SAME_16, ANY_ACTION, 16, { 0x93, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_WRITE_16, ANY_ACTION, 16, { 0x8a, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0xff } },
	{ OP_SYNC_16, ANY_ACTION, 16, { 0x91, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff, 0xff, 0xff, 0xff } },
	{ OP_SERVICE_IN_16, ACTION_READ_CAPACITY_16, 16,
	  { 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff } },
	{ 0xa0, ANY_ACTION, 12, { 0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff } },	/* REPORT LUNS, kernel */
	{ OP_MAINTENANCE_IN, ACTION_REPORT_OPCODES, 12,
	  { 0xa3, 0x0c, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_READ_12, ANY_ACTION, 12, { 0xa8, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_WRITE_VERIFY_12, ANY_ACTION, 12, { 0xae, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_VERIFY_12, ANY_ACTION, 12, { 0xaf, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	{ OP_WRITE_12, ANY_ACTION, 12, { 0xaa, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static uint64_t
get(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	for (int i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static void
put(uint8_t *bytes, int count, uint64_t value)
{
	for (int i = count - 1; i >= 0; i--) {
		bytes[i] = (uint8_t)value;
		value >>= 8;
	}
}

static void
refuse(struct scsi_answer *out, uint8_t key, uint16_t asc)
{
	out->verdict = SCSI_CHECK;
	out->key = key;
	out->asc = asc;
	out->length = 0;
}

/* length bytes of data[] stand ready; the initiator asked for at most allocation_bytes. */
static void
answer(struct scsi_answer *out, uint32_t length, uint64_t allocation_bytes)
{
	out->verdict = SCSI_GOOD;
	out->length = allocation_bytes < length ? (uint32_t)allocation_bytes : length;
}

static void
put_hex(uint8_t *out, const uint8_t uuid[16])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++) {
		out[2 * i] = (uint8_t)digits[uuid[i] >> 4];
		out[2 * i + 1] = (uint8_t)digits[uuid[i] & 15];
	}
}

/* --- INQUIRY --- */

/* Sixteen characters. */
static const char *
product_of(int level)
{
	switch (level) {
	case 0:
		return "S-iRAID volume  ";
	case 5:
		return "P-iRAID volume  ";
	}
	return "iRAID volume    ";
}

static uint32_t
standard_inquiry(const struct scsi_unit *unit, uint8_t *data)
{
	static const uint16_t versions[] = { 0x00a0, 0x0960, 0x0460, 0x04c0 };	/* SAM-5 iSCSI SPC-4 SBC-3 */
	char revision[5];

	data[2] = 0x06;		/* SPC-4 */
	data[3] = 0x02;		/* response data format */
	data[4] = 74 - 5;
	data[5] = 0x08;		/* third-party copy; no ALUA, which one gateway does not need */
	data[7] = 0x02;		/* CMDQUE */
	memcpy(data + 8, VENDOR, 8);
	memcpy(data + 16, product_of(unit->level), 16);
	snprintf(revision, sizeof(revision), "%-4.4s", IRAID_VERSION);
	memcpy(data + 32, revision, 4);
	for (int i = 0; i < 4; i++)
		put(data + 58 + 2 * i, 2, versions[i]);
	return 74;
}

static uint32_t
vpd_identification(const struct scsi_unit *unit, uint8_t *data)
{
	uint8_t *designator = data + 4;

	designator[0] = 0x01;	/* binary */
	designator[1] = 0x03;	/* of the LUN, NAA */
	designator[3] = 8;
	scsi_put_naa(unit, designator + 4);
	designator += 12;

	designator[0] = 0x02;	/* ASCII */
	designator[1] = 0x01;	/* of the LUN, T10 vendor identification */
	designator[3] = 8 + 32;
	memcpy(designator + 4, VENDOR, 8);
	put_hex(designator + 12, unit->uuid);
	designator += 4 + 40;
	return (uint32_t)(designator - data) - 4;
}

static uint32_t
vpd_block_limits(const struct scsi_unit *unit, uint8_t *data)
{
	uint32_t chunk = unit->chunk_bytes / unit->block_bytes;
	uint32_t row = unit->row_bytes / unit->block_bytes;
	uint32_t wanted = OPTIMAL_BYTES_MIN / unit->block_bytes;
	uint32_t most = unit->transfer_blocks_max;
	uint32_t optimal = 0;

	/* Writes of whole rows need no read: file systems align to what stands here.  Linux makes no
	 * command longer than that, so it is as many rows as make a command worth its cost.  A row
	 * that is longer than a command can be gives way to whole chunks. */
	if (row != 0 && row <= most) {
		uint32_t rows = (wanted + row - 1) / row;

		optimal = row * (rows <= most / row ? rows : most / row);
	} else if (chunk != 0 && chunk <= most) {
		optimal = most / chunk * chunk;
	}
	put(data + 6, 2, chunk <= 0xffff ? chunk : 0);
	put(data + 8, 4, most);
	put(data + 12, 4, optimal);
	data[5] = (uint8_t)(COMPARE_WRITE_BYTES_MAX / unit->block_bytes);
	put(data + 20, 4, UNMAP_BYTES_MAX / unit->block_bytes);
	put(data + 24, 4, UNMAP_DESCRIPTORS_MAX);
	/* Whole rows are zeroed without a read, and are what members can give back. */
	put(data + 28, 4, row != 0 ? row : 1);
	put(data + 32, 4, 1u << 31);	/* UGAVALID: counted from block 0 */
	put(data + 36, 8, WRITE_SAME_BYTES_MAX / unit->block_bytes);
	return 0x3c;
}

static uint32_t
vpd_provisioning(uint8_t *data)
{
	/* LBPU, LBPWS, LBPWS10, LBPRZ; nothing is anchored.  Thin or not, members know: no provisioning type is told. */
	data[5] = 0x80 | 0x40 | 0x20 | 0x04;
	return 4;
}

static void
inquiry(const struct scsi_unit *unit, const uint8_t *cdb, struct scsi_answer *out)
{
	static const uint8_t pages[] = { 0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2 };
	uint64_t allocation = get(cdb + 3, 2);
	uint32_t length;

	if (!(cdb[1] & 0x01)) {
		if (cdb[1] != 0 || cdb[2] != 0)
			refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		else
			answer(out, standard_inquiry(unit, out->data), allocation);
		return;
	}
	switch (cdb[2]) {
	case 0x00:
		memcpy(out->data + 4, pages, sizeof(pages));
		length = sizeof(pages);
		break;
	case 0x80:
		put_hex(out->data + 4, unit->uuid);
		length = 32;
		break;
	case 0x83:
		length = vpd_identification(unit, out->data);
		break;
	case 0xb0:
		length = vpd_block_limits(unit, out->data);
		break;
	case 0xb1:
		/* Non-rotating: whatever the members are, an elevator for one disk does a row of several no good. */
		put(out->data + 4, 2, 1);
		length = 0x3c;
		break;
	case 0xb2:
		length = vpd_provisioning(out->data);
		break;
	default:
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	out->data[1] = cdb[2];
	put(out->data + 2, 2, length);
	answer(out, 4 + length, allocation);
}

/* --- MODE SENSE --- */

struct mode_page {
	uint8_t code, length;		/* length of what follows the two bytes of head */
	uint8_t values[18];
};

static const struct mode_page mode_pages[] = {
	{ 0x01, 10, { 0 } },		/* read-write error recovery */
	/* Caching: WCE, because members may have volatile caches that only FLUSH and FUA get past. */
	{ 0x08, 18, { 0x04 } },
	/* Control: GLTSD; TAS as the kernel's default is; busy timeout without limit. */
	{ 0x0a, 10, { 0x02, 0, 0, 0x40, 0, 0, 0xff, 0xff, 0, 0 } },
};

static void
mode_sense(const uint8_t *cdb, struct scsi_answer *out)
{
	bool ten = cdb[0] == OP_MODE_SENSE_10;
	uint64_t allocation = ten ? get(cdb + 7, 2) : cdb[4];
	uint8_t control = cdb[2] >> 6, code = cdb[2] & 0x3f, subpage = cdb[3];
	uint32_t length = ten ? 8 : 4, head = length;

	if (control == 3) {
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_NO_SAVED_PAGES);
		return;
	}
	for (size_t i = 0; i < sizeof(mode_pages) / sizeof(mode_pages[0]); i++) {
		const struct mode_page *page = &mode_pages[i];

		if (!(code == page->code && subpage == 0) && !(code == 0x3f && (subpage == 0 || subpage == 0xff)))
			continue;
		out->data[length] = page->code;
		out->data[length + 1] = page->length;
		if (control != 1)	/* 1 asks which bits can be changed: none */
			memcpy(out->data + length + 2, page->values, page->length);
		length += 2u + page->length;
	}
	if (length == head) {
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	/* Device-specific parameter: DPOFUA, not write-protected. */
	out->data[ten ? 3 : 2] = 0x10;
	if (ten)
		put(out->data, 2, length - 2);
	else
		out->data[0] = (uint8_t)(length - 1);
	answer(out, length, allocation);
}

/* --- REPORT SUPPORTED OPERATION CODES --- */

/* Command timeouts descriptor: none is indicated. */
static uint32_t
put_timeouts(uint8_t *data)
{
	put(data, 2, 10);
	return 12;
}

static uint32_t
report_all(bool timeouts, uint8_t *data)
{
	uint32_t length = 4;

	for (size_t i = 0; i < COMMANDS; i++) {
		const struct command *command = &commands[i];
		uint8_t *entry = data + length;

		entry[0] = command->opcode;
		if (command->action != ANY_ACTION) {
			put(entry + 2, 2, command->action);
			entry[5] |= 0x01;	/* SERVACTV */
		}
		put(entry + 6, 2, command->length);
		length += 8;
		if (timeouts) {
			entry[5] |= 0x02;	/* CTDP */
			length += put_timeouts(data + length);
		}
	}
	put(data, 4, length - 4);
	return length;
}

static uint32_t
report_one(const struct command *command, bool timeouts, uint8_t *data)
{
	uint32_t length;

	if (!command) {
		data[1] = 0x01;		/* not supported */
		return 4;
	}
	data[1] = 0x03;			/* as the standard has it */
	put(data + 2, 2, command->length);
	memcpy(data + 4, command->usage, command->length);
	length = 4u + command->length;
	if (timeouts) {
		data[1] |= 0x80;
		length += put_timeouts(data + length);
	}
	return length;
}

static void
report_opcodes(const uint8_t *cdb, struct scsi_answer *out)
{
	uint8_t options = cdb[2] & 0x07, opcode = cdb[3];
	uint64_t action = get(cdb + 4, 2), allocation = get(cdb + 6, 4);
	bool timeouts = cdb[2] & 0x80, has_actions = false, known = false;
	const struct command *found = NULL;

	if (options == 0) {
		answer(out, report_all(timeouts, out->data), allocation);
		return;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		const struct command *command = &commands[i];

		if (command->opcode != opcode)
			continue;
		known = true;
		has_actions = command->action != ANY_ACTION;
		if (!has_actions || command->action == action)
			found = command;
	}
	/* 1: by operation code alone, 2: with a service action, 3: either (SPC-4 6.35.1). */
	if (options > 3 || (known && ((options == 1 && has_actions) || (options == 2 && !has_actions)))) {
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	answer(out, report_one(found, timeouts, out->data), allocation);
}

/* --- the others --- */

static void
request_sense(const struct scsi_unit *unit, const uint8_t *cdb, struct scsi_answer *out)
{
	bool descriptor = cdb[1] & 0x01;
	uint8_t key = unit->not_ready ? SENSE_NOT_READY : 0;

	out->data[0] = descriptor ? 0x72 : 0x70;
	if (descriptor) {
		out->data[1] = key;
		put(out->data + 2, 2, unit->not_ready);
	} else {
		out->data[2] = key;
		out->data[7] = 18 - 8;
		put(out->data + 12, 2, unit->not_ready);
	}
	answer(out, descriptor ? 8 : 18, cdb[4]);
}

static void
read_capacity(const struct scsi_unit *unit, const uint8_t *cdb, struct scsi_answer *out)
{
	uint64_t last = unit->blocks - 1;

	if (cdb[0] == OP_READ_CAPACITY_10) {
		put(out->data, 4, last < 0xffffffffu ? last : 0xffffffffu);
		put(out->data + 4, 4, unit->block_bytes);
		answer(out, 8, 8);
		return;
	}
	put(out->data, 8, last);
	put(out->data + 8, 4, unit->block_bytes);
	/* No protection.  Physical blocks of 4 KiB at least, so that initiators align: smaller writes cost a member a read,
	 * and may be torn.  LBPME and LBPRZ: UNMAP is there, and what was unmapped reads as zeros. */
	for (uint32_t bytes = unit->block_bytes; bytes < PHYSICAL_BLOCK_BYTES; bytes *= 2)
		out->data[13]++;
	out->data[14] = 0xc0;
	answer(out, 32, get(cdb + 10, 4));
}

static void
start_stop(const uint8_t *cdb, struct scsi_answer *out)
{
	/* There is nothing to spin up, to eject or to power down. */
	if ((cdb[4] & 0xf0) != 0 || (cdb[4] & 0x02) != 0 || !(cdb[4] & 0x01))
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
	else
		answer(out, 0, 0);
}

static void
check_bounds(const struct scsi_unit *unit, uint64_t lba, uint64_t blocks, struct scsi_answer *out)
{
	if (lba > unit->blocks || blocks > unit->blocks - lba)
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_OUT_OF_RANGE);
}

/* There is no cache to fetch into, which is no error (SBC-3 5.12). */
static void
prefetch(const struct scsi_unit *unit, uint64_t lba, uint64_t blocks, struct scsi_answer *out)
{
	check_bounds(unit, lba, blocks, out);
	if (out->verdict == SCSI_PASS)
		answer(out, 0, 0);
}

static void
transfer(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t lba, uint64_t blocks,
	 struct scsi_answer *out)
{
	check_bounds(unit, lba, blocks, out);
	/* RDPROTECT and WRPROTECT: the LUN is not formatted with protection information. */
	if (out->verdict == SCSI_PASS && (cdb[1] >> 5 != 0 || blocks > unit->transfer_blocks_max))
		refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
}

void
scsi_emulate(const struct scsi_unit *unit, const uint8_t *cdb, struct scsi_answer *out)
{
	out->verdict = SCSI_PASS;
	out->length = 0;
	switch (cdb[0]) {
	case OP_READ_10:
	case OP_WRITE_10:
		transfer(unit, cdb, get(cdb + 2, 4), get(cdb + 7, 2), out);
		return;
	case OP_READ_12:
	case OP_WRITE_12:
		transfer(unit, cdb, get(cdb + 2, 4), get(cdb + 6, 4), out);
		return;
	case OP_READ_16:
	case OP_WRITE_16:
		transfer(unit, cdb, get(cdb + 2, 8), get(cdb + 10, 4), out);
		return;
	case OP_READ_6:
	case OP_WRITE_6:
	case OP_WRITE_VERIFY_10:
	case OP_VERIFY_10:
	case OP_WRITE_SAME_10:
	case OP_UNMAP:
	case OP_EXTENDED_COPY:
	case OP_COMPARE_AND_WRITE:
	case OP_WRITE_VERIFY_16:
	case OP_VERIFY_16:
	case OP_WRITE_SAME_16:
	case OP_WRITE_VERIFY_12:
	case OP_VERIFY_12:
		out->verdict = SCSI_JOB;
		return;
	case OP_SYNC_10:
		check_bounds(unit, get(cdb + 2, 4), get(cdb + 7, 2), out);
		return;
	case OP_SYNC_16:
		check_bounds(unit, get(cdb + 2, 8), get(cdb + 10, 4), out);
		return;
	}
	memset(out->data, 0, sizeof(out->data));
	switch (cdb[0]) {
	case OP_PREFETCH_10:
		prefetch(unit, get(cdb + 2, 4), get(cdb + 7, 2), out);
		return;
	case OP_PREFETCH_16:
		prefetch(unit, get(cdb + 2, 8), get(cdb + 10, 4), out);
		return;
	case OP_TEST_UNIT_READY:
		if (unit->not_ready)
			refuse(out, SENSE_NOT_READY, unit->not_ready);
		else
			answer(out, 0, 0);
		return;
	case OP_REQUEST_SENSE:
		request_sense(unit, cdb, out);
		return;
	case OP_INQUIRY:
		inquiry(unit, cdb, out);
		return;
	case OP_MODE_SENSE_6:
	case OP_MODE_SENSE_10:
		mode_sense(cdb, out);
		return;
	case OP_START_STOP:
		start_stop(cdb, out);
		return;
	case OP_READ_CAPACITY_10:
		read_capacity(unit, cdb, out);
		return;
	case OP_SERVICE_IN_16:
		if ((cdb[1] & 0x1f) == ACTION_READ_CAPACITY_16) {
			read_capacity(unit, cdb, out);
			return;
		}
		break;
	case OP_RECEIVE_COPY_RESULTS:
		if ((cdb[1] & 0x1f) != ACTION_OPERATING_PARAMETERS)	/* there is nothing to ask of past copies */
			refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		else
			answer(out, copy_operating_parameters(unit, out->data), get(cdb + 10, 4));
		return;
	case OP_MAINTENANCE_IN:
		if ((cdb[1] & 0x1f) == ACTION_REPORT_OPCODES) {
			report_opcodes(cdb, out);
			return;
		}
		break;
	}
	refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_OPCODE);
}
