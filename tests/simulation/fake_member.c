/* fake_member.c - see fake_member.h. */
#include "fake_member.h"

#include "pure/layout.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_WINDOW 4 /* commands of a silent device that others wait behind */

static void session_event(struct event *event);
static void watch_event(struct event *event);

static struct fake_member *
member_of(struct backend *backend)
{
	return (struct fake_member *)backend;
}

static bool
path_up(const struct fake_member *member, int path)
{
	return member->device->reachable && !member->device->path_down[path] && !member->away;
}

/* The device's other session, a second gateway's; NULL: there is none. */
static struct fake_member *
other_session(const struct fake_member *member)
{
	return member->device == member ? member->second : member->device;
}

/* --- who may write --- */

static bool
held_by_another(const struct fake_member *member)
{
	const struct fake_member *device = member->device;

	return device->reservations && device->foreign == NULL && device->holder != 0 &&
	       device->holder != member->gateway;
}

/* A write of this session meets a conflict; where there are reservations, a read too (Exclusive
 * Access, Registrants Only).
 */
static bool
is_barred(const struct fake_member *member)
{
	return member->device->taken || member->device->conflicts || member->preempted ||
	       (held_by_another(member) && !member->device->preempts_nothing);
}

static void
after(struct fake_member *member, struct event *event, uint64_t low_us, uint64_t high_us)
{
	schedule_add(member->schedule, event,
		     member->schedule->now_us + random_between(member->random, low_us, high_us));
}

/* --- commands --- */

static struct fake_command *
command_take(struct fake_member *member)
{
	struct fake_command *command = member->free_commands;

	if (command != NULL)
		member->free_commands = command->next;
	else
		command = malloc(sizeof(*command));
	assert(command != NULL);
	*command = (struct fake_command){ .member = member };
	return command;
}

static void
command_give(struct fake_command *command)
{
	free(command->copy);
	command->copy = NULL;
	command->next = command->member->free_commands;
	command->member->free_commands = command;
}

static void
unlink_command(struct fake_command **link, struct fake_command *command)
{
	while (*link != command)
		link = &(*link)->next;
	*link = command->next;
}

static void
tell(const struct fake_command *command, const char *what, int result)
{
	static const char *const names[] = { "read", "write", "flush", "zero", "measure" };
	const struct fake_member *member = command->member;

	if (member->device->trace)
		fprintf(stderr, "      %10.3f    %s %s%s %#llx + %#x %s%s\n",
			(double)member->schedule->now_us / 1000, member->label,
			command->io != NULL ? names[command->io->op] : "late write",
			command->fua ? " fua" : "", (unsigned long long)command->offset_bytes,
			command->length_bytes, what, result != 0 ? strerror(-result) : "");
}

static uint32_t
checksum(const struct backend_io *io)
{
	uint32_t sum = 0;

	for (int i = 0; i < io->iov_count; i++)
		sum = crc32c(sum, io->iov[i].iov_base, io->iov[i].iov_len);
	return sum;
}

static bool
is_write(const struct backend_io *io)
{
	return io->op == BACKEND_WRITE || io->op == BACKEND_ZERO;
}

/* Data of a write, as one run; freed by the caller. */
static uint8_t *
gathered(const struct fake_command *command)
{
	uint8_t *data = calloc(1, command->length_bytes);
	size_t at = 0;

	assert(data != NULL);
	for (int i = 0; i < command->io->iov_count; i++) {
		memcpy(data + at, command->io->iov[i].iov_base, command->io->iov[i].iov_len);
		at += command->io->iov[i].iov_len;
	}
	return data;
}

static struct disk *
disk_of(struct fake_member *member)
{
	return member->device->foreign != NULL ? member->device->foreign : &member->device->disk;
}

static void
note_landing(const struct fake_command *command)
{
	struct fake_member *device = command->member->device;

	device->written |= command->io != NULL;
	if (device->landed != NULL && device->foreign == NULL)
		device->landed(device->owner, command->member, command->offset_bytes,
			       command->length_bytes);
}

