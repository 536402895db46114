/* late.c - ends what has waited too long for a request (core/overdue.c). */
#include "internal.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"

#include <errno.h>

void
overdue_age(struct engine *engine)
{
	for (struct engine_request *request = engine->io->unaged; request != NULL;
	     request = request->next) {
		request->since_ms = engine->now_ms > 0 ? engine->now_ms : 1;
		if (!zero_is_long(request))
			list_append(&engine->io->alive, &request->alive);
	}
	engine->io->unaged = NULL;
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
	const struct list *request = engine->io->alive.next, *piece = engine->io->zeros_alive.next;

	if (request != &engine->io->alive &&
	    overdue_since(engine, list_entry(request, struct engine_request, alive)->since_ms))
		return true;
	return piece != &engine->io->zeros_alive && !MUTANT(LONG_RANGES_LATE) &&
	       overdue_since(engine, list_entry(piece, struct piece, alive)->since_ms);
}

void
overdue_run(struct engine *engine)
{
	if (!engine_running(engine) || !is_anything_late(engine))
		return;
	for_each_member(engine, member)
		member_fail_overdue(member);
	marks_overdue(engine);
	write_log_overdue(engine);
	lost_io_overdue(engine);
	flush_overdue(engine);
	read_op_overdue(engine);
	behind_overdue(engine);
	fail_operations(engine, &engine->ops.claimants);
	fail_operations(engine, &engine->ops.buffer_waiters);
	fail_operations(engine, &engine->ops.ready);
}

static uint64_t
pieces_deadline(const struct engine *engine)
{
	const struct list *waiting = &engine->io->zeros_alive;

	for (const struct list *node = waiting->next; node != waiting; node = node->next) {
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

	for (const struct list *node = engine->io->alive.next; node != &engine->io->alive;
	     node = node->next) {
		uint64_t at = overdue_at(engine,
					 list_entry(node, struct engine_request, alive)->since_ms);

		if (at != UINT64_MAX)
			return at < piece_at ? at : piece_at;
	}
	return piece_at;
}
