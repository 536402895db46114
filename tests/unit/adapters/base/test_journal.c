/* Entries of the journal: the fields that stand in a datagram of its protocol, and that nothing
 * waits for a journal that stands still, or is not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "adapters/base/journal.h"
#include "../scratch.h"

static char path[108];
static char entry[8192];

/* A journal that somebody listens at. */
static int
listen_there(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The next entry there; false: none. */
static bool
take(int fd)
{
	ssize_t length = recv(fd, entry, sizeof(entry) - 1, 0);

	entry[length > 0 ? length : 0] = '\0';
	return length > 0;
}

static int
make(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/journal", scratch_folder);
	return setenv("IRAID_JOURNAL_SOCKET", path, 1);
}

static void
test_an_event_has_its_fields(void **state)
{
	int fd = listen_there();
	struct journal *journal = journal_open();

	journal_event(journal, LOG_ERR, "member evicted", "v0", "10.0.0.1:3260/iqn.x/0",
		      "member 1 is out");
	assert_true(take(fd));
	assert_string_equal(
		entry, "MESSAGE=volume v0: member 1 is out\nPRIORITY=3\nSYSLOG_IDENTIFIER=iraid\n"
		       "SYSLOG_FACILITY=3\nIRAID_KIND=member evicted\nIRAID_VOLUME=v0\n"
		       "IRAID_MEMBER=10.0.0.1:3260/iqn.x/0\n");
	journal_event(journal, LOG_NOTICE, "spare added", "", "", "a spare");
	assert_true(take(fd));
	assert_string_equal(
		entry, "MESSAGE=a spare\nPRIORITY=5\nSYSLOG_IDENTIFIER=iraid\nSYSLOG_FACILITY=3\n"
		       "IRAID_KIND=spare added\n");
	assert_false(take(fd));
	journal_close(journal);
	close(fd);
}

static void
test_a_text_makes_no_field(void **state)
{
	int fd = listen_there();
	struct journal *journal = journal_open();

	journal_event(journal, LOG_ERR, "kind", "v0", "a\nPRIORITY=0", "text\nIRAID_VOLUME=v1");
	assert_true(take(fd));
	assert_non_null(strstr(entry, "MESSAGE=volume v0: text?IRAID_VOLUME=v1\n"));
	assert_non_null(strstr(entry, "IRAID_MEMBER=a?PRIORITY=0\n"));
	journal_close(journal);
	close(fd);
}

static void
test_long_texts_are_cut(void **state)
{
	int fd = listen_there();
	struct journal *journal = journal_open();
	char text[4000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	journal_event(journal, LOG_ERR, "kind", "v0", text, text);
	assert_true(take(fd));
	assert_non_null(strstr(entry, "\nIRAID_VOLUME=v0\n"));
	assert_int_equal(entry[strlen(entry) - 1], '\n');
	journal_close(journal);
	close(fd);
}

/* The queue of the socket fills up, and is emptied: what came between is missing, and the next one
 * says so.
 */
static void
test_a_journal_that_stands_still_is_not_waited_for(void **state)
{
	int fd = listen_there(), kept = 0, sent = 20000;
	struct journal *journal = journal_open();
	char missed[64];

	for (int i = 0; i < sent; i++)
		journal_event(journal, LOG_INFO, "kind", "v0", "", "text");
	while (take(fd))
		kept++;
	assert_in_range(kept, 1, sent - 1);
	journal_event(journal, LOG_INFO, "kind", "v0", "", "text");
	assert_true(take(fd));
	snprintf(missed, sizeof(missed), "\nIRAID_MISSED=%d\n", sent - kept);
	assert_non_null(strstr(entry, missed));
	journal_event(journal, LOG_INFO, "kind", "v0", "", "text");
	assert_true(take(fd));
	assert_null(strstr(entry, "IRAID_MISSED"));
	journal_close(journal);
	close(fd);
}

static void
test_a_journal_may_come_later(void **state)
{
	struct journal *journal = journal_open();
	int fd;

	assert_non_null(journal);
	journal_event(journal, LOG_INFO, "kind", "v0", "", "before");
	fd = listen_there();
	journal_event(journal, LOG_INFO, "kind", "v0", "", "after");
	assert_true(take(fd));
	assert_non_null(strstr(entry, "MESSAGE=volume v0: after\n"));
	assert_non_null(strstr(entry, "IRAID_MISSED=1\n"));
	journal_close(journal);
	close(fd);
}

static void
test_no_journal_is_opened_where_none_is_wanted(void **state)
{
	setenv("IRAID_JOURNAL_SOCKET", "", 1);
	assert_null(journal_open());
	journal_event(NULL, LOG_INFO, "kind", "v0", "", "text");
	journal_close(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_event_has_its_fields, make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_text_makes_no_field, make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_long_texts_are_cut, make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_journal_that_stands_still_is_not_waited_for,
						make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_journal_may_come_later, make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_no_journal_is_opened_where_none_is_wanted,
						make, scratch_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