/* It is in the device's cache, or nobody but the device knows. */
static void
note_cached(const struct fake_command *command)
{
	const struct fake_member *member = command->member;

	if (member->wrote != NULL && member->device->foreign == NULL &&
	    member->device->disk.write_cache && !command->fua)
		member->wrote(member->device->owner, member->device, command->offset_bytes,
			      command->length_bytes);
}

static void
write_iov(struct fake_command *command)
{
	struct fake_member *member = command->member;
	uint64_t at = command->offset_bytes;
	bool whole = command->io->op != BACKEND_ZERO;

	note_landing(command);
	note_cached(command);
	for (int i = 0; i < command->io->iov_count; i++)
		whole &= command->io->iov[i].iov_len % DISK_SECTOR == 0;
	if (!whole) { /* zeros, or a sector in two pieces */
		uint8_t *data = gathered(command);

		disk_write(disk_of(member), at, data, command->length_bytes, command->fua);
		free(data);
		return;
	}
	for (int i = 0; i < command->io->iov_count; i++) {
		disk_write(disk_of(member), at, command->io->iov[i].iov_base,
			   command->io->iov[i].iov_len, command->fua);
		at += command->io->iov[i].iov_len;
	}
}

/* Some blocks of a write, each kept or not. */
static void
write_torn(struct fake_command *command)
{
	struct fake_member *member = command->member;
	const uint32_t block = member->device->disk.block_bytes;
	uint8_t *data = gathered(command);

	note_landing(command);
	member->device->counts.torn++;
	tell(command, "is torn", 0);
	for (uint32_t at = 0; at < command->length_bytes; at += block)
		if (random_once_in(member->random, 2))
			disk_write(disk_of(member), command->offset_bytes + at, data + at, block,
				   command->fua);
	free(data);
}

static int
stuck_error(const struct fake_command *command)
{
	const struct disk *disk = &command->member->device->disk;

	for (int i = 0; i < disk->stuck_count && command->member->device->foreign == NULL; i++)
		if (command->member->device->stuck_error != 0 &&
		    disk->stuck[i] >= command->offset_bytes &&
		    disk->stuck[i] < command->offset_bytes + command->length_bytes)
			return command->member->device->stuck_error;
	return -ENODATA;
}

static int
apply_read(struct fake_command *command)
{
	struct fake_member *member = command->member;

	if (member->device->refuse_reads ||
	    (member->device->refused_offset_bytes != 0 &&
	     command->offset_bytes == member->device->refused_offset_bytes))
		return -EIO;
	if (disk_is_damaged(disk_of(member), command->offset_bytes, command->length_bytes)) {
		member->device->counts.medium_errors++;
		return stuck_error(command);
	}
	if (!command->diverted)
		disk_read_iov(disk_of(member), command->offset_bytes, command->io->iov,
			      command->io->iov_count);
	return 0;
}

static int
apply(struct fake_command *command)
{
	struct fake_member *member = command->member;

	switch (command->io->op) {
	case BACKEND_READ:
		member->device->reads++;
		if (member->device->conflicts_on_reads ||
		    (member->device->reservations && !member->device->shares_reads &&
		     is_barred(member)))
			return -EACCES;
		return apply_read(command);
	case BACKEND_ZERO:
		member->device->zeros++;
		/* fall through */
	case BACKEND_WRITE:
		member->device->writes++;
		/* What is on its way to the device has to stay as it was when it was handed over.
		 */
		assert(!command->checked || checksum(command->io) == command->checksum);
		if (is_barred(member))
			return -EACCES;
		if (member->device->refuse_writes ||
		    (command->offset_bytes >= member->device->refuse_from_bytes &&
		     command->offset_bytes < member->device->refuse_to_bytes) ||
		    disk_is_unwritable(disk_of(member), command->offset_bytes,
				       command->length_bytes))
			return -EIO;
		write_iov(command);
		return 0;
	case BACKEND_FLUSH:
		member->device->flushes++;
		if (is_barred(member))
			return -EACCES;
		if (member->device->refuse_flushes)
			return -EIO;
		/* One that was done when it arrived covers nothing that was written since. */
		if (!command->done)
			disk_flush(disk_of(member));
		return 0;
	case BACKEND_MEASURE:
		command->io->capacity_bytes = member->device->capacity_bytes;
		return 0;
	}
	return -EIO;
}

