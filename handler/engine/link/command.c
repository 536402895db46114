/* command.c - commands to one member: built, sent, parked, sent again.
 *
 * A command is sent when the member is connected and its superblock was checked; otherwise it is
 * parked.  Its fate is decided elsewhere: the member returns (member_resume sends it again; that is
 * safe, for a session is offered only after LOGICAL UNIT RESET, so the earlier sending can't land
 * late), or is evicted, or queue_limit ends its waiting.
 */
#include "link.h"
#include "row_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SEGMENTS 32
/* For each member a superblock, a flush, two reads of who it is, a probe, two questions, four records
 * of the write log.
 */
#define RESERVED_COMMANDS (12 * SLOTS_MAX)

bool
member_usable(const struct member *member)
{
	return member->link == LINK_OPEN && member->checked && !member->condemned &&
	       !member->disputed;
}

void
member_note(struct member *member, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(member->reason, sizeof(member->reason), format, args);
	va_end(args);
}

/* --- building a command --- */

static bool
grow_segments(struct member_io *mio, int wanted)
{
	int capacity = mio->segment_capacity > 0 ? mio->segment_capacity : 1;
	struct iovec *grown;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity == mio->segment_capacity)
		return true;
	/* One block: the pristine array, then the working copy. */
	grown = realloc(mio->segments, 2 * (size_t)capacity * sizeof(*grown));
	if (grown == NULL)
		return false;
	mio->segments = grown;
	mio->working = grown + capacity;
	mio->segment_capacity = capacity;
	return true;
}

static struct member_io *
make_command(int segments)
{
	struct member_io *mio = calloc(1, sizeof(*mio));

	if (mio == NULL || !grow_segments(mio, segments)) {
		free(mio);
		return NULL;
	}
	list_init(&mio->node);
	return mio;
}

bool
link_init(struct engine *engine)
{
	list_init(&engine->link->answered);
	list_init(&engine->link->immediate);
	list_init(&engine->link->recycled);
	list_init(&engine->link->reserve);
	for (int i = 0; i < RESERVED_COMMANDS; i++) {
		struct member_io *mio = make_command(1);

		if (mio == NULL)
			return false;
		mio->reserved = true;
		list_append(&engine->link->reserve, &mio->node);
	}
	return true;
}

void
member_io_free(struct member_io *mio)
{
	struct engine *engine = mio->member->engine;

	list_prepend(mio->reserved ? &engine->link->reserve : &engine->link->recycled, &mio->node);
}

