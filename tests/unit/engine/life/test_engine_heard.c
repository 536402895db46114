/* test_engine_heard.c - two gateways: who has to hear of a take-over, and what comes of that. */
#include "gateways.h"
#include "scenario.h"
#include "tap.h"

#include "engine/core/core.h"

/* --- who has to hear of a take-over --- */

/* The first gateway is started again, as it was before another one had the volume. */
static void
start_the_first(struct rig *rig, uint64_t epoch, uint32_t reached)
{
	snprintf(rig->options.owner, sizeof(rig->options.owner), "one pid 1 (rig) #1");
	rig->options.take_over_ms = 0;
	rig->epoch_recorded = epoch;
	for (int m = 0; m < rig->count; m++) {
		rig->members[m].gateway = 1;
		rig->members[m].may_take = false;
		rig->members[m].reachable = (reached >> m) & 1;
	}
	rig_start(rig);
}

/* The second copy is away for the first gateway only; then it loses its power, and its reservation. */
static void
test_who_is_counted_on_and_left_out_says_so(void **state)
{
	struct rig rig;
	uint64_t epoch;

	(void)state;
	start(&rig, 1, 2, 80);
	die_undecided(&rig);
	epoch = rig.epoch_recorded;
	rig.epoch_recorded = 0;
	take_over(&rig, 3);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_crash(&rig);
	rig.members[1].holder = 0;
	start_the_first(&rig, epoch, 2);
	assert_false(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_crash(&rig);
	rig.epoch_recorded = 0;
	take_over(&rig, 3);
	assert_true(
		rig_wait(&rig, VOLUME_ACTIVE, 20000)); /* and it is filled, as any that is out */
	finish(&rig);
}

/* A take-over has the second copy, which is not sent what the first one is. */
static void
begin_take_over(struct rig *rig, struct tap *tap, uint64_t seed)
{
	uint64_t epoch;

	begin(rig, 1, 2, seed);
	tap_init(tap, &rig->members[1]);
	run(rig);
	epoch = rig_superblock(rig, 0).epoch;
	crash(rig);
	tap->judge = tap_hold_superblocks;
	take_over(rig, 3);
	while (rig_superblock(rig, 0).epoch == epoch)
		rig_step(rig);
	assert_int_equal(rig_superblock(rig, 1).epoch, epoch);
}

static void
test_who_goes_before_it_hears_is_not_counted_on(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin_take_over(&rig, &tap, 81);
	rig.members[1].reachable = false;
	fake_member_cut(&rig.members[1], false);
	tap.judge = NULL;
	tap_drop(&tap);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "from 1 of 2 members"));
	rig.members[1].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

static void
test_a_take_over_that_died_is_begun_with_as_many(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin_take_over(&rig, &tap, 82);
	wait_ms(&rig, 50);
	tap.judge = NULL;
	tap_drop(&tap);
	rig_crash(&rig);
	assert_int_equal(rig.members[0].holder, 2);
	rig.members[1].reachable = false;
	rig.options.take_over_ms = 0;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 20000));
	assert_non_null(strstr(rig_status(&rig).reason, "from 1 of 2 members"));
	rig.members[1].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* It was missed at a start, and is told of that. */
static void
test_who_is_told_lacks_no_more_than_before(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 84);
	miss_the_second(&rig);
	rig.epoch_recorded = 0;
	take_over(&rig, 3);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_crash(&rig); /* the next start goes by what is on record of it */
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig.engine->members[1].standing, STANDING_OUT_OF_DATE);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* In between it is tried anew. */
static void
wait_until_it_says_who_has_not_heard(struct rig *rig)
{
	for (int i = 0; i < 20000; i++) {
		if (strstr(rig_status(rig).reason, "which has not heard of this start") != NULL)
			return;
		rig_step(rig);
	}
	fail();
}

static void
test_who_refuses_to_hear_keeps_a_take_over_waiting(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 83);
	die_undecided(&rig);
	rig.epoch_recorded = 0;
	rig.members[1].refuse_writes = true;
	take_over(&rig, 3);
	wait_until_it_says_who_has_not_heard(&rig);
	wait_ms(&rig, 5000);
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	rig.members[1].refuse_writes = false;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* --- what comes between --- */

static void
copy_of(struct disk *copy, const struct disk *disk)
{
	disk_init(copy, disk->bytes, disk->block_bytes);
	disk_copy(copy, disk);
}

/* Until it runs, or says that it can't. */
static enum volume_state
state_in_the_end(struct rig *rig)
{
	for (int i = 0; i < 20000 && rig_status(rig).state == VOLUME_ASSEMBLING; i++)
		rig_step(rig);
	return rig_status(rig).state;
}

static bool
runs(struct rig *rig)
{
	const enum volume_state state = state_in_the_end(rig);

	return state == VOLUME_DEGRADED || state == VOLUME_ACTIVE;
}

/* The rig has one engine: what the first gateway does meanwhile, with the second copy alone, is done
 * before; and `before` is how the second gateway finds it.
 */
static void
note_what_the_first_does(struct rig *rig, struct disk *before, struct disk *after)
{
	submit_everywhere(rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 20000));
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	rig_stop(rig);
	copy_of(after, &rig->members[1].disk);
	disk_copy(&rig->members[1].disk, before);
	rig->members[0].holder = rig->members[1].holder = 1;
	rig->epoch_recorded = 0;
	rig->epoch_tried = 0;
}

