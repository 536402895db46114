/* Commands of several steps, driven against a volume that is a piece of memory.  Offsets are those
 * of SBC-3, written down a second time on purpose.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../scratch.h"
#include "adapters/lun/job.h"

#define BLOCKS 8192u
#define FUZZ_ROUNDS 100000

struct bench {
	struct scsi_unit unit;
	struct scsi_job job;
	uint8_t *disk;
	uint8_t data[300000];
	uint8_t ring[300000]; /* data as it comes with a command, and what is left in its place */
	struct iovec iov[4];
	int requests, zeros, deallocations, fuas, done;
	int fails_at; /* the request that fails, counted from 1 */
	int error;
	int late_after;	   /* so many requests; 0: never */
	int cache_lost_at; /* the request during which it is; 0: none */
	uint64_t longest_bytes;
	/* under way when others begin; with no CDB it covers nothing */
	struct scsi_job earlier;
};

static struct bench *bench;

static size_t
bytes(uint64_t blocks)
{
	return (size_t)(blocks * bench->unit.block_bytes);
}

static int
carry_out(struct engine_request *request)
{
	uint8_t *at = bench->disk + request->offset_bytes;
	uint64_t moved = 0;

	assert_true(request->offset_bytes + request->length_bytes <= bytes(BLOCKS));
	assert_true(request->length_bytes > 0);
	bench->requests++;
	request->cache_losses =
		3 + (bench->cache_lost_at > 0 && bench->requests >= bench->cache_lost_at);
	bench->fuas += request->fua;
	if (request->length_bytes > bench->longest_bytes)
		bench->longest_bytes = request->length_bytes;
	if (bench->requests == bench->fails_at)
		return bench->error;
	if (request->op == REQUEST_ZERO) {
		bench->zeros++;
		bench->deallocations += request->deallocate;
		memset(at, 0, (size_t)request->length_bytes);
		return 0;
	}
	for (int i = 0; i < request->iov_count; i++) {
		const struct iovec *iov = &request->iov[i];

		if (request->op == REQUEST_WRITE)
			memcpy(at + moved, iov->iov_base, iov->iov_len);
		else if (request->op == REQUEST_READ)
			memcpy(iov->iov_base, at + moved, iov->iov_len);
		moved += iov->iov_len;
	}
	assert_int_equal(moved,
			 request->length_bytes * (request->op == REQUEST_COMPARE_WRITE ? 2 : 1));
	return 0;
}

static void
on_submit(struct scsi_job *job)
{
	(void)job; /* carried out by run(), as the volume's thread would */
}

static uint32_t
left_ms(const struct scsi_job *job)
{
	(void)job;
	return bench->requests < bench->late_after ? 7 : 0;
}

static bool
in_the_way(const struct scsi_job *job)
{
	assert_int_equal(bench->requests, 0);
	return scsi_job_overtakes(job, &bench->earlier);
}

static void
on_done(struct scsi_job *job)
{
	(void)job;
	bench->done++;
}

/* The data in four pieces that end in the midst of blocks. */
static void
describe_data(size_t length)
{
	size_t first = length / 3, second = length / 2, third = length / 5 * 4;

	assert_true(length <= sizeof(bench->data));
	bench->iov[0] = (struct iovec){ bench->ring, first };
	bench->iov[1] = (struct iovec){ bench->ring + first, second - first };
	bench->iov[2] = (struct iovec){ bench->ring + second, third > second ? third - second : 0 };
	bench->iov[3] = (struct iovec){ bench->ring + (third > second ? third : second),
					length - (third > second ? third : second) };
	memcpy(bench->ring, bench->data, length);
}

/* An initiator that says it reads gets the buffer of a command that succeeds. */
static struct scsi_outcome
nothing_left(struct scsi_outcome outcome, uint8_t opcode, size_t length)
{
	for (size_t i = 0; opcode != 0x08 && outcome.status == 0 && i < length; i++)
		if (bench->ring[i] != 0)
			fail_msg("%02x left byte %zu of its buffer", opcode, i);
	return outcome;
}

