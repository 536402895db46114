/* knowable.h - what the tests of lost and mended rows share: a volume of a few regions, clean,
 * whose rows are told by where member 0 has its chunk.
 */
#ifndef IRAID_TEST_KNOWABLE_H
#define IRAID_TEST_KNOWABLE_H

#include "scenario.h"

#define CHUNK 16384u
#define CHUNK_SECTORS (CHUNK / RIG_SECTOR)
#define DATA_OFFSET (4u << 20)
#define REGION_ROWS 64u
#define LOAD_BYTES (18u << 20) /* six regions of a volume of 3 + 1 */

/* --- helpers --- */

static inline uint64_t
row_sectors(const struct rig *rig)
{
	return (uint64_t)(rig->count - (rig->level == 6 ? 2 : 1)) * CHUNK_SECTORS;
}

static inline uint64_t
sector_of_row(const struct rig *rig, uint64_t row)
{
	return row * row_sectors(rig);
}

/* Everything is written once, proven and clean. */
static inline void
begin(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, CHUNK, LOAD_BYTES, seed);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
	submit_everywhere(rig, REQUEST_WRITE, 512, 512);
	rig_drain(rig);
	rig_steps(rig, 5000);
	assert_int_equal(rig_status(rig).regions_dirty, 0);
}

/* Reads of this row's first chunk: 0 or the error. */
static inline int
read_first_chunk(struct rig *rig, uint64_t row)
{
	return error_of_read(rig, sector_of_row(rig, row), CHUNK_SECTORS);
}

static inline struct geometry
geometry_of(const struct rig *rig)
{
	struct geometry geometry;

	assert_int_equal(geometry_init(&geometry, rig->level, rig->count, CHUNK, 512,
				       rig_superblock(rig, 1).data_bytes),
			 0);
	return geometry;
}

/* The region's first row whose first chunk is on member 0. */
static inline uint64_t
row_in(const struct rig *rig, uint32_t region)
{
	const struct geometry geometry = geometry_of(rig);
	uint64_t row = region * REGION_ROWS;

	while (geometry_role(&geometry, row, 0) != 0)
		row++;
	return row;
}

static inline void
write_in(struct rig *rig, uint32_t region)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row_in(rig, region)), 1, true);
	rig_drain(rig);
}

static inline struct fake_member *
parity_of(struct rig *rig, uint64_t row)
{
	const struct geometry geometry = geometry_of(rig);

	return &rig->members[geometry_role(&geometry, row, geometry.data_chunks)];
}

static inline void
write_row(struct rig *rig, uint64_t row)
{
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row), 1, false);
	rig_drain(rig);
}

static inline void
flush(struct rig *rig)
{
	rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	rig_drain(rig);
}

static inline void
wait_for_held(struct rig *rig, const struct tap *tap)
{
	for (int i = 0; i < 1000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_int_equal(tap->held_count, 1);
}

/* Its P, and Q, are those of a write that did not get further. */
static inline void
tear_row(struct rig *rig, uint64_t row)
{
	static const uint8_t junk[4096] = { 1, 2, 3, 4, 5 };
	const struct geometry geometry = geometry_of(rig);

	for (uint8_t position = geometry.data_chunks; position < geometry.width; position++)
		disk_write(&rig->members[geometry_role(&geometry, row, position)].disk,
			   DATA_OFFSET + row * CHUNK, junk, sizeof(junk), true);
}

static inline int64_t *
accepted_bytes(void)
{
	static int64_t bytes;

	return &bytes;
}

static inline void
accepted(void *owner, int64_t result)
{
	(void)owner;
	*accepted_bytes() = result;
}

static inline void
accept_all(struct rig *rig)
{
	engine_lost_accept(rig->engine, 0, UINT64_MAX, accepted, NULL);
	rig_steps(rig, 100);
}

/* Members 1 and up refuse a write of one sector in this row's second chunk, so that nobody knows
 * how much of it was done.
 */
static inline void
fail_half_way(struct rig *rig, uint64_t row)
{
	/* Marks the region, or that would be refused and nothing written. */
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(rig);
	rig->errors_allowed = true;
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refuse_writes = true;
	rig_submit(rig, REQUEST_WRITE, sector_of_row(rig, row) + CHUNK_SECTORS, 1, false);
	rig_drain(rig);
	for (int m = 1; m < rig->count; m++)
		rig->members[m].refuse_writes = false;
	rig->errors_allowed = false;
	rig_steps(rig, 100);
}

/* Of this row member 0's chunk is lost, and nothing else of the volume. */
static inline void
check_only_this_is_lost(struct rig *rig, uint64_t row)
{
	struct lost_range range[2];

	assert_int_equal(rig_status(rig).lost_bytes, CHUNK);
	assert_int_equal(engine_lost_list(rig->engine, 0, range, 2), 1);
	assert_int_equal(range[0].offset_bytes, sector_of_row(rig, row) * RIG_SECTOR);
	assert_int_equal(read_first_chunk(rig, row), -ENODATA);
	for (uint64_t other = 0; other * row_sectors(rig) < rig->sectors; other++)
		if (other != row)
			assert_int_equal(read_first_chunk(rig, other), 0);
}

#endif
