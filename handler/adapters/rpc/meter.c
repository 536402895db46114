/* rpc/meter.c - see meter.h. */
#include "meter.h"

#define REQUEST_US (1000000u / METER_PER_SECOND)

/* With the table full, whoever has been quiet for longest is forgotten. */
static int
find_user(struct meter *meter, uid_t uid)
{
	int quiet = 0;

	for (int i = 0; i < meter->count; i++) {
		if (meter->users[i].uid == uid)
			return i;
		if (meter->users[i].paid_until_us < meter->users[quiet].paid_until_us)
			quiet = i;
	}
	if (meter->count < METER_USERS_MAX)
		quiet = meter->count++;
	meter->users[quiet].uid = uid;
	meter->users[quiet].paid_until_us = 0;
	return quiet;
}

uint64_t
meter_take(struct meter *meter, uid_t uid, uint64_t now_us)
{
	uint64_t *until = &meter->users[find_user(meter, uid)].paid_until_us;
	const uint64_t burst_us = (uint64_t)METER_BURST * REQUEST_US;

	if (*until < now_us)
		*until = now_us;
	*until += REQUEST_US;
	return *until - now_us > burst_us ? *until - now_us - burst_us : 0;
}
