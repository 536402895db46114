/* The region map in memory against a model that knows every row's version on every member, and what
 * stands in every member's map.  Members leave, come back, are filled and leave again; map writes
 * are torn; caches are lost; the gateway crashes at any step and goes on with what any one member's
 * map says.
 *
 * The model sends the map as engine/record/marks.c does: one batch at a time, narrowed when it is
 * sent, durable when all have it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/intent.h"
#include "../xorshift.h"

#define DEVICES 4
#define ROWS_MAX 9000
#define REGIONS_MAX ROWS_MAX
#define WRITES 5

static const uint8_t uuid[16] = "a volume";

enum write_phase { IDLE, MARKING, WRITING };

struct write {
	enum write_phase phase;
	uint64_t row;
	uint32_t region;
	bool suspect;	/* so it reads the whole row, and proves it */
	bool to_target; /* seen when it was issued */
};

struct device {
	bool in_sync;
	int set;		    /* tracked in it, or -1 */
	bool recorded;		    /* superblocks say that it is tracked */
	uint32_t version[ROWS_MAX]; /* that it has in its cache, and on its medium */
	uint32_t stable[ROWS_MAX];
	uint8_t map[3 * LAYOUT_MAP_BLOCK_BYTES];
};

struct world {
	struct intent intent;
	struct device devices[DEVICES];
	uint64_t rows;
	uint32_t region_rows;
	uint32_t version[ROWS_MAX]; /* of the last write that is complete */
	uint32_t flushed[ROWS_MAX]; /* newest version that all in-sync members have stable */
	bool doubt[ROWS_MAX];	    /* parity may not fit */
	bool written[REGIONS_MAX];  /* a write was ever issued to the region, */
	bool row_written[ROWS_MAX]; /* and to the row */
	struct write writes[WRITES];
	int target;	     /* device, or -1 */
	bool target_marking; /* all of it is to be copied: that is not durable yet */
	/* the batch that is under way */
	bool sending;
	bool in_batch[3];
	uint8_t batch[3 * LAYOUT_MAP_BLOCK_BYTES];
	bool goes_to[DEVICES];
	/* the flush that is under way */
	bool cleaning;
	uint32_t clean_version[ROWS_MAX];
	uint32_t clean_copied[ROWS_MAX]; /* on the target when it began */
	uint32_t crashes, completions, cleaned;
};

static struct world world;
static uint32_t
block_count(void)
{
	return world.intent.blocks;
}

static bool
in_flight(uint64_t row)
{
	for (int i = 0; i < WRITES; i++)
		if (world.writes[i].phase == WRITING && world.writes[i].row == row)
			return true;
	return false;
}

static bool
row_busy(uint64_t row)
{
	for (int i = 0; i < WRITES; i++)
		if (world.writes[i].phase != IDLE && world.writes[i].row == row)
			return true;
	return false;
}

/* --- what must be true at every moment --- */

static void
check_counts(void)
{
	const struct intent *intent = &world.intent;
	uint32_t dirty = 0, stale = 0, in_set[LAYOUT_STALE_SETS] = { 0 }, suspect = 0;

	for (uint32_t i = 0; i < intent->regions; i++) {
		dirty += !!(intent->flags[i] & REGION_DIRTY);
		stale += !!(intent->flags[i] & REGION_STALE_ANY);
		for (int set = 0; set < LAYOUT_STALE_SETS; set++)
			in_set[set] += !!(intent->flags[i] & REGION_STALE(set));
		suspect += intent_next_suspect(intent, i) == i;
	}
	assert_int_equal(intent->dirty_count, dirty);
	assert_int_equal(intent->stale_count, stale);
	assert_int_equal(intent->suspect_count, suspect);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		assert_int_equal(intent_stale(intent, REGION_STALE(set)), in_set[set]);
}

/* Whichever member's map is read after a crash, it says enough. */
static void
check_map(const struct device *member)
{
	static uint8_t flags[REGIONS_MAX];

	for (uint32_t block = 0; block < block_count(); block++)
		assert_int_equal(map_block_decode(member->map + block * LAYOUT_MAP_BLOCK_BYTES,
						  world.intent.regions, block, uuid, flags),
				 0);
	for (uint64_t row = 0; row < world.rows; row++) {
		uint32_t region = (uint32_t)(row / world.region_rows);
		uint8_t said = flags[region];

		if (in_flight(row) || world.doubt[row] || world.flushed[row] != world.version[row])
			assert_true(said & REGION_DIRTY);
		if (world.written[region])
			assert_false(said & REGION_UNWRITTEN);
		for (int d = 0; d < DEVICES; d++) {
			const struct device *other = &world.devices[d];

			if (other->set >= 0 && other->recorded &&
			    other->stable[row] != world.version[row])
				assert_true(said & (REGION_STALE(other->set) | REGION_DIRTY));
		}
	}
}

static void
check_memory(void)
{
	const struct intent *intent = &world.intent;

	for (uint64_t row = 0; row < world.rows; row++) {
		if (world.doubt[row] && !in_flight(row))
			assert_true(intent_row_suspect(intent, row));
		if (world.target >= 0 && intent_row_on_target(intent, row) && !in_flight(row))
			assert_int_equal(world.devices[world.target].version[row],
					 world.version[row]);
	}
	if (world.target < 0)
		assert_int_equal(intent_next_stale(intent, 0), -1);
}

static void
check_world(void)
{
	check_counts();
	check_memory();
	for (int d = 0; d < DEVICES; d++)
		if (world.devices[d].in_sync)
			check_map(&world.devices[d]);
}

/* --- the map is written --- */

