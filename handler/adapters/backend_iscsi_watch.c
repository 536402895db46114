/* backend_iscsi_watch.c - is an open session still alive?
 *
 * It is dropped when commands wait and nothing has happened for deadline_ms.  What counts as something: a
 * command that was answered; data of an answer; a request for the oldest command's data (R2T); and bytes
 * that the member's kernel acknowledged, but only while the oldest command is still being sent.  Pings
 * do not count, so a target whose disk hangs can't ping its way through; and without the conditions on the
 * oldest command a hung target would live as long as it takes new commands into its buffers.  A
 * single command that the target lost while it answers others is found by its age, a multiple of the deadline.
 */
#include "backend_iscsi_private.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define KEEP_ALIVE_MS 2000
#define CHECKS_PER_DEADLINE 8
#define CHECK_MS_MIN 20
#define CHECK_MS_MAX 500
#define LOST_COMMAND_DEADLINES 6

static bool
acknowledged_bytes(const struct iscsi_member *member, uint64_t *acked)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (getsockopt(member->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
		return false;
	*acked = info.tcpi_bytes_acked;
	return true;
}

void
watch_start(struct iscsi_member *member)
{
	member->acked_base = 0;
	acknowledged_bytes(member, &member->acked_base);
	member->acked_seen = member->acked_base;
	member->progress_seen = 0;
}

uint64_t
watch_interval_ms(const struct iscsi_member *member)
{
	uint64_t interval = member->options.deadline_ms / CHECKS_PER_DEADLINE;

	if (interval < CHECK_MS_MIN)
		return CHECK_MS_MIN;
	return interval > CHECK_MS_MAX ? CHECK_MS_MAX : interval;
}

static void
note_progress(struct iscsi_member *member)
{
	const struct command *oldest = member->wire_oldest;
	uint64_t progress = iscsi_connection_progress(member->connection);
	uint64_t acked;

	if (progress != member->progress_seen)
		member_progress(member);
	member->progress_seen = progress;
	if (!acknowledged_bytes(member, &acked))
		return;
	if (acked != member->acked_seen && oldest != NULL &&
	    !iscsi_task_sent_until(&oldest->wire, member->acked_seen - member->acked_base))
		member_progress(member);
	member->acked_seen = acked;
}

static void
check_progress(struct iscsi_member *member)
{
	uint32_t deadline_ms = member->options.deadline_ms;
	const struct command *oldest = member->wire_oldest;
	char reason[128];

	if (member->now_ms < member->check_ms)
		return;
	member->check_ms = member->now_ms + watch_interval_ms(member);
	note_progress(member);
	if (member->now_ms - member->progress_ms >= deadline_ms) {
		snprintf(reason, sizeof(reason), "no progress for %u ms, %d commands unanswered", deadline_ms,
			 member->wire_count + member->step_pending);
		member_drop(member, -ETIMEDOUT, reason);
	} else if (oldest != NULL &&
		   member->now_ms - oldest->sent_ms >= (uint64_t)deadline_ms * LOST_COMMAND_DEADLINES) {
		snprintf(reason, sizeof(reason), "a command got no answer in %llu ms, though others did",
			 (unsigned long long)(member->now_ms - oldest->sent_ms));
		member_drop(member, -ETIMEDOUT, reason);
	}
}

void
watch_session(struct iscsi_member *member)
{
	if (member->wire_count > 0 || member->step_pending)
		check_progress(member);
	else if (io_idle(member) && member->now_ms - member->idle_since_ms >= KEEP_ALIVE_MS) {
		member->idle_since_ms = member->now_ms;
		session_keep_alive(member);
	}
}
