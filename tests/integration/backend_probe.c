/* backend_probe.c - drives one member through ports/backend.h by commands on standard input.
 *
 *     backend_probe MEMBER [deadline_ms=N] [connect_ms=N] [key=HEX] [isid=N] [take_over_ms=N]
 *                          [state=FOLDER]
 *                          [secrets=FILE] [initiator=IQN] [portal=HOST:PORT ...]
 *                          [header_digest=preferred] [data_digest=required]
 *                          [redirects=no|portals|yes]
 *
 *     open | close | release                 closed and opened are printed when they happen
 *     write OFFSET LENGTH SEED [fua] [iov=N]  each 8 bytes: SEED << 48 | their offset on the member;
 *     read OFFSET LENGTH SEED [iov=N]         checked against that.  iov: entries of odd lengths
 *     zero OFFSET LENGTH [deallocate]
 *     flush
 *     predecessor KEY                        the engine names whom the member may be taken from
 *     measure                                prints the capacity, too; loads go up to there from then on
 *     divert                                 takes the memory of all reads under way back: poison
 *     load DEPTH LENGTH [read]               keeps DEPTH ios under way until the session closes
 *     unload                                 lets them run out
 *     poisoned                               were buffers touched after their io had completed?
 *     bench read|write DEPTH LENGTH SECONDS [random]
 *
 * One line is printed for each event; every buffer is filled with poison when its io completes, and
 * "poisoned" tells whether it still is.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "adapters/backend/backend.h"
#include "adapters/config/preempted.h"
#include "adapters/iscsi/redirect.h"

#define POISON 0xa5
#define IOS_MAX 512
#define LINE_MAX_BYTES 4096

struct probe_io {
	struct backend_io io; /* first */
	uint8_t *buffer;
	size_t buffer_bytes;
	struct iovec *iov;
	int iov_max;
	uint64_t seed;
	bool busy, loading, used, diverted;
};

static struct {
	struct reactor *reactor;
	struct backend *backend;
	struct backend_identity identity;
	struct probe_io ios[IOS_MAX];
	bool open, quit;
	/* load and bench */
	bool loading, load_read, load_random, bench;
	uint32_t load_bytes;
	uint64_t load_next, load_done, load_failed, bench_started_ms, bench_end_ms;
	struct rusage bench_usage;
	char line[LINE_MAX_BYTES];
	size_t line_used;
} probe;

static struct probe_io *
free_io(size_t bytes)
{
	for (int i = 0; i < IOS_MAX; i++) {
		struct probe_io *pio = &probe.ios[i];

		if (pio->busy)
			continue;
		if (pio->buffer_bytes != bytes) {
			free(pio->buffer);
			pio->buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
			pio->buffer_bytes = bytes;
		}
		return pio;
	}
	fprintf(stderr, "more than %d ios\n", IOS_MAX);
	exit(1);
}

static void
fill(struct probe_io *pio)
{
	for (size_t at = 0; at + 8 <= pio->buffer_bytes; at += 8) {
		uint64_t word = pio->seed << 48 | (pio->io.offset_bytes + at);

		memcpy(pio->buffer + at, &word, 8);
	}
}

static bool
filled(const struct probe_io *pio)
{
	for (size_t at = 0; at + 8 <= pio->buffer_bytes; at += 8) {
		uint64_t word = pio->seed << 48 | (pio->io.offset_bytes + at);

		if (memcmp(pio->buffer + at, &word, 8) != 0)
			return false;
	}
	return true;
}

/* entries of lengths 1, 3, 5, ... and the rest in the last; empty ones in between */
static void
set_iov(struct probe_io *pio, int entries)
{
	size_t at = 0, next = 1;

	if (pio->iov_max < entries) {
		pio->iov = realloc(pio->iov, (size_t)entries * sizeof(*pio->iov));
		pio->iov_max = entries;
	}
	for (int i = 0; i < entries; i++, next += 2) {
		size_t left = pio->buffer_bytes - at;
		size_t length = i + 1 == entries || next > left ? left : i % 7 == 3 ? 0 : next;

		pio->iov[i] = (struct iovec){ pio->buffer + at, length };
		at += length;
	}
	pio->io.iov = pio->iov;
	pio->io.iov_count = entries;
}

