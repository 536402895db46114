/* rpc/rpc.h - the calls of docs/design/control.md: one line of JSON in, one line out.  No sockets
 * here (socket.c), so that tests can call it directly.
 */
#ifndef IRAID_RPC_H
#define IRAID_RPC_H

#include <pthread.h>
#include <stdatomic.h>

#include "adapters/base/fault.h"
#include "adapters/base/json.h"
#include "adapters/device/device.h"
#include "adapters/volume/admin.h"
#include "adapters/volume/host.h"

/* Of the calls that do more than read.  So there is room for those that read, however long the
 * others wait for each other or for targets.
 */
#define RPC_WORKING_MAX 24

struct rpc_context {
	struct volume_host *host;
	pthread_mutex_t *changes; /* one create or delete at a time: rpc_begin_change() */
	atomic_int *working;	  /* calls under way that do more than read; NULL: not counted */
	bool only_reads;	  /* other methods are refused */
	/* The client has gone: nobody waits for the answer.  NULL: it never does. */
	bool (*has_gone)(void *client);
	void *client;
};

/* Answer one request line.  malloc'ed text without a newline; NULL for a notification. */
char *rpc_answer(struct rpc_context *context, const char *line, size_t length);
/* An error that belongs to no request: too long, too many connections. */
char *rpc_answer_error(enum fault_code code, const char *message, const char *remedy);

/* --- for the methods --- */

/* Returns the result, or NULL with the fault. */
typedef json_object *(*rpc_method_fn)(struct rpc_context *context, json_object *params,
				      struct fault *fault);

json_object *
rpc_volume_create(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_import(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_volume_list(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_status(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_start(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_activate(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_standby(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_volume_stop(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_delete(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_holder(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_volume_grow(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_volume_set(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_stats(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_volume_path(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_volume_probe(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_member_fail(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_member_remove(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_member_rebuild(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_member_replace(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_spare_add(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_pool_list(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_pool_add(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_pool_remove(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_scrub_start(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_scrub_stop(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_lost_list(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_lost_accept(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_events(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *
rpc_config_reload(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_discover(struct rpc_context *context, json_object *params, struct fault *fault);
json_object *rpc_examine(struct rpc_context *context, json_object *params, struct fault *fault);

/* Wait until no other call changes anything.  False, with the fault: the client has gone meanwhile,
 * and nothing is to be done for it.
 */
bool rpc_begin_change(struct rpc_context *context, struct fault *fault);
void rpc_end_change(struct rpc_context *context);
bool rpc_client_gone(const struct rpc_context *context);

/* Status of a volume, as volume.status gives it; counters: of the members too. */
json_object *
rpc_view(struct rpc_context *context, const char *name, bool counters, struct fault *fault);
json_object *rpc_status_json(const struct volume_view *view, bool counters);
/* Levels 5 and 6 have a write log; -1: the level is not known. */
bool rpc_log_is_used(int level);
const char *rpc_link_name(enum link_state state);
const char *
rpc_member_state(const struct engine_status *status, const struct member_status *member);

/* What a fault with -errno means for a command; always false, as fault_set(). */
/* A volume's file can't be changed: an error of config.h. */
bool rpc_fail_file(struct fault *fault, int error);
/* An error of volume/host.h or config.h. */
bool rpc_fail_volume(struct fault *fault, int error, const char *name);

/* A line more among the warnings of a result. */
void rpc_warn(json_object *warnings, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Take a parameter.  An absent optional one leaves *out as it is.  False: with the fault. */
bool rpc_take_text(json_object *params, const char *key, bool required, char *out, size_t size,
		   struct fault *fault);
bool rpc_take_bool(json_object *params, const char *key, bool *out, struct fault *fault);
bool rpc_take_number(json_object *params, const char *key, bool required, int64_t min, int64_t max,
		     int64_t *out, struct fault *fault);
/* "name", checked by volume_name_fault(). */
bool rpc_take_name(json_object *params, char out[LAYOUT_NAME_MAX + 1], struct fault *fault);
/* "initiator" and "chap_file" of calls that log in for themselves. */
bool rpc_take_credentials(json_object *params, struct iscsi_credentials *out, struct fault *fault);

/* Add to an object; they never fail (json-c ends the process when memory is out). */
json_object *rpc_text(const char *value); /* what is no ASCII becomes ? */
void rpc_put_text(json_object *object, const char *key, const char *value);
void rpc_put_number(json_object *object, const char *key, uint64_t value);
void rpc_put_bool(json_object *object, const char *key, bool value);
void rpc_put_uuid(json_object *object, const char *key, const uint8_t uuid[16]);

#endif
