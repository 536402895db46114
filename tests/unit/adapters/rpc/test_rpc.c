/* The calls of the control socket without the socket: malformed requests, unknown methods and
 * parameters, wrong types and values get the typed error that docs/design/control.md promises, and
 * no bytes whatever do harm.  Nothing here reaches a target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "adapters/base/files.h"
#include "adapters/rpc/rpc.h"
#include "../scratch.h"

#define FUZZ_ROUNDS 20000

static struct rpc_context context;
static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;

static int
make_host(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	context.host = volume_host_create("test");
	context.changes = &changes;
	return context.host ? 0 : -1;
}

static int
remove_host(void **state)
{
	volume_host_destroy(context.host);
	return scratch_remove(state);
}

static json_object *
ask(const char *line)
{
	char *text = rpc_answer(&context, line, strlen(line));
	json_object *answer;

	assert_non_null(text);
	assert_null(strchr(text, '\n'));
	answer = json_tokener_parse(text);
	if (!answer)
		fail_msg("not JSON: %s", text);
	free(text);
	return answer;
}

static json_object *
at(json_object *object, const char *key)
{
	json_object *value = NULL;

	if (!json_object_object_get_ex(object, key, &value))
		fail_msg("\"%s\" is missing in %s", key, json_object_to_json_string(object));
	return value;
}

/* The line is answered by this error, whose message holds `named` and which has a remedy. */
static void
refused(const char *line, int code, const char *type, const char *named)
{
	json_object *answer = ask(line), *error = at(answer, "error"), *data = at(error, "data");

	if (json_object_get_int(at(error, "code")) != code ||
	    strcmp(json_object_get_string(at(data, "type")), type) != 0 ||
	    !strstr(json_object_get_string(at(error, "message")), named) ||
	    json_object_get_string_len(at(data, "remedy")) == 0)
		fail_msg("%s: expected %d %s with \"%s\", got %s", line, code, type, named,
			 json_object_to_json_string(answer));
	assert_false(json_object_object_get_ex(answer, "result", NULL));
	json_object_put(answer);
}

static void
test_what_is_no_request_is_refused(void **state)
{
	refused("", -32700, "parse", "end of data");
	refused("{", -32700, "parse", "end of data");
	refused("{]", -32700, "parse", "JSON");
	refused("{\"a\": 'b'}", -32700, "parse", "JSON");
	refused("{\"jsonrpc\":\"2.0\"} x", -32700, "parse", "JSON");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "parse", "JSON");
	refused("7", -32600, "request", "not a JSON object");
	refused("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}]", -32600, "request",
		"not a JSON object");
	refused("{\"id\":1,\"method\":\"version\"}", -32600, "request", "jsonrpc");
	refused("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"version\"}", -32600, "request",
		"jsonrpc");
	refused("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"version\"}", -32600, "request", "id");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, "request", "method");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -32600, "request", "method");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\",\"name\":\"v0\"}", -32600,
		"request", "name");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"volume.explode\"}", -32601, "method",
		"volume.explode");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\",\"params\":[]}", -32602,
		"params", "params");
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\",\"params\":{\"x\":1}}",
		-32602, "params", "\"x\"");
}

static void
test_a_nul_inside_the_line_is_refused(void **state)
{
	static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}\0garbage";
	char *text = rpc_answer(&context, line, sizeof(line) - 1);

	assert_non_null(strstr(text, "-32700"));
	free(text);
}

static void
test_deep_nesting_is_refused(void **state)
{
	char line[4096];

	memset(line, '[', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	refused(line, -32700, "parse", "JSON");
}

static void
test_the_id_comes_back_as_it_was(void **state)
{
	static const char *const ids[] = { "1", "-7", "\"abc\"", "null" };
	char line[128];

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		json_object *answer;
		const char *id;

		snprintf(line, sizeof(line),
			 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"version\"}", ids[i]);
		answer = ask(line);
		id = json_object_to_json_string(at(answer, "id"));
		assert_string_equal(id ? id : "null", ids[i]);
		assert_string_equal(json_object_get_string(at(at(answer, "result"), "program")),
				    "test");
		json_object_put(answer);
	}
}