static void
answer(struct fake_command *command, int result)
{
	struct backend_io *io = command->io;

	tell(command, "", result);
	unlink_command(&command->member->queue, command);
	command->member->queued--;
	if (result == -EIO)
		command->member->device->refused_us = command->member->schedule->now_us;
	command->member->device->taken_told |= command->member->device->taken && result == -EACCES;
	command->member->device->flushes_answered += io->op == BACKEND_FLUSH && result == 0;
	if (result != -ECANCELED)
		command->member->progress_us = command->member->schedule->now_us;
	schedule_cancel(command->member->schedule, &command->event);
	command_give(command);
	/* What the adapter was lent it may edit: the engine must not rely on it. */
	if (io->iov_count > 0)
		memset(io->iov, 0xA5, (size_t)io->iov_count * sizeof(*io->iov));
	io->result = result;
	io->done(io);
}

static bool
is_silent(const struct fake_command *command)
{
	return command->member->device->hung ||
	       (command->offset_bytes >= command->member->device->mute_from_bytes &&
		command->offset_bytes < command->member->device->mute_to_bytes);
}

static void
command_event(struct event *event)
{
	struct fake_command *command = (struct fake_command *)event;
	struct fake_member *member = command->member;

	if (command->orphan) {
		answer(command, -ENOTCONN);
		return;
	}
	if (command->unsent) {
		answer(command, -ECANCELED);
		return;
	}
	if (is_silent(command) || command->undelivered)
		return; /* stays as it is until something changes */
	if (member->device->cut_off) {
		if (!command->done)
			command->result = apply(command);
		command->done = true;
		return;
	}
	if (!command->done || command->io->op == BACKEND_FLUSH)
		command->result = apply(command);
	answer(command, command->result);
}

static uint64_t
superblock_delay(const struct fake_member *member, const struct backend_io *io)
{
	return io->op == BACKEND_WRITE && io->offset_bytes < LAYOUT_MAP_OFFSET
		       ? member->device->superblock_us_max
		       : 0;
}

/* The watch looks when its deadline is over, and what was sent since it looked last may have to end
 * before that.
 */
static void
watch_command(struct fake_member *member, const struct fake_command *command)
{
	const uint64_t due_us = command->submit_us + member->command_us_max;

	if (member->command_us_max == 0 || member->watch.place == 0 ||
	    member->watch.at_us <= due_us)
		return;
	schedule_cancel(member->schedule, &member->watch);
	schedule_add(member->schedule, &member->watch, due_us);
}

