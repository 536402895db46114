/* base/fault.c - see fault.h. */
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
