/* crash_replay_case.c - the engine on the images of one crash, and what must be true; see
 * crash_replay_case.h. */
#include "crash_replay_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_SECTORS_MAX 512u
#define ASSEMBLY_MS_MAX 60000u /* virtual */
#define SETTLE_MS_MAX 600000u
#define STEPS_MAX 1000000u
#define WRITES_AFTER 4u
#define WRITE_SECTORS_MAX 20u

struct call {
	struct engine_request request;
	struct replay *replay;
	struct iovec iov;
	uint64_t sector, count;
	uint32_t stamp; /* of a write */
	uint8_t *memory;
};

/* --- driving the engine --- */

static void
say(void *owner, int level, const char *text)
{
	struct replay *replay = owner;

	if (replay->verbose)
		fprintf(stderr, "[%llu] %s\n", (unsigned long long)replay->now_ms, text);
}

static void
start_engine(struct replay *replay)
{
	struct engine_options options = {
		.assembly_wait_ms = 100,
		.assembly_limit_ms = 20000,
		.queue_limit_ms = 5000,
		.give_up_ms = 1000,
		.resync_rows_max = replay->lose ? 0 : 16,
		.log = replay->log,
		.epoch_seen = replay->epoch_seen,
		.epoch_tried = replay->epoch_tried,
	};
	struct engine_port port = { .log = say, .owner = replay };
	struct backend *backends[IRAID_MEMBERS_MAX];

	snprintf(options.owner, sizeof(options.owner), "%s",
		 replay->owner[0] != '\0' ? replay->owner : "crash_replay");
	memcpy(options.volume_uuid, replay->shape.volume_uuid, sizeof(options.volume_uuid));
	for (int i = 0; i < replay->members.count; i++)
		backends[i] = &replay->members.members[i].backend;
	replay->stopped = replay->dying = false;
	replay->engine =
		engine_create(&options, &port, backends, replay->members.count, replay->now_ms);
	expect(replay->engine != NULL, "engine_create");
	engine_start(replay->engine);
	engine_run(replay->engine, replay->now_ms);
}

/* True if there was something to do but to wait. */
static bool
step(struct replay *replay)
{
	bool busy = members_step(&replay->members, next_random(&replay->members.random) & 1);

	if (busy) {
		replay->now_ms += next_random(&replay->members.random) & 1;
	} else {
		uint64_t deadline = engine_deadline(replay->engine);

		replay->now_ms = deadline != UINT64_MAX && deadline > replay->now_ms
					 ? deadline
					 : replay->now_ms + 1;
	}
	engine_run(replay->engine, replay->now_ms);
	return busy;
}

static void
stopped(void *owner)
{
	((struct replay *)owner)->stopped = true;
}

static void
stop_engine(struct replay *replay)
{
	engine_stop(replay->engine, stopped, replay);
	for (unsigned int i = 0; i < STEPS_MAX && !replay->stopped; i++)
		step(replay);
	expect(replay->stopped, "the engine does not stop");
	expect(replay->active == 0, "%u requests were not answered when it stopped",
	       replay->active);
	engine_destroy(replay->engine);
	replay->engine = NULL;
}

/* A killed process frees nothing; this one must, so it is stopped where it can't do anything any
 * more.
 */
static void
crash_engine(struct replay *replay)
{
	bool present[IRAID_MEMBERS_MAX];

	for (int i = 0; i < replay->members.count; i++)
		present[i] = replay->members.members[i].present;
	replay->dying = true;
	members_abandon(&replay->members);
	stop_engine(replay);
	for (int i = 0; i < replay->members.count; i++)
		replay->members.members[i].present = present[i];
}

static enum volume_state
assemble(struct replay *replay)
{
	uint64_t until_ms = replay->now_ms + ASSEMBLY_MS_MAX;
	struct engine_status status;

	do {
		if (step(replay))
			continue;
		engine_status(replay->engine, &status);
		if (status.state != VOLUME_ASSEMBLING)
			return status.state;
	} while (replay->now_ms < until_ms);
	return VOLUME_ASSEMBLING;
}

/* --- requests --- */

static bool
may_be_unknown(const struct replay *replay, uint64_t sector)
{
	struct extent extent;

	if (replay->geometry.redundancy > 0 && replay->geometry.data_chunks == 1)
		return false; /* any copy will do */
	/* Written while all members were there: the row was proven then, whatever it was before. */
	if (replay->saw[sector] >= replay->oracle.write_room && replay->lost_after_writes)
		return false;
	expect(geometry_locate(&replay->geometry, sector * SECTOR, SECTOR, &extent) == 0,
	       "geometry_locate");
	return (replay->unknown & 1u << extent.role) &&
	       replay->flags[extent.row / replay->shape.region_rows] & REGION_DIRTY;
}

