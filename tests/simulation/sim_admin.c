/* sim_admin.c - what an administrator does meanwhile: spares, replacements, members taken out and
 * back, scrubs, lost extents accepted.  The engine may refuse most of it most of the time; what it
 * takes on it has to finish.
 */
#include "sim.h"

#include "pure/spare.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const admin_names[ADMIN_KINDS] = {
	"spare added",		 "old member added", "device removed", "member failed",
	"member readmitted",	 "member replaced",  "scrub started",  "scrub stopped",
	"lost extents accepted", "rates set",	     "volume grown",
};

static const struct member_status *
status_of(const struct sim *sim, int m)
{
	return sim->slot_of[m] >= 0 ? &sim->status.members[sim->slot_of[m]] : NULL;
}

static int
draw_attached(const struct sim *sim, uint64_t *random, bool attached)
{
	int candidates[SIM_SLOTS_MAX];
	int count = 0;

	for (int m = 0; m < sim->slots; m++)
		if ((sim->slot_of[m] >= 0) == attached)
			candidates[count++] = m;
	return count > 0 ? candidates[fake_random(random) % (uint64_t)count] : -1;
}

/* Refusals are told by -errno and a reason; anything else is no answer. */
static int
answered(struct sim *sim, enum admin_kind kind, int result, const char *why)
{
	sim_trace(sim, "ADMIN %s: %d %s", admin_names[kind], result, result < 0 ? why : "");
	if (result < 0 && why[0] == '\0')
		sim_fail(sim, "%s was refused with %d and no reason", admin_names[kind], result);
	if (result >= 0)
		sim->options.totals->admin[kind]++;
	sim->look = true;
	return result;
}

