/* test_sealed.c - what was sealed comes back, and stands nowhere meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapters/base/sealed.h"

static const char secret[] = "a secret of twenty-nine bytes";

static void
test_what_was_sealed_comes_back_and_cannot_be_read_meanwhile(void **state)
{
	struct sealed sealed = { 0 };
	char out[sizeof(secret)] = "";

	assert_true(sealed_put(&sealed, secret, sizeof(secret)));
	assert_null(memmem(sealed.bytes, sealed.length_bytes, secret, 4));
	assert_true(sealed_open(&sealed, out));
	assert_string_equal(out, secret);
	sealed_free(&sealed);
	assert_false(sealed_open(&sealed, out));
}

static void
test_the_same_secret_looks_different_each_time(void **state)
{
	struct sealed one = { 0 }, other = { 0 };

	assert_true(sealed_put(&one, secret, sizeof(secret)));
	assert_true(sealed_put(&other, secret, sizeof(secret)));
	assert_memory_not_equal(one.bytes, other.bytes, sizeof(secret));
	sealed_free(&one);
	sealed_free(&other);
}

static void
test_what_is_sealed_next_takes_the_place_of_what_was(void **state)
{
	struct sealed sealed = { 0 };
	char out[8] = "";

	assert_true(sealed_put(&sealed, secret, sizeof(secret)));
	assert_true(sealed_put(&sealed, "another", 8));
	assert_int_equal(sealed.length_bytes, 8);
	assert_true(sealed_open(&sealed, out));
	assert_string_equal(out, "another");
	sealed_free(&sealed);
}

/* By the kernel's flags of the mapping: "dd" is left out of a core. */
static void
test_secret_memory_is_in_no_core(void **state)
{
	char *memory = secret_memory(1000), line[512];
	FILE *maps = fopen("/proc/self/smaps", "re");
	bool inside = false, excluded = false;

	assert_non_null(memory);
	assert_non_null(maps);
	assert_int_equal(memory[0] | memory[999], 0);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long first, last;

		if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
			inside = first <= (uintptr_t)memory && (uintptr_t)memory < last;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			excluded = strstr(line, " dd") != NULL;
	}
	fclose(maps);
	assert_true(excluded);
	secret_memory_free(memory, 1000);
	secret_memory_free(NULL, 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_sealed_comes_back_and_cannot_be_read_meanwhile),
		cmocka_unit_test(test_the_same_secret_looks_different_each_time),
		cmocka_unit_test(test_what_is_sealed_next_takes_the_place_of_what_was),
		cmocka_unit_test(test_secret_memory_is_in_no_core),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
