/* volume/driver.c - the engine of a volume, the sessions to its devices, and what the engine asks
 * of its driver.  All on the volume's thread; what would block there is the keeper's.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "adapters/base/log.h"
#include "adapters/config/preempted.h"
#include "internal.h"
#include "peek.h"

#define RESYNC_ROWS 4
/* file systems that have something to write flush every 5 to 30 s */
#define LOSS_TOLD_MS 60000u
/* last byte of the ISID: kind of session; one data session per device */
#define SESSION_DATA 0
/* after an engine that could not be made for want of memory, descriptors or room */
#define REMAKE_MS 1000u

/* --- port of the engine --- */

static void
port_record_epoch(void *owner, enum epoch_kind kind, uint64_t epoch)
{
	struct hosted *hosted = owner;
	const struct epochs_kept to = {
		.given = kind == EPOCH_GIVEN ? epoch : 0,
		.meant = kind == EPOCH_MEANT ? epoch : 0,
	};

	recorder_raise(hosted->seat, &to);
}

void
volume_take_recorded(struct hosted *hosted)
{
	struct epochs_kept written;
	int error;

	if (!recorder_take(hosted->seat, &written, &error) || !hosted->engine)
		return;
	if (written.given != 0)
		engine_epoch_recorded(hosted->engine, EPOCH_GIVEN, written.given, error);
	if (written.meant != 0)
		engine_epoch_recorded(hosted->engine, EPOCH_MEANT, written.meant, error);
}

static void
port_log(void *owner, int level, const char *text)
{
	struct hosted *hosted = owner;

	log_line(level, "volume %s: %s", hosted->name, text);
}

/* The volume is up.  Who has a member that comes later may be a gateway that was started since. */
static void
end_take_over(struct hosted *hosted)
{
	for (int i = 0; i < hosted->slot_count; i++)
		if (hosted->backends[i])
			backend_iscsi_end_take_over(hosted->backends[i]);
}

static void
port_event(void *owner, const struct engine_event *event)
{
	struct hosted *hosted = owner;
	char label[MEMBER_ADDRESS_MAX] = "";

	if (event->kind == EVENT_ASSEMBLED)
		end_take_over(hosted);
	if (event->slot >= 0 && event->slot < hosted->slot_count && hosted->backends[event->slot])
		member_address_format(&hosted->devices[event->slot].address, label);
	volume_host_event(hosted->host, event->severity, event_kind_name(event->kind), hosted->name,
			  label, event->text);
}

static void
port_want_spare(void *owner, uint64_t member_bytes, uint32_t block_bytes)
{
	keeper_seek_spare(owner, member_bytes, block_bytes);
}

/* For the first time in a turn, when that began: which is as good, and costs nothing. */
static uint64_t
port_now_ns(void *owner)
{
	struct hosted *hosted = owner;

	if (hosted->looked)
		return monotonic_ns();
	hosted->looked = true;
	return reactor_now_ns(hosted->reactor);
}

static uint64_t
port_clock_ns(void *owner)
{
	(void)owner;
	return monotonic_ns();
}

/* Of the write log's key: what an initiator writes must not look like a record. */
static uint64_t
port_random(void *owner)
{
	struct hosted *hosted = owner;
	uint64_t number = 0, now = monotonic_ns();

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = hash_bytes(hash_bytes(HASH_BEGIN, &now, sizeof(now)), hosted->uuid, 16);
	return number;
}

static void
port_detached(void *owner, int slot, struct backend *backend)
{
	struct hosted *hosted = owner;

	backend_iscsi_destroy(backend);
	hosted->backends[slot] = NULL;
	/* At once for whoever asks for the volume, and in the file as soon as the keeper gets to
	 * it.
	 */
	pthread_mutex_lock(&hosted->lock);
	volume_config_drop(&hosted->config, &hosted->devices[slot]);
	pthread_mutex_unlock(&hosted->lock);
	keeper_drop_device(hosted, &hosted->devices[slot]);
}

/* --- sessions --- */

