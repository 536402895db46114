/* Feeds a connection in its full-feature phase what no sane target sends.
 *
 * Input: a byte of options, then steps.  A step is raw bytes, or a PDU whose fields are each what
 * the connection expects just now, or a value near a limit, or anything; or one of our own acts.
 * Checked after each: every task is given back exactly once; nobody writes outside of a read's
 * memory, nor into it once it was given back or diverted; nothing good is said of data that did not
 * come.
 */
#include "../../fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapters/iscsi/connection.h"

#define INPUT_BYTES 1024u
#define TASKS 6
#define MEMORY_BYTES 32768u
#define POISON 0x5a

struct fuzz_task {
	struct iscsi_task task;
	struct scsi_task scsi;
	struct iovec iov[3];
	uint8_t *memory; /* as long as its io */
	uint32_t length;
	bool busy, ours; /* ours: memory was taken back, nobody may touch it */
};

static struct {
	struct iscsi_connection *connection;
	int peer;
	struct iscsi_login login;
	struct fuzz_task tasks[TASKS];
	const uint8_t *input, *end;
	uint8_t out[1 << 20]; /* of the target, not in the socket yet */
	size_t out_start, out_end;
} fuzz;

static uint8_t
next(void)
{
	return fuzz.input < fuzz.end ? *fuzz.input++ : 0;
}

static uint32_t
next_32(void)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 8 | next();
	return value;
}

static void
take_memory_back(struct fuzz_task *task)
{
	memset(task->memory, POISON, task->length);
	task->ours = true;
}

static void
on_done(struct iscsi_task *wire)
{
	struct fuzz_task *task = (struct fuzz_task *)wire;
	const struct scsi_task *scsi = &task->scsi;

	fuzz_require(task->busy, "a task was given back twice");
	task->busy = false;
	if (scsi->status == 0 && scsi->residual_status != SCSI_RESIDUAL_UNDERFLOW)
		fuzz_require(wire->moved_bytes == wire->length_bytes,
			     "good, though data is missing");
	if (scsi->status == 0 && scsi->residual_status == SCSI_RESIDUAL_UNDERFLOW)
		fuzz_require(scsi->residual >= wire->length_bytes - wire->moved_bytes,
			     "more than came is said to be there");
	if (!task->ours)
		take_memory_back(task);
}

static void
submit(struct fuzz_task *task, bool write)
{
	uint32_t length = 512u * (1 + next() % (MEMORY_BYTES / 512));
	uint32_t first = next_32() % length, second = next_32() % (length - first);

	if (task->busy)
		return;
	memset(&task->task, 0, sizeof(task->task));
	free(task->memory);
	task->memory = malloc(length); /* ASan sees its end */
	task->length = length;
	scsi_data_task(&task->scsi, write, false, false, 0, length / 512, length);
	task->iov[0] = (struct iovec){ task->memory, first };
	task->iov[1] = (struct iovec){ task->memory + first, second };
	task->iov[2] = (struct iovec){ task->memory + first + second, length - first - second };
	task->task.scsi = &task->scsi;
	task->task.data.iov = task->iov;
	task->task.done = on_done;
	task->busy = true;
	task->ours = false;
	iscsi_connection_submit(fuzz.connection, &task->task);
}

/* What is right, what is nearly right, or anything. */
static uint32_t
value(uint32_t right)
{
	static const uint32_t limits[] = {
		0,     1,      3,      48,	 511,	     512,	 8192,	     65535,
		65536, 262144, 262145, 0xffffff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
	};
	uint8_t how = next();

	if (how < 251)
		return right;
	if (how < 253)
		return right + (uint32_t)(how % 2) * 2 - 1;
	if (how < 255)
		return limits[next() % 16];
	return next_32();
}

static void
put_32(uint8_t *at, uint32_t number)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(number >> (24 - 8 * i));
}

static void
peer_write(const uint8_t *bytes, size_t length)
{
	if (length > sizeof(fuzz.out) - fuzz.out_end)
		length = sizeof(fuzz.out) - fuzz.out_end;
	memcpy(fuzz.out + fuzz.out_end, bytes, length);
	fuzz.out_end += length;
}

