/* iscsi/redirect.c - see redirect.h. */
#include "redirect.h"

#include <string.h>
#include <strings.h>

static const char *const names[] = {
	[REDIRECTS_PORTALS] = "portals",
	[REDIRECTS_NO] = "no",
	[REDIRECTS_YES] = "yes",
};

const char *
redirects_name(enum redirects redirects)
{
	return names[redirects];
}

bool
redirects_parse(const char *text, enum redirects *out)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(text, names[i]) == 0) {
			*out = (enum redirects)i;
			return true;
		}
	}
	return false;
}

static bool
same_portal(const char *named, const char *portal)
{
	struct resolved a, b;

	if (strcasecmp(named, portal) == 0)
		return true;
	return resolver_numeric(named, &a) && resolver_numeric(portal, &b) &&
	       strcmp(a.portals[0], b.portals[0]) == 0;
}

static bool
is_named(const struct redirect_named *named, const char *portal)
{
	if (same_portal(named->first, portal))
		return true;
	for (int i = 0; i < named->more_count; i++) {
		if (same_portal(named->more[i], portal))
			return true;
	}
	for (int i = 0; named->here != NULL && i < named->here->count; i++) {
		if (same_portal(named->here->portals[i], portal))
			return true;
	}
	return false;
}

bool
redirect_allowed(enum redirects redirects, const struct redirect_named *named, const char *portal)
{
	switch (redirects) {
	case REDIRECTS_NO:
		return false;
	case REDIRECTS_PORTALS:
		return is_named(named, portal);
	case REDIRECTS_YES:
		return true;
	}
	return false;
}
