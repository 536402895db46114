/* volume/admin.c - see admin.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/base/log.h"
#include "internal.h"

#define DETACH_MS_MAX 20000	/* a session is given back in an orderly way first */
#define STATUS_MS 200		/* a fresh look at least so often */

/* --- calls into the thread --- */

/* The engine has an acceptance of lost extents; it says when that is durable. */
struct lost_accepting {
	uint64_t offset_bytes, length_bytes;
	int64_t result;
	bool done;
};

/* The engine grows the volume; it says when that is over. */
struct growing {
	uint64_t before_bytes;
	char text[VOLUME_WHY_MAX];
	int result;
	bool done;
};

static int
do_call(struct hosted *hosted, struct volume_call *call)
{
	if (hosted->engine_stopping) {
		snprintf(call->why, sizeof(call->why), "it is starting again or stopping");
		return -EAGAIN;
	}
	if (!hosted->engine) {
		snprintf(call->why, sizeof(call->why), "it is not assembled: %.200s", hosted->setup_fault);
		return -ENOMEDIUM;
	}
	return call->fn(hosted, call->argument, call->why);
}

void
volume_calls_run(struct hosted *hosted)
{
	struct volume_call *call;

	pthread_mutex_lock(&hosted->lock);
	while ((call = hosted->calls)) {
		hosted->calls = call->next;
		if (!hosted->calls)
			hosted->calls_last = &hosted->calls;
		pthread_mutex_unlock(&hosted->lock);
		call->result = do_call(hosted, call);
		pthread_mutex_lock(&hosted->lock);
		call->done = true;
		pthread_cond_broadcast(&hosted->changed);
	}
	pthread_mutex_unlock(&hosted->lock);
}

void
volume_calls_fail(struct hosted *hosted, int error, const char *why)
{
	for (struct volume_call *call = hosted->calls; call; call = call->next) {
		call->result = error;
		snprintf(call->why, sizeof(call->why), "%s", why);
		call->done = true;
	}
	hosted->calls = NULL;
	hosted->calls_last = &hosted->calls;
	pthread_cond_broadcast(&hosted->changed);
}

static int
call_hosted(struct hosted *hosted, int (*fn)(struct hosted *, void *, char *), void *argument, char *reason,
	    size_t reason_size)
{
	struct volume_call call = { .fn = fn, .argument = argument };

	pthread_mutex_lock(&hosted->lock);
	if (hosted->ended) {
		call.result = -ESHUTDOWN;
		snprintf(call.why, sizeof(call.why), "it was stopped meanwhile");
	} else {
		*hosted->calls_last = &call;
		hosted->calls_last = &call.next;
		volume_thread_wake(hosted);
		while (!call.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
	}
	pthread_mutex_unlock(&hosted->lock);
	if (reason)
		snprintf(reason, reason_size, "%s", call.why);
	return call.result;
}

static struct hosted *
pin_running(struct volume_host *host, const char *name, char *reason, size_t reason_size)
{
	struct hosted *hosted = volume_pin(host, name);

	if (!hosted && reason)
		snprintf(reason, reason_size, "volume \"%s\" is not running here", name);
	return hosted;
}

struct engine_call {
	volume_call_fn fn;
	void *argument;
};

static int
call_engine(struct hosted *hosted, void *argument, char *why)
{
	struct engine_call *call = argument;

	return call->fn(hosted->engine, call->argument, why);
}

int
volume_call_hosted(struct volume_host *host, const char *name,
		   int (*fn)(struct hosted *hosted, void *argument, char *why), void *argument, char *reason,
		   size_t reason_size)
{
	struct hosted *hosted = pin_running(host, name, reason, reason_size);
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, fn, argument, reason, reason_size);
	volume_unpin(hosted);
	return result;
}

int
volume_call(struct volume_host *host, const char *name, volume_call_fn fn, void *argument, char *reason,
	    size_t reason_size)
{
	struct engine_call call = { fn, argument };

	return volume_call_hosted(host, name, call_engine, &call, reason, reason_size);
}

/* --- waiting --- */

