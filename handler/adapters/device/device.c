/* device/device.c - inspect a LUN, and read and write it while no volume uses it. */
#include "internal.h"
#include "adapters/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define LOGOUT_MS 500
#define COMMAND_BYTES_MAX (1u << 20)

/* A command met a reservation: whose is it? */
bool
admin_in_use(struct admin_session *session, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];
	struct scsi_reservation held = { .key = 0 };
	enum scsi_verdict verdict;
	uint64_t own;

	admin_label(session, label);
	scsi_read_reservation(&session->request);
	if (!admin_run(session, session->address.lun, "READ RESERVATION", &verdict, fault))
		return false;
	if (verdict == SCSI_OK) {
		scsi_request_completed(&session->request);
		scsi_parse_reservation(&session->request, &held);
	}
	if (held.key == 0)
		return fault_set(fault, FAULT_IN_USE, "find out which initiator reserved it",
				 "%s is reserved by another initiator", label);
	if (gateway_reservation_key(&own) == 0 && own == held.key)
		return fault_set(fault, FAULT_IN_USE, "stop the volume that uses it",
				 "%s is in use by this gateway", label);
	return fault_set(fault, FAULT_IN_USE,
			 "stop the volume that uses it, on the gateway that holds this key",
			 "%s is in use by another gateway, reservation key 0x%016llx", label,
			 (unsigned long long)held.key);
}

static bool
inspect(struct admin_session *session, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX];
	struct inspection inspection;
	enum scsi_verdict verdict;

	inspect_start(&inspection, session->address.lun, true);
	while (inspection.step != INSPECT_DONE) {
		const char *name = inspect_step_name(inspection.step);
		int error;

		inspect_build(&inspection, &session->request);
		if (!admin_run(session, inspection.lun, name, &verdict, fault))
			return false;
		error = inspect_answered(&inspection, &session->request, session->status);
		if (error == -EBUSY)
			return admin_in_use(session, fault);
		if (error != 0)
			return fault_set(fault, FAULT_UNFIT, inspection.remedy, "%s: %s",
					 admin_label(session, label), inspection.why);
	}
	session->device = inspection.device;
	return true;
}

static void
set_limits(struct admin_session *session)
{
	uint32_t immediate = iscsi_immediate_bytes(&session->login.negotiated);
	uint32_t most = scsi_transfer_bytes_max(&session->device, COMMAND_BYTES_MAX);

	if (session->device.block_bytes != 0)
		immediate -= immediate % session->device.block_bytes;
	session->transfer_bytes_max = most;
	session->write_bytes_max = immediate != 0 && immediate < most ? immediate : most;
}

bool
admin_inspect(struct admin_session *session, struct scsi_device *device, struct fault *fault)
{
	if (!inspect(session, fault))
		return false;
	set_limits(session);
	*device = session->device;
	return true;
}

bool
admin_open(const struct member_address *address, const struct iscsi_credentials *credentials,
	   const struct admin_bounds *bounds, struct admin_session **out,
	   struct scsi_device *device, struct fault *fault)
{
	bool good;

	memset(device, 0, sizeof(*device));
	good = admin_connect(address->portal, address->iqn, address->lun, credentials, bounds, out,
			     fault);
	if (good && !admin_inspect(*out, device, fault)) {
		admin_close(*out);
		*out = NULL;
		good = false;
	}
	return good;
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
	struct fault ignored;

	session->done = false;
	session->deadline_ms = monotonic_ms() + LOGOUT_MS;
	if (session->connection == NULL) {
		admin_text_logout(session);
		return;
	}
	iscsi_connection_logout(session->connection, on_logged_out, session);
	admin_wait(session, "the logout", &ignored);
}

void
admin_close(struct admin_session *session)
{
	if (session == NULL)
		return;
	if (!session->broken)
		log_out(session);
	admin_free(session);
}

static bool
range_fault(struct admin_session *session, uint64_t offset_bytes, size_t length,
	    struct fault *fault)
{
	const struct scsi_device *device = &session->device;
	char label[MEMBER_ADDRESS_MAX];

	admin_label(session, label);
	if (device->taken)
		return admin_in_use(session, fault);
	if (device->device_type != 0)
		return fault_set(fault, FAULT_UNFIT, "choose a LUN that is a disk",
				 "%s is not a disk but a %s", label,
				 scsi_device_type_name(device->device_type));
	if (offset_bytes % device->block_bytes != 0 || length % device->block_bytes != 0 ||
	    offset_bytes > device->capacity_bytes || length > device->capacity_bytes - offset_bytes)
		return fault_set(fault, FAULT_INVALID, "ask for whole blocks inside the LUN",
				 "%s: %zu bytes at offset %llu are not whole blocks of %u bytes "
				 "within its %llu bytes",
				 label, length, (unsigned long long)offset_bytes,
				 device->block_bytes, (unsigned long long)device->capacity_bytes);
	return true;
}

