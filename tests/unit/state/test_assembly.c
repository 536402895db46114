/* Who is started with whom: every mix of members in every condition, and the cases that once they
 * go wrong lose data silently (clones, replaced members, records of assemblies that crashed).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "state/assembly.h"

#define EPOCH 7
#define EVENT 20

static const uint8_t volume_uuid[16] = "the volume";

/* A set of devices: what assembly_decide() is asked, and the superblocks it points to. */
struct scene {
	struct assembly_input input;
	struct superblock superblocks[SLOTS_MAX];
	struct assembly_verdict verdict;
};

static void
name_member(uint8_t *uuid, int number)
{
	memset(uuid, 0x40 + number, 16);
}

/* The record of a volume all of whose members 0 .. count-1 are in sync; members have their roles'
 * numbers.
 */
static struct superblock
record_of(int level, int count)
{
	struct superblock record;

	memset(&record, 0, sizeof(record));
	memcpy(record.volume_uuid, volume_uuid, 16);
	strcpy(record.name, "vol0");
	record.level = (uint8_t)level;
	record.member_count = (uint8_t)count;
	record.chunk_bytes = 65536;
	record.block_bytes = 512;
	record.member_bytes = 64 << 20;
	record.epoch = EPOCH;
	record.event = EVENT;
	layout_compute(record.member_bytes, record.chunk_bytes, record.areas, &record.data_bytes,
		       &record.region_rows);
	for (int i = 0; i < count; i++) {
		name_member(record.member_uuids[i], i);
		record.member_states[i] = MEMBER_IN_SYNC;
	}
	return record;
}

static void
track(struct superblock *record, int set, int number, int role, enum member_state state)
{
	name_member(record->tracked[set].member_uuid, number);
	record->tracked[set].role = (uint8_t)role;
	record->tracked[set].state = (uint8_t)state;
}

static void
scene_begin(struct scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	scene->input.volume_uuid = volume_uuid;
	for (int i = 0; i < SLOTS_MAX; i++)
		scene->input.superblocks[i] = &scene->superblocks[i];
}

/* A device without a superblock of its own to show. */
static int
add_slot(struct scene *scene, enum presence presence)
{
	scene->input.presence[scene->input.count] = presence;
	return scene->input.count++;
}

/* Member `number` as `role`, with this record as it was at `event`. */
static int
add_member(struct scene *scene, const struct superblock *record, int number, int role,
	   uint64_t epoch, uint64_t event)
{
	int slot = add_slot(scene, PRESENCE_EXAMINED);

	scene->superblocks[slot] = *record;
	scene->superblocks[slot].role = (uint8_t)role;
	name_member(scene->superblocks[slot].member_uuid, number);
	scene->superblocks[slot].epoch = epoch;
	scene->superblocks[slot].event = event;
	return slot;
}

static const struct assembly_verdict *
decide(struct scene *scene)
{
	/* The slots behind the last must not matter. */
	memset(&scene->verdict, 0xa5, sizeof(scene->verdict));
	assembly_decide(&scene->input, &scene->verdict);
	return &scene->verdict;
}

/* --- true of every verdict --- */

static void
check_always(const struct scene *scene)
{
	const struct assembly_input *input = &scene->input;
	const struct assembly_verdict *verdict = &scene->verdict;
	bool starts = verdict->answer == ASSEMBLY_DEGRADED || verdict->answer == ASSEMBLY_READY;
	unsigned int roles = 0;
	int trusted = 0;
	int awaited = 0;

	assert_int_equal(verdict->reason[0] == '\0', starts);
	for (int i = 0; i < input->count; i++) {
		bool in_sync = verdict->standing[i] == STANDING_IN_SYNC;

		awaited += input->presence[i] == PRESENCE_AWAITED;
		if (input->presence[i] != PRESENCE_ABSENT)
			assert_int_equal(verdict->fault[i] == NULL, in_sync);
		assert_false(verdict->forced[i] && !in_sync);
		assert_false(verdict->forced[i] && !input->force);
		if (verdict->stale_set[i] >= 0)
			assert_true(verdict->forced[i] ||
				    verdict->standing[i] == STANDING_OUT_OF_DATE ||
				    verdict->standing[i] == STANDING_REBUILDING);
		if (!in_sync)
			continue;
		assert_int_equal(input->presence[i], PRESENCE_EXAMINED);
		assert_false(roles & 1u << verdict->role[i]);
		roles |= 1u << verdict->role[i];
		trusted++;
		const struct superblock *newest = input->superblocks[verdict->newest];
		assert_memory_equal(input->superblocks[i]->member_uuid,
				    newest->member_uuids[verdict->role[i]], 16);
		if (!verdict->forced[i])
			assert_int_equal(newest->member_states[verdict->role[i]], MEMBER_IN_SYNC);
	}
	if (starts) {
		const struct superblock *newest = input->superblocks[verdict->newest];

		const int borne =
			newest->level == 1 ? newest->member_count - 1 : newest->level == 5;

		assert_true(trusted >= newest->member_count - borne);
		assert_false(verdict->answer == ASSEMBLY_READY && trusted < newest->member_count &&
			     awaited > 0);
	}
}

/* --- every mix --- */

enum kind {
	ABSENT,
	AWAITED,
	REJECTED,
	ALIEN,
	FRESH,	   /* in sync, has the newest record */
	LAGGING,   /* in sync, the last update did not reach it */
	TRACKED,   /* left some time ago, a set says what it lacks */
	UNTRACKED, /* left some time ago, nothing is known */
	FILLED,	   /* came back, is being caught up, has the newest record */
	FAILED,	   /* tracked, not to come back by itself */
	KINDS,
};

/* When a member that is out left: each one at another time, the higher the later. */
static uint64_t
left_at(int role)
{
	return (uint64_t)(5 + role);
}

