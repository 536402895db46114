/* backend_iscsi_io.c - reads, writes and flushes of an open session.
 *
 *     submit -> waiting -> transfer -> commands on the wire -> done -> (tick) done()
 *                             ^              |
 *                             `-- to flush <-'   FUA where the target has none: then flush, then done
 *
 * An io becomes one SCSI command, or several: a write is cut at what the target takes together
 * with the command, so that no R2T is needed (docs/design/libiscsi.md, "pings"), and both at the
 * longest transfer of the device and at 1024 iovec entries.  Data is never copied; entries of an
 * iovec are, where a command starts inside one.
 *
 * Memory is bounded: WINDOW_COMMANDS commands with at most COMMAND_IOV_MAX entries each, allocated as
 * far as they were ever needed.
 */
#include "backend_iscsi_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUSY_PAUSE_FIRST_MS 50
#define ATTENTIONS_MAX 32
#define ABORTS_MAX 3

static void
list_append(struct io_list *list, struct backend_io *io)
{
	io->next = NULL;
	if (list->head == NULL)
		list->head = io;
	else
		list->tail->next = io;
	list->tail = io;
}

static struct backend_io *
list_take(struct io_list *list)
{
	struct backend_io *io = list->head;

	if (io != NULL)
		list->head = io->next;
	return io;
}

static void
io_complete(struct iscsi_member *member, struct backend_io *io, int result)
{
	io->result = result;
	list_append(&member->done, io);
}

int
io_create(struct iscsi_member *member)
{
	member->sink = malloc(COMMAND_BYTES_MAX);	/* never touched where nothing is diverted */
	if (member->sink == NULL)
		return -ENOMEM;
	for (int i = WINDOW_COMMANDS - 1; i >= 0; i--) {
		member->commands[i].member = member;
		member->commands[i].next = member->free_commands;
		member->free_commands = &member->commands[i];
	}
	for (int i = TRANSFERS_MAX - 1; i >= 0; i--) {
		member->transfers[i].next = member->free_transfers;
		member->free_transfers = &member->transfers[i];
	}
	if (getrandom(&member->mark_value, sizeof(member->mark_value), GRND_NONBLOCK) < 0)
		member->mark_value = monotonic_ms() * 0x9e3779b97f4a7c15;
	return 0;
}

void
io_destroy(struct iscsi_member *member)
{
	for (int i = 0; i < WINDOW_COMMANDS; i++)
		free(member->commands[i].pieces);
	free(member->sink);
}

bool
io_idle(const struct iscsi_member *member)
{
	return member->wire_count == 0 && member->waiting_commands == 0 && member->waiting.head == NULL &&
	       member->current == NULL && member->to_flush == NULL;
}

void
io_submit(struct iscsi_member *member, struct backend_io *io)
{
	if (member->state != SESSION_OPEN || member->opened_pending || member->leaving) {
		io_complete(member, io, -ENOTCONN);
		member_wake_up(member);
		return;
	}
	list_append(&member->waiting, io);
}

static void
wire_append(struct iscsi_member *member, struct command *command)
{
	command->state = COMMAND_ON_WIRE;
	command->next = NULL;
	command->previous = member->wire_newest;
	if (member->wire_newest != NULL)
		member->wire_newest->next = command;
	else
		member->wire_oldest = command;
	member->wire_newest = command;
	if (member->wire_count++ == 0 && !member->step_pending) {
		member->progress_ms = member->now_ms;
		member->check_ms = 0;
	}
}

static void
wire_remove(struct iscsi_member *member, struct command *command)
{
	if (command->previous != NULL)
		command->previous->next = command->next;
	else
		member->wire_oldest = command->next;
	if (command->next != NULL)
		command->next->previous = command->previous;
	else
		member->wire_newest = command->previous;
	member->wire_count--;
	member->idle_since_ms = member->now_ms;
}

static void
command_free(struct iscsi_member *member, struct command *command)
{
	command->state = COMMAND_FREE;
	command->transfer = NULL;
	command->next = member->free_commands;
	member->free_commands = command;
}

static void
transfer_settle(struct iscsi_member *member, struct transfer *transfer)
{
	if (!transfer->issued || transfer->commands > 0)
		return;
	if (transfer->flush_wanted && transfer->error == 0) {
		transfer->flush_wanted = false;
		transfer->flushing = true;
		transfer->issued = false;
		transfer->next = member->to_flush;
		member->to_flush = transfer;
		return;
	}
	io_complete(member, transfer->io, transfer->error);
	transfer->io = NULL;
	transfer->next = member->free_transfers;
	member->free_transfers = transfer;
}

