/* test_engine_fence.c - who is believed that another gateway has the members. */
#include "scenario.h"

#include <stdio.h>

#define LOAD_BYTES (4ull << 20)

static void
start_with_grace(struct rig *rig, int level, int count, uint64_t seed, uint32_t grace_ms)
{
	rig_init(rig, level, count, 16384, LOAD_BYTES, seed);
	rig->options.grace_ms = grace_ms;
	set_caches(rig, false);
	rig->step_ms_max = 2;
	rig_start_active(rig);
	rig_wait_for_resync(rig);
}

static void
start(struct rig *rig, int level, int count, uint64_t seed)
{
	start_with_grace(rig, level, count, seed, 0);
}

static void
write_everywhere(struct rig *rig)
{
	submit_everywhere(rig, REQUEST_WRITE, 512, 300);
}

/* Not read once more: this gateway is fenced off. */
static void
stop(struct rig *rig)
{
	rig_stop(rig);
	rig_free(rig);
}

/* Requests that are under way end, and it is no member's fault. */
static void
expect_fenced(struct rig *rig)
{
	rig_drain(rig);
	assert_int_equal(rig->last_error, -ESHUTDOWN);
	assert_int_equal(rig_status(rig).state, VOLUME_FAILED);
	assert_int_equal(rig_status(rig).members[0].state, MEMBER_IN_SYNC);
}

static void
test_a_member_that_alone_speaks_of_another_gateway_is_evicted(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1901);
	rig.members[2].taken = true;
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	finish(&rig);
}

static void
test_a_gateway_that_has_taken_all_members_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1902);
	rig.errors_allowed = true;
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = true;
	/* One answers long before the others. */
	set_pace_of_all(&rig, 15000);
	set_pace(&rig, 0, 50);
	write_everywhere(&rig);
	expect_fenced(&rig);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rig_status(&rig).members[i].state, MEMBER_IN_SYNC);
		assert_null(strstr(rig_status(&rig).members[i].reason, "deny"));
	}
	stop(&rig);
}

/* A take-over comes to one member after the other.  Evicted meanwhile, the first one would lack what
 * is being written, for the gateway that has it now.
 */
static void
test_a_gateway_that_takes_one_member_after_the_other_finds_all_in_sync(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1921);
	rig.errors_allowed = true;
	rig.members[0].taken = true;
	write_everywhere(&rig);
	rig_steps(&rig, 100);
	for (int i = 1; i < 4; i++)
		rig.members[i].taken = true;
	expect_fenced(&rig);
	for (int i = 1; i < 4; i++)
		assert_int_equal(rig_superblock(&rig, i).member_states[0], MEMBER_IN_SYNC);
	stop(&rig);
}

static void
refuse_to_be_asked(struct rig *rig, int member)
{
	rig->members[member].refuse_from_bytes = LAYOUT_ASK_OFFSET;
	rig->members[member].refuse_to_bytes = LAYOUT_ASK_OFFSET + LAYOUT_ASK_BYTES;
}

/* Busy until the adapter gave up, say: that is no word on whose they are. */
static void
test_members_that_refuse_to_be_asked_deny_nothing(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1911);
	rig.errors_allowed = true;
	rig.members[0].taken = true;
	for (int i = 1; i < 4; i++)
		refuse_to_be_asked(&rig, i);
	write_everywhere(&rig);
	expect_fenced(&rig);
	stop(&rig);
}

/* The others deny it, and nobody could start without them. */
static void
test_one_member_that_refuses_to_be_asked_keeps_nobody_waiting(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1912);
	rig.members[0].taken = true;
	refuse_to_be_asked(&rig, 3);
	write_everywhere(&rig);
	rig_steps(&rig, 20);
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	rig_drain(&rig);
	finish(&rig);
}

/* It was busy for a while only. */
static void
test_a_member_that_refuses_to_be_asked_is_asked_again(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1913);
	rig.members[0].taken = true;
	for (int i = 1; i < 4; i++)
		refuse_to_be_asked(&rig, i);
	write_everywhere(&rig);
	rig_steps(&rig, 20);
	for (int i = 1; i < 4; i++)
		rig.members[i].refuse_to_bytes = 0;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_FAULTY);
	rig_drain(&rig);
	finish(&rig);
}

