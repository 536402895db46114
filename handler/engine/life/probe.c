/* probe.c - how fast members answer: reads for a while, whose data nobody looks at.
 *
 *	engine_probe() -> reads on each member, `depth` of them at a time -> done(figures)
 *
 * It must cost the volume nothing but time.  So it only reads; its commands wait for nothing
 * (IO_PROBE), are never sent again, and are let go when they are not answered in time, so that a
 * hung member ends it no later than a dead one does.  One that takes long for a read gets fewer at
 * once, lest what initiators ask of it stand behind them for longer than a hedged read would wait.
 *
 * All reads go to the same memory: what is in it at the end means nothing.
 *
 * The first quarter of the time does not count: a connection that was idle begins with a small
 * window (slow start), which over a long link takes several round trips to open.
 */
#include "admin.h"
#include "life.h"
#include "engine/link/link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 1000u	 /* what was sent last has so long to be answered */
#define PATIENCE_MS 500u /* for one read */
#define START_STEP_BYTES (1ull << 20)
#define PAGE_BYTES 4096u

struct probed { /* of one member */
	struct probe *probe;
	struct member *member; /* NULL: takes no part */
	struct probe_result result;
	uint64_t next_bytes; /* where on the member the next read begins */
	uint64_t sent_bytes;
	uint32_t depth; /* reads at a time, at present */
	uint32_t pending;
	uint64_t moved_before; /* by the member in all, and for others, when counting began */
	uint64_t reads, first_ms, last_ms; /* all that were answered */
	uint64_t counted_from;		   /* reads at the time that counting began */
	uint64_t counted_ms;
};

struct probe {
	struct engine *engine;
	struct probe_order order;
	bool begun;
	uint64_t begin_ms, count_ms, end_ms;
	void *memory;
	struct probed devices[SLOTS_MAX];
	void (*done)(void *owner, int error, const struct probe_result results[SLOTS_MAX]);
	void *owner;
};

static uint64_t
moved_bytes(const struct member *member)
{
	return member->read_bytes + member->written_bytes;
}

/* Bytes that may have been sent by now: as much as goes at once, and then at the rate. */
static bool
within_rate(const struct probed *probed)
{
	const struct probe *probe = probed->probe;
	uint64_t elapsed_ms = probe->engine->now_ms - probe->begin_ms;
	uint64_t at_once = (uint64_t)probe->order.depth * probe->order.block_bytes;

	return probe->order.rate_max == 0 ||
	       probed->sent_bytes <= at_once + probe->order.rate_max * elapsed_ms / 1000;
}

static void sample_answered(struct member_io *mio, int result);

static void
send_more(struct probed *probed)
{
	struct probe *probe = probed->probe;
	const uint32_t length = probe->order.block_bytes;
	struct iovec memory = { probe->memory, length };

	/* Before its slot is freed: that comes after this in the turn that sees its session end. */
	if (probed->result.error == 0 &&
	    (probed->member->link != LINK_OPEN || probed->member->leaving))
		probed->result.error = -ENOTCONN;
	while (probed->result.error == 0 && probed->pending < probed->depth &&
	       probe->engine->now_ms < probe->end_ms && within_rate(probed)) {
		struct member_io *mio;

		if (probed->next_bytes + length > probed->member->identity.capacity_bytes)
			probed->next_bytes = 0;
		mio = member_io_try(probed->member, BACKEND_READ, probed->next_bytes, IO_PROBE);
		if (mio == NULL) {
			probed->result.error = -ENOMEM;
			return;
		}
		mio->unjudged = true;
		member_io_append(mio, &memory, 1, length);
		probed->next_bytes += length;
		probed->sent_bytes += length;
		probed->pending++;
		member_io_submit(mio, sample_answered, probed);
	}
}

static void
adapt_depth(struct probed *probed, uint64_t took_ms)
{
	if (took_ms > PATIENCE_MS && probed->depth > 1)
		probed->depth--;
	else if (took_ms <= PATIENCE_MS && probed->depth < probed->probe->order.depth)
		probed->depth++;
}

