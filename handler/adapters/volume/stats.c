/* volume/stats.c - see stats.h.  Nothing is sent for its sake. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "stats.h"

static int
copy_figures(struct hosted *hosted, void *argument, struct fault *fault)
{
	struct volume_stats *stats = argument;

	stats->started_ms = hosted->started_ms;
	stats->time = hosted->time;
	engine_status(hosted->engine, &stats->status);
	engine_figures(hosted->engine, &stats->figures);
	for (int slot = 0; slot < hosted->slot_count; slot++)
		if (hosted->backends[slot])
			backend_iscsi_path(hosted->backends[slot], &stats->paths[slot]);
	return 0;
}

static void
describe_configured(const struct volume_config *config, struct engine_status *status)
{
	status->slots = config->device_count;
	for (int i = 0; i < config->device_count; i++) {
		char label[MEMBER_ADDRESS_MAX];

		member_address_format(&config->devices[i].address, label);
		snprintf(status->members[i].label, sizeof(status->members[i].label), "%.255s",
			 label);
		status->members[i].attached = true;
		status->members[i].role = -1;
		status->members[i].link = LINK_CLOSED;
	}
}

int
volume_stats(struct volume_host *host, const char *name, struct volume_stats *out,
	     struct fault *fault)
{
	struct volume_view *view;
	int error;

	memset(out, 0, sizeof(*out));
	if (volume_call_hosted(host, name, copy_figures, out, fault) == 0)
		return 0;
	/* It does not run, or has no engine just now. */
	view = malloc(sizeof(*view));
	if (!view)
		return -ENOMEM;
	error = volume_view(host, name, view, fault);
	out->status = view->status;
	if (!view->running)
		describe_configured(&view->config, &out->status);
	free(view);
	return error;
}
