/* sim_run.c - the steps of a run, virtual time, and the gateway's life. */
#include "sim.h"

#include "bury.h"
#include "engine_memory.h"
#include "pure/mutant.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define IDLE_TURNS_MAX 3000 /* of the engine asking to be called again at once */
#define EVENTS_MAX 3000000u /* far more than any run needs */
#define PATIENCE_US (20ull * 1000000)
#define HANG_US (300ull * 1000000) /* of virtual time without an end: something hangs */

/* --- telling --- */

void
sim_fail(struct sim *sim, const char *format, ...)
{
	char text[SIM_MESSAGE_MAX - 60];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(sim->options.message, SIM_MESSAGE_MAX, "step %u, %llu ms: %s", sim->step,
		 (unsigned long long)(sim->schedule.now_us / 1000), text);
	sim_trace(sim, "FAILED: %s", text);
	fflush(NULL);
	_exit(SIM_EXIT_FAILED);
}

void
sim_trace(struct sim *sim, const char *format, ...)
{
	va_list args;

	if (!sim->options.trace)
		return;
	fprintf(stderr, "%5u %10.3f  ", sim->step, (double)sim->schedule.now_us / 1000);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* --- what the engine says of itself --- */

static void
see_members(struct sim *sim)
{
	uint32_t there = 0;

	for (int role = 0; role < sim->count; role++)
		sim->holder[role] = -1;
	for (int m = 0; m < sim->slots; m++) {
		const struct member_status *member =
			&sim->status.members[sim->slot_of[m] >= 0 ? sim->slot_of[m] : 0];

		sim->roles[m] = -1;
		if (sim->slot_of[m] < 0 || !member->attached)
			continue;
		sim->roles[m] = member->role;
		if (member->role < 0 || member->state != MEMBER_IN_SYNC)
			continue;
		if (sim->holder[member->role] >= 0)
			sim_fail(sim, "devices %d and %d both hold role %d",
				 sim->holder[member->role], m, member->role);
		sim->holder[member->role] = m;
		there |= 1u << member->role;
	}
	oracle_out_changed(sim, ~there & ((1u << sim->count) - 1));
	fault_update_excess(sim);
}

/* A spare whose mark had its UUID has become a member since: what is on the device is older. */
static bool
has_newer_namesake(const struct sim *sim, int m)
{
	struct superblock own, other;

	if (!sim_can(sim, ABILITY_TWIN_SPARES) || !sim_read_superblock(&sim->members[m].disk, &own))
		return false;
	for (int i = 0; i < sim->slots; i++)
		if (i != m && sim_read_superblock(&sim->members[i].disk, &other) &&
		    memcmp(own.member_uuid, other.member_uuid, sizeof(own.member_uuid)) == 0 &&
		    other.epoch > own.epoch)
			return true;
	return false;
}

/* No device goes back in this life, so nobody may be accused of it but an old copy; and who was read
 * before the gateway that is being taken over wrote to it, while the others were read after that.
 */
static void
see_accusations(struct sim *sim)
{
	if (sim_can(sim, ABILITY_ROLLBACKS) || (sim->former.engine != NULL && !sim->running_seen))
		return;
	for (int slot = 0; slot < sim->status.slots; slot++) {
		const int m = sim->member_in[slot];

		if (strstr(sim->status.members[slot].reason, "went back in time") != NULL &&
		    !(m >= 0 && (sim->clone_is_old[m] || has_newer_namesake(sim, m))))
			sim_fail(sim, "slot %d is accused of having gone back in time", slot);
	}
}

void
sim_look(struct sim *sim)
{
	const bool assembled = sim->running_seen;

	sim->look = false;
	if (sim->engine == NULL || sim->stranger)
		return;
	engine_status(sim->engine, &sim->status);
	sim->key_met |= sim->status.state == VOLUME_FAILED && former_holds(sim);
	see_accusations(sim);
	if (sim->status.state != VOLUME_ACTIVE && sim->status.state != VOLUME_DEGRADED &&
	    sim->status.state != VOLUME_SUSPENDED &&
	    !(sim->status.state == VOLUME_STOPPING && sim->running_seen))
		return;
	sim->logged &= sim->running_seen;
	sim->running_seen = true;
	sim->engine_options.take_over_ms = 0;
	former_sees_running(sim);
	admin_size_seen(sim);
	see_members(sim);
	if (!assembled) {
		sim->assembled_us = sim->schedule.now_us;
		for (int m = 0; m < sim->slots; m++)
			sim->flushes_before[m] = sim->members[m].flushes_answered;
		oracle_assembled(sim);
	}
	clone_look(sim);
	raw_look(sim);
	oracle_look_at_damage(sim);
}

static bool
is_weighty(const char *text)
{
	static const char *const phrases[] = { "is evicted",	  "were being written",
					       "is being filled", "is in sync as",
					       "I/O goes on",	  "assembled",
					       "are lost",	  "accepted",
					       "is growing" };

	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (strstr(text, phrases[i]) != NULL)
			return true;
	return false;
}

/* A member that can't even hold what is written anew is sent away by the engine itself: from then
 * on it is in trouble, as one whose session was cut.
 */
static void
session_lost(struct sim *sim, const char *text)
{
	unsigned int m;

	if (sscanf(text, "member m%u: session lost", &m) != 1 ||
	    strstr(text, "session lost") == NULL)
		return;
	if (m < (unsigned int)sim->slots && sim->members[m].disk.stuck_count > 0)
		fault_trouble(sim, (int)m, 0);
	/* With a full table what caches took along in a time of excess stays unsettled, and a
	 * member that lacks some of it can't make up for another.
	 */
	if (sim->schedule.now_us <= sim->excess_until_us ||
	    (sim->engine != NULL && engine_table_is_full(sim->engine)))
		sim->cache_losses++;
}

/* One that is away says so at a log-in, also at one that comes to nothing: no session ends. */
static void
word_broken(void *owner, struct fake_member *session)
{
	struct sim *sim = owner;
	const int m = (int)(session->device - sim->members);

	if (session == sim_session(sim, m) && sim->schedule.now_us <= sim->excess_until_us)
		sim->cache_losses++;
}

static void
engine_says(void *owner, int level, const char *text)
{
	struct sim *sim = owner;

	if (strstr(text, "is mended") != NULL)
		oracle_mended(sim, strtoull(text + strlen("row "), NULL, 10), former_speaks(sim));
	if (former_speaks(sim)) {
		/* its successor has to say so, if it could not */
		sim->cache_losses += strstr(text, "session lost") != NULL ||
				     strstr(text, "had not flushed may be lost") != NULL;
		sim->former.look = true;
		sim_trace(sim, "former engine <%d> %s", level, text);
		if (level <= LOG_ALERT)
			sim_fail(sim, "%s", text);
		return;
	}
	sim->look = true;
	sim_trace(sim, "engine <%d> %s", level, text);
	sim->fenced_fairly |= strstr(text, "has stopped writing") != NULL && former_holds(sim);
	if (level <= LOG_ALERT)
		sim_fail(sim, "%s", text);
	session_lost(sim, text);
	if (sim->armed && is_weighty(text)) {
		sim->armed = false;
		sim->crash_in = (int)random_between(&sim->random, 1, 8);
	}
	if (strstr(text, "session restored") != NULL)
		oracle_session_restored(sim, atoi(text + strlen("member m")));
}

static void
engine_event(void *owner, const struct engine_event *event)
{
	struct sim *sim = owner;

	if (former_speaks(sim))
		return;
	sim->look = true;
	sim->options.totals->rebuilds += event->kind == EVENT_REBUILD_FINISHED;
	sim->options.totals->scrubs += event->kind == EVENT_SCRUB_FINISHED;
	if (event->kind == EVENT_SCRUB_MISMATCH && sim->rot_count == 0)
		sim_fail(sim, "a scrub found what nobody did: %s", event->text);
	if (event->kind == EVENT_MEMBER_EVICTED)
		check_eviction(sim, event);
}

/* The file has it: 0, or it was refused. */
static void
land_epoch(struct sim *sim)
{
	if (sim->epoch_error == 0 && sim->epoch_kind == EPOCH_GIVEN)
		sim->epoch_recorded = sim->epoch_asked;
	else if (sim->epoch_error == 0)
		sim->epoch_tried[sim->side] = sim->epoch_asked;
}

static void
epoch_landed(struct event *event)
{
	struct sim *sim = (struct sim *)((char *)event - offsetof(struct sim, epoch_landing));

	land_epoch(sim);
	engine_epoch_recorded(sim->engine, sim->epoch_kind, sim->epoch_asked, sim->epoch_error);
}

void
sim_epoch_land_now(struct sim *sim)
{
	if (sim->epoch_landing.place == 0)
		return;
	schedule_cancel(&sim->schedule, &sim->epoch_landing);
	epoch_landed(&sim->epoch_landing);
}

/* The engine has ended, and its driver with it: what was being written is there, or is not. */
static void
epoch_leave(struct sim *sim)
{
	if (sim->epoch_landing.place == 0)
		return;
	schedule_cancel(&sim->schedule, &sim->epoch_landing);
	if (random_once_in(&sim->random, 2))
		land_epoch(sim);
}

static bool
is_epoch_refused(struct sim *sim, enum epoch_kind kind)
{
	if (sim->schedule.now_us >= sim->no_epoch_until_us &&
	    (kind == EPOCH_MEANT || !random_once_in(&sim->random, 40)))
		return false;
	/* Tried again a second later, when the limit of the assembly may be over. */
	sim->struck_assembling |= !sim->running_seen;
	return true;
}

static void
record_epoch(void *owner, enum epoch_kind kind, uint64_t epoch)
{
	static const uint64_t longest_us[] = { 0, 0, 20000, 500000 };
	struct sim *sim = owner;
	uint64_t takes_us;

	if (former_speaks(sim)) {
		former_records(sim, kind, epoch);
		return;
	}
	if (sim->stranger) {
		engine_epoch_recorded(sim->engine, kind, epoch, 0);
		return;
	}
	if (kind == EPOCH_GIVEN && sim->former.engine != NULL && epoch <= sim->former.epoch)
		sim_fail(sim,
			 "the volume is taken over by epoch %llu, and the former gateway's is %llu",
			 (unsigned long long)epoch, (unsigned long long)sim->former.epoch);
	if (kind == EPOCH_GIVEN && epoch <= sim->epoch_recorded)
		sim_fail(sim, "epoch %llu is not above the last one, %llu",
			 (unsigned long long)epoch, (unsigned long long)sim->epoch_recorded);
	if (sim->epoch_landing.place != 0)
		sim_fail(sim, "epoch %llu is asked for while another is written",
			 (unsigned long long)epoch);
	sim->epoch_kind = kind;
	sim->epoch_asked = epoch;
	sim->epoch_error = is_epoch_refused(sim, kind) ? -EIO : 0;
	sim->epoch_landing.fire = epoch_landed;
	takes_us = random_between(&sim->random, 0, longest_us[fake_random(&sim->random) % 4]);
	sim->epochs_us += takes_us;
	schedule_add(&sim->schedule, &sim->epoch_landing, sim->schedule.now_us + takes_us);
}

/* --- time --- */

/* Too few members are there for a take-over, though the level needs no more: it waits for others, or
 * for one that refuses to hear of it.  Or
 * the former gateway came back to one after it was taken: who started gives way, until it is told
 * once more to take over.
 */
static void
look_for_quorum(struct sim *sim)
{
	if (sim->running_seen || sim->stranger || sim->stopped ||
	    !sim_can(sim, ABILITY_TWO_GATEWAYS))
		return;
	engine_status(sim->engine, &sim->status);
	if (strstr(sim->status.reason, "is gone for certain from") != NULL ||
	    strstr(sim->status.reason, "which has not heard of this start") != NULL)
		sim->excess_until_us = sim->schedule.now_us;
	if (sim->excess_until_us == sim->schedule.now_us ||
	    strstr(sim->status.reason, "in use by another gateway") != NULL)
		sim->contested_us = sim->schedule.now_us;
}

void
sim_turn(struct sim *sim)
{
	time_count_slow(sim);
	former_turn(sim);
	sim->turn_missed = sim->schedule.now_us < sim->still_until_us;
	if (!sim->turn_missed && sim->stood_from_us != 0) {
		sim->stood_us = time_stood_us(sim);
		sim->stood_from_us = 0;
	}
	if (sim->engine == NULL || sim->turn_missed)
		return;
	fault_end_conflicts(sim);
	fair_look(sim);
	if (sim->accepting && !sim->stranger)
		oracle_accepting(sim);
	look_for_quorum(sim);
	sim->turn_us = sim->schedule.now_us;
	engine_run(sim->engine, sim->schedule.now_us / 1000);
	if (!sim->stopped && !engine_is_done(sim->engine, sim->schedule.now_us / 1000))
		sim_fail(sim, "the engine went to sleep although there was something to do");
	time_look(sim, false);
	time_look_at_memory(sim);
	time_look_at_slow(sim);
	sim->options.totals->memory_waits += engine_waits_for_memory(sim->engine);
	if (sim->look)
		sim_look(sim);
	if (++sim->events > EVENTS_MAX)
		sim_fail(sim, "no end after %u events", EVENTS_MAX);
}

static uint64_t
main_due_us(const struct sim *sim)
{
	uint64_t deadline;

	if (sim->engine == NULL || sim->stopped)
		return UINT64_MAX;
	if (sim->turn_missed)
		return sim->still_until_us;
	deadline = engine_deadline(sim->engine);
	if (deadline == UINT64_MAX)
		return UINT64_MAX;
	return deadline * 1000 > sim->still_until_us ? deadline * 1000 : sim->still_until_us;
}

/* The next millisecond, for the engine's clock has no smaller ones; but not past what happens
 * before.
 */
static uint64_t
next_tick_us(const struct sim *sim)
{
	const uint64_t tick_us = sim->schedule.now_us + 1000 - sim->schedule.now_us % 1000;
	const uint64_t event_us = schedule_next_us(&sim->schedule);

	return event_us < tick_us ? event_us : tick_us;
}

static uint64_t
engine_due_us(const struct sim *sim)
{
	const uint64_t due_us = main_due_us(sim), former_us = former_due_us(sim);

	return due_us < former_us ? due_us : former_us;
}

/* One turn: the next event, or the engine's deadline, whichever comes first.  False: not until
 * until_us.
 */
static bool
next_turn(struct sim *sim, uint64_t until_us, int *idle_turns)
{
	uint64_t due_us = engine_due_us(sim);

	if (sim->crash_due)
		return false;
	if (schedule_next_us(&sim->schedule) <= due_us) {
		if (!schedule_fire(&sim->schedule, until_us))
			return false;
		/* A driver runs the engine after a batch of answers, not after each. */
		while (random_once_in(&sim->random, 2) &&
		       schedule_fire(&sim->schedule, sim->schedule.now_us + 100))
			;
		*idle_turns = 0;
	} else {
		if (due_us > until_us)
			return false;
		if (due_us > sim->schedule.now_us)
			sim->schedule.now_us = due_us;
		else if (++*idle_turns > IDLE_TURNS_MAX)
			sim_fail(sim,
				 "the engine's deadline stays in the past: a driver would spin");
		else
			sim->schedule.now_us = next_tick_us(sim);
	}
	sim_turn(sim);
	steer(sim);
	cascade(sim);
	if (sim->crash_in > 0 && --sim->crash_in == 0)
		sim->crash_due = true;
	return true;
}

void
sim_advance(struct sim *sim, uint64_t until_us)
{
	int idle_turns = 0;

	while (next_turn(sim, until_us, &idle_turns))
		;
	if (until_us > sim->schedule.now_us && !sim->crash_due)
		sim->schedule.now_us = until_us;
}

bool
sim_wait(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t limit_us)
{
	uint64_t until_us = sim->schedule.now_us + limit_us;
	int idle_turns = 0;

	while (!condition(sim))
		if (!next_turn(sim, until_us, &idle_turns))
			return condition(sim);
	return true;
}

static void
trace_devices(struct sim *sim)
{
	for (int slot = 0; slot < sim->status.slots; slot++)
		sim_trace(sim, "slot %d (device %d): role %d, %s: %s", slot, sim->member_in[slot],
			  sim->status.members[slot].role,
			  member_state_name(sim->status.members[slot].state),
			  sim->status.members[slot].reason);
}

/* The same; fails the run if that takes longer than anything can. */
static void
sim_await(struct sim *sim, bool (*condition)(struct sim *sim), const char *what)
{
	if (sim_wait(sim, condition, HANG_US))
		return;
	sim_look(sim);
	trace_devices(sim);
	sim_fail(sim, "%s, after %llu s; volume %s (%s), %u requests, %u regions suspect", what,
		 (unsigned long long)(HANG_US / 1000000), volume_state_name(sim->status.state),
		 sim->status.reason, sim->active_count, sim->status.regions_suspect);
}

/* --- the gateway --- */

static uint64_t
draw_key(void *owner)
{
	struct sim *sim = owner;

	return random_stream(sim->options.seed, 0x10607ull << 32 | sim->log_keys++);
}

/* As a driver's: when the turn began. */
static uint64_t
turn_ns(void *owner)
{
	const struct sim *sim = owner;

	return (sim->former.has_turn ? sim->former.turn_us : sim->turn_us) * 1000;
}

static uint64_t
clock_ns(void *owner)
{
	return ((struct sim *)owner)->schedule.now_us * 1000;
}

static void
start_engine(struct sim *sim, const struct engine_options *options)
{
	struct engine_port port = {
		.record_epoch = record_epoch,
		.epochs_kept_in = "/var/lib/iraid",
		.log = engine_says,
		.event = engine_event,
		.want_spare = admin_wants_spare,
		.detached = admin_detached,
		.random = draw_key,
		.now_ns = turn_ns,
		.clock_ns = clock_ns,
		.owner = sim,
	};
	struct backend *backends[SIM_SLOTS_MAX];
	int count = 0;

	clone_starts(sim);
	for (int slot = 0; slot < SLOTS_MAX; slot++)
		sim->member_in[slot] = -1;
	for (int m = 0; m < sim->slots; m++) {
		if (sim->slot_of[m] < 0)
			continue;
		sim->slot_of[m] = count;
		sim->member_in[count] = m;
		backends[count++] = &sim_session(sim, m)->backend;
	}
	for (int m = 0; m < sim->slots; m++) {
		struct fake_member *session = sim_session(sim, m);

		session->gateway = sim_gateway_number(options);
		session->may_take = options->take_over_ms != 0;
		session->was_taken = false; /* its adapter is new, too */
		session->predecessor = 0;
		session->backend.predecessor_key = 0;
		session->away = former_unreached(sim, m);
		session->wrote = oracle_member_wrote;
		/* an engine asks what came after it only */
		session->words_told = session->backend.writes_lost;
	}
	sim->accepting = false;
	sim->stopping = false;
	sim->stopped = false;
	sim->fenced_fairly = false;
	sim->running_seen = false;
	sim->key_met = false;
	sim->struck_assembling = false;
	sim->epochs_us = 0;
	sim->started_us = sim->schedule.now_us;
	sim_trace(sim, "gateway %s starts", options->owner);
	engine_memory_begin();
	do /* started again, where there was no memory */
		sim->engine =
			engine_create(options, &port, backends, count, sim->schedule.now_us / 1000);
	while (sim->engine == NULL);
	sim->still_until_us = 0;
	engine_start(sim->engine);
	sim_turn(sim);
}

/* Unreadable, or torn by a crash in the midst of its writing. */
static bool
copy_is_lost(const struct disk *disk, uint64_t copy)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;

	disk_read(disk, superblock_offset(copy), block, sizeof(block));
	return disk_is_damaged(disk, superblock_offset(copy), LAYOUT_SUPERBLOCK_BYTES) ||
	       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_CORRUPT;
}

