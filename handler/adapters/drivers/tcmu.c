/* drivers/tcmu.c - the volumes as LUNs of tcmu-runner.  With tcmu_cdb_length.c the only user of tcmu.
 *
 *	ring -> runner's command thread of the LUN -> handle_cmd()	what moves no data: lun/scsi.c
 *	                                           -> read() write() flush(), others by way of flush(): lun/job.c
 *	                                                | volume_submit()
 *	                                                v
 *	        tcmur_cmd_complete() <- done() <- volume's thread
 *
 * A request points at the command's own iovec, whose memory is the ring's: nothing is copied.
 * Requests are kept and used again, so that in steady state a command allocates nothing here.
 * The command thread takes from its own list; what the volume's thread is done with goes to
 * `returned`, from where the command thread fetches all at once when its own is empty.
 *
 * open() runs on the one main thread of all volumes and waits for nothing: a volume that can't be
 * had yet (another process has it, its file has a fault) is tried again when commands come.  The
 * runner never calls open() again for a LUN whose open() failed.
 * docs/design/tcmu.md: which commands, which sense, and why.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcmu-runner.h"
#include "libtcmu.h"
#include "tcmur_device.h"

#include "adapters/rpc/socket.h"
#include "adapters/base/log.h"
#include "adapters/base/reactor.h"
#include "adapters/lun/job.h"
#include "adapters/lun/scsi.h"
#include "alua.h"
#include "lio.h"

#define SUBTYPE "iraid"
#define CONFIG_MAX (sizeof(SUBTYPE) + LAYOUT_NAME_MAX + 1) /* "iraid/NAME" */
#define OPCODE_INQUIRY 0x12
#define IOS_PER_BLOCK 64
#define ADDRESS_MOVES_MS 30000 /* a cluster has moved the address by then */
#define RETRY_MS 1000
/* The kernel gives a command up after 30 s (cmd_time_out): what has many steps, or pieces, begins
 * none so long after.
 */
#define BEGIN_MS_MAX 20000
/* What is offered where hw_max_sectors is at the kernel's default of 64 KiB; commands above what
 * the data area holds a few of would wait for each other. */
#define TRANSFER_BYTES (4u * 1024 * 1024)
#define TRANSFERS_IN_AREA 4u

struct io {
	struct engine_request request;
	struct device *device;
	struct tcmur_cmd *command;
	bool read_after_flush; /* a READ with FUA: the caches first, then the data */
	struct io *next;
};

struct io_block {
	struct io_block *next;
	struct io ios[IOS_PER_BLOCK];
};

struct device {
	struct tcmu_device *tcmu;
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t uuid[16];
	bool identified;       /* uuid is known: initiators may be told who the LUN is */
	struct volume *volume; /* NULL: not to be had yet */
	uint64_t retry_ms;
	bool unfit_logged;
	/* the command thread's: the role that initiators were told last */
	bool role_known, was_standby;
	/* by monotonic_ms(): until then who finds the volume gone to another gateway is BUSY;
	 * 0: it was not active here since the LUN was opened; UINT64_MAX: it is
	 */
	_Atomic uint64_t busy_until_ms;
	struct io *free;	       /* the command thread's */
	_Atomic(struct io *) returned; /* pushed by the volume's thread */
	struct io_block *blocks;
	/* the command thread's: under way, or ended and not freed yet */
	struct raw *raws;
};

/* A command of several steps. */
struct raw {
	struct scsi_job job; /* first */
	struct device *device;
	struct tcmur_cmd *command;
	uint64_t began_ms;
	atomic_bool ended; /* set by the volume's thread, which then leaves it alone */
	struct raw *next;
};

static struct volume_host *host;
static struct control *control;
static struct alua *alua;

/* --- log --- */

static void
log_to_runner(int level, const char *text)
{
	if (level <= LOG_CRIT)
		tcmu_crit("%s\n", text);
	else if (level == LOG_ERR)
		tcmu_err("%s\n", text);
	else if (level == LOG_WARNING)
		tcmu_warn("%s\n", text);
	else if (level == LOG_DEBUG)
		tcmu_dbg("%s\n", text);
	else
		tcmu_info("%s\n", text);
}

/* --- requests --- */