static void
both_lose_their_power(struct rig *rig, struct tap *tap)
{
	for (int m = 0; m < 2; m++)
		fake_member_power_loss(&rig->members[m], false);
	tap->judge = NULL;
	tap_drop(tap);
}

/* What was acknowledged is there, or nothing runs. */
static void
check_nothing_is_forgotten(struct rig *rig)
{
	rig->members[0].reachable = true;
	if (runs(rig))
		rig_verify(rig);
	assert_int_equal(rig->mismatches, 0);
	rig_crash(rig);
	rig_free(rig);
}

/* The second copy is out and counts, and is about to hear of the take-over. */
static void
begin_to_tell(struct rig *rig, struct tap *tap)
{
	tap->judge = tap_hold_superblocks;
	take_over(rig, 3);
	for (int i = 0; i < 20000 && tap->held_count == 0; i++)
		rig_step(rig);
	assert_true(tap->held_count > 0);
	assert_true(rig->engine->members[1].counted);
}

/* Both lose their power while it is told, and the first gateway has the second copy meanwhile. */
static void
test_nobody_is_told_in_another_session(void **state)
{
	struct rig rig;
	struct tap tap;
	struct disk before, after;
	uint64_t epoch;

	(void)state;
	begin(&rig, 1, 2, 90);
	tap_init(&tap, &rig.members[1]);
	run(&rig);
	die_undecided(&rig);
	epoch = rig.epoch_recorded;
	copy_of(&before, &rig.members[1].disk);
	start_the_first(&rig, epoch, 2);
	note_what_the_first_does(&rig, &before, &after);
	begin_to_tell(&rig, &tap);
	both_lose_their_power(&rig, &tap);
	disk_copy(&rig.members[1].disk, &after);
	rig.members[1].holder = 1;
	rig.members[1].reachable = true;
	wait_ms(&rig, 5000);
	rig.members[1].holder = 0; /* stopped */
	wait_for_link(&rig, 1, LINK_OPEN);
	wait_ms(&rig, 50);
	check_nothing_is_forgotten(&rig);
	disk_free(&before);
	disk_free(&after);
}

/* Another volume's member answers at its address, before it is sent anything. */
static void
test_another_volume_is_told_nothing(void **state)
{
	struct rig rig;
	struct superblock other;
	uint8_t was[LAYOUT_SUPERBLOCK_BYTES], is[LAYOUT_SUPERBLOCK_BYTES];

	(void)state;
	start(&rig, 1, 2, 91);
	die_undecided(&rig);
	rig.epoch_recorded = 0;
	rig.epochs_held = true;
	take_over(&rig, 3);
	for (int i = 0; i < 20000 && rig.engine->phase != PHASE_LOAD_MAP; i++)
		rig_step(&rig);
	assert_int_equal(rig.engine->members[1].untold, 2);
	other = rig_superblock(&rig, 1);
	memset(other.volume_uuid, 0x55, 16);
	memset(other.member_uuid, 0x78, 16);
	memset(other.member_uuids[1], 0x78, 16);
	fake_member_cut(&rig.members[1], true);
	for (int copy = 0; copy < 2; copy++) {
		other.write_count++;
		superblock_encode(&other, was);
		disk_write(&rig.members[1].disk, superblock_offset(other.write_count), was,
			   sizeof(was), true);
	}
	wait_ms(&rig, 1000);
	assert_int_equal(rig.engine->members[1].link, LINK_OPEN);
	rig.epochs_held = false;
	engine_epoch_recorded(rig.engine, EPOCH_MEANT, rig.engine->record.epoch, 0);
	assert_false(runs(&rig));
	disk_read(&rig.members[1].disk, superblock_offset(other.write_count), is, sizeof(is));
	assert_memory_equal(is, was, sizeof(was));
	rig_crash(&rig);
	rig_free(&rig);
}

/* The first gateway lives, and was cut off from both; the second copy is back at it first. */
static void
test_who_was_written_by_another_is_looked_at_again(void **state)
{
	struct rig rig;
	struct tap tap;
	struct disk before, after;

	(void)state;
	begin(&rig, 1, 2, 92);
	tap_init(&tap, &rig.members[1]);
	run(&rig);
	copy_of(&before, &rig.members[1].disk);
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	note_what_the_first_does(&rig, &before, &after);
	tap.judge = tap_hold_superblocks;
	take_over(&rig, 3);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	both_lose_their_power(&rig, &tap);
	wait_ms(&rig, 5000);
	disk_copy(&rig.members[1].disk, &after);
	rig.members[1].reachable = true;
	wait_for_link(&rig, 1, LINK_OPEN);
	check_nothing_is_forgotten(&rig);
	disk_free(&before);
	disk_free(&after);
}

/* A take-over tells the second copy that it is out, as the first copy has it on record: in this
 * gateway's own words.  This one lives, and has sent that copy away, but not for good yet.
 */