static void
send_batch(void)
{
	struct intent *intent = &world.intent;

	for (uint32_t block = 0; block < block_count(); block++) {
		uint32_t first = block * LAYOUT_REGIONS_PER_BLOCK;

		world.in_batch[block] = intent->block_dirty[block];
		if (!world.in_batch[block])
			continue;
		world.sending = true;
		intent->block_dirty[block] = false;
		for (uint32_t i = first;
		     i < first + LAYOUT_REGIONS_PER_BLOCK && i < intent->regions; i++)
			intent->durable[i] =
				(intent->durable[i] & intent->flags[i] &
				 (REGION_DIRTY | REGION_STALE_ANY)) |
				((intent->durable[i] | intent->flags[i]) & REGION_UNWRITTEN);
		map_block_encode(intent->flags, intent->regions, block, 1, uuid,
				 world.batch + block * LAYOUT_MAP_BLOCK_BYTES);
	}
	for (int d = 0; d < DEVICES; d++)
		world.goes_to[d] = world.devices[d].in_sync || d == world.target;
}

/* What is under way reaches some of the members, granule by granule. */
static void
tear_batch(uint32_t chance)
{
	for (uint32_t block = 0; world.sending && block < block_count(); block++)
		for (uint32_t granule = 0; world.in_batch[block] && granule < 8; granule++)
			for (int d = 0; d < DEVICES; d++) {
				size_t at = block * LAYOUT_MAP_BLOCK_BYTES +
					    granule * LAYOUT_GRANULE_BYTES;

				if (world.goes_to[d] && below(4) < chance)
					memcpy(world.devices[d].map + at, world.batch + at,
					       LAYOUT_GRANULE_BYTES);
			}
}

static void
batch_answered(void)
{
	struct intent *intent = &world.intent;
	bool failed = below(10) == 0;

	if (!world.sending)
		return;
	tear_batch(failed ? below(4) : 4);
	for (uint32_t block = 0; block < block_count(); block++) {
		if (!world.in_batch[block])
			continue;
		if (failed)
			intent->block_dirty[block] = true;
		else
			map_block_decode(world.batch + block * LAYOUT_MAP_BLOCK_BYTES,
					 intent->regions, block, uuid, intent->durable);
	}
	world.sending = false;
}

static bool
map_settled(void)
{
	for (uint32_t block = 0; block < block_count(); block++)
		if (world.intent.block_dirty[block])
			return false;
	return !world.sending;
}

/* --- writes --- */

static void
write_begin(void)
{
	struct write *write = &world.writes[below(WRITES)];
	uint64_t row = below(below(3) && world.rows > 6 ? 6 : (uint32_t)world.rows);

	if (write->phase != IDLE || row_busy(row))
		return;
	*write = (struct write){ MARKING, row, intent_region(&world.intent, row), false, false };
	intent_begin(&world.intent, write->region);
}

static void
write_issue(struct write *write)
{
	if (write->phase != MARKING || !intent_ready(&world.intent, write->region))
		return;
	write->phase = WRITING;
	write->suspect = intent_row_suspect(&world.intent, write->row);
	write->to_target = intent_row_on_target(&world.intent, write->row);
	world.written[write->region] = true;
	world.row_written[write->row] = true;
	world.doubt[write->row] = true;
}

static void
write_done(struct write *write)
{
	bool fails = below(12) == 0;
	uint32_t version;

	if (write->phase != WRITING)
		return;
	write->phase = IDLE;
	version = ++world.version[write->row];
	for (int d = 0; d < DEVICES; d++)
		if (world.devices[d].in_sync || (d == world.target && write->to_target))
			world.devices[d].version[write->row] = version;
	if (fails) {
		intent_suspect(&world.intent, write->region);
	} else {
		world.doubt[write->row] = false;
		if (write->suspect)
			intent_prove(&world.intent, write->row);
	}
	intent_end(&world.intent, write->region);
}

/* --- resync --- */

static void
resync(void)
{
	int64_t region = intent_next_suspect(&world.intent, below(world.intent.regions));
	uint64_t row, end;

	if (region < 0)
		return;
	row = (uint64_t)region * world.region_rows;
	end = row + world.region_rows < world.rows ? row + world.region_rows : world.rows;
	for (uint64_t i = row; i < end; i++)
		if (row_busy(i))
			return;
	for (; row < end; row++) {
		if (below(2))
			intent_prove(&world.intent, row);
		/* what may differ is written: not stable before a flush */
		if (world.doubt[row])
			world.flushed[row] = UINT32_MAX;
		world.doubt[row] = false;
	}
	intent_region_proven(&world.intent, (uint32_t)region);
}

/* --- flush and clean --- */

static void
clean_begin(void)
{
	if (world.cleaning || !intent_clean_begin(&world.intent))
		return;
	world.cleaning = true;
	memcpy(world.clean_version, world.version, sizeof(world.version));
	for (uint64_t row = 0; world.target >= 0 && row < world.rows; row++)
		world.clean_copied[row] = world.devices[world.target].version[row];
}

static void
clean_end(void)
{
	if (!world.cleaning)
		return;
	world.cleaning = false;
	if (below(8) == 0) {
		intent_clean_failed(&world.intent);
		return;
	}
	for (uint64_t row = 0; row < world.rows; row++) {
		if (world.version[row] == world.clean_version[row] && !in_flight(row))
			world.flushed[row] = world.version[row];
		for (int d = 0; d < DEVICES; d++)
			if (world.devices[d].in_sync)
				world.devices[d].stable[row] = world.clean_version[row];
		if (world.target >= 0 && world.clean_copied[row] != UINT32_MAX)
			world.devices[world.target].stable[row] = world.clean_copied[row];
	}
	world.cleaned += intent_clean_end(&world.intent);
}

