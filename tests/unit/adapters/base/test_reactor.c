/* test_reactor.c - order of messages, wake-ups, stale events, deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapters/base/reactor.h"

#define POSTERS 3
#define POSTS 20000

struct numbered {
	struct reactor_message message;
	int poster, number;
	bool on_the_way;
};

static int last_seen[POSTERS];
static int seen;

static void
note(struct reactor_message *message)
{
	struct numbered *numbered = (struct numbered *)message;

	if (last_seen[numbered->poster] + 1 != numbered->number)
		fail_msg("message %d of %d came after %d", numbered->number, numbered->poster,
			 last_seen[numbered->poster]);
	last_seen[numbered->poster] = numbered->number;
	seen++;
}

static int
make_reactor(void **state)
{
	*state = reactor_create();
	seen = 0;
	for (int i = 0; i < POSTERS; i++)
		last_seen[i] = -1;
	return *state == NULL ? -1 : 0;
}

static int
end_reactor(void **state)
{
	reactor_destroy(*state);
	return 0;
}

static void
test_messages_run_in_the_order_they_were_posted(void **state)
{
	struct numbered numbered[100];

	for (int i = 0; i < 100; i++) {
		numbered[i] = (struct numbered){ .message.fn = note, .number = i };
		reactor_post(*state, &numbered[i].message);
	}
	assert_int_equal(seen, 0); /* not from inside the post */
	reactor_turn(*state, UINT64_MAX);
	assert_int_equal(seen, 100);
}

struct poster {
	struct reactor *reactor;
	struct numbered *messages;
};

static void *
post_all(void *argument)
{
	struct poster *poster = argument;

	for (int i = 0; i < POSTS; i++)
		reactor_post(poster->reactor, &poster->messages[i].message);
	return NULL;
}

/* A lost wake-up would hang here: the turns wait without a deadline. */
static void
test_no_post_of_any_thread_is_lost_or_reordered(void **state)
{
	struct poster posters[POSTERS];
	pthread_t threads[POSTERS];

	alarm(60);
	for (int i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){ *state, calloc(POSTS, sizeof(struct numbered)) };
		for (int n = 0; n < POSTS; n++)
			posters[i].messages[n] =
				(struct numbered){ .message.fn = note, .poster = i, .number = n };
		assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
	}
	while (seen < POSTERS * POSTS)
		reactor_turn(*state, UINT64_MAX);
	for (int i = 0; i < POSTERS; i++) {
		pthread_join(threads[i], NULL);
		free(posters[i].messages);
	}
	alarm(0);
	assert_int_equal(seen, POSTERS * POSTS);
}

static struct reactor *again_reactor;
static int again_left;

static void
post_again(struct reactor_message *message)
{
	if (again_left-- > 0)
		reactor_post(again_reactor, message);
}

static void
test_a_message_may_be_posted_again_from_its_own_function(void **state)
{
	struct reactor_message message = { .fn = post_again };

	again_reactor = *state;
	again_left = 3;
	reactor_post(*state, &message);
	for (int turns = 0; turns < 4; turns++) {
		assert_int_equal(again_left, 3 - turns);
		reactor_turn(*state, UINT64_MAX); /* one run for each turn, none sleeps */
	}
	assert_int_equal(again_left, -1);
}

static void
test_a_turn_ends_at_its_deadline_and_not_before(void **state)
{
	uint64_t start = monotonic_ms();

	reactor_turn(*state, start + 60);
	assert_true(monotonic_ms() >= start + 59);
	start = monotonic_ms();
	reactor_turn(*state, 0);
	reactor_turn(*state, start - 1000);
	assert_true(monotonic_ms() < start + 1000);
}

static void
test_destroying_runs_what_is_still_in_the_mailbox(void **state)
{
	struct reactor *reactor = reactor_create();
	struct numbered numbered = { .message.fn = note };

	reactor_post(reactor, &numbered.message);
	reactor_destroy(reactor);
	assert_int_equal(seen, 1);
}

struct pair {
	struct reactor *reactor;
	int ends[2];
	struct pair *victim;
	int calls;
	uint32_t events;
};

static void
count_call(void *owner, uint32_t events)
{
	struct pair *pair = owner;

	pair->calls++;
	pair->events = events;
}

static void
make_pair(struct pair *pair, struct reactor *reactor)
{
	*pair = (struct pair){ .reactor = reactor };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair->ends), 0);
}

static void
close_pair(struct pair *pair)
{
	close(pair->ends[0]);
	close(pair->ends[1]);
}

