/* fake_member.c - see fake_member.h. */
#include "fake_member.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t
fake_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Dull;
}

static void
fake_open(struct backend *backend)
{
	struct fake_member *member = (struct fake_member *)backend;

	assert(!member->open_now && !member->opening);
	member->opening = true;
}

static void
fake_submit(struct backend *backend, struct backend_io *io)
{
	struct fake_member *member = (struct fake_member *)backend;
	uint64_t total = 0;

	for (int i = 0; i < io->iov_count; i++)
		total += io->iov[i].iov_len;
	assert(io->op == BACKEND_FLUSH || total == io->length_bytes);
	assert(io->op == BACKEND_FLUSH || io->length_bytes > 0);
	assert(io->offset_bytes % member->block_bytes == 0);
	assert(io->length_bytes % member->block_bytes == 0);
	assert(io->offset_bytes + io->length_bytes <= member->bytes);
	io->next = member->queue;
	member->queue = io;
	member->queued++;
}

static void
fake_close(struct backend *backend)
{
	((struct fake_member *)backend)->closing = true;
}

static const struct backend_ops fake_ops = {
	.open = fake_open,
	.submit = fake_submit,
	.close = fake_close,
	.release = fake_close,
};

void
fake_member_init(struct fake_member *member, const char *label, uint64_t bytes,
		 uint32_t block_bytes, uint64_t *random)
{
	*member = (struct fake_member){
		.stable = calloc(1, bytes),
		.visible = calloc(1, bytes),
		.unflushed = calloc(1, bytes / 512),
		.bytes = bytes,
		.block_bytes = block_bytes,
		.write_cache = true,
		.reachable = true,
		.hang_deadline = 20,
		.unreadable_offset = UINT64_MAX,
		.random = random,
	};
	assert(member->stable != NULL && member->visible != NULL &&
	       member->unflushed != NULL);
	snprintf(member->label, sizeof(member->label), "%s", label);
	member->backend.ops = &fake_ops;
	member->backend.label = member->label;
}

void
fake_member_free(struct fake_member *member)
{
	free(member->stable);
	free(member->visible);
	free(member->unflushed);
}

/* Make unflushed sectors of the range stable. */
static void
sync_range(struct fake_member *member, uint64_t offset, uint64_t length)
{
	for (uint64_t sector = offset / 512; sector < (offset + length) / 512; sector++) {
		if (!member->unflushed[sector])
			continue;
		member->unflushed[sector] = 0;
		memcpy(member->stable + sector * 512, member->visible + sector * 512, 512);
	}
}

/* Copy blocks of a write for which `keep` says so. */
static void
apply_write(struct fake_member *member, const struct backend_io *io, bool torn)
{
	uint64_t at = io->offset_bytes;
	bool kept = true;

	member->written = true;
	for (int i = 0; i < io->iov_count; i++) {
		for (size_t done = 0; done < io->iov[i].iov_len;) {
			size_t step = 512 - at % 512;

			if (step > io->iov[i].iov_len - done)
				step = io->iov[i].iov_len - done;
			if (torn && at % 512 == 0)
				kept = fake_random(member->random) & 1;
			if (kept) {
				memcpy(member->visible + at, (char *)io->iov[i].iov_base + done, step);
				member->unflushed[at / 512] = 1;
			}
			done += step;
			at += step;
		}
	}
	if (io->fua || !member->write_cache)
		sync_range(member, io->offset_bytes, io->length_bytes);
}

