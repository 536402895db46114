/* lun/sense.c - see sense.h. */
#include "sense.h"

#include <errno.h>
#include <string.h>

struct scsi_outcome
scsi_check(uint8_t key, uint16_t asc)
{
	return (struct scsi_outcome){ .status = STATUS_CHECK_CONDITION, .key = key, .asc = asc };
}

struct scsi_outcome
scsi_outcome_of(const struct engine_request *request, int result, bool failed)
{
	bool read = request->op == REQUEST_READ;
	struct scsi_outcome outcome;

	switch (result) {
	case 0:
		return (struct scsi_outcome){ .status = STATUS_GOOD };
	case -ENODATA:
	case -EIO:
		if (read)
			return scsi_check(SENSE_MEDIUM_ERROR, ASC_READ_ERROR);
		/* Not MEDIUM ERROR: Linux repeats that, and a flush tells of lost caches only once.
		 */
		return scsi_check(SENSE_HARDWARE_ERROR, ASC_WRITE_ERROR);
	case -ETIMEDOUT:
		/* Not BUSY: Linux repeats that for minutes.  It has waited for queue_limit already.
		 */
		return scsi_check(SENSE_NOT_READY, ASC_MANUAL_INTERVENTION);
	case -ETIME:
		return scsi_check(SENSE_ABORTED_COMMAND, ASC_COMMAND_TIMEOUT);
	case -ENOMEDIUM:
		return scsi_check(SENSE_NOT_READY,
				  failed ? ASC_MANUAL_INTERVENTION : ASC_BECOMING_READY);
	case -ESHUTDOWN:
		return scsi_check(SENSE_NOT_READY, ASC_STANDBY);
	case -ERANGE:
		return scsi_check(SENSE_ILLEGAL_REQUEST, ASC_OUT_OF_RANGE);
	case -EINVAL:
		return scsi_check(SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
	case -EILSEQ:
		outcome = scsi_check(SENSE_MISCOMPARE, ASC_MISCOMPARE);
		outcome.informed = true;
		outcome.information = (uint32_t)request->mismatch_bytes;
		return outcome;
	case -ENOMEM:
		return (struct scsi_outcome){ .status = STATUS_TASK_SET_FULL };
	}
	return scsi_check(SENSE_HARDWARE_ERROR, ASC_INTERNAL_FAILURE);
}

void
scsi_put_sense(const struct scsi_outcome *outcome, uint8_t out[18])
{
	memset(out, 0, 18);
	out[0] = outcome->informed ? 0xf0 : 0x70;
	out[2] = outcome->key;
	for (int i = 0; i < 4; i++)
		out[3 + i] = (uint8_t)(outcome->information >> (24 - 8 * i));
	out[7] = 18 - 8;
	out[12] = (uint8_t)(outcome->asc >> 8);
	out[13] = (uint8_t)outcome->asc;
}
