/* sim_time.c - how long requests take, and faults that stay.
 *
 * Every request has to end within engine_request_ms_max() (docs/design/time.md), whatever goes
 * wrong.  While no more members are in trouble than the level bears nobody is waited for, so that
 * two of its terms, queue_limit and assembly_limit, are not needed: requests that see only that are
 * judged without them.  A member of the simulator may take somewhat longer over a command than an
 * adapter lets it; that is added.
 *
 * A slow member is no such trouble: it answers, so it is waited for, by who asked it and by all who
 * wait for rows, or for room in the write log, behind that one.  However many these are, only a
 * request's own time ends that, which has both terms.  So time in which a slow member has something
 * to answer does not count towards the shorter bound.  No other time is left out: while it has
 * nothing to answer, nobody waits for it.
 *
 * A fault that stays lasts until the next quiescence.  For longer than the bound nothing else
 * happens then but requests: what waits for the fault to end can't come in time.
 */
#include "engine_memory.h"
#include "sim.h"

#include <string.h>

#define MARGIN_US 1000000ull
#define LONG_BYTES (1u << 20) /* a range of zeros above it has its time piece by piece */
#define PULSE_REQUESTS 40u    /* while it is watched */

static const char *const stay_names[STAY_KINDS] = {
	"hangs",
	"has no link",
	"takes no log-in",
	"answers log-ins only",
	"answers all but data",
	"is slow",
	"loses its session again and again",
	"refuses superblocks",
	"refuses the region map",
	"refuses the table of lost extents",
	"refuses everything but data",
	"refuses writes",
	"refuses reads",
	"refuses flushes",
};

/* --- the bound --- */

/* What the fakes may take longer over a command than the engine's bound knows: a log-in's deadline,
 * the watch's turn.
 */
static uint64_t
slack_us(const struct sim *sim)
{
	uint64_t most_us = 0;

	for (int m = 0; m < sim->slots; m++)
		if (sim->members[m].deadline_us > most_us)
			most_us = sim->members[m].deadline_us;
	return 2 * most_us + MARGIN_US;
}

static uint64_t
bound_us(const struct sim *sim, bool excess)
{
	struct engine_options options = sim->engine_options;

	if (!excess)
		options.queue_limit_ms = options.assembly_limit_ms = 0;
	return engine_request_ms_max(&options) * 1000 + slack_us(sim);
}

uint64_t
time_stood_us(const struct sim *sim)
{
	return sim->stood_us +
	       (sim->stood_from_us != 0 ? sim->schedule.now_us - sim->stood_from_us : 0);
}

uint64_t
time_awake_us(const struct sim *sim, bool former)
{
	return sim->schedule.now_us - (former ? former_stood_us(sim) : time_stood_us(sim));
}

static bool
is_long(const struct sim_request *request)
{
	return request->request.op == REQUEST_ZERO && request->request.length_bytes > LONG_BYTES;
}

/* Of a long range what waits to be cut waits for whatever piece is under way. */
static uint64_t
waits_since_us(const struct sim *sim, const struct sim_request *request)
{
	const uint64_t ended_us =
		request->former ? sim->former.zeros_ended_us : sim->zeros_ended_us;

	return is_long(request) && request->waits && ended_us > request->from_us ? ended_us
										 : request->from_us;
}

static void
judge(struct sim *sim, const struct sim_request *request)
{
	/* Who is about to lose all members to another gateway waits for them, too. */
	const bool excess = request->submit_us <= sim->excess_until_us || !request->assembled ||
			    sim->taking_us != 0 || request->former;
	const uint64_t awake_us = time_awake_us(sim, request->former),
		       since_us = waits_since_us(sim, request);
	const uint64_t took_us = awake_us > since_us ? awake_us - since_us : 0;
	/* And for memory whoever has to do without: it is tried each second. */
	const uint64_t short_us = time_held_up_us(sim, sim->schedule.now_us - took_us, false);
	const uint64_t slow_us = time_slow_us(sim) - request->slow_us;
	const uint64_t borne_us = bound_us(sim, excess) + short_us + slow_us,
		       longest_us = bound_us(sim, true);
	const uint64_t most_us = borne_us < longest_us ? borne_us : longest_us;
	struct sim_longest *longest =
		&sim->options.totals->longest[excess || short_us + slow_us > 0];

	if (took_us / 1000 > longest->took_ms)
		*longest =
			(struct sim_longest){ took_us / 1000, most_us / 1000, sim->options.seed };
	if (took_us > most_us && sim_can(sim, ABILITY_TIME_JUDGED))
		sim_fail(sim, "%s of %llu sectors at %llu took %llu ms%s, and may take %llu%s",
			 sim_op_name(request->request.op), (unsigned long long)request->count,
			 (unsigned long long)request->sector, (unsigned long long)(took_us / 1000),
			 is_long(request) ? " over a piece" : "",
			 (unsigned long long)(most_us / 1000),
			 excess ? ""
				: " while no more members are in trouble than the level bears");
}

