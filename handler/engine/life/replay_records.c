/* replay_records.c - READS, LOADS and COPIES of a replay: which records the logs hold, and that each
 * to be replayed is whole on enough members.
 */
#include "replay_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define LOADS_MAX 8 /* at a time */

/* --- READS --- */

static struct log_copy *
new_copy(struct replay *replay)
{
	if (replay->copy_count == replay->copy_capacity) {
		const size_t capacity = replay->copy_capacity > 0 ? 2 * replay->copy_capacity : 256;
		struct log_copy *grown = realloc(replay->copies, capacity * sizeof(*grown));

		if (grown == NULL) {
			replay->error = -ENOMEM;
			return NULL;
		}
		replay->copies = grown;
		replay->copy_capacity = capacity;
	}
	return &replay->copies[replay->copy_count++];
}

/* Records that stand in the segment, wherever they begin. */
static void
parse_segment(struct scan *scan)
{
	struct replay *replay = scan->replay;
	struct engine *engine = replay->engine;
	struct log_piece pieces[LOG_PIECES_MAX];

	for (uint32_t at = 0; at < replay->segment_bytes; at += LOG_BLOCK_BYTES) {
		const uint8_t *block = scan->bytes + at;
		struct log_copy copy = { .role = scan->role };
		uint32_t length;
		struct log_copy *kept;

		switch (log_decode(block, engine->options.volume_uuid, engine->record.log_key,
				   &engine->geometry, &copy.header, pieces, &copy.digest)) {
		case LOG_NOTHING:
		case LOG_BROKEN:
			continue;
		case LOG_UNSUPPORTED:
			replay->error = -ENOTSUP;
			return;
		case LOG_RECORD:
			break;
		}
		length = copy.header.payload_blocks * LOG_BLOCK_BYTES;
		copy.offset_bytes = (uint64_t)scan->segment * replay->segment_bytes + at;
		copy.whole = length <= replay->segment_bytes - at - LOG_BLOCK_BYTES &&
			     log_payload_is_whole(block, block + LOG_BLOCK_BYTES);
		if ((kept = new_copy(replay)) == NULL)
			return;
		*kept = copy;
		replay->had_pending |=
			copy.header.piece_count > 0 && pieces[0].kind == LOG_PIECE_PENDING;
		if (copy.whole)
			at += length;
	}
}

static void scan_next(struct scan *scan);

static void
segment_read(struct member_io *mio, int result)
{
	struct scan *scan = mio->owner;
	struct replay *replay = scan->replay;
	const bool unreadable =
		result == -ENODATA || (result == -EIO && (!load_may_wait(replay->engine) ||
							  MUTANT(REPLAY_REFUSAL_IS_LOSS)));

	replay->pending--;
	replay->engine->activity++;
	if (!replay_is_active(replay))
		return;
	if (result == -ENOLINK) { /* it is out: the others' copies have to do */
		scan->ended = true;
		return;
	}
	if (result != 0 && !unreadable) {
		replay->error = result;
		return;
	}
	if (unreadable && scan->block == UINT32_MAX) {
		scan->block = 0;
	} else if (scan->block != UINT32_MAX) {
		if (unreadable) {
			memset(scan->bytes + scan->block * LOG_BLOCK_BYTES, 0xFF, LOG_BLOCK_BYTES);
			scan->hides = !MUTANT(REPLAY_UNREAD_EMPTY);
		}
		scan->block++;
	}
	if (scan->block == UINT32_MAX || scan->block * LOG_BLOCK_BYTES >= replay->segment_bytes) {
		parse_segment(scan);
		scan->segment++;
		scan->block = UINT32_MAX;
	}
	scan_next(scan);
}

static void
scan_next(struct scan *scan)
{
	struct replay *replay = scan->replay;
	struct member *member = replay->engine->by_role[scan->role];
	const bool blocks = scan->block != UINT32_MAX;
	const uint32_t at = blocks ? scan->block * LOG_BLOCK_BYTES : 0;

	if (replay->error != 0)
		return;
	if (member == NULL || scan->segment == replay->segments) {
		scan->ended = true;
		return;
	}
	replay_command(replay, member, BACKEND_READ,
		       replay_log_offset(replay) + (uint64_t)scan->segment * replay->segment_bytes +
			       at,
		       scan->bytes + at, blocks ? LOG_BLOCK_BYTES : replay->segment_bytes,
		       segment_read, scan);
}

