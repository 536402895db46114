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

#include "adapters/config/search.h"
#include "adapters/config/volume_file.h"
#include "adapters/base/files.h"
#include "../scratch.h"

#define FUZZ_ROUNDS 8000

static const char good[] = "# from the operator's manual\n"
			   "[volume]\n"
			   "uuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
			   "\t; rack 1\n"
			   "member = 10.0.0.1/iqn.2026-01.org.example:a/0\n"
			   "member=[fd00::4]:3261/iqn.2026-01.org.example:b/7   \n"
			   "\n"
			   "initiator = iqn.2026-01.org.iraid:gw:v0\n"
			   "  Give_Up = 7s\n"
			   "queue_limit = 30s\n"
			   "assembly_wait = 3s\n"
			   "chap_file = /etc/iraid/secrets/v0\n"
			   "enabled = no\n";

/* As volume_config_read() does with a file's text. */
static int
parse(const char *text, size_t length, struct volume_config *out, struct fault *fault)
{
	static struct volume_config defaults;
	static struct volume_file file;
	static struct config_faults faults;

	faults.count = faults.passed_over = 0;
	volume_config_defaults(&defaults, "v0");
	assert_int_equal(volume_file_parse(text, length, &defaults, &file, &faults), 0);
	if (faults.count > 0)
		return config_faults_tell(&faults, "FILE", -EINVAL, fault);
	*out = file.config;
	return 0;
}

