/* device/reservation.c - what this gateway left reserved on a LUN that none of its volumes has any more: a session that
 * broke could not give it back, and it would keep the gateway itself from using the LUN again.
 */
#include "internal.h"
#include "member_format.h"

static bool
ask(struct admin_session *session, const char *name, struct admin_result *result)
{
	enum scsi_verdict verdict;

	*result = admin_run(session, session->address.lun, name, &verdict);
	return result->error == ADMIN_OK && verdict == SCSI_OK && scsi_request_taken(&session->request);
}

struct admin_result
admin_clear_own(struct admin_session *session, uint64_t key)
{
	struct sigpipe_guard guard;
	struct admin_result result;
	uint64_t holder = 0;

	sigpipe_begin(&guard);
	admin_start_clock(session);
	scsi_read_reservation(&session->request);
	/* A target that knows none has none to clear. */
	if (ask(session, "READ RESERVATION", &result) && scsi_parse_reservation(&session->request, &holder) &&
	    holder == key) {
		/* Only who is registered may clear; it takes this session's registration with it. */
		scsi_reserve_out(&session->request, SCSI_PERSISTENT_RESERVE_REGISTER_AND_IGNORE_EXISTING_KEY, 0, key);
		if (ask(session, "REGISTER", &result)) {
			scsi_reserve_out(&session->request, SCSI_PERSISTENT_RESERVE_CLEAR, key, 0);
			ask(session, "CLEAR", &result);
		}
	}
	sigpipe_end(&guard);
	return result;
}
