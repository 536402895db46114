/* device/member_format.h - what create, delete and examine do to a member's metadata through a
 * blocking session: read both superblock copies, prove that members are different LUNs that take
 * writes, format, mark as a spare, wipe.
 */
#ifndef IRAID_MEMBER_FORMAT_H
#define IRAID_MEMBER_FORMAT_H

#include "pure/spare.h"
#include "adapters/config/config.h"
#include "device.h"

struct superblock_copies {
	uint8_t bytes[2][LAYOUT_SUPERBLOCK_BYTES]; /* as read, A and B */
	enum superblock_verdict verdict[2];
	const char *reason[2]; /* of the decoder; NULL if none */
	enum superblock_verdict chosen;
	struct superblock superblock;  /* valid if chosen is SUPERBLOCK_OK */
	enum superblock_verdict spare; /* of a spare's mark in either place */
	struct spare_mark mark;	       /* valid if spare is SUPERBLOCK_OK */
};

/* As admin_open() by the first of its portals that answers.  isid: as admin_bounds has it. */
bool device_open(const struct device_address *device, const struct iscsi_credentials *credentials,
		 uint32_t timeout_ms, const uint8_t *isid, struct admin_session **out,
		 struct scsi_device *found, struct fault *fault);

bool member_read_superblock(struct admin_session *session, struct superblock_copies *out,
			    struct fault *fault);
/* The same where another one's reservation forbids to read: as one who is registered, with this
 * key, for as long as that takes.  *device is asked for anew, should it not have been told.
 */
bool member_read_reserved(struct admin_session *session, uint64_t key, struct scsi_device *device,
			  struct superblock_copies *out, struct fault *fault);
/* The same of copies whose bytes are there. */
void member_decode_superblock(struct superblock_copies *copies);

const char *superblock_verdict_name(enum superblock_verdict verdict); /* "ok", "absent", ... */

/* One member that is being formatted. */
struct member_work {
	struct device_address address;
	char label[MEMBER_ADDRESS_MAX];
	struct admin_session *session;
	struct scsi_device device;
	struct superblock_copies copies; /* as found */
	uint8_t member_uuid[16];
	bool probed;	/* what stood at superblock B is to be put back */
	bool formatted; /* a superblock may have been written */
};

/* Write a mark of its own to every member and read all back: refused are members that take no
 * writes (read-only, reserved by another gateway) and two that are one LUN, whatever they say
 * of themselves.  What was there is put back unless the result is true.
 */
bool members_probe(struct member_work *members, int count, struct fault *fault);

/* Put back what members_probe() overwrote. */
void members_unprobe(struct member_work *members, int count);

/* Write map and superblocks, durably, superblocks last.  `common` has everything but role,
 * member_uuid, member_bytes and write_count.  On failure the superblocks that were written are
 * wiped again, and of members that nothing was written to what members_probe() overwrote is put
 * back.
 */
bool members_format(struct member_work *members, int count, const struct superblock *common,
		    struct fault *fault);

/* Make it a spare of that volume (all zeros: of the whole gateway): old signatures are wiped, the
 * mark is durable last.  On failure no mark is left behind, not that of members_probe() either, as
 * far as the device still takes writes.
 */
bool
member_mark_spare(struct member_work *member, const uint8_t volume_uuid[16], struct fault *fault);

/* Take away the reservation that the gateway with this key holds on a LUN it no longer uses, if it
 * holds one.
 */
bool admin_clear_own(struct admin_session *session, uint64_t key, struct fault *fault);

/* Who has it reserved: *key, 0 for nobody.  It registers nothing, and asks for nothing else. */
bool device_holder(const struct device_address *device, const struct iscsi_credentials *credentials,
		   uint32_t timeout_ms, uint64_t *key, struct fault *fault);

/* Zero both superblock copies (or marks). */
bool member_wipe(struct admin_session *session, struct fault *fault);
/* those formatted; undo, errors are logged */
void members_wipe(struct member_work *members, int count);

#endif