static void
test_names_that_could_harm_are_refused(void **state)
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
test_every_key_is_read_and_comments_are_passed_over(void **state)
{
	struct volume_config config;
	struct fault fault;

	if (parse(good, strlen(good), &config, &fault) != 0)
		fail_msg("%s", fault.message);
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
test_the_sample_that_is_shipped_is_accepted(void **state)
{
	struct volume_config config;
	struct fault fault;
	char path[PATH_MAX];
	const char *end = strstr(__FILE__, "tests/unit/adapters/");
	char *text;
	size_t length;

	assert_non_null(end);
	snprintf(path, sizeof(path), "%.*sconfig/volume.conf.sample", (int)(end - __FILE__),
		 __FILE__);
	assert_int_equal(file_read(path, 65536, &text, &length), 0);
	if (parse(text, length, &config, &fault) != 0)
		fail_msg("%s", fault.message);
	assert_int_equal(config.device_count, 4);
	free(text);
}

static void
test_what_is_left_out_gets_its_default(void **state)
{
	static const char text[] = "[volume]\nuuid=3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
				   "member=a/iqn.x:a/0\nmember=b/iqn.x:b/0";
	struct volume_config config;
	struct fault fault;

	assert_int_equal(parse(text, strlen(text), &config, &fault), 0);
	assert_int_equal(config.give_up_seconds, 5);
	assert_int_equal(config.queue_limit_seconds, 25);
	assert_int_equal(config.assembly_wait_seconds, 10);
	assert_int_equal(config.sync_rate_min, 10 << 20);
	assert_int_equal(config.sync_rate_max, 1 << 30);
	assert_int_equal(config.hedge_milliseconds, 500);
	assert_int_equal(config.spare_wait_seconds, 60);
	assert_int_equal(config.error_limit, 64);
	assert_int_equal(config.log, LOG_MODE_DEGRADED);
	assert_int_equal(config.redirects, REDIRECTS_PORTALS);
	assert_int_equal(config.header_digest, ISCSI_DIGEST_NONE);
	assert_int_equal(config.data_digest, ISCSI_DIGEST_NONE);
	assert_true(config.enabled);
	assert_string_equal(config.chap_file, "");
	assert_null(initiator_name_fault(config.initiator));
	assert_string_equal(config.initiator + strlen(config.initiator) - 3, ":v0");
}

/* Where yes let a target decline. */
static void
test_digests_of_files_of_0_1_0_are_understood(void **state)
{
	static const char text[] = "[volume]\nuuid=3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
				   "member=a/iqn.x:a/0\nmember=b/iqn.x:b/0\n"
				   "header_digest = yes\ndata_digest = no\n";
	struct volume_config config;
	struct fault fault;

	assert_int_equal(parse(text, strlen(text), &config, &fault), 0);
	assert_int_equal(config.header_digest, ISCSI_DIGEST_PREFERRED);
	assert_int_equal(config.data_digest, ISCSI_DIGEST_NONE);
}

/* good[] with `from` replaced by `to` must be refused, and the reason must hold `named`. */
static void
refused(const char *from, const char *to, const char *named)
{
	struct fault fault;
	char text[8192];
	struct volume_config config, before;
	const char *place = strstr(good, from);

	assert_non_null(place);
	assert_true(snprintf(text, sizeof(text), "%.*s%s%s", (int)(place - good), good, to,
			     place + strlen(from)) < (int)sizeof(text));
	memset(&config, 0x5a, sizeof(config));
	before = config;
	if (parse(text, strlen(text), &config, &fault) != -EINVAL)
		fail_msg("accepted with %s instead of %s", to, from);
	assert_memory_equal(&config, &before, sizeof(config));
	if (strncmp(fault.message, "FILE:", 5) != 0 || !strstr(fault.message, named))
		fail_msg("\"%s\" names not both file and \"%s\"", fault.message, named);
}

static void
test_faults_are_refused_with_file_line_key_and_remedy(void **state)
{
	char many[4096] = "";

	refused("enabled = no", "enabeld = no",
		"FILE:13: enabeld: there is no such key in [volume]; did you mean enabled?");
	refused("enabled = no", "colour = no",
		"FILE:13: colour: there is no such key in [volume]; iraid.conf(5)");
	refused("enabled = no", "[vloume]\nenabled = no",
		"FILE:14: enabled: section [vloume] is not known");
	refused("[volume]", "", "FILE:3: this line is in no section; put the section's heading");
	refused("[volume]", "[volume] # mine",
		"FILE:2: the heading of a section does not end with ]");
	refused("enabled = no", "enabled", "FILE:13: the line is neither");
	refused("enabled = no", "= no", "FILE:13: there is no key in front of =");
	refused("enabled = no", "enabled =", "FILE:13: enabled: it has no value");
	refused("enabled = no", "enabled = no # for now",
		"FILE:13: enabled: \"# for now\" is part of the value");
	refused("enabled = no", "enabled = no\nEnabled = yes",
		"FILE:14: enabled: it occurs twice, first in line 13");
	refused("enabled = no", "enabled = maybe",
		"FILE:13: enabled: \"maybe\" is neither yes nor no; write yes or no");
	refused("enabled = no", "enabled = n\x01o", "FILE:13: it has a control character");
	refused("enabled = no", "# \xff\xfe", "FILE:13: it is not UTF-8");
	refused("uuid = 3f0c", "uuid = 3f0", "FILE:3: uuid: ");
	refused("3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10", "00000000-0000-0000-0000-000000000000",
		"uuid");
	refused("uuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n", "", "FILE: uuid: it is missing");
	refused("/iqn.2026-01.org.example:a/0", "/iqn.2026-01.org.example:a",
		"FILE:5: member: \"10.0.0.1/iqn");
	refused("member=[fd00::4]:3261/iqn.2026-01.org.example:b/7", "",
		"2 members or more, the file has 1");
	refused("iqn.2026-01.org.iraid:gw:v0", "gw", "FILE:8: initiator: \"gw\"");
	refused("[fd00::4]:3261/iqn.2026-01.org.example:b/7",
		"10.0.0.1:3260/iqn.2026-01.org.example:a/0", "twice");
	refused("10.0.0.1/iqn", "10.0.0.1,10.0.0.1:3260/iqn", "portal is given twice");
	refused("10.0.0.1/iqn", "10.0.0.1,,h/iqn", "member: \"10.0.0.1,,h");
	refused("10.0.0.1/iqn", "a,b,c,d,e/iqn", "at most 4 portals");
	refused("Give_Up = 7s", "sync_rate_min = 1000",
		"FILE:9: sync_rate_min: \"1000\" is too little; choose 64K to 1T");
	refused("Give_Up = 7s", "sync_rate_max = 1M\nsync_rate_min = 1048577",
		"FILE:10: sync_rate_min: 1048577 is above sync_rate_max, 1M");
	refused("Give_Up = 7s", "sync_rate_max = 1MB", "is not a rate");
	refused("Give_Up = 7s", "sync_rate_max = 99999999999T", "is not a rate");
	refused("Give_Up = 7s", "sync_rate_max = 18446744073709551616", "is not a rate");
	refused("Give_Up = 7s", "hedge = 60001ms",
		"FILE:9: hedge: \"60001ms\" is too much; choose 0 to 1min");
	refused("Give_Up = 7s", "hedge = -1", "hedge: \"-1\" is not a time");
	refused("Give_Up = 7s", "hedge = 500",
		"FILE:9: hedge: \"500\" has no unit; write 500ms, 5s");
	refused("Give_Up = 7s", "spare_wait = 0", "spare_wait");
	refused("Give_Up = 7s", "error_limit = 0", "error_limit: \"0\" is too little");
	refused("Give_Up = 7s", "error_limit = 18446744073709551615", "error_limit");
	refused("Give_Up = 7s", "give_up = 0s", "give_up: \"0s\" is too little; choose 1s to 2min");
	refused("Give_Up = 7s", "give_up = 121s",
		"give_up: \"121s\" is too much; choose 1s to 2min");
	refused("Give_Up = 7s", "give_up = 1500ms",
		"give_up: \"1500ms\" is not a whole number of seconds");
	refused("Give_Up = 7s", "give_up = 7.5s", "give_up: \"7.5s\" is not a time");
	refused("assembly_wait = 3s", "assembly_wait = 2h", "assembly_wait");
	refused("/etc/iraid/secrets/v0", "secrets/v0",
		"FILE:12: chap_file: \"secrets/v0\" is not an absolute path");
	refused("enabled = no", "header_digest = 2",
		"FILE:13: header_digest: \"2\" is none of none, preferred and required; "
		"write none, preferred or required");
	refused("enabled = no", "data_digest = crc32c",
		"FILE:13: data_digest: \"crc32c\" is none of none, preferred and required");
	refused("enabled = no", "log = sometimes",
		"FILE:13: log: \"sometimes\" is none of off, degraded and always; "
		"write off, degraded or always");
	refused("enabled = no", "log = yes", "FILE:13: log: \"yes\" is none of off, degraded and");
	refused("enabled = no", "log = degraded off", "FILE:13: log: \"degraded off\" is none of");
	refused("enabled = no", "log =", "FILE:13: log: it has no value");
	for (int i = 0; i < SLOTS_MAX; i++)
		sprintf(many + strlen(many), "member = h/iqn.x:a/%d\n", i);
	refused("enabled = no", many, "one device more than a volume can have");
}

static void
test_the_write_log_is_off_degraded_or_always(void **state)
{
	static const char *const off[] = { "off", "OFF", "no", "false", "0" };
	struct volume_config config;
	struct fault fault;
	char text[8192];

	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		snprintf(text, sizeof(text), "%slog = %s\n", good, off[i]);
		assert_int_equal(parse(text, strlen(text), &config, &fault), 0);
		assert_int_equal(config.log, LOG_MODE_OFF);
	}
	snprintf(text, sizeof(text), "%sLog = Degraded\n", good);
	assert_int_equal(parse(text, strlen(text), &config, &fault), 0);
	assert_int_equal(config.log, LOG_MODE_DEGRADED);
	snprintf(text, sizeof(text), "%slog = ALWAYS\n", good);
	assert_int_equal(parse(text, strlen(text), &config, &fault), 0);
	assert_int_equal(config.log, LOG_MODE_ALWAYS);
}

