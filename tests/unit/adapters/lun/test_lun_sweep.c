/* CDB by CDB: every operation code with every service action, and of each command every field at its
 * limits, with every flag.  Whatever comes ends once, with a status and sense data that are well
 * formed; answers end at the allocation length; requests stay in the LUN; what must not write does
 * not.  Offsets are those of SPC-4 and SBC-3, written down here a second time on purpose.
 *
 * Nothing is random: a failure names the CDB.  LUN and data each end where a page begins that can't
 * be touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "adapters/base/big_endian.h"
#include "adapters/lun/commands.h"

#define CDB_BYTES 16
#define PAGE_BYTES 65536u /* of any machine */
#define DATA_MAX (2 * PAGE_BYTES)
#define DISK_MAX PAGE_BYTES
#define REQUESTS_MAX 4096
#define COPY_ABORTED 0x0a
#define VALUES_MAX 24
#define READY_UNITS 4 /* of units[] */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* --- the commands --- */

enum length_kind { NO_LENGTH, BLOCKS, LIST, ALLOCATION };

struct field {
	uint8_t at, bytes; /* 0 bytes: there is none */
};

struct form {
	uint8_t opcode, action;
	bool writes;
	struct field lba;
	enum length_kind kind;
	struct field length;
};

#define ONLY_READS false
#define WRITES true
#define NO_LBA                                                                                     \
	{                                                                                          \
		0, 0                                                                               \
	}

/* clang-format off */
static const struct form forms[] = {
	{ 0x00, NO_ACTION, ONLY_READS, NO_LBA, NO_LENGTH, { 0, 0 } },
	{ 0x03, NO_ACTION, ONLY_READS, NO_LBA, ALLOCATION, { 4, 1 } },
	{ 0x08, NO_ACTION, ONLY_READS, { 1, 3 }, BLOCKS, { 4, 1 } },
	{ 0x0a, NO_ACTION, WRITES, { 1, 3 }, BLOCKS, { 4, 1 } },
	{ 0x12, NO_ACTION, ONLY_READS, NO_LBA, ALLOCATION, { 3, 2 } },
	{ 0x15, NO_ACTION, ONLY_READS, NO_LBA, LIST, { 4, 1 } },
	{ 0x16, NO_ACTION, ONLY_READS, NO_LBA, NO_LENGTH, { 0, 0 } },
	{ 0x17, NO_ACTION, ONLY_READS, NO_LBA, NO_LENGTH, { 0, 0 } },
	{ 0x1a, NO_ACTION, ONLY_READS, NO_LBA, ALLOCATION, { 4, 1 } },
	{ 0x1b, NO_ACTION, ONLY_READS, NO_LBA, NO_LENGTH, { 0, 0 } },
	{ 0x25, NO_ACTION, ONLY_READS, { 2, 4 }, NO_LENGTH, { 0, 0 } },
	{ 0x28, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x2a, NO_ACTION, WRITES, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x2e, NO_ACTION, WRITES, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x2f, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x34, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x35, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x41, NO_ACTION, WRITES, { 2, 4 }, BLOCKS, { 7, 2 } },
	{ 0x42, NO_ACTION, WRITES, NO_LBA, LIST, { 7, 2 } },
	{ 0x55, NO_ACTION, ONLY_READS, NO_LBA, LIST, { 7, 2 } },
	{ 0x5a, NO_ACTION, ONLY_READS, NO_LBA, ALLOCATION, { 7, 2 } },
	{ 0x5e, 0x00, ONLY_READS, NO_LBA, ALLOCATION, { 7, 2 } },
	{ 0x5e, 0x01, ONLY_READS, NO_LBA, ALLOCATION, { 7, 2 } },
	{ 0x5e, 0x02, ONLY_READS, NO_LBA, ALLOCATION, { 7, 2 } },
	{ 0x5e, 0x03, ONLY_READS, NO_LBA, ALLOCATION, { 7, 2 } },
	{ 0x5f, 0x00, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x01, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x02, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x03, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x04, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x05, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x06, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x5f, 0x07, ONLY_READS, NO_LBA, LIST, { 5, 4 } },
	{ 0x83, 0x00, WRITES, NO_LBA, LIST, { 10, 4 } },
	{ 0x84, 0x03, ONLY_READS, NO_LBA, ALLOCATION, { 10, 4 } },
	{ 0x88, NO_ACTION, ONLY_READS, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x89, NO_ACTION, WRITES, { 2, 8 }, BLOCKS, { 13, 1 } },
	{ 0x8a, NO_ACTION, WRITES, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x8e, NO_ACTION, WRITES, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x8f, NO_ACTION, ONLY_READS, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x90, NO_ACTION, ONLY_READS, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x91, NO_ACTION, ONLY_READS, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x93, NO_ACTION, WRITES, { 2, 8 }, BLOCKS, { 10, 4 } },
	{ 0x9e, 0x10, ONLY_READS, { 2, 8 }, ALLOCATION, { 10, 4 } },
	{ 0x9e, 0x12, ONLY_READS, { 2, 8 }, ALLOCATION, { 10, 4 } },
	{ 0xa0, NO_ACTION, ONLY_READS, NO_LBA, ALLOCATION, { 6, 4 } },
	{ 0xa3, 0x0a, ONLY_READS, NO_LBA, ALLOCATION, { 6, 4 } },
	{ 0xa3, 0x0c, ONLY_READS, NO_LBA, ALLOCATION, { 6, 4 } },
	{ 0xa8, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 6, 4 } },
	{ 0xaa, NO_ACTION, WRITES, { 2, 4 }, BLOCKS, { 6, 4 } },
	{ 0xae, NO_ACTION, WRITES, { 2, 4 }, BLOCKS, { 6, 4 } },
	{ 0xaf, NO_ACTION, ONLY_READS, { 2, 4 }, BLOCKS, { 6, 4 } },
};
/* clang-format on */

