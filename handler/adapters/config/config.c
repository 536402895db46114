/* config/config.c - see config.h.  Folders of a gateway, names, and which volumes are configured;
 * what stands in the files is volume_file.c's.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "volume_file.h"
#include "adapters/base/files.h"
#include "gateway_file.h"
#include "adapters/base/log.h"

#define CONFIG_LOCK_MS_MAX 5000 /* an edit takes milliseconds */

static const char *
folder_of(const char *variable, const char *usual)
{
	const char *value = getenv(variable);

	return value && value[0] ? value : usual;
}

const char *
config_dir(void)
{
	return folder_of("IRAID_CONFIG_DIR", "/etc/iraid");
}

const char *
state_dir(void)
{
	return folder_of("IRAID_STATE_DIR", "/var/lib/iraid");
}

const char *
machine_id_path(void)
{
	return folder_of("IRAID_MACHINE_ID", "/etc/machine-id");
}

const char *
run_dir(void)
{
	return folder_of("IRAID_RUN_DIR", "/run/iraid");
}

const char *
libexec_dir(void)
{
	return folder_of("IRAID_LIBEXEC_DIR", IRAID_LIBEXEC);
}

const char *
monitor_group(void)
{
	return folder_of("IRAID_MONITOR_GROUP", "iraid-monitor");
}

const char *
socket_path(void)
{
	return folder_of("IRAID_SOCKET", "/run/iraid/control.sock");
}

const char *
volume_name_fault(const char *name)
{
	size_t length = strlen(name);

	if (length == 0)
		return "a volume's name must not be empty";
	if (length > LAYOUT_NAME_MAX)
		return "a volume's name has at most 63 characters";
	if (name[0] == '.' || name[0] == '-')
		return "a volume's name must not begin with '.' or '-'";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c >= 0x80 || (!isalnum(c) && c != '.' && c != '_' && c != '-'))
			return "a volume's name may hold only letters, digits, '.', '_' and '-'";
	}
	return NULL;
}

int
volume_config_folder(char *out, size_t size)
{
	int count = snprintf(out, size, "%s/volumes", config_dir());

	return count < 0 || (size_t)count >= size ? -ENAMETOOLONG : 0;
}

void
volume_config_usual(struct volume_config *config)
{
	memset(config, 0, sizeof(*config));
	config->give_up_seconds = GIVE_UP_SECONDS_DEFAULT;
	config->queue_limit_seconds = QUEUE_LIMIT_SECONDS_DEFAULT;
	config->assembly_wait_seconds = ASSEMBLY_WAIT_SECONDS_DEFAULT;
	config->sync_rate_min = SYNC_RATE_MIN_DEFAULT;
	config->sync_rate_max = SYNC_RATE_MAX_DEFAULT;
	config->grace_milliseconds = GRACE_MILLISECONDS_DEFAULT;
	config->hedge_milliseconds = HEDGE_MILLISECONDS_DEFAULT;
	config->spare_wait_seconds = SPARE_WAIT_SECONDS_DEFAULT;
	config->error_limit = ERROR_LIMIT_DEFAULT;
	config->log = LOG_MODE_DEGRADED;
	config->enabled = true;
}

/* What gateway.conf says of all volumes.  A fault there is the default's business: a typo in it
 * must not keep volumes from starting.  volume_config_complain() tells of it.
 */
static void
take_common(struct volume_config *config)
{
	struct gateway_file *gateway = malloc(sizeof(*gateway));
	struct config_faults *faults = calloc(1, sizeof(*faults));

	volume_config_usual(config);
	if (gateway && faults && gateway_file_read(gateway, faults) == 0) {
		*config = gateway->config.volumes;
		gateway_file_free(gateway);
	}
	free(faults);
	free(gateway);
}

void
volume_config_defaults(struct volume_config *config, const char *name)
{
	char host[65] = "gateway";
	uint64_t gateway = 0;

	take_common(config);
	snprintf(config->name, sizeof(config->name), "%s", name);
	if (gethostname(host, sizeof(host) - 1) != 0)
		snprintf(host, sizeof(host), "gateway");
	/* LIO tells initiators apart by their name alone, and host names repeat: the gateway's id
	 * makes two gateways two.
	 */
	if (gateway_id(&gateway) != 0)
		gateway = 0;
	snprintf(config->initiator, sizeof(config->initiator), "iqn.2026-01.org.iraid:%s-%08x:%s",
		 host, (unsigned int)gateway, name);
	/* Names of hosts and volumes may hold what an initiator's name may not. */
	for (char *c = config->initiator; *c; c++) {
		if (isupper((unsigned char)*c))
			*c = (char)tolower((unsigned char)*c);
		else if (*c == '_')
			*c = '-';
	}
}

int
volume_config_find(const struct volume_config *config, const struct device_address *device)
{
	for (int i = 0; i < config->device_count; i++) {
		if (device_address_same(&config->devices[i], device))
			return i;
	}
	return -1;
}