static void
test_a_file_with_a_nul_is_refused(void **state)
{
	struct volume_config config;
	struct fault fault;
	char text[sizeof(good)];

	memcpy(text, good, sizeof(good));
	*strstr(text, "/v0") = '\0'; /* what stands before it would be another path */
	assert_int_equal(parse(text, strlen(good), &config, &fault), -EINVAL);
	assert_non_null(strstr(fault.message, "FILE:12: it has a control character, byte 0x00"));
}

static void
test_all_faults_of_a_file_are_found_at_once(void **state)
{
	static const char text[] = "[volume]\nnonsense\nuuid = x\ngive_up = 5\n[volume\nhegde = "
				   "5s\nmember = a/iqn.x:a/0\n";
	static struct config_faults faults;
	static struct volume_config defaults;
	static struct volume_file file;
	static const int lines[] = { 2, 3, 4, 5, 6, 7 };

	faults.count = 0;
	volume_config_usual(&defaults);
	assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults), 0);
	assert_int_equal(faults.count, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(faults.list[i].line, lines[i]);
}

static void
test_a_name_that_can_not_be_is_named_and_the_rest_of_the_file_holds(void **state)
{
	static const struct {
		const char *line, *named; /* NULL: it is none */
	} cases[] = {
		{ "gr\xc3\xb6\xc3\x9f"
		  "e = 5",
		  "FILE:2: gr\xc3\xb6\xc3\x9f"
		  "e: there is no such key in [volume]; iraid.conf(5)" },
		{ "  \xe2\x82\xac=5", "FILE:2: \xe2\x82\xac: there is no such key in [volume]" },
		{ "give!up = 5s\r", "FILE:2: give!up: there is no such key" },
		{ "!=5", "FILE:2: !: there is no such key" },
		{ "give\tup = 5s", "FILE:2: give?up: there is no such key" },
		{ "give\rup = 5s", "FILE:2: give?up: there is no such key" },
		{ "gr\xc3 = 5", "FILE:2: it is not UTF-8" },
		{ "gr\xc3\xb6\xc3\x9f"
		  "e",
		  "FILE:2: the line is neither" },
		{ "# gr\xc3\xb6\xc3\x9f"
		  "e! = 5",
		  NULL },
		{ "chap_file = /gr\xc3\xb6\xc3\x9f"
		  "e!\t!",
		  "FILE:12: chap_file: it occurs twice, first in line 2" },
	};
	static const char *const sections[] = { "[gr\xc3\xb6\xc3\x9f"
						"e]",
						" [a!b] ", "[a\tb]\r", "[a]\xc3\xb6]",
						"[a!b] # mine" };
	static struct config_faults faults;
	static struct volume_config defaults;
	static struct volume_file file;
	char text[4096], expected[64];
	struct fault shown;

	volume_config_usual(&defaults);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sprintf(text, "[volume]\n%s\n%s", cases[i].line, strstr(good, "uuid"));
		faults.count = faults.passed_over = 0;
		assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults),
				 0);
		config_faults_tell(&faults, "FILE", -EINVAL, &shown);
		if (cases[i].named ? faults.count != 1 || strncmp(shown.message, cases[i].named,
								  strlen(cases[i].named)) != 0
				   : faults.count > 0)
			fail_msg("line %s: %d faults, \"%s\"", cases[i].line, faults.count,
				 shown.message);
		assert_int_equal(file.config.device_count, 2);
		assert_int_equal(file.config.give_up_seconds, 7);
	}
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		sprintf(text, "%s%s\ngive_up = 9s\nnonsense\n[volume]\nhedge = 7s\n", good,
			sections[i]);
		sprintf(expected, "FILE:14: section [%s",
			i == 0 ? "gr\xc3\xb6\xc3\x9f"
				 "e]"
			       : "a");
		faults.count = faults.passed_over = 0;
		assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults),
				 0);
		config_faults_tell(&faults, "FILE", -EINVAL, &shown);
		if (faults.count != 1 || strncmp(shown.message, expected, strlen(expected)) != 0)
			fail_msg("%s: %d faults, \"%s\"", sections[i], faults.count, shown.message);
		assert_int_equal(file.config.device_count, 2);
		assert_int_equal(file.config.give_up_seconds, 7);
		assert_int_equal(file.config.hedge_milliseconds, 7000);
	}
}