/* --- members --- */

static int
free_set(void)
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++) {
		bool used = false;

		for (int d = 0; d < DEVICES; d++)
			used |= world.devices[d].set == set;
		if (!used)
			return set;
	}
	return -1;
}

static int
count_in_sync(void)
{
	int count = 0;

	for (int d = 0; d < DEVICES; d++)
		count += world.devices[d].in_sync;
	return count;
}

/* It has what was flushed, perhaps more. */
static void
lose_cache(struct device *device)
{
	for (uint64_t row = 0; row < world.rows; row++)
		if (device->version[row] != device->stable[row] && below(2))
			device->version[row] = device->stable[row];
		else
			device->stable[row] = device->version[row];
}

static void
member_leaves(void)
{
	struct device *device = &world.devices[below(DEVICES)];
	int set = free_set();

	if (!device->in_sync || count_in_sync() < 2 || set < 0)
		return;
	device->in_sync = false;
	device->set = set;
	device->recorded = true;
	lose_cache(device);
	world.intent.absent |= REGION_STALE(set);
	intent_member_lost(&world.intent, true);
	for (uint64_t row = 0; row < world.rows; row++)
		if (world.doubt[row] && !in_flight(row) &&
		    !intent_row_suspect(&world.intent, row)) {
			/* fresh: nothing was there, so parity defines it */
			assert_false(world.row_written[row]);
			world.doubt[row] = false;
		}
}

static void
target_begins(void)
{
	int d = (int)below(DEVICES);
	struct device *device = &world.devices[d];
	bool all = below(3) == 0;

	if (device->in_sync || world.target >= 0)
		return;
	if (device->set < 0)
		all = true;
	if (all && device->set >= 0)
		return; /* who is tracked catches up by what is known */
	if (device->set < 0) {
		device->set = free_set();
		if (device->set < 0)
			return;
		device->recorded = false;
		memset(device->version, 0xff, sizeof(device->version));
		memset(device->stable, 0xff, sizeof(device->stable));
	}
	world.target = d;
	world.target_marking = true;
	memset(world.clean_copied, 0xff, sizeof(world.clean_copied));
	intent_target_begin(&world.intent, REGION_STALE(device->set), all, false);
	for (uint32_t block = 0; block < block_count(); block++)
		world.intent.block_dirty[block] = true;
}

static void
target_leaves(void)
{
	struct device *device = &world.devices[world.target >= 0 ? world.target : 0];

	if (world.target < 0)
		return;
	lose_cache(device);
	intent_target_lost(&world.intent);
	world.target = -1;
	if (!device->recorded) {
		intent_forget(&world.intent, REGION_STALE(device->set));
		device->set = -1;
	}
}

/* A spare that nobody knows of, or a member that is given up. */
static void
member_is_forgotten(void)
{
	int d = (int)below(DEVICES);
	struct device *device = &world.devices[d];

	if (device->in_sync || device->set < 0 || d == world.target || below(4))
		return;
	intent_forget(&world.intent, REGION_STALE(device->set));
	device->set = -1;
}

static void
copy_row(void)
{
	struct intent *intent = &world.intent;
	int64_t region;
	uint64_t row;

	if (world.target < 0 || world.target_marking)
		return;
	region = intent->copying >= 0 ? intent->copying
				      : intent_next_stale(intent, below(intent->regions));
	if (region < 0)
		return;
	row = intent->copying >= 0 ? intent->copied_until : (uint64_t)region * world.region_rows;
	if (row_busy(row))
		return;
	world.devices[world.target].version[row] = world.version[row];
	intent_row_copied(intent, row);
}

static void
target_goes_on(void)
{
	struct device *device = &world.devices[world.target >= 0 ? world.target : 0];

	if (world.target < 0)
		return;
	if (world.target_marking && map_settled()) {
		world.target_marking = false;
		device->recorded = true;
	}
	if (world.target_marking || intent_stale(&world.intent, world.intent.target) != 0)
		return;
	for (uint64_t row = 0; row < world.rows; row++)
		if (!in_flight(row))
			assert_int_equal(device->version[row], world.version[row]);
		else
			assert_true(intent_row_on_target(&world.intent, row));
	intent_forget(&world.intent, world.intent.target);
	intent_target_done(&world.intent);
	device->in_sync = true;
	device->set = -1;
	world.target = -1;
	world.completions++;
}

/* --- crash --- */

/* Everybody's tables as they are now, of the in-sync members some or all are there. */
static void
load_maps(uint8_t tracked)
{
	static uint8_t flags[REGIONS_MAX];
	bool first = true;
	int must = -1;

	while (must < 0 || !world.devices[must].in_sync)
		must = (int)below(DEVICES);
	for (int d = 0; d < DEVICES; d++) {
		if (!world.devices[d].in_sync)
			continue;
		if (d != must && below(3) == 0 && free_set() >= 0) {
			/* absent at this assembly: what is dirty is all it lacks */
			world.devices[d].in_sync = false;
			world.devices[d].set = free_set();
			world.devices[d].recorded = true;
			tracked |= REGION_STALE(world.devices[d].set);
			continue;
		}
		for (uint32_t block = 0; block < block_count(); block++)
			map_block_decode(world.devices[d].map + block * LAYOUT_MAP_BLOCK_BYTES,
					 world.intent.regions, block, uuid, flags);
		intent_merge(&world.intent, flags, first);
		first = false;
	}
	intent_loaded(&world.intent);
	intent_forget(&world.intent, (uint8_t)(REGION_STALE_ANY & ~tracked));
	world.intent.absent = tracked;
	if (count_in_sync() < DEVICES && below(2))
		intent_member_lost(&world.intent, true);
	else
		intent_mark_absent(&world.intent);
	/* the maps may differ from what they say together: all of it is written */
	for (uint32_t block = 0; block < block_count(); block++)
		assert_true(world.intent.block_dirty[block]);
}

