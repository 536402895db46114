/* test_scsi_command.c - answers of targets: good, short, lying, random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/big_endian.h"
#include "adapters/iscsi/scsi.h"

static struct scsi_request request;

static void
answer(const void *bytes, uint32_t length)
{
	/* what is beyond the answer must not matter */
	memset(request.data, 0xee, sizeof(request.data));
	memcpy(request.data, bytes, length);
	request.answer_bytes = length;
}

static void
test_capacities_that_make_no_sense_are_refused(void **state)
{
	static const uint8_t good[12] = { 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 0 };
	static const uint8_t no_power[12] = { 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 8 };
	static const uint8_t no_block[12] = { 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0 };
	static const uint8_t huge[12] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0
	};
	/* 2^63 bytes: no superblock can say that */
	static const uint8_t beyond_all[12] = { 0,    0x3f, 0xff, 0xff, 0xff, 0xff,
						0xff, 0xff, 0,	  0,	2,    0 };
	static const uint8_t largest[12] = {
		0, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0, 0, 2, 0
	};
	static const uint8_t beyond_10[8] = { 0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0 };
	struct scsi_capacity capacity;

	answer(good, 12);
	assert_true(scsi_parse_capacity_16(&request, &capacity));
	assert_int_equal(capacity.capacity_bytes, 131072 * 512);
	assert_int_equal(capacity.block_bytes, 512);
	answer(good, 11);
	assert_false(scsi_parse_capacity_16(&request, &capacity));
	answer(no_power, 12);
	assert_false(scsi_parse_capacity_16(&request, &capacity));
	answer(no_block, 12);
	assert_false(scsi_parse_capacity_16(&request, &capacity));
	answer(huge, 12);
	assert_false(scsi_parse_capacity_16(&request, &capacity));
	answer(beyond_all, 12);
	assert_false(scsi_parse_capacity_16(&request, &capacity));
	answer(largest, 12);
	assert_true(scsi_parse_capacity_16(&request, &capacity));
	answer(beyond_10, 8);
	assert_false(scsi_parse_capacity_10(&request, &capacity));
}

static void
test_a_capacity_asked_beside_the_data_counts_as_far_as_it_came(void **state)
{
	static const uint8_t cdb_16[16] = { 0x9e, 0x10, [13] = SCSI_CAPACITY_BYTES };
	static const uint8_t cdb_10[10] = { 0x25 };
	uint8_t sixteen[SCSI_CAPACITY_BYTES] = { 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 0 };
	uint8_t ten[SCSI_CAPACITY_BYTES] = { 0, 1, 0xff, 0xff, 0, 0, 2, 0 };
	struct scsi_capacity capacity;
	struct scsi_task task;

	scsi_read_capacity_task(&task, false);
	assert_memory_equal(task.cdb, cdb_16, task.cdb_size);
	assert_int_equal(task.cdb_size, 16);
	assert_int_equal(task.expxferlen, SCSI_CAPACITY_BYTES);
	assert_int_equal(task.xfer_dir, SCSI_XFER_READ);
	assert_true(scsi_parse_capacity_task(&task, false, sixteen, &capacity));
	assert_int_equal(capacity.capacity_bytes, 131072 * 512);
	task.residual_status = SCSI_RESIDUAL_UNDERFLOW;
	task.residual = SCSI_CAPACITY_BYTES - 11;
	assert_false(scsi_parse_capacity_task(&task, false, sixteen, &capacity));
	task.residual = UINT32_MAX;
	assert_false(scsi_parse_capacity_task(&task, false, sixteen, &capacity));

	scsi_read_capacity_task(&task, true);
	assert_memory_equal(task.cdb, cdb_10, task.cdb_size);
	assert_int_equal(task.expxferlen, 8);
	assert_true(scsi_parse_capacity_task(&task, true, ten, &capacity));
	assert_int_equal(capacity.capacity_bytes, 131072 * 512);
	assert_int_equal(capacity.block_bytes, 512);
	memset(ten, 0xff, 4); /* larger than it can tell */
	assert_false(scsi_parse_capacity_task(&task, true, ten, &capacity));
}

