/* sim_load.c - requests, and the memory they lend to the engine.
 *
 * Memory that was handed back is not used again at once: it lies in quarantine, filled with a
 * pattern that nobody may touch (DESIGN rule 4).  A late Data-In shows as a broken pattern; a write
 * that still takes its data from there brings the pattern to the media, which is no write of ours.
 */
#include "sim.h"

#include "engine_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define QUARANTINE_REQUESTS 24u
#define QUARANTINE_BYTE 0xDB
#define READ_BYTE 0xC3		 /* what a read's memory holds before it is filled */
#define REQUEST_SECTORS_MAX 512u /* but for long requests: */
#define LONG_SECTORS_MIN (4u << 11)
#define LONG_SECTORS_MAX (8u << 11)

#ifdef __SANITIZE_ADDRESS__
#define IRAID_SANITIZED 1
#else
#define IRAID_SANITIZED 0
#endif

/* --- what is lent: used again, that given back last first, by sizes that are powers of two --- */

#define MEMORY_SIZES 24 /* the first of one sector */

union lent {
	union lent *next;
	uint8_t bytes[PATTERN_SECTOR];
};

static union lent *given_back[MEMORY_SIZES];

static unsigned int
memory_size(size_t bytes)
{
	unsigned int size = 0;

	while (((size_t)PATTERN_SECTOR << size) < bytes)
		size++;
	assert(size < MEMORY_SIZES);
	return size;
}

static uint8_t *
memory_take(size_t bytes)
{
	const unsigned int size = memory_size(bytes);
	union lent *memory = given_back[size];

	if (memory == NULL) {
		memory = aligned_alloc(PATTERN_SECTOR,
				       IRAID_SANITIZED ? bytes : (size_t)PATTERN_SECTOR << size);
		assert(memory != NULL);
		return memory->bytes;
	}
	given_back[size] = memory->next;
	return memory->bytes;
}

/* A sanitizer is to see who touches it from now on. */
static void
memory_give(uint8_t *bytes, size_t count)
{
	union lent *memory = (union lent *)bytes;

	if (IRAID_SANITIZED || bytes == NULL) {
		free(bytes);
		return;
	}
	memory->next = given_back[memory_size(count)];
	given_back[memory_size(count)] = memory;
}

static struct sim_request *
request_take(struct sim *sim)
{
	struct sim_request *request = sim->spare_requests;
	uint32_t *floor;

	if (request == NULL)
		return calloc(1, sizeof(*request));
	sim->spare_requests = request->next;
	floor = request->floor;
	*request = (struct sim_request){ .floor = floor };
	return request;
}

static void
request_give(struct sim *sim, struct sim_request *request)
{
	memory_give(request->memory, request->memory_bytes);
	request->memory = NULL;
	request->next = sim->spare_requests;
	sim->spare_requests = request;
}

/* --- quarantine --- */

static void
check_pattern(struct sim *sim, const struct sim_request *request)
{
	if (request->memory[0] == QUARANTINE_BYTE &&
	    memcmp(request->memory, request->memory + 1, request->memory_bytes - 1) == 0)
		return;
	for (size_t i = 0; i < request->memory_bytes; i++)
		if (request->memory[i] != QUARANTINE_BYTE)
			sim_fail(sim,
				 "memory of a completed request was written to: %s of %llu sectors "
				 "at sector %llu, byte %zu",
				 sim_op_name(request->request.op),
				 (unsigned long long)request->count,
				 (unsigned long long)request->sector, i);
}

void
load_check_quarantine(struct sim *sim, bool everything)
{
	while (sim->quarantine_head != NULL &&
	       (everything || sim->quarantined > QUARANTINE_REQUESTS)) {
		struct sim_request *request = sim->quarantine_head;

		sim->quarantine_head = request->next;
		if (sim->quarantine_head == NULL)
			sim->quarantine_tail = &sim->quarantine_head;
		sim->quarantined--;
		check_pattern(sim, request);
		request_give(sim, request);
	}
}

