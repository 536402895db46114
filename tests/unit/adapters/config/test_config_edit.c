/* What the handler changes in the gateway's files, and what it leaves: comments, order, blanks;
 * defaults of all volumes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapters/config/volume_file.h"
#include "adapters/base/files.h"
#include "../scratch.h"

#define UUID "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10"

static const char edited_by_hand[] = "; bought 2026, see the wiki\n"
				     "\n"
				     "[Volume]\n"
				     "uuid=" UUID "\n"
				     "  # rack 1\n"
				     "  member =   h1/iqn.x:a/0\t\n"
				     "\tmember = h2/iqn.x:a/0\n"
				     "# rack 2\n"
				     "member= h3/iqn.x:a/0\n"
				     "\n"
				     "initiator = iqn.2026-01.org.example:gw\n"
				     "#sync_rate_min = 10M\n"
				     "# slow links\n"
				     "sync_rate_max\t=\t100M\n"
				     "# the end, without a newline";

static struct volume_config config, again;
static struct fault fault;

static void
write_file(const char *name, const char *text)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write(name, text);
}

static char *
read_file(const char *name)
{
	char path[PATH_MAX], *text;
	size_t length;

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	return file_read(path, 1 << 20, &text, &length) == 0 ? text : NULL;
}

static void
must(int result)
{
	if (result != 0)
		fail_msg("%d: %s", result, fault.message);
}

static struct device_address
device(const char *text)
{
	struct device_address made;
	struct fault why;

	assert_int_equal(device_address_parse(text, &made, &why), 0);
	return made;
}

static void
file_is(const char *name, const char *expected)
{
	char *text = read_file(name);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

/* The file of edited_by_hand[] with `from` replaced by `to`. */
static void
only_differs(const char *from, const char *to)
{
	char expected[4096];
	const char *place = strstr(edited_by_hand, from);

	assert_non_null(place);
	snprintf(expected, sizeof(expected), "%.*s%s%s", (int)(place - edited_by_hand),
		 edited_by_hand, to, place + strlen(from));
	file_is("etc/volumes/v0.conf", expected);
}

static void
begin(void)
{
	write_file("etc/volumes/v0.conf", edited_by_hand);
	must(volume_config_read("v0", &config, &fault));
}

static void
test_what_is_written_unchanged_is_not_touched(void **state)
{
	begin();
	must(volume_config_write(&config, &fault));
	file_is("etc/volumes/v0.conf", edited_by_hand);
}

static void
test_a_value_is_replaced_in_its_line(void **state)
{
	begin();
	config.sync_rate_max = 30 << 20;
	must(volume_config_write(&config, &fault));
	only_differs("\t=\t100M", "\t=\t30M");
}

static void
test_a_key_that_was_a_comment_gets_a_line_below_it(void **state)
{
	begin();
	config.sync_rate_min = 1 << 20;
	must(volume_config_write(&config, &fault));
	only_differs("#sync_rate_min = 10M\n", "#sync_rate_min = 10M\nsync_rate_min = 1M\n");
}

static void
test_a_key_that_was_nowhere_follows_the_last(void **state)
{
	begin();
	config.error_limit = 3;
	must(volume_config_write(&config, &fault));
	only_differs("100M\n", "100M\nerror_limit = 3\n");
	config.log = LOG_MODE_OFF;
	must(volume_config_write(&config, &fault));
	only_differs("100M\n", "100M\nerror_limit = 3\nlog = off\n");
}

static void
test_devices_come_and_go_with_their_lines(void **state)
{
	begin();
	config.devices[config.device_count++] = device("h4,g4/iqn.x:a/0");
	must(volume_config_write(&config, &fault));
	only_differs("member= h3/iqn.x:a/0\n",
		     "member= h3/iqn.x:a/0\nmember = h4:3260,g4:3260/iqn.x:a/0\n");

	begin();
	config.devices[1] = device("h2,g2/iqn.x:a/0");
	must(volume_config_write(&config, &fault));
	only_differs("\tmember = h2/iqn.x:a/0\n", "\tmember = h2:3260,g2:3260/iqn.x:a/0\n");

	begin();
	must(volume_config_drop(&config, &config.devices[0]));
	must(volume_config_write(&config, &fault));
	only_differs("  member =   h1/iqn.x:a/0\t\n", "");

	begin(); /* all of them at once */
	for (int i = 0; i < 3; i++)
		config.devices[i].address.lun = 9;
	must(volume_config_write(&config, &fault));
	must(volume_config_read("v0", &again, &fault));
	assert_true(volume_config_same(&config, &again));
}

