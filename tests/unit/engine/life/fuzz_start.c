/* Starts volumes from members whose metadata lie: superblocks, region map, table of lost extents,
 * records of the write log, also such as no honest release writes and whose sums are right.
 *
 * Input: which scene (a volume that was left in order, or by a crash, with a write log or without),
 * how it is started, then edits of what stands on the members.  A sum is made right behind an edit,
 * or nothing behind the first check would be reached.  Checked: nothing asserts, requests that were
 * taken end, a stop ends.
 */
#include "../../fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "engine/life/engine.h"
#include "pure/lost_extent.h"
#include "rig.h"

#define INPUT_BYTES 96u
#define EDITS_MAX 24
#define LOAD_BYTES (256u << 10)
#define MEMBERS_MAX 5
#define LOG_OFFSET (LAYOUT_MAP_OFFSET + LAYOUT_MAP_BYTES)
#define LOG_BLOCKS 32u /* from its begin on, where records are */
#define START_WAKES 400
#define REQUESTS 6
#define REQUEST_BYTES 12288u
#define REQUEST_WAKES 20000

static const struct scene {
	int level, members;
	bool loses_one;	   /* and the write log is opened */
	bool lacks_chunks; /* without a log: what it held is listed as lost */
	bool stops;
} scenes[] = {
	{ 5, 4, false, false, true }, { 5, 4, false, false, false },  { 5, 4, true, false, false },
	{ 5, 4, true, true, false },  { 6, 5, true, false, false },   { 6, 5, true, true, true },
	{ 1, 2, true, false, false }, { 10, 4, false, false, false }, { 0, 3, false, false, true },
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

static struct rig left[SCENES]; /* what is on the members */
static bool made[SCENES];

static struct {
	struct rig rig;
	const uint8_t *input, *end;
	struct engine_request requests[REQUESTS];
	struct iovec iov[REQUESTS];
	uint8_t *memory[REQUESTS];
	bool busy[REQUESTS];
} fuzz;

static uint8_t
next(void)
{
	return fuzz.input < fuzz.end ? *fuzz.input++ : 0;
}

/* --- scenes --- */

static void
leave(const struct scene *scene, struct rig *rig)
{
	if (scene->loses_one) {
		fake_member_cut(&rig->members[scene->members - 1], false);
		for (int i = 0; i < 2000 && !rig_status(rig).log.open; i++)
			rig_step(rig);
	}
	for (uint64_t sector = 5; sector < rig->sectors; sector += 60)
		rig_submit(rig, REQUEST_WRITE, sector, 9, false);
	rig_steps(rig, 6);
	if (scene->stops) {
		rig_drain(rig);
		rig_stop(rig);
	} else {
		rig_crash(rig);
	}
}

static struct rig *
scene_of(uint8_t which)
{
	const struct scene *scene = &scenes[which % SCENES];
	struct rig *rig = &left[which % SCENES];

	if (made[which % SCENES])
		return rig;
	made[which % SCENES] = true;
	rig_init(rig, scene->level, scene->members, 16384, LOAD_BYTES, 1);
	for (int i = 0; i < scene->members; i++) /* parity fits: few pages are to be copied */
		rig->members[i].disk.rubbish_from = UINT64_MAX;
	rig->options.log = scene->lacks_chunks ? LOG_MODE_OFF : LOG_MODE_DEGRADED;
	rig_start_active(rig);
	for (uint64_t sector = 0; sector < rig->sectors; sector += 64)
		rig_submit(rig, REQUEST_WRITE, sector, 64, false);
	rig_drain(rig);
	if (scene->level != 0)
		rig_wait_for_resync(rig);
	leave(scene, rig);
	if (scene->lacks_chunks && !scene->stops) { /* another start, which lists them */
		rig_start(rig);
		rig_steps(rig, 600);
		rig_crash(rig);
	}
	return rig;
}

/* --- edits --- */

static void
put_le(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void
edit_bytes(uint8_t *block, uint32_t begin, uint32_t room)
{
	static const uint8_t edges[] = { 0, 1, 2, 3, 4, 5, 6, 0x7f, 0x80, 0xfe, 0xff };
	uint32_t at = begin + (uint32_t)(next() << 8 | next()) % room;
	uint8_t how = next();

	for (int i = 0; i < 1 + (how & 7) && at < begin + room; i++, at++)
		block[at] = how & 8 ? next() : edges[next() % sizeof(edges)];
}

static uint64_t
superblock_place(uint8_t copy)
{
	return copy & 1 ? LAYOUT_SUPERBLOCK_B_OFFSET : LAYOUT_SUPERBLOCK_A_OFFSET;
}

static void
edit_superblock_bytes(struct disk *disk)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	uint64_t place = superblock_place(next());

	disk_read(disk, place, block, sizeof(block));
	edit_bytes(block, 12, 1400);
	put_le(block + 8, 0, 4);
	put_le(block + 8, crc32c(0, block, sizeof(block)), 4);
	disk_write(disk, place, block, sizeof(block), true);
}

static uint64_t
number(uint64_t before)
{
	uint8_t how = next();

	if (how < 96)
		return before + how % 8 - 3;
	if (how < 160)
		return how % 16;
	if (how < 208)
		return UINT64_C(1) << how % 64;
	return how < 232 ? UINT64_MAX - how % 4 : before * (how % 8);
}

/* Fields that a decoder takes, and which contradict what others say. */
static void
edit_field(struct superblock *superblock)
{
	struct tracked_member *tracked = &superblock->tracked[next() % LAYOUT_STALE_SETS];
	int role = next() % superblock->member_count;

	switch (next() % 20) {
	case 0:
		superblock->epoch = number(superblock->epoch);
		return;
	case 1:
		superblock->event = number(superblock->event);
		return;
	case 2:
		superblock->write_count = number(superblock->write_count);
		return;
	case 3:
		superblock->role = (uint8_t)role;
		return;
	case 4:
	case 5:
		superblock->member_states[role] = (uint8_t)number(superblock->member_states[role]);
		return;
	case 6:
		superblock->write_counts[role] = number(superblock->write_counts[role]);
		return;
	case 7:
		superblock->clean = !superblock->clean;
		return;
	case 8:
		superblock->log_key = number(superblock->log_key);
		superblock->features_incompat = superblock->log_key != 0;
		return;
	case 9:
		superblock->log_roles = (uint32_t)number(superblock->log_roles);
		superblock->log_proven = !superblock->log_proven;
		return;
	case 10:
		superblock->recorded_roles = (uint32_t)number(superblock->recorded_roles);
		superblock->undecided_roles = (uint32_t)number(superblock->undecided_roles);
		memcpy(superblock->other_holder, superblock->member_uuids[next() % 4], 16);
		return;
	case 11:
		superblock->lost_empty = (uint32_t)number(superblock->lost_empty);
		return;
	case 12:
		superblock->flushes_fail = !superblock->flushes_fail;
		return;
	case 13:
		superblock->scrub_row = number(superblock->scrub_row);
		superblock->scrub_running = true;
		superblock->scrub_mode = SCRUB_REPAIR;
		return;
	case 14:
		tracked->state = (uint8_t)number(tracked->state);
		tracked->role = (uint8_t)role;
		memcpy(tracked->member_uuid, superblock->member_uuids[next() % 4], 16);
		tracked->member_uuid[15] ^= next() & 1;
		return;
	case 15:
		tracked->epoch = number(tracked->epoch) & 0xffffffffffff;
		tracked->write_count = number(tracked->write_count);
		return;
	case 16:
		superblock->data_bytes -= superblock->chunk_bytes * (1u + next());
		return;
	case 17:
		superblock->region_rows = 1u << next() % 12;
		return;
	case 18:
		memcpy(superblock->member_uuids[role], superblock->member_uuids[next() % 4], 16);
		return;
	default:
		superblock->resync_row = number(superblock->resync_row);
		superblock->member_bytes = number(superblock->member_bytes);
		return;
	}
}

static void
edit_superblock_field(struct disk *disk)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	uint64_t place = superblock_place(next());
	struct superblock superblock;

	disk_read(disk, place, block, sizeof(block));
	if (superblock_decode(block, &superblock, NULL) != SUPERBLOCK_OK)
		return;
	edit_field(&superblock);
	if (superblock_fault(&superblock) != NULL)
		return;
	superblock_encode(&superblock, block);
	disk_write(disk, place, block, sizeof(block), true);
}

