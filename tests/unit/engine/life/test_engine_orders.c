/* test_engine_orders.c - what an administrator orders and can't have: it is refused with the reason, and
 * nothing changes.  And what is accepted as lost, in part.
 */
#include "listed.h"

#include <stdio.h>

#include "engine/core/core.h"
#include "state/lost.h"

#define NOWHERE 7 /* a slot without a device */

static char why[256];

/* --- who is meant --- */

static void
check_all_is_as_before(struct rig *rig)
{
	assert_int_equal(rig_status(rig).state, VOLUME_ACTIVE);
	assert_int_equal(rig_status(rig).rebuild_slot, -1);
	for (int slot = 0; slot < rig->count; slot++) {
		assert_int_equal(rig_status(rig).members[slot].state, MEMBER_IN_SYNC);
		assert_string_equal(rig_status(rig).members[slot].reason, "");
	}
}

static void
test_an_order_names_a_device_that_there_is(void **state)
{
	static const int nowhere[] = { -1, NOWHERE, SLOTS_MAX, 1000 };
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 700);
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		char none[64];

		snprintf(none, sizeof(none), "there is no device %d", nowhere[i]);
		assert_int_equal(engine_detach(rig.engine, nowhere[i], why), -ENODEV);
		assert_string_equal(why, none);
		assert_int_equal(engine_fail(rig.engine, nowhere[i], why), -ENODEV);
		assert_string_equal(why, none);
		assert_int_equal(engine_readmit(rig.engine, nowhere[i], why), -ENODEV);
		assert_string_equal(why, none);
		snprintf(none, sizeof(none), "device %d is no spare of this volume", nowhere[i]);
		assert_int_equal(engine_replace(rig.engine, 0, nowhere[i], why), -EINVAL);
		assert_string_equal(why, none);
	}
	for (int role = -1; role <= 4; role += 5) {
		char text[64];

		snprintf(text, sizeof(text), "role %d: the volume has roles 0 to 3", role);
		assert_int_equal(engine_replace(rig.engine, role, 0, why), -EINVAL);
		assert_string_equal(why, text);
	}
	assert_int_equal(engine_replace(rig.engine, 0, 1, why), -EINVAL);
	assert_string_equal(why, "device 1 is no spare of this volume");
	assert_int_equal(engine_detach(rig.engine, 1, why), -EBUSY);
	assert_non_null(strstr(why, "is in sync"));
	assert_int_equal(engine_readmit(rig.engine, 1, why), -EINVAL);
	assert_non_null(strstr(why, "is in sync, not a member that was taken out"));
	rig_steps(&rig, 500);
	check_all_is_as_before(&rig);
	finish(&rig);
}

/* One device more than the volume has slots for; when one goes, there is room again. */
static void
test_a_volume_has_so_many_devices_and_no_more(void **state)
{
	static struct fake_member extra[SLOTS_MAX];
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 701);
	for (int slot = 4; slot < SLOTS_MAX; slot++) {
		fake_member_init(&extra[slot], "extra", RIG_MEMBER_BYTES, 512, &rig.schedule,
				 &rig.random);
		assert_int_equal(engine_attach(rig.engine, &extra[slot].backend, why), slot);
	}
	fake_member_init(&extra[0], "more", RIG_MEMBER_BYTES, 512, &rig.schedule, &rig.random);
	assert_int_equal(engine_attach(rig.engine, &extra[0].backend, why), -ENOSPC);
	assert_non_null(strstr(why, "devices already: remove one"));
	rig_steps(&rig, 500);
	assert_int_equal(engine_detach(rig.engine, 9, why), 0);
	rig_steps(&rig, 500);
	assert_false(rig_status(&rig).members[9].attached);
	assert_int_equal(engine_attach(rig.engine, &extra[0].backend, why), 9);
	finish(&rig);
	for (int slot = 4; slot < SLOTS_MAX; slot++)
		fake_member_free(&extra[slot]);
	fake_member_free(&extra[0]);
}

/* --- when --- */

static void
check_refused_now(struct rig *rig)
{
	const struct probe_order probe = { .slot = -1, .block_bytes = 4096, .depth = 1 };

	assert_int_equal(engine_fail(rig->engine, 1, why), -EAGAIN);
	assert_string_equal(why, "the volume is not running");
	assert_int_equal(engine_readmit(rig->engine, 1, why), -EAGAIN);
	assert_string_equal(why, "the volume is not running");
	assert_int_equal(engine_replace(rig->engine, 0, 1, why), -EAGAIN);
	assert_string_equal(why, "the volume is not running");
	assert_int_equal(engine_probe(rig->engine, &probe, NULL, NULL, why), -EAGAIN);
	assert_string_equal(why, "the volume is not running");
	*accepted_bytes() = 1;
	engine_lost_accept(rig->engine, 0, UINT64_MAX, accepted, NULL);
	assert_int_equal(*accepted_bytes(), -EAGAIN);
}

