/* MODE SELECT: accepted when it asks for what is so already, refused as a whole otherwise.  Offsets
 * are those of SPC-4 and SBC-3, written down here a second time on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "adapters/lun/commands.h"

#define PF 0x10
#define SP 0x01

static const struct scsi_unit unit = {
	.level = 5,
	.blocks = 0x12345678,
	.block_bytes = 512,
	.transfer_blocks_max = 8192,
};

static uint8_t list[1024];

/* ASC of the refusal, 0 if it succeeded.  sent: bytes that come with it. */
static uint16_t
select_sent(bool ten, uint8_t flags, size_t length, size_t sent)
{
	struct scsi_job *job = calloc(1, sizeof(*job));
	uint8_t *data = malloc(sent + 1);
	struct iovec iov = { data, sent };
	struct scsi_outcome outcome;

	memcpy(data, list, sent);
	job->unit = &unit;
	job->iov = &iov;
	job->iov_count = 1;
	job->cdb[0] = ten ? 0x55 : 0x15;
	job->cdb[1] = flags;
	if (ten) {
		job->cdb[7] = (uint8_t)(length >> 8);
		job->cdb[8] = (uint8_t)length;
	} else {
		job->cdb[4] = (uint8_t)length;
	}
	assert_false(scsi_job_begin(job)); /* it asks nothing of the volume */
	outcome = job->outcome;
	scsi_job_free(job);
	free(job);
	free(data);
	if (outcome.status == STATUS_GOOD)
		return 0;
	assert_int_equal(outcome.status, STATUS_CHECK_CONDITION);
	assert_int_equal(outcome.key, 5);
	return outcome.asc;
}

static uint16_t
mode_select(bool ten, size_t length)
{
	return select_sent(ten, PF, length, length);
}

/* What MODE SENSE says of a page (3Fh: of all), as the list of a MODE SELECT; its length. */
static size_t
sensed(bool ten, uint8_t page)
{
	const uint8_t six_cdb[16] = { 0x1a, 0x08, page, 0, 255 };
	const uint8_t ten_cdb[16] = { 0x5a, 0x08, page, 0, 0, 0, 0, 0, 255 };
	struct lun_answer answer;

	scsi_emulate(&unit, ten ? ten_cdb : six_cdb, 255, &answer);
	assert_int_equal(answer.verdict, LUN_GOOD);
	memcpy(list, answer.data, answer.length);
	return answer.length;
}

static void
test_what_was_read_can_be_written_back(void **state)
{
	static const uint8_t pages[] = { 0x01, 0x08, 0x0a, 0x1c, 0x3f };

	for (int ten = 0; ten < 2; ten++)
		for (size_t i = 0; i < sizeof(pages); i++) {
			const size_t length = sensed(ten, pages[i]);

			assert_int_equal(mode_select(ten, length), 0);
			memset(list, 0, ten ? 2 : 1); /* mode data length is reserved */
			list[ten ? 8 : 4] |= 0x80;    /* PS */
			assert_int_equal(mode_select(ten, length), 0);
		}
	assert_int_equal(mode_select(false, 0), 0);
	assert_int_equal(mode_select(true, 0), 0);
	memset(list, 0, 8);
	assert_int_equal(mode_select(false, 4), 0); /* a header alone */
	assert_int_equal(mode_select(true, 8), 0);
}

static void
test_every_bit_that_differs_is_refused(void **state)
{
	for (int ten = 0; ten < 2; ten++) {
		const size_t length = sensed(ten, 0x3f), head = ten ? 8 : 4;

		for (size_t bit = 8 * head; bit < 8 * length; bit++) {
			uint16_t asc;

			sensed(ten, 0x3f);
			list[bit / 8] ^= (uint8_t)(1 << bit % 8);
			asc = mode_select(ten, length);
			if (bit % 8 == 7 && asc == 0) { /* PS */
				assert_true((list[bit / 8] & 0x7f) == 0x01 ||
					    (list[bit / 8] & 0x7f) == 0x08 ||
					    (list[bit / 8] & 0x7f) == 0x0a ||
					    (list[bit / 8] & 0x7f) == 0x1c);
				continue;
			}
			assert_true(asc == 0x2600 || asc == 0x1a00);
		}
	}
	sensed(false, 0x08);
	list[6] &= (uint8_t)~0x04; /* WCE off */
	assert_int_equal(mode_select(false, 24), 0x2600);
	sensed(false, 0x0a);
	list[8] |= 0x08; /* SWP: write protection */
	assert_int_equal(mode_select(false, 16), 0x2600);
}