static void
free_commands(struct list *commands)
{
	struct list *node;

	while ((node = list_take(commands)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		free(mio->segments);
		free(mio);
	}
}

void
link_free(struct engine *engine)
{
	free_commands(&engine->link->recycled);
	free_commands(&engine->link->reserve);
}

static struct member_io *
describe_command(struct member_io *mio, struct member *member, enum backend_op op,
		 uint64_t offset_bytes, enum io_policy policy)
{
	mio->io = (struct backend_io){ .op = op, .offset_bytes = offset_bytes };
	mio->member = member;
	mio->segment_count = 0;
	mio->policy = policy;
	mio->since_ms = 0;
	mio->first_sent_ms = 0;
	mio->cuts = 0;
	mio->cut_off = false;
	mio->cached = false;
	mio->unjudged = false;
	mio->covers_data = false;
	mio->where = MIO_BUILT;
	return mio;
}

struct member_io *
member_io_try(struct member *member, enum backend_op op, uint64_t offset_bytes,
	      enum io_policy policy)
{
	struct list *node = list_take(&member->engine->link->recycled);
	struct member_io *mio = node != NULL ? list_entry(node, struct member_io, node)
					     : make_command(FIRST_SEGMENTS);

	return mio == NULL ? NULL : describe_command(mio, member, op, offset_bytes, policy);
}

struct member_io *
member_io_create(struct member *member, enum backend_op op, uint64_t offset_bytes,
		 enum io_policy policy)
{
	struct member_io *mio = member_io_try(member, op, offset_bytes, policy);
	struct list *node;

	if (mio != NULL)
		return mio;
	node = list_take(&member->engine->link->reserve);
	assert(node != NULL); /* there are more of them than such commands at a time */
	return describe_command(list_entry(node, struct member_io, node), member, op, offset_bytes,
				policy);
}

bool
member_io_append(struct member_io *mio, const struct iovec *iov, int count, uint32_t length_bytes)
{
	if (mio->segment_count + count > SEGMENTS_MAX)
		return false;
	if (!grow_segments(mio, mio->segment_count + count))
		return false;
	for (int i = 0; i < count; i++) {
		struct iovec *last = mio->segments + mio->segment_count - 1;

		if (mio->segment_count > 0 &&
		    (char *)last->iov_base + last->iov_len == (char *)iov[i].iov_base)
			last->iov_len += iov[i].iov_len;
		else
			mio->segments[mio->segment_count++] = iov[i];
	}
	mio->io.length_bytes += length_bytes;
	return true;
}

/* --- sending --- */

static void
io_answered(struct backend_io *io)
{
	struct member_io *mio = (struct member_io *)io;

	list_remove(&mio->node);
	mio->where = MIO_DONE;
	mio->member->in_flight_count--;
	list_append(&mio->member->engine->link->answered, &mio->node);
}

/* A session lasts as long as an io may take in it (ports/backend.h), if only something else is
 * answered all the time; and two of these are longer than requests can wait for the rows of such a
 * command.  So it has that time over all sessions, and give_up in each.
 */
static uint64_t
patience_of(const struct member_io *mio)
{
	const uint64_t give_up_ms = mio->member->engine->options.give_up_ms;
	const uint64_t in_all_ms = mio->first_sent_ms + BACKEND_IO_DEADLINES * give_up_ms,
		       here_ms = mio->sent_ms + give_up_ms;

	return in_all_ms > here_ms ? in_all_ms : here_ms;
}

void
member_io_be_patient(const struct member_io *mio)
{
	struct member *member = mio->member;

	if (mio->cuts > 0 && (member->patience_ms == 0 || patience_of(mio) < member->patience_ms) &&
	    !MUTANT(EACH_SESSION_PATIENT))
		member->patience_ms = patience_of(mio);
}

static void
send(struct member_io *mio)
{
	struct member *member = mio->member;

	memcpy(mio->working, mio->segments, (size_t)mio->segment_count * sizeof(*mio->segments));
	mio->io.iov = mio->working;
	mio->io.iov_count = mio->segment_count;
	mio->io.done = io_answered;
	mio->sent_at = ++member->engine->moment;
	mio->sent_ms = member->engine->now_ms;
	mio->sent_ns = member->engine->figures.stamp_ns;
	if (mio->io.op != BACKEND_FLUSH && mio->io.op != BACKEND_MEASURE) {
		member->data_sent_at = mio->sent_at;
		member->data_sent_ms = mio->sent_ms;
	}
	mio->where = MIO_SENT;
	mio->covers_data = mio->io.op == BACKEND_FLUSH && member->unflushed_data;
	/* Not while it waits: the session may end before, and the cache with it.  Nor by one that
	 * no round waits for (grow.c): a round that began meanwhile would pass this member by.
	 */
	if (mio->io.op == BACKEND_FLUSH && (mio->policy == IO_REQUEST || MUTANT(FLUSH_OF_ANOTHER)))
		member->unflushed = member->unflushed_data = false;
	list_append(&member->in_flight, &mio->node);
	member->in_flight_count++;
	member_io_be_patient(mio);
	member->backend->ops->submit(member->backend, &mio->io);
}

/* What the device says of caches in its next session is about other writes. */
void
member_io_note_unflushed(const struct member_io *mio)
{
	struct member *member = mio->member;

	member->unflushed |= member->identity.write_cache;
	member->unflushed_data |=
		member->identity.write_cache && (!mio->io.fua || MUTANT(LOST_RECORD_TOLD));
	member->cached |= member->identity.write_cache;
}

/* It failed as far as the engine knows, and may have been done, by a device that caches it, or did
 * when its session cut it off.
 */
void
member_io_note_unknown_write(const struct member_io *mio)
{
	if ((mio->io.op != BACKEND_WRITE && mio->io.op != BACKEND_ZERO) ||
	    MUTANT(UNKNOWN_UNFLUSHED))
		return;
	member_io_note_unflushed(mio);
	if (!mio->cached || MUTANT(CUT_OFF_BY_NEW_SESSION))
		return;
	mio->member->unflushed = mio->member->unflushed_data = true;
	mio->member->cached = true;
}

/* Writes before it are as unsure as before it was sent.  Its repetition on the next session
 * succeeds, and covers nothing that a lost cache has taken with it.
 */
void
member_io_note_failed_flush(const struct member_io *mio, int result)
{
	/* one that no round waits for took nothing over when it was sent */
	if (mio->io.op != BACKEND_FLUSH || result == 0 || mio->policy != IO_REQUEST)
		return;
	if (result == -ENOTCONN ? MUTANT(FLUSH_FORGETS_RESEND) : MUTANT(FLUSH_FAILED_FORGOTTEN))
		return;
	mio->member->unflushed = true;
	mio->member->unflushed_data |= mio->covers_data || MUTANT(CUT_OFF_FLUSH_TOLD);
}

/* Later in this turn, or in the next, which has to come: nothing else need ever wake the engine
 * again.
 */
void
member_io_unsent(struct member_io *mio, int result)
{
	struct engine *engine = mio->member->engine;

	if (mio->where == MIO_PARKED)
		/* an earlier session may have carried it out */
		member_io_note_unknown_write(mio);
	mio->io.result = result;
	mio->where = MIO_DONE;
	list_append(&engine->link->immediate, &mio->node);
	if (!MUTANT(UNSENT_UNTOLD))
		engine->activity++;
}

/* Fenced off, this gateway opens no session any more, and evicts nobody: there is nothing to wait
 * for.
 */
void
member_io_park(struct member_io *mio)
{
	if (mio->member->engine->fenced && !MUTANT(PARKED_WHEN_FENCED)) {
		member_io_unsent(mio, -ESHUTDOWN);
		return;
	}
	mio->where = MIO_PARKED;
	list_append(&mio->member->parked, &mio->node);
}

void
member_io_submit(struct member_io *mio, void (*done)(struct member_io *mio, int result),
		 void *owner)
{
	struct member *member = mio->member;

	mio->done = done;
	mio->owner = owner;
	row_cache_overwritten(member->engine, &mio->io);
	if (member->engine->fenced)
		member_io_unsent(mio, -ESHUTDOWN);
	else if (mio->policy == IO_PROBE ? member->link == LINK_OPEN : member_usable(member))
		send(mio);
	else if (mio->policy == IO_PROBE)
		member_io_unsent(mio, -ENOTCONN);
	else if (!member->in_sync && !member->evicting)
		member_io_unsent(mio, -ENOLINK);
	else if (member->evicting && mio->policy == IO_SUPERBLOCK)
		member_io_unsent(mio, -ENOLINK);
	else if (member->engine->expired && mio->policy == IO_REQUEST)
		member_io_unsent(mio, -ETIMEDOUT);
	else
		member_io_park(mio);
}

static void
abandoned(struct member_io *mio, int result)
{
	(void)mio;
	(void)result;
}

bool
member_io_abandoned(const struct member_io *mio)
{
	return mio->done == abandoned;
}

void
member_io_abandon(struct member_io *mio)
{
	struct member *member = mio->member;

	if (mio->where == MIO_PARKED) {
		list_remove(&mio->node);
		member_io_free(mio);
		return;
	}
	assert(mio->where == MIO_SENT && mio->io.op == BACKEND_READ);
	mio->done = abandoned;
	mio->owner = NULL;
	mio->policy = IO_PROBE; /* its memory is another's: it must not be sent again */
	if (!MUTANT(DIVERT_SKIPPED))
		member->backend->ops->divert(member->backend, &mio->io);
}

void
member_fail_parked(struct member *member, int result, bool requests_only)
{
	struct list kept;
	struct list *node;

	list_init(&kept);
	while ((node = list_take(&member->parked)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		if (requests_only && mio->policy != IO_REQUEST)
			list_append(&kept, node);
		else
			member_io_unsent(mio, result);
	}
	list_splice(&member->parked, &kept);
}

void
member_fail_overdue(struct member *member)
{
	for (struct list *node = member->parked.next, *next; node != &member->parked; node = next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		next = node->next;
		if (!overdue_since(member->engine, mio->since_ms))
			continue;
		list_remove(node);
		member_io_unsent(mio, -ETIMEDOUT);
	}
}

void
member_resume(struct member *member, bool superblocks_only)
{
	struct list waiting;
	struct list *node;

	list_init(&waiting);
	list_splice(&waiting, &member->parked);
	while ((node = list_take(&waiting)) != NULL) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		if (superblocks_only && mio->policy != IO_SUPERBLOCK)
			list_append(&member->parked, node);
		else
			send(mio);
	}
}
