/* volume/path.h - what an administrator asks about the ways to a volume's members: rpc/path.c.
 * From any thread but the volume's own.
 */
#ifndef IRAID_VOLUME_PATH_H
#define IRAID_VOLUME_PATH_H

#include "adapters/backend/path.h"
#include "admin.h"

struct volume_paths {
	struct engine_status status;
	/* the name it logs in with */
	char initiator[sizeof(((struct volume_config *)0)->initiator)];
	struct backend_path paths[SLOTS_MAX]; /* by slot */
};

/* 0, or as volume_call(). */
int volume_paths(struct volume_host *host, const char *name, struct volume_paths *out,
		 struct fault *fault);

struct volume_probing {
	struct probe_result results[SLOTS_MAX]; /* by slot */
	char labels[SLOTS_MAX][sizeof(((struct member_status *)0)->label)];
};

/* engine_probe(), waited for.  0 with *out, or as it and volume_call(); -ESHUTDOWN: it was stopped
 * meanwhile.
 */
int volume_probe(struct volume_host *host, const char *name, const struct probe_order *order,
		 struct volume_probing *out, struct fault *fault);

#endif
