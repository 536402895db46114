/* iscsi/address.c - the names of members as administrators write them, and secrets files. */
#include "address.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_PORT "3260"
#define HOST_MAX 253  /* RFC 1035 */
#define IQN_MAX 223   /* RFC 7143, 4.2.7.1 */
#define LUN_MAX 16383 /* flat addressing, SAM-5 4.7.7.3 */
#define SECRETS_FILE_MAX 2048

static bool
all_in(const char *text, size_t length, const char *others)
{
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)text[i]) && strchr(others, text[i]) == NULL)
			return false;
	}
	return true;
}

/* "3260": 1 to 65535, no sign, no leading zero */
static bool
port_valid(const char *text, size_t length)
{
	unsigned int port = 0;

	if (length == 0 || length > 5 || text[0] == '0')
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		port = port * 10 + (unsigned int)(text[i] - '0');
	}
	return port <= 65535;
}

static const char *
bracketed_fault(const char *text, size_t length, size_t *host_length)
{
	const char *close = memchr(text, ']', length);

	if (close == NULL)
		return "the IPv6 address has no closing bracket";
	*host_length = (size_t)(close - text) + 1;
	if (*host_length <= 3 || memchr(text, ':', *host_length) == NULL)
		return "the text in brackets is not an IPv6 address";
	for (size_t i = 1; i + 1 < *host_length && text[i] != '%'; i++) {
		if (!isxdigit((unsigned char)text[i]) && text[i] != ':' && text[i] != '.')
			return "the text in brackets is not an IPv6 address";
	}
	if (!all_in(text + 1, *host_length - 2, ":.%-_"))
		return "the text in brackets is not an IPv6 address";
	return NULL;
}

static const char *
plain_fault(const char *text, size_t length, size_t *host_length)
{
	const char *colon = memchr(text, ':', length);

	*host_length = colon == NULL ? length : (size_t)(colon - text);
	if (memchr(text + *host_length + (colon != NULL), ':',
		   length - *host_length - (colon != NULL)))
		return "an IPv6 address must be in brackets";
	if (*host_length == 0)
		return "the portal has no host";
	if (*host_length > HOST_MAX)
		return "the host name is longer than 253 characters";
	if (!all_in(text, *host_length, ".-_") || text[0] == '-')
		return "the host name has characters that are not allowed";
	return NULL;
}

const char *
portal_parse(const char *text, size_t length, char *out, size_t out_size)
{
	size_t host_length;
	const char *fault = length > 0 && text[0] == '['
				    ? bracketed_fault(text, length, &host_length)
				    : plain_fault(text, length, &host_length);
	const char *rest = text + (fault ? 0 : host_length);
	size_t rest_length = length - (fault ? 0 : host_length);

	if (fault != NULL)
		return fault;
	if (rest_length == 0) {
		rest = ":" DEFAULT_PORT;
		rest_length = strlen(rest);
	}
	if (rest[0] != ':' || !port_valid(rest + 1, rest_length - 1))
		return "the port is not a number from 1 to 65535";
	if (host_length + rest_length >= out_size)
		return "the portal is too long";
	memcpy(out, text, host_length);
	memcpy(out + host_length, rest, rest_length);
	out[host_length + rest_length] = '\0';
	return NULL;
}

static const char *
parse_iqn(const char *text, size_t length, char *out)
{
	bool known = length > 4 && (strncmp(text, "iqn.", 4) == 0 ||
				    strncmp(text, "eui.", 4) == 0 || strncmp(text, "naa.", 4) == 0);

	if (!known)
		return "the target's name does not start with iqn., eui. or naa.";
	if (length > IQN_MAX)
		return "the target's name is longer than 223 characters";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c == 0x7f)
			return "the target's name has a space or a control character";
	}
	memcpy(out, text, length);
	out[length] = '\0';
	return NULL;
}

static const char *
parse_lun(const char *text, unsigned int *out)
{
	size_t length = strlen(text);
	unsigned int lun = 0;

	if (length == 0 || length > 5 || (length > 1 && text[0] == '0'))
		return "the LUN is not a number from 0 to 16383";
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return "the LUN is not a number from 0 to 16383";
		lun = lun * 10 + (unsigned int)(text[i] - '0');
	}
	if (lun > LUN_MAX)
		return "the LUN is not a number from 0 to 16383";
	*out = lun;
	return NULL;
}

