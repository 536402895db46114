/* iscsi/scsi.c - CDBs and answers (SPC-5, SBC-4).
 *
 * Answers come from the network: every parser checks what it reads against answer_bytes, which
 * is what the target sent, never what it claims to have sent.
 */
#include "scsi.h"
#include "address.h"
#include "adapters/base/big_endian.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define OPCODE_TEST_UNIT_READY 0x00
#define OPCODE_INQUIRY 0x12
#define OPCODE_MODE_SENSE_6 0x1a
#define OPCODE_READ_CAPACITY_10 0x25
#define OPCODE_READ_10 0x28
#define OPCODE_WRITE_10 0x2a
#define OPCODE_SYNCHRONIZE_CACHE_10 0x35
#define OPCODE_PERSISTENT_RESERVE_IN 0x5e
#define OPCODE_PERSISTENT_RESERVE_OUT 0x5f
#define READ_FULL_STATUS 3 /* service action; libiscsi has no name for it */
#define OPCODE_READ_16 0x88
#define OPCODE_WRITE_16 0x8a
#define OPCODE_SYNCHRONIZE_CACHE_16 0x91
#define OPCODE_WRITE_SAME_16 0x93
#define OPCODE_SERVICE_ACTION_IN_16 0x9e
#define OPCODE_REPORT_LUNS 0xa0

#define CACHING_PAGE 0x08
#define RESERVE_PARAMETERS_BYTES 24
#define CAPACITY_10_BYTES 8
#define MODE_BYTES 192
#define PAGE_BYTES 1024 /* of vital product data */

static uint8_t *
new_task(struct scsi_task *task, uint8_t opcode, int cdb_bytes, int direction, uint32_t length)
{
	memset(task, 0, sizeof(*task));
	task->cdb[0] = opcode;
	task->cdb_size = cdb_bytes;
	task->xfer_dir = length == 0 ? SCSI_XFER_NONE : direction;
	task->expxferlen = (int)length;
	return task->cdb;
}

static uint8_t *
start_in(struct scsi_request *request, uint8_t opcode, int cdb_bytes, uint32_t length)
{
	uint8_t *cdb = new_task(&request->task, opcode, cdb_bytes, SCSI_XFER_READ, length);

	assert(length <= sizeof(request->data));
	request->answer_bytes = 0;
	memset(request->data, 0, sizeof(request->data));
	request->iov.iov_base = request->data;
	request->iov.iov_len = sizeof(request->data);
	if (length != 0)
		scsi_task_set_iov_in(&request->task, &request->iov, 1);
	return cdb;
}

void
scsi_test_unit_ready(struct scsi_request *request)
{
	start_in(request, OPCODE_TEST_UNIT_READY, 6, 0);
}

void
scsi_inquiry(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_INQUIRY, 6, 96);

	put_be16(cdb + 3, 96);
}

void
scsi_inquiry_page(struct scsi_request *request, uint8_t page)
{
	uint8_t *cdb = start_in(request, OPCODE_INQUIRY, 6, PAGE_BYTES);

	cdb[1] = 1;
	cdb[2] = page;
	put_be16(cdb + 3, PAGE_BYTES);
}

static void
ask_capacity_16(uint8_t *cdb)
{
	cdb[1] = 0x10;
	put_be32(cdb + 10, SCSI_CAPACITY_BYTES);
}

void
scsi_read_capacity_16(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_SERVICE_ACTION_IN_16, 16, SCSI_CAPACITY_BYTES);

	ask_capacity_16(cdb);
}

void
scsi_read_capacity_10(struct scsi_request *request)
{
	start_in(request, OPCODE_READ_CAPACITY_10, 10, CAPACITY_10_BYTES);
}

void
scsi_mode_sense_caching(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_MODE_SENSE_6, 6, MODE_BYTES);

	cdb[2] = CACHING_PAGE;
	cdb[4] = MODE_BYTES;
}

void
scsi_read_reservation(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_PERSISTENT_RESERVE_IN, 10, 64);

	cdb[1] = SCSI_PERSISTENT_RESERVE_READ_RESERVATION;
	put_be16(cdb + 7, 64);
}

