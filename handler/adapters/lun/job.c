/* lun/job.c - see job.h.  SBC-3 is the reference for each command.
 *
 * UNMAP and WRITE SAME of zeros are one kind of request to the engine, which keeps parity true and
 * reads zeros from then on, whether or not a member gives space back.  WRITE SAME of anything else
 * is written from a buffer of repeated blocks.  VERIFY reads (bad sectors are found, and mended by
 * what that sets going) and compares where it is told to.
 */
#include "job.h"

#include "adapters/base/big_endian.h"

#include "commands.h"
#include "copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the data that came with the command --- */

static uint64_t
data_bytes(const struct scsi_job *job)
{
	uint64_t total = 0;

	for (int i = 0; i < job->iov_count; i++)
		total += job->iov[i].iov_len;
	return total;
}

/* What a command leaves of old data in the buffer goes to an initiator that says it reads (LIO takes
 * its word for it).
 */
static void
data_clear(const struct scsi_job *job)
{
	for (int i = 0; i < job->iov_count; i++)
		if (job->iov[i].iov_len > 0)
			memset(job->iov[i].iov_base, 0, job->iov[i].iov_len);
}

static size_t
data_copy(const struct scsi_job *job, uint8_t *out, size_t max)
{
	size_t used = 0;

	for (int i = 0; i < job->iov_count && used < max; i++) {
		size_t part = job->iov[i].iov_len < max - used ? job->iov[i].iov_len : max - used;

		memcpy(out + used, job->iov[i].iov_base, part);
		used += part;
	}
	return used;
}

/* Are `length` bytes of it, from `skip` on, those of the buffer? */
static bool
data_equals(const struct scsi_job *job, uint64_t skip, const uint8_t *buffer, size_t length)
{
	for (int i = 0; i < job->iov_count && length > 0; i++) {
		const struct iovec *iov = &job->iov[i];
		size_t part;

		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		part = iov->iov_len - (size_t)skip < length ? iov->iov_len - (size_t)skip : length;
		if (memcmp((const uint8_t *)iov->iov_base + skip, buffer, part) != 0)
			return false;
		buffer += part;
		length -= part;
		skip = 0;
	}
	return length == 0;
}

/* --- life --- */

static bool
end_job(struct scsi_job *job, struct scsi_outcome outcome)
{
	job->outcome = outcome;
	free(job->buffer);
	job->buffer = NULL;
	return false;
}

static bool
refuse_job(struct scsi_job *job, uint16_t asc)
{
	return end_job(job, scsi_check(SENSE_ILLEGAL_REQUEST, asc));
}

static bool
good(struct scsi_job *job)
{
	if (!job->reads)
		data_clear(job);
	return end_job(job, (struct scsi_outcome){ .status = STATUS_GOOD });
}

static bool
no_memory(struct scsi_job *job)
{
	return end_job(job, (struct scsi_outcome){ .status = STATUS_TASK_SET_FULL });
}

static bool
busy(struct scsi_job *job)
{
	return end_job(job, (struct scsi_outcome){ .status = STATUS_BUSY });
}

/* A cache that was lost since an earlier step may have taken that along.  A flush that somebody
 * sent meanwhile was told of it, and one that follows the command would not be.
 */
static bool
lost_a_step(struct scsi_job *job, const struct engine_request *request)
{
	bool lost = job->wrote && job->cache_losses != request->cache_losses;

	job->wrote |= request->op != REQUEST_READ && !request->fua;
	job->cache_losses = request->cache_losses;
	return lost;
}

static void
requested(struct engine_request *request, int result)
{
	struct scsi_job *job = request->owner;

	if (result == 0 && lost_a_step(job, request))
		result = -EIO;
	/* Which NOT READY a volume that isn't assembled deserves, the caller knows better. */
	if (result != 0)
		end_job(job, scsi_outcome_of(request, result, false));
	if (result != 0 || !job->step(job))
		job->done(job);
}

