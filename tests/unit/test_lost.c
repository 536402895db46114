/* The table of lost extents against a model that has one flag per 512 bytes, with members that take
 * any subset of the granules they are sent before everything stops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state/lost.h"

#define ROWS 10
#define ROLES 3
#define CELLS 8		/* of 512 bytes in a chunk */
#define MEMBERS 3
#define FAR_ROW 1000	/* what only fills the table stands behind this row */
#define GRANULES LAYOUT_LOST_GRANULES

static const uint8_t volume_uuid[16] = "a volume";
static struct geometry geometry;

static uint64_t random_state;

static uint32_t
below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % bound);
}

/* --- the model --- */

#define NOT_LOST 0xff	/* otherwise the flags of what is lost */

struct cells {
	uint8_t at[ROWS][ROLES][CELLS];
};

struct model {
	struct cells now;
	struct cells settled;		/* as it was when every member had it */
	bool removed[ROWS][ROLES][CELLS];	/* at any time since */
	bool added[ROWS][ROLES][CELLS];
	uint8_t members[MEMBERS][GRANULES][LAYOUT_GRANULE_BYTES];
};

static void
cells_clear(struct cells *cells)
{
	memset(cells, NOT_LOST, sizeof(*cells));
}

#define FOR_CELLS(row, role, cell) \
	for (int row = 0; row < ROWS; row++) \
		for (int role = 0; role < ROLES; role++) \
			for (int cell = 0; cell < CELLS; cell++)

static struct cells
cells_of(const struct lost *lost)
{
	struct cells cells;

	cells_clear(&cells);
	for (uint32_t i = 0; i < LOST_ENTRIES; i++) {
		const struct lost_extent *entry = &lost->entries[i];

		if (lost->states[i] != LOST_VALID || entry->row >= ROWS)
			continue;
		for (uint64_t row = entry->row; row < entry->row + entry->rows; row++)
			for (uint32_t at = entry->column_begin; at < entry->column_end; at += 512) {
				uint8_t *cell = &cells.at[row][entry->role][at / 512];

				*cell = *cell == NOT_LOST ? entry->flags : *cell & entry->flags;
			}
	}
	return cells;
}

static struct lost_extent
random_extent(void)
{
	struct lost_extent extent;
	uint32_t begin = below(CELLS), end = begin + 1 + below(CELLS - begin);
	uint32_t row = below(ROWS);

	if (below(3)) {		/* of shapes that can be joined */
		begin = below(2) * CELLS / 2;
		end = begin > 0 || below(2) ? CELLS : CELLS / 2;
	}

	extent.row = row;
	extent.rows = 1 + below(below(3) ? 2 : ROWS - row);
	if (extent.row + extent.rows > ROWS)
		extent.rows = ROWS - row;
	extent.column_begin = 512 * begin;
	extent.column_end = 512 * end;
	extent.role = (uint8_t)below(ROLES);
	extent.flags = below(4) ? 0 : LOST_HELD;
	return extent;
}

/* Fill the table with what can't be joined, up to `left` free slots, spread or together. */
static void
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

/* --- checks --- */

static void
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

