/* rpc/rpc.c - JSON-RPC 2.0: framing, dispatch, parameters, errors.  Parameters are given by name;
 * one that the method does not know is an error, so that a misspelt option can't be passed over.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "rpc.h"

#define JSON_DEPTH_MAX 16
#define PARAMS_MAX 10
#define LOOK_MS 200 /* so often a call that waits looks whether its client is there */

struct rpc_method {
	const char *name;
	rpc_method_fn call;
	const char *params[PARAMS_MAX + 1];
	enum { WORKS, READS } kind; /* READS: it changes nothing and waits for no target */
};

static json_object *
rpc_version(struct rpc_context *context, json_object *params, struct fault *fault)
{
	json_object *result = json_object_new_object();

	rpc_put_text(result, "version", IRAID_VERSION);
	rpc_put_text(result, "program", volume_host_program(context->host));
	rpc_put_number(result, "pid", (uint64_t)getpid());
	return result;
}

/* clang-format off */
static const struct rpc_method methods[] = {
	{ "version", rpc_version, { NULL }, READS },
	{ "volume.create", rpc_volume_create,
	  { "name", "level", "chunk_bytes", "region_bytes", "members", "spares", "force", "chap_file",
	    "initiator", "give_up_seconds", NULL }, WORKS },
	{ "volume.import", rpc_volume_import, { "members", "name", "chap_file", "initiator", NULL }, WORKS },
	{ "volume.list", rpc_volume_list, { NULL }, READS },
	{ "volume.status", rpc_volume_status, { "name", NULL }, READS },
	{ "volume.start", rpc_volume_start, { "name", "force", "take_over", "wait_seconds", NULL }, WORKS },
	{ "volume.activate", rpc_volume_activate, { "name", "force", "take_over", "wait_seconds", NULL }, WORKS },
	{ "volume.standby", rpc_volume_standby, { "name", NULL }, WORKS },
	{ "volume.holder", rpc_volume_holder, { "name", NULL }, WORKS },
	{ "volume.stop", rpc_volume_stop, { "name", NULL }, WORKS },
	{ "volume.delete", rpc_volume_delete, { "name", "wipe", NULL }, WORKS },
	{ "volume.grow", rpc_volume_grow, { "name", NULL }, WORKS },
	{ "volume.set", rpc_volume_set,
	  { "name", "sync_rate_min_bytes", "sync_rate_max_bytes", "log", "header_digest",
	    "data_digest", NULL }, WORKS },
	{ "volume.stats", rpc_volume_stats, { "name", NULL }, READS },
	{ "volume.path", rpc_volume_path, { "name", NULL }, READS },
	{ "volume.probe", rpc_volume_probe,
	  { "name", "member", "duration_ms", "block_bytes", "depth", "rate_max_bytes", NULL }, WORKS },
	{ "member.fail", rpc_member_fail, { "name", "member", NULL }, WORKS },
	{ "member.remove", rpc_member_remove, { "name", "member", "wipe", NULL }, WORKS },
	{ "member.rebuild", rpc_member_rebuild, { "name", "member", NULL }, WORKS },
	{ "member.replace", rpc_member_replace, { "name", "member", "device", "force", NULL }, WORKS },
	{ "spare.add", rpc_spare_add, { "name", "device", "force", NULL }, WORKS },
	{ "pool.list", rpc_pool_list, { NULL }, READS },
	{ "pool.add", rpc_pool_add, { "device", "force", "chap_file", "initiator", NULL }, WORKS },
	{ "pool.remove", rpc_pool_remove, { "device", "chap_file", "initiator", NULL }, WORKS },
	{ "scrub.start", rpc_scrub_start, { "name", "repair", "resume", NULL }, WORKS },
	{ "scrub.stop", rpc_scrub_stop, { "name", NULL }, WORKS },
	{ "lost.list", rpc_lost_list, { "name", "offset_bytes", "max", NULL }, READS },
	{ "lost.accept", rpc_lost_accept, { "name", "offset_bytes", "length_bytes", NULL }, WORKS },
	{ "events", rpc_events, { "name", "after", "wait_seconds", "max", NULL }, READS },
	{ "config.reload", rpc_config_reload, { "name", NULL }, WORKS },
	{ "discover", rpc_discover, { "portal", "all_portals", "chap_file", "initiator", NULL }, WORKS },
	{ "examine", rpc_examine, { "member", "chap_file", "initiator", NULL }, WORKS },
};
/* clang-format on */

