/* sim_former.c - a gateway that was taken for dead, and lives.
 *
 * An administrator takes the first gateway for dead and starts a second one with a take-over, on
 * the same devices: sessions of its own (fake_member.h), its own name, its own file of epochs.
 * From then on the second one is the simulator's gateway, and faults, administration and the oracle
 * are about it.  The first one is the former: it has load of its own, stands still and goes on, or
 * is cut off from some members, until it dies or is stopped.
 *
 *	first one	runs ---------------- loses member after member ------------- fenced ---- ends
 *	second one	      starts ---- takes member after member ---- runs (former.lost) ------------->
 *	writes		what the first acknowledges counts          |   it acknowledges what was done before, if anything
 *			                                            |   nothing that is submitted to it lands anywhere
 */
#include "sim.h"

#include "bury.h"
#include "engine_memory.h"
#include "pure/mutant.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FENCED_US (120ull * 1000000) /* time enough for it to hear that it lost the volume */
/* and for the other to have it; where that takes longer, other things happen meanwhile */
#define TAKEN_US (20ull * 1000000)
#define STOPPED_US (300ull * 1000000)
#define CONTESTED_US (10ull * 1000000) /* behind the restart of a target */
#define RETRIED_US                                                                                 \
	(5ull * 1000000) /* a session that could not be opened: sooner than that, twice */
#define REST_US (3ull * 1000000)
#define STREAM 0xF04E4000ull /* of random_stream(): not a step's */

static uint64_t
now(const struct sim *sim)
{
	return sim->schedule.now_us;
}

/* --- who is who --- */

struct fake_member *
sim_session(struct sim *sim, int m)
{
	return sim->side == 0 ? &sim->members[m] : &sim->seconds[m];
}

static struct fake_member *
former_session(struct sim *sim, int m)
{
	return sim->side == 0 ? &sim->seconds[m] : &sim->members[m];
}

/* No two have the same name behind the '#', of one digit here. */
unsigned int
sim_gateway_number(const struct engine_options *options)
{
	return (unsigned int)(options->owner[strlen(options->owner) - 1] - '0');
}

bool
former_speaks(const struct sim *sim)
{
	return sim->former.has_turn || sim->former.asked;
}

static bool
holds_any(const struct sim *sim)
{
	const unsigned int number = sim_gateway_number(&sim->engine_options);

	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].reservations && sim->slot_of[m] >= 0 &&
		    sim->members[m].holder != 0 && sim->members[m].holder != number)
			return true;
	return false;
}

/* It does, or did a moment ago: it gives a member back that the other one has written, or has ended. */
bool
former_holds(const struct sim *sim)
{
	return (sim->former.restarted_us != 0 &&
		now(sim) - sim->former.restarted_us <= CONTESTED_US) ||
	       holds_any(sim);
}

/* The other one may have let the volume grow, and what lies beyond its own end it refuses without
 * asking anybody.
 */
uint64_t
former_sectors(const struct sim *sim)
{
	struct engine_status status;
	uint64_t sectors;

	engine_status(sim->former.engine, &status);
	sectors = status.size_bytes / PATTERN_SECTOR;
	return sectors < sim->sectors ? sectors : sim->sectors;
}

bool
former_uses(struct sim *sim, int m)
{
	return sim->former.engine != NULL && former_session(sim, m)->open_now;
}

/* What an earlier gateway left on a device, as that was let go with commands under way, an
 * administrator takes off.
 */
void
former_lets_go(struct sim *sim, int m)
{
	if (sim->members[m].holder != sim_gateway_number(&sim->engine_options))
		sim->members[m].holder = 0;
}

/* --- its turns --- */

uint64_t
former_stood_us(const struct sim *sim)
{
	const struct former *former = &sim->former;

	return former->stood_us +
	       (former->stood_from_us != 0 ? now(sim) - former->stood_from_us : 0);
}

static void
heal(struct sim *sim)
{
	sim->former.heals_us = UINT64_MAX;
	for (int m = 0; m < sim->slots; m++)
		former_session(sim, m)->away = false;
}

