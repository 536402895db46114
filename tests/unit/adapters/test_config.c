/* Configuration files and the state of a gateway: what is written reads back, what is wrong is
 * refused by a line that names file and key, and no bytes whatever do harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "files.h"
#include "scratch.h"

#define FUZZ_ROUNDS 20000

static const char good[] =
	"/* from the operator's manual */ {\n"
	"  \"name\": \"v0\", \"uuid\": \"3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\",\n"
	"  \"members\": [ \"10.0.0.1/iqn.2026-01.org.example:a/0\", /* rack 1 */\n"
	"               \"[fd00::4]:3261/iqn.2026-01.org.example:b/7\" ],\n"
	"  \"initiator\": \"iqn.2026-01.org.iraid:gw:v0\", \"give_up_seconds\": 7,\n"
	"  \"queue_limit_seconds\": 30, \"assembly_wait_seconds\": 3,\n"
	"  \"chap_file\": \"/etc/iraid/secrets/v0\", \"enabled\": false }\n";

static int
parse(const char *text, size_t length, struct volume_config *out, char *reason, size_t size)
{
	return volume_config_parse(text, length, "v0", "FILE", out, reason, size);
}

static void
names_that_could_harm_are_refused(void **state)
{
	char longest[LAYOUT_NAME_MAX + 2];

	for (int i = 0; i < LAYOUT_NAME_MAX + 1; i++)
		longest[i] = 'n';
	longest[LAYOUT_NAME_MAX + 1] = '\0';
	assert_non_null(volume_name_fault(longest));
	longest[LAYOUT_NAME_MAX] = '\0';
	assert_null(volume_name_fault(longest));
	assert_null(volume_name_fault("v0"));
	assert_null(volume_name_fault("A.b_c-9"));
	assert_non_null(volume_name_fault(""));
	assert_non_null(volume_name_fault("a/b"));
	assert_non_null(volume_name_fault("a:b"));
	assert_non_null(volume_name_fault("a b"));
	assert_non_null(volume_name_fault(".."));
	assert_non_null(volume_name_fault("-rf"));
	assert_non_null(volume_name_fault("a;b"));
	assert_non_null(volume_name_fault("\xc3\xa4"));
	assert_non_null(initiator_name_fault("v0"));
	assert_non_null(initiator_name_fault("iqn."));
	assert_non_null(initiator_name_fault("iqn.2026-01.org.iraid:Gateway"));
	assert_null(initiator_name_fault("iqn.2026-01.org.iraid:gateway:v0"));
}

static void
every_key_is_read_and_comments_are_passed_over(void **state)
{
	struct volume_config config;
	char reason[256] = "";

	assert_int_equal(parse(good, strlen(good), &config, reason, sizeof(reason)), 0);
	assert_string_equal(config.name, "v0");
	assert_int_equal(config.uuid[0], 0x3f);
	assert_int_equal(config.uuid[15], 0x10);
	assert_int_equal(config.device_count, 2);
	assert_string_equal(config.devices[0].address.portal, "10.0.0.1:3260");
	assert_string_equal(config.devices[1].address.portal, "[fd00::4]:3261");
	assert_int_equal(config.devices[1].address.lun, 7);
	assert_string_equal(config.initiator, "iqn.2026-01.org.iraid:gw:v0");
	assert_string_equal(config.chap_file, "/etc/iraid/secrets/v0");
	assert_int_equal(config.give_up_seconds, 7);
	assert_int_equal(config.queue_limit_seconds, 30);
	assert_int_equal(config.assembly_wait_seconds, 3);
	assert_false(config.enabled);
}

static void
the_sample_that_is_shipped_is_accepted(void **state)
{
	struct volume_config config;
	char path[PATH_MAX], reason[256] = "";
	const char *end = strstr(__FILE__, "tests/unit/adapters/");
	char *text;
	size_t length;

	assert_non_null(end);
	snprintf(path, sizeof(path), "%.*sconfig/volume.json.sample", (int)(end - __FILE__), __FILE__);
	assert_int_equal(file_read(path, 65536, &text, &length), 0);
	if (parse(text, length, &config, reason, sizeof(reason)) != 0)
		fail_msg("%s", reason);
	assert_int_equal(config.device_count, 4);
	free(text);
}

static void
what_is_left_out_gets_its_default(void **state)
{
	static const char text[] = "{\"name\":\"v0\",\"uuid\":\"3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\","
				   "\"members\":[\"a/iqn.x:a/0\",\"b/iqn.x:b/0\"]}";
	struct volume_config config;
	char reason[256] = "";

	assert_int_equal(parse(text, strlen(text), &config, reason, sizeof(reason)), 0);
	assert_int_equal(config.give_up_seconds, 5);
	assert_int_equal(config.queue_limit_seconds, 25);
	assert_int_equal(config.assembly_wait_seconds, 10);
	assert_int_equal(config.sync_rate_min, 10 << 20);
	assert_int_equal(config.sync_rate_max, 1 << 30);
	assert_int_equal(config.hedge_milliseconds, 500);
	assert_int_equal(config.spare_wait_seconds, 60);
	assert_int_equal(config.error_limit, 64);
	assert_false(config.header_digest);
	assert_true(config.enabled);
	assert_string_equal(config.chap_file, "");
	assert_null(initiator_name_fault(config.initiator));
	assert_string_equal(config.initiator + strlen(config.initiator) - 3, ":v0");
}

/* good[] with `from` replaced by `to` must be refused, and the reason must hold `named`. */
static void
refused(const char *from, const char *to, const char *named)
{
	char text[8192], reason[512] = "";
	struct volume_config config, before;
	const char *place = strstr(good, from);

	assert_non_null(place);
	assert_true(snprintf(text, sizeof(text), "%.*s%s%s", (int)(place - good), good, to,
			     place + strlen(from)) < (int)sizeof(text));
	memset(&config, 0x5a, sizeof(config));
	before = config;
	if (parse(text, strlen(text), &config, reason, sizeof(reason)) != -EINVAL)
		fail_msg("accepted with %s instead of %s", to, from);
	assert_memory_equal(&config, &before, sizeof(config));
	if (strncmp(reason, "FILE: ", 6) != 0 || !strstr(reason, named))
		fail_msg("\"%s\" names not both file and \"%s\"", reason, named);
}

static void
faults_are_refused_and_named(void **state)
{
	char many[4096] = "\"members\": [";

	refused("\"enabled\"", "\"enabeld\"", "enabeld");
	refused("\"name\": \"v0\"", "\"name\": \"v1\"", "v1");
	refused("\"name\": \"v0\",", "", "\"name\" is missing");
	refused("\"uuid\": \"3f0c", "\"uuid\": \"3f0", "uuid");
	refused("3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10", "00000000-0000-0000-0000-000000000000", "uuid");
	refused("/iqn.2026-01.org.example:a/0", "/iqn.2026-01.org.example:a", "member \"10.0.0.1/iqn");
	refused(", /* rack 1 */\n               \"[fd00::4]:3261/iqn.2026-01.org.example:b/7\"", "", "1 entries");
	refused("\"[fd00::4]:3261/iqn.2026-01.org.example:b/7\"", "5", "members");
	refused("\"iqn.2026-01.org.iraid:gw:v0\"", "\"gw\"", "initiator");
	refused("[fd00::4]:3261/iqn.2026-01.org.example:b/7", "10.0.0.1:3260/iqn.2026-01.org.example:a/0", "twice");
	refused("10.0.0.1/iqn", "10.0.0.1,10.0.0.1:3260/iqn", "portal is given twice");
	refused("10.0.0.1/iqn", "10.0.0.1,,h/iqn", "member \"10.0.0.1,,h");
	refused("10.0.0.1/iqn", "a,b,c,d,e/iqn", "at most 4 portals");
	refused("\"give_up_seconds\": 7", "\"give_up_seconds\": 7, \"sync_rate_min_bytes\": 1000", "sync_rate_min_bytes");
	refused("\"give_up_seconds\": 7", "\"sync_rate_max_bytes\": 1048576", "above \"sync_rate_max_bytes\"");
	refused("\"give_up_seconds\": 7", "\"hedge_milliseconds\": 60001", "hedge_milliseconds");
	refused("\"give_up_seconds\": 7", "\"hedge_milliseconds\": -1", "hedge_milliseconds");
	refused("\"give_up_seconds\": 7", "\"spare_wait_seconds\": 0", "spare_wait_seconds");
	refused("\"give_up_seconds\": 7", "\"error_limit\": 0", "error_limit");
	refused("\"give_up_seconds\": 7", "\"error_limit\": 18446744073709551615", "error_limit");
	refused("\"give_up_seconds\": 7", "\"give_up_seconds\": 0", "give_up_seconds");
	refused("\"give_up_seconds\": 7", "\"give_up_seconds\": 121", "give_up_seconds");
	refused("\"give_up_seconds\": 7", "\"give_up_seconds\": \"7\"", "give_up_seconds");
	refused("\"give_up_seconds\": 7", "\"give_up_seconds\": 7.5", "give_up_seconds");
	refused("\"queue_limit_seconds\": 30", "\"queue_limit_seconds\": -1", "queue_limit_seconds");
	refused("\"assembly_wait_seconds\": 3", "\"assembly_wait_seconds\": 99999", "assembly_wait_seconds");
	refused("\"/etc/iraid/secrets/v0\"", "\"secrets/v0\"", "chap_file");
	refused("\"/etc/iraid/secrets/v0\"", "\"/etc/\\u0000\"", "NUL");
	refused("false }", "0 }", "enabled");
	refused("\"enabled\": false", "\"header_digest\": 1", "header_digest");
	refused("false }", "false", "ends too early");
	refused("false }", "false } {}", "after the object");
	refused("false }", "fals }", "JSON");
	for (int i = 0; i < SLOTS_MAX + 1; i++)
		sprintf(many + strlen(many), "%s\"h/iqn.x:a/%d\"", i == 0 ? "" : ", ", i);
	strcat(many, "], \"x\": [");
	refused("\"members\": [", many, "41 entries");
}

static void
a_member_may_have_several_portals(void **state)
{
	static const char several[] = "10.0.0.1,10.0.1.1:3261,[fd00::1]/iqn.x:a/3";
	struct device_address device, same;
	char text[DEVICE_TEXT_MAX];
	const char *why = "";

	assert_int_equal(device_address_parse(several, &device, &why), 0);
	assert_int_equal(device.more, 2);
	device_address_format(&device, text);
	assert_string_equal(text, "10.0.0.1:3260,10.0.1.1:3261,[fd00::1]:3260/iqn.x:a/3");
	assert_int_equal(device_address_parse(text, &same, &why), 0);
	assert_memory_equal(&device, &same, sizeof(device));
	assert_int_equal(device_address_parse("10.0.0.1/iqn.x:a/3", &same, &why), 0);
	assert_true(device_address_same(&device, &same));
	assert_int_equal(device_address_parse("10.0.1.1:3261/iqn.x:a/3", &same, &why), 0);
	assert_false(device_address_same(&device, &same));
	assert_int_equal(device_address_parse("10.0.0.1,/iqn.x:a/3", &same, &why), -EINVAL);
	assert_int_equal(device_address_parse(",10.0.0.1/iqn.x:a/3", &same, &why), -EINVAL);
	assert_int_equal(device_address_parse("10.0.0.1,10.0.1.1", &same, &why), -EINVAL);
}

static void
a_device_can_be_dropped_but_not_the_last_two(void **state)
{
	struct volume_config config;
	struct device_address third;
	char reason[256] = "";
	const char *why = "";

	assert_int_equal(parse(good, strlen(good), &config, reason, sizeof(reason)), 0);
	assert_int_equal(device_address_parse("h/iqn.x:c/1", &third, &why), 0);
	assert_int_equal(volume_config_drop(&config, &third), 0);
	assert_int_equal(config.device_count, 2);
	config.devices[config.device_count++] = third;
	third = config.devices[0];
	assert_int_equal(volume_config_drop(&config, &third), 0);
	assert_int_equal(config.device_count, 2);
	assert_string_equal(config.devices[1].address.iqn, "iqn.x:c");
	assert_int_equal(volume_config_drop(&config, &config.devices[1]), -EINVAL);
}

static void
what_is_written_reads_back_and_is_roots_alone(void **state)
{
	struct volume_config config, again;
	char reason[512] = "", path[PATH_MAX];
	struct stat status;

	assert_int_equal(parse(good, strlen(good), &config, reason, sizeof(reason)), 0);
	assert_int_equal(volume_config_read("v0", &again, reason, sizeof(reason)), -ENOENT);
	assert_non_null(strstr(reason, "v0"));
	assert_int_equal(volume_config_write(&config, reason, sizeof(reason)), 0);
	memset(&again, 0, sizeof(again));
	assert_int_equal(volume_config_read("v0", &again, reason, sizeof(reason)), 0);
	assert_memory_equal(&config.uuid, &again.uuid, 16);
	assert_memory_equal(config.devices, again.devices, sizeof(config.devices[0]) * 2);
	assert_string_equal(config.initiator, again.initiator);
	assert_string_equal(config.chap_file, again.chap_file);
	assert_int_equal(config.queue_limit_seconds, again.queue_limit_seconds);
	assert_false(again.enabled);
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.json", scratch_folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);

	config.give_up_seconds = 9;
	config.sync_rate_min = 3ull << 32;
	config.sync_rate_max = SYNC_RATE_MOST;
	config.hedge_milliseconds = 0;
	config.error_limit = 7;
	config.header_digest = true;
	assert_int_equal(volume_config_write(&config, reason, sizeof(reason)), 0);
	assert_int_equal(volume_config_read("v0", &again, reason, sizeof(reason)), 0);
	assert_int_equal(again.give_up_seconds, 9);
	assert_true(again.sync_rate_min == 3ull << 32 && again.sync_rate_max == SYNC_RATE_MOST);
	assert_int_equal(again.hedge_milliseconds, 0);
	assert_int_equal(again.error_limit, 7);
	assert_true(again.header_digest);
	assert_int_equal(volume_config_delete("v0"), 0);
	assert_int_equal(volume_config_delete("v0"), -ENOENT);
	assert_int_equal(volume_config_delete("../v0"), -EINVAL);
}

static void
the_list_is_sorted_and_holds_volumes_only(void **state)
{
	char names[8][LAYOUT_NAME_MAX + 1], folder[PATH_MAX];

	assert_int_equal(volume_config_list(names, 8), 0);
	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/b.json", "");
	scratch_write("etc/volumes/a.json", "not JSON, and still a volume to show");
	scratch_write("etc/volumes/.a.json.12.new", "");
	scratch_write("etc/volumes/a.json~", "");
	scratch_write("etc/volumes/.json", "");
	scratch_write("etc/volumes/a b.json", "");
	assert_int_equal(volume_config_list(names, 8), 2);
	assert_string_equal(names[0], "a");
	assert_string_equal(names[1], "b");
	assert_int_equal(volume_config_list(names, 1), 1);
}

static void
a_file_too_large_is_refused(void **state)
{
	struct volume_config config;
	char folder[PATH_MAX], reason[512] = "";
	char *text = malloc(300000);

	memset(text, ' ', 300000);
	text[299999] = '\0';
	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/v0.json", text);
	assert_int_equal(volume_config_read("v0", &config, reason, sizeof(reason)), -EFBIG);
	assert_non_null(strstr(reason, "v0.json"));
	free(text);
}

static void
damaged_text_never_gives_a_configuration_out_of_bounds(void **state)
{
	uint64_t seed = 0x69726169642d6366ull;
	struct volume_config config;
	char text[sizeof(good) + 1], reason[256];
	int accepted = 0;

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		size_t length = sizeof(good) - 1;

		memcpy(text, good, sizeof(good));
		for (uint64_t hits = 1 + scratch_random(&seed) % 3; hits > 0; hits--)
			text[scratch_random(&seed) % length] = (char)scratch_random(&seed);
		if (scratch_random(&seed) % 4 == 0)
			length = scratch_random(&seed) % length;
		text[length] = '\0';
		if (parse(text, length, &config, reason, sizeof(reason)) != 0)
			continue;
		accepted++;
		assert_in_range(config.device_count, 2, SLOTS_MAX);
		assert_in_range(config.give_up_seconds, 1, GIVE_UP_SECONDS_MAX);
		assert_in_range(config.queue_limit_seconds, 1, QUEUE_LIMIT_SECONDS_MAX);
		assert_null(initiator_name_fault(config.initiator));
		assert_string_equal(config.name, "v0");
	}
	/* Damage inside comments and strings is accepted: else the test would test nothing. */
	assert_true(accepted > FUZZ_ROUNDS / 100);
}