/* Every question the engine can ask is answered as by the model. */
static void
check_answers(const struct lost *lost, const struct cells *cells)
{
	uint64_t first = UINT64_MAX;

	for (int row = ROWS - 1; row >= 0; row--) {
		for (int role = 0; role < ROLES; role++) {
			const uint8_t *cell = cells->at[row][role];
			uint32_t from = 0, begin, end;
			uint8_t flags;

			for (int b = 0; b < CELLS; b++)
				for (int e = b + 1; e <= CELLS; e++) {
					bool any = false;

					for (int i = b; i < e; i++)
						any |= cell[i] != NOT_LOST;
					assert_int_equal(any, lost_overlaps(lost, (uint64_t)row, (uint8_t)role,
									    512 * (uint32_t)b, 512 * (uint32_t)e));
				}
			for (int i = 0; i < CELLS; i++)
				if (cell[i] != NOT_LOST)
					first = (uint64_t)row;
			for (uint32_t i = 0; i < CELLS;) {
				uint32_t k = i;

				while (k < CELLS && cell[k] == cell[i])
					k++;
				if (cell[i] != NOT_LOST) {
					assert_true(lost_next(lost, (uint64_t)row, (uint8_t)role, from,
							      &begin, &end, &flags));
					assert_int_equal(begin, 512 * i);
					assert_int_equal(end, 512 * k);
					assert_int_equal(flags, cell[i]);
					from = end;
				}
				i = k;
			}
			assert_false(lost_next(lost, (uint64_t)row, (uint8_t)role, from, &begin, &end, &flags));
		}
		uint64_t next = lost_next_row(lost, (uint64_t)row);
		assert_int_equal(next >= ROWS ? UINT64_MAX : next, first);
	}
}

static void
load_members(struct lost *lost, struct model *model, unsigned int mask)
{
	lost_init(lost);
	int start = (int)below(MEMBERS);

	for (int i = 0; i < MEMBERS; i++) {
		int member = (start + i) % MEMBERS;

		for (uint32_t granule = 0; mask >> member & 1 && granule < GRANULES; granule++)
			assert_true(lost_load(lost, granule, volume_uuid, model->members[member][granule],
					      &geometry));
	}
}

/* What stands in a slot on two members is nested, so that no table is too full to take both in. */
static void
check_nested(const uint8_t *a, const uint8_t *b)
{
	struct lost_extent extents[2];
	const uint8_t *bytes[2] = { a, b };

	for (int i = 0; i < 2; i++) {
		memcpy(&extents[i].row, bytes[i], 8);
		memcpy(&extents[i].rows, bytes[i] + 8, 4);
		memcpy(&extents[i].column_begin, bytes[i] + 12, 4);
		memcpy(&extents[i].column_end, bytes[i] + 16, 4);
		if (extents[i].rows == 0)
			return;
	}
	for (int i = 0; i < 2; i++) {
		const struct lost_extent *in = &extents[i], *out = &extents[!i];

		if (in->row >= out->row && in->row + in->rows <= out->row + out->rows &&
		    in->column_begin >= out->column_begin && in->column_end <= out->column_end &&
		    a[20] == b[20] && a[21] == b[21])
			return;
	}
	fail_msg("two members contradict each other");
}

static void
check_members_nested(struct model *model)
{
	for (int one = 0; one < MEMBERS; one++)
		for (int two = 0; two < one; two++)
			for (uint32_t granule = 0; granule < GRANULES; granule++)
				for (uint32_t i = 0; i < LAYOUT_LOST_ENTRIES; i++)
					check_nested(model->members[one][granule] + 16 + 24 * i,
						     model->members[two][granule] + 16 + 24 * i);
}

/* Any members' tables: at least what has been lost all along, and nothing that never was. */
static void
check_after_a_crash(struct model *model)
{
	static struct lost lost;

	check_members_nested(model);
	for (unsigned int mask = 1; mask < 1 << MEMBERS; mask++) {
		if (mask != 1 && mask != 2 && mask != 4 && mask != 7 && below(4))
			continue;
		load_members(&lost, model, mask);
		check_index(&lost);
		struct cells cells = cells_of(&lost);

		check_answers(&lost, &cells);
		FOR_CELLS(row, role, cell) {
			bool was = model->settled.at[row][role][cell] != NOT_LOST;
			bool is = cells.at[row][role][cell] != NOT_LOST;

			if (was && !model->removed[row][role][cell])
				assert_true(is);
			if (is)
				assert_true(was || model->added[row][role][cell]);
			/* what nobody holds is never said to be held */
			if (is && was && model->settled.at[row][role][cell] == 0 &&
			    !model->removed[row][role][cell])
				assert_int_equal(cells.at[row][role][cell], 0);
		}
	}
}

