/* volume/admin.c - see admin.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/base/log.h"
#include "internal.h"

#define DETACH_MS_MAX 20000 /* a session is given back in an orderly way first */
#define STATUS_MS 200	    /* a fresh look at least so often */

/* --- calls into the thread --- */

/* The engine has an acceptance of lost extents; it says when that is durable. */
struct lost_accepting {
	uint64_t offset_bytes, length_bytes;
	int64_t result;
	bool done;
};

/* The engine grows the volume; it says when that is over. */
struct growing {
	struct volume_growth *out;
	struct fault *fault;
	int result;
	bool done;
};

static int
do_call(struct hosted *hosted, struct volume_call *call)
{
	if (hosted->engine_stopping)
		return fault_errno(call->fault, -EAGAIN, "it is restarting or stopping");
	if (!hosted->engine)
		return fault_errno(call->fault, -ENOMEDIUM, "it is not assembled: %.200s",
				   hosted->setup_fault.message);
	return call->fn(hosted, call->argument, call->fault);
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
volume_calls_fail(struct hosted *hosted, int error, const char *text)
{
	for (struct volume_call *call = hosted->calls; call; call = call->next) {
		call->result = fault_errno(call->fault, error, "%s", text);
		call->done = true;
	}
	hosted->calls = NULL;
	hosted->calls_last = &hosted->calls;
	pthread_cond_broadcast(&hosted->changed);
}

static int
call_hosted(struct hosted *hosted, int (*fn)(struct hosted *, void *, struct fault *),
	    void *argument, struct fault *fault)
{
	struct volume_call call = { .fn = fn, .argument = argument, .fault = fault };

	*fault = (struct fault)FAULT_NONE;
	pthread_mutex_lock(&hosted->lock);
	if (hosted->ended) {
		call.result =
			fault_errno(fault, -ESHUTDOWN, "it was stopped before the command ended");
	} else {
		*hosted->calls_last = &call;
		hosted->calls_last = &call.next;
		volume_thread_wake(hosted);
		while (!call.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
	}
	pthread_mutex_unlock(&hosted->lock);
	if (call.result < 0)
		fault->code = call.result; /* the engine's functions give a text only */
	return call.result;
}

static struct hosted *
pin_running(struct volume_host *host, const char *name, struct fault *fault)
{
	struct hosted *hosted = volume_pin(host, name);

	if (!hosted)
		fault_errno(fault, -ENOTCONN, "volume \"%s\" is not running here", name);
	return hosted;
}

struct engine_call {
	volume_call_fn fn;
	void *argument;
};

static int
call_engine(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct engine_call *call = argument;

	return call->fn(hosted->engine, call->argument, fault);
}

int
volume_call_hosted(struct volume_host *host, const char *name,
		   int (*fn)(struct hosted *hosted, void *argument, struct fault *fault),
		   void *argument, struct fault *fault)
{
	struct hosted *hosted = pin_running(host, name, fault);
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, fn, argument, fault);
	volume_unpin(hosted);
	return result;
}

int
volume_call(struct volume_host *host, const char *name, volume_call_fn fn, void *argument,
	    struct fault *fault)
{
	struct engine_call call = { fn, argument };

	return volume_call_hosted(host, name, call_engine, &call, fault);
}

/* --- waiting --- */

int
volume_wait_until(struct volume_host *host, const char *name, volume_reached_fn reached,
		  void *argument, uint32_t timeout_ms)
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
		else if (soon.tv_sec > until.tv_sec ||
			 (soon.tv_sec == until.tv_sec && soon.tv_nsec > until.tv_nsec))
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
attach_device(struct hosted *hosted, void *argument, struct fault *fault)
{
	return volume_engine_attach(hosted, argument, fault);
}

int
volume_attach(struct volume_host *host, const char *name, const struct device_address *device,
	      struct fault *fault)
{
	return volume_call_hosted(host, name, attach_device, (void *)device, fault);
}

struct detaching {
	int slot;
	const char *label; /* as status has it: cut off */
};

static int
detach_device(struct hosted *hosted, void *argument, struct fault *fault)
{
	const struct detaching *detaching = argument;
	int slot = detaching->slot;

	if (slot < 0 || slot >= hosted->slot_count || !hosted->backends[slot] ||
	    strncmp(hosted->backends[slot]->label, detaching->label, 255) != 0)
		return fault_errno(fault, -ENOENT, "it has already left the volume");
	return engine_detach(hosted->engine, slot, fault->message);
}

static bool
has_left(const struct engine_status *status, void *argument)
{
	const struct detaching *detaching = argument;

	return detaching->slot >= status->slots || !status->members[detaching->slot].attached ||
	       strcmp(status->members[detaching->slot].label, detaching->label) != 0;
}

int
volume_detach(struct volume_host *host, const char *name, int slot, const char *label,
	      struct fault *fault)
{
	struct hosted *hosted = pin_running(host, name, fault);
	struct detaching detaching = { .slot = slot, .label = label };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, detach_device, &detaching, fault);
	if (result == 0)
		result = volume_wait_until(host, name, has_left, &detaching, DETACH_MS_MAX);
	if (result == -ETIMEDOUT)
		fault_errno(fault, result, "its session did not end within %d s",
			    DETACH_MS_MAX / 1000);
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
accept_lost(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct lost_accepting *accepting = argument;
	bool busy;

	pthread_mutex_lock(&hosted->lock);
	busy = hosted->accepting;
	if (!busy)
		hosted->accepting = accepting;
	pthread_mutex_unlock(&hosted->lock);
	if (busy)
		return fault_errno(fault, -EBUSY, "another command is accepting lost extents");
	engine_lost_accept(hosted->engine, accepting->offset_bytes, accepting->length_bytes,
			   accepted, hosted);
	return 0;
}

int
volume_accept_lost(struct volume_host *host, const char *name, uint64_t offset_bytes,
		   uint64_t length_bytes, int64_t *bytes, struct fault *fault)
{
	struct hosted *hosted = pin_running(host, name, fault);
	struct lost_accepting accepting = { .offset_bytes = offset_bytes,
					    .length_bytes = length_bytes };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, accept_lost, &accepting, fault);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!accepting.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		*bytes = accepting.result;
		result = accepting.result < 0 ? (int)accepting.result : 0;
		if (result != 0)
			fault_errno(fault, result, "%s",
				    result == -ENOSPC ? "the table of lost extents is full: accept "
							"more at once, or all"
						      : strerror(-result));
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
		hosted->growing->result = fault_errno(hosted->growing->fault, error, "%s", text);
		snprintf(hosted->growing->out->note, sizeof(hosted->growing->out->note), "%s",
			 text);
		hosted->growing->done = true;
		hosted->growing = NULL;
		pthread_cond_broadcast(&hosted->changed);
	}
	pthread_mutex_unlock(&hosted->lock);
}