/* Rows whose last write was not flushed, or not finished: any of the versions may be there, so they
 * are new ones, that nobody but the members at work has.
 */
static void
settle_rows(bool caches_lost)
{
	for (uint64_t row = 0; row < world.rows; row++) {
		bool open = in_flight(row) || world.doubt[row] ||
			    (caches_lost && world.flushed[row] != world.version[row]);

		if (open) {
			world.doubt[row] = true;
			world.version[row]++;
		}
		for (int d = 0; d < DEVICES; d++) {
			struct device *device = &world.devices[d];

			if (device->in_sync && open)
				device->version[row] = world.version[row];
			if (device->in_sync && !open)
				assert_int_equal(device->version[row], world.version[row]);
			if (device->in_sync && !caches_lost)
				continue;
			device->stable[row] = device->version[row];
		}
	}
}

static void
crash(void)
{
	bool caches_lost = below(2);
	uint8_t tracked = 0;

	tear_batch(below(5));
	check_world(); /* with what has just reached the maps */
	world.sending = false;
	world.cleaning = false;
	if (caches_lost && world.target >= 0)
		lose_cache(&world.devices[world.target]);
	settle_rows(caches_lost);
	for (int i = 0; i < WRITES; i++)
		world.writes[i].phase = IDLE;
	world.target = -1;
	for (int d = 0; d < DEVICES; d++) {
		if (world.devices[d].set >= 0 && !world.devices[d].recorded)
			world.devices[d].set = -1;
		if (world.devices[d].set >= 0)
			tracked |= REGION_STALE(world.devices[d].set);
	}
	intent_destroy(&world.intent);
	assert_int_equal(intent_init(&world.intent, world.rows, world.region_rows), 0);
	load_maps(tracked);
	for (uint64_t row = 0; row < world.rows; row++)
		if (world.doubt[row] && !intent_row_suspect(&world.intent, row)) {
			assert_false(world.row_written[row]);
			world.doubt[row] = false;
		}
	world.crashes++;
}

/* --- runs --- */

static void
create(uint64_t rows, uint32_t region_rows)
{
	static uint8_t flags[REGIONS_MAX];

	intent_destroy(&world.intent);
	memset(&world, 0, sizeof(world));
	world.rows = rows;
	world.region_rows = region_rows;
	world.target = -1;
	assert_int_equal(intent_init(&world.intent, rows, region_rows), 0);
	memset(flags, REGION_DIRTY | REGION_UNWRITTEN, sizeof(flags));
	for (int d = 0; d < DEVICES; d++) {
		world.devices[d].in_sync = true;
		world.devices[d].set = -1;
		for (uint32_t block = 0; block < block_count(); block++)
			map_block_encode(flags, world.intent.regions, block, 1, uuid,
					 world.devices[d].map + block * LAYOUT_MAP_BLOCK_BYTES);
		intent_merge(&world.intent, flags, d == 0);
	}
	memset(world.doubt, true, rows);
	intent_loaded(&world.intent);
}

static void
step(void)
{
	switch (below(40)) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		write_begin();
		break;
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		write_issue(&world.writes[below(WRITES)]);
		break;
	case 12:
	case 13:
	case 14:
	case 15:
	case 16:
	case 17:
		write_done(&world.writes[below(WRITES)]);
		break;
	case 18:
	case 19:
	case 20:
		if (!world.sending)
			send_batch();
		break;
	case 21:
	case 22:
	case 23:
		batch_answered();
		break;
	case 24:
	case 25:
		clean_begin();
		break;
	case 26:
	case 27:
		clean_end();
		break;
	case 28:
		resync();
		break;
	case 29:
		member_leaves();
		break;
	case 30:
		target_begins();
		break;
	case 31:
	case 32:
	case 33:
	case 34:
	case 35:
		copy_row();
		break;
	case 36:
	case 37:
		target_goes_on();
		break;
	case 38:
		if (below(4) == 0)
			target_leaves();
		else
			member_is_forgotten();
		break;
	case 39:
		if (below(3) == 0)
			crash();
		break;
	}
}

/* Left alone, everything is clean in the end and everybody in sync. */
static void
come_to_rest(void)
{
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < WRITES; i++) {
			write_issue(&world.writes[i]);
			write_done(&world.writes[i]);
		}
		if (!world.sending)
			send_batch();
		for (int tries = 0; tries < 20 && world.sending; tries++)
			batch_answered();
		for (uint32_t i = 0; i < 2 * world.intent.regions && world.intent.suspect_count > 0;
		     i++)
			resync();
		for (uint64_t i = 0; i < 2 * world.rows; i++)
			copy_row();
		clean_begin();
		clean_end();
		target_goes_on();
		for (int i = 0; i < 8; i++)
			target_begins();
	}
	check_world();
	for (int i = 0; i < WRITES; i++)
		assert_int_equal(world.writes[i].phase, IDLE); /* none waits for ever */
	assert_int_equal(world.intent.dirty_count, 0);
	assert_int_equal(world.intent.suspect_count, 0);
	assert_int_equal(world.intent.stale_count, 0);
	assert_int_equal(count_in_sync(), DEVICES);
}

