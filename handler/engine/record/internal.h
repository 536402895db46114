/* internal.h - what the files of record/ know of each other, beside record.h. */
#ifndef IRAID_ENGINE_RECORD_INTERNAL_H
#define IRAID_ENGINE_RECORD_INTERNAL_H

#include "record.h"

void marks_flush_begins(struct engine *engine); /* a round of flushes */

#endif
