/* crash_replay.c - every crash that a recorded run of the gateway could have had, one after the
 * other.
 *
 *	crash_replay --record FILE [--end] [--cases N] [--only CASE] [--seed N] [--workers N] IMAGE... [IMAGE...]
 *
 * The images are those at the record's beginning; with --end as many follow as they are at its end.
 *
 * recorder.py noted, in one order, what real targets were sent and had answered, and what the load
 * had been promised by then.  Here the images of the members are made as a crash at each entry may
 * have left them, the engine (the very objects of the product, in virtual time) assembles them, and
 * three things are checked:
 *
 *   - every sector that the load used reads as the last acknowledged write or one that was in flight then;
 *     after a loss of power also as anything since the last flush that was acknowledged
 *   - what was read once stays so, also over another crash while the engine recovers
 *   - when resync has ended, the parity of every row that was ever written is right; so any one member can go
 *
 * A crash of the gateway leaves every write whose end was noted, and of those in flight: none, all,
 * all but one, only one, one torn, some.  A loss of power leaves of what no flush covered: the
 * same.  With a member absent a chunk of its may be unreadable where the region is dirty
 * (docs/design/engine.md); never wrong.
 */
#include "crash_replay_case.h"

#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SINGLES_MAX 24u /* of the newest writes, one at a time is lost or kept */
#define WORKERS_MAX 64

const char *case_name = "";

void
fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "crash_replay: %s%s", case_name, *case_name ? ": " : "");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	_exit(1);
}

struct options {
	const char *record;
	uint64_t cases; /* about so many of all */
	int64_t only;
	uint64_t seed;
	int workers;
	int images;
	bool verbose;
	enum log_mode log; /* of the volume that was recorded */
	char *const *end;  /* images at the end of the record, or NULL */
};

/* --- which cases there are at one entry of the record --- */

static bool
is_cut(const struct entry *entry)
{
	switch (entry->kind) {
	case WRITE_BEGINS:
	case WRITE_ENDS:
	case WRITE_RESOLVED:
	case SYNC_ENDS:
	case LOAD_WRITE_ENDS:
	case LOAD_FLUSH_ENDS:
		return true;
	default:
		return false;
	}
}

static unsigned int
optional_count(const struct pendings *pendings, bool power)
{
	unsigned int count = 0;

	for (size_t i = 0; i < pendings->count; i++)
		count += pendings->list[i].fate == FATE_IN_FLIGHT ||
			 (power && pendings->list[i].fate == FATE_CACHED);
	return count;
}

struct enumeration {
	uint64_t next; /* number of the next case */
	uint64_t basic;
	void (*visit)(void *context, const struct crash *crash, uint64_t number, bool basic);
	void *context;
};

static void
one(struct enumeration *all, struct crash crash, enum keep keep, unsigned int which, int absent,
    bool basic)
{
	crash.keep = keep;
	crash.which = which;
	crash.absent = absent;
	all->basic += basic;
	if (all->visit != NULL)
		all->visit(all->context, &crash, all->next, basic);
	all->next++;
}

static void
enumerate(struct enumeration *all, const struct pendings *pendings, size_t cut, int members,
	  bool power)
{
	struct crash crash = { .cut = cut, .power = power };
	unsigned int optional = optional_count(pendings, power);
	unsigned int singles = optional < SINGLES_MAX ? optional : SINGLES_MAX;

	/* Nothing in a cache: a loss of power is a crash of the gateway. */
	if (power && optional == optional_count(pendings, false))
		return;
	one(all, crash, KEEP_NONE, 0, -1, true);
	for (int absent = 0; absent < members; absent++)
		one(all, crash, KEEP_RANDOM, 0, absent, false);
	if (optional == 0)
		return;
	one(all, crash, KEEP_ALL, 0, -1, true);
	for (unsigned int i = 0; i < singles && optional > 1; i++) {
		one(all, crash, KEEP_ONE, i, -1, false);
		one(all, crash, LOSE_ONE, i, -1, false);
	}
	one(all, crash, TEAR_FIRST_HALF, 0, -1, false);
	one(all, crash, TEAR_RANDOM, 0, -1, false);
	one(all, crash, KEEP_RANDOM, 0, -1, false);
	one(all, crash, KEEP_RANDOM, 1, -1, false);
}