/* Members that the other one, which took the volume over, did not reach. */
static void
heal_others(struct sim *sim)
{
	sim->former.others_heal_us = UINT64_MAX;
	sim->former.unreached = 0;
	for (int m = 0; m < sim->slots; m++)
		sim_session(sim, m)->away = false;
}

bool
former_unreached(const struct sim *sim, int m)
{
	return (sim->former.unreached >> m) & 1;
}

/* As long as nobody else runs it decides who is out, and what is lost with that; it may be over
 * before the other one looks.
 */
static void
look(struct sim *sim)
{
	struct engine_status status;
	uint32_t there = 0;

	sim->former.look = false;
	engine_status(sim->former.engine, &status);
	if (sim->former.lost || (status.state != VOLUME_ACTIVE && status.state != VOLUME_DEGRADED))
		return;
	for (int slot = 0; slot < status.slots; slot++)
		if (status.members[slot].attached && status.members[slot].role >= 0 &&
		    status.members[slot].state == MEMBER_IN_SYNC)
			there |= 1u << status.members[slot].role;
	oracle_out_changed(sim, ~there & ((1u << sim->count) - 1));
	fault_update_excess(sim);
}

static void
run(struct sim *sim, uint64_t at_us)
{
	struct former *former = &sim->former;

	former->has_turn = true;
	former->turn_us = at_us;
	engine_run(former->engine, at_us / 1000);
	former->has_turn = false;
}

void
former_turn(struct sim *sim)
{
	struct former *former = &sim->former;
	const uint64_t stood_from_us = former->stood_from_us;

	if (now(sim) >= former->others_heal_us)
		heal_others(sim);
	/* What it was first to reach is silent to the other one. */
	if (former->engine != NULL && former->restarted_us != 0 && holds_any(sim))
		sim->excess_until_us = now(sim) + RETRIED_US;
	if (former->engine == NULL || former->stopped || now(sim) < former->still_until_us)
		return;
	former->stood_us = former_stood_us(sim);
	former->stood_from_us = 0;
	if (now(sim) >= former->heals_us)
		heal(sim);
	/* It stood still in the midst of a turn, when it had looked at the clock. */
	if (stood_from_us != 0 && random_once_in(&sim->random, 2))
		run(sim, stood_from_us);
	run(sim, now(sim));
	time_look(sim, true);
	if (former->look)
		look(sim);
}

uint64_t
former_due_us(const struct sim *sim)
{
	const struct former *former = &sim->former;
	uint64_t deadline, due_us;

	if (former->engine == NULL || former->stopped)
		return former->others_heal_us;
	if (now(sim) < former->still_until_us)
		return former->still_until_us;
	deadline = engine_deadline(former->engine);
	due_us = deadline == UINT64_MAX ? UINT64_MAX : deadline * 1000;
	return due_us < former->others_heal_us ? due_us : former->others_heal_us;
}

/* A role whose member it reaches, or any: where it does not reach all, reads of others wait. */
static int
draw_reachable(struct sim *sim, uint64_t *random)
{
	int chosen = -1, count = 0;

	for (int m = 0; m < sim->slots; m++)
		if (sim->former.roles[m] >= 0 && !former_session(sim, m)->away &&
		    fake_random(random) % (uint64_t)++count == 0)
			chosen = sim->former.roles[m];
	return chosen;
}

/* What it was asked before may wait for members that are silent. */
static uint32_t
depth_of(const struct sim *sim)
{
	return sim->former.lost ? 4 * sim->depth + 32 : sim->depth + 8;
}

static void
load(struct sim *sim, bool sequential, uint64_t *random)
{
	int role;

	if (sim->former.engine == NULL || sim->former.active_count >= depth_of(sim))
		return;
	role = draw_reachable(sim, random);
	sim->former.asked = true;
	if ((sim->former.reads_only || random_once_in(random, 4)) && random_once_in(random, 6))
		load_flush(sim);
	else if (role >= 0 && random_once_in(random, 4))
		load_read_of(sim, role, random);
	else if (sim->former.reads_only || random_once_in(random, 4))
		load_read(sim, random);
	else if (sequential)
		load_sequential(sim, random);
	else
		load_submit(sim, random);
	sim->former.asked = false;
	former_turn(sim);
}

