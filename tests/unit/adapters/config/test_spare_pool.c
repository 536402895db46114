/* The gateway's shared spares: what is written reads back, the smallest that fits is chosen, one
 * taker gets each however many ask at once, and no bytes whatever do harm.
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
#include <unistd.h>

#include "../scratch.h"
#include "adapters/base/files.h"
#include "adapters/config/gateway_file.h"

#define FUZZ_ROUNDS 8000
#define TAKERS 8
#define MIB (1ull << 20)

static struct fault fault;

static struct pool_spare
spare(const char *text, uint64_t size_bytes, uint32_t block_bytes)
{
	struct pool_spare made = { .size_bytes = size_bytes, .block_bytes = block_bytes };
	struct fault why;

	assert_int_equal(device_address_parse(text, &made.device, &why), 0);
	return made;
}

static void
add(const char *text, uint64_t size_bytes, uint32_t block_bytes)
{
	struct pool_spare made = spare(text, size_bytes, block_bytes);

	if (spare_pool_add(&made, &fault) != 0)
		fail_msg("%s", fault.message);
}

static void
test_what_is_added_reads_back_and_is_roots_alone(void **state)
{
	struct pool_spare twice = spare("h,g:1/iqn.x:a/1", 64 * MIB, 512);
	static struct spare_pool pool;
	char path[PATH_MAX];
	struct stat status;

	assert_int_equal(spare_pool_read(&pool, &fault), 0);
	assert_int_equal(pool.count, 0);
	add("h,g:1/iqn.x:a/1", 64 * MIB, 512);
	add("h/iqn.x:b/1", 32 * MIB, 4096);
	assert_int_equal(spare_pool_read(&pool, &fault), 0);
	assert_int_equal(pool.count, 2);
	assert_memory_equal(&pool.spares[0], &twice, sizeof(twice));
	assert_int_equal(pool.spares[1].block_bytes, 4096);
	assert_int_equal(spare_pool_add(&twice, &fault), -EEXIST);
	assert_int_equal(spare_pool_take(&twice.device, NULL, NULL, NULL, &fault), 0);
	assert_int_equal(spare_pool_take(&twice.device, NULL, NULL, NULL, &fault), -ENOENT);
	assert_int_equal(spare_pool_read(&pool, &fault), 0);
	assert_int_equal(pool.count, 1);
	assert_string_equal(pool.spares[0].device.address.iqn, "iqn.x:b");
	snprintf(path, sizeof(path), "%s/etc/gateway.conf", scratch_folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
}

static void
test_the_smallest_that_fits_is_chosen(void **state)
{
	static struct spare_pool pool;
	struct device_address passed[2];

	add("h/iqn.x:large/1", 64 * MIB, 512);
	add("h/iqn.x:fits/1", 32 * MIB, 512);
	add("h/iqn.x:small/1", 31 * MIB, 512);
	add("h/iqn.x:blocks/1", 32 * MIB, 4096);
	assert_int_equal(spare_pool_read(&pool, &fault), 0);
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
refuse(void *owner, struct fault *out)
{
	return fault_errno(out, -EROFS, "it may not be changed");
}

static void
test_one_that_can_not_be_handed_over_stays(void **state)
{
	struct pool_spare only = spare("h/iqn.x:a/1", 64 * MIB, 512);
	static struct spare_pool pool;

	add("h/iqn.x:a/1", 64 * MIB, 512);
	assert_int_equal(spare_pool_take(&only.device, refuse, NULL, NULL, &fault), -EROFS);
	assert_string_equal(fault.message, "it may not be changed");
	assert_int_equal(spare_pool_read(&pool, &fault), 0);
	assert_int_equal(pool.count, 1);
}

static void
test_of_many_processes_one_gets_it(void **state)
{
	struct pool_spare only = spare("h/iqn.x:a/1", 64 * MIB, 512);
	pid_t children[TAKERS];
	int won = 0, status;

	add("h/iqn.x:a/1", 64 * MIB, 512);
	for (int i = 0; i < TAKERS; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(spare_pool_take(&only.device, NULL, NULL, NULL, &fault) == 0 ? 1 : 0);
	}
	for (int i = 0; i < TAKERS; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status));
		won += WEXITSTATUS(status);
	}
	assert_int_equal(won, 1);
}

static void
test_a_full_pool_takes_no_more(void **state)
{
	struct pool_spare more = spare("h/iqn.x:more/1", 64 * MIB, 512);
	char text[64];

	for (int i = 0; i < SPARE_POOL_MAX; i++) {
		snprintf(text, sizeof(text), "h/iqn.x:a/%d", i);
		add(text, 64 * MIB, 512);
	}
	assert_int_equal(spare_pool_add(&more, &fault), -ENOSPC);
}

static void
test_a_broken_file_is_never_overwritten(void **state)
{
	static const char *const broken[] = {
		"[spares]\nspare = h/iqn.x:b/1 size=67108864 block=512\nspare = oops\n",
		/* who knows what it was to be */
		"[spares]\nspare = h/iqn.x:b/1 size=67108864 block=512\noops\n",
	};
	struct pool_spare made = spare("h/iqn.x:a/1", 64 * MIB, 512),
			  there = spare("h/iqn.x:b/1", 64 * MIB, 512);
	static struct spare_pool pool, before;
	char path[PATH_MAX], *text;
	size_t length;

	add("h/iqn.x:b/1", 64 * MIB, 512);
	snprintf(path, sizeof(path), "%s/etc/gateway.conf", scratch_folder);
	memset(&pool, 0x5a, sizeof(pool));
	before = pool;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		scratch_write("etc/gateway.conf", broken[i]);
		assert_int_equal(spare_pool_read(&pool, &fault), -EINVAL);
		assert_memory_equal(&pool, &before, sizeof(pool));
		assert_int_equal(spare_pool_add(&made, &fault), -EINVAL);
		assert_non_null(strstr(fault.message, "gateway.conf:3: "));
		assert_int_equal(spare_pool_take(&there.device, NULL, NULL, NULL, &fault), -EINVAL);
		assert_int_equal(file_read(path, 4096, &text, &length), 0);
		assert_string_equal(text, broken[i]);
		free(text);
	}
}

