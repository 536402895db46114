/* config/gateway_state.c - what the gateway must remember across reboots: who it is, and the
 * highest epoch it has seen of each volume, so that a set of members that is older than what it
 * once worked with is refused (docs/design/control.md, DESIGN rule 7; epoch_file.c).  The level is
 * only for a name.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uuid/uuid.h>

#include "config.h"
#include "epoch_file.h"
#include "preempted.h"
#include "pure/geometry.h"
#include "adapters/base/files.h"

#define STATE_FILE_BYTES_MAX 64u

static const char gateway_id_file[] = "gateway-id";

/* One number in a file; base 10 or 16.  -EINVAL if anything else is there. */
static int
read_number_file(const char *folder, const char *name, int base, uint64_t *out)
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

static int
create_gateway_id(uint64_t *out)
{
	uint64_t id;
	char text[32];
	int error;

	do {
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -EIO;
	} while (id == 0);
	snprintf(text, sizeof(text), "%016" PRIx64 "\n", id);
	error = file_create(state_dir(), gateway_id_file, text, strlen(text), 0600);
	if (error != 0 && error != -EEXIST)
		return error;
	/* Whoever came first has won: all programs of a gateway must agree. */
	return read_number_file(state_dir(), gateway_id_file, 16, out);
}

/* A machine that was made from another's image has its files, and is another gateway: whoever
 * clones machines gives each a machine id of its own (machine-id(5)).  Where there is none the file
 * alone counts.
 */
static int
tie_to_machine(uint64_t *id)
{
	char *text;
	size_t length;
	int error = file_read(machine_id_path(), STATE_FILE_BYTES_MAX, &text, &length);

	if (error != 0)
		return error == -ENOENT ? 0 : error;
	*id = hash_bytes(hash_bytes(HASH_BEGIN, id, sizeof(*id)), text, length);
	if (*id == 0)
		*id = 1;
	free(text);
	return 0;
}

int
gateway_id(uint64_t *out)
{
	/* Several volumes may start at once, and files are made by one thread of a process at a
	 * time.
	 */
	static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
	int error;

	pthread_mutex_lock(&creating);
	error = read_number_file(state_dir(), gateway_id_file, 16, out);
	if (error == -ENOENT)
		error = create_gateway_id(out);
	pthread_mutex_unlock(&creating);
	return error == 0 ? tie_to_machine(out) : error;
}

uint64_t
hash_bytes(uint64_t hash, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ull;
	return hash;
}

int
gateway_reservation_key(uint64_t *out)
{
	uint64_t id;
	int error = gateway_id(&id);

	if (error != 0)
		return error;
	*out = hash_bytes(HASH_BEGIN, &id, sizeof(id));
	if (*out == 0)
		*out = 1;
	return 0;
}

/* A number for each volume: folder/UUID under state_dir(). */
static int
recall(const char *kind, const uint8_t uuid[16], uint64_t *out)
{
	char folder[PATH_MAX], name[UUID_STR_LEN];

	if (snprintf(folder, sizeof(folder), "%s/%s", state_dir(), kind) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	uuid_unparse_lower(uuid, name);
	return read_number_file(folder, name, 10, out);
}

static int
record(const char *kind, const uint8_t uuid[16], uint64_t number)
{
	char folder[PATH_MAX], name[UUID_STR_LEN], text[32];

	if (snprintf(folder, sizeof(folder), "%s/%s", state_dir(), kind) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	uuid_unparse_lower(uuid, name);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
	return file_replace(folder, name, text, strlen(text), 0600);
}

static int
remove_record(const char *kind, const uint8_t uuid[16])
{
	char folder[PATH_MAX], name[UUID_STR_LEN];
	int error;

	if (snprintf(folder, sizeof(folder), "%s/%s", state_dir(), kind) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	uuid_unparse_lower(uuid, name);
	error = file_remove(folder, name);
	return error == -ENOENT ? 0 : error;
}

int
level_recall(const uint8_t uuid[16])
{
	uint64_t level;

	return recall("levels", uuid, &level) == 0 && level <= 10 ? (int)level : -1;
}

int
level_record(const uint8_t uuid[16], int level)
{
	return record("levels", uuid, (uint64_t)level);
}

int
needed_record(const uint8_t uuid[16], int members)
{
	return record("needed", uuid, (uint64_t)members);
}

int
needed_recall(const uint8_t uuid[16])
{
	uint64_t members;

	return recall("needed", uuid, &members) == 0 && members <= IRAID_MEMBERS_MAX ? (int)members
										     : 0;
}

uint64_t
predecessor_recall(const uint8_t uuid[16])
{
	uint64_t key;

	return recall("predecessors", uuid, &key) == 0 ? key : 0;
}

int
predecessor_record(const uint8_t uuid[16], uint64_t key)
{
	return key != 0 ? record("predecessors", uuid, key) : remove_record("predecessors", uuid);
}

int
volume_forget(const uint8_t uuid[16])
{
	const int errors[] = { epoch_file_remove(uuid), remove_record("levels", uuid),
			       remove_record("needed", uuid), predecessor_record(uuid, 0),
			       preempted_forget(uuid), standby_forget(uuid) };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i] != 0)
			return errors[i];
	return 0;
}

int
standby_record(const uint8_t uuid[16], uint64_t since_ms)
{
	return record("standby", uuid, since_ms);
}

int
standby_recall(const uint8_t uuid[16], uint64_t *since_ms)
{
	return recall("standby", uuid, since_ms);
}

int
standby_forget(const uint8_t uuid[16])
{
	return remove_record("standby", uuid);
}
