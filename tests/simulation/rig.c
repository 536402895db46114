/* rig.c - see rig.h. */
#include "rig.h"

#include "bury.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER_BYTES (16ull << 20)
#define IOVECS_MAX 8

#define expect(condition, ...)                                                                 \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "rig: " __VA_ARGS__);                                  \
			fprintf(stderr, "\n");                                                 \
			abort();                                                               \
		}                                                                              \
	} while (0)

struct rig_request {
	struct engine_request request;
	struct rig *rig;
	struct rig_request *next;
	uint64_t sector;
	uint64_t count;
	uint32_t number;		/* of a write */
	uint32_t *floor;		/* of a read: what was acknowledged when it was submitted; of a flush: the same,
					 * over all sectors */
	uint8_t *memory;
	struct iovec iov[IOVECS_MAX];
};

/* --- format --- */

static void
format_member(struct rig *rig, int role, const struct superblock *shared, const uint8_t *map)
{
	struct fake_member *member = &rig->members[role];
	struct superblock superblock = *shared;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	superblock.role = (uint8_t)role;
	memcpy(superblock.member_uuid, shared->member_uuids[role], 16);
	superblock_encode(&superblock, block);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_A_OFFSET, block, sizeof(block), true);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_B_OFFSET, block, sizeof(block), true);
	disk_write(&member->disk, LAYOUT_MAP_OFFSET, map, LAYOUT_MAP_BLOCK_BYTES, true);
	/* Old rubbish where data goes, so that parity is wrong at first. */
	member->disk.rubbish_from = shared->areas[3].offset_bytes;
	member->disk.rubbish_seed = random_stream(rig->random, (uint64_t)role);
}

static void
format(struct rig *rig)
{
	struct superblock shared = {
		.level = (uint8_t)rig->level,
		.member_count = (uint8_t)rig->count,
		.chunk_bytes = rig->chunk_bytes,
		.block_bytes = 512,
		.member_bytes = MEMBER_BYTES,
		.epoch = 1,
		.write_count = 1,
		.name = "rig",
	};
	uint8_t map[LAYOUT_MAP_BLOCK_BYTES];
	uint8_t flags[LAYOUT_REGIONS_PER_BLOCK];
	struct geometry geometry;
	uint32_t regions;

	expect(layout_compute(MEMBER_BYTES, rig->chunk_bytes, shared.areas, &shared.data_bytes,
			      &shared.region_rows) == 0, "layout");
	expect(geometry_init(&geometry, rig->level, rig->count, rig->chunk_bytes, 512,
			     shared.data_bytes) == 0, "geometry");
	rig->volume_bytes = geometry_volume_bytes(&geometry);
	memcpy(shared.volume_uuid, rig->options.volume_uuid, 16);
	for (int i = 0; i < rig->count; i++) {
		memset(shared.member_uuids[i], 0x40 + i, 16);
		shared.member_states[i] = MEMBER_IN_SYNC;
	}
	regions = (uint32_t)((geometry.rows + shared.region_rows - 1) / shared.region_rows);
	memset(flags, rig->level == 0 ? 0 : REGION_DIRTY | REGION_UNWRITTEN, sizeof(flags));
	map_block_encode(flags, regions, 0, 1, rig->options.volume_uuid, map);
	for (int i = 0; i < rig->count; i++)
		format_member(rig, i, &shared, map);
}

void
rig_init(struct rig *rig, int level, int count, uint32_t chunk_bytes, uint64_t load_bytes, uint64_t seed)
{
	char label[32];

	*rig = (struct rig){
		.count = count,
		.level = level,
		.chunk_bytes = chunk_bytes,
		.sectors = load_bytes / RIG_SECTOR,
		.random = seed * 0x9E3779B97F4A7C15ull + 1,
		.now_ms = 1000,
		.step_ms_max = 1,
		.options = {
			.owner = "rig",
			.assembly_wait_ms = 200,
			.assembly_limit_ms = 2000,
			.queue_limit_ms = 2500,
			.give_up_ms = 500,
			.resync_rows_max = 4,
		},
	};
	memset(rig->options.volume_uuid, 0x77, 16);
	schedule_init(&rig->schedule);
	rig->schedule.now_us = rig->now_ms * 1000;
	for (int i = 0; i < count; i++) {
		snprintf(label, sizeof(label), "m%d", i);
		fake_member_init(&rig->members[i], label, MEMBER_BYTES, 512, &rig->schedule,
				 &rig->random);
	}
	format(rig);
	expect(load_bytes <= rig->volume_bytes, "load range is larger than the volume");
	rig->acknowledged = calloc(rig->sectors, sizeof(*rig->acknowledged));
	rig->flushed = calloc(rig->sectors, sizeof(*rig->flushed));
	rig->submitted = calloc(rig->sectors, sizeof(*rig->submitted));
}