static struct scsi_outcome
run(const uint8_t *cdb, size_t cdb_bytes, size_t length)
{
	struct scsi_job *job = &bench->job;

	bench->requests = bench->zeros = bench->deallocations = bench->fuas = bench->done = 0;
	bench->longest_bytes = 0;
	describe_data(length);
	scsi_job_free(job);
	memset(job, 0xee, sizeof(*job));
	job->unit = &bench->unit;
	job->iov = bench->iov;
	job->iov_count = 4;
	job->submit = on_submit;
	job->done = on_done;
	job->in_the_way = in_the_way;
	job->left_ms = bench->late_after > 0 ? left_ms : NULL;
	memset(job->cdb, 0, sizeof(job->cdb));
	memcpy(job->cdb, cdb, cdb_bytes);
	if (!scsi_job_begin(job)) {
		assert_int_equal(bench->requests, 0);
		return nothing_left(job->outcome, cdb[0], length);
	}
	job->unit = NULL;
	while (bench->done == 0) {
		struct engine_request *request = &job->request;

		request->done(request, carry_out(request));
	}
	assert_int_equal(bench->done, 1);
	return nothing_left(job->outcome, cdb[0], length);
}

#define RUN(length, ...)                                                                           \
	run((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), length)

static void
is_good(struct scsi_outcome outcome)
{
	assert_int_equal(outcome.status, 0);
}

static void
is_check(struct scsi_outcome outcome, uint8_t key, uint16_t asc)
{
	assert_int_equal(outcome.status, 2);
	assert_int_equal(outcome.key, key);
	assert_int_equal(outcome.asc, asc);
}

static bool
all_are(uint64_t first, uint64_t count, uint8_t value)
{
	for (size_t i = bytes(first); i < bytes(first + count); i++)
		if (bench->disk[i] != value)
			return false;
	return true;
}

static int
setup(void **state)
{
	uint32_t block = *state != NULL ? *(const uint32_t *)*state : 512;

	bench = calloc(1, sizeof(*bench));
	bench->unit = (struct scsi_unit){
		.level = 5,
		.blocks = BLOCKS,
		.block_bytes = block,
		.transfer_blocks_max = 2048,
		.chunk_bytes = 65536,
		.row_bytes = 3 * 65536,
	};
	bench->disk = malloc(bytes(BLOCKS));
	memset(bench->disk, 0xa5, bytes(BLOCKS));
	return 0;
}

static int
teardown(void **state)
{
	scsi_job_free(&bench->job);
	scsi_job_free(&bench->earlier);
	free(bench->disk);
	free(bench);
	return 0;
}

/* --- UNMAP --- */

static void
put(uint8_t *at, int count, uint64_t value)
{
	while (count-- > 0) {
		at[count] = (uint8_t)value;
		value >>= 8;
	}
}

static size_t
unmap_list(int count, const uint64_t (*ranges)[2])
{
	memset(bench->data, 0, 8);
	put(bench->data, 2, (uint64_t)(16 * count + 6));
	put(bench->data + 2, 2, (uint64_t)(16 * count));
	for (int i = 0; i < count; i++) {
		put(bench->data + 8 + 16 * i, 8, ranges[i][0]);
		put(bench->data + 8 + 16 * i + 8, 4, ranges[i][1]);
		put(bench->data + 8 + 16 * i + 12, 4, 0);
	}
	return (size_t)(16 * count + 8);
}

static struct scsi_outcome
unmap(int count, const uint64_t (*ranges)[2])
{
	size_t length = unmap_list(count, ranges);

	return RUN(length, 0x42, 0, 0, 0, 0, 0, 0, (uint8_t)(length >> 8), (uint8_t)length, 0);
}

