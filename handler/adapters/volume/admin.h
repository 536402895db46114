/* volume/admin.h - what an administrator, or the keeper on his behalf, does to a volume while it
 * runs, and to its configuration file.  From any thread but the volume's own; blocks until it is
 * done.
 *
 * Who runs a volume (has its lock) owns its file: the devices in it change when the volume's do.
 */
#ifndef IRAID_VOLUME_ADMIN_H
#define IRAID_VOLUME_ADMIN_H

#include "host.h"

struct hosted;

/* Call fn on the volume's thread, between two turns of its engine.  Returns what fn does, with the
 * fault it filled (the message has room for what the engine's functions tell); -ENOTCONN: the
 * volume does not run in this process; -ENOMEDIUM: it has no engine; -EAGAIN, -ESHUTDOWN: it is
 * starting again, or stopping.
 */
typedef int (*volume_call_fn)(struct engine *engine, void *argument, struct fault *fault);
int volume_call(struct volume_host *host, const char *name, volume_call_fn fn, void *argument,
		struct fault *fault);

/* Wait until reached() says so of a fresh status: 0; -ETIMEDOUT; -ENOTCONN, -ESHUTDOWN as above. */
typedef bool (*volume_reached_fn)(const struct engine_status *status, void *argument);
int volume_wait_until(struct volume_host *host, const char *name, volume_reached_fn reached,
		      void *argument, uint32_t timeout_ms);

/* Open one device more; it must be in the configuration already.  Its slot, or as engine_attach()
 * and volume_call().
 */
int volume_attach(struct volume_host *host, const char *name, const struct device_address *device,
		  struct fault *fault);

/* Let the device of this slot go, if it still has this label, also from the configuration.  Returns
 * when both have happened; that the file could not be written is an event.  As engine_detach() and
 * volume_call(); -ENOENT: it has left already; -ETIMEDOUT.
 */
int volume_detach(struct volume_host *host, const char *name, int slot, const char *label,
		  struct fault *fault);

/* engine_lost_accept(), waited for.  0 with *bytes, or -errno; -EBUSY: another one is under way. */
int volume_accept_lost(struct volume_host *host, const char *name, uint64_t offset_bytes,
		       uint64_t length_bytes, int64_t *bytes, struct fault *fault);

/* engine_grow(), waited for.  0 with *out, or -errno.  On return volume_brief() has the new size.
 * -EBUSY: one is under way, or as engine_grow(); -ESHUTDOWN: it was stopped meanwhile, and its next
 * assembly says which size it has.
 */
struct volume_growth {
	uint64_t before_bytes, size_bytes;
	char note[256]; /* for a person, or nothing */
};
int volume_grow(struct volume_host *host, const char *name, struct volume_growth *out,
		struct fault *fault);

/* Change a volume's configuration, running or not: change() is applied to the file as it stands,
 * and to what the running volume knows.  change() returns 0 or -errno; then nothing is changed.
 * -EBUSY: another process runs the volume.
 */
typedef int (*volume_change_fn)(struct volume_config *config, void *argument, struct fault *fault);
int volume_edit(struct volume_host *host, const char *name, volume_change_fn change, void *argument,
		struct fault *fault);
/* -EEXIST, -ENOSPC. */
int volume_edit_add(struct volume_host *host, const char *name, const struct device_address *device,
		    struct fault *fault);
/* The same of a volume that nobody runs, whose lock the caller has. */
int volume_edit_add_locked(struct volume_host *host, const char *name,
			   const struct device_address *device, struct fault *fault);
/* Not there: 0. */
int volume_edit_drop(struct volume_host *host, const char *name,
		     const struct device_address *device, struct fault *fault);

/* Record something that happened: in the ring of events and in the log. */
void volume_note(struct volume_host *host, int severity, const char *kind, const char *name,
		 const char *member, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
