/* drivers/lio.c - see lio.h. */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lio.h"

#define INFO_BYTES_MAX 4096 /* configfs gives a page at most */

/* "... Config: iraid/v0  Size: ..." */
static bool
names(const char *path, const char *config)
{
	static const char key[] = "Config: ";
	char text[INFO_BYTES_MAX + 1];
	FILE *file = fopen(path, "re");
	const char *at;
	size_t length;

	if (!file) /* it was removed meanwhile */
		return false;
	length = fread(text, 1, INFO_BYTES_MAX, file);
	fclose(file);
	text[length] = '\0';
	at = strstr(text, key);
	if (!at)
		return false;
	at += sizeof(key) - 1;
	length = strcspn(at, " ;\t\r\n");
	return length == strlen(config) && memcmp(at, config, length) == 0;
}

bool
lio_has(const char *folder, const char *config)
{
	char pattern[PATH_MAX];
	glob_t found;
	bool has = false;

	if (snprintf(pattern, sizeof(pattern), "%s/core/user_*/*/info", folder) >=
	    (int)sizeof(pattern))
		return false;
	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc && !has; i++)
		has = names(found.gl_pathv[i], config);
	globfree(&found);
	return has;
}