static void load_one(struct probe_io *pio);

static void
load_done(struct probe_io *pio)
{
	if (pio->io.result == 0)
		probe.load_done++;
	else
		probe.load_failed++;
	if (!probe.bench)
		memset(pio->buffer, POISON, pio->buffer_bytes);
	pio->loading = false;
	if (pio->io.result == 0 && probe.loading)
		load_one(pio);
}

static void
on_done(struct backend_io *io)
{
	struct probe_io *pio = (struct probe_io *)io;
	static const char *const names[] = { "read", "write", "flush", "zero", "measure" };
	const char *name = names[io->op];

	assert(pio->busy); /* exactly once */
	pio->busy = false;
	/* the others have no memory */
	pio->used = io->op == BACKEND_READ || io->op == BACKEND_WRITE;
	if (pio->loading) {
		load_done(pio);
		return;
	}
	if (io->op == BACKEND_MEASURE) {
		printf("measure %d %llu\n", io->result, (unsigned long long)io->capacity_bytes);
		if (io->result == 0)
			probe.identity.capacity_bytes = io->capacity_bytes;
		return;
	}
	printf("%s %llu %u %d%s\n", name, (unsigned long long)io->offset_bytes, io->length_bytes,
	       io->result,
	       pio->diverted				   ? " diverted"
	       : io->op == BACKEND_READ && io->result == 0 ? (filled(pio) ? " same" : " DIFFERENT")
							   : "");
	if (io->op != BACKEND_FLUSH && io->op != BACKEND_ZERO && !pio->diverted)
		memset(pio->buffer, POISON, pio->buffer_bytes);
}

static void
submit(struct probe_io *pio)
{
	pio->busy = true;
	pio->diverted = false;
	pio->io.done = on_done;
	probe.backend->ops->submit(probe.backend, &pio->io);
}

static void
load_one(struct probe_io *pio)
{
	uint64_t places = probe.identity.capacity_bytes / probe.load_bytes;
	uint64_t place = probe.load_next++;

	if (probe.load_random)
		place = place * 0x9e3779b97f4a7c15 >> 11;
	pio->io = (struct backend_io){ .op = probe.load_read ? BACKEND_READ : BACKEND_WRITE };
	pio->io.offset_bytes = place % places * probe.load_bytes;
	pio->io.length_bytes = probe.load_bytes;
	pio->loading = true;
	if (!probe.bench)
		fill(pio);
	set_iov(pio, 1);
	submit(pio);
}

static void
load(int depth, uint32_t bytes, bool read, bool random)
{
	probe.loading = true;
	probe.load_read = read;
	probe.load_random = random;
	probe.load_bytes = bytes;
	probe.load_done = probe.load_failed = 0;
	for (int i = 0; i < depth; i++)
		load_one(free_io(bytes));
}

static double
seconds_of(struct timeval a, struct timeval b)
{
	return (double)(a.tv_sec - b.tv_sec) + (double)(a.tv_usec - b.tv_usec) / 1e6;
}

static void
bench_over(void)
{
	double seconds = (double)(monotonic_ms() - probe.bench_started_ms) / 1000;
	double count = (double)probe.load_done;
	struct rusage now;

	getrusage(RUSAGE_SELF, &now);
	printf("bench %.0f iops %.1f MB/s cpu user %.2f system %.2f faults %ld failed %llu\n",
	       count / seconds, count / seconds * probe.load_bytes / 1e6,
	       seconds_of(now.ru_utime, probe.bench_usage.ru_utime),
	       seconds_of(now.ru_stime, probe.bench_usage.ru_stime),
	       now.ru_minflt - probe.bench_usage.ru_minflt, (unsigned long long)probe.load_failed);
	probe.loading = probe.bench = false;
}

