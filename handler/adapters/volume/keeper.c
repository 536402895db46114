/* volume/keeper.c - one thread of the host for what volumes need done that may block: files and
 * logins.  Jobs come from the volumes' threads and are done in turn, so that of two volumes that
 * ask for a spare at the same time each gets another one.  A job pins its volume: that ends only
 * when its jobs are done.
 *
 * A shared spare goes from the gateway's pool to a volume in this order, under the pool's lock:
 *
 *	it answers, and has the mark of a shared spare	(else: the next one)
 *	the volume's configuration lists it		from here on it is the volume's, also after a crash:
 *	the pool no longer lists it			devices of a volume are never chosen from the pool
 *	the engine gets it
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/config/search.h"
#include "adapters/base/log.h"
#include "adapters/device/member_format.h"
#include "adapters/config/pool.h"
#include "internal.h"

#define LOGIN_MS_MAX 10000

enum job_kind { JOB_SEEK_SPARE, JOB_DROP_DEVICE, JOB_RECORD_FENCED };

struct job {
	struct job *next;
	enum job_kind kind;
	struct hosted *hosted;
	uint64_t member_bytes;
	uint32_t block_bytes;
	struct device_address device;
};

struct keeper {
	struct volume_host *host;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted;
	struct job *first, **last;
	bool end;
};

/* --- jobs from the volumes' threads --- */

static bool
post(struct hosted *hosted, const struct job *wanted)
{
	struct keeper *keeper =
		wanted->kind == JOB_SEEK_SPARE ? hosted->host->seeker : hosted->host->keeper;
	struct job *job = malloc(sizeof(*job));

	if (!job) {
		log_line(LOG_ERR, "volume %s: out of memory", hosted->name);
		return false;
	}
	*job = *wanted;
	job->hosted = hosted;
	job->next = NULL;
	volume_pin_again(hosted);
	pthread_mutex_lock(&keeper->lock);
	*keeper->last = job;
	keeper->last = &job->next;
	pthread_cond_signal(&keeper->posted);
	pthread_mutex_unlock(&keeper->lock);
	return true;
}

void
keeper_seek_spare(struct hosted *hosted, uint64_t member_bytes, uint32_t block_bytes)
{
	struct job job = { .kind = JOB_SEEK_SPARE,
			   .member_bytes = member_bytes,
			   .block_bytes = block_bytes };

	if (!atomic_exchange(&hosted->spare_sought, true) && !post(hosted, &job))
		atomic_store(&hosted->spare_sought, false);
}

static void
count_drop(struct hosted *hosted, int change)
{
	pthread_mutex_lock(&hosted->lock);
	hosted->drops += change;
	pthread_cond_broadcast(&hosted->changed);
	pthread_mutex_unlock(&hosted->lock);
}

void
keeper_drop_device(struct hosted *hosted, const struct device_address *device)
{
	struct job job = { .kind = JOB_DROP_DEVICE, .device = *device };

	count_drop(hosted, 1);
	if (!post(hosted, &job))
		count_drop(hosted, -1);
}

void
keeper_record_fenced(struct hosted *hosted)
{
	const struct job job = { .kind = JOB_RECORD_FENCED };

	post(hosted, &job);
}

/* --- a shared spare --- */

struct search {
	struct hosted *hosted;
	const struct job *job;
	struct spare_pool pool;
	struct device_address passed[SPARE_POOL_MAX];
	int passed_count;
};

static void
pass_over(struct search *search, const struct device_address *device)
{
	if (search->passed_count < SPARE_POOL_MAX)
		search->passed[search->passed_count++] = *device;
}

