/* drivers/nbdkit.c - the same volume over NBD: for machines without LIO, and for tests with libnbd
 * and fio.
 *
 *	nbdkit iraid VOLUME [control=PATH]
 *
 * The volume is locked and reserved as it is by the handler, so the two exclude each other.
 * Each of nbdkit's threads waits for its one request; the data goes from nbdkit's buffer to the
 * sockets without a copy.
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/rpc/socket.h"
#include "adapters/base/log.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static char *volume_name;
static char *control_path;
static struct volume_host *host;
static struct control *control;
static struct volume *volume;
static uint32_t assembly_limit_ms;

struct call {
	struct engine_request request;
	struct iovec iov;
	sem_t done;
	int result;
};

static void
log_to_nbdkit(int level, const char *text)
{
	/* nbdkit has no level between error and debug. */
	if (level <= LOG_WARNING)
		nbdkit_error("%s", text);
	else
		nbdkit_debug("%s", text);
}

static int
iraid_config(const char *key, const char *value)
{
	char **text = strcmp(key, "volume") == 0    ? &volume_name
		      : strcmp(key, "control") == 0 ? &control_path
						    : NULL;

	if (!text) {
		nbdkit_error("unknown parameter '%s'; write volume=NAME or control=PATH", key);
		return -1;
	}
	free(*text);
	*text = text == &control_path ? nbdkit_absolute_path(value) : strdup(value);
	if (!*text)
		nbdkit_error("%s=%s: out of memory", key, value);
	return *text ? 0 : -1;
}

static int
iraid_config_complete(void)
{
	const char *why = volume_name ? volume_name_fault(volume_name)
				      : "name the volume: nbdkit iraid VOLUME";

	if (!why)
		return 0;
	nbdkit_error("%s%s%s", volume_name ? volume_name : "", volume_name ? ": " : "", why);
	return -1;
}

/* Threads must be made after nbdkit has gone into the background. */
static int
iraid_after_fork(void)
{
	struct fault fault = FAULT_NONE;
	char user[VOLUME_USER_MAX + 1];
	struct volume_config *config;

	log_set_sink(log_to_nbdkit);
	host = volume_host_create("nbdkit");
	config = malloc(sizeof(*config));
	if (!host || !config) {
		free(config);
		nbdkit_error("out of memory");
		return -1;
	}
	snprintf(user, sizeof(user), "nbdkit: %s", volume_name);
	if (volume_acquire(host, volume_name, user, &volume, &fault) != 0 ||
	    volume_config_read(volume_name, config, &fault) != 0) {
		free(config);
		nbdkit_error("%s", fault.message);
		return -1;
	}
	assembly_limit_ms = (config->assembly_wait_seconds + 10) * 1000;
	free(config);
	if (control_path) {
		control = control_start(host, control_path, &fault);
		if (!control) {
			nbdkit_error("control socket %s", fault.message);
			return -1;
		}
	}
	return 0;
}

static void
iraid_cleanup(void)
{
	if (host)
		volume_host_end(host);
	if (control)
		control_stop(control);
	if (volume)
		volume_release(volume);
	if (host)
		volume_host_destroy(host);
	control = NULL;
	volume = NULL;
	host = NULL;
}

static void
iraid_unload(void)
{
	free(volume_name);
	free(control_path);
}

static void *
iraid_open(int readonly)
{
	struct fault fault = FAULT_NONE;
	struct volume_brief brief;

	/* On standby there is a device, as a LUN, if its size is known: each request fails. */
	volume_brief(volume, &brief);
	if (brief.state == VOLUME_STANDBY && brief.size_bytes != 0)
		return NBDKIT_HANDLE_NOT_NEEDED;
	if (volume_wait_assembled(volume, assembly_limit_ms, &fault) == 0)
		return NBDKIT_HANDLE_NOT_NEEDED;
	nbdkit_error("volume %s is not assembled: %s", volume_name, fault.message);
	return NULL;
}

static int64_t
iraid_get_size(void *handle)
{
	struct volume_brief brief;

	volume_brief(volume, &brief);
	return (int64_t)brief.size_bytes;
}

