/* Binary values and digests of CHAP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapters/iscsi/chap.h"

static void
test_answers_are_those_of_the_standard_digests(void **state)
{
	/* printf '\x05secret\x01\x02\x03' | md5sum, sha1sum, sha256sum, openssl dgst -sha3-256 */
	static const struct {
		enum chap_algorithm algorithm;
		const char *answer;
	} known[] = {
		{ CHAP_MD5, "0x31ccac05aa0d315e6ab6974c46f1acac" },
		{ CHAP_SHA1, "0x0dc5f8b7631a38c3bbd7a004876645b894df2801" },
		{ CHAP_SHA256,
		  "0x5408912a4ddc70e9498e196dc888635ddb6a64145bd835c5015b648be41d5260" },
		{ CHAP_SHA3_256,
		  "0xcf66754ce2cd715703451a5d090cd9c0bbe15c9d50a2ab5017d0f4650c33c8c3" },
	};
	const struct chap_challenge challenge = { .number = 5, .length = 3, .bytes = { 1, 2, 3 } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint8_t answer[CHAP_ANSWER_BYTES_MAX];
		char text[3 + 2 * CHAP_ANSWER_BYTES_MAX];
		size_t length = chap_answer(known[i].algorithm, "secret", &challenge, answer);

		chap_binary_encode(answer, length, text);
		assert_string_equal(text, known[i].answer);
		assert_true(chap_proves(known[i].algorithm, "secret", &challenge, text));
		assert_false(chap_proves(known[i].algorithm, "Secret", &challenge, text));
		text[strlen(text) - 1] ^= 1;
		assert_false(chap_proves(known[i].algorithm, "secret", &challenge, text));
	}
	assert_int_equal(chap_answer(CHAP_NONE, "secret", &challenge, (uint8_t[32]){ 0 }), 0);
	assert_false(chap_proves(CHAP_NONE, "secret", &challenge, "0x"));
}

static void
decodes(const char *text, const char *bytes, size_t expected)
{
	uint8_t out[8];
	size_t length;

	assert_true(chap_binary_decode(text, out, sizeof(out), &length));
	assert_int_equal(length, expected);
	assert_memory_equal(out, bytes, expected);
}

static void
test_binary_values_are_hexadecimal_or_base64(void **state)
{
	static const char *const none[] = {
		"",
		"0",
		"0x",
		"0b",
		"00",
		"0x1",
		"0xgg",
		"0x123",
		"x12",
		"0b=",
		"0bA",
		"0bAA=A",
		"0bAAAA====",
		"0bA A=",
		"0x001122334455667788",
		"0bAAAAAAAAAAAA",
		"0x12 ",
	};
	uint8_t out[8];
	size_t length;

	decodes("0x00ff10", "\x00\xff\x10", 3);
	decodes("0X00Ff", "\x00\xff", 2);
	decodes("0bAP8Q", "\x00\xff\x10", 3);
	decodes("0bAP8=", "\x00\xff", 2);
	decodes("0B/w==", "\xff", 1);
	decodes("0x0011223344556677", "\x00\x11\x22\x33\x44\x55\x66\x77", 8);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (chap_binary_decode(none[i], out, sizeof(out), &length))
			fail_msg("\"%s\" was taken for a binary value", none[i]);
}

static void
test_algorithms_are_those_that_are_offered(void **state)
{
	assert_int_equal(chap_algorithm_parse("5"), CHAP_MD5);
	assert_int_equal(chap_algorithm_parse("8"), CHAP_SHA3_256);
	for (const char *const *bad =
		     (const char *const[]){ "", "4", "9", "55", "5,7", " 5", "x", NULL };
	     *bad != NULL; bad++)
		assert_int_equal(chap_algorithm_parse(*bad), CHAP_NONE);
}

static void
test_challenges_of_ours_differ(void **state)
{
	struct chap_challenge one, other;

	assert_true(chap_challenge_make(&one) && chap_challenge_make(&other));
	assert_int_equal(one.length, CHAP_OFFERED_BYTES);
	assert_memory_not_equal(one.bytes, other.bytes, CHAP_OFFERED_BYTES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_are_those_of_the_standard_digests),
		cmocka_unit_test(test_binary_values_are_hexadecimal_or_base64),
		cmocka_unit_test(test_algorithms_are_those_that_are_offered),
		cmocka_unit_test(test_challenges_of_ours_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