void
scsi_read_keys(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_PERSISTENT_RESERVE_IN, 10, SCSI_ANSWER_MAX);

	cdb[1] = SCSI_PERSISTENT_RESERVE_READ_KEYS;
	put_be16(cdb + 7, SCSI_ANSWER_MAX);
}

void
scsi_read_full_status(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_PERSISTENT_RESERVE_IN, 10, SCSI_ANSWER_MAX);

	cdb[1] = READ_FULL_STATUS;
	put_be16(cdb + 7, SCSI_ANSWER_MAX);
}

void
scsi_reserve_out(struct scsi_request *request, int action, enum scsi_reservation_type type,
		 uint64_t key, uint64_t action_key)
{
	uint8_t *cdb = new_task(&request->task, OPCODE_PERSISTENT_RESERVE_OUT, 10, SCSI_XFER_WRITE,
				RESERVE_PARAMETERS_BYTES);

	cdb[1] = (uint8_t)action;
	cdb[2] = (uint8_t)type;
	put_be32(cdb + 5, RESERVE_PARAMETERS_BYTES);
	memset(request->data, 0, RESERVE_PARAMETERS_BYTES);
	put_be64(request->data, key);
	put_be64(request->data + 8, action_key);
	request->answer_bytes = 0;
	request->iov.iov_base = request->data;
	request->iov.iov_len = RESERVE_PARAMETERS_BYTES;
	scsi_task_set_iov_out(&request->task, &request->iov, 1);
}

void
scsi_report_luns(struct scsi_request *request)
{
	uint8_t *cdb = start_in(request, OPCODE_REPORT_LUNS, 12, SCSI_ANSWER_MAX);

	put_be32(cdb + 6, SCSI_ANSWER_MAX);
}

static uint32_t
answer_bytes(const struct scsi_task *task)
{
	size_t expected = task->xfer_dir == SCSI_XFER_READ ? (size_t)task->expxferlen : 0;

	if (task->residual_status == SCSI_RESIDUAL_UNDERFLOW)
		expected = task->residual < expected ? expected - task->residual : 0;
	return (uint32_t)expected;
}

bool
scsi_request_taken(const struct scsi_request *request)
{
	return request->task.xfer_dir != SCSI_XFER_WRITE ||
	       request->task.residual_status != SCSI_RESIDUAL_UNDERFLOW;
}

void
scsi_request_completed(struct scsi_request *request)
{
	request->answer_bytes = answer_bytes(&request->task);
}

void
scsi_data_task(struct scsi_task *task, bool write, bool fua, bool ten, uint64_t block,
	       uint32_t blocks, uint32_t length_bytes)
{
	int direction = write ? SCSI_XFER_WRITE : SCSI_XFER_READ;
	uint8_t *cdb;

	/* libiscsi's iovecs are used as they are. */
	static_assert(sizeof(struct scsi_iovec) == sizeof(struct iovec), "same layout");
	static_assert(offsetof(struct scsi_iovec, iov_base) == offsetof(struct iovec, iov_base),
		      "same layout");
	static_assert(offsetof(struct scsi_iovec, iov_len) == offsetof(struct iovec, iov_len),
		      "same layout");
	if (ten) {
		cdb = new_task(task, write ? OPCODE_WRITE_10 : OPCODE_READ_10, 10, direction,
			       length_bytes);
		assert(block <= UINT32_MAX && blocks <= UINT16_MAX);
		put_be32(cdb + 2, (uint32_t)block);
		put_be16(cdb + 7, (uint16_t)blocks);
	} else {
		cdb = new_task(task, write ? OPCODE_WRITE_16 : OPCODE_READ_16, 16, direction,
			       length_bytes);
		put_be64(cdb + 2, block);
		put_be32(cdb + 10, blocks);
	}
	if (fua)
		cdb[1] |= 0x08;
}

void
scsi_write_same_task(struct scsi_task *task, bool unmap, uint64_t block, uint32_t blocks,
		     uint32_t block_bytes)
{
	uint8_t *cdb = new_task(task, OPCODE_WRITE_SAME_16, 16, SCSI_XFER_WRITE, block_bytes);

	cdb[1] = unmap ? 0x08 : 0;
	put_be64(cdb + 2, block);
	put_be32(cdb + 10, blocks);
}

