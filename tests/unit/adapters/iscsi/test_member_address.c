/* test_member_address.c - names of members and secrets files: what is taken, what is refused, and
 * why.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapters/backend/backend.h"

static void
takes(const char *text, const char *portal, const char *iqn, unsigned int lun)
{
	struct member_address address;
	struct fault fault = FAULT_NONE;

	if (member_address_parse(text, &address, &fault) != 0)
		fail_msg("%s is refused: %s", text, fault.message);
	assert_string_equal(address.portal, portal);
	assert_string_equal(address.iqn, iqn);
	assert_int_equal(address.lun, lun);
}

static void
refuses(const char *text, const char *word)
{
	struct member_address address, before;
	struct fault fault = FAULT_NONE;

	memset(&address, 0x5a, sizeof(address));
	before = address;
	if (member_address_parse(text, &address, &fault) != -EINVAL)
		fail_msg("%s is taken", text);
	if (strstr(fault.message, word) == NULL)
		fail_msg("%s: \"%s\" does not say \"%s\"", text, fault.message, word);
	assert_memory_equal(&address, &before, sizeof(before));
}

static void
test_portals_are_hosts_or_addresses_with_a_port(void **state)
{
	takes("10.0.0.1:3260/iqn.2026-01.org.example:t0/0", "10.0.0.1:3260",
	      "iqn.2026-01.org.example:t0", 0);
	takes("10.0.0.1/iqn.x/7", "10.0.0.1:3260", "iqn.x", 7);
	takes("san-1.example.org:860/iqn.x/16383", "san-1.example.org:860", "iqn.x", 16383);
	takes("[fe80::1%eth0]:3261/iqn.x/1", "[fe80::1%eth0]:3261", "iqn.x", 1);
	takes("[::1]/eui.02004567A425678D/1", "[::1]:3260", "eui.02004567A425678D", 1);
	takes("[::ffff:10.0.0.1]/naa.52004567BA64678D/1", "[::ffff:10.0.0.1]:3260",
	      "naa.52004567BA64678D", 1);
}

static void
test_bad_portals_are_refused(void **state)
{
	refuses("/iqn.x/0", "host");
	refuses(":3260/iqn.x/0", "host");
	refuses("host:/iqn.x/0", "port");
	refuses("host:0/iqn.x/0", "port");
	refuses("host:65536/iqn.x/0", "port");
	refuses("host:99999999999/iqn.x/0", "port");
	refuses("host:+80/iqn.x/0", "port");
	refuses("host:80x/iqn.x/0", "port");
	refuses("::1/iqn.x/0", "brackets");
	refuses("[::1/iqn.x/0", "bracket");
	refuses("[]/iqn.x/0", "IPv6");
	refuses("[host]/iqn.x/0", "IPv6");
	refuses("[::1]3260/iqn.x/0", "port");
	refuses("ho st/iqn.x/0", "characters");
	refuses("-host/iqn.x/0", "characters");
	refuses("host;reboot/iqn.x/0", "characters");
}

static void
test_bad_targets_and_luns_are_refused(void **state)
{
	char name[300];

	refuses("", "PORTAL/IQN/LUN");
	refuses("host", "PORTAL/IQN/LUN");
	refuses("host/iqn.x", "PORTAL/IQN/LUN");
	refuses("host//0", "iqn.");
	refuses("host/target/0", "iqn.");
	refuses("host/iqn.a/b/0", "too many");
	refuses("host/iqn.a b/0", "space");
	refuses("host/iqn.a\n/0", "control");
	refuses("host/iqn.x/", "LUN");
	refuses("host/iqn.x/-1", "LUN");
	refuses("host/iqn.x/01", "LUN");
	refuses("host/iqn.x/16384", "LUN");
	refuses("host/iqn.x/4294967296", "LUN");
	refuses("host/iqn.x/0 ", "LUN");
	memset(name, 'a', sizeof(name));
	memcpy(name, "host/iqn.", 9);
	strcpy(name + 9 + 220, "/0"); /* 224 characters of name */
	refuses(name, "223");
}