static void
put_in_quarantine(struct sim *sim, struct sim_request *request)
{
	memset(request->memory, QUARANTINE_BYTE, request->memory_bytes);
	memset(request->iov, QUARANTINE_BYTE, sizeof(request->iov));
	request->next = NULL;
	*sim->quarantine_tail = request;
	sim->quarantine_tail = &request->next;
	sim->quarantined++;
	load_check_quarantine(sim, false);
}

/* --- requests --- */

static void
forget(struct sim *sim, struct sim_request *request)
{
	struct sim_request **link = request->former ? &sim->former.active : &sim->active;

	while (*link != request)
		link = &(*link)->next;
	*link = request->next;
	if (request->former)
		sim->former.active_count--;
	else
		sim->active_count--;
}

static void
request_done(struct engine_request *base, int result)
{
	struct sim_request *request = base->owner;
	struct sim *sim = request->sim;

	forget(sim, request);
	request->done_us = sim->schedule.now_us;
	sim->options.totals->operations++;
	sim->options.totals->errors += result != 0;
	sim->options.totals->bytes += base->length_bytes;
	if (request->former)
		former_judge(sim, request, result);
	else
		oracle_judge(sim, request, result);
	if (request->memory_bytes > 0)
		put_in_quarantine(sim, request);
	else
		request_give(sim, request);
}

static void
describe_memory(struct sim *sim, struct sim_request *request)
{
	const uint64_t block = sim->block_bytes;
	uint64_t left = request->memory_bytes / block;
	uint8_t *at = request->memory;
	int count = 0;

	while (left > 0) {
		uint64_t step = random_between(&sim->random, 1, left);

		if (count == 7 || random_once_in(&sim->random, 2))
			step = left;
		request->iov[count++] = (struct iovec){ at, step * block };
		at += step * block;
		left -= step;
	}
	request->request.iov = request->iov;
	request->request.iov_count = count;
}

static void
fill_pattern(struct sim_request *request, uint8_t *memory)
{
	for (uint64_t i = 0; i < request->count; i++)
		pattern_fill(memory + i * PATTERN_SECTOR, (uint32_t)(request->sector + i),
			     request->number);
}

/* The first half of a compare and write: what stands there, or now and then not quite. */
static void
fill_expected(struct sim *sim, struct sim_request *request)
{
	request->differs_at = -1;
	for (uint64_t i = 0; i < request->count; i++) {
		uint64_t sector = request->sector + i;

		memset(request->memory + i * PATTERN_SECTOR, 0, PATTERN_SECTOR);
		if (sim->zero_latest[sector] != sim->floor[sector])
			pattern_fill(request->memory + i * PATTERN_SECTOR, (uint32_t)sector,
				     sim->floor[sector]);
	}
	if (random_once_in(&sim->random, 3)) {
		request->differs_at =
			(int64_t)(fake_random(&sim->random) % (request->count * PATTERN_SECTOR));
		request->memory[request->differs_at] ^= 0x40;
	}
}

static void
prepare_write(struct sim *sim, struct sim_request *request)
{
	const enum request_op op = request->request.op;

	request->number = ++sim->writes;
	if (op == REQUEST_WRITE)
		fill_pattern(request, request->memory);
	if (op == REQUEST_COMPARE_WRITE) {
		fill_expected(sim, request);
		fill_pattern(request, request->memory + request->count * PATTERN_SECTOR);
	}
	if (request->former)
		former_submits(sim, request);
	else
		oracle_submitted(sim, request);
}

/* Those under way wait for each other's rows. */
static void
note_active(struct sim *sim)
{
	for (struct sim_request *request = sim->active; request != NULL; request = request->next)
		if (request->most_active < sim->active_count)
			request->most_active = sim->active_count;
}

static void
hand_over(struct sim *sim, struct sim_request *request)
{
	struct former *former = &sim->former;

	if (!request->former) {
		request->next = sim->active;
		sim->active = request;
		sim->active_count++;
		note_active(sim);
		engine_submit(sim->engine, &request->request);
		return;
	}
	request->next = former->active;
	former->active = request;
	former->active_count++;
	engine_submit(former->engine, &request->request);
}

