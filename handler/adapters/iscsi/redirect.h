/* iscsi/redirect.h - where a target may send a login (RFC 7143, 11.13.5: status class 1).
 *
 * A target that sends logins on chooses whom the gateway connects to, inside the administrator's
 * network, and who hears the gateway's name and its proof of CHAP.  So it is believed only as far
 * as `redirects` of the volume says.  By default that is as far as the administrator named portals
 * of this very LUN: other targets' portals are nothing to it.
 */
#ifndef IRAID_ISCSI_REDIRECT_H
#define IRAID_ISCSI_REDIRECT_H

#include "address.h"
#include "adapters/base/resolver.h"

#define REDIRECTS_MAX 3 /* in a row, then the login fails */
/* after "the target redirects the login to PORTAL, which redirects = X forbids" */
#define REDIRECT_REMEDY                                                                            \
	"if the target may do that, add this portal to the member's line, or set redirects = yes"

/* "no", "portals", "yes" */
const char *redirects_name(enum redirects redirects);
/* False: it is none of them (*out untouched). */
bool redirects_parse(const char *text, enum redirects *out);

struct redirect_named { /* portals of the LUN, as the administrator named them */
	const char *first;
	const char (*more)[PORTAL_MAX];
	int more_count;
	const struct resolved *here; /* addresses of the portal that answers; NULL: not known */
};

/* Numbers are compared as such, names letter by letter: nothing is looked up.  portal: as
 * portal_parse() makes it.
 */
bool
redirect_allowed(enum redirects redirects, const struct redirect_named *named, const char *portal);

#endif
