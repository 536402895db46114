/* gateway_state.c - what the gateway must remember across reboots: who it is, and the highest
 * epoch it has seen of each volume, so that a set of members that is older than what it once
 * worked with is refused (docs/design/control.md, DESIGN rule 7).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uuid/uuid.h>

#include "config.h"
#include "files.h"

#define STATE_FILE_BYTES_MAX 64u

static const char gateway_id_file[] = "gateway-id";

/* One number in a file; base 10 or 16.  -EINVAL if anything else is there. */
static int
read_number(const char *folder, const char *name, int base, uint64_t *out)
{
	char path[PATH_MAX];
	char *text, *end;
	size_t length;
	unsigned long long number;
	int error;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	error = file_read(path, STATE_FILE_BYTES_MAX, &text, &length);
	if (error != 0)
		return error;
	errno = 0;
	number = strtoull(text, &end, base);
	if (errno != 0 || end == text || *end != '\n' || (size_t)(end - text) + 1 != length)
		error = -EINVAL;
	else
		*out = number;
	free(text);
	return error;
}

int
gateway_id(uint64_t *out)
{
	uint64_t id;
	char text[32];
	int error = read_number(state_dir(), gateway_id_file, 16, out);

	if (error != -ENOENT)
		return error;
	do {
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -EIO;
	} while (id == 0);
	snprintf(text, sizeof(text), "%016" PRIx64 "\n", id);
	error = file_create(state_dir(), gateway_id_file, text, strlen(text), 0600);
	if (error != 0 && error != -EEXIST)
		return error;
	/* Whoever came first has won: all programs of a gateway must agree. */
	return read_number(state_dir(), gateway_id_file, 16, out);
}

static int
epochs_folder(char *out, size_t size)
{
	return snprintf(out, size, "%s/epochs", state_dir()) >= (int)size ? -ENAMETOOLONG : 0;
}

int
epoch_recall(const uint8_t uuid[16], uint64_t *epoch)
{
	char folder[PATH_MAX], name[UUID_STR_LEN];
	int error = epochs_folder(folder, sizeof(folder));

	*epoch = 0;
	if (error != 0)
		return error;
	uuid_unparse_lower(uuid, name);
	error = read_number(folder, name, 10, epoch);
	return error == -ENOENT ? 0 : error;
}

int
epoch_record(const uint8_t uuid[16], uint64_t epoch)
{
	char folder[PATH_MAX], name[UUID_STR_LEN], text[32];
	int error = epochs_folder(folder, sizeof(folder));

	if (error != 0)
		return error;
	uuid_unparse_lower(uuid, name);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", epoch);
	return file_replace(folder, name, text, strlen(text), 0600);
}

int
epoch_forget(const uint8_t uuid[16])
{
	char folder[PATH_MAX], name[UUID_STR_LEN];
	int error = epochs_folder(folder, sizeof(folder));

	if (error != 0)
		return error;
	uuid_unparse_lower(uuid, name);
	error = file_remove(folder, name);
	return error == -ENOENT ? 0 : error;
}
