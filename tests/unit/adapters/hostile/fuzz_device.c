/* What commands of an administrator ask of a target that lies (device/): discovery, LUNs, a look at a
 * LUN and its superblocks, a member's format, a reservation of ours.
 *
 * Input: what the target offers, what is asked, then what it does at each wait: an answer, something
 * unasked, silence, a closed connection.  Checked: each call ends within its bounds; a failure has a
 * reason that is text, whatever the target said; what is found fits what it is stored in.
 */
#include "../../fuzz.h"

#include <ctype.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters/base/log.h"
#include "adapters/base/reactor.h"
#include "adapters/base/resolver.h"
#include "adapters/device/device.h"
#include "adapters/device/look.h"
#include "adapters/device/member_format.h"
#include "hostile_lun.h"
#include "hostile_target.h"

#define INPUT_BYTES 512u
#define TIMEOUT_MS 3000u
#define LOGOUT_MS 500u
#define SLACK_MS 50u /* of waits that are not cut at a limit */
#define WAITS_MAX 20000
#define LUNS_MAX 16

static int waits; /* of one input */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
void __wrap_resolver_wait(const char *portal, uint32_t timeout_ms, struct resolved *out);
bool __wrap_look_at_copy(int copy, uint32_t block_bytes, char *out, size_t out_size,
			 struct fault *fault);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){ (time_t)(hostile.now_ms / 1000),
				  (long)(hostile.now_ms % 1000) * 1000000 };
	return 0;
}

int
__wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
	hostile.now_ms += (uint64_t)pause->tv_sec * 1000 + (uint64_t)pause->tv_nsec / 1000000;
	return 0;
}

void
__wrap_resolver_wait(const char *portal, uint32_t timeout_ms, struct resolved *out)
{
	if (!resolver_numeric(portal, out))
		fault_errno(&out->fault, -2, "names are not looked up");
}

bool
__wrap_look_at_copy(int copy, uint32_t block_bytes, char *out, size_t out_size, struct fault *fault)
{
	out[0] = '\0';
	return true;
}

/* --- the target, while we wait --- */

static void
turn(void)
{
	uint8_t what = hostile_next();

	hostile.now_ms += 1;
	if (what < 220)
		hostile_answer(false);
	else if (what < 236)
		hostile_speak();
	else if (what < 250)
		hostile.now_ms += what;
	else
		hostile_hang_up();
	hostile_send(what < 200);
	fuzz_steps++;
}

int
__wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const uint64_t end_ms = hostile.now_ms + (uint64_t)timeout;
	int ready = __real_poll(fds, count, 0);

	fuzz_require(count == 1 && timeout >= 0, "a wait of another kind");
	while (ready == 0 && hostile.now_ms < end_ms) {
		fuzz_require(++waits < WAITS_MAX, "it waits for ever");
		hostile_listen();
		if (hostile.question_count == 0 && hostile.out_end == 0 && !hostile_has_input())
			hostile.now_ms = end_ms; /* nothing more will come */
		else
			turn();
		ready = __real_poll(fds, count, 0);
	}
	return ready;
}

/* --- what is asked of it --- */

static struct iscsi_credentials credentials;
static const struct member_address address = { "127.0.0.1:3260", "iqn.2026-01.org.example:t", 0 };
static struct admin_bounds bounds = { .timeout_ms = TIMEOUT_MS };

static void
check_text(const char *text)
{
	for (; *text != '\0'; text++)
		fuzz_require(isprint((unsigned char)*text), "a byte of the target's in a message");
}

/* calls: how many of them had their own time. */
static void
check_call(bool good, int calls, uint64_t since_ms, const struct fault *fault)
{
	fuzz_require(hostile.now_ms - since_ms <=
			     (uint64_t)calls * (TIMEOUT_MS + SLACK_MS) + LOGOUT_MS + SLACK_MS,
		     "a call takes longer than it may");
	if (good)
		return;
	fuzz_require(fault->code != 0 && fault->message[0] != '\0', "failed without a reason");
	check_text(fault->message);
	check_text(fault->remedy);
}

static void
discover(struct fault *fault)
{
	const uint64_t since_ms = hostile.now_ms;
	struct admin_target *targets;
	int count;
	bool good = admin_discover(address.portal, &credentials, &bounds, &targets, &count, fault);

	check_call(good, 1, since_ms, fault);
	for (int i = 0; good && i < count; i++)
		fuzz_require(memchr(targets[i].iqn, '\0', sizeof(targets[i].iqn)) != NULL &&
				     targets[i].portal_count <= 8 &&
				     targets[i].near < targets[i].portal_count,
			     "a target that does not fit");
	free(targets);
}