static bool
build_mix(struct scene *scene, int level, int count, const enum kind *kinds)
{
	struct superblock record = record_of(level, count);
	int sets = 0;

	for (int role = 0; role < count; role++) {
		static const enum member_state states[KINDS] = {
			[TRACKED] = MEMBER_OUT_OF_DATE,
			[FILLED] = MEMBER_REBUILDING,
			[FAILED] = MEMBER_FAULTY,
		};

		if (kinds[role] >= TRACKED)
			record.member_states[role] = role % 2 ? MEMBER_FAULTY : MEMBER_MISSING;
		if (states[kinds[role]] == 0)
			continue;
		if (sets == LAYOUT_STALE_SETS)
			return false;
		track(&record, sets++, role, role, states[kinds[role]]);
	}
	scene_begin(scene);
	struct superblock before = record_of(level, count); /* as those that left know it */
	for (int role = 0; role < count; role++) {
		switch (kinds[role]) {
		case ABSENT:
			add_slot(scene, PRESENCE_ABSENT);
			break;
		case AWAITED:
			add_slot(scene, PRESENCE_AWAITED);
			break;
		case REJECTED:
			add_slot(scene, PRESENCE_REJECTED);
			break;
		case ALIEN:
			add_member(scene, &record, role, role, EPOCH + 5, EVENT);
			scene->superblocks[role].volume_uuid[3] ^= 1;
			break;
		case FRESH:
		case FILLED:
			add_member(scene, &record, role, role, EPOCH, EVENT);
			break;
		case LAGGING:
			add_member(scene, &record, role, role, EPOCH, EVENT - 1);
			break;
		case TRACKED:
		case UNTRACKED:
		case FAILED:
			add_member(scene, &before, role, role, EPOCH - 1, left_at(role));
			break;
		case KINDS:
			fail();
		}
	}
	return true;
}

static int
count_kind(const enum kind *kinds, int count, enum kind kind)
{
	int found = 0;

	for (int i = 0; i < count; i++)
		found += kinds[i] == kind;
	return found;
}

/* Of those out of sync, the ones that force takes: being filled first, then the last to leave. */
static unsigned int
taken_by_force(const enum kind *kinds, int count, int wanted)
{
	unsigned int taken = 0;

	for (int role = 0; role < count && wanted > 0; role++)
		if (kinds[role] == FILLED) {
			taken |= 1u << role;
			wanted--;
		}
	for (int role = count - 1; role >= 0 && wanted > 0; role--)
		if (kinds[role] == TRACKED || kinds[role] == UNTRACKED || kinds[role] == FAILED) {
			taken |= 1u << role;
			wanted--;
		}
	return taken;
}

static void
check_standings(const struct scene *scene, const enum kind *kinds, unsigned int taken)
{
	static const enum standing standings[KINDS] = {
		[ABSENT] = STANDING_UNKNOWN,	  [AWAITED] = STANDING_UNKNOWN,
		[REJECTED] = STANDING_UNKNOWN,	  [ALIEN] = STANDING_UNKNOWN,
		[FRESH] = STANDING_IN_SYNC,	  [LAGGING] = STANDING_IN_SYNC,
		[TRACKED] = STANDING_OUT_OF_DATE, [UNTRACKED] = STANDING_OBSOLETE,
		[FILLED] = STANDING_REBUILDING,	  [FAILED] = STANDING_OUT_OF_DATE,
	};
	int sets = 0;

	for (int i = 0; i < scene->input.count; i++) {
		bool forced = taken >> i & 1;
		bool tracked = kinds[i] == TRACKED || kinds[i] == FILLED || kinds[i] == FAILED;

		assert_int_equal(scene->verdict.forced[i], forced);
		assert_int_equal(scene->verdict.standing[i],
				 forced ? STANDING_IN_SYNC : standings[kinds[i]]);
		assert_int_equal(scene->verdict.stale_set[i], tracked ? sets : -1);
		assert_int_equal(scene->verdict.role[i], kinds[i] >= FRESH ? i : -1);
		sets += tracked;
	}
}

static void
check_mix(struct scene *scene, int level, int count, const enum kind *kinds)
{
	int needed = count - (level == 5);
	int trusted = count_kind(kinds, count, FRESH) + count_kind(kinds, count, LAGGING);
	int awaited = count_kind(kinds, count, AWAITED);
	int forcible = count_kind(kinds, count, TRACKED) + count_kind(kinds, count, UNTRACKED) +
		       count_kind(kinds, count, FILLED) + count_kind(kinds, count, FAILED);
	bool force = scene->input.force;
	enum assembly_answer expected;
	unsigned int taken = 0;

	decide(scene);
	check_always(scene);
	if (trusted + count_kind(kinds, count, FILLED) == 0)
		return; /* nobody has the record this mix is about */
	if (force && scene->input.epoch_seen <= EPOCH + 1 && trusted < needed &&
	    trusted + forcible >= needed)
		taken = taken_by_force(kinds, count, needed - trusted);
	if (taken != 0)
		trusted = needed;
	if ((scene->input.epoch_seen > EPOCH && !force) || trusted < needed)
		expected = awaited > 0 ? ASSEMBLY_WAIT : ASSEMBLY_REFUSED;
	else
		expected = trusted < count && awaited > 0 ? ASSEMBLY_DEGRADED : ASSEMBLY_READY;
	assert_int_equal(scene->verdict.answer, expected);
	/* any two are enough of three: two that are missing, or one and a place that was taken */
	if (expected == ASSEMBLY_DEGRADED)
		assert_int_equal(scene->verdict.other_half, count - trusted + 1 >= needed);
	check_standings(scene, kinds, taken);
}

static void
check_all_mixes(int level, int count)
{
	static struct scene scene;
	enum kind kinds[5] = { 0 };
	int digit;

	do {
		if (build_mix(&scene, level, count, kinds))
			for (int i = 0; i < 6; i++) {
				scene.input.force = i % 2;
				scene.input.epoch_seen = (uint64_t[]){ 0, EPOCH, EPOCH + 1 }[i / 2];
				check_mix(&scene, level, count, kinds);
			}
		for (digit = 0; digit < count && kinds[digit] == KINDS - 1; digit++)
			kinds[digit] = 0;
		if (digit < count)
			kinds[digit]++;
	} while (digit < count);
}

static void
test_every_mix_of_three_and_four_members_is_judged_as_the_rules_say(void **state)
{
	check_all_mixes(0, 3);
	check_all_mixes(0, 4);
	check_all_mixes(5, 3);
	check_all_mixes(5, 4);
}

static void
test_every_mix_of_five_members_is_judged_as_the_rules_say(void **state)
{
	check_all_mixes(5, 5);
}

/* Members at any two moments of a volume's life, the mix of moments enumerated: the newest one's
 * word counts.
 */