static void
check_that_one_member_is_believed(int level, int count, uint64_t seed)
{
	struct rig rig;

	start(&rig, level, count, seed);
	rig.errors_allowed = true;
	rig.members[1].taken = true;
	write_everywhere(&rig);
	expect_fenced(&rig);
	stop(&rig);
}

/* With one of two copies it can. */
static void
test_a_gateway_that_could_start_with_what_it_has_is_believed(void **state)
{
	(void)state;
	check_that_one_member_is_believed(1, 3, 1903);
}

/* I/O waits as for one that is silent, and nobody gives the volume up: it would be down for good by
 * one member's word.
 */
static void
check_that_one_member_is_held(struct rig *rig, int member)
{
	rig->members[member].taken = true;
	write_everywhere(rig);
	assert_true(rig_wait(rig, VOLUME_SUSPENDED, 2000));
	rig_steps(rig, 300);
	assert_int_equal(rig_status(rig).state, VOLUME_SUSPENDED);
	assert_int_not_equal(rig->active_count, 0);
	rig->members[member].taken = false;
	rig_drain(rig);
	assert_int_equal(rig->failed, 0);
	assert_int_equal(rig_status(rig).members[member].state, MEMBER_IN_SYNC);
}

static void
lose_for_long(struct rig *rig, int member)
{
	fake_member_cut(&rig->members[member], false);
	write_everywhere(rig);
	rig_drain(rig);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 2000));
}

static void
test_a_member_that_can_not_be_spared_is_asked_until_it_takes_a_write(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 0, 3, 1904);
	check_that_one_member_is_held(&rig, 1);
	finish(&rig);
	start(&rig, 5, 4, 1914);
	lose_for_long(&rig, 3);
	check_that_one_member_is_held(&rig, 1);
	finish(&rig);
}

/* Whoever took the members one by one had not come to the others when they denied it.  No request
 * meets it.
 */
static void
test_others_that_are_taken_while_one_is_held_are_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1915);
	lose_for_long(&rig, 3);
	rig.errors_allowed = true;
	rig.members[0].taken = true;
	rig_submit(&rig, REQUEST_WRITE, 0, 960, false);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).state, VOLUME_SUSPENDED);
	rig.members[1].taken = rig.members[2].taken = true;
	assert_true(rig_wait(&rig, VOLUME_FAILED, 2000));
	stop(&rig);
}

static int sessions_begun;

static enum tap_verdict
count_examinations(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	sessions_begun += io->op == BACKEND_READ && io->offset_bytes == LAYOUT_SUPERBLOCK_A_OFFSET;
	return TAP_PASS;
}

/* It takes writes again, but who was preempted is not registered any more: only a log-in does that.
 */
static void
test_a_member_that_is_held_is_logged_in_to_anew(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 0, 3, 16384, LOAD_BYTES, 1916);
	set_caches(&rig, false);
	rig.step_ms_max = 2;
	tap_init(&tap, &rig.members[1]);
	rig_start_active(&rig);
	tap.judge = count_examinations;
	sessions_begun = 0;
	rig.members[1].conflicts = true;
	write_everywhere(&rig);
	assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
	rig_steps(&rig, 300);
	rig.members[1].conflicts = false;
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_int_not_equal(sessions_begun, 0);
	finish(&rig);
}

/* Somebody had it for a moment, of all moments that in which it was asked who it is: in a session
 * that nobody looks at any more it is never asked again.
 */