static void
test_a_notification_gets_no_answer(void **state)
{
	static const char good[] = "{\"jsonrpc\":\"2.0\",\"method\":\"version\"}";
	static const char bad[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"version\",\"params\":{\"x\":1}}";

	assert_null(rpc_answer(&context, good, strlen(good)));
	assert_null(rpc_answer(&context, bad, strlen(bad)));
}

#define CALL(method, params)                                                                       \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":" params "}"
#define THREE "[\"h/iqn.x:a/0\",\"h/iqn.x:b/0\",\"h/iqn.x:c/0\"]"

static void
test_values_that_cannot_be_are_refused_before_any_login(void **state)
{
	refused(CALL("volume.create", "{}"), -32602, "params", "name");
	refused(CALL("volume.create", "{\"name\":\"a/b\",\"level\":5,\"members\":" THREE "}"), 1,
		"invalid", "a/b");
	refused(CALL("volume.create", "{\"name\":\"a:b\",\"level\":5,\"members\":" THREE "}"), 1,
		"invalid", "a:b");
	refused(CALL("volume.create", "{\"name\":5,\"level\":5,\"members\":" THREE "}"), -32602,
		"params", "name");
	refused(CALL("volume.create", "{\"name\":\"v\",\"members\":" THREE "}"), -32602, "params",
		"level");
	refused(CALL("volume.create", "{\"name\":\"v\",\"level\":7,\"members\":" THREE "}"), 1,
		"invalid", "level 7");
	refused(CALL("volume.create", "{\"name\":\"v\",\"level\":\"5\",\"members\":" THREE "}"),
		-32602, "params", "level");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"chunk_bytes\":5000,\"members\":" THREE "}"),
		1, "invalid", "chunk size 5000");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"chunk_bytes\":2097152,\"members\":" THREE "}"),
		1, "invalid", "chunk size 2097152");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"chunk_bytes\":0,\"members\":" THREE "}"),
		1, "invalid", "chunk size 0");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"members\":[\"h/iqn.x:a/0\",\"h/iqn.x:b/0\"]}"),
		1, "invalid", "2 were given");
	refused(CALL("volume.create", "{\"name\":\"v\",\"level\":0,\"members\":[\"h/iqn.x:a/0\"]}"),
		1, "invalid", "1 were given");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":0,\"members\":[\"h/iqn.x:a/0\",\"nonsense\"]}"),
		1, "invalid", "nonsense");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":0,\"members\":[\"h/iqn.x:a/0\",7]}"),
		-32602, "params", "members");
	refused(CALL("volume.create", "{\"name\":\"v\",\"level\":0,\"members\":\"h/iqn.x:a/0\"}"),
		-32602, "params", "members");
	refused(CALL("volume.create", "{\"name\":\"v\",\"level\":0,\"members\":[\"h/iqn.x:a/"
				      "0\",\"h:3260/iqn.x:a/0\"]}"),
		7, "in_use", "given twice");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"force\":1,\"members\":" THREE "}"),
		-32602, "params", "force");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"give_up_seconds\":0,\"members\":" THREE "}"),
		1, "invalid", "give_up_seconds");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"initiator\":\"me\",\"members\":" THREE "}"),
		1, "invalid", "initiator");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"chap_file\":\"/nowhere/x\",\"members\":" THREE
		     "}"),
		1, "invalid", "/nowhere/x");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"region_bytes\":1000,\"members\":" THREE "}"),
		1, "invalid", "region_bytes");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"region_bytes\":4096,\"members\":" THREE "}"),
		1, "invalid", "less than one chunk");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"spares\":\"h/iqn.x:s/0\",\"members\":" THREE
		     "}"),
		-32602, "params", "spares");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":5,\"spares\":[\"h/iqn.x:a/0\"],\"members\":" THREE
		     "}"),
		7, "in_use", "given twice");
	refused(CALL("volume.create",
		     "{\"name\":\"v\",\"level\":0,\"spares\":[\"h/iqn.x:s/0\"],\"members\":" THREE
		     "}"),
		1, "invalid", "no redundancy");
	refused(CALL("member.fail", "{\"name\":\"v\"}"), -32602, "params", "member");
	refused(CALL("member.fail", "{\"name\":\"v\",\"member\":2}"), -32602, "params", "member");
	refused(CALL("member.fail", "{\"name\":\"v\",\"member\":\"\"}"), 1, "invalid", "member");
	refused(CALL("member.remove", "{\"name\":\"v\",\"member\":\"2\",\"wipe\":1}"), -32602,
		"params", "wipe");
	refused(CALL("member.replace", "{\"name\":\"v\",\"member\":\"2\",\"new\":\"x\"}"), -32602,
		"params", "new");
	refused(CALL("pool.add", "{}"), -32602, "params", "device");
	refused(CALL("pool.add", "{\"device\":\"nonsense\"}"), 1, "invalid", "nonsense");
	refused(CALL("pool.add", "{\"device\":\"a,b,c,d,e/iqn.x:a/0\"}"), 1, "invalid",
		"at most 4 portals");
	refused(CALL("pool.add", "{\"device\":\"h/iqn.x:a/0\",\"chap_file\":\"/nowhere/x\"}"), 1,
		"invalid", "/nowhere/x");
	refused(CALL("pool.remove", "{\"device\":\"h/iqn.x:a/0\"}"), 2, "not_found",
		"h:3260/iqn.x:a/0");
	refused(CALL("scrub.start", "{\"name\":\"v\",\"repair\":\"yes\"}"), -32602, "params",
		"repair");
	refused(CALL("lost.list", "{\"name\":\"v\",\"max\":0}"), 1, "invalid", "max");
	refused(CALL("lost.list", "{\"name\":\"v\",\"offset_bytes\":-1}"), 1, "invalid",
		"offset_bytes");
	refused(CALL("lost.accept", "{\"name\":\"v\",\"length_bytes\":0}"), 1, "invalid",
		"length_bytes");
	refused(CALL("events", "{\"after\":-1}"), 1, "invalid", "after");
	refused(CALL("events", "{\"wait_seconds\":61}"), 1, "invalid", "wait_seconds");
	refused(CALL("events", "{\"max\":1001}"), 1, "invalid", "max");
	refused(CALL("events", "{\"name\":\"a/b\"}"), 1, "invalid", "a/b");
	refused(CALL("volume.set", "{\"name\":\"v\",\"sync_rate_max_bytes\":1}"), 1, "invalid",
		"sync_rate_max_bytes");
	refused(CALL("volume.set", "{\"name\":\"v\",\"log\":\"sometimes\"}"), 1, "invalid",
		"\"log\" is \"sometimes\", none of off, degraded and always");
	refused(CALL("volume.set", "{\"name\":\"v\",\"log\":\"\"}"), 1, "invalid", "\"log\"");
	refused(CALL("volume.set", "{\"name\":\"v\",\"log\":false}"), -32602, "params",
		"\"log\" is not a string");
	refused(CALL("discover", "{\"portal\":\"\"}"), 1, "invalid", "portal");
	refused(CALL("discover", "{\"portal\":\"h:99999\"}"), 1, "invalid", "h:99999");
	refused(CALL("examine", "{\"member\":\"h/iqn.x:a\"}"), 1, "invalid", "h/iqn.x:a");
	refused(CALL("volume.start", "{\"name\":\"v\",\"wait_seconds\":-1}"), 1, "invalid",
		"wait_seconds");
	refused(CALL("volume.path", "{}"), -32602, "params", "name");
	refused(CALL("volume.path", "{\"name\":\"v\",\"member\":\"0\"}"), -32602, "params",
		"member");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"duration_ms\":0}"), 1, "invalid",
		"duration_ms");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"duration_ms\":60001}"), 1, "invalid",
		"duration_ms");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"block_bytes\":5000}"), 1, "invalid",
		"block_bytes");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"block_bytes\":2097152}"), 1, "invalid",
		"block_bytes");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"depth\":33}"), 1, "invalid", "depth");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"depth\":\"1\"}"), -32602, "params",
		"depth");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"rate_max_bytes\":0}"), 1, "invalid",
		"rate_max_bytes");
	refused(CALL("volume.probe", "{\"name\":\"v\",\"member\":\"\"}"), 1, "invalid", "member");
}