/* The command ended for good. */
static void
command_finish(struct iscsi_member *member, struct command *command, int error)
{
	struct transfer *transfer = command->transfer;

	command_free(member, command);
	transfer->commands--;
	if (error != 0 && transfer->error == 0)
		transfer->error = error;
	if (transfer->error != 0) {
		transfer->issued = true;	/* the rest need not be sent */
		if (member->current == transfer)
			member->current = NULL;
	}
	transfer_settle(member, transfer);
}

static void
command_repeat(struct iscsi_member *member, struct command *command, uint64_t at_ms)
{
	command->state = COMMAND_WAITING;
	command->repeat_ms = at_ms;
	member->waiting_commands++;
}

/*
 * libiscsi takes an iSCSI response code other than "command completed" with SCSI status 0 for
 * success, and a target may end a read early without saying so in the residual.  So a read leaves a
 * mark in the last bytes of its destination; if it is still there after "success", either
 * the data happens to be the mark, or it never came.  The command is repeated with the inverse
 * mark: data can't be both.
 */
static void
mark_destination(struct command *command)
{
	uint64_t value = command->mark_tries == 0 ? command->member->mark_value :
			 ~command->member->mark_value;
	uint32_t left = command->length_bytes;
	int last = 0;

	while (left > command->iov[last].iov_len)
		left -= (uint32_t)command->iov[last++].iov_len;
	command->mark_bytes = left < sizeof(value) ? (uint8_t)left : sizeof(value);
	command->mark = (uint8_t *)command->iov[last].iov_base + left - command->mark_bytes;
	memcpy(command->mark, &value, command->mark_bytes);
}

static bool
mark_is_left(const struct command *command)
{
	uint64_t value = command->mark_tries == 0 ? command->member->mark_value :
			 ~command->member->mark_value;

	return memcmp(command->mark, &value, command->mark_bytes) == 0;
}

static void
command_succeeded(struct iscsi_member *member, struct command *command)
{
	bool data = command->kind != COMMAND_SYNCHRONIZE;

	if (data && command->task.residual_status != SCSI_RESIDUAL_NO_RESIDUAL) {
		command_finish(member, command, -EIO);
	} else if (command->kind == COMMAND_READ && !command->transfer->diverted && mark_is_left(command)) {
		if (command->mark_tries++ == 0)
			command_repeat(member, command, member->now_ms);
		else
			command_finish(member, command, -EIO);
	} else {
		command_finish(member, command, 0);
	}
}

static void
command_later(struct iscsi_member *member, struct command *command)
{
	if (command->busy_since_ms == 0) {
		command->busy_since_ms = member->now_ms;
		command->pause_ms = BUSY_PAUSE_FIRST_MS;
	} else {
		command->pause_ms *= 2;
	}
	if (member->now_ms + command->pause_ms - command->busy_since_ms > member->options.deadline_ms)
		command_finish(member, command, -EIO);
	else
		command_repeat(member, command, member->now_ms + command->pause_ms);
}

static void
command_unsupported(struct iscsi_member *member, struct command *command)
{
	if (command->kind == COMMAND_SYNCHRONIZE && !member->flush_sixteen) {
		member->flush_sixteen = true;
		command_repeat(member, command, member->now_ms);
	} else if (command->kind == COMMAND_SYNCHRONIZE && !member->identity.write_cache) {
		command_finish(member, command, 0);	/* nothing to flush */
	} else {
		command_finish(member, command, -EIO);
	}
}

static void
command_judged(struct iscsi_member *member, struct command *command, enum scsi_verdict verdict)
{
	switch (verdict) {
	case SCSI_OK:
		command_succeeded(member, command);
		return;
	case SCSI_ATTENTION:
		if (++command->attentions > ATTENTIONS_MAX)
			command_finish(member, command, -EIO);
		else
			command_repeat(member, command, member->now_ms);
		return;
	case SCSI_WAS_RESET:
		/* Commands may have vanished without an answer, and a volatile cache with them. */
		member_break(member, -ECONNRESET, "the device was reset, by another initiator or by power");
		command_repeat(member, command, UINT64_MAX);
		return;
	case SCSI_TAKEN:
		command_finish(member, command, -EACCES);
		return;
	case SCSI_LATER:
		command_later(member, command);
		return;
	case SCSI_ABORTED:
		if (++command->aborts > ABORTS_MAX)
			command_finish(member, command, -EIO);
		else
			command_repeat(member, command, member->now_ms);
		return;
	case SCSI_UNSUPPORTED:
		command_unsupported(member, command);
		return;
	case SCSI_MEDIUM_ERROR:
		command_finish(member, command, command->kind == COMMAND_READ ? -ENODATA : -EIO);
		return;
	case SCSI_PROTECTED:
		command_finish(member, command, -EROFS);
		return;
	case SCSI_NO_LUN:
	case SCSI_REFUSED:
		command_finish(member, command, -EIO);
		return;
	case SCSI_LOST:
		member_break(member, -ECONNRESET, "the connection ended");
		command_finish(member, command, -ENOTCONN);
		return;
	}
}

