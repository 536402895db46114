/* assembly.h - may these members be started together, and which of them are trusted?  A pure
 * decision on the superblocks that could be read.
 *
 * The newest superblock, by (epoch, event), tells the truth about all members: it was durable on
 * every in-sync member before anything was acknowledged under it.  A member is trusted when
 * the newest says it is in sync, whatever its own says; one that the newest calls faulty or missing is
 * out of date, even if its own superblock claims otherwise.
 */
#ifndef IRAID_ASSEMBLY_H
#define IRAID_ASSEMBLY_H

#include <stdbool.h>
#include <stdint.h>

#include "../pure/layout.h"

enum presence {
	PRESENCE_AWAITED,	/* no answer yet, or not reachable: may still come */
	PRESENCE_EXAMINED,	/* its superblock is known */
	PRESENCE_REJECTED,	/* reachable, but has no superblock of ours: will not become a member by waiting */
};

struct assembly_input {
	int count;				/* members in the configuration */
	enum presence presence[IRAID_MEMBERS_MAX];
	const struct superblock *superblocks[IRAID_MEMBERS_MAX];	/* of the examined */
	const uint8_t *volume_uuid;
	uint64_t epoch_seen;
	bool force;
};

enum assembly_answer {
	ASSEMBLY_WAIT,		/* too few members so far */
	ASSEMBLY_DEGRADED,	/* could start, without some that may still come */
	ASSEMBLY_READY,		/* start: nobody else is to be waited for */
	ASSEMBLY_REFUSED,	/* not without an administrator */
};

struct assembly_verdict {
	enum assembly_answer answer;
	int newest;				/* index of the member whose superblock rules; -1 if none */
	int role[IRAID_MEMBERS_MAX];		/* by member of the configuration; -1 */
	bool in_sync[IRAID_MEMBERS_MAX];	/* by member of the configuration: present and trusted */
	const char *fault[IRAID_MEMBERS_MAX];	/* by member of the configuration: why it is not; NULL */
	char reason[256];			/* for WAIT and REFUSED */
};

void assembly_decide(const struct assembly_input *input, struct assembly_verdict *out);

#endif
