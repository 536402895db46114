/* test_iscsi_pdu.c - headers to the byte, digests by the vectors of RFC 7143 (appendix A.4), keys
 * of a login.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "adapters/iscsi/login.h"
#include "adapters/iscsi/pdu.h"

static void
assert_digest(const uint8_t *bytes, size_t length, const uint8_t expected[4])
{
	uint8_t digest[4];
	uint32_t in_parts = iscsi_digest_add(ISCSI_DIGEST_START, bytes, 5);

	iscsi_digest_encode(iscsi_digest_add(ISCSI_DIGEST_START, bytes, length), digest);
	assert_memory_equal(digest, expected, 4);
	iscsi_digest_encode(iscsi_digest_add(in_parts, bytes + 5, length - 5), digest);
	assert_memory_equal(digest, expected, 4);
}

static void
test_digests_are_those_of_the_standard(void **state)
{
	static const uint8_t read_10[48] = {
		0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02,
	};
	uint8_t bytes[32];

	memset(bytes, 0, 32);
	assert_digest(bytes, 32, (const uint8_t[]){ 0xaa, 0x36, 0x91, 0x8a });
	memset(bytes, 0xff, 32);
	assert_digest(bytes, 32, (const uint8_t[]){ 0x43, 0xab, 0xa8, 0x62 });
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_digest(bytes, 32, (const uint8_t[]){ 0x4e, 0x79, 0xdd, 0x46 });
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_digest(bytes, 32, (const uint8_t[]){ 0x5c, 0xdb, 0x3f, 0x11 });
	assert_digest(read_10, 48, (const uint8_t[]){ 0x56, 0x3a, 0x96, 0xd9 });
}

static void
test_a_command_has_its_fields_where_they_belong(void **state)
{
	static const uint8_t cdb[16] = { 0x8a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const uint8_t expected[48] = {
		/* write, simple; more data follows */
		0x01, 0x21, 0,	  0,	0,    0x01, 0x02, 0x03, 0,    7,    0,	  0,
		0,    0,    0,	  0,	0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
		0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0x8a, 1,    2,	  3,
		4,    5,    6,	  7,	8,    9,    10,	  11,	12,   13,   14,	  15,
	};
	struct iscsi_command_fields fields = {
		.tag = 0x11223344,
		.write = true,
		.expected_bytes = 0x55667788,
		.immediate_bytes = 0x010203,
		.cdb = cdb,
	};
	uint8_t bytes[48];

	iscsi_lun_encode(7, fields.lun);
	iscsi_encode_command(&fields, (struct iscsi_numbers){ 0xa1a2a3a4, 0xb1b2b3b4 }, bytes);
	assert_memory_equal(bytes, expected, 48);
	fields.write = false;
	fields.read = fields.final = true;
	iscsi_encode_command(&fields, (struct iscsi_numbers){ 0 }, bytes);
	assert_int_equal(bytes[1], 0xc1);
}

static void
test_data_out_has_its_fields_where_they_belong(void **state)
{
	static const uint8_t expected[48] = {
		/* flat addressing of LUN 261 */
		0x05, 0x80, 0, 0, 0, 0, 0x02, 0x00, 0x41, 0x05, 0,    0, 0, 0, 0, 0,
		0,    0,    0, 9, 0, 0, 0,    8,    0,	  0,	0,    0, 0, 0, 0, 7,
		0,    0,    0, 0, 0, 0, 0,    6,    0,	  0,	0x10, 0, 0, 0, 0, 0,
	};
	struct iscsi_data_out_fields fields = {
		.tag = 9,
		.target_tag = 8,
		.final = true,
		.data_sn = 6,
		.offset_bytes = 4096,
		.data_bytes = 512,
	};
	uint8_t bytes[48];

	iscsi_lun_encode(261, fields.lun);
	iscsi_encode_data_out(&fields, 7, bytes);
	assert_memory_equal(bytes, expected, 48);
}

static void
test_task_management_and_logout_are_immediate(void **state)
{
	static const uint8_t lun[8] = { 0, 3 };
	uint8_t bytes[48];

	iscsi_encode_management(ISCSI_ABORT_TASK, lun, 5, 0x01020304, 0x0a0b0c0d, bytes);
	assert_int_equal(bytes[0], 0x42);
	assert_int_equal(bytes[1], 0x81);
	assert_int_equal(bytes[9], 3);
	assert_memory_equal(bytes + 20, ((const uint8_t[]){ 1, 2, 3, 4 }), 4);
	assert_memory_equal(bytes + 32, ((const uint8_t[]){ 0x0a, 0x0b, 0x0c, 0x0d }), 4);
	iscsi_encode_logout(5, bytes);
	assert_int_equal(bytes[0], 0x46);
	assert_int_equal(bytes[1], 0x80);
	iscsi_set_numbers(bytes, (struct iscsi_numbers){ 0x10, 0x20 });
	assert_int_equal(bytes[27], 0x10);
	assert_int_equal(bytes[31], 0x20);
}