static void
test_a_file_keeps_its_mode_and_faults_keep_a_file(void **state)
{
	char path[PATH_MAX];
	struct stat status;

	begin();
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	assert_int_equal(chmod(path, 0640), 0);
	config.error_limit = 3;
	must(volume_config_write(&config, &fault));
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);

	write_file("etc/volumes/v0.conf", "[volume]\nhalf a li");
	assert_int_equal(volume_config_write(&config, &fault), -EINVAL);
	assert_non_null(strstr(fault.message, "v0.conf:2: "));
	file_is("etc/volumes/v0.conf", "[volume]\nhalf a li");
}

static void
test_a_link_stays_and_what_it_leads_to_is_changed(void **state)
{
	char path[PATH_MAX], folder[PATH_MAX], target[PATH_MAX];
	struct stat status;

	begin();
	snprintf(folder, sizeof(folder), "%s/kept", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	snprintf(target, sizeof(target), "%.4000s/v0", folder);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink("../../kept/v0", path), 0);
	config.sync_rate_max = 30 << 20;
	must(volume_config_write(&config, &fault));
	only_differs("\t=\t100M", "\t=\t30M");
	assert_int_equal(lstat(path, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(lstat(target, &status), 0);
	assert_true(S_ISREG(status.st_mode));
	/* Nothing is left behind in either folder. */
	assert_int_equal(volume_config_delete("v0", &fault), 0);
	assert_int_equal(unlink(target), 0);
	assert_int_equal(rmdir(folder), 0);
	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(rmdir(folder), 0);
}

static void
test_a_link_to_nowhere_becomes_a_file(void **state)
{
	char path[PATH_MAX];

	begin();
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("nowhere", path), 0);
	must(volume_config_write(&config, &fault));
	must(volume_config_read("v0", &again, &fault));
	assert_true(volume_config_same(&config, &again));
}

static void
test_a_file_keeps_its_owner_and_group(void **state)
{
	char path[PATH_MAX];
	mode_t mask;
	struct stat status;
	/* only root can give it to another */
	uid_t owner = geteuid() == 0 ? 1001 : geteuid();
	gid_t group = geteuid() == 0 ? 1002 : getegid();

	begin();
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	assert_int_equal(chown(path, owner, group), 0);
	assert_int_equal(chmod(path, 0664), 0);
	config.error_limit = 3;
	mask = umask(077);
	must(volume_config_write(&config, &fault));
	umask(mask);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_uid, owner);
	assert_int_equal(status.st_gid, group);
	assert_int_equal(status.st_mode & 07777, 0664);
}

