/* proof.c - what a gateway answers that does not know yet that another one has the volume must not
 * be old.
 *
 * A write proves itself: it touches members of which every other gateway that could run must have
 * one.  What is read, from members or from memory, what a comparison found, and a flush, which
 * speaks of writes that others acknowledged, are answered when members have said since that the
 * volume is ours (members/lease.c).  Those whose word is missing are asked when a request begins,
 * so that it need not wait for them at its end.
 *
 *	done --> proven --> finished
 *	   `--> waits --(members say so; too late; fenced off)--> finished
 */
#include "internal.h"
#include "engine/members/members.h"

#include <errno.h>

static bool
may_be_old(const struct engine_request *request)
{
	return !request->claimed &&
	       (request->op == REQUEST_READ || request->op == REQUEST_COMPARE_WRITE ||
		(request->op == REQUEST_FLUSH && !MUTANT(FLUSH_UNPROVEN)));
}

/* An error is no news. */
static bool
says_something(const struct engine_request *request)
{
	return request->op == REQUEST_COMPARE_WRITE ? request->first_error == -EILSEQ
						    : request->first_error == 0;
}

void
proof_begun(struct engine *engine, const struct engine_request *request)
{
	if (!may_be_old(request))
		return;
	engine->io->proof.under_way++;
	engine->io->proof.newest = request->submitted_at;
}

void
proof_finish(struct engine *engine, struct engine_request *request)
{
	if (may_be_old(request))
		engine->io->proof.under_way--;
	if (!may_be_old(request) || !says_something(request)) {
		request_finish(engine, request);
		return;
	}
	request->next = NULL;
	*engine->io->proof.tail = request;
	engine->io->proof.tail = &request->next;
}

/* What it ends with; -EINPROGRESS: it waits. */
static int
verdict_of(struct engine *engine, const struct engine_request *request, uint64_t now_ns, int needed)
{
	if (needed == 0 || lease_holds(engine, request->submitted_at, now_ns, needed))
		return request->first_error;
	if (engine->fenced || engine->phase >= PHASE_RELEASE)
		return -ESHUTDOWN;
	if (engine->expired || overdue_since(engine, request->since_ms))
		return -ETIMEDOUT;
	return -EINPROGRESS;
}

static void
judge_all(struct engine *engine, int needed)
{
	const uint64_t now_ns = needed > 0 ? engine_clock_ns(engine) : 0;
	struct engine_request *request = engine->io->proof.head;

	engine->io->proof.head = NULL;
	engine->io->proof.tail = &engine->io->proof.head;
	while (request != NULL) {
		struct engine_request *next = request->next;
		const int verdict = verdict_of(engine, request, now_ns, needed);

		if (verdict == -EINPROGRESS) {
			request->next = NULL;
			*engine->io->proof.tail = request;
			engine->io->proof.tail = &request->next;
		} else {
			request->first_error = verdict;
			request_finish(engine, request);
		}
		request = next;
	}
}

void
proof_run(struct engine *engine)
{
	struct io *io = engine->io;
	int needed;

	if (io->proof.head == NULL && io->proof.under_way == 0)
		return;
	needed = engine->fenced ? INT32_MAX : lease_needed(engine);
	judge_all(engine, needed);
	if (needed == 0 || engine->fenced || engine->phase >= PHASE_RELEASE)
		return;
	lease_ask(engine, io->proof.newest, needed);
	if (io->proof.head != NULL && io->proof.look_ms <= engine->now_ms)
		io->proof.look_ms = engine->now_ms + LEASE_SOON_MS;
}

uint64_t
proof_deadline(const struct engine *engine)
{
	return engine->io->proof.head != NULL ? engine->io->proof.look_ms : UINT64_MAX;
}