/* A session's name is fixed by gateway, volume, LUN and kind: a restarted gateway takes the place
 * of its own dead sessions, and nobody else's, whatever was added to the volume or removed
 * meanwhile.  RFC 7143 section 11.12.5, random format.
 */
static void
make_isid(uint64_t gateway, const uint8_t uuid[16], const struct member_address *address,
	  uint8_t isid[6])
{
	uint64_t hash = hash_bytes(hash_bytes(HASH_BEGIN, &gateway, sizeof(gateway)), uuid, 16);

	hash = hash_bytes(hash, address->iqn, strlen(address->iqn));
	hash = hash_bytes(hash, &address->lun, sizeof(address->lun));
	isid[0] = 0x80;
	isid[1] = (uint8_t)(hash >> 40);
	isid[2] = (uint8_t)(hash >> 24);
	isid[3] = (uint8_t)(hash >> 8);
	isid[4] = (uint8_t)(hash >> 52);
	isid[5] = SESSION_DATA;
}

int
volume_isid(const uint8_t uuid[16], const struct member_address *address, uint8_t isid[6])
{
	uint64_t gateway;
	int error = gateway_id(&gateway);

	if (error == 0)
		make_isid(gateway, uuid, address, isid);
	return error;
}

/* What the sessions of all devices have in common. */
static int
session_options(const struct volume_config *config, struct backend_iscsi_options *out,
		uint64_t *gateway, struct fault *fault)
{
	uint64_t key = 0;
	int error = gateway_id(gateway);

	if (error == 0)
		error = gateway_reservation_key(&key);
	memset(out, 0, sizeof(*out));
	out->digests = (struct iscsi_digests){ config->header_digest, config->data_digest };
	out->deadline_ms = config->give_up_seconds * 1000;
	out->connect_ms = out->deadline_ms < 5000 ? 5000 : out->deadline_ms;
	if (error != 0)
		return fault_errno(fault, error,
				   "the gateway's id in %.128s can't be read or written: %s",
				   state_dir(), strerror(-error));
	out->reservation_key = key;
	if (config->chap_file[0] != '\0') {
		error = iscsi_credentials_read(config->chap_file, &out->credentials, fault);
		if (error != 0)
			return fault_errno(fault, error, "secrets file %.128s: %s",
					   config->chap_file, fault->message);
	}
	snprintf(out->credentials.initiator, sizeof(out->credentials.initiator), "%s",
		 config->initiator);
	out->credentials.redirects = config->redirects;
	return 0;
}

static bool
is_same_device(const struct member_address *left, const struct member_address *right)
{
	return left->lun == right->lun && strcmp(left->iqn, right->iqn) == 0;
}

/* For the volume's next engines; the next process does not know. */
static void
keep_unrecorded(struct hosted *hosted, const struct member_address *member,
		const struct scsi_preempted *preempted)
{
	struct unrecorded *free = NULL;

	for (int i = 0; i < SLOTS_MAX; i++) {
		struct unrecorded *kept = &hosted->unrecorded[i];

		if (kept->preempted.key != 0 && is_same_device(&kept->member, member))
			kept->preempted.key = 0;
		if (kept->preempted.key == 0)
			free = kept;
	}
	if (free != NULL && preempted != NULL)
		*free = (struct unrecorded){ *member, *preempted };
}

static void
note_preempted(void *owner, const struct member_address *member,
	       const struct scsi_preempted *preempted)
{
	struct hosted *hosted = owner;
	char label[MEMBER_ADDRESS_MAX];
	const int error = preempted_record(hosted->uuid, member, preempted);

	keep_unrecorded(hosted, member, error != 0 ? preempted : NULL);
	if (error == 0)
		return;
	member_address_format(member, label);
	log_line(LOG_WARNING,
		 "volume %s: whose session member %s may still be closing can't be written to "
		 "%s/preempted: %s",
		 hosted->name, label, state_dir(), strerror(-error));
}

/* What can't be read proves nothing. */
static void
recall_preempted(const struct hosted *hosted, const struct member_address *member,
		 struct scsi_preempted *out)
{
	char label[MEMBER_ADDRESS_MAX];
	const int error = preempted_recall(hosted->uuid, member, out);