static int
iraid_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	struct volume_brief brief;

	volume_brief(volume, &brief);
	*minimum = brief.block_bytes;
	*preferred = brief.chunk_bytes;
	*maximum = 32u * 1024 * 1024;
	return 0;
}

static void
call_done(struct engine_request *request, int result)
{
	struct call *call = request->owner;

	call->result = result;
	sem_post(&call->done);
}

static int
run_request(const struct engine_request *request, void *buffer)
{
	static const char *const names[] = { "read", "write", "flush", "zero" };
	uint32_t count = (uint32_t)request->length_bytes;
	struct call call = { .request = *request, .iov = { buffer, count } };

	call.request.iov_count = buffer ? 1 : 0;
	call.request.done = call_done;
	call.request.iov = &call.iov;
	call.request.owner = &call;
	sem_init(&call.done, 0, 0);
	volume_submit(volume, &call.request);
	while (sem_wait(&call.done) != 0 && errno == EINTR)
		;
	sem_destroy(&call.done);
	if (call.result == 0)
		return 0;
	nbdkit_error("%s of %u bytes at %llu: %s", names[request->op], count,
		     (unsigned long long)request->offset_bytes, strerror(-call.result));
	/* NBD knows few errors; what has no number there would become EINVAL. */
	nbdkit_set_error(call.result == -EINVAL || call.result == -ESHUTDOWN ? -call.result : EIO);
	return -1;
}

static int
run(enum request_op op, void *buffer, uint32_t count, uint64_t offset, bool fua)
{
	struct engine_request request = {
		.op = op, .fua = fua, .offset_bytes = offset, .length_bytes = count
	};

	return run_request(&request, buffer);
}

static int
run_zero(uint32_t count, uint64_t offset, uint32_t flags, bool deallocate)
{
	struct engine_request request = {
		.op = REQUEST_ZERO,
		.fua = flags & NBDKIT_FLAG_FUA,
		.deallocate = deallocate,
		.offset_bytes = offset,
		.length_bytes = count,
	};

	return run_request(&request, NULL);
}

static int
iraid_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	return run(REQUEST_READ, buffer, count, offset, false);
}

static int
iraid_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	return run(REQUEST_WRITE, (void *)buffer, count, offset, flags & NBDKIT_FLAG_FUA);
}

static int
iraid_flush(void *handle, uint32_t flags)
{
	return run(REQUEST_FLUSH, NULL, 0, 0, false);
}

/* "Fast" promises only to be no slower than a write of zeros by the client, which holds: at worst
 * we do that write.
 */
static int
iraid_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return run_zero(count, offset, flags, flags & NBDKIT_FLAG_MAY_TRIM);
}

static int
iraid_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return run_zero(count, offset, flags, true);
}

static int
iraid_true(void *handle)
{
	return 1;
}

static int
iraid_can_fua(void *handle)
{
	return NBDKIT_FUA_NATIVE;
}

static struct nbdkit_plugin plugin = {
	.name = "iraid",
	.longname = "iraid volume",
	.version = IRAID_VERSION,
	.description = "several iSCSI targets as one redundant volume",
	.magic_config_key = "volume",
	.config_help = "volume=NAME    (required) a volume of /etc/iraid/volumes\n"
		       "control=PATH   serve the control socket there",
	.config = iraid_config,
	.config_complete = iraid_config_complete,
	.after_fork = iraid_after_fork,
	.cleanup = iraid_cleanup,
	.unload = iraid_unload,
	.open = iraid_open,
	.get_size = iraid_get_size,
	.block_size = iraid_block_size,
	.can_write = iraid_true,
	.can_flush = iraid_true,
	.can_fua = iraid_can_fua,
	.can_multi_conn = iraid_true,
	.can_trim = iraid_true,
	.can_zero = iraid_true,
	.can_fast_zero = iraid_true,
	.pread = iraid_pread,
	.pwrite = iraid_pwrite,
	.flush = iraid_flush,
	.trim = iraid_trim,
	.zero = iraid_zero,
	.errno_is_preserved = 1,
};

/* nbdkit's macro is written for -fvisibility=default. */
#pragma GCC visibility push(default)
NBDKIT_REGISTER_PLUGIN(plugin)
#pragma GCC visibility pop