static struct io *
take_io(struct device *device)
{
	struct io *io;
	struct io_block *block;

	if (!device->free)
		device->free = atomic_exchange(&device->returned, NULL);
	if (!device->free) {
		block = calloc(1, sizeof(*block));
		if (!block)
			return NULL;
		block->next = device->blocks;
		device->blocks = block;
		for (int i = 0; i < IOS_PER_BLOCK; i++) {
			block->ios[i].device = device;
			block->ios[i].next = device->free;
			device->free = &block->ios[i];
		}
	}
	io = device->free;
	device->free = io->next;
	return io;
}

static void
return_io(struct io *io)
{
	struct io *newest = atomic_load(&io->device->returned);

	do {
		io->next = newest;
	} while (!atomic_compare_exchange_weak(&io->device->returned, &newest, io));
}

/* The runner's status for an outcome, whose sense data goes to where the runner takes it from. */
static int
status_of(struct tcmur_cmd *command, const struct scsi_outcome *outcome)
{
	switch (outcome->status) {
	case STATUS_GOOD:
		return TCMU_STS_OK;
	case STATUS_BUSY:
		return TCMU_STS_BUSY;
	case STATUS_TASK_SET_FULL:
		return TCMU_STS_NO_RESOURCE;
	}
	scsi_put_sense(outcome, command->lib_cmd->sense_buf);
	return TCMU_STS_PASSTHROUGH_ERR;
}

static void
config_of(const struct device *device, char out[CONFIG_MAX])
{
	snprintf(out, CONFIG_MAX, SUBTYPE "/%s", device->name);
}

/* Initiators that see both gateways go to the other one when they hear of standby.  One that sees
 * a single address, which a cluster moves, would fail what it asks for: Linux repeats BUSY, and by
 * then the address has moved.
 */
