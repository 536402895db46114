/* admin.h - what an administrator asks of an engine.
 *
 * All of it at once returns 0 or -errno, and puts what to tell a person into why[256].
 */
#ifndef IRAID_ENGINE_ADMIN_H
#define IRAID_ENGINE_ADMIN_H

#include "engine.h"
#include "state/assembly.h"

/* Take one more device; it is opened and looked at.  A spare (spare.h) waits, or goes to work if a
 * place is empty.  Returns its slot; -ENOSPC: no free slot.
 */
int engine_attach(struct engine *engine, struct backend *backend, char *why);

/* Let a device go that is no part of the volume's redundancy: a spare, a faulty or replaced member,
 * a target of a rebuild (which ends).  port.detached() follows.  -EBUSY: in sync, fail it first.
 */
int engine_detach(struct engine *engine, int slot, char *why);

/* Evict a member now, and don't take it back by itself.  -EBUSY: the level can't bear it; of a
 * target: ends its rebuild.
 */
int engine_fail(struct engine *engine, int slot, char *why);

/* A member that was failed, by an administrator or for its errors, may come back and catch up.
 * -EINVAL: it is something else.
 */
int engine_readmit(struct engine *engine, int slot, char *why);

/* Fill the spare in slot `spare` with the contents of `role` and give it its place; the member that
 * has it now works until then, and is let go afterwards.  -EBUSY: another rebuild is under way;
 * -EINVAL: not a spare, too small.
 */
int engine_replace(struct engine *engine, int role, int spare, char *why);

/* From row 0, or on from where a stopped one was if `resume`.  -EBUSY: one is running.  Level 0:
 * -EOPNOTSUPP.
 */
int engine_scrub_start(struct engine *engine, enum scrub_mode mode, bool resume, char *why);
int engine_scrub_stop(struct engine *engine, char *why);

/* Use what the members have grown by: ask each for its size, lay the new rows out, put it on
 * record; requests go on meanwhile.  done(owner, 0 or -errno, text): 0 with the volume as large as
 * its smallest member allows, perhaps as it was; the text is a note for a person then, or empty;
 * else why not, and nothing has changed (-EIO: a member failed or left meanwhile; -ESHUTDOWN: the
 * volume stops, or was taken over: its next assembly says which size it has).  -EAGAIN: not
 * running.  -EBUSY: a member is missing or being filled, or a growth is under way.
 */
int engine_grow(struct engine *engine, void (*done)(void *owner, int error, const char *text),
		void *owner, char *why);

#define PROBE_BLOCK_BYTES_MAX (1u << 20)
#define PROBE_DEPTH_MAX 32u
#define PROBE_MS_MAX 60000u

struct probe_order {
	/* of one device, whatever it is; -1: all members in sync, at the same time */
	int slot;
	uint32_t block_bytes; /* of each read; a multiple of 4096 */
	uint32_t depth;	      /* reads under way on each member */
	uint32_t duration_ms;
	uint64_t rate_max; /* bytes of each member a second; 0: no limit */
};

struct probe_result { /* of one device */
	bool probed;
	/* 0; its session ended (-ENOTCONN), a read failed, or none was answered (-ETIMEDOUT) */
	int error;
	uint32_t unanswered; /* let go at the end */
	/* answered while it was counted, which is most of the time: */
	uint64_t reads, bytes;
	uint64_t elapsed_ms;
	/* that the device read and wrote meanwhile for somebody else */
	uint64_t other_bytes;
};

/* Read from members for a while, beside whatever else they do, and see how fast that is.
 * done(owner, 0, a result for each slot), a second after duration_ms at the latest; -ESHUTDOWN: the
 * volume stops, or was taken over.  -EAGAIN: not running.  -EBUSY: a probe is under way.  -ENODEV:
 * no session to read by.  -EINVAL.
 */
int engine_probe(struct engine *engine, const struct probe_order *order,
		 void (*done)(void *owner, int error, const struct probe_result results[SLOTS_MAX]),
		 void *owner, char *why);

/* When writes are logged: takes effect within a second or two. */
void engine_set_log(struct engine *engine, enum log_mode mode);
void engine_set_rates(struct engine *engine, uint64_t min, uint64_t max);
/* Take over the times, rates and the error limit of *options, and nothing else of it.  They hold
 * from now on, also for what is being waited for already.
 */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct lost_range {
	uint64_t offset_bytes, length_bytes;
}; /* of the volume */

/* Ranges that read as medium errors, from the one behind offset_bytes on, in ascending order;
 * returns how many were put into out[max].
 */
int engine_lost_list(const struct engine *engine, uint64_t offset_bytes, struct lost_range *out,
		     int max);

/* Let what stands there count as the data.  Whole volume: 0, UINT64_MAX.  done(owner, bytes or
 * -errno) when it is durable.  -ENOSPC: the table has no room for what would be left of some extent on
 * both sides; what came before that is accepted.
 */
void engine_lost_accept(struct engine *engine, uint64_t offset_bytes, uint64_t length_bytes,
			void (*done)(void *owner, int64_t result), void *owner);

#endif
