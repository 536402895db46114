/* flush_op.c - a flush that a request asks for. */
#include "internal.h"
#include "engine/record/record.h"

#include <stdlib.h>

struct flush_op {
	struct flush_waiter waiter; /* must be first */
	struct piece *piece;
	struct engine *engine;
};

static void
request_flushed(struct flush_waiter *waiter, int result)
{
	struct flush_op *op = (struct flush_op *)waiter;
	struct engine *engine = op->engine;

	TRACE_PIECE(engine, flush__end, op->piece);
	figures_step(engine, STEP_FLUSH, op->piece->since_ns, 1);
	list_prepend(&engine->io->free_flushes, &waiter->node);
	op_gone(engine);
	piece_finish(engine, op->piece, result);
}

bool
flush_op_create(struct engine *engine, struct piece *piece)
{
	struct list *node = list_take(&engine->io->free_flushes);
	struct flush_op *op =
		node != NULL ? (struct flush_op *)list_entry(node, struct flush_waiter, node)
			     : calloc(1, sizeof(*op));

	if (op == NULL)
		return false;
	op->waiter.done = request_flushed;
	op->waiter.told = !piece->request->for_read || MUTANT(LOSS_TOLD_TO_READER);
	op->waiter.since_ms = piece->since_ms;
	op->engine = engine;
	op->piece = piece;
	list_init(&op->waiter.node);
	engine->ops.count++;
	piece_waited(engine, piece, 0);
	piece->since_ns = engine->figures.stamp_ns;
	TRACE_PIECE(engine, flush__begin, piece);
	flush_join(engine, &op->waiter);
	return true;
}

void
flush_ops_free(struct engine *engine)
{
	struct list *node;

	while ((node = list_take(&engine->io->free_flushes)) != NULL)
		free(list_entry(node, struct flush_waiter, node));
}
