/* iscsi/address.h - where a LUN is, which ways lead to it, and how to log in: as configuration,
 * control socket and superblocks' readers write it.
 */
#ifndef IRAID_ADDRESS_H
#define IRAID_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapters/base/fault.h"

#define MEMBER_ADDRESS_MAX 512
#define PORTAL_MAX 280
#define DEVICE_PORTALS_MAX 4
#define DEVICE_TEXT_MAX (DEVICE_PORTALS_MAX * 281 + 240)

struct member_address {
	char portal[PORTAL_MAX]; /* "host:port", "[v6]:port" */
	char iqn[224];
	unsigned int lun;
};

/* "host", "host:port", "[v6]:port" of `length` characters to a portal with a port.  NULL, or what
 * is wrong.
 */
const char *portal_parse(const char *text, size_t length, char *out, size_t out_size);

/* Parse PORTAL/IQN/LUN (docs/design/control.md).  0, or -EINVAL with *fault. */
int member_address_parse(const char *text, struct member_address *out, struct fault *fault);
void member_address_format(const struct member_address *address, char out[MEMBER_ADDRESS_MAX]);

/* Where a target may send logins (redirect.h): to portals that the administrator named for the LUN,
 * nowhere, anywhere.
 */
enum redirects { REDIRECTS_PORTALS, REDIRECTS_NO, REDIRECTS_YES };

struct iscsi_credentials {	  /* zeroed when unused; never logged */
	enum redirects redirects; /* who may see them */
	char initiator[224];
	char user[256]; /* empty: no CHAP; else the target has to ask for it */
	char secret[256];
	char target_user[256]; /* empty: the target need not prove who it is */
	char target_secret[256];
};

/* Read a secrets file: regular, owned by root, no access for group and others; two lines, or four
 * for mutual CHAP.  0, or -errno with *fault (never the content).
 */
int iscsi_credentials_read(const char *path, struct iscsi_credentials *out, struct fault *fault);

/* All but redirects and the initiator's name. */
void iscsi_credentials_wipe(struct iscsi_credentials *credentials);

/* Are CRC32C digests (RFC 7143, 13.1) wanted, of headers or of data? */
enum iscsi_digest {
	ISCSI_DIGEST_NONE,	/* not offered */
	ISCSI_DIGEST_PREFERRED, /* offered first; a target that has none is used without */
	ISCSI_DIGEST_REQUIRED,	/* a target that has none is not used */
};
struct iscsi_digests {
	enum iscsi_digest header, data;
};
/* "none", "preferred", "required" */
const char *iscsi_digest_name(enum iscsi_digest digest);
/* False: it is none of them (*out untouched). */
bool iscsi_digest_parse(const char *text, enum iscsi_digest *out);

/* A member or spare: one LUN and up to four ways to it.  Its name is that of the first: two texts
 * with the same first portal, target and LUN mean the same device.
 */
struct device_address {
	struct member_address address; /* by the first portal */
	int more;
	char more_portals[DEVICE_PORTALS_MAX - 1][PORTAL_MAX];
};

/* Parse PORTAL[,PORTAL...]/IQN/LUN.  0, or -EINVAL with *fault. */
int device_address_parse(const char *text, struct device_address *out, struct fault *fault);
void device_address_format(const struct device_address *device, char out[DEVICE_TEXT_MAX]);
bool device_address_same(const struct device_address *a, const struct device_address *b);

/* An initiator's name as RFC 7143 section 4.2.7 has them: iqn., eui. or naa.; NULL if good. */
const char *initiator_name_fault(const char *name);

#endif