/* Both are granules of 512 bytes whose sum stands first, over the volume's id, their number and
 * their content.
 */
static void
edit_granule(struct disk *disk, uint64_t area, uint32_t index)
{
	uint8_t granule[LAYOUT_GRANULE_BYTES], place[4];
	uint64_t at = area + index * LAYOUT_GRANULE_BYTES;
	uint32_t crc = crc32c(0, fuzz.rig.options.volume_uuid, 16);

	disk_read(disk, at, granule, sizeof(granule));
	for (int edits = 1 + next() % 4; edits > 0; edits--)
		edit_bytes(granule, 4, area == LAYOUT_MAP_OFFSET ? 60 : 88);
	put_le(place, index, 4);
	crc = crc32c(crc, place, 4);
	put_le(granule, crc32c(crc, granule + 4, sizeof(granule) - 4), 4);
	disk_write(disk, at, granule, sizeof(granule), true);
}

/* The next record from some block on. */
static void
edit_log(struct disk *disk)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	const uint32_t first = next();

	for (uint32_t i = 0; i < LOG_BLOCKS; i++) {
		const uint64_t at = LOG_OFFSET + (first + i) % LOG_BLOCKS * sizeof(block);

		disk_read(disk, at, block, sizeof(block));
		if (memcmp(block, "IRAID-LG", 8) != 0)
			continue;
		edit_bytes(block, 40, 152);
		put_le(block + 8, 0, 4);
		put_le(block + 8, crc32c(0, block, sizeof(block)), 4);
		disk_write(disk, at, block, sizeof(block), true);
		return;
	}
}

