/* LUNs that LIO has already are known by configfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "../scratch.h"
#include "adapters/drivers/lio.h"

static void
make_folder(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

/* As kernel 6.1 writes it. */
static void
a_lun_is_known_by_the_whole_name_of_its_volume(void **state)
{
	make_folder("core");
	make_folder("core/user_0");
	make_folder("core/user_0/disk");
	make_folder("core/user_1"); /* its object goes just now */
	make_folder("core/fileio_0");
	make_folder("core/fileio_0/file");
	scratch_write(
		"core/user_0/disk/info",
		"Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 8192\n"
		"        Config: iraid/v10  Size: 402653184 MaxDataAreaMB: 64\n");
	scratch_write("core/fileio_0/file/info", "        Config: iraid/v2  Size: 1\n");

	assert_true(lio_has(scratch_folder, "iraid/v10"));
	assert_false(lio_has(scratch_folder, "iraid/v1"));
	assert_false(lio_has(scratch_folder, "iraid/v100"));
	assert_false(lio_has(scratch_folder, "iraid/v2"));
	scratch_write("core/user_0/disk/info", "Config: iraid/v10;key=1 Size: 1");
	assert_true(lio_has(scratch_folder, "iraid/v10"));
}

static bool
count_pairs(void *owner, const struct lio_pair *pair)
{
	assert_string_equal(pair->config, "iraid/v10");
	return ++*(int *)owner < 1;
}

static void
make_group(const char *storage, const char *name, const char *number, const char *state)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/alua/%s", storage, name);
	make_folder(path);
	snprintf(path, sizeof(path), "%s/alua/%s/tg_pt_gp_id", storage, name);
	scratch_write(path, number);
	snprintf(path, sizeof(path), "%s/alua/%s/alua_access_state", storage, name);
	scratch_write(path, state);
}

static void
only_whole_pairs_are_told_of(void **state)
{
	static const char storage[] = "core/user_0/disk";
	struct lio_pair pair = { .here = 2 };
	int count = 0;

	make_folder("core");
	make_folder("core/user_0");
	make_folder(storage);
	make_folder("core/user_0/disk/alua");
	scratch_write("core/user_0/disk/info", "        Config: iraid/v10  Size: 1\n");
	make_group(storage, "default_tg_pt_gp", "0\n", "0\n");
	lio_each_pair(scratch_folder, count_pairs, &count);
	make_group(storage, "iraid_here", "7\n", "0\n"); /* no gateway of a pair */
	make_folder("core/user_0/disk/alua/iraid_peer");
	lio_each_pair(scratch_folder, count_pairs, &count);
	scratch_write("core/user_0/disk/alua/iraid_here/tg_pt_gp_id", "2\n");
	lio_each_pair(scratch_folder, count_pairs, &count);
	assert_int_equal(count, 0);
	scratch_write("core/user_0/disk/alua/iraid_peer/alua_access_state", "2\n");
	lio_each_pair(scratch_folder, count_pairs, &count);
	assert_int_equal(count, 1);

	snprintf(pair.storage, sizeof(pair.storage), "%s/nowhere", scratch_folder);
	assert_int_equal(lio_set_access(&pair, 1, LIO_STANDBY), -ENOENT);
}

static void
without_lio_there_is_none(void **state)
{
	assert_false(lio_has(scratch_folder, "iraid/v0"));
	assert_false(lio_has("/does/not/exist", "iraid/v0"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lun_is_known_by_the_whole_name_of_its_volume,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(only_whole_pairs_are_told_of, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(without_lio_there_is_none, scratch_make,
						scratch_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
