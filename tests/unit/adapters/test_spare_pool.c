/* The gateway's shared spares: what is written reads back, the smallest that fits is chosen, one taker gets each
 * however many ask at once, and no bytes whatever do harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "scratch.h"
#include "adapters/config/pool.h"

#define FUZZ_ROUNDS 20000
#define TAKERS 8
#define MIB (1ull << 20)

static char reason[512];

static struct pool_spare
spare(const char *text, uint64_t size_bytes, uint32_t block_bytes)
{
	struct pool_spare made = { .size_bytes = size_bytes, .block_bytes = block_bytes };
	const char *why = "";

	assert_int_equal(device_address_parse(text, &made.device, &why), 0);
	return made;
}

static void
add(const char *text, uint64_t size_bytes, uint32_t block_bytes)
{
	struct pool_spare made = spare(text, size_bytes, block_bytes);

	if (spare_pool_add(&made, reason, sizeof(reason)) != 0)
		fail_msg("%s", reason);
}

static void
what_is_added_reads_back_and_is_roots_alone(void **state)
{
	struct pool_spare twice = spare("h,g:1/iqn.x:a/1", 64 * MIB, 512);
	static struct spare_pool pool;
	char path[PATH_MAX];
	struct stat status;

	assert_int_equal(spare_pool_read(&pool, reason, sizeof(reason)), 0);
	assert_int_equal(pool.count, 0);
	add("h,g:1/iqn.x:a/1", 64 * MIB, 512);
	add("h/iqn.x:b/1", 32 * MIB, 4096);
	assert_int_equal(spare_pool_read(&pool, reason, sizeof(reason)), 0);
	assert_int_equal(pool.count, 2);
	assert_memory_equal(&pool.spares[0], &twice, sizeof(twice));
	assert_int_equal(pool.spares[1].block_bytes, 4096);
	assert_int_equal(spare_pool_add(&twice, reason, sizeof(reason)), -EEXIST);
	assert_int_equal(spare_pool_take(&twice.device, NULL, NULL, reason, sizeof(reason)), 0);
	assert_int_equal(spare_pool_take(&twice.device, NULL, NULL, reason, sizeof(reason)), -ENOENT);
	assert_int_equal(spare_pool_read(&pool, reason, sizeof(reason)), 0);
	assert_int_equal(pool.count, 1);
	assert_string_equal(pool.spares[0].device.address.iqn, "iqn.x:b");
	snprintf(path, sizeof(path), "%s/etc/gateway.conf", scratch_folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
}

static void
the_smallest_that_fits_is_chosen(void **state)
{
	static struct spare_pool pool;
	struct device_address passed[2];

	add("h/iqn.x:large/1", 64 * MIB, 512);
	add("h/iqn.x:fits/1", 32 * MIB, 512);
	add("h/iqn.x:small/1", 31 * MIB, 512);
	add("h/iqn.x:blocks/1", 32 * MIB, 4096);
	assert_int_equal(spare_pool_read(&pool, reason, sizeof(reason)), 0);
	assert_int_equal(spare_pool_choose(&pool, 32 * MIB, 512, NULL, 0), 1);
	assert_int_equal(spare_pool_choose(&pool, 32 * MIB + 1, 512, NULL, 0), 0);
	assert_int_equal(spare_pool_choose(&pool, 65 * MIB, 512, NULL, 0), -1);
	assert_int_equal(spare_pool_choose(&pool, 16 * MIB, 4096, NULL, 0), 3);
	passed[0] = pool.spares[1].device;
	assert_int_equal(spare_pool_choose(&pool, 32 * MIB, 512, passed, 1), 0);
	passed[1] = pool.spares[0].device;
	assert_int_equal(spare_pool_choose(&pool, 32 * MIB, 512, passed, 2), -1);
}

static int
refuse(void *owner)
{
	return -EROFS;
}

static void
one_that_can_not_be_handed_over_stays(void **state)
{
	struct pool_spare only = spare("h/iqn.x:a/1", 64 * MIB, 512);
	static struct spare_pool pool;

	add("h/iqn.x:a/1", 64 * MIB, 512);
	assert_int_equal(spare_pool_take(&only.device, refuse, NULL, reason, sizeof(reason)), -EROFS);
	assert_int_equal(spare_pool_read(&pool, reason, sizeof(reason)), 0);
	assert_int_equal(pool.count, 1);
}

static void
of_many_processes_one_gets_it(void **state)
{
	struct pool_spare only = spare("h/iqn.x:a/1", 64 * MIB, 512);
	pid_t children[TAKERS];
	int won = 0, status;

	add("h/iqn.x:a/1", 64 * MIB, 512);
	for (int i = 0; i < TAKERS; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(spare_pool_take(&only.device, NULL, NULL, reason, sizeof(reason)) == 0 ? 1 : 0);
	}
	for (int i = 0; i < TAKERS; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status));
		won += WEXITSTATUS(status);
	}
	assert_int_equal(won, 1);
}

static void
a_full_pool_takes_no_more(void **state)
{
	struct pool_spare more = spare("h/iqn.x:more/1", 64 * MIB, 512);
	char text[64];

	for (int i = 0; i < SPARE_POOL_MAX; i++) {
		snprintf(text, sizeof(text), "h/iqn.x:a/%d", i);
		add(text, 64 * MIB, 512);
	}
	assert_int_equal(spare_pool_add(&more, reason, sizeof(reason)), -ENOSPC);
}

#define GOOD "{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 67108864, \"block_bytes\": 512}]}"

static int
parse(const char *text, struct spare_pool *pool)
{
	return spare_pool_parse(text, strlen(text), "FILE", pool, reason, sizeof(reason));
}

static void
refused(const char *text, const char *named)
{
	static struct spare_pool pool, before;

	memset(&pool, 0x5a, sizeof(pool));
	before = pool;
	if (parse(text, &pool) != -EINVAL)
		fail_msg("accepted: %s", text);
	assert_memory_equal(&pool, &before, sizeof(pool));
	if (strncmp(reason, "FILE: ", 6) != 0 || !strstr(reason, named))
		fail_msg("\"%s\" names not both file and \"%s\"", reason, named);
}

static void
faults_are_refused_and_named(void **state)
{
	static struct spare_pool pool;

	assert_int_equal(parse(GOOD, &pool), 0);
	assert_int_equal(pool.count, 1);
	assert_int_equal(parse("{}", &pool), 0);
	assert_int_equal(parse("/* none */ {\"spares\": []}", &pool), 0);
	assert_int_equal(pool.count, 0);
	refused("", "JSON");
	refused("[]", "object");
	refused(GOOD "x", "JSON");
	refused("{\"spare\": []}", "\"spare\"");
	refused("{\"spares\": {}}", "list");
	refused("{\"spares\": [5]}", "device");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 67108864}]}", "block_bytes");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a\", \"size_bytes\": 67108864, \"block_bytes\": 512}]}", "h/iqn.x:a");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 1, \"block_bytes\": 512}]}", "size_bytes");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 67108864, \"block_bytes\": 1024}]}",
		"block_bytes");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 67108864, \"block_bytes\": 512, \"x\": 1}]}",
		"must be");
	refused("{\"spares\": [{\"device\": \"h/iqn.x:a/1\", \"size_bytes\": 67108864, \"block_bytes\": 512},"
		"{\"device\": \"h:3260/iqn.x:a/1\", \"size_bytes\": 67108864, \"block_bytes\": 512}]}", "twice");
}