static void
test_who_was_told_in_our_words_is_not_taken_back(void **state)
{
	struct rig rig;
	struct superblock told;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];

	(void)state;
	start(&rig, 1, 2, 121);
	rig.errors_allowed = true; /* both are away for longer than requests wait */
	rig.epochs_held = true;
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	wait_until(&rig, is_said_faulty);
	wait_ms(&rig, 50);
	fake_member_cut(&rig.members[0], false);
	told = rig_superblock(&rig, 0);
	told.role = 1;
	memcpy(told.member_uuid, told.member_uuids[1], 16);
	told.write_count = rig_superblock(&rig, 1).write_count;
	for (int copy = 0; copy < 2; copy++) {
		told.write_count++;
		superblock_encode(&told, block);
		disk_write(&rig.members[1].disk, superblock_offset(told.write_count), block,
			   sizeof(block), true);
	}
	rig.members[1].holder = 0;
	rig.members[1].reachable = true;
	wait_ms(&rig, 2000);
	assert_false(rig.engine->members[1].in_sync);
	assert_int_equal(rig.members[1].holder, 0); /* for who takes the volume over */
	/* That one died before the first copy heard of it. */
	engine_epoch_recorded(rig.engine, EPOCH_GIVEN, rig.engine->record.epoch, 0);
	rig.epochs_held = false;
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 100000));
	finish(&rig);
}

/* The same of one whose place another device gets just now: in its superblock that one is in sync.  The
 * other device goes, so this gateway would keep the former.
 */
static void
test_who_was_told_that_its_place_is_anothers_is_not_taken_back(void **state)
{
	struct rig rig;
	struct superblock told;
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	uint64_t writes;

	(void)state;
	replace_the_last(&rig, 123);
	rig.errors_allowed = true;
	wait_until_taking(&rig);
	rig.epochs_held = true;
	wait_ms(&rig, 50);
	told = rig_superblock(&rig, 2);
	writes = rig_superblock(&rig, 0).write_count;
	told.role = 0;
	memcpy(told.member_uuid, rig_superblock(&rig, 0).member_uuid, 16);
	assert_int_equal(told.member_states[0], MEMBER_IN_SYNC);
	assert_memory_not_equal(told.member_uuids[0], told.member_uuid, 16);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (told.tracked[set].state == 0) {
			told.tracked[set] =
				(struct tracked_member){ .role = 0, .state = MEMBER_FAULTY };
			memcpy(told.tracked[set].member_uuid, told.member_uuid, 16);
			break;
		}
	fake_member_cut(&rig.members[2], false);
	fake_member_cut(&rig.members[0], false);
	for (int copy = 0; copy < 2; copy++) {
		told.write_count = ++writes;
		superblock_encode(&told, block);
		disk_write(&rig.members[0].disk, superblock_offset(told.write_count), block,
			   sizeof(block), true);
	}
	rig.members[0].holder = 0;
	rig.members[0].reachable = true;
	wait_ms(&rig, 2000);
	assert_int_equal(rig.members[0].holder, 0); /* for who takes the volume over */
	assert_false(rig.engine->members[0].checked);
	rig_crash(&rig);
	rig_free(&rig);
}

/* The first gateway is being started, has meant an epoch before, and is cut off from both before they
 * have its superblocks.  The second one takes over, in a lower epoch, and loses the second copy.
 */
static void
test_a_start_that_was_taken_over_begins_again(void **state)
{
	struct rig rig;
	struct tap taps[2];
	struct disk before[2], after;
	uint64_t epoch;

	(void)state;
	begin(&rig, 1, 2, 96);
	for (int m = 0; m < 2; m++)
		tap_init(&taps[m], &rig.members[m]);
	run(&rig);
	rig_crash(&rig);
	epoch = rig.epoch_recorded;
	for (int m = 0; m < 2; m++)
		copy_of(&before[m], &rig.members[m].disk);
	rig.epoch_recorded = rig.epoch_tried = 0;
	take_over(&rig, 3);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	wait_ms(&rig, 1000);
	fake_member_power_loss(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_drain(&rig);
	rig_crash(&rig);
	copy_of(&after, &rig.members[1].disk);
	for (int m = 0; m < 2; m++) {
		disk_copy(&rig.members[m].disk, &before[m]);
		rig.members[m].holder = 1;
		taps[m].judge = tap_hold_superblocks;
	}
	rig.epoch_tried = epoch + 64;
	start_the_first(&rig, epoch, 3);
	for (int i = 0; i < 20000 && (taps[0].held_count == 0 || taps[1].held_count == 0); i++)
		rig_step(&rig);
	for (int m = 0; m < 2; m++) {
		fake_member_cut(&rig.members[m], false);
		taps[m].judge = NULL;
		tap_drop(&taps[m]);
	}
	wait_ms(&rig, 5000);
	disk_copy(&rig.members[1].disk, &after);
	rig.members[0].holder = 2;
	rig.members[1].holder = 0;
	rig.members[1].reachable = true;
	assert_false(runs(&rig));
	rig_crash(&rig);
	rig_free(&rig);
	for (int m = 0; m < 2; m++)
		disk_free(&before[m]);
	disk_free(&after);
}

/* The first gateway takes a member back just then: that is what this one says from then on. */
static void
test_who_is_fenced_off_while_it_tells_says_so(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	begin(&rig, 1, 2, 94);
	tap_init(&tap, &rig.members[1]);
	run(&rig);
	crash(&rig);
	tap.judge = tap_hold_superblocks;
	take_over(&rig, 3);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	for (int m = 0; m < 2; m++) {
		rig.members[m].holder = 1;
		fake_member_cut(&rig.members[m], true);
	}
	for (int i = 0; i < 20000 && !rig.engine->fenced; i++)
		rig_step(&rig);
	assert_true(rig.engine->fenced);
	tap.judge = NULL;
	tap_drop(&tap);
	wait_ms(&rig, 10000);
	assert_non_null(strstr(rig_status(&rig).reason, "is reserved by another gateway"));
	rig_crash(&rig);
	rig_free(&rig);
}

/* A device that is undecided, and a copy of it (or it by a second address), are one member. */
static void
test_twins_are_not_counted_on(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 3, 97);
	die_undecided(&rig);
	rig_mark_spare(&rig, 3, RIG_MEMBER_BYTES);
	disk_copy(&rig.members[3].disk, &rig.members[1].disk);
	rig.members[3].disk.write_cache = false;
	rig.members[3].reservations = true;
	rig.members[3].holder = 1;
	rig.count = 4;
	rig.epoch_recorded = 0;
	take_over(&rig, 11); /* not the third, with which the first gateway could run */
	assert_false(runs(&rig));
	rig_crash(&rig);
	rig_free(&rig);
}

