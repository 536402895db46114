/* lost_extent.c - see lost_extent.h. */
#include "lost_extent.h"

#include <string.h>

#include "bytes.h"
#include "mutant.h"

/* in a granule */
enum {
	AT_CRC = 0,
	AT_EPOCH = 4,
	AT_ENTRIES = 16,
	ENTRY_BYTES = 24,
	ENTRY_AT_ROWS = 8,
	ENTRY_AT_BEGIN = 12,
	ENTRY_AT_END = 16,
	ENTRY_AT_ROLE = 20,
	ENTRY_AT_FLAGS = 21,
};

#define ROW_MAX (1ull << 48) /* more than any volume has, and far from where sums overflow */

_Static_assert(AT_ENTRIES + ENTRY_BYTES * LAYOUT_LOST_ENTRIES <= LAYOUT_GRANULE_BYTES,
	       "entries fit");

/* --- rectangles --- */

uint64_t
lost_end_row(const struct lost_extent *extent)
{
	return extent->row + extent->rows;
}

bool
lost_touches(const struct lost_extent *a, const struct lost_extent *b)
{
	return a->role == b->role && a->row < lost_end_row(b) && b->row < lost_end_row(a) &&
	       a->column_begin < b->column_end && b->column_begin < a->column_end;
}

bool
lost_inside(const struct lost_extent *inner, const struct lost_extent *outer)
{
	return inner->role == outer->role && inner->row >= outer->row &&
	       lost_end_row(inner) <= lost_end_row(outer) &&
	       inner->column_begin >= outer->column_begin && inner->column_end <= outer->column_end;
}

bool
lost_implied(const struct lost_extent *inner, const struct lost_extent *outer)
{
	return lost_inside(inner, outer) && (outer->flags & ~inner->flags) == 0;
}

int
lost_subtract(const struct lost_extent *extent, const struct lost_extent *cut,
	      struct lost_extent out[4])
{
	uint64_t top = extent->row > cut->row ? extent->row : cut->row;
	uint64_t bottom =
		lost_end_row(extent) < lost_end_row(cut) ? lost_end_row(extent) : lost_end_row(cut);
	int count = 0;

	if (extent->row < top) {
		out[count] = *extent;
		out[count++].rows = (uint32_t)(top - extent->row);
	}
	if (bottom < lost_end_row(extent)) {
		out[count] = *extent;
		out[count].row = bottom;
		out[count++].rows = (uint32_t)(lost_end_row(extent) - bottom);
	}
	if (extent->column_begin < cut->column_begin) {
		out[count] = *extent;
		out[count].row = top;
		out[count].rows = (uint32_t)(bottom - top);
		out[count++].column_end = cut->column_begin;
	}
	if (cut->column_end < extent->column_end) {
		out[count] = *extent;
		out[count].row = top;
		out[count].rows = (uint32_t)(bottom - top);
		out[count++].column_begin = cut->column_end;
	}
	return count;
}

bool
lost_join(const struct lost_extent *a, const struct lost_extent *b, struct lost_extent *out)
{
	bool rows_same = a->row == b->row && a->rows == b->rows;
	bool columns_same = a->column_begin == b->column_begin && a->column_end == b->column_end;
	uint64_t row = a->row < b->row ? a->row : b->row;
	uint64_t end = lost_end_row(a) > lost_end_row(b) ? lost_end_row(a) : lost_end_row(b);

	if (a->role != b->role || a->flags != b->flags || end - row > UINT32_MAX)
		return false;
	if (!(columns_same && a->row <= lost_end_row(b) && b->row <= lost_end_row(a)) &&
	    !(rows_same && a->column_begin <= b->column_end && b->column_begin <= a->column_end))
		return false;
	*out = *a;
	out->row = row;
	out->rows = (uint32_t)(end - row);
	if (b->column_begin < out->column_begin)
		out->column_begin = b->column_begin;
	if (b->column_end > out->column_end)
		out->column_end = b->column_end;
	return true;
}

/* --- bytes --- */