int
member_address_parse(const char *text, struct member_address *out, struct fault *fault)
{
	const char *first = strchr(text, '/');
	const char *last = strrchr(text, '/');
	struct member_address address = { .lun = 0 };
	const char *wrong = NULL;

	static_assert(sizeof(address.iqn) == IQN_MAX + 1, "an iqn fits exactly");
	if (first == NULL || first == last)
		wrong = "a member is PORTAL/IQN/LUN, for example "
			"10.0.0.1:3260/iqn.2026-01.org.example:t0/0";
	if (wrong == NULL)
		wrong = portal_parse(text, (size_t)(first - text), address.portal,
				     sizeof(address.portal));
	if (wrong == NULL)
		wrong = parse_iqn(first + 1, (size_t)(last - first - 1), address.iqn);
	if (wrong == NULL && strchr(address.iqn, '/') != NULL)
		wrong = "a member is PORTAL/IQN/LUN: there is one '/' too many";
	if (wrong == NULL)
		wrong = parse_lun(last + 1, &address.lun);
	if (wrong != NULL)
		return fault_errno(fault, -EINVAL, "%s", wrong);
	*out = address;
	return 0;
}

void
member_address_format(const struct member_address *address, char out[MEMBER_ADDRESS_MAX])
{
	static_assert(sizeof(address->portal) + sizeof(address->iqn) + 6 <= MEMBER_ADDRESS_MAX,
		      "every address fits");
	snprintf(out, MEMBER_ADDRESS_MAX, "%s/%s/%u", address->portal, address->iqn, address->lun);
}

int
device_address_parse(const char *text, struct device_address *out, struct fault *fault)
{
	size_t portals = strcspn(text, "/"), first = strcspn(text, ",/");
	const char *rest = text + portals, *wrong = NULL;
	struct device_address device = { .more = 0 };
	char one[MEMBER_ADDRESS_MAX];

	/* By its first portal it is a member as any other. */
	if (first + strlen(rest) >= sizeof(one))
		return fault_errno(fault, -EINVAL, "the member's name is too long");
	memcpy(one, text, first);
	strcpy(one + first, rest);
	if (member_address_parse(one, &device.address, fault) != 0)
		return -EINVAL;
	for (const char *next = text + first; next < rest && wrong == NULL;) {
		size_t length = strcspn(next + 1, ",/");
		char *portal = device.more_portals[device.more];

		if (device.more == DEVICE_PORTALS_MAX - 1) {
			wrong = "a member has at most 4 portals";
			break;
		}
		wrong = portal_parse(next + 1, length, portal, sizeof(device.more_portals[0]));
		if (wrong == NULL && strcmp(portal, device.address.portal) == 0)
			wrong = "a portal is given twice";
		for (int i = 0; i < device.more && wrong == NULL; i++)
			wrong = strcmp(portal, device.more_portals[i]) == 0
					? "a portal is given twice"
					: NULL;
		device.more++;
		next += 1 + length;
	}
	if (wrong != NULL)
		return fault_errno(fault, -EINVAL, "%s", wrong);
	*out = device;
	return 0;
}

void
device_address_format(const struct device_address *device, char out[DEVICE_TEXT_MAX])
{
	int used = snprintf(out, DEVICE_TEXT_MAX, "%s", device->address.portal);

	for (int i = 0; i < device->more; i++)
		used += snprintf(out + used, (size_t)(DEVICE_TEXT_MAX - used), ",%s",
				 device->more_portals[i]);
	snprintf(out + used, (size_t)(DEVICE_TEXT_MAX - used), "/%s/%u", device->address.iqn,
		 device->address.lun);
}

bool
device_address_same(const struct device_address *a, const struct device_address *b)
{
	return a->address.lun == b->address.lun && strcmp(a->address.iqn, b->address.iqn) == 0 &&
	       strcmp(a->address.portal, b->address.portal) == 0;
}

const char *
initiator_name_fault(const char *name)
{
	size_t length = strlen(name);

	if (strncmp(name, "iqn.", 4) != 0 && strncmp(name, "eui.", 4) != 0 &&
	    strncmp(name, "naa.", 4) != 0)
		return "an initiator's name begins with iqn., eui. or naa.";
	if (length < 5 || length > 223)
		return "an initiator's name has 5 to 223 characters";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		/* RFC 3722 allows more of UTF-8; targets in the field do not. */
		if (c >= 0x80 || isupper(c) || (!isalnum(c) && c != '.' && c != ':' && c != '-'))
			return "an initiator's name may hold only small letters, digits, '.', ':' "
			       "and '-'";
	}
	return NULL;
}

