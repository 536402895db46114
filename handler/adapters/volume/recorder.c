/* volume/recorder.c - see recorder.h.  What a volume wants is in its seat: what comes while
 * something is written is written next, all of it at once.
 */
#include "recorder.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "adapters/base/log.h"
#include "adapters/config/config.h"

struct recorder_seat {
	struct recorder_seat *next;
	struct recorder *recorder;
	uint8_t uuid[16];
	struct epoch_file *file; /* the thread's own */
	void (*answered)(void *owner);
	void *owner;

	/* Under recorder->lock. */
	bool left;
	struct epochs_kept wanted; /* zeros: nothing */
	int level, needed;	   /* to be written; -1: none */
	bool has_key;
	uint64_t key; /* of the predecessor, to be written */
	bool ended;   /* and not taken yet: */
	struct epochs_kept written;
	int error;
};

struct recorder {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted;
	struct recorder_seat *seats;
	struct recorder_seat *busy; /* is being written for */
	bool end;
};

static bool
is_any(const struct epochs_kept *epochs)
{
	return epochs->given != 0 || epochs->meant != 0;
}

/* With the lock; it is given up meanwhile. */
static void
write_level(struct recorder_seat *seat)
{
	const int level = seat->level, needed = seat->needed;

	seat->level = -1;
	pthread_mutex_unlock(&seat->recorder->lock);
	if (level_record(seat->uuid, level) != 0 || needed_record(seat->uuid, needed) != 0)
		log_line(LOG_WARNING,
			 "the level of a volume can't be written to %s/levels, or how many members "
			 "it needs to %s/needed",
			 state_dir(), state_dir());
	pthread_mutex_lock(&seat->recorder->lock);
}

/* The same. */
static void
write_key(struct recorder_seat *seat)
{
	const uint64_t key = seat->key;

	seat->has_key = false;
	pthread_mutex_unlock(&seat->recorder->lock);
	if (predecessor_record(seat->uuid, key) != 0)
		log_line(LOG_WARNING,
			 "from which gateway a volume was taken can't be written to "
			 "%s/predecessors: after a restart, members that are away until then "
			 "need a stop and a start with --take-over",
			 state_dir());
	pthread_mutex_lock(&seat->recorder->lock);
}

static void
write_epochs(struct recorder_seat *seat)
{
	const struct epochs_kept wanted = seat->wanted;
	int error;

	seat->wanted = (struct epochs_kept){ 0, 0 };
	pthread_mutex_unlock(&seat->recorder->lock);
	error = epoch_file_raise(seat->file, &wanted);
	pthread_mutex_lock(&seat->recorder->lock);
	seat->written = wanted;
	seat->error = error;
	seat->ended = true;
	if (!seat->left)
		seat->answered(seat->owner);
}

static void
free_seat(struct recorder_seat *seat)
{
	epoch_file_free(seat->file);
	free(seat);
}

/* With the lock. */
static void
serve(struct recorder *recorder, struct recorder_seat *seat)
{
	recorder->busy = seat;
	if (is_any(&seat->wanted))
		write_epochs(seat);
	else if (seat->has_key)
		write_key(seat);
	else
		write_level(seat);
	recorder->busy = NULL;
	if (seat->left)
		free_seat(seat);
}

/* Epochs first: I/O waits for them. */
static struct recorder_seat *
choose(const struct recorder *recorder)
{
	for (struct recorder_seat *seat = recorder->seats; seat; seat = seat->next)
		if (is_any(&seat->wanted))
			return seat;
	for (struct recorder_seat *seat = recorder->seats; seat; seat = seat->next)
		if (seat->level >= 0 || seat->has_key)
			return seat;
	return NULL;
}

/* Who was served goes behind the others. */
static void
rotate(struct recorder *recorder, struct recorder_seat *seat)
{
	struct recorder_seat **link;

	for (link = &recorder->seats; *link != seat; link = &(*link)->next)
		;
	*link = seat->next;
	for (; *link; link = &(*link)->next)
		;
	*link = seat;
	seat->next = NULL;
}

