/* log_opening.c - an opening of the write log: its key in the superblocks, its memory, its beginning,
 * going on and end, and what others ask of it.  When it is opened and closed: life/log_mode.c.
 */
#include "internal.h"
#include "engine/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t
new_key(struct engine *engine)
{
	uint64_t key = 0;

	while (key == 0)
		key = engine->port.random != NULL
			      ? engine->port.random(engine->port.owner)
			      : (engine->record.epoch << 32 ^ engine->record.event << 8) | 1u;
	return key;
}

bool
write_log_wanted(const struct engine *engine, uint32_t missing)
{
	return engine_has_parity(engine) &&
	       (engine->options.log == LOG_MODE_ALWAYS ||
		(engine->options.log == LOG_MODE_DEGRADED && missing != 0));
}

void
write_log_say(struct engine *engine, bool open, uint32_t missing, bool proven)
{
	struct superblock *record = &engine->record;

	record->log_key = open ? new_key(engine) : 0;
	record->log_roles = open ? missing : 0;
	record->log_proven = open && proven;
	record->features_incompat &= ~LAYOUT_INCOMPAT_LOG;
	if (open)
		record->features_incompat |= LAYOUT_INCOMPAT_LOG;
}

void
write_log_say_doubtful(struct engine *engine)
{
	if (MUTANT(HELD_UNDOUBTED))
		return;
	engine->record.log_roles = 0;
	engine->record.log_proven = false;
}

int
write_log_prepare(struct engine *engine)
{
	struct write_log *log = engine->write_log;
	const uint64_t bytes = engine->record.areas[AREA_LOG - 1].length_bytes;
	bool good = true;

	log->segment_bytes = log_segment_bytes(bytes);
	log->segments = (uint32_t)log_segments_used(engine);
	for (int i = 0; i < LOG_UNDER_WAY; i++) {
		struct record_io *record = &log->records[i];

		record->engine = engine;
		if (record->bytes == NULL)
			record->bytes = aligned_alloc(LOG_BLOCK_BYTES, log->segment_bytes);
		good &= record->bytes != NULL;
	}
	for (int role = 0; role < engine->geometry.members; role++) {
		struct log_place *place = &log->places[role];

		if (place->last == NULL)
			place->last = calloc(log->segments, sizeof(*place->last));
		good &= place->last != NULL;
	}
	return good ? 0 : -ENOMEM;
}

void
write_log_resume(struct engine *engine, uint64_t tail, uint64_t end, uint64_t bytes,
		 uint32_t digest)
{
	struct write_log *log = engine->write_log;

	write_log_open(engine);
	log->tail = log->tail_durable = tail;
	log->next = log->run_first = end;
	log->durable = end - 1;
	log->digest = digest;
	memset(log->sizes.bytes, 0, sizeof(log->sizes.bytes));
	log->sizes.bytes[(end - 1) % LOG_LIVE_MAX] = (uint32_t)bytes;
	log->sizes.sum = bytes;
	log_zeros_forget(log);
}

void
write_log_stands(struct engine *engine, int role, uint32_t segment, uint64_t sequence)
{
	struct write_log *log = engine->write_log;
	struct log_place *place = &log->places[role];

	/* Segments that are not used any more take nothing. */
	if (segment >= log->segments)
		return;
	if (sequence > place->last[segment])
		place->last[segment] = sequence;
	if (place->last[segment] >= place->last[place->segment]) {
		place->segment = segment;
		place->used_bytes = log->segment_bytes;
	}
}

void
write_log_open(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	/* Those that begin again begin here: nothing of them is in this opening. */
	for (struct list *node; (node = list_take(&log->live)) != NULL;)
		list_entry(node, struct logged, live)->first = 0;
	log->cautious = log->full;
	log->epoch = engine->record.epoch;
	log->next = log->run_first = log->tail = log->tail_durable = 1;
	log->durable = 0;
	log->sizes.sum = 0;
	log_zeros_forget(log);
	log->blocked = log->pressed = log->failed = log->spoiled = log->full = log->gap = false;
	log->had_pending = false;
	log->cache_losses = engine->cache_losses;
	for (int role = 0; role < engine->geometry.members; role++) {
		struct log_place *place = &log->places[role];

		memset(place->last, 0, log->segments * sizeof(*place->last));
		place->refuses = false;
		if (place->used_bytes > 0)
			place->segment = (place->segment + 1) % log->segments;
		place->used_bytes = 0;
	}
	log->on = true;
}

void
write_log_close(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	log->on = log->failed = log->spoiled = log->full = log->gap = false;
	engine->activity++;
}

bool
write_log_idle(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	for (int i = 0; i < LOG_UNDER_WAY; i++)
		if (log->records[i].busy)
			return false;
	return list_empty(&log->waiting) && !log->flushing;
}

bool
write_log_on(const struct engine *engine)
{
	return engine->write_log->on;
}

bool
write_log_is_broken(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log->on && (log->failed || log->spoiled);
}

bool
write_log_holds(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	if (MUTANT(WRITTEN_WHILE_LOG_OPENS))
		return false;
	return log->step >= LOG_DOUBTS || write_log_is_broken(engine);
}

bool
write_log_is_emptied(const struct engine *engine)
{
	return engine->write_log->step == LOG_EMPTIES;
}

bool
write_log_is_empty(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return (!log->on && log->step == LOG_STEADY) || log->step == LOG_EMPTY ||
	       MUTANT(PLACE_TAKEN_BESIDE_LOG);
}

bool
write_log_stayed_proven(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;

	return log->step_proven && engine->intent.suspect_count == 0 &&
	       log->step_doubts == engine->intent.doubts;
}

void
write_log_renew(struct engine *engine)
{
	if (!engine->write_log->renews)
		engine->activity++;
	engine->write_log->renews = true;
}

void
write_log_moves(struct engine *engine, uint32_t missing)
{
	struct write_log *log = engine->write_log;

	if (log->step != LOG_EMPTY && !log->moving)
		return; /* there is none */
	log->moving = true;
	log->step = LOG_RECORDS;
	write_log_say(engine, write_log_wanted(engine, missing), missing,
		      write_log_stayed_proven(engine));
}

void
write_log_init(struct engine *engine)
{
	engine->write_log->engine = engine;
	list_init(&engine->write_log->waiting);
	list_init(&engine->write_log->live);
}

void
write_log_free(struct engine *engine)
{
	struct write_log *log = engine->write_log;

	for (int i = 0; i < LOG_UNDER_WAY; i++)
		free(log->records[i].bytes);
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++)
		free(log->places[role].last);
}
