/* volume/host.c - which volumes run in this process and who uses them.  The thread of each is
 * thread.c's; here is only its beginning and end, and the lock that keeps another
 * process of this machine away (other machines are kept away by reservations).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "adapters/base/files.h"
#include "adapters/base/log.h"
#include "internal.h"

struct volume_host *
volume_host_create(const char *program)
{
	struct volume_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	pthread_mutex_init(&host->lock, NULL);
	pthread_mutex_init(&host->edits, NULL);
	pthread_mutex_init(&host->watching, NULL);
	pthread_cond_init(&host->unpinned, NULL);
	snprintf(host->program, sizeof(host->program), "%s", program);
	host->events = event_ring_create();
	host->keeper = host->events ? keeper_create(host) : NULL;
	host->seeker = host->keeper ? keeper_create(host) : NULL;
	host->recorder = host->seeker ? recorder_create() : NULL;
	if (host->recorder) {
		host->journal = journal_open();
		return host;
	}
	if (host->seeker)
		keeper_destroy(host->seeker);
	if (host->keeper)
		keeper_destroy(host->keeper);
	event_ring_destroy(host->events);
	free(host);
	return NULL;
}

void
volume_host_event(struct volume_host *host, int severity, const char *kind, const char *name,
		  const char *member, const char *text)
{
	event_ring_add(host->events, severity, kind, name, member, text);
	journal_event(host->journal, severity, kind, name, member, text);
}

struct event_ring *
volume_host_events(struct volume_host *host)
{
	return host->events;
}

const char *
volume_host_program(const struct volume_host *host)
{
	return host->program;
}

/* --- the lock file --- */

static void
name_holder(int fd, char *out, size_t size)
{
	char text[64];
	ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

	snprintf(out, size, "another process");
	if (got <= 0)
		return;
	text[got] = '\0';
	text[strcspn(text, "\n")] = '\0';
	snprintf(out, size, "%s", text);
}

int
volume_lock(const uint8_t uuid[16], const char *name, const char *program, struct fault *fault)
{
	char path[PATH_MAX], uuid_text[UUID_STR_LEN], holder[64];
	int fd, error = folder_make(run_dir());

	uuid_unparse_lower(uuid, uuid_text);
	if (snprintf(path, sizeof(path), "%s/%s.lock", run_dir(), uuid_text) >= (int)sizeof(path))
		error = -ENAMETOOLONG;
	fd = error == 0 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	if (fd < 0) {
		error = error != 0 ? error : -errno;
		return fault_disk(fault, error, run_dir(),
				  "volume \"%s\": its lock %s can't be opened: %s", name, path,
				  strerror(-error));
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		error = errno == EWOULDBLOCK ? -EBUSY : -errno;
		name_holder(fd, holder, sizeof(holder));
		if (error == -EBUSY)
			fault_errno(fault, error,
				    "volume \"%s\" is in use by %s (lock %s); stop it there first",
				    name, holder, path);
		else
			fault_errno(fault, error, "volume \"%s\": its lock %s: %s", name, path,
				    strerror(-error));
		close(fd);
		return error;
	}
	snprintf(holder, sizeof(holder), "%.31s pid %ld\n", program, (long)getpid());
	if (ftruncate(fd, 0) != 0 || pwrite(fd, holder, strlen(holder), 0) < 0)
		log_line(LOG_WARNING, "volume %s: lock %s: %s", name, path, strerror(errno));
	return fd;
}

/* --- beginning and end of a volume --- */

/* With host->lock. */
static struct hosted *
find(struct volume_host *host, const char *name)
{
	for (struct hosted *hosted = host->volumes; hosted; hosted = hosted->next) {
		if (strcmp(hosted->name, name) == 0)
			return hosted;
	}
	return NULL;
}

static void
free_hosted(struct hosted *hosted)
{
	if (hosted->seat)
		recorder_leave(hosted->seat);
	if (hosted->lock_fd >= 0)
		close(hosted->lock_fd);
	pthread_mutex_destroy(&hosted->lock);
	pthread_cond_destroy(&hosted->changed);
	free(hosted);
}