/* Whatever ASCII a name holds. */
static void
test_no_name_makes_a_file_unreadable(void **state)
{
	static struct config_faults faults;
	static struct volume_config defaults;
	static struct volume_file file;
	char text[4096];

	volume_config_usual(&defaults);
	for (int c = 1; c < 0x7f; c++) {
		for (int form = 0; form < 4; form++) {
			sprintf(text, form < 2 ? "%s%s%cb = 1\n" : "%s[%s%cb]\n", good,
				form % 2 ? "" : "a", c);
			faults.count = faults.passed_over = 0;
			assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file,
							   &faults),
					 0);
			if (faults.count > 0 && c >= ' ' && faults.list[0].line == 0)
				fail_msg("%02x: %s", c, faults.list[0].what);
		}
	}
}

static void
test_of_two_rates_the_one_that_is_in_the_file_wins(void **state)
{
	static struct volume_config defaults;
	static struct volume_file file;
	static struct config_faults faults;
	char text[4096];

	volume_config_usual(&defaults);
	defaults.sync_rate_max = 20 << 20;
	sprintf(text, "%ssync_rate_min = 30M\n", good);
	assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_int_equal(file.config.sync_rate_min, 30 << 20);
	assert_int_equal(file.config.sync_rate_max, 30 << 20);
	sprintf(text, "%ssync_rate_max = 5M\n", good);
	assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_int_equal(file.config.sync_rate_min, 5 << 20);
	assert_int_equal(file.config.sync_rate_max, 5 << 20);
}