static void
the_gateway_keeps_its_id(void **state)
{
	uint64_t first = 0, second = 0;

	assert_int_equal(gateway_id(&first), 0);
	assert_int_not_equal(first, 0);
	assert_int_equal(gateway_id(&second), 0);
	assert_true(first == second);
	scratch_write("state/gateway-id", "not a number\n");
	assert_int_equal(gateway_id(&second), -EINVAL);
}

static void
epochs_are_kept_by_volume_and_damage_is_not_zero(void **state)
{
	const uint8_t a[16] = { 1 }, b[16] = { 2 };
	uint64_t epoch = 99;

	assert_int_equal(epoch_recall(a, &epoch), 0);
	assert_int_equal(epoch, 0);
	assert_int_equal(epoch_record(a, 7), 0);
	assert_int_equal(epoch_record(b, UINT64_MAX), 0);
	assert_int_equal(epoch_record(a, 8), 0);
	assert_int_equal(epoch_recall(a, &epoch), 0);
	assert_int_equal(epoch, 8);
	assert_int_equal(epoch_recall(b, &epoch), 0);
	assert_true(epoch == UINT64_MAX);
	scratch_write("state/epochs/01000000-0000-0000-0000-000000000000", "8");	/* torn: no newline */
	assert_int_equal(epoch_recall(a, &epoch), -EINVAL);
	assert_int_equal(level_recall(a), -1);
	assert_int_equal(level_record(a, 5), 0);
	assert_int_equal(level_recall(a), 5);
	assert_int_equal(volume_forget(a), 0);
	assert_int_equal(epoch_recall(a, &epoch), 0);
	assert_int_equal(epoch, 0);
	assert_int_equal(level_recall(a), -1);
}

