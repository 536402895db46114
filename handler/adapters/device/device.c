/* device/device.c - inspect a LUN, and read and write it while no volume uses it. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define LOGOUT_MS 500
#define BLOCK_BYTES_MIN 512
#define BLOCK_BYTES_MAX 4096	/* the data path's limits, too */

/* The target answered, but not as it should. */
static struct admin_result
refused(const struct admin_session *session, enum admin_error error, const char *name)
{
	char label[MEMBER_ADDRESS_MAX], text[128];

	scsi_describe(&session->request.task, session->status, text, sizeof(text));
	return admin_failed(error, "look into the target's log", "%s: %s failed: %s",
			    admin_label(session, label), name, text);
}

static struct admin_result
no_lun(const struct admin_session *session)
{
	char label[MEMBER_ADDRESS_MAX];

	return admin_failed(ADMIN_UNFIT, "'iraid discover PORTAL' lists the LUNs of its targets",
			    "%s: the target has no LUN %u", admin_label(session, label), session->address.lun);
}

/* What is not vital: an answer, or none. */
static bool
ask(struct admin_session *session, const char *name, struct admin_result *result)
{
	enum scsi_verdict verdict;

	*result = admin_run(session, session->address.lun, name, &verdict);
	return result->error == ADMIN_OK && verdict == SCSI_OK;
}

static struct admin_result
inspect_identity(struct admin_session *session)
{
	struct scsi_device *device = &session->device;
	struct scsi_identity identity;
	enum scsi_verdict verdict;
	struct admin_result result;

	scsi_inquiry(&session->request);
	result = admin_run(session, session->address.lun, "INQUIRY", &verdict);
	if (result.error != ADMIN_OK)
		return result;
	if (verdict == SCSI_NO_LUN)
		return no_lun(session);
	if (verdict != SCSI_OK || !scsi_parse_inquiry(&session->request, &identity))
		return refused(session, ADMIN_UNFIT, "INQUIRY");
	if (identity.qualifier != 0)
		return no_lun(session);
	device->device_type = identity.device_type;
	snprintf(device->vendor, sizeof(device->vendor), "%s", identity.vendor);
	snprintf(device->product, sizeof(device->product), "%s", identity.product);
	snprintf(device->revision, sizeof(device->revision), "%s", identity.revision);
	return result;
}

static struct admin_result
inspect_names(struct admin_session *session)
{
	struct scsi_device *device = &session->device;
	struct admin_result result;

	scsi_inquiry_page(&session->request, 0x80);
	if (ask(session, "INQUIRY of the serial number", &result))
		scsi_parse_serial(&session->request, device->serial, sizeof(device->serial));
	if (result.error != ADMIN_OK)
		return result;
	scsi_inquiry_page(&session->request, 0x83);
	if (ask(session, "INQUIRY of the designators", &result))
		scsi_parse_designator(&session->request, device->identity, sizeof(device->identity));
	return result;
}

static struct admin_result
wait_ready(struct admin_session *session)
{
	char label[MEMBER_ADDRESS_MAX], text[128];
	enum scsi_verdict verdict;
	struct admin_result result;

	scsi_test_unit_ready(&session->request);
	result = admin_run(session, session->address.lun, "TEST UNIT READY", &verdict);
	if (result.error != ADMIN_OK || verdict == SCSI_OK || verdict == SCSI_TAKEN)
		return result;
	if (verdict == SCSI_NO_LUN)
		return no_lun(session);
	scsi_describe(&session->request.task, session->status, text, sizeof(text));
	return admin_failed(ADMIN_UNFIT, "wait until the device is ready, or look at it on the target",
			    "%s: the LUN is not ready: %s", admin_label(session, label), text);
}