static bool
address_may_move(struct device *device)
{
	uint64_t until_ms = UINT64_MAX, now_ms = monotonic_ms();
	char config[CONFIG_MAX];
	int cancel_state;
	bool paired;

	atomic_compare_exchange_strong(&device->busy_until_ms, &until_ms,
				       now_ms + ADDRESS_MOVES_MS);
	if (now_ms >= until_ms)
		return false;
	config_of(device, config);
	/* The runner cancels the command thread when its LUN goes. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	paired = alua && alua_is_pair(alua, config);
	pthread_setcancelstate(cancel_state, NULL);
	return !paired;
}

static bool
says_standby(const struct scsi_outcome *outcome)
{
	return outcome->status == STATUS_CHECK_CONDITION && outcome->key == SENSE_NOT_READY &&
	       outcome->asc == ASC_STANDBY;
}

/* Of a command that needs the medium. */
static int
status_of_io(struct device *device, struct tcmur_cmd *command, const struct scsi_outcome *outcome)
{
	if (says_standby(outcome) && address_may_move(device))
		return TCMU_STS_BUSY;
	return status_of(command, outcome);
}

static int
refuse(struct device *device, struct tcmur_cmd *command, uint16_t asc)
{
	struct scsi_outcome outcome = scsi_check(SENSE_NOT_READY, asc);

	return status_of_io(device, command, &outcome);
}

static int
sense(struct tcmur_cmd *command, uint8_t key, uint16_t asc)
{
	struct scsi_outcome outcome = scsi_check(key, asc);

	return status_of(command, &outcome);
}

static bool
has_failed(const struct device *device)
{
	struct volume_brief brief;

	volume_brief(device->volume, &brief);
	return brief.state == VOLUME_FAILED;
}

static void
io_done(struct engine_request *request, int result)
{
	struct io *io = request->owner;
	struct device *device = io->device;
	struct tcmu_device *tcmu = device->tcmu;
	struct tcmur_cmd *command = io->command;
	struct scsi_outcome outcome;
	int status;

	if (io->read_after_flush && result == 0) {
		io->read_after_flush = false;
		request->op = REQUEST_READ;
		volume_submit(device->volume, request);
		return;
	}
	if (io->read_after_flush)
		request->op = REQUEST_READ;
	outcome = scsi_outcome_of(request, result, result == -ENOMEDIUM && has_failed(device));
	status = status_of_io(device, command, &outcome);
	/* Before the command completes: after the last one the device may be closed. */
	return_io(io);
	tcmur_cmd_complete(tcmu, command, status);
}

static bool
has_fua(const uint8_t *cdb)
{
	return cdb[1] & 0x08;
}

/* --- is the volume there, and does it fit the LUN --- */

/* From the command thread, which the runner cancels when the LUN goes: no lock may be left held. */
static void
try_acquire(struct device *device)
{
	struct fault fault = FAULT_NONE;
	char user[VOLUME_USER_MAX + 1];
	uint64_t now_ms = monotonic_ms();
	int cancel_state, error;

	if (now_ms < device->retry_ms)
		return;
	snprintf(user, sizeof(user), "tcmu: %s", device->name);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = volume_acquire(host, device->name, user, &device->volume, &fault);
	/* The LUN's name is made of the volume's UUID: another volume is another disk. */
	if (error == 0 && device->identified &&
	    memcmp(volume_uuid(device->volume), device->uuid, sizeof(device->uuid)) != 0) {
		volume_release(device->volume);
		error = fault_errno(
			&fault, -ESTALE,
			"volume \"%s\" is not the one for which the LUN was made: export it again",
			device->name);
	}
	pthread_setcancelstate(cancel_state, NULL);
	if (error == 0) {
		memcpy(device->uuid, volume_uuid(device->volume), sizeof(device->uuid));
		device->identified = true;
		if (device->retry_ms != 0)
			tcmu_dev_info(device->tcmu, "volume %s is there now\n", device->name);
		return;
	}
	if (device->retry_ms == 0) /* once, not for every command */
		tcmu_dev_err(device->tcmu, "%s; each command tries again\n", fault.message);
	device->volume = NULL;
	device->retry_ms = now_ms + RETRY_MS;
}

/* 0 if commands may go on, ASC of NOT READY else.  *brief is filled if the volume is there. */
static uint16_t
readiness(struct device *device, struct volume_brief *brief)
{
	uint64_t lun_bytes = tcmu_lba_to_byte(device->tcmu, tcmu_dev_get_num_lbas(device->tcmu));
	uint32_t lun_block_bytes = tcmu_dev_get_block_size(device->tcmu);

	memset(brief, 0, sizeof(*brief));
	if (!device->volume)
		try_acquire(device);
	if (!device->volume)
		return ASC_BECOMING_READY;
	volume_brief(device->volume, brief);
	/* A fenced one too: what it was asked for before may still be ending. */
	if (brief->role != ROLE_ACTIVE || brief->state == VOLUME_STANDBY)
		return ASC_STANDBY;
	atomic_store_explicit(&device->busy_until_ms, UINT64_MAX, memory_order_relaxed);
	if (brief->state == VOLUME_FAILED)
		return ASC_MANUAL_INTERVENTION;
	if (brief->size_bytes == 0)
		return ASC_BECOMING_READY;
	if (lun_bytes <= brief->size_bytes && lun_block_bytes % brief->block_bytes == 0)
		return brief->state == VOLUME_ASSEMBLING ? ASC_BECOMING_READY : 0;
	if (!device->unfit_logged)
		tcmu_dev_err(device->tcmu,
			     "the LUN has %llu bytes in blocks of %u, but volume %s has %llu in "
			     "blocks of %u: export it again with the volume's size\n",
			     (unsigned long long)lun_bytes, lun_block_bytes, device->name,
			     (unsigned long long)brief->size_bytes, brief->block_bytes);
	device->unfit_logged = true;
	return ASC_MANUAL_INTERVENTION;
}

/* --- callouts --- */

/* From the command thread, which the runner cancels when the LUN goes: the wake-up must not be left
 * half done.  (On the volume's thread it does no harm.)
 */
static void
submit_to_volume(struct device *device, struct engine_request *request)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	volume_submit(device->volume, request);
	pthread_setcancelstate(cancel_state, NULL);
}

/* --- what goes on for long ---
 *
 * LIO gives a command up that lies in the ring for 30 s while the runner does not run, and the
 * initiator writes to the same blocks next.  Then both are taken from the ring, and the pieces of
 * the older one would land on the newer one's data.  So what is written to blocks of an UNMAP,
 * WRITE SAME or EXTENDED COPY that is under way is BUSY until that has ended.
 */
