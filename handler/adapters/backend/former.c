/* backend/former.c - see former.h. */
#include "former.h"

#include <string.h>

static bool
are_same(const struct iscsi_credentials *a, const struct iscsi_credentials *b)
{
	return strcmp(a->user, b->user) == 0 && strcmp(a->secret, b->secret) == 0 &&
	       strcmp(a->target_user, b->target_user) == 0 &&
	       strcmp(a->target_secret, b->target_secret) == 0;
}

/* CHAP, or the target's proof, that is asked for from now on was asked for before, too. */
static bool
asks_as_much(const struct iscsi_credentials *before, const struct iscsi_credentials *now)
{
	return before->user[0] != '\0' &&
	       (before->target_user[0] != '\0' || now->target_user[0] == '\0');
}

void
former_keep(struct former *former, const struct iscsi_credentials *before,
	    const struct iscsi_credentials *now, uint64_t now_ms)
{
	if (are_same(before, now))
		return;
	if (former->until_ms <= now_ms)
		former->credentials = *before;
	if (now->user[0] == '\0' || !asks_as_much(&former->credentials, now))
		former_forget(former);
	else
		former->until_ms = now_ms + FORMER_MS;
}

bool
former_try(struct former *former, uint64_t now_ms)
{
	if (former->until_ms <= now_ms)
		former_forget(former);
	else if (!former->trying)
		return former->trying = true;
	return false;
}

void
former_forget(struct former *former)
{
	iscsi_credentials_wipe(&former->credentials);
	former->until_ms = 0;
	former->trying = false;
}