/* --- what becomes of its requests --- */

bool
former_is_void(const struct sim *sim, uint32_t number)
{
	return number / 8 < sim->former.void_bytes &&
	       (sim->former.void_writes[number / 8] >> number % 8) & 1;
}

static void
make_void(struct former *former, uint32_t number)
{
	const uint32_t bytes = former->void_bytes;

	if (number / 8 >= bytes) {
		former->void_bytes = number / 8 + 1024;
		former->void_writes = realloc(former->void_writes, former->void_bytes);
		assert(former->void_writes != NULL);
		memset(former->void_writes + bytes, 0, former->void_bytes - bytes);
	}
	former->void_writes[number / 8] |= (uint8_t)(1u << number % 8);
}

/* The second one sees it as what was under way at a crash, or, when that runs, never. */
void
former_submits(struct sim *sim, struct sim_request *request)
{
	if (request->too_late) {
		request->differs_at = -1;
		make_void(&sim->former, request->number);
		return;
	}
	oracle_submitted(sim, request);
	oracle_open_rows(sim, request);
}

/* What either gateway had acknowledged before it came is the least it may return. */
static void
judge_read(struct sim *sim, const struct sim_request *request)
{
	for (uint64_t i = 0; i < request->count; i++) {
		const uint64_t sector = request->sector + i;
		uint32_t floor = request->floor[i];

		if (floor == FLOOR_ANYTHING)
			continue;
		if (sim->floor[sector] < floor)
			floor = sim->floor[sector];
		oracle_sector(sim, sector, request->memory + i * PATTERN_SECTOR, floor,
			      request->submit_us, "read through a gateway that was taken for dead");
	}
}

void
former_judge(struct sim *sim, struct sim_request *request, int result)
{
	const enum request_op op = request->request.op;

	sim_trace(sim, "done   %s sector %llu count %llu number %u (former): %s", sim_op_name(op),
		  (unsigned long long)request->sector, (unsigned long long)request->count,
		  request->number, result == 0 ? "ok" : strerror(-result));
	time_judge(sim, request);
	for (uint64_t i = 0; op == REQUEST_ZERO && !sim->former.lost && i < request->count; i++)
		sim->zero_ended_us[request->sector + i] = now(sim);
	if (result == -ERANGE) /* it is asked for nothing beyond the end it knows */
		sim_fail(sim,
			 "%s of %llu sectors at %llu was refused by a gateway that was taken for "
			 "dead: %s",
			 sim_op_name(op), (unsigned long long)request->count,
			 (unsigned long long)request->sector, strerror(-result));
	if (op == REQUEST_READ && result == 0)
		judge_read(sim, request);
	/* The other one had waited for all that this one might still have answered. */
	if (request->too_late &&
	    (result == 0 || (op == REQUEST_COMPARE_WRITE && result == -EILSEQ)))
		sim_fail(sim,
			 "%s of %llu sectors at %llu was %s by a gateway that had lost the volume "
			 "before it came",
			 sim_op_name(op), (unsigned long long)request->count,
			 (unsigned long long)request->sector,
			 op == REQUEST_READ || result != 0 ? "answered" : "acknowledged");
	if (result != 0) /* somebody takes its members */
		return;
	if (op == REQUEST_FLUSH) {
		oracle_flushed(sim, request);
	} else if (op != REQUEST_READ) {
		oracle_acknowledged(sim, request);
	}
}

/* Of an eviction after which another gateway could have the rest.  Who took the volume over has a
 * later one.
 */
void
former_records(struct sim *sim, enum epoch_kind kind, uint64_t epoch)
{
	struct former *former = &sim->former;

	if (kind == EPOCH_MEANT)
		sim->epoch_tried[!sim->side] = epoch;
	else if (epoch <= former->epoch || (former->lost && epoch >= sim->epoch_recorded))
		sim_fail(sim,
			 "a gateway that was taken for dead records epoch %llu; it had %llu, the "
			 "other one has %llu",
			 (unsigned long long)epoch, (unsigned long long)former->epoch,
			 (unsigned long long)sim->epoch_recorded);
	if (kind == EPOCH_GIVEN)
		former->epoch = sim->epoch_elsewhere = epoch;
	engine_epoch_recorded(former->engine, kind, epoch, 0);
}