int
volume_wait_until(struct volume_host *host, const char *name, volume_reached_fn reached, void *argument,
		  uint32_t timeout_ms)
{
	struct hosted *hosted = volume_pin(host, name);
	struct timespec until = volume_deadline_in(timeout_ms);
	int result = -EAGAIN;

	if (!hosted)
		return -ENOTCONN;
	pthread_mutex_lock(&hosted->lock);
	while (result == -EAGAIN) {
		uint64_t ticket = ++hosted->asked;
		struct timespec soon = volume_deadline_in(STATUS_MS);

		volume_thread_wake(hosted);
		while (hosted->answered < ticket && !hosted->ended)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		if (hosted->ended)
			result = -ESHUTDOWN;
		else if (reached(&hosted->status, argument))
			result = 0;
		else if (soon.tv_sec > until.tv_sec || (soon.tv_sec == until.tv_sec && soon.tv_nsec > until.tv_nsec))
			result = -ETIMEDOUT;
		else
			pthread_cond_timedwait(&hosted->changed, &hosted->lock, &soon);
	}
	pthread_mutex_unlock(&hosted->lock);
	volume_unpin(hosted);
	return result;
}

/* --- devices --- */

static int
attach_device(struct hosted *hosted, void *argument, char *why)
{
	return volume_engine_attach(hosted, argument, why);
}

int
volume_attach(struct volume_host *host, const char *name, const struct device_address *device, char *reason,
	      size_t reason_size)
{
	struct hosted *hosted = pin_running(host, name, reason, reason_size);
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, attach_device, (void *)device, reason, reason_size);
	volume_unpin(hosted);
	return result;
}

struct detaching {
	int slot;
	const char *label;	/* as status has it: cut off */
};

static int
detach_device(struct hosted *hosted, void *argument, char *why)
{
	const struct detaching *detaching = argument;
	int slot = detaching->slot;

	if (slot < 0 || slot >= hosted->slot_count || !hosted->backends[slot] ||
	    strncmp(hosted->backends[slot]->label, detaching->label, 255) != 0) {
		snprintf(why, VOLUME_WHY_MAX, "it has left the volume already");
		return -ENOENT;
	}
	return engine_detach(hosted->engine, slot, why);
}

static bool
has_left(const struct engine_status *status, void *argument)
{
	const struct detaching *detaching = argument;

	return detaching->slot >= status->slots || !status->members[detaching->slot].attached ||
	       strcmp(status->members[detaching->slot].label, detaching->label) != 0;
}

int
volume_detach(struct volume_host *host, const char *name, int slot, const char *label, char *reason,
	      size_t reason_size)
{
	struct hosted *hosted = pin_running(host, name, reason, reason_size);
	struct detaching detaching = { .slot = slot, .label = label };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, detach_device, &detaching, reason, reason_size);
	if (result == 0)
		result = volume_wait_until(host, name, has_left, &detaching, DETACH_MS_MAX);
	if (result == -ETIMEDOUT)
		snprintf(reason, reason_size, "its session did not end within %d s", DETACH_MS_MAX / 1000);
	/* Who adds the device again at once must not see it dropped by the keeper afterwards. */
	pthread_mutex_lock(&hosted->lock);
	while (result == 0 && hosted->drops > 0)
		pthread_cond_wait(&hosted->changed, &hosted->lock);
	pthread_mutex_unlock(&hosted->lock);
	volume_unpin(hosted);
	return result;
}

/* --- lost extents --- */

static void
accepted(void *owner, int64_t result)
{
	struct hosted *hosted = owner;

	pthread_mutex_lock(&hosted->lock);
	if (hosted->accepting) {
		hosted->accepting->result = result;
		hosted->accepting->done = true;
		hosted->accepting = NULL;
		pthread_cond_broadcast(&hosted->changed);
	}
	pthread_mutex_unlock(&hosted->lock);
}

void
volume_accepting_fail(struct hosted *hosted)
{
	accepted(hosted, -ESHUTDOWN);
}

