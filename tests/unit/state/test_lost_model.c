/* The table of lost extents against a model that has one flag per 512 bytes, with members that take
 * any subset of the granules they are sent before everything stops.
 */
#include "lost_table.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 10
#define CELLS 8 /* of 512 bytes in a chunk */
#define MEMBERS 3

/* --- the model --- */

#define NOT_LOST 0xff /* otherwise the flags of what is lost */

struct cells {
	uint8_t at[ROWS][ROLES][CELLS];
};

struct model {
	struct cells now;
	struct cells settled;		  /* as it was when every member had it */
	bool removed[ROWS][ROLES][CELLS]; /* at any time since */
	bool added[ROWS][ROLES][CELLS];
	uint8_t members[MEMBERS][GRANULES][LAYOUT_GRANULE_BYTES];
};

static void
cells_clear(struct cells *cells)
{
	memset(cells, NOT_LOST, sizeof(*cells));
}

#define FOR_CELLS(row, role, cell)                                                                 \
	for (int row = 0; row < ROWS; row++)                                                       \
		for (int role = 0; role < ROLES; role++)                                           \
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

	if (below(3)) { /* of shapes that can be joined */
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

/* --- checks --- */

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
					assert_int_equal(any, lost_overlaps(lost, (uint64_t)row,
									    (uint8_t)role,
									    512 * (uint32_t)b,
									    512 * (uint32_t)e));
				}
			for (int i = 0; i < CELLS; i++)
				if (cell[i] != NOT_LOST)
					first = (uint64_t)row;
			for (uint32_t i = 0; i < CELLS;) {
				uint32_t k = i;

				while (k < CELLS && cell[k] == cell[i])
					k++;
				if (cell[i] != NOT_LOST) {
					assert_true(lost_next(lost, (uint64_t)row, (uint8_t)role,
							      from, &begin, &end, &flags));
					assert_int_equal(begin, 512 * i);
					assert_int_equal(end, 512 * k);
					assert_int_equal(flags, cell[i]);
					from = end;
				}
				i = k;
			}
			assert_false(lost_next(lost, (uint64_t)row, (uint8_t)role, from, &begin,
					       &end, &flags));
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
			assert_true(lost_load(lost, granule, volume_uuid,
					      model->members[member][granule], &geometry));
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
		FOR_CELLS(row, role, cell)
		{
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
			for (uint32_t i = extent.column_begin / 512; i < extent.column_end / 512;
			     i++) {
				uint8_t *cell = &model->now.at[row][extent.role][i];

				*cell = *cell == NOT_LOST ? extent.flags : *cell & extent.flags;
				model->added[row][extent.role][i] = true;
			}
		return;
	}
	/* some of it may be in: nothing that was not asked for */
	struct cells cells = cells_of(lost);
	FOR_CELLS(row, role, cell)
	{
		if (cells.at[row][role][cell] == model->now.at[row][role][cell])
			continue;
		assert_true(row >= (int)extent.row && row < (int)(extent.row + extent.rows));
		assert_true(role == extent.role && cells.at[row][role][cell] != NOT_LOST);
		assert_true(512 * cell >= (int)extent.column_begin &&
			    512 * cell < (int)extent.column_end);
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

/* Everything stops: of what is under way any part has reached any member.  The survivor of it is
 * loaded.
 */
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
		return; /* some repeat what failed before they go on */
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
test_torn_updates_forget_nothing_and_invent_nothing(void **state)
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_torn_updates_forget_nothing_and_invent_nothing,
					  name_the_seed),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}
