/* caw_race - a counter in one block, kept by COMPARE AND WRITE from several sessions at once.
 *
 *     caw_race [--lba N] [--depth 32] [--seconds 60] [--stall-max 40] [--until-told] [--plain-writes] INITIATOR:URL...
 *
 * Each URL is one session, each session has `depth` workers, and each worker has one command out:
 *
 *     READ --> CAW(what was read, the same with one more) --GOOD--> counted, READ again
 *      ^          |
 *      '----------' MISCOMPARE: another worker was first (BUSY, unit attention: the same again)
 *
 * The block holds the counter, one count for each worker, and words that follow from the counter,
 * so that a torn block shows.  What must hold, and is checked at every read and at the end:
 *   - the counter is the sum of the workers' counts: no increment was lost, none was made twice;
 *   - a worker's own count is what it was told GOOD for;
 *   - the counter never goes back: it is at least what any command that had ended before this one began has shown.
 * It does not log in again: a lost session is a failure, as the gateway has no reason to drop one,
 * and so is a command of which it isn't known whether it counted.
 *
 * --until-told: it ends earlier, when a line comes on standard input, or its end.
 *
 * --plain-writes sends WRITE instead of COMPARE AND WRITE, which does lose increments: to see that
 * it is noticed.
 *
 * While it runs it prints "SECONDS INCREMENTS" four times a second; the longest time without an
 * increment at the end.  Exit status: 0 all held, 1 a check failed, 2 no COMPARE AND WRITE there, 3
 * anything else.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define SESSIONS_MAX 4
#define DEPTH_MAX 32
#define WORKERS_MAX 120
#define BLOCK_BYTES_MAX 4096
#define MAGIC UINT64_C(0x6361775f72616365)
#define TELL_MS 250

enum exit_status { EXIT_HELD = 0, EXIT_WRONG = 1, EXIT_UNSUPPORTED = 2, EXIT_TROUBLE = 3 };

/* On the LUN, in the byte order of this machine: nobody else reads it. */
struct counter_block {
	uint64_t magic;
	uint64_t total;
	uint16_t counts[WORKERS_MAX]; /* modulo 65536: 512 bytes hold no more */
	uint8_t pattern[];	      /* follows from the total */
};

enum step { STEP_READ, STEP_SWAP };

struct session;

struct worker {
	struct session *session;
	unsigned int number;
	enum step step;		/* what to send next, or what is out */
	bool waiting;		/* a command is out */
	uint64_t told;		/* increments that were told GOOD */
	uint64_t floor;		/* the counter was at least this when the read was sent */
	struct scsi_task *task; /* answered, not looked at yet */
	uint8_t pair[2 * BLOCK_BYTES_MAX]; /* compare, then write */
};

struct session {
	struct iscsi_context *iscsi;
	int lun;
	const char *url;
	struct worker *workers;
};

static struct {
	uint32_t block_bytes;
	uint64_t lba;
	unsigned int depth;
	unsigned int sessions;
	/* the highest counter any finished read or swap has shown */
	uint64_t seen;
	uint64_t increments, miscompares, repeats;
	bool stopping;
	bool plain_writes;
	bool until_told;
} race = { .depth = DEPTH_MAX };

static struct session sessions[SESSIONS_MAX];

