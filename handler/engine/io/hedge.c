/* hedge.c - reads around members that are slow or silent (docs/design/members.md).
 *
 * A read whose commands all wait for one member, for hedge_ms or because that one fell silent, is
 * made from the others if they all answer: its commands are abandoned (nothing of them can arrive
 * in the request's memory any more), and it begins again as if the member were missing.
 */
#include "read_op.h"
#include "engine/link/link.h"

#include <errno.h>
#include <syslog.h>

/* it has waited for so many times the others' mean: as long again is saved */
#define HEDGE_FACTOR 2u
/* one read in so many goes to a slow member, to see whether it is slow still */
#define SLOW_PROBE 16u

/* Roles whose member is silent or slow. */
static uint32_t
troubled_roles(const struct engine *engine)
{
	uint32_t troubled = 0;

	for (int role = 0; role < engine->geometry.members; role++) {
		const struct member *member = engine->by_role[role];

		if (member != NULL && (!member_usable(member) || member->slow))
			troubled |= ROLE(role);
	}
	return troubled;
}

/* Everybody but these, and those who are out, answers, so their chunks can be made from the others.
 */
static bool
others_suffice(const struct engine *engine, uint32_t roles)
{
	return geometry_bears(&engine->geometry, engine->out | troubled_roles(engine) | roles);
}

uint32_t
read_roles_to_evade(struct engine *engine)
{
	uint32_t troubled = troubled_roles(engine);

	if (troubled == 0 || !others_suffice(engine, 0))
		return 0;
	for (int role = 0; role < engine->geometry.members; role++) {
		struct member *member = engine->by_role[role];

		if ((troubled & ROLE(role)) && member_usable(member) &&
		    ++member->avoided % SLOW_PROBE == 0)
			troubled &= ~ROLE(role);
	}
	return troubled;
}

/* Commands of the read that wait for their answers, or for their member, and none that was answered
 * just now; and the one member they all wait for, or NULL.
 */
static bool
waits(struct read_op *op, struct member **for_whom)
{
	struct member *found = NULL;
	bool several = false;
	int count = 0;

	for_each_member(op->op.engine, member) {
		const struct list *lists[] = { &member->in_flight, &member->parked };

		for (int i = 0; i < 2; i++)
			for (struct list *node = lists[i]->next; node != lists[i];
			     node = node->next)
				if (list_entry(node, struct member_io, node)->owner == op) {
					several |= found != NULL && found != member;
					found = member;
					count++;
				}
	}
	*for_whom = several ? NULL : found;
	return count == op->pending;
}

static struct member *
waits_for(struct read_op *op)
{
	struct member *member;

	return waits(op, &member) ? member : NULL;
}

static void
abandon_commands(struct read_op *op, struct member *member)
{
	struct list *lists[] = { &member->in_flight, &member->parked };

	for (int i = 0; i < 2; i++)
		for (struct list *node = lists[i]->next, *next; node != lists[i]; node = next) {
			struct member_io *mio = list_entry(node, struct member_io, node);

			next = node->next;
			if (mio->owner == op)
				member_io_abandon(mio);
		}
}

/* Where the others are no quicker, reading from all of them instead of one makes them slower yet,
 * and what was made from them would come no sooner: a volume whose links are full must not hedge
 * itself to a standstill.
 */
static bool
others_are_quicker(const struct read_op *op)
{
	const struct engine *engine = op->op.engine;
	const struct member *member = waits_for((struct read_op *)op);
	const uint32_t unread = troubled_roles(engine) | op->avoid;
	uint64_t slowest_us = 0;

	for (int role = 0; role < engine->geometry.members; role++) {
		const struct member *other = engine->by_role[role];

		if (other != NULL && other != member && !(unread & ROLE(role)) &&
		    other->latency_us > slowest_us)
			slowest_us = other->latency_us;
	}
	return (engine->now_ms - op->issued_ms) * 1000 > HEDGE_FACTOR * slowest_us;
}