static void
test_of_every_mix_of_epochs_and_events_the_newest_rules(void **state)
{
	static struct scene scene;

	for (int count = 3; count <= 5; count++)
		for (int code = 0; code < 1 << 2 * count; code++) {
			struct superblock record = record_of(5, count);
			uint64_t top = 0;

			scene_begin(&scene);
			for (int role = 0; role < count; role++) {
				int moment = code >> 2 * role & 3;
				uint64_t epoch = (uint64_t)(1 + moment / 2),
					 event = (uint64_t)(9 - moment * 2);

				add_member(&scene, &record, role, role, epoch, event);
				if ((epoch << 8 | event) > top)
					top = epoch << 8 | event;
			}
			decide(&scene);
			check_always(&scene);
			const struct superblock *newest = &scene.superblocks[scene.verdict.newest];
			assert_int_equal(newest->epoch << 8 | newest->event, top);
			assert_int_equal(scene.verdict.answer, ASSEMBLY_READY);
		}
}

/* --- single cases --- */

static void
test_nothing_starts_while_nobody_is_there(void **state)
{
	static struct scene scene;

	scene_begin(&scene);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.newest, -1);
	add_slot(&scene, PRESENCE_AWAITED);
	add_slot(&scene, PRESENCE_SPARE);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_WAIT);
	assert_int_equal(scene.verdict.standing[1], STANDING_SPARE);
	check_always(&scene);
	scene.input.presence[0] = PRESENCE_REJECTED;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	check_always(&scene);
}

/* Member 9 was given the place of member 0; of those who took that record, one is away and the
 * other lost the copy.
 */
static void
test_a_lost_copy_may_have_been_the_record_that_gave_a_place_away(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 3), after;
	int target, survivor;

	scene_begin(&scene);
	before.member_states[1] = MEMBER_MISSING;
	after = before;
	name_member(after.member_uuids[0], 9);
	target = add_member(&scene, &after, 9, 0, EPOCH, EVENT + 2);
	survivor = add_member(&scene, &before, 2, 2, EPOCH, EVENT);
	scene.input.copy_lost[survivor] = true;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.newest, target);
	check_always(&scene);
	/* With both copies it would have had it: nobody else did, so nothing was acknowledged under
	 * it.
	 */
	scene.input.copy_lost[survivor] = false;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.newest, survivor);
	check_always(&scene);
}

/* Level 1 went on with member 2 alone, which has another size now. */
static int
begin_with_witness(struct scene *scene, const struct superblock *before)
{
	struct superblock after = *before;
	int witness;

	scene_begin(scene);
	for (int role = 0; role < 2; role++) {
		add_member(scene, before, role, role, EPOCH, EVENT);
		after.member_states[role] = MEMBER_MISSING;
		track(&after, role, role, role, MEMBER_OUT_OF_DATE);
	}
	witness = add_member(scene, &after, 2, 2, EPOCH + 1, EVENT + 2);
	scene->input.presence[witness] = PRESENCE_MISFIT;
	return witness;
}

static void
test_a_device_that_has_changed_may_be_the_last_who_knows_that_the_others_are_out(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(1, 3);
	int witness = begin_with_witness(&scene, &before);

	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.newest, witness);
	assert_non_null(strstr(scene.verdict.reason, "--force"));
	assert_non_null(strstr(scene.verdict.fault[witness], "has changed"));
	assert_int_equal(scene.verdict.standing[0], STANDING_OUT_OF_DATE);
	check_always(&scene);
	/* As it was again. */
	scene.input.presence[witness] = PRESENCE_EXAMINED;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.standing[witness], STANDING_IN_SYNC);
	check_always(&scene);
}

static void
test_what_members_lack_is_not_known_where_a_device_that_has_changed_says_who_is_out(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(1, 3);

	begin_with_witness(&scene, &before);
	scene.input.force = true;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_true(scene.verdict.forced[0]);
	assert_int_equal(scene.verdict.stale_set[0], -1);
	check_always(&scene);
}

/* A copy from before the others were out is there as well. */
static void
test_an_old_copy_of_the_device_that_has_changed_does_not_speak_for_it(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(1, 3);
	int witness = begin_with_witness(&scene, &before);
	int copy = add_member(&scene, &before, 2, 2, EPOCH, EVENT);

	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.newest, witness);
	assert_int_equal(scene.verdict.standing[copy], STANDING_UNKNOWN);
	assert_non_null(strstr(scene.verdict.fault[copy], "remove this one"));
	check_always(&scene);
}

/* One that it calls in sync is there, as it was before the other one was out. */
static void
test_a_member_that_went_back_does_not_speak_for_the_device_that_has_changed(void **state)
{
	for (int lost = 0; lost < 2; lost++) {
		static struct scene scene;
		struct superblock before = record_of(1, 3), after = before;
		int old, witness;

		scene_begin(&scene);
		before.write_count = 100;
		old = add_member(&scene, &before, 0, 0, EPOCH, EVENT);
		scene.input.copy_lost[old] = lost;
		add_member(&scene, &before, 1, 1, EPOCH, EVENT);
		after.member_states[1] = MEMBER_MISSING;
		after.write_counts[0] = 102;
		after.write_counts[2] = 102;
		after.write_count = 103;
		witness = add_member(&scene, &after, 2, 2, EPOCH + 1, EVENT + 3);
		scene.input.presence[witness] = PRESENCE_MISFIT;
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
		assert_int_equal(scene.verdict.newest, witness);
		assert_int_equal(scene.verdict.standing[old], STANDING_OBSOLETE);
		check_always(&scene);
		/* It has had the writes of which the others know. */
		scene.superblocks[witness].write_counts[0] = 100 + (uint64_t)lost;
		decide(&scene);
		assert_int_equal(scene.verdict.newest, old);
		check_always(&scene);
	}
}

/* Its last word was for nobody, or they have it as well. */
static void
test_a_device_that_has_changed_says_nothing_of_those_it_calls_in_sync(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 4), after = before;
	int changed;

	scene_begin(&scene);
	after.member_states[3] = MEMBER_MISSING;
	for (int role = 0; role < 4; role++)
		if (role != 2)
			add_member(&scene, &before, role, role, EPOCH, EVENT);
	changed = add_member(&scene, &after, 2, 2, EPOCH + 1, EVENT + 1);
	scene.input.presence[changed] = PRESENCE_MISFIT;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.standing[changed], STANDING_UNKNOWN);
	check_always(&scene);
}