/* --- errors --- */

bool
rpc_fail_file(struct fault *fault, int error)
{
	switch (error) {
	case -EEXIST:
		return fault_set(fault, FAULT_EXISTS, "choose another name", "%s", fault->message);
	case -EAGAIN:
		return fault_set(fault, FAULT_BUSY,
				 "end that program or wait for it, then run the same command again",
				 "%s", fault->message);
	case -EDQUOT:
		return fault_set(fault, FAULT_INTERNAL, fault->remedy, "%s", fault->message);
	default:
		return fault_set(fault, FAULT_INTERNAL,
				 "check the permissions and free space of that folder", "%s",
				 fault->message);
	}
}

bool
rpc_fail_volume(struct fault *fault, int error, const char *name)
{
	const char *reason = fault->message;

	switch (error) {
	case -ENOENT:
		return fault_set(fault, FAULT_NOT_FOUND,
				 "'iraid list' shows the volumes of this gateway",
				 "there is no volume \"%s\"", name);
	case -ENOTCONN:
		return fault_set(fault, FAULT_BUSY,
				 "start it here with iraid start; for a volume that nbdkit serves "
				 "use the control socket of nbdkit",
				 "volume \"%s\" is not running in this process", name);
	case -ENOMEDIUM:
		return fault_set(fault, FAULT_IO, "iraid status shows what the volume waits for",
				 "volume \"%s\": %s", name,
				 reason[0] ? reason : "it is not assembled");
	case -EBUSY:
		return fault_set(fault, FAULT_IN_USE,
				 "first end that use (iraid unexport, or stop that process)", "%s",
				 reason);
	case -ESHUTDOWN:
		return fault_set(fault, FAULT_BUSY, "try again in a few seconds",
				 "volume \"%s\": %s", name, reason);
	case -EAGAIN:
		return fault_set(fault, FAULT_BUSY, "try again in a few seconds", "%s", reason);
	case -EDQUOT:
		return fault_set(fault, FAULT_INTERNAL, fault->remedy, "%s", reason);
	case -EINVAL:
		return fault_set(fault, FAULT_INVALID,
				 "correct the file; iraid.conf(5) explains the keys", "%s", reason);
	default:
		return fault_set(fault, FAULT_INTERNAL, "see the log of the handler",
				 "volume \"%s\": %s", name, reason[0] ? reason : strerror(-error));
	}
}

static const char *
type_name(enum fault_code code)
{
	switch (code) {
	case FAULT_PARSE:
		return "parse";
	case FAULT_REQUEST:
		return "request";
	case FAULT_METHOD:
		return "method";
	case FAULT_PARAMS:
		return "params";
	case FAULT_INVALID:
		return "invalid";
	case FAULT_NOT_FOUND:
		return "not_found";
	case FAULT_EXISTS:
		return "exists";
	case FAULT_UNREACHABLE:
		return "unreachable";
	case FAULT_LOGIN:
		return "login";
	case FAULT_UNFIT:
		return "unfit";
	case FAULT_IN_USE:
		return "in_use";
	case FAULT_BUSY:
		return "busy";
	case FAULT_IO:
		return "io";
	case FAULT_INTERNAL:
		break;
	}
	return "internal";
}

/* --- results --- */

void
rpc_warn(json_object *warnings, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	json_object_array_add(warnings, rpc_text(text));
}

json_object *
rpc_text(const char *value)
{
	char clean[4096];

	snprintf(clean, sizeof(clean), "%s", value);
	text_make_harmless(clean);
	return json_object_new_string(clean);
}

void
rpc_put_text(json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, rpc_text(value));
}

void
rpc_put_number(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

void
rpc_put_bool(json_object *object, const char *key, bool value)
{
	json_object_object_add(object, key, json_object_new_boolean(value));
}

void
rpc_put_uuid(json_object *object, const char *key, const uint8_t uuid[16])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	json_object_object_add(object, key, json_object_new_string(text));
}

/* --- parameters --- */