static void
free_ended(struct device *device)
{
	struct raw **at = &device->raws;

	while (*at) {
		struct raw *raw = *at;

		if (!atomic_load(&raw->ended)) {
			at = &raw->next;
			continue;
		}
		*at = raw->next;
		scsi_job_free(&raw->job);
		free(raw);
	}
}

static bool
is_covered(struct device *device, uint64_t offset_bytes, uint64_t length_bytes)
{
	free_ended(device);
	for (struct raw *raw = device->raws; raw; raw = raw->next)
		if (scsi_job_covers(&raw->job, offset_bytes, length_bytes))
			return true;
	return false;
}

static bool
raw_in_the_way(const struct scsi_job *job)
{
	/* those behind it are older */
	for (struct raw *raw = ((const struct raw *)job)->next; raw; raw = raw->next)
		if (scsi_job_overtakes(job, &raw->job))
			return true;
	return false;
}

static bool
may_submit(struct device *device, uint16_t asc)
{
	/* Becoming ready: the engine holds it until it is, within its limit. */
	return asc == 0 || (asc == ASC_BECOMING_READY && device->volume);
}

static int
submit_io(struct tcmu_device *tcmu, struct tcmur_cmd *command, enum request_op op,
	  struct iovec *iov, size_t iov_count, size_t length, off_t offset)
{
	struct device *device = tcmur_dev_get_private(tcmu);
	struct volume_brief brief;
	uint16_t asc = readiness(device, &brief);
	struct io *io;

	if (!may_submit(device, asc))
		return refuse(device, command, asc);
	if (op == REQUEST_WRITE && is_covered(device, (uint64_t)offset, length))
		return TCMU_STS_BUSY;
	io = take_io(device);
	if (!io)
		return TCMU_STS_NO_RESOURCE;
	io->command = command;
	io->request = (struct engine_request){
		.op = op,
		.offset_bytes = (uint64_t)offset,
		.length_bytes = length,
		.iov = iov,
		.iov_count = (int)iov_count,
		.done = io_done,
		.owner = io,
	};
	io->read_after_flush = op == REQUEST_READ && has_fua(command->lib_cmd->cdb);
	io->request.for_read = io->read_after_flush;
	if (io->read_after_flush)
		io->request.op = REQUEST_FLUSH;
	if (op == REQUEST_WRITE)
		io->request.fua = has_fua(command->lib_cmd->cdb);
	submit_to_volume(device, &io->request);
	return TCMU_STS_OK;
}

/* --- commands of several steps ---
 *
 * The runner lends an asynchronous handle_cmd() no way to complete a command, and what it does
 * itself for UNMAP loses errors.  So handle_cmd() shows it a SYNCHRONIZE CACHE in place of such a
 * command's CDB.  The runner then does for it what it does for every command (is the LUN in
 * recovery, does it hold the lock, count it as under way) and calls flush(), where the command has
 * its own CDB again.  Only a pointer is exchanged: nothing in the ring is touched.
 */
static uint8_t stand_in[16] = { 0x35 };

static uint32_t
raw_left_ms(const struct scsi_job *job)
{
	uint64_t age_ms = monotonic_ms() - ((const struct raw *)job)->began_ms;

	return age_ms < BEGIN_MS_MAX ? (uint32_t)(BEGIN_MS_MAX - age_ms) : 0;
}

static void
raw_submit(struct scsi_job *job)
{
	submit_to_volume(((struct raw *)job)->device, &job->request);
}

static void
raw_done(struct scsi_job *job)
{
	struct raw *raw = (struct raw *)job;
	struct tcmu_device *tcmu = raw->device->tcmu;
	struct tcmur_cmd *command = raw->command;
	struct scsi_outcome *outcome = &job->outcome;
	int status;

	if (outcome->asc == ASC_BECOMING_READY && has_failed(raw->device))
		outcome->asc = ASC_MANUAL_INTERVENTION;
	status = status_of_io(raw->device, command, outcome);
	atomic_store(&raw->ended, true); /* the command thread may free it now */
	tcmur_cmd_complete(tcmu, command, status);
}

