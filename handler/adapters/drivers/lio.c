/* drivers/lio.c - see lio.h. */
#include "lio.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES_MAX 4096 /* configfs gives a page at most */
#define GROUP_HERE "iraid_here"
#define GROUP_PEER "iraid_peer"

/* Folder and name into path.  False: it is too long. */
static bool
join(char path[PATH_MAX], const char *folder, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* False: it is not there, or no more. */
static bool
read_text(const char *folder, const char *name, char text[TEXT_BYTES_MAX + 1])
{
	char path[PATH_MAX];
	FILE *file = join(path, folder, name) ? fopen(path, "re") : NULL;
	size_t length;

	if (!file)
		return false;
	length = fread(text, 1, TEXT_BYTES_MAX, file);
	fclose(file);
	text[length] = '\0';
	return true;
}

/* -1: it is not there, or no number. */
static int
read_number(const char *folder, const char *name)
{
	char text[TEXT_BYTES_MAX + 1], *end;
	long number;

	if (!read_text(folder, name, text))
		return -1;
	number = strtol(text, &end, 10);
	return end != text && number >= 0 && number <= INT_MAX ? (int)number : -1;
}

/* "... Config: iraid/v0  Size: ...", without the runner's own ";key=value" */
static bool
read_config(const char *storage, char config[LIO_CONFIG_MAX + 1])
{
	static const char key[] = "Config: ";
	char text[TEXT_BYTES_MAX + 1];
	const char *at = read_text(storage, "info", text) ? strstr(text, key) : NULL;
	size_t length = at ? strcspn(at + sizeof(key) - 1, " ;\t\r\n") : 0;

	if (length == 0 || length > LIO_CONFIG_MAX)
		return false;
	memcpy(config, at + sizeof(key) - 1, length);
	config[length] = '\0';
	return true;
}

/* Folders of storage objects that have `name`. */
static bool
find_storages(const char *folder, const char *name, glob_t *found)
{
	char pattern[PATH_MAX];

	return snprintf(pattern, sizeof(pattern), "%s/core/user_*/*/%s", folder, name) <
		       (int)sizeof(pattern) &&
	       glob(pattern, GLOB_NOSORT, NULL, found) == 0;
}

bool
lio_has(const char *folder, const char *config)
{
	char named[LIO_CONFIG_MAX + 1];
	glob_t found;
	bool has = false;

	if (!find_storages(folder, "info", &found))
		return false;
	for (size_t i = 0; i < found.gl_pathc && !has; i++) {
		*strrchr(found.gl_pathv[i], '/') = '\0';
		has = read_config(found.gl_pathv[i], named) && strcmp(named, config) == 0;
	}
	globfree(&found);
	return has;
}

/* --- target port groups --- */

static bool
read_pair(const char *storage, struct lio_pair *out)
{
	int peer;

	if (!join(out->storage, storage, "") || !read_config(storage, out->config))
		return false;
	out->storage[strlen(storage)] = '\0';
	out->here = read_number(storage, "alua/" GROUP_HERE "/tg_pt_gp_id");
	if (out->here != 1 && out->here != 2)
		return false;
	peer = 3 - out->here;
	out->access[out->here - 1] = read_number(storage, "alua/" GROUP_HERE "/alua_access_state");
	out->access[peer - 1] = read_number(storage, "alua/" GROUP_PEER "/alua_access_state");
	return out->access[0] >= 0 && out->access[1] >= 0;
}

void
lio_each_pair(const char *folder, lio_pair_function *fn, void *owner)
{
	static const char group[] = "alua/" GROUP_HERE;
	struct lio_pair pair;
	glob_t found;
	bool more = true;

	if (!find_storages(folder, group, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc && more; i++) {
		char *storage = found.gl_pathv[i];

		storage[strlen(storage) - sizeof(group)] = '\0'; /* and the '/' before it */
		more = !read_pair(storage, &pair) || fn(owner, &pair);
	}
	globfree(&found);
}

int
lio_set_access(const struct lio_pair *pair, int number, int state)
{
	const char *group = number == pair->here ? GROUP_HERE : GROUP_PEER;
	char path[PATH_MAX], text[16];
	int fd, length, error = 0;

	if (snprintf(path, sizeof(path), "%s/alua/%s/alua_access_state", pair->storage, group) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = snprintf(text, sizeof(text), "%d\n", state);
	if (write(fd, text, (size_t)length) != length)
		error = -errno;
	close(fd);
	return error;
}