static json_object *
find_param(json_object *params, const char *key, bool required, struct fault *fault)
{
	json_object *value = NULL;

	if (params && json_object_object_get_ex(params, key, &value) && value)
		return value;
	if (required)
		fault_set(fault, FAULT_PARAMS,
			  "docs/design/control.md lists the parameters of each method",
			  "parameter \"%s\" is missing", key);
	return NULL;
}

bool
rpc_take_text(json_object *params, const char *key, bool required, char *out, size_t size,
	      struct fault *fault)
{
	json_object *value = find_param(params, key, required, fault);
	size_t length;

	if (!value)
		return !required;
	if (!json_object_is_type(value, json_type_string))
		return fault_set(fault, FAULT_PARAMS, "give it as a string",
				 "parameter \"%s\" is not a string", key);
	length = (size_t)json_object_get_string_len(value);
	if (length >= size)
		return fault_set(fault, FAULT_INVALID, "shorten it",
				 "\"%s\" has %zu characters, more than the maximum of %zu", key,
				 length, size - 1);
	if (strlen(json_object_get_string(value)) != length)
		return fault_set(fault, FAULT_INVALID, "remove it", "\"%s\" has a NUL character",
				 key);
	memcpy(out, json_object_get_string(value), length + 1);
	return true;
}

bool
rpc_take_bool(json_object *params, const char *key, bool *out, struct fault *fault)
{
	json_object *value = find_param(params, key, false, fault);

	if (!value)
		return true;
	if (!json_object_is_type(value, json_type_boolean))
		return fault_set(fault, FAULT_PARAMS, "give true or false",
				 "parameter \"%s\" is not a boolean", key);
	*out = json_object_get_boolean(value);
	return true;
}

bool
rpc_take_number(json_object *params, const char *key, bool required, int64_t min, int64_t max,
		int64_t *out, struct fault *fault)
{
	json_object *value = find_param(params, key, required, fault);
	int64_t number;

	if (!value)
		return !required;
	if (!json_object_is_type(value, json_type_int))
		return fault_set(fault, FAULT_PARAMS, "give a whole number",
				 "parameter \"%s\" is not a whole number", key);
	number = json_object_get_int64(value);
	if (number < min || number > max)
		return fault_set(fault, FAULT_INVALID, "choose a value in that range",
				 "\"%s\" is %lld, not between %lld and %lld", key,
				 (long long)number, (long long)min, (long long)max);
	*out = number;
	return true;
}

bool
rpc_take_name(json_object *params, char out[LAYOUT_NAME_MAX + 1], struct fault *fault)
{
	char name[4 * LAYOUT_NAME_MAX];
	const char *why;

	if (!rpc_take_text(params, "name", true, name, sizeof(name), fault))
		return false;
	why = volume_name_fault(name);
	if (why)
		return fault_set(fault, FAULT_INVALID, "choose another name", "name \"%s\": %s",
				 name, why);
	memcpy(out, name, strlen(name) + 1);
	return true;
}

bool
rpc_take_credentials(json_object *params, struct iscsi_credentials *out, struct fault *fault)
{
	struct volume_config usual;
	char path[PATH_MAX] = "";
	const char *wrong;

	memset(out, 0, sizeof(*out));
	volume_config_defaults(&usual, "admin");
	/* of all volumes, if gateway.conf names one */
	memcpy(path, usual.chap_file, sizeof(path));
	if (!rpc_take_text(params, "initiator", false, usual.initiator, sizeof(usual.initiator),
			   fault) ||
	    !rpc_take_text(params, "chap_file", false, path, sizeof(path), fault))
		return false;
	wrong = initiator_name_fault(usual.initiator);
	if (wrong)
		return fault_set(fault, FAULT_INVALID, "write it as iqn.YYYY-MM.DOMAIN:NAME",
				 "initiator \"%s\": %s", usual.initiator, wrong);
	if (path[0] != '\0' && path[0] != '/')
		return fault_set(fault, FAULT_INVALID, "give an absolute path",
				 "chap_file \"%s\" is not absolute", path);
	if (path[0] != '\0' && iscsi_credentials_read(path, out, fault) != 0)
		return fault_set(
			fault, FAULT_INVALID,
			"write the user on line 1 and the secret on line 2, for mutual CHAP the "
			"target's own on lines 3 and 4; the file must "
			"belong to root and have mode 0600",
			"chap_file \"%s\": %s", path, fault->message);
	snprintf(out->initiator, sizeof(out->initiator), "%s", usual.initiator);
	out->redirects = usual.redirects;
	return true;
}

