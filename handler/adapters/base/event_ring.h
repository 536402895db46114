/* base/event_ring.h - what happened to the volumes of this process: the last EVENTS_KEPT of it,
 * numbered from 1.  Thread-safe.  Readers can wait for what comes next, so that nobody need ask in
 * a loop.
 */
#ifndef IRAID_EVENT_RING_H
#define IRAID_EVENT_RING_H

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_KEPT 1000
#define EVENT_TEXT_MAX 511

struct event_record {
	uint64_t number;
	int64_t time_ms; /* since 1970-01-01 UTC */
	int severity;	 /* a syslog priority */
	char kind[32];	 /* "member evicted" */
	char volume[64];
	char member[256]; /* empty: about no member */
	char text[EVENT_TEXT_MAX + 1];
};

struct event_ring;

struct event_ring *event_ring_create(void);
void event_ring_destroy(struct event_ring *ring);

void event_ring_add(struct event_ring *ring, int severity, const char *kind, const char *volume,
		    const char *member, const char *text);

struct event_page {
	struct event_record *records; /* malloc'ed, ascending */
	int count;
	/* number of the oldest that is kept; 0: nothing ever happened */
	uint64_t oldest;
	uint64_t next;	   /* ask for what came after this one */
	char instance[17]; /* numbers of another instance mean nothing here */
};

/* What came after number `after`, of one volume (NULL: of all), at most max.  When there is
 * nothing, wait for it up to wait_ms, or until event_ring_close().  `after` beyond the newest
 * counts as 0.  0 or -ENOMEM.
 */
int event_ring_read(struct event_ring *ring, uint64_t after, const char *volume, int max,
		    uint32_t wait_ms, struct event_page *out);

/* Closed: waiting readers return, and nobody waits any more. */
void event_ring_close(struct event_ring *ring, bool closed);

#endif
