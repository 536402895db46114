/* rpc/path.c - volume.path, volume.probe: what there is between the gateway and the members. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "member.h"
#include "adapters/volume/path.h"

#define DURATION_MS_DEFAULT 1000
#define BLOCK_BYTES_MIN 4096
#define DEPTH_DEFAULT 1
#define RATE_MIN 4096
#define RATE_DEFAULT (1ll << 30) /* as background work's usual maximum */
#define RATE_MOST (1ll << 40)

/* --- volume.path --- */

static json_object *
negotiated_json(const struct iscsi_negotiated *agreed)
{
	json_object *object = json_object_new_object();

	rpc_put_number(object, "target_segment_bytes", agreed->target_segment_bytes);
	rpc_put_number(object, "first_burst_bytes", agreed->first_burst_bytes);
	rpc_put_number(object, "max_burst_bytes", agreed->max_burst_bytes);
	rpc_put_bool(object, "initial_r2t", agreed->initial_r2t);
	rpc_put_bool(object, "immediate_data", agreed->immediate_data);
	rpc_put_bool(object, "header_digest", agreed->header_digest);
	rpc_put_bool(object, "data_digest", agreed->data_digest);
	rpc_put_number(object, "portal_group", agreed->portal_group);
	rpc_put_bool(object, "chap", agreed->chap);
	rpc_put_bool(object, "target_proven", agreed->target_proven);
	return object;
}

static json_object *
tcp_json(const struct path_tcp *tcp)
{
	json_object *object = json_object_new_object();

	rpc_put_number(object, "rtt_us", tcp->rtt_us);
	rpc_put_number(object, "rttvar_us", tcp->rttvar_us);
	rpc_put_number(object, "min_rtt_us", tcp->min_rtt_us);
	rpc_put_number(object, "cwnd_segments", tcp->cwnd_segments);
	rpc_put_number(object, "mss_bytes", tcp->mss_bytes);
	rpc_put_number(object, "path_mtu_bytes", tcp->path_mtu_bytes);
	rpc_put_number(object, "segments_out", tcp->segments_out);
	rpc_put_number(object, "retransmits", tcp->retransmits);
	rpc_put_number(object, "busy_us", tcp->busy_us);
	rpc_put_number(object, "peer_limited_us", tcp->peer_limited_us);
	rpc_put_number(object, "sndbuf_limited_us", tcp->sndbuf_limited_us);
	rpc_put_number(object, "delivery_bytes_per_second", tcp->delivery_rate);
	rpc_put_number(object, "pacing_bytes_per_second", tcp->pacing_rate);
	rpc_put_number(object, "sndbuf_bytes", tcp->sndbuf_bytes);
	rpc_put_number(object, "rcvbuf_bytes", tcp->rcvbuf_bytes);
	rpc_put_text(object, "congestion", tcp->congestion);
	return object;
}

static json_object *
path_json(const struct backend_path *path)
{
	json_object *object = json_object_new_object();

	rpc_put_text(object, "portal", path->portal);
	rpc_put_text(object, "vendor", path->vendor);
	rpc_put_text(object, "product", path->product);
	json_object_object_add(object, "negotiated", negotiated_json(&path->agreed));
	rpc_put_number(object, "window_commands", path->window);
	rpc_put_number(object, "window_commands_max", path->window_ours);
	rpc_put_number(object, "in_flight", path->in_flight);
	rpc_put_number(object, "data_in_bytes", path->data_in_bytes);
	rpc_put_number(object, "read_bytes_max", path->read_bytes_max);
	rpc_put_number(object, "write_bytes_max", path->write_bytes_max);
	json_object_object_add(object, "tcp", path->tcp_known ? tcp_json(&path->tcp) : NULL);
	return object;
}

static json_object *
paths_json(const struct volume_paths *paths)
{
	json_object *members = json_object_new_array();

	for (int slot = 0; slot < paths->status.slots; slot++) {
		const struct member_status *member = &paths->status.members[slot];
		const struct backend_path *path = &paths->paths[slot];
		json_object *object;

		if (!member->attached)
			continue;
		object = json_object_new_object();
		rpc_put_text(object, "member", member->label);
		json_object_object_add(object, "path", path->open ? path_json(path) : NULL);
		json_object_array_add(members, object);
	}
	return members;
}