/* NULL: there is no such command. */
static const struct form *
form_of(const uint8_t *cdb)
{
	for (size_t i = 0; i < COUNT_OF(forms); i++)
		if (forms[i].opcode == cdb[0] &&
		    (forms[i].action == NO_ACTION || forms[i].action == (cdb[1] & 0x1f)))
			return &forms[i];
	return NULL;
}

/* What READ(6) and WRITE(6) share with reserved bits. */
static uint64_t
field_max(struct field field)
{
	return field.bytes == 3 ? 0x1fffff : UINT64_MAX >> (64 - 8 * field.bytes);
}

static void
put_field(uint8_t *cdb, struct field field, uint64_t value)
{
	const uint8_t reserved = field.bytes == 3 ? cdb[field.at] & 0xe0 : 0;

	put_be(cdb + field.at, field.bytes, value);
	cdb[field.at] |= reserved;
}

static uint64_t
get_field(const uint8_t *cdb, struct field field)
{
	return field.bytes == 0 ? 0 : get_be(cdb + field.at, field.bytes) & field_max(field);
}

/* --- the LUNs --- */

static const struct scsi_unit units[] = {
	{ .level = 5,
	  .blocks = 100,
	  .block_bytes = 512,
	  .transfer_blocks_max = 64,
	  .chunk_bytes = 4096,
	  .row_bytes = 3 * 4096,
	  .gateway = 2,
	  .access = { 2, 0 } },
	{ .level = -1, .blocks = 16, .block_bytes = 4096, .transfer_blocks_max = 8 },
	{ .level = 1, .blocks = 1, .block_bytes = 512, .transfer_blocks_max = 8192 },
	{ .level = 6,
	  .blocks = (1ull << 32) + 5, /* its bytes are nowhere */
	  .block_bytes = 512,
	  .transfer_blocks_max = 8192,
	  .chunk_bytes = 65536,
	  .row_bytes = 3 * 65536 },
	{ .level = 0,
	  .blocks = 100,
	  .block_bytes = 512,
	  .transfer_blocks_max = 64,
	  .chunk_bytes = 4096,
	  .row_bytes = 3 * 4096,
	  .not_ready = ASC_BECOMING_READY },
};

