/* lun/groups.c - see groups.h.  The kernel keeps the states and enforces them; it answers no REPORT
 * TARGET PORT GROUPS for a LUN of tcmu, so that is done here with what it says.
 */
#include "groups.h"

#include "adapters/base/big_endian.h"
#include "commands.h"

/* Transitioning, which the kernel passes through; standby; active/optimized. */
#define STATES_SUPPORTED (0x80 | 0x04 | 0x01)
#define CHANGED_BY_DEVICE 0x02 /* status code: by implicit ALUA */
#define FORMAT_EXTENDED 1

uint32_t
groups_put_designators(const struct scsi_unit *unit, uint8_t *out)
{
	static const uint8_t types[] = { 0x14, 0x15 }; /* relative target port; target port group */

	for (size_t i = 0; i < sizeof(types); i++) {
		uint8_t *designator = out + 8 * i;

		designator[0] = 0x01; /* binary */
		designator[1] = types[i];
		designator[3] = 4;
		put_be(designator + 6, 2, (uint64_t)unit->gateway);
	}
	return 8 * sizeof(types);
}

void
lun_report_groups(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out)
{
	const uint8_t format = cdb[1] >> 5;
	uint32_t length = 4;

	if (format > FORMAT_EXTENDED) {
		scsi_refuse(out, SENSE_ILLEGAL_REQUEST, ASC_INVALID_FIELD);
		return;
	}
	if (format == FORMAT_EXTENDED) {
		out->data[4] = FORMAT_EXTENDED << 4; /* implicit transition time: none is told */
		length += 4;
	}
	for (uint32_t number = 1; number <= GATEWAYS; number++) {
		uint8_t *group = out->data + length;

		group[0] = unit->access[number - 1];
		group[1] = STATES_SUPPORTED;
		put_be(group + 2, 2, number);
		group[5] = CHANGED_BY_DEVICE;
		group[7] = 1; /* one port, of the same number */
		put_be(group + 10, 2, number);
		length += 12;
	}
	put_be(out->data, 4, length - 4);
	scsi_answer_cut(out, length, get_be(cdb + 6, 4));
}