static void
test_unmap_takes_all_descriptors_also_such_that_overlap_or_are_empty(void **state)
{
	is_good(unmap(
		4, (const uint64_t[][2]){ { 10, 20 }, { 25, 10 }, { 100, 0 }, { BLOCKS - 1, 1 } }));
	assert_int_equal(bench->zeros, 2); /* neighbours are one */
	assert_int_equal(bench->deallocations, 2);
	assert_true(all_are(10, 25, 0) && all_are(35, BLOCKS - 36, 0xa5) && all_are(0, 10, 0xa5));
	assert_true(all_are(BLOCKS - 1, 1, 0));
	is_good(unmap(
		5, (const uint64_t[][2]){ { 72, 8 }, { 40, 8 }, { 48, 8 }, { 40, 2 }, { 57, 1 } }));
	assert_int_equal(bench->zeros, 3);
	assert_true(all_are(40, 16, 0) && all_are(56, 1, 0xa5) && all_are(57, 1, 0) &&
		    all_are(58, 14, 0xa5) && all_are(72, 8, 0));
	is_good(unmap(0, NULL));
	/* the end, and nothing behind it */
	is_good(unmap(1, (const uint64_t[][2]){ { BLOCKS, 0 } }));
	assert_int_equal(bench->requests, 0);
	is_good(RUN(0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	is_good(RUN(bytes(8), 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

/* What is begun after the initiator has given the command up would land on what it wrote since. */
static void
test_nothing_is_begun_when_it_is_late(void **state)
{
	bench->late_after = 2;
	is_check(unmap(4, (const uint64_t[][2]){ { 0, 8 }, { 16, 8 }, { 32, 8 }, { 48, 8 } }), 0x0b,
		 0x2e02);
	assert_int_equal(bench->requests, 2);
	assert_int_equal(bench->job.request.limit_ms, 7);
	assert_true(all_are(16, 8, 0) && all_are(32, 8, 0xa5) && all_are(48, 8, 0xa5));
	bench->late_after = 4;
	is_good(unmap(4, (const uint64_t[][2]){ { 0, 8 }, { 16, 8 }, { 32, 8 }, { 48, 8 } }));
	assert_true(all_are(48, 8, 0));
}

/* What is repeated by the volume itself is the step that was under way; of earlier ones nobody
 * knows.
 */
static void
test_a_cache_that_takes_an_earlier_step_along_fails_the_command(void **state)
{
	bench->cache_lost_at = 2;
	is_check(unmap(3, (const uint64_t[][2]){ { 0, 8 }, { 16, 8 }, { 32, 8 } }), 4, 0x0c00);
	assert_int_equal(bench->requests, 2);
	bench->cache_lost_at = 1;
	is_good(unmap(3, (const uint64_t[][2]){ { 0, 8 }, { 16, 8 }, { 32, 8 } }));
}

static void
test_unmap_that_is_refused_did_nothing(void **state)
{
	uint64_t many[257][2];
	size_t length;

	is_check(unmap(2, (const uint64_t[][2]){ { 0, 10 }, { BLOCKS - 1, 2 } }), 5, 0x2100);
	is_check(unmap(2, (const uint64_t[][2]){ { 0, 10 }, { ~0ull, 1 } }), 5, 0x2100);
	for (int i = 0; i < 257; i++) /* with gaps, and from the end */
		many[i][0] = (uint64_t)(2 * (256 - i)), many[i][1] = 1;
	is_check(unmap(257, (const uint64_t(*)[2])many), 5, 0x2600);
	is_good(unmap(256, (const uint64_t(*)[2])many));
	bench->unit.blocks = 1ull << 40;
	is_check(unmap(2, (const uint64_t[][2]){ { 0, 1u << 20 }, { 0, 1 } }), 5, 0x2600);
	bench->unit.blocks = BLOCKS;
	memset(bench->disk, 0xa5, bytes(BLOCKS));
	length = unmap_list(2, (const uint64_t[][2]){ { 0, 10 }, { 20, 10 } });
	/* ANCHOR */
	is_check(RUN(length, 0x42, 1, 0, 0, 0, 0, 0, 0, (uint8_t)length, 0), 5, 0x2400);
	/* less than it says */
	is_check(RUN(length, 0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0), 5, 0x1a00);
	/* less was sent */
	is_check(RUN(24, 0x42, 0, 0, 0, 0, 0, 0, 0, (uint8_t)length, 0), 5, 0x1a00);
	is_check(RUN(7, 0x42, 0, 0, 0, 0, 0, 0, 0, 7, 0), 5, 0x1a00);
	put(bench->data, 2, length);
	is_check(RUN(length, 0x42, 0, 0, 0, 0, 0, 0, 0, (uint8_t)length, 0), 5, 0x1a00);
	assert_true(all_are(0, BLOCKS, 0xa5));
	put(bench->data, 2, length - 2);
	put(bench->data + 2, 2, 16 + 15); /* the last descriptor is incomplete */
	is_good(RUN(length, 0x42, 0, 0, 0, 0, 0, 0, 0, (uint8_t)length, 0));
	assert_true(all_are(0, 10, 0) && all_are(10, 30, 0xa5));
}

static void
test_an_error_of_any_step_is_the_commands(void **state)
{
	bench->fails_at = 2;
	bench->error = -EIO;
	is_check(unmap(3, (const uint64_t[][2]){ { 0, 10 }, { 20, 10 }, { 40, 10 } }), 4, 0x0c00);
	assert_int_equal(bench->requests, 2);
	bench->fails_at = 1;
	bench->error = -ETIMEDOUT;
	is_check(RUN(bytes(1), 0x93, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0), 2, 0x0403);
	bench->error = -ENODATA;
	is_check(RUN(0, 0x2f, 0, 0, 0, 0, 0, 0, 0, 8, 0), 3, 0x1100);
	bench->error = -EILSEQ;
	is_check(RUN(bytes(2), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 14, 0x1d00);
	bench->error = -ENOMEM;
	assert_int_equal(RUN(bytes(1), 0x93, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0).status,
			 0x28);
}

/* --- WRITE SAME --- */

static void
test_write_same_of_zeros_is_a_range_of_zeros(void **state)
{
	memset(bench->data, 0, bytes(1));
	is_good(RUN(bytes(1), 0x41, 0, 0, 0, 0, 5, 0, 0, 10, 0));
	assert_int_equal(bench->zeros, 1);
	assert_int_equal(bench->deallocations, 0);
	is_good(RUN(bytes(1), 0x41, 0x08, 0, 0, 0, 15, 0, 0, 10, 0));
	assert_int_equal(bench->deallocations, 1);
	is_good(RUN(bytes(1), 0x93, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 10, 0, 0));
	assert_int_equal(bench->zeros, 1);
	is_good(RUN(bytes(1), 0x93, 0x08, 0, 0, 0, 0, 0, 0, 0, 35, 0, 0, 0, 10, 0, 0));
	assert_int_equal(bench->deallocations, 1);
	assert_true(all_are(0, 5, 0xa5) && all_are(5, 40, 0) && all_are(45, 100, 0xa5));
}

static void
test_write_same_of_data_is_written_also_with_unmap(void **state)
{
	for (uint8_t unmaps = 0; unmaps <= 8; unmaps += 8) {
		for (size_t i = 0; i < bytes(1); i++)
			bench->data[i] = (uint8_t)(i * 7 + unmaps);
		is_good(RUN(bytes(1), 0x93, unmaps, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0x17, 0, 0, 0));
		assert_int_equal(bench->zeros, 0);
		assert_true(bench->longest_bytes <= 2u << 20);
		for (uint64_t block = 3; block < 3 + 0x1700; block++)
			assert_memory_equal(bench->disk + bytes(block), bench->data, bytes(1));
		assert_true(all_are(0, 3, 0xa5) && all_are(3 + 0x1700, 10, 0xa5));
	}
}

static void
test_write_same_keeps_to_the_limit_and_never_means_all_to_the_end(void **state)
{
	is_check(RUN(bytes(1), 0x93, 0, 0, 0, 0, 0, 0, 0, 0x1f, 0x00, 0, 0, 0, 0, 0, 0), 5, 0x2400);
	is_check(RUN(bytes(1), 0x41, 0x08, 0, 0, 0, 15, 0, 0, 0, 0), 5, 0x2400);
	assert_true(all_are(0, BLOCKS, 0xa5));
	bench->unit.blocks = 1ull << 40;
	is_check(RUN(bytes(1), 0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0), 5,
		 0x2400);
}

static void
test_write_same_is_refused_for_what_is_not_there(void **state)
{
	memset(bench->data, 0, bytes(2));
	is_check(RUN(bytes(1), 0x41, 0x10, 0, 0, 0, 0, 0, 0, 1, 0), 5, 0x2400); /* ANCHOR */
	is_check(RUN(bytes(1), 0x93, 0x18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2400);
	is_check(RUN(bytes(1), 0x41, 0x20, 0, 0, 0, 0, 0, 0, 1, 0), 5, 0x2400); /* WRPROTECT */
	is_check(RUN(bytes(1), 0x41, 0x04, 0, 0, 0, 0, 0, 0, 1, 0), 5, 0x2400); /* PBDATA */
	/* NDOB: LIO does not see that it writes */
	is_check(RUN(bytes(1), 0x41, 0x01, 0, 0, 0, 0, 0, 0, 1, 0), 5, 0x2400);
	is_check(RUN(0, 0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2400);
	is_check(RUN(0, 0x93, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2400);
	is_check(RUN(bytes(1), 0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2400);
	/* more than a block */
	is_check(RUN(bytes(2), 0x41, 0, 0, 0, 0, 0, 0, 0, 2, 0), 5, 0x2400);
	is_check(RUN(0, 0x41, 0, 0, 0, 0, 0, 0, 0, 2, 0), 5, 0x2400);
	is_check(RUN(bytes(1), 0x41, 0, 0, 0, 0x1f, 0xff, 0, 0, 2, 0), 5, 0x2100);
	is_check(RUN(bytes(1), 0x93, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2,
		     0, 0),
		 5, 0x2100);
	assert_true(all_are(0, BLOCKS, 0xa5));
}

/* --- COMPARE AND WRITE, READ(6), WRITE(6) --- */

static void
test_compare_and_write_is_one_request_with_both_halves(void **state)
{
	uint8_t most = (uint8_t)(65536 / bench->unit.block_bytes);

	is_good(RUN(bytes(6), 0x89, 0x08, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0));
	assert_int_equal(bench->requests, 1);
	assert_int_equal(bench->fuas, 1);
	assert_int_equal(bench->job.request.op, REQUEST_COMPARE_WRITE);
	assert_int_equal(bench->job.request.offset_bytes, bytes(9));
	assert_int_equal(bench->job.request.length_bytes, bytes(3));
	is_good(RUN(0, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0));
	assert_int_equal(bench->requests, 0);
	/* 256 blocks that don't fit into the one byte of their number */
	is_check(RUN(bytes(512 * 512 / bench->unit.block_bytes), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0,
		     0, 0, 0, 0, 0),
		 5, 0x2400);
	is_good(RUN(bytes(2u * most), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, most, 0, 0));
	is_check(RUN(bytes(2u * most), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		     (uint8_t)(most + 1), 0, 0),
		 5, 0x2400);
	is_check(RUN(bytes(5), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0), 5, 0x2400);
	is_check(RUN(bytes(2), 0x89, 0x20, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0), 5, 0x2400);
	is_check(RUN(bytes(4), 0x89, 0, 0, 0, 0, 0, 0, 0, 0x1f, 0xff, 0, 0, 0, 2, 0, 0), 5, 0x2100);
}

static void
test_six_byte_commands_of_length_0_mean_256_blocks(void **state)
{
	size_t most = 300000 / bytes(1) < 256 ? 300000 / bytes(1) : 256;

	if (most == 256) {
		memset(bench->data, 0x11, bytes(256));
		is_good(RUN(bytes(256), 0x0a, 0, 1, 0, 0, 0));
		assert_true(all_are(256, 256, 0x11) && all_are(255, 1, 0xa5) &&
			    all_are(512, 1, 0xa5));
	}
	memset(bench->data, 0x22, bytes(2));
	is_good(RUN(bytes(2), 0x0a, 0, 0, 7, 2, 0));
	memset(bench->data, 0, bytes(2));
	is_good(RUN(bytes(2), 0x08, 0, 0, 7, 2, 0));
	assert_int_equal(bench->ring[0], 0x22);
	assert_int_equal(bench->ring[bytes(2) - 1], 0x22);
	is_check(RUN(bytes(2), 0x08, 0, 0x1f, 0xff, 2, 0), 5, 0x2100);
}

/* --- VERIFY --- */

static void
test_verify_reads_all_of_it_and_compares_when_told_to(void **state)
{
	size_t length = bytes(50);

	for (size_t i = 0; i < length; i++)
		bench->data[i] = bench->disk[bytes(10) + i] = (uint8_t)(i * 13 + i / 256);
	is_good(RUN(0, 0x2f, 0, 0, 0, 0, 10, 0, 0, 50, 0));
	assert_true(bench->requests >= 1 && bench->longest_bytes <= JOB_BUFFER_BYTES);
	is_good(RUN(length, 0x2f, 0x02, 0, 0, 0, 10, 0, 0, 50, 0));
	is_good(RUN(length, 0xaf, 0x02, 0, 0, 0, 10, 0, 0, 0, 50, 0, 0));
	is_good(RUN(length, 0x8f, 0x02, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 50, 0, 0));
	for (size_t i = 0; i < length; i += 4099) {
		bench->disk[bytes(10) + i] ^= 1;
		is_check(RUN(length, 0x2f, 0x02, 0, 0, 0, 10, 0, 0, 50, 0), 14, 0x1d00);
		is_good(RUN(0, 0x2f, 0, 0, 0, 0, 10, 0, 0, 50, 0));
		bench->disk[bytes(10) + i] ^= 1;
	}
	memset(bench->data, 0xa5, bytes(1));
	/* one block for all */
	is_good(RUN(bytes(1), 0x2f, 0x06, 0, 0, 1, 0, 0, 1, 0, 0));
	bench->disk[bytes(300) + 5] ^= 1;
	is_check(RUN(bytes(1), 0x2f, 0x06, 0, 0, 1, 0, 0, 1, 0, 0), 14, 0x1d00);
	is_check(RUN(length, 0x2f, 0x04, 0, 0, 0, 10, 0, 0, 50, 0), 5, 0x2400); /* reserved */
	is_check(RUN(length, 0x2f, 0x22, 0, 0, 0, 10, 0, 0, 50, 0), 5, 0x2400); /* VRPROTECT */
	is_check(RUN(bytes(49), 0x2f, 0x02, 0, 0, 0, 10, 0, 0, 50, 0), 5, 0x2400);
	is_check(RUN(0, 0x2f, 0, 0, 0, 0x1f, 0xff, 0, 0, 2, 0), 5, 0x2100);
	/* 2049 blocks */
	is_check(RUN(0, 0x8f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x01, 0, 0), 5, 0x2400);
	is_good(RUN(0, 0x2f, 0x02, 0, 0, 0, 10, 0, 0, 0, 0));
	is_good(RUN(length, 0x2f, 0, 0, 0, 0, 10, 0, 0, 50, 0));
	is_good(RUN(length, 0x2f, 0, 0, 0, 0, 10, 0, 0, 0, 0));
}

static void
test_write_and_verify_writes_through_and_reads_back(void **state)
{
	static const uint8_t opcodes[] = { 0x2e, 0x8e, 0xae };

	for (int i = 0; i < 3; i++) {
		uint8_t cdb[16] = { opcodes[i], 0x02 };

		cdb[opcodes[i] == 0x8e ? 9 : 5] = 4;
		cdb[opcodes[i] == 0x8e ? 13 : opcodes[i] == 0xae ? 9 : 8] = 3;
		memset(bench->data, 0x40 + i, bytes(3));
		is_good(run(cdb, 16, bytes(3)));
		assert_int_equal(bench->fuas, 1);
		assert_int_equal(bench->requests, 2);
		assert_true(all_are(4, 3, (uint8_t)(0x40 + i)) && all_are(7, 1, 0xa5));
		cdb[1] = 0x06;
		is_check(run(cdb, 16, bytes(3)), 5, 0x2400);
	}
	bench->fails_at = 2;
	bench->error = -ENODATA;
	is_check(RUN(bytes(1), 0x2e, 0, 0, 0, 0, 4, 0, 0, 1, 0), 3, 0x1100);
}

/* --- EXTENDED COPY --- */

struct segment {
	uint64_t from, to, blocks;
};

static size_t
copy_list(int count, const struct segment *segments)
{
	uint8_t *list = bench->data;

	memset(list, 0, 16 + 32 + 28 * 20);
	put(list + 2, 2, 32);
	put(list + 8, 4, (uint64_t)(28 * count));
	list[16] = 0xe4;
	list[16 + 4] = 1;
	list[16 + 5] = 3;
	list[16 + 7] = 8;
	memcpy(list + 16 + 8, "\x33\x0c\x9a\x52\x7d\x14\x4f\x0e", 8);
	put(list + 16 + 29, 3, bench->unit.block_bytes);
	memcpy(bench->unit.uuid, "\xd3\x0c\x9a\x52\x7d\x14\x4f\x0e", 8);
	for (int i = 0; i < count; i++) {
		uint8_t *segment = list + 48 + 28 * i;

		segment[0] = 0x02;
		put(segment + 2, 2, 0x18);
		put(segment + 10, 2, segments[i].blocks);
		put(segment + 12, 8, segments[i].from);
		put(segment + 20, 8, segments[i].to);
	}
	return (size_t)(48 + 28 * count);
}

static struct scsi_outcome
copy_sent(size_t length)
{
	return RUN(length, 0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (uint8_t)(length >> 8),
		   (uint8_t)length, 0, 0);
}

static struct scsi_outcome
copy(int count, const struct segment *segments)
{
	return copy_sent(copy_list(count, segments));
}

static void
test_extended_copy_copies_each_segment(void **state)
{
	for (size_t i = 0; i < bytes(1000); i++)
		bench->disk[i] = (uint8_t)(i * 31 + i / 512);
	is_good(copy(3, (const struct segment[]){
				{ 10, 2000, 700 }, { 1, 3000, 0 }, { 5, BLOCKS - 1, 1 } }));
	assert_memory_equal(bench->disk + bytes(2000), bench->disk + bytes(10), bytes(700));
	assert_memory_equal(bench->disk + bytes(BLOCKS - 1), bench->disk + bytes(5), bytes(1));
	assert_true(all_are(1999, 1, 0xa5) && all_are(2700, 2000, 0xa5));
	assert_true(bench->longest_bytes <= JOB_BUFFER_BYTES);
	is_good(copy(0, NULL));
	is_good(copy_sent(0));
	bench->fails_at = 2;
	bench->error = -EIO;
	is_check(copy(1, (const struct segment[]){ { 10, 2000, 1 } }), 4, 0x0c00);
}

static void
test_extended_copy_that_is_not_understood_is_refused_with_its_reason(void **state)
{
	static const struct segment one = { 10, 2000, 7 };
	struct segment many[17] = { one };
	size_t length = copy_list(1, &one);

	is_check(copy_sent(15), 5, 0x1a00);
	is_check(copy_sent(length - 1), 5, 0x1a00);
	is_check(copy(17, many), 5, 0x2608);
	is_check(copy(1, &(const struct segment){ BLOCKS - 1, 0, 2 }), 10, 0);
	is_check(copy(1, &(const struct segment){ 0, ~0ull, 2 }), 10, 0);
	copy_list(1, &one);
	put(bench->data + 8, 4, 1024);
	is_check(copy_sent(16 + 32 + 1024), 5, 0x1a00); /* more than is taken at all */
	copy_list(1, &one);
	put(bench->data + 2, 2, 96);
	is_check(copy_sent(length + 64), 5, 0x2606);
	copy_list(1, &one);
	bench->data[16] = 0xe0;
	is_check(copy_sent(length), 5, 0x2607);
	copy_list(1, &one);
	bench->data[48] = 0x04;
	is_check(copy_sent(length), 5, 0x2609);
	copy_list(1, &one);
	bench->data[16 + 8] ^= 1; /* another LUN */
	is_check(copy_sent(length), 10, 0x0d02);
	copy_list(1, &one);
	bench->data[48 + 5] = 1; /* a second device, which is not there */
	is_check(copy_sent(length), 10, 0);
	copy_list(1, &one);
	put(bench->data + 12, 4, 8); /* inline data */
	is_check(copy_sent(length), 5, 0x2600);
	copy_list(1, &one);
	/* LID4 */
	is_check(RUN(length, 0x83, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (uint8_t)length, 0, 0), 5,
		 0x2400);
	assert_true(all_are(0, BLOCKS, 0xa5));
}

/* --- what is written while a long command goes on --- */

static bool
covers(uint64_t first, uint64_t count)
{
	return scsi_job_covers(&bench->job, bytes(first), bytes(count));
}

static void
test_a_long_command_covers_what_it_writes_and_no_more(void **state)
{
	is_good(unmap(2, (const uint64_t[][2]){ { 40, 10 }, { 10, 10 } }));
	assert_true(covers(19, 1) && covers(19, 30) && covers(39, 2) && covers(0, 100) &&
		    covers(12, 1));
	assert_false(covers(0, 10) || covers(20, 20) || covers(50, 1));
	is_good(copy(2, (const struct segment[]){ { 10, 2000, 700 }, { 1, 3000, 1 } }));
	assert_true(covers(2000, 1) && covers(2699, 1) && covers(3000, 1));
	assert_false(covers(0, 2000) || covers(2700, 300) || covers(3001, 1));
	is_good(RUN(bytes(1), 0x41, 0, 0, 0, 0, 8, 0, 0, 8, 0)); /* WRITE SAME(10) */
	assert_true(covers(8, 1) && covers(15, 1));
	assert_false(covers(0, 8) || covers(16, 1));
	is_good(RUN(bytes(8), 0x0a, 0, 0, 8, 8, 0)); /* WRITE(6): one request */
	assert_false(covers(0, BLOCKS));
	is_good(RUN(0, 0x2f, 0, 0, 0, 0, 8, 0, 0, 8, 0)); /* VERIFY */
	assert_false(covers(0, BLOCKS));
}

static void
is_busy(struct scsi_outcome outcome)
{
	assert_int_equal(outcome.status, 8);
	assert_int_equal(bench->requests, 0);
}

/* The initiator may have given the earlier one up, whose pieces would land on what it writes now.
 */
static void
test_what_a_long_command_under_way_would_overwrite_is_busy(void **state)
{
	is_good(unmap(2, (const uint64_t[][2]){ { 100, 1 }, { 10, 10 } }));
	bench->earlier = bench->job;
	bench->job.ranges = NULL;
	is_busy(RUN(bytes(1), 0x0a, 0, 0, 19, 1, 0));
	is_good(RUN(bytes(1), 0x0a, 0, 0, 20, 1, 0));
	is_good(RUN(bytes(1), 0x08, 0, 0, 19, 1, 0));
	is_busy(RUN(bytes(2), 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 1, 0, 0));
	is_busy(RUN(bytes(1), 0x41, 0, 0, 0, 0, 4, 0, 0, 8, 0));
	is_good(RUN(bytes(1), 0x41, 0, 0, 0, 0, 4, 0, 0, 6, 0));
	is_busy(RUN(bytes(1), 0x2e, 0, 0, 0, 0, 100, 0, 0, 1, 0));
	is_good(RUN(0, 0x2f, 0, 0, 0, 0, 19, 0, 0, 1, 0));
	is_busy(unmap(2, (const uint64_t[][2]){ { 0, 1 }, { 100, 1 } }));
	is_good(unmap(2, (const uint64_t[][2]){ { 0, 10 }, { 20, 80 } }));
	is_busy(copy(2, (const struct segment[]){ { 10, 2000, 10 }, { 2000, 15, 1 } }));
	is_good(copy(1, (const struct segment[]){ { 10, 2000, 10 } }));
}

/* The kernel's hw_block_size takes any number. */
static void
test_blocks_that_do_not_fit_into_a_buffer_are_refused(void **state)
{
	static const uint32_t sizes[] = { 1536, 3072, 2 * JOB_BUFFER_BYTES };
	uint8_t write_same[10] = { 0x41 }, verify[10] = { 0x2f, 0x06 };

	(void)state;
	write_same[8] = verify[8] = 100;
	memset(bench->data, 7, sizeof(bench->data));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bench->unit.block_bytes = sizes[i];
		bench->unit.blocks = 100;
		is_check(run(write_same, sizeof(write_same), sizes[i]), SENSE_ILLEGAL_REQUEST,
			 ASC_INVALID_OPCODE);
		is_check(run(verify, sizeof(verify), sizes[i]), SENSE_ILLEGAL_REQUEST,
			 ASC_INVALID_OPCODE);
	}
	bench->unit.block_bytes = 512;
	bench->unit.blocks = BLOCKS;
}

static void
test_no_command_block_does_harm(void **state)
{
	static const uint8_t opcodes[] = { 0x08, 0x0a, 0x2e, 0x2f, 0x41, 0x42, 0x83,
					   0x89, 0x8e, 0x8f, 0x93, 0xae, 0xaf };
	uint64_t seed = 0x6a6f62;

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		uint8_t cdb[16];

		for (int i = 0; i < 16; i++)
			cdb[i] = scratch_random(&seed) % 3 ? 0 : (uint8_t)scratch_random(&seed);
		for (int i = 0; i < 600; i++)
			bench->data[i] =
				scratch_random(&seed) % 3 ? 0 : (uint8_t)scratch_random(&seed);
		cdb[0] = opcodes[scratch_random(&seed) % sizeof(opcodes)];
		run(cdb, 16,
		    scratch_random(&seed) % 2 ? (size_t)(scratch_random(&seed) % 600) : bytes(1));
	}
}

int
main(void)
{
	static uint32_t large = 4096;
#define BOTH(test)                                                                                 \
	cmocka_unit_test_setup_teardown(test, setup, teardown),                                    \
	{                                                                                          \
#test " (4096)", test, setup, teardown, &large                                     \
	}
	const struct CMUnitTest tests[] = {
		BOTH(test_unmap_takes_all_descriptors_also_such_that_overlap_or_are_empty),
		cmocka_unit_test_setup_teardown(test_nothing_is_begun_when_it_is_late, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_a_cache_that_takes_an_earlier_step_along_fails_the_command, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_unmap_that_is_refused_did_nothing, setup,
						teardown),
		BOTH(test_an_error_of_any_step_is_the_commands),
		BOTH(test_write_same_of_zeros_is_a_range_of_zeros),
		BOTH(test_write_same_of_data_is_written_also_with_unmap),
		BOTH(test_write_same_keeps_to_the_limit_and_never_means_all_to_the_end),
		BOTH(test_write_same_is_refused_for_what_is_not_there),
		BOTH(test_compare_and_write_is_one_request_with_both_halves),
		BOTH(test_six_byte_commands_of_length_0_mean_256_blocks),
		BOTH(test_verify_reads_all_of_it_and_compares_when_told_to),
		BOTH(test_write_and_verify_writes_through_and_reads_back),
		BOTH(test_extended_copy_copies_each_segment),
		cmocka_unit_test_setup_teardown(
			test_extended_copy_that_is_not_understood_is_refused_with_its_reason, setup,
			teardown),
		BOTH(test_a_long_command_covers_what_it_writes_and_no_more),
		BOTH(test_what_a_long_command_under_way_would_overwrite_is_busy),
		cmocka_unit_test_setup_teardown(test_no_command_block_does_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_blocks_that_do_not_fit_into_a_buffer_are_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
