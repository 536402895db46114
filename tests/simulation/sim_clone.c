/* sim_clone.c - a member that is there twice: its LUN was cloned, now or some time ago, and the
 * copy is added to the volume.
 *
 * While the member is in sync nobody may write to the copy.  After a restart the newer is the
 * member; where both are the same neither is believed, and whichever an administrator leaves is
 * filled from the start: no choice loses anything.
 *
 * What only checksums could tell is not drawn: a new copy alone, in place of the member.  So new
 * copies are removed before a gateway starts, but for one start at which the member is there as
 * well.
 */
#include "sim.h"

void
clone_forget(struct sim *sim, int m)
{
	sim->clone_of[m] = -1;
	sim->clone_is_old[m] = false;
}

/* It was known to be old, and was filled in the member's place: the other is the copy from now on.
 */
static void
swap(struct sim *sim, int m)
{
	int of = sim->clone_of[m];

	clone_forget(sim, m);
	sim->clone_of[of] = m;
	sim->members[of].written = false;
}

static bool
is_in_sync(const struct sim *sim, int m)
{
	return sim->roles[m] >= 0 && sim->holder[sim->roles[m]] == m;
}

void
clone_look(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++) {
		int of = sim->clone_of[m];

		if (of >= 0 && is_in_sync(sim, m) && !sim->clone_is_old[m]) {
			sim_fail(sim,
				 "device %d, a copy of device %d, is in sync though that one is "
				 "there",
				 m, of);
		} else if (of >= 0 && is_in_sync(sim, m)) {
			swap(sim, m); /* what it holds is judged as any member's */
		} else if (of >= 0 && sim->members[m].written && is_in_sync(sim, of)) {
			sim_fail(sim, "device %d, a copy of device %d, was written to", m, of);
		} else {
			/* one that is known to be old may be filled in its place */
			sim->members[m].written = false;
		}
	}
}

void
clone_starts(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		if (sim->clone_of[m] >= 0 && !sim->clone_is_old[m] && m != sim->clone_stays)
			sim->slot_of[m] = -1;
	sim->clone_stays = -1;
}

void
clone_end(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		if (sim->clone_of[m] >= 0 && sim->slot_of[m] >= 0)
			admin_detach(sim, m);
}

/* A device that nobody has, and what shall stand there. */
static int
make_clone(struct sim *sim, int of, uint64_t *random)
{
	struct superblock old;
	struct fake_member *member;
	int m = 0;

	while (m < sim->slots && sim->slot_of[m] >= 0)
		m++;
	if (m == sim->slots)
		return -1;
	member = &sim->members[m];
	fake_member_fence(member);
	sim->clone_of[m] = of;
	sim->clone_is_old[m] = sim->snapshot_of == of && random_once_in(random, 2) &&
			       sim_read_superblock(&sim->snapshot, &old) &&
			       record_knows_older(sim, sim->roles[of], &old);
	disk_copy(&member->disk, sim->clone_is_old[m] ? &sim->snapshot : &sim->members[of].disk);
	member->capacity_bytes = sim->member_bytes;
	member->written = false;
	member->reachable = true;
	sim_trace(sim, "device %d is %s copy of device %d", m,
		  sim->clone_is_old[m] ? "an old" : "a new", of);
	return m;
}

static bool
has_begun(struct sim *sim)
{
	return sim->running_seen;
}

/* Both are there when the volume is assembled. */
static void
restart_with(struct sim *sim, int m, int of, uint64_t *random)
{
	sim->slot_of[m] = 0; /* it gets one */
	sim->clone_stays = m;
	fault_trouble(sim, of, 60000000);
	sim_start(sim);
	if (!sim_wait(sim, has_begun, random_between(random, 0, 8000000)))
		admin_detach(sim,
			     sim->geometry.redundancy > 0 && random_once_in(random, 2) ? of : m);
}

void
clone_strike(struct sim *sim, uint64_t *random)
{
	int of = sim->holder[fake_random(random) % (uint64_t)sim->count];
	bool restart = random_once_in(random, 2);
	int m;

	/* Later copies are made of the same. */
	if (of < 0 || !fault_others_are_well(sim, of) ||
	    (restart && sim->trouble_until_us[of] > sim->schedule.now_us))
		return;
	if (sim->snapshot_of < 0) {
		disk_init(&sim->snapshot, sim->members[of].disk.bytes, sim->block_bytes);
		disk_copy(&sim->snapshot, &sim->members[of].disk);
		sim->snapshot_of = of;
	}
	if (!restart) {
		m = make_clone(sim, of, random);
		if (m >= 0 && !admin_attach_old(sim, m))
			clone_forget(sim, m);
		return;
	}
	sim_crash(sim);
	m = make_clone(sim, of, random);
	if (m >= 0)
		restart_with(sim, m, of, random);
	else
		sim_start(sim);
}
