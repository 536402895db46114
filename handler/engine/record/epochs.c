/* epochs.c - the epochs of the volume that this gateway has on record (DESIGN rule 7).
 *
 * The driver writes them, and the engine goes on meanwhile: one epoch is asked for at a time, and
 * whoever needs it asks again in each turn until it is on record.  A refusal is repeated after
 * RETRY_MS.  It is an administrator's to mend, so it is an event and a reason in status; so is an
 * answer that takes longer than LATE_MS.
 */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u
#define LATE_MS 5000u

static void
complain(struct engine *engine, int error)
{
	struct epochs *epochs = engine->epochs;
	const char *where = engine->port.epochs_kept_in;

	if (epochs->error == error)
		return;
	epochs->error = error;
	snprintf(epochs->refusal, sizeof(epochs->refusal),
		 "epoch %" PRIu64 " of this volume can't be recorded in %.128s: %s; what waits for "
		 "that goes on once it can: free space or mend that disk (df %.128s)",
		 epochs->asked, where,
		 error == -ETIMEDOUT ? "the disk does not answer" : strerror(-error), where);
	engine_event(engine, EVENT_STATE_FOLDER, LOG_ERR, NULL, "%s", epochs->refusal);
}

static void
be_content(struct engine *engine)
{
	if (engine->epochs->error != 0)
		engine_event(engine, EVENT_STATE_FOLDER, LOG_NOTICE, NULL,
			     "epoch %" PRIu64 " of this volume is recorded in %s again",
			     engine->epochs->asked, engine->port.epochs_kept_in);
	engine->epochs->error = 0;
}

static void
ask(struct engine *engine, enum epoch_kind kind, uint64_t epoch)
{
	struct epochs *epochs = engine->epochs;

	epochs->under_way = true;
	epochs->kind = kind;
	epochs->asked = epoch;
	epochs->asked_ms = engine->now_ms;
	engine->port.record_epoch(engine->port.owner, kind, epoch);
}

bool
epochs_keep(struct engine *engine, enum epoch_kind kind, uint64_t epoch)
{
	struct epochs *epochs = engine->epochs;

	if (engine->port.record_epoch == NULL || epochs->kept[kind] >= epoch)
		return true;
	if (!epochs->under_way && engine->now_ms >= epochs->retry_ms)
		ask(engine, kind, epoch);
	return epochs->kept[kind] >= epoch || MUTANT(EPOCH_UNAWAITED);
}

static bool
is_late(const struct engine *engine)
{
	return engine->epochs->under_way && engine->now_ms - engine->epochs->asked_ms >= LATE_MS;
}

/* What was refused is asked for again, wanted or not: it is true still, and an administrator is to
 * see when the disk is well.
 */
void
epochs_run(struct engine *engine)
{
	struct epochs *epochs = engine->epochs;

	if (engine->fenced || engine->phase >= PHASE_DRAIN)
		return;
	if (is_late(engine))
		complain(engine, -ETIMEDOUT);
	if (epochs->error != 0)
		epochs_keep(engine, epochs->kind, epochs->asked);
}

void
epochs_recorded(struct engine *engine, enum epoch_kind kind, uint64_t epoch, int error)
{
	struct epochs *epochs = engine->epochs;

	/* An answer to an engine before this one says nothing of what was asked since. */
	if (!epochs->under_way || epochs->kind != kind || epochs->asked != epoch)
		return;
	epochs->under_way = false;
	engine->activity++;
	if (error != 0) {
		epochs->retry_ms = engine->now_ms + RETRY_MS;
		complain(engine, error);
		return;
	}
	epochs->retry_ms = 0;
	epochs->kept[kind] = epoch;
	be_content(engine);
}

const char *
epochs_refusal(const struct engine *engine)
{
	const bool refused =
		engine->epochs->error != 0 && (!engine->epochs->under_way || is_late(engine));

	return refused ? engine->epochs->refusal : NULL;
}

uint64_t
epochs_deadline(const struct engine *engine)
{
	const struct epochs *epochs = engine->epochs;

	if (engine->fenced || engine->phase >= PHASE_DRAIN)
		return UINT64_MAX;
	if (epochs->under_way && !is_late(engine))
		return epochs->asked_ms + LATE_MS;
	if (!epochs->under_way && epochs->retry_ms > engine->now_ms)
		return epochs->retry_ms;
	return UINT64_MAX;
}