/* An old copy answers in place of the device that is undecided. */
static void
test_an_old_copy_is_not_counted_on(void **state)
{
	struct rig rig;
	struct disk old;

	(void)state;
	start(&rig, 1, 2, 99);
	copy_of(&old, &rig.members[1].disk);
	rig_stop(&rig);
	run(&rig);
	die_undecided(&rig);
	disk_copy(&rig.members[1].disk, &old);
	rig.epoch_recorded = 0;
	take_over(&rig, 3);
	assert_int_equal(state_in_the_end(&rig), VOLUME_FAILED);
	assert_non_null(strstr(rig_status(&rig).reason, "from 1 of 2 members"));
	rig_crash(&rig);
	rig_free(&rig);
	disk_free(&old);
}

/* It goes on without the device that refuses to hear of a take-over. */
static void
test_a_take_over_that_is_refused_costs_the_first_gateway_nothing(void **state)
{
	struct rig rig;
	uint64_t epoch, meant;

	(void)state;
	start(&rig, 1, 2, 98);
	die_undecided(&rig);
	epoch = rig.epoch_recorded;
	meant = rig.epoch_tried;
	rig.members[1].refuse_writes = true;
	rig.epoch_recorded = 0;
	take_over(&rig, 3);
	wait_until_it_says_who_has_not_heard(&rig);
	rig_crash(&rig);
	rig.members[0].holder = rig.members[1].holder = 0; /* power */
	rig.epoch_tried = meant;
	start_the_first(&rig, epoch, 3);
	assert_int_equal(state_in_the_end(&rig), VOLUME_DEGRADED);
	finish(&rig);
}

static enum tap_verdict
refuse_the_second(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	int *seen = tap->owner;

	if (!tap_superblock(io, block))
		return TAP_PASS;
	return ++*seen == 2 ? TAP_REFUSE : TAP_PASS;
}

/* Whose place was taken hears of it in one copy, and refuses the second. */
static void
test_what_one_is_told_of_itself_is_nobodys_record(void **state)
{
	struct rig rig;
	struct tap tap;
	int seen = 0;
	struct superblock record;

	(void)state;
	replace_the_last(&rig, 101);
	wait_until_taking(&rig);
	rig.epochs_held = true;
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	wait_ms(&rig, 200);
	rig.count = 3;
	crash(&rig);
	rig.epochs_held = false;
	tap_init(&tap, &rig.members[0]);
	tap.owner = &seen;
	tap.judge = refuse_the_second;
	take_over(&rig, 5);
	assert_true(runs(&rig));
	assert_true(seen > 2);
	wait_ms(&rig, 500);
	record = rig_superblock(&rig, 2);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		assert_true(record.tracked[set].state == 0 ||
			    memcmp(record.tracked[set].member_uuid,
				   rig_superblock(&rig, 0).member_uuid, 16) != 0);
	rig_crash(&rig);
	rig_free(&rig);
}

/* --- what is told, and what comes of it --- */

/* Of three copies the second is undecided.  Another gateway tells it of a start, in an epoch that is
 * high, for it has tried before, and dies before those in sync hear.  They lose their power.  The first
 * gateway goes on without the second copy, evicts the third, and dies.  Then all are there.
 */
