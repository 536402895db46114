/* rpc/listen.h - a UNIX socket that clients may connect to: who may, and that one program serves it. */
#ifndef IRAID_RPC_LISTEN_H
#define IRAID_RPC_LISTEN_H

#include "adapters/base/fault.h"

#define SOCKET_PATH_MAX 108 /* with its end */

/* Serve path, shorter than SOCKET_PATH_MAX, whose folder is made: mode 0600; with a group, mode 0660
 * and of that group, unless the machine has none of that name, which the log tells.  A socket that
 * nobody answers on is replaced.  A descriptor (non-blocking), or -errno; *lock_fd is the caller's
 * to close in any case, -1: none.
 */
int control_listen(const char *path, const char *group, int *lock_fd, struct fault *fault);

#endif
