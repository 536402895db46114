/* lun/scsi.c - see scsi.h.  SPC-4 and SBC-3.  Which commands there are says commands.c.
 *
 * The LUN's name is made of the volume's UUID alone:
 *   - serial number (VPD 80h): its 32 hexadecimal digits
 *   - NAA locally assigned (VPD 83h, SPC-4 7.8.6.6.4): 3h and 60 bits of it.  NAA 5h and 6h begin
 *     with an IEEE company id, and we have none; to use another's, as LIO does with that of
 *     OpenFabrics, risks names that somebody else gives too.
 *   - T10 vendor identification: vendor and the whole UUID
 *   - SCSI name: "naa." and the NAA name, in small letters as names of iSCSI are
 * The configuration string is not shown to initiators.
 */
#include <stdio.h>
#include <string.h>

#include "adapters/base/big_endian.h"
#include "commands.h"
#include "copy.h"
#include "groups.h"

#define VENDOR "IRAID   "
#define PHYSICAL_BLOCK_BYTES 4096u
#define OPTIMAL_BYTES_MIN (1u << 20)  /* optimal transfer length, rounded up to whole rows */
#define UNIT_OF_ESXI_BYTES (1u << 20) /* it discards by itself if the granularity divides this */

static void
put_hex(uint8_t *out, const uint8_t *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		out[2 * i] = (uint8_t)digits[bytes[i] >> 4];
		out[2 * i + 1] = (uint8_t)digits[bytes[i] & 15];
	}
}

/* --- INQUIRY --- */

/* Sixteen characters. */
static const char *
product_of(int level)
{
	switch (level) {
	case 0:
		return "S-iRAID volume  ";
	case 5:
		return "P-iRAID volume  ";
	}
	return "iRAID volume    ";
}

static uint32_t
standard_inquiry(const struct scsi_unit *unit, uint8_t *data)
{
	/* SAM-5 iSCSI SPC-4 SBC-3 */
	static const uint16_t versions[] = { 0x00a0, 0x0960, 0x0460, 0x04c0 };
	char revision[5];

	data[2] = 0x06; /* SPC-4 */
	data[3] = 0x02; /* response data format */
	data[4] = 74 - 5;
	data[5] = 0x08;		/* third-party copy */
	if (unit->gateway != 0) /* a single gateway needs no ALUA */
		data[5] |= TPGS_IMPLICIT;
	data[7] = 0x02; /* CMDQUE */
	memcpy(data + 8, VENDOR, 8);
	memcpy(data + 16, product_of(unit->level), 16);
	snprintf(revision, sizeof(revision), "%-4.4s", IRAID_VERSION);
	memcpy(data + 32, revision, 4);
	for (int i = 0; i < 4; i++)
		put_be(data + 58 + 2 * i, 2, versions[i]);
	return 74;
}

static uint32_t
vpd_identification(const struct scsi_unit *unit, uint8_t *data)
{
	uint8_t *designator = data + 4, naa[8];

	designator[0] = 0x01; /* binary */
	designator[1] = 0x03; /* of the LUN, NAA */
	designator[3] = 8;
	scsi_put_naa(unit, designator + 4);
	designator += 12;

	designator[0] = 0x02; /* ASCII */
	designator[1] = 0x01; /* of the LUN, T10 vendor identification */
	designator[3] = 8 + 32;
	memcpy(designator + 4, VENDOR, 8);
	put_hex(designator + 12, unit->uuid, sizeof(unit->uuid));
	designator += 4 + 40;

	designator[0] = 0x03; /* UTF-8 */
	designator[1] = 0x08; /* of the LUN, SCSI name string */
	designator[3] = 24;   /* ends with a zero, and then is a multiple of 4 */
	scsi_put_naa(unit, naa);
	memcpy(designator + 4, "naa.", 4);
	put_hex(designator + 8, naa, sizeof(naa));
	designator += 4 + 24;
	if (unit->gateway != 0)
		designator += groups_put_designators(unit, designator);
	return (uint32_t)(designator - data) - 4;
}

static uint32_t
vpd_extended(uint8_t *data)
{
	/* SIMPSUP alone: the ring of tcmu does not say which task attribute a command has. */
	data[5] = 0x01;
	data[6] = 0x01; /* V_SUP: members may have volatile caches */
	return 0x3c;
}

/* Whole rows are zeroed without a read, and are what members can give back: a row is the
 * granularity.  One that does not divide ESXi's unit, but of which each such unit holds a whole one,
 * gives way to what divides both: most of each unit is given back, and the rest are zeros.
 */