static void
list_luns(struct fault *fault)
{
	const uint64_t since_ms = hostile.now_ms;
	unsigned int luns[LUNS_MAX];
	int count;
	bool good = admin_luns(&address, &credentials, &bounds, luns, LUNS_MAX, &count, fault);

	check_call(good, 1, since_ms, fault);
	fuzz_require(count >= 0 && count <= LUNS_MAX, "more LUNs than there is room for");
}

static void
read_superblocks(struct admin_session *session, struct fault *fault)
{
	const uint64_t since_ms = hostile.now_ms;
	struct superblock_copies copies;
	bool good = member_read_superblock(session, &copies, fault);

	check_call(good, 2, since_ms, fault);
	if (good && copies.chosen == SUPERBLOCK_OK)
		fuzz_require(copies.verdict[0] == SUPERBLOCK_OK ||
				     copies.verdict[1] == SUPERBLOCK_OK,
			     "chosen of two that are no superblocks");
}

/* A write, its proof, what was there before put back: each is a read or a write, and a flush. */
static void
probe(struct admin_session *session, const struct scsi_device *device, struct fault *fault)
{
	const uint64_t since_ms = hostile.now_ms;
	struct member_work member = { .label = "member", .session = session, .device = *device };
	bool good;

	memcpy(member.copies.bytes, lun_places, sizeof(member.copies.bytes));
	good = members_probe(&member, 1, fault);
	check_call(good, 3, since_ms, fault);
	members_unprobe(&member, 1);
}

static void
look(struct admin_session *session, struct fault *fault)
{
	char text[LOOK_TEXT_MAX];
	const uint64_t since_ms = hostile.now_ms;

	check_call(admin_signature(session, text, sizeof(text), fault), 2, since_ms, fault);
}

static void
use(uint8_t what, struct fault *fault)
{
	uint64_t since_ms = hostile.now_ms;
	struct admin_session *session = NULL;
	struct scsi_device device;
	bool good = admin_open(&address, &credentials, &bounds, &session, &device, fault);

	check_call(good, 1, since_ms, fault);
	fuzz_require(good == (session != NULL), "a session of a failure");
	if (!good)
		return;
	check_text(device.serial);
	check_text(device.vendor);
	check_text(device.product);
	since_ms = hostile.now_ms;
	if (what % 4 == 0)
		read_superblocks(session, fault);
	else if (what % 4 == 1)
		check_call(admin_clear_own(session, 77, fault), 1, since_ms, fault);
	else if (what % 4 == 2)
		probe(session, &device, fault);
	else
		look(session, fault);
	admin_close(session);
}

static void
set_places(void)
{
	struct superblock superblock = {
		.name = "fuzz",
		.level = 5,
		.member_count = 4,
		.chunk_bytes = 65536,
		.block_bytes = 512,
		.member_bytes = 64u << 20,
		.member_uuid = { 1 },
	};

	for (int i = 0; i < superblock.member_count; i++) {
		superblock.member_uuids[i][0] = (uint8_t)(i + 1);
		superblock.member_states[i] = MEMBER_IN_SYNC;
	}
	layout_compute(superblock.member_bytes, superblock.chunk_bytes, superblock.areas,
		       &superblock.data_bytes, &superblock.region_rows);
	for (int i = 0; i < LUN_PLACES; i++) {
		superblock.write_count = (uint64_t)i + 1;
		superblock_encode(&superblock, lun_places[i]);
	}
}

static void
no_log(int level, const char *text)
{
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fault fault = FAULT_NONE;
	uint8_t what;

	log_set_sink(no_log);
	set_places();
	hostile_start(data, size < INPUT_BYTES ? size : INPUT_BYTES);
	waits = 0;
	what = hostile_next();
	hostile_credentials(&credentials, what & 1);
	bounds.one_host = what & 2;
	hostile.holder_key = what & 4 ? 77 : 0;
	if (what & 8) /* small enough for its ends to be copied quickly */
		hostile.blocks = 256;
	if (what < 64)
		discover(&fault);
	else if (what < 80)
		list_luns(&fault);
	else
		use(what >> 4, &fault);
	hostile_end();
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
