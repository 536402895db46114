/* behind.c - requests that overlap an unfinished one of several pieces come behind it, all of it.
 *
 *	admission --> behind (overlaps it, or somebody who waits already) --(it has ended)--> carried out
 *	          `-> carried out
 *
 * An operation holds its rows until it has ended, so what overlaps it comes behind it.  A request
 * of several pieces holds only the rows of those that are not done, and may be carried out again as
 * a whole (request.c, must_repeat_request()): then it would come over what was written, and
 * acknowledged, since its first piece was done.  So writes of any kind that overlap it wait, and
 * those that overlap somebody who waits, too: their order is the one in which they were submitted.
 * Nobody waits for those that wait here, for they claim nothing.  Reads need not wait: they change
 * nothing.
 *
 * The exception is a long range of zeros, for nobody can wait for terabytes.  Others pass between
 * its pieces.  What they overwrote of those that were cut already is noted, and spared when the
 * range has to be repeated: it came behind the zeros, so nothing of them is to be seen there, and
 * what it lost it lost as any other write.  Where nobody can say what stands there, it is not
 * spared, and the range fails instead: if one of those writes failed, or may have been lost with a
 * cache (only after more members fell silent than the level bears, or while rows are not proven), or
 * if there are too many.
 *
 * The write of a compare and write need not be waited for: its rows are held until all of it has
 * ended.
 *
 * Streams have as many requests of several pieces as are under way, a few hundred at most; a list
 * of them is looked through for each write, which costs less than anything else that is done for
 * it.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define OVERWRITTEN_MAX 1024u

struct overwritten { /* in order, apart from each other */
	uint32_t count;
	struct {
		uint64_t begin, end;
	} part[OVERWRITTEN_MAX]; /* of the volume */
};

void
behind_begun(struct engine *engine, struct engine_request *request)
{
	if (request->several_link != NULL)
		return;
	request->several_link = &engine->ops.several;
	request->several_next = engine->ops.several;
	if (request->several_next != NULL)
		request->several_next->several_link = &request->several_next;
	engine->ops.several = request;
}

void
behind_ended(struct engine *engine, struct engine_request *request)
{
	if (request->several_link == NULL)
		return;
	*request->several_link = request->several_next;
	if (request->several_next != NULL)
		request->several_next->several_link = request->several_link;
	request->several_link = NULL;
	free(request->overwritten);
	request->overwritten = NULL;
	engine->io->behind.look = engine->io->behind.head != NULL;
}

static bool
writes(const struct engine_request *request)
{
	return request->op == REQUEST_WRITE || request->op == REQUEST_ZERO ||
	       request->op == REQUEST_COMPARE_WRITE;
}

/* Its first bytes, as many as said, overlap the other request. */
static bool
overlaps(const struct engine_request *request, uint64_t first_bytes,
	 const struct engine_request *other)
{
	return request->offset_bytes < other->offset_bytes + other->length_bytes &&
	       other->offset_bytes < request->offset_bytes + first_bytes;
}

static bool
must_wait(const struct engine *engine, const struct engine_request *request)
{
	const struct engine_request *other;

	if (!writes(request) || MUTANT(REPEATED_BEHIND))
		return false;
	for (other = engine->ops.several; other != NULL; other = other->several_next)
		if (!zero_is_long(other) && !other->claimed &&
		    overlaps(other, other->length_bytes, request))
			return true;
	for (other = engine->io->behind.head; other != NULL && other != request;
	     other = other->next)
		if (overlaps(other, other->length_bytes, request))
			return true;
	return false;
}

/* False: they are too many, or there is no memory. */
static bool
add_overwritten(struct engine_request *request, uint64_t begin, uint64_t end)
{
	struct overwritten *list = request->overwritten;
	uint32_t first = 0, last;

	if (list == NULL && (list = calloc(1, sizeof(*list))) == NULL)
		return false;
	request->overwritten = list;
	while (first < list->count && list->part[first].end < begin)
		first++;
	for (last = first; last < list->count && list->part[last].begin <= end; last++) {
		begin = list->part[last].begin < begin ? list->part[last].begin : begin;
		end = list->part[last].end > end ? list->part[last].end : end;
	}
	if (last == first && list->count == OVERWRITTEN_MAX)
		return false;
	memmove(&list->part[first + 1], &list->part[last],
		(list->count - last) * sizeof(list->part[0]));
	list->count += first + 1 - last;
	list->part[first].begin = begin;
	list->part[first].end = end;
	return true;
}