/* --- steps --- */

static void
step_add(struct lost *lost, struct model *model)
{
	struct lost_extent extent = random_extent();

	if (lost_add(lost, &extent) == 0) {
		for (uint64_t row = extent.row; row < extent.row + extent.rows; row++)
			for (uint32_t i = extent.column_begin / 512; i < extent.column_end / 512; i++) {
				uint8_t *cell = &model->now.at[row][extent.role][i];

				*cell = *cell == NOT_LOST ? extent.flags : *cell & extent.flags;
				model->added[row][extent.role][i] = true;
			}
		return;
	}
	/* some of it may be in: nothing that was not asked for */
	struct cells cells = cells_of(lost);
	FOR_CELLS(row, role, cell) {
		if (cells.at[row][role][cell] == model->now.at[row][role][cell])
			continue;
		assert_true(row >= (int)extent.row && row < (int)(extent.row + extent.rows));
		assert_true(role == extent.role && cells.at[row][role][cell] != NOT_LOST);
		assert_true(512 * cell >= (int)extent.column_begin && 512 * cell < (int)extent.column_end);
		model->added[row][role][cell] = true;
	}
	model->now = cells;
}

static void
step_remove(struct lost *lost, struct model *model)
{
	static struct lost before;
	struct lost_extent extent = random_extent();

	before = *lost;
	if (lost_remove(lost, extent.row, extent.rows, extent.role, extent.column_begin,
			extent.column_end) != 0) {
		assert_memory_equal(&before, lost, sizeof(before));
		return;
	}
	for (uint64_t row = extent.row; row < extent.row + extent.rows; row++)
		for (uint32_t i = extent.column_begin / 512; i < extent.column_end / 512; i++) {
			model->now.at[row][extent.role][i] = NOT_LOST;
			model->removed[row][extent.role][i] = true;
		}
}

static void
settled_now(struct model *model)
{
	model->settled = model->now;
	memset(model->removed, 0, sizeof(model->removed));
	memset(model->added, 0, sizeof(model->added));
}

struct batch {
	uint32_t count;
	uint32_t granules[GRANULES];
	uint8_t bytes[GRANULES][LAYOUT_GRANULE_BYTES];
};

static void
take_batch(struct lost *lost, struct batch *batch)
{
	batch->count = 0;
	while (lost_take_dirty(lost, &batch->granules[batch->count])) {
		lost_encode(lost, batch->granules[batch->count], 3, volume_uuid,
			    batch->bytes[batch->count]);
		batch->count++;
	}
}

/* Everything stops: of what is under way any part has reached any member.  The survivor of it is loaded. */
static void
step_crash(struct lost *lost, struct model *model, const struct batch *batch)
{
	uint32_t chance = below(5);

	for (uint32_t i = 0; i < batch->count; i++)
		for (int member = 0; member < MEMBERS; member++)
			if (below(4) < chance)
				memcpy(model->members[member][batch->granules[i]], batch->bytes[i],
				       LAYOUT_GRANULE_BYTES);
	check_after_a_crash(model);
	load_members(lost, model, (1 << MEMBERS) - 1);
	model->now = cells_of(lost);
	FOR_CELLS(row, role, cell)
		model->added[row][role][cell] |= model->now.at[row][role][cell] != NOT_LOST;
}

static void
complete_batch(struct lost *lost, struct model *model, const struct batch *batch)
{
	bool failed = false;

	for (uint32_t i = 0; i < batch->count; i++) {
		bool fails = below(20) == 0;

		for (int member = 0; member < MEMBERS; member++)
			if (!fails || below(2))
				memcpy(model->members[member][batch->granules[i]], batch->bytes[i],
				       LAYOUT_GRANULE_BYTES);
		if (fails)
			lost_mark_dirty(lost, batch->granules[i]);
		failed |= fails;
	}
	if (failed && below(2))
		return;		/* some repeat what failed before they go on */
	lost_written(lost);
	if (lost_settled(lost))
		settled_now(model);
}