static void
test_every_sense_key_has_a_name(void **state)
{
	struct scsi_task task = {
		.sense = { .error_type = 0x70, .key = SCSI_SENSE_MEDIUM_ERROR, .ascq = 0x1100 }
	};
	char text[64];

	scsi_describe(&task, SCSI_STATUS_CHECK_CONDITION, text, sizeof(text));
	assert_string_equal(text, "check condition, MEDIUM ERROR 11/00");
	for (int key = 0; key < 16; key++) {
		task.sense.key = (enum scsi_sense_key)key;
		scsi_describe(&task, SCSI_STATUS_CHECK_CONDITION, text, sizeof(text));
		assert_null(strstr(text, "null"));
	}
}

static void
test_a_mode_answer_without_caching_page_counts_as_a_volatile_cache(void **state)
{
	static const uint8_t plain[4] = { 3, 0, 0x90, 0 };
	static const uint8_t through[20] = { 19, 0, 0x10, 0, 0x88, 0x12, 0x00 };
	static const uint8_t back[20] = { 19, 0, 0x00, 0, 0x08, 0x12, 0x04 };
	/* the page would be beyond the answer */
	static const uint8_t lying[4] = { 3, 0, 0, 0xff };
	struct scsi_mode mode;

	answer(plain, 4);
	assert_true(scsi_parse_mode(&request, &mode));
	assert_true(mode.write_protected && mode.fua && mode.write_cache);
	answer(through, 20);
	assert_true(scsi_parse_mode(&request, &mode));
	assert_true(!mode.write_protected && mode.fua && !mode.write_cache);
	answer(back, 20);
	assert_true(scsi_parse_mode(&request, &mode));
	assert_true(!mode.fua && mode.write_cache);
	answer(lying, 4);
	assert_true(scsi_parse_mode(&request, &mode));
	assert_true(mode.write_cache);
	answer(plain, 3);
	assert_false(scsi_parse_mode(&request, &mode));
	answer(back, 19); /* less than it says it is */
	assert_false(scsi_parse_mode(&request, &mode));
}

static void
test_texts_come_without_padding_and_control_characters(void **state)
{
	uint8_t inquiry[36] = { 0x05 };
	static const uint8_t serial[] = { 0, 0x80, 0, 6, ' ', 'A', '\n', '1', ' ', ' ' };
	struct scsi_identity identity;
	char text[16];

	memcpy(inquiry + 8, "IET     VIRTUAL-CDROM   0001", 28);
	answer(inquiry, 36);
	assert_true(scsi_parse_inquiry(&request, &identity));
	assert_int_equal(identity.device_type, 5);
	assert_string_equal(identity.vendor, "IET");
	assert_string_equal(identity.product, "VIRTUAL-CDROM");
	assert_string_equal(identity.revision, "0001");
	answer(inquiry, 35);
	assert_false(scsi_parse_inquiry(&request, &identity));
	answer(serial, sizeof(serial));
	assert_true(scsi_parse_serial(&request, text, sizeof(text)));
	assert_string_equal(text, "A 1");
	answer(serial, sizeof(serial) - 1);
	assert_false(scsi_parse_serial(&request, text, sizeof(text)));
	assert_string_equal(scsi_device_type_name(5), "CD or DVD drive");
}

static void
test_the_best_designator_of_the_unit_is_taken(void **state)
{
	static const uint8_t page[] = {
		0,    0x83, 0, 36,  0x02, 0x01, 0, 4, 'I', 'E', 'T', '1', /* T10 */
		0x01, 0x13, 0, 8,   1,	  2,	3, 4, 5,   6,	7,   8,	  /* NAA, but of the port */
		0x01, 0x03, 0, 8,   0x60, 1,	2, 3, 4,   5,	6,   0xff, /* NAA */
		0x01, 0x03, 0, 200, /* longer than the page */
	};
	char text[64];

	answer(page, sizeof(page));
	assert_true(scsi_parse_designator(&request, text, sizeof(text)));
	assert_string_equal(text, "naa.60010203040506ff");
	answer(page, 12); /* cut off after the first: the second would have been better */
	assert_false(scsi_parse_designator(&request, text, sizeof(text)));
}

