/* A member's whole life (backend/) with a target that lies: from the connection through log-in,
 * inspection, reservation and fence to I/O, and back.
 *
 * Input: what the target offers, what we want, then steps: an answer, something unasked, time that
 * passes, an act of ours.  Checked: what ports/backend.h promises.  Each io ends once and in time,
 * also where the target drips; nobody touches its memory then; a read that is good has nothing but
 * what came; an open() leads to one opened() or closed(), in time.
 */
#include "../../fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters/backend/backend.h"
#include "adapters/base/log.h"
#include "hostile_target.h"

#define INPUT_BYTES 512u /* what a longer one has behind it is left out */
#define IOS 10
#define MEMORY_BYTES 24576u
#define DEADLINE_MS 5000u
#define CONNECT_MS 20000u
#define KEY 0x1122334455667788ull
#define TICKS_MAX 64 /* in a row, each of which wants another at once */
#define LIVES_MAX 6

struct fuzz_io {
	struct backend_io io; /* first */
	struct iovec iov[2];
	uint8_t *memory;
	uint32_t length;
	bool busy, ours; /* ours: nobody may touch memory */
	uint64_t since_ms;
};

enum life { CLOSED, OPENING, OPEN, LEAVING };

static struct {
	struct reactor *reactor;
	struct backend *backend;
	struct backend_identity identity;
	struct fuzz_io ios[IOS];
	enum life life;
	uint64_t since_ms; /* in this life */
	int lives;
	bool neglected;
} fuzz;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
struct resolution;
struct resolution *
__wrap_resolver_start(struct reactor *reactor, const char *portal, void *fn, void *owner);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){ (time_t)(hostile.now_ms / 1000),
				  (long)(hostile.now_ms % 1000) * 1000000 };
	return 0;
}

/* Names are not looked up. */
struct resolution *
__wrap_resolver_start(struct reactor *reactor, const char *portal, void *fn, void *owner)
{
	return NULL;
}

/* --- ios --- */

static void
take_memory_back(struct fuzz_io *fio)
{
	memset(fio->memory, HOSTILE_POISON, fio->length);
	fio->ours = true;
}

static void
on_done(struct backend_io *io)
{
	struct fuzz_io *fio = (struct fuzz_io *)io;

	fuzz_require(fio->busy, "an io ended twice");
	fio->busy = false;
	fuzz_require(io->result <= 0, "a result that is none");
	if (io->op == BACKEND_READ && io->result == 0 && !fio->ours && !hostile.garbled)
		fuzz_require(memchr(fio->memory, HOSTILE_POISON, fio->length) == NULL,
			     "a read is good, though not all of it came");
	if (io->op == BACKEND_MEASURE && io->result == 0)
		fuzz.identity.capacity_bytes = io->capacity_bytes;
	if (fio->memory != NULL && !fio->ours)
		take_memory_back(fio);
}

static void
submit(struct fuzz_io *fio, uint8_t what)
{
	static const enum backend_op ops[] = { BACKEND_READ,  BACKEND_READ,   BACKEND_WRITE,
					       BACKEND_WRITE, BACKEND_FLUSH,  BACKEND_ZERO,
					       BACKEND_ZERO,  BACKEND_MEASURE };
	const uint32_t block = fuzz.identity.block_bytes;
	uint8_t size = hostile_next(), place = hostile_next();
	uint64_t blocks;

	if (fio->busy || fuzz.life != OPEN)
		return;
	free(fio->memory);
	fio->length = block * (1 + size % (MEMORY_BYTES / block));
	fio->memory = malloc(fio->length); /* ASan sees its end */
	fuzz_require(fio->memory != NULL, "no memory");
	memset(fio->memory, ops[what % 8] == BACKEND_WRITE ? 0x22 : HOSTILE_POISON, fio->length);
	blocks = fuzz.identity.capacity_bytes / block;
	fio->iov[0] = (struct iovec){ fio->memory, fio->length / 3 };
	fio->iov[1] =
		(struct iovec){ fio->memory + fio->length / 3, fio->length - fio->length / 3 };
	fio->io = (struct backend_io){
		.op = ops[what % 8],
		.fua = place & 1,
		.deallocate = place & 2,
		.offset_bytes = place > 250 ? fuzz.identity.capacity_bytes - block
					    : blocks * place / 256 * block,
		.length_bytes = fio->length,
		.iov = fio->iov,
		.iov_count = 2,
		.done = on_done,
	};
	if (fio->io.op == BACKEND_FLUSH || fio->io.op == BACKEND_MEASURE)
		fio->io.offset_bytes = fio->io.length_bytes = 0;
	if (fio->io.op == BACKEND_ZERO && place & 4)
		fio->io.length_bytes *= 16;
	fio->busy = true;
	fio->ours = fio->io.op != BACKEND_READ && fio->io.op != BACKEND_WRITE;
	fio->since_ms = hostile.now_ms;
	fuzz.backend->ops->submit(fuzz.backend, &fio->io);
}