static void
test_lists_that_are_cut_or_too_long_are_refused(void **state)
{
	const size_t length = sensed(true, 0x3f);

	for (size_t cut = 1; cut < length; cut++) {
		const bool whole =
			cut == 8 || cut == 8 + 12 || cut == 8 + 12 + 20 || cut == 8 + 12 + 20 + 12;

		sensed(true, 0x3f);
		assert_int_equal(mode_select(true, cut), whole ? 0 : 0x1a00);
	}
	/* less was sent than the command says */
	assert_int_equal(select_sent(true, PF, length, length - 1), 0x1a00);
	assert_int_equal(select_sent(true, PF, length, 0), 0x1a00);
	memset(list, 0, sizeof(list));
	assert_int_equal(mode_select(true, 257), 0x1a00);
	assert_int_equal(select_sent(true, PF, 0xffff, 512), 0x1a00);
}

static void
test_pages_that_would_be_saved_or_have_no_form_are_refused(void **state)
{
	const size_t length = sensed(false, 0x08);

	assert_int_equal(select_sent(false, PF | SP, length, length), 0x2400);
	assert_int_equal(select_sent(false, SP, 0, 0), 0x2400);
	assert_int_equal(select_sent(false, 0, length, length), 0x2400); /* no PF */
	list[1] = 1;							 /* medium type */
	assert_int_equal(mode_select(false, length), 0x2600);
}

static void
test_block_descriptors_may_say_what_is_so(void **state)
{
	static const uint8_t blocks_at[] = { 4, 5, 6, 7 };
	const uint8_t six[12] = { 0, 0, 0, 8, 0x12, 0x34, 0x56, 0x78, 0, 0, 0x02, 0 };
	const uint8_t ten[24] = { 0,	0,    0,    0,	  1, 0, 0, 16, 0, 0, 0,	   0,
				  0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0,  0, 0, 0x02, 0 };

	memcpy(list, six, sizeof(six));
	assert_int_equal(mode_select(false, sizeof(six)), 0);
	for (size_t i = 0; i < sizeof(blocks_at); i++)
		list[blocks_at[i]] = 0;
	assert_int_equal(mode_select(false, sizeof(six)), 0);
	memset(list + 4, 0xff, 4);
	assert_int_equal(mode_select(false, sizeof(six)), 0);
	list[7] = 0xfe; /* another number */
	assert_int_equal(mode_select(false, sizeof(six)), 0x2600);
	memcpy(list, six, sizeof(six));
	list[10] = 0x10; /* blocks of 4096 bytes */
	assert_int_equal(mode_select(false, sizeof(six)), 0x2600);
	memcpy(list, ten, sizeof(ten));
	assert_int_equal(mode_select(true, sizeof(ten)), 0);
	list[15] = 0x79;
	assert_int_equal(mode_select(true, sizeof(ten)), 0x2600);
	list[7] = 8; /* a short one, though LONGLBA says that it is long */
	assert_int_equal(mode_select(true, sizeof(ten)), 0x2600);
	list[7] = 32; /* longer than the list */
	assert_int_equal(mode_select(true, sizeof(ten)), 0x1a00);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_read_can_be_written_back),
		cmocka_unit_test(test_every_bit_that_differs_is_refused),
		cmocka_unit_test(test_lists_that_are_cut_or_too_long_are_refused),
		cmocka_unit_test(test_pages_that_would_be_saved_or_have_no_form_are_refused),
		cmocka_unit_test(test_block_descriptors_may_say_what_is_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