static void
submit(struct sim *sim, enum request_op op, uint64_t sector, uint64_t count, bool fua)
{
	const uint64_t copies = op == REQUEST_ZERO ? 0 : op == REQUEST_COMPARE_WRITE ? 2 : 1;
	struct sim_request *request;

	/* Initiators change to the second gateway when it has begun to answer. */
	if (sim->former.engine != NULL && !sim->former.lost && !sim->former.asked)
		return;
	request = request_take(sim);
	assert(request != NULL && sector + count <= sim->sectors);
	request->sim = sim;
	request->former = sim->former.asked;
	request->too_late = sim->former.asked && sim->former.lost;
	request->sector = sector;
	request->count = count;
	request->sectors = sim->sectors;
	request->submit_us = sim->schedule.now_us;
	request->memory_refused = engine_memory_refused();
	request->cache_losses = sim->cache_losses;
	request->assembled = sim->running_seen;
	request->most_active = 0;
	request->from_us = time_awake_us(sim, request->former);
	request->slow_us = time_slow_us(sim);
	request->waits = true;
	request->pieces = request->pieces_ended = 0;
	request->memory_bytes = copies * count * PATTERN_SECTOR;
	request->request = (struct engine_request){
		.op = op,
		.fua = fua,
		.deallocate = op == REQUEST_ZERO && sector % 16 < 8,
		.limit_ms = op == REQUEST_ZERO && sector % 4 == 1 ? (uint32_t)(1 + sector % 61) : 0,
		.offset_bytes = sector * PATTERN_SECTOR,
		.length_bytes = count * PATTERN_SECTOR,
		.done = request_done,
		.owner = request,
	};
	if (request->floor == NULL)
		request->floor = malloc(sim->sectors_max * sizeof(*request->floor));
	if (request->memory_bytes > 0) {
		request->memory = memory_take(request->memory_bytes);
		describe_memory(sim, request);
	}
	if (op != REQUEST_READ && op != REQUEST_FLUSH) {
		prepare_write(sim, request);
	} else if (op == REQUEST_READ) {
		memset(request->memory, READ_BYTE, request->memory_bytes);
		memcpy(request->floor, sim->floor + sector, count * sizeof(*request->floor));
	} else {
		memcpy(request->floor, sim->floor, sim->sectors * sizeof(*request->floor));
	}
	sim_trace(sim, "submit %s%s sector %llu count %llu number %u%s", sim_op_name(op),
		  fua ? " fua" : "", (unsigned long long)sector, (unsigned long long)count,
		  request->number, request->former ? " (former)" : "");
	hand_over(sim, request);
}

/* The end of the volume, as the gateway knows it that is asked. */
static uint64_t
sectors_known(const struct sim *sim)
{
	return sim->former.asked ? former_sectors(sim) : sim->sectors;
}

/* Sectors, in whole blocks, inside the volume. */
static void
submit_within(struct sim *sim, enum request_op op, uint64_t sector, uint64_t count, bool fua,
	      uint64_t count_max)
{
	const uint64_t unit = sim->block_bytes / PATTERN_SECTOR;
	const uint64_t sectors = sectors_known(sim);

	sector -= sector % unit;
	count = (count + unit - 1) / unit * unit;
	if (count > count_max && op != REQUEST_ZERO)
		count = count_max;
	if (op == REQUEST_COMPARE_WRITE && count > COMPARE_WRITE_BYTES_MAX / PATTERN_SECTOR)
		count = COMPARE_WRITE_BYTES_MAX / PATTERN_SECTOR;
	if (count > sectors - sector)
		count = sectors - sector;
	if (op == REQUEST_COMPARE_WRITE &&
	    ((sim->former.asked && !sim->former.lost) || !oracle_settled(sim, sector, count)))
		op = REQUEST_WRITE;
	submit(sim, op, sector, count, fua);
}

static void
submit_fitting(struct sim *sim, enum request_op op, uint64_t sector, uint64_t count, bool fua)
{
	submit_within(sim, op, sector, count, fua, REQUEST_SECTORS_MAX);
}

