/* base/fault.c - see fault.h. */
#include <errno.h>
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
put_fitting(char *out, size_t size, const char *text)
{
	size_t length = (size_t)text_fit(text, (int)size - 1);

	memmove(out, text, length);
	out[length] = '\0';
}

void
fault_vset(struct fault *fault, int code, const char *remedy, const char *format, va_list arguments)
{
	/* Apart: the old message may be an argument.  A byte more: it shows whether a character
	 * goes on.
	 */
	char text[sizeof(fault->message) + 1];

	vsnprintf(text, sizeof(text), format, arguments);
	put_fitting(fault->message, sizeof(fault->message), text);
	put_fitting(fault->remedy, sizeof(fault->remedy), remedy);
	fault->code = code;
}

bool
fault_set(struct fault *fault, enum fault_code code, const char *remedy, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fault_vset(fault, code, remedy, format, arguments);
	va_end(arguments);
	return false;
}

int
fault_errno(struct fault *fault, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fault_vset(fault, error, "", format, arguments);
	va_end(arguments);
	return error;
}

int
fault_disk(struct fault *fault, int error, const char *folder, const char *format, ...)
{
	char remedy[sizeof(fault->remedy)] = "";
	va_list arguments;

	if (error == -ENOSPC || error == -EDQUOT) {
		snprintf(remedy, sizeof(remedy),
			 "make room on that disk (df -h %.160s and df -i %.160s show how much "
			 "there is), then try again",
			 folder, folder);
		error = -EDQUOT;
	}
	va_start(arguments, format);
	fault_vset(fault, error, remedy, format, arguments);
	va_end(arguments);
	return error;
}

void
text_make_harmless(char *text)
{
	for (char *c = text; *c; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	}
}
