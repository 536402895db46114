/* iscsi_admin_discover.c - which targets a portal has, and which LUNs a target. */
#include "iscsi_admin_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS_MAX 4096

struct discovery {
	struct admin_session *session;
	struct admin_target *targets;
	int count;
	bool out_of_memory;
};

static void
copy_target(struct admin_target *target, const struct iscsi_discovery_address *found)
{
	snprintf(target->iqn, sizeof(target->iqn), "%s", found->target_name);
	for (const struct iscsi_target_portal *portal = found->portals;
	     portal != NULL && target->portal_count < 8; portal = portal->next) {
		char *out = target->portals[target->portal_count++];

		snprintf(out, sizeof(target->portals[0]), "%s", portal->portal);
		out[strcspn(out, ",")] = '\0';	/* the portal group */
	}
	/* libiscsi hands both lists over with the last one first. */
	for (int i = 0; i < target->portal_count / 2; i++) {
		int other = target->portal_count - 1 - i;
		char swapped[sizeof(target->portals[0])];

		memcpy(swapped, target->portals[i], sizeof(swapped));
		memcpy(target->portals[i], target->portals[other], sizeof(swapped));
		memcpy(target->portals[other], swapped, sizeof(swapped));
	}
}

/* The list is freed after this, so it is copied. */
static void
on_targets(struct iscsi_context *context, int status, void *data, void *private_data)
{
	struct discovery *discovery = private_data;
	int count = 0;

	discovery->session->status = status;
	discovery->session->done = true;
	if (status != SCSI_STATUS_GOOD)
		return;
	for (const struct iscsi_discovery_address *found = data; found != NULL; found = found->next)
		count++;
	if (count > TARGETS_MAX)
		count = TARGETS_MAX;
	discovery->targets = calloc((size_t)count + 1, sizeof(*discovery->targets));
	if (discovery->targets == NULL) {
		discovery->out_of_memory = true;
		return;
	}
	for (const struct iscsi_discovery_address *found = data;
	     found != NULL && discovery->count < count; found = found->next)
		copy_target(&discovery->targets[count - ++discovery->count], found);
}

static struct admin_result
discover(struct admin_session *session, struct discovery *discovery)
{
	struct admin_result result;

	session->done = false;
	if (iscsi_discovery_async(session->context, on_targets, discovery) != 0)
		return admin_failed(ADMIN_INTERNAL, "free some memory", "the discovery could not be sent");
	result = admin_wait(session, "the discovery");
	if (result.error != ADMIN_OK)
		return result;
	if (discovery->out_of_memory)
		return admin_failed(ADMIN_INTERNAL, "free some memory", "out of memory");
	if (session->status != SCSI_STATUS_GOOD) {
		iscsi_login_error(session->context, session->words, sizeof(session->words));
		return admin_failed(ADMIN_LOGIN, "look into the target's log", "portal %s: discovery failed: %s",
				    session->address.portal, session->words);
	}
	return result;
}

struct admin_result
admin_discover(const char *portal, const struct iscsi_credentials *credentials, uint32_t timeout_ms,
	       struct admin_target **out, int *count)
{
	struct discovery discovery = { .session = NULL };
	struct sigpipe_guard guard;
	struct admin_result result;

	*out = NULL;
	*count = 0;
	sigpipe_begin(&guard);
	result = admin_connect(portal, NULL, 0, credentials, timeout_ms, &discovery.session);
	if (result.error == ADMIN_OK) {
		result = discover(discovery.session, &discovery);
		admin_close(discovery.session);
	}
	sigpipe_end(&guard);
	if (result.error != ADMIN_OK) {
		free(discovery.targets);
		return result;
	}
	*out = discovery.targets;
	*count = discovery.count;
	return result;
}

static struct admin_result
report_luns(struct admin_session *session, unsigned int *luns, int max, int *count)
{
	char label[MEMBER_ADDRESS_MAX], text[128];
	enum scsi_verdict verdict;
	struct admin_result result;

	scsi_report_luns(&session->request);
	result = admin_run(session, 0, "REPORT LUNS", &verdict);
	if (result.error != ADMIN_OK)
		return result;
	*count = verdict == SCSI_OK ? scsi_parse_luns(&session->request, luns, max) : -1;
	if (*count >= 0)
		return result;
	*count = 0;
	scsi_describe(&session->request.task, session->status, text, sizeof(text));
	return admin_failed(ADMIN_IO, "look into the target's log", "%s: REPORT LUNS failed: %s",
			    admin_label(session, label), text);
}

struct admin_result
admin_luns(const struct member_address *target, const struct iscsi_credentials *credentials,
	   uint32_t timeout_ms, unsigned int *luns, int max, int *count)
{
	struct admin_session *session;
	struct sigpipe_guard guard;
	struct admin_result result;

	*count = 0;
	sigpipe_begin(&guard);
	result = admin_connect(target->portal, target->iqn, 0, credentials, timeout_ms, &session);
	if (result.error == ADMIN_OK) {
		result = report_luns(session, luns, max, count);
		admin_close(session);
	}
	sigpipe_end(&guard);
	return result;
}
