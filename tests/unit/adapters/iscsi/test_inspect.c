/* test_inspect.c - what a LUN is asked, and what becomes of its answers: good, missing, short,
 * hostile, without end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/big_endian.h"
#include "adapters/iscsi/inspect.h"

#define LUN 3
#define SENT_MAX 1000
#define ANSWER_MAX 96

struct answer {
	int status, sense_key, ascq;
	uint32_t length;
	uint8_t data[ANSWER_MAX];
};

struct lun { /* its answers to the questions of the steps */
	struct answer answers[INSPECT_DONE];
	uint32_t asked; /* a bit for each step */
	int sent;
};

static struct scsi_request request;

static struct answer
good(const void *data, uint32_t length)
{
	struct answer answer = { .status = SCSI_STATUS_GOOD, .length = length };

	memcpy(answer.data, data, length);
	return answer;
}

static struct answer
sense(int key, int ascq)
{
	return (struct answer){
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense_key = key,
		.ascq = ascq,
	};
}

static struct answer
unknown_command(void)
{
	return sense(SCSI_SENSE_ILLEGAL_REQUEST, 0x2000);
}

static struct answer
blocks_of(uint32_t block_bytes, bool thin)
{
	uint8_t data[32] = { [7] = 99, [14] = thin ? 0xc0 : 0 };

	put_be32(data + 8, block_bytes);
	return good(data, sizeof(data));
}

static void
make_lun(struct lun *lun)
{
	/* 2^8 and 2^40 blocks */
	static const uint8_t limits[64] = { 0, 0xb0, 0, 60, [10] = 1, [38] = 1 };
	static const uint8_t mode[24] = { 23, 0, 0x10, 0, 0x08, 0x12 };

	*lun = (struct lun){
		.answers = {
			[INSPECT_SERIAL] = good("\0\x80\0\4S123", 8),
			[INSPECT_DESIGNATOR] = good("\0\x83\0\x0c\1\3\0\x08\x60\1\2\3\4\5\6\7", 16),
			[INSPECT_CAPACITY_16] = blocks_of(512, false),
			[INSPECT_CAPACITY_10] = good("\0\0\0\x63\0\0\2\0", 8),
			[INSPECT_LIMITS] = good(limits, sizeof(limits)),
			[INSPECT_PROVISIONING] = good("\0\xb2\0\4\0\x40\0\0", 8),
			[INSPECT_RESERVATIONS] = good("\0\0\0\0\0\0\0\0", 8),
			[INSPECT_MODE] = good(mode, sizeof(mode)),
		},
	};
	lun->answers[INSPECT_IDENTITY] = good("\0\0\6\2\x1f\0\0\2IET     VIRTUAL-DISK    0001", 36);
}

static void
answer_with(const struct answer *answer)
{
	struct scsi_task *task = &request.task;
	uint32_t expected = task->xfer_dir == SCSI_XFER_READ ? (uint32_t)task->expxferlen : 0;
	uint32_t came = answer->length < expected ? answer->length : expected;

	/* What is beyond the answer must not matter. */
	memset(request.data, 0xee, sizeof(request.data));
	memcpy(request.data, answer->data, came);
	task->residual_status = SCSI_RESIDUAL_UNDERFLOW;
	task->residual = expected - came;
	task->sense = (struct scsi_sense){
		.error_type = 0x70,
		.key = (enum scsi_sense_key)answer->sense_key,
		.ascq = answer->ascq,
	};
}

