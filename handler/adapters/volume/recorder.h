/* volume/recorder.h - one thread of the host that writes what volumes want on record in the state
 * folder: their epochs, their levels, and from whom they were taken.  A disk there that is slow, or
 * hangs, holds up nobody else: not the volume's thread, nor the end of a volume.
 */
#ifndef IRAID_RECORDER_H
#define IRAID_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/config/epoch_file.h"

struct recorder;
struct recorder_seat; /* of one volume */

struct recorder *recorder_create(void); /* NULL: no thread or memory */
/* When all seats are left.  Waits for what is being written. */
void recorder_destroy(struct recorder *recorder);

/* answered(owner) is called from the recorder's thread when there is something to take; it must not
 * block, and calls nothing here.  NULL: no memory.
 */
struct recorder_seat *recorder_join(struct recorder *recorder, const uint8_t uuid[16],
				    void (*answered)(void *owner), void *owner);
/* answered() is not called any more; what is being written goes on. */
void recorder_leave(struct recorder_seat *seat);

/* Neither waits for the disk, or needs memory. */
void recorder_raise(struct recorder_seat *seat, const struct epochs_kept *to);
/* needed: the fewest members that it runs with */
void recorder_note_level(struct recorder_seat *seat, int level, int needed);
void recorder_note_predecessor(struct recorder_seat *seat, uint64_t key);

/* What was written since the last call, and how that ended (0 or -errno); false: nothing. */
bool recorder_take(struct recorder_seat *seat, struct epochs_kept *out, int *error);

#endif
