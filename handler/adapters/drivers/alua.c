/* drivers/alua.c - see alua.h.
 *
 * One thread goes through all storage objects that are a pair's, and writes where the kernel says
 * other than the volume's role: at once when a role changes, and each second, for groups are made
 * after their LUN was opened (iraid export, a restore at boot).  A LUN without groups costs a look.
 *
 *			this gateway's group	the other one's
 *	served here	active/optimized	standby
 *	elsewhere	standby			active/optimized	also if members say so at a start
 *	undecided	as it is		as it is
 *
 * The other gateway's group comes first: with the change of its own group an initiator is told
 * (UNIT ATTENTION 2A/06), asks for both, and finds both as they are to be.  The volume's thread
 * never waits for this one.  The kernel enforces the states for commands that come later; what the
 * engine may do it knows by the reservations of the members alone.
 *
 * No other thread looks into configfs.  There the kernel holds a folder's lock while it removes a
 * storage object, until the runner has said that it is through with the LUN; and that waits for the
 * LUN's command thread.
 */
#include "alua.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters/base/log.h"
#include "adapters/volume/admin.h"
#include "lio.h"

#define LOOK_MS 1000
#define SETTLE_MS 2000 /* a role's change waits for the kernel no longer */
#define FIND_MS 500
#define END_MS 2000

/* What the kernel refuses is told once. */
struct refusal {
	struct refusal *next;
	char storage[PATH_MAX];
};

struct seen {
	struct seen *next;
	struct lio_pair pair;
};

struct alua {
	struct volume_host *host;
	char folder[PATH_MAX];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool end;
	uint64_t asked, answered; /* looks */
	struct seen *seen;	  /* by the last one */
	/* The thread's own. */
	struct seen *fresh;
	struct refusal *refusals;
};

/* --- one storage object --- */

static struct refusal **
find_refusal(struct alua *alua, const char *storage)
{
	struct refusal **at = &alua->refusals;

	while (*at && strcmp((*at)->storage, storage) != 0)
		at = &(*at)->next;
	return at;
}

static void
note_refusal(struct alua *alua, const struct lio_pair *pair, const char *name, int error)
{
	struct refusal **at = find_refusal(alua, pair->storage), *refusal = *at;

	if (refusal)
		return;
	refusal = calloc(1, sizeof(*refusal));
	if (!refusal)
		return;
	snprintf(refusal->storage, sizeof(refusal->storage), "%s", pair->storage);
	*at = refusal;
	volume_note(alua->host, LOG_ERR, "paths", name, "",
		    "initiators can't be told by which gateway to come, because the kernel refuses "
		    "a state of the target port groups in %.300s/alua: %s; see dmesg, then "
		    "iraid unexport %s and export it again",
		    pair->storage, strerror(-error), name);
}

static void
note_success(struct alua *alua, const struct lio_pair *pair, const char *name, bool here)
{
	struct refusal **at = find_refusal(alua, pair->storage), *refusal = *at;

	if (refusal) {
		*at = refusal->next;
		free(refusal);
	}
	log_line(LOG_INFO, "volume %s: initiators are told to come by %s gateway", name,
		 here ? "this" : "the other");
}

static int
set_if_other(struct lio_pair *pair, int number, int state)
{
	int error = 0;

	if (pair->access[number - 1] != state)
		error = lio_set_access(pair, number, state);
	if (error == 0)
		pair->access[number - 1] = state;
	return error;
}

static void
keep(struct alua *alua, struct lio_pair *pair)
{
	const char *slash = strchr(pair->config, '/'), *name = slash ? slash + 1 : "";
	const enum volume_access access = volume_access(alua->host, name);
	const bool here = access == ACCESS_HERE;
	const int own = here ? LIO_OPTIMIZED : LIO_STANDBY;
	const int other = here ? LIO_STANDBY : LIO_OPTIMIZED;
	int error;

	if (access == ACCESS_UNDECIDED ||
	    (pair->access[pair->here - 1] == own && pair->access[2 - pair->here] == other))
		return;
	error = set_if_other(pair, 3 - pair->here, other);
	if (error == 0)
		error = set_if_other(pair, pair->here, own);
	if (error == 0)
		note_success(alua, pair, name, here);
	else if (error != -ENOENT) /* it is being removed */
		note_refusal(alua, pair, name, error);
}

static bool
see(void *owner, const struct lio_pair *pair)
{
	struct alua *alua = owner;
	struct seen *seen = malloc(sizeof(*seen));
	bool end;

	pthread_mutex_lock(&alua->lock);
	end = alua->end;
	pthread_mutex_unlock(&alua->lock);
	if (!seen || end) {
		free(seen);
		return !end;
	}
	seen->pair = *pair;
	seen->next = alua->fresh;
	alua->fresh = seen;
	keep(alua, &seen->pair);
	return true;
}

