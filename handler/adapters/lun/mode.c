/* lun/mode.c - mode pages (SPC-4 7.5, SBC-3 6.5): what is told of them. */
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
