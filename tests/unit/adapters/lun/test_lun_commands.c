/* Which commands a LUN has: what becomes of every operation code and service action. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "adapters/lun/commands.h"

#define ACTIONS 32

static const struct scsi_unit unit = {
	.level = 5,
	.blocks = 1ull << 32,
	.block_bytes = 512,
	.transfer_blocks_max = 8192,
	.chunk_bytes = 65536,
	.row_bytes = 3 * 65536,
	.gateway = 1,
};

/* How a command ends whose other bytes are all 0, and that brings no data:
 *
 *	G answered	P handed on to the runner	- 5/2000, no such command	f 5/2400, invalid field
 *	g a job that has nothing to do			x a job that ends with 5/2400
 */
static char
letter(uint8_t key, uint16_t asc)
{
	assert_int_equal(key, SENSE_ILLEGAL_REQUEST);
	assert_true(asc == ASC_INVALID_OPCODE || asc == ASC_INVALID_FIELD);
	return asc == ASC_INVALID_OPCODE ? '-' : 'f';
}

static struct scsi_outcome
begin_job(const uint8_t cdb[16])
{
	struct scsi_job *job = calloc(1, sizeof(*job));
	struct scsi_outcome outcome;

	job->unit = &unit;
	memcpy(job->cdb, cdb, sizeof(job->cdb));
	assert_false(scsi_job_begin(job));
	outcome = job->outcome;
	scsi_job_free(job);
	free(job);
	return outcome;
}

static char
fate(int opcode, int action)
{
	const uint8_t cdb[16] = { (uint8_t)opcode, (uint8_t)action };
	struct scsi_outcome outcome = begin_job(cdb);
	struct lun_answer answer;

	scsi_emulate(&unit, cdb, 0, &answer);
	if (answer.verdict == LUN_JOB && outcome.status == STATUS_GOOD)
		return 'g';
	assert_int_equal(outcome.status, STATUS_CHECK_CONDITION);
	if (answer.verdict == LUN_JOB) {
		assert_int_equal(letter(outcome.key, outcome.asc), 'f');
		return 'x';
	}
	assert_int_equal(letter(outcome.key, outcome.asc), '-'); /* no job */
	switch (answer.verdict) {
	case LUN_GOOD:
		return 'G';
	case LUN_PASS:
		return 'P';
	case LUN_CHECK:
	case LUN_JOB:
		break;
	}
	return letter(answer.key, answer.asc);
}

/* Operation codes, sixteen a line. */
static const char by_opcode[] =
	"G--G----x-x-------G--g----ff---------G--P-P---gg----GP-----------xg------------------g----"
	"f----------------------------------------gf---PgP---ggGP-x--------------------P-P---gg----"
	"----------------------------------------------------------------------------";

/* Those for which the five bits of a service action matter: also where they are flags. */
static const struct {
	uint8_t opcode;
	const char *by_action;
} actions[] = {
	{ 0x12, "GGfGfGfGfGfGfGfGfGfGfGfGfGfGfGfG" }, { 0x2e, "ggggxxxxggggxxxxggggxxxxggggxxxx" },
	{ 0x15, "gxxxxxxxxxxxxxxxgxxxxxxxxxxxxxxx" }, { 0x55, "gxxxxxxxxxxxxxxxgxxxxxxxxxxxxxxx" },
	{ 0x2f, "ggggxxggggggxxggggggxxggggggxxgg" }, { 0x42, "gxgxgxgxgxgxgxgxgxgxgxgxgxgxgxgx" },
	{ 0x83, "gxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }, { 0x84, "fffGffffffffffffffffffffffffffff" },
	{ 0x8e, "ggggxxxxggggxxxxggggxxxxggggxxxx" }, { 0x8f, "ggggxxggggggxxggggggxxggggggxxgg" },
	{ 0x9e, "----------------G-G-------------" }, { 0xa3, "----------G-G-------------------" },
	{ 0xae, "ggggxxxxggggxxxxggggxxxxggggxxxx" }, { 0xaf, "ggggxxggggggxxggggggxxggggggxxgg" },
};

static void
test_every_operation_code_and_service_action_ends_as_listed(void **state)
{
	for (int opcode = 0; opcode < 256; opcode++) {
		char expected[ACTIONS], found[ACTIONS];

		memset(expected, by_opcode[opcode], ACTIONS);
		for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
			if (actions[i].opcode == opcode)
				memcpy(expected, actions[i].by_action, ACTIONS);
		for (int action = 0; action < ACTIONS; action++)
			found[action] = fate(opcode, action);
		if (memcmp(expected, found, ACTIONS) != 0)
			fail_msg("operation code %02x: %.32s, not %.32s", opcode, found, expected);
	}
}

static void
test_each_command_is_found_and_has_one_function(void **state)
{
	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		const uint8_t action = command->action == NO_ACTION ? 0 : command->action;
		const uint8_t cdb[16] = { command->opcode, action };

		if (!!command->check + !!command->answer + !!command->begin != 1)
			fail_msg("%s is carried out by none, or by two", command->name);
		if (scsi_find_command(cdb) != command)
			fail_msg("%s is hidden by another command", command->name);
		assert_true(lun_cdb_length(command->opcode) != 0);
		assert_true(strlen(command->name) != 0);
	}
}

/* REPORT SUPPORTED OPERATION CODES for one command. */
static struct lun_answer
report(const struct scsi_command *command)
{
	const bool acts = command->action != NO_ACTION;
	const uint8_t cdb[16] = {
		0xa3, 0x0c, acts ? 2 : 1, command->opcode, 0, acts ? command->action : 0, 0, 0, 1,
	};
	struct lun_answer answer;

	scsi_emulate(&unit, cdb, 0, &answer);
	assert_int_equal(answer.verdict, LUN_GOOD);
	return answer;
}

static void
test_each_command_is_reported_with_the_bits_it_uses(void **state)
{
	const uint8_t ask_all[16] = { 0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 8 };
	struct lun_answer all, one;
	uint8_t *at = all.data + 4;

	scsi_emulate(&unit, ask_all, 0, &all);
	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		const size_t length = lun_cdb_length(command->opcode);
		const bool acts = command->action != NO_ACTION;

		one = report(command);
		if (one.data[1] != 0x03 || one.data[3] != length ||
		    one.data[4] != command->opcode ||
		    memcmp(one.data + 5, command->usage, length - 1) != 0)
			fail_msg("%s is not reported as the table has it", command->name);
		for (size_t i = length - 1; i < sizeof(command->usage); i++)
			assert_int_equal(command->usage[i], 0);
		assert_int_equal(at[0], command->opcode);
		assert_int_equal(at[3], acts ? command->action : 0);
		assert_int_equal(at[5], acts);
		assert_int_equal(at[7], length);
		at += 8;
	}
	assert_int_equal(at - all.data, all.length);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_operation_code_and_service_action_ends_as_listed),
		cmocka_unit_test(test_each_command_is_found_and_has_one_function),
		cmocka_unit_test(test_each_command_is_reported_with_the_bits_it_uses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