static void
test_spares_and_further_slots_are_not_waited_for(void **state)
{
	static struct scene scene;
	struct superblock record = record_of(5, 3);

	scene_begin(&scene);
	add_slot(&scene, PRESENCE_SPARE);
	add_slot(&scene, PRESENCE_AWAITED);
	for (int role = 2; role >= 0; role--)
		add_member(&scene, &record, role, role, EPOCH, EVENT);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.role[2], 2);
	assert_int_equal(scene.verdict.role[4], 0);
	check_always(&scene);
	scene.input.presence[4] = PRESENCE_SPARE;
	scene.input.presence[1] = PRESENCE_SPARE;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	scene.input.presence[1] = PRESENCE_AWAITED;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_DEGRADED);
}

/* Member 9 took the place of member 1, which knows nothing of it. */
static void
test_a_replaced_member_is_obsolete_even_if_forced(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 3), after = before;

	scene_begin(&scene);
	name_member(after.member_uuids[1], 9);
	int old = add_member(&scene, &before, 1, 1, EPOCH, EVENT - 5);
	add_member(&scene, &after, 0, 0, EPOCH, EVENT);
	int target = add_member(&scene, &after, 9, 1, EPOCH, EVENT);
	add_member(&scene, &after, 2, 2, EPOCH, EVENT);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	check_always(&scene);
	assert_int_equal(scene.verdict.standing[old], STANDING_OBSOLETE);
	assert_int_equal(scene.verdict.role[old], -1);
	assert_int_equal(scene.verdict.standing[target], STANDING_IN_SYNC);

	scene.input.presence[target] = scene.input.presence[3] = PRESENCE_REJECTED;
	scene.input.force = true;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.standing[old], STANDING_OBSOLETE);
	check_always(&scene);
}

/* A target that works towards a place somebody else has, or that nobody has. */
static void
test_targets_of_rebuilds_are_known_and_never_forced(void **state)
{
	static struct scene scene;
	struct superblock record = record_of(5, 3);

	track(&record, 2, 9, 1, MEMBER_REBUILDING);
	scene_begin(&scene);
	for (int role = 0; role < 3; role++)
		add_member(&scene, &record, role, role, EPOCH, EVENT);
	int target = add_member(&scene, &record, 9, 1, EPOCH, EVENT);
	assert_null(superblock_fault(&scene.superblocks[target]));
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.standing[target], STANDING_REBUILDING);
	assert_int_equal(scene.verdict.stale_set[target], 2);
	assert_int_equal(scene.verdict.role[target], 1);
	assert_int_equal(scene.verdict.standing[1], STANDING_IN_SYNC);
	check_always(&scene);

	/* member 1 gone, then member 0 too: what was never copied to the target is nobody's data */
	for (int i = 0; i <= target; i++)
		scene.superblocks[i].member_states[1] = MEMBER_FAULTY;
	scene.input.presence[1] = PRESENCE_ABSENT;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.standing[target], STANDING_REBUILDING);
	scene.input.presence[0] = PRESENCE_ABSENT;
	scene.input.force = true;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_int_equal(scene.verdict.standing[target], STANDING_REBUILDING);
	check_always(&scene);
}

static void
test_of_two_devices_that_are_one_member_no_older_one_is_believed(void **state)
{
	static struct scene scene;
	struct superblock record = record_of(5, 3);

	/* an old clone before and behind the member itself */
	for (int variant = 0; variant < 2; variant++) {
		scene_begin(&scene);
		uint64_t first = variant == 0 ? EVENT - 7 : EVENT,
			 second = variant == 1 ? EVENT - 7 : EVENT;
		add_member(&scene, &record, 1, 1, EPOCH, first);
		add_member(&scene, &record, 1, 1, EPOCH, second);
		add_member(&scene, &record, 0, 0, EPOCH, EVENT);
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
		check_always(&scene);
		int loser = variant == 0 ? 0 : 1;
		assert_int_equal(scene.verdict.standing[loser], STANDING_UNKNOWN);
		assert_non_null(strstr(scene.verdict.fault[loser], "remove this one"));
		assert_int_equal(scene.verdict.standing[!loser], STANDING_IN_SYNC);
		assert_int_equal(scene.verdict.distrusted, 0);
	}
	/* an exact one: nobody can tell, so neither is believed, and its place is nobody's */
	for (int others = 1; others < 3; others++) {
		scene_begin(&scene);
		add_member(&scene, &record, 1, 1, EPOCH, EVENT);
		add_member(&scene, &record, 1, 1, EPOCH, EVENT);
		add_member(&scene, &record, 0, 0, EPOCH, EVENT);
		if (others == 2)
			add_member(&scene, &record, 2, 2, EPOCH, EVENT);
		assert_int_equal(decide(&scene)->answer,
				 others == 2 ? ASSEMBLY_READY : ASSEMBLY_REFUSED);
		check_always(&scene);
		assert_int_equal(scene.verdict.standing[0], STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.standing[1], STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.distrusted, 1u << 1);
		if (others == 1)
			assert_non_null(strstr(scene.verdict.reason, "there twice"));
	}
	/* the same superblock but for one more write of it: that one is the member */
	scene_begin(&scene);
	add_member(&scene, &record, 1, 1, EPOCH, EVENT);
	add_member(&scene, &record, 1, 1, EPOCH, EVENT);
	add_member(&scene, &record, 0, 0, EPOCH, EVENT);
	scene.superblocks[1].write_count++;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.standing[1], STANDING_IN_SYNC);
	assert_int_equal(scene.verdict.standing[0], STANDING_UNKNOWN);
	/* the other device says another role: its UUID says what it is, and the record decides */
	scene_begin(&scene);
	add_member(&scene, &record, 0, 0, EPOCH, EVENT);
	add_member(&scene, &record, 1, 1, EPOCH, EVENT);
	add_member(&scene, &record, 2, 2, EPOCH, EVENT - 1);
	scene.superblocks[2].role = 1;
	decide(&scene);
	check_always(&scene);
	assert_int_equal(scene.verdict.standing[1], STANDING_IN_SYNC);
	assert_int_equal(scene.verdict.standing[2], STANDING_OBSOLETE);
	assert_int_equal(scene.verdict.role[2], -1);
}