/* Requests of several pieces, some at once: together they need more than a small arena has. */
static void
submit_long(struct sim *sim, uint64_t *random)
{
	static const enum request_op ops[] = { REQUEST_WRITE, REQUEST_WRITE, REQUEST_READ,
					       REQUEST_ZERO };

	for (uint64_t left = random_between(random, 1, 4); left > 0; left--)
		submit_within(sim, ops[fake_random(random) % 4],
			      fake_random(random) % (sectors_known(sim) / 2),
			      random_between(random, LONG_SECTORS_MIN, LONG_SECTORS_MAX),
			      random_once_in(random, 8), LONG_SECTORS_MAX);
}

/* Chunks of one member, of many rows at once; while it is out each is made from all the others. */
static void
submit_burst(struct sim *sim, uint64_t *random)
{
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;
	const uint64_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;
	int role = (int)(fake_random(random) % (uint64_t)sim->count);
	enum request_op op = random_once_in(random, 4) ? REQUEST_WRITE : REQUEST_READ;

	if (sim->out_roles != 0)
		role = __builtin_ctz(sim->out_roles);
	for (uint64_t row = 0; row * row_sectors < sectors_known(sim); row++) {
		int position = geometry_position(&sim->geometry, row, (uint8_t)role);

		if (position >= 0 && position < sim->geometry.data_chunks)
			submit_fitting(sim, op,
				       row * row_sectors + (uint64_t)position * chunk_sectors,
				       chunk_sectors, false);
	}
}

static uint64_t
draw_sector(struct sim *sim, uint64_t *random)
{
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;
	uint64_t sector;

	if (random_once_in(random, 3))
		return fake_random(random) % sectors_known(sim);
	sector = (sim->hot_row + fake_random(random) % sim->hot_rows) * row_sectors;
	return (sector + fake_random(random) % row_sectors) % sectors_known(sim);
}

/* The same few blocks all life long: on the way several times at once, and logged again and again. */
static void
submit_hot(struct sim *sim, uint64_t *random)
{
	const uint64_t first = sim->hot_row * geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;

	for (uint64_t left = random_between(random, 4, 30); left > 0 && sim->active_count < 16;
	     left--)
		submit_fitting(sim, REQUEST_WRITE,
			       (first + 16 * (fake_random(random) % 3)) % sectors_known(sim),
			       random_once_in(random, 4) ? 4 : 8, random_once_in(random, 8));
}

void
load_submit(struct sim *sim, uint64_t *random)
{
	static const uint64_t longest[] = { 1, 1, 8, 8, 16, 40, 160 };
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;
	const uint64_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;
	uint64_t sector = draw_sector(sim, random);
	uint64_t count = random_between(random, 1, longest[fake_random(random) % 7]);
	uint64_t kind = fake_random(random) % 100;

	if (sim->engine_options.log == LOG_MODE_ALWAYS && random_once_in(random, 12)) {
		submit_hot(sim, random);
		return;
	}
	if (sim_can(sim, ABILITY_LONG_REQUESTS) && random_once_in(random, 50)) {
		submit_long(sim, random);
		return;
	}
	if (sim_can(sim, ABILITY_SHORT_MEMORY) && random_once_in(random, 20)) {
		submit_burst(sim, random);
		return;
	}
	if (random_once_in(random, 8)) { /* whole chunks, whole rows */
		uint64_t unit = random_once_in(random, 2) ? chunk_sectors : row_sectors;

		sector -= sector % unit;
		count = unit * random_between(random, 1, 2);
	}
	if (kind < 4)
		submit(sim, REQUEST_FLUSH, 0, 0, false);
	else if (kind < 45)
		submit_fitting(sim, REQUEST_READ, sector, count, false);
	else if (kind < 52)
		submit_fitting(sim, REQUEST_ZERO, sector,
			       random_once_in(random, 3) ? 4 * row_sectors + count : count,
			       kind == 45);
	else if (kind < 60)
		submit_fitting(sim, REQUEST_COMPARE_WRITE, sector, count, kind == 52);
	else
		submit_fitting(sim, REQUEST_WRITE, sector, count, kind < 64);
}

void
load_wide_write(struct sim *sim, uint64_t *random)
{
	submit_fitting(sim, REQUEST_WRITE, fake_random(random) % sim->sectors,
		       random_between(random, 1, REQUEST_SECTORS_MAX), false);
}

