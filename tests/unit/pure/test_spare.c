/* The mark of a spare: what is written reads back, what is damaged or absurd is refused, and
 * neither a spare nor a member is ever taken for the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pure/spare.h"

#define BLOCK_BYTES LAYOUT_SUPERBLOCK_BYTES

static struct spare_mark
sample(void)
{
	struct spare_mark mark = {
		.member_bytes = 0x0000000102030405ull << 20,
		.block_bytes = 4096,
		.created_s = 1700000000,
	};

	memset(mark.member_uuid, 0x31, 16);
	memset(mark.volume_uuid, 0x42, 16);
	return mark;
}

static void
reseal(uint8_t *bytes)
{
	uint32_t crc;

	memset(bytes + 8, 0, 4);
	crc = crc32c(0, bytes, BLOCK_BYTES);
	for (int i = 0; i < 4; i++)
		bytes[8 + i] = (uint8_t)(crc >> (8 * i));
}

static void
test_a_mark_reads_back_as_written(void **state)
{
	struct spare_mark written = sample(), read = { 0 };
	uint8_t bytes[BLOCK_BYTES];

	spare_encode(&written, bytes);
	assert_int_equal(spare_decode(bytes, &read), SUPERBLOCK_OK);
	assert_memory_equal(&read, &written, sizeof(read));
	memset(written.volume_uuid, 0, 16); /* of all volumes */
	spare_encode(&written, bytes);
	assert_int_equal(spare_decode(bytes, &read), SUPERBLOCK_OK);
	assert_memory_equal(&read, &written, sizeof(read));
}

/* The numbers are those of format.md. */
static void
test_fields_stand_where_the_reference_says(void **state)
{
	static const uint8_t zeros[BLOCK_BYTES - 72];
	struct spare_mark mark = sample();
	uint8_t bytes[BLOCK_BYTES];

	spare_encode(&mark, bytes);
	assert_memory_equal(bytes, "IRAID-SP", 8);
	assert_memory_equal(bytes + 12, "\x01\0\0\0", 4);
	assert_memory_equal(bytes + 16, mark.member_uuid, 16);
	assert_memory_equal(bytes + 32, mark.volume_uuid, 16);
	assert_memory_equal(bytes + 48, "\0\0\x50\x40\x30\x20\x10\0", 8);
	assert_memory_equal(bytes + 56, "\0\x10\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 64, "\x00\xf1\x53\x65\0\0\0\0", 8);
	assert_memory_equal(bytes + 72, zeros, sizeof(zeros));
}

static void
test_every_flipped_bit_is_found(void **state)
{
	struct spare_mark mark = sample(), read;
	uint8_t bytes[BLOCK_BYTES];

	spare_encode(&mark, bytes);
	for (unsigned int bit = 0; bit < 8 * BLOCK_BYTES; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(spare_decode(bytes, &read),
				 bit < 64 ? SUPERBLOCK_ABSENT : SUPERBLOCK_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void
test_absurd_marks_are_refused_and_write_nothing(void **state)
{
	static const struct {
		size_t at;
		const char *bytes;
		size_t length;
		enum superblock_verdict verdict;
	} changes[] = {
		{ 12, "\0\0\0\0", 4, SUPERBLOCK_CORRUPT },
		{ 12, "\2\0\0\0", 4, SUPERBLOCK_UNSUPPORTED },
		{ 12, "\1\0\0\1", 4, SUPERBLOCK_UNSUPPORTED },
		{ 48, "\xff\xff\xff\0\0\0\0\0", 8, SUPERBLOCK_CORRUPT }, /* 16 MiB - 1 */
		{ 48, "\0\0\0\1\0\0\0\0", 8, SUPERBLOCK_OK },
		{ 48, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, SUPERBLOCK_OK },
		{ 48, "\0\0\0\0\0\0\0\x80", 8, SUPERBLOCK_CORRUPT },
		{ 56, "\0\0\0\0", 4, SUPERBLOCK_CORRUPT },
		{ 56, "\0\4\0\0", 4, SUPERBLOCK_CORRUPT },
		{ 56, "\0\2\0\0", 4, SUPERBLOCK_OK },
		{ 60, "\1", 1, SUPERBLOCK_OK }, /* reserved */
		{ 4095, "\1", 1, SUPERBLOCK_OK },
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct spare_mark mark = sample(), read, untouched;
		uint8_t bytes[BLOCK_BYTES];

		spare_encode(&mark, bytes);
		memcpy(bytes + changes[i].at, changes[i].bytes, changes[i].length);
		reseal(bytes);
		memset(&read, 0xee, sizeof(read));
		untouched = read;
		if (spare_decode(bytes, &read) != changes[i].verdict)
			fail_msg("change %zu", i);
		if (changes[i].verdict != SUPERBLOCK_OK)
			assert_memory_equal(&read, &untouched, sizeof(read));
	}
}

static void
test_a_spare_is_no_member_and_a_member_no_spare(void **state)
{
	struct spare_mark mark = sample();
	struct superblock superblock;
	uint8_t bytes[BLOCK_BYTES];

	spare_encode(&mark, bytes);
	assert_int_equal(superblock_decode(bytes, &superblock, NULL), SUPERBLOCK_ABSENT);
	memcpy(bytes, "IRAID-SB", 8);
	reseal(bytes);
	assert_int_not_equal(superblock_decode(bytes, &superblock, NULL), SUPERBLOCK_OK);
	assert_int_equal(spare_decode(bytes, &mark), SUPERBLOCK_ABSENT);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(spare_decode(bytes, &mark), SUPERBLOCK_ABSENT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_mark_reads_back_as_written),
		cmocka_unit_test(test_fields_stand_where_the_reference_says),
		cmocka_unit_test(test_every_flipped_bit_is_found),
		cmocka_unit_test(test_absurd_marks_are_refused_and_write_nothing),
		cmocka_unit_test(test_a_spare_is_no_member_and_a_member_no_spare),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
