/* volume/peek.c - see peek.h.  The engine knows nothing of it: the command goes to the backend, which
 * ends it in any case, with its session at the latest.
 */
#include <errno.h>
#include <string.h>

#include "adapters/config/search.h"
#include "internal.h"
#include "peek.h"

struct peek {
	const struct device_address *device;
	struct hosted *hosted;
	struct backend_io io; /* done and owner: ask()'s */
	bool done;
};

static void
peeked(struct backend_io *io)
{
	struct peek *peek = io->owner;
	struct hosted *hosted = peek->hosted;

	pthread_mutex_lock(&hosted->lock);
	peek->done = true;
	pthread_cond_broadcast(&hosted->changed);
	pthread_mutex_unlock(&hosted->lock);
}

static int
begin_peek(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct peek *peek = argument;

	for (int slot = 0; slot < hosted->slot_count; slot++) {
		struct backend *backend = hosted->backends[slot];

		if (!backend || !device_address_overlap(&hosted->devices[slot], peek->device))
			continue;
		backend->ops->submit(backend, &peek->io);
		return 0;
	}
	return fault_errno(fault, -ENOENT, "it is no device of the volume");
}

static int
ask(struct volume_host *host, const char *name, struct peek *peek, const char *what,
    struct fault *fault)
{
	struct hosted *hosted = volume_pin(host, name);
	int result;

	if (!hosted)
		return fault_errno(fault, -ENOTCONN, "volume \"%s\" is not running here", name);
	peek->hosted = hosted;
	peek->io.done = peeked;
	peek->io.owner = peek;
	result = volume_call_hosted(host, name, begin_peek, peek, fault);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!peek->done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		result = peek->io.result;
		if (result != 0)
			fault_errno(fault, result, "%s can't be read: %s", what, strerror(-result));
	}
	volume_unpin(hosted);
	return result;
}

int
volume_peek(struct volume_host *host, const char *name, const struct device_address *device,
	    uint64_t offset_bytes, void *buffer, uint32_t length, struct fault *fault)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = length };
	struct peek read = {
		.device = device,
		.io = {
			.op = BACKEND_READ,
			.offset_bytes = offset_bytes,
			.length_bytes = length,
			.iov = &iov,
			.iov_count = 1,
		},
	};

	return ask(host, name, &read, "it", fault);
}

int
volume_measure(struct volume_host *host, const char *name, const struct device_address *device,
	       uint64_t *capacity_bytes, struct fault *fault)
{
	struct peek measure = { .device = device, .io = { .op = BACKEND_MEASURE } };
	int result = ask(host, name, &measure, "its size", fault);

	if (result == 0)
		*capacity_bytes = measure.io.capacity_bytes;
	return result;
}