static void
describe_unit(struct device *device, const struct volume_brief *brief, uint16_t not_ready,
	      struct scsi_unit *unit)
{
	*unit = (struct scsi_unit){
		.level = device->volume ? brief->level : level_recall(device->uuid),
		.blocks = tcmu_dev_get_num_lbas(device->tcmu),
		.block_bytes = tcmu_dev_get_block_size(device->tcmu),
		.transfer_blocks_max = tcmu_dev_get_max_xfer_len(device->tcmu),
		.chunk_bytes = brief->chunk_bytes,
		.row_bytes = brief->row_bytes,
		.not_ready = not_ready,
	};
	memcpy(unit->uuid, device->uuid, sizeof(unit->uuid));
}

/* As the kernel has it, which enforces it: false without another gateway. */
static bool
find_pair(const struct device *device, struct lio_pair *pair)
{
	char config[CONFIG_MAX];

	config_of(device, config);
	return alua && alua_find(alua, config, pair);
}

static void
describe_pair(const struct device *device, struct scsi_unit *unit)
{
	struct lio_pair pair;

	if (!find_pair(device, &pair))
		return;
	unit->gateway = pair.here;
	for (int i = 0; i < GATEWAYS; i++)
		unit->access[i] = (uint8_t)pair.access[i];
}

static int
raw_begin(struct device *device, struct tcmur_cmd *command)
{
	struct tcmulib_cmd *lib = command->lib_cmd;
	struct scsi_outcome outcome;
	struct volume_brief brief;
	struct scsi_unit unit;
	struct raw *raw;
	uint16_t asc = readiness(device, &brief);

	if (!may_submit(device, asc) && !scsi_works_on_standby(lib->cdb))
		return refuse(device, command, asc);
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		return TCMU_STS_NO_RESOURCE;
	describe_unit(device, &brief, asc, &unit);
	raw->device = device;
	raw->command = command;
	raw->began_ms = monotonic_ms();
	raw->job = (struct scsi_job){
		.unit = &unit,
		.iov = lib->iovec,
		.iov_count = (int)lib->iov_cnt,
		.submit = raw_submit,
		.done = raw_done,
		.left_ms = raw_left_ms,
		.in_the_way = raw_in_the_way,
	};
	memcpy(raw->job.cdb, lib->cdb, lun_cdb_length(lib->cdb[0]));
	free_ended(device);
	raw->next = device->raws;
	device->raws = raw;
	if (scsi_job_begin(&raw->job))
		return TCMU_STS_OK;
	outcome = raw->job.outcome;
	atomic_store(&raw->ended, true);
	free_ended(device);
	if (outcome.status != STATUS_GOOD)
		return status_of(command, &outcome);
	/* To return OK means "later", so it completes here. */
	tcmur_cmd_complete(device->tcmu, command, TCMU_STS_OK);
	return TCMU_STS_OK;
}

static int
read_lun(struct tcmu_device *tcmu, struct tcmur_cmd *command, struct iovec *iov, size_t iov_count,
	 size_t length, off_t offset)
{
	return submit_io(tcmu, command, REQUEST_READ, iov, iov_count, length, offset);
}

static int
write_lun(struct tcmu_device *tcmu, struct tcmur_cmd *command, struct iovec *iov, size_t iov_count,
	  size_t length, off_t offset)
{
	return submit_io(tcmu, command, REQUEST_WRITE, iov, iov_count, length, offset);
}

static int
flush_lun(struct tcmu_device *tcmu, struct tcmur_cmd *command)
{
	struct device *device = tcmur_dev_get_private(tcmu);

	if (!command->cmd_state) {
		/* an initiator that says it reads gets the buffer */
		tcmu_iovec_zero(command->lib_cmd->iovec, command->lib_cmd->iov_cnt);
		return submit_io(tcmu, command, REQUEST_FLUSH, NULL, 0, 0, 0);
	}
	command->lib_cmd->cdb = command->cmd_state;
	command->cmd_state = NULL;
	return raw_begin(device, command);
}

/* Of each change one command of one session is told, as with all that the runner tells: the ring
 * does not say who asks.  Where there are two gateways LIO knows of the role by the state of a target
 * port group, and tells each session; then it is not told twice.
 */
