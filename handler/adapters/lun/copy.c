/* lun/copy.c - see copy.h.
 *
 * One kind of CSCD descriptor (E4h, identification) and one of segment (02h, block to block) are
 * understood.  Source and target are this LUN, by the NAA name it tells in VPD page 83h; another
 * LUN can't be reached from here, also where the same gateway has it, and is answered with COPY
 * ABORTED / COPY TARGET DEVICE NOT REACHABLE, on which initiators copy by themselves.  The kernel's
 * own EXTENDED COPY is for its own backends only: tcmu gets the command as it came.
 */
#include "copy.h"

#include "adapters/base/big_endian.h"

#include <string.h>

#define HEAD_BYTES 16u
#define CSCD_BYTES 32u
#define SEGMENT_BYTES 28u
#define CSCD_IDENTIFICATION 0xe4
#define SEGMENT_BLOCK_TO_BLOCK 0x02
#define CSCDS_MAX 2u

#define KEY_COPY_ABORTED 0x0a
#define ASC_NOT_REACHABLE 0x0d02
#define ASC_TOO_MANY_CSCDS 0x2606
#define ASC_CSCD_TYPE 0x2607
#define ASC_TOO_MANY_SEGMENTS 0x2608
#define ASC_SEGMENT_TYPE 0x2609

void
scsi_put_naa(const struct scsi_unit *unit, uint8_t out[8])
{
	memcpy(out, unit->uuid, 8);
	out[0] = 0x30 | (unit->uuid[0] & 0x0f);
}

static int
refuse_list(struct scsi_outcome *fault, uint8_t key, uint16_t asc)
{
	*fault = scsi_check(key, asc);
	return -1;
}

static int
check_cscd(const struct scsi_unit *unit, const uint8_t *cscd, struct scsi_outcome *fault)
{
	uint8_t naa[8];

	if (cscd[0] != CSCD_IDENTIFICATION)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_CSCD_TYPE);
	/* The LU ID type is not looked at: the designator says it all. */
	if (cscd[7] > 20)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD_IN_LIST);
	scsi_put_naa(unit, naa);
	if ((cscd[1] & 0x3f) != 0 || (cscd[5] & 0x3f) != 0x03 || cscd[7] != sizeof(naa) ||
	    memcmp(cscd + 8, naa, sizeof(naa)) != 0)
		return refuse_list(fault, KEY_COPY_ABORTED, ASC_NOT_REACHABLE);
	if (get_be(cscd + 29, 3) != 0 && get_be(cscd + 29, 3) != unit->block_bytes)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD_IN_LIST);
	return 0;
}

static int
read_segment(const struct scsi_unit *unit, const uint8_t *segment, uint64_t cscds,
	     struct job_range ranges[2], struct scsi_outcome *fault)
{
	uint64_t blocks = get_be(segment + 10, 2);
	uint64_t from = get_be(segment + 12, 8), to = get_be(segment + 20, 8);

	if (segment[0] != SEGMENT_BLOCK_TO_BLOCK)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_SEGMENT_TYPE);
	if (get_be(segment + 2, 2) != SEGMENT_BYTES - 4)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD_IN_LIST);
	if (get_be(segment + 4, 2) >= cscds || get_be(segment + 6, 2) >= cscds)
		return refuse_list(fault, KEY_COPY_ABORTED, 0);
	if (lun_is_outside(unit, from, blocks) || lun_is_outside(unit, to, blocks))
		return refuse_list(fault, KEY_COPY_ABORTED, 0);
	ranges[0] = (struct job_range){ from * unit->block_bytes, blocks * unit->block_bytes };
	ranges[1] = (struct job_range){ to * unit->block_bytes, blocks * unit->block_bytes };
	return 0;
}

int
copy_read_list(const struct scsi_unit *unit, const uint8_t *list, size_t length,
	       struct job_range *ranges, struct scsi_outcome *fault)
{
	uint64_t cscd_bytes, segment_bytes, inline_bytes;
	const uint8_t *segments;

	if (length < HEAD_BYTES)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_LIST_LENGTH);
	cscd_bytes = get_be(list + 2, 2);
	segment_bytes = get_be(list + 8, 4);
	inline_bytes = get_be(list + 12, 4);
	if (cscd_bytes + segment_bytes > COPY_DESCRIPTOR_BYTES_MAX)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_LIST_LENGTH);
	if (cscd_bytes % CSCD_BYTES != 0 || inline_bytes != 0)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD_IN_LIST);
	if (cscd_bytes > CSCDS_MAX * CSCD_BYTES)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_TOO_MANY_CSCDS);
	if (segment_bytes > COPY_SEGMENTS_MAX * SEGMENT_BYTES)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_TOO_MANY_SEGMENTS);
	if (HEAD_BYTES + cscd_bytes + segment_bytes > length)
		return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_LIST_LENGTH);
	for (uint64_t at = 0; at < cscd_bytes; at += CSCD_BYTES)
		if (check_cscd(unit, list + HEAD_BYTES + at, fault) != 0)
			return -1;
	segments = list + HEAD_BYTES + cscd_bytes;
	/* The type of a segment says how long it is, so that is looked at before the length of them
	 * all.
	 */
	for (uint64_t at = 0; at < segment_bytes; at += SEGMENT_BYTES) {
		if (segments[at] != SEGMENT_BLOCK_TO_BLOCK)
			return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_SEGMENT_TYPE);
		if (segment_bytes - at < SEGMENT_BYTES)
			return refuse_list(fault, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD_IN_LIST);
		if (read_segment(unit, segments + at, cscd_bytes / CSCD_BYTES,
				 ranges + at / SEGMENT_BYTES * 2, fault) != 0)
			return -1;
	}
	return (int)(segment_bytes / SEGMENT_BYTES * 2);
}

uint32_t
copy_operating_parameters(const struct scsi_unit *unit, uint8_t *data)
{
	uint32_t block_log = 0;

	while (1u << block_log < unit->block_bytes)
		block_log++;
	put_be(data, 4, 46 - 4);
	data[4] = 0x01; /* SNLID: list identifiers need not be told apart */
	put_be(data + 8, 2, CSCDS_MAX);
	put_be(data + 10, 2, COPY_SEGMENTS_MAX);
	put_be(data + 12, 4, COPY_DESCRIPTOR_BYTES_MAX);
	/* of a segment; no inline and no held data */
	put_be(data + 16, 4, 0xffffull * unit->block_bytes);
	/* concurrent copies: what more come wait in the queue */
	put_be(data + 34, 2, 1);
	data[36] = 1;
	data[37] = (uint8_t)block_log; /* granularity of segments */
	data[43] = 2;
	data[44] = SEGMENT_BLOCK_TO_BLOCK;
	data[45] = CSCD_IDENTIFICATION;
	return 46;
}
