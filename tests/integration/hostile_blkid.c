/* hostile_blkid.c - what somebody could do who has taken libblkid over: loaded before it into
 * iraid-look, by test_foreign_bytes.py.  ATTEMPT says what is tried; the answer is what came of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define BEYOND_BYTES (64u << 20) /* what the ends of a LUN never need */

typedef struct blkid_struct_probe *blkid_probe;

EXPORTED int blkid_do_probe(blkid_probe probe);
EXPORTED int
blkid_probe_lookup_value(blkid_probe probe, const char *name, const char **data, size_t *length);

static char outcome[64];

static int
attempt(const char *what)
{
	char *none[] = { NULL };
	int result = -1;

	if (strcmp(what, "open") == 0)
		result = open("/etc/passwd", O_RDONLY);
	else if (strcmp(what, "socket") == 0)
		result = socket(AF_INET, SOCK_STREAM, 0);
	else if (strcmp(what, "pair") == 0)
		result = socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 });
	else if (strcmp(what, "fork") == 0)
		result = fork();
	else if (strcmp(what, "exec") == 0)
		result = execve("/bin/true", none, none);
	else if (strcmp(what, "kill") == 0)
		result = kill(getppid(), SIGCONT);
	else if (strcmp(what, "root") == 0)
		result = setreuid(0, 0);
	else if (strcmp(what, "trace") == 0)
		result = (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
	else if (strcmp(what, "map") == 0)
		result = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 0, 0) == MAP_FAILED ? -1 : 0;
	else if (strcmp(what, "truncate") == 0)
		result = ftruncate(0, 0);
	else if (strcmp(what, "memory") == 0)
		result = malloc(BEYOND_BYTES) == NULL ? -1 : 0;
	else if (strcmp(what, "spin") == 0)
		for (;;)
			;
	return result;
}

/* Once; then nothing more is found. */
int
blkid_do_probe(blkid_probe probe)
{
	const char *what = getenv("ATTEMPT");
	int result;

	if (outcome[0] != '\0' || what == NULL)
		return 1;
	errno = 0;
	result = attempt(what);
	snprintf(outcome, sizeof(outcome), "%s %s", what,
		 result < 0 ? strerrorname_np(errno) : "done");
	errno = 0;
	return 0;
}

int
blkid_probe_lookup_value(blkid_probe probe, const char *name, const char **data, size_t *length)
{
	*data = strcmp(name, "TYPE") == 0 ? outcome : "";
	return 0;
}