/* It ended now, and a piece of it did. */
static bool
ends_with_piece(const struct sim_request *request)
{
	return is_long(request) && (int)request->request.pieces > request->pieces_ended;
}

void
time_judge(struct sim *sim, const struct sim_request *request)
{
	judge(sim, request);
	if (ends_with_piece(request))
		sim->zeros_done[request->former] = true;
}

/* True: a piece of it has ended since it was last looked at, or all have, and it is carried out
 * again.
 */
static bool
look_at(struct sim *sim, struct sim_request *request)
{
	const struct engine_request *seen = &request->request;
	const bool begun = seen->pieces_left > 0;
	const bool waits =
		!begun || (seen->first_error == 0 && seen->cut_bytes < seen->length_bytes);
	const int ended = (int)seen->pieces + (begun && waits) - (int)seen->pieces_left;
	const bool again = request->pieces > 0 && (seen->doubts != request->doubts ||
						   seen->cache_losses != request->losses);
	const bool any_ended = again || ended > request->pieces_ended;

	if (again || (int)seen->pieces > request->pieces) {
		judge(sim, request);
		request->from_us = time_awake_us(sim, request->former);
		request->slow_us = time_slow_us(sim);
	}
	request->waits = waits;
	request->pieces = (int)seen->pieces;
	request->pieces_ended = ended;
	request->doubts = seen->doubts;
	request->losses = seen->cache_losses;
	return any_ended;
}

/* Terabytes may take hours: what is bounded is how long a piece takes, and how long none ends. */
void
time_look(struct sim *sim, bool former)
{
	uint64_t *ended_us = former ? &sim->former.zeros_ended_us : &sim->zeros_ended_us;
	bool ended = sim->zeros_done[former];

	sim->zeros_done[former] = false;
	for (struct sim_request *request = former ? sim->former.active : sim->active;
	     request != NULL; request = request->next)
		if (is_long(request))
			ended |= look_at(sim, request);
	if (ended)
		*ended_us = time_awake_us(sim, former);
}

/* A driver's turn comes when something is answered: the fakes' sessions end at once. */
void
time_judge_stop(struct sim *sim, uint64_t began_us, uint64_t stood_us)
{
	const uint64_t lived_us = sim->schedule.now_us - began_us,
		       stood_since_us = time_stood_us(sim) - stood_us;
	const uint64_t took_us = lived_us > stood_since_us ? lived_us - stood_since_us : 0;
	struct sim_longest *longest = &sim->options.totals->longest_stop;

	if (took_us / 1000 > longest->took_ms)
		*longest = (struct sim_longest){ took_us / 1000, engine_stop_ms_max(),
						 sim->options.seed };
	if (took_us > engine_stop_ms_max() * 1000 && sim_can(sim, ABILITY_TIME_JUDGED))
		sim_fail(sim, "a stop took %llu ms, and may take %llu",
			 (unsigned long long)(took_us / 1000),
			 (unsigned long long)engine_stop_ms_max());
}

/* --- how slow members are, and when memory is short --- */

static uint32_t
oldest_spell(const struct sim *sim)
{
	return sim->spell_count > SPELLS_MAX ? sim->spell_count - SPELLS_MAX : 0;
}

/* What was sent while it was slow is answered as slowly after that. */
void
time_set_answers(struct sim *sim, int m, uint64_t least_us, uint64_t most_us)
{
	const uint64_t now_us = sim->schedule.now_us;

	for (uint32_t i = oldest_spell(sim); i < sim->spell_count; i++) {
		struct spell *spell = &sim->spells[i % SPELLS_MAX];

		if (spell->member == m && spell->until_us == UINT64_MAX)
			spell->until_us = now_us + spell->answer_us;
	}
	if (most_us > SIM_ANSWER_US_MAX)
		sim->spells[sim->spell_count++ % SPELLS_MAX] =
			(struct spell){ now_us, UINT64_MAX, most_us, m };
	sim->members[m].answer_us_min = least_us;
	sim->members[m].answer_us_max = most_us;
}

