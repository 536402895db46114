/* log_mode.h - when the write log is open (record/write_log.h). */
#ifndef IRAID_ENGINE_LOG_MODE_H
#define IRAID_ENGINE_LOG_MODE_H

#include "engine/core/core.h"

/* Writes are to be logged: members are out, or it is always so; and it is known what every member
 * holds, or held.
 */
bool log_mode_wanted(const struct engine *engine);
void log_mode_run(struct engine *engine);
uint64_t log_mode_deadline(const struct engine *engine);

#endif