static void
on_opened(void *owner, const struct backend_identity *identity)
{
	probe.open = true;
	probe.identity = *identity;
	printf("opened capacity=%llu block=%u write_cache=%d fua=%d reservation=%d transfer=%u "
	       "zero=%u kept=%d lost=%u taken=%d predecessor=%llx\n",
	       (unsigned long long)identity->capacity_bytes, identity->block_bytes,
	       identity->write_cache, identity->fua, identity->reservation,
	       identity->transfer_bytes_max, identity->zero_bytes_max, identity->cache_kept,
	       probe.backend->writes_lost, identity->taken,
	       (unsigned long long)identity->predecessor_key);
}

static void
on_closed(void *owner, int error, const char *reason)
{
	int busy = 0;

	for (int i = 0; i < IOS_MAX; i++)
		busy += probe.ios[i].busy;
	probe.open = false;
	if (probe.loading)
		printf("load %llu done %llu failed\n", (unsigned long long)probe.load_done,
		       (unsigned long long)probe.load_failed);
	probe.loading = false;
	printf("closed %s %d busy=%d %s lost=%u\n", strerrorname_np(-error), error, busy, reason,
	       probe.backend->writes_lost);
}

static void
divert_all(void)
{
	for (int i = 0; i < IOS_MAX; i++) {
		struct probe_io *pio = &probe.ios[i];

		if (!pio->busy || pio->io.op != BACKEND_READ)
			continue;
		probe.backend->ops->divert(probe.backend, &pio->io);
		pio->diverted = true;
		memset(pio->buffer, POISON, pio->buffer_bytes);
	}
}

static void
say_poisoned(void)
{
	int touched = 0, buffers = 0;

	for (int i = 0; i < IOS_MAX; i++) {
		struct probe_io *pio = &probe.ios[i];

		if (pio->busy || !pio->used || pio->buffer == NULL)
			continue;
		buffers++;
		for (size_t at = 0; at < pio->buffer_bytes; at++) {
			if (pio->buffer[at] != POISON) {
				touched++;
				break;
			}
		}
	}
	printf("poisoned %d touched %d\n", buffers, touched);
}

static void
start_io(enum backend_op op, char **words)
{
	uint64_t offset = strtoull(words[1], NULL, 0);
	uint32_t length = (uint32_t)strtoul(words[2], NULL, 0);
	struct probe_io *pio = free_io(length);
	int entries = 1;

	pio->io = (struct backend_io){ .op = op, .offset_bytes = offset, .length_bytes = length };
	pio->seed = strtoull(words[3], NULL, 0);
	for (char **word = words + 4; *word != NULL; word++) {
		if (strcmp(*word, "fua") == 0)
			pio->io.fua = true;
		else if (strncmp(*word, "iov=", 4) == 0)
			entries = atoi(*word + 4);
	}
	if (op == BACKEND_WRITE)
		fill(pio);
	else
		memset(pio->buffer, 0, length);
	set_iov(pio, entries);
	submit(pio);
}

static void
start_zero(const char *offset, const char *length, bool deallocate)
{
	struct probe_io *pio = free_io(8);

	pio->io = (struct backend_io){
		.op = BACKEND_ZERO,
		.deallocate = deallocate,
		.offset_bytes = strtoull(offset, NULL, 0),
		.length_bytes = (uint32_t)strtoul(length, NULL, 0),
	};
	submit(pio);
}

static void
start_without_memory(enum backend_op op)
{
	struct probe_io *pio = free_io(8);

	pio->io = (struct backend_io){ .op = op };
	submit(pio);
}