/* From libiscsi, perhaps from inside iscsi_scsi_command_async(). */
static void
on_command(struct iscsi_context *context, int status, void *data, void *private_data)
{
	struct command *command = private_data;
	struct iscsi_member *member = command->member;
	enum scsi_verdict verdict;

	wire_remove(member, command);
	verdict = member->dropping ? SCSI_LOST : scsi_judge(&command->task, status);
	scsi_task_forget_sense(&command->task);
	if (verdict != SCSI_LOST)
		member_progress(member);
	command_judged(member, command, verdict);
}

static void
command_build(struct iscsi_member *member, struct command *command)
{
	struct scsi_task *task = &command->task;
	uint32_t block = member->identity.block_bytes;
	bool write = command->kind == COMMAND_WRITE;
	bool fua = write && command->transfer->io->fua && member->identity.fua;

	if (command->kind == COMMAND_SYNCHRONIZE) {
		scsi_synchronize_cache_task(task, member->flush_sixteen);
		return;
	}
	scsi_data_task(task, write, fua, member->ten_byte_commands, command->offset_bytes / block,
		       command->length_bytes / block, command->length_bytes);
	/* Before it is queued: later releases of libiscsi send at once. */
	if (write) {
		scsi_task_set_iov_out(task, (struct scsi_iovec *)command->iov, command->iov_count);
	} else {
		if (!command->transfer->diverted)
			mark_destination(command);
		scsi_task_set_iov_in(task, (struct scsi_iovec *)command->iov, command->iov_count);
	}
}

static void
command_send(struct iscsi_member *member, struct command *command)
{
	uint32_t payload = command->kind == COMMAND_WRITE ? command->length_bytes : 0;

	command_build(member, command);
	command->sent_ms = member->now_ms;
	member->issued_bytes += PDU_HEADER_BYTES + payload;
	command->end_position = member->issued_bytes;
	wire_append(member, command);
	member->queued_commands++;
	member->queued_bytes += payload;
	if (iscsi_scsi_command_async(member->context, scsi_wire_lun(member->options.address.lun),
				     &command->task, on_command, NULL, command) != 0) {
		wire_remove(member, command);
		command_finish(member, command, -ENOTCONN);
		member_break(member, -ENOMEM, "the iSCSI library did not take a command");
	}
}

/* Between two calls of libiscsi only the array says where data goes, and nothing is sent or received
 * inside this call: from here on it goes into the sink.
 */
static void
divert_command(struct iscsi_member *member, struct command *command)
{
	command->transfer->diverted = true;
	for (int i = 0; i < command->iov_count; i++)
		command->iov[i].iov_base = member->sink;
}

void
io_divert(struct iscsi_member *member, struct backend_io *io)
{
	for (int i = 0; i < WINDOW_COMMANDS; i++) {
		struct command *command = &member->commands[i];

		if (command->state != COMMAND_FREE && command->transfer->io == io)
			divert_command(member, command);
	}
	for (int i = 0; i < io->iov_count; i++)	/* of what is not sent yet */
		io->iov[i] = (struct iovec){ member->sink, io->iov[i].iov_len };
}

static struct command *
command_make(struct iscsi_member *member, struct transfer *transfer, enum command_kind kind)
{
	struct command *command = member->free_commands;

	member->free_commands = command->next;
	command->transfer = transfer;
	command->kind = kind;
	command->mark_tries = 0;
	command->attentions = 0;
	command->aborts = 0;
	command->busy_since_ms = 0;
	command->offset_bytes = 0;
	command->length_bytes = 0;
	transfer->commands++;
	return command;
}

