/* lun/commands.h - operation codes, and REPORT SUPPORTED OPERATION CODES. */
#ifndef IRAID_LUN_COMMANDS_H
#define IRAID_LUN_COMMANDS_H

#include "scsi.h"

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

void scsi_report_opcodes(const uint8_t *cdb, struct lun_answer *out);

#endif