static void
settle(struct lost *lost, struct model *model, struct batch *batch)
{
	for (int rounds = 0; !lost_settled(lost); rounds++) {
		take_batch(lost, batch);
		for (uint32_t i = 0; i < batch->count; i++)
			for (int member = 0; member < MEMBERS; member++)
				memcpy(model->members[member][batch->granules[i]], batch->bytes[i],
				       LAYOUT_GRANULE_BYTES);
		lost_written(lost);
		assert_true(rounds < 4);
	}
	settled_now(model);
}

static void
live(uint32_t seed, uint32_t steps)
{
	static struct lost lost;
	static struct model model;
	static struct batch batch;
	bool crashed = false;

	random_state = 0x9e3779b97f4a7c15ull * (seed + 1);
	memset(&model, 0, sizeof(model));
	cells_clear(&model.now);
	lost_init(&lost);
	if (below(4))
		crowd(&lost, 2 + below(60));
	for (uint32_t granule = 0; granule < GRANULES; granule++)
		lost_mark_dirty(&lost, granule);
	settle(&lost, &model, &batch);
	for (uint32_t step = 0; step < steps; step++) {
		for (uint32_t i = below(below(4) ? 4 : 16); i > 0; i--)
			(below(2) ? step_add : step_remove)(&lost, &model);
		take_batch(&lost, &batch);
		/* while it is under way the table goes on changing */
		for (uint32_t i = below(below(4) ? 3 : 12); i > 0; i--)
			(below(2) ? step_add : step_remove)(&lost, &model);
		check_index(&lost);
		check_answers(&lost, &model.now);
		/* often again before the tables agree */
		crashed = below(crashed ? 2 : 4) == 0;
		if (crashed)
			step_crash(&lost, &model, &batch);
		else
			complete_batch(&lost, &model, &batch);
		if (below(8) == 0)
			settle(&lost, &model, &batch);
	}
	settle(&lost, &model, &batch);
	check_after_a_crash(&model);
	load_members(&lost, &model, 1);
	check_answers(&lost, &model.now);
}

static uint32_t seed_at_work = UINT32_MAX;

static void
torn_updates_forget_nothing_and_invent_nothing(void **state)
{
	const char *seeds = getenv("IRAID_SEEDS");
	uint32_t count = seeds ? (uint32_t)atoi(seeds) : 40;

	for (seed_at_work = 0; seed_at_work < count; seed_at_work++)
		live(seed_at_work, 40);
	seed_at_work = UINT32_MAX;
}

static int
name_the_seed(void **state)
{
	if (seed_at_work != UINT32_MAX)
		print_error("it was seed %u\n", seed_at_work);
	return 0;
}

/* --- single cases --- */

static struct lost table;

static void
write_all(struct lost *lost)
{
	uint32_t granule;

	do {
		while (lost_take_dirty(lost, &granule))
			;
		assert_false(lost_settled(lost));	/* sent is not durable */
		lost_written(lost);
	} while (!lost_settled(lost));
}

