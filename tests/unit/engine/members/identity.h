/* identity.h - members that are put back, copied, or written to by others; and what is held while
 * their superblocks are written.
 */
#ifndef IRAID_TEST_IDENTITY_H
#define IRAID_TEST_IDENTITY_H

#include "scenario.h"

#include "pure/spare.h"

#include <stdlib.h>

#define LOAD_BYTES (2ull << 20)
#define EXTRA 4 /* rig->members[] of a device that comes later */

static char why[256];

static inline void
start(struct rig *rig, int level, uint64_t seed)
{
	rig_init(rig, level, 4, 16384, LOAD_BYTES, seed);
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static inline void
wait_for_active(struct rig *rig)
{
	for (int i = 0; i < 30000 && rig_status(rig).state != VOLUME_ACTIVE; i++) {
		rig_step(rig);
		rig_jump(rig);
	}
	assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
}

static inline void
write_both(struct fake_member *member, const uint8_t block[LAYOUT_SUPERBLOCK_BYTES])
{
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_A_OFFSET, block, LAYOUT_SUPERBLOCK_BYTES, true);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_B_OFFSET, block, LAYOUT_SUPERBLOCK_BYTES, true);
}

static inline int
attach(struct rig *rig, int index)
{
	int slot = engine_attach(rig->engine, &rig->members[index].backend, why);

	assert_true(slot >= 0);
	rig_steps(rig, 200);
	return slot;
}

static inline uint8_t *
snapshot(struct rig *rig, int index)
{
	uint8_t *bytes = malloc(RIG_MEMBER_BYTES);

	assert_non_null(bytes);
	disk_read(&rig->members[index].disk, 0, bytes, RIG_MEMBER_BYTES);
	return bytes;
}

static inline void
put_back(struct rig *rig, int index, uint8_t *bytes)
{
	disk_write(&rig->members[index].disk, 0, bytes, RIG_MEMBER_BYTES, true);
	free(bytes);
}

/* Every sector has something new, and no mark is left that would have it copied. */
static inline void
write_all(struct rig *rig)
{
	for (uint64_t sector = 0; sector < rig->sectors; sector += 256)
		rig_submit(rig, REQUEST_WRITE, sector, 256, true);
	rig_drain(rig);
	rig_wait_for_resync(rig);
	rig_steps(rig, 4000);
}

/* The newer copy of its superblock. */
static inline void
damage_copy(struct rig *rig, int index)
{
	disk_damage(&rig->members[index].disk,
		    superblock_offset(rig_superblock(rig, index).write_count));
}

/* The superblocks change: somebody leaves and comes back. */
static inline void
change_superblocks(struct rig *rig)
{
	fake_member_cut(&rig->members[3], false);
	rig_submit(rig, REQUEST_WRITE, 0, 256, false);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig->members[3].reachable = true;
	wait_for_active(rig);
}

static inline bool
says(struct rig *rig, int slot, const char *text)
{
	return strstr(rig_status(rig).members[slot].reason, text) != NULL;
}

/* The superblock as another gateway would have left it. */
static inline void
advance_superblock(struct rig *rig, int index, uint64_t epoch, uint64_t event)
{
	struct superblock superblock = rig_superblock(rig, index);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	superblock.epoch = epoch;
	superblock.event = event;
	superblock.write_count++;
	superblock_encode(&superblock, block);
	disk_write(&rig->members[index].disk, superblock_offset(superblock.write_count), block,
		   sizeof(block), true);
}

struct holding {
	struct rig rig;
	struct tap taps[EXTRA + 1];
	uint32_t superblocks, map_writes, map_reads; /* of these members: held */
	uint32_t looks;				     /* reads of their superblocks: held */
	int passes;				     /* so many superblocks are not */
	/* the next write of a superblock is refused */
	uint32_t refused;
	/* of the refused one, and of the one behind it */
	uint64_t offset_bytes[2];
};

static inline bool
in_map(const struct backend_io *io)
{
	return io->offset_bytes >= LAYOUT_MAP_OFFSET && io->offset_bytes < LAYOUT_LOST_OFFSET;
}

static inline enum tap_verdict
hold(struct tap *tap, const struct backend_io *io)
{
	struct holding *holding = tap->owner;
	const uint32_t bit = 1u << (tap - holding->taps);
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	if (tap_superblock(io, block)) {
		if (holding->refused & bit) {
			holding->refused = 0;
			holding->offset_bytes[0] = io->offset_bytes;
			return TAP_REFUSE;
		}
		if (tap - holding->taps == 1 && holding->offset_bytes[1] == 0)
			holding->offset_bytes[1] = io->offset_bytes;
		return holding->superblocks & bit && holding->passes-- <= 0 ? TAP_HOLD : TAP_PASS;
	}
	if (io->op == BACKEND_READ && holding->looks & bit &&
	    (io->offset_bytes == LAYOUT_SUPERBLOCK_A_OFFSET ||
	     io->offset_bytes == LAYOUT_SUPERBLOCK_B_OFFSET))
		return TAP_HOLD;
	if (!in_map(io))
		return TAP_PASS;
	return (io->op == BACKEND_READ ? holding->map_reads : holding->map_writes) & bit ? TAP_HOLD
											 : TAP_PASS;
}

static inline void
tap_all(struct holding *holding, int count)
{
	for (int i = 0; i < count; i++) {
		tap_init(&holding->taps[i], &holding->rig.members[i]);
		holding->taps[i].judge = hold;
		holding->taps[i].owner = holding;
	}
}

static inline void
begin(struct holding *holding, int level, uint64_t seed)
{
	*holding = (struct holding){ 0 };
	rig_init(&holding->rig, level, 4, 16384, LOAD_BYTES, seed);
	tap_all(holding, 4);
}

static inline void
begin_written(struct holding *holding, uint64_t seed)
{
	begin(holding, 5, seed);
	rig_start_active(&holding->rig);
	write_all(&holding->rig);
}

static inline void
let_go(struct holding *holding)
{
	holding->superblocks = holding->map_writes = holding->map_reads = 0;
	for (int i = 0; i <= EXTRA; i++)
		if (holding->taps[i].member != NULL)
			tap_let_go(&holding->taps[i]);
}

static inline void
crash(struct holding *holding)
{
	rig_crash(&holding->rig);
	holding->superblocks = holding->map_writes = holding->map_reads = 0;
	for (int i = 0; i <= EXTRA; i++)
		if (holding->taps[i].member != NULL)
			tap_drop(&holding->taps[i]);
}

#endif
