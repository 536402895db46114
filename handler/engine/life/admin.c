/* admin.c - what an administrator asks of a running volume: devices added, taken out, replaced;
 * lost extents accepted.
 *
 * Everything here is decided at once, on what is known; what takes time goes on by itself
 * (rebuild.c, evict.c) and is told by events.  A refusal leaves all as it was.
 */
#include "admin.h"
#include "life.h"
#include "status.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"
#include "engine/work/sync_rows.h"
#include "engine/work/work.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define TAKING_TEXT "%s is taking its place at this moment: try again in a second"

static int
refuse_order(char *why, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int
refuse_order(char *why, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, 256, format, args);
	va_end(args);
	return error;
}

static struct member *
member_at(struct engine *engine, int slot)
{
	if (slot < 0 || slot >= engine->slots || engine->members[slot].backend == NULL ||
	    engine->members[slot].leaving)
		return NULL;
	return &engine->members[slot];
}

int
engine_attach(struct engine *engine, struct backend *backend, char *why)
{
	int slot = 0;

	if (engine->stop_wanted || engine->fenced)
		return refuse_order(why, -EAGAIN, "the volume is stopping or was taken over");
	while (slot < SLOTS_MAX && engine->members[slot].backend != NULL)
		slot++;
	if (slot == SLOTS_MAX)
		return refuse_order(why, -ENOSPC, "the volume has %d devices already: remove one",
				    SLOTS_MAX);
	if (!member_create(engine, backend, slot))
		return refuse_order(why, -ENOMEM, "out of memory");
	engine->activity++;
	engine_event(engine, EVENT_ATTACHED, LOG_NOTICE, &engine->members[slot], "device %s added",
		     backend->label);
	return slot;
}

static bool
keeps_reservation(const struct member *member)
{
	return member->reserved && !member->engine->fenced && !MUTANT(REMOVED_RESERVED);
}

/* One that was taken out a moment ago has a reservation of ours, and no session in which it could
 * be given back, or one that is being closed: it gets one more, see admin_let_go().
 */
static void
let_go(struct member *member)
{
	member->leaving = true;
	member->engine->activity++;
	/* A session that is being opened may have reserved it by now. */
	if (member->link == LINK_OPEN ||
	    (member->link == LINK_OPENING && !keeps_reservation(member)))
		member->backend->ops->release(member->backend);
}

int
engine_detach(struct engine *engine, int slot, char *why)
{
	struct member *member = member_at(engine, slot);

	if (member == NULL)
		return refuse_order(why, -ENODEV, "there is no device %d", slot);
	if (engine->phase != PHASE_RUNNING)
		return refuse_order(why, -EAGAIN, "the volume is not running");
	if (member->in_sync || member->evicting)
		return refuse_order(
			why, -EBUSY,
			"%s is in sync: take it out of the volume first (fail, or replace)",
			member->backend->label);
	if (member == engine->target && target_changing(engine))
		return refuse_order(why, -EBUSY, TAKING_TEXT, member->backend->label);
	if (engine->target_state->replace_role >= 0 && engine->target_state->replace_slot == slot)
		engine->target_state->replace_role = -1;
	if (member == engine->target) {
		member_note(member, "removed by an administrator");
		target_lost(engine, MEMBER_FAULTY);
	}
	if (member->stale_set >= 0) {
		/* Its place remembers nothing of it any more: should it come back, all of it is
		 * copied.
		 */
		place_untrack(engine, member->stale_set);
		place_forget(engine, REGION_STALE(member->stale_set));
		member->stale_set = -1;
	}
	let_go(member);
	return 0;
}

/* Who had its UUID, and was not taken for that, is to be looked at again. */
static void
judge_twins(struct engine *engine, const struct member *gone)
{
	for_each_member(engine, other)
		if (other != gone && other->standing == STANDING_UNKNOWN &&
		    other->link == LINK_OPEN && memcmp(other->uuid, gone->uuid, 16) == 0)
			member_close(other);
}

static void
let_device_go(struct engine *engine, struct member *member)
{
	struct backend *backend = member->backend;
	int slot = member->slot;

	engine_event(engine, EVENT_DETACHED, LOG_NOTICE, member, "device %s let go",
		     backend->label);
	judge_twins(engine, member);
	free(member->page);
	*member = (struct member){ 0 };
	while (engine->slots > 0 && engine->members[engine->slots - 1].backend == NULL)
		engine->slots--;
	if (engine->port.detached != NULL)
		engine->port.detached(engine->port.owner, slot, backend);
}

