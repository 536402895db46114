/* simulate.c - runs seeds on all cores, in worker processes, and adds up.
 *
 * A worker takes seeds one by one from a common counter.  One that dies (a check failed, an
 * assertion, a crash, or it hung) says so by its exit; the seed stands in its slot, and another
 * worker takes its place.
 */
#include "sim.h"

#include "pure/mutant.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 64
#define SEEDS_PER_PROCESS 1000
/* real time, if --limit does not say else; a seed takes some milliseconds */
#define SEED_SECONDS_MAX 300
#define FAILURES_MAX 200 /* then no more seeds are begun */
#define STEPS_MAX 100000u
#define HEAP_BYTES (48u << 20)
#define HUGE_BYTES (2u << 20)

struct worker {
	pid_t pid;
	_Atomic uint64_t seed; /* under way; 0: none */
	_Atomic int64_t since_s;
	char message[SIM_MESSAGE_MAX];
	struct sim_totals totals;
};

struct shared {
	_Atomic uint64_t next_seed;
	struct worker workers[WORKERS_MAX];
};

struct arguments {
	uint64_t first, last;
	uint32_t steps;
	int level;
	int jobs;
	uint8_t *dropped;
	int trace;
	bool stop_at_first;
	bool quiet;
	bool coverage, wanted;
	int limit_s;
};

static struct shared *shared;

static int64_t
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Thousands of short lives: memory that was touched once is not given back in between, and stands
 * in huge pages.
 */
static void
prepare_memory(void)
{
	uintptr_t begin, end;

	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	mallopt(M_TOP_PAD, HEAP_BYTES);
	free(malloc(HEAP_BYTES));
	begin = ((uintptr_t)sbrk(0) - HEAP_BYTES + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1);
	end = (uintptr_t)sbrk(0) & ~(uintptr_t)(HUGE_BYTES - 1);
	madvise((void *)begin, end - begin, MADV_HUGEPAGE);
	mallopt(M_TOP_PAD, HUGE_BYTES);
}

static void
work(struct worker *worker, const struct arguments *arguments)
{
	for (int i = 0; i < SEEDS_PER_PROCESS; i++) {
		uint64_t seed = atomic_fetch_add(&shared->next_seed, 1);
		struct sim_options options = {
			.seed = seed,
			.steps = arguments->steps,
			.level = arguments->level,
			.dropped = arguments->dropped,
			.trace = arguments->trace,
			.totals = &worker->totals,
			.message = worker->message,
		};

		if (seed > arguments->last)
			break;
		worker->message[0] = '\0';
		atomic_store(&worker->since_s, seconds());
		atomic_store(&worker->seed, seed);
		sim_run(&options);
		atomic_store(&worker->seed, 0);
	}
	fflush(NULL);
#ifdef IRAID_COVERAGE
	exit(0); /* _exit() would take along what was counted */
#endif
	_exit(0);
}

static void
launch(struct worker *worker, const struct arguments *arguments)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("simulate: fork");
		exit(2);
	}
	if (pid == 0)
		work(worker, arguments);
	worker->pid = pid; /* shared with the worker: only here */
}

static void
describe_end(struct worker *worker, int status, char *text, size_t size)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == SIM_EXIT_FAILED)
		snprintf(text, size, "%s", worker->message);
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		snprintf(text, size, "hangs: no end in real time");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "died of signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "exited with status %d", WEXITSTATUS(status));
}

/* Returns whether the worker's end is a failure of its seed. */
static bool
bury_worker(struct worker *worker, int status, uint64_t *failed_seed)
{
	char text[SIM_MESSAGE_MAX];

	worker->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	*failed_seed = atomic_exchange(&worker->seed, 0);
	describe_end(worker, status, text, sizeof(text));
	printf("FAILED seed %llu: %s\n", (unsigned long long)*failed_seed, text);
	fflush(stdout);
	return true;
}

static struct worker *
worker_of(pid_t pid, int jobs)
{
	for (int i = 0; i < jobs; i++)
		if (shared->workers[i].pid == pid)
			return &shared->workers[i];
	return NULL;
}

static void
kill_hung(const struct arguments *arguments)
{
	for (int i = 0; i < arguments->jobs; i++) {
		struct worker *worker = &shared->workers[i];

		if (worker->pid > 0 && atomic_load(&worker->seed) != 0 &&
		    seconds() - atomic_load(&worker->since_s) > arguments->limit_s)
			kill(worker->pid, SIGKILL);
	}
}