static void
check_sector(struct replay *replay, uint64_t sector, const uint8_t *content)
{
	uint32_t stamp;
	const char *fault = oracle_judge(&replay->oracle, sector, content, replay->power, &stamp);

	if (replay->saw[sector] >= replay->oracle.write_room) { /* written in this case */
		expect(stamp == replay->saw[sector],
		       "sector %llu: write %u was acknowledged and is not there",
		       (unsigned long long)sector, replay->saw[sector]);
		return;
	}
	expect(fault == NULL, "sector %llu %s (write %u; acknowledged %u, flushed %u)",
	       (unsigned long long)sector, fault, stamp, replay->oracle.acknowledged[sector],
	       replay->oracle.flushed[sector]);
	expect(replay->saw[sector] == 0 || replay->saw[sector] == stamp,
	       "sector %llu was read as write %u and now as write %u", (unsigned long long)sector,
	       replay->saw[sector], stamp);
	replay->saw[sector] = stamp;
}

static void
submit(struct replay *replay, enum request_op op, uint64_t sector, uint64_t count, uint32_t stamp);

static void
read_done(struct call *call, int result)
{
	struct replay *replay = call->replay;

	if (result == 0) {
		for (uint64_t n = 0; n < call->count; n++)
			check_sector(replay, call->sector + n, call->memory + n * SECTOR);
		return;
	}
	expect(result == -ENODATA, "a read of %llu sectors at %llu failed: %s",
	       (unsigned long long)call->count, (unsigned long long)call->sector,
	       strerror(-result));
	if (call->count <= replay->geometry.block_bytes / SECTOR) {
		struct extent extent;

		geometry_locate(&replay->geometry, call->sector * SECTOR, SECTOR, &extent);
		expect(may_be_unknown(replay, call->sector),
		       "sector %llu can't be read, and should be known: role %d, region %llu has "
		       "flags %x, out of date were %x%s",
		       (unsigned long long)call->sector, extent.role,
		       (unsigned long long)(extent.row / replay->shape.region_rows),
		       replay->flags[extent.row / replay->shape.region_rows], replay->unknown,
		       replay->saw[call->sector] >= replay->oracle.write_room
			       ? ", written in this case"
			       : "");
		replay->tally.unknown_sectors += call->count;
		return;
	}
	submit(replay, REQUEST_READ, call->sector, call->count / 2, 0);
	submit(replay, REQUEST_READ, call->sector + call->count / 2, call->count - call->count / 2,
	       0);
}

static void
request_done(struct engine_request *request, int result)
{
	struct call *call = request->owner;
	struct replay *replay = call->replay;

	replay->active--;
	if (!replay->dying && request->op == REQUEST_READ)
		read_done(call, result);
	else if (!replay->dying)
		expect(result == 0, "a write of %llu sectors at %llu failed: %s",
		       (unsigned long long)call->count, (unsigned long long)call->sector,
		       strerror(-result));
	free(call->memory);
	free(call);
}

static void
submit(struct replay *replay, enum request_op op, uint64_t sector, uint64_t count, uint32_t stamp)
{
	struct call *call = calloc(1, sizeof(*call));

	call->memory = aligned_alloc(PAGE, (count * SECTOR + PAGE - 1) / PAGE * PAGE);
	expect(call->memory != NULL, "out of memory");
	call->replay = replay;
	call->sector = sector;
	call->count = count;
	call->stamp = stamp;
	for (uint64_t n = 0; op == REQUEST_WRITE && n < count; n++) {
		stamp_fill(call->memory + n * SECTOR, sector + n, stamp);
		replay->saw[sector + n] = stamp;
	}
	call->iov = (struct iovec){ call->memory, count * SECTOR };
	call->request = (struct engine_request){
		.op = op,
		.offset_bytes = sector * SECTOR,
		.length_bytes = count * SECTOR,
		.iov = &call->iov,
		.iov_count = 1,
		.done = request_done,
		.owner = call,
	};
	replay->active++;
	engine_submit(replay->engine, &call->request);
}

static void
submit_reads(struct replay *replay)
{
	const struct oracle *oracle = &replay->oracle;

	for (size_t i = 0; i < oracle->range_count; i++)
		for (uint64_t at = 0; at < oracle->ranges[i][1]; at += READ_SECTORS_MAX) {
			uint64_t left = oracle->ranges[i][1] - at;

			submit(replay, REQUEST_READ, oracle->ranges[i][0] + at,
			       left < READ_SECTORS_MAX ? left : READ_SECTORS_MAX, 0);
		}
}