/* As backend/ and device/ do it, but for the time that a busy LUN is given. */
static int
inspect(struct lun *lun, bool for_a_person, struct inspection *out)
{
	inspect_start(out, LUN, for_a_person);
	lun->asked = 0;
	lun->sent = 0;
	while (out->step != INSPECT_DONE) {
		const struct answer *answer = &lun->answers[out->step];
		int repeats = 0, error;
		enum scsi_verdict verdict;

		lun->asked |= 1u << out->step;
		do {
			assert_true(++lun->sent < SENT_MAX);
			inspect_build(out, &request);
			answer_with(answer);
			verdict = scsi_judge(&request.task, answer->status);
		} while (scsi_again(verdict, answer->status, &repeats) == SCSI_REPEAT);
		error = inspect_answered(out, &request, answer->status);
		if (error != 0) {
			assert_true(out->why[0] != '\0' && out->remedy != NULL);
			return error;
		}
	}
	return 0;
}

static bool
asked(const struct lun *lun, enum inspect_step step)
{
	return lun->asked >> step & 1;
}

static void
test_io_is_told_limits_and_a_person_names(void **state)
{
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_int_equal(lun.sent, 5);
	assert_int_equal(found.device.capacity_bytes, 100 * 512);
	assert_int_equal(found.device.block_bytes, 512);
	assert_int_equal(found.device.transfer_blocks_max, 256);
	assert_int_equal(scsi_transfer_bytes_max(&found.device, 1 << 20), 256 * 512);
	assert_true(found.device.same_blocks_max == 1ull << 40);
	assert_true(found.device.writable && found.device.fua && !found.device.write_cache);
	assert_false(found.device.ten_byte_commands || found.device.thin || found.device.unmaps);
	assert_string_equal(found.device.vendor, "IET");
	assert_false(asked(&lun, INSPECT_SERIAL) || asked(&lun, INSPECT_RESERVATIONS));

	assert_int_equal(inspect(&lun, true, &found), 0);
	assert_int_equal(lun.sent, 8);
	assert_string_equal(found.device.serial, "S123");
	assert_string_equal(found.device.identity, "naa.6001020304050607");
	assert_true(found.device.reservations);
}

static void
test_space_given_back_is_asked_of_thin_devices_for_io(void **state)
{
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	lun.answers[INSPECT_CAPACITY_16] = blocks_of(4096, true);
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_true(asked(&lun, INSPECT_PROVISIONING) && found.device.unmaps);
	assert_int_equal(inspect(&lun, true, &found), 0);
	assert_false(asked(&lun, INSPECT_PROVISIONING));
	lun.answers[INSPECT_PROVISIONING].length = 5;
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_false(found.device.unmaps);
}

static void
test_what_is_no_disk_is_not_waited_for(void **state)
{
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	lun.answers[INSPECT_IDENTITY].data[0] = 5;
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_int_equal(lun.sent, 1);
	assert_int_equal(found.device.device_type, 5);
	assert_int_equal(inspect(&lun, true, &found), 0);
	assert_int_equal(lun.sent, 3);
	assert_string_equal(found.device.serial, "S123");
	assert_int_equal(found.device.block_bytes, 0);
	lun.answers[INSPECT_IDENTITY].data[0] = 0x7f;
	assert_int_equal(inspect(&lun, true, &found), -EINVAL);
	assert_string_equal(found.why, "the target has no LUN 3");
}

static void
test_old_targets_are_asked_in_ten_bytes(void **state)
{
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	lun.answers[INSPECT_CAPACITY_16] = unknown_command();
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_true(found.device.ten_byte_commands);
	assert_int_equal(found.device.capacity_bytes, 100 * 512);
	/* Larger than it can tell. */
	lun.answers[INSPECT_CAPACITY_10] = good("\xff\xff\xff\xff\0\0\2\0", 8);
	assert_int_equal(inspect(&lun, false, &found), -EINVAL);
	lun.answers[INSPECT_CAPACITY_10] = unknown_command();
	assert_int_equal(inspect(&lun, true, &found), -EINVAL);
	/* An answer that is none is no reason to ask in another way. */
	make_lun(&lun);
	lun.answers[INSPECT_CAPACITY_16].length = 11;
	assert_int_equal(inspect(&lun, true, &found), -EINVAL);
	assert_false(asked(&lun, INSPECT_CAPACITY_10));
}