/* Fenced off from a member, nothing of it lands there. */
static void
landed(void *owner, struct fake_member *session, uint64_t offset_bytes, uint32_t length_bytes)
{
	struct sim *sim = owner;

	if (fake_member_is_fenced(session))
		sim_fail(sim, "gateway %u, fenced off from %s, has written %u bytes at %llu there",
			 session->gateway, session->device->label, length_bytes,
			 (unsigned long long)offset_bytes);
}

/* --- the end --- */

/* What it was first to reach, and holds when it ends, nobody gives back: an administrator does. */
static void
forget(struct sim *sim)
{
	for (int m = 0; m < sim->slots && sim->former.restarted_us != 0; m++)
		if (sim->members[m].holder == sim->former.gateway)
			sim->members[m].holder = 0;
	engine_memory_end();
	sim->former.engine = NULL;
	sim->former.still_until_us = 0;
}

/* It had the volume to its end, and wrote since it was taken for dead; also to a spare that it filled
 * meanwhile, of which the other gateway knows nothing.
 */
static void
leave_behind(struct sim *sim)
{
	struct superblock superblock;

	for (int m = 0; m < sim->slots; m++)
		if (sim->roles[m] < 0 && sim_read_superblock(&sim->members[m].disk, &superblock) &&
		    superblock.epoch >= sim->former.epoch &&
		    superblock.member_states[superblock.role] == MEMBER_IN_SYNC &&
		    memcmp(superblock.member_uuid, superblock.member_uuids[superblock.role], 16) ==
			    0)
			sim->roles[m] = superblock.role;
	oracle_crashed(sim);
}

void
former_kill(struct sim *sim)
{
	struct former *former = &sim->former;

	if (former->engine == NULL)
		return;
	sim_trace(sim, "the former gateway dies");
	for (int m = 0; m < sim->slots; m++)
		fake_member_abandon(former_session(sim, m));
	load_abandon_former(sim);
	engine_bury(former->engine);
	forget(sim);
	if (!former->lost)
		leave_behind(sim);
}

static void
note_stopped(void *owner)
{
	((struct sim *)owner)->former.stopped = true;
}

static bool
has_stopped(struct sim *sim)
{
	return sim->former.engine == NULL || sim->former.stopped;
}

static bool
has_failed(struct sim *sim)
{
	struct engine_status status;

	if (sim->former.engine == NULL) /* it died meanwhile, before a member lost power */
		return true;
	engine_status(sim->former.engine, &status);
	return status.state == VOLUME_FAILED;
}

static void
stop(struct sim *sim)
{
	struct former *former = &sim->former;

	sim_trace(sim, "the former gateway is stopped");
	former->has_turn = true;
	engine_stop(former->engine, note_stopped, sim);
	former->has_turn = false;
	sim_turn(sim);
	if (!sim_wait(sim, has_stopped, STOPPED_US)) {
		if (!sim->crash_due)
			sim_fail(sim, "a gateway that was taken for dead does not stop");
		former_kill(sim);
		return;
	}
	if (former->engine == NULL)
		return;
	if (former->active_count > 0)
		sim_fail(sim, "stopped with %u requests not completed", former->active_count);
	engine_destroy(former->engine);
	forget(sim);
}

static bool
has_room(struct sim *sim)
{
	return sim->former.engine == NULL || sim->former.active_count < sim->depth;
}

/* Under load, and with all members to be reached, it hears of it. */
static void
await_fence(struct sim *sim, uint64_t *random)
{
	if (!sim->former.lost || !sim->running_seen || fault_troubled(sim))
		return;
	sim->former.reads_only = false;
	/* it stood still, and reads have piled up */
	if (!sim_wait(sim, has_room, FENCED_US) && !sim->crash_due)
		sim_fail(sim, "requests to a gateway that was taken for dead do not end");
	load(sim, true, random);
	load(sim, true, random);
	if (!sim_wait(sim, has_failed, FENCED_US) && !sim->crash_due)
		sim_fail(sim, "a gateway goes on although another one has the volume");
}

