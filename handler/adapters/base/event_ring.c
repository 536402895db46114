/* base/event_ring.c - see event_ring.h.  Records have a fixed size and place, so that adding one
 * allocates nothing: it happens on the volumes' threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "event_ring.h"

struct event_ring {
	pthread_mutex_t lock;
	pthread_cond_t added;
	uint64_t newest; /* number; record n is records[n % EVENTS_KEPT] */
	bool closed;
	char instance[17];
	struct event_record records[EVENTS_KEPT];
};

struct event_ring *
event_ring_create(void)
{
	struct event_ring *ring = calloc(1, sizeof(*ring));
	pthread_condattr_t attributes;
	uint64_t instance = 0;

	if (!ring)
		return NULL;
	if (getrandom(&instance, sizeof(instance), 0) != sizeof(instance))
		instance = (uint64_t)time(NULL);
	snprintf(ring->instance, sizeof(ring->instance), "%016" PRIx64, instance);
	pthread_mutex_init(&ring->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ring->added, &attributes);
	pthread_condattr_destroy(&attributes);
	return ring;
}

void
event_ring_destroy(struct event_ring *ring)
{
	if (!ring)
		return;
	pthread_cond_destroy(&ring->added);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

void
event_ring_add(struct event_ring *ring, int severity, const char *kind, const char *volume,
	       const char *member, const char *text)
{
	struct event_record *record;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&ring->lock);
	ring->newest++;
	record = &ring->records[ring->newest % EVENTS_KEPT];
	record->number = ring->newest;
	record->time_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	record->severity = severity;
	snprintf(record->kind, sizeof(record->kind), "%s", kind);
	snprintf(record->volume, sizeof(record->volume), "%s", volume);
	snprintf(record->member, sizeof(record->member), "%s", member);
	snprintf(record->text, sizeof(record->text), "%s", text);
	pthread_cond_broadcast(&ring->added);
	pthread_mutex_unlock(&ring->lock);
}

static uint64_t
oldest(const struct event_ring *ring)
{
	if (ring->newest == 0)
		return 0;
	return ring->newest <= EVENTS_KEPT ? 1 : ring->newest - EVENTS_KEPT + 1;
}

/* With the lock.  Takes what is there into out. */
static void
collect(const struct event_ring *ring, uint64_t after, const char *volume, int max,
	struct event_page *out)
{
	uint64_t number = oldest(ring);

	if (after + 1 > number)
		number = after + 1;
	out->count = 0;
	out->oldest = oldest(ring);
	for (; number != 0 && number <= ring->newest && out->count < max; number++) {
		const struct event_record *record = &ring->records[number % EVENTS_KEPT];

		after = number;
		if (!volume || strcmp(record->volume, volume) == 0)
			out->records[out->count++] = *record;
	}
	out->next = after;
}

int
event_ring_read(struct event_ring *ring, uint64_t after, const char *volume, int max,
		uint32_t wait_ms, struct event_page *out)
{
	struct timespec until;
	int late = 0;

	memset(out, 0, sizeof(*out));
	out->records = calloc((size_t)max, sizeof(*out->records));
	if (!out->records)
		return -ENOMEM;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_ms / 1000;
	until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&ring->lock);
	memcpy(out->instance, ring->instance, sizeof(out->instance));
	if (after > ring->newest)
		after = 0;
	for (;;) {
		collect(ring, after, volume, max, out);
		if (out->count > 0 || late != 0 || wait_ms == 0 || ring->closed)
			break;
		after = out->next;
		late = pthread_cond_timedwait(&ring->added, &ring->lock, &until);
	}
	pthread_mutex_unlock(&ring->lock);
	return 0;
}

void
event_ring_close(struct event_ring *ring, bool closed)
{
	pthread_mutex_lock(&ring->lock);
	ring->closed = closed;
	pthread_cond_broadcast(&ring->added);
	pthread_mutex_unlock(&ring->lock);
}
