/* How long a former CHAP secret is tried, and when it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "adapters/backend/former.h"

#define NOW 1000u

static struct iscsi_credentials
pair(const char *secret, const char *target_secret)
{
	struct iscsi_credentials made = { .initiator = "iqn.2026-01.org.example:gateway" };

	if (secret[0] != '\0')
		snprintf(made.user, sizeof(made.user), "joe");
	snprintf(made.secret, sizeof(made.secret), "%s", secret);
	if (target_secret[0] != '\0')
		snprintf(made.target_user, sizeof(made.target_user), "target");
	snprintf(made.target_secret, sizeof(made.target_secret), "%s", target_secret);
	return made;
}

static struct former
changed(struct iscsi_credentials before, struct iscsi_credentials now)
{
	struct former former = { .until_ms = 0 };

	former_keep(&former, &before, &now, NOW);
	return former;
}

static bool
is_empty(const struct former *former)
{
	static const struct former none;

	return memcmp(former->credentials.user, none.credentials.user,
		      sizeof(none.credentials.user)) == 0 &&
	       memcmp(former->credentials.secret, none.credentials.secret,
		      sizeof(none.credentials.secret)) == 0 &&
	       former->credentials.target_user[0] == '\0' &&
	       former->credentials.target_secret[0] == '\0' && former->until_ms == 0;
}

static void
test_a_login_that_fails_is_tried_once_by_the_former_secret(void **state)
{
	struct former former = changed(pair("old", ""), pair("new", ""));

	assert_false(former.trying);
	assert_true(former_try(&former, NOW + 1));
	assert_true(former.trying);
	assert_string_equal(former.credentials.secret, "old");
	assert_string_equal(former.credentials.initiator, "iqn.2026-01.org.example:gateway");
	assert_false(former_try(&former, NOW + 2)); /* that failed, too */
	former.trying = false;			    /* the next session */
	assert_true(former_try(&former, NOW + 3));
}

static void
test_it_is_forgotten_after_an_hour_and_when_the_new_one_was_taken(void **state)
{
	struct former former = changed(pair("old", ""), pair("new", ""));

	assert_true(former_try(&former, NOW + FORMER_MS - 1));
	former.trying = false;
	assert_false(former_try(&former, NOW + FORMER_MS));
	assert_true(is_empty(&former));
	former = changed(pair("old", ""), pair("new", ""));
	former_forget(&former);
	assert_false(former_try(&former, NOW + 1));
	assert_true(is_empty(&former));
}

static void
test_what_has_not_changed_is_no_former(void **state)
{
	struct former former = changed(pair("one", "two"), pair("one", "two"));

	assert_false(former_try(&former, NOW + 1));
	/* nor does a reload that changes something else end one, or lengthen it */
	former = changed(pair("old", ""), pair("new", ""));
	former_keep(&former, &(struct iscsi_credentials){ .user = "joe", .secret = "new" },
		    &(struct iscsi_credentials){ .user = "joe", .secret = "new" }, NOW + 5000);
	assert_int_equal(former.until_ms, NOW + FORMER_MS);
}

/* The second file mends a mistake of the first, which no target has taken. */
static void
test_of_two_changes_what_the_target_had_is_kept(void **state)
{
	struct former former = changed(pair("old", ""), pair("wrong", ""));
	struct iscsi_credentials wrong = pair("wrong", ""), mended = pair("new", "");

	former_keep(&former, &wrong, &mended, NOW + 1000);
	assert_string_equal(former.credentials.secret, "old");
	assert_int_equal(former.until_ms, NOW + 1000 + FORMER_MS);
	former_forget(&former); /* the new one was taken */
	wrong = pair("newer", "");
	former_keep(&former, &mended, &wrong, NOW + 2000);
	assert_string_equal(former.credentials.secret, "new");
}

static void
test_it_never_asks_less_of_a_target(void **state)
{
	struct former former = changed(pair("", ""), pair("new", ""));

	assert_false(former_try(&former, NOW)); /* no CHAP before */
	former = changed(pair("old", ""), pair("new", "proof"));
	assert_false(former_try(&former, NOW)); /* no proof before */
	assert_true(is_empty(&former));
	former = changed(pair("old", "old proof"), pair("old", "proof"));
	assert_true(former_try(&former, NOW));
	former = changed(pair("old", "old proof"), pair("new", ""));
	assert_true(former_try(&former, NOW)); /* more than what is asked for now */
	former = changed(pair("old", ""), pair("", ""));
	assert_false(former_try(&former, NOW)); /* without CHAP no secret is sent */
	/* in two steps neither */
	former = changed(pair("old", ""), pair("new", ""));
	former_keep(&former, &(struct iscsi_credentials){ .user = "joe", .secret = "new" },
		    &(struct iscsi_credentials){ .user = "joe",
						 .secret = "new",
						 .target_user = "target",
						 .target_secret = "proof" },
		    NOW + 1);
	assert_false(former_try(&former, NOW + 2));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_login_that_fails_is_tried_once_by_the_former_secret),
		cmocka_unit_test(test_it_is_forgotten_after_an_hour_and_when_the_new_one_was_taken),
		cmocka_unit_test(test_what_has_not_changed_is_no_former),
		cmocka_unit_test(test_of_two_changes_what_the_target_had_is_kept),
		cmocka_unit_test(test_it_never_asks_less_of_a_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