static void
test_a_new_file_explains_every_key_and_says_what_it_should(void **state)
{
	char *text;

	volume_config_defaults(&config, "v0");
	config.uuid[3] = 7;
	config.devices[config.device_count++] = device("h1/iqn.x:a/0");
	config.devices[config.device_count++] = device("h2/iqn.x:a/0");
	config.hedge_milliseconds = 0;
	must(volume_config_write(&config, &fault));
	must(volume_config_read("v0", &again, &fault));
	assert_true(volume_config_same(&config, &again));
	text = read_file("etc/volumes/v0.conf");
	for (int i = 0; i < volume_key_count; i++) {
		char key[64];

		snprintf(key, sizeof(key), "%s = ", volume_keys[i].name);
		assert_non_null(strstr(text, key));
	}
	assert_non_null(strstr(text, "\nhedge = 0\n"));
	assert_non_null(strstr(text, "\n#give_up = 5s\n"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 100);
	free(text);
}

/* --- whatever it looks like --- */

#define ODD_FILES 120

static void
add_line(char *text, uint64_t *seed, const char *key, const char *value)
{
	static const char *const noise[] = {
		"",
		"",
		"\n",
		"# a = b\n",
		"\t; ]\n",
		"[VOLUME]\n",
		" [volume]\n",
		"#error_limit=9\n",
		"# member = x\n",
	};
	static const char *const blanks[] = { "", " ", "\t", "   " };

	sprintf(text + strlen(text), "%s%s%s%s=%s%s%s%s", noise[scratch_random(seed) % 9],
		blanks[scratch_random(seed) % 4], key, blanks[scratch_random(seed) % 4],
		blanks[scratch_random(seed) % 4], value, blanks[scratch_random(seed) % 4],
		scratch_random(seed) % 8 == 0 ? "\r\n" : "\n");
}

/* A file that is right, as somebody in a hurry might have left it. */
static void
odd_file(char *text, uint64_t *seed)
{
	char value[64];

	strcpy(text, "[volume]\n");
	add_line(text, seed, "uuid", UUID);
	for (uint64_t i = 0, count = 3 + scratch_random(seed) % 3; i < count; i++) {
		sprintf(value, "h%d/iqn.x:a/%d", (int)i, (int)i);
		add_line(text, seed, scratch_random(seed) % 2 ? "member" : "Member", value);
		if (i == 1)
			add_line(text, seed, "INITIATOR", "iqn.2026-01.org.example:gw");
	}
	for (int i = 0; i < 3; i++) {
		static const char *const lines[] = { "give_up", "9s",	      "hedge",
						     "0",	"spare_wait", "1h" };

		if (scratch_random(seed) % 2)
			add_line(text, seed, lines[2 * i], lines[2 * i + 1]);
	}
	if (scratch_random(seed) % 4 == 0)
		text[strlen(text) - 1] = '\0';
}

/* Lines of `text` that `other` has as well, byte for byte and in this order. */
static int
lines_kept(const char *text, const char *other)
{
	int kept = 0;

	while (*text) {
		size_t length = strcspn(text, "\n");
		const char *found = other;

		while (*found &&
		       (strcspn(found, "\n") != length || memcmp(found, text, length) != 0)) {
			found += strcspn(found, "\n");
			found += *found == '\n';
		}
		if (*found || length == 0) {
			kept++;
			if (*found)
				other = found;
		}
		text += length;
		text += *text == '\n';
	}
	return kept;
}

static void
test_an_odd_file_says_what_it_should_and_keeps_its_other_lines(void **state)
{
	uint64_t seed = 0x636f6e66ull;
	char text[4096], *after;

	for (int round = 0; round < ODD_FILES; round++) {
		int touched = 0;

		odd_file(text, &seed);
		write_file("etc/volumes/v0.conf", text);
		must(volume_config_read("v0", &config, &fault));
		if (scratch_random(&seed) % 2) {
			config.error_limit = 5;
		} else {
			config.give_up_seconds = 8;
			touched++;
		}
		if (scratch_random(&seed) % 2) {
			must(volume_config_drop(&config,
						&config.devices[scratch_random(&seed) % 3]));
			touched++;
		}
		if (scratch_random(&seed) % 2)
			config.devices[config.device_count++] = device("new/iqn.x:n/0");
		must(volume_config_write(&config, &fault));
		must(volume_config_read("v0", &again, &fault));
		after = read_file("etc/volumes/v0.conf");
		if (!volume_config_same(&config, &again) ||
		    lines_kept(text, after) < config_lines(text) - touched)
			fail_msg("round %d: of\n%s\nbecame\n%s", round, text, after);
		free(after);
	}
}

/* --- gateway.conf --- */

static void
test_what_a_volume_does_not_say_the_gateway_does(void **state)
{
	begin();
	assert_int_equal(config.give_up_seconds, 5);
	write_file("etc/gateway.conf", "[volumes]\ngive_up = 8s\nsync_rate_max = 1M\nchap_file = "
				       "/c\nsync_rate_min = 1M\n");
	must(volume_config_read("v0", &config, &fault));
	assert_int_equal(config.give_up_seconds, 8);
	assert_int_equal(config.sync_rate_max, 100 << 20);
	assert_string_equal(config.chap_file, "/c");
	must(volume_config_write(&config, &fault));
	file_is("etc/volumes/v0.conf", edited_by_hand); /* it stays the gateway's */
	config.give_up_seconds = 5;			/* the usual, but not here */
	config.chap_file[0] = '\0';
	must(volume_config_write(&config, &fault));
	only_differs("100M\n", "100M\nchap_file = none\ngive_up = 5s\n");
}

/* What fits there need not fit beside what stands here. */
static void
test_a_rate_of_the_gateway_gives_way_to_the_volumes(void **state)
{
	begin();
	write_file("etc/gateway.conf", "[volumes]\nsync_rate_min = 200M\n");
	must(volume_config_read("v0", &config, &fault));
	assert_int_equal(config.sync_rate_min, 100 << 20);
	assert_int_equal(config.sync_rate_max, 100 << 20);
	config.error_limit = 3;
	must(volume_config_write(&config, &fault));
	only_differs("100M\n", "100M\nerror_limit = 3\n");
	config.sync_rate_max = 300 << 20;
	config.sync_rate_min = 150 << 20;
	must(volume_config_write(&config, &fault));
	must(volume_config_read("v0", &again, &fault));
	assert_true(volume_config_same(&config, &again));
}

static void
test_a_fault_of_the_gateway_keeps_no_volume_from_starting(void **state)
{
	static struct gateway_file gateway;
	static struct config_faults faults;

	begin();
	write_file("etc/gateway.conf", "[volumes]\ngive_up = 8\nhedge = 1s\nuuid = "
				       "7\n[notfy]\nmail = x\n[exporter]\nport = 0\n");
	must(volume_config_read("v0", &config, &fault));
	assert_int_equal(config.give_up_seconds, 5);
	assert_int_equal(config.hedge_milliseconds, 1000);
	assert_int_equal(gateway_file_read(&gateway, &faults), 0);
	assert_int_equal(faults.count, 4);
	assert_int_equal(faults.list[0].line, 2);
	assert_int_equal(faults.list[1].line, 4);
	assert_int_equal(faults.list[2].line, 6);
	assert_non_null(strstr(faults.list[2].what, "[notfy]"));
	assert_int_equal(faults.list[3].line, 8);
	assert_int_equal(gateway.config.exporter_port, EXPORTER_PORT_DEFAULT);
	gateway_file_free(&gateway);
}

static void
test_the_gateways_file_keeps_all_but_the_spares(void **state)
{
	static const char before[] =
		"# ours\n[notify]\nmail = a@example.org\nmail = b\nseverity = error\n\n[spares]\n# "
		"shelf\n"
		"spare = h1/iqn.x:a/0 size=67108864 block=512\n[exporter]\nport=1\n";
	static const char after[] =
		"# ours\n[notify]\nmail = a@example.org\nmail = b\nseverity = error\n\n[spares]\n# "
		"shelf\n"
		"spare = h2:3260,g2:3260/iqn.x:a/1 size=134217728 block=4096\n[exporter]\nport=1\n";
	struct pool_spare spare = { .device = device("h2,g2/iqn.x:a/1"),
				    .size_bytes = 134217728,
				    .block_bytes = 4096 };
	static struct gateway_file gateway;
	static struct config_faults faults;
	struct device_address first = device("h1/iqn.x:a/0");

	write_file("etc/gateway.conf", before);
	must(spare_pool_add(&spare, &fault));
	must(spare_pool_take(&first, NULL, NULL, NULL, &fault));
	file_is("etc/gateway.conf", after);
	must(gateway_file_read(&gateway, &faults));
	assert_int_equal(faults.count, 0);
	assert_int_equal(gateway.config.mail_count, 2);
	assert_int_equal(gateway.config.severity, 3);
	assert_int_equal(gateway.config.exporter_port, 1);
	gateway_file_free(&gateway);
}

static void
test_bad_values_of_the_gateway_are_named(void **state)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{ "[spares]\nspare = h/iqn.x:a/1\n",
		  "2: spare: \"h/iqn.x:a/1\" does not end with size=BYTES" },
		{ "[spares]\nspare = h/iqn.x:a/1 size=1 block=512\n", "size=BYTES" },
		{ "[spares]\nspare = h/iqn.x:a/1 size=67108864\n", "size=BYTES" },
		{ "[spares]\nspare = h/iqn.x:a/1 size=67108864 block=1024\n", "size=BYTES" },
		{ "[spares]\nspare = h/iqn.x:a/1 size=67108864 block=512 x\n", "size=BYTES" },
		{ "[spares]\nspare = h/iqn size=67108864 block=512\n", "2: spare: \"h/iqn\": " },
		{ "[spares]\nspare = h/iqn.x:a/1 size=67108864 block=512\nspare = h:3260/iqn.x:a/1 "
		  "size=67108864 block=512\n",
		  "3: spare: \"h:3260/iqn.x:a/1\" is there twice" },
		{ "[notify]\nmail = -oQ/tmp\n", "2: mail: \"-oQ/tmp\" is not a mail address" },
		{ "[notify]\nmail = a b\n", "is not a mail address" },
		{ "[notify]\nseverity = loud\n", "2: severity: \"loud\" is not a severity" },
		{ "[notify]\ncommand = mail\n", "2: command: \"mail\" is not an absolute path" },
		{ "[exporter]\naddress = localhost\n",
		  "2: address: \"localhost\" is not an IP address" },
		{ "[exporter]\nport = 65536\n",
		  "2: port: \"65536\" is too much; choose 1 to 65535" },
		{ "[volumes]\nsync_rate_max = 1M\n",
		  "sync_rate_min: the value in [volumes] is above sync_rate_max" },
		{ "[volumes]\ngive_up = 5s\ngive_up = 6s\n",
		  "3: give_up: it occurs twice, first in line 2" },
		{ "[spares]\ngr\xc3\xb6\xc3\x9f"
		  "e = 1\n",
		  "2: gr\xc3\xb6\xc3\x9f"
		  "e: there is no such key in [spares]" },
		{ "[volumes]\ninitiator = iqn.x:a\n",
		  "2: initiator: there is no such key in [volumes]" },
	};
	static struct gateway_file gateway;
	static struct config_faults faults;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		faults.count = 0;
		assert_int_equal(gateway_file_parse(cases[i].text, strlen(cases[i].text), &gateway,
						    &faults),
				 0);
		assert_int_equal(faults.count, 1);
		config_faults_tell(&faults, "", -EINVAL, &fault);
		if (!strstr(fault.message, cases[i].named))
			fail_msg("\"%s\" names not \"%s\"", fault.message, cases[i].named);
	}
}

