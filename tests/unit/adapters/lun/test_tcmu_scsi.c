/* What a LUN says of itself: identity from the volume's UUID alone, limits that are true, and a
 * refusal for every command that tcmu-runner would emulate wrongly.  Offsets are those of SPC-4 and
 * SBC-3, written down here a second time on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "../scratch.h"
#include "adapters/lun/commands.h"

#define FUZZ_ROUNDS 200000

static const uint8_t uuid[16] = { 0xd3, 0x0c, 0x9a, 0x52, 0x7d, 0x14, 0x4f, 0x0e,
				  0x9a, 0x6b, 0x2d, 0x9a, 0x1c, 0x7e, 0x5b, 0x10 };

static struct scsi_unit
sample(void)
{
	struct scsi_unit unit = {
		.level = 5,
		.blocks = 1000000,
		.block_bytes = 512,
		.transfer_blocks_max = 8192,
		.chunk_bytes = 65536,
		.row_bytes = 3 * 65536,
	};

	memcpy(unit.uuid, uuid, sizeof(uuid));
	return unit;
}

static struct lun_answer
ask_moving(const struct scsi_unit *unit, const uint8_t *cdb, size_t length, uint64_t data_bytes)
{
	struct lun_answer answer;
	uint8_t whole[16] = { 0 };

	memcpy(whole, cdb, length);
	memset(&answer, 0xee, sizeof(answer));
	scsi_emulate(unit, whole, data_bytes, &answer);
	return answer;
}

/* As an initiator asks that expects what the CDB says. */
static struct lun_answer
ask_unit(const struct scsi_unit *unit, const uint8_t *cdb, size_t length)
{
	uint64_t lba, blocks;
	uint8_t whole[16] = { 0 };

	memcpy(whole, cdb, length);
	lun_read_range(whole, &lba, &blocks);
	return ask_moving(unit, cdb, length, blocks * unit->block_bytes);
}

#define ASK(unit, ...)                                                                             \
	ask_unit(unit, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static uint64_t
number(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	while (count-- > 0)
		value = value << 8 | *bytes++;
	return value;
}

static void
is_check(struct lun_answer answer, uint8_t key, uint16_t asc)
{
	assert_int_equal(answer.verdict, LUN_CHECK);
	assert_int_equal(answer.key, key);
	assert_int_equal(answer.asc, asc);
	assert_int_equal(answer.length, 0);
}

static void
test_standard_inquiry_names_product_by_level(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer = ASK(&unit, 0x12, 0, 0, 0, 255, 0);

	assert_int_equal(answer.verdict, LUN_GOOD);
	assert_int_equal(answer.length, answer.data[4] + 5);
	assert_int_equal(answer.data[0], 0); /* a disk, connected */
	assert_int_equal(answer.data[3] & 0x0f, 2);
	/* third-party copy; no ALUA, no protection */
	assert_int_equal(answer.data[5], 0x08);
	assert_memory_equal(answer.data + 8, "IRAID   P-iRAID volume  ", 24);
	unit.level = 0;
	assert_memory_equal(ASK(&unit, 0x12, 0, 0, 0, 255, 0).data + 16, "S-iRAID volume  ", 16);
	unit.level = -1;
	assert_memory_equal(ASK(&unit, 0x12, 0, 0, 0, 255, 0).data + 16, "iRAID volume    ", 16);
	is_check(ASK(&unit, 0x12, 0, 0x80, 0, 255, 0), 5, 0x2400); /* a page without EVPD */
	is_check(ASK(&unit, 0x12, 2, 0, 0, 255, 0), 5, 0x2400);	   /* CMDDT */
}

static void
test_answers_end_at_the_allocation_length(void **state)
{
	struct scsi_unit unit = sample();

	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 5, 0).length, 5);
	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 0, 0).length, 0);
	/* lengths inside are not cut */
	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 5, 0).data[4], 69);
	assert_int_equal(ASK(&unit, 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0).length,
			 12);
	assert_int_equal(ASK(&unit, 0x1a, 0, 0x3f, 0, 4, 0).length, 4);
}

