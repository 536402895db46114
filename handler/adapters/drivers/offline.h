/* drivers/offline.h - the options of iraid-engine that only read files. */
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

#endif
