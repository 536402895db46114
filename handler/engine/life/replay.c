/* replay.c - a start writes to rows what a crash left in the write log.
 *
 *	READS    all logs, and what is to be replayed is decided (state/log_replay.c)
 *	  v
 *	LOADS    those records, from a whole copy each
 *	  v
 *	COPIES   a record with too few whole copies gets more: this may be interrupted, too
 *	  v
 *	WRITES   each chunk once, with what all records make of it
 *	  v
 *	FLUSHES  all members; again from WRITES if a cache was lost meanwhile
 *	  v
 *	DONE     the superblocks name another opening, or none
 *
 * What was acknowledged and is in no row yet is not written here, for its redundancy is not made: the
 * opening stays, and write_back.c goes on with it.
 *
 * The superblocks of this start are durable before: who is out lacks what is written here, for its
 * regions were marked before the records were.  Whatever goes wrong begins again with READS.
 */
#include "replay_internal.h"
#include "log_mode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u
#define RECORD_MAY_BE_GONE "a newer record of it may be gone, or can't be read"

bool
replay_is_active(const struct replay *replay)
{
	return replay->engine->phase == PHASE_REPLAY;
}

uint64_t
replay_records(const struct replay *replay)
{
	return replay->decided.end - replay->decided.first;
}

void
replay_forget(struct replay *replay)
{
	for (uint64_t i = 0; replay->loaded != NULL && i < replay_records(replay); i++)
		free(replay->loaded[i].bytes);
	free(replay->loaded);
	replay->loaded = NULL;
	replay_forget_images(replay);
	free(replay->parts);
	replay->parts = NULL;
	replay->part_count = replay->part_capacity = 0;
	free(replay->copies);
	replay->copies = NULL;
	replay->copy_count = replay->copy_capacity = 0;
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++) {
		free(replay->scans[role].bytes);
		replay->scans[role].bytes = NULL;
	}
}

void
replay_enter(struct replay *replay, enum replay_step step)
{
	replay->step = step;
	replay->next = 0;
	replay->engine->activity++;
}

/* --- commands --- */

uint64_t
replay_log_offset(const struct replay *replay)
{
	return replay->engine->record.areas[AREA_LOG - 1].offset_bytes;
}

void
replay_command(struct replay *replay, struct member *member, enum backend_op op,
	       uint64_t offset_bytes, uint8_t *bytes, uint32_t length_bytes,
	       void (*done)(struct member_io *mio, int result), void *owner)
{
	const bool in_log = offset_bytes < replay->engine->data_offset_bytes;
	struct iovec iov = { bytes, length_bytes };
	struct member_io *mio = member_io_try(member, op, offset_bytes, in_log ? IO_LOG : IO_MAP);

	if (mio == NULL) {
		replay->error = -ENOMEM;
		return;
	}
	mio->io.fua = in_log && op == BACKEND_WRITE;
	member_io_append(mio, &iov, 1, length_bytes);
	replay->pending++;
	member_io_submit(mio, done, owner);
}

/* --- FLUSHES, DONE --- */

/* Every row fits, but those that a member refused, unless one was taken by force that lacks
 * something.
 */
static void
rows_fit(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const struct superblock *record = &engine->record;

	if (replay->hidden)
		replay->hole = RECORD_MAY_BE_GONE;
	else if (record->log_proven || record->log_roles == engine->missing)
		intent_all_recorded(&engine->intent, engine_bare(engine) || record->log_proven);
	else
		replay->hole = "another member is missing since, and not all rows were proven";
	if (replay->hole != NULL)
		engine_log(engine, LOG_ERR,
			   "the write log is replayed, but %s: rows that were being written count "
			   "as after any crash",
			   replay->hole);
	for (int i = 0; i < replay->refused_count; i++)
		if (i < REFUSED_MAX && !MUTANT(REPLAY_REFUSED_TRUSTED))
			intent_suspect_rows(&engine->intent, replay->refused[i],
					    replay->refused[i]);
}