static void
fail(enum exit_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
fail(enum exit_status status, const char *format, ...)
{
	va_list arguments;

	fputs("caw_race: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

static uint64_t
now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* --- the block --- */

static uint8_t
pattern_byte(uint64_t total, size_t index)
{
	uint64_t word =
		(total + 1) * UINT64_C(0x9e3779b97f4a7c15) + index * UINT64_C(0xbf58476d1ce4e5b9);

	return (uint8_t)(word >> 56);
}

static void
block_fill_pattern(uint8_t *bytes)
{
	struct counter_block *block = (void *)bytes;

	for (size_t i = 0; i < race.block_bytes - sizeof(*block); i++)
		block->pattern[i] = pattern_byte(block->total, i);
}

static void
block_check(const uint8_t *bytes, const char *when)
{
	const struct counter_block *block = (const void *)bytes;
	uint16_t sum = 0;

	if (block->magic != MAGIC)
		fail(EXIT_WRONG, "%s: the block is not ours any more: magic %016" PRIx64, when,
		     block->magic);
	for (unsigned int i = 0; i < WORKERS_MAX; i++)
		sum = (uint16_t)(sum + block->counts[i]);
	if (sum != (uint16_t)block->total)
		fail(EXIT_WRONG,
		     "%s: the counter is %" PRIu64
		     ", the workers' counts add up to %u (both modulo 65536: %u): an increment was "
		     "lost or made twice",
		     when, block->total, sum, (uint16_t)block->total);
	for (size_t i = 0; i < race.block_bytes - sizeof(*block); i++)
		if (block->pattern[i] != pattern_byte(block->total, i))
			fail(EXIT_WRONG,
			     "%s: torn block: byte %zu does not belong to counter %" PRIu64, when,
			     sizeof(*block) + i, block->total);
}

/* --- workers: answers only mark the worker, the main loop does the rest, as libiscsi may call back
 * from inside a submit call ---
 */

static void
answered(struct iscsi_context *iscsi, int status, void *command_data, void *private_data)
{
	struct worker *worker = private_data;

	(void)iscsi;
	(void)status; /* the task has it */
	worker->task = command_data;
	worker->waiting = false;
}

static void
worker_send(struct worker *worker)
{
	struct session *session = worker->session;
	struct scsi_task *task;

	worker->waiting = true;
	if (worker->step == STEP_READ) {
		worker->floor = race.seen;
		task = iscsi_read16_task(session->iscsi, session->lun, race.lba, race.block_bytes,
					 (int)race.block_bytes, 0, 0, 0, 0, 0, answered, worker);
	} else if (race.plain_writes) {
		task = iscsi_write16_task(session->iscsi, session->lun, race.lba,
					  worker->pair + race.block_bytes, race.block_bytes,
					  (int)race.block_bytes, 0, 0, 0, 0, 0, answered, worker);
	} else {
		task = iscsi_compareandwrite_task(session->iscsi, session->lun, race.lba,
						  worker->pair, 2 * race.block_bytes,
						  (int)race.block_bytes, 0, 0, 0, 0, 0, answered,
						  worker);
	}
	if (task == NULL)
		fail(EXIT_TROUBLE, "%s: a command can't be sent: %s", session->url,
		     iscsi_get_error(session->iscsi));
}

static void
worker_take_read(struct worker *worker)
{
	uint8_t *compare = worker->pair, *write = worker->pair + race.block_bytes;
	struct counter_block *block = (void *)write;

	if (worker->task->datain.size < (int)race.block_bytes)
		fail(EXIT_WRONG, "a read gave %d bytes instead of %u", worker->task->datain.size,
		     race.block_bytes);
	memcpy(compare, worker->task->datain.data, race.block_bytes);
	block_check(compare, "read");
	memcpy(write, compare, race.block_bytes);
	if (block->total < worker->floor)
		fail(EXIT_WRONG,
		     "the counter went back: %" PRIu64 " was seen, then %" PRIu64 " was read",
		     worker->floor, block->total);
	if (block->counts[worker->number] != (uint16_t)worker->told)
		fail(EXIT_WRONG,
		     "worker %u was told GOOD %" PRIu64
		     " times, the block has counted %u (modulo 65536)",
		     worker->number, worker->told, block->counts[worker->number]);
	if (block->total > race.seen)
		race.seen = block->total;
	block->total++;
	block->counts[worker->number]++;
	block_fill_pattern(write);
	worker->step = STEP_SWAP;
}

static void
worker_take_swapped(struct worker *worker)
{
	const struct counter_block *written = (const void *)(worker->pair + race.block_bytes);

	worker->told++;
	race.increments++;
	if (written->total > race.seen)
		race.seen = written->total;
	worker->step = STEP_READ;
}

/* The same command again: it was not carried out. */
static bool
is_to_repeat(const struct scsi_task *task)
{
	return task->status == SCSI_STATUS_BUSY || task->status == SCSI_STATUS_TASK_SET_FULL ||
	       (task->status == SCSI_STATUS_CHECK_CONDITION &&
		task->sense.key == SCSI_SENSE_UNIT_ATTENTION);
}

static void
worker_take_refused(struct worker *worker)
{
	const struct scsi_task *task = worker->task;
	const char *what = worker->step == STEP_READ ? "READ" : "COMPARE AND WRITE";

	if (is_to_repeat(task)) {
		race.repeats++;
		return;
	}
	if (task->status == SCSI_STATUS_CHECK_CONDITION && worker->step == STEP_SWAP &&
	    task->sense.key == SCSI_SENSE_MISCOMPARE) {
		race.miscompares++;
		worker->step = STEP_READ;
		return;
	}
	if (task->status == SCSI_STATUS_CHECK_CONDITION && worker->step == STEP_SWAP &&
	    race.increments == 0 && task->sense.ascq == SCSI_SENSE_ASCQ_INVALID_OPERATION_CODE)
		fail(EXIT_UNSUPPORTED, "%s refuses COMPARE AND WRITE", worker->session->url);
	if (task->status == SCSI_STATUS_CHECK_CONDITION)
		fail(EXIT_WRONG, "%s failed: sense key %d, ASC/ASCQ %04x", what, task->sense.key,
		     task->sense.ascq);
	fail(EXIT_WRONG, "%s on %s ended with status 0x%x (%s): whether it counted is not known",
	     what, worker->session->url, task->status, iscsi_get_error(worker->session->iscsi));
}

static void
worker_go_on(struct worker *worker)
{
	if (worker->waiting)
		return;
	if (worker->task != NULL) {
		if (worker->task->status != SCSI_STATUS_GOOD)
			worker_take_refused(worker);
		else if (worker->step == STEP_READ)
			worker_take_read(worker);
		else
			worker_take_swapped(worker);
		scsi_free_scsi_task(worker->task);
		worker->task = NULL;
	}
	if (!race.stopping)
		worker_send(worker);
}

/* --- sessions --- */

static void
session_open(struct session *session, char *word)
{
	char *colon = strstr(word, ":iscsi://");
	struct iscsi_url *url;

	if (colon == NULL)
		fail(EXIT_TROUBLE,
		     "'%s' is not INITIATOR:URL; write for example "
		     "iqn.2026-01.org.example:a:iscsi://127.0.0.1:3260/iqn.2026-01.org.example:v0/0",
		     word);
	*colon = '\0';
	session->url = colon + 1;
	session->iscsi = iscsi_create_context(word);
	if (session->iscsi == NULL)
		fail(EXIT_TROUBLE, "out of memory");
	iscsi_set_noautoreconnect(session->iscsi, 1);
	url = iscsi_parse_full_url(session->iscsi, session->url);
	if (url == NULL)
		fail(EXIT_TROUBLE, "'%s': %s", session->url, iscsi_get_error(session->iscsi));
	iscsi_set_targetname(session->iscsi, url->target);
	iscsi_set_session_type(session->iscsi, ISCSI_SESSION_NORMAL);
	iscsi_set_header_digest(session->iscsi, ISCSI_HEADER_DIGEST_NONE);
	session->lun = url->lun;
	if (iscsi_full_connect_sync(session->iscsi, url->portal, url->lun) != 0)
		fail(EXIT_TROUBLE, "login to %s: %s", session->url,
		     iscsi_get_error(session->iscsi));
	iscsi_destroy_url(url);
}

static void
find_block_size(struct session *session)
{
	struct scsi_task *task = iscsi_readcapacity16_sync(session->iscsi, session->lun);
	struct scsi_readcapacity16 *capacity;

	if (task == NULL || task->status != SCSI_STATUS_GOOD)
		fail(EXIT_TROUBLE, "READ CAPACITY of %s: %s", session->url,
		     iscsi_get_error(session->iscsi));
	capacity = scsi_datain_unmarshall(task);
	if (capacity == NULL || capacity->block_length < sizeof(struct counter_block) ||
	    capacity->block_length > BLOCK_BYTES_MAX || race.lba > capacity->returned_lba)
		fail(EXIT_TROUBLE,
		     "%s: its blocks are no 512 to %d bytes, or it has no block %" PRIu64,
		     session->url, BLOCK_BYTES_MAX, race.lba);
	race.block_bytes = capacity->block_length;
	scsi_free_scsi_task(task);
}

static void
write_first(struct session *session)
{
	uint8_t bytes[BLOCK_BYTES_MAX] = { 0 };
	struct counter_block *block = (void *)bytes;
	struct scsi_task *task;

	block->magic = MAGIC;
	block_fill_pattern(bytes);
	task = iscsi_write16_sync(session->iscsi, session->lun, race.lba, bytes, race.block_bytes,
				  (int)race.block_bytes, 0, 0, 0, 0, 0);
	if (task == NULL || task->status != SCSI_STATUS_GOOD)
		fail(EXIT_TROUBLE, "the first write on %s: %s", session->url,
		     iscsi_get_error(session->iscsi));
	scsi_free_scsi_task(task);
}

static uint64_t
read_last(struct session *session)
{
	struct scsi_task *task =
		iscsi_read16_sync(session->iscsi, session->lun, race.lba, race.block_bytes,
				  (int)race.block_bytes, 0, 0, 0, 0, 0);
	const struct counter_block *block;
	uint64_t total;

	if (task == NULL || task->status != SCSI_STATUS_GOOD ||
	    task->datain.size < (int)race.block_bytes)
		fail(EXIT_WRONG, "the last read on %s: %s", session->url,
		     iscsi_get_error(session->iscsi));
	block = (const void *)task->datain.data;
	block_check(task->datain.data, "at the end");
	for (unsigned int s = 0; s < race.sessions; s++)
		for (unsigned int i = 0; i < race.depth; i++) {
			const struct worker *worker = &sessions[s].workers[i];

			if (block->counts[worker->number] != (uint16_t)worker->told)
				fail(EXIT_WRONG,
				     "at the end: worker %u was told GOOD %" PRIu64
				     " times, the block has counted %u (modulo 65536)",
				     worker->number, worker->told, block->counts[worker->number]);
		}
	total = block->total;
	scsi_free_scsi_task(task);
	return total;
}

/* --- the race --- */

static unsigned int
count_waiting(void)
{
	unsigned int waiting = 0;

	for (unsigned int s = 0; s < race.sessions; s++)
		for (unsigned int i = 0; i < race.depth; i++)
			waiting += sessions[s].workers[i].waiting;
	return waiting;
}

static void
service_all(void)
{
	struct pollfd fds[SESSIONS_MAX];

	for (unsigned int s = 0; s < race.sessions; s++)
		fds[s] = (struct pollfd){ .fd = iscsi_get_fd(sessions[s].iscsi),
					  .events = (short)iscsi_which_events(sessions[s].iscsi) };
	if (poll(fds, race.sessions, TELL_MS) < 0 && errno != EINTR)
		fail(EXIT_TROUBLE, "poll: %s", strerror(errno));
	for (unsigned int s = 0; s < race.sessions; s++)
		if (iscsi_service(sessions[s].iscsi, fds[s].revents) != 0)
			fail(EXIT_WRONG, "session %s was lost: %s", sessions[s].url,
			     iscsi_get_error(sessions[s].iscsi));
}

static void
go_on_all(void)
{
	for (unsigned int s = 0; s < race.sessions; s++)
		for (unsigned int i = 0; i < race.depth; i++)
			worker_go_on(&sessions[s].workers[i]);
}

static bool
told_to_end(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return race.until_told && poll(&input, 1, 0) > 0;
}

/* Returns the longest time without an increment. */
static uint64_t
run_race(uint64_t length_ms, uint64_t stall_ms_max)
{
	uint64_t begin = now_ms(), last = begin, told = begin, longest = 0, before = 0;

	go_on_all();
	while (!race.stopping || count_waiting() > 0) {
		uint64_t now;

		service_all();
		go_on_all();
		now = now_ms();
		if (race.increments != before || race.stopping) {
			before = race.increments;
			longest = now - last > longest ? now - last : longest;
			last = race.stopping ? last : now;
		}
		if (now - last > stall_ms_max)
			fail(EXIT_WRONG, "no increment for %" PRIu64 " ms, %u commands are out",
			     now - last, count_waiting());
		if (now - told >= TELL_MS) {
			printf("%.2f %" PRIu64 "\n", (double)(now - begin) / 1000, race.increments);
			fflush(stdout);
			told = now;
		}
		race.stopping = race.stopping || now - begin >= length_ms || told_to_end();
	}
	return longest;
}

static uint64_t
number(const char *option, const char *text, uint64_t max)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value > max)
		fail(EXIT_TROUBLE, "%s %s is no number from 0 to %" PRIu64, option, text, max);
	return value;
}

static void
make_workers(struct session *session, unsigned int first)
{
	session->workers = calloc(race.depth, sizeof(*session->workers));
	if (session->workers == NULL)
		fail(EXIT_TROUBLE, "out of memory");
	for (unsigned int i = 0; i < race.depth; i++) {
		session->workers[i].session = session;
		session->workers[i].number = first + i;
	}
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "lba", required_argument, NULL, 'l' },
		{ "depth", required_argument, NULL, 'd' },
		{ "seconds", required_argument, NULL, 's' },
		{ "stall-max", required_argument, NULL, 'm' },
		{ "plain-writes", no_argument, NULL, 'p' },
		{ "until-told", no_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t length_ms = 60000, stall_ms_max = 40000, longest, total;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'l')
			race.lba = number("--lba", optarg, UINT64_MAX);
		else if (option == 'd')
			race.depth = (unsigned int)number("--depth", optarg, DEPTH_MAX);
		else if (option == 's')
			length_ms = 1000 * number("--seconds", optarg, 86400);
		else if (option == 'm')
			stall_ms_max = 1000 * number("--stall-max", optarg, 86400);
		else if (option == 'p')
			race.plain_writes = true;
		else if (option == 'u')
			race.until_told = true;
		else
			return EXIT_TROUBLE;
	}
	race.sessions = (unsigned int)(argc - optind);
	if (race.sessions < 1 || race.sessions > SESSIONS_MAX || race.depth < 1 ||
	    race.sessions * race.depth > WORKERS_MAX)
		fail(EXIT_TROUBLE,
		     "give 1 to %d INITIATOR:URL and a --depth from 1; together at most %d workers",
		     SESSIONS_MAX, WORKERS_MAX);
	for (unsigned int s = 0; s < race.sessions; s++) {
		session_open(&sessions[s], argv[optind + (int)s]);
		make_workers(&sessions[s], s * race.depth);
	}
	find_block_size(&sessions[0]);
	write_first(&sessions[0]);
	longest = run_race(length_ms, stall_ms_max);
	total = read_last(&sessions[0]);
	if (total != race.increments)
		fail(EXIT_WRONG,
		     "the counter is %" PRIu64 ", %" PRIu64 " increments were told GOOD", total,
		     race.increments);
	printf("held: counter %" PRIu64 ", %" PRIu64 " miscompares, %" PRIu64
	       " repeats, longest stall %" PRIu64 " ms\n",
	       total, race.miscompares, race.repeats, longest);
	for (unsigned int s = 0; s < race.sessions; s++) {
		iscsi_logout_sync(sessions[s].iscsi);
		iscsi_destroy_context(sessions[s].iscsi);
		free(sessions[s].workers);
	}
	return total > 0 ? EXIT_HELD : EXIT_WRONG;
}
