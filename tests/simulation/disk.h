/* disk.h - the medium behind a fake member: sparse, with a volatile cache and unreadable sectors.
 *
 * Pages of 4 KiB exist from the first write on.  Before that the data area reads as rubbish made
 * from the disk's seed (or as zeros), everything else as zeros; so a large disk costs nothing.
 * What was written and not flushed has a second copy of its page: what the medium holds if the
 * power goes.
 */
#ifndef IRAID_DISK_H
#define IRAID_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define DISK_SECTOR 512u
#define DISK_PAGE 4096u
#define DISK_SECTORS_PER_PAGE (DISK_PAGE / DISK_SECTOR)
#define DISK_BAD_MAX 256
#define DISK_STUCK_MAX 8

struct disk_page {
	uint8_t *visible;  /* what reads return; NULL: never written */
	uint8_t *stable;   /* what survives a loss of power, if that differs; else NULL */
	uint8_t unflushed; /* by sector */
};

struct disk {
	uint64_t bytes;
	uint32_t block_bytes; /* written whole or not at all */
	bool write_cache;
	/* byte where never-written content is rubbish; UINT64_MAX: zeros */
	uint64_t rubbish_from;
	uint64_t rubbish_seed;
	struct disk_page *pages;
	uint32_t *dirty; /* pages with a stable copy */
	uint32_t dirty_count, dirty_capacity;
	uint64_t bad[DISK_BAD_MAX]; /* offsets of unreadable sectors */
	int bad_count;
	/* by a write that is in the cache only: unreadable again if that is lost */
	uint64_t cured[DISK_BAD_MAX];
	int cured_count;
	uint64_t stuck[DISK_STUCK_MAX]; /* sectors that stay unreadable whatever is written there */
	int stuck_count;
	uint64_t unwritable[DISK_STUCK_MAX]; /* sectors whose writes are refused */
	int unwritable_count;
};

void disk_init(struct disk *disk, uint64_t bytes, uint32_t block_bytes);
void disk_free(struct disk *disk);

/* Everything was never written again (a new disk), with the same size. */
void disk_wipe(struct disk *disk);

void disk_read(const struct disk *disk, uint64_t offset_bytes, void *into, uint64_t length_bytes);
/* The same of a part of one page, without a copy where that can be: bytes that stay until the next
 * write, or scratch.
 */
const uint8_t *
disk_view(const struct disk *disk, uint64_t offset_bytes, uint32_t length_bytes, uint8_t *scratch);
void
disk_read_iov(const struct disk *disk, uint64_t offset_bytes, const struct iovec *iov, int count);

/* Whole sectors.  through: to the medium at once (FUA).  Cures unreadable sectors it covers. */
void disk_write(struct disk *disk, uint64_t offset_bytes, const void *from, uint64_t length_bytes,
		bool through);

/* SYNCHRONIZE CACHE. */
void disk_flush(struct disk *disk);

/* The power goes: each unflushed block is kept in kept_of_16 of 16 cases.  lost is told of each
 * sector whose content changed by that.
 */
void disk_power_loss(struct disk *disk, uint64_t *random, uint64_t kept_of_16,
		     void (*lost)(void *owner, uint64_t offset_bytes), void *owner);

/* Make the sector at offset_bytes unreadable until it is written; and also destroy what it held. */
void disk_damage(struct disk *disk, uint64_t offset_bytes);
void disk_destroy(struct disk *disk, uint64_t offset_bytes);
/* Sectors that can't be read, or refuse to be written, for good; and an end of that. */
void disk_make_stuck(struct disk *disk, uint64_t offset_bytes);
void disk_make_unwritable(struct disk *disk, uint64_t offset_bytes);
void disk_loosen(struct disk *disk);
bool disk_is_unwritable(const struct disk *disk, uint64_t offset_bytes, uint64_t length_bytes);

/* The disk holds what the other reads as, and nothing in its cache. */
void disk_copy(struct disk *disk, const struct disk *other);

bool disk_is_damaged(const struct disk *disk, uint64_t offset_bytes, uint64_t length_bytes);

#endif
