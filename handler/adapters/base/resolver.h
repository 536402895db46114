/* base/resolver.h - names of portals to addresses, without blocking the thread that asks.
 *
 * getaddrinfo() may take half a minute when a name server is silent, so it runs on a thread of
 * its own, one for each lookup.  Numeric portals need none.
 */
#ifndef IRAID_RESOLVER_H
#define IRAID_RESOLVER_H

#include <stdint.h>
#include "fault.h"
#include "reactor.h"

#define RESOLVED_MAX 8
#define RESOLVED_PORTAL_MAX 80
/* at a time, of all members: those that were abandoned and hang are among them */
#define RESOLVER_LOOKUPS_MAX 64

struct resolved {
	/* code 0, or -errno: -EHOSTUNREACH no such name, -ENOMEM, -EAGAIN */
	struct fault fault;
	int count;
	char portals[RESOLVED_MAX][RESOLVED_PORTAL_MAX]; /* "127.0.0.1:3260", "[::1]:3260" */
};

struct resolution;

/* Called once on the reactor's thread, never from inside resolver_start(); the resolution is gone
 * after it.
 */
typedef void (*resolved_fn)(void *owner, const struct resolved *resolved);

/* Fills *out and returns true if portal needs no lookup. */
bool resolver_numeric(const char *portal, struct resolved *out);

/* NULL if no thread could be made, or too many wait for name servers already. */
struct resolution *
resolver_start(struct reactor *reactor, const char *portal, resolved_fn fn, void *owner);

/* fn will not be called any more.  Returns at once, even while the lookup still blocks. */
void resolver_abandon(struct resolution *resolution);

/* For threads that may wait: at most timeout_ms (then -ETIMEDOUT). */
void resolver_wait(const char *portal, uint32_t timeout_ms, struct resolved *out);

#endif
