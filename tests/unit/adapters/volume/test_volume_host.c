/* Volumes of a process with members that nobody serves: users, locks, starting again and stopping,
 * and many threads at once.  Every request is completed exactly once, whatever happens around it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "adapters/base/files.h"
#include "adapters/base/log.h"
#include "../scratch.h"
#include "adapters/volume/admin.h"
#include "adapters/volume/internal.h"
#include "adapters/volume/reload.h"
#include "adapters/volume/role.h"

#define THREADS 4
#define REQUESTS_PER_ROUND 16
#define ROUNDS 25

static struct volume_host *host;
static struct fault fault;

static void
no_log(int level, const char *text)
{
	(void)level, (void)text;
}

/* Port 1 of loopback refuses connections at once. */
static void
configure(const char *name, const char *uuid)
{
	char path[PATH_MAX], text[1024];

	snprintf(path, sizeof(path), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(path), 0);
	snprintf(path, sizeof(path), "etc/volumes/%s.conf", name);
	snprintf(text, sizeof(text),
		 "[volume]\nuuid = %s\nmember = 127.0.0.1:1/iqn.2026-01.org.iraid.test:a/0\n"
		 "member = 127.0.0.1:1/iqn.2026-01.org.iraid.test:b/0\nmember = "
		 "127.0.0.1:1/iqn.2026-01.org.iraid.test:c/0\n",
		 uuid);
	scratch_write(path, text);
}

static int
make_host(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	log_set_sink(no_log);
	configure("v0", "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10");
	configure("v1", "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b11");
	host = volume_host_create("test");
	return host ? 0 : -1;
}

static int
remove_host(void **state)
{
	volume_host_destroy(host);
	return scratch_remove(state);
}

static struct volume *
acquire(const char *name, const char *user)
{
	struct volume *volume = NULL;

	if (volume_acquire(host, name, user, &volume, &fault) != 0)
		fail_msg("%s", fault.message);
	return volume;
}

static void
test_what_is_not_configured_is_refused_and_named(void **state)
{
	struct volume *volume = NULL;

	assert_int_equal(volume_acquire(host, "v9", "test", &volume, &fault), -ENOENT);
	assert_non_null(strstr(fault.message, "v9"));
	assert_null(volume);
	scratch_write("etc/volumes/v9.conf", "{");
	assert_int_equal(volume_acquire(host, "v9", "test", &volume, &fault), -EINVAL);
	assert_non_null(strstr(fault.message, "v9.conf:1: "));
}

static void
test_users_are_named_and_keep_it_from_being_stopped(void **state)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct volume *first = acquire("v0", "tcmu: v0"), *second = acquire("v0", "tcmu: other");

	assert_int_equal(volume_view(host, "v0", view, &fault), 0);
	assert_true(view->running);
	assert_int_equal(view->user_count, 2);
	assert_int_equal(volume_stop(host, "v0", &fault), -EBUSY);
	assert_non_null(strstr(fault.message, "tcmu: other"));
	volume_release(second);
	assert_int_equal(volume_stop(host, "v0", &fault), -EBUSY);
	assert_null(strstr(fault.message, "tcmu: other"));
	volume_release(first);
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	assert_int_equal(volume_view(host, "v0", view, &fault), 0);
	assert_false(view->running);
	assert_int_equal(view->status.state, VOLUME_STOPPED);
	free(view);
}

static void
test_administration_of_what_does_not_run_says_so_and_its_file_can_be_changed(void **state)
{
	struct device_address device;
	struct volume_config config;
	struct volume *volume;
	struct fault ignored;

	assert_int_equal(device_address_parse("h/iqn.x:d/0", &device, &ignored), 0);
	assert_int_equal(volume_attach(host, "v0", &device, &fault), -ENOTCONN);
	assert_non_null(strstr(fault.message, "v0"));
	assert_int_equal(volume_detach(host, "v0", 0, "", &fault), -ENOTCONN);
	assert_int_equal(volume_edit_add(host, "v0", &device, &fault), 0);
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.device_count, 4);
	volume = acquire("v0", "test");
	assert_int_equal(volume_edit_drop(host, "v0", &device, &fault), 0);
	assert_int_equal(volume_edit_drop(host, "v0", &device, &fault), 0);
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.device_count, 3);
	assert_int_equal(volume_edit_add(host, "v9", &device, &fault), -ENOENT);
	scratch_write("etc/volumes/v0.conf", "{ broken");
	assert_int_equal(volume_edit_add(host, "v0", &device, &fault), -EINVAL);
	assert_non_null(strstr(fault.message, "v0.conf:1: "));
	volume_release(volume);
}

