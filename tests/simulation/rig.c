/* rig.c - see rig.h. */
#include "rig.h"

#include "pure/spare.h"

#include "bury.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define IOVECS_MAX 8
#define MAP_BLOCKS 17 /* of 32 members of level 10, a region for each row */

#define expect(condition, ...)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "rig: " __VA_ARGS__);                                      \
			fprintf(stderr, "\n");                                                     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* IRAID_TEST=NAME: of a cmocka program, run that test alone. */
extern void cmocka_set_test_filter(const char *pattern) __attribute__((weak));

__attribute__((constructor)) static void
choose_test(void)
{
	const char *wanted = getenv("IRAID_TEST");

	if (wanted != NULL && cmocka_set_test_filter != NULL)
		cmocka_set_test_filter(wanted);
}

struct rig_request {
	struct engine_request request;
	struct rig *rig;
	struct rig_request *next;
	uint64_t sector;
	uint64_t count;
	uint32_t number; /* of a write */
	/* COMPARE_WRITE: first byte that the initiator has wrong; -1: none */
	int64_t differs_at;
	uint64_t submitted_at; /* rig->completed then */
	/* Of a read: what was acknowledged when it was submitted; of a flush: the same, over all
	 * sectors; of a write: itself, or the range of zeros under way that may still come behind
	 * it.
	 */
	uint32_t *floor;
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
	for (superblock.write_count = 1; superblock.write_count <= 2; superblock.write_count++) {
		superblock_encode(&superblock, block);
		disk_write(&member->disk, superblock_offset(superblock.write_count), block,
			   sizeof(block), true);
	}
	disk_write(&member->disk, LAYOUT_MAP_OFFSET, map, MAP_BLOCKS * LAYOUT_MAP_BLOCK_BYTES,
		   true);
	/* Old rubbish where data goes, so that parity is wrong at first. */
	member->disk.rubbish_from = shared->areas[3].offset_bytes;
	member->disk.rubbish_seed = random_stream(rig->random, (uint64_t)role);
}

/* region_rows: 0: as usual */
static void
format(struct rig *rig, uint64_t member_bytes, uint32_t region_rows)
{
	struct superblock shared = {
		.level = (uint8_t)rig->level,
		.member_count = (uint8_t)rig->count,
		.chunk_bytes = rig->chunk_bytes,
		.block_bytes = 512,
		.member_bytes = member_bytes,
		.epoch = 1,
		.lost_empty = LAYOUT_LOST_EMPTY,
		.name = "rig",
	};
	uint8_t map[MAP_BLOCKS * LAYOUT_MAP_BLOCK_BYTES];
	uint8_t flags[MAP_BLOCKS * LAYOUT_REGIONS_PER_BLOCK];
	struct geometry geometry;
	uint32_t regions;

	expect(layout_compute(member_bytes, rig->chunk_bytes, shared.areas, &shared.data_bytes,
			      &shared.region_rows) == 0,
	       "layout");
	if (region_rows > 0)
		shared.region_rows = region_rows;
	expect(geometry_init(&geometry, rig->level, rig->count, rig->chunk_bytes, 512,
			     shared.data_bytes) == 0,
	       "geometry");
	rig->volume_bytes = geometry_volume_bytes(&geometry);
	memcpy(shared.volume_uuid, rig->options.volume_uuid, 16);
	for (int i = 0; i < rig->count; i++) {
		memset(shared.member_uuids[i], 0x40 + i, 16);
		shared.member_states[i] = MEMBER_IN_SYNC;
	}
	regions = (uint32_t)((geometry.rows + shared.region_rows - 1) / shared.region_rows);
	memset(flags, rig->level == 0 ? 0 : REGION_DIRTY | REGION_UNWRITTEN, sizeof(flags));
	expect(regions <= sizeof(flags), "too many regions");
	for (uint32_t block = 0; block < MAP_BLOCKS; block++)
		map_block_encode(flags, regions, block, 1, rig->options.volume_uuid,
				 map + block * LAYOUT_MAP_BLOCK_BYTES);
	for (int i = 0; i < rig->count; i++)
		format_member(rig, i, &shared, map);
	rig->epoch_recorded = shared.epoch; /* as who creates a volume does */
}