static void
a_file_is_replaced_whole_or_created_once(void **state)
{
	char path[PATH_MAX], *text;
	size_t length;

	assert_int_equal(file_replace(scratch_folder, "f", "one", 3, 0600), 0);
	assert_int_equal(file_replace(scratch_folder, "f", "three", 5, 0600), 0);
	assert_int_equal(file_create(scratch_folder, "f", "four", 4, 0600), -EEXIST);
	snprintf(path, sizeof(path), "%s/f", scratch_folder);
	assert_int_equal(file_read(path, 5, &text, &length), 0);
	assert_int_equal(length, 5);
	assert_string_equal(text, "three");
	free(text);
	assert_int_equal(file_read(path, 4, &text, &length), -EFBIG);
	assert_int_equal(file_remove(scratch_folder, "f"), 0);
	/* Nothing else is left behind: the folder can go. */
	assert_int_equal(rmdir(scratch_folder), 0);
	assert_int_equal(mkdir(scratch_folder, 0700), 0);
}

#define SCRATCH_TEST(function) cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_could_harm_are_refused),
		cmocka_unit_test(every_key_is_read_and_comments_are_passed_over),
		cmocka_unit_test(the_sample_that_is_shipped_is_accepted),
		cmocka_unit_test(what_is_left_out_gets_its_default),
		cmocka_unit_test(faults_are_refused_and_named),
		cmocka_unit_test(a_member_may_have_several_portals),
		cmocka_unit_test(a_device_can_be_dropped_but_not_the_last_two),
		SCRATCH_TEST(what_is_written_reads_back_and_is_roots_alone),
		SCRATCH_TEST(the_list_is_sorted_and_holds_volumes_only),
		SCRATCH_TEST(a_file_too_large_is_refused),
		cmocka_unit_test(damaged_text_never_gives_a_configuration_out_of_bounds),
		SCRATCH_TEST(the_gateway_keeps_its_id),
		SCRATCH_TEST(epochs_are_kept_by_volume_and_damage_is_not_zero),
		SCRATCH_TEST(a_file_is_replaced_whole_or_created_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