/* Two of them equal, the third equal, older, or newer than both. */
static void
test_of_a_member_and_its_copies_none_is_believed_if_two_are_equal(void **state)
{
	static struct scene scene;
	const struct superblock record = record_of(5, 4);

	for (int older = 0; older <= 2; older++) {
		scene_begin(&scene);
		for (int role = 0; role < 4; role++)
			add_member(&scene, &record, role, role, EPOCH, EVENT);
		add_member(&scene, &record, 1, 1, EPOCH, EVENT - (older == 2));
		add_member(&scene, &record, 1, 1, EPOCH, EVENT - (older >= 1));
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
		check_always(&scene);
		assert_int_equal(scene.verdict.standing[1],
				 older == 2 ? STANDING_IN_SYNC : STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.standing[4], STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.standing[5], STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.distrusted, older == 2 ? 0 : 1u << 1);
	}
}

/* It can't be used, but it is there: the copy is as old as it, older, or newer, and then it is the
 * other one that is the copy.
 */
static void
test_a_copy_is_not_the_member_because_that_has_changed(void **state)
{
	static struct scene scene;
	const struct superblock record = record_of(5, 4);

	for (uint64_t writes = 4; writes <= 6; writes++) {
		int copy;

		scene_begin(&scene);
		for (int role = 0; role < 4; role++)
			add_member(&scene, &record, role, role, EPOCH, EVENT);
		copy = add_member(&scene, &record, 1, 1, EPOCH, EVENT);
		scene.input.presence[1] = PRESENCE_MISFIT;
		scene.superblocks[1].write_count = 5;
		scene.superblocks[copy].write_count = writes;
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
		check_always(&scene);
		assert_int_equal(scene.verdict.standing[1], STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.standing[copy],
				 writes == 6 ? STANDING_IN_SYNC : STANDING_UNKNOWN);
		assert_int_equal(scene.verdict.distrusted, writes == 5 ? 1u << 1 : 0);
		if (writes < 6)
			assert_non_null(
				strstr(scene.verdict.fault[copy],
				       writes == 5 ? "remove one of the two" : "remove this one"));
	}
}

static void
test_member_older_than_it_acknowledged_is_not_trusted(void **state)
{
	static struct scene scene;
	struct superblock record = record_of(5, 3);

	/* In sync by the record: one write too few of its superblock, just enough, more, and
	 * nothing known (0.1).
	 */
	for (uint64_t known = 0; known < 4; known++) {
		bool honest = known <= 2;

		record.write_counts[1] = known;
		scene_begin(&scene);
		add_member(&scene, &record, 0, 0, EPOCH, EVENT);
		add_member(&scene, &record, 1, 1, EPOCH, EVENT - 1);
		add_member(&scene, &record, 2, 2, EPOCH, EVENT);
		scene.superblocks[1].write_count = 2;
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
		check_always(&scene);
		assert_int_equal(scene.verdict.standing[1],
				 honest ? STANDING_IN_SYNC : STANDING_OBSOLETE);
		assert_int_equal(scene.verdict.went_back[1], !honest);
		assert_int_equal(scene.verdict.distrusted, honest ? 0 : 1u << 1);
		assert_int_equal(scene.verdict.role[1], 1);
	}
	/* Two of three: refused, and the reason says why; by force it is taken, all of it suspect.
	 */
	scene.superblocks[2].role = 7;
	scene.input.presence[2] = PRESENCE_ABSENT;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_REFUSED);
	assert_non_null(strstr(scene.verdict.reason, "went back in time"));
	scene.input.force = true;
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_true(scene.verdict.forced[1]);
	assert_int_equal(scene.verdict.stale_set[1], -1);
}

static void
test_a_copy_that_cannot_be_read_may_have_held_one_write_more(void **state)
{
	static struct scene scene;
	struct superblock record = record_of(5, 3), tracking, own;

	/* One more than is there, and no more; in sync and tracked; at the assembly and later. */
	for (uint64_t known = 2; known <= 4; known++)
		for (int lost = 0; lost < 2; lost++) {
			const bool honest = known <= 2u + (uint64_t)lost;

			record.write_counts[1] = known;
			tracking = record;
			tracking.member_states[1] = MEMBER_MISSING;
			track(&tracking, 0, 1, 1, MEMBER_OUT_OF_DATE);
			tracking.tracked[0].write_count = known;
			for (int tracked = 0; tracked < 2; tracked++) {
				const struct superblock *rules = tracked ? &tracking : &record;
				enum standing good =
					tracked ? STANDING_OUT_OF_DATE : STANDING_IN_SYNC;

				scene_begin(&scene);
				add_member(&scene, rules, 0, 0, EPOCH, EVENT);
				add_member(&scene, rules, 1, 1, EPOCH, EVENT - 1);
				add_member(&scene, rules, 2, 2, EPOCH, EVENT);
				scene.superblocks[1].write_count = 2;
				/* somebody else's: changes nothing */
				scene.input.copy_lost[0] = true;
				scene.input.copy_lost[1] = lost;
				decide(&scene);
				check_always(&scene);
				assert_int_equal(scene.verdict.standing[1],
						 honest ? good : STANDING_OBSOLETE);
				own = scene.superblocks[1];
				assembly_judge(rules, &own, lost, &scene.verdict);
				assert_int_equal(scene.verdict.standing[0],
						 honest ? good : STANDING_OBSOLETE);
			}
		}
	/* Two that are the same: the older may have been as new as the other, then nobody can tell.
	 */
	record.write_counts[1] = 0;
	for (uint64_t more = 1; more <= 2; more++)
		for (int lost = 0; lost < 2; lost++) {
			scene_begin(&scene);
			add_member(&scene, &record, 0, 0, EPOCH, EVENT);
			add_member(&scene, &record, 1, 1, EPOCH, EVENT);
			add_member(&scene, &record, 1, 1, EPOCH, EVENT - 1);
			scene.superblocks[1].write_count = 7 + more;
			scene.superblocks[2].write_count = 7;
			scene.input.copy_lost[2] = lost;
			decide(&scene);
			check_always(&scene);
			assert_int_equal(scene.verdict.standing[1],
					 lost && more == 1 ? STANDING_UNKNOWN : STANDING_IN_SYNC);
			assert_int_equal(scene.verdict.standing[2], STANDING_UNKNOWN);
		}
}

