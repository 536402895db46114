/* Feeds arbitrary answers to everything that reads what a device says of itself.
 *
 * Input: the length of the answer, what the target claims of it, and the answer.  Each parser sees
 * it twice, with different bytes behind its end: what it finds must be the same, or it read what
 * nobody sent.
 */
#include "../../fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "adapters/base/big_endian.h"
#include "adapters/iscsi/scsi.h"

#define LUNS_MAX 16
#define INPUT_BYTES 512u

struct findings { /* zeroed before, so that they can be compared as a whole */
	bool capacity_16, capacity_10, measured_16, measured_10, mode, inquiry, limits, same,
		provisioning, serial, designator, reservation, keys, unmaps;
	struct scsi_capacity of_16, of_10, of_measured_16, of_measured_10;
	struct scsi_mode of_mode;
	struct scsi_identity identity;
	uint32_t blocks_max;
	uint64_t same_blocks_max;
	struct scsi_reservation held;
	struct scsi_keys of_keys;
	bool nexus;
	struct scsi_nexus of_nexus;
	char serial_text[24], designator_text[24];
	unsigned int luns[LUNS_MAX];
	int luns_count;
	struct scsi_sense sense;
};

/* What of a command's buffer of `size` came, and what is said of it: as iscsi_connection leaves a
 * task.
 */
struct transfer {
	uint32_t came;
	enum scsi_residual claimed;
	uint32_t claimed_bytes;
};

static void
complete(struct scsi_task *task, const struct transfer *transfer)
{
	uint32_t length = (uint32_t)task->expxferlen;
	uint32_t missing = transfer->came < length ? length - transfer->came : 0;

	task->residual_status = transfer->claimed;
	task->residual = transfer->claimed_bytes;
	if (missing > 0 &&
	    (transfer->claimed != SCSI_RESIDUAL_UNDERFLOW || transfer->claimed_bytes < missing)) {
		task->residual_status = SCSI_RESIDUAL_UNDERFLOW;
		task->residual = missing;
	}
}

static void
answer(struct scsi_request *request, const struct transfer *transfer, const uint8_t *bytes,
       uint8_t behind)
{
	uint32_t length = (uint32_t)request->task.expxferlen;
	uint32_t came = transfer->came < length ? transfer->came : length;

	memset(request->data, behind, sizeof(request->data));
	memcpy(request->data, bytes, came);
	complete(&request->task, transfer);
	scsi_request_completed(request);
	fuzz_require(request->answer_bytes <= came, "more is said to be there than came");
}

static void
ask_pages(struct scsi_request *request, const struct transfer *transfer, const uint8_t *bytes,
	  uint8_t behind, struct findings *out)
{
	scsi_inquiry_page(request, 0xb0);
	answer(request, transfer, bytes, behind);
	out->limits = scsi_parse_block_limits(request, &out->blocks_max);
	out->same = scsi_parse_write_same_limit(request, &out->same_blocks_max);
	scsi_inquiry_page(request, 0xb2);
	answer(request, transfer, bytes, behind);
	out->provisioning = scsi_parse_provisioning(request, &out->unmaps);
	scsi_inquiry_page(request, 0x80);
	answer(request, transfer, bytes, behind);
	out->serial = scsi_parse_serial(request, out->serial_text, sizeof(out->serial_text));
	scsi_inquiry_page(request, 0x83);
	answer(request, transfer, bytes, behind);
	out->designator =
		scsi_parse_designator(request, out->designator_text, sizeof(out->designator_text));
}

static void
ask_capacity(const struct transfer *transfer, const uint8_t *bytes, uint8_t behind, bool ten,
	     bool *known, struct scsi_capacity *out)
{
	uint8_t buffer[SCSI_CAPACITY_BYTES];
	struct scsi_task task;
	uint32_t came;

	scsi_read_capacity_task(&task, ten);
	came = transfer->came < (uint32_t)task.expxferlen ? transfer->came
							  : (uint32_t)task.expxferlen;
	memset(buffer, behind, sizeof(buffer));
	memcpy(buffer, bytes, came);
	complete(&task, transfer);
	*known = scsi_parse_capacity_task(&task, ten, buffer, out);
}