static void
fake_submit(struct backend *backend, struct backend_io *io)
{
	struct fake_member *member = member_of(backend);
	struct fake_command *command = command_take(member);
	uint64_t total = 0;

	for (int i = 0; i < io->iov_count; i++)
		total += io->iov[i].iov_len;
	assert(io->op == BACKEND_FLUSH || io->op == BACKEND_MEASURE || io->op == BACKEND_ZERO ||
	       (total == io->length_bytes && total > 0));
	assert(io->op != BACKEND_ZERO || (total == 0 && io->length_bytes > 0));
	assert(io->offset_bytes % member->device->disk.block_bytes == 0);
	assert(io->length_bytes % member->device->disk.block_bytes == 0);
	assert(!member->open_now ||
	       io->offset_bytes + io->length_bytes <= member->device->capacity_bytes);
	command->event.fire = command_event;
	command->io = io;
	command->offset_bytes = io->offset_bytes;
	command->length_bytes = io->length_bytes;
	command->fua = io->fua;
	command->undelivered = member->device->cut_off;
	command->checked = io->op == BACKEND_WRITE && random_once_in(member->random, 4);
	if (command->checked)
		command->checksum = checksum(io);
	command->orphan = !member->open_now;
	command->submit_us = member->schedule->now_us;
	if (io->op == BACKEND_FLUSH && !command->orphan && !is_silent(command) &&
	    !member->device->cut_off && !member->device->refuse_flushes &&
	    random_once_in(member->random, 2)) {
		disk_flush(disk_of(member));
		command->done = true;
	}
	if (member->queued == 0)
		member->progress_us = member->schedule->now_us;
	command->next = member->queue;
	member->queue = command;
	member->queued++;
	watch_command(member, command);
	if (command->orphan)
		after(member, &command->event, 0, 0);
	else if (!is_silent(command))
		after(member, &command->event, member->device->answer_us_min,
		      member->device->answer_us_max + superblock_delay(member, io));
}

/* No device has said anything of a command that waits for room behind those that are never answered. */
static bool
waits_for_room(const struct fake_command *command)
{
	int before = 0;

	for (const struct fake_command *older = command->next; older != NULL; older = older->next)
		before++;
	return before >= SILENT_WINDOW && (command->undelivered || is_silent(command));
}

static void
fake_divert(struct backend *backend, struct backend_io *io)
{
	struct fake_member *member = member_of(backend);

	for (struct fake_command *command = member->queue; command != NULL; command = command->next)
		if (command->io == io) {
			assert(io->op == BACKEND_READ);
			command->diverted = true;
			member->device->counts.diverted++;
			if (waits_for_room(command) && !command->orphan) {
				command->unsent = true;
				schedule_cancel(member->schedule, &command->event);
				after(member, &command->event, 0, 0);
			}
			return;
		}
}

/* --- what becomes of commands whose session ended --- */

static void
late_event(struct event *event)
{
	struct fake_command *command = (struct fake_command *)event;
	struct fake_member *member = command->member;

	if (member->device->hung)
		return;
	unlink_command(&member->device->late, command);
	if (!member->device->refuse_writes && !member->device->taken && !member->preempted &&
	    !held_by_another(member)) {
		note_landing(command);
		member->device->counts.late_landed++;
		tell(command, "lands", 0);
		disk_write(&member->device->disk, command->offset_bytes, command->copy,
			   command->length_bytes, command->fua);
	}
	command_give(command);
}

/* A write that the device holds and will carry out when it gets to it. */
static void
make_late(struct fake_command *command)
{
	static const uint64_t longest_us[] = { 2000, 100000, 3000000 };
	struct fake_member *member = command->member;
	struct fake_command *late = command_take(member);
	uint64_t kind = fake_random(member->random) % 4;

	late->event.fire = late_event;
	late->copy = gathered(command);
	late->offset_bytes = command->offset_bytes;
	late->length_bytes = command->length_bytes;
	late->fua = command->fua;
	late->next = member->device->late;
	member->device->late = late;
	member->device->counts.late++;
	if (kind < 3 && !member->device->hung) /* the others: not before they must */
		after(member, &late->event, 0, longest_us[kind]);
}

static void
settle_write(struct fake_command *command, bool may_be_late)
{
	struct fake_member *member = command->member;
	const bool fua = command->fua;
	uint64_t fate = fake_random(member->random) % 8;

	if (member->device->refuse_writes || is_barred(member) || member->device->foreign != NULL ||
	    command->done || command->undelivered || command->orphan ||
	    disk_is_unwritable(&member->device->disk, command->offset_bytes, command->length_bytes))
		return;
	assert(!command->checked || checksum(command->io) == command->checksum);
	if (is_silent(command)) {
		if (may_be_late && fate != 0)
			make_late(command);
		return;
	}
	/* It is written through before it is answered, and nobody waits for that any more. */
	command->fua &= random_once_in(member->random, 2);
	if (fate < 2) {
		tell(command, "is done unanswered", 0);
		member->device->counts.answers_lost++;
		write_iov(command);
	} else if (fate == 2 || fate == 3) {
		write_torn(command);
	}
	command->fua = fua;
	if (may_be_late && (fate == 3 || fate > 5))
		make_late(command);
}