/* The log, or the superblocks, of another member. */
static void
copy_from(struct disk *disk, const struct disk *other)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	if (next() & 1) {
		for (uint64_t i = 0; i < LOG_BLOCKS; i++) {
			disk_read(other, LOG_OFFSET + i * sizeof(block), block, sizeof(block));
			disk_write(disk, LOG_OFFSET + i * sizeof(block), block, sizeof(block),
				   true);
		}
		return;
	}
	for (uint8_t copy = 0; copy < 2; copy++) {
		disk_read(other, superblock_place(copy), block, sizeof(block));
		disk_write(disk, superblock_place(copy), block, sizeof(block), true);
	}
}

static void
spoil(struct disk *disk)
{
	static const uint64_t areas[] = { LAYOUT_SUPERBLOCK_A_OFFSET,
					  LAYOUT_SUPERBLOCK_B_OFFSET,
					  LAYOUT_MAP_OFFSET,
					  LAYOUT_LOST_OFFSET,
					  LOG_OFFSET,
					  LAYOUT_ASK_OFFSET };
	uint64_t at = areas[next() % 6] + next() % 8 * LAYOUT_GRANULE_BYTES;
	uint8_t sector[LAYOUT_GRANULE_BYTES];

	if (next() & 1) {
		disk_damage(disk, at);
		return;
	}
	disk_read(disk, at, sector, sizeof(sector));
	edit_bytes(sector, 0, sizeof(sector));
	disk_write(disk, at, sector, sizeof(sector), true);
}