static void
test_all_pages_that_are_listed_are_there_and_no_other(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer list = ASK(&unit, 0x12, 1, 0, 0, 255, 0);
	bool listed[256] = { false };

	assert_int_equal(list.verdict, LUN_GOOD);
	for (uint32_t i = 4; i < list.length; i++) {
		assert_true(i == 4 || list.data[i] > list.data[i - 1]);
		listed[list.data[i]] = true;
	}
	for (int page = 0; page < 256; page++) {
		struct lun_answer answer = ASK(&unit, 0x12, 1, (uint8_t)page, 4, 0, 0);

		if (!listed[page]) {
			is_check(answer, 5, 0x2400);
			continue;
		}
		assert_int_equal(answer.verdict, LUN_GOOD);
		assert_int_equal(answer.data[0], 0);
		assert_int_equal(answer.data[1], page);
		assert_int_equal(number(answer.data + 2, 2) + 4, answer.length);
	}
	assert_true(listed[0x80] && listed[0x83] && listed[0x86] && listed[0xb0] && listed[0xb1] &&
		    listed[0xb2]);
}

static void
test_identity_is_the_volumes_uuid(void **state)
{
	static const uint8_t naa[] = { 0x01, 0x03, 0,	 8,    0x33, 0x0c,
				       0x9a, 0x52, 0x7d, 0x14, 0x4f, 0x0e };
	struct scsi_unit unit = sample(), other = sample();
	struct lun_answer serial = ASK(&unit, 0x12, 1, 0x80, 0, 255, 0);
	struct lun_answer names = ASK(&unit, 0x12, 1, 0x83, 0, 255, 0);

	assert_memory_equal(serial.data + 4, "d30c9a527d144f0e9a6b2d9a1c7e5b10", 32);
	assert_memory_equal(names.data + 4, naa, sizeof(naa));
	assert_int_equal(names.data[4 + 12], 0x02);
	assert_int_equal(names.data[4 + 12 + 1], 0x01);
	assert_memory_equal(names.data + 4 + 12 + 4, "IRAID   d30c9a527d144f0e9a6b2d9a1c7e5b10",
			    40);
	/* UTF-8, of the LUN, SCSI name string: it ends with a zero, and is padded with them */
	assert_memory_equal(names.data + 4 + 12 + 44, "\x03\x08\0\x18naa.330c9a527d144f0e\0\0\0",
			    28);
	assert_int_equal(names.length, 4 + 12 + 44 + 28);
	other.uuid[7] ^= 1;
	assert_memory_not_equal(ASK(&other, 0x12, 1, 0x83, 0, 255, 0).data + 4, naa, sizeof(naa));
}

static void
test_block_limits_are_true(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);

	assert_int_equal(answer.data[5], 128); /* COMPARE AND WRITE: 64 KiB */
	/* WSNZ: no WRITE SAME of 0 blocks */
	assert_int_equal(answer.data[4] & 1, 1);
	assert_int_equal(number(answer.data + 6, 2), 128); /* granularity: a chunk */
	assert_int_equal(number(answer.data + 8, 4), 8192);
	assert_int_equal(number(answer.data + 12, 4), 6 * 384);	 /* optimal: rows, 1 MiB at least */
	assert_int_equal(number(answer.data + 20, 4), 1u << 16); /* UNMAP: 32 MiB */
	assert_int_equal(number(answer.data + 24, 4), 256);
	assert_int_equal(number(answer.data + 28, 4), 128); /* granularity */
	/* counted from 0, and valid */
	assert_int_equal(number(answer.data + 32, 4), 0x80000000);
	assert_int_equal(number(answer.data + 36, 8), 32768); /* WRITE SAME: 16 MiB */
	unit.block_bytes = 4096;
	answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);
	assert_int_equal(answer.data[5], 16);
	assert_int_equal(number(answer.data + 20, 4), 8u << 10);
	assert_int_equal(number(answer.data + 28, 4), 16);
	unit.block_bytes = 512;

	unit.transfer_blocks_max = 1000; /* less than 1 MiB: as many rows as go in */
	answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);
	assert_int_equal(number(answer.data + 12, 4), 2 * 384);
	unit.transfer_blocks_max = 300; /* less than a row: the largest number of chunks */
	answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);
	assert_int_equal(number(answer.data + 12, 4), 256);
	unit.chunk_bytes = unit.row_bytes = 0; /* not known before assembly */
	answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);
	assert_int_equal(number(answer.data + 6, 2), 0);
	assert_int_equal(number(answer.data + 12, 4), 0);
	/* never 0: initiators divide by it */
	assert_int_equal(number(answer.data + 28, 4), 1);
}

