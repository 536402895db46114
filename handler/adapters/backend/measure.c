/* backend/measure.c - the size of a member whose session is open: asked anew, and told by unit
 * attentions.
 *
 * READ CAPACITY goes beside the data commands, with their deadlines and repeats.  Its answer counts
 * only if it can be believed as a whole: a device that shrank, or has other blocks now, keeps the
 * size we know it by, for what the volume has on it lies there.  Whether it is still readable,
 * reads will tell.
 */
#include "internal.h"
#include "adapters/base/log.h"

#include <errno.h>

#define CAPACITY_DATA_HAS_CHANGED 0x2a09
#define MODE_PARAMETERS_CHANGED 0x2a01

static const char *
name_of_command(const struct iscsi_member *member)
{
	return inspect_step_name(member->inspection.device.ten_byte_commands ? INSPECT_CAPACITY_10
									     : INSPECT_CAPACITY_16);
}

void
measure_build(struct iscsi_member *member, struct command *command)
{
	scsi_read_capacity_task(&command->task, member->inspection.device.ten_byte_commands);
	command->answer_iov = (struct iovec){ command->answer, sizeof(command->answer) };
	command->place = (struct iscsi_place){ .iov = &command->answer_iov };
}

int
measure_answered(struct iscsi_member *member, const struct command *command)
{
	struct backend_identity *identity = &member->identity;
	const bool ten = member->inspection.device.ten_byte_commands;
	struct scsi_capacity now;

	if (!scsi_parse_capacity_task(&command->task, ten, command->answer, &now)) {
		log_line(LOG_WARNING, "member %s: the answer to %s is invalid%s", member->label,
			 name_of_command(member),
			 ten ? ", or the LUN is too large for this command, and the target knows "
			       "no other"
			     : "");
		return -EIO;
	}
	if (now.block_bytes != identity->block_bytes) {
		log_line(LOG_WARNING,
			 "member %s now has blocks of %u bytes instead of %u: its new size is not "
			 "used",
			 member->label, now.block_bytes, identity->block_bytes);
		return -EIO;
	}
	if (now.capacity_bytes < identity->capacity_bytes) {
		log_line(LOG_WARNING,
			 "member %s now has %llu bytes instead of %llu; enlarge the LUN to its old "
			 "size on the target",
			 member->label, (unsigned long long)now.capacity_bytes,
			 (unsigned long long)identity->capacity_bytes);
		/* for whoever wants to say so */
		command->transfer->io->capacity_bytes = now.capacity_bytes;
		return -EIO;
	}
	if (now.capacity_bytes > identity->capacity_bytes)
		log_line(LOG_INFO, "member %s has grown from %llu to %llu bytes", member->label,
			 (unsigned long long)identity->capacity_bytes,
			 (unsigned long long)now.capacity_bytes);
	identity->capacity_bytes = now.capacity_bytes;
	command->transfer->io->capacity_bytes = now.capacity_bytes;
	return 0;
}

void
measure_failed(const struct iscsi_member *member, const struct command *command)
{
	char text[128];

	if (scsi_judge(&command->task, command->task.status) == SCSI_OK)
		return; /* measure_answered() has told */
	scsi_describe(&command->task, command->task.status, text, sizeof(text));
	log_line(LOG_WARNING, "the size of member %s can't be read: %s: %s", member->label,
		 name_of_command(member), text);
}

/* A device without a cache is sent no flushes.  If it may have one now, the next session asks. */
void
mode_note(struct iscsi_member *member, const struct scsi_task *task)
{
	if (task->sense.ascq == MODE_PARAMETERS_CHANGED && !member->identity.write_cache)
		member_break(member, -ECONNRESET,
			     "its mode parameters have changed: it may now have a write cache");
}

/* They cost no more than a repeat, but an administrator may want to know.  A target that has one
 * for every command doesn't fill the log.
 */
void
attention_note(struct iscsi_member *member, const struct scsi_task *task)
{
	bool size = task->sense.ascq == CAPACITY_DATA_HAS_CHANGED;
	uint64_t *logged_ms = &member->attention_logged_ms[size];

	mode_note(member, task);
	if (*logged_ms != 0 && member->now_ms - *logged_ms < ATTENTION_LOG_MS)
		return;
	*logged_ms = member->now_ms;
	log_line(LOG_INFO, "member %s: unit attention %02x/%02x%s", member->label,
		 (unsigned int)task->sense.ascq >> 8 & 0xff, (unsigned int)task->sense.ascq & 0xff,
		 size ? ", its size has changed: to use more, run iraid grow" : "");
}

/* Until the next session is open: nothing that is found out on the way there makes up for it, a
 * reservation that is still there included.  A device that says it has no cache loses none with its
 * power, but one that lost what it had acknowledged is not believed any more.
 */
void
cache_note(struct iscsi_member *member, const struct scsi_task *task, int status, bool failed_flush)
{
	char text[128];

	if (failed_flush || scsi_judge(task, status) == SCSI_BROKEN_WORD)
		member->backend.writes_lost++;
	else if (!scsi_cache_lost(task, status) || !member->cache_kept)
		return;
	member->cache_kept = false;
	scsi_describe(task, status, text, sizeof(text));
	log_line(LOG_WARNING, "member %s may have lost writes that it had acknowledged: %s",
		 member->label, text);
}
