/* device/discover.c - which targets a portal has, and which LUNs a target. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS_MAX 4096
#define IQN_MAX 223
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_"

struct discovery {
	struct admin_target *targets;
	int count, room;
};

/* Others become '?', which is in no name and no address. */
static void
keep_only(char *text, const char *characters)
{
	for (char *c = text + strspn(text, characters); *c != '\0'; c += strspn(c, characters))
		*c++ = '?';
}

/* Names that RFC 7143 (4.2.7) has, and what the field has beside them.  Others could do harm where
 * they are shown, written into a file or pasted into a shell; none of them is asked for.
 */
static const char *
name_fault(const char *name)
{
	size_t length = strlen(name);

	if (length > IQN_MAX)
		return "its name is longer than 223 characters";
	if (strncmp(name, "iqn.", 4) != 0 && strncmp(name, "eui.", 4) != 0 &&
	    strncmp(name, "naa.", 4) != 0)
		return "its name does not start with iqn., eui. or naa.";
	if (strspn(name, NAME_CHARACTERS) != length)
		return "its name has other characters than letters, digits and . : - _";
	return NULL;
}

/* False: no memory. */
static bool
add_target(struct discovery *discovery, const char *name)
{
	struct admin_target *target;

	if (discovery->count == discovery->room) {
		int room = discovery->room * 2 + 16;
		struct admin_target *more =
			realloc(discovery->targets, (size_t)room * sizeof(*more));

		if (more == NULL)
			return false;
		discovery->targets = more;
		discovery->room = room;
	}
	target = &discovery->targets[discovery->count++];
	memset(target, 0, sizeof(*target));
	target->near = -1;
	target->fault = name_fault(name);
	snprintf(target->iqn, sizeof(target->iqn), "%s", name);
	keep_only(target->iqn, NAME_CHARACTERS);
	return true;
}

/* Where there are too many of them, one that can be asked is kept. */
static void
add_portal(const struct admin_session *session, struct admin_target *target, const char *address)
{
	const int room = sizeof(target->portals) / sizeof(target->portals[0]);
	char portal[sizeof(target->portals[0])];
	enum nearness nearness;
	int at = target->portal_count;

	snprintf(portal, sizeof(portal), "%s", address);
	portal[strcspn(portal, ",")] = '\0'; /* the portal group */
	keep_only(portal, NAME_CHARACTERS "[]%");
	nearness = admin_nearness(session, portal);
	if (at == room && (nearness == ANOTHER_HOST || target->near >= 0))
		return;
	if (at == room)
		at--;
	else
		target->portal_count++;
	memcpy(target->portals[at], portal, sizeof(portal));
	if (nearness == SAME_PORTAL || (nearness == SAME_HOST && target->near < 0))
		target->near = at;
}

static const char *
value_of(const char *text, const char *key)
{
	size_t length = strlen(key);

	return strncmp(text, key, length) == 0 ? text + length : NULL;
}

/* TargetName, then its addresses, and again.  0, or -errno. */
static int
read_targets(const struct admin_session *session, struct discovery *discovery, const char *text,
	     size_t length)
{
	for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
		const char *name = value_of(text + at, "TargetName="),
			   *address = value_of(text + at, "TargetAddress=");

		if (name != NULL && discovery->count == TARGETS_MAX)
			return 0;
		if (name != NULL && !add_target(discovery, name))
			return -ENOMEM;
		if (address != NULL && discovery->count == 0)
			return -EPROTO;
		if (address != NULL)
			add_portal(session, &discovery->targets[discovery->count - 1], address);
	}
	return 0;
}

static bool
discover(struct admin_session *session, struct discovery *discovery, struct fault *fault)
{
	size_t length;
	char *text;
	int error = admin_text_ask(session, "SendTargets=All", &text, &length);

	if (error == 0)
		error = read_targets(session, discovery, text, length);
	free(text);
	switch (error) {
	case 0:
		return true;
	case -ENOMEM:
		return fault_set(fault, FAULT_INTERNAL, "free some memory", "out of memory");
	case -EPROTO:
	case -EMSGSIZE:
		return fault_set(fault, FAULT_LOGIN, "see the target's log",
				 "portal %s: discovery failed: its answer %s",
				 session->address.portal,
				 error == -EPROTO ? "is invalid" : "has no end");
	default:
		return admin_ended(session, error, "the discovery", fault);
	}
}

bool
admin_discover(const char *portal, const struct iscsi_credentials *credentials,
	       const struct admin_bounds *bounds, struct admin_target **out, int *count,
	       struct fault *fault)
{
	struct discovery discovery = { .targets = NULL };
	struct admin_session *session;
	bool good;

	*out = NULL;
	*count = 0;
	good = admin_connect(portal, NULL, 0, credentials, bounds, &session, fault);
	if (good) {
		good = discover(session, &discovery, fault);
		admin_close(session);
	}
	if (!good) {
		free(discovery.targets);
		return false;
	}
	*out = discovery.targets;
	*count = discovery.count;
	return true;
}

static bool
report_luns(struct admin_session *session, unsigned int *luns, int max, int *count,
	    struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX], text[128];
	enum scsi_verdict verdict;

	scsi_report_luns(&session->request);
	if (!admin_run(session, 0, "REPORT LUNS", &verdict, fault))
		return false;
	*count = verdict == SCSI_OK ? scsi_parse_luns(&session->request, luns, max) : -1;
	if (*count >= 0)
		return true;
	*count = 0;
	scsi_describe(&session->request.task, session->status, text, sizeof(text));
	return fault_set(fault, FAULT_IO, "see the target's log", "%s: REPORT LUNS failed: %s",
			 admin_label(session, label), text);
}

bool
admin_luns(const struct member_address *target, const struct iscsi_credentials *credentials,
	   const struct admin_bounds *bounds, unsigned int *luns, int max, int *count,
	   struct fault *fault)
{
	struct admin_session *session;
	bool good;

	*count = 0;
	good = admin_connect(target->portal, target->iqn, 0, credentials, bounds, &session, fault);
	if (good) {
		good = report_luns(session, luns, max, count, fault);
		admin_close(session);
	}
	return good;
}