/* A target learns to bar reads, too: its sessions are opened anew. */
static void
end_sharing(struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++) {
		if (!sim->members[m].shares_reads)
			continue;
		sim->members[m].shares_reads = false;
		fake_member_cut(&sim->members[m], true);
		fault_trouble(sim, m, 500);
	}
}

void
former_end(struct sim *sim)
{
	uint64_t random = random_stream(sim->options.seed, STREAM + sim->step);

	heal_others(sim);
	end_sharing(sim);
	if (sim->former.engine == NULL)
		return;
	heal(sim);
	sim->former.still_until_us = 0;
	if (!random_once_in(&random, 3))
		await_fence(sim, &random);
	if (sim->former.engine != NULL && !sim->crash_due && random_once_in(&random, 2))
		stop(sim);
	former_kill(sim);
}

/* --- the beginning --- */

void
former_sees_running(struct sim *sim)
{
	struct former *former = &sim->former;

	for (int m = 0; m < sim->slots; m++)
		sim_session(sim, m)->may_take = false;
	if (former->engine == NULL || former->lost)
		return;
	sim_trace(sim, "the former gateway has lost the volume");
	former->lost = true;
}

/* The gateway has died, and the other one is started. */
void
former_succeeded(struct sim *sim)
{
	const uint64_t epoch = sim->epoch_elsewhere;

	sim_trace(sim, "the other gateway is started");
	sim->epoch_elsewhere = sim->epoch_recorded;
	sim->epoch_recorded = epoch;
	sim->side = !sim->side;
	sim_take_over(sim, true);
}

/* Its engine, its requests and its sessions are the former's from now on. */
static void
become_former(struct sim *sim)
{
	struct former *former = &sim->former;
	const uint64_t epoch = sim->epoch_elsewhere;
	const uint64_t stood_us = time_stood_us(sim);

	sim_epoch_land_now(sim);
	former->engine = sim->engine;
	former->gateway = sim_gateway_number(&sim->engine_options);
	former->active = sim->active;
	former->active_count = sim->active_count;
	former->stopped = former->lost = false;
	former->restarted_us = 0;
	former->epoch = sim->epoch_elsewhere = sim->epoch_recorded;
	former->still_until_us = sim->still_until_us;
	former->stood_from_us = former->stood_us = 0;
	memcpy(former->roles, sim->roles, sizeof(former->roles));
	for (struct sim_request *request = former->active; request != NULL;
	     request = request->next) {
		request->former = true;
		request->from_us += stood_us; /* its clock begins anew, with none of it */
	}
	former->zeros_ended_us = sim->zeros_ended_us + stood_us;
	sim->active = NULL;
	sim->active_count = 0;
	sim->epoch_recorded = epoch;
	sim->stood_us = stood_us;
	sim->stood_from_us = 0;
	sim->still_until_us = 0;
	sim->engine = NULL;
	sim->side = !sim->side;
}

static void
cut_off(struct sim *sim, int m, bool former, uint64_t lasts_us)
{
	sim_trace(sim, "%s is cut off from member %d for %llu us", former ? "it" : "the other one",
		  m, (unsigned long long)lasts_us);
	if (former)
		fake_member_cut_session(former_session(sim, m), true);
	else
		sim->former.unreached |= 1u << m;
	fault_trouble(sim, m, lasts_us);
}

/* Devices that the other one reaches: just enough members, or some. */
static uint32_t
draw_reached(const struct sim *sim, uint64_t *random)
{
	const uint64_t fewest = random_between(random, 1, 3);
	int left = geometry_quorum(&sim->geometry, sim->out_roles);
	uint32_t reached = 0;

	if (random_once_in(random, 3)) {
		for (int m = 0; m < sim->slots; m++)
			reached |= (uint32_t)(fake_random(random) % 4 < fewest) << m;
		return reached;
	}
	for (int tries = 0; left > 0 && tries < 1000; tries++) {
		const int m = sim->holder[fake_random(random) % (uint64_t)sim->count];

		if (m < 0 || (reached >> m) & 1)
			continue;
		reached |= 1u << m;
		left--;
	}
	return reached;
}