static void
test_the_holder_of_a_reservation_is_read(void **state)
{
	static const uint8_t none[8] = { 0, 0, 0, 7, 0, 0, 0, 0 };
	static const uint8_t held[24] = { 0, 0, 0, 7, 0, 0, 0, 16, 1, 2, 3,
					  4, 5, 6, 7, 8, 0, 0, 0,  0, 0, 5 };
	struct scsi_reservation found = { .key = 1 };

	answer(none, 8);
	assert_true(scsi_parse_reservation(&request, &found));
	assert_int_equal(found.key, 0);
	answer(held, 24);
	assert_true(scsi_parse_reservation(&request, &found));
	assert_int_equal(found.key, 0x0102030405060708);
	assert_int_equal(found.type, SCSI_WRITE_EXCLUSIVE);
	answer(held, 23); /* held, but cut off: not "nobody" */
	assert_false(scsi_parse_reservation(&request, &found));
	answer((const uint8_t[8]){ [7] = 8 }, 8); /* half a holder is not nobody either */
	assert_false(scsi_parse_reservation(&request, &found));
}

/* As many keys as fit and one more are said to be there; all are ours but the last. */
static void
make_keys(uint8_t out[SCSI_ANSWER_MAX], uint32_t listed_bytes, uint8_t last)
{
	memset(out, 0, SCSI_ANSWER_MAX);
	for (uint32_t at = 15; at < SCSI_ANSWER_MAX; at += 8)
		out[at] = 7;
	for (int byte = 0; byte < 4; byte++)
		out[4 + byte] = (uint8_t)(listed_bytes >> (24 - 8 * byte));
	if (listed_bytes >= 8 && listed_bytes + 8 <= SCSI_ANSWER_MAX)
		out[listed_bytes + 7] = last;
}

static void
test_keys_that_are_registered_are_read_as_a_whole_or_not_at_all(void **state)
{
	uint8_t list[SCSI_ANSWER_MAX];
	struct scsi_keys keys;

	make_keys(list, 24, 9);
	answer(list, 32);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_true(keys.own && keys.whole);
	assert_int_equal(keys.other, 9);
	answer(list, 31); /* cut off in what may be another's key */
	assert_false(scsi_parse_keys(&request, 7, &keys));
	answer(list, 7);
	assert_false(scsi_parse_keys(&request, 7, &keys));
	make_keys(list, 24, 7);
	answer(list, 32);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_int_equal(keys.other, 0);
	make_keys(list, 24, 0); /* no key is 0 */
	answer(list, 32);
	assert_false(scsi_parse_keys(&request, 7, &keys));
	make_keys(list, 20, 0); /* half a key */
	answer(list, 32);
	assert_false(scsi_parse_keys(&request, 7, &keys));
	make_keys(list, 0, 0);
	answer(list, 8);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_false(keys.own || keys.other != 0);
}

static void
test_more_keys_than_the_answer_has_room_for_are_not_all(void **state)
{
	uint8_t list[SCSI_ANSWER_MAX];
	struct scsi_keys keys;

	make_keys(list, SCSI_ANSWER_MAX - 8, 7);
	answer(list, SCSI_ANSWER_MAX);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_true(keys.whole && keys.other == 0);
	make_keys(list, SCSI_ANSWER_MAX, 7);
	answer(list, SCSI_ANSWER_MAX);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_false(keys.whole);
	make_keys(list, UINT32_MAX, 7);
	answer(list, SCSI_ANSWER_MAX);
	assert_true(scsi_parse_keys(&request, 7, &keys));
	assert_false(keys.whole);
	answer(list, SCSI_ANSWER_MAX - 1);
	assert_false(scsi_parse_keys(&request, 7, &keys));
}

