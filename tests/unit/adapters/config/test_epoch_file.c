/* The epochs of a volume in the state folder: what was durable is there whatever became of the
 * write after it, and a change of a file that exists needs no room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "adapters/config/config.h"
#include "adapters/config/epoch_file.h"
#include "../scratch.h"

#define SLOT_BYTES 4096

static const uint8_t volume[16] = { 1 }, other[16] = { 2 };
static const char name[] = "state/epochs/01000000-0000-0000-0000-000000000000.kept";
static const char old_given[] = "state/epochs/01000000-0000-0000-0000-000000000000";
static const char old_meant[] = "state/epochs-tried/01000000-0000-0000-0000-000000000000";

static bool
is_there(const char *of, struct stat *status)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, of);
	return stat(path, status) == 0;
}

static void
raise_to(struct epoch_file *file, uint64_t given, uint64_t meant)
{
	assert_int_equal(epoch_file_raise(file, &(struct epochs_kept){ given, meant }), 0);
}

static void
assert_kept(const uint8_t uuid[16], uint64_t given, uint64_t meant)
{
	struct epochs_kept kept = { 99, 99 };

	assert_int_equal(epoch_file_read(uuid, &kept), 0);
	assert_true(kept.given == given);
	assert_true(kept.meant == meant);
}

/* `bytes` of zeros at `at`, as a write that was torn may leave them. */
static void
damage(off_t at, size_t bytes)
{
	static const char zeros[2 * SLOT_BYTES];
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, zeros, bytes, at), bytes);
	close(fd);
}

static void
test_epochs_are_kept_by_volume_and_never_go_down(void **state)
{
	struct epoch_file *file = epoch_file_create(volume), *another = epoch_file_create(other);

	assert_kept(volume, 0, 0);
	raise_to(file, 7, 0);
	raise_to(another, UINT64_MAX, 0);
	raise_to(file, 0, 72);
	assert_kept(volume, 7, 72);
	raise_to(file, 8, 71);
	assert_kept(volume, 8, 72);
	assert_kept(other, UINT64_MAX, 0);
	assert_int_equal(volume_forget(volume), 0);
	assert_kept(volume, 0, 0);
	assert_kept(other, UINT64_MAX, 0);
	epoch_file_free(file);
	epoch_file_free(another);
}

static void
test_a_torn_write_leaves_what_was_there_before(void **state)
{
	struct epoch_file *file = epoch_file_create(volume);

	raise_to(file, 1, 2);
	for (uint64_t epoch = 2; epoch < 9; epoch++) {
		struct epochs_kept kept;

		raise_to(file, epoch, 2);
		/* whichever of both slots was written last */
		damage((epoch % 2) * SLOT_BYTES + 20, 3);
		assert_int_equal(epoch_file_read(volume, &kept), 0);
		assert_true(kept.given == epoch || kept.given == epoch - 1);
		raise_to(file, epoch, 2);
		assert_kept(volume, epoch, 2);
	}
	epoch_file_free(file);
}

static void
test_damage_of_both_is_an_error_and_not_zero(void **state)
{
	struct epoch_file *file = epoch_file_create(volume);
	struct epochs_kept kept;

	raise_to(file, 5, 0);
	damage(0, 2 * SLOT_BYTES);
	assert_int_equal(epoch_file_read(volume, &kept), -EINVAL);
	assert_int_equal(epoch_file_raise(file, &(struct epochs_kept){ 6, 0 }), -EINVAL);
	assert_int_equal(volume_forget(volume), 0);
	raise_to(file, 6, 0); /* made anew, though the removed one is open still */
	assert_kept(volume, 6, 0);
	epoch_file_free(file);
}

static void
test_a_change_is_made_in_place(void **state)
{
	struct epoch_file *file = epoch_file_create(volume);
	struct stat first, last;

	raise_to(file, 1, 0);
	assert_true(is_there(name, &first));
	assert_int_equal(first.st_size, 2 * SLOT_BYTES);
	for (uint64_t epoch = 2; epoch < 20; epoch++)
		raise_to(file, epoch, epoch);
	assert_true(is_there(name, &last));
	assert_true(first.st_ino == last.st_ino);
	assert_int_equal(last.st_size, first.st_size);
	epoch_file_free(file);
}

static void
make_old(const char *given, const char *meant)
{
	static const char *const folders[] = { "state", "state/epochs", "state/epochs-tried" };

	for (int i = 0; i < 3; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", scratch_folder, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	scratch_write(old_given, given);
	scratch_write(old_meant, meant);
}

static void
test_files_of_earlier_versions_are_taken_over(void **state)
{
	struct epoch_file *file = epoch_file_create(volume);
	struct stat status;

	make_old("41\n", "105\n");
	assert_kept(volume, 41, 105);
	assert_true(is_there(old_given, &status));
	raise_to(file, 0, 106);
	assert_kept(volume, 41, 106);
	assert_false(is_there(old_given, &status));
	assert_false(is_there(old_meant, &status));
	epoch_file_free(file);
}

static void
test_a_torn_file_of_an_earlier_version_is_an_error(void **state)
{
	struct epoch_file *file = epoch_file_create(volume);
	struct epochs_kept kept;

	make_old("41", "105\n"); /* no newline */
	assert_int_equal(epoch_file_read(volume, &kept), -EINVAL);
	assert_int_equal(epoch_file_raise(file, &(struct epochs_kept){ 42, 0 }), -EINVAL);
	assert_int_equal(volume_forget(volume), 0);
	assert_kept(volume, 0, 0);
	epoch_file_free(file);
}

#define SCRATCH_TEST(function)                                                                     \
	cmocka_unit_test_setup_teardown(function, scratch_make, scratch_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(test_epochs_are_kept_by_volume_and_never_go_down),
		SCRATCH_TEST(test_a_torn_write_leaves_what_was_there_before),
		SCRATCH_TEST(test_damage_of_both_is_an_error_and_not_zero),
		SCRATCH_TEST(test_a_change_is_made_in_place),
		SCRATCH_TEST(test_files_of_earlier_versions_are_taken_over),
		SCRATCH_TEST(test_a_torn_file_of_an_earlier_version_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
