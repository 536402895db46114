/* iscsi/scsi.h - the few SCSI commands a gateway sends, what their answers say, and what sense
 * data means for us.  Shared by backend/ and device/.  Builds libiscsi's task structures in
 * memory of the caller, so that a command in the data path allocates nothing.
 */
#ifndef IRAID_SCSI_COMMAND_H
#define IRAID_SCSI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define SCSI_ANSWER_MAX 4096
#define SCSI_CAPACITY_BYTES 32

/* A command with its own small buffer, for everything but reads and writes of data. */
struct scsi_request {
	struct scsi_task task;
	struct scsi_iovec iov;
	uint32_t answer_bytes;	       /* after completion: how much of data[] the target filled */
	uint8_t data[SCSI_ANSWER_MAX]; /* the answer, or the parameters sent */
};

void scsi_test_unit_ready(struct scsi_request *request);
void scsi_inquiry(struct scsi_request *request);
void scsi_inquiry_page(struct scsi_request *request, uint8_t page);
void scsi_read_capacity_16(struct scsi_request *request);
void scsi_read_capacity_10(struct scsi_request *request);
void scsi_mode_sense_caching(struct scsi_request *request);
void scsi_read_reservation(struct scsi_request *request);
void scsi_read_keys(struct scsi_request *request);
void scsi_read_full_status(struct scsi_request *request);
/* Who is not registered ... (both Registrants Only) */
enum scsi_reservation_type {
	SCSI_WRITE_EXCLUSIVE = 5,  /* may not write */
	SCSI_EXCLUSIVE_ACCESS = 6, /* may neither read nor write */
};
/* action: SCSI_PERSISTENT_RESERVE_* */
void scsi_reserve_out(struct scsi_request *request, int action, enum scsi_reservation_type type,
		      uint64_t key, uint64_t action_key);
void scsi_report_luns(struct scsi_request *request);

/* Of one that sends parameters, completed with GOOD: did the target take them? */
bool scsi_request_taken(const struct scsi_request *request);
/* To be called once the request completed with GOOD and before the answer is looked at. */
void scsi_request_completed(struct scsi_request *request);

/* Data commands: task with its CDB; the caller sets the iovecs.  ten: the 10 byte forms, for
 * targets that know no 16 byte ones.
 */
void scsi_data_task(struct scsi_task *task, bool write, bool fua, bool ten, uint64_t block,
		    uint32_t blocks, uint32_t length_bytes);
/* WRITE SAME(16): its data is one block.  unmap: it may give the space back. */
void scsi_write_same_task(struct scsi_task *task, bool unmap, uint64_t block, uint32_t blocks,
			  uint32_t block_bytes);
void scsi_synchronize_cache_task(struct scsi_task *task, bool sixteen);
/* READ CAPACITY beside the data commands: its answer is SCSI_CAPACITY_BYTES of the caller's. */
void scsi_read_capacity_task(struct scsi_task *task, bool ten);

/* What an answer says.  False: too short or inconsistent, nothing is stored.  Longer than what was
 * asked for is not too short.
 */
struct scsi_capacity {
	uint64_t capacity_bytes;
	uint32_t block_bytes;
	bool thin; /* what is unmapped reads as zeros (LBPME and LBPRZ) */
};
bool scsi_parse_capacity_16(const struct scsi_request *request, struct scsi_capacity *out);
bool scsi_parse_capacity_10(const struct scsi_request *request, struct scsi_capacity *out);
/* Of scsi_read_capacity_task(), completed with GOOD. */
bool scsi_parse_capacity_task(const struct scsi_task *task, bool ten,
			      const uint8_t answer[SCSI_CAPACITY_BYTES], struct scsi_capacity *out);

struct scsi_mode {
	bool write_protected;
	bool fua;
	bool write_cache;
};
bool scsi_parse_mode(const struct scsi_request *request, struct scsi_mode *out);

struct scsi_identity {
	uint8_t qualifier, device_type;
	char vendor[9], product[17], revision[5];
};
bool scsi_parse_inquiry(const struct scsi_request *request, struct scsi_identity *out);
const char *scsi_device_type_name(uint8_t device_type);