static uint32_t
unmap_granularity_bytes(uint32_t row_bytes)
{
	if (row_bytes > UNIT_OF_ESXI_BYTES / 2)
		return row_bytes;
	return row_bytes & -row_bytes; /* the largest power of 2 that divides it */
}

static uint32_t
vpd_block_limits(const struct scsi_unit *unit, uint8_t *data)
{
	uint32_t chunk = unit->chunk_bytes / unit->block_bytes;
	uint32_t row = unit->row_bytes / unit->block_bytes;
	uint32_t wanted = OPTIMAL_BYTES_MIN / unit->block_bytes;
	uint32_t most = unit->transfer_blocks_max;
	uint32_t granularity = unmap_granularity_bytes(unit->row_bytes) / unit->block_bytes;
	uint32_t optimal = 0;

	/* Writes of whole rows need no read: file systems align to what stands here.  Linux makes
	 * no command longer than that, so it is as many rows as make a command worth its cost.  A
	 * row that is longer than a command can be gives way to whole chunks.
	 */
	if (row != 0 && row <= most) {
		uint32_t rows = (wanted + row - 1) / row;

		optimal = row * (rows <= most / row ? rows : most / row);
	} else if (chunk != 0 && chunk <= most) {
		optimal = most / chunk * chunk;
	}
	data[4] = 0x01; /* WSNZ: 0 blocks of WRITE SAME are not all to the end */
	put_be(data + 6, 2, chunk <= 0xffff ? chunk : 0);
	put_be(data + 8, 4, most);
	put_be(data + 12, 4, optimal);
	data[5] = (uint8_t)(COMPARE_WRITE_BYTES_MAX / unit->block_bytes);
	put_be(data + 20, 4, UNMAP_BYTES_MAX / unit->block_bytes);
	put_be(data + 24, 4, UNMAP_DESCRIPTORS_MAX);
	put_be(data + 28, 4, granularity != 0 ? granularity : 1);
	put_be(data + 32, 4, 1u << 31); /* UGAVALID: counted from block 0 */
	put_be(data + 36, 8, WRITE_SAME_BLOCKS_MAX);
	return 0x3c;
}

static uint32_t
vpd_provisioning(uint8_t *data)
{
	/* LBPU, LBPWS, LBPWS10, LBPRZ; nothing is anchored. */
	data[5] = 0x80 | 0x40 | 0x20 | 0x04;
	/* Thin: the weaker promise, for a member may be.  Windows discards only where it reads
	 * this.
	 */
	data[6] = 0x02;
	return 4;
}

void
lun_inquiry(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	static const uint8_t pages[] = { 0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2 };
	uint64_t allocation = get_be(cdb + 3, 2);
	uint32_t length;

	if (!(cdb[1] & 0x01)) {
		if (cdb[1] != 0 || cdb[2] != 0)
			scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		else
			scsi_answer_cut(out, standard_inquiry(unit, out->data), allocation);
		return;
	}
	switch (cdb[2]) {
	case 0x00:
		memcpy(out->data + 4, pages, sizeof(pages));
		length = sizeof(pages);
		break;
	case 0x80:
		put_hex(out->data + 4, unit->uuid, sizeof(unit->uuid));
		length = 32;
		break;
	case 0x83:
		length = vpd_identification(unit, out->data);
		break;
	case 0x86:
		length = vpd_extended(out->data);
		break;
	case 0xb0:
		length = vpd_block_limits(unit, out->data);
		break;
	case 0xb1:
		/* Non-rotating: whatever the members are, an elevator for one disk does a row of
		 * several no good.
		 */
		put_be(out->data + 4, 2, 1);
		length = 0x3c;
		break;
	case 0xb2:
		length = vpd_provisioning(out->data);
		break;
	default:
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	out->data[1] = cdb[2];
	put_be(out->data + 2, 2, length);
	scsi_answer_cut(out, 4 + length, allocation);
}

/* --- the others --- */

void
lun_test_unit_ready(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	if (unit->not_ready)
		scsi_refuse(out, SENSE_NOT_READY, unit->not_ready);
	else
		scsi_answer_cut(out, 0, 0);
}

void
lun_request_sense(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	bool descriptor = cdb[1] & 0x01;
	uint16_t asc = unit->attention ? unit->attention : unit->not_ready;
	uint8_t key = unit->attention	? SENSE_UNIT_ATTENTION
		      : unit->not_ready ? SENSE_NOT_READY
					: 0;

	out->data[0] = descriptor ? 0x72 : 0x70;
	if (descriptor) {
		out->data[1] = key;
		put_be(out->data + 2, 2, asc);
	} else {
		out->data[2] = key;
		out->data[7] = 18 - 8;
		put_be(out->data + 12, 2, asc);
	}
	scsi_answer_cut(out, descriptor ? 8 : 18, cdb[4]);
}

void
lun_read_capacity_10(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	uint64_t last = unit->blocks - 1;

	put_be(out->data, 4, last < 0xffffffffu ? last : 0xffffffffu);
	put_be(out->data + 4, 4, unit->block_bytes);
	scsi_answer_cut(out, 8, 8);
}

void
lun_read_capacity_16(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	put_be(out->data, 8, unit->blocks - 1);
	put_be(out->data + 8, 4, unit->block_bytes);
	/* No protection.  Physical blocks of 4 KiB at least, so that initiators align: smaller
	 * writes cost a member a read, and may be torn.  LBPME and LBPRZ: UNMAP is there, and what
	 * was unmapped reads as zeros.
	 */
	for (uint32_t bytes = unit->block_bytes; bytes < PHYSICAL_BLOCK_BYTES; bytes *= 2)
		out->data[13]++;
	out->data[14] = 0xc0;
	scsi_answer_cut(out, 32, get_be(cdb + 10, 4));
}

/* All is mapped: which blocks members gave back nobody knows, and to say so of one that has data
 * would lose it where a copy leaves it out.
 */
void
lun_get_lba_status(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	const uint64_t lba = get_be(cdb + 2, 8);
	const uint64_t left = lba < unit->blocks ? unit->blocks - lba : 0;

	if (left == 0) {
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_OUT_OF_RANGE);
		return;
	}
	put_be(out->data, 4, 4 + 16);
	put_be(out->data + 8, 8, lba);
	put_be(out->data + 16, 4, left < UINT32_MAX ? left : UINT32_MAX);
	scsi_answer_cut(out, 8 + 16, get_be(cdb + 10, 4));
}