static void
ask_all(const struct transfer *transfer, const uint8_t *bytes, uint8_t behind, struct findings *out)
{
	static struct scsi_request request;

	memset(out, 0, sizeof(*out));
	scsi_inquiry(&request);
	answer(&request, transfer, bytes, behind);
	out->inquiry = scsi_parse_inquiry(&request, &out->identity);
	scsi_read_capacity_16(&request);
	answer(&request, transfer, bytes, behind);
	out->capacity_16 = scsi_parse_capacity_16(&request, &out->of_16);
	scsi_read_capacity_10(&request);
	answer(&request, transfer, bytes, behind);
	out->capacity_10 = scsi_parse_capacity_10(&request, &out->of_10);
	ask_capacity(transfer, bytes, behind, false, &out->measured_16, &out->of_measured_16);
	ask_capacity(transfer, bytes, behind, true, &out->measured_10, &out->of_measured_10);
	scsi_mode_sense_caching(&request);
	answer(&request, transfer, bytes, behind);
	out->mode = scsi_parse_mode(&request, &out->of_mode);
	scsi_read_reservation(&request);
	answer(&request, transfer, bytes, behind);
	out->reservation = scsi_parse_reservation(&request, &out->held);
	scsi_read_keys(&request);
	answer(&request, transfer, bytes, behind);
	out->keys = scsi_parse_keys(&request, 1, &out->of_keys);
	scsi_read_full_status(&request);
	answer(&request, transfer, bytes, behind);
	/* whichever comes first */
	out->nexus = scsi_parse_nexus(&request, transfer->came >= 16 ? get_be64(bytes + 8) : 0,
				      &out->of_nexus);
	scsi_report_luns(&request);
	answer(&request, transfer, bytes, behind);
	out->luns_count = scsi_parse_luns(&request, out->luns, LUNS_MAX);
	ask_pages(&request, transfer, bytes, behind, out);
	scsi_parse_sense(request.data, request.answer_bytes, &out->sense);
}

static void
check(const struct transfer *transfer, const struct findings *found)
{
	fuzz_require(found->luns_count <= LUNS_MAX, "more LUNs than there is room for");
	fuzz_require(transfer->came > 0 || found->luns_count < 0, "LUNs of nothing");
	fuzz_require(transfer->came > 0 ||
			     (!found->inquiry && !found->capacity_16 && !found->capacity_10 &&
			      !found->measured_16 && !found->measured_10 && !found->mode &&
			      !found->limits && !found->same && !found->provisioning &&
			      !found->serial && !found->designator && !found->reservation &&
			      !found->keys),
		     "an answer of nothing");
	fuzz_require(!found->capacity_16 ||
			     (found->of_16.block_bytes != 0 &&
			      found->of_16.capacity_bytes % found->of_16.block_bytes == 0),
		     "a size that is no size");
	fuzz_require(!found->nexus || found->of_nexus.initiator[0] != '\0', "nobody's name");
	fuzz_require(memchr(found->serial_text, '\0', sizeof(found->serial_text)) != NULL &&
			     memchr(found->designator_text, '\0', sizeof(found->designator_text)) !=
				     NULL,
		     "a text without an end");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[SCSI_ANSWER_MAX];
	static const enum scsi_residual claims[] = {
		SCSI_RESIDUAL_NO_RESIDUAL,
		SCSI_RESIDUAL_NO_RESIDUAL,
		SCSI_RESIDUAL_UNDERFLOW,
		SCSI_RESIDUAL_OVERFLOW,
	};
	struct findings first, second;
	struct transfer transfer;
	uint8_t *exactly;

	if (size < 4)
		return 0;
	transfer.claimed = claims[data[0] % 4];
	transfer.claimed_bytes = data[1] == 255 ? UINT32_MAX : data[1];
	transfer.came =
		(data[2] & 1 ? data[3] : (uint32_t)data[3] * 16 + data[2]) % (SCSI_ANSWER_MAX + 1);
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, data + 4, size - 4 < sizeof(bytes) ? size - 4 : sizeof(bytes));
	exactly = malloc(transfer.came + 1); /* ASan sees its end */
	fuzz_require(exactly != NULL, "no memory");
	memcpy(exactly, bytes, transfer.came);
	ask_all(&transfer, exactly, 0x00, &first);
	ask_all(&transfer, exactly, 0xff, &second);
	free(exactly);
	fuzz_require(memcmp(&first, &second, sizeof(first)) == 0, "what nobody sent was read");
	check(&transfer, &first);
	return 0;
}

/* Small numbers mostly, or lengths are never right; the page's own at its place. */
size_t
fuzz_make(uint8_t *input)
{
	static const uint8_t pages[] = { 0x80, 0x83, 0xb0, 0xb2, 0x00 };
	uint8_t shape = (uint8_t)fuzz_random();

	for (size_t i = 0; i < INPUT_BYTES; i++) {
		uint64_t word = fuzz_random();

		input[i] = (uint8_t)(word % 4 == 0   ? word >> 8
				     : word % 4 == 1 ? word >> 8 & 0x1f
						     : 0);
	}
	input[5] = pages[shape % 5];
	if (shape & 8) /* one block size in 8 is sound */
		memcpy(input + 4 + 8, (uint8_t[]){ 0, 0, 2, 0 }, 4);
	return INPUT_BYTES;
}
