/* volume/stats.h - a volume's figures, its members' and their sessions', taken at the same time.
 * For rpc/stats.c; from any thread but the volume's own.
 */
#ifndef IRAID_VOLUME_STATS_H
#define IRAID_VOLUME_STATS_H

#include "adapters/backend/path.h"
#include "host.h"

struct volume_stats {
	/* since 1970-01-01 UTC; 0: it has no engine, and no figures */
	uint64_t started_ms;
	struct engine_status status;
	struct engine_figures figures;
	struct volume_time time;
	struct backend_path paths[SLOTS_MAX]; /* by slot */
};

/* Waits for the volume's thread to come round, a few ms at most.  0, also for one that does not
 * run, with the devices of its configuration; or as volume_view().
 */
int volume_stats(struct volume_host *host, const char *name, struct volume_stats *out,
		 struct fault *fault);

#endif