static uint32_t seed_at_work = UINT32_MAX;

static void
live(uint32_t seed, uint64_t rows, uint32_t region_rows, uint32_t steps, uint32_t check_every)
{
	seed_at_work = seed;
	random_state = 0x9e3779b97f4a7c15ull * (seed + 1);
	create(rows, region_rows);
	for (uint32_t i = 0; i < steps; i++) {
		step();
		if (i % check_every == 0)
			check_world();
	}
	come_to_rest();
	seed_at_work = UINT32_MAX;
}

static uint32_t
seeds(uint32_t usual)
{
	const char *text = getenv("IRAID_SEEDS");

	return text ? (uint32_t)atoi(text) : usual;
}

static void
test_nothing_is_forgotten_in_small_volumes(void **state)
{
	uint32_t crashes = 0, completions = 0, cleaned = 0;

	for (uint32_t seed = 0; seed < seeds(150); seed++) {
		live(seed, 3 + seed % 30, 1u << seed % 4, 1500, 1);
		crashes += world.crashes;
		completions += world.completions;
		cleaned += world.cleaned;
	}
	print_message("%u crashes, %u members filled, %u regions cleaned\n", crashes, completions,
		      cleaned);
	assert_true(crashes > 0 && completions > 0 && cleaned > 0);
}

static void
test_nothing_is_forgotten_across_map_blocks(void **state)
{
	for (uint32_t seed = 0; seed < seeds(150) / 100 + 1; seed++)
		live(10000 + seed, ROWS_MAX - 7 * seed, 1, 1500, 50);
}

/* Regions of 4 rows, the third with two; one member is out. */
static void
test_growth_keeps_what_is_known(void **state)
{
	const uint8_t absent = REGION_STALE(1),
		      fresh = REGION_DIRTY | REGION_UNWRITTEN | REGION_STALE(1);
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 10, 4), 0);
	intent->absent = absent;
	assert_int_equal(intent_grow(intent, 11, true), 0); /* within the last region */
	assert_int_equal(intent->regions, 3);
	assert_int_equal(intent_grow(intent, 23, true), 0);
	assert_int_equal(intent->regions, 6);
	assert_int_equal(intent->rows, 23);
	assert_int_equal(intent->flags[0], 0);
	assert_int_equal(intent->flags[2], absent);
	assert_true(intent->block_dirty[0]);
	assert_int_equal(intent->suspect_count, 3);
	assert_int_equal(intent->dirty_count, 3);
	for (uint32_t region = 3; region < 6; region++) {
		assert_int_equal(intent->flags[region], fresh);
		assert_true(intent_row_suspect(intent, region * 4) &&
			    intent_row_fresh(intent, region * 4));
		assert_false(intent_begin(intent, region)); /* its mark is not durable yet */
		intent_end(intent, region);
	}
	assert_false(intent_row_suspect(intent, 11));
	/* Another block of the map. */
	assert_int_equal(intent_grow(intent, 4 * LAYOUT_REGIONS_PER_BLOCK + 1, true), 0);
	assert_int_equal(intent->blocks, 2);
	assert_true(intent->block_dirty[1]);
	assert_int_equal(intent->flags[LAYOUT_REGIONS_PER_BLOCK], fresh);
	intent_destroy(intent);

	assert_int_equal(intent_init(intent, 10, 4), 0);
	assert_int_equal(intent_grow(intent, 23, false), 0); /* level 0 */
	assert_int_equal(intent->flags[5], 0);
	assert_int_equal(intent->suspect_count, 0);
	/* all the same: their granules have to be there */
	assert_true(intent->block_dirty[0]);
}

/* Whoever is being filled is not absent, but its place has nobody in sync: what is missing there is
 * what parity makes of it.  So a lost cache makes doubtful what was written since the last flush,
 * and no other row of a region that was fresh.
 */
static void
test_what_was_written_stays_proven_while_its_place_is_filled(void **state)
{
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 8, true), 0);
	intent_region_proven(intent, 1); /* a resync was there */
	intent_begin(intent, 1);
	intent_note_rows(intent, 4, 4);
	intent_end(intent, 1);
	intent_flush_begins(intent);
	intent_flush_ends(intent, true);
	intent->absent = REGION_STALE(0);
	intent_member_lost(intent, true);
	intent_target_begin(intent, REGION_STALE(0), false, false);
	intent_begin(intent, 1);
	intent_note_rows(intent, 5, 5);
	intent_end(intent, 1);
	intent_suspect_dirty(intent, true, true);
	assert_false(intent_row_suspect(intent, 4));
	assert_true(intent_row_suspect(intent, 5));
}

/* Whoever is filled has that region, or not yet, when a cache is lost that took parity along which
 * a resync has just made: what was copied was made with it.  A write of a row may have failed
 * before the member went.  Nothing is lost but what was written since the last flush, and the other
 * rows are what parity makes of them.
 */
