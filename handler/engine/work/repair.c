/* repair.c - rows in which something could not be read: what is made up for is written back and
 * read again.
 *
 * Noted by whoever met it; one row at a time, not throttled, for a second sector going bad would
 * cost data.
 */
#include "sync_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <syslog.h>

#define NOTES 64u
#define RETRY_MS 1000u

struct repair {
	struct sync_rows rows; /* must be first */
	uint64_t not_before_ms;
	uint64_t notes[NOTES]; /* rows, a ring */
	uint32_t head, count;
};

static void
row_mended(struct sync_rows *rows, int result)
{
	struct repair *repair = (struct repair *)rows;
	struct engine *engine = rows->op.engine;

	if (result != 0) {
		repair->not_before_ms = engine->now_ms + RETRY_MS;
		/* It may be refused for good: the others first. */
		if (!MUTANT(REFUSAL_STOPS_REPAIR)) {
			repair->notes[(repair->head + repair->count) % NOTES] =
				repair->notes[repair->head];
			repair->head = (repair->head + 1) % NOTES;
		}
		return;
	}
	repair->head = (repair->head + 1) % NOTES;
	repair->count--;
	engine_event(engine, EVENT_MEDIUM_ERROR, rows->unreadable ? LOG_ERR : LOG_WARNING, NULL,
		     "row %llu had sectors that could not be read: %s",
		     (unsigned long long)rows->first_row,
		     rows->unreadable ? "more than can be made up for"
				      : "rewritten from the others");
}

void
repair_note(struct engine *engine, uint64_t row)
{
	struct repair *repair = engine->work->repair;

	if (engine->geometry.redundancy == 0)
		return;
	for (uint32_t i = 0; i < repair->count; i++)
		if (repair->notes[(repair->head + i) % NOTES] == row)
			return;
	if (repair->count == NOTES)
		return; /* it will be met again */
	repair->notes[(repair->head + repair->count++) % NOTES] = row;
	engine->activity++;
}

void
repair_run(struct engine *engine)
{
	struct repair *repair = engine->work->repair;

	if (repair == NULL || repair->count == 0 || repair->rows.active || !engine_calm(engine) ||
	    engine->now_ms < repair->not_before_ms)
		return;
	sync_rows_begin(&repair->rows, SYNC_MEND, repair->notes[repair->head], 1);
}

bool
repair_idle(const struct engine *engine)
{
	return engine->work->repair == NULL || !engine->work->repair->rows.active;
}

int
repair_init(struct engine *engine)
{
	if (engine->work->repair == NULL)
		engine->work->repair = calloc(1, sizeof(*engine->work->repair));
	if (engine->work->repair == NULL)
		return -ENOMEM;
	sync_rows_init(&engine->work->repair->rows, engine, row_mended);
	return 0;
}

void
repair_free(struct engine *engine)
{
	if (engine->work->repair != NULL)
		sync_rows_free(&engine->work->repair->rows);
	free(engine->work->repair);
	engine->work->repair = NULL;
}