static void
sample_answered(struct member_io *mio, int result)
{
	struct probed *probed = mio->owner;
	struct probe *probe = probed->probe;
	uint64_t now_ms = probe->engine->now_ms;

	probed->pending--;
	if (result != 0) {
		if (probed->result.error == 0)
			probed->result.error = result;
		return;
	}
	probed->reads++;
	probed->last_ms = now_ms;
	if (probed->counted_ms == 0 && now_ms >= probe->count_ms) {
		probed->counted_ms = now_ms;
		probed->counted_from = probed->reads;
		probed->moved_before = moved_bytes(probed->member);
	}
	adapt_depth(probed, now_ms - mio->sent_ms);
	send_more(probed);
}

/* What is left of it is nobody's. */
static void
abandon(struct probed *probed)
{
	struct list *node, *next;

	if (probed->pending == 0)
		return; /* its slot may be free by now */
	for (node = probed->member->in_flight.next; node != &probed->member->in_flight;
	     node = next) {
		struct member_io *mio = list_entry(node, struct member_io, node);

		next = node->next;
		if (mio->owner != probed)
			continue;
		member_io_abandon(mio);
		probed->pending--;
		probed->result.unanswered++;
	}
}

/* Since counting began, or of all of it where too few came after that. */
static void
work_out_latency(struct probed *probed)
{
	struct probe_result *result = &probed->result;
	uint64_t moved = moved_bytes(probed->member);
	uint64_t others = moved > probed->moved_before ? moved - probed->moved_before : 0;

	if (probed->counted_ms == 0 || probed->reads <= probed->counted_from) {
		probed->counted_ms = probed->first_ms;
		probed->counted_from = 0;
	}
	result->reads = probed->reads - probed->counted_from;
	result->bytes = result->reads * probed->probe->order.block_bytes;
	result->elapsed_ms = result->reads > 0 ? probed->last_ms - probed->counted_ms : 0;
	result->other_bytes = others > result->bytes ? others - result->bytes : 0;
	if (result->reads == 0 && result->error == 0)
		result->error = -ETIMEDOUT;
}

static void
probe_end(struct probe *probe, int error)
{
	struct engine *engine = probe->engine;
	struct probe_result results[SLOTS_MAX];

	memset(results, 0, sizeof(results));
	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		struct probed *probed = &probe->devices[slot];

		if (probed->member == NULL)
			continue;
		abandon(probed);
		assert(probed->pending == 0);
		work_out_latency(probed);
		results[slot] = probed->result;
	}
	engine->life->probe = NULL;
	engine->activity++;
	probe->done(probe->owner, error, results);
	free(probe->memory);
	free(probe);
}

static bool
is_over(const struct probe *probe)
{
	uint64_t now_ms = probe->engine->now_ms;
	uint32_t pending = 0, alive = 0;

	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		const struct probed *probed = &probe->devices[slot];

		if (probed->member == NULL)
			continue;
		pending += probed->pending;
		alive += probed->result.error == 0;
	}
	return (pending == 0 && (alive == 0 || now_ms >= probe->end_ms)) ||
	       now_ms >= probe->end_ms + DRAIN_MS;
}

/* In the first turn: before that the engine's clock is as old as its last one. */
static void
begin_probe(struct probe *probe)
{
	uint64_t now_ms = probe->engine->now_ms;

	probe->begun = true;
	probe->begin_ms = now_ms;
	probe->count_ms = now_ms + probe->order.duration_ms / 4;
	probe->end_ms = now_ms + probe->order.duration_ms;
	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		struct probed *probed = &probe->devices[slot];

		if (probed->member == NULL)
			continue;
		probed->first_ms = now_ms;
		probed->moved_before = moved_bytes(probed->member);
	}
}