static struct admin_result
inspect_capacity(struct admin_session *session)
{
	struct admin_result result;
	struct scsi_capacity capacity;
	char label[MEMBER_ADDRESS_MAX];
	bool known;

	scsi_read_capacity_16(&session->request);
	known = ask(session, "READ CAPACITY(16)", &result) &&
		scsi_parse_capacity_16(&session->request, &capacity);
	if (result.error != ADMIN_OK)
		return result;
	if (!known) {
		session->ten_byte_commands = true;
		scsi_read_capacity_10(&session->request);
		known = ask(session, "READ CAPACITY(10)", &result) &&
			scsi_parse_capacity_10(&session->request, &capacity);
	}
	if (result.error != ADMIN_OK)
		return result;
	if (!known)
		return admin_failed(ADMIN_UNFIT, "look at the LUN on the target",
				    "%s: the LUN does not say how large it is", admin_label(session, label));
	if (capacity.block_bytes < BLOCK_BYTES_MIN || capacity.block_bytes > BLOCK_BYTES_MAX)
		return admin_failed(ADMIN_UNFIT, "give it a LUN with blocks of 512 or 4096 bytes",
				    "%s has blocks of %u bytes: only %u to %u can be used", admin_label(session, label),
				    capacity.block_bytes, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
	session->device.capacity_bytes = capacity.capacity_bytes;
	session->device.block_bytes = capacity.block_bytes;
	return result;
}

static struct admin_result
inspect_rest(struct admin_session *session)
{
	struct scsi_device *device = &session->device;
	struct scsi_mode mode = { .write_cache = true };
	struct admin_result result;
	uint32_t blocks = 0;
	uint64_t holder;

	scsi_mode_sense_caching(&session->request);
	if (ask(session, "MODE SENSE", &result))
		scsi_parse_mode(&session->request, &mode);
	device->writable = !mode.write_protected;
	device->write_cache = mode.write_cache;
	device->fua = mode.fua;
	if (result.error != ADMIN_OK)
		return result;
	scsi_inquiry_page(&session->request, 0xb0);
	if (ask(session, "INQUIRY of the block limits", &result) &&
	    scsi_parse_block_limits(&session->request, &blocks) && blocks != 0 &&
	    blocks < session->transfer_bytes_max / device->block_bytes)
		session->transfer_bytes_max = blocks * device->block_bytes;
	if (result.error != ADMIN_OK)
		return result;
	scsi_read_reservation(&session->request);
	device->reservations = ask(session, "READ RESERVATION", &result) &&
			       scsi_parse_reservation(&session->request, &holder);
	return result;
}

static struct admin_result
inspect(struct admin_session *session)
{
	struct admin_result result;
	uint32_t immediate;

	result = inspect_identity(session);
	if (result.error == ADMIN_OK)
		result = inspect_names(session);
	if (result.error != ADMIN_OK || session->device.device_type != 0)
		return result;		/* of other devices nothing more is asked */
	result = wait_ready(session);
	if (result.error == ADMIN_OK)
		result = inspect_capacity(session);
	if (result.error == ADMIN_OK)
		result = inspect_rest(session);
	if (result.error != ADMIN_OK)
		return result;
	immediate = iscsi_immediate_bytes(&session->login.negotiated);
	immediate -= immediate % session->device.block_bytes;
	session->write_bytes_max = immediate != 0 && immediate < session->transfer_bytes_max ?
				   immediate : session->transfer_bytes_max;
	return result;
}

struct admin_result
admin_open(const struct member_address *address, const struct iscsi_credentials *credentials,
	   uint32_t timeout_ms, struct admin_session **out, struct scsi_device *device)
{
	struct sigpipe_guard guard;
	struct admin_result result;

	memset(device, 0, sizeof(*device));
	sigpipe_begin(&guard);
	result = admin_connect(address->portal, address->iqn, address->lun, credentials, timeout_ms, out);
	if (result.error == ADMIN_OK) {
		result = inspect(*out);
		*device = (*out)->device;
		if (result.error != ADMIN_OK) {
			admin_close(*out);
			*out = NULL;
		}
	}
	sigpipe_end(&guard);
	return result;
}

const struct iscsi_negotiated *
admin_negotiated(const struct admin_session *session)
{
	return &session->login.negotiated;
}

static void
on_logged_out(void *owner, uint8_t response)
{
	struct admin_session *session = owner;

	session->done = true;
}

static void
log_out(struct admin_session *session)
{
	session->done = false;
	session->deadline_ms = monotonic_ms() + LOGOUT_MS;
	if (session->connection == NULL) {
		admin_text_logout(session);
		return;
	}
	iscsi_connection_logout(session->connection, on_logged_out, session);
	admin_wait(session, "the logout");
}

void
admin_close(struct admin_session *session)
{
	struct sigpipe_guard guard;

	if (session == NULL)
		return;
	sigpipe_begin(&guard);
	if (!session->broken)
		log_out(session);
	admin_free(session);
	sigpipe_end(&guard);
}

static struct admin_result
range_fault(const struct admin_session *session, uint64_t offset_bytes, size_t length)
{
	const struct scsi_device *device = &session->device;
	char label[MEMBER_ADDRESS_MAX];

	admin_label(session, label);
	if (device->device_type != 0)
		return admin_failed(ADMIN_UNFIT, "choose a LUN that is a disk", "%s is no disk but a %s", label,
				    scsi_device_type_name(device->device_type));
	if (offset_bytes % device->block_bytes != 0 || length % device->block_bytes != 0 ||
	    offset_bytes > device->capacity_bytes || length > device->capacity_bytes - offset_bytes)
		return admin_failed(ADMIN_INVALID, "ask for whole blocks inside the LUN",
				    "%s: %zu bytes at %llu are not whole blocks of %u inside its %llu bytes",
				    label, length, (unsigned long long)offset_bytes, device->block_bytes,
				    (unsigned long long)device->capacity_bytes);
	return admin_good();
}

static struct admin_result
in_use(struct admin_session *session)
{
	char label[MEMBER_ADDRESS_MAX];
	struct admin_result result;
	uint64_t holder = 0;

	admin_label(session, label);
	scsi_read_reservation(&session->request);
	if (ask(session, "READ RESERVATION", &result) &&
	    scsi_parse_reservation(&session->request, &holder) && holder != 0)
		return admin_failed(ADMIN_IN_USE, "stop the volume that uses it, on the gateway that holds this key",
				    "%s is in use by a gateway, reservation key 0x%016llx", label,
				    (unsigned long long)holder);
	return admin_failed(ADMIN_IN_USE, "find out which initiator reserved it",
			    "%s is reserved by another initiator", label);
}

static struct admin_result
io_result(struct admin_session *session, const struct scsi_task *task, enum scsi_verdict verdict,
	  const char *name, uint64_t offset_bytes)
{
	char label[MEMBER_ADDRESS_MAX], text[128];

	admin_label(session, label);
	scsi_describe(task, session->status, text, sizeof(text));
	if (verdict == SCSI_OK && task->residual_status == SCSI_RESIDUAL_NO_RESIDUAL)
		return admin_good();
	if (verdict == SCSI_OK)
		return admin_failed(ADMIN_IO, "look into the target's log", "%s: %s at %llu was cut short", label,
				    name, (unsigned long long)offset_bytes);
	if (verdict == SCSI_TAKEN)
		return in_use(session);
	if (verdict == SCSI_PROTECTED)
		return admin_failed(ADMIN_UNFIT, "allow this initiator to write on the target",
				    "%s is read-only", label);
	return admin_failed(ADMIN_IO, "look into the target's log", "%s: %s at %llu failed: %s", label, name,
			    (unsigned long long)offset_bytes, text);
}

static struct admin_result
transfer(struct admin_session *session, bool write, bool fua, uint64_t offset_bytes, void *buffer,
	 size_t length)
{
	const char *name = write ? "write" : "read";
	uint32_t block = session->device.block_bytes;
	struct scsi_iovec iov = { .iov_base = buffer, .iov_len = length };
	enum scsi_verdict verdict;
	struct admin_result result;
	struct scsi_task task;

	scsi_data_task(&task, write, fua, session->ten_byte_commands, offset_bytes / block,
		       (uint32_t)(length / block), (uint32_t)length);
	if (write)
		scsi_task_set_iov_out(&task, &iov, 1);
	else
		scsi_task_set_iov_in(&task, &iov, 1);
	result = admin_run_task(session, &task, session->address.lun, name, &verdict);
	return result.error != ADMIN_OK ? result : io_result(session, &task, verdict, name, offset_bytes);
}

struct admin_result
admin_read(struct admin_session *session, uint64_t offset_bytes, void *buffer, size_t length)
{
	struct admin_result result = range_fault(session, offset_bytes, length);
	struct sigpipe_guard guard;

	sigpipe_begin(&guard);
	admin_start_clock(session);
	for (size_t done = 0; done < length && result.error == ADMIN_OK;) {
		size_t part = length - done < session->transfer_bytes_max ? length - done :
			      session->transfer_bytes_max;

		result = transfer(session, false, false, offset_bytes + done, (uint8_t *)buffer + done, part);
		done += part;
	}
	sigpipe_end(&guard);
	return result;
}

static struct admin_result
synchronize(struct admin_session *session)
{
	enum scsi_verdict verdict;
	struct admin_result result;

	scsi_synchronize_cache_task(&session->request.task, false);
	result = admin_run(session, session->address.lun, "SYNCHRONIZE CACHE", &verdict);
	if (result.error == ADMIN_OK && verdict == SCSI_UNSUPPORTED) {
		scsi_synchronize_cache_task(&session->request.task, true);
		result = admin_run(session, session->address.lun, "SYNCHRONIZE CACHE", &verdict);
	}
	if (result.error != ADMIN_OK)
		return result;
	if (verdict == SCSI_UNSUPPORTED && !session->device.write_cache)
		return result;		/* there is no cache */
	if (verdict == SCSI_TAKEN)
		return in_use(session);
	return verdict == SCSI_OK ? result : refused(session, ADMIN_IO, "SYNCHRONIZE CACHE");
}

struct admin_result
admin_write(struct admin_session *session, uint64_t offset_bytes, const void *buffer, size_t length)
{
	struct admin_result result = range_fault(session, offset_bytes, length);
	bool fua = session->device.fua && length <= session->write_bytes_max;
	struct sigpipe_guard guard;

	sigpipe_begin(&guard);
	admin_start_clock(session);
	for (size_t done = 0; done < length && result.error == ADMIN_OK;) {
		size_t part = length - done < session->write_bytes_max ? length - done :
			      session->write_bytes_max;

		/* Only read, where the iovec is for output. */
		result = transfer(session, true, fua, offset_bytes + done,
				  (uint8_t *)(uintptr_t)buffer + done, part);
		done += part;
	}
	/* Also behind FUA, which is void on LIO's file backstore with write_back. */
	if (result.error == ADMIN_OK && (!fua || session->device.write_cache))
		result = synchronize(session);
	sigpipe_end(&guard);
	return result;
}