static void
test_waiting_for_members_ends_in_time(void **state)
{
	struct volume *volume = acquire("v0", "test");
	struct volume_brief brief;

	assert_int_equal(volume_wait_assembled(volume, 200, &fault), -ETIMEDOUT);
	volume_brief(volume, &brief);
	assert_int_equal(brief.state, VOLUME_ASSEMBLING);
	assert_int_equal(brief.size_bytes, 0);
	assert_int_equal(brief.level, -1);
	volume_release(volume);
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	assert_int_equal(volume_wait(host, "v0", 1000), -ESHUTDOWN);
}

static void *
wait_for_v0(void *argument)
{
	*(int *)argument = volume_wait(host, "v0", 60000);
	return NULL;
}

static void
test_the_end_of_the_process_ends_every_wait_and_lets_nothing_begin(void **state)
{
	struct volume *volume = acquire("v0", "test"), *other = NULL;
	pthread_t thread;
	int result = 0;

	pthread_create(&thread, NULL, wait_for_v0, &result);
	volume_host_end(host);
	pthread_join(thread, NULL);
	assert_int_equal(result, -ESHUTDOWN);
	assert_int_equal(volume_acquire(host, "v1", "test", &other, &fault), -EAGAIN);
	assert_non_null(strstr(fault.message, "v1"));
	assert_non_null(strstr(fault.message, "test is ending"));
	assert_int_equal(volume_acquire(host, "v0", "test", &other, &fault), -EAGAIN);
	volume_release(volume);
}

static void
test_another_process_is_told_who_has_it_until_that_ends(void **state)
{
	struct volume *volume = acquire("v0", "test");
	char pid[32];
	pid_t child;
	int status;

	snprintf(pid, sizeof(pid), "test pid %ld", (long)getpid());
	child = fork();
	if (child == 0) {
		/* Only what is safe after fork(): no thread of the host lives here. */
		const uint8_t uuid[16] = { 0x3f, 0x0c, 0x9a, 0x52, 0x7d, 0x14, 0x4f, 0x0e,
					   0x9a, 0x6b, 0x2d, 0x9a, 0x1c, 0x7e, 0x5b, 0x10 };
		struct fault why;
		int fd = volume_lock(uuid, "v0", "nbdkit", &why);

		_exit(fd == -EBUSY && strstr(why.message, pid) && strstr(why.message, "v0") ? 0
											    : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	volume_release(volume);
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	volume = acquire("v0", "test");
	volume_release(volume);
}

static atomic_int complaints, locked_complaints;

/* Counts what is said of gateway.conf, which takes the host's lock to see that nobody waits for it
 * meanwhile.
 */
static void
count_complaints(int level, const char *text)
{
	struct timespec until;

	if (!strstr(text, "gateway.conf"))
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	if (pthread_mutex_timedlock(&host->lock, &until) == 0)
		pthread_mutex_unlock(&host->lock);
	else
		atomic_fetch_add(&locked_complaints, 1);
	atomic_fetch_add(&complaints, 1);
}

static void
test_faults_of_the_gateway_are_told_when_a_volume_starts_and_not_when_it_can_not(void **state)
{
	const uint8_t uuid[16] = { 0x3f, 0x0c, 0x9a, 0x52, 0x7d, 0x14, 0x4f, 0x0e,
				   0x9a, 0x6b, 0x2d, 0x9a, 0x1c, 0x7e, 0x5b, 0x10 };
	static const struct volume_start_options usual;
	struct volume *volume = NULL;
	int lock = volume_lock(uuid, "v0", "nbdkit", &fault);

	scratch_write("etc/gateway.conf", "[volumes]\ngive_up = 5\n");
	assert_true(lock >= 0);
	atomic_store(&complaints, 0);
	log_set_sink(count_complaints);
	for (int i = 0; i < 3; i++) /* as tcmu-runner does, each second */
		assert_int_equal(volume_acquire(host, "v0", "test", &volume, &fault), -EBUSY);
	assert_int_equal(volume_start(host, "v0", &usual, &fault), -EBUSY);
	assert_int_equal(atomic_load(&complaints), 0);
	close(lock);
	volume = acquire("v0", "test");
	assert_int_equal(atomic_load(&complaints), 1);
	assert_int_equal(volume_start(host, "v1", &usual, &fault), 0);
	assert_int_equal(volume_start(host, "v1", &usual, &fault), 0); /* it runs */
	assert_int_equal(atomic_load(&complaints), 2);
	assert_int_equal(atomic_load(&locked_complaints), 0);
	volume_release(volume);
}

/* The file of v0, with these lines as well. */
static void
configure_also(const char *lines)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "[volume]\nuuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\nmember = "
		 "127.0.0.1:1/iqn.2026-01.org.iraid.test:a/0\n"
		 "member = 127.0.0.1:1/iqn.2026-01.org.iraid.test:b/0\n%s",
		 lines);
	scratch_write("etc/volumes/v0.conf", text);
}