static void
free_seen(struct seen *seen)
{
	while (seen) {
		struct seen *next = seen->next;

		free(seen);
		seen = next;
	}
}

/* --- the thread --- */

static struct timespec
deadline_in(uint32_t ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

/* Returns the look that is to be taken now; 0: end. */
static uint64_t
await_look(struct alua *alua)
{
	const struct timespec until = deadline_in(LOOK_MS);
	uint64_t asked;
	int result = 0;

	pthread_mutex_lock(&alua->lock);
	while (!alua->end && alua->asked == alua->answered && result == 0)
		result = pthread_cond_timedwait(&alua->changed, &alua->lock, &until);
	if (alua->asked == alua->answered)
		alua->asked++;
	asked = alua->end ? 0 : alua->asked;
	pthread_mutex_unlock(&alua->lock);
	return asked;
}

static void *
look(void *argument)
{
	struct alua *alua = argument;
	uint64_t ticket;

	while ((ticket = await_look(alua)) != 0) {
		struct seen *before;

		lio_each_pair(alua->folder, see, alua);
		pthread_mutex_lock(&alua->lock);
		before = alua->seen;
		alua->seen = alua->fresh;
		alua->fresh = NULL;
		alua->answered = ticket;
		pthread_cond_broadcast(&alua->changed);
		pthread_mutex_unlock(&alua->lock);
		free_seen(before);
	}
	return NULL;
}

/* --- what others call --- */

static uint64_t
ask(struct alua *alua)
{
	uint64_t ticket = ++alua->asked;

	pthread_cond_broadcast(&alua->changed);
	return ticket;
}

static void
access_changed(void *owner)
{
	struct alua *alua = owner;

	pthread_mutex_lock(&alua->lock);
	ask(alua);
	pthread_mutex_unlock(&alua->lock);
}

/* Until a look that begins now has ended, or for so long.  With the lock. */
static void
await_fresh(struct alua *alua, uint32_t ms)
{
	const struct timespec until = deadline_in(ms);
	const uint64_t ticket = ask(alua);
	int result = 0;

	while (!alua->end && alua->answered < ticket && result == 0)
		result = pthread_cond_timedwait(&alua->changed, &alua->lock, &until);
}

static void
access_settle(void *owner)
{
	struct alua *alua = owner;

	pthread_mutex_lock(&alua->lock);
	await_fresh(alua, SETTLE_MS);
	pthread_mutex_unlock(&alua->lock);
}

/* With the lock. */
static const struct seen *
find_seen(const struct alua *alua, const char *config)
{
	const struct seen *seen = alua->seen;

	while (seen && strcmp(seen->pair.config, config) != 0)
		seen = seen->next;
	return seen;
}

bool
alua_is_pair(struct alua *alua, const char *config)
{
	bool found;

	pthread_mutex_lock(&alua->lock);
	found = find_seen(alua, config) != NULL;
	pthread_mutex_unlock(&alua->lock);
	return found;
}

bool
alua_find(struct alua *alua, const char *config, struct lio_pair *out)
{
	const struct seen *seen;
	int cancel_state;

	/* The runner cancels the command thread when its LUN goes. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&alua->lock);
	await_fresh(alua, FIND_MS);
	seen = find_seen(alua, config);
	if (seen)
		*out = seen->pair;
	pthread_mutex_unlock(&alua->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return seen != NULL;
}

/* --- beginning and end --- */

static int
start_thread(struct alua *alua)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&alua->thread, NULL, look, alua);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		pthread_setname_np(alua->thread, "iraid alua");
	return error;
}

static void
free_alua(struct alua *alua)
{
	while (alua->refusals) {
		struct refusal *refusal = alua->refusals;

		alua->refusals = refusal->next;
		free(refusal);
	}
	free_seen(alua->seen);
	pthread_cond_destroy(&alua->changed);
	pthread_mutex_destroy(&alua->lock);
	free(alua);
}

struct alua *
alua_begin(struct volume_host *host, const char *folder)
{
	struct alua *alua = calloc(1, sizeof(*alua));
	pthread_condattr_t attributes;

	if (!alua)
		return NULL;
	alua->host = host;
	snprintf(alua->folder, sizeof(alua->folder), "%s", folder);
	pthread_mutex_init(&alua->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&alua->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	if (start_thread(alua) != 0) {
		free_alua(alua);
		return NULL;
	}
	volume_host_watch(host, &(struct volume_watch){ access_changed, access_settle, alua });
	return alua;
}

void
alua_end(struct alua *alua)
{
	const struct timespec until = deadline_in(END_MS);

	volume_host_watch(alua->host, NULL);
	pthread_mutex_lock(&alua->lock);
	alua->end = true;
	pthread_cond_broadcast(&alua->changed);
	pthread_mutex_unlock(&alua->lock);
	/* It may hang in configfs, where something is removed that waits for this very end. */
	if (pthread_clockjoin_np(alua->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
		free_alua(alua);
}
