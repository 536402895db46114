/* crash_replay_images.c - the members as one crash may have left them. */
#include "crash_replay_case.h"

#include <stdlib.h>
#include <string.h>

/* --- set-up --- */

void
replay_load(struct replay *replay, char *const *images, int count)
{
	members_init(&replay->members, images, count);
	for (int i = 0; i < count; i++) {
		const uint8_t *bytes = replay->members.members[i].disk.bytes;
		const char *reason = "";

		expect(superblock_choose(bytes + LAYOUT_SUPERBLOCK_A_OFFSET,
					 bytes + LAYOUT_SUPERBLOCK_B_OFFSET, &replay->shape,
					 &reason) == SUPERBLOCK_OK,
		       "%s: %s", images[i], reason);
		replay->roles[i] = replay->shape.role;
	}
	expect(geometry_init(&replay->geometry, replay->shape.level, replay->shape.member_count,
			     replay->shape.chunk_bytes, replay->shape.block_bytes,
			     replay->shape.data_bytes) == 0,
	       "the geometry is wrong");
	expect(replay->shape.member_count == count, "%d images, but %d members", count,
	       replay->shape.member_count);
	replay->members.block_bytes = replay->shape.block_bytes;
	oracle_init(&replay->oracle, &replay->record,
		    geometry_volume_bytes(&replay->geometry) / SECTOR);
	replay->regions = (uint32_t)((replay->geometry.rows + replay->shape.region_rows - 1) /
				     replay->shape.region_rows);
	expect(replay->regions <= LAYOUT_REGIONS_PER_BLOCK, "too many regions for this program");
	replay->saw = calloc(replay->oracle.sectors, sizeof(*replay->saw));
	replay->written = calloc(replay->geometry.rows, sizeof(*replay->written));
	replay->flags = calloc(replay->regions, 1);
	expect(replay->saw != NULL && replay->written != NULL && replay->flags != NULL,
	       "out of memory");
}

/* Row of the chunk with this number on that member. */
static uint64_t
row_of(const struct geometry *geometry, uint8_t role, uint64_t chunk)
{
	if (geometry->level != 10)
		return chunk;
	/* copies are dealt to the members in turn */
	return (chunk * geometry->members + role) / geometry->width;
}

void
replay_prepare(struct replay *replay, uint64_t seed, bool verbose)
{
	uint64_t data = replay->shape.areas[AREA_DATA - 1].offset_bytes;

	replay->seed = seed;
	replay->verbose = verbose;
	for (size_t i = 0; i < replay->record.count; i++) {
		const struct entry *entry = &replay->record.entries[i];

		if (entry->kind != WRITE_BEGINS || entry->offset_bytes < data)
			continue;
		for (uint64_t chunk = (entry->offset_bytes - data) / replay->geometry.chunk_bytes;
		     chunk <= (entry->offset_bytes - data + entry->length_bytes - 1) /
				      replay->geometry.chunk_bytes;
		     chunk++)
			replay->written[row_of(&replay->geometry, replay->roles[entry->member],
					       chunk)] = true;
	}
}

/* --- the images that a crash leaves --- */

static void
keep_part(struct replay *replay, const struct pending *pending, bool first_half)
{
	uint64_t half = pending->length_bytes / SECTOR / 2;

	for (uint64_t n = 0; n < pending->length_bytes / SECTOR; n++)
		if (first_half ? n < half : next_random(&replay->members.random) & 1)
			members_write(&replay->members, pending->member,
				      pending->offset_bytes + n * SECTOR,
				      pending->data + n * SECTOR, SECTOR);
}

static void
keep_whole(struct replay *replay, const struct pending *pending)
{
	members_write(&replay->members, pending->member, pending->offset_bytes, pending->data,
		      pending->length_bytes);
}

/* age: 0 is the newest. */
static void
decide(struct replay *replay, const struct crash *crash, const struct pending *pending,
       unsigned int age)
{
	switch (crash->keep) {
	case KEEP_NONE:
		return;
	case KEEP_ALL:
		keep_whole(replay, pending);
		return;
	case KEEP_ONE:
		if (age == crash->which)
			keep_whole(replay, pending);
		return;
	case LOSE_ONE:
		if (age != crash->which)
			keep_whole(replay, pending);
		return;
	case TEAR_FIRST_HALF:
	case TEAR_RANDOM:
		if (age == 0)
			keep_part(replay, pending, crash->keep == TEAR_FIRST_HALF);
		else
			keep_whole(replay, pending);
		return;
	case KEEP_RANDOM:
		switch (next_random(&replay->members.random) % 3) {
		case 0:
			keep_whole(replay, pending);
			return;
		case 1:
			keep_part(replay, pending, false);
			return;
		default:
			return;
		}
	}
}