static void
settle_in_flight(struct fake_member *member, bool may_be_late, bool tell)
{
	while (member->queue != NULL) {
		struct fake_command *command = member->queue;

		if (tell && is_write(command->io) && !command->orphan)
			note_cached(command);
		if (is_write(command->io))
			settle_write(command, may_be_late);
		else if (command->io->op == BACKEND_FLUSH && !member->device->hung &&
			 !command->undelivered && !command->orphan &&
			 random_once_in(member->random, 2))
			disk_flush(disk_of(member));
		if (tell) {
			answer(command, -ENOTCONN);
			continue;
		}
		member->queue = command->next;
		member->queued--;
		schedule_cancel(member->schedule, &command->event);
		command_give(command);
	}
}

/* LOGICAL UNIT RESET: late writes land now or never. */
static void
fence(struct fake_member *member, bool may_land)
{
	while (member->device->late != NULL) {
		struct fake_command *command = member->device->late;

		schedule_cancel(member->schedule, &command->event);
		member->device->counts.late_fenced++;
		if (may_land && random_once_in(member->random, 2)) {
			late_event(&command->event);
			continue;
		}
		member->device->late = command->next;
		command_give(command);
	}
}

void
fake_member_fence(struct fake_member *member)
{
	fence(member, false);
}

void
fake_member_take(struct fake_member *member)
{
	fence(member, true);
	member->device->taken = true;
	member->device->taken_told = false;
}

/* PREEMPT AND ABORT: of what the other gateway has in flight each write was done, in part, or not;
 * it is told of none.
 */
static void
preempt(struct fake_member *member)
{
	for (struct fake_command *command = member->queue; command != NULL;
	     command = command->next) {
		if (!is_write(command->io) || command->orphan || command->done)
			continue;
		settle_write(command, false);
		command->done = true;
		command->result = -EACCES;
	}
	member->preempted = true;
}

/* Who logs in has the reservation from then on: it is free, or our own, or there is permission to
 * take it.
 */
static void
reserve(struct fake_member *member)
{
	struct fake_member *device = member->device, *other = other_session(member);

	member->preempted = false;
	if (!device->reservations || device->foreign != NULL)
		return;
	if (held_by_another(member)) {
		member->predecessor = device->holder;
		if (other != NULL && !device->preempts_nothing)
			preempt(other);
	}
	device->holder = member->gateway;
	member->may_take = false;
}

bool
fake_member_is_fenced(const struct fake_member *session)
{
	return session->preempted || held_by_another(session);
}

/* --- the session --- */

static void
forget_session(struct fake_member *member)
{
	member->releasing = false;
	schedule_cancel(member->schedule, &member->session);
	schedule_cancel(member->schedule, &member->watch);
	member->open_now = false;
	member->opening = false;
	member->closing = false;
}

static void
tell_broken_word(struct fake_member *member)
{
	if (member->words_told == member->backend.writes_lost)
		return;
	member->words_told = member->backend.writes_lost;
	if (member->device->word_broken != NULL)
		member->device->word_broken(member->device->owner, member);
}

static void
report_closed(struct fake_member *member, int error, const char *reason)
{
	if (error != -ECANCELED && member->backend.paths > 1)
		member->path = !member->path;
	forget_session(member);
	tell_broken_word(member);
	member->backend.events->closed(member->backend.events_owner, error, reason);
}

