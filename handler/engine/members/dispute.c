/* dispute.c - a member says that it is reserved by another gateway: ask the others before believing
 * it.
 *
 *	conflict --> the member is disputed: nothing is sent to it, its commands wait
 *	   |
 *	   v         each other member is written a block that nobody reads; it denies by doing that, and nothing else
 *	 all say no, and TAKING_MS later ---> it is mistaken: evicted, and excluded; where it can't be spared it is held
 *	 more say so too, or those that deny
 *	 it could be done without ----------> fenced off: this gateway has lost the volume
 *
 * One that is held counts as silent, so I/O waits, as for anybody who can't be spared.  It is
 * logged in to again and again, for only a log-in registers us anew, and is believed to be ours
 * when it takes a write in such a session.
 *
 * A write is what tells for certain: some targets know only reservations under which all may read.
 *
 * A gateway that takes a volume over has members without which nobody could go on
 * (geometry_quorum()).  One that was forced to may have fewer.
 */
#include "internal.h"

#include <errno.h>
#include <syslog.h>

#define ASK_PAUSE_MS 200u  /* after an answer that is none */
#define HELD_PAUSE_MS 500u /* while one is held the others are asked again so often */

/* Whoever takes the volume over comes to one member after the other.  One that was evicted before
 * the next was taken would lack, for the new gateway, what was being written: as if it had failed
 * together with this one.  No longer than a silent member is waited for.
 */
#define TAKING_MS 2000u

static uint64_t
taken_by_ms(const struct member *member)
{
	uint32_t give_up_ms = member->engine->options.give_up_ms;

	return member->disputed_ms + (give_up_ms < TAKING_MS ? give_up_ms : TAKING_MS);
}

/* Of one that is held: another session may find that it is ours. */
static void
end_session(struct member *member)
{
	if (!member->held || member->link != LINK_OPEN || !member->checked ||
	    MUTANT(HELD_IN_ITS_SESSION))
		return;
	member->checked = false;
	member_close(member);
}

void
dispute_begin(struct member *member)
{
	struct engine *engine = member->engine;

	if (member->disputed) {
		end_session(member);
		return;
	}
	member->disputed = true;
	member->denied_late = false;
	member->disputed_ms = engine->now_ms;
	member->disputed_at = ++engine->moment;
	member_note(member, "says that another gateway has reserved it");
	engine->activity++;
	engine->hedge_silent = true; /* reads need not wait for what comes of it */
	engine_log(engine, LOG_WARNING,
		   "member %s says that another gateway has reserved it: the others are asked",
		   member->backend->label);
}

static void
proof_answered(struct member_io *mio, int result)
{
	struct member *member = mio->member;

	member->asking = false;
	member->engine->activity++;
	/* A refusal proves nothing: one that was busy all the time did not look whose it is.  A
	 * conflict has been noted.
	 */
	if (result == 0 || (result == -EIO && MUTANT(REFUSAL_DENIES))) {
		member->granted_at = mio->sent_at;
	} else if (result != -ENOTCONN) {
		member->evaded_at = mio->sent_at;
		member->ask_again_ms = member->engine->now_ms + ASK_PAUSE_MS;
	}
}

void
dispute_ask(struct member *member, void (*done)(struct member_io *mio, int result), void *owner)
{
	static uint8_t zeros[LAYOUT_ASK_BYTES];
	struct iovec block = { zeros, sizeof(zeros) };
	struct member_io *mio =
		member_io_create(member, BACKEND_WRITE, LAYOUT_ASK_OFFSET, IO_PROBE);

	member_io_append(mio, &block, 1, sizeof(zeros));
	member_io_submit(mio, done, owner);
}

/* Nobody reads what it wrote: a cache may lose it. */
bool
dispute_is_question(const struct member_io *mio)
{
	return mio->io.op == BACKEND_WRITE && mio->io.offset_bytes == LAYOUT_ASK_OFFSET;
}

static void
ask_for_proof(struct member *member)
{
	if (member->asking || !(member_usable(member) || member->held) ||
	    member->engine->now_ms < member->ask_again_ms)
		return;
	member->asking = true;
	dispute_ask(member, proof_answered, member);
}

/* A word takes give_up where the member is busy, and is asked for once more.  Whoever said nothing
 * by then denies nothing.
 */
static uint64_t
patience_ends_ms(const struct engine *engine)
{
	uint64_t since_ms = 0;

	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend != NULL && member->disputed && member->disputed_ms > since_ms)
			since_ms = member->disputed_ms;
	}
	return since_ms + 2ull * engine->options.give_up_ms;
}

/* Places whose members deny, since this moment, that there is another gateway.  The others are
 * asked.
 */
static uint32_t
denied_since(struct engine *engine, uint64_t moment, bool *all)
{
	const bool impatient = engine->now_ms >= patience_ends_ms(engine);
	uint32_t roles = 0;

	*all = true;
	for_each_member(engine, member) {
		if (!member->in_sync || member->disputed)
			continue;
		if (member_usable(member) && member->granted_at > moment) {
			roles |= ROLE(member->role);
			continue;
		}
		if (member_usable(member) && member->evaded_at > moment && impatient &&
		    !MUTANT(ASKED_FOR_EVER))
			continue;
		*all = false;
		ask_for_proof(member);
	}
	return roles;
}