static void
divert(struct fuzz_io *fio)
{
	if (!fio->busy || fio->io.op != BACKEND_READ || fio->ours)
		return;
	fuzz.backend->ops->divert(fuzz.backend, &fio->io);
	take_memory_back(fio);
}

/* --- sessions --- */

static void
enter(enum life life)
{
	fuzz.life = life;
	fuzz.since_ms = hostile.now_ms;
}

static void
on_opened(void *owner, const struct backend_identity *identity)
{
	fuzz_require(fuzz.life == OPENING, "opened, and nobody had asked");
	fuzz_require(identity->block_bytes == 512 || identity->block_bytes == 4096,
		     "opened with blocks that can't be used");
	fuzz_require(identity->capacity_bytes % identity->block_bytes == 0, "half a block");
	fuzz.identity = *identity;
	enter(OPEN);
}

static void
on_closed(void *owner, int error, const char *reason)
{
	fuzz_require(fuzz.life != CLOSED, "closed twice");
	fuzz_require(error < 0 && reason[0] != '\0', "closed without a reason");
	for (int i = 0; i < IOS; i++)
		fuzz_require(!fuzz.ios[i].busy, "closed before its ios ended");
	enter(CLOSED);
}

static const struct backend_events events = { .opened = on_opened, .closed = on_closed };

static void
open_session(void)
{
	if (fuzz.life != CLOSED || fuzz.lives == LIVES_MAX)
		return;
	fuzz.lives++;
	enter(OPENING);
	fuzz.backend->ops->open(fuzz.backend);
}

static void
close_session(bool orderly)
{
	if (fuzz.life != OPEN && fuzz.life != OPENING)
		return;
	enter(LEAVING);
	if (orderly)
		fuzz.backend->ops->release(fuzz.backend);
	else
		fuzz.backend->ops->close(fuzz.backend);
}

/* --- checks --- */

static void
check_times(void)
{
	uint64_t in_life_ms = hostile.now_ms - fuzz.since_ms;

	fuzz_require(fuzz.life != OPENING || in_life_ms <= CONNECT_MS + BACKEND_RELEASE_MS,
		     "an open() does not end");
	fuzz_require(fuzz.life != LEAVING || in_life_ms <= BACKEND_RELEASE_MS,
		     "a release() does not end");
	for (int i = 0; i < IOS; i++)
		fuzz_require(!fuzz.ios[i].busy || hostile.now_ms - fuzz.ios[i].since_ms <=
							  BACKEND_IO_DEADLINES * DEADLINE_MS +
								  BACKEND_IO_SLACK_MS,
			     "an io does not end");
}

static void
check_memory(void)
{
	for (int i = 0; i < IOS; i++) {
		const struct fuzz_io *fio = &fuzz.ios[i];

		for (uint32_t at = 0; fio->ours && fio->memory != NULL && at < fio->length;
		     at += 512)
			fuzz_require(fio->memory[at] == HOSTILE_POISON,
				     "memory was touched that was taken back");
	}
}

/* All that it wants to do now.  When it wants to be called again. */
static uint64_t
run(void)
{
	uint64_t wake;
	int ticks = 0;

	do {
		reactor_turn(fuzz.reactor, 0);
		wake = backend_iscsi_tick(fuzz.backend, hostile.now_ms);
		backend_iscsi_send(fuzz.backend);
		fuzz_require(++ticks < TICKS_MAX, "it spins");
	} while (wake <= hostile.now_ms);
	hostile_listen();
	check_memory();
	return wake;
}

/* As a driver does it: called when it wanted to be. */
static void
pass(uint64_t ms)
{
	uint64_t until = hostile.now_ms + ms, wake = run();

	while (hostile.now_ms < until) {
		hostile.now_ms = wake < until ? wake : until;
		wake = run();
		check_times();
	}
}

