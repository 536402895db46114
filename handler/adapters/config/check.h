/* config/check.h - what can be said of a gateway's files without a handler that runs: faults, and
 * what holds.
 */
#ifndef IRAID_CONFIG_CHECK_H
#define IRAID_CONFIG_CHECK_H

#include "adapters/base/json.h"

/* All faults of the gateway's files, or of one volume's and gateway.conf's:
 *	{"files": [...], "faults": [{"file", "line", "section", "key", "what", "remedy"}]}
 * line: null of the whole file.  NULL: out of memory.
 */
json_object *config_check(const char *name);

/* What stands under a key of one of these faults; "" if it is null. */
const char *config_fault_text(json_object *fault, const char *key);

/* What holds for a volume and where that stands:
 *	{"name", "file", "keys": [{"section", "key", "value", "source", "line", "applies"}], "values": {...}}
 * value: as text, or a list of such; source: "file", "gateway.conf" or "default"; values: as the
 * control socket names them.  With faults: {"faults"} as above.
 */
json_object *config_show_volume(const char *name);

/* {"volumes": {...}, "spares": [...], "notify": {...}, "exporter": {...}, "file", "keys": as above,
 * "faults": [...]}; what has a fault is its default.
 */
json_object *config_show_gateway(void);

#endif