int
volume_config_drop(struct volume_config *config, const struct device_address *device)
{
	int index = volume_config_find(config, device);

	if (index < 0)
		return 0;
	if (config->device_count <= 2)
		return -EINVAL;
	config->device_count--;
	memmove(&config->devices[index], &config->devices[index + 1],
		(size_t)(config->device_count - index) * sizeof(config->devices[0]));
	return 0;
}

int
volume_config_read(const char *name, struct volume_config *out, struct fault *fault)
{
	struct volume_file *file = malloc(sizeof(*file));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	int error = file && faults ? volume_file_read(name, file, faults) : -ENOMEM;

	if (error == 0) {
		*out = file->config;
		volume_file_free(file);
	} else if (error == -ENOMEM) {
		fault_errno(fault, error, "volume \"%.80s\": out of memory", name);
	} else {
		config_faults_tell(faults, file->path, error, fault);
	}
	free(faults);
	free(file);
	return error;
}

bool
volume_config_uuid(const char *name, uint8_t out[16])
{
	struct volume_file *file = malloc(sizeof(*file));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	bool known = false;

	if (file && faults) {
		if (volume_file_read(name, file, faults) == 0)
			volume_file_free(file);
		for (int i = 0; i < volume_key_count; i++)
			known |= volume_keys[i].kind == CONFIG_UUID && file->lines[i] != 0;
		/* Those that were too many to be kept may be its. */
		known = known && faults->passed_over == 0;
		for (int i = 0; i < faults->count; i++)
			known = known && strcasecmp(faults->list[i].key, "uuid") != 0;
	}
	if (known)
		memcpy(out, file->config.uuid, sizeof(file->config.uuid));
	free(faults);
	free(file);
	return known;
}

void
volume_config_complain(void)
{
	struct gateway_file *gateway = malloc(sizeof(*gateway));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	struct fault fault;

	if (gateway && faults) {
		if (gateway_file_read(gateway, faults) == 0)
			gateway_file_free(gateway);
		config_faults_tell(faults, gateway->path, -EINVAL, &fault);
		if (faults->count > 0)
			log_line(LOG_ERR, "%s; for keys with faults the defaults apply",
				 fault.message);
	}
	free(faults);
	free(gateway);
}

/* Whoever waits for it holds up others, and starts of volumes with them: so not for ever. */
static int
lock_within(int fd)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000000 };

	for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited_ms += 20) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited_ms >= CONFIG_LOCK_MS_MAX)
			return -EAGAIN;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int
config_lock(const char *name, struct fault *fault)
{
	char path[PATH_MAX];
	int fd = -1, error = folder_make(run_dir());

	if (error == 0 &&
	    snprintf(path, sizeof(path), "%s/%s", run_dir(), name) >= (int)sizeof(path))
		error = -ENAMETOOLONG;
	if (error == 0) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		error = fd < 0 ? -errno : lock_within(fd);
	}
	if (error == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	if (error == -EAGAIN)
		return fault_errno(
			fault, error,
			"another program has held the lock %s/%s for %d s; fuser -v shows which",
			run_dir(), name, CONFIG_LOCK_MS_MAX / 1000);
	return fault_disk(fault, error, run_dir(), "%s/%s can't be locked: %s", run_dir(), name,
			  strerror(-error));
}

int
volume_config_delete(const char *name, struct fault *fault)
{
	char folder[PATH_MAX], file[LAYOUT_NAME_MAX + sizeof(VOLUME_SUFFIX)];
	int error = volume_config_folder(folder, sizeof(folder)), lock;

	if (error == 0 && volume_name_fault(name))
		error = -EINVAL;
	if (error == 0) {
		lock = config_lock(VOLUMES_LOCK, fault);
		if (lock < 0)
			return lock;
		snprintf(file, sizeof(file), "%s" VOLUME_SUFFIX, name);
		error = file_remove(folder, file);
		close(lock);
	}
	return error == 0 ? 0
			  : fault_errno(fault, error,
					"the file of volume %s in %s/volumes can't be removed",
					name, config_dir());
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The name of a volume whose file this is; false: it is none. */
static bool
name_of_file(const char *file, char name[LAYOUT_NAME_MAX + 1])
{
	size_t length = strlen(file), end = strlen(VOLUME_SUFFIX);

	if (length <= end || length - end > LAYOUT_NAME_MAX ||
	    strcmp(file + length - end, VOLUME_SUFFIX) != 0)
		return false;
	memcpy(name, file, length - end);
	name[length - end] = '\0';
	return !volume_name_fault(name);
}

int
volume_config_list(char (*names)[LAYOUT_NAME_MAX + 1], int max)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *dir;
	int count = 0;
	int error = volume_config_folder(folder, sizeof(folder));

	if (error != 0)
		return error;
	dir = opendir(folder);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (count < max && (entry = readdir(dir))) {
		if (name_of_file(entry->d_name, names[count]))
			count++;
	}
	closedir(dir);
	qsort(names, (size_t)count, sizeof(names[0]), compare_names);
	return count;
}