/* Looks at the open file, not at the name, so that nothing can be put in its place meanwhile. */
static const char *
secrets_file_fault(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return "the secrets file can't be examined";
	if (!S_ISREG(status.st_mode))
		return "the secrets file is not a regular file";
	if (status.st_uid != 0)
		return "the secrets file does not belong to root (chown root)";
	if ((status.st_mode & 077) != 0)
		return "group or others can access the secrets file (chmod 600)";
	return NULL;
}

static const char *
take_line(char **text, char *out, size_t out_size)
{
	size_t length = strcspn(*text, "\r\n");

	if (length == 0)
		return "the secrets file needs two lines: user, and secret; or four, for a target "
		       "that has to prove itself: user, secret, the target's user, its secret";
	if (length >= out_size)
		return "a line of the secrets file is longer than 255 characters";
	memcpy(out, *text, length);
	out[length] = '\0';
	*text += length;
	*text += **text == '\r';
	*text += **text == '\n';
	return NULL;
}

static const char *
parse_secrets(char *text, struct iscsi_credentials *out)
{
	const char *fault = take_line(&text, out->user, sizeof(out->user));

	if (fault == NULL)
		fault = take_line(&text, out->secret, sizeof(out->secret));
	if (fault != NULL || text[strspn(text, "\r\n")] == '\0')
		return fault;
	fault = take_line(&text, out->target_user, sizeof(out->target_user));
	if (fault == NULL)
		fault = take_line(&text, out->target_secret, sizeof(out->target_secret));
	if (fault == NULL && text[strspn(text, "\r\n")] != '\0')
		fault = "the secrets file has more than four lines";
	/* Else whoever asks us for a proof could use it as his own. */
	if (fault == NULL && strcmp(out->secret, out->target_secret) == 0)
		fault = "the secrets file has the same secret twice: gateway and target need "
			"different ones";
	return fault;
}

void
iscsi_credentials_wipe(struct iscsi_credentials *credentials)
{
	explicit_bzero(credentials->user, sizeof(credentials->user));
	explicit_bzero(credentials->secret, sizeof(credentials->secret));
	explicit_bzero(credentials->target_user, sizeof(credentials->target_user));
	explicit_bzero(credentials->target_secret, sizeof(credentials->target_secret));
}

int
iscsi_credentials_read(const char *path, struct iscsi_credentials *out, struct fault *fault)
{
	char text[SECRETS_FILE_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const char *wrong;
	ssize_t length;
	int error;

	if (fd < 0) {
		error = errno;
		return fault_errno(fault, -error,
				   error == ENOENT  ? "the secrets file does not exist"
				   : error == ELOOP ? "the secrets file is a symbolic link"
						    : "the secrets file can't be opened");
	}
	wrong = secrets_file_fault(fd);
	length = wrong == NULL ? read(fd, text, SECRETS_FILE_MAX) : 0;
	error = errno;
	close(fd);
	if (wrong != NULL)
		return fault_errno(fault, -EPERM, "%s", wrong);
	if (length < 0)
		return fault_errno(fault, -error, "the secrets file can't be read");
	text[length] = '\0';
	if (length == SECRETS_FILE_MAX)
		wrong = "the secrets file is too long for four lines";
	else if (memchr(text, '\0', (size_t)length) != NULL)
		wrong = "the secrets file is not text";
	else
		wrong = parse_secrets(text, out);
	explicit_bzero(text, sizeof(text));
	if (wrong == NULL)
		return 0;
	iscsi_credentials_wipe(out);
	return fault_errno(fault, -EINVAL, "%s", wrong);
}

const char *
iscsi_digest_name(enum iscsi_digest digest)
{
	switch (digest) {
	case ISCSI_DIGEST_NONE:
		return "none";
	case ISCSI_DIGEST_PREFERRED:
		return "preferred";
	case ISCSI_DIGEST_REQUIRED:
		return "required";
	}
	return "";
}

bool
iscsi_digest_parse(const char *text, enum iscsi_digest *out)
{
	static const enum iscsi_digest digests[] = { ISCSI_DIGEST_NONE, ISCSI_DIGEST_PREFERRED,
						     ISCSI_DIGEST_REQUIRED };

	for (size_t i = 0; i < sizeof(digests) / sizeof(digests[0]); i++) {
		if (strcasecmp(text, iscsi_digest_name(digests[i])) == 0) {
			*out = digests[i];
			return true;
		}
	}
	return false;
}
