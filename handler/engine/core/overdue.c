/* overdue.c - how long a request can take (docs/design/time.md).
 *
 * A request has its time from when it was first looked at, a piece of a long range of zeros from when it was cut, whether
 * or not anything else is late.  Whatever waits for its sake bears that moment: operations, commands that wait for their
 * member, those who wait for marks, flushes, the table of lost extents.  Once it is used up,
 * all of that fails, wherever it is, but for commands that a member has: reads are diverted, writes end by the end of
 * their session at the latest, which the adapter brings about.
 *
 * What is not for a request, such as the record of an eviction, goes on for as long as it takes.
 */
#include "core.h"

#include <errno.h>

#define TURN_MS 1000u

/* Until it waits for nobody any more: that members are found silent, are waited for, are back, and others are given up then. */
static uint64_t
wait_ms_max(const struct engine_options *options)
{
	uint64_t limit = options->queue_limit_ms > options->assembly_limit_ms ? options->queue_limit_ms
									      : options->assembly_limit_ms;

	return limit + 3ull * options->give_up_ms + options->grace_ms;
}

uint64_t
engine_request_ms_max(const struct engine_options *options)
{
	return wait_ms_max(options) + (uint64_t)BACKEND_IO_DEADLINES * options->give_up_ms + TURN_MS;
}

bool
overdue_since(const struct engine *engine, uint64_t since_ms)
{
	return since_ms != 0 && engine->now_ms >= since_ms + wait_ms_max(&engine->options) && !MUTANT(WAITS_FOR_EVER);
}

uint64_t
overdue_at(const struct engine *engine, uint64_t since_ms)
{
	uint64_t at = since_ms + wait_ms_max(&engine->options);

	return since_ms == 0 || at <= engine->now_ms ? UINT64_MAX : at;
}

void
overdue_age(struct engine *engine)
{
	for (struct engine_request *request = engine->unaged; request != NULL; request = request->next) {
		request->since_ms = engine->now_ms > 0 ? engine->now_ms : 1;
		if (!zero_is_long(request))
			list_append(&engine->alive, &request->alive);
	}
	engine->unaged = NULL;
}

static void
fail_operations(struct engine *engine, struct list *waiting)
{
	struct list late;
	struct list *node;

	list_init(&late);
	for (node = waiting->next; node != waiting;) {
		struct op *op = list_entry(node, struct op, node);

		node = node->next;
		if (!overdue_since(engine, op->since_ms))
			continue;
		list_remove(&op->node);
		list_append(&late, &op->node);
	}
	while ((node = list_take(&late)) != NULL) {
		struct op *op = list_entry(node, struct op, node);

		op->fail(op, -ETIMEDOUT);
	}
}

/* Lists of either kind begin with the oldest. */
static bool
is_anything_late(const struct engine *engine)
{
	const struct list *request = engine->alive.next, *piece = engine->zeros_alive.next;

	if (request != &engine->alive &&
	    overdue_since(engine, list_entry(request, struct engine_request, alive)->since_ms))
		return true;
	return piece != &engine->zeros_alive && !MUTANT(LONG_RANGES_LATE) &&
	       overdue_since(engine, list_entry(piece, struct piece, alive)->since_ms);
}

void
overdue_run(struct engine *engine)
{
	if (!engine_running(engine) || !is_anything_late(engine))
		return;
	for_each_member(engine, member)
		member_fail_overdue(member);
	intent_io_overdue(engine);
	lost_io_overdue(engine);
	flush_overdue(engine);
	read_op_overdue(engine);
	behind_overdue(engine);
	fail_operations(engine, &engine->claimants);
	fail_operations(engine, &engine->buffer_waiters);
	fail_operations(engine, &engine->ready);
}

static uint64_t
pieces_deadline(const struct engine *engine)
{
	for (const struct list *node = engine->zeros_alive.next; node != &engine->zeros_alive; node = node->next) {
		uint64_t at = overdue_at(engine, list_entry(node, struct piece, alive)->since_ms);

		if (at != UINT64_MAX)
			return at;
	}
	return UINT64_MAX;
}

/* Of those that have time yet: for the others it is members that must end their commands. */
uint64_t
overdue_deadline(const struct engine *engine)
{
	const uint64_t piece_at = pieces_deadline(engine);

	for (const struct list *node = engine->alive.next; node != &engine->alive; node = node->next) {
		uint64_t at = overdue_at(engine, list_entry(node, struct engine_request, alive)->since_ms);

		if (at != UINT64_MAX)
			return at < piece_at ? at : piece_at;
	}
	return piece_at;
}
