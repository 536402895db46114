/* crash_replay_record.c - the record: what each entry does to the images and to what the load
 * knows.
 */
#include "crash_replay.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const void *
map_file(const char *path, size_t *size_bytes)
{
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *mapped;

	expect(fd >= 0 && fstat(fd, &stat) == 0, "%s can't be opened", path);
	*size_bytes = (size_t)stat.st_size;
	expect(*size_bytes > 0, "%s is empty", path);
	mapped = mmap(NULL, *size_bytes, PROT_READ, MAP_SHARED, fd, 0);
	expect(mapped != MAP_FAILED, "%s can't be mapped", path);
	close(fd);
	return mapped;
}

void
record_load(struct record *record, const char *path)
{
	char data_path[4096];
	size_t size_bytes;

	record->entries = map_file(path, &size_bytes);
	record->count = size_bytes / sizeof(struct entry);
	expect(size_bytes % sizeof(struct entry) == 0, "%s is cut off", path);
	snprintf(data_path, sizeof(data_path), "%s.data", path);
	record->data = map_file(data_path, &record->data_bytes);
	for (size_t i = 0; i < record->count; i++) {
		const struct entry *entry = &record->entries[i];

		if (entry->kind == WRITE_BEGINS || entry->kind == WRITE_RESOLVED)
			expect(entry->data + entry->length_bytes <= record->data_bytes,
			       "entry %zu has no data", i);
	}
}

/* --- the members' side --- */

static struct pending *
find(struct pendings *pendings, uint64_t id)
{
	for (size_t i = 0; i < pendings->count; i++)
		if (pendings->list[i].id == id)
			return &pendings->list[i];
	return NULL;
}

static void
begin(struct pendings *pendings, const struct record *record, const struct entry *entry)
{
	if (pendings->count == pendings->room) {
		pendings->room = pendings->room * 2 + 64;
		pendings->list = realloc(pendings->list, pendings->room * sizeof(*pendings->list));
		expect(pendings->list != NULL, "out of memory");
	}
	pendings->list[pendings->count++] = (struct pending){
		.fate = FATE_IN_FLIGHT,
		.member = (int)entry->member,
		.id = entry->id,
		.offset_bytes = entry->offset_bytes,
		.length_bytes = entry->length_bytes,
		.data = record->data + entry->data,
		.fua = entry->flags & ENTRY_FUA,
	};
}

/* A flush covers what had ended before it began. */
static void
synced(struct pendings *pendings, const struct record *record, size_t index)
{
	const struct entry *end = &record->entries[index];
	size_t began = index;

	while (began > 0 && !(record->entries[began].kind == SYNC_BEGINS &&
			      record->entries[began].id == end->id))
		began--;
	for (size_t i = 0; i < pendings->count; i++) {
		struct pending *pending = &pendings->list[i];

		if (pending->member == (int)end->member && pending->fate == FATE_CACHED &&
		    pending->ended < began)
			pending->fate = FATE_SAFE;
	}
}

static bool
overlap(const struct pending *a, const struct pending *b)
{
	return a->member == b->member && a->offset_bytes < b->offset_bytes + b->length_bytes &&
	       b->offset_bytes < a->offset_bytes + a->length_bytes;
}

/* What is safe, and lies over nothing older that is not, becomes part of the images. */
static void
settle(struct pendings *pendings, struct members *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < pendings->count; i++) {
		struct pending *pending = &pendings->list[i];
		bool blocked = pending->fate == FATE_IN_FLIGHT || pending->fate == FATE_CACHED;

		for (size_t j = 0; j < kept && !blocked; j++)
			blocked = overlap(&pendings->list[j], pending);
		if (blocked)
			pendings->list[kept++] = *pending;
		else if (pending->fate == FATE_SAFE)
			members_write(all, pending->member, pending->offset_bytes, pending->data,
				      pending->length_bytes);
	}
	pendings->count = kept;
}

