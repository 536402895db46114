/* device/reservation.c - what this gateway left reserved on a LUN that none of its volumes has any
 * more: a session that broke could not give it back, and it would keep the gateway itself from
 * using the LUN again.
 */
#include "internal.h"
#include "member_format.h"

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
admin_clear_own(struct admin_session *session, uint64_t key, struct fault *fault)
{
	uint64_t holder = 0;
	bool good, granted;

	admin_start_clock(session);
	scsi_read_reservation(&session->request);
	/* A target that knows none has none to clear. */
	good = ask(session, "READ RESERVATION", &granted, fault);
	if (good && granted && scsi_parse_reservation(&session->request, &holder) &&
	    holder == key) {
		/* Only who is registered may clear; it takes this session's registration with it.
		 */
		scsi_reserve_out(&session->request,
				 SCSI_PERSISTENT_RESERVE_REGISTER_AND_IGNORE_EXISTING_KEY, 0, key);
		good = ask(session, "REGISTER", &granted, fault);
		if (good && granted) {
			scsi_reserve_out(&session->request, SCSI_PERSISTENT_RESERVE_CLEAR, key, 0);
			good = ask(session, "CLEAR", &granted, fault);
		}
	}
	return good;
}