static void
issue_over(struct read_op *op)
{
	struct engine *engine = op->op.engine;

	list_remove(&op->waiting);
	op->pending = 0;
	TRACE_PIECE(engine, read__end, op->piece);
	figures_step(engine, STEP_READ, op->issued_ns, 1);
}

void
read_op_overdue(struct engine *engine)
{
	struct list *next;

	for (struct list *node = engine->io->reads.next; node != &engine->io->reads; node = next) {
		struct read_op *op = list_entry(node, struct read_op, waiting);
		struct member *nobody;

		next = node->next;
		if (!overdue_since(engine, op->op.since_ms) || !waits(op, &nobody))
			continue;
		for_each_member(engine, member)
			abandon_commands(op, member);
		issue_over(op);
		read_op_end(op, -ETIMEDOUT);
	}
}

/* Make it from the others.  False: it has to wait. */
static bool
hedge(struct read_op *op)
{
	struct engine *engine = op->op.engine;
	struct member *member;

	if (op->patient)
		return false;
	member = waits_for(op);
	if (member == NULL || (!member->in_sync && (!member->evicting || member->leaving)) ||
	    (op->avoid & ROLE(member->role)) ||
	    !others_suffice(engine, op->avoid | ROLE(member->role)))
		return false;
	abandon_commands(op, member);
	issue_over(op);
	op->avoid |= ROLE(member->role);
	op->evades = true;
	engine->counters.reads_hedged++;
	read_op_again(op);
	return true;
}

/* Reads are moving means; a hedged one counts when it is answered, late. */
static void
judge_speed(struct engine *engine)
{
	for_each_member(engine, member) {
		uint64_t others = 0;
		int count = 0;

		for_each_member(engine, other)
			if (other != member && other->in_sync) {
				others += other->latency_us;
				count++;
			}
		if (!member->in_sync || count == 0)
			continue;
		others /= (uint64_t)count;
		if (!member->slow && member->latency_us > 50000 &&
		    member->latency_us > 4 * others) {
			member->slow = true;
			engine_event(engine, EVENT_MEMBER_SLOW, LOG_WARNING, member,
				     "member %s is slow (%u ms, the others %u): reads avoid it",
				     member->backend->label, member->latency_us / 1000,
				     (unsigned int)(others / 1000));
		} else if (member->slow &&
			   (member->latency_us < 25000 || member->latency_us < 2 * others)) {
			member->slow = false;
			engine_event(engine, EVENT_MEMBER_SLOW, LOG_NOTICE, member,
				     "member %s is as fast as the others again",
				     member->backend->label);
		}
	}
}

void
read_op_hedge(struct engine *engine)
{
	const uint32_t limit = engine->options.hedge_ms;
	struct list *node, *next;

	if (engine->geometry.redundancy == 0 || engine->phase < PHASE_RUNNING || engine->fenced)
		return;
	if (engine->now_ms >= engine->io->judge_ms) {
		engine->io->judge_ms = engine->now_ms + 250;
		judge_speed(engine);
	}
	for (node = engine->io->reads.next; node != &engine->io->reads; node = next) {
		struct read_op *op = list_entry(node, struct read_op, waiting);

		next = node->next;
		if (!engine->hedge_silent && (limit == 0 || engine->now_ms < op->look_ms))
			break; /* they are in that order */
		if (engine->hedge_silent) {
			hedge(op);
		} else if (!others_are_quicker(op) || !hedge(op)) {
			op->look_ms = engine->now_ms + limit;
			list_remove(node);
			list_append(&engine->io->reads, node);
		}
	}
	engine->hedge_silent = false;
}

uint64_t
read_op_deadline(const struct engine *engine)
{
	if (engine->options.hedge_ms == 0 || engine->geometry.redundancy == 0 || engine->fenced ||
	    list_empty(&engine->io->reads))
		return UINT64_MAX;
	return list_entry(engine->io->reads.next, struct read_op, waiting)->look_ms;
}
