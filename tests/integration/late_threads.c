/* late_threads.c - a client's thread that nobody joins, at its latest: loaded into nbdkit by
 * test_nbdkit_end.py.  Having said that it is gone (pthread_cond_broadcast()), it goes on, on its way
 * out (free()), only when the plugin has been unloaded, and nbdkit's end waits for it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))
#define SECONDS_MAX 3

EXPORTED int dlclose(void *handle);
EXPORTED void free(void *memory);
EXPORTED int pthread_cond_broadcast(pthread_cond_t *condition);

extern void __libc_free(void *memory);

static sem_t unloaded, ended;
static pthread_key_t on_end;
static volatile int waiting;
static __thread int has_told;

static void
tell_end(void *value)
{
	sem_post(&ended);
}

static void
wait_for(sem_t *semaphore)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS_MAX;
	sem_timedwait(semaphore, &until);
}

__attribute__((constructor)) static void
begin(void)
{
	sem_init(&unloaded, 0, 0);
	sem_init(&ended, 0, 0);
	pthread_key_create(&on_end, tell_end);
}

static void
be_late(void)
{
	waiting = 1;
	pthread_setspecific(on_end, &unloaded);
	wait_for(&unloaded);
}

int
dlclose(void *handle)
{
	int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
	int result = real(handle);

	if (waiting) {
		sem_post(&unloaded);
		wait_for(&ended);
	}
	return result;
}

static int
nobody_waits_for_me(void)
{
	pthread_attr_t attributes;
	int state = PTHREAD_CREATE_JOINABLE;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return 0;
	pthread_attr_getdetachstate(&attributes, &state);
	pthread_attr_destroy(&attributes);
	return state == PTHREAD_CREATE_DETACHED;
}

int
pthread_cond_broadcast(pthread_cond_t *condition)
{
	int (*real)(pthread_cond_t *) =
		(int (*)(pthread_cond_t *))dlsym(RTLD_NEXT, "pthread_cond_broadcast");
	int result = real(condition);

	has_told = nobody_waits_for_me();
	return result;
}

void
free(void *memory)
{
	if (has_told) {
		has_told = 0;
		be_late();
	}
	__libc_free(memory);
}