static void
edit(void)
{
	uint8_t which = next();
	struct fake_member *members = fuzz.rig.members;
	struct disk *disk = &members[next() % fuzz.rig.count].disk;

	switch (which % 8) {
	case 0:
		edit_superblock_bytes(disk);
		return;
	case 1:
	case 2:
		edit_superblock_field(disk);
		return;
	case 3:
		edit_granule(disk, LAYOUT_MAP_OFFSET, next() % 4);
		return;
	case 4:
		edit_granule(disk, LAYOUT_LOST_OFFSET, next() % 4);
		return;
	case 5:
		edit_log(disk);
		return;
	case 6:
		copy_from(disk, &members[next() % fuzz.rig.count].disk);
		return;
	default:
		spoil(disk);
		return;
	}
}

/* --- a life --- */

static void
on_done(struct engine_request *request, int result)
{
	bool *busy = request->owner;

	fuzz_require(*busy, "a request ended twice");
	fuzz_require(result <= 0, "a result that is none");
	*busy = false;
}

static void
submit(int which)
{
	static const enum request_op ops[] = { REQUEST_READ, REQUEST_WRITE, REQUEST_ZERO,
					       REQUEST_FLUSH };
	struct engine_request *request = &fuzz.requests[which];
	uint8_t place = next();

	fuzz.memory[which] = calloc(1, REQUEST_BYTES);
	fuzz_require(fuzz.memory[which] != NULL, "no memory");
	fuzz.iov[which] = (struct iovec){ fuzz.memory[which], REQUEST_BYTES };
	*request = (struct engine_request){
		.op = ops[place % 4],
		.fua = place & 4,
		.offset_bytes = place / 8 * 8192u,
		.length_bytes = REQUEST_BYTES,
		.iov = &fuzz.iov[which],
		.iov_count = 1,
		.done = on_done,
		.owner = &fuzz.busy[which],
	};
	if (request->op == REQUEST_FLUSH)
		request->offset_bytes = request->length_bytes = 0;
	fuzz.busy[which] = true;
	engine_submit(fuzz.rig.engine, request);
}

static bool
any_busy(void)
{
	for (int i = 0; i < REQUESTS; i++)
		if (fuzz.busy[i])
			return true;
	return false;
}

static void
live(void)
{
	struct rig *rig = &fuzz.rig;
	int wakes = 0;

	rig_start(rig);
	for (; wakes < START_WAKES && rig_wake(rig); wakes++)
		if (wakes % 16 == 0 && rig_status(rig).state == VOLUME_ACTIVE)
			break;
	for (int i = 0; i < REQUESTS; i++)
		submit(i);
	for (wakes = 0; any_busy() && wakes < REQUEST_WAKES && rig_wake(rig); wakes++)
		;
	fuzz_require(!any_busy(), "a request does not end");
	for (int i = 0; i < REQUESTS; i++)
		free(fuzz.memory[i]);
	rig_stop(rig);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rig *before;
	uint8_t how;

	fuzz.input = data;
	fuzz.end = data + size;
	before = scene_of(next());
	how = next();
	rig_init(&fuzz.rig, before->level, before->count, before->chunk_bytes, LOAD_BYTES, how);
	for (int i = 0; i < before->count; i++)
		disk_copy(&fuzz.rig.members[i].disk, &before->members[i].disk);
	fuzz.rig.options.log = before->options.log;
	fuzz.rig.options.force_ms = how & 1 ? 1000 : 0;
	fuzz.rig.epoch_recorded = how & 2 ? before->epoch_recorded : 0;
	fuzz.rig.options.resync_rows_max = how & 8 ? 4 : 0; /* else all of it waits */
	fuzz.rig.step_ms_max = 20;
	if (how & 4) /* the one that was out stays so */
		fuzz.rig.members[before->count - 1].reachable = false;
	for (int edits = 0; edits < EDITS_MAX && fuzz.input < fuzz.end; edits++)
		edit();
	live();
	rig_free(&fuzz.rig);
	return 0;
}

size_t
fuzz_make(uint8_t *input)
{
	for (size_t i = 0; i < INPUT_BYTES; i += 8) {
		uint64_t word = fuzz_random();

		memcpy(input + i, &word, 8);
	}
	return 8 + fuzz_below(INPUT_BYTES - 8);
}