void
replay_read_logs(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const uint64_t bytes = engine->record.areas[AREA_LOG - 1].length_bytes;

	replay_forget(replay);
	replay->error = 0;
	replay->hole = NULL;
	replay->in_part = replay->had_pending = false;
	replay->refused_count = 0;
	replay->decided = (struct log_replay){ 0 };
	memset(replay->place, 0, sizeof(replay->place));
	replay->segment_bytes = log_segment_bytes(bytes);
	replay->segments = (uint32_t)(bytes / replay->segment_bytes);
	replay_enter(replay, REPLAY_READS);
	for (int role = 0; role < engine->geometry.members; role++) {
		struct scan *scan = &replay->scans[role];

		*scan = (struct scan){
			.replay = replay,
			.role = (uint8_t)role,
			.block = UINT32_MAX,
			.ended = engine->by_role[role] == NULL,
		};
		if (scan->ended)
			continue;
		scan->bytes = malloc(replay->segment_bytes);
		if (scan->bytes == NULL)
			replay->error = -ENOMEM;
		else
			scan_next(scan);
	}
}

/* --- what is to be done --- */

/* By those who are there now. */
static int
copies_wanted(const struct replay *replay)
{
	const struct engine *engine = replay->engine;

	return engine->geometry.redundancy + 1 - __builtin_popcount(engine->missing);
}

/* Logs that have blocks which can't be read: as many as the newest record had copies? */
static bool
may_hide(const struct replay *replay, bool with_gone)
{
	const int left = copies_wanted(replay);
	const struct log_copy *newest =
		replay->copy_count > 0 ? &replay->copies[replay->copy_count - 1] : NULL;
	int hiding = 0, copies;

	for (size_t i = 0; i < replay->copy_count; i++)
		if (replay->copies[i].header.sequence > newest->header.sequence)
			newest = &replay->copies[i];
	copies = newest != NULL ? __builtin_popcount(newest->header.copies) : left;
	/* each of those who have gone since may have had one */
	if (with_gone && copies > left)
		copies = left;
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++)
		hiding += replay->scans[role].hides;
	return hiding >= copies;
}

static bool
is_any_forced(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].in_sync &&
		    engine->members[i].forced)
			return true;
	return false;
}

static bool
take_records(struct replay *replay)
{
	const uint32_t *predecessor = NULL;
	uint64_t bytes = 0;

	replay->loaded = calloc(replay_records(replay) + 1, sizeof(*replay->loaded));
	for (uint64_t i = 0; replay->loaded != NULL && i < replay_records(replay); i++) {
		const struct log_copy *copy = log_replay_copy(
			replay->copies, replay->copy_count, replay->decided.first + i, predecessor);
		struct loaded *loaded = &replay->loaded[i];

		predecessor = &copy->digest;
		loaded->length_bytes = (1u + copy->header.payload_blocks) * LOG_BLOCK_BYTES;
		bytes += loaded->length_bytes;
		loaded->bytes =
			bytes <= 2 * LOG_LIVE_BYTES_MAX ? malloc(loaded->length_bytes) : NULL;
		if (loaded->bytes == NULL)
			return false;
	}
	return replay->loaded != NULL;
}

void
replay_decide(struct replay *replay)
{
	struct engine *engine = replay->engine;

	replay->copy_count = log_replay_drop_stale(replay->copies, replay->copy_count);
	log_replay_decide(replay->copies, replay->copy_count, may_hide(replay, false),
			  &replay->decided);
	replay->known_tail =
		log_replay_known_tail(replay->copies, replay->copy_count, copies_wanted(replay));
	replay->hidden = may_hide(replay, true) && !MUTANT(GONE_COPY_COUNTED);
	if (replay->decided.missing_from != 0)
		replay->hole = "records of it are gone that were there";
	else if (is_any_forced(engine) && !MUTANT(REPLAYED_BY_FORCE))
		replay->hole = "a member was taken by force, so newer records may be gone";
	replay->in_part = replay->hole != NULL || replay->hidden;
	if (replay->hole != NULL) {
		replay->decided.end = replay->decided.first;
		engine_log(engine, LOG_ERR,
			   "the write log is not replayed, for %s: rows that were being written "
			   "count as after any crash",
			   replay->hole);
		replay_enter(replay, REPLAY_FLUSHES);
		return;
	}
	if (!take_records(replay)) {
		replay->error = -ENOMEM;
		return;
	}
	engine_log(engine, LOG_NOTICE, "the write log has %llu records to replay",
		   (unsigned long long)replay_records(replay));
	replay_enter(replay, REPLAY_LOADS);
}

/* --- LOADS --- */

static void
record_read(struct member_io *mio, int result)
{
	struct replay *replay = mio->owner;

	replay->pending--;
	replay->engine->activity++;
	if (result != 0)
		replay->error = result; /* begins again: another copy, or none, is whole then */
}

