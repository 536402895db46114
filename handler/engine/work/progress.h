/* progress.h - how fast work goes, and how long it still takes. */
#ifndef IRAID_PROGRESS_H
#define IRAID_PROGRESS_H

#include "work.h"

struct progress {
	uint64_t since_ms;	 /* of the measurement under way */
	uint64_t rows;		 /* done in it */
	uint64_t rows_per_1000s; /* of those before, a moving mean */
};

void progress_add(struct progress *progress, uint64_t now_ms, uint64_t rows);
/* Into rate and seconds_left of *out, whose done_rows and total_rows are set. */
void progress_status(const struct progress *progress, const struct engine *engine,
		     struct work_status *out);

#endif
