/* refuse_memory.c - loaded before a program (LD_PRELOAD): one allocation fails, of a chosen site.
 *
 * A site is the address, within the module that IRAID_REFUSE_IN names, of the innermost frame that
 * lies in it: what a library allocates on its behalf counts as the site that called the library.
 *
 *	IRAID_REFUSE_LOG	a file that gets a line "site ADDRESS" when a site allocates for the
 *				first time, and "refused ADDRESS"
 *	IRAID_REFUSE_AT		the site whose first allocation fails; none: all succeed
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAMES_MAX 48
#define SITES_MAX 4096u /* a power of two */

/* glibc's own names of what is replaced here */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic uintptr_t module_base, module_end; /* 0: it is not loaded yet */
static _Atomic uintptr_t sites[SITES_MAX];
static atomic_bool refused;
static _Thread_local bool inside;

static int
look_at_object(struct dl_phdr_info *info, size_t size, void *wanted)
{
	uintptr_t end = 0;

	(void)size;
	if (strstr(info->dlpi_name, wanted) == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    end < info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz)
			end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
	module_end = info->dlpi_addr + end;
	module_base = info->dlpi_addr;
	return 1;
}

static void
tell(const char *what, uintptr_t site)
{
	const char *path = getenv("IRAID_REFUSE_LOG");
	char line[64];
	int length = snprintf(line, sizeof(line), "%s 0x%" PRIxPTR "\n", what, site);
	int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || write(fd, line, (size_t)length) != length)
		abort();
	close(fd);
}

/* 0: the module has no part in it. */
static uintptr_t
find_site(void)
{
	void *frames[FRAMES_MAX];
	const int count = backtrace(frames, FRAMES_MAX);

	for (int i = 0; i < count; i++) {
		const uintptr_t at = (uintptr_t)frames[i];

		if (at >= module_base && at < module_end)
			return at - module_base;
	}
	return 0;
}

static void
note(uintptr_t site)
{
	for (uint32_t i = (uint32_t)(site * 2654435761u);; i++) {
		uintptr_t found = 0;

		if (atomic_compare_exchange_strong(&sites[i % SITES_MAX], &found, site)) {
			tell("site", site);
			return;
		}
		if (found == site)
			return;
	}
}

static bool
is_refused(void)
{
	const char *name = getenv("IRAID_REFUSE_IN"), *at = getenv("IRAID_REFUSE_AT");
	const int error = errno;
	bool refuse = false;
	uintptr_t site;

	if (inside || name == NULL)
		return false;
	inside = true;
	if (module_base == 0)
		dl_iterate_phdr(look_at_object, (void *)name);
	site = module_base != 0 ? find_site() : 0;
	if (site != 0)
		note(site);
	if (site != 0 && at != NULL && site == strtoull(at, NULL, 16) &&
	    !atomic_exchange(&refused, true)) {
		tell("refused", site);
		refuse = true;
	}
	errno = refuse ? ENOMEM : error;
	inside = false;
	return refuse;
}

void *
malloc(size_t size)
{
	return is_refused() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
	return is_refused() ? NULL : __libc_calloc(count, size);
}

void *
realloc(void *old, size_t size)
{
	return is_refused() ? NULL : __libc_realloc(old, size);
}

int
posix_memalign(void **out, size_t alignment, size_t size)
{
	void *made = is_refused() ? NULL : __libc_memalign(alignment, size);

	if (made != NULL)
		*out = made;
	return made != NULL ? 0 : ENOMEM;
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	return is_refused() ? NULL : __libc_memalign(alignment, size);
}