static void
reload_fails(int expected, const char *named)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct reload *reload = calloc(1, sizeof(*reload));

	assert_non_null(view);
	assert_non_null(reload);
	assert_int_equal(volume_reload(host, "v0", reload, &fault), expected);
	if (!strstr(fault.message, named))
		fail_msg("\"%s\" names not \"%s\"", fault.message, named);
	assert_int_equal(reload->count, 0);
	assert_int_equal(volume_view(host, "v0", view, &fault), 0);
	assert_int_equal(view->config.give_up_seconds, 7);
	free(reload);
	free(view);
}

static void
test_a_reload_that_fails_has_changed_nothing(void **state)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct reload *reload = calloc(1, sizeof(*reload));
	char path[PATH_MAX];
	struct volume *volume;

	assert_non_null(view);
	assert_non_null(reload);
	configure_also("give_up = 7s\n");
	volume = acquire("v0", "test");
	configure_also("give_up = 9s\nhedge = 5\n");
	reload_fails(-EINVAL, "v0.conf:6: hedge: ");
	configure_also("give_up = 9s\nchap_file = /nowhere/x\n");
	reload_fails(-EINVAL, "chap_file /nowhere/x: ");
	snprintf(path, sizeof(path), "%s/etc/volumes/v0.conf", scratch_folder);
	assert_int_equal(unlink(path), 0);
	reload_fails(-ENOENT, "no volume \"v0\"");
	assert_int_equal(mkdir(path, 0700), 0); /* what not even root can read */
	reload_fails(-EISDIR, "v0.conf: it can't be read: ");
	assert_int_equal(rmdir(path), 0);
	configure_also("give_up = 9s\n");
	if (volume_reload(host, "v0", reload, &fault) != 0)
		fail_msg("%s", fault.message);
	assert_int_equal(reload->count, 1);
	assert_int_equal(volume_view(host, "v0", view, &fault), 0);
	assert_int_equal(view->config.give_up_seconds, 9);
	reload_free(reload);
	volume_release(volume);
	free(reload);
	free(view);
}

static void
test_a_secrets_file_that_is_gone_fails_the_volume_not_the_start(void **state)
{
	struct volume_start_options usual = { 0 };
	struct volume_view *view = malloc(sizeof(*view));

	scratch_write(
		"etc/volumes/v0.conf",
		"[volume]\nuuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\nchap_file = /nowhere/x\n"
		"member = 127.0.0.1:1/iqn.x:a/0\nmember = 127.0.0.1:1/iqn.x:b/0\n");
	assert_int_equal(volume_start(host, "v0", &usual, &fault), 0);
	assert_int_equal(volume_wait(host, "v0", 5000), -EIO);
	assert_int_equal(volume_view(host, "v0", view, &fault), 0);
	assert_int_equal(view->status.state, VOLUME_FAILED);
	assert_non_null(strstr(view->status.reason, "/nowhere/x"));
	/* Corrected, it starts without having been stopped. */
	configure("v0", "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10");
	assert_int_equal(volume_start(host, "v0", &usual, &fault), 0);
	assert_int_equal(volume_wait(host, "v0", 100), -ETIMEDOUT);
	free(view);
}

/* --- roles --- */

struct told {
	struct engine_request request;
	sem_t done;
	int result;
};

static void
tell(struct engine_request *request, int result)
{
	struct told *told = request->owner;

	told->result = result;
	sem_post(&told->done);
}

/* What a request ends with that nobody can carry out. */
static int
ask_volume(struct volume *volume)
{
	struct told told = { .request = { .op = REQUEST_FLUSH, .done = tell } };

	told.request.owner = &told;
	sem_init(&told.done, 0, 0);
	volume_submit(volume, &told.request);
	sem_wait(&told.done);
	sem_destroy(&told.done);
	return told.result;
}

static enum volume_role
role_of(const char *name, uint64_t *since_ms)
{
	struct volume_view *view = malloc(sizeof(*view));
	enum volume_role role;

	assert_int_equal(volume_view(host, name, view, &fault), 0);
	role = view->role;
	*since_ms = view->role_since_ms;
	if (role == ROLE_STANDBY && view->running) {
		assert_int_equal(view->status.state, VOLUME_STANDBY);
		assert_non_null(strstr(view->status.reason, "iraid activate"));
		for (int i = 0; i < view->status.slots; i++)
			assert_int_equal(view->status.members[i].link, LINK_CLOSED);
	}
	free(view);
	return role;
}