void
time_look_at_memory(struct sim *sim)
{
	const uint64_t now_us = sim->schedule.now_us;

	if (sim->memory_refused == engine_memory_refused())
		return;
	sim->memory_refused = engine_memory_refused();
	for (uint32_t i = oldest_spell(sim); i < sim->spell_count; i++) {
		struct spell *spell = &sim->spells[i % SPELLS_MAX];

		if (spell->member < 0 && spell->until_us >= now_us) {
			spell->until_us = now_us + MEMORY_RETRY_MS * 1000;
			return;
		}
	}
	sim->spells[sim->spell_count++ % SPELLS_MAX] =
		(struct spell){ now_us, now_us + MEMORY_RETRY_MS * 1000, 0, -1 };
}

/* Spells are in the order in which they began. */
uint64_t
time_held_up_us(struct sim *sim, uint64_t since_us, bool slow)
{
	uint64_t told_us = since_us, held_up_us = 0;

	time_look_at_memory(sim);
	for (uint32_t i = oldest_spell(sim); i < sim->spell_count; i++) {
		const struct spell *spell = &sim->spells[i % SPELLS_MAX];
		const uint64_t from_us = spell->from_us > told_us ? spell->from_us : told_us;
		const uint64_t until_us = spell->until_us < sim->schedule.now_us
						  ? spell->until_us
						  : sim->schedule.now_us;

		if (until_us <= from_us || (spell->member >= 0 && !slow))
			continue;
		held_up_us += until_us - from_us;
		told_us = until_us;
	}
	return held_up_us;
}

/* When whoever takes so long will have answered all that it was asked, a log-in too; 0: nothing.
 * Who takes longer is silent, which the shorter bound knows.
 */
static uint64_t
answered_by_us(const struct fake_member *session, uint64_t answer_us)
{
	const struct fake_member *device = session->device;
	uint64_t by_us = 0;

	if (session->opening && !device->hung && !device->cut_off)
		by_us = session->session.at_us;
	for (const struct fake_command *command = session->queue; command != NULL;
	     command = command->next)
		if (command->submit_us + answer_us > by_us)
			by_us = command->submit_us + answer_us;
	return by_us;
}

void
time_count_slow(struct sim *sim)
{
	sim->slow_us = time_slow_us(sim);
	sim->slow_seen_us = sim->schedule.now_us;
	sim->slow_until_us = 0;
}

void
time_look_at_slow(struct sim *sim)
{
	for (uint32_t i = oldest_spell(sim); i < sim->spell_count; i++) {
		const struct spell *spell = &sim->spells[i % SPELLS_MAX];
		uint64_t by_us;

		if (spell->member < 0 || spell->until_us <= sim->schedule.now_us)
			continue;
		by_us = answered_by_us(sim_session(sim, spell->member), spell->answer_us);
		if (by_us > sim->slow_until_us)
			sim->slow_until_us = by_us;
	}
}

uint64_t
time_slow_us(const struct sim *sim)
{
	const uint64_t until_us = sim->slow_until_us < sim->schedule.now_us ? sim->slow_until_us
									    : sim->schedule.now_us;

	return sim->slow_us + (until_us > sim->slow_seen_us ? until_us - sim->slow_seen_us : 0);
}

uint64_t
time_slowest_us(const struct sim *sim, uint64_t since_us)
{
	uint64_t slowest_us = SIM_ANSWER_US_MAX;

	for (uint32_t i = oldest_spell(sim); i < sim->spell_count; i++)
		if (sim->spells[i % SPELLS_MAX].until_us >= since_us &&
		    sim->spells[i % SPELLS_MAX].answer_us > slowest_us)
			slowest_us = sim->spells[i % SPELLS_MAX].answer_us;
	return slowest_us;
}

/* --- faults that stay --- */

static void
flap(struct event *event)
{
	struct stay *stay = (struct stay *)event;

	fake_member_cut(&stay->sim->members[stay->member], true);
	schedule_add(&stay->sim->schedule, event,
		     stay->sim->schedule.now_us +
			     random_between(&stay->sim->random, 20000, 900000));
}

static void
refuse_part(struct fake_member *member, uint64_t from_bytes, uint64_t to_bytes)
{
	member->refuse_from_bytes = from_bytes;
	member->refuse_to_bytes = to_bytes;
}

