/* volume/thread.c - drives one volume: a turn of its loop is
 *
 *	wait for sockets, requests, commands or a deadline	reactor_turn
 *	take what the members answered				backend_iscsi_tick
 *	let the engine go on					engine_run
 *	push what it wants of the members to the sockets	backend_iscsi_send
 *
 * Requests of other threads come through a lock-free stack and one message in the reactor's
 * mailbox, which wakes the thread only when it may sleep: under load no eventfd is written.
 *
 * A volume that failed can be started again while users hold it: the engine and its sessions
 * are replaced, and the requests that come in between wait for the new one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ports/trace.h"
#include "adapters/base/log.h"
#include "internal.h"

#define REFRESH_MS 100 /* how old volume_brief() may be */
#define TIMED_ONE_IN 16
/* a session that stalls right after a quiet turn is noticed by then */
#define TURN_MS_MAX 1000

static void
engine_has_stopped(void *owner)
{
	struct hosted *hosted = owner;

	hosted->engine_stopped = true;
}

/* --- requests --- */

static void
hold(struct hosted *hosted, struct engine_request *request)
{
	request->next = NULL;
	*hosted->held_last = request;
	hosted->held_last = &request->next;
}

/* Its turn is over, or ends: nothing waits for the next one, which may be another gateway's. */
static bool
is_passive(struct hosted *hosted)
{
	bool passive = hosted->made != ROLE_ACTIVE;

	if (hosted->engine_stopping && !passive) {
		pthread_mutex_lock(&hosted->lock);
		passive = hosted->role != ROLE_ACTIVE;
		pthread_mutex_unlock(&hosted->lock);
	}
	return passive;
}

static void
pass_held(struct hosted *hosted)
{
	const bool refuses = is_passive(hosted);
	struct engine_request *request = hosted->held_first;

	hosted->held_first = NULL;
	hosted->held_last = &hosted->held_first;
	while (request) {
		struct engine_request *next = request->next;

		TRACE(ring__end, hosted->name, request->number, request->op, request->offset_bytes,
		      request->length_bytes, 1);
		if (hosted->engine && !refuses)
			engine_submit(hosted->engine, request);
		else
			request->done(request, refuses || hosted->ended ? -ESHUTDOWN : -ENOMEDIUM);
		request = next;
	}
}

static void
take_submitted(struct reactor_message *message)
{
	struct hosted *hosted =
		(struct hosted *)((char *)message - offsetof(struct hosted, submit_message));
	struct engine_request *newest = atomic_exchange(&hosted->submitted, NULL);
	struct engine_request *oldest = NULL;

	while (newest) {
		struct engine_request *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct engine_request *next = oldest->next;

		hold(hosted, oldest);
		oldest = next;
	}
}

void
volume_thread_submit(struct hosted *hosted, struct engine_request *request)
{
	struct engine_request *newest =
		atomic_load_explicit(&hosted->submitted, memory_order_relaxed);

	request->arrived_ns = monotonic_ns();
	request->number = atomic_fetch_add_explicit(&hosted->numbers, 1, memory_order_relaxed) + 1;
	TRACE(ring__begin, hosted->name, request->number, request->op, request->offset_bytes,
	      request->length_bytes, 1);
	do {
		request->next = newest;
	} while (!atomic_compare_exchange_weak(&hosted->submitted, &newest, request));
	if (!newest)
		reactor_post(hosted->reactor, &hosted->submit_message);
}

/* --- commands --- */

static void
take_command(struct reactor_message *message)
{
	struct hosted *hosted =
		(struct hosted *)((char *)message - offsetof(struct hosted, command_message));

	/* Having woken the thread is all: it looks at what is wanted each turn. */
	atomic_flag_clear(&hosted->command_posted);
}

void
volume_thread_wake(struct hosted *hosted)
{
	if (!atomic_flag_test_and_set(&hosted->command_posted))
		reactor_post(hosted->reactor, &hosted->command_message);
}

/* --- what others see --- */

static void
take_status(struct hosted *hosted)
{
	struct engine_status *status = &hosted->status;

	if (hosted->engine) {
		engine_status(hosted->engine, status);
		return;
	}
	memset(status, 0, sizeof(*status));
	status->state = hosted->ended		      ? VOLUME_STOPPED
			: hosted->made != ROLE_ACTIVE ? VOLUME_STANDBY
			: hosted->engine_stopped      ? VOLUME_STOPPED
						      : VOLUME_FAILED;
	snprintf(status->reason, sizeof(status->reason), "%.255s", hosted->setup_fault.message);
	snprintf(status->name, sizeof(status->name), "%s", hosted->name);
	memcpy(status->volume_uuid, hosted->uuid, sizeof(status->volume_uuid));
	status->rebuild_slot = -1;
	status->slots = hosted->config.device_count;
	for (int i = 0; i < hosted->config.device_count; i++) {
		char label[MEMBER_ADDRESS_MAX];

		member_address_format(&hosted->config.devices[i].address, label);
		snprintf(status->members[i].label, sizeof(status->members[i].label), "%.255s",
			 label);
		status->members[i].attached = true;
		status->members[i].role = -1;
		status->members[i].link = LINK_CLOSED;
	}
}

