/* disk.c - see disk.h.  Page memory comes from a pool of this process and is used again, so that
 * thousands of short lives don't cost as many page faults.
 */
#include "disk.h"

#include "schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES (2u << 20) /* taken from the system at a time: one huge page */
#define POOL_PAGES (POOL_BYTES / DISK_PAGE)

/* Pages that are free, the one that was given back last on top.  Kept apart from them: a page that
 * is taken to be written whole is not looked at before.
 */
static uint8_t **pool;
static size_t pool_count, pool_capacity;

static void
pool_grow(void)
{
	uint8_t *pages = aligned_alloc(POOL_BYTES, POOL_BYTES);

	assert(pages != NULL);
	madvise(pages, POOL_BYTES, MADV_HUGEPAGE);
	pool_capacity += POOL_PAGES;
	pool = realloc(pool, pool_capacity * sizeof(*pool));
	assert(pool != NULL);
	for (uint32_t i = POOL_PAGES; i > 0; i--)
		pool[pool_count++] = pages + (size_t)(i - 1) * DISK_PAGE;
}

static uint8_t *
page_take(void)
{
	if (pool_count == 0)
		pool_grow();
	return pool[--pool_count];
}

static void
page_give(uint8_t *bytes)
{
	if (bytes != NULL)
		pool[pool_count++] = bytes;
}

void
disk_init(struct disk *disk, uint64_t bytes, uint32_t block_bytes)
{
	*disk = (struct disk){
		.bytes = bytes,
		.block_bytes = block_bytes,
		.write_cache = true,
		.rubbish_from = UINT64_MAX,
		.pages = calloc(bytes / DISK_PAGE, sizeof(struct disk_page)),
	};
	assert(disk->pages != NULL && bytes % DISK_PAGE == 0);
}

void
disk_wipe(struct disk *disk)
{
	for (uint64_t i = 0; i < disk->bytes / DISK_PAGE; i++) {
		page_give(disk->pages[i].visible);
		page_give(disk->pages[i].stable);
		disk->pages[i] = (struct disk_page){ NULL, NULL, 0 };
	}
	disk->dirty_count = 0;
	disk->bad_count = 0;
	disk->cured_count = 0;
	disk->stuck_count = 0;
	disk->unwritable_count = 0;
}

void
disk_free(struct disk *disk)
{
	disk_wipe(disk);
	free(disk->pages);
	free(disk->dirty);
	*disk = (struct disk){ .bytes = 0 };
}

/* Rubbish is made by its place alone, in eights of bytes. */
static void
rubbish(uint64_t start, uint8_t *into, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, start += 0x9E3779B97F4A7C15ull) {
		const uint64_t word = start ^ start >> 29;

		memcpy(into + 8 * i, &word, 8);
	}
}

static void
never_written(const struct disk *disk, uint64_t page, uint32_t from, uint8_t *into, uint32_t length)
{
	const uint64_t start =
		(random_stream(disk->rubbish_seed, page) + from / 8) * 0x9E3779B97F4A7C15ull;
	uint8_t bytes[DISK_PAGE + 16];

	if (page * DISK_PAGE < disk->rubbish_from) {
		memset(into, 0, length);
	} else if (from % 8 == 0 && length % 8 == 0) {
		rubbish(start, into, length / 8);
	} else {
		rubbish(start, bytes, (from % 8 + length + 7) / 8);
		memcpy(into, bytes + from % 8, length);
	}
}

static void
read_page(const struct disk *disk, uint64_t page, uint32_t from, uint8_t *into, uint32_t length)
{
	if (disk->pages[page].visible != NULL)
		memcpy(into, disk->pages[page].visible + from, length);
	else
		never_written(disk, page, from, into, length);
}

const uint8_t *
disk_view(const struct disk *disk, uint64_t offset_bytes, uint32_t length_bytes, uint8_t *scratch)
{
	const uint64_t page = offset_bytes / DISK_PAGE;
	const uint32_t from = (uint32_t)(offset_bytes % DISK_PAGE);

	assert(from + length_bytes <= DISK_PAGE && page < disk->bytes / DISK_PAGE);
	if (disk->pages[page].visible != NULL)
		return disk->pages[page].visible + from;
	never_written(disk, page, from, scratch, length_bytes);
	return scratch;
}

void
disk_read(const struct disk *disk, uint64_t offset_bytes, void *into, uint64_t length_bytes)
{
	uint8_t *out = into;

	assert(offset_bytes + length_bytes <= disk->bytes);
	while (length_bytes > 0) {
		uint32_t from = (uint32_t)(offset_bytes % DISK_PAGE);
		uint32_t step = DISK_PAGE - from;

		if (step > length_bytes)
			step = (uint32_t)length_bytes;
		read_page(disk, offset_bytes / DISK_PAGE, from, out, step);
		out += step;
		offset_bytes += step;
		length_bytes -= step;
	}
}

