/* native_raw.c - libiscsi sessions to all targets, polled by one thread: what the targets and the
 * library give.
 */
#include "native_load.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define TARGETS_MAX 32
#define BEGIN_BYTES (8u << 20) /* leaves out what stands before the data of a member */

struct session {
	struct iscsi_context *context;
	int lun;
	uint32_t block_bytes; /* of the device */
	struct load *load;
	int flying;
};

struct slot {
	struct session *session;
	struct scsi_iovec iov;
	uint64_t began_us;
};

static void
die(const struct session *session, const char *what)
{
	fprintf(stderr, "native_load: %s: %s\n", what, iscsi_get_error(session->context));
	exit(EXIT_FAILURE);
}

static void submit(struct slot *slot);

static void
done(struct iscsi_context *context, int status, void *data, void *private_data)
{
	struct slot *slot = private_data;

	(void)context;
	if (status != SCSI_STATUS_GOOD)
		die(slot->session, "a command failed");
	scsi_free_scsi_task(data);
	load_done(slot->session->load, slot->began_us);
	slot->session->flying--;
	if (!atomic_load_explicit(&slot->session->load->stop, memory_order_relaxed))
		submit(slot);
}

static void
submit(struct slot *slot)
{
	struct session *session = slot->session;
	const struct load *load = session->load;
	uint64_t lba = (BEGIN_BYTES + load_draw(session->load)) / session->block_bytes;
	struct scsi_task *task;

	slot->began_us = load_now_us();
	slot->iov.iov_len = load->block_bytes;
	task = load->write ? iscsi_write16_iov_task(session->context, session->lun, lba, NULL,
						    load->block_bytes, (int)session->block_bytes, 0,
						    0, 0, 0, 0, done, slot, &slot->iov, 1)
			   : iscsi_read16_iov_task(session->context, session->lun, lba,
						   load->block_bytes, (int)session->block_bytes, 0,
						   0, 0, 0, 0, done, slot, &slot->iov, 1);
	if (!task)
		die(session, "a command could not be sent");
	session->flying++;
}

/* PORTAL/IQN/LUN; returns the device's bytes. */
static uint64_t
log_in(struct session *session, char *target)
{
	char *lun = strrchr(target, '/'), *iqn = strchr(target, '/');
	struct scsi_readcapacity16 *capacity;
	struct scsi_task *task;
	uint64_t bytes;

	if (!lun || lun == iqn) {
		fprintf(stderr, "native_load: \"%s\" is not PORTAL/IQN/LUN\n", target);
		exit(2);
	}
	*iqn++ = '\0';
	*lun++ = '\0';
	session->lun = atoi(lun);
	session->context = iscsi_create_context("iqn.2026-01.org.iraid:bench");
	iscsi_set_targetname(session->context, iqn);
	iscsi_set_session_type(session->context, ISCSI_SESSION_NORMAL);
	iscsi_set_header_digest(session->context, ISCSI_HEADER_DIGEST_NONE);
	if (iscsi_full_connect_sync(session->context, target, session->lun) != 0)
		die(session, target);
	task = iscsi_readcapacity16_sync(session->context, session->lun);
	capacity = task && task->status == SCSI_STATUS_GOOD ? scsi_datain_unmarshall(task) : NULL;
	if (!capacity)
		die(session, "READ CAPACITY");
	session->block_bytes = capacity->block_length;
	bytes = (capacity->returned_lba + 1) * capacity->block_length;
	scsi_free_scsi_task(task);
	return bytes;
}

static int
serve(struct session *sessions, int count)
{
	struct pollfd wait[TARGETS_MAX];
	int flying = 0;

	for (int i = 0; i < count; i++)
		wait[i] = (struct pollfd){
			.fd = iscsi_get_fd(sessions[i].context),
			.events = (short)iscsi_which_events(sessions[i].context),
		};
	if (poll(wait, (nfds_t)count, -1) < 0)
		abort();
	for (int i = 0; i < count; i++) {
		if (wait[i].revents != 0 &&
		    iscsi_service(sessions[i].context, wait[i].revents) != 0)
			die(&sessions[i], "a session was lost");
		flying += sessions[i].flying;
	}
	return flying;
}

void
raw_load(struct load *load, char **targets, int count, void (*ready)(struct load *load))
{
	struct session sessions[TARGETS_MAX] = { 0 };
	uint64_t least = UINT64_MAX;
	struct slot *slots = calloc((size_t)load->depth, sizeof(*slots));

	if (count > TARGETS_MAX || !slots) {
		fprintf(stderr, "native_load: at most %d targets\n", TARGETS_MAX);
		exit(2);
	}
	for (int i = 0; i < count; i++) {
		uint64_t bytes = log_in(&sessions[i], targets[i]);

		sessions[i].load = load;
		least = bytes < least ? bytes : least;
	}
	if (least < BEGIN_BYTES + load->block_bytes) {
		fprintf(stderr, "native_load: the smallest target has only %llu bytes\n",
			(unsigned long long)least);
		exit(2);
	}
	load->area_bytes = least - BEGIN_BYTES;
	ready(load);
	for (int i = 0; i < load->depth; i++) {
		slots[i].session = &sessions[i % count];
		slots[i].iov.iov_base = aligned_alloc(4096, load->block_bytes);
		if (!slots[i].iov.iov_base)
			abort();
		memset(slots[i].iov.iov_base, 0x5a, load->block_bytes);
		submit(&slots[i]);
	}
	while (serve(sessions, count) > 0)
		;
	for (int i = 0; i < count; i++)
		iscsi_destroy_context(sessions[i].context);
}