static void
test_force_prefers_the_newest_then_the_one_that_is_tracked(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 4), record = before;

	record.member_states[0] = record.member_states[1] = record.member_states[2] = MEMBER_FAULTY;
	track(&record, 3, 1, 1, MEMBER_OUT_OF_DATE);
	scene_begin(&scene);
	scene.input.force = true;
	add_member(&scene, &before, 0, 0, EPOCH - 1, 5);
	add_member(&scene, &before, 1, 1, EPOCH - 1, 5);
	add_member(&scene, &before, 2, 2, EPOCH - 1, 9);
	add_member(&scene, &record, 3, 3, EPOCH, EVENT);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	check_always(&scene);
	assert_false(scene.verdict.forced[0]);
	assert_true(scene.verdict.forced[1] && scene.verdict.stale_set[1] == 3);
	assert_true(scene.verdict.forced[2] && scene.verdict.stale_set[2] == -1);
}

/* Four members at epoch 6.  An assembly of 0, 1 and 2 crashes when only 0 has its record; another
 * one, of 1, 2 and 3, by a gateway that knows nothing of it, runs: both are epoch 7.
 */
static void
test_a_record_that_was_never_in_force_does_not_rule(void **state)
{
	static struct scene scene;
	struct superblock crashed = record_of(5, 4), ran = crashed;

	crashed.member_states[3] = MEMBER_MISSING;
	ran.member_states[0] = MEMBER_MISSING;
	track(&ran, 0, 0, 0, MEMBER_OUT_OF_DATE);
	for (uint64_t event = EVENT - 1; event <= EVENT + 1; event++) {
		scene_begin(&scene);
		add_member(&scene, &crashed, 0, 0, EPOCH, event);
		for (int role = 1; role < 4; role++)
			add_member(&scene, &ran, role, role, EPOCH, EVENT);
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
		check_always(&scene);
		assert_true(scene.verdict.newest != 0);
		assert_int_equal(scene.verdict.standing[0], STANDING_OUT_OF_DATE);
		assert_int_equal(scene.verdict.standing[3], STANDING_IN_SYNC);
		/* also when only one of those it relied on is there to say so */
		scene.input.presence[2] = PRESENCE_AWAITED;
		assert_int_equal(decide(&scene)->answer, ASSEMBLY_WAIT);
		assert_int_equal(scene.verdict.standing[0], STANDING_OUT_OF_DATE);
	}
}

/* The same, but member 0 was there for several starts that crashed: its epoch is higher than that
 * of the one that ran without it.  known: the write counts of the others that it had seen; they
 * have written `more` since.
 */
static void
rule_after_starts_in_vain(uint64_t known, uint64_t more, enum member_state state, bool denied)
{
	static struct scene scene;
	struct superblock crashed = record_of(5, 4), ran = crashed;

	for (int role = 0; role < 4; role++)
		crashed.write_counts[role] = known;
	ran.member_states[0] = (uint8_t)state;
	track(&ran, 0, 0, 0, MEMBER_OUT_OF_DATE);
	ran.tracked[0].epoch = EPOCH - 1;
	scene_begin(&scene);
	add_member(&scene, &crashed, 0, 0, EPOCH + 3, EVENT);
	scene.superblocks[0].write_count = known + 1;
	for (int role = 1; role < 4; role++) {
		add_member(&scene, &ran, role, role, EPOCH, EVENT + 9);
		scene.superblocks[role].write_count = known + more;
	}
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	check_always(&scene);
	assert_int_equal(scene.verdict.newest == 0, !denied);
	assert_int_equal(scene.verdict.standing[0], denied ? STANDING_OBSOLETE : STANDING_IN_SYNC);
	scene.input.presence[1] = scene.input.presence[2] = PRESENCE_ABSENT;
	assert_int_equal(decide(&scene)->newest == 0, !denied);
	/* Whatever was in its other one: where this one is later than the record of member 0, it
	 * did not take that.
	 */
	scene.input.copy_lost[3] = true;
	assert_int_equal(decide(&scene)->newest == 0, !denied);
}

static void
test_a_start_that_never_ran_does_not_rule_by_its_epoch(void **state)
{
	(void)state;
	rule_after_starts_in_vain(10, 1, MEMBER_MISSING, true);
	rule_after_starts_in_vain(10, 3, MEMBER_MISSING, true);
	/* it was replaced, or taken out, since */
	rule_after_starts_in_vain(10, 2, MEMBER_FAULTY, true);
	/* an eviction that was taken back, which these two superblocks may tell of as well */
	rule_after_starts_in_vain(10, 1, MEMBER_FAULTY, false);
	rule_after_starts_in_vain(10, 0, MEMBER_FAULTY, false);
	/* 0.1 counted nothing */
	rule_after_starts_in_vain(0, 5, MEMBER_MISSING, false);
}

/* A place was given back, and 1 alone, whose it is, had heard of it; others started in vain with 9,
 * to whom it had been given, and then 1 ran again with the rest, a moment.  Of their superblocks 9
 * knows those by which it had the place.
 */
static void
test_of_the_same_epoch_one_later_write_denies_a_record(void **state)
{
	static struct scene scene;
	struct superblock ran = record_of(5, 4), crashed = ran;

	(void)state;
	name_member(crashed.member_uuids[1], 9);
	ran.member_states[3] = crashed.member_states[3] = MEMBER_MISSING;
	ran.write_counts[0] = ran.write_counts[1] = ran.write_counts[2] = 10;
	crashed.write_counts[0] = crashed.write_counts[1] = crashed.write_counts[2] = 10;
	for (uint64_t count = 10; count <= 12; count++) {
		scene_begin(&scene);
		add_member(&scene, &crashed, 9, 1, EPOCH, EVENT + 1);
		for (int role = 0; role < 3; role++)
			scene.superblocks[add_member(&scene, &ran, role, role, EPOCH, EVENT)]
				.write_count = count;
		scene.superblocks[0].write_count = 11;
		assert_int_equal(decide(&scene)->newest != 0, count > 10);
		assert_int_equal(scene.verdict.standing[2],
				 count > 10 ? STANDING_IN_SYNC : STANDING_OBSOLETE);
		check_always(&scene);
	}
}

