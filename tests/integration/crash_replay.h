/* crash_replay.h - what the parts of crash_replay share; crash_replay.c says what it is for. */
#ifndef CRASH_REPLAY_H
#define CRASH_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/life/engine.h"
#include "engine/life/status.h"

#define SECTOR 512u
#define PAGE 4096u

/* --- the record: recorder.py writes it --- */

enum entry_kind {
	WRITE_BEGINS = 1, /* to a member: about to reach it */
	WRITE_ENDS = 2,
	SYNC_BEGINS = 3,
	SYNC_ENDS = 4,
	WRITE_RESOLVED = 5,	/* its session ended first; the data is what the member holds now */
	LOAD_WRITE_BEGINS = 10, /* id: the number its sectors are stamped with */
	LOAD_WRITE_ENDS = 11,
	LOAD_FLUSH_BEGINS = 12,
	LOAD_FLUSH_ENDS = 13,
	/* a sector at offset holds the stamp id, and nothing else may come back */
	LOAD_SAW = 14,
};
#define ENTRY_FUA 1u
#define ENTRY_FAILED 2u

struct entry {
	uint16_t kind;
	uint16_t flags;
	uint32_t member; /* index of the image */
	uint64_t id;
	uint64_t offset_bytes; /* on the member, or of the volume */
	uint64_t length_bytes;
	uint64_t data; /* position in the data file */
};

struct record {
	const struct entry *entries;
	size_t count;
	const uint8_t *data;
	size_t data_bytes;
};

void record_load(struct record *record, const char *path); /* PATH and PATH with ".data" */

/* --- members: images in memory that can be put back to what they were --- */

struct disk {
	uint8_t *bytes;
	uint64_t size_bytes;
	bool *saved;   /* by page: its old content is in the log */
	bool *touched; /* by page: was ever written by the record */
};

struct member {
	struct backend backend; /* must be first */
	struct disk disk;
	char label[16];
	bool present;
	bool open_now, opening, closing;
	struct backend_io *queue, **queue_tail;
	bool diverted_any;
	uint64_t writes; /* since the case began */
};

struct members {
	struct member members[IRAID_MEMBERS_MAX];
	int count;
	uint32_t block_bytes;
	uint64_t random;
	bool in_case; /* writes are remembered, members_restore() undoes them */
	struct {
		int member;
		uint64_t page;
		uint8_t *content;
	} * undo;
	size_t undo_count, undo_room;
};

uint64_t next_random(uint64_t *state);
void members_init(struct members *all, char *const *images, int count);
void members_write(struct members *all, int member, uint64_t offset_bytes, const uint8_t *data,
		   uint64_t length_bytes);
void members_restore(struct members *all);
/* Sessions open and close, commands complete: all that wait, or some.  False if there was nothing
 * to do.
 */
bool members_step(struct members *all, bool everything);
void members_lose(struct members *all, int member); /* it is gone, without a word */
/* The gateway is gone: what was in flight took effect, or in part, or not. */
void members_abandon(struct members *all);

/* --- what a crash may leave: the writes of the record that are not safe yet --- */

enum fate {
	FATE_IN_FLIGHT, /* may be there or not, or in part */
	FATE_CACHED,	/* is there, but a loss of power may take it back */
	FATE_SAFE,
	FATE_REFUSED, /* is not there */
};

struct pending {
	enum fate fate;
	int member;
	uint64_t id;
	uint64_t offset_bytes;
	uint64_t length_bytes;
	const uint8_t *data;
	bool fua;
	size_t ended; /* entry at which it became CACHED */
};

struct pendings {
	struct pending *list; /* in the order in which they began */
	size_t count, room;
};

/* Let one entry of the record happen to the images.  index: its number. */
void pendings_apply(struct pendings *pendings, struct members *all, const struct record *record,
		    size_t index);

/* --- what the load knows: which stamps a sector may hold --- */

struct oracle {
	uint64_t sectors; /* of the volume */
	/* by sector: candidates, ascending; the first is the newest that was flushed */
	uint32_t **stamps;
	uint16_t *stamp_count;
	uint32_t *acknowledged; /* newest */
	uint32_t *flushed;
	/* newest write that a read did not find: what is newer than `acknowledged` and not newer
	 * than this can't come back, unless a loss of caches before the next flush brings it
	 */
	uint32_t *passed_over;
	bool *used;	       /* by sector: the load goes there */
	uint64_t (*ranges)[2]; /* runs of used sectors: first, count */
	size_t range_count;
	struct flush {
		uint64_t id;
		uint32_t *acknowledged, *passed_over; /* when it began */
		struct flush *next;
	} * flushes;
	const struct entry **writes; /* by stamp */
	size_t write_room;
};

void oracle_init(struct oracle *oracle, const struct record *record, uint64_t sectors);
void oracle_apply(struct oracle *oracle, const struct entry *entry);
/* NULL, or what is wrong with what a sector was read as.  power: after a loss of caches. */
const char *oracle_judge(const struct oracle *oracle, uint64_t sector, const uint8_t *content,
			 bool power, uint32_t *stamp);
void stamp_fill(uint8_t *content, uint64_t sector, uint32_t stamp);

/* --- failing --- */

extern const char *case_name; /* for messages */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define expect(condition, ...)                                                                     \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail(__VA_ARGS__);                                                         \
	} while (0)

#endif