static void
neighbours_become_one_entry(void **state)
{
	struct lost_extent extent = { 5, 1, 1024, 2048, 1, 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	for (extent.row = 6; extent.row < 3000; extent.row++)	/* a resync meets them in this order */
		assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 4;
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_int_equal(table.count, 1);
	extent = (struct lost_extent){ 4, 2996, 2048, 4096, 1, 0 };
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.column_begin = 512;
	extent.rows = 10;
	assert_int_equal(table.count, 1);
	assert_int_equal(table.entries[0].column_end, 4096);
	/* what is in adds nothing, what is otherwise held is kept apart */
	extent.column_begin = 1024;
	write_all(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_true(lost_settled(&table));
	extent.column_begin = 512;
	extent.column_end = 1024;
	extent.flags = LOST_HELD;
	assert_int_equal(lost_add(&table, &extent), 0);
	assert_int_equal(table.count, 2);
}

static void
a_granule_is_as_the_reference_says(void **state)
{
	struct lost_extent extent = { 0x0102030405060708ull, 0x090a0b0c, 0x200, 0x1000, 3, LOST_HELD };
	uint8_t bytes[512], zeros[512] = { 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	lost_encode(&table, 0, 0x1122334455667788ull, volume_uuid, bytes);
	assert_memory_equal(bytes + 4, "\x88\x77\x66\x55\x44\x33\x22\x11\0\0\0\0", 12);
	assert_memory_equal(bytes + 16, "\x08\x07\x06\x05\x04\x03\x02\x01\x0c\x0b\x0a\x09", 12);
	assert_memory_equal(bytes + 28, "\0\x02\0\0\0\x10\0\0\x03\x01\0\0", 12);
	assert_memory_equal(bytes + 40, zeros, 512 - 40);
	uint32_t crc = crc32c(crc32c(crc32c(0, volume_uuid, 16), "\0\0\0\0", 4), bytes + 4, 508);
	assert_memory_equal(bytes, &crc, 4);
}

static void
damaged_and_absurd_granules_are_refused(void **state)
{
	static const struct lost_extent absurd[] = {
		{ UINT64_MAX, 1, 0, 512, 0, 0 }, { (1ull << 48) + 1, 1, 0, 512, 0, 0 },
		{ 0, 1, 512, 512, 0, 0 }, { 0, 1, 1024, 512, 0, 0 }, { 0, 1, 0, 4608, 0, 0 },
		{ 0, 1, 1, 512, 0, 0 }, { 0, 1, 0, 513, 0, 0 }, { 0, 1, 0, 512, ROLES, 0 },
		{ 0, 1, 0, 512, 0, 2 },
	};
	static struct lost read;
	struct lost_extent good = { 1, 2, 0, 512, 2, 0 };
	uint8_t bytes[512], other_uuid[16] = { 1 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &good), 0);
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 1);
	lost_init(&read);
	assert_false(lost_load(&read, 1, volume_uuid, bytes, &geometry));
	assert_false(lost_load(&read, 0, other_uuid, bytes, &geometry));
	for (int bit = 0; bit < 8 * 512; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(lost_load(&read, 0, volume_uuid, bytes, &geometry));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		/* beside a good one, which is not taken in either */
		lost_init(&table);
		assert_int_equal(lost_add(&table, &good), 0);
		table.entries[7] = absurd[i];
		table.states[7] = LOST_VALID;
		lost_encode(&table, 0, 1, volume_uuid, bytes);
		if (lost_load(&read, 0, volume_uuid, bytes, &geometry))
			fail_msg("entry %zu was accepted", i);
	}
	assert_int_equal(read.count, 0);
	assert_true(read.dirty[0] && read.dirty[1]);	/* to be repaired */
	memset(bytes, 0, sizeof(bytes));
	assert_true(lost_load(&read, 3, volume_uuid, bytes, &geometry));
	assert_false(read.dirty[3]);
}

/* A crash while a volume grows leaves the old size, and extents that reach into the new rows. */
static void
what_reaches_behind_the_end_is_cut_there_and_nothing_else_is_lost(void **state)
{
	const uint32_t rows = FAR_ROW * 100;
	const struct lost_extent beyond[] = {
		{ rows, 1, 0, 512, 0, 0 }, { rows - 2, 3, 0, 512, 0, LOST_HELD }, { 5, UINT32_MAX, 0, 512, 1, 0 },
		{ rows + 77, UINT32_MAX, 0, 4096, 2, 0 },
	};
	static struct lost read;
	struct lost_extent good = { 1, 2, 0, 512, 2, 0 };
	uint8_t bytes[512];

	lost_init(&table);
	assert_int_equal(lost_add(&table, &good), 0);
	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		table.entries[3 + i] = beyond[i];
		table.states[3 + i] = LOST_VALID;
	}
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 3);
	assert_true(lost_overlaps(&read, 2, 2, 0, 512));
	assert_true(lost_overlaps(&read, rows - 1, 0, 0, 512));
	assert_true(lost_overlaps(&read, rows - 1, 1, 0, 512));
	assert_true(lost_overlaps(&read, 5, 1, 0, 512));
	assert_int_equal(lost_next_row(&read, rows), UINT64_MAX);
	/* Also where nothing remains it is taken off the members. */
	lost_init(&table);
	table.entries[0] = beyond[0];
	table.states[0] = LOST_VALID;
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, 0);
	assert_true(read.dirty[0]);
}