static void
test_headers_of_the_target_are_understood(void **state)
{
	static const uint8_t data_in[48] = {
		0x25,	  0x83,	    0,	      0x02,	1,	  0,	       2,	  0,
		[19] = 5, [27] = 6, [31] = 7, [35] = 8, [39] = 9, [42] = 0x10, [47] = 11,
	};
	static const uint8_t r2t[48] = {
		0x31, 0x80, [19] = 5, [23] = 3, [39] = 2, [42] = 4, [46] = 1
	};
	uint8_t none[48] = { 0x31, 0x80, [19] = 5 };
	struct iscsi_header header;
	const char *fault = NULL;

	assert_true(iscsi_header_decode(data_in, &header, &fault));
	assert_int_equal(header.opcode, ISCSI_DATA_IN);
	assert_int_equal(header.ahs_bytes, 4);
	assert_int_equal(header.data_bytes, 512);
	assert_true(header.final && header.has_status && header.counts_stat_sn);
	assert_true(header.residual.underflow && !header.residual.overflow);
	assert_int_equal(header.residual.bytes, 11);
	assert_int_equal(header.status, 2);
	assert_int_equal(header.stat_sn, 6);
	assert_int_equal(header.max_cmd_sn, 8);
	assert_int_equal(header.sequence, 9);
	assert_int_equal(header.offset_bytes, 4096);
	assert_true(iscsi_header_decode(r2t, &header, &fault));
	assert_int_equal(header.target_tag, 3);
	assert_int_equal(header.offset_bytes, 1024);
	assert_int_equal(header.wanted_bytes, 256);
	assert_false(header.counts_stat_sn);
	assert_false(iscsi_header_decode(none, &header, &fault)); /* an R2T for nothing */
	assert_non_null(fault);
}

static void
test_only_what_targets_send_is_accepted(void **state)
{
	static const uint8_t known[] = {
		0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31, 0x32, 0x3f
	};
	struct iscsi_header header;
	const char *fault;

	for (int opcode = 0; opcode < 0x40; opcode++) {
		uint8_t bytes[48] = { (uint8_t)opcode, [47] = 1 };

		assert_int_equal(iscsi_header_decode(bytes, &header, &fault),
				 memchr(known, opcode, sizeof(known)) != NULL);
	}
}

static void
test_serial_numbers_wrap(void **state)
{
	assert_true(iscsi_before(1, 2));
	assert_false(iscsi_before(2, 2));
	assert_true(iscsi_before(0xffffffff, 0));
	assert_false(iscsi_before(0, 0xfffffff0));
}

static void
test_padding_goes_to_four(void **state)
{
	assert_int_equal(iscsi_padding_bytes(0), 0);
	assert_int_equal(iscsi_padding_bytes(1), 3);
	assert_int_equal(iscsi_padding_bytes(511), 1);
	assert_int_equal(iscsi_padding_bytes(512), 0);
}

static void
test_keys_of_a_login_are_taken_where_they_make_sense(void **state)
{
	static const char keys[] =
		"InitialR2T=No\0ImmediateData=No\0FirstBurstLength=8192\0MaxBurstLength="
		"1048576\0MaxRecvDataSegmentLength=0x4000\0HeaderDigest=CRC32C\0DataDigest="
		"None\0TargetPortalGroupTag=3";
	static const char odd[] = "InitialR2T=\0ImmediateData=\0FirstBurstLength=0\0MaxBurstLength="
				  "-1\0MaxRecvDataSegmentLength=9x\0HeaderDigest="
				  "Reject\0TargetPortalGroupTag=x\0=\0\0InitialR2T";
	struct iscsi_negotiated negotiated, *agreed = &negotiated;

	iscsi_negotiated_defaults(agreed);
	assert_true(agreed->initial_r2t && agreed->immediate_data && !agreed->header_digest);
	iscsi_login_keys(keys, sizeof(keys), agreed);
	assert_false(agreed->initial_r2t || agreed->immediate_data || agreed->data_digest);
	assert_true(agreed->header_digest);
	assert_int_equal(agreed->first_burst_bytes, 8192);
	assert_int_equal(agreed->max_burst_bytes, 262144); /* never more than was offered */
	assert_int_equal(agreed->target_segment_bytes, 16384);
	assert_int_equal(agreed->portal_group, 3);
	iscsi_login_keys(odd, sizeof(odd) - 1, agreed); /* and the last one has no end */
	assert_true(agreed->initial_r2t);
	assert_false(agreed->header_digest);
	assert_int_equal(agreed->first_burst_bytes, 8192);
	assert_int_equal(agreed->max_burst_bytes, 262144);
	assert_int_equal(agreed->target_segment_bytes, 16384);
	assert_int_equal(agreed->portal_group, 3);
}

static bool
is_odd(const char *keys, size_t bytes)
{
	struct iscsi_negotiated agreed;

	iscsi_negotiated_defaults(&agreed);
	iscsi_login_keys(keys, bytes, &agreed);
	assert_false(agreed.header_digest || agreed.data_digest);
	return agreed.odd_digest;
}
#define IS_ODD(text) is_odd(text, sizeof(text))

static void
test_digests_that_nobody_offers_are_noted(void **state)
{
	assert_false(IS_ODD("HeaderDigest=None\0DataDigest=Reject"));
	assert_false(IS_ODD("HeaderDigest=NotUnderstood\0DataDigest=Irrelevant"));
	assert_true(IS_ODD("HeaderDigest=crc32c"));
	assert_true(IS_ODD("DataDigest=CRC32C,None"));
	assert_true(IS_ODD("DataDigest="));
	assert_true(IS_ODD("DataDigest=X\0DataDigest=None")); /* also when it thinks better of it */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_digests_are_those_of_the_standard),
		cmocka_unit_test(test_a_command_has_its_fields_where_they_belong),
		cmocka_unit_test(test_data_out_has_its_fields_where_they_belong),
		cmocka_unit_test(test_task_management_and_logout_are_immediate),
		cmocka_unit_test(test_headers_of_the_target_are_understood),
		cmocka_unit_test(test_only_what_targets_send_is_accepted),
		cmocka_unit_test(test_serial_numbers_wrap),
		cmocka_unit_test(test_padding_goes_to_four),
		cmocka_unit_test(test_keys_of_a_login_are_taken_where_they_make_sense),
		cmocka_unit_test(test_digests_that_nobody_offers_are_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