void
load_small_write(struct sim *sim, uint64_t *random)
{
	submit_fitting(sim, REQUEST_WRITE, fake_random(random) % sim->sectors,
		       random_between(random, 1, 4), false);
}

void
load_read(struct sim *sim, uint64_t *random)
{
	submit_fitting(sim, REQUEST_READ, draw_sector(sim, random), random_between(random, 1, 40),
		       false);
}

void
load_read_of(struct sim *sim, int role, uint64_t *random)
{
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;
	const uint64_t chunk_sectors = sim->chunk_bytes / PATTERN_SECTOR;
	uint64_t row = draw_sector(sim, random) / row_sectors;

	/* its neighbours, where it has no data in this one */
	for (int tries = 0; tries < sim->count && row * row_sectors < sectors_known(sim);
	     tries++, row++) {
		const int position = geometry_position(&sim->geometry, row, (uint8_t)role);

		if (position < 0 || position >= sim->geometry.data_chunks)
			continue;
		submit_fitting(sim, REQUEST_READ,
			       row * row_sectors + (uint64_t)position * chunk_sectors +
				       fake_random(random) % chunk_sectors,
			       random_between(random, 1, 8), false);
		return;
	}
}

void
load_flush(struct sim *sim)
{
	submit(sim, REQUEST_FLUSH, 0, 0, false);
}

/* Adjacent writes, as a stream brings them. */
void
load_sequential(struct sim *sim, uint64_t *random)
{
	uint64_t unit = random_between(random, 1, 2) * 8;
	uint64_t requests = random_between(random, 3, 10);

	if (random_once_in(random, 2))
		sim->next_sector = draw_sector(sim, random);
	sim->next_sector -= sim->next_sector % 8;
	while (requests-- > 0) {
		if (sim->next_sector >= sectors_known(sim))
			sim->next_sector = 0;
		submit_fitting(sim, REQUEST_WRITE, sim->next_sector, unit, false);
		sim->next_sector += unit;
	}
}

void
load_read_all(struct sim *sim)
{
	for (uint64_t sector = 0; sector < sim->sectors; sector += REQUEST_SECTORS_MAX) {
		while (sim->active_count >= 16)
			sim_advance(sim, sim->schedule.now_us + 5000);
		submit_fitting(sim, REQUEST_READ, sector, REQUEST_SECTORS_MAX, false);
	}
}

void
load_overwrite_damage(struct sim *sim)
{
	const uint64_t row_sectors = geometry_row_bytes(&sim->geometry) / PATTERN_SECTOR;

	for (int m = 0; m < sim->slots; m++) {
		const struct disk *disk = &sim->members[m].disk;

		for (int i = 0; i < disk->bad_count; i++) {
			uint64_t row;

			if (disk->bad[i] < sim->data_offset || sim->roles[m] < 0)
				continue;
			row = sim_row_at(sim, sim->roles[m], disk->bad[i] - sim->data_offset);
			if (row < sim->rows)
				submit(sim, REQUEST_WRITE, row * row_sectors, row_sectors, false);
		}
	}
}

void
load_abandon(struct sim *sim)
{
	while (sim->active != NULL) {
		struct sim_request *request = sim->active;

		sim->active = request->next;
		time_judge(sim, request);
		request_give(sim, request);
	}
	sim->active_count = 0;
}

void
load_abandon_former(struct sim *sim)
{
	struct former *former = &sim->former;

	while (former->active != NULL) {
		struct sim_request *request = former->active;

		former->active = request->next;
		request_give(sim, request);
	}
	former->active_count = 0;
}

void
load_init(struct sim *sim)
{
	sim->quarantine_tail = &sim->quarantine_head;
	sim->depth = (uint32_t)random_between(&sim->random, 1, 24);
	sim->hot_rows = random_between(&sim->random, 1, 6);
	sim->hot_row = fake_random(&sim->random) % (sim->rows - sim->hot_rows + 1);
}

void
load_free(struct sim *sim)
{
	load_check_quarantine(sim, true);
	while (sim->spare_requests != NULL) {
		struct sim_request *request = sim->spare_requests;

		sim->spare_requests = request->next;
		free(request->floor);
		free(request);
	}
}
