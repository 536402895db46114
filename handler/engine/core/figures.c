/* figures.c - see figures.h. */
#include "core.h"
#include "ports/trace.h"

#include <errno.h>

const char *
figures_step_name(enum figures_step step)
{
	static const char *const names[] = {
		[STEP_RING] = "ring",	[STEP_WAIT] = "wait",	      [STEP_MARK] = "mark",
		[STEP_READ] = "read",	[STEP_CODE] = "code",	      [STEP_WRITE] = "write",
		[STEP_FLUSH] = "flush", [STEP_COMPLETE] = "complete",
	};

	return step < STEPS ? names[step] : "?";
}

/* Of whole microseconds, rounded up: what took a little more than a bound is above it. */
static unsigned int
histogram_bucket(uint64_t took_ns)
{
	uint64_t us = took_ns / 1000 + (took_ns % 1000 != 0);
	unsigned int bucket;

	if (us <= FIGURES_BOUND_US(0))
		return 0;
	bucket = 64 - (unsigned int)__builtin_clzll((us - 1) / FIGURES_BOUND_US(0));
	return bucket < FIGURES_BOUNDS ? bucket : FIGURES_BOUNDS;
}

void
histogram_add(struct histogram *histogram, uint64_t took_ns, uint64_t bytes, int result)
{
	histogram->count++;
	histogram->sum_ns += took_ns;
	histogram->buckets[histogram_bucket(took_ns)]++;
	if (result == 0)
		histogram->bytes += bytes;
	else
		histogram->errors++;
}

uint64_t
figures_look(struct engine *engine)
{
	if (engine->port.now_ns != NULL)
		engine->figures.stamp_ns = engine->port.now_ns(engine->port.owner);
	return engine->figures.stamp_ns;
}

static uint64_t
passed(const struct engine *engine, uint64_t since_ns)
{
	return engine->figures.stamp_ns > since_ns ? engine->figures.stamp_ns - since_ns : 0;
}

void
figures_submitted(struct engine *engine, struct engine_request *request)
{
	engine->figures.queue++;
	if (request->number == 0)
		request->number = ++engine->figures.numbers;
	if (engine->figures.unstamped == NULL)
		engine->figures.unstamped = request;
}

/* Those that came since the last run have come now, as far as we know: one look at the clock is
 * enough.
 */
void
figures_taken(struct engine *engine)
{
	for (struct engine_request *request = engine->figures.unstamped; request != NULL;
	     request = request->next) {
		request->since_ns = engine->figures.stamp_ns;
		if (request->arrived_ns == 0)
			request->arrived_ns = engine->figures.stamp_ns;
		else
			figures_step(engine, STEP_RING, request->arrived_ns, 1);
	}
	engine->figures.unstamped = NULL;
}

void
figures_took(struct engine *engine, enum figures_step step, uint64_t took_ns, uint32_t commands)
{
	struct step_figures *figures = &engine->figures.steps[step];

	figures->count += commands;
	figures->sum_ns += commands * took_ns;
	if (took_ns > figures->max_ns)
		figures->max_ns = took_ns;
}

void
figures_step(struct engine *engine, enum figures_step step, uint64_t begun_ns, uint32_t commands)
{
	figures_took(engine, step, passed(engine, begun_ns), commands);
}

void
figures_computed(struct engine *engine, uint64_t begun_ns, uint32_t commands)
{
	figures_look(engine);
	engine->figures.code_ns += passed(engine, begun_ns);
	figures_step(engine, STEP_CODE, begun_ns, commands);
}

/* Only what the member did or refused; what ended with its session is sent again, or is somebody
 * else's.
 */
void
figures_answered(struct member *member, const struct backend_io *io, uint64_t sent_ns)
{
	struct member_figures *figures = &member->figures;
	const uint64_t took_ns = passed(member->engine, sent_ns);

	switch (io->op) {
	case BACKEND_READ:
		histogram_add(&figures->reads, took_ns, io->length_bytes, io->result);
		break;
	case BACKEND_WRITE:
	case BACKEND_ZERO:
		histogram_add(&figures->writes, took_ns, io->length_bytes, io->result);
		break;
	case BACKEND_FLUSH:
		histogram_add(&figures->flushes, took_ns, 0, io->result);
		break;
	case BACKEND_MEASURE:
		break;
	}
}

void
figures_deliver(struct engine *engine, struct engine_request *request)
{
	const uint64_t number = request->number, offset_bytes = request->offset_bytes;
	struct answer *answer;

	if (request->claimed) { /* it works for another, which counts */
		request->done(request, request->first_error);
		return;
	}
	if (engine->figures.answers_count == ANSWERS_MAX)
		figures_delivered(engine);
	answer = &engine->figures.answers[engine->figures.answers_count++];
	*answer = (struct answer){
		.op = request->op,
		.result = request->first_error,
		.bytes = request->op == REQUEST_FLUSH ? 0 : request->length_bytes,
		.arrived_ns = request->arrived_ns,
		.finished_ns = request->finished_ns,
	};
	TRACE(complete__begin, engine->record.name, number, answer->op, offset_bytes, answer->bytes,
	      1);
	engine->figures.queue--;
	request->done(request, request->first_error);
	TRACE(complete__end, engine->record.name, number, answer->op, offset_bytes, answer->bytes,
	      1);
}

/* One look at the clock for all of them. */
void
figures_delivered(struct engine *engine)
{
	if (engine->figures.answers_count == 0)
		return;
	figures_look(engine);
	for (int i = 0; i < engine->figures.answers_count; i++) {
		const struct answer *answer = &engine->figures.answers[i];

		figures_step(engine, STEP_COMPLETE, answer->finished_ns, 1);
		/* A comparison that finds a difference was carried out as it should be. */
		histogram_add(&engine->figures.commands[answer->op],
			      passed(engine, answer->arrived_ns), answer->bytes,
			      answer->result == -EILSEQ ? 0 : answer->result);
	}
	engine->figures.answers_count = 0;
}
