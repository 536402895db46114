/* schedule.h - virtual time: events in order of their time, and in order of arrival where that is
 * equal.
 */
#ifndef IRAID_SCHEDULE_H
#define IRAID_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct event {
	uint64_t at_us;
	uint64_t order;
	int place; /* in the heap, from 1; 0: not scheduled */
	void (*fire)(struct event *event);
};

struct schedule {
	uint64_t now_us;
	uint64_t order;
	struct event **heap; /* heap[1 .. count] */
	int count;
	int capacity;
};

void schedule_init(struct schedule *schedule);
void schedule_free(struct schedule *schedule);

/* The event's memory is the caller's until it fires or is cancelled.  A time that has passed is
 * now.
 */
void schedule_add(struct schedule *schedule, struct event *event, uint64_t at_us);
void schedule_cancel(struct schedule *schedule, struct event *event);

/* Time of the next event; UINT64_MAX if there is none. */
uint64_t schedule_next_us(const struct schedule *schedule);

/* Forward to the next event and fire it, if it is not later than until_us.  False: there is none,
 * and the clock stands where it stood.
 */
bool schedule_fire(struct schedule *schedule, uint64_t until_us);

/* xorshift64*: one state, one sequence. */
uint64_t fake_random(uint64_t *state);

/* Uniform in [low, high]. */
static inline uint64_t
random_between(uint64_t *state, uint64_t low, uint64_t high)
{
	return low + fake_random(state) % (high - low + 1);
}

/* True once in `times`, on average. */
static inline bool
random_once_in(uint64_t *state, uint64_t times)
{
	return fake_random(state) % times == 0;
}

/* A state made from a seed and a number, unrelated to those of other pairs. */
uint64_t random_stream(uint64_t seed, uint64_t number);

#endif