/* A row where that divides 1 MiB, and where 1 MiB need not hold a whole one; else what divides both. */
static void
test_unmap_granularity_divides_a_mebibyte_where_whole_rows_are_given_back(void **state)
{
	static const uint32_t rows_kib[][2] = {
		{ 64, 64 },	{ 128, 128 },	{ 4, 4 },	{ 12, 4 },
		{ 192, 64 },	{ 448, 64 },	{ 512, 512 },	{ 576, 576 },
		{ 1024, 1024 }, { 1536, 1536 }, { 4096, 4096 },
	};
	struct scsi_unit unit = sample();

	for (size_t i = 0; i < sizeof(rows_kib) / sizeof(rows_kib[0]); i++) {
		struct lun_answer answer;

		unit.row_bytes = rows_kib[i][0] << 10;
		answer = ASK(&unit, 0x12, 1, 0xb0, 0, 255, 0);
		assert_int_equal(number(answer.data + 28, 4), rows_kib[i][1] * 2);
	}
}

static void
test_extended_inquiry_promises_what_is_kept(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer = ASK(&unit, 0x12, 1, 0x86, 0, 255, 0);

	assert_int_equal(answer.length, 64);
	assert_int_equal(answer.data[4], 0);	/* no protection, no microcode */
	assert_int_equal(answer.data[5], 0x01); /* simple tasks: no ordered ones */
	assert_int_equal(answer.data[6], 0x01); /* a volatile cache */
	for (int i = 7; i < 64; i++)
		assert_int_equal(answer.data[i], 0);
}

/* Nobody knows what members gave back, and data must not be left out of a copy. */
static void
test_every_block_counts_as_mapped(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer;

	answer = ASK(&unit, 0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 1, 0, 0, 0);
	assert_int_equal(answer.verdict, LUN_GOOD);
	assert_int_equal(answer.length, 24);
	assert_int_equal(number(answer.data, 4), 20);
	assert_int_equal(number(answer.data + 8, 8), 0x1234);
	assert_int_equal(number(answer.data + 16, 4), 1000000 - 0x1234);
	assert_int_equal(answer.data[20], 0);
	answer = ASK(&unit, 0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0);
	assert_int_equal(answer.length, 12);
	is_check(ASK(&unit, 0x9e, 0x12, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40, 0, 0, 1, 0, 0, 0), 5,
		 0x2100);
	unit.blocks = 1ull << 40;
	answer = ASK(&unit, 0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0);
	assert_int_equal(number(answer.data + 16, 4), 0xffffffff);
}

static void
test_provisioning_and_kind_of_medium_are_told(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer = ASK(&unit, 0x12, 1, 0xb2, 0, 255, 0);

	assert_int_equal(answer.length, 8);
	/* LBPU, LBPWS, LBPWS10, LBPRZ; no anchors */
	assert_int_equal(answer.data[5], 0xe4);
	assert_int_equal(answer.data[6], 2); /* thin */
	answer = ASK(&unit, 0x12, 1, 0xb1, 0, 255, 0);
	assert_int_equal(answer.length, 64);
	assert_int_equal(number(answer.data + 4, 2), 1); /* non-rotating */
}

