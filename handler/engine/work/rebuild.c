/* rebuild.c - fills the target, region by region, and chooses whom to fill.
 *
 *	an administrator asked for it		replace_role on replace_slot
 *	the member that left is back		by the regions that are stale on it
 *	a spare of this volume			all of it, when the member had spare_wait_ms to return
 *	none					the driver is asked for one of the gateway's
 *
 * A region with rows that nobody can know is passed by (DESIGN rule 14): when the table of lost
 * extents is full, what is missing of a suspect row is not on record, so what parity makes of it is
 * not its content by definition.  All others are copied; the target is in sync only when an
 * administrator, or whoever overwrites them, has settled those rows, or there is room in the
 * table.  The same holds of a region for which a member refuses a read (or a write) as long as it
 * does.
 *
 * Regions that are copied lose their stale flag after a flush (marks.c cleans them); that is the
 * checkpoint: after a restart what is still stale is copied, no more.
 */
#include "progress.h"
#include "sync_rows.h"
#include "engine/members/members.h"
#include "engine/record/write_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define RETRY_MS 1000u
#define ASK_AGAIN_MS 60000u

struct rebuild {
	struct sync_rows rows; /* must be first */
	struct progress progress;
	uint64_t not_before_ms;
	uint64_t copied_rows; /* for this target */
	uint32_t cursor;      /* regions below it are copied, or were not stale */
	bool waiting;	      /* what is left to copy can't be known */
	char trouble[96];
};

#define UNKNOWN_TEXT                                                                               \
	"rows can't be known, and the table of lost extents is full: overwrite or accept some"
#define REFUSED_TEXT                                                                               \
	"sectors that are needed are refused, not unreadable: they are tried again each second"

/* --- copying --- */

/* The row of this row's region that is to be copied next. */
static uint64_t
next_row(const struct engine *engine, uint64_t row)
{
	const struct intent *intent = &engine->intent;
	uint32_t region = intent_region(intent, row);

	return intent->copying == region ? intent->copied_until
					 : (uint64_t)region * intent->region_rows;
}

static void
tell_trouble(struct rebuild *rebuild, const char *text)
{
	if (rebuild->trouble[0] == '\0')
		engine_log(rebuild->rows.op.engine, LOG_ERR, "rebuild: %s", text);
	snprintf(rebuild->trouble, sizeof(rebuild->trouble), "%s", text);
}

/* The row's region can't be copied now: the others first. */
static void
pass_region_by(struct rebuild *rebuild, uint64_t row, const char *why)
{
	struct engine *engine = rebuild->rows.op.engine;

	tell_trouble(rebuild, why);
	rebuild->waiting = true;
	intent_copy_given_up(&engine->intent);
	rebuild->cursor = intent_region(&engine->intent, row) + 1;
	if (intent_next_stale(&engine->intent, rebuild->cursor) < 0)
		rebuild->not_before_ms = engine->now_ms + RETRY_MS;
	engine->activity++;
}

static void
rows_copied(struct sync_rows *rows, int result)
{
	struct rebuild *rebuild = (struct rebuild *)rows;
	struct engine *engine = rows->op.engine;

	if (result == -ENOSPC || result == -ENODATA) {
		pass_region_by(rebuild, rows->first_row, UNKNOWN_TEXT);
		return;
	}
	/* Nothing is given up for that, but a member that is lost meanwhile should not take along
	 * what can be copied.
	 */
	if (result == -EIO && !MUTANT(REFUSAL_STOPS_FILLING)) {
		pass_region_by(rebuild, rows->first_row, REFUSED_TEXT);
		return;
	}
	if (result != 0) {
		rebuild->not_before_ms = engine->now_ms + RETRY_MS;
		return;
	}
	if (!target_filling(engine) || rows->first_row != next_row(engine, rows->first_row))
		return; /* its region was begun anew meanwhile */
	for (int i = 0; i < rows->row_count; i++)
		intent_row_copied(&engine->intent, rows->first_row + (uint64_t)i);
	rebuild->copied_rows += (uint64_t)rows->row_count;
	progress_add(&rebuild->progress, engine->now_ms, (uint64_t)rows->row_count);
	/* Checkpoints need not wait for a whole quiet second. */
	engine->activity++;
}