/* --- requests --- */

struct request {
	json_object *root;
	json_object *id; /* borrowed; NULL is also the id of errors without one */
	bool notification;
	const struct rpc_method *method;
	json_object *params; /* borrowed; NULL if there are none */
};

static bool
parse_request(const char *line, size_t length, struct request *request, struct fault *fault)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	enum json_tokener_error verdict;

	if (!tokener)
		return fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	/* With the NUL behind it, so that a number at the very end is seen to be complete. */
	request->root = json_tokener_parse_ex(tokener, line, (int)length + 1);
	verdict = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	if (verdict == json_tokener_success && strlen(line) == length)
		return true;
	json_object_put(request->root);
	request->root = NULL;
	return fault_set(fault, FAULT_PARSE, "send one JSON object per line, in UTF-8",
			 "the request is not valid JSON: %s",
			 verdict == json_tokener_continue  ? "it ends too early"
			 : verdict == json_tokener_success ? "it has a NUL byte"
							   : json_tokener_error_desc(verdict));
}

static bool
check_envelope(struct request *request, struct fault *fault)
{
	static const char *const known[] = { "jsonrpc", "id", "method", "params" };
	json_object *value;

	if (!json_object_is_type(request->root, json_type_object))
		return fault_set(fault, FAULT_REQUEST,
				 "send one object per line; batches are not supported",
				 "the request is not a JSON object");
	request->notification = !json_object_object_get_ex(request->root, "id", &request->id);
	if (!request->notification && request->id &&
	    !json_object_is_type(request->id, json_type_string) &&
	    !json_object_is_type(request->id, json_type_int)) {
		request->id = NULL;
		return fault_set(fault, FAULT_REQUEST, "give a string, a whole number or null",
				 "\"id\" is neither a string nor a whole number");
	}
	if (!json_object_object_get_ex(request->root, "jsonrpc", &value) ||
	    !json_object_is_type(value, json_type_string) ||
	    strcmp(json_object_get_string(value), "2.0") != 0)
		return fault_set(fault, FAULT_REQUEST, "this socket speaks JSON-RPC 2.0",
				 "\"jsonrpc\" is not \"2.0\"");
	json_object_object_foreach(request->root, key, ignored)
	{
		bool found = false;

		(void)ignored;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found = found || strcmp(key, known[i]) == 0;
		if (!found)
			return fault_set(fault, FAULT_REQUEST, "put parameters into \"params\"",
					 "the request has an unknown key \"%.64s\"", key);
	}
	return true;
}

static bool
check_method(struct request *request, struct fault *fault)
{
	json_object *value;
	const char *name;

	if (!json_object_object_get_ex(request->root, "method", &value) ||
	    !json_object_is_type(value, json_type_string))
		return fault_set(fault, FAULT_REQUEST, "name the method to call",
				 "\"method\" is not a string");
	name = json_object_get_string(value);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(name, methods[i].name) == 0)
			request->method = &methods[i];
	}
	if (!request->method)
		return fault_set(fault, FAULT_METHOD,
				 "the handler may have another version than the program (iraid "
				 "version); docs/design/control.md lists the methods",
				 "unknown method \"%.64s\"", name);
	return true;
}

static bool
check_rights(const struct rpc_context *context, const struct request *request, struct fault *fault)
{
	if (!context->only_reads || request->method->kind == READS)
		return true;
	return fault_set(fault, FAULT_REQUEST,
			 "use the control socket, as root: iraid without --socket",
			 "the monitor socket answers questions only: %s changes something or asks "
			 "targets",
			 request->method->name);
}

static bool
check_params(struct request *request, struct fault *fault)
{
	if (!json_object_object_get_ex(request->root, "params", &request->params))
		return true;
	if (!json_object_is_type(request->params, json_type_object))
		return fault_set(fault, FAULT_PARAMS, "give parameters by name, in an object",
				 "\"params\" is not an object");
	json_object_object_foreach(request->params, key, ignored)
	{
		const char *const *known = request->method->params;

		(void)ignored;
		while (*known && strcmp(*known, key) != 0)
			known++;
		if (!*known)
			return fault_set(
				fault, FAULT_PARAMS,
				"docs/design/control.md lists the parameters of each method",
				"%s has no parameter \"%.64s\"", request->method->name, key);
	}
	return true;
}