static void
test_the_longest_names_fit_and_come_back_the_same(void **state)
{
	struct member_address address;
	struct fault fault;
	char text[MEMBER_ADDRESS_MAX], back[MEMBER_ADDRESS_MAX];

	memset(text, 'a', sizeof(text));
	memcpy(text + 253, ":65535/iqn.", 11); /* the host has 253 characters, the name 223 */
	strcpy(text + 253 + 7 + 223, "/16383");
	assert_int_equal(member_address_parse(text, &address, &fault), 0);
	member_address_format(&address, back);
	assert_string_equal(back, text);
	memmove(text + 1, text, strlen(text) + 1);
	assert_int_equal(member_address_parse(text, &address, &fault), -EINVAL);
}

static void
test_random_bytes_never_crash_and_what_is_taken_comes_back(void **state)
{
	static const char alphabet[] = "a1.:[]/%-iqn \n\x01\xff";
	unsigned int seed = 1;
	int taken = 0;

	for (int round = 0; round < 200000; round++) {
		char text[64], back[MEMBER_ADDRESS_MAX];
		struct member_address first, second;
		struct fault fault;
		size_t length = (size_t)rand_r(&seed) % sizeof(text);

		for (size_t i = 0; i < length; i++)
			text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
		snprintf(text + length, sizeof(text) - length, "%s", round % 2 ? "" : "/iqn.a/1");
		text[sizeof(text) - 1] = '\0';
		if (member_address_parse(text, &first, &fault) != 0)
			continue;
		taken++;
		member_address_format(&first, back);
		assert_int_equal(member_address_parse(back, &second, &fault), 0);
		assert_string_equal(first.portal, second.portal);
		assert_string_equal(first.iqn, second.iqn);
	}
	assert_true(taken > 0);
}

/* --- secrets files --- */

static char secrets_path[] = "/tmp/iraid-test-secrets-XXXXXX";

static int
make_file(void **state)
{
	int fd;

	strcpy(secrets_path + sizeof(secrets_path) - 7, "XXXXXX");
	fd = mkstemp(secrets_path);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int
remove_file(void **state)
{
	return unlink(secrets_path);
}

static void
fill(const char *text, size_t length)
{
	int fd = open(secrets_path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), length);
	close(fd);
}

static void
refuses_file(int error, const char *word)
{
	struct iscsi_credentials credentials = { .initiator = "iqn.kept" };
	struct fault fault = FAULT_NONE;

	assert_int_equal(iscsi_credentials_read(secrets_path, &credentials, &fault), error);
	if (strstr(fault.message, word) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", fault.message, word);
	assert_int_equal(fault.code, error);
	assert_null(strstr(fault.message, "joe"));
	assert_null(strstr(fault.message, "xxx"));
	assert_string_equal(fault.remedy, "");
	assert_string_equal(credentials.user, "");
	assert_string_equal(credentials.secret, "");
	assert_string_equal(credentials.initiator, "iqn.kept");
}

static void
test_two_lines_are_user_and_secret(void **state)
{
	static const char *const texts[] = { "joe\nsecret of joe\n", "joe\nsecret of joe",
					     "joe\r\nsecret of joe\r\n", "joe\nsecret of joe\n\n" };

	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct iscsi_credentials credentials = { .initiator = "iqn.kept" };
		struct fault fault;

		fill(texts[i], strlen(texts[i]));
		assert_int_equal(iscsi_credentials_read(secrets_path, &credentials, &fault), 0);
		assert_string_equal(credentials.user, "joe");
		assert_string_equal(credentials.secret, "secret of joe");
		assert_string_equal(credentials.initiator, "iqn.kept");
	}
}

