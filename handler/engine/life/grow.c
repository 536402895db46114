/* grow.c - the volume becomes larger, because its members have, while it runs.
 *
 *	UNLOGGING   a write log is closed; it opens again by itself afterwards
 *	   v
 *	MEASURING   each member is asked for its size; the smallest counts
 *	   v
 *	PADDING     rows up to the end of what was the last region get zeros, flushed: they fit, and the region
 *	   |        need not be marked for their sake
 *	   v
 *	MARKING     new regions: unwritten, and dirty, on all members durably
 *	   v
 *	RECORDING   the superblocks say so; then requests may go there
 *
 * In this order a crash leaves a volume of the old size, whose members hold something behind its
 * end, or one of the new size whose new rows are known to be unproven.  Until MARKING any failure
 * ends it and has changed nothing; from then on members may go as ever, and it is carried through.
 * Rows are where they were: data begins at the same place, and a row's place does not depend on how
 * many there are.
 */
#include "admin.h"
#include "life.h"
#include "engine/link/link.h"
#include "engine/record/record.h"
#include "engine/record/write_log.h"
#include "engine/members/members.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define PAD_BYTES_MAX (1u << 20) /* of a member, in one command */
#define UNLOGGING_MS 30000u	 /* it is flushed by then */

/* of one member: [next, end) of its data area is still to be zeroed */
struct padding {
	struct growth *growth;
	uint64_t next, end;
};

struct growth {
	struct engine *engine;
	uint64_t since_ms;
	int pending; /* commands under way */
	int error;
	uint64_t member_bytes[SLOTS_MAX]; /* as measured */
	struct area areas[LAYOUT_AREAS];
	struct geometry geometry; /* of the grown volume */
	uint64_t data_bytes;
	struct padding paddings[IRAID_MEMBERS_MAX]; /* by role */
	uint64_t generation; /* of the map, then of the superblocks, to wait for */
	char text[256];	     /* for done() */
	void (*done)(void *owner, int error, const char *text);
	void *owner;
};

static void
growth_end(struct growth *growth, int error)
{
	struct engine *engine = growth->engine;

	assert(growth->pending == 0);
	engine->life->growth = NULL;
	engine->growth_phase = GROWTH_NONE;
	engine->activity++;
	if (error != 0)
		engine_log(engine, LOG_ERR, "the volume did not grow: %s", growth->text);
	growth->done(growth->owner, error, growth->text);
	free(growth);
}

