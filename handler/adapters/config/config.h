/* config/config.h - the configuration of a volume (docs/design/config.md) and the folders of a
 * gateway.
 */
#ifndef IRAID_CONFIG_H
#define IRAID_CONFIG_H

#include <limits.h>
#include "state/assembly.h"
#include "engine/core/driver.h"
#include "adapters/iscsi/address.h"

#define GIVE_UP_SECONDS_DEFAULT 5u
#define GIVE_UP_SECONDS_MAX 120u
#define QUEUE_LIMIT_SECONDS_DEFAULT 25u
#define QUEUE_LIMIT_SECONDS_MAX 3600u
#define ASSEMBLY_WAIT_SECONDS_DEFAULT 10u
#define ASSEMBLY_WAIT_SECONDS_MAX 3600u
/* Background work, bytes of each member a second. */
#define SYNC_RATE_MIN_DEFAULT (10ull << 20)
#define SYNC_RATE_MAX_DEFAULT (1ull << 30)
#define SYNC_RATE_LEAST (64ull << 10)
#define SYNC_RATE_MOST (1ull << 40)
#define GRACE_MILLISECONDS_DEFAULT 1000u
#define GRACE_MILLISECONDS_MAX 60000u
#define HEDGE_MILLISECONDS_DEFAULT 500u
#define HEDGE_MILLISECONDS_MAX 60000u
#define SPARE_WAIT_SECONDS_DEFAULT 60u
#define SPARE_WAIT_SECONDS_MAX 86400u
#define ERROR_LIMIT_DEFAULT 64u
#define ERROR_LIMIT_MAX 1000000u

struct volume_config {
	char name[LAYOUT_NAME_MAX + 1];
	uint8_t uuid[16];
	/* Members, spares and replacements in any order: which is which, their superblocks say. */
	int device_count;
	struct device_address devices[SLOTS_MAX];
	char initiator[224];
	char chap_file[PATH_MAX]; /* empty: none */
	uint32_t give_up_seconds, queue_limit_seconds, assembly_wait_seconds;
	uint64_t sync_rate_min, sync_rate_max;
	uint32_t grace_milliseconds; /* 0: none */
	uint32_t hedge_milliseconds; /* 0: never */
	uint32_t spare_wait_seconds, error_limit;
	enum log_mode log;	  /* levels 5 and 6; the others have no use for it */
	enum redirects redirects; /* where targets may send logins */
	/* CRC32C on headers and data, between us and the targets */
	enum iscsi_digest header_digest, data_digest;
	bool enabled;
};

/* Index of a device in config->devices, or -1. */
int volume_config_find(const struct volume_config *config, const struct device_address *device);
/* Take a device out; 0 also if it was not there; -EINVAL: fewer than 2 would be left. */
int volume_config_drop(struct volume_config *config, const struct device_address *device);

/* A volume's name: 1..63 of [A-Za-z0-9._-], not starting with '.' or '-'.  NULL if good, else a
 * static text.
 */
const char *volume_name_fault(const char *name);

/* All fields but name, uuid and devices at their defaults: those of gateway.conf, else the usual
 * ones.
 */
void volume_config_defaults(struct volume_config *config, const char *name);
/* whatever gateway.conf says; no name, no initiator */
void volume_config_usual(struct volume_config *config);

/* "off", "degraded" */
const char *log_mode_name(enum log_mode mode);
/* False: it is neither (*out untouched). */
bool log_mode_parse(const char *text, enum log_mode *out);

void volume_config_complain(void); /* of faults of gateway.conf, in the log */

/* 0; -ENOENT; -EINVAL (and other -errno) with the fault "FILE:LINE: key: what is wrong; remedy". */
int volume_config_read(const char *name, struct volume_config *out, struct fault *fault);
/* The UUID alone, of a file that may have other faults; false: it is not known. */
bool volume_config_uuid(const char *name, uint8_t out[16]);
/* Have NAME.conf say so, atomically and durably.  What it says already, comments, and the order of
 * its lines stay; a new one has a comment for every key.
 */
int volume_config_write(const struct volume_config *config, struct fault *fault);
/* The same for a volume that has no file yet; -EEXIST: it has one, whoever wrote it. */
int volume_config_create(const struct volume_config *config, struct fault *fault);
int volume_config_delete(const char *name, struct fault *fault);
int volume_config_folder(char *out, size_t size); /* config_dir()/volumes; 0 or -errno */
/* names[] of all configured volumes, sorted; returns the count (at most max) or -errno. */
int volume_config_list(char (*names)[LAYOUT_NAME_MAX + 1], int max);

const char *config_dir(void);	   /* IRAID_CONFIG_DIR or /etc/iraid */
const char *state_dir(void);	   /* IRAID_STATE_DIR or /var/lib/iraid */
const char *machine_id_path(void); /* IRAID_MACHINE_ID or /etc/machine-id */
const char *libexec_dir(void);	   /* IRAID_LIBEXEC_DIR or /usr/libexec/iraid */
const char *run_dir(void);	   /* IRAID_RUN_DIR or /run/iraid */
const char *monitor_group(void);   /* IRAID_MONITOR_GROUP or iraid-monitor */
const char *socket_path(void);	   /* IRAID_SOCKET or /run/iraid/control.sock */

/* Whoever changes a file reads and replaces it under a lock that all processes take:
 * run_dir()/NAME, for the files themselves are replaced.  A descriptor to close, or -errno.
 */
#define VOLUMES_LOCK "volumes.lock" /* volumes/NAME.conf; the last one to be taken */
#define SPARES_LOCK "spares.lock"   /* gateway.conf */
int config_lock(const char *name, struct fault *fault);

/* Gateway id: of 8 random bytes made once, kept in state_dir(), and of the machine's id; the
 * reservation key's base.
 */
int gateway_id(uint64_t *out);
/* Of the reservations its volumes hold: a number made of the id, never 0. */
int gateway_reservation_key(uint64_t *out);
uint64_t hash_bytes(uint64_t hash, const void *data, size_t length); /* FNV-1a */
#define HASH_BEGIN 0xcbf29ce484222325ull
/* Level of a volume as it was last assembled here, so that its LUN has the same product name before
 * the members answer as after.  -1 if unknown.
 */
int level_record(const uint8_t uuid[16], int level);
int level_recall(const uint8_t uuid[16]);
/* The fewest members that the volume runs with, as it was last assembled here: a take-over waits for
 * so many.  0 if unknown.
 */
int needed_record(const uint8_t uuid[16], int members);
int needed_recall(const uint8_t uuid[16]);
/* Reservation key of the gateway from which this one took the volume; 0: none. */
int predecessor_record(const uint8_t uuid[16], uint64_t key);
uint64_t predecessor_recall(const uint8_t uuid[16]);
int volume_forget(const uint8_t uuid[16]); /* epochs, level and all other records */

/* That this gateway is not to begin a turn of the volume by itself, and since when (ms since
 * 1970-01-01 UTC).  -ENOENT: it may.
 */
int standby_record(const uint8_t uuid[16], uint64_t since_ms);
int standby_recall(const uint8_t uuid[16], uint64_t *since_ms);
int standby_forget(const uint8_t uuid[16]); /* 0 also if there was none */

#endif
