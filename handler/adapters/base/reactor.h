/* base/reactor.h - one thread's event loop: descriptors, one deadline, and a mailbox that other
 * threads may post to.  epoll and an eventfd; no allocation after creation but for a growing fd
 * table.
 */
#ifndef IRAID_REACTOR_H
#define IRAID_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

struct reactor;

/* Called on the reactor's thread with EPOLL* events. */
typedef void (*reactor_fd_fn)(void *owner, uint32_t events);

/* One piece of work posted from another thread; memory is the poster's until fn is called. */
struct reactor_message {
	void (*fn)(struct reactor_message *message);
	struct reactor_message *next;
};

struct reactor *reactor_create(void);
void reactor_destroy(struct reactor *reactor);

/* Watch fd (add, or change events); events 0 forgets it, which must be done before close(fd). 0 or
 * -errno.
 */
int reactor_watch(struct reactor *reactor, int fd, uint32_t events, reactor_fd_fn fn, void *owner);

/* From any thread, never blocks; wakes the reactor only if it may be asleep.  FIFO. */
void reactor_post(struct reactor *reactor, struct reactor_message *message);

/* One turn: wait until something happens or monotonic deadline_ms (UINT64_MAX: no deadline; 0:
 * don't wait), run all messages and descriptor callbacks.  The driver then calls engine_run().
 */
void reactor_turn(struct reactor *reactor, uint64_t deadline_ms);

/* When the turn began, as far as work is concerned; for the reactor's thread. */
uint64_t reactor_now_ms(const struct reactor *reactor);
/* the same moment: it had stopped waiting */
uint64_t reactor_now_ns(const struct reactor *reactor);

uint64_t monotonic_ms(void);
uint64_t monotonic_ns(void); /* the same clock */
uint64_t realtime_ms(void);  /* since 1970-01-01 UTC */

#endif
