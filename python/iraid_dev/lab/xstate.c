/* xstate.c - loaded into user-mode Linux before libc, on processors with AMX.
 *
 * User-mode Linux 6.1 gives its processes back as much of their registers (NT_X86_XSTATE) as it knows of.  The host's kernel takes nothing
 * that is shorter than the processor's own state, which is longer with AMX: init dies of that at once ("Attempted to kill init",
 * put_fp_registers).  So the rest is read from the process, and given back with what user-mode Linux has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define STATE_BYTES_MAX (64u << 10)

static long (*next)(int request, ...);

static long
set_state(int request, void *process, void *address, struct iovec *known)
{
	static __thread char state[STATE_BYTES_MAX] __attribute__((aligned(64)));
	struct iovec all = { state, sizeof(state) };

	if (next(PTRACE_GETREGSET, process, address, &all) != 0 || known->iov_len >= all.iov_len)
		return next(request, process, address, known);
	memcpy(state, known->iov_base, known->iov_len);
	return next(request, process, address, &all);
}

long
ptrace(enum __ptrace_request request, ...)
{
	va_list words;
	void *process, *address, *data;

	va_start(words, request);
	process = va_arg(words, void *);
	address = va_arg(words, void *);
	data = va_arg(words, void *);
	va_end(words);
	if (next == NULL)
		next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
		return set_state(request, process, address, data);
	return next(request, process, address, data);
}