/* False: it is too late for that, or too early, and the job has ended. */
static bool
submit(struct scsi_job *job, enum request_op op, uint64_t offset_bytes, uint64_t length_bytes,
       const struct iovec *iov, int iov_count)
{
	const uint32_t left_ms = job->left_ms != NULL ? job->left_ms(job) : 0;

	if (job->left_ms != NULL && left_ms == 0 && op != REQUEST_READ)
		return end_job(job, scsi_outcome_of(&job->request, -ETIME, false));
	if (!job->began && job->in_the_way != NULL && job->in_the_way(job))
		return busy(job);
	job->began = true;
	job->request = (struct engine_request){
		.limit_ms = left_ms,
		.op = op,
		.fua = job->fua && op != REQUEST_READ,
		.deallocate = job->deallocate,
		.offset_bytes = offset_bytes,
		.length_bytes = length_bytes,
		.iov = iov,
		.iov_count = iov_count,
		.done = requested,
		.owner = job,
	};
	job->submit(job);
	return true;
}

/* Take the range over into the job.  some: it must not be empty.  ASC of what is wrong with it, or
 * 0.
 */
static uint16_t
take_range(struct scsi_job *job, uint64_t blocks_max, bool some)
{
	const struct scsi_unit *unit = job->unit;
	uint64_t lba, blocks;

	lun_read_range(job->cdb, &lba, &blocks);
	if (lun_is_outside(unit, lba, blocks))
		return ASC_OUT_OF_RANGE;
	if (blocks > blocks_max || (some && blocks == 0))
		return ASC_INVALID_FIELD;
	job->offset_bytes = lba * unit->block_bytes;
	job->length_bytes = blocks * unit->block_bytes;
	return 0;
}

/* --- READ(6), WRITE(6), COMPARE AND WRITE: one request --- */

static bool
one_request(struct scsi_job *job, enum request_op op, uint64_t blocks_max, uint32_t copies)
{
	uint16_t fault = take_range(job, blocks_max, false);

	job->step = good;
	job->reads = op == REQUEST_READ;
	job->writes = job->reads ? WRITES_NOTHING : WRITES_RANGE;
	if (fault == 0 && (op == REQUEST_COMPARE_WRITE) && job->cdb[1] >> 5 != 0)
		fault = ASC_INVALID_FIELD; /* no protection information */
	if (fault == 0 && data_bytes(job) != copies * job->length_bytes)
		fault = ASC_INVALID_FIELD;
	if (fault != 0)
		return refuse_job(job, fault);
	if (job->length_bytes == 0)
		return good(job);
	job->fua = op == REQUEST_COMPARE_WRITE && (job->cdb[1] & 0x08);
	return submit(job, op, job->offset_bytes, job->length_bytes, job->iov, job->iov_count);
}

bool
lun_begin_read(struct scsi_job *job)
{
	return one_request(job, REQUEST_READ, job->unit->transfer_blocks_max, 1);
}

bool
lun_begin_write(struct scsi_job *job)
{
	return one_request(job, REQUEST_WRITE, job->unit->transfer_blocks_max, 1);
}

bool
lun_begin_compare_and_write(struct scsi_job *job)
{
	memset(job->cdb + 10, 0, 3); /* reserved: its number of blocks has one byte */
	return one_request(job, REQUEST_COMPARE_WRITE, COMPARE_WRITE_BYTES_MAX / job->block_bytes,
			   2);
}

/* --- UNMAP --- */

static bool
unmap_next(struct scsi_job *job)
{
	if (job->ranges_at < job->ranges_left) {
		struct job_range range = job->ranges[job->ranges_at++];

		return submit(job, REQUEST_ZERO, range.offset_bytes, range.length_bytes, NULL, 0);
	}
	return good(job);
}

