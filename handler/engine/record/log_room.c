/* log_room.c - room in the write log: which members take a copy, what may begin, what may be held.
 *
 * A member's segments are used in turn, and again when all of their records are below a tail that
 * members know of.  One segment of each is kept for records that say nothing but the tail.
 */
#include "internal.h"
#include "engine/link/link.h"

#include <string.h>

/* --- where a record goes --- */

static int
copies_wanted(const struct engine *engine)
{
	return MUTANT(LOGGED_ONCE)
		       ? 1
		       : engine->geometry.redundancy + 1 - __builtin_popcount(engine->missing);
}

static bool
is_free(const struct write_log *log, const struct log_place *place, uint32_t segment)
{
	const uint64_t tail = MUTANT(SEGMENT_REUSED_EARLY) ? log->tail : log->tail_durable;

	return place->last[segment % log->segments] < tail ||
	       place->last[segment % log->segments] == 0;
}

bool
log_find_room(const struct write_log *log, int role, uint32_t bytes, bool tail_only,
	      uint32_t *segment, uint32_t *at)
{
	const struct log_place *place = &log->places[role];

	*segment = place->segment;
	*at = place->used_bytes;
	/* One that tells the tail may have begun the segment that is kept for such. */
	if (log->segment_bytes - *at >= bytes &&
	    (tail_only || is_free(log, place, *segment + 1) || MUTANT(TAIL_UNRESERVED)))
		return true;
	*segment = (place->segment + 1) % log->segments;
	*at = 0;
	return is_free(log, place, *segment) && (tail_only || is_free(log, place, *segment + 1));
}

bool
log_may_take(struct engine *engine, int role, uint32_t bytes, bool tail_only)
{
	struct write_log *log = engine->write_log;
	const struct member *member = engine->by_role[role];
	uint32_t segment, at;

	return member != NULL && member->in_sync && !log->places[role].refuses &&
	       log_find_room(log, role, bytes, tail_only, &segment, &at);
}

/* Members for the copies, from whose turn it is on; those that answer before those that are silent.
 * 0: there are not enough.
 */
uint32_t
log_choose_copies(struct engine *engine, uint32_t bytes, bool tail_only)
{
	struct write_log *log = engine->write_log;
	const int members = engine->geometry.members;
	int wanted = copies_wanted(engine);
	uint32_t chosen = 0;

	for (int silent = 0; silent <= 1; silent++)
		for (int i = 0; i < members && wanted > 0; i++) {
			const int role = (log->turn + i) % members;

			if ((chosen & ROLE(role)) ||
			    !log_may_take(engine, role, bytes, tail_only) ||
			    member_usable(engine->by_role[role]) == silent)
				continue;
			chosen |= ROLE(role);
			wanted--;
		}
	return wanted > 0 ? 0 : chosen;
}

uint64_t
log_live_bytes_max(const struct engine *engine)
{
	const uint32_t option = engine->options.log_live_bytes_max;

	return option > 0 ? option : LOG_LIVE_BYTES_MAX;
}

/* --- zeros: few bytes in a record, and many in rows --- */

void
log_zeros_forget(struct write_log *log)
{
	memset(&log->zeros, 0, sizeof(log->zeros));
}

void
log_zeros_note(struct write_log *log, uint64_t sequence, const struct log_piece *pieces, int count)
{
	uint32_t *rows = &log->zeros.rows[sequence % LOG_LIVE_MAX];

	for (int i = 0; i < count; i++)
		if (pieces[i].kind == LOG_PIECE_ZERO_ROWS) {
			*rows += pieces[i].column_bytes;
			log->zeros.sum += pieces[i].column_bytes;
		}
}

void
log_zeros_pass(struct write_log *log, uint64_t sequence)
{
	uint32_t *rows = &log->zeros.rows[sequence % LOG_LIVE_MAX];

	log->zeros.sum -= *rows;
	*rows = 0;
}

/* So much of each member may a start have to write. */
static uint64_t
zeros_max(const struct engine *engine)
{
	return 2 * log_live_bytes_max(engine);
}

bool
log_zeros_are_many(const struct engine *engine)
{
	return engine->write_log->zeros.sum * engine->geometry.chunk_bytes >
		       zeros_max(engine) / 2 &&
	       !MUTANT(ZEROS_UNCOUNTED);
}

