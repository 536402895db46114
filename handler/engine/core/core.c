/* core.c - what everybody tells the driver, and what is asked most. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void
engine_log(struct engine *engine, int level, const char *format, ...)
{
	char text[512];
	va_list args;

	if (engine->port.log == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	engine->port.log(engine->port.owner, level, text);
}

void
engine_event(struct engine *engine, enum event_kind kind, int severity, struct member *member,
	     const char *format, ...)
{
	struct engine_event event = {
		.kind = kind,
		.severity = severity,
		.slot = member != NULL ? member->slot : -1,
	};
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	event.text = text;
	if (engine->port.log != NULL)
		engine->port.log(engine->port.owner, severity, text);
	if (engine->port.event != NULL)
		engine->port.event(engine->port.owner, &event);
}

struct iovec *
scratch_reserve(struct engine *engine, int count)
{
	struct iovec *grown;
	int capacity = engine->scratch.capacity;

	if (capacity >= count)
		return engine->scratch.iov;
	while (capacity < count)
		capacity = capacity ? capacity * 2 : 256;
	grown = realloc(engine->scratch.iov, (size_t)capacity * sizeof(*grown));
	if (grown == NULL)
		return NULL;
	engine->scratch.iov = grown;
	engine->scratch.capacity = capacity;
	return grown;
}

uint64_t
engine_clock_ns(const struct engine *engine)
{
	if (engine->port.clock_ns == NULL || engine->port.now_ns == NULL)
		return 0;
	return MUTANT(LEASE_BY_OLD_CLOCK) ? engine->figures.stamp_ns
					  : engine->port.clock_ns(engine->port.owner);
}

uint64_t
engine_clock_ms(const struct engine *engine)
{
	const uint64_t now_ns = engine_clock_ns(engine);

	return now_ns != 0 ? now_ns / 1000000 : engine->now_ms;
}

bool
engine_running(const struct engine *engine)
{
	return (engine->phase == PHASE_RUNNING || engine->phase == PHASE_DRAIN) && !engine->fenced;
}

/* Rows of pieces that are done are free, so others may have failed to write there.  What is not cut
 * yet comes behind that.
 */
void
requests_doubted(struct engine *engine, uint64_t first_row, uint64_t last_row)
{
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);
	struct engine_request *other;

	for (other = engine->ops.several; other != NULL; other = other->several_next) {
		const uint64_t bytes =
			other->op == REQUEST_ZERO ? other->cut_bytes : other->length_bytes;

		if (bytes > 0 && other->offset_bytes / row_bytes <= last_row &&
		    (other->offset_bytes + bytes - 1) / row_bytes >= first_row)
			other->doubted = true;
	}
}
