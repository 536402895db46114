/* fake_member.h - a member in memory, behind ports/backend.h, that can fail in the ways real ones do.
 *
 * Fault model: commands complete in any order, at a later step; a session can be cut (commands in
 * flight took effect or did not), the device can hang (nothing completes until its deadline cuts the
 * session), refuse writes, or have unreadable blocks; with a volatile cache, what was written since
 * the last flush can be lost, block by block, when the power goes.
 */
#ifndef IRAID_FAKE_MEMBER_H
#define IRAID_FAKE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ports/backend.h"

struct fake_member {
	struct backend backend;		/* must be first */
	char label[32];
	uint8_t *stable;		/* what survives a loss of power */
	uint8_t *visible;		/* what reads return */
	uint8_t *unflushed;		/* by sector of 512 */
	uint64_t bytes;
	uint32_t block_bytes;
	bool write_cache;
	bool reachable;			/* open() succeeds */
	bool hung;			/* takes commands and does not answer */
	uint64_t hang_deadline;		/* steps after which a hung session is cut */
	bool refuse_writes;
	bool taken;			/* by another gateway: what was in flight is aborted, writes conflict */
	uint64_t unreadable_offset;	/* block that reads fail on; UINT64_MAX: none */
	bool open_now;
	bool opening;
	bool closing;
	uint64_t steps_hung;
	struct backend_io *queue;	/* in flight, newest first */
	int queued;
	uint64_t *random;
	uint64_t reads, writes, flushes;
	bool written;			/* set by every write; for "nothing is written" */
};

uint64_t fake_random(uint64_t *state);	/* xorshift64* */

void fake_member_init(struct fake_member *member, const char *label, uint64_t bytes,
		      uint32_t block_bytes, uint64_t *random);
void fake_member_free(struct fake_member *member);

/* Complete some of what is in flight (or all), and report sessions that opened or closed. */
void fake_member_step(struct fake_member *member, bool everything);

/* The session ends; each write in flight took effect in whole, in part (by block), or not at all. */
void fake_member_cut(struct fake_member *member, bool reachable_again);

/* The gateway died: the session is gone without a word; in-flight writes as above. */
void fake_member_abandon(struct fake_member *member);

/* Lose power: cut, and each unflushed block is kept or lost at random. */
void fake_member_power_loss(struct fake_member *member, bool reachable_again);

#endif