/* --- running them --- */

struct worker {
	const struct options *options;
	struct replay *replay;
	struct enumeration all;
	uint64_t total, basic_total;
	int number, count;
};

/* Evenly chosen by a hash of its number; half of a budget goes to the basic ones. */
static bool
chosen(const struct worker *worker, uint64_t number, bool basic)
{
	const struct options *options = worker->options;
	uint64_t basic_share =
		options->cases / 2 < worker->basic_total ? options->cases / 2 : worker->basic_total;
	uint64_t share = basic ? basic_share : options->cases - basic_share;
	uint64_t of = basic ? worker->basic_total : worker->total - worker->basic_total;
	uint64_t hash = number * 2 + 1 + (options->seed << 32);

	if (options->only >= 0)
		return number == (uint64_t)options->only;
	return options->cases >= worker->total || (of > 0 && next_random(&hash) % of < share);
}

static void
visit(void *context, const struct crash *crash, uint64_t number, bool basic)
{
	struct worker *worker = context;

	if (number % (uint64_t)worker->count == (uint64_t)worker->number &&
	    chosen(worker, number, basic))
		replay_case(worker->replay, crash, number);
}

static void
walk(struct worker *worker)
{
	struct replay *replay = worker->replay;

	for (size_t i = 0; i < replay->record.count; i++) {
		const struct entry *entry = &replay->record.entries[i];

		pendings_apply(&replay->pendings, &replay->members, &replay->record, i);
		oracle_apply(&replay->oracle, entry);
		if (!is_cut(entry))
			continue;
		enumerate(&worker->all, &replay->pendings, i, replay->members.count, false);
		enumerate(&worker->all, &replay->pendings, i, replay->members.count, true);
	}
}

/* Twice over the record: once only to count, in a child, for the images change on the way. */
static void
count_cases(const struct options *options, struct replay *replay, uint64_t counts[2])
{
	int ends[2];
	pid_t child;

	expect(pipe(ends) == 0, "no pipe");
	child = fork();
	expect(child >= 0, "fork failed");
	if (child == 0) {
		struct worker worker = { .options = options, .replay = replay };

		walk(&worker);
		counts[0] = worker.all.next;
		counts[1] = worker.all.basic;
		_exit(write(ends[1], counts, 2 * sizeof(*counts)) != 2 * sizeof(*counts));
	}
	close(ends[1]);
	if (read(ends[0], counts, 2 * sizeof(*counts)) != 2 * sizeof(*counts)) {
		waitpid(child, NULL, 0);
		exit(1); /* it has said why */
	}
	close(ends[0]);
	waitpid(child, NULL, 0);
}

static void
work(struct worker *worker, int result)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	worker->all.visit = visit;
	worker->all.context = worker;
	worker->replay->log = worker->options->log;
	replay_prepare(worker->replay, worker->options->seed, worker->options->verbose);
	walk(worker);
	case_name = "at the end";
	if (worker->number == 0 && worker->options->end != NULL)
		replay_check_end(worker->replay, worker->options->end);
	_exit(write(result, &worker->replay->tally, sizeof(struct tally)) != sizeof(struct tally));
}