static uint16_t
role_attention(struct device *device, uint16_t not_ready, const uint8_t *cdb)
{
	bool is_standby = not_ready == ASC_STANDBY;
	bool changed = device->role_known && device->was_standby != is_standby;
	struct lio_pair pair;

	if (changed && find_pair(device, &pair))
		changed = false;
	if (!device->volume || (changed && !scsi_tells_attention(cdb)))
		return changed ? ASC_ACCESS_STATE_CHANGED : 0;
	device->role_known = true;
	device->was_standby = is_standby;
	return changed ? ASC_ACCESS_STATE_CHANGED : 0;
}

static int
handle_command(struct tcmu_device *tcmu, struct tcmur_cmd *command)
{
	struct device *device = tcmur_dev_get_private(tcmu);
	struct tcmulib_cmd *lib = command->lib_cmd;
	struct volume_brief brief;
	struct scsi_unit unit;
	struct lun_answer answer;
	uint16_t not_ready = readiness(device, &brief);

	/* Later it can say who it is.  Another name meanwhile would be another disk. */
	if (!device->identified && lib->cdb[0] == OPCODE_INQUIRY)
		return TCMU_STS_BUSY;
	describe_unit(device, &brief, not_ready, &unit);
	unit.attention = role_attention(device, not_ready, lib->cdb);
	if (scsi_asks_of_pair(lib->cdb))
		describe_pair(device, &unit);
	scsi_emulate(&unit, lib->cdb, tcmu_iovec_length(lib->iovec, lib->iov_cnt), &answer);
	switch (answer.verdict) {
	case LUN_JOB:
		command->cmd_state = lib->cdb;
		lib->cdb = stand_in;
		return TCMU_STS_NOT_HANDLED;
	case LUN_PASS:
		return TCMU_STS_NOT_HANDLED;
	case LUN_GOOD:
		/* All of it: what is not answered would be what the ring held before, perhaps
		 * another initiator's data. */
		tcmu_iovec_zero(lib->iovec, lib->iov_cnt);
		tcmu_memcpy_into_iovec(lib->iovec, lib->iov_cnt, answer.data, answer.length);
		return TCMU_STS_OK;
	case LUN_CHECK:
		break;
	}
	if (not_ready != 0 && answer.asc == not_ready && !scsi_works_on_standby(lib->cdb))
		return refuse(device, command, answer.asc);
	return sense(command, answer.key, answer.asc);
}

/* --- configuration --- */

/* NAME of "iraid/NAME", also with the runner's own ";key=value" behind it or white space. */
static bool
name_of(const char *cfgstring, char out[LAYOUT_NAME_MAX + 1])
{
	static const char prefix[] = SUBTYPE "/";
	size_t length;

	if (strncmp(cfgstring, prefix, sizeof(prefix) - 1) == 0)
		cfgstring += sizeof(prefix) - 1;
	length = strcspn(cfgstring, "; \t\r\n");
	if (length > LAYOUT_NAME_MAX)
		return false;
	memcpy(out, cfgstring, length);
	out[length] = '\0';
	return true;
}

/* Asked before a LUN is made, and by the runner for each that is there when it starts: that one is
 * not given up for a fault in its volume's file, since the runner would not try again.
 */
static bool
check_cfgstring(const char *cfgstring, char **reason)
{
	struct volume_config *config = malloc(sizeof(*config));
	struct fault fault = { .message = "out of memory" };
	char name[LAYOUT_NAME_MAX + 1], whole[sizeof(SUBTYPE) + LAYOUT_NAME_MAX + 1];
	bool good = false;

	if (!name_of(cfgstring, name)) {
		fault_errno(&fault, -EINVAL,
			    "\"%.255s\": a volume's name has at most %d characters", cfgstring,
			    LAYOUT_NAME_MAX);
	} else if (config) {
		snprintf(whole, sizeof(whole), SUBTYPE "/%s", name);
		good = volume_config_read(name, config, &fault) == 0 || lio_has(LIO_FOLDER, whole);
	}
	free(config);
	if (!good)
		*reason = strdup(fault.message);
	return good;
}

