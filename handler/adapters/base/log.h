/* base/log.h - lines for the administrator.  Where they go is the program's choice: tcmu-runner's
 * log, nbdkit's, or standard error.  Never a secret, never per request.
 */
#ifndef IRAID_LOG_H
#define IRAID_LOG_H

#include <syslog.h>

/* level: a syslog priority; text: one line without a newline. */
typedef void (*log_sink)(int level, const char *text);

void log_set_sink(log_sink sink); /* NULL: standard error.  Before any thread is made. */

void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