/* Then the one that is left may not tell who has the volume. */
static bool
has_lost_a_copy(const struct sim *sim)
{
	for (int m = 0; m < sim->slots; m++)
		for (uint64_t copy = 0; copy < 2; copy++)
			if (copy_is_lost(&sim->members[m].disk, copy))
				return true;
	return false;
}

/* A crash came before the superblocks said that a loss has been told, or before members came back
 * that may have lost something.
 */
static void
note_untold(struct sim *sim)
{
	struct superblock superblock;
	bool untold = false;

	for (int m = 0; m < sim->slots; m++)
		untold |= sim_read_superblock(&sim->members[m].disk, &superblock) &&
			  superblock.flushes_fail;
	sim->cache_losses += untold;
}

/* As its gateway writes it to its state folder. */
static void
note_predecessor(struct sim *sim)
{
	struct engine_status status;

	if (!sim->running_seen)
		return;
	engine_status(sim->engine, &status);
	sim->predecessors[sim_gateway_number(&sim->engine_options)] = status.predecessor_key;
}

static void
recall_predecessor(struct sim *sim)
{
	const unsigned int number = sim_gateway_number(&sim->engine_options);

	sim->engine_options.predecessor_key = sim->predecessors[number];
	memset(sim->predecessors, 0, sizeof(sim->predecessors));
	sim->predecessors[number] = sim->engine_options.predecessor_key;
}

