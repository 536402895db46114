/* Feeds CDBs with parameter lists to a LUN, whose volume is a piece of memory.
 *
 * Input: a byte of options, a CDB of 16 bytes, then the data that comes with it.  What is handed on to
 * the runner is in bounds and as long as its CDB says; every other command ends, once, after a
 * bounded number of requests, all of them in bounds; and what ended well leaves nothing of its buffer
 * to be read.
 */
#include "../../fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/lun/commands.h"

#define BLOCKS 4096u
#define DATA_MAX 65536u
#define REQUESTS_MAX 4096
#define CDB_BYTES 16u

static struct {
	struct scsi_unit unit;
	struct scsi_job job;
	uint8_t *disk, *data;
	struct iovec iov[2];
	uint32_t length;
	int requests, fails_at, done;
} lun;

static uint64_t
bytes(uint64_t blocks)
{
	return blocks * lun.unit.block_bytes;
}

static int
carry_out(struct engine_request *request)
{
	uint8_t *at = lun.disk + request->offset_bytes;
	uint64_t left = request->length_bytes * (request->op == REQUEST_COMPARE_WRITE ? 2 : 1);

	fuzz_require(request->length_bytes > 0 && request->offset_bytes <= bytes(BLOCKS) &&
			     request->length_bytes <= bytes(BLOCKS) - request->offset_bytes,
		     "a request beyond the volume");
	fuzz_require(++lun.requests <= REQUESTS_MAX, "a command without end");
	if (lun.requests == lun.fails_at)
		return -EIO;
	if (request->op == REQUEST_ZERO) {
		memset(at, 0, request->length_bytes);
		return 0;
	}
	for (int i = 0; i < request->iov_count; i++) {
		const struct iovec *iov = &request->iov[i];

		fuzz_require(iov->iov_len <= left, "more data than the request has");
		left -= iov->iov_len;
		if (request->op == REQUEST_READ) {
			memcpy(iov->iov_base, at, iov->iov_len);
			at += iov->iov_len;
		} else if (request->op == REQUEST_WRITE) {
			memcpy(at, iov->iov_base, iov->iov_len);
			at += iov->iov_len;
		}
	}
	fuzz_require(left == 0, "less data than the request has");
	return 0;
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
run_job(const uint8_t *cdb)
{
	lun.job = (struct scsi_job){
		.unit = &lun.unit,
		.iov = lun.iov,
		.iov_count = 2,
		.submit = on_submit,
		.done = on_done,
	};
	memcpy(lun.job.cdb, cdb, CDB_BYTES);
	if (scsi_job_begin(&lun.job))
		while (lun.done == 0) {
			struct engine_request *request = &lun.job.request;

			request->done(request, carry_out(request));
			fuzz_steps++;
		}
	fuzz_require(lun.done <= 1, "a command that ended twice");
	for (uint32_t i = 0; lun.job.outcome.status == 0 && !lun.job.reads && i < lun.length; i++)
		fuzz_require(lun.data[i] == 0, "data that can be read back");
	scsi_job_free(&lun.job);
}

static void
check_passed(const uint8_t *cdb)
{
	uint64_t lba, blocks;

	lun_read_range(cdb, &lba, &blocks);
	fuzz_require(!lun_is_outside(&lun.unit, lba, blocks), "passed on, though out of range");
}

static void
run_command(const uint8_t *cdb)
{
	struct lun_answer *answer = malloc(sizeof(*answer));

	fuzz_require(answer != NULL, "no memory");
	scsi_emulate(&lun.unit, cdb, lun.length, answer);
	switch (answer->verdict) {
	case LUN_JOB:
		run_job(cdb);
		break;
	case LUN_PASS:
		check_passed(cdb);
		break;
	case LUN_GOOD:
		fuzz_require(answer->length <= LUN_ANSWER_MAX, "an answer that is too long");
		break;
	case LUN_CHECK:
		fuzz_require(answer->key != 0, "refused without a reason");
		break;
	}
	free(answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t cdb[CDB_BYTES];
	uint32_t first;

	if (size < 1 + CDB_BYTES)
		return 0;
	if (lun.disk == NULL)
		lun.disk = calloc(BLOCKS, 4096);
	lun.length = (uint32_t)(size - 1 - CDB_BYTES);
	lun.length = data[0] & 4 ? lun.length : lun.length / 512 * 512;
	lun.length = lun.length < DATA_MAX ? lun.length : DATA_MAX;
	lun.data = malloc(lun.length + 1); /* ASan sees its end */
	fuzz_require(lun.disk != NULL && lun.data != NULL, "no memory");
	memcpy(lun.data, data + 1 + CDB_BYTES, lun.length);
	memcpy(cdb, data + 1, CDB_BYTES);
	lun.unit = (struct scsi_unit){
		.uuid = { 1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10 },
		.level = data[0] & 2 ? 5 : -1,
		.blocks = BLOCKS,
		.block_bytes = data[0] & 1 ? 4096 : 512,
		.transfer_blocks_max = 8192,
		.chunk_bytes = data[0] & 2 ? 65536 : 0,
		.row_bytes = data[0] & 2 ? 3 * 65536 : 0,
		.gateway = data[0] & 4 ? 1 : 0,
		.not_ready = data[0] & 8 ? ASC_BECOMING_READY : 0,
	};
	first = lun.length / 3;
	lun.iov[0] = (struct iovec){ lun.data, first };
	lun.iov[1] = (struct iovec){ lun.data + first, lun.length - first };
	lun.requests = lun.done = 0;
	lun.fails_at = data[0] >> 4;
	run_command(cdb);
	free(lun.data);
	return 0;
}

/* --- inputs --- */

static int
command_count(void)
{
	int count = 0;

	while (scsi_commands[count].name != NULL)
		count++;
	return count;
}

/* A field of the CDB near what is sensible, or anything. */
static void
make_cdb(uint8_t *cdb)
{
	const struct scsi_command *command = &scsi_commands[fuzz_below((uint32_t)command_count())];

	memset(cdb, 0, CDB_BYTES);
	cdb[0] = command->opcode;
	for (int i = 1; i < (int)CDB_BYTES; i++)
		if (fuzz_below(4) == 0)
			cdb[i] = (uint8_t)(fuzz_below(3) ? fuzz_below(32) : fuzz_below(256));
	if (command->action != NO_ACTION)
		cdb[1] = (uint8_t)((cdb[1] & 0xe0) | command->action);
	if (fuzz_below(50) == 0)
		cdb[0] = (uint8_t)fuzz_below(256);
}

size_t
fuzz_make(uint8_t *input)
{
	const uint32_t data = fuzz_below(3) ? 512 * fuzz_below(9) : fuzz_below(200);

	input[0] = (uint8_t)(fuzz_below(8) | (fuzz_below(16) == 0 ? 8 : 0) |
			     (fuzz_below(4) == 0 ? fuzz_below(16) << 4 : 0));
	make_cdb(input + 1);
	for (uint32_t i = 0; i < data; i++)
		input[1 + CDB_BYTES + i] = (uint8_t)(fuzz_below(3)   ? 0
						     : fuzz_below(2) ? fuzz_below(32)
								     : fuzz_below(256));
	return 1 + CDB_BYTES + data;
}