static bool
zeros_may_begin(const struct engine *engine, const struct logged *logged)
{
	return logged->count == 0 || logged->pieces[0].piece.kind != LOG_PIECE_ZERO_ROWS ||
	       engine->write_log->zeros.sum * engine->geometry.chunk_bytes < zeros_max(engine) ||
	       MUTANT(ZEROS_UNCOUNTED);
}

/* --- what may begin, and be held --- */

uint32_t
log_pieces_bytes(const struct logged *logged, int begin, int end)
{
	uint32_t bytes = 0;

	for (int i = begin; i < end; i++)
		bytes += logged->pieces[i].piece.length_bytes;
	return bytes;
}

/* Of records, one copy counted, as far as members have the same of them; a segment of each is kept
 * free.
 */
static uint64_t
capacity_bytes(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;
	const int there = engine->geometry.members - __builtin_popcount(engine->missing);

	return (uint64_t)there * (log->segments - 1) * log->segment_bytes /
	       (uint64_t)copies_wanted(engine);
}

uint32_t
write_log_part_bytes(const struct engine *engine)
{
	const uint32_t blocks = engine->write_log->segment_bytes / LOG_BLOCK_BYTES - 1;

	return (blocks < LOG_PAYLOAD_BLOCKS_MAX ? blocks : LOG_PAYLOAD_BLOCKS_MAX) *
	       LOG_BLOCK_BYTES;
}

/* So many bytes fit into this member's log, in records of whatever sizes, and after a crash once more:
 * a start does not go on with the segment that is being filled.  Of two segments that follow each other
 * more than one is used.
 */
static uint64_t
sure_bytes(const struct write_log *log, const struct log_place *place)
{
	const uint64_t rest = log->segment_bytes - place->used_bytes;
	uint64_t once, twice;
	uint32_t free = 0; /* one of them stays so */

	while (free + 1 < log->segments && is_free(log, place, place->segment + 1 + free))
		free++;
	once = (uint64_t)(free / 2) * log->segment_bytes;
	twice = (uint64_t)((free + 1) / 4) * log->segment_bytes;
	if (rest < once)
		once = rest; /* here, and after a crash in the others */
	return once > twice ? once : twice;
}

uint64_t
log_promised_bytes(const struct write_log *log)
{
	uint64_t bytes = log->held_bytes;

	for (const struct list *node = log->waiting.next; node != &log->waiting;
	     node = node->next) {
		const struct logged *logged = list_entry(node, struct logged, node);

		if (logged->writes_back)
			continue;
		if (logged->first == 0)
			break;
		bytes += log_pieces_bytes(logged, logged->next, logged->count) + LOG_BLOCK_BYTES;
	}
	return bytes;
}

/* As many members as a record goes to can take so many bytes. */
uint64_t
write_log_sure_bytes(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;
	uint64_t least = UINT64_MAX, bytes[IRAID_MEMBERS_MAX];
	int members = 0, copies = copies_wanted(engine);

	if (MUTANT(HELD_UNRESERVED))
		return UINT64_MAX;
	for (int role = 0; role < engine->geometry.members; role++) {
		const struct member *member = engine->by_role[role];

		if (member != NULL && member->in_sync && !log->places[role].refuses)
			bytes[members++] = sure_bytes(log, &log->places[role]);
	}
	for (; copies > 0; copies--) {
		int most = 0;

		if (members == 0)
			return 0;
		for (int i = 1; i < members; i++)
			if (bytes[i] > bytes[most])
				most = i;
		least = bytes[most];
		bytes[most] = bytes[--members];
	}
	return least;
}

bool
write_log_bears(struct engine *engine, uint64_t more_bytes)
{
	struct write_log *log = engine->write_log;
	const bool borne = log_promised_bytes(log) + more_bytes <= write_log_sure_bytes(engine);

	log->pressed |= !borne;
	return borne;
}

/* All of an operation has room, beside what is live, and what is held can be written to its rows as
 * well; or nothing else is live.  So operations that have begun never wait for each other's room.
 */