static void
test_volumes_that_are_not_there_are_named(void **state)
{
	refused(CALL("volume.status", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.start", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.stop", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.delete", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.set", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.grow", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("member.fail", "{\"name\":\"v9\",\"member\":\"1\"}"), 2, "not_found", "v9");
	refused(CALL("member.remove", "{\"name\":\"v9\",\"member\":\"1\"}"), 2, "not_found", "v9");
	refused(CALL("member.rebuild", "{\"name\":\"v9\",\"member\":\"1\"}"), 2, "not_found", "v9");
	refused(CALL("member.replace",
		     "{\"name\":\"v9\",\"member\":\"1\",\"device\":\"h/iqn.x:a/0\"}"),
		2, "not_found", "v9");
	refused(CALL("spare.add", "{\"name\":\"v9\",\"device\":\"h/iqn.x:a/0\"}"), 2, "not_found",
		"v9");
	refused(CALL("scrub.start", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.path", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.probe", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("volume.probe", "{\"name\":\"v9\",\"member\":\"1\"}"), 2, "not_found", "v9");
	refused(CALL("scrub.stop", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("lost.list", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
	refused(CALL("lost.accept", "{\"name\":\"v9\"}"), 2, "not_found", "v9");
}

static void
configure_v0(void)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/v0.conf",
		      "[volume]\nuuid = 3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10\n"
		      "member = h/iqn.x:a/0\nmember = h/iqn.x:b/0\nmember = h/iqn.x:c/0\n");
}

static void
test_what_needs_a_running_volume_says_so(void **state)
{
	configure_v0();
	refused(CALL("member.fail", "{\"name\":\"v0\",\"member\":\"1\"}"), 8, "busy",
		"\"v0\" is not running");
	refused(CALL("member.remove", "{\"name\":\"v0\",\"member\":\"1\"}"), 8, "busy",
		"\"v0\" is not running");
	refused(CALL("member.rebuild", "{\"name\":\"v0\",\"member\":\"1\"}"), 8, "busy",
		"\"v0\" is not running");
	refused(CALL("member.replace",
		     "{\"name\":\"v0\",\"member\":\"1\",\"device\":\"h/iqn.x:d/0\"}"),
		8, "busy", "\"v0\" is not running");
	refused(CALL("scrub.start", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
	refused(CALL("volume.grow", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
	refused(CALL("volume.path", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
	refused(CALL("volume.probe", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
	refused(CALL("volume.probe", "{\"name\":\"v0\",\"member\":\"1\"}"), 8, "busy",
		"\"v0\" is not running");
	refused(CALL("lost.list", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
	refused(CALL("lost.accept", "{\"name\":\"v0\"}"), 8, "busy", "\"v0\" is not running");
}

static void
test_rates_are_kept_in_the_file_whatever_else_was_edited_there(void **state)
{
	struct volume_config config;
	json_object *answer;
	struct fault fault;

	configure_v0();
	answer = ask(CALL("volume.set", "{\"name\":\"v0\",\"sync_rate_min_bytes\":1048576}"));
	assert_int_equal(json_object_get_int64(at(at(answer, "result"), "sync_rate_min_bytes")),
			 1048576);
	assert_int_equal(json_object_get_int64(at(at(answer, "result"), "sync_rate_max_bytes")),
			 1 << 30);
	json_object_put(answer);
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.sync_rate_min, 1048576);
	config.give_up_seconds = 77;
	assert_int_equal(volume_config_write(&config, &fault), 0);
	refused(CALL("volume.set", "{\"name\":\"v0\",\"sync_rate_max_bytes\":65536}"), 1, "invalid",
		"above the upper limit");
	json_object_put(
		ask(CALL("volume.set", "{\"name\":\"v0\",\"sync_rate_max_bytes\":2097152}")));
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.sync_rate_max, 2097152);
	assert_int_equal(config.sync_rate_min, 1048576);
	assert_int_equal(config.give_up_seconds, 77);
}

static void
test_the_write_log_is_kept_in_the_file_and_shown(void **state)
{
	struct volume_config config;
	json_object *answer, *log;
	struct fault fault;

	configure_v0();
	answer = ask(CALL("volume.set", "{\"name\":\"v0\",\"log\":null}"));
	assert_string_equal(json_object_get_string(at(at(answer, "result"), "log")), "degraded");
	json_object_put(answer);
	answer = ask(CALL("volume.set", "{\"name\":\"v0\",\"log\":\"always\"}"));
	assert_string_equal(json_object_get_string(at(at(answer, "result"), "log")), "always");
	json_object_put(answer);
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.log, LOG_MODE_ALWAYS);
	answer = ask(CALL("volume.set", "{\"name\":\"v0\",\"log\":\"off\"}"));
	assert_string_equal(json_object_get_string(at(at(answer, "result"), "log")), "off");
	json_object_put(answer);
	assert_int_equal(volume_config_read("v0", &config, &fault), 0);
	assert_int_equal(config.log, LOG_MODE_OFF);
	json_object_put(ask(CALL("volume.set", "{\"name\":\"v0\","
					       "\"sync_rate_max_bytes\":2097152}")));
	answer = ask(CALL("volume.status", "{\"name\":\"v0\"}"));
	log = at(at(answer, "result"), "log");
	assert_string_equal(json_object_get_string(at(log, "mode")), "off");
	assert_false(json_object_get_boolean(at(log, "open")));
	assert_null(at(at(log, "replay"), "step"));
	json_object_put(answer);
}

static void
test_events_say_what_was_done_and_where_to_go_on(void **state)
{
	json_object *answer, *result, *events;

	volume_note(context.host, 4, "tested", "v0", "", "a \"text\" with\nodd bytes \xff");
	answer = ask(CALL("events", "{}"));
	result = at(answer, "result");
	events = at(result, "events");
	assert_int_equal(json_object_array_length(events), 1);
	assert_string_equal(
		json_object_get_string(at(json_object_array_get_idx(events, 0), "kind")), "tested");
	assert_string_equal(
		json_object_get_string(at(json_object_array_get_idx(events, 0), "severity")),
		"warning");
	assert_string_equal(
		json_object_get_string(at(json_object_array_get_idx(events, 0), "text")),
		"a \"text\" with?odd bytes ?");
	assert_int_equal(json_object_get_int64(at(result, "next")), 1);
	json_object_put(answer);
	answer = ask(CALL("events", "{\"after\":1,\"name\":\"v0\"}"));
	assert_int_equal(json_object_array_length(at(at(answer, "result"), "events")), 0);
	json_object_put(answer);
}

static void
test_a_broken_file_is_shown_in_the_list_and_keeps_its_name_taken(void **state)
{
	json_object *answer, *volumes, *volume;
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/etc/volumes", scratch_folder);
	assert_int_equal(folder_make(folder), 0);
	scratch_write("etc/volumes/broken.conf", "[volume]\nmebmer = h/iqn.x:a/0\n");
	answer = ask(CALL("volume.list", "{}"));
	volumes = at(at(answer, "result"), "volumes");
	assert_int_equal(json_object_array_length(volumes), 1);
	volume = json_object_array_get_idx(volumes, 0);
	assert_string_equal(json_object_get_string(at(volume, "name")), "broken");
	assert_string_equal(json_object_get_string(at(volume, "state")), "failed");
	assert_non_null(
		strstr(json_object_get_string(at(volume, "reason")), "broken.conf:2: mebmer"));
	json_object_put(answer);
	refused(CALL("volume.create", "{\"name\":\"broken\",\"level\":5,\"members\":" THREE "}"), 3,
		"exists", "broken");
	refused(CALL("volume.status", "{\"name\":\"broken\"}"), 1, "invalid",
		"broken.conf:2: mebmer");
}

static void
test_a_volume_that_does_not_run_shows_what_is_known(void **state)
{
	json_object *answer, *status, *members;

	configure_v0();
	answer = ask(CALL("volume.status", "{\"name\":\"v0\"}"));
	status = at(answer, "result");
	assert_string_equal(json_object_get_string(at(status, "state")), "stopped");
	assert_string_equal(json_object_get_string(at(status, "uuid")),
			    "3f0c9a52-7d14-4f0e-9a6b-2d9a1c7e5b10");
	assert_null(at(status, "level"));
	assert_null(at(status, "size_bytes"));
	members = at(status, "members");
	assert_int_equal(json_object_array_length(members), 3);
	assert_string_equal(
		json_object_get_string(at(json_object_array_get_idx(members, 2), "member")),
		"h:3260/iqn.x:c/0");
	assert_string_equal(
		json_object_get_string(at(json_object_array_get_idx(members, 2), "state")),
		"unknown");
	json_object_put(answer);
}

static void
test_damaged_requests_get_an_answer_or_none_but_do_no_harm(void **state)
{
	/* Methods that change nothing where there is no volume, so that what slips through stays
	 * harmless.
	 */
	static const char *const seeds[] = {
		CALL("volume.status", "{\"name\":\"v9\"}"),
		CALL("volume.list", "{}"),
		CALL("version", "{}"),
		CALL("events", "{\"name\":\"v9\",\"after\":0,\"max\":9}"),
		CALL("pool.list", "{}"),
		CALL("lost.list", "{\"name\":\"v9\",\"offset_bytes\":4096,\"max\":7}"),
		CALL("member.fail", "{\"name\":\"v9\",\"member\":\"1\"}"),
	};
	uint64_t seed = 0x69726169642d7270ull;
	char line[256];

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		const char *good =
			seeds[scratch_random(&seed) % (sizeof(seeds) / sizeof(seeds[0]))];
		size_t length = strlen(good);
		json_object *answer;
		char *text;

		memcpy(line, good, length + 1);
		for (uint64_t hits = 1 + scratch_random(&seed) % 4; hits > 0; hits--)
			line[scratch_random(&seed) % length] = (char)scratch_random(&seed);
		text = rpc_answer(&context, line, length);
		if (!text)
			continue;
		answer = json_tokener_parse(text);
		if (!answer || strchr(text, '\n'))
			fail_msg("round %d: answer %s", round, text);
		assert_true(json_object_object_get_ex(answer, "result", NULL) !=
			    json_object_object_get_ex(answer, "error", NULL));
		json_object_put(answer);
		free(text);
	}
}

#define HOST_TEST(function) cmocka_unit_test_setup_teardown(function, make_host, remove_host)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_what_is_no_request_is_refused),
		HOST_TEST(test_a_nul_inside_the_line_is_refused),
		HOST_TEST(test_deep_nesting_is_refused),
		HOST_TEST(test_the_id_comes_back_as_it_was),
		HOST_TEST(test_a_notification_gets_no_answer),
		HOST_TEST(test_values_that_cannot_be_are_refused_before_any_login),
		HOST_TEST(test_volumes_that_are_not_there_are_named),
		HOST_TEST(test_what_needs_a_running_volume_says_so),
		HOST_TEST(test_rates_are_kept_in_the_file_whatever_else_was_edited_there),
		HOST_TEST(test_the_write_log_is_kept_in_the_file_and_shown),
		HOST_TEST(test_events_say_what_was_done_and_where_to_go_on),
		HOST_TEST(test_a_broken_file_is_shown_in_the_list_and_keeps_its_name_taken),
		HOST_TEST(test_a_volume_that_does_not_run_shows_what_is_known),
		HOST_TEST(test_damaged_requests_get_an_answer_or_none_but_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