#define TEXT_FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* There was no memory for the answer.  NULL: nor for this one, and the client is told nothing. */
static char *
format_short_answer(json_object *id)
{
	const char *id_text = id ? json_text(id, TEXT_FLAGS) : NULL;
	char *text = NULL;

	if (asprintf(&text,
		     "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":"
		     "\"out of memory: the command may have been carried out, its answer could not "
		     "be made\",\"data\":{\"type\":\"%s\",\"remedy\":"
		     "\"free some memory, then look at the volume's status\"}}}",
		     id_text ? id_text : "null", FAULT_INTERNAL, type_name(FAULT_INTERNAL)) < 0)
		return NULL;
	return text;
}

static char *
format_answer(json_object *id, json_object *result, const struct fault *fault)
{
	json_object *answer = json_object_new_object();
	const char *whole;
	char *text;

	json_object_object_add(answer, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(answer, "id", json_object_get(id));
	if (result) {
		json_object_object_add(answer, "result", result);
	} else {
		json_object *object = json_object_new_object();
		json_object *data = json_object_new_object();

		json_object_object_add(object, "code", json_object_new_int(fault->code));
		rpc_put_text(object, "message", fault->message);
		rpc_put_text(data, "type", type_name((enum fault_code)fault->code));
		rpc_put_text(data, "remedy", fault->remedy);
		json_object_object_add(object, "data", data);
		json_object_object_add(answer, "error", object);
	}
	/* Not an answer that lacks something, of which nobody could tell. */
	whole = json_was_short() ? NULL : json_text(answer, TEXT_FLAGS);
	text = whole ? strdup(whole) : NULL;
	json_object_put(answer);
	return text ? text : format_short_answer(id);
}

/* --- calls --- */

bool
rpc_client_gone(const struct rpc_context *context)
{
	return context->has_gone && context->has_gone(context->client);
}

bool
rpc_begin_change(struct rpc_context *context, struct fault *fault)
{
	for (;;) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_mutex_clocklock(context->changes, CLOCK_MONOTONIC, &until) == 0)
			return true;
		if (rpc_client_gone(context))
			return fault_set(fault, FAULT_BUSY, "run the command again",
					 "the client did not wait for the command's turn");
	}
}

void
rpc_end_change(struct rpc_context *context)
{
	pthread_mutex_unlock(context->changes);
}

static json_object *
call_method(struct rpc_context *context, const struct request *request, struct fault *fault)
{
	const struct rpc_method *method = request->method;
	json_object *result = NULL;

	if (method->kind == READS || !context->working)
		return method->call(context, request->params, fault);
	if (atomic_fetch_add(context->working, 1) < RPC_WORKING_MAX)
		result = method->call(context, request->params, fault);
	else
		fault_set(fault, FAULT_BUSY, "wait until one of them has ended",
			  "%d commands are under way already", RPC_WORKING_MAX);
	atomic_fetch_sub(context->working, 1);
	return result;
}

char *
rpc_answer(struct rpc_context *context, const char *line, size_t length)
{
	struct request request = { 0 };
	struct fault fault = { .code = FAULT_INTERNAL };
	json_object *result = NULL;
	char *text = NULL;

	json_was_short(); /* of a request before */
	if (parse_request(line, length, &request, &fault) && check_envelope(&request, &fault) &&
	    check_method(&request, &fault) && check_rights(context, &request, &fault) &&
	    check_params(&request, &fault))
		result = call_method(context, &request, &fault);
	/* A request too broken to tell whether it has an id gets its answer. */
	if (!request.notification || (!request.method && !result))
		text = format_answer(request.id, result, &fault);
	else
		json_object_put(result);
	json_object_put(request.root);
	return text;
}

char *
rpc_answer_error(enum fault_code code, const char *message, const char *remedy)
{
	struct fault fault;

	fault_set(&fault, code, remedy, "%s", message);
	return format_answer(NULL, NULL, &fault);
}