/* Nothing of the member is on any list any more. */
static bool
is_quiet(const struct member *member)
{
	return member->link == LINK_CLOSED && !member->closed_event && !member->evicting &&
	       list_empty(&member->in_flight) && list_empty(&member->parked) &&
	       list_empty(&member->engine->link->answered) &&
	       list_empty(&member->engine->link->immediate) && member->examining == 0 &&
	       !member->probing;
}

void
admin_let_go(struct engine *engine)
{
	if (engine->phase > PHASE_RUNNING)
		return;
	for_each_member(engine, member) {
		if (!member->leaving || !is_quiet(member))
			continue;
		if (keeps_reservation(member)) {
			member->reserved = false; /* it is tried once; member.c releases it */
			member_open(member);
		} else {
			let_device_go(engine, member);
		}
	}
}

int
engine_fail(struct engine *engine, int slot, char *why)
{
	struct member *member = member_at(engine, slot);

	if (member == NULL)
		return refuse_order(why, -ENODEV, "there is no device %d", slot);
	if (engine->phase != PHASE_RUNNING || engine->fenced)
		return refuse_order(why, -EAGAIN, "the volume is not running");
	if (member == engine->target && target_changing(engine))
		return refuse_order(why, -EBUSY, TAKING_TEXT, member->backend->label);
	if (member == engine->target) {
		member_note(member, "taken out by an administrator");
		target_lost(engine, MEMBER_FAULTY);
		return 0;
	}
	if (!member->in_sync && member->stale_set >= 0) {
		engine->record.tracked[member->stale_set].state = MEMBER_FAULTY;
		target_give_up(member);
		if (member->evicting && !MUTANT(GOING_JUDGED))
			/* else it may be back before it is out, and is judged as one that has no
			 * place
			 */
			evict_condemn(member);
		member_note(member, "taken out by an administrator");
		metadata_commit(engine);
		return 0;
	}
	if (!member->in_sync)
		return refuse_order(why, -EINVAL,
				    "%s has no part in the volume's data: nothing to fail",
				    member->backend->label);
	if (!evict_bearable(engine, member))
		return refuse_order(why, -EBUSY,
				    "level %u can't bear another member out, %d are already",
				    engine->geometry.level, __builtin_popcount(engine->out));
	for_each_member(engine, other)
		if (other != member && other->in_sync && !member_usable(other))
			return refuse_order(why, -EBUSY,
					    "%s does not answer: wait until it is out, or back",
					    other->backend->label);
	member_note(member, "taken out by an administrator");
	evict_exclude(member);
	if (member->link == LINK_CLOSED)
		evict_member_silent(member);
	return 0;
}

/* One whose place another has is a replacement that was given up: it goes on where it was. */
static void
readmit_tracked(struct member *member)
{
	struct engine *engine = member->engine;
	const bool held = !(engine->missing & ROLE(member->role)) && !MUTANT(READMITTED_IN_VAIN);

	engine->record.tracked[member->stale_set].state =
		held ? MEMBER_REBUILDING : MEMBER_OUT_OF_DATE;
	if (held && member->standing == STANDING_OUT_OF_DATE)
		member->standing = STANDING_REBUILDING;
}

/* A spare that refused a write as it was to be filled is a spare again. */
static void
readmit_spare(struct member *member)
{
	member->excluded = false;
	member->reason[0] = '\0';
	member->engine->activity++;
}

int
engine_readmit(struct engine *engine, int slot, char *why)
{
	struct member *member = member_at(engine, slot);

	if (member == NULL)
		return refuse_order(why, -ENODEV, "there is no device %d", slot);
	if (engine->phase != PHASE_RUNNING || engine->fenced)
		return refuse_order(why, -EAGAIN, "the volume is not running");
	if (member->standing == STANDING_SPARE && member->excluded) {
		readmit_spare(member);
		return 0;
	}
	if (member->in_sync || member == engine->target || member->role < 0 ||
	    member->standing == STANDING_SPARE || member->standing == STANDING_UNKNOWN)
		return refuse_order(why, -EINVAL, "%s is %s, not a member that was taken out",
				    member->backend->label, member_state_name(place_state(member)));
	member->excluded = false;
	if (member->stale_set >= 0)
		readmit_tracked(member);
	member->reason[0] = '\0';
	member->retry_ms = engine->now_ms;
	metadata_commit(engine);
	return 0;
}

