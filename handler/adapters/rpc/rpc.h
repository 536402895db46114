/* rpc/rpc.h - the calls of docs/design/control.md: one line of JSON in, one line out.  No sockets
 * here (socket.c), so that tests can call it directly.
 */
#ifndef IRAID_RPC_H
#define IRAID_RPC_H

#include <json-c/json.h>
#include <pthread.h>

#include "adapters/device/device.h"
#include "adapters/volume/admin.h"
#include "adapters/volume/host.h"

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_REQUEST = -32600,
	RPC_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_OK = 0,
	RPC_INVALID = 1,
	RPC_NOT_FOUND = 2,
	RPC_EXISTS = 3,
	RPC_UNREACHABLE = 4,
	RPC_LOGIN = 5,
	RPC_UNFIT = 6,
	RPC_IN_USE = 7,
	RPC_BUSY = 8,
	RPC_IO = 9,
	RPC_INTERNAL = 10,
};

struct rpc_error {
	enum rpc_code code;
	char message[1024];	/* names the thing and the value */
	char remedy[512];
};

struct rpc_context {
	struct volume_host *host;
	pthread_mutex_t *changes;	/* one create or delete at a time */
};

/* Answer one request line.  malloc'ed text without a newline; NULL for a notification. */
char *rpc_answer(struct rpc_context *context, const char *line, size_t length);
/* An error that belongs to no request: too long, too many connections. */
char *rpc_answer_error(enum rpc_code code, const char *message, const char *remedy);

/* --- for the methods --- */

/* Returns the result, or NULL with *error filled. */
typedef json_object *(*rpc_method_fn)(struct rpc_context *context, json_object *params,
				      struct rpc_error *error);

json_object *rpc_volume_create(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_import(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_list(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_status(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_start(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_stop(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_delete(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_grow(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_set(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_stats(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_path(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_volume_probe(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_member_fail(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_member_remove(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_member_rebuild(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_member_replace(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_spare_add(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_pool_list(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_pool_add(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_pool_remove(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_scrub_start(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_scrub_stop(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_lost_list(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_lost_accept(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_events(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_config_reload(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_discover(struct rpc_context *context, json_object *params, struct rpc_error *error);
json_object *rpc_examine(struct rpc_context *context, json_object *params, struct rpc_error *error);

/* Status of a volume, as volume.status gives it; counters: of the members too. */
json_object *rpc_view(struct rpc_context *context, const char *name, bool counters, struct rpc_error *error);
json_object *rpc_status_json(const struct volume_view *view, bool counters);
const char *rpc_link_name(enum link_state state);
const char *rpc_member_state(const struct engine_status *status, const struct member_status *member);

/* Fill *error; always returns false, so that checks can end with it. */
bool rpc_fail(struct rpc_error *error, enum rpc_code code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
bool rpc_fail_admin(struct rpc_error *error, const struct admin_result *result);
/* A volume's file can't be changed: -errno of config.h and its reason. */
bool rpc_fail_file(struct rpc_error *error, int code, const char *reason);
/* error of volume/host.h or config.h and its reason. */
bool rpc_fail_volume(struct rpc_error *error, int code, const char *name, const char *reason);

/* Take a parameter.  An absent optional one leaves *out as it is.  False: *error is filled. */
bool rpc_take_text(json_object *params, const char *key, bool required, char *out, size_t size,
		   struct rpc_error *error);
bool rpc_take_bool(json_object *params, const char *key, bool *out, struct rpc_error *error);
bool rpc_take_number(json_object *params, const char *key, bool required, int64_t min, int64_t max,
		     int64_t *out, struct rpc_error *error);
/* "name", checked by volume_name_fault(). */
bool rpc_take_name(json_object *params, char out[LAYOUT_NAME_MAX + 1], struct rpc_error *error);
/* "initiator" and "chap_file" of calls that log in for themselves. */
bool rpc_take_credentials(json_object *params, struct iscsi_credentials *out, struct rpc_error *error);

/* Add to an object; they never fail (json-c ends the process when memory is out). */
json_object *rpc_text(const char *value);	/* what is no ASCII becomes ? */
void rpc_put_text(json_object *object, const char *key, const char *value);
void rpc_put_number(json_object *object, const char *key, uint64_t value);
void rpc_put_bool(json_object *object, const char *key, bool value);
void rpc_put_uuid(json_object *object, const char *key, const uint8_t uuid[16]);

#endif