/* The log had acknowledged small writes before they were in their rows, and what is gone of it may have
 * been such.  Everybody is to hear that.
 */
static void
tell_what_is_gone(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const bool may_be_such = replay->had_pending || engine->options.log == LOG_MODE_ALWAYS;

	if (!replay->in_part || !may_be_such || MUTANT(HELD_LOST_UNTOLD))
		return;
	engine_event(engine, EVENT_DATA_LOST, LOG_ERR, NULL,
		     "%s: small writes that the write log had acknowledged may be lost, flushed "
		     "ones too; the next flush fails",
		     replay->hole != NULL ? replay->hole : RECORD_MAY_BE_GONE);
	engine->flush->loss_untold = engine->record.flushes_fail = true;
}

static void
finish(struct replay *replay)
{
	struct engine *engine = replay->engine;

	replay->resumed = replay_has_images(replay);
	if (replay->resumed && write_log_prepare(engine) != 0) {
		replay->error = -ENOMEM;
		return;
	}
	tell_what_is_gone(replay);
	if (replay->hole == NULL && replay->refused_count <= REFUSED_MAX)
		rows_fit(replay);
	replay->doubtful = replay->hole != NULL || replay->refused_count > 0;
	if (!replay->resumed)
		write_log_say(engine, log_mode_wanted(engine) && write_log_prepare(engine) == 0,
			      engine->missing, engine->intent.suspect_count == 0);
	else if (replay->doubtful)
		write_log_say_doubtful(engine);
	replay->record = metadata_commit(engine);
	replay_enter(replay, REPLAY_DONE);
	if (replay->hole == NULL)
		engine_log(engine, LOG_NOTICE, "the write log is replayed");
	if (!replay->resumed)
		replay_forget(replay);
}

static void
replay_flushed(struct flush_waiter *waiter, int result)
{
	struct replay *replay = list_entry(waiter, struct replay, flush);

	replay->pending--;
	replay->engine->activity++;
	if (!replay_is_active(replay))
		return;
	if (result != 0)
		replay->error = result;
	else if (replay->cache_losses != replay->engine->cache_losses && replay->hole == NULL &&
		 !MUTANT(REPLAY_CACHE_FORGOTTEN))
		replay_begin_writes(replay);
	else
		finish(replay);
}

static void
flush_all(struct replay *replay)
{
	replay->flush = (struct flush_waiter){
		.done = replay_flushed,
		.since_ms = replay->engine->now_ms,
	};
	list_init(&replay->flush.node);
	replay->pending++;
	replay->next = 1; /* it is under way */
	flush_join(replay->engine, &replay->flush);
}

/* --- the run --- */

static void
begin_again(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const int error = replay->error;

	replay->error = 0;
	if (error == -ENOTSUP && !MUTANT(REPLAY_REFUSED_AGAIN)) {
		engine->assembly->refused = true;
		snprintf(engine->reason, sizeof(engine->reason),
			 "its write log was written by a later release: start it with that one");
		engine_log(engine, LOG_ERR, "%s", engine->reason);
		replay_enter(replay, REPLAY_REFUSED);
		return;
	}
	snprintf(engine->reason, sizeof(engine->reason),
		 "the write log can't be replayed yet, it is tried again: %s",
		 error == -EIO ? "a member refuses to read or write it; --force goes on without"
			       : strerror(-error));
	engine_log(engine, LOG_WARNING, "%s", engine->reason);
	replay->not_before_ms = engine->now_ms + RETRY_MS;
	replay_forget(replay);
	replay->decided = (struct log_replay){ 0 };
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++)
		replay->scans[role].ended = false;
	replay_enter(replay, REPLAY_READS);
}

static bool
all_read(const struct replay *replay)
{
	for (int role = 0; role < replay->engine->geometry.members; role++)
		if (!replay->scans[role].ended)
			return false;
	return true;
}