static int
apply(struct fake_member *member, const struct backend_io *io)
{
	uint64_t at = io->offset_bytes;

	switch (io->op) {
	case BACKEND_READ:
		member->reads++;
		if (member->unreadable_offset >= at && member->unreadable_offset < at + io->length_bytes)
			return -ENODATA;
		for (int i = 0; i < io->iov_count; i++) {
			memcpy(io->iov[i].iov_base, member->visible + at, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		return 0;
	case BACKEND_WRITE:
		member->writes++;
		if (member->taken)
			return -EACCES;
		if (member->refuse_writes)
			return -EIO;
		apply_write(member, io, false);
		return 0;
	case BACKEND_FLUSH:
		member->flushes++;
		if (member->taken)
			return -EACCES;
		sync_range(member, 0, member->bytes);
		return 0;
	}
	return -EIO;
}

static struct backend_io *
take_any(struct fake_member *member)
{
	struct backend_io **link = &member->queue;
	struct backend_io *io;

	for (uint64_t skip = fake_random(member->random) % (uint64_t)member->queued; skip > 0; skip--)
		link = &(*link)->next;
	io = *link;
	*link = io->next;
	member->queued--;
	return io;
}

static void
complete(struct backend_io *io, int result)
{
	/* What the adapter was lent it may edit: the engine must not rely on it. */
	memset(io->iov, 0xA5, (size_t)io->iov_count * sizeof(*io->iov));
	io->result = result;
	io->done(io);
}

/* Writes in flight when a session ends: each took effect in whole, in part, or not at all. */
static void
settle_in_flight(struct fake_member *member, bool tell)
{
	while (member->queued > 0) {
		struct backend_io *io = take_any(member);

		if (io->op == BACKEND_WRITE && !member->refuse_writes && !member->taken)
			switch (fake_random(member->random) % 3) {
			case 0:
				apply_write(member, io, false);
				break;
			case 1:
				apply_write(member, io, true);
				break;
			default:
				break;
			}
		if (tell)
			complete(io, -ENOTCONN);
	}
}

static void
report_closed(struct fake_member *member, int error, const char *reason)
{
	member->open_now = false;
	member->opening = false;
	member->closing = false;
	member->steps_hung = 0;
	member->backend.events->closed(member->backend.events_owner, error, reason);
}

static void
finish_opening(struct fake_member *member)
{
	struct backend_identity identity = {
		.capacity_bytes = member->bytes,
		.block_bytes = member->block_bytes,
		.write_cache = member->write_cache,
		.fua = true,
		.transfer_bytes_max = 1u << 20,
	};

	if (!member->reachable || member->hung) {
		report_closed(member, -ECONNREFUSED, "connection refused");
		return;
	}
	member->opening = false;
	member->open_now = true;
	member->backend.events->opened(member->backend.events_owner, &identity);
}

void
fake_member_step(struct fake_member *member, bool everything)
{
	if (member->closing) {
		if (member->open_now)
			settle_in_flight(member, true);
		report_closed(member, -ECANCELED, "closed");
		return;
	}
	if (member->opening) {
		finish_opening(member);
		return;
	}
	if (member->hung && member->open_now) {
		if (++member->steps_hung > member->hang_deadline) {
			settle_in_flight(member, true);
			report_closed(member, -ETIMEDOUT, "no progress");
		}
		return;
	}
	while (member->queued > 0 && (everything || fake_random(member->random) % 3 != 0)) {
		struct backend_io *io = take_any(member);

		complete(io, apply(member, io));
	}
}

void
fake_member_cut(struct fake_member *member, bool reachable_again)
{
	member->reachable = reachable_again;
	if (!member->open_now)
		return;
	settle_in_flight(member, true);
	report_closed(member, -ECONNRESET, "connection reset");
}

void
fake_member_abandon(struct fake_member *member)
{
	settle_in_flight(member, false);
	member->open_now = false;
	member->opening = false;
	member->closing = false;
}

void
fake_member_power_loss(struct fake_member *member, bool reachable_again)
{
	/* How much of a cache survives differs from one outage to the next: most, half, or hardly any. */
	uint64_t kept_of_16 = (const uint64_t[]){ 1, 8, 15 }[fake_random(member->random) % 3];

	fake_member_cut(member, reachable_again);
	for (uint64_t sector = 0; sector < member->bytes / 512; sector++)
		if (member->unflushed[sector] && fake_random(member->random) % 16 >= kept_of_16) {
			memcpy(member->visible + sector * 512, member->stable + sector * 512, 512);
			member->unflushed[sector] = 0;
		}
	sync_range(member, 0, member->bytes);
}