static void
test_capacity_tells_of_zeros_and_physical_blocks(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer =
		ASK(&unit, 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0);

	assert_int_equal(answer.length, 32);
	assert_int_equal(number(answer.data, 8), 999999);
	assert_int_equal(number(answer.data + 8, 4), 512);
	/* 8 blocks of 512 make a physical one */
	assert_int_equal(answer.data[13], 3);
	/* LBPME, LBPRZ; aligned at block 0 */
	assert_int_equal(number(answer.data + 14, 2), 0xc000);
	unit.block_bytes = 4096;
	assert_int_equal(ASK(&unit, 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0).data[13],
			 0);
	unit.block_bytes = 512;
	answer = ASK(&unit, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	assert_int_equal(number(answer.data, 4), 999999);
	unit.blocks = 0x100000000ull;
	assert_int_equal(number(ASK(&unit, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0).data, 4), 0xffffffff);
	unit.blocks = 0xffffffffull;
	assert_int_equal(number(ASK(&unit, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0).data, 4), 0xfffffffe);
}

static void
test_mode_sense_reports_write_cache_and_fua(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer six = ASK(&unit, 0x1a, 8, 0x08, 0, 255, 0);
	struct lun_answer ten = ASK(&unit, 0x5a, 8, 0x3f, 0xff, 0, 0, 0, 0, 255, 0);

	assert_int_equal(six.length, six.data[0] + 1);
	assert_int_equal(six.data[2], 0x10); /* DPOFUA, writable */
	assert_int_equal(six.data[3], 0);    /* no block descriptors */
	assert_int_equal(six.data[4], 0x08);
	assert_int_equal(six.data[5], 18);
	assert_int_equal(six.data[6] & 0x04, 0x04); /* WCE */
	assert_int_equal(number(ten.data, 2) + 2, ten.length);
	assert_int_equal(ten.data[3], 0x10);
	assert_int_equal(ten.length, 8 + 12 + 20 + 12 + 12);
	/* Informational exceptions control: disabled */
	assert_memory_equal(ASK(&unit, 0x1a, 8, 0x1c, 0, 255, 0).data + 4, "\x1c\x0a\x08\0", 4);
	/* changeable: nothing */
	assert_int_equal(ASK(&unit, 0x1a, 0, 0x48, 0, 255, 0).data[6], 0);
	is_check(ASK(&unit, 0x1a, 0, 0xc8, 0, 255, 0), 5, 0x3900); /* saved */
	is_check(ASK(&unit, 0x1a, 0, 0x05, 0, 255, 0), 5, 0x2400);
	is_check(ASK(&unit, 0x1a, 0, 0x08, 1, 255, 0), 5, 0x2400);
}

static void
test_readiness_is_told(void **state)
{
	struct scsi_unit unit = sample();

	assert_int_equal(ASK(&unit, 0, 0, 0, 0, 0, 0).verdict, LUN_GOOD);
	assert_int_equal(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data[2], 0);
	unit.not_ready = ASC_BECOMING_READY;
	is_check(ASK(&unit, 0, 0, 0, 0, 0, 0), 2, 0x0401);
	assert_int_equal(ASK(&unit, 0x03, 0, 0, 0, 18, 0).verdict, LUN_GOOD);
	assert_int_equal(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data[2], 2);
	assert_int_equal(number(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data + 12, 2), 0x0401);
	assert_int_equal(ASK(&unit, 0x03, 1, 0, 0, 18, 0).data[0], 0x72);
	/* Who it is is told also when it is not ready. */
	assert_int_equal(ASK(&unit, 0x12, 1, 0x83, 0, 255, 0).verdict, LUN_GOOD);
	is_check(ASK(&unit, 0x1b, 0, 0, 0, 0, 0), 5, 0x2400); /* stop */
	assert_int_equal(ASK(&unit, 0x1b, 0, 0, 0, 1, 0).verdict, LUN_GOOD);
}

/* SPC-4 5.15.2.4.5, and READ CAPACITY, which LIO lets pass: all that needs no medium. */
static bool
works_on_standby(const uint8_t *cdb)
{
	switch (cdb[0]) {
	case 0x03: /* REQUEST SENSE */
	case 0x12: /* INQUIRY */
	case 0x1a: /* MODE SENSE */
	case 0x5a:
	case 0x15: /* MODE SELECT */
	case 0x55:
	case 0x25: /* READ CAPACITY */
		return true;
	case 0x9e:
		return (cdb[1] & 0x1f) == 0x10;
	case 0xa3: /* REPORT TARGET PORT GROUPS, REPORT SUPPORTED OPERATION CODES */
		return (cdb[1] & 0x1f) == 0x0a || (cdb[1] & 0x1f) == 0x0c;
	}
	return false;
}

static void
test_a_lun_on_standby_answers_what_needs_no_medium_and_nothing_else(void **state)
{
	struct scsi_unit unit = sample();
	int refused = 0, answered = 0;

	unit.not_ready = ASC_STANDBY;
	unit.gateway = 1;
	for (const struct scsi_command *command = scsi_commands; command->name; command++) {
		uint8_t cdb[16] = { command->opcode,
				    command->action == NO_ACTION ? 0 : command->action };
		struct lun_answer answer = ask_unit(&unit, cdb, sizeof(cdb));

		if (works_on_standby(cdb)) {
			/* or refused for what is not in this CDB */
			if (answer.verdict != LUN_GOOD && answer.verdict != LUN_JOB)
				is_check(answer, 5, 0x2400);
			assert_true(scsi_works_on_standby(cdb));
			answered++;
		} else if (command->check && answer.asc == ASC_INVALID_OPCODE) {
			/* the kernel answers it before it comes here */
			assert_int_equal(answer.verdict, LUN_CHECK);
		} else {
			is_check(answer, 2, 0x040b);
			refused++;
		}
	}
	assert_int_equal(answered, 10);
	assert_in_range(refused, 20, 40);
	assert_int_equal(number(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data + 12, 2), 0x040b);
	/* What does not exist does not exist. */
	is_check(ASK(&unit, 0xc0, 0, 0, 0, 0, 0), 5, 0x2000);
}

/* --- two gateways --- */

static struct scsi_unit
second_of_a_pair(void)
{
	struct scsi_unit unit = sample();

	unit.gateway = 2;
	unit.access[0] = 0;
	unit.access[1] = 2;
	return unit;
}

static void
test_a_single_gateway_has_no_target_port_groups(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer;

	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 255, 0).data[5] & 0x30, 0);
	is_check(ASK(&unit, 0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0), 5, 0x2000);
	answer = ASK(&unit, 0xa3, 0x0c, 3, 0xa3, 0, 0x0a, 0, 0, 0, 255, 0, 0);
	assert_int_equal(answer.data[1] & 7, 1); /* not supported */
	assert_false(scsi_asks_of_pair((const uint8_t[]){ 0x28 }));
}

