/* rpc/meter.h - how fast a user may ask: METER_BURST requests at once, then METER_PER_SECOND.
 * By user and not by connection, since most clients make a connection for each call.
 * Pure: the caller has the clock and the lock.
 */
#ifndef IRAID_RPC_METER_H
#define IRAID_RPC_METER_H

#include <stdint.h>
#include <sys/types.h>

#define METER_PER_SECOND 500u
#define METER_BURST 1000u
#define METER_USERS_MAX 16

struct meter { /* zeroed: nobody has asked yet */
	struct {
		uid_t uid;
		uint64_t paid_until_us; /* one request after the other at the permitted pace */
	} users[METER_USERS_MAX];
	int count;
};

/* One request of that user at now_us (any clock that only goes forward).  Returns how many
 * microseconds it has to wait; 0: none.
 */
uint64_t meter_take(struct meter *meter, uid_t uid, uint64_t now_us);

#endif
