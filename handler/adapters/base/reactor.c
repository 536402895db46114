/* base/reactor.c - epoll for descriptors, an eventfd and a lock-free mailbox for other threads.
 *
 * The mailbox is a stack that posters push onto with compare-and-swap; the reactor takes the whole
 * of it at once and turns it round, so messages run in the order they were posted.  A poster
 * writes the eventfd only when the reactor says it may be asleep: it sets `asleep` before it looks
 * at the mailbox for the last time, a poster pushes before it looks at `asleep`, so one of the two
 * sees the other (both orders are sequentially consistent).
 *
 * A callback may forget a descriptor whose event still waits in the batch that epoll returned,
 * and the number may already mean another descriptor: every registration has a generation,
 * which the event carries, and a stale event is dropped.
 *
 * SIGPIPE is blocked in the thread that turns the reactor, should a callback write without
 * MSG_NOSIGNAL: a peer that closed would end the process.
 */
#include "reactor.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_TURN 64
#define MAILBOX_EVENT UINT64_MAX

struct watch {
	reactor_fd_fn fn; /* NULL: not watched */
	void *owner;
	uint32_t events;
	uint32_t generation;
};

struct reactor {
	int epoll_fd;
	int event_fd;
	struct watch *watches; /* by descriptor */
	int watches_count;
	_Atomic(struct reactor_message *) mailbox; /* newest first */
	atomic_bool asleep;
	uint64_t now_ms, now_ns;
};

/* Not CLOCK_MONOTONIC, which stands still while the machine sleeps: others don't meanwhile. */
uint64_t
monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t
monotonic_ms(void)
{
	return monotonic_ns() / 1000000;
}

uint64_t
realtime_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct reactor *
reactor_create(void)
{
	struct reactor *reactor = calloc(1, sizeof(*reactor));
	/* Edge-triggered: each write of the eventfd is one event, and nobody needs to read it. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = MAILBOX_EVENT };

	if (reactor == NULL)
		return NULL;
	reactor->now_ns = monotonic_ns();
	reactor->now_ms = reactor->now_ns / 1000000;
	reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	reactor->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reactor->epoll_fd < 0 || reactor->event_fd < 0 ||
	    epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, reactor->event_fd, &event) != 0) {
		int saved = errno;

		if (reactor->epoll_fd >= 0)
			close(reactor->epoll_fd);
		if (reactor->event_fd >= 0)
			close(reactor->event_fd);
		free(reactor);
		errno = saved;
		return NULL;
	}
	return reactor;
}

static int
grow_watches(struct reactor *reactor, int fd)
{
	int count = reactor->watches_count ? reactor->watches_count : 64;
	struct watch *watches;

	while (count <= fd)
		count *= 2;
	watches = realloc(reactor->watches, (size_t)count * sizeof(*watches));
	if (watches == NULL)
		return -ENOMEM;
	memset(watches + reactor->watches_count, 0,
	       (size_t)(count - reactor->watches_count) * sizeof(*watches));
	reactor->watches = watches;
	reactor->watches_count = count;
	return 0;
}

static int
stop_watching(struct reactor *reactor, struct watch *watch, int fd)
{
	if (watch->fn == NULL)
		return 0;
	watch->fn = NULL;
	watch->events = 0;
	watch->generation++;
	return epoll_ctl(reactor->epoll_fd, EPOLL_CTL_DEL, fd, NULL) == 0 ? 0 : -errno;
}

int
reactor_watch(struct reactor *reactor, int fd, uint32_t events, reactor_fd_fn fn, void *owner)
{
	struct epoll_event event = { .events = events };
	struct watch *watch;
	int operation;

	if (fd < 0)
		return -EBADF;
	if (fd >= reactor->watches_count) {
		int error = events == 0 ? 0 : grow_watches(reactor, fd);

		if (error != 0 || events == 0)
			return error;
	}
	watch = &reactor->watches[fd];
	if (events == 0)
		return stop_watching(reactor, watch, fd);
	assert(fn != NULL);
	operation = watch->fn == NULL ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
	event.data.u64 = (uint64_t)watch->generation << 32 | (uint32_t)fd;
	if (epoll_ctl(reactor->epoll_fd, operation, fd, &event) != 0)
		return -errno;
	watch->fn = fn;
	watch->owner = owner;
	watch->events = events;
	return 0;
}

void
reactor_post(struct reactor *reactor, struct reactor_message *message)
{
	struct reactor_message *newest = atomic_load(&reactor->mailbox);

	do {
		message->next = newest;
	} while (!atomic_compare_exchange_weak(&reactor->mailbox, &newest, message));
	if (atomic_exchange(&reactor->asleep, false)) {
		uint64_t one = 1;
		ssize_t written = write(reactor->event_fd, &one, sizeof(one));

		(void)written; /* the counter takes 2^64 - 2 of them */
	}
}

static void
run_messages(struct reactor *reactor)
{
	struct reactor_message *newest = atomic_exchange(&reactor->mailbox, NULL);
	struct reactor_message *oldest = NULL;

	while (newest != NULL) {
		struct reactor_message *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest != NULL) {
		struct reactor_message *next = oldest->next;

		oldest->fn(oldest); /* may free or post it again */
		oldest = next;
	}
}

static void
run_event(struct reactor *reactor, const struct epoll_event *event)
{
	uint32_t fd = (uint32_t)event->data.u64;
	struct watch *watch;

	if (event->data.u64 == MAILBOX_EVENT)
		return; /* having woken up is all */
	watch = &reactor->watches[fd];
	if (watch->fn != NULL && watch->generation == event->data.u64 >> 32)
		watch->fn(watch->owner, event->events);
}

/* From the beginning of the last turn on, so it waits longer by what that took: not worth another
 * look at the clock, which is a system call where the kernel has no clock that can be read without.
 */
static int
wait_ms(const struct reactor *reactor, uint64_t deadline_ms)
{
	if (deadline_ms == UINT64_MAX)
		return -1;
	if (deadline_ms <= reactor->now_ms)
		return 0;
	return deadline_ms - reactor->now_ms > INT_MAX ? INT_MAX
						       : (int)(deadline_ms - reactor->now_ms);
}

uint64_t
reactor_now_ms(const struct reactor *reactor)
{
	return reactor->now_ms;
}

uint64_t
reactor_now_ns(const struct reactor *reactor)
{
	return reactor->now_ns;
}

static void
block_sigpipe_once(void)
{
	static _Thread_local bool blocked;
	sigset_t set;

	if (blocked)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	blocked = true;
}

void
reactor_turn(struct reactor *reactor, uint64_t deadline_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int timeout = wait_ms(reactor, deadline_ms);
	int count;

	block_sigpipe_once();
	if (timeout != 0) {
		atomic_store(&reactor->asleep, true);
		if (atomic_load(&reactor->mailbox) != NULL)
			timeout = 0;
	}
	count = epoll_wait(reactor->epoll_fd, events, EVENTS_PER_TURN, timeout);
	atomic_store(&reactor->asleep, false);
	reactor->now_ns = monotonic_ns();
	reactor->now_ms = reactor->now_ns / 1000000;
	run_messages(reactor);
	for (int i = 0; i < count; i++)
		run_event(reactor, &events[i]);
}

void
reactor_destroy(struct reactor *reactor)
{
	if (reactor == NULL)
		return;
	/* Messages own memory that only their fn frees. */
	while (atomic_load(&reactor->mailbox) != NULL)
		run_messages(reactor);
	close(reactor->epoll_fd);
	close(reactor->event_fd);
	free(reactor->watches);
	free(reactor);
}