static void
report_opened(struct fake_member *member)
{
	struct backend_identity identity = {
		.capacity_bytes = member->device->capacity_bytes,
		.block_bytes = member->device->told_block_bytes != 0
				       ? member->device->told_block_bytes
				       : member->device->disk.block_bytes,
		.write_cache = member->device->disk.write_cache && !member->device->hides_cache,
		.fua = !member->device->no_fua,
		/* Some targets can't tell. */
		.cache_kept = member->device->cache_kept &&
			      (!member->device->reservations ||
			       member->device->holder == member->gateway) &&
			      fake_random(member->random) % 3 != 0,
		.reservation = member->device->reservations,
		.taken = member->device->reservations && !member->device->shares_reads,
		.transfer_bytes_max = 1u << 20,
		.zero_bytes_max = member->device->zeros_sent ? 0 : 1u << 20,
	};

	member->told_cache = identity.write_cache;
	reserve(member);
	member->was_taken |= identity.reservation;
	identity.predecessor_key = member->predecessor;
	member->device->cache_kept = true;
	member->device->had_cache |= member->device->disk.write_cache;

	if (!member->device->fence_broken)
		fence(member, true);
	member->opening = false;
	member->open_now = true;
	member->progress_us = member->schedule->now_us;
	after(member, &member->watch, member->deadline_us, member->deadline_us);
	tell_broken_word(member);
	member->backend.events->opened(member->backend.events_owner, &identity);
}

static bool
is_silent_device(const struct fake_member *member)
{
	return member->device->hung || member->device->cut_off;
}

/* Its gateway's number stands for a key. */
static bool
may_preempt(const struct fake_member *member)
{
	const struct backend_events *events = member->backend.events;

	if (member->may_take && !member->backend.waits_to_take)
		return true;
	return !member->was_taken && member->backend.predecessor_key == member->device->holder &&
	       (events->is_ours == NULL || events->is_ours(member->backend.events_owner));
}

static void
session_event(struct event *event)
{
	struct fake_member *member =
		(struct fake_member *)((char *)event - offsetof(struct fake_member, session));

	if (member->closing) {
		if (member->releasing && path_up(member, member->path) &&
		    !is_silent_device(member) && member->device->holder == member->gateway &&
		    !member->preempted)
			member->device->holder = 0;
		settle_in_flight(member, true, true);
		report_closed(member, -ECANCELED, "closed");
	} else if (is_silent_device(member)) {
		report_closed(member, -ETIMEDOUT, "no answer to the login");
	} else if (!path_up(member, member->path)) {
		report_closed(member, -ECONNREFUSED, "connection refused");
	} else if (member->device->taken) {
		member->device->taken_told = true;
		report_closed(member, -EBUSY, "in use by another gateway");
	} else if (held_by_another(member) && !may_preempt(member)) {
		report_closed(member, -EBUSY,
			      "in use by another gateway, which holds its reservation");
	} else if (member->device->conflicts && member->device->conflicts_at_login) {
		report_closed(member, -EACCES, "another gateway took the reservation");
	} else {
		report_opened(member);
	}
}

static void
fake_open(struct backend *backend)
{
	struct fake_member *member = member_of(backend);
	bool silent = is_silent_device(member);

	assert(!member->open_now && !member->opening && !member->closing);
	member->opening = true;
	after(member, &member->session,
	      silent ? member->deadline_us : member->device->answer_us_min,
	      silent ? member->deadline_us : 2 * member->device->answer_us_max + 1);
}

static void
fake_close(struct backend *backend)
{
	struct fake_member *member = member_of(backend);

	/* The engine may not have seen yet that the session has ended. */
	if ((!member->open_now && !member->opening) || member->closing)
		return;
	schedule_cancel(member->schedule, &member->session);
	member->closing = true;
	after(member, &member->session, 0, member->device->close_us_max);
}