/* A cloned LUN, on which somebody made a spare's mark of what the clone said it was. */
static void
copy_member_uuid(struct sim *sim, uint8_t uuid[16])
{
	int role = (int)(fake_random(&sim->random) % (uint64_t)sim->count);
	const struct fake_member *member =
		&sim->members[sim->holder[role] >= 0 ? sim->holder[role] : 0];
	uint8_t copies[2 * LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	disk_read(&member->disk, LAYOUT_SUPERBLOCK_A_OFFSET, copies, LAYOUT_SUPERBLOCK_BYTES);
	disk_read(&member->disk, LAYOUT_SUPERBLOCK_B_OFFSET, copies + LAYOUT_SUPERBLOCK_BYTES,
		  LAYOUT_SUPERBLOCK_BYTES);
	if (superblock_choose(copies, copies + LAYOUT_SUPERBLOCK_BYTES, &superblock, NULL) ==
	    SUPERBLOCK_OK)
		memcpy(uuid, superblock.member_uuid, 16);
}

void
admin_format_spare(struct sim *sim, int m)
{
	struct disk *disk = &sim->members[m].disk;
	const bool was_twin = sim->twin[m];
	struct spare_mark mark = { .member_bytes = sim->members[m].capacity_bytes,
				   .block_bytes = sim->block_bytes };
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	fake_member_fence(&sim->members[m]);
	clone_forget(sim, m);
	sim->marked_bytes[m] = mark.member_bytes;
	disk_wipe(disk);
	sim->uuids_made++;
	memset(mark.member_uuid, 0x80, 16);
	memcpy(mark.member_uuid, &sim->uuids_made, sizeof(sim->uuids_made));
	/* Whoever wipes one that was of no use for that gives it a UUID of its own. */
	sim->twin[m] =
		sim_can(sim, ABILITY_TWIN_SPARES) && random_once_in(&sim->random, 3) && !was_twin;
	if (sim->twin[m])
		copy_member_uuid(sim, mark.member_uuid);
	if (random_once_in(&sim->random, 2))
		memcpy(mark.volume_uuid, sim->engine_options.volume_uuid, 16);
	spare_encode(&mark, block);
	disk_write(disk, LAYOUT_SUPERBLOCK_A_OFFSET, block, sizeof(block), true);
	disk_write(disk, LAYOUT_SUPERBLOCK_B_OFFSET, block, sizeof(block), true);
	disk->rubbish_from = sim->data_offset;
	disk->rubbish_seed = random_stream(sim->random, (uint64_t)m);
}

static bool
attach_device(struct sim *sim, enum admin_kind kind, int m)
{
	char why[256] = "";
	int slot;

	former_lets_go(sim, m);
	sim_session(sim, m)->words_told = sim_session(sim, m)->backend.writes_lost;
	slot = answered(sim, kind, engine_attach(sim->engine, &sim_session(sim, m)->backend, why),
			why);

	if (slot < 0)
		return false;
	sim->slot_of[m] = slot;
	sim->member_in[slot] = m;
	return true;
}

static bool
attach(struct sim *sim, enum admin_kind kind, int m)
{
	if (former_uses(sim, m)) /* it would be refused, and must not be wiped below that one */
		return false;
	if (kind == ADMIN_ADD_OLD && sim->clone_of[m] >= 0 && !sim->clone_is_old[m])
		kind = ADMIN_ADD_SPARE; /* it could not be known from the member, if that is away */
	if (kind == ADMIN_ADD_SPARE)
		admin_format_spare(sim, m);
	return attach_device(sim, kind, m);
}

bool
admin_attach_old(struct sim *sim, int m)
{
	return attach_device(sim, ADMIN_ADD_OLD, m);
}

void
admin_detach(struct sim *sim, int m)
{
	char why[256] = "";

	answered(sim, ADMIN_DETACH, engine_detach(sim->engine, sim->slot_of[m], why), why);
}

void
admin_detached(void *owner, int slot, struct backend *backend)
{
	struct sim *sim = owner;
	int m = sim->member_in[slot];

	if (former_speaks(sim))
		return;
	if (m < 0 || &sim_session(sim, m)->backend != backend)
		sim_fail(sim, "slot %d was let go, which holds another device", slot);
	sim->member_in[slot] = -1;
	sim->slot_of[m] = -1;
	sim->roles[m] = -1;
	for (int other = 0; other < sim->slots; other++)
		if (sim->clone_of[other] == m)
			clone_forget(sim, other); /* there is one left */
	sim->look = true;
}

void
admin_wants_spare(void *owner, uint64_t member_bytes, uint32_t block_bytes)
{
	struct sim *sim = owner;

	if (former_speaks(sim))
		return;
	if (block_bytes != sim->block_bytes || member_bytes > sim->member_bytes)
		sim_fail(sim, "a spare of %llu bytes in blocks of %u is wanted",
			 (unsigned long long)member_bytes, block_bytes);
	sim->spare_wanted = true;
}

/* --- scrub, lost extents --- */

static void
accepted(void *owner, int64_t result)
{
	struct sim *sim = owner;

	if (former_speaks(sim))
		return;
	sim_trace(sim, "lost extents from sector %llu to %llu: %lld",
		  (unsigned long long)sim->accepted_from, (unsigned long long)sim->accepted_to,
		  (long long)result);
	sim->accepting = false;
}

static void
accept_range(struct sim *sim, uint64_t begin, uint64_t end)
{
	if (sim->accepting)
		return; /* one at a time */
	sim->accepted_from = begin;
	sim->accepted_to = end;
	sim->accepting = true;
	sim->options.totals->admin[ADMIN_ACCEPT]++;
	sim_trace(sim, "ADMIN %s", admin_names[ADMIN_ACCEPT]);
	oracle_accepting(sim);
	engine_lost_accept(sim->engine, begin * PATTERN_SECTOR,
			   begin == 0 && end == sim->sectors ? UINT64_MAX
							     : (end - begin) * PATTERN_SECTOR,
			   accepted, sim);
}

static void
accept_lost(struct sim *sim, uint64_t *random)
{
	const bool all = random_once_in(random, 3);
	const uint64_t unit = sim->block_bytes / PATTERN_SECTOR;
	uint64_t begin = all ? 0 : fake_random(random) % sim->sectors / unit * unit;
	uint64_t end = sim->sectors;

	if (!all && random_once_in(random, 2))
		end = begin + (sim->sectors - begin) / 2 / unit * unit;
	accept_range(sim, begin, end);
}

void
admin_accept_wanted(struct sim *sim)
{
	if (strstr(sim->status.rebuild.reason, "accept") != NULL ||
	    strstr(sim->status.reason, "accept") != NULL)
		accept_range(sim, 0, sim->sectors);
}

static void
set_rates(struct sim *sim, uint64_t *random)
{
	uint64_t min = 1ull << random_between(random, 16, 26);

	engine_set_rates(sim->engine, min, min << random_between(random, 0, 6));
	sim->options.totals->admin[ADMIN_RATES]++;
}

/* --- a larger volume --- */

static void
grown(void *owner, int error, const char *text)
{
	struct sim *sim = owner;

	if (former_speaks(sim))
		return;
	sim_trace(sim, "grown: %d %s", error, text);
	if (error != 0 && text[0] == '\0')
		sim_fail(sim, "growth ended with %d and no reason", error);
	sim->look = true;
}

/* As a rule all devices have become larger, now and then one has not. */
static void
grow(struct sim *sim, uint64_t *random)
{
	uint64_t bytes = sim->member_bytes + random_between(random, 0, 64) * 4096;
	int behind =
		random_once_in(random, 6) ? (int)(fake_random(random) % (uint64_t)sim->slots) : -1;
	char why[256] = "";

	if (bytes > sim->member_bytes_max)
		bytes = sim->member_bytes_max;
	sim->member_bytes = bytes;
	for (int m = 0; m < sim->slots; m++)
		if (m != behind)
			sim->members[m].capacity_bytes = bytes;
	if (answered(sim, ADMIN_GROW, engine_grow(sim->engine, grown, sim, why), why) == 0)
		sim->growing = true;
}

void
admin_size_seen(struct sim *sim)
{
	const uint64_t rows = sim->rows;

	if (sim->status.size_bytes == sim->sectors * PATTERN_SECTOR)
		return;
	sim->rows = sim->status.size_bytes / geometry_row_bytes(&sim->geometry);
	if (sim->rows < rows || sim->rows > sim->rows_max || !sim->growing)
		sim_fail(sim, "the volume has %llu rows, had %llu", (unsigned long long)sim->rows,
			 (unsigned long long)rows);
	sim->geometry.rows = sim->rows;
	sim->sectors = sim->status.size_bytes / PATTERN_SECTOR;
	sim->hot_row = rows > sim->hot_rows ? rows - sim->hot_rows / 2 - 1 : 0;
	if (sim->hot_row + sim->hot_rows > sim->rows)
		sim->hot_row = sim->rows - sim->hot_rows;
	oracle_grown(sim, rows);
}

/* --- a step --- */

static void
replace(struct sim *sim, uint64_t *random)
{
	int role = (int)(fake_random(random) % (uint64_t)sim->count);
	int spare = -1;
	char why[256] = "";

	for (int m = 0; m < sim->slots; m++)
		if (sim->slot_of[m] >= 0 && status_of(sim, m)->state == MEMBER_SPARE)
			spare = m;
	if (spare >= 0)
		answered(sim, ADMIN_REPLACE,
			 engine_replace(sim->engine, role, sim->slot_of[spare], why), why);
}

void
admin_step(struct sim *sim, uint64_t *random)
{
	static const uint8_t weights[ADMIN_KINDS] = { 5, 1, 3, 3, 4, 5, 4, 1, 2, 2, 6 };
	uint64_t total = 0, drawn;
	int kind = 0;
	int m;
	char why[256] = "";

	for (int i = 0; i < ADMIN_KINDS; i++)
		total += weights[i];
	for (drawn = fake_random(random) % total; drawn >= weights[kind]; kind++)
		drawn -= weights[kind];
	sim_look(sim);
	m = draw_attached(sim, random, kind != ADMIN_ADD_SPARE && kind != ADMIN_ADD_OLD);
	if (m < 0)
		return;
	switch ((enum admin_kind)kind) {
	case ADMIN_ADD_SPARE:
	case ADMIN_ADD_OLD:
		attach(sim, (enum admin_kind)kind, m);
		break;
	case ADMIN_DETACH:
		answered(sim, ADMIN_DETACH, engine_detach(sim->engine, sim->slot_of[m], why), why);
		break;
	case ADMIN_FAIL:
		if (answered(sim, ADMIN_FAIL, engine_fail(sim->engine, sim->slot_of[m], why),
			     why) == 0)
			fault_trouble(sim, m, 0);
		break;
	case ADMIN_READMIT:
		answered(sim, ADMIN_READMIT, engine_readmit(sim->engine, sim->slot_of[m], why),
			 why);
		break;
	case ADMIN_REPLACE:
		replace(sim, random);
		break;
	case ADMIN_SCRUB:
		answered(sim, ADMIN_SCRUB,
			 engine_scrub_start(sim->engine,
					    random_once_in(random, 2) ? SCRUB_CHECK : SCRUB_REPAIR,
					    random_once_in(random, 3), why),
			 why);
		break;
	case ADMIN_SCRUB_STOP:
		answered(sim, ADMIN_SCRUB_STOP, engine_scrub_stop(sim->engine, why), why);
		break;
	case ADMIN_ACCEPT:
		accept_lost(sim, random);
		break;
	case ADMIN_RATES:
		set_rates(sim, random);
		break;
	case ADMIN_GROW:
		grow(sim, random);
		break;
	case ADMIN_KINDS:
		break;
	}
}

void
admin_cascade(struct sim *sim, int m, bool replace)
{
	char why[256] = "";
	int spare = -1;

	if (sim->geometry.redundancy == 0)
		return;
	if (!replace) {
		if (answered(sim, ADMIN_FAIL, engine_fail(sim->engine, sim->slot_of[m], why),
			     why) == 0)
			fault_trouble(sim, m, 0);
		return;
	}
	/* One that is there, for who was just attached is not known as a spare yet. */
	sim_look(sim);
	for (int i = 0; i < sim->slots; i++)
		if (sim->slot_of[i] >= 0 && status_of(sim, i)->state == MEMBER_SPARE)
			spare = i;
	for (int i = 0; i < sim->slots && spare < 0; i++)
		if (sim->slot_of[i] < 0 && attach(sim, ADMIN_ADD_SPARE, i))
			spare = i;
	if (spare >= 0 && sim->roles[m] >= 0 && sim->slot_of[m] >= 0)
		answered(sim, ADMIN_REPLACE,
			 engine_replace(sim->engine, sim->roles[m], sim->slot_of[spare], why), why);
}

/* Make a volume that lacks a member whole again: take back who was taken out, else give it a spare.
 */
void
admin_repair(struct sim *sim, bool patient)
{
	char why[256] = "";
	bool hope = false;

	if (sim->geometry.redundancy == 0)
		return;
	sim_look(sim);
	if (sim->status.state != VOLUME_DEGRADED)
		return;
	for (int m = 0; m < sim->slots; m++) {
		const struct member_status *status = status_of(sim, m);

		if (status == NULL)
			continue;
		if (!patient && status->state != MEMBER_IN_SYNC && status->state != MEMBER_SPARE)
			answered(sim, ADMIN_DETACH,
				 engine_detach(sim->engine, sim->slot_of[m], why), why);
		else if (status->state == MEMBER_FAULTY &&
			 answered(sim, ADMIN_READMIT,
				  engine_readmit(sim->engine, sim->slot_of[m], why), why) == 0)
			hope = true;
		else if (status->state == MEMBER_SPARE &&
			 (sim->marked_bytes[m] < sim->member_bytes || sim->twin[m]))
			answered(sim, ADMIN_DETACH,
				 engine_detach(sim->engine, sim->slot_of[m], why), why);
		else if (status->role >= 0 ? status->state != MEMBER_IN_SYNC
					   : status->state == MEMBER_SPARE)
			hope = true; /* unless it is of no use, for which the next attempt is */
	}
	for (int m = 0; m < sim->slots && !hope; m++)
		if (sim->slot_of[m] < 0)
			hope = attach(sim, ADMIN_ADD_SPARE, m);
	for (int m = 0; m < sim->slots && !hope; m++)
		if (status_of(sim, m)->state != MEMBER_IN_SYNC)
			answered(sim, ADMIN_DETACH,
				 engine_detach(sim->engine, sim->slot_of[m], why), why);
	if (sim->spare_wanted && random_once_in(&sim->random, 2))
		sim->spare_wanted = false;
}
