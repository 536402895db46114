/* lun/scsi.h - what a volume answers to SCSI commands that move no data of it, and which those that
 * do are.  Pure: a CDB and a description of the LUN in, bytes or sense out; no tcmu, so that tests
 * can call it.
 *
 * Commands that are not in the table of commands.c are refused, before tcmu-runner can emulate
 * them: docs/design/tcmu.md says which of its emulations are wrong for us and why.
 */
#ifndef IRAID_TCMU_SCSI_H
#define IRAID_TCMU_SCSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sense.h"

#define LUN_ANSWER_MAX 2048
#define GATEWAYS 2 /* of a pair */

/* What VPD page B0h promises, and job.c keeps.  A command must end before tcmu gives it up (30 s by
 * default) even where members have no command for zeros and get all of them over the network.
 */
/* below 64 Ki: test suites take more for a promise that READ and WRITE take it too */
#define WRITE_SAME_BLOCKS_MAX 32768u
#define UNMAP_BYTES_MAX (32ull << 20)
#define UNMAP_DESCRIPTORS_MAX 256

struct scsi_unit {
	uint8_t uuid[16]; /* of the volume */
	int level;	  /* -1: not known yet */
	uint64_t blocks;  /* of the LUN */
	uint32_t block_bytes;
	uint32_t transfer_blocks_max;
	uint32_t chunk_bytes, row_bytes; /* 0: not known yet */
	/* ASC_BECOMING_READY, ASC_MANUAL_INTERVENTION, ASC_STANDBY; 0: ready */
	uint16_t not_ready;
	uint16_t attention; /* ASC of a UNIT ATTENTION that waits to be told; 0: none */
	/* Which gateway of a pair this is, 1 or 2; 0: the only one.  And the asymmetric access
	 * state of both, by number.  Where scsi_asks_of_pair().
	 */
	int gateway;
	uint8_t access[GATEWAYS];
};

enum lun_verdict {
	LUN_JOB, /* for job.c, which looks at the rest of the CDB */
	/* READ, WRITE or SYNCHRONIZE CACHE in bounds: its data is the runner's to hand on */
	LUN_PASS,
	LUN_GOOD,  /* answered: data[0 .. length), cut at the allocation length */
	LUN_CHECK, /* refused with key and asc */
};

struct lun_answer {
	enum lun_verdict verdict;
	uint8_t key;
	uint16_t asc;
	uint32_t length;
	uint8_t data[LUN_ANSWER_MAX];
};

static inline void
scsi_refuse(struct lun_answer *out, uint8_t key, uint16_t asc)
{
	out->verdict = LUN_CHECK;
	out->key = key;
	out->asc = asc;
	out->length = 0;
}

/* length bytes of data[] stand ready; the initiator asked for at most allocation_bytes. */
static inline void
scsi_answer_cut(struct lun_answer *out, uint32_t length, uint64_t allocation_bytes)
{
	out->verdict = LUN_GOOD;
	out->length = allocation_bytes < length ? (uint32_t)allocation_bytes : length;
}

static inline bool
lun_is_outside(const struct scsi_unit *unit, uint64_t lba, uint64_t blocks)
{
	return lba > unit->blocks || blocks > unit->blocks - lba;
}

size_t lun_cdb_length(uint8_t opcode);

/* Block address and number of blocks, from where they stand in a CDB of that length. */
void lun_read_range(const uint8_t *cdb, uint64_t *lba, uint64_t *blocks);

/* cdb: at least as long as its operation code says (SPC-4 section 4.2.5.1).  data_bytes: what comes
 * with it, or is to come back.  Which of the two it is LIO does not tell.
 */
void scsi_emulate(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes,
		  struct lun_answer *out);

/* Does it need no medium, so that it is carried out also on standby? */
bool scsi_works_on_standby(const uint8_t *cdb);

/* Does its answer depend on unit->gateway and access? */
bool scsi_asks_of_pair(const uint8_t *cdb);

/* Is this the command that tells of unit->attention, which then waits no more?  (SAM-5 5.14) */
bool scsi_tells_attention(const uint8_t *cdb);

#endif