static int
accept_lost(struct hosted *hosted, void *argument, char *why)
{
	struct lost_accepting *accepting = argument;
	bool busy;

	pthread_mutex_lock(&hosted->lock);
	busy = hosted->accepting;
	if (!busy)
		hosted->accepting = accepting;
	pthread_mutex_unlock(&hosted->lock);
	if (busy) {
		snprintf(why, VOLUME_WHY_MAX, "lost extents are being accepted already");
		return -EBUSY;
	}
	engine_lost_accept(hosted->engine, accepting->offset_bytes, accepting->length_bytes, accepted, hosted);
	return 0;
}

int
volume_accept_lost(struct volume_host *host, const char *name, uint64_t offset_bytes, uint64_t length_bytes,
		   int64_t *bytes, char *reason, size_t reason_size)
{
	struct hosted *hosted = pin_running(host, name, reason, reason_size);
	struct lost_accepting accepting = { .offset_bytes = offset_bytes, .length_bytes = length_bytes };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, accept_lost, &accepting, reason, reason_size);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!accepting.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		*bytes = accepting.result;
		result = accepting.result < 0 ? (int)accepting.result : 0;
		snprintf(reason, reason_size, "%s", result ? strerror(-result) : "");
	}
	volume_unpin(hosted);
	return result;
}

/* --- growing --- */

static void
grown(void *owner, int error, const char *text)
{
	struct hosted *hosted = owner;

	pthread_mutex_lock(&hosted->lock);
	if (hosted->growing) {
		hosted->growing->result = error;
		snprintf(hosted->growing->text, sizeof(hosted->growing->text), "%s", text);
		hosted->growing->done = true;
		hosted->growing = NULL;
		pthread_cond_broadcast(&hosted->changed);
	}
	pthread_mutex_unlock(&hosted->lock);
}

void
volume_growing_fail(struct hosted *hosted)
{
	grown(hosted, -ESHUTDOWN, "it was stopped meanwhile; its next start shows which size it has");
}

static uint64_t
size_now(const struct engine *engine)
{
	struct engine_status *status = malloc(sizeof(*status));
	uint64_t size_bytes = 0;

	if (status) {
		engine_status(engine, status);
		size_bytes = status->size_bytes;
	}
	free(status);
	return size_bytes;
}

static int
begin_growing(struct hosted *hosted, void *argument, char *why)
{
	struct growing *growing = argument;
	bool busy;
	int error;

	pthread_mutex_lock(&hosted->lock);
	busy = hosted->growing;
	if (!busy)
		hosted->growing = growing;
	pthread_mutex_unlock(&hosted->lock);
	if (busy) {
		snprintf(why, VOLUME_WHY_MAX, "a change of its size is under way");
		return -EBUSY;
	}
	growing->before_bytes = size_now(hosted->engine);
	error = engine_grow(hosted->engine, grown, hosted, why);
	if (error != 0) {
		pthread_mutex_lock(&hosted->lock);
		hosted->growing = NULL;
		pthread_mutex_unlock(&hosted->lock);
	}
	return error;
}

static bool
note_size(const struct engine_status *status, void *argument)
{
	uint64_t *size_bytes = argument;

	*size_bytes = status->size_bytes;
	return status->size_bytes != 0;
}

int
volume_grow(struct volume_host *host, const char *name, struct volume_growth *out, char *text, size_t text_size)
{
	struct hosted *hosted = pin_running(host, name, text, text_size);
	struct growing growing = { .done = false };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, begin_growing, &growing, text, text_size);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!growing.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		result = growing.result;
		snprintf(text, text_size, "%s", growing.text);
	}
	/* What has a fresh status has published it too. */
	if (result == 0 && volume_wait_until(host, name, note_size, &out->size_bytes, STATUS_MS) != 0) {
		result = -ESHUTDOWN;
		snprintf(text, text_size, "it was stopped right after; its next start shows which size it has");
	}
	out->before_bytes = growing.before_bytes;
	volume_unpin(hosted);
	return result;
}

/* --- the configuration file --- */