void
rig_free(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++)
		fake_member_free(&rig->members[i]);
	schedule_free(&rig->schedule);
	free(rig->acknowledged);
	free(rig->flushed);
	free(rig->submitted);
}

/* --- life --- */

static int
record_epoch(void *owner, uint64_t epoch)
{
	((struct rig *)owner)->epoch_recorded = epoch;
	return 0;
}

static void
print_log(void *owner, int level, const char *text)
{
	struct rig *rig = owner;

	if (rig->verbose)
		fprintf(stderr, "[%llu] <%d> %s\n", (unsigned long long)rig->now_ms, level, text);
}

void
rig_start(struct rig *rig)
{
	struct engine_port port = { .record_epoch = record_epoch, .log = print_log, .owner = rig };
	struct backend *backends[IRAID_MEMBERS_MAX];

	for (int i = 0; i < rig->count; i++)
		backends[i] = &rig->members[i].backend;
	rig->options.epoch_seen = rig->epoch_recorded;
	rig->stopped = false;
	rig->engine = engine_create(&rig->options, &port, backends, rig->count, rig->now_ms);
	expect(rig->engine != NULL, "engine_create");
	engine_start(rig->engine);
	engine_run(rig->engine, rig->now_ms);
}

static void
note_stopped(void *owner)
{
	((struct rig *)owner)->stopped = true;
}

void
rig_stop(struct rig *rig)
{
	engine_stop(rig->engine, note_stopped, rig);
	for (int i = 0; i < 100000 && !rig->stopped; i++)
		rig_step(rig);
	expect(rig->stopped, "the engine did not stop");
	expect(rig->active_count == 0, "%d requests were not completed", rig->active_count);
	engine_destroy(rig->engine);
	rig->engine = NULL;
}

static void
free_request(struct rig_request *request)
{
	free(request->memory);
	free(request->floor);
	free(request);
}

void
rig_crash(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++)
		fake_member_abandon(&rig->members[i]);
	while (rig->active != NULL) {
		struct rig_request *request = rig->active;

		rig->active = request->next;
		free_request(request);
	}
	rig->active_count = 0;
	engine_bury(rig->engine);
	rig->engine = NULL;
}

void
rig_power_loss(struct rig *rig)
{
	rig_crash(rig);
	for (int i = 0; i < rig->count; i++)
		fake_member_power_loss(&rig->members[i], rig->members[i].reachable);
	memcpy(rig->acknowledged, rig->flushed, rig->sectors * sizeof(*rig->flushed));
}

/* Let virtual time pass for the members. */
static void
advance(struct rig *rig, uint64_t to_ms)
{
	while (schedule_fire(&rig->schedule, to_ms * 1000))
		;
	rig->schedule.now_us = to_ms * 1000;
	rig->now_ms = to_ms;
}

void
rig_step(struct rig *rig)
{
	advance(rig, rig->now_ms + 1 + fake_random(&rig->random) % rig->step_ms_max);
	engine_run(rig->engine, rig->now_ms);
}

void
rig_steps(struct rig *rig, int steps)
{
	while (steps-- > 0)
		rig_step(rig);
}

void
rig_jump(struct rig *rig)
{
	uint64_t deadline = engine_deadline(rig->engine);

	if (deadline != UINT64_MAX && deadline > rig->now_ms)
		advance(rig, deadline);
	engine_run(rig->engine, rig->now_ms);
}

struct engine_status
rig_status(const struct rig *rig)
{
	struct engine_status status;

	engine_status(rig->engine, &status);
	return status;
}