static void *
run_recorder(void *argument)
{
	struct recorder *recorder = argument;
	struct recorder_seat *seat;

	pthread_mutex_lock(&recorder->lock);
	for (;;) {
		seat = choose(recorder);
		if (seat) {
			rotate(recorder, seat);
			serve(recorder, seat);
		} else if (recorder->end) {
			break;
		} else {
			pthread_cond_wait(&recorder->posted, &recorder->lock);
		}
	}
	pthread_mutex_unlock(&recorder->lock);
	return NULL;
}

struct recorder *
recorder_create(void)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));
	sigset_t all, before;
	int error;

	if (!recorder)
		return NULL;
	pthread_mutex_init(&recorder->lock, NULL);
	pthread_cond_init(&recorder->posted, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&recorder->thread, NULL, run_recorder, recorder);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0) {
		pthread_setname_np(recorder->thread, "iraid recorder");
		return recorder;
	}
	pthread_mutex_destroy(&recorder->lock);
	pthread_cond_destroy(&recorder->posted);
	free(recorder);
	return NULL;
}

void
recorder_destroy(struct recorder *recorder)
{
	pthread_mutex_lock(&recorder->lock);
	recorder->end = true;
	pthread_cond_signal(&recorder->posted);
	pthread_mutex_unlock(&recorder->lock);
	pthread_join(recorder->thread, NULL);
	pthread_mutex_destroy(&recorder->lock);
	pthread_cond_destroy(&recorder->posted);
	free(recorder);
}

struct recorder_seat *
recorder_join(struct recorder *recorder, const uint8_t uuid[16], void (*answered)(void *owner),
	      void *owner)
{
	struct recorder_seat *seat = calloc(1, sizeof(*seat));

	if (!seat)
		return NULL;
	seat->file = epoch_file_create(uuid);
	if (!seat->file) {
		free(seat);
		return NULL;
	}
	seat->recorder = recorder;
	memcpy(seat->uuid, uuid, sizeof(seat->uuid));
	seat->answered = answered;
	seat->owner = owner;
	seat->level = -1;
	pthread_mutex_lock(&recorder->lock);
	seat->next = recorder->seats;
	recorder->seats = seat;
	pthread_mutex_unlock(&recorder->lock);
	return seat;
}

void
recorder_leave(struct recorder_seat *seat)
{
	struct recorder *recorder = seat->recorder;
	struct recorder_seat **link;
	bool busy;

	pthread_mutex_lock(&recorder->lock);
	for (link = &recorder->seats; *link != seat; link = &(*link)->next)
		;
	*link = seat->next;
	seat->left = true;
	busy = recorder->busy == seat;
	pthread_mutex_unlock(&recorder->lock);
	if (!busy)
		free_seat(seat);
}

void
recorder_raise(struct recorder_seat *seat, const struct epochs_kept *to)
{
	pthread_mutex_lock(&seat->recorder->lock);
	if (seat->wanted.given < to->given)
		seat->wanted.given = to->given;
	if (seat->wanted.meant < to->meant)
		seat->wanted.meant = to->meant;
	pthread_cond_signal(&seat->recorder->posted);
	pthread_mutex_unlock(&seat->recorder->lock);
}

void
recorder_note_level(struct recorder_seat *seat, int level, int needed)
{
	pthread_mutex_lock(&seat->recorder->lock);
	seat->level = level;
	seat->needed = needed;
	pthread_cond_signal(&seat->recorder->posted);
	pthread_mutex_unlock(&seat->recorder->lock);
}

void
recorder_note_predecessor(struct recorder_seat *seat, uint64_t key)
{
	pthread_mutex_lock(&seat->recorder->lock);
	seat->key = key;
	seat->has_key = true;
	pthread_cond_signal(&seat->recorder->posted);
	pthread_mutex_unlock(&seat->recorder->lock);
}

bool
recorder_take(struct recorder_seat *seat, struct epochs_kept *out, int *error)
{
	bool ended;

	pthread_mutex_lock(&seat->recorder->lock);
	ended = seat->ended;
	*out = seat->written;
	*error = seat->error;
	seat->ended = false;
	pthread_mutex_unlock(&seat->recorder->lock);
	return ended;
}