static void
run_command(char *text)
{
	char *words[16] = { NULL };
	int count = 0;

	for (char *word = strtok(text, " "); word != NULL && count < 15; word = strtok(NULL, " "))
		words[count++] = word;
	if (count == 0)
		return;
	if (strcmp(words[0], "open") == 0) {
		probe.backend->ops->open(probe.backend);
	} else if (strcmp(words[0], "close") == 0) {
		probe.backend->ops->close(probe.backend);
	} else if (strcmp(words[0], "release") == 0) {
		probe.backend->ops->release(probe.backend);
	} else if (strcmp(words[0], "predecessor") == 0 && count >= 2) {
		probe.backend->predecessor_key = strtoull(words[1], NULL, 16);
	} else if (strcmp(words[0], "volume_is_up") == 0) {
		backend_iscsi_end_take_over(probe.backend);
	} else if (strcmp(words[0], "write") == 0 && count >= 4) {
		start_io(BACKEND_WRITE, words);
	} else if (strcmp(words[0], "read") == 0 && count >= 4) {
		start_io(BACKEND_READ, words);
	} else if (strcmp(words[0], "zero") == 0 && count >= 3) {
		start_zero(words[1], words[2], count > 3);
	} else if (strcmp(words[0], "flush") == 0) {
		start_without_memory(BACKEND_FLUSH);
	} else if (strcmp(words[0], "measure") == 0) {
		start_without_memory(BACKEND_MEASURE);
	} else if (!probe.open &&
		   (strcmp(words[0], "load") == 0 || strcmp(words[0], "bench") == 0)) {
		printf("not open\n");
	} else if (strcmp(words[0], "load") == 0 && count >= 3) {
		load(atoi(words[1]), (uint32_t)strtoul(words[2], NULL, 0), count > 3, false);
	} else if (strcmp(words[0], "unload") == 0) {
		probe.loading = false;
	} else if (strcmp(words[0], "divert") == 0) {
		divert_all();
	} else if (strcmp(words[0], "digest_errors") == 0) {
		printf("digest_errors %llu\n", (unsigned long long)probe.backend->digest_errors);
	} else if (strcmp(words[0], "poisoned") == 0) {
		say_poisoned();
	} else if (strcmp(words[0], "bench") == 0 && count >= 5) {
		probe.bench = true;
		load(atoi(words[2]), (uint32_t)strtoul(words[3], NULL, 0), words[1][0] == 'r',
		     count > 5);
		probe.bench_started_ms = monotonic_ms();
		probe.bench_end_ms = probe.bench_started_ms + 1000 * strtoul(words[4], NULL, 0);
		getrusage(RUSAGE_SELF, &probe.bench_usage);
	} else {
		printf("unknown command %s\n", words[0]);
	}
}

static void
on_input(void *owner, uint32_t events)
{
	/* Always true; a compiler that can't know it warns of a longer read. */
	size_t used = probe.line_used < sizeof(probe.line) ? probe.line_used : 0;
	ssize_t got = read(STDIN_FILENO, probe.line + used, sizeof(probe.line) - used - 1);
	char *end;

	if (got <= 0) {
		reactor_watch(probe.reactor, STDIN_FILENO, 0, NULL, NULL);
		probe.quit = true;
		return;
	}
	probe.line_used += (size_t)got;
	probe.line[probe.line_used] = '\0';
	while ((end = strchr(probe.line, '\n')) != NULL) {
		*end = '\0';
		run_command(probe.line);
		probe.line_used -= (size_t)(end + 1 - probe.line);
		memmove(probe.line, end + 1, probe.line_used + 1);
	}
}

static void
wanted_digest(const char *value, enum iscsi_digest *out)
{
	if (!iscsi_digest_parse(value, out)) {
		fprintf(stderr, "\"%s\" is none of none, preferred and required\n", value);
		exit(2);
	}
}

static const uint8_t volume_uuid[16] = { 1 };

static void
note_preempted(void *owner, const struct member_address *member,
	       const struct scsi_preempted *preempted)
{
	(void)owner;
	if (preempted_record(volume_uuid, member, preempted) != 0)
		abort();
}

/* As the volume's driver does it. */
static void
keep_preempted(struct backend_iscsi_options *options, const char *folder)
{
	setenv("IRAID_STATE_DIR", folder, 1);
	if (preempted_recall(volume_uuid, &options->address, &options->preempted) != 0)
		abort();
	options->note_preempted = note_preempted;
}