static void
test_a_member_that_did_not_say_who_it_is_is_asked_in_another_session(void **state)
{
	(void)state;
	for (int starts = 0; starts < 2; starts++) {
		struct rig rig;

		start(&rig, 0, 3, 1918);
		write_everywhere(&rig);
		rig_drain(&rig);
		if (starts) {
			rig_stop(&rig);
			rig.members[1].conflicts_on_reads = true;
			rig_start(&rig);
			rig_steps(&rig, 300);
		} else {
			rig.members[1].conflicts_on_reads = true;
			fake_member_cut(&rig.members[1], true);
			assert_true(rig_wait(&rig, VOLUME_SUSPENDED, 2000));
			rig_steps(&rig, 300);
		}
		rig.members[1].conflicts_on_reads = false;
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 10000));
		finish(&rig);
	}
}

static enum tap_verdict
refuse_flushes(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_FLUSH ? TAP_REFUSE : TAP_PASS;
}

/* Once its superblocks said who is away that one would have to be filled, and could not help.  What
 * it says of flushes, which a start sends as well, is no word on whose it is.
 */
static void
test_a_volume_does_not_start_on_a_member_that_another_gateway_may_have(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	start(&rig, 5, 4, 1917);
	write_everywhere(&rig);
	rig_drain(&rig);
	wait_until(&rig, all_clean);
	rig_steps(&rig, 20); /* the maps say so */
	rig_crash(&rig);
	rig.members[0].reachable = false;
	rig.members[1].conflicts = true;
	tap_init(&tap, &rig.members[1]);
	tap.judge = refuse_flushes;
	rig_start(&rig);
	assert_false(rig_wait(&rig, VOLUME_FAILED, 4000));
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	assert_int_equal(rig_superblock(&rig, 2).member_states[0], MEMBER_IN_SYNC);
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	assert_int_equal(rig_status(&rig).members[0].state, MEMBER_IN_SYNC);
	assert_int_equal(rig_status(&rig).members[1].state, MEMBER_FAULTY);
	rig.members[1].conflicts = false;
	tap.judge = NULL;
	finish(&rig);
}

static bool maps_read;

static enum tap_verdict
note_map_read(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	maps_read |= io->op == BACKEND_READ && io->offset_bytes == LAYOUT_MAP_OFFSET;
	return TAP_PASS;
}

/* Another gateway comes while the sessions of a start are open.  They are of no use any more, also
 * when it goes again.
 */
static void
test_a_start_finds_out_who_has_the_members(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, 1919);
	set_pace_of_all(&rig, 5000);
	tap_init(&tap, &rig.members[1]);
	tap.judge = note_map_read;
	maps_read = false;
	rig_start(&rig);
	for (int step = 0; step < 2000 && !maps_read; step++)
		rig_step(&rig);
	assert_true(maps_read);
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = true;
	assert_true(rig_wait(&rig, VOLUME_FAILED, 4000));
	assert_non_null(strstr(rig_status(&rig).reason, "--take-over"));
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = false;
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* Another gateway comes between the question and the answer: then an administrator is needed, and
 * has to be told.
 */
static void
test_a_start_that_is_fenced_off_has_failed(void **state)
{
	struct rig rig;
	bool asked = false;

	(void)state;
	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, 1918);
	set_pace_of_all(&rig, 5000);
	for (int i = 0; i < 4; i++)
		rig.members[i].written = false;
	rig_start(&rig);
	for (int step = 0; step < 2000 && !asked; step++) {
		rig_step(&rig);
		asked = true;
		for (int i = 0; i < 4; i++)
			asked &= rig.members[i].written;
	}
	assert_true(asked);
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = true;
	assert_true(rig_wait(&rig, VOLUME_FAILED, 2000));
	rig_stop(&rig);
	for (int i = 0; i < 4; i++)
		rig.members[i].taken = false;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 20000));
	finish(&rig);
}

/* Its session was lost, as after a standstill, and the next log-in finds the other gateway.  With
 * one of two copies that one could live, and so could we with the other: what either acknowledged
 * would be lost.
 */
static void
test_a_member_that_refuses_a_session_for_another_gateway_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start_with_grace(&rig, 1, 2, 1906, 1000);
	rig.errors_allowed = true;
	rig.members[0].taken = true;
	fake_member_cut(&rig.members[0], true);
	write_everywhere(&rig);
	expect_fenced(&rig);
	stop(&rig);
}