void
scsi_synchronize_cache_task(struct scsi_task *task, bool sixteen)
{
	/* Block 0 and count 0: the whole medium. */
	if (sixteen)
		new_task(task, OPCODE_SYNCHRONIZE_CACHE_16, 16, SCSI_XFER_NONE, 0);
	else
		new_task(task, OPCODE_SYNCHRONIZE_CACHE_10, 10, SCSI_XFER_NONE, 0);
}

void
scsi_read_capacity_task(struct scsi_task *task, bool ten)
{
	if (ten)
		new_task(task, OPCODE_READ_CAPACITY_10, 10, SCSI_XFER_READ, CAPACITY_10_BYTES);
	else
		ask_capacity_16(new_task(task, OPCODE_SERVICE_ACTION_IN_16, 16, SCSI_XFER_READ,
					 SCSI_CAPACITY_BYTES));
}

static bool
capacity_valid(uint64_t last_block, uint32_t block_bytes, struct scsi_capacity *out)
{
	if (block_bytes == 0 || (block_bytes & (block_bytes - 1)) != 0)
		return false;
	/* A superblock can say no more: 2^63 - 1 bytes (layout.h). */
	if (last_block >= INT64_MAX / block_bytes)
		return false;
	out->capacity_bytes = (last_block + 1) * block_bytes;
	out->block_bytes = block_bytes;
	return true;
}

static bool
parse_capacity_16(const uint8_t *answer, uint32_t length, struct scsi_capacity *out)
{
	if (length < 12)
		return false;
	out->thin = length >= 15 && (answer[14] & 0xc0) == 0xc0;
	return capacity_valid(get_be64(answer), get_be32(answer + 8), out);
}

/* A device that is larger than this command can tell says so with the highest number. */
static bool
parse_capacity_10(const uint8_t *answer, uint32_t length, struct scsi_capacity *out)
{
	if (length < CAPACITY_10_BYTES || get_be32(answer) == UINT32_MAX)
		return false;
	out->thin = false;
	return capacity_valid(get_be32(answer), get_be32(answer + 4), out);
}

bool
scsi_parse_capacity_16(const struct scsi_request *request, struct scsi_capacity *out)
{
	return parse_capacity_16(request->data, request->answer_bytes, out);
}

bool
scsi_parse_capacity_10(const struct scsi_request *request, struct scsi_capacity *out)
{
	return parse_capacity_10(request->data, request->answer_bytes, out);
}

bool
scsi_parse_capacity_task(const struct scsi_task *task, bool ten,
			 const uint8_t answer[SCSI_CAPACITY_BYTES], struct scsi_capacity *out)
{
	return ten ? parse_capacity_10(answer, answer_bytes(task), out)
		   : parse_capacity_16(answer, answer_bytes(task), out);
}

bool
scsi_parse_mode(const struct scsi_request *request, struct scsi_mode *out)
{
	const uint8_t *data = request->data;
	uint32_t length = request->answer_bytes;
	uint32_t page;

	if (length < 4 || (length < MODE_BYTES && length < data[0] + 1u))
		return false;
	out->write_protected = data[2] & 0x80;
	out->fua = data[2] & 0x10;
	out->write_cache = true; /* unless it says that it has none */
	page = 4u + data[3];
	if (page + 3 <= length && (data[page] & 0x3f) == CACHING_PAGE)
		out->write_cache = data[page + 2] & 0x04;
	return true;
}

/* Printable, without the padding that fixed fields end in. */
static void
copy_text(char *out, size_t out_size, const uint8_t *text, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used + 1 < out_size; i++)
		out[used++] = text[i] >= ' ' && text[i] < 0x7f ? (char)text[i] : ' ';
	while (used > 0 && out[used - 1] == ' ')
		used--;
	out[used] = '\0';
	used = strspn(out, " ");
	memmove(out, out + used, strlen(out + used) + 1);
}

bool
scsi_parse_inquiry(const struct scsi_request *request, struct scsi_identity *out)
{
	if (request->answer_bytes < 36)
		return false;
	out->qualifier = request->data[0] >> 5;
	out->device_type = request->data[0] & 0x1f;
	copy_text(out->vendor, sizeof(out->vendor), request->data + 8, 8);
	copy_text(out->product, sizeof(out->product), request->data + 16, 16);
	copy_text(out->revision, sizeof(out->revision), request->data + 32, 4);
	return true;
}