static void
test_events_are_what_was_asked_for(void **state)
{
	struct pair pair;

	make_pair(&pair, *state);
	assert_int_equal(reactor_watch(*state, pair.ends[0], EPOLLIN, count_call, &pair), 0);
	reactor_turn(*state, 0);
	assert_int_equal(pair.calls, 0);
	assert_int_equal(write(pair.ends[1], "x", 1), 1);
	reactor_turn(*state, UINT64_MAX);
	assert_int_equal(pair.events, EPOLLIN);
	assert_int_equal(reactor_watch(*state, pair.ends[0], EPOLLIN | EPOLLOUT, count_call, &pair),
			 0);
	reactor_turn(*state, UINT64_MAX);
	assert_int_equal(pair.events, EPOLLIN | EPOLLOUT);
	assert_int_equal(reactor_watch(*state, pair.ends[0], 0, NULL, NULL), 0);
	reactor_turn(*state, 0);
	assert_int_equal(pair.calls, 2);
	/* once more is harmless */
	assert_int_equal(reactor_watch(*state, pair.ends[0], 0, NULL, NULL), 0);
	assert_int_equal(reactor_watch(*state, -1, EPOLLIN, count_call, &pair), -EBADF);
	close_pair(&pair);
	assert_int_equal(reactor_watch(*state, 5000, EPOLLIN, count_call, &pair), -EBADF);
}

/* Forgets the other one, closes it, and lets its number be another descriptor. */
static void
replace_victim(void *owner, uint32_t events)
{
	struct pair *pair = owner, *victim = pair->victim;
	int number = victim->ends[0];

	pair->calls++;
	if (victim->ends[1] < 0)
		return;
	reactor_watch(pair->reactor, number, 0, NULL, NULL);
	close_pair(victim);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, victim->ends), 0);
	if (victim->ends[0] != number) {
		assert_int_equal(dup2(victim->ends[0], number), number);
		close(victim->ends[0]);
		victim->ends[0] = number;
	}
	assert_int_equal(reactor_watch(pair->reactor, number, EPOLLIN, count_call, victim), 0);
	victim->calls = 0;
}

/* Both are readable in one batch; whichever runs first replaces the other, whose event is stale
 * then.
 */
static void
test_an_event_of_a_forgotten_descriptor_is_dropped(void **state)
{
	struct pair a, b;

	make_pair(&a, *state);
	make_pair(&b, *state);
	a.victim = &b;
	assert_int_equal(reactor_watch(*state, a.ends[0], EPOLLIN, replace_victim, &a), 0);
	assert_int_equal(reactor_watch(*state, b.ends[0], EPOLLIN, count_call, &b), 0);
	assert_int_equal(write(a.ends[1], "x", 1), 1);
	assert_int_equal(write(b.ends[1], "x", 1), 1);
	reactor_turn(*state, UINT64_MAX);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 0);
	reactor_watch(*state, a.ends[0], 0, NULL, NULL);
	reactor_watch(*state, b.ends[0], 0, NULL, NULL);
	close_pair(&a);
	close_pair(&b);
}

static void
test_many_descriptors_grow_the_table(void **state)
{
	struct pair pairs[200];

	for (int i = 0; i < 200; i++) {
		make_pair(&pairs[i], *state);
		assert_int_equal(
			reactor_watch(*state, pairs[i].ends[0], EPOLLIN, count_call, &pairs[i]), 0);
		assert_int_equal(write(pairs[i].ends[1], "x", 1), 1);
	}
	for (int turns = 0; turns < 10; turns++)
		reactor_turn(*state, 0);
	for (int i = 0; i < 200; i++) {
		assert_true(pairs[i].calls > 0);
		reactor_watch(*state, pairs[i].ends[0], 0, NULL, NULL);
		close_pair(&pairs[i]);
	}
}

static void *
write_to_nobody(void *argument)
{
	struct reactor *reactor = reactor_create();
	int ends[2];
	ssize_t written;

	reactor_turn(reactor, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return NULL;
	close(ends[1]);
	written = write(ends[0], "x", 1); /* would end the process */
	close(ends[0]);
	reactor_destroy(reactor);
	return written < 0 && errno == EPIPE ? argument : NULL;
}

static void
test_a_closed_peer_does_not_end_the_process(void **state)
{
	int survived = 0;
	pthread_t thread;
	void *result = NULL;

	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(pthread_create(&thread, NULL, write_to_nobody, &survived), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, &survived);
}

#define WITH_REACTOR(test) cmocka_unit_test_setup_teardown(test, make_reactor, end_reactor)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_REACTOR(test_messages_run_in_the_order_they_were_posted),
		WITH_REACTOR(test_no_post_of_any_thread_is_lost_or_reordered),
		WITH_REACTOR(test_a_message_may_be_posted_again_from_its_own_function),
		WITH_REACTOR(test_a_turn_ends_at_its_deadline_and_not_before),
		WITH_REACTOR(test_destroying_runs_what_is_still_in_the_mailbox),
		WITH_REACTOR(test_events_are_what_was_asked_for),
		WITH_REACTOR(test_an_event_of_a_forgotten_descriptor_is_dropped),
		WITH_REACTOR(test_many_descriptors_grow_the_table),
		cmocka_unit_test(test_a_closed_peer_does_not_end_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