static void
test_what_a_fault_quotes_ends_with_a_whole_character(void **state)
{
	static struct config_faults faults;
	static struct volume_config defaults;
	static struct volume_file file;
	char text[1024], what[512] = "", out[16];

	assert_int_equal(text_fit("a\xc3\xb6z", 9), 4);
	assert_int_equal(text_fit("a\xc3\xb6z", 4), 4);
	assert_int_equal(text_fit("a\xc3\xb6z", 3), 3);
	assert_int_equal(text_fit("a\xc3\xb6z", 2), 1);
	assert_int_equal(text_fit("", 0), 0);
	/* Cut by the one who quotes, at 200 bytes, and by the room there is. */
	sprintf(text, "[volume]\ngive_up = %0199d\xe2\x82\xac\n", 0);
	volume_config_usual(&defaults);
	assert_int_equal(volume_file_parse(text, strlen(text), &defaults, &file, &faults), 0);
	for (int i = 0; i < faults.count; i++) {
		if (strcmp(faults.list[i].key, "give_up") == 0)
			strcpy(what, faults.list[i].what);
	}
	sprintf(text, "\"%0199d\" is not a time", 0);
	assert_string_equal(what, text);
	faults.count = 0;
	config_fault_add(&faults, 1, "", "", "%0510d\xe2\x82\xac", 0);
	assert_int_equal(strlen(faults.list[0].what), 510);
	config_fault_add(&faults, 1, "k\xc3", "", "\xff\xe2\x82 \xed\xa0\x80 \xc3\xb6\x01");
	assert_string_equal(faults.list[1].what, "??? ??? \xc3\xb6?");
	assert_string_equal(faults.list[1].key, "k");
	config_fault_add(&faults, 1, "", "", "123456789\xe2\x82\xac");
	config_fault_format(&faults.list[2], "F", out, sizeof(out)); /* 17 bytes into 15 */
	assert_string_equal(out, "F:1: 123456789");
}