/* Has the region a row that can't be known?  Mostly no more than a glance. */
static bool
is_unknown(const struct engine *engine, uint32_t region)
{
	uint64_t row = (uint64_t)region * engine->intent.region_rows;
	uint64_t end = row + engine->intent.region_rows;

	if (!intent_region_undefined(&engine->intent, region))
		return false;
	while (row < end && row < engine->geometry.rows && sync_fill_known(engine, row))
		row++;
	return row < end && row < engine->geometry.rows;
}

/* At or behind `from`; -1: none that can be copied. */
static int64_t
next_known(struct engine *engine, uint32_t from)
{
	int64_t region = intent_next_stale(&engine->intent, from);

	while (region >= 0 && is_unknown(engine, (uint32_t)region)) {
		engine->work->rebuild->waiting = true;
		region = intent_next_stale(&engine->intent, (uint32_t)region + 1);
	}
	return region;
}

static int64_t
choose_region(struct engine *engine)
{
	struct rebuild *rebuild = engine->work->rebuild;
	int64_t region = engine->intent.copying;

	if (region >= 0)
		return region;
	region = next_known(engine, rebuild->cursor);
	if (region >= 0)
		return region;
	/* What was passed by may be stale again, or known. */
	if (!rebuild->waiting)
		rebuild->trouble[0] = '\0';
	rebuild->cursor = 0;
	rebuild->waiting = false;
	region = next_known(engine, 0);
	if (region < 0 && rebuild->waiting) {
		tell_trouble(rebuild, UNKNOWN_TEXT);
		rebuild->not_before_ms = engine->now_ms + RETRY_MS;
	}
	return region;
}

static void
copy_next_rows(struct engine *engine)
{
	struct rebuild *rebuild = engine->work->rebuild;
	const struct intent *intent = &engine->intent;
	int64_t region = choose_region(engine);
	uint64_t row, end;
	int count = sync_rows_max(engine);

	if (region < 0)
		return;
	rebuild->cursor = (uint32_t)region;
	row = intent->copying >= 0 ? intent->copied_until : (uint64_t)region * intent->region_rows;
	end = ((uint64_t)region + 1) * intent->region_rows;
	if (end > engine->geometry.rows)
		end = engine->geometry.rows;
	if ((uint64_t)count > end - row)
		count = (int)(end - row);
	throttle_spend(engine, (uint64_t)count * engine->geometry.chunk_bytes);
	sync_rows_begin(&rebuild->rows, SYNC_FILL, row, count);
}

/* --- whom to fill --- */

static bool
is_large_enough(const struct engine *engine, const struct member *member)
{
	return member->identity.block_bytes == engine->geometry.block_bytes &&
	       member->identity.capacity_bytes >= layout_end_bytes(engine->record.areas);
}

static bool
ready(const struct member *member)
{
	return member->backend != NULL && member->link == LINK_OPEN && !member->in_sync &&
	       !member->evicting && !member->leaving && !member->condemned &&
	       member->examining == 0;
}

/* One who left and is back, or was being filled. */
static struct member *
find_returned(struct engine *engine, int role)
{
	struct member *best = NULL;

	for_each_member(engine, member) {
		if (!ready(member) || member->excluded || member->role != role ||
		    member->stale_set < 0 || !place_unchanged(engine, member) ||
		    (member->standing != STANDING_OUT_OF_DATE &&
		     member->standing != STANDING_REBUILDING))
			continue;
		if (best == NULL ||
		    intent_stale(&engine->intent, REGION_STALE(member->stale_set)) <
			    intent_stale(&engine->intent, REGION_STALE(best->stale_set)))
			best = member;
	}
	return best;
}

/* A member of this place that has to be filled from the start: nobody kept record of what it lacks.
 */
static struct member *
find_obsolete(struct engine *engine, int role)
{
	for_each_member(engine, member)
		if (ready(member) && !member->excluded && member->role == role &&
		    member->standing == STANDING_OBSOLETE && place_unchanged(engine, member) &&
		    memcmp(member->uuid, engine->record.member_uuids[role], 16) == 0)
			return member;
	return NULL;
}