static void
init_sized(struct rig *rig, int level, int count, uint32_t chunk_bytes, uint64_t load_bytes,
	   uint64_t seed, uint64_t member_bytes, uint32_t region_rows)
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
		fake_member_init(&rig->members[i], label, RIG_MEMBER_BYTES_MAX, 512, &rig->schedule,
				 &rig->random);
	}
	rig_extend_members(rig, member_bytes);
	format(rig, member_bytes, region_rows);
	expect(load_bytes <= rig->volume_bytes, "load range is larger than the volume");
	rig->acknowledged = calloc(rig->sectors, sizeof(*rig->acknowledged));
	rig->flushed = calloc(rig->sectors, sizeof(*rig->flushed));
	rig->submitted = calloc(rig->sectors, sizeof(*rig->submitted));
	rig->zeroed = calloc(rig->sectors, sizeof(*rig->zeroed));
	rig->zeroed_before = calloc(rig->sectors, sizeof(*rig->zeroed_before));
	rig->zero_ended = calloc(rig->sectors, sizeof(*rig->zero_ended));
}

uint64_t
rig_lives(uint64_t count)
{
#ifdef __SANITIZE_ADDRESS__
	return count / 4 > 4 ? count / 4 : count < 4 ? count : 4;
#else
	return count;
#endif
}

void
rig_init(struct rig *rig, int level, int count, uint32_t chunk_bytes, uint64_t load_bytes,
	 uint64_t seed)
{
	init_sized(rig, level, count, chunk_bytes, load_bytes, seed, RIG_MEMBER_BYTES, 0);
}

void
rig_init_many_regions(struct rig *rig, int level, int count, uint64_t load_bytes, uint64_t seed)
{
	init_sized(rig, level, count, 4096, load_bytes, seed, RIG_MEMBER_BYTES_MAX, 1);
}

void
rig_mark_spare(struct rig *rig, int index, uint64_t bytes)
{
	struct fake_member *member = &rig->members[index];
	struct spare_mark mark = { .member_bytes = bytes, .block_bytes = 512 };
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	if (member->schedule != NULL) /* one that was let go */
		fake_member_free(member);
	fake_member_init(member, "spare", RIG_MEMBER_BYTES_MAX, 512, &rig->schedule, &rig->random);
	member->capacity_bytes = bytes;
	memset(mark.member_uuid, 0x50 + index, 16);
	memcpy(mark.volume_uuid, rig->options.volume_uuid, 16);
	spare_encode(&mark, block);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_A_OFFSET, block, sizeof(block), true);
	disk_write(&member->disk, LAYOUT_SUPERBLOCK_B_OFFSET, block, sizeof(block), true);
}

void
rig_extend_members(struct rig *rig, uint64_t bytes)
{
	expect(bytes <= RIG_MEMBER_BYTES_MAX, "no member can have %llu bytes",
	       (unsigned long long)bytes);
	for (int i = 0; i < rig->count; i++)
		rig->members[i].capacity_bytes = bytes;
}

static void *
extended(void *array, uint64_t before, uint64_t after, size_t size)
{
	char *grown = realloc(array, after * size);

	expect(grown != NULL, "out of memory");
	memset(grown + before * size, 0, (after - before) * size);
	return grown;
}