/* Each of the two reaches members that the other one does not.  What --force was given for the other
 * one does not know: it would take who was left behind for the volume.
 */
static void
draw_halves(struct sim *sim, uint64_t lasts_us, uint64_t *random)
{
	const uint32_t reached = draw_reached(sim, random) & ~sim->left_by_force;

	sim->former.others_heal_us = now(sim) + lasts_us;
	for (int m = 0; m < sim->slots; m++) {
		const bool theirs = (reached >> m) & 1;

		if (!theirs)
			cut_off(sim, m, false, lasts_us);
		if (theirs ? !random_once_in(random, 12) : random_once_in(random, 12))
			cut_off(sim, m, true, lasts_us);
	}
}

/* What is wrong with it, that it is taken for dead. */
static void
fall_ill(struct sim *sim, uint64_t *random)
{
	static const uint64_t longest_us[] = { 100000, 2000000, 30000000, 200000000 };
	struct former *former = &sim->former;
	const uint64_t kind = fake_random(random) % 4;
	const uint64_t lasts_us = random_between(random, 0, longest_us[fake_random(random) % 4]);

	former->heals_us = former->others_heal_us = UINT64_MAX;
	former->unreached = 0;
	former->reads_only = random_once_in(random, 3);
	if (kind >= 2)
		former->heals_us = now(sim) + lasts_us;
	if (kind == 1 || (kind == 3 && random_once_in(random, 3))) {
		sim_trace(sim, "it stands still for %llu us", (unsigned long long)lasts_us);
		former->still_until_us = now(sim) + random_between(random, 0, lasts_us);
		if (random_once_in(random, 2)) /* until the other one has it */
			former->still_until_us += 1000000;
	}
	if (kind == 3)
		draw_halves(sim, lasts_us, random);
	for (int m = 0; kind == 2 && m < sim->slots; m++)
		if (!random_once_in(random, 2))
			cut_off(sim, m, true, lasts_us);
	if (former->still_until_us > now(sim))
		former->stood_from_us = now(sim);
}

/* Both have load. */
static void
haunt(struct sim *sim, uint64_t *random)
{
	if (sim->former.engine == NULL)
		return;
	sim->former.asked = true;
	load_flush(sim); /* it may know of nothing that has to be flushed */
	sim->former.asked = false;
	for (uint64_t left = fake_random(random) % 60; left > 0 && !sim->crash_due; left--) {
		if (sim->active_count < sim->depth)
			load_submit(sim, random);
		load(sim, false, random);
		sim_turn(sim);
		sim_advance(sim,
			    now(sim) + random_between(random, 0,
						      random_once_in(random, 10) ? 200000 : 3000));
	}
}

/* Nobody holds it any more: whoever of the two reaches it first has it. */
static void
restart_target(struct sim *sim, int m, uint64_t *random)
{
	const uint64_t lasts_us = random_between(random, 0, 3000000);
	const bool former_first = random_once_in(random, 2);
	uint64_t *heals_us = former_first ? &sim->former.others_heal_us : &sim->former.heals_us;

	sim_trace(sim, "target %d is started anew, the %s one reaches it first", m,
		  former_first ? "former" : "other");
	fake_member_restart(&sim->members[m]);
	sim->former.restarted_us = now(sim);
	if (former_first)
		sim->former.unreached |= 1u << m;
	(former_first ? sim_session(sim, m) : former_session(sim, m))->away = true;
	if (*heals_us == UINT64_MAX)
		*heals_us = now(sim) + lasts_us;
	fault_trouble(sim, m, *heals_us - now(sim) + RETRIED_US);
}

static void
restart_targets(struct sim *sim, uint64_t *random)
{
	const uint64_t of = random_between(random, 1, 3);

	for (int m = 0; m < sim->slots; m++)
		if (sim->slot_of[m] >= 0 && random_once_in(random, of))
			restart_target(sim, m, random);
}