/* VPD B0: longest transfer in blocks, 0: not limited. */
bool scsi_parse_block_limits(const struct scsi_request *request, uint32_t *blocks_max);
/* The same page: longest WRITE SAME in blocks, 0: not limited, or not told. */
bool scsi_parse_write_same_limit(const struct scsi_request *request, uint64_t *blocks_max);
/* VPD B2: does WRITE SAME(16) unmap? */
bool scsi_parse_provisioning(const struct scsi_request *request, bool *unmaps);
/* VPD 80: serial number without padding. */
bool scsi_parse_serial(const struct scsi_request *request, char *out, size_t out_size);
/* VPD 83: the best designator of the logical unit as "naa.6001405...", "eui....", "t10....". */
bool scsi_parse_designator(const struct scsi_request *request, char *out, size_t out_size);
struct scsi_reservation {
	uint64_t key; /* the holder's; 0: nobody holds one */
	uint8_t type;
};
bool scsi_parse_reservation(const struct scsi_request *request, struct scsi_reservation *out);
/* Of all keys that are registered. */
struct scsi_keys {
	bool own;	/* ours is among them */
	uint64_t other; /* one that is not ours; 0: none was listed */
	bool whole;	/* the list is: there are no more than the answer has room for */
};
bool scsi_parse_keys(const struct scsi_request *request, uint64_t own_key, struct scsi_keys *out);
/* Who is registered (READ FULL STATUS): an initiator's name and ISID, and the target's port. */
#define SCSI_INITIATOR_MAX 224
struct scsi_nexus {
	char initiator[SCSI_INITIATOR_MAX];
	uint8_t isid[6];
	uint16_t port; /* relative port identifier */
};
/* Somebody whose key was preempted, and whose session the target may still be closing. */
struct scsi_preempted {
	uint64_t key;	 /* 0: nobody */
	bool followable; /* the nexus is known */
	struct scsi_nexus nexus;
	uint32_t portal_group; /* of the session that read it; 0: not known */
};
/* The first with this key.  False: there is none whose name and ISID are told. */
bool scsi_parse_nexus(const struct scsi_request *request, uint64_t key, struct scsi_nexus *out);
/* Returns how many LUNs were stored, at most max, or -1. */
int scsi_parse_luns(const struct scsi_request *request, unsigned int *luns, int max);

/* What to do about a status. */
enum scsi_verdict {
	SCSI_OK,
	SCSI_ATTENTION, /* something changed: repeat the command */
	SCSI_WAS_RESET, /* a unit attention: the device was reset or powered on */
	SCSI_TAKEN,	/* reservation conflict, or our reservation was preempted */
	SCSI_LATER,	/* busy, queue full, becoming ready: repeat after a while */
	SCSI_ABORTED,	/* repeat, but not for ever */
	/* a deferred error: an earlier command failed, which had been answered with GOOD */
	SCSI_BROKEN_WORD,
	SCSI_UNSUPPORTED, /* illegal request */
	SCSI_NO_LUN,
	SCSI_MEDIUM_ERROR,
	SCSI_PROTECTED,
	SCSI_REFUSED, /* anything else the target said */
	SCSI_LOST,    /* no answer came: the session is gone */
};
/* ASC and ASCQ with ABORTED COMMAND: a digest was wrong (RFC 7143, 11.4.7.2) */
#define SCSI_PROTOCOL_CRC_ERROR 0x4705
bool scsi_damaged(const struct scsi_task *task, int status);
enum scsi_verdict scsi_judge(const struct scsi_task *task, int status);

/* Outside of the data path: is the command sent again? *repeats counts those at once, for a target
 * may have one unit attention after another.
 */
#define SCSI_REPEATS_MAX 64
#define SCSI_PAUSE_MS 200
enum scsi_again {
	SCSI_ANSWERED, /* no, the verdict counts */
	SCSI_REPEAT,   /* at once */
	SCSI_PAUSE,    /* after SCSI_PAUSE_MS, as long as there is time */
};
enum scsi_again scsi_again(enum scsi_verdict verdict, int status, int *repeats);
/* Of SYNCHRONIZE CACHE: does this answer say that data could not be written? Then it is not to be
 * repeated.
 */
bool scsi_flush_failed(const struct scsi_task *task, int status);
/* Does this answer say that what a volatile cache held may be gone? */
bool scsi_cache_lost(const struct scsi_task *task, int status);
/* Sense data as it came, fixed or descriptor format; too short to say anything: error_type 0. */
void scsi_parse_sense(const uint8_t *bytes, size_t length, struct scsi_sense *out);
/* "check condition, MEDIUM ERROR 11/00", for messages. */
void scsi_describe(const struct scsi_task *task, int status, char *out, size_t out_size);

#endif