/* Another gateway has taken it over: its own turn is over, as on standby, once what is held has
 * ended.  With hosted->lock.
 */
static void
note_fence(struct hosted *hosted)
{
	if (!hosted->status.fenced || hosted->role != ROLE_ACTIVE || hosted->engine_stopping ||
	    hosted->want_stop)
		return;
	volume_role_set(hosted, ROLE_FENCED, hosted->status.reason);
	hosted->fence_to_record = true;
	volume_thread_wake(hosted);
}

/* Without hosted->lock: a job takes the lock of all volumes, and who has that may want this one. */
static void
record_fence(struct hosted *hosted)
{
	if (!hosted->fence_to_record)
		return;
	hosted->fence_to_record = false;
	keeper_record_fenced(hosted);
}

static void
note_level(struct hosted *hosted, int level, int needed)
{
	if (atomic_load_explicit(&hosted->brief_level, memory_order_relaxed) == level &&
	    hosted->members_needed == needed)
		return;
	atomic_store_explicit(&hosted->brief_level, level, memory_order_relaxed);
	hosted->members_needed = needed;
	recorder_note_level(hosted->seat, level, needed);
}

/* While it runs: what a start says that is refused is nothing new. */
static void
note_predecessor(struct hosted *hosted)
{
	const struct engine_status *status = &hosted->status;

	if ((status->state != VOLUME_ACTIVE && status->state != VOLUME_DEGRADED) ||
	    status->predecessor_key == hosted->predecessor_key)
		return;
	hosted->predecessor_key = status->predecessor_key;
	recorder_note_predecessor(hosted->seat, hosted->predecessor_key);
}

/* With hosted->lock. */
static void
publish(struct hosted *hosted, uint64_t now_ms)
{
	const struct engine_status *status = &hosted->status;

	take_status(hosted);
	if (status->size_bytes != 0) {
		atomic_store_explicit(&hosted->brief_block_bytes, status->block_bytes,
				      memory_order_relaxed);
		atomic_store_explicit(&hosted->brief_chunk_bytes, status->chunk_bytes,
				      memory_order_relaxed);
		atomic_store_explicit(&hosted->brief_row_bytes, status->stripe_bytes,
				      memory_order_relaxed);
		note_level(hosted, status->level, status->members_needed);
		atomic_store_explicit(&hosted->brief_size_bytes, status->size_bytes,
				      memory_order_relaxed);
	}
	atomic_store_explicit(&hosted->brief_state, (int)status->state, memory_order_release);
	hosted->answered = hosted->asked;
	hosted->refreshed_ms = now_ms;
	hosted->refresh_due = false;
	note_fence(hosted);
	note_predecessor(hosted);
	volume_note_access(hosted);
	pthread_cond_broadcast(&hosted->changed);
}

static void
refresh(struct hosted *hosted, uint64_t now_ms)
{
	bool assembling = atomic_load_explicit(&hosted->brief_state, memory_order_relaxed) ==
			  VOLUME_ASSEMBLING;

	pthread_mutex_lock(&hosted->lock);
	if (hosted->asked != hosted->answered || assembling ||
	    now_ms - hosted->refreshed_ms >= REFRESH_MS)
		publish(hosted, now_ms);
	else
		hosted->refresh_due = true;
	pthread_mutex_unlock(&hosted->lock);
	record_fence(hosted);
}

/* --- the loop --- */

/* The old engine has stopped: make the next one, if that is what it stopped for.  False: end. */
static bool
next_engine(struct hosted *hosted)
{
	bool restart;

	volume_engine_destroy(hosted);
	pthread_mutex_lock(&hosted->lock);
	restart = !hosted->want_stop;
	pthread_mutex_unlock(&hosted->lock);
	if (!restart)
		return false;
	hosted->engine_stopping = hosted->engine_stopped = false;
	volume_engine_make(hosted);
	pthread_mutex_lock(&hosted->lock);
	/* In one step with the new state: whoever waits must not see the old failure again. */
	hosted->want_restart = hosted->role != hosted->made; /* since it was made */
	publish(hosted, reactor_now_ms(hosted->reactor));
	pthread_mutex_unlock(&hosted->lock);
	record_fence(hosted);
	return true;
}

static void
follow_commands(struct hosted *hosted)
{
	bool end_engine;

	pthread_mutex_lock(&hosted->lock);
	end_engine = hosted->want_stop || hosted->want_restart || hosted->role != hosted->made;
	pthread_mutex_unlock(&hosted->lock);
	volume_calls_run(hosted);
	volume_take_recorded(hosted);
	if (!end_engine || hosted->engine_stopping)
		return;
	hosted->engine_stopping = true;
	if (hosted->engine)
		engine_stop(hosted->engine, engine_has_stopped, hosted);
	else
		hosted->engine_stopped = true;
}

/* --- what the thread does with its time --- */

/* The time since timed_ns is over. */
static uint64_t
pass_time(struct hosted *hosted)
{
	uint64_t before_ns = hosted->timed_ns;

	hosted->timed_ns = monotonic_ns();
	return hosted->timed_ns - before_ns;
}

