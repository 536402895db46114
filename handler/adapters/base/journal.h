/* base/journal.h - events as entries of systemd's journal, with fields one can ask for: `journalctl
 * -t iraid IRAID_VOLUME=v0`.
 *
 * Whatever log the program has goes on beside it.  Never blocks: it is called on the volumes'
 * threads, and a journal that stands still must not stop a volume.  What it does not take is
 * counted, and the next entry it takes says how many.
 */
#ifndef IRAID_JOURNAL_H
#define IRAID_JOURNAL_H

struct journal;

/* The socket is JOURNAL_SOCKET, or IRAID_JOURNAL_SOCKET of the environment; empty: no journal is
 * wanted.  That nobody has it (yet) is no error.  NULL: no memory or descriptor; the other calls
 * accept that.
 */
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
struct journal *journal_open(void);
void journal_close(struct journal *journal);

/* severity: a syslog priority.  volume and member may be empty.  From any thread. */
void journal_event(struct journal *journal, int severity, const char *kind, const char *volume,
		   const char *member, const char *text);

#endif