/* Volume and place are part of the sum, as in the region map. */
static uint32_t
lost_granule_crc(const uint8_t *bytes, uint32_t granule, const uint8_t volume_uuid[16])
{
	uint8_t place[4];
	uint32_t crc;

	put_le(place, granule, 4);
	crc = crc32c(0, volume_uuid, 16);
	crc = crc32c(crc, place, sizeof(place));
	return crc32c(crc, bytes + AT_EPOCH, LAYOUT_GRANULE_BYTES - AT_EPOCH);
}

void
lost_granule_encode(const struct lost_extent entries[LAYOUT_LOST_ENTRIES], uint32_t granule,
		    uint64_t epoch, const uint8_t volume_uuid[16], uint8_t *out)
{
	memset(out, 0, LAYOUT_GRANULE_BYTES);
	put_le(out + AT_EPOCH, epoch, 8);
	for (uint32_t i = 0; i < LAYOUT_LOST_ENTRIES; i++) {
		const struct lost_extent *entry = &entries[i];
		uint8_t *at = out + AT_ENTRIES + i * ENTRY_BYTES;

		if (entry->rows == 0)
			continue;
		put_le(at, entry->row, 8);
		put_le(at + ENTRY_AT_ROWS, entry->rows, 4);
		put_le(at + ENTRY_AT_BEGIN, entry->column_begin, 4);
		put_le(at + ENTRY_AT_END, entry->column_end, 4);
		at[ENTRY_AT_ROLE] = entry->role;
		at[ENTRY_AT_FLAGS] = entry->flags;
	}
	put_le(out + AT_CRC, lost_granule_crc(out, granule, volume_uuid), 4);
}

/* A growth that a crash cut short leaves entries of rows that the volume does not have: true, and
 * nothing of those remains.
 */
static bool
clip(struct lost_extent *extent, uint64_t rows)
{
	const uint64_t left = extent->row < rows ? rows - extent->row : 0;

	if (extent->rows <= left)
		return false;
	extent->rows = (uint32_t)left;
	if (left == 0)
		*extent = (struct lost_extent){ 0 };
	return true;
}

static bool
decode_entry(const uint8_t *at, const struct geometry *geometry, struct lost_extent *out)
{
	out->row = get_le(at, 8);
	out->rows = (uint32_t)get_le(at + ENTRY_AT_ROWS, 4);
	out->column_begin = (uint32_t)get_le(at + ENTRY_AT_BEGIN, 4);
	out->column_end = (uint32_t)get_le(at + ENTRY_AT_END, 4);
	out->role = at[ENTRY_AT_ROLE];
	out->flags = at[ENTRY_AT_FLAGS];
	return out->rows == 0 || (out->row <= ROW_MAX && out->column_begin < out->column_end &&
				  out->column_end <= geometry->chunk_bytes &&
				  out->column_begin % LOST_COLUMN_BYTES == 0 &&
				  out->column_end % LOST_COLUMN_BYTES == 0 &&
				  out->role < geometry->members && (out->flags & ~LOST_HELD) == 0);
}

bool
lost_granule_decode(const uint8_t *in, uint32_t granule, const uint8_t volume_uuid[16],
		    const struct geometry *geometry, struct lost_extent out[LAYOUT_LOST_ENTRIES],
		    bool *clipped)
{
	static const uint8_t zeros[LAYOUT_GRANULE_BYTES];
	bool valid = true;

	*clipped = false;
	memset(out, 0, LAYOUT_LOST_ENTRIES * sizeof(*out));
	if (memcmp(in, zeros, sizeof(zeros)) == 0)
		return true;
	if (get_le(in + AT_CRC, 4) != lost_granule_crc(in, granule, volume_uuid))
		return false;
	for (uint32_t i = 0; valid && i < LAYOUT_LOST_ENTRIES; i++)
		valid = decode_entry(in + AT_ENTRIES + i * ENTRY_BYTES, geometry, &out[i]);
	for (uint32_t i = 0; valid && i < LAYOUT_LOST_ENTRIES; i++) {
		*clipped |= clip(&out[i], geometry->rows);
		if (*clipped && MUTANT(BEYOND_END_REJECTED))
			return false;
	}
	return valid;
}