static void
test_without_optional_answers_the_worst_is_assumed(void **state)
{
	static const enum inspect_step optional[] = {
		INSPECT_SERIAL,	      INSPECT_DESIGNATOR,   INSPECT_LIMITS,
		INSPECT_PROVISIONING, INSPECT_RESERVATIONS, INSPECT_MODE,
	};
	struct inspection found;
	struct lun lun;

	for (int person = 0; person < 2; person++) {
		make_lun(&lun);
		lun.answers[INSPECT_CAPACITY_16] = blocks_of(4096, true);
		for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
			lun.answers[optional[i]] = sense(SCSI_SENSE_ILLEGAL_REQUEST, 0x2400);
		assert_int_equal(inspect(&lun, person, &found), 0);
		assert_true(found.device.writable && found.device.write_cache && !found.device.fua);
		assert_false(found.device.unmaps || found.device.reservations);
		assert_int_equal(found.device.same_blocks_max, 0);
		assert_int_equal(scsi_transfer_bytes_max(&found.device, 1 << 20), 1 << 20);
		assert_true(found.device.serial[0] == '\0' && found.device.identity[0] == '\0');
	}
}

static void
test_answers_that_are_too_short_are_none(void **state)
{
	static const struct {
		enum inspect_step step;
		uint32_t length;
		const char *why;
	} cases[] = {
		{ INSPECT_IDENTITY, 35, "the answer to INQUIRY is too short" },
		{ INSPECT_CAPACITY_16, 11, "the answer to READ CAPACITY(16) is invalid" },
		{ INSPECT_RESERVATIONS, 7, "the answer to READ RESERVATION is invalid" },
		{ INSPECT_MODE, 23, "the answer to MODE SENSE is too short" },
	};
	struct inspection found;
	struct lun lun;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int nothing = 0; nothing < 2; nothing++) {
			make_lun(&lun);
			lun.answers[cases[i].step].length = nothing ? 0 : cases[i].length;
			assert_int_equal(inspect(&lun, true, &found), -EINVAL);
			assert_string_equal(found.why, cases[i].why);
			if (cases[i].step != INSPECT_RESERVATIONS)
				assert_int_equal(inspect(&lun, false, &found), -EINVAL);
		}
	}
	/* Names and limits are not vital: without them it is one without. */
	make_lun(&lun);
	lun.answers[INSPECT_SERIAL].length = lun.answers[INSPECT_DESIGNATOR].length = 7;
	lun.answers[INSPECT_LIMITS].length = 11;
	assert_int_equal(inspect(&lun, true, &found), 0);
	assert_true(found.device.serial[0] == '\0' && found.device.identity[0] == '\0');
	assert_int_equal(found.device.transfer_blocks_max, 0);
	assert_int_equal(found.device.same_blocks_max, 0);
}

static void
test_blocks_are_of_512_or_4096_bytes(void **state)
{
	static const uint32_t sizes[] = {
		0, 1, 8, 16, 256, 513, 520, 1024, 2048, 4104, 8192, 1u << 31, UINT32_MAX,
	};
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int ways = 0; ways < 4; ways++) {
			lun.answers[INSPECT_CAPACITY_16] =
				ways & 1 ? unknown_command() : blocks_of(sizes[i], false);
			put_be32(lun.answers[INSPECT_CAPACITY_10].data + 4, sizes[i]);
			assert_int_equal(inspect(&lun, ways & 2, &found), -EINVAL);
			assert_int_equal(found.device.block_bytes, 0);
			assert_false(asked(&lun, INSPECT_LIMITS));
		}
	}
	lun.answers[INSPECT_CAPACITY_16] = blocks_of(4096, false);
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_int_equal(found.device.block_bytes, 4096);
}

