/* lun/copy.h - EXTENDED COPY(LID1) within the LUN: its parameter list, and what RECEIVE COPY
 * RESULTS says of it.  Pure.
 */
#ifndef IRAID_TCMU_COPY_H
#define IRAID_TCMU_COPY_H

#include "job.h"

#define COPY_SEGMENTS_MAX 16
/* more than fit, so that too many of a kind can be told by their number */
#define COPY_DESCRIPTOR_BYTES_MAX 1024
#define COPY_LIST_BYTES_MAX (16 + COPY_DESCRIPTOR_BYTES_MAX)

/* ranges: for each segment source and target, of equal length, all inside the LUN; room for 2 *
 * COPY_SEGMENTS_MAX.  Returns their number (even), or -1 and *fault.
 */
int copy_read_list(const struct scsi_unit *unit, const uint8_t *list, size_t length,
		   struct job_range *ranges, struct scsi_outcome *fault);

/* RECEIVE COPY RESULTS, operating parameters (SPC-4 6.24.4).  data: zeroed.  Returns the length. */
uint32_t copy_operating_parameters(const struct scsi_unit *unit, uint8_t *data);

/* The NAA name of the LUN, as in VPD page 83h. */
void scsi_put_naa(const struct scsi_unit *unit, uint8_t out[8]);

#endif