bool
rig_wait(struct rig *rig, enum volume_state state, int steps)
{
	while (steps-- > 0) {
		if (rig_status(rig).state == state)
			return true;
		rig_step(rig);
	}
	return false;
}

void
rig_drain(struct rig *rig)
{
	for (int i = 0; i < 200000 && rig->active_count > 0; i++)
		rig_step(rig);
	expect(rig->active_count == 0, "%d requests hang", rig->active_count);
}

/* --- requests --- */

static void
fill(struct rig_request *request)
{
	for (uint64_t i = 0; i < request->count; i++) {
		uint32_t words[RIG_SECTOR / 4];

		for (unsigned int w = 0; w < RIG_SECTOR / 4; w += 2) {
			words[w] = (uint32_t)(request->sector + i) ^ (w << 16);
			words[w + 1] = request->number;
		}
		memcpy(request->memory + i * RIG_SECTOR, words, RIG_SECTOR);
	}
}

/* Number of the write whose bytes the sector holds; 0 for anything that no write of ours made. */
static uint32_t
decode(const uint8_t *memory, uint64_t sector, bool *torn)
{
	uint32_t words[RIG_SECTOR / 4];
	bool whole = true;

	memcpy(words, memory, RIG_SECTOR);
	for (unsigned int w = 0; w < RIG_SECTOR / 4; w += 2)
		whole &= words[w] == ((uint32_t)sector ^ (w << 16)) && words[w + 1] == words[1];
	*torn = !whole;
	return whole ? words[1] : 0;
}

static void
check_read(struct rig *rig, struct rig_request *request)
{
	for (uint64_t i = 0; i < request->count; i++) {
		uint64_t sector = request->sector + i;
		bool torn;
		uint32_t number = decode(request->memory + i * RIG_SECTOR, sector, &torn);

		if (request->floor[i] == 0 && torn)
			continue;	/* never written (and acknowledged): anything goes */
		expect(!torn, "sector %llu reads rubbish, write %u expected",
		       (unsigned long long)sector, request->floor[i]);
		expect(number >= request->floor[i] && number <= rig->submitted[sector],
		       "sector %llu reads write %u, expected %u to %u", (unsigned long long)sector,
		       number, request->floor[i], rig->submitted[sector]);
		/* What was once read does not revert. */
		if (number > rig->acknowledged[sector])
			rig->acknowledged[sector] = number;
	}
}

static void
raise_floor(uint32_t *floor, const struct rig_request *request)
{
	for (uint64_t i = 0; i < request->count; i++)
		if (request->number > floor[i])
			floor[i] = request->number;
}

static void
request_done(struct engine_request *base, int result)
{
	struct rig_request *request = base->owner;
	struct rig *rig = request->rig;
	struct rig_request **link = &rig->active;

	while (*link != request)
		link = &(*link)->next;
	*link = request->next;
	rig->active_count--;
	rig->completed++;
	if (result != 0) {
		expect(rig->errors_allowed, "request %d at sector %llu failed: %s", base->op,
		       (unsigned long long)request->sector, strerror(-result));
		rig->failed++;
		rig->last_error = result;
	} else if (base->op == REQUEST_READ) {
		check_read(rig, request);
	} else if (base->op == REQUEST_WRITE) {
		raise_floor(rig->acknowledged + request->sector, request);
		if (base->fua)
			raise_floor(rig->flushed + request->sector, request);
	} else {
		for (uint64_t i = 0; i < rig->sectors; i++)
			if (request->floor[i] > rig->flushed[i])
				rig->flushed[i] = request->floor[i];
	}
	free_request(request);
}

static void
describe_memory(struct rig *rig, struct rig_request *request)
{
	uint64_t at = 0;
	int count = 0;

	while (at < request->count) {
		uint64_t step = 1 + fake_random(&rig->random) % (request->count - at);

		if (count == IOVECS_MAX - 1)
			step = request->count - at;
		request->iov[count++] = (struct iovec){ request->memory + at * RIG_SECTOR,
							step * RIG_SECTOR };
		at += step;
	}
	request->request.iov = request->iov;
	request->request.iov_count = count;
}