static void
test_a_volume_on_standby_keeps_its_users_and_refuses_at_once(void **state)
{
	struct volume *volume = acquire("v0", "tcmu: v0");
	struct volume_brief brief;
	uint64_t since_ms, again_ms;

	assert_int_equal(role_of("v0", &since_ms), ROLE_ACTIVE);
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_int_equal(role_of("v0", &since_ms), ROLE_STANDBY);
	volume_brief(volume, &brief);
	assert_int_equal(brief.role, ROLE_STANDBY);
	assert_int_equal(ask_volume(volume), -ESHUTDOWN);
	assert_int_equal(volume_wait_assembled(volume, 5000, &fault), -ESHUTDOWN);
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_int_equal(role_of("v0", &again_ms), ROLE_STANDBY);
	assert_int_equal(again_ms, since_ms);
	assert_int_equal(volume_stop(host, "v0", &fault), -EBUSY);
	volume_release(volume);
}

static void
test_standby_lasts_over_a_restart_and_a_start(void **state)
{
	const struct volume_start_options usual = { 0 }, hard = { .take_over = true };
	uint64_t since_ms, again_ms;

	/* also of one that does not run */
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_int_equal(role_of("v0", &since_ms), ROLE_STANDBY);
	volume_host_destroy(host);
	host = volume_host_create("test");
	assert_int_equal(role_of("v0", &again_ms), ROLE_STANDBY);
	assert_int_equal(again_ms, since_ms);
	assert_int_equal(volume_start(host, "v0", &usual, &fault), 0);
	assert_int_equal(volume_start(host, "v0", &hard, &fault), 0);
	assert_int_equal(volume_wait(host, "v0", 5000), -ESHUTDOWN);
	assert_int_equal(role_of("v0", &again_ms), ROLE_STANDBY);
	assert_int_equal(again_ms, since_ms);
	/* the other one is not concerned */
	assert_int_equal(volume_start(host, "v1", &usual, &fault), 0);
	assert_int_equal(role_of("v1", &again_ms), ROLE_ACTIVE);
	/* Whatever is on record there, it is not to begin by itself. */
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	scratch_write("state/standby/3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10", "rubbish");
	assert_int_equal(volume_start(host, "v0", &usual, &fault), 0);
	assert_int_equal(role_of("v0", &again_ms), ROLE_STANDBY);
}

static void
test_an_activation_that_fails_leaves_it_on_standby(void **state)
{
	const struct volume_start_options options = { .wait_ms = 100 };
	struct volume *volume = acquire("v0", "tcmu: v0");
	uint64_t since_ms;
	bool again;

	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	for (int turn = 0; turn < 10; turn++) {
		assert_int_equal(volume_activate(host, "v0", &options, &fault), 0);
		assert_int_equal(volume_wait(host, "v0", options.wait_ms), -ETIMEDOUT);
		assert_int_equal(role_of("v0", &since_ms), ROLE_ACTIVE);
		assert_int_equal(volume_settle(host, "v0", &again, &fault), -ETIMEDOUT);
		assert_true(again);
		assert_int_equal(role_of("v0", &since_ms), ROLE_STANDBY);
		assert_int_equal(ask_volume(volume), -ESHUTDOWN);
	}
	volume_release(volume);
	/* One that was active before goes on with its attempts. */
	volume = acquire("v1", "tcmu: v1");
	assert_int_equal(volume_activate(host, "v1", &options, &fault), 0);
	assert_int_equal(volume_settle(host, "v1", &again, &fault), -ETIMEDOUT);
	assert_false(again);
	assert_int_equal(role_of("v1", &since_ms), ROLE_ACTIVE);
	volume_release(volume);
}

/* It was fenced, and that is not on record yet. */
static void
test_an_activation_that_fails_leaves_it_on_standby_whatever_is_on_record(void **state)
{
	const struct volume_start_options options = { .wait_ms = 100 };
	struct volume *volume = acquire("v0", "tcmu: v0");
	struct hosted *hosted = volume_pin(host, "v0");
	uint8_t uuid[16];
	uint64_t since_ms;
	bool again;

	memcpy(uuid, hosted->uuid, sizeof(uuid));
	volume_unpin(hosted);
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_int_equal(standby_forget(uuid), 0);
	assert_int_equal(volume_activate(host, "v0", &options, &fault), 0);
	assert_int_equal(volume_wait(host, "v0", options.wait_ms), -ETIMEDOUT);
	assert_int_equal(volume_settle(host, "v0", &again, &fault), -ETIMEDOUT);
	assert_true(again);
	assert_int_equal(role_of("v0", &since_ms), ROLE_STANDBY);
	volume_release(volume);
}