static void
test_damaged_text_never_gives_a_pool_out_of_bounds(void **state)
{
	static const char good[] = "# what is damaged in a comment is accepted\n[spares]\n"
				   "spare = h/iqn.x:a/1 size=67108864 block=512\n";
	uint64_t seed = 0x69726169642d7370ull;
	static struct gateway_file file;
	static struct config_faults faults;
	int accepted = 0;

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		size_t length = sizeof(good) - 1;
		char text[sizeof(good)];

		memcpy(text, good, sizeof(good));
		for (uint64_t hits = 1 + scratch_random(&seed) % 3; hits > 0; hits--)
			text[scratch_random(&seed) % length] = (char)scratch_random(&seed);
		if (scratch_random(&seed) % 4 == 0)
			length = scratch_random(&seed) % length;
		text[length] = '\0';
		faults.count = faults.passed_over = 0;
		assert_int_equal(gateway_file_parse(text, length, &file, &faults), 0);
		accepted += faults.count == 0;
		assert_in_range(file.config.pool.count, 0, 1);
		for (int i = 0; i < file.config.pool.count; i++) {
			const struct pool_spare *found = &file.config.pool.spares[i];

			assert_true(found->block_bytes == 512 || found->block_bytes == 4096);
			assert_true(found->size_bytes >= LAYOUT_MEMBER_BYTES_MIN);
		}
	}
	assert_true(accepted > FUZZ_ROUNDS / 100);
}

#define SCRATCH_TEST(function)                                                                     \
	cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

static int
let_it_fail(void *owner, struct fault *why)
{
	char path[PATH_MAX], gone[PATH_MAX];

	snprintf(path, sizeof(path), "%s/etc/gateway.conf", scratch_folder);
	snprintf(gone, sizeof(gone), "%s/gone", scratch_folder);
	return rename(path, gone) == 0 ? mkdir(path, 0700) : -1;
}

static void
count_undone(void *owner)
{
	(*(int *)owner)++;
}

static void
test_what_was_done_before_a_failed_take_is_undone(void **state)
{
	struct pool_spare only = spare("h/iqn.x:a/1", 64 * MIB, 512);
	char path[PATH_MAX], gone[PATH_MAX];
	static struct spare_pool pool;
	int undone = 0;

	add("h/iqn.x:a/1", 64 * MIB, 512);
	assert_true(spare_pool_take(&only.device, let_it_fail, count_undone, &undone, &fault) < 0);
	assert_int_equal(undone, 1);
	snprintf(path, sizeof(path), "%s/etc/gateway.conf", scratch_folder);
	snprintf(gone, sizeof(gone), "%s/gone", scratch_folder);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rename(gone, path), 0);
	assert_int_equal(spare_pool_read(&pool, &fault), 0);
	assert_int_equal(pool.count, 1);
	assert_int_equal(spare_pool_take(&only.device, refuse, count_undone, &undone, &fault),
			 -EROFS);
	assert_int_equal(spare_pool_take(&only.device, NULL, count_undone, &undone, &fault), 0);
	assert_int_equal(undone, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(test_what_is_added_reads_back_and_is_roots_alone),
		SCRATCH_TEST(test_the_smallest_that_fits_is_chosen),
		SCRATCH_TEST(test_one_that_can_not_be_handed_over_stays),
		SCRATCH_TEST(test_what_was_done_before_a_failed_take_is_undone),
		SCRATCH_TEST(test_of_many_processes_one_gets_it),
		SCRATCH_TEST(test_a_full_pool_takes_no_more),
		SCRATCH_TEST(test_a_broken_file_is_never_overwritten),
		cmocka_unit_test(test_damaged_text_never_gives_a_pool_out_of_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
