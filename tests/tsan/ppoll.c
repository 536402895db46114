/* ppoll.c - preloaded before libtsan into tcmu-runner: a ppoll() that a thread may be cancelled in.
 *
 * tcmu-runner cancels a LUN's command thread, which waits in ppoll(), and the thread then closes the LUN.  libtsan of gcc
 * 12 ignores all that a thread calls while it waits, and never hears that the wait was left: the locks of our close were
 * not seen, and what they guard was reported.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_SIGNALS_BYTES 8

__attribute__((visibility("default"))) int
ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	struct timespec left, *rest = NULL;
	int kind, result;

	if (timeout) { /* the kernel writes there what is left */
		left = *timeout;
		rest = &left;
	}
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &kind);
	result = (int)syscall(SYS_ppoll, fds, count, rest, signals, KERNEL_SIGNALS_BYTES);
	pthread_setcanceltype(kind, NULL);
	return result;
}