static void
time_received(struct hosted *hosted)
{
	if (!hosted->timed)
		return;
	hosted->time.idle_ns += reactor_now_ns(hosted->reactor) - hosted->timed_ns;
	hosted->timed_ns = reactor_now_ns(hosted->reactor);
	hosted->time.receive_ns += pass_time(hosted);
	hosted->code_before_ns = hosted->engine ? engine_code_ns(hosted->engine) : 0;
}

static void
time_decided(struct hosted *hosted)
{
	uint64_t code_ns;

	if (!hosted->timed)
		return;
	code_ns = engine_code_ns(hosted->engine) - hosted->code_before_ns;
	hosted->time.code_ns += code_ns;
	hosted->time.engine_ns += pass_time(hosted) - code_ns;
}

/* And is the next turn to be timed?  At random: what turns do may alternate. */
static void
time_ended(struct hosted *hosted)
{
	hosted->time.turns++;
	hosted->time.turns_timed += hosted->timed;
	if (hosted->timed)
		hosted->time.send_ns += pass_time(hosted);
	hosted->random ^= hosted->random << 13;
	hosted->random ^= hosted->random >> 7;
	hosted->random ^= hosted->random << 17;
	hosted->timed = hosted->random % TIMED_ONE_IN == 0;
	if (hosted->timed)
		pass_time(hosted);
}

/* --- a turn --- */

/* One turn; returns the deadline of the next. */
static uint64_t
run_turn(struct hosted *hosted, uint64_t deadline_ms)
{
	uint64_t now_ms, next_ms;

	reactor_turn(hosted->reactor, deadline_ms);
	hosted->looked = false;
	now_ms = reactor_now_ms(hosted->reactor);
	next_ms = now_ms + TURN_MS_MAX;
	follow_commands(hosted);
	if (!hosted->engine && !hosted->engine_stopping && hosted->remake_ms != 0 &&
	    now_ms >= hosted->remake_ms)
		volume_engine_make(hosted);
	if (!hosted->engine_stopping || is_passive(hosted))
		pass_held(hosted);
	for (int i = 0; i < hosted->slot_count; i++) {
		uint64_t wanted_ms = hosted->backends[i]
					     ? backend_iscsi_tick(hosted->backends[i], now_ms)
					     : UINT64_MAX;

		next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
	}
	time_received(hosted);
	if (hosted->engine) {
		uint64_t wanted_ms;

		engine_run(hosted->engine, now_ms);
		time_decided(hosted);
		for (int i = 0; i < hosted->slot_count; i++) {
			if (hosted->backends[i])
				backend_iscsi_send(hosted->backends[i]);
		}
		wanted_ms = engine_deadline(hosted->engine);
		next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
	}
	refresh(hosted, now_ms);
	if (hosted->refresh_due && hosted->refreshed_ms + REFRESH_MS < next_ms)
		next_ms = hosted->refreshed_ms + REFRESH_MS;
	time_ended(hosted);
	return next_ms;
}

static void *
run_volume(void *argument)
{
	struct hosted *hosted = argument;
	uint64_t deadline_ms = 0;

	volume_engine_make(hosted);
	hosted->random = (uint64_t)(uintptr_t)hosted | 1;
	for (;;) {
		deadline_ms = run_turn(hosted, deadline_ms);
		if (!hosted->engine_stopped)
			continue;
		if (!next_engine(hosted))
			break;
		deadline_ms = 0;
	}
	pthread_mutex_lock(&hosted->lock);
	hosted->ended = true;
	hosted->engine_stopped = true;
	volume_calls_fail(hosted, -ESHUTDOWN, "it was stopped before the command ended");
	publish(hosted, reactor_now_ms(hosted->reactor));
	pthread_mutex_unlock(&hosted->lock);
	take_submitted(&hosted->submit_message);
	pass_held(hosted);
	return NULL;
}

int
volume_thread_start(struct hosted *hosted)
{
	sigset_t most, before;
	char thread_name[16];
	int error;

	atomic_init(&hosted->submitted, NULL);
	atomic_init(&hosted->numbers, 0);
	atomic_init(&hosted->brief_state, (int)VOLUME_ASSEMBLING);
	atomic_init(&hosted->brief_level, level_recall(hosted->uuid));
	atomic_flag_clear(&hosted->command_posted);
	hosted->submit_message.fn = take_submitted;
	hosted->command_message.fn = take_command;
	hosted->held_last = &hosted->held_first;
	hosted->calls_last = &hosted->calls;
	hosted->reactor = reactor_create();
	if (!hosted->reactor)
		return -errno;
	/* Signals are the program's business; only faults of this very thread stay. */
	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGFPE);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGABRT);
	sigdelset(&most, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &most, &before);
	error = -pthread_create(&hosted->thread, NULL, run_volume, hosted);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0) {
		reactor_destroy(hosted->reactor);
		return error;
	}
	snprintf(thread_name, sizeof(thread_name), "iraid %.9s", hosted->name);
	pthread_setname_np(hosted->thread, thread_name);
	return 0;
}
