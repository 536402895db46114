/* volume/role.h - whose turn a volume is: this gateway's, or another one's.
 *
 *	ACTIVE --standby--> STANDBY --activate--> ACTIVE
 *	   `--another gateway took it over--> FENCED --nothing is held any more--> STANDBY
 *
 * On standby the volume is configured, has its users and its LUN, and no engine: no session to a
 * member, so nothing is written there, reserved, or raised.  A turn that is over is on record in
 * the state folder, so that a restart does not begin another; docs/design/control.md.
 */
#ifndef IRAID_VOLUME_ROLE_H
#define IRAID_VOLUME_ROLE_H

#include "host.h"

const char *volume_role_name(enum volume_role role); /* "active", "standby", "fenced" */

/* Stop in order what runs of it, keep its users, and stay so until volume_activate(), also over a
 * restart.  Returns when it is on standby: 0, also if it was.  As volume_start(); other -errno: it
 * could not be recorded, and what runs goes on; -ETIMEDOUT: it is still ending.
 */
int volume_standby(struct volume_host *host, const char *name, struct fault *fault);

/* Begin its turn here, as volume_start() would; the outcome is volume_wait()'s to await, and
 * volume_settle()'s to draw.  0 also if it was active; -EAGAIN: it is fenced, and what it holds has
 * not ended yet; else as volume_start().
 */
int volume_activate(struct volume_host *host, const char *name,
		    const struct volume_start_options *options, struct fault *fault);

/* After that wait: if it is assembled, its turn is on record too (0).  If not, and it was on
 * standby before, it is again: -EIO it failed, -ETIMEDOUT it was not assembled in time, -ESHUTDOWN
 * somebody stopped it or has put it on standby meanwhile; the fault says why.  *again: it is on
 * standby, as it was.
 */
int volume_settle(struct volume_host *host, const char *name, bool *again, struct fault *fault);

#endif