static struct {
	const struct scsi_unit *unit;
	uint8_t cdb[CDB_BYTES];
	uint8_t *disk_end, *data_end; /* there a page begins that can't be touched */
	struct scsi_job job;
	struct iovec iov[2];
	uint32_t data_bytes;
	uint64_t written_bytes;
	int requests, done;
	unsigned long tried;
	unsigned long by_verdict[LUN_CHECK + 1];
} lun;

static void
fail_cdb(const char *why)
{
	char text[3 * CDB_BYTES + 1] = "";

	for (int i = 0; i < CDB_BYTES; i++)
		snprintf(text + (size_t)3 * (size_t)i, 4, " %02x", lun.cdb[i]);
	fail_msg("CDB%s with %u bytes of data, LUN of %llu blocks: %s", text, lun.data_bytes,
		 (unsigned long long)lun.unit->blocks, why);
}

static void
require(bool good, const char *why)
{
	if (!good)
		fail_cdb(why);
}

static uint8_t *
room_before_a_wall(size_t bytes)
{
	uint8_t *room = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(room != MAP_FAILED);
	assert_int_equal(mprotect(room + bytes, PAGE_BYTES, PROT_NONE), 0);
	return room + bytes;
}

static int
make_rooms(void **state)
{
	lun.disk_end = room_before_a_wall(DISK_MAX);
	lun.data_end = room_before_a_wall(DATA_MAX);
	return 0;
}

/* --- one command --- */

static void
move_data(const struct engine_request *request, uint64_t size_bytes)
{
	uint8_t *at = lun.disk_end - size_bytes + request->offset_bytes;

	for (int i = 0; i < request->iov_count; i++) {
		const struct iovec *iov = &request->iov[i];

		if (request->op == REQUEST_READ)
			memcpy(iov->iov_base, at, iov->iov_len);
		else
			memcpy(at, iov->iov_base, iov->iov_len);
		at += iov->iov_len;
	}
}

static void
carry_out(const struct engine_request *request)
{
	const uint64_t size_bytes = lun.unit->blocks * lun.unit->block_bytes;
	const bool data = request->op == REQUEST_READ || request->op == REQUEST_WRITE;
	uint64_t bytes = 0;

	require(request->length_bytes > 0 && request->offset_bytes <= size_bytes &&
			request->length_bytes <= size_bytes - request->offset_bytes,
		"a request beyond the LUN");
	require(++lun.requests <= REQUESTS_MAX, "a command without end");
	lun.written_bytes += request->op == REQUEST_READ ? 0 : request->length_bytes;
	for (int i = 0; i < request->iov_count; i++)
		bytes += request->iov[i].iov_len;
	require(bytes == (request->op == REQUEST_ZERO ? 0 : request->length_bytes) ||
			(request->op == REQUEST_COMPARE_WRITE &&
			 bytes == 2 * request->length_bytes),
		"data that is not the request's");
	if (data && size_bytes <= DISK_MAX)
		move_data(request, size_bytes);
}

static void
on_submit(struct scsi_job *job)
{
}

static void
on_done(struct scsi_job *job)
{
	lun.done++;
}

static void
check_sense(uint8_t key, uint16_t asc)
{
	static const uint8_t keys[] = { SENSE_NOT_READY, SENSE_ILLEGAL_REQUEST, COPY_ABORTED,
					SENSE_MISCOMPARE };
	const struct scsi_outcome outcome = scsi_check(key, asc);
	uint8_t sense[18];

	require(memchr(keys, key, sizeof(keys)) != NULL, "a sense key that means something else");
	require(asc != 0 || key == COPY_ABORTED, "refused without a reason");
	scsi_put_sense(&outcome, sense);
	require(sense[0] == 0x70 && sense[2] == key && sense[7] == 10 &&
			get_be(sense + 12, 2) == asc,
		"sense data that are not well formed");
}

