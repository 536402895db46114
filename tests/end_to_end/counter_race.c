/* counter_race.c - a counter in one block, raised by COMPARE AND WRITE from several sessions, many commands deep.
 *
 *     counter_race PORTAL IQN LUN INITIATOR SESSIONS DEPTH SECONDS LBA
 *
 * Each slot has a value it believes in, and tries to replace it by the next.  Where that fails it reads what is there.  No
 * command may succeed on a value that another replaced: at the end the counter is the number of successes.  Prints
 * "counter C successes S mismatches M repeated R"; exit status 0 if C == S, 1 if not, 2 for anything unexpected.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define BLOCK 512
#define MISCOMPARE_ASCQ 0x1d00

struct slot {
	struct iscsi_context *iscsi;
	uint64_t believed;
	unsigned char both[2 * BLOCK];
	int busy;
};

static int lun, under_way, over;
static uint64_t lba, successes, mismatches, repeated;

static void compare_and_write(struct slot *slot);

static void
fatal(const char *what, const char *why)
{
	fprintf(stderr, "counter_race: %s: %s\n", what, why);
	exit(2);
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Refused before anything was done: it may be sent again. */
static int
was_not_carried_out(const struct scsi_task *task, int status)
{
	return status == SCSI_STATUS_BUSY || status == SCSI_STATUS_TASK_SET_FULL ||
	       (status == SCSI_STATUS_CHECK_CONDITION && task->sense.key == SCSI_SENSE_UNIT_ATTENTION);
}

static void
on_read(struct iscsi_context *iscsi, int status, void *data, void *owner)
{
	struct scsi_task *task = data;
	struct slot *slot = owner;

	under_way--;
	if (status == SCSI_STATUS_GOOD)
		memcpy(&slot->believed, task->datain.data, sizeof(slot->believed));
	else if (!was_not_carried_out(task, status))
		fatal("read", iscsi_get_error(iscsi));
	scsi_free_scsi_task(task);
	compare_and_write(slot);
}

static void
look(struct slot *slot)
{
	under_way++;
	if (iscsi_read16_task(slot->iscsi, lun, lba, BLOCK, BLOCK, 0, 0, 0, 0, 0, on_read, slot) == NULL)
		fatal("read", iscsi_get_error(slot->iscsi));
}

static void
on_compared(struct iscsi_context *iscsi, int status, void *data, void *owner)
{
	struct scsi_task *task = data;
	struct slot *slot = owner;

	under_way--;
	if (status == SCSI_STATUS_GOOD) {
		successes++;
		slot->believed++;
		compare_and_write(slot);
	} else if (status == SCSI_STATUS_CHECK_CONDITION && task->sense.key == SCSI_SENSE_MISCOMPARE &&
		   task->sense.ascq == MISCOMPARE_ASCQ) {
		mismatches++;
		look(slot);
	} else if (was_not_carried_out(task, status)) {
		repeated++;
		compare_and_write(slot);
	} else {
		fatal("compare and write", iscsi_get_error(iscsi));
	}
	scsi_free_scsi_task(task);
}

static void
compare_and_write(struct slot *slot)
{
	uint64_t next = slot->believed + 1;

	if (over)
		return;
	under_way++;
	memset(slot->both, 0, sizeof(slot->both));
	memcpy(slot->both, &slot->believed, sizeof(slot->believed));
	memcpy(slot->both + BLOCK, &next, sizeof(next));
	if (iscsi_compareandwrite_task(slot->iscsi, lun, lba, slot->both, sizeof(slot->both), BLOCK, 0, 0, 0, 0, 0,
				       on_compared, slot) == NULL)
		fatal("compare and write", iscsi_get_error(slot->iscsi));
}

static struct iscsi_context *
log_in(const char *portal, const char *iqn, const char *initiator)
{
	struct iscsi_context *iscsi = iscsi_create_context(initiator);

	if (iscsi == NULL)
		fatal("login", "out of memory");
	iscsi_set_targetname(iscsi, iqn);
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	iscsi_set_noautoreconnect(iscsi, 1);
	if (iscsi_full_connect_sync(iscsi, portal, lun) != 0)
		fatal("login", iscsi_get_error(iscsi));
	return iscsi;
}

static uint64_t
final_value(struct iscsi_context *iscsi)
{
	struct scsi_task *task = iscsi_read16_sync(iscsi, lun, lba, BLOCK, BLOCK, 0, 0, 0, 0, 0);
	uint64_t value;

	if (task == NULL || task->status != SCSI_STATUS_GOOD)
		fatal("last read", iscsi_get_error(iscsi));
	memcpy(&value, task->datain.data, sizeof(value));
	scsi_free_scsi_task(task);
	return value;
}

static void
turn(struct iscsi_context **sessions, int count)
{
	struct pollfd fds[16];

	for (int i = 0; i < count; i++)
		fds[i] = (struct pollfd){ iscsi_get_fd(sessions[i]), (short)iscsi_which_events(sessions[i]), 0 };
	if (poll(fds, (nfds_t)count, 1000) < 0)
		fatal("poll", "failed");
	for (int i = 0; i < count; i++)
		if (iscsi_service(sessions[i], fds[i].revents) != 0)
			fatal("session", iscsi_get_error(sessions[i]));
}

int
main(int argc, char **argv)
{
	struct iscsi_context *sessions[16];
	struct slot *slots;
	int count, depth;
	uint64_t value;
	double end;

	if (argc != 9 || (count = atoi(argv[5])) < 1 || count > 16 || (depth = atoi(argv[6])) < 1) {
		fprintf(stderr, "usage: counter_race PORTAL IQN LUN INITIATOR SESSIONS DEPTH SECONDS LBA\n");
		return 2;
	}
	lun = atoi(argv[3]);
	lba = strtoull(argv[8], NULL, 0);
	for (int i = 0; i < count; i++)
		sessions[i] = log_in(argv[1], argv[2], argv[4]);
	if ((value = final_value(sessions[0])) != 0)
		fatal("the block", "does not begin with zeros");
	slots = calloc((size_t)(count * depth), sizeof(*slots));
	end = now() + atof(argv[7]);
	for (int i = 0; i < count * depth; i++) {
		slots[i].iscsi = sessions[i % count];
		compare_and_write(&slots[i]);
	}
	while (under_way > 0) {
		over = now() >= end;
		turn(sessions, count);
	}
	value = final_value(sessions[0]);
	printf("counter %llu successes %llu mismatches %llu repeated %llu\n", (unsigned long long)value,
	       (unsigned long long)successes, (unsigned long long)mismatches, (unsigned long long)repeated);
	for (int i = 0; i < count; i++) {
		iscsi_logout_sync(sessions[i]);
		iscsi_destroy_context(sessions[i]);
	}
	free(slots);
	return value == successes ? 0 : 1;
}