static void
test_a_member_may_have_several_portals(void **state)
{
	static const char several[] = "10.0.0.1,10.0.1.1:3261,[fd00::1]/iqn.x:a/3";
	struct device_address device, same;
	char text[DEVICE_TEXT_MAX];
	struct fault why;

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
test_a_device_can_be_dropped_but_not_the_last_two(void **state)
{
	struct volume_config config;
	struct device_address third;
	struct fault fault;
	struct fault why;

	assert_int_equal(parse(good, strlen(good), &config, &fault), 0);
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
test_what_is_written_reads_back_and_is_roots_alone(void **state)
{
	struct volume_config config, again;
	struct fault fault;
	char path[PATH_MAX];
	struct stat status;

	assert_int_equal(parse(good, strlen(good), &config, &fault), 0);
	assert_int_equal(volume_config_read("v0", &again, &fault), -ENOENT);
	assert_non_null(strstr(fault.message, "v0"));
	assert_int_equal(volume_config_write(&config, &fault), 0);
	memset(&again, 0, sizeof(again));
	assert_int_equal(volume_config_read("v0", &again, &fault), 0);
	assert_memory_equal(&config.uuid, &again.uuid, 16);
	assert_memory_equal(config.devices, again.devices, sizeof(config.devices[0]) * 2);
	assert_string_equal(config.initiator, again.initiator);
	assert_string_equal(config.chap_file, again.chap_file);
	assert_int_equal(config.queue_limit_seconds, again.queue_limit_seconds);
	assert_false(again.enabled);
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);

	config.give_up_seconds = 9;
	config.sync_rate_min = 3ull << 32;
	config.sync_rate_max = SYNC_RATE_MOST;
	config.hedge_milliseconds = 0;
	config.error_limit = 7;
	config.redirects = REDIRECTS_NO;
	config.header_digest = ISCSI_DIGEST_REQUIRED;
	config.data_digest = ISCSI_DIGEST_PREFERRED;
	config.log = LOG_MODE_OFF;
	assert_int_equal(volume_config_write(&config, &fault), 0);
	assert_int_equal(volume_config_read("v0", &again, &fault), 0);
	assert_int_equal(again.give_up_seconds, 9);
	assert_true(again.sync_rate_min == 3ull << 32 && again.sync_rate_max == SYNC_RATE_MOST);
	assert_int_equal(again.hedge_milliseconds, 0);
	assert_int_equal(again.error_limit, 7);
	assert_int_equal(again.redirects, REDIRECTS_NO);
	assert_int_equal(again.header_digest, ISCSI_DIGEST_REQUIRED);
	assert_int_equal(again.data_digest, ISCSI_DIGEST_PREFERRED);
	assert_int_equal(again.log, LOG_MODE_OFF);
	assert_int_equal(volume_config_delete("v0", &fault), 0);
	assert_int_equal(volume_config_delete("v0", &fault), -ENOENT);
	assert_int_equal(volume_config_delete("../v0", &fault), -EINVAL);
}

static void
test_the_list_is_sorted_and_holds_volumes_only(void **state)
{
	char names[8][LAYOUT_NAME_MAX + 1], folder[PATH_MAX];

	assert_int_equal(volume_config_list(names, 8), 0);
	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/b.conf", "");
	scratch_write("etc/volumes/a.conf", "full of faults, and still a volume to show");
	scratch_write("etc/volumes/.a.conf.12.new", "");
	scratch_write("etc/volumes/a.conf~", "");
	scratch_write("etc/volumes/.conf", "");
	scratch_write("etc/volumes/a b.conf", "");
	assert_int_equal(volume_config_list(names, 8), 2);
	assert_string_equal(names[0], "a");
	assert_string_equal(names[1], "b");
	assert_int_equal(volume_config_list(names, 1), 1);
}

static void
test_a_file_too_large_is_refused(void **state)
{
	struct volume_config config;
	struct fault fault;
	char folder[PATH_MAX];
	char *text = malloc(300000);

	memset(text, ' ', 300000);
	text[299999] = '\0';
	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/v0.conf", text);
	assert_int_equal(volume_config_read("v0", &config, &fault), -EFBIG);
	assert_non_null(strstr(fault.message, "v0.conf"));
	free(text);
}

/* The identity of a LUN whose volume can't be started. */
static void
test_a_uuid_is_known_beside_other_faults_but_not_if_it_has_one(void **state)
{
	static const char *const unknown[] = {
		"",
		"[volume]\nmember = nonsense\n",
		"[volume]\nuuid = 3f0c9a52\n",
		"[volume]\nuuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
		"uuid = 4f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n",
		"uuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n",
	};
	uint8_t uuid[16] = { 0 };
	char text[sizeof(good) + 32], folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	assert_false(volume_config_uuid("v0", uuid));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		scratch_write("etc/volumes/v0.conf", unknown[i]);
		assert_false(volume_config_uuid("v0", uuid));
		assert_int_equal(uuid[0], 0);
	}
	snprintf(text, sizeof(text), "%sno_such_key = 1\n", good);
	scratch_write("etc/volumes/v0.conf", text);
	assert_true(volume_config_uuid("v0", uuid));
	assert_int_equal(uuid[0], 0x3f);
	assert_int_equal(uuid[15], 0x10);
}