int
engine_replace(struct engine *engine, int role, int spare, char *why)
{
	struct member *member = member_at(engine, spare);
	char roles[ROLES_TEXT_MAX];

	if (engine->phase != PHASE_RUNNING || engine->fenced)
		return refuse_order(why, -EAGAIN, "the volume is not running");
	if (engine->geometry.redundancy == 0)
		return refuse_order(why, -EOPNOTSUPP, "level 0 can't replace members");
	if (role < 0 || role >= engine->geometry.members)
		return refuse_order(why, -EINVAL, "role %d: the volume has roles 0 to %d", role,
				    engine->geometry.members - 1);
	if (member != NULL && member->standing == STANDING_SPARE && place_is_another(member))
		return refuse_order(why, -EINVAL, "%.80s %.160s", member->backend->label,
				    member->reason);
	if (member == NULL || member->standing != STANDING_SPARE)
		return refuse_order(why, -EINVAL, "device %d is no spare of this volume", spare);
	if (member->identity.block_bytes != engine->geometry.block_bytes ||
	    member->identity.capacity_bytes < layout_end_bytes(engine->record.areas))
		return refuse_order(
			why, -EINVAL,
			"%s can't be used as a member: it has %llu bytes in blocks of %u; "
			"needed are %llu bytes or more in blocks of %u",
			member->backend->label, (unsigned long long)member->identity.capacity_bytes,
			member->identity.block_bytes,
			(unsigned long long)layout_end_bytes(engine->record.areas),
			engine->geometry.block_bytes);
	if (engine->target != NULL || engine->target_state->replace_role >= 0)
		return refuse_order(why, -EBUSY,
				    "another member is being filled: wait for it, or remove it");
	if (engine->missing != 0 && !(engine->missing & ROLE(role)))
		return refuse_order(why, -EBUSY, "role %s has no member: that comes first",
				    roles_text(engine->missing, roles));
	member->excluded = false;
	engine->target_state->replace_role = role;
	engine->target_state->replace_slot = spare;
	engine->activity++;
	return 0;
}

/* --- lost extents, and what did not fit in their table --- */

/* Data of a suspect row that lacks members: known to nobody, or to a member that is out.  It is on
 * record as lost, unless the table is full.
 */
static uint32_t
unrecorded_chunks(const struct engine *engine, uint64_t row)
{
	if (!engine->lost_full || engine_trust(engine, row) != ROW_SUSPECT)
		return 0;
	return engine_absent(engine, row) & geometry_data_positions(&engine->geometry);
}

static uint64_t
next_unrecorded_row(const struct engine *engine, uint64_t row)
{
	const struct intent *intent = &engine->intent;

	while (engine->lost_full && row < engine->geometry.rows) {
		int64_t region = intent_next_undefined(intent, intent_region(intent, row));

		if (region < 0)
			break;
		if ((uint64_t)region * intent->region_rows > row)
			row = (uint64_t)region * intent->region_rows;
		while (row < engine->geometry.rows && intent_region(intent, row) == region) {
			if (unrecorded_chunks(engine, row) != 0)
				return row;
			row++;
		}
	}
	return UINT64_MAX;
}

/* First row at or behind `row` in which something can't be known. */
static uint64_t
next_unknown_row(const struct engine *engine, uint64_t row)
{
	uint64_t recorded = lost_next_row(engine->lost, row);
	uint64_t unrecorded = next_unrecorded_row(engine, row);

	return recorded < unrecorded ? recorded : unrecorded;
}

/* The lost range of this chunk that ends behind offset_bytes, cut to begin there at the earliest.
 */