/* VPD page B0h, written down a second time. */
static uint64_t
writes_at_most(const struct form *form)
{
	if (form == NULL || !form->writes)
		return 0;
	switch (form->opcode) {
	case 0x42:
		return 32 << 20;
	case 0x41:
	case 0x93:
		return 32768ull * lun.unit->block_bytes;
	case 0x83: /* what RECEIVE COPY RESULTS says */
		return 16 * 0xffffull * lun.unit->block_bytes;
	case 0x89:
		return 64 << 10;
	}
	return (uint64_t)lun.unit->transfer_blocks_max * lun.unit->block_bytes;
}

static void
check_job(void)
{
	const struct scsi_outcome *outcome = &lun.job.outcome;
	const struct form *form = form_of(lun.cdb);

	require(lun.written_bytes <= writes_at_most(form), "it writes more than it may");
	if (form != NULL && form->kind == LIST)
		require(outcome->status != STATUS_GOOD ||
				get_field(lun.cdb, form->length) <= lun.data_bytes,
			"it takes a list that did not come");
	if (outcome->status == STATUS_CHECK_CONDITION) {
		check_sense(outcome->key, outcome->asc);
		require(outcome->key == SENSE_MISCOMPARE || lun.requests == 0,
			"refused after it had begun");
		return;
	}
	require(outcome->status == STATUS_GOOD, "a status that nothing calls for");
	require(lun.job.reads == (lun.cdb[0] == 0x08) || lun.requests == 0,
		"another command than READ(6) hands data on");
	for (uint32_t i = lun.data_bytes; !lun.job.reads && i > 0; i--)
		require(lun.data_end[-(int64_t)i] == 0, "data that can be read back");
}

static void
run_job(void)
{
	lun.job = (struct scsi_job){
		.unit = lun.unit,
		.iov = lun.iov,
		.iov_count = 2,
		.submit = on_submit,
		.done = on_done,
	};
	memcpy(lun.job.cdb, lun.cdb, CDB_BYTES);
	lun.requests = lun.done = 0;
	lun.written_bytes = 0;
	if (scsi_job_begin(&lun.job))
		while (lun.done == 0) {
			carry_out(&lun.job.request);
			lun.job.request.done(&lun.job.request, 0);
		}
	require(lun.done == (lun.requests > 0), "it ended twice, or not at all");
	check_job();
	scsi_job_free(&lun.job);
}

/* What the runner carries out, by our read, write and flush. */
static void
check_passed(void)
{
	const struct form *form = form_of(lun.cdb);
	const bool flushes = lun.cdb[0] == 0x35 || lun.cdb[0] == 0x91;
	uint64_t lba, blocks;

	require(form != NULL && form->kind == BLOCKS, "handed on, though nobody knows it");
	lba = get_field(lun.cdb, form->lba);
	blocks = get_field(lun.cdb, form->length);
	require(lba <= lun.unit->blocks && blocks <= lun.unit->blocks - lba,
		"handed on, though it is beyond the LUN");
	require(flushes || blocks * lun.unit->block_bytes == lun.data_bytes,
		"handed on with more or less data than it means");
	require(flushes || blocks <= lun.unit->transfer_blocks_max,
		"handed on, though it is longer than is promised");
}

static void
check_answer(const struct lun_answer *answer)
{
	const struct form *form = form_of(lun.cdb);
	uint64_t most = lun.cdb[0] == 0x25 ? 8 : 0; /* READ CAPACITY(10) has no such field */

	require(form != NULL, "an answer to a command that there is not");
	if (form->kind == ALLOCATION)
		most = get_field(lun.cdb, form->length);
	require(answer->length <= most, "an answer beyond the allocation length");
	require(answer->length <= sizeof(answer->data), "an answer that is too long");
}

