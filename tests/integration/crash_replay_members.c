/* crash_replay_members.c - members in memory behind ports/backend.h, with a way back.
 *
 * No fault but the crash: commands complete a step later, in an order that may change.  Every page
 * that is written in a case is kept as it was, so that the next case starts from the same images
 * without copying them.
 */
#include "crash_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t
next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15ull); /* splitmix64 */

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

/* --- images --- */

static void
save_page(struct members *all, int member, uint64_t page)
{
	struct disk *disk = &all->members[member].disk;

	if (disk->saved[page])
		return;
	disk->saved[page] = true;
	if (all->undo_count == all->undo_room) {
		all->undo_room = all->undo_room * 2 + 256;
		all->undo = realloc(all->undo, all->undo_room * sizeof(*all->undo));
		expect(all->undo != NULL, "out of memory");
		for (size_t i = all->undo_count; i < all->undo_room; i++)
			all->undo[i].content = malloc(PAGE);
	}
	all->undo[all->undo_count].member = member;
	all->undo[all->undo_count].page = page;
	memcpy(all->undo[all->undo_count++].content, disk->bytes + page * PAGE, PAGE);
}

void
members_write(struct members *all, int member, uint64_t offset_bytes, const uint8_t *data,
	      uint64_t length_bytes)
{
	struct disk *disk = &all->members[member].disk;

	if (length_bytes == 0)
		return;
	expect(offset_bytes + length_bytes <= disk->size_bytes, "a write leaves the member");
	for (uint64_t page = offset_bytes / PAGE; page <= (offset_bytes + length_bytes - 1) / PAGE;
	     page++) {
		if (all->in_case)
			save_page(all, member, page);
		else
			disk->touched[page] = true;
	}
	memcpy(disk->bytes + offset_bytes, data, length_bytes);
}

void
members_restore(struct members *all)
{
	for (size_t i = 0; i < all->undo_count; i++) {
		struct disk *disk = &all->members[all->undo[i].member].disk;

		memcpy(disk->bytes + all->undo[i].page * PAGE, all->undo[i].content, PAGE);
		disk->saved[all->undo[i].page] = false;
	}
	all->undo_count = 0;
}

/* --- the backend --- */

static void
op_open(struct backend *backend)
{
	struct member *member = (struct member *)backend;

	expect(!member->open_now && !member->opening, "%s: opened twice", member->label);
	member->opening = true;
}

static void
op_submit(struct backend *backend, struct backend_io *io)
{
	struct member *member = (struct member *)backend;

	expect(io->op == BACKEND_FLUSH ||
		       io->offset_bytes + io->length_bytes <= member->disk.size_bytes,
	       "%s: a command leaves the member", member->label);
	io->next = NULL;
	*member->queue_tail = io;
	member->queue_tail = &io->next;
}

static void
op_divert(struct backend *backend, struct backend_io *io)
{
	/* Its data goes nowhere: an empty list of pieces stands for that. */
	io->iov_count = 0;
}

static void
op_close(struct backend *backend)
{
	((struct member *)backend)->closing = true;
}

static const struct backend_ops ops = {
	.open = op_open,
	.submit = op_submit,
	.divert = op_divert,
	.close = op_close,
	.release = op_close,
};

void
members_init(struct members *all, char *const *images, int count)
{
	*all = (struct members){ .count = count, .block_bytes = SECTOR };
	for (int i = 0; i < count; i++) {
		struct member *member = &all->members[i];
		struct stat stat;
		int fd = open(images[i], O_RDONLY | O_CLOEXEC);

		expect(fd >= 0 && fstat(fd, &stat) == 0, "%s can't be opened", images[i]);
		member->disk.size_bytes = (uint64_t)stat.st_size;
		member->disk.bytes = malloc(member->disk.size_bytes);
		member->disk.saved = calloc(member->disk.size_bytes / PAGE, sizeof(bool));
		member->disk.touched = calloc(member->disk.size_bytes / PAGE, sizeof(bool));
		expect(member->disk.bytes != NULL && member->disk.size_bytes % PAGE == 0,
		       "%s: size", images[i]);
		for (uint64_t at = 0; at < member->disk.size_bytes;) {
			ssize_t got = pread(fd, member->disk.bytes + at,
					    member->disk.size_bytes - at, (off_t)at);

			expect(got > 0, "%s can't be read", images[i]);
			at += (uint64_t)got;
		}
		close(fd);
		snprintf(member->label, sizeof(member->label), "member%d", i);
		member->backend.ops = &ops;
		member->backend.label = member->label;
		member->queue_tail = &member->queue;
	}
}