static bool
look_at_mark(struct search *search, const struct device_address *device,
	     const struct iscsi_credentials *credentials, struct fault *fault)
{
	static const uint8_t shared[16];
	struct superblock_copies *copies = malloc(sizeof(*copies));
	struct admin_session *session = NULL;
	struct scsi_device found;
	bool good;

	if (!copies)
		return fault_set(fault, FAULT_INTERNAL, "", "out of memory");
	good = device_open(device, credentials, LOGIN_MS_MAX, NULL, &session, &found, fault) &&
	       member_read_superblock(session, copies, fault);
	admin_close(session);
	if (good && (copies->spare != SUPERBLOCK_OK ||
		     memcmp(copies->mark.volume_uuid, shared, sizeof(shared)) != 0))
		good = fault_set(fault, FAULT_IN_USE, "",
				 "it no longer has the mark of a spare of the gateway");
	else if (good && (found.capacity_bytes < search->job->member_bytes ||
			  found.block_bytes != search->job->block_bytes))
		good = fault_set(fault, FAULT_UNFIT, "",
				 "its size differs from the one in gateway.conf");
	free(copies);
	return good;
}

/* It is there, and still what it was given away as. */
static bool
still_fit(struct search *search, const struct device_address *device)
{
	struct iscsi_credentials credentials = { 0 };
	struct hosted *hosted = search->hosted;
	char chap_file[PATH_MAX], label[MEMBER_ADDRESS_MAX];
	struct fault fault;
	bool fit;

	member_address_format(&device->address, label);
	pthread_mutex_lock(&hosted->lock);
	memcpy(chap_file, hosted->config.chap_file, sizeof(chap_file));
	memcpy(credentials.initiator, hosted->config.initiator, sizeof(credentials.initiator));
	credentials.redirects = hosted->config.redirects;
	pthread_mutex_unlock(&hosted->lock);
	if (chap_file[0] != '\0' && iscsi_credentials_read(chap_file, &credentials, &fault) != 0)
		fit = fault_set(&fault, FAULT_LOGIN, "", "secrets file %.128s: %s", chap_file,
				fault.message);
	else
		fit = look_at_mark(search, device, &credentials, &fault);
	explicit_bzero(&credentials, sizeof(credentials));
	if (!fit)
		volume_note(hosted->host, LOG_WARNING, "spare unfit", hosted->name, label,
			    "spare %s of the gateway can't be used: %s", label, fault.message);
	return fit;
}

struct claim {
	struct hosted *hosted;
	const struct device_address *device;
};

static int
make_it_the_volumes(void *owner, struct fault *fault)
{
	struct claim *claim = owner;

	return volume_edit_add(claim->hosted->host, claim->hosted->name, claim->device, fault);
}

static void
it_is_not_the_volumes(void *owner)
{
	struct claim *claim = owner;
	struct fault ignored;

	volume_edit_drop(claim->hosted->host, claim->hosted->name, claim->device, &ignored);
}

static void
give_back(struct search *search, const struct pool_spare *spare, const char *label, const char *why)
{
	struct hosted *hosted = search->hosted;
	struct fault fault = FAULT_NONE;
	int error = volume_edit_drop(hosted->host, hosted->name, &spare->device, &fault);

	if (error == 0)
		error = spare_pool_add(spare, &fault);
	volume_note(hosted->host, LOG_WARNING, "spare given back", hosted->name, label,
		    "spare %s of the gateway was not added: %s%s%s", label, why,
		    error ? "; it could not be returned to the gateway's spares either: " : "",
		    error ? fault.message : "");
}

/* Returns whether the search is over. */
static bool
take(struct search *search, const struct pool_spare *chosen)
{
	struct pool_spare spare = *chosen;
	struct hosted *hosted = search->hosted;
	struct claim claim = { hosted, &spare.device };
	struct fault fault = FAULT_NONE;
	char label[MEMBER_ADDRESS_MAX];
	int result;

	member_address_format(&spare.device.address, label);
	pass_over(search, &spare.device);
	if (!still_fit(search, &spare.device))
		return false;
	result = spare_pool_take(&spare.device, make_it_the_volumes, it_is_not_the_volumes, &claim,
				 &fault);
	if (result == -ENOENT)
		return false; /* another process has it since */
	if (result != 0) {
		volume_note(hosted->host, LOG_ERR, "spare unfit", hosted->name, label,
			    "spare %s of the gateway can't be used: %s", label, fault.message);
		return true;
	}
	result = volume_attach(hosted->host, hosted->name, &spare.device, &fault);
	if (result < 0)
		give_back(search, &spare, label, fault.message);
	else
		volume_note(hosted->host, LOG_NOTICE, "spare taken", hosted->name, label,
			    "%s, a spare of the gateway, is now a device of this volume", label);
	return true;
}