void
sim_start(struct sim *sim)
{
	recall_predecessor(sim);
	sim->engine_options.epoch_seen = sim->epoch_recorded;
	sim->engine_options.epoch_tried = sim->epoch_tried[sim->side];
	note_untold(sim);
	/* An administrator is told who has it, or that nobody can tell, and knows that no other
	 * gateway is alive.
	 */
	if (former_holds(sim) || has_lost_a_copy(sim))
		sim->engine_options.take_over_ms = UINT32_MAX;
	start_engine(sim, &sim->engine_options);
}

/* No two gateways have the same name behind the '#'. */
void
sim_take_over(struct sim *sim, bool another)
{
	char *last = sim->engine_options.owner + strlen(sim->engine_options.owner) - 1;

	if (another)
		*last = *last == '1' ? '2' : '1';
	/* until it has it: somebody tries again and again */
	sim->engine_options.take_over_ms = UINT32_MAX;
	/* A gateway that never had the volume does not know. */
	sim->engine_options.members_needed =
		sim->options.seed % 3 == 0 ? 0 : (uint8_t)geometry_least(&sim->geometry, 0);
	sim_start(sim);
}

void
sim_crash(struct sim *sim)
{
	sim->armed = false;
	sim->crash_in = 0;
	sim->crash_due = false;
	note_predecessor(sim);
	if (sim->running_seen)
		sim->logged = engine_log_keeps(sim->engine, &sim->log_proven) && !sim->log_void;
	for (int m = 0; m < sim->slots; m++)
		fake_member_abandon(sim_session(sim, m));
	load_abandon(sim);
	epoch_leave(sim);
	engine_bury(sim->engine);
	engine_memory_end();
	sim->engine = NULL;
	oracle_crashed(sim);
	oracle_told(sim);
}