static void
test_nothing_is_ordered_of_a_volume_that_starts_or_was_taken_over(void **state)
{
	struct rig rig;

	(void)state;
	begin(&rig, 5, 4, 702);
	rig_stop(&rig);
	rig_start(&rig);
	assert_int_equal(rig_status(&rig).state, VOLUME_ASSEMBLING);
	check_refused_now(&rig);
	assert_int_equal(engine_detach(rig.engine, 1, why), -EAGAIN);
	assert_true(rig_wait(&rig, VOLUME_ACTIVE, 5000));
	check_all_is_as_before(&rig);
	for (int m = 0; m < 4; m++)
		fake_member_take(&rig.members[m]);
	rig.errors_allowed = true;
	rig_submit(&rig, REQUEST_WRITE, 0, 8, false);
	rig_drain(&rig);
	assert_true(rig_wait(&rig, VOLUME_FAILED, 5000));
	check_refused_now(&rig);
	assert_int_equal(engine_attach(rig.engine, &rig.members[4].backend, why), -EAGAIN);
	assert_string_equal(why, "the volume is stopping or was taken over");
	rig_crash(&rig);
	rig_free(&rig);
}

/* --- what is lost --- */

/* Of a chunk that is lost the first quarter is accepted, and nothing else. */
static void
test_a_part_of_what_is_lost_can_be_accepted(void **state)
{
	const uint64_t quarter = CHUNK_SECTORS / 4;
	struct rig rig;
	uint64_t row, sector, lost;

	(void)state;
	row = begin_lost_running(&rig, 703);
	sector = sector_of_row(&rig, row);
	lost = rig_status(&rig).lost_bytes;
	engine_lost_accept(rig.engine, sector * RIG_SECTOR, quarter * RIG_SECTOR, accepted, NULL);
	rig_steps(&rig, 200);
	assert_int_equal(*accepted_bytes(), CHUNK / 4);
	assert_int_equal(rig_status(&rig).lost_bytes, lost - CHUNK / 4);
	for (uint64_t i = quarter; i < CHUNK_SECTORS; i++)
		assert_int_equal(error_of_read(&rig, sector + i, 1), -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* Single sectors, none beside another, of rows that the load does not reach. */
static void
fill_table(struct engine *engine)
{
	for (uint8_t role = 1; role < 4; role++)
		for (uint64_t row = 400; row < engine->geometry.rows; row++)
			for (uint32_t at = row % 2 * RIG_SECTOR; at < CHUNK; at += 2 * RIG_SECTOR) {
				const struct lost_extent extent = {
					.row = row,
					.rows = 1,
					.column_begin = at,
					.column_end = at + RIG_SECTOR,
					.role = role,
				};

				if (lost_add(engine->lost, &extent) != 0)
					return;
			}
	fail();
}

/* Single sectors out of what is lost: what is left on both sides of each needs a place in the table, and
 * in the end there is none.  That one is told, and stays lost.
 */
static void
test_a_part_that_the_table_has_no_room_to_accept_is_told(void **state)
{
	struct lost_range range;
	struct rig rig;
	uint64_t at = 0, lost;

	(void)state;
	begin_lost_running(&rig, 704);
	fill_table(rig.engine);
	for (*accepted_bytes() = RIG_SECTOR; *accepted_bytes() == RIG_SECTOR;) {
		lost = rig_status(&rig).lost_bytes;
		assert_int_equal(engine_lost_list(rig.engine, at, &range, 1), 1);
		at = range.offset_bytes + RIG_SECTOR;
		assert_in_range(at, 0, LOAD_BYTES);
		engine_lost_accept(rig.engine, at, RIG_SECTOR, accepted, NULL);
		rig_steps(&rig, 100);
	}
	assert_int_equal(*accepted_bytes(), -ENOSPC);
	assert_int_equal(rig_status(&rig).lost_bytes, lost);
	assert_int_equal(error_of_read(&rig, at / RIG_SECTOR, 1), -ENODATA);
	accept_all(&rig); /* needs none */
	rig_steps(&rig, 2000);
	assert_int_equal(*accepted_bytes(), lost);
	assert_int_equal(rig_status(&rig).lost_bytes, 0);
	rig_stop(&rig);
	rig_free(&rig);
	fake_member_free(&rig.members[4]);
}

/* --- words --- */

/* Scripts and alerts read them: each is there, and no two are the same. */
static void
check_words(const char *(*word)(int number), int count)
{
	for (int i = 0; i < count; i++) {
		assert_string_not_equal(word(i), "?");
		assert_string_not_equal(word(i), "");
		for (int j = 0; j < i; j++)
			assert_string_not_equal(word(i), word(j));
	}
	assert_string_equal(word(count), "?");
}

static const char *
state_word(int number)
{
	return volume_state_name((enum volume_state)number);
}

static const char *
event_word(int number)
{
	return event_kind_name((enum event_kind)number);
}

static const char *
step_word(int number)
{
	return figures_step_name((enum figures_step)number);
}

static void
test_states_events_and_steps_have_words_of_their_own(void **state)
{
	(void)state;
	check_words(state_word, VOLUME_STANDBY + 1);
	check_words(event_word, EVENT_STATE_FOLDER + 1);
	check_words(step_word, STEPS);
	assert_string_equal(state_word(VOLUME_DEGRADED), "degraded");
	assert_string_equal(event_word(EVENT_DATA_LOST), "data lost");
	assert_string_equal(event_word(EVENT_LOG_OPENED), "log opened");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_order_names_a_device_that_there_is),
		cmocka_unit_test(test_a_volume_has_so_many_devices_and_no_more),
		cmocka_unit_test(test_nothing_is_ordered_of_a_volume_that_starts_or_was_taken_over),
		cmocka_unit_test(test_a_part_of_what_is_lost_can_be_accepted),
		cmocka_unit_test(test_a_part_that_the_table_has_no_room_to_accept_is_told),
		cmocka_unit_test(test_states_events_and_steps_have_words_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