/* It is carried out now. */
static void
note_overtaken(struct engine *engine, const struct engine_request *request)
{
	const uint64_t end = request->offset_bytes + request->length_bytes;
	struct engine_request *other;

	if (!writes(request) || request->op == REQUEST_ZERO || MUTANT(ZEROS_BEHIND))
		return;
	for (other = engine->ops.several; other != NULL; other = other->several_next) {
		const uint64_t zeroed = other->offset_bytes + other->zeroed_bytes;

		if (!zero_is_long(other) || !overlaps(other, other->zeroed_bytes, request))
			continue;
		if (!add_overwritten(other,
				     request->offset_bytes > other->offset_bytes
					     ? request->offset_bytes
					     : other->offset_bytes,
				     end < zeroed ? end : zeroed))
			other->overtaken = true;
	}
}

void
behind_failed(struct engine *engine, const struct engine_request *request)
{
	struct engine_request *other;

	if (!writes(request) || MUTANT(FAILED_SPARED))
		return;
	for (other = engine->ops.several; other != NULL; other = other->several_next)
		if (other != request && other->overwritten != NULL &&
		    overlaps(other, other->zeroed_bytes, request))
			other->overtaken = true;
}

void
behind_again(const struct engine *engine, struct engine_request *request)
{
	if (request->overwritten != NULL && request->cache_losses != engine->cache_losses &&
	    !MUTANT(CACHE_SPARED))
		request->overtaken = true;
}

/* Where it goes on from begin_bytes: a part that was overwritten is passed over, and the next one
 * lowers end_bytes.
 */
uint64_t
behind_spare(const struct engine_request *request, uint64_t begin_bytes, uint64_t *end_bytes)
{
	const struct overwritten *list = request->overwritten;

	for (uint32_t i = 0; list != NULL && i < list->count; i++) {
		if (list->part[i].end <= begin_bytes)
			continue;
		if (list->part[i].begin > begin_bytes) {
			if (list->part[i].begin < *end_bytes)
				*end_bytes = list->part[i].begin;
			break;
		}
		begin_bytes = list->part[i].end;
	}
	return begin_bytes < *end_bytes ? begin_bytes : *end_bytes;
}

bool
behind_waits(struct engine *engine, struct engine_request *request)
{
	if (!must_wait(engine, request)) {
		note_overtaken(engine, request);
		return false;
	}
	request->next = NULL;
	*engine->io->behind.tail = request;
	engine->io->behind.tail = &request->next;
	return true;
}

struct engine_request *
behind_next(struct engine *engine)
{
	struct engine_request **link = &engine->io->behind.head;
	struct engine_request *request;

	while (engine->io->behind.look && (request = *link) != NULL) {
		if (must_wait(engine, request)) {
			link = &request->next;
			continue;
		}
		*link = request->next;
		if (*link == NULL)
			engine->io->behind.tail = link;
		note_overtaken(engine, request);
		return request;
	}
	engine->io->behind.look = false;
	return NULL;
}

/* Those that waited too long are admitted, which ends them. */
void
behind_overdue(struct engine *engine)
{
	struct engine_request **link = &engine->io->behind.head;
	struct engine_request **into = &engine->io->admission_head;
	struct engine_request *request;

	while ((request = *link) != NULL) {
		if (!overdue_since(engine, request->since_ms)) {
			link = &request->next;
			continue;
		}
		*link = request->next;
		request->next = *into;
		*into = request;
		if (request->next == NULL)
			engine->io->admission_tail = &request->next;
		into = &request->next;
		engine->io->behind.look = true;
		engine->activity++;
	}
	engine->io->behind.tail = link;
}

void
behind_refuse(struct engine *engine)
{
	*engine->io->admission_tail = engine->io->behind.head;
	if (engine->io->behind.head != NULL)
		engine->io->admission_tail = engine->io->behind.tail;
	engine->io->behind.head = NULL;
	engine->io->behind.tail = &engine->io->behind.head;
}