void
disk_read_iov(const struct disk *disk, uint64_t offset_bytes, const struct iovec *iov, int count)
{
	for (int i = 0; i < count; i++) {
		disk_read(disk, offset_bytes, iov[i].iov_base, iov[i].iov_len);
		offset_bytes += iov[i].iov_len;
	}
}

/* The page is about to be written with the cache on: what the medium holds stays in a copy.  whole:
 * nothing is left of what is visible.
 */
static void
keep_stable(struct disk *disk, uint64_t index, bool whole)
{
	struct disk_page *page = &disk->pages[index];

	if (page->stable != NULL)
		return;
	page->stable = page->visible;
	page->visible = page_take();
	if (!whole)
		memcpy(page->visible, page->stable, DISK_PAGE);
	if (disk->dirty_count == disk->dirty_capacity) {
		disk->dirty_capacity = disk->dirty_capacity ? 2 * disk->dirty_capacity : 256;
		disk->dirty = realloc(disk->dirty, disk->dirty_capacity * sizeof(*disk->dirty));
		assert(disk->dirty != NULL);
	}
	disk->dirty[disk->dirty_count++] = (uint32_t)index;
}

static uint8_t
sectors_mask(uint32_t from, uint32_t length)
{
	return (uint8_t)(((1u << (length / DISK_SECTOR)) - 1) << (from / DISK_SECTOR));
}

static void
write_page(struct disk *disk, uint64_t index, uint32_t from, const uint8_t *data, uint32_t length,
	   bool through)
{
	struct disk_page *page = &disk->pages[index];

	if (page->visible == NULL) {
		page->visible = page_take();
		if (length < DISK_PAGE || !through)
			never_written(disk, index, 0, page->visible, DISK_PAGE);
	}
	if (!through)
		keep_stable(disk, index, length == DISK_PAGE);
	memcpy(page->visible + from, data, length);
	if (!through) {
		page->unflushed |= sectors_mask(from, length);
	} else if (page->stable != NULL) {
		memcpy(page->stable + from, data, length);
		page->unflushed &= (uint8_t)~sectors_mask(from, length);
	}
}

/* Once: a stuck sector is written again and again. */
static void
note_cured(struct disk *disk, uint64_t offset_bytes)
{
	for (int i = 0; i < disk->cured_count; i++)
		if (disk->cured[i] == offset_bytes)
			return;
	assert(disk->cured_count < DISK_BAD_MAX);
	disk->cured[disk->cured_count++] = offset_bytes;
}

static void
cure(struct disk *disk, uint64_t offset_bytes, uint64_t length_bytes, bool through)
{
	for (int i = 0; through && i < disk->cured_count;) {
		if (disk->cured[i] >= offset_bytes && disk->cured[i] < offset_bytes + length_bytes)
			disk->cured[i] = disk->cured[--disk->cured_count];
		else
			i++;
	}
	for (int i = 0; i < disk->bad_count;) {
		if (disk->bad[i] < offset_bytes || disk->bad[i] >= offset_bytes + length_bytes) {
			i++;
			continue;
		}
		if (!through)
			note_cured(disk, disk->bad[i]);
		disk->bad[i] = disk->bad[--disk->bad_count];
	}
	for (int i = 0; i < disk->stuck_count; i++)
		if (!disk_is_damaged(disk, disk->stuck[i], DISK_SECTOR))
			disk->bad[disk->bad_count++] = disk->stuck[i];
}

static void
mark_bad(struct disk *disk, uint64_t offset_bytes)
{
	assert(disk->bad_count < DISK_BAD_MAX);
	if (!disk_is_damaged(disk, offset_bytes, DISK_SECTOR))
		disk->bad[disk->bad_count++] = offset_bytes;
}

/* What cured the sector was lost with the cache. */
static void
uncure(struct disk *disk, uint64_t offset_bytes)
{
	for (int i = 0; i < disk->cured_count; i++)
		if (disk->cured[i] == offset_bytes)
			mark_bad(disk, offset_bytes);
}

void
disk_write(struct disk *disk, uint64_t offset_bytes, const void *from, uint64_t length_bytes,
	   bool through)
{
	const uint8_t *data = from;

	assert(offset_bytes % DISK_SECTOR == 0 && length_bytes % DISK_SECTOR == 0);
	assert(offset_bytes + length_bytes <= disk->bytes);
	if (disk->bad_count + disk->cured_count > 0)
		cure(disk, offset_bytes, length_bytes, through || !disk->write_cache);
	while (length_bytes > 0) {
		uint32_t start = (uint32_t)(offset_bytes % DISK_PAGE);
		uint32_t step = DISK_PAGE - start;

		if (step > length_bytes)
			step = (uint32_t)length_bytes;
		write_page(disk, offset_bytes / DISK_PAGE, start, data, step,
			   through || !disk->write_cache);
		data += step;
		offset_bytes += step;
		length_bytes -= step;
	}
}

