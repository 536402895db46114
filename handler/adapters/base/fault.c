/* base/fault.c - see fault.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

int
text_fit(const char *text, int most)
{
	int length = (int)strnlen(text, (size_t)most + 1);

	if (length <= most)
		return length;
	for (length = most; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; length--)
		;
	return length;
}

/* What does not fit is left out.  text may be out itself. */
static void
put(char *out, size_t size, const char *text)
{
	size_t length = (size_t)text_fit(text, (int)size - 1);

	memmove(out, text, length);
	out[length] = '\0';
}

/* Made apart: the old message may be among the arguments. */
static void
put_message(struct fault *fault, const char *format, va_list arguments)
{
	char text[sizeof(fault->message) + 1];	/* so that it is seen whether a character goes on */

	vsnprintf(text, sizeof(text), format, arguments);
	put(fault->message, sizeof(fault->message), text);
}

bool
fault_set(struct fault *fault, enum fault_code code, const char *remedy, const char *format, ...)
{
	va_list arguments;

	fault->code = code;
	va_start(arguments, format);
	put_message(fault, format, arguments);
	va_end(arguments);
	put(fault->remedy, sizeof(fault->remedy), remedy);
	return false;
}

int
fault_errno(struct fault *fault, int error, const char *format, ...)
{
	va_list arguments;

	fault->code = error;
	va_start(arguments, format);
	put_message(fault, format, arguments);
	va_end(arguments);
	fault->remedy[0] = '\0';
	return error;
}