static void
fake_release(struct backend *backend)
{
	/* A session that is being closed can't give anything back any more. */
	if (!member_of(backend)->closing)
		member_of(backend)->releasing = true;
	fake_close(backend);
}

/* What an adapter must not do: the first sending of a write is still held somewhere, and lands
 * after the second was answered and its sectors were written anew.
 */
static void
reissue(struct fake_member *member)
{
	schedule_add(member->schedule, &member->watch,
		     member->schedule->now_us + member->deadline_us);
	for (struct fake_command *command = member->queue; command != NULL; command = command->next)
		if (is_write(command->io) && !command->orphan && !command->done)
			make_late(command);
}

/* The oldest command must have ended by then. */
static uint64_t
commands_due_us(const struct fake_member *member)
{
	uint64_t due = UINT64_MAX;

	for (const struct fake_command *command = member->queue; command != NULL;
	     command = command->next)
		if (member->command_us_max != 0 &&
		    command->submit_us + member->command_us_max < due)
			due = command->submit_us + member->command_us_max;
	return due;
}

/* Has the session made progress within its deadline? */
static void
watch_event(struct event *event)
{
	struct fake_member *member =
		(struct fake_member *)((char *)event - offsetof(struct fake_member, watch));
	uint64_t due = member->progress_us + member->deadline_us;

	if (member->closing)
		return;
	if (member->queued == 0 && !is_silent_device(member))
		due = member->schedule->now_us + member->deadline_us;
	if (commands_due_us(member) < due)
		due = commands_due_us(member);
	if (due > member->schedule->now_us) {
		schedule_add(member->schedule, &member->watch, due);
		return;
	}
	if (member->reissues) {
		reissue(member);
		return;
	}
	settle_in_flight(member, true, true);
	report_closed(member, -ETIMEDOUT, "no progress");
}

static const struct backend_ops fake_ops = {
	.open = fake_open,
	.submit = fake_submit,
	.divert = fake_divert,
	.close = fake_close,
	.release = fake_release,
};

/* --- faults --- */

static void
end_session(struct fake_member *member, bool may_be_late)
{
	if (!member->open_now)
		return;
	settle_in_flight(member, may_be_late, true);
	report_closed(member, member->closing ? -ECANCELED : -ECONNRESET, "connection reset");
}

void
fake_member_cut(struct fake_member *member, bool reachable_again)
{
	member->reachable = reachable_again;
	end_session(member, true);
	if (member->second != NULL)
		end_session(member->second, true);
}

void
fake_member_cut_session(struct fake_member *member, bool away)
{
	member->away = away;
	end_session(member, true);
}

void
fake_member_hang(struct fake_member *member)
{
	member->hung = true;
}

static void
session_goes_on(struct fake_member *member)
{
	for (struct fake_command *command = member->queue; command != NULL;
	     command = command->next) {
		command->undelivered = false; /* sent again by TCP */
		if (command->event.place == 0)
			after(member, &command->event, 0, member->device->answer_us_max);
	}
}

/* What waited in the device, or for an answer, goes on in some order. */
static void
go_on(struct fake_member *member)
{
	session_goes_on(member);
	if (member->second != NULL)
		session_goes_on(member->second);
	for (struct fake_command *command = member->late; command != NULL; command = command->next)
		if (command->event.place == 0 && !random_once_in(member->random, 4))
			after(member, &command->event, 0, 20 * member->answer_us_max);
}

void
fake_member_continue(struct fake_member *member)
{
	member->hung = false;
	go_on(member);
}

void
fake_member_link(struct fake_member *member, bool up)
{
	member->cut_off = !up;
	if (up)
		go_on(member);
}

void
fake_member_abandon(struct fake_member *member)
{
	settle_in_flight(member, true, false);
	forget_session(member);
}

static void
tell_lost(void *owner, uint64_t offset_bytes)
{
	struct fake_member *member = owner;

	member->counts.sectors_lost++;
	if (member->trace)
		fprintf(stderr, "      %s loses %#llx\n", member->label,
			(unsigned long long)offset_bytes);
	if (member->sector_lost != NULL)
		member->sector_lost(member->owner, member, offset_bytes);
}

