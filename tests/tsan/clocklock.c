/* clocklock.c - in builds with ThreadSanitizer only: pthread_mutex_clocklock() by a call that it knows.
 *
 * libtsan of gcc 12 has no interceptor for it: a mutex taken so seems never to be locked, what it guards seems unguarded,
 * and its unlock is reported.  The deadline is kept in time of day here, so a clock that is set moves it; the caller's
 * loop looks again anyway.
 */
#include <pthread.h>
#include <time.h>

int
pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	struct timespec now, there;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &there);
	there.tv_sec += until->tv_sec - now.tv_sec;
	there.tv_nsec += until->tv_nsec - now.tv_nsec;
	if (there.tv_nsec < 0) {
		there.tv_nsec += 1000000000;
		there.tv_sec--;
	} else if (there.tv_nsec >= 1000000000) {
		there.tv_nsec -= 1000000000;
		there.tv_sec++;
	}
	return pthread_mutex_timedlock(mutex, &there);
}
