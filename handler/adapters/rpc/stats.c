/* rpc/stats.c - volume.stats: what a volume did since it was started, for whoever draws curves of
 * it.
 *
 * All counters only grow, and begin anew with started_ms, so that the difference of two answers is
 * what happened between.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "adapters/base/reactor.h"
#include "member.h"
#include "adapters/volume/stats.h"

/* --- counters --- */

static json_object *
bounds_json(void)
{
	json_object *bounds = json_object_new_array_ext(FIGURES_BOUNDS);

	for (int i = 0; i < FIGURES_BOUNDS; i++)
		json_object_array_add(bounds, json_object_new_uint64(FIGURES_BOUND_US(i)));
	return bounds;
}

static json_object *
histogram_json(const struct histogram *histogram)
{
	json_object *object = json_object_new_object();
	json_object *buckets = json_object_new_array_ext(FIGURES_BOUNDS + 1);

	rpc_put_number(object, "count", histogram->count);
	rpc_put_number(object, "bytes", histogram->bytes);
	rpc_put_number(object, "errors", histogram->errors);
	rpc_put_number(object, "sum_us", histogram->sum_ns / 1000);
	for (int i = 0; i <= FIGURES_BOUNDS; i++)
		json_object_array_add(buckets, json_object_new_uint64(histogram->buckets[i]));
	json_object_object_add(object, "buckets", buckets);
	return object;
}

static json_object *
commands_json(const struct histogram commands[FIGURES_OPS])
{
	static const char *const names[FIGURES_OPS] = {
		[REQUEST_READ] = "read",
		[REQUEST_WRITE] = "write",
		[REQUEST_FLUSH] = "flush",
		[REQUEST_ZERO] = "zero",
		[REQUEST_COMPARE_WRITE] = "compare",
	};
	json_object *object = json_object_new_object();

	for (int op = 0; op < FIGURES_OPS; op++)
		json_object_object_add(object, names[op], histogram_json(&commands[op]));
	return object;
}

static json_object *
steps_json(const struct step_figures steps[STEPS])
{
	json_object *array = json_object_new_array_ext(STEPS);

	for (int step = 0; step < STEPS; step++) {
		json_object *object = json_object_new_object();

		rpc_put_text(object, "step", figures_step_name((enum figures_step)step));
		rpc_put_number(object, "count", steps[step].count);
		rpc_put_number(object, "sum_us", steps[step].sum_ns / 1000);
		rpc_put_number(object, "max_us", steps[step].max_ns / 1000);
		json_object_array_add(array, object);
	}
	return array;
}

/* --- members --- */

static json_object *
tcp_figures_json(const struct path_tcp *tcp)
{
	json_object *object = json_object_new_object();

	rpc_put_number(object, "rtt_us", tcp->rtt_us);
	rpc_put_number(object, "rtt_var_us", tcp->rttvar_us);
	rpc_put_number(object, "min_rtt_us", tcp->min_rtt_us);
	rpc_put_number(object, "cwnd_bytes", (uint64_t)tcp->cwnd_segments * tcp->mss_bytes);
	rpc_put_number(object, "mss_bytes", tcp->mss_bytes);
	rpc_put_number(object, "in_flight_bytes",
		       (uint64_t)tcp->in_flight_segments * tcp->mss_bytes);
	rpc_put_number(object, "retransmits", tcp->retransmits);
	rpc_put_number(object, "lost", tcp->lost_segments);
	rpc_put_number(object, "delivery_bytes_per_second", tcp->delivery_rate);
	rpc_put_number(object, "pacing_bytes_per_second", tcp->pacing_rate);
	rpc_put_number(object, "send_queue_bytes", tcp->send_queue_bytes);
	rpc_put_number(object, "receive_queue_bytes", tcp->receive_queue_bytes);
	rpc_put_text(object, "congestion_control", tcp->congestion);
	return object;
}

static json_object *
sessions_json(const struct backend_path *path)
{
	json_object *sessions = json_object_new_array();
	json_object *object;

	if (!path->open)
		return sessions;
	object = json_object_new_object();
	rpc_put_text(object, "portal", path->portal);
	rpc_put_number(object, "in_flight", path->in_flight);
	json_object_object_add(object, "tcp",
			       path->tcp_known ? tcp_figures_json(&path->tcp) : NULL);
	json_object_array_add(sessions, object);
	return sessions;
}