static void
note_stopped(void *owner)
{
	((struct sim *)owner)->stopped = true;
}

static bool
has_stopped(struct sim *sim)
{
	return sim->stopped;
}

/* But for a superblock that was being written through when its session ended, for where members are
 * asked by writing zeros, which nobody reads, and for rows of a growth that did not come about.
 */
static uint32_t
cached_pages(const struct sim *sim, int role)
{
	const struct disk *disk = &sim->members[sim->holder[role]].disk;
	uint32_t count = 0;

	for (uint32_t i = 0; i < disk->dirty_count; i++) {
		const uint64_t offset = (uint64_t)disk->dirty[i] * DISK_PAGE;

		count += offset >= LAYOUT_MAP_OFFSET &&
			 (offset < sim->data_offset ||
			  sim_row_at(sim, role, offset - sim->data_offset) < sim->rows);
	}
	return count;
}

/* Who is called clean has nothing in its cache: the power may go. */
static void
check_stopped(struct sim *sim)
{
	/* Level 0 said so by a flush that failed, once. */
	for (int role = 0; role < sim->count && sim->geometry.redundancy > 0; role++) {
		struct superblock superblock;
		int m = sim->holder[role];

		if (m >= 0 && sim_read_superblock(&sim->members[m].disk, &superblock) &&
		    superblock.clean && superblock.member_states[role] == MEMBER_IN_SYNC &&
		    cached_pages(sim, role) > 0)
			sim_fail(sim, "stopped in order, and device %d has %u pages in its cache",
				 m, cached_pages(sim, role));
	}
}