json_object *
rpc_volume_path(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct volume_paths *paths = malloc(sizeof(*paths));
	json_object *result = NULL;
	int code;

	if (!paths || !rpc_take_name(params, name, fault) || !rpc_is_configured(name, fault)) {
		free(paths);
		return NULL;
	}
	code = volume_paths(context->host, name, paths, fault);
	if (code == 0) {
		result = json_object_new_object();
		rpc_put_text(result, "name", name);
		rpc_put_text(result, "initiator", paths->initiator);
		json_object_object_add(result, "members", paths_json(paths));
	} else {
		rpc_fail_call(fault, code, name, "", "iraid status shows what it is");
	}
	free(paths);
	return result;
}

/* --- volume.probe --- */

static const char *
probe_error_text(int error)
{
	switch (error) {
	case 0:
		return "";
	case -ENOTCONN:
		return "its session ended";
	case -ETIMEDOUT:
		return "it did not answer in time";
	case -ENODATA:
		return "medium error";
	default:
		return "it refused to read";
	}
}

static json_object *
probing_json(const struct volume_probing *probing)
{
	json_object *members = json_object_new_array();

	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		const struct probe_result *one = &probing->results[slot];
		json_object *object;

		if (!one->probed)
			continue;
		object = json_object_new_object();
		rpc_put_text(object, "member", probing->labels[slot]);
		rpc_put_text(object, "error", probe_error_text(one->error));
		rpc_put_number(object, "reads", one->reads);
		rpc_put_number(object, "bytes", one->bytes);
		rpc_put_number(object, "other_bytes", one->other_bytes);
		rpc_put_number(object, "elapsed_ms", one->elapsed_ms);
		rpc_put_number(object, "unanswered", one->unanswered);
		json_object_array_add(members, object);
	}
	return members;
}

static bool
take_order(json_object *params, struct probe_order *order, struct fault *fault)
{
	int64_t duration = DURATION_MS_DEFAULT, block = BLOCK_BYTES_MIN, depth = DEPTH_DEFAULT,
		rate = RATE_DEFAULT;

	if (!rpc_take_number(params, "duration_ms", false, 1, PROBE_MS_MAX, &duration, fault) ||
	    !rpc_take_number(params, "block_bytes", false, BLOCK_BYTES_MIN, PROBE_BLOCK_BYTES_MAX,
			     &block, fault) ||
	    !rpc_take_number(params, "depth", false, 1, PROBE_DEPTH_MAX, &depth, fault) ||
	    !rpc_take_number(params, "rate_max_bytes", false, RATE_MIN, RATE_MOST, &rate, fault))
		return false;
	if (block % BLOCK_BYTES_MIN != 0)
		return fault_set(fault, FAULT_INVALID, "give a multiple of 4096",
				 "\"block_bytes\" is %lld", (long long)block);
	*order = (struct probe_order){
		.slot = -1,
		.block_bytes = (uint32_t)block,
		.depth = (uint32_t)depth,
		.duration_ms = (uint32_t)duration,
		.rate_max = (uint64_t)rate,
	};
	return true;
}

static bool
take_member(struct rpc_context *context, json_object *params, const char *name, struct pick *pick,
	    struct probe_order *order, struct fault *fault)
{
	memset(pick, 0, sizeof(*pick));
	if (!json_object_object_get_ex(params, "member", NULL))
		return rpc_is_configured(name, fault);
	if (!rpc_pick(context, params, name, "member", pick, fault))
		return false;
	order->slot = pick->slot;
	return pick->slot >= 0 ||
	       fault_set(fault, FAULT_NOT_FOUND, "iraid status lists the devices",
			 "volume \"%s\": %s has no device", name, pick->label);
}

static const char *
probe_remedy(int code)
{
	return code == -EBUSY ? "wait some seconds until that probe has ended"
			      : "iraid status shows the state of the volume and its members";
}

json_object *
rpc_volume_probe(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct volume_probing *probing = malloc(sizeof(*probing));
	struct probe_order order;
	json_object *result = NULL;
	struct pick pick;
	int code;

	if (!probing || !rpc_take_name(params, name, fault) || !take_order(params, &order, fault) ||
	    !take_member(context, params, name, &pick, &order, fault)) {
		free(probing);
		return NULL;
	}
	code = volume_probe(context->host, name, &order, probing, fault);
	if (code == 0) {
		result = json_object_new_object();
		rpc_put_text(result, "name", name);
		json_object_object_add(result, "members", probing_json(probing));
	} else {
		rpc_fail_call(fault, code, name, pick.label, probe_remedy(code));
		if (code == -ENODEV)
			fault->code = FAULT_UNREACHABLE; /* the member is known, but away */
	}
	free(probing);
	return result;
}
