/* rpc/work.c - scrub.start, scrub.stop, lost.list, lost.accept, events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/base/event_ring.h"
#include "adapters/base/log.h"
#include "member.h"

#define LOST_PAGE_MAX 1000
#define EVENT_PAGE_MAX EVENTS_KEPT
#define EVENT_WAIT_SECONDS_MAX 60

/* --- scrub --- */

struct scrub_order {
	enum scrub_mode mode;
	bool resume;
};

static int
start_scrub(struct engine *engine, void *argument, struct fault *fault)
{
	const struct scrub_order *order = argument;

	return engine_scrub_start(engine, order->mode, order->resume, fault->message);
}

static int
stop_scrub(struct engine *engine, void *argument, struct fault *fault)
{
	return engine_scrub_stop(engine, fault->message);
}

json_object *
rpc_scrub_start(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct scrub_order order = { .resume = false };
	char name[LAYOUT_NAME_MAX + 1];
	bool repair = false;
	int code;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_take_bool(params, "repair", &repair, fault) ||
	    !rpc_take_bool(params, "resume", &order.resume, fault) ||
	    !rpc_is_configured(name, fault))
		return NULL;
	order.mode = repair ? SCRUB_REPAIR : SCRUB_CHECK;
	code = volume_call(context->host, name, start_scrub, &order, fault);
	if (code == 0)
		return rpc_view(context, name, true, fault);
	rpc_fail_call(fault, code, name, "",
		      code == -EBUSY ? "iraid scrub status shows it; iraid scrub stop ends it"
				     : "iraid status shows the state of the volume; level 0 has "
				       "nothing to scrub");
	return NULL;
}

json_object *
rpc_scrub_stop(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	int code;

	if (!rpc_take_name(params, name, fault) || !rpc_is_configured(name, fault))
		return NULL;
	code = volume_call(context->host, name, stop_scrub, NULL, fault);
	if (code == 0)
		return rpc_view(context, name, true, fault);
	rpc_fail_call(fault, code, name, "", "iraid scrub status shows whether a scrub runs");
	return NULL;
}

/* --- lost extents --- */

struct lost_page {
	uint64_t offset_bytes;
	int max, count;
	struct lost_range ranges[LOST_PAGE_MAX];
};

static int
list_lost(struct engine *engine, void *argument, struct fault *fault)
{
	struct lost_page *page = argument;

	page->count = engine_lost_list(engine, page->offset_bytes, page->ranges, page->max);
	return page->count < 0 ? page->count : 0;
}

static json_object *
lost_json(const struct lost_page *page)
{
	json_object *result = json_object_new_object(), *extents = json_object_new_array();

	for (int i = 0; i < page->count; i++) {
		json_object *extent = json_object_new_object();

		rpc_put_number(extent, "offset_bytes", page->ranges[i].offset_bytes);
		rpc_put_number(extent, "length_bytes", page->ranges[i].length_bytes);
		json_object_array_add(extents, extent);
	}
	json_object_object_add(result, "extents", extents);
	rpc_put_bool(result, "more", page->count == page->max);
	return result;
}

json_object *
rpc_lost_list(struct rpc_context *context, json_object *params, struct fault *fault)
{
	struct lost_page *page = malloc(sizeof(*page));
	char name[LAYOUT_NAME_MAX + 1];
	int64_t offset = 0, max = LOST_PAGE_MAX;
	json_object *result = NULL;
	int code;

	if (page && rpc_take_name(params, name, fault) &&
	    rpc_take_number(params, "offset_bytes", false, 0, INT64_MAX, &offset, fault) &&
	    rpc_take_number(params, "max", false, 1, LOST_PAGE_MAX, &max, fault) &&
	    rpc_is_configured(name, fault)) {
		page->offset_bytes = (uint64_t)offset;
		page->max = (int)max;
		code = volume_call(context->host, name, list_lost, page, fault);
		if (code == 0)
			result = lost_json(page);
		else
			rpc_fail_call(fault, code, name, "", "see iraid status");
	}
	free(page);
	return result;
}

json_object *
rpc_lost_accept(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	int64_t offset = 0, length = -1, bytes = 0;
	json_object *result;
	int code;

	if (!rpc_take_name(params, name, fault) ||
	    !rpc_take_number(params, "offset_bytes", false, 0, INT64_MAX, &offset, fault) ||
	    !rpc_take_number(params, "length_bytes", false, 1, INT64_MAX, &length, fault) ||
	    !rpc_is_configured(name, fault))
		return NULL;
	code = volume_accept_lost(context->host, name, (uint64_t)offset,
				  length < 0 ? UINT64_MAX : (uint64_t)length, &bytes, fault);
	if (code != 0) {
		rpc_fail_call(fault, code, name, "",
			      "iraid lost shows what is lost; see iraid status");
		return NULL;
	}
	volume_note(context->host, LOG_WARNING, "lost data accepted", name, "",
		    "%lld lost bytes were accepted as they are, by command", (long long)bytes);
	result = json_object_new_object();
	rpc_put_text(result, "name", name);
	rpc_put_number(result, "accepted_bytes", (uint64_t)bytes);
	return result;
}

/* --- events --- */

static const char *
severity_name(int severity)
{
	static const char *const names[] = {
		"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
	};

	return names[severity & 7];
}

static json_object *
event_json(const struct event_record *record)
{
	json_object *event = json_object_new_object();

	rpc_put_number(event, "number", record->number);
	json_object_object_add(event, "time_ms", json_object_new_int64(record->time_ms));
	rpc_put_text(event, "severity", severity_name(record->severity));
	rpc_put_text(event, "kind", record->kind);
	rpc_put_text(event, "volume", record->volume);
	rpc_put_text(event, "member", record->member);
	rpc_put_text(event, "text", record->text);
	return event;
}

static json_object *
events_json(const struct event_page *page)
{
	json_object *result = json_object_new_object(), *events = json_object_new_array();

	for (int i = 0; i < page->count; i++)
		json_object_array_add(events, event_json(&page->records[i]));
	rpc_put_text(result, "instance", page->instance);
	rpc_put_number(result, "oldest", page->oldest);
	rpc_put_number(result, "next", page->next);
	json_object_object_add(result, "events", events);
	return result;
}

json_object *
rpc_events(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1] = "";
	int64_t after = 0, wait = 0, max = EVENT_PAGE_MAX;
	json_object *given, *result = NULL;
	struct event_page page;

	/* No name: all volumes.  One that was deleted has its past still, so it need not exist. */
	if (params && json_object_object_get_ex(params, "name", &given) && given &&
	    !rpc_take_name(params, name, fault))
		return NULL;
	if (!rpc_take_number(params, "after", false, 0, INT64_MAX, &after, fault) ||
	    !rpc_take_number(params, "wait_seconds", false, 0, EVENT_WAIT_SECONDS_MAX, &wait,
			     fault) ||
	    !rpc_take_number(params, "max", false, 1, EVENT_PAGE_MAX, &max, fault))
		return NULL;
	if (event_ring_read(volume_host_events(context->host), (uint64_t)after,
			    name[0] ? name : NULL, (int)max, (uint32_t)wait * 1000, &page) != 0) {
		fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
		return NULL;
	}
	result = events_json(&page);
	free(page.records);
	return result;
}
