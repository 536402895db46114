/* Whose session a member may still be closing, in the state folder: what was written is read, and what
 * makes no sense proves nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "adapters/base/files.h"
#include "adapters/config/config.h"
#include "adapters/config/preempted.h"
#include "../scratch.h"

static const uint8_t volume[16] = { 1 }, other[16] = { 2 };
static const struct member_address member = { .portal = "127.0.0.1:3260",
					      .iqn = "iqn.a",
					      .lun = 1 };
static const struct member_address second = { .portal = "127.0.0.1:3260",
					      .iqn = "iqn.a",
					      .lun = 2 };

static const struct member_address by_another_portal = { .portal = "gw:3260",
							 .iqn = "iqn.a",
							 .lun = 1 };

static struct scsi_preempted
recalled(const uint8_t uuid[16], const struct member_address *of)
{
	struct scsi_preempted out = { .key = 99 };

	assert_int_equal(preempted_recall(uuid, of, &out), 0);
	return out;
}

static void
test_what_is_recorded_is_recalled_of_that_member_alone(void **state)
{
	const struct scsi_preempted known = {
		.key = 0xAA11,
		.followable = true,
		.portal_group = 3,
		.nexus = { .initiator = "iqn.b:gateway", .isid = { 0x80, 1, 2, 0xFE, 4, 5 } },
	};
	const struct scsi_preempted unknown = { .key = UINT64_MAX };
	struct scsi_preempted out;

	(void)state;
	assert_true(recalled(volume, &member).key == 0);
	assert_int_equal(preempted_record(volume, &member, &known), 0);
	assert_int_equal(preempted_record(volume, &second, &unknown), 0);
	out = recalled(volume, &member);
	assert_true(out.key == 0xAA11 && out.followable && out.portal_group == 3);
	assert_string_equal(out.nexus.initiator, known.nexus.initiator);
	assert_memory_equal(out.nexus.isid, known.nexus.isid, 6);
	out = recalled(volume, &second);
	assert_true(out.key == UINT64_MAX && !out.followable);
	assert_true(recalled(other, &member).key == 0);
	assert_true(recalled(volume, &by_another_portal).key == 0xAA11);
	assert_int_equal(preempted_record(volume, &member, &(struct scsi_preempted){ .key = 0 }),
			 0);
	assert_true(recalled(volume, &member).key == 0);
	assert_int_equal(preempted_record(volume, &member, &(struct scsi_preempted){ .key = 0 }),
			 0); /* as often as one likes */
}

static void
test_a_volume_that_is_forgotten_leaves_nothing(void **state)
{
	const struct scsi_preempted unknown = { .key = 5 };

	(void)state;
	assert_int_equal(preempted_forget(volume), 0); /* no folder yet */
	assert_int_equal(preempted_record(volume, &member, &unknown), 0);
	assert_int_equal(preempted_record(volume, &second, &unknown), 0);
	assert_int_equal(preempted_record(other, &member, &unknown), 0);
	assert_int_equal(volume_forget(volume), 0);
	assert_true(recalled(volume, &member).key == 0);
	assert_true(recalled(volume, &second).key == 0);
	assert_true(recalled(other, &member).key == 5);
}

static void
test_what_makes_no_sense_is_an_error(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"5\n",
		"5 - - - \n",
		"0000000000000000 - - -\n",
		"x - - -\n",
		"5 1 800102030405 \n",
		"5 1 8001020304zz iqn.b\n",
		"5 1 80010203 iqn.b\n",
	};
	char folder[PATH_MAX], name[64];
	uint64_t hash = hash_bytes(HASH_BEGIN, member.iqn, strlen(member.iqn));
	struct scsi_preempted out;

	(void)state;
	assert_int_equal(preempted_record(volume, &member, &(struct scsi_preempted){ .key = 5 }),
			 0);
	snprintf(folder, sizeof(folder), "%s/preempted", state_dir());
	hash = hash_bytes(hash, &member.lun, sizeof(member.lun));
	snprintf(name, sizeof(name), "01000000-0000-0000-0000-000000000000.%016llx",
		 (unsigned long long)hash);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(file_replace(folder, name, texts[i], strlen(texts[i]), 0600), 0);
		assert_int_equal(preempted_recall(volume, &member, &out), -EINVAL);
		assert_true(out.key == 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_what_is_recorded_is_recalled_of_that_member_alone, scratch_make,
			scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_volume_that_is_forgotten_leaves_nothing,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_what_makes_no_sense_is_an_error, scratch_make,
						scratch_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