void
sim_stop(struct sim *sim)
{
	const uint64_t began_us = sim->schedule.now_us, stood_us = time_stood_us(sim);

	sim->stopping = true;
	sim->still_until_us = 0;
	note_predecessor(sim);
	engine_stop(sim->engine, note_stopped, sim);
	sim_turn(sim);
	if (!sim_wait(sim, has_stopped, HANG_US) && sim->crash_due) {
		where_note(sim, FAULT_CRASH);
		sim_crash(sim); /* in the middle of it */
		return;
	}
	sim_await(sim, has_stopped, "the engine does not stop");
	time_judge_stop(sim, began_us, stood_us);
	if (sim->active_count > 0)
		sim_fail(sim, "stopped with %u requests not completed", sim->active_count);
	if (engine_holds_marks(sim->engine))
		sim_fail(sim, "stopped, and regions are marked as being written");
	epoch_leave(sim);
	engine_destroy(sim->engine);
	engine_memory_end();
	sim->engine = NULL;
	check_stopped(sim);
	sim->logged = false;
	oracle_stopped(sim);
	oracle_told(sim);
}

/* Another gateway finds a volume that was not stopped: it must leave it alone (DESIGN rule 8). */
void
sim_stranger(struct sim *sim)
{
	struct engine_options options = sim->engine_options;

	snprintf(options.owner, sizeof(options.owner), "stranger #9");
	options.epoch_seen = 0;
	options.epoch_tried = 0;
	options.predecessor_key = 0;
	options.take_over_ms = 0;
	for (int m = 0; m < sim->slots; m++)
		sim->members[m].written = false;
	sim->stranger = true;
	start_engine(sim, &options);
	sim_advance(sim, sim->schedule.now_us + 8000000);
	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].written)
			sim_fail(sim,
				 "a gateway wrote to device %d of a volume that another one has",
				 m);
	for (int m = 0; m < sim->slots; m++) {
		fake_member_abandon(sim_session(sim, m));
		if (sim->members[m].holder == sim_gateway_number(&options))
			sim->members[m].holder = 0; /* given back before it logged out */
	}
	engine_bury(sim->engine);
	engine_memory_end();
	sim->engine = NULL;
	sim->stranger = false;
}