/* It was evicted for its silence, without another log-in. */
static void
test_another_gateway_that_may_live_on_a_member_that_left_is_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 1, 2, 1909);
	rig.members[0].taken = true;
	fake_member_cut(&rig.members[0], false);
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[0].reachable = true;
	assert_true(rig_wait(&rig, VOLUME_FAILED, 8000));
	stop(&rig);
}

/* Of four it has one, and needs three. */
static void
test_another_gateway_that_can_not_live_on_what_it_has_is_none(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1910);
	rig.members[0].taken = true;
	fake_member_cut(&rig.members[0], false);
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 2000));
	rig.members[0].reachable = true;
	assert_false(rig_wait(&rig, VOLUME_FAILED, 8000));
	rig_verify(&rig);
	stop(&rig);
}

/* All sessions are lost, and none comes again: that is no silence, to be waited out. */
static void
test_all_members_that_refuse_sessions_are_believed(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1907);
	rig.errors_allowed = true;
	for (int i = 0; i < 4; i++) {
		rig.members[i].taken = true;
		fake_member_cut(&rig.members[i], true);
	}
	write_everywhere(&rig);
	expect_fenced(&rig);
	stop(&rig);
}

static void
test_a_member_that_alone_refuses_a_session_is_evicted(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1908);
	rig.members[2].taken = true;
	fake_member_cut(&rig.members[2], true);
	write_everywhere(&rig);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 4000));
	rig_verify(&rig);
	stop(&rig);
}

/* While the others are asked nothing is acknowledged that it has a part in. */
static void
test_writes_wait_while_the_others_are_asked(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig, 5, 4, 1905);
	submit_everywhere(&rig, REQUEST_WRITE, 1024, 1024);
	rig_drain(&rig);
	rig.members[2].taken = true;
	set_deadline_of_all(&rig, 10000000);
	set_pace(&rig, 0, 400000);
	rig_submit(&rig, REQUEST_WRITE, 0, 960, false); /* whole rows */
	rig_steps(&rig, 200);
	assert_int_equal(rig.active_count, 1);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_IN_SYNC);
	rig_drain(&rig);
	assert_int_equal(rig_status(&rig).members[2].state, MEMBER_FAULTY);
	finish(&rig);
}

static enum tap_verdict
hold_data(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	return io->op == BACKEND_WRITE && io->offset_bytes >= (4u << 20) ? TAP_HOLD : TAP_PASS;
}

