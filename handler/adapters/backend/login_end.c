/* backend/login_end.c - what the end of a login means for a member: why it failed, whether it is tried
 * again by the former secret, and which of the two the target took.
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <errno.h>

static void
say_why(struct iscsi_member *member)
{
	const char *text = member->login.text;

	switch (member->login.failure) {
	case LOGIN_AUTHENTICATION:
	case LOGIN_AUTHORIZATION:
	case LOGIN_REFUSED:
	case LOGIN_DIGEST:
		member_break(member, -EACCES, "%s", text);
		return;
	case LOGIN_CHAP_DECLINED:
		member_break(member, -EACCES,
			     "%s: bind an account to it on the target, or set chap_file = none",
			     text);
		return;
	case LOGIN_NOT_PROVEN:
		member_break(
			member, -EACCES,
			"%s: compare lines 3 and 4 of the CHAP file with the target's outgoing "
			"account",
			text);
		return;
	case LOGIN_NO_TARGET:
		member_break(member, -EINVAL, "%s", text);
		return;
	case LOGIN_TARGET_TROUBLE:
		member_break(member, -ECONNREFUSED, "%s", text);
		return;
	case LOGIN_NO_FAILURE:
		return;
	}
}

/* The target may not have the new secret yet, or not any more the former one. */
static bool
lacks_proof(const struct iscsi_member *member)
{
	return member->login.failure == LOGIN_AUTHENTICATION ||
	       member->login.failure == LOGIN_NOT_PROVEN;
}

void
login_refused(struct iscsi_member *member)
{
	if (!lacks_proof(member) || member->former == NULL ||
	    !former_try(member->former, member->now_ms))
		say_why(member);
}

/* Which of the two the target took. */
void
login_accepted(struct iscsi_member *member)
{
	uint64_t until_ms, left_ms;

	if (member->former == NULL)
		return;
	until_ms = member->former->until_ms;
	left_ms = until_ms > member->now_ms ? until_ms - member->now_ms : 0;
	if (member->former->trying) {
		log_line(LOG_WARNING,
			 "member %s: the target takes the former user and secret of the CHAP "
			 "file, not those that it has now: change them on the target, too; the "
			 "former ones are tried for %u minutes more",
			 member->label, (unsigned int)(left_ms / 60000));
		return;
	}
	if (until_ms != 0)
		log_line(LOG_NOTICE, "member %s: the target takes the new secret of the CHAP file",
			 member->label);
	member_forget_former(member);
}