static struct hosted *
new_hosted(struct volume_host *host, const struct volume_config *config,
	   const struct volume_start_options *options)
{
	struct hosted *hosted = calloc(1, sizeof(*hosted));
	pthread_condattr_t attributes;

	if (!hosted)
		return NULL;
	hosted->host = host;
	hosted->config = *config;
	hosted->start_options = *options;
	snprintf(hosted->name, sizeof(hosted->name), "%s", config->name);
	memcpy(hosted->uuid, config->uuid, sizeof(hosted->uuid));
	hosted->lock_fd = -1;
	pthread_mutex_init(&hosted->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&hosted->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	volume_role_begin(hosted, options->standby ? ROLE_STANDBY : ROLE_ACTIVE);
	if (options->activate)
		volume_role_set(hosted, hosted->made = ROLE_ACTIVE, "");
	return hosted;
}

/* The recorder has an answer for it. */
static void
wake_recorded(void *owner)
{
	volume_thread_wake(owner);
}

/* With host->lock. */
static int
begin(struct volume_host *host, const char *name, const struct volume_start_options *options,
      struct hosted **out, struct fault *fault)
{
	struct volume_config config;
	struct hosted *hosted;
	int error = volume_config_read(name, &config, fault);

	if (error != 0)
		return error;
	if (host->ending)
		return fault_errno(fault, -EAGAIN,
				   "volume \"%s\" can't be started, because %s is ending; try "
				   "again after its restart",
				   name, host->program);
	hosted = new_hosted(host, &config, options);
	if (!hosted)
		return fault_errno(fault, -ENOMEM, "volume \"%s\": out of memory", name);
	hosted->lock_fd = volume_lock(config.uuid, name, host->program, fault);
	if (hosted->lock_fd < 0) {
		error = hosted->lock_fd;
		free_hosted(hosted);
		return error;
	}
	hosted->seat = recorder_join(host->recorder, hosted->uuid, wake_recorded, hosted);
	error = hosted->seat ? volume_thread_start(hosted) : -ENOMEM;
	if (error != 0) {
		fault_errno(fault, error, "volume \"%s\": its thread can't be started: %s", name,
			    strerror(-error));
		free_hosted(hosted);
		return error;
	}
	hosted->next = host->volumes;
	host->volumes = hosted;
	*out = hosted;
	return 0;
}

static void
ask_to_stop(struct hosted *hosted)
{
	pthread_mutex_lock(&hosted->lock);
	hosted->want_stop = true;
	/* nobody need wait for its assembly any more */
	pthread_cond_broadcast(&hosted->changed);
	pthread_mutex_unlock(&hosted->lock);
	volume_thread_wake(hosted);
}

/* Wait for its end and free it.  hosted->stopping is set, host->lock is not held. */
static void
finish(struct volume_host *host, struct hosted *hosted)
{
	struct hosted **link;

	pthread_join(hosted->thread, NULL);
	pthread_mutex_lock(&host->lock);
	while (hosted->pins > 0)
		pthread_cond_wait(&host->unpinned, &host->lock);
	for (link = &host->volumes; *link != hosted; link = &(*link)->next)
		;
	*link = hosted->next;
	pthread_mutex_unlock(&host->lock);
	if (hosted->users) {
		/* The process ends under its users: they may still call, so their memory stays. */
		close(hosted->lock_fd);
		recorder_leave(hosted->seat);
		return;
	}
	recorder_leave(hosted->seat); /* it wakes the thread by its reactor */
	hosted->seat = NULL;
	reactor_destroy(hosted->reactor);
	free_hosted(hosted);
}

void
volume_host_end(struct volume_host *host)
{
	pthread_mutex_lock(&host->lock);
	host->ending = true;
	for (struct hosted *hosted = host->volumes; hosted; hosted = hosted->next) {
		hosted->stopping = true;
		ask_to_stop(hosted);
	}
	pthread_mutex_unlock(&host->lock);
}

bool
volume_host_is_ending(struct volume_host *host)
{
	bool ending;

	pthread_mutex_lock(&host->lock);
	ending = host->ending;
	pthread_mutex_unlock(&host->lock);
	return ending;
}

void
volume_host_destroy(struct volume_host *host)
{
	/* All are asked before the first is waited for: silent members cost their time once. */
	volume_host_end(host);
	while (host->volumes)
		finish(host, host->volumes);
	keeper_destroy(host->seeker);
	keeper_destroy(host->keeper);
	recorder_destroy(host->recorder);
	journal_close(host->journal);
	event_ring_destroy(host->events);
	pthread_mutex_destroy(&host->watching);
	pthread_mutex_destroy(&host->edits);
	pthread_mutex_destroy(&host->lock);
	pthread_cond_destroy(&host->unpinned);
	free(host);
}

/* --- users --- */

int
volume_acquire(struct volume_host *host, const char *name, const char *user, struct volume **out,
	       struct fault *fault)
{
	static const struct volume_start_options usual;
	struct volume *volume = calloc(1, sizeof(*volume));
	struct hosted *hosted;
	bool begun = false;
	int error = 0;

	if (!volume)
		return fault_errno(fault, -ENOMEM, "volume \"%s\": out of memory", name);
	snprintf(volume->user, sizeof(volume->user), "%s", user);
	pthread_mutex_lock(&host->edits); /* as volume_start() */
	pthread_mutex_lock(&host->lock);
	hosted = find(host, name);
	if (!hosted) {
		error = begin(host, name, &usual, &hosted, fault);
		begun = error == 0;
	} else if (hosted->stopping) {
		error = fault_errno(fault, -EAGAIN,
				    "volume \"%s\" is being stopped; try again when it is stopped",
				    name);
	}
	if (error == 0) {
		volume->hosted = hosted;
		volume->next = hosted->users;
		hosted->users = volume;
	}
	pthread_mutex_unlock(&host->lock);
	pthread_mutex_unlock(&host->edits);
	if (begun)
		volume_config_complain();
	if (error != 0)
		free(volume);
	else
		*out = volume;
	return error;
}

const uint8_t *
volume_uuid(const struct volume *volume)
{
	return volume->hosted->uuid;
}

void
volume_release(struct volume *volume)
{
	struct volume_host *host = volume->hosted->host;
	struct volume **link;

	pthread_mutex_lock(&host->lock);
	for (link = &volume->hosted->users; *link != volume; link = &(*link)->next)
		;
	*link = volume->next;
	pthread_mutex_unlock(&host->lock);
	free(volume);
}

void
volume_submit(struct volume *volume, struct engine_request *request)
{
	volume_thread_submit(volume->hosted, request);
}

void
volume_brief(const struct volume *volume, struct volume_brief *out)
{
	struct hosted *hosted = volume->hosted;

	/* The state first: who sees the volume assembled sees its size too. */
	out->state =
		(enum volume_state)atomic_load_explicit(&hosted->brief_state, memory_order_acquire);
	out->role =
		(enum volume_role)atomic_load_explicit(&hosted->brief_role, memory_order_relaxed);
	out->level = atomic_load_explicit(&hosted->brief_level, memory_order_relaxed);
	out->size_bytes = atomic_load_explicit(&hosted->brief_size_bytes, memory_order_relaxed);
	out->block_bytes = atomic_load_explicit(&hosted->brief_block_bytes, memory_order_relaxed);
	out->chunk_bytes = atomic_load_explicit(&hosted->brief_chunk_bytes, memory_order_relaxed);
	out->row_bytes = atomic_load_explicit(&hosted->brief_row_bytes, memory_order_relaxed);
}

/* --- administration --- */

/* Keep it from being freed.  NULL: it does not run. */
struct hosted *
volume_pin(struct volume_host *host, const char *name)
{
	struct hosted *hosted;

	pthread_mutex_lock(&host->lock);
	hosted = find(host, name);
	if (hosted)
		hosted->pins++;
	pthread_mutex_unlock(&host->lock);
	return hosted;
}

void
volume_pin_again(struct hosted *hosted)
{
	pthread_mutex_lock(&hosted->host->lock);
	hosted->pins++;
	pthread_mutex_unlock(&hosted->host->lock);
}

void
volume_unpin(struct hosted *hosted)
{
	struct volume_host *host = hosted->host;

	pthread_mutex_lock(&host->lock);
	if (--hosted->pins == 0)
		pthread_cond_broadcast(&host->unpinned);
	pthread_mutex_unlock(&host->lock);
}

struct timespec
volume_deadline_in(uint32_t timeout_ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += timeout_ms / 1000;
	at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

/* With hosted->lock.  -EAGAIN: not decided yet, or the snapshot is older than the question. */
static int
assembled(const struct hosted *hosted, uint64_t ticket)
{
	if (hosted->ended || hosted->want_stop)
		return -ESHUTDOWN;
	if (hosted->want_restart || hosted->answered < ticket ||
	    (hosted->role == ROLE_ACTIVE && hosted->made != ROLE_ACTIVE))
		return -EAGAIN;
	switch (hosted->status.state) {
	case VOLUME_ASSEMBLING:
		return -EAGAIN;
	case VOLUME_ACTIVE:
	case VOLUME_DEGRADED:
	case VOLUME_SUSPENDED:
		return 0;
	case VOLUME_FAILED:
		return -EIO;
	case VOLUME_STOPPING:
	case VOLUME_STOPPED:
	case VOLUME_STANDBY:
		return -ESHUTDOWN;
	}
	return -EIO;
}

static int
wait_assembled(struct hosted *hosted, uint32_t timeout_ms, struct fault *fault)
{
	struct timespec until = volume_deadline_in(timeout_ms);
	uint64_t ticket;
	int result;

	pthread_mutex_lock(&hosted->lock);
	ticket = ++hosted->asked;
	volume_thread_wake(hosted);
	while ((result = assembled(hosted, ticket)) == -EAGAIN) {
		if (pthread_cond_timedwait(&hosted->changed, &hosted->lock, &until) == ETIMEDOUT) {
			result = assembled(hosted, ticket);
			if (result == -EAGAIN)
				result = -ETIMEDOUT;
			break;
		}
	}
	fault_errno(fault, result, "%s", hosted->status.reason);
	pthread_mutex_unlock(&hosted->lock);
	return result;
}

int
volume_wait_assembled(struct volume *volume, uint32_t timeout_ms, struct fault *fault)
{
	return wait_assembled(volume->hosted, timeout_ms, fault);
}

void
volume_quiesce(struct volume *volume)
{
	struct hosted *hosted = volume->hosted;
	uint64_t ticket;

	pthread_mutex_lock(&hosted->lock);
	ticket = ++hosted->asked;
	volume_thread_wake(hosted);
	while (hosted->answered < ticket && !hosted->ended)
		pthread_cond_wait(&hosted->changed, &hosted->lock);
	pthread_mutex_unlock(&hosted->lock);
}

int
volume_wait(struct volume_host *host, const char *name, uint32_t timeout_ms)
{
	struct hosted *hosted = volume_pin(host, name);
	struct fault ignored;
	int result;

	if (!hosted)
		return -ESHUTDOWN;
	result = wait_assembled(hosted, timeout_ms, &ignored);
	volume_unpin(hosted);
	return result;
}

static void
view_running(struct hosted *hosted, struct volume_view *out)
{
	struct volume_host *host = hosted->host;
	uint64_t ticket;

	pthread_mutex_lock(&hosted->lock);
	ticket = ++hosted->asked;
	volume_thread_wake(hosted);
	while (hosted->answered < ticket && !hosted->ended)
		pthread_cond_wait(&hosted->changed, &hosted->lock);
	out->status = hosted->status;
	out->config = hosted->config;
	out->role = hosted->role;
	out->role_since_ms = hosted->role_since_ms;
	out->role_changes = hosted->role_changes;
	out->role_changes_hour = volume_role_changes_hour(hosted);
	if (hosted->want_stop && out->status.state != VOLUME_STOPPED)
		out->status.state = VOLUME_STOPPING;
	pthread_mutex_unlock(&hosted->lock);
	out->running = true;
	pthread_mutex_lock(&host->lock);
	for (struct volume *user = hosted->users; user && out->user_count < VOLUME_USERS_MAX;
	     user = user->next)
		memcpy(out->users[out->user_count++], user->user, sizeof(out->users[0]));
	pthread_mutex_unlock(&host->lock);
}

int
volume_view(struct volume_host *host, const char *name, struct volume_view *out,
	    struct fault *fault)
{
	struct hosted *hosted = volume_pin(host, name);
	int error;

	memset(out, 0, sizeof(*out));
	if (hosted) {
		view_running(hosted, out);
		volume_unpin(hosted);
		return 0;
	}
	error = volume_config_read(name, &out->config, fault);
	out->status.state = VOLUME_STOPPED;
	if (error == 0 && standby_recall(out->config.uuid, &out->role_since_ms) != -ENOENT)
		out->role = ROLE_STANDBY;
	return error;
}

/* Have the thread of a volume that runs assemble it again. */
static int
begin_again(struct hosted *hosted, const struct volume_start_options *options, struct fault *fault)
{
	struct volume_config config;
	int state, error;

	if (options->standby) /* that changes nothing of what runs, nor does a fault in its file */
		return 0;
	error = volume_config_read(hosted->name, &config, fault);
	if (error != 0)
		return error;
	if (memcmp(config.uuid, hosted->uuid, sizeof(config.uuid)) != 0)
		return fault_errno(
			fault, -EBUSY,
			"volume \"%s\" runs with another UUID than its file has now; first stop it",
			hosted->name);
	pthread_mutex_lock(&hosted->lock);
	state = (int)hosted->status.state;
	if (hosted->role != ROLE_ACTIVE) {
		if (options->activate) {
			hosted->config = config;
			hosted->start_options = *options;
			volume_role_set(hosted, ROLE_ACTIVE, "");
			hosted->want_restart = true;
			volume_thread_wake(hosted);
		}
	} else if (!hosted->want_restart &&
		   (state == VOLUME_FAILED ||
		    (state == VOLUME_ASSEMBLING && (options->force || options->take_over)))) {
		hosted->config = config;
		hosted->start_options = *options;
		hosted->want_restart = true;
		volume_thread_wake(hosted);
	}
	pthread_mutex_unlock(&hosted->lock);
	return 0;
}

int
volume_start(struct volume_host *host, const char *name, const struct volume_start_options *options,
	     struct fault *fault)
{
	struct hosted *hosted;
	bool begun = false;
	int error = 0;

	/* Its file must not change between being read and taken over. */
	pthread_mutex_lock(&host->edits);
	pthread_mutex_lock(&host->lock);
	hosted = find(host, name);
	if (!hosted) {
		error = begin(host, name, options, &hosted, fault);
		begun = error == 0;
	} else if (hosted->stopping) {
		error = fault_errno(fault, -EAGAIN,
				    "volume \"%s\" is being stopped; try again when it is stopped",
				    name);
	} else {
		error = begin_again(hosted, options, fault);
	}
	pthread_mutex_unlock(&host->lock);
	pthread_mutex_unlock(&host->edits);
	if (begun)
		volume_config_complain();
	return error;
}

/* With host->lock. */
static int
refuse_while_used(const struct hosted *hosted, struct fault *fault)
{
	if (hosted->stopping)
		return fault_errno(fault, -EAGAIN, "volume \"%s\" is already being stopped",
				   hosted->name);
	if (!hosted->users)
		return 0;
	fault_errno(fault, -EBUSY, "volume \"%s\" is in use by", hosted->name);
	for (const struct volume *user = hosted->users; user; user = user->next)
		fault_errno(fault, -EBUSY, "%s \"%s\"%s", fault->message, user->user,
			    user->next ? "," : "");
	return -EBUSY;
}

int
volume_stop(struct volume_host *host, const char *name, struct fault *fault)
{
	struct hosted *hosted;
	int error;

	pthread_mutex_lock(&host->lock);
	hosted = find(host, name);
	error = hosted ? refuse_while_used(hosted, fault) : 0;
	if (hosted && error == 0) {
		hosted->stopping = true;
		ask_to_stop(hosted);
	}
	pthread_mutex_unlock(&host->lock);
	if (hosted && error == 0)
		finish(host, hosted);
	return error;
}