/* What VPD page B0h promises; see TRANSFER_BYTES. */
static void
set_transfer_limit(struct tcmu_device *tcmu)
{
	uint32_t sectors = tcmu_dev_get_max_xfer_len(tcmu); /* hw_max_sectors */
	uint32_t block_bytes = tcmu_dev_get_block_size(tcmu);
	int area_mb = tcmu_cfgfs_dev_get_attr_int(tcmu, "max_data_area_mb");
	uint64_t bytes = area_mb > 0 ? (uint64_t)area_mb * 1024 * 1024 / TRANSFERS_IN_AREA : 0;

	bytes = bytes < TRANSFER_BYTES ? bytes : TRANSFER_BYTES;
	if (bytes / block_bytes > sectors)
		tcmu_dev_set_max_xfer_len(tcmu, (uint32_t)(bytes / block_bytes));
}

/* What makes the LUN useless for ever; all else may be mended while it is there. */
static int
check_lun(struct tcmu_device *tcmu, char name[LAYOUT_NAME_MAX + 1], struct fault *fault)
{
	const char *cfgstring = tcmu_dev_get_cfgstring(tcmu);
	uint32_t block_bytes = tcmu_dev_get_block_size(tcmu);

	if (!name_of(cfgstring, name) || volume_name_fault(name))
		return fault_errno(fault, -EINVAL, "\"%.255s\" is no volume's name", cfgstring);
	if (block_bytes < 512 || JOB_BUFFER_BYTES % block_bytes != 0)
		return fault_errno(fault, -EINVAL,
				   "the LUN has blocks of %u bytes; make it again with 512 or 4096",
				   block_bytes);
	return 0;
}

static int
open_lun(struct tcmu_device *tcmu, bool reopen)
{
	struct device *device = calloc(1, sizeof(*device));
	struct fault fault = { .message = "out of memory" };
	int error = device ? check_lun(tcmu, device->name, &fault) : -ENOMEM;

	if (error != 0) {
		tcmu_dev_err(tcmu, "%s\n", fault.message);
		free(device);
		return error;
	}
	device->tcmu = tcmu;
	device->identified = volume_config_uuid(device->name, device->uuid);
	atomic_init(&device->returned, NULL);
	try_acquire(device);
	set_transfer_limit(tcmu);
	tcmu_dev_set_write_cache_enabled(tcmu, true);
	tcmur_dev_set_private(tcmu, device);
	return 0;
}

static void
close_lun(struct tcmu_device *tcmu)
{
	struct device *device = tcmur_dev_get_private(tcmu);

	if (device->volume) {
		/* The volume's thread may still be inside tcmur_cmd_complete() of the last command,
		 * and the runner frees what that uses once this returns. */
		volume_quiesce(device->volume);
		volume_release(device->volume);
	}
	free_ended(device);
	while (device->blocks) {
		struct io_block *block = device->blocks;

		device->blocks = block->next;
		free(block);
	}
	tcmur_dev_set_private(tcmu, NULL);
	free(device);
}

/* As the volume's thread says just now (a few ms), which has volume_brief() know it too before the
 * runner shows the LUN's new size; by name, since device->volume is the command thread's.  0 if it
 * is not known.
 */
static uint64_t
volume_bytes_now(const struct device *device)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct fault ignored;
	uint64_t bytes = 0;

	if (view && volume_view(host, device->name, view, &ignored) == 0 && view->running)
		bytes = view->status.size_bytes;
	free(view);
	return bytes;
}

/* The runner does the rest when this succeeds: it counts more blocks, and has the next command end
 * with UNIT ATTENTION, CAPACITY DATA HAS CHANGED.  It does not ask when the size is what it was.
 */
