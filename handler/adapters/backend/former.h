/* backend/former.h - the user and secret that a CHAP file had before.  Pure.
 *
 * A secret is changed on a gateway and on each target, and not in one moment.  In between a session
 * that breaks must come back: a target that refuses the new pair is tried with the former one.
 *
 *	the file has changed --> former_keep() --> a login fails --> former_try(): again, by the former
 *	                                      `--> a login by the new pair --> former_forget()
 *
 * The former pair is in memory only, for FORMER_MS, and never asks less of the target than the new
 * one does.
 */
#ifndef IRAID_BACKEND_FORMER_H
#define IRAID_BACKEND_FORMER_H

#include "adapters/iscsi/address.h"

#define FORMER_MS (60u * 60 * 1000)

struct former { /* all zeros: there is none */
	struct iscsi_credentials credentials;
	uint64_t until_ms; /* monotonic; 0: there is none */
	bool trying;	   /* the login under way is by it */
};

/* The file said `before` and says `now`.  What the target is not known to have taken yet does not
 * take the place of what it had: a mistake in a new file can be mended.
 */
void former_keep(struct former *former, const struct iscsi_credentials *before,
		 const struct iscsi_credentials *now, uint64_t now_ms);

/* A login failed, for want of a proof of either side: is it to be tried again, by the former pair? */
bool former_try(struct former *former, uint64_t now_ms);

void former_forget(struct former *former);

#endif
