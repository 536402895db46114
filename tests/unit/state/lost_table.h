/* lost_table.h - what the tests of the table of lost extents share: a volume, and tables that are
 * checked and filled.
 */
#ifndef IRAID_TEST_LOST_TABLE_H
#define IRAID_TEST_LOST_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "state/lost.h"
#include "../xorshift.h"

#define ROLES 3
#define GRANULES LAYOUT_LOST_GRANULES
#define FAR_ROW 1000 /* what only fills the table stands behind this row */

static const uint8_t volume_uuid[16] = "a volume";
static struct geometry geometry;

static inline int
prepare(void **state)
{
	return geometry_init(&geometry, 5, ROLES, 4096, 512, (uint64_t)FAR_ROW * 100 * 4096);
}

/* Fill the table with what can't be joined, up to `left` free slots, spread or together. */
static inline void
crowd(struct lost *lost, uint32_t left)
{
	struct lost_extent extent = { FAR_ROW, 1, 0, 512, 0, 0 };

	lost->capacity = LOST_ENTRIES;
	while (lost->free_count > 0) {
		assert_int_equal(lost_add(lost, &extent), 0);
		extent.row += 2;
	}
	uint32_t granule;
	while (lost_take_dirty(lost, &granule))
		;
	lost_written(lost);
	for (uint32_t spread = 1 + below(9); left > 0; left--) {
		uint32_t row = FAR_ROW + 2 * (below(2) ? below(LOST_ENTRIES) : left * spread);

		assert_int_equal(lost_remove(lost, row, 1, 0, 0, 512), 0);
	}
	while (lost_take_dirty(lost, &granule))
		;
	lost_written(lost);
	assert_true(lost_settled(lost));
}

static inline void
check_index(const struct lost *lost)
{
	uint32_t valid = 0, removing = 0, unused = 0, dirty = 0;
	uint64_t reach = 0;

	for (uint32_t i = 0; i < LOST_ENTRIES; i++) {
		valid += lost->states[i] == LOST_VALID;
		removing += lost->states[i] == LOST_REMOVING;
		unused += lost->states[i] == LOST_FREE;
	}
	for (uint32_t i = 0; i < GRANULES; i++)
		dirty += lost->dirty[i];
	assert_int_equal(lost->count, valid);
	assert_int_equal(lost->removing, removing);
	assert_int_equal(lost->free_count, unused);
	assert_int_equal(lost->dirty_count, dirty);
	for (uint32_t i = 0; i < lost->count; i++) {
		const struct lost_extent *entry = &lost->entries[lost->order[i].slot];

		assert_int_equal(lost->states[lost->order[i].slot], LOST_VALID);
		assert_true(i == 0 || lost->entries[lost->order[i - 1].slot].row <= entry->row);
		reach = entry->row + entry->rows > reach ? entry->row + entry->rows : reach;
		assert_int_equal(lost->order[i].reach, reach);
	}
}

#endif
