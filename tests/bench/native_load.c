/* native_load.c - throughput without a kernel: the engine driven directly, or plain libiscsi
 * sessions to targets.
 *
 *     native_load engine VOLUME            a volume of IRAID_CONFIG_DIR, on the thread that would serve tcmu
 *     native_load raw PORTAL/IQN/LUN...    one session each, all on one thread; --depth of them together
 *         --pattern write|read|randwrite|randread  --block BYTES  --depth N  --seconds S  --warm S
 *
 * native.py runs the two in turn.  Prints one line of JSON: MB/s, commands a second, latencies,
 * processor seconds.  raw overwrites what is on the targets.
 */
#include "native_load.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define LATENCIES_MAX (1u << 22)

uint64_t
load_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t
load_draw(struct load *load)
{
	const uint64_t blocks = load->area_bytes / load->block_bytes;
	uint64_t number = load->next++;

	if (load->at_random) {
		load->random = load->random * 6364136223846793005u + 1442695040888963407u;
		number = load->random >> 20;
	}
	return number % blocks * load->block_bytes;
}

void
load_done(struct load *load, uint64_t began_us)
{
	if (!atomic_load_explicit(&load->measuring, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&load->done, 1, memory_order_relaxed);
	if (load->latencies < LATENCIES_MAX)
		load->latency_us[load->latencies++] = (uint32_t)(load_now_us() - began_us);
}

static double
processor_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void
pause_for(double seconds)
{
	struct timespec left = { (time_t)seconds,
				 (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&left, NULL);
}

static struct {
	double seconds, processor;
	uint64_t done;
} measured;

static void *
time_it(void *argument)
{
	struct load *load = argument;
	uint64_t began_us;
	double processor;

	pause_for(load->warm_seconds);
	atomic_store(&load->measuring, true);
	began_us = load_now_us();
	processor = processor_seconds();
	pause_for(load->seconds);
	measured.done = atomic_load(&load->done);
	measured.processor = processor_seconds() - processor;
	measured.seconds = (double)(load_now_us() - began_us) / 1e6;
	atomic_store(&load->measuring, false);
	atomic_store(&load->stop, true);
	return NULL;
}

static pthread_t timer;

static void
begin_measuring(struct load *load)
{
	if (pthread_create(&timer, NULL, time_it, load) != 0) {
		fprintf(stderr, "native_load: no thread\n");
		exit(EXIT_FAILURE);
	}
}

static int
by_size(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

static double
percentile_ms(const struct load *load, double share)
{
	uint64_t at = (uint64_t)((double)load->latencies * share);

	return load->latencies == 0
		       ? 0
		       : load->latency_us[at < load->latencies ? at : load->latencies - 1] / 1e3;
}

static void
report(struct load *load, const char *system)
{
	double bytes = (double)measured.done * load->block_bytes;

	qsort(load->latency_us, load->latencies, sizeof(*load->latency_us), by_size);
	printf("{\"system\": \"%s\", \"mb_per_s\": %.1f, \"iops\": %.0f, \"p50_ms\": %.3f, "
	       "\"p99_ms\": %.3f, \"p999_ms\": %.3f, \"cpu_s_per_gib\": %.3f}\n",
	       system, bytes / measured.seconds / 1e6, (double)measured.done / measured.seconds,
	       percentile_ms(load, 0.5), percentile_ms(load, 0.99), percentile_ms(load, 0.999),
	       bytes > 0 ? measured.processor / (bytes / (1u << 30)) : 0);
}

static int
usage(const char *fault)
{
	fprintf(stderr,
		"native_load: %s\nusage: native_load engine VOLUME | raw PORTAL/IQN/LUN...\n"
		"       --pattern write|read|randwrite|randread --block BYTES --depth N --seconds "
		"S [--warm S]\n",
		fault);
	return 2;
}

static bool
set_pattern(struct load *load, const char *name)
{
	load->at_random = strncmp(name, "rand", 4) == 0;
	name += load->at_random ? 4 : 0;
	load->write = strcmp(name, "write") == 0;
	return load->write || strcmp(name, "read") == 0;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pattern", required_argument, NULL, 'p' },
		{ "block", required_argument, NULL, 'b' },
		{ "depth", required_argument, NULL, 'd' },
		{ "seconds", required_argument, NULL, 's' },
		{ "warm", required_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	struct load load = {
		.block_bytes = 65536, .depth = 16, .seconds = 2, .warm_seconds = 0.5, .random = 1
	};
	const char *system;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'p' && !set_pattern(&load, optarg))
			return usage("--pattern is write, read, randwrite or randread");
		else if (option == 'b')
			load.block_bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'd')
			load.depth = atoi(optarg);
		else if (option == 's')
			load.seconds = atof(optarg);
		else if (option == 'w')
			load.warm_seconds = atof(optarg);
		else if (option == '?')
			return usage("an option is not known");
	}
	if (argc - optind < 2 || load.block_bytes == 0 || load.block_bytes % 4096 != 0 ||
	    load.depth < 1 || load.seconds <= 0)
		return usage("a value is missing or out of range");
	system = argv[optind];
	load.latency_us = malloc(LATENCIES_MAX * sizeof(*load.latency_us));
	if (!load.latency_us)
		return usage("out of memory");
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(system, "engine") == 0)
		engine_load(&load, argv[optind + 1], begin_measuring);
	else if (strcmp(system, "raw") == 0)
		raw_load(&load, argv + optind + 1, argc - optind - 1, begin_measuring);
	else
		return usage("the system is engine or raw");
	pthread_join(timer, NULL);
	report(&load, system);
	return 0;
}