static void
lose_parity_beside_target(bool copied, bool written, bool left, bool failed)
{
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 8, true), 0);
	intent_region_proven(intent, 1);
	intent_begin(intent, 1);
	intent_note_rows(intent, 4, 4);
	intent_end(intent, 1);
	intent_flush_begins(intent);
	intent_flush_ends(intent, true);
	if (failed)
		intent_suspect_rows(intent, 7, 7);
	intent->absent = REGION_STALE(0);
	intent_member_lost(intent, true);
	for (uint64_t row = 4; row < 8; row++)
		assert_int_equal(intent_row_losable(intent, row), failed && row == 7);
	intent_region_proven(intent, 1); /* what failed is on record */
	intent_target_begin(intent, REGION_STALE(0), false, false);
	for (uint64_t row = 4; copied && row < 6; row++) /* some of it is enough */
		intent_row_copied(intent, row);
	intent_begin(intent, 1);
	if (written)
		intent_note_rows(intent, 5, 5);
	intent_end(intent, 1);
	if (left)
		intent_suspect_left(intent, true, true);
	else
		intent_suspect_dirty(intent, true, true);
	for (uint64_t row = 4; row < 8; row++) {
		const bool lost = written && !left && row == 5;

		assert_int_equal(intent_row_suspect(intent, row), copied || lost);
		assert_int_equal(intent_row_losable(intent, row), lost);
		assert_true(!copied || intent_row_defined(intent, row) == !lost);
	}
	assert_int_equal(intent_region_undefined(intent, 1), written && !left);
	intent_destroy(intent);
}

static void
test_what_was_filled_before_a_cache_took_parity_along_is_compared(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		lose_parity_beside_target(i & 1, i & 2, i & 4, i & 8);
}

/* Members come back one after the other, each without its cache, before it is on record what the
 * first one lost: what parity makes of rows that nobody wrote is what is missing there, the second
 * time, too.
 */
static void
test_what_is_settled_stays_so_when_another_cache_is_lost(void **state)
{
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 8, true), 0);
	intent_region_proven(intent, 1); /* a resync was there */
	intent->absent = REGION_STALE(0);
	intent_member_lost(intent, true);
	intent_begin(intent, 1);
	intent_note_rows(intent, 5, 5);
	intent_end(intent, 1);
	for (int losses = 0; losses < 3; losses++) {
		intent_suspect_dirty(intent, true, true);
		for (uint64_t row = 4; row < 8; row++)
			assert_int_equal(intent_row_suspect(intent, row), row == 5);
	}
	intent_suspect_dirty(intent, true, false); /* P and Q may make two things of it */
	for (uint64_t row = 4; row < 8; row++)
		assert_true(intent_row_suspect(intent, row));
}

/* A cache took parity along that a resync had made, somebody writes there, and another cache is
 * lost: only what was written may be.
 */
static void
test_what_is_defined_stays_so_when_another_cache_is_lost(void **state)
{
	struct intent *intent = &world.intent;

	(void)state;
	for (int filled = 0; filled < 2; filled++) {
		assert_int_equal(intent_init(intent, 4, 4), 0);
		assert_int_equal(intent_grow(intent, 8, true), 0);
		intent_region_proven(intent, 1);
		intent->absent = REGION_STALE(0);
		intent_member_lost(intent, true);
		if (filled)
			intent_target_begin(intent, REGION_STALE(0), true, false);
		for (uint64_t row = 4; row < 8 && filled; row++)
			intent_row_copied(intent, row);
		intent_suspect_dirty(intent, true, true);
		for (uint64_t row = 4; row < 8; row++)
			assert_true(intent_row_suspect(intent, row) &&
				    intent_row_defined(intent, row));
		intent_begin(intent, 1);
		for (int losses = 0; losses < 3; losses++) {
			intent_suspect_dirty(intent, true, true);
			for (uint64_t row = 4; row < 8; row++) {
				const bool written = losses > 0 && row == 5;

				assert_int_equal(intent_row_losable(intent, row), written);
				assert_int_equal(intent_row_suspect(intent, row) &&
							 !intent_row_defined(intent, row),
						 written);
			}
			intent_note_rows(intent, 5, 5);
		}
		intent_end(intent, 1);
		intent_destroy(intent);
	}
}

/* Of two regions that nobody had written a resync has made the parity, and one was clean since; a
 * row of each is written.
 */
static void
test_what_a_resync_just_made_goes_with_a_cache(void **state)
{
	struct intent *intent = &world.intent;

	(void)state;
	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 12, true), 0);
	intent_region_proven(intent, 2);
	for (int generation = 0; generation < 2; generation++)
		intent_clean_begin(intent);
	assert_int_equal(intent_clean_end(intent), 1);
	intent_region_proven(intent, 1);
	for (uint32_t region = 1; region < 3; region++) {
		intent_begin(intent, region);
		intent_note_rows(intent, region * 4 + 1, region * 4 + 1);
		intent_end(intent, region);
	}
	assert_int_equal(intent_suspect_dirty(intent, false, false), 0);
	for (uint64_t row = 4; row < 12; row++) {
		assert_int_equal(intent_row_suspect(intent, row), row < 8 || row == 9);
		assert_int_equal(intent_row_losable(intent, row), row % 4 == 1);
	}
}

/* One region was dirty before the start, and is written again; nobody had written the other two, of
 * which the last is clean.
 */
static void
test_what_was_left_in_a_cache_takes_along_nothing_that_was_written_since(void **state)
{
	static const uint8_t flags[] = { REGION_DIRTY, REGION_DIRTY | REGION_UNWRITTEN,
					 REGION_UNWRITTEN };
	struct intent *intent = &world.intent;

	(void)state;
	for (int settled = 0; settled < 2; settled++) {
		assert_int_equal(intent_init(intent, 12, 4), 0);
		intent_merge(intent, flags, true);
		intent_loaded(intent);
		for (uint32_t region = 0; region < 3; region++) {
			intent_region_proven(intent, region);
			intent_begin(intent, region);
			intent_note_rows(intent, region * 4 + 1, region * 4 + 1);
			intent_end(intent, region);
		}
		assert_int_equal(intent_suspect_left(intent, settled, settled), 1);
		for (uint64_t row = 0; row < 12; row++) {
			assert_int_equal(intent_row_suspect(intent, row),
					 row < 4 || (row < 8 && !settled));
			assert_int_equal(intent_row_losable(intent, row), row < 4);
		}
		intent_destroy(intent);
	}
}