void
fake_member_power_loss(struct fake_member *member, bool reachable_again)
{
	/* How much of a cache survives differs from one outage to the next: most, half, or hardly
	 * any.
	 */
	uint64_t kept_of_16 = (const uint64_t[]){ 1, 8, 15 }[fake_random(member->random) % 3];
	struct fake_member *second = member->second;
	bool was_open = member->open_now;

	member->reachable = reachable_again;
	member->hung = false;
	settle_in_flight(member, false, true);
	if (second != NULL)
		settle_in_flight(second, false, true);
	fence(member, false);
	member->cache_kept = false;
	member->holder = 0;
	disk_power_loss(&member->disk, member->random, kept_of_16, tell_lost, member);
	if (was_open)
		report_closed(member, member->closing ? -ECANCELED : -ECONNRESET,
			      "connection reset");
	if (second != NULL)
		end_session(second, false);
}

void
fake_member_restart(struct fake_member *member)
{
	end_session(member, false);
	if (member->second != NULL)
		end_session(member->second, false);
	fence(member, false);
	member->cache_kept = false; /* so it seems */
	member->holder = 0;
}

void
fake_member_break_word(struct fake_member *member)
{
	const unsigned int holder = member->holder;

	member->backend.writes_lost++;
	if (member->second != NULL)
		member->second->backend.writes_lost++;
	fake_member_power_loss(member, true);
	member->cache_kept = true;
	member->holder = holder;
}

bool
fake_member_writing(const struct fake_member *member, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (const struct fake_command *command = member->queue; command != NULL;
	     command = command->next)
		if (is_write(command->io) && command->offset_bytes < offset_bytes + length_bytes &&
		    command->offset_bytes + command->length_bytes > offset_bytes)
			return true;
	return false;
}

void
fake_member_init(struct fake_member *member, const char *label, uint64_t bytes,
		 uint32_t block_bytes, struct schedule *schedule, uint64_t *random)
{
	*member = (struct fake_member){
		.backend = { .ops = &fake_ops, .paths = 1 },
		.schedule = schedule,
		.random = random,
		.answer_us_min = 50,
		.answer_us_max = 2500,
		.close_us_max = 200,
		.deadline_us = 20000,
		.mute_from_bytes = UINT64_MAX,
		.mute_to_bytes = UINT64_MAX,
		.reachable = true,
		.session = { .fire = session_event },
		.watch = { .fire = watch_event },
	};
	member->device = member;
	disk_init(&member->disk, bytes, block_bytes);
	member->capacity_bytes = bytes;
	snprintf(member->label, sizeof(member->label), "%s", label);
	member->backend.label = member->label;
}

void
fake_member_init_second(struct fake_member *member, struct fake_member *device, uint64_t *random)
{
	*member = (struct fake_member){
		.backend = { .ops = &fake_ops, .paths = device->backend.paths },
		.device = device,
		.schedule = device->schedule,
		.random = random,
		.deadline_us = device->deadline_us,
		.command_us_max = device->command_us_max,
		.session = { .fire = session_event },
		.watch = { .fire = watch_event },
	};
	device->second = member;
	snprintf(member->label, sizeof(member->label), "%s", device->label);
	member->backend.label = member->label;
}

static void
free_session(struct fake_member *member)
{
	struct fake_command *command;

	settle_in_flight(member, false, false);
	fence(member->device, false);
	forget_session(member);
	while ((command = member->free_commands) != NULL) {
		member->free_commands = command->next;
		free(command);
	}
}

void
fake_member_free(struct fake_member *member)
{
	fence(member, false);
	if (member->second != NULL)
		free_session(member->second);
	free_session(member);
	disk_free(&member->disk);
	member->schedule = NULL; /* rig_free() need not do it again */
}