void
replay_load_records(struct replay *replay)
{
	const uint32_t *predecessor = NULL;

	for (uint64_t i = 0; i < replay_records(replay); i++) {
		const struct log_copy *copy = log_replay_copy(
			replay->copies, replay->copy_count, replay->decided.first + i, predecessor);

		predecessor = &copy->digest;
		if (i < replay->next || replay->pending >= LOADS_MAX || replay->error != 0)
			continue;
		replay->next++;
		if (replay->engine->by_role[copy->role] == NULL)
			replay->error = -ENOLINK;
		else
			replay_command(replay, replay->engine->by_role[copy->role], BACKEND_READ,
				       replay_log_offset(replay) + copy->offset_bytes,
				       replay->loaded[i].bytes, replay->loaded[i].length_bytes,
				       record_read, replay);
	}
}

bool
replay_is_sound(struct replay *replay)
{
	struct engine *engine = replay->engine;

	for (uint64_t i = 0; i < replay_records(replay); i++) {
		struct loaded *loaded = &replay->loaded[i];

		if (log_decode(loaded->bytes, engine->options.volume_uuid, engine->record.log_key,
			       &engine->geometry, &loaded->header, loaded->pieces,
			       &loaded->digest) != LOG_RECORD ||
		    !log_payload_is_whole(loaded->bytes, loaded->bytes + LOG_BLOCK_BYTES))
			return false;
	}
	return true;
}

/* --- COPIES --- */

static uint32_t
holders(const struct replay *replay, uint64_t sequence)
{
	uint32_t roles = 0;

	for (size_t i = 0; i < replay->copy_count; i++)
		if (replay->copies[i].header.sequence == sequence && replay->copies[i].whole &&
		    replay->engine->by_role[replay->copies[i].role] != NULL)
			roles |= ROLE(replay->copies[i].role);
	return roles;
}

/* A record that may be needed stands in this segment of the member. */
static bool
is_used(const struct replay *replay, int role, uint32_t segment)
{
	for (size_t i = 0; i < replay->copy_count; i++) {
		const struct log_copy *copy = &replay->copies[i];

		if (copy->role == role && copy->offset_bytes / replay->segment_bytes == segment &&
		    copy->header.sequence >= replay->known_tail && !MUTANT(REPLAY_COPIED_OVER))
			return true;
	}
	return false;
}

static bool
find_place(struct replay *replay, int role, uint32_t length_bytes)
{
	uint32_t *at = &replay->place[role];

	if (*at % replay->segment_bytes != 0 &&
	    replay->segment_bytes - *at % replay->segment_bytes >= length_bytes)
		return true;
	for (uint32_t segment = (*at + replay->segment_bytes - 1) / replay->segment_bytes;
	     segment < replay->segments; segment++)
		if (!is_used(replay, role, segment)) {
			*at = segment * replay->segment_bytes;
			return true;
		}
	return false;
}

static void
copy_made(struct member_io *mio, int result)
{
	struct replay *replay = mio->owner;

	replay->pending--;
	replay->engine->activity++;
	/* one that refuses has no copy: the promise is less, not the data */
	if (result != 0 && result != -ENOLINK && result != -EIO)
		replay->error = result;
}

/* Where it stands from now on. */
static void
note_copy(struct replay *replay, const struct loaded *loaded, int role)
{
	struct log_copy *copy = new_copy(replay);

	if (copy != NULL)
		*copy = (struct log_copy){ .header = loaded->header,
					   .digest = loaded->digest,
					   .offset_bytes = replay->place[role],
					   .role = (uint8_t)role,
					   .whole = true };
}

void
replay_make_copies(struct replay *replay)
{
	struct engine *engine = replay->engine;
	const int wanted = copies_wanted(replay);

	for (; replay->next < replay_records(replay) && replay->pending < REPLAY_WRITES_MAX;
	     replay->next++) {
		const struct loaded *loaded = &replay->loaded[replay->next];
		const uint32_t has = holders(replay, loaded->header.sequence);
		int lacking = MUTANT(REPLAY_COPIES_NONE) ? 0 : wanted - __builtin_popcount(has);

		for (int role = 0; role < engine->geometry.members && lacking > 0; role++) {
			if (engine->by_role[role] == NULL || (has & ROLE(role)) ||
			    !find_place(replay, role, loaded->length_bytes))
				continue;
			replay_command(replay, engine->by_role[role], BACKEND_WRITE,
				       replay_log_offset(replay) + replay->place[role],
				       loaded->bytes, loaded->length_bytes, copy_made, replay);
			note_copy(replay, loaded, role);
			replay->place[role] += loaded->length_bytes;
			lacking--;
		}
	}
}