/* All that is waiting, or a part that ends anywhere. */
static void
release(void)
{
	size_t length = fuzz.out_end - fuzz.out_start;
	ssize_t written;

	if (next() < 100)
		length = length * next() / 255;
	written = send(fuzz.peer, fuzz.out + fuzz.out_start, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (written > 0)
		fuzz.out_start += (size_t)written;
	if (fuzz.out_start == fuzz.out_end)
		fuzz.out_start = fuzz.out_end = 0;
}

static void
peer_digest(bool on, const uint8_t *bytes, size_t length)
{
	uint8_t digest[4];

	iscsi_digest_encode(iscsi_digest_add(ISCSI_DIGEST_START, bytes, length), digest);
	if (next() == 255)
		digest[0] ^= 1;
	if (on)
		peer_write(digest, 4);
}

/* One that an answer of this kind could be for, mostly. */
static const struct iscsi_task *
choose(uint8_t opcode)
{
	uint8_t any = next();

	for (int i = 0; i < TASKS; i++) {
		const struct fuzz_task *task = &fuzz.tasks[(any + i) % TASKS];

		if (!task->busy || (opcode == 0x25 && !task->task.read))
			continue;
		if (opcode == 0x31 &&
		    (!task->task.write || task->task.solicited_bytes == task->task.length_bytes))
			continue;
		if (task->task.sent || any > 250)
			return &task->task;
	}
	return NULL;
}

static void
peer_pdu(void)
{
	static const uint8_t opcodes[] = { 0x25, 0x25, 0x25, 0x21, 0x21,
					   0x31, 0x31, 0x31, 0x20, 0x20 };
	static const uint8_t rare[] = { 0x22, 0x23, 0x26, 0x32, 0x3f };
	static uint8_t data[65536];
	uint8_t opcode =
		next() > 245 ? rare[next() % sizeof(rare)] : opcodes[next() % sizeof(opcodes)];
	const struct iscsi_task *chosen = choose(opcode);
	const struct iscsi_task *task = chosen ? chosen : &fuzz.tasks[0].task;
	uint8_t header[48] = { opcode, next(), next() % 32 == 31, next() };
	uint32_t left =
		task->length_bytes - (task->read ? task->moved_bytes : task->solicited_bytes);
	uint32_t length =
		header[0] == 0x25 ? value(left > 8192 ? 512u * (next() % 16) : left) : next() % 64u;

	if (chosen == NULL && opcode != 0x20 && next() < 250)
		return;
	header[3] = header[3] % 4 == 0 ? 2 : 0; /* status */
	header[4] = next() > 250 ? next() : 0;	/* additional header segments */
	put_32(header + 16, value(header[0] == 0x20 ? ISCSI_NO_TAG : task->tag));
	put_32(header + 20, value(next()));
	put_32(header + 24, value(1));
	put_32(header + 28, value(1));
	put_32(header + 32, value(fuzz.login.max_cmd_sn));
	put_32(header + 36, value(task->sequence));
	put_32(header + 40, value(task->read ? task->moved_bytes : task->solicited_bytes));
	if (opcode == 0x31)
		left = next() < 8 ? left + 512 : left > 4096 ? 1u + next() * 16u : left;
	put_32(header + 44, opcode == 0x31 ? value(left) : value(0));
	header[5] = (uint8_t)(length >> 16);
	header[6] = (uint8_t)(length >> 8);
	header[7] = (uint8_t)length;
	peer_write(header, 48);
	length = length < sizeof(data) ? length : sizeof(data);
	peer_write(data, header[4] * 4u);
	peer_digest(fuzz.login.negotiated.header_digest && header[4] == 0, header, 48);
	if (length == 0)
		return;
	peer_write(data, length + iscsi_padding_bytes(length));
	peer_digest(fuzz.login.negotiated.data_digest, data, length + iscsi_padding_bytes(length));
}

static void
peer_raw(void)
{
	uint8_t bytes[256];
	size_t length = next();

	for (size_t i = 0; i < length; i++)
		bytes[i] = next();
	peer_write(bytes, length);
}

static void
divert(struct fuzz_task *task)
{
	if (!task->busy || !task->task.read || task->ours)
		return;
	iscsi_task_divert(&task->task);
	take_memory_back(task);
}

static void
on_answer(void *owner, uint8_t response)
{
}

static void
step(void)
{
	struct fuzz_task *task = &fuzz.tasks[next() % TASKS];
	uint8_t bytes[4096];
	uint8_t what = next();

	release();

	if (what < 150)
		peer_pdu();
	else if (what < 151)
		peer_raw();
	else if (what < 195)
		submit(task, what & 1);
	else if (what < 212)
		divert(task);
	else
		while (what-- > 205 && recv(fuzz.peer, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
}

static void
check(void)
{
	for (int i = 0; i < TASKS; i++) {
		const struct fuzz_task *task = &fuzz.tasks[i];

		fuzz_require(task->task.moved_bytes <= task->task.length_bytes &&
				     task->task.solicited_bytes <= task->task.length_bytes,
			     "more than the task has");
		for (uint32_t at = 0; task->ours && at < task->length; at += 64)
			fuzz_require(task->memory[at] == POISON,
				     "memory was touched that was taken back");
	}
}

static void
start(uint8_t options)
{
	int sockets[2], small = 8192;

	fuzz_require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no sockets");
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	/* it is full often */
	setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	fuzz.out_start = fuzz.out_end = 0;
	fuzz.peer = sockets[1];
	fuzz.login = (struct iscsi_login){
		.outcome = LOGIN_COMPLETE, .exp_cmd_sn = 1, .max_cmd_sn = options & 32 ? 3 : 100,
		.negotiated = {
			.first_burst_bytes = 8192, .max_burst_bytes = 16384,
			.target_segment_bytes = options & 16 ? 509 : 4096,
			.initial_r2t = options & 1, .immediate_data = options & 2,
			.header_digest = options & 4, .data_digest = options & 8,
		},
	};
	fuzz.connection = iscsi_connection_create(sockets[0], &fuzz.login);
	fuzz_require(fuzz.connection != NULL, "no memory");
	for (int i = 0; i < TASKS; i++) {
		fuzz.tasks[i] = (struct fuzz_task){ .memory = NULL };
		submit(&fuzz.tasks[i], i & 1);
	}
	if (options & 64)
		iscsi_connection_manage(fuzz.connection, ISCSI_LUN_RESET, 0, NULL, on_answer, NULL);
	if (options & 128)
		iscsi_connection_logout(fuzz.connection, on_answer, NULL);
	iscsi_connection_flush(fuzz.connection);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int error = 0;

	fuzz.input = data;
	fuzz.end = data + size;
	start(next());
	while (error == 0 && fuzz.input < fuzz.end) {
		step();
		error = iscsi_connection_receive(fuzz.connection);
		if (error == 0)
			error = iscsi_connection_flush(fuzz.connection);
		check();
		fuzz_steps++;
	}
	fuzz_require(error == 0 || iscsi_connection_fault(fuzz.connection)->message[0] != '\0',
		     "broken without a reason");
	iscsi_connection_destroy(fuzz.connection);
	close(fuzz.peer);
	for (int i = 0; i < TASKS; i++) {
		fuzz_require(!fuzz.tasks[i].busy, "a task was never given back");
		free(fuzz.tasks[i].memory);
	}
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