void
rig_submit(struct rig *rig, enum request_op op, uint64_t sector, uint64_t count, bool fua)
{
	struct rig_request *request = calloc(1, sizeof(*request));

	*request = (struct rig_request){ .rig = rig, .sector = sector, .count = count };
	request->request = (struct engine_request){
		.op = op,
		.fua = fua,
		.offset_bytes = sector * RIG_SECTOR,
		.length_bytes = count * RIG_SECTOR,
		.done = request_done,
		.owner = request,
	};
	request->memory = aligned_alloc(512, count ? count * RIG_SECTOR : 512);
	request->floor = calloc((op == REQUEST_FLUSH ? rig->sectors : count) + 1,
				sizeof(*request->floor));
	if (op != REQUEST_FLUSH)
		describe_memory(rig, request);
	if (op == REQUEST_WRITE) {
		request->number = ++rig->writes;
		fill(request);
		for (uint64_t i = 0; i < count; i++)
			rig->submitted[sector + i] = request->number;
	} else if (op == REQUEST_READ && sector + count <= rig->sectors) {
		memcpy(request->floor, rig->acknowledged + sector, count * sizeof(*request->floor));
	}
	if (op == REQUEST_FLUSH)
		memcpy(request->floor, rig->acknowledged, rig->sectors * sizeof(*request->floor));
	request->next = rig->active;
	rig->active = request;
	rig->active_count++;
	engine_submit(rig->engine, &request->request);
}

void
rig_submit_random(struct rig *rig)
{
	static const uint64_t longest[] = { 1, 8, 40, 200, 1000 };
	uint64_t max = longest[fake_random(&rig->random) % 5];
	uint64_t sector = fake_random(&rig->random) % rig->sectors;
	uint64_t count = 1 + fake_random(&rig->random) % max;
	uint64_t kind = fake_random(&rig->random) % 100;

	if (count > rig->sectors - sector)
		count = rig->sectors - sector;
	if (kind < 3)
		rig_submit(rig, REQUEST_FLUSH, 0, 0, false);
	else if (kind < 50)
		rig_submit(rig, REQUEST_READ, sector, count, false);
	else
		rig_submit(rig, REQUEST_WRITE, sector, count, kind < 53);
}

void
rig_verify(struct rig *rig)
{
	for (uint64_t sector = 0; sector < rig->sectors; sector += 2048) {
		uint64_t count = rig->sectors - sector < 2048 ? rig->sectors - sector : 2048;

		rig_submit(rig, REQUEST_READ, sector, count, false);
	}
	rig_drain(rig);
}

struct superblock
rig_superblock(const struct rig *rig, int member)
{
	uint8_t copies[2][LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	disk_read(&rig->members[member].disk, LAYOUT_SUPERBLOCK_A_OFFSET, copies[0], sizeof(copies[0]));
	disk_read(&rig->members[member].disk, LAYOUT_SUPERBLOCK_B_OFFSET, copies[1], sizeof(copies[1]));
	expect(superblock_choose(copies[0], copies[1], &superblock, NULL) == SUPERBLOCK_OK,
	       "member %d has no good superblock", member);
	return superblock;
}

static bool
row_is_right(const struct rig *rig, uint64_t offset)
{
	uint64_t *sum = calloc(2, rig->chunk_bytes);
	uint64_t *chunk = sum + rig->chunk_bytes / 8;
	bool right = true;

	for (int m = 0; m < rig->count; m++) {
		disk_read(&rig->members[m].disk, offset, chunk, rig->chunk_bytes);
		for (uint32_t i = 0; i < rig->chunk_bytes / 8; i++)
			sum[i] ^= chunk[i];
	}
	for (uint32_t i = 0; i < rig->chunk_bytes / 8; i++)
		right &= sum[i] == 0;
	free(sum);
	return right;
}

uint64_t
rig_parity_faults(const struct rig *rig)
{
	struct superblock superblock = rig_superblock(rig, 0);
	uint64_t faults = 0;

	for (uint64_t row = 0; row < superblock.data_bytes / rig->chunk_bytes; row++)
		faults += !row_is_right(rig, superblock.areas[3].offset_bytes + row * rig->chunk_bytes);
	return faults;
}
