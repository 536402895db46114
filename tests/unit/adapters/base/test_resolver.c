/* test_resolver.c - name servers that do not answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>

#include "adapters/base/resolver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool answering;

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **out);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **out);

/* Only numbers need no server. */
int
__wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		   struct addrinfo **out)
{
	if (hints->ai_flags & AI_NUMERICHOST)
		return __real_getaddrinfo(node, service, hints, out);
	pthread_mutex_lock(&lock);
	while (!answering)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return __real_getaddrinfo("127.0.0.1", service, hints, out);
}

static void
set_answering(bool now)
{
	pthread_mutex_lock(&lock);
	answering = now;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void
on_resolved(void *owner, const struct resolved *resolved)
{
	*(struct resolved *)owner = *resolved;
}

/* Each attempt to reach a member leaves its lookup behind when its time is over. */
static void
test_lookups_that_hang_are_no_more_than_there_may_be(void **state)
{
	struct reactor *reactor = reactor_create();
	struct resolved resolved = { .count = -1 };
	struct resolution *resolution;
	int hanging = 0;

	set_answering(false);
	while ((resolution = resolver_start(reactor, "member.example:3260", on_resolved,
					    &resolved)) != NULL) {
		resolver_abandon(resolution);
		assert_true(++hanging <= RESOLVER_LOOKUPS_MAX);
	}
	/* one of another test may not have ended yet */
	assert_true(hanging > RESOLVER_LOOKUPS_MAX / 2);
	resolver_wait("member.example:3260", 60000, &resolved); /* does not wait: nobody is asked */
	assert_int_equal(resolved.fault.code, -ENOMEM);
	resolver_wait("127.0.0.1:3260", 0, &resolved);
	assert_int_equal(resolved.fault.code, 0);
	set_answering(true);
	do { /* the threads end one by one */
		resolution = resolver_start(reactor, "member.example:3260", on_resolved, &resolved);
	} while (resolution == NULL);
	resolved.count = -1;
	while (resolved.count == -1)
		reactor_turn(reactor, UINT64_MAX);
	assert_int_equal(resolved.fault.code, 0);
	assert_string_equal(resolved.portals[0], "127.0.0.1:3260");
	reactor_destroy(reactor);
}

static void
test_a_lookup_is_waited_for_as_long_as_told(void **state)
{
	struct resolved resolved;

	set_answering(false);
	resolver_wait("member.example:3260", 20, &resolved);
	assert_int_equal(resolved.fault.code, -ETIMEDOUT);
	set_answering(true);
	resolver_wait("member.example:3260", 60000, &resolved);
	assert_int_equal(resolved.fault.code, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lookup_is_waited_for_as_long_as_told),
		cmocka_unit_test(test_lookups_that_hang_are_no_more_than_there_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