static void
set_option(struct backend_iscsi_options *options, const char *argument)
{
	const char *value = strchr(argument, '=');
	struct fault fault;

	if (value == NULL) {
		fprintf(stderr, "what is %s?\n", argument);
		exit(2);
	}
	value++;
	if (strncmp(argument, "deadline_ms=", 12) == 0)
		options->deadline_ms = (uint32_t)strtoul(value, NULL, 0);
	else if (strncmp(argument, "connect_ms=", 11) == 0)
		options->connect_ms = (uint32_t)strtoul(value, NULL, 0);
	else if (strncmp(argument, "key=", 4) == 0)
		options->reservation_key = strtoull(value, NULL, 16);
	else if (strncmp(argument, "isid=", 5) == 0)
		options->isid_qualifier[5] = (uint8_t)atoi(value);
	else if (strncmp(argument, "take_over_ms=", 13) == 0)
		options->take_over_ms = (uint32_t)strtoul(value, NULL, 0);
	else if (strncmp(argument, "state=", 6) == 0)
		keep_preempted(options, value);
	else if (strncmp(argument, "initiator=", 10) == 0)
		snprintf(options->credentials.initiator, sizeof(options->credentials.initiator),
			 "%s", value);
	else if (strncmp(argument, "header_digest=", 14) == 0)
		wanted_digest(value, &options->digests.header);
	else if (strncmp(argument, "data_digest=", 12) == 0)
		wanted_digest(value, &options->digests.data);
	else if (strncmp(argument, "redirects=", 10) == 0 &&
		 redirects_parse(value, &options->credentials.redirects))
		return;
	else if (strncmp(argument, "portal=", 7) == 0 &&
		 options->more_portals_count < DEVICE_PORTALS_MAX - 1)
		snprintf(options->more_portals[options->more_portals_count++], PORTAL_MAX, "%s",
			 value);
	else if (strncmp(argument, "secrets=", 8) == 0 &&
		 iscsi_credentials_read(value, &options->credentials, &fault) != 0) {
		fprintf(stderr, "%s: %s\n", value, fault.message);
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	static const struct backend_events events = { .opened = on_opened, .closed = on_closed };
	struct backend_iscsi_options options = {
		.credentials.initiator = "iqn.2026-01.org.iraid.test:probe",
		.isid_qualifier = { 0x80, 1, 2, 3, 4, 5 },
		.deadline_ms = 2000,
		.connect_ms = 5000,
	};
	struct fault fault;
	uint64_t wake = 0;

	if (argc < 2 || member_address_parse(argv[1], &options.address, &fault) != 0) {
		fprintf(stderr, "%s: %s\n", argc < 2 ? "no member" : argv[1],
			argc < 2 ? "usage" : fault.message);
		return 2;
	}
	for (int i = 2; i < argc; i++)
		set_option(&options, argv[i]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	probe.reactor = reactor_create();
	probe.backend = backend_iscsi_create(probe.reactor, &options);
	probe.backend->events = &events;
	reactor_watch(probe.reactor, STDIN_FILENO, EPOLLIN, on_input, NULL);
	while (!probe.quit) {
		reactor_turn(probe.reactor, wake);
		wake = backend_iscsi_tick(probe.backend, monotonic_ms());
		if (probe.bench && monotonic_ms() >= probe.bench_end_ms)
			bench_over();
		if (probe.bench && probe.bench_end_ms < wake)
			wake = probe.bench_end_ms;
		backend_iscsi_send(probe.backend);
	}
	probe.loading = false;
	probe.backend->ops->close(probe.backend);
	for (int turns = 0; turns < 3; turns++) { /* its events */
		reactor_turn(probe.reactor, 0);
		backend_iscsi_tick(probe.backend, monotonic_ms());
	}
	backend_iscsi_destroy(probe.backend);
	reactor_destroy(probe.reactor);
	for (int i = 0; i < IOS_MAX; i++) {
		free(probe.ios[i].buffer);
		free(probe.ios[i].iov);
	}
	return 0;
}