/* Two starts of 0 and 1 crash when only 0 has their record; 1 and 2, by a gateway that knows
 * nothing of them, run, and 1 is dead.  More writes of its superblock are known to 2 than to 0.
 */
static void
test_who_is_dead_went_on_without_a_record_that_was_never_in_force(void **state)
{
	static struct scene scene;
	struct superblock crashed = record_of(5, 3), ran = crashed;

	(void)state;
	crashed.member_states[2] = ran.member_states[0] = MEMBER_MISSING;
	track(&crashed, 0, 2, 2, MEMBER_OUT_OF_DATE);
	track(&ran, 0, 0, 0, MEMBER_OUT_OF_DATE);
	crashed.tracked[0].epoch = ran.tracked[0].epoch = EPOCH - 1;
	for (uint64_t known = 10; known <= 13; known++) {
		scene_begin(&scene);
		crashed.write_counts[0] = crashed.write_counts[1] = crashed.write_counts[2] = 10;
		ran.write_counts[1] = known;
		ran.write_counts[2] = 11;
		add_member(&scene, &crashed, 0, 0, EPOCH + 1, EVENT);
		add_member(&scene, &ran, 2, 2, EPOCH, EVENT + 2);
		scene.superblocks[0].write_count = 11;
		scene.superblocks[1].write_count = 12;
		assert_int_equal(decide(&scene)->newest, known > 10);
		assert_int_equal(scene.verdict.answer, ASSEMBLY_REFUSED);
		check_always(&scene);
		/* It is nobody's business whom it never relied on. */
		scene.superblocks[1].member_states[2] = MEMBER_MISSING;
		assert_int_equal(decide(&scene)->newest, 0);
	}
}

/* A member that has the superblock of the time when another was out, and is back where it was then.
 */
static void
test_whose_superblock_was_put_back_denies_no_record(void **state)
{
	static struct scene scene;
	struct superblock newest = record_of(5, 3), old = newest;

	(void)state;
	old.member_states[0] = MEMBER_MISSING;
	newest.write_counts[0] = newest.write_counts[1] = 30;
	for (uint64_t epoch = EPOCH - 1; epoch <= EPOCH; epoch++) {
		scene_begin(&scene);
		add_member(&scene, &newest, 0, 0, EPOCH, EVENT);
		scene.superblocks[0].write_count = 30;
		add_member(&scene, &old, 1, 1, epoch, EVENT - 4);
		scene.superblocks[1].write_count = 20;
		assert_int_equal(decide(&scene)->newest, 0);
		assert_int_equal(scene.verdict.standing[0], STANDING_IN_SYNC);
		assert_int_equal(scene.verdict.standing[1], STANDING_OBSOLETE);
		assert_true(scene.verdict.went_back[1]);
		check_always(&scene);
	}
}

/* Whose superblock was set back (restored from a copy, say) can't outvote the newest by its old
 * complaints.
 */
static void
test_a_record_of_an_older_epoch_proves_nothing(void **state)
{
	static struct scene scene;
	struct superblock newest = record_of(5, 3), old = newest;

	old.member_states[0] = MEMBER_FAULTY;
	scene_begin(&scene);
	add_member(&scene, &newest, 0, 0, EPOCH, EVENT);
	add_member(&scene, &old, 1, 1, EPOCH - 1, EVENT - 4);
	assert_int_equal(decide(&scene)->newest, 0);
	assert_int_equal(scene.verdict.standing[0], STANDING_IN_SYNC);
	check_always(&scene);
}

/* The last update of a rebuild, "the target is in sync", reached one member and the target. */
static void
test_a_torn_update_may_go_either_way_but_not_both(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 3), after = before;

	before.member_states[2] = MEMBER_FAULTY;
	track(&before, 1, 2, 2, MEMBER_REBUILDING);
	scene_begin(&scene);
	add_member(&scene, &after, 0, 0, EPOCH, EVENT);
	add_member(&scene, &before, 1, 1, EPOCH, EVENT - 1);
	add_member(&scene, &after, 2, 2, EPOCH, EVENT);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	check_always(&scene);
	/* member 0 is right about itself and has the newest record: member 1 lags */
	assert_int_equal(scene.verdict.newest, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(scene.verdict.standing[i], STANDING_IN_SYNC);
	/* the target alone has it: nobody it counts on took it */
	scene.superblocks[0] = scene.superblocks[1];
	scene.superblocks[0].role = 0;
	name_member(scene.superblocks[0].member_uuid, 0);
	assert_int_equal(decide(&scene)->answer, ASSEMBLY_READY);
	assert_int_equal(scene.verdict.newest, 0);
	assert_int_equal(scene.verdict.standing[2], STANDING_REBUILDING);
	assert_int_equal(scene.verdict.stale_set[2], 1);
}

static void
test_reasons_name_the_remedy(void **state)
{
	static struct scene scene;
	struct superblock before = record_of(5, 3), record = before;

	record.member_states[1] = MEMBER_FAULTY;
	scene_begin(&scene);
	add_member(&scene, &record, 0, 0, EPOCH, EVENT);
	add_member(&scene, &before, 1, 1, EPOCH, 3);
	assert_string_equal(
		decide(&scene)->reason,
		"1 of 3 members can be trusted, 2 are needed: start with --force to take those out "
		"of date as they stand: what was written since they left is lost");
	scene.input.presence[1] = PRESENCE_REJECTED;
	assert_string_equal(decide(&scene)->reason,
			    "1 of 3 members can be trusted, 2 are needed: bring back those that "
			    "are missing");
	scene.input.epoch_seen = UINT64_MAX;
	assert_string_equal(
		decide(&scene)->reason,
		"these members are of epoch 7, this gateway has run epoch 18446744073709551615: "
		"newer ones are missing; start with --force to lose what only they hold");
	scene.input.presence[1] = PRESENCE_AWAITED;
	assert_non_null(strstr(decide(&scene)->reason, "waiting for them"));
}

/* --- one that comes later --- */