static void
test_huge_counts_are_bounded(void **state)
{
	struct inspection found;
	struct lun lun;

	make_lun(&lun);
	lun.answers[INSPECT_CAPACITY_16] = blocks_of(4096, false);
	memset(lun.answers[INSPECT_LIMITS].data + 4, 0xff, 60);
	assert_int_equal(inspect(&lun, false, &found), 0);
	assert_int_equal(scsi_transfer_bytes_max(&found.device, 4 << 20), 4 << 20);
	found.device.transfer_blocks_max = (1u << 20) + 1; /* 2^32 bytes and a block */
	assert_int_equal(scsi_transfer_bytes_max(&found.device, 4 << 20), 4 << 20);
	memset(lun.answers[INSPECT_CAPACITY_16].data, 0xff, 8);
	assert_int_equal(inspect(&lun, false, &found), -EINVAL);
}

static int
with_answer(int step, struct answer answer, bool for_a_person, struct inspection *found)
{
	struct lun lun;
	int error;

	make_lun(&lun);
	lun.answers[INSPECT_CAPACITY_16] =
		step == INSPECT_CAPACITY_10 ? unknown_command() : blocks_of(512, true);
	lun.answers[step] = answer;
	error = inspect(&lun, for_a_person, found);
	return asked(&lun, (enum inspect_step)step) ? error : -ENOENT;
}

static void
test_what_fails_is_told_whoever_asks(void **state)
{
	const struct answer failed[] = {
		sense(SCSI_SENSE_MEDIUM_ERROR, 0x1100),
		sense(SCSI_SENSE_HARDWARE_ERROR, 0x4400),
		sense(SCSI_SENSE_NOT_READY, 0x0401),
		sense(SCSI_SENSE_ILLEGAL_REQUEST, 0x2500),
		sense(0, 0),
		{ .status = SCSI_STATUS_BUSY },
		{ .status = 0x77 },
	};
	struct inspection found;

	for (int step = 0; step < INSPECT_DONE; step++) {
		const bool name = step == INSPECT_SERIAL || step == INSPECT_DESIGNATOR;

		for (size_t i = 0; i < sizeof(failed) / sizeof(failed[0]); i++) {
			for (int person = 0; person < 2; person++) {
				int error = with_answer(step, failed[i], person, &found);

				assert_true(error == -ENOENT || error == (name ? 0 : -EINVAL));
			}
		}
	}
}

static void
test_a_lun_in_use_is_looked_at_and_not_used(void **state)
{
	const struct answer conflict = { .status = SCSI_STATUS_RESERVATION_CONFLICT };
	static const enum inspect_step vital[] = {
		INSPECT_IDENTITY,
		INSPECT_CAPACITY_16,
		INSPECT_CAPACITY_10,
		INSPECT_LIMITS,
	};
	struct inspection found;

	for (int person = 0; person < 2; person++) {
		for (size_t i = 0; i < sizeof(vital) / sizeof(vital[0]); i++) {
			const bool size =
				vital[i] == INSPECT_CAPACITY_16 || vital[i] == INSPECT_CAPACITY_10;

			/* A person is shown what is told of it. */
			assert_int_equal(with_answer(vital[i], conflict, person, &found),
					 person && size ? 0 : -EBUSY);
			assert_int_equal(found.device.taken, person && size);
			assert_true(!found.device.taken || found.device.capacity_bytes == 0);
		}
		assert_string_equal(
			found.why, "in use by another initiator: INQUIRY of the block limits ended "
				   "with a reservation conflict");
		assert_int_equal(with_answer(INSPECT_READY, conflict, person, &found), 0);
	}
	assert_int_equal(with_answer(INSPECT_MODE, conflict, false, &found), -EBUSY);
	assert_int_equal(with_answer(INSPECT_MODE, conflict, true, &found), 0);
	assert_true(found.device.writable && found.device.write_cache);
	assert_int_equal(with_answer(INSPECT_RESERVATIONS, conflict, true, &found), 0);
	assert_false(found.device.reservations);
}

