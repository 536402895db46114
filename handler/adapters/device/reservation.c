/* device/reservation.c - who has a LUN reserved, and what this gateway left reserved on one that none
 * of its volumes has any more: a session that broke could not give it back, and it would keep the
 * gateway itself from using the LUN again.
 */
#include "internal.h"
#include "member_format.h"

#include <string.h>

/* *granted: the target did it.  False: the session is of no use any more. */
static bool
ask(struct admin_session *session, const char *name, bool *granted, struct fault *fault)
{
	enum scsi_verdict verdict;

	if (!admin_run(session, session->address.lun, name, &verdict, fault))
		return false;
	*granted = verdict == SCSI_OK && scsi_request_taken(&session->request);
	return true;
}

bool
admin_join(struct admin_session *session, uint64_t key, struct fault *fault)
{
	bool granted;

	admin_start_clock(session);
	scsi_reserve_out(&session->request,
			 SCSI_PERSISTENT_RESERVE_REGISTER_AND_IGNORE_EXISTING_KEY,
			 SCSI_EXCLUSIVE_ACCESS, 0, key);
	return ask(session, "REGISTER", &granted, fault) && granted;
}

void
admin_part(struct admin_session *session, uint64_t key)
{
	struct fault ignored;
	bool granted;

	if (session->broken)
		return;
	admin_start_clock(session);
	scsi_reserve_out(&session->request, SCSI_PERSISTENT_RESERVE_REGISTER, SCSI_EXCLUSIVE_ACCESS,
			 key, 0);
	ask(session, "REGISTER", &granted, &ignored);
}

bool
admin_clear_own(struct admin_session *session, uint64_t key, struct fault *fault)
{
	struct scsi_reservation held = { .key = 0 };
	bool good, granted;

	admin_start_clock(session);
	scsi_read_reservation(&session->request);
	/* A target that knows none has none to clear. */
	good = ask(session, "READ RESERVATION", &granted, fault);
	if (!good || !granted)
		return good;
	scsi_request_completed(&session->request);
	if (!scsi_parse_reservation(&session->request, &held) || held.key != key)
		return true;
	/* Only who is registered may clear; it takes this session's registration with it. */
	if (admin_join(session, key, fault)) {
		scsi_reserve_out(&session->request, SCSI_PERSISTENT_RESERVE_CLEAR,
				 SCSI_EXCLUSIVE_ACCESS, key, 0);
		good = ask(session, "CLEAR", &granted, fault);
	}
	return good && !session->broken;
}

/* Whoever only wants to know who has it asks nothing else: under a reservation that lets registrants
 * in alone, most of what an inspection asks is refused.
 */
static bool
connect_only(const struct device_address *device, const struct iscsi_credentials *credentials,
	     const struct admin_bounds *bounds, struct admin_session **out, struct fault *fault)
{
	const struct member_address *address = &device->address;
	bool good = admin_connect(address->portal, address->iqn, address->lun, credentials, bounds,
				  out, fault);

	for (int i = 0; i < device->more && !good && fault->code == FAULT_UNREACHABLE; i++)
		good = admin_connect(device->more_portals[i], address->iqn, address->lun,
				     credentials, bounds, out, fault);
	return good;
}

bool
device_holder(const struct device_address *device, const struct iscsi_credentials *credentials,
	      uint32_t timeout_ms, uint64_t *key, struct fault *fault)
{
	const struct admin_bounds bounds = {
		.timeout_ms = timeout_ms,
		.end_ms = monotonic_ms() + timeout_ms,
		.named = device,
	};
	struct scsi_reservation held = { 0 };
	struct admin_session *session;
	char label[MEMBER_ADDRESS_MAX];
	bool good, granted;

	if (!connect_only(device, credentials, &bounds, &session, fault))
		return false;
	admin_start_clock(session);
	scsi_read_reservation(&session->request);
	good = ask(session, "READ RESERVATION", &granted, fault);
	if (good && (!granted || !scsi_parse_reservation(&session->request, &held)))
		good = fault_set(fault, FAULT_UNFIT,
				 "without reservations nobody can be asked who has it",
				 "%s does not answer READ RESERVATION",
				 admin_label(session, label));
	*key = held.key;
	admin_close(session);
	return good;
}
