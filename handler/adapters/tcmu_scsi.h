/* tcmu_scsi.h - what a volume answers to SCSI commands that move no data of it.  Pure: a CDB and
 * a description of the LUN in, bytes or sense out; no tcmu, so that tests can call it.
 *
 * Commands not listed in its table are refused here, before tcmu-runner can emulate them:
 * docs/design/tcmu.md says which of its emulations are wrong for us and why.
 */
#ifndef IRAID_TCMU_SCSI_H
#define IRAID_TCMU_SCSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCSI_ANSWER_MAX 1024

#define SENSE_NOT_READY 0x02
#define SENSE_MEDIUM_ERROR 0x03
#define SENSE_ILLEGAL_REQUEST 0x05

#define ASC_BECOMING_READY 0x0401
#define ASC_MANUAL_INTERVENTION 0x0403
#define ASC_STANDBY 0x040b
#define ASC_WRITE_ERROR 0x0c00
#define ASC_READ_ERROR 0x1100
#define ASC_INVALID_OPCODE 0x2000
#define ASC_OUT_OF_RANGE 0x2100
#define ASC_INVALID_FIELD 0x2400
#define ASC_NO_SAVED_PAGES 0x3900

struct scsi_unit {
	uint8_t uuid[16];		/* of the volume */
	int level;			/* -1: not known yet */
	uint64_t blocks;		/* of the LUN */
	uint32_t block_bytes;
	uint32_t transfer_blocks_max;
	uint32_t chunk_bytes, row_bytes;	/* 0: not known yet */
	uint16_t not_ready;		/* ASC_BECOMING_READY, ASC_MANUAL_INTERVENTION; 0: ready */
};

enum scsi_verdict {
	SCSI_PASS,	/* READ, WRITE or SYNCHRONIZE CACHE in bounds: its data is the runner's to hand on */
	SCSI_GOOD,	/* answered: data[0 .. length), cut at the allocation length */
	SCSI_CHECK,	/* refused with key and asc */
};

struct scsi_answer {
	enum scsi_verdict verdict;
	uint8_t key;
	uint16_t asc;
	uint32_t length;
	uint8_t data[SCSI_ANSWER_MAX];
};

/* cdb: at least as long as its operation code says (SPC-4 section 4.2.5.1). */
void scsi_emulate(const struct scsi_unit *unit, const uint8_t *cdb, struct scsi_answer *out);

#endif
