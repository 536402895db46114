/* native_engine.c - commands submitted to a volume from its own thread: nothing is between them and
 * the engine.
 */
#include "native_load.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/volume/host.h"

struct flying {
	atomic_int count;
	sem_t none;
};

struct slot {
	struct engine_request request;
	struct iovec iov;
	struct load *load;
	struct volume *volume;
	struct flying *flying;
	uint64_t began_us;
};

static void
submit(struct slot *slot)
{
	slot->request.offset_bytes = load_draw(slot->load);
	slot->began_us = load_now_us();
	volume_submit(slot->volume, &slot->request);
}

static void
done(struct engine_request *request, int result)
{
	struct slot *slot = request->owner;

	if (result != 0) {
		fprintf(stderr, "native_load: a command at %llu failed: %s\n",
			(unsigned long long)request->offset_bytes, strerror(-result));
		exit(EXIT_FAILURE);
	}
	load_done(slot->load, slot->began_us);
	if (!atomic_load_explicit(&slot->load->stop, memory_order_relaxed))
		submit(slot);
	else if (atomic_fetch_sub(&slot->flying->count, 1) == 1)
		sem_post(&slot->flying->none);
}

static struct slot *
make_slots(struct load *load, struct volume *volume, struct flying *flying)
{
	struct slot *slots = calloc((size_t)load->depth, sizeof(*slots));
	uint8_t *memory = aligned_alloc(4096, (size_t)load->depth * load->block_bytes);

	if (!slots || !memory)
		abort();
	memset(memory, 0x5a, (size_t)load->depth * load->block_bytes);
	for (int i = 0; i < load->depth; i++) {
		struct slot *slot = &slots[i];

		*slot = (struct slot){ .load = load, .volume = volume, .flying = flying };
		slot->iov =
			(struct iovec){ memory + (size_t)i * load->block_bytes, load->block_bytes };
		slot->request = (struct engine_request){
			.op = load->write ? REQUEST_WRITE : REQUEST_READ,
			.length_bytes = load->block_bytes,
			.iov = &slot->iov,
			.iov_count = 1,
			.done = done,
			.owner = slot,
		};
	}
	return slots;
}

static bool
all_proven(const struct engine_status *status)
{
	return status->state == VOLUME_ACTIVE && status->regions_suspect == 0;
}

void
engine_load(struct load *load, const char *name, void (*ready)(struct load *load))
{
	struct volume_host *host = volume_host_create("native_load");
	struct volume_view *view = malloc(sizeof(*view));
	struct volume *volume;
	struct volume_brief brief;
	struct slot *slots;
	struct flying flying;
	struct fault fault;

	if (!host || !view || volume_acquire(host, name, "native_load", &volume, &fault) != 0 ||
	    volume_wait_assembled(volume, 20000, &fault) != 0) {
		fprintf(stderr, "native_load: volume %s: %s\n", name, fault.message);
		exit(EXIT_FAILURE);
	}
	if (volume_view(host, name, view, &fault) != 0 || !all_proven(&view->status)) {
		fprintf(stderr,
			"native_load: volume %s is not whole and proven: wait for its resync "
			"first\n",
			name);
		exit(EXIT_FAILURE);
	}
	volume_brief(volume, &brief);
	load->area_bytes = brief.size_bytes;
	slots = make_slots(load, volume, &flying);
	atomic_init(&flying.count, load->depth);
	sem_init(&flying.none, 0, 0);
	ready(load);
	for (int i = 0; i < load->depth; i++)
		submit(&slots[i]);
	while (sem_wait(&flying.none) != 0)
		;
	volume_quiesce(volume);
	volume_release(volume);
	volume_host_destroy(host);
	free(view);
}