static bool
lost_in_chunk(const struct engine *engine, uint64_t row, int chunk, uint32_t unrecorded,
	      uint64_t offset_bytes, struct lost_range *out)
{
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	const uint8_t role = geometry_role(&engine->geometry, row, (uint8_t)chunk);
	uint64_t start =
		row * geometry_row_bytes(&engine->geometry) + (uint64_t)chunk * chunk_bytes;
	uint32_t begin = 0, end = chunk_bytes;
	uint8_t flags;

	if (offset_bytes >= start + chunk_bytes)
		return false;
	if (!(unrecorded & ROLE(chunk)) &&
	    !lost_next(engine->lost, row, role,
		       offset_bytes > start ? (uint32_t)(offset_bytes - start) : 0, &begin, &end,
		       &flags))
		return false;
	out->offset_bytes = start + begin;
	out->length_bytes = end - begin;
	if (out->offset_bytes < offset_bytes) {
		out->length_bytes -= offset_bytes - out->offset_bytes;
		out->offset_bytes = offset_bytes;
	}
	return true;
}

/* The first lost range of the row at or behind offset_bytes, within one chunk. */
static bool
lost_in_row(const struct engine *engine, uint64_t row, uint32_t unrecorded, uint64_t offset_bytes,
	    struct lost_range *out)
{
	for (int chunk = 0; chunk < engine->geometry.data_chunks; chunk++)
		if (lost_in_chunk(engine, row, chunk, unrecorded, offset_bytes, out))
			return true;
	return false;
}

static bool
next_recorded(const struct engine *engine, uint64_t offset_bytes, struct lost_range *out)
{
	uint64_t row =
		lost_next_row(engine->lost, offset_bytes / geometry_row_bytes(&engine->geometry));

	while (row < engine->geometry.rows && !lost_in_row(engine, row, 0, offset_bytes, out))
		row = lost_next_row(engine->lost, row + 1);
	return row < engine->geometry.rows;
}

static bool
next_lost(const struct engine *engine, uint64_t offset_bytes, struct lost_range *out)
{
	uint64_t row =
		next_unknown_row(engine, offset_bytes / geometry_row_bytes(&engine->geometry));

	while (row < engine->geometry.rows &&
	       !lost_in_row(engine, row, unrecorded_chunks(engine, row), offset_bytes, out))
		row = next_unknown_row(engine, row + 1);
	return row < engine->geometry.rows;
}

/* The range that began before offset_bytes was listed before: behind its end. */
static uint64_t
behind_range(const struct engine *engine, uint64_t offset_bytes)
{
	struct lost_range range;
	uint64_t at = offset_bytes > 0 ? offset_bytes - 1 : 0;

	if (offset_bytes == 0)
		return 0;
	while (next_lost(engine, at, &range) && range.offset_bytes == at)
		at = range.offset_bytes + range.length_bytes;
	return at > offset_bytes ? at : offset_bytes;
}

int
engine_lost_list(const struct engine *engine, uint64_t offset_bytes, struct lost_range *out,
		 int max)
{
	struct lost_range range;
	int count = 0;

	if (engine->lost == NULL || engine->geometry.redundancy == 0 ||
	    engine->phase < PHASE_RUNNING)
		return 0;
	offset_bytes = behind_range(engine, offset_bytes);
	while (next_lost(engine, offset_bytes, &range)) {
		offset_bytes = range.offset_bytes + range.length_bytes;
		if (count > 0 &&
		    out[count - 1].offset_bytes + out[count - 1].length_bytes == range.offset_bytes)
			out[count - 1].length_bytes += range.length_bytes;
		else if (count < max)
			out[count++] = range;
		else
			break;
	}
	return count;
}

struct acceptance {
	struct lost_waiter waiter; /* must be first */
	struct engine *engine;
	uint64_t begin, end; /* of the range */
	bool all;	     /* of the volume */
	int64_t bytes;
	int error; /* why not all of it */
	void (*done)(void *owner, int64_t result);
	void *owner;
};

static void
loss_accepted(struct lost_waiter *waiter, int error)
{
	struct acceptance *acceptance = (struct acceptance *)waiter;

	if (error == 0 && acceptance->bytes > 0)
		engine_event(acceptance->engine, EVENT_LOST_ACCEPTED, LOG_NOTICE, NULL,
			     "%lld bytes that were lost are accepted as they are",
			     (long long)acceptance->bytes);
	if (error == 0)
		error = acceptance->error;
	acceptance->done(acceptance->owner, error != 0 ? error : acceptance->bytes);
	free(acceptance);
}

static bool
has_data_of(const struct geometry *geometry, uint64_t row, uint8_t role)
{
	int position = geometry_position(geometry, row, role);

	return position >= 0 && position < geometry->data_chunks;
}