/* One after the other, while the former has load. */
static void
take(struct sim *sim, uint64_t *random)
{
	const bool contested = random_once_in(random, 3);
	const uint64_t until_us = now(sim) + TAKEN_US;

	sim_advance(sim, now(sim) + random_between(random, 0,
						   random_once_in(random, 2) ? 3000 : 3000000));
	sim_take_over(sim, true);
	while (!sim->former.lost && now(sim) < until_us && !sim->crash_due) {
		load(sim, random_once_in(random, 6), random);
		if (contested && random_once_in(random, 8))
			restart_targets(sim, random);
		sim_advance(sim,
			    now(sim) + random_between(random, 0,
						      random_once_in(random, 10) ? 200000 : 3000));
	}
	if (contested && sim->former.engine != NULL && has_failed(sim))
		stop(sim); /* as its gateway does: it holds no member that it met too late */
	if (sim->former.lost && !random_once_in(random, 3))
		haunt(sim, random);
}

/* Nothing is left to be written or flushed, and reads are under way: what is asked next may be
 * answered from memory.
 */
static void
come_to_rest(struct sim *sim, uint64_t *random)
{
	load_flush(sim);
	sim_wait(sim, sim_is_drained, REST_US);
	if (random_once_in(random, 2)) /* its marks are cleaned */
		sim_advance(sim, now(sim) + random_between(random, 2000000, 6000000));
	load_flush(sim);
	sim_wait(sim, sim_is_drained, REST_US);
	for (uint64_t left = random_between(random, 0, 12); left > 0; left--) {
		load_read(sim, random);
		sim_advance(sim, now(sim) + random_between(random, 0, 600));
	}
}

static void
strike_once(struct sim *sim, uint64_t *random)
{
	sim_trace(sim, "FAULT %s", fault_names[FAULT_SECOND]);
	former_end(sim);
	sim_look(sim);
	if (!sim->running_seen || sim->crash_due)
		return;
	fault_resume_load(sim, random);
	if (random_once_in(random, 2))
		come_to_rest(sim, random);
	if (sim->crash_due || sim->status.state == VOLUME_FAILED)
		return;
	where_note(sim, FAULT_SECOND);
	sim->steer.on = false;
	sim->armed = false;
	sim->crash_in = 0;
	become_former(sim);
	/* a target that bars only who writes proves nothing */
	if (random_once_in(random, 6))
		sim->members[fake_random(random) % (uint64_t)sim->slots].shares_reads = true;
	fall_ill(sim, random);
	for (int m = 0; m < sim->slots; m++)
		fault_trouble(sim, m, 500);
	sim->logged = false;
	oracle_crashed(sim);
	oracle_told(sim);
	sim->former.ends_step = sim->step + (uint32_t)random_between(random, 1, 60);
	take(sim, random);
}

/* To the other gateway, and perhaps back. */
void
former_strike(struct sim *sim, uint64_t *random)
{
	do
		strike_once(sim, random);
	while (sim->former.lost && !sim->crash_due && random_once_in(random, 4));
}

void
former_step(struct sim *sim)
{
	uint64_t random = random_stream(sim->options.seed, STREAM + 0x1000 + sim->step);

	if (sim->former.engine == NULL)
		return;
	if (sim->step >= sim->former.ends_step) {
		former_end(sim);
		return;
	}
	if (random_once_in(&random, 3))
		load(sim, random_once_in(&random, 4), &random);
}

void
former_init(struct sim *sim)
{
	sim->former.others_heal_us = UINT64_MAX;
	for (int m = 0; m < sim->slots && sim_can(sim, ABILITY_TWO_GATEWAYS); m++) {
		struct fake_member *device = &sim->members[m];

		fake_member_init_second(&sim->seconds[m], device, device->random);
		device->reservations = true;
		device->preempts_nothing = MUTANT(TAKEN_UNPREEMPTED);
		device->landed = landed;
	}
}

void
former_free(struct sim *sim)
{
	free(sim->former.void_writes);
}
