/* device/look.c - see look.h: iraid-look is started, waited for no longer than LOOK_MS_MAX, and
 * reaped.
 *
 * posix_spawn() and no fork(): the process has threads and locks, and its memory is large.  The
 * program gets the copy, a pipe, no other descriptor and no environment.
 */
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adapters/base/log.h"
#include "adapters/base/reactor.h"
#include "adapters/config/config.h"

#define PROGRAM "iraid-look"
#define LOOK_MS_MAX 5000
#define REAP_PAUSE_MS 2

struct answer {
	char text[LOOK_ANSWER_MAX + 1];
	size_t length;
	bool ended; /* nothing more will come */
};

static void
receive(int pipe, uint64_t end_ms, struct answer *answer)
{
	for (uint64_t now = monotonic_ms(); now < end_ms && !answer->ended; now = monotonic_ms()) {
		struct pollfd pollfd = { .fd = pipe, .events = POLLIN };
		size_t room = LOOK_ANSWER_MAX - answer->length;
		ssize_t got;

		if (poll(&pollfd, 1, (int)(end_ms - now)) <= 0)
			continue;
		got = read(pipe, answer->text + answer->length, room);
		if (got > 0)
			answer->length += (size_t)got;
		answer->ended = got == 0 || (got < 0 && errno != EINTR);
	}
	answer->text[answer->length] = '\0';
}

/* It may have closed the pipe and live on.  Where nobody is to wait for children (SIGCHLD ignored)
 * it is not there to be waited for, and its number may be somebody else's: no signal then.
 */
static void
reap(pid_t pid, uint64_t end_ms, char *why, size_t why_size)
{
	static const struct timespec pause = { .tv_nsec = REAP_PAUSE_MS * 1000000l };
	pid_t reaped;
	int status;

	while ((reaped = waitpid(pid, &status, WNOHANG)) == 0 && monotonic_ms() < end_ms)
		nanosleep(&pause, NULL);
	if (reaped == 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		snprintf(why, why_size, "took longer than %d s", LOOK_MS_MAX / 1000);
	} else if (reaped == pid && WIFSIGNALED(status)) {
		snprintf(why, why_size, "was ended by signal %d", WTERMSIG(status));
	} else if (reaped == pid) {
		snprintf(why, why_size, "ended with status %d", WEXITSTATUS(status));
	} else {
		snprintf(why, why_size, "gave no answer");
	}
}

/* *text becomes what was found.  False: it is no whole answer. */
static bool
understood(struct answer *answer, char **text)
{
	size_t start = strlen(LOOK_ANSWER_START);

	if (answer->length <= start || answer->text[answer->length - 1] != '\n' ||
	    strncmp(answer->text, LOOK_ANSWER_START, start) != 0)
		return false;
	answer->text[--answer->length] = '\0';
	*text = answer->text + start;
	for (const char *c = *text; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~')
			return false;
	}
	return strlen(*text) + start == answer->length;
}

/* 0, or an errno. */
static int
spawn(const char *path, int copy, int pipe, uint32_t block_bytes, pid_t *pid)
{
	char block[16], *arguments[] = { PROGRAM, block, NULL }, *nothing[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int error;

	snprintf(block, sizeof(block), "%u", block_bytes);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	error = posix_spawn_file_actions_init(&files);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(&files, copy, STDIN_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(&files, pipe, STDOUT_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null",
							 O_WRONLY, 0);
	/* The runner has descriptors that are not to be closed by exec. */
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	if (error == 0)
		error = posix_spawn(pid, path, &files, &attributes, arguments, nothing);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return error;
}

bool
look_at_copy(int copy, uint32_t block_bytes, char *out, size_t out_size, struct fault *fault)
{
	char path[512], why[64], *text;
	const uint64_t end_ms = monotonic_ms() + LOOK_MS_MAX;
	struct answer answer = { .length = 0 };
	int ends[2], error;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/" PROGRAM, libexec_dir());
	if (pipe2(ends, O_CLOEXEC) != 0)
		return fault_set(fault, FAULT_INTERNAL, "raise the limit of open files",
				 "looking for signatures: a pipe: %s", strerror(errno));
	error = spawn(path, copy, ends[1], block_bytes, &pid);
	close(ends[1]);
	if (error == 0) {
		receive(ends[0], end_ms, &answer);
		reap(pid, end_ms, why, sizeof(why));
	}
	close(ends[0]);
	if (error != 0)
		return fault_set(fault, FAULT_INTERNAL,
				 "see whether the package iraid is installed as a whole",
				 "looking for signatures: %s can't be run: %s", path,
				 strerror(error));
	if (understood(&answer, &text)) {
		snprintf(out, out_size, "%s", text);
		return true;
	}
	log_line(LOG_WARNING, "looking for signatures: %s %s", PROGRAM, why);
	snprintf(out, out_size, "unknown content (%s %s)", PROGRAM, why);
	return true;
}