static void
kill_all(int jobs)
{
	for (int i = 0; i < jobs; i++)
		if (shared->workers[i].pid > 0)
			kill(shared->workers[i].pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void
show_progress(const struct arguments *arguments, int failures)
{
	static int64_t last_s;
	uint64_t next = atomic_load(&shared->next_seed);

	if (arguments->quiet || seconds() - last_s < 5)
		return;
	last_s = seconds();
	fprintf(stderr, "simulate: at seed %llu of %llu, %d failed\n", (unsigned long long)next,
		(unsigned long long)arguments->last, failures);
}

static int
run_all(const struct arguments *arguments)
{
	int failures = 0;
	int running = arguments->jobs;
	uint64_t failed_seed = 0;

	atomic_store(&shared->next_seed, arguments->first);
	for (int i = 0; i < arguments->jobs; i++)
		launch(&shared->workers[i], arguments);
	while (running > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		struct worker *worker = pid > 0 ? worker_of(pid, arguments->jobs) : NULL;

		if (worker == NULL) {
			struct timespec moment = { 0, 20000000 };

			kill_hung(arguments);
			show_progress(arguments, failures);
			nanosleep(&moment, NULL);
			continue;
		}
		failures += bury_worker(worker, status, &failed_seed);
		if (failures > 0 && arguments->stop_at_first) {
			kill_all(arguments->jobs);
			break;
		}
		if (failures >= FAILURES_MAX)
			atomic_store(&shared->next_seed, arguments->last + 1);
		if (atomic_load(&shared->next_seed) > arguments->last)
			running--;
		else
			launch(worker, arguments);
	}
	return failures;
}

/* --- sums --- */

static void
add_totals(struct sim_totals *sum, const struct sim_totals *part)
{
	sum->seeds += part->seeds;
	sum->operations += part->operations;
	sum->errors += part->errors;
	sum->bytes += part->bytes;
	for (int i = 0; i < FAULT_KINDS; i++)
		sum->faults[i] += part->faults[i];
	for (int i = 0; i < ADMIN_KINDS; i++)
		sum->admin[i] += part->admin[i];
	for (int i = 0; i < ABILITIES; i++)
		sum->abilities[i] += part->abilities[i];
	sum->memory_waits += part->memory_waits;
	sum->rotten += part->rotten;
	sum->rebuilds += part->rebuilds;
	sum->scrubs += part->scrubs;
	sum->fake.answers_lost += part->fake.answers_lost;
	sum->fake.torn += part->fake.torn;
	sum->fake.late += part->fake.late;
	sum->fake.late_landed += part->fake.late_landed;
	sum->fake.late_fenced += part->fake.late_fenced;
	sum->fake.sectors_lost += part->fake.sectors_lost;
	sum->fake.medium_errors += part->fake.medium_errors;
	sum->fake.diverted += part->fake.diverted;
	sum->virtual_ms += part->virtual_ms;
	sum->events += part->events;
	sum->checks += part->checks;
	for (int i = 0; i < STAY_KINDS; i++)
		sum->stays[i] += part->stays[i];
	sum->clean_stops += part->clean_stops;
	for (int i = 0; i < WHERES; i++)
		for (int kind = 0; kind < FAULT_KINDS; kind++)
			sum->met[i][kind] += part->met[i][kind];
	for (int i = 0; i < 2; i++)
		if (part->longest[i].took_ms > sum->longest[i].took_ms)
			sum->longest[i] = part->longest[i];
	if (part->longest_stop.took_ms > sum->longest_stop.took_ms)
		sum->longest_stop = part->longest_stop;
}

static void
line(const char *name, uint64_t value)
{
	printf("  %-34s %12llu\n", name, (unsigned long long)value);
}

static void
longest(const char *name, const struct sim_longest *seen)
{
	printf("  %-34s %12llu ms of %llu, seed %llu\n", name, (unsigned long long)seen->took_ms,
	       (unsigned long long)seen->bound_ms, (unsigned long long)seen->seed);
}

static void
print_totals(const struct sim_totals *sum, double took_s)
{
	uint64_t faults = 0;
	double seeds = sum->seeds ? (double)sum->seeds : 1;

	for (int i = 0; i < FAULT_KINDS; i++)
		faults += sum->faults[i];
	printf("faults injected\n");
	for (int i = 0; i < FAULT_KINDS; i++)
		line(fault_names[i], sum->faults[i]);
	line("writes whose answer was lost", sum->fake.answers_lost);
	line("writes torn", sum->fake.torn);
	line("writes held beyond their session", sum->fake.late);
	line("  landed late", sum->fake.late_landed);
	line("  stopped by the fence", sum->fake.late_fenced);
	line("sectors lost with a cache", sum->fake.sectors_lost);
	line("reads of unreadable sectors", sum->fake.medium_errors);
	line("blocks falsified", sum->rotten);
	line("reads diverted", sum->fake.diverted);
	printf("faults that stay: a member\n");
	for (int i = 0; i < STAY_KINDS; i++)
		line(stay_name((enum stay_kind)i), sum->stays[i]);
	printf("administration\n");
	for (int i = 0; i < ADMIN_KINDS; i++)
		line(admin_names[i], sum->admin[i]);
	printf("lives with\n");
	for (int i = 0; i < ABILITIES; i++)
		line(abilities[i].name, sum->abilities[i]);
	printf("work\n");
	line("members filled", sum->rebuilds);
	line("scrubs that ended", sum->scrubs);
	line("stops that said clean", sum->clean_stops);
	line("requests", sum->operations);
	line("requests that failed, fairly", sum->errors);
	line("MiB read and written", sum->bytes >> 20);
	line("turns short of memory", sum->memory_waits);
	line("checks of all media", sum->checks);
	line("hours of virtual time", sum->virtual_ms / 3600000);
	longest("longest request, members missing", &sum->longest[1]);
	longest("longest of others", &sum->longest[0]);
	longest("longest stop", &sum->longest_stop);
	printf("%llu seeds in %.1f s: %.0f seeds a minute, %.0f requests and %.1f faults a seed\n",
	       (unsigned long long)sum->seeds, took_s, seeds * 60 / took_s,
	       (double)sum->operations / seeds, (double)faults / seeds);
}

/* --- arguments --- */

static void
usage(FILE *to)
{
	fputs("simulate --seeds A..B [--steps N] [--level N] [--drop LIST] [--jobs N] [--first] "
	      "[--trace] [--quiet]\n"
	      "  --steps N    steps of each run (300)\n"
	      "  --level N    volumes of this level only\n"
	      "  --drop LIST  steps left out: 3,7-12\n"
	      "  --mutant X   with a known mistake in the engine; --list-mutants says which there "
	      "are\n"
	      "  --with X     lives that all have this ability, which may be off or rare; "
	      "--list-abilities\n"
	      "  --without X  none that has it\n"
	      "  --limit S    a seed that takes longer hangs (300)\n"
	      "  --coverage   which states of the engine and which faults have met, and how often\n"
	      "  --wanted     what steered lives look for (sim_wanted.h), as these lives would "
	      "have it\n"
	      "  --first      end at the first seed that fails\n"
	      "  --trace      tell everything, on stderr; for one seed; twice: members' commands "
	      "too\n",
	      to);
}

static void
parse_seeds(const char *text, struct arguments *arguments)
{
	char *end;

	arguments->first = strtoull(text, &end, 10);
	arguments->last = arguments->first;
	if (strncmp(end, "..", 2) == 0)
		arguments->last = strtoull(end + 2, &end, 10);
	if (*end != '\0' || arguments->first == 0 || arguments->last < arguments->first) {
		fprintf(stderr, "simulate: --seeds '%s' is not a range like 1..1000\n", text);
		exit(2);
	}
}

static const struct {
	enum mutant mutant;
	const char *name;
	int rule;
	const char *catcher, *text;
} mutants[] = {
#define MUTANT_ENTRY(NAME, name, rule, catcher, text) { MUTANT_##NAME, name, rule, catcher, text },
	MUTANTS(MUTANT_ENTRY)
};

static void
list_mutants(void)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
		printf("%-28s rule %-2d  %s; %s\n", mutants[i].name, mutants[i].rule,
		       mutants[i].catcher, mutants[i].text);
}

static void
choose_mutant(const char *name)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
		if (strcmp(mutants[i].name, name) == 0) {
#ifdef IRAID_MUTANTS
			mutant_active = mutants[i].mutant;
			return;
#else
			fprintf(stderr,
				"simulate: --mutant %s: this build has no mutants; configure with "
				"-DIRAID_MUTANTS=ON, or use scripts/simulate\n",
				name);
			exit(2);
#endif
		}
	fprintf(stderr, "simulate: --mutant '%s' is unknown; see --list-mutants\n", name);
	exit(2);
}