static struct member *
find_spare(struct engine *engine)
{
	struct member *best = NULL;

	for_each_member(engine, member)
		if (ready(member) && member->standing == STANDING_SPARE &&
		    is_large_enough(engine, member) &&
		    (!member->excluded || MUTANT(REFUSER_TAKEN_AGAIN)) &&
		    !place_is_another(member) &&
		    (best == NULL ||
		     member->identity.capacity_bytes < best->identity.capacity_bytes))
			best = member;
	return best;
}

/* A replacement that was under way before a restart.  The volume may have grown beyond it since. */
static struct member *
find_interrupted(struct engine *engine)
{
	for_each_member(engine, member)
		if (ready(member) && !member->excluded && member->standing == STANDING_REBUILDING &&
		    member->stale_set >= 0 && member->role >= 0 &&
		    (place_unchanged(engine, member) || MUTANT(INTERRUPTED_UNMEASURED)))
			return member;
	return NULL;
}

static bool
patience_over(const struct engine *engine, int role)
{
	const struct superblock *record = &engine->record;

	/* One that was taken out does not come back by itself. */
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (record->tracked[set].state == MEMBER_FAULTY &&
		    record->tracked[set].role == role &&
		    memcmp(record->tracked[set].member_uuid, record->member_uuids[role], 16) == 0)
			return true;
	return engine->now_ms - engine->absence[role].since_ms >= engine->options.spare_wait_ms;
}

static void
ask_for_spare(struct engine *engine)
{
	if (engine->port.want_spare == NULL ||
	    (engine->target_state->spare_wanted_ms != 0 &&
	     engine->now_ms - engine->target_state->spare_wanted_ms < ASK_AGAIN_MS))
		return;
	engine->target_state->spare_wanted_ms = engine->now_ms;
	engine->port.want_spare(engine->port.owner, layout_end_bytes(engine->record.areas),
				engine->geometry.block_bytes);
}

static struct member *
choose_target(struct engine *engine, int *role)
{
	struct member *member;

	*role = engine->target_state->replace_role;
	if (*role >= 0 && ready(&engine->members[engine->target_state->replace_slot])) {
		struct member *chosen = &engine->members[engine->target_state->replace_slot];

		if (chosen->standing == STANDING_SPARE
			    ? is_large_enough(engine, chosen) && !place_is_another(chosen)
			    : chosen->standing != STANDING_UNKNOWN &&
				      chosen->standing != STANDING_OBSOLETE &&
				      chosen->stale_set >= 0 && chosen->role == *role)
			return chosen;
		/* Its mark is gone since it was chosen, so nobody gave it away any more. */
		engine->target_state->replace_role = -1;
		engine_log(engine, LOG_ERR, "%s is no spare any more: it does not replace role %d",
			   chosen->backend->label, *role);
	}
	if (engine->missing == 0) {
		member = find_interrupted(engine);
		if (member != NULL)
			*role = member->role;
		return member;
	}
	/* Who is back has least to copy, whichever place it is. */
	for (*role = 0; *role < engine->geometry.members; ++*role)
		if ((engine->missing & ROLE(*role)) &&
		    ((member = find_returned(engine, *role)) != NULL ||
		     (member = find_obsolete(engine, *role)) != NULL))
			return member;
	for (*role = 0; *role < engine->geometry.members; ++*role) {
		if (!(engine->missing & ROLE(*role)) || !patience_over(engine, *role))
			continue;
		if ((member = find_spare(engine)) == NULL)
			ask_for_spare(engine);
		return member;
	}
	return NULL;
}

/* --- the run --- */

/* Is there another gateway? If so, whoever has the place may be all that it needs (dispute.c); and
 * who has none can't be asked about.
 */
static bool
is_disputed(const struct engine *engine)
{
	const struct member *former = engine->by_role[engine->target->role];

	return former != NULL && former->disputed;
}

/* One was chosen, and is not durable yet: no other is. */
static bool
is_any_flushed(const struct engine *engine)
{
	for (int i = 0; i < engine->slots; i++)
		if (engine->members[i].backend != NULL && engine->members[i].found_flushing)
			return true;
	return false;
}