void
replay_make_images(struct replay *replay, const struct crash *crash)
{
	const struct pendings *pendings = &replay->pendings;
	unsigned int left = 0;

	for (size_t i = 0; i < pendings->count; i++)
		left += pendings->list[i].fate == FATE_IN_FLIGHT ||
			(crash->power && pendings->list[i].fate == FATE_CACHED);
	for (size_t i = 0; i < pendings->count; i++) {
		const struct pending *pending = &pendings->list[i];

		if (pending->fate == FATE_IN_FLIGHT ||
		    (crash->power && pending->fate == FATE_CACHED))
			decide(replay, crash, pending, --left);
		else
			keep_whole(replay, pending);
	}
}

void
replay_look_at_images(struct replay *replay)
{
	const struct geometry *geometry = &replay->geometry;
	struct superblock found, newest = { 0 };
	uint32_t present = 0, doubts = 0;
	bool logged = true;
	uint64_t key = 0;
	uint8_t flags[LAYOUT_REGIONS_PER_BLOCK];

	for (int i = 0; i < replay->members.count; i++) {
		const uint8_t *bytes = replay->members.members[i].disk.bytes;
		const char *reason = "";

		if (!replay->members.members[i].present)
			continue;
		expect(superblock_choose(bytes + LAYOUT_SUPERBLOCK_A_OFFSET,
					 bytes + LAYOUT_SUPERBLOCK_B_OFFSET, &found,
					 &reason) == SUPERBLOCK_OK,
		       "member %d has no superblock any more: %s", i, reason);
		logged &= found.log_key != 0 && (present == 0 || found.log_key == key);
		key = found.log_key;
		present |= 1u << found.role;
		/* The newest may be on its writer alone, and then was never in force: what others
		 * say of the same epoch may be what rules.
		 */
		if (found.epoch > newest.epoch)
			doubts = 0;
		for (int role = 0; found.epoch >= newest.epoch && role < geometry->members; role++)
			if (found.member_states[role] != MEMBER_IN_SYNC)
				doubts |= 1u << role;
		if (found.epoch > newest.epoch ||
		    (found.epoch == newest.epoch && found.event > newest.event))
			newest = found;
		map_block_decode(bytes + LAYOUT_MAP_OFFSET, replay->regions, 0,
				 replay->shape.volume_uuid, flags);
		for (uint32_t r = 0; r < replay->regions; r++)
			replay->flags[r] |= flags[r];
	}
	if (newest.owner[0] != '\0')
		memcpy(replay->owner, newest.owner, sizeof(replay->owner));
	/* It ran the volume before all that was recorded; what it stopped it remembers. */
	replay->epoch_seen = newest.owner[0] != '\0' ? replay->shape.epoch : newest.epoch;
	replay->epoch_tried = newest.epoch;
	replay->untrusted = 0;
	for (int role = 0; role < geometry->members; role++)
		if (!(present & 1u << role) || newest.member_states[role] != MEMBER_IN_SYNC)
			replay->untrusted |= 1u << role;
	replay->doubtful = replay->untrusted | doubts;
	/* What was being written is in the write log, and all others know what it stands for. */
	logged &= newest.log_proven || newest.log_roles == replay->untrusted;
	if (!logged)
		replay->unknown |= replay->doubtful;
}

/* --- is the record complete? --- */

/* Where a write never got an answer nor was looked after, its bytes may be either. */
static bool
undecided(const struct replay *replay, int member, uint64_t sector)
{
	for (size_t i = 0; i < replay->pendings.count; i++) {
		const struct pending *pending = &replay->pendings.list[i];

		if (pending->fate == FATE_IN_FLIGHT && pending->member == member &&
		    sector >= pending->offset_bytes / SECTOR &&
		    sector < (pending->offset_bytes + pending->length_bytes) / SECTOR)
			return true;
	}
	return false;
}

void
replay_check_end(struct replay *replay, char *const *images)
{
	struct members real;

	for (size_t i = 0; i < replay->pendings.count; i++)
		if (replay->pendings.list[i].fate != FATE_IN_FLIGHT)
			keep_whole(replay, &replay->pendings.list[i]);
	members_init(&real, images, replay->members.count);
	for (int i = 0; i < real.count; i++) {
		const struct disk *have = &replay->members.members[i].disk,
				  *want = &real.members[i].disk;

		expect(have->size_bytes == want->size_bytes, "%s: another size", images[i]);
		for (uint64_t s = 0; s < want->size_bytes / SECTOR; s++)
			expect(memcmp(have->bytes + s * SECTOR, want->bytes + s * SECTOR, SECTOR) ==
					       0 ||
				       undecided(replay, i, s),
			       "the record is not complete: sector %llu of member %d is another "
			       "one in %s",
			       (unsigned long long)s, i, images[i]);
	}
}