/* A registration of this key; returns its length. */
static uint32_t
put_registration(uint8_t *out, uint8_t key, const char *port)
{
	const uint32_t text_bytes = ((uint32_t)strlen(port) + 4) & ~3u;

	memset(out, 0, 28 + text_bytes);
	out[7] = key;
	out[19] = 3;
	out[23] = (uint8_t)(4 + text_bytes);
	out[24] = 0x45;
	out[27] = (uint8_t)text_bytes;
	memcpy(out + 28, port, strlen(port));
	return 28 + text_bytes;
}

static void
test_the_initiator_behind_a_key_is_read(void **state)
{
	static const char *const none[] = {
		"iqn.2026-01.x:a",		     /* no ISID */
		"iqn.2026-01.x:a,i,0x80000000000",   /* a short one, */
		"iqn.2026-01.x:a,i,0x8000000000000", /* a long one, */
		"iqn.2026-01.x:a,i,0x80000000000g",  /* and none */
		",i,0x800000000000",
		"iqn.2026-01.x:a b,i,0x800000000000",
	};
	uint8_t status[512] = { 0 };
	struct scsi_nexus nexus;
	uint32_t bytes = 8, second;

	bytes += put_registration(status + bytes, 7, "iqn.2026-01.x:ours,i,0x800000000001");
	second = bytes;
	bytes += put_registration(status + bytes, 9, "iqn.2026-01.x:a,i,0x80010203aBcd");
	answer(status, bytes);
	assert_true(scsi_parse_nexus(&request, 9, &nexus));
	assert_string_equal(nexus.initiator, "iqn.2026-01.x:a");
	assert_memory_equal(nexus.isid, ((uint8_t[]){ 0x80, 1, 2, 3, 0xab, 0xcd }), 6);
	assert_int_equal(nexus.port, 3);
	assert_false(scsi_parse_nexus(&request, 8, &nexus));
	answer(status, bytes - 1);
	assert_false(scsi_parse_nexus(&request, 9, &nexus));
	assert_true(scsi_parse_nexus(&request, 7, &nexus));
	status[second + 24] = 0x05; /* a name without ISID */
	answer(status, bytes);
	assert_false(scsi_parse_nexus(&request, 9, &nexus));
	status[8 + 20] = 0xff; /* the first is said to be longer than all that came */
	answer(status, bytes);
	assert_false(scsi_parse_nexus(&request, 9, &nexus));
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		answer(status, 8 + put_registration(status + 8, 9, none[i]));
		assert_false(scsi_parse_nexus(&request, 9, &nexus));
	}
}

static void
test_luns_beyond_the_answer_are_not_made_up(void **state)
{
	static const uint8_t list[24] = { 0, 0, 0, 16, 0, 0, 0, 0,    0,
					  1, 0, 0, 0,  0, 0, 0, 0x41, 0x00 };
	unsigned int luns[4];

	uint8_t long_list[SCSI_ANSWER_MAX] = { 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 7 };

	answer(list, 24);
	assert_int_equal(scsi_parse_luns(&request, luns, 4), 2);
	assert_int_equal(luns[0], 1);
	assert_int_equal(luns[1], 256);
	assert_int_equal(scsi_parse_luns(&request, luns, 1), 1);
	answer(list, 7);
	assert_int_equal(scsi_parse_luns(&request, luns, 4), -1);
	answer(list, 23); /* a part of the list is not the list */
	assert_int_equal(scsi_parse_luns(&request, luns, 4), -1);
	answer(long_list, SCSI_ANSWER_MAX - 1);
	assert_int_equal(scsi_parse_luns(&request, luns, 4), -1);
	answer(long_list, SCSI_ANSWER_MAX); /* all that was asked for */
	assert_int_equal(scsi_parse_luns(&request, luns, 1), 1);
	assert_int_equal(luns[0], 7);
}

static struct scsi_task
task_with(int type, int key, int ascq)
{
	return (struct scsi_task){ .sense = { .error_type = (unsigned char)type,
					      .key = (enum scsi_sense_key)key,
					      .ascq = ascq } };
}

static enum scsi_verdict
judged(int type, int key, int ascq)
{
	struct scsi_task task = task_with(type, key, ascq);

	return scsi_judge(&task, SCSI_STATUS_CHECK_CONDITION);
}