	for (int i = 0; i < SLOTS_MAX; i++)
		if (hosted->unrecorded[i].preempted.key != 0 &&
		    is_same_device(&hosted->unrecorded[i].member, member)) {
			*out = hosted->unrecorded[i].preempted;
			return;
		}
	if (error == 0)
		return;
	*out = (struct scsi_preempted){ .key = UINT64_MAX };
	member_address_format(member, label);
	log_line(LOG_WARNING,
		 "volume %s: whose session member %s may still be closing can't be read from "
		 "%s/preempted: %s",
		 hosted->name, label, state_dir(), strerror(-error));
}

static struct backend *
make_backend(struct hosted *hosted, struct backend_iscsi_options *options, uint64_t gateway,
	     const struct device_address *device)
{
	static_assert(sizeof(options->more_portals) == sizeof(device->more_portals),
		      "as many portals as paths");
	options->address = device->address;
	memcpy(options->more_portals, device->more_portals, sizeof(options->more_portals));
	options->more_portals_count = device->more;
	make_isid(gateway, hosted->uuid, &device->address, options->isid_qualifier);
	recall_preempted(hosted, &device->address, &options->preempted);
	options->note_preempted = note_preempted;
	options->owner = hosted;
	return backend_iscsi_create(hosted->reactor, options);
}

static void
destroy_backends(struct hosted *hosted)
{
	for (int i = 0; i < hosted->slot_count; i++) {
		if (hosted->backends[i])
			backend_iscsi_destroy(hosted->backends[i]);
		hosted->backends[i] = NULL;
	}
	hosted->slot_count = 0;
}

static int
make_backends(struct hosted *hosted, const struct volume_config *config, uint32_t take_over_ms)
{
	struct backend_iscsi_options options;
	uint64_t gateway;
	int error = session_options(config, &options, &gateway, &hosted->setup_fault);

	options.take_over_ms = take_over_ms;
	for (int i = 0; i < config->device_count && error == 0; i++) {
		hosted->devices[i] = config->devices[i];
		hosted->backends[i] = make_backend(hosted, &options, gateway, &config->devices[i]);
		hosted->slot_count = i + 1;
		if (!hosted->backends[i])
			error = fault_errno(&hosted->setup_fault, -ENOMEM, "out of memory");
	}
	explicit_bzero(&options.credentials, sizeof(options.credentials));
	return error;
}

static void
note_slot(struct hosted *hosted, int slot, const struct device_address *device,
	  struct backend *backend)
{
	hosted->devices[slot] = *device;
	hosted->backends[slot] = backend;
	if (slot >= hosted->slot_count)
		hosted->slot_count = slot + 1;
}

int
volume_engine_attach(struct hosted *hosted, const struct device_address *device,
		     struct fault *fault)
{
	struct backend_iscsi_options options;
	struct volume_config config;
	struct backend *backend;
	uint64_t gateway;
	int slot;

	pthread_mutex_lock(&hosted->lock);
	config = hosted->config;
	pthread_mutex_unlock(&hosted->lock);
	slot = session_options(&config, &options, &gateway, fault);
	if (slot != 0)
		return slot;
	backend = make_backend(hosted, &options, gateway, device);
	explicit_bzero(&options.credentials, sizeof(options.credentials));
	if (!backend)
		return fault_errno(fault, -ENOMEM, "out of memory");
	slot = engine_attach(hosted->engine, backend, fault->message);
	if (slot < 0)
		backend_iscsi_destroy(backend);
	else
		note_slot(hosted, slot, device, backend);
	return slot;
}

/* --- the engine --- */