static void
test_a_role_that_can_not_be_recorded_does_not_change(void **state)
{
	struct volume *volume = acquire("v0", "tcmu: v0");
	uint64_t since_ms;

	scratch_write("state/standby", "no folder");
	assert_int_not_equal(volume_standby(host, "v0", &fault), 0);
	assert_non_null(strstr(fault.message, "v0"));
	assert_non_null(strstr(fault.message, "standby"));
	assert_int_equal(role_of("v0", &since_ms), ROLE_ACTIVE);
	assert_int_equal(volume_standby(host, "v9", &fault), -ENOENT);
	volume_release(volume);
}

static void *
change_role(void *argument)
{
	const struct volume_start_options options = { .wait_ms = 1 };
	struct fault why;
	bool again;

	for (int turn = 0; turn < ROUNDS; turn++) {
		assert_int_equal(volume_standby(host, argument, &why), 0);
		assert_int_equal(volume_activate(host, argument, &options, &why), 0);
		volume_settle(host, argument, &again, &why);
	}
	return NULL;
}

static void *submit_rounds(void *argument);

static void
test_roles_that_change_under_load_lose_no_request(void **state)
{
	pthread_t changer, submitters[THREADS];
	struct volume *volume = acquire("v0", "holder");
	uint64_t since_ms;

	pthread_create(&changer, NULL, change_role, (char *)"v0");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&submitters[i], NULL, submit_rounds, (char *)"v0");
	pthread_join(changer, NULL);
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(submitters[i], NULL);
	assert_int_equal(role_of("v0", &since_ms), ROLE_STANDBY);
	volume_release(volume);
}

/* --- by whose paths initiators should come --- */

/* What the engine says: played here (CMakeLists.txt); 0: it says so itself. */
static atomic_int played_state;
static atomic_bool played_fence, played_held;
static atomic_int access_changes, access_settles;

static void
access_has_changed(void *owner)
{
	assert_ptr_equal(owner, &access_changes);
	access_changes++;
}

static void
access_is_to_settle(void *owner)
{
	assert_int_equal(volume_access(host, "v0"), ACCESS_ELSEWHERE); /* no lock is held */
	access_settles++;
}

static void
await_access(enum volume_access wanted)
{
	struct volume_view view;

	for (int turn = 0; turn < 1000 && volume_access(host, "v0") != wanted; turn++)
		assert_int_equal(volume_view(host, "v0", &view, &fault), 0);
	assert_int_equal(volume_access(host, "v0"), wanted);
}

static void
test_initiators_come_here_only_while_it_is_served_here(void **state)
{
	static const enum volume_state served[] = { VOLUME_DEGRADED, VOLUME_SUSPENDED,
						    VOLUME_ACTIVE };
	const struct volume_start_options options = { .wait_ms = 100 };
	struct volume *volume = acquire("v0", "tcmu: v0");
	bool again;

	access_changes = access_settles = 0;
	volume_host_watch(host, &(struct volume_watch){ access_has_changed, access_is_to_settle,
							&access_changes });
	assert_int_equal(volume_access(host, "v1"), ACCESS_UNDECIDED); /* does not run */
	await_access(ACCESS_UNDECIDED);				       /* is being assembled */
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
		played_state = (int)served[i];
		await_access(ACCESS_HERE);
	}
	assert_int_equal(access_changes, 1);
	played_state = VOLUME_FAILED;
	await_access(ACCESS_UNDECIDED);
	played_state = VOLUME_ACTIVE;
	await_access(ACCESS_HERE);
	assert_int_equal(access_changes, 3);

	played_state = 0;
	assert_int_equal(volume_standby(host, "v0", &fault), 0);
	assert_int_equal(volume_access(host, "v0"), ACCESS_ELSEWHERE);
	assert_int_equal(access_changes, 4);
	assert_int_equal(access_settles, 1);
	/* An attempt is no reason to come here, and its end none to go. */
	assert_int_equal(volume_activate(host, "v0", &options, &fault), 0);
	await_access(ACCESS_UNDECIDED);
	assert_int_equal(volume_wait(host, "v0", options.wait_ms), -ETIMEDOUT);
	assert_int_equal(volume_settle(host, "v0", &again, &fault), -ETIMEDOUT);
	assert_int_equal(volume_access(host, "v0"), ACCESS_ELSEWHERE);
	assert_int_equal(access_settles, 2);
	volume_host_watch(host, NULL);
	volume_release(volume);
}

static void
test_a_fenced_volume_sends_initiators_away_at_once(void **state)
{
	struct volume *volume = acquire("v0", "tcmu: v0");

	played_state = VOLUME_ACTIVE;
	await_access(ACCESS_HERE);
	played_fence = true;
	await_access(ACCESS_ELSEWHERE);
	played_fence = false;
	played_state = 0;
	volume_release(volume);
}

/* Its thread is the first to see it, and must not wait for them while it has the volume's lock: they
 * come to want that one too.
 */