const char *
scsi_device_type_name(uint8_t device_type)
{
	static const char *const names[] = {
		"disk",
		"tape",
		"printer",
		"processor",
		"write-once disk",
		"CD or DVD drive",
		"scanner",
		"optical memory",
		"medium changer",
		"communications device",
		"device of type 0x0a",
		"device of type 0x0b",
		"storage array controller",
		"enclosure",
		"simplified disk",
		"card reader",
		"device of type 0x10",
		"object store",
		"automation drive",
		"device of type 0x13",
		"zoned disk",
	};

	if (device_type < sizeof(names) / sizeof(names[0]))
		return names[device_type];
	return device_type == 0x1f ? "nothing" : "device of an unknown type";
}

/* The content of a VPD page: what both its header and the transfer say is there. */
static const uint8_t *
vpd_content(const struct scsi_request *request, uint8_t page, uint32_t *length)
{
	if (request->answer_bytes < 4 || request->data[1] != page)
		return NULL;
	*length = get_be16(request->data + 2);
	if (*length > request->answer_bytes - 4)
		*length = request->answer_bytes - 4;
	return request->data + 4;
}

/* The same of a page that names the device: a part of a name is another name. */
static const uint8_t *
vpd_name(const struct scsi_request *request, uint8_t page, uint32_t *length)
{
	const uint8_t *content = vpd_content(request, page, length);

	if (content == NULL ||
	    (request->answer_bytes < PAGE_BYTES && *length < get_be16(request->data + 2)))
		return NULL;
	return content;
}

bool
scsi_parse_block_limits(const struct scsi_request *request, uint32_t *blocks_max)
{
	uint32_t length;
	const uint8_t *content = vpd_content(request, 0xb0, &length);

	if (content == NULL || length < 8)
		return false;
	*blocks_max = get_be32(content + 4);
	return true;
}

bool
scsi_parse_write_same_limit(const struct scsi_request *request, uint64_t *blocks_max)
{
	uint32_t length;
	const uint8_t *content = vpd_content(request, 0xb0, &length);

	if (content == NULL || length < 40)
		return false;
	*blocks_max = get_be64(content + 32);
	return true;
}

bool
scsi_parse_provisioning(const struct scsi_request *request, bool *unmaps)
{
	uint32_t length;
	const uint8_t *content = vpd_content(request, 0xb2, &length);

	if (content == NULL || length < 2)
		return false;
	*unmaps = content[1] & 0x40; /* LBPWS */
	return true;
}

bool
scsi_parse_serial(const struct scsi_request *request, char *out, size_t out_size)
{
	uint32_t length;
	const uint8_t *content = vpd_name(request, 0x80, &length);

	if (content == NULL)
		return false;
	copy_text(out, out_size, content, length);
	return out[0] != '\0';
}

/* How much a designator of this type says: NAA before EUI-64 before T10; others nothing (SPC-5,
 * 7.7.6).
 */
static int
designator_rank(const uint8_t *designator)
{
	bool of_unit = ((designator[1] >> 4) & 3) == 0;

	if (!of_unit || designator[3] == 0)
		return 0;
	switch (designator[1] & 0x0f) {
	case 3:
		return 3;
	case 2:
		return 2;
	case 1:
		return 1;
	default:
		return 0;
	}
}

static void
write_designator(const uint8_t *designator, char *out, size_t out_size)
{
	static const char *const prefixes[] = { "", "t10.", "eui.", "naa." };
	size_t used = (size_t)snprintf(out, out_size, "%s", prefixes[designator_rank(designator)]);

	for (uint8_t i = 0; i < designator[3] && used + 3 <= out_size; i++)
		used += (size_t)snprintf(out + used, out_size - used, "%02x", designator[4 + i]);
}