/* One command more of the transfer.  False if it can't be cut: the transfer fails. */
static bool
transfer_send_next(struct iscsi_member *member, struct transfer *transfer)
{
	struct backend_io *io = transfer->io;
	int entries;
	uint32_t length = cut_length(member, transfer, &entries);
	struct command *command;

	if (length == 0)
		return false;
	command = command_make(member, transfer, io->op == BACKEND_READ ? COMMAND_READ : COMMAND_WRITE);
	command->offset_bytes = io->offset_bytes + transfer->issued_bytes;
	command->length_bytes = length;
	command->iov = &io->iov[transfer->iov_index];
	command->iov_count = entries;
	if (transfer->iov_offset != 0 &&
	    !cut_pieces(command, command->iov, entries, transfer->iov_offset)) {
		command_free(member, command);
		transfer->commands--;
		return false;
	}
	cut_advance(transfer, length);
	if (transfer->issued_bytes == io->length_bytes) {
		transfer->issued = true;
		member->current = NULL;
	}
	command_send(member, command);
	return true;
}

static void
transfer_start(struct iscsi_member *member, struct backend_io *io)
{
	struct transfer *transfer = member->free_transfers;

	if (!cut_possible(member, io)) {
		io_complete(member, io, -EIO);
		return;
	}
	assert(transfer != NULL);
	member->free_transfers = transfer->next;
	*transfer = (struct transfer){
		.io = io,
		.flush_wanted = io->op == BACKEND_WRITE && io->fua && !member->identity.fua &&
				member->identity.write_cache,
	};
	if (io->op == BACKEND_FLUSH) {
		transfer->issued = true;
		command_send(member, command_make(member, transfer, COMMAND_SYNCHRONIZE));
		return;
	}
	member->current = transfer;
}

static void
send_repeats(struct iscsi_member *member)
{
	for (int i = 0; i < WINDOW_COMMANDS && member->waiting_commands > 0; i++) {
		struct command *command = &member->commands[i];

		if (command->state != COMMAND_WAITING || command->repeat_ms > member->now_ms)
			continue;
		member->waiting_commands--;
		command_send(member, command);
	}
}

static void
send_flush(struct iscsi_member *member)
{
	struct transfer *transfer = member->to_flush;

	member->to_flush = transfer->next;
	transfer->issued = true;
	command_send(member, command_make(member, transfer, COMMAND_SYNCHRONIZE));
}

void
io_pump(struct iscsi_member *member)
{
	if (member->waiting_commands > 0)
		send_repeats(member);
	while (member->free_commands != NULL && member->broken_error == 0) {
		struct transfer *transfer = member->current;

		if (member->to_flush != NULL) {
			send_flush(member);
		} else if (transfer != NULL) {
			if (!transfer_send_next(member, transfer)) {
				transfer->error = -EIO;
				transfer->issued = true;
				member->current = NULL;
				transfer_settle(member, transfer);
			}
		} else if (member->waiting.head != NULL) {
			transfer_start(member, list_take(&member->waiting));
		} else {
			return;
		}
	}
}

uint64_t
io_repeat_ms(const struct iscsi_member *member)
{
	uint64_t earliest = UINT64_MAX;

	for (int i = 0; i < WINDOW_COMMANDS && member->waiting_commands > 0; i++) {
		if (member->commands[i].state == COMMAND_WAITING && member->commands[i].repeat_ms < earliest)
			earliest = member->commands[i].repeat_ms;
	}
	return earliest;
}

/* The context is gone, and with it whatever could touch memory. */
void
io_fail_all(struct iscsi_member *member)
{
	struct backend_io *io;

	/* After a logout that the target asked for, libiscsi forgets commands without calling back. */
	while (member->wire_oldest != NULL) {
		struct command *command = member->wire_oldest;

		wire_remove(member, command);
		scsi_task_forget_sense(&command->task);
		command_finish(member, command, -ENOTCONN);
	}
	for (int i = 0; i < WINDOW_COMMANDS; i++) {
		if (member->commands[i].state == COMMAND_WAITING)
			command_finish(member, &member->commands[i], -ENOTCONN);
	}
	member->waiting_commands = 0;
	if (member->current != NULL) {
		struct transfer *transfer = member->current;

		member->current = NULL;
		transfer->issued = true;
		transfer->error = -ENOTCONN;
		transfer_settle(member, transfer);
	}
	while (member->to_flush != NULL) {
		struct transfer *transfer = member->to_flush;

		member->to_flush = transfer->next;
		transfer->issued = true;
		transfer->error = -ENOTCONN;
		transfer_settle(member, transfer);
	}
	while ((io = list_take(&member->waiting)) != NULL)
		io_complete(member, io, -ENOTCONN);
}