static json_object *
member_figures_json(const struct volume_stats *stats, int slot)
{
	const struct member_status *member = &stats->status.members[slot];
	const struct member_figures *figures = &stats->figures.members[slot];
	json_object *object = json_object_new_object();

	rpc_put_text(object, "member", member->label);
	json_object_object_add(object, "role",
			       member->role >= 0 ? json_object_new_int(member->role) : NULL);
	rpc_put_text(object, "state", rpc_member_state(&stats->status, member));
	rpc_put_text(object, "link", rpc_link_name(member->link));
	rpc_put_number(object, "in_flight", figures->in_flight);
	json_object_object_add(object, "reads", histogram_json(&figures->reads));
	json_object_object_add(object, "writes", histogram_json(&figures->writes));
	json_object_object_add(object, "flushes", histogram_json(&figures->flushes));
	json_object_object_add(object, "sessions", sessions_json(&stats->paths[slot]));
	return object;
}

static json_object *
members_figures_json(const struct volume_stats *stats)
{
	json_object *members = json_object_new_array();

	for (int slot = 0; slot < stats->status.slots; slot++)
		if (stats->status.members[slot].attached)
			json_object_array_add(members, member_figures_json(stats, slot));
	return members;
}

/* --- this process --- */

static double
seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* proc(5): resident pages are the second number of statm, threads the 20th field of stat, of which
 * the second may hold anything, in brackets.
 */
static void
look_at_process(uint64_t *resident_bytes, uint64_t *threads)
{
	char line[1024];
	unsigned long pages = 0;
	long count = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file && fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	file = fopen("/proc/self/stat", "re");
	if (file && fgets(line, sizeof(line), file) && strrchr(line, ')') &&
	    sscanf(strrchr(line, ')') + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
		   &count) != 1)
		count = 0;
	if (file)
		fclose(file);
	*resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	*threads = (uint64_t)count;
}

static json_object *
runner_json(void)
{
	json_object *object = json_object_new_object();
	uint64_t resident_bytes, threads;
	struct rusage usage = { 0 };

	getrusage(RUSAGE_SELF, &usage);
	look_at_process(&resident_bytes, &threads);
	rpc_put_number(object, "pid", (uint64_t)getpid());
	json_object_object_add(object, "user_seconds",
			       json_object_new_double(seconds(usage.ru_utime)));
	json_object_object_add(object, "system_seconds",
			       json_object_new_double(seconds(usage.ru_stime)));
	rpc_put_number(object, "resident_bytes", resident_bytes);
	rpc_put_number(object, "threads", threads);
	return object;
}

static json_object *
thread_json(const struct volume_stats *stats)
{
	const struct volume_time *time = &stats->time;
	json_object *object = json_object_new_object();

	rpc_put_number(object, "turns", time->turns);
	rpc_put_number(object, "turns_timed", time->turns_timed);
	rpc_put_number(object, "idle_us", time->idle_ns / 1000);
	rpc_put_number(object, "receive_us", time->receive_ns / 1000);
	rpc_put_number(object, "engine_us", time->engine_ns / 1000);
	rpc_put_number(object, "code_us", time->code_ns / 1000);
	rpc_put_number(object, "send_us", time->send_ns / 1000);
	return object;
}

/* --- volume.stats --- */

static json_object *
stats_json(const char *name, const struct volume_stats *stats)
{
	json_object *object = json_object_new_object();

	rpc_put_text(object, "name", name);
	rpc_put_number(object, "time_ms", realtime_ms());
	rpc_put_number(object, "started_ms", stats->started_ms);
	rpc_put_text(object, "state", volume_state_name(stats->status.state));
	json_object_object_add(object, "bounds_us", bounds_json());
	rpc_put_number(object, "queue", stats->figures.queue);
	json_object_object_add(object, "commands", commands_json(stats->figures.commands));
	json_object_object_add(object, "steps", steps_json(stats->figures.steps));
	json_object_object_add(object, "thread", thread_json(stats));
	json_object_object_add(object, "members", members_figures_json(stats));
	json_object_object_add(object, "runner", runner_json());
	return object;
}

json_object *
rpc_volume_stats(struct rpc_context *context, json_object *params, struct fault *fault)
{
	char name[LAYOUT_NAME_MAX + 1];
	struct volume_stats *stats;
	json_object *result = NULL;
	int code;

	if (!rpc_take_name(params, name, fault))
		return NULL;
	stats = malloc(sizeof(*stats));
	code = stats ? volume_stats(context->host, name, stats, fault) : -ENOMEM;
	if (code == 0)
		result = stats_json(name, stats);
	else
		rpc_fail_volume(fault, code, name);
	free(stats);
	return result;
}