static bool
cache_lost(int type, int key, int ascq)
{
	struct scsi_task task = task_with(type, key, ascq);

	return scsi_cache_lost(&task, SCSI_STATUS_CHECK_CONDITION);
}

static void
test_a_lost_cache_is_told_by_power_on_and_by_deferred_errors(void **state)
{
	struct scsi_task old = task_with(0x71, 3, 0x0c00);

	assert_true(cache_lost(0x71, 3, 0x0c00));
	assert_true(cache_lost(0x73, 1, 0x0c01));
	assert_true(cache_lost(0x70, 6, 0x2901));
	assert_true(cache_lost(0x72, 6, 0x2904));
	assert_false(cache_lost(0x70, 6, 0x2900));
	assert_false(cache_lost(0x70, 6, 0x2903));
	assert_false(cache_lost(0x70, 6, 0x2907));
	assert_false(cache_lost(0x70, 3, 0x0c00));
	assert_false(cache_lost(0x70, 2, 0x2904));
	assert_false(cache_lost(0, 0, 0));
	assert_false(scsi_cache_lost(&old, SCSI_STATUS_GOOD));
}

static void
test_only_good_is_good(void **state)
{
	const struct scsi_task task = { 0 };

	assert_int_equal(scsi_judge(&task, SCSI_STATUS_GOOD), SCSI_OK);
	/* Of PRE-FETCH alone, which is not sent. */
	assert_int_equal(scsi_judge(&task, SCSI_STATUS_CONDITION_MET), SCSI_REFUSED);
	assert_int_equal(scsi_judge(&task, 0x10), SCSI_REFUSED);
}

static void
test_sense_data_means_what_the_gateway_must_do(void **state)
{
	assert_int_equal(judged(0x70, 6, 0x2900), SCSI_WAS_RESET);
	assert_int_equal(judged(0x70, 6, 0x2907), SCSI_ATTENTION);
	assert_int_equal(judged(0x70, 6, 0x2a09), SCSI_ATTENTION);
	assert_int_equal(judged(0x72, 6, 0x2a03), SCSI_TAKEN);
	assert_int_equal(judged(0x70, 6, 0x2a05), SCSI_TAKEN);
	assert_int_equal(judged(0x70, 2, 0x0401), SCSI_LATER);
	assert_int_equal(judged(0x70, 3, 0x1100), SCSI_MEDIUM_ERROR);
	assert_int_equal(judged(0x70, 5, 0x2000), SCSI_UNSUPPORTED);
	assert_int_equal(judged(0x70, 5, 0x2500), SCSI_NO_LUN);
	assert_int_equal(judged(0x70, 7, 0x2700), SCSI_PROTECTED);
	assert_int_equal(judged(0x70, 1, 0x1701), SCSI_OK);
	assert_int_equal(judged(0x70, 4, 0x4400), SCSI_REFUSED);
	/* deferred: an acknowledged write was lost; without sense data nothing is known */
	assert_int_equal(judged(0x71, 3, 0x0c00), SCSI_BROKEN_WORD);
	assert_int_equal(judged(0x73, 1, 0x0c00), SCSI_BROKEN_WORD);
	assert_int_equal(judged(0x70, 0, 0), SCSI_REFUSED);
	assert_int_equal(judged(0, 0, 0), SCSI_REFUSED);
}

