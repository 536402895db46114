/* schedule.c - see schedule.h.  A binary heap whose events know their place, so that they can be
 * cancelled.
 */
#include "schedule.h"

#include <assert.h>
#include <stdlib.h>

uint64_t
fake_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	/* The low bits of the product are the weaker ones, and the ones that users take. */
	return (*state * 0x2545F4914F6CDD1Dull) >> 16;
}

uint64_t
random_stream(uint64_t seed, uint64_t number)
{
	uint64_t mixed = seed * 0x9E3779B97F4A7C15ull + number * 0xD1B54A32D192ED03ull + 1;

	mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
	mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
	mixed ^= mixed >> 31;
	return mixed != 0 ? mixed : 1;
}

void
schedule_init(struct schedule *schedule)
{
	*schedule = (struct schedule){ .now_us = 0 };
}

void
schedule_free(struct schedule *schedule)
{
	free(schedule->heap);
	*schedule = (struct schedule){ .now_us = 0 };
}

static bool
earlier(const struct event *a, const struct event *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void
put(struct schedule *schedule, int place, struct event *event)
{
	schedule->heap[place] = event;
	event->place = place;
}

static void
rise(struct schedule *schedule, int place, struct event *event)
{
	while (place > 1 && earlier(event, schedule->heap[place / 2])) {
		put(schedule, place, schedule->heap[place / 2]);
		place /= 2;
	}
	put(schedule, place, event);
}

static void
sink(struct schedule *schedule, int place, struct event *event)
{
	for (;;) {
		int child = 2 * place;

		if (child > schedule->count)
			break;
		if (child < schedule->count &&
		    earlier(schedule->heap[child + 1], schedule->heap[child]))
			child++;
		if (!earlier(schedule->heap[child], event))
			break;
		put(schedule, place, schedule->heap[child]);
		place = child;
	}
	put(schedule, place, event);
}

void
schedule_add(struct schedule *schedule, struct event *event, uint64_t at_us)
{
	assert(event->place == 0);
	if (schedule->count + 2 > schedule->capacity) {
		schedule->capacity = schedule->capacity ? 2 * schedule->capacity : 256;
		schedule->heap = realloc(schedule->heap,
					 (size_t)schedule->capacity * sizeof(struct event *));
		assert(schedule->heap != NULL);
	}
	event->at_us = at_us > schedule->now_us ? at_us : schedule->now_us;
	event->order = ++schedule->order;
	rise(schedule, ++schedule->count, event);
}

void
schedule_cancel(struct schedule *schedule, struct event *event)
{
	int place = event->place;
	struct event *last;

	if (place == 0)
		return;
	event->place = 0;
	last = schedule->heap[schedule->count--];
	if (last == event)
		return;
	if (place > 1 && earlier(last, schedule->heap[place / 2]))
		rise(schedule, place, last);
	else
		sink(schedule, place, last);
}

uint64_t
schedule_next_us(const struct schedule *schedule)
{
	return schedule->count > 0 ? schedule->heap[1]->at_us : UINT64_MAX;
}

bool
schedule_fire(struct schedule *schedule, uint64_t until_us)
{
	struct event *event;

	if (schedule->count == 0 || schedule->heap[1]->at_us > until_us)
		return false;
	event = schedule->heap[1];
	schedule_cancel(schedule, event);
	schedule->now_us = event->at_us;
	event->fire(event);
	return true;
}
