/* volume/path.c - see path.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "path.h"

/* --- paths --- */

static int
look_at_paths(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct volume_paths *paths = argument;

	pthread_mutex_lock(&hosted->lock);
	memcpy(paths->initiator, hosted->config.initiator, sizeof(paths->initiator));
	pthread_mutex_unlock(&hosted->lock);
	engine_status(hosted->engine, &paths->status);
	for (int slot = 0; slot < hosted->slot_count; slot++)
		if (hosted->backends[slot])
			backend_iscsi_path(hosted->backends[slot], &paths->paths[slot]);
	return 0;
}

int
volume_paths(struct volume_host *host, const char *name, struct volume_paths *out,
	     struct fault *fault)
{
	memset(out, 0, sizeof(*out));
	return volume_call_hosted(host, name, look_at_paths, out, fault);
}

/* --- probes --- */

/* The engine reads from members; it says when that is over. */
struct probing {
	const struct probe_order *order;
	struct volume_probing *out;
	int result;
	bool done;
};

static void
probed(void *owner, int error, const struct probe_result results[SLOTS_MAX])
{
	struct hosted *hosted = owner;

	pthread_mutex_lock(&hosted->lock);
	if (hosted->probing) {
		memcpy(hosted->probing->out->results, results,
		       sizeof(hosted->probing->out->results));
		hosted->probing->result = error;
		hosted->probing->done = true;
		hosted->probing = NULL;
		pthread_cond_broadcast(&hosted->changed);
	}
	pthread_mutex_unlock(&hosted->lock);
}

void
volume_probing_fail(struct hosted *hosted)
{
	static const struct probe_result none[SLOTS_MAX];

	probed(hosted, -ESHUTDOWN, none);
}

/* Cut as in the status. */
static void
note_members(const struct hosted *hosted, struct volume_probing *out)
{
	for (int slot = 0; slot < hosted->slot_count; slot++)
		if (hosted->backends[slot])
			snprintf(out->labels[slot], sizeof(out->labels[slot]), "%.255s",
				 hosted->backends[slot]->label);
}

static int
begin_probing(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct probing *probing = argument;
	int error = engine_probe(hosted->engine, probing->order, probed, hosted, fault->message);

	if (error != 0)
		return error;
	/* It ends in a later turn of this thread, at the earliest. */
	note_members(hosted, probing->out);
	pthread_mutex_lock(&hosted->lock);
	hosted->probing = probing;
	pthread_mutex_unlock(&hosted->lock);
	return 0;
}

int
volume_probe(struct volume_host *host, const char *name, const struct probe_order *order,
	     struct volume_probing *out, struct fault *fault)
{
	struct probing probing = { .order = order, .out = out };
	struct hosted *hosted = volume_pin(host, name);
	int result;

	memset(out, 0, sizeof(*out));
	if (!hosted)
		return fault_errno(fault, -ENOTCONN, "volume \"%s\" is not running here", name);
	result = volume_call_hosted(host, name, begin_probing, &probing, fault);
	if (result == 0) {
		pthread_mutex_lock(&hosted->lock);
		while (!probing.done)
			pthread_cond_wait(&hosted->changed, &hosted->lock);
		pthread_mutex_unlock(&hosted->lock);
		result = probing.result;
		if (result != 0)
			fault_errno(fault, result, "it was stopped before the command ended");
	}
	volume_unpin(hosted);
	return result;
}