/* What the last request that ended was answered. */
static int
refuse_after_the_fence(uint64_t seed)
{
	struct rig rig;
	struct tap tap;

	rig_init(&rig, 5, 4, 16384, LOAD_BYTES, seed);
	rig.step_ms_max = 2;
	tap_init(&tap, &rig.members[3]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	rig.errors_allowed = true;
	tap.judge = hold_data;
	write_everywhere(&rig);
	rig_steps(&rig, 20);
	assert_int_not_equal(tap.held_count, 0);
	for (int i = 0; i < 3; i++)
		rig.members[i].taken = true;
	for (int i = 0; i < 2000 && rig_status(&rig).state != VOLUME_FAILED; i++) {
		rig_submit(&rig, REQUEST_WRITE, 0, rig.sectors / 4, false);
		rig_step(&rig);
	}
	assert_int_equal(rig_status(&rig).state, VOLUME_FAILED);
	tap.judge = NULL;
	rig.members[3].refuse_writes = true;
	tap_let_go(&tap);
	rig_drain(&rig);
	stop(&rig);
	return rig.last_error;
}

/* Once this gateway has stopped writing, nobody is evicted: what a member refuses then must not
 * wait for that.  Some are told of the refusal itself, by whose answer comes last.
 */
static void
test_a_write_that_is_refused_after_the_fence_ends(void **state)
{
	int shut_down = 0;

	(void)state;
	for (uint64_t seed = 1909; seed < 1909 + rig_lives(8); seed++) {
		const int error = refuse_after_the_fence(seed);

		assert_true(error == -ESHUTDOWN || error == -EIO);
		shut_down += error == -ESHUTDOWN;
	}
	assert_int_not_equal(shut_down, 0);
}

/* Of member 1 the copy of the superblock is left that an orderly stop wrote; the one that names
 * gateway one, which was started since, can't be read.  Member 0 is away.
 */
static void
begin_with_lost_owner(struct rig *rig)
{
	uint8_t stopped[LAYOUT_SUPERBLOCK_BYTES];
	uint64_t count;

	rig_init(rig, 1, 2, 16384, LOAD_BYTES, 1460);
	snprintf(rig->options.owner, sizeof(rig->options.owner), "one pid 1 (rig) #1");
	rig_start_active(rig);
	rig_stop(rig);
	count = rig_superblock(rig, 1).write_count;
	disk_read(&rig->members[1].disk, superblock_offset(count), stopped, sizeof(stopped));
	rig_start_active(rig);
	rig_crash(rig);
	disk_write(&rig->members[1].disk, superblock_offset(count), stopped, sizeof(stopped), true);
	disk_damage(&rig->members[1].disk, superblock_offset(count + 1));
	rig->members[0].reachable = false;
	rig->members[1].written = false;
}

static void
test_volume_whose_owner_can_not_be_read_is_refused(void **state)
{
	struct rig rig;

	begin_with_lost_owner(&rig);
	snprintf(rig.options.owner, sizeof(rig.options.owner), "two pid 1 (rig) #2");
	rig.epoch_recorded = 0; /* it never ran the volume */
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 5000));
	assert_non_null(strstr(rig_status(&rig).reason, "--take-over"));
	rig_stop(&rig);
	assert_false(rig.members[1].written);
	/* The other copy may have been started since, too. */
	rig.options.take_over_ms = 20000;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 5000));
	assert_non_null(strstr(rig_status(&rig).reason, "2 are needed"));
	rig_stop(&rig);
	rig.options.force_ms = 20000;
	rig_start(&rig);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
	stop(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_volume_whose_owner_can_not_be_read_is_refused),
		cmocka_unit_test(test_a_member_that_alone_speaks_of_another_gateway_is_evicted),
		cmocka_unit_test(test_a_gateway_that_has_taken_all_members_is_believed),
		cmocka_unit_test(
			test_a_gateway_that_takes_one_member_after_the_other_finds_all_in_sync),
		cmocka_unit_test(test_a_gateway_that_could_start_with_what_it_has_is_believed),
		cmocka_unit_test(
			test_a_member_that_can_not_be_spared_is_asked_until_it_takes_a_write),
		cmocka_unit_test(test_others_that_are_taken_while_one_is_held_are_believed),
		cmocka_unit_test(test_a_member_that_is_held_is_logged_in_to_anew),
		cmocka_unit_test(
			test_a_member_that_did_not_say_who_it_is_is_asked_in_another_session),
		cmocka_unit_test(
			test_a_volume_does_not_start_on_a_member_that_another_gateway_may_have),
		cmocka_unit_test(test_a_start_finds_out_who_has_the_members),
		cmocka_unit_test(test_a_start_that_is_fenced_off_has_failed),
		cmocka_unit_test(test_members_that_refuse_to_be_asked_deny_nothing),
		cmocka_unit_test(test_one_member_that_refuses_to_be_asked_keeps_nobody_waiting),
		cmocka_unit_test(test_a_member_that_refuses_to_be_asked_is_asked_again),
		cmocka_unit_test(
			test_a_member_that_refuses_a_session_for_another_gateway_is_believed),
		cmocka_unit_test(test_all_members_that_refuse_sessions_are_believed),
		cmocka_unit_test(
			test_another_gateway_that_may_live_on_a_member_that_left_is_believed),
		cmocka_unit_test(test_another_gateway_that_can_not_live_on_what_it_has_is_none),
		cmocka_unit_test(test_a_member_that_alone_refuses_a_session_is_evicted),
		cmocka_unit_test(test_writes_wait_while_the_others_are_asked),
		cmocka_unit_test(test_a_write_that_is_refused_after_the_fence_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
