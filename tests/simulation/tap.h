/* tap.h - stands between the engine and a fake member: a test says what becomes of each command.
 *
 * What is held is neither carried out nor answered until the test lets it go, or the session ends.
 * So a test makes just that order of events in which something went wrong.
 */
#ifndef IRAID_TAP_H
#define IRAID_TAP_H

#include "fake_member.h"

#define TAP_HELD_MAX 256

enum tap_verdict {
	TAP_PASS,
	TAP_HOLD,
	TAP_REFUSE, /* answered with -EIO at once */
};

struct tap {
	struct fake_member *member;
	const struct backend_ops *below;
	const struct backend_events *above;
	void *above_owner;
	/* NULL: all pass */
	enum tap_verdict (*judge)(struct tap *tap, const struct backend_io *io);
	void *owner; /* the test's */
	struct backend_io *held[TAP_HELD_MAX];
	int held_count;
};

/* Before the engine knows the member. */
void tap_init(struct tap *tap, struct fake_member *member);
void tap_let_go(struct tap *tap); /* what is held is carried out */
/* the gateway died: nobody waits for it, and it never arrived */
void tap_drop(struct tap *tap);

/* Is it a write of this member's superblock?  Copies the block to out[4096] if so. */
bool tap_superblock(const struct backend_io *io, uint8_t *out);
/* A judge that holds those, and lets all else pass. */
enum tap_verdict tap_hold_superblocks(struct tap *tap, const struct backend_io *io);

#endif
