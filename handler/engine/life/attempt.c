/* attempt.c - an attempt to assemble the volume: its phases, how it ends without a start, who was
 * lost in it, and the epoch that it gives the volume.
 */
#include "internal.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/members/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>

#define AGAIN_MS 1000u /* after an assembly that had to be given up */
/* so long after a member was lost during an assembly that is forgotten, and as long as silence is
 * borne twice
 */
#define FORGIVEN_MS 10000u

/* --- phases --- */

/* Only a log-in registers this gateway anew where another took a member, or finds out who that is.
 */
void
attempt_disown_members(struct engine *engine)
{
	for_each_member(engine, member) {
		member->in_sync = false;
		member->checked = false;
		if (member->disputed && member->link == LINK_OPEN &&
		    !MUTANT(STARTED_IN_ITS_SESSION))
			member_close(member);
		dispute_end(member);
	}
}

/* What was about to be recorded, that some are out say, is void.  Who is away is not there,
 * whatever it said before.
 */
static void
forget_attempt(struct engine *engine)
{
	for_each_member(engine, member) {
		/* none of its superblocks is to be written in the next attempt */
		evict_unawaited(member);
		member->kept_record = 0;
		if (member->evicting)
			engine->evicting--;
		member->evicting = false;
		member->condemned = false;
		if ((member->link == LINK_CLOSED ||
		     (member->link == LINK_OPENING && !MUTANT(OPENING_THERE))) &&
		    member->presence == PRESENCE_EXAMINED) {
			member->presence = PRESENCE_AWAITED;
			member->said = true;
		}
	}
	engine->suspended = false;
	engine->expired = false;
	engine->eviction->kept_record = 0;
	engine->metadata->writing = 0;
	engine->metadata->wanted = engine->metadata->durable;
	engine->metadata->again = 0;
	engine->metadata->retry_ms = 0;
}

void
attempt_begin_again(struct engine *engine, const char *why)
{
	snprintf(engine->reason, sizeof(engine->reason), "%s", why);
	attempt_disown_members(engine);
	forget_attempt(engine);
	free(engine->assembly->maps);
	engine->assembly->maps = NULL;
	intent_destroy(&engine->intent);
	engine->target = NULL;
	engine->places->another_met = false;
	engine->assembly->not_before_ms = engine->now_ms + AGAIN_MS;
	if (engine->phase < PHASE_DRAIN)
		life_enter(engine, PHASE_EXAMINE);
}

void
attempt_again(struct engine *engine, const char *why)
{
	engine_log(engine, LOG_WARNING, "assembly starts again: %s", why);
	attempt_begin_again(engine, why);
}

/* --- members that are lost during an assembly --- */

static bool
is_forgiven(const struct member *member)
{
	const struct engine *engine = member->engine;

	return engine->now_ms - member->lost_ms >= FORGIVEN_MS + 2ull * engine->options.give_up_ms;
}

/* Counted once in each. */
void
attempt_lost(struct member *member)
{
	struct engine *engine = member->engine;

	engine->marks->error = -ENOTCONN;
	if (member->losses > 0 && member->lost_ms >= engine->phase_since_ms)
		return;
	if (is_forgiven(member))
		member->losses = 0;
	if (member->losses++ == 0)
		member->unsteady_ms = engine->now_ms;
	member->lost_ms = engine->now_ms;
}

/* It was there each time, and lost each time, for as long as one that is away would have been
 * waited for.
 */
bool
attempt_is_unsteady(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->losses >= 2 && !is_forgiven(member) &&
	       (engine->now_ms - member->unsteady_ms >= engine->options.assembly_wait_ms ||
		MUTANT(UNSTEADY_UNAWAITED));
}

/* Also one that has done its part already, and who may be back: nobody takes it in before this is
 * over.
 */
void
attempt_look_for_lost(struct engine *engine)
{
	for_each_member(engine, member)
		if (member->in_sync && !member->checked)
			attempt_lost(member);
}

/* --- the new epoch: meant, written, remembered --- */

/* One half may get the new epoch, and the gateway die before it knows: nothing was done in that, so
 * the other half may start, but not in the same epoch, or below it.  Else who was never written to
 * would seem to be the newer.
 */
bool
attempt_mean_epoch(struct engine *engine)
{
	if (!geometry_can_split_replaced(&engine->geometry))
		return true;
	if (!epochs_keep(engine, EPOCH_MEANT, engine->record.epoch))
		return false;
	engine->options.epoch_tried = engine->record.epoch;
	return true;
}

void
attempt_write_epoch(struct engine *engine)
{
	free(engine->assembly->maps);
	engine->assembly->maps = NULL;
	life_enter(engine, PHASE_WRITE_SUPERBLOCKS);
	engine->metadata->once = 0;
	engine->metadata->durable = 0;
	engine->metadata->wanted = 0;
	engine->eviction->kept_record = 0;
	engine->lost_io->said = 0;
	engine->lost_io->unsaid = true;
	lost_io_say(engine);
	metadata_commit(engine);
	if (MUTANT(EPOCH_UNWRITTEN))
		engine->metadata->durable = engine->metadata->wanted;
}

/* The members know the new epoch; this gateway remembers it before the first I/O, and not sooner: a
 * crash in between must not leave it waiting for members of an epoch that never was.
 */
bool
attempt_remember_epoch(struct engine *engine)
{
	return epochs_keep(engine, EPOCH_GIVEN, engine->record.epoch);
}
