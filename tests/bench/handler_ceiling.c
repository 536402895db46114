/* handler_ceiling.c - a handler for tcmu-runner that completes every command at once and touches no
 * data.
 *
 * What a LUN of it reaches is the most that any handler can reach behind the same LIO, ring and
 * runner: the difference to iraid is what iraid and the members cost.  Reads return what the ring
 * held before, so it is for scripts/bench only.
 *
 * As in handler_iraid, nr_threads is 0 and commands complete by tcmur_cmd_complete(): the runner's
 * way for handlers that don't block, which is faster than its own threads.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tcmu-runner.h"
#include "libtcmu.h"

static int
complete(struct tcmu_device *device, struct tcmur_cmd *command)
{
	/* To return OK means "later", so it completes here. */
	tcmur_cmd_complete(device, command, TCMU_STS_OK);
	return TCMU_STS_OK;
}

static int
ceiling_transfer(struct tcmu_device *device, struct tcmur_cmd *command, struct iovec *iov,
		 size_t iov_count, size_t length, off_t offset)
{
	return complete(device, command);
}

static int
ceiling_open(struct tcmu_device *device, bool reopen)
{
	tcmu_dev_set_write_cache_enabled(device, true);
	return 0;
}

static void
ceiling_close(struct tcmu_device *device)
{
}

static struct tcmur_handler handler = {
	.name = "Ceiling: completes at once, stores nothing",
	.subtype = "ceiling",
	.cfg_desc = "Any name",
	.open = ceiling_open,
	.close = ceiling_close,
	.nr_threads = 0,
	.read = ceiling_transfer,
	.write = ceiling_transfer,
	.flush = complete,
};

int handler_init(void);

__attribute__((visibility("default"))) int
handler_init(void)
{
	return tcmur_register_handler(&handler);
}