static void
a_full_table_says_so_and_is_not_changed(void **state)
{
	static struct lost before;
	struct lost_extent extent = { 0, 3, 0, 4096, 0, 0 };

	lost_init(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	crowd(&table, 0);
	assert_int_equal(table.free_count, 0);
	before = table;
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), -ENOSPC);
	assert_memory_equal(&before, &table, sizeof(table));
	extent.row = 5;
	assert_int_equal(lost_add(&table, &extent), -ENOSPC);
	/* what needs no slot works, and makes room when it is durable */
	assert_int_equal(lost_remove(&table, 2, 1, 0, 0, 4096), 0);
	assert_int_equal(lost_remove(&table, FAR_ROW, 10, 0, 0, 512), 0);
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), -ENOSPC);
	write_all(&table);
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), 0);
	assert_false(lost_overlaps(&table, 1, 0, 1024, 2048));
	assert_true(lost_overlaps(&table, 1, 0, 1023, 1025));
}

/* As tests want it.  What members have already is taken in all the same. */
static void
a_table_of_small_capacity_is_full_sooner(void **state)
{
	static struct lost read;
	struct lost_extent extent = { 0, 3, 0, 4096, 0, 0 };
	uint8_t bytes[512];

	lost_init(&table);
	table.capacity = 2;
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 5;
	assert_int_equal(lost_add(&table, &extent), 0);
	extent.row = 10;
	assert_int_equal(lost_add(&table, &extent), -ENOSPC);
	/* overwritten in part: for the pieces there is room */
	assert_int_equal(lost_remove(&table, 1, 1, 0, 1024, 2048), 0);
	assert_int_equal(lost_remove(&table, 5, 3, 0, 0, 4096), 0);
	write_all(&table);
	assert_int_equal(lost_add(&table, &extent), 0);
	table.capacity = LOST_ENTRIES;
	extent.row = 15;
	assert_int_equal(lost_add(&table, &extent), 0);
	lost_encode(&table, 0, 1, volume_uuid, bytes);
	lost_init(&read);
	read.capacity = 1;
	assert_true(lost_load(&read, 0, volume_uuid, bytes, &geometry));
	assert_int_equal(read.count, table.count);
}

/* Members whose tables are of different times: all of what they say counts, and none of it goes before
 * it stands elsewhere.
 */
static void
tables_that_contradict_are_united(void **state)
{
	static struct lost other, read;
	uint8_t ours[512], theirs[512];
	uint32_t granule;

	lost_init(&table);
	lost_init(&other);
	for (uint32_t i = 0; i < LAYOUT_LOST_ENTRIES; i++) {
		struct lost_extent extent = { 10 * i, 1, 0, 512, 0, 0 };

		assert_int_equal(lost_add(&table, &extent), 0);
		extent.role = 1;
		assert_int_equal(lost_add(&other, &extent), 0);
	}
	lost_encode(&table, 0, 1, volume_uuid, ours);
	lost_encode(&other, 0, 1, volume_uuid, theirs);
	lost_init(&read);
	assert_true(lost_load(&read, 0, volume_uuid, ours, &geometry));
	assert_true(lost_load(&read, 0, volume_uuid, theirs, &geometry));
	assert_true(lost_load(&read, 0, volume_uuid, theirs, &geometry));
	assert_int_equal(read.count, 2 * LAYOUT_LOST_ENTRIES);
	assert_true(lost_take_dirty(&read, &granule));
	assert_int_equal(granule, 1);		/* granule 0 would take `theirs` away */
	assert_false(lost_take_dirty(&read, &granule));
	lost_written(&read);
	assert_true(lost_take_dirty(&read, &granule));
	assert_int_equal(granule, 0);
	lost_written(&read);
	assert_true(lost_settled(&read));
	check_index(&read);
}