static void
test_a_fence_is_noted_while_others_have_the_lock_of_all_volumes(void **state)
{
	struct volume *volume = acquire("v0", "tcmu: v0");
	struct hosted *hosted = volume_pin(host, "v0");
	const struct timespec deadline = volume_deadline_in(20000);
	bool fenced = false;
	int error = 0;

	played_state = VOLUME_ACTIVE;
	await_access(ACCESS_HERE);
	pthread_mutex_lock(&host->lock); /* as volume_start() has, while it reads the file */
	played_fence = true;
	while (!fenced && error == 0) {
		error = pthread_mutex_clocklock(&hosted->lock, CLOCK_MONOTONIC, &deadline);
		if (error != 0)
			break;
		fenced = hosted->role == ROLE_FENCED;
		pthread_mutex_unlock(&hosted->lock);
		sched_yield();
	}
	pthread_mutex_unlock(&host->lock);
	assert_int_equal(error, 0);
	played_fence = false;
	played_state = 0;
	volume_unpin(hosted);
	volume_release(volume);
}

/* It died while initiators came here, and starts anew. */
static void
test_a_volume_that_another_gateway_has_sends_initiators_there(void **state)
{
	struct volume *volume = acquire("v0", "tcmu: v0");

	played_state = VOLUME_FAILED;
	await_access(ACCESS_UNDECIDED);
	played_held = true;
	await_access(ACCESS_ELSEWHERE);
	played_held = false;
	played_state = VOLUME_ACTIVE;
	await_access(ACCESS_HERE);
	played_state = 0;
	volume_release(volume);
}

/* --- growing, with the engine's part of it played here: see CMakeLists.txt --- */

#define OLD_BYTES (300ull << 20)
#define NEW_BYTES (600ull << 20)

int
__wrap_engine_grow(struct engine *engine, void (*done)(void *owner, int error, const char *text),
		   void *owner, char *why);
void __real_engine_status(const struct engine *engine, struct engine_status *out);
void __wrap_engine_status(const struct engine *engine, struct engine_status *out);

static struct {
	int refusal;
	sem_t asked;
	void (*done)(void *owner, int error, const char *text);
	void *owner;
	uint64_t size_bytes; /* on the volume's thread; 0: what the engine says */
} grow_asked;

int
__wrap_engine_grow(struct engine *engine, void (*done)(void *owner, int error, const char *text),
		   void *owner, char *why)
{
	grow_asked.done = done;
	grow_asked.owner = owner;
	if (grow_asked.refusal != 0)
		strcpy(why, "member 2 is missing");
	else
		sem_post(&grow_asked.asked);
	return grow_asked.refusal;
}

void
__wrap_engine_status(const struct engine *engine, struct engine_status *out)
{
	__real_engine_status(engine, out);
	if (played_state != 0)
		out->state = (enum volume_state)atomic_load(&played_state);
	out->fenced |= played_fence;
	out->held |= played_held;
	if (grow_asked.size_bytes != 0)
		out->size_bytes = grow_asked.size_bytes;
}

static int
has_size(struct engine *engine, void *argument, struct fault *out)
{
	grow_asked.size_bytes = *(uint64_t *)argument;
	return 0;
}

static int
has_grown(struct engine *engine, void *argument, struct fault *out)
{
	grow_asked.size_bytes = NEW_BYTES;
	grow_asked.done(grow_asked.owner, 0, "member 1 limits it");
	return 0;
}

static int
has_failed(struct engine *engine, void *argument, struct fault *out)
{
	grow_asked.done(grow_asked.owner, -EIO, "member 1 left meanwhile");
	return 0;
}

struct grower {
	struct volume_growth growth;
	struct fault fault;
	int result;
	uint64_t brief_bytes; /* right after */
	struct volume *volume;
};

static void *
grow_volume(void *argument)
{
	struct grower *grower = argument;
	struct volume_brief brief;

	grower->result = volume_grow(host, "v0", &grower->growth, &grower->fault);
	if (grower->result == 0) {
		volume_brief(grower->volume, &brief);
		grower->brief_bytes = brief.size_bytes;
	}
	return NULL;
}

/* A volume with a size, and a growth of it that the engine has begun. */
static pthread_t
begin_growth(struct grower *grower)
{
	static uint64_t old = OLD_BYTES;
	pthread_t thread;

	memset(grower, 0, sizeof(*grower));
	memset(&grow_asked, 0, sizeof(grow_asked));
	sem_init(&grow_asked.asked, 0, 0);
	grower->volume = acquire("v0", "test");
	assert_int_equal(volume_call(host, "v0", has_size, &old, &fault), 0);
	pthread_create(&thread, NULL, grow_volume, grower);
	sem_wait(&grow_asked.asked);
	return thread;
}