/* The answer stays for those who look at more of it. */
static struct lun_answer *
run(uint32_t data_bytes)
{
	static struct lun_answer answer;
	const uint32_t first = data_bytes / 3;

	lun.data_bytes = data_bytes;
	lun.iov[0] = (struct iovec){ lun.data_end - data_bytes, first };
	lun.iov[1] = (struct iovec){ lun.data_end - data_bytes + first, data_bytes - first };
	answer.length = UINT32_MAX;
	scsi_emulate(lun.unit, lun.cdb, data_bytes, &answer);
	lun.tried++;
	lun.by_verdict[answer.verdict]++;
	switch (answer.verdict) {
	case LUN_JOB:
		run_job();
		break;
	case LUN_PASS:
		check_passed();
		break;
	case LUN_GOOD:
		check_answer(&answer);
		break;
	case LUN_CHECK:
		check_sense(answer.key, answer.asc);
		require(answer.length == 0, "an answer and sense data");
		break;
	}
	return &answer;
}

/* With data of no, some, the right and the wrong length: zeros, as a run before left them, and others. */
static void
run_with_data(uint64_t meant_bytes)
{
	const uint64_t lengths[] = {
		0, 1, lun.unit->block_bytes, meant_bytes, meant_bytes + 1, 2 * meant_bytes
	};

	for (size_t i = 0; i < COUNT_OF(lengths); i++) {
		if (lengths[i] > DATA_MAX)
			continue;
		if (i % 2 == 0)
			memset(lun.data_end - lengths[i], 0x5a, (size_t)lengths[i]);
		run((uint32_t)lengths[i]);
	}
}

static void
start_cdb(const struct form *form)
{
	memset(lun.cdb, 0, CDB_BYTES);
	lun.cdb[0] = form->opcode;
	if (form->action != NO_ACTION)
		lun.cdb[1] = form->action;
}

/* --- the sweeps --- */

static void
test_every_command_has_a_form(void **state)
{
	size_t count = 0;

	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		const uint8_t action = command->action == NO_ACTION ? 0 : command->action;
		const uint8_t cdb[CDB_BYTES] = { command->opcode, action };
		const struct form *form = form_of(cdb);

		if (form == NULL || form->action != command->action)
			fail_msg("%s is not among forms[]", command->name);
		count++;
	}
	assert_int_equal(count, COUNT_OF(forms));
}

/* Those that there are not as well; the rest of the CDB all zeros, all ones, and one block. */
static void
test_every_operation_code_and_every_value_of_byte_1(void **state)
{
	static const uint8_t rests[][CDB_BYTES] = {
		{ 0 },
		{ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff },
		{ [4] = 1, [8] = 1, [13] = 1 },
	};

	for (size_t u = 0; u < COUNT_OF(units); u += READY_UNITS) {
		lun.unit = &units[u];
		for (uint32_t i = 0; i < COUNT_OF(rests) << 16; i++) {
			memcpy(lun.cdb, rests[i >> 16], CDB_BYTES);
			lun.cdb[0] = (uint8_t)(i >> 8);
			lun.cdb[1] = (uint8_t)i;
			run(0);
			run(lun.unit->block_bytes);
		}
	}
}

static int
add_value(uint64_t *values, int count, uint64_t value, uint64_t most)
{
	if (value > most)
		return count;
	for (int i = 0; i < count; i++)
		if (values[i] == value)
			return count;
	values[count] = value;
	return count + 1;
}

/* 0, 1, around each limit, the largest.  A limit less or more of 0 wraps, which is a value as well.
 */
static int
values_around(const uint64_t *limits, size_t limit_count, uint64_t most, uint64_t *values)
{
	int count = 0;

	for (size_t i = 0; i < limit_count; i++)
		for (uint64_t near = limits[i] - 1; near != limits[i] + 2; near++)
			count = add_value(values, count, near, most);
	count = add_value(values, count, 0, most);
	count = add_value(values, count, 1, most);
	count = add_value(values, count, most - 1, most);
	return add_value(values, count, most, most);
}

