/* base/resolver.c - one detached thread for each lookup.
 *
 * The resolution is shared by the thread and whoever asked; the last one frees it.  `lock` is held
 * while the result is handed over, so that after resolver_abandon() the thread touches neither the
 * reactor nor the owner.  A lookup that hangs costs one sleeping thread and nothing else; each
 * attempt to open a member by its name may leave one behind, so there is a limit.
 */
#include "resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PORTAL_MAX 280
#define STACK_BYTES (512 * 1024) /* name service modules are not frugal */

static atomic_int lookups;

struct resolution {
	struct reactor_message message; /* first: the message is the resolution */
	struct reactor *reactor;	/* NULL: somebody waits on `finished` instead */
	resolved_fn fn;			/* NULL: abandoned */
	void *owner;
	pthread_mutex_t lock;
	pthread_cond_t finished;
	bool is_finished;
	int users;
	char portal[PORTAL_MAX];
	struct resolved result;
};

/* "host:port" or "[v6]:port"; both parts without brackets. */
static void
split_portal(const char *portal, char *host, size_t host_size, char *port, size_t port_size)
{
	const char *colon = strrchr(portal, ':');
	const char *end = colon ? colon : portal + strlen(portal);

	if (portal[0] == '[' && end > portal + 1 && end[-1] == ']') {
		portal++;
		end--;
	}
	snprintf(host, host_size, "%.*s", (int)(end - portal), portal);
	snprintf(port, port_size, "%s", colon ? colon + 1 : "3260");
}

static void
add_address(struct resolved *out, const struct addrinfo *address)
{
	char host[64], port[8];

	if (out->count == RESOLVED_MAX)
		return;
	if (getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	snprintf(out->portals[out->count++], RESOLVED_PORTAL_MAX,
		 address->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static void
look_up(const char *portal, int flags, struct resolved *out)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags };
	struct addrinfo *found = NULL;
	char host[PORTAL_MAX], port[8];
	int error;

	memset(out, 0, sizeof(*out));
	split_portal(portal, host, sizeof(host), port, sizeof(port));
	error = getaddrinfo(host, port, &hints, &found);
	if (error != 0) {
		fault_errno(&out->fault, error == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH, "%s",
			    gai_strerror(error));
		return;
	}
	for (const struct addrinfo *address = found; address != NULL; address = address->ai_next)
		add_address(out, address);
	freeaddrinfo(found);
	if (out->count == 0)
		fault_errno(&out->fault, -EHOSTUNREACH, "no IPv4 or IPv6 address");
}

bool
resolver_numeric(const char *portal, struct resolved *out)
{
	look_up(portal, AI_NUMERICHOST | AI_NUMERICSERV, out);
	return out->fault.code == 0;
}

static void
drop(struct resolution *resolution)
{
	bool last;

	pthread_mutex_lock(&resolution->lock);
	last = --resolution->users == 0;
	pthread_mutex_unlock(&resolution->lock);
	if (!last)
		return;
	pthread_cond_destroy(&resolution->finished);
	pthread_mutex_destroy(&resolution->lock);
	free(resolution);
}

/* On the reactor's thread, as resolver_abandon() is. */
static void
deliver_result(struct reactor_message *message)
{
	struct resolution *resolution = (struct resolution *)message;

	if (resolution->fn != NULL)
		resolution->fn(resolution->owner, &resolution->result);
	drop(resolution);
}

static void *
resolver_thread(void *argument)
{
	struct resolution *resolution = argument;
	struct resolved result;

	look_up(resolution->portal, AI_NUMERICSERV, &result);
	pthread_mutex_lock(&resolution->lock);
	resolution->result = result;
	resolution->is_finished = true;
	pthread_cond_signal(&resolution->finished);
	if (resolution->reactor != NULL && resolution->fn != NULL) {
		resolution->users++; /* the message's */
		reactor_post(resolution->reactor, &resolution->message);
	}
	pthread_mutex_unlock(&resolution->lock);
	drop(resolution);
	atomic_fetch_sub(&lookups, 1);
	return NULL;
}

static int
start_thread(struct resolution *resolution)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int error;

	if (atomic_fetch_add(&lookups, 1) >= RESOLVER_LOOKUPS_MAX) {
		atomic_fetch_sub(&lookups, 1);
		return EAGAIN;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* The program's signals are not this thread's business: it is born with all blocked. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, resolver_thread, resolution);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error != 0)
		atomic_fetch_sub(&lookups, 1);
	return error;
}

static struct resolution *
create(const char *portal)
{
	struct resolution *resolution = calloc(1, sizeof(*resolution));
	pthread_condattr_t attributes;

	if (resolution == NULL)
		return NULL;
	snprintf(resolution->portal, sizeof(resolution->portal), "%s", portal);
	resolution->message.fn = deliver_result;
	resolution->users = 2; /* the thread and who asked */
	pthread_mutex_init(&resolution->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&resolution->finished, &attributes);
	pthread_condattr_destroy(&attributes);
	return resolution;
}

struct resolution *
resolver_start(struct reactor *reactor, const char *portal, resolved_fn fn, void *owner)
{
	struct resolution *resolution = create(portal);

	if (resolution == NULL)
		return NULL;
	resolution->reactor = reactor;
	resolution->fn = fn;
	resolution->owner = owner;
	/* only the thread's: who asked gives its own up with the callback */
	resolution->users = 1;
	if (start_thread(resolution) != 0) {
		drop(resolution);
		return NULL;
	}
	return resolution;
}

void
resolver_abandon(struct resolution *resolution)
{
	pthread_mutex_lock(&resolution->lock);
	resolution->fn = NULL;
	resolution->reactor = NULL;
	pthread_mutex_unlock(&resolution->lock);
}

void
resolver_wait(const char *portal, uint32_t timeout_ms, struct resolved *out)
{
	struct resolution *resolution;
	struct timespec until;
	int waited = 0;

	if (resolver_numeric(portal, out))
		return;
	memset(out, 0, sizeof(*out));
	resolution = create(portal);
	if (resolution == NULL || start_thread(resolution) != 0) {
		fault_errno(
			&out->fault, -ENOMEM,
			"no thread is free for the lookup; see whether the name servers answer");
		free(resolution);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&resolution->lock);
	while (!resolution->is_finished && waited == 0)
		waited = pthread_cond_timedwait(&resolution->finished, &resolution->lock, &until);
	if (resolution->is_finished)
		*out = resolution->result;
	else
		fault_errno(&out->fault, -ETIMEDOUT, "the name servers do not answer");
	pthread_mutex_unlock(&resolution->lock);
	drop(resolution);
}