void
rig_extend_load(struct rig *rig, uint64_t load_bytes)
{
	const uint64_t before = rig->sectors, after = load_bytes / RIG_SECTOR;

	rig_drain(rig); /* what is under way has arrays of the old size */
	rig->acknowledged = extended(rig->acknowledged, before, after, sizeof(*rig->acknowledged));
	rig->flushed = extended(rig->flushed, before, after, sizeof(*rig->flushed));
	rig->submitted = extended(rig->submitted, before, after, sizeof(*rig->submitted));
	rig->zeroed = extended(rig->zeroed, before, after, sizeof(*rig->zeroed));
	rig->zeroed_before =
		extended(rig->zeroed_before, before, after, sizeof(*rig->zeroed_before));
	rig->zero_ended = extended(rig->zero_ended, before, after, sizeof(*rig->zero_ended));
	rig->sectors = after;
}

void
rig_free(struct rig *rig)
{
	for (int i = 0; i < IRAID_MEMBERS_MAX; i++)
		if (rig->members[i].schedule != NULL)
			fake_member_free(&rig->members[i]);
	schedule_free(&rig->schedule);
	free(rig->acknowledged);
	free(rig->flushed);
	free(rig->submitted);
	free(rig->zeroed);
	free(rig->zeroed_before);
	free(rig->zero_ended);
}

/* --- life --- */

static void
record_epoch(void *owner, enum epoch_kind kind, uint64_t epoch)
{
	struct rig *rig = owner;

	rig->epochs_asked++;
	if (rig->epochs_held)
		return;
	if (rig->epoch_error == 0)
		*(kind == EPOCH_GIVEN ? &rig->epoch_recorded : &rig->epoch_tried) = epoch;
	engine_epoch_recorded(rig->engine, kind, epoch, rig->epoch_error);
}

static void
print_log(void *owner, int level, const char *text)
{
	struct rig *rig = owner;

	expect(level > LOG_ALERT, "%s", text);
	rig->epochs_refused_told += strstr(text, "can't be recorded in") != NULL;
	rig->epochs_well_told += strstr(text, "is recorded in") != NULL;
	rig->losses_told += strstr(text, "their chunks there can't be known") != NULL;
	if (rig->verbose)
		fprintf(stderr, "[%llu] <%d> %s\n", (unsigned long long)rig->now_ms, level, text);
}

static uint64_t
virtual_ns(void *owner)
{
	return ((struct rig *)owner)->schedule.now_us * 1000;
}

/* As a driver's: when the turn began. */
static uint64_t
turn_ns(void *owner)
{
	const struct rig *rig = owner;

	return rig->turn_ms != 0 ? rig->turn_ms * 1000000 : virtual_ns(owner);
}

