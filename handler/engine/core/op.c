/* op.c - operations, from their claims on rows until they start. */
#include "core.h"

#include <assert.h>

void
op_ready(struct op *op)
{
	list_remove(&op->node);
	list_append(&op->engine->ops.ready, &op->node);
	op->engine->activity++;
}

void
op_claimed(struct op *op)
{
	if (op->holder.waiting == 0)
		op_ready(op);
	else
		list_append(&op->engine->ops.claimants, &op->node);
}

void
op_granted(struct claim_holder *holder)
{
	op_ready((struct op *)holder);
}

void *
op_take_memory(struct op *op, size_t bytes)
{
	return arena_take(&op->engine->arena, bytes, op->makes_room && !MUTANT(ROOM_UNRESERVED));
}

void
op_wait_for_buffer(struct op *op)
{
	list_append(&op->engine->ops.buffer_waiters, &op->node);
}

void
op_gone(struct engine *engine)
{
	assert(engine->ops.count > 0);
	engine->ops.count--;
	engine->activity++;
}