static void
test_who_was_told_of_a_start_that_never_was_does_not_rule(void **state)
{
	struct rig rig;
	struct tap taps[2];
	uint64_t epoch, meant;

	(void)state;
	begin(&rig, 1, 3, 110);
	tap_init(&taps[0], &rig.members[0]);
	tap_init(&taps[1], &rig.members[2]);
	run(&rig);
	die_undecided(&rig);
	epoch = rig.epoch_recorded;
	meant = rig.epoch_tried;
	rig.epoch_recorded = 0;
	rig.epoch_tried = rig_superblock(&rig, 0).epoch + 128; /* twice before, say */
	taps[0].judge = taps[1].judge = tap_hold_superblocks;
	take_over(&rig, 7);
	for (int i = 0; i < 20000 && taps[0].held_count == 0; i++)
		rig_step(&rig);
	assert_true(taps[0].held_count > 0);
	assert_true(rig.engine->members[1].counted);
	assert_int_equal(rig.engine->members[1].untold, 0);
	for (int m = 0; m < 2; m++) {
		taps[m].judge = NULL;
		tap_drop(&taps[m]);
	}
	rig_crash(&rig);
	for (int m = 0; m < 3; m++)
		rig.members[m].holder = 0; /* power */
	rig.epoch_tried = meant;
	start_the_first(&rig, epoch, 5);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	wait_ms(&rig, 1000);
	rig.members[2].reachable = false;
	fake_member_cut(&rig.members[2], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_int_equal(rig_superblock(&rig, 0).member_states[2], MEMBER_FAULTY);
	wait_ms(&rig, 1000);
	rig_crash(&rig);
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = true;
	rig_start(&rig);
	if (runs(&rig)) {
		for (int i = 0; i < 8; i++)
			rig_verify(&rig);
	}
	assert_int_equal(rig.mismatches, 0);
	rig_crash(&rig);
	rig_free(&rig);
}

/* A gateway that takes the volume over dies when nobody is undecided any more, and is started anew at
 * once: what the first gateway heard last it may answer by still.
 */
static void
test_who_is_started_anew_in_a_take_over_waits_for_the_lease(void **state)
{
	struct rig rig;
	uint64_t began_ms;

	(void)state;
	start(&rig, 5, 3, 111);
	crash(&rig);
	take_over(&rig, 7);
	while (rig.members[0].holder != 2 || rig.members[1].holder != 2 ||
	       rig.members[2].holder != 2)
		rig_step(&rig);
	began_ms = rig.now_ms;
	for (int m = 0; m < 3; m++)
		while (strstr(rig_superblock(&rig, m).owner, "#2") == NULL ||
		       rig_superblock(&rig, m).undecided_roles != 0)
			rig_step(&rig);
	rig_crash(&rig);
	rig.options.take_over_ms = 0;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(rig.now_ms - began_ms >= LEASE_AWAITED_MS);
	finish(&rig);
}

static bool
has_other_holder_on_record(struct rig *rig)
{
	static const uint8_t none[16];

	return memcmp(rig_superblock(rig, 0).other_holder, none, 16) != 0;
}

/* GW1 dies when it has announced a device that is about to take an empty place (its own: a copy that
 * catches up).  GW2 takes over with both, and dies before it runs.  All that there is is there.
 */
static void
test_a_device_that_is_announced_is_one_device(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 112);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_drain(&rig);
	rig.members[1].reachable = true;
	for (int i = 0; i < 20000 && !has_other_holder_on_record(&rig); i++)
		rig_step(&rig);
	assert_true(has_other_holder_on_record(&rig));
	crash(&rig);
	take_over(&rig, 3);
	for (int i = 0; i < 20000 && rig_superblock(&rig, 0).undecided_roles != 1; i++)
		rig_step(&rig);
	assert_int_equal(rig_superblock(&rig, 0).undecided_roles, 1);
	assert_true(rig.engine->phase < PHASE_RUNNING);
	rig_crash(&rig);
	rig_start(&rig);
	assert_true(runs(&rig));
	finish(&rig);
}