/* Entries that lie in the range as a whole go as a whole: no pieces are left that would need room.
 */
static void
accept_whole(struct acceptance *acceptance, uint64_t begin, uint64_t end)
{
	struct engine *engine = acceptance->engine;
	const uint64_t row_bytes = geometry_row_bytes(&engine->geometry);

	for (uint32_t i = 0; i < LOST_ENTRIES; i++) {
		const struct lost_extent extent = engine->lost->entries[i];
		int64_t bytes = 0;

		if (engine->lost->states[i] != LOST_VALID || extent.row * row_bytes < begin ||
		    (extent.row + extent.rows) * row_bytes > end)
			continue;
		for (uint64_t row = extent.row; row < extent.row + extent.rows; row++)
			if (has_data_of(&engine->geometry, row, extent.role))
				bytes += extent.column_end - extent.column_begin;
		if (lost_remove(engine->lost, extent.row, extent.rows, extent.role,
				extent.column_begin, extent.column_end) == 0)
			acceptance->bytes += bytes;
	}
}

/* Does the range have all that is missing of the row? */
static bool
has_unrecorded(const struct engine *engine, uint64_t row, uint64_t begin, uint64_t end)
{
	const uint64_t start = row * geometry_row_bytes(&engine->geometry);
	const uint32_t chunk_bytes = engine->geometry.chunk_bytes;
	const uint32_t chunks = unrecorded_chunks(engine, row);

	for (uint32_t chunk = 0; chunk < engine->geometry.data_chunks; chunk++)
		if ((chunks & ROLE(chunk)) && (start + (uint64_t)chunk * chunk_bytes < begin ||
					       start + ((uint64_t)chunk + 1) * chunk_bytes > end))
			return false;
	return true;
}

/* A member is back that may know what is missing there, and waits for somebody to say whether what
 * it holds counts.
 */
static bool
held_by_target(const struct engine *engine, uint32_t region)
{
	uint64_t row = (uint64_t)region * engine->intent.region_rows;
	const uint64_t end = row + engine->intent.region_rows;

	while (engine->target != NULL && row < end && row < engine->geometry.rows)
		if (sync_target_holds(engine, row++))
			return true;
	return false;
}

/* A member that is being filled has its chunk, which is not lost, and may hold a write of which
 * nobody else has anything left: then P and Q need not fit it.
 */
static bool
leans_on_target(const struct engine *engine, uint64_t row)
{
	return engine->target != NULL && engine->by_role[engine->target->role] == NULL &&
	       intent_row_on_target(&engine->intent, row) &&
	       intent_row_suspect(&engine->intent, row) && !MUTANT(ACCEPTED_BESIDE_TARGET);
}

/* Rows from first up to last: what is missing of those in the range, as far as that can be said row
 * by row.
 */
static void
accept_rows(struct acceptance *acceptance, uint64_t first, uint64_t last, bool whole)
{
	struct engine *engine = acceptance->engine;

	for (uint64_t row = first; row < last; row++) {
		const bool leans = leans_on_target(engine, row);

		if (!has_unrecorded(engine, row, acceptance->begin, acceptance->end) ||
		    (leans && !whole))
			continue;
		acceptance->bytes += (int64_t)__builtin_popcount(unrecorded_chunks(engine, row)) *
				     engine->geometry.chunk_bytes;
		if (engine_bare(engine) && !leans)
			intent_prove(&engine->intent, row);
	}
}

/* What the others make of it counts from now on.  Where some redundancy is left that need not fit
 * (level 6 with one member out, or a row of which a member that is being filled has a chunk), that
 * is known of whole regions only.  Until the region is clean a crash makes it suspect again.
 */
