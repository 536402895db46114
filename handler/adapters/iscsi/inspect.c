/* iscsi/inspect.c - see inspect.h.
 *
 * INQUIRY is first because a tape, or a missing LUN, need not be waited for.  MODE SENSE is last,
 * so that a volume's session can take its reservation before it.
 */
#include "inspect.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char look_at_log[] = "see the target's log";

static int unfit(struct inspection *inspection, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int
unfit(struct inspection *inspection, const char *remedy, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(inspection->why, sizeof(inspection->why), format, arguments);
	va_end(arguments);
	inspection->remedy = remedy;
	return -EINVAL;
}

static int
no_lun(struct inspection *inspection)
{
	return unfit(inspection, "'iraid discover PORTAL' lists the LUNs of its targets",
		     "the target has no LUN %u", inspection->lun);
}

static int
take_identity(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_device *device = &inspection->device;
	struct scsi_identity identity;

	if (!scsi_parse_inquiry(request, &identity))
		return unfit(inspection, look_at_log, "the answer to INQUIRY is too short");
	if (identity.qualifier != 0)
		return no_lun(inspection);
	device->device_type = identity.device_type;
	memcpy(device->vendor, identity.vendor, sizeof(device->vendor));
	memcpy(device->product, identity.product, sizeof(device->product));
	memcpy(device->revision, identity.revision, sizeof(device->revision));
	return 0;
}

static int
take_serial(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_device *device = &inspection->device;

	scsi_parse_serial(request, device->serial, sizeof(device->serial));
	return 0;
}

static int
take_designator(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_device *device = &inspection->device;

	scsi_parse_designator(request, device->identity, sizeof(device->identity));
	return 0;
}

static int
take_capacity(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_device *device = &inspection->device;
	const bool ten = inspection->step == INSPECT_CAPACITY_10;
	struct scsi_capacity capacity;

	if (!(ten ? scsi_parse_capacity_10 : scsi_parse_capacity_16)(request, &capacity))
		return unfit(inspection, "check the LUN on the target",
			     "the answer to %s is invalid", inspect_step_name(inspection->step));
	if (capacity.block_bytes != 512 && capacity.block_bytes != 4096)
		return unfit(inspection, "set it to 512 or 4096 on the target",
			     "blocks of %u bytes: only 512 and 4096 can be used",
			     capacity.block_bytes);
	device->capacity_bytes = capacity.capacity_bytes;
	device->block_bytes = capacity.block_bytes;
	device->thin = capacity.thin;
	device->ten_byte_commands = ten;
	device->writable = device->write_cache = true; /* unless MODE SENSE says otherwise */
	return 0;
}

static int
take_limits(struct inspection *inspection, const struct scsi_request *request)
{
	scsi_parse_block_limits(request, &inspection->device.transfer_blocks_max);
	scsi_parse_write_same_limit(request, &inspection->device.same_blocks_max);
	return 0;
}

static int
take_provisioning(struct inspection *inspection, const struct scsi_request *request)
{
	scsi_parse_provisioning(request, &inspection->device.unmaps);
	return 0;
}

static int
take_reservations(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_reservation held;

	if (!scsi_parse_reservation(request, &held))
		return unfit(inspection, look_at_log, "the answer to READ RESERVATION is invalid");
	inspection->device.reservations = true;
	return 0;
}

static int
take_mode(struct inspection *inspection, const struct scsi_request *request)
{
	struct scsi_mode mode;

	if (!scsi_parse_mode(request, &mode))
		return unfit(inspection, look_at_log, "the answer to MODE SENSE is too short");
	inspection->device.writable = !mode.write_protected;
	inspection->device.write_cache = mode.write_cache;
	inspection->device.fua = mode.fua;
	return 0;
}

#define UNSUPPORTED (1u << SCSI_UNSUPPORTED)
#define TAKEN (1u << SCSI_TAKEN)
#define ANYTHING (~0u)

static const struct {
	const char *name;
	void (*build)(struct scsi_request *request); /* NULL: INQUIRY of a page */
	uint8_t page;
	unsigned int excused; /* verdicts with which it goes on without the answer */
	int (*take)(struct inspection *inspection, const struct scsi_request *request);
} questions[] = {
	[INSPECT_IDENTITY] = { "INQUIRY", scsi_inquiry, .take = take_identity },
	[INSPECT_SERIAL] = { "INQUIRY of the serial number", NULL, 0x80, ANYTHING, take_serial },
	[INSPECT_DESIGNATOR] = { "INQUIRY of the designators", NULL, 0x83, ANYTHING,
				 take_designator },
	/* By whom it is taken, READ RESERVATION will tell. */
	[INSPECT_READY] = { "TEST UNIT READY", scsi_test_unit_ready, .excused = TAKEN },
	[INSPECT_CAPACITY_16] = { "READ CAPACITY(16)", scsi_read_capacity_16,
				  .take = take_capacity },
	[INSPECT_CAPACITY_10] = { "READ CAPACITY(10)", scsi_read_capacity_10,
				  .take = take_capacity },
	[INSPECT_LIMITS] = { "INQUIRY of the block limits", NULL, 0xb0, UNSUPPORTED, take_limits },
	[INSPECT_PROVISIONING] = { "INQUIRY of the provisioning", NULL, 0xb2, UNSUPPORTED,
				   take_provisioning },
	[INSPECT_RESERVATIONS] = { "READ RESERVATION", scsi_read_reservation,
				   .excused = UNSUPPORTED | TAKEN, .take = take_reservations },
	[INSPECT_MODE] = { "MODE SENSE", scsi_mode_sense_caching, .excused = UNSUPPORTED | TAKEN,
			   .take = take_mode },
};

void
inspect_start(struct inspection *inspection, unsigned int lun, bool for_a_person)
{
	*inspection = (struct inspection){ .lun = lun, .for_a_person = for_a_person };
}

const char *
inspect_step_name(enum inspect_step step)
{
	return questions[step].name;
}

void
inspect_build(const struct inspection *inspection, struct scsi_request *request)
{
	assert(inspection->step < INSPECT_DONE);
	if (questions[inspection->step].build == NULL)
		scsi_inquiry_page(request, questions[inspection->step].page);
	else
		questions[inspection->step].build(request);
}

static bool
asked(const struct inspection *inspection, enum inspect_step step)
{
	if (step == INSPECT_SERIAL || step == INSPECT_DESIGNATOR || step == INSPECT_RESERVATIONS)
		return inspection->for_a_person;
	if (step == INSPECT_PROVISIONING)
		return !inspection->for_a_person && inspection->device.thin;
	return step != INSPECT_CAPACITY_10;
}

static enum inspect_step
next_step(const struct inspection *inspection)
{
	enum inspect_step step = inspection->step;

	do
		step++;
	while (!asked(inspection, step));
	if (inspection->device.device_type != 0 && step > INSPECT_DESIGNATOR)
		return INSPECT_DONE;
	return step;
}

static bool
is_capacity(enum inspect_step step)
{
	return step == INSPECT_CAPACITY_16 || step == INSPECT_CAPACITY_10;
}

static bool
excused(const struct inspection *inspection, enum scsi_verdict verdict)
{
	/* A LUN that another has reserved can be looked at, and not be used. */
	if (verdict == SCSI_TAKEN &&
	    (inspection->step == INSPECT_MODE || is_capacity(inspection->step)))
		return inspection->for_a_person;
	return questions[inspection->step].excused >> verdict & 1;
}

static int
refused(struct inspection *inspection, enum scsi_verdict verdict, const struct scsi_task *task,
	int status)
{
	const char *name = inspect_step_name(inspection->step);
	char text[128];

	scsi_describe(task, status, text, sizeof(text));
	if (verdict == SCSI_NO_LUN)
		return no_lun(inspection);
	if (verdict == SCSI_LATER)
		return unfit(inspection, "wait until the LUN is ready, or check it on the target",
			     "the LUN is not ready: %s", text);
	if (verdict == SCSI_TAKEN) {
		unfit(inspection, "find out which initiator reserved it",
		      "in use by another initiator: %s ended with a reservation conflict", name);
		return -EBUSY;
	}
	if (verdict == SCSI_ATTENTION || verdict == SCSI_WAS_RESET || verdict == SCSI_ABORTED)
		return unfit(inspection, look_at_log,
			     "%s ends with one unit attention after another", name);
	if (verdict == SCSI_UNSUPPORTED)
		return unfit(inspection, look_at_log, "the target refuses %s: %s", name, text);
	return unfit(inspection, look_at_log, "%s failed: %s", name, text);
}

int
inspect_answered(struct inspection *inspection, struct scsi_request *request, int status)
{
	enum scsi_verdict verdict = scsi_judge(&request->task, status);
	int error = 0;

	if (verdict == SCSI_UNSUPPORTED && inspection->step == INSPECT_CAPACITY_16) {
		inspection->step = INSPECT_CAPACITY_10;
		return 0;
	}
	if (verdict == SCSI_TAKEN && is_capacity(inspection->step) && inspection->for_a_person)
		inspection->device.taken = true;
	if (verdict == SCSI_OK && questions[inspection->step].take != NULL) {
		scsi_request_completed(request);
		error = questions[inspection->step].take(inspection, request);
	} else if (verdict != SCSI_OK && !excused(inspection, verdict)) {
		error = refused(inspection, verdict, &request->task, status);
	}
	if (error == 0)
		inspection->step = next_step(inspection);
	return error;
}

uint32_t
scsi_transfer_bytes_max(const struct scsi_device *device, uint32_t most)
{
	uint64_t bytes = (uint64_t)device->transfer_blocks_max * device->block_bytes;

	return bytes != 0 && bytes < most ? (uint32_t)bytes : most;
}