/* The same of a spare that fills the empty place of a copy that is gone for good. */
static void
test_a_spare_that_is_announced_asks_for_nobody_else(void **state)
{
	struct rig rig;
	char why[256];

	(void)state;
	start(&rig, 1, 2, 113);
	fake_member_cut(&rig.members[1], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	rig_drain(&rig);
	rig_mark_spare(&rig, 2, RIG_MEMBER_BYTES);
	rig.members[2].disk.write_cache = false;
	rig.members[2].reservations = true;
	rig.members[2].gateway = 1;
	assert_int_equal(engine_attach(rig.engine, &rig.members[2].backend, why), 2);
	wait_for_state(&rig, 2, MEMBER_SPARE);
	assert_int_equal(engine_replace(rig.engine, 1, 2, why), 0);
	for (int i = 0; i < 20000 && !has_other_holder_on_record(&rig); i++)
		rig_step(&rig);
	assert_true(has_other_holder_on_record(&rig));
	rig.count = 3;
	crash(&rig);
	take_over(&rig, 5);
	for (int i = 0; i < 20000 && rig_superblock(&rig, 0).undecided_roles != 1; i++)
		rig_step(&rig);
	assert_int_equal(rig_superblock(&rig, 0).undecided_roles, 1);
	assert_true(rig.engine->phase < PHASE_RUNNING);
	rig_crash(&rig);
	rig_start(&rig);
	assert_true(runs(&rig));
	finish(&rig);
}

static bool
are_two_said_faulty(struct rig *rig)
{
	const struct superblock record = rig_superblock(rig, 0);

	return record.member_states[1] == MEMBER_FAULTY && record.member_states[2] == MEMBER_FAULTY;
}

/* Nobody dies in the take-over, and no power is lost: of three copies two are undecided, the one hears,
 * the other refuses to, so it is tried each second, in higher epochs, until GW2 is stopped.  GW1 goes
 * on with the first copy; the third comes back, and the first goes.  GW1 is stopped in order.
 */
static void
test_who_was_told_in_vain_does_not_rule(void **state)
{
	struct rig rig;
	uint64_t epoch, meant;

	(void)state;
	start(&rig, 1, 3, 114);
	rig.epochs_held = true;
	fake_member_cut(&rig.members[1], false);
	fake_member_cut(&rig.members[2], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	wait_until(&rig, are_two_said_faulty);
	wait_ms(&rig, 50);
	rig_crash(&rig);
	rig.epochs_held = false;
	epoch = rig.epoch_recorded;
	meant = rig.epoch_tried;
	rig.epoch_recorded = rig.epoch_tried = 0;
	rig.members[2].refuse_writes = true;
	take_over(&rig, 7);
	wait_until_it_says_who_has_not_heard(&rig);
	wait_ms(&rig, 5000);
	rig_stop(&rig); /* gives the reservations back */
	assert_int_equal(rig.members[0].holder, 0);
	rig.members[2].refuse_writes = false;
	rig.epoch_tried = meant;
	start_the_first(&rig, epoch, 5); /* it does not reach the second copy */
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	wait_for_state(&rig, 2, MEMBER_IN_SYNC);
	wait_ms(&rig, 1000);
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	rig_stop(&rig);
	assert_int_equal(rig_superblock(&rig, 2).member_states[0], MEMBER_FAULTY);
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = true;
	rig_start(&rig);
	if (runs(&rig)) {
		rig_verify(&rig);
	}
	assert_int_equal(rig.mismatches, 0);
	rig_crash(&rig);
	rig_free(&rig);
}

/* What gives the place of role 0 to another device does not arrive. */
static enum tap_verdict
hold_what_gives_the_place(struct tap *tap, const struct backend_io *io)
{
	uint8_t block[LAYOUT_SUPERBLOCK_BYTES];
	struct superblock superblock;
	const struct rig *rig = tap->owner;

	return tap_superblock(io, block) &&
			       superblock_decode(block, &superblock, NULL) == SUPERBLOCK_OK &&
			       memcmp(superblock.member_uuids[0],
				      rig_superblock(rig, 0).member_uuid, 16) != 0
		       ? TAP_HOLD
		       : TAP_PASS;
}

/* GW1 dies while a device takes the place of the first member, and the third does not know of it.
 * GW2 takes over with all but the third: the first is told that it has no place any more.  GW2 runs.
 * The first loses its power; GW1 is started again with the first and the third.
 */
static void
check_who_had_the_place(int level, int count, uint32_t two, uint32_t one, uint64_t seed)
{
	struct rig rig;
	struct tap tap;
	uint64_t epoch, meant;
	const int last = count - 1, spare = count;
	char why[256];

	begin(&rig, level, count, seed);
	tap_init(&tap, &rig.members[last]);
	tap.owner = &rig;
	run(&rig);
	rig_mark_spare(&rig, spare, RIG_MEMBER_BYTES);
	rig.members[spare].disk.write_cache = false;
	rig.members[spare].reservations = true;
	rig.members[spare].gateway = 1;
	assert_int_equal(engine_attach(rig.engine, &rig.members[spare].backend, why), spare);
	wait_for_state(&rig, spare, MEMBER_SPARE);
	tap.judge = hold_what_gives_the_place;
	assert_int_equal(engine_replace(rig.engine, 0, spare, why), 0);
	wait_until_taking(&rig);
	wait_ms(&rig, 50);
	epoch = rig.epoch_recorded;
	meant = rig.epoch_tried;
	rig.count = count + 1;
	tap.judge = NULL;
	tap_drop(&tap);
	crash(&rig);
	rig.epoch_tried = 0;
	tap.judge = tap_hold_superblocks;
	take_over(&rig, two);
	/* the last goes when the first has been told, before it hears itself */
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_true(tap.held_count > 0);
	assert_int_equal(rig.engine->members[0].untold, 0);
	rig.members[last].reachable = false;
	fake_member_power_loss(&rig.members[last], false);
	tap.judge = NULL;
	tap_drop(&tap);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	rig_crash(&rig); /* the rig has one engine; GW2 could go on as well */
	rig.members[0].holder = 0;
	assert_int_equal(rig.members[last].holder, 0);
	assert_int_equal(rig.members[1].holder, 2);
	rig.epoch_tried = meant;
	start_the_first(&rig, epoch, one);
	assert_false(runs(&rig));
	rig_crash(&rig);
	rig_free(&rig);
}

static void
test_who_was_told_that_it_has_no_place_is_none(void **state)
{
	(void)state;
	check_who_had_the_place(5, 3, 15, 1 | 4, 120);
}

static void
test_who_was_told_that_it_has_no_place_is_none_on_level_6(void **state)
{
	(void)state;
	check_who_had_the_place(6, 4, 31, 1 | 8, 121);
}

/* On levels too of which no two halves can run. */
static void
check_lease_after_restart(int level, int count, uint64_t seed)
{
	struct rig rig;
	uint64_t began_ms;

	start(&rig, level, count, seed);
	crash(&rig);
	take_over(&rig, (1u << count) - 1);
	for (int m = 0; m < count; m++)
		while (rig.members[m].holder != 2)
			rig_step(&rig);
	began_ms = rig.now_ms;
	for (int m = 0; m < count; m++)
		while (strstr(rig_superblock(&rig, m).owner, "#2") == NULL)
			rig_step(&rig);
	assert_true(rig.engine->phase < PHASE_RUNNING);
	rig_crash(&rig);
	rig.options.take_over_ms = 0;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	assert_true(rig.now_ms - began_ms >= LEASE_AWAITED_MS);
	finish(&rig);
}

static void
test_who_is_started_anew_waits_for_the_lease_on_any_level(void **state)
{
	(void)state;
	check_lease_after_restart(0, 4, 211);
	check_lease_after_restart(5, 4, 210);
	check_lease_after_restart(6, 6, 212);
}

/* The second copy goes before it hears, and the first gateway has it: that evicts the other one. */
static void
check_evicted_in_the_attempt(uint64_t seed, bool stopped, bool by_the_first, bool relogin)
{
	struct rig rig;
	struct tap tap;
	struct disk before, after;
	uint64_t epoch;

	begin(&rig, 1, 2, seed);
	tap_init(&tap, &rig.members[1]);
	run(&rig);
	copy_of(&before, &rig.members[1].disk);
	rig.members[0].reachable = false;
	fake_member_cut(&rig.members[0], false);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	wait_ms(&rig, 1000);
	if (stopped)
		rig_stop(&rig);
	else
		rig_crash(&rig);
	epoch = rig.epoch_recorded;
	copy_of(&after, &rig.members[1].disk);
	disk_copy(&rig.members[1].disk, &before);
	rig.members[0].holder = rig.members[1].holder = 1;
	rig.epoch_recorded = rig.epoch_tried = 0;
	tap.judge = tap_hold_superblocks;
	take_over(&rig, 3);
	for (int i = 0; i < 20000 && tap.held_count == 0; i++)
		rig_step(&rig);
	assert_true(tap.held_count > 0);
	rig.members[1].reachable = false;
	fake_member_power_loss(&rig.members[1], false);
	tap.judge = NULL;
	tap_drop(&tap);
	wait_ms(&rig, 10000);
	assert_int_equal(rig_superblock(&rig, 0).member_states[1], MEMBER_IN_SYNC);
	disk_copy(&rig.members[1].disk, &after);
	rig.members[1].holder = 0;
	rig.members[1].reachable = true;
	if (relogin)
		fake_member_cut(&rig.members[0], true);
	if (by_the_first) {
		rig_crash(&rig);
		rig.members[0].holder = 0; /* GW2 was stopped */
		start_the_first(&rig, epoch, 3);
	}
	wait_ms(&rig, 5000);
	if (runs(&rig))
		rig_verify(&rig);
	assert_int_equal(rig.mismatches, 0);
	rig_crash(&rig);
	rig_free(&rig);
	disk_free(&before);
	disk_free(&after);
}

static void
test_who_goes_from_a_take_over_is_not_said_to_be_out(void **state)
{
	(void)state;
	check_evicted_in_the_attempt(230, false, false, false);
	check_evicted_in_the_attempt(231, false, true, false);
	check_evicted_in_the_attempt(232, true, true, false);
	check_evicted_in_the_attempt(233, false, false, true);
}

/* Of three copies the second is undecided.  GW2's record reaches the first copy only, and GW2 dies; started
 * again it tells the second copy of what it found there, and dies.  All lose their power; GW1 goes on with
 * the third copy alone, in a lower epoch.  Then all are there.
 */
static void
test_who_was_told_of_what_never_was_in_force_does_not_rule(void **state)
{
	struct rig rig;
	struct tap taps[2];
	uint64_t epoch, meant, was;

	(void)state;
	begin(&rig, 1, 3, 240);
	tap_init(&taps[0], &rig.members[0]);
	tap_init(&taps[1], &rig.members[2]);
	run(&rig);
	die_undecided(&rig);
	epoch = rig.epoch_recorded;
	meant = rig.epoch_tried;
	was = rig_superblock(&rig, 0).epoch;
	rig.epoch_recorded = 0;
	rig.epoch_tried = was + 128; /* twice before, say */
	taps[1].judge = tap_hold_superblocks;
	take_over(&rig, 7);
	for (int i = 0; i < 20000 && rig_superblock(&rig, 0).epoch == was; i++)
		rig_step(&rig);
	wait_ms(&rig, 20);
	assert_true(rig_superblock(&rig, 0).epoch > was);
	assert_int_equal(rig_superblock(&rig, 0).member_states[2], MEMBER_IN_SYNC);
	assert_int_equal(rig_superblock(&rig, 2).epoch, was);
	tap_drop(&taps[1]);
	rig_crash(&rig);
	taps[0].judge = tap_hold_superblocks;
	rig_start(&rig);
	for (int i = 0; i < 20000 && taps[0].held_count == 0; i++)
		rig_step(&rig);
	assert_true(taps[0].held_count > 0);
	assert_true(rig_superblock(&rig, 1).epoch == rig_superblock(&rig, 0).epoch);
	assert_int_equal(rig_superblock(&rig, 2).epoch, was);
	tap_drop(&taps[0]);
	tap_drop(&taps[1]);
	rig_crash(&rig);

	taps[0].judge = taps[1].judge = NULL;
	for (int m = 0; m < 3; m++)
		rig.members[m].holder = 0; /* power */
	rig.epoch_tried = meant;
	start_the_first(&rig, epoch, 4);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	wait_ms(&rig, 1000);
	submit_everywhere(&rig, REQUEST_WRITE, 512, 300);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	wait_ms(&rig, 1000);
	rig_crash(&rig);
	for (int m = 0; m < 3; m++)
		rig.members[m].reachable = true;
	rig_start(&rig);
	if (runs(&rig))
		for (int i = 0; i < 8; i++)
			rig_verify(&rig);
	assert_int_equal(rig.mismatches, 0);
	rig_crash(&rig);
	rig_free(&rig);
}

/* A device refuses one copy of its superblock, or both, and the volume is taken over. */
static void
check_goes_on_without_who_refuses(int level, int count, uint64_t from, uint64_t to, uint64_t seed)
{
	struct rig rig;

	start(&rig, level, count, seed);
	crash(&rig);
	rig.members[1].refuse_from_bytes = from;
	rig.members[1].refuse_to_bytes = to;
	take_over(&rig, ~0u);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_verify(&rig);
	assert_int_equal(rig.mismatches, 0);
	rig.members[1].refuse_to_bytes = 0;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 200000));
	finish(&rig);
}

