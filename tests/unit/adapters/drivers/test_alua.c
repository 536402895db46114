/* What the kernel is told of a pair's paths: on files, as configfs shows them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../scratch.h"
#include "adapters/base/files.h"
#include "adapters/base/log.h"
#include "adapters/drivers/alua.h"
#include "adapters/volume/internal.h"
#include "adapters/volume/role.h"

#define STORAGE "lio/core/user_3/lun-of-v0"
#define CONFIG "iraid/v0"

static struct volume_host *host;
static struct alua *alua;
static struct volume *user;

static void
no_log(int level, const char *text)
{
	(void)level, (void)text;
}

static void
make_folder(const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	assert_int_equal(folder_make(path), 0);
}

static void
make_storage(const char *storage, const char *config)
{
	char path[PATH_MAX], text[256];

	make_folder(storage);
	snprintf(path, sizeof(path), "%s/info", storage);
	snprintf(text, sizeof(text), "Status: ACTIVATED\n        Config: %s  Size: 1\n", config);
	scratch_write(path, text);
}

static void
make_group(const char *storage, const char *name, int number, int state)
{
	char path[PATH_MAX], text[16];

	snprintf(path, sizeof(path), "%s/alua/%s", storage, name);
	make_folder(path);
	snprintf(path, sizeof(path), "%s/alua/%s/tg_pt_gp_id", storage, name);
	snprintf(text, sizeof(text), "%d\n", number);
	scratch_write(path, text);
	snprintf(path, sizeof(path), "%s/alua/%s/alua_access_state", storage, name);
	snprintf(text, sizeof(text), "%d\n", state);
	scratch_write(path, text);
}

static char
state_of(const char *name)
{
	char path[PATH_MAX], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "%s/" STORAGE "/alua/%s/alua_access_state", scratch_folder,
		 name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fread(&state, 1, 1, file), 1);
	fclose(file);
	return state;
}

static void
expect_states(char here, char peer)
{
	assert_int_equal(state_of("iraid_here"), here);
	assert_int_equal(state_of("iraid_peer"), peer);
}

/* Port 1 of loopback refuses connections at once, so the volume is never assembled. */
static int
begin(void **state)
{
	char path[PATH_MAX];
	struct fault fault;

	if (scratch_make(state) != 0)
		return -1;
	log_set_sink(no_log);
	make_folder("etc/volumes");
	scratch_write("etc/volumes/v0.conf",
		      "[volume]\nuuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
		      "member = 127.0.0.1:1/iqn.2026-01.org.iraid.test:a/0\n"
		      "member = 127.0.0.1:1/iqn.2026-01.org.iraid.test:b/0\n");
	make_folder("lio/core");
	make_storage("lio/core/user_1/other", "iraid/v00");
	make_storage(STORAGE, CONFIG ";runner=1");
	host = volume_host_create("test");
	snprintf(path, sizeof(path), "%s/lio", scratch_folder);
	alua = alua_begin(host, path);
	return host && alua && volume_acquire(host, "v0", "a LUN", &user, &fault) == 0 ? 0 : -1;
}

static int
end(void **state)
{
	alua_end(alua);
	volume_release(user);
	volume_host_destroy(host);
	return scratch_remove(state);
}

static void
a_volume_that_is_being_assembled_leaves_the_states_as_they_are(void **state)
{
	struct lio_pair pair;

	make_group(STORAGE, "iraid_here", 1, 0);
	make_group(STORAGE, "iraid_peer", 2, 0);
	assert_int_equal(volume_access(host, "v0"), ACCESS_UNDECIDED);
	assert_true(alua_find(alua, CONFIG, &pair));
	expect_states('0', '0');
	assert_int_equal(volume_access(host, "v9"), ACCESS_UNDECIDED); /* does not exist */
}

static void
standby_is_told_before_it_is_reported(void **state)
{
	struct fault fault;
	struct lio_pair pair;

	make_group(STORAGE, "iraid_here", 2, 0);
	make_group(STORAGE, "iraid_peer", 1, 2);
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	expect_states('2', '0');
	assert_true(alua_find(alua, CONFIG, &pair));
	assert_int_equal(pair.here, 2);
	assert_int_equal(pair.access[1], LIO_STANDBY);
	assert_int_equal(pair.access[0], LIO_OPTIMIZED);
}

static void
groups_that_come_later_are_found(void **state)
{
	struct fault fault;
	struct lio_pair pair;

	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_false(alua_find(alua, CONFIG, &pair));
	make_group(STORAGE, "iraid_here", 1, 0);
	assert_false(alua_find(alua, CONFIG, &pair)); /* the other one is not there yet */
	make_group(STORAGE, "iraid_peer", 2, 2);
	assert_true(alua_find(alua, CONFIG, &pair));
	expect_states('2', '0');
	assert_false(alua_find(alua, "iraid/v00", &pair));
}

static void
what_is_a_pair_s_is_told_at_once_while_configfs_hangs(void **state)
{
	char path[PATH_MAX];
	struct lio_pair pair;
	int fifo;

	make_group(STORAGE, "iraid_here", 1, 2);
	make_group(STORAGE, "iraid_peer", 2, 0);
	make_group("lio/core/user_1/other", "iraid_here", 1, 2);
	make_group("lio/core/user_1/other", "iraid_peer", 2, 0);
	assert_true(alua_find(alua, CONFIG, &pair));
	snprintf(path, sizeof(path), "%s/lio/core/user_1/other/info", scratch_folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* to open it waits for a writer */
	assert_true(alua_find(alua, CONFIG, &pair));
	alarm(60); /* if each of these waited as alua_find() does: minutes */
	for (int i = 0; i < 1000; i++) {
		assert_true(alua_is_pair(alua, CONFIG));
		assert_false(alua_is_pair(alua, "iraid/v000"));
	}
	alarm(0);
	fifo = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fifo >= 0);
	assert_int_equal(unlink(path), 0);
	scratch_write("lio/core/user_1/other/info", "Status: ACTIVATED\n");
	close(fifo);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_volume_that_is_being_assembled_leaves_the_states_as_they_are, begin, end),
		cmocka_unit_test_setup_teardown(standby_is_told_before_it_is_reported, begin, end),
		cmocka_unit_test_setup_teardown(groups_that_come_later_are_found, begin, end),
		cmocka_unit_test_setup_teardown(
			what_is_a_pair_s_is_told_at_once_while_configfs_hangs, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