static void
fill_options(const struct hosted *hosted, const struct volume_config *config,
	     const struct volume_start_options *start, struct engine_options *out)
{
	uint32_t lasts_ms;

	memset(out, 0, sizeof(*out));
	memcpy(out->volume_uuid, config->uuid, sizeof(out->volume_uuid));
	out->resync_rows_max = RESYNC_ROWS;
	out->assembly_wait_ms = config->assembly_wait_seconds * 1000;
	out->assembly_limit_ms =
		out->assembly_wait_ms < 10000 ? 20000 : out->assembly_wait_ms + 10000;
	lasts_ms =
		start->wait_ms > out->assembly_limit_ms ? start->wait_ms : out->assembly_limit_ms;
	out->take_over_ms = start->take_over ? lasts_ms : 0;
	out->force_ms = start->force ? lasts_ms : 0;
	out->queue_limit_ms = config->queue_limit_seconds * 1000;
	out->give_up_ms = config->give_up_seconds * 1000;
	out->sync_rate_min = config->sync_rate_min;
	out->sync_rate_max = config->sync_rate_max;
	out->grace_ms = config->grace_milliseconds;
	out->hedge_ms = config->hedge_milliseconds;
	out->loss_told_ms = LOSS_TOLD_MS;
	out->spare_wait_ms = config->spare_wait_seconds * 1000;
	out->error_limit = config->error_limit;
	out->log = config->log;
}

static void
adjust_backend(struct hosted *hosted, int slot, const struct volume_config *config,
	       struct backend_iscsi_options *options)
{
	int index = volume_config_find(config, &hosted->devices[slot]);

	if (index >= 0) /* else it was taken out by hand, and stays as it is */
		hosted->devices[slot] = config->devices[index];
	options->address = hosted->devices[slot].address;
	memcpy(options->more_portals, hosted->devices[slot].more_portals,
	       sizeof(options->more_portals));
	options->more_portals_count = hosted->devices[slot].more;
	backend_iscsi_adjust(hosted->backends[slot], options);
}

int
volume_engine_adjust(struct hosted *hosted, struct fault *fault)
{
	struct volume_config *config = malloc(sizeof(*config));
	const struct volume_start_options usual = { 0 };
	struct backend_iscsi_options sessions;
	struct engine_options options;
	uint64_t gateway;
	int error = config ? 0 : -ENOMEM;

	if (error == 0) {
		pthread_mutex_lock(&hosted->lock);
		*config = hosted->config;
		pthread_mutex_unlock(&hosted->lock);
		error = session_options(config, &sessions, &gateway, fault);
	}
	for (int i = 0; i < hosted->slot_count && error == 0; i++) {
		if (hosted->backends[i])
			adjust_backend(hosted, i, config, &sessions);
	}
	if (error == 0) {
		explicit_bzero(&sessions.credentials, sizeof(sessions.credentials));
		fill_options(hosted, config, &usual, &options);
		engine_set_limits(hosted->engine, &options);
		/* A log that was given up is tried again. */
		engine_set_log(hosted->engine, options.log);
	}
	free(config);
	return error;
}

bool
volume_owner_is(const char *owner, uint64_t gateway)
{
	const char *mark = strrchr(owner, '#');
	char own[10];

	snprintf(own, sizeof(own), "#%08x", (unsigned int)gateway);
	return mark != NULL && strcmp(mark, own) == 0;
}

static int
name_owner(const struct hosted *hosted, struct engine_options *options)
{
	char host_name[32] = "gateway";
	uint64_t gateway;
	int error = gateway_id(&gateway);

	if (gethostname(host_name, sizeof(host_name) - 1) != 0)
		snprintf(host_name, sizeof(host_name), "gateway");
	if (error == 0)
		snprintf(options->owner, sizeof(options->owner), "%.20s pid %ld (%.12s) #%08x",
			 host_name, (long)getpid(), hosted->host->program, (unsigned int)gateway);
	return error;
}

/* Something that the machine lacks for now. */
static bool
is_passing(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -ENOSPC ||
	       error == -EDQUOT || error == -EAGAIN;
}

