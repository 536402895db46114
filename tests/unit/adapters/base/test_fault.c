/* What went wrong, told in a fixed room: a text that is too long is cut between characters and
 * nothing is written behind it, a fault can be told again with more in front, and nothing of the
 * last one is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapters/base/fault.h"

#define UMLAUT "\xc3\xb6"	/* 2 bytes */
#define EURO "\xe2\x82\xac"	/* 3 */
#define CLEF "\xf0\x9d\x84\x9e" /* 4 */

static struct {
	struct fault fault;
	char behind[8];
} room;

static int
setup(void **state)
{
	memset(&room, 'x', sizeof(room));
	return 0;
}

/* `before` bytes, then the character, again and again. */
static const char *
long_text(size_t before, const char *character)
{
	static char text[8192];

	memset(text, 'a', before);
	text[before] = '\0';
	while (strlen(text) + strlen(character) < sizeof(text) - 1)
		strcat(text, character);
	return text;
}

static void
test_nothing_is_wrong_at_first(void **state)
{
	struct fault fault = FAULT_NONE;

	assert_int_equal(fault.code, 0);
	assert_string_equal(fault.message, "");
	assert_string_equal(fault.remedy, "");
}

static void
test_code_message_and_remedy_are_kept(void **state)
{
	assert_false(fault_set(&room.fault, FAULT_UNFIT, "choose a larger LUN", "%s has %d bytes",
			       "LUN 3", 512));
	assert_int_equal(room.fault.code, FAULT_UNFIT);
	assert_string_equal(room.fault.message, "LUN 3 has 512 bytes");
	assert_string_equal(room.fault.remedy, "choose a larger LUN");
}

static void
test_an_error_number_is_returned_and_has_no_remedy(void **state)
{
	fault_set(&room.fault, FAULT_UNFIT, "an old remedy",
		  "an old message that is longer than the new one");
	assert_int_equal(fault_errno(&room.fault, -ENOENT, "no volume \"%s\"", "v0"), -ENOENT);
	assert_int_equal(room.fault.code, -ENOENT);
	assert_string_equal(room.fault.message, "no volume \"v0\"");
	assert_string_equal(room.fault.remedy, "");
}

static void
test_nothing_of_an_older_fault_is_left_behind_the_texts(void **state)
{
	fault_set(&room.fault, FAULT_LOGIN, "a long remedy, of somebody else",
		  "a long message, of somebody else");
	fault_set(&room.fault, FAULT_LOGIN, "", "short");
	assert_string_equal(room.fault.message, "short");
	assert_string_equal(room.fault.remedy, "");
}

static void
test_the_old_message_and_remedy_may_be_told_again(void **state)
{
	fault_set(&room.fault, FAULT_INVALID, "correct it", "it is empty");
	fault_set(&room.fault, FAULT_BUSY, room.fault.remedy, "file %s: %s", "x",
		  room.fault.message);
	assert_int_equal(room.fault.code, FAULT_BUSY);
	assert_string_equal(room.fault.message, "file x: it is empty");
	assert_string_equal(room.fault.remedy, "correct it");
	fault_errno(&room.fault, -EINVAL, "%s", room.fault.message);
	assert_string_equal(room.fault.message, "file x: it is empty");
}

static void
test_a_text_that_just_fits_is_whole(void **state)
{
	char text[sizeof(room.fault.message)];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memcpy(text + sizeof(text) - 1 - strlen(CLEF), CLEF, strlen(CLEF));
	fault_set(&room.fault, FAULT_IO, text + sizeof(text) - sizeof(room.fault.remedy), "%s",
		  text);
	assert_string_equal(room.fault.message, text);
	assert_string_equal(room.fault.remedy, text + sizeof(text) - sizeof(room.fault.remedy));
}

static void
check_cut(const char *text, size_t size, const char *whole, size_t before, const char *character)
{
	size_t length = strnlen(text, size);

	assert_true(length < size);
	/* no more was left out than had to be */
	assert_true(length + strlen(character) >= size);
	assert_int_equal((length - before) % strlen(character), 0);
	assert_memory_equal(text, whole, length);
}

static void
test_a_long_text_is_cut_between_characters(void **state)
{
	static const char *const characters[] = { "a", UMLAUT, EURO, CLEF };

	for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++) {
		for (size_t before = 0; before < 5; before++) {
			const char *text = long_text(before, characters[i]);

			setup(NULL);
			fault_set(&room.fault, FAULT_IO, text, "%s", text);
			check_cut(room.fault.message, sizeof(room.fault.message), text, before,
				  characters[i]);
			check_cut(room.fault.remedy, sizeof(room.fault.remedy), text, before,
				  characters[i]);
			assert_memory_equal(room.behind, "xxxxxxxx", sizeof(room.behind));
			fault_errno(&room.fault, -EIO, "%s", text);
			check_cut(room.fault.message, sizeof(room.fault.message), text, before,
				  characters[i]);
		}
	}
}

static void
test_what_is_no_text_does_no_harm(void **state)
{
	fault_set(&room.fault, FAULT_IO, "", "%s", long_text(0, "\x80"));
	assert_true(strlen(room.fault.message) < sizeof(room.fault.message));
	assert_memory_equal(room.behind, "xxxxxxxx", sizeof(room.behind));
}

static void
test_what_others_sent_is_printable_ascii(void **state)
{
	static const struct {
		const char *sent, *shown;
	} texts[] = {
		{ "", "" },
		{ "10.0.0.1:3260/iqn.x:y/0 ~", "10.0.0.1:3260/iqn.x:y/0 ~" },
		{ "a\nb\rc\td", "a?b?c?d" },
		{ "\033[2J\x7f", "?[2J?" },
		{ "\xc2\x9b"
		  "2J",
		  "??2J" }, /* CSI in one character */
		{ "\xff\xfe\xe2\x80", "????" },
		{ "\xe2\x80\xae"
		  "a",
		  "???a" }, /* from right to left */
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s", texts[i].sent);
		text_make_harmless(text);
		assert_string_equal(text, texts[i].shown);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_others_sent_is_printable_ascii),
		cmocka_unit_test(test_nothing_is_wrong_at_first),
		cmocka_unit_test_setup(test_code_message_and_remedy_are_kept, setup),
		cmocka_unit_test_setup(test_an_error_number_is_returned_and_has_no_remedy, setup),
		cmocka_unit_test_setup(test_nothing_of_an_older_fault_is_left_behind_the_texts,
				       setup),
		cmocka_unit_test_setup(test_the_old_message_and_remedy_may_be_told_again, setup),
		cmocka_unit_test_setup(test_a_text_that_just_fits_is_whole, setup),
		cmocka_unit_test_setup(test_a_long_text_is_cut_between_characters, setup),
		cmocka_unit_test_setup(test_what_is_no_text_does_no_harm, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