static bool
is_ending(struct hosted *hosted)
{
	bool ending;

	pthread_mutex_lock(&hosted->lock);
	ending = hosted->want_stop || hosted->ended;
	pthread_mutex_unlock(&hosted->lock);
	return ending;
}

static void
seek_spare(struct hosted *hosted, const struct job *job)
{
	struct search *search = calloc(1, sizeof(*search));
	struct fault fault;
	char holder[LAYOUT_NAME_MAX + 1];
	int chosen;

	if (!search)
		return;
	search->hosted = hosted;
	search->job = job;
	do {
		if (spare_pool_read(&search->pool, &fault) != 0) {
			log_line(LOG_ERR, "volume %s: no spare: %s", hosted->name, fault.message);
			break;
		}
		while ((chosen = spare_pool_choose(&search->pool, job->member_bytes,
						   job->block_bytes, search->passed,
						   search->passed_count)) >= 0 &&
		       config_holder(&search->pool.spares[chosen].device, NULL, holder))
			pass_over(search, &search->pool.spares[chosen].device);
	} while (chosen >= 0 && !is_ending(hosted) && !take(search, &search->pool.spares[chosen]));
	free(search);
}

static void
drop_from_config(struct hosted *hosted, const struct device_address *device)
{
	char label[MEMBER_ADDRESS_MAX];
	struct fault fault = FAULT_NONE;

	member_address_format(&device->address, label);
	if (volume_edit_drop(hosted->host, hosted->name, device, &fault) != 0)
		volume_note(hosted->host, LOG_ERR, "configuration", hosted->name, label,
			    "%s was removed, but is still in the configuration: %s", label,
			    fault.message);
	count_drop(hosted, -1);
}

/* --- the thread --- */

static void *
run_keeper(void *argument)
{
	struct keeper *keeper = argument;

	pthread_mutex_lock(&keeper->lock);
	for (;;) {
		struct job *job = keeper->first;

		if (!job && keeper->end)
			break;
		if (!job) {
			pthread_cond_wait(&keeper->posted, &keeper->lock);
			continue;
		}
		keeper->first = job->next;
		if (!keeper->first)
			keeper->last = &keeper->first;
		pthread_mutex_unlock(&keeper->lock);
		switch (job->kind) {
		case JOB_SEEK_SPARE:
			seek_spare(job->hosted, job);
			atomic_store(&job->hosted->spare_sought, false);
			break;
		case JOB_DROP_DEVICE:
			drop_from_config(job->hosted, &job->device);
			break;
		case JOB_RECORD_FENCED:
			volume_role_record_fenced(job->hosted);
			break;
		}
		volume_unpin(job->hosted);
		free(job);
		pthread_mutex_lock(&keeper->lock);
	}
	pthread_mutex_unlock(&keeper->lock);
	return NULL;
}

struct keeper *
keeper_create(struct volume_host *host)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	sigset_t all, before;
	int error;

	if (!keeper)
		return NULL;
	keeper->host = host;
	keeper->last = &keeper->first;
	pthread_mutex_init(&keeper->lock, NULL);
	pthread_cond_init(&keeper->posted, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&keeper->thread, NULL, run_keeper, keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0) {
		pthread_setname_np(keeper->thread, "iraid keeper");
		return keeper;
	}
	free(keeper);
	return NULL;
}

void
keeper_destroy(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->lock);
	keeper->end = true;
	pthread_cond_signal(&keeper->posted);
	pthread_mutex_unlock(&keeper->lock);
	pthread_join(keeper->thread, NULL);
	pthread_mutex_destroy(&keeper->lock);
	pthread_cond_destroy(&keeper->posted);
	free(keeper);
}