/* Both gateways say the same, so that it does not matter whom an initiator asks. */
static void
test_groups_are_reported_by_number_whichever_gateway_this_is(void **state)
{
	static const uint8_t groups[] = { 0x00, 0x85, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1,
					  0x02, 0x85, 0, 2, 0, 2, 0, 1, 0, 0, 0, 2 };
	struct scsi_unit unit = second_of_a_pair();

	for (unit.gateway = 1; unit.gateway <= 2; unit.gateway++) {
		struct lun_answer plain = ASK(&unit, 0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0);
		struct lun_answer extended = ASK(&unit, 0xa3, 0x2a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0);

		assert_int_equal(plain.verdict, LUN_GOOD);
		assert_int_equal(plain.length, 4 + sizeof(groups));
		assert_int_equal(number(plain.data, 4), sizeof(groups));
		assert_memory_equal(plain.data + 4, groups, sizeof(groups));
		assert_int_equal(extended.length, 8 + sizeof(groups));
		assert_int_equal(number(extended.data, 4), 4 + sizeof(groups));
		assert_int_equal(extended.data[4], 0x10);
		assert_memory_equal(extended.data + 8, groups, sizeof(groups));
	}
	assert_int_equal(ASK(&unit, 0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0).length, 8);
	is_check(ASK(&unit, 0xa3, 0x4a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0), 5, 0x2400);
	is_check(ASK(&unit, 0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0), 5, 0x2000); /* SET */
}

static void
test_a_pairs_lun_names_the_port_by_which_it_was_reached(void **state)
{
	struct scsi_unit unit = second_of_a_pair(), alone = sample();
	struct lun_answer answer = ASK(&unit, 0x12, 1, 0x83, 0, 255, 0);
	struct lun_answer single = ASK(&alone, 0x12, 1, 0x83, 0, 255, 0);
	static const uint8_t port[] = { 1, 0x14, 0, 4, 0, 0, 0, 2, 1, 0x15, 0, 4, 0, 0, 0, 2 };

	assert_int_equal(answer.length, single.length + sizeof(port));
	assert_memory_equal(answer.data + 4, single.data + 4, single.length - 4); /* who it is */
	assert_memory_equal(answer.data + single.length, port, sizeof(port));
	assert_int_equal(number(answer.data + 2, 2), answer.length - 4);
	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 255, 0).data[5] & 0x30, 0x10); /* implicit */
	answer = ASK(&unit, 0xa3, 0x0c, 3, 0xa3, 0, 0x0a, 0, 0, 0, 255, 0, 0);
	assert_int_equal(answer.data[1] & 7, 3);
	assert_true(scsi_asks_of_pair((const uint8_t[]){ 0x12 }));
	assert_true(scsi_asks_of_pair((const uint8_t[]){ 0xa3, 0x2a }));
}

