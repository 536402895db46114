/* iscsi/inspect.h - what a LUN says of itself. */
#ifndef IRAID_ISCSI_INSPECT_H
#define IRAID_ISCSI_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

struct scsi_device {
	uint64_t capacity_bytes;
	uint32_t block_bytes;
	uint8_t device_type;		/* SCSI peripheral device type; 0 is a disk */
	bool writable;
	bool write_cache;
	bool fua;
	bool reservations;		/* PERSISTENT RESERVE IN answered */
	char vendor[9], product[17], revision[5];
	char serial[256];		/* VPD 80; empty if none */
	char identity[512];		/* VPD 83 designator of the LUN, hex with type prefix; empty if none */
};

#endif
