/* scratch.h - a gateway's folders, made for one test and removed after it. */
#ifndef IRAID_TESTS_SCRATCH_H
#define IRAID_TESTS_SCRATCH_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char scratch_folder[64];

static inline int
scratch_remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status, (void)kind, (void)walk;
	return remove(path);
}

static inline int
scratch_make(void **state)
{
	char path[PATH_MAX];

	(void)state;
	snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/iraid-test-XXXXXX");
	if (!mkdtemp(scratch_folder))
		return -1;
	snprintf(path, sizeof(path), "%s/etc", scratch_folder);
	setenv("IRAID_CONFIG_DIR", path, 1);
	snprintf(path, sizeof(path), "%s/state", scratch_folder);
	setenv("IRAID_STATE_DIR", path, 1);
	snprintf(path, sizeof(path), "%s/run", scratch_folder);
	setenv("IRAID_RUN_DIR", path, 1);
	setenv("IRAID_JOURNAL_SOCKET", "", 1);
	return 0;
}

static inline int
scratch_remove(void **state)
{
	(void)state;
	return nftw(scratch_folder, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void
scratch_write(const char *name, const char *text)
{
	char path[2 * PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		abort();
}

/* For fuzzing with a seed that is printed: xorshift64*. */
static inline uint64_t
scratch_random(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1dull;
}

#endif
