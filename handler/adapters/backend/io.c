/* backend/io.c - reads, writes, flushes and measurements of an open session.
 *
 *     submit -> waiting -> transfer -> commands on the wire -> done -> (tick) done()
 *                             ^              |
 *                             `-- to flush <-'   FUA where the target has none: then flush, then done
 *
 * An io becomes one SCSI command, or several where it is longer than the device's longest transfer.
 * Nothing is allocated.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#define BUSY_PAUSE_FIRST_MS 50
#define ATTENTIONS_MAX 32
#define ABORTS_MAX 3

static void
io_list_append(struct io_list *list, struct backend_io *io)
{
	io->next = NULL;
	if (list->head == NULL)
		list->head = io;
	else
		list->tail->next = io;
	list->tail = io;
}

/* Back to where it came from: the head is the oldest. */
static void
io_list_prepend(struct io_list *list, struct backend_io *io)
{
	io->next = list->head;
	if (list->head == NULL)
		list->tail = io;
	list->head = io;
}

static struct backend_io *
io_list_take(struct io_list *list)
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
	io_list_append(&member->done, io);
}

void
io_create(struct iscsi_member *member)
{
	for (int i = WINDOW_COMMANDS - 1; i >= 0; i--) {
		member->commands[i].member = member;
		member->commands[i].next = member->free_commands;
		member->free_commands = &member->commands[i];
	}
	for (int i = TRANSFERS_MAX - 1; i >= 0; i--) {
		member->transfers[i].next = member->free_transfers;
		member->free_transfers = &member->transfers[i];
	}
}

/* A reason to end the session may arrive behind the GOOD of a flush that was sent later. */
void
io_doubt_flushes(struct iscsi_member *member)
{
	const bool emulated = member->identity.write_cache && !member->identity.fua;

	for (struct backend_io *io = member->done.head; io != NULL; io = io->next)
		if (io->result == 0 &&
		    (io->op == BACKEND_FLUSH || (io->fua && (emulated || io->op == BACKEND_ZERO))))
			io->result = -ENOTCONN;
}

bool
io_idle(const struct iscsi_member *member)
{
	return member->wire_count == 0 && member->waiting_commands == 0 &&
	       member->waiting.head == NULL && member->current == NULL && member->to_flush == NULL;
}

void
io_submit(struct iscsi_member *member, struct backend_io *io)
{
	if (member->state != SESSION_OPEN || member->opened_pending || member->leaving) {
		io_complete(member, io, -ENOTCONN);
		member_wake_up(member);
		return;
	}
	io->since_ms = watch_clock_ms(member);
	io_list_append(&member->waiting, io);
}

const struct backend_io *
io_oldest(const struct iscsi_member *member)
{
	const struct backend_io *oldest = member->waiting.head;

	for (int i = 0; i < TRANSFERS_MAX; i++) {
		const struct backend_io *io = member->transfers[i].io;

		if (io != NULL && (oldest == NULL || io->since_ms < oldest->since_ms))
			oldest = io;
	}
	return oldest;
}

