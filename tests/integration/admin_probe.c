/* admin_probe.c - device/device.h from a command line.
 *
 *     admin_probe [timeout_ms=N] [secrets=FILE] ACTION ...
 *         open MEMBER | read MEMBER OFFSET LENGTH | write MEMBER OFFSET LENGTH BYTE
 *         signature MEMBER | discover PORTAL | luns MEMBER
 *
 * Prints "name value" lines; a failure is "error N", "message TEXT", "remedy TEXT" and exit status
 * 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/device/device.h"

static struct iscsi_credentials credentials = { .initiator = "iqn.2026-01.org.iraid.test:admin" };
static struct admin_bounds bounds = { .timeout_ms = 5000 };

static struct fault fault;

static bool
tell(bool good)
{
	if (!good)
		printf("error %d\nmessage %s\nremedy %s\n", fault.code, fault.message,
		       fault.remedy);
	return good;
}

static struct member_address
address_of(const char *text)
{
	struct member_address address;

	if (text == NULL || member_address_parse(text, &address, &fault) != 0) {
		fprintf(stderr, "no member: %s\n", text ? text : "");
		exit(2);
	}
	return address;
}

static void
show(const struct scsi_device *device, const struct iscsi_negotiated *agreed)
{
	printf("capacity %llu\nblock %u\ntype %u\nwritable %d\nwrite_cache %d\nfua "
	       "%d\nreservations %d\n",
	       (unsigned long long)device->capacity_bytes, device->block_bytes, device->device_type,
	       device->writable, device->write_cache, device->fua, device->reservations);
	printf("vendor %s\nproduct %s\nrevision %s\nserial %s\nidentity %s\n", device->vendor,
	       device->product, device->revision, device->serial, device->identity);
	printf("first_burst %u\nmax_burst %u\nsegment %u\ninitial_r2t %d\nimmediate_data %d\n",
	       agreed->first_burst_bytes, agreed->max_burst_bytes, agreed->target_segment_bytes,
	       agreed->initial_r2t, agreed->immediate_data);
}

static bool
discover(const char *portal)
{
	struct admin_target *targets;
	int count;

	if (!tell(admin_discover(portal, &credentials, &bounds, &targets, &count, &fault)))
		return false;
	for (int i = 0; i < count; i++) {
		printf("target %s", targets[i].iqn);
		for (int p = 0; p < targets[i].portal_count; p++)
			printf(" %s", targets[i].portals[p]);
		printf("\n");
	}
	free(targets);
	return true;
}

static bool
luns(const char *member)
{
	struct member_address address = address_of(member);
	unsigned int found[64];
	int count;

	if (!tell(admin_luns(&address, &credentials, &bounds, found, 64, &count, &fault)))
		return false;
	for (int i = 0; i < count; i++)
		printf("lun %u\n", found[i]);
	return true;
}

static bool
transfer(struct admin_session *session, bool write, char **words)
{
	uint64_t offset = strtoull(words[0], NULL, 0);
	size_t length = strtoul(words[1], NULL, 0);
	uint8_t *buffer = calloc(1, length + 1);
	bool good;
	uint64_t sum = 0;

	if (write) {
		memset(buffer, (int)strtol(words[2], NULL, 0), length);
		good = admin_write(session, offset, buffer, length, &fault);
	} else {
		good = admin_read(session, offset, buffer, length, &fault);
	}
	for (size_t i = 0; i < length; i++)
		sum = sum * 31 + buffer[i];
	printf("hash %llu\n", (unsigned long long)sum);
	free(buffer);
	return tell(good);
}

static bool
on_member(const char *action, char **words)
{
	struct member_address address = address_of(words[0]);
	struct admin_session *session;
	struct scsi_device device;
	char signature[256];
	bool ok = true;

	if (!tell(admin_open(&address, &credentials, &bounds, &session, &device, &fault)))
		return false;
	if (strcmp(action, "open") == 0) {
		show(&device, admin_negotiated(session));
	} else if (strcmp(action, "signature") == 0) {
		ok = tell(admin_signature(session, signature, sizeof(signature), &fault));
		printf("signature %s\n", signature);
	} else {
		ok = transfer(session, strcmp(action, "write") == 0, words + 1);
	}
	admin_close(session);
	return ok;
}

int
main(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strchr(argv[i], '=') != NULL; i++) {
		const char *value = strchr(argv[i], '=') + 1;

		if (strncmp(argv[i], "timeout_ms=", 11) == 0) {
			bounds.timeout_ms = (uint32_t)strtoul(value, NULL, 0);
		} else if (iscsi_credentials_read(value, &credentials, &fault) != 0) {
			fprintf(stderr, "%s: %s\n", value, fault.message);
			return 2;
		}
	}
	if (argc - i < 2)
		return 2;
	if (strcmp(argv[i], "discover") == 0)
		return discover(argv[i + 1]) ? 0 : 1;
	if (strcmp(argv[i], "luns") == 0)
		return luns(argv[i + 1]) ? 0 : 1;
	return on_member(argv[i], argv + i + 1) ? 0 : 1;
}
