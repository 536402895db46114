/* lun/job.h - commands that take more than one step, or that tcmu-runner would carry out wrongly:
 * UNMAP, WRITE SAME, COMPARE AND WRITE, VERIFY, WRITE AND VERIFY, EXTENDED COPY, READ(6),
 * WRITE(6), MODE SELECT.  No tcmu, no thread: tests drive it.
 *
 *	scsi_job_begin() --> submit() --> engine --> done of the request --> submit() ... --> done()
 *
 * One engine request of a job is under way at a time, and the job's memory is bounded, however long
 * its range.
 */
#ifndef IRAID_TCMU_JOB_H
#define IRAID_TCMU_JOB_H

#include "sense.h"
#include "scsi.h"

#define JOB_BUFFER_BYTES (128u << 10)
#define JOB_PIECES 16 /* the same buffer in one request: WRITE SAME */

struct job_range {
	uint64_t offset_bytes, length_bytes;
};

enum job_writes {
	WRITES_NOTHING,
	WRITES_RANGE, /* by one request */
	WRITES_RANGE_IN_PIECES,
	WRITES_LIST,	/* of ranges, one after the other */
	WRITES_TARGETS, /* of segments, in pieces */
};

struct scsi_job {
	/* Set by the caller.  iov: the command's data; array and memory live until done().  What
	 * isn't an answer is zeroed before a good end.
	 */
	const struct scsi_unit *unit; /* needed during scsi_job_begin() only */
	uint8_t cdb[16];
	const struct iovec *iov;
	int iov_count;
	void (*submit)(struct scsi_job *job); /* give job->request to the volume */
	/* job->outcome says how it ended; the job may be freed */
	void (*done)(struct scsi_job *job);
	/* Time that is left to begin something: after it whoever sent the command has given it up,
	 * and writes of this job would land on what was written since.  NULL: no limit.
	 */
	uint32_t (*left_ms)(const struct scsi_job *job);
	/* Asked before the first request: does an earlier command under way cover (see below) what
	 * this one writes? Then it ends with BUSY.  NULL: no.
	 */
	bool (*in_the_way)(const struct scsi_job *job);
	void *owner;

	struct engine_request request; /* under way */
	struct scsi_outcome outcome;

	/* The job's own. */
	/* make the next request; false: there is none, it is done */
	bool (*step)(struct scsi_job *job);
	enum job_writes writes;
	uint32_t block_bytes;
	uint64_t offset_bytes, at_bytes, length_bytes; /* range; how much of it is done */
	bool fua, deallocate, compares, same, copied;  /* copied: read, and not yet written */
	bool began;				       /* a first request was submitted */
	bool reads;				       /* iov takes data of the volume */
	bool wrote;				       /* a step, which may still be in caches */
	uint32_t cache_losses;			       /* of the volume, when that was done */
	/* UNMAP; EXTENDED COPY: source and target in turn.  Until scsi_job_free() */
	struct job_range *ranges;
	int ranges_left, ranges_at;
	uint8_t *buffer;
	struct iovec pieces[JOB_PIECES];
};

/* True: a request was submitted, and done() will be called.  False: it ended at once, see
 * job->outcome; done() is not called.  -ENOMEM shows as TASK SET FULL.
 */
bool scsi_job_begin(struct scsi_job *job);

/* What it allocated, once it has ended. */
void scsi_job_free(struct scsi_job *job);

/* UNMAP, WRITE SAME, EXTENDED COPY that writes any of this range: piece after piece, so what is
 * submitted later may be written first, and be overwritten.  (Other commands write by one request,
 * and the engine keeps those in order.)
 */
bool scsi_job_covers(const struct scsi_job *job, uint64_t offset_bytes, uint64_t length_bytes);

/* Does `earlier` cover any of what this one writes? */
bool scsi_job_overtakes(const struct scsi_job *job, const struct scsi_job *earlier);

#endif