static void
test_a_change_of_role_is_told_once_to_a_command_that_may_tell_it(void **state)
{
	struct scsi_unit unit = sample();

	unit.attention = ASC_ACCESS_STATE_CHANGED;
	is_check(ASK(&unit, 0, 0, 0, 0, 0, 0), 6, 0x2a06);
	is_check(ASK(&unit, 0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0), 6, 0x2a06);
	is_check(ASK(&unit, 0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0), 6, 0x2a06);
	is_check(ASK(&unit, 0xc0, 0, 0, 0, 0, 0), 6, 0x2a06);
	/* Before what it is now, also where that is no good news. */
	unit.not_ready = ASC_STANDBY;
	is_check(ASK(&unit, 0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0), 6, 0x2a06);
	/* REQUEST SENSE has it as data; INQUIRY and REPORT LUNS leave it for the next. */
	assert_int_equal(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data[2], 6);
	assert_int_equal(number(ASK(&unit, 0x03, 0, 0, 0, 18, 0).data + 12, 2), 0x2a06);
	assert_int_equal(ASK(&unit, 0x03, 1, 0, 0, 18, 0).data[1], 6);
	assert_int_equal(ASK(&unit, 0x12, 0, 0, 0, 255, 0).verdict, LUN_GOOD);
	assert_true(scsi_tells_attention((const uint8_t[16]){ 0x03 }));
	assert_true(scsi_tells_attention((const uint8_t[16]){ 0x2a }));
	assert_false(scsi_tells_attention((const uint8_t[16]){ 0x12 }));
	assert_false(scsi_tells_attention((const uint8_t[16]){ 0xa0 }));
}