/* Text with a few bytes changed, and perhaps cut, is refused or gives what could have been written.
 */
static void
test_damaged_text_never_gives_a_configuration_out_of_bounds(void **state)
{
	uint64_t seed = 0x69726169642d6366ull;
	struct volume_config config;
	struct fault fault;
	char text[sizeof(good)];
	int accepted = 0;

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		size_t length = strlen(good);

		memcpy(text, good, length);
		for (uint64_t hits = 1 + scratch_random(&seed) % 3; hits > 0; hits--)
			text[scratch_random(&seed) % length] = (char)scratch_random(&seed);
		if (scratch_random(&seed) % 4 == 0)
			length = scratch_random(&seed) % length;
		text[length] = '\0';
		if (parse(text, length, &config, &fault) != 0)
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

/* Nor may another volume take them. */
static void
test_a_fault_in_its_file_does_not_free_a_volumes_members(void **state)
{
	static const uint8_t uuid[16] = { 0x3f, 0x0c, 0x9a, 0x52, 0x7d, 0x14, 0x4f, 0x0e,
					  0x9a, 0x6b, 0x2d, 0x9a, 0x1c, 0x7e, 0x5b, 0x10 };
	char text[4096], folder[PATH_MAX], holder[LAYOUT_NAME_MAX + 1] = "";
	struct device_address held, other;
	struct fault why;

	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	assert_int_equal(
		device_address_parse("[fd00::4]:3261/iqn.2026-01.org.example:b/7", &held, &why), 0);
	assert_int_equal(device_address_parse("[fd00::4]:3261/iqn.2026-01.org.example:b/8", &other,
					      &why),
			 0);
	scratch_write("etc/volumes/a.conf", "not a file of a volume");
	sprintf(text, "%sgive_up = 5\nhegde = 1s\n", good);
	scratch_write("etc/volumes/v0.conf", text);
	assert_true(config_holder(&held, NULL, holder));
	assert_string_equal(holder, "v0");
	assert_false(config_holder(&other, NULL, holder));
	assert_true(config_holder(&other, uuid, holder));
	scratch_write("etc/volumes/v0.conf", good);
	assert_true(config_holder(&held, NULL, holder));
	assert_false(config_holder(&other, NULL, holder));
}

static void
test_the_gateway_keeps_its_id(void **state)
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
name_machine(const char *id)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/machine-id", scratch_folder);
	assert_int_equal(setenv("IRAID_MACHINE_ID", path, 1), 0);
	if (id != NULL)
		scratch_write("machine-id", id);
}

static void
test_its_files_on_another_machine_are_another_gateway(void **state)
{
	uint64_t here = 0, there = 0, nowhere = 0, again = 0;

	name_machine(NULL);
	assert_int_equal(gateway_id(&nowhere), 0);
	name_machine("5f0e8a1c2b3d4e5f60718293a4b5c6d7\n");
	assert_int_equal(gateway_id(&here), 0);
	name_machine("5f0e8a1c2b3d4e5f60718293a4b5c6d8\n");
	assert_int_equal(gateway_id(&there), 0);
	name_machine("5f0e8a1c2b3d4e5f60718293a4b5c6d7\n");
	assert_int_equal(gateway_id(&again), 0);
	assert_int_equal(unsetenv("IRAID_MACHINE_ID"), 0);
	assert_true(here == again);
	assert_true(here != there && here != nowhere && there != nowhere);
}

