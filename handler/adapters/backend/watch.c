/* backend/watch.c - is an open session still alive?
 *
 * It is dropped when commands wait and nothing has happened for deadline_ms.  What counts as
 * something: a command that was answered; PROGRESS_BYTES of data of answers, or of what the target
 * asks for of the oldest command (R2T); and as many that the member's kernel acknowledged, but only
 * while the oldest command is still being sent.  Less than that in a deadline is no link but a tap
 * that drips.  Pings, messages and the like do not count, so a target whose disk hangs can't ping
 * its way through; and without the conditions on the oldest command a hung target would live as
 * long as it takes new commands into its buffers.
 *
 * However much progress there is, an io has an end: BACKEND_IO_DEADLINES of them after it was
 * submitted.  A command that the target lost while it answers others ends so, and one that it makes
 * us repeat, or that it serves drop by drop.  Deadlines measure progress, so that a slow link does
 * not cost a member; six of them are enough for all that is under way at a time (at the default of
 * 5 s a link of 10 Mbit/s moves 37 MB), and no more than what an initiator waits for its own
 * command.
 */
#include "internal.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define KEEP_ALIVE_MS 2000
#define CHECKS_PER_DEADLINE 8
#define CHECK_MS_MIN 20
#define CHECK_MS_MAX 500
#define PROGRESS_BYTES ISCSI_PROGRESS_ANSWER

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
	member->acked_of_oldest = 0;
	member->progress_seen = 0;
}

uint64_t
watch_clock_ms(const struct iscsi_member *member)
{
	return member->now_ms - member->stood_still_ms;
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

	if (progress - member->progress_seen >= PROGRESS_BYTES) {
		member_progress(member);
		member->progress_seen = progress;
	}
	if (!acknowledged_bytes(member, &acked))
		return;
	if (oldest != NULL &&
	    iscsi_task_leaving(&oldest->wire, member->acked_seen - member->acked_base))
		member->acked_of_oldest += acked - member->acked_seen;
	member->acked_seen = acked;
	if (member->acked_of_oldest >= PROGRESS_BYTES) {
		member_progress(member);
		member->acked_of_oldest = 0;
	}
}

static void
check_progress(struct iscsi_member *member)
{
	uint32_t deadline_ms = member->options.deadline_ms;

	note_progress(member);
	if (member->now_ms - member->progress_ms < deadline_ms)
		return;
	member_drop(member, -ETIMEDOUT, "no progress for %u ms, %d commands unanswered",
		    deadline_ms, member->wire_count + member->step_pending);
}

static void
check_age(struct iscsi_member *member)
{
	static const char *const names[] = { "read", "write", "flush", "zeroing",
					     "question for its size" };
	uint64_t most_ms = (uint64_t)member->options.deadline_ms * BACKEND_IO_DEADLINES;
	const struct backend_io *oldest = io_oldest(member);

	if (oldest == NULL || watch_clock_ms(member) < oldest->since_ms + most_ms)
		return;
	member_drop(member, -ETIMEDOUT,
		    "a %s is not complete after %llu ms, although the target answers",
		    names[oldest->op], (unsigned long long)most_ms);
}

/* We are called at each interval.  If we were not for so long, it was us who stood still.  Before
 * anything that came meanwhile is looked at: it is judged by this clock.
 */
void
watch_pause(struct iscsi_member *member)
{
	uint64_t pause_ms = member->now_ms - member->look_ms;

	if (pause_ms > member->options.deadline_ms) {
		member->stood_still_ms += pause_ms;
		member->progress_ms += pause_ms;
		if (member->progress_ms > member->now_ms)
			member->progress_ms = member->now_ms;
	}
	member->look_ms = member->now_ms;
}

void
watch_session(struct iscsi_member *member)
{
	bool idle = io_idle(member);

	watch_pause(member);
	if (idle && !member->step_pending) {
		if (member->now_ms - member->idle_since_ms >= KEEP_ALIVE_MS) {
			member->idle_since_ms = member->now_ms;
			session_keep_alive(member);
		}
		return;
	}
	if (member->now_ms < member->check_ms)
		return;
	member->check_ms = member->now_ms + watch_interval_ms(member);
	if (member->wire_count > 0 || member->step_pending)
		check_progress(member);
	if (member->state == SESSION_OPEN)
		check_age(member);
}