void
dispute_end(struct member *member)
{
	member->disputed = false;
	member->held = false;
	member->held_known = false;
}

static void
begin_holding(struct member *member)
{
	engine_log(
		member->engine, LOG_ERR,
		"member %s alone says that another gateway has reserved it, and can't be spared: "
		"it is asked again until it does not",
		member->backend->label);
	member->held = true;
	member->silent_since = ++member->engine->moment;
	end_session(member);
}

static void
end_holding(struct member *member)
{
	engine_log(member->engine, LOG_NOTICE,
		   "member %s does not say any more that another gateway has reserved it",
		   member->backend->label);
	dispute_end(member);
	member->reason[0] = '\0';
	member->engine->activity++;
	evict_resume(member);
}

/* The others deny it, and can't do without it. */
static void
hold_disputed(struct member *member)
{
	struct engine *engine = member->engine;

	if (!member->held) {
		begin_holding(member);
		return;
	}
	if (member->link == LINK_OPEN && member->checked &&
	    member->granted_at > member->disputed_at) {
		end_holding(member);
		return;
	}
	/* The others may have been taken since they denied it, and while I/O waits nothing else
	 * would tell.
	 */
	if (!member->asking && engine->now_ms - member->disputed_ms >= HELD_PAUSE_MS &&
	    !MUTANT(DENIED_FOR_EVER)) {
		member->disputed_ms = engine->now_ms;
		member->disputed_at = ++engine->moment;
		engine->activity++;
	} else if (member->link == LINK_OPEN && member->checked) {
		ask_for_proof(member);
	}
}

static void
dismiss_claim(struct member *member)
{
	engine_log(member->engine, LOG_ERR,
		   "member %s alone says that another gateway has reserved it: it is mistaken",
		   member->backend->label);
	dispute_end(member);
	member_note(member, "said that another gateway had reserved it, which the others deny");
	evict_exclude(member);
	if (member->link == LINK_CLOSED)
		evict_member_silent(member);
}

/* Those that deny it have had the time to be taken as well; when it is over they are asked once
 * more.
 */
static bool
denied_late_enough(struct engine *engine)
{
	bool enough = true;

	if (MUTANT(CLAIM_DENIED_AT_ONCE))
		return true;
	for_each_member(engine, member) {
		if (!member->disputed || member->denied_late)
			continue;
		enough = false;
		if (engine->now_ms < taken_by_ms(member))
			continue;
		member->denied_late = true;
		member->disputed_at = ++engine->moment;
		engine->activity++;
	}
	return enough;
}

void
dispute_run(struct engine *engine)
{
	struct member *first = NULL;
	uint32_t disputed = 0, denied;
	uint64_t moment = 0;
	int in_sync = 0;
	bool all, spared;

	for_each_member(engine, member) {
		in_sync += member->in_sync;
		if (!member->disputed)
			continue;
		first = member;
		disputed |= ROLE(member->role);
		if (member->disputed_at > moment)
			moment = member->disputed_at;
	}
	if (first == NULL || engine->fenced)
		return;
	spared = geometry_bears(&engine->geometry, engine->out | disputed);
	if (2 * __builtin_popcount(disputed) > in_sync || MUTANT(ONE_CONFLICT_FENCES) ||
	    (!spared && MUTANT(NEEDED_CONFLICT_FENCES))) {
		member_fence_off(first);
		return;
	}
	denied = denied_since(engine, moment, &all);
	if (!all && !MUTANT(CONFLICT_UNASKED))
		return;
	if (geometry_bears(&engine->geometry, denied) && !MUTANT(HALVES_GO_ON) &&
	    !MUTANT(CONFLICT_UNASKED)) {
		member_fence_off(first);
		return;
	}
	if (spared && !MUTANT(CONFLICT_UNASKED) && !denied_late_enough(engine))
		return;
	for_each_member(engine, member) {
		if (member->disputed && spared)
			dismiss_claim(member);
		else if (member->disputed)
			hold_disputed(member);
	}
}

uint64_t
dispute_deadline(const struct engine *engine)
{
	const uint64_t end_ms = patience_ends_ms(engine);
	uint64_t deadline = end_ms > engine->now_ms ? end_ms : UINT64_MAX;
	bool disputed = false;

	for (int i = 0; i < engine->slots; i++) {
		const struct member *member = &engine->members[i];

		if (member->backend == NULL)
			continue;
		disputed |= member->disputed;
		if (member->disputed && !member->denied_late &&
		    taken_by_ms(member) > engine->now_ms && taken_by_ms(member) < deadline)
			deadline = taken_by_ms(member);
		if (member->held && member->disputed_ms + HELD_PAUSE_MS > engine->now_ms &&
		    member->disputed_ms + HELD_PAUSE_MS < deadline)
			deadline = member->disputed_ms + HELD_PAUSE_MS;
		if (member->ask_again_ms > engine->now_ms && member->ask_again_ms < deadline)
			deadline = member->ask_again_ms;
	}
	return disputed && !engine->fenced ? deadline : UINT64_MAX;
}
