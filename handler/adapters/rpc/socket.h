/* rpc/socket.h - the control socket (docs/design/control.md): who may speak, lines in, lines out.
 * What is said is rpc.h's.
 */
#ifndef IRAID_CONTROL_H
#define IRAID_CONTROL_H

#include "adapters/volume/host.h"

#define CONTROL_LINE_BYTES_MAX (1024u * 1024u)
#define CONTROL_CONNECTIONS_MAX 32 /* of each socket */
#define MONITOR_CONNECTIONS_OF_USER_MAX 16
#define MONITOR_LINE_BYTES_MAX (64u * 1024u)
#define CONTROL_SOCKET_NAME "control.sock"
#define MONITOR_SOCKET_NAME "monitor.sock"

struct control;

/* Serve path (mode 0600, root alone), and if its name is control.sock, monitor.sock beside it (mode
 * 0660, group monitor_group()): for methods that only read.  A socket file that nobody answers on
 * is replaced.
 * NULL: the fault says why, for instance that another program serves it.
 */
struct control *control_start(struct volume_host *host, const char *path, struct fault *fault);

/* Stop listening, let calls end, close connections, remove the socket file. */
void control_stop(struct control *control);

#endif
