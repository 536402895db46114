/* What a command ends with is what docs/operating/sense.md says: each row with a result is parsed
 * and compared.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/lun/sense.h"

#define CELLS_MAX 8

static const struct {
	const char *name;
	int result;
} results[] = {
	{ "-ENODATA", -ENODATA },     { "-EIO", -EIO },
	{ "-ETIMEDOUT", -ETIMEDOUT }, { "-ETIME", -ETIME },
	{ "-ENOMEDIUM", -ENOMEDIUM }, { "-ENOMEDIUM failed", -ENOMEDIUM },
	{ "-ESHUTDOWN", -ESHUTDOWN }, { "-ENOMEM", -ENOMEM },
	{ "other", -ELOOP },	      { "-ERANGE", -ERANGE },
	{ "-EINVAL", -EINVAL },	      { "-EILSEQ", -EILSEQ },
};
#define RESULTS (sizeof(results) / sizeof(results[0]))

static int
split(char *line, char *cells[CELLS_MAX])
{
	int count = 0;

	for (char *cell = strtok(line, "|"); cell != NULL && count < CELLS_MAX;
	     cell = strtok(NULL, "|")) {
		while (*cell == ' ')
			cell++;
		for (size_t at = strlen(cell);
		     at > 0 && (cell[at - 1] == ' ' || cell[at - 1] == '\n'); at--)
			cell[at - 1] = '\0';
		if (*cell != '\0')
			cells[count++] = cell;
	}
	return count;
}

static void
check_row(const char *command, int which, const char *told)
{
	struct engine_request request = { .mismatch_bytes = 0x12345 };
	struct scsi_outcome outcome;
	unsigned int key, asc, ascq;
	const char *slash = strchr(told, '/'); /* the key is the digit before the first */
	const char *digits = slash != NULL ? slash - 1 : told;

	request.op = strcmp(command, "write") == 0     ? REQUEST_WRITE
		     : strcmp(command, "compare") == 0 ? REQUEST_COMPARE_WRITE
						       : REQUEST_READ;
	outcome = scsi_outcome_of(&request, results[which].result,
				  strstr(results[which].name, "failed") != NULL);
	if (strcmp(told, "TASK SET FULL") == 0) {
		assert_int_equal(outcome.status, 0x28);
		return;
	}
	assert_int_equal(outcome.status, 0x02);
	assert_non_null(digits);
	assert_int_equal(sscanf(digits, "%x/%x/%x", &key, &asc, &ascq), 3);
	assert_int_equal(outcome.key, key);
	assert_int_equal(outcome.asc, asc << 8 | ascq);
	assert_int_equal(outcome.informed, results[which].result == -EILSEQ);
}

static void
test_the_table_for_administrators_is_what_initiators_are_told(void **state)
{
	FILE *table = fopen(IRAID_SOURCE_DIR "/docs/operating/sense.md", "r");
	bool seen[RESULTS] = { false };
	char line[2000];

	assert_non_null(table);
	while (fgets(line, sizeof(line), table) != NULL) {
		char *cells[CELLS_MAX];
		int count = line[0] == '|' ? split(line, cells) : 0;

		for (size_t i = 0; count >= 4 && i < RESULTS; i++) {
			if (strcmp(cells[2], results[i].name) != 0)
				continue;
			seen[i] = true;
			check_row(cells[1], (int)i, cells[3]);
		}
	}
	fclose(table);
	for (size_t i = 0; i < RESULTS; i++)
		if (!seen[i])
			fail_msg("docs/operating/sense.md has no row for %s", results[i].name);
}

static void
is_told(const struct engine_request *request, int result, uint8_t key, uint16_t asc)
{
	struct scsi_outcome outcome = scsi_outcome_of(request, result, false);

	assert_int_equal(outcome.status, 0x02);
	assert_int_equal(outcome.key, key);
	assert_int_equal(outcome.asc, asc);
}

/* With MEDIUM ERROR Linux would repeat a flush that tells of a lost cache. */
static void
test_success_is_good_and_writes_of_any_kind_fail_in_a_way_that_is_not_repeated(void **state)
{
	static const enum request_op writes[] = { REQUEST_WRITE, REQUEST_ZERO,
						  REQUEST_COMPARE_WRITE, REQUEST_FLUSH };

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct engine_request request = { .op = writes[i] };

		assert_int_equal(scsi_outcome_of(&request, 0, false).status, 0);
		is_told(&request, -EIO, 4, 0x0c00);
		is_told(&request, -ENODATA, 4, 0x0c00);
	}
}

static void
test_sense_data_is_laid_out_as_the_standard_has_it(void **state)
{
	static const uint8_t plain[18] = { 0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0x00 };
	static const uint8_t informed[18] = { 0xf0, 0, 14, 0x00, 0x01, 0x23, 0x45,
					      10,   0, 0,  0,	 0,    0x1d, 0x00 };
	struct engine_request request = { .op = REQUEST_COMPARE_WRITE, .mismatch_bytes = 0x12345 };
	struct scsi_outcome outcome = scsi_check(3, 0x1100);
	uint8_t bytes[18];

	memset(bytes, 0xee, sizeof(bytes));
	scsi_put_sense(&outcome, bytes);
	assert_memory_equal(bytes, plain, 18);
	outcome = scsi_outcome_of(&request, -EILSEQ, false);
	scsi_put_sense(&outcome, bytes);
	assert_memory_equal(bytes, informed, 18);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table_for_administrators_is_what_initiators_are_told),
		cmocka_unit_test(
			test_success_is_good_and_writes_of_any_kind_fail_in_a_way_that_is_not_repeated),
		cmocka_unit_test(test_sense_data_is_laid_out_as_the_standard_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