static void
test_transfers_are_kept_in_bounds(void **state)
{
	struct scsi_unit unit = sample(); /* 0xf4240 blocks */

	for (uint8_t opcode = 0x28; opcode <= 0x2a; opcode += 2) {
		assert_int_equal(ASK(&unit, opcode, 0, 0, 0, 0, 0, 0, 0, 8, 0).verdict, LUN_PASS);
		assert_int_equal(ASK(&unit, opcode, 0x18, 0, 0x0f, 0x42, 0x3f, 0, 0, 1, 0).verdict,
				 LUN_PASS);
		is_check(ASK(&unit, opcode, 0, 0, 0x0f, 0x42, 0x3f, 0, 0, 2, 0), 5, 0x2100);
		is_check(ASK(&unit, opcode, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), 5, 0x2100);
		is_check(ASK(&unit, opcode, 0x20, 0, 0, 0, 0, 0, 0, 8, 0), 5, 0x2400);
		/* 8193 blocks */
		is_check(ASK(&unit, opcode, 0, 0, 0, 0, 0, 0, 0x20, 1, 0), 5, 0x2400);
	}
	is_check(ASK(&unit, 0xa8, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0), 5, 0x2100);
	/* A sum that wraps must not look small. */
	is_check(ASK(&unit, 0x8a, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2, 0,
		     0),
		 5, 0x2100);
	assert_int_equal(ASK(&unit, 0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0).verdict, LUN_PASS);
	is_check(ASK(&unit, 0x35, 0, 0, 0x0f, 0x42, 0x40, 0, 0, 1, 0), 5, 0x2100);
	is_check(ASK(&unit, 0x91, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2100);
	/* PRE-FETCH */
	assert_int_equal(ASK(&unit, 0x34, 0, 0, 0x0f, 0x42, 0x3f, 0, 0, 1, 0).verdict, LUN_GOOD);
	is_check(ASK(&unit, 0x34, 0, 0, 0x0f, 0x42, 0x40, 0, 0, 1, 0), 5, 0x2100);
	is_check(ASK(&unit, 0x90, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 5, 0x2100);
}

/* The runner would log a line for each. */
static void
test_a_transfer_of_another_length_than_the_command_s_is_refused(void **state)
{
	static const struct {
		uint8_t cdb[16];
		uint64_t blocks;
	} transfers[] = {
		{ { 0x28, 0, 0, 0, 0, 0, 0, 0, 8 }, 8 },
		{ { 0x2a, 0x08, 0, 0, 0, 0, 0, 0x20 }, 8192 },
		{ { 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, 1 },
		{ { 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0 },
		{ { 0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3 }, 3 },
		{ { 0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 }, 2 },
	};
	struct scsi_unit unit = sample();

	for (size_t i = 0; i < sizeof(transfers) / sizeof(transfers[0]); i++) {
		const uint8_t *cdb = transfers[i].cdb;
		const uint64_t right = transfers[i].blocks * unit.block_bytes;
		const uint64_t wrong[] = { 0, 1, right - 1, right + 1, right + unit.block_bytes };

		assert_int_equal(ask_moving(&unit, cdb, 16, right).verdict, LUN_PASS);
		for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++)
			if (wrong[j] != right)
				is_check(ask_moving(&unit, cdb, 16, wrong[j]), 5, 0x2400);
	}
	/* What moves nothing has its buffer zeroed. */
	assert_int_equal(ask_moving(&unit, (const uint8_t[16]){ 0x35 }, 16, 4096).verdict,
			 LUN_PASS);
}

static void
test_commands_of_several_steps_never_reach_the_runner(void **state)
{
	static const uint8_t jobs[] = { 0x08, 0x0a, 0x15, 0x2e, 0x2f, 0x41, 0x42, 0x55,
					0x83, 0x89, 0x8e, 0x8f, 0x93, 0xae, 0xaf };
	struct scsi_unit unit = sample();

	for (size_t i = 0; i < sizeof(jobs); i++)
		assert_int_equal(ASK(&unit, jobs[i]).verdict, LUN_JOB);
}

static void
test_what_the_runner_would_do_wrongly_is_refused(void **state)
{
	static const uint8_t refused[] = {
		0x04 /* FORMAT UNIT */, 0xa4 /* MAINTENANCE OUT */, 0x7f, 0xc0, 0xff,
	};
	struct scsi_unit unit = sample();

	for (size_t i = 0; i < sizeof(refused); i++)
		is_check(ASK(&unit, refused[i]), 5, 0x2000);
	is_check(ASK(&unit, 0xa3, 0x0a), 5, 0x2000); /* REPORT TARGET PORT GROUPS */
	is_check(ASK(&unit, 0x9e, 0x11), 5, 0x2000); /* READ LONG(16) */
}

static void
test_copy_parameters_are_told(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer answer = ASK(&unit, 0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0);

	assert_int_equal(answer.verdict, LUN_GOOD);
	assert_int_equal(answer.length, 46);
	assert_int_equal(number(answer.data, 4), 42);
	assert_int_equal(answer.data[4] & 1, 1);
	assert_int_equal(number(answer.data + 8, 2), 2);
	assert_int_equal(number(answer.data + 10, 2), 16);
	assert_int_equal(number(answer.data + 16, 4), 65535 * 512);
	assert_int_equal(answer.data[37], 9);
	assert_int_equal(answer.data[43], 2);
	assert_int_equal(number(answer.data + 44, 2), 0x02e4);
	is_check(ASK(&unit, 0x84, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0), 5, 0x2400);
}

static int
support(const struct scsi_unit *unit, uint8_t options, uint8_t opcode, uint8_t action)
{
	struct lun_answer answer =
		ASK(unit, 0xa3, 0x0c, options, opcode, 0, action, 0, 0, 4, 0, 0, 0);

	assert_int_equal(answer.verdict, LUN_GOOD);
	return answer.data[1] & 7;
}

static void
test_supported_operation_codes_are_those_that_are_not_refused(void **state)
{
	struct scsi_unit unit = sample();
	struct lun_answer all = ASK(&unit, 0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0);
	bool listed[256] = { false };

	assert_int_equal(number(all.data, 4) + 4, all.length);
	assert_true(all.length <= 1024);
	for (uint32_t i = 4; i < all.length; i += 8)
		listed[all.data[i]] = true;
	for (int opcode = 0; opcode < 256; opcode++) {
		struct lun_answer answer = ASK(&unit, (uint8_t)opcode,
					       opcode == 0xa3	? 0x0c
					       : opcode == 0x9e ? 0x10
					       : opcode == 0x84 ? 0x03
								: 0,
					       0, 0, opcode == 0x1b);
		bool kernels = opcode == 0x16 || opcode == 0x17 || opcode == 0x5e ||
			       opcode == 0x5f || opcode == 0xa0;
		bool there = kernels || answer.verdict != LUN_CHECK || answer.asc != 0x2000;

		if (listed[opcode] != there)
			fail_msg("operation code %02x is %slisted and %sthere", opcode,
				 listed[opcode] ? "" : "not ", there ? "" : "not ");
	}
	assert_int_equal(support(&unit, 1, 0x2a, 0), 3);
	/* what Linux asks before WRITE SAME */
	assert_int_equal(support(&unit, 1, 0x93, 0), 3);
	assert_int_equal(support(&unit, 1, 0x41, 0), 3);
	assert_int_equal(support(&unit, 1, 0x04, 0), 1);
	assert_int_equal(support(&unit, 2, 0x9e, 0x10), 3);
	assert_int_equal(support(&unit, 2, 0x9e, 0x12), 3);
	assert_int_equal(support(&unit, 2, 0x9e, 0x11), 1);
	assert_int_equal(support(&unit, 3, 0x9e, 0x11), 1);
	is_check(ASK(&unit, 0xa3, 0x0c, 1, 0x9e, 0, 0x10, 0, 0, 4, 0, 0, 0), 5, 0x2400);
	is_check(ASK(&unit, 0xa3, 0x0c, 2, 0x2a, 0, 0, 0, 0, 4, 0, 0, 0), 5, 0x2400);
	/* With timeouts the largest answer there is must still fit. */
	all = ASK(&unit, 0xa3, 0x0c, 0x80, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0);
	assert_int_equal(number(all.data, 4) + 4, all.length);
	assert_true(all.length <= LUN_ANSWER_MAX);
}

static void
test_no_command_block_does_harm(void **state)
{
	uint64_t seed = 0x69726169642d7363ull;
	struct scsi_unit unit = sample();

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		uint8_t cdb[16];
		struct lun_answer answer;

		for (int i = 0; i < 16; i++)
			cdb[i] = (uint8_t)scratch_random(&seed);
		unit.row_bytes = unit.chunk_bytes * (uint32_t)(scratch_random(&seed) % 32);
		unit.transfer_blocks_max = (uint32_t)(scratch_random(&seed) % 70000);
		scsi_emulate(&unit, cdb, scratch_random(&seed), &answer);
		if (answer.verdict == LUN_GOOD)
			assert_true(answer.length <= LUN_ANSWER_MAX);
		if (answer.verdict == LUN_CHECK)
			assert_true(answer.key != 0 && answer.asc != 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_standard_inquiry_names_product_by_level),
		cmocka_unit_test(test_answers_end_at_the_allocation_length),
		cmocka_unit_test(test_all_pages_that_are_listed_are_there_and_no_other),
		cmocka_unit_test(test_identity_is_the_volumes_uuid),
		cmocka_unit_test(test_block_limits_are_true),
		cmocka_unit_test(
			test_unmap_granularity_divides_a_mebibyte_where_whole_rows_are_given_back),
		cmocka_unit_test(test_extended_inquiry_promises_what_is_kept),
		cmocka_unit_test(test_every_block_counts_as_mapped),
		cmocka_unit_test(test_provisioning_and_kind_of_medium_are_told),
		cmocka_unit_test(test_capacity_tells_of_zeros_and_physical_blocks),
		cmocka_unit_test(test_mode_sense_reports_write_cache_and_fua),
		cmocka_unit_test(test_readiness_is_told),
		cmocka_unit_test(
			test_a_lun_on_standby_answers_what_needs_no_medium_and_nothing_else),
		cmocka_unit_test(test_a_single_gateway_has_no_target_port_groups),
		cmocka_unit_test(test_groups_are_reported_by_number_whichever_gateway_this_is),
		cmocka_unit_test(test_a_pairs_lun_names_the_port_by_which_it_was_reached),
		cmocka_unit_test(test_a_change_of_role_is_told_once_to_a_command_that_may_tell_it),
		cmocka_unit_test(test_transfers_are_kept_in_bounds),
		cmocka_unit_test(test_a_transfer_of_another_length_than_the_command_s_is_refused),
		cmocka_unit_test(test_commands_of_several_steps_never_reach_the_runner),
		cmocka_unit_test(test_what_the_runner_would_do_wrongly_is_refused),
		cmocka_unit_test(test_copy_parameters_are_told),
		cmocka_unit_test(test_supported_operation_codes_are_those_that_are_not_refused),
		cmocka_unit_test(test_no_command_block_does_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