void
volume_growing_fail(struct hosted *hosted)
{
	grown(hosted, -ESHUTDOWN,
	      "it was stopped before the command ended; its next start shows which size it has");
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
begin_growing(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct growing *growing = argument;
	bool busy;
	int error;

	pthread_mutex_lock(&hosted->lock);
	busy = hosted->growing;
	if (!busy)
		hosted->growing = growing;
	pthread_mutex_unlock(&hosted->lock);
	if (busy)
		return fault_errno(fault, -EBUSY, "a change of its size is in progress");
	growing->out->before_bytes = size_now(hosted->engine);
	error = engine_grow(hosted->engine, grown, hosted, fault->message);
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
volume_grow(struct volume_host *host, const char *name, struct volume_growth *out,
	    struct fault *fault)
{
	struct hosted *hosted = pin_running(host, name, fault);
	struct growing growing = { .out = out, .fault = fault };
	int result;

	if (!hosted)
		return -ENOTCONN;
	result = call_hosted(hosted, begin_growing, &growing, fault);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!growing.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		result = growing.result;
	}
	/* What has a fresh status has published it too. */
	if (result == 0 &&
	    volume_wait_until(host, name, note_size, &out->size_bytes, STATUS_MS) != 0)
		result = fault_errno(fault, -ESHUTDOWN,
				     "it was stopped directly afterwards; its next start shows "
				     "which size it has");
	volume_unpin(hosted);
	return result;
}

/* --- the configuration file --- */

static int
change_file(const char *name, volume_change_fn change, void *argument, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	int error, lock;

	if (!config)
		return fault_errno(fault, -ENOMEM, "out of memory");
	lock = config_lock(VOLUMES_LOCK, fault);
	error = lock < 0 ? lock : volume_config_read(name, config, fault);
	if (error == 0)
		error = change(config, argument, fault);
	if (error == 0)
		error = volume_config_write(config, fault);
	if (lock >= 0)
		close(lock);
	free(config);
	return error;
}

/* It does not run here: nor must it run elsewhere. */
static int
apply_locked(struct volume_host *host, const char *name, volume_change_fn change, void *argument,
	     struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	int error = config ? volume_config_read(name, config, fault) : -ENOMEM;
	int lock = error == 0 ? volume_lock(config->uuid, name, host->program, fault) : error;

	error = lock < 0 ? lock : change_file(name, change, argument, fault);
	if (lock >= 0)
		close(lock);
	free(config);
	return error;
}

int
volume_edit(struct volume_host *host, const char *name, volume_change_fn change, void *argument,
	    struct fault *fault)
{
	struct hosted *hosted;
	struct fault ignored;
	int error;

	pthread_mutex_lock(&host->edits);
	hosted = volume_pin(host, name);
	if (!hosted) {
		error = apply_locked(host, name, change, argument, fault);
	} else {
		error = change_file(name, change, argument, fault);
		pthread_mutex_lock(&hosted->lock);
		if (error == 0)
			change(&hosted->config, argument, &ignored);
		pthread_mutex_unlock(&hosted->lock);
		volume_unpin(hosted);
	}
	pthread_mutex_unlock(&host->edits);
	return error;
}

static int
add_device(struct volume_config *config, void *argument, struct fault *fault)
{
	const struct device_address *device = argument;

	if (volume_config_find(config, device) >= 0)
		return fault_errno(fault, -EEXIST, "it is already a device of volume \"%s\"",
				   config->name);
	if (config->device_count == SLOTS_MAX)
		return fault_errno(fault, -ENOSPC,
				   "volume \"%s\" has %d devices, which is the maximum",
				   config->name, SLOTS_MAX);
	config->devices[config->device_count++] = *device;
	return 0;
}

int
volume_edit_add(struct volume_host *host, const char *name, const struct device_address *device,
		struct fault *fault)
{
	return volume_edit(host, name, add_device, (void *)device, fault);
}

int
volume_edit_add_locked(struct volume_host *host, const char *name,
		       const struct device_address *device, struct fault *fault)
{
	int error;

	pthread_mutex_lock(&host->edits);
	error = change_file(name, add_device, (void *)device, fault);
	pthread_mutex_unlock(&host->edits);
	return error;
}

static int
drop_device(struct volume_config *config, void *argument, struct fault *fault)
{
	int error = volume_config_drop(config, argument);

	if (error != 0)
		fault_errno(fault, error, "volume \"%s\" would be left with one device",
			    config->name);
	return error;
}

int
volume_edit_drop(struct volume_host *host, const char *name, const struct device_address *device,
		 struct fault *fault)
{
	return volume_edit(host, name, drop_device, (void *)device, fault);
}

void
volume_note(struct volume_host *host, int severity, const char *kind, const char *name,
	    const char *member, const char *format, ...)
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