/* Small writes over what the crash left: they must not trust its parity. */
static void
submit_writes(struct replay *replay)
{
	const struct oracle *oracle = &replay->oracle;
	uint64_t block = replay->members.block_bytes / SECTOR;

	for (uint32_t i = 0; i < WRITES_AFTER; i++) {
		const uint64_t *range =
			oracle->ranges[next_random(&replay->members.random) % oracle->range_count];
		uint64_t count = 1 + next_random(&replay->members.random) % WRITE_SECTORS_MAX;
		uint64_t at = next_random(&replay->members.random) % range[1] / block * block;

		count = (count + block - 1) / block * block;
		if (count > range[1] - at)
			count = range[1] - at;
		submit(replay, REQUEST_WRITE, range[0] + at, count,
		       (uint32_t)oracle->write_room + i);
		/* One at a time, so that of two that overlap the second is what must be there. */
		for (unsigned int steps = 0; steps < STEPS_MAX && replay->active > 0; steps++)
			step(replay);
	}
}

static void
drain(struct replay *replay)
{
	for (unsigned int i = 0; i < STEPS_MAX && replay->active > 0; i++)
		step(replay);
	expect(replay->active == 0, "%u requests hang", replay->active);
}

/* --- what must be true --- */

/* Eight bytes at a time multiplied by 2 in GF(2^8), 11Dh. */
static uint64_t
doubled(uint64_t words)
{
	return (words & 0x7f7f7f7f7f7f7f7full) << 1 ^ (words >> 7 & 0x0101010101010101ull) * 0x1d;
}

/* What the row's data makes of its redundancy must be there.  Not by pure/code.h, whose mistakes
 * would be in here too: Q by Horner's rule, from the last data chunk down.
 */
static bool
row_fits(const struct geometry *geometry, const uint8_t *const chunks[IRAID_MEMBERS_MAX])
{
	uint64_t faults = 0;

	for (uint32_t at = 0; at < geometry->chunk_bytes; at += 8) {
		uint64_t sum = 0, weighed = 0, first = 0, word;

		for (int position = geometry->data_chunks - 1; position >= 0; position--) {
			memcpy(&first, chunks[position] + at, 8);
			sum ^= first;
			weighed = doubled(weighed) ^ first;
		}
		for (int position = geometry->data_chunks; position < geometry->width; position++) {
			memcpy(&word, chunks[position] + at, 8);
			if (geometry->data_chunks == 1)
				faults |= word ^ first;
			else
				faults |=
					word ^ (position == geometry->data_chunks ? sum : weighed);
		}
	}
	return faults == 0;
}

static const uint8_t *
chunk_at(const struct replay *replay, uint64_t row, int position)
{
	uint8_t role = geometry_role(&replay->geometry, row, (uint8_t)position);

	for (int i = 0; i < replay->members.count; i++)
		if (replay->roles[i] == role)
			return replay->members.members[i].disk.bytes +
			       replay->shape.areas[AREA_DATA - 1].offset_bytes +
			       geometry_offset(&replay->geometry, row, role);
	expect(false, "no member has role %d", role);
	return NULL;
}

static void
check_parity(const struct replay *replay)
{
	const struct geometry *geometry = &replay->geometry;
	const uint8_t *chunks[IRAID_MEMBERS_MAX];

	for (uint64_t row = 0; row < geometry->rows && geometry->redundancy > 0; row++) {
		if (!replay->written[row])
			continue;
		for (int position = 0; position < geometry->width; position++)
			chunks[position] = chunk_at(replay, row, position);
		expect(row_fits(geometry, chunks), "the redundancy of row %llu is wrong",
		       (unsigned long long)row);
	}
}

/* Is a member that is there on its way back? */
static bool
returning(const struct replay *replay, const struct engine_status *status)
{
	for (int i = 0; i < replay->members.count; i++)
		if (replay->members.members[i].present &&
		    status->members[i].state != MEMBER_IN_SYNC)
			return !replay->lose; /* then nothing goes on in the background */
	return false;
}

/* Until nothing is suspect, and all members that are there are in sync. */
static struct engine_status
settle(struct replay *replay)
{
	uint64_t until_ms = replay->now_ms + SETTLE_MS_MAX, degraded_ms = 0;
	struct engine_status status;

	for (;;) {
		if (step(replay))
			continue;
		engine_status(replay->engine, &status);
		if (status.state == VOLUME_ACTIVE && (status.regions_suspect == 0 || replay->lose))
			/* with nothing going on in the background it stays as it is */
			return status;
		if (status.state != VOLUME_DEGRADED || returning(replay, &status))
			degraded_ms = 0;
		else if (degraded_ms == 0)
			degraded_ms = replay->now_ms;
		else if (replay->now_ms > degraded_ms + 1000)
			return status; /* for good: nothing has changed for a second */
		expect(replay->now_ms < until_ms,
		       "the volume does not come to rest: %s, %u regions suspect",
		       volume_state_name(status.state), status.regions_suspect);
	}
}