static int
resize(struct device *device, uint64_t wanted_bytes)
{
	struct tcmu_device *tcmu = device->tcmu;
	uint32_t block_bytes = tcmu_dev_get_block_size(tcmu);
	unsigned long long lun_bytes = tcmu_lba_to_byte(tcmu, tcmu_dev_get_num_lbas(tcmu));
	unsigned long long volume_bytes = volume_bytes_now(device), wanted = wanted_bytes;

	if (wanted < lun_bytes) {
		tcmu_dev_err(tcmu,
			     "the LUN of volume %s has %llu bytes and can't shrink to %llu, "
			     "because that could destroy data: copy it to a smaller volume\n",
			     device->name, lun_bytes, wanted);
		return -EINVAL;
	}
	if (wanted % block_bytes != 0) {
		tcmu_dev_err(tcmu,
			     "%llu bytes are not whole blocks of the LUN of volume %s: choose a "
			     "multiple of %u\n",
			     wanted, device->name, block_bytes);
		return -EINVAL;
	}
	if (volume_bytes == 0) {
		tcmu_dev_err(tcmu,
			     "the LUN of volume %s can't grow to %llu bytes, because the volume is "
			     "not assembled: see iraid status %s, then run iraid grow %s\n",
			     device->name, wanted, device->name, device->name);
		return -EAGAIN;
	}
	if (wanted > volume_bytes) {
		tcmu_dev_err(tcmu,
			     "the LUN of volume %s can't grow to %llu bytes, because the volume "
			     "has %llu: enlarge its members, then run iraid grow %s\n",
			     device->name, wanted, volume_bytes, device->name);
		return -ENOSPC;
	}
	tcmu_dev_info(tcmu, "the LUN of volume %s grows from %llu to %llu bytes\n", device->name,
		      lun_bytes, wanted);
	return 0;
}

static int
reconfigure_lun(struct tcmu_device *tcmu, struct tcmulib_cfg_info *info)
{
	struct device *device = tcmur_dev_get_private(tcmu);
	char name[LAYOUT_NAME_MAX + 1];

	switch (info->type) {
	case TCMULIB_CFG_DEV_CFGSTR: /* targetcli's restore writes again what is there */
		if (name_of(info->data.dev_cfgstring, name) && strcmp(name, device->name) == 0)
			return 0;
		tcmu_dev_err(
			tcmu,
			"volume %s can't become \"%.255s\" while it is in use: make a new LUN\n",
			device->name, info->data.dev_cfgstring);
		return -EBUSY;
	case TCMULIB_CFG_DEV_SIZE:
		return resize(device, info->data.dev_size);
	case TCMULIB_CFG_WRITE_CACHE:
		if (!info->data.write_cache)
			tcmu_dev_info(tcmu, "emulate_write_cache=0 has no effect: the members "
					    "decide whether data is volatile, so WCE stays 1\n");
		return 0;
	}
	return -EOPNOTSUPP;
}

/* --- beginning and end --- */

static void
end_handler(void)
{
	if (host)
		volume_host_end(host);
	if (control)
		control_stop(control);
	if (alua)
		alua_end(alua);
	if (host)
		volume_host_destroy(host);
	control = NULL;
	alua = NULL;
	host = NULL;
}

static struct tcmur_handler handler = {
	.name = "iRAID: several iSCSI targets as one redundant LUN",
	.subtype = SUBTYPE,
	.cfg_desc = "The name of a volume made by 'iraid create', for example v0",
	.check_config = check_cfgstring,
	.reconfig = reconfigure_lun,
	.open = open_lun,
	.close = close_lun,
	.nr_threads = 0,
	.handle_cmd = handle_command,
	.read = read_lun,
	.write = write_lun,
	.flush = flush_lun,
	.destroy = end_handler,
};

/* What tcmu_cdb_length.c is for. */
static void
warn_if_commands_get_lost(void)
{
	uint8_t vendor_specific[16] = { 0xc0 };

	if (tcmu_cdb_get_length(vendor_specific) < 0)
		tcmu_warn(
			"iraid: an initiator can stop its LUN by vendor-specific commands, because "
			"iraid-cdb-length.so is not preloaded: start tcmu-runner by its unit\n");
}

int handler_init(void);

__attribute__((visibility("default"))) int
handler_init(void)
{
	struct fault fault;

	log_set_sink(log_to_runner);
	warn_if_commands_get_lost();
	host = volume_host_create("tcmu-runner");
	if (!host)
		return -ENOMEM;
	alua = alua_begin(host, LIO_FOLDER);
	if (!alua)
		tcmu_err("iraid: no thread for ALUA: initiators of two gateways are not told by "
			 "which to come\n");
	/* Without the socket LUNs still work; only administration does not. */
	control = control_start(host, socket_path(), &fault);
	if (!control)
		tcmu_err("iraid: control socket %s\n", fault.message);
	return tcmur_register_handler(&handler);
}
