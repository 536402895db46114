/* base/journal.c - see journal.h.
 *
 * One datagram per entry, in the journal's native protocol (systemd's JOURNAL_NATIVE_PROTOCOL):
 * lines KEY=VALUE.  Values hold no newline here, so the form for those is not needed, nor the one
 * for entries too long for a datagram.  Spoken directly: sd_journal_send() waits when the journal
 * is slow, and knows one socket only.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "fault.h"
#include "journal.h"

#define ENTRY_MAX 4096

struct journal {
	int fd;
	struct sockaddr_un address;
	atomic_ullong missed; /* since the last entry that it took */
};

struct entry {
	char text[ENTRY_MAX];
	size_t length;
};

struct journal *
journal_open(void)
{
	const char *wanted = getenv("IRAID_JOURNAL_SOCKET");
	struct journal *journal;

	if (!wanted)
		wanted = JOURNAL_SOCKET;
	journal = calloc(1, sizeof(*journal));
	if (!journal || wanted[0] == '\0' || strlen(wanted) >= sizeof(journal->address.sun_path)) {
		free(journal);
		return NULL;
	}
	journal->address.sun_family = AF_UNIX;
	snprintf(journal->address.sun_path, sizeof(journal->address.sun_path), "%s", wanted);
	journal->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (journal->fd < 0) {
		free(journal);
		return NULL;
	}
	return journal;
}

void
journal_close(struct journal *journal)
{
	if (!journal)
		return;
	close(journal->fd);
	free(journal);
}

/* A name that a target gave must not make fields.  What does not fit is left out. */
static void
add_field(struct entry *entry, const char *key, const char *format, ...)
{
	char value[1024];
	size_t wanted, room = sizeof(entry->text) - entry->length;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	text_make_harmless(value);
	wanted = strlen(key) + strlen(value) + 2;
	if (wanted < room)
		entry->length +=
			(size_t)snprintf(entry->text + entry->length, room, "%s=%s\n", key, value);
}

static void
describe(struct entry *entry, int severity, const char *kind, const char *volume,
	 const char *member, const char *text)
{
	entry->length = 0;
	if (volume[0] != '\0')
		add_field(entry, "MESSAGE", "volume %s: %s", volume, text);
	else
		add_field(entry, "MESSAGE", "%s", text);
	add_field(entry, "PRIORITY", "%d", severity & LOG_PRIMASK);
	add_field(entry, "SYSLOG_IDENTIFIER", "iraid");
	add_field(entry, "SYSLOG_FACILITY", "%d", LOG_DAEMON >> 3);
	add_field(entry, "IRAID_KIND", "%s", kind);
	if (volume[0] != '\0')
		add_field(entry, "IRAID_VOLUME", "%s", volume);
	if (member[0] != '\0')
		add_field(entry, "IRAID_MEMBER", "%s", member);
}

void
journal_event(struct journal *journal, int severity, const char *kind, const char *volume,
	      const char *member, const char *text)
{
	unsigned long long missed;
	struct entry entry;

	if (!journal)
		return;
	describe(&entry, severity, kind, volume, member, text);
	missed = atomic_exchange(&journal->missed, 0);
	if (missed > 0)
		add_field(&entry, "IRAID_MISSED", "%llu", missed);
	if (sendto(journal->fd, entry.text, entry.length, MSG_NOSIGNAL | MSG_DONTWAIT,
		   (const struct sockaddr *)&journal->address, sizeof(journal->address)) < 0)
		atomic_fetch_add(&journal->missed, missed + 1);
}