bool
scsi_parse_designator(const struct scsi_request *request, char *out, size_t out_size)
{
	uint32_t length;
	const uint8_t *content = vpd_name(request, 0x83, &length);
	const uint8_t *best = NULL;

	if (content == NULL)
		return false;
	for (uint32_t at = 0; at + 4 <= length && content[at + 3] <= length - at - 4;
	     at += 4u + content[at + 3]) {
		if (designator_rank(content + at) > (best ? designator_rank(best) : 0))
			best = content + at;
	}
	if (best == NULL)
		return false;
	write_designator(best, out, out_size);
	return true;
}

bool
scsi_parse_reservation(const struct scsi_request *request, struct scsi_reservation *out)
{
	if (request->answer_bytes < 8)
		return false;
	if (get_be32(request->data + 4) == 0) {
		*out = (struct scsi_reservation){ .key = 0 };
		return true;
	}
	if (get_be32(request->data + 4) < 16 || request->answer_bytes < 24)
		return false;
	out->key = get_be64(request->data + 8);
	out->type = request->data[21] & 0x0f;
	return true;
}

bool
scsi_parse_keys(const struct scsi_request *request, uint64_t own_key, struct scsi_keys *out)
{
	struct scsi_keys keys = { .whole = true };
	uint32_t listed;

	if (request->answer_bytes < 8)
		return false;
	listed = get_be32(request->data + 4);
	if (listed > SCSI_ANSWER_MAX - 8) {
		listed = SCSI_ANSWER_MAX - 8;
		keys.whole = false;
	}
	if (listed % 8 != 0 || listed > request->answer_bytes - 8)
		return false;
	for (uint32_t at = 8; at < listed + 8; at += 8) {
		const uint64_t key = get_be64(request->data + at);

		if (key == 0)
			return false; /* nobody can register that */
		if (key == own_key)
			keys.own = true;
		else if (keys.other == 0)
			keys.other = key;
	}
	*out = keys;
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "iqn.2026-01.org.example:host,i,0x800102030405" (SPC-5, 7.6.4.6), with a zero at its end */
static bool
parse_initiator_port(const char *text, size_t length, struct scsi_nexus *out)
{
	static const char mark[] = ",i,0x";
	const char *end = memchr(text, '\0', length);
	const char *found = end != NULL ? strstr(text, mark) : NULL;
	const char *digits = found != NULL ? found + strlen(mark) : NULL;

	if (found == NULL || (size_t)(found - text) >= sizeof(out->initiator) || end - digits != 12)
		return false;
	for (int i = 0; i < 6; i++) {
		const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out->isid[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(out->initiator, text, (size_t)(found - text));
	out->initiator[found - text] = '\0';
	return initiator_name_fault(out->initiator) == NULL;
}

#define STATUS_BYTES 24 /* of a registration, before its transport id */

static bool
parse_registration(const uint8_t *from, uint32_t id_bytes, struct scsi_nexus *out)
{
	const uint8_t *id = from + STATUS_BYTES;

	*out = (struct scsi_nexus){ .port = get_be16(from + 18) };
	/* iSCSI, with a session's ISID */
	return id_bytes >= 4 && id[0] == 0x45 && get_be16(id + 2) <= id_bytes - 4 &&
	       parse_initiator_port((const char *)id + 4, get_be16(id + 2), out);
}

bool
scsi_parse_nexus(const struct scsi_request *request, uint64_t key, struct scsi_nexus *out)
{
	const uint8_t *data = request->data;
	const uint32_t length = request->answer_bytes;

	for (uint32_t at = 8; at <= length && length - at >= STATUS_BYTES;) {
		const uint32_t id_bytes = get_be32(data + at + 20);

		if (id_bytes > length - at - STATUS_BYTES)
			return false;
		if (get_be64(data + at) == key)
			return parse_registration(data + at, id_bytes, out);
		at += STATUS_BYTES + id_bytes;
	}
	return false;
}

int
scsi_parse_luns(const struct scsi_request *request, unsigned int *luns, int max)
{
	uint32_t listed;
	int count = 0;

	if (request->answer_bytes < 8)
		return -1;
	listed = get_be32(request->data);
	if (listed > SCSI_ANSWER_MAX - 8)
		listed = SCSI_ANSWER_MAX - 8;
	if (listed > request->answer_bytes - 8)
		return -1;
	for (uint32_t at = 8; at + 8 <= listed + 8 && count < max; at += 8) {
		uint16_t first = get_be16(request->data + at);

		if (first >> 14 == 0 && (first & 0x3f00) == 0)
			luns[count++] = first & 0xff; /* peripheral, bus 0 */
		else if (first >> 14 == 1)
			luns[count++] = first & 0x3fff; /* flat */
	}
	return count;
}

void
scsi_parse_sense(const uint8_t *bytes, size_t length, struct scsi_sense *out)
{
	uint8_t format = length > 0 ? bytes[0] & 0x7f : 0;
	bool fixed = format == 0x70 || format == 0x71;
	bool descriptors = format == 0x72 || format == 0x73;

	memset(out, 0, sizeof(*out));
	if (fixed && length >= 3) {
		out->error_type = format;
		out->key = bytes[2] & 0x0f;
		out->ascq = length >= 14 ? get_be16(bytes + 12) : 0;
	} else if (descriptors && length >= 2) {
		out->error_type = format;
		out->key = bytes[1] & 0x0f;
		out->ascq = length >= 4 ? get_be16(bytes + 2) : 0;
	}
}

static enum scsi_verdict
judge_attention(int ascq)
{
	switch (ascq) {
	case 0x2a03: /* reservations preempted */
	case 0x2a04: /* reservations released */
	case 0x2a05: /* registrations preempted */
		return SCSI_TAKEN;
	default:
		/* 29/00 to 29/06: power on or reset; 29/07 is only the loss of an I_T nexus */
		return ascq >> 8 == 0x29 && (ascq & 0xff) != 0x07 ? SCSI_WAS_RESET : SCSI_ATTENTION;
	}
}

/* About an earlier command, which was answered with GOOD: a write that stood in the cache.  Which
 * one, nobody says, and the command that got this answer did not happen (SPC-5, 4.4.7).
 */
static bool
deferred(const struct scsi_sense *sense)
{
	return sense->error_type == 0x71 || sense->error_type == 0x73;
}

static enum scsi_verdict
judge_sense(const struct scsi_sense *sense)
{
	int ascq = sense->ascq;

	if (deferred(sense))
		return SCSI_BROKEN_WORD;
	if (sense->error_type != 0x70 && sense->error_type != 0x72)
		return SCSI_REFUSED;
	switch ((int)sense->key) {
	case SCSI_SENSE_RECOVERED_ERROR:
		return SCSI_OK;
	case SCSI_SENSE_UNIT_ATTENTION:
		return judge_attention(ascq);
	case SCSI_SENSE_NOT_READY:
		return SCSI_LATER;
	case SCSI_SENSE_MEDIUM_ERROR:
		return SCSI_MEDIUM_ERROR;
	case SCSI_SENSE_ILLEGAL_REQUEST:
		return ascq == 0x2500 ? SCSI_NO_LUN : SCSI_UNSUPPORTED;
	case SCSI_SENSE_DATA_PROTECTION:
		return SCSI_PROTECTED;
	case SCSI_SENSE_COMMAND_ABORTED:
		return SCSI_ABORTED;
	default:
		return SCSI_REFUSED;
	}
}

enum scsi_verdict
scsi_judge(const struct scsi_task *task, int status)
{
	switch (status) {
	case SCSI_STATUS_GOOD:
		return SCSI_OK;
	case SCSI_STATUS_CHECK_CONDITION:
		return judge_sense(&task->sense);
	case SCSI_STATUS_BUSY:
	case SCSI_STATUS_TASK_SET_FULL:
		return SCSI_LATER;
	case SCSI_STATUS_RESERVATION_CONFLICT:
		return SCSI_TAKEN;
	case SCSI_STATUS_TASK_ABORTED:
		return SCSI_ABORTED;
	case SCSI_STATUS_CANCELLED:
	case SCSI_STATUS_TIMEOUT:
		return SCSI_LOST;
	default:
		return SCSI_REFUSED;
	}
}

bool
scsi_damaged(const struct scsi_task *task, int status)
{
	return scsi_judge(task, status) == SCSI_ABORTED && status == SCSI_STATUS_CHECK_CONDITION &&
	       task->sense.ascq == SCSI_PROTOCOL_CRC_ERROR;
}

enum scsi_again
scsi_again(enum scsi_verdict verdict, int status, int *repeats)
{
	/* A unit attention tells of something before, also that it was taken. */
	const bool news = verdict == SCSI_ATTENTION || verdict == SCSI_WAS_RESET ||
			  (verdict == SCSI_TAKEN && status == SCSI_STATUS_CHECK_CONDITION);

	if (verdict == SCSI_LATER)
		return SCSI_PAUSE;
	if ((!news && verdict != SCSI_ABORTED) || *repeats == SCSI_REPEATS_MAX)
		return SCSI_ANSWERED;
	++*repeats;
	return SCSI_REPEAT;
}

/* LIO tells a failed flush as NOT READY 08/00, and a disk's as it comes; disks behind ATA as
 * ABORTED COMMAND without more.  Repeated it would be GOOD: the device, or the kernel behind it,
 * tells of lost writes once.
 */
bool
scsi_flush_failed(const struct scsi_task *task, int status)
{
	const struct scsi_sense *sense = &task->sense;

	switch (scsi_judge(task, status)) {
	case SCSI_MEDIUM_ERROR:
	case SCSI_REFUSED:
	case SCSI_PROTECTED:
		return true;
	case SCSI_UNSUPPORTED:
		return sense->ascq == 0x2100;
	case SCSI_LATER: /* becoming ready, or a busy target, has not begun it */
		return status == SCSI_STATUS_CHECK_CONDITION && (sense->ascq & 0xff00) != 0x0400;
	case SCSI_ABORTED:
		return status == SCSI_STATUS_CHECK_CONDITION && sense->ascq == 0;
	case SCSI_OK:
	case SCSI_ATTENTION:
	case SCSI_WAS_RESET:
	case SCSI_BROKEN_WORD:
	case SCSI_TAKEN:
	case SCSI_NO_LUN:
	case SCSI_LOST:
		break;
	}
	return false;
}

bool
scsi_cache_lost(const struct scsi_task *task, int status)
{
	const struct scsi_sense *sense = &task->sense;
	/* Power on, and a reset that the device gave itself.  One that it was given leaves the
	 * cache alone, and where the code leaves open what it was (29/00), a reservation that is
	 * still there tells.
	 */
	bool power = (int)sense->key == SCSI_SENSE_UNIT_ATTENTION &&
		     (sense->ascq == 0x2901 || sense->ascq == 0x2904);

	return status == SCSI_STATUS_CHECK_CONDITION && (deferred(sense) || power);
}

/* SPC-5, table 49.  libiscsi knows no name for some of them. */
static const char *
sense_key_name(const struct scsi_sense *sense)
{
	static const char *const names[16] = {
		"NO SENSE",	  "RECOVERED ERROR", "NOT READY",      "MEDIUM ERROR",
		"HARDWARE ERROR", "ILLEGAL REQUEST", "UNIT ATTENTION", "DATA PROTECT",
		"BLANK CHECK",	  "VENDOR SPECIFIC", "COPY ABORTED",   "ABORTED COMMAND",
		"SENSE KEY 0xC",  "VOLUME OVERFLOW", "MISCOMPARE",     "COMPLETED",
	};

	return names[sense->key & 0x0f];
}

void
scsi_describe(const struct scsi_task *task, int status, char *out, size_t out_size)
{
	switch (status) {
	case SCSI_STATUS_CHECK_CONDITION:
		snprintf(out, out_size, "check condition, %s %02x/%02x",
			 sense_key_name(&task->sense), (unsigned int)task->sense.ascq >> 8 & 0xff,
			 (unsigned int)task->sense.ascq & 0xff);
		return;
	case SCSI_STATUS_BUSY:
		snprintf(out, out_size, "busy");
		return;
	case SCSI_STATUS_TASK_SET_FULL:
		snprintf(out, out_size, "task set full");
		return;
	case SCSI_STATUS_RESERVATION_CONFLICT:
		snprintf(out, out_size, "reservation conflict");
		return;
	case SCSI_STATUS_TASK_ABORTED:
		snprintf(out, out_size, "task aborted");
		return;
	case SCSI_STATUS_CANCELLED:
		snprintf(out, out_size, "the session ended");
		return;
	default:
		snprintf(out, out_size, "status 0x%02x", (unsigned int)status & 0xff);
	}
}
