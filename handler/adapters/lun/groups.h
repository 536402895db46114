/* lun/groups.h - target port groups (ALUA, SPC-4 5.15): by which of two gateways initiators should
 * come.  Each gateway has one target port, and group, identifier and gateway have the same number
 * on both, so that both tell the same.
 */
#ifndef IRAID_LUN_GROUPS_H
#define IRAID_LUN_GROUPS_H

#include "scsi.h"

#define TPGS_IMPLICIT 0x10 /* in the standard INQUIRY data: initiators change no state */

/* Designators of the port by which this gateway is reached (VPD page 83h).  Returns their length. */
uint32_t groups_put_designators(const struct scsi_unit *unit, uint8_t *out);

#endif