static int
lba_values(const struct form *form, uint64_t *values)
{
	const uint64_t limits[] = { lun.unit->blocks, 1ull << 32, 1ull << 63,
				    UINT64_MAX / lun.unit->block_bytes };

	if (form->lba.bytes == 0) {
		values[0] = 0;
		return 1;
	}
	return values_around(limits, COUNT_OF(limits), field_max(form->lba), values);
}

static int
length_values(const struct form *form, uint64_t lba, uint64_t *values)
{
	const struct scsi_unit *unit = lun.unit;
	const uint64_t in_blocks[] = { lba <= unit->blocks ? unit->blocks - lba : 1,
				       unit->transfer_blocks_max, WRITE_SAME_BLOCKS_MAX,
				       65536 / unit->block_bytes, 1ull << 31 };
	const uint64_t in_bytes[] = { 8, 24, 256, 1040, 65536 };

	if (form->length.bytes == 0) {
		values[0] = 0;
		return 1;
	}
	return values_around(form->kind == BLOCKS ? in_blocks : in_bytes, 5,
			     field_max(form->length), values);
}

static void
sweep_lengths(const struct form *form, uint64_t lba)
{
	uint64_t lengths[VALUES_MAX];
	const int count = length_values(form, lba, lengths);

	for (int i = 0; i < count; i++) {
		if (form->length.bytes != 0)
			put_field(lun.cdb, form->length, lengths[i]);
		run_with_data(form->kind == BLOCKS ? lengths[i] * lun.unit->block_bytes
						   : lengths[i]);
	}
}

static void
test_every_address_with_every_number_of_blocks(void **state)
{
	static const uint8_t flags[] = { 0, 0x08 }; /* FUA, UNMAP */

	for (size_t i = 0; i < READY_UNITS * COUNT_OF(forms) * COUNT_OF(flags); i++) {
		const struct form *form = &forms[i / COUNT_OF(flags) % COUNT_OF(forms)];
		uint64_t lbas[VALUES_MAX];
		int count;

		lun.unit = &units[i / COUNT_OF(flags) / COUNT_OF(forms)];
		count = lba_values(form, lbas);
		for (int at = 0; at < count; at++) {
			start_cdb(form);
			if (form->action == NO_ACTION && form->lba.bytes != 3)
				lun.cdb[1] |= flags[i % COUNT_OF(flags)];
			if (form->lba.bytes != 0)
				put_field(lun.cdb, form->lba, lbas[at]);
			sweep_lengths(form, lbas[at]);
		}
	}
}

/* Reserved bytes, group numbers and the control byte, too; with a range that is good. */
static void
test_every_value_of_every_byte(void **state)
{
	static const uint8_t lengths[] = { 1, 8 };

	for (size_t i = 0; i < 2 * COUNT_OF(forms) * COUNT_OF(lengths); i++) {
		const struct form *form = &forms[i / COUNT_OF(lengths) % COUNT_OF(forms)];
		const uint8_t length = lengths[i % COUNT_OF(lengths)];

		lun.unit = &units[i / COUNT_OF(lengths) / COUNT_OF(forms)];
		for (uint32_t change = 256; change < CDB_BYTES * 256; change++) {
			start_cdb(form);
			if (form->length.bytes != 0)
				put_field(lun.cdb, form->length, length);
			lun.cdb[change >> 8] = (uint8_t)change;
			run(0);
			run(length * lun.unit->block_bytes);
		}
	}
}

