/* lun/sense.h - what a command ends with.  Pure.  docs/operating/sense.md is the table for
 * administrators, and a test compares the two.
 */
#ifndef IRAID_SCSI_SENSE_H
#define IRAID_SCSI_SENSE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/life/engine.h"

#define STATUS_GOOD 0x00
#define STATUS_CHECK_CONDITION 0x02
#define STATUS_BUSY 0x08
#define STATUS_TASK_SET_FULL 0x28

#define SENSE_NOT_READY 0x02
#define SENSE_MEDIUM_ERROR 0x03
#define SENSE_HARDWARE_ERROR 0x04
#define SENSE_ILLEGAL_REQUEST 0x05
#define SENSE_UNIT_ATTENTION 0x06
#define SENSE_ABORTED_COMMAND 0x0b
#define SENSE_MISCOMPARE 0x0e

#define ASC_BECOMING_READY 0x0401
#define ASC_MANUAL_INTERVENTION 0x0403
#define ASC_STANDBY 0x040b
#define ASC_WRITE_ERROR 0x0c00
#define ASC_READ_ERROR 0x1100
#define ASC_LIST_LENGTH 0x1a00
#define ASC_MISCOMPARE 0x1d00
#define ASC_INVALID_OPCODE 0x2000
#define ASC_OUT_OF_RANGE 0x2100
#define ASC_INVALID_FIELD 0x2400
#define ASC_INVALID_FIELD_IN_LIST 0x2600
#define ASC_ACCESS_STATE_CHANGED 0x2a06
#define ASC_COMMAND_TIMEOUT 0x2e02
#define ASC_NO_SAVED_PAGES 0x3900
#define ASC_INTERNAL_FAILURE 0x4400

struct scsi_outcome {
	uint8_t status;
	uint8_t key; /* of CHECK CONDITION, as what follows */
	uint16_t asc;
	bool informed; /* the INFORMATION field is valid */
	uint32_t information;
};

/* request->op and ->mismatch_bytes are looked at; result: what its done() got.  failed: the
 * volume's state is VOLUME_FAILED.
 */
struct scsi_outcome scsi_outcome_of(const struct engine_request *request, int result, bool failed);

struct scsi_outcome scsi_check(uint8_t key, uint16_t asc);

/* 18 bytes of fixed-format sense data (SPC-4 4.5.3). */
void scsi_put_sense(const struct scsi_outcome *outcome, uint8_t out[18]);

#endif