/* --- quiescence --- */

bool
sim_is_drained(struct sim *sim)
{
	return sim->active_count == 0;
}

static bool
is_up(struct sim *sim)
{
	sim_look(sim);
	return sim->status.state == VOLUME_ACTIVE || sim->status.state == VOLUME_DEGRADED;
}

static bool
is_accepted(struct sim *sim)
{
	return !sim->accepting;
}

static bool
is_proven(struct sim *sim)
{
	sim_look(sim);
	return (sim->status.state == VOLUME_ACTIVE && sim->status.regions_suspect == 0) ||
	       sim->status.state == VOLUME_DEGRADED;
}

static bool
is_whole(struct sim *sim)
{
	sim_look(sim);
	return sim->status.state == VOLUME_ACTIVE;
}

/* Who is in sync is not out on anybody's superblock: a start would count that one as out. */
static bool
is_on_record(struct sim *sim)
{
	sim_look(sim);
	return (record_away(sim, -1) & ~sim->out_roles) == 0;
}

/* No faults any more, an administrator who helps: the volume has to become whole again. */
static void
recover(struct sim *sim)
{
	engine_set_rates(sim->engine, 64ull << 20, 1ull << 30);
	for (int attempt = 0; attempt < 12 && !is_whole(sim); attempt++) {
		admin_repair(sim, attempt % 4 != 3);
		if (sim_wait(sim, is_whole, PATIENCE_US))
			return;
		load_overwrite_damage(sim);
		admin_accept_wanted(sim);
	}
	if (is_whole(sim))
		return;
	trace_devices(sim);
	sim_fail(sim, "the volume does not become whole: %s (%s), %s",
		 volume_state_name(sim->status.state), sim->status.reason,
		 sim->status.rebuild.reason);
}

/* One that was wiped, or was exchanged, proves nothing: neither of the gateway before, nor, where this
 * one has lost its record, that no other runs the volume.  None does, so it is done as the refusal says.
 */
static void
force_unproven(struct sim *sim)
{
	if (sim_wait(sim, is_up, PATIENCE_US))
		return;
	engine_status(sim->engine, &sim->status);
	if (strstr(sim->status.reason, "is gone for certain from") == NULL &&
	    strstr(sim->status.reason, "or lost its record of that") == NULL)
		return;
	sim_stop(sim);
	sim->engine_options.force_ms = UINT32_MAX;
	sim_take_over(sim, false);
	sim->engine_options.force_ms = 0;
}

static bool
is_up_or_fenced(struct sim *sim)
{
	return is_up(sim) || strstr(sim->status.reason, "has stopped writing") != NULL;
}

/* The former was first to reach targets that were started anew: who hears of that gives way, until it
 * is told to take over once more.
 */
static void
take_over_once_more(struct sim *sim)
{
	if (sim->former.restarted_us == 0 || !sim_wait(sim, is_up_or_fenced, 60000000) ||
	    is_up(sim))
		return;
	sim_stop(sim);
	sim_take_over(sim, false);
}

static void
quiesce(struct sim *sim, bool whole)
{
	sim_trace(sim, "quiescence");
	sim->steer.on = false;
	sim->armed = false;
	sim->crash_in = 0;
	sim->crash_due = false;
	former_end(sim);
	fault_cure_all(sim);
	/* sessions may have ended, and an engine with nothing else to wait for has to hear of that
	 */
	sim_turn(sim);
	/* a member that was away then: the volume wants another take-over for it, also if a loss of
	 * power has taken the reservation since
	 */
	if (former_holds(sim) || sim->key_met) {
		sim_stop(sim);
		sim_take_over(sim, false);
	}
	force_unproven(sim);
	take_over_once_more(sim);
	sim_await(sim, is_up, "the volume does not come up");
	sim_await(sim, sim_is_drained, "requests are not completed");
	sim_advance(sim, sim->schedule.now_us + 7000000);
	sim_await(sim, is_up, "the volume does not stay up");
	sim->left_by_force = 0;
	if (whole && sim->engine_options.resync_rows_max > 0 && sim->geometry.redundancy > 0)
		recover(sim);
	if (sim->engine_options.resync_rows_max > 0 && sim->geometry.redundancy > 0) {
		/* Data that can't be read, in a row whose parity proves nothing, is gone: write it
		 * anew.
		 */
		if (!sim_wait(sim, is_proven, PATIENCE_US)) {
			load_overwrite_damage(sim);
			sim_await(sim, sim_is_drained, "requests are not completed");
		}
		sim_await(sim, is_proven, "resync does not end");
	}
	engine_set_rates(sim->engine, sim->engine_options.sync_rate_min,
			 sim->engine_options.sync_rate_max);
	sim_await(sim, sim_is_drained, "requests are not completed");
	sim_await(sim, is_accepted, "who accepted lost extents is not told");
	sim_await(sim, is_on_record, "a member that is in sync is out on record");
	sim_look(sim);
	if (sim->geometry.redundancy > 0 && sim->status.regions_suspect == 0) {
		check_media(sim);
		if (sim->status.state == VOLUME_ACTIVE)
			oracle_quiescent(sim);
	}
	load_check_quarantine(sim, true);
}