static void
test_unit_attentions_without_end_come_to_an_end(void **state)
{
	const struct answer attentions[] = {
		sense(SCSI_SENSE_UNIT_ATTENTION, 0x2a01),
		sense(SCSI_SENSE_UNIT_ATTENTION, 0x2900),
		sense(SCSI_SENSE_COMMAND_ABORTED, 0),
		{ .status = SCSI_STATUS_TASK_ABORTED },
	};
	struct inspection found;
	struct lun lun;

	for (size_t i = 0; i < sizeof(attentions) / sizeof(attentions[0]); i++) {
		for (int person = 0; person < 2; person++) {
			make_lun(&lun);
			for (int step = 0; step < INSPECT_DONE; step++)
				lun.answers[step] = attentions[i];
			assert_int_equal(inspect(&lun, person, &found), -EINVAL);
			assert_int_equal(lun.sent, 1 + SCSI_REPEATS_MAX);
			assert_string_equal(found.why,
					    "INQUIRY ends with one unit attention after another");
			assert_int_equal(with_answer(INSPECT_MODE, attentions[i], person, &found),
					 -EINVAL);
		}
	}
}

static void
test_whatever_is_answered_it_ends(void **state)
{
	static const int statuses[] = { 0, 0, 0, 0, 2, 2, 8, 0x18, 0x28, 0x40, 0x77 };
	static const int codes[] = { 0, 0x2000, 0x2500, 0x2900, 0x2a03 };
	unsigned int seed = 11;

	for (int round = 0; round < 20000; round++) {
		struct inspection found;
		struct lun lun;

		make_lun(&lun);
		for (int step = 0; step < INSPECT_DONE; step++) {
			struct answer *answer = &lun.answers[step];

			answer->status = statuses[(size_t)rand_r(&seed) % (round % 2 ? 4 : 11)];
			answer->sense_key = rand_r(&seed) % 16;
			answer->ascq = codes[rand_r(&seed) % 5];
			for (int flips = rand_r(&seed) % 4; flips > 0; flips--)
				answer->data[rand_r(&seed) % ANSWER_MAX] = (uint8_t)rand_r(&seed);
			if (rand_r(&seed) % 8 == 0)
				answer->length = (uint32_t)(rand_r(&seed) % ANSWER_MAX);
		}
		if (inspect(&lun, round & 4, &found) != 0)
			continue;
		assert_true(strlen(found.device.serial) < sizeof(found.device.serial));
		assert_true(strlen(found.device.identity) < sizeof(found.device.identity));
		if (found.device.device_type != 0)
			continue;
		if (found.device.taken) /* it was not told */
			continue;
		assert_true(found.device.block_bytes == 512 || found.device.block_bytes == 4096);
		assert_true(found.device.capacity_bytes > 0);
		assert_int_equal(found.device.capacity_bytes % found.device.block_bytes, 0);
		assert_in_range(scsi_transfer_bytes_max(&found.device, 1 << 20),
				found.device.block_bytes, 1 << 20);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_io_is_told_limits_and_a_person_names),
		cmocka_unit_test(test_space_given_back_is_asked_of_thin_devices_for_io),
		cmocka_unit_test(test_what_is_no_disk_is_not_waited_for),
		cmocka_unit_test(test_old_targets_are_asked_in_ten_bytes),
		cmocka_unit_test(test_without_optional_answers_the_worst_is_assumed),
		cmocka_unit_test(test_answers_that_are_too_short_are_none),
		cmocka_unit_test(test_blocks_are_of_512_or_4096_bytes),
		cmocka_unit_test(test_huge_counts_are_bounded),
		cmocka_unit_test(test_what_fails_is_told_whoever_asks),
		cmocka_unit_test(test_a_lun_in_use_is_looked_at_and_not_used),
		cmocka_unit_test(test_unit_attentions_without_end_come_to_an_end),
		cmocka_unit_test(test_whatever_is_answered_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