void
disk_flush(struct disk *disk)
{
	for (uint32_t i = 0; i < disk->dirty_count; i++) {
		struct disk_page *page = &disk->pages[disk->dirty[i]];

		page_give(page->stable);
		page->stable = NULL;
		page->unflushed = 0;
	}
	disk->dirty_count = 0;
	disk->cured_count = 0;
}

static void
drop_block(struct disk *disk, uint32_t index, uint32_t at,
	   void (*lost)(void *owner, uint64_t offset_bytes), void *owner)
{
	struct disk_page *page = &disk->pages[index];

	uncure(disk, (uint64_t)index * DISK_PAGE + at);
	if (memcmp(page->visible + at, page->stable + at, DISK_SECTOR) == 0)
		return;
	memcpy(page->visible + at, page->stable + at, DISK_SECTOR);
	if (lost != NULL)
		lost(owner, (uint64_t)index * DISK_PAGE + at);
}

void
disk_power_loss(struct disk *disk, uint64_t *random, uint64_t kept_of_16,
		void (*lost)(void *owner, uint64_t offset_bytes), void *owner)
{
	for (uint32_t i = 0; i < disk->dirty_count; i++) {
		const uint32_t index = disk->dirty[i];
		bool kept = false;

		for (uint32_t at = 0; at < DISK_PAGE; at += DISK_SECTOR) {
			if (at % disk->block_bytes == 0)
				kept = fake_random(random) % 16 < kept_of_16;
			if (!kept && (disk->pages[index].unflushed >> (at / DISK_SECTOR)) & 1)
				drop_block(disk, index, at, lost, owner);
		}
	}
	disk_flush(disk);
}

void
disk_damage(struct disk *disk, uint64_t offset_bytes)
{
	offset_bytes -= offset_bytes % DISK_SECTOR;
	if (disk->bad_count + disk->cured_count < DISK_BAD_MAX)
		mark_bad(disk, offset_bytes);
}

void
disk_destroy(struct disk *disk, uint64_t offset_bytes)
{
	uint64_t state = random_stream(disk->rubbish_seed, offset_bytes);
	uint8_t rubbish[DISK_SECTOR];

	if (disk->bad_count + disk->cured_count >= DISK_BAD_MAX)
		return;
	offset_bytes -= offset_bytes % DISK_SECTOR;
	for (unsigned int i = 0; i < DISK_SECTOR; i++)
		rubbish[i] = (uint8_t)fake_random(&state);
	disk_write(disk, offset_bytes, rubbish, DISK_SECTOR, true);
	mark_bad(disk, offset_bytes);
}

bool
disk_is_damaged(const struct disk *disk, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (int i = 0; i < disk->bad_count; i++)
		if (disk->bad[i] >= offset_bytes && disk->bad[i] < offset_bytes + length_bytes)
			return true;
	return false;
}

void
disk_make_stuck(struct disk *disk, uint64_t offset_bytes)
{
	if (disk->stuck_count == DISK_STUCK_MAX ||
	    disk->bad_count + disk->cured_count + DISK_STUCK_MAX >= DISK_BAD_MAX)
		return;
	disk->stuck[disk->stuck_count++] = offset_bytes;
	mark_bad(disk, offset_bytes);
}

void
disk_make_unwritable(struct disk *disk, uint64_t offset_bytes)
{
	if (disk->unwritable_count < DISK_STUCK_MAX)
		disk->unwritable[disk->unwritable_count++] = offset_bytes;
}

void
disk_loosen(struct disk *disk)
{
	disk->stuck_count = 0;
	disk->unwritable_count = 0;
}

bool
disk_is_unwritable(const struct disk *disk, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (int i = 0; i < disk->unwritable_count; i++)
		if (disk->unwritable[i] >= offset_bytes &&
		    disk->unwritable[i] < offset_bytes + length_bytes)
			return true;
	return false;
}

void
disk_copy(struct disk *disk, const struct disk *other)
{
	assert(disk->bytes == other->bytes && disk->block_bytes == other->block_bytes);
	disk_wipe(disk);
	disk->rubbish_from = other->rubbish_from;
	disk->rubbish_seed = other->rubbish_seed;
	for (uint64_t i = 0; i < disk->bytes / DISK_PAGE; i++)
		if (other->pages[i].visible != NULL) {
			disk->pages[i].visible = page_take();
			memcpy(disk->pages[i].visible, other->pages[i].visible, DISK_PAGE);
		}
	memcpy(disk->bad, other->bad, sizeof(disk->bad));
	disk->bad_count = other->bad_count;
}