static void
test_the_template_of_the_gateway_has_every_key_and_no_fault(void **state)
{
	static struct gateway_file gateway;
	static struct config_faults faults;
	char *text = gateway_template(), *uncommented;
	int keys = 0;

	assert_non_null(text);
	assert_int_equal(gateway_file_parse(text, strlen(text), &gateway, &faults), 0);
	assert_int_equal(faults.count, 0);
	/* With every "#key" as a line it is still right: the examples are. */
	uncommented = text;
	for (char *c = text; *c; c++) {
		bool key = *c == '#' && c[1] != ' ';

		keys += key;
		if (!key)
			*uncommented++ = *c;
	}
	*uncommented = '\0';
	assert_int_equal(gateway_file_parse(text, strlen(text), &gateway, &faults), 0);
	if (faults.count > 0) {
		config_faults_tell(&faults, "template", -EINVAL, &fault);
		assert_string_equal(fault.message, "");
	}
	for (int i = 0; i < volume_key_count; i++)
		keys -= volume_keys[i].common;
	assert_int_equal(keys, gateway_key_count);
	free(text);
}

#define SCRATCH_TEST(function)                                                                     \
	cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(test_what_is_written_unchanged_is_not_touched),
		SCRATCH_TEST(test_a_value_is_replaced_in_its_line),
		SCRATCH_TEST(test_a_key_that_was_a_comment_gets_a_line_below_it),
		SCRATCH_TEST(test_a_key_that_was_nowhere_follows_the_last),
		SCRATCH_TEST(test_devices_come_and_go_with_their_lines),
		SCRATCH_TEST(test_a_file_keeps_its_mode_and_faults_keep_a_file),
		SCRATCH_TEST(test_a_link_stays_and_what_it_leads_to_is_changed),
		SCRATCH_TEST(test_a_link_to_nowhere_becomes_a_file),
		SCRATCH_TEST(test_a_file_keeps_its_owner_and_group),
		SCRATCH_TEST(test_a_new_file_explains_every_key_and_says_what_it_should),
		SCRATCH_TEST(test_an_odd_file_says_what_it_should_and_keeps_its_other_lines),
		SCRATCH_TEST(test_what_a_volume_does_not_say_the_gateway_does),
		SCRATCH_TEST(test_a_rate_of_the_gateway_gives_way_to_the_volumes),
		SCRATCH_TEST(test_a_fault_of_the_gateway_keeps_no_volume_from_starting),
		SCRATCH_TEST(test_the_gateways_file_keeps_all_but_the_spares),
		SCRATCH_TEST(test_bad_values_of_the_gateway_are_named),
		SCRATCH_TEST(test_the_template_of_the_gateway_has_every_key_and_no_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