void
rebuild_run(struct engine *engine)
{
	struct rebuild *rebuild = engine->work->rebuild;
	struct member *member;
	int role;

	if (rebuild == NULL || rebuild->rows.active || !engine_calm(engine) ||
	    engine->geometry.redundancy == 0 || engine->now_ms < rebuild->not_before_ms)
		return;
	if (engine->target == NULL) {
		if (is_any_flushed(engine) || (member = choose_target(engine, &role)) == NULL)
			return;
		if (!place_is_durable(member))
			return;
		if (member->stale_set < 0 && !place_make_room(engine, member, role))
			return;
		rebuild->copied_rows = 0;
		rebuild->cursor = 0;
		rebuild->waiting = false;
		rebuild->trouble[0] = '\0';
		rebuild->progress = (struct progress){ 0 };
		target_begin(member, role);
		return;
	}
	if (!target_may_copy(engine))
		return;
	if (intent_stale(&engine->intent, engine->intent.target) == 0) {
		if (is_disputed(engine) && !MUTANT(FORMER_DISPUTES))
			return;
		if (write_log_is_empty(engine) && target_announced(engine))
			target_complete(engine);
		else
			write_log_renew(engine);
		return;
	}
	if (throttle_wait(engine) == 0)
		copy_next_rows(engine);
}

bool
rebuild_idle(const struct engine *engine)
{
	return engine->work->rebuild == NULL || !engine->work->rebuild->rows.active;
}

static uint64_t
patience_deadline(const struct engine *engine)
{
	uint64_t deadline = UINT64_MAX;

	for (int role = 0; role < engine->geometry.members && engine->target == NULL; role++) {
		uint64_t at = engine->absence[role].since_ms + engine->options.spare_wait_ms;

		if (!(engine->missing & ROLE(role)))
			continue;
		if (at <= engine->now_ms)
			at = engine->target_state->spare_wanted_ms + ASK_AGAIN_MS;
		if (at > engine->now_ms && at < deadline)
			deadline = at;
	}
	return deadline;
}

uint64_t
rebuild_deadline(const struct engine *engine)
{
	const struct rebuild *rebuild = engine->work->rebuild;
	uint64_t wait;

	if (rebuild == NULL || rebuild->rows.active || !engine_calm(engine) ||
	    engine->geometry.redundancy == 0)
		return UINT64_MAX;
	if (rebuild->not_before_ms > engine->now_ms)
		return rebuild->not_before_ms;
	if (!target_filling(engine))
		return patience_deadline(engine);
	if (!target_may_copy(engine) || intent_to_copy(&engine->intent) == 0)
		return UINT64_MAX; /* the turn of its superblock, or of the cleaner */
	wait = throttle_wait(engine);
	return wait > 0 ? engine->now_ms + wait : UINT64_MAX;
}

void
rebuild_status(const struct engine *engine, struct work_status *out)
{
	const struct rebuild *rebuild = engine->work->rebuild;
	uint64_t left;

	if (engine->target == NULL)
		return;
	left = (uint64_t)intent_to_copy(&engine->intent) * engine->intent.region_rows;
	if (engine->intent.copying >= 0)
		left -= engine->intent.copied_until -
			(uint64_t)engine->intent.copying * engine->intent.region_rows;
	if (left > engine->geometry.rows)
		left = engine->geometry.rows;
	out->running = engine_calm(engine);
	out->total_rows = rebuild->copied_rows + left;
	out->done_rows = rebuild->copied_rows;
	progress_status(&rebuild->progress, engine, out);
	snprintf(out->reason, sizeof(out->reason), "%s",
		 rebuild->trouble[0] != '\0' ? rebuild->trouble
		 : !engine_calm(engine)	     ? "waits until all other members answer"
					     : "");
}

int
rebuild_init(struct engine *engine)
{
	if (engine->work->rebuild == NULL)
		engine->work->rebuild = calloc(1, sizeof(*engine->work->rebuild));
	if (engine->work->rebuild == NULL)
		return -ENOMEM;
	sync_rows_init(&engine->work->rebuild->rows, engine, rows_copied);
	return 0;
}

void
rebuild_free(struct engine *engine)
{
	if (engine->work->rebuild != NULL)
		sync_rows_free(&engine->work->rebuild->rows);
	free(engine->work->rebuild);
	engine->work->rebuild = NULL;
}