static int
compare_ranges(const void *a, const void *b)
{
	const struct job_range *x = a, *y = b;

	return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

/* One range for those that touch or overlap: 256 descriptors of neighbouring blocks are one
 * request, not 256 writes of a row.
 */
static void
join_ranges(struct scsi_job *job, int count)
{
	int joined = 0;

	qsort(job->ranges, (size_t)count, sizeof(*job->ranges), compare_ranges);
	for (int i = 0; i < count; i++) {
		struct job_range *last = &job->ranges[joined - (joined > 0)];
		struct job_range range = job->ranges[i];
		uint64_t end = range.offset_bytes + range.length_bytes;

		if (range.length_bytes == 0)
			continue;
		if (joined == 0 || range.offset_bytes > last->offset_bytes + last->length_bytes)
			job->ranges[joined++] = range;
		else if (end > last->offset_bytes + last->length_bytes)
			last->length_bytes = end - last->offset_bytes;
	}
	job->ranges_left = joined;
}

/* All of the list is looked at before anything of it is done. */
static uint16_t
read_unmap_list(struct scsi_job *job, const uint8_t *list, int count)
{
	const struct scsi_unit *unit = job->unit;
	uint64_t total = 0;

	if (count > UNMAP_DESCRIPTORS_MAX)
		return ASC_INVALID_FIELD_IN_LIST;
	for (int i = 0; i < count; i++) {
		const uint8_t *descriptor = list + 8 + 16 * i;
		uint64_t lba = get_be(descriptor, 8), blocks = get_be(descriptor + 8, 4);

		if (lun_is_outside(unit, lba, blocks))
			return ASC_OUT_OF_RANGE;
		total += blocks;
		job->ranges[i] =
			(struct job_range){ lba * unit->block_bytes, blocks * unit->block_bytes };
	}
	join_ranges(job, count);
	return total > UNMAP_BYTES_MAX / unit->block_bytes ? ASC_INVALID_FIELD_IN_LIST : 0;
}

bool
lun_begin_unmap(struct scsi_job *job)
{
	size_t length = (size_t)get_be(job->cdb + 7, 2);
	uint8_t *list;
	size_t described;
	uint16_t fault;

	job->writes = WRITES_LIST;
	if (job->cdb[1] & 0x01) /* ANCHOR */
		return refuse_job(job, ASC_INVALID_FIELD);
	if (length == 0)
		return good(job);
	if (length < 8 || data_bytes(job) < length)
		return refuse_job(job, ASC_LIST_LENGTH);
	list = malloc(length);
	job->ranges = calloc(length / 16 + 1, sizeof(*job->ranges));
	if (list == NULL || job->ranges == NULL) {
		free(list);
		return no_memory(job);
	}
	data_copy(job, list, length);
	described = (size_t)get_be(list + 2, 2);
	if (described > length - 8 || get_be(list, 2) + 2 > length)
		fault = ASC_LIST_LENGTH;
	else
		/* an incomplete last one is ignored */
		fault = read_unmap_list(job, list, (int)(described / 16));
	free(list);
	if (fault != 0)
		return refuse_job(job, fault);
	job->deallocate = true;
	job->step = unmap_next;
	return unmap_next(job);
}

/* --- WRITE SAME --- */

static bool
same_next(struct scsi_job *job)
{
	uint64_t left = job->length_bytes - job->at_bytes;
	uint64_t offset = job->offset_bytes + job->at_bytes;
	int count = 0;

	if (left == 0)
		return good(job);
	if (left > (uint64_t)JOB_PIECES * JOB_BUFFER_BYTES)
		left = (uint64_t)JOB_PIECES * JOB_BUFFER_BYTES;
	job->at_bytes += left;
	for (uint64_t rest = left; rest > 0; count++) {
		size_t part = rest < JOB_BUFFER_BYTES ? (size_t)rest : JOB_BUFFER_BYTES;

		job->pieces[count] = (struct iovec){ job->buffer, part };
		rest -= part;
	}
	return submit(job, REQUEST_WRITE, offset, left, job->pieces, count);
}

static bool
is_zeros(const uint8_t *bytes, size_t length)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

bool
lun_begin_write_same(struct scsi_job *job)
{
	uint16_t fault = take_range(job, WRITE_SAME_BLOCKS_MAX, true);

	job->writes = WRITES_RANGE_IN_PIECES;
	/* ANCHOR, WRPROTECT, and bits that are reserved or no longer used.  NDOB too: LIO lets a
	 * command that brings no data pass read-only mappings and reservations.
	 */
	if (fault == 0 && (job->cdb[1] & ~0x08) != 0)
		fault = ASC_INVALID_FIELD;
	if (fault == 0 && data_bytes(job) != job->block_bytes)
		fault = ASC_INVALID_FIELD;
	if (fault != 0)
		return refuse_job(job, fault);
	if (job->length_bytes == 0)
		return good(job);
	job->deallocate = job->cdb[1] & 0x08;
	job->step = good;
	job->buffer = malloc(JOB_BUFFER_BYTES);
	if (job->buffer == NULL)
		return no_memory(job);
	data_copy(job, job->buffer, job->block_bytes);
	if (is_zeros(job->buffer, job->block_bytes))
		return submit(job, REQUEST_ZERO, job->offset_bytes, job->length_bytes, NULL, 0);
	for (uint32_t at = job->block_bytes; at < JOB_BUFFER_BYTES; at += job->block_bytes)
		memcpy(job->buffer + at, job->buffer, job->block_bytes);
	job->step = same_next;
	return same_next(job);
}

/* --- VERIFY, WRITE AND VERIFY --- */

static bool
matches(const struct scsi_job *job, uint64_t at, size_t length)
{
	if (!job->compares)
		return true;
	if (!job->same)
		return data_equals(job, at, job->buffer, length);
	for (size_t block = 0; block < length; block += job->block_bytes)
		if (!data_equals(job, 0, job->buffer + block, job->block_bytes))
			return false;
	return true;
}

static bool
verify_next(struct scsi_job *job)
{
	uint64_t left = job->length_bytes - job->at_bytes;

	if (left == 0)
		return good(job);
	job->pieces[0] = (struct iovec){ job->buffer, left < JOB_BUFFER_BYTES ? (size_t)left
									      : JOB_BUFFER_BYTES };
	return submit(job, REQUEST_READ, job->offset_bytes + job->at_bytes, job->pieces[0].iov_len,
		      job->pieces, 1);
}

static bool
verify_read(struct scsi_job *job)
{
	size_t length = job->pieces[0].iov_len;

	if (!matches(job, job->at_bytes, length))
		return end_job(job, scsi_check(SENSE_MISCOMPARE, ASC_MISCOMPARE));
	job->at_bytes += length;
	return verify_next(job);
}

static bool
verify_written(struct scsi_job *job)
{
	job->step = verify_read;
	return verify_next(job);
}

static bool
begin_verify(struct scsi_job *job, bool writes)
{
	const uint8_t check = job->cdb[1] >> 1 & 3;
	uint16_t fault = take_range(job, job->unit->transfer_blocks_max, false);

	job->writes = writes ? WRITES_RANGE : WRITES_NOTHING;
	job->compares = check != 0;
	job->same = check == 3;
	if (fault == 0 && (job->cdb[1] >> 5 != 0 || check == 2 || (writes && check == 3)))
		fault = ASC_INVALID_FIELD;
	if (fault == 0 && (writes || job->compares) && job->length_bytes > 0 &&
	    data_bytes(job) != (job->same ? job->block_bytes : job->length_bytes))
		fault = ASC_INVALID_FIELD;
	if (fault != 0)
		return refuse_job(job, fault);
	if (job->length_bytes == 0)
		return good(job);
	job->buffer = malloc(JOB_BUFFER_BYTES);
	if (job->buffer == NULL)
		return no_memory(job);
	if (!writes)
		return verify_written(job);
	job->fua = true; /* what is read back has left the volatile caches */
	job->step = verify_written;
	return submit(job, REQUEST_WRITE, job->offset_bytes, job->length_bytes, job->iov,
		      job->iov_count);
}

bool
lun_begin_verify(struct scsi_job *job)
{
	return begin_verify(job, false);
}

bool
lun_begin_write_verify(struct scsi_job *job)
{
	return begin_verify(job, true);
}

/* --- EXTENDED COPY --- */

/* A buffer full is read and written, and again, segment by segment. */
static bool
copy_next(struct scsi_job *job)
{
	while (job->ranges_at < job->ranges_left &&
	       job->at_bytes == job->ranges[job->ranges_at].length_bytes) {
		job->ranges_at += 2;
		job->at_bytes = 0;
	}
	if (job->ranges_at == job->ranges_left)
		return good(job);

	struct job_range *from = &job->ranges[job->ranges_at], *to = from + 1;
	uint64_t left = from->length_bytes - job->at_bytes;
	uint64_t part = left < JOB_BUFFER_BYTES ? left : JOB_BUFFER_BYTES;

	job->pieces[0] = (struct iovec){ job->buffer, (size_t)part };
	job->copied = !job->copied;
	if (job->copied)
		return submit(job, REQUEST_READ, from->offset_bytes + job->at_bytes, part,
			      job->pieces, 1);
	job->at_bytes += part;
	return submit(job, REQUEST_WRITE, to->offset_bytes + job->at_bytes - part, part,
		      job->pieces, 1);
}

bool
lun_begin_copy(struct scsi_job *job)
{
	size_t length = (size_t)get_be(job->cdb + 10, 4);
	uint8_t list[COPY_LIST_BYTES_MAX];
	struct scsi_outcome fault;

	job->writes = WRITES_TARGETS;
	if ((job->cdb[1] & 0x1f) != 0) /* LID4 and others */
		return refuse_job(job, ASC_INVALID_FIELD);
	if (length == 0)
		return good(job);
	job->ranges = calloc(2 * COPY_SEGMENTS_MAX, sizeof(*job->ranges));
	job->buffer = malloc(JOB_BUFFER_BYTES);
	if (job->ranges == NULL || job->buffer == NULL)
		return no_memory(job);
	if (data_bytes(job) < length)
		return refuse_job(job, ASC_LIST_LENGTH);
	length = data_copy(job, list, length < sizeof(list) ? length : sizeof(list));
	job->ranges_left = copy_read_list(job->unit, list, length, job->ranges, &fault);
	if (job->ranges_left < 0)
		return end_job(job, fault);
	job->step = copy_next;
	return copy_next(job);
}

/* --- MODE SELECT: no request at all, but a list --- */

bool
lun_begin_mode_select(struct scsi_job *job)
{
	const bool ten = lun_cdb_length(job->cdb[0]) == 10;
	const size_t length = ten ? (size_t)get_be(job->cdb + 7, 2) : job->cdb[4];
	uint8_t list[MODE_LIST_BYTES_MAX];
	uint16_t fault = ASC_LIST_LENGTH;

	if (length <= sizeof(list) && data_bytes(job) >= length) {
		data_copy(job, list, length);
		fault = lun_mode_select_fault(job->unit, job->cdb, list, length);
	}
	return fault != 0 ? refuse_job(job, fault) : good(job);
}

/* --- what it writes --- */

/* The ranges one by one, i from 0; false: there are no more. */
static bool
written_range(const struct scsi_job *job, int i, struct job_range *out)
{
	switch (job->writes) {
	case WRITES_NOTHING:
		return false;
	case WRITES_TARGETS:
		i = 2 * i + 1;
		/* fall through */
	case WRITES_LIST:
		if (i < job->ranges_left)
			*out = job->ranges[i];
		return i < job->ranges_left;
	case WRITES_RANGE:
	case WRITES_RANGE_IN_PIECES:
		break;
	}
	*out = (struct job_range){ job->offset_bytes, job->length_bytes };
	return i == 0;
}

bool
scsi_job_covers(const struct scsi_job *job, uint64_t offset_bytes, uint64_t length_bytes)
{
	struct job_range range;

	for (int i = 0; job->writes != WRITES_RANGE && written_range(job, i, &range); i++)
		if (offset_bytes < range.offset_bytes + range.length_bytes &&
		    range.offset_bytes < offset_bytes + length_bytes)
			return true;
	return false;
}

bool
scsi_job_overtakes(const struct scsi_job *job, const struct scsi_job *earlier)
{
	struct job_range range;

	for (int i = 0; written_range(job, i, &range); i++)
		if (scsi_job_covers(earlier, range.offset_bytes, range.length_bytes))
			return true;
	return false;
}

/* --- --- */

void
scsi_job_free(struct scsi_job *job)
{
	free(job->ranges);
	job->ranges = NULL;
}

bool
scsi_job_begin(struct scsi_job *job)
{
	const struct scsi_command *command;

	job->step = good;
	job->block_bytes = job->unit->block_bytes;
	job->at_bytes = 0;
	job->fua = job->deallocate = job->compares = job->same = job->copied = job->wrote =
		job->began = job->reads = false;
	job->writes = WRITES_NOTHING;
	job->ranges = NULL;
	job->buffer = NULL;
	job->ranges_at = job->ranges_left = 0;
	/* buffers hold whole blocks */
	if (job->block_bytes == 0 || JOB_BUFFER_BYTES % job->block_bytes != 0)
		return refuse_job(job, ASC_INVALID_OPCODE);
	command = scsi_find_command(job->cdb);
	return command && command->begin ? command->begin(job)
					 : refuse_job(job, ASC_INVALID_OPCODE);
}
