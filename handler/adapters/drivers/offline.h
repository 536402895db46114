/* drivers/offline.h - the options of iraid-engine that work on files, without a handler. */
#ifndef IRAID_CONFIG_MAIN_H
#define IRAID_CONFIG_MAIN_H

#include <stdbool.h>

/* All print to standard output and return an exit status: 0; 1 with faults, or when there is no
 * such volume.
 */
int config_main_check(const char *name, bool as_json); /* NULL: all */
/* "gateway"; "volume" and its name */
int config_main_show(const char *what, const char *name);
int config_main_keys(void);
int config_main_template(void); /* a new gateway.conf */

/* As volume_standby(), for a handler that is dead or hangs: record that this gateway's turn is over,
 * so that no handler begins another, and say whether a process here still has the volume.
 * EXIT_SUCCESS: none has it; STANDBY_HELD: one has, which is named; EXIT_FAILURE: not recorded.
 */
#define STANDBY_HELD 3
int standby_main_record(const char *name);

#endif