static void
test_a_take_over_goes_on_without_who_refuses_its_superblock(void **state)
{
	const uint64_t first = LAYOUT_SUPERBLOCK_A_OFFSET, second = LAYOUT_SUPERBLOCK_B_OFFSET;
	const uint64_t length = LAYOUT_SUPERBLOCK_BYTES;

	(void)state;
	check_goes_on_without_who_refuses(5, 4, second, second + length, 250);
	check_goes_on_without_who_refuses(6, 5, second, second + length, 251);
	check_goes_on_without_who_refuses(10, 6, second, second + length, 252);
	check_goes_on_without_who_refuses(5, 4, first, first + length, 253);
	check_goes_on_without_who_refuses(5, 4, first, second + length, 254);
	check_goes_on_without_who_refuses(6, 5, first, second + length, 255);
}

/* Of two copies both are to hear of it. */
static void
test_who_is_needed_by_a_take_over_is_not_left_out(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 256);
	crash(&rig);
	rig.members[1].refuse_writes = true;
	take_over(&rig, 3);
	for (const uint64_t until = rig.now_ms + 5000; rig.now_ms < until;) {
		rig_step(&rig);
		assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	}
	wait_until_it_says_who_has_not_heard(&rig);
	rig.members[1].refuse_writes = false;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 2000));
	finish(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_counted_on_and_left_out_says_so),
		cmocka_unit_test(test_who_goes_before_it_hears_is_not_counted_on),
		cmocka_unit_test(test_a_take_over_that_died_is_begun_with_as_many),
		cmocka_unit_test(test_who_refuses_to_hear_keeps_a_take_over_waiting),
		cmocka_unit_test(test_a_take_over_goes_on_without_who_refuses_its_superblock),
		cmocka_unit_test(test_who_is_needed_by_a_take_over_is_not_left_out),
		cmocka_unit_test(test_who_is_started_anew_waits_for_the_lease_on_any_level),
		cmocka_unit_test(test_who_goes_from_a_take_over_is_not_said_to_be_out),
		cmocka_unit_test(test_who_was_told_of_what_never_was_in_force_does_not_rule),
		cmocka_unit_test(test_who_was_told_of_a_start_that_never_was_does_not_rule),
		cmocka_unit_test(test_who_is_started_anew_in_a_take_over_waits_for_the_lease),
		cmocka_unit_test(test_a_device_that_is_announced_is_one_device),
		cmocka_unit_test(test_a_spare_that_is_announced_asks_for_nobody_else),
		cmocka_unit_test(test_who_was_told_in_vain_does_not_rule),
		cmocka_unit_test(test_who_was_told_that_it_has_no_place_is_none),
		cmocka_unit_test(test_who_was_told_that_it_has_no_place_is_none_on_level_6),
		cmocka_unit_test(test_nobody_is_told_in_another_session),
		cmocka_unit_test(test_another_volume_is_told_nothing),
		cmocka_unit_test(test_who_was_written_by_another_is_looked_at_again),
		cmocka_unit_test(test_who_was_told_in_our_words_is_not_taken_back),
		cmocka_unit_test(test_who_was_told_that_its_place_is_anothers_is_not_taken_back),
		cmocka_unit_test(test_a_start_that_was_taken_over_begins_again),
		cmocka_unit_test(test_who_is_fenced_off_while_it_tells_says_so),
		cmocka_unit_test(test_twins_are_not_counted_on),
		cmocka_unit_test(test_an_old_copy_is_not_counted_on),
		cmocka_unit_test(test_a_take_over_that_is_refused_costs_the_first_gateway_nothing),
		cmocka_unit_test(test_what_one_is_told_of_itself_is_nobodys_record),
		cmocka_unit_test(test_who_is_told_lacks_no_more_than_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