static void
test_attentions_are_repeated_but_not_for_ever(void **state)
{
	static const enum scsi_verdict at_once[] = { SCSI_ATTENTION, SCSI_WAS_RESET, SCSI_ABORTED,
						     SCSI_TAKEN };
	static const enum scsi_verdict never[] = {
		SCSI_OK,	   SCSI_BROKEN_WORD, SCSI_UNSUPPORTED, SCSI_NO_LUN,
		SCSI_MEDIUM_ERROR, SCSI_PROTECTED,   SCSI_REFUSED,     SCSI_LOST,
	};
	int repeats = 0;

	for (size_t i = 0; i < sizeof(at_once) / sizeof(at_once[0]); i++) {
		repeats = 0;
		for (int sent = 0; sent < SCSI_REPEATS_MAX; sent++)
			assert_int_equal(scsi_again(at_once[i], SCSI_STATUS_CHECK_CONDITION,
						    &repeats),
					 SCSI_REPEAT);
		assert_int_equal(scsi_again(at_once[i], SCSI_STATUS_CHECK_CONDITION, &repeats),
				 SCSI_ANSWERED);
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		repeats = 0;
		assert_int_equal(scsi_again(never[i], SCSI_STATUS_CHECK_CONDITION, &repeats),
				 SCSI_ANSWERED);
	}
	/* A conflict that stands is an answer.  A busy target is waited for: the caller's time
	 * bounds that.
	 */
	assert_int_equal(scsi_again(SCSI_TAKEN, SCSI_STATUS_RESERVATION_CONFLICT, &repeats),
			 SCSI_ANSWERED);
	assert_int_equal(scsi_again(SCSI_LATER, SCSI_STATUS_BUSY, &repeats), SCSI_PAUSE);
	assert_int_equal(repeats, 0);
}

static void
test_random_answers_are_parsed_within_bounds(void **state)
{
	unsigned int seed = 7;

	for (int round = 0; round < 20000; round++) {
		struct scsi_capacity capacity;
		struct scsi_mode mode;
		struct scsi_identity identity;
		unsigned int luns[8];
		struct scsi_reservation held;
		struct scsi_nexus nexus;
		struct scsi_keys keys;
		uint32_t blocks;
		char text[24];

		request.answer_bytes =
			(uint32_t)rand_r(&seed) % (round % 2 ? 64 : SCSI_ANSWER_MAX + 1);
		for (uint32_t i = 0; i < request.answer_bytes; i++)
			request.data[i] = (uint8_t)(rand_r(&seed) >> 7 & (i % 3 ? 0x13 : 0xff));
		request.data[1] = (uint8_t[]){ 0x80, 0x83, 0xb0, 0 }[round % 4];
		scsi_parse_capacity_16(&request, &capacity);
		scsi_parse_capacity_10(&request, &capacity);
		scsi_parse_mode(&request, &mode);
		scsi_parse_inquiry(&request, &identity);
		scsi_parse_block_limits(&request, &blocks);
		scsi_parse_reservation(&request, &held);
		scsi_parse_keys(&request, 1, &keys);
		scsi_parse_nexus(&request, get_be64(request.data + 8), &nexus);
		assert_true(scsi_parse_luns(&request, luns, 8) <= 8);
		if (scsi_parse_serial(&request, text, sizeof(text)))
			assert_true(strlen(text) < sizeof(text));
		if (scsi_parse_designator(&request, text, sizeof(text)))
			assert_true(strlen(text) < sizeof(text));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capacities_that_make_no_sense_are_refused),
		cmocka_unit_test(test_a_capacity_asked_beside_the_data_counts_as_far_as_it_came),
		cmocka_unit_test(test_every_sense_key_has_a_name),
		cmocka_unit_test(
			test_a_mode_answer_without_caching_page_counts_as_a_volatile_cache),
		cmocka_unit_test(test_texts_come_without_padding_and_control_characters),
		cmocka_unit_test(test_the_best_designator_of_the_unit_is_taken),
		cmocka_unit_test(test_the_holder_of_a_reservation_is_read),
		cmocka_unit_test(test_keys_that_are_registered_are_read_as_a_whole_or_not_at_all),
		cmocka_unit_test(test_more_keys_than_the_answer_has_room_for_are_not_all),
		cmocka_unit_test(test_the_initiator_behind_a_key_is_read),
		cmocka_unit_test(test_luns_beyond_the_answer_are_not_made_up),
		cmocka_unit_test(test_a_lost_cache_is_told_by_power_on_and_by_deferred_errors),
		cmocka_unit_test(test_only_good_is_good),
		cmocka_unit_test(test_sense_data_means_what_the_gateway_must_do),
		cmocka_unit_test(test_attentions_are_repeated_but_not_for_ever),
		cmocka_unit_test(test_random_answers_are_parsed_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
