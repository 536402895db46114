/* progress.c - see progress.h. */
#include "progress.h"

#define PERIOD_MS 1000u

void
progress_add(struct progress *progress, uint64_t now_ms, uint64_t rows)
{
	uint64_t passed_ms;

	if (progress->since_ms == 0)
		progress->since_ms = now_ms;
	progress->rows += rows;
	passed_ms = now_ms - progress->since_ms;
	if (passed_ms < PERIOD_MS)
		return;
	uint64_t rate = progress->rows * 1000000 / passed_ms;

	progress->rows_per_1000s =
		progress->rows_per_1000s == 0 ? rate : (progress->rows_per_1000s * 3 + rate) / 4;
	progress->since_ms = now_ms;
	progress->rows = 0;
}

void
progress_status(const struct progress *progress, const struct engine *engine,
		struct work_status *out)
{
	uint64_t left = out->total_rows - out->done_rows;

	out->rate = progress->rows_per_1000s * engine->geometry.chunk_bytes / 1000;
	out->seconds_left =
		progress->rows_per_1000s > 0 ? left * 1000 / progress->rows_per_1000s : UINT64_MAX;
}
