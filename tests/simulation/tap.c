/* tap.c - see tap.h. */
#include "tap.h"

#include "pure/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAPS_MAX 64

/* The last tap of each member that ever had one.  They are not looked into: their tests may be
 * over.
 */
static struct {
	const struct backend *backend;
	struct tap *tap;
} taps[TAPS_MAX];

static struct tap *
tap_of(const struct backend *backend)
{
	for (int i = 0; i < TAPS_MAX; i++)
		if (taps[i].backend == backend)
			return taps[i].tap;
	abort();
}

static void
answer(struct backend_io *io, int result)
{
	io->result = result;
	io->done(io);
}

static void
tap_opened(void *owner, const struct backend_identity *identity)
{
	struct tap *tap = owner;

	tap->above->opened(tap->above_owner, identity);
}

/* As any backend does: all commands are answered, then the session is over. */
static void
tap_closed(void *owner, int error, const char *reason)
{
	struct tap *tap = owner;
	int count = tap->held_count;

	tap->held_count = 0;
	for (int i = 0; i < count; i++)
		answer(tap->held[i], -ENOTCONN);
	tap->above->closed(tap->above_owner, error, reason);
}

static bool
tap_is_ours(void *owner)
{
	const struct tap *tap = owner;

	return tap->above->is_ours == NULL || tap->above->is_ours(tap->above_owner);
}

static const struct backend_events tap_events = {
	.opened = tap_opened,
	.closed = tap_closed,
	.is_ours = tap_is_ours,
};

static void
tap_open(struct backend *backend)
{
	struct tap *tap = tap_of(backend);

	if (backend->events != &tap_events) {
		tap->above = backend->events;
		tap->above_owner = backend->events_owner;
	}
	backend->events = &tap_events;
	backend->events_owner = tap;
	tap->below->open(backend);
}

static void
tap_submit(struct backend *backend, struct backend_io *io)
{
	struct tap *tap = tap_of(backend);
	enum tap_verdict verdict = tap->judge != NULL ? tap->judge(tap, io) : TAP_PASS;

	if (verdict == TAP_PASS) {
		tap->below->submit(backend, io);
	} else if (verdict == TAP_REFUSE) {
		answer(io, -EIO);
	} else {
		if (tap->held_count == TAP_HELD_MAX)
			abort();
		tap->held[tap->held_count++] = io;
	}
}

static void
tap_divert(struct backend *backend, struct backend_io *io)
{
	struct tap *tap = tap_of(backend);

	for (int i = 0; i < tap->held_count; i++)
		if (tap->held[i] == io) {
			memmove(tap->held + i, tap->held + i + 1,
				(size_t)(--tap->held_count - i) * sizeof(tap->held[0]));
			answer(io, -ECANCELED);
			return;
		}
	tap->below->divert(backend, io);
}

static void
tap_close(struct backend *backend)
{
	tap_of(backend)->below->close(backend);
}

static void
tap_release(struct backend *backend)
{
	tap_of(backend)->below->release(backend);
}

static const struct backend_ops tap_ops = {
	.open = tap_open,
	.submit = tap_submit,
	.divert = tap_divert,
	.close = tap_close,
	.release = tap_release,
};

void
tap_init(struct tap *tap, struct fake_member *member)
{
	int i = 0;

	*tap = (struct tap){ .member = member, .below = member->backend.ops };
	while (i < TAPS_MAX && taps[i].backend != NULL && taps[i].backend != &member->backend)
		i++;
	if (i == TAPS_MAX)
		abort();
	taps[i].backend = &member->backend;
	taps[i].tap = tap;
	member->backend.ops = &tap_ops;
}

void
tap_let_go(struct tap *tap)
{
	int count = tap->held_count;

	tap->held_count = 0;
	for (int i = 0; i < count; i++)
		tap->below->submit(&tap->member->backend, tap->held[i]);
}

void
tap_drop(struct tap *tap)
{
	tap->held_count = 0;
}

bool
tap_superblock(const struct backend_io *io, uint8_t *out)
{
	if (io->op != BACKEND_WRITE || io->length_bytes != LAYOUT_SUPERBLOCK_BYTES ||
	    io->iov_count != 1 ||
	    (io->offset_bytes != LAYOUT_SUPERBLOCK_A_OFFSET &&
	     io->offset_bytes != LAYOUT_SUPERBLOCK_B_OFFSET))
		return false;
	memcpy(out, io->iov[0].iov_base, LAYOUT_SUPERBLOCK_BYTES);
	return true;
}

enum tap_verdict
tap_hold_superblocks(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	(void)tap;
	return tap_superblock(io, block) ? TAP_HOLD : TAP_PASS;
}