static struct backend_io *
take(struct member *member, struct backend_io **link)
{
	struct backend_io *io = *link;

	*link = io->next;
	if (member->queue_tail == &io->next)
		member->queue_tail = link;
	return io;
}

/* Sectors for which the random bits say so, or all. */
static void
apply_write(struct members *all, struct member *member, const struct backend_io *io, bool torn)
{
	int number = (int)(member - all->members);
	uint64_t at = io->offset_bytes;
	bool keep = true;

	member->writes++;
	for (int i = 0; i < io->iov_count; i++)
		for (size_t done = 0; done < io->iov[i].iov_len;) {
			size_t step = SECTOR - at % SECTOR;

			if (step > io->iov[i].iov_len - done)
				step = io->iov[i].iov_len - done;
			if (torn && at % SECTOR == 0)
				keep = next_random(&all->random) & 1;
			if (keep)
				members_write(all, number, at,
					      (uint8_t *)io->iov[i].iov_base + done, step);
			done += step;
			at += step;
		}
}

static void
finish(struct members *all, struct member *member, struct backend_io *io)
{
	uint64_t at = io->offset_bytes;

	switch (io->op) {
	case BACKEND_READ:
		for (int i = 0; i < io->iov_count; i++) {
			memcpy(io->iov[i].iov_base, member->disk.bytes + at, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		break;
	case BACKEND_WRITE:
		apply_write(all, member, io, false);
		break;
	case BACKEND_FLUSH:
		break;
	case BACKEND_ZERO:
		expect(false, "%s: the load that was recorded writes no zeros", member->label);
		break;
	case BACKEND_MEASURE:
		expect(false, "%s: the volume that was recorded does not grow", member->label);
		break;
	}
	io->result = 0;
	io->done(io);
}

static void
end_session(struct member *member, int error)
{
	member->open_now = member->opening = member->closing = false;
	while (member->queue != NULL) {
		struct backend_io *io = take(member, &member->queue);

		io->result = -ENOTCONN;
		io->done(io);
	}
	member->backend.events->closed(member->backend.events_owner, error, "the session ended");
}

static void
open_session(struct members *all, struct member *member)
{
	struct backend_identity identity = {
		.capacity_bytes = member->disk.size_bytes,
		.block_bytes = all->block_bytes,
		.write_cache = true,
		.fua = true,
		.reservation = true, /* so nobody else can have it */
		.taken = true,
		.transfer_bytes_max = 1u << 20,
	};

	if (!member->present) {
		end_session(member, -ECONNREFUSED);
		return;
	}
	member->opening = false;
	member->open_now = true;
	member->backend.events->opened(member->backend.events_owner, &identity);
}

static bool
member_step(struct members *all, struct member *member, bool everything)
{
	struct backend_io *last = NULL;

	if (member->closing && (member->open_now || member->opening)) {
		end_session(member, -ECANCELED);
		return true;
	}
	member->closing = false;
	if (member->opening) {
		open_session(all, member);
		return true;
	}
	if (member->queue == NULL)
		return false;
	/* Only what was there when the step began, and in another order now and then. */
	for (struct backend_io *io = member->queue; io != NULL; io = io->next)
		last = io;
	for (bool more = true; more && member->queue != NULL;) {
		struct backend_io **link = &member->queue;
		struct backend_io *io;

		if (!everything) {
			if (next_random(&all->random) % 4 == 0)
				break;
			if ((*link)->next != NULL && next_random(&all->random) % 3 == 0)
				link = &(*link)->next;
		}
		io = take(member, link);
		more = io != last;
		finish(all, member, io);
	}
	return true;
}

bool
members_step(struct members *all, bool everything)
{
	bool any = false;

	for (int i = 0; i < all->count; i++)
		any |= member_step(all, &all->members[i], everything);
	return any;
}

static void
settle_writes(struct members *all, struct member *member)
{
	for (struct backend_io *io = member->queue; io != NULL; io = io->next)
		if (io->op == BACKEND_WRITE && next_random(&all->random) % 3 != 0)
			apply_write(all, member, io, next_random(&all->random) & 1);
}

void
members_lose(struct members *all, int number)
{
	struct member *member = &all->members[number];

	settle_writes(all, member);
	member->present = false;
	if (member->open_now)
		end_session(member, -ECONNRESET);
}

void
members_abandon(struct members *all)
{
	for (int i = 0; i < all->count; i++)
		members_lose(all, i);
}
