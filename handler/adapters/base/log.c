/* base/log.c - see log.h. */
#include <stdarg.h>
#include <stdio.h>

#include "fault.h"
#include "log.h"

#define LINE_MAX_BYTES 1024

static void
log_to_stderr(int level, const char *text)
{
	static const char *const names[] = {
		"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
	};

	/* One call, so that lines of several threads don't mix. */
	fprintf(stderr, "iraid: %s: %s\n", names[level & 7], text);
}

static log_sink current_sink = log_to_stderr;

void
log_set_sink(log_sink sink)
{
	current_sink = sink ? sink : log_to_stderr;
}

void
log_line(int level, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text_make_harmless(text);
	current_sink(level, text);
}