/* A member dies after writes were acknowledged and before resync is through: they must be readable
 * without it, also where the crash had left wrong parity.
 */
static void
lose_member(struct replay *replay)
{
	int lost = (int)(next_random(&replay->members.random) % (uint64_t)replay->members.count);
	struct superblock superblock;

	expect(superblock_choose(
		       replay->members.members[lost].disk.bytes + LAYOUT_SUPERBLOCK_A_OFFSET,
		       replay->members.members[lost].disk.bytes + LAYOUT_SUPERBLOCK_B_OFFSET,
		       &superblock, NULL) == SUPERBLOCK_OK,
	       "member %d has no superblock", lost);
	members_lose(&replay->members, lost);
	replay->unknown |= 1u << superblock.role;
	replay->lost_after_writes = true;
	replay->tally.lost_later++;
}

static bool
refused(struct replay *replay, enum volume_state state)
{
	uint64_t writes = 0;

	if (state == VOLUME_ACTIVE || state == VOLUME_DEGRADED) {
		expect(geometry_bears(&replay->geometry, replay->untrusted),
		       "the volume was assembled without enough members to trust (mask of the "
		       "others: %x)",
		       replay->untrusted);
		return false;
	}
	expect(!geometry_bears(&replay->geometry, replay->doubtful),
	       "the volume is %s and not assembled", volume_state_name(state));
	for (int i = 0; i < replay->members.count; i++)
		writes += replay->members.members[i].writes;
	expect(writes == 0, "%llu writes to members of a volume that was refused",
	       (unsigned long long)writes);
	replay->tally.refused++;
	return true;
}

/* Another crash while it recovers: some steps after its start. */
static void
crash_again(struct replay *replay)
{
	unsigned int steps = (unsigned int)(next_random(&replay->members.random) % 200);

	replay->tally.again++;
	if (geometry_bears(&replay->geometry, replay->doubtful)) {
		assemble(replay);
		submit_reads(replay);
	}
	while (steps-- > 0)
		step(replay);
	crash_engine(replay);
	replay_look_at_images(replay);
	start_engine(replay);
}

static void
run(struct replay *replay, bool again, bool writes)
{
	struct engine_status status;

	start_engine(replay);
	if (again)
		crash_again(replay);
	if (refused(replay, assemble(replay))) {
		crash_engine(replay);
		return;
	}
	if (writes)
		submit_writes(replay);
	submit_reads(replay);
	drain(replay);
	if (replay->lose && replay->doubtful == 0)
		lose_member(replay);
	status = settle(replay);
	if (status.state == VOLUME_ACTIVE && status.regions_suspect == 0)
		check_parity(replay);
	replay->tally.corrected_rows += status.resync_corrected_rows;
	submit_reads(replay);
	drain(replay);
	if (next_random(&replay->members.random) % 4 == 0)
		stop_engine(replay);
	else
		crash_engine(replay);
}

static const char *
describe(const struct crash *crash, uint64_t number)
{
	static const char *const names[] = {
		[KEEP_NONE] = "none kept",	   [KEEP_ALL] = "all kept",
		[KEEP_ONE] = "one kept",	   [LOSE_ONE] = "one lost",
		[TEAR_FIRST_HALF] = "newest torn", [TEAR_RANDOM] = "newest in pieces",
		[KEEP_RANDOM] = "some kept",
	};
	static char text[200];

	snprintf(text, sizeof(text), "case %llu (%s after entry %zu, %s, %u, absent %d)",
		 (unsigned long long)number, crash->power ? "power lost" : "crash", crash->cut,
		 names[crash->keep], crash->which, crash->absent);
	return text;
}

void
replay_case(struct replay *replay, const struct crash *crash, uint64_t number)
{
	struct members *members = &replay->members;
	bool again, writes;

	case_name = describe(crash, number);
	members->random = replay->seed * 0x10001 + number;
	again = next_random(&members->random) % 8 == 0;
	writes = next_random(&members->random) % 4 == 0;
	members->in_case = true;
	replay->power = crash->power;
	replay->lose = writes && next_random(&members->random) & 1;
	replay->lost_after_writes = false;
	replay->now_ms = 1000;
	replay->unknown = 0;
	memset(replay->flags, 0, replay->regions);
	memset(replay->saw, 0, replay->oracle.sectors * sizeof(*replay->saw));
	for (int i = 0; i < members->count; i++) {
		members->members[i].present = i != crash->absent;
		members->members[i].writes = 0;
	}
	replay_make_images(replay, crash);
	replay_look_at_images(replay);
	run(replay, again, writes);
	members_restore(members);
	members->in_case = false;
	replay->tally.cases++;
	replay->tally.powers += crash->power;
	replay->tally.crashes += !crash->power;
	replay->tally.absents += crash->absent >= 0;
}