void
lun_start_stop(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	/* There is nothing to spin up, to eject or to power down. */
	if ((cdb[4] & 0xf0) != 0 || (cdb[4] & 0x02) != 0 || !(cdb[4] & 0x01))
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
	else
		scsi_answer_cut(out, 0, 0);
}

void
lun_receive_copy_results(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	if ((cdb[1] & 0x1f) != 0x03) /* there is nothing to ask of past copies */
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
	else
		scsi_answer_cut(out, copy_operating_parameters(unit, out->data),
				get_be(cdb + 10, 4));
}

/* --- what has a range of blocks --- */

size_t
lun_cdb_length(uint8_t opcode)
{
	static const uint8_t lengths[] = { 6, 10, 10, 0, 16, 12, 0, 0 }; /* SPC-4 4.2.5.1 */

	return lengths[opcode >> 5];
}

void
lun_read_range(const uint8_t *cdb, uint64_t *lba, uint64_t *blocks)
{
	switch (lun_cdb_length(cdb[0])) {
	case 6:
		*lba = get_be(cdb + 1, 3) & 0x1fffff;
		*blocks = cdb[4] != 0 ? cdb[4] : 256;
		return;
	case 12:
		*lba = get_be(cdb + 2, 4);
		*blocks = get_be(cdb + 6, 4);
		return;
	case 16:
		*lba = get_be(cdb + 2, 8);
		*blocks = get_be(cdb + 10, 4);
		return;
	}
	*lba = get_be(cdb + 2, 4);
	*blocks = get_be(cdb + 7, 2);
}

uint16_t
lun_check_range(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes)
{
	uint64_t lba, blocks;

	lun_read_range(cdb, &lba, &blocks);
	return lun_is_outside(unit, lba, blocks) ? ASC_OUT_OF_RANGE : 0;
}

/* The runner checks length and range again, and would log a line for each command that fails: an
 * initiator could fill the disk.
 */
uint16_t
lun_check_transfer(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes)
{
	uint64_t lba, blocks;

	lun_read_range(cdb, &lba, &blocks);
	if (lun_is_outside(unit, lba, blocks))
		return ASC_OUT_OF_RANGE;
	/* RDPROTECT and WRPROTECT: the LUN is not formatted with protection information. */
	if (cdb[1] >> 5 != 0 || blocks > unit->transfer_blocks_max)
		return ASC_INVALID_FIELD;
	return data_bytes != blocks * unit->block_bytes ? ASC_INVALID_FIELD : 0;
}

/* There is no cache to fetch into, which is no error (SBC-3 5.12). */
void
lun_prefetch(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	uint16_t fault = lun_check_range(unit, cdb, 0);

	if (fault != 0)
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, fault);
	else
		scsi_answer_cut(out, 0, 0);
}