static void
a_broken_file_is_never_overwritten(void **state)
{
	struct pool_spare made = spare("h/iqn.x:a/1", 64 * MIB, 512);

	add("h/iqn.x:b/1", 64 * MIB, 512);
	scratch_write("etc/gateway.json", "{ \"spares\": [ oops");
	assert_int_equal(spare_pool_add(&made, reason, sizeof(reason)), -EINVAL);
	assert_non_null(strstr(reason, "gateway.json"));
	assert_int_equal(spare_pool_take(&made.device, NULL, NULL, reason, sizeof(reason)), -EINVAL);
}

static void
damaged_text_never_gives_a_pool_out_of_bounds(void **state)
{
	uint64_t seed = 0x69726169642d7370ull;
	static struct spare_pool pool;
	int accepted = 0;

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		char text[] = "/* what is damaged in a comment is accepted */ " GOOD "  \n";
		size_t length = sizeof(text) - 1;

		for (uint64_t hits = 1 + scratch_random(&seed) % 3; hits > 0; hits--)
			text[scratch_random(&seed) % length] = (char)scratch_random(&seed);
		if (scratch_random(&seed) % 4 == 0)
			length = scratch_random(&seed) % length;
		text[length] = '\0';
		if (spare_pool_parse(text, length, "FILE", &pool, reason, sizeof(reason)) != 0)
			continue;
		accepted++;
		assert_in_range(pool.count, 0, SPARE_POOL_MAX);
		for (int i = 0; i < pool.count; i++) {
			assert_true(pool.spares[i].block_bytes == 512 || pool.spares[i].block_bytes == 4096);
			assert_true(pool.spares[i].size_bytes >= LAYOUT_MEMBER_BYTES_MIN);
		}
	}
	assert_true(accepted > FUZZ_ROUNDS / 100);
}

#define SCRATCH_TEST(function) cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(what_is_added_reads_back_and_is_roots_alone),
		SCRATCH_TEST(the_smallest_that_fits_is_chosen),
		SCRATCH_TEST(one_that_can_not_be_handed_over_stays),
		SCRATCH_TEST(of_many_processes_one_gets_it),
		SCRATCH_TEST(a_full_pool_takes_no_more),
		cmocka_unit_test(faults_are_refused_and_named),
		SCRATCH_TEST(a_broken_file_is_never_overwritten),
		cmocka_unit_test(damaged_text_never_gives_a_pool_out_of_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