/* One member has an extent, the other a larger one in another granule: until all have the larger one,
 * the first is not taken from who has it.
 */
static void
what_another_entry_covers_stays_until_that_is_durable(void **state)
{
	static struct lost read;
	struct lost_extent small = { 4, 1, 0, 512, 0, 0 }, large = { 3, 5, 0, 1024, 0, 0 };
	uint8_t ours[512], theirs[512], bytes[512];
	uint32_t granule;

	for (int larger_first = 0; larger_first < 2; larger_first++) {
		lost_init(&table);
		assert_int_equal(lost_add(&table, &small), 0);
		lost_encode(&table, 0, 1, volume_uuid, ours);
		lost_init(&table);
		table.entries[LAYOUT_LOST_ENTRIES] = large;
		table.states[LAYOUT_LOST_ENTRIES] = LOST_VALID;
		lost_encode(&table, 1, 1, volume_uuid, theirs);
		lost_init(&read);
		assert_true(lost_load(&read, (uint32_t)larger_first, volume_uuid, larger_first ? theirs : ours,
				      &geometry));
		assert_true(lost_load(&read, !larger_first, volume_uuid, larger_first ? ours : theirs,
				      &geometry));
		assert_int_equal(read.count, 1);
		assert_int_equal(read.removing, 1);
		lost_encode(&read, 0, 1, volume_uuid, bytes);
		assert_memory_equal(bytes + 16, ours + 16, 24);
		while (lost_take_dirty(&read, &granule))
			;
		lost_written(&read);
		lost_encode(&read, 0, 1, volume_uuid, bytes);
		assert_int_equal(bytes[24], 0);
		assert_true(read.dirty[0]);
		write_all(&read);
		check_index(&read);
	}
}

static void
thousands_of_entries_are_looked_up_quickly(void **state)
{
	struct timespec begin, end;
	uint32_t found = 0;

	lost_init(&table);
	crowd(&table, 100);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (uint32_t i = 0; i < 1000000; i++)
		found += lost_overlaps(&table, below(4 * LOST_ENTRIES), 0, 0, 4096);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	print_message("%.0f ns a look-up in a table of %u\n", seconds * 1000, table.count);
	assert_in_range(found, 200000, 600000);
	assert_true(seconds < 5);	/* a walk through all of them takes twice that, sanitized or not */
}

static int
prepare(void **state)
{
	return geometry_init(&geometry, 5, ROLES, 4096, 512, (uint64_t)FAR_ROW * 100 * 4096);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_become_one_entry),
		cmocka_unit_test(a_granule_is_as_the_reference_says),
		cmocka_unit_test(damaged_and_absurd_granules_are_refused),
		cmocka_unit_test(what_reaches_behind_the_end_is_cut_there_and_nothing_else_is_lost),
		cmocka_unit_test(a_full_table_says_so_and_is_not_changed),
		cmocka_unit_test(a_table_of_small_capacity_is_full_sooner),
		cmocka_unit_test(tables_that_contradict_are_united),
		cmocka_unit_test_teardown(torn_updates_forget_nothing_and_invent_nothing, name_the_seed),
		cmocka_unit_test(what_another_entry_covers_stays_until_that_is_durable),
		cmocka_unit_test(thousands_of_entries_are_looked_up_quickly),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}
