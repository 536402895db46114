/* The ring of events: numbered without gaps, the oldest forgotten first, and readers that wait are
 * woken by what they wait for and by the end, not by a clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "adapters/base/event_ring.h"

#define LONG_MS 60000 /* a test that waits this out has failed */

static struct event_ring *ring;

static int
make(void **state)
{
	ring = event_ring_create();
	return ring ? 0 : -1;
}

static int
end(void **state)
{
	event_ring_destroy(ring);
	return 0;
}

static void
add(const char *volume, int number)
{
	char text[32];

	snprintf(text, sizeof(text), "event %d", number);
	event_ring_add(ring, 4, "kind", volume, "member", text);
}

static struct event_page
read_page(uint64_t after, const char *volume, int max, uint32_t wait_ms)
{
	struct event_page page;

	assert_int_equal(event_ring_read(ring, after, volume, max, wait_ms, &page), 0);
	return page;
}

static void
test_an_empty_ring_says_so(void **state)
{
	struct event_page page = read_page(0, NULL, 10, 0);

	assert_int_equal(page.count, 0);
	assert_int_equal(page.oldest, 0);
	assert_int_equal(page.next, 0);
	assert_int_equal(strlen(page.instance), 16);
	free(page.records);
}

static void
test_what_comes_after_a_number_is_read_in_order_and_in_pages(void **state)
{
	struct event_page page;

	for (int i = 1; i <= 5; i++)
		add("v0", i);
	page = read_page(2, NULL, 2, 0);
	assert_int_equal(page.count, 2);
	assert_int_equal(page.records[0].number, 3);
	assert_string_equal(page.records[1].text, "event 4");
	assert_string_equal(page.records[1].kind, "kind");
	assert_string_equal(page.records[1].member, "member");
	assert_int_equal(page.records[1].severity, 4);
	assert_true(page.records[0].time_ms <= page.records[1].time_ms &&
		    page.records[0].time_ms > 1700000000000);
	assert_int_equal(page.next, 4);
	free(page.records);
	page = read_page(page.next, NULL, 2, 0);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.next, 5);
	free(page.records);
}

static void
test_the_oldest_are_forgotten(void **state)
{
	struct event_page page;

	for (int i = 1; i <= EVENTS_KEPT + 7; i++)
		add("v0", i);
	page = read_page(0, NULL, EVENTS_KEPT, 0);
	assert_int_equal(page.count, EVENTS_KEPT);
	assert_int_equal(page.oldest, 8);
	assert_int_equal(page.records[0].number, 8);
	assert_string_equal(page.records[0].text, "event 8");
	assert_int_equal(page.records[EVENTS_KEPT - 1].number, EVENTS_KEPT + 7);
	free(page.records);
}

static void
test_of_one_volume_only_its_own_are_read(void **state)
{
	struct event_page page;

	for (int i = 1; i <= 6; i++)
		add(i % 2 ? "v0" : "v1", i);
	page = read_page(0, "v1", 10, 0);
	assert_int_equal(page.count, 3);
	assert_int_equal(page.records[2].number, 6);
	free(page.records);
	page = read_page(0, "v9", 10, 0);
	assert_int_equal(page.count, 0);
	assert_int_equal(page.next, 6); /* those need not be looked at again */
	free(page.records);
}

static void
test_a_number_of_another_life_counts_as_none(void **state)
{
	struct event_page page;

	add("v0", 1);
	page = read_page(77, NULL, 10, 0);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.records[0].number, 1);
	free(page.records);
}

static void
test_texts_that_are_too_long_are_cut(void **state)
{
	char text[2 * EVENT_TEXT_MAX];
	struct event_page page;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	event_ring_add(ring, 3, text, text, text, text);
	page = read_page(0, NULL, 1, 0);
	assert_int_equal(strlen(page.records[0].text), EVENT_TEXT_MAX);
	assert_int_equal(strlen(page.records[0].kind), sizeof(page.records[0].kind) - 1);
	free(page.records);
}

/* --- waiting --- */

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static atomic_int reader_id;

static void *
wait_for_v1(void *argument)
{
	struct event_page *page = argument;

	atomic_store(&reader_id, (int)syscall(SYS_gettid));
	event_ring_read(ring, 0, "v1", 10, LONG_MS, page);
	return NULL;
}

/* Returns when the kernel says that the reader sleeps: there is nothing it could sleep for but the
 * next event.
 */
static void
start_reader(pthread_t *reader, struct event_page *page)
{
	char path[64], text[256], state = 'R';

	atomic_store(&reader_id, 0);
	assert_int_equal(pthread_create(reader, NULL, wait_for_v1, page), 0);
	while (state != 'S') {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&reader_id));
		file = fopen(path, "r");
		if (file && fgets(text, sizeof(text), file))
			state = strrchr(text, ')')[2];
		if (file)
			fclose(file);
	}
}

static void
test_a_reader_waits_for_its_volume_and_not_for_others(void **state)
{
	int64_t begin = now_ms();
	struct event_page page;
	pthread_t reader;

	start_reader(&reader, &page);
	for (int i = 1; i <= 100; i++)
		add("v0", i);
	add("v1", 101);
	pthread_join(reader, NULL);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.records[0].number, 101);
	assert_true(now_ms() - begin < LONG_MS / 2);
	free(page.records);
}

static void
test_the_end_wakes_who_waits_and_nobody_waits_after_it(void **state)
{
	int64_t begin = now_ms();
	struct event_page page;
	pthread_t reader;

	start_reader(&reader, &page);
	event_ring_close(ring, true);
	pthread_join(reader, NULL);
	assert_int_equal(page.count, 0);
	free(page.records);
	page = read_page(0, NULL, 1, LONG_MS);
	free(page.records);
	assert_true(now_ms() - begin < LONG_MS / 2);
	event_ring_close(ring, false);
	page = read_page(0, NULL, 1, 50);
	free(page.records);
	assert_true(now_ms() - begin >= 50); /* open again: it waited */
}

#define RING_TEST(function) cmocka_unit_test_setup_teardown(function, make, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(test_an_empty_ring_says_so),
		RING_TEST(test_what_comes_after_a_number_is_read_in_order_and_in_pages),
		RING_TEST(test_the_oldest_are_forgotten),
		RING_TEST(test_of_one_volume_only_its_own_are_read),
		RING_TEST(test_a_number_of_another_life_counts_as_none),
		RING_TEST(test_texts_that_are_too_long_are_cut),
		RING_TEST(test_a_reader_waits_for_its_volume_and_not_for_others),
		RING_TEST(test_the_end_wakes_who_waits_and_nobody_waits_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
