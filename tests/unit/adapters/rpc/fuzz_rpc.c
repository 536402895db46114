/* Feeds lines to the control socket's calls, without the socket.
 *
 * Input: a line.  Whatever it is, the answer is a line of JSON with a result or a typed error, or
 * nothing where none was asked for.  Calls that would reach a target are left out.
 */
#include "../../fuzz.h"

#include <pthread.h>
#include <string.h>

#include "adapters/base/event_ring.h"
#include "adapters/rpc/rpc.h"
#include "../scratch.h"

static const char *const reaching[] = {
	"discover", "examine",	   "volume.create", "volume.import",  "volume.start",
	"pool.add", "pool.remove", "spare.add",	    "member.replace",
};

int __wrap_event_ring_read(struct event_ring *ring, uint64_t after, const char *volume, int max,
			   uint32_t wait_ms, struct event_page *out);
int __real_event_ring_read(struct event_ring *ring, uint64_t after, const char *volume, int max,
			   uint32_t wait_ms, struct event_page *out);

/* Who asks for events may wait a minute for one, which is no hang. */
int
__wrap_event_ring_read(struct event_ring *ring, uint64_t after, const char *volume, int max,
		       uint32_t wait_ms, struct event_page *out)
{
	return __real_event_ring_read(ring, after, volume, max, 0, out);
}

static struct rpc_context context;
static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;

static void
clean_up(void)
{
	volume_host_destroy(context.host);
	scratch_remove(NULL);
}

static void
prepare(void)
{
	if (context.host != NULL)
		return;
	fuzz_require(scratch_make(NULL) == 0, "no folder");
	context.host = volume_host_create("fuzz");
	context.changes = &changes;
	fuzz_require(context.host != NULL, "no host");
	atexit(clean_up);
}

static bool
reaches_a_target(const char *line, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	json_object *request, *method;
	const char *name = "";
	bool reaches = false;

	fuzz_require(tokener != NULL, "no memory");
	request = json_tokener_parse_ex(tokener, line, (int)length);
	if (json_object_object_get_ex(request, "method", &method) &&
	    json_object_is_type(method, json_type_string))
		name = json_object_get_string(method);
	for (size_t i = 0; i < sizeof(reaching) / sizeof(reaching[0]); i++)
		reaches |= strcmp(name, reaching[i]) == 0;
	json_object_put(request);
	json_tokener_free(tokener);
	return reaches;
}

static void
check_answer(const char *text)
{
	json_object *answer = json_tokener_parse(text), *error = NULL, *data;

	fuzz_require(strchr(text, '\n') == NULL, "an answer of several lines");
	fuzz_require(json_object_is_type(answer, json_type_object), "an answer that is no object");
	if (json_object_object_get_ex(answer, "error", &error))
		fuzz_require(json_object_object_get_ex(error, "data", &data) &&
				     json_object_object_get_ex(data, "remedy", NULL),
			     "an error without a remedy");
	else
		fuzz_require(json_object_object_get_ex(answer, "result", NULL),
			     "an answer without a result");
	json_object_put(answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line, *answer;

	prepare();
	if (size == 0 || memchr(data, '\n', size) != NULL)
		return 0;
	line = malloc(size + 1);
	fuzz_require(line != NULL, "no memory");
	memcpy(line, data, size);
	line[size] = '\0';
	if (!reaches_a_target(line, size)) {
		answer = rpc_answer(&context, line, size);
		if (answer != NULL)
			check_answer(answer);
		free(answer);
	}
	free(line);
	return 0;
}

/* --- inputs --- */

static const char *const methods[] = {
	"version",	  "volume.list",
	"volume.status",  "volume.stop",
	"volume.delete",  "volume.grow",
	"volume.set",	  "volume.stats",
	"volume.path",	  "volume.probe",
	"member.fail",	  "member.remove",
	"member.rebuild", "pool.list",
	"scrub.start",	  "scrub.stop",
	"lost.list",	  "lost.accept",
	"events",	  "config.reload",
	"nothing",	  "",
};

static const char *const params[] = {
	"name",	       "member",       "wipe",	       "log",	       "max",
	"after",       "wait_seconds", "offset_bytes", "length_bytes", "depth",
	"duration_ms", "block_bytes",  "repair",       "resume",       "sync_rate_max_bytes",
};

static const char *const values[] = {
	"\"v0\"",
	"\"\"",
	"0",
	"-1",
	"18446744073709551615",
	"1e308",
	"true",
	"null",
	"[]",
	"{}",
	"\"../x\"",
	"\"\\u0000\"",
	"\"\\ud800\"",
	"[[[[]]]]",
	"\"127.0.0.1/iqn.2026-01.org.iraid:t/0\"",
};

#define ANY(list) list[fuzz_below(sizeof(list) / sizeof(list[0]))]

size_t
fuzz_make(uint8_t *input)
{
	char *line = (char *)input;
	int size = snprintf(line, FUZZ_INPUT_MAX,
			    "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{",
			    ANY(values), ANY(methods));

	for (uint32_t count = fuzz_below(4), i = 0; i < count; i++)
		size += snprintf(line + size, FUZZ_INPUT_MAX - (size_t)size, "%s\"%s\":%s",
				 i > 0 ? "," : "", ANY(params), ANY(values));
	size += snprintf(line + size, FUZZ_INPUT_MAX - (size_t)size, "}}");
	for (uint32_t edits = fuzz_below(4); edits > 0; edits--)
		input[fuzz_below((uint32_t)size)] = (uint8_t)fuzz_below(256);
	return fuzz_below(8) ? (size_t)size : fuzz_below((uint32_t)size);
}
