/* base/fault.h - why something could not be done, for a program and for a person.
 *
 * A function that can fail for a reason somebody should read takes a struct fault, never NULL, and
 * fills it when it fails; otherwise it may leave anything there.  The caller may add what it knows:
 * the fault's own message can be an argument of the next one.
 *
 *	code	of the control socket, where it is known what the fault means to an administrator.
 *		Below that -errno, which the function returns as well: rpc/ decides what it means
 *		for a command (docs/design/control.md).
 *	message	names the thing and the value.  It goes to logs and to clients, so it never holds a secret.
 *	remedy	what to do about it; may be empty.
 *
 * A check that needs no more than a phrase returns it (NULL: good), as volume_name_fault() does.
 * Files that list all of their faults with lines have struct config_faults.
 */
#ifndef IRAID_FAULT_H
#define IRAID_FAULT_H

#include <stdarg.h>
#include <stdbool.h>

/* the control socket's errors, by number */
enum fault_code {
	FAULT_PARSE = -32700,
	FAULT_REQUEST = -32600,
	FAULT_METHOD = -32601,
	FAULT_PARAMS = -32602,
	FAULT_INVALID = 1,
	FAULT_NOT_FOUND = 2,
	FAULT_EXISTS = 3,
	FAULT_UNREACHABLE = 4,
	FAULT_LOGIN = 5,
	FAULT_UNFIT = 6,
	FAULT_IN_USE = 7,
	FAULT_BUSY = 8,
	FAULT_IO = 9,
	FAULT_INTERNAL = 10,
};

struct fault {
	int code; /* enum fault_code, or -errno; 0: none */
	char message[1024];
	char remedy[512];
};

/* clang-format off */
#define FAULT_NONE { .code = 0 }
/* clang-format on */

/* Returns false, so that a check can end with it. */
bool fault_set(struct fault *fault, enum fault_code code, const char *remedy, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));
/* Without a remedy; returns the error. */
int fault_errno(struct fault *fault, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Of something that was to be written in a folder.  Returns the error, or -EDQUOT whatever kind of
 * room there is none of on that disk: -ENOSPC means elsewhere that a table has no place for one
 * more.  Only then there is a remedy.
 */
int fault_disk(struct fault *fault, int error, const char *folder, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* For functions that take a format themselves. */
void fault_vset(struct fault *fault, int code, const char *remedy, const char *format,
		va_list arguments) __attribute__((format(printf, 4, 0)));

/* What a target or a client sent, before it gets to a log, the journal or an answer: what is not
 * printable ASCII becomes '?'.  So it forges no line or field, commands no terminal (C1 is UTF-8,
 * too), is never invalid UTF-8, and what is shown is what is there.
 */
void text_make_harmless(char *text);

/* Bytes of as many whole characters of a UTF-8 text as make at most `most`: to quote it with
 * "%.*s".
 */
int text_fit(const char *text, int most);

#endif