/* All of a step's commands that may be under way at a time are; or none is, and it has ended. */
static void
go_on(struct replay *replay)
{
	switch (replay->step) {
	case REPLAY_READS:
		if (replay->not_before_ms != 0) {
			replay->not_before_ms = 0;
			replay_read_logs(replay);
		} else if (replay->pending == 0 && all_read(replay)) {
			replay_decide(replay);
		}
		return;
	case REPLAY_LOADS:
		replay_load_records(replay);
		if (replay->pending == 0 && replay->error == 0) {
			if (replay_is_sound(replay) || MUTANT(REPLAY_UNSOUND))
				replay_enter(replay, REPLAY_COPIES);
			else
				replay->error = -EIO;
		}
		return;
	case REPLAY_COPIES:
		replay_make_copies(replay);
		if (replay->pending == 0 && replay->error == 0)
			replay_begin_writes(replay);
		return;
	case REPLAY_WRITES:
		replay_write_chunks(replay);
		if (replay->pending == 0 && replay->error == 0)
			replay_enter(replay, REPLAY_FLUSHES);
		return;
	case REPLAY_FLUSHES:
		if (replay->next == 0)
			flush_all(replay);
		return;
	case REPLAY_DONE:
		if (replay_has_images(replay) && metadata_known(replay->engine, replay->record) &&
		    !replay_hand_over(replay))
			replay->not_before_ms = replay->engine->now_ms + RETRY_MS;
		return;
	case REPLAY_REFUSED:
		return;
	}
}

void
replay_run(struct engine *engine)
{
	struct replay *replay = engine->life->replay;

	if (engine->phase != PHASE_REPLAY || replay == NULL || engine->fenced)
		return;
	if (replay->error == 0 && engine->now_ms >= replay->not_before_ms)
		go_on(replay);
	if (replay->error != 0 && replay->pending == 0)
		begin_again(replay);
}

void
replay_begin(struct engine *engine)
{
	struct replay *replay = engine->life->replay;

	if (replay == NULL && (replay = calloc(1, sizeof(*replay))) == NULL) {
		engine->assembly->not_before_ms = engine->now_ms + RETRY_MS;
		return;
	}
	engine->life->replay = replay;
	replay->engine = engine;
	life_enter(engine, PHASE_REPLAY);
	engine->reason[0] = '\0';
	replay->record = 0;
	replay_read_logs(replay);
}

bool
replay_done(const struct engine *engine)
{
	const struct replay *replay = engine->life->replay;

	return replay != NULL && replay->step == REPLAY_DONE &&
	       metadata_known(engine, replay->record) && !replay_has_images(replay);
}

uint64_t
replay_deadline(const struct engine *engine)
{
	const struct replay *replay = engine->life->replay;

	return engine->phase == PHASE_REPLAY && replay != NULL &&
			       replay->not_before_ms > engine->now_ms
		       ? replay->not_before_ms
		       : UINT64_MAX;
}

void
replay_free(struct engine *engine)
{
	if (engine->life->replay == NULL)
		return;
	replay_forget(engine->life->replay);
	free(engine->life->replay);
	engine->life->replay = NULL;
}

void
replay_progress(const struct engine *engine, struct replay_progress *out)
{
	static const char *const names[] = {
		[REPLAY_READS] = "is read",	    [REPLAY_LOADS] = "is read",
		[REPLAY_COPIES] = "is copied",	    [REPLAY_WRITES] = "is replayed",
		[REPLAY_FLUSHES] = "is flushed",    [REPLAY_DONE] = "is replayed",
		[REPLAY_REFUSED] = "can't be read",
	};
	const struct replay *replay = engine->life->replay;

	*out = (struct replay_progress){ 0 };
	if (engine->phase != PHASE_REPLAY || replay == NULL)
		return;
	out->step = names[replay->step];
	if (replay->step == REPLAY_WRITES) {
		out->done = replay->next;
		out->total = replay->part_count;
	}
}