static int
apply(const char *name, volume_change_fn change, void *argument, char *reason, size_t reason_size)
{
	struct volume_config *config = malloc(sizeof(*config));
	char why[VOLUME_WHY_MAX] = "";
	int error, lock;

	if (!config) {
		snprintf(reason, reason_size, "out of memory");
		return -ENOMEM;
	}
	lock = config_lock(VOLUMES_LOCK, reason, reason_size);
	error = lock < 0 ? lock : volume_config_read(name, config, reason, reason_size);
	if (error == 0) {
		error = change(config, argument, why);
		if (error != 0)
			snprintf(reason, reason_size, "%s", why);
	}
	if (error == 0)
		error = volume_config_write(config, reason, reason_size);
	if (lock >= 0)
		close(lock);
	free(config);
	return error;
}

/* It does not run here: nor must it run elsewhere. */
static int
apply_locked(struct volume_host *host, const char *name, volume_change_fn change, void *argument, char *reason,
	     size_t reason_size)
{
	struct volume_config *config = malloc(sizeof(*config));
	int error = config ? volume_config_read(name, config, reason, reason_size) : -ENOMEM;
	int lock = error == 0 ? volume_lock(config->uuid, name, host->program, reason, reason_size) : error;

	error = lock < 0 ? lock : apply(name, change, argument, reason, reason_size);
	if (lock >= 0)
		close(lock);
	free(config);
	return error;
}

int
volume_edit(struct volume_host *host, const char *name, volume_change_fn change, void *argument, char *reason,
	    size_t reason_size)
{
	struct hosted *hosted;
	char ignored[VOLUME_WHY_MAX];
	int error;

	pthread_mutex_lock(&host->edits);
	hosted = volume_pin(host, name);
	if (!hosted) {
		error = apply_locked(host, name, change, argument, reason, reason_size);
	} else {
		error = apply(name, change, argument, reason, reason_size);
		pthread_mutex_lock(&hosted->lock);
		if (error == 0)
			change(&hosted->config, argument, ignored);
		pthread_mutex_unlock(&hosted->lock);
		volume_unpin(hosted);
	}
	pthread_mutex_unlock(&host->edits);
	return error;
}

static int
add_device(struct volume_config *config, void *argument, char *why)
{
	const struct device_address *device = argument;

	if (volume_config_find(config, device) >= 0) {
		snprintf(why, VOLUME_WHY_MAX, "it is a device of volume \"%s\" already", config->name);
		return -EEXIST;
	}
	if (config->device_count == SLOTS_MAX) {
		snprintf(why, VOLUME_WHY_MAX, "volume \"%s\" has %d devices, more are not possible", config->name,
			 SLOTS_MAX);
		return -ENOSPC;
	}
	config->devices[config->device_count++] = *device;
	return 0;
}

int
volume_edit_add(struct volume_host *host, const char *name, const struct device_address *device, char *reason,
		size_t reason_size)
{
	return volume_edit(host, name, add_device, (void *)device, reason, reason_size);
}

int
volume_edit_add_locked(struct volume_host *host, const char *name, const struct device_address *device, char *reason,
		       size_t reason_size)
{
	int error;

	pthread_mutex_lock(&host->edits);
	error = apply(name, add_device, (void *)device, reason, reason_size);
	pthread_mutex_unlock(&host->edits);
	return error;
}

static int
drop_device(struct volume_config *config, void *argument, char *why)
{
	int error = volume_config_drop(config, argument);

	if (error != 0)
		snprintf(why, VOLUME_WHY_MAX, "volume \"%s\" would be left with one device", config->name);
	return error;
}

int
volume_edit_drop(struct volume_host *host, const char *name, const struct device_address *device, char *reason,
		 size_t reason_size)
{
	return volume_edit(host, name, drop_device, (void *)device, reason, reason_size);
}

void
volume_note(struct volume_host *host, int severity, const char *kind, const char *name, const char *member,
	    const char *format, ...)
{
	char text[EVENT_TEXT_MAX + 1];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	volume_host_event(host, severity, kind, name, member, text);
	if (name[0] != '\0')
		log_line(severity, "volume %s: %s", name, text);
	else
		log_line(severity, "%s", text);
}