static void
test_four_lines_are_also_those_of_the_target(void **state)
{
	struct iscsi_credentials credentials = { .initiator = "iqn.kept" };
	struct fault fault;
	char longest[4 * 256 + 1];

	if (geteuid() != 0)
		skip();
	fill("joe\nsecret of joe\ntarget\nits secret\n", 36);
	assert_int_equal(iscsi_credentials_read(secrets_path, &credentials, &fault), 0);
	assert_string_equal(credentials.secret, "secret of joe");
	assert_string_equal(credentials.target_user, "target");
	assert_string_equal(credentials.target_secret, "its secret");
	iscsi_credentials_wipe(&credentials);
	assert_string_equal(credentials.secret, "");
	assert_string_equal(credentials.target_secret, "");
	assert_string_equal(credentials.initiator, "iqn.kept");
	memset(longest, 'x', sizeof(longest));
	for (int line = 0; line < 4; line++) {
		longest[line * 256] = (char)('a' + line);
		longest[line * 256 + 255] = '\n';
	}
	fill(longest, sizeof(longest) - 1);
	assert_int_equal(iscsi_credentials_read(secrets_path, &credentials, &fault), 0);
	assert_int_equal(strlen(credentials.target_secret), 255);
}

static void
test_other_contents_are_refused_without_showing_them(void **state)
{
	char longer[4096];

	if (geteuid() != 0)
		skip();
	fill("", 0);
	refuses_file(-EINVAL, "two lines");
	fill("joe\n", 4);
	refuses_file(-EINVAL, "two lines");
	fill("\nsecret\n", 8);
	refuses_file(-EINVAL, "two lines");
	fill("joe\nsecret\nmore\n", 16);
	refuses_file(-EINVAL, "or four");
	fill("joe\nsecret\nmore\nxxx\nmost\n", 25);
	refuses_file(-EINVAL, "more than four");
	fill("joe\nxxx\nmore\nxxx\n", 17);
	refuses_file(-EINVAL, "same secret twice");
	fill("joe\nsec\0ret\n", 12);
	refuses_file(-EINVAL, "not text");
	memset(longer, 'x', sizeof(longer));
	fill(longer, 300);
	refuses_file(-EINVAL, "255");
	fill(longer, sizeof(longer));
	refuses_file(-EINVAL, "too long");
}

static void
test_files_that_others_could_read_or_replace_are_refused(void **state)
{
	if (geteuid() != 0)
		skip();
	fill("joe\nsecret\n", 11);
	assert_int_equal(chmod(secrets_path, 0640), 0);
	refuses_file(-EPERM, "chmod 600");
	assert_int_equal(chmod(secrets_path, 0604), 0);
	refuses_file(-EPERM, "chmod 600");
	assert_int_equal(chmod(secrets_path, 0600), 0);
	assert_int_equal(chown(secrets_path, 65534, 0), 0);
	refuses_file(-EPERM, "chown root");
}

static void
test_what_is_no_file_is_refused(void **state)
{
	struct iscsi_credentials credentials = { 0 };
	struct fault fault;
	char link_path[64];

	assert_int_equal(iscsi_credentials_read("/nonexistent/secrets", &credentials, &fault),
			 -ENOENT);
	assert_int_equal(iscsi_credentials_read("/dev/null", &credentials, &fault), -EPERM);
	assert_int_equal(iscsi_credentials_read("/", &credentials, &fault), -EPERM);
	snprintf(link_path, sizeof(link_path), "%s.link", secrets_path);
	assert_int_equal(symlink(secrets_path, link_path), 0);
	assert_int_equal(iscsi_credentials_read(link_path, &credentials, &fault), -ELOOP);
	unlink(link_path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_portals_are_hosts_or_addresses_with_a_port),
		cmocka_unit_test(test_bad_portals_are_refused),
		cmocka_unit_test(test_bad_targets_and_luns_are_refused),
		cmocka_unit_test(test_the_longest_names_fit_and_come_back_the_same),
		cmocka_unit_test(test_random_bytes_never_crash_and_what_is_taken_comes_back),
		cmocka_unit_test_setup_teardown(test_two_lines_are_user_and_secret, make_file,
						remove_file),
		cmocka_unit_test_setup_teardown(test_four_lines_are_also_those_of_the_target,
						make_file, remove_file),
		cmocka_unit_test_setup_teardown(test_other_contents_are_refused_without_showing_them,
						make_file, remove_file),
		cmocka_unit_test_setup_teardown(
			test_files_that_others_could_read_or_replace_are_refused, make_file,
			remove_file),
		cmocka_unit_test_setup_teardown(test_what_is_no_file_is_refused, make_file,
						remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