static void
end_growth(struct grower *grower)
{
	static uint64_t none = 0;

	volume_call(host, "v0", has_size, &none, &fault);
	volume_release(grower->volume);
	sem_destroy(&grow_asked.asked);
}

static void
test_a_growth_is_waited_for_and_its_size_is_known_on_return(void **state)
{
	struct grower grower, second;
	pthread_t thread = begin_growth(&grower);

	grow_volume(&second);
	assert_int_equal(second.result, -EBUSY);
	assert_non_null(strstr(second.fault.message, "in progress"));
	assert_int_equal(volume_call(host, "v0", has_grown, NULL, &fault), 0);
	pthread_join(thread, NULL);
	assert_int_equal(grower.result, 0);
	assert_int_equal(grower.growth.before_bytes, OLD_BYTES);
	assert_int_equal(grower.growth.size_bytes, NEW_BYTES);
	assert_int_equal(grower.brief_bytes, NEW_BYTES);
	assert_string_equal(grower.growth.note, "member 1 limits it");
	end_growth(&grower);
}

static void
test_a_growth_that_fails_says_why_and_the_next_may_begin(void **state)
{
	struct grower grower;
	pthread_t thread = begin_growth(&grower);

	assert_int_equal(volume_call(host, "v0", has_failed, NULL, &fault), 0);
	pthread_join(thread, NULL);
	assert_int_equal(grower.result, -EIO);
	assert_string_equal(grower.fault.message, "member 1 left meanwhile");
	grow_asked.refusal = -EBUSY;
	for (int i = 0; i < 2; i++) {
		grow_volume(&grower);
		assert_int_equal(grower.result, -EBUSY);
		assert_string_equal(grower.fault.message, "member 2 is missing");
	}
	end_growth(&grower);
}

static void
test_the_end_of_its_engine_ends_the_wait_for_a_growth(void **state)
{
	const struct volume_start_options again = { .force = true };
	struct grower grower;
	pthread_t thread = begin_growth(&grower);

	/* Not assembled, it is started again with another engine; its users keep their hold. */
	assert_int_equal(volume_start(host, "v0", &again, &fault), 0);
	pthread_join(thread, NULL);
	assert_int_equal(grower.result, -ESHUTDOWN);
	assert_non_null(strstr(grower.fault.message, "next start"));
	end_growth(&grower);
	assert_int_equal(volume_stop(host, "v0", &fault), 0);
	grow_volume(&grower);
	assert_int_equal(grower.result, -ENOTCONN);
	assert_non_null(strstr(grower.fault.message, "v0"));
}

/* --- many threads --- */

struct counted {
	struct engine_request request;
	sem_t *done;
	atomic_int completions;
};

static void
count(struct engine_request *request, int result)
{
	struct counted *counted = request->owner;

	assert_true(result < 0);
	atomic_fetch_add(&counted->completions, 1);
	sem_post(counted->done);
}

static atomic_bool go_on;

static int
count_slots(struct engine *engine, void *argument, struct fault *out)
{
	struct engine_status *status = argument;

	engine_status(engine, status);
	strcpy(out->message, "said");
	return status->slots;
}

/* What an administrator may meet while a volume starts again and again. */
static bool
is_passing(int error)
{
	return error == -EAGAIN || error == -ESHUTDOWN || error == -ENOTCONN || error == -ENOMEDIUM;
}

static void *
administer(void *argument)
{
	struct engine_status *status = malloc(sizeof(*status));
	struct device_address device;
	struct fault why;
	int calls = 0, result;

	assert_int_equal(device_address_parse("127.0.0.1:1/iqn.2026-01.org.iraid.test:d/0", &device,
					      &why),
			 0);
	while (atomic_load(&go_on) || calls == 0) {
		result = volume_call(host, argument, count_slots, status, &why);
		assert_true(result >= 3 ? strcmp(why.message, "said") == 0
					: is_passing(result) && why.message[0]);
		calls += result >= 3;
		assert_int_equal(volume_edit_add(host, argument, &device, &why), 0);
		assert_int_equal(volume_edit_add(host, argument, &device, &why), -EEXIST);
		result = volume_attach(host, argument, &device, &why);
		assert_true(result >= 3 || is_passing(result) || result == -ENOSPC);
		/* Nothing can leave a volume that never ran. */
		if (result >= 3)
			assert_true(volume_detach(host, argument, result,
						  "127.0.0.1:1/iqn.2026-01.org.iraid.test:d/0",
						  &why) < 0);
		assert_int_equal(volume_edit_drop(host, argument, &device, &why), 0);
	}
	free(status);
	return NULL;
}