/* Each shorter answer is the beginning of the whole one. */
static void
cut_answer(const struct form *form)
{
	static struct lun_answer whole;
	const uint64_t most = field_max(form->length);
	const struct lun_answer *answer;

	put_field(lun.cdb, form->length, most);
	whole = *run(0);
	for (uint64_t length = 0; length <= whole.length + 2ull && length <= most; length++) {
		put_field(lun.cdb, form->length, length);
		answer = run(0);
		require(answer->verdict == whole.verdict && answer->key == whole.key,
			"the allocation length changes how it ends");
		require(answer->verdict != LUN_GOOD ||
				(answer->length ==
					 (length < whole.length ? length : whole.length) &&
				 memcmp(answer->data, whole.data, answer->length) == 0),
			"an answer that is cut is another one");
	}
}

/* Pages and subpages, options and operation codes: bytes 2 and 3, for each value of byte 1. */
static void
test_every_page_at_every_allocation_length(void **state)
{
	static const uint8_t seconds[] = { 0, 1, 2, 0x3f, 0x7f, 0x80, 0xff };

	lun.unit = &units[0];
	for (size_t i = 0; i < COUNT_OF(forms) * 256 * COUNT_OF(seconds); i++) {
		const struct form *form = &forms[i / 256 / COUNT_OF(seconds)];

		if (form->kind != ALLOCATION)
			continue;
		start_cdb(form);
		lun.cdb[2] = (uint8_t)(i / COUNT_OF(seconds));
		if (form->length.at > 3)
			lun.cdb[3] = seconds[i % COUNT_OF(seconds)];
		if (form->action == NO_ACTION && i % COUNT_OF(seconds) < 2)
			lun.cdb[1] = i % COUNT_OF(seconds) == 0; /* EVPD, DESC */
		cut_answer(form);
	}
}

/* Data length, length of the descriptors, address and number of blocks, each at its limits. */
static void
run_unmap(uint32_t list, uint32_t said, uint32_t described, uint64_t lba, uint64_t blocks)
{
	uint8_t *at = lun.data_end - list;

	memset(at, 0, list);
	if (list >= 4) {
		put_be(at, 2, said);
		put_be(at + 2, 2, described);
	}
	for (uint32_t i = 8; i + 16 <= list; i += 16) {
		put_be(at + i, 8, lba);
		put_be(at + i + 8, 4, blocks);
		lba++;
	}
	run(list);
}

static void
test_every_list_of_unmap(void **state)
{
	const struct form *unmap = form_of((uint8_t[CDB_BYTES]){ 0x42 });
	static const uint32_t lists[] = {
		0, 1, 7, 8, 9, 23, 24, 25, 40, 8 + 256 * 16, 8 + 257 * 16
	};

	for (size_t i = 0; i < READY_UNITS * COUNT_OF(lists); i++) {
		const uint32_t list = lists[i % COUNT_OF(lists)];
		uint64_t lbas[VALUES_MAX], counts[VALUES_MAX];
		int lba_count, count;

		lun.unit = &units[i / COUNT_OF(lists)];
		start_cdb(unmap);
		put_field(lun.cdb, unmap->length, list);
		lba_count = lba_values(&(struct form){ .lba = { 2, 8 } }, lbas);
		for (int at = 0; at < lba_count; at++) {
			count = length_values(&(struct form){ .kind = BLOCKS, .length = { 10, 4 } },
					      lbas[at], counts);
			for (int n = 0; n < count; n++) {
				run_unmap(list, list - 2, list - 8, lbas[at], counts[n]);
				run_unmap(list, list - 1, list - 8, lbas[at], counts[n]);
				run_unmap(list, list - 2, list - 7, lbas[at], counts[n]);
				run_unmap(list, 0xffff, 0xffff, lbas[at], counts[n]);
				run_unmap(list, 0, 0, lbas[at], counts[n]);
			}
		}
	}
}

/* Every byte of a good list with every value, and the list cut behind every byte: so many times what is
 * left is good as well.
 */