static void
accept_region(struct acceptance *acceptance, uint32_t region)
{
	struct engine *engine = acceptance->engine;
	const uint64_t first = (uint64_t)region * engine->intent.region_rows;
	uint64_t last = first + engine->intent.region_rows;
	bool whole = true;
	bool leans = false;

	if (last > engine->geometry.rows)
		last = engine->geometry.rows;
	for (uint64_t row = first; row < last; row++) {
		whole &= has_unrecorded(engine, row, acceptance->begin, acceptance->end);
		leans |= leans_on_target(engine, row);
	}
	if (held_by_target(engine, region)) {
		/* It has just that to say, of all regions at once. */
		for (uint64_t row = first; row < last && acceptance->all; row++)
			acceptance->bytes +=
				(int64_t)__builtin_popcount(unrecorded_chunks(engine, row)) *
				engine->geometry.chunk_bytes;
		engine->absence[engine->target->role].accepted |= acceptance->all;
		return;
	}
	if (!whole && !engine_bare(engine))
		return;
	accept_rows(acceptance, first, last, whole);
	if (whole && leans)
		intent_region_leans(&engine->intent, region);
	else if (whole && engine_bare(engine))
		intent_region_proven(&engine->intent, region);
	else if (whole)
		intent_region_defined(&engine->intent, region);
}

static void
accept_unrecorded(struct acceptance *acceptance)
{
	const struct intent *intent = &acceptance->engine->intent;
	uint64_t row = next_unrecorded_row(
		acceptance->engine,
		acceptance->begin / geometry_row_bytes(&acceptance->engine->geometry));

	while (row < acceptance->engine->geometry.rows &&
	       row * geometry_row_bytes(&acceptance->engine->geometry) < acceptance->end) {
		uint32_t region = intent_region(intent, row);

		accept_region(acceptance, region);
		row = next_unrecorded_row(acceptance->engine,
					  ((uint64_t)region + 1) * intent->region_rows);
	}
}

void
engine_lost_accept(struct engine *engine, uint64_t offset_bytes, uint64_t length_bytes,
		   void (*done)(void *owner, int64_t result), void *owner)
{
	struct acceptance *acceptance = calloc(1, sizeof(*acceptance));
	uint64_t end =
		length_bytes > UINT64_MAX - offset_bytes ? UINT64_MAX : offset_bytes + length_bytes;
	struct lost_range range;

	if (acceptance == NULL || engine->lost == NULL || engine->phase != PHASE_RUNNING ||
	    engine->fenced) {
		free(acceptance);
		done(owner, acceptance == NULL ? -ENOMEM : -EAGAIN);
		return;
	}
	*acceptance = (struct acceptance){
		.waiter.done = loss_accepted, .engine = engine, .done = done, .owner = owner
	};
	list_init(&acceptance->waiter.node);
	acceptance->all = offset_bytes == 0 && end >= engine->volume_bytes;
	acceptance->begin = offset_bytes;
	acceptance->end = end;
	accept_unrecorded(acceptance);
	accept_whole(acceptance, offset_bytes, end);
	while (acceptance->error == 0 && next_recorded(engine, offset_bytes, &range) &&
	       range.offset_bytes < end) {
		uint64_t stop = range.offset_bytes + range.length_bytes;

		if (stop > end)
			stop = end;
		acceptance->error = lost_overwrite(engine, range.offset_bytes, stop);
		if (acceptance->error == 0)
			acceptance->bytes += (int64_t)(stop - range.offset_bytes);
		offset_bytes = stop;
	}
	lost_io_wait(engine, &acceptance->waiter);
}

/* --- background work, limits --- */

int
engine_scrub_start(struct engine *engine, enum scrub_mode mode, bool resume, char *why)
{
	return scrub_start(engine, mode, resume, why);
}

int
engine_scrub_stop(struct engine *engine, char *why)
{
	return scrub_stop(engine, why);
}

void
engine_set_log(struct engine *engine, enum log_mode mode)
{
	engine->options.log = mode;
	engine->write_log->given_up = false;
	engine->write_log->retry_ms = 0;
	engine->activity++;
}

void
engine_set_rates(struct engine *engine, uint64_t min, uint64_t max)
{
	throttle_set_rates(engine, min, max);
}

void
engine_set_limits(struct engine *engine, const struct engine_options *options)
{
	struct engine_options *now = &engine->options;

	now->assembly_wait_ms = options->assembly_wait_ms;
	now->assembly_limit_ms = options->assembly_limit_ms;
	now->queue_limit_ms = options->queue_limit_ms;
	now->give_up_ms = options->give_up_ms;
	now->grace_ms = options->grace_ms;
	now->hedge_ms = options->hedge_ms;
	now->spare_wait_ms = options->spare_wait_ms;
	now->error_limit = options->error_limit;
	throttle_set_rates(engine, options->sync_rate_min, options->sync_rate_max);
}
