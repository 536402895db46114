/* lun/mode.c - mode pages (SPC-4 7.5, SBC-3 6.5): what is told of them.
 *
 * None can be changed.  So MODE SELECT succeeds when it asks for what is so already, as initiators
 * do that write back what they have read, and is refused as a whole otherwise.
 */
#include <string.h>

#include "adapters/base/big_endian.h"
#include "commands.h"

struct mode_page {
	uint8_t code, length; /* length of what follows the two bytes of head */
	uint8_t values[18];
};

static const struct mode_page mode_pages[] = {
	{ 0x01, 10, { 0 } }, /* read-write error recovery */
	/* Caching: WCE, because members may have volatile caches that only FLUSH and FUA get past.
	 */
	{ 0x08, 18, { 0x04 } },
	/* Control: GLTSD; TAS as the kernel's default is; busy timeout without limit. */
	{ 0x0a, 10, { 0x02, 0, 0, 0x40, 0, 0, 0xff, 0xff, 0, 0 } },
	/* Informational exceptions control: DEXCPT, because none is ever reported. */
	{ 0x1c, 10, { 0x08 } },
};

void
lun_mode_sense(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	bool ten = lun_cdb_length(cdb[0]) == 10;
	uint64_t allocation = ten ? get_be(cdb + 7, 2) : cdb[4];
	uint8_t control = cdb[2] >> 6, code = cdb[2] & 0x3f, subpage = cdb[3];
	uint32_t length = ten ? 8 : 4, head = length;

	if (control == 3) {
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_NO_SAVED_PAGES);
		return;
	}
	for (size_t i = 0; i < sizeof(mode_pages) / sizeof(mode_pages[0]); i++) {
		const struct mode_page *page = &mode_pages[i];

		if (!(code == page->code && subpage == 0) &&
		    !(code == 0x3f && (subpage == 0 || subpage == 0xff)))
			continue;
		out->data[length] = page->code;
		out->data[length + 1] = page->length;
		if (control != 1) /* 1 asks which bits can be changed: none */
			memcpy(out->data + length + 2, page->values, page->length);
		length += 2u + page->length;
	}
	if (length == head) {
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	/* Device-specific parameter: DPOFUA, not write-protected. */
	out->data[ten ? 3 : 2] = 0x10;
	if (ten)
		put_be(out->data, 2, length - 2);
	else
		out->data[0] = (uint8_t)(length - 1);
	scsi_answer_cut(out, length, allocation);
}

/* --- MODE SELECT --- */

/* Block descriptor of 8 bytes, or of 16 (LONGLBA): number and length of blocks, as they are.
 * SBC-3 6.5.2: a number of 0 or of all ones leaves it to the device server.
 */
static bool
is_unchanged_descriptor(const struct scsi_unit *unit, const uint8_t *at, bool is_long)
{
	const uint64_t blocks = get_be(at, is_long ? 8 : 4);
	const uint64_t length = is_long ? get_be(at + 12, 4) : get_be(at + 5, 3);
	const uint64_t most = is_long ? UINT64_MAX : UINT32_MAX;

	return length == unit->block_bytes &&
	       (blocks == 0 || blocks == most || blocks == unit->blocks);
}

/* Bytes of the page that begins there; 0 if it is none of ours, or not as it is. */
static size_t
unchanged_page(const uint8_t *at, size_t left)
{
	for (size_t i = 0; i < sizeof(mode_pages) / sizeof(mode_pages[0]); i++) {
		const struct mode_page *page = &mode_pages[i];

		/* PS, bit 7, is reserved here, and left over from MODE SENSE */
		if ((at[0] & 0x7f) == page->code && at[1] == page->length &&
		    left >= 2u + page->length && memcmp(at + 2, page->values, page->length) == 0)
			return 2u + page->length;
	}
	return 0;
}

uint16_t
lun_mode_select_fault(const struct scsi_unit *unit, const uint8_t *cdb, const uint8_t *list,
		      size_t length)
{
	const bool ten = lun_cdb_length(cdb[0]) == 10;
	size_t at = ten ? 8 : 4, descriptor;
	bool is_long;

	/* SP: no page can be saved.  Without PF the pages would be of the vendor's own form. */
	if ((cdb[1] & ~0x10) != 0 || (length > 0 && cdb[1] == 0))
		return ASC_INVALID_FIELD;
	if (length == 0)
		return 0;
	if (length < at)
		return ASC_LIST_LENGTH;
	/* Mode data length and the device-specific parameter are reserved; there is one medium. */
	descriptor = ten ? (size_t)get_be(list + 6, 2) : list[3];
	is_long = ten && (list[4] & 0x01);
	if (list[ten ? 2 : 1] != 0)
		return ASC_INVALID_FIELD_IN_LIST;
	if (descriptor > length - at)
		return ASC_LIST_LENGTH;
	if (descriptor != 0 && (descriptor != (is_long ? 16 : 8) ||
				!is_unchanged_descriptor(unit, list + at, is_long)))
		return ASC_INVALID_FIELD_IN_LIST;
	for (at += descriptor; at < length;) {
		const size_t left = length - at;
		const size_t page = left < 2 ? 0 : unchanged_page(list + at, left);

		if (left < 2 || 2u + list[at + 1] > left)
			return ASC_LIST_LENGTH;
		if (page == 0)
			return ASC_INVALID_FIELD_IN_LIST;
		at += page;
	}
	return 0;
}