static void
sweep_list(const struct form *form, const uint8_t *list, uint32_t length, int good_cuts)
{
	uint8_t *const at = lun.data_end - length;
	int good = 0;

	memcpy(at, list, length);
	put_field(lun.cdb, form->length, length);
	run(length);
	require(lun.job.outcome.status == STATUS_GOOD, "a good list is refused");
	for (uint32_t change = 0; change < length * 256; change++) {
		memcpy(at, list, length);
		at[change / 256] = (uint8_t)change;
		run(length);
	}
	for (uint32_t left = 0; left < length; left++) {
		memcpy(lun.data_end - left, list, left);
		put_field(lun.cdb, form->length, left);
		run(left);
		good += lun.job.outcome.status == STATUS_GOOD;
	}
	require(good == good_cuts, "lists that are cut are taken, or good ones refused");
}

/* What MODE SENSE tells, with a block descriptor, written back. */
static void
test_every_list_of_mode_select(void **state)
{
	static const uint8_t opcodes[][2] = { { 0x1a, 0x15 }, { 0x5a, 0x55 } };

	for (size_t i = 0; i < 2 * COUNT_OF(opcodes); i++) {
		const bool ten = i % 2 != 0;
		const uint32_t head = ten ? 8 : 4;
		struct lun_answer told;
		uint8_t list[256] = { 0 };

		lun.unit = &units[i / 2];
		memcpy(lun.cdb,
		       (uint8_t[CDB_BYTES]){ opcodes[i % 2][0], 0, 0x3f, 0, 255, 0, 0, 0,
					     ten ? 255 : 0 },
		       CDB_BYTES);
		told = *run(0);
		list[head - 1] = 8;
		put_be(list + head + 5, 3, lun.unit->block_bytes);
		memcpy(list + head + 8, told.data + head, told.length - head);
		memcpy(lun.cdb, (uint8_t[CDB_BYTES]){ opcodes[i % 2][1], 0x10 }, CDB_BYTES);
		/* no list; the descriptor alone; with one, two, three of the four pages */
		sweep_list(form_of(lun.cdb), list, told.length + 8, 5);
	}
}

static void
test_every_list_of_extended_copy(void **state)
{
	for (size_t u = 0; u < COUNT_OF(units); u += 3) {
		uint8_t list[16 + 32 + 28] = { 0 }, *segment = list + 48;

		lun.unit = &units[u];
		put_be(list + 2, 2, 32);
		put_be(list + 8, 4, 28);
		memcpy(list + 16, (uint8_t[]){ 0xe4, 0, 0, 0, 1, 3, 0, 8, 0x30 }, 9);
		put_be(list + 16 + 29, 3, lun.unit->block_bytes);
		segment[0] = 0x02;
		put_be(segment + 2, 2, 0x18);
		put_be(segment + 10, 2, 50);
		put_be(segment + 20, 8, 50);
		memcpy(lun.cdb, (uint8_t[CDB_BYTES]){ 0x83 }, CDB_BYTES);
		sweep_list(form_of(lun.cdb), list, sizeof(list), 1);
	}
}

static int
tell_how_many(void **state)
{
	print_message("%lu CDBs tried: %lu answered, %lu refused, %lu handed on, %lu jobs\n",
		      lun.tried, lun.by_verdict[LUN_GOOD], lun.by_verdict[LUN_CHECK],
		      lun.by_verdict[LUN_PASS], lun.by_verdict[LUN_JOB]);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_command_has_a_form),
		cmocka_unit_test(test_every_operation_code_and_every_value_of_byte_1),
		cmocka_unit_test(test_every_address_with_every_number_of_blocks),
		cmocka_unit_test(test_every_value_of_every_byte),
		cmocka_unit_test(test_every_page_at_every_allocation_length),
		cmocka_unit_test(test_every_list_of_unmap),
		cmocka_unit_test(test_every_list_of_mode_select),
		cmocka_unit_test(test_every_list_of_extended_copy),
	};

	return cmocka_run_group_tests(tests, make_rooms, tell_how_many);
}