static void *
submit_rounds(void *argument)
{
	const char *name = argument;
	struct volume *volume = acquire(name, "submitter");
	struct counted *requests = calloc(REQUESTS_PER_ROUND, sizeof(*requests));
	sem_t done;

	sem_init(&done, 0, 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < REQUESTS_PER_ROUND; i++) {
			memset(&requests[i].request, 0, sizeof(requests[i].request));
			requests[i].request.op = REQUEST_FLUSH;
			requests[i].request.done = count;
			requests[i].request.owner = &requests[i];
			requests[i].done = &done;
			atomic_store(&requests[i].completions, 0);
			volume_submit(volume, &requests[i].request);
		}
		for (int i = 0; i < REQUESTS_PER_ROUND; i++)
			sem_wait(&done);
		for (int i = 0; i < REQUESTS_PER_ROUND; i++)
			assert_int_equal(atomic_load(&requests[i].completions), 1);
	}
	volume_quiesce(volume);
	volume_release(volume);
	sem_destroy(&done);
	free(requests);
	return NULL;
}

static void *
look_around(void *argument)
{
	struct volume_view *view = malloc(sizeof(*view));
	struct fault why;

	(void)argument;
	while (atomic_load(&go_on)) {
		assert_int_equal(volume_view(host, "v0", view, &why), 0);
		volume_wait(host, "v1", 1);
		volume_stop(host, "v1", &why);
	}
	free(view);
	return NULL;
}

static void
test_requests_complete_once_while_volumes_start_again_and_again(void **state)
{
	const struct volume_start_options again = { .force = true };
	pthread_t submitters[THREADS], observer, administrator;
	struct volume *held0 = acquire("v0", "test"), *held1 = acquire("v1", "test");

	atomic_store(&go_on, true);
	pthread_create(&observer, NULL, look_around, NULL);
	pthread_create(&administrator, NULL, administer, "v0");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&submitters[i], NULL, submit_rounds, i % 2 ? "v1" : "v0");
	for (int i = 0; i < THREADS; i++) {
		while (pthread_tryjoin_np(submitters[i], NULL) == EBUSY) {
			/* While a volume is not assembled this ends its engine, and the requests in
			 * it.
			 */
			assert_int_equal(volume_start(host, "v0", &again, &fault), 0);
			assert_int_equal(volume_start(host, "v1", &again, &fault), 0);
			volume_quiesce(held0);
			volume_quiesce(held1);
		}
	}
	atomic_store(&go_on, false);
	pthread_join(observer, NULL);
	pthread_join(administrator, NULL);
	volume_release(held0);
	volume_release(held1);
}

#define HOST_TEST(function) cmocka_unit_test_setup_teardown(function, make_host, remove_host)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_what_is_not_configured_is_refused_and_named),
		HOST_TEST(test_users_are_named_and_keep_it_from_being_stopped),
		HOST_TEST(
			test_administration_of_what_does_not_run_says_so_and_its_file_can_be_changed),
		HOST_TEST(test_waiting_for_members_ends_in_time),
		HOST_TEST(test_the_end_of_the_process_ends_every_wait_and_lets_nothing_begin),
		HOST_TEST(test_another_process_is_told_who_has_it_until_that_ends),
		HOST_TEST(
			test_faults_of_the_gateway_are_told_when_a_volume_starts_and_not_when_it_can_not),
		HOST_TEST(test_a_reload_that_fails_has_changed_nothing),
		HOST_TEST(test_a_secrets_file_that_is_gone_fails_the_volume_not_the_start),
		HOST_TEST(test_a_volume_on_standby_keeps_its_users_and_refuses_at_once),
		HOST_TEST(test_standby_lasts_over_a_restart_and_a_start),
		HOST_TEST(test_an_activation_that_fails_leaves_it_on_standby),
		HOST_TEST(test_an_activation_that_fails_leaves_it_on_standby_whatever_is_on_record),
		HOST_TEST(test_initiators_come_here_only_while_it_is_served_here),
		HOST_TEST(test_a_fenced_volume_sends_initiators_away_at_once),
		HOST_TEST(test_a_fence_is_noted_while_others_have_the_lock_of_all_volumes),
		HOST_TEST(test_a_volume_that_another_gateway_has_sends_initiators_there),
		HOST_TEST(test_a_role_that_can_not_be_recorded_does_not_change),
		HOST_TEST(test_roles_that_change_under_load_lose_no_request),
		HOST_TEST(test_a_growth_is_waited_for_and_its_size_is_known_on_return),
		HOST_TEST(test_a_growth_that_fails_says_why_and_the_next_may_begin),
		HOST_TEST(test_the_end_of_its_engine_ends_the_wait_for_a_growth),
		HOST_TEST(test_requests_complete_once_while_volumes_start_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