static void
watch_oldest(struct iscsi_member *member)
{
	iscsi_connection_watch_r2ts(member->connection,
				    member->wire_oldest ? &member->wire_oldest->wire : NULL);
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
	watch_oldest(member);
	if (member->wire_count++ == 0 && !member->step_pending) {
		member->progress_ms = member->now_ms;
		member->check_ms = member->now_ms + watch_interval_ms(member);
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
	watch_oldest(member);
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
	if (transfer->again && transfer->error == 0) {
		io_list_prepend(&member->waiting, transfer->io);
		transfer->io = NULL;
		transfer->next = member->free_transfers;
		member->free_transfers = transfer;
		return;
	}
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

	if (command->kind == COMMAND_MEASURE && error != 0 && error != -ENOTCONN)
		measure_failed(member, command);
	command_free(member, command);
	transfer->commands--;
	if (error != 0 && (transfer->error == 0 || transfer->error == -ECANCELED))
		transfer->error = error;
	if (transfer->error != 0 || transfer->again) {
		transfer->issued = true; /* the rest need not be sent */
		if (member->current == transfer)
			member->current = NULL;
	}
	transfer_settle(member, transfer);
}

static void
command_repeat(struct iscsi_member *member, struct command *command, uint64_t at_ms)
{
	if (command->transfer->diverted) { /* nobody wants its data any more */
		command_finish(member, command, -ECANCELED);
		return;
	}
	command->state = COMMAND_WAITING;
	command->repeat_ms = at_ms;
	member->waiting_commands++;
}

static void
command_succeeded(struct iscsi_member *member, struct command *command)
{
	bool whole = command->task.residual_status == SCSI_RESIDUAL_NO_RESIDUAL;

	if (command->kind == COMMAND_MEASURE) {
		command_finish(member, command, measure_answered(member, command));
		return;
	}
	/* How much of the one block a WRITE SAME needed is the target's affair, but it can't need
	 * less than all if it writes it.
	 */
	if (command->kind == COMMAND_SYNCHRONIZE)
		whole = true;
	if (command->kind == COMMAND_WRITE_SAME)
		whole = command->unmaps || command->wire.moved_bytes == command->wire.length_bytes;
	command_finish(member, command, whole ? 0 : -EIO);
}

static void
command_later(struct iscsi_member *member, struct command *command)
{
	uint64_t waited_ms;

	if (command->busy_since_ms == 0) {
		command->busy_since_ms = watch_clock_ms(member);
		command->pause_ms = BUSY_PAUSE_FIRST_MS;
	} else {
		command->pause_ms *= 2;
	}
	waited_ms = watch_clock_ms(member) - command->busy_since_ms;
	if (waited_ms >= member->options.deadline_ms) {
		command_finish(member, command, -EIO);
		return;
	}
	if (command->pause_ms > member->options.deadline_ms - waited_ms) /* once more at its end */
		command->pause_ms = (uint32_t)(member->options.deadline_ms - waited_ms);
	command_repeat(member, command, member->now_ms + command->pause_ms);
}

static void
command_unsupported(struct iscsi_member *member, struct command *command)
{
	/* Others of the short form may be under way when the first is refused. */
	if (command->kind == COMMAND_SYNCHRONIZE && command->task.cdb_size != 16) {
		member->flush_sixteen = true;
		command_repeat(member, command, member->now_ms);
	} else if (command->kind == COMMAND_SYNCHRONIZE && !member->identity.write_cache) {
		command_finish(member, command, 0); /* nothing to flush */
	} else if (command->kind == COMMAND_WRITE_SAME) {
		zero_refused(member, command);
		command->transfer->again = true;
		command_finish(member, command, 0);
	} else {
		command_finish(member, command, -EIO);
	}
}

/* The device is well, the way to it is not: that costs the session and no data. */
static void
command_damaged(struct iscsi_member *member, struct command *command)
{
	member_break(member, -EPROTO,
		     "data of one command had a wrong digest %d times: the network, or one of its "
		     "ends, corrupts data",
		     command->aborts);
	command_repeat(member, command, UINT64_MAX);
}

static void
command_judged(struct iscsi_member *member, struct command *command, enum scsi_verdict verdict)
{
	switch (verdict) {
	case SCSI_OK:
		command_succeeded(member, command);
		return;
	case SCSI_ATTENTION:
		attention_note(member, &command->task);
		if (++command->attentions > ATTENTIONS_MAX)
			command_finish(member, command, -EIO);
		else
			command_repeat(member, command, member->now_ms);
		return;
	case SCSI_WAS_RESET:
		/* Commands may have vanished without an answer, and a volatile cache with them. */
		member_break(member, -ECONNRESET,
			     "the device was reset, by another initiator or by a power failure");
		command_repeat(member, command, UINT64_MAX);
		return;
	case SCSI_BROKEN_WORD:
		/* cache_note() has told the engine, whatever the device says of a cache. */
		member_break(member, -ECONNRESET,
			     "a write that it had acknowledged has failed (deferred error)");
		command_repeat(member, command, UINT64_MAX);
		return;
	case SCSI_TAKEN:
		command_finish(member, command, -EACCES);
		return;
	case SCSI_LATER:
		command_later(member, command);
		return;
	case SCSI_ABORTED:
		if (++command->aborts <= ABORTS_MAX)
			command_repeat(member, command, member->now_ms);
		else if (scsi_damaged(&command->task, command->task.status))
			command_damaged(member, command);
		else
			command_finish(member, command, -EIO);
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

static void
on_command(struct iscsi_task *wire)
{
	struct command *command = (struct command *)((char *)wire - offsetof(struct command, wire));
	struct iscsi_member *member = command->member;
	enum scsi_verdict verdict = scsi_judge(&command->task, command->task.status);
	/* The device could not write what it had acknowledged, and its next flush may be GOOD: as a
	 * deferred error, but that the command it is told with is known to have failed.
	 */
	const bool failed_flush = command->kind == COMMAND_SYNCHRONIZE &&
				  scsi_flush_failed(&command->task, command->task.status);

	wire_remove(member, command);
	cache_note(member, &command->task, command->task.status, failed_flush);
	if (verdict != SCSI_LOST)
		member_progress(member);
	/* What came with the reason to end the session, and behind it, is worth nothing: a device
	 * that lost its cache says GOOD to the next flush.
	 */
	if (member->broken.code != 0)
		verdict = SCSI_LOST;
	else if (failed_flush)
		verdict = SCSI_REFUSED;
	command_judged(member, command, verdict);
	if (failed_flush)
		member_break(member, -ECONNRESET,
			     "a flush failed: writes that it had acknowledged may be lost");
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
	if (command->kind == COMMAND_MEASURE) {
		measure_build(member, command);
		return;
	}
	if (command->kind == COMMAND_WRITE_SAME) {
		scsi_write_same_task(task, command->unmaps, command->offset_bytes / block,
				     command->length_bytes / block, block);
		return;
	}
	scsi_data_task(task, write, fua, member->inspection.device.ten_byte_commands,
		       command->offset_bytes / block, command->length_bytes / block,
		       command->length_bytes);
}

static void
command_send(struct iscsi_member *member, struct command *command)
{
	command_build(member, command);
	command->wire.scsi = &command->task;
	command->wire.lun = member->options.address.lun;
	command->wire.data = command->place;
	command->wire.done = on_command;
	wire_append(member, command);
	iscsi_connection_submit(member->connection, &command->wire);
}

static struct command *
command_make(struct iscsi_member *member, struct transfer *transfer, enum command_kind kind)
{
	struct command *command = member->free_commands;

	member->free_commands = command->next;
	command->transfer = transfer;
	command->kind = kind;
	command->attentions = 0;
	command->aborts = 0;
	command->busy_since_ms = 0;
	command->offset_bytes = 0;
	command->length_bytes = 0;
	transfer->commands++;
	return command;
}

/* One command more of the transfer. */
static void
transfer_send_next(struct iscsi_member *member, struct transfer *transfer)
{
	struct backend_io *io = transfer->io;
	enum command_kind kind = io->op == BACKEND_READ		  ? COMMAND_READ
				 : zero_by_write_same(member, io) ? COMMAND_WRITE_SAME
								  : COMMAND_WRITE;
	struct command *command = command_make(member, transfer, kind);

	command->unmaps = zero_unmaps(member, io);
	command->offset_bytes = io->offset_bytes + transfer->issued_bytes;
	command->length_bytes = cut_length(member, transfer);
	command->place = transfer->place;
	cut_advance(transfer, command->length_bytes);
	if (transfer->issued_bytes == io->length_bytes) {
		transfer->issued = true;
		member->current = NULL;
	}
	command_send(member, command);
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
		.place.iov = io->iov,
		.flush_wanted = io->fua && member->identity.write_cache &&
				((io->op == BACKEND_WRITE && !member->identity.fua) ||
				 io->op == BACKEND_ZERO),
	};
	if (io->op == BACKEND_ZERO)
		transfer->place = zero_place();
	if (io->op == BACKEND_FLUSH || io->op == BACKEND_MEASURE) {
		enum command_kind kind =
			io->op == BACKEND_FLUSH ? COMMAND_SYNCHRONIZE : COMMAND_MEASURE;

		transfer->issued = true;
		command_send(member, command_make(member, transfer, kind));
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
	while (member->free_commands != NULL && member->broken.code == 0) {
		struct transfer *transfer = member->current;

		if (member->to_flush != NULL) {
			send_flush(member);
		} else if (transfer != NULL) {
			transfer_send_next(member, transfer);
		} else if (member->waiting.head != NULL) {
			transfer_start(member, io_list_take(&member->waiting));
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
		if (member->commands[i].state == COMMAND_WAITING &&
		    member->commands[i].repeat_ms < earliest)
			earliest = member->commands[i].repeat_ms;
	}
	return earliest;
}

static void
divert_transfer(struct iscsi_member *member, struct transfer *transfer)
{
	transfer->diverted = true;
	if (!transfer->issued && transfer->error == 0)
		transfer->error = -ECANCELED;
	transfer->issued = true; /* the rest need not be read */
	if (member->current == transfer)
		member->current = NULL;
	for (int i = 0; i < WINDOW_COMMANDS; i++) {
		struct command *command = &member->commands[i];

		if (command->state == COMMAND_ON_WIRE && command->transfer == transfer) {
			iscsi_task_divert(&command->wire);
		} else if (command->state == COMMAND_WAITING && command->transfer == transfer) {
			member->waiting_commands--;
			transfer->commands--;
			if (transfer->error == 0)
				transfer->error = -ECANCELED;
			command_free(member, command);
		}
	}
	transfer_settle(member, transfer);
}

/* Not yet begun: it need not be sent at all. */
static bool
divert_waiting(struct iscsi_member *member, struct backend_io *io)
{
	struct io_list others = { NULL, NULL };
	struct backend_io *other;
	bool found = false;

	while ((other = io_list_take(&member->waiting)) != NULL) {
		if (other == io)
			found = true;
		else
			io_list_append(&others, other);
	}
	member->waiting = others;
	if (found)
		io_complete(member, io, -ECANCELED);
	return found;
}

void
io_divert(struct iscsi_member *member, struct backend_io *io)
{
	assert(io->op == BACKEND_READ);
	for (int i = 0; i < TRANSFERS_MAX; i++) {
		if (member->transfers[i].io == io) {
			divert_transfer(member, &member->transfers[i]);
			member_wake_up(member);
			return;
		}
	}
	if (divert_waiting(member, io))
		member_wake_up(member);
}

/* The connection is gone, and with it whatever could touch memory; its commands were given back. */
void
io_fail_all(struct iscsi_member *member)
{
	struct backend_io *io;

	assert(member->wire_oldest == NULL);
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
	while ((io = io_list_take(&member->waiting)) != NULL)
		io_complete(member, io, -ENOTCONN);
}