/* --- the beginning --- */

static void
draw_options(struct sim *sim)
{
	uint64_t *random = &sim->random;
	struct engine_options *options = &sim->engine_options;

	*options = (struct engine_options){
		.owner = "sim #1",
		.assembly_wait_ms = (uint32_t)random_between(random, 50, 3000),
		.queue_limit_ms = (uint32_t)random_between(random, 500, 25000),
		.give_up_ms = (uint32_t)random_between(random, 100, 5000),
		.resync_rows_max =
			random_once_in(random, 12) ? 0 : (uint32_t)random_between(random, 4, 16),
		.sync_rate_min = 1ull << random_between(random, 16, 26),
		.sync_rate_max = 1ull << random_between(random, 22, 30),
		.grace_ms =
			random_once_in(random, 3) ? 0 : (uint32_t)random_between(random, 1, 2000),
		.loss_told_ms =
			random_once_in(random, 2) ? 0 : (uint32_t)random_between(random, 1, 3000),
		.hedge_ms =
			random_once_in(random, 3) ? 0 : (uint32_t)random_between(random, 2, 500),
		.spare_wait_ms = (uint32_t)random_between(random, 100, 60000),
		.error_limit = (uint32_t)random_between(random, 4, 64),
	};
	/* A member may fall silent while its map is read: noticed after give_up, and then it is
	 * waited for.
	 */
	options->assembly_limit_ms = options->assembly_wait_ms + options->give_up_ms +
				     (uint32_t)random_between(random, 2000, 20000);
	if (random_once_in(random, 4) || sim_can(sim, ABILITY_SHORT_MEMORY))
		/* as little as is possible: operations wait for it */
		options->buffer_bytes_max = 1;
	if (sim_can(sim, ABILITY_LOG)) {
		uint64_t own = ability_random(sim, ABILITY_LOG);

		options->log = LOG_MODE_DEGRADED;
		if (random_once_in(&own, 2))
			options->log_live_bytes_max = (uint32_t)random_between(
				&own, 8u << 10, random_once_in(&own, 2) ? 64u << 10 : 1u << 20);
		if (random_once_in(&own, 2))
			options->log_segments_max = 3;
		if (random_once_in(&own, 2)) {
			options->log = LOG_MODE_ALWAYS;
			if (random_once_in(&own, 2)) /* with three nothing is held */
				options->log_segments_max = 0;
		}
	}
	if (sim_can(sim, ABILITY_TWO_GATEWAYS)) {
		uint64_t own = ability_random(sim, ABILITY_TWO_GATEWAYS);

		if (random_once_in(&own, 2)) /* the second one is quick */
			options->assembly_wait_ms = (uint32_t)random_between(&own, 50, 150);
	}
	if (sim_can(sim, ABILITY_SMALL_TABLE)) {
		uint64_t own = ability_random(sim, ABILITY_SMALL_TABLE);

		options->lost_entries_max = (uint32_t)random_between(&own, 2, 40);
	}
	memset(options->volume_uuid, 0x77, 16);
}

static void
begin(struct sim *sim, const struct sim_options *options)
{
	char label[32];

	*sim = (struct sim){ .options = *options,
			     .random = random_stream(options->seed, 0),
			     .snapshot_of = -1,
			     .went_back = -1 };
	schedule_init(&sim->schedule);
	sim->schedule.now_us = 1000000;
	ability_draw(sim);
	format_draw_shape(sim);
	draw_options(sim);
	sim->clone_stays = -1;
	for (int m = 0; m < sim->slots; m++) {
		struct fake_member *member = &sim->members[m];

		sim->clone_of[m] = -1;
		snprintf(label, sizeof(label), "m%d", m);
		fake_member_init(member, label, sim->member_bytes_max, sim->block_bytes,
				 &sim->schedule, &sim->random);
		member->capacity_bytes = sim->member_bytes;
		member->answer_us_min = SIM_ANSWER_US_MIN;
		member->answer_us_max = SIM_ANSWER_US_MAX;
		member->deadline_us = random_between(&sim->random, 1000, 4000) * 1000;
		member->command_us_max = 6000ull * sim->engine_options.give_up_ms;
		member->disk.write_cache = !random_once_in(&sim->random, 5);
		member->backend.paths = random_once_in(&sim->random, 3) ? 2 : 1;
		member->sector_lost = oracle_sector_dropped;
		member->word_broken = word_broken;
		member->owner = sim;
		member->fence_broken = MUTANT(FENCE_BROKEN);
		member->reissues = MUTANT(REISSUED);
		member->trace = options->trace > 1;
	}
	format_media(sim);
	oracle_init(sim);
	former_init(sim);
	load_init(sim);
	sim->admin_rate = random_once_in(&sim->random, 3) ? 0 : random_between(&sim->random, 1, 6);
	fault_init(sim);
	steer_init(sim);
	cascade_init(sim);
	sim_trace(sim, "seed %llu: level %d, %d members, chunk %u, block %u, %llu rows, depth %u%s",
		  (unsigned long long)options->seed, sim->level, sim->count, sim->chunk_bytes,
		  sim->block_bytes, (unsigned long long)sim->rows, sim->depth,
		  sim->zeroed ? ", zeroed" : "");
}