static struct assembly_verdict
judge(const struct superblock *record, const struct superblock *own)
{
	struct assembly_verdict verdict;

	memset(&verdict, 0xa5, sizeof(verdict));
	assembly_judge(record, own, false, &verdict);
	assert_false(verdict.forced[0]);
	assert_int_equal(verdict.fault[0] == NULL, verdict.standing[0] == STANDING_IN_SYNC);
	return verdict;
}

static void
test_a_device_that_comes_later_is_judged_by_the_record(void **state)
{
	struct superblock record = record_of(5, 4), own = record;
	struct assembly_verdict verdict;

	own.role = 2;
	name_member(own.member_uuid, 2);
	assert_int_equal(judge(&record, &own).standing[0], STANDING_IN_SYNC);
	own.event--;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_IN_SYNC);
	record.member_states[2] = MEMBER_FAULTY;
	verdict = judge(&record, &own);
	assert_int_equal(verdict.standing[0], STANDING_OBSOLETE);
	assert_int_equal(verdict.role[0], 2);
	track(&record, 1, 2, 2, MEMBER_OUT_OF_DATE);
	verdict = judge(&record, &own);
	assert_int_equal(verdict.standing[0], STANDING_OUT_OF_DATE);
	assert_int_equal(verdict.stale_set[0], 1);
	record.tracked[1].state = MEMBER_REBUILDING;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_REBUILDING);
	record.tracked[1].state = MEMBER_FAULTY;
	verdict = judge(&record, &own);
	assert_int_equal(verdict.standing[0], STANDING_OUT_OF_DATE);
	assert_non_null(strstr(verdict.fault[0], "replace it"));
	own.volume_uuid[0] ^= 1;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_UNKNOWN);
}

static void
test_a_device_with_a_newer_superblock_is_not_taken_back(void **state)
{
	struct superblock record = record_of(5, 4), own = record;

	own.role = 2;
	name_member(own.member_uuid, 2);
	own.event++;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_OBSOLETE);
	own.event -= 2;
	own.epoch++;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_OBSOLETE);
	record.member_states[2] = MEMBER_FAULTY;
	track(&record, 0, 2, 2, MEMBER_OUT_OF_DATE);
	assert_int_equal(judge(&record, &own).standing[0], STANDING_OBSOLETE);
	assert_int_equal(judge(&record, &own).stale_set[0], -1);
}

/* The record counts what was acknowledged before it was written: its own write, and that of the next
 * one, come on top.  Who has more was among those that went on, and whoever the record was found on
 * went back in time since.
 */
static void
test_who_has_more_writes_of_the_same_epoch_than_one_could_have_is_not_caught_up(void **state)
{
	struct superblock record = record_of(5, 4), own = record;
	struct assembly_verdict verdict;

	own.role = 2;
	name_member(own.member_uuid, 2);
	record.epoch++;
	record.member_states[2] = MEMBER_MISSING;
	track(&record, 1, 2, 2, MEMBER_OUT_OF_DATE);
	record.tracked[1].epoch = own.epoch;
	record.tracked[1].write_count = 17;
	own.write_count = 19;
	assert_int_equal(judge(&record, &own).standing[0], STANDING_OUT_OF_DATE);
	own.write_count = 20;
	verdict = judge(&record, &own);
	assert_int_equal(verdict.standing[0], STANDING_OBSOLETE);
	assert_int_equal(verdict.stale_set[0], -1);
	record.tracked[1].write_count = 0; /* nobody counted */
	assert_int_equal(judge(&record, &own).standing[0], STANDING_OUT_OF_DATE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_every_mix_of_three_and_four_members_is_judged_as_the_rules_say),
		cmocka_unit_test(test_every_mix_of_five_members_is_judged_as_the_rules_say),
		cmocka_unit_test(test_of_every_mix_of_epochs_and_events_the_newest_rules),
		cmocka_unit_test(test_nothing_starts_while_nobody_is_there),
		cmocka_unit_test(test_a_lost_copy_may_have_been_the_record_that_gave_a_place_away),
		cmocka_unit_test(
			test_a_device_that_has_changed_may_be_the_last_who_knows_that_the_others_are_out),
		cmocka_unit_test(
			test_what_members_lack_is_not_known_where_a_device_that_has_changed_says_who_is_out),
		cmocka_unit_test(
			test_an_old_copy_of_the_device_that_has_changed_does_not_speak_for_it),
		cmocka_unit_test(
			test_a_member_that_went_back_does_not_speak_for_the_device_that_has_changed),
		cmocka_unit_test(
			test_a_device_that_has_changed_says_nothing_of_those_it_calls_in_sync),
		cmocka_unit_test(test_spares_and_further_slots_are_not_waited_for),
		cmocka_unit_test(test_a_replaced_member_is_obsolete_even_if_forced),
		cmocka_unit_test(test_targets_of_rebuilds_are_known_and_never_forced),
		cmocka_unit_test(test_of_two_devices_that_are_one_member_no_older_one_is_believed),
		cmocka_unit_test(test_of_a_member_and_its_copies_none_is_believed_if_two_are_equal),
		cmocka_unit_test(test_a_copy_is_not_the_member_because_that_has_changed),
		cmocka_unit_test(test_member_older_than_it_acknowledged_is_not_trusted),
		cmocka_unit_test(test_a_copy_that_cannot_be_read_may_have_held_one_write_more),
		cmocka_unit_test(test_force_prefers_the_newest_then_the_one_that_is_tracked),
		cmocka_unit_test(test_a_record_that_was_never_in_force_does_not_rule),
		cmocka_unit_test(test_a_start_that_never_ran_does_not_rule_by_its_epoch),
		cmocka_unit_test(test_of_the_same_epoch_one_later_write_denies_a_record),
		cmocka_unit_test(test_who_is_dead_went_on_without_a_record_that_was_never_in_force),
		cmocka_unit_test(test_whose_superblock_was_put_back_denies_no_record),
		cmocka_unit_test(test_a_record_of_an_older_epoch_proves_nothing),
		cmocka_unit_test(test_a_torn_update_may_go_either_way_but_not_both),
		cmocka_unit_test(test_reasons_name_the_remedy),
		cmocka_unit_test(test_a_device_that_comes_later_is_judged_by_the_record),
		cmocka_unit_test(test_a_device_with_a_newer_superblock_is_not_taken_back),
		cmocka_unit_test(
			test_who_has_more_writes_of_the_same_epoch_than_one_could_have_is_not_caught_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