/* Then no engine is made. */
static bool
is_others_turn(struct hosted *hosted)
{
	enum volume_role before;

	pthread_mutex_lock(&hosted->lock);
	before = hosted->made;
	if (hosted->role == ROLE_FENCED) { /* what it held has ended */
		hosted->role = ROLE_STANDBY;
		atomic_store(&hosted->brief_role, ROLE_STANDBY);
	}
	hosted->made = hosted->role;
	if (hosted->role == ROLE_STANDBY)
		fault_errno(&hosted->setup_fault, -ESHUTDOWN,
			    "it is on standby on this gateway, and iraid activate makes it "
			    "active%s%.160s",
			    hosted->role_reason[0] ? ": " : "", hosted->role_reason);
	pthread_cond_broadcast(&hosted->changed);
	pthread_mutex_unlock(&hosted->lock);
	if (hosted->made == ROLE_STANDBY && before == ROLE_ACTIVE)
		volume_note(hosted->host, LOG_NOTICE, "standby", hosted->name, "", "%s",
			    hosted->setup_fault.message);
	else if (hosted->made == ROLE_ACTIVE && before == ROLE_STANDBY)
		volume_note(hosted->host, LOG_NOTICE, "activated", hosted->name, "",
			    "this gateway is to serve it from now on");
	return hosted->made != ROLE_ACTIVE;
}

void
volume_engine_make(struct hosted *hosted)
{
	const struct engine_port port = {
		.record_epoch = port_record_epoch,
		.epochs_kept_in = state_dir(),
		.log = port_log,
		.event = port_event,
		.want_spare = port_want_spare,
		.detached = port_detached,
		.now_ns = port_now_ns,
		.clock_ns = port_clock_ns,
		.random = port_random,
		.owner = hosted,
	};
	struct volume_start_options start;
	struct engine_options options;
	struct volume_config config;
	struct epochs_kept kept;
	int error;

	pthread_mutex_lock(&hosted->lock);
	config = hosted->config;
	start = hosted->start_options;
	memset(&hosted->start_options, 0, sizeof(hosted->start_options)); /* of one start */
	pthread_mutex_unlock(&hosted->lock);

	hosted->setup_fault = (struct fault)FAULT_NONE;
	hosted->remake_ms = 0;
	if (is_others_turn(hosted))
		return;
	fill_options(hosted, &config, &start, &options);
	error = epoch_file_read(config.uuid, &kept);
	options.epoch_seen = kept.given;
	options.epoch_tried = kept.meant;
	hosted->members_needed = needed_recall(config.uuid);
	options.members_needed = (uint8_t)hosted->members_needed;
	options.predecessor_key = hosted->predecessor_key = predecessor_recall(config.uuid);
	if (error != 0)
		fault_errno(
			&hosted->setup_fault, error,
			"the recorded epochs of this volume can't be read from %.128s/epochs*: %s",
			state_dir(), strerror(-error));
	if (error == 0)
		error = make_backends(hosted, &config, options.take_over_ms);
	if (error == 0) {
		error = name_owner(hosted, &options);
		if (error != 0)
			fault_errno(&hosted->setup_fault, error,
				    "this gateway's id can't be read from %.128s: %s", state_dir(),
				    strerror(-error));
	}
	if (error == 0) {
		hosted->engine = engine_create(&options, &port, hosted->backends,
					       hosted->slot_count, monotonic_ms());
		error = hosted->engine ? 0 : -ENOMEM;
		if (error != 0)
			fault_errno(&hosted->setup_fault, error, "out of memory");
	}
	hosted->remake_ms = is_passing(error) ? monotonic_ms() + REMAKE_MS : 0;
	if (hosted->engine) {
		hosted->started_ms = realtime_ms();
		hosted->time = (struct volume_time){ .turns = 0 };
		engine_start(hosted->engine);
		return;
	}
	destroy_backends(hosted);
	log_line(LOG_ERR, "volume %s: %s", hosted->name, hosted->setup_fault.message);
}

void
volume_engine_destroy(struct hosted *hosted)
{
	if (hosted->engine)
		engine_destroy(hosted->engine);
	hosted->engine = NULL;
	volume_accepting_fail(hosted);
	volume_growing_fail(hosted);
	volume_probing_fail(hosted);
	destroy_backends(hosted);
}
