/* volume/reload.h - a volume's file read again while it runs: what can be applied without touching
 * its I/O is, what can't is named.
 */
#ifndef IRAID_VOLUME_RELOAD_H
#define IRAID_VOLUME_RELOAD_H

#include "adapters/config/keys.h"
#include "admin.h"

struct reload_change {
	const char *key;
	char *from, *to; /* malloc'ed; empty: a member that was not there, or is no longer */
	bool applied;
	const char *note; /* applied: when it shows; else what to do */
};

struct reload {
	bool running; /* in this process */
	/* why it was not looked at any further; empty */
	char note[sizeof(((struct fault *)0)->message)];
	int count;
	struct reload_change changes[CONFIG_KEYS_MAX + 2 * SLOTS_MAX];
};

/* 0, or -errno and nothing has changed: -ENOENT, -EINVAL (the file has faults, the secrets file is
 * not good).
 */
int
volume_reload(struct volume_host *host, const char *name, struct reload *out, struct fault *fault);
void reload_free(struct reload *reload);

/* Have the running volume's sessions take what its configuration in memory says, from their next login
 * on.  0, or -errno: it does not run.
 */
int volume_adjust(struct volume_host *host, const char *name, struct fault *fault);

#endif