static bool
run_workers(struct worker *worker, struct tally *sum)
{
	pid_t children[WORKERS_MAX];
	int ends[2], status;
	bool good = true;

	expect(pipe(ends) == 0, "no pipe");
	for (worker->number = 0; worker->number < worker->count; worker->number++) {
		children[worker->number] = fork();
		expect(children[worker->number] >= 0, "fork failed");
		if (children[worker->number] == 0)
			work(worker, ends[1]);
	}
	close(ends[1]);
	for (int left = worker->count; left > 0; left--) {
		pid_t ended = wait(&status);

		for (int i = 0; i < worker->count; i++)
			if (children[i] == ended)
				children[i] = 0;
		if (WIFSIGNALED(status) && good)
			fprintf(stderr, "crash_replay: a worker was killed by signal %d\n",
				WTERMSIG(status));
		if (status == 0)
			continue;
		/* One failure says enough. */
		good = false;
		for (int i = 0; i < worker->count; i++)
			if (children[i] > 0)
				kill(children[i], SIGKILL);
	}
	for (struct tally tally; read(ends[0], &tally, sizeof(tally)) == sizeof(tally);)
		for (size_t i = 0; i < sizeof(tally) / sizeof(uint64_t); i++)
			((uint64_t *)sum)[i] += ((uint64_t *)&tally)[i];
	return good;
}

/* --- the command line --- */

static void
usage(void)
{
	fprintf(stderr, "crash_replay --record FILE [--end] [--cases N] [--only CASE] [--seed N] "
			"[--workers N] [--log-always] [--verbose] IMAGE...\n");
	exit(2);
}

static struct options
parse(int argc, char **argv)
{
	static const struct option words[] = {
		{ "record", required_argument, NULL, 'r' },
		{ "cases", required_argument, NULL, 'c' },
		{ "only", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' },
		{ "workers", required_argument, NULL, 'w' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "end", no_argument, NULL, 'e' },
		{ "log-always", no_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .cases = UINT64_MAX,
				   .only = -1,
				   .seed = 1,
				   .log = LOG_MODE_DEGRADED,
				   .workers = (int)sysconf(_SC_NPROCESSORS_ONLN) };
	bool end = false;

	for (int got; (got = getopt_long(argc, argv, "", words, NULL)) != -1;)
		switch (got) {
		case 'r':
			options.record = optarg;
			break;
		case 'c':
			options.cases = strtoull(optarg, NULL, 10);
			break;
		case 'o':
			options.only = strtoll(optarg, NULL, 10);
			break;
		case 's':
			options.seed = strtoull(optarg, NULL, 10);
			break;
		case 'w':
			options.workers = atoi(optarg);
			break;
		case 'v':
			options.verbose = true;
			break;
		case 'e':
			end = true;
			break;
		case 'a':
			options.log = LOG_MODE_ALWAYS;
			break;
		default:
			usage();
		}
	options.images = argc - optind;
	if (end && options.images % 2 != 0)
		usage();
	if (end)
		options.images /= 2;
	if (options.record == NULL || options.images < 2 || options.images > IRAID_MEMBERS_MAX ||
	    options.workers < 1 || options.workers > WORKERS_MAX)
		usage();
	options.end = end ? argv + optind + options.images : NULL;
	return options;
}

int
main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct replay replay = { 0 };
	struct tally sum = { 0 };
	struct worker worker = { .options = &options, .replay = &replay, .count = options.workers };
	struct timespec begin, end;
	uint64_t counts[2];
	double seconds;

	/* The same memory for every case: pages are neither given back nor asked for again. */
	mallopt(M_MMAP_THRESHOLD, 256 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	record_load(&replay.record, options.record);
	replay_load(&replay, argv + optind, options.images);
	count_cases(&options, &replay, counts);
	worker.total = counts[0];
	worker.basic_total = counts[1];
	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (!run_workers(&worker, &sum))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%zu entries, %llu of %llu cases: %llu crashes, %llu losses of power, %llu with a "
	       "member absent, %llu crashed again, %llu lost one later, %llu refused; %llu sectors "
	       "unknown, %llu rows of parity corrected; %.0f cases a minute\n",
	       replay.record.count, (unsigned long long)sum.cases, (unsigned long long)worker.total,
	       (unsigned long long)sum.crashes, (unsigned long long)sum.powers,
	       (unsigned long long)sum.absents, (unsigned long long)sum.again,
	       (unsigned long long)sum.lost_later, (unsigned long long)sum.refused,
	       (unsigned long long)sum.unknown_sectors, (unsigned long long)sum.corrected_rows,
	       (double)sum.cases * 60 / seconds);
	return 0;
}