void
probe_run(struct engine *engine)
{
	struct probe *probe = engine->life->probe;
	bool stops = engine->phase != PHASE_RUNNING || engine->stop_wanted || engine->fenced;

	if (probe == NULL)
		return;
	if (!probe->begun)
		begin_probe(probe);
	for (int slot = 0; slot < SLOTS_MAX && !stops; slot++)
		if (probe->devices[slot].member != NULL)
			send_more(&probe->devices[slot]);
	/* Reads without a session are answered in the next round, and only what was sent can be
	 * abandoned.
	 */
	if (list_empty(&engine->link->immediate) && (stops || is_over(probe)))
		probe_end(probe, stops ? -ESHUTDOWN : 0);
}

uint64_t
probe_deadline(const struct engine *engine)
{
	const struct probe *probe = engine->life->probe;

	if (probe == NULL)
		return UINT64_MAX;
	if (!probe->begun)
		return engine->now_ms;
	if (engine->now_ms >= probe->end_ms)
		return probe->end_ms + DRAIN_MS;
	for (int slot = 0; slot < SLOTS_MAX && probe->order.rate_max != 0; slot++) {
		const struct probed *probed = &probe->devices[slot];

		if (probed->member != NULL && probed->result.error == 0 && !within_rate(probed))
			return engine->now_ms + 1;
	}
	return probe->end_ms;
}

static bool
takes_part(const struct engine *engine, const struct member *member, int slot)
{
	if (member->backend == NULL || member->link != LINK_OPEN || member->leaving)
		return false;
	return slot >= 0 ? member->slot == slot : member->in_sync && member_usable(member);
}

static int
refuse_probe(const struct engine *engine, const struct probe_order *order, char *why)
{
	if (engine->phase != PHASE_RUNNING || engine->stop_wanted || engine->fenced) {
		snprintf(why, 256, "the volume is not running");
		return -EAGAIN;
	}
	if (engine->life->probe != NULL) {
		snprintf(why, 256, "its members are being probed already");
		return -EBUSY;
	}
	if (order->block_bytes == 0 || order->block_bytes > PROBE_BLOCK_BYTES_MAX ||
	    order->block_bytes % PAGE_BYTES != 0 || order->depth == 0 ||
	    order->depth > PROBE_DEPTH_MAX || order->duration_ms == 0 ||
	    order->duration_ms > PROBE_MS_MAX || order->slot >= SLOTS_MAX) {
		snprintf(why, 256, "blocks of %u bytes, %u at a time, for %u ms: out of range",
			 order->block_bytes, order->depth, order->duration_ms);
		return -EINVAL;
	}
	return 0;
}

int
engine_probe(struct engine *engine, const struct probe_order *order,
	     void (*done)(void *owner, int error, const struct probe_result results[SLOTS_MAX]),
	     void *owner, char *why)
{
	int error = refuse_probe(engine, order, why), count = 0;
	struct probe *probe;

	if (error != 0)
		return error;
	for_each_member(engine, member)
		count += takes_part(engine, member, order->slot);
	if (count == 0) {
		snprintf(why, 256, "there is no session with %s",
			 order->slot >= 0 ? "it" : "any member");
		return -ENODEV;
	}
	probe = calloc(1, sizeof(*probe));
	if (probe == NULL ||
	    (probe->memory = aligned_alloc(PAGE_BYTES, order->block_bytes)) == NULL) {
		free(probe);
		snprintf(why, 256, "out of memory");
		return -ENOMEM;
	}
	probe->engine = engine;
	probe->order = *order;
	probe->done = done;
	probe->owner = owner;
	for_each_member(engine, member) {
		struct probed *probed = &probe->devices[member->slot];
		uint64_t steps = member->identity.capacity_bytes / START_STEP_BYTES;

		if (!takes_part(engine, member, order->slot))
			continue;
		probed->probe = probe;
		probed->member = member;
		probed->result.probed = true;
		probed->depth = 1;
		/* Elsewhere each time, so that it is not always the target's cache that answers. */
		probed->next_bytes =
			steps == 0 ? 0 : engine->now_ms * 40503 % steps * START_STEP_BYTES;
	}
	engine->life->probe = probe;
	engine->activity++;
	return 0;
}
