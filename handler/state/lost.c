/* lost.c - see lost.h.
 *
 * Look-ups go through an index of the valid entries, sorted by first row, with the furthest row any
 * entry up to there reaches: one walks back from the last that begins early enough until nothing
 * before reaches the row.  Insertions move it (80 KiB at most); they are rare beside look-ups, and
 * look-ups of an empty table are one comparison.
 *
 * Not optimised: rectangles are not joined again after both sides of a gap were filled by different
 * roads.  The table has room for 5120, and every one of them is an accident.
 */
#include "lost.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define GRANULE_ENTRIES LAYOUT_LOST_ENTRIES
#define PIECES_MAX 32 /* of an extent that is covered in part; more: it is added whole */

_Static_assert(LAYOUT_LOST_GRANULES <= 256, "heirs are bytes");
_Static_assert(LAYOUT_LOST_GRANULES == 32 * LAYOUT_LOST_BLOCK_GRANULES, "each block has a bit");

static uint32_t
granule_of(uint32_t slot)
{
	return slot / GRANULE_ENTRIES;
}

/* --- index --- */

/* Entries of the index that begin before `row`. */
static uint32_t
index_before(const struct lost *lost, uint64_t row)
{
	uint32_t low = 0, high = lost->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (lost->entries[lost->order[middle].slot].row < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
index_measure(struct lost *lost, uint32_t from)
{
	uint64_t reach = from > 0 ? lost->order[from - 1].reach : 0;

	for (uint32_t i = from; i < lost->count; i++) {
		uint64_t end = lost_end_row(&lost->entries[lost->order[i].slot]);

		reach = end > reach ? end : reach;
		lost->order[i].reach = reach;
	}
}

static void
index_insert(struct lost *lost, uint32_t slot)
{
	uint32_t at = index_before(lost, lost->entries[slot].row);

	memmove(&lost->order[at + 1], &lost->order[at],
		(lost->count - at) * sizeof(lost->order[0]));
	lost->order[at].slot = (uint16_t)slot;
	lost->count++;
	index_measure(lost, at);
}

static void
index_remove(struct lost *lost, uint32_t slot)
{
	uint32_t at = index_before(lost, lost->entries[slot].row);

	while (lost->order[at].slot != slot)
		at++;
	lost->count--;
	memmove(&lost->order[at], &lost->order[at + 1],
		(lost->count - at) * sizeof(lost->order[0]));
	index_measure(lost, at);
}

/* Valid entries that share a byte with the extent, into out[LOST_ENTRIES]. */
static uint32_t
find_touching(const struct lost *lost, const struct lost_extent *extent, uint16_t *out)
{
	uint32_t found = 0;

	for (uint32_t i = index_before(lost, lost_end_row(extent)); i > 0; i--) {
		if (lost->order[i - 1].reach <= extent->row)
			break;
		if (lost_touches(&lost->entries[lost->order[i - 1].slot], extent))
			out[found++] = lost->order[i - 1].slot;
	}
	return found;
}

/* --- slots --- */

void
lost_init(struct lost *lost)
{
	memset(lost, 0, sizeof(*lost));
	lost->free_count = LOST_ENTRIES;
	lost->capacity = LOST_CAPACITY;
}

void
lost_mark_dirty(struct lost *lost, uint32_t granule)
{
	assert(granule < LAYOUT_LOST_GRANULES);
	if (!lost->dirty[granule])
		lost->dirty_count++;
	lost->dirty[granule] = true;
}

void
lost_unhold(struct lost *lost, uint8_t role)
{
	for (uint32_t i = 0; i < LOST_ENTRIES; i++) {
		if (lost->states[i] == LOST_FREE || lost->entries[i].role != role ||
		    !(lost->entries[i].flags & LOST_HELD))
			continue;
		lost->entries[i].flags &= (uint8_t)~LOST_HELD;
		lost_mark_dirty(lost, i / LAYOUT_LOST_ENTRIES);
	}
}

static void
slot_fill(struct lost *lost, uint32_t slot, const struct lost_extent *extent)
{
	assert(lost->states[slot] == LOST_FREE);
	lost->states[slot] = LOST_VALID;
	lost->changes[slot] = LOST_NEW;
	lost->entries[slot] = *extent;
	lost->free_count--;
	index_insert(lost, slot);
	lost_mark_dirty(lost, granule_of(slot));
}

static void
slot_change(struct lost *lost, uint32_t slot, const struct lost_extent *extent,
	    enum lost_change change)
{
	index_remove(lost, slot);
	lost->entries[slot] = *extent;
	lost->changes[slot] = (uint8_t)change;
	index_insert(lost, slot);
	lost_mark_dirty(lost, granule_of(slot));
}

static void
slot_free(struct lost *lost, uint32_t slot)
{
	index_remove(lost, slot);
	lost->states[slot] = LOST_FREED;
	lost_mark_dirty(lost, granule_of(slot));
}

/* Others say what it said; they are in these granules. */
static void
slot_retire(struct lost *lost, uint32_t slot, const uint16_t *heirs, int count)
{
	index_remove(lost, slot);
	lost->states[slot] = LOST_REMOVING;
	lost->removing++;
	lost->heir_counts[slot] = (uint8_t)count;
	for (int i = 0; i < count; i++)
		lost->heirs[slot][i] = (uint8_t)granule_of(heirs[i]);
}

/* Another member has more in this slot than the one that seemed to be covered. */
static void
slot_revive(struct lost *lost, uint32_t slot, const struct lost_extent *extent)
{
	lost->removing -= lost->states[slot] == LOST_REMOVING;
	lost->states[slot] = LOST_FREE;
	lost->free_count++;
	slot_fill(lost, slot, extent);
}

/* Up to `wanted` free slots below `capacity`, those of `granule` first; none of another granule if
 * `only`.
 */
static int
find_free(const uint8_t *states, uint32_t capacity, uint32_t granule, bool only, int wanted,
	  uint16_t *out)
{
	const uint32_t first = granule * GRANULE_ENTRIES;
	int found = 0;

	for (uint32_t slot = first;
	     slot < first + GRANULE_ENTRIES && slot < capacity && found < wanted; slot++)
		if (states[slot] == LOST_FREE)
			out[found++] = (uint16_t)slot;
	if (only)
		return found;
	for (uint32_t slot = 0; slot < capacity && found < wanted; slot++) {
		const uint8_t *next = memchr(states + slot, LOST_FREE, capacity - slot);

		if (next == NULL)
			break;
		slot = (uint32_t)(next - states);
		if (granule_of(slot) != granule)
			out[found++] = (uint16_t)slot;
	}
	return found;
}

/* An entry that another one implies.  Members have it still, so that one is durable first. */
static void
absorb(struct lost *lost, uint32_t slot, uint32_t by)
{
	uint16_t heir = (uint16_t)by;

	if (granule_of(slot) == granule_of(by))
		slot_free(lost, slot);
	else
		slot_retire(lost, slot, &heir, 1);
}

static void
absorb_implied(struct lost *lost, uint32_t by)
{
	uint16_t touching[LOST_ENTRIES];
	uint32_t count = find_touching(lost, &lost->entries[by], touching);

	for (uint32_t i = 0; i < count; i++)
		if (touching[i] != by &&
		    lost_implied(&lost->entries[touching[i]], &lost->entries[by]))
			absorb(lost, touching[i], by);
}

/* --- adding --- */

/* Make an entry that it continues say both. */
static bool
enlarge_entry(struct lost *lost, const struct lost_extent *extent)
{
	struct lost_extent joined;
	/* rows that touch count: one more on both sides */
	uint64_t first = extent->row > 0 ? extent->row - 1 : 0;

	for (uint32_t i = index_before(lost, lost_end_row(extent) + 1); i > 0; i--) {
		uint32_t slot = lost->order[i - 1].slot;

		if (lost->order[i - 1].reach <= first)
			break;
		if (lost->changes[slot] == LOST_SHRUNK ||
		    !lost_join(&lost->entries[slot], extent, &joined))
			continue;
		slot_change(lost, slot, &joined, LOST_GROWN);
		absorb_implied(lost, slot);
		return true;
	}
	return false;
}

static int
add_piece(struct lost *lost, const struct lost_extent *piece)
{
	uint16_t slot;

	if (enlarge_entry(lost, piece))
		return 0;
	if (find_free(lost->states, lost->capacity, 0, false, 1, &slot) == 0)
		return -ENOSPC;
	slot_fill(lost, slot, piece);
	absorb_implied(lost, slot);
	return 0;
}

/* What of the extent the table does not imply; -1 if that is more than PIECES_MAX. */
static int
find_missing(const struct lost *lost, const struct lost_extent *extent, struct lost_extent *pieces)
{
	uint16_t touching[LOST_ENTRIES];
	uint32_t found = find_touching(lost, extent, touching);
	int count = 1;

	pieces[0] = *extent;
	for (uint32_t i = 0; i < found; i++) {
		const struct lost_extent *cut = &lost->entries[touching[i]];

		if (cut->flags & ~extent->flags)
			continue;
		for (int k = count - 1; k >= 0; k--) {
			struct lost_extent rest[4];
			int rests;

			if (!lost_touches(&pieces[k], cut))
				continue;
			rests = lost_subtract(&pieces[k], cut, rest);
			if (count - 1 + rests > PIECES_MAX)
				return -1;
			pieces[k] = pieces[--count];
			memcpy(&pieces[count], rest, (size_t)rests * sizeof(rest[0]));
			count += rests;
		}
	}
	return count;
}

int
lost_add(struct lost *lost, const struct lost_extent *extent)
{
	struct lost_extent pieces[PIECES_MAX];
	int count;

	assert(extent->rows > 0 && extent->column_begin < extent->column_end &&
	       extent->column_begin % LOST_COLUMN_BYTES == 0 &&
	       extent->column_end % LOST_COLUMN_BYTES == 0);
	count = find_missing(lost, extent, pieces);
	if (count < 0)
		return add_piece(lost, extent);
	for (int i = 0; i < count; i++) {
		int error = add_piece(lost, &pieces[i]);

		if (error != 0)
			return error;
	}
	return 0;
}

/* --- granules --- */

/* A valid entry that implies the extent, or -1. */
static int
find_implying(const struct lost *lost, const struct lost_extent *extent, uint32_t except)
{
	uint16_t touching[LOST_ENTRIES];
	uint32_t count = find_touching(lost, extent, touching);

	for (uint32_t i = 0; i < count; i++)
		if (touching[i] != except && lost_implied(extent, &lost->entries[touching[i]]))
			return touching[i];
	return -1;
}

/* Another member has something else in its slot: tables of different times, after a forced start.
 * It goes elsewhere, and the granule that takes it from the member's table is written after that.
 */
static bool
load_displaced(struct lost *lost, uint32_t granule, const struct lost_extent *extent)
{
	int by = find_implying(lost, extent, LOST_ENTRIES);
	uint16_t slot;

	if (by < 0) {
		if (find_free(lost->states, LOST_ENTRIES, granule, false, 1, &slot) == 0)
			return false;
		slot_fill(lost, slot, extent);
		lost->changes[slot] = LOST_GROWN;
		absorb_implied(lost, slot);
		by = slot;
	}
	if (granule_of((uint32_t)by) != granule)
		lost->deferred[granule] = true;
	return true;
}

static bool
load_entry(struct lost *lost, uint32_t slot, const struct lost_extent *extent)
{
	const struct lost_extent *known = &lost->entries[slot];
	int by;

	lost_mark_dirty(lost, granule_of(slot));
	if ((lost->states[slot] == LOST_VALID || lost->states[slot] == LOST_REMOVING) &&
	    lost_implied(extent, known))
		return true;
	if (lost->states[slot] == LOST_VALID && lost_implied(known, extent))
		slot_change(lost, slot, extent, LOST_GROWN);
	else if (lost->states[slot] == LOST_FREE)
		slot_fill(lost, slot, extent);
	else if (lost->states[slot] != LOST_VALID && lost_implied(known, extent))
		slot_revive(lost, slot, extent);
	else
		return load_displaced(lost, granule_of(slot), extent);
	lost->changes[slot] = LOST_GROWN;
	by = find_implying(lost, extent, slot);
	if (by >= 0)
		absorb(lost, slot, (uint32_t)by);
	else
		absorb_implied(lost, slot);
	return true;
}

void
lost_encode(const struct lost *lost, uint32_t granule, uint64_t epoch,
	    const uint8_t volume_uuid[16], uint8_t *out)
{
	struct lost_extent entries[GRANULE_ENTRIES] = { 0 };

	assert(granule < LAYOUT_LOST_GRANULES);
	for (uint32_t i = 0; i < GRANULE_ENTRIES; i++) {
		uint32_t slot = granule * GRANULE_ENTRIES + i;

		if (lost->states[slot] == LOST_VALID || lost->states[slot] == LOST_REMOVING)
			entries[i] = lost->entries[slot];
	}
	lost_granule_encode(entries, granule, epoch, volume_uuid, out);
}

#define ANY_ROLE -1

static bool
load_granule(struct lost *lost, uint32_t granule, const uint8_t volume_uuid[16], const uint8_t *in,
	     const struct geometry *geometry, int role)
{
	struct lost_extent entries[GRANULE_ENTRIES];
	bool room = true, clipped;

	assert(granule < LAYOUT_LOST_GRANULES);
	if (!lost_granule_decode(in, granule, volume_uuid, geometry, entries, &clipped)) {
		lost_mark_dirty(lost, granule); /* to be repaired */
		return false;
	}
	if (clipped) /* or the volume would find it there when it has grown after all */
		lost_mark_dirty(lost, granule);
	for (uint32_t i = 0; i < GRANULE_ENTRIES; i++)
		if (entries[i].rows > 0 && (role == ANY_ROLE || entries[i].role == role))
			room &= load_entry(lost, granule * GRANULE_ENTRIES + i, &entries[i]);
	return room;
}

bool
lost_load(struct lost *lost, uint32_t granule, const uint8_t volume_uuid[16], const uint8_t *in,
	  const struct geometry *geometry)
{
	return load_granule(lost, granule, volume_uuid, in, geometry, ANY_ROLE);
}

bool
lost_load_role(struct lost *lost, uint32_t granule, const uint8_t volume_uuid[16],
	       const uint8_t *in, const struct geometry *geometry, uint8_t role)
{
	return load_granule(lost, granule, volume_uuid, in, geometry, role);
}

/* --- looking up --- */

bool
lost_overlaps(const struct lost *lost, uint64_t row, uint8_t role, uint32_t column_begin,
	      uint32_t column_end)
{
	if (lost->count == 0 || lost->order[lost->count - 1].reach <= row)
		return false;
	for (uint32_t i = index_before(lost, row + 1); i > 0 && lost->order[i - 1].reach > row;
	     i--) {
		const struct lost_extent *entry = &lost->entries[lost->order[i - 1].slot];

		if (lost_end_row(entry) > row && entry->role == role &&
		    entry->column_begin < column_end && column_begin < entry->column_end)
			return true;
	}
	return false;
}

/* Is column `at` lost, how, and up to which column is nothing different?  From there on, if it is
 * not, *next is where the next entry begins (UINT32_MAX: none).
 */
static bool
look_at_column(const struct lost *lost, uint64_t row, uint8_t role, uint32_t at, uint32_t *next,
	       uint8_t *flags)
{
	bool is_lost = false;

	*next = UINT32_MAX;
	*flags = LOST_HELD;
	for (uint32_t i = index_before(lost, row + 1); i > 0 && lost->order[i - 1].reach > row;
	     i--) {
		const struct lost_extent *entry = &lost->entries[lost->order[i - 1].slot];

		if (lost_end_row(entry) <= row || entry->role != role || entry->column_end <= at)
			continue;
		if (entry->column_begin > at) {
			*next = entry->column_begin < *next ? entry->column_begin : *next;
			continue;
		}
		is_lost = true;
		*flags &= entry->flags;
		*next = entry->column_end < *next ? entry->column_end : *next;
	}
	return is_lost;
}

bool
lost_next(const struct lost *lost, uint64_t row, uint8_t role, uint32_t from, uint32_t *begin,
	  uint32_t *end, uint8_t *flags)
{
	uint8_t here;
	uint32_t next;

	if (lost->count == 0)
		return false;
	while (!look_at_column(lost, row, role, from, &next, flags)) {
		if (next == UINT32_MAX)
			return false;
		from = next;
	}
	*begin = from;
	do
		*end = next;
	while (look_at_column(lost, row, role, *end, &next, &here) && here == *flags);
	return true;
}

uint64_t
lost_next_row(const struct lost *lost, uint64_t row)
{
	uint32_t at = index_before(lost, row + 1);

	if (at > 0 && lost->order[at - 1].reach > row)
		return row;
	return at < lost->count ? lost->entries[lost->order[at].slot].row : UINT64_MAX;
}

/* --- removing --- */

/* How the remainders of an entry find their places. */
enum carving {
	CARVE_FREE,    /* there are none */
	CARVE_SHRINK,  /* the first instead of the entry, the others beside it in its granule */
	CARVE_REPLACE, /* all of them beside it */
	CARVE_RETIRE,  /* some in other granules: the entry stays until they are durable */
	CARVE_NO_ROOM,
};

static enum carving
find_places(const struct lost *lost, const uint8_t *states, uint32_t slot, int remainders,
	    uint16_t *places)
{
	uint32_t granule = granule_of(slot);

	if (remainders == 0)
		return CARVE_FREE;
	if (lost->changes[slot] != LOST_GROWN &&
	    find_free(states, LOST_ENTRIES, granule, true, remainders - 1, places) ==
		    remainders - 1)
		return CARVE_SHRINK;
	if (find_free(states, LOST_ENTRIES, granule, true, remainders, places) == remainders)
		return CARVE_REPLACE;
	return find_free(states, LOST_ENTRIES, granule, false, remainders, places) == remainders
		       ? CARVE_RETIRE
		       : CARVE_NO_ROOM;
}

static void
carve(struct lost *lost, uint32_t slot, const struct lost_extent *cut)
{
	struct lost_extent rest[4];
	uint16_t places[4];
	int count = lost_subtract(&lost->entries[slot], cut, rest);
	int first = 0;

	switch (find_places(lost, lost->states, slot, count, places)) {
	case CARVE_FREE:
	case CARVE_REPLACE:
		slot_free(lost, slot);
		break;
	case CARVE_SHRINK:
		slot_change(lost, slot, &rest[0], LOST_SHRUNK);
		first = 1;
		break;
	case CARVE_RETIRE:
		slot_retire(lost, slot, places, count);
		break;
	case CARVE_NO_ROOM:
		assert(!"room was looked for before");
	}
	for (int i = first; i < count; i++)
		slot_fill(lost, places[i - first], &rest[i]);
}

/* Would carve() find room for all of them? */
static bool
have_room(const struct lost *lost, const uint16_t *slots, uint32_t count,
	  const struct lost_extent *cut)
{
	uint8_t states[LOST_ENTRIES];

	if (lost->free_count >= 4 * count)
		return true;
	memcpy(states, lost->states, sizeof(states));
	for (uint32_t i = 0; i < count; i++) {
		struct lost_extent rest[4];
		uint16_t places[4];
		int remainders = lost_subtract(&lost->entries[slots[i]], cut, rest);
		enum carving carving = find_places(lost, states, slots[i], remainders, places);

		if (carving == CARVE_NO_ROOM)
			return false;
		if (carving == CARVE_SHRINK)
			remainders--;
		for (int k = 0; k < remainders; k++)
			states[places[k]] = LOST_VALID;
	}
	return true;
}

int
lost_remove(struct lost *lost, uint64_t row, uint32_t rows, uint8_t role, uint32_t column_begin,
	    uint32_t column_end)
{
	struct lost_extent cut = { row, rows, column_begin, column_end, role, 0 };
	uint16_t touching[LOST_ENTRIES];
	uint32_t count;

	if (lost->count == 0 || rows == 0)
		return 0;
	count = find_touching(lost, &cut, touching);
	if (!have_room(lost, touching, count, &cut))
		return -ENOSPC;
	for (uint32_t i = 0; i < count; i++)
		carve(lost, touching[i], &cut);
	return 0;
}

/* --- what the members have --- */

bool
lost_take_dirty(struct lost *lost, uint32_t *granule)
{
	for (uint32_t i = 0; lost->dirty_count > 0 && i < LAYOUT_LOST_GRANULES; i++) {
		if (!lost->dirty[i] || lost->deferred[i])
			continue;
		lost->dirty[i] = false;
		lost->dirty_count--;
		lost->taken_count++;
		*granule = i;
		return true;
	}
	return false;
}

static void
granule_settled(struct lost *lost, uint32_t granule)
{
	for (uint32_t i = 0; i < GRANULE_ENTRIES; i++) {
		uint32_t slot = granule * GRANULE_ENTRIES + i;

		lost->changes[slot] = LOST_STABLE;
		if (lost->states[slot] == LOST_FREED) {
			lost->states[slot] = LOST_FREE;
			lost->free_count++;
		}
	}
}

static bool
heirs_durable(const struct lost *lost, uint32_t slot, const bool *is_durable)
{
	for (int i = 0; i < lost->heir_counts[slot]; i++)
		if (!is_durable[lost->heirs[slot][i]])
			return false;
	return true;
}

void
lost_written(struct lost *lost)
{
	uint32_t waiting = 0;
	bool is_durable[LAYOUT_LOST_GRANULES];

	lost->taken_count = 0;
	for (uint32_t i = 0; i < LAYOUT_LOST_GRANULES; i++) {
		is_durable[i] = !lost->dirty[i];
		waiting += lost->dirty[i] && !lost->deferred[i];
		if (is_durable[i])
			granule_settled(lost, i);
	}
	for (uint32_t slot = 0; lost->removing > 0 && slot < LOST_ENTRIES; slot++) {
		if (lost->states[slot] != LOST_REMOVING || !heirs_durable(lost, slot, is_durable))
			continue;
		lost->states[slot] = LOST_FREED;
		lost->removing--;
		lost_mark_dirty(lost, granule_of(slot));
	}
	if (waiting == 0)
		memset(lost->deferred, 0, sizeof(lost->deferred));
}

bool
lost_settled(const struct lost *lost)
{
	return lost->dirty_count == 0 && lost->taken_count == 0 && lost->removing == 0;
}

uint32_t
lost_empty_blocks(const struct lost *lost)
{
	const uint32_t block_slots = LAYOUT_LOST_BLOCK_GRANULES * GRANULE_ENTRIES;
	uint32_t empty = LAYOUT_LOST_EMPTY;

	for (uint32_t slot = 0; lost->free_count < LOST_ENTRIES && slot < LOST_ENTRIES; slot++)
		if (lost->states[slot] != LOST_FREE)
			empty &= ~(UINT32_C(1) << slot / block_slots);
	return empty;
}
