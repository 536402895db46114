/* link.h - the way to one member: commands that are built, sent, parked while it is silent, and
 * sent again.
 *
 *	command.c	commands			gather.c	joins pieces into commands (gather.h)
 *	row_cache.c	what members hold of rows that are written in part again and again (row_cache.h)
 *
 * What becomes of an answer, and of a session, is decided in members/.
 */
#ifndef IRAID_ENGINE_LINK_H
#define IRAID_ENGINE_LINK_H

#include "engine/core/core.h"

#define SEGMENTS_MAX 1000 /* iovecs of one command; libiscsi takes 1024 */

/* What becomes of a command whose member falls silent. */
enum io_policy {
	IO_REQUEST,    /* waits for the member's return or eviction, at most for queue_limit */
	IO_MAP,	       /* waits for its return or eviction */
	IO_LOG,	       /* the same; refused, it fails, and the member stays */
	IO_SUPERBLOCK, /* waits for its return, or until its eviction begins */
	IO_PROBE,      /* fails at once with -ENOTCONN; needs no checked superblock */
};

/* One command to one member.  done() gets 0; -ENODATA or -EIO as the backend says; -ENOLINK when
 * the member was evicted or replaced, durably; -ETIMEDOUT after queue_limit; -ENOTCONN for
 * IO_PROBE; -ESHUTDOWN when the engine was fenced off or stops.
 */
struct member_io {
	struct backend_io io;
	struct list node; /* of the member's lists, or link.answered */
	struct member *member;
	struct iovec *segments; /* as built: what a repetition starts from */
	struct iovec *working;	/* the backend's to edit */
	int segment_count;
	int segment_capacity;
	enum io_policy policy;
	bool reserved; /* of the engine's reserve: goes back there */
	/* a flush: of what was in the cache when it was sent, something was not written through */
	bool covers_data;
	bool unjudged; /* how long it takes says nothing about the member */
	/* of the request it is for, whose time it has; 0: no limit */
	uint64_t since_ms;
	uint64_t sent_at; /* engine->moment when it was sent: evidence of life */
	uint64_t sent_ms;
	uint64_t sent_ns; /* for figures */
	/* on the first of the sessions that ended under it; 0: none did */
	uint64_t first_sent_ms;
	uint8_t cuts; /* how many did, one after the other */
	bool cut_off; /* the latest of them: nobody looked yet at how it ended */
	bool cached;  /* in one of them the device had a cache */
	enum { MIO_BUILT, MIO_SENT, MIO_PARKED, MIO_DONE } where;
	void (*done)(struct member_io *mio, int result);
	void *owner;
};

struct link {
	struct list answered;  /* of member_io.node: backends append here */
	struct list immediate; /* commands that complete without being sent */
	/* those that must not fail for want of memory: member_io_create() */
	struct list reserve;
	struct list recycled;
	struct row_cache *row_cache; /* NULL: the level has none */
};

bool link_init(struct engine *engine); /* false: no memory */
void link_free(struct engine *engine);

bool member_usable(const struct member *member); /* connected and checked */
void
member_note(struct member *member, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL: no memory.  For all that can fail with -ENOMEM, or be tried again. */
struct member_io *member_io_try(struct member *member, enum backend_op op, uint64_t offset_bytes,
				enum io_policy policy);
/* Never NULL, for there is a reserve: of commands with one iovec at most, few of each member at a
 * time.
 */
struct member_io *member_io_create(struct member *member, enum backend_op op, uint64_t offset_bytes,
				   enum io_policy policy);
void member_io_free(struct member_io *mio); /* it is not under way */
/* Append iovecs; returns false when the command has no room for them (nothing appended). */
bool
member_io_append(struct member_io *mio, const struct iovec *iov, int count, uint32_t length_bytes);
void member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result),
		      void *owner);
/* ends without being sent; done() is called soon */
void member_io_unsent(struct member_io *mio, int result);
/* Nobody wants the answer any more, and its memory is needed: a read that is sent or parked. 
 * done() is not called.
 */
void member_io_abandon(struct member_io *mio);

/* For those who handle answers. */
bool member_io_abandoned(const struct member_io *mio);
void member_io_park(struct member_io *mio);
/* Others ended under it: the member has until patience_ms to answer it in this session. */
void member_io_be_patient(const struct member_io *mio);
/* The device's cache has what it wrote; may have it, though it failed or was cut off; has what it
 * should have flushed.
 */
void member_io_note_unflushed(const struct member_io *mio);
void member_io_note_unknown_write(const struct member_io *mio);
void member_io_note_failed_flush(const struct member_io *mio, int result);

void member_fail_parked(struct member *member, int result, bool requests_only);
void member_fail_overdue(struct member *member); /* those that wait for it too long */
/* checked: send what is parked */
void member_resume(struct member *member, bool superblocks_only);

#endif