bool
log_may_begin(const struct engine *engine, const struct logged *logged, uint32_t packed_bytes,
	      uint64_t promised)
{
	const struct write_log *log = engine->write_log;
	const uint64_t own = log_pieces_bytes(logged, 0, logged->count);
	const uint64_t records =
		packed_bytes + own + (own / write_log_part_bytes(engine) + 2) * LOG_BLOCK_BYTES;
	const uint64_t all = log->sizes.sum + records;
	/* As much may stay unused at the end of segments. */
	const uint64_t taken = log->cautious ? 2 * all : all;

	if (logged->first == 0 && !zeros_may_begin(engine, logged))
		return false;
	if (logged->first != 0 || logged->writes_back || (log->sizes.sum == 0 && packed_bytes == 0))
		return true;
	return all <= log_live_bytes_max(engine) &&
	       taken + 2 * log->held_bytes <= capacity_bytes(engine) &&
	       (log->held_bytes == 0 || promised + records <= write_log_sure_bytes(engine));
}

/* All that is live is of the operation whose turn it is: nothing else could make room. */
static bool
is_first_alone(const struct write_log *log)
{
	const struct logged *first = list_entry(log->waiting.next, struct logged, node);

	return log->sizes.sum == 0 || (first->first != 0 && first->first <= log->tail);
}

bool
log_makes_room(const struct write_log *log)
{
	return list_entry(log->waiting.next, struct logged, node)->writes_back;
}

/* What log_may_begin() has promised. */
static bool
has_begun(const struct write_log *log)
{
	const struct logged *first = list_entry(log->waiting.next, struct logged, node);

	return first->next > 0 || first->first != 0;
}

bool
log_has_room_for(const struct engine *engine, uint32_t bytes)
{
	const struct write_log *log = engine->write_log;

	return (log->sizes.sum + bytes <= log_live_bytes_max(engine) || is_first_alone(log) ||
		log_makes_room(log) || has_begun(log)) &&
	       log->next - log->tail < LOG_LIVE_MAX - 1;
}

/* Three eighths of it are used at most, and a quarter is enough to write what is held to its rows. */
bool
write_log_may_hold(const struct engine *engine)
{
	const struct write_log *log = engine->write_log;
	const uint64_t capacity = capacity_bytes(engine);

	return 8 * log->sizes.sum <= 3 * (uint64_t)log_live_bytes_max(engine) &&
	       8 * log->sizes.sum <= 3 * capacity && 4 * log->held_bytes <= capacity &&
	       log->next - log->tail < LOG_LIVE_MAX / 2;
}

uint64_t
write_log_window_bytes(const struct engine *engine)
{
	const uint64_t capacity = capacity_bytes(engine), most = log_live_bytes_max(engine);

	return (capacity < most ? capacity : most) / 4;
}

/* --- what one operation may take --- */

uint64_t
log_segments_used(const struct engine *engine)
{
	const uint64_t log_bytes = engine->record.areas[AREA_LOG - 1].length_bytes;
	const uint64_t segments = log_bytes / log_segment_bytes(log_bytes);
	const uint32_t most = engine->options.log_segments_max;

	return most > 0 && most < segments ? most : segments;
}

/* What one operation may take: half of the room, where one segment of each is kept free, however
 * many members are out.
 */
static uint64_t
room_bytes(const struct engine *engine)
{
	const struct geometry *geometry = &engine->geometry;
	const uint64_t segment_bytes =
		log_segment_bytes(engine->record.areas[AREA_LOG - 1].length_bytes);
	const uint64_t segments = log_segments_used(engine);
	uint64_t least = UINT64_MAX;

	for (unsigned int missing = 0; missing <= geometry->redundancy; missing++) {
		const uint64_t room = (geometry->members - missing) * (segments - 1) *
				      segment_bytes / 2 / (geometry->redundancy + 1 - missing);

		if (room < least)
			least = room;
	}
	return least;
}

/* A row, or a COMPARE AND WRITE: its data, and in each of its rows P and Q. */
bool
write_log_fits(const struct engine *engine)
{
	const struct geometry *geometry = &engine->geometry;
	const uint64_t row = (uint64_t)geometry->width * geometry->chunk_bytes;
	const uint64_t compare =
		COMPARE_WRITE_BYTES_MAX +
		geometry->redundancy * (COMPARE_WRITE_BYTES_MAX / geometry->data_chunks +
					2ull * geometry->chunk_bytes);

	return room_bytes(engine) >= (row > compare ? row : compare);
}

uint64_t
write_log_rows_max(const struct engine *engine)
{
	const struct geometry *geometry = &engine->geometry;
	const uint64_t rows =
		room_bytes(engine) / ((uint64_t)geometry->width * geometry->chunk_bytes);

	return rows < 1 || rows > OP_ROWS_MAX ? OP_ROWS_MAX : rows;
}