static void
test_level_standby_and_predecessor_are_kept_by_volume_and_forgotten_with_it(void **state)
{
	const uint8_t a[16] = { 1 };
	uint64_t since_ms;

	assert_int_equal(level_recall(a), -1);
	assert_int_equal(level_record(a, 5), 0);
	assert_int_equal(level_recall(a), 5);
	assert_int_equal(needed_recall(a), 0);
	assert_int_equal(needed_record(a, 3), 0);
	assert_int_equal(needed_recall(a), 3);
	assert_true(predecessor_recall(a) == 0);
	assert_int_equal(predecessor_record(a, 0xFEDCBA9876543210), 0);
	assert_true(predecessor_recall(a) == 0xFEDCBA9876543210);
	assert_int_equal(standby_recall(a, &since_ms), -ENOENT);
	assert_int_equal(standby_forget(a), 0);
	assert_int_equal(standby_record(a, 1700000000000), 0);
	assert_int_equal(standby_recall(a, &since_ms), 0);
	assert_int_equal(since_ms, 1700000000000);
	assert_int_equal(volume_forget(a), 0);
	assert_int_equal(standby_recall(a, &since_ms), -ENOENT);
	assert_int_equal(level_recall(a), -1);
	assert_int_equal(needed_recall(a), 0);
	assert_true(predecessor_recall(a) == 0);
}

static void
test_a_file_is_replaced_whole_or_created_once(void **state)
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

#define SCRATCH_TEST(function)                                                                     \
	cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_that_could_harm_are_refused),
		cmocka_unit_test(test_every_key_is_read_and_comments_are_passed_over),
		cmocka_unit_test(test_the_sample_that_is_shipped_is_accepted),
		cmocka_unit_test(test_what_is_left_out_gets_its_default),
		cmocka_unit_test(test_digests_of_files_of_0_1_0_are_understood),
		cmocka_unit_test(test_faults_are_refused_with_file_line_key_and_remedy),
		cmocka_unit_test(test_the_write_log_is_off_degraded_or_always),
		cmocka_unit_test(test_a_file_with_a_nul_is_refused),
		cmocka_unit_test(test_all_faults_of_a_file_are_found_at_once),
		cmocka_unit_test(
			test_a_name_that_can_not_be_is_named_and_the_rest_of_the_file_holds),
		cmocka_unit_test(test_no_name_makes_a_file_unreadable),
		cmocka_unit_test(test_of_two_rates_the_one_that_is_in_the_file_wins),
		cmocka_unit_test(test_what_a_fault_quotes_ends_with_a_whole_character),
		cmocka_unit_test(test_a_member_may_have_several_portals),
		cmocka_unit_test(test_a_device_can_be_dropped_but_not_the_last_two),
		SCRATCH_TEST(test_what_is_written_reads_back_and_is_roots_alone),
		SCRATCH_TEST(test_the_list_is_sorted_and_holds_volumes_only),
		SCRATCH_TEST(test_a_file_too_large_is_refused),
		SCRATCH_TEST(test_a_uuid_is_known_beside_other_faults_but_not_if_it_has_one),
		cmocka_unit_test(test_damaged_text_never_gives_a_configuration_out_of_bounds),
		SCRATCH_TEST(test_a_fault_in_its_file_does_not_free_a_volumes_members),
		SCRATCH_TEST(test_the_gateway_keeps_its_id),
		SCRATCH_TEST(test_its_files_on_another_machine_are_another_gateway),
		SCRATCH_TEST(
			test_level_standby_and_predecessor_are_kept_by_volume_and_forgotten_with_it),
		SCRATCH_TEST(test_a_file_is_replaced_whole_or_created_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