/* While this is so there is no memory. */
static bool memory_refused;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *
__wrap_malloc(size_t bytes)
{
	return memory_refused ? NULL : __real_malloc(bytes);
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
	return memory_refused ? NULL : __real_calloc(count, bytes);
}

/* Two regions: the first is not fresh, nothing is suspect; one row each was written, and a flush
 * covered it.
 */
static void
begin_flushed(struct intent *intent)
{
	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 8, true), 0);
	for (uint32_t region = 0; region < 2; region++) {
		intent_region_proven(intent, region);
		intent_begin(intent, region);
		intent_note_rows(intent, region * 4, region * 4);
		intent_end(intent, region);
	}
	intent_flush_begins(intent);
	intent_flush_ends(intent, true);
	intent->absent = REGION_STALE(0);
}

/* Of a fresh region all is suspect, for P and Q may make two things of it, but nothing is lost. */
static void
test_what_was_flushed_is_not_lost_with_a_cache_for_want_of_memory(void **state)
{
	struct intent *intent = &world.intent;

	for (int bare = 0; bare < 2; bare++) {
		begin_flushed(intent);
		memory_refused = true;
		while (row_bits_take(&intent->bits) != NULL)
			; /* the reserve is not for all regions of a large volume */
		assert_int_equal(intent_suspect_dirty(intent, true, bare), 0);
		memory_refused = false;
		for (uint64_t row = 0; row < 8; row++) {
			assert_false(intent_row_losable(intent, row));
			assert_int_equal(intent_row_suspect(intent, row), row >= 4 && !bare);
		}
		intent_destroy(intent);
	}
}

/* Nothing is fresh but what has grown; a row of each region is written, and may be lost with a
 * cache; in the first one it is then proven, more than once.
 */
static void
test_rows_are_told_apart_without_memory(void **state)
{
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 16, true), 0);
	for (uint32_t region = 0; region < 4; region++)
		intent_region_proven(intent, region);
	memory_refused = true;
	for (int round = 0; round < 3; round++) {
		for (uint32_t region = 0; region < 4; region++) {
			intent_begin(intent, region);
			intent_note_rows(intent, region * 4 + 1, region * 4 + 1);
			intent_end(intent, region);
		}
		assert_int_equal(intent_suspect_dirty(intent, true, true), 0);
		for (uint64_t row = 0; row < 16; row++)
			assert_int_equal(intent_row_losable(intent, row), row % 4 == 1);
		for (uint32_t region = 0; region < 4; region++) {
			intent_prove(intent, region * 4 + 1);
			assert_false(intent_row_losable(intent, region * 4 + 1));
			intent_region_proven(intent, region);
		}
		intent_flush_begins(intent);
		intent_flush_ends(intent, true);
		for (int generation = 0; generation < 2; generation++)
			intent_clean_begin(intent);
		assert_int_equal(intent_clean_end(intent), 4);
	}
	memory_refused = false;
	intent_destroy(intent);
}

/* What row 1 of each region lost is on record, and all of the region is what the others make of it;
 * then row 2 is in doubt.
 */
static void
test_rows_of_a_defined_region_are_told_apart_without_memory(void **state)
{
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	assert_int_equal(intent_grow(intent, 16, true), 0);
	memory_refused = true;
	for (uint32_t region = 0; region < 4; region++) {
		intent_region_proven(intent, region);
		intent_suspect_rows(intent, region * 4 + 1, region * 4 + 1);
		intent_region_defined(intent, region);
		intent_suspect_rows(intent, region * 4 + 2, region * 4 + 2);
	}
	memory_refused = false;
	for (uint64_t row = 0; row < 16; row++) {
		assert_int_equal(intent_row_losable(intent, row), row % 4 == 2);
		assert_int_equal(intent_row_defined(intent, row), row % 4 != 2);
	}
	for (uint32_t region = 0; region < 4; region++) {
		assert_true(intent_region_undefined(intent, region));
		intent_region_defined(intent, region);
	}
	assert_int_equal(intent->defined_count, 4);
	for (uint64_t row = 0; row < 16; row++)
		assert_true(intent_row_defined(intent, row));
	/* Who else goes takes along what is suspect, on record or not. */
	intent_member_lost(intent, false);
	assert_true(intent_row_losable(intent, 1) && intent_row_losable(intent, 2));
	intent_destroy(intent);
}

/* A region was never written, another was; each is stale on who is taken by force, or on nobody
 * known.  If all maps are of an older time, the first may have been written since.
 */
static void
test_what_is_forced_is_written_unless_a_map_of_today_says_no(void **state)
{
	static const uint8_t flags[] = { REGION_UNWRITTEN | REGION_STALE(0), REGION_STALE(0),
					 REGION_UNWRITTEN };
	struct intent *intent = &world.intent;

	for (int known = 0; known <= 1; known++)
		for (int everywhere = 0; everywhere <= 1; everywhere++) {
			assert_int_equal(intent_init(intent, 12, 4), 0);
			intent_merge(intent, flags, true);
			intent_loaded(intent);
			intent_forced(intent, everywhere ? 0 : REGION_STALE(0), known);
			for (uint64_t row = 0; row < 12; row++) {
				const bool taken = everywhere || row < 8;
				const bool written = row / 4 == 1 || !known;

				assert_int_equal(intent_row_suspect(intent, row), taken);
				assert_int_equal(intent_row_losable(intent, row), taken && written);
				assert_int_equal(!!(intent->flags[row / 4] & REGION_DIRTY), taken);
			}
			intent_destroy(intent);
		}
}