void
rig_start(struct rig *rig)
{
	struct engine_port port = {
		.record_epoch = record_epoch,
		.epochs_kept_in = "/var/lib/iraid",
		.log = print_log,
		.now_ns = rig->clockless ? NULL : turn_ns,
		.clock_ns = rig->clockless ? NULL : virtual_ns,
		.owner = rig,
	};
	struct backend *backends[IRAID_MEMBERS_MAX];

	for (int i = 0; i < rig->count; i++) {
		backends[i] = &rig->members[i].backend;
		backends[i]->predecessor_key = 0; /* its adapter is new */
		rig->members[i].predecessor = 0;
		rig->members[i].was_taken = false;
	}
	rig->options.epoch_seen = rig->epoch_recorded;
	rig->options.epoch_tried = rig->epoch_tried;
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
	rig->active_count = rig->long_zeros = 0;
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
rig_stand_still(struct rig *rig, uint64_t ms)
{
	rig->turn_ms = rig->now_ms;
	advance(rig, rig->now_ms + ms);
}

void
rig_go_on(struct rig *rig, bool in_its_turn)
{
	if (in_its_turn)
		engine_run(rig->engine, rig->turn_ms);
	rig->turn_ms = 0;
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

bool
rig_wake(struct rig *rig)
{
	const uint64_t due_ms = engine_deadline(rig->engine);
	const uint64_t event_us = schedule_next_us(&rig->schedule);
	const uint64_t event_ms = event_us == UINT64_MAX ? UINT64_MAX : (event_us + 999) / 1000;
	uint64_t to_ms = due_ms < event_ms ? due_ms : event_ms;

	if (to_ms == UINT64_MAX)
		return false;
	advance(rig, to_ms > rig->now_ms ? to_ms : rig->now_ms + (due_ms <= rig->now_ms));
	engine_run(rig->engine, rig->now_ms);
	return true;
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
rig_start_active(struct rig *rig)
{
	bool active;

	rig_start(rig);
	active = rig_wait(rig, VOLUME_ACTIVE, 2000);
	assert(active);
}

void
rig_wait_for_resync(struct rig *rig)
{
	for (int i = 0; i < 200000 && rig_status(rig).regions_suspect > 0; i++)
		rig_step(rig);
	assert(rig_status(rig).regions_suspect == 0);
}

void
rig_lose_caches(struct rig *rig, int one, int other)
{
	fake_member_power_loss(&rig->members[one], true);
	fake_member_power_loss(&rig->members[other], true);
	expect(rig_wait(rig, VOLUME_SUSPENDED, 2000), "I/O goes on although m%d and m%d are away",
	       one, other);
	expect(rig_wait(rig, VOLUME_ACTIVE, 5000), "m%d and m%d don't come back", one, other);
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
fill_sector(uint8_t *memory, uint64_t sector, uint32_t number)
{
	uint32_t words[RIG_SECTOR / 4];

	for (unsigned int w = 0; w < RIG_SECTOR / 4; w += 2) {
		words[w] = (uint32_t)sector ^ (w << 16);
		words[w + 1] = number;
	}
	memcpy(memory, words, RIG_SECTOR);
}

static void
fill(struct rig_request *request, uint8_t *memory)
{
	for (uint64_t i = 0; i < request->count; i++)
		fill_sector(memory + i * RIG_SECTOR, request->sector + i, request->number);
}

static bool
is_zeros(const uint8_t *memory)
{
	return memory[0] == 0 && memcmp(memory, memory + 1, RIG_SECTOR - 1) == 0;
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

#define ZEROS_LONG (2048u) /* sectors: longer ranges are cut as they go */

static bool
is_long_zeros(const struct rig_request *request)
{
	return request->request.op == REQUEST_ZERO && request->count > ZEROS_LONG;
}

/* A long range of zeros that is under way may still come behind a later write that is done. */
static uint32_t
oldest_rival(const struct rig *rig, uint64_t sector, uint32_t number)
{
	if (rig->long_zeros == 0)
		return number;
	for (const struct rig_request *other = rig->active; other != NULL; other = other->next)
		if (is_long_zeros(other) && other->number < number && sector >= other->sector &&
		    sector < other->sector + other->count)
			number = other->number;
	return number;
}

static void
check_read(struct rig *rig, struct rig_request *request)
{
	for (uint64_t i = 0; i < request->count; i++) {
		uint64_t sector = request->sector + i;
		bool torn;
		uint32_t number = decode(request->memory + i * RIG_SECTOR, sector, &torn);

		if (request->floor[i] == 0 && torn)
			continue; /* never written (and acknowledged): anything goes */
		if (torn && is_zeros(request->memory + i * RIG_SECTOR) &&
		    rig->zeroed[sector] >= request->floor[i]) {
			/* Which of several it was can't be told. */
			if (rig->zeroed_before[sector] < request->floor[i] &&
			    rig->zero_ended[sector] <= request->submitted_at &&
			    oldest_rival(rig, sector, UINT32_MAX) >= rig->zeroed[sector] &&
			    rig->zeroed[sector] > rig->acknowledged[sector])
				rig->acknowledged[sector] = rig->zeroed[sector];
			continue;
		}
		expect(!torn, "sector %llu reads %s, write %u expected", (unsigned long long)sector,
		       is_zeros(request->memory + i * RIG_SECTOR) ? "zeros" : "rubbish",
		       request->floor[i]);
		expect(number >= request->floor[i] && number <= rig->submitted[sector],
		       "sector %llu reads write %u, expected %u to %u", (unsigned long long)sector,
		       number, request->floor[i], rig->submitted[sector]);
		/* What was once read does not revert. */
		number = oldest_rival(rig, sector, number);
		if (rig->zero_ended[sector] <= request->submitted_at &&
		    number > rig->acknowledged[sector])
			rig->acknowledged[sector] = number;
	}
}

static void
raise_floor(uint32_t *floor, const struct rig_request *request)
{
	for (uint64_t i = request->sector; i < request->sector + request->count; i++) {
		uint32_t number = request->floor[i - request->sector];

		if (number > floor[i])
			floor[i] = number;
	}
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
	rig->long_zeros -= is_long_zeros(request);
	rig->completed++;
	for (uint64_t i = 0; base->op == REQUEST_ZERO && i < request->count; i++)
		rig->zero_ended[request->sector + i] = rig->completed;
	if (base->op == REQUEST_COMPARE_WRITE && (result == 0 || result == -EILSEQ)) {
		expect((result == 0) == (request->differs_at < 0),
		       "compare and write %u at sector %llu: %s", request->number,
		       (unsigned long long)request->sector,
		       result == 0 ? "did not see the difference"
				   : "saw a difference that is not there");
		expect(result == 0 || base->mismatch_bytes == (uint64_t)request->differs_at,
		       "compare and write %u: differs at %llu, not at %lld", request->number,
		       (unsigned long long)base->mismatch_bytes, (long long)request->differs_at);
	}
	if (result == -EILSEQ) {
		rig->mismatches++;
	} else if (result != 0) {
		expect(rig->errors_allowed, "request %d at sector %llu failed: %s", base->op,
		       (unsigned long long)request->sector, strerror(-result));
		rig->failed++;
		rig->last_error = result;
	} else if (base->op == REQUEST_READ) {
		check_read(rig, request);
	} else if (base->op != REQUEST_FLUSH) {
		raise_floor(rig->acknowledged, request);
		if (base->fua)
			raise_floor(rig->flushed, request);
	} else {
		for (uint64_t i = 0; i < rig->sectors; i++)
			if (request->floor[i] > rig->flushed[i])
				rig->flushed[i] = request->floor[i];
	}
	free_request(request);
}

static void
describe_memory(struct rig *rig, struct rig_request *request, uint64_t sectors)
{
	uint64_t at = 0;
	int count = 0;

	while (at < sectors) {
		uint64_t step = 1 + fake_random(&rig->random) % (sectors - at);

		if (count == IOVECS_MAX - 1)
			step = sectors - at;
		request->iov[count++] =
			(struct iovec){ request->memory + at * RIG_SECTOR, step * RIG_SECTOR };
		at += step;
	}
	request->request.iov = request->iov;
	request->request.iov_count = count;
}

/* The content of all of these sectors is known: nothing is under way there. */
static bool
is_settled(const struct rig *rig, uint64_t sector, uint64_t count)
{
	for (uint64_t i = sector; i < sector + count; i++)
		if (rig->acknowledged[i] == 0 || rig->acknowledged[i] != rig->submitted[i])
			return false;
	return true;
}

/* The first half: what stands there, or now and then not quite. */
static void
fill_expected(struct rig *rig, struct rig_request *request)
{
	request->differs_at = -1;
	for (uint64_t i = 0; i < request->count; i++) {
		uint64_t sector = request->sector + i;

		memset(request->memory + i * RIG_SECTOR, 0, RIG_SECTOR);
		if (rig->zeroed[sector] != rig->acknowledged[sector])
			fill_sector(request->memory + i * RIG_SECTOR, sector,
				    rig->acknowledged[sector]);
	}
	if (random_once_in(&rig->random, 3)) {
		request->differs_at =
			(int64_t)(fake_random(&rig->random) % (request->count * RIG_SECTOR));
		request->memory[request->differs_at] ^= 0x40;
	}
}

static void
note_write(struct rig *rig, struct rig_request *request)
{
	expect(request->sector + request->count <= rig->sectors,
	       "sectors %llu to %llu of a load of %llu", (unsigned long long)request->sector,
	       (unsigned long long)(request->sector + request->count),
	       (unsigned long long)rig->sectors);
	for (uint64_t i = request->sector; i < request->sector + request->count; i++) {
		request->floor[i - request->sector] = oldest_rival(rig, i, request->number);
		rig->submitted[i] = request->number;
		if (request->request.op == REQUEST_ZERO) {
			rig->zeroed_before[i] = rig->zeroed[i];
			rig->zeroed[i] = request->number;
		}
	}
}

void
rig_submit(struct rig *rig, enum request_op op, uint64_t sector, uint64_t count, bool fua)
{
	const uint64_t halves = op == REQUEST_COMPARE_WRITE ? 2 : 1;
	struct rig_request *request = calloc(1, sizeof(*request));

	*request = (struct rig_request){
		.rig = rig,
		.sector = sector,
		.count = count,
		.submitted_at = rig->completed,
	};
	request->request = (struct engine_request){
		.op = op,
		.fua = fua,
		.offset_bytes = sector * RIG_SECTOR,
		.length_bytes = count * RIG_SECTOR,
		.done = request_done,
		.owner = request,
	};
	request->request.for_read = op == REQUEST_FLUSH && fua;
	request->request.deallocate = op == REQUEST_ZERO && random_once_in(&rig->random, 2);
	request->memory = aligned_alloc(512, count ? halves * count * RIG_SECTOR : 512);
	request->floor =
		calloc((op == REQUEST_FLUSH ? rig->sectors : count) + 1, sizeof(*request->floor));
	if (op != REQUEST_FLUSH && op != REQUEST_ZERO)
		describe_memory(rig, request, halves * count);
	if (op == REQUEST_WRITE || op == REQUEST_ZERO) {
		request->number = ++rig->writes;
		if (op == REQUEST_WRITE)
			fill(request, request->memory);
		note_write(rig, request);
	} else if (op == REQUEST_COMPARE_WRITE) {
		expect(is_settled(rig, sector, count), "compare and write of what is not known");
		request->number = ++rig->writes;
		fill_expected(rig, request);
		fill(request, request->memory + count * RIG_SECTOR);
		if (request->differs_at < 0)
			note_write(rig, request);
	} else if (op == REQUEST_READ && sector + count <= rig->sectors) {
		memcpy(request->floor, rig->acknowledged + sector, count * sizeof(*request->floor));
	}
	if (op == REQUEST_FLUSH)
		memcpy(request->floor, rig->acknowledged, rig->sectors * sizeof(*request->floor));
	request->next = rig->active;
	rig->active = request;
	rig->active_count++;
	rig->long_zeros += is_long_zeros(request);
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
	else if (kind < 56)
		rig_submit(rig, REQUEST_ZERO, sector, count, kind == 50);
	else if (kind < 66 && is_settled(rig, sector, count < 40 ? count : 40))
		rig_submit(rig, REQUEST_COMPARE_WRITE, sector, count < 40 ? count : 40, kind == 57);
	else
		rig_submit(rig, REQUEST_WRITE, sector, count, kind > 96);
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

	disk_read(&rig->members[member].disk, LAYOUT_SUPERBLOCK_A_OFFSET, copies[0],
		  sizeof(copies[0]));
	disk_read(&rig->members[member].disk, LAYOUT_SUPERBLOCK_B_OFFSET, copies[1],
		  sizeof(copies[1]));
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
		faults += !row_is_right(rig,
					superblock.areas[3].offset_bytes + row * rig->chunk_bytes);
	return faults;
}