static void
begin(struct sim *sim, struct fake_member *member, enum stay_kind kind)
{
	switch (kind) {
	case STAY_HANG:
		fake_member_hang(member);
		break;
	case STAY_LINK:
		fake_member_link(member, false);
		break;
	case STAY_NO_LOGIN:
		fake_member_cut(member, false);
		break;
	case STAY_MUTE:
		member->mute_from_bytes = 0;
		break;
	case STAY_DATA_MUTE:
		member->mute_from_bytes = sim->data_offset;
		break;
	case STAY_SLOW:
		time_set_answers(sim, sim->stay.member, 100000, 700000);
		break;
	case STAY_FLAP:
		flap(&sim->stay.event);
		break;
	case STAY_REFUSE_SUPERBLOCKS:
		refuse_part(member, LAYOUT_SUPERBLOCK_A_OFFSET,
			    LAYOUT_SUPERBLOCK_B_OFFSET + LAYOUT_SUPERBLOCK_BYTES);
		break;
	case STAY_REFUSE_MAP:
		refuse_part(member, LAYOUT_MAP_OFFSET, LAYOUT_LOST_OFFSET);
		break;
	case STAY_REFUSE_TABLE:
		refuse_part(member, LAYOUT_LOST_OFFSET, LAYOUT_LOST_OFFSET + LAYOUT_LOST_BYTES);
		break;
	case STAY_REFUSE_METADATA:
		refuse_part(member, 0, sim->data_offset);
		break;
	case STAY_REFUSE_WRITES:
		member->refuse_writes = true;
		break;
	case STAY_REFUSE_READS:
		member->refuse_reads = true;
		break;
	case STAY_REFUSE_FLUSHES:
		member->refuse_flushes = true;
		break;
	case STAY_KINDS:
		break;
	}
}

void
stay_end(struct sim *sim)
{
	struct fake_member *member = &sim->members[sim->stay.member];

	if (!sim->stay.lasts)
		return;
	sim->stay.lasts = false;
	schedule_cancel(&sim->schedule, &sim->stay.event);
	time_set_answers(sim, sim->stay.member, SIM_ANSWER_US_MIN, SIM_ANSWER_US_MAX);
	refuse_part(member, 0, 0);
	member->refuse_writes = member->refuse_reads = member->refuse_flushes = false;
	member->reachable = true;
	member->mute_from_bytes = UINT64_MAX;
	fake_member_link(member, true);
	fake_member_continue(member);
}

/* Whom the volume can do without: who is in trouble already, or anybody where nobody is. */
static int
choose(const struct sim *sim, uint64_t *random)
{
	int chosen = -1;

	if (geometry_tolerated(&sim->geometry) == 0)
		return -1;
	for (int role = 0; role < sim->count; role++) {
		int m = sim->holder[role];

		if (m < 0 || sim->trouble_until_us[m] > sim->schedule.now_us) {
			if (chosen >= 0 && geometry_tolerated(&sim->geometry) == 1)
				return -1; /* one more than it bears */
			chosen = m < 0 ? -2 : m;
		}
	}
	if (chosen >= 0)
		return chosen;
	return chosen == -2 ? -1 : sim->holder[fake_random(random) % (uint64_t)sim->count];
}

void
stay_begin(struct sim *sim, uint64_t *random)
{
	const enum stay_kind kind = (enum stay_kind)(fake_random(random) % STAY_KINDS);
	const uint64_t pulse_us = bound_us(sim, true) / (PULSE_REQUESTS - 8);
	int m;

	sim_look(sim);
	if (sim->stay.lasts || !sim->running_seen || sim->schedule.now_us <= sim->excess_until_us)
		return;
	m = choose(sim, random);
	if (m < 0)
		return;
	sim_trace(sim, "FAULT that stays: member %d %s", m, stay_names[kind]);
	sim->options.totals->stays[kind]++;
	sim->stay = (struct stay){
		.event = { .fire = flap }, .sim = sim, .member = m, .kind = kind, .lasts = true
	};
	fault_trouble(sim, m, 3600ull * 1000000);
	begin(sim, &sim->members[m], kind);
	for (uint32_t i = 0; i < PULSE_REQUESTS && !sim->crash_due; i++) {
		if (sim->active_count < 2 * sim->depth + 8)
			load_submit(sim, random);
		sim_advance(sim, sim->schedule.now_us + random_between(random, 1, 2 * pulse_us));
	}
}

const char *
stay_name(enum stay_kind kind)
{
	return stay_names[kind];
}