static void
add_counts(struct sim *sim)
{
	struct sim_totals *totals = sim->options.totals;

	for (int m = 0; m < sim->slots; m++) {
		const struct fake_counts *counts = &sim->members[m].counts;

		totals->fake.answers_lost += counts->answers_lost;
		totals->fake.torn += counts->torn;
		totals->fake.late += counts->late;
		totals->fake.late_landed += counts->late_landed;
		totals->fake.late_fenced += counts->late_fenced;
		totals->fake.sectors_lost += counts->sectors_lost;
		totals->fake.medium_errors += counts->medium_errors;
		totals->fake.diverted += counts->diverted;
	}
	totals->virtual_ms += sim->schedule.now_us / 1000;
	totals->events += sim->events;
	totals->seeds++;
}

static void
end(struct sim *sim)
{
	add_counts(sim);
	load_free(sim);
	for (int m = 0; m < sim->slots; m++)
		fake_member_free(&sim->members[m]);
	former_free(sim);
	disk_free(&sim->foreign);
	if (sim->snapshot_of >= 0)
		disk_free(&sim->snapshot);
	schedule_free(&sim->schedule);
	oracle_free(sim);
}

/* --- steps --- */

static bool
is_fault_step(uint32_t step, uint64_t *random, uint64_t fault_rate)
{
	bool drawn = fake_random(random) % 1000 < fault_rate;

	return drawn || step == 40 || step == 110 || step == 190;
}

static uint64_t
draw_delay(uint64_t *random)
{
	uint64_t kind = fake_random(random) % 40;

	if (kind < 24)
		return 0;
	if (kind < 34)
		return fake_random(random) % 500;
	if (kind < 39)
		return fake_random(random) % 20000;
	return fake_random(random) % 300000;
}

static void
run_step(struct sim *sim, uint32_t step, uint64_t fault_rate)
{
	uint64_t random = random_stream(sim->options.seed, step + 1);
	uint64_t kind = fake_random(&random) % 100;
	uint64_t patience_us;

	sim->steer.on = true;
	former_step(sim);
	if (sim->crash_due) {
		fault_crash(sim, &random);
		return;
	}
	sim->armed |= fake_random(&random) % 2000 < fault_rate;
	if (sim_can(sim, ABILITY_STAYING_FAULTS) &&
	    step == 20 + ability_random(sim, ABILITY_STAYING_FAULTS) % 200) {
		stay_begin(sim, &random);
		return;
	}
	if (is_fault_step(step, &random, fault_rate)) {
		fault_inject(sim, &random);
		return;
	}
	if (kind >= 100 - sim->admin_rate) {
		admin_step(sim, &random);
		sim_turn(sim);
		return;
	}
	if (kind < 2) {
		sim_advance(sim, sim->schedule.now_us + random_between(&random, 100000, 4000000));
		return;
	}
	if (step % 100 == 99 && kind < 40) {
		quiesce(sim, random_once_in(&random, 2));
		rot_step(sim, &random);
		return;
	}
	sim_advance(sim, sim->schedule.now_us + draw_delay(&random));
	for (patience_us = sim->schedule.now_us + 400000; sim->active_count >= sim->depth &&
							  sim->schedule.now_us < patience_us &&
							  !sim->crash_due;)
		sim_advance(sim, sim->schedule.now_us + 300);
	if (sim->active_count >= 2 * sim->depth + 8)
		return; /* all wait for something */
	if (kind < 6)
		load_sequential(sim, &random);
	else
		load_submit(sim, &random);
	sim_turn(sim);
}

void
sim_run(const struct sim_options *options)
{
	struct sim *sim = malloc(sizeof(*sim));
	uint64_t fault_rate, random;

	assert(sim != NULL);
	begin(sim, options);
	fault_rate = random_between(&sim->random, 2, 40);
	sim_start(sim);
	for (sim->step = 0; sim->step < options->steps; sim->step++)
		if (options->dropped == NULL || !options->dropped[sim->step])
			run_step(sim, sim->step, fault_rate);
	quiesce(sim, true);
	random = random_stream(options->seed, UINT32_MAX);
	rot_step(sim, &random);
	load_read_all(sim);
	sim_await(sim, sim_is_drained, "requests are not completed");
	sim_stop(sim);
	if (sim->foreign.dirty_count > 0)
		sim_fail(sim, "another volume's disk was written to");
	end(sim);
	free(sim);
}