static bool
io_result(struct admin_session *session, const struct scsi_task *task, enum scsi_verdict verdict,
	  const char *name, uint64_t offset_bytes, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX], text[128];

	admin_label(session, label);
	scsi_describe(task, session->status, text, sizeof(text));
	if (verdict == SCSI_OK && task->residual_status == SCSI_RESIDUAL_NO_RESIDUAL)
		return true;
	if (verdict == SCSI_OK)
		return fault_set(fault, FAULT_IO, "see the target's log",
				 "%s: %s at offset %llu transferred too few bytes", label, name,
				 (unsigned long long)offset_bytes);
	if (verdict == SCSI_TAKEN)
		return admin_in_use(session, fault);
	if (verdict == SCSI_PROTECTED)
		return fault_set(fault, FAULT_UNFIT, "allow this initiator to write on the target",
				 "%s is read-only", label);
	return fault_set(fault, FAULT_IO, "see the target's log", "%s: %s at %llu failed: %s",
			 label, name, (unsigned long long)offset_bytes, text);
}

static bool
transfer(struct admin_session *session, bool write, bool fua, uint64_t offset_bytes, void *buffer,
	 size_t length, struct fault *fault)
{
	const char *name = write ? "write" : "read";
	uint32_t block = session->device.block_bytes;
	struct scsi_iovec iov = { .iov_base = buffer, .iov_len = length };
	enum scsi_verdict verdict;
	struct scsi_task task;

	scsi_data_task(&task, write, fua, session->device.ten_byte_commands, offset_bytes / block,
		       (uint32_t)(length / block), (uint32_t)length);
	if (write)
		scsi_task_set_iov_out(&task, &iov, 1);
	else
		scsi_task_set_iov_in(&task, &iov, 1);
	return admin_run_task(session, &task, session->address.lun, name, &verdict, fault) &&
	       io_result(session, &task, verdict, name, offset_bytes, fault);
}

bool
admin_read(struct admin_session *session, uint64_t offset_bytes, void *buffer, size_t length,
	   struct fault *fault)
{
	bool good = range_fault(session, offset_bytes, length, fault);

	admin_start_clock(session);
	for (size_t done = 0; done < length && good;) {
		size_t part = length - done < session->transfer_bytes_max
				      ? length - done
				      : session->transfer_bytes_max;

		good = transfer(session, false, false, offset_bytes + done,
				(uint8_t *)buffer + done, part, fault);
		done += part;
	}
	return good;
}

static bool
synchronize(struct admin_session *session, struct fault *fault)
{
	char label[MEMBER_ADDRESS_MAX], text[128];
	enum scsi_verdict verdict;
	bool good;

	scsi_synchronize_cache_task(&session->request.task, false);
	good = admin_run(session, session->address.lun, "SYNCHRONIZE CACHE", &verdict, fault);
	if (good && verdict == SCSI_UNSUPPORTED) {
		scsi_synchronize_cache_task(&session->request.task, true);
		good = admin_run(session, session->address.lun, "SYNCHRONIZE CACHE", &verdict,
				 fault);
	}
	if (!good)
		return false;
	if (verdict == SCSI_OK || (verdict == SCSI_UNSUPPORTED && !session->device.write_cache))
		return true; /* or there is no cache */
	if (verdict == SCSI_TAKEN)
		return admin_in_use(session, fault);
	scsi_describe(&session->request.task, session->status, text, sizeof(text));
	return fault_set(fault, FAULT_IO, "see the target's log",
			 "%s: SYNCHRONIZE CACHE failed: %s", admin_label(session, label), text);
}

bool
admin_write(struct admin_session *session, uint64_t offset_bytes, const void *buffer, size_t length,
	    struct fault *fault)
{
	bool good = range_fault(session, offset_bytes, length, fault);
	bool fua = session->device.fua && length <= session->write_bytes_max;

	admin_start_clock(session);
	for (size_t done = 0; done < length && good;) {
		size_t part = length - done < session->write_bytes_max ? length - done
								       : session->write_bytes_max;

		/* Only read, where the iovec is for output. */
		good = transfer(session, true, fua, offset_bytes + done,
				(uint8_t *)(uintptr_t)buffer + done, part, fault);
		done += part;
	}
	/* Also behind FUA, which is void on LIO's file backstore with write_back. */
	if (good && (!fua || session->device.write_cache))
		good = synchronize(session, fault);
	return good;
}