static void
say(struct growth *growth, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
say(struct growth *growth, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(growth->text, sizeof(growth->text), format, args);
	va_end(args);
}

/* The first failure counts. */
static void
command_failed(struct growth *growth, const struct member *member, int result)
{
	if (growth->error != 0)
		return;
	growth->error = -EIO;
	say(growth, "member %s failed meanwhile: %s; nothing has changed", member->backend->label,
	    strerror(-result));
}

static bool
all_there(struct engine *engine)
{
	for (int role = 0; role < engine->geometry.members; role++)
		if (engine->by_role[role] == NULL || !member_usable(engine->by_role[role]))
			return false;
	return engine->out == 0 && engine->evicting == 0;
}

/* --- MARKING, RECORDING --- */

static void
mark(struct growth *growth)
{
	struct engine *engine = growth->engine;

	if (intent_grow(&engine->intent, growth->geometry.rows, engine->geometry.redundancy > 0) !=
	    0) {
		say(growth, "out of memory");
		growth_end(growth, -ENOMEM);
		return;
	}
	engine_log(engine, LOG_INFO, "the volume is growing: %llu rows become %llu, in %u regions",
		   (unsigned long long)engine->geometry.rows,
		   (unsigned long long)growth->geometry.rows, engine->intent.regions);
	engine->geometry = growth->geometry;
	engine->growth_phase = GROWTH_MARKING;
	growth->generation = marks_commit(engine);
	if (MUTANT(GROWN_UNMARKED))
		growth->generation = 0;
}

static void
record_new_size(struct growth *growth)
{
	struct engine *engine = growth->engine;

	engine->growth_phase = GROWTH_RECORDING;
	engine->record.data_bytes = growth->data_bytes;
	memcpy(engine->record.areas, growth->areas, sizeof(growth->areas));
	for_each_member(engine, member)
		if (growth->member_bytes[member->slot] > member->superblock.member_bytes &&
		    (member->in_sync || member->evicting))
			member->superblock.member_bytes = growth->member_bytes[member->slot];
	growth->generation = metadata_commit(engine);
}

static void
serve_new_size(struct growth *growth)
{
	struct engine *engine = growth->engine;
	uint64_t before = engine->volume_bytes;

	engine->volume_bytes = geometry_volume_bytes(&engine->geometry);
	engine_event(engine, EVENT_GROWN, LOG_NOTICE, NULL,
		     "the volume has grown from %llu to %llu bytes", (unsigned long long)before,
		     (unsigned long long)engine->volume_bytes);
	growth_end(growth, 0);
}

/* --- PADDING --- */

static void pad_next(struct padding *padding, struct member *member);

static void
pad_flushed(struct member_io *mio, int result)
{
	struct padding *padding = mio->owner;

	padding->growth->pending--;
	if (result != 0)
		command_failed(padding->growth, mio->member, result);
}

static void
padded(struct member_io *mio, int result)
{
	struct padding *padding = mio->owner;

	padding->growth->pending--;
	if (result != 0)
		command_failed(padding->growth, mio->member, result);
	else
		pad_next(padding, mio->member);
}

static void
pad_next(struct padding *padding, struct member *member)
{
	struct growth *growth = padding->growth;
	uint64_t length = padding->end - padding->next;
	struct member_io *mio;

	if (growth->error != 0 ||
	    (length == 0 && (!member->identity.write_cache || MUTANT(PAD_UNFLUSHED))))
		return;
	mio = length == 0
		      ? member_io_try(member, BACKEND_FLUSH, 0, IO_PROBE)
		      : member_io_try(member, BACKEND_ZERO,
				      growth->engine->data_offset_bytes + padding->next, IO_PROBE);
	if (mio == NULL) {
		command_failed(growth, member, -ENOMEM);
		return;
	}
	growth->pending++;
	if (length == 0) {
		member_io_submit(mio, pad_flushed, padding);
		return;
	}
	mio->io.length_bytes = length < PAD_BYTES_MAX ? (uint32_t)length : PAD_BYTES_MAX;
	padding->next += mio->io.length_bytes;
	member_io_submit(mio, padded, padding);
}

/* What the rows [first, end) have on each member is one range of its data area. */
static void
plan_paddings(struct growth *growth, uint64_t first, uint64_t end)
{
	const struct geometry *geometry = &growth->geometry;

	for (uint64_t row = first; row < end; row++)
		for (int position = 0; position < geometry->width; position++) {
			uint8_t role = geometry_role(geometry, row, (uint8_t)position);
			uint64_t offset = geometry_offset(geometry, row, role);
			struct padding *padding = &growth->paddings[role];

			if (padding->end == 0)
				padding->next = offset;
			padding->end = offset + geometry->chunk_bytes;
		}
}

static void
pad(struct growth *growth)
{
	struct engine *engine = growth->engine;
	const uint64_t rows = engine->geometry.rows;
	const uint32_t region_rows = engine->intent.region_rows;
	uint64_t end = (rows + region_rows - 1) / region_rows * region_rows;

	engine->growth_phase = GROWTH_PADDING;
	engine->activity++;
	if (end > growth->geometry.rows)
		end = growth->geometry.rows;
	if (engine->geometry.redundancy == 0 || MUTANT(GROWN_UNPADDED))
		return;
	plan_paddings(growth, rows, end);
	for (int role = 0; role < engine->geometry.members; role++) {
		growth->paddings[role].growth = growth;
		if (growth->paddings[role].end > 0)
			pad_next(&growth->paddings[role], engine->by_role[role]);
	}
}

/* --- MEASURING --- */

/* Chunks of each member's data that the region map has room for. */
static uint64_t
chunks_max(const struct engine *engine)
{
	uint64_t rows = (uint64_t)LAYOUT_REGIONS_MAX * engine->intent.region_rows;

	return engine->geometry.level == 10 ? rows * 2 / engine->geometry.members : rows;
}

static const struct member *
smallest(struct growth *growth)
{
	struct engine *engine = growth->engine;
	const struct member *least = engine->by_role[0];

	for (int role = 1; role < engine->geometry.members; role++)
		if (growth->member_bytes[engine->by_role[role]->slot] <
		    growth->member_bytes[least->slot])
			least = engine->by_role[role];
	return least;
}

/* What is to be had of the members' sizes.  True: growth->geometry is larger than the volume. */
static bool
lay_out_new_size(struct growth *growth)
{
	struct engine *engine = growth->engine;
	const struct geometry *geometry = &engine->geometry;
	const struct member *least = smallest(growth);
	unsigned long long least_bytes = growth->member_bytes[least->slot];
	uint64_t limit = chunks_max(engine);

	layout_grow(engine->record.areas, least_bytes, geometry->chunk_bytes, limit, growth->areas,
		    &growth->data_bytes);
	if (growth->data_bytes == limit * geometry->chunk_bytes)
		say(growth,
		    "the region map has no room for more: %u regions of %llu bytes of each member",
		    LAYOUT_REGIONS_MAX,
		    (unsigned long long)engine->intent.region_rows * geometry->chunk_bytes);
	if (growth->data_bytes > engine->record.data_bytes &&
	    geometry_init(&growth->geometry, geometry->level, geometry->members,
			  geometry->chunk_bytes, geometry->block_bytes, growth->data_bytes) == 0 &&
	    growth->geometry.rows > geometry->rows)
		return true;
	if (growth->text[0] == '\0')
		say(growth, "the smallest member, %s, has %llu bytes: nothing is gained",
		    least->backend->label, least_bytes);
	return false;
}

/* A superblock says no more than this, whatever a device tells. */
static uint64_t
bytes_on_record(uint64_t capacity_bytes)
{
	return capacity_bytes > INT64_MAX && !MUTANT(SIZE_UNBOUNDED) ? INT64_MAX : capacity_bytes;
}

static void
measured(struct member_io *mio, int result)
{
	struct growth *growth = mio->owner;
	struct member *member = mio->member;

	growth->pending--;
	if (result != 0) {
		command_failed(growth, member, result);
		return;
	}
	growth->member_bytes[member->slot] = bytes_on_record(mio->io.capacity_bytes);
	member->identity.capacity_bytes = mio->io.capacity_bytes;
}

/* A spare's size only says whether it will do later. */
static void
spare_measured(struct member_io *mio, int result)
{
	struct growth *growth = mio->owner;

	growth->pending--;
	if (result == 0)
		mio->member->identity.capacity_bytes = mio->io.capacity_bytes;
}

static void
measure(struct growth *growth, struct member *member,
	void (*done)(struct member_io *mio, int result))
{
	struct member_io *mio = member_io_try(member, BACKEND_MEASURE, 0, IO_PROBE);

	if (mio == NULL) {
		command_failed(growth, member, -ENOMEM);
		return;
	}
	growth->pending++;
	member_io_submit(mio, done, growth);
}

static void
measure_all(struct growth *growth)
{
	struct engine *engine = growth->engine;

	engine->growth_phase = GROWTH_MEASURING;
	engine->activity++;
	for (int role = 0; role < engine->geometry.members; role++)
		measure(growth, engine->by_role[role], measured);
	for_each_member(engine, member)
		if (member->standing == STANDING_SPARE && member->link == LINK_OPEN)
			measure(growth, member, spare_measured);
}

/* --- UNLOGGING --- */

static bool
has_log(const struct engine *engine)
{
	return engine->write_log->on || engine->write_log->step != LOG_STEADY;
}

static void
wait_for_log(struct growth *growth)
{
	if (!has_log(growth->engine)) {
		measure_all(growth);
	} else if (growth->engine->now_ms >= growth->since_ms + UNLOGGING_MS) {
		say(growth,
		    "its write log can't be closed for that; nothing has changed: see whether "
		    "all members answer, and try again");
		growth_end(growth, -EBUSY);
	}
}

/* --- the run --- */

static void
go_on(struct growth *growth)
{
	struct engine *engine = growth->engine;

	switch (engine->growth_phase) {
	case GROWTH_NONE:
		return;
	case GROWTH_UNLOGGING:
		wait_for_log(growth);
		return;
	case GROWTH_MEASURING:
		if (lay_out_new_size(growth))
			pad(growth);
		else
			growth_end(growth, 0);
		return;
	case GROWTH_PADDING:
		mark(growth);
		return;
	case GROWTH_MARKING:
		if (engine->marks->durable >= growth->generation)
			record_new_size(growth);
		return;
	case GROWTH_RECORDING:
		if (metadata_known(engine, growth->generation) || MUTANT(GROWN_UNRECORDED))
			serve_new_size(growth);
		return;
	}
}

void
grow_run(struct engine *engine)
{
	struct growth *growth = engine->life->growth;

	if (growth == NULL || growth->pending > 0)
		return;
	if (engine->phase != PHASE_RUNNING || engine->stop_wanted || engine->fenced) {
		say(growth, "the volume stops, or was taken over; its next assembly says which "
			    "size it has");
		growth_end(growth, -ESHUTDOWN);
	} else if (growth->error != 0) {
		growth_end(growth, growth->error);
	} else if (engine->growth_phase < GROWTH_MARKING && !all_there(engine)) {
		say(growth, "a member left meanwhile; nothing has changed: bring it back, or "
			    "replace it, and try again");
		growth_end(growth, -EIO);
	} else {
		go_on(growth);
	}
}

int
engine_grow(struct engine *engine, void (*done)(void *owner, int error, const char *text),
	    void *owner, char *why)
{
	struct growth *growth;
	int error = 0;

	why[0] = '\0';
	if (engine->phase != PHASE_RUNNING || engine->stop_wanted || engine->fenced) {
		error = -EAGAIN;
		snprintf(why, 256, "the volume is not running");
	} else if (engine->life->growth != NULL) {
		error = -EBUSY;
		snprintf(why, 256, "it is growing already");
	} else if (!all_there(engine)) {
		error = -EBUSY;
		snprintf(why, 256,
			 "not all of its members are in sync and answer: bring them back, or "
			 "replace them, first");
	} else if (engine->target != NULL || engine->target_state->replace_role >= 0) {
		error = -EBUSY;
		snprintf(why, 256, "a member is being filled: wait until it is in sync");
	} else if ((growth = calloc(1, sizeof(*growth))) == NULL) {
		error = -ENOMEM;
		snprintf(why, 256, "out of memory");
	}
	if (error != 0)
		return error;
	*growth = (struct growth){
		.engine = engine,
		.since_ms = engine->now_ms,
		.done = done,
		.owner = owner,
	};
	engine->life->growth = growth;
	if (has_log(engine)) {
		engine->growth_phase = GROWTH_UNLOGGING;
		engine->activity++;
	} else {
		measure_all(growth);
	}
	return 0;
}
