/* drivers/tcmu_cdb_length.c - a library of its own, which the unit of tcmu-runner preloads
 * (config/systemd/tcmu-runner.service.d).
 *
 * libtcmu asks its own tcmu_cdb_get_length() how much of a CDB to copy out of the ring.  For the
 * operation codes of groups 3, 6 and 7 that is an error, and libtcmu drops the command: it is never
 * answered, its place in the ring is never free again, and the runner never ends.  One initiator
 * can stop a LUN so.  Here all have the length with which the kernel put them there
 * (scsi_command_size()): so they reach the handlers, which refuse them.
 *
 * Why preloaded: libtcmu's calls are bound when the runner starts, before it loads any handler, and
 * are read-only from then on.  If a libtcmu no longer calls this by its name, nothing is worse than
 * without it; the handler says so in the log.
 */
#include <stdint.h>
#include <sys/types.h>

#include "libtcmu_common.h"

#define VARIABLE_LENGTH 0x7f

__attribute__((visibility("default"))) int
tcmu_cdb_get_length(uint8_t *cdb)
{
	static const int by_group[] = { 6, 10, 10, 12, 16, 12, 10, 10 };

	return cdb[0] == VARIABLE_LENGTH ? 8 + cdb[7] : by_group[cdb[0] >> 5];
}
