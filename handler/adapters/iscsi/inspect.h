/* iscsi/inspect.h - what a LUN is: the questions to it in their order, and what its answers say.
 * Pure: who has a session sends them, backend/ by events, device/ in a loop.
 *
 *   IDENTITY -> READY -> CAPACITY_16 -> LIMITS -> PROVISIONING -> MODE -> DONE	for I/O
 *                          `-> CAPACITY_10 -^  `----(not thin)-----^
 *
 *   IDENTITY -> SERIAL -> DESIGNATOR -> READY -> ... LIMITS -> RESERVATIONS -> MODE -> DONE
 *                                                                              for a person
 *
 * What is no disk is not asked for more than its names.  Whether a disk may become a member of a
 * volume is asked elsewhere: rpc/device.c (rpc_device_open()), and the engine (place.c).
 *
 *	inspect_start(&inspection, lun, for_a_person);
 *	while (inspection.step != INSPECT_DONE) {
 *		inspect_build(&inspection, &request);
 *		... send it, again if scsi_again() says so ...
 *		if (inspect_answered(&inspection, &request, status) != 0)
 *			return inspection.why;
 *	}
 */
#ifndef IRAID_ISCSI_INSPECT_H
#define IRAID_ISCSI_INSPECT_H

#include "scsi.h"

#define INSPECT_WHY_MAX 256

struct scsi_device { /* of what is no disk: its type and names */
	uint64_t capacity_bytes;
	uint32_t block_bytes;	      /* 512 or 4096 */
	uint32_t transfer_blocks_max; /* of one READ or WRITE; 0: not limited */
	uint64_t same_blocks_max;     /* of one WRITE SAME; 0: not limited, or not told */
	uint8_t device_type;	      /* SCSI peripheral device type; 0 is a disk */
	bool ten_byte_commands;	      /* it knows no 16 byte ones */
	bool thin;		      /* what is unmapped reads as zeros */
	bool unmaps;		      /* and WRITE SAME unmaps; asked for I/O only */
	bool writable;
	bool write_cache;
	bool fua;
	char vendor[9], product[17], revision[5];
	/* Asked for a person only. */
	bool taken;	    /* a reservation is in the way even of its size, which is 0 here */
	bool reservations;  /* PERSISTENT RESERVE IN answered */
	char serial[256];   /* VPD 80; empty if none */
	char identity[512]; /* VPD 83, designator of the LUN: type and hex; or empty */
};

enum inspect_step {
	INSPECT_IDENTITY,
	INSPECT_SERIAL,
	INSPECT_DESIGNATOR,
	INSPECT_READY, /* TEST UNIT READY until unit attentions are used up */
	INSPECT_CAPACITY_16,
	INSPECT_CAPACITY_10,  /* for targets that know no 16 byte commands */
	INSPECT_LIMITS,	      /* VPD B0 */
	INSPECT_PROVISIONING, /* VPD B2, of a thin device */
	INSPECT_RESERVATIONS, /* does it know them */
	INSPECT_MODE,	      /* write protection, write cache, FUA */
	INSPECT_DONE,
};

struct inspection {
	enum inspect_step step; /* what is asked next, or is under way */
	unsigned int lun;
	bool for_a_person;
	struct scsi_device device;
	char why[INSPECT_WHY_MAX]; /* it can't be used, and */
	const char *remedy;	   /* what to do */
};

void inspect_start(struct inspection *inspection, unsigned int lun, bool for_a_person);
const char *inspect_step_name(enum inspect_step step);
void inspect_build(const struct inspection *inspection, struct scsi_request *request);
/* The answer that counts.  0: on to inspection->step.  Else the inspection is over, and why and
 * remedy are set: -EBUSY reserved by another initiator, -EINVAL all else. */
int inspect_answered(struct inspection *inspection, struct scsi_request *request, int status);

/* How long one READ or WRITE may be; at most `most`. */
uint32_t scsi_transfer_bytes_max(const struct scsi_device *device, uint32_t most);

#endif