void
pendings_apply(struct pendings *pendings, struct members *all, const struct record *record,
	       size_t index)
{
	const struct entry *entry = &record->entries[index];
	struct pending *pending;

	switch (entry->kind) {
	case WRITE_BEGINS:
		begin(pendings, record, entry);
		return;
	case WRITE_ENDS:
	case WRITE_RESOLVED:
		pending = find(pendings, entry->id);
		expect(pending != NULL, "entry %zu ends a write that never began", index);
		pending->ended = index;
		if (entry->flags & ENTRY_FAILED)
			pending->fate = FATE_REFUSED;
		else
			pending->fate =
				pending->fua && entry->kind == WRITE_ENDS ? FATE_SAFE : FATE_CACHED;
		if (entry->kind == WRITE_RESOLVED)
			pending->data = record->data + entry->data;
		break;
	case SYNC_ENDS:
		if (!(entry->flags & ENTRY_FAILED))
			synced(pendings, record, index);
		break;
	default:
		return;
	}
	settle(pendings, all);
}

/* --- the load's side --- */

static uint32_t
mixed(uint64_t sector, uint32_t stamp)
{
	uint64_t x = sector * 0x9E3779B97F4A7C15ull + (uint64_t)stamp * 0xC2B2AE3D27D4EB4Full;

	/* A product is no XOR: parity that is wrong doesn't make a stamp that looks right. */
	return (uint32_t)((x ^ x >> 29) * 0xBF58476D1CE4E5B9ull >> 32);
}

void
stamp_fill(uint8_t *content, uint64_t sector, uint32_t stamp)
{
	const uint32_t words[2] = { mixed(sector, stamp), stamp };

	for (unsigned int at = 0; at < SECTOR; at += sizeof(words))
		memcpy(content + at, words, sizeof(words));
}

void
oracle_init(struct oracle *oracle, const struct record *record, uint64_t sectors)
{
	*oracle = (struct oracle){
		.sectors = sectors,
		.stamps = calloc(sectors, sizeof(*oracle->stamps)),
		.stamp_count = calloc(sectors, sizeof(*oracle->stamp_count)),
		.acknowledged = calloc(sectors, sizeof(*oracle->acknowledged)),
		.flushed = calloc(sectors, sizeof(*oracle->flushed)),
		.passed_over = calloc(sectors, sizeof(*oracle->passed_over)),
		.used = calloc(sectors, sizeof(*oracle->used)),
		.ranges = calloc(sectors, sizeof(*oracle->ranges)),
	};
	for (size_t i = 0; i < record->count; i++) {
		const struct entry *entry = &record->entries[i];

		if (entry->kind != LOAD_WRITE_BEGINS)
			continue;
		expect((entry->offset_bytes + entry->length_bytes) / SECTOR <= sectors,
		       "a write of the load leaves the volume");
		for (uint64_t n = 0; n < entry->length_bytes / SECTOR; n++)
			oracle->used[entry->offset_bytes / SECTOR + n] = true;
		if (entry->id >= oracle->write_room)
			oracle->write_room = entry->id + 1;
	}
	oracle->writes = calloc(oracle->write_room, sizeof(*oracle->writes));
	for (uint64_t s = 0; s < sectors; s++) {
		if (!oracle->used[s])
			continue;
		if (s == 0 || !oracle->used[s - 1])
			oracle->ranges[oracle->range_count++][0] = s;
		oracle->ranges[oracle->range_count - 1][1]++;
	}
}

static void
add_stamp(struct oracle *oracle, uint64_t sector, uint32_t stamp)
{
	uint16_t count = oracle->stamp_count[sector];

	if (count % 4 == 0) {
		oracle->stamps[sector] =
			realloc(oracle->stamps[sector], (count + 4u) * sizeof(uint32_t));
		expect(oracle->stamps[sector] != NULL, "out of memory");
	}
	oracle->stamps[sector][count] = stamp;
	oracle->stamp_count[sector]++;
}

/* Those from `first` to `last`. */
static void
drop_stamps(struct oracle *oracle, uint64_t sector, uint32_t first, uint32_t last)
{
	uint16_t kept = 0;

	for (uint16_t i = 0; i < oracle->stamp_count[sector]; i++) {
		uint32_t stamp = oracle->stamps[sector][i];

		if (stamp < first || stamp > last)
			oracle->stamps[sector][kept++] = stamp;
	}
	oracle->stamp_count[sector] = kept;
	/* add_stamp() grows at multiples of four only. */
	oracle->stamps[sector] =
		realloc(oracle->stamps[sector], (kept / 4u * 4u + 4u) * sizeof(uint32_t));
}

static void
raise_flushed(struct oracle *oracle, uint64_t sector, uint32_t stamp)
{
	if (stamp <= oracle->flushed[sector])
		return;
	oracle->flushed[sector] = stamp;
	drop_stamps(oracle, sector, 0, stamp - 1);
}