static void
choose_ability(const char *name, bool on)
{
	if (ability_switch(name, on))
		return;
	fprintf(stderr, "simulate: --with%s '%s' is unknown; see --list-abilities\n",
		on ? "" : "out", name);
	exit(2);
}

static void
parse_drop(const char *text, struct arguments *arguments)
{
	arguments->dropped = calloc(STEPS_MAX, 1);
	while (*text != '\0') {
		char *end;
		unsigned long first = strtoul(text, &end, 10);
		unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

		if ((*end != ',' && *end != '\0') || last >= STEPS_MAX || last < first ||
		    end == text) {
			fprintf(stderr, "simulate: --drop '%s' is not a list like 3,7-12\n", text);
			exit(2);
		}
		memset(arguments->dropped + first, 1, last - first + 1);
		text = *end == ',' ? end + 1 : end;
	}
}

static void
parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'n' },
		{ "drop", required_argument, NULL, 'd' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "first", no_argument, NULL, 'f' },
		{ "trace", no_argument, NULL, 't' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ "level", required_argument, NULL, 'v' },
		{ "limit", required_argument, NULL, 'L' },
		{ "mutant", required_argument, NULL, 'm' },
		{ "list-mutants", no_argument, NULL, 'l' },
		{ "with", required_argument, NULL, 'w' },
		{ "without", required_argument, NULL, 'W' },
		{ "list-abilities", no_argument, NULL, 'a' },
		{ "coverage", no_argument, NULL, 'c' },
		{ "wanted", no_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			parse_seeds(optarg, arguments);
			break;
		case 'n':
			arguments->steps = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'd':
			parse_drop(optarg, arguments);
			break;
		case 'j':
			arguments->jobs = atoi(optarg);
			break;
		case 'f':
			arguments->stop_at_first = true;
			break;
		case 't':
			arguments->trace++;
			break;
		case 'q':
			arguments->quiet = true;
			break;
		case 'v':
			arguments->level = atoi(optarg);
			if (geometry_fault(arguments->level, 4) != NULL ||
			    !isdigit((unsigned char)*optarg)) {
				fprintf(stderr,
					"simulate: --level %s: levels are 0, 1, 5, 6 and 10\n",
					optarg);
				exit(2);
			}
			break;
		case 'L':
			arguments->limit_s = atoi(optarg);
			break;
		case 'm':
			choose_mutant(optarg);
			break;
		case 'w':
		case 'W':
			choose_ability(optarg, option == 'w');
			break;
		case 'c':
			arguments->coverage = true;
			break;
		case 'p':
			arguments->wanted = true;
			break;
		case 'a':
			ability_list();
			exit(0);
		case 'l':
			list_mutants();
			exit(0);
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (arguments->first == 0 || optind < argc || arguments->jobs < 1 ||
	    arguments->jobs > WORKERS_MAX || arguments->steps >= STEPS_MAX) {
		usage(stderr);
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	struct arguments arguments = {
		.steps = SIM_STEPS_DEFAULT,
		.level = -1,
		.limit_s = SEED_SECONDS_MAX,
		.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN),
	};
	struct sim_totals sum = { 0 };
	struct timespec begin, finish;
	int failures;

	parse(argc, argv, &arguments);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("simulate: mmap");
		return 2;
	}
	if (arguments.last == arguments.first)
		arguments.jobs = 1;
	prepare_memory();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	failures = run_all(&arguments);
	clock_gettime(CLOCK_MONOTONIC, &finish);
	for (int i = 0; i < arguments.jobs; i++)
		add_totals(&sum, &shared->workers[i].totals);
	if (!arguments.quiet)
		print_totals(&sum, (double)(finish.tv_sec - begin.tv_sec) +
					   (double)(finish.tv_nsec - begin.tv_nsec) / 1e9);
	if (arguments.coverage)
		where_print((const uint64_t(*)[FAULT_KINDS])sum.met);
	if (arguments.wanted)
		where_print_wanted((const uint64_t(*)[FAULT_KINDS])sum.met);
	printf("%d of %llu seeds failed\n", failures,
	       (unsigned long long)(sum.seeds + (uint64_t)failures));
	return failures > 0;
}