/* It was clean on record, and is new again: a resync makes its parity. */
static void
test_what_is_made_beside_a_forced_member_goes_with_a_cache(void **state)
{
	static const uint8_t flags[] = { REGION_UNWRITTEN | REGION_STALE(0) };
	struct intent *intent = &world.intent;

	assert_int_equal(intent_init(intent, 4, 4), 0);
	intent_merge(intent, flags, true);
	intent_loaded(intent);
	intent_forced(intent, REGION_STALE(0), true);
	intent_flush_begins(intent);
	intent_flush_ends(intent, true);
	intent_region_proven(intent, 0);
	intent_begin(intent, 0);
	intent_note_rows(intent, 1, 1);
	intent_end(intent, 0);
	assert_int_equal(intent_suspect_dirty(intent, false, false), 0);
	for (uint64_t row = 0; row < 4; row++) {
		assert_true(intent_row_suspect(intent, row));
		assert_int_equal(intent_row_losable(intent, row), row == 1);
	}
}

/* What somebody wrote to rows whose whole region became suspect may be on record as lost by now, so
 * it stays doubted when it is settled.
 */
static void
test_doubt_of_whole_regions_stays(void **state)
{
	struct intent *intent = &world.intent;
	uint32_t doubts;

	assert_int_equal(intent_init(intent, 12, 4), 0);
	doubts = intent->doubts;
	intent_suspect_rows(intent, 5, 5);
	assert_false(intent_regions_doubted_since(intent, 4, 7, doubts));
	intent_suspect(intent, 1);
	intent_region_proven(intent, 1);
	assert_true(intent_regions_doubted_since(intent, 4, 4, doubts));
	assert_true(intent_regions_doubted_since(intent, 0, 11, doubts));
	assert_false(intent_regions_doubted_since(intent, 0, 3, doubts));
	assert_false(intent_regions_doubted_since(intent, 8, 11, doubts));
	assert_false(intent_regions_doubted_since(intent, 4, 7, intent->doubts));
}

/* Whoever works on rows of the region took them for copied; of other regions, and of one of which
 * nothing was, nothing changes.
 */
static void
test_what_counts_as_copied_no_more_is_doubted_in_its_region_only(void **state)
{
	struct intent *intent = &world.intent;
	uint32_t doubts;

	assert_int_equal(intent_init(intent, 12, 4), 0);
	intent_target_begin(intent, REGION_STALE(0), true, true);
	doubts = intent->doubts;
	intent_row_copied(intent, 4);
	intent_copy_given_up(intent);
	assert_true(intent_rows_doubted_since(intent, 4, 4, doubts));
	assert_false(intent_rows_doubted_since(intent, 0, 3, doubts));
	assert_false(intent_rows_doubted_since(intent, 8, 11, doubts));
	doubts = intent->doubts;
	intent_target_doubted_in(intent, 1);
	assert_int_not_equal(intent->doubts, doubts);
	assert_false(intent_rows_doubted_since(intent, 0, 11, doubts));
	for (uint64_t row = 8; row < 12; row++)
		intent_row_copied(intent, row);
	doubts = intent->doubts;
	intent_target_doubted_in(intent, 2);
	assert_true(intent_rows_doubted_since(intent, 11, 11, doubts));
	assert_false(intent_rows_doubted_since(intent, 0, 7, doubts));
}

static int
name_the_seed(void **state)
{
	if (seed_at_work != UINT32_MAX)
		print_error("it was seed %u\n", seed_at_work);
	intent_destroy(&world.intent);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_nothing_is_forgotten_in_small_volumes,
					  name_the_seed),
		cmocka_unit_test_teardown(test_nothing_is_forgotten_across_map_blocks,
					  name_the_seed),
		cmocka_unit_test_teardown(test_growth_keeps_what_is_known, name_the_seed),
		cmocka_unit_test_teardown(
			test_what_was_written_stays_proven_while_its_place_is_filled,
			name_the_seed),
		cmocka_unit_test(test_what_was_filled_before_a_cache_took_parity_along_is_compared),
		cmocka_unit_test_teardown(test_what_is_settled_stays_so_when_another_cache_is_lost,
					  name_the_seed),
		cmocka_unit_test_teardown(test_what_is_defined_stays_so_when_another_cache_is_lost,
					  name_the_seed),
		cmocka_unit_test_teardown(
			test_what_was_left_in_a_cache_takes_along_nothing_that_was_written_since,
			name_the_seed),
		cmocka_unit_test_teardown(test_what_a_resync_just_made_goes_with_a_cache,
					  name_the_seed),
		cmocka_unit_test_teardown(
			test_what_was_flushed_is_not_lost_with_a_cache_for_want_of_memory,
			name_the_seed),
		cmocka_unit_test_teardown(test_rows_are_told_apart_without_memory, name_the_seed),
		cmocka_unit_test_teardown(
			test_rows_of_a_defined_region_are_told_apart_without_memory, name_the_seed),
		cmocka_unit_test_teardown(
			test_what_is_forced_is_written_unless_a_map_of_today_says_no,
			name_the_seed),
		cmocka_unit_test_teardown(
			test_what_is_made_beside_a_forced_member_goes_with_a_cache, name_the_seed),
		cmocka_unit_test_teardown(test_doubt_of_whole_regions_stays, name_the_seed),
		cmocka_unit_test_teardown(
			test_what_counts_as_copied_no_more_is_doubted_in_its_region_only,
			name_the_seed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