static void
write_ended(struct oracle *oracle, const struct entry *end)
{
	const struct entry *write = end->id < oracle->write_room ? oracle->writes[end->id] : NULL;

	expect(write != NULL, "the load's write %llu ended and never began",
	       (unsigned long long)end->id);
	if (end->flags & ENTRY_FAILED)
		return;
	for (uint64_t n = 0; n < write->length_bytes / SECTOR; n++) {
		uint64_t sector = write->offset_bytes / SECTOR + n;

		oracle->acknowledged[sector] = (uint32_t)write->id;
		if (write->flags & ENTRY_FUA)
			raise_flushed(oracle, sector, (uint32_t)write->id);
	}
}

static uint32_t *
copy_of(const struct oracle *oracle, const uint32_t *stamps)
{
	uint32_t *copy = malloc(oracle->sectors * sizeof(*copy));

	expect(copy != NULL, "out of memory");
	return memcpy(copy, stamps, oracle->sectors * sizeof(*copy));
}

static void
flush_began(struct oracle *oracle, uint64_t id)
{
	struct flush *flush = malloc(sizeof(*flush));

	expect(flush != NULL, "out of memory");
	*flush = (struct flush){
		.id = id,
		.acknowledged = copy_of(oracle, oracle->acknowledged),
		.passed_over = copy_of(oracle, oracle->passed_over),
		.next = oracle->flushes,
	};
	oracle->flushes = flush;
}

static void
flush_ended(struct oracle *oracle, const struct entry *end)
{
	struct flush **link = &oracle->flushes, *flush;

	while (*link != NULL && (*link)->id != end->id)
		link = &(*link)->next;
	flush = *link;
	expect(flush != NULL, "a flush ended that never began");
	*link = flush->next;
	for (uint64_t s = 0; s < oracle->sectors && !(end->flags & ENTRY_FAILED); s++) {
		if (!oracle->used[s])
			continue;
		raise_flushed(oracle, s, flush->acknowledged[s]);
		if (flush->passed_over[s] > flush->acknowledged[s])
			drop_stamps(oracle, s, flush->acknowledged[s] + 1, flush->passed_over[s]);
	}
	free(flush->acknowledged);
	free(flush->passed_over);
	free(flush);
}

/* No write is under way: a gateway died, and this is the first read since. */
static void
saw(struct oracle *oracle, uint64_t sector, uint32_t stamp)
{
	uint16_t count = oracle->stamp_count[sector];

	oracle->acknowledged[sector] = stamp;
	if (count > 0)
		oracle->passed_over[sector] = oracle->stamps[sector][count - 1];
}

void
oracle_apply(struct oracle *oracle, const struct entry *entry)
{
	uint64_t first = entry->offset_bytes / SECTOR;

	switch (entry->kind) {
	case LOAD_WRITE_BEGINS:
		oracle->writes[entry->id] = entry;
		for (uint64_t n = 0; n < entry->length_bytes / SECTOR; n++)
			add_stamp(oracle, first + n, (uint32_t)entry->id);
		break;
	case LOAD_WRITE_ENDS:
		write_ended(oracle, entry);
		break;
	case LOAD_FLUSH_BEGINS:
		flush_began(oracle, entry->id);
		break;
	case LOAD_FLUSH_ENDS:
		flush_ended(oracle, entry);
		break;
	case LOAD_SAW:
		saw(oracle, first, (uint32_t)entry->id);
		break;
	default:
		break;
	}
}

const char *
oracle_judge(const struct oracle *oracle, uint64_t sector, const uint8_t *content, bool power,
	     uint32_t *stamp)
{
	uint8_t wanted[SECTOR];

	memcpy(stamp, content + 4, 4);
	stamp_fill(wanted, sector, *stamp);
	if (memcmp(wanted, content, SECTOR) != 0)
		return "holds rubbish";
	for (uint16_t i = 0; i < oracle->stamp_count[sector]; i++) {
		if (oracle->stamps[sector][i] != *stamp)
			continue;
		if (power || *stamp == oracle->acknowledged[sector])
			return NULL;
		if (*stamp < oracle->acknowledged[sector])
			return "holds an older write than the last acknowledged one";
		return *stamp <= oracle->passed_over[sector]
			       ? "holds a write that an earlier read did not find"
			       : NULL;
	}
	return *stamp < oracle->flushed[sector] ? "holds an older write than the last flushed one"
						: "holds a write that can't be there";
}