/* The target answers what is new, and forgets what waits. */
static void
neglect(void)
{
	const uint64_t until = hostile.now_ms + BACKEND_IO_DEADLINES * DEADLINE_MS + 2000;

	if (fuzz.neglected)
		return;
	fuzz.neglected = true;
	while (fuzz.life == OPEN && hostile.now_ms < until) {
		submit(&fuzz.ios[0], 0);
		run();
		while (fuzz.ios[0].busy && hostile_answer_newest()) {
			hostile_send(true);
			run();
		}
		pass(DEADLINE_MS / 2);
	}
}

/* --- the input --- */

static void
step(void)
{
	static const uint16_t pauses[] = { 1, 20, 100, 200, 700, 2000, 4900, 6000 };
	uint8_t what = hostile_next();

	if (what < 144) {
		hostile_answer(false);
		hostile_send(what < 128);
	} else if (what < 200) {
		submit(&fuzz.ios[hostile_next() % IOS], what);
	} else if (what < 212) {
		hostile_speak();
		hostile_send(true);
	} else if (what == 212) {
		neglect();
	} else if (what < 228) {
		pass(pauses[what % 8]);
	} else if (what < 236) {
		divert(&fuzz.ios[hostile_next() % IOS]);
	} else if (what < 244) {
		hostile_send(false);
	} else if (what < 248) {
		hostile_hang_up();
	} else if (what < 252) {
		close_session(what & 1);
	} else {
		open_session();
	}
}

/* An honest target as far as there; else inputs would have to find the way anew each. */
static void
go_ahead(void)
{
	run();
	for (int answers = 0; fuzz.life == OPENING && answers < 64 && hostile_answer(true);
	     answers++) {
		hostile_send(true);
		run();
	}
}

static void
start(void)
{
	struct backend_iscsi_options options = {
		.address = { "127.0.0.1:3260", "iqn.2026-01.org.example:t", 0 },
		.more_portals = { "[::1]:3260" },
		.deadline_ms = DEADLINE_MS,
		.connect_ms = CONNECT_MS,
	};
	uint8_t wanted = hostile_next();

	hostile_credentials(&options.credentials, wanted & 1);
	options.reservation_key = wanted & 2 ? KEY : 0;
	options.digests.header = wanted & 4 ? ISCSI_DIGEST_PREFERRED : ISCSI_DIGEST_NONE;
	options.digests.data = wanted & 64 ? ISCSI_DIGEST_PREFERRED : ISCSI_DIGEST_NONE;
	options.more_portals_count = wanted & 8 ? 1 : 0;
	options.take_over_ms = wanted & 16 ? 10000 : 0;
	hostile.holder_key = wanted & 32 ? 77 : 0;
	fuzz.backend = backend_iscsi_create(fuzz.reactor, &options);
	fuzz_require(fuzz.backend != NULL, "no memory");
	fuzz.backend->events = &events;
	fuzz.lives = 0;
	fuzz.neglected = false;
	fuzz.life = CLOSED;
	open_session();
	if (wanted & 192)
		go_ahead();
}

static void
end(void)
{
	close_session(false);
	run();
	fuzz_require(fuzz.life == CLOSED, "not closed");
	for (int i = 0; i < IOS; i++) {
		fuzz_require(!fuzz.ios[i].busy, "an io never ended");
		free(fuzz.ios[i].memory);
		fuzz.ios[i] = (struct fuzz_io){ .memory = NULL };
	}
	backend_iscsi_destroy(fuzz.backend);
	reactor_turn(fuzz.reactor, 0); /* its last message */
	hostile_end();
}

static void
no_log(int level, const char *text)
{
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (fuzz.reactor == NULL) {
		log_set_sink(no_log);
		fuzz.reactor = reactor_create();
	}
	fuzz_require(fuzz.reactor != NULL, "no reactor");
	hostile_start(data, size < INPUT_BYTES ? size : INPUT_BYTES);
	reactor_turn(fuzz.reactor, 0); /* it is another time now */
	start();
	while (hostile_has_input()) {
		step();
		run();
		check_times();
		fuzz_steps++;
	}
	if (fuzz.life == OPEN || fuzz.life == LEAVING)
		pass(2 * DEADLINE_MS);
	end();
	return 0;
}

size_t
fuzz_make(uint8_t *input)
{
	for (size_t i = 0; i < INPUT_BYTES; i += 8) {
		uint64_t word = fuzz_random();

		memcpy(input + i, &word, 8);
	}
	return INPUT_BYTES;
}
