/* drivers/look.c - iraid-look: what libblkid finds in the copy of a LUN's ends.
 *
 *     iraid-look BLOCK_BYTES <COPY >ANSWER
 *
 * Whoever has the LUN has chosen these bytes, and libblkid has dozens of parsers.  So it gets them
 * in this program and not in the one that serves volumes.  Before it sees the first of them, the
 * program has given up root, can open nothing, and has little memory and time.  What it then does
 * wrong costs this look: device/look.c waits for so long, and takes anything but a whole answer for
 * content that nobody knows.
 *
 * The answer is one line, see device/look.h.  It is written at the end, so that there is none of a
 * look that broke off.
 */
#include <blkid/blkid.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapters/device/look.h"

#define NOBODY 65534
#define MEMORY_BYTES_MAX (256u << 20)
#define PIECE_BYTES_MAX (16u << 20) /* the ends are 4 MiB */
#define PROCESSOR_SECONDS_MAX 2
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum { /* why there is no answer; the caller tells the number */
       EXIT_USAGE = 2,
       EXIT_NOT_CONFINED = 3,
       EXIT_LIBBLKID = 4,
       EXIT_MEMORY = 5,
       EXIT_NOT_WRITTEN = 6,
};

/* --- what is given up --- */

static bool
limit(int resource, rlim_t most)
{
	const struct rlimit value = { .rlim_cur = most, .rlim_max = most };

	return setrlimit(resource, &value) == 0;
}

static bool
limit_all(void)
{
	/* No descriptor more: nothing can be opened.  The answer goes to a pipe, which is no file. */
	return limit(RLIMIT_AS, MEMORY_BYTES_MAX) && limit(RLIMIT_CPU, PROCESSOR_SECONDS_MAX) &&
	       limit(RLIMIT_NOFILE, 0) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0);
}

static bool
drop_root(void)
{
	if (geteuid() != 0)
		return true;
	return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	       setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

#if defined(__x86_64__)
#define THIS_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define THIS_MACHINE AUDIT_ARCH_RISCV64
#endif

#ifdef THIS_MACHINE /* they are little-endian, all of them */
#define CALLS_OTHER_ABI 0x40000000
#define MMAP_LENGTH 1 /* arguments of mmap(2) */
#define MMAP_FILE 4
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_HIGH(argument)                                                                        \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument]) + 4)
#define UNLESS_EQUAL_SKIP(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count)
#define UNLESS_ABOVE_SKIP(value, count) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, 0, count)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ALLOW(call) UNLESS_EQUAL_SKIP(SYS_##call, 1), RETURN(SECCOMP_RET_ALLOW)

/* What reads the copy, takes memory, answers and ends.  The rest is refused and not fatal: a C
 * library may try what it can do without.  A piece of memory that the ends can't need is fatal,
 * since libblkid takes "no memory" for "nothing found".
 */
static bool
filter_calls(void)
{
	static struct sock_filter filter[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		UNLESS_ABOVE_SKIP(CALLS_OTHER_ABI - 1, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		ALLOW(read),
		ALLOW(pread64),
		ALLOW(lseek),
		ALLOW(write),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW(fadvise64),
		ALLOW(close),
		ALLOW(brk),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(getrandom),
		ALLOW(clock_gettime),
		ALLOW(gettimeofday),
		ALLOW(futex),
		ALLOW(rt_sigreturn),
		ALLOW(exit),
		ALLOW(exit_group),
		UNLESS_EQUAL_SKIP(SYS_mmap, 8),
		LOAD_HIGH(MMAP_LENGTH),
		UNLESS_EQUAL_SKIP(0, 2),
		LOAD(args[MMAP_LENGTH]),
		UNLESS_ABOVE_SKIP(PIECE_BYTES_MAX, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(args[MMAP_FILE]),
		UNLESS_EQUAL_SKIP(UINT32_MAX, 1), /* of no file */
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog program = { .len = LENGTH(filter), .filter = filter };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool
filter_calls(void)
{
	return false;
}
#endif

/* One of root and of all system calls may stay where the kernel or a container lets neither go. */
static bool
confine(void)
{
	bool nobody = drop_root();

	/* An end of who waits for the answer is the end of this. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return limit_all() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       (filter_calls() || nobody);
}

/* --- the look --- */

/* "ext4 filesystem", "gpt partition table" */
static void
add_finding(blkid_probe probe, char *out, size_t out_size)
{
	const char *type = NULL, *usage = NULL;
	size_t used = strlen(out);
	const char *separator = used ? ", " : "";

	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL) == 0) {
		blkid_probe_lookup_value(probe, "USAGE", &usage, NULL);
		snprintf(out + used, out_size - used, "%s%s %s", separator, type,
			 usage ? usage : "");
	} else if (blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL) == 0) {
		snprintf(out + used, out_size - used, "%s%s partition table", separator, type);
	}
}

static blkid_probe
prepare(unsigned int block_bytes)
{
	blkid_probe probe = blkid_new_probe();

	if (probe == NULL || blkid_probe_set_device(probe, STDIN_FILENO, 0, 0) != 0)
		exit(EXIT_LIBBLKID);
	blkid_probe_set_sectorsize(probe, block_bytes);
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	blkid_probe_enable_partitions(probe, 1);
	return probe;
}

static void
look(blkid_probe probe, char *out, size_t out_size)
{
	int found;

	/* One after another, not blkid_do_safeprobe(): two signatures are not less than one. */
	do {
		errno = 0;
		found = blkid_do_probe(probe);
		if (errno == ENOMEM)
			_exit(EXIT_MEMORY);
		if (found == 0)
			add_finding(probe, out, out_size);
	} while (found == 0);
	if (found < 0)
		_exit(EXIT_LIBBLKID);
}

int
main(int argc, char **argv)
{
	unsigned int block_bytes = argc == 2 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	char found[LOOK_TEXT_MAX] = "", answer[LOOK_ANSWER_MAX];
	blkid_probe probe;
	int length;

	if (block_bytes == 0)
		return EXIT_USAGE;
	probe = prepare(block_bytes);
	if (!confine())
		return EXIT_NOT_CONFINED;
	look(probe, found, sizeof(found));
	length = snprintf(answer, sizeof(answer), LOOK_ANSWER_START "%s\n", found);
	_exit(write(STDOUT_FILENO, answer, (size_t)length) == length ? 0 : EXIT_NOT_WRITTEN);
}
